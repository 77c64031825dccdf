package template

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// castPowers are the powers of two at which the casts of a form put codes, 0 where they
// leave none over.
func castPowers(t *testing.T, f Form) []int {
	t.Helper()
	p, err := PlanOf(f)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Deferred() {
		return []int{0}
	}
	d, err := ir.DeferralOf(p.codes(1), f.Act, p.Least)
	if err != nil {
		t.Fatal(err)
	}
	return d.Powers
}

// cutSum adds products a[i]·x[i] to a sum as we take a tensor core of an H200 to do, from
// what TestGPUErrors of gpu/qmm finds there: products and sum are aligned by the largest
// exponent, of factors as they are written, so that a subnormal f16 has that of 2^-14, and
// what is below 2^-25 of it is cut off.
func cutSum(sum float64, a, x []float64) float64 {
	written := func(v float64) int { return max(math.Ilogb(v), -14) }
	largest := math.MinInt
	if sum != 0 {
		largest = math.Ilogb(sum)
	}
	for i := range a {
		if a[i]*x[i] != 0 {
			largest = max(largest, written(a[i])+written(x[i]))
		}
	}
	cut := func(v float64) float64 { return math.Ldexp(math.Trunc(math.Ldexp(v, 25-largest)), largest-25) }
	sum = cut(sum)
	for i := range a {
		sum += cut(a[i] * x[i])
	}
	return sum
}

// lost is the largest error, in codes, of sums of 16 products of which a large one
// cancels, with codes of so many bits at a power of two. With less, a zero point is taken off
// codes before they are multiplied, so that the product of that code is none.
func lost(width, power int, less bool) (most float64) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var a, x [16]float64
		exact := 0.0
		for i := range a {
			code := float64(r.IntN(1 << width))
			x[i] = dtype.F16.Decode(dtype.F16.Encode(r.NormFloat64(), false))
			if i == 5 {
				code, x[i] = float64(int(1)<<(width-1)), 1000
			}
			if less {
				code -= float64(int(1) << (width - 1))
			}
			a[i] = math.Ldexp(code, power)
			exact += code * x[i]
		}
		most = max(most, math.Abs(math.Ldexp(cutSum(0, a[:], x[:]), -power)-exact))
	}
	return most
}

// TestKept holds that beside a large product that cancels, sums of codes of one and two
// bits lose at most four times what f32 may, by a model of what tensor cores cut off: where
// a zero point is taken off, casts put them at powers that keep enough, and
// elsewhere at those that cost least. Of more bits whole zero points are taken off codes, and so is
// the bias of i2, so that they lose no more than f32 does beside what is left. As bf16 codes are their
// values, of which each bit is kept.
func TestKept(t *testing.T) {
	const rounds = 1.0 / (1 << 15) // what f32 loses by an addition beside 1000
	raised := 0
	for _, w := range weights() {
		for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
			for _, zero := range []bool{false, true} {
				f := Form{Weight: w, Act: act, Scale: dtype.F16, Group: 128, Zero: zero}
				p, err := PlanOf(f)
				if err != nil {
					continue // a zero point of what has none
				}
				least := 0
				for _, k := range castPowers(t, f) {
					least = min(least, k)
				}
				width := p.Stored.Bits()
				needs := width <= 2 && p.Shifts()
				if p.Less != (zero && width > 2) || p.Less && (least < 0 || p.Shifts()) {
					t.Errorf("%s to %s, zero %v: zero points are taken off codes: %v, at 2^%d, sums of x %v", w, act, zero, p.Less, least, p.Shifts())
				}
				if want := w == dtype.I2 && act == dtype.F16; p.LessBias != want || want && (least < 0 || p.Shifts() || p.Bias == 0) {
					t.Errorf("%s to %s: a bias of %d is taken off codes: %v, at 2^%d, sums of x %v", w, act, p.Bias, p.LessBias, least, p.Shifts())
				}
				if got := lost(width, least, true); (p.Less || p.LessBias) && got > rounds {
					t.Errorf("%s to %s: codes less what they stand beside lose %.3g", w, act, got)
				}
				if f.AnyZero = zero; zero {
					if p, err := PlanOf(f); err != nil || p.Less || !p.Shifts() {
						t.Errorf("%s to %s: any zero points are taken off codes, or %v", w, act, err)
					}
				}
				if needs && act == dtype.F16 {
					raised++
				} else if p.Least != recipe.MinScale {
					t.Errorf("%s to %s, zero %v: powers from %d on, which it need not have", w, act, zero, p.Least)
				}
				if needs {
					if got := lost(width, least, false); got > 4*16*rounds {
						t.Errorf("%s to %s, zero %v: codes at 2^%d lose %.3g, f32 up to %.3g", w, act, zero, least, got, 16*rounds)
					}
				}
				if act == dtype.BF16 && least < 0 {
					t.Errorf("%s to bf16, zero %v: codes at 2^%d, not their values, which are no subnormal numbers", w, zero, least)
				}
				t.Logf("%s to %s, zero %v: codes from 2^%d on", w, act, zero, least)
			}
		}
	}
	if raised != 2 {
		t.Errorf("%d forms are cast to large powers, want u1 and u2 with zero points", raised)
	}
	if got := lost(1, -24, false); got < 10*16*rounds {
		t.Errorf("codes at 2^-24 lose only %.3g: the model cuts nothing off", got)
	}
	if got := lost(4, -24, false); got < 16*rounds {
		t.Errorf("codes of four bits at 2^-24 lose only %.3g", got)
	}
}
