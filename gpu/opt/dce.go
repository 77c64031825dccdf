package opt

import "github.com/tilus-lab/tilus-lab/gpu/code"

// Dce drops pure and matrix instructions whose results nobody reads, and Ifs that
// do nothing. Loads and divisions by what may be 0 stay: one that is out of bounds,
// or by 0, is an error that must not disappear.
func Dce(f *code.Func) bool {
	d := &dce{live: boolLists.lend(len(f.Types)), consts: constLists.lend(len(f.Types))[:0]}
	f.Body.Walk(func(in *code.Instr) {
		if isConst(in.Op) {
			d.consts.set(in.Out[0], uint64(in.Imm[0]))
		}
	})
	// Loops feed their own arguments, so that liveness grows until it is stable.
	for again := true; again; {
		d.grew = false
		d.mark(f.Body)
		again = d.grew
	}
	d.sweep(f.Body)
	boolLists.back(d.live)
	constLists.back(d.consts)
	return d.changed
}

type dce struct {
	live          []bool
	consts        consts
	grew, changed bool
}

func (d *dce) need(v code.Value) {
	if v != 0 && !d.live[v] {
		d.live[v], d.grew = true, true
	}
}

// wanted reports whether an instruction must stay.
func (d *dce) wanted(in *code.Instr) bool {
	row := in.Row()
	if in.Op == code.OpWhile || in.Op == code.OpFor {
		return true // dropping one would hide that it never ends
	}
	if !row.Movable() && row.Class != code.Matrix && in.Op != code.OpIf {
		return true
	}
	if row.NonZero && d.consts.bits(in.In[1]) == 0 {
		return true
	}
	for _, v := range in.Out {
		if d.live[v] {
			return true
		}
	}
	if in.Op == code.OpIf {
		for _, r := range in.Regions {
			for _, sub := range r.Instrs {
				if d.wanted(sub) {
					return true
				}
			}
		}
	}
	return false
}

// mark goes backwards, so that straight code needs one turn.
func (d *dce) mark(r *code.Region) {
	for i := len(r.Instrs) - 1; i >= 0; i-- {
		in := r.Instrs[i]
		if !d.wanted(in) {
			continue
		}
		for _, v := range in.In {
			d.need(v)
		}
		d.need(in.Guard)
		for _, sub := range in.Regions {
			for _, y := range sub.Yield {
				d.need(y)
			}
			d.mark(sub)
		}
	}
}

func (d *dce) sweep(r *code.Region) {
	rest := r.Instrs[:0]
	for _, in := range r.Instrs {
		if !d.wanted(in) {
			d.changed = true
			continue
		}
		for _, sub := range in.Regions {
			d.sweep(sub)
		}
		rest = append(rest, in)
	}
	r.Instrs = rest
}
