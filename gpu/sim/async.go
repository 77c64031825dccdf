package sim

import (
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
)

// landing is one lane's part of an asynchronous copy that is on its way: bytes read
// from global memory, zeros behind them, and where they will lie in shared memory.
type landing struct {
	at   uint64 // offset in the block's shared memory
	data [16]byte
	size uint8
	lane uint8
	line line // of the copy
}

// inFlight is what a lane has begun to copy.
type inFlight struct {
	open   []landing   // in no group
	groups [][]landing // the oldest first
}

// beginCopy executes cp.async: it reads now, and writes when the thread waits, so
// that what is used without a wait is never there by luck.
func (w *warp) beginCopy(i *inst) {
	mask := w.mask
	if i.guard >= 0 {
		mask = w.lanesOf(i.guard)
	}
	if mask == 0 {
		return
	}
	size := uint64(i.row.Unit)
	var to, from [lanes]uint64
	var loads uint32 // lanes that read
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		to[l] = uint64(uint32(w.regs[int(i.in[0])+l] + uint64(i.imm[0])))
		from[l] = w.regs[int(i.in[1])+l] + uint64(i.imm[1])
		if w.regs[int(i.in[2])+l] > 0 {
			loads |= 1 << l
		}
	}
	st := &w.b.stats
	st.AsyncCopies++
	st.SharedStores++
	st.SharedBytes += count(mask) * int64(size)
	w.countBanks(i, bank.Store, int(size), mask, &to)
	if loads != 0 {
		st.GlobalLoads++
		st.GlobalSectors += int64(bank.Sectors(loads, &from, size))
	}
	read := *i // as a load of the source
	read.row = loadRows[i.row.Unit]
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		n := w.regs[int(i.in[2])+l]
		if n > size {
			w.fail(l, errBounds, "", "%d bytes of %d are to be read", n, size)
			return
		}
		c := landing{at: to[l] - sharedBase, size: uint8(size), lane: uint8(l), line: lineOf(i)}
		if n > 0 {
			if from[l]&(size-1) != 0 {
				w.fail(l, errAlign, "", "address %s is not a multiple of the %d bytes copied", w.where(&read, from[l]), size)
				return
			}
			st.GlobalLoadBytes += int64(n)
			for k := uint64(0); k < n; { // what is there may end inside the bytes
				step := uint64(1) << (bits.Len64(n-k) - 1)
				data := w.access(&read, l, from[l]+k, step)
				if data == nil {
					return
				}
				copy(c.data[k:], data)
				k += step
			}
		}
		if w.access(i, l, to[l], size) == nil {
			return
		}
		if t := w.b.shared.track; t != nil {
			for j := c.at; j < c.at+size; j++ {
				t[j].copier = int16(w.id*lanes + l + 1)
			}
		}
		if w.b.cl != nil {
			j := &job{n: int32(len(w.b.cl.jobs) + 1), w: w, pos: i.pos, op: i.op}
			w.b.cl.jobs = append(w.b.cl.jobs, j)
			w.b.ledger.expect(j, c.at, size)
		}
		w.flight[l].open = append(w.flight[l].open, c)
	}
}

// loadRows are loads of as many bytes as a copy reads, for its checks.
var loadRows = map[int]*code.Row{4: code.OpLdGlobalB32.Row(), 8: code.OpLdGlobalV2B32.Row(), 16: code.OpLdGlobalV4B32.Row()}

// waitCopies executes commit and the waits.
func (w *warp) waitCopies(i *inst) {
	for m := w.mask; m != 0; m &= m - 1 {
		f := &w.flight[bits.TrailingZeros32(m)]
		left := 0
		switch i.op {
		case code.OpCpAsyncWait:
			left = int(i.imm[0])
		default:
			f.groups, f.open = append(f.groups, f.open), nil
			if i.op == code.OpCpAsyncCommit {
				continue
			}
		}
		for len(f.groups) > left {
			for _, c := range f.groups[0] {
				w.land(c)
			}
			f.groups = f.groups[1:]
		}
	}
}

// land writes what a copy brought, as its thread does now.
func (w *warp) land(c landing) {
	s := &w.b.shared
	copy(s.data[c.at:c.at+uint64(c.size)], c.data[:])
	if l := &w.b.ledger; w.b.cl != nil && l.marks != nil {
		by := w.reader(int(c.lane))
		by.line = c.line
		for j := c.at; j < c.at+uint64(c.size); j++ {
			l.marks[j].job, l.marks[j].writer = 0, by
		}
		return
	}
	if s.track == nil {
		return
	}
	for j := c.at; j < c.at+uint64(c.size); j++ {
		t := &s.track[j]
		t.copier = 0
		t.written, t.writer, t.wEpoch, t.wWarp, t.wLine = true, int16(w.id*lanes+int(c.lane)+1), s.epoch, w.epoch, c.line
	}
}
