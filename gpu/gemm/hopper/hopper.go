// Package hopper makes programs of matrix products for Hopper, a ladder of six: each
// step adds one idea to the one before. c[M, N] = a[M, K]·b[N, K]ᵀ, both operands with
// k contiguous, sums in f32. Printed instances stand in vm/corpus as matmul_hopper_v0
// to matmul_hopper_v5.
package hopper

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Steps are the ladder's, in order: what each adds.
var Steps = []string{
	"tiles brought by tensor copies (TMA), multiplied by mma",
	"products of warpgroups (wgmma) that read shared memory",
	"stages: copies of later tiles run while one is multiplied",
	"a warpgroup of its own for the copies, registers given to those that multiply",
	"clusters: two blocks share a tile of b, of which each brings half to both",
	"blocks that stay and go on to the next tile, stores beside the next products",
}

// Schedule is how a product is cut. Zero fields take the step's defaults; the error of [Matmul] says what
// others may be.
type Schedule struct {
	Type      dtype.Type // of a and b: f16, bf16, f8e4m3, f8e5m2
	Out       dtype.Type // of c
	M, N      int        // tile of a block, in elements of c; its k is 128 bytes, see K
	Stages    int        // tiles of a and b that shared memory holds, from step 2 on
	Consumers int        // warpgroups that multiply, from step 3 on
	Cluster   int        // blocks along M that share tiles of b, from step 4 on
	Group     int        // rows of clusters that go through all columns together, of step 5
	PingPong  bool       // of step 5: each consumer has a tile of its own, in turns
	Parts     int        // of step 5: parts of columns in which a tile leaves, two at a time
	// PDL, of step 5, lets a launch begin before those in front of it have ended, for which it
	// waits before it reads a and b; only then may the next launch begin.
	PDL bool
}

// Defaults is the schedule that a step takes.
func Defaults(step int) Schedule {
	s := Schedule{Type: dtype.F16, Out: dtype.F16, M: 128, N: 128, Stages: 1, Consumers: 1, Cluster: 1, Group: 1, Parts: 1}
	if step >= 2 {
		s.Stages = 4
	}
	if step >= 3 {
		s.N, s.Consumers = 256, 2
	}
	if step == 4 {
		s.Cluster = 2
	}
	if step >= 5 { // on an H200 clusters gain nothing at 8192³: the L2 cache serves both blocks
		s.Group, s.Parts = 8, 4
	}
	return s
}

// fill takes defaults for zero fields and checks the others.
func (s Schedule) fill(step int) (Schedule, error) {
	if step < 0 || step >= len(Steps) {
		return s, fmt.Errorf("hopper: the ladder has steps 0 to %d (see Steps), not %d", len(Steps)-1, step)
	}
	d := Defaults(step)
	if s.Type == 0 {
		s.Type = d.Type
	}
	if s.Out == 0 {
		s.Out = d.Out
		if s.Type == dtype.BF16 {
			s.Out = dtype.BF16
		}
	}
	most := 1
	if step >= 4 {
		most = 4
	}
	for _, f := range []struct {
		name          string
		value         *int
		usual, lo, hi int
	}{
		{"M", &s.M, d.M, 64, 256}, {"N", &s.N, d.N, 32, 256}, {"Stages", &s.Stages, d.Stages, min(d.Stages, 2), min(d.Stages, 2) * 4}, {"Parts", &s.Parts, d.Parts, 1, d.Parts * 2},
		{"Consumers", &s.Consumers, d.Consumers, 1, d.Consumers * 3 / 2}, {"Cluster", &s.Cluster, d.Cluster, 1, most}, {"Group", &s.Group, d.Group, 1, 64},
	} {
		if *f.value == 0 {
			*f.value = f.usual
		}
		if *f.value < f.lo || *f.value > f.hi {
			return s, fmt.Errorf("hopper: %s of step %d is %d, must be %d to %d; 0 takes %d", f.name, step, *f.value, f.lo, f.hi, f.usual)
		}
	}
	rows := 64 * s.Consumers
	if s.PingPong {
		rows = 64
	}
	switch {
	case s.M%rows != 0 || s.N%(32*s.Cluster) != 0:
		return s, fmt.Errorf("hopper: a tile of %d × %d: M must be a multiple of %d rows, 64 for each of the warpgroups that share it, and N one of %d columns, 32 for each block of the cluster", s.M, s.N, rows, 32*s.Cluster)
	case s.PDL && step < 5:
		return s, fmt.Errorf("hopper: PDL is for step 5, not step %d", step)
	case s.PingPong && (step < 5 || s.Consumers != 2):
		return s, fmt.Errorf("hopper: PingPong is for two consumers of step 5, not %d of step %d", s.Consumers, step)
	case step == 5 && s.N%(16*s.Parts) != 0:
		return s, fmt.Errorf("hopper: a tile of %d columns does not leave in %d parts: N must be a multiple of 16 columns for each", s.N, s.Parts)
	case s.Type.Bits() != 8 && s.Type.Bits() != 16:
		return s, fmt.Errorf("hopper: operands of %s; warpgroups multiply f16, bf16, f8e4m3 and f8e5m2", s.Type)
	}
	return s, nil
}

// K is the k of a turn: 128 bytes.
func (s Schedule) K() int { return 1024 / s.Type.Bits() }

// maker holds the names of a program in the making.
type maker struct {
	Schedule
	b          *build.Builder
	step       int
	a, bb, c   build.Value
	ga, gb, gc build.Value
	rank       build.Value
	sa, sb     build.Value
	pipe       build.Pipeline
	turns      build.Value // of k
}

// Matmul is c[M, N] = a[M, K]·b[N, K]ᵀ by a step of the ladder. K must be a multiple
// of 16 bytes. Step 5 has one more parameter, P: how many blocks there are, a multiple
// of Cluster; as many as run at the same time is best. The error says what a field of the schedule may be.
func Matmul(step int, s Schedule) (*ir.Program, error) {
	s, err := s.fill(step)
	if err != nil {
		return nil, err
	}
	m := &maker{Schedule: s, step: step}
	warps := 4
	if step >= 3 {
		warps += 4 * s.Consumers
	}
	ceil := func(x string, by int) string { return fmt.Sprintf("(%s + %d)/%d", x, by-1, by) }
	grid := []any{ceil("M", s.M), ceil("N", s.N)}
	options := []build.Option{build.Warps(warps)}
	switch {
	case step == 5:
		grid = []any{"P"}
	case s.Cluster > 1:
		grid[0] = fmt.Sprintf("%s*%d", ceil("M", s.M*s.Cluster), s.Cluster)
	}
	if s.Cluster > 1 {
		options = append(options, build.Cluster(s.Cluster))
	}
	b := build.Program(fmt.Sprintf("matmul_hopper_v%d", step), append(options, build.Grid(grid...))...)
	m.b = b
	m.a, m.bb, m.c = b.Pointer("a", s.Type), b.Pointer("b", s.Type), b.Pointer("c", s.Out)
	M, N, K := b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	if step == 5 {
		b.Scalar("P", dtype.I32)
	}
	m.ga = b.ViewGlobal("ga", m.a, build.Global(s.Type, M, K))
	m.gb = b.ViewGlobal("gb", m.bb, build.Global(s.Type, N, K))
	m.gc = b.ViewGlobal("gc", m.c, build.Global(s.Out, M, N))
	m.turns = b.Let("turns", ceil("K", s.K()))
	switch step {
	case 0:
		m.plain(m.fragments)
	case 1:
		m.plain(m.product)
	case 2:
		m.stages()
	case 3, 4:
		m.specialised()
	default:
		m.persistent()
	}
	return b.Build()
}

// swizzled is a tile whose rows of 128 bytes tensor copies and matrix instructions
// swizzle.
func (m *maker) swizzled(shape ...int) build.Type {
	return build.Shared(m.Type, swizzle(m.Type, shape...))
}

func swizzle(t dtype.Type, shape ...int) layout.Shared {
	l, err := layout.SharedRowMajorSwizzle(t.Bits(), shape...)
	if err != nil {
		panic(err) // schedules are checked
	}
	return l
}

// transposed is [N, K] seen as [K, N].
func (m *maker) transposed(n int) build.Type {
	l, err := swizzle(m.Type, n, m.K()).Transpose(0, 1)
	if err != nil {
		panic(err)
	}
	return build.Shared(m.Type, l)
}

// sums is the accumulator of rows over so many warpgroups.
func (m *maker) sums(t dtype.Type, rows, groups int) build.Type {
	return columns(t, rows, groups, m.N)
}

// columns is a part of an accumulator, of n columns.
func columns(t dtype.Type, rows, groups, n int) build.Type {
	l := layout.Spatial(groups, 1).Local(rows/64/groups, 1).Mul(ir.WgmmaForm{N: n, K: 16}.C())
	return build.Register(t, l)
}

// bytes of a turn.
func (m *maker) bytes() int { return (m.M + m.N) * 128 }

// store casts sums and stores them.
func (m *maker) store(acc build.Value, rows, groups int, i, j build.Value) {
	out := m.b.Cast("out", acc, m.sums(m.Out, rows, groups))
	m.b.StoreGlobal(m.gc, out, build.Offset(i, j))
}
