package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
)

// TestMain lets this test binary be the kernel of a kernelspec: `BINARY kernel FILE`.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "kernel" {
		err := Run(context.Background(), os.Args[2], Options{Start: func() (Engine, error) { return &fake{}, nil }})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fake is an engine whose cells are lines of one word and an argument.
type fake struct {
	mu      sync.Mutex
	journal []session.Entry
	count   int
	stop    chan struct{} // closed to interrupt the running cell
}

// Restart has nothing to do: the fake has no worker.
func (f *fake) Restart() error { return nil }

// Comm refuses the target "unknown" and answers messages on any other with their data.
func (f *fake) Comm(_ context.Context, m proto.Comm, sink func(proto.Event)) (session.Reply, error) {
	switch {
	case m.Step == "open" && m.Target == "unknown":
		sink(proto.Event{Kind: proto.KindComm, Comm: &proto.Comm{Step: "close", ID: m.ID}})
	case m.Step == "msg":
		sink(proto.Event{Kind: proto.KindComm, Comm: &proto.Comm{Step: "msg", ID: m.ID, Data: m.Data, Buffers: m.Buffers}})
	}
	return session.Reply{Status: "ok"}, nil
}

func (f *fake) CommBeside(ctx context.Context, m proto.Comm, sink func(proto.Event)) (session.Reply, error) {
	return f.Comm(ctx, m, sink)
}

func (f *fake) Execute(ctx context.Context, req session.Request, sink func(proto.Event)) (session.Reply, error) {
	if sink == nil {
		sink = func(proto.Event) {}
	}
	f.mu.Lock()
	if req.StoreHistory {
		f.count++
	}
	count := f.count
	stop := make(chan struct{})
	f.stop = stop
	f.mu.Unlock()
	rep := session.Reply{Status: "ok", Count: count}
	fail := func(name, value string, trace ...string) {
		rep.Status, rep.EName, rep.EValue, rep.Traceback = "error", name, value, trace
		sink(proto.Event{Kind: proto.KindError, Error: &proto.Error{Name: name, Value: value, Traceback: trace}})
	}
	print := func(stream, text string) {
		sink(proto.Event{Kind: proto.KindStream, Stream: &proto.Stream{Name: stream, Text: text}})
	}
	show := func(kind proto.Kind, text, id string, update bool) {
		sink(proto.Event{Kind: kind, Bundle: &proto.Bundle{Data: map[string]any{"text/plain": text}, DisplayID: id, Update: update}})
	}
lines:
	for line := range strings.SplitSeq(req.Code, "\n") {
		word, arg, _ := strings.Cut(line, " ")
		switch word {
		case "print":
			print("stdout", arg+"\n")
		case "warn":
			print("stderr", arg+"\n")
		case "flood":
			n, _ := strconv.Atoi(arg)
			for i := range n {
				print("stdout", fmt.Sprintln("line", i))
			}
		case "late":
			go func() {
				time.Sleep(200 * time.Millisecond)
				print("stdout", arg+"\n")
			}()
		case "value":
			show(proto.KindResult, arg, "", false)
		case "display":
			show(proto.KindDisplay, arg, "", false)
		case "create":
			show(proto.KindDisplay, arg, "id1", false)
		case "update":
			show(proto.KindDisplay, arg, "id1", true)
		case "clear":
			sink(proto.Event{Kind: proto.KindClear, Clear: &proto.Clear{Wait: true}})
		case "page":
			rep.Pager = arg
		case "input":
			if req.Input == nil || !req.AllowStdin {
				fail("NoInput", "this front end has no input")
				break lines
			}
			text, err := req.Input(arg, false)
			if err != nil {
				fail("Interrupted", err.Error())
				break lines
			}
			print("stdout", "got "+text+"\n")
		case "die":
			fail("Panic", "in a goroutine", "Panic: in a goroutine")
			rep.Lost = true
			break lines
		case "fail":
			if arg == "slowly" { // so that what is sent behind it is queued, however busy the machine is
				time.Sleep(500 * time.Millisecond)
			}
			fail("Failed", arg)
			break lines
		case "loop", "spam":
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
				case <-stop:
				case <-tick.C:
					if word == "spam" {
						print("stdout", "spam\n")
					}
					continue
				}
				// What the worker had printed before it noticed.
				print("stdout", "backlog\n")
				fail("Interrupted", "the cell was interrupted")
				break lines
			}
		}
	}
	if rep.Status == "ok" && req.StoreHistory && strings.HasPrefix(req.Code, "print") {
		f.mu.Lock()
		f.journal = append(f.journal, session.Entry{Count: count, Code: req.Code})
		f.mu.Unlock()
	}
	return rep, nil
}

func (f *fake) Replay(ctx context.Context, sink func(proto.Event)) (session.Reply, error) {
	rep := session.Reply{Status: "ok"}
	for _, e := range f.Journal() {
		if rep, _ = f.Execute(ctx, session.Request{Code: e.Code}, sink); rep.Status != "ok" {
			break
		}
	}
	return rep, nil
}

func (f *fake) Journal() []session.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]session.Entry(nil), f.journal...)
}

func (f *fake) Interrupt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		close(f.stop)
		f.stop = nil
	}
}

func (f *fake) Complete(code string, cursor int) (proto.Completed, error) {
	return proto.Completed{Start: cursor - 2, End: cursor, Matches: []proto.Match{{Text: "print", Kind: "function"}}}, nil
}

func (f *fake) Inspect(code string, cursor int) (proto.Inspected, error) {
	return proto.Inspected{Found: strings.HasPrefix(code, "print"), Text: "prints"}, nil
}

func (f *fake) IsComplete(code string) (proto.Completeness, error) {
	switch {
	case strings.HasSuffix(code, "{"):
		return proto.Completeness{Status: "incomplete", Indent: "\t"}, nil
	case strings.HasPrefix(code, ")"):
		return proto.Completeness{Status: "invalid"}, nil
	case code == "worker gone":
		return proto.Completeness{}, errors.New("gone")
	}
	return proto.Completeness{Status: "complete"}, nil
}

// Debug answers every request with its command.
func (f *fake) Debug(_ context.Context, raw json.RawMessage) (json.RawMessage, error) {
	var r struct {
		Seq     int    `json:"seq"`
		Command string `json:"command"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"type": "response", "request_seq": r.Seq, "command": r.Command, "success": true})
}

// Subscribe has nothing to tell: the fake has no debugger.
func (f *fake) Subscribe(func(proto.Event)) func() { return func() {} }

func (f *fake) Close() error { return nil }
