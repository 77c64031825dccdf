package template

import (
	"math"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Products of integers with Long: x of a group of k is whole numbers of 31 bits times a
// power of two, 16 of them rounded and 15 of what that leaves. Both are two digits of base
// 256 between −128 and 127, so that two groups have the eight columns of a product, and
// threads two columns of one half each: sums are scaled once for both groups, in threads
// that have one of them ([stream.tall] has it otherwise). No code needs a mask that is the last of its word: what the word
// comes to as it is, less what its other codes come to, is its own sum.
//
// With m the largest of a group's |x|, the step of the upper half is at most m/16320, and
// that of the lower one 2^15 times less, since the rest is at most half an upper step. So x
// is off by at most 2^-30·1.005·m, and by nothing where m is below 63: the step is then at
// most 2^-24, of which all numbers of f16 are multiples. Sums of digits are exact; each half
// of a group's sum is rounded to f32 once. An output is off by up to
// 2^-30·1.005·Σ m·|w| + 2^-24·Σ|x·w| more than exact sums of the same groups in f32: the
// second is what a product in f32 may lose too, the first less than that unless weights of
// everything larger than m/64 are 0. What integers with a sign are stored with is taken off
// sums of whole numbers; zero points are taken off each group's sum of codes, of which
// 2^-25 is rounded, so that w is q·s in the second part.
const (
	longTurns = 2  // whose digits are columns of a product
	longBits  = 15 // of the lower half
	longRoom  = 16 // bytes that a stage takes beside digits
)

// allocateLong allocates scales of x, of both halves, and sums of their numbers.
func (d *stream) allocateLong() {
	d.xscale = d.b.AllocateShared("xscale", rowMajor(dtype.F32, d.Stages, 2))
	if d.shifted() {
		d.xsum = d.b.AllocateShared("xsum", rowMajor(dtype.I32, d.Stages, 2))
	}
}

// digitiseLong makes digits of x of the block's turns, in a warp of its own. The digits of
// turn t are columns 4·(t mod 2) and the next three; the others stay 0.
func (d *stream) digitiseLong() {
	b := d.b
	four := layout.Spatial(32).Local(4)
	bytes := build.Register(dtype.I8, four)
	f32, i32 := build.Register(dtype.F32, four), build.Register(dtype.I32, four)
	all := layout.Replicated(32, 1)
	one, oneInt := build.Register(dtype.F32, all), build.Register(dtype.I32, all)
	keep := func(to build.Value, of dtype.Type, stage build.Value, i int, v build.Value) {
		b.StoreShared(b.SliceShared(d.fresh("kept"), to, rowMajor(of, 1), build.Offset(stage, i), build.Dims(1)), v)
	}
	var none build.Value
	if !d.tall() {
		none = b.AllocateRegister("none", bytes, build.Init(0))
	}
	for s := 0; s < d.Stages && !d.tall(); s++ {
		ud := b.SliceShared(d.fresh("ud"), d.sd, planeType(planes, Turn), build.Offset(s, 0, 0))
		for i := range planes {
			if i/4 != s%longTurns {
				b.StoreShared(b.SliceShared(d.fresh("plane"), ud, rowMajor(dtype.I8, Turn), build.Offset(i, 0), build.Dims(1)), none)
			}
		}
	}
	b.For("t", 0, d.mine, func(t build.Value) {
		d.pipe.Wait(t)
		ux := b.SliceShared(d.fresh("ux"), d.sx, rowMajor(d.Act, Turn), build.Offset(t.Mod(d.Stages), 0, 0), build.Dims(2))
		x := b.Cast("xf", b.LoadShared("xk", ux, build.Register(d.Act, four)), f32)
		power := d.powerOf(x, i32, oneInt, one)
		scale := func(name string, bits int, exponent build.Value) build.Value {
			e := b.Add(name+"_bits", exponent, bits, oneInt)
			return b.View(name, b.Mul(name+"_bits", e, 1<<23, oneInt), one)
		}
		down := b.Sub("down", 254, power, oneInt)
		upper, lower := scale("step", -fixedBits, power), scale("low_step", -fixedBits-longBits, power)
		q := b.Fma("q", x, scale("times", fixedBits, down), magicValue, f32)
		rest := b.Sub("less", magicValue, q, f32) // less what the upper half comes to, in its steps
		rest = b.Fma("rest", rest, upper, x, f32)
		low := b.Fma("low_part", rest, scale("times_low", fixedBits+longBits, down), magicValue, f32)
		wrong := b.Mul("wrong", b.View("top", build.Expr("most"), one), 0, one) // no number where x has such
		stage := t.Mod(d.Stages)
		keep(d.xscale, dtype.F32, stage, 0, b.Add("step", upper, wrong, one))
		keep(d.xscale, dtype.F32, stage, 1, b.Add("low_step", lower, wrong, one))
		of := planeType(planes, Turn)
		if d.tall() {
			of = tallPlanes(Turn)
		}
		ud := b.SliceShared(d.fresh("ud"), d.sd, of, build.Offset(stage, 0, 0))
		for half, number := range []build.Value{q, low} {
			if d.shifted() {
				plain := b.Sub("plain", b.View("plain", number, i32), magic, i32)
				keep(d.xsum, dtype.I32, stage, half, b.Reduce("sum_k", plain, oneInt, build.Dim(0), build.Op("sum"), build.Keepdims("true")))
			}
			if d.tall() {
				d.storeSpread(ud, number, half)
				continue
			}
			d.storeDigits(ud, number, i32, func(i int) build.Value { return t.Mod(longTurns).Mul(4).Add(2*half + i) })
		}
		b.ArriveBarrier(d.ready, t)
	}, build.Unroll(1))
}

// stretchLong multiplies so many turns of outputs from first on: those of a product
// together, and those alone whose other turn belongs to other outputs. With codes of one bit
// a product has one turn.
func (d *stream) stretchLong(first, count build.Value) {
	b := d.b
	if d.tall() {
		b.For("i", 0, count, func(i build.Value) { d.turnTall(b.Let("t0", first.Add(i))) }, build.Unroll(1))
		return
	}
	end := b.Let("end_turn", first.Add(count))
	b.For("pair", first.Div(longTurns), build.Expr("end_turn").Add(1).Div(longTurns), func(pair build.Value) {
		t := b.Let("t0", pair.Mul(longTurns))
		b.If(t.GreaterEqual(first).And(t.Add(1).Less(end)), func() {
			d.turnsLong(t, b.Let("t1", t.Add(1)))
		}).Else(func() {
			d.turnsLong(b.Let("alone", t.Max(first)))
		})
	}, build.Unroll(1))
}

// turnsLong multiplies a turn, or the two of a product.
func (d *stream) turnsLong(turns ...build.Value) {
	b := d.b
	d.each(func() {
		b.AllocateRegister(d.of("sum"), build.Register(dtype.I32, d.sums(d.Warps, planes)), build.Init(0))
	})
	scale := make([]build.Value, d.Sides)
	zero := make([]build.Value, d.Sides)
	var ofX, sumX build.Value
	for i, t := range turns {
		d.pipe.Wait(t)
		b.WaitBarrier(d.ready, t)
		if i == len(turns)-1 {
			d.each(func() {
				scale[d.side] = d.loadLong(d.of("rs"), d.ss, d.Scale, turns)
				if d.Zero {
					zero[d.side] = d.loadLong(d.of("rz"), d.sz, d.Act, turns)
				}
			})
			ofX = d.numberLong("of_x", d.xscale, dtype.F32, turns)
			if d.shifted() {
				sumX = d.numberLong("sum_x", d.xsum, dtype.I32, turns)
			}
			if i > 0 {
				d.pipe.Release(turns[0])
			}
		}
		d.addProducts(t, func() string { return d.of("sum") }, "", true)
	}
	d.pipe.Release(turns[len(turns)-1])
	d.scaleLong(scale, zero, ofX, sumX)
}

// loadLong loads scales, or zero points: those of both turns in threads of their own, those
// of one in all.
func (d *stream) loadLong(to string, from build.Value, t dtype.Type, turns []build.Value) build.Value {
	b, n := d.b, 2*d.Tiles
	stage, side := turns[0].Mod(d.Stages), d.side*d.outputs()
	if len(turns) == 1 {
		to += "_alone"
		tile := b.SliceShared(d.fresh("u"+to), from, rowMajor(t, d.outputs()), build.Offset(stage, 0, side), build.Dims(2))
		as := d.flat
		if t == d.Act {
			as = d.flatZ
		}
		return b.View(to+"_own", b.LoadShared(to, tile, as), d.perBase(t, n))
	}
	tile := b.SliceShared(d.fresh("u"+to), from, strided(t, []int{2, d.outputs()}, d.many(), 1), build.Offset(stage, 0, side), build.Dims(0, 2))
	own := layout.Spatial(1, d.Warps).Spatial(1, 8).Spatial(2, 1).Mul(layout.Replicated(2, 1, 1)).Local(1, n)
	return b.View(to+"_own", b.LoadShared(to, tile, build.Register(t, own)), d.perBase(t, n))
}

// numberLong loads a number of x for the half that each thread has. Of a turn alone, threads
// whose columns are 0 have the scale of another half, and sums of 0.
func (d *stream) numberLong(to string, from build.Value, t dtype.Type, turns []build.Value) build.Value {
	b, n := d.b, len(turns)
	if n == 1 {
		to += "_alone"
	}
	tile := b.SliceShared(d.fresh("u"+to), from, rowMajor(t, n, 2), build.Offset(turns[0].Mod(d.Stages), 0))
	own := layout.Replicated(32*d.Warps/n/2, 1, 1).Mul(layout.Spatial(n, 2))
	single := d.perBase(t, 1)
	v := b.View(to+"_own", b.LoadShared(to, tile, build.Register(t, own)), single)
	if n == 1 && t == dtype.I32 {
		other := b.Xor("in_turn", b.Shr("in_turn", b.Indices("in_turn", single, build.Dim(3)), 1, single), turns[0].Mod(longTurns), single)
		v = b.Mul(to+"_own", v, b.Sub("in_turn", 1, other, single), single)
	}
	return v
}

// scaleLong adds sums of one or two turns to the outputs'.
func (d *stream) scaleLong(scales, zeros []build.Value, ofX, sumX build.Value) {
	b, w, n := d.b, d.Stored.Bits(), d.own()
	f32, i32 := d.perBase(dtype.F32, n), d.perBase(dtype.I32, n)
	pairs := layout.Spatial(d.Warps, 1, 1, 1, 1).Local(1, n, 1, 1, 1).Spatial(1, 1, 8, bases, 1)
	d.each(func() {
		both := b.View("both", build.Expr(d.of("sum")), build.Register(dtype.I32, pairs.Local(1, 1, 1, 1, 2)))
		digit := func(name string, i int) build.Value {
			return b.View(name, b.SliceRegister(name+"s", both, build.Register(dtype.I32, pairs), build.Offset(0, 0, 0, 0, i)), i32)
		}
		whole := b.Add("sum_both", b.Mul("sum_both", digit("upper_sum", 1), 256, i32), digit("lower_sum", 0), i32)
		codes := 8 / w
		for from := 0; from < n; from += codes {
			one := d.perBase(dtype.I32, 1)
			others := b.SliceRegister("others", whole, d.perBase(dtype.I32, codes-1), build.Offset(0, from, 0, 0))
			least := b.Reduce("others_sum", others, one, build.Dim(1), build.Op("sum"), build.Keepdims("true"))
			last := b.Sub("last_code", b.SliceRegister("last_code", whole, one, build.Offset(0, from+codes-1, 0, 0)), least, one)
			b.SliceAssign("sum_both", whole, last, i32, build.Offset(0, from+codes-1, 0, 0))
		}
		// Codes stand in their bytes as in the words, and so does what they are shifted by.
		bits := build.Value{}
		if d.shifted() {
			place := b.And("place_of", b.Indices("place_of", i32, build.Dim(1)), codes-1, i32)
			bits = b.Mul("place_of", place, w, i32)
		}
		if d.Bias > 0 {
			whole = b.Sub("sum_both", whole, b.Mul("shift_of", b.Shl("shift_of", d.Bias, bits, i32), sumX, i32), i32)
		}
		number := b.Cast("sum_f32", whole, f32)
		if d.Zero {
			power := b.View("power_of", b.Mul("power_bits", b.Add("power_bits", bits, 127, i32), 1<<23, i32), f32)
			zero := b.Neg("zero_x", b.Mul("zero_x", b.Cast("zero16", zeros[d.side], f32), power, f32), f32)
			number = b.Fma("sum_f32", zero, b.Cast("of_sum", sumX, d.perBase(dtype.F32, 1)), number, f32)
		}
		scale := b.Cast("scale_x", scales[d.side], f32)
		if d.Power != 0 {
			scale = b.Mul("scale_x", scale, math.Ldexp(1, d.Power), f32)
		}
		b.Fma(d.of("acc"), number, b.Mul("product", scale, ofX, f32), build.Expr(d.of("acc")), f32)
	})
}
