package probe

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// barrierCases pass values from thread to thread across the barrier.
func barrierCases(op code.Op) []Case {
	switch op {
	case code.OpFenceGPU:
		return []Case{lastBlockCase(op)}
	case code.OpSpinGlobal:
		return []Case{spinCase(op)}
	case code.OpAwaitGlobal:
		return []Case{awaitCase(op)}
	case code.OpGridDepWait, code.OpGridDepLaunch:
		return []Case{aloneInStreamCase(op)}
	case code.OpPrefetchL2:
		return []Case{prefetchCase(op)}
	case code.OpCheck, code.OpAssume, code.OpCheckIndex:
		return []Case{checkCase(op)}
	case code.OpClock, code.OpGlobalTimer:
		return []Case{clockCase(op)}
	}
	rounds, partner := immediates(op.Row()), 0x9f
	if op == code.OpBarWarp {
		partner = 0x1f
		for len(rounds) < 16 {
			rounds = append(rounds, nil)
		}
	}
	const blocks = 4
	n := blocks * blockSize
	m := newMaker(op)
	m.Func().Launch.SharedBytes = 4 * blockSize
	idx, tid := m.thread(), m.TidX()
	word := func(t code.Value) code.Value { return m.Add32(m.SharedBase(), m.Mul32(t, m.Const32(4))) }
	mine, theirs := word(tid), word(m.Xor32(tid, m.Const32(int64(partner))))
	p, k := m.buffer(make([]byte, 4*n*len(rounds)))
	to := m.at(p, idx, 4)
	for r, imm := range rounds {
		m.Emit(code.OpStSharedB32, []int64{0}, mine, m.Mad32(idx, m.Const32(int64(r+3)), m.Const32(int64(r))))
		m.raw(op, imm, 0)
		m.store(m.Emit1(code.OpLdSharedB32, []int64{0}, theirs), to, 4*n*r)
		m.raw(op, imm, 0)
	}
	c := m.done("exchange through shared memory", blocks)
	c.Out = []Out{{Buf: k, Size: 4, Label: func(k int) string { return fmt.Sprintf("round %d, thread %d", k/n, k%n) }}}
	c.Want = func() [][]byte {
		vals := make([]uint64, n*len(rounds))
		for k := range vals {
			r, t := k/n, k%n
			vals[k] = uint64((t^partner)*(r+3) + r)
		}
		return [][]byte{column(code.B32, vals)}
	}
	return []Case{c}
}

// clockCase reads the clock twice with a barrier between: it must have gone on, by
// less than a second. The timer of the whole GPU may stand still in so short a time.
func clockCase(op code.Op) Case {
	const blocks = 4
	m := newMaker(op)
	idx := m.thread()
	p, k := m.buffer(make([]byte, 4*blocks*blockSize))
	read := func() code.Value {
		v := m.raw(op, nil, 0)[0]
		if op == code.OpGlobalTimer {
			v = m.Trunc32(v)
		}
		return v
	}
	least := int64(1)
	if op == code.OpGlobalTimer {
		least = 0
	}
	first := read()
	m.Emit(code.OpBarSync, []int64{0})
	passed := m.Sub32(read(), first)
	good := m.AndPred(m.SetpU32(code.GE, passed, m.Const32(least)), m.SetpU32(code.LT, passed, m.Const32(1<<30)))
	m.store(m.Emit1(code.OpSelp32, nil, m.Const32(1), m.Const32(0), good), m.at(p, idx, 4), 0)
	c := m.done("clock goes on", blocks)
	c.Out = []Out{{Buf: k, Size: 4}}
	c.Want = func() [][]byte {
		vals := make([]uint64, blocks*blockSize)
		for k := range vals {
			vals[k] = 1
		}
		return [][]byte{column(code.B32, vals)}
	}
	return c
}

// aloneInStreamCase stores after the instruction. With no other launch around, it
// has nothing to wait for and nothing to let begin.
func aloneInStreamCase(op code.Op) Case {
	const blocks = 4
	m := newMaker(op)
	idx := m.thread()
	p, k := m.buffer(make([]byte, 4*blocks*blockSize))
	m.raw(op, nil, 0)
	m.store(m.Mul32(idx, m.Const32(2654435761)), m.at(p, idx, 4), 0)
	c := m.done("alone in its stream", blocks)
	c.Out = []Out{{Buf: k, Size: 4}}
	c.Want = func() [][]byte {
		vals := make([]uint64, blocks*blockSize)
		for k := range vals {
			vals[k] = uint64(k) * 2654435761 & 0xffffffff
		}
		return [][]byte{column(code.B32, vals)}
	}
	return c
}

// lastBlockCase has every block publish its numbers and count itself; the block
// that counts last adds all numbers up. op is the fence around the counting, or
// the atomic that counts and needs none.
func lastBlockCase(op code.Op) Case {
	const blocks = 128
	m := newMaker(op)
	m.Func().Launch.SharedBytes = 16
	idx, tid := m.thread(), m.TidX()
	data, _ := m.buffer(make([]byte, 4*blocks*blockSize))
	counter, _ := m.buffer(make([]byte, 16))
	p, k := m.buffer(make([]byte, 4*blockSize))
	m.store(m.Mul32(idx, m.Const32(2654435761)), m.at(data, idx, 4), 0)
	count, by, fence := code.OpAtomGlobalAdd, m.Const32(1), func() { m.raw(op, nil, 0) }
	if op != code.OpFenceGPU {
		count, fence = op, func() {}
	}
	if op == code.OpAtomGlobalAcqRelInc {
		by = m.Const32(blocks)
	}
	fence()
	m.Emit(code.OpBarSync, []int64{0})
	m.If(m.SetpU32(code.EQ, tid, m.Const32(0)), func() []code.Value {
		n := m.raw(count, []int64{0}, 0, counter, by)[0]
		m.Emit(code.OpStSharedB32, []int64{0}, m.SharedBase(), n)
		return nil
	}, nil)
	m.Emit(code.OpBarSync, []int64{0})
	last := m.SetpU32(code.EQ, m.Emit1(code.OpLdSharedB32, []int64{0}, m.SharedBase()), m.Const32(blocks-1))
	m.If(last, func() []code.Value {
		fence()
		sum := m.For(m.Const32(0), m.Const32(blocks), m.Const32(1), 1, []code.Value{m.Const32(0)}, func(i code.Value, c []code.Value) []code.Value {
			at := m.Mad32(i, m.Const32(blockSize), tid)
			return []code.Value{m.Add32(c[0], m.load(code.B32, m.at(data, at, 4), 0))}
		})
		m.store(sum[0], m.at(p, tid, 4), 0)
		return nil
	}, nil)
	c := m.done("the last block sees what all have written", blocks)
	c.Out = []Out{{Buf: k, Size: 4}}
	c.Want = func() [][]byte {
		sums := make([]uint64, blockSize)
		for k := range uint64(blocks * blockSize) {
			sums[k%blockSize] = (sums[k%blockSize] + k*2654435761) & 0xffffffff
		}
		return [][]byte{column(code.B32, sums)}
	}
	return c
}

// controlCases run If, For and While with lanes that go different ways.
func controlCases(op code.Op) []Case {
	src := newSource(uint64(op))
	n := 16 * blockSize
	cols := make([][]uint64, 4)
	for i := range cols {
		for range n {
			cols[i] = append(cols[i], src.integer(32))
		}
	}
	m := newMaker(op)
	idx := m.thread()
	var in []code.Value
	for _, c := range cols {
		p, _ := m.buffer(column(code.B32, c))
		in = append(in, m.load(code.B32, m.at(p, idx, 4), 0))
	}
	var write func(a, b, c, d code.Value) [2]code.Value
	var meaning func(a, b, c, d uint32) [2]uint32
	con := m.Const32
	switch op {
	case code.OpIf:
		write = func(a, b, c, d code.Value) [2]code.Value {
			r := m.If(m.SetpS32(code.LT, a, b), func() []code.Value {
				x := m.If(m.SetpU32(code.LT, c, d), func() []code.Value {
					return []code.Value{m.Add32(a, c)}
				}, func() []code.Value { return []code.Value{b} })
				return []code.Value{x[0], a}
			}, func() []code.Value { return []code.Value{a, m.Xor32(b, d)} })
			return [2]code.Value{r[0], r[1]}
		}
		meaning = func(a, b, c, d uint32) [2]uint32 {
			switch {
			case int32(a) >= int32(b):
				return [2]uint32{a, b ^ d}
			case c < d:
				return [2]uint32{a + c, a}
			}
			return [2]uint32{b, a}
		}
	case code.OpFor:
		// From a small number of either sign, at most 63 below the end, in steps of 1
		// to 8; the carried values change places.
		write = func(a, b, c, d code.Value) [2]code.Value {
			start := m.Sar32(a, con(20))
			end := m.Add32(start, m.Sub32(m.And32(b, con(127)), con(64)))
			r := m.For(start, end, m.Add32(m.And32(c, con(7)), con(1)), 1, []code.Value{c, d}, func(i code.Value, v []code.Value) []code.Value {
				x := m.If(m.SetpS32(code.EQ, m.And32(m.Xor32(i, a), con(1)), con(0)), func() []code.Value {
					return []code.Value{m.Mad32(v[0], con(3), i)}
				}, func() []code.Value { return []code.Value{m.Sub32(v[0], i)} })
				return []code.Value{v[1], x[0]}
			})
			return [2]code.Value{r[0], r[1]}
		}
		meaning = func(a, b, c, d uint32) [2]uint32 {
			start := int32(a) >> 20
			end := start + int32(b&127) - 64
			v := [2]uint32{c, d}
			for i := start; i < end; i += int32(c&7) + 1 {
				x := v[0] - uint32(i)
				if (uint32(i)^a)&1 == 0 {
					x = v[0]*3 + uint32(i)
				}
				v = [2]uint32{v[1], x}
			}
			return v
		}
	case code.OpWhile:
		// Halves or triples a number until it is 1.
		write = func(a, b, c, d code.Value) [2]code.Value {
			first := m.Add32(m.And32(a, con(1023)), con(1))
			r := m.While([]code.Value{first, con(0)}, func(v []code.Value) code.Value {
				return m.SetpU32(code.NE, v[0], con(1))
			}, func(v []code.Value) []code.Value {
				x := m.If(m.SetpU32(code.EQ, m.And32(v[0], con(1)), con(0)), func() []code.Value {
					return []code.Value{m.Shr32(v[0], con(1))}
				}, func() []code.Value { return []code.Value{m.Mad32(v[0], con(3), con(1))} })
				return []code.Value{x[0], m.Add32(v[1], x[0])}
			})
			return [2]code.Value{r[0], r[1]}
		}
		meaning = func(a, b, c, d uint32) [2]uint32 {
			v := [2]uint32{a&1023 + 1, 0}
			for v[0] != 1 {
				if v[0]%2 == 0 {
					v[0] /= 2
				} else {
					v[0] = 3*v[0] + 1
				}
				v[1] += v[0]
			}
			return v
		}
	default:
		panic("probe: no cases for " + op.String())
	}
	var outs []Out
	for i, v := range write(in[0], in[1], in[2], in[3]) {
		p, k := m.buffer(make([]byte, 4*n))
		m.store(v, m.at(p, idx, 4), 0)
		outs = append(outs, Out{Buf: k, Size: 4, Label: func(k int) string {
			return fmt.Sprintf("value %d of %#08x %#08x %#08x %#08x", i, cols[0][k], cols[1][k], cols[2][k], cols[3][k])
		}})
	}
	c := m.done("lanes that go different ways", n/blockSize)
	c.Out = outs
	c.Want = func() [][]byte {
		want := [][]byte{make([]byte, 4*n), make([]byte, 4*n)}
		for k := range n {
			r := meaning(uint32(cols[0][k]), uint32(cols[1][k]), uint32(cols[2][k]), uint32(cols[3][k]))
			put(want[0], 4, k, uint64(r[0]))
			put(want[1], 4, k, uint64(r[1]))
		}
		return want
	}
	return []Case{c}
}

// prefetchCase asks for words before they are loaded: they must be the same.
func prefetchCase(op code.Op) Case {
	const n = 4 * blockSize
	m := newMaker(op)
	words := make([]uint64, n)
	for k := range words {
		words[k] = uint64(k) * 0x9e3779b1 & 0xffffffff
	}
	idx := m.thread()
	p, _ := m.buffer(column(code.B32, words))
	q, k := m.buffer(make([]byte, 4*n))
	m.raw(op, nil, 0, m.at(p, idx, 4))
	m.store(m.load(code.B32, m.at(p, idx, 4), 0), m.at(q, idx, 4), 0)
	c := m.done("load behind it", n/blockSize)
	c.Out = []Out{{Buf: k, Size: 4}}
	c.Want = func() [][]byte { return [][]byte{column(code.B32, words)} }
	return c
}
