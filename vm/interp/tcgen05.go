package interp

import (
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Tensor memory is a tile of shared memory whose codes are the words of its columns,
// row by row: who wrote and who may read is known as it is there.

// tensorWork is what the products of a set of threads use, until a commit.
type tensorWork struct {
	reads  []reading       // of operands in shared memory
	writes map[int][]int32 // cells, by tile
}

// cells are the places of the words of a tensor.
func (m *Machine) cells(v *ir.Var) (*sharedTile, *shared, []int32, int) {
	s := m.get(v).shared
	t := m.smem.tiles[s.tile]
	whole, cols := len(t.codes)/ir.TensorLanes, ir.ColumnsOf(v.Type)
	out := make([]int32, 0, ir.TensorLanes*cols)
	for r := range ir.TensorLanes {
		for c := range cols {
			out = append(out, int32(r*whole+s.base+c))
		}
	}
	return t, s, out, cols
}

// field is where element k of a row lies: its word, and its bits there.
func field(t dtype.Type, k int) (word, shift int) { return k * t.Bits() / 32, k * t.Bits() % 32 }

func tensorAlloc(m *Machine, in *ir.Instr) error {
	v := in.Out[0]
	used := 0
	for _, t := range m.smem.tiles {
		if t != nil && t.tensor {
			used += len(t.codes) / ir.TensorLanes
		}
	}
	cols := ir.ColumnsOf(v.Type)
	if used+cols > ir.TensorColumns {
		return problem(in.Pos, "Run.E32", "give some back first", "%d columns of tensor memory are taken, and %d more are asked for; there are %d", used, cols, ir.TensorColumns)
	}
	if m.smem.relinquished {
		return problem(in.Pos, "Run.E32", "take it before Tcgen05RelinquishAllocPermit", "the block has said that it takes no more tensor memory")
	}
	n := ir.TensorLanes * cols
	t := &sharedTile{name: v.Name, depth: len(m.frames), set: m.running(), codes: make([]uint64, n), writer: make([]mark, n), pending: make([]bool, n), tensor: true, made: m.several(), at: in.Pos}
	m.smem.tiles = append(m.smem.tiles, t)
	m.set(v, value{set: true, shared: &shared{tile: len(m.smem.tiles) - 1, name: v.Name}})
	return nil
}

// taken checks that the address of a tensor is known to who uses it.
func (m *Machine) taken(in *ir.Instr, t *sharedTile) error {
	if t == nil {
		return problem(in.Pos, "Run.E32", "", "the tensor memory has been given back")
	}
	if !m.before(t.made, someone) {
		return problem(in.Pos, "Run.E4", "Synchronize behind Tcgen05Alloc", "nothing orders this behind the Tcgen05Alloc of %s", t.name)
	}
	return nil
}

func tensorDealloc(m *Machine, in *ir.Instr) error {
	i := m.get(in.In[0].Var()).shared.tile
	t := m.smem.tiles[i]
	if err := m.taken(in, t); err != nil {
		return err
	}
	for at := range t.codes {
		switch k := t.writer[at]; {
		case t.pending[at]:
			return m.unfinished(in, t, at)
		case !m.before(k, someone):
			return m.raceOfTensor(in, t, at, "gives back", "wrote")
		}
		if _, ok := m.readBefore(t, int32(at), someone); !ok {
			return m.raceOfTensor(in, t, at, "gives back", "read")
		}
	}
	m.smem.retire(i)
	return nil
}

func tensorRelinquish(m *Machine, _ *ir.Instr) error {
	m.smem.relinquished = true
	return nil
}

func tensorSlice(m *Machine, in *ir.Instr) error {
	v := in.In[0].Var()
	s := *m.get(v).shared
	c, _ := ir.ConstInt(in.Attr("offset").Exprs[1])
	s.base += int(c) * v.Type.Elem.Bits() / 32
	s.name = in.Out[0].Name
	m.set(in.Out[0], value{set: true, shared: &s})
	return nil
}

func tensorView(m *Machine, in *ir.Instr) error {
	s := *m.get(in.In[0].Var()).shared
	s.name = in.Out[0].Name
	m.set(in.Out[0], value{set: true, shared: &s})
	return nil
}

func (m *Machine) unfinished(in *ir.Instr, t *sharedTile, at int) error {
	cols := len(t.codes) / ir.TensorLanes
	return problem(in.Pos, "Run.E31", "Tcgen05Commit at a barrier, and WaitBarrier for its turn", "a product may still write lane %d, column %d of %s", at/cols, at%cols, t.name)
}

func (m *Machine) raceOfTensor(in *ir.Instr, t *sharedTile, at int, does, did string) error {
	cols := len(t.codes) / ir.TensorLanes
	return problem(in.Pos, "Run.E4", "wait for what did it, and Synchronize between the two", "block %d %s lane %d, column %d of %s, which others %s, and nothing orders the two", m.block, does, at/cols, at%cols, t.name, did)
}

// row of the first warpgroup of the threads that run.
func (m *Machine) warpgroup(in *ir.Instr) error {
	if set := m.sets[m.running()]; set.Begin%ir.WarpgroupThreads != 0 || set.Size != ir.WarpgroupThreads {
		return problem(in.Pos, "Run.E27", "let a group of 128 threads, from a multiple of 128 on, do it", "threads %d to %d are no warpgroup", set.Begin, set.Begin+set.Size-1)
	}
	return nil
}

func tensorLoad(m *Machine, in *ir.Instr) error {
	if err := m.warpgroup(in); err != nil {
		return err
	}
	v := in.In[0].Var()
	t, _, cells, cols := m.cells(v)
	if err := m.taken(in, t); err != nil {
		return err
	}
	readers := t.readersOf(m.self())
	for i, at := range cells {
		switch thread := i / cols; {
		case t.pending[at]:
			return m.unfinished(in, t, int(at))
		case t.writer[at].block == 0:
			return problem(in.Pos, "Run.E9", "let a product or a store write it first", "row %d of %s was never written", i/cols, v.Name)
		case t.storing(at):
			return problem(in.Pos, "Run.E31", "Tcgen05Wait(for=store) behind stores", "a store to row %d of %s may not have ended", i/cols, v.Name)
		case !m.before(t.writer[at], thread):
			return m.raceOfTensor(in, t, int(at), "reads", "wrote")
		default:
			readers[at] = m.and(readers[at], thread)
		}
	}
	out := &tile{elem: v.Type.Elem}
	out.dims, _ = v.Type.Dims()
	out.codes = m.tensorCodes(t, v.Type, cells, cols)
	m.set(in.Out[0], value{set: true, tile: out, arriving: true, holder: m.running()})
	return nil
}

func (t *sharedTile) storing(at int32) bool { return t.stores != nil && t.stores[at] }

// tensorCodes are the elements that words of tensor memory hold.
func (m *Machine) tensorCodes(t *sharedTile, typ ir.Type, cells []int32, cols int) []uint64 {
	dims, _ := typ.Dims()
	codes := make([]uint64, dims[0]*dims[1])
	for e := range codes {
		word, shift := field(typ.Elem, e%dims[1])
		codes[e] = t.codes[cells[e/dims[1]*cols+word]] >> shift & typ.Elem.Mask()
	}
	return codes
}

func tensorStore(m *Machine, in *ir.Instr) error {
	if err := m.warpgroup(in); err != nil {
		return err
	}
	x, err := m.tile(in, 1)
	if err != nil {
		return err
	}
	v := in.In[0].Var()
	t, _, cells, cols := m.cells(v)
	if err := m.taken(in, t); err != nil {
		return err
	}
	if t.stores == nil {
		t.stores = make([]bool, len(t.codes))
	}
	for i, at := range cells {
		switch thread := i / cols; {
		case t.pending[at]:
			return m.unfinished(in, t, int(at))
		case !m.before(t.writer[at], thread):
			return m.raceOfTensor(in, t, int(at), "overwrites", "wrote")
		default:
			if _, ok := m.readBefore(t, at, thread); !ok {
				return m.raceOfTensor(in, t, int(at), "overwrites", "read")
			}
			t.codes[at], t.writer[at], t.stores[at] = 0, m.me(thread), true
		}
	}
	for e, c := range x.codes {
		word, shift := field(x.elem, e%x.dims[1])
		t.codes[cells[e/x.dims[1]*cols+word]] |= c << shift
	}
	return nil
}

// tensorWait ends loads or stores of the threads that run.
func tensorWait(m *Machine, in *ir.Instr) error {
	if in.Attr("for").Word == "load" {
		for i := range m.vars {
			if m.vars[i].holder == m.running() {
				m.vars[i].arriving = false
			}
		}
		return nil
	}
	for _, t := range m.smem.tiles {
		if t == nil || t.stores == nil {
			continue
		}
		for at := range t.stores {
			if t.writer[at].set == m.running() {
				t.stores[at] = false
			}
		}
	}
	return nil
}

func tensorMma(m *Machine, in *ir.Instr) error {
	var x [2]*tile
	w := m.smem.tensorWork[m.running()]
	for i := range 2 {
		v := in.In[i].Var()
		x[i] = &tile{elem: v.Type.Elem}
		x[i].dims, _ = v.Type.Dims()
		if v.Type.IsShared() {
			t, r, err := m.readAsync(in, i)
			if err != nil {
				return err
			}
			for _, at := range r.places {
				x[i].codes = append(x[i].codes, t.codes[at])
			}
			w.reads = append(w.reads, r)
			continue
		}
		t, _, cells, cols := m.cells(v)
		if err := m.taken(in, t); err != nil {
			return err
		}
		for e, at := range cells {
			if err := m.operandInTensorMemory(in, t, at, e/cols, v.Name, false); err != nil {
				return err
			}
		}
		x[i].codes = m.tensorCodes(t, v.Type, cells, cols)
	}
	sum := int64(1)
	if a := in.Attr("sum"); a != nil {
		var err error
		if sum, err = m.int(a.Exprs[0]); err != nil {
			return err
		}
	}
	d := in.In[2].Var()
	t, s, cells, cols := m.cells(d)
	if err := m.taken(in, t); err != nil {
		return err
	}
	for e, at := range cells {
		if err := m.operandInTensorMemory(in, t, at, e/cols, d.Name, sum == 0); err != nil {
			return err
		}
	}
	c := &tile{elem: d.Type.Elem}
	c.dims, _ = d.Type.Dims()
	if c.codes = m.tensorCodes(t, d.Type, cells, cols); sum == 0 {
		clear(c.codes)
	}
	p, known := m.dots[in]
	if !known {
		plan, err := ir.PlanTensor(in)
		if err != nil {
			return problem(in.Pos, "Run.E27", "", "%v", err)
		}
		order := make([]int, plan.K)
		for i := range order {
			order[i] = i
		}
		p = product{step: plan.K, order: order, matrix: true}
		m.dots[in] = p
	}
	p.a, p.b, p.c, p.stopped = x[0], x[1], c, m.stopped
	f := p.float
	if !c.elem.IsFloat() {
		f = p.whole
	}
	out := make([]uint64, len(c.codes))
	if err := f(out); err != nil {
		return err
	}
	writes := map[int][]int32{}
	for i, list := range w.writes {
		writes[i] = list
	}
	for e, at := range cells {
		if !t.pending[at] {
			t.pending[at] = true
			t.copies++
		}
		t.codes[at] = out[e]
	}
	writes[s.tile] = append(writes[s.tile][:len(writes[s.tile]):len(writes[s.tile])], cells...)
	w.writes = writes
	if m.smem.tensorWork == nil {
		m.smem.tensorWork = map[int16]tensorWork{}
	}
	m.smem.tensorWork[m.running()] = w
	return nil
}

// operandInTensorMemory checks that a product can read a cell, or write it anew. Products
// come one after the other, so that what earlier ones write is there.
func (m *Machine) operandInTensorMemory(in *ir.Instr, t *sharedTile, at int32, row int, name string, anew bool) error {
	switch {
	case t.pending[at]:
		return nil
	case !anew && t.writer[at].block == 0:
		return problem(in.Pos, "Run.E9", "sum=[0] in the first product, or store to it", "row %d of %s was never written", row, name)
	case t.storing(at):
		return problem(in.Pos, "Run.E31", "Tcgen05Wait(for=store) behind stores, and a barrier", "a store to row %d of %s may not have ended", row, name)
	case !t.writer[at].fenced && !m.before(t.writer[at], someone): // fenced: by a product
		return m.raceOfTensor(in, t, int(at), "multiplies", "wrote")
	}
	if _, ok := m.readBefore(t, at, someone); !ok {
		return m.raceOfTensor(in, t, int(at), "multiplies into", "read")
	}
	return nil
}

// tensorCommit hands what products did to who waits for the turn.
func tensorCommit(m *Machine, in *ir.Instr) error { return m.afterProducts(in, full) }

// afterProducts arrives at one side of a turn when products are done.
func (m *Machine) afterProducts(in *ir.Instr, side int) error {
	x, err := m.turnOn(in, 0, m.own(), side)
	if err != nil {
		return err
	}
	if err := m.present(in, x, "arrives at"); err != nil {
		return err
	}
	if x.b.arrived+1 > x.count {
		return problem(in.Pos, "Run.E19", "count one arrival for each commit", "one more arrival at turn %d of %s, which has %d of %d", x.number, x.name, x.b.arrived, x.count)
	}
	w := m.smem.tensorWork[m.running()]
	delete(m.smem.tensorWork, m.running())
	for tile, cells := range w.writes {
		x.b.coming = append(x.b.coming, landing{tile: tile, places: cells, product: true})
	}
	for i := range w.reads {
		x.b.coming = append(x.b.coming, landing{tile: -1, from: &source{m.block, w.reads[i]}})
	}
	x.b.gathers.add(m.released())
	x.b.arrived++
	return m.settleBarrier(in, x)
}
