package launch

import (
	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/debug"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Step begins a launch on the simulator of a target ("" is the default) that stands in
// front of the program's first statement. Errors are those of a run that is refused
// before it begins.
//
// The machine runs what lowering makes, without the passes that move and merge code:
// each statement's instructions stand together then. It keeps no snapshots: what copies
// in flight will do is not data. It goes back by running again from the start, which is
// deterministic.
func Step(target string, p *ir.Program, args []ir.Arg) (debug.Machine, error) {
	if target == "" {
		target = compile.DefaultArch
	}
	on, err := arch.Lookup(target)
	if err != nil {
		return nil, err
	}
	grid, err := interp.CheckArgs(p, args)
	if err != nil {
		return nil, err
	}
	c, err := compile.Program(p, compile.Options{Arch: on.Name, Divisible: compile.Divisors(p, args), Stops: true})
	if err != nil {
		return nil, err
	}
	name := "sim:" + on.Name
	if on.Name == compile.DefaultArch {
		name = "sim"
	}
	m := &stepping{name: name, p: p, args: args, l: New(p, args, grid, c), stmts: map[diag.Pos]ir.Stmt{}, vars: map[diag.Pos][]*ir.Var{}}
	p.Body.Walk(func(s ir.Stmt) bool {
		m.stmts[s.Position()] = s
		switch s := s.(type) {
		case *ir.Instr:
			m.know(s.Out...)
		case *ir.Let:
			m.know(s.Var)
		case *ir.For:
			m.know(s.Var)
		}
		return true
	})
	m.know(p.Params...)
	return m, m.restart()
}

// stepping is a launch on the simulator as a machine of debuggers.
type stepping struct {
	name  string
	p     *ir.Program
	args  []ir.Arg
	l     *Launch
	stmts map[diag.Pos]ir.Stmt   // of p
	vars  map[diag.Pos][]*ir.Var // of p, by where they are declared

	s          *sim.Stepper
	data       [][]byte
	workspaces map[string][]byte
	steps      int64
	// fault is what went wrong on the way to the first stop.
	fault error
}

func (m *stepping) know(vars ...*ir.Var) {
	for _, v := range vars {
		if !slices.Contains(m.vars[v.Pos], v) {
			m.vars[v.Pos] = append(m.vars[v.Pos], v)
		}
	}
}

// restart begins the launch again.
func (m *stepping) restart() error {
	in, data, workspaces, err := m.l.memory()
	if err != nil {
		return err
	}
	m.data, m.workspaces, m.steps = data, workspaces, 0
	m.s, m.fault = sim.NewStepper(m.l.Code.Func, sim.Launch{Grid: m.l.Grid, Args: in}, sim.Options{})
	if m.s == nil {
		return m.fault
	}
	return nil
}

func (m *stepping) Name() string { return m.name }

func (m *stepping) Program() *ir.Program { return m.p }

// stop is what lowering says of the stop at which the launch stands, nil at the end.
func (m *stepping) stop() *lower.Stop {
	if n := m.s.Stop(); n >= 0 {
		return &m.l.Code.Stops[n]
	}
	return nil
}

func (m *stepping) Next() ir.Stmt {
	if s := m.stop(); s != nil {
		return m.stmts[s.Pos]
	}
	return nil
}

func (m *stepping) BlockIndex() [3]int { return m.s.Block() }

func (m *stepping) Threads() ir.Threads {
	if n := m.s.Stop(); n >= 0 {
		s := m.l.Code.Func.Stops[n]
		return ir.Threads{Begin: s.First, Size: s.Threads}
	}
	return ir.Threads{Size: m.p.Threads()}
}

func (m *stepping) Steps() int64 { return m.steps }

func (m *stepping) Done() bool { return m.s.Done() && m.fault == nil }

func (m *stepping) Step() error {
	if m.fault != nil {
		return m.fault
	}
	if m.s.Done() {
		return nil
	}
	m.steps++
	return m.s.Step()
}

func (m *stepping) Variables() []debug.Variable {
	s := m.stop()
	if s == nil {
		return nil
	}
	var out []debug.Variable
	for _, h := range s.Vars {
		v := debug.Variable{Var: m.named(h.Var)}
		if v.Var == nil {
			continue // of a pass
		}
		t := v.Var.Type
		switch {
		case h.Words != nil:
			v.Held = m.held(h, t)
			v.Tile = tileOf(t, v.Held)
		case t.Kind == ir.Scalar && t.Elem.IsFloat():
			v.Float = t.Elem.Decode(m.s.Value(h.Scalar, m.Threads().Begin))
		case t.Kind == ir.Scalar:
			v.Int = m.int(h)
		}
		out = append(out, v)
	}
	return out
}

// named is the program's variable that a lowered one was made of, nil if it is a pass's.
func (m *stepping) named(w *ir.Var) *ir.Var {
	for _, v := range m.vars[w.Pos] {
		if v.Name == w.Name {
			return v
		}
	}
	return nil
}

func (m *stepping) int(h lower.Held) int64 {
	n, t := m.s.Value(h.Scalar, m.Threads().Begin), h.Var.Type.Elem
	switch {
	case t.Bits() > 32:
		return int64(n)
	case t == dtype.U32:
		return int64(uint32(n))
	}
	return int64(int32(uint32(n)))
}

func (m *stepping) Int(v *ir.Var) (int64, bool) {
	if s := m.stop(); s != nil {
		for _, h := range s.Vars {
			if h.Var.Name == v.Name && h.Var.Pos == v.Pos && h.Scalar != 0 {
				return m.int(h), true
			}
		}
	}
	return 0, false
}

// held reads what threads hold of a register tensor, now.
func (m *stepping) held(h lower.Held, t ir.Type) func(thread, slot int) uint64 {
	words := make([][]uint32, t.Layout.Threads())
	for i := range words {
		for _, v := range h.Words {
			words[i] = append(words[i], uint32(m.s.Value(v, h.First+i)))
		}
	}
	n := t.Elem.Bits()
	return func(thread, slot int) (code uint64) {
		if !t.HasPlace && 32%n == 0 {
			at := slot * n
			return uint64(words[thread][at/32]) >> (at % 32) & (1<<n - 1)
		}
		for b := range n {
			at := t.BitOf(slot, b)
			code |= uint64(words[thread][at/32]>>(at%32)&1) << b
		}
		return code
	}
}

// tileOf puts a register tensor together from the first thread that holds each element.
func tileOf(t ir.Type, held func(thread, slot int) uint64) *array.Array {
	shape := t.Layout.Shape()
	a := array.New(t.Elem, shape...)
	for thread := t.Layout.Threads() - 1; thread >= 0; thread-- {
		for slot := range t.Layout.Slots() {
			at := 0
			for d, i := range t.Layout.Index(thread, slot) {
				at = at*shape[d] + i
			}
			a.SetCode(at, held(thread, slot))
		}
	}
	return a
}

func (m *stepping) Args() []ir.Arg { return m.l.Results(m.p, m.args, m.data) }

func (m *stepping) Printed() string { return Printed(m.p, m.l.Grid, m.workspaces) }

// start is the one snapshot: the beginning.
type start struct{}

func (m *stepping) Snapshot() any {
	if m.steps == 0 {
		return start{}
	}
	return nil
}

func (m *stepping) Restore(any) {
	// It began once, so that it begins again.
	_ = m.restart()
}
