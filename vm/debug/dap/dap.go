// Package dap lets editors debug programs of the tile machine: it speaks the Debug
// Adapter Protocol for a [debug.Session].
//
// Source: https://microsoft.github.io/debug-adapter-protocol/specification
package dap

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/google/go-dap"

	"github.com/tilus-lab/tilus-lab/vm/debug"
)

// Launched is a program that a client asked for.
type Launched struct {
	Session *debug.Session
	Path    string // of the program's text, as the client names it
	Stop    bool   // in front of the first statement
}

// Launch reads the arguments of a launch request and begins the launch. Its error is
// shown to the person.
type Launch func(arguments json.RawMessage) (*Launched, error)

// theThread is the one thread that clients see: the block that runs.
const theThread = 1

// server is one conversation.
type server struct {
	launch Launch

	out sync.Mutex // of w and seq
	w   io.Writer
	seq int

	// The session belongs to whoever runs it; handle waits for a run to end by pausing it.
	ran     *Launched
	running chan struct{} // closed when the run ends; nil while stopped
	cancel  context.CancelFunc
	pending *dap.LaunchRequest // until the client has set its breakpoints
	breaks  []dap.SourceBreakpoint
	view    *View // of ran
}

// Serve talks to a client until it disconnects, r ends or ctx is done. A client's
// mistakes are answered as such; errors are those of reading and writing.
func Serve(ctx context.Context, r io.Reader, w io.Writer, launch Launch) error {
	s := &server{launch: launch, w: w}
	in := bufio.NewReader(r)
	defer s.halt()
	for ctx.Err() == nil {
		raw, err := dap.ReadBaseMessage(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("dap: %w", err)
		}
		m, err := dap.DecodeProtocolMessage(raw)
		if err != nil {
			s.refuse(raw, err)
			continue
		}
		req, ok := m.(dap.RequestMessage)
		if !ok {
			continue // responses and events are none of a client's business
		}
		if s.handle(ctx, req) {
			return nil
		}
	}
	return ctx.Err()
}

// refuse answers a request that nobody understood.
func (s *server) refuse(raw []byte, err error) {
	var head struct {
		Seq     int    `json:"seq"`
		Type    string `json:"type"`
		Command string `json:"command"`
	}
	if json.Unmarshal(raw, &head) != nil || head.Type != "request" {
		return
	}
	s.fail(dap.Request{ProtocolMessage: dap.ProtocolMessage{Seq: head.Seq, Type: head.Type}, Command: head.Command}, err)
}

// send writes a message with the next number.
func (s *server) send(m dap.Message) {
	s.out.Lock()
	defer s.out.Unlock()
	s.seq++
	switch m := m.(type) {
	case dap.ResponseMessage:
		m.GetResponse().Seq = s.seq
	case dap.EventMessage:
		m.GetEvent().Seq = s.seq
	}
	// A client that is gone shows when the next message is read.
	_ = dap.WriteProtocolMessage(s.w, m)
}

func event(name string) dap.Event {
	return dap.Event{ProtocolMessage: dap.ProtocolMessage{Type: "event"}, Event: name}
}

func answer(r dap.Request) dap.Response {
	return dap.Response{ProtocolMessage: dap.ProtocolMessage{Type: "response"}, Command: r.Command, RequestSeq: r.Seq, Success: true}
}

func (s *server) fail(r dap.Request, err error) { s.send(Failed(r, err)) }

var (
	errNone    = errors.New("no program was launched")
	errRunning = errors.New("the program runs; pause it first")
)

// stopped reports that there is a session that stands still.
func (s *server) stopped() error {
	switch {
	case s.ran == nil:
		return errNone
	case s.busy():
		return errRunning
	}
	return nil
}

func (s *server) busy() bool {
	if s.running == nil {
		return false
	}
	select {
	case <-s.running:
		s.running = nil
		return false
	default:
		return true
	}
}

// halt ends a run and waits for it.
func (s *server) halt() {
	if s.running != nil {
		s.cancel()
		<-s.running
		s.running = nil
	}
}

// move runs the session until it stops, beside the conversation.
func (s *server) move(ctx context.Context, run func(ctx context.Context) debug.Why) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.running = make(chan struct{})
	s.view.Forget()
	done, printed := s.running, len(s.ran.Session.Machine().Printed())
	go func() {
		why := run(ctx)
		// What the program printed since; going back takes nothing back.
		if all := s.ran.Session.Machine().Printed(); len(all) > printed {
			s.send(&dap.OutputEvent{Event: event("output"), Body: dap.OutputEventBody{Category: "stdout", Output: all[printed:]}})
		}
		close(done)
		s.report(why)
	}()
}

// report says why the session stopped.
func (s *server) report(why debug.Why) {
	if why == debug.Terminated {
		s.send(&dap.TerminatedEvent{Event: event("terminated")})
		return
	}
	s.send(&dap.StoppedEvent{Event: event("stopped"), Body: s.view.Stopped(why)})
}

// handle answers a request; it reports that the conversation is over.
func (s *server) handle(ctx context.Context, m dap.RequestMessage) (over bool) {
	r := *m.GetRequest()
	if move, reply, ok := MoveOf(m); ok {
		if err := s.stopped(); err != nil {
			s.fail(r, err)
			return false
		}
		s.send(reply)
		s.move(ctx, func(ctx context.Context) debug.Why { return move.Run(ctx, s.ran.Session) })
		return false
	}
	if asks(m) {
		if err := s.stopped(); err != nil {
			s.fail(r, err)
			return false
		}
		reply, _ := Ask(s.view, m)
		s.send(reply)
		return false
	}
	switch m := m.(type) {
	case *dap.InitializeRequest:
		s.send(&dap.InitializeResponse{Response: answer(r), Body: dap.Capabilities{
			SupportsConfigurationDoneRequest: true, SupportsConditionalBreakpoints: true, SupportsEvaluateForHovers: true,
			SupportsStepBack: true, SupportsExceptionInfoRequest: true, SupportsRestartRequest: true, SupportsTerminateRequest: true,
		}})
	case *dap.LaunchRequest:
		l, err := s.launch(m.Arguments)
		if err != nil {
			s.fail(r, err)
			return false
		}
		s.halt()
		s.take(l)
		s.pending = m
		s.send(&dap.LaunchResponse{Response: answer(r)})
		s.send(&dap.InitializedEvent{Event: event("initialized")})
	case *dap.RestartRequest:
		if s.pending == nil {
			s.fail(r, errNone)
			return false
		}
		s.halt()
		l, err := s.launch(s.pending.Arguments)
		if err != nil {
			s.fail(r, err)
			return false
		}
		s.take(l)
		s.view.Set(s.breaks)
		s.send(&dap.RestartResponse{Response: answer(r)})
		s.begin(ctx)
	case *dap.SetBreakpointsRequest:
		s.set(ctx, r, m.Arguments)
	case *dap.SetExceptionBreakpointsRequest:
		s.send(&dap.SetExceptionBreakpointsResponse{Response: answer(r)})
	case *dap.ConfigurationDoneRequest:
		if err := s.stopped(); err != nil {
			s.fail(r, err)
			return false
		}
		s.send(&dap.ConfigurationDoneResponse{Response: answer(r)})
		s.begin(ctx)
	case *dap.ThreadsRequest:
		s.send(&dap.ThreadsResponse{Response: answer(r), Body: dap.ThreadsResponseBody{Threads: []dap.Thread{{Id: theThread, Name: "block"}}}})
	case *dap.PauseRequest:
		if s.ran == nil {
			s.fail(r, errNone)
			return false
		}
		s.send(&dap.PauseResponse{Response: answer(r)})
		s.halt()
	case *dap.TerminateRequest:
		s.halt()
		s.send(&dap.TerminateResponse{Response: answer(r)})
		s.send(&dap.TerminatedEvent{Event: event("terminated")})
	case *dap.DisconnectRequest:
		s.halt()
		s.send(&dap.DisconnectResponse{Response: answer(r)})
		return true
	default:
		s.fail(r, fmt.Errorf("the debugger of tile programs has no %s", r.Command))
	}
	return false
}

// begin runs a new launch to where the client wants it to stop first.
func (s *server) begin(ctx context.Context) {
	if s.ran.Stop {
		s.report(debug.Entry)
		return
	}
	s.move(ctx, s.ran.Session.Continue)
}

// set replaces the breakpoints of the program's text; those of other files never stop.
// While the program runs it is paused for it, and goes on.
func (s *server) set(ctx context.Context, r dap.Request, a dap.SetBreakpointsArguments) {
	if s.ran == nil {
		s.fail(r, errNone)
		return
	}
	if len(a.Breakpoints) > 10000 {
		s.fail(r, errors.New("at most 10000 breakpoints"))
		return
	}
	if s.busy() {
		s.fail(r, errRunning)
		return
	}
	out := make([]dap.Breakpoint, len(a.Breakpoints))
	if a.Source.Path != "" && a.Source.Path != s.ran.Path {
		for i := range out {
			out[i] = dap.Breakpoint{Line: a.Breakpoints[i].Line, Message: "another program is debugged"}
		}
		s.send(&dap.SetBreakpointsResponse{Response: answer(r), Body: dap.SetBreakpointsResponseBody{Breakpoints: out}})
		return
	}
	s.breaks = a.Breakpoints
	s.send(&dap.SetBreakpointsResponse{Response: answer(r), Body: dap.SetBreakpointsResponseBody{Breakpoints: s.view.Set(a.Breakpoints)}})
}

// take makes a launch the one that is talked about.
func (s *server) take(l *Launched) {
	s.ran = l
	s.view = &View{Session: l.Session, Source: &dap.Source{Name: l.Session.Machine().Program().Name, Path: l.Path}}
}
