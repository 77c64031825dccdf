package probe

import (
	"bytes"
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// access is one way to write a memory row.
type access struct {
	offset int64
	attr   code.Attr
	guard  bool
}

func (a access) String() string {
	s := fmt.Sprintf("offset %d%s", a.offset, a.attr)
	if a.guard {
		s += " guarded"
	}
	return s
}

// accesses are the ways to write a memory row: each combination of attributes,
// and offsets of each size that an encoding may have room for, with and without
// a guard.
func accesses(row *code.Row, offsets []int64) []access {
	var list []access
	if len(row.Imm) > 1 {
		for l1 := range 4 {
			for l2 := range 4 {
				for nc := range 2 {
					a := code.Attr(nc) * code.NC
					a |= []code.Attr{0, code.NoAllocate, code.EvictFirst, code.EvictLast}[l1]
					a |= []code.Attr{0, code.L2Prefetch64, code.L2Prefetch128, code.L2Prefetch256}[l2]
					if row.Class == code.Load || nc == 0 && l2 == 0 {
						list = append(list, access{0, a, l1 == 1})
					}
				}
			}
		}
	}
	for _, o := range offsets {
		list = append(list, access{o, 0, false}, access{o, 0, true})
	}
	return list
}

func globalOffsets(size int) []int64 {
	n := int64(size)
	return []int64{0, n, -n, 127 * n, 4096, -4096, 1 << 20, 1<<23 - n, -1 << 23, 1 << 23, 1 << 24, 1<<31 - n, -1 << 31}
}

func sharedOffsets(size int) []int64 {
	n := int64(size)
	return []int64{0, n, -n, 16 * n, 4096, -4096}
}

// biases are run-time constants that take the offsets back, so that the compiler
// cannot fold the two.
func (m *maker) biases(list []access, t code.Type) func(k int) code.Value {
	vals := make([]uint64, len(list))
	for k, a := range list {
		vals[k] = uint64(-a.offset) & t.Mask()
	}
	p, _ := m.buffer(column(t, vals))
	return func(k int) code.Value { return m.load(t, p, k*bytesOf(t)) }
}

func (m *maker) add(t code.Type, x, y code.Value) code.Value {
	if t == code.B64 {
		return m.Add64(x, y)
	}
	return m.Add32(x, y)
}

// guards gives a predicate for each thread, read at run time.
func (m *maker) guards(src *source, threads int, idx code.Value) ([]uint64, code.Value) {
	on := make([]uint64, threads)
	for k := range on {
		on[k] = src.Uint64() & 1
	}
	p, _ := m.buffer(column(code.Pred, on))
	return on, m.load(code.Pred, m.at(p, idx, 4), 0)
}

// fallback is a value of type t that names the thread.
func (m *maker) fallback(t code.Type, idx code.Value) code.Value {
	switch t {
	case code.B16:
		return m.Trunc16(idx)
	case code.B64:
		return m.Zext32(idx)
	}
	return idx
}

// units are the values of a memory row at bytes [at, at+size).
func units(row *code.Row, data []byte, k int) []uint64 {
	vals := make([]uint64, row.Count)
	for j := range vals {
		vals[j] = element(data, row.Unit, k*row.Count+j)
	}
	return vals
}

// trial is a function that tries a memory row in each way of a list.
type trial struct {
	*maker
	op      code.Op
	row     *code.Row
	list    []access
	threads int
	idx     code.Value   // the thread's number
	on      []uint64     // guard of each thread
	guard   code.Value   // the thread's guard
	vals    [][]uint64   // what a store stores: by operand and thread
	in      []code.Value // the same for the running thread
	data    []byte       // what a load loads, a unit for each thread
}

// size is how many bytes the row moves for one thread.
func (t *trial) size() int { return t.row.Unit * t.row.Count }

// newTrial makes the guards, and the data of a load; idx is made first.
func newTrial(m *maker, op code.Op, list []access, src *source, threads int, idx code.Value) *trial {
	t := &trial{maker: m, op: op, row: op.Row(), list: list, threads: threads, idx: idx}
	t.on, t.guard = m.guards(src, threads, idx)
	if t.row.Class == code.Load {
		t.data = make([]byte, t.size()*threads)
		for k := range t.data {
			t.data[k] = byte(src.Uint64())
		}
		return t
	}
	for _, in := range t.row.In[1:] {
		vals := make([]uint64, threads)
		for k := range vals {
			vals[k] = src.Uint64() & in.Mask()
		}
		p, _ := m.buffer(column(in, vals))
		t.vals, t.in = append(t.vals, vals), append(t.in, m.load(in, m.at(p, idx, bytesOf(in)), 0))
	}
	return t
}

// label names element k of an output with per elements for each thread.
func (t *trial) label(per int) func(k int) string {
	return func(k int) string {
		return fmt.Sprintf("%s, thread %d", t.list[k/per/t.threads], k/per%t.threads)
	}
}

// holds reports whether access a takes place in thread k.
func (t *trial) holds(a access, k int) bool { return !a.guard || t.on[k] != 0 }

// access emits the row once.
func (t *trial) access(a access, in ...code.Value) []code.Value {
	g := code.Value(0)
	if a.guard {
		g = t.guard
	}
	return t.raw(t.op, []int64{a.offset, int64(a.attr)}[:len(t.row.Imm)], g, in...)
}

// loads loads in each way of the list, from the address that it is given the
// number of. Thread k must find the data of thread from(k).
func (t *trial) loads(name string, address func(v int) code.Value, from func(k int) int) Case {
	size := bytesOf(t.row.Out[0])
	to, outs := make([]code.Value, t.row.Count), make([]Out, t.row.Count)
	for j := range to {
		q, k := t.buffer(make([]byte, size*t.threads*len(t.list)))
		to[j], outs[j] = t.at(q, t.idx, size), Out{Buf: k, Size: size, Label: t.label(1)}
	}
	for v, a := range t.list {
		in := []code.Value{address(v)}
		if a.guard {
			for _, out := range t.row.Out {
				in = append(in, t.fallback(out, t.idx))
			}
		}
		for j, r := range t.access(a, in...) {
			t.store(r, to[j], v*t.threads*size)
		}
	}
	c := t.done(name, t.threads/blockSize)
	c.Out = outs
	c.Want = func() [][]byte {
		want := make([][]byte, t.row.Count)
		for j := range want {
			want[j] = make([]byte, size*t.threads*len(t.list))
			for v, a := range t.list {
				for k := range t.threads {
					r := uint64(k)
					if t.holds(a, k) {
						r = units(t.row, t.data, from(k))[j]
					}
					put(want[j], size, v*t.threads+k, r)
				}
			}
		}
		return want
	}
	return c
}

// untouched is what memory holds before stores.
const untouched = 0xab

// stored is the case of stores whose results lie in buffer buf. What thread k
// stores must lie at place to(k).
func (t *trial) stored(name string, buf int, to func(k int) int) Case {
	c := t.done(name, t.threads/blockSize)
	c.Out = []Out{{Buf: buf, Size: t.row.Unit, Label: t.label(t.row.Count)}}
	c.Want = func() [][]byte {
		want := bytes.Repeat([]byte{untouched}, t.size()*t.threads*len(t.list))
		for v, a := range t.list {
			for k := range t.threads {
				for j := range t.row.Count {
					if t.holds(a, k) {
						put(want, t.row.Unit, (v*t.threads+to(k))*t.row.Count+j, t.vals[j][k])
					}
				}
			}
		}
		return [][]byte{want}
	}
	return c
}

// globalCases load or store global memory, every thread an element of its own.
func globalCases(op code.Op) []Case {
	const threads, shift = 2 * blockSize, 5
	row := op.Row()
	size := row.Unit * row.Count
	all := accesses(row, globalOffsets(size))
	other := func(k int) int { return (k + shift) % threads }
	var cases []Case
	for from := 0; from < len(all); from += variants {
		list := all[from:min(from+variants, len(all))]
		m := newMaker(op)
		idx := m.thread()
		t := newTrial(m, op, list, newSource(uint64(op)), threads, idx)
		bias := m.biases(list, code.B64)
		// at is the place of thread other(k) behind p.
		at := func(p code.Value) code.Value {
			return m.at(p, m.And32(m.Add32(idx, m.Const32(shift)), m.Const32(threads-1)), size)
		}
		if row.Class == code.Load {
			p, _ := m.buffer(t.data)
			data := at(p)
			cases = append(cases, t.loads(fmt.Sprintf("loads from %s", list[0]), func(v int) code.Value { return m.Add64(data, bias(v)) }, other))
			continue
		}
		p, buf := m.buffer(bytes.Repeat([]byte{untouched}, size*threads*len(list)))
		to := at(p)
		for v, a := range list {
			address := m.Add64(m.Add64(to, m.Const64(int64(v*threads*size))), bias(v))
			t.access(a, append([]code.Value{address}, t.in...)...)
		}
		cases = append(cases, t.stored(fmt.Sprintf("stores from %s", list[0]), buf, other))
	}
	return cases
}

// sharedCases write shared memory byte by byte and read it by the row, or the
// other way round, with another thread of another warp on each side.
func sharedCases(op code.Op) []Case {
	const threads, region, partner = blockSize, 4096, 0x55
	row := op.Row()
	size := row.Unit * row.Count
	list := accesses(row, sharedOffsets(size))
	other := func(k int) int { return k ^ partner }
	m := newMaker(op)
	m.Func().Launch.SharedBytes = 3 * region
	idx := m.TidX()
	t := newTrial(m, op, list, newSource(uint64(op)), threads, idx)
	bias := m.biases(list, code.B32)
	// Elements lie in the middle third: with any offset of the list the address
	// register stays inside.
	base := m.Add32(m.SharedBase(), m.Const32(region))
	mine := m.Add32(base, m.Mul32(idx, m.Const32(int64(size))))
	theirs := m.Add32(base, m.Mul32(m.Xor32(idx, m.Const32(partner)), m.Const32(int64(size))))
	barrier := func() { m.Emit(code.OpBarSync, []int64{0}) }
	if row.Class == code.Load {
		p, _ := m.buffer(t.data)
		from := m.at(p, idx, size)
		for j := range size {
			m.Emit(code.OpStSharedB8, []int64{int64(j)}, mine, m.Emit1(code.OpLdGlobalB8, []int64{int64(j), 0}, from))
		}
		barrier()
		return []Case{t.loads("loads of bytes stored one by one", func(v int) code.Value { return m.Add32(theirs, bias(v)) }, other)}
	}
	q, buf := m.buffer(make([]byte, size*threads*len(list)))
	to := m.at(q, idx, size)
	for v, a := range list {
		for j := range size {
			m.Emit(code.OpStSharedB8, []int64{int64(j)}, theirs, m.Const32(untouched))
		}
		barrier()
		t.access(a, append([]code.Value{m.Add32(mine, bias(v))}, t.in...)...)
		barrier()
		for j := range size {
			b := m.Emit1(code.OpLdSharedB8, []int64{int64(j)}, theirs)
			m.Emit(code.OpStGlobalB8, []int64{int64(v*threads*size + j), 0}, to, b)
		}
		barrier()
	}
	return []Case{t.stored("stores read back byte by byte", buf, other)}
}
