package conform

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestAMD(t *testing.T) {
	var out bytes.Buffer
	s, err := Run(&out, load(t, "amd.json"), false)
	if err != nil || !s.OK() || s.Passed != 2452 {
		t.Errorf("%v %v\n%s", s, err, out.String())
	}
}

// TestAMDBroken changes each recorded value of many cases, one at a time; each
// change must be noticed.
func TestAMDBroken(t *testing.T) {
	step := map[string]int{"query:get-register": 31, "query:matrix-entry": 17, "query:register-layout+matrix-layout": 40, "query:detail": 4}
	seen := map[string]int{}
	for _, c := range load(t, "amd.json") {
		seen[c.Kind]++
		if n := step[c.Kind]; n > 0 && seen[c.Kind]%n != 1 && !strings.HasPrefix(c.Name, "mod/") {
			continue
		}
		var expect map[string]any
		if err := json.Unmarshal(c.Expect, &expect); err != nil {
			t.Fatal(err)
		}
		for _, broken := range append(breakAll(expect), withKey(expect, "more", 1)) {
			raw, err := json.Marshal(broken)
			if err != nil {
				t.Fatal(err)
			}
			if r := Check(Case{Name: c.Name, Kind: c.Kind, Input: c.Input, Expect: raw}); r.Outcome != Failed {
				t.Errorf("%s: %s with %s", c.Name, r.Outcome, raw)
			}
		}
	}
}

func withKey(m map[string]any, key string, v any) map[string]any {
	m = maps.Clone(m)
	m[key] = v
	return m
}

// breakAll lists copies of an object, each with one value changed somewhere.
func breakAll(m map[string]any) []map[string]any {
	var out []map[string]any
	for _, key := range slices.Sorted(maps.Keys(m)) {
		for _, v := range breakValue(m[key]) {
			out = append(out, withKey(m, key, v))
		}
	}
	return out
}

func breakValue(v any) []any {
	switch v := v.(type) {
	case map[string]any:
		out := []any{withKey(v, "more", 1.0)}
		for _, b := range breakAll(v) {
			out = append(out, b)
		}
		return out
	case []any:
		out := []any{append(slices.Clone(v), "more")}
		if len(v) > 0 {
			last := len(v) - 1
			out = append(out, v[:last])
			for _, b := range breakValue(v[last]) {
				c := slices.Clone(v)
				c[last] = b
				out = append(out, c)
			}
		}
		return out
	case string:
		return []any{v + "0"}
	case float64:
		return []any{v + 1}
	}
	return []any{"something"}
}
