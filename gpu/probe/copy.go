package probe

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// copyCase copies bytes from global to shared memory, from and to the places of
// other threads, of which each copy reads some and leaves the rest to become 0, in
// groups of one to three. It waits for the groups one after the other and reads
// each, after a barrier, by a thread of another warp.
func copyCase(op code.Op, name string) Case {
	const threads, shift, partner = blockSize, 5, 0x55
	size := op.Row().Unit
	offsets := [][2]int64{{0, 0}, {int64(size), -int64(size)}, {-64, 4096}, {4096, -1 << 20}, {32, 1 << 20}, {0, 16}}
	groups := []int{1, 2, 3} // copies in each
	m := newMaker(op)
	const region = threads * 16
	m.Func().Launch.SharedBytes = (len(offsets) + 2) * region
	idx := m.TidX()
	src := newSource(uint64(op) + uint64(len(name)))
	data := make([]byte, len(offsets)*threads*size)
	for k := range data {
		data[k] = byte(src.Uint64())
	}
	sizes := make([]uint64, len(offsets)*threads)
	for k := range sizes {
		sizes[k] = src.Uint64() % uint64(size+1)
		if k%3 > 0 {
			sizes[k] = uint64(size) * uint64(k%2)
		}
	}
	from, _ := m.buffer(data)
	counts, _ := m.buffer(column(code.B32, sizes))
	to, buf := m.buffer(make([]byte, len(data)))
	source := m.at(from, m.And32(m.Add32(idx, m.Const32(shift)), m.Const32(threads-1)), size)
	place := m.Add32(m.Add32(m.SharedBase(), m.Const32(region)), m.Mul32(idx, m.Const32(int64(size))))
	theirs := m.Add32(m.Add32(m.SharedBase(), m.Const32(region)), m.Mul32(m.Xor32(idx, m.Const32(partner)), m.Const32(int64(size))))
	at := m.at(to, idx, size)
	v := 0
	for _, n := range groups {
		for range n {
			o := offsets[v]
			dst := m.Add32(place, m.Const32(int64(v*region)-o[0]))
			s := m.Add64(source, m.Const64(int64(v*threads*size)-o[1]))
			count := m.load(code.B32, m.at(counts, idx, 4), 4*v*threads)
			hint := []code.Attr{0, code.L2Prefetch64, code.L2Prefetch128, code.L2Prefetch256}[v%4]
			m.raw(op, []int64{o[0], o[1], int64(hint)}, 0, dst, s, count)
			v++
		}
		m.Emit(code.OpCpAsyncCommit, nil)
	}
	v = 0
	for g, n := range groups {
		if left := len(groups) - 1 - g; left > 0 {
			m.Emit(code.OpCpAsyncWait, []int64{int64(left)})
		} else if name == code.OpCpAsyncWaitAll.String() {
			m.Emit(code.OpCpAsyncWaitAll, nil)
		} else {
			m.Emit(code.OpCpAsyncWait, []int64{0})
		}
		m.Emit(code.OpBarSync, []int64{0})
		for range n {
			for j := range size {
				b := m.Emit1(code.OpLdSharedB8, []int64{int64(v*region + j)}, theirs)
				m.Emit(code.OpStGlobalB8, []int64{int64(v*threads*size + j), 0}, at, b)
			}
			v++
		}
	}
	c := m.done(name, 1)
	c.Out = []Out{{Buf: buf, Size: 1, Label: func(k int) string {
		return fmt.Sprintf("copy %d, thread %d, byte %d", k/(threads*size), k/size%threads, k%size)
	}}}
	c.Want = func() [][]byte {
		want := make([]byte, len(data))
		for v := range offsets {
			for k := range threads {
				t := k ^ partner // whose place k reads
				from := (t + shift) % threads
				for j := range int(sizes[v*threads+t]) {
					want[(v*threads+k)*size+j] = data[(v*threads+from)*size+j]
				}
			}
		}
		return [][]byte{want}
	}
	return c
}

// checkCase checks what holds; the instruction does nothing.
func checkCase(op code.Op) Case {
	m := newMaker(op)
	idx := m.TidX()
	p, k := m.buffer(make([]byte, 4*blockSize))
	m.raw(op, nil, 0, m.SetpU32(code.LT, idx, m.Const32(blockSize)))
	m.store(idx, m.at(p, idx, 4), 0)
	c := m.done("what holds", 1)
	c.Out = []Out{{Buf: k, Size: 4}}
	c.Want = func() [][]byte {
		vals := make([]uint64, blockSize)
		for k := range vals {
			vals[k] = uint64(k)
		}
		return [][]byte{column(code.B32, vals)}
	}
	return c
}
