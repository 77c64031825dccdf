package probe

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// copyWant is where the catalogue says that lane and half register of ldmatrix and
// stmatrix lie: row of 16 bytes and half word in it.
func copyWant(op code.Op) arch.Operand {
	atom, err := arch.FindAtom(op.String())
	if err != nil {
		panic("probe: " + err.Error())
	}
	o, _ := atom.Operand("D")
	if o.In == arch.InShared {
		o, _ = atom.Operand("S")
	}
	return o
}

// matrixCopyCases run ldmatrix and stmatrix on rows that lie in shared memory in a
// random order, with an offset that the address takes back. Lanes whose address is
// not read give that of the first row.
func matrixCopyCases(op code.Op) []Case {
	const warps, threads = blockSize / 32, blockSize
	row := op.Row()
	o := copyWant(op)
	rows, words := o.Shape[0], o.Layout.Slots()/2
	src := newSource(uint64(op))
	var cases []Case
	for round, offset := range []int64{0, 16, -48, 4096} {
		m := newMaker(op)
		const margin = 8192
		m.Func().Launch.SharedBytes = threads*16 + 2*margin
		idx := m.TidX()
		place := make([]int, warps*32) // of each row, in rows of the block's space
		for w := range warps {
			for k, p := range src.Perm(32) {
				place[32*w+k] = 32*w + p
			}
		}
		addr := make([]uint64, threads)
		for k := range addr {
			r := k % 32
			if r >= rows {
				r = 0
			}
			addr[k] = uint64(margin+16*place[k&^31+r]-int(offset)) & 0xffffffff
		}
		pa, _ := m.buffer(column(code.B32, addr))
		address := m.Add32(m.SharedBase(), m.load(code.B32, m.at(pa, idx, 4), 0))
		space := m.Add32(m.Add32(m.SharedBase(), m.Const32(margin)), m.Mul32(idx, m.Const32(16)))
		barrier := func() { m.Emit(code.OpBarSync, []int64{0}) }
		word := func(data []uint64, k int) uint64 { return data[k/2] >> (16 * (k % 2)) & 0xffff }
		if row.Class == code.Load {
			var cols [4][]uint64
			for j := range cols {
				cols[j] = make([]uint64, threads)
				for k := range cols[j] {
					cols[j][k] = uint64(src.Uint32())
				}
				p, _ := m.buffer(column(code.B32, cols[j]))
				m.Emit(code.OpStSharedB32, []int64{int64(4 * j)}, space, m.load(code.B32, m.at(p, idx, 4), 0))
			}
			barrier()
			var outs []Out
			to := make([]code.Value, words)
			for j := range words {
				p, k := m.buffer(make([]byte, 4*threads))
				to[j], outs = m.at(p, idx, 4), append(outs, Out{Buf: k, Size: 4, Label: laneLabel})
			}
			for j, r := range m.raw(op, []int64{offset}, 0, address) {
				m.store(r, to[j], 0)
			}
			c := m.done(fmt.Sprintf("rows in order %d, offset %d", round, offset), 1)
			c.Out = outs
			c.Want = func() [][]byte {
				want := make([][]byte, words)
				for j := range want {
					want[j] = make([]byte, 4*threads)
					for t := range threads {
						var v uint64
						for h := range 2 {
							at := o.Layout.Index(t%32, 2*j+h)
							from := place[t&^31+at[0]] // row of the space
							v |= word([]uint64{cols[0][from], cols[1][from], cols[2][from], cols[3][from]}, at[1]) << (16 * h)
						}
						put(want[j], 4, t, v)
					}
				}
				return want
			}
			cases = append(cases, c)
			continue
		}
		regs := make([][]uint64, words)
		in := []code.Value{address}
		for j := range regs {
			regs[j] = make([]uint64, threads)
			for k := range regs[j] {
				regs[j][k] = uint64(src.Uint32())
			}
			p, _ := m.buffer(column(code.B32, regs[j]))
			in = append(in, m.load(code.B32, m.at(p, idx, 4), 0))
		}
		for j := range 4 {
			m.Emit(code.OpStSharedB32, []int64{int64(4 * j)}, space, m.Const32(0xabababab-1<<32))
		}
		barrier()
		m.raw(op, []int64{offset}, 0, in...)
		barrier()
		var outs []Out
		for j := range 4 {
			p, k := m.buffer(make([]byte, 4*threads))
			outs = append(outs, Out{Buf: k, Size: 4, Label: laneLabel})
			m.store(m.Emit1(code.OpLdSharedB32, []int64{int64(4 * j)}, space), m.at(p, idx, 4), 0)
		}
		c := m.done(fmt.Sprintf("rows in order %d, offset %d", round, offset), 1)
		c.Out = outs
		c.Want = func() [][]byte {
			want := make([][]byte, 4)
			for j := range want {
				want[j] = []byte(strings.Repeat("\xab", 4*threads))
			}
			for t := range threads {
				for slot := range 2 * words {
					at := o.Layout.Index(t%32, slot)
					put(want[at[1]/2], 2, 2*place[t&^31+at[0]]+at[1]%2, regs[slot/2][t]>>(16*(slot%2))&0xffff)
				}
			}
			return want
		}
		cases = append(cases, c)
	}
	return cases
}

func laneLabel(k int) string { return fmt.Sprintf("lane %d of warp %d", k%32, k/32) }
