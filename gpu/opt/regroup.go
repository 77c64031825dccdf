package opt

import (
	"sort"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Regroup reorders sums of three and more terms inside a loop so that the terms
// that do not change in it come first: (row + 16·i) + column becomes
// (row + column) + 16·i, and the next pass computes the bracket once. Integer
// sums that wrap may be taken in any order.
func Regroup(f *code.Func) bool {
	g := &regrouper{f: f, inside: intLists.lend(len(f.Types)), uses: intLists.lend(len(f.Types)), def: instrLists.lend(len(f.Types))}
	f.Body.Uses(func(v *code.Value) { g.uses[*v]++ })
	g.region(f.Body, 0)
	intLists.back(g.inside, g.uses)
	instrLists.back(g.def)
	return g.changed
}

type regrouper struct {
	f       *code.Func
	inside  []int // loops around the definition of each value
	uses    []int
	def     []*code.Instr
	changed bool
}

func isAdd(in *code.Instr) bool {
	return in != nil && (in.Op == code.OpAdd32 || in.Op == code.OpAdd64)
}

func (g *regrouper) region(r *code.Region, depth int) {
	for _, a := range r.Args {
		g.inside[a] = depth
	}
	out := make([]*code.Instr, 0, len(r.Instrs))
	for _, in := range r.Instrs {
		loop := 0
		if in.Op == code.OpFor || in.Op == code.OpWhile {
			loop = 1
		}
		for _, sub := range in.Regions {
			g.region(sub, depth+loop)
		}
		if depth > 0 && isAdd(in) {
			out = append(out, g.sum(in, depth)...)
		}
		for _, v := range in.Out {
			g.inside[v], g.def[v] = depth, in
		}
		out = append(out, in)
	}
	r.Instrs = out
}

// terms adds the terms of the sum v to list.
func (g *regrouper) terms(v code.Value, op code.Op, depth int, list []code.Value) []code.Value {
	if d := g.def[v]; isAdd(d) && d.Op == op && g.uses[v] == 1 && g.inside[v] == depth {
		return g.terms(d.In[1], op, depth, g.terms(d.In[0], op, depth, list))
	}
	return append(list, v)
}

// sum reorders the sum that in completes; it returns the new partial sums.
func (g *regrouper) sum(in *code.Instr, depth int) []*code.Instr {
	list := g.terms(in.In[1], in.Op, depth, g.terms(in.In[0], in.Op, depth, nil))
	fixed := 0
	for _, v := range list {
		if g.inside[v] < depth {
			fixed++
		}
	}
	if fixed < 2 || fixed == len(list) {
		return nil
	}
	sort.SliceStable(list, func(i, j int) bool { return g.inside[list[i]] < g.inside[list[j]] })
	var out []*code.Instr
	total := list[0]
	for _, v := range list[1 : len(list)-1] {
		s := g.f.NewValue(g.f.Type(total))
		add := &code.Instr{Op: in.Op, In: []code.Value{total, v}, Out: []code.Value{s}, Pos: in.Pos}
		level := max(g.inside[total], g.inside[v])
		g.inside, g.uses, g.def = append(g.inside, level), append(g.uses, 1), append(g.def, add)
		out = append(out, add)
		total = s
	}
	in.In[0], in.In[1], in.Exact = total, list[len(list)-1], code.MayWrap
	g.changed = true
	return out
}
