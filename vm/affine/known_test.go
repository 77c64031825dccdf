package affine

import (
	"math/rand"
	"testing"
)

func parsed(t *testing.T, text string) Expr {
	t.Helper()
	e, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// TestProofs proves what lowering needs, of loops as programs have them.
func TestProofs(t *testing.T) {
	k := NewKnown()
	k.Multiple("K", 16)
	k.Restrict("N", Range{1, 1 << 20})
	k.Runs("b", Span{Const(0), parsed(t, "M/16"), 1})
	k.Runs("i", Span{Const(0), Var("K"), 16})
	k.Runs("j", Span{Var("i"), parsed(t, "i + 16"), 1})
	k.Runs("d", Span{parsed(t, "N"), Const(0), -1})
	for _, c := range []struct {
		e    string
		want bool
	}{
		{"M - 16*b - 16", true},
		{"M - 16*b - 17", false},
		{"K - i - 16", true},
		{"K - i - 17", false},
		{"K - j - 1", true},
		{"K - j - 2", false},
		{"j - i", true},
		{"i - j", false},
		{"d - 1", true},
		{"N - d", true},
		{"N - d - 1", false},
		{"M - min(16*b + 15, M - 1) - 1", true},
		{"max(b, i - K)", true},
		{"K - 8*(i/8) - 8", true},
		{"N*(M/16) - N*b - N", true},
		{"(K - 16)/32 - i/32", true},
		{"M*i", false},
		{"K/16 - i/16 - 1", true},
	} {
		if got := k.NonNegative(parsed(t, c.e)); got != c.want {
			t.Errorf("%s ≥ 0: %t", c.e, got)
		}
	}
	if e := parsed(t, "min(b, L/16 - 1)"); k.NonNegative(e) || !k.NonNegative(e, parsed(t, "L/16 - 1")) {
		t.Errorf("what is given does not count, or too much: %s", e)
	}
	for e, want := range map[string]int64{"i": 16, "j": 1, "b*16 + K": 16, "K/8": 2, "i % 32": 16} {
		if got := k.Divisor(parsed(t, e)); got != want {
			t.Errorf("%s is divided by %d, want %d", e, got, want)
		}
	}
	if got := k.Range(parsed(t, "d + 1")); got != (Range{2, 1<<20 + 1}) {
		t.Errorf("d + 1 lies in %s", got)
	}
}

// TestProofsHold draws expressions over loops and tries every turn of them.
func TestProofsHold(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	proved := 0
	for range 4000 {
		k := NewKnown()
		m := int64(1 + r.Intn(12))
		step := int64(1 + r.Intn(3))
		if r.Intn(2) == 0 {
			m *= step
			k.Multiple("m", step)
		}
		k.Restrict("m", Range{1, 100})
		d := int64(1 + r.Intn(4))
		outer := Span{Const(0), Var("m"), step}
		inner := Span{Var("i"), Var("m").FloorDiv(Const(d)).Add(Var("i")), 1}
		if r.Intn(3) == 0 {
			inner = Span{Var("m"), Var("i"), -1}
		}
		k.Runs("i", outer)
		k.Runs("j", inner)
		e := Const(int64(r.Intn(9) - 4))
		for range 1 + r.Intn(4) {
			x := Var([]string{"m", "i", "j"}[r.Intn(3)])
			switch r.Intn(6) {
			case 0:
				x = x.FloorDiv(Const(d))
			case 1:
				x = x.Add(Var("i")).FloorDiv(Const(step + 1))
			case 2:
				x = x.Mul(Var("m"))
			case 3:
				x = x.Min(Var("m").AddConst(-1))
			}
			e = e.Add(x.MulConst(int64(r.Intn(7) - 3)))
		}
		if !k.NonNegative(e) {
			continue
		}
		proved++
		for i := int64(0); i < m; i += step {
			from, to := i, m/d+i
			if inner.Step < 0 {
				from, to = m, i
			}
			for j := from; inner.Step > 0 && j < to || inner.Step < 0 && j > to; j += inner.Step {
				at := map[string]int64{"m": m, "i": i, "j": j}
				if v, err := e.Eval(at); err != nil || v < 0 {
					t.Fatalf("%s is %d (%v) at %v, but proved", e, v, err, at)
				}
				if g := k.Divisor(e); g != 0 {
					if v, _ := e.Eval(at); v%g != 0 {
						t.Fatalf("%s is %d at %v, not divided by %d", e, v, at, g)
					}
				}
				if v, _ := e.Eval(at); !k.Range(e).Contains(v) {
					t.Fatalf("%s is %d at %v, not in %s", e, v, at, k.Range(e))
				}
			}
		}
	}
	if proved < 400 {
		t.Errorf("only %d of 4000 are proved", proved)
	}
}
