package template

import (
	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// direct is step 0: each warp loads its fragments itself, in the pieces that the
// matrix instruction wants, 2 or 4 bytes.
func (m *maker) direct(turns build.Value) {
	b := m.b
	m.acc = b.AllocateRegister("acc", m.sums, build.Init(0))
	b.For("k", 0, turns, func(k build.Value) {
		ra := b.LoadGlobal("ra", m.ga, m.left(m.K), build.Offset(m.bi.Mul(m.M), k.Mul(m.K)))
		rb := b.LoadGlobal("rb", m.gb, m.right(m.K), build.Offset(k.Mul(m.K), m.bj.Mul(m.N)))
		b.Dot("acc", ra, rb, m.acc, m.sums)
	})
}

// shared is steps 1 and 2: tiles go through registers to shared memory.
func (m *maker) shared(turns build.Value) {
	b := m.b
	sa := b.AllocateShared("sa", plain(m.M, m.K))
	sb := b.AllocateShared("sb", plain(m.K, m.N))
	m.acc = b.AllocateRegister("acc", m.sums, build.Init(0))
	b.For("k", 0, turns, func(k build.Value) {
		ta := b.LoadGlobal("ta", m.ga, m.rowsOf(dtype.F16, m.M, m.K), build.Offset(m.bi.Mul(m.M), k.Mul(m.K)))
		tb := b.LoadGlobal("tb", m.gb, m.rowsOf(dtype.F16, m.K, m.N), build.Offset(k.Mul(m.K), m.bj.Mul(m.N)))
		b.Synchronize()
		b.StoreShared(sa, ta)
		b.StoreShared(sb, tb)
		b.Synchronize()
		m.multiply(sa, sb)
	})
}

// multiply loads the fragments of whole tiles and multiplies them.
func (m *maker) multiply(sa, sb build.Value, at ...any) {
	var offset []build.Attr
	if len(at) > 0 {
		offset = []build.Attr{build.Offset(at...)}
	}
	ra := m.b.LoadShared("ra", sa, m.left(m.K), offset...)
	rb := m.b.LoadShared("rb", sb, m.right(m.K), offset...)
	m.b.Dot("acc", ra, rb, m.acc, m.sums)
}

// copied is step 3.
func (m *maker) copied(turns build.Value) {
	b := m.b
	sa := b.AllocateShared("sa", swizzled(0, m.M, m.K))
	sb := b.AllocateShared("sb", swizzled(0, m.K, m.N))
	m.acc = b.AllocateRegister("acc", m.sums, build.Init(0))
	b.For("k", 0, turns, func(k build.Value) {
		b.CopyAsync(m.ga, sa, build.Offset(m.bi.Mul(m.M), k.Mul(m.K)))
		b.CopyAsync(m.gb, sb, build.Offset(k.Mul(m.K), m.bj.Mul(m.N)))
		b.CopyAsyncWaitAll()
		b.Synchronize()
		m.multiply(sa, sb)
		b.Synchronize()
	})
}

// stages allocates the tiles of steps 4 and 5 and starts the copies of all but one
// of them. Every stage has its group of copies, so that a wait counts stages. turn
// gives the turn that a stage is for.
func (m *maker) stages(turn func(s build.Value) build.Value) (sa, sb build.Value) {
	b := m.b
	sa = b.AllocateShared("sa", swizzled(m.Stages, m.M, m.K))
	sb = b.AllocateShared("sb", swizzled(m.Stages, m.K, m.N))
	m.acc = b.AllocateRegister("acc", m.sums, build.Init(0))
	b.For("s", 0, m.Stages-1, func(s build.Value) { m.copyStage(sa, sb, s, turn(s)) }, build.Unroll(-1))
	return sa, sb
}

// copyStage starts the copies of turn k into a stage.
func (m *maker) copyStage(sa, sb build.Value, stage, k build.Value) {
	b := m.b
	fa := b.SliceShared("fa", sa, swizzled(0, m.M, m.K), build.Offset(stage, 0, 0))
	fb := b.SliceShared("fb", sb, swizzled(0, m.K, m.N), build.Offset(stage, 0, 0))
	b.CopyAsync(m.ga, fa, build.Offset(m.bi.Mul(m.M), k.Mul(m.K)))
	b.CopyAsync(m.gb, fb, build.Offset(k.Mul(m.K), m.bj.Mul(m.N)))
	b.CopyAsyncCommitGroup()
}

// staged is step 4. The stage that a turn fills was read in the turn before, which
// all warps have left behind at this turn's barrier.
func (m *maker) staged(turns build.Value) {
	b := m.b
	sa, sb := m.stages(func(s build.Value) build.Value { return s })
	b.For("k", 0, turns, func(k build.Value) {
		b.CopyAsyncWaitGroup(build.N(m.Stages - 2))
		b.Synchronize()
		m.copyStage(sa, sb, k.Add(m.Stages-1).Mod(m.Stages), k.Add(m.Stages-1))
		m.multiply(sa, sb, k.Mod(m.Stages), 0, 0)
	})
}

// place finds the tile of a block of step 5: Group rows of tiles go through all
// columns before the next ones begin, so that blocks that run together read few rows
// and columns.
func (m *maker) place(block build.Value) {
	b := m.b
	rows := b.Let("rows", "(M + "+itoa(m.M-1)+")/"+itoa(m.M))
	columns := b.Let("columns", "(N + "+itoa(m.N-1)+")/"+itoa(m.N))
	first := b.Let("first", block.Div(columns.Mul(m.Group)).Mul(m.Group))
	height := b.Let("height", rows.Sub(first).Min(m.Group))
	m.bi = b.Let("bi", first.Add(block.Mod(columns.Mul(m.Group)).Mod(height)))
	m.bj = b.Let("bj", block.Mod(columns.Mul(m.Group)).Div(height))
}

// ahead is step 5: as step 4, with the fragments of the next 16 k loaded while those
// before are multiplied, over the border of turns too.
func (m *maker) ahead(turns build.Value) {
	b := m.b
	// The block does turns from to end; since counts them from 0.
	var from, end any = 0, turns
	since := func(k build.Value) build.Value { return k }
	turn := since
	if m.Splits > 1 {
		each := b.Let("each", turns.Add(m.Splits-1).Div(m.Splits))
		first := b.Let("from", m.split.Mul(each))
		from, end = first, b.Let("end", first.Add(each).Min(turns))
		since = func(k build.Value) build.Value { return b.Let("turn", k.Sub(first)) }
		turn = func(s build.Value) build.Value { return first.Add(s) }
	}
	sa, sb := m.stages(turn)
	wait := func() {
		b.CopyAsyncWaitGroup(build.N(m.Stages - 2))
		b.Synchronize()
	}
	wait()
	load := func(a, bb string, stage, kk any) (build.Value, build.Value) {
		return b.LoadShared(a, sa, m.left(16), build.Offset(stage, 0, kk)), b.LoadShared(bb, sb, m.right(16), build.Offset(stage, kk, 0))
	}
	ra, rb := load("ra", "rb", 0, 0)
	steps := m.K / 16
	b.For("k", from, end, func(k build.Value) {
		turn := since(k)
		for i := 1; i <= steps; i++ {
			stage, kk := turn.Mod(m.Stages), i*16
			if i == steps {
				// The wait counts this turn's group of copies.
				if steps == 1 {
					m.copyStage(sa, sb, turn.Add(m.Stages-1).Mod(m.Stages), k.Add(m.Stages-1))
				}
				wait()
				stage, kk = turn.Add(1).Mod(m.Stages), 0
			}
			na, nb := load("na", "nb", stage, kk)
			// Copies write shared memory, so that the assembler moves no load of
			// fragments over them: they stand behind one.
			if i == 1 && steps > 1 {
				m.copyStage(sa, sb, turn.Add(m.Stages-1).Mod(m.Stages), k.Add(m.Stages-1))
			}
			b.Dot("acc", ra, rb, m.acc, m.sums)
			b.Assign("ra", na, m.left(16))
			b.Assign("rb", nb, m.right(16))
		}
	})
	// Copies behind the last turn have to end before their place is used anew.
	b.CopyAsyncWaitAll()
	b.Synchronize()
	b.FreeShared(sa)
	b.FreeShared(sb)
}

// store brings the results through shared memory into rows, of which each thread
// stores 16 bytes at a time.
func (m *maker) store(sums build.Value) {
	b := m.b
	half := b.Cast("half", sums, m.halves)
	so := b.AllocateShared("so", swizzled(0, m.M, m.N))
	b.StoreShared(so, half)
	b.Synchronize()
	out := b.LoadShared("out", so, m.rowsOf(dtype.F16, m.M, m.N))
	b.StoreGlobal(m.gc, out, build.Offset(m.bi.Mul(m.M), m.bj.Mul(m.N)))
}

// sum adds the parts of a tile up, some rows at a time: the sums of a whole tile and
// the parts on their way would be more than a thread's registers hold.
func (m *maker) sum(parts build.Value) {
	b := m.b
	down := 32 * m.Warps() / (m.N / 8)
	rows := down
	for rows < 4*down && m.M%(2*rows) == 0 {
		rows *= 2
	}
	halves, sums := m.rowsOf(dtype.F16, rows, m.N), m.rowsOf(dtype.F32, rows, m.N)
	b.For("r", 0, m.M/rows, func(r build.Value) {
		at := m.bi.Mul(m.M).Add(r.Mul(rows))
		total := b.AllocateRegister("total", sums, build.Init(0))
		b.For("i", 0, m.Splits, func(i build.Value) {
			p := b.LoadGlobal("p", parts, sums, build.Offset(i, at, m.bj.Mul(m.N)), build.Dims(1, 2))
			b.Add("total", total, p, sums)
		})
		b.StoreGlobal(m.gc, b.Cast("half", total, halves), build.Offset(at, m.bj.Mul(m.N)))
	})
}

// plain and swizzled are types of tiles in shared memory, the latter with a dimension
// of stages in front if there are any. 8 rows of 16 bytes in one column of a swizzled
// tile lie in different banks, and so do those of one row.
func plain(rows, columns int) build.Type {
	return build.Shared(dtype.F16, layout.SharedRowMajor(rows, columns))
}

func swizzled(stages, rows, columns int) build.Type {
	l, err := layout.SharedRowMajorSwizzle(16, rows, columns)
	if err == nil && stages > 0 {
		l, err = l.Prepend(stages)
	}
	if err != nil {
		panic(err) // fill has checked the sizes
	}
	return build.Shared(dtype.F16, l)
}
