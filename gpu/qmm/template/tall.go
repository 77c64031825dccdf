package template

import (
	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Long with codes of one bit: a word has those of two k, whose even bytes are the outputs of
// the first tiles and whose odd ones those of the others. It is multiplied as it is: half the
// columns have the digits of x beside even bytes and 0 beside odd ones, the other half the
// opposite. So one turn has all eight columns, half the sums, and a thread outputs of half
// the tiles.

// tallStep is the bytes from a plane of digits with zeros between them to the next, so that
// banks differ.
const tallStep = 2*Turn + 64

// tall reports whether bytes have outputs of different tiles.
func (d *stream) tall() bool { return d.Long && d.Stored.Bits() == 1 }

// planeRow is the bytes from a plane of digits to the next.
func (d *stream) planeRow() int {
	if d.tall() {
		return tallStep
	}
	return planeStep
}

// own is how many outputs a thread scales with Long.
func (d *stream) own() int {
	if d.tall() {
		return d.Tiles
	}
	return 2 * d.Tiles
}

// tallPlanes is the type of planes of digits for k of a turn.
func tallPlanes(k int) build.Type {
	return strided(dtype.I8, []int{planes, 2 * k}, tallStep, 1)
}

// storeSpread stores the lower and the upper digit of a half of numbers of 16 bits, to which
// magic has been added, with zeros between them, in two planes each.
func (d *stream) storeSpread(ud, q build.Value, half int) {
	b := d.b
	as := func(t dtype.Type, shape ...int) build.Type {
		l := layout.Spatial(32, 1, 1)
		if shape[0] > 1 {
			l = l.Local(1, shape[0], 1)
		}
		if shape[1] > 1 {
			l = l.Local(1, 1, shape[1])
		}
		return build.Register(t, l)
	}
	fours, twos := as(dtype.I32, 2, 2), as(dtype.I32, 2, 1)
	bytes := build.Register(dtype.I8, layout.Spatial(32).Local(8))
	words := b.View("fours", q, fours)
	for i, digit := range []string{"lower", "upper"} {
		from := words
		if i == 1 {
			from = b.Shr("above", b.Add("above", words, 128, fours), 8, fours)
		}
		from = b.And("byte", from, 255, fours)
		first := b.SliceRegister("first_k", from, twos, build.Offset(0, 0, 0))
		second := b.SliceRegister("second_k", from, twos, build.Offset(0, 0, 1))
		even := b.Or(digit, first, b.Shl("second_k", second, 16, twos), twos)
		store := func(plane int, v build.Value) {
			b.StoreShared(b.SliceShared(d.fresh("plane"), ud, rowMajor(dtype.I8, 2*Turn), build.Offset(plane, 0), build.Dims(1)), b.View(digit+"_bytes", v, bytes))
		}
		store(2*half+i, even)
		store(4+2*half+i, b.Shl(digit+"_odd", even, 8, twos))
	}
}

// tallSums is the layout of sums of a product: tiles of even bytes with four columns, those
// of odd ones with the others.
func (d *stream) tallSums() layout.Layout {
	return warped(d.Warps, 2).Local(d.Tiles/2, 1).Local(2, 1).Spatial(8, 4).Local(1, 2)
}

// addTall adds products with turn t to sums of all sides.
func (d *stream) addTall(t build.Value) {
	b, lane, steps, tiles := d.b, d.bytesPerLane(), 2*d.steps(), d.Tiles/2
	pieces := build.Register(dtype.U8, layout.Spatial(d.Warps, 1).Local(1, lane/16).Spatial(1, 32).Local(1, 16))
	copies := layout.Replicated(d.Warps, 1, 1)
	loaded := build.Register(dtype.I8, copies.Local(steps/2, 1).ColumnSpatial(4, 8).Local(16, 1))
	right := build.Register(dtype.I8, copies.Local(2*steps, 1).ColumnSpatial(4, 8).Local(4, 1))
	left := build.Register(dtype.U8, warped(d.Warps, 2).Local(1, steps).Local(tiles, 1).ColumnLocal(2, 2).Spatial(8, 4).Local(1, 4))
	sums := build.Register(dtype.I32, d.tallSums())
	words := func(tiles, halves int) build.Type {
		return build.Register(dtype.U32, layout.Spatial(d.Warps, 1, 1, 1, 1, 1).Local(1, steps, 1, 1, 1, 1).Local(1, 1, tiles, 1, 1, 1).Local(1, 1, 1, 2, 1, 1).Local(1, 1, 1, 1, halves, 1).Spatial(1, 1, 1, 1, 1, 32))
	}
	for sub := range Turn / d.Sub {
		ud := b.SliceShared(d.fresh("ud"), d.sd, tallPlanes(d.Sub), build.Offset(t.Mod(d.Stages), 0, 2*sub*d.Sub))
		ut := b.PermuteShared(d.fresh("ut"), ud, strided(dtype.I8, []int{2 * d.Sub, planes}, 1, tallStep))
		rx := b.View("rx", b.LoadShared("dk", ut, loaded), right)
		d.each(func() {
			from := b.SliceShared(d.fresh("uw"), d.flat8, d.part(), build.Offset(t.Mod(d.Stages), d.side*d.Warps, sub*32*lane))
			of := b.View("words", b.LoadShared(d.of("rb"), from, pieces), words(1, 1))
			u := b.AllocateRegister(d.of("u"), words(tiles, 2), build.Init(0))
			for q := range 2 * tiles {
				m := of
				if q < 2*tiles-1 {
					m = b.And("m", of, int64(0x01010101)<<q, words(1, 1))
				}
				b.SliceAssign(d.of("u"), u, m, words(tiles, 2), build.Offset(0, 0, q/2, 0, q%2, 0))
			}
			b.Dot(d.of("sum"), b.View(d.of("ra"), u, left), rx, build.Expr(d.of("sum")), sums)
		})
	}
}

// turnTall multiplies turn t.
func (d *stream) turnTall(t build.Value) {
	b := d.b
	d.each(func() { b.AllocateRegister(d.of("sum"), build.Register(dtype.I32, d.tallSums()), build.Init(0)) })
	d.pipe.Wait(t)
	b.WaitBarrier(d.ready, t)
	d.addTall(t)
	stage, scales, zeros := t.Mod(d.Stages), make([]build.Value, d.Sides), make([]build.Value, d.Sides)
	ofHalf := layout.Spatial(d.Warps).Spatial(8).Spatial(2).Mul(layout.Replicated(2, 1)).Local(d.own())
	load := func(to string, from build.Value, as dtype.Type) build.Value {
		tile := b.SliceShared(d.fresh("u"+to), from, rowMajor(as, d.outputs()), build.Offset(stage, 0, d.side*d.outputs()), build.Dims(2))
		return b.View(to+"_own", b.LoadShared(to, tile, build.Register(as, ofHalf)), d.perBase(as, d.own()))
	}
	d.each(func() {
		scales[d.side] = load(d.of("rs"), d.ss, d.Scale)
		if d.Zero {
			zeros[d.side] = load(d.of("rz"), d.sz, d.Act)
		}
	})
	number := func(to string, from build.Value, as dtype.Type) build.Value {
		tile := b.SliceShared(d.fresh("u"+to), from, rowMajor(as, 1, 2), build.Offset(stage, 0))
		own := layout.Replicated(16*d.Warps, 1, 1).Mul(layout.Spatial(1, 2))
		return b.View(to+"_own", b.LoadShared(to, tile, build.Register(as, own)), d.perBase(as, 1))
	}
	ofX, sumX := number("of_x", d.xscale, dtype.F32), build.Value{}
	if d.shifted() {
		sumX = number("sum_x", d.xsum, dtype.I32)
	}
	d.pipe.Release(t)
	d.scaleLong(scales, zeros, ofX, sumX)
}

// tallRows is the layout of outputs as threads have them, of both halves of x.
func (d *stream) tallRows() layout.Layout {
	l, err := layout.New([]int{d.outputs(), 2}, []int{d.Warps, 2, d.own(), 8, 2}, []int{0, 3, 1, 4}, []int{2})
	if err != nil {
		panic(err) // it is a permutation
	}
	return l
}

// columnTall adds the halves' sums of the present side up.
func (d *stream) columnTall() build.Value {
	b, rows := d.b, d.tallRows()
	f32, i32 := build.Register(dtype.F32, rows), build.Register(dtype.I32, rows)
	place := b.And("row", b.Shr("row", b.Indices("row", i32, build.Dim(0)), 3, i32), 7, i32)
	back := b.View("back", b.Mul("back_bits", b.Sub("row", 127, place, i32), 1<<23, i32), f32)
	all := b.Mul("weighed", b.View(d.of("acc_flat"), build.Expr(d.of("acc")), f32), back, f32)
	sum, err := rows.Reduce([]int{1}, true)
	if err != nil {
		panic(err) // the dimension is there
	}
	return b.Reduce(d.of("column"), all, build.Register(dtype.F32, sum), build.Dim(1), build.Op("sum"), build.Keepdims("true"))
}
