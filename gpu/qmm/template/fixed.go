package template

import (
	"math"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Products of integers with Fixed: x of a group of k is whole numbers of 16 bits times a
// power of two, so that the largest has 15 or 14 bits where f16 has 11; what an f16
// result rounds is more than what the others lose. Two digits of base 256 between −128
// and 127 write one, so that four groups have columns of their own among the eight of a
// product: its sums are scaled once for all four, in threads that each have one group.
const (
	bases     = 4              // groups whose digits are columns
	fixedTop  = 32768. / 32639 // makes room for the digit above: ±32639 is the largest number of two
	fixedBits = 14             // of the largest number, at least
)

// fixedRoom is what a stage takes beside digits.
const fixedRoom = 8

// allocateFixed allocates scales of x and its sums.
func (d *stream) allocateFixed() {
	d.xscale = d.b.AllocateShared("xscale", rowMajor(dtype.F32, d.Stages, 1))
	if d.shifted() {
		d.xsum = d.b.AllocateShared("xsum", rowMajor(dtype.F32, d.Stages, 1))
	}
}

// planeType is the type of so many planes of digits.
func planeType(n, k int) build.Type {
	return strided(dtype.I8, []int{n, k}, planeStep, 1)
}

// digitiseFixed makes digits of x of the block's turns, in a warp of its own. The digits of
// turn t are columns 2·(t mod 4) and the next; the others stay 0.
func (d *stream) digitiseFixed() {
	b := d.b
	four := layout.Spatial(32).Local(4)
	bytes := build.Register(dtype.I8, four)
	none := b.AllocateRegister("none", bytes, build.Init(0))
	for s := range d.Stages {
		ud := b.SliceShared(d.fresh("ud"), d.sd, planeType(planes, Turn), build.Offset(s, 0, 0))
		for i := range planes {
			if i/2 != s%bases {
				b.StoreShared(b.SliceShared(d.fresh("plane"), ud, rowMajor(dtype.I8, Turn), build.Offset(i, 0), build.Dims(1)), none)
			}
		}
	}
	f32, i32 := build.Register(dtype.F32, four), build.Register(dtype.I32, four)
	all := layout.Replicated(32, 1)
	one, oneInt := build.Register(dtype.F32, all), build.Register(dtype.I32, all)
	b.For("t", 0, d.mine, func(t build.Value) {
		d.pipe.Wait(t)
		ux := b.SliceShared(d.fresh("ux"), d.sx, rowMajor(d.Act, Turn), build.Offset(t.Mod(d.Stages), 0, 0), build.Dims(2))
		x := b.Cast("xf", b.LoadShared("xk", ux, build.Register(d.Act, four)), f32)
		power := d.powerOf(x, i32, oneInt, one)
		back := b.View("scale", b.Mul("scale_bits", b.Sub("scale_bits", power, fixedBits, oneInt), 1<<23, oneInt), one)
		times := b.View("times", b.Mul("times_bits", b.Sub("times_bits", 254+fixedBits, power, oneInt), 1<<23, oneInt), one)
		back = b.Fma("scale", b.View("top", build.Expr("most"), one), 0, back, one) // no number where x has such
		q := b.Fma("q", x, times, magicValue, f32)
		keep := func(to build.Value, v build.Value) {
			b.StoreShared(b.SliceShared(d.fresh("kept"), to, rowMajor(dtype.F32, 1), build.Offset(t.Mod(d.Stages), 0), build.Dims(1)), v)
		}
		keep(d.xscale, back)
		if d.shifted() {
			sum := b.Reduce("sum_x", b.Sub("rounded", q, magicValue, f32), one, build.Dim(0), build.Op("sum"), build.Keepdims("true"))
			keep(d.xsum, b.Mul("sum_x", sum, back, one))
		}
		ud := b.SliceShared(d.fresh("ud"), d.sd, planeType(planes, Turn), build.Offset(t.Mod(d.Stages), 0, 0))
		d.storeDigits(ud, q, i32, func(i int) build.Value {
			plane := t.Mod(bases).Mul(2)
			if i == 1 {
				plane = plane.Add(1)
			}
			return plane
		})
		b.ArriveBarrier(d.ready, t)
	}, build.Unroll(1))
}

// powerOf is the exponent, as the bits of a number have it, of the largest of x's numbers, with room
// for the digit above. It leaves that number's bits in most.
func (d *stream) powerOf(x build.Value, i32, oneInt, one build.Type) build.Value {
	b := d.b
	// The bits of numbers without sign are in their order; what is no number comes last.
	most := b.Reduce("most", b.And("size", b.View("x_bits", x, i32), 0x7fffffff, i32), oneInt, build.Dim(0), build.Op("max"), build.Keepdims("true"))
	top := b.View("top", most, one)
	return b.Max("power", b.Shr("power", b.View("power", b.Mul("top", top, fixedTop, one), oneInt), 23, oneInt), 2*fixedBits+2, oneInt)
}

// storeDigits stores the lower and the upper digit of numbers of 16 bits, to which magic has
// been added, in planes of theirs.
func (d *stream) storeDigits(planes, q build.Value, i32 build.Type, plane func(i int) build.Value) {
	b, bytes := d.b, build.Register(dtype.I8, layout.Spatial(32).Local(4))
	// Of four neighbours, those whose codes are four bits apart follow each other.
	part := func(n int) layout.Layout { return layout.Spatial(32, 1).Local(1, n) }
	words := b.View("fours", b.View("q_bits", q, i32), build.Register(dtype.I32, part(4)))
	for i, digit := range []string{"lower", "upper"} {
		from := words
		if i == 1 {
			as := build.Register(dtype.I32, part(4))
			from = b.Shr("above", b.Add("above", words, 128, as), 8, as)
		}
		word, packed := build.Register(dtype.I32, part(1)), build.Value{}
		for place, k := range []int{0, 2, 1, 3} {
			piece := b.And("byte", b.SliceRegister("byte", from, word, build.Offset(0, k)), 255, word)
			if place == 0 {
				packed = b.Or(digit, piece, 0, word)
			} else {
				packed = b.Or(digit, packed, b.Shl("byte", piece, 8*place, word), word)
			}
		}
		b.StoreShared(b.SliceShared(d.fresh("plane"), planes, rowMajor(dtype.I8, Turn), build.Offset(plane(i), 0), build.Dims(1)), b.View(digit+"_bytes", packed, bytes))
	}
}

// perBase is the type of n numbers that each thread has for a group of its own:
// [warps, n, 8, groups].
func (d *decoder) perBase(t dtype.Type, n int) build.Type {
	return build.Register(t, layout.Spatial(d.width(), 1, 1, 1).Local(1, n, 1, 1).Spatial(1, 1, 8, bases))
}

// beginFixed begins outputs, with Long too.
func (d *stream) beginFixed() {
	b := d.b
	d.each(func() {
		b.AllocateRegister(d.of("acc"), d.perBase(dtype.F32, d.own()), build.Init(0))
		if d.split() {
			b.AllocateRegister(d.of("acz"), d.perBase(dtype.F32, d.own()), build.Init(0))
		}
	})
	if d.Fixed {
		d.startFixed()
	}
}

// split reports whether what codes are shifted by has sums of its own.
func (d *stream) split() bool { return d.Fixed && d.shifted() }

// startFixed begins sums of up to four groups.
func (d *stream) startFixed() {
	b := d.b
	d.each(func() {
		b.AllocateRegister(d.of("sum"), build.Register(dtype.I32, d.sums(d.Warps, planes)), build.Init(0))
		b.AllocateRegister(d.of("kept_s"), d.perBase(dtype.I32, d.Tiles), build.Init(0))
		if d.Zero {
			b.AllocateRegister(d.of("kept_z"), d.perBase(dtype.I32, d.Tiles), build.Init(0))
		}
	})
	b.AllocateRegister("kept_x", d.perBase(dtype.I32, 1), build.Init(0))
	if d.shifted() {
		b.AllocateRegister("kept_n", d.perBase(dtype.I32, 1), build.Init(0))
	}
}

// multiplyFixed multiplies turn t; end is the turn behind the outputs' last.
func (d *stream) multiplyFixed(t, end build.Value) {
	b := d.b
	d.addProducts(t, func() string { return d.of("sum") }, "", false)
	// Each thread keeps the scales of its group.
	word := d.perBase(dtype.I32, 1)
	own := b.Xor("in_base", b.Indices("in_base", word, build.Dim(3)), t.Mod(bases), word)
	own = b.Shr("in_base", b.Sub("in_base", own, 1, word), 31, word)
	keep := func(to string, from build.Value, n int) {
		as := d.perBase(dtype.I32, n)
		b.Or(to, build.Expr(to), b.And(to+"_new", b.View(to+"_new", from, as), own, as), as)
	}
	all := build.Register(dtype.F32, layout.Replicated(32*d.Warps, 1))
	number := func(from build.Value) build.Value {
		return b.LoadShared("number", b.SliceShared(d.fresh("unumber"), from, rowMajor(dtype.F32, 1), build.Offset(t.Mod(d.Stages), 0), build.Dims(1)), all)
	}
	d.each(func() {
		d.loadShared("", t, 0)
		keep(d.of("kept_s"), build.Expr(d.of("rs")), d.Tiles)
		if d.Zero {
			keep(d.of("kept_z"), build.Expr(d.of("rz")), d.Tiles)
		}
	})
	keep("kept_x", number(d.xscale), 1)
	if d.shifted() {
		keep("kept_n", number(d.xsum), 1)
	}
	b.If(t.Add(1).Mod(bases).Equal(0).Or(t.Add(1).Equal(end)), d.scaleFixed)
}

// scaleFixed adds the sums of up to four groups to the outputs', and begins new ones.
func (d *stream) scaleFixed() {
	b := d.b
	f32, i32 := d.perBase(dtype.F32, 2*d.Tiles), d.perBase(dtype.I32, 2*d.Tiles)
	single := d.perBase(dtype.F32, 1)
	pairs := layout.Spatial(d.Warps, 1, 1, 1, 1).Local(1, 2*d.Tiles, 1, 1, 1).Spatial(1, 1, 8, bases, 1)
	ofRow := b.View("of_x", build.Expr("kept_x"), single)
	d.each(func() {
		both := b.View("both", build.Expr(d.of("sum")), build.Register(dtype.I32, pairs.Local(1, 1, 1, 1, 2)))
		digit := func(name string, i int) build.Value {
			return b.View(name, b.SliceRegister(name+"s", both, build.Register(dtype.I32, pairs), build.Offset(0, 0, 0, 0, i)), i32)
		}
		whole := b.Add("sum_both", b.Mul("sum_both", digit("upper_sum", 1), 256, i32), digit("lower_sum", 0), i32)
		scale := b.Cast("scale_x", b.View("kept16", build.Expr(d.of("kept_s")), d.perBase(d.Scale, 2*d.Tiles)), f32)
		if d.Power != 0 {
			scale = b.Mul("scale_x", scale, math.Ldexp(1, d.Power), f32)
		}
		b.Fma(d.of("acc"), b.Cast("sum_f32", whole, f32), b.Mul("product", scale, ofRow, f32), build.Expr(d.of("acc")), f32)
		if !d.shifted() {
			return
		}
		zero := b.Mul("zero", scale, -float64(d.Bias), f32)
		if d.Zero {
			zero = b.Mul("zero", b.Neg("zero", scale, f32), b.Cast("zero16", b.View("keptz", build.Expr(d.of("kept_z")), d.perBase(d.Act, 2*d.Tiles)), f32), f32)
		}
		b.Fma(d.of("acz"), zero, b.View("of_n", build.Expr("kept_n"), single), build.Expr(d.of("acz")), f32)
	})
	d.startFixed()
}

// columnFixed adds the groups' sums of the present side up.
func (d *stream) columnFixed() build.Value {
	b, f32 := d.b, build.Register(dtype.F32, warped(d.Warps, 2).Local(2*d.Tiles, 1).Spatial(8, bases))
	flat := func(name string) build.Value { return b.View(d.of(name+"_flat"), build.Expr(d.of(name)), f32) }
	all := b.Mul("weighed", flat("acc"), build.Expr("back"), f32)
	if d.split() {
		all = b.Add("weighed", all, flat("acz"), f32)
	}
	return b.Reduce(d.of("column"), all, d.rowF32, build.Dim(1), build.Op("sum"), build.Keepdims("true"))
}
