package dap

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-dap"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/debug"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

const sums = `program sums<2>(x: *i32, y: *i32, n: i32) warps=1 {
	bi = BlockIndices()
	gx = ViewGlobal(x) : global i32[n, 32]
	gy = ViewGlobal(y) : global i32[2, 32]
	acc = AllocateRegister(init=0) : register i32[32] spatial(32)
	for k in 0..n {
		row = LoadGlobal(gx, offset=[k, 0], dims=[1]) : register i32[32] spatial(32)
		acc = Add(acc, row) : register i32[32] spatial(32)
	}
	StoreGlobal(gy, acc, offset=[bi, 0], dims=[1])
}
`

// launch begins the program above, without an accumulator's start where the request
// says {"broken": true}.
func launch(raw json.RawMessage) (*Launched, error) {
	var a struct {
		Broken, Stop bool
		N            int
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, err
	}
	src := sums
	if a.Broken {
		src = strings.Replace(src, "acc = AllocateRegister(init=0)", "acc = AllocateRegister()", 1)
	}
	p, err := text.Parse("sums.tile", src, nil)
	if err != nil {
		return nil, err
	}
	x, err := array.Generate(fmt.Sprintf("iota:i32[%d, 32]", a.N))
	if err != nil {
		return nil, err
	}
	d, err := debug.New(p, []ir.Arg{{Array: x}, {Array: array.New(x.Type, 2, 32)}, {Int: int64(a.N)}})
	return &Launched{Session: d, Path: "/tmp/sums.tile", Stop: a.Stop}, err
}

// client is the other end of a conversation.
type client struct {
	*testing.T
	w      io.WriteCloser
	seq    int
	events chan dap.EventMessage
	replys chan dap.ResponseMessage
	done   chan error
}

func connect(t *testing.T) *client {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &client{T: t, w: inW, events: make(chan dap.EventMessage, 100), replys: make(chan dap.ResponseMessage, 100), done: make(chan error, 1)}
	go func() {
		c.done <- Serve(context.Background(), inR, outW, launch)
		outW.Close()
	}()
	go func() {
		r := bufio.NewReader(outR)
		for {
			m, err := dap.ReadProtocolMessage(r)
			if err != nil {
				return
			}
			switch m := m.(type) {
			case dap.EventMessage:
				c.events <- m
			case dap.ResponseMessage:
				c.replys <- m
			}
		}
	}()
	t.Cleanup(func() { inW.Close() })
	return c
}

// ask sends a request and gives its answer.
func ask[T dap.Message](c *client, command string, arguments any) T {
	c.Helper()
	c.seq++
	raw, _ := json.Marshal(map[string]any{"seq": c.seq, "type": "request", "command": command, "arguments": arguments})
	if err := dap.WriteBaseMessage(c.w, raw); err != nil {
		c.Fatal(err)
	}
	select {
	case m := <-c.replys:
		got, ok := m.(T)
		if !ok || m.GetResponse().RequestSeq != c.seq {
			text, _ := json.Marshal(m)
			c.Fatalf("%s: %s", command, text)
		}
		return got
	case <-time.After(10 * time.Second):
		c.Fatalf("%s: no answer", command)
		panic("not reached")
	}
}

// wait is the next event of a kind.
func wait[T dap.EventMessage](c *client) T {
	c.Helper()
	for {
		select {
		case m := <-c.events:
			if got, ok := m.(T); ok {
				return got
			}
		case <-time.After(10 * time.Second):
			var none T
			c.Fatalf("no %T", none)
		}
	}
}

type object map[string]any

// stops waits for a stop and gives its reason, line and the variables there.
func (c *client) stops(reason string, line int) map[string]dap.Variable {
	c.Helper()
	e := wait[*dap.StoppedEvent](c)
	frames := ask[*dap.StackTraceResponse](c, "stackTrace", object{"threadId": 1}).Body.StackFrames
	if e.Body.Reason != reason || frames[0].Line != line {
		c.Fatalf("%s at line %d, not %s at line %d", e.Body.Reason, frames[0].Line, reason, line)
	}
	return c.named(ask[*dap.ScopesResponse](c, "scopes", object{"frameId": 1}).Body.Scopes[0].VariablesReference)
}

func (c *client) named(ref int) map[string]dap.Variable {
	c.Helper()
	out := map[string]dap.Variable{}
	for _, v := range ask[*dap.VariablesResponse](c, "variables", object{"variablesReference": ref}).Body.Variables {
		out[v.Name] = v
	}
	return out
}

// TestConversation is a person's: a condition in a loop, a look at a tile, a step, and
// back.
func TestConversation(t *testing.T) {
	c := connect(t)
	if caps := ask[*dap.InitializeResponse](c, "initialize", object{"adapterID": "tile"}); !caps.Body.SupportsStepBack || !caps.Body.SupportsConditionalBreakpoints {
		t.Errorf("%+v", caps.Body)
	}
	ask[*dap.LaunchResponse](c, "launch", object{"N": 100})
	wait[*dap.InitializedEvent](c)
	set := ask[*dap.SetBreakpointsResponse](c, "setBreakpoints", object{"source": object{"path": "/tmp/sums.tile"}, "breakpoints": []object{{"line": 8, "condition": "k == 3"}, {"line": 70}}}).Body.Breakpoints
	if !set[0].Verified || set[0].Line != 8 || set[1].Verified || set[1].Message == "" {
		t.Errorf("%+v", set)
	}
	ask[*dap.ConfigurationDoneResponse](c, "configurationDone", nil)
	vars := c.stops("breakpoint", 8)
	if vars["k"].Value != "3" || !strings.HasPrefix(vars["acc"].Type, "register i32[32]") {
		t.Errorf("%+v", vars)
	}
	threads := c.named(vars["acc"].VariablesReference)
	if got := threads["thread 2"]; len(threads) != 32 || got.Value != "102" { // 2 + 34 + 66
		t.Errorf("%d threads, %+v", len(threads), got)
	}
	if slots := c.named(threads["thread 2"].VariablesReference); slots["slot 0 [2]"].Value != "102" {
		t.Errorf("%+v", slots)
	}
	if got := ask[*dap.VariablesResponse](c, "variables", object{"variablesReference": vars["acc"].VariablesReference, "start": 30, "count": 5}).Body.Variables; len(got) != 2 || got[0].Name != "thread 30" {
		t.Errorf("%+v", got)
	}
	scopes := ask[*dap.ScopesResponse](c, "scopes", object{"frameId": 1}).Body.Scopes
	args := c.named(scopes[1].VariablesReference)
	if args["n"].Value != "100" || args["x"].IndexedVariables != 100 {
		t.Errorf("%+v", args)
	}
	if row := c.named(args["x"].VariablesReference)["[1]"]; row.Value != "32 33 34 35 36 37 38 39 …" {
		t.Errorf("%+v", row)
	}
	if got := ask[*dap.EvaluateResponse](c, "evaluate", object{"expression": "k*2 + n"}).Body.Result; got != "106" {
		t.Errorf("k*2 + n = %s", got)
	}
	if e := ask[*dap.ErrorResponse](c, "evaluate", object{"expression": "q + 1"}); !strings.Contains(e.Message, "there is no q here") {
		t.Errorf("%s", e.Message)
	}
	ask[*dap.NextResponse](c, "next", object{"threadId": 1})
	if vars = c.stops("step", 7); vars["k"].Value != "4" {
		t.Errorf("%+v", vars["k"])
	}
	ask[*dap.StepBackResponse](c, "stepBack", object{"threadId": 1})
	if vars = c.stops("step", 8); vars["k"].Value != "3" {
		t.Errorf("%+v", vars["k"])
	}
	if e := ask[*dap.ErrorResponse](c, "variables", object{"variablesReference": 1 << 20}); e.Success {
		t.Error("a reference of no stop has children")
	}
	ask[*dap.SetBreakpointsResponse](c, "setBreakpoints", object{"source": object{"path": "/tmp/sums.tile"}, "breakpoints": []object{}})
	ask[*dap.StepOutResponse](c, "stepOut", object{"threadId": 1})
	c.stops("step", 10)
	ask[*dap.ReverseContinueResponse](c, "reverseContinue", object{"threadId": 1})
	c.stops("step", 2)
	ask[*dap.ContinueResponse](c, "continue", object{"threadId": 1})
	wait[*dap.TerminatedEvent](c)
	ask[*dap.DisconnectResponse](c, "disconnect", nil)
	if err := <-c.done; err != nil {
		t.Error(err)
	}
}

// TestFault stops where the program goes wrong, and says why.
func TestFault(t *testing.T) {
	c := connect(t)
	if e := ask[*dap.ErrorResponse](c, "configurationDone", nil); !strings.Contains(e.Message, "no program") {
		t.Errorf("%s", e.Message)
	}
	if e := ask[*dap.ErrorResponse](c, "launch", object{"N": "x"}); e.Success {
		t.Error("launched nonsense")
	}
	ask[*dap.LaunchResponse](c, "launch", object{"N": 4, "Broken": true, "Stop": true})
	ask[*dap.ConfigurationDoneResponse](c, "configurationDone", nil)
	c.stops("entry", 2)
	ask[*dap.ContinueResponse](c, "continue", object{"threadId": 1})
	c.stops("exception", 8)
	if e := ask[*dap.ExceptionInfoResponse](c, "exceptionInfo", object{"threadId": 1}); e.Body.ExceptionId != "Run.E3" {
		t.Errorf("%+v", e.Body)
	}
	ask[*dap.RestartResponse](c, "restart", nil)
	c.stops("entry", 2)
	if e := ask[*dap.ErrorResponse](c, "goto", object{"threadId": 1, "targetId": 1}); e.Success {
		t.Error("there is a goto")
	}
}

// TestPause stops a run that is on its way.
func TestPause(t *testing.T) {
	c := connect(t)
	ask[*dap.LaunchResponse](c, "launch", object{"N": 60000, "Stop": true})
	ask[*dap.ConfigurationDoneResponse](c, "configurationDone", nil)
	wait[*dap.StoppedEvent](c)
	ask[*dap.ContinueResponse](c, "continue", object{"threadId": 1})
	if e := ask[*dap.ErrorResponse](c, "stackTrace", object{"threadId": 1}); !strings.Contains(e.Message, "pause it first") {
		t.Errorf("%s", e.Message)
	}
	ask[*dap.PauseResponse](c, "pause", object{"threadId": 1})
	if e := wait[*dap.StoppedEvent](c); e.Body.Reason != "pause" {
		t.Errorf("%+v", e.Body)
	}
}

// FuzzServe talks nonsense to the server.
func FuzzServe(f *testing.F) {
	for _, m := range []string{`{"seq":1,"type":"request","command":"launch","arguments":{"N":3,"Stop":true}}`, `{"seq":2,"type":"request","command":"scopes","arguments":{"frameId":1}}`,
		`{"seq":3,"type":"request","command":"variables","arguments":{"variablesReference":1,"start":-1,"count":-5}}`, `{"seq":4,"type":"event"}`, `[]`, `{"type":"request","command":"nope"}`} {
		f.Add([]byte(m))
	}
	f.Fuzz(func(t *testing.T, m []byte) {
		var in bytes.Buffer
		for _, x := range []string{`{"seq":1,"type":"request","command":"launch","arguments":{"N":3,"Stop":true}}`, `{"seq":2,"type":"request","command":"configurationDone"}`, `{"seq":2,"type":"request","command":"scopes","arguments":{"frameId":1}}`, string(m), string(m)} {
			if err := dap.WriteBaseMessage(&in, []byte(x)); err != nil {
				t.Fatal(err)
			}
		}
		if err := Serve(t.Context(), &in, io.Discard, launch); err != nil {
			t.Error(err)
		}
	})
}
