// Package template makes programs of f16 matrix products, a ladder of six: each
// step adds one idea to the one before, and the last is as fast as mma.sync allows.
// Printed instances stand in vm/corpus as matmul_v0 to matmul_v5.
package template

import (
	"fmt"
	"strconv"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Steps are the ladder's, in order: what each adds.
var Steps = []string{
	"fragments straight from global memory",
	"tiles in shared memory, each read once by a block",
	"larger tiles, found by timing",
	"copies past the registers (cp.async) to swizzled shared memory, fragments by ldmatrix",
	"stages: copies of later tiles run while one is multiplied",
	"fragments loaded one step ahead, blocks in an order that shares the L2 cache, k shared by blocks, stores of 16 bytes through shared memory",
}

// Bounds of schedules.
const (
	MaxTile   = 256
	MaxStages = 8
	MaxWarps  = 16
	MaxSplits = 32
	// MaxShared is what a block of tiles may take; sm_86, sm_89 and sm_90 have 99 KiB, sm_80
	// 163 KiB, sm_90a 227 KiB.
	MaxShared = 227 << 10
)

// Schedule is how a product is cut. Zero fields take the step's defaults.
type Schedule struct {
	M, N, K int // tile of a block, and the k of a turn: each warp's part is a multiple of 16 × 16, K one of 16
	WarpsM  int // warps along M and N
	WarpsN  int
	Stages  int // tiles in shared memory, of steps 4 and 5
	Group   int // rows of tiles that go through all columns together, of step 5
	Splits  int // blocks that share the k of one tile, of step 5
}

// Defaults is the schedule that a step takes: from step 2 on the fastest at 4096³ on an
// H200 of those that TestExport writes with -sweep and that fit the shared memory of
// all targets.
func Defaults(step int) Schedule {
	switch step {
	case 0:
		return Schedule{M: 64, N: 64, K: 16, WarpsM: 2, WarpsN: 2}
	case 1:
		return Schedule{M: 64, N: 64, K: 32, WarpsM: 2, WarpsN: 2}
	case 2:
		return Schedule{M: 128, N: 128, K: 32, WarpsM: 2, WarpsN: 2}
	case 3:
		return Schedule{M: 128, N: 128, K: 64, WarpsM: 2, WarpsN: 2}
	case 4:
		return Schedule{M: 128, N: 128, K: 32, WarpsM: 2, WarpsN: 2, Stages: 4}
	default:
		return Schedule{M: 128, N: 256, K: 32, WarpsM: 2, WarpsN: 4, Stages: 4, Group: 8, Splits: 1}
	}
}

// Warps of a block.
func (s Schedule) Warps() int { return s.WarpsM * s.WarpsN }

// fill takes defaults for zero fields and checks the others.
func (s Schedule) fill(step int) (Schedule, error) {
	if step < 0 || step >= len(Steps) {
		return s, fmt.Errorf("template: the ladder has steps 0 to %d, not %d", len(Steps)-1, step)
	}
	d := Defaults(step)
	// Steps without stages, groups and splits have one of each, which is no choice.
	for _, f := range []struct {
		name          string
		value         *int
		usual, lo, hi int
	}{
		{"M", &s.M, d.M, 16, MaxTile}, {"N", &s.N, d.N, 16, MaxTile}, {"K", &s.K, d.K, 16, MaxTile},
		{"WarpsM", &s.WarpsM, d.WarpsM, 1, MaxWarps}, {"WarpsN", &s.WarpsN, d.WarpsN, 1, MaxWarps},
		{"Stages", &s.Stages, d.Stages, min(d.Stages, 2), min(d.Stages, 1) * MaxStages},
		{"Group", &s.Group, d.Group, min(d.Group, 1), min(d.Group, 1) * MaxTile},
		{"Splits", &s.Splits, d.Splits, min(d.Splits, 1), min(d.Splits, 1) * MaxSplits},
	} {
		if *f.value == 0 {
			*f.value = f.usual
		}
		if *f.value < f.lo || *f.value > f.hi {
			return s, fmt.Errorf("template: %s of step %d is %d, not in %d to %d", f.name, step, *f.value, f.lo, f.hi)
		}
	}
	threads := 32 * s.Warps()
	switch {
	case s.Warps() > MaxWarps:
		return s, fmt.Errorf("template: %d × %d warps are more than %d", s.WarpsM, s.WarpsN, MaxWarps)
	case s.M%(16*s.WarpsM) != 0 || s.N%(16*s.WarpsN) != 0 || s.K%16 != 0:
		return s, fmt.Errorf("template: %d × %d warps do not share a tile of %d × %d in steps of %d: parts are 16 × 16, steps 16", s.WarpsM, s.WarpsN, s.M, s.N, s.K)
	case !pieces(s.M, s.K, threads) || !pieces(s.K, s.N, threads) || !pieces(s.M, s.N, threads):
		return s, fmt.Errorf("template: %d threads do not share tiles of %d × %d in steps of %d in pieces of 16 bytes", threads, s.M, s.N, s.K)
	case max(1, s.Stages)*s.K*(s.M+s.N)*2 > MaxShared:
		return s, fmt.Errorf("template: %d stages of %d × %d in steps of %d take more than %d bytes of shared memory", s.Stages, s.M, s.N, s.K, MaxShared)
	}
	return s, nil
}

// pieces reports that threads share a tile of f16 in whole rows of 16-byte pieces.
func pieces(rows, columns, threads int) bool {
	across := columns / 8
	return columns%8 == 0 && threads%across == 0 && rows%(threads/across) == 0
}

// Matmul is c[M, N] = a[M, K]·b[K, N] in f16 with f32 sums, by a step of the ladder.
// Any sizes are right; those that are multiples of 8 are copied 16 bytes at a time.
//
// With Splits > 1 two parameters stand after c: part is f32 [Splits, M, N] and holds
// the sums of the blocks, and arrived is i32, one for each tile, and counts them.
// arrived is 0 before the first launch and after each. The last block adds the sums up
// in the order of k, whichever it is.
func Matmul(step int, s Schedule) (*ir.Program, error) {
	s, err := s.fill(step)
	if err != nil {
		return nil, err
	}
	m := &maker{Schedule: s}
	m.types()
	title := fmt.Sprintf("matmul_v%d", step)
	ceil := func(x string, by int) string { return fmt.Sprintf("(%s + %d)/%d", x, by-1, by) }
	grid := []any{ceil("M", s.M), ceil("N", s.N)}
	if step == 5 {
		grid = []any{ceil("M", s.M) + "*(" + ceil("N", s.N) + ")"}
	}
	if s.Splits > 1 {
		title, grid = title+"_splitk", append([]any{s.Splits}, grid...)
	}
	b := build.Program(title, build.Grid(grid...), build.Warps(s.Warps()))
	m.b = b
	a, bb, c := b.Pointer("a", dtype.F16), b.Pointer("b", dtype.F16), b.Pointer("c", dtype.F16)
	var part, arrived build.Value
	if s.Splits > 1 {
		part, arrived = b.Pointer("part", dtype.F32), b.Pointer("arrived", dtype.I32)
	}
	rows, columns, depth := b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	switch {
	case s.Splits > 1:
		split, block := b.BlockIndices2("split", "block")
		m.split, m.tile = split, block
		m.place(block)
	case step == 5:
		m.place(b.BlockIndices("block"))
	default:
		m.bi, m.bj = b.BlockIndices2("bi", "bj")
	}
	m.ga = b.ViewGlobal("ga", a, build.Global(dtype.F16, rows, depth))
	m.gb = b.ViewGlobal("gb", bb, build.Global(dtype.F16, depth, columns))
	m.gc = b.ViewGlobal("gc", c, build.Global(dtype.F16, rows, columns))
	turns := depth.Add(s.K - 1).Div(s.K)
	switch step {
	case 0:
		m.direct(turns)
	case 1, 2:
		m.shared(turns)
	case 3:
		m.copied(turns)
	case 4:
		m.staged(turns)
	case 5:
		m.ahead(turns)
	}
	switch {
	case step < 5:
		half := b.Cast("out", m.acc, m.halves)
		b.StoreGlobal(m.gc, half, build.Offset(m.bi.Mul(s.M), m.bj.Mul(s.N)))
	case s.Splits == 1:
		m.store(m.acc)
	default:
		gp := b.ViewGlobal("gp", part, build.Global(dtype.F32, s.Splits, rows, columns))
		gn := b.ViewGlobal("gn", arrived, build.Global(dtype.I32, ceil("M", s.M)+"*("+ceil("N", s.N)+")"))
		at := build.Offset(m.split, m.bi.Mul(s.M), m.bj.Mul(s.N))
		b.StoreGlobal(gp, m.acc, at, build.Dims(1, 2))
		b.Synchronize()
		before := b.AtomicScalar("before", gn, s.Splits-1, nil, build.Offset(m.tile), build.Op("inc"), build.Order("acq_rel"))
		b.If(before.Equal(s.Splits-1), func() {
			b.Synchronize()
			m.sum(gp)
		})
	}
	return b.Build()
}

// maker is one program under way.
type maker struct {
	Schedule
	b            *build.Builder
	bi, bj       build.Value // tile of the block
	split, tile  build.Value // of k, and number of the tile, where k is shared
	ga, gb, gc   build.Value
	acc          build.Value
	sums, halves build.Type // the tile of results as the matrix instruction leaves it
}

// left and right are the fragments of a and b for k values of k.
func (m *maker) left(k int) build.Type {
	l := layout.Replicated(m.WarpsN, 1, 1)
	return build.Register(dtype.F16, layout.Spatial(m.WarpsM, 1).Mul(l).Local(m.M/m.WarpsM/16, k/16).ColumnLocal(2, 2).Spatial(8, 4).Local(1, 2))
}

func (m *maker) right(k int) build.Type {
	l := layout.Replicated(m.WarpsM, 1, 1)
	return build.Register(dtype.F16, l.Spatial(1, m.WarpsN).Local(k/16, m.N/m.WarpsN/8).Local(2, 1).ColumnSpatial(4, 8).Local(2, 1))
}

func (m *maker) types() {
	l := layout.Spatial(m.WarpsM, m.WarpsN).Local(m.M/m.WarpsM/16, m.N/m.WarpsN/8).Local(2, 1).Spatial(8, 4).Local(1, 2)
	m.sums, m.halves = build.Register(dtype.F32, l), build.Register(dtype.F16, l)
}

// rowsOf is a tile in pieces of 8 elements, side by side along its rows.
func (m *maker) rowsOf(elem dtype.Type, rows, columns int) build.Type {
	across := columns / 8
	down := 32 * m.Warps() / across
	return build.Register(elem, layout.Local(rows/down, 1).Spatial(down, across).Local(1, 8))
}

func itoa(n int) string { return strconv.Itoa(n) }
