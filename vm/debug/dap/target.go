package dap

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-dap"

	"github.com/tilus-lab/tilus-lab/vm/debug"
)

// Target is a debuggee that stands still, in the terms of the protocol. [Ask] puts
// requests to it.
type Target interface {
	// Frames are the places that wait for one another, innermost first.
	Frames() []dap.StackFrame
	// Scopes are the groups of variables of the frame of that ID.
	Scopes(frame int) ([]dap.Scope, error)
	// Children are the parts of a variablesReference, from start on, count of them; 0 is all.
	Children(ref, start, count int) ([]dap.Variable, error)
	// Evaluate is the value of an expression in the frame of that ID; 0 is the innermost.
	Evaluate(frame int, expr string) (dap.Variable, error)
	// Fault is what went wrong here, nil for nothing.
	Fault() error
}

// asks tells whether a request asks about a target.
func asks(m dap.RequestMessage) bool {
	switch m.(type) {
	case *dap.StackTraceRequest, *dap.ScopesRequest, *dap.VariablesRequest, *dap.EvaluateRequest, *dap.ExceptionInfoRequest:
		return true
	}
	return false
}

// Ask answers a request about where a target stands and what it holds; ok is false for
// requests of another kind.
func Ask(t Target, m dap.RequestMessage) (reply dap.Message, ok bool) {
	r := *m.GetRequest()
	switch m := m.(type) {
	case *dap.StackTraceRequest:
		all := t.Frames()
		from := min(max(m.Arguments.StartFrame, 0), len(all))
		to := len(all)
		if n := m.Arguments.Levels; n > 0 {
			to = min(to, from+n)
		}
		return &dap.StackTraceResponse{Response: answer(r), Body: dap.StackTraceResponseBody{StackFrames: all[from:to], TotalFrames: len(all)}}, true
	case *dap.ScopesRequest:
		scopes, err := t.Scopes(m.Arguments.FrameId)
		if err != nil {
			return Failed(r, err), true
		}
		return &dap.ScopesResponse{Response: answer(r), Body: dap.ScopesResponseBody{Scopes: scopes}}, true
	case *dap.VariablesRequest:
		list, err := t.Children(m.Arguments.VariablesReference, m.Arguments.Start, m.Arguments.Count)
		if err != nil {
			return Failed(r, err), true
		}
		if list == nil {
			list = []dap.Variable{}
		}
		return &dap.VariablesResponse{Response: answer(r), Body: dap.VariablesResponseBody{Variables: list}}, true
	case *dap.EvaluateRequest:
		v, err := t.Evaluate(m.Arguments.FrameId, m.Arguments.Expression)
		if err != nil {
			return Failed(r, err), true
		}
		return &dap.EvaluateResponse{Response: answer(r), Body: dap.EvaluateResponseBody{Result: v.Value, Type: v.Type, VariablesReference: v.VariablesReference, IndexedVariables: v.IndexedVariables, NamedVariables: v.NamedVariables}}, true
	case *dap.ExceptionInfoRequest:
		err := t.Fault()
		if err == nil {
			return Failed(r, errors.New("the program did nothing wrong here")), true
		}
		return &dap.ExceptionInfoResponse{Response: answer(r), Body: dap.ExceptionInfoResponseBody{ExceptionId: codeOf(err), Description: err.Error(), BreakMode: "always"}}, true
	}
	return nil, false
}

// Answer is the head of the response to a request that went well.
func Answer(r dap.Request) dap.Response { return answer(r) }

// Failed is the response to a request that cannot be met.
func Failed(r dap.Request, err error) dap.Message {
	a := answer(r)
	a.Success, a.Message = false, err.Error()
	return &dap.ErrorResponse{Response: a, Body: dap.ErrorResponseBody{Error: &dap.ErrorMessage{Id: 1, Format: err.Error(), ShowUser: true}}}
}

// Move is a way to go on: the name of a request.
type Move string

// The moves.
const (
	Continue        Move = "continue"
	Next            Move = "next"
	StepIn          Move = "stepIn"
	StepOut         Move = "stepOut"
	StepBack        Move = "stepBack"
	ReverseContinue Move = "reverseContinue"
)

// MoveOf is the move that a request asks for and what to answer; ok is false for other
// requests.
func MoveOf(m dap.RequestMessage) (move Move, reply dap.Message, ok bool) {
	a := answer(*m.GetRequest())
	switch m.(type) {
	case *dap.ContinueRequest:
		return Continue, &dap.ContinueResponse{Response: a, Body: dap.ContinueResponseBody{AllThreadsContinued: true}}, true
	case *dap.NextRequest:
		return Next, &dap.NextResponse{Response: a}, true
	case *dap.StepInRequest:
		return StepIn, &dap.StepInResponse{Response: a}, true
	case *dap.StepOutRequest:
		return StepOut, &dap.StepOutResponse{Response: a}, true
	case *dap.StepBackRequest:
		return StepBack, &dap.StepBackResponse{Response: a}, true
	case *dap.ReverseContinueRequest:
		return ReverseContinue, &dap.ReverseContinueResponse{Response: a}, true
	}
	return "", nil, false
}

// Run moves a session until it stops.
func (m Move) Run(ctx context.Context, s *debug.Session) debug.Why {
	switch m {
	case Next:
		return s.Over(ctx)
	case StepIn:
		return s.In(ctx)
	case StepOut:
		return s.Out(ctx)
	case StepBack:
		return s.Back()
	case ReverseContinue:
		return s.ReverseContinue(ctx)
	}
	return s.Continue(ctx)
}

// View is a session as a [Target].
type View struct {
	Session *debug.Session
	Source  *dap.Source // of the program's text
	Base    int         // references and frame IDs count from above it

	refs []any // what the reference Base+n+1 stands for, since the last stop
}

// Forget drops the references that were given out; the session has moved.
func (v *View) Forget() { v.refs = nil }

// Stopped is what an event says of a stop.
func (v *View) Stopped(why debug.Why) dap.StoppedEventBody {
	b := dap.StoppedEventBody{Reason: string(why), ThreadId: theThread, AllThreadsStopped: true}
	switch why {
	case debug.Fault:
		b.Text, b.Description = v.Session.Err().Error(), "The program went wrong"
	case debug.Beginning:
		b.Reason, b.Description = "step", "At the beginning of the program"
	}
	return b
}

// Set replaces the breakpoints of the program's text.
func (v *View) Set(list []dap.SourceBreakpoint) []dap.Breakpoint {
	breaks := make([]debug.Breakpoint, len(list))
	for i, b := range list {
		breaks[i] = debug.Breakpoint{Line: b.Line, Condition: b.Condition}
	}
	out := make([]dap.Breakpoint, len(list))
	for i, b := range v.Session.Set(breaks) {
		out[i] = dap.Breakpoint{Id: i + 1, Verified: b.Problem == "", Message: b.Problem, Line: b.At, Source: v.Source}
	}
	return out
}

// Frames are the statement that comes next and those that it lies in; of loops with
// their index.
func (v *View) Frames() []dap.StackFrame {
	d := v.Session
	at := d.Position()
	b := d.Machine().BlockIndex()
	p := d.Machine().Program()
	name := fmt.Sprintf("%s, block (%d, %d, %d)", p.Name, b[0], b[1], b[2])
	if t := d.Machine().Threads(); t.Size != p.Threads() {
		name += fmt.Sprintf(", threads %d to %d", t.Begin, t.Begin+t.Size-1)
	}
	out := []dap.StackFrame{{Id: v.Base + 1, Name: name, Source: v.Source, Line: at.Line, Column: max(1, at.Col)}}
	for i, x := range d.Path() {
		if i == 0 {
			continue
		}
		out = append(out, dap.StackFrame{Id: v.Base + 1 + i, Name: v.around(x), Source: v.Source, Line: x.Position().Line, Column: max(1, x.Position().Col), PresentationHint: "subtle"})
	}
	return out
}

// Fault is what the program did wrong.
func (v *View) Fault() error { return v.Session.Err() }

// Scopes are the variables of the running block and the arguments of the launch.
func (v *View) Scopes(int) ([]dap.Scope, error) {
	return []dap.Scope{
		{Name: "Variables", PresentationHint: "locals", VariablesReference: v.ref(variables{})},
		{Name: "Arguments", PresentationHint: "arguments", VariablesReference: v.ref(arguments{})},
	}, nil
}
