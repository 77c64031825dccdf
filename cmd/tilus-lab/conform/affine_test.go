package conform

import (
	"encoding/json"
	"strings"
	"testing"
)

// brokenCopies checks a case with each of the named answers changed; all must fail.
func brokenCopies(t *testing.T, c Case, change func(key string, v any) (any, bool)) (n int) {
	t.Helper()
	var keys map[string]any
	if err := json.Unmarshal(c.Expect, &keys); err != nil {
		t.Fatal(err)
	}
	for key := range keys {
		var want map[string]any
		if err := json.Unmarshal(c.Expect, &want); err != nil {
			t.Fatal(err)
		}
		changed, ok := change(key, want[key])
		if !ok {
			continue
		}
		want[key] = changed
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		n++
		if r := Check(Case{Kind: c.Kind, Input: c.Input, Expect: raw}); r.Outcome != Failed {
			t.Errorf("%s: %s although %s is %.100v", c.Name, r.Outcome, key, changed)
		}
	}
	return n
}

// Each list of facts about a type fails when one of its numbers is another.
func TestBrokenTypeCasesFail(t *testing.T) {
	n := 0
	for _, c := range load(t, "dtype.json") {
		n += brokenCopies(t, c, func(key string, v any) (any, bool) {
			switch key {
			case "decode", "bytes", "nbits":
				return spoil(v)
			case "encode":
				list := v.([]any)
				if len(list) == 0 {
					return nil, false
				}
				last := list[len(list)-1].(map[string]any)
				last["rne"] = last["rne"].(float64) + 1 // what upstream answers is a comment
				return v, true
			}
			return nil, false
		})
	}
	if n < 30 {
		t.Errorf("%d copies are broken", n)
	}
}

// Each case about maps fails when its map, a truth value or a number is another.
func TestBrokenMapCasesFail(t *testing.T) {
	known := map[string]bool{}
	for _, k := range affineKinds() {
		known[k.Name] = true
	}
	cases, n := 0, 0
	for _, c := range load(t, "xla.json") {
		if !known[c.Kind] {
			continue
		}
		cases++
		if r := Check(c); r.Outcome != Passed {
			t.Errorf("%s: %s", c.Name, r.Note)
		}
		broken := brokenCopies(t, c, func(key string, v any) (any, bool) {
			switch {
			case strings.HasPrefix(key, "prototype") || key == "upstream_map" || key == "any_of":
				return nil, false
			case key == "map" || key == "expr":
				return v.(string) + " + 1", true // no map, and another expression
			}
			return spoil(v)
		})
		if broken == 0 && c.Kind != "rescale_any_of" {
			t.Errorf("%s: nothing to break", c.Name)
		}
		n += broken
	}
	if cases < 90 || n < cases {
		t.Errorf("%d cases, %d broken copies", cases, n)
	}
}
