package template

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Schedule is how [Decode] cuts a product. Zero fields take defaults.
type Schedule struct {
	// Rows of x that a block multiplies: 8, 16 or 32; 8 by default. Digits have 1, and so have Parts beside Stages.
	Rows int
	// Depth is how many turns' weights are under way while one is multiplied; by
	// default 2, or 1 where they take many registers.
	Depth int
	// Warps of a block, each with outputs of its own; 1 by default.
	Warps int
	// Sides is how many tiles beside each other a warp multiplies with the same x, which
	// saves loads of x where it has many rows; 1 by default. Sides·Warps is at most 8, with
	// Stages 32.
	Sides int
	// Splits is how many blocks share the k of the same outputs; 1 by default. The
	// last of them to come, or with Direct the last in the grid, adds their f32 sums up, in order.
	Splits int
	// Joint, beside Splits of 2 to 8, makes those blocks a cluster: their sums come to the
	// shared memory of one of them, which waits for all and adds them up, in order. Beside
	// Stages no block stays then: each cluster has outputs of its own, and Blocks is 0. It
	// needs sm_90.
	Joint bool `json:",omitempty"`
	// Parts is how many warps of a block share the k of the same outputs, 1 by default: their
	// sums meet in shared memory, in order. Warps is then 1, K is a multiple of
	// 128, and groups have at most 128.
	Parts int `json:",omitempty"`
	// PDL lets the launch begin before the one in front of it has ended, which must
	// store neither weights nor scales.
	PDL bool
	// AddBias adds a number to each output before it is rounded, AddResidual one to
	// each element.
	AddBias, AddResidual bool
	// Stages, beside Parts, is of how many turns of each warp weights, scales and one row of x are under way in shared memory, as a
	// warp more brings them: those that they share out stand at the same stage. It needs sm_90.
	//
	// Without Parts, if it is not 0, it makes the program another one: as many blocks as Blocks says
	// stay, share the turns of all outputs out evenly, and have bulk copies bring so many
	// turns of weights, scales and x to shared memory ahead. Depth is then how many turns
	// are multiplied together, Splits is 1, a warp more brings what the others multiply,
	// and K is a multiple of 8.
	Stages int `json:",omitempty"`
	Blocks int `json:",omitempty"`
	// Early, beside Stages, is for how many of them a block asks for weights before the launch in front has ended, with PDL; 0 is
	// as many as there are stages. Fewer leave memory to x, for which all blocks wait then.
	Early int `json:",omitempty"`
	// Digits, beside Stages, multiplies one row of x at a time, as whole numbers of 2^-24,
	// which lose nothing; see [Plan.Bytewise].
	Digits bool `json:",omitempty"`
	// Warpgroups, beside Stages, multiplies 8 or 16 rows of x at a time by matrix
	// instructions of warpgroups, which go on beside the threads; Warps is a multiple of 4.
	// It needs sm_90a.
	Warpgroups bool `json:",omitempty"`
	// Fixed, beside Warpgroups or Digits, multiplies whole numbers: x of a group of k as 16
	// bits in two digits, so that it loses what is below 2^-15 of the largest of a group. It
	// is for codes that bytes hold; see [Plan.Bytewise].
	Fixed bool `json:",omitempty"`
	// Long, beside Digits, multiplies whole numbers too: x of a group of k as 31 bits in four
	// digits, two turns at a time, which loses no more than sums in f32 do.
	Long bool `json:",omitempty"`
	// Fine, beside Warpgroups, makes products of one tile each, which go on from turn to turn:
	// for groups of multiples of 128, or folded scales.
	Fine bool `json:",omitempty"`
	// Once, beside Fine without folded scales, writes the turn down once, for which drivers need less time: see
	// [WideSchedule.Once].
	Once bool `json:",omitempty"`
	// Resident, if it is not 0, is for how many blocks on a multiprocessor ptxas gives threads
	// registers. Without it, it saves some that may be there, at the cost of code that waits
	// more. It is for types that need hardly more than these: hardly anything may go to memory.
	Resident int `json:",omitempty"`
	// Apart multiplies one row of x at a time, in several groups to a turn: each 16 k of a turn have
	// one of the eight columns of products, so that sums of different groups stay apart, and are
	// scaled once a turn. It is beside either Parts or Stages, for weights that need no sums of x.
	Apart bool `json:",omitempty"`
	// Brief, without Stages, Parts and Splits, has a turn of the loop multiply what is cast
	// together ([Plan.Sub] of k), not [Turn]: a program that is short whatever the type, for which
	// drivers need little time.
	Brief bool `json:",omitempty"`
	// Direct, beside Blocks, or beside Parts and Splits, has blocks put their parts of sums where the block that adds these up
	// waits for each of them: a value says itself that it is there, so that no fence, count or barrier stands between.
	Direct bool `json:",omitempty"`
}

// String is the schedule in words.
func (s Schedule) String() string {
	if n := s.Resident; n > 0 {
		s.Resident = 0
		return fmt.Sprintf("%s, %d to a multiprocessor", s.String(), n)
	}
	if s.Direct {
		s.Direct = false
		return s.String() + ", sums put"
	}
	if n := s.Early; n > 0 {
		s.Early = 0
		return fmt.Sprintf("%s, %d early", s.String(), n)
	}
	if s.Brief {
		s.Brief = false
		return s.String() + ", brief"
	}
	if s.Apart {
		s.Apart = false
		return s.String() + ", groups apart"
	}
	if s.Once {
		s.Once = false
		return s.String() + ", one copy"
	}
	if s.Joint && s.Streams() {
		s.Joint = false
		before, _ := strings.CutSuffix(s.String(), ", 0 blocks")
		return fmt.Sprintf("%s, clusters of %d along k", before, s.Splits)
	}
	switch {
	case s.Fixed && s.Digits:
		return fmt.Sprintf("digits of 16 bits, %s, %s, %d stages, %d blocks", count(s.Warps, "warp"), count(s.Sides, "side"), s.Stages, s.Blocks)
	case s.Long:
		return fmt.Sprintf("digits of 31 bits, %s, %s, %d stages, %d blocks", count(s.Warps, "warp"), count(s.Sides, "side"), s.Stages, s.Blocks)
	case s.Fixed:
		return fmt.Sprintf("%d rows of 16 bits, depth %d, %d×%d warpgroups, %d stages, %d blocks", s.Rows, s.Depth, s.Warps/4, s.Sides, s.Stages, s.Blocks)
	case s.Fine:
		return fmt.Sprintf("%s, %d×%d warpgroups by tiles, %d stages, %d blocks", count(s.Rows, "row"), s.Warps/4, s.Sides, s.Stages, s.Blocks)
	case s.Warpgroups:
		return fmt.Sprintf("%s, %d×%d warpgroups, %d stages, %d blocks", count(s.Rows, "row"), s.Warps/4, s.Sides, s.Stages, s.Blocks)
	case s.Digits:
		return fmt.Sprintf("digits, depth %d, %s, %s, %d stages, %d blocks", s.Depth, count(s.Warps, "warp"), count(s.Sides, "side"), s.Stages, s.Blocks)
	case s.Streams():
		return fmt.Sprintf("%s, depth %d, %s, %s, %d stages, %d blocks", count(s.Rows, "row"), s.Depth, count(s.Warps, "warp"), count(s.Sides, "side"), s.Stages, s.Blocks)
	}
	split := ""
	if s.Splits > 1 {
		split = fmt.Sprintf(", k/%d", s.Splits)
	}
	if s.Joint {
		split += " by clusters"
	}
	if s.Ringed() {
		return fmt.Sprintf("%s, depth %d, %d warps along k, %s%s, %d stages", count(s.Rows, "row"), s.Depth, s.Parts, count(s.Sides, "side"), split, s.Stages)
	}
	if s.Parts > 1 {
		return fmt.Sprintf("%s, depth %d, %d warps along k, %s%s", count(s.Rows, "row"), s.Depth, s.Parts, count(s.Sides, "side"), split)
	}
	return fmt.Sprintf("%s, depth %d, %s, %s%s", count(s.Rows, "row"), s.Depth, count(s.Warps, "warp"), count(s.Sides, "side"), split)
}

// count is a number of things, of which one has no s.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Rounds reports whether a product may lose digits of x that sums in f32 keep. No table,
// model or search offers such a schedule.
func (s Schedule) Rounds() bool { return s.Fixed }

// Streams reports whether blocks stay and share turns out.
func (s Schedule) Streams() bool { return s.Stages > 0 && s.Parts <= 1 }

// Ringed reports whether warps along k have their turns from stages.
func (s Schedule) Ringed() bool { return s.Stages > 0 && s.Parts > 1 }

// Shares reports whether several blocks may add to the same outputs by way of global memory,
// so that the program has a workspace.
func (s Schedule) Shares() bool { return !s.Joint && (s.Splits > 1 || s.Streams()) }

// alone finds what is set without that beside which it is for, and would be as nothing.
func (s Schedule) alone() error {
	switch {
	case s.Stages < 0 || s.Parts < 0:
		return fmt.Errorf("template: %d stages and %d warps along k: there are none of either, 0, or more", s.Stages, s.Parts)
	case s.Stages == 0 && (s.Digits || s.Warpgroups || s.Fixed || s.Long || s.Blocks != 0):
		return fmt.Errorf("template: Digits, Warpgroups, Fixed, Long or %d Blocks without Stages, beside which they are; set Stages, from 2 on, or leave them out", s.Blocks)
	case s.Fixed && !s.Digits && !s.Warpgroups:
		return fmt.Errorf("template: Fixed without Digits or Warpgroups, beside which it is; set one of them, or leave Fixed out")
	case s.Long && !s.Digits:
		return fmt.Errorf("template: Long without Digits, beside which it is; set Digits, or leave Long out")
	}
	return nil
}

// fill takes defaults for zero fields and checks the others.
func (s Schedule) fill(p *Plan) (Schedule, error) {
	if err := s.alone(); err != nil {
		return s, err
	}
	depth := 2
	if p.Tiles*p.Stored.Bits() > 12 || s.Streams() {
		depth = 1
	}
	most, rows := MaxWarps, 8
	if s.Streams() {
		most = 2 * MaxWarps
		if s.Digits {
			rows = 1
		}
		if s.Warpgroups && s.Warps == 0 {
			s.Warps = 4
		}
	}
	if s.Apart || s.Ringed() {
		rows = 1
	}
	for _, f := range []struct {
		name          string
		value         *int
		usual, lo, hi int
	}{
		{"rows", &s.Rows, rows, rows, 32}, {"depth", &s.Depth, depth, 1, MaxDepth}, {"warps", &s.Warps, 1, 1, most}, {"sides", &s.Sides, 1, 1, MaxWarps}, {"splits", &s.Splits, 1, 1, MaxSplits},
	} {
		if *f.value == 0 {
			*f.value = f.usual
		}
		if *f.value < f.lo || *f.value > f.hi {
			return s, fmt.Errorf("template: %s %d is not from %d to %d", f.name, *f.value, f.lo, f.hi)
		}
	}
	if s.Parts > 1 && (s.Parts > MaxParts || s.Parts&(s.Parts-1) != 0 || s.Warps > 1 || p.Group == 0 || p.Group > Turn) {
		return s, fmt.Errorf("template: %d warps along k: they are a power of two, at most %d, without other warps, for groups of 16 to %d", s.Parts, MaxParts, Turn)
	}
	if s.Resident < 0 || s.Resident > 0 && (s.Warpgroups || s.Resident*32*(s.Warps*max(s.Parts, 1)+s.extra()) > 2048) {
		return s, fmt.Errorf("template: %d blocks of %d warps on a multiprocessor: it has room for 64 warps, and warpgroups share its registers out themselves", s.Resident, s.Warps*max(s.Parts, 1)+s.extra())
	}
	if s.Fine && !s.Warpgroups || s.Once && !s.Fine {
		return s, fmt.Errorf("template: products of a tile each are those of warpgroups, and one copy of the turn is for them")
	}
	if s.Apart && (s.Rows != 1 || p.scales() == 1 || p.Shifts() || s.Digits || s.Warpgroups || !s.Streams() && s.Parts <= 1) {
		return s, fmt.Errorf("template: %d rows with groups of %d apart: it is one row, groups of 16 to 64 of weights that need no sums of x, and warps along k or stages", s.Rows, p.Group)
	}
	if s.Early < 0 || s.Early > 0 && s.Stages == 0 {
		return s, fmt.Errorf("template: weights of %d turns early: 0 or more, beside stages", s.Early)
	}
	if s.Brief && (s.Streams() || s.Parts > 1 || s.Splits > 1) {
		return s, fmt.Errorf("template: a brief program with %d stages, %d warps along k and %d splits: leave all of these out, or Brief", s.Stages, s.Parts, s.Splits)
	}
	if s.Joint && (s.Splits < 2 || s.Splits > MaxCluster) {
		return s, fmt.Errorf("template: clusters of %d blocks: they have 2 to %d", s.Splits, MaxCluster)
	}
	if s.Direct && (s.Joint || !s.Streams() && (s.Splits == 1 || s.Parts <= 1)) {
		return s, fmt.Errorf("template: sums of %s are put for another block: that is beside stages whose blocks stay, or warps along k and splits that are no cluster", s)
	}
	if n := s.metBytes(p); s.Parts > 1 && n > mostMet {
		return s, fmt.Errorf("template: sums of %d warps along k take %d bytes of shared memory, of at most %d: have less sides or rows to a block", s.Parts, n, mostMet)
	}
	if s.Ringed() {
		if err := s.fillRing(p); err != nil {
			return s, err
		}
	}
	if s.Streams() {
		return s.fillStream(p)
	}
	if s.gatherBytes(p) > maxShared/2 {
		return s, fmt.Errorf("template: sums of a cluster of %d blocks take %d bytes of shared memory: have less outputs or rows to a block", s.Splits, s.gatherBytes(p))
	}
	if s.Rows&(s.Rows-1)+s.Warps&(s.Warps-1)+s.Sides&(s.Sides-1) != 0 || s.Sides*s.Warps > MaxWarps {
		return s, fmt.Errorf("template: %d rows, %d warps and %d sides: they are powers of two, and of warps and sides together there are at most %d", s.Rows, s.Warps, s.Sides, MaxWarps)
	}
	return s, nil
}

// Decode multiplies x[M, K] with weights of a form: y[M, N] = x·wᵀ with f32 sums,
// for any M, N and K. Weights are in the order of [Pack], u8 of [Plan.PackedShape]
// for N; scales, and zero points, are [Plan.Groups(K), Plan.Padded(N)], in each
// group in the order of [Plan.ScaleIndex].
//
// Parameters are w, s, z with zero points, x, bias [N] with AddBias, residual [M, N]
// with AddResidual, y; where the schedule [Schedule.Shares], part, of f32, and arrived, of
// i32, as [Schedule.Workspace] says: arrived, and with Direct part too, is 0 before the first launch and
// after each; then M, N and K, and factor if there is one.
//
// Unless the schedule [Schedule.Rounds], a result is as close to that of the weights as sums
// in f32 are, whatever x is: products of elements are exact, and what f32 rounds is sums. Where scales are
// folded or by channel, all k that a block multiplies are one sum of a tensor core, which loses more than sums in f32
// do where thousands of products have one sign (DECODE.md, "Long sums").
func Decode(f Form, s Schedule) (*ir.Program, error) {
	p, err := PlanOf(f)
	if err != nil {
		return nil, err
	}
	if s, err = s.fill(p); err != nil {
		return nil, err
	}
	d := &decoder{Plan: p.of(s), Schedule: s}
	if s.Streams() {
		return (&stream{decoder: d}).program()
	}
	return d.program()
}

// decoder is one program under way.
type decoder struct {
	*Plan
	Schedule
	b                             *build.Builder
	gw, gs, gz, gx, gy            build.Value
	m, n, bias, residual, factor  build.Value
	bm, bn, all, last             build.Value // all turns, and the last one
	codes1                        build.Type
	sum, rowF32, flat, rowS, rowZ build.Type
	flatZ, rowAct                 build.Type
	rowLayout                     layout.Layout // of what all threads of a row share, [outputs, 1]
	side                          int
	boxS, boxZ                    *box // of scales and of zero points
	gathered
	ring
}

// width is how many warps a block has.
func (d *decoder) width() int { return d.Warps * max(d.Parts, 1) }

// span is how many k a turn of the loop multiplies.
func (d *decoder) span() int {
	if d.Brief {
		return d.Sub
	}
	return Turn
}

// spanScales is how many scales of an output it takes.
func (d *decoder) spanScales() int {
	if d.Group > 0 && d.Group < d.span() {
		return d.span() / d.Group
	}
	return 1
}

// outputs of a block and side.
func (d *decoder) outputs() int { return d.Outputs() * d.Warps }

// of is the name of a variable of the present side.
func (d *decoder) of(s string) string {
	if d.side == 0 {
		return s
	}
	return fmt.Sprintf("%s_s%d", s, d.side)
}

// tile is the number of the block's tile on the present side.
func (d *decoder) tile() build.Value {
	if d.Sides == 1 {
		return d.bn
	}
	t := d.bn.Mul(d.Sides)
	if d.side > 0 {
		t = t.Add(d.side)
	}
	return build.Expr("(" + t.String() + ")")
}

// each does something for all sides.
func (d *decoder) each(do func()) {
	for d.side = range d.Sides {
		do()
	}
	d.side = 0
}

func (d *decoder) program() (*ir.Program, error) {
	title := fmt.Sprintf("decode_%s_%s", d.Weight, d.Act)
	outputs := d.outputs()
	grid := []any{ceilText("N", outputs*d.Sides), ceilText("M", d.Rows)}
	if d.Splits > 1 {
		grid = append([]any{d.Splits}, grid...)
	}
	options := []build.Option{build.Grid(grid...), build.Warps(d.width() + d.extra()), build.Resident(d.Resident)}
	if d.Joint {
		options = append(options, build.Cluster(d.Splits))
	}
	b := build.Program(title, options...)
	d.b = b
	in := d.params()
	var bk build.Value
	if d.Splits > 1 {
		bk, d.bn, d.bm = b.BlockIndices3("bk", "bn", "bm")
	} else {
		d.bn, d.bm = b.BlockIndices2("bn", "bm")
	}
	blocks, turns := build.Expr(ceilText("N", outputs*d.Sides)), build.Expr(ceilText("K", Turn))
	d.types()
	tiles := blocks
	if d.Sides > 1 {
		tiles = blocks.Mul(d.Sides)
	}
	all := turns
	if n := Turn / d.span(); n > 1 {
		all = turns.Mul(n)
	}
	shape := []any{tiles, all, d.Outputs() * d.span() * d.Stored.Bits() / 8}
	if d.Warps > 1 {
		shape = slices.Insert(shape, 1, any(d.Warps))
	}
	if d.Ringed() {
		shape = []any{tiles, turns, d.tileBytes() / row, row}
	}
	d.gw = b.ViewGlobal("gw", in.w, build.Global(dtype.U8, shape...))
	d.scaleViews(in.s, in.z, turns)
	if d.Parts > 1 {
		d.gx = b.ViewGlobal("gx", in.x, build.Global(d.Act, d.m, in.k.Div(Turn), Turn))
	} else {
		d.gx = b.ViewGlobal("gx", in.x, build.Global(d.Act, d.m, in.k))
	}
	d.gy = b.ViewGlobal("gy", in.y, build.Global(d.Act, d.m, d.n))
	if d.PDL {
		b.GridDependencyLaunch()
	}
	if d.Joint {
		d.gatherSides(bk, d.width(), d.outputs(), d.columns())
		b.ClusterSynchronize()
	}
	d.all = all
	if d.Parts <= 1 {
		d.last = b.Let("last", all.Sub(1))
	}
	multiply := func() { d.multiplyAll(in, bk, blocks) }
	if d.Ringed() {
		d.bringTurns(bk, multiply)
	} else {
		multiply()
	}
	return b.Build()
}

// multiplyAll multiplies all turns of the block, and stores what they come to or leaves it for others.
func (d *decoder) multiplyAll(in inputs, bk, blocks build.Value) {
	b := d.b
	if d.Apart {
		d.columnMasks()
	}
	d.each(func() {
		if d.Apart {
			d.beginApart()
			return
		}
		if d.summed() == 0 {
			b.AllocateRegister(d.running(), d.dotSum(), build.Init(0))
		} else {
			b.AllocateRegister(d.of("acc"), d.sum, build.Init(0))
		}
		if d.Deferred() && d.summed() == 0 {
			b.AllocateRegister("back", d.rowF32, build.Init(1))
		}
	})
	if d.shifted() {
		b.AllocateRegister("ones", d.operand(d.left(1, d.dot())), build.Init(1))
		if d.Group == 0 {
			b.AllocateRegister("accx", d.sum, build.Init(0))
		}
	}
	if d.Less && d.Group == 0 {
		d.each(func() { d.loadScale("", "0") })
	}
	d.loop(bk)
	if d.summed() == 0 && !d.Apart {
		d.each(func() {
			if !d.Less && !d.Folds {
				d.loadScale("", "0")
			}
			d.finish("", build.Expr(d.running()), build.Expr("accx"), true)
		})
	}
	if d.Parts > 1 {
		d.meetWarps(in, bk, blocks)
		return
	}
	total := func() build.Value { return build.Expr(d.of("acc")) }
	switch {
	case d.Splits == 1:
		d.each(func() { d.store(total()) })
	case d.Joint:
		d.each(func() { d.send(total()) })
		d.sent()
		d.collect(d.sum, d.store)
	default:
		d.split(in, bk, blocks, d.each, d.sum, total, d.store)
	}
}

// split leaves what a block came to, of each of the sides, for the block of the same outputs that comes last, which adds up and stores.
func (d *decoder) split(in inputs, bk, blocks build.Value, sides func(func()), sums build.Type, total func() build.Value, store func(build.Value)) {
	b := d.b
	gp, ga := d.met(in, blocks)
	sides(func() { b.StoreGlobal(gp, total(), d.part().of(bk)...) })
	b.Synchronize()
	before := b.AtomicScalar("before", ga, d.Splits-1, nil, build.Offset(d.bm.Mul(blocks).Add(d.bn)), build.Op("inc"), build.Order("acq_rel"))
	b.If(before.Equal(d.Splits-1), func() {
		b.Synchronize()
		sides(func() {
			total := b.AllocateRegister(d.of("total"), sums, build.Init(0))
			b.For(d.of("i"), 0, d.Splits, func(i build.Value) {
				b.Add(d.of("total"), total, b.LoadGlobal("p", gp, sums, d.part().of(i)...), sums)
			}, build.Unroll(d.Splits))
			store(total)
		})
	})
}

// met is where blocks that share k leave their sums, and count themselves.
func (d *decoder) met(in inputs, blocks build.Value) (gp, ga build.Value) {
	gp = d.b.ViewGlobal("gp", in.part, build.Global(dtype.F32, d.Splits, d.m, blocks.Mul(d.outputs()*d.Sides)))
	return gp, d.b.ViewGlobal("ga", in.arrived, build.Global(dtype.I32, build.Expr(ceilText("M", d.Rows)).Mul(blocks)))
}

// part is where sums of the present side are.
func (d *decoder) part() partAt {
	return partAt{[]any{d.bm.Mul(d.Rows), d.tile().Mul(d.outputs())}, []any{2, 1}}
}

// metBytes is what sums of warps that share k take of a block's shared memory.
func (s Schedule) metBytes(p *Plan) int {
	return 4 * s.Parts * s.Sides * p.Outputs() * s.columns()
}

// mostMet is how many bytes they may take.
const mostMet = 64 << 10

// meetWarps adds up what warps that share k have come to, and stores it.
func (d *decoder) meetWarps(in inputs, bk, blocks build.Value) {
	b, outputs := d.b, d.Sides*d.outputs()
	met := b.AllocateShared("met", rowMajor(dtype.F32, d.Parts, outputs, d.columns()))
	d.each(func() {
		acc := build.Expr(d.of("acc"))
		if d.Apart {
			acc = d.columnApart()
		} else if d.Ringed() {
			acc = d.columnRing()
		}
		parts := b.View(d.of("parts"), acc, build.Register(dtype.F32, each(d.Parts, d.total(1))))
		b.StoreShared(b.SliceShared(d.of("side"), met, strided(dtype.F32, []int{d.Parts, d.outputs(), d.columns()}, outputs*d.columns(), d.columns(), 1), build.Offset(0, d.side*d.outputs(), 0)), parts)
	})
	b.Synchronize()
	sides := d.Sides
	if d.Joint {
		sides = 1
	}
	own := d.dealt(sides)
	one, err := own.Unsqueeze(0)
	if err != nil {
		panic(err) // the dimension is there
	}
	sums := build.Register(dtype.F32, own)
	all := layout.Local(d.Parts, 1, 1).Mul(one)
	whole := func() build.Value {
		from := met
		if d.Joint {
			from = build.Expr(d.of("side"))
		}
		return b.Reduce(d.of("whole"), b.LoadShared(d.of("all_parts"), from, build.Register(dtype.F32, all)), sums, build.Dim(0), build.Op("sum"))
	}
	store := func(acc build.Value) { d.storeAs(acc, own) }
	switch {
	case d.Splits == 1:
		store(whole())
	case d.Joint:
		d.each(func() { d.send(whole()) })
		d.sent()
		d.collect(sums, store)
	case d.Direct:
		gp, _ := d.met(in, blocks)
		mine, last := whole(), build.Expr(fmt.Sprint(d.Splits-1))
		b.If(bk.Less(last), func() {
			b.PutGlobal(gp, mine, d.part().of(bk)...)
		}).Else(func() {
			b.View("total", mine, sums)
			d.take(gp, "total", own, last, last, d.part())
			store(build.Expr("total"))
		})
	default:
		d.split(in, bk, blocks, func(all func()) { all() }, sums, whole, store)
	}
}

// dealt is the layout of what outputs of so many sides come to, [outputs, rows], of which each of the warps that share k has as many: their
// elements are in lanes as products have them, and warps have tiles, halves of these, eights of rows, and neighbouring rows of their own, as
// far as there are enough.
func (d *decoder) dealt(sides int) layout.Layout {
	tiles, columns := sides*d.Tiles, d.columns()
	left := d.Parts
	deal := func(n int) int {
		k := min(left, n)
		left /= k
		return k
	}
	a := deal(tiles)
	h := deal(2)
	outputs := []int{a, tiles / a, h, 2 / h, 8}
	var l layout.Layout
	var err error
	if d.Single() {
		l, err = layout.New([]int{16 * tiles, 1}, append(outputs, 1), []int{0, 2, 4}, []int{1, 3, 5})
		l = l.Mul(layout.Replicated(4, 1, 1))
	} else {
		r := deal(columns / 8)
		c := deal(2)
		l, err = layout.New([]int{16 * tiles, columns}, append(outputs, r, columns/8/r, 4, c, 2/c), []int{0, 2, 5, 8, 4, 7}, []int{1, 6, 3, 9})
	}
	if err != nil {
		panic(err) // all are powers of two
	}
	return layout.Replicated(left, 1, 1).Mul(l)
}

// inputs are the parameters that become tensors at once.
type inputs struct{ w, s, z, x, y, part, arrived, k build.Value }

// params declares the program's parameters.
func (d *decoder) params() (in inputs) {
	b := d.b
	in.w, in.s = b.Pointer("w", dtype.U8), b.Pointer("s", d.Scale)
	if d.Zero {
		in.z = b.Pointer("z", d.ZeroType())
	}
	in.x = b.Pointer("x", d.Act)
	if d.AddBias {
		d.bias = b.Pointer("bias", d.Act)
	}
	if d.AddResidual {
		d.residual = b.Pointer("residual", d.Act)
	}
	in.y = b.Pointer("y", d.Act)
	if d.Shares() {
		in.part, in.arrived = b.Pointer("part", dtype.F32), b.Pointer("arrived", dtype.I32)
	}
	d.m, d.n, in.k = b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	if d.Factor {
		d.factor = b.Scalar("factor", dtype.F32)
	}
	return in
}

// store rounds what outputs of the present side came to and stores it.
func (d *decoder) store(acc build.Value) { d.storeAs(acc, d.total(d.Warps)) }

// total is the layout of what outputs of so many warps came to, [outputs, rows].
func (d *decoder) total(warps int) layout.Layout {
	if d.Apart || d.Ringed() {
		return d.rows(warps)
	}
	return d.sums(warps, d.Rows)
}

func (d *decoder) storeAs(acc build.Value, as layout.Layout) {
	b, outputs, sum := d.b, d.outputs(), build.Register(dtype.F32, as)
	at := build.Offset(d.bm.Mul(d.Rows), d.tile().Mul(outputs))
	if d.Factor {
		acc = b.Mul("scaled", acc, d.factor, sum)
	}
	if d.AddBias {
		gb := b.ViewGlobal("gb", d.bias, build.Global(d.Act, d.n, 1))
		rows, err := as.Reduce([]int{1}, true)
		if err != nil {
			panic(err) // as has rows
		}
		rb := b.LoadGlobal("rbias", gb, build.Register(d.Act, rows), build.Offset(d.tile().Mul(outputs), 0))
		acc = b.Add("biased", acc, b.Cast("bias32", rb, build.Register(dtype.F32, rows)), sum)
	}
	if d.AddResidual {
		gr := b.ViewGlobal("gr", d.residual, build.Global(d.Act, d.m, d.n))
		more := b.LoadGlobal("more", gr, build.Register(d.Act, as), at, build.Dims(1, 0))
		acc = b.Add("added", acc, b.Cast("more32", more, sum), sum)
	}
	out := b.Cast("out", acc, build.Register(d.Act, as))
	b.StoreGlobal(d.gy, out, at, build.Dims(1, 0))
}

func (d *decoder) types() {
	w := d.width()
	d.codes1 = build.Type(d.codes(w).String())
	d.sum = build.Register(dtype.F32, d.sums(w, max(d.Rows, 8)))
	rows := d.rows(w)
	d.rowLayout = rows
	d.rowF32, d.rowS, d.rowZ = build.Register(dtype.F32, rows), build.Register(d.Scale, rows), build.Register(d.ZeroType(), rows)
	d.rowAct = build.Register(d.Act, rows)
	flat := layout.Spatial(8).Mul(layout.Replicated(4, 1)).Local(2 * d.Tiles)
	if d.Parts > 1 {
		flat = each(d.Parts, flat)
	} else {
		flat = warped(d.Warps, 1).Mul(flat)
	}
	d.flat, d.flatZ = build.Register(d.Scale, flat), build.Register(d.ZeroType(), flat)
}

// each gives every warp of several a tile of its own, along a dimension in front.
func each(warps int, l layout.Layout) layout.Layout {
	one, err := l.Unsqueeze(0)
	if err != nil {
		panic(err) // the dimension is there
	}
	return warped(warps, one.Rank()).Mul(one)
}

// operand is the type of an operand of products from the part of a warp: of all warps
// together, or of each its own where they share k.
func (d *decoder) operand(l layout.Layout) build.Type {
	if d.Parts > 1 {
		return build.Register(d.Act, each(d.Parts, l))
	}
	return build.Register(d.Act, warped(d.Warps, 2).Mul(l))
}

// sums3 is the type of sums of warps that share k.
func (d *decoder) sums3() build.Type {
	return build.Register(dtype.F32, each(d.Parts, d.sums(1, max(d.Rows, 8))))
}

// dotSum is the type of sums as products add to them.
func (d *decoder) dotSum() build.Type {
	if d.Parts > 1 {
		return d.sums3()
	}
	return d.sum
}

// shifted reports whether sums of x are needed.
func (d *decoder) shifted() bool { return d.Shifts() }

// loadW loads the weights of turn g into copy j.
func (d *decoder) loadW(j, sub int, g any) {
	lane, tile := d.bytesPerLane(), layout.Layout{}
	attrs := []build.Attr{build.Offset(d.tile(), g, sub*32*lane), build.Dims(2), build.Cache("stream")}
	tile = layout.Local(lane / 16).Spatial(32).Local(16)
	if d.Parts > 1 {
		attrs[1] = build.Dims(1, 2)
		tile = each(d.Parts, tile)
	}
	if d.Warps > 1 {
		attrs[0], attrs[1] = build.Offset(d.tile(), 0, g, sub*32*lane), build.Dims(1, 3)
		tile = layout.Spatial(d.Warps, 1).Local(1, lane/16).Spatial(1, 32).Local(1, 16)
	}
	d.b.LoadGlobal(d.weights(j, sub), d.gw, build.Register(dtype.U8, tile), attrs...)
}

func (d *decoder) weights(j, sub int) string {
	if d.Sub == Turn {
		return d.of(name("rb", j))
	}
	return d.of(fmt.Sprintf("rb%d_%d", j, sub))
}

// loadScale loads scales, and zero points, of a group.
func (d *decoder) loadScale(suffix string, group any) {
	at, dims := build.Offset(group, d.tile().Mul(d.outputs())), build.Dims(1)
	if d.Parts > 1 {
		dims = build.Dims(0, 1)
	}
	d.loadScaleAt(suffix, at, dims)
}

func (d *decoder) loadScaleAt(suffix string, at, dims build.Attr) {
	d.b.LoadGlobal(d.of("rs"+suffix), d.gs, d.flat, at, dims)
	if d.Zero {
		d.b.LoadGlobal(d.of("rz"+suffix), d.gz, d.flatZ, at, dims)
	}
}

// loadS loads the scales of turn g into copy j.
func (d *decoder) loadS(j int, g build.Value) {
	switch {
	case d.Group == 0:
	case d.Group >= d.span():
		if per := d.Group / d.span(); per > 1 {
			g = build.Expr("(" + g.String() + ")").Div(per)
		}
		d.loadScale(name("", j), g)
	case d.Parts > 1 && !d.Apart: // the groups of a turn are a dimension
		for q := range d.scales() {
			d.loadScaleAt(fmt.Sprintf("%d_%d", j, q), build.Offset(g, q, d.tile().Mul(d.outputs())), build.Dims(0, 2))
		}
	case d.Apart:
		d.loadApart(j, g)
	default:
		for q := range d.spanScales() {
			d.loadScale(fmt.Sprintf("%d_%d", j, q), build.Expr("("+g.String()+")").Mul(d.spanScales()).Add(q))
		}
	}
}

// loop multiplies all turns of the block.
func (d *decoder) loop(bk build.Value) {
	if d.Ringed() {
		d.loopRing()
		return
	}
	b := d.b
	unit := d.Splits * max(d.Parts, 1)
	if d.Splits > 1 && d.Parts > 1 {
		bk = bk.Mul(d.Parts)
	}
	stride := d.Depth * unit
	var first any = 0
	for j := range d.Depth {
		g := build.Expr(fmt.Sprint(j * unit))
		switch {
		case d.Parts > 1:
			if d.Splits > 1 {
				g = bk.Add(j * unit)
			}
			if j == 0 {
				first = g
			}
		case d.Splits > 1 && j == 0:
			first, g = bk, bk.Min(d.last)
		case d.Splits > 1:
			g = bk.Add(j * unit).Min(d.last)
		case j > 0:
			g = build.Expr(fmt.Sprintf("min(%d, %s)", j*unit, d.last))
		}
		d.each(func() {
			for sub := range d.span() / d.Sub {
				d.loadW(j, sub, g)
			}
			d.loadS(j, g)
		})
	}
	if d.PDL {
		b.GridDependencyWait()
	}
	if d.Parts > 1 {
		for j := range d.Depth {
			turn := build.Expr(fmt.Sprint(j * unit))
			if d.Splits > 1 {
				turn = bk.Add(j * unit)
			}
			if d.Apart {
				d.loadOwnX(j, turn)
				continue
			}
			for k := 0; k < Turn; k += d.dot() {
				d.loadX(fmt.Sprintf("%d_%d", j, k/d.dot()), turn, k, d.dot())
			}
		}
	}
	var step []build.LoopOption
	if stride > 1 {
		step = append(step, build.Step(stride))
	}
	if d.Parts > 1 { // of turns behind the last one nothing is loaded: no warp has a place there
		b.For("g", first, d.all, func(g build.Value) {
			d.turn(g, func(j int) build.Value { return g.Add(stride + j*unit) })
		}, step...)
		return
	}
	if unit == 1 {
		b.For("g", first, d.last.Add(1), func(g build.Value) {
			d.turn(g, func(j int) build.Value { return g.Add(stride + j).Min(d.last) })
		}, step...)
		return
	}
	// A block has few turns, so that loading in the last one would show.
	b.For("g", first, d.last.Sub(stride-1), func(g build.Value) {
		d.turn(g, func(j int) build.Value {
			if j == 0 {
				return g.Add(stride)
			}
			return g.Add(stride + j*unit).Min(d.last)
		})
	}, step...)
	if d.Splits == 1 {
		d.turn(b.Let("tail", d.last.Div(stride).Mul(stride)), nil)
		return
	}
	d.turn(b.Let("tail", bk.Add(d.last.Sub(bk).Div(stride).Max(0).Mul(stride))), nil)
}

// turn multiplies what is loaded of turns g, g + Splits, … and loads what the next
// turn needs, if there is one.
func (d *decoder) turn(g build.Value, next func(j int) build.Value) {
	b := d.b
	for j := range d.Depth {
		now := g
		if j > 0 {
			now = g.Add(j * d.Splits * max(d.Parts, 1))
		}
		dot := d.dot()
		for sub := range d.span() / d.Sub {
			tag := fmt.Sprintf("%d_%d", j, sub)
			if d.Sub == Turn {
				tag = name("", j)
			}
			d.each(func() {
				d.cast(tag, b.View(d.of("rw"+tag), build.Expr(d.weights(j, sub)), d.codes1))
				d.grouped(d.of("rh"+tag), func(k int) layout.Layout { return d.left(d.width(), k) }, func(what string, k int) string { return d.loaded(what, j, sub*d.Sub+k) })
				if next != nil {
					d.loadW(j, sub, next(j))
				}
			})
			if d.Apart {
				d.productsApart(j, sub*d.Sub, tag, build.Expr(name("xo", j)))
				continue
			}
			for piece := range d.Sub / dot {
				k := sub*d.Sub + piece*dot
				tag := tag
				xtag := fmt.Sprintf("%d_%d", j, k/dot)
				if d.Ringed() {
					d.loadRow(xtag, j, k, dot)
				} else if d.Parts <= 1 {
					d.loadX(xtag, now, k, dot)
				}
				rx := d.viewX(xtag, dot)
				d.each(func() {
					rh := build.Expr(d.of("rh" + tag))
					if dot < d.Sub {
						rh = b.SliceRegister(d.of(fmt.Sprintf("rh%s_%d", tag, piece)), rh, build.Register(d.Act, d.left(d.width(), dot)), build.Offset(0, piece*dot))
					}
					d.product(j, k, rh, rx)
				})
				if d.Parts > 1 && next != nil { // there are few others to hide this behind
					d.loadX(xtag, now.Add(d.Depth*d.Splits*d.Parts), k, dot)
				}
			}
		}
		if d.Group == 0 {
			continue
		}
		if d.Apart {
			if next != nil { // there are few others to hide this behind
				d.loadOwnX(j, now.Add(d.Depth*d.Splits*d.Parts))
			}
			d.each(func() {
				d.finishApart(j)
				if next != nil {
					d.loadS(j, next(j))
				}
			})
			continue
		}
		d.each(func() {
			for q := range d.spanScales() {
				tag := name("", j)
				if d.spanScales() > 1 {
					tag = fmt.Sprintf("%d_%d", j, q)
				}
				if d.summed() > 0 {
					d.finish(tag, build.Expr(d.of("sum"+tag)), build.Expr("sumx"+tag), false)
				}
			}
			if next != nil {
				d.loadS(j, next(j))
			}
		})
	}
}

// loaded is what scales, rs, or zero points, rz, of the group of k of the j-th turn are loaded as.
func (d *decoder) loaded(what string, j, k int) string {
	switch {
	case d.Group == 0:
		return d.of(what)
	case d.spanScales() > 1:
		return d.of(fmt.Sprintf("%s%d_%d", what, j, k/d.Group))
	}
	return d.of(name(what, j))
}

// running are the sums of all k that products add to.
func (d *decoder) running() string {
	if d.Parts > 1 {
		return d.of("run")
	}
	return d.of("acc")
}

// loadX loads dot rows of x's transpose from k of a turn on.
func (d *decoder) loadX(tag string, turn build.Value, k, dot int) {
	loaded := layout.Local(1, d.Rows/8).Local(dot/(4*d.Run), 1).ColumnSpatial(4, 8).Local(d.Run, 1)
	if d.Parts > 1 {
		d.b.LoadGlobal("xk"+tag, d.gx, build.Register(d.Act, each(d.Parts, loaded)), build.Offset(d.bm.Mul(d.Rows), turn, k), build.Dims(1, 2, 0))
		return
	}
	from := build.Expr("(" + turn.String() + ")").Mul(d.span())
	if k > 0 {
		from = from.Add(k)
	}
	d.b.LoadGlobal("xk"+tag, d.gx, build.Register(d.Act, layout.Replicated(d.Warps, 1, 1).Mul(loaded)), build.Offset(d.bm.Mul(d.Rows), from), build.Dims(1, 0))
}

// viewX is what loadX loaded, as an operand.
func (d *decoder) viewX(tag string, dot int) build.Value {
	right := layout.Local(1, max(d.Rows/8, 1)).Local(dot/8, 1).ColumnSpatial(4, 8).Local(2, 1)
	if d.Parts > 1 {
		right = each(d.Parts, right)
	} else {
		right = layout.Replicated(d.Warps, 1, 1).Mul(right)
	}
	return d.b.View("rx"+tag, build.Expr("xk"+tag), build.Register(d.Act, right))
}

// product adds a piece of k to its sums: those of the group, which begin at its first
// k, or of the output.
func (d *decoder) product(j, k int, rh, rx build.Value) {
	b := d.b
	once := d.shifted() && d.side == 0 // sums of x are those of all sides
	if d.summed() == 0 {
		if d.Parts > 1 {
			rh = b.View(fmt.Sprintf("%s%d_%d", d.of("ra"), j, k), rh, d.operand(d.left(1, d.dot())))
		}
		b.Dot(d.running(), rh, rx, build.Expr(d.running()), d.dotSum())
		if once {
			b.Dot("accx", build.Expr("ones"), rx, build.Expr("accx"), d.sum)
		}
		return
	}
	tag, first := name("", j), k == 0
	if d.spanScales() > 1 {
		tag, first = fmt.Sprintf("%d_%d", j, k/d.Group), k%d.Group == 0
	}
	sum := d.of("sum" + tag)
	as := d.dotSum()
	if first {
		b.AllocateRegister(sum, as, build.Init(0))
		if once {
			b.AllocateRegister("sumx"+tag, as, build.Init(0))
		}
	}
	if d.Parts > 1 {
		rh = b.View(d.of("ra"+tag), rh, d.operand(d.left(1, d.dot())))
	}
	b.Dot(sum, rh, rx, build.Expr(sum), as)
	if once {
		b.Dot("sumx"+tag, build.Expr("ones"), rx, build.Expr("sumx"+tag), as)
	}
}

// finish multiplies sums with their scales: acc becomes, or gains, (sum·back −
// zero·sumx)·s·2^Power.
func (d *decoder) finish(tag string, sum, sumx build.Value, whole bool) {
	b, acc := d.b, d.of("acc")
	scale, minus := d.scaleOf(tag)
	if d.Parts > 1 { // all warps' sums below each other, as their scales
		sum = b.View(d.of("all"+tag), sum, d.sum)
		if minus != nil {
			sumx = b.View("allx"+tag, sumx, d.sum)
		}
	}
	if whole {
		b.Mul(acc, sum, scale, d.sum)
	} else {
		b.Fma(acc, sum, scale, build.Expr(acc), d.sum)
	}
	if minus != nil {
		b.Fma(acc, sumx, *minus, build.Expr(acc), d.sum)
	}
}

// ceilText is ⌈name/by⌉ as an expression.
func ceilText(name string, by int) string {
	return fmt.Sprintf("(%s + %d)/%d", name, by-1, by)
}
