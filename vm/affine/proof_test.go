package affine

import (
	"strings"
	"testing"
)

func parseMap(t *testing.T, text string) Map {
	t.Helper()
	m, err := ParseMap(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestProve(t *testing.T) {
	for _, text := range []string{
		"(d0, d1) -> ((d0 * 8 + d1) / 8, (d0 * 8 + d1) mod 8), domain: d0 in [0, 9], d1 in [0, 7]",
		"(d0, d1) -> (d0), domain: d0 in [-2, -1], d1 in [0, 5], d0 + d1 * 2 in [0, 9]",
		"()[s0] -> (s0), domain: s0 in [-99, 99], s0 / -3 in [-11, -5]",
	} {
		p := Prove(parseMap(t, text))
		if p.Err != nil || p.Points == 0 {
			t.Errorf("%s: %d points, %v", text, p.Points, p.Err)
		}
	}
	if p := Prove(parseMap(t, "(d0) -> (d0), domain: d0 in [0, 99999999999]")); p.Err == nil {
		t.Error("a domain too large is proved")
	}
}

func TestBijective(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"(d0)[s0] -> (d0 * 2 + s0), domain: d0 in [0, 3], s0 in [0, 1]", ""},
		{"(d0)[s0] -> (d0 + s0), domain: d0 in [0, 6], s0 in [0, 1]", "met twice"},
		{"(d0) -> (d0), domain: d0 in [0, 6]", "[7] is not met"},
		{"(d0) -> (d0), domain: d0 in [0, 8]", "lies outside"},
	} {
		err := parseMap(t, c.text).Bijective([]int{8})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestSameFindsADifference(t *testing.T) {
	a := parseMap(t, "(d0) -> (d0 mod 4), domain: d0 in [0, 4]")
	b := parseMap(t, "(d0) -> (d0), domain: d0 in [0, 4]")
	if err := Same(a, b); err == nil || !strings.Contains(err.Error(), "[4]") {
		t.Errorf("the difference is %v", err)
	}
	if err := Same(a, a); err != nil {
		t.Error(err)
	}
}

func TestExplain(t *testing.T) {
	m := parseMap(t, "(th_x)[s0] -> ((th_x * 4 + s0) mod 1024, (th_x * 4 + s0) / 1024), domain: th_x in [0, 1023], s0 in [0, 3], th_x * 4 + s0 in [0, 2047]")
	out, steps := m.Explain()
	want, _ := m.Simplify(false)
	if !out.Equal(want) {
		t.Errorf("explained %s, simplified %s", out, want)
	}
	text := ""
	for _, s := range steps {
		text += s.Rule + ": " + s.Before + " => " + s.After + " (" + s.Facts + ")\n"
	}
	for _, part := range []string{"th_x in [0, 1023] => th_x in [0, 511]", "=> (th_x mod 256) * 4 + s0", "=> th_x / 256"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	for _, c := range []struct{ text, rules string }{
		{"(d0) -> (d0 mod 8), domain: d0 in [8, 15]", "R2"},
		{"(d0) -> ((d0 * 4) mod 12), domain: d0 in [0, 99]", ""},
		{"(d0, d1) -> ((d0 * 4 + d1) mod 12), domain: d0 in [0, 99], d1 in [0, 3]", "R5"},
		{"(d0) -> ((d0 mod 12) / 4), domain: d0 in [0, 99]", "R6"},
		{"(d0) -> ((d0 / 8 + 1) / 4 + 0), domain: d0 in [0, 99]", ""},
		{"(d0, d1) -> ((d0 * 8 + d1) / 16), domain: d0 in [0, 99], d1 in [0, 7]", "R8"},
		{"(d0) -> ((d0 / 8) / 4), domain: d0 in [0, 99]", ""},
		{"(d0) -> ((d0 mod 5) * 3 + (d0 / 5) * 15), domain: d0 in [0, 99]", ""},
		{"(d0) -> (d0 - (d0 / 8) * 8), domain: d0 in [0, 99]", "R11"},
		{"(d0, d1) -> (min(d0, d1)), domain: d0 in [0, 9], d1 in [10, 19]", "R12"},
		{"(d0) -> (d0), domain: d0 in [5, 5]", "R1"},
		{"(d0) -> (d0), domain: d0 in [0, 99], d0 mod 8 + 5 in [6, 7]", "C3"},
		{"(d0, d1) -> (d0, d1), domain: d0 in [0, 99], d1 in [0, 99], (d0 + d1) * 3 in [0, 20]", ""},
		{"(d0, d1) -> (d0, d1), domain: d0 in [0, 99], d1 in [0, 99], (d0 + d1) / 3 in [0, 20]", "C5"},
		{"(d0, d1) -> (d0, d1), domain: d0 in [0, 99], d1 in [0, 127], d0 * 128 + d1 in [0, 1279]", "C6"},
		{"(d0, d1) -> (d0, d1), domain: d0 in [0, 9], d1 in [0, 9], d0 + d1 in [0, 18]", "C2"},
	} {
		m := parseMap(t, c.text)
		out, steps := m.Explain()
		if want, _ := m.Simplify(false); !out.Equal(want) {
			t.Errorf("%s: explained %s, simplified %s", c.text, out, want)
		}
		said := ""
		for _, s := range steps {
			said += s.Rule + "\n"
		}
		if !strings.Contains(said, c.rules) {
			t.Errorf("%s: no %s in\n%s", c.text, c.rules, said)
		}
		if p := Prove(m); p.Err != nil || p.Points == 0 {
			t.Errorf("%s: %v", c.text, p.Err)
		}
	}
	if _, steps := want.Explain(); len(steps) != 0 {
		t.Errorf("a simple map has the steps %v", steps)
	}
}
