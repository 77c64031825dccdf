package sim

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// ledger remembers who used each byte of a block's shared memory, in functions where
// order comes from barriers that count, so that who has passed which barrier is not
// enough to know: see [clock].
type ledger struct {
	marks   []mark // nil without checks
	busy    []busy // of 16 bytes
	readers [][]reader
	bars    []*mbar // of 8 bytes
	remote  map[int]remote
}

// reader is the last read by one warp. lane -1 is all its lanes.
type reader struct {
	comp  int32 // component of clocks and 1; 0: nobody
	tick  uint32
	epoch uint32 // barriers of the warp passed
	lane  int16
	line  line
}

type mark struct {
	writer reader
	read   reader
	more   int32 // further readers: place in readers and 1
	job    int32 // the job that will write the byte; 0: none
	set    bool
}

// busy is 16 bytes that products and copies read.
type busy struct {
	users int32
	job   *job
}

// remote is the last access of a block's memory by a warp of another one, or by its copies that count
// at a barrier.
type remote struct {
	tick uint32
	pos  diag.Pos
}

// usedBy remembers an access by another block; those who know the number of the component know that it is over.
func (s *ledger) usedBy(comp int, tick uint32, pos diag.Pos) {
	if s.marks == nil {
		return
	}
	if s.remote == nil {
		s.remote = map[int]remote{}
	}
	s.remote[comp] = remote{tick, pos}
}

func (s *ledger) reset(n int, fast bool) {
	s.bars = make([]*mbar, (n+7)/8)
	s.remote = nil
	if fast {
		return
	}
	if len(s.marks) == n {
		clear(s.marks)
		clear(s.busy)
	} else {
		s.marks, s.busy = make([]mark, n), make([]busy, (n+15)/16)
	}
	s.readers = s.readers[:0]
}

func (w *warp) tick() uint32 { return w.clock.at(w.index) }

func (w *warp) reader(lane int) reader {
	return reader{int32(w.index + 1), w.tick(), w.epoch, int16(lane), lineOf(w.at())}
}

// past reports whether an access comes before what a lane of the warp does now.
func (w *warp) past(r reader, lane int) bool {
	switch {
	case r.comp == 0:
		return true
	case int(r.comp-1) == w.index:
		return r.lane < 0 || lane < 0 || int(r.lane) == lane || r.epoch != w.epoch
	}
	return w.clock.at(int(r.comp-1)) >= r.tick
}

// who names the maker of an access.
func (c *cluster) who(r reader) string {
	n := int(r.comp - 1)
	for _, b := range c.blocks {
		for _, w := range b.warps {
			if w.index != n {
				continue
			}
			text := fmt.Sprintf("thread %d", w.id*lanes+int(r.lane))
			if r.lane < 0 || r.lane == manyLanes {
				text = fmt.Sprintf("warp %d", w.id)
			}
			if len(c.blocks) > 1 {
				text += fmt.Sprintf(" of block rank %d", b.rank)
			}
			return text + r.line.String()
		}
	}
	for _, b := range c.blocks {
		for _, m := range b.ledger.bars {
			if m != nil && m.comp == n {
				return fmt.Sprintf("a copy counted at the barrier at shared offset %d, in its phase %d", m.at, r.tick-1)
			}
		}
	}
	return "a copy"
}

// use is how an access is made.
type use uint8

const (
	plainRead  use = iota
	plainWrite     // also of atomics, which do not ask for order
	copyRead       // by the asynchronous proxy
	copyWrite
)

// touch checks an access by a lane to bytes of block b, and records plain ones.
func (w *warp) touch(lane int, b *block, at, size uint64, how use, atomic bool) bool {
	s := &b.ledger
	if s.marks == nil {
		return true
	}
	c := w.b.cl
	place := func(j uint64) string {
		if b != w.b {
			return fmt.Sprintf("shared offset %d of block rank %d", j, b.rank)
		}
		return fmt.Sprintf("shared offset %d", j)
	}
	if b != w.b && how != copyWrite { // which is there when it has landed
		s.usedBy(w.index, w.tick(), w.at().pos)
	}
	write := how == plainWrite || how == copyWrite
	async := how == copyRead || how == copyWrite
	me := w.reader(lane)
	for j := at; j < at+size; j++ {
		t := &s.marks[j]
		if j == at || j%16 == 0 {
			if u := &s.busy[j/16]; write && u.users > 0 {
				w.fail(lane, errFlight, "wait for the copy or product that reads before writing its operands", "%s of %s (%s) may still read %s", u.job.op, c.warpName(u.job.w), u.job.pos, place(j))
				return false
			}
			if m := s.bars[j/8]; m != nil {
				w.fail(lane, errBarrier, "end the barrier with mbarrier.inval first", "%s holds a barrier, made at %s", place(j), m.pos)
				return false
			}
		} else if j%8 == 0 {
			if m := s.bars[j/8]; m != nil {
				w.fail(lane, errBarrier, "end the barrier with mbarrier.inval first", "%s holds a barrier, made at %s", place(j), m.pos)
				return false
			}
		}
		if t.job != 0 {
			job := c.jobs[t.job-1]
			w.fail(lane, errAsync, "wait for the phase of its barrier", "%s begun at %s is still on its way to %s", job.op, job.pos, place(j))
			return false
		}
		if (!write || atomic) && !t.set {
			help := setFirst
			if async {
				help = "wait for the phase in which a copy brings it"
			}
			w.fail(lane, errUnset, help, "read of %s before anything was written there", place(j))
			return false
		}
		if atomic {
			continue
		}
		if !w.past(t.writer, lane) {
			if int(t.writer.comp) > c.warps() {
				w.fail(lane, errAsync, "wait for that phase of the barrier", "%s was written by %s, for which this thread has not waited", place(j), c.who(t.writer))
			} else {
				w.fail(lane, errRace, betweenHelp, "%s was written by %s, and no barrier lies between", place(j), c.who(t.writer))
			}
			return false
		}
		if async && t.writer.comp != 0 && int(t.writer.comp) <= c.warps() && w.proxied.at(int(t.writer.comp-1)) < t.writer.tick {
			w.fail(lane, errProxy, "FenceProxyAsync by the threads that wrote, then a barrier, then the copy or product", "%s was written by %s with ordinary stores, and no proxy fence lies between", place(j), c.who(t.writer))
			return false
		}
		if !write {
			if how == plainRead {
				w.readBy(s, t, me)
			}
			continue
		}
		bad := reader{}
		if !w.past(t.read, lane) {
			bad = t.read
		}
		if t.more > 0 {
			for _, r := range s.readers[t.more-1] {
				if !w.past(r, lane) {
					bad = r
				}
			}
		}
		if bad.comp != 0 {
			w.fail(lane, errRace, betweenHelp, "%s was read by %s, and no barrier lies between", place(j), c.who(bad))
			return false
		}
		if how == plainWrite {
			t.writer, t.set, t.read = me, true, reader{}
			if t.more > 0 {
				s.readers[t.more-1] = s.readers[t.more-1][:0]
			}
		}
	}
	return true
}

// readBy adds a read to those of a byte.
func (w *warp) readBy(s *ledger, t *mark, me reader) {
	if t.read.comp == me.comp || w.past(t.read, int(me.lane)) {
		if t.read.comp == me.comp && t.read.lane != me.lane && t.read.epoch == me.epoch {
			me.lane = manyLanes
			if t.read.line != me.line {
				me.line = 0
			}
		}
		t.read = me
		return
	}
	if t.more == 0 {
		s.readers = append(s.readers, nil)
		t.more = int32(len(s.readers))
	}
	list := &s.readers[t.more-1]
	for k := range *list {
		if (*list)[k].comp == me.comp {
			(*list)[k] = me
			return
		}
	}
	*list = append(*list, me)
}

// manyLanes is several lanes of a warp, none of which is ordered before the others.
const manyLanes = 32

func (c *cluster) warps() int { return len(c.blocks) * len(c.blocks[0].warps) }

func (c *cluster) warpName(w *warp) string {
	if len(c.blocks) > 1 {
		return fmt.Sprintf("warp %d of block rank %d", w.id, w.b.rank)
	}
	return fmt.Sprintf("warp %d", w.id)
}

// hold marks bytes as read by a job until [ledger.free].
func (s *ledger) hold(j *job, at, size uint64) {
	if s.marks == nil {
		return
	}
	for g := at / 16; g*16 < at+size; g++ {
		s.busy[g].users++
		s.busy[g].job = j
	}
}

// free ends hold: the bytes count as read by a lane now.
func (s *ledger) free(w *warp, lane int, at, size uint64) {
	s.freeAs(w, w.reader(lane), at, size)
}

// freeAs is free where who knows of the read is not the lane.
func (s *ledger) freeAs(w *warp, me reader, at, size uint64) {
	if s.marks == nil {
		return
	}
	for g := at / 16; g*16 < at+size; g++ {
		s.busy[g].users--
	}
	for j := at; j < at+size; j++ {
		w.readBy(s, &s.marks[j], me)
	}
}

// expect marks bytes that a job will write.
func (s *ledger) expect(j *job, at, size uint64) {
	if s.marks == nil {
		return
	}
	for k := at; k < at+size; k++ {
		s.marks[k].job = j.n
	}
}

// landed says that they are written, which those know who know the number of the
// component.
func (s *ledger) landed(comp int, tick uint32, at, size uint64) {
	if s.marks == nil {
		return
	}
	for k := at; k < at+size; k++ {
		t := &s.marks[k]
		t.job, t.set, t.read = 0, true, reader{}
		t.writer = reader{comp: int32(comp + 1), tick: tick, lane: -1}
		if t.more > 0 {
			s.readers[t.more-1] = s.readers[t.more-1][:0]
		}
	}
}

// sharedTouched is [warp.touched] with a ledger.
func (w *warp) sharedTouched(i *inst, lane int, b *block, at, size uint64) bool {
	how := plainWrite
	if i.row.Class == code.Load {
		how = plainRead
	}
	if i.kind == kCopyBegin {
		how = copyBegin
	}
	return w.touch(lane, b, at, size, how, i.row.Class == code.Atomic)
}

// copyBegin is the write of cp.async: ordinary, but not yet made.
const copyBegin = plainWrite
