package interp

import "github.com/tilus-lab/tilus-lab/vm/ir"

// bulkLimits checks where the rows of a bulk copy begin.
func (m *Machine) bulkLimits(in *ir.Instr, r *region, s *shared) error {
	bits := r.g.arr.Type.Bits()
	rows, n, err := ir.BulkRowsOf(in.In[1].Var().Type, r.dims, len(r.g.dims))
	if err != nil {
		return problem(in.Pos, "Run.E26", "", "%v", err)
	}
	if s.base*bits%128 != 0 {
		return problem(in.In[1].Pos, "Run.E30", "take parts at multiples of 16 bytes", "%s begins at byte %d of its tile", s.name, s.base*bits/8)
	}
	index := make([]int, len(r.dims))
	for _, row := range rows {
		for i, d := range r.dims {
			index[i] = row.Index[d]
		}
		first, ok := r.element(index)
		if ok {
			index[len(index)-1] += n - 1
			_, ok = r.element(index)
		}
		switch {
		case !ok:
			return problem(in.Pos, "Run.E30", "guard with if, or use CopyAsyncTensorGlobalToShared, which knows the tensor's shape", "element %v of a row lies outside %s, which is %v", r.strip, r.g.name, r.g.dims)
		case first*bits%128 != 0:
			return problem(in.Pos, "Run.E30", "pad the rows, or copy with CopyAsync", "a row begins at byte %d of %s, which is no multiple of 16", first*bits/8, r.g.name)
		}
	}
	return nil
}

func copyBulkIn(m *Machine, in *ir.Instr) error {
	s := m.get(in.In[1].Var()).shared
	r, err := m.region(in, len(s.dims))
	if err != nil {
		return err
	}
	if err := m.bulkLimits(in, r, s); err != nil {
		return err
	}
	return m.bring(in, r, s, int64(size(s.dims)*r.g.arr.Type.Bits()/8))
}

func copyBulkOut(m *Machine, in *ir.Instr) error {
	s := m.get(in.In[1].Var()).shared
	r, err := m.region(in, len(s.dims))
	if err != nil {
		return err
	}
	if err := m.bulkLimits(in, r, s); err != nil {
		return err
	}
	return m.take(in, r, s, "")
}

// copyBulkAcross copies to the memory of another block. Its source is in use until a
// thread there has waited for the bytes.
func copyBulkAcross(m *Machine, in *ir.Instr) error {
	from, what, err := m.readAsync(in, 0)
	if err != nil {
		return err
	}
	mem, err := m.peerOf(in)
	if err != nil {
		return err
	}
	s := m.get(in.In[1].Var()).shared
	codes := make([]uint64, len(what.places))
	for e, at := range what.places {
		codes[e] = from.codes[at]
	}
	bytes := int64(len(codes) * in.In[0].Var().Type.Elem.Bits() / 8)
	return m.deliver(in, []memory{mem}, s, 2, codes, bytes, &source{m.block, what})
}

// source is what a copy to another block reads, and the block.
type source struct {
	block int
	reading
}

// memoryAt is the shared memory of a block of the running cluster.
func (m *Machine) memoryAt(block int) *sharedMemory {
	if block == m.block {
		return &m.smem
	}
	for i := range m.cluster {
		if m.cluster[i].block == block {
			return &m.cluster[i].smem
		}
	}
	return nil
}

// tryCancel takes the next block, or cluster, that has not begun. All blocks of a
// cluster are told its first block.
func tryCancel(m *Machine, in *ir.Instr) error {
	answer := []uint64{0, 0}
	to := []memory{m.own()}
	n, left := m.begun, m.begun < m.grid[0]*m.grid[1]*m.grid[2]
	if len(m.prog.Cluster) > 0 {
		to = nil
		for r := range m.prog.ClusterSize() {
			mem, err := m.memoryOf(in, nil, int64(r))
			if err != nil {
				return err
			}
			to = append(to, mem)
		}
		next := m.clusterOf(m.begun)
		if left = next != nil; left {
			n = next[0]
		}
	}
	if left {
		m.begun++
		answer[0] = 1 | uint64(n%m.grid[0])<<32
		answer[1] = uint64(n/m.grid[0]%m.grid[1]) | uint64(n/(m.grid[0]*m.grid[1]))<<32
	}
	return m.deliver(in, to, m.get(in.In[0].Var()).shared, 1, answer, 16, nil)
}

func queryResponse(m *Machine, in *ir.Instr) error {
	s := m.get(in.In[0].Var()).shared
	t, err := m.use(in, s)
	if err != nil {
		return err
	}
	var word [2]uint64
	readers := t.readersOf(m.self())
	for e, at := range m.wholeOf(in, s, t) {
		switch {
		case t.pending[at]:
			return m.onItsWay(in, s, s.dims, e)
		case t.writer[at].block == 0:
			return problem(in.Pos, "Run.E9", "ask with ClusterLaunchControlTryCancel, and wait for the answer", "%s holds no answer", s.name)
		case !m.before(t.writer[at], someone):
			return m.race(in, s, s.dims, e, t.writer[at], -1, "reads", "wrote")
		}
		word[e] = t.codes[at]
		readers[at] = m.several()
	}
	// The place of this block in its cluster, of the cluster that was taken.
	place := [4]int{}
	if word[0]&1 != 0 {
		rest := m.rank
		for d, c := range m.prog.Cluster {
			place[d+1], rest = rest%c, rest/c
		}
	}
	for i, n := range []uint64{word[0] & 1, word[0] >> 32, word[1] & 0xffffffff, word[1] >> 32}[:len(in.Out)] {
		m.set(in.Out[i], value{set: true, n: int64(n) + int64(place[i])})
	}
	return nil
}
