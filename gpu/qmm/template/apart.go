package template

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Products with Apart. A matrix instruction has eight columns, of which one row of x needs one, and
// a turn has eight steps of 16 k. So each step has a column of its own: there x is the step's, and 0
// in the others. What a turn comes to then has the sums of every group in columns of its own, no
// matter that all steps add to the same registers. Threads have two neighbouring columns, so that
// each has one scale to a row and turn, or two of groups of 16, where sums of each group would
// take a scale in every thread.
const turnSteps = Turn / 16

// columnMasks makes a number of each step: 1 in the threads that have its column of x, else 0.
func (d *decoder) columnMasks() {
	b := d.b
	one := d.masked(dtype.I32, 1)
	column := b.Indices("own_column", one, build.Dim(1))
	for e := range turnSteps {
		below := b.Shr(name("step", e), b.Sub(name("step", e), b.Xor(name("step", e), column, e, one), 1, one), 31, one)
		b.And(name("step", e), below, 1, one)
	}
}

// masked is the type of n numbers of each thread of an operand of x: [warps, columns, 4, n]; warps that do not
// share k have the same.
func (d *decoder) masked(t dtype.Type, n int) build.Type {
	warps := layout.Replicated(d.width(), 1, 1, 1, 1)
	if d.Parts > 1 {
		warps = layout.Spatial(d.width(), 1, 1, 1)
	}
	return build.Register(t, warps.Mul(layout.Spatial(1, 1, 1, 1)).Spatial(1, turnSteps, 4, 1).Local(1, 1, 1, n))
}

// ownX is the layout of a turn's x, of which each thread has what its column takes.
func (d *decoder) ownX() layout.Layout {
	if d.Run == 4 {
		return layout.Spatial(32).Local(4)
	}
	l, err := layout.New([]int{Turn}, []int{Turn / 32, 4, 2, 4}, []int{0, 2, 1}, []int{3})
	if err != nil {
		panic(err) // its modes are those of a turn
	}
	return l
}

// loadOwnX loads x of a turn, the j-th, for warps that share k.
func (d *decoder) loadOwnX(j int, turn build.Value) {
	d.b.LoadGlobal(name("xo", j), d.gx, build.Register(d.Act, each(d.Parts, d.ownX())), build.Offset(d.bm, turn, 0), build.Dims(1, 2))
}

// ownGroups is the layout of scales of a turn, [groups, outputs]: of each thread those of its
// columns' group, or of the first or second of them.
func (d *decoder) ownGroups(warps int) layout.Layout {
	outputs := layout.Spatial(1, warps).Spatial(1, 8)
	if d.Group == 64 {
		outputs = outputs.Spatial(2, 1).Mul(layout.Replicated(2, 1, 1))
	} else {
		outputs = outputs.Spatial(4, 1)
	}
	return outputs.Local(1, 2*d.Tiles)
}

// pairs is how many scales of an output a thread has of a turn.
func (d *decoder) pairs() int { return max(1, d.scales()/4) }

// loadApart loads scales, and zero points, of turn g into copy j.
func (d *decoder) loadApart(j int, g build.Value) {
	b, n := d.b, d.tile().Mul(d.outputs())
	as := build.Register(d.Scale, each(d.Parts, d.ownGroups(1)))
	for p := range d.pairs() {
		at, dims := build.Offset(g, 0, n), build.Dims(0, 1, 2)
		if d.pairs() > 1 {
			at, dims = build.Offset(g, 0, p, n), build.Dims(0, 1, 3)
		}
		b.LoadGlobal(d.ofPair(j, p), d.gs, as, at, dims)
	}
	if d.Zero {
		for q := range d.scales() {
			b.LoadGlobal(d.of(fmt.Sprintf("rz%d_%d", j, q)), d.gz, d.flatZ, build.Offset(g, q, n), build.Dims(0, 2))
		}
	}
}

// ofPair is what scales of the p-th of a thread's columns are loaded as.
func (d *decoder) ofPair(j, p int) string { return d.of(fmt.Sprintf("rs%d_%d", j, p)) }

// beginApart begins outputs.
func (d *decoder) beginApart() {
	d.b.AllocateRegister(d.of("acc"), d.perBase(dtype.F32, 2*d.Tiles), build.Init(0))
}

// productsApart multiplies what of turn j was cast together, from k on, with its steps of x, which is loaded
// as own.
func (d *decoder) productsApart(j, k int, tag string, own build.Value) {
	b := d.b
	words := b.View(name("xw", j), own, d.masked(dtype.I32, 2))
	right := layout.Local(2, 1).ColumnSpatial(4, 8).Local(2, 1)
	if d.Parts > 1 {
		right = each(d.Parts, right)
	} else {
		right = layout.Replicated(d.Warps, 1, 1).Mul(right)
	}
	for i := range d.Sub / 16 {
		e := k/16 + i
		rx := b.View(name("rx", e), b.Mul(name("xs", e), words, build.Expr(name("step", e)), d.masked(dtype.I32, 2)), build.Register(d.Act, right))
		d.each(func() {
			sum, rh := d.of(name("sum", j)), build.Expr(d.of("rh"+tag))
			if e == 0 {
				b.AllocateRegister(sum, d.dotSum(), build.Init(0))
			}
			rh = b.SliceRegister(d.of(fmt.Sprintf("rh%s_%d", tag, i)), rh, build.Register(d.Act, d.left(d.width(), 16)), build.Offset(0, 16*i))
			if d.Parts > 1 {
				rh = b.View(d.of(fmt.Sprintf("ra%s_%d", tag, i)), rh, d.operand(d.left(1, 16)))
			}
			b.Dot(sum, rh, rx, build.Expr(sum), d.dotSum())
		})
	}
}

// finishApart adds a turn's sums, times their scales, to the outputs' of the present side.
func (d *decoder) finishApart(j int) {
	b, n := d.b, 2*d.Tiles
	f32 := d.perBase(dtype.F32, n)
	two := layout.Spatial(d.width(), 1, 1, 1, 1).Local(1, n, 1, 1, 1).Spatial(1, 1, 8, bases, 1)
	both := b.View(d.of("both"), build.Expr(d.of(name("sum", j))), build.Register(dtype.F32, two.Local(1, 1, 1, 1, 2)))
	column := func(i int) build.Value {
		part := b.SliceRegister(d.of(name("columns", i)), both, build.Register(dtype.F32, two), build.Offset(0, 0, 0, 0, i))
		return b.View(d.of(name("column", i)), part, f32)
	}
	scale := func(p int) build.Value {
		to := d.of(name("scale", p))
		s := b.Cast(to, b.View(to+"_own", build.Expr(d.ofPair(j, p)), d.perBase(d.Scale, n)), f32)
		if d.Power != 0 {
			s = b.Mul(to, s, math.Ldexp(1, d.Power), f32)
		}
		if d.Deferred() {
			s = b.Mul(to, s, b.View("back_own", build.Expr("back"), f32), f32)
		}
		return s
	}
	acc := d.of("acc")
	if d.pairs() == 1 {
		b.Fma(acc, b.Add(d.of("column_sum"), column(0), column(1), f32), scale(0), build.Expr(acc), f32)
		return
	}
	for p := range d.pairs() {
		b.Fma(acc, column(p), scale(p), build.Expr(acc), f32)
	}
}

// columnApart adds the columns' sums of the present side up.
func (d *decoder) columnApart() build.Value {
	flat := d.b.View(d.of("acc_flat"), build.Expr(d.of("acc")), build.Register(dtype.F32, warped(d.width(), 2).Local(2*d.Tiles, 1).Spatial(8, bases)))
	return d.b.Reduce(d.of("column"), flat, d.rowF32, build.Dim(1), build.Op("sum"), build.Keepdims("true"))
}

// loadSharedApart loads scales of the turn of a stage into copy j.
func (d *stream) loadSharedApart(j int, t build.Value) {
	as := build.Register(d.Scale, d.ownGroups(d.Warps))
	for p := range d.pairs() {
		groups, at := d.scales()/d.pairs(), build.Offset(slot(t, d.Stages), 0, p, d.side*d.outputs())
		tile := d.b.SliceShared(d.fresh("us"), d.ss4, strided(d.Scale, []int{groups, d.outputs()}, d.pairs()*d.many(), 1), at, build.Dims(1, 3))
		d.b.LoadShared(d.ofPair(j, p), tile, as)
	}
}

// multiplyApart multiplies turn t, one of those that are multiplied together, the j-th.
func (d *stream) multiplyApart(j int, t build.Value) {
	b, lane := d.b, d.bytesPerLane()
	pieces := build.Register(dtype.U8, layout.Spatial(d.Warps, 1).Local(1, lane/16).Spatial(1, 32).Local(1, 16))
	d.each(func() { d.loadSharedApart(j, t) })
	if d.Less {
		d.each(func() {
			for q := range d.scales() {
				d.loadGroup(d.loaded("rz", j, q*d.Group), "uz", d.sz, t, q, d.ZeroType(), d.flatZ)
			}
		})
	}
	ux := b.SliceShared(d.fresh("ux"), d.sx, rowMajor(d.Act, Turn), build.Offset(slot(t, d.Stages), 0, 0), build.Dims(2))
	own := b.LoadShared(name("xo", j), ux, build.Register(d.Act, layout.Replicated(d.Warps, 1).Mul(d.ownX())))
	for sub := range Turn / d.Sub {
		tag := fmt.Sprintf("%d_%d", j, sub)
		d.each(func() {
			from := b.SliceShared(d.fresh("uw"), d.flat8, d.part(), build.Offset(slot(t, d.Stages), d.side*d.Warps, sub*32*lane))
			d.cast(tag, b.View(d.of("rw"), b.LoadShared(d.of("rb"), from, pieces), d.codes1))
			d.grouped(d.of("rh"+tag), func(k int) layout.Layout { return d.left(d.Warps, k) }, func(what string, k int) string { return d.loaded(what, j, sub*d.Sub+k) })
		})
		d.productsApart(j, sub*d.Sub, tag, own)
	}
	d.each(func() { d.finishApart(j) })
}
