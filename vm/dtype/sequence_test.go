package dtype

import (
	"math"
	"math/rand"
	"testing"
)

// exact are the functions in float64, whose errors are far below those allowed.
var exact = map[string]func(float64) float64{
	"Exp": math.Exp, "Exp2": math.Exp2, "Log": math.Log, "Log2": math.Log2, "Sin": math.Sin, "Cos": math.Cos, "Tanh": math.Tanh,
	"Rsqrt":   func(x float64) float64 { return 1 / math.Sqrt(x) },
	"Sigmoid": func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
}

// ulps is |got − want| in units of the last place of want in a type; 0 where both
// are the same infinity or NaN, infinite where only one is.
func ulps(t Type, got uint64, want float64) float64 {
	g := t.Decode(got)
	if nearest := t.Encode(want, false); nearest == got || g != g && want != want {
		return 0
	} else if math.IsInf(t.Decode(nearest), 0) != math.IsInf(g, 0) {
		// The least infinity counts as one step above the greatest number.
		if d := int64(nearest) - int64(got); d == 1 || d == -1 {
			return 1
		}
		return math.Inf(1)
	}
	if g != g || want != want {
		return math.Inf(1)
	}
	_, e := math.Frexp(want)
	row := t.Row()
	e = max(e-1, 1-row.Bias)
	return math.Abs(g-want) / math.Ldexp(1, e-row.Man)
}

func checkSequence(t *testing.T, s *Sequence, x uint64, worst *float64, at *uint64) {
	if u := ulps(F32, s.Eval(x), exact[s.Name](F32.Decode(x))); u > *worst || u != u {
		*worst, *at = u, x
	}
}

func TestSequencesHoldTheirBounds(t *testing.T) {
	step := uint64(1021)
	if testing.Short() {
		step = 65521
	}
	for _, s := range Sequences() {
		if s.Approx {
			continue
		}
		if exact[s.Name] == nil {
			t.Errorf("%s: give its exact function", s.Name)
			continue
		}
		worst, at := 0.0, uint64(0)
		for x := uint64(0); x < 1<<32; x += step {
			checkSequence(t, s, x, &worst, &at)
		}
		// Where most of the interest lies, and multiples of π/2.
		rng := rand.New(rand.NewSource(1))
		for range int(20_000_000 / step) {
			for _, v := range []float64{rng.NormFloat64(), 100 * rng.NormFloat64(), 1 + rng.NormFloat64()/100, math.Pi / 2 * float64(rng.Intn(1<<20))} {
				checkSequence(t, s, F32.Encode(v, false), &worst, &at)
			}
		}
		for _, v := range []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat32, 1e-45, -1e-45, 88.72, 88.73, -103.9, -104, 0.6, 16367173 * math.Ldexp(1, 72)} {
			checkSequence(t, s, F32.Encode(v, false), &worst, &at)
		}
		if worst > s.Ulps {
			t.Errorf("%s: %.3f ulp at %#08x = %v, where it is %v and must be %v; the bound is %v", s.Name, worst, at, F32.Decode(at), F32.Decode(s.Eval(at)), exact[s.Name](F32.Decode(at)), s.Ulps)
		}
		t.Logf("%s: %d steps, at most %.3f ulp (at %v)", s.Name, len(s.Steps), worst, F32.Decode(at))
	}
}

// TestSequencesOfHalves tries every f16 and bf16: through f32 the result is within
// half an ulp of the type and a little.
func TestSequencesOfHalves(t *testing.T) {
	for _, s := range Sequences() {
		for _, h := range []Type{F16, BF16} {
			worst, at := 0.0, uint64(0)
			for x := range uint64(1 << 16) {
				if u := ulps(h, s.EvalAs(h, x), exact[s.Name](h.Decode(x))); !s.Approx && (u > worst || u != u) {
					worst, at = u, x
				}
			}
			if worst > 0.501 {
				t.Errorf("%s of %s: %.4f ulp at %v", s.Name, h, worst, h.Decode(at))
			}
		}
	}
}

func BenchmarkExp(b *testing.B) {
	s := SequenceOf("Exp", false)
	x := F32.Encode(0.75, false)
	for b.Loop() {
		s.Eval(x)
	}
}

// TestApproximationsAreNear holds what interpreter and simulator make of an
// approximation to a rough bound around the function: its other steps round.
func TestApproximationsAreNear(t *testing.T) {
	for _, s := range Sequences() {
		if !s.Approx {
			continue
		}
		for v := -6.0; v < 6; v += 0.01 {
			x := F32.Encode(v, false)
			want := exact[s.Name](F32.Decode(x))
			if u := ulps(F32, s.Eval(x), want); !(u <= 4+2*math.Abs(v)) && !(math.Abs(want) < 0.01 && u < 100) {
				t.Errorf("%s of %v is %v, want about %v: %.1f ulp", s.Name, v, F32.Decode(s.Eval(x)), want, u)
			}
		}
	}
}
