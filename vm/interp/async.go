package interp

import "github.com/tilus-lab/tilus-lab/vm/ir"

// someone stands for the thread that copies an element, which is not defined. It is
// no thread that another access could be made by.
const someone = -2

// copyAsync fills dst at once, but what it filled can be used only after a wait.
func copyAsync(m *Machine, in *ir.Instr) error {
	s := m.get(in.In[1].Var()).shared
	r, err := m.region(in, len(s.dims))
	if err != nil {
		return err
	}
	t, err := m.use(in, s)
	if err != nil {
		return err
	}
	order := make([]int, len(s.dims))
	for d := range order {
		order[d] = d
	}
	places := s.places(make([]int, len(s.dims)), order, s.dims)
	written := m.marks[r.g.arr]
	err = each(s.dims, func(e int, index []int) error {
		at := places[e]
		if err := m.overwrites(in, s, t, s.dims, e, at, someone); err != nil {
			return err
		}
		t.pending[at], t.codes[at] = true, 0
		flat, ok := r.element(index)
		if !ok {
			if a := in.Attr("bounds"); a != nil {
				return problem(a.Pos, "Run.E13", "leave bounds out: what lies outside is 0", "element %v of the tile lies outside %s", index, r.g.name)
			}
			return nil
		}
		t.codes[at] = r.g.arr.Code(flat)
		if written == nil {
			return nil
		}
		if err := m.ordered(in, r.g, written.writer[flat], someone, flat, "copies", "wrote"); err != nil {
			return err
		}
		m.reads(written, flat, someone)
		return nil
	})
	if err != nil {
		return err
	}
	t.copies += len(places)
	m.flight(func(f *flight) { f.open = append(f.open, copying{s.tile, places, m.line}) })
	return nil
}

// flight changes what the running threads have begun to copy. Each set of threads
// has groups of its own, which it alone can wait for.
func (m *Machine) flight(change func(*flight)) {
	set := m.running()
	f := m.smem.flights[set]
	change(&f)
	if m.smem.flights == nil {
		m.smem.flights = map[int16]flight{}
	}
	m.smem.flights[set] = f
}

func copyAsyncCommitGroup(m *Machine, _ *ir.Instr) error {
	m.flight(func(f *flight) { f.groups, f.open = append(f.groups, f.open), nil })
	return nil
}

func copyAsyncWaitGroup(m *Machine, in *ir.Instr) error {
	m.flight(func(f *flight) { m.landAll(f, int(in.Attr("n").Number)) })
	return nil
}

func copyAsyncWaitAll(m *Machine, _ *ir.Instr) error {
	m.flight(func(f *flight) {
		f.groups, f.open = append(f.groups, f.open), nil
		m.landAll(f, 0)
	})
	return nil
}

// landAll ends the oldest groups until n are left.
func (m *Machine) landAll(f *flight, n int) {
	for len(f.groups) > n {
		m.land(f.groups[0])
		f.groups = f.groups[1:]
	}
}

// land ends copies: what they brought was written now, by threads that are not
// known, so that all others need a barrier.
func (m *Machine) land(list []copying) {
	for _, c := range list {
		t := m.smem.tiles[c.tile]
		now := m.several()
		now.line = c.line
		for _, at := range c.places {
			t.pending[at], t.writer[at] = false, now
		}
		t.copies -= len(c.places)
		t.used = lastUse{t.name, now}
	}
}
