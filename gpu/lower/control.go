package lower

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Thread code has no jumps. What leaves a loop or the program becomes variables
// that say whether to go on: break clears one of its loop, continue one of the turn,
// return one of the program. What stands behind runs only where they are set.

// structured is the program without break, continue and return, and for each loop
// the variables that must be set for another turn.
func structured(p *ir.Program) (*ir.Program, map[ir.Stmt][]*ir.Var) {
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

// goesOn is true where all flags of a loop are set.
func (l *lowerer) goesOn(flags []*ir.Var) (on code.Value) {
	for _, v := range flags {
		on = l.andPred(on, l.env[v].scalar)
	}
	return on
}

// leftLoop is a for loop that break or return may end early.
func (l *lowerer) leftLoop(s *ir.For, c counter, vars []*ir.Var, flags []*ir.Var) []code.Value {
	init := append([]code.Value{c.start}, l.flatten(vars)...)
	out := l.b.While(init, func(carried []code.Value) code.Value {
		return l.scoped(func() []code.Value {
			l.unflatten(vars, carried[1:])
			more := l.op(code.OpSetpS32, []int64{int64(code.LT)}, carried[0], c.end)
			return []code.Value{l.andPred(more, l.goesOn(flags))}
		})[0]
	}, func(carried []code.Value) []code.Value {
		return l.scoped(func() []code.Value {
			l.unflatten(vars, carried[1:])
			l.env[s.Var] = val{scalar: c.index(carried[0])}
			l.block(s.Body)
			return append([]code.Value{l.add32(carried[0], c.by)}, l.flatten(vars)...)
		})
	})
	return out[1:]
}

// assume takes what is promised for a fact, and lets the simulator check it.
func (l *lowerer) assume(s *ir.Assume) {
	l.op(code.OpAssume, nil, l.boolean(s.Cond))
}

// promises finds what assume says of parameters: divisors and bounds. A promise counts from the
// start of the program, since a launch that breaks it is an error wherever it stands.
func (f *facts) promises(b *ir.Block) {
	for _, s := range b.Stmts {
		if a, ok := s.(*ir.Assume); ok {
			f.promise(a.Cond)
		}
	}
}

func (f *facts) promise(e ir.Expr) {
	b, ok := e.(*ir.Binary)
	if !ok {
		return
	}
	if b.Op == "&&" {
		f.promise(b.X)
		f.promise(b.Y)
		return
	}
	f.bound(b)
	if zero, ok := ir.ConstInt(b.Y); b.Op != "==" || !ok || zero != 0 {
		return
	}
	mod, ok := b.X.(*ir.Binary)
	if !ok || mod.Op != "%" {
		return
	}
	r, ok := mod.X.(*ir.Ref)
	n, ok2 := ir.ConstInt(mod.Y)
	if !ok || !ok2 || !r.Var.Param || n < 1 || n > manyElements {
		return
	}
	was := max(1, f.divisors[r.Var.Name])
	f.divisors[r.Var.Name] = was / gcd(was, n) * n
}

// bound takes a comparison of a parameter with a constant.
func (f *facts) bound(b *ir.Binary) {
	r, ok := b.X.(*ir.Ref)
	n, ok2 := ir.ConstInt(b.Y)
	op := b.Op
	if !ok || !ok2 {
		if r, ok = b.Y.(*ir.Ref); !ok {
			return
		}
		if n, ok = ir.ConstInt(b.X); !ok {
			return
		}
		op = map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}[op]
	}
	if !r.Var.Param {
		return
	}
	all := affine.Everything
	if known, ok := f.bounds[r.Var.Name]; ok {
		all = known
	}
	switch op {
	case "<":
		all.Hi = min(all.Hi, n-1)
	case "<=":
		all.Hi = min(all.Hi, n)
	case ">":
		all.Lo = max(all.Lo, n+1)
	case ">=":
		all.Lo = max(all.Lo, n)
	case "==":
		all.Lo, all.Hi = max(all.Lo, n), min(all.Hi, n)
	}
	if all.Lo <= all.Hi { // else nothing runs
		f.bounds[r.Var.Name] = all
	}
}

// group runs its body in some of the threads: they have numbers of their own there.
func (l *lowerer) group(s *ir.Group) {
	around, tid, coords := l.threads, l.tid, l.coords
	l.threads = around.Of(s)
	var in code.Value
	first, behind := int64(s.Begin), int64(s.Begin+s.Size)
	if s.Begin > 0 {
		in = l.op(code.OpSetpU32, []int64{int64(code.GE)}, tid, l.const32(first))
	}
	if s.Begin+s.Size < around.Size {
		in = l.andPred(in, l.op(code.OpSetpU32, []int64{int64(code.LT)}, tid, l.const32(behind)))
	}
	body := func() []code.Value {
		return l.scoped(func() []code.Value {
			l.coords = map[string][]code.Value{}
			l.tid = l.op(code.OpSub32, nil, tid, l.const32(first))
			l.block(s.Body)
			return nil
		})
	}
	if in == 0 {
		body()
	} else {
		l.b.If(in, body, nil)
	}
	l.threads, l.tid, l.coords = around, tid, coords
}

// warps is how many warps run; 0 for a part of one.
func (l *lowerer) warps() int { return l.threads.Size / ir.LanesPerWarp }

// partly refuses what needs whole warps in a thread group that is none.
func (l *lowerer) partly(in *ir.Instr) bool {
	if l.threads.Size%ir.LanesPerWarp == 0 {
		return false
	}
	switch in.Op.Name {
	case "BlockIndices", "ViewGlobal", "SliceGlobal", "AllocateRegister", "LoadGlobal", "StoreGlobal", "View", "Cast", "LoadShared", "StoreShared", "SliceShared", "PermuteShared", "ReshapeShared",
		"CopyAsync", "CopyAsyncCommitGroup", "CopyAsyncWaitGroup", "CopyAsyncWaitAll", "PrefetchGlobal", "AtomicGlobal", "AtomicShared", "StoreGlobalScatter", "LoadGlobalGather", "AtomicScatterGlobal", "AtomicScatterShared", "StoreSharedScatter":
		return false
	case "Synchronize", "AtomicScalar", "LockSemaphore", "ReleaseSemaphore":
		if l.threads.Size == 1 {
			return false
		}
	}
	if in.Op.Class == ir.ClassElementwise {
		return false
	}
	l.refuse(in.Pos, "Lower.E10", "%s in %d threads of a warp", in.Op.Name, l.threads.Size)
	return true
}

// barrier is the barrier of the threads that run.
func (l *lowerer) barrier() {
	switch {
	case l.threads.Size == 1:
	case l.threads.Size == ir.LanesPerWarp:
		l.op(code.OpBarWarp, nil)
	case l.threads.Size == l.p.Threads():
		l.op(code.OpBarSync, []int64{0})
	default:
		id, ok := l.barriers[l.threads]
		if !ok {
			id = int64(len(l.barriers) + 1)
			l.barriers[l.threads] = id
		}
		if id > 15 {
			l.refuse(l.b.Pos(), "Lower.E11", "the program has %d sets of threads with barriers", id)
			id = 15
		}
		l.op(code.OpBarGroup, []int64{id, int64(l.threads.Size)})
	}
}

// alone refuses the use of the memory that single instructions have for themselves
// in a thread group, beside which others run.
func (l *lowerer) alone() {
	if l.threads.Size != l.p.Threads() {
		l.refuse(l.b.Pos(), "Lower.E12", "this goes through shared memory, in %d threads of %d", l.threads.Size, l.p.Threads())
	}
}
