package probe

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// update is the meaning of the atomic rows: what stands at the address after.
func update(op code.Op, old, b, c uint64) uint64 {
	switch op {
	case code.OpAtomGlobalAnd, code.OpRedGlobalAnd, code.OpAtomSharedAnd:
		return old & b
	case code.OpAtomGlobalOr, code.OpRedGlobalOr, code.OpAtomSharedOr:
		return old | b
	case code.OpAtomGlobalXor, code.OpAtomSharedXor:
		return old ^ b
	case code.OpAtomGlobalMinS32, code.OpAtomSharedMinS32:
		return uint64(uint32(min(int32(uint32(old)), int32(uint32(b)))))
	case code.OpAtomGlobalMaxS32, code.OpAtomSharedMaxS32:
		return uint64(uint32(max(int32(uint32(old)), int32(uint32(b)))))
	case code.OpAtomGlobalMinU32, code.OpAtomSharedMinU32:
		return min(old, b)
	case code.OpAtomGlobalMaxU32, code.OpAtomSharedMaxU32:
		return max(old, b)
	case code.OpAtomSharedAddF32:
		return dtype.Add(dtype.F32, old, b)
	case code.OpAtomGlobalAdd, code.OpAtomGlobalAcqRelAdd, code.OpRedGlobalAdd, code.OpAtomSharedAdd:
		return (old + b) & 0xffffffff
	case code.OpAtomGlobalInc, code.OpAtomGlobalAcqRelInc:
		if old >= b {
			return 0
		}
		return old + 1
	case code.OpAtomGlobalExch, code.OpAtomGlobalAcqRelExch, code.OpAtomSharedExch:
		return b
	case code.OpAtomGlobalCas, code.OpAtomSharedCas:
		if old == b {
			return c
		}
		return old
	case code.OpAtomGlobalAddF32, code.OpRedGlobalAddF32:
		return flush(dtype.Add(dtype.F32, flush(old), flush(b)))
	case code.OpRedGlobalAddF32V2, code.OpRedGlobalAddF32V4:
		return update(code.OpRedGlobalAddF32, old, b, c)
	case code.OpRedGlobalAddF16x2, code.OpRedGlobalAddF16x2V2, code.OpRedGlobalAddF16x2V4:
		return addHalves(dtype.F16, old, b)
	case code.OpRedGlobalAddBF16x2, code.OpRedGlobalAddBF16x2V2, code.OpRedGlobalAddBF16x2V4:
		return addHalves(dtype.BF16, old, b)
	}
	panic("probe: no meaning for " + op.String())
}

// addHalves adds two floats of 16 bits each.
func addHalves(t dtype.Type, a, b uint64) uint64 {
	return dtype.Add(t, a>>16&0xffff, b>>16&0xffff)<<16 | dtype.Add(t, a&0xffff, b&0xffff)
}

// flush makes a subnormal f32 a zero of its sign.
func flush(v uint64) uint64 {
	if v>>23&0xff == 0 {
		v &= 1 << 31
	}
	return v
}

// atomicCases try the row with an address for each thread, where old and new
// values are known, and with one address for all threads, where the values are
// chosen so that what comes out does not depend on the order.
func atomicCases(op code.Op, o Options) []Case {
	if op.Row().Count > 1 {
		return []Case{wideCase(op, o)}
	}
	meet := togetherCase
	if op == code.OpAtomGlobalExch || op == code.OpAtomGlobalAcqRelExch {
		meet = exchangeCase
	}
	cases := []Case{aloneCase(op, o, false), aloneCase(op, o, true)}
	if op != code.OpAtomSharedExch { // what comes last is not known
		cases = append(cases, meet(op))
	}
	if op == code.OpAtomGlobalAcqRelAdd || op == code.OpAtomGlobalAcqRelInc {
		cases = append(cases, lastBlockCase(op))
	}
	return cases
}

// memory makes the words that atomics of a case work on: in global memory the
// buffer itself; in shared memory a copy, which finish writes back. at is the
// address of word index, of the block's own index in shared memory.
func (m *maker) memory(space code.Space, words []byte, block int) (at func(global, local code.Value) code.Value, finish func(global, local code.Value), buf int) {
	p, buf := m.buffer(words)
	if space == code.Global {
		return func(g, _ code.Value) code.Value { return m.at(p, g, 4) }, func(_, _ code.Value) {}, buf
	}
	m.Func().Launch.SharedBytes = 4 * block
	at = func(_, l code.Value) code.Value { return m.Add32(m.SharedBase(), m.Mul32(l, m.Const32(4))) }
	g, l := m.thread(), m.TidX()
	m.Emit(code.OpStSharedB32, []int64{0}, at(g, l), m.load(code.B32, m.at(p, g, 4), 0))
	m.Emit(code.OpBarSync, []int64{0})
	return at, func(g, l code.Value) {
		m.Emit(code.OpBarSync, []int64{0})
		m.store(m.Emit1(code.OpLdSharedB32, []int64{0}, at(g, l)), m.at(p, g, 4), 0)
	}, buf
}

func aloneCase(op code.Op, o Options, guarded bool) Case {
	row := op.Row()
	src := newSource(uint64(op))
	types := []code.Type{code.B32, code.B32, code.B32}[:len(row.In)]
	cols := src.operands(types, min(o.cross(), 1<<14), min(o.random(), 4096), false)
	n := len(cols[0])
	if op == code.OpAtomGlobalCas || op == code.OpAtomSharedCas { // half of them find what they look for
		for k := range n / 2 {
			cols[1][2*k] = cols[0][2*k]
		}
	}
	m := newMaker(op)
	idx, tid := m.thread(), m.TidX()
	on, guard := m.guards(src, n, idx)
	var in []code.Value
	for i := 1; i < len(cols); i++ {
		p, _ := m.buffer(column(code.B32, cols[i]))
		in = append(in, m.load(code.B32, m.at(p, idx, 4), 0))
	}
	at, finish, words := m.memory(row.Space, column(code.B32, cols[0]), blockSize)
	offset := int64(0)
	addr := at(idx, tid)
	name := "an address for each thread"
	g := code.Value(0)
	if guarded {
		offset, g, name = -64, guard, name+", guarded, with an offset"
		bias := m.biases([]access{{offset: offset}}, addrType(row))
		addr = m.add(addrType(row), addr, bias(0))
	}
	args := append([]code.Value{addr}, in...)
	if guarded && len(row.Out) > 0 {
		args = append(args, idx)
	}
	res := m.raw(op, []int64{offset}, g, args...)
	finish(idx, tid)
	label := func(k int) string {
		s := fmt.Sprintf("at the address %#08x", cols[0][k])
		for _, c := range cols[1:] {
			s += fmt.Sprintf(", operand %#08x", c[k])
		}
		return s
	}
	outs := []Out{{Buf: words, Size: 4, Label: func(k int) string { return label(k) + ", afterwards" }}}
	if len(res) > 0 {
		p, k := m.buffer(make([]byte, 4*n))
		m.store(res[0], m.at(p, idx, 4), 0)
		outs = append(outs, Out{Buf: k, Size: 4, Label: func(k int) string { return label(k) + ", result" }})
	}
	c := m.done(name, n/blockSize)
	c.Out = outs
	c.Want = func() [][]byte {
		after, result := make([]byte, 4*n), make([]byte, 4*n)
		for k := range n {
			old, third := cols[0][k], uint64(0)
			if len(cols) > 2 {
				third = cols[2][k]
			}
			to, back := update(op, old, cols[1][k], third), old
			if guarded && on[k] == 0 {
				to, back = old, uint64(k)
			}
			put(after, 4, k, to)
			put(result, 4, k, back)
		}
		return [][]byte{after, result}[:len(outs)]
	}
	return c
}

// wideCase gives each thread the words that one instruction combines.
func wideCase(op code.Op, o Options) Case {
	row := op.Row()
	src := newSource(uint64(op))
	words := row.Count
	types := make([]code.Type, 2)
	for i := range types {
		types[i] = code.B32
	}
	cols := src.operands(types, min(o.cross(), 1<<14), min(o.random(), 4096), false)
	for len(cols[0]) < words*blockSize {
		cols[0], cols[1] = append(cols[0], cols[0]...), append(cols[1], cols[1]...)
	}
	threads := len(cols[0]) / (words * blockSize) * blockSize
	n := threads * words
	cols[0], cols[1] = cols[0][:n], cols[1][:n]
	m := newMaker(op)
	idx := m.thread()
	base := m.Mul32(idx, m.Const32(int64(words)))
	p, _ := m.buffer(column(code.B32, cols[1]))
	q, buf := m.buffer(column(code.B32, cols[0]))
	args := []code.Value{m.at(q, base, 4)}
	for k := range words {
		args = append(args, m.load(code.B32, m.at(p, m.Add32(base, m.Const32(int64(k))), 4), 0))
	}
	m.raw(op, []int64{0}, 0, args...)
	c := m.done("words for each thread", threads/blockSize)
	c.Out = []Out{{Buf: buf, Size: 4, Label: func(k int) string {
		return fmt.Sprintf("at the address %#08x, operand %#08x, afterwards", cols[0][k], cols[1][k])
	}}}
	c.Want = func() [][]byte {
		after := make([]byte, 4*n)
		for k := range n {
			put(after, 4, k, update(op, cols[0][k], cols[1][k], 0))
		}
		return [][]byte{after}
	}
	return c
}

func addrType(row *code.Row) code.Type {
	if row.Space == code.Shared {
		return code.B32
	}
	return code.B64
}

const together = "one address for all threads"

// togetherCase lets all threads of a grid (of a block, for shared memory) meet at
// one word.
func togetherCase(op code.Op) Case {
	row := op.Row()
	blocks := 16
	if row.Space == code.Shared {
		blocks = 1
	}
	n := blocks * blockSize
	// What stands in the word first, what each thread brings, and, where it does not
	// depend on the order, the results of all threads together.
	start, value, third := uint64(0), func(k int) uint64 { return 1 }, uint64(0)
	results := func() []uint64 { return nil }
	float := func(v float64) uint64 { return dtype.F32.Encode(v, false) }
	switch op {
	case code.OpAtomGlobalAnd, code.OpRedGlobalAnd, code.OpAtomSharedAnd:
		start, value = 0xffffffff, func(k int) uint64 { return 0xffffffff &^ (1 << (k * 7 % 29)) }
	case code.OpAtomGlobalOr, code.OpRedGlobalOr, code.OpAtomSharedOr:
		value = func(k int) uint64 { return 1 << (k * 7 % 29) }
	case code.OpAtomGlobalXor, code.OpAtomSharedXor, code.OpAtomGlobalMinS32, code.OpAtomGlobalMaxS32, code.OpAtomGlobalMinU32, code.OpAtomGlobalMaxU32,
		code.OpAtomSharedMinS32, code.OpAtomSharedMaxS32, code.OpAtomSharedMinU32, code.OpAtomSharedMaxU32:
		value = func(k int) uint64 { return uint64(k) * 0x9e3779b1 & 0xffffffff }
	case code.OpAtomGlobalInc, code.OpAtomGlobalAcqRelInc:
		value = func(int) uint64 { return uint64(n) - 1 } // all counts, and 0 again
		results = func() (r []uint64) {
			for k := range n {
				r = append(r, uint64(k))
			}
			return r
		}
	case code.OpAtomGlobalAdd, code.OpAtomGlobalAcqRelAdd, code.OpAtomSharedAdd:
		start = 0xfffffff0
		results = func() (r []uint64) {
			for k := range n {
				r = append(r, (start+uint64(k))&0xffffffff)
			}
			return r
		}
	case code.OpRedGlobalAdd:
		value = func(k int) uint64 { return uint64(k) * 0x9e3779b1 & 0xffffffff }
	case code.OpAtomGlobalCas, code.OpAtomSharedCas:
		value, third = func(int) uint64 { return 0 }, 7
		results = func() []uint64 {
			r := make([]uint64, n)
			for k := range r {
				r[k] = third
			}
			r[0] = 0
			return r
		}
	case code.OpAtomGlobalAddF32, code.OpRedGlobalAddF32, code.OpAtomSharedAddF32:
		value = func(k int) uint64 { return float(float64(k%513 - 200)) }
	case code.OpRedGlobalAddF16x2: // 1 and -1, not so many that a sum is rounded
		value = func(k int) uint64 { return [64]uint64{0: 0xbc003c00}[k%64] }
	case code.OpRedGlobalAddBF16x2:
		value = func(k int) uint64 { return [64]uint64{0: 0xbf803f80}[k%64] }
	}
	vals := make([]uint64, n)
	for k := range vals {
		vals[k] = value(k)
	}
	m := newMaker(op)
	idx, tid := m.thread(), m.TidX()
	p, _ := m.buffer(column(code.B32, vals))
	v := m.load(code.B32, m.at(p, idx, 4), 0)
	words := make([]uint64, blockSize) // shared memory is copied by whole blocks
	words[0] = start
	at, finish, word := m.memory(row.Space, column(code.B32, words), blockSize)
	args := []code.Value{at(m.Const32(0), m.Const32(0)), v}
	if len(row.In) > 2 {
		args = append(args, m.Const32(int64(third)))
	}
	res := m.raw(op, []int64{0}, 0, args...)
	finish(idx, tid)
	outs := []Out{{Buf: word, Size: 4}}
	if len(res) > 0 {
		q, k := m.buffer(make([]byte, 4*n))
		m.store(res[0], m.at(q, idx, 4), 0)
		if results() != nil {
			outs = append(outs, Out{Buf: k, Size: 4, Sorted: true})
		}
	}
	c := m.done(together, blocks)
	c.Out = outs
	c.Want = func() [][]byte {
		w := append([]uint64(nil), words...)
		for k := range n {
			w[0] = update(op, w[0], vals[k], third)
		}
		return [][]byte{column(code.B32, w), column(code.B32, results())}[:len(outs)]
	}
	return c
}

// exchangeCase lets every thread of a block exchange its number for the word;
// after all have, one takes out what is left. The results together are the start
// and all numbers.
func exchangeCase(op code.Op) Case {
	const start, threads = 0xffffffff, 1024
	m := newMaker(op)
	m.Func().Launch.Block = threads
	idx := m.TidX()
	w, _ := m.buffer(column(code.B32, []uint64{start}))
	q, k := m.buffer(make([]byte, 4*(threads+1)))
	m.store(m.raw(op, []int64{0}, 0, w, idx)[0], m.at(q, idx, 4), 0)
	m.Emit(code.OpBarSync, []int64{0})
	m.If(m.SetpU32(code.EQ, idx, m.Const32(0)), func() []code.Value {
		m.store(m.raw(op, []int64{0}, 0, w, m.Const32(0))[0], q, 4*threads)
		return nil
	}, nil)
	c := m.done(together, 1)
	c.Out = []Out{{Buf: k, Size: 4, Sorted: true}}
	c.Want = func() [][]byte {
		vals := []uint64{start}
		for k := range uint64(threads) {
			vals = append(vals, k)
		}
		return [][]byte{column(code.B32, vals)}
	}
	return c
}

// spinCase hands a turn from block to block: each waits for its number, and lets the
// next one go.
func spinCase(op code.Op) Case {
	const blocks = 8
	m := newMaker(op)
	w, _ := m.buffer(column(code.B32, []uint64{0}))
	sum, _ := m.buffer(make([]byte, 4))
	q, k := m.buffer(make([]byte, 4*blocks))
	m.If(m.SetpU32(code.EQ, m.TidX(), m.Const32(0)), func() []code.Value {
		turn := m.CtaidX()
		m.raw(op, []int64{0}, 0, w, turn)
		v := m.Add32(m.load(code.B32, sum, 0), m.Const32(5))
		m.store(v, sum, 0)
		m.store(v, m.at(q, turn, 4), 0)
		m.Emit(code.OpAtomGlobalAcqRelExch, []int64{0}, w, m.Add32(turn, m.Const32(1)))
		return nil
	}, nil)
	c := m.done("blocks in turn", blocks)
	c.Out = []Out{{Buf: k, Size: 4}}
	c.Want = func() [][]byte {
		var vals []uint64
		for k := range uint64(blocks) {
			vals = append(vals, 5*k+5)
		}
		return [][]byte{column(code.B32, vals)}
	}
	return c
}

// awaitCase hands a number from block to block: each thread loads the word of the block before until it is there, empties its place, and
// stores its own for the next one.
func awaitCase(op code.Op) Case {
	const blocks, before = 8, -4 * blockSize
	m := newMaker(op)
	idx, zero := m.thread(), m.Const32(0)
	words, left := m.buffer(make([]byte, 4*blocks*blockSize))
	q, k := m.buffer(make([]byte, 4*blocks*blockSize))
	at := m.at(words, idx, 4)
	found := m.If(m.SetpU32(code.GT, m.CtaidX(), zero), func() []code.Value {
		absent := func(v code.Value) code.Value { return m.SetpU32(code.EQ, v, zero) }
		v := m.While([]code.Value{zero}, func(v []code.Value) code.Value { return absent(v[0]) }, func(v []code.Value) []code.Value {
			m.raw(op, []int64{before}, 0, at, absent(v[0]))
			return m.Emit(code.OpLdRelaxedGlobalB32, []int64{before}, at)
		})
		m.Emit(code.OpStRelaxedGlobalB32, []int64{before}, at, zero)
		return v
	}, func() []code.Value { return []code.Value{m.Const32(1)} })
	v := m.Mad32(found[0], m.Const32(6), m.Const32(1)) // odd
	m.Emit(code.OpStRelaxedGlobalB32, []int64{0}, at, v)
	m.store(v, m.at(q, idx, 4), 0)
	c := m.done("words that say that they are there", blocks)
	label := func(k int) string { return fmt.Sprintf("block %d, thread %d", k/blockSize, k%blockSize) }
	c.Out = []Out{{Buf: k, Size: 4, Label: label}, {Buf: left, Size: 4, Label: label}}
	c.Want = func() [][]byte {
		vals, rest := make([]uint64, blocks*blockSize), make([]uint64, blocks*blockSize)
		found := uint64(1)
		for b := range blocks {
			found = (found*6 + 1) & 0xffffffff
			for t := range blockSize {
				vals[b*blockSize+t] = found
				if b == blocks-1 {
					rest[b*blockSize+t] = found
				}
			}
		}
		return [][]byte{column(code.B32, vals), column(code.B32, rest)}
	}
	return c
}
