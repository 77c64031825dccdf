package interp

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// peer is a block of the running cluster that is not at work now.
type peer struct {
	block   int
	frames  []frame
	vars    []value
	strands []strand
	cur     int
	order   order
	smem    sharedMemory
	idle    bool // all its strands wait
	stuck   stuck
	syncing bool // it has come to a barrier of the cluster
	syncAt  int64
	done    bool
}

func (p peer) clone() peer {
	s := state{frames: p.frames, vars: p.vars, strands: p.strands, order: p.order, smem: p.smem}.clone()
	p.frames, p.vars, p.strands, p.order, p.smem = s.frames, s.vars, s.strands, s.order, s.smem
	return p
}

// gathering is the barrier of the running cluster.
type gathering struct {
	phase          int64
	count          int
	gathers, gives known
}

// clusterOf lists the blocks of a cluster, by its number.
func (m *Machine) clusterOf(n int) []int {
	c, g := [3]int{1, 1, 1}, [3]int{}
	for d := range c {
		if d < len(m.prog.Cluster) {
			c[d] = m.prog.Cluster[d]
		}
		g[d] = m.grid[d] / c[d]
	}
	at := [3]int{n % g[0] * c[0], n / g[0] % g[1] * c[1], n / (g[0] * g[1]) * c[2]}
	if at[2] >= m.grid[2] {
		return nil
	}
	var out []int
	for z := range c[2] {
		for y := range c[1] {
			for x := range c[0] {
				out = append(out, at[0]+x+m.grid[0]*(at[1]+y+m.grid[1]*(at[2]+z)))
			}
		}
	}
	return out
}

// enterCluster begins cluster n of the grid, or ends the launch.
func (m *Machine) enterCluster(n int) {
	m.begun, m.cluster, m.rank, m.gathering = n+1, nil, 0, gathering{}
	blocks := m.clusterOf(n)
	if blocks == nil {
		m.enterBlock(m.grid[0] * m.grid[1] * m.grid[2])
		return
	}
	list := make([]peer, len(blocks))
	for r, b := range blocks {
		m.idle, m.syncing = false, false
		m.enterBlock(b)
		if m.done {
			return
		}
		m.save(&list[r])
	}
	m.cluster = list
	m.load(0)
}

func (m *Machine) save(p *peer) {
	*p = peer{block: m.block, frames: m.frames, vars: m.vars, strands: m.strands, cur: m.cur, order: m.order, smem: m.smem, idle: m.idle, stuck: m.stuck, syncing: m.syncing, syncAt: m.syncAt, done: p.done}
}

// load lets the block of a rank run. The clock and what is published go on.
func (m *Machine) load(rank int) {
	p := &m.cluster[rank]
	epoch, published := m.order.epoch, m.order.published
	m.rank, m.block, m.frames, m.vars, m.strands, m.cur, m.order, m.smem = rank, p.block, p.frames, p.vars, p.strands, p.cur, p.order, p.smem
	m.idle, m.stuck, m.syncing, m.syncAt = p.idle, p.stuck, p.syncing, p.syncAt
	m.order.epoch, m.order.published = max(epoch, m.order.epoch), published
}

// rotate lets the next block of the cluster have a step.
func (m *Machine) rotate() {
	if len(m.cluster) < 2 || m.done {
		return
	}
	m.save(&m.cluster[m.rank])
	for i := 1; i <= len(m.cluster); i++ {
		if r := (m.rank + i) % len(m.cluster); !m.cluster[r].done {
			m.load(r)
			return
		}
	}
}

// leaveBlock ends the running block: another of its cluster goes on, or the next
// block of the grid begins.
func (m *Machine) leaveBlock() {
	if m.cluster == nil {
		if len(m.prog.Cluster) > 0 {
			return // blocks without statements
		}
		m.begun++
		m.enterBlock(m.begun - 1)
		return
	}
	m.save(&m.cluster[m.rank])
	m.cluster[m.rank].done = true
	if slices.IndexFunc(m.cluster, func(p peer) bool { return !p.done }) < 0 {
		m.enterCluster(m.begun)
		return
	}
	for r := range m.cluster {
		if !m.cluster[r].done {
			m.load(r)
			return
		}
	}
}

// othersIdle reports that no other block of the cluster can go on.
func (m *Machine) othersIdle() bool {
	for r, p := range m.cluster {
		if r != m.rank && !p.done && !p.idle {
			return false
		}
	}
	return true
}

// memory is the shared memory of a block.
type memory struct {
	*sharedMemory
	block int
}

func (m *Machine) own() memory { return memory{&m.smem, m.block} }

func (m *Machine) memoryOf(in *ir.Instr, a *ir.Attr, rank int64) (memory, error) {
	switch {
	case rank < 0 || rank >= int64(m.prog.ClusterSize()):
		return memory{}, problem(a.Pos, "Run.E28", "", "rank %d of a cluster of %d blocks", rank, m.prog.ClusterSize())
	case int(rank) == m.rank:
		return m.own(), nil
	case m.cluster[rank].done:
		return memory{}, problem(in.Pos, "Run.E28", "ClusterSynchronize before a block ends whose memory others use", "the block of rank %d has ended", rank)
	}
	p := &m.cluster[rank]
	return memory{&p.smem, p.block}, nil
}

// peerOf is the memory of the block that rank names; the running one's without.
func (m *Machine) peerOf(in *ir.Instr) (memory, error) {
	a := in.Attr("rank")
	if a == nil {
		return m.own(), nil
	}
	r, err := m.int(a.Exprs[0])
	if err != nil {
		return memory{}, err
	}
	return m.memoryOf(in, a, r)
}

// usesOf is peerOf for what threads do themselves, which the other block has to know of before it ends. Copies
// make themselves known, by their bytes.
func (m *Machine) usesOf(in *ir.Instr) (memory, error) {
	mem, err := m.peerOf(in)
	if err == nil && mem.block != m.block {
		if mem.users == nil {
			mem.users = map[those]use{}
		}
		mem.users[m.self()] = use{m.several(), in}
	}
	return mem, err
}

// unused complains where a block ends and another may use its memory later.
func (m *Machine) unused() error {
	var first *use
	for _, u := range m.smem.users {
		over := m.told(u.mark)
		for _, what := range m.order.acquired { // what some of its threads know is enough
			over = over || m.covers(what, u.mark)
		}
		if !over && (first == nil || u.by.Pos.Line < first.by.Pos.Line) {
			first = &u
		}
	}
	if first == nil {
		return nil
	}
	return problem(first.by.Pos, "Run.E28", "ClusterSynchronize before a block ends whose memory others use", "block %d may have ended before block %d uses its memory here", m.block, first.mark.block-1)
}

// partner is the memory of the running block or of the other one of its pair.
func (m *Machine) partner(in *ir.Instr, a *ir.Attr) (memory, error) {
	r, err := m.int(a.Exprs[0])
	if err == nil && r != int64(m.rank) && r != int64(m.rank^1) {
		return memory{}, problem(a.Pos, "Run.E28", "a pair is two ranks that differ in the last bit", "rank %d, seen from rank %d", r, m.rank)
	}
	if err != nil {
		return memory{}, err
	}
	return m.memoryOf(in, a, r)
}

// receivers are the memories of the blocks that a copy goes to.
func (m *Machine) receivers(in *ir.Instr) ([]memory, error) {
	a := in.Attr("multicast")
	if a == nil {
		return []memory{m.own()}, nil
	}
	mask, err := m.int(a.Exprs[0])
	if err != nil {
		return nil, err
	}
	if mask < 1 || mask >= 1<<m.prog.ClusterSize() {
		return nil, problem(a.Pos, "Run.E28", "", "mask %d names blocks that a cluster of %d has not", mask, m.prog.ClusterSize())
	}
	var out []memory
	for r := range m.prog.ClusterSize() {
		if mask>>r&1 != 0 {
			to, err := m.memoryOf(in, a, int64(r))
			if err != nil {
				return nil, err
			}
			out = append(out, to)
		}
	}
	return out, nil
}

func clusterRank(m *Machine, in *ir.Instr) error {
	m.set(in.Out[0], value{set: true, n: int64(m.rank)})
	return nil
}

// clusterSynchronize comes to the barrier of the cluster, and to the same statement
// again until all have.
func clusterSynchronize(m *Machine, in *ir.Instr) error {
	g := &m.gathering
	if !m.syncing {
		m.syncing, m.syncAt = true, g.phase
		g.gathers.add(m.released())
		if g.count++; g.count == m.prog.ClusterSize() {
			g.phase, g.count = g.phase+1, 0
			g.gives, g.gathers = g.gathers, nil
			m.wake()
		}
	}
	if m.syncAt == g.phase {
		return m.waitFor(func() error {
			return problem(in.Pos, "Run.E20", "let all blocks of a cluster come to the same barriers", "nobody who can run will come to this barrier of the cluster: %d of %d blocks are there", m.gathering.count, m.prog.ClusterSize())
		})
	}
	m.syncing = false
	m.acquire(g.gives)
	return synchronize(m, in)
}

// begin enters the first block or cluster of the grid.
func (m *Machine) begin() {
	if len(m.prog.Cluster) > 0 {
		m.enterCluster(0)
		return
	}
	m.begun = 1
	m.enterBlock(0)
}
