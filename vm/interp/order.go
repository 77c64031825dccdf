package interp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// marks remembers, per element of an array that the program writes, who wrote and
// who read it last.
type marks struct {
	writer, reader []mark
	// others are the reads, of elements that have some, that nothing orders before the
	// one in reader. The slices do not change.
	others map[int][]mark
}

// mark is one access, or several that nothing orders among themselves: one more
// than the number of the block (0 for nobody, -1 for several blocks), its thread
// (-1 for several), how many barriers the block and its thread groups had passed,
// and the set of threads that ran.
type mark struct {
	block         int64
	thread, epoch int32
	set           int16
	atomic        bool
	scope         scope  // of an atomic step
	fenced        bool   // the asynchronous proxy sees it
	line          uint16 // of the text; 0: not known, or several
}

// inLine is ", in line 7", and nothing where the line is not known.
func (k mark) inLine() string {
	if k.line == 0 {
		return ""
	}
	return fmt.Sprintf(", in line %d", k.line)
}

// scope is how far an atomic step is one: 0 the GPU.
type scope uint8

const (
	ofBlock scope = iota + 1
	ofCluster
)

var scopes = map[string]scope{"cta": ofBlock, "cluster": ofCluster}

// atomicWith reports that an access is an atomic step, and one for those who make this
// instruction's too.
func (m *Machine) atomicWith(k mark, in *ir.Instr) bool {
	if !k.atomic {
		return false
	}
	near := func(s scope) bool {
		switch s {
		case ofBlock:
			return k.block == int64(m.block)+1
		case ofCluster:
			return k.block == int64(m.block)+1 || slices.ContainsFunc(m.cluster, func(p peer) bool { return k.block == int64(p.block)+1 })
		}
		return true
	}
	return near(k.scope) && near(scopes[in.Scope()])
}

func newMarks(n int) *marks { return &marks{make([]mark, n), make([]mark, n), map[int][]mark{}} }

func (k *marks) clone() *marks {
	if k == nil {
		return nil
	}
	return &marks{slices.Clone(k.writer), slices.Clone(k.reader), maps.Clone(k.others)}
}

// place is one element of an array.
type place struct {
	arr  *array.Array
	flat int
}

// epochs says how much of what other blocks did comes before now: what a set of a
// block's threads did before it had passed so many barriers.
type epochs map[party]int32

// party is a set of threads of a block; 0 is all of them.
type party struct {
	block int64
	set   int16
}

func (e *epochs) add(other epochs) {
	if *e == nil && len(other) > 0 {
		*e = epochs{}
	}
	for b, n := range other {
		(*e)[b] = max((*e)[b], n)
	}
}

// order is what the running block knows about the others. What AtomicScalar takes
// over at an element comes before what its one thread does next, and with the next
// Synchronize before what all threads of the block do.
type order struct {
	epoch         int32   // barriers passed, those of thread groups included
	last          []int32 // per set of threads, the number of its last barrier; the block's first
	seen, pending epochs
	published     map[place]epochs
	acquired      map[int16]known // by barriers in shared memory, per set of threads
}

func (o order) clone() order {
	o.seen, o.pending = maps.Clone(o.seen), maps.Clone(o.pending)
	o.last = slices.Clone(o.last)
	published := make(map[place]epochs, len(o.published))
	for p, e := range o.published {
		published[p] = maps.Clone(e)
	}
	o.published = published
	o.acquired = maps.Clone(o.acquired)
	for set, k := range o.acquired {
		o.acquired[set] = maps.Clone(k)
	}
	return o
}

// enter forgets what the block before knew.
func (o *order) enter() {
	o.epoch, o.last, o.seen, o.pending, o.acquired = 0, []int32{0}, nil, nil, nil
}

func (m *Machine) me(thread int) mark {
	return mark{block: int64(m.block) + 1, thread: int32(m.thread(thread)), epoch: m.order.epoch, set: m.running(), line: m.line}
}

// before reports that an access comes before what a thread of the running block
// does now, whichever way the threads take turns.
func (m *Machine) before(k mark, thread int) bool {
	switch {
	case k.block == 0:
		return true
	case k.block == int64(m.block)+1:
		return k.epoch < m.order.last[0] || k.thread == int32(m.thread(thread)) || len(m.order.last) > 1 && m.groupBefore(k, thread) || m.learned(k, thread)
	}
	return k.block > 0 && m.told(k) || m.learned(k, thread)
}

// threadsOf is one thread, or a set of them for -1.
func (m *Machine) threadsOf(set int16, thread int) ir.Threads {
	if thread < 0 {
		return m.sets[set]
	}
	return ir.Threads{Begin: thread, Size: 1}
}

// told reports that another block published an access, and this one knows of it.
func (m *Machine) told(k mark) bool {
	if k.epoch < m.order.seen[party{k.block - 1, 0}] {
		return true
	}
	was := m.threadsOf(k.set, int(k.thread))
	for i := 1; i < len(m.sets); i++ {
		if k.epoch < m.order.seen[party{k.block - 1, int16(i)}] && m.sets[i].Has(was) {
			return true
		}
	}
	return false
}

// groupBefore reports that a barrier of a thread group lies between an access and
// what a thread does now, and both belong to the group.
func (m *Machine) groupBefore(k mark, thread int) bool {
	was, now := m.threadsOf(k.set, int(k.thread)), m.threadsOf(m.running(), m.thread(thread))
	for i, last := range m.order.last[1:] {
		if t := m.sets[i+1]; k.epoch < last && t.Has(was) && t.Has(now) {
			return true
		}
	}
	return false
}

// and is what to remember of reads k and one by a thread now.
func (m *Machine) and(k mark, thread int) mark {
	now := m.me(thread)
	switch {
	case m.before(k, thread):
	case k.block != now.block:
		now.block, now.line = -1, 0
	case k.thread != now.thread:
		now.thread = -1
		if k.line != now.line {
			now.line = 0
		}
		switch was, is := m.sets[k.set], m.sets[now.set]; {
		case was.Has(is):
			now.set = k.set
		case !is.Has(was):
			now.set = 0
		}
	}
	return now
}

// maxReaders bounds the reads of one element that are remembered one by one. More
// count as reads of several blocks, which only the end of the launch comes after.
const maxReaders = 64

// reads remembers a read by a thread now.
func (m *Machine) reads(k *marks, flat, thread int) {
	now, last := m.me(thread), k.reader[flat]
	others, several := k.others[flat]
	if !several {
		switch {
		case m.before(last, thread):
			k.reader[flat] = now
			return
		case last.block == now.block && last.set == now.set:
			k.reader[flat] = m.and(last, thread)
			return
		}
	}
	var left []mark
	for _, r := range append(slices.Clip(others), last) {
		switch {
		case m.before(r, thread):
		case r.block == now.block && r.set == now.set:
			if r.thread != now.thread {
				now.thread = -1
				if r.line != now.line {
					now.line = 0
				}
			}
		default:
			left = append(left, r)
		}
	}
	if len(left) > maxReaders {
		now.block, now.line, left = -1, 0, nil
	}
	k.reader[flat] = now
	if left == nil {
		delete(k.others, flat)
	} else {
		k.others[flat] = left
	}
}

// afterReads complains when a thread changes an element that others read.
func (m *Machine) afterReads(in *ir.Instr, g *global, k *marks, thread, flat int, does string) error {
	for _, r := range k.others[flat] {
		if err := m.ordered(in, g, r, thread, flat, does, "read"); err != nil {
			return err
		}
	}
	return m.ordered(in, g, k.reader[flat], thread, flat, does, "read")
}

// ordered complains when a thread touches an element that another one used.
func (m *Machine) ordered(in *ir.Instr, g *global, other mark, thread, flat int, does, did string) error {
	if m.before(other, thread) {
		return nil
	}
	who := "threads of several blocks"
	switch {
	case other.block > 0 && other.thread < 0:
		who = fmt.Sprintf("several threads of block %d", other.block-1)
	case other.block > 0:
		who = fmt.Sprintf("thread %d of block %d", other.thread, other.block-1)
	}
	return problem(in.Pos, "Run.E4", "Synchronize orders threads of a block; between blocks, publish with AtomicScalar order=acq_rel, or split the work into two launches",
		"thread %d of block %d %s element %d of %s, which %s %s in this launch%s", m.thread(thread), m.block, does, flat, g.name, who, did, other.inLine())
}

func synchronize(m *Machine, _ *ir.Instr) error {
	o, set := &m.order, int(m.running())
	o.epoch++
	for len(o.last) <= set {
		o.last = append(o.last, 0)
	}
	o.last[set] = o.epoch
	m.order.seen.add(m.order.pending)
	m.order.pending = nil
	for other, k := range o.acquired { // what some knew, all do
		if int(other) != set && m.sets[set].Has(m.sets[other]) {
			m.acquire(k)
		}
	}
	return nil
}

// synchronizeReduce is a barrier with one answer for all threads.
func synchronizeReduce(m *Machine, in *ir.Instr) error {
	x, err := m.tile(in, 0)
	if err != nil {
		return err
	}
	all := in.Attr("op").Word == "all"
	found := all
	for _, c := range x.codes {
		if (c != 0) != all {
			found = !all
		}
	}
	n := int64(0)
	if found {
		n = 1
	}
	m.set(in.Out[0], value{set: true, n: n})
	return synchronize(m, in)
}

// nothing is the meaning of what only makes machines faster: what lets launches
// overlap, or fills caches.
func nothing(*Machine, *ir.Instr) error { return nil }

// prefetch changes nothing; its offset must be numbers all the same.
func prefetch(m *Machine, in *ir.Instr) error {
	for _, e := range in.Attr("offset").Exprs {
		if _, err := m.int(e); err != nil {
			return err
		}
	}
	return nil
}

// atomicScalar is a step of thread 0.
func atomicScalar(m *Machine, in *ir.Instr) error {
	v, err := m.int(in.In[1].Expr)
	if err != nil {
		return err
	}
	if !ir.CheckRange(in.Out[0].Type.Elem, v) {
		return problem(in.In[1].Pos, "Expr.R1", "", "%d is no %s", v, in.Out[0].Type.Elem)
	}
	compare := int64(0)
	if len(in.In) > 2 {
		if compare, err = m.int(in.In[2].Expr); err != nil {
			return err
		}
		if !ir.CheckRange(in.Out[0].Type.Elem, compare) {
			return problem(in.In[2].Pos, "Expr.R1", "", "%d is no %s", compare, in.Out[0].Type.Elem)
		}
	}
	r, err := m.region(in, 0)
	if err != nil {
		return err
	}
	flat, ok := r.element(nil)
	if !ok {
		m.set(in.Out[0], value{set: true})
		return nil
	}
	if err := m.written(in, r.g, flat); err != nil {
		return err
	}
	k := m.marks[r.g.arr]
	if err := m.atomicMark(in, r.g, k, flat, 0); err != nil {
		return err
	}
	old := uint32(r.g.arr.Code(flat))
	to, op := uint32(v), in.Attr("op").Word
	if op == "inc" {
		if to = old + 1; old >= uint32(v) {
			to = 0
		}
	} else {
		to = uint32(atomicStep(op, dtype.I32, true, uint64(old), uint64(to), uint64(uint32(compare))))
	}
	r.g.arr.SetCode(flat, uint64(to))
	m.set(in.Out[0], value{set: true, n: int64(int32(old))})
	m.exchange(in, place{r.g.arr, flat})
	return nil
}

// exchange does what the order of an atomic step at an element asks for.
func (m *Machine) exchange(in *ir.Instr, p place) {
	if in.Acquires() {
		m.takeOver(p)
	}
	if in.Releases() {
		m.publish(p)
	}
}

// takeOver makes what is published at an element known to the block with its next
// barrier.
func (m *Machine) takeOver(p place) { m.order.pending.add(m.order.published[p]) }

// publish publishes at an element what the block did before its last barrier, what the
// running thread group did before its own, and what the block took over itself.
func (m *Machine) publish(p place) {
	o := &m.order
	if o.published == nil {
		o.published = map[place]epochs{}
	}
	e := o.published[p]
	e.add(o.seen)
	e.add(o.pending)
	e.add(epochs{{int64(m.block), 0}: o.last[0]})
	if set := m.running(); set > 0 && len(o.last) > int(set) {
		e.add(epochs{{int64(m.block), set}: o.last[set]})
	}
	o.published[p] = e
}
