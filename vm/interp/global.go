package interp

import (
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// allocate makes the tensors of AllocateGlobal, behind the arguments.
func (m *Machine) allocate() error {
	lookup := func(v *ir.Var) (int64, bool) {
		i := paramIndex(m.prog, v)
		return m.args[max(i, 0)].Int, i >= 0
	}
	var list diag.List
	m.prog.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok || in.Op.Name != "AllocateGlobal" {
			return true
		}
		v, n := in.Out[0], int64(1)
		g := &global{name: v.Name}
		for _, e := range v.Type.Shape {
			x, err := ir.EvalInt(e, lookup)
			if err != nil || x < 1 || n > (1<<31-1)/x {
				list.Addf(e.Position(), "Run.E6", "extents are 1 or more, and at most 2147483647 as a product", "extent %s of %s is %d", e, v.Name, x)
				return true
			}
			n *= x
			g.dims = append(g.dims, int(x))
		}
		g.arr = array.New(v.Type.Elem, int(n))
		g.own = in.Attr("init") == nil
		m.owns = append(m.owns, g)
		m.args = append(m.args, ir.Arg{Array: g.arr})
		m.marks[g.arr] = newMarks(int(n))
		return true
	})
	return list.Err()
}

func allocateGlobal(m *Machine, in *ir.Instr) error {
	for _, g := range m.owns {
		if g.name == in.Out[0].Name {
			m.set(in.Out[0], value{set: true, global: g})
		}
	}
	return nil
}

// written complains about an element of a tensor of the launch's own that has no
// value yet.
func (m *Machine) written(in *ir.Instr, g *global, flat int) error {
	if !g.own || m.marks[g.arr].writer[flat].block != 0 {
		return nil
	}
	return problem(in.Pos, "Run.E18", "store it first, or give AllocateGlobal init=0", "element %d of %s has no value", flat, g.name)
}

func sliceGlobal(m *Machine, in *ir.Instr) error {
	g := m.get(in.In[0].Var()).global
	v := in.Out[0]
	part := &global{arr: g.arr, name: v.Name, base: g.base, own: g.own}
	strides := g.steps()
	dims := in.Dims(len(g.dims), len(v.Type.Shape))
	sizes := make([]int64, len(g.dims))
	for d := range sizes {
		sizes[d] = 1
	}
	for i, e := range v.Type.Shape {
		n, err := m.int(e)
		if err != nil {
			return err
		}
		sizes[dims[i]] = n
		part.dims = append(part.dims, int(n))
		part.strides = append(part.strides, strides[dims[i]])
	}
	for d, e := range in.Attr("offset").Exprs {
		at, err := m.int(e)
		if err != nil {
			return err
		}
		if at < 0 || sizes[d] < 1 || at+sizes[d] > int64(g.dims[d]) {
			return problem(e.Position(), "Run.E17", "the part of a tensor is a tensor: bound it by min, or guard it with if", "elements %d to %d of dimension %d of %s, which has %d", at, at+sizes[d]-1, d, g.name, g.dims[d])
		}
		part.base += int(at) * strides[d]
	}
	m.set(v, value{set: true, global: part})
	return nil
}

// steps are the distances of neighbours in each dimension, in elements.
func (g *global) steps() []int {
	if g.strides != nil {
		return g.strides
	}
	steps, n := make([]int, len(g.dims)), 1
	for d := len(g.dims) - 1; d >= 0; d-- {
		steps[d] = n
		n *= g.dims[d]
	}
	return steps
}

// chosen calls f for the elements of a tile whose places indices give, in the order
// of threads and their slots, each element once: for its first holder.
func (m *Machine) chosen(in *ir.Instr, layout *ir.Var, f func(e, flat, thread int) error) error {
	g := m.get(in.In[0].Var()).global
	indices, err := m.tile(in, 1)
	if err != nil {
		return err
	}
	dim := in.ScatterDim()
	r := &region{g: g, strip: make([]int64, len(g.dims))}
	for _, e := range in.Offset(len(g.dims)) {
		n, err := m.int(e)
		if err != nil {
			return err
		}
		r.offset = append(r.offset, n)
	}
	for d := range g.dims {
		r.dims = append(r.dims, d)
	}
	return m.owned(layout, func(e, thread int) error {
		index := indexOf(indices.dims, e)
		k := int(int32(uint32(indices.codes[e])))
		if at := int64(k) + r.offset[dim]; at < 0 || at >= int64(g.dims[dim]) {
			return problem(in.In[1].Pos, "Run.E14", "keep indices inside the tensor", "element %v of %s is %d, dimension %d of %s has %d elements", index, in.In[1].Var().Name, at, dim, g.name, g.dims[dim])
		}
		index[dim] = k
		flat, ok := r.element(index)
		if !ok {
			flat = -1
		}
		return f(e, flat, thread)
	})
}

// owned calls f for each element of a tile once, for the first thread that holds it.
func (m *Machine) owned(v *ir.Var, f func(e, thread int) error) error {
	slots := v.Type.Layout.Slots()
	done := make([]bool, v.Type.Layout.Size())
	for i, e := range m.flat(v) {
		if done[e] {
			continue
		}
		done[e] = true
		if err := f(int(e), i/slots); err != nil {
			return err
		}
	}
	return nil
}

func loadGlobalGather(m *Machine, in *ir.Instr) error {
	t := in.Out[0].Type
	dims, _ := t.Dims()
	out := &tile{elem: t.Elem, dims: dims, codes: make([]uint64, t.Layout.Size())}
	g := m.get(in.In[0].Var()).global
	written := m.marks[g.arr]
	err := m.chosen(in, in.Out[0], func(e, flat, thread int) error {
		if flat < 0 {
			return nil
		}
		if err := m.written(in, g, flat); err != nil {
			return err
		}
		out.codes[e] = g.arr.Code(flat)
		if written == nil {
			return nil
		}
		for _, h := range t.Layout.Holders(indexOf(dims, e)...) {
			if err := m.ordered(in, g, written.writer[flat], h.Thread, flat, "reads", "wrote"); err != nil {
				return err
			}
			m.reads(written, flat, h.Thread)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

func storeGlobalScatter(m *Machine, in *ir.Instr) error {
	x, err := m.tile(in, 2)
	if err != nil {
		return err
	}
	g := m.get(in.In[0].Var()).global
	return m.chosen(in, in.In[2].Var(), func(e, flat, thread int) error {
		if flat < 0 {
			return nil
		}
		k := m.marks[g.arr]
		if err := m.ordered(in, g, k.writer[flat], thread, flat, "overwrites", "wrote"); err != nil {
			return err
		}
		if err := m.afterReads(in, g, k, thread, flat, "overwrites"); err != nil {
			return err
		}
		k.writer[flat] = m.me(thread)
		g.arr.SetCode(flat, x.codes[e])
		return nil
	})
}

// atomics makes the steps of a tile, operand at, on the places that each gives.
func (m *Machine) atomics(in *ir.Instr, at int, each func(f func(e, flat, thread int) error) error) error {
	x, err := m.tile(in, at)
	if err != nil {
		return err
	}
	var compare *tile
	if len(in.In) > at+1 {
		if compare, err = m.tile(in, at+1); err != nil {
			return err
		}
	}
	g := m.get(in.In[0].Var()).global
	old := &tile{elem: x.elem, dims: x.dims, codes: make([]uint64, len(x.codes))}
	err = each(func(e, flat, thread int) error {
		if flat < 0 {
			return nil
		}
		if err := m.step(in, g, flat, thread); err != nil {
			return err
		}
		old.codes[e] = g.arr.Code(flat)
		other := uint64(0)
		if compare != nil {
			other = compare.codes[e]
		}
		g.arr.SetCode(flat, atomicStep(in.Attr("op").Word, x.elem, true, old.codes[e], x.codes[e], other))
		m.exchange(in, place{g.arr, flat})
		return nil
	})
	if err == nil && len(in.Out) > 0 {
		m.set(in.Out[0], value{set: true, tile: old})
	}
	return err
}

// step checks and remembers an atomic step of a thread on an element.
func (m *Machine) step(in *ir.Instr, g *global, flat, thread int) error {
	if err := m.written(in, g, flat); err != nil {
		return err
	}
	return m.atomicMark(in, g, m.marks[g.arr], flat, thread)
}

func (m *Machine) atomicMark(in *ir.Instr, g *global, k *marks, flat, thread int) error {
	if w := k.writer[flat]; !m.atomicWith(w, in) {
		if err := m.ordered(in, g, w, thread, flat, "changes", "wrote"); err != nil {
			return err
		}
	}
	if err := m.afterReads(in, g, k, thread, flat, "changes"); err != nil {
		return err
	}
	k.writer[flat] = m.me(thread)
	k.writer[flat].atomic, k.writer[flat].scope = true, scopes[in.Scope()]
	return nil
}

// atomicStep is what becomes of an element, old, by a step with x.
func atomicStep(op string, t dtype.Type, global bool, old, x, compare uint64) uint64 {
	switch op {
	case "sub":
		if t.IsFloat() {
			x ^= 1 << (t.Bits() - 1)
		} else {
			x = -x & (1<<t.Bits() - 1)
		}
		return atomicStep("add", t, global, old, x, 0)
	case "add":
		if t == dtype.F32 && global {
			return flush(dtype.Add(t, flush(old), flush(x)))
		}
		return dtype.Add(t, old, x)
	case "min":
		return dtype.Min(t, old, x)
	case "max":
		return dtype.Max(t, old, x)
	case "and":
		return old & x
	case "or":
		return old | x
	case "xor":
		return old ^ x
	case "exch":
		return x
	case "cas":
		if old == compare {
			return x
		}
		return old
	}
	panic("interp: no atomic " + op)
}

// flush makes a subnormal f32 a zero of its sign.
func flush(v uint64) uint64 {
	if v>>23&0xff == 0 {
		v &= 1 << 31
	}
	return v
}

func atomicGlobal(m *Machine, in *ir.Instr) error {
	v := in.In[1].Var()
	dims, _ := v.Type.Dims()
	r, err := m.region(in, len(dims))
	if err != nil {
		return err
	}
	return m.atomics(in, 1, func(f func(e, flat, thread int) error) error {
		return m.owned(v, func(e, thread int) error {
			flat, ok := r.element(indexOf(dims, e))
			if !ok {
				flat = -1
			}
			return f(e, flat, thread)
		})
	})
}

func atomicScatterGlobal(m *Machine, in *ir.Instr) error {
	return m.atomics(in, 2, func(f func(e, flat, thread int) error) error { return m.chosen(in, in.In[2].Var(), f) })
}

// semaphore is the place and the value of a semaphore instruction.
func (m *Machine) semaphore(in *ir.Instr) (g *global, flat int, v int64, err error) {
	if v, err = m.int(in.In[1].Expr); err != nil {
		return nil, 0, 0, err
	}
	r, err := m.region(in, 0)
	if err != nil {
		return nil, 0, 0, err
	}
	flat, ok := r.element(nil)
	if !ok {
		return nil, 0, 0, problem(in.Attr("offset").Pos, "Run.E14", "a semaphore is an element of its tensor", "%v lies outside %s", r.offset, r.g.name)
	}
	return r.g, flat, v, nil
}

// minusZero is what a 0 is put as: +0 is an empty place.
const minusZero = 1 << 31

// putGlobal wants what was done with a place before to come before, since of a value and of the 0 of who took the one before it either
// may arrive last.
func putGlobal(m *Machine, in *ir.Instr) error {
	v := in.In[1].Var()
	x, r, err := m.stored(in)
	if err != nil {
		return err
	}
	k := m.marks[r.g.arr]
	err = m.owned(v, func(e, thread int) error {
		flat, ok := r.element(indexOf(x.dims, e))
		if !ok {
			return nil
		}
		if err := m.written(in, r.g, flat); err != nil {
			return err
		}
		if there := r.g.arr.Code(flat); there != 0 {
			return problem(in.Pos, "Run.E34", "begin with cleared memory, and take each element before the next is put there", "element %d of %s has %v, which nobody has taken", flat, r.g.name, dtype.F32.Decode(there))
		}
		if err := m.ordered(in, r.g, k.writer[flat], thread, flat, "puts", "emptied"); err != nil {
			return err
		}
		if err := m.step(in, r.g, flat, thread); err != nil {
			return err
		}
		put := x.codes[e]
		if put == 0 {
			put = minusZero
		}
		r.g.arr.SetCode(flat, put)
		return nil
	})
	m.wake()
	return err
}

func takeGlobal(m *Machine, in *ir.Instr) error {
	v := in.Out[0]
	dims, _ := v.Type.Dims()
	r, err := m.region(in, len(dims))
	if err != nil {
		return err
	}
	count := int64(dims[0])
	if len(in.In) > 1 {
		if count, err = m.int(in.In[1].Expr); err != nil {
			return err
		}
	}
	out := &tile{elem: v.Type.Elem, dims: dims, codes: make([]uint64, v.Type.Layout.Size())}
	type taken struct{ flat, thread int }
	var all []taken
	absent := -1
	if err := m.owned(v, func(e, thread int) error {
		index := indexOf(dims, e)
		flat, ok := r.element(index)
		if !ok || int64(index[0]) >= count {
			return nil
		}
		if err := m.written(in, r.g, flat); err != nil {
			return err
		}
		if out.codes[e] = r.g.arr.Code(flat); out.codes[e] == 0 && absent < 0 {
			absent = flat
		}
		all = append(all, taken{flat, thread})
		return nil
	}); err != nil {
		return err
	}
	if absent >= 0 {
		return m.waitFor(func() error {
			return problem(in.Pos, "Run.E35", "let blocks wait only for ones that come before, and each of these put what is waited for", "block %d waits for element %d of %s, which nobody who can run will put there", m.block, absent, r.g.name)
		})
	}
	for _, x := range all {
		if err := m.step(in, r.g, x.flat, x.thread); err != nil {
			return err
		}
		r.g.arr.SetCode(x.flat, 0)
	}
	m.wake()
	m.set(v, value{set: true, tile: out})
	return nil
}

func lockSemaphore(m *Machine, in *ir.Instr) error {
	g, flat, v, err := m.semaphore(in)
	if err != nil {
		return err
	}
	if found := int64(int32(uint32(g.arr.Code(flat)))); found != v {
		if m.wait() {
			return problem(in.Pos, "Run.E15", "let blocks wait only for ones that come before, and release on every way", "block %d waits for element %d of %s to be %d; it is %d, and nobody who can run will change it", m.block, flat, g.name, v, found)
		}
		return nil
	}
	m.wake()
	if err := m.step(in, g, flat, 0); err != nil {
		return err
	}
	m.takeOver(place{g.arr, flat})
	return synchronize(m, in)
}

func releaseSemaphore(m *Machine, in *ir.Instr) error {
	g, flat, v, err := m.semaphore(in)
	if err != nil {
		return err
	}
	if err := synchronize(m, in); err != nil {
		return err
	}
	if err := m.step(in, g, flat, 0); err != nil {
		return err
	}
	g.arr.SetCode(flat, uint64(uint32(v)))
	m.wake()
	m.publish(place{g.arr, flat})
	return nil
}

// loadScalar reads one element in every thread that runs.
func loadScalar(m *Machine, in *ir.Instr) error {
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
	if k := m.marks[r.g.arr]; k != nil {
		for t := range m.sets[m.running()].Size {
			if err := m.ordered(in, r.g, k.writer[flat], t, flat, "reads", "wrote"); err != nil {
				return err
			}
			m.reads(k, flat, t)
		}
	}
	m.set(in.Out[0], value{set: true, n: int64(int32(r.g.arr.Code(flat)))})
	return nil
}
