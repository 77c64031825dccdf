package infer

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Complete infers the layouts that the tiles of a program lack and sets them. Where
// two instructions want different layouts of a tile, a ConvertLayout is put between
// them, the cheapest that satisfies the rules of the instruction; the trace has a
// step for each. The program changes only where all layouts are found.
//
// View and the shuffles mean something else in another layout; nothing is converted
// for them. A conversion through shared memory stands in no thread group of part of a
// warp.
func Complete(p *ir.Program, target Target) (Trace, error) {
	g, vars := FromProgram(p, target)
	trace, err := g.Infer()
	r := repairer{p: p, g: g, done: map[*Instr]bool{}, names: names(p), ways: map[string]Way{}}
	for {
		steps := r.next(err != nil)
		if steps == nil {
			break
		}
		var more Trace
		more, err = g.Infer()
		trace = append(append(trace, steps...), more...)
	}
	if err != nil {
		return trace, err
	}
	for v, t := range vars {
		if !v.Type.HasLayout {
			v.Type.Layout, v.Type.Shared, v.Type.HasLayout = t.Register, t.Shared, true
		}
	}
	r.write(p.Body)
	return trace, nil
}

// names are the names of a program's variables.
func names(p *ir.Program) map[string]bool {
	all := map[string]bool{}
	for _, v := range p.Params {
		all[v.Name] = true
	}
	p.Body.Walk(func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Instr:
			for _, v := range s.Out {
				all[v.Name] = true
			}
		case *ir.Let:
			all[s.Var.Name] = true
		case *ir.For:
			all[s.Var.Name] = true
		}
		return true
	})
	return all
}

// repairer finds instructions that cannot take their tiles as they lie.
type repairer struct {
	p     *ir.Program
	g     *Graph
	done  map[*Instr]bool // all tiles known, and the rules hold or no conversion helps
	names map[string]bool
	fixes []fix
	ways  map[string]Way // by element type and layouts
}

// way is what a conversion costs; the same ones come again and again.
func (r *repairer) way(from, to ir.Type) Way {
	key := from.String() + " to " + to.Layout.String()
	w, ok := r.ways[key]
	if !ok {
		w = r.g.Target.Conversion(from, to)
		r.ways[key] = w
	}
	return w
}

// fix is a ConvertLayout to be written before the instruction, for an operand, or
// after it, for a result.
type fix struct {
	at       *ir.Instr
	operand  int // of at; -1
	result   int // of at; -1
	from, to *Tile
}

// next repairs one instruction and says how; nil where there is none to repair.
// Those whose tiles are all known come first; those that inference is stuck at only
// if it is.
func (r *repairer) next(stuck bool) Trace {
	for _, open := range []bool{false, true} {
		if open && !stuck {
			break
		}
		for _, in := range r.g.Instrs {
			if r.done[in] || in.src == nil || !convertible(in.src.Op) {
				continue
			}
			known, wants := false, false
			for _, t := range in.tiles() {
				known, wants = known || t.Known && t.Space == Register, wants || t.wants()
			}
			if wants != open || !known {
				continue
			}
			if !wants {
				r.done[in] = true
				if r.holds(in, in.tiles()) {
					continue
				}
			}
			if steps := r.repair(in); steps != nil {
				return steps
			}
		}
	}
	return nil
}

func convertible(op *ir.Op) bool {
	switch op.Name {
	case "View", "ConvertLayout", "ShuffleUp", "ShuffleDown":
		return false
	}
	return true
}

// holds says whether the rules of an instruction are kept with these tiles.
func (r *repairer) holds(in *Instr, tiles []*Tile) bool {
	src := *in.src
	src.In, src.Out = slices.Clone(src.In), slices.Clone(src.Out)
	as := func(t *Tile, v *ir.Var) *ir.Var {
		w := *v
		w.Type.Layout, w.Type.Shared, w.Type.HasLayout = t.Register, t.Shared, t.Known
		return &w
	}
	for i := range in.In {
		o := &src.In[in.operands[i]]
		o.Expr = &ir.Ref{Var: as(tiles[i], o.Var()), Pos: o.Pos}
	}
	for i, t := range tiles[len(in.In):] {
		k := slices.Index(in.src.Out, in.Out[i].v)
		if k < 0 {
			return true
		}
		src.Out[k] = as(t, src.Out[k])
	}
	for _, rule := range src.Op.Rules {
		if rule.Check(r.p, &src) != nil {
			return false
		}
	}
	return src.Op.Name != "Dot" || multiplies(&src)
}

// repair converts the tiles of an instruction that are the cheapest to convert.
func (r *repairer) repair(in *Instr) Trace {
	tiles := in.tiles()
	var open []int // tiles that may be converted
	for i, t := range tiles {
		if t.Known && t.Space == Register && !t.v.Type.HasPlace {
			open = append(open, i)
		}
	}
	if len(open) > 6 || len(tiles) != len(in.In)+len(in.Out) {
		return nil
	}
	var best []*Tile
	var bestTrace Trace
	var bestWays map[int]Way
	cost := -1
	var enough []int // subsets that do; more conversions than those cost more
	for _, subset := range subsets(len(open)) {
		if slices.ContainsFunc(enough, func(s int) bool { return subset&s == s }) {
			continue
		}
		local := make([]*Tile, len(tiles))
		seen := map[*Tile]*Tile{}
		for i, t := range tiles {
			k := slices.Index(open, i)
			converted := k >= 0 && subset>>k&1 != 0
			if u := seen[t]; u != nil && !converted {
				local[i] = u
				continue
			}
			u := *t
			u.Known = t.Known && !converted
			local[i] = &u
			if !converted {
				seen[t] = &u
			}
		}
		alone := *in
		alone.In, alone.Out = local[:len(in.In)], local[len(in.In):]
		steps, err := (&Graph{Warps: r.g.Warps, Target: r.g.Target, Instrs: []*Instr{&alone}}).Infer()
		if err != nil || !r.holds(in, local) {
			continue
		}
		ways, sum, ok := map[int]Way{}, 0, true
		for k, i := range open {
			if subset>>k&1 == 0 {
				continue
			}
			from, to := typed(tiles[i]), typed(local[i])
			if i >= len(in.In) {
				from, to = to, from
			}
			ok = ok && from.Layout.Threads() == to.Layout.Threads() && !from.Layout.Equal(to.Layout)
			if !ok {
				break
			}
			w := r.way(from, to)
			ok = !w.Shared || in.Threads%r.g.Target.Lanes() == 0 // a barrier is one of whole warps
			sum += 1 + w.Cost
			ways[i] = w
		}
		if ok {
			enough = append(enough, subset)
		}
		if ok && (cost < 0 || sum < cost) {
			best, bestTrace, bestWays, cost = local, steps, ways, sum
		}
	}
	if best == nil {
		return nil
	}
	r.done[in] = true
	var trace Trace
	for i, t := range tiles {
		if w, ok := bestWays[i]; ok {
			fresh := best[i]
			fresh.Name = r.name(t.Name)
			fresh.v = &ir.Var{Name: fresh.Name, Type: typed(fresh), Pos: in.Pos}
			s := Step{Rule: RuleConversion, Instr: in, Tile: fresh, From: t, Way: w}
			f := fix{at: in.src, operand: -1, result: -1, from: t, to: fresh}
			if i < len(in.In) {
				f.operand = in.operands[i]
				in.In[i] = fresh
			} else {
				f.result = slices.Index(in.src.Out, t.v)
				s.Tile, s.From, s.Result = t, fresh, true
				f.from, f.to = fresh, t
				in.Out[i-len(in.In)] = fresh
			}
			trace = append(trace, s)
			r.fixes = append(r.fixes, f)
			continue
		}
		if t.wants() {
			t.Register, t.Shared, t.TMemory, t.Known = best[i].Register, best[i].Shared, best[i].TMemory, true
			for _, s := range bestTrace {
				if s.Tile == best[i] {
					trace = append(trace, Step{Rule: s.Rule, Instr: in, Tile: t})
				}
			}
		}
	}
	return trace
}

// subsets are the sets of n things but the empty one, as bits, small ones first.
func subsets(n int) []int {
	all := make([]int, 0, 1<<n-1)
	for s := 1; s < 1<<n; s++ {
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b int) int { return bits.OnesCount(uint(a)) - bits.OnesCount(uint(b)) })
	return all
}

// typed is the type of a register tile.
func typed(t *Tile) ir.Type { return ir.RegisterOf(t.Elem, t.Register) }

// name makes a name like that of a tile.
func (r *repairer) name(base string) string {
	for i := 1; ; i++ {
		if n := fmt.Sprintf("%s_%d", base, i); !r.names[n] {
			r.names[n] = true
			return n
		}
	}
}

// write puts the conversions into a block and those in it.
func (r *repairer) write(b *ir.Block) {
	if b == nil || len(r.fixes) == 0 {
		return
	}
	convert := ir.OpByName("ConvertLayout")
	var out []ir.Stmt
	for _, s := range b.Stmts {
		for _, inner := range ir.Blocks(s) {
			r.write(inner)
		}
		var after []ir.Stmt
		for _, f := range r.fixes {
			if in, ok := s.(*ir.Instr); !ok || in != f.at {
				continue
			}
			c := &ir.Instr{Op: convert, Pos: f.at.Pos, In: []ir.Operand{{Expr: &ir.Ref{Var: f.from.v, Pos: f.at.Pos}, Pos: f.at.Pos}}, Out: []*ir.Var{f.to.v}}
			if f.operand >= 0 {
				o := &f.at.In[f.operand]
				o.Expr = &ir.Ref{Var: f.to.v, Pos: o.Pos}
				out = append(out, c)
			} else {
				f.at.Out[f.result] = f.from.v
				after = append(after, c)
			}
		}
		out = append(append(out, s), after...)
	}
	b.Stmts = out
}
