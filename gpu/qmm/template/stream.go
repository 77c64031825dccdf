package template

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// stream is a program of [Decode] whose blocks stay: all turns of all outputs stand in one
// row, of which each block takes as many as any other, whatever outputs they belong to. A
// warp of its own brings them to shared memory by bulk and tensor copies, so that what is
// under way takes no registers and goes on where outputs end. Outputs that several blocks
// come to are added up, in order, by the one that has their first turn.
type stream struct {
	*decoder
	pipe           build.Pipeline
	sw, sx, ss, sz build.Value
	flat8          build.Value // sw, a row for each tile
	gp, ga         build.Value
	turns, height  build.Value // tiles of k and of rows
	start, mine    build.Value
	total          build.Value // turns of all blocks
	few            build.Value // whether there are more blocks than turns
	sd, ready      build.Value // digits of x, and when they are there
	ss4            build.Value // ss, with groups that are columns of the same threads
	xscale, xsum   build.Value // of x as whole numbers, for digits
	names          map[string]int
}

// fresh is a name for one more tile of shared memory, which is named once.
func (d *stream) fresh(name string) string {
	if d.names == nil {
		d.names = map[string]int{}
	}
	d.names[name]++
	return fmt.Sprintf("%s%d", name, d.names[name])
}

// fillStream is the part of fill for schedules with stages.
func (s Schedule) fillStream(p *Plan) (Schedule, error) {
	if s.Blocks == 0 && !s.Joint {
		s.Blocks = H200().SMs
	}
	d := &decoder{Plan: p.of(s), Schedule: s}
	if s.Warpgroups {
		if err := s.fillGang(p); err != nil {
			return s, err
		}
	}
	switch {
	case s.Rows&(s.Rows-1)+s.Sides&(s.Sides-1) != 0 || s.Sides*s.Warps > 4*MaxWarps:
		return s, fmt.Errorf("template: %d rows, %d warps and %d sides: rows and sides are powers of two, and of warps and sides together there are at most %d", s.Rows, s.Warps, s.Sides, 4*MaxWarps)
	case s.Digits && (s.Rows != 1 || !p.Bytewise()):
		return s, fmt.Errorf("template: %d rows as digits of %s: they are of f16, one at a time, for codes of 1, 2 or 4 bits that are stored without a sign (here as %s) and have no zero points taken off, in groups of %d", s.Rows, p.Weight, p.Stored, Turn)
	case !s.Single() && s.Rows < 8:
		return s, fmt.Errorf("template: rows %d is not from 8 to 32", s.Rows)
	case s.Digits && s.Fixed && (s.Stages%bases != 0 || s.Depth > 1):
		return s, fmt.Errorf("template: whole numbers in %d stages, depth %d: they take a multiple of %d stages, and turns one by one", s.Stages, s.Depth, bases)
	case s.Long && (!s.Digits || s.Fixed || s.Stages%longTurns != 0 || s.Depth > longTurns):
		return s, fmt.Errorf("template: numbers of 31 bits in %d stages, depth %d: they are digits of their own kind, and take an even number of stages, and two turns together", s.Stages, s.Depth)
	case s.Splits > 1 && !s.Joint:
		return s, fmt.Errorf("template: %d splits beside %d stages: blocks that stay share k anyway, others as a cluster", s.Splits, s.Stages)
	case s.Joint && s.Blocks != 0:
		return s, fmt.Errorf("template: %d blocks in clusters: as many as there are outputs; leave them out", s.Blocks)
	case s.Stages < 2 || s.Stages > 32 || s.Blocks < 1 && !s.Joint || s.Blocks > 4096:
		return s, fmt.Errorf("template: %d stages, %d blocks: there are 2 to 32 and 1 to 4096", s.Stages, s.Blocks)
	case s.Early >= s.Stages:
		return s, fmt.Errorf("template: weights of %d turns early, in %d stages: fewer than there are stages, or 0 for all", s.Early, s.Stages)
	case s.SharedBytes(p) > maxShared-streamAside:
		return s, fmt.Errorf("template: %d stages of %d bytes do not fit shared memory", s.Stages, (&stream{decoder: d}).room())
	}
	if s.Long {
		s.Depth = longTurns
	}
	return s, nil
}

// streamAside is what blocks that stay need of shared memory beside their stages: barriers, a
// word for single instructions, and what tensors for copies lose to alignment.
const streamAside = 1024

// SharedBytes is what the stages of a block take, and sums that meet in shared memory, without barriers.
func (s Schedule) SharedBytes(p *Plan) int {
	if s.Ringed() {
		return s.Stages*(&decoder{Plan: p.of(s), Schedule: s}).ringBytes() + s.metBytes(p) + s.gatherBytes(p)
	}
	return s.Stages*(&stream{decoder: &decoder{Plan: p.of(s), Schedule: s}}).room() + s.gatherBytes(p)
}

// Takes reports whether a product of n outputs and k inputs can have the schedule: where
// blocks stay, they end where the tensors for n outputs do, and copies of x begin at
// multiples of 16 bytes.
func (s Schedule) Takes(p *Plan, n, k int) bool {
	if !s.Streams() && s.Parts <= 1 && !s.Apart {
		return true
	}
	_, err := s.fill(p)
	if !s.Streams() {
		return err == nil && k%Turn == 0
	}
	return err == nil && k%8 == 0 && p.Padded(n)%(p.Outputs()*s.Warps*s.Sides) == 0
}

// row is how many bytes of weights are a row of what one tensor copy brings: all tiles of
// a block and turn come by one instruction.
const row = 256

// tileBytes are the weights of a tile in a turn.
func (d *decoder) tileBytes() int { return d.Outputs() * Turn * d.Stored.Bits() / 8 }

// scaleBytes are those of a turn, of scales and of zero points, of a block.
func (d *decoder) scaleBytes() (s, z int) {
	if d.Group == 0 {
		return 0, 0
	}
	n := d.scales() * d.outputs() * d.Sides
	s = n * d.Scale.Bits() / 8
	if d.Zero {
		z = n * d.ZeroType().Bits() / 8
	}
	return s, z
}

// bytes of a stage.
func (d *stream) bytes() int {
	s, z := d.scaleBytes()
	return d.Warps*d.Sides*d.tileBytes() + d.Rows*Turn*2 + s + z
}

// slot is the stage of turn t among n. Turns are not negative; where n is no power of two, lowering must see it.
func slot(t build.Value, n int) build.Value {
	if n&(n-1) != 0 {
		t = t.Max(0)
	}
	return t.Mod(n)
}

// room is what a stage takes of shared memory.
func (d *stream) room() int {
	if d.Warpgroups {
		return d.bytes() + d.gangRoom()
	}
	if d.Digits {
		n := d.bytes() + planes*d.planeRow()
		if d.Fixed {
			n += fixedRoom
		} else if d.Long {
			n += longRoom
		}
		return n
	}
	return d.bytes()
}

// many is all outputs of a block.
func (d *decoder) many() int { return d.outputs() * d.Sides }

func (d *stream) program() (*ir.Program, error) {
	title, warps := "stream", d.Warps+1
	var g *gang
	switch {
	case d.Digits:
		title, warps = "digits", warps+1
	case d.Warpgroups:
		title, warps = "gang", d.Warps+4
		if d.Fixed {
			title = "fixed"
		}
		g = newGang(d)
	}
	options := []build.Option{build.Grid(d.Blocks), build.Warps(warps), build.Resident(d.Resident)}
	if d.Joint {
		options[0] = build.Grid(d.Splits, ceilText("N", d.many()), ceilText("M", d.Rows))
		options = append(options, build.Cluster(d.Splits))
	}
	b := build.Program(fmt.Sprintf("%s_%s_%s", title, d.Weight, d.Act), options...)
	d.b = b
	in := d.params()
	if g == nil {
		d.types()
	} else {
		g.w.b = b
		g.w.types()
	}
	d.bn, d.bm = build.Expr("bn"), build.Expr("bm")
	var bi build.Value
	if d.Joint {
		bi, _, _ = b.BlockIndices3("bk", "bn_first", "bm_first")
	} else {
		bi = b.BlockIndices("bi")
	}
	turns := build.Expr(ceilText("K", Turn))
	tiles := build.Expr(ceilText("N", d.many()))
	d.gw = b.ViewGlobal("gw", in.w, build.Global(dtype.U8, tiles.Mul(d.Warps*d.Sides), turns, d.tileBytes()/row, row))
	d.scaleViews(in.s, in.z, turns)
	d.gx = b.ViewGlobal("gx", in.x, build.Global(d.Act, d.m, in.k))
	d.gy = b.ViewGlobal("gy", in.y, build.Global(d.Act, d.m, d.n))
	switch {
	case d.Joint:
	case g == nil:
		d.gp = b.ViewGlobal("gp", in.part, build.Global(dtype.F32, d.Blocks, d.m, d.many()))
	default:
		d.gp = b.ViewGlobal("gp", in.part, g.parts())
	}
	if !d.Joint {
		d.ga = b.ViewGlobal("ga", in.arrived, build.Global(dtype.I32, build.Expr(ceilText("M", d.Rows)).Mul(tiles)))
	}
	d.sw = b.AllocateShared("sw", rowMajor(dtype.U8, d.Stages, d.Warps*d.Sides, d.tileBytes()/row, row))
	switch {
	case d.Digits:
		d.sx = b.AllocateShared("sx", rowMajor(d.Act, d.Stages, 1, Turn))
		d.sd = b.AllocateShared("sd", rowMajor(dtype.I8, d.Stages, planes, d.planeRow()))
		if d.Fixed {
			d.allocateFixed()
		} else if d.Long {
			d.allocateLong()
		}
	case d.Fixed || d.Apart:
		d.sx = b.AllocateShared("sx", rowMajor(d.Act, d.Stages, d.Rows, Turn))
	default:
		d.sx = b.AllocateShared("sx", build.Shared(d.Act, swizzled(d.Stages*Turn/d.piece(), d.Rows, d.piece())))
	}
	if d.Group > 0 {
		d.ss = b.AllocateShared("ss", rowMajor(d.Scale, d.Stages, d.scales(), d.many()))
		if d.Apart {
			d.ss4 = b.ReshapeShared("ss4", d.ss, rowMajor(d.Scale, d.Stages, d.scales()/d.pairs(), d.pairs(), d.many()))
		}
		if d.Zero {
			d.sz = b.AllocateShared("sz", rowMajor(d.ZeroType(), d.Stages, d.scales(), d.many()))
			d.boxZ = d.boxOf("zb", in.z, d.sz, d.ZeroType(), d.Stages, d.many())
		}
		d.boxS = d.boxOf("sb", in.s, d.ss, d.Scale, d.Stages, d.many())
	}
	d.flat8 = b.ReshapeShared("flat", d.sw, rowMajor(dtype.U8, d.Stages, d.Warps*d.Sides, d.tileBytes()))
	if d.PDL { // at once: while each multiprocessor has one block, the next launch gets one on each
		b.GridDependencyLaunch()
	}
	d.pipe = b.Pipeline("p", d.Stages, d.Warps)
	if d.Digits || d.Warpgroups {
		d.ready = b.AllocateBarrier("ready", build.Type(fmt.Sprintf("shared u64[%d] shared_row_major(%[1]d)", d.Stages)), build.Count(max(1, d.Rows/8)))
	}
	if g != nil {
		g.allocate()
	}
	if d.Joint {
		shape := []int{d.outputs(), d.columns()}
		if g != nil {
			shape = []int{d.Warps, g.pieces(), 32, 4}
		}
		d.gatherSides(bi, d.Warps, shape...)
	}
	b.Synchronize()
	d.turns = b.Let("turns", turns)
	d.height = b.Let("height", build.Expr(ceilText("M", d.Rows)))
	b.Assume("M >= 1 && N >= 1 && K >= 1")
	if d.Joint {
		from := b.Let("g_first", bi.Mul(d.turns).Div(d.Splits))
		d.mine = b.Let("mine", bi.Add(1).Mul(d.turns).Div(d.Splits).Sub(from))
	} else {
		d.shares(tiles, bi)
	}
	early := cmp.Or(d.Early, d.Stages)
	ahead := b.Let("ahead", d.mine.Min(early))
	if g != nil {
		g.share()
	}
	b.Group(32*d.Warps, 1, func() {
		d.restart()
		b.For("t", 0, ahead, func(t build.Value) {
			d.copyWeights(t)
			d.next()
		}, build.Unroll(1))
	})
	if d.Joint { // while the first weights are under way
		b.ClusterSynchronize()
	}
	if d.PDL {
		b.GridDependencyWait()
	}
	copies := func() {
		d.restart()
		b.For("t", 0, d.mine, func(t build.Value) {
			b.If(t.GreaterEqual(early), func() {
				d.pipe.Acquire(t)
				d.copyWeights(t)
			})
			d.copyX(t)
			d.next()
		}, build.Unroll(1))
	}
	if g != nil {
		g.aside(copies)
	} else {
		b.Group(32*d.Warps, 1, copies)
	}
	if d.Digits {
		b.Group(32*(d.Warps+1), 32, d.digitise)
	}
	b.Group(0, 32*d.Warps, func() {
		turn := d.multiply
		if g != nil {
			g.constants()
		} else if d.Digits {
			turn = d.multiplyDigits
			d.constants()
		} else if d.Apart {
			turn = d.multiplyApart
			d.columnMasks()
		} else if d.shifted() {
			b.AllocateRegister("ones", build.Register(d.Act, d.left(d.Warps, d.piece())), build.Init(1))
		}
		t := b.Let("t", 0)
		d.restart()
		outputs := func() {
			count := b.Let("count", d.turns.Sub(build.Expr("g")).Min(d.mine.Sub(t)))
			first := b.Let("first", t)
			if g != nil {
				g.stretch(t, count)
				if d.Joint {
					d.each(func() { d.send(g.total()) })
					return
				}
				d.meet(g.flat, g.total, g.store, g.portion, 2)
				d.proceed(first, count)
				return
			}
			d.begin()
			if d.Long {
				d.stretchLong(first, count)
				d.end()
				d.proceed(first, count)
				return
			}
			// Several turns at once, as far as there are so many: what one waits for, another
			// has to do.
			rest := build.Expr("0")
			if d.Depth > 1 {
				rest = b.Let("rest", count.Div(d.Depth).Mul(d.Depth))
				b.For("i", 0, rest, func(i build.Value) {
					at := make([]build.Value, d.Depth)
					for j := range at {
						at[j] = b.Let(name("t", j), first.Add(i.Add(j)))
					}
					d.wait(at, turn)
				}, build.Unroll(1), build.Step(d.Depth))
			}
			b.For("i", rest, count, func(i build.Value) { d.wait([]build.Value{b.Let("t0", first.Add(i))}, turn) }, build.Unroll(1))
			d.end()
			d.proceed(first, count)
		}
		switch {
		case d.Joint && g != nil: // whose first products begin in front of the loop
			b.If(t.Less(d.mine), func() {
				g.w.begins(g.hangs(), t)
				outputs()
			}).Else(func() {
				none := b.AllocateRegister("no_part", build.Register(dtype.F32, g.flat), build.Init(0))
				d.each(func() { d.send(none) })
			})
			d.sent()
			d.collect(build.Register(dtype.F32, g.flat), g.store)
		case d.Joint:
			outputs()
			d.sent()
			if d.Single() {
				d.collect(build.Register(dtype.F32, d.quarters()), d.storeColumn)
			} else {
				of, store := d.byRows()
				d.collect(build.Register(dtype.F32, of), store)
			}
		case g != nil:
			g.w.tilesOf(g.hangs(), t.Less(d.mine), t, outputs)
		default:
			b.While(t.Less(d.mine), outputs)
		}
	})
	return b.Build()
}

// startOf is the first turn of share j. Where there are few turns, the first blocks
// have one each, so that no two that meet have one without any between them.
func (d *stream) startOf(j build.Value) build.Value {
	return d.few.Select(j.Min(d.total), j.Mul(d.total).Div(d.Blocks))
}

// holder is the share that has a turn.
func (d *stream) holder(turn build.Value) build.Value {
	return turn.Add(1).Mul(d.total.Min(d.Blocks)).Sub(1).Div(d.total)
}

// rowMajor is the type of a plain tensor in shared memory.
func rowMajor(t dtype.Type, shape ...int) build.Type {
	text := fmt.Sprint(shape[0])
	for _, n := range shape[1:] {
		text += fmt.Sprintf(", %d", n)
	}
	return build.Type(fmt.Sprintf("shared %s[%s] shared_row_major(%[2]s)", t, text))
}

// strided is the type of a tensor in shared memory whose dimensions have these strides. Which layout that is
// called in canonical text depends on the sizes: those of 1 have no stride.
func strided(t dtype.Type, shape []int, strides ...int) build.Type {
	l, err := layout.NewShared(shape, shape, strides, layout.Swizzle{})
	if err != nil {
		panic(err) // schedules are checked
	}
	return build.Shared(t, l)
}

// shares says where the turns of block bi belong: the first of them is turn g_first of k, of outputs
// bn_first and rows bm_first.
func (d *stream) shares(tiles, bi build.Value) {
	b := d.b
	// Shares differ by one turn at most: a block without any would end at once, and its
	// multiprocessor get two blocks of the next launch.
	d.total = b.Let("total", tiles.Mul(d.height).Mul(d.turns))
	d.few = b.Let("few", d.total.Less(d.Blocks))
	// Blocks have shares from the last one on, since a block may wait only for those in front of it.
	share := b.Let("share", build.Expr(fmt.Sprint(d.Blocks-1)).Sub(bi))
	d.start = b.Let("start", d.startOf(share))
	d.mine = b.Let("mine", d.startOf(share.Add(1)).Sub(d.start))
	head := b.Let("head", d.start.Div(d.turns))
	b.Let("g_first", d.start.Sub(head.Mul(d.turns)))
	b.Let("bn_first", head.Div(d.height))
	b.Let("bm_first", head.Sub(build.Expr("bn_first").Mul(d.height)))
}

// restart goes back to where the block's first turn belongs.
func (d *stream) restart() {
	for _, v := range []string{"g", "bm", "bn"} {
		d.b.Let(v, build.Expr(v+"_first"))
	}
}

// next goes on to where the following turn belongs.
func (d *stream) next() {
	b := d.b
	g := b.Let("g", build.Expr("g").Add(1))
	if d.Joint {
		return // all turns are of the same outputs
	}
	over := b.Let("turn_end", g.Equal(d.turns))
	b.Let("g", over.Select(0, g))
	d.step(over.Select(1, 0))
}

// proceed goes on from turns up to the end of outputs, so many from the first on.
func (d *stream) proceed(first, count build.Value) {
	if d.Joint {
		return
	}
	d.b.Let("t", first.Add(count))
	d.b.Let("g", build.Expr("0"))
	d.step(build.Expr("1"))
}

// step goes on by so many outputs or none.
func (d *stream) step(by build.Value) {
	b := d.b
	bm := b.Let("bm", d.bm.Add(by))
	top := b.Let("row_end", bm.Equal(d.height))
	b.Let("bn", d.bn.Add(top.Select(1, 0)))
	b.Let("bm", top.Select(0, bm))
}

// copyWeights begins to fill the stage of turn t with weights and scales.
func (d *stream) copyWeights(t build.Value) {
	b, p, g := d.b, d.pipe, build.Expr("g")
	p.Fill(t, d.bytes())
	tiles := d.Warps * d.Sides
	to := p.Stage(d.fresh("tw"), d.sw, t, rowMajor(dtype.U8, tiles, d.tileBytes()/row, row), 0, 0, 0)
	// Weights come once; what others bring again, x, scales and sums, is to stay in the L2 cache.
	b.CopyAsyncTensorGlobalToShared(d.gw, to, p.Full, t, build.Offset(d.bn.Mul(tiles), g, 0, 0), build.Dims(0, 2, 3), build.Cache("first"))
	if d.Group == 0 {
		return
	}
	group := g
	if per := d.Group / Turn; per > 1 {
		group = g.Div(per)
	} else if d.scales() > 1 {
		group = g.Mul(d.scales())
	}
	bring := func(of *box, from, to build.Value, name string, typ dtype.Type) {
		if of != nil {
			of.copy(p, t, slot(t, d.Stages), group, d.fresh(name))
			return
		}
		b.CopyAsyncBulkGlobalToShared(from, p.Stage(d.fresh(name), to, t, rowMajor(typ, d.scales(), d.many())), p.Full, t, build.Offset(group, d.bn.Mul(d.many())))
	}
	bring(d.boxS, d.gs, d.ss, "ts", d.Scale)
	if d.Zero {
		bring(d.boxZ, d.gz, d.sz, "tz", d.ZeroType())
	}
}

// tileX is piece i of a turn's x.
func (d *stream) tileX(name string, t build.Value, i int) build.Value {
	at, per := slot(t, d.Stages), Turn/d.piece()
	if per > 1 {
		at = at.Mul(per).Add(i)
	}
	return d.b.SliceShared(d.fresh(name), d.sx, build.Shared(d.Act, swizzled(0, d.Rows, d.piece())), build.Offset(at, 0, 0))
}

// copyX begins to fill the stage of turn t with x.
func (d *stream) copyX(t build.Value) {
	if d.Digits || d.Fixed || d.Apart {
		at := d.bm
		if d.Rows > 1 {
			at = at.Mul(d.Rows)
		}
		d.b.CopyAsyncTensorGlobalToShared(d.gx, d.pipe.Stage(d.fresh("tx"), d.sx, t, rowMajor(d.Act, d.Rows, Turn)), d.pipe.Full, t, build.Offset(at, build.Expr("g").Mul(Turn)))
		return
	}
	for i := range Turn / d.piece() {
		d.b.CopyAsyncTensorGlobalToShared(d.gx, d.tileX("tx", t, i), d.pipe.Full, t, build.Offset(d.bm.Mul(d.Rows), build.Expr("g").Mul(Turn).Add(i*d.piece())))
	}
}

// begin begins outputs.
func (d *stream) begin() {
	switch {
	case d.Fixed || d.Long:
		d.beginFixed()
		return
	case d.Apart:
		d.each(d.beginApart)
		return
	}
	d.each(func() {
		d.b.AllocateRegister(d.of("acc"), d.sum, build.Init(0))
		if d.Deferred() && d.summed() == 0 {
			d.b.AllocateRegister("back", d.rowF32, build.Init(1))
		}
		if d.Less && d.Group == 0 {
			d.loadScale("", "0")
		}
	})
	if d.shifted() && d.Group == 0 {
		d.b.AllocateRegister("accx", d.sum, build.Init(0))
	}
}

// loadShared loads scales of a group from the stage, and zero points that are not taken off
// codes.
func (d *stream) loadShared(tag string, t build.Value, q int) {
	d.loadGroup(d.of("rs"+tag), "us", d.ss, t, q, d.Scale, d.flat)
	if d.Zero && !d.Less {
		d.loadGroup(d.of("rz"+tag), "uz", d.sz, t, q, d.Act, d.flatZ)
	}
}

// loadGroup loads what a group has for each output.
func (d *stream) loadGroup(to, from string, s, t build.Value, q int, typ dtype.Type, as build.Type) {
	tile := d.b.SliceShared(d.fresh(from), s, rowMajor(typ, d.outputs()), build.Offset(slot(t, d.Stages), q, d.side*d.outputs()), build.Dims(2))
	d.b.LoadShared(to, tile, as)
}

// part is what all warps cast together, of a side.
func (d *stream) part() build.Type {
	bytes := 32 * d.bytesPerLane()
	if d.Sub == Turn {
		return rowMajor(dtype.U8, d.Warps, bytes)
	}
	return strided(dtype.U8, []int{d.Warps, bytes}, d.tileBytes(), 1)
}

// wait waits for turns, multiplies them, and gives their stages back.
func (d *stream) wait(turns []build.Value, multiply func(j int, t build.Value)) {
	for _, t := range turns {
		d.pipe.Wait(t)
		if d.Digits {
			d.b.WaitBarrier(d.ready, t)
		}
	}
	for j, t := range turns {
		multiply(j, t)
	}
	for _, t := range turns {
		d.pipe.Release(t)
	}
}

// multiply multiplies turn t, one of those that are multiplied together, the j-th.
func (d *stream) multiply(j int, t build.Value) {
	b := d.b
	piece, lane := d.piece(), d.bytesPerLane()
	pieces := build.Register(dtype.U8, layout.Spatial(d.Warps, 1).Local(1, lane/16).Spatial(1, 32).Local(1, 16))
	copies := layout.Replicated(d.Warps, 1, 1)
	loaded := copies.Mul(d.loadedX())
	right := copies.Local(1, d.Rows/8).Local(piece/8, 1).ColumnSpatial(4, 8).Local(2, 1)
	l, err := swizzled(0, d.Rows, piece).Transpose(0, 1)
	if err != nil {
		panic(err) // schedules are checked
	}
	if (d.Less || d.Folds) && d.Group > 0 {
		d.each(func() {
			for q := range d.scales() {
				if d.Less {
					d.loadGroup(d.loaded("rz", j, q*d.Group), "uz", d.sz, t, q, d.ZeroType(), d.flatZ)
				}
				if d.Folds {
					d.loadGroup(d.loaded("rs", j, q*d.Group), "us", d.ss, t, q, d.Scale, d.flat)
				}
			}
		})
	}
	for sub := range Turn / d.Sub {
		tag := fmt.Sprintf("%d_%d", j, sub)
		d.each(func() {
			from := b.SliceShared(d.fresh("uw"), d.flat8, d.part(), build.Offset(slot(t, d.Stages), d.side*d.Warps, sub*32*lane))
			rb := b.LoadShared(d.of("rb"), from, pieces)
			d.cast(tag, b.View(d.of("rw"), rb, d.codes1))
			d.grouped(d.of("rh"+tag), func(k int) layout.Layout { return d.left(d.Warps, k) }, func(what string, k int) string { return d.loaded(what, j, sub*d.Sub+k) })
		})
		for i := range d.Sub / piece {
			k := sub*d.Sub + i*piece
			ux := b.PermuteShared(d.fresh("ut"), d.tileX("ux", t, k/piece), build.Shared(d.Act, l))
			xk := b.LoadShared("xk", ux, build.Register(d.Act, loaded))
			rx := b.View(name("rx", k/piece), xk, build.Register(d.Act, right))
			d.each(func() {
				rh := build.Expr(d.of("rh" + tag))
				if piece < d.Sub {
					rh = b.SliceRegister(d.of("rp"), rh, build.Register(d.Act, d.left(d.Warps, piece)), build.Offset(0, i*piece))
				}
				d.product(j, k, rh, rx)
			})
		}
	}
	if d.summed() > 0 {
		d.each(func() {
			for q := range d.scales() {
				tag := name("", j)
				if d.scales() > 1 {
					tag = fmt.Sprintf("%d_%d", j, q)
				}
				d.loadShared(tag, t, q)
				d.finish(tag, build.Expr(d.of("sum"+tag)), build.Expr("sumx"+tag), false)
			}
		})
	}
}

// end ends outputs.
func (d *stream) end() {
	if d.summed() == 0 && !d.Apart {
		d.each(func() {
			if !d.Less && !d.Folds {
				d.loadScale("", "0")
			}
			d.finish("", build.Expr(d.of("acc")), build.Expr("accx"), true)
		})
	}
	at := func() partAt { return partAt{[]any{d.bm.Mul(d.Rows), d.side * d.outputs()}, []any{2, 1}} }
	if d.Single() {
		// Threads of a row have a part of the tiles each, so that many blocks' sums are read at once.
		of := d.quarters()
		total := func() build.Value {
			return d.b.ConvertLayout(d.of("own_rows"), d.column(), build.Register(dtype.F32, of))
		}
		if d.Joint {
			d.each(func() { d.send(total()) })
			return
		}
		d.meet(of, total, d.storeColumn, at, 4)
		return
	}
	of, store := d.byRows()
	total := func() build.Value {
		if !d.spread() {
			return build.Expr(d.of("acc"))
		}
		return d.b.View(d.of("rows"), build.Expr(d.of("acc")), build.Register(dtype.F32, of))
	}
	if d.Joint {
		d.each(func() { d.send(total()) })
		return
	}
	d.meet(of, total, store, at, 2)
}

// spread reports whether columns of products have the rows of x in another order. Of 128 swizzled bytes, four threads load
// 64 of a row together, and those of neighbouring rows lie in the same banks; those four rows apart do not. Where they load 32, the
// fours that do not are of even rows, and of odd ones.
func (d *stream) spread() bool { return d.piece() == 64 }

// loadedX is the layout of a piece of x as it is loaded, [k, rows]: where columns are spread, column n of each 8 has row
// n/2 + n%2·4, or n%4·2 + n/4.
func (d *stream) loadedX() layout.Layout {
	rows, inner := d.Rows/8, d.piece()/(4*d.Run)
	if !d.spread() {
		return layout.Local(1, rows).Local(inner, 1).ColumnSpatial(4, 8).Local(d.Run, 1)
	}
	across := []int{2, 4}
	if d.Run == 4 {
		across = []int{4, 2}
	}
	l, err := layout.New([]int{d.piece(), d.Rows}, append([]int{inner, 4, d.Run, rows}, across...), []int{5, 4, 1}, []int{3, 0, 2})
	if err != nil {
		panic(err) // rows are a power of two
	}
	return l
}

// byRows is the type of what a side came to, by rows of x, and what stores it.
func (d *stream) byRows() (layout.Layout, func(build.Value)) {
	if !d.spread() {
		return d.sums(d.Warps, max(d.Rows, 8)), d.store
	}
	l := warped(d.Warps, 2).Local(d.Tiles, d.Rows/8).Local(2, 1).Local(1, 2).Spatial(8, 4)
	if d.Run == 4 {
		own, err := layout.New([]int{8, 8}, []int{8, 2, 2, 2}, []int{0, 3, 1}, []int{2})
		if err != nil {
			panic(err) // it is a permutation
		}
		l = warped(d.Warps, 2).Local(d.Tiles, d.Rows/8).Local(2, 1).Mul(own)
	}
	return l, func(sums build.Value) { d.storeAs(sums, l) }
}

// storeColumn is store for a single row of x.
func (d *stream) storeColumn(acc build.Value) { d.storeAs(acc, d.quarters()) }

// quarters is the layout of rows of which each of the four threads of a row has other
// tiles, [outputs, 1].
func (d *stream) quarters() layout.Layout {
	if d.Tiles == 1 {
		return d.rows(d.Warps)
	}
	n := d.Tiles / 2
	l, err := layout.New([]int{d.outputs(), 1}, []int{d.Warps, 4, n, 8, 1}, []int{0, 3, 1}, []int{2, 4})
	if err != nil {
		panic(err) // tiles are a power of two
	}
	return l
}

// meet stores outputs, or leaves the block's part of their sums, if its share begins within them,
// to the block that has their first turn: that one waits for the parts of all others and adds up. It comes
// behind them in the grid, and to these outputs last, where they begin with them: mostly
// it need not wait. at says where the part of a block, of the present side, is.
func (d *stream) meet(l layout.Layout, total func() build.Value, store func(build.Value), at func() partAt, ahead int) {
	b, of := d.b, build.Register(dtype.F32, l)
	tile := b.Let("tile", d.bn.Mul(d.height).Add(d.bm))
	leave, wait := d.count(tile)
	add := func(whole string, awaited build.Value) { d.add(whole, of, awaited, at, ahead) }
	put := b.StoreGlobal
	if d.Direct {
		leave, wait, put = func() {}, func(build.Value) {}, b.PutGlobal
		add = func(whole string, awaited build.Value) { d.take(d.gp, whole, l, awaited, build.Expr("bi"), at()) }
	}
	b.If(build.Expr("g").Greater(0), func() {
		d.each(func() { put(d.gp, total(), at().of(build.Expr("bi"))...) })
		leave()
	}).Else(func() {
		awaited := b.Let("awaited", d.holder(tile.Add(1).Mul(d.turns).Sub(1)).Sub(build.Expr("share")))
		wait(awaited)
		d.each(func() {
			whole := d.of("whole")
			b.View(whole, total(), of)
			add(whole, awaited)
			store(build.Expr(whole))
		})
	})
}

// count has a block say that its part of outputs is there, and another wait until those that it adds up are.
func (d *stream) count(tile build.Value) (leave func(), wait func(awaited build.Value)) {
	b, at := d.b, []build.Attr{build.Offset(tile), build.Op("add")}
	return func() {
			b.Synchronize()
			b.AtomicScalar("before", d.ga, build.Expr("1"), nil, append(at, build.Order("acq_rel"))...)
		}, func(awaited build.Value) {
			b.If(awaited.Greater(0), func() {
				b.LockSemaphore(d.ga, awaited, build.Offset(tile))
				b.AtomicScalar("before", d.ga, build.Expr("0").Sub(awaited), nil, at...)
			})
		}
}

// add adds the parts of the awaited blocks in front of this one, which are there, of which so many are asked for at once.
func (d *stream) add(whole string, of build.Type, awaited build.Value, at func() partAt, ahead int) {
	b := d.b
	b.For(d.of("j"), build.Expr("1"), awaited.Add(1), func(j build.Value) {
		from := build.Expr("bi").Sub(j)
		if d.Warps < 16 { // with more, registers are too few for all loads at once, which this allows
			from = from.Max(0) // as lowering cannot tell
		}
		b.Add(whole, build.Expr(whole), b.LoadGlobal("p", d.gp, of, at().of(from)...), of)
	}, build.Unroll(ahead))
}

// partAt is where the present side of a block's part is: offsets and dimensions behind that of blocks.
type partAt struct{ offset, dims []any }

func (p partAt) of(block build.Value) []build.Attr {
	return []build.Attr{build.Offset(append([]any{block}, p.offset...)...), build.Dims(p.dims...)}
}

// take adds the parts of the awaited blocks in front of end, of which several are asked for at once: as many as fill 32 registers of a thread,
// or 16 where the program leaves few.
func (d *decoder) take(gp build.Value, whole string, l layout.Layout, awaited, end build.Value, at partAt) {
	b, of := d.b, build.Register(dtype.F32, l)
	n := max(1, 32/l.Slots())
	if d.Streams() && (d.Warps*d.Sides >= 16 || !d.Single()) {
		n = max(1, 16/l.Slots())
	}
	if n = min(n, 8); !d.Streams() {
		n = min(n, d.Splits-1)
	}
	one, err := l.Unsqueeze(0)
	if err != nil {
		panic(err) // a dimension is put in front
	}
	first, dims, rest := slices.Repeat([]int{1}, one.Rank()), []any{}, []any{}
	for k := range at.dims {
		dims, rest = append(dims, k+1), append(rest, 0)
	}
	first[0] = n
	some := build.Register(dtype.F32, layout.Local(first...).Mul(one))
	b.For(d.of("j"), build.Expr("0"), awaited.Add(n-1).Div(n), func(j build.Value) {
		left := b.Let(d.of("left"), awaited.Sub(j.Mul(n)))
		p := b.TakeGlobal("p", gp, left, some, build.Offset(append([]any{end.Sub(left)}, at.offset...)...), build.Dims(append([]any{0}, at.dims...)...))
		for i := range n {
			part := b.SliceRegister(name("p", i), p, of, build.Offset(append([]any{i}, rest...)...), build.Dims(dims...))
			b.Add(whole, build.Expr(whole), part, of)
		}
	})
}
