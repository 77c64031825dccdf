package interp

import (
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// wgmmaDot computes at once; what uses its registers and operands before a wait is
// found by their marks.
func wgmmaDot(m *Machine, in *ir.Instr) error {
	c := in.In[2].Var()
	if set := m.sets[m.running()]; set.Begin%ir.WarpgroupThreads != 0 {
		return problem(in.Pos, "Run.E27", "begin groups at multiples of 128 threads", "threads %d to %d are no whole warpgroups", set.Begin, set.Begin+set.Size-1)
	}
	var x [3]*tile
	var err error
	sum := int64(1)
	if a := in.Attr("sum"); a != nil {
		if sum, err = m.int(a.Exprs[0]); err != nil {
			return err
		}
	}
	if sum == 0 {
		dims, _ := c.Type.Dims()
		x[2] = &tile{elem: c.Type.Elem, dims: dims, codes: make([]uint64, size(dims))}
	} else if x[2], err = m.tile(in, 2); err != nil {
		return err
	}
	if m.get(c).touched {
		return m.unfenced(in, c)
	}
	var uses []reading
	for i := range 2 {
		v := in.In[i].Var()
		if v.Type.IsRegister() {
			if x[i], err = m.tile(in, i); err != nil {
				return err
			}
			if m.get(v).touched {
				return m.unfenced(in, v)
			}
			uses = append(uses, reading{result: v})
			continue
		}
		t, r, err := m.readAsync(in, i)
		if err != nil {
			return err
		}
		s := m.get(v).shared
		x[i] = &tile{elem: v.Type.Elem, dims: s.dims, codes: make([]uint64, len(r.places))}
		for e, at := range r.places {
			x[i].codes[e] = t.codes[at]
		}
		uses = append(uses, r)
	}
	p, known := m.dots[in]
	if !known {
		plan, err := ir.PlanWgmma(in)
		if err != nil {
			return problem(in.Pos, "Run.E27", "", "%v", err)
		}
		order := make([]int, plan.Form.K)
		for i := range order {
			order[i] = i
		}
		p = product{step: plan.Form.K, order: order, matrix: true}
		m.dots[in] = p
	}
	p.a, p.b, p.c, p.stopped = x[0], x[1], x[2], m.stopped
	out := &tile{elem: p.c.elem, dims: p.c.dims, codes: make([]uint64, len(p.c.codes))}
	f := p.float
	if !p.c.elem.IsFloat() {
		f = p.whole
	}
	if err := f(out.codes); err != nil {
		return err
	}
	m.set(c, value{set: true, tile: out, uses: m.get(c).uses, sums: true, holder: m.running()})
	uses = append(uses, reading{result: c})
	for _, u := range uses {
		if u.result != nil {
			y := m.get(u.result)
			y.uses++
			m.set(u.result, y)
		}
	}
	m.works(&m.smem.products, func(w *work) { w.open = append(w.open, uses...) })
	return nil
}

func (m *Machine) unfenced(in *ir.Instr, v *ir.Var) error {
	return problem(in.Pos, "Run.E23", "WgmmaFence before the first WgmmaDot and behind each change of its registers", "%s was written by another instruction, and no WgmmaFence stands between", v.Name)
}

// wgmmaFence counts for the registers of the threads that run.
func wgmmaFence(m *Machine, _ *ir.Instr) error {
	for i := range m.vars {
		if m.vars[i].holder == m.running() {
			m.vars[i].touched = false
		}
	}
	return nil
}

func wgmmaCommit(m *Machine, _ *ir.Instr) error {
	m.works(&m.smem.products, (*work).commit)
	return nil
}

func wgmmaWait(m *Machine, in *ir.Instr) error {
	m.works(&m.smem.products, func(w *work) { m.finish(w, int(in.Attr("n").Number)) })
	return nil
}

// results notes what an instruction did to registers, for the fences and waits of
// products.
func (m *Machine) results(in *ir.Instr) {
	if in.Op.Family == "wgmma" {
		return
	}
	for _, v := range in.Out {
		if v.Type.IsRegister() {
			x := m.get(v)
			x.touched, x.holder = true, m.running()
			m.set(v, x)
		}
	}
}

// free checks that registers an instruction changes are in no product's use.
func (m *Machine) free(in *ir.Instr) error {
	if in.Op.Family == "wgmma" {
		return nil
	}
	for _, v := range in.Out {
		if x := m.get(v); x.uses > 0 {
			return problem(in.Pos, "Run.E22", "WgmmaCommitGroup, and WgmmaWaitGroup before the registers are used", "%s is overwritten while a WgmmaDot uses it", v.Name)
		}
	}
	return nil
}
