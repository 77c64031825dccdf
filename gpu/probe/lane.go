package probe

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// blockSize is the number of threads of a block of the generated functions.
const blockSize = 256

// variants is the most variants of a row in one function.
const variants = 32

// Cases are the cases of one row.
func Cases(op code.Op, o Options) []Case {
	row := op.Row()
	switch {
	case op.Proxied():
		return proxyCases(op)
	case op == code.OpSharedBase || row.Class == code.Special:
		return specialCases(op)
	case len(row.In) == 0 && row.Class == code.Pure:
		return constCases(op)
	case row.Class == code.Pure, row.Class == code.Warp:
		return laneCases(op, o)
	case row.Class == code.Matrix:
		return matrixCases(op, o)
	case row.Collective:
		return matrixCopyCases(op)
	case row.Class == code.Atomic:
		return atomicCases(op, o)
	case row.Memory() && row.Space == code.Global:
		return globalCases(op)
	case row.Memory():
		return sharedCases(op)
	case row.Class == code.Async:
		return []Case{copyCase(op, "waited for one by one")}
	case op == code.OpCpAsyncCommit, op == code.OpCpAsyncWait, op == code.OpCpAsyncWaitAll:
		return []Case{copyCase(code.OpCpAsyncB32, op.String()), copyCase(code.OpCpAsyncL2B128, op.String())}
	case row.Class == code.Barrier:
		return barrierCases(op)
	}
	return controlCases(op)
}

// maker writes one function.
type maker struct {
	*code.Builder
	op   code.Op
	bufs [][]byte
}

func newMaker(op code.Op) *maker {
	name := "probe_" + strings.NewReplacer(".", "_", ":", "_").Replace(op.String())
	m := &maker{Builder: code.NewBuilder(name), op: op}
	m.At(diag.Pos{File: "probe", Line: 1, Col: 1})
	m.Func().Launch.Block = blockSize
	return m
}

// buffer adds a pointer parameter with its contents.
func (m *maker) buffer(data []byte) (code.Value, int) {
	m.bufs = append(m.bufs, data)
	return m.Pointer(fmt.Sprintf("p%d", len(m.bufs)-1), "u8"), len(m.bufs) - 1
}

// raw adds an instruction as it is, without the builder's folding.
func (m *maker) raw(op code.Op, imm []int64, guard code.Value, in ...code.Value) []code.Value {
	i := &code.Instr{Op: op, In: in, Imm: imm, Guard: guard}
	for _, t := range op.Row().Out {
		i.Out = append(i.Out, m.Func().NewValue(t))
	}
	m.Add(i)
	return i.Out
}

// thread is the number of the thread in the grid.
func (m *maker) thread() code.Value {
	return m.Mad32(m.CtaidX(), m.Const32(int64(m.Func().Launch.Block)), m.TidX())
}

// at is the address of element index, of size bytes, of the buffer at p.
func (m *maker) at(p, index code.Value, size int) code.Value {
	return m.Add64(p, m.MulWideU(index, m.Const32(int64(size))))
}

// bytesOf is the size of a value of type t in a buffer.
func bytesOf(t code.Type) int {
	if t == code.Pred {
		return 4
	}
	return t.Bits() / 8
}

// load reads a value of type t at an address with an offset.
func (m *maker) load(t code.Type, addr code.Value, offset int) code.Value {
	imm := []int64{int64(offset), 0}
	switch t {
	case code.Pred:
		return m.SetpU32(code.NE, m.Emit1(code.OpLdGlobalB32, imm, addr), m.Const32(0))
	case code.B16:
		return m.Emit1(code.OpLdGlobalB16, imm, addr)
	case code.B32:
		return m.Emit1(code.OpLdGlobalB32, imm, addr)
	}
	return m.Emit1(code.OpLdGlobalB64, imm, addr)
}

// store writes v at an address with an offset.
func (m *maker) store(v, addr code.Value, offset int) {
	imm := []int64{int64(offset), 0}
	switch m.Func().Type(v) {
	case code.Pred:
		m.Emit(code.OpStGlobalB32, imm, addr, m.Select(v, m.Const32(1), m.Const32(0)))
	case code.B16:
		m.Emit(code.OpStGlobalB16, imm, addr, v)
	case code.B32:
		m.Emit(code.OpStGlobalB32, imm, addr, v)
	default:
		m.Emit(code.OpStGlobalB64, imm, addr, v)
	}
}

// column is operands as a buffer.
func column(t code.Type, vals []uint64) []byte {
	b := make([]byte, len(vals)*bytesOf(t))
	for k, v := range vals {
		put(b, bytesOf(t), k, v)
	}
	return b
}

// done finishes the function as a case of blocks blocks. A mistake in it is ours.
func (m *maker) done(name string, blocks int) Case {
	f, err := m.Done()
	if err != nil {
		panic(fmt.Sprintf("probe: %s: %v", m.op, err))
	}
	return Case{Op: m.op, Name: name, Func: f, Grid: [3]int{blocks, 1, 1}, Bufs: m.bufs}
}

// variant is one way to write the row: with these immediates, and with a constant
// for one input (-1: none).
type variant struct {
	imm   []int64
	input int
	bits  uint64
}

func (v variant) String() string {
	s := ""
	if len(v.imm) > 0 {
		s = fmt.Sprint(v.imm)
	}
	if v.input >= 0 {
		s += fmt.Sprintf(" constant %d = %#x", v.input, v.bits)
	}
	return strings.TrimSpace(s)
}

// laneCases are the cases of rows whose result depends on the operands of the
// lane, or of the lanes of its warp, alone.
func laneCases(op code.Op, o Options) []Case {
	row := op.Row()
	src := newSource(uint64(op))
	var vs []variant
	for _, imm := range immediates(row) {
		vs = append(vs, variant{imm, -1, 0})
	}
	cross, random := o.cross(), o.random()
	if len(vs) > 1 {
		cross, random = min(cross, 8192), min(random, 4096)
	}
	cols := src.operands(row.In, cross, random, row.NonZero)
	cases := cut(op, "operands", vs, cols)
	var consts []variant
	for i, ok := range row.ConstInputs() {
		for _, c := range constants(row.In[i]) {
			if ok && !(row.NonZero && i == 1 && c == 0) {
				consts = append(consts, variant{vs[len(consts)*7%len(vs)].imm, i, c})
			}
		}
	}
	if row.NonZero && o.Undefined {
		cases = append(cases, zeroCase(op, cols))
	}
	return append(cases, cut(op, "constants", consts, src.operands(row.In, min(cross, 2048), min(random, 4096), row.NonZero))...)
}

// zeroCase measures whether division by zero gives what the meaning guesses.
func zeroCase(op code.Op, cols [][]uint64) Case {
	zeros := make([]uint64, len(cols[0]))
	c := laneCase(op, "second operand 0", []variant{{nil, -1, 0}}, [][]uint64{cols[0], zeros})
	c.Measure = func(got, want [][]byte) string {
		tried, differ, text := c.Out[0].compare(got[0], want[0], nil)
		return fmt.Sprintf("%d of %d are not what the meaning gives %s", differ, tried, text)
	}
	return c
}

// cut makes cases of up to [variants] variants each.
func cut(op code.Op, name string, vs []variant, cols [][]uint64) []Case {
	var cases []Case
	for at := 0; at < len(vs); at += variants {
		part := vs[at:min(at+variants, len(vs))]
		n := name
		if len(vs) > variants {
			n = fmt.Sprintf("%s, from %s", name, part[0])
		}
		cases = append(cases, laneCase(op, n, part, cols))
	}
	return cases
}

// laneCase applies the variants to each tuple, one thread for each. Result k of
// a buffer is that of variant k/n and tuple k mod n for n tuples.
func laneCase(op code.Op, name string, vs []variant, cols [][]uint64) Case {
	row := op.Row()
	m := newMaker(op)
	n := len(cols[0])
	var in []code.Value
	idx := m.thread()
	for i, t := range row.In {
		p, _ := m.buffer(column(t, cols[i]))
		in = append(in, m.load(t, m.at(p, idx, bytesOf(t)), 0))
	}
	var outs []Out
	var addrs []code.Value
	for _, t := range row.Out {
		p, k := m.buffer(make([]byte, bytesOf(t)*n*len(vs)))
		outs = append(outs, Out{Buf: k, Size: bytesOf(t), Label: func(k int) string {
			s := vs[k/n].String()
			for i, c := range cols {
				if vs[k/n].input != i {
					s += fmt.Sprintf(" %#0*x", max(row.In[i].Bits()/4, 1), c[k%n])
				}
			}
			if row.Class == code.Warp || row.Class == code.Matrix {
				s += fmt.Sprintf(" (lane %d of warp %d)", k%32, k%n/32)
			}
			return strings.TrimSpace(s)
		}})
		if r, ok := nanRowOf(op); ok {
			outs[len(outs)-1].nan = &r
			outs[len(outs)-1].operands = func(k int) []uint64 {
				in := make([]uint64, len(cols))
				for i, c := range cols {
					in[i] = c[k%n]
				}
				if v := vs[k/n]; v.input >= 0 {
					in[v.input] = v.bits
				}
				return in
			}
		}
		if b := row.Bound; b != nil {
			outs[len(outs)-1].within = func(k int, got, want uint64) bool {
				in := cols[0][k%n]
				if v := vs[k/n]; v.input == 0 {
					in = v.bits
				}
				return b.Holds(in, got, want)
			}
		}
		addrs = append(addrs, m.at(p, idx, bytesOf(t)))
	}
	for v, va := range vs {
		args := append([]code.Value(nil), in...)
		if va.input >= 0 {
			args[va.input] = m.Const(row.In[va.input], va.bits)
		}
		for j, r := range m.raw(op, va.imm, 0, args...) {
			m.store(r, addrs[j], v*n*bytesOf(row.Out[j]))
		}
	}
	c := m.done(name, n/blockSize)
	c.Out = outs
	c.Want = func() [][]byte {
		want := make([]byte, bytesOf(row.Out[0])*n*len(vs))
		for v, va := range vs {
			with := append([][]uint64(nil), cols...)
			if va.input >= 0 {
				with[va.input] = make([]uint64, n)
				for k := range with[va.input] {
					with[va.input][k] = va.bits
				}
			}
			var a [3]uint64
			for k := range n {
				var r uint64
				if row.Class == code.Warp {
					r = exchange(op, va.imm, with, k)
				} else {
					for i := range with {
						a[i] = with[i][k]
					}
					r = row.Meaning(va.imm, a[0], a[1], a[2])
				}
				put(want, bytesOf(row.Out[0]), v*n+k, r)
			}
		}
		return [][]byte{want}
	}
	return c
}

// exchange is the meaning of the warp rows for the lane of tuple k.
func exchange(op code.Op, imm []int64, cols [][]uint64, k int) uint64 {
	warp, lane := k&^31, k&31
	var ballot uint32
	for l := range 32 {
		ballot |= uint32(cols[0][warp+l]&1) << l
	}
	from := lane
	switch op {
	case code.OpBallot:
		return uint64(ballot)
	case code.OpVoteAny:
		return uint64(min(bits.OnesCount32(ballot), 1))
	case code.OpVoteAll:
		return uint64(bits.OnesCount32(ballot) / 32)
	case code.OpShflIdx:
		from = int(cols[1][k] % 32)
	case code.OpShflBfly:
		from = lane ^ int(imm[0])
	case code.OpShflUp:
		if from -= int(imm[0]); from < 0 {
			from = lane
		}
	case code.OpShflDown:
		if from += int(imm[0]); from > 31 {
			from = lane
		}
	case code.OpMovMatrixT: // rows 2t and 2t+1 of column g
		g, t := lane/4, lane%4
		half := func(row int) uint64 { return cols[0][warp+4*row+g/2] >> (16 * (g % 2)) & 0xffff }
		return half(2*t+1)<<16 | half(2*t)
	default:
		panic("probe: no meaning for " + op.String())
	}
	return cols[0][warp+from]
}

// constCases store constants.
func constCases(op code.Op) []Case {
	row := op.Row()
	size := bytesOf(row.Out[0])
	imms := immediates(row)
	m := newMaker(op)
	m.Func().Launch.Block = 1
	p, k := m.buffer(make([]byte, size*len(imms)))
	want := make([]byte, size*len(imms))
	for i, imm := range imms {
		m.store(m.raw(op, imm, 0)[0], p, i*size)
		v := uint64(imm[0])
		if row.Meaning != nil {
			v = row.Meaning(imm, 0, 0, 0)
		}
		put(want, size, i, v)
	}
	c := m.done("constants", 1)
	c.Out = []Out{{Buf: k, Size: size, Label: func(k int) string { return fmt.Sprintf("%#x", imms[k][0]) }}}
	c.Want = func() [][]byte { return [][]byte{want} }
	return []Case{c}
}

// specialCases read a special register in every thread of a grid of three
// dimensions.
func specialCases(op code.Op) []Case {
	if op == code.OpSmID {
		return []Case{smidCase(op)}
	}
	grid := [3]int{5, 3, 2}
	const threads = 96
	m := newMaker(op)
	m.Func().Launch.Block = threads
	m.Func().Launch.SharedBytes = 4096
	n := threads * grid[0] * grid[1] * grid[2]
	p, k := m.buffer(make([]byte, 4*n))
	block := m.Mad32(m.Mad32(m.CtaidZ(), m.Const32(int64(grid[1])), m.CtaidY()), m.Const32(int64(grid[0])), m.CtaidX())
	m.store(m.raw(op, nil, 0)[0], m.at(p, m.Mad32(block, m.Const32(threads), m.TidX()), 4), 0)
	c := m.done("every thread of a grid", 1)
	c.Grid = grid
	c.Out = []Out{{Buf: k, Size: 4, Label: func(k int) string { return fmt.Sprintf("thread %d of block %d", k%threads, k/threads) }}}
	if op == code.OpSharedBase { // a multiple of 1024, which one is open
		c.Out[0].Mask = 1023
	}
	c.Want = func() [][]byte {
		want := make([]byte, 4*n)
		for k := range n {
			t, b := k%threads, k/threads
			v, ok := map[code.Op]int{code.OpTidX: t, code.OpLaneID: t % 32, code.OpNtidX: threads,
				code.OpCtaidX: b % grid[0], code.OpCtaidY: b / grid[0] % grid[1], code.OpCtaidZ: b / grid[0] / grid[1],
				code.OpNctaidX: grid[0], code.OpNctaidY: grid[1], code.OpNctaidZ: grid[2], code.OpSharedBase: 0}[op]
			if !ok {
				panic("probe: no meaning for " + op.String())
			}
			put(want, 4, k, uint64(v))
		}
		return [][]byte{want}
	}
	return []Case{c}
}

// smidCase reads the multiprocessor twice with a barrier between: a number below 1024,
// the same in all threads of a block.
func smidCase(op code.Op) Case {
	const blocks = 40
	m := newMaker(op)
	m.Func().Launch.SharedBytes = 4
	idx := m.thread()
	p, k := m.buffer(make([]byte, 4*blocks*blockSize))
	v := m.raw(op, nil, 0)[0]
	m.Guarded(m.SetpU32(code.EQ, m.TidX(), m.Const32(0)), code.OpStSharedB32, []int64{0}, []code.Value{m.SharedBase(), v})
	m.Emit(code.OpBarSync, []int64{0})
	same := m.SetpU32(code.EQ, v, m.Emit1(code.OpLdSharedB32, []int64{0}, m.SharedBase()))
	good := m.AndPred(same, m.SetpU32(code.LT, v, m.Const32(1024)))
	m.store(m.Emit1(code.OpSelp32, nil, m.Const32(1), m.Const32(0), good), m.at(p, idx, 4), 0)
	c := m.done("one number a block", blocks)
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
