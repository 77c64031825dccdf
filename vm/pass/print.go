package pass

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// prints turns prints into stores. A block has a row in each tensor of
//
//	print_log    i32 [blocks…, times]              1 + the site of each print, in order
//	print_count  i32 [blocks…, sites]              how often each site was reached
//	print_s_v    type [blocks…, times of s, shape…] value v of site s
//
// Prints beyond the times of their site are only counted, and stores of blocks beyond
// the rows go nowhere, as all stores outside a tensor. [ir.PrintPlan.ReadPrints] reads
// them.
func prints(p *ir.Program) {
	plan := ir.PlanPrints(p)
	if plan == nil {
		return
	}
	w := &printer{p: p, plan: plan, sites: map[*ir.Instr]int{}}
	for i, s := range plan.Sites {
		w.sites[s.Instr] = i
	}
	var head []ir.Stmt
	pos := p.Pos
	blocks := &ir.Instr{Op: ir.OpByName("BlockIndices"), Pos: pos}
	for d := range p.Grid {
		v := &ir.Var{Name: fmt.Sprintf("%s_b%d", plan.Prefix, d), Type: ir.ScalarOf(dtype.I32)}
		blocks.Out = append(blocks.Out, v)
		w.at = append(w.at, ir.NewRef(v))
	}
	head = append(head, blocks)
	tensor := func(name string, t dtype.Type, zero bool, rest ...int) *ir.Var {
		var shape []ir.Expr
		for d, e := range p.Grid {
			shape = append(shape, Simplify(&ir.Binary{Op: "min", X: e, Y: ir.NewInt(int64(plan.Blocks[d]))}))
		}
		for _, n := range rest {
			shape = append(shape, ir.NewInt(int64(n)))
		}
		v := &ir.Var{Name: plan.Prefix + "_" + name, Type: ir.GlobalOf(t, shape...)}
		in := &ir.Instr{Op: ir.OpByName("AllocateGlobal"), Pos: pos, Out: []*ir.Var{v}}
		if zero {
			in.Attrs = []ir.Attr{{Name: "init"}}
		}
		head = append(head, in)
		return v
	}
	zero := func(name string) *ir.Var {
		v := &ir.Var{Name: plan.Prefix + "_" + name, Type: ir.ScalarOf(dtype.I32)}
		head = append(head, &ir.Let{Var: v, Value: ir.NewInt(0), Pos: pos})
		return v
	}
	w.log, w.count, w.n = tensor("log", dtype.I32, true, plan.Times()), tensor("count", dtype.I32, true, len(plan.Sites)), zero("n")
	for i, s := range plan.Sites {
		w.reached = append(w.reached, zero(fmt.Sprintf("n%d", i)))
		var values []*ir.Var
		for k, t := range s.Types {
			shape := s.Shape
			if s.Instr.Op.Name == "Print" {
				shape = []int{1}
			}
			values = append(values, tensor(fmt.Sprintf("%d_%d", i, k), t, t.Bits() < 8, append([]int{s.Times}, shape...)...))
		}
		w.values = append(w.values, values)
	}
	w.block(p.Body)
	p.Body.Stmts = append(head, p.Body.Stmts...)
}

type printer struct {
	p          *ir.Program
	plan       *ir.PrintPlan
	sites      map[*ir.Instr]int
	at         []ir.Expr // block indices
	log, count *ir.Var
	n          *ir.Var // prints of the block
	reached    []*ir.Var
	values     [][]*ir.Var
	made       int
}

func (w *printer) block(b *ir.Block) {
	var out []ir.Stmt
	for _, s := range b.Stmts {
		for _, inner := range ir.Blocks(s) {
			w.block(inner)
		}
		in, ok := s.(*ir.Instr)
		if !ok {
			out = append(out, s)
			continue
		}
		i, ok := w.sites[in]
		if !ok {
			out = append(out, s)
			continue
		}
		out = append(out, w.print(in, i)...)
	}
	b.Stmts = out
}

// print is the code of one print.
func (w *printer) print(in *ir.Instr, site int) []ir.Stmt {
	var out []ir.Stmt
	store := func(to *ir.Var, x *ir.Var, row ir.Expr) {
		offset := append(append([]ir.Expr{}, w.at...), row)
		for len(offset) < len(to.Type.Shape) {
			offset = append(offset, ir.NewInt(0))
		}
		out = append(out, &ir.Instr{Op: ir.OpByName("StoreGlobal"), Pos: in.Pos,
			In:    []ir.Operand{{Expr: ir.NewRef(to), Pos: in.Pos}, {Expr: ir.NewRef(x), Pos: in.Pos}},
			Attrs: []ir.Attr{{Name: "offset", Exprs: offset, Pos: in.Pos}}})
	}
	one := layout.Replicated(w.p.Threads(), 1)
	tile := func(t dtype.Type, init float64) *ir.Var {
		w.made++
		v := &ir.Var{Name: fmt.Sprintf("%s_r%d", w.plan.Prefix, w.made), Type: ir.RegisterOf(t, one)}
		out = append(out, &ir.Instr{Op: ir.OpByName("AllocateRegister"), Pos: in.Pos, Out: []*ir.Var{v}, Attrs: []ir.Attr{{Name: "init", Number: init}}})
		return v
	}
	scalar := func(e ir.Expr, t dtype.Type) *ir.Var {
		init := 0.0
		if t.IsFloat() {
			init = math.Copysign(0, -1) // -0 + x is x, for 0 too
		}
		z := tile(t, init)
		w.made++
		v := &ir.Var{Name: fmt.Sprintf("%s_r%d", w.plan.Prefix, w.made), Type: z.Type}
		out = append(out, &ir.Instr{Op: ir.OpByName("Add"), Pos: in.Pos, Out: []*ir.Var{v}, In: []ir.Operand{{Expr: ir.NewRef(z), Pos: in.Pos}, {Expr: e, Pos: in.Pos}}})
		return v
	}
	count := func(v *ir.Var) {
		out = append(out, &ir.Let{Var: v, Value: &ir.Binary{Op: "+", X: ir.NewRef(v), Y: ir.NewInt(1)}, Pos: in.Pos})
	}
	for k, to := range w.values[site] {
		x := in.In[k].Var()
		if in.Op.Name == "Print" {
			x = scalar(in.In[k].Expr, w.plan.Sites[site].Types[k])
		}
		store(to, x, ir.NewRef(w.reached[site]))
	}
	store(w.log, tile(dtype.I32, float64(site+1)), ir.NewRef(w.n))
	count(w.n)
	shown := &ir.If{Cond: &ir.Binary{Op: "<", X: ir.NewRef(w.reached[site]), Y: ir.NewInt(int64(w.plan.Sites[site].Times))}, Then: &ir.Block{Stmts: out}, Pos: in.Pos}
	out = []ir.Stmt{shown}
	count(w.reached[site])
	store(w.count, scalar(ir.NewRef(w.reached[site]), dtype.I32), ir.NewInt(int64(site)))
	return out
}
