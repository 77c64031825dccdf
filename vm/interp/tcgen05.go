package interp

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Tensor memory is a tile of shared memory whose codes are the words of its columns,
// row by row: who wrote and who may read is known as it is there.

// tensorWork is what the products of a set of threads use, until a commit.
type tensorWork struct {
	reads  []source // of operands in shared memory
	writes []landing
}

// cells are the places of the words of a tensor.
func (m *Machine) cells(v *ir.Var) (*sharedTile, *shared, []int32, int) {
	return m.cellsIn(v, m.own())
}

// cellsIn is cells at the same place of a block's tensor memory.
func (m *Machine) cellsIn(v *ir.Var, mem memory) (*sharedTile, *shared, []int32, int) {
	s := m.get(v).shared
	t := mem.tiles[s.tile]
	whole, cols := len(t.codes)/ir.TensorLanes, ir.ColumnsOf(v.Type)
	dims, _ := v.Type.Dims()
	out := make([]int32, 0, dims[0]*cols)
	for r := range dims[0] {
		for c := range cols {
			out = append(out, int32(ir.TensorLane(dims[0], r)*whole+s.base+c))
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
	offset := in.Attr("offset").Exprs
	lane, _ := ir.ConstInt(offset[0])
	c, _ := ir.ConstInt(offset[1])
	if t := m.smem.tiles[s.tile]; t != nil {
		s.base += int(lane) * len(t.codes) / ir.TensorLanes
	}
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
		switch thread := ir.TensorThread(len(cells)/cols, i/cols, i%cols); {
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
		switch thread := ir.TensorThread(len(cells)/cols, i/cols, i%cols); {
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

// pair are the memories of the blocks that multiply together: the running block's, and
// that of the other one of its pair.
func (m *Machine) pair(in *ir.Instr) ([]memory, error) {
	if ir.TensorBlocks(in) == 1 {
		return []memory{m.own()}, nil
	}
	if m.rank%2 != 0 {
		return nil, problem(in.Pos, "Run.E28", "let the block with the even rank begin it", "the block of rank %d begins a product of two blocks", m.rank)
	}
	other, err := m.memoryOf(in, nil, int64(m.rank+1))
	return []memory{m.own(), other}, err
}

// operand is an operand of a product, as a tile.
func (m *Machine) operand(in *ir.Instr, i int, mem memory, w *tensorWork) (*tile, error) {
	v := in.In[i].Var()
	x := &tile{elem: v.Type.Elem}
	x.dims, _ = v.Type.Dims()
	if v.Type.IsShared() {
		t, r, err := m.readAsyncIn(in, i, mem)
		if err != nil {
			return nil, err
		}
		for _, at := range r.places {
			x.codes = append(x.codes, t.codes[at])
		}
		w.reads = append(w.reads, source{mem.block, r})
		return x, nil
	}
	t, _, cells, cols := m.cellsIn(v, mem)
	if err := m.taken(in, t); err != nil {
		return nil, err
	}
	for e, at := range cells {
		if err := m.operandInTensorMemory(in, t, at, e/cols, v.Name, false); err != nil {
			return nil, err
		}
	}
	x.codes = m.tensorCodes(t, v.Type, cells, cols)
	return x, nil
}

// beside puts the columns of a block's part behind those of another's.
func beside(x, y *tile) *tile {
	if x == nil {
		return y
	}
	z := &tile{elem: x.elem, dims: []int{x.dims[0], x.dims[1] + y.dims[1]}}
	for r := range x.dims[0] {
		z.codes = append(append(z.codes, x.codes[r*x.dims[1]:][:x.dims[1]]...), y.codes[r*y.dims[1]:][:y.dims[1]]...)
	}
	return z
}

func tensorMma(m *Machine, in *ir.Instr) error {
	mems, err := m.pair(in)
	if err != nil {
		return err
	}
	w := m.smem.tensorWork[m.running()]
	var a [2]*tile
	var b *tile
	for i, mem := range mems {
		if a[i], err = m.operand(in, 0, mem, &w); err != nil {
			return err
		}
		part, err := m.operand(in, 1, mem, &w)
		if err != nil {
			return err
		}
		b = beside(b, part)
	}
	sum := int64(1)
	if a := in.Attr("sum"); a != nil {
		if sum, err = m.int(a.Exprs[0]); err != nil {
			return err
		}
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
	if ir.TensorSparse(in) {
		if a[0], err = m.spread(in, a[0]); err != nil {
			return err
		}
	}
	d := in.In[2].Var()
	for i, mem := range mems {
		t, s, cells, cols := m.cellsIn(d, mem)
		if err := m.taken(in, t); err != nil {
			return err
		}
		for e, at := range cells {
			if err := m.operandInTensorMemory(in, t, at, e/cols, d.Name, sum == 0); err != nil {
				return err
			}
		}
		c := &tile{elem: d.Type.Elem, dims: []int{a[i].dims[0], b.dims[1]}}
		if c.codes = m.tensorCodes(t, d.Type, cells, cols); sum == 0 {
			clear(c.codes)
		}
		places := tensorPlaces(in, c.dims) // of elements in d
		if places != nil {
			codes := make([]uint64, len(c.codes))
			for e, at := range places {
				codes[e] = c.codes[at]
			}
			c.codes = codes
		}
		p.a, p.b, p.c, p.stopped = a[i], b, c, m.stopped
		out := make([]uint64, len(c.codes))
		switch {
		case len(in.In) == 5:
			err = m.scaled(in, &p, out)
		case c.elem.IsFloat():
			err = p.float(out)
		default:
			err = p.whole(out)
		}
		if err != nil {
			return err
		}
		if places != nil {
			parts := make([]uint64, len(out))
			for e, at := range places {
				parts[at] = out[e]
			}
			out = parts
		}
		t.begin(&w, mem.block, s.tile, cells, out)
	}
	m.setWork(w)
	return nil
}

// tensorPlaces is where the elements of a product lie in d, row by row; nil where they lie
// there as they are.
func tensorPlaces(in *ir.Instr, dims []int) []int {
	if !ir.TensorKeeps(in) || dims[0] == ir.TensorLanes {
		return nil
	}
	out := make([]int, 0, dims[0]*dims[1])
	for r := range dims[0] {
		for c := range dims[1] {
			row, col := ir.TensorPart(true, dims[0], dims[1], r, c)
			out = append(out, row*dims[1]*dims[0]/ir.TensorLanes+col)
		}
	}
	return out
}

// spread puts the elements of a that are kept among zeros.
func (m *Machine) spread(in *ir.Instr, a *tile) (*tile, error) {
	var w tensorWork
	e, err := m.operand(in, 3, m.own(), &w)
	if err != nil {
		return nil, err
	}
	rows, kept := a.dims[0], a.dims[1]
	out := &tile{elem: a.elem, dims: []int{rows, 2 * kept}, codes: make([]uint64, 2*rows*kept)}
	group := 2 // elements of which half are kept
	if a.elem != dtype.TF32 {
		group = 4
	}
	for r := range rows {
		for k := 0; k < 2*kept; k += group {
			lane, column, bit := ir.SparseMark(a.elem, r, k)
			mark := e.codes[lane*e.dims[1]+column] >> bit & 15
			places, ok := ir.SparseKept(a.elem, mark)
			if !ok {
				return nil, problem(in.Pos, "Run.E33", "name two of four places, the first one before the second", "the mark %#04b of row %d, elements %d to %d, in %s names no such elements", mark, r, k, k+group-1, in.In[3].Var().Name)
			}
			for i, at := range places {
				out.codes[2*r*kept+k+at] = a.codes[r*kept+k/2+i]
			}
		}
	}
	return out, nil
}

// begin lets the machine write words of tensor memory.
func (t *sharedTile) begin(w *tensorWork, block, tile int, cells []int32, words []uint64) {
	for e, at := range cells {
		if !t.pending[at] {
			t.pending[at] = true
			t.copies++
		}
		t.codes[at] = words[e]
	}
	w.writes = append(w.writes[:len(w.writes):len(w.writes)], landing{block: block, tile: tile, places: cells, product: true})
}

func (m *Machine) setWork(w tensorWork) {
	if m.smem.tensorWork == nil {
		m.smem.tensorWork = map[int16]tensorWork{}
	}
	m.smem.tensorWork[m.running()] = w
}

// scaled computes a product whose operands have a scale for each block along k.
func (m *Machine) scaled(in *ir.Instr, p *product, out []uint64) error {
	plan, err := ir.PlanTensor(in)
	if err != nil {
		return problem(in.Pos, "Run.E27", "", "%v", err)
	}
	inner, cols := p.a.dims[1], p.b.dims[1]
	// Operands with their scales, the second by columns.
	var x [2][]float64
	for i, rows := range []int{p.a.dims[0], cols} {
		var w tensorWork
		s, err := m.operand(in, 3+i, m.own(), &w)
		if err != nil {
			return err
		}
		scale := make([]float64, rows*inner/plan.Block)
		for r := range rows {
			for c := range inner / plan.Block {
				lane, e := ir.ScaleAt(rows, r, c)
				code := s.codes[lane*s.dims[1]+e]
				if s.elem.Signed() && code>>(s.elem.Bits()-1) == 1 {
					return problem(in.Pos, "Run.E33", "", "the scale of row %d in %s is %v; scales have no sign", r, in.In[3+i].Var().Name, s.elem.Decode(code))
				}
				for q := lane; q < ir.TensorLanes; q += ir.LanesPerWarp {
					if s.codes[q*s.dims[1]+e] != code {
						return problem(in.Pos, "Run.E33", "copy scales with a tile of 32 rows, or store them in all four quarters", "lanes %d and %d of %s hold other scales of row %d", lane, q, in.In[3+i].Var().Name, r)
					}
				}
				scale[r*(inner/plan.Block)+c] = s.elem.Decode(code)
			}
		}
		x[i] = make([]float64, rows*inner)
		for r := range rows {
			for k := range inner {
				at, v := r*inner+k, p.a
				if i == 1 {
					at, v = k*cols+r, p.b
				}
				x[i][r*inner+k] = v.elem.Decode(v.codes[at]) * scale[(r*inner+k)/plan.Block]
			}
		}
	}
	for r := range p.a.dims[0] {
		if err := p.stopped(); err != nil {
			return err
		}
		for c := range cols {
			z := p.c.codes[r*cols+c]
			for k := 0; k < inner; k += plan.K {
				z = DotStep(p.c.elem, z, x[0][r*inner+k:][:plan.K], x[1][c*inner+k:][:plan.K])
			}
			out[r*cols+c] = z
		}
	}
	return nil
}

// tensorCopy copies shared memory to tensor memory, in the order of products.
func tensorCopy(m *Machine, in *ir.Instr) error {
	w := m.smem.tensorWork[m.running()]
	x, err := m.operand(in, 0, m.own(), &w)
	if err != nil {
		return err
	}
	v := in.In[1].Var()
	t, s, cells, cols := m.cells(v)
	if err := m.taken(in, t); err != nil {
		return err
	}
	for e, at := range cells {
		if err := m.operandInTensorMemory(in, t, at, e/cols, v.Name, true); err != nil {
			return err
		}
	}
	words := make([]uint64, len(cells))
	for e := range ir.TensorLanes * x.dims[1] {
		row, k := e/x.dims[1], e%x.dims[1]
		word, shift := field(x.elem, k)
		words[row*cols+word] |= x.codes[row%x.dims[0]*x.dims[1]+k] << shift
	}
	t.begin(&w, m.block, s.tile, cells, words)
	m.setWork(w)
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

// afterProducts arrives at one side of a turn when products are done, in each block of a
// mask: what they did in a block's memory is told there, or else in the first.
func (m *Machine) afterProducts(in *ir.Instr, side int) error {
	to, err := m.receivers(in)
	if err != nil {
		return err
	}
	w := m.smem.tensorWork[m.running()]
	delete(m.smem.tensorWork, m.running())
	knows := m.released()
	for i, mem := range to {
		x, err := m.turnOn(in, 0, mem, side)
		if err != nil {
			return err
		}
		if err := m.present(in, x, "arrives at"); err != nil {
			return err
		}
		if x.b.arrived+1 > x.count {
			return problem(in.Pos, "Run.E19", "count one arrival for each commit", "one more arrival at turn %d of %s, which has %d of %d", x.number, x.name, x.b.arrived, x.count)
		}
		here := func(block int) bool {
			return block == mem.block || i == 0 && !slices.ContainsFunc(to, func(o memory) bool { return o.block == block })
		}
		for _, c := range w.writes {
			if here(c.block) {
				x.b.coming = append(x.b.coming, c)
			}
		}
		for _, r := range w.reads {
			if here(r.block) {
				x.b.coming = append(x.b.coming, landing{tile: -1, from: &r})
			}
		}
		x.b.gathers.add(knows)
		x.b.arrived++
		if err := m.settleBarrier(in, x); err != nil {
			return err
		}
	}
	return nil
}
