// Package session runs one worker process for one notebook and keeps what must outlive it.
//
// A Session is what a front end holds: the Jupyter kernel, the embedded notebook and `nb run` use the same one. It
// starts the worker, sends it cells one after the other, hands their output to the caller's sink in order, and remembers each
// cell that succeeded (the journal). When the worker dies, the cell fails with an error that says why, a fresh worker
// starts, and Replay runs the journal again; nothing is replayed unasked.
package session

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// Options says how to start a worker.
type Options struct {
	Exe []string  // command line of the worker, for example {"/usr/bin/tilus-lab", "worker"}
	Dir string    // working directory of cells; empty for the current one
	Env []string  // added to the environment of this process
	Log io.Writer // what the worker writes to its own standard error; nil to drop it

	// Memory is how many bytes the worker may hold; one that holds more is ended. 0 means half of what the machine has, less
	// than 0 no limit.
	Memory int64

	Grace time.Duration // how long an interrupted native call may go on before the worker counts as tainted; 0 means 200 ms
}

// Request is one cell to run.
type Request struct {
	Code         string
	Silent       bool // show nothing but errors, and keep the cell out of the journal
	StoreHistory bool // count the cell and put it in the journal
	AllowStdin   bool // Input may be called
	Beside       bool // run beside other cells, not in turn with them: of a subshell

	// Input asks the person for a line; nil means there is nobody to ask.
	Input func(prompt string, password bool) (string, error)
}

// Reply is how a cell ended.
type Reply struct {
	Status    string // "ok", "error", or "aborted" when the session was closed before the cell ran
	Count     int
	EName     string
	EValue    string
	Traceback []string
	Problems  []proto.Problem
	Lost      bool // the worker died: variables are gone, Replay can bring them back
	Tainted   bool // a native call of this cell is still running after an interrupt
	Seconds   float64
	Pager     string // text for the pager

	said [sha256.Size]byte
}

// Entry is one cell of the journal.
type Entry struct {
	Count int
	Code  string
	Once  bool // marked with %once or %%once: replaying leaves it out

	said [sha256.Size]byte // what it printed and showed as text
}

// transcript hashes what a cell prints and shows, on its way to a sink.
type transcript struct {
	mu   sync.Mutex
	h    hash.Hash
	sink func(proto.Event)
}

func newTranscript(sink func(proto.Event)) *transcript {
	return &transcript{h: sha256.New(), sink: sink}
}

func (t *transcript) event(ev proto.Event) {
	t.mu.Lock()
	switch {
	case ev.Stream != nil:
		io.WriteString(t.h, ev.Stream.Text)
	case ev.Bundle != nil:
		fmt.Fprint(t.h, ev.Bundle.Data["text/plain"])
	}
	t.mu.Unlock()
	if t.sink != nil {
		t.sink(ev)
	}
}

func (t *transcript) sum() (out [sha256.Size]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	copy(out[:], t.h.Sum(nil))
	return out
}

// once reports whether a cell is marked to run only once: %%once takes the whole
// cell, %once a line among the magics above the code.
func once(code string) bool {
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		switch word, _, _ := strings.Cut(line, " "); {
		case word == "%%once" || word == "%once":
			return true
		case line != "" && !strings.ContainsRune("%!$", rune(line[0])):
			return false
		}
	}
	return false
}

// ErrClosed is returned by calls on a closed session.
var ErrClosed = errors.New("session: closed")

// Session is one notebook's worker and journal. Its methods are safe for concurrent use; cells run one after the other in the
// order of the calls, but for those that run beside them.
type Session struct {
	opt Options

	turn chan struct{} // holds one token; whoever has it may run a cell

	mu      sync.Mutex
	w       *worker // nil when there is none
	closed  bool
	nextID  int64
	count   int
	journal []Entry
	running int64 // ID of the running cell, 0 for none
	asked   time.Time
	subs    map[int]func(proto.Event)
	nextSub int
	vars    []proto.Var

	debugging debugging
}

// Start starts a worker and waits until it is ready. It fails when the program cannot be started or is no worker.
func Start(opt Options) (*Session, error) {
	if opt.Grace == 0 {
		opt.Grace = 200 * time.Millisecond
	}
	s := &Session{opt: opt, turn: make(chan struct{}, 1), subs: map[int]func(proto.Event){}}
	s.turn <- struct{}{}
	w, err := s.spawn()
	if err != nil {
		return nil, err
	}
	s.w = w
	return s, nil
}

// Execute runs one cell and waits for its end. Every event of the cell goes to sink in order, from one goroutine at a time, all
// before Execute returns, except what goroutines of the cell print later: that reaches the same sink later. sink may be nil.
// The error is for calls that could not run at all (ErrClosed, a cancelled ctx before the cell began); what goes wrong in the
// cell stands in the Reply. A ctx that ends while the cell runs interrupts it.
func (s *Session) Execute(ctx context.Context, req Request, sink func(proto.Event)) (Reply, error) {
	if req.Beside {
		return s.execute(ctx, req, sink)
	}
	select {
	case <-s.turn:
	case <-ctx.Done():
		return Reply{Status: "aborted"}, fmt.Errorf("session: execute: %w", ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()
	if ctx.Err() != nil {
		return Reply{Status: "aborted"}, fmt.Errorf("session: execute: %w", ctx.Err())
	}
	return s.execute(ctx, req, sink)
}

// Comm hands a comm message of the front end to the worker, in turn with the cells, and waits until it has been handled. Sink and
// error are as for Execute.
func (s *Session) Comm(ctx context.Context, msg proto.Comm, sink func(proto.Event)) (Reply, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return Reply{Status: "aborted"}, fmt.Errorf("session: comm: %w", ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()
	return s.do(ctx, proto.Request{Op: proto.OpComm, Comm: &msg}, Request{}, sink)
}

// CommBeside is Comm beside the cells, not in turn with them.
func (s *Session) CommBeside(ctx context.Context, msg proto.Comm, sink func(proto.Event)) (Reply, error) {
	return s.do(ctx, proto.Request{Op: proto.OpComm, Comm: &msg}, Request{Beside: true}, sink)
}

// execute is Execute for a caller that holds the turn.
func (s *Session) execute(ctx context.Context, req Request, sink func(proto.Event)) (Reply, error) {
	return s.do(ctx, proto.Request{Op: proto.OpExecute, Code: req.Code, Silent: req.Silent, AllowStdin: req.AllowStdin && req.Input != nil}, req, sink)
}

// do sends one request and waits for its Done.
func (s *Session) do(ctx context.Context, what proto.Request, req Request, sink func(proto.Event)) (Reply, error) {
	w, err := s.worker()
	if err != nil {
		return Reply{Status: "aborted"}, err
	}
	s.mu.Lock()
	s.nextID++
	id := s.nextID
	store := req.StoreHistory && !req.Silent
	if store {
		s.count++
	}
	count := s.count
	if !req.Beside {
		s.running, s.asked = id, time.Time{}
	}
	s.mu.Unlock()
	defer func() {
		if !req.Beside {
			s.mu.Lock()
			s.running = 0
			s.mu.Unlock()
		}
	}()

	start := time.Now()
	said := newTranscript(sink)
	c := w.open(id, said.event, req.Input)
	what.ID, what.Count, what.Beside = id, count, req.Beside
	if err := w.send(what); err != nil {
		// The worker cannot read any more: it is ending, and its end is reported below.
		w.kill()
	}
	s.mu.Lock()
	early := s.running == id && !s.asked.IsZero()
	s.mu.Unlock()
	if early { // the interrupt may have been sent before what it is to end
		s.interrupt(w, proto.Request{Cell: id})
	}
	ctxDone := ctx.Done()
	for {
		select {
		case <-ctxDone:
			ctxDone = nil
			if req.Beside {
				s.interrupt(w, proto.Request{Beside: true})
			} else {
				s.Interrupt()
			}
			continue
		case <-c.done:
		case <-w.dead:
			// The last frames may have arrived with the end of the process.
			select {
			case <-c.done:
			default:
				return s.lost(w, c, count, time.Since(start)), nil
			}
		}
		break
	}
	rep := Reply{Status: c.end.Status, Count: count, Seconds: c.end.Seconds, Tainted: c.end.Tainted, Pager: c.end.Pager}
	if e := c.err; e != nil {
		rep.EName, rep.EValue, rep.Traceback, rep.Problems = e.Name, e.Value, e.Traceback, e.Problems
	}
	rep.said = said.sum()
	if store {
		if text := w.notice(); text != "" {
			c.deliver(proto.Event{ID: id, Kind: proto.KindStream, Stream: &proto.Stream{Name: "stderr", Text: text}})
		}
	}
	if rep.Status == "ok" && store && strings.TrimSpace(req.Code) != "" {
		s.mu.Lock()
		s.journal = append(s.journal, Entry{Count: count, Code: req.Code, Once: once(req.Code), said: said.sum()})
		s.mu.Unlock()
	}
	return rep, nil
}

// lost makes the reply of a cell whose worker died, and shows the error to the cell's sink.
func (s *Session) lost(w *worker, c *call, count int, took time.Duration) Reply {
	s.mu.Lock()
	if s.w == w {
		s.w = nil
	}
	n := len(s.journal)
	s.vars = nil
	s.mu.Unlock()
	name, value, trace := w.obituary()
	note := "The worker process ended, and with it all variables. The next cell runs in a fresh worker."
	if n > 0 {
		note += fmt.Sprintf(" Replay runs the %d cells that had succeeded again.", n)
	}
	e := &proto.Error{Name: name, Value: value, Traceback: append(trace, note)}
	c.deliver(proto.Event{ID: c.id, Kind: proto.KindError, Error: e})
	c.deliver(proto.Event{ID: c.id, Kind: proto.KindVars, Vars: &proto.Vars{}})
	s.publish(proto.Event{ID: c.id, Kind: proto.KindVars, Vars: &proto.Vars{}})
	return Reply{Status: "error", Count: count, EName: e.Name, EValue: e.Value, Traceback: e.Traceback, Lost: true, Seconds: took.Seconds()}
}

// Interrupt cancels the cell that runs, if any. Loops, channel waits and device runs end within 50 ms and keep all values. A
// native call that does not end leaves the worker tainted; a second Interrupt at least Grace after the first, while
// the cell still has not ended, kills the worker.
func (s *Session) Interrupt() {
	s.mu.Lock()
	w, id, asked := s.w, s.running, s.asked
	again := !asked.IsZero() && time.Since(asked) >= s.opt.Grace
	if id != 0 && asked.IsZero() {
		s.asked = time.Now()
	}
	s.mu.Unlock()
	if w == nil || id == 0 {
		return
	}
	if again {
		w.killed("interrupted twice", "the cell did not end after the first interrupt")
		return
	}
	s.interrupt(w, proto.Request{Cell: id})
}

// interrupt asks a worker to cancel one cell, or those beside it.
func (s *Session) interrupt(w *worker, req proto.Request) {
	s.mu.Lock()
	s.nextID++
	req.ID, req.Op = s.nextID, proto.OpInterrupt
	s.mu.Unlock()
	if err := w.send(req); err != nil {
		w.kill()
	}
}

// Restart replaces the worker by a fresh one. The journal stays, so that Replay can be used; Forget drops it. A running cell ends
// with an error.
func (s *Session) Restart() error {
	s.mu.Lock()
	w := s.w
	s.w = nil
	s.vars = nil
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if w != nil {
		w.killed("restarted", "the worker was restarted while the cell ran")
		<-w.dead
	}
	s.publish(proto.Event{Kind: proto.KindVars, Vars: &proto.Vars{}})
	_, err := s.worker()
	return err
}

// Forget drops the journal and starts counting cells from 1 again.
func (s *Session) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal, s.count = nil, 0
}

// Journal returns the cells that succeeded, in order.
func (s *Session) Journal() []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal)
}

// Replay runs the journal again, in a fresh worker if need be. It leaves out cells marked %once and stops at the first cell that
// fails or prints or shows other text than before. The journal then holds the cells that
// succeeded again and those not reached. It returns the reply of the last cell run. ctx can interrupt it.
func (s *Session) Replay(ctx context.Context, sink func(proto.Event)) (Reply, error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return Reply{Status: "aborted"}, fmt.Errorf("session: replay: %w", ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()
	rep := Reply{Status: "ok"}
	for i, e := range s.Journal() {
		if e.Once {
			continue
		}
		var err error
		rep, err = s.execute(ctx, Request{Code: e.Code}, sink)
		if err != nil {
			return rep, err
		}
		if rep.Status != "ok" {
			s.mu.Lock()
			s.journal = slices.Delete(s.journal, i, i+1)
			s.mu.Unlock()
			rep.EValue = fmt.Sprintf("replay of cell %d: %s", e.Count, rep.EValue)
			return rep, nil
		}
		if rep.said != e.said {
			s.mu.Lock()
			s.journal[i].said = rep.said
			s.mu.Unlock()
			rep.Status, rep.EName = "error", "ReplayDiffers"
			rep.EValue = fmt.Sprintf("cell %d ran, but its output is not what it was; the cells after it were not replayed", e.Count)
			rep.Traceback = []string{rep.EName + ": " + rep.EValue, "    help: run %replay again to accept the new output and go on, or mark such a cell with %%once"}
			return rep, nil
		}
	}
	return rep, nil
}

// Complete lists what may stand at the cursor, a number of code points from the start of code. It answers while a cell runs.
func (s *Session) Complete(code string, cursor int) (proto.Completed, error) {
	ev, err := s.ask(proto.Request{Op: proto.OpComplete, Code: code, Cursor: cursor})
	if err != nil || ev.Completed == nil {
		return proto.Completed{Start: cursor, End: cursor}, err
	}
	return *ev.Completed, nil
}

// Inspect describes what stands at the cursor. It answers while a cell runs.
func (s *Session) Inspect(code string, cursor int) (proto.Inspected, error) {
	ev, err := s.ask(proto.Request{Op: proto.OpInspect, Code: code, Cursor: cursor})
	if err != nil || ev.Inspected == nil {
		return proto.Inspected{}, err
	}
	return *ev.Inspected, nil
}

// IsComplete says whether code can run as it is. It answers while a cell runs.
func (s *Session) IsComplete(code string) (proto.Completeness, error) {
	ev, err := s.ask(proto.Request{Op: proto.OpIsComplete, Code: code})
	if err != nil || ev.Completeness == nil {
		return proto.Completeness{Status: "unknown"}, err
	}
	return *ev.Completeness, nil
}

// Call runs a lab method in the worker, beside the cells, and returns its result as JSON. params is anything that encodes to
// JSON. Devices are reached this way by the explorer.
func (s *Session) Call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("session: call %s: %w", method, err)
	}
	ev, err := s.askCtx(ctx, proto.Request{Op: proto.OpCall, Method: method, Params: raw})
	if err != nil {
		return nil, fmt.Errorf("session: call %s: %w", method, err)
	}
	if ev.Error != nil {
		return nil, fmt.Errorf("session: call %s: %s", method, ev.Error.Value)
	}
	return ev.Returned, nil
}

// Vars returns the top-level variables as the last cell left them.
func (s *Session) Vars() []proto.Var {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.vars)
}

// Subscribe calls f for each Vars, Explore and Debug event of any cell, until the returned function is called. f must not block.
func (s *Session) Subscribe(f func(proto.Event)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nextSub
	s.nextSub++
	s.subs[n] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subs, n)
	}
}

// PID returns the process ID of the worker, 0 when there is none.
func (s *Session) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		return 0
	}
	return s.w.cmd.Process.Pid
}

// Close ends the worker, within half a second also when a cell runs.
func (s *Session) Close() error {
	s.mu.Lock()
	w := s.w
	s.w, s.closed = nil, true
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	w.shutdown()
	return nil
}
