package conform

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestHardwareKinds checks every case about shared memory, dispatch, fragments and tensor cores, and that each of them
// fails when a number or a word that it expects is changed.
func TestHardwareKinds(t *testing.T) {
	cases := load(t, "hw.json")
	for name, kinds := range map[string][]Kind{"banks": bankKinds(), "dispatch": dispatchKinds(), "fragments": mmaKinds(), "Volta": voltaKinds()} {
		t.Run(name, func(t *testing.T) {
			mine := map[string]int{}
			for _, k := range kinds {
				mine[k.Name] = 0
			}
			for _, c := range cases {
				if _, ok := mine[c.Kind]; ok {
					mine[c.Kind]++
					holdsAlone(t, c)
				}
			}
			for k, n := range mine {
				if n == 0 {
					t.Errorf("no case of kind %s", k)
				}
			}
		})
	}
}

// TestFormulaOfWiderRows: half of the elements of a period of the 128-byte mode are elsewhere
// than the formula says where rows have 256 bytes.
func TestFormulaOfWiderRows(t *testing.T) {
	for _, c := range []struct{ input, expect string }{
		{`{"sizeof": 2, "NX": 128, "mode": "128B", "xy": [[0, 0]]}`, `{"mismatches": 256, "elements": 512}`},
		{`{"sizeof": 2, "NX": 64, "mode": "128B", "xy": [[0, 0]]}`, `{"mismatches": 0, "elements": 512}`},
		{`{"sizeof": 2, "NX": 16, "mode": "32B", "xy": [[0, 0]]}`, `{"mismatches": 0, "elements": 128}`},
	} {
		if r := Check(Case{Name: "t", Kind: "tma.seed_formula", Input: []byte(c.input), Expect: []byte(c.expect)}); r.Outcome != Passed {
			t.Errorf("%s: %s %s", c.input, r.Outcome, r.Note)
		}
	}
}

// holdsAlone checks that a case passes, and with any other answer does not.
func holdsAlone(t *testing.T, c Case) {
	t.Helper()
	if r := Check(c); r.Outcome != Passed {
		t.Errorf("%s (%s): %s %s", c.Name, c.Kind, r.Outcome, r.Note)
		return
	}
	var expect any
	if err := json.Unmarshal(c.Expect, &expect); err != nil {
		t.Fatal(err)
	}
	broken := 0
	breakEach(expect, "", func(path string) {
		broken++
		raw, err := json.Marshal(expect)
		if err != nil {
			t.Fatal(err)
		}
		bad := c
		bad.Expect = raw
		if r := Check(bad); r.Outcome != Failed {
			t.Errorf("%s (%s): passes with %s broken", c.Name, c.Kind, path)
		}
	})
	if broken == 0 {
		t.Errorf("%s (%s): nothing in it can be broken", c.Name, c.Kind)
	}
	extra := c
	extra.Expect = json.RawMessage(strings.Replace(string(c.Expect), "{", `{"no_such_key": 1, `, 1))
	if r := Check(extra); r.Outcome != Failed {
		t.Errorf("%s (%s): passes with a key that nobody knows", c.Name, c.Kind)
	}
}

// breakEach changes each leaf that is compared, one after the other, and calls f
// between change and restoration. Of a long list it breaks the first and last.
func breakEach(v any, path string, f func(path string)) {
	set := func(get any, put func(any), path string) {
		switch x := get.(type) {
		case float64:
			put(x + 1)
		case bool:
			put(!x)
		case string:
			put("x" + x + "0")
		default:
			breakEach(get, path, f)
			return
		}
		f(path)
		put(get)
	}
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			if slices.Contains(prose, k) || slices.Contains(bankProse, k) || k == "desc" {
				continue
			}
			set(v[k], func(x any) { v[k] = x }, path+"."+k)
		}
	case []any:
		for i := range v {
			if i == 0 || i == len(v)-1 {
				set(v[i], func(x any) { v[i] = x }, path+"[]")
			}
		}
	}
}
