package sim

import (
	"fmt"
	"sync/atomic"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// tracker remembers who used each unit of a buffer that the function stores to,
// so that two threads that use one without a barrier between, one of them
// writing, are found in whatever order they come. Threads of a block are ordered
// by its barriers, blocks never, except in a function with a fence for the whole
// GPU or an atomic that is one: which accesses these order between blocks is not
// followed, so that only accesses of one block are compared. Atomics order themselves and
// are left out.
type tracker struct {
	unit           uint64 // bytes: no access of the function is smaller
	fenced         bool
	writer, reader []atomic.Uint64
}

// maxTracked bounds the units of all buffers of a launch; what is beyond goes
// unchecked.
const maxTracked = 1 << 24

// A stamp is an access, or several reads, in one word: valid, several threads,
// several warps, block, thread, barriers of the block and of the warp passed.
// Counts of barriers stop at their largest value, which is before and after all.
type stamp uint64

const (
	valid        stamp = 1 << 63
	severalLanes stamp = 1 << 62
	severalWarps stamp = 1 << 61
	allBlocks          = 1<<29 - 1
	lastEpoch          = 1<<11 - 1
)

func (w *warp) stamp(lane int) stamp {
	if w.b.cl != nil { // the clock of the warp stands for barriers of the block
		return valid | stamp(w.b.number)<<32 | stamp(w.id*lanes+lane)<<22 | stamp(min(w.tick(), lastEpoch))<<11 | stamp(min(w.epoch, lastEpoch))
	}
	return valid | stamp(w.b.number)<<32 | stamp(w.id*lanes+lane)<<22 | stamp(min(w.b.shared.epoch, lastEpoch))<<11 | stamp(min(w.epoch, lastEpoch))
}

func (s stamp) block() int        { return int(s >> 32 & allBlocks) }
func (s stamp) thread() int       { return int(s >> 22 & 1023) }
func (s stamp) blockEpoch() int   { return int(s >> 11 & lastEpoch) }
func (s stamp) warpEpoch() int    { return int(s & lastEpoch) }
func (s stamp) several() bool     { return s&(severalLanes|severalWarps) != 0 }
func passed(before, now int) bool { return before != now || now == lastEpoch }

// before reports whether s comes before a later access of the same buffer by the
// order of its thread or by a barrier.
func (s stamp) before(now stamp, m *sharedMemory) bool {
	switch {
	case s == 0:
		return true
	case s.block() != now.block():
		return false
	case s.blockEpoch() == lastEpoch, s.blockEpoch() < int(m.full), s.thread() == now.thread() && !s.several():
		return true
	}
	if len(m.groups) > 0 {
		warps := uint32(1) << (now.thread() / lanes)
		if s&severalWarps == 0 { // which warps have read is not followed
			warps |= 1 << (s.thread() / lanes)
		}
		if m.ordered(uint32(s.blockEpoch()), warps) {
			return true
		}
	}
	return s&severalWarps == 0 && s.thread()/lanes == now.thread()/lanes && passed(s.warpEpoch(), now.warpEpoch())
}

// and is what to remember of reads s and now.
func (s stamp) and(now stamp, m *sharedMemory) stamp {
	switch {
	case s.before(now, m):
		return now
	case s.block() != now.block():
		return s | severalWarps | allBlocks<<32
	case s.thread()/lanes != now.thread()/lanes:
		return s | severalWarps
	case s.thread() != now.thread():
		return s | severalLanes
	}
	return s
}

// earlier is [stamp.before] for any function.
func (w *warp) earlier(s, now stamp) bool {
	switch {
	case w.b.cl == nil:
		return s.before(now, &w.b.shared)
	case s == 0:
		return true
	}
	b := w.mate(s)
	switch {
	case b == nil:
		return false
	case s.blockEpoch() == lastEpoch, b == w.b && s.thread() == now.thread() && !s.several(), s&severalWarps != 0: // which warps have read is not followed
		return true
	case b == w.b && s.thread()/lanes == now.thread()/lanes:
		return passed(s.warpEpoch(), now.warpEpoch()) || s.blockEpoch() != now.blockEpoch()
	}
	return int(w.clock.at(b.warps[s.thread()/lanes].index)) >= s.blockEpoch()
}

// mate is the block of a stamp, if it is of the warp's cluster, else nil.
func (w *warp) mate(s stamp) *block {
	for _, b := range w.b.cl.blocks {
		if b.number == s.block() {
			return b
		}
	}
	return nil
}

// both is [stamp.and] for any function.
func (w *warp) both(s, now stamp) stamp {
	if w.b.cl == nil {
		return s.and(now, &w.b.shared)
	}
	switch {
	case w.earlier(s, now):
		return now
	case w.mate(s) == nil:
		return s | severalWarps | allBlocks<<32
	case s.block() != now.block(), s.thread()/lanes != now.thread()/lanes:
		return s | severalWarps
	case s.thread() != now.thread():
		return s | severalLanes
	}
	return s
}

func (s stamp) String() string {
	switch {
	case s.block() == allBlocks:
		return "threads of several blocks"
	case s.several():
		return fmt.Sprintf("several threads of block %d", s.block())
	}
	return fmt.Sprintf("thread %d of block %d", s.thread(), s.block())
}

// touchedGlobal checks and records a lane's plain access of a tracked buffer.
func (w *warp) touchedGlobal(i *inst, lane int, t *tracker, at, size, addr uint64) bool {
	now := w.stamp(lane)
	conflict := func(u uint64, other stamp, did string) bool {
		if w.earlier(other, now) || t.fenced && other.block() != now.block() {
			return false
		}
		w.fail(lane, errRace, "Synchronize orders threads of a block; between blocks, publish with AtomicScalar order=acq_rel, or split the work into two launches",
			"%s was %s by %s, and no barrier lies between", w.where(i, addr-at+u*t.unit), did, other)
		return true
	}
	for u := at / t.unit; u*t.unit < at+size; u++ {
		if i.row.Class == code.Store {
			if conflict(u, stamp(t.writer[u].Swap(uint64(now))), "written") || conflict(u, stamp(t.reader[u].Load()), "read") {
				return false
			}
			continue
		}
		for {
			old := stamp(t.reader[u].Load())
			if both := w.both(old, now); both == old || t.reader[u].CompareAndSwap(uint64(old), uint64(both)) {
				break
			}
		}
		if conflict(u, stamp(t.writer[u].Load()), "written") {
			return false
		}
	}
	return true
}

// track gives the buffers that the function stores to a tracker; buffers of the
// same bytes share one.
func (m *machine) track(blocks int) {
	if blocks >= allBlocks {
		return
	}
	unit, fenced := uint64(16), false
	for _, t := range m.maps {
		unit = min(unit, uint64(t.m.Type.Bytes()))
	}
	m.f.Body.Walk(func(in *code.Instr) {
		if row := in.Row(); row.Space == code.Global && (row.Class == code.Load || row.Class == code.Store) && !row.Relaxed {
			unit = min(unit, uint64(row.Unit*row.Count))
		}
		if in.Op >= code.OpCpAsyncB32 && in.Op <= code.OpCpAsyncL2B128 {
			unit = min(unit, uint64(in.Row().Unit))
		}
		switch in.Op {
		case code.OpSpinGlobal, code.OpFenceGPU, code.OpAtomGlobalAcqRelAdd, code.OpAtomGlobalAcqRelInc, code.OpAtomGlobalAcqRelExch:
			fenced = true
		}
	})
	left := maxTracked
	shared := map[*byte]*tracker{}
	stored := storedParams(m.f)
	for k := range m.buffers {
		b := &m.buffers[k]
		if len(b.data) == 0 || stored>>min(b.param, 63)&1 == 0 {
			continue
		}
		if n := (len(b.data) + int(unit) - 1) / int(unit); shared[&b.data[0]] == nil && n <= left {
			left -= n
			shared[&b.data[0]] = &tracker{unit: unit, fenced: fenced, writer: make([]atomic.Uint64, n), reader: make([]atomic.Uint64, n)}
		}
	}
	for k := range m.buffers {
		if b := &m.buffers[k]; len(b.data) > 0 {
			if t := shared[&b.data[0]]; t != nil && uint64(len(t.writer))*unit >= uint64(len(b.data)) {
				b.track = t
			}
		}
	}
}

// storedParams is the set of parameters from which addresses of stores may be
// computed; bit 63 stands for all from the 64th on.
func storedParams(f *code.Func) (stored uint64) {
	from := make([]uint64, len(f.Types))
	for i, v := range f.Body.Args {
		from[v] = 1 << min(i, 63)
	}
	for again := true; again; {
		again = false
		f.Body.Walk(func(in *code.Instr) {
			var all uint64
			collect := func(vals []code.Value) {
				for _, v := range vals {
					if f.Type(v) == code.B64 {
						all |= from[v]
					}
				}
			}
			give := func(vals []code.Value) {
				for _, v := range vals {
					if f.Type(v) == code.B64 && from[v]|all != from[v] {
						from[v] |= all
						again = true
					}
				}
			}
			collect(in.In)
			for _, r := range in.Regions {
				collect(r.Yield)
			}
			give(in.Out)
			for _, r := range in.Regions {
				give(r.Args)
			}
		})
	}
	f.Body.Walk(func(in *code.Instr) {
		if row := in.Row(); row.Space == code.Global && row.Class == code.Store {
			stored |= from[in.In[0]]
		}
		if row := in.Row(); row.Class == code.Proxy && f.Type(in.In[0]) == code.B64 && !row.InPlace { // copies to global memory
			stored |= from[in.In[0]]
		}
	})
	for i, p := range f.Params {
		if p.Kind != code.Tensor || stored>>min(i, 63)&1 == 0 {
			continue
		}
		for k, q := range f.Params {
			if q.Name == p.Map.Base {
				stored |= 1 << min(k, 63)
			}
		}
	}
	return stored
}
