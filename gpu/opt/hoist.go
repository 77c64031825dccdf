package opt

import "github.com/tilus-lab/tilus-lab/gpu/code"

// Hoist moves pure instructions whose inputs do not change in a loop to before
// it. Divisions stay unless the divisor is known not to be zero, because the
// loop might not run at all.
func Hoist(f *code.Func) bool {
	h := &hoister{inside: intLists.lend(len(f.Types)), consts: constLists.lend(len(f.Types))}
	h.region(f.Body, 0)
	intLists.back(h.inside)
	constLists.back(h.consts)
	return h.changed
}

type hoister struct {
	inside  []int // loops around the definition of each value
	consts  consts
	changed bool
}

// region handles a region within depth loops and returns the instructions that
// can leave the innermost of them.
func (h *hoister) region(r *code.Region, depth int) (leave []*code.Instr) {
	for _, a := range r.Args {
		h.inside[a] = depth
	}
	rest := make([]*code.Instr, 0, len(r.Instrs))
	for _, in := range r.Instrs {
		if isConst(in.Op) {
			h.consts.set(in.Out[0], uint64(in.Imm[0]))
		}
		loop := 0
		if in.Op == code.OpFor || in.Op == code.OpWhile {
			loop = 1
		}
		for _, sub := range in.Regions {
			out := h.region(sub, depth+loop)
			if loop == 1 { // they may leave this loop too
				for _, x := range out {
					if depth > 0 && h.free(x, depth) {
						leave = append(leave, h.at(x, depth-1))
					} else {
						rest = append(rest, h.at(x, depth))
					}
				}
			} else {
				leave = append(leave, out...)
			}
		}
		if depth > 0 && h.free(in, depth) {
			in.Exact = code.MayWrap // the loop might not run at all
			leave = append(leave, h.at(in, depth-1))
			h.changed = true
			continue
		}
		for _, v := range in.Out {
			h.inside[v] = depth
		}
		rest = append(rest, in)
	}
	r.Instrs = rest
	return leave
}

func (h *hoister) at(in *code.Instr, depth int) *code.Instr {
	for _, v := range in.Out {
		h.inside[v] = depth
	}
	return in
}

// free reports whether an instruction may leave the loop at this depth.
func (h *hoister) free(in *code.Instr, depth int) bool {
	row := in.Row()
	if !row.Movable() {
		return false
	}
	if row.NonZero {
		if c, ok := h.consts.get(in.In[1]); !ok || c == 0 {
			return false
		}
	}
	for _, v := range in.In {
		if h.inside[v] >= depth {
			return false
		}
	}
	return true
}
