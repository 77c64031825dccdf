package cost

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/opt"
)

// registers estimates the 32-bit registers of a thread: the most that hold values
// at one moment when everything is computed as late as it can be without moving
// memory accesses, barriers and exchanges. That is closer to what assemblers do than
// the order in which passes leave code, which computes all addresses first.
func registers(f *code.Func) int {
	g := opt.Clone(f)
	late(g.Body)
	return code.Assign(g).Live
}

// late puts each movable instruction in front of the first one that needs it.
func late(r *code.Region) {
	def := map[code.Value]*code.Instr{}
	for _, in := range r.Instrs {
		for _, sub := range in.Regions {
			late(sub)
		}
		if in.Row().Movable() {
			for _, v := range in.Out {
				def[v] = in
			}
		}
	}
	var order []*code.Instr
	done := map[*code.Instr]bool{}
	var put func(in *code.Instr)
	need := func(v *code.Value) {
		if in := def[*v]; in != nil && !done[in] {
			put(in)
		}
	}
	put = func(in *code.Instr) {
		done[in] = true
		for i := range in.In {
			need(&in.In[i])
		}
		if in.Guard != 0 {
			need(&in.Guard)
		}
		for _, sub := range in.Regions {
			sub.Uses(need)
		}
		order = append(order, in)
	}
	for _, in := range r.Instrs {
		if !in.Row().Movable() {
			put(in)
		}
	}
	for i := range r.Yield {
		need(&r.Yield[i])
	}
	r.Instrs = order
}
