package sim

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// cluster is the blocks of one cluster, which run together, and what they have begun
// that the machine does on its own: copies that land later. A function without
// clusters has one block in each.
type cluster struct {
	m      *machine
	blocks []*block
	queue  []*job // begun and not landed, the oldest first
	jobs   []*job // all, by number
	polled bool   // a warp asked whether a phase has ended and was told no
	comps  int    // components of clocks
	order  *rand.Rand
	// clock and proxied are what arrivals at the cluster's barrier brought.
	clock, proxied clock
}

// job is something that the machine does on its own after an instruction.
type job struct {
	n    int32 // place in cluster.jobs, from 1
	w    *warp
	pos  diag.Pos
	op   code.Op
	land func() *diag.Problem
	step func() *diag.Problem // of a pipe: what lands when its turn comes
	free func(m *mbar)        // gives its source back to those who wait for the phase
}

func newCluster(m *machine) *cluster {
	c := &cluster{m: m}
	for rank := range m.clusterSize() {
		b := newBlock(m)
		b.cl, b.rank = c, rank
		c.blocks = append(c.blocks, b)
	}
	return c
}

// clusterSize is the blocks of a cluster.
func (m *machine) clusterSize() int {
	n := 1
	for _, d := range m.f.Launch.Cluster {
		n *= max(d, 1)
	}
	return n
}

// first is the first block of cluster u.
func (c *cluster) first(u int) (first [3]int) {
	g, d := c.m.launch.Grid, c.m.f.Launch.Cluster
	for i := range d {
		size := max(d[i], 1)
		n := g[i] / size
		first[i] = u % n * size
		u /= n
	}
	return first
}

// start makes cluster u ready.
func (c *cluster) start(u int) {
	g, d := c.m.launch.Grid, c.m.f.Launch.Cluster
	for i := range d {
		d[i] = max(d[i], 1)
	}
	first := c.first(u)
	c.queue, c.jobs, c.clock, c.proxied = nil, nil, nil, nil
	c.order = nil
	if c.m.opt.Seed != 0 {
		c.order = rand.New(rand.NewPCG(c.m.opt.Seed, uint64(u)))
	}
	c.comps = 0
	for r, b := range c.blocks {
		at := [3]int{first[0] + r%d[0], first[1] + r/d[0]%d[1], first[2] + r/d[0]/d[1]}
		b.start(at[0] + g[0]*(at[1]+g[1]*at[2]))
		b.ledger.reset(len(b.shared.data), c.m.opt.Fast)
		b.extra = nil
		b.issued = [8][]uint64{}
		b.over, b.tensor = false, nil
		for _, w := range b.warps {
			w.index = c.comps
			c.comps++
			w.clock, w.proxied = nil, nil
			w.clock.set(w.index, begun+1)
			w.came, w.passed, w.products = 0, 0, 0
			w.bulk = [lanes]bulkGroups{}
			w.flights, w.loads = flights{fence: -1}, nil
			if c.m.prog.products {
				w.wrote, w.flying = make([]int64, c.m.prog.regs), make([]int16, c.m.prog.regs)
			}
		}
	}
}

// run executes the cluster of a turn and reports what it did wrong, or nil.
func (c *cluster) run(turn int64) *diag.Problem {
	c.start(c.m.unit(turn))
	for {
		running, moved := 0, false
		c.polled = false
		for _, b := range c.blocks {
			for _, w := range b.warps {
				if w.done || w.barrier >= 0 {
					continue
				}
				before := w.steps
				w.waits = false
				w.run(quantum)
				if b.err != nil {
					return b.err
				}
				if c.m.stop.Load() {
					w.stands()
				}
				if c.m.stop.Load() || c.m.failed.Load() < turn {
					return nil
				}
				moved = moved || w.steps != before || w.done
				if !w.done && w.barrier < 0 && !w.waits {
					running++
				}
			}
			if p := c.ended(b); p != nil {
				return p
			}
		}
		if running > 0 {
			if c.polled {
				if _, p := c.landOne(); p != nil {
					return p
				}
			}
			continue
		}
		if moved || c.release() {
			continue
		}
		landed, p := c.landOne()
		if p != nil {
			return p
		}
		if !landed {
			return c.stuck()
		}
	}
}

// landOne lets one copy arrive: the oldest, or with a seed any.
func (c *cluster) landOne() (bool, *diag.Problem) {
	if len(c.queue) == 0 {
		return false, nil
	}
	k := 0
	if c.order != nil {
		k = c.order.IntN(len(c.queue))
	}
	j := c.queue[k]
	c.queue = slices.Delete(c.queue, k, k+1)
	return true, j.land()
}

func (c *cluster) begin(w *warp, i *inst, land func(j *job) *diag.Problem) *job {
	j := &job{n: int32(len(c.jobs) + 1), w: w, pos: i.pos, op: i.op}
	j.land = func() *diag.Problem { return land(j) }
	c.jobs = append(c.jobs, j)
	c.queue = append(c.queue, j)
	return j
}

func (j *job) problem(errCode, help, format string, args ...any) *diag.Problem {
	b := j.w.b
	return &diag.Problem{Pos: j.pos, Code: errCode, Help: help,
		Msg: fmt.Sprintf("block (%d, %d, %d): %s: ", b.ctaid[0], b.ctaid[1], b.ctaid[2], j.op) + fmt.Sprintf(format, args...)}
}

// release opens barriers of blocks that all have reached, and reports whether there
// was one.
func (c *cluster) release() bool {
	opened := false
	for _, b := range c.blocks {
		if b.releaseGroups() {
			opened = true
			continue
		}
		all, any := true, false
		for _, w := range b.warps {
			all = all && !w.done && w.barrier >= 0 && w.count == 0 && w.barrier == b.warps[0].barrier
			any = true
		}
		if !all || !any {
			continue
		}
		opened = true
		b.meet(b.warps, nil, nil)
		for _, w := range b.warps {
			w.barrier = -1
			w.pc++
		}
		b.shared.pass(^uint32(0))
	}
	return opened
}

// meet makes warps know what each of them knows, and what came with others that do
// not wait.
func (b *block) meet(warps []*warp, more, moreProxied clock) {
	var k, p clock
	k.join(more)
	p.join(moreProxied)
	for _, w := range warps {
		k.join(w.clock)
		p.join(w.proxied)
	}
	for _, w := range warps {
		w.clock.join(k)
		w.proxied.join(p)
		w.clock.set(w.index, w.clock.at(w.index)+1)
		w.epoch++
	}
}

// stuck says why nobody can go on, or nil where all have ended.
func (c *cluster) stuck() *diag.Problem {
	var first *warp
	for _, b := range c.blocks {
		for _, w := range b.warps {
			if !w.done && (first == nil || first.barrier >= 0 && w.barrier < 0) {
				first = w
			}
		}
	}
	if first == nil {
		return nil
	}
	p := first.b.problem(first, errDeadlock, "count who arrives at each barrier in each phase, and how many bytes come", "nothing can go on: %s", first.waiting())
	told := 0
	for _, b := range c.blocks {
		for _, w := range b.warps {
			if w == first || w.done || told == 3 {
				continue
			}
			if w.b == first.b && w.at() == first.at() {
				continue
			}
			p.Msg += fmt.Sprintf("; %s (%s)", w.waiting(), w.at().pos)
			told++
		}
	}
	for _, b := range c.blocks {
		var ended []int
		for _, w := range b.warps {
			if w.done {
				ended = append(ended, w.id)
			}
		}
		if len(ended) > 0 {
			p.Msg += diag.Sprintf("; warps %v of block rank %d have ended", ended, b.rank)
		}
	}
	return p
}

// waiting is what a warp waits for.
func (w *warp) waiting() string {
	i := w.at()
	who := fmt.Sprintf("warp %d", w.id)
	if len(w.b.cl.blocks) > 1 {
		who += fmt.Sprintf(" of block rank %d", w.b.rank)
	}
	switch {
	case w.barrier >= 0 && w.count > 0:
		return fmt.Sprintf("%s waits at barrier %d for %d threads", who, w.barrier, w.count)
	case w.barrier >= 0:
		return fmt.Sprintf("%s waits at barrier %d for the block", who, w.barrier)
	case i.op == code.OpClusterWait:
		return who + " waits for the cluster"
	case i.op == code.OpMbarWait, i.op == code.OpMbarWaitParity, i.op == code.OpMbarWaitParityCluster:
		l := bits.TrailingZeros32(w.mask)
		at := uint64(uint32(w.regs[int(i.in[0])+l]+uint64(i.imm[0]))) - sharedBase
		b := w.b.bar(at)
		if b == nil {
			return fmt.Sprintf("%s waits at shared offset %d", who, at)
		}
		return fmt.Sprintf("%s waits for %s of the barrier at shared offset %d (made at %s), which is in phase %d, parity %d: %s", who, b.asked(i, w.regs[int(i.in[1])+l]), at, b.pos, b.phase, b.phase&1, b.missing())
	case i.kind == kSpin:
		return who + " waits for a word in memory that nobody writes"
	}
	return fmt.Sprintf("%s is at %s", who, i.op)
}

// ended checks a block whose last warp has just ended: nothing may still use its
// shared memory.
func (c *cluster) ended(b *block) *diag.Problem {
	if b.over {
		return nil
	}
	var know clock
	for _, w := range b.warps {
		if !w.done {
			return nil
		}
		know.join(w.clock)
	}
	b.over = true
	for _, j := range c.queue {
		if j.w.b == b && j.op.Row().Class == code.Proxy {
			return j.problem(errAsync, "wait for copies before the block ends", "the block has ended, and the copy is still on its way")
		}
	}
	for _, w := range b.warps {
		for l := range w.bulk {
			for _, g := range append(w.bulk[l].groups, w.bulk[l].open) {
				for _, r := range g {
					if !r.read {
						return r.job.problem(errAsync, "commit the group, and wait for it with .read before the block ends", "the block has ended, and nobody has waited until the copy has read its shared memory")
					}
				}
			}
		}
	}
	if b.tensor != nil {
		if p := b.tensor.left(b); p != nil {
			return p
		}
	}
	for comp, r := range b.ledger.remote {
		if know.at(comp) < r.tick {
			return &diag.Problem{Pos: r.pos, Code: errRace, Help: "wait at the cluster's barrier before the block ends", Msg: fmt.Sprintf("block (%d, %d, %d) of the cluster may have ended before another block uses its shared memory here", b.ctaid[0], b.ctaid[1], b.ctaid[2])}
		}
	}
	return nil
}

// clock is how far one knows what others have done: one number for each warp of the
// cluster, and for each barrier in shared memory. An access at a number is in the
// past of those who know a number as large.
type clock []uint32

func (c clock) at(i int) uint32 {
	if i < len(c) {
		return c[i]
	}
	return 0
}

func (c *clock) set(i int, v uint32) {
	for len(*c) <= i {
		*c = append(*c, 0)
	}
	(*c)[i] = v
}

func (c *clock) join(o clock) {
	for len(*c) < len(o) {
		*c = append(*c, 0)
	}
	for i, v := range o {
		(*c)[i] = max((*c)[i], v)
	}
}

// publish gives what a warp knows to others, and lets its next accesses be later.
func (w *warp) publish(k, p *clock) {
	k.join(w.clock)
	p.join(w.proxied)
	w.clock.set(w.index, w.clock.at(w.index)+1)
}

// resolve is the block and offset of a shared or cluster address.
func (w *warp) resolve(lane int, addr uint64) (*block, uint64, bool) {
	b := w.b
	if rank := addr >> windowShift; rank > 0 {
		if int(rank) > len(b.cl.blocks) {
			w.fail(lane, errBounds, "", "address %#x lies in no block of the cluster", addr)
			return nil, 0, false
		}
		b = b.cl.blocks[rank-1]
		addr &= 1<<windowShift - 1
	}
	if b != w.b {
		if w.clock.at(b.warps[0].index) == 0 && !b.m.opt.Fast {
			w.fail(lane, errRace, "wait at the cluster's barrier before the first use of another block's shared memory", "block rank %d may not have begun", b.rank)
			return nil, 0, false
		}
		if b.over {
			w.fail(lane, errRace, "wait at the cluster's barrier before blocks end", "block rank %d has ended", b.rank)
			return nil, 0, false
		}
	}
	return b, addr - sharedBase, true
}

// windowShift is where a cluster address has the block's rank and one.
const windowShift = 24
