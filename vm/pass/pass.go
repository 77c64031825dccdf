// Package pass rewrites programs into simpler programs with the same meaning.
// The passes are one list with reasons; [Run] works on a copy.
//
// What a pass drops takes the overflow of its index arithmetic along; divisions
// that may be by zero are never dropped. All else is as before, bit for bit.
package pass

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Pass is one rewrite.
type Pass struct {
	Name string
	Doc  string // what it does and why it stands at its place
	Run  func(*ir.Program)
}

// Passes is the list, in the order in which they run.
func Passes() []Pass {
	return []Pass{
		{"prints", "Turns Print and PrintTensor into stores to tensors of the launch's own, which the host reads back. First, so that what they need is seen as any other code.", prints},
		{"fold", "Computes scalar expressions of constants, drops x+0, x*1, x/1 and the like, and drops branches and loops that never run. First, because what it finds constant leaves dead code behind.", fold},
		{"dead", "Drops instructions and scalars whose results nobody uses, and the loops and branches that are empty then. Last, because every other pass leaves such code.", dead},
	}
}

// Options choose passes.
type Options struct {
	Skip []string // names of passes to leave out
}

// Run gives a verified program after all passes; p stays as it is. dump, if not nil,
// is called after each pass with its name and the program's text, and each pass is
// verified. The error names a pass that does not exist, or one that broke a rule, which
// is a bug of that pass.
func Run(p *ir.Program, o Options, dump func(name, text string)) (*ir.Program, error) {
	passes := Passes()
	for _, name := range o.Skip {
		if !slices.ContainsFunc(passes, func(q Pass) bool { return q.Name == name }) {
			var known []string
			for _, q := range passes {
				known = append(known, q.Name)
			}
			return nil, fmt.Errorf("pass: there is no pass %s (%v)", name, known)
		}
	}
	p = ir.Clone(p)
	for _, q := range passes {
		if slices.Contains(o.Skip, q.Name) {
			continue
		}
		q.Run(p)
		if dump == nil {
			continue
		}
		if err := ir.Verify(p).Err(); err != nil {
			return nil, fmt.Errorf("pass: %s broke the program: %w", q.Name, err)
		}
		dump(q.Name, text.Format(p))
	}
	return p, nil
}

// fold simplifies every expression of the program.
func fold(p *ir.Program) {
	for i, e := range p.Grid {
		p.Grid[i] = Simplify(e)
	}
	foldBlock(p.Body)
}

func foldBlock(b *ir.Block) {
	if b == nil {
		return
	}
	for _, s := range b.Stmts {
		switch s := s.(type) {
		case *ir.Instr:
			for i := range s.In {
				s.In[i].Expr = Simplify(s.In[i].Expr)
			}
			for _, a := range s.Attrs {
				for i, e := range a.Exprs {
					a.Exprs[i] = Simplify(e)
				}
			}
			for _, v := range s.Out {
				if v.Type.IsGlobal() {
					for i, e := range v.Type.Shape {
						v.Type.Shape[i] = Simplify(e)
					}
				}
			}
		case *ir.Let:
			s.Value = Simplify(s.Value)
		case *ir.For:
			s.From, s.To = Simplify(s.From), Simplify(s.To)
		case *ir.While:
			s.Cond = Simplify(s.Cond)
		case *ir.If:
			s.Cond = Simplify(s.Cond)
		case *ir.Assume:
			s.Cond = Simplify(s.Cond)
		}
		for _, inner := range ir.Blocks(s) {
			foldBlock(inner)
		}
	}
	b.Stmts = slices.DeleteFunc(b.Stmts, neverRuns)
}

// neverRuns reports a loop or branch without effect whatever the arguments are.
func neverRuns(s ir.Stmt) bool {
	isFalse := func(e ir.Expr) bool {
		n, ok := ir.ConstInt(e)
		return ok && n == 0
	}
	switch s := s.(type) {
	case *ir.While:
		return isFalse(s.Cond)
	case *ir.If:
		return isFalse(s.Cond) && s.Else == nil
	case *ir.For:
		from, ok := ir.ConstInt(s.From)
		to, ok2 := ir.ConstInt(s.To)
		step := int64(1)
		if s.Step != nil {
			step, _ = ir.ConstInt(s.Step)
		}
		return ok && ok2 && (step > 0 && from >= to || step < 0 && from <= to)
	}
	return false
}

// Simplify gives an expression that has the same value wherever e has one. It
// keeps e's type: constants are computed only where the result fits it.
func Simplify(e ir.Expr) ir.Expr {
	switch e := e.(type) {
	case *ir.Unary:
		x := Simplify(e.X)
		if inner, ok := x.(*ir.Unary); ok && inner.Op == e.Op {
			return inner.X // !!x, --x
		}
		out := &ir.Unary{Op: e.Op, X: x, Pos: e.Pos}
		if n, ok := x.(*ir.Int); ok && e.Op == "-" {
			return literal(out, n)
		}
		return out
	case *ir.Binary:
		out, l, r := e, Simplify(e.X), Simplify(e.Y)
		if l != e.X || r != e.Y {
			out = &ir.Binary{Op: e.Op, X: l, Y: r, Pos: e.Pos}
		}
		x, xok := out.X.(*ir.Int)
		y, yok := out.Y.(*ir.Int)
		if xok && yok && (ir.BinaryPrec(e.Op) > 3 || e.Op == "min" || e.Op == "max") {
			return literal(out, x, y)
		}
		switch {
		case isInt(out.Y, 0) && (e.Op == "+" || e.Op == "-"), isInt(out.Y, 1) && (e.Op == "*" || e.Op == "/"):
			return keep(out, out.X)
		case isInt(out.X, 0) && e.Op == "+", isInt(out.X, 1) && e.Op == "*":
			return keep(out, out.Y)
		}
		return out
	case *ir.Select:
		return &ir.Select{Cond: Simplify(e.Cond), X: Simplify(e.X), Y: Simplify(e.Y), Pos: e.Pos}
	}
	return e
}

func isInt(e ir.Expr, n int64) bool {
	i, ok := e.(*ir.Int)
	return ok && i.Value == n
}

// literal is the value of an expression of literals, or the expression where the
// value does not exist or would be a literal of another type.
func literal(e ir.Expr, parts ...*ir.Int) ir.Expr {
	n, ok := ir.ConstInt(e)
	if !ok {
		return e
	}
	for _, i := range append(parts, &ir.Int{Value: n}) {
		if !ir.CheckRange(dtype.I32, i.Value) {
			return e
		}
	}
	return &ir.Int{Value: n, Pos: e.Position()}
}

// keep is x in place of e, unless dropping the literal changes e's type.
func keep(e *ir.Binary, x ir.Expr) ir.Expr {
	quiet := func(diag.Pos, string, string, string) {}
	was, _ := ir.TypeOf(e, quiet)
	if is, _ := ir.TypeOf(x, quiet); is != was {
		return e
	}
	return x
}
