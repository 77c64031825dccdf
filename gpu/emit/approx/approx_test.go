package approx

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
)

// exact are the functions that results are compared with. Those of package math are within
// a unit of the last place themselves, which the comparison allows on top.
var exact = map[hlo.Op]func(x, y float64) float64{
	hlo.Exp: one(math.Exp), hlo.Expm1: one(math.Expm1), hlo.Log: one(log), hlo.Log1p: one(math.Log1p), hlo.Tanh: one(math.Tanh), hlo.Erf: one(math.Erf),
	hlo.Logistic: one(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }), hlo.Rsqrt: one(rsqrt), hlo.Cbrt: one(math.Cbrt),
	hlo.Sine: one(math.Sin), hlo.Cosine: one(math.Cos), hlo.Tan: one(func(x float64) float64 { return math.Sin(x) / math.Cos(x) }),
	hlo.Asin: one(func(x float64) float64 { return math.Atan2(x, math.Sqrt((1-x)*(1+x))) }), hlo.Acos: one(func(x float64) float64 { return math.Atan2(math.Sqrt((1-x)*(1+x)), x) }),
	hlo.Sinh: one(math.Sinh), hlo.Cosh: one(math.Cosh), hlo.Asinh: one(math.Asinh), hlo.Acosh: one(math.Acosh), hlo.Atanh: one(math.Atanh),
	hlo.RoundAway: one(math.Round), hlo.Power: math.Pow, hlo.Atan2: func(y, x float64) float64 { return math.Copysign(math.Atan2(math.Abs(y), x), y) }, // also where y/x vanishes
}

func one(f func(float64) float64) func(x, y float64) float64 {
	return func(x, _ float64) float64 { return f(x) }
}

// log also takes numbers that are not normal, which math.Log does not on all machines.
func log(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p60) - 60*math.Ln2
	}
	return math.Log(x)
}

func rsqrt(x float64) float64 {
	if x <= 0 || math.IsNaN(x) || math.IsInf(x, 1) {
		return 1 / math.Sqrt(x)
	}
	r := new(big.Float).SetPrec(200).SetFloat64(x)
	v, _ := new(big.Float).SetPrec(200).Quo(big.NewFloat(1), r.Sqrt(r)).Float64()
	return v
}

// slack is how far package math may be off itself.
const slack = 2

func ulps(got, want float64) float64 {
	switch {
	case math.IsNaN(want) && math.IsNaN(got) || got == want:
		return 0
	case math.IsNaN(want) != math.IsNaN(got) || math.IsInf(want, 0) || math.IsInf(got, 0):
		return math.Inf(1)
	}
	_, e := math.Frexp(want)
	return math.Abs(got-want) / math.Ldexp(1, max(e-53, -1074))
}

// draw is a number between bounds: of any size, or evenly.
func draw(r *rand.Rand, lo, hi float64) float64 {
	if r.IntN(2) == 0 {
		return lo + (hi/2-lo/2)*2*r.Float64()
	}
	for {
		v := math.Float64frombits(r.Uint64())
		if r.IntN(2) == 0 {
			v = math.Copysign(math.Exp(20*r.Float64()-12), v)
		}
		if v >= lo && v <= hi {
			return v
		}
	}
}

func TestBounds(t *testing.T) {
	for _, b := range Bounds() {
		f, err := eval.Apply(Of(b.Op))
		if err != nil {
			t.Fatal(b.Op, err)
		}
		r := rand.New(rand.NewPCG(uint64(b.Op), 1))
		worst, at, at2 := 0.0, 0.0, 0.0
		out := make([]uint64, 1)
		for range 20000 {
			x, y := draw(r, b.Lo, b.Hi), 0.0
			if b.Op == hlo.Power {
				y = draw(r, -1e3, 1e3)
			} else if b.Op == hlo.Atan2 {
				y = draw(r, -1e100, 1e100)
			}
			want := exact[b.Op](x, y)
			if math.IsInf(want, 0) || math.Abs(want) < 0x1p-1000 && want != 0 {
				continue
			}
			f([]uint64{math.Float64bits(x), math.Float64bits(y)}, out)
			if u := ulps(math.Float64frombits(out[0]), want); u > worst {
				worst, at, at2 = u, x, y
			}
		}
		t.Logf("%s: %.2f ulp at %g %g, bound %g", b.Op, worst, at, at2, b.ULP)
		if worst > b.ULP+slack {
			t.Errorf("%s is %g ulp off at %g %g", b.Op, worst, at, at2)
		}
	}
}

// TestNarrow: computed in f64 and rounded, f32 and bf16 are the nearest but where the exact
// value is all but in the middle.
func TestNarrow(t *testing.T) {
	for _, b := range Bounds() {
		f, err := eval.Apply(Of(b.Op))
		if err != nil {
			t.Fatal(b.Op, err)
		}
		r := rand.New(rand.NewPCG(uint64(b.Op), 2))
		out := make([]uint64, 1)
		for _, typ := range []dtype.Type{dtype.F32, dtype.BF16, dtype.F16} {
			differ := 0
			for range 3000 {
				x := typ.Decode(typ.Encode(draw(r, max(b.Lo, -1e4), min(b.Hi, 1e4)), false))
				y := typ.Decode(typ.Encode(draw(r, -10, 10), false))
				f([]uint64{math.Float64bits(x), math.Float64bits(y)}, out)
				got, want := typ.Encode(math.Float64frombits(out[0]), false), typ.Encode(exact[b.Op](x, y), false)
				if got != want {
					differ++
				}
			}
			if differ > 0 {
				t.Errorf("%s in %s: %d of 3000 are not the nearest", b.Op, typ, differ)
			}
		}
	}
}

func TestSpecialValues(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 2, -2, 3, -3, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, -5e-324, 0x1p-1022, math.MaxFloat64, -math.MaxFloat64, 800, -800}
	for _, b := range Bounds() {
		f, err := eval.Apply(Of(b.Op))
		if err != nil {
			t.Fatal(b.Op, err)
		}
		out := make([]uint64, 1)
		for _, x := range values {
			others := []float64{0}
			if b.Op == hlo.Power || b.Op == hlo.Atan2 {
				others = values
			}
			big := math.Abs(x) > 1e6 && !math.IsInf(x, 0)
			if big && (b.Op == hlo.Sine || b.Op == hlo.Cosine || b.Op == hlo.Tan) {
				continue
			}
			for _, y := range others {
				f([]uint64{math.Float64bits(x), math.Float64bits(y)}, out)
				got, want := math.Float64frombits(out[0]), exact[b.Op](x, y)
				if u := ulps(got, want); u > b.ULP+slack || got == 0 && want == 0 && math.Signbit(got) != math.Signbit(want) {
					t.Errorf("%s of %g, %g is %g, not %g", b.Op, x, y, got, want)
				}
			}
		}
	}
}
