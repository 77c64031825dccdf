package template

import (
	"cmp"
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// ring is where warps along k have their turns from, where a schedule is [Schedule.Ringed]: a stage holds one for each of them,
// weights, scales, zero points and the one row of x, and a warp of its own fills it by tensor copies. What is under way takes no
// registers then, and x, of which each column of a product has the same row, is loaded as it is multiplied.
type ring struct {
	pipe           build.Pipeline
	sw, sx, ss, sz build.Value
	steps, first   build.Value // of all warps together, and the first warp's turn of the first of them
}

// fillRing is the part of fill for warps along k with stages.
func (s Schedule) fillRing(p *Plan) error {
	d := &decoder{Plan: p.of(s), Schedule: s}
	scales, zeros := d.ringScales(d.Scale), 0
	if d.Zero {
		zeros = d.ringScales(d.ZeroType())
	}
	switch {
	case s.Rows != 1 || s.Blocks != 0 || s.Digits || s.Warpgroups || s.Apart:
		return fmt.Errorf("template: %d rows, %d warps along k with %d stages: they multiply one row of x, as it is, and no block stays", s.Rows, s.Parts, s.Stages)
	case s.Stages < max(2, s.Depth) || s.Stages > 32:
		return fmt.Errorf("template: %d stages, depth %d: there are 2 to 32, and as many as turns are multiplied together", s.Stages, s.Depth)
	case s.Early >= s.Stages:
		return fmt.Errorf("template: weights of %d turns early, in %d stages: fewer than there are stages, or 0 for all", s.Early, s.Stages)
	case scales%tensorStep+zeros%tensorStep != 0 || d.many() > ir.MaxBox:
		return fmt.Errorf("template: %d and %d bytes of scales and zero points, of %d outputs: a stage's are multiples of %d bytes, of %d outputs at most; have more warps along k or other sides", scales, zeros, d.many(), tensorStep, ir.MaxBox)
	case s.SharedBytes(p) > maxShared-streamAside:
		return fmt.Errorf("template: %d stages of %d bytes do not fit shared memory: have less of them, or less sides or warps along k", s.Stages, d.ringBytes())
	}
	return nil
}

// ringScales are the bytes of what a stage has of t for each group and output.
func (d *decoder) ringScales(t dtype.Type) int {
	return d.Parts * d.scales() * d.many() * t.Bits() / 8
}

// ringBytes is what a stage holds.
func (d *decoder) ringBytes() int {
	n := d.Parts*(d.Sides*d.tileBytes()+Turn*d.Act.Bits()/8) + d.ringScales(d.Scale)
	if d.Zero {
		n += d.ringScales(d.ZeroType())
	}
	return n
}

// perGroup is the type of what a stage has of t for each group and output: [Parts, many], or [Parts, groups, many]; n stages of it are
// along a dimension in front.
func (d *decoder) perGroup(t dtype.Type, n ...int) build.Type {
	shape := append(n, d.Parts)
	if d.scales() > 1 {
		shape = append(shape, d.scales())
	}
	return rowMajor(t, append(shape, d.many())...)
}

// bringTurns allocates stages, begins to fill them, and has a warp of its own go on while the others multiply.
func (d *decoder) bringTurns(bk build.Value, multiply func()) {
	b, r := d.b, &d.ring
	r.sw = b.AllocateShared("sw", rowMajor(dtype.U8, d.Stages, d.Sides, d.Parts, d.tileBytes()/row, row))
	r.sx = b.AllocateShared("sx", rowMajor(d.Act, d.Stages, d.Parts, Turn))
	r.ss = b.AllocateShared("ss", d.perGroup(d.Scale, d.Stages))
	if d.Zero {
		r.sz = b.AllocateShared("sz", d.perGroup(d.ZeroType(), d.Stages))
	}
	flat := b.ReshapeShared("flat", r.sw, rowMajor(dtype.U8, d.Stages, d.Sides, d.Parts, d.tileBytes()))
	r.pipe = b.Pipeline("p", d.Stages, d.Parts)
	b.Synchronize()
	unit := d.Splits * d.Parts
	r.steps = b.Let("steps", d.all.Add(unit*d.Depth-1).Div(unit*d.Depth).Mul(d.Depth)) // those behind the last turn bring zeros
	r.first = build.Expr("0")
	if d.Splits > 1 {
		r.first = bk.Mul(d.Parts)
	}
	// What copies bring in front of the wait below and behind it has names of its own.
	turnOf := func(t build.Value) build.Value { return b.Let("turn", r.first.Add(t.Mul(unit))) }
	weights := func(tag string, t build.Value) {
		r.pipe.Fill(t, d.ringBytes())
		g := turnOf(t)
		bring := func(from, to build.Value, as build.Type, at ...any) {
			offset := make([]any, len(at))
			for i := range offset {
				offset[i] = 0
			}
			b.CopyAsyncTensorGlobalToShared(from, r.pipe.Stage("t"+to.String()+tag, to, t, as, offset...), r.pipe.Full, t, build.Offset(at...), build.Cache("first"))
		}
		bring(d.gw, r.sw, rowMajor(dtype.U8, d.Sides, d.Parts, d.tileBytes()/row, row), d.bn.Mul(d.Sides), g, 0, 0)
		at := []any{g, d.bn.Mul(d.many())}
		if d.scales() > 1 {
			at = []any{g, 0, d.bn.Mul(d.many())}
		}
		bring(d.gs, r.ss, d.perGroup(d.Scale), at...)
		if d.Zero {
			bring(d.gz, r.sz, d.perGroup(d.ZeroType()), at...)
		}
	}
	x := func(tag string, t build.Value) {
		to := r.pipe.Stage("tx"+tag, r.sx, t, rowMajor(d.Act, d.Parts, Turn))
		b.CopyAsyncTensorGlobalToShared(d.gx, to, r.pipe.Full, t, build.Offset(d.bm, turnOf(t), 0), build.Dims(1, 2))
	}
	early := b.Let("early", r.steps.Min(cmp.Or(d.Early, d.Stages)))
	b.Group(32*d.Parts, 1, func() {
		b.For("t", 0, early, func(t build.Value) { weights("_early", t) }, build.Unroll(1))
	})
	if d.PDL {
		b.GridDependencyWait()
	}
	b.Group(32*d.Parts, 1, func() {
		b.For("t", 0, early, func(t build.Value) { x("_early", t) }, build.Unroll(1))
		b.For("t", early, r.steps, func(t build.Value) {
			b.If(t.GreaterEqual(d.Stages), func() { r.pipe.Acquire(t) })
			weights("", t)
			x("", t)
		}, build.Unroll(1))
	})
	r.sw = flat
	b.Group(0, 32*d.Parts, multiply)
}

// loopRing multiplies all turns of the block from stages.
func (d *decoder) loopRing() {
	b, r := d.b, &d.ring
	b.For("i", 0, r.steps, func(i build.Value) {
		for j := range d.Depth {
			t := b.Let(name("t", j), i.Add(j))
			r.pipe.Wait(t)
			d.each(func() { d.loadStage(j, t) })
		}
		d.turn(build.Expr("i"), nil)
		for j := range d.Depth {
			r.pipe.Release(build.Expr(name("t", j)))
		}
	}, build.Unroll(1), build.Step(d.Depth))
}

// loadStage loads what the present side has of a stage into copy j.
func (d *decoder) loadStage(j int, t build.Value) {
	b, r, lane := d.b, &d.ring, d.bytesPerLane()
	stage, bytes := slot(t, d.Stages), 32*lane
	for sub := range Turn / d.Sub {
		to := d.weights(j, sub)
		from := b.SliceShared("u"+to, r.sw, strided(dtype.U8, []int{d.Parts, bytes}, d.tileBytes(), 1), build.Offset(stage, d.side, 0, sub*bytes), build.Dims(2, 3))
		b.LoadShared(to, from, build.Register(dtype.U8, each(d.Parts, layout.Local(lane/16).Spatial(32).Local(16))))
	}
	load := func(to string, from build.Value, t dtype.Type, as build.Type) {
		for q := range d.scales() {
			tag, at, dims := name("", j), []any{stage, 0, d.side * d.outputs()}, build.Dims(1, 2)
			if d.scales() > 1 {
				tag, at, dims = fmt.Sprintf("%d_%d", j, q), []any{stage, 0, q, d.side * d.outputs()}, build.Dims(1, 3)
			}
			tile := b.SliceShared(d.of("u"+to+tag), from, strided(t, []int{d.Parts, d.outputs()}, d.scales()*d.many(), 1), build.Offset(at...), dims)
			b.LoadShared(d.of(to+tag), tile, as)
		}
	}
	load("rs", r.ss, d.Scale, d.flat)
	if d.Zero {
		load("rz", r.sz, d.ZeroType(), d.flatZ)
	}
}

// loadRow loads dot elements of the j-th turn's x from k on, the same for all columns of products.
func (d *decoder) loadRow(tag string, j, k, dot int) {
	loaded := layout.Local(dot / (4 * d.Run)).Mul(layout.Replicated(8, 1)).Spatial(4).Local(d.Run)
	from := d.b.SliceShared("ux"+tag, d.ring.sx, strided(d.Act, []int{d.Parts, dot}, Turn, 1), build.Offset(slot(build.Expr(name("t", j)), d.Stages), 0, k))
	d.b.LoadShared("xk"+tag, from, build.Register(d.Act, each(d.Parts, loaded)))
}

// columnRing is what the columns of the present side came to, all the same.
func (d *decoder) columnRing() build.Value {
	b, n := d.b, 2*d.Tiles
	pairs := layout.Spatial(d.Parts, 1, 1, 1, 1).Local(1, n, 1, 1, 1).Spatial(1, 1, 8, bases, 1)
	both := b.View(d.of("both"), build.Expr(d.of("acc")), build.Register(dtype.F32, pairs.Local(1, 1, 1, 1, 2)))
	even := b.SliceRegister(d.of("even"), both, build.Register(dtype.F32, pairs), build.Offset(0, 0, 0, 0, 0))
	flat := b.View(d.of("even_flat"), even, build.Register(dtype.F32, warped(d.Parts, 2).Local(n, 1).Spatial(8, bases)))
	return b.Reduce(d.of("column"), flat, d.rowF32, build.Dim(1), build.Op("max"), build.Keepdims("true"))
}
