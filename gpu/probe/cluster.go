package probe

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// This file holds the cases of barriers in shared memory, of bulk copies and of
// clusters. Several rows share a case: what one does shows only with the others.

// results collects 32-bit results of one thread.
type results struct {
	m    *maker
	vals []code.Value
	want []uint64
}

func (r *results) add(v code.Value, want uint64) {
	if r.m.Func().Type(v) == code.Pred {
		v = r.m.Select(v, r.m.Const32(1), r.m.Const32(0))
	}
	r.vals, r.want = append(r.vals, v), append(r.want, want)
}

// protocolCase takes one thread through the life of a barrier.
func protocolCase(op code.Op) Case {
	m := newMaker(op)
	m.Func().Launch.Block, m.Func().Launch.SharedBytes = 32, 64
	out, buf := m.buffer(make([]byte, 4*32))
	r := &results{m: m}
	m.first(func() {
		bar := m.SharedBase()
		do := func(op code.Op, in ...code.Value) []code.Value {
			return m.Emit(op, []int64{8}, append([]code.Value{bar}, in...)...)
		}
		n := func(v int64) code.Value { return m.Const32(v) }
		parity := func(p int64, want uint64) {
			r.add(do(code.OpMbarTestWaitParity, n(p))[0], want)
		}
		do(code.OpMbarInit, n(3))
		m.Emit(code.OpFenceMbarInit, nil)
		m.Emit(code.OpFenceCluster, nil)
		parity(0, 0)
		parity(1, 1)
		state := do(code.OpMbarArriveState)[0]
		r.add(m.Emit1(code.OpMbarPending, nil, state), 3)
		r.add(m.Emit1(code.OpMbarPending, nil, do(code.OpMbarArriveNoComplete, n(1))[0]), 2)
		r.add(do(code.OpMbarTestWait, state)[0], 0)
		do(code.OpMbarArrive)
		r.add(do(code.OpMbarTestWait, state)[0], 1)
		r.add(do(code.OpMbarTryWait, state)[0], 1)
		do(code.OpMbarWait, state)
		parity(0, 1)
		parity(1, 0)
		do(code.OpMbarArriveExpectTx, n(64))
		do(code.OpMbarArriveCount, n(2))
		parity(1, 0)
		do(code.OpMbarExpectTx, n(32))
		do(code.OpMbarCompleteTx, n(40))
		parity(1, 0)
		do(code.OpMbarCompleteTx, n(56))
		parity(1, 1)
		do(code.OpMbarWaitParity, n(1))
		do(code.OpMbarWaitParityCluster, n(1))
		do(code.OpMbarArriveDrop)
		do(code.OpMbarArriveCount, n(2))
		r.add(do(code.OpMbarTryWaitParity, n(0))[0], 1)
		state = do(code.OpMbarArriveState)[0]
		r.add(m.Emit1(code.OpMbarPending, nil, state), 2)
		do(code.OpMbarArrive)
		parity(1, 1)
		do(code.OpMbarInval)
		do(code.OpMbarInit, n(1))
		parity(0, 0)
		do(code.OpMbarArrive)
		parity(0, 1)
		for k, v := range r.vals {
			m.store(v, out, 4*k)
		}
	})
	c := m.done("one thread", 1)
	c.Out = []Out{{Buf: buf, Size: 4}}
	c.Want = func() [][]byte {
		want := make([]byte, 4*32)
		for k, v := range r.want {
			put(want, 4, k, v)
		}
		return [][]byte{want}
	}
	return c
}

// handOverCase passes words between threads over several phases; copies says by
// which row cp.async arrives, 0 for ordinary stores and arrivals.
func handOverCase(op, copies code.Op) Case {
	const threads, phases = 128, 4
	m := newMaker(op)
	m.Func().Launch.Block, m.Func().Launch.SharedBytes = threads, 16*threads*phases+16
	src := newSource(7)
	data := make([]byte, 16*threads*phases)
	for k := range data {
		data[k] = byte(src.Uint64())
	}
	from, _ := m.buffer(data)
	out, buf := m.buffer(make([]byte, len(data)))
	base, tid := m.SharedBase(), m.TidX()
	bar := []int64{int64(len(data))}
	m.first(func() {
		count := int64(threads)
		if copies == code.OpCpAsyncMbarArrive {
			count = 1 // and one for each copy
		}
		m.Emit(code.OpMbarInit, bar, base, m.Const32(count))
	})
	m.BarSync()
	m.For(m.Const32(0), m.Const32(phases), m.Const32(1), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
		at := m.Add32(m.Mul32(i, m.Const32(16*threads)), m.Shl32(tid, m.Const32(4)))
		source := m.Add64(from, m.Zext32(at))
		if copies != 0 {
			m.Emit(code.OpCpAsyncL2B128, []int64{0, 0, 0}, m.Add32(base, at), source, m.Const32(16))
			m.Emit(copies, bar, base)
			if copies == code.OpCpAsyncMbarArrive {
				m.BarSync()
				m.first(func() { m.Emit(code.OpMbarArrive, bar, base) })
			}
		} else {
			m.StSharedV(m.Add32(base, at), 0, m.LdGlobalV(4, source, 0, 0)...)
			m.Emit(code.OpMbarArrive, bar, base)
		}
		m.Emit(code.OpMbarWaitParity, bar, base, m.And32(i, m.Const32(1)))
		theirs := m.Xor32(at, m.Const32(16*0x55))
		m.StGlobalV(m.Add64(out, m.Zext32(at)), 0, 0, m.LdSharedV(4, m.Add32(base, theirs), 0)...)
		return nil
	})
	c := m.done("threads exchange", 1)
	c.Out = []Out{{Buf: buf, Size: 4}}
	c.Want = func() [][]byte {
		want := make([]byte, len(data))
		for k := 0; k < len(data); k += 16 {
			copy(want[k:k+16], data[k^16*0x55:])
		}
		return [][]byte{want}
	}
	return c
}

// placesCase reads the special registers of clusters.
func placesCase(op code.Op) Case {
	m := newMaker(op)
	m.Func().Launch.Block, m.Func().Launch.Cluster = 32, [3]int{2, 2, 1}
	grid := [3]int{6, 4, 2}
	blocks := grid[0] * grid[1] * grid[2]
	out, buf := m.buffer(make([]byte, 64*blocks))
	number := m.Mad32(m.Mad32(m.CtaidZ(), m.Const32(int64(grid[1])), m.CtaidY()), m.Const32(int64(grid[0])), m.CtaidX())
	m.first(func() {
		at := m.at(out, number, 64)
		for k := range 14 {
			m.store(m.Emit1(code.OpClusterCtaRank+code.Op(k), nil), at, 4*k)
		}
	})
	c := m.done("registers", 1)
	c.Grid = grid
	c.Out = []Out{{Buf: buf, Size: 4}}
	c.Want = func() [][]byte {
		want := make([]byte, 64*blocks)
		for n := range blocks {
			x, y, z := n%grid[0], n/grid[0]%grid[1], n/grid[0]/grid[1]
			for k, v := range []int{x%2 + 2*(y%2), 4, x / 2, y / 2, z, grid[0] / 2, grid[1] / 2, grid[2], x % 2, y % 2, 0, 2, 2, 1} {
				put(want[64*n:], 4, k, uint64(v))
			}
		}
		return [][]byte{want}
	}
	return c
}

// pair is a cluster of two blocks of 32 threads, each with room in shared memory.
func pair(op code.Op, shared int) (m *maker, base, rank, peer code.Value, meet func()) {
	m = newMaker(op)
	m.Func().Launch.Block, m.Func().Launch.Cluster, m.Func().Launch.SharedBytes = 32, [3]int{2, 1, 1}, shared
	base, rank = m.SharedBase(), m.Emit1(code.OpClusterCtaRank, nil)
	peer = m.Emit1(code.OpMapa, nil, base, m.Xor32(rank, m.Const32(1)))
	return m, base, rank, peer, func() {
		m.Emit(code.OpClusterArrive, nil)
		m.Emit(code.OpClusterWait, nil)
	}
}

// windowCase stores into the other block, works on its words, and reads them back.
func windowCase(op code.Op) Case {
	const size = 32*32 + 64
	m, base, rank, peer, meet := pair(op, size)
	out, buf := m.buffer(make([]byte, 2*(size+32*48)))
	lane := m.LaneID()
	mine := m.Mul32(lane, m.Const32(32))
	word := func(k int64) code.Value { // rank, lane and place
		return m.Add32(m.Add32(m.Mul32(rank, m.Const32(1<<16)), m.Shl32(lane, m.Const32(8))), m.Const32(k))
	}
	wide := func(k int64) code.Value { return m.Pack32(word(k), word(k+1)) }
	m.StSharedV(m.Add32(base, mine), 0, m.Const32(0), m.Const32(0), m.Const32(0), m.Const32(0))
	m.StSharedV(m.Add32(base, mine), 16, m.Const32(0), m.Const32(0), m.Const32(0), m.Const32(0))
	m.If(m.SetpU32(code.LT, lane, m.Const32(4)), func() []code.Value {
		m.StSharedV(m.Add32(base, m.Shl32(lane, m.Const32(4))), 32*32, m.Const32(1000), m.Const32(0x40000000), m.Const32(-5), m.Const32(77))
		return nil
	}, nil)
	meet()
	there := m.Add32(peer, mine)
	m.Emit(code.OpStClusterB32, []int64{0}, there, word(1))
	m.Emit(code.OpStClusterB64, []int64{8}, there, wide(2))
	m.Emit(code.OpStClusterV2B32, []int64{16}, there, word(4), word(5))
	m.Emit(code.OpStClusterB32, []int64{24}, there, word(6))
	words := []int64{32 * 32}
	off := func(n int64) []int64 { return []int64{32*32 + n} }
	m.Emit(code.OpRedClusterAdd, words, peer, lane)
	m.Emit(code.OpRedClusterAddF32, off(4), peer, m.Const32(0x3f800000))
	m.Emit(code.OpRedClusterMinS32, off(8), peer, m.Sub32(m.Const32(0), lane))
	m.Emit(code.OpRedClusterMaxS32, off(12), peer, m.Mul32(lane, m.Const32(5)))
	added := m.Emit1(code.OpAtomClusterAdd, off(16), peer, m.Const32(3))
	m.first(func() {
		m.Emit(code.OpAtomClusterExch, off(32), peer, m.Const32(99))
		m.Emit(code.OpAtomClusterCas, off(44), peer, m.Const32(77), m.Const32(78))
	})
	meet()
	at := m.Add64(out, m.MulWideU(rank, m.Const32(size+32*48)))
	from := m.Add64(at, m.Zext32(m.Add32(m.Mul32(lane, m.Const32(48)), m.Const32(size))))
	back := m.Emit(code.OpLdClusterV4B32, []int64{0}, there)
	m.StGlobalV(from, 0, 0, back...)
	m.StGlobalV(from, 16, 0, m.Emit(code.OpLdClusterV2B32, []int64{16}, there)...)
	m.store(m.Emit1(code.OpLdClusterB64, []int64{8}, there), from, 24)
	m.store(m.Emit1(code.OpLdClusterB32, []int64{24}, there), from, 32)
	_ = added // the order of lanes is open: the sum shows in memory
	m.dump(out, size)
	meet()
	c := m.done("two blocks", 2)
	// dump goes to size·block, so the second block's part is moved by what lanes read.
	c.Out = []Out{{Buf: buf, Size: 4}}
	c.Want = func() [][]byte {
		want := make([]byte, 2*(size+32*48))
		picture := func(b int) []byte { // of block b, written by the other
			p := make([]byte, size)
			for l := range 32 {
				w := func(k int) uint64 { return uint64((1-b)<<16 + l<<8 + k) }
				for k, v := range []uint64{w(1), 0, w(2), w(3), w(4), w(5), w(6), 0} {
					put(p[32*l:], 4, k, v)
				}
			}
			for q := range 4 {
				for k, v := range []uint64{1000, 0x40000000, 0xfffffffb, 77} {
					put(p[1024+16*q:], 4, k, v)
				}
			}
			put(p[1024:], 4, 0, 1000+31*16)
			put(p[1024:], 4, 1, 0x42080000) // 2 + 32
			put(p[1024:], 4, 2, uint64(uint32(0xffffffe1)))
			put(p[1024:], 4, 3, 155)
			put(p[1024:], 4, 4, 1000+96)
			put(p[1024:], 4, 8, 99)
			put(p[1024:], 4, 11, 78)
			return p
		}
		for b := range 2 {
			other := picture(1 - b)
			for l := range 32 {
				to := want[b*(size+32*48)+size+48*l:]
				copy(to[:16], other[32*l:])
				copy(to[16:24], other[32*l+16:])
				copy(to[24:32], other[32*l+8:])
				copy(to[32:36], other[32*l+24:])
			}
		}
		for b := range 2 {
			copy(want[b*size:], picture(b))
		}
		return [][]byte{want}
	}
	return c
}

// remoteCase counts at the other block's barrier: arrivals, bytes of stores, sums and
// copies that land there.
func remoteCase(op code.Op) Case {
	const size, bars = 4096, 4096
	m, base, rank, peer, meet := pair(op, size+64)
	src := newSource(9)
	data := make([]byte, 1024)
	for k := range data {
		data[k] = byte(src.Uint64())
	}
	from, _ := m.buffer(data)
	out, buf := m.buffer(make([]byte, 2*size))
	copied, buf2 := m.buffer(make([]byte, 1024))
	lane := m.LaneID()
	m.fill(0, size)
	m.StSharedV(m.Add32(base, m.Shl32(lane, m.Const32(4))), 2048, lane, lane, lane, rank)
	m.first(func() {
		m.Emit(code.OpMbarInit, []int64{bars}, base, m.Const32(6))
		m.Emit(code.OpMbarInit, []int64{bars + 8}, base, m.Const32(1))
		m.Emit(code.OpFenceMbarInit, nil)
	})
	m.Emit(code.OpFenceProxyAsyncCluster, nil)
	m.Emit(code.OpFenceProxyAsyncGlobal, nil)
	meet()
	n := m.Const32
	// Phase 0 of the other block's first barrier: 6 arrivals, of which the owner makes
	// one and the other block five, and 128 + 256 + 512 + 128 + 512 bytes.
	m.first(func() {
		m.Emit(code.OpMbarArriveExpectTx, []int64{bars}, base, n(128))
		m.Emit(code.OpMbarArriveExpectTxCluster, []int64{bars}, peer, n(256+512))
		m.Emit(code.OpMbarArriveCluster, []int64{bars}, peer)
		m.Emit(code.OpMbarArriveCountCluster, []int64{bars}, peer, n(3))
		m.Emit(code.OpMbarExpectTxCluster, []int64{bars}, peer, n(128+512+16))
		m.Emit(code.OpMbarCompleteTxCluster, []int64{bars}, peer, n(16))
		m.Emit(code.OpBulkToCluster, []int64{1024, 2048, bars}, peer, base, n(512), peer)
	})
	m.Emit(code.OpStAsyncB32, []int64{0, bars}, m.Add32(peer, m.Shl32(lane, n(2))), peer, m.Add32(lane, rank))
	m.Emit(code.OpStAsyncB64, []int64{128, bars}, m.Add32(peer, m.Shl32(lane, n(3))), peer, m.Pack32(lane, rank))
	m.Emit(code.OpStAsyncV4B32, []int64{512, bars}, m.Add32(peer, m.Shl32(lane, n(4))), peer, lane, rank, lane, n(3))
	m.Emit(code.OpRedAsyncAdd, []int64{3072, bars}, m.Add32(peer, m.Shl32(m.And32(lane, n(3)), n(2))), lane, peer)
	m.Emit(code.OpMbarWaitParityCluster, []int64{bars}, base, n(0))
	// Phase 0 of the second barrier: bulk loads, one to itself and one to both.
	m.first(func() {
		m.Emit(code.OpMbarArriveExpectTx, []int64{bars + 8}, base, n(256+128+64+32))
		m.Emit(code.OpBulkPrefetch, []int64{0}, from, n(512))
		m.Emit(code.OpBulkLoad, []int64{1536, 16, bars + 8}, base, from, n(256), base)
		m.Emit(code.OpBulkLoadHint, []int64{1792, 512, bars + 8}, base, from, n(128), base, m.Emit1(code.OpPolicyEvictLast, nil))
	})
	meet()
	m.If(m.SetpU32(code.EQ, rank, n(1)), func() []code.Value {
		m.first(func() {
			m.Emit(code.OpBulkLoadMulticast, []int64{1920, 640, bars + 8}, base, from, n(64), base, m.Const(code.B16, 3))
			m.Emit(code.OpBulkLoadMulticastHint, []int64{1984, 720, bars + 8}, base, from, n(32), base, m.Const(code.B16, 3), m.Emit1(code.OpPolicyEvictFirst, nil))
		})
		return nil
	}, nil)
	m.Emit(code.OpMbarWaitParity, []int64{bars + 8}, base, n(0))
	m.dump(out, size)
	m.first(func() {
		to := m.Add64(copied, m.MulWideU(rank, n(512)))
		m.Emit(code.OpBulkStore, []int64{0, 1536}, to, base, n(256))
		m.Emit(code.OpBulkStoreHint, []int64{256, 1792}, to, base, n(128), m.Emit1(code.OpPolicyEvictNormal, nil))
		m.Emit(code.OpBulkCommit, nil)
		m.Emit(code.OpBulkWaitRead, []int64{0})
		m.Emit(code.OpBulkWait, []int64{0})
	})
	meet()
	c := m.done("two blocks", 2)
	c.Out = []Out{{Buf: buf, Size: 4, Label: func(k int) string { return fmt.Sprintf("block %d byte %d", 4*k/size, 4*k%size) }}, {Buf: buf2, Size: 4}}
	c.Want = func() [][]byte {
		want := make([]byte, 2*size)
		stored := make([]byte, 1024)
		for b := range 2 {
			w := want[b*size:][:size]
			for k := range w {
				w[k] = pristine & 255
			}
			other := uint64(1 - b)
			for l := range 32 {
				put(w, 4, l, uint64(l)+other)
				put(w[128:], 4, 2*l, uint64(l))
				put(w[128:], 4, 2*l+1, other)
				for k, v := range []uint64{uint64(l), other, uint64(l), 3} {
					put(w[512+16*l:], 4, k, v)
				}
				for k, v := range []uint64{uint64(l), uint64(l), uint64(l), uint64(b)} {
					put(w[2048+16*l:], 4, k, v)
				}
				for k, v := range []uint64{uint64(l), uint64(l), uint64(l), other} {
					put(w[1024+16*l:], 4, k, v)
				}
			}
			for k := range 4 {
				sum := uint64(pristine)
				for l := k; l < 32; l += 4 {
					sum += uint64(l)
				}
				put(w[3072:], 4, k, sum&0xffffffff)
			}
			copy(w[1536:1792], data[16:])
			copy(w[1792:1920], data[512:])
			copy(w[1920:1984], data[640:])
			copy(w[1984:2016], data[720:])
			copy(stored[512*b:], w[1536:1920])
		}
		return [][]byte{want, stored}
	}
	return c
}

// groupsCase has warps that come to a barrier and do not wait, and registers that
// move between warpgroups.
func groupsCase(op code.Op) Case {
	const threads = 256
	m := newMaker(op)
	m.Func().Launch.Block, m.Func().Launch.SharedBytes, m.Func().Launch.MaxReg = threads, 4*threads, 64
	out, buf := m.buffer(make([]byte, 8*threads))
	base, tid := m.SharedBase(), m.TidX()
	mine := m.Add32(base, m.Shl32(tid, m.Const32(2)))
	at := m.at(out, tid, 8)
	elected := m.Emit1(code.OpElectSync, nil)
	m.store(elected, at, 0)
	m.If(m.SetpU32(code.LT, tid, m.Const32(128)), func() []code.Value {
		m.Emit(code.OpSetMaxRegDec, []int64{40})
		m.StShared(4, mine, 0, m.Mul32(tid, m.Const32(3)))
		m.Emit(code.OpBarArrive, []int64{2, threads})
		return nil
	}, func() []code.Value {
		m.Emit(code.OpSetMaxRegInc, []int64{80})
		m.Emit(code.OpBarGroup, []int64{2, threads})
		m.store(m.LdShared(4, m.Add32(base, m.Xor32(m.Sub32(mine, base), m.Const32(4*(128+1)))), 0), at, 4)
		return nil
	})
	c := m.done("two warpgroups", 1)
	c.Out = []Out{{Buf: buf, Size: 4}}
	c.Want = func() [][]byte {
		want := make([]byte, 8*threads)
		for t := range threads {
			if t%32 == 0 {
				put(want, 4, 2*t, 1)
			}
			if t >= 128 {
				put(want, 4, 2*t+1, uint64(3*(t^129)))
			}
		}
		return [][]byte{want}
	}
	return c
}
