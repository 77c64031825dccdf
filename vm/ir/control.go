package ir

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Break leaves the innermost loop around it.
type Break struct{ Pos diag.Pos }

// Continue goes on with the next turn of the innermost loop around it.
type Continue struct{ Pos diag.Pos }

// Return ends the program for its block.
type Return struct{ Pos diag.Pos }

// Assume promises that Cond holds whenever the statement is reached. Lowering may
// rely on it; where it does not hold, interpreter and simulator stop with an error.
type Assume struct {
	Cond Expr
	Pos  diag.Pos
}

// Group lets only the threads Begin … Begin+Size-1, counted in the threads around
// it, run Body; the others go on behind it. In Body, register tensors spread over
// these threads, and Synchronize is a barrier of them. Groups that stand directly
// one behind the other run side by side.
type Group struct {
	Begin, Size int
	Body        *Block
	Pos         diag.Pos
}

func (*Break) stmt()    {}
func (*Continue) stmt() {}
func (*Return) stmt()   {}
func (*Assume) stmt()   {}
func (*Group) stmt()    {}

// Position is where the statement is written.
func (s *Break) Position() diag.Pos { return s.Pos }

// Position is where the statement is written.
func (s *Continue) Position() diag.Pos { return s.Pos }

// Position is where the statement is written.
func (s *Return) Position() diag.Pos { return s.Pos }

// Position is where the statement is written.
func (s *Assume) Position() diag.Pos { return s.Pos }

// Position is where the statement is written.
func (s *Group) Position() diag.Pos { return s.Pos }

// Threads is a run of threads of a block.
type Threads struct{ Begin, Size int }

// Has reports whether all threads of u are among t.
func (t Threads) Has(u Threads) bool {
	return t.Begin <= u.Begin && u.Begin+u.Size <= t.Begin+t.Size
}

// Of is a group's threads, counted in the block, where t is what is around it.
func (t Threads) Of(g *Group) Threads { return Threads{t.Begin + g.Begin, g.Size} }

var controlRules = []RuleDoc{
	{"Control.C1", "break and continue stand in a loop, and leave no thread group.", "The threads of a group cannot end a loop in which the others go on."},
	{"Control.C2", "Nothing follows break, continue or return in its block.", "It would never run."},
	{"Control.C3", "return stands in no thread group.", "Other threads of the block would wait for those that ended."},
	{"Control.C4", "The body of a while assigns a variable that its condition reads, or leaves the loop.", "The loop would never end, or never begin."},
	{"Group.C1", "A thread group lies within the threads around it, and has at least one.", ""},
	{"Group.C2", "A thread group is whole warps, or lies in one warp.", "Barriers count warps; the threads of one warp can be told apart."},
	{"Group.C3", "What a thread group assigns, it assigned first.", "Scalars have one value in the whole block, and the other threads would keep the old one."},
	{"Group.C4", "A register tensor is used by the threads that hold it.", "A group cannot read or change what other threads hold; store and load it."},
}

// leaves reports a statement that ends its block.
func leaves(s Stmt) bool {
	switch s.(type) {
	case *Break, *Continue, *Return:
		return true
	}
	return false
}

// control checks statements that leave blocks.
func (v *verifier) control(s Stmt) {
	switch s := s.(type) {
	case *Break, *Continue:
		if v.loops == 0 {
			v.add(s.Position(), "Control.C1", "", "there is no loop to leave here")
		}
	case *Return:
		if v.groups > 0 {
			v.add(s.Pos, "Control.C3", "let the group end, and return behind it", "return in a thread group")
		}
	}
}

// ends checks that a while can both begin and end.
func (v *verifier) ends(s *While) {
	if n, ok := ConstInt(s.Cond); ok && n == 0 || leftBy(s.Body) {
		return
	}
	read := map[*Var]bool{}
	Refs(s.Cond, func(r *Ref) { read[r.Var] = true })
	changes := false
	s.Body.Walk(func(s Stmt) bool {
		switch s := s.(type) {
		case *Let:
			changes = changes || read[s.Var]
		case *Instr:
			changes = changes || slices.ContainsFunc(s.Out, func(x *Var) bool { return read[x] })
		}
		return !changes
	})
	if !changes {
		v.add(s.Cond.Position(), "Control.C4", "assign what the condition reads, i = i + 1, or leave the loop with break", "nothing in the loop changes %s or leaves it: it never ends where it begins", s.Cond)
	}
}

// leftBy reports a statement that ends a loop with this body, for some or all turns.
func leftBy(b *Block) bool {
	return b != nil && slices.ContainsFunc(b.Stmts, func(s Stmt) bool {
		switch s := s.(type) {
		case *Break, *Return:
			return true
		case *If:
			return leftBy(s.Then) || leftBy(s.Else)
		case *For:
			return returns(s.Body)
		case *While:
			return returns(s.Body)
		}
		return false
	})
}

func returns(b *Block) (found bool) {
	b.Walk(func(s Stmt) bool {
		_, is := s.(*Return)
		found = found || is
		return !found
	})
	return found
}

func (v *verifier) group(s *Group) {
	around := v.threads
	switch {
	case s.Size < 1 || s.Begin < 0 || s.Begin+s.Size > around.Size:
		v.add(s.Pos, "Group.C1", "group(begin, size)", "threads %d to %d, of %d around the group", s.Begin, s.Begin+s.Size-1, around.Size)
		return
	case !wholeWarps(around.Of(s)) && around.Of(s).Begin/LanesPerWarp != (around.Of(s).Begin+s.Size-1)/LanesPerWarp:
		v.add(s.Pos, "Group.C2", "begin and size are multiples of 32, or the threads lie in one warp", "threads %d to %d are parts of several warps", around.Of(s).Begin, around.Of(s).Begin+s.Size-1)
	}
	loops, base := v.loops, v.groupBase
	v.threads, v.loops, v.groupBase = around.Of(s), 0, len(v.scope)
	v.groups++
	v.block(s.Body)
	v.groups--
	v.threads, v.loops, v.groupBase = around, loops, base
}

func wholeWarps(t Threads) bool { return t.Begin%LanesPerWarp == 0 && t.Size%LanesPerWarp == 0 }

// held remembers which threads hold a register tensor, and complains if others
// use it.
func (v *verifier) held(x *Var, pos diag.Pos) {
	if !x.Type.IsRegister() {
		return
	}
	if t, ok := v.holders[x]; ok && t != v.threads {
		v.add(pos, "Group.C4", "store it to shared memory, Synchronize, and load it", "threads %d to %d hold %s, threads %d to %d use it", t.Begin, t.Begin+t.Size-1, x.Name, v.threads.Begin, v.threads.Begin+v.threads.Size-1)
	}
}
