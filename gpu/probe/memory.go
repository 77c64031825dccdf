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

// globalCases load or store global memory, every thread an element of its own.
func globalCases(op code.Op) []Case {
	const threads = 2 * blockSize
	row := op.Row()
	size := row.Unit * row.Count
	all := accesses(row, globalOffsets(size))
	var cases []Case
	for from := 0; from < len(all); from += variants {
		list := all[from:min(from+variants, len(all))]
		src := newSource(uint64(op))
		m := newMaker(op)
		idx := m.thread()
		on, guard := m.guards(src, threads, idx)
		bias := m.biases(list, code.B64)
		label := func(per int) func(int) string {
			return func(k int) string { return fmt.Sprintf("%s, thread %d", list[k/per/threads], k/per%threads) }
		}
		data := make([]byte, size*threads)
		for k := range data {
			data[k] = byte(src.Uint64())
		}
		if row.Class == code.Load {
			p, _ := m.buffer(data)
			// Thread k reads element k + 5 modulo their number.
			at := m.at(p, m.And32(m.Add32(idx, m.Const32(5)), m.Const32(threads-1)), size)
			to := make([]code.Value, row.Count)
			outs := make([]Out, row.Count)
			bytesOut := bytesOf(row.Out[0])
			for j := range row.Count {
				q, k := m.buffer(make([]byte, bytesOut*threads*len(list)))
				to[j], outs[j] = m.at(q, idx, bytesOut), Out{Buf: k, Size: bytesOut, Label: label(1)}
			}
			for v, a := range list {
				in := []code.Value{m.Add64(at, bias(v))}
				g := code.Value(0)
				if a.guard {
					g = guard
					for _, t := range row.Out {
						in = append(in, m.fallback(t, idx))
					}
				}
				for j, r := range m.raw(op, []int64{a.offset, int64(a.attr)}, g, in...) {
					m.store(r, to[j], v*threads*bytesOut)
				}
			}
			c := m.done(fmt.Sprintf("loads from %s", list[0]), threads/blockSize)
			c.Out = outs
			c.Want = func() [][]byte {
				want := make([][]byte, row.Count)
				for j := range want {
					want[j] = make([]byte, bytesOut*threads*len(list))
					for v, a := range list {
						for k := range threads {
							r := units(row, data, (k+5)%threads)[j]
							if a.guard && on[k] == 0 {
								r = uint64(k)
							}
							put(want[j], bytesOut, v*threads+k, r)
						}
					}
				}
				return want
			}
			cases = append(cases, c)
			continue
		}
		in := make([]code.Value, row.Count)
		vals := make([][]uint64, row.Count)
		for j := range in {
			vals[j] = make([]uint64, threads)
			for k := range vals[j] {
				vals[j][k] = src.Uint64() & row.In[1+j].Mask()
			}
			p, _ := m.buffer(column(row.In[1+j], vals[j]))
			in[j] = m.load(row.In[1+j], m.at(p, idx, bytesOf(row.In[1+j])), 0)
		}
		before := bytes.Repeat([]byte{0xab}, size*threads*len(list))
		p, k := m.buffer(before)
		at := m.at(p, m.And32(m.Add32(idx, m.Const32(5)), m.Const32(threads-1)), size)
		for v, a := range list {
			to := m.Add64(m.Add64(at, m.Const64(int64(v*threads*size))), bias(v))
			g := code.Value(0)
			if a.guard {
				g = guard
			}
			m.raw(op, []int64{a.offset, int64(a.attr)}, g, append([]code.Value{to}, in...)...)
		}
		c := m.done(fmt.Sprintf("stores from %s", list[0]), threads/blockSize)
		c.Out = []Out{{Buf: k, Size: row.Unit, Label: label(row.Count)}}
		c.Want = func() [][]byte {
			want := bytes.Clone(before)
			for v, a := range list {
				for k := range threads {
					if a.guard && on[k] == 0 {
						continue
					}
					for j := range row.Count {
						put(want, row.Unit, (v*threads+(k+5)%threads)*row.Count+j, vals[j][k])
					}
				}
			}
			return [][]byte{want}
		}
		cases = append(cases, c)
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
	src := newSource(uint64(op))
	m := newMaker(op)
	m.Func().Launch.SharedBytes = 3 * region
	idx := m.TidX()
	on, guard := m.guards(src, threads, idx)
	bias := m.biases(list, code.B32)
	// Elements lie in the middle third: with any offset of the list the address
	// register stays inside.
	base := m.Add32(m.SharedBase(), m.Const32(region))
	mine := m.Add32(base, m.Mul32(idx, m.Const32(int64(size))))
	theirs := m.Add32(base, m.Mul32(m.Xor32(idx, m.Const32(partner)), m.Const32(int64(size))))
	data := make([]byte, size*threads)
	for k := range data {
		data[k] = byte(src.Uint64())
	}
	barrier := func() { m.Emit(code.OpBarSync, []int64{0}) }
	label := func(per int) func(int) string {
		return func(k int) string { return fmt.Sprintf("%s, thread %d", list[k/per/threads], k/per%threads) }
	}
	var c Case
	if row.Class == code.Load {
		p, _ := m.buffer(data)
		from := m.at(p, idx, size)
		for j := range size {
			m.Emit(code.OpStSharedB8, []int64{int64(j)}, mine, m.Emit1(code.OpLdGlobalB8, []int64{int64(j), 0}, from))
		}
		barrier()
		bytesOut := bytesOf(row.Out[0])
		to := make([]code.Value, row.Count)
		outs := make([]Out, row.Count)
		for j := range row.Count {
			q, k := m.buffer(make([]byte, bytesOut*threads*len(list)))
			to[j], outs[j] = m.at(q, idx, bytesOut), Out{Buf: k, Size: bytesOut, Label: label(1)}
		}
		for v, a := range list {
			in := []code.Value{m.Add32(theirs, bias(v))}
			g := code.Value(0)
			if a.guard {
				g = guard
				for _, t := range row.Out {
					in = append(in, m.fallback(t, idx))
				}
			}
			for j, r := range m.raw(op, []int64{a.offset}, g, in...) {
				m.store(r, to[j], v*threads*bytesOut)
			}
		}
		c = m.done("loads of bytes stored one by one", 1)
		c.Out = outs
		c.Want = func() [][]byte {
			want := make([][]byte, row.Count)
			for j := range want {
				want[j] = make([]byte, bytesOut*threads*len(list))
				for v, a := range list {
					for k := range threads {
						r := units(row, data, k^partner)[j]
						if a.guard && on[k] == 0 {
							r = uint64(k)
						}
						put(want[j], bytesOut, v*threads+k, r)
					}
				}
			}
			return want
		}
		return []Case{c}
	}
	in := make([]code.Value, row.Count)
	vals := make([][]uint64, row.Count)
	for j := range in {
		vals[j] = make([]uint64, threads)
		for k := range vals[j] {
			vals[j][k] = src.Uint64() & row.In[1+j].Mask()
		}
		p, _ := m.buffer(column(row.In[1+j], vals[j]))
		in[j] = m.load(row.In[1+j], m.at(p, idx, bytesOf(row.In[1+j])), 0)
	}
	q, k := m.buffer(make([]byte, size*threads*len(list)))
	to := m.at(q, idx, size)
	for v, a := range list {
		for j := range size {
			m.Emit(code.OpStSharedB8, []int64{int64(j)}, theirs, m.Const32(0xab))
		}
		barrier()
		g := code.Value(0)
		if a.guard {
			g = guard
		}
		m.raw(op, []int64{a.offset}, g, append([]code.Value{m.Add32(mine, bias(v))}, in...)...)
		barrier()
		for j := range size {
			b := m.Emit1(code.OpLdSharedB8, []int64{int64(j)}, theirs)
			m.Emit(code.OpStGlobalB8, []int64{int64(v*threads*size + j), 0}, to, b)
		}
		barrier()
	}
	c = m.done("stores read back byte by byte", 1)
	c.Out = []Out{{Buf: k, Size: row.Unit, Label: label(row.Count)}}
	c.Want = func() [][]byte {
		want := bytes.Repeat([]byte{0xab}, size*threads*len(list))
		for v, a := range list {
			for k := range threads {
				if o := k ^ partner; !a.guard || on[o] != 0 {
					for j := range row.Count {
						put(want, row.Unit, (v*threads+k)*row.Count+j, vals[j][o])
					}
				}
			}
		}
		return [][]byte{want}
	}
	return []Case{c}
}
