package affine

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
)

// points lists what a map holds: variables and results of every point.
func points(t *testing.T, m Map) []string {
	t.Helper()
	var out []string
	err := m.Each(func(dims, symbols, results []int64) error {
		out = append(out, fmt.Sprint(dims, symbols, results))
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", m, err)
	}
	return out
}

// randomExpr draws an expression in the notation of maps.
func randomExpr(r *rand.Rand, vars []string, depth int) string {
	if depth == 0 || r.Intn(4) == 0 {
		if r.Intn(5) == 0 {
			return fmt.Sprint(r.Intn(9) - 4)
		}
		return vars[r.Intn(len(vars))]
	}
	a, c := randomExpr(r, vars, depth-1), []int{2, 3, 4, 6, 8, -2, -3}[r.Intn(7)]
	switch r.Intn(7) {
	case 0, 1, 2:
		return "(" + a + " + " + randomExpr(r, vars, depth-1) + ")"
	case 3:
		return fmt.Sprintf("(%s) * %d", a, c)
	case 4:
		return fmt.Sprintf("(%s) / (%d)", a, c)
	case 5:
		return fmt.Sprintf("(%s) mod %d", a, max(c, -c))
	}
	return fmt.Sprintf("%s(%s, %s)", []string{"min", "max"}[r.Intn(2)], a, randomExpr(r, vars, depth-1))
}

func randomMap(r *rand.Rand) string {
	vars := []string{"d0", "d1", "s0"}
	var domain []string
	for _, v := range vars {
		lo := r.Intn(10) - 5
		domain = append(domain, fmt.Sprintf("%s in [%d, %d]", v, lo, lo+r.Intn(8)))
	}
	for range r.Intn(3) {
		lo := r.Intn(20) - 10
		domain = append(domain, fmt.Sprintf("%s in [%d, %d]", randomExpr(r, vars, 2), lo, lo+r.Intn(12)))
	}
	return fmt.Sprintf("(d0, d1)[s0] -> (%s, %s), domain: %s", randomExpr(r, vars, 4), randomExpr(r, vars, 3), strings.Join(domain, ", "))
}

// Simplifying, rescaling aside, keeps every point with its results, also among
// negative numbers; simplifying again changes nothing.
func TestSimplifyKeepsPoints(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	n := 4000
	if testing.Short() {
		n = 500
	}
	shorter := 0
	for range n {
		text := randomMap(r)
		m, err := ParseMap(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := points(t, m)
		for _, keep := range []bool{false, true} {
			s, _ := m.Simplify(keep)
			if x, _ := m.SimplifyAsXLA(keep); !reflect.DeepEqual(points(t, x), want) {
				t.Fatalf("%s\nsimplified as by XLA to\n%s\nholds other points", m, x)
			}
			if got := points(t, s); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s\nsimplified to\n%s\nholds %d points, not %d", m, s, len(got), len(want))
			}
			if again, changed := s.Simplify(keep); changed {
				t.Fatalf("%s\nsimplified to\n%s\nand again to\n%s", m, s, again)
			}
			if len(s.String()) < len(m.String()) {
				shorter++
			}
		}
		back, err := ParseMap(m.String())
		if err != nil || m.KnownEmpty() != back.KnownEmpty() || !m.KnownEmpty() && !back.Equal(m) {
			t.Fatalf("%s reads back as %s, %v", m, back, err)
		}
	}
	if shorter < n/4 {
		t.Errorf("only %d of %d maps became shorter", shorter, 2*n)
	}
}

// Composition is composition of the sets of points.
func TestComposeIsComposition(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 300 {
		first, err := ParseMap(randomMap(r))
		if err != nil {
			t.Fatal(err)
		}
		second, err := ParseMap(randomMap(r))
		if err != nil {
			t.Fatal(err)
		}
		m, err := Compose(first, second)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		if !first.KnownEmpty() && !second.KnownEmpty() {
			lo, hi := second.Ranges[0].Range.Lo, second.Ranges[0].Range.Hi
			err = first.Each(func(dims, symbols, results []int64) error {
				for s := lo; s <= hi; s++ {
					if in, err := second.Contains(results, []int64{s}); err != nil || !in {
						continue
					}
					out, err := second.Eval(results, []int64{s})
					if err != nil {
						return err
					}
					want[fmt.Sprint(dims, []int64{s, symbols[0]}, out)] = true
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		got := points(t, m)
		for _, p := range got {
			if !want[p] {
				t.Fatalf("%s\nafter\n%s\nis\n%s\nwhich holds %s", second, first, m, p)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s\nafter\n%s\nis\n%s\nwith %d points, not %d", second, first, m, len(got), len(want))
		}
	}
}

// Rescaling counts the same points in steps: results stay, in order.
func TestRescaleKeepsResults(t *testing.T) {
	m, err := ParseMap("(d0)[s0] -> (d0 * 50 + s0), domain: d0 in [0, 3], s0 in [-7, 41], s0 mod 6 in [3, 3]")
	if err != nil {
		t.Fatal(err)
	}
	scaled, changed := m.Rescale()
	results := func(m Map) (out []int64) {
		if err := m.Each(func(_, _, r []int64) error { out = append(out, r...); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got, want := results(scaled), results(m); !changed || !reflect.DeepEqual(got, want) {
		t.Errorf("%s gives %v, not %v", scaled, got, want)
	}
}

// TestRescaleMerges: what several remainders say of one variable is one step, also where
// they have not been merged before, and other variables begin and end on theirs.
func TestRescaleMerges(t *testing.T) {
	m, err := ParseMap("(d0)[s0] -> (d0, s0), domain: d0 in [0, 9], s0 in [0, 41], d0 mod 3 in [1, 1], s0 mod 2 in [1, 1], s0 mod 3 in [1, 1]")
	if err != nil {
		t.Fatal(err)
	}
	out, changed := m.Rescale()
	if want := "(d0)[s0] -> (d0, s0 * 6 + 1), domain: d0 in [1, 7], s0 in [0, 6], d0 mod 3 in [1, 1]"; !changed || out.String() != want {
		t.Errorf("%s\nis not %s", out, want)
	}
}

func TestMapErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                                       "1:1: expected (",
		"(d0) -> (d0)":                           "no domain says what d0 may be; write d0 in [lo, hi] behind domain: [Affine.E1]\n\thelp: a map is written as (d0, d1)",
		"(d0, d0) -> (), domain: d0 in [0, 1]":   "d0 is declared twice",
		"(d0) -> (d1), domain: d0 in [0, 1]":     "d1 is not declared",
		"(mod) -> ()":                            "a word of the notation",
		"(d0) -> (d0), domain: d0 in [0, x]":     "expected a whole number",
		"(d0) -> (d0 / 0), domain: d0 in [0, 1]": "1:13: no value: division by zero",
		"(d0) -> (d0), domain: d0 in [0, 1] x":   "after the map",
		strings.Repeat("x", 1<<17):               "at most",
	} {
		if _, err := ParseMap(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", in, err, want)
		}
	}
	m, _ := ParseMap("(d0) -> (d0), domain: d0 in [0, 99999999]")
	if err := m.Each(func(_, _, _ []int64) error { return nil }); err == nil {
		t.Error("a map of 10^8 points is enumerated")
	}
}

func TestDivisor(t *testing.T) {
	for text, want := range map[string]int64{"4*i + 8*j": 4, "16*k/4": 4, "i % 8": 1, "6*i % 4": 2, "m": 64, "m/16": 4, "min(8*i, 12)": 4, "0": 0} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Divisor(map[string]int64{"m": 64}); got != want {
			t.Errorf("%s is divided by %d, want %d", text, got, want)
		}
	}
}

func FuzzParseMap(f *testing.F) {
	for _, s := range []string{
		"(d0, d1)[s0]{rt0} -> (d0 * 4 + s0, d1 mod 3 - rt0), domain: d0 in [0, 7], d1 in [-3, 3], s0 in [0, 3], rt0 in [0, 1], d0 + d1 in [0, 8]",
		"KNOWN EMPTY", "UNDEFINED", "() -> ()", "(a) -> (min(a, 3) ceildiv -2), domain: a in [1, 2]",
	} {
		f.Add(s)
	}
	r := rand.New(rand.NewSource(3))
	for range 20 {
		f.Add(randomMap(r))
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMap(text)
		if err != nil {
			return
		}
		back, err := ParseMap(m.String())
		if err != nil || back.String() != m.String() {
			t.Fatalf("%s reads back as %s, %v", m, back, err)
		}
		s, _ := m.Simplify(false)
		s.RemoveUnusedVars()
		s.Rescale()
		s.SymbolsToDims()
		if _, err := Compose(s, s); err != nil && len(s.Dims) == len(s.Results) && !strings.Contains(err.Error(), "64 bits") &&
			!strings.Contains(err.Error(), "by zero") && !strings.Contains(err.Error(), "too many terms") {
			t.Fatalf("%s: %v", s, err)
		}
	})
}

// What XLA's own tests say of maps (xla/hlo/analysis/indexing_map_test.cc and
// symbolic_expr_test.cc), where more than the points matters.
func TestPublishedMaps(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"(d0)[s0] -> (d0 - (s0 / 3) * 12 + s0 * 7), domain: d0 in [0, 1], s0 in [0, 3]",
			"(d0)[s0] -> ((s0 mod 3) * 4 + s0 * 3 + d0), domain: d0 in [0, 1], s0 in [0, 3]"},
		{"(d0)[s0] -> (d0 - (s0 / 3) * 3 + s0), domain: d0 in [0, 1], s0 in [0, 3]",
			"(d0)[s0] -> (s0 mod 3 + d0), domain: d0 in [0, 1], s0 in [0, 3]"},
		{"()[s0] -> ((s0 / 3) * 12 - s0 * 7), domain: s0 in [0, 9]", "()[s0] -> ((s0 / 3) * 12 + s0 * -7), domain: s0 in [0, 9]"},
		{"() -> ((5 / 2) mod -3, -7 mod -3)", "() -> (2, 2)"},
		{"(d0) -> (d0 mod -3), domain: d0 in [-5, 5]", "(d0) -> (d0 mod 3), domain: d0 in [-5, 5]"},
		// What divides all terms of a constraint divides its range, and what divides both
		// operands of a minimum or maximum divides that.
		{"(d0, d1) -> (d0), domain: d0 in [0, 7], d1 in [0, 9], d0 * 6 + d1 * 4 in [0, 15]", "(d0, d1) -> (d0), domain: d0 in [0, 7], d1 in [0, 9], d0 * 3 + d1 * 2 in [0, 7]"},
		{"(d0, d1)[s0] -> (d0), domain: d0 in [0, 7], d1 in [0, 9], s0 in [0, 1], d0 * 6 + d1 * 4 + s0 in [0, 15]", "(d0, d1)[s0] -> (d0), domain: d0 in [0, 7], d1 in [0, 9], s0 in [0, 1], d0 * 3 + d1 * 2 in [0, 7]"},
		{"(d0, d1) -> (d0), domain: d0 in [0, 7], d1 in [0, 9], d0 * 6 + d1 * 4 in [2, 15]", "(d0, d1) -> (d0), domain: d0 in [0, 7], d1 in [0, 9], d0 * 6 + d1 * 4 in [2, 15]"},
		{"(d0, d1) -> ((d0 * 5 + d1 * 3) / 16, d1), domain: d0 in [0, 7], d1 in [0, 9], d0 * 5 + d1 * 3 in [0, 15]", "(d0, d1) -> (0, d1), domain: d0 in [0, 7], d1 in [0, 9], d0 * 5 + d1 * 3 in [0, 15]"},
		{"(d0, d1) -> (max(d0 * 4, 8) mod 4, (min(d0 * 4, d1 * 8) + 9) / 4, (max(d0 * 6, 3) + d1 * 3) mod 3), domain: d0 in [0, 7], d1 in [0, 9]",
			"(d0, d1) -> (0, min(d0 * 4, d1 * 8) / 4 + 2, 0), domain: d0 in [0, 7], d1 in [0, 9]"},
		{"(d0, d1) -> (0 ceildiv (d0 - d1)), domain: d0 in [0, 7], d1 in [0, 9]", "(d0, d1) -> (0), domain: d0 in [0, 7], d1 in [0, 9]"},
	} {
		m, err := ParseMap(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		s, _ := m.SimplifyAsXLA(false)
		if s.String() != c.want {
			t.Errorf("%s\nbecomes %s,\nnot %s", c.in, s, c.want)
		}
		if again, changed := s.SimplifyAsXLA(false); changed {
			t.Errorf("%s\nbecomes %s,\nand then %s", c.in, s, again)
		}
	}
}
