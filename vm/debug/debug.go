// Package debug runs a program of the tile machine under control: to a breakpoint,
// statement by statement, and backwards, with what every variable holds on the way.
// It drives a [Machine]: the interpreter, which is the definition of what programs
// mean, or the simulator (gpu/step), which runs what they are lowered to.
package debug

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Checkpoints are what going back starts from: one every so many statements, at most
// so many; when there are more, every second is dropped and the distance doubles.
const (
	firstDistance  = 64
	maxCheckpoints = 48
)

// Breakpoint stops a session in front of the statements of a line.
type Breakpoint struct {
	Line      int    // as asked for, from 1
	Condition string // an expression of the program's scalars, as "k == 3"; "" is always
	Block     []int  // only in the block of this index, [x, y, z]; nil is any

	// At is the line of the statement that it stands for: the first at or behind Line; 0
	// where there is none.
	At int
	// Problem says why it never stops, "" if nothing.
	Problem string

	cond ir.Expr
}

// Why says what a session stopped for.
type Why string

// The reasons.
const (
	Entry      Why = "entry"      // in front of the first statement
	Stepped    Why = "step"       // as far as was asked for
	Breaks     Why = "breakpoint" // in front of a breakpoint
	Paused     Why = "pause"      // the context ended
	Fault      Why = "exception"  // the program went wrong: see Session.Err
	Terminated Why = "end"        // every block has ended
	Beginning  Why = "beginning"  // going back came to the first statement
)

// Session is a program under control. It is not safe for concurrent use.
type Session struct {
	m      Machine
	breaks []Breakpoint
	around map[ir.Stmt]ir.Stmt // the statement that a statement lies in; nil for the outermost
	vars   []*ir.Var
	within map[*ir.Var]ir.Stmt // the statement that a variable's block belongs to; nil for the outermost
	lines  []int               // of statements, ascending

	points   []checkpoint
	distance int64
	err      error // of the next statement
}

type checkpoint struct {
	steps int64
	snap  any
}

// New begins a launch on the interpreter, stopped in front of its first statement.
// Errors are those of [interp.New].
func New(p *ir.Program, args []ir.Arg, opts ...interp.Option) (*Session, error) {
	m, err := interp.New(p, args, opts...)
	if err != nil {
		return nil, err
	}
	return On(interpreter{m}), nil
}

// On is a session of a machine that stands in front of the first statement.
func On(m Machine) *Session {
	p := m.Program()
	s := &Session{m: m, around: map[ir.Stmt]ir.Stmt{}, within: map[*ir.Var]ir.Stmt{}, distance: firstDistance}
	s.vars = append(s.vars, p.Params...)
	var walk func(b *ir.Block, in ir.Stmt)
	walk = func(b *ir.Block, in ir.Stmt) {
		for _, x := range b.Stmts {
			s.around[x] = in
			s.lines = append(s.lines, x.Position().Line)
			switch x := x.(type) {
			case *ir.Instr:
				s.know(in, x.Out...)
			case *ir.Let:
				s.know(in, x.Var)
			case *ir.For:
				s.know(x, x.Var)
			}
			for _, inner := range ir.Blocks(x) {
				walk(inner, x)
			}
		}
	}
	walk(p.Body, nil)
	slices.Sort(s.lines)
	s.points = []checkpoint{{m.Steps(), m.Snapshot()}}
	return s
}

// know notes variables that a block assigns, of the statement that it belongs to.
func (s *Session) know(in ir.Stmt, vars ...*ir.Var) {
	for _, v := range vars {
		if !slices.Contains(s.vars, v) {
			s.vars, s.within[v] = append(s.vars, v), in
		}
	}
}

// Machine is what runs.
func (s *Session) Machine() Machine { return s.m }

// Err is what the program did wrong, where the last stop was a [Fault]: a diag.List
// with the place.
func (s *Session) Err() error { return s.err }

// Position is where the session stands: the statement that comes next, or the one that
// went wrong. It is the zero value at the end.
func (s *Session) Position() diag.Pos {
	if s.err != nil {
		if list, ok := s.err.(diag.List); ok && len(list) > 0 && list[0].Pos.Line > 0 {
			return list[0].Pos
		}
	}
	if x := s.m.Next(); x != nil {
		return x.Position()
	}
	return diag.Pos{}
}

// Path is the statement that comes next and those that it lies in, inner first.
func (s *Session) Path() []ir.Stmt {
	var path []ir.Stmt
	for x := s.m.Next(); x != nil; x = s.around[x] {
		path = append(path, x)
	}
	return path
}

// Set replaces the breakpoints and says where they came to lie.
func (s *Session) Set(list []Breakpoint) []Breakpoint {
	s.breaks = slices.Clone(list)
	for i := range s.breaks {
		b := &s.breaks[i]
		b.At, b.Problem, b.cond = 0, "", nil
		k := sort.SearchInts(s.lines, b.Line)
		if k == len(s.lines) {
			b.Problem = fmt.Sprintf("no statement stands at line %d or behind it", b.Line)
			continue
		}
		b.At = s.lines[k]
		if b.Condition == "" {
			continue
		}
		cond, err := text.Expr(b.Condition, s.vars)
		if err != nil {
			b.Problem = err.Error()
			continue
		}
		b.cond = cond
	}
	return slices.Clone(s.breaks)
}

// Eval is the value of an expression of the program's scalars, where the session
// stands; comparisons are 0 or 1.
func (s *Session) Eval(src string) (int64, error) {
	e, err := text.Expr(src, s.vars)
	if err != nil {
		return 0, err
	}
	return ir.EvalInt(e, s.scalar)
}

func (s *Session) scalar(v *ir.Var) (int64, bool) {
	if v.Type.Kind != ir.Scalar || !v.Type.Elem.IsInt() || !s.reads(v, s.Path()) {
		return 0, false
	}
	return s.m.Int(v)
}

// reads reports that a variable belongs to a place of the program.
func (s *Session) reads(v *ir.Var, path []ir.Stmt) bool {
	in := s.within[v]
	return in == nil || slices.Contains(path, in)
}

// AtBreakpoint tells whether the session stands in front of a breakpoint.
func (s *Session) AtBreakpoint() bool { return s.err == nil && s.hit() }

// hit reports a breakpoint in front of the next statement. One whose condition has no
// value yet does not stop.
func (s *Session) hit() bool {
	x := s.m.Next()
	if x == nil {
		return false
	}
	line := x.Position().Line
	for _, b := range s.breaks {
		if b.At != line || b.Problem != "" {
			continue
		}
		if at := s.m.BlockIndex(); b.Block != nil && !slices.Equal(b.Block, at[:len(b.Block)]) {
			continue
		}
		if b.cond != nil {
			if n, err := ir.EvalInt(b.cond, s.scalar); err != nil || n == 0 {
				continue
			}
		}
		return true
	}
	return false
}

// keep makes a checkpoint, where one is due.
func (s *Session) keep() {
	at := s.m.Steps()
	if at < s.points[len(s.points)-1].steps+s.distance {
		return
	}
	snap := s.m.Snapshot()
	if snap == nil {
		return
	}
	s.points = append(s.points, checkpoint{at, snap})
	if len(s.points) <= maxCheckpoints {
		return
	}
	kept := s.points[:0]
	for i, p := range s.points {
		if i%2 == 0 {
			kept = append(kept, p)
		}
	}
	clear(s.points[len(kept):])
	s.points, s.distance = kept, s.distance*2
}

// one runs a statement. One that goes wrong is taken back: what it did half is of no
// use to a reader.
func (s *Session) one() error {
	before := s.m.Steps()
	if err := s.m.Step(); err != nil {
		if again := s.goTo(before); again != nil {
			err = again
		}
		s.err = err
		return err
	}
	s.keep()
	return nil
}

// run goes on until until reports true in front of a statement. The first statement
// always runs, so that a breakpoint is left behind.
func (s *Session) run(ctx context.Context, until func() bool, breaks bool) Why {
	if s.err != nil {
		return Fault // it goes no further; back is possible
	}
	for n := 0; ; n++ {
		if s.m.Done() {
			return Terminated
		}
		if n > 0 {
			if until != nil && until() {
				return Stepped
			}
			if breaks && s.hit() {
				return Breaks
			}
			if n&15 == 0 && ctx.Err() != nil {
				return Paused
			}
		}
		if s.one() != nil {
			return Fault
		}
	}
}

// Continue runs to the next breakpoint.
func (s *Session) Continue(ctx context.Context) Why { return s.run(ctx, nil, true) }

// In runs one statement: of a loop its test, of an if its condition.
func (s *Session) In(ctx context.Context) Why {
	return s.run(ctx, func() bool { return true }, false)
}

// Over runs one statement with all that lies in it.
func (s *Session) Over(ctx context.Context) Why {
	from, block := s.m.Next(), s.m.BlockIndex()
	return s.run(ctx, func() bool {
		if s.m.BlockIndex() != block {
			return true
		}
		for x := s.around[s.m.Next()]; x != nil; x = s.around[x] {
			if x == from {
				return false
			}
		}
		// The test of a loop that has turns to come is a part of it.
		_, loop := from.(*ir.While)
		return !loop || s.m.Next() != from
	}, true)
}

// Out runs until what the next statement lies in is over.
func (s *Session) Out(ctx context.Context) Why {
	from, block := s.around[s.m.Next()], s.m.BlockIndex()
	return s.run(ctx, func() bool {
		if s.m.BlockIndex() != block {
			return true
		}
		if from == nil {
			return false
		}
		for x := s.m.Next(); x != nil; x = s.around[x] {
			if x == from {
				return false
			}
		}
		return true
	}, true)
}

// goTo comes to stand in front of statement number steps of the launch.
func (s *Session) goTo(steps int64) error {
	i := sort.Search(len(s.points), func(i int) bool { return s.points[i].steps > steps }) - 1
	s.m.Restore(s.points[i].snap)
	s.err = nil
	for s.m.Steps() < steps {
		if err := s.m.Step(); err != nil {
			return err // it went well before: the machine is deterministic
		}
	}
	return nil
}

// Back takes the last statement back.
func (s *Session) Back() Why {
	at := s.m.Steps()
	if at == 0 {
		return Beginning
	}
	if err := s.goTo(at - 1); err != nil {
		s.err = err
		return Fault
	}
	return Stepped
}

// ReverseContinue goes back to the last breakpoint before, or to the beginning.
func (s *Session) ReverseContinue(ctx context.Context) Why {
	limit := s.m.Steps()
	// From checkpoint to checkpoint, backwards; in each stretch the last hit counts.
	for i := sort.Search(len(s.points), func(i int) bool { return s.points[i].steps >= limit }) - 1; i >= 0; i-- {
		s.m.Restore(s.points[i].snap)
		s.err = nil
		last := int64(-1)
		for s.m.Steps() < limit && !s.m.Done() {
			if ctx.Err() != nil {
				return Paused
			}
			if s.hit() {
				last = s.m.Steps()
			}
			if err := s.m.Step(); err != nil {
				break
			}
		}
		if last >= 0 {
			if err := s.goTo(last); err != nil {
				s.err = err
				return Fault
			}
			return Breaks
		}
		limit = s.points[i].steps
	}
	s.m.Restore(s.points[0].snap)
	s.err = nil
	return Beginning
}

// Variables are those that the session's place can read, in the order of their first
// assignment.
func (s *Session) Variables() []Variable {
	path := s.Path()
	return slices.DeleteFunc(s.m.Variables(), func(v Variable) bool {
		return !s.reads(v.Var, path)
	})
}
