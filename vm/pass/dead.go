package pass

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// dead drops what no store, loop, branch or condition depends on. An
// accumulator that only feeds itself is dead: a statement lives only if
// something that lives reads its result, or if it divides by what may be 0, which
// must stay an error.
func dead(p *ir.Program) {
	for {
		live := liveVars(p.Body)
		if !sweep(p.Body, live) {
			return
		}
	}
}

// liveVars are the variables whose values matter: those that stores and control
// flow read, and those that statements assigning a live variable read.
func liveVars(body *ir.Block) map[*ir.Var]bool {
	live := map[*ir.Var]bool{}
	changed := false
	mark := func(r *ir.Ref) {
		if !live[r.Var] {
			live[r.Var], changed = true, true
		}
	}
	for {
		changed = false
		body.Walk(func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.Instr:
				if instrLives(s, live) || divides(s) {
					for _, o := range s.In {
						ir.Refs(o.Expr, mark)
					}
					for _, a := range s.Attrs {
						for _, e := range a.Exprs {
							ir.Refs(e, mark)
						}
					}
				}
			case *ir.Let:
				if live[s.Var] || divides(s) {
					ir.Refs(s.Value, mark)
				}
			case *ir.For:
				ir.Refs(s.From, mark)
				ir.Refs(s.To, mark)
			case *ir.While:
				ir.Refs(s.Cond, mark)
			case *ir.If:
				ir.Refs(s.Cond, mark)
			case *ir.Assume:
				ir.Refs(s.Cond, mark)
			}
			return true
		})
		if !changed {
			return live
		}
	}
}

func instrLives(s *ir.Instr, live map[*ir.Var]bool) bool {
	return !s.Op.Effects.Pure() || len(s.Out) == 0 || slices.ContainsFunc(s.Out, func(v *ir.Var) bool { return live[v] })
}

// divides reports whether a statement itself, not one in its blocks, divides by
// what is no constant.
func divides(s ir.Stmt) bool {
	var inExpr func(e ir.Expr) bool
	inExpr = func(e ir.Expr) bool {
		switch e := e.(type) {
		case *ir.Unary:
			return inExpr(e.X)
		case *ir.Binary:
			if e.Op == "/" || e.Op == "%" {
				if _, constant := ir.ConstInt(e.Y); !constant {
					return true
				}
			}
			return inExpr(e.X) || inExpr(e.Y)
		case *ir.Select:
			return inExpr(e.Cond) || inExpr(e.X) || inExpr(e.Y)
		}
		return false
	}
	switch s := s.(type) {
	case *ir.Instr:
		return slices.ContainsFunc(s.In, func(o ir.Operand) bool { return inExpr(o.Expr) }) ||
			slices.ContainsFunc(s.Attrs, func(a ir.Attr) bool { return slices.ContainsFunc(a.Exprs, inExpr) })
	case *ir.Let:
		return inExpr(s.Value)
	case *ir.For:
		return inExpr(s.From) || inExpr(s.To)
	case *ir.If:
		return inExpr(s.Cond)
	}
	return false
}

// sweep removes dead statements and reports whether a loop or branch went with
// them, which may leave what it read dead.
func sweep(b *ir.Block, live map[*ir.Var]bool) (again bool) {
	if b == nil {
		return false
	}
	for _, s := range b.Stmts {
		for _, inner := range ir.Blocks(s) {
			again = sweep(inner, live) || again
		}
	}
	empty := func(b *ir.Block) bool { return b == nil || len(b.Stmts) == 0 }
	b.Stmts = slices.DeleteFunc(b.Stmts, func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Instr:
			return !instrLives(s, live) && !divides(s)
		case *ir.Let:
			return !live[s.Var] && !divides(s)
		case *ir.For:
			if empty(s.Body) && !divides(s) {
				again = true
				return true
			}
		case *ir.If:
			if empty(s.Then) && empty(s.Else) && !divides(s) {
				again = true
				return true
			}
		case *ir.Group:
			if empty(s.Body) {
				again = true
				return true
			}
		}
		return false
	})
	return again
}
