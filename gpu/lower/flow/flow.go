// Package flow turns the jumps of a program into conditions. Thread code has none: what
// leaves a loop or the program becomes variables that say whether to go on. break
// clears one of its loop, continue one of the turn, return one of the program. What
// stands behind runs only where they are set.
package flow

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Structured is the program without break, continue and return, and for each loop
// the variables that must be set for another turn.
func Structured(p *ir.Program) (*ir.Program, map[ir.Stmt][]*ir.Var) {
	leaves := false
	p.Body.Walk(func(s ir.Stmt) bool {
		switch s.(type) {
		case *ir.Break, *ir.Continue, *ir.Return:
			leaves = true
		}
		return true
	})
	if !leaves {
		return p, nil
	}
	q := ir.Clone(p)
	r := &restructure{going: map[ir.Stmt][]*ir.Var{}}
	r.alive = r.flag("alive")
	body, used := r.block(q.Body.Stmts, nil, nil)
	if used[r.alive] {
		body = append([]ir.Stmt{set(r.alive, true, p.Pos)}, body...)
	}
	q.Body = &ir.Block{Stmts: body}
	return q, r.going
}

type restructure struct {
	alive *ir.Var
	flags int
	going map[ir.Stmt][]*ir.Var
}

func (r *restructure) flag(what string) *ir.Var {
	r.flags++
	return &ir.Var{Name: fmt.Sprintf("%s.%d", what, r.flags), Type: ir.ScalarOf(dtype.Bool)}
}

func set(v *ir.Var, on bool, pos diag.Pos) ir.Stmt {
	n := int64(0)
	if on {
		n = 1
	}
	return &ir.Let{Var: v, Value: ir.NewInt(n), Pos: pos}
}

// block rewrites statements; loop and turn are the flags of the loop around. used
// are the flags that the statements may clear.
func (r *restructure) block(stmts []ir.Stmt, loop, turn *ir.Var) (out []ir.Stmt, used map[*ir.Var]bool) {
	used = map[*ir.Var]bool{}
	for i, s := range stmts {
		rest := stmts[i+1:]
		mine := map[*ir.Var]bool{}
		inner := func(b *ir.Block, loop, turn *ir.Var) *ir.Block {
			if b == nil {
				return nil
			}
			list, u := r.block(b.Stmts, loop, turn)
			for v := range u {
				mine[v] = true
			}
			return &ir.Block{Stmts: list}
		}
		switch s := s.(type) {
		case *ir.Break:
			out, mine[loop] = append(out, set(loop, false, s.Pos)), true
		case *ir.Continue:
			out, mine[turn] = append(out, set(turn, false, s.Pos)), true
		case *ir.Return:
			out, mine[r.alive] = append(out, set(r.alive, false, s.Pos)), true
		case *ir.If:
			if s.Else == nil && len(rest) > 0 && alwaysLeaves(s.Then) {
				// What is behind runs just where the condition does not hold.
				s.Then, s.Else = inner(s.Then, loop, turn), inner(&ir.Block{Stmts: rest}, loop, turn)
				for v := range mine {
					used[v] = true
				}
				return append(out, s), used
			}
			s.Then, s.Else = inner(s.Then, loop, turn), inner(s.Else, loop, turn)
			out = append(out, s)
		case *ir.For:
			going, again := r.flag("going"), r.flag("again")
			s.Body = inner(s.Body, going, again)
			out = append(out, r.loop(s, s.Body, going, again, mine)...)
		case *ir.While:
			going, again := r.flag("going"), r.flag("again")
			s.Body = inner(s.Body, going, again)
			out = append(out, r.loop(s, s.Body, going, again, mine)...)
		case *ir.Group:
			s.Body = inner(s.Body, nil, nil)
			out = append(out, s)
		default:
			out = append(out, s)
		}
		var cond ir.Expr
		for _, v := range []*ir.Var{loop, turn, r.alive} {
			if v == nil || !mine[v] {
				continue
			}
			used[v] = true
			if cond == nil {
				cond = ir.NewRef(v)
			} else {
				cond = &ir.Binary{Op: "&&", X: cond, Y: ir.NewRef(v)}
			}
		}
		if cond != nil && len(rest) > 0 {
			list, u := r.block(rest, loop, turn)
			for v := range u {
				used[v] = true
			}
			return append(out, &ir.If{Cond: cond, Then: &ir.Block{Stmts: list}, Pos: s.Position()}), used
		}
	}
	return out, used
}

// loop sets the flags that a rewritten loop needs, before it and in each turn, and
// forgets those that are its own.
func (r *restructure) loop(s ir.Stmt, body *ir.Block, going, again *ir.Var, used map[*ir.Var]bool) []ir.Stmt {
	var out []ir.Stmt
	if used[again] {
		body.Stmts = append([]ir.Stmt{set(again, true, s.Position())}, body.Stmts...)
	}
	if used[going] {
		out = append(out, set(going, true, s.Position()))
		r.going[s] = append(r.going[s], going)
	}
	if used[r.alive] {
		r.going[s] = append(r.going[s], r.alive)
	}
	delete(used, going)
	delete(used, again)
	return append(out, s)
}

// alwaysLeaves reports a block whose last statement leaves it.
func alwaysLeaves(b *ir.Block) bool {
	if len(b.Stmts) == 0 {
		return false
	}
	switch s := b.Stmts[len(b.Stmts)-1].(type) {
	case *ir.Break, *ir.Continue, *ir.Return:
		return true
	case *ir.If:
		return s.Else != nil && alwaysLeaves(s.Then) && alwaysLeaves(s.Else)
	}
	return false
}
