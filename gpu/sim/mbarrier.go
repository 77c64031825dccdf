package sim

import (
	"fmt"
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// mbar is a barrier in shared memory. A phase ends when no arrival is missing and as
// many bytes have come as were expected.
type mbar struct {
	b       *block
	at      uint64 // shared offset
	pos     diag.Pos
	comp    int // component of clocks: the phases that have ended
	count   int64
	pending int64
	tx      int64
	phase   uint32
	fenced  bool // the asynchronous proxy sees it
	maker   reader
	// now and nowProxied are what arrivals of this phase brought, was and wasProxied
	// those of the phase before.
	now, nowProxied, was, wasProxied clock
}

// Limits of the machine.
const (
	mostArrivals = 1<<20 - 1
	mostTx       = 1<<20 - 1
)

// bar is the barrier at an offset, nil if there is none.
func (b *block) bar(at uint64) *mbar {
	if at%8 != 0 || at/8 >= uint64(len(b.ledger.bars)) {
		return nil
	}
	return b.ledger.bars[at/8]
}

func (m *mbar) missing() string {
	if m.tx < 0 {
		return fmt.Sprintf("%d of %d arrivals are missing, and %d bytes have come that nobody expected", m.pending, m.count, -m.tx)
	}
	return fmt.Sprintf("%d of %d arrivals and %d bytes are missing", m.pending, m.count, m.tx)
}

func (m *mbar) asked(i *inst, v uint64) string {
	if i.op == code.OpMbarWait {
		return fmt.Sprintf("phase %d", uint32(v>>32))
	}
	return fmt.Sprintf("parity %d", v&1)
}

// find is the barrier that a lane names; it fails where there is none or the lane
// cannot know of it.
func (w *warp) find(lane int, addr uint64) *mbar {
	b, at, ok := w.resolve(lane, uint64(uint32(addr)))
	if !ok {
		return nil
	}
	m := b.bar(at)
	if m == nil {
		w.fail(lane, errBarrier, "mbarrier.init comes first, at a multiple of 8 bytes", "there is no barrier at shared offset %d", int64(at))
		return nil
	}
	if !w.b.m.opt.Fast && !w.past(m.maker, -1) {
		w.fail(lane, errBarrier, "synchronise behind the making of barriers", "the barrier at shared offset %d was made at %s by %s, and nothing lies between", at, m.pos, w.b.cl.who(m.maker))
		return nil
	}
	return m
}

// settle ends the phase if nothing is missing.
func (m *mbar) settle() {
	if m.pending != 0 || m.tx != 0 {
		return
	}
	m.phase++
	m.pending = m.count
	m.was, m.wasProxied, m.now, m.nowProxied = m.now, m.nowProxied, nil, nil
	m.was.set(m.comp, m.phase)
}

// arrive counts n arrivals; the text says what is wrong, or is empty.
func (m *mbar) arrive(n int64) string {
	if n > m.pending {
		return fmt.Sprintf("%d arrivals at the barrier at shared offset %d (made at %s), where %s in phase %d", n, m.at, m.pos, m.missing(), m.phase)
	}
	m.pending -= n
	m.settle()
	return ""
}

// expect adds to the bytes that must come; negative ones have come.
func (m *mbar) expect(n int64) string {
	if m.tx += n; m.tx < -mostTx || m.tx > mostTx {
		return fmt.Sprintf("the barrier at shared offset %d (made at %s) would expect %d bytes, which it cannot count", m.at, m.pos, m.tx)
	}
	return ""
}

// complete counts bytes that have come.
func (m *mbar) complete(n int64) string {
	s := m.expect(-n)
	m.settle()
	return s
}

// acquire makes the warp know what ended with the phase before the current one.
func (w *warp) acquire(m *mbar) {
	w.clock.join(m.was)
	w.proxied.join(m.wasProxied)
}

// isOver reports whether the phase that a waiting lane names has ended.
func (w *warp) isOver(i *inst, lane int, m *mbar) bool {
	v := w.regs[int(i.in[1])+lane]
	switch i.op {
	case code.OpMbarTestWait, code.OpMbarTryWait, code.OpMbarWait:
		if d := m.phase - uint32(v>>32); d > 1 {
			w.fail(lane, errBarrier, "", "the state is of phase %d, and the barrier at shared offset %d is in phase %d: only the current and the last one can be asked for", v>>32, m.at, m.phase)
		}
		return uint32(v>>32) != m.phase
	}
	if v > 1 {
		w.fail(lane, errBarrier, "", "parity %d, must be 0 or 1", v)
	}
	return uint64(m.phase&1) != v
}

// barrierOp executes a row on a barrier in shared memory, and reports whether the
// warp waits.
func (w *warp) barrierOp(i *inst) (waits bool) {
	st := &w.b.stats
	st.Mbarriers++
	var over uint32
	bar := func(l int) *mbar { return w.find(l, w.regs[int(i.in[0])+l]+uint64(i.imm[0])) }
	told := false // the clock is given away once for all lanes
	var know, knowProxied clock
	release := func(m *mbar) {
		if !told {
			w.publish(&know, &knowProxied)
			told = true
		}
		m.now.join(know)
		m.nowProxied.join(knowProxied)
		if m.b != w.b {
			m.b.ledger.usedBy(w.index, know.at(w.index), i.pos)
		}
	}
	for mask := w.mask; mask != 0 && w.b.err == nil; mask &= mask - 1 {
		l := bits.TrailingZeros32(mask)
		var n int64 // the second input, where it is a number
		if len(i.row.In) > 1 {
			n = int64(uint32(w.regs[int(i.in[1])+l]))
		}
		if i.op == code.OpMbarInit {
			w.makeBarrier(i, l, n)
			continue
		}
		m := bar(l)
		if m == nil {
			return false
		}
		bad := ""
		state := uint64(m.phase)<<32 | uint64(m.pending)
		switch i.op {
		case code.OpMbarInval:
			m.b.ledger.bars[m.at/8] = nil
		case code.OpMbarArrive, code.OpMbarArriveCluster, code.OpMbarArriveRemote, code.OpMbarArriveState:
			release(m)
			bad = m.arrive(1)
		case code.OpMbarArriveCount, code.OpMbarArriveCountCluster:
			release(m)
			if n == 0 {
				bad = "0 arrivals"
			} else {
				bad = m.arrive(n)
			}
		case code.OpMbarArriveDrop:
			release(m)
			m.count--
			bad = m.arrive(1)
		case code.OpMbarArriveNoComplete:
			release(m)
			if n >= m.pending {
				bad = fmt.Sprintf("%d arrivals would end the phase: %s", n, m.missing())
			} else {
				m.pending -= n
			}
		case code.OpMbarArriveExpectTx, code.OpMbarArriveExpectTxCluster:
			release(m)
			if bad = m.expect(n); bad == "" {
				bad = m.arrive(1)
			}
		case code.OpMbarExpectTx, code.OpMbarExpectTxCluster:
			bad = m.expect(n)
		case code.OpMbarCompleteTx, code.OpMbarCompleteTxCluster:
			bad = m.complete(n)
		case code.OpCpAsyncMbarArrive, code.OpCpAsyncMbarArriveNoInc:
			if i.op == code.OpCpAsyncMbarArrive {
				m.pending++
			}
			w.arriveAfterCopies(i, l, m)
		default: // tests and waits
			if w.isOver(i, l, m) {
				over |= 1 << l
				w.acquire(m)
			}
		}
		if bad != "" {
			w.fail(l, errCount, "count who arrives, and how many bytes come, in each phase", "%s", bad)
		}
		if i.nout > 0 && i.row.Out[0] == code.B64 {
			w.regs[int(i.out[0])+l] = state
		}
	}
	switch i.op {
	case code.OpMbarWait, code.OpMbarWaitParity, code.OpMbarWaitParityCluster:
		if w.waits = over != w.mask; !w.waits {
			w.epoch++ // which lanes arrived is not followed
		}
		return w.waits
	}
	if i.nout > 0 && i.row.Out[0] == code.Pred {
		for l := range lanes {
			if w.mask>>l&1 != 0 {
				w.regs[int(i.out[0])+l] = uint64(over >> l & 1)
			}
		}
		w.b.cl.polled = w.b.cl.polled || over != w.mask
	}
	return false
}

// makeBarrier executes mbarrier.init.
func (w *warp) makeBarrier(i *inst, l int, n int64) {
	b := w.b
	at := uint64(uint32(w.regs[int(i.in[0])+l]+uint64(i.imm[0]))) - sharedBase
	switch {
	case at%8 != 0:
		w.fail(l, errAlign, "", "a barrier at shared offset %d, which is no multiple of 8", int64(at))
		return
	case at+8 > uint64(len(b.shared.data)):
		w.fail(l, errBounds, "", "a barrier at shared offset %d of %d bytes", int64(at), len(b.shared.data))
		return
	case n < 1 || n > mostArrivals:
		w.fail(l, errCount, "", "%d arrivals for a phase; there must be 1 to %d", n, mostArrivals)
		return
	case b.bar(at) != nil:
		w.fail(l, errBarrier, "make each barrier once, and end it with mbarrier.inval before it is made again", "shared offset %d holds a barrier already, made at %s", at, b.bar(at).pos)
		return
	}
	if !w.touch(l, b, at, 8, plainWrite, false) {
		return
	}
	m := &mbar{b: b, at: at, pos: i.pos, comp: b.cl.comps, count: n, pending: n, maker: w.reader(-1)}
	b.cl.comps++
	b.ledger.bars[at/8] = m
}

// fenceBarriers lets the asynchronous proxy see barriers whose making the warp knows
// of: its own, or all.
func (w *warp) fenceBarriers() {
	for _, b := range w.b.cl.blocks {
		for _, m := range b.ledger.bars {
			if m != nil && w.past(m.maker, -1) {
				m.fenced = true
			}
		}
	}
}

// copyBar is the barrier at which a copy of the asynchronous proxy counts.
func (w *warp) copyBar(lane int, addr uint64) *mbar {
	m := w.find(lane, addr)
	if m != nil && !m.fenced && !w.b.m.opt.Fast {
		w.fail(lane, errProxy, "fence.mbarrier_init (or fence.proxy.async) by the thread that makes barriers, then synchronise", "no fence lies between the making of the barrier at shared offset %d (at %s) and its use by a copy", m.at, m.pos)
		return nil
	}
	return m
}

// arriveAfterCopies executes cp.async.mbarrier.arrive of one lane.
func (w *warp) arriveAfterCopies(i *inst, lane int, m *mbar) {
	f := &w.flight[lane]
	all := f.open
	for _, g := range f.groups {
		all = append(all, g...)
	}
	f.open = nil
	for k := range f.groups {
		f.groups[k] = nil
	}
	w.b.cl.begin(w, i, func(j *job) *diag.Problem {
		for _, c := range all {
			copy(w.b.shared.data[c.at:c.at+uint64(c.size)], c.data[:])
			w.b.ledger.landed(m.comp, m.phase+1, c.at, uint64(c.size))
		}
		if bad := m.arrive(1); bad != "" {
			return j.problem(errCount, "count the arrivals of copies", "%s", bad)
		}
		return nil
	})
}
