package debugger

import (
	"context"
	"path/filepath"

	"github.com/google/go-dap"

	"github.com/tilus-lab/tilus-lab/vm/debug"
	tile "github.com/tilus-lab/tilus-lab/vm/debug/dap"
)

// running is a tile program under the debugger.
type running struct {
	path  string
	stale bool // its breakpoints are to be set again
	pause context.CancelFunc

	paused bool // the front end wants a stop
}

// Launch runs a session of a program whose text lies in a file to its end, with the stops
// that the front end asks for. stack is the Go code that launched it, innermost first; it
// may be empty. The error is what the program did wrong, or that of ctx.
func (d *Debugger) Launch(ctx context.Context, s *debug.Session, file string, stack []*Frame) error {
	d.mu.Lock()
	path := d.names[file]
	run := &running{path: path, stale: true}
	outer := d.program
	d.program = run
	// A step into the statement that launched it stops at its first statement.
	entry := d.mode.move == tile.StepIn && (len(stack) == 0 || d.mode.thread == 0 || d.mode.thread == stack[0].Thread)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.program = outer
		d.mu.Unlock()
	}()
	view := &tile.View{Session: s, Source: &dap.Source{Name: filepath.Base(path), Path: path}, Base: programBase}
	move := tile.Continue
	for {
		wrong := ""
		d.mu.Lock()
		if run.stale {
			run.stale = false
			var asked []dap.SourceBreakpoint
			if b := d.breaks[path]; b != nil && d.on.Load() {
				asked = b.asked
			}
			for i, b := range view.Set(asked) {
				if !b.Verified && asked[i].Condition != "" {
					wrong = "the condition " + asked[i].Condition + " cannot be told: " + b.Message
				}
			}
		}
		inner, cancel := context.WithCancel(ctx)
		if run.pause = cancel; run.paused {
			cancel()
		}
		d.mu.Unlock()
		why := debug.Entry
		switch {
		case entry, wrong != "":
			entry = false
		case move == tile.Continue && s.Machine().Steps() == 0 && s.AtBreakpoint():
			why = debug.Breaks // Continue leaves the first statement behind
		default:
			why = move.Run(inner, s)
		}
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.mu.Lock()
		run.paused = false
		stops := d.on.Load() && (why != debug.Fault || d.faults)
		d.mu.Unlock()
		switch {
		case why == debug.Terminated:
			if move != tile.Continue && len(stack) > 0 {
				// The step goes on in the cell.
				d.mu.Lock()
				d.mode = mode{tile.Next, stack[0].Thread, stack[0].Depth}
				d.mu.Unlock()
			}
			return nil
		case why == debug.Fault && !stops:
			return s.Err()
		case !stops:
			move = tile.Continue
			continue
		}
		view.Forget()
		st := &stop{frames: stack, program: view, why: view.Stopped(why)}
		if why == debug.Entry {
			st.why.Reason = "step"
		}
		if wrong != "" {
			st.why.Reason, st.why.Text = "breakpoint", wrong
		}
		next, ok := d.park(st, ctx.Done())
		if !ok {
			next = tile.Continue
			d.mu.Lock()
			run.stale = true
			d.mu.Unlock()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		move = next
		if s.Err() != nil && move != tile.StepBack && move != tile.ReverseContinue {
			return s.Err()
		}
	}
}
