package template

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/build"
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
					if p, err := PlanOf(f); err != nil || p.Less != (width > 2 && act == dtype.F16) || !p.Shifts() || p.ZeroType() != act {
						t.Errorf("%s to %s: any zero points are taken off codes: %v, as %s, sums of x %v, %v", w, act, p.Less, p.ZeroType(), p.Shifts(), err)
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

// TestNear holds what is taken off codes for zero points that may be any f16 to what that is for: it is
// near, f16 holds what is left of every zero point, and the difference of every code.
func TestNear(t *testing.T) {
	const all = 63488 // all numbers, with either sign
	z := array.New(dtype.F16, all)
	for i := range all {
		z.SetCode(i, uint64(i&1)<<15|uint64(i>>1))
	}
	taken, left := zeroPoints(t, z)
	for i := range all {
		v, r, rest := z.At(i), taken[i], left[i]
		if r+rest != v {
			t.Fatalf("%g is %g and %g", v, r, rest)
		}
		if v >= 0 && v <= 1024 && math.Abs(rest) > 0.5 || v < 0 && v >= -512 && math.Abs(rest) > 0.25 {
			t.Fatalf("of %g, %g is left", v, rest)
		}
		for c := range 256 {
			if d := float64(c) - r; dtype.F16.Decode(dtype.F16.Encode(d, false)) != d {
				t.Fatalf("%d less %g, for %g, is rounded", c, r, v)
			}
		}
	}
}

// zeroPoints are what a program takes off codes and what it leaves of any zero points, of f16.
func zeroPoints(t *testing.T, z *array.Array) (taken, left []float64) {
	t.Helper()
	p, err := PlanOf(Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true, AnyZero: true})
	if err != nil {
		t.Fatal(err)
	}
	n := z.Len()
	d := &decoder{Plan: p, Schedule: Schedule{Warps: 1, Sides: 1, Rows: 8}, b: build.Program("p", build.Grid(n/p.Outputs()))}
	d.types()
	b := d.b
	one := func(name string) build.Value {
		return b.ViewGlobal("g"+name, b.Pointer(name, dtype.F16), build.Global(dtype.F16, n, 1))
	}
	gs, gz, gt, gl := one("s"), one("z"), one("taken"), one("left")
	at := build.Offset(b.BlockIndices("bi").Mul(p.Outputs()), 0)
	d.b.View("rs", d.b.LoadGlobal("scales", gs, d.rowS, at), d.flat)
	d.b.View("rz", d.b.LoadGlobal("points", gz, d.rowZ, at), d.flatZ)
	d.b.StoreGlobal(gt, d.zeros("rz"), at)
	_, minus := d.scaleOf("")
	d.b.StoreGlobal(gl, d.b.Cast("half", *minus, d.rowAct), at)
	program, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ones := array.New(dtype.F16, n)
	for i := range n {
		ones.Set(-1, i)
	}
	got, err := machine(t, "interp").Run(context.Background(), program, launchArgs(ones, z, array.New(dtype.F16, n), array.New(dtype.F16, n)))
	if err != nil {
		t.Fatal(err)
	}
	return got.Args[2].Array.Floats(), got.Args[3].Array.Floats()
}

// TestKeptOfAny holds products of codes whose zero points are any f16 to 1.1 of the error of f32 sums, by the
// model of what tensor cores cut off: zero points that are whole, nearly so, half-way, or anything, with weights
// beside the large elements of x that are the least there are, or of either sign.
func TestKeptOfAny(t *testing.T) {
	half := func(v float64) float64 { return dtype.F16.Decode(dtype.F16.Encode(v, true)) }
	single := func(v float64) float64 { return float64(float32(v)) }
	fractions := []func(r *rand.Rand) float64{
		func(*rand.Rand) float64 { return 0 }, func(*rand.Rand) float64 { return 1. / 16 }, func(*rand.Rand) float64 { return 0.5 }, func(r *rand.Rand) float64 { return r.Float64() - 0.5 },
	}
	const rows, outputs = 512, 60
	worst := 0.0
	for w := dtype.U3; w <= dtype.U8; w++ {
		f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true, AnyZero: true}
		p, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		power := 0
		for _, k := range castPowers(t, f) {
			power = min(power, k)
		}
		top := w.Max()
		for _, group := range []int{32, 128, rows} {
			for i, fraction := range fractions {
				for _, x := range [][2]float64{{0.3, 1000.3}, {0.3, 0.3}, {math.NaN(), 1000}} {
					r := rand.New(rand.NewPCG(uint64(w), uint64(i)))
					var ours, theirs float64
					z := array.New(dtype.F16, (outputs*rows/group+15)/16*16)
					for at := range z.Len() {
						z.Set(math.Round(top/2+r.NormFloat64())+fraction(r), at)
					}
					taken, left := make([]float64, z.Len()), z.Floats()
					if p.Less {
						taken, left = zeroPoints(t, z)
					}
					for n := range outputs {
						var acc, sum32, exact float64
						for g := range rows / group {
							of := n*rows/group + g
							s, point := half(0.02*(1+r.Float64())), z.At(of)
							var sum, sumX float64
							for k := 0; k < group; k += 16 {
								var a, ones, xs [16]float64
								for e := range a {
									at, v := g*group+k+e, x[0]
									code := math.Round(point + r.NormFloat64()*top/6)
									if math.IsNaN(v) {
										v = r.NormFloat64()
									}
									if at%97 == 95 {
										v, code = x[1], math.Floor(point+0.5)-float64(at/97%2*(i/2)) // those of half-way are of either sign
									}
									v, code = half(v), min(max(code, 0), top)
									a[e], ones[e], xs[e] = math.Ldexp(code-taken[of], power), 1, v
									exact += s * (code - point) * v
									sum32 = single(sum32 + single(s*(code-point)*v))
								}
								sum, sumX = single(cutSum(sum, a[:], xs[:])), single(cutSum(sumX, ones[:], xs[:]))
							}
							acc = single(sum*math.Ldexp(s, -power) + acc)
							acc = single(sumX*single(-s*left[of]) + acc)
						}
						ours += math.Pow(half(acc)-exact, 2)
						theirs += math.Pow(half(sum32)-exact, 2)
					}
					ratio := math.Sqrt(ours / theirs)
					if worst = max(worst, ratio); ratio > 1.1 {
						t.Errorf("%s in groups of %d, x of %g, zero points of kind %d: %.3g of the error of f32 sums", w, group, x, i, ratio)
					}
				}
			}
		}
	}
	t.Logf("at most %.3f of the error of f32 sums", worst)
}

// TestKeptFolded holds sums of products whose scales are folded, of as many k as that is done for, to 1.1 of the error of f32 sums by
// the model of what tensor cores cut off, with x of one sign, of either, and of one sign after the other. Of the longest layers' k they have
// more, where sums of groups have not.
func TestKeptFolded(t *testing.T) {
	half := func(v float64) float64 { return dtype.F16.Decode(dtype.F16.Encode(v, true)) }
	single := func(v float64) float64 { return float64(float32(v)) }
	const codes, lift = 16, 128 // of u4, and what operands are multiplied with
	ratio := func(kind, rows int, folded bool) float64 {
		var ours, theirs float64
		r := rand.New(rand.NewPCG(1, uint64(kind)))
		for range 40 { // outputs
			var acc, sum, sum32, exact float64
			for g := range rows / 128 {
				s := math.Ldexp(float64(8+r.IntN(8)), -11)
				if !folded {
					sum = 0
				}
				for k := 0; k < 128; k += 16 {
					var a, x [16]float64
					for e := range a {
						code, v := float64(r.IntN(codes)), 0.3
						switch kind {
						case 1, 2:
							v = math.Abs(r.NormFloat64())
						case 3:
							v = r.NormFloat64()
						}
						if kind == 2 && g >= rows/256 {
							v = -v
						}
						if x[e], a[e] = half(v), math.Ldexp(code, -24); folded {
							a[e] = code * s * lift
						}
						exact += code * s * x[e]
						sum32 = single(sum32 + single(code*s*x[e]))
					}
					sum = single(cutSum(sum, a[:], x[:]))
				}
				if !folded {
					acc = single(acc + sum*math.Ldexp(s, 24))
				}
			}
			if folded {
				acc = sum / lift
			}
			ours += math.Pow(half(acc)-exact, 2)
			theirs += math.Pow(half(sum32)-exact, 2)
		}
		return math.Sqrt(ours / theirs)
	}
	const longest = 28672
	most := 0.0
	for kind := range 4 {
		for rows := 1024; rows <= MostFolded; rows *= 2 {
			if got := ratio(kind, rows, true); got > 1.1 {
				t.Errorf("x of kind %d, %d k: %.3f of the error of f32 sums", kind, rows, got)
			}
		}
		if got := ratio(kind, longest, false); got > 1.1 {
			t.Errorf("x of kind %d, %d k by groups: %.3f", kind, longest, got)
		}
		most = max(most, ratio(kind, longest, true))
	}
	if most < 1.1 {
		t.Errorf("%d k have %.3f of the error of f32 sums at most: they may be folded", longest, most)
	}
	t.Logf("%d k: %.3f", longest, most)
}
