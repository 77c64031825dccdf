package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Arranged is the shape of x as [Wide] takes it, and that of its sums: those of the k
// that share a scale, of each turn, for each row, and for more up to whole blocks.
func (p *Plan) Arranged(m, k int) (x, sums []int) {
	turns := ceil(k, Turn)
	return []int{m, turns * Turn}, []int{turns * p.scales(), ceil(m, maxRows) * maxRows}
}

// maxRows is how many rows of x a block of any schedule multiplies at most; sums of x are
// padded to whole ones.
const maxRows = 256

var paddedRows = ceilText("M", maxRows) + fmt.Sprintf("*%d", maxRows)

// Arrange brings x[M, K] into the order of k in which the weights of a form are packed,
// with zeros up to whole turns. Where stored codes stand for values beside them
// ([Plan.Shifts]) it also sums x, if the schedule of [Wide] that x is for needs it ([WideSchedule.Sums]). Parameters are x, y,
// sums if there are some, of [Plan.Arranged], M and K.
func Arrange(f Form, s WideSchedule) (*ir.Program, error) {
	p, err := PlanOf(f)
	if err != nil {
		return nil, err
	}
	p = p.ofWide(s)
	pieces := Turn / (4 * p.Run)
	b := build.Program(fmt.Sprintf("arrange_%s", p.Act), build.Grid(ceilText("M", 8), ceilText("K", Turn)))
	x, y := b.Pointer("x", p.Act), b.Pointer("y", p.Act)
	var sums build.Value
	if p.Shifts() {
		sums = b.Pointer("sums", dtype.F32)
	}
	m, k := b.Scalar("M", dtype.I32), b.Scalar("K", dtype.I32)
	bm, bk := b.BlockIndices2("bm", "bk")
	b.GridDependencyLaunch()
	gx := b.ViewGlobal("gx", x, build.Global(p.Act, m, k))
	gy := b.ViewGlobal("gy", y, build.Global(p.Act, m, ceilText("K", Turn)+fmt.Sprintf("*%d", Turn)))
	at := build.Offset(bm.Mul(8), bk.Mul(Turn))
	of := func(k int) layout.Layout { return layout.Local(1, k/(4*p.Run)).Spatial(8, 4).Local(1, p.Run) }
	stored := layout.Local(1, pieces).Local(1, p.Run/2).Spatial(8, 4).Local(1, 2)
	rx := b.LoadGlobal("rx", gx, build.Register(p.Act, of(Turn)), at)
	b.StoreGlobal(gy, b.View("ry", rx, build.Register(p.Act, stored)), at)
	if p.Shifts() {
		gs := b.ViewGlobal("gs", sums, build.Global(dtype.F32, ceilText("K", Turn)+fmt.Sprintf("*%d", p.scales()), paddedRows))
		f32, each := b.Cast("rf", rx, build.Register(dtype.F32, of(Turn))), Turn/p.scales()
		one := layout.Spatial(8, 1).Mul(layout.Replicated(4, 1, 1))
		for q := range p.scales() {
			some := f32
			if p.scales() > 1 {
				some = b.SliceRegister(name("part", q), f32, build.Register(dtype.F32, of(each)), build.Offset(0, q*each))
			}
			sum := b.Reduce(name("sum", q), some, build.Register(dtype.F32, one), build.Dim(1), build.Op("sum"), build.Keepdims("true"))
			b.StoreGlobal(gs, sum, build.Offset(bk.Mul(p.scales()).Add(q), bm.Mul(8)), build.Dims(1, 0))
		}
	}
	return b.Build()
}

// Wide multiplies x[M, K] with weights of a form, as [Decode] does, for many rows: by
// matrix instructions of warpgroups (wgmma) whose left operand, the weights, is cast in
// registers, while a warpgroup of its own has tensor copies (TMA) bring x and bulk
// copies bring weights. x is in the order of [Arrange].
//
// Parameters are those of [Decode], but that the sums of [Arrange], where there are some,
// follow x, and P stands in front of factor with Persistent. It needs sm_90a.
func Wide(f Form, s WideSchedule) (*ir.Program, error) {
	p, err := PlanOf(f)
	if err != nil {
		return nil, err
	}
	if s, err = s.Filled(p); err != nil {
		return nil, err
	}
	p = p.ofWide(s).halved(s)
	d := &decoder{Plan: p, Schedule: Schedule{Rows: s.Rows, Warps: s.units(), Sides: s.Sides, Splits: s.Splits, AddBias: s.AddBias, AddResidual: s.AddResidual}}
	w := &wide{decoder: d, s: s}
	return w.program()
}

// wide is one program under way.
type wide struct {
	*decoder
	s                     WideSchedule
	gang                  bool // whether it is a gang's
	pipe                  build.Pipeline
	sx, sw                build.Value
	flat8                 build.Value   // sw, a row for each tile
	part                  int           // the warpgroup's, of all parts
	block                 build.Value   // which one along outputs it is
	pass                  build.Value   // the block's, of all passes
	firstTile             build.Value   // the first tile of the block's pass
	slide                 int           // how many bits words are shifted by for each tile in front of that, or 0
	unit                  int           // which warp's outputs are moved
	together              int           // how many warpgroups have a tile of sums
	half                  int           // of the rows of x
	casts                 int           // of a turn
	staged                build.Value   // results that leave by rows
	st3, ss3, sz3         build.Value   // results of parts by warp; scales and zero points by thread
	parted                layout.Shared // of st3
	done                  build.Value   // where warpgroups of parts wait for each other
	ss, sz, sxs           build.Value   // scales, zero points and sums of x of a turn
	rank                  build.Value
	actual                build.Type // sums by output
	gy, gsums             build.Value
	bias, residual        build.Value
	row                   build.Type // of sums of x
	oneF32, oneRow        build.Type // sums of a tile, and what its rows share
	factor                build.Value
	m, n, blocks, arrived build.Value
	portions              build.Value
	tiles                 build.Value   // of one side
	x                     []build.Value // pieces of a turn's x
	running               []product
}

// product is one under way: what it is of, and what ends it.
type product struct {
	side, half, cast int
	before           bool // begun in the turn before
	end              func()
}

// halves is into how many parts the rows of x are cut, each with products of their own from
// the same operands: while one runs, what the other came to is scaled. A warpgroup with
// several sides has such products anyway, and one with several tiles no registers for it.
func (p *Plan) halves(s WideSchedule) int {
	if s.Rows >= 64 && s.Sides*p.own(s) == 1 && !s.Whole {
		return 2
	}
	return 1
}

func (w *wide) halves() int { return w.Plan.halves(w.s) }

// rowsEach is how many rows of x a product has.
func (w *wide) rowsEach() int { return w.Rows / w.halves() }

// all does something for all halves of all sides.
func (w *wide) all(do func()) {
	w.each(func() {
		for w.half = range w.halves() {
			do()
		}
		w.half = 0
	})
}

// at is the name of a variable of the present side and half.
func (w *wide) at(s string) string {
	if w.unit > 0 {
		s = fmt.Sprintf("%s_u%d", s, w.unit)
	}
	return w.rowsOf(w.of(s))
}

// rowsOf is the name of a variable of the present half.
func (w *wide) rowsOf(s string) string {
	if w.half == 0 {
		return s
	}
	return fmt.Sprintf("%s_h%d", s, w.half)
}

// hangs reports whether the first products of a turn are begun in the turn before, so that
// some run while a turn ends: where products use several sums, none of which ends before the
// turn does, and registers do (with 128 rows and two sides of folded scales ptxas has products wait for each other).
func (p *Plan) hangs(s WideSchedule) bool {
	return s.Fine || p.ahead(s) && s.Sides*p.halves(s) > 1 && p.unhindered(s) && p.leading() > 0 && (s.Sides == 1 || !p.Shifts())
}

// unhindered reports whether sums leave registers for operands of two turns.
func (p *Plan) unhindered(s WideSchedule) bool {
	if p.Folds {
		return s.Rows*s.Sides*p.own(s) <= 128
	}
	return p.Group >= Turn
}

func (w *wide) hangs() bool { return w.Plan.hangs(w.s) }

// repeats reports whether the last turn of a tile would be written a second time.
func (p *Plan) repeats(s WideSchedule) bool {
	return p.summed() > 0 && (s.Fine || !s.Persistent && s.Blocks == 0) && p.halved(s).hangs(s)
}

// registers gives the threads of a warpgroup so many registers where those that multiply have too few with an even
// share, which everybody else keeps: drivers take up to a sixth longer where registers change hands. Of two warpgroups
// that multiply, sums of one tile and 64 rows of x leave room in a share for what else is under way. Codes of 3, 5, 6 and
// 7 bits, which lie across words, get more all the same: ptxas makes them wait for products else (f6e3m2, o, 64 rows: 28.3
// µs for 24.0).
func (w *wide) registers(n int) {
	sums := w.Rows
	if w.summed() > 0 {
		sums *= 2
	}
	if w.s.Consumers == 2 && !w.s.Persistent && !w.s.Fine && w.own(w.s)*w.Sides == 1 && sums <= 128 && 32%w.Stored.Bits() == 0 {
		n = w.s.Registers()
	}
	w.b.SetMaxRegisters(build.N(n))
}

// piece is how many k matrix instructions multiply before a scale that sums take, or another tile of x,
// begins; rows of x's tiles are that long.
func (p *Plan) piece() int {
	if p.Folds {
		return min(p.Sub, 64)
	}
	return min(p.dot(), 64)
}

// bytes of a stage: x, weights, scales, zero points and sums of x.
func (w *wide) bytes() int {
	n, outputs := w.s.Rows*Turn*2+w.s.units()*w.s.Sides*w.PackedShape(1, 1)[2], w.s.span(w.Plan)
	if w.Group > 0 {
		n += w.scales() * outputs * w.Scale.Bits() / 8
		if w.Zero {
			n += w.scales() * outputs * w.ZeroType().Bits() / 8
		}
	}
	if w.Shifts() {
		n += w.scales() * w.s.Rows * 4
	}
	return n
}

// aside is how many bytes of shared memory a block has beside stages.
func (w *wide) aside() int {
	n := 0
	if w.s.Shares() { // the atomic counter's, in front of tiles that begin at a multiple of 1024
		n += 768
	}
	if w.s.Joint {
		n += 4 * (w.s.Splits - 1) * w.s.Rows * w.s.Outputs(w.Plan)
	}
	if w.s.Staged && w.s.Parts <= 1 { // and where a swizzled tile begins
		n += 2*w.s.Outputs(w.Plan)/w.Sides*w.s.Rows/w.halves() + 1024
	}
	return n
}

// lay is the layout of a warpgroup's share, [64·tiles·consumers, …]: the first tiles of
// all warps are the first rows, so that they are one instruction's, but slots are in
// the order in which the weights are packed. rest is what a warp has of a tile.
func (w *wide) lay(tiles int, before, rest layout.Layout) layout.Layout {
	return before.Local(tiles, 1).Spatial(w.Warps, 1).Mul(rest)
}

// operand is the layout of k columns of weights.
func (w *wide) operand(tiles, k int) layout.Layout {
	return w.lay(tiles, layout.Local(1, k/16), layout.ColumnLocal(2, 2).Spatial(8, 4).Local(1, 2))
}

func (w *wide) types() {
	own := w.own(w.s)
	w.decoder.types()
	columns := layout.ColumnLocal(2, w.rowsEach()/8).Spatial(8, 4).Local(1, 2)
	rows := w.lay(own, layout.Local(1, 1), layout.Local(2, 1).Spatial(8, 1).Mul(layout.Replicated(4, 1, 1)))
	w.rowLayout = rows
	w.sum = build.Register(dtype.F32, w.lay(own, layout.Local(1, 1), columns))
	w.oneF32 = build.Register(dtype.F32, w.lay(1, layout.Local(1, 1), columns))
	oneRow := w.lay(1, layout.Local(1, 1), layout.Local(2, 1).Spatial(8, 1).Mul(layout.Replicated(4, 1, 1)))
	w.oneRow = build.Register(dtype.F32, oneRow)
	w.among(w.s.Consumers)
	w.row = build.Register(dtype.F32, layout.Replicated(w.Warps, 1, 1).Local(1, w.rowsEach()/8).Mul(layout.Replicated(8, 1, 1)).Spatial(1, 4).Local(1, 2))
	w.rowF32, w.rowS, w.rowZ = build.Register(dtype.F32, rows), build.Register(w.Scale, rows), build.Register(w.ZeroType(), rows)
	w.rowAct = build.Register(w.Act, rows)
	if w.s.Parts > 1 {
		w.flat, w.flatZ = build.Register(w.Scale, w.ownScales()), build.Register(w.ZeroType(), w.ownScales())
	}
	codes := ir.RegisterOf(w.Stored, w.operand(w.Tiles, w.Sub))
	if as := w.codes(1); as.HasPlace {
		codes.Place, codes.HasPlace = as.Place, true
	}
	w.codes1 = build.Type(codes.String())
}

func (w *wide) program() (*ir.Program, error) {
	outputs, units, warps := w.outputs(), w.Warps, 4*w.s.Consumers
	blocks := ceilText("N", outputs*w.Sides*w.s.Cluster)
	if w.s.Cluster > 1 {
		blocks = fmt.Sprintf("%s*%d", blocks, w.s.Cluster)
	}
	grid := []any{blocks, ceilText("M", w.Rows)}
	if w.s.passes() > 1 {
		grid[0] = fmt.Sprintf("%s*%d", blocks, w.s.passes())
	}
	switch {
	case w.s.Persistent:
		grid = []any{"P"}
	case w.s.Blocks > 0:
		grid = []any{w.s.Blocks}
	case w.Splits > 1:
		grid = append(grid, w.Splits)
	}
	options := []build.Option{build.Warps(warps + 4), build.Grid(grid...)}
	if w.s.Cluster > 1 {
		options = append(options, build.Cluster(w.s.Cluster))
	} else if w.s.Joint {
		options = append(options, build.Cluster(1, 1, w.Splits))
	}
	title := "wide"
	if w.s.Persistent {
		title = "prefill"
	}
	b := build.Program(fmt.Sprintf("%s_%s_%s", title, w.Weight, w.Act), options...)
	w.b = b
	pw, ps := b.Pointer("w", dtype.U8), b.Pointer("s", w.Scale)
	var z build.Value
	if w.Zero {
		z = b.Pointer("z", w.ZeroType())
	}
	x := b.Pointer("x", w.Act)
	var sums build.Value
	if w.Shifts() {
		sums = b.Pointer("sums", dtype.F32)
	}
	if w.AddBias {
		w.bias = b.Pointer("bias", w.Act)
	}
	if w.AddResidual {
		w.residual = b.Pointer("residual", w.Act)
	}
	y := b.Pointer("y", w.Act)
	if w.s.Shares() {
		w.portions, w.arrived = b.Pointer("part", dtype.F32), b.Pointer("arrived", dtype.I32)
	}
	w.m, w.n = b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32)
	b.Scalar("K", dtype.I32)
	if w.s.Persistent {
		b.Scalar("P", dtype.I32)
	}
	if w.Factor {
		w.factor = b.Scalar("factor", dtype.F32)
	}
	w.types()
	w.blocks, w.tiles = build.Expr(blocks), build.Expr(ceilText("N", outputs))
	turns := build.Expr(ceilText("K", Turn))
	w.gw = b.ViewGlobal("gw", pw, build.Global(dtype.U8, w.tiles.Mul(units), turns, w.tileBytes()/row, row))
	w.scaleViews(ps, z, turns)
	w.gx = b.ViewGlobal("gx", x, build.Global(w.Act, w.m, turns.Mul(Turn)))
	if w.Shifts() {
		w.gsums = b.ViewGlobal("gsums", sums, build.Global(dtype.F32, turns.Mul(w.scales()), paddedRows))
	}
	w.gy = b.ViewGlobal("gy", y, build.Global(w.Act, w.m, w.n))
	if w.s.Persistent || w.s.Blocks > 0 {
		b.Assume("M >= 1 && N >= 1 && K >= 1") // quotients of positive numbers are shorter
	}
	turns = b.Let("turns", turns)
	w.sx = b.AllocateShared("sx", build.Shared(w.Act, swizzled(w.s.Stages*Turn/w.piece(), w.Rows, w.piece())))
	w.sw = b.AllocateShared("sw", rowMajor(dtype.U8, w.s.Stages, units*w.Sides, w.tileBytes()/row, row))
	w.flat8 = b.ReshapeShared("flat", w.sw, rowMajor(dtype.U8, w.s.Stages, units*w.Sides, w.tileBytes()))
	scales := func(name string, t dtype.Type) build.Value {
		return b.AllocateShared(name, rowMajor(t, w.s.Stages*w.scales()*w.Sides, outputs))
	}
	if w.Group > 0 {
		w.ss = scales("ss", w.Scale)
		if w.Zero {
			w.sz = scales("sz", w.ZeroType())
			w.boxZ = w.boxOf("zb", z, w.sz, w.ZeroType(), w.s.Stages, outputs*w.Sides)
		}
		w.boxS = w.boxOf("sb", ps, w.ss, w.Scale, w.s.Stages, outputs*w.Sides)
	}
	if w.Shifts() {
		w.sxs = b.AllocateShared("sxs", rowMajor(dtype.F32, w.s.Stages*w.scales(), 1, w.Rows))
	}
	w.allocateParts()
	if w.s.Joint {
		each, once := w.moved()
		w.allocateGathered(w.Splits-1, 4*w.s.Consumers, w.Splits-1, w.Sides*w.halves()*each/once, 128*w.s.Consumers, once)
	}
	if w.s.Staged && w.s.Parts == 1 {
		w.staged = b.AllocateShared("sr", build.Shared(w.Act, w.staging()))
	}
	w.pipe = b.Pipeline("p", w.s.Stages, warps*w.s.Cluster)
	if w.s.Cluster > 1 {
		w.rank = b.ClusterRank("rank")
		b.ClusterSynchronize()
	} else {
		b.Synchronize()
	}
	var bk build.Value
	switch {
	case w.s.Persistent || w.s.Blocks > 0:
		w.bn = build.Expr("bn")
		w.bm = build.Expr("bm")
		b.BlockIndices("bi")
	case w.Splits > 1:
		w.bn, w.bm, bk = b.BlockIndices3("bn", "bm", "bk")
	default:
		w.bn, w.bm = b.BlockIndices2("bn", "bm")
	}
	w.block = w.bn
	if w.s.passes() > 1 {
		w.pass = b.Let("pass", w.bn.Mod(w.s.passes()))
		w.bn = b.Let("tile", w.bn.Div(w.s.passes()))
	}
	mine := turns
	if w.Splits > 1 {
		mine = b.Let("mine", turns.Sub(bk).Add(w.Splits-1).Div(w.Splits))
	}
	if w.early() {
		b.Group(0, 1, func() {
			some, at := w.filled(mine, turns, bk)
			b.For("t", 0, some.Min(w.s.Stages), func(t build.Value) { w.weightCopies(t, at(t)) })
		})
	}
	if w.s.Joint { // while the first weights are under way
		b.ClusterSynchronize()
	}
	b.GridDependencyWait() // for x
	b.Group(0, 128, func() {
		w.registers(40)
		b.Group(0, 1, func() { w.walk(bk, turns, nil, w.copies) })
	})
	if w.s.Parts == 1 {
		b.Group(128, 32*warps, func() {
			w.registers(232)
			w.walk(bk, turns, w.begin, w.turn)
		})
	} else {
		w.parts(bk, turns)
	}
	if w.s.Cluster > 1 { // a block's memory and barriers are there for as long as others use them
		b.ClusterSynchronize()
	}
	return b.Build()
}

// swizzled is [tiles, rows, columns] of 16 bits, as tensor copies and matrix instructions
// swizzle.
func swizzled(tiles, rows, columns int) layout.Shared {
	shape := []int{tiles, rows, columns}
	if tiles == 0 {
		shape = shape[1:]
	}
	return sure(layout.SharedRowMajorSwizzle(16, shape...))
}

// walk runs turn for each turn of each tile of the block, g of them being the turn of k
// and t the turn of the pipeline. more says that another one of the tile follows; where
// products hang over into the next turn, it is the turn of the pipeline whose first ones are
// begun, "" for none: see [wide.circles]. Where consumers run it, begin begins a tile of some
// turns, from t on, and what it gives ends it.
func (w *wide) walk(bk, turns build.Value, begin func(t build.Value, some string) func(), turn func(t, g build.Value, more string)) {
	b := w.b
	end := func() {}
	hangs := begin != nil && w.hangs()
	if w.s.Blocks > 0 {
		w.stretch(turns, begin, turn)
		return
	}
	if !w.s.Persistent {
		mine := "turns"
		if w.Splits > 1 {
			mine = "mine"
		}
		some, at := build.Expr(mine), func(t build.Value) build.Value { return w.turnOf(bk, t) }
		if begin == nil {
			some, at = w.filled(some, turns, bk)
		} else {
			end = begin(build.Expr("0"), mine)
		}
		switch {
		case hangs && w.s.Once:
			w.start(build.Expr("0"))
			b.For("t", 0, some, func(t build.Value) { turn(t, at(t), t.Add(1).Min(some.Sub(1)).String()) })
			w.unused(some, build.Expr("0"))
		case hangs:
			b.If(some.Greater(0), func() {
				w.start(build.Expr("0"))
				b.For("t", 0, some.Sub(1), func(t build.Value) { turn(t, at(t), t.Add(1).String()) })
				turn(some.Sub(1), at(some.Sub(1)), "")
			})
		default:
			b.For("t", 0, some, func(t build.Value) { turn(t, at(t), "t + 1 < "+mine) })
		}
		end()
		return
	}
	// Tiles of the same outputs follow each other, and find their weights in the L2 cache.
	rows := b.Let("rows", build.Expr(ceilText("M", w.Rows)))
	b.Let("columns", build.Expr(ceilText("N", w.outputs()*w.Sides*w.s.Cluster)))
	at, by := build.Expr("bi"), build.Expr("P")
	if w.s.Cluster > 1 {
		at, by = at.Div(w.s.Cluster), by.Div(w.s.Cluster)
	}
	at, t := b.Let("at", at), b.Let("t", 0)
	all := build.Expr("rows*columns")
	w.tilesOf(hangs, at.Less(all), t, func() {
		b.Let("bm", at.Mod(rows))
		bn := at.Div(rows)
		if w.s.Cluster > 1 {
			bn = bn.Mul(w.s.Cluster).Add(w.rank)
		}
		b.Let("bn", bn)
		if begin != nil {
			end = begin(t, "turns")
		}
		w.several(hangs, t, turns, all.Sub(at).Sub(by), func(g build.Value) build.Value { return g }, turn)
		end()
		b.Let("at", at.Add(by))
	})
}

// circles reports whether, where blocks go through several tiles and products hang over, the program has
// one turn only: each begins the first products of the next, even if that is of another tile, and the block's last
// one its own once more, which nobody takes. Tile by tile ptxas then has products wait for
// each other, so that there the last turn of a tile, which begins none, is written a second time; so it is for blocks
// of one tile, which are 1 to 2% faster with it, and where sums are those of the output, which the next tile must not add to.
func (w *wide) circles() bool { return !w.s.Fine && w.summed() > 0 }

// tilesOf runs tile while there are some; where products hang, those of the first turn are begun
// in front.
func (w *wide) tilesOf(hangs bool, more, t build.Value, tile func()) {
	if !hangs || !w.circles() {
		w.b.While(more, tile)
		return
	}
	w.b.If(more, func() {
		w.start(t)
		w.b.While(more, tile)
	})
}

// begins starts the first products of a single tile, as tilesOf of several.
func (w *wide) begins(hangs bool, t build.Value) {
	if hangs && w.circles() {
		w.start(t)
	}
}

// early reports whether a block's first weights are asked for while the launch in front
// still arranges x.
func (w *wide) early() bool { return !w.s.Persistent && w.s.Blocks == 0 }

// turnOf is which turn of k a block's turn t is, of split bk if there are some.
func (w *wide) turnOf(bk, t build.Value) build.Value {
	if w.Splits == 1 {
		return t
	}
	return build.Expr("(" + t.String() + ")").Mul(w.Splits).Add(bk)
}

// filled is how many turns are brought of those that a block multiplies, and which: its first products begin
// before a program with one copy of the turn knows whether it has a turn, so that one is brought anyway.
func (w *wide) filled(mine, turns, bk build.Value) (some build.Value, at func(t build.Value) build.Value) {
	at = func(t build.Value) build.Value { return w.turnOf(bk, t) }
	if !w.s.Once || w.Splits == 1 {
		return mine, at
	}
	return mine.Max(1), func(t build.Value) build.Value { return w.turnOf(bk, t).Min(turns.Sub(1)) }
}

// several runs some turns of a tile from turn t of the pipeline on; at says of which k one
// is. Behind them the block has further ones if left is above 0.
func (w *wide) several(hangs bool, t, some, left build.Value, at func(i build.Value) build.Value, turn func(t, g build.Value, more string)) {
	b := w.b
	one := func(i build.Value, more string) {
		turn(t, at(i), more)
		b.Let("t", t.Add(1))
	}
	if !hangs {
		b.For("i", 0, some, func(i build.Value) { one(i, "i + 1 < "+some.String()) })
		return
	}
	if !w.circles() && !w.s.Once {
		b.If(some.Greater(0), func() {
			w.start(t)
			b.For("i", 0, some.Sub(1), func(i build.Value) { one(i, t.Add(1).String()) })
			one(some.Sub(1), "")
		})
		return
	}
	last := b.Let("ends", t.Add(some).Sub(1).Add(left.Max(0).Min(1)))
	if w.s.Once { // the first products of another tile's turn are begun once more with it
		w.start(t)
	}
	b.For("i", 0, some, func(i build.Value) { one(i, t.Add(1).Min(last).String()) })
	if w.s.Once {
		w.unused(some, t.Min(last))
	} else {
		b.WgmmaWaitGroup(build.N(0))
	}
}

// unused ends what the last of some turns of a tile has begun in vain: first products of the turn behind it, or
// its own once more. Tile by tile, ptxas lets a product run on from turn to turn only if another one adds to it behind
// the last turn, and something may read what that comes to, though nothing ever does. That one multiplies zeros with
// x of a turn whose stage nobody fills meanwhile.
func (w *wide) unused(some, stays build.Value) {
	b := w.b
	if w.s.Fine {
		none := b.AllocateRegister("none", build.Register(w.Act, w.operand(1, w.piece())), build.Init(0))
		w.rows(stays, "_2")
		b.WgmmaFence()
		b.WgmmaDot("sum0", none, w.x[0], build.Expr("sum0"), w.oneF32)
		b.WgmmaCommitGroup()
	}
	b.WgmmaWaitGroup(build.N(0))
	if w.s.Fine {
		b.If(some.Less(0), func() { b.Add("acc0", build.Expr("acc0"), build.Expr("sum0"), w.oneF32) })
	}
}

// stretch is walk where blocks share the turns of all tiles, one tile's behind another's:
// each has a stretch of them.
func (w *wide) stretch(turns build.Value, begin func(t build.Value, some string) func(), turn func(t, g build.Value, more string)) {
	b, blocks := w.b, w.s.Blocks
	b.Let("rows", build.Expr(ceilText("M", w.Rows)))
	all := b.Let("all", build.Expr("rows").Mul(w.blocks).Mul(turns))
	begins, to := b.Let("begins", build.Expr("bi").Mul(all).Div(blocks)), b.Let("to", build.Expr("(bi + 1)").Mul(all).Div(blocks))
	// The block's first tile is found by division; from there on it goes step by step.
	tile, rows := b.Let("tile", begins.Div(turns)), build.Expr("rows")
	at, from := b.Let("at", begins), b.Let("from", begins.Mod(turns))
	bm, bn := b.Let("bm", tile.Mod(rows)), b.Let("bn", tile.Div(rows))
	if begin != nil {
		// Block j's turns begin at j·all/blocks, rounded down: others have the first turn of
		// its first tile, perhaps, and the last one of its last.
		b.Let("before", tile.Mul(turns).Add(1).Mul(blocks).Sub(1).Div(all))
		end := to.Max(1).Sub(1).Div(turns).Add(1).Mul(turns)
		b.Let("behind", end.Mul(blocks).Sub(1).Div(all))
	}
	t := b.Let("t", 0)
	hangs := begin != nil && w.hangs()
	w.tilesOf(hangs, at.Less(to), t, func() {
		some := b.Let("some", turns.Sub(from).Min(to.Sub(at)))
		end := func() {}
		if begin != nil {
			b.Let("first", from.Equal(0).Select(build.Expr("bi"), build.Expr("before")))
			b.Let("last", from.Add(some).Equal(turns).Select(build.Expr("bi"), build.Expr("behind")))
			end = begin(t, "some")
		}
		w.several(hangs, t, some, to.Sub(at).Sub(some), func(i build.Value) build.Value { return from.Add(i) }, turn)
		end()
		b.Let("at", at.Add(some))
		b.Let("from", build.Expr("0"))
		b.Let("bm", bm.Add(1))
		over := b.Let("over", bm.Equal(rows))
		b.Let("bn", bn.Add(over.Select(1, 0)))
		b.Let("bm", over.Select(0, bm))
	})
}

// stage is a tile of a turn's stage.
func (w *wide) stage(name string, of build.Value, t build.Value, per, i int, typ build.Type, from ...any) build.Value {
	at := t.Mod(w.s.Stages)
	if w.gang {
		at = slot(t, w.s.Stages)
	}
	if per > 1 {
		at = at.Mul(per)
		if i > 0 {
			at = at.Add(i)
		}
	}
	if len(from) == 0 {
		from = []any{0, 0}
	}
	return w.b.SliceShared(name, of, typ, build.Offset(append([]any{at}, from...)...))
}

// copies fills the stage of a turn.
func (w *wide) copies(t, g build.Value, _ string) {
	weights := func() {
		w.pipe.Acquire(t)
		w.weightCopies(t, g)
	}
	if w.early() {
		w.b.If(t.GreaterEqual(w.s.Stages), weights)
	} else {
		weights()
	}
	w.rowCopies(t, g)
}

// rowCopies brings x, and its sums, of a turn.
func (w *wide) rowCopies(t, g build.Value) {
	b, p, part, per := w.b, w.pipe, w.Rows/w.s.Cluster, Turn/w.piece()
	for i := range per {
		k := g.Mul(Turn)
		if i > 0 {
			k = k.Add(i * w.piece())
		}
		name, typ := name("tx", i), build.Shared(w.Act, swizzled(0, part, w.piece()))
		if w.s.Cluster == 1 {
			b.CopyAsyncTensorGlobalToShared(w.gx, w.stage(name, w.sx, t, per, i, typ), p.Full, t, build.Offset(w.bm.Mul(w.Rows), k))
			continue
		}
		at := w.rank.Mul(part)
		b.CopyAsyncTensorGlobalToShared(w.gx, w.stage(name, w.sx, t, per, i, typ, at, 0), p.Full, t, build.Offset(w.bm.Mul(w.Rows).Add(at), k), build.Multicast(1<<w.s.Cluster-1))
	}
	if w.Shifts() {
		for q := range w.scales() {
			at := g
			if w.scales() > 1 {
				at = build.Expr("(" + g.String() + ")").Mul(w.scales()).Add(q)
			}
			b.CopyAsyncBulkGlobalToShared(w.gsums, w.sumStage(name("tq", q), t, q), p.Full, t, build.Offset(at, w.bm.Mul(w.Rows)))
		}
	}
}

// weightCopies says how many bytes a turn takes, and brings weights, scales and zero points.
func (w *wide) weightCopies(t, g build.Value) {
	b, p := w.b, w.pipe
	p.Fill(t, w.bytes())
	all := w.Warps * w.Sides
	to := w.stage("tw", w.sw, t, 1, 0, rowMajor(dtype.U8, all, w.tileBytes()/row, row), 0, 0, 0)
	b.CopyAsyncTensorGlobalToShared(w.gw, to, p.Full, t, build.Offset(w.bn.Mul(all), g, 0, 0), build.Dims(0, 2, 3))
	first, slot := build.Expr("("+g.String()+")").Mul(w.scales()), t.Mod(w.s.Stages)
	if w.boxS != nil {
		w.boxS.copy(p, t, slot, first, "ts")
	}
	if w.boxZ != nil {
		w.boxZ.copy(p, t, slot, first, "tz")
	}
	w.each(func() {
		at := w.tile()
		if w.s.Cluster > 1 || w.Sides > 1 { // the last blocks may have no outputs
			at = at.Min(w.tiles.Sub(1))
		}
		w.groups(g, func(q int, group build.Value) {
			from := build.Offset(group, at.Mul(w.outputs()))
			if w.boxS == nil {
				b.CopyAsyncBulkGlobalToShared(w.gs, w.scaleStage(w.of(name("ts", q)), w.ss, t, q, w.Scale), p.Full, t, from, build.Dims(1))
			}
			if w.Zero && w.boxZ == nil {
				b.CopyAsyncBulkGlobalToShared(w.gz, w.scaleStage(w.of(name("tz", q)), w.sz, t, q, w.ZeroType()), p.Full, t, from, build.Dims(1))
			}
		})
	})
}

// groups calls f for each group of a turn with its number.
func (w *wide) groups(g build.Value, f func(q int, group build.Value)) {
	switch {
	case w.Group == 0:
	case w.Group > Turn:
		f(0, build.Expr("("+g.String()+")").Div(w.Group/Turn))
	case w.Group == Turn:
		f(0, g)
	default:
		for q := range w.scales() {
			f(q, build.Expr("("+g.String()+")").Mul(w.scales()).Add(q))
		}
	}
}

// scaleStage is where the scales, or zero points, of a turn's group q are, of the present
// side.
func (w *wide) scaleStage(name string, of, t build.Value, q int, typ dtype.Type) build.Value {
	n := w.outputs()
	return w.stage(name, of, t, w.scales()*w.Sides, q*w.Sides+w.side, rowMajor(typ, n), 0)
}

// sumStage is where the sums of x of a turn's group q are.
func (w *wide) sumStage(name string, t build.Value, q int) build.Value {
	return w.stage(name, w.sxs, t, w.scales(), q, rowMajor(dtype.F32, 1, w.Rows))
}

// weights are those of a cast of the present side.
func (w *wide) weights(name string, t build.Value, sub int) build.Value {
	size := 32 * w.bytesPerLane()
	typ := rowMajor(dtype.U8, w.Warps, size)
	if w.Sub < Turn {
		typ = strided(dtype.U8, []int{w.Warps, size}, w.tileBytes(), 1)
	}
	return w.stage(name, w.flat8, t, 1, 0, typ, w.side*w.Warps, sub*size)
}
