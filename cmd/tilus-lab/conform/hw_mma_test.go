package conform

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMMAKinds checks every case about fragments and tensor cores, and that each of them fails when
// a number or a word that it expects is changed.
func TestMMAKinds(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "..", "tests", "testdata", "cases", "hw.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cases, err := Read("hw.json", f)
	if err != nil {
		t.Fatal(err)
	}
	mine := map[string]int{}
	for _, k := range append(mmaKinds(), voltaKinds()...) {
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
		breakEach(expect, "", func(path string) {
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
		extra := c
		extra.Expect = json.RawMessage(strings.Replace(string(c.Expect), "{", `{"no_such_key": 1, `, 1))
		if r := Check(extra); r.Outcome != Failed {
			t.Errorf("%s (%s): passes with an unknown key", c.Name, c.Kind)
		}
	}
	for kind, n := range mine {
		if n == 0 {
			t.Errorf("no case of kind %s", kind)
		}
	}
}

func TestArithmetic(t *testing.T) {
	for text, want := range map[string]float64{"-(1-2^-24)": -1 + 0x1p-24, "1.5*2^-23": 1.5 * 0x1p-23, "(1-2^-11)^2": (1 - 0x1p-11) * (1 - 0x1p-11), "-2": -2} {
		if got, err := arithmetic(text); err != nil || got != want {
			t.Errorf("%s is %x, %v; want %x", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1-", "(1", "x"} {
		if v, err := arithmetic(text); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
}

func TestFormula(t *testing.T) {
	row, col, err := rowAndColumn("row = 8*(r mod 2)+l/4, col = 8*(r div 2)+2*(l mod 4)+h", "r", "l", "h")
	if err != nil {
		t.Fatal(err)
	}
	if r, c := row(3, 13, 1), col(3, 13, 1); r != 11 || c != 11 {
		t.Errorf("(%d, %d)", r, c)
	}
	for _, text := range []string{"row = l, col =", "row = (l, col = l", "row = x, col = l", "row = l l, col = l", "l, l", "row = l mod 0, col = l"} {
		if _, _, err := rowAndColumn(text, "l"); err == nil {
			t.Errorf("%q reads", text)
		}
	}
}
