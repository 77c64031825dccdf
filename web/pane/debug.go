package pane

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/launch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
	"github.com/tilus-lab/tilus-lab/vm/debug"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/web/pane/given"
)

// What one picture of the debugger may cost: anybody's link can ask for it.
const (
	debugSteps = 4000
	debugTime  = 3 * time.Second
)

// StartArgs are the arguments that the debugger opens with, for [StartProgram].
const StartArgs = "randn:f32[32, 16]\nzeros:f16[32, 16]\n32\n16"

func debugPane() Pane {
	return Pane{
		Name:  "debug",
		Title: "Debugger",
		Doc:   "A program on the interpreter or the simulator, stopped after any of its steps: move the slider to go forwards and back, or choose a line to go to the next time that it runs. Values stand in the layout of their tile.",
		Params: []Param{
			{Name: "src", Title: "Program", Kind: Program, Default: StartProgram, Doc: "Program text."},
			{Name: "a", Title: "Arguments", Kind: Program, Default: StartArgs, Doc: "One a line for each parameter: a generator such as randn:f32[32, 16] for a pointer, a number for a scalar."},
			{Name: "d", Title: "Device", Kind: Choice, Default: onInterp, Choices: []string{onInterp, onSim}, Doc: "The definition, or the lowered code on the simulator: what threads hold when its instructions have run."},
			{Name: "n", Title: "Step", Kind: Slider, Default: "5", Min: 0, Max: 1000, Play: true, Doc: "How many statements have run."},
			{Name: "x", Title: "Variable", Kind: Text, Default: "", Hint: "the last tile", Doc: "The register tensor whose values are drawn; empty for the one that was assigned last."},
			following(),
			palette(),
		},
		Render: renderDebug,
	}
}

// moment is what the debugger keeps of a run.
type moment struct {
	lines  []int // of each step
	at     int64
	block  [3]int
	runs   []int64 // of lines, up to the moment
	vars   []debug.Variable
	last   string // variable
	next   string // the statement that comes
	fault  error
	ended  bool
	cut    bool // there are more steps than are looked at
	grid   [3]int
	blocks int
	done   int
}

// wrong says whether the next step is the one that goes wrong.
func (m *moment) wrong() bool { return m.fault != nil && m.at == int64(len(m.lines)) }

// notes say where a program stands, and how the picture of its text is read.
func (m *moment) notes(total string, line int) []string {
	notes := []string{fmt.Sprintf("After step %d of %s; block %s of %s.", m.at, total, extents(m.block[:]), extents(m.grid[:]))}
	switch {
	case m.wrong():
		notes = append(notes, "Marked: the line that goes wrong; 2× before a line: it has run twice.")
	case line > 0:
		notes = append(notes, "Marked: the line that has just run; 2× before a line: it has run twice.")
	}
	return notes
}

func renderDebug(v Values) (Result, error) {
	p, err := compile.Parse("src", v["src"], nil)
	if err != nil {
		return Result{}, err
	}
	args, err := given.Args(p, v["a"])
	if err != nil {
		return Result{}, err
	}
	n, err := strconv.ParseInt(v["n"], 10, 64)
	if err != nil {
		return Result{}, err
	}
	on, err := machine(v["d"], p, args)
	if err != nil {
		return Result{}, err
	}
	m, err := runTo(on, n)
	if err != nil {
		return Result{}, err
	}
	o := v.look()
	line := 0
	if m.at > 0 {
		line = m.lines[m.at-1]
	}
	wrong := m.wrong()
	if wrong {
		if _, n := faultPlace(m.fault); n > 0 {
			line = n
		}
	}
	total := fmt.Sprint(len(m.lines))
	if m.cut {
		total = "more than " + total
	}
	l := layoutviz.Listing{Title: p.Name, Text: v["src"], At: line, Runs: m.runs, Done: m.done, Whole: m.blocks, Unit: "blocks",
		Notes: m.notes(total, line)}
	text, err := layoutviz.Program(l, o)
	if err != nil {
		return Result{}, err
	}
	// A line leads to the next step that runs it, or to the first one.
	to := map[int]int{}
	for i, line := range m.lines {
		if old, ok := to[line]; !ok || int64(old) <= m.at && int64(i+1) > m.at {
			to[line] = i + 1
		}
	}
	out := Result{Pictures: []Picture{Picture{Name: "program", Picture: text}.going(func(e layoutviz.Element) Values {
		if step := to[e.Keys[0]]; step > 0 && step <= 1000 {
			return Values{"n": strconv.Itoa(step)}
		}
		return nil
	})}}
	if el := strings.TrimSpace(v["el"]); el != "" {
		pic, err := way(p, args, v["el"], true, o)
		if err != nil {
			return Result{}, err
		}
		out.Pictures = []Picture{pic, out.Pictures[0]}
	}
	out.Sentence = fmt.Sprintf("Step %d of %s.", m.at, total)
	switch {
	case wrong:
		bad, _ := faultPlace(m.fault)
		if pic, ok := theatre.Fault(p, bad, o); ok {
			out.Pictures = append(out.Pictures, Picture{Name: "where it goes wrong", Picture: pic})
		}
		out.Sentence = fmt.Sprintf("Step %d goes wrong: %s", m.at+1, strings.ReplaceAll(m.fault.Error(), "\n\t", " – "))
	case m.ended:
		out.Sentence += " The launch has ended."
	case m.next != "":
		out.Sentence += " Next: " + m.next
	}
	name := strings.TrimSpace(v["x"])
	if err := given.Tile(p, v["x"]); err != nil {
		return Result{}, err
	}
	if name == "" {
		name = m.last
	}
	var b strings.Builder
	found := false
	for _, x := range m.vars {
		switch {
		case x.Tile != nil:
			fmt.Fprintf(&b, "%-8s %s\n", x.Var.Name, x.Var.Type)
		case x.Var.Type.Kind == ir.Scalar && x.Var.Type.Elem.IsFloat():
			fmt.Fprintf(&b, "%-8s = %v : %s\n", x.Var.Name, x.Float, x.Var.Type)
		case x.Var.Type.Kind == ir.Scalar:
			fmt.Fprintf(&b, "%-8s = %d : %s\n", x.Var.Name, x.Int, x.Var.Type)
		}
		if x.Var.Name != name || x.Tile == nil || !x.Var.Type.HasLayout {
			continue
		}
		found = true
		pic, err := layoutviz.Values(x.Var.Type.Layout, x.Tile, o)
		if err != nil {
			return Result{}, err
		}
		first := varKey(p, x.Var)
		for j := range pic.IDs {
			e := &pic.IDs[j]
			e.ID = "v." + e.ID
			for k := range e.Keys {
				e.Keys[k] += first
			}
		}
		out.Pictures = append(out.Pictures, Picture{Name: name, Picture: pic}.going(followed(name, m.at)))
	}
	if !found && strings.TrimSpace(v["x"]) != "" && !m.ended {
		out.Sentence += " " + name + " has no value yet."
	}
	if wrong {
		b.WriteString("\n" + m.fault.Error() + "\n")
	}
	out.Text = b.String()
	return out, nil
}

// machine begins a launch on a device, in front of its first statement.
func machine(device string, p *ir.Program, args []ir.Arg) (debug.Machine, error) {
	if device == onSim {
		return launch.Step("", p, args)
	}
	s, err := debug.New(p, args)
	if err != nil {
		return nil, err
	}
	return s.Machine(), nil
}

// runTo runs a program as far as limits allow and keeps what it was like after n steps.
func runTo(m debug.Machine, n int64) (*moment, error) {
	p := m.Program()
	grid, err := interp.CheckArgs(p, m.Args())
	if err != nil {
		return nil, err
	}
	k := &moment{runs: make([]int64, strings.Count(p.Source, "\n")+1), grid: grid, blocks: grid[0] * grid[1] * grid[2]}
	keep := func() {
		at := m.BlockIndex()
		k.at, k.block, k.vars, k.ended = int64(len(k.lines)), at, m.Variables(), m.Done()
		k.done, k.next = at[0]+grid[0]*(at[1]+grid[1]*at[2]), ""
		if k.ended {
			k.done, k.block = k.blocks, [3]int{grid[0] - 1, grid[1] - 1, grid[2] - 1}
		} else if s := m.Next(); s != nil {
			k.next = strings.TrimSpace(strings.SplitN(lineOf(p.Source, s.Position().Line), "//", 2)[0])
		}
	}
	keep()
	for end := time.Now().Add(debugTime); !m.Done() && k.fault == nil; {
		if k.cut = len(k.lines) == debugSteps || time.Now().After(end); k.cut {
			break
		}
		s := m.Next()
		if k.fault = m.Step(); k.fault != nil {
			break // the step that went wrong does not count
		}
		line := 0
		if s != nil {
			line = s.Position().Line
		}
		k.lines = append(k.lines, line)
		if int64(len(k.lines)) > n {
			continue
		}
		if line > 0 && line <= len(k.runs) {
			k.runs[line-1]++
		}
		if in, ok := s.(*ir.Instr); ok && len(in.Out) == 1 && in.Out[0].Type.IsRegister() {
			k.last = in.Out[0].Name
		}
		if int64(len(k.lines)) == n {
			keep()
		}
	}
	if int64(len(k.lines)) < n {
		keep()
	}
	return k, nil
}

func lineOf(src string, n int) string {
	lines := strings.Split(src, "\n")
	if n < 1 || n > len(lines) {
		return ""
	}
	return lines[n-1]
}

// faultPlace is the problem of a fault, and its line, 0 where it has none.
func faultPlace(err error) (diag.Problem, int) {
	var list diag.List
	if !errors.As(err, &list) || len(list) == 0 {
		return diag.Problem{}, 0
	}
	return list[0], list[0].Pos.Line
}
