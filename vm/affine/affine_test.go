package affine

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

func TestCanonicalText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"(M + 15)/16", "(M + 15)/16"},
		{"ceildiv(M, 16)", "(M + 15)/16"},
		{"(16*i + 3)/16", "i"},
		{"(16*i + j)/16", "i + j/16"},
		{"(4*i + 3)/8", "i/2"},
		{"(4*i + 3) % 8", "4*(i % 2) + 3"},
		{"(i/4)/8", "i/32"},
		{"(i/4 + 1)/8", "(i + 4)/32"},
		{"b*a - a*b + 2*a", "2*a"},
		{"x/-4", "(-x)/4"},
		{"min(a + 1, a + 3)", "a + 1"},
		{"max(b, a)", "max(a, b)"},
		{"min(3, 5)*K", "3*K"},
		{"-7/2", "-4"},
		{"-7 % 2", "1"},
		{"(M/16)*(N/8)", "(M/16)*(N/8)"},
		{"i % 1", "0"},
	} {
		e, err := Parse(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if e.String() != c.want {
			t.Errorf("%s is %s, want %s", c.in, e, c.want)
		}
		back, err := Parse(e.String())
		if err != nil || !back.Equal(e) {
			t.Errorf("%s does not read back: %v %v", e, back, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "1:1: expected a number",
		"1 +":                     "1:4: expected a number",
		"f(1, 2)":                 "1:1: no function",
		"min(1)":                  "two arguments",
		"3/0":                     "1:2: no value: division by zero",
		"(1":                      "expected )",
		"9999999999999999999":     "not a 64-bit",
		"4000000000*4000000000":   "64 bits",
		strings.Repeat("(", 100):  "nest",
		strings.Repeat("1", 5000): "characters",
	} {
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: got %v, want %q", in, err, want)
		}
	}
}

// refExpr is a second, naive evaluator over a tree that never simplifies.
type refExpr struct {
	op   string
	v    int64
	name string
	a, b *refExpr
}

func randRef(r *rand.Rand, depth int) *refExpr {
	if depth == 0 || r.Intn(5) == 0 {
		if r.Intn(2) == 0 {
			return &refExpr{op: "const", v: int64(r.Intn(21) - 6)}
		}
		return &refExpr{op: "var", name: string(rune('a' + r.Intn(3)))}
	}
	return &refExpr{op: []string{"+", "-", "*", "/", "%", "min", "max", "ceil"}[r.Intn(8)], a: randRef(r, depth-1), b: randRef(r, depth-1)}
}

func (e *refExpr) build() Expr {
	switch e.op {
	case "const":
		return Const(e.v)
	case "var":
		return Var(e.name)
	}
	a, b := e.a.build(), e.b.build()
	switch e.op {
	case "+":
		return a.Add(b)
	case "-":
		return a.Sub(b)
	case "*":
		return a.Mul(b)
	case "/":
		return a.FloorDiv(b)
	case "%":
		return a.Mod(b)
	case "min":
		return a.Min(b)
	case "max":
		return a.Max(b)
	}
	return a.CeilDiv(b)
}

func (e *refExpr) eval(vars map[string]int64) (int64, bool) {
	switch e.op {
	case "const":
		return e.v, true
	case "var":
		return vars[e.name], true
	}
	a, ok1 := e.a.eval(vars)
	b, ok2 := e.b.eval(vars)
	if !ok1 || !ok2 {
		return 0, false
	}
	switch e.op {
	case "+":
		return a + b, true
	case "-":
		return a - b, true
	case "*":
		return a * b, true
	case "min":
		return min(a, b), true
	case "max":
		return max(a, b), true
	}
	if b == 0 {
		return 0, false
	}
	q := a / b
	for q*b > a == (b > 0) && q*b != a {
		q--
	}
	switch {
	case e.op == "/":
		return q, true
	case e.op == "%":
		return a - q*b, true
	case q*b != a:
		return q + 1, true
	}
	return q, true
}

func TestAgainstNaive(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	checked := 0
	for range 20000 {
		ref := randRef(r, 4)
		e := ref.build()
		bounds, vars := map[string]Range{}, map[string]int64{}
		for _, n := range []string{"a", "b", "c"} {
			lo := int64(r.Intn(30) - 10)
			hi := lo + int64(r.Intn(20))
			bounds[n], vars[n] = Range{lo, hi}, lo+r.Int63n(hi-lo+1)
		}
		want, ok := ref.eval(vars)
		if !ok {
			continue
		}
		checked++
		got, err := e.Eval(vars)
		if err != nil || got != want {
			t.Fatalf("%s at %v is %d (%v), want %d", e, vars, got, err, want)
		}
		if rg := e.Range(bounds); !rg.Contains(want) {
			t.Fatalf("%s with %v: range %s misses %d", e, bounds, rg, want)
		}
		back, err := Parse(e.String())
		if err != nil || back.String() != e.String() {
			t.Fatalf("%s reads back as %s (%v)", e, back, err)
		}
	}
	if checked < 10000 {
		t.Errorf("only %d cases had a value", checked)
	}
}

func TestRange(t *testing.T) {
	b := map[string]Range{"t": {0, 31}, "k": {0, 511}}
	for in, want := range map[string]string{
		"t/4": "[0, 7]", "t % 4": "[0, 3]", "t % 64": "[0, 31]", "16*k + t": "[0, 8207]", "unknown": "[?, ?]", "unknown % 8": "[0, 7]", "min(unknown, t)": "[?, 31]",
	} {
		e, err := Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(e.Range(b)); got != want {
			t.Errorf("range of %s is %s, want %s", in, got, want)
		}
	}
}

func TestEvalErrors(t *testing.T) {
	for in, want := range map[string]string{"n": "no value", "8/z": "division by zero", "big*big": "64 bits"} {
		e, _ := Parse(in)
		if _, err := e.Eval(map[string]int64{"z": 0, "big": 1 << 40}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}
