package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/display"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Interpreter runs a program on the reference interpreter with functions of the cell
// in it: as the meaning of element-wise instructions, and after each step.
//
//	lab.Interp(p).
//		Map("Exp", func(x float64) float64 { return 1 + x + x*x/2 }).
//		OnStep(func(s *lab.Step) bool { fmt.Println(s); return s.Number < 20 }).
//		Run("rand:f32[64]", "zeros:f32[64]")
type Interpreter struct {
	p    *ir.Program
	opts []interp.Option
	step []func(*Step) bool
	live bool
	bar  bool
}

// Interp prepares a run of a program on the interpreter.
func Interp(p *ir.Program) *Interpreter { return &Interpreter{p: p} }

// Map makes f the meaning of the element-wise instructions of a name ("Exp"), or of the
// one that assigns a variable ("y"); they have one operand. What f returns is rounded
// to the type of the result.
func (i *Interpreter) Map(name string, f func(x float64) float64) *Interpreter {
	return i.swap(name, 1, func(x []float64) float64 { return f(x[0]) })
}

// Map2 is [Interpreter.Map] for instructions of two operands.
func (i *Interpreter) Map2(name string, f func(x, y float64) float64) *Interpreter {
	return i.swap(name, 2, func(x []float64) float64 { return f(x[0], x[1]) })
}

// Map3 is [Interpreter.Map] for instructions of three operands.
func (i *Interpreter) Map3(name string, f func(x, y, z float64) float64) *Interpreter {
	return i.swap(name, 3, func(x []float64) float64 { return f(x[0], x[1], x[2]) })
}

func (i *Interpreter) swap(name string, operands int, f interp.ElementFunc) *Interpreter {
	i.opts = append(i.opts, interp.Elementwise(name, operands, f))
	return i
}

// OnStep calls f after each statement; false ends the run there.
func (i *Interpreter) OnStep(f func(s *Step) bool) *Interpreter {
	i.step = append(i.step, f)
	return i
}

// Live draws the run in the cell while it goes on: the text with the line that has
// just run, how often each ran, blocks done, and the last tile that was made.
func (i *Interpreter) Live() *Interpreter {
	i.live = true
	return i
}

// Progress shows a bar of the blocks that have run.
func (i *Interpreter) Progress() *Interpreter {
	i.bar = true
	return i
}

// Run runs to the end, or to where a step function says. Arguments are as for [Run].
func (i *Interpreter) Run(args ...any) (*Result, error) {
	if i.p == nil {
		return nil, errors.New("lab: there is no program")
	}
	launch, err := launchArgs(i.p, args)
	if err != nil {
		return nil, err
	}
	opts := append([]interp.Option{}, i.opts...)
	s := &Step{}
	if len(i.step) > 0 {
		opts = append(opts, interp.AfterStep(func(m *interp.Machine, st ir.Stmt) bool {
			s.Number, s.Block, s.Line, s.machine, s.stmt = m.Steps(), m.BlockIndex(), st.Position().Line, m, st
			for _, f := range i.step {
				if !f(s) {
					return false
				}
			}
			return true
		}))
	}
	if i.bar {
		opts = append(opts, interp.AfterStep(progress(i.p)))
	}
	var w *watcher
	if i.live {
		w = newWatcher(i.p)
		opts = append(opts, interp.AfterStep(w.after))
	}
	m, err := interp.New(i.p, launch, opts...)
	if err != nil {
		return nil, err
	}
	if w != nil {
		if err := w.begin(m); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	err = m.Run(Context())
	took := time.Since(start)
	if w != nil {
		// Where the run failed or was ended, the picture says how far it came.
		if shown := w.end(m); shown != nil && err == nil && !errors.Is(shown, context.Canceled) {
			err = shown
		}
	}
	if err != nil {
		return nil, err
	}
	r := &Result{Program: i.p.Name, Device: "interp", Title: "reference interpreter", Exec: took, Printed: m.Printed(), arrays: map[string]*array.Array{}}
	for k, v := range i.p.Params {
		if v.Type.Kind == ir.Pointer {
			r.arrays[v.Name] = m.Args()[k].Array
		}
	}
	for _, k := range outputs(i.p) {
		r.Names = append(r.Names, i.p.Params[k].Name)
	}
	return r, nil
}

// progress counts the blocks that have run.
func progress(p *ir.Program) func(*interp.Machine, ir.Stmt) bool {
	var bar *display.Progress
	done := 0
	return func(m *interp.Machine, _ ir.Stmt) bool {
		grid, at := m.Grid(), m.BlockIndex()
		whole := grid[0] * grid[1] * grid[2]
		now := at[0] + grid[0]*(at[1]+grid[1]*at[2])
		if m.Done() {
			now = whole
		}
		if bar == nil {
			b, err := display.NewProgress(p.Name, whole)
			if err != nil {
				return true // no notebook
			}
			bar = b
		}
		if now > done {
			bar.Add(now - done)
			done = now
		}
		return true
	}
}

// Step is a moment of a run on the interpreter: a statement has just run.
type Step struct {
	Number int64  // of statements so far
	Block  [3]int // that runs now: after the last statement of a block the next one
	Line   int    // of the statement in the program's text

	machine *interp.Machine
	stmt    ir.Stmt
}

// Text is the statement.
func (s *Step) Text() string { return strings.TrimSpace(text.FormatStmt(s.stmt)) }

// String is place and statement.
func (s *Step) String() string { return fmt.Sprintf("%d %v: %s", s.Number, s.Block, s.Text()) }

// Names are the variables that the statement assigned.
func (s *Step) Names() []string {
	switch st := s.stmt.(type) {
	case *ir.Instr:
		var out []string
		for _, v := range st.Out {
			out = append(out, v.Name)
		}
		return out
	case *ir.Let:
		return []string{st.Var.Name}
	case *ir.For:
		return []string{st.Var.Name}
	}
	return nil
}

// Has reports whether a variable of the running block has a value that Tile, Int or
// Float can give.
func (s *Step) Has(name string) bool { return s.find(name) != nil }

func (s *Step) find(name string) *interp.Variable {
	for _, v := range s.machine.Variables() {
		if v.Var.Name == name {
			return &v
		}
	}
	return nil
}

func (s *Step) must(name string) *interp.Variable {
	v := s.find(name)
	if v == nil {
		var known []string
		for _, v := range s.machine.Variables() {
			known = append(known, v.Var.Name)
		}
		help := "; there are " + strings.Join(known, ", ")
		if near := diag.Suggest(name, known); near != "" {
			help = "; did you mean " + near + "?"
		}
		Check(fmt.Errorf("lab: no variable %s has a value in step %d%s", name, s.Number, help))
	}
	return v
}

// Tile is what a register tensor holds. A name without a tile ends the cell with an
// error.
func (s *Step) Tile(name string) *array.Array {
	v := s.must(name)
	if v.Tile == nil {
		Check(fmt.Errorf("lab: %s is no register tensor", name))
	}
	return v.Tile
}

// Picture draws a register tensor: its values in its layout.
func (s *Step) Picture(name string) layoutviz.Picture {
	a := s.Tile(name)
	p, err := layoutviz.Values(s.must(name).Var.Type.Layout, a, layoutviz.Options{})
	Check(err)
	return p
}

// Int is what a scalar holds.
func (s *Step) Int(name string) int64 { return s.must(name).Int }

// Float is what a scalar of floating point holds.
func (s *Step) Float(name string) float64 { return s.must(name).Float }

// Memory is what the array of a pointer parameter holds now.
func (s *Step) Memory(name string) *array.Array {
	args := s.machine.Args()
	for i, v := range args {
		if v.Array != nil && s.machine.Program().Params[i].Name == name {
			return v.Array.Clone()
		}
	}
	Check(fmt.Errorf("lab: no pointer parameter is called %s", name))
	return nil
}

// watcher draws a run while it goes on.
type watcher struct {
	p     *ir.Program
	src   string
	runs  []int64
	line  int
	tile  *ir.Var // that was assigned last
	shown time.Time
	live  *display.Live
}

// drawEvery is the time between two drawings. Drawing takes a few milliseconds, so it
// takes a small part of the time only.
const drawEvery = 50 * time.Millisecond

func newWatcher(p *ir.Program) *watcher {
	src := p.Source
	if src == "" {
		src = text.Format(p)
	}
	return &watcher{p: p, src: src, runs: make([]int64, strings.Count(src, "\n")+1)}
}

func (w *watcher) begin(m *interp.Machine) error {
	p, err := w.draw(m)
	if err != nil {
		return err
	}
	w.shown = time.Now()
	w.live, err = display.NewLive(display.Frame(p))
	return err
}

func (w *watcher) after(m *interp.Machine, s ir.Stmt) bool {
	if w.line = s.Position().Line; w.line > 0 && w.line <= len(w.runs) {
		w.runs[w.line-1]++
	}
	if in, ok := s.(*ir.Instr); ok && len(in.Out) == 1 && in.Out[0].Type.IsRegister() && in.Out[0].Type.HasLayout {
		w.tile = in.Out[0]
	}
	if w.live == nil || time.Since(w.shown) < drawEvery {
		return true
	}
	if p, err := w.draw(m); err == nil {
		w.live.Update(display.Frame(p))
	}
	w.shown = time.Now()
	return true
}

func (w *watcher) end(m *interp.Machine) error {
	p, err := w.draw(m)
	if err != nil {
		return err
	}
	return errors.Join(w.live.Update(display.Picture(p)), w.live.Flush())
}

func (w *watcher) draw(m *interp.Machine) (layoutviz.Picture, error) {
	grid, at := m.Grid(), m.BlockIndex()
	whole := grid[0] * grid[1] * grid[2]
	done := at[0] + grid[0]*(at[1]+grid[1]*at[2])
	l := layoutviz.Listing{Title: w.p.Name + " on the interpreter", Text: w.src, At: w.line, Runs: w.runs, Done: done, Whole: whole, Unit: "blocks",
		Notes: []string{fmt.Sprintf("%d steps; block [%d, %d, %d] of [%d, %d, %d].", m.Steps(), at[0], at[1], at[2], grid[0], grid[1], grid[2])}}
	if m.Done() {
		l.Done, l.At = whole, 0
		l.Notes = []string{fmt.Sprintf("%d steps; all %d blocks have ended.", m.Steps(), whole)}
	}
	list, err := layoutviz.Program(l, layoutviz.Options{})
	if err != nil || w.tile == nil {
		return list, err
	}
	for _, v := range m.Variables() {
		if v.Var != w.tile || v.Tile == nil {
			continue
		}
		values, err := layoutviz.Values(v.Var.Type.Layout, v.Tile, layoutviz.Options{})
		if err != nil {
			break // its layout cannot be drawn
		}
		return layoutviz.Below(l.Title, list, values)
	}
	return list, nil
}
