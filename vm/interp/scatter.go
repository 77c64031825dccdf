package interp

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// sharedElements calls f for the place of each element of the tile that is operand
// at, once, for its first holder; by indices if the instruction has a dim.
func (m *Machine) sharedElements(in *ir.Instr, at int, f func(t *sharedTile, e int, place int32, thread int) error) error {
	v := in.In[at].Var()
	s := m.get(in.In[0].Var()).shared
	t, err := m.use(in, s)
	if err != nil {
		return err
	}
	sizes, _ := v.Type.Dims()
	if in.Attr("dim") == nil {
		_, places, err := m.part(in, s, sizes)
		if err != nil {
			return err
		}
		return m.owned(v, func(e, thread int) error { return f(t, e, places[e], thread) })
	}
	indices, err := m.tile(in, 1)
	if err != nil {
		return err
	}
	offset := make([]int64, len(s.dims))
	for d, e := range in.Offset(len(s.dims)) {
		if offset[d], err = m.int(e); err != nil {
			return err
		}
	}
	dim := in.ScatterDim()
	return m.owned(v, func(e, thread int) error {
		index := indexOf(sizes, e)
		index[dim] = int(int32(uint32(indices.codes[e])))
		place := s.base
		for d, x := range index {
			x += int(offset[d])
			if x < 0 || x >= s.dims[d] {
				return problem(in.In[1].Pos, "Run.E14", "keep indices inside the tensor", "element %v of the tile goes to index %d of dimension %d of %s, which has %d elements", indexOf(sizes, e), x, d, s.name, s.dims[d])
			}
			place += along(s.modes[d], x)
		}
		return f(t, e, int32(place), thread)
	})
}

func storeSharedScatter(m *Machine, in *ir.Instr) error {
	x, err := m.tile(in, 2)
	if err != nil {
		return err
	}
	s := m.get(in.In[0].Var()).shared
	return m.sharedElements(in, 2, func(t *sharedTile, e int, at int32, thread int) error {
		if err := m.overwrites(in, s, t, x.dims, e, at, thread); err != nil {
			return err
		}
		t.writer[at] = m.me(thread)
		t.codes[at] = x.codes[e]
		return nil
	})
}

func atomicShared(m *Machine, in *ir.Instr) error {
	at := slices.IndexFunc(in.Op.In, func(p ir.Port) bool { return p.Name == "tile" })
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
	s := m.get(in.In[0].Var()).shared
	old := &tile{elem: x.elem, dims: x.dims, codes: make([]uint64, len(x.codes))}
	err = m.sharedElements(in, at, func(t *sharedTile, e int, at int32, thread int) error {
		w := t.writer[at]
		switch {
		case t.pending[at]:
			return m.onItsWay(in, s, x.dims, e)
		case w.block == 0:
			return problem(in.Pos, "Run.E9", "store to it first", "element %v at the tile's index of %s was never written", indexOf(x.dims, e), s.name)
		case !w.atomic && !m.before(w, thread):
			return m.race(in, s, x.dims, e, w, thread, "changes", "wrote")
		}
		if t.plain == nil {
			t.plain = make([]mark, len(t.codes))
		}
		if !w.atomic {
			t.plain[at] = w
		} else if k := t.plain[at]; !m.before(k, thread) {
			return m.race(in, s, x.dims, e, k, thread, "changes", "wrote")
		}
		if r, ok := m.readBefore(t, at, thread); !ok {
			return m.race(in, s, x.dims, e, r, thread, "changes", "read")
		}
		t.writer[at] = m.me(thread)
		t.writer[at].atomic = true
		adders := marksOf(&t.adders, m.self(), len(t.codes))
		adders[at] = m.and(adders[at], thread)
		old.codes[e] = t.codes[at]
		other := uint64(0)
		if compare != nil {
			other = compare.codes[e]
		}
		t.codes[at] = atomicStep(in.Attr("op").Word, x.elem, false, old.codes[e], x.codes[e], other)
		return nil
	})
	if err == nil && len(in.Out) > 0 {
		m.set(in.Out[0], value{set: true, tile: old})
	}
	return err
}
