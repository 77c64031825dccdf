package hopper

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// plain is steps 0 and 1: one tile of each operand, filled and multiplied in turns.
func (m *maker) plain(multiply func(i, j build.Value, fill func(k build.Value))) {
	b := m.b
	bi, bj := b.BlockIndices2("bi", "bj")
	i, j := b.Let("i", bi.Mul(m.M)), b.Let("j", bj.Mul(m.N))
	m.sa = b.AllocateShared("sa", m.swizzled(m.M, m.K()))
	m.sb = b.AllocateShared("sb", m.swizzled(m.N, m.K()))
	full := b.AllocateBarrier("full", "shared u64[1] shared_row_major(1)", build.Count(1))
	b.Synchronize()
	multiply(i, j, func(k build.Value) {
		b.Group(0, 1, func() {
			b.ArriveExpectTxBarrier(full, k, build.Bytes(m.bytes()))
			b.CopyAsyncTensorGlobalToShared(m.ga, m.sa, full, k, build.Offset(i, k.Mul(m.K())))
			b.CopyAsyncTensorGlobalToShared(m.gb, m.sb, full, k, build.Offset(j, k.Mul(m.K())))
		})
		b.WaitBarrier(full, k)
	})
}

// fragments multiplies what the warps load from shared memory.
func (m *maker) fragments(i, j build.Value, fill func(k build.Value)) {
	b, warps := m.b, 2
	reduced := func(l layout.Layout, err error) layout.Layout {
		if err != nil {
			panic(err)
		}
		return l
	}
	v := 32 / m.Type.Bits()
	left := reduced(layout.Spatial(warps, 1, warps).Reduce([]int{2}, false)).Local(m.M/16/warps, m.K()/(8*v)).Mul(layout.ColumnLocal(2, 2).Spatial(8, 4).Local(1, v))
	right := reduced(layout.Spatial(warps, 1, warps).Reduce([]int{0}, false)).Local(m.K()/(8*v), m.N/8/warps).Mul(layout.Local(2, 1).ColumnSpatial(4, 8).Local(v, 1))
	sums := layout.Spatial(warps, warps).Local(m.M/16/warps, m.N/8/warps).Mul(layout.Local(2, 1).Spatial(8, 4).Local(1, 2))
	st := b.PermuteShared("st", m.sb, m.transposed(m.N))
	acc := b.AllocateRegister("acc", build.Register(dtype.F32, sums), build.Init(0))
	b.For("k", 0, m.turns, func(k build.Value) {
		fill(k)
		ra := b.LoadShared("ra", m.sa, build.Register(m.Type, left))
		rb := b.LoadShared("rb", st, build.Register(m.Type, right))
		b.Synchronize()
		b.Dot("acc", ra, rb, acc, build.Register(dtype.F32, sums))
	})
	out := b.Cast("out", acc, build.Register(m.Out, sums))
	b.StoreGlobal(m.gc, out, build.Offset(i, j))
}

// product is the product of one warpgroup.
func (m *maker) product(i, j build.Value, fill func(k build.Value)) {
	b := m.b
	st := b.PermuteShared("st", m.sb, m.transposed(m.N))
	sums := m.sums(dtype.F32, m.M, 1)
	acc := b.AllocateRegister("acc", sums, build.Init(0))
	b.For("k", 0, m.turns, func(k build.Value) {
		fill(k)
		b.WgmmaFence()
		b.WgmmaDot("acc", m.sa, st, acc, sums)
		b.WgmmaCommitGroup()
		b.WgmmaWaitGroup(build.N(0))
		b.Synchronize()
	})
	m.store(acc, m.M, 1, i, j)
}

// allocate makes the stages and their barriers; consumers is how many warpgroups of a
// block use a stage.
func (m *maker) allocate(consumers int) {
	m.sa = m.b.AllocateShared("sa", m.swizzled(m.Stages, m.M, m.K()))
	m.sb = m.b.AllocateShared("sb", m.swizzled(m.Stages, m.N, m.K()))
	m.pipe = m.b.Pipeline("p", m.Stages, 4*consumers*m.Cluster)
}

// copies fills the stage of a turn with the tiles at rows i of a and j of b.
func (m *maker) copies(turn, i, j, k build.Value) {
	b, p := m.b, m.pipe
	p.Acquire(turn)
	p.Fill(turn, m.bytes())
	ta := p.Stage("ta", m.sa, turn, m.swizzled(m.M, m.K()))
	b.CopyAsyncTensorGlobalToShared(m.ga, ta, p.Full, turn, build.Offset(i, k.Mul(m.K())))
	if m.Cluster == 1 {
		tb := p.Stage("tb", m.sb, turn, m.swizzled(m.N, m.K()))
		b.CopyAsyncTensorGlobalToShared(m.gb, tb, p.Full, turn, build.Offset(j, k.Mul(m.K())))
		return
	}
	part := m.N / m.Cluster
	at := m.rank.Mul(part)
	tb := p.Stage("tb", m.sb, turn, m.swizzled(part, m.K()), at, 0)
	b.CopyAsyncTensorGlobalToShared(m.gb, tb, p.Full, turn, build.Offset(j.Add(at), k.Mul(m.K())), build.Multicast(1<<m.Cluster-1))
}

// multiply begins the product of a turn.
func (m *maker) multiply(turn, acc build.Value, rows, groups int, from any) {
	b, p := m.b, m.pipe
	ua := p.Stage("ua", m.sa, turn, m.swizzled(rows, m.K()), from, 0)
	ub := p.Stage("ub", m.sb, turn, m.swizzled(m.N, m.K()))
	ut := b.PermuteShared("ut", ub, m.transposed(m.N))
	p.Wait(turn)
	b.WgmmaFence()
	b.WgmmaDot("acc", ua, ut, acc, m.sums(dtype.F32, rows, groups))
	b.WgmmaCommitGroup()
}

// release gives a stage back to all blocks that fill it.
func (m *maker) release(turn build.Value) {
	if m.Cluster == 1 {
		m.pipe.Release(turn)
		return
	}
	for r := range m.Cluster {
		m.pipe.Release(turn, build.Rank(r))
	}
}

// stages is step 2: one warpgroup copies Stages - 1 turns ahead, and multiplies.
func (m *maker) stages() {
	b := m.b
	bi, bj := b.BlockIndices2("bi", "bj")
	i, j := b.Let("i", bi.Mul(m.M)), b.Let("j", bj.Mul(m.N))
	m.allocate(1)
	sums := m.sums(dtype.F32, m.M, 1)
	acc := b.AllocateRegister("acc", sums, build.Init(0))
	b.Synchronize()
	ahead := m.Stages - 1
	b.Group(0, 1, func() {
		b.For("k", 0, build.Expr(fmt.Sprintf("min(%d, turns)", ahead)), func(k build.Value) { m.copies(k, i, j, k) })
	})
	b.For("k", 0, m.turns, func(k build.Value) {
		m.multiply(k, acc, m.M, 1, 0)
		b.WgmmaWaitGroup(build.N(1))
		b.If(k.Greater(0), func() { m.release(k.Sub(1)) })
		b.If(k.Add(ahead).Less(m.turns), func() {
			b.Group(0, 1, func() { m.copies(k.Add(ahead), i, j, k.Add(ahead)) })
		})
	})
	b.WgmmaWaitGroup(build.N(0))
	m.store(acc, m.M, 1, i, j)
}

// begin makes what blocks of step 3 and later begin with.
func (m *maker) begin(consumers int) {
	m.allocate(consumers)
	if m.Cluster > 1 {
		m.rank = m.b.ClusterRank("rank")
		m.b.ClusterSynchronize()
	} else {
		m.b.Synchronize()
	}
}

// end lets no block end whose memory others still use.
func (m *maker) end() {
	if m.Cluster > 1 {
		m.b.ClusterSynchronize()
	}
}

// registers of the warpgroup that copies and of those that multiply.
func (m *maker) registers() (copies, multiplies int) {
	if m.Consumers == 1 {
		return 40, 232
	}
	if m.Consumers == 3 {
		return 32, 160
	}
	return 40, 232
}

// specialised is steps 3 and 4.
func (m *maker) specialised() {
	b := m.b
	bi, bj := b.BlockIndices2("bi", "bj")
	i, j := b.Let("i", bi.Mul(m.M)), b.Let("j", bj.Mul(m.N))
	m.begin(m.Consumers)
	few, many := m.registers()
	b.Group(0, 128, func() {
		b.SetMaxRegisters(build.N(few))
		b.Group(0, 1, func() {
			b.For("k", 0, m.turns, func(k build.Value) { m.copies(k, i, j, k) })
		})
	})
	b.Group(128, 128*m.Consumers, func() {
		b.SetMaxRegisters(build.N(many))
		acc := b.AllocateRegister("acc", m.sums(dtype.F32, m.M, m.Consumers), build.Init(0))
		b.For("k", 0, m.turns, func(k build.Value) {
			m.multiply(k, acc, m.M, m.Consumers, 0)
			b.WgmmaWaitGroup(build.N(1))
			b.If(k.Greater(0), func() { m.release(k.Sub(1)) })
		})
		b.WgmmaWaitGroup(build.N(0))
		m.release(m.turns.Sub(1))
		m.store(acc, m.M, m.Consumers, i, j)
	})
	m.end()
}

// tiles runs f for each tile of a warpgroup's share: those from first on, by steps. In
// f turn is the turn of the tile's first k. Tiles go down Group rows of clusters,
// column after column, so that what runs at the same time shares rows and columns in
// the L2 cache.
func (m *maker) tiles(first, by build.Value, f func(turn, i, j build.Value)) {
	b := m.b
	t := b.Let("t", first)
	b.While(t.Less(build.Expr("rows*columns")), func() {
		at := b.Let("at", t.Div(build.Expr("columns").Mul(m.Group)).Mul(m.Group))
		high := b.Let("high", build.Expr("rows").Sub(at).Min(m.Group))
		rest := b.Let("rest", t.Mod(build.Expr("columns").Mul(m.Group)))
		row := at.Add(rest.Mod(high)).Mul(m.Cluster)
		if m.Cluster > 1 {
			row = row.Add(m.rank)
		}
		i, j := b.Let("i", row.Mul(m.M)), b.Let("j", rest.Div(high).Mul(m.N))
		f(build.Expr("done"), i, j)
		b.Let("t", t.Add(by))
	})
}

// persistent is step 5.
func (m *maker) persistent() {
	b := m.b
	bi := b.BlockIndices("bi")
	b.Let("rows", build.Expr(fmt.Sprintf("(M + %d)/%d", m.M*m.Cluster-1, m.M*m.Cluster)))
	b.Let("columns", build.Expr(fmt.Sprintf("(N + %d)/%d", m.N-1, m.N)))
	users, groups := m.Consumers, m.Consumers
	var order build.Value
	if m.PingPong {
		users, groups = 1, 1
		// Consumers multiply in turns: a barrier's phase before the last is forgotten, so
		// none may wait for stages that the other has still to use.
		order = b.AllocateBarrier("order", "shared u64[2] shared_row_major(2)", build.Count(4))
	}
	m.begin(users)
	clusters := b.Let("clusters", build.Expr("P").Div(m.Cluster))
	mine := b.Let("mine", bi.Div(m.Cluster))
	out := m.b.AllocateShared("sc", build.Shared(m.Out, swizzle(m.Out, m.Consumers/groups, min(2, m.Parts), m.M, m.N/m.Parts)))
	if m.PDL {
		// In this order, the next launch begins when those in front of this one have ended: what
		// it stores beside this one, it may store where they read.
		b.GridDependencyWait()
		b.GridDependencyLaunch()
	}
	few, many := m.registers()
	b.Group(0, 128, func() {
		b.SetMaxRegisters(build.N(few))
		b.Group(0, 1, func() {
			turn := b.Let("turn", 0)
			m.tiles(mine, clusters, func(_, i, j build.Value) {
				b.For("k", 0, m.turns, func(k build.Value) {
					m.copies(turn, i, j, k)
					b.Let("turn", turn.Add(1))
				})
			})
		})
	})
	consume := func(number int) {
		b.SetMaxRegisters(build.N(many))
		sums := m.sums(dtype.F32, m.M, groups)
		first, by := mine, clusters
		turn := b.Let("turn", m.turns.Mul(number))
		if m.PingPong {
			first, by = mine.Add(clusters.Mul(number)), clusters.Mul(2)
			b.Let("tiles", number)
		}
		m.tiles(first, by, func(_, i, j build.Value) {
			acc := b.AllocateRegister("acc", sums, build.Init(0))
			if m.PingPong {
				b.WaitBarrier(order, build.Expr("tiles - 1"))
			}
			b.For("k", 0, m.turns, func(k build.Value) {
				m.multiply(turn, acc, m.M, groups, 0)
				b.WgmmaWaitGroup(build.N(1))
				b.If(k.Greater(0), func() { m.release(turn.Sub(1)) })
				b.Let("turn", turn.Add(1))
			})
			if m.PingPong {
				b.ArriveBarrier(order, build.Expr("tiles"))
				b.Let("tiles", build.Expr("tiles + 2"))
			}
			b.WgmmaWaitGroup(build.N(0))
			m.release(turn.Sub(1))
			if m.PingPong {
				b.Let("turn", turn.Add(m.turns))
			}
			tile := b.Cast("tile", acc, m.sums(m.Out, m.M, groups))
			n := m.N / m.Parts
			for p := range m.Parts {
				// What stood there must have been read.
				b.CopyAsyncTensorWaitGroup(build.N(min(2, m.Parts)-1), build.Until("read"))
				b.Synchronize()
				part := b.SliceShared(fmt.Sprintf("part%d", p), out, build.Shared(m.Out, swizzle(m.Out, m.M, n)), build.Offset(number, p%2, 0, 0))
				some := tile
				if m.Parts > 1 {
					some = b.SliceRegister("some", tile, columns(m.Out, m.M, groups, n), build.Offset(0, p*n))
				}
				b.StoreShared(part, some)
				b.FenceProxyAsync()
				b.Synchronize()
				b.CopyAsyncTensorSharedToGlobal(m.gc, part, build.Offset(i, j.Add(p*n)))
				b.CopyAsyncTensorCommitGroup()
			}
		})
		b.CopyAsyncTensorWaitGroup(build.N(0))
	}
	if m.PingPong {
		for number := range 2 {
			b.Group(128+128*number, 128, func() { consume(number) })
		}
	} else {
		b.Group(128, 128*m.Consumers, func() { consume(0) })
	}
	m.end()
}
