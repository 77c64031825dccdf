package conform

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDispatchKinds checks every case about dispatch, and that each of them fails
// when a number or a word that it expects is changed.
func TestDispatchKinds(t *testing.T) {
	const name = "hw.json"
	f, err := os.Open(filepath.Join("..", "..", "..", "tests", "testdata", "cases", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cases, err := Read(name, f)
	if err != nil {
		t.Fatal(err)
	}
	mine := map[string]int{}
	for _, k := range dispatchKinds() {
		mine[k.Name] = 0
	}
	for _, c := range cases {
		if _, ok := mine[c.Kind]; !ok {
			continue
		}
		mine[c.Kind]++
		if r := Check(c); r.Outcome != Passed {
			t.Errorf("%s (%s): %s %s", c.Name, c.Kind, r.Outcome, r.Note)
			continue
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
	for k, n := range mine {
		if n == 0 {
			t.Errorf("no case of kind %s", k)
		}
	}
}
