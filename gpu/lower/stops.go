package lower

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Stop is what is known in front of a statement.
type Stop struct {
	Pos  diag.Pos // of the statement
	Vars []Held   // that are set, in the order of their first assignment
}

// Held is what holds a variable: the value of a scalar, or the words of a register
// tensor, see [lowerer]. Other tensors have neither.
type Held struct {
	Var    *ir.Var
	First  int // the first thread of the block that has its part of a tensor
	Scalar code.Value
	Words  []code.Value
}

// stopAt stands in front of statement i of a block; around is the statement that the
// block belongs to. Programs are rewritten before they are lowered: what one statement
// became is several at its position, of which the first counts.
func (l *lowerer) stopAt(b *ir.Block, i int, around diag.Pos) {
	s := b.Stmts[i]
	at := s.Position()
	if at == around || at == l.stopped || at == l.p.Pos {
		return
	}
	loop := func(s ir.Stmt) bool { _, ok := s.(*ir.While); return ok }
	if loop(s) || i+1 < len(b.Stmts) && loop(b.Stmts[i+1]) && b.Stmts[i+1].Position() == at {
		return // its test stops
	}
	l.stopped = at
	if g, ok := s.(*ir.Group); ok && i > 0 && beside(b.Stmts[:i], g) {
		return
	}
	l.stop()
}

// beside reports that a group begins together with those in front of it.
func beside(before []ir.Stmt, g *ir.Group) bool {
	for _, s := range slices.Backward(before) {
		o, ok := s.(*ir.Group)
		if !ok {
			return false
		}
		if o.Begin < g.Begin+g.Size && g.Begin < o.Begin+o.Size {
			return false
		}
		return true
	}
	return false
}

// stopAtTest stands in front of the test of a while, where the loop has not been left.
func (l *lowerer) stopAtTest(on code.Value) {
	l.stopped = l.Pos()
	if on == 0 {
		l.stop()
		return
	}
	l.If(on, func() []code.Value { l.stop(); return nil }, nil)
}

// stop adds a stop at the builder's position.
func (l *lowerer) stop() {
	if l.order == nil {
		l.holder = map[*ir.Var]int{}
		add := func(v *ir.Var) {
			if !slices.Contains(l.order, v) {
				l.order = append(l.order, v)
			}
		}
		for _, v := range l.p.Params {
			add(v)
		}
		l.p.Body.Walk(func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.Instr:
				for _, v := range s.Out {
					add(v)
				}
			case *ir.Let:
				add(s.Var)
			case *ir.For:
				add(s.Var)
			}
			return true
		})
	}
	stop := Stop{Pos: l.Pos()}
	var keep []code.Value
	for _, v := range l.order {
		x, set := l.env.find(v)
		if !set {
			continue
		}
		if _, known := l.holder[v]; !known {
			l.holder[v] = l.threads.Begin
		}
		h := Held{Var: v, First: l.holder[v], Words: x.words}
		if v.Type.Kind == ir.Scalar {
			h.Scalar = x.scalar
			keep = append(keep, x.scalar)
		}
		keep = append(keep, x.words...)
		stop.Vars = append(stop.Vars, h)
	}
	l.Stop(l.threads.Begin, l.threads.Size, keep)
	*l.opt.Stops = append(*l.opt.Stops, stop)
}
