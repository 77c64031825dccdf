package template

import (
	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Products of integers: x of f16 is a whole number of 2^-24, of 41 bits with its sign,
// which six digits of base 128 between −64 and 64 write exactly. So one row of x becomes
// the columns of a product of bytes whose sums are exact, and codes need no conversion:
// a mask cuts four of them out of a word, wherever in their bytes they lie, and scales
// take the powers of two. It is half the instructions of f16, for codes that bytes hold
// in whole numbers and a single row of x.
const (
	digits    = 6   // of an element of x
	planes    = 8   // columns that are multiplied
	planeStep = 160 // bytes from a plane of digits to the next, so that banks differ
	// magic is the bits of 1.5·2^23: an i32 that began with it is, taken for an f32, that
	// number and the sum, as long as the sum is below 2^22. Sums are at most 128·255·64.
	magic      = 0x4B400000
	magicValue = 12582912
)

// Bytewise reports whether a plan's codes can be multiplied as bytes, before anything is taken off
// them.
func (p *Plan) Bytewise() bool {
	if p.bytes != nil {
		return p.bytes.Bytewise()
	}
	w := p.Stored.Bits()
	tiles := map[int]int{1: 8, 2: 2, 4: 1}[w]
	return p.Act == dtype.F16 && p.Deferred() && p.Stored.IsInt() && !p.Stored.Signed() && tiles > 0 && p.Tiles == tiles && p.Group > 0 && p.Group%Turn == 0
}

// steps is how many matrix instructions along k a cast is.
func (d *stream) steps() int { return d.Sub / 32 }

// words is the type of k/32 steps of operands as words: [warp, step, tile, half of k, half
// of the rows, lane].
func (d *stream) words(tiles, halves int) build.Type {
	l := layout.Spatial(d.Warps, 1, 1, 1, 1, 1).Local(1, d.steps(), 1, 1, 1, 1).Local(1, 1, tiles, 1, 1, 1).Local(1, 1, 1, 2, 1, 1).Local(1, 1, 1, 1, halves, 1).Spatial(1, 1, 1, 1, 1, 32)
	return build.Register(dtype.U32, l)
}

// constants makes what the powers of two of rows and of digits are.
func (d *stream) constants() {
	if d.tall() {
		return // columnTall makes its own
	}
	b, w := d.b, d.Stored.Bits()
	power := func(name string, exponent build.Value, of, as build.Type) {
		b.View(name, b.Mul(name+"_bits", exponent, 1<<23, of), as)
	}
	rows, columns := d.rows(d.Warps), d.sums(d.Warps, planes)
	ri, ci := build.Register(dtype.I32, rows), build.Register(dtype.I32, columns)
	n := b.Indices("row", ri, build.Dim(0))
	q := b.Shr("row", b.And("row", n, 16*d.Tiles-1, ri), 3, ri)
	q = b.And("row", q, 8/w-1, ri)
	power("back", b.Add("row", b.Mul("row", q, -w, ri), 127, ri), ri, d.rowF32)
	if d.Fixed || d.Long {
		return
	}
	c := b.Indices("digit_at", ci, build.Dim(1))
	power("weight", b.Add("digit_at", b.Mul("digit_at", c, 7, ci), 127-24, ci), ci, d.sum)
}

// digitise makes digits of x of the block's turns, in a warp of its own.
func (d *stream) digitise() {
	b := d.b
	switch {
	case d.Fixed:
		d.digitiseFixed()
		return
	case d.Long:
		d.digitiseLong()
		return
	}
	b.For("t", 0, d.mine, func(t build.Value) {
		d.pipe.Wait(t)
		f32 := func(l layout.Layout) build.Type { return build.Register(dtype.F32, l) }
		four := layout.Spatial(32).Local(4)
		// Of four neighbours, those whose codes are four bits apart follow each other.
		at := layout.Spatial(32, 1, 1)
		from, to := at.Local(1, 2, 1).Local(1, 1, 2), at.Local(1, 1, 2).Local(1, 2, 1)
		ux := b.SliceShared(d.fresh("ux"), d.sx, rowMajor(d.Act, Turn), build.Offset(t.Mod(d.Stages), 0, 0), build.Dims(2))
		x := b.Cast("xf", b.LoadShared("xk", ux, build.Register(d.Act, four)), f32(four))
		x = b.ConvertLayout("xs", b.View("xv", x, f32(from)), f32(to))
		r := b.View("r", x, f32(four))
		ud := b.SliceShared(d.fresh("ud"), d.sd, strided(dtype.I8, []int{planes, Turn}, planeStep, 1), build.Offset(t.Mod(d.Stages), 0, 0))
		for i := planes - 1; i >= 0; i-- {
			one := build.Register(dtype.I8, four)
			digit := build.Value{}
			if i >= digits {
				digit = b.AllocateRegister("none", one, build.Init(0))
			} else {
				weight := float64(int64(1)<<(7*i)) / (1 << 24)
				whole := b.Round("q", b.Mul("q", r, 1/weight, f32(four)), f32(four))
				if i > 0 {
					r = b.Fma("r", whole, -weight, r, f32(four))
				}
				digit = b.Cast("digit", whole, one)
			}
			b.StoreShared(b.SliceShared(d.fresh("plane"), ud, rowMajor(dtype.I8, Turn), build.Offset(i, 0), build.Dims(1)), digit)
		}
		b.ArriveBarrier(d.ready, t)
	}, build.Unroll(1))
}

// multiplyDigits multiplies turn t, one of those that are multiplied together, the j-th.
func (d *stream) multiplyDigits(j int, t build.Value) {
	b := d.b
	if d.Fixed {
		d.multiplyFixed(t, build.Expr("first").Add(build.Expr("count")))
		return
	}
	sums := build.Register(dtype.I32, d.sums(d.Warps, planes))
	sum, sumOfX := name("sum", j), ""
	d.each(func() { b.AllocateRegister(d.of(sum), sums, build.Init(magic)) })
	if d.shifted() {
		sumOfX = name("sumx", j)
		b.AllocateRegister(sumOfX, sums, build.Init(magic))
	}
	d.addProducts(t, func() string { return d.of(sum) }, sumOfX, false)
	plain := func(to, from string) build.Value {
		return b.Sub(to, b.View(to, build.Expr(from), d.sum), magicValue, d.sum)
	}
	var sumx build.Value
	if d.shifted() {
		sumx = plain("fx", sumOfX)
	}
	d.each(func() {
		d.loadShared(name("", j), t, 0)
		d.finish(name("", j), plain("fs", d.of(sum)), sumx, false)
	})
}

// addProducts adds products with turn t to sums of the present side, and digits to sumOfX
// unless that is "". With rest, the last code of each word is left with the others.
func (d *stream) addProducts(t build.Value, sum func() string, sumOfX string, rest bool) {
	b, lane, w := d.b, d.bytesPerLane(), d.Stored.Bits()
	pieces := build.Register(dtype.U8, layout.Spatial(d.Warps, 1).Local(1, lane/16).Spatial(1, 32).Local(1, 16))
	copies := layout.Replicated(d.Warps, 1, 1)
	steps := d.steps()
	loaded := build.Register(dtype.I8, copies.Local(steps, 1).ColumnSpatial(4, 8).Local(8, 1))
	right := build.Register(dtype.I8, copies.Local(2*steps, 1).ColumnSpatial(4, 8).Local(4, 1))
	left := build.Register(dtype.U8, warped(d.Warps, 2).Local(1, steps).Local(d.Tiles, 1).ColumnLocal(2, 2).Spatial(8, 4).Local(1, 4))
	sums := build.Register(dtype.I32, d.sums(d.Warps, planes))
	for sub := range Turn / d.Sub {
		ud := b.SliceShared(d.fresh("ud"), d.sd, strided(dtype.I8, []int{planes, d.Sub}, planeStep, 1), build.Offset(t.Mod(d.Stages), 0, sub*d.Sub))
		ut := b.PermuteShared(d.fresh("ut"), ud, strided(dtype.I8, []int{d.Sub, planes}, 1, planeStep))
		rx := b.View("rx", b.LoadShared("dk", ut, loaded), right)
		d.each(func() {
			from := b.SliceShared(d.fresh("uw"), d.flat8, d.part(), build.Offset(t.Mod(d.Stages), d.side*d.Warps, sub*32*lane))
			rb := b.LoadShared(d.of("rb"), from, pieces)
			u := b.AllocateRegister(d.of("u"), d.words(d.Tiles, 2), build.Init(0))
			cut := func(tile, half int, of build.Value) {
				q := (2*tile + half) % (8 / w)
				m := of
				if !rest || q < 8/w-1 {
					m = b.And("m", of, int64(0x01010101*(1<<w-1))<<(w*q), d.words(1, 1))
				}
				b.SliceAssign(d.of("u"), u, m, d.words(d.Tiles, 2), build.Offset(0, 0, tile, 0, half, 0))
			}
			if w > 1 {
				words := b.View("words", rb, d.words(1, 1))
				for q := range 2 * d.Tiles {
					cut(q/2, q%2, words)
				}
			} else {
				// Of both halves of four k, the even bytes are the first tiles', the odd ones the others'.
				split := func(order []int) build.Type {
					l, err := layout.New([]int{d.Warps, steps, 2, 2, 2, 2, 32}, []int{d.Warps, steps, 2, 2, 2, 2, 32}, []int{0, 6}, order)
					if err != nil {
						panic(err) // it is a permutation
					}
					return build.Register(dtype.U8, l)
				}
				// [warp, step, half of k, half of the rows, upper byte, odd byte, lane]
				bytes := b.View("bytes", rb, split([]int{1, 2, 3, 4, 5}))
				sorted := b.View("sorted", b.ConvertLayout("by_tile", bytes, split([]int{1, 2, 5, 4, 3})), d.words(1, 2))
				evens := b.SliceRegister("even", sorted, d.words(1, 1), build.Offset(0, 0, 0, 0, 0, 0))
				odds := b.SliceRegister("odd", sorted, d.words(1, 1), build.Offset(0, 0, 0, 0, 1, 0))
				for q := range 8 {
					cut(q/2, q%2, evens)
				}
				for q := range 8 {
					cut(4+q/2, q%2, odds)
				}
			}
			a := b.View(d.of("ra"), u, left)
			b.Dot(sum(), a, rx, build.Expr(sum()), sums)
		})
		if sumOfX != "" {
			ones := b.AllocateRegister("ones", left, build.Init(1))
			b.Dot(sumOfX, ones, rx, build.Expr(sumOfX), sums)
		}
	}
}

// column adds the digits of the present side's sums up.
func (d *stream) column() build.Value {
	b := d.b
	switch {
	case d.Apart:
		return d.columnApart()
	case d.tall():
		return d.columnTall()
	case d.Fixed || d.Long:
		return d.columnFixed()
	}
	all := b.Mul("weighed", build.Expr(d.of("acc")), build.Expr("weight"), d.sum)
	return b.Reduce(d.of("column"), all, d.rowF32, build.Dim(1), build.Op("sum"), build.Keepdims("true"))
}
