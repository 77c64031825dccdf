// Package debugger is the debugger of one notebook: it answers the debug requests of
// Jupyter front ends, keeps the breakpoints of cells, and parks what reaches one.
//
// Two kinds of code stop here. Go cells that ran after the debugger was turned on tell it of
// every statement ([Debugger.Wants], [Debugger.Here]); programs of the tile machine that cells
// launch run under a [debug.Session] ([Debugger.Launch]), on top of the Go code that launched
// them. A front end sees one thread: whatever stands still. Requests about it are answered
// by vm/debug/dap, as for editors.
//
// Source: "Messaging in Jupyter", debug_request and debug_event; Debug Adapter Protocol.
package debugger

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-dap"

	tile "github.com/tilus-lab/tilus-lab/vm/debug/dap"
)

// Options is what the debugger needs of the process that runs cells.
type Options struct {
	// Event sends an event to the front end. It must keep the order of its calls.
	Event func(json.RawMessage)
	// Lines are the lines of a cell's text on which statements begin, ascending; nil where
	// that is not known.
	Lines func(code string) []int
	// Globals are the variables of the session.
	Globals func() []Var
	// Rich are the forms of a value by MIME type, and their metadata.
	Rich func(v any) (data, metadata map[string]any)
	// Copy makes a variable of the session with the value of v.
	Copy func(name string, v Var) error
}

// Var is a variable, or a part of one, as front ends list it.
type Var struct {
	Name, Type, Value string
	Eval              string       // an expression that stands for it, "" for none
	Parts             func() []Var // nil where it has none
	Any               func() any   // its value; nil where nothing can be made of it
	Of                any          // for Options.Copy
}

// Scope is a group of variables of a frame.
type Scope struct {
	Name string
	Vars func() []Var
}

// Place is where a statement of a cell begins; lines and columns count from 1.
type Place struct {
	File      string // of the cell, as [Debugger.Cell] was told
	Line, Col int
	First     bool // of the statements on its line
}

// Frame is one call of a function of a cell. Its methods are called while its goroutine is
// parked, on that goroutine.
type Frame struct {
	Func   string
	Depth  int // calls below it on its goroutine
	Place  Place
	Thread int64 // goroutine
	Scopes func() []Scope
	Eval   func(expr string) (Var, error)
}

// Debugger is the debugger of one notebook. Its methods are safe for concurrent use.
type Debugger struct {
	opts   Options
	prefix string // of the paths of cells

	on atomic.Bool // a front end is attached

	mu      sync.Mutex
	cells   map[string]string       // code by path
	names   map[string]string       // path by file name of a run
	breaks  map[string]*breakpoints // by path
	faults  bool                    // stop where a tile program goes wrong
	mode    mode                    // how Go code goes on
	at      *stop                   // nil while nothing stands still
	program *running                // the tile program that runs or stands still
	idle    []func() []Var          // references given out for variables of the session
	turn    chan struct{}           // held by what stands still
	seq     int                     // of events
	values  bool                    // the front end shows values in place of types, see dress
	begun   bool                    // a front end has begun to talk
}

// mode is how Go code goes on after a stop.
type mode struct {
	move   tile.Move // "" and Continue stop at breakpoints only
	thread int64     // goroutine that steps; 0 is any
	depth  int       // of the frame that stepped
}

// breakpoints are those of one cell.
type breakpoints struct {
	asked []dap.SourceBreakpoint
	at    []int // line that each came to stand for
}

// seed is that of the hash which names cells.
const seed = 0xc70f6907

const suffix = ".go"

// New makes a debugger that nobody is attached to.
func New(o Options) *Debugger {
	d := &Debugger{
		opts: o, cells: map[string]string{}, names: map[string]string{}, breaks: map[string]*breakpoints{}, faults: true, turn: make(chan struct{}, 1),
		// The supervisor outlives this process, and so do the names that front ends keep.
		prefix: filepath.Join(os.TempDir(), fmt.Sprintf("tilus-lab_%d", os.Getppid())) + string(filepath.Separator),
	}
	return d
}

// path names a cell's text, as front ends do.
func (d *Debugger) path(code string) string {
	return fmt.Sprintf("%s%d%s", d.prefix, murmur2([]byte(code), seed), suffix)
}

// Attached tells whether a front end debugs.
func (d *Debugger) Attached() bool { return d.on.Load() }

// Cell says that a run of a cell begins: file names its text in [Place] and in positions of
// programs.
func (d *Debugger) Cell(file, code string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.path(code)
	d.names[file], d.cells[p] = p, code
	d.mode = mode{}
}

// Stops tells whether a tile program whose text lies in a file can be debugged.
func (d *Debugger) Stops(file string) bool {
	if !d.on.Load() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[file] != ""
}

// set replaces the breakpoints of a path. The caller holds mu.
func (d *Debugger) set(path string, asked []dap.SourceBreakpoint) []dap.Breakpoint {
	b := &breakpoints{asked: asked, at: make([]int, len(asked))}
	out := make([]dap.Breakpoint, len(asked))
	var lines []int
	if code, ok := d.cells[path]; ok && d.opts.Lines != nil {
		lines = d.opts.Lines(code)
	}
	for i, a := range asked {
		at := a.Line
		x := dap.Breakpoint{Id: i + 1, Verified: true, Source: &dap.Source{Path: path, Name: filepath.Base(path)}}
		if lines != nil {
			k := sort.SearchInts(lines, a.Line)
			if k == len(lines) {
				x.Verified, x.Message, at = false, fmt.Sprintf("no statement stands at line %d or behind it", a.Line), 0
			} else {
				at = lines[k]
			}
		}
		b.at[i], x.Line = at, max(at, 1)
		if at == 0 {
			x.Line = a.Line
		}
		out[i] = x
	}
	if d.breaks[path] = b; len(asked) == 0 {
		delete(d.breaks, path)
	}
	if p := d.program; p != nil && p.path == path {
		p.stale = true
	}
	return out
}

// Wants tells whether a frame should stop in front of its statement, as far as that can be
// told without its variables.
func (d *Debugger) Wants(f *Frame) bool {
	if !d.on.Load() {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stepped(f) || d.hit(f.Place) != nil
}

// stepped tells whether a step ends in front of a frame's statement. The caller holds mu.
func (d *Debugger) stepped(f *Frame) bool {
	if d.mode.thread != 0 && d.mode.thread != f.Thread {
		return false
	}
	switch d.mode.move {
	case tile.StepIn:
		return true
	case tile.Next:
		return f.Depth <= d.mode.depth
	case tile.StepOut:
		return f.Depth < d.mode.depth
	}
	return false
}

// hit is the breakpoint at a place. The caller holds mu.
func (d *Debugger) hit(p Place) *dap.SourceBreakpoint {
	b := d.breaks[d.names[p.File]]
	if b == nil || !p.First {
		return nil
	}
	if i := slices.Index(b.at, p.Line); i >= 0 {
		return &b.asked[i]
	}
	return nil
}

// Here stops in front of the statement of the innermost frame of a stack, where a
// breakpoint or a step says so, until the front end lets it go on or done is closed.
func (d *Debugger) Here(stack []*Frame, done <-chan struct{}) {
	f := stack[0]
	d.mu.Lock()
	step, b := d.stepped(f), d.hit(f.Place)
	paused := step && d.mode.thread == 0
	d.mu.Unlock()
	st := &stop{frames: stack}
	switch {
	case b != nil && b.Condition == "":
		st.why.Reason = "breakpoint"
	case b != nil && !step:
		v, err := f.Eval(b.Condition)
		if err != nil {
			st.why.Reason, st.why.Text = "breakpoint", "the condition "+b.Condition+" cannot be told: "+err.Error()
			break
		}
		if yes, ok := v.Any().(bool); ok && !yes {
			return
		} else if !ok {
			st.why.Text = "the condition " + b.Condition + " is no truth value"
		}
		st.why.Reason = "breakpoint"
	case paused:
		st.why.Reason = "pause"
	case step:
		st.why.Reason = "step"
	default:
		return
	}
	d.park(st, done)
}

// stop is what stands still.
type stop struct {
	frames  []*Frame // of Go, innermost first
	program *tile.View
	why     dap.StoppedEventBody

	work  chan func()    // to be done on the goroutine that stands still
	moves chan tile.Move // the way on
	left  chan struct{}  // closed when it goes on
	refs  []func() []Var // what the reference n+1 stands for
}

// park shows a stop to the front end and waits for the way on; ok is false where done was
// closed or the front end went away.
func (d *Debugger) park(st *stop, done <-chan struct{}) (move tile.Move, ok bool) {
	select {
	case d.turn <- struct{}{}:
	case <-done:
		return "", false
	}
	defer func() { <-d.turn }()
	st.work, st.moves, st.left = make(chan func()), make(chan tile.Move, 1), make(chan struct{})
	st.why.ThreadId, st.why.AllThreadsStopped = theThread, true
	d.mu.Lock()
	if !d.on.Load() {
		d.mu.Unlock()
		return "", false
	}
	d.at = st
	d.mode = mode{}
	d.mu.Unlock()
	d.event("stopped", st.why)
	defer close(st.left)
	for {
		select {
		case f := <-st.work:
			f()
		case move := <-st.moves:
			return move, move != detached
		case <-done:
			d.mu.Lock()
			if d.at == st {
				d.at = nil
			}
			d.mu.Unlock()
			d.event("continued", dap.ContinuedEventBody{ThreadId: theThread, AllThreadsContinued: true})
			return "", false
		}
	}
}

// detached is the move of a stop whose front end went away.
const detached tile.Move = "detached"

// theThread is the one thread that front ends see.
const theThread = 1

// event sends an event.
func (d *Debugger) event(name string, body any) {
	d.mu.Lock()
	d.seq++
	seq := d.seq
	d.mu.Unlock()
	raw, err := json.Marshal(map[string]any{"seq": seq, "type": "event", "event": name, "body": body})
	if err == nil {
		d.opts.Event(raw)
	}
}

// askTime is how long a request waits for what stands still.
const askTime = 10 * time.Second

// do runs f on the goroutine that stands still. After an error, f has not run or its result is not wanted: what it
// writes must not be read.
func (st *stop) do(f func()) error {
	late := time.After(askTime)
	ended := make(chan struct{})
	select {
	case st.work <- func() { defer close(ended); f() }:
	case <-st.left:
		return errGone
	case <-late:
		return errSlow
	}
	select {
	case <-ended:
		return nil
	case <-st.left:
		return errGone
	case <-late:
		return errSlow
	}
}

var (
	errRuns = errors.New("nothing stands still: set a breakpoint and run a cell")
	errGone = errors.New("the cell went on before the answer was found")
	errSlow = fmt.Errorf("an expression has not ended after %v; interrupt the kernel to end it", askTime)
)

// programBase is what references and frames of tile programs count from.
const programBase = 1 << 24

// Frames are the places that wait for one another.
func (st *stop) stack(d *Debugger) []dap.StackFrame {
	var out []dap.StackFrame
	if st.program != nil {
		out = st.program.Frames()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, f := range st.frames {
		path := d.names[f.Place.File]
		out = append(out, dap.StackFrame{Id: i + 1, Name: f.Func, Line: f.Place.Line, Column: f.Place.Col, Source: &dap.Source{Name: filepath.Base(path), Path: path}})
	}
	return out
}

// target is a stop in the terms of the protocol.
type target struct {
	d *Debugger
	*stop
}

func (t target) Frames() []dap.StackFrame { return t.stack(t.d) }

// frame is the Go frame of an ID, nil for one of the program.
func (t target) frame(id int) (*Frame, error) {
	switch {
	case id > programBase && t.program != nil, id == 0 && t.program != nil:
		return nil, nil
	case id == 0 && len(t.frames) > 0:
		return t.frames[0], nil
	case id > 0 && id <= len(t.frames):
		return t.frames[id-1], nil
	}
	return nil, fmt.Errorf("there is no frame %d", id)
}

func (t target) Scopes(id int) ([]dap.Scope, error) {
	f, err := t.frame(id)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return t.program.Scopes(id)
	}
	var out []dap.Scope
	for _, s := range f.Scopes() {
		t.refs = append(t.refs, s.Vars)
		out = append(out, dap.Scope{Name: s.Name, PresentationHint: strings.ToLower(s.Name), VariablesReference: len(t.refs)})
	}
	return out, nil
}

func (t target) Children(ref, start, count int) ([]dap.Variable, error) {
	if ref > programBase && t.program != nil {
		return t.program.Children(ref, start, count)
	}
	if ref < 1 || ref > len(t.refs) {
		return nil, fmt.Errorf("variables reference %d is not of this stop", ref)
	}
	return list(t.refs[ref-1](), start, count, &t.stop.refs), nil
}

func (t target) Evaluate(id int, expr string) (dap.Variable, error) {
	f, err := t.frame(id)
	if err != nil {
		return dap.Variable{}, err
	}
	if f == nil {
		return t.program.Evaluate(id, expr)
	}
	v, err := f.Eval(expr)
	if err != nil {
		return dap.Variable{}, err
	}
	return list([]Var{v}, 0, 0, &t.stop.refs)[0], nil
}

func (t target) Fault() error {
	if t.program != nil {
		return t.program.Fault()
	}
	return nil
}

// list gives variables the form of the protocol; refs takes what their references stand for.
func list(vars []Var, start, count int, refs *[]func() []Var) []dap.Variable {
	from := min(max(start, 0), len(vars))
	to := len(vars)
	if count > 0 {
		to = min(to, from+count)
	}
	out := []dap.Variable{}
	for _, v := range vars[from:to] {
		x := dap.Variable{Name: v.Name, Type: v.Type, Value: v.Value, EvaluateName: v.Eval}
		if v.Parts != nil {
			*refs = append(*refs, v.Parts)
			x.VariablesReference = len(*refs)
		}
		out = append(out, x)
	}
	return out
}
