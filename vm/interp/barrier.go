package interp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// barrier is one barrier of an AllocateBarrier. What threads that arrived knew is
// handed on to those that wait.
type barrier struct {
	phase   int64 // of the arrivals to come
	arrived int
	bytes   int64 // that the phase still waits for; negative where copies came first
	// gathers is what comes before the end of the running phase; gives what came before
	// the last one.
	gathers, gives known
	// Copies whose bytes come to the running phase, and those of the last one that
	// nobody has waited for.
	coming, here []landing
}

// landing is a copy into a tile.
type landing struct {
	block  int
	tile   int
	places []int32
	from   *source // of a copy between blocks, or an operand of a product in tensor memory
	// product says that the places are cells of tensor memory.
	product bool
}

// barriers are those of one AllocateBarrier, or of one AllocatePipeline: its stages'
// full ones, then their empty ones.
type barriers struct {
	name   string
	count  [2]int // arrivals of a phase; of a pipeline, of full and of empty ones
	stages int
	list   []barrier
	line   int
}

// The sides of a pipeline. Barriers of AllocateBarrier have the first alone.
const (
	full = iota
	empty
)

func (b *barriers) clone() *barriers {
	if b == nil {
		return nil
	}
	c := *b
	c.list = slices.Clone(b.list)
	for i := range c.list {
		x := &c.list[i]
		x.gathers, x.gives = maps.Clone(x.gathers), maps.Clone(x.gives)
		x.coming, x.here = slices.Clone(x.coming), slices.Clone(x.here)
	}
	return &c
}

// those is a set of threads of a block of the grid.
type those struct {
	block int64
	set   int16
}

// known says how much of what sets of threads did comes before now: what they did
// in epochs before that.
type known map[those]int32

func (k *known) add(other known) {
	if *k == nil && len(other) > 0 {
		*k = known{}
	}
	for t, n := range other {
		(*k)[t] = max((*k)[t], n)
	}
}

// self is the running set of threads.
func (m *Machine) self() those { return those{int64(m.block), m.running()} }

// released is all that comes before what the running threads do now.
func (m *Machine) released() known {
	o, me := &m.order, m.self()
	o.epoch++
	k := known{me: o.epoch}
	mine := m.sets[me.set]
	for i, last := range o.last {
		if m.sets[i].Has(mine) {
			t := those{me.block, int16(i)}
			k[t] = max(k[t], last)
		}
	}
	for set, what := range o.acquired {
		if m.sets[set].Has(mine) {
			k.add(what)
		}
	}
	return k
}

// acquire lets the running threads know what comes before now.
func (m *Machine) acquire(k known) {
	o := &m.order
	if o.acquired == nil {
		o.acquired = map[int16]known{}
	}
	mine := o.acquired[m.running()]
	mine.add(k)
	o.acquired[m.running()] = mine
}

// learned reports that an access comes before what a thread does now by a barrier in
// shared memory or of the cluster.
func (m *Machine) learned(k mark, thread int) bool {
	if len(m.order.acquired) == 0 || k.block <= 0 {
		return false
	}
	now := m.sets[m.running()]
	if t := m.thread(thread); t >= 0 {
		now = ir.Threads{Begin: t, Size: 1}
	}
	for set, what := range m.order.acquired {
		if m.sets[set].Has(now) && m.covers(what, k) {
			return true
		}
	}
	return false
}

// covers reports that an access is among what is known.
func (m *Machine) covers(what known, k mark) bool {
	was := m.sets[k.set]
	if k.thread >= 0 {
		was = ir.Threads{Begin: int(k.thread), Size: 1}
	}
	for t, epoch := range what {
		if t.block == k.block-1 && k.epoch < epoch && (t.set == k.set || m.sets[t.set].Has(was)) {
			return true
		}
	}
	return false
}

// copierOf is the set of threads that stands for the copies of one barrier.
func (m *Machine) copierOf(tile, element int) int16 {
	return m.setOf(ir.Threads{Begin: -2 - tile*4096 - element})
}

func allocateBarrier(m *Machine, in *ir.Instr) error {
	if err := allocateShared(m, in); err != nil {
		return err
	}
	t := m.smem.tiles[len(m.smem.tiles)-1]
	t.barriers = &barriers{name: in.Out[0].Name, stages: ir.Stages(in.Out[0].Type), list: make([]barrier, len(t.codes)), line: in.Pos.Line}
	if a := in.Attr("count"); a != nil {
		t.barriers.count[full] = int(a.Number)
	} else {
		t.barriers.count = [2]int{int(in.Attr("producers").Number), int(in.Attr("consumers").Number)}
	}
	for i := range t.writer {
		t.writer[i] = m.me(0)
	}
	return nil
}

// turn is one barrier in one of its phases.
type turn struct {
	t       *sharedTile
	b       *barrier
	tile, i int
	block   int
	number  int64
	phase   int64
	name    string
	count   int // arrivals that it waits for
}

// turnOf evaluates operands i, barriers or a pipeline whose bytes come to it, and i+1, a
// turn, in the memory of a block.
func (m *Machine) turnOf(in *ir.Instr, i int, mem memory) (*turn, error) {
	return m.turnOn(in, i, mem, full)
}

// turnOn is turnOf on one side of a pipeline.
func (m *Machine) turnOn(in *ir.Instr, i int, mem memory, side int) (*turn, error) {
	s := m.get(in.In[i].Var()).shared
	n, err := m.int(in.In[i+1].Expr)
	if err != nil {
		return nil, err
	}
	t := mem.tiles[s.tile]
	size := int64(t.barriers.stages)
	if in.Op.Name == "AcquirePipeline" {
		n -= size
	}
	at, phase := n%size, n/size
	if at < 0 {
		at, phase = at+size, phase-1
	}
	name := s.name
	if side == empty {
		at += size
		name = "the releases of " + name
	}
	x := &turn{t: t, b: &t.barriers.list[at], tile: s.tile, i: int(at), block: mem.block, number: n, phase: phase, name: name, count: t.barriers.count[side]}
	if !m.before(t.writer[at], someone) {
		return nil, problem(in.Pos, "Run.E4", "Synchronize behind what makes barriers, before the first use; of another block's, ClusterSynchronize", "barriers %s may not be made yet: nothing orders this behind line %d", s.name, t.barriers.line)
	}
	return x, nil
}

// present checks that a turn's phase is the running one.
func (m *Machine) present(in *ir.Instr, x *turn, does string) error {
	if x.phase == x.b.phase {
		return nil
	}
	what := "is still in"
	if x.phase < x.b.phase {
		what = "is already in"
	}
	return problem(in.Pos, "Run.E19", "let turns go up by one, and wait for turn t - n of what empties a stage before turn t fills it", "%s turn %d of %s, phase %d of barrier %d, which %s phase %d", does, x.number, x.name, x.phase, x.i, what, x.b.phase)
}

// settleBarrier ends a phase that has all it waits for.
func (m *Machine) settleBarrier(in *ir.Instr, x *turn) error {
	b := x.b
	switch {
	case b.arrived < x.count:
		return nil
	case b.bytes < 0:
		return problem(in.Pos, "Run.E21", "let ArriveExpectTxBarrier or CommitPipeline expect the bytes of all copies of the turn", "copies bring %d bytes more to turn %d of %s than it expects", -b.bytes, x.number, x.name)
	case b.bytes > 0:
		return nil
	}
	b.phase++
	b.arrived = 0
	b.gives, b.gathers = b.gathers, nil
	if len(b.coming) > 0 {
		b.gives.add(known{those{int64(x.block), m.copierOf(x.tile, x.i)}: m.order.epoch + 1})
		m.order.epoch++
	}
	b.here, b.coming = append(b.here, b.coming...), nil
	m.wake()
	return nil
}

// wake lets all strands look again at what they wait for.
func (m *Machine) wake() {
	for i := range m.strands {
		m.strands[i].blocked = false
	}
	m.idle = false
	for i := range m.cluster {
		m.cluster[i].idle = false
		for j := range m.cluster[i].strands {
			m.cluster[i].strands[j].blocked = false
		}
	}
}

func (m *Machine) arrive(in *ir.Instr, side, count int, bytes int64) error {
	mem, err := m.usesOf(in)
	if err != nil {
		return err
	}
	x, err := m.turnOn(in, 0, mem, side)
	if err != nil {
		return err
	}
	if err := m.present(in, x, "arrives at"); err != nil {
		return err
	}
	if x.b.arrived+count > x.count {
		return problem(in.Pos, "Run.E19", "what makes barriers says how many arrivals a phase has: one for each warp that arrives", "%d more arrivals at turn %d of %s, which has %d of %d", count, x.number, x.name, x.b.arrived, x.count)
	}
	x.b.gathers.add(m.released())
	x.b.arrived += count
	x.b.bytes += bytes
	return m.settleBarrier(in, x)
}

// warpsHere is how often the threads that run arrive: once for each warp.
func (m *Machine) warpsHere() int { return max(1, m.sets[m.running()].Size/ir.LanesPerWarp) }

func arriveBarrier(m *Machine, in *ir.Instr) error { return m.arrive(in, full, m.warpsHere(), 0) }

func arriveExpectTxBarrier(m *Machine, in *ir.Instr) error {
	return m.arrive(in, full, 1, int64(in.Attr("bytes").Number))
}

func commitPipeline(m *Machine, in *ir.Instr) error {
	switch {
	case in.Attr("after") != nil:
		return m.afterProducts(in, full)
	case in.Attr("bytes") != nil:
		return arriveExpectTxBarrier(m, in)
	}
	return arriveBarrier(m, in)
}

func releasePipeline(m *Machine, in *ir.Instr) error {
	if in.Attr("after") != nil {
		return m.afterProducts(in, empty)
	}
	return m.arrive(in, empty, m.warpsHere(), 0)
}

func waitBarrier(m *Machine, in *ir.Instr) error { return m.waitTurn(in, full) }

func acquirePipeline(m *Machine, in *ir.Instr) error { return m.waitTurn(in, empty) }

func (m *Machine) waitTurn(in *ir.Instr, side int) error {
	x, err := m.turnOn(in, 0, m.own(), side)
	if err != nil {
		return err
	}
	b := x.b
	switch {
	case x.phase == b.phase:
		return m.waitFor(func() error {
			if b.bytes == 0 {
				return problem(in.Pos, "Run.E20", "let every way through the program arrive as often as count says, and wait for no turn that nobody fills", "nobody who can run will complete turn %d of %s: it has %d of %d arrivals", x.number, x.name, b.arrived, x.count)
			}
			return problem(in.Pos, "Run.E21", "let ArriveExpectTxBarrier or CommitPipeline expect the bytes of all copies of the turn", "nobody will complete turn %d of %s: %d of %d arrivals, and %s", x.number, x.name, b.arrived, x.count, bytesText(b.bytes))
		})
	case x.phase != b.phase-1:
		return m.present(in, x, "waits for")
	}
	m.acquire(b.gives)
	if len(b.here) > 0 {
		now := m.several()
		now.fenced = true
		now.set = m.copierOf(x.tile, x.i)
		now.epoch = b.gives[those{int64(m.block), now.set}] - 1
		for _, c := range b.here {
			if c.from != nil {
				m.readOf(m.memoryAt(c.from.block), c.from.reading, now)
			}
			mem := m.memoryAt(c.block)
			if mem == nil || c.tile < 0 || c.tile >= len(mem.tiles) || mem.tiles[c.tile] == nil {
				continue
			}
			t := mem.tiles[c.tile]
			if c.product {
				for _, at := range c.places {
					if t.pending[at] {
						t.pending[at] = false
						t.copies--
					}
					t.writer[at] = now
				}
				continue
			}
			for _, at := range c.places {
				t.pending[at], t.writer[at] = false, now
			}
			t.copies -= len(c.places)
			t.used = lastUse{t.name, m.several()}
		}
		b.here = nil
	}
	return nil
}

func bytesText(n int64) string {
	if n > 0 {
		return fmt.Sprintf("%d bytes more are expected than copies bring", n)
	}
	return fmt.Sprintf("copies bring %d bytes more than are expected", -n)
}

// fenceProxyAsync shows what was stored before it to the asynchronous proxy.
func fenceProxyAsync(m *Machine, _ *ir.Instr) error {
	mine := m.sets[m.running()]
	for _, t := range m.smem.tiles {
		if t == nil {
			continue
		}
		for i := range t.writer {
			k := &t.writer[i]
			if k.block == 0 || k.fenced {
				continue
			}
			by := m.sets[k.set]
			if k.thread >= 0 {
				by = ir.Threads{Begin: int(k.thread), Size: 1}
			}
			k.fenced = k.block == int64(m.block)+1 && mine.Has(by) || m.before(*k, someone)
		}
	}
	return nil
}
