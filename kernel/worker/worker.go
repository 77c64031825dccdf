// Package worker is the child process that runs the cells of one notebook: it owns the interpreter, the values and the devices.
//
// Main speaks kernel/proto on two pipes. Cells run one at a time; completion, inspection, lab methods and interrupts are served
// meanwhile. Everything that leaves goes through one ordered queue (output.go). When the supervisor goes away the input pipe
// ends, and so does the worker.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/cell"
	"github.com/tilus-lab/tilus-lab/kernel/comm"
	"github.com/tilus-lab/tilus-lab/kernel/debugger"
	"github.com/tilus-lab/tilus-lab/kernel/display"
	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// maxStack ends a recursion without end before it has eaten the memory of the machine.
const maxStack = 96 << 20

// spareThreads are those that answer while the others compute.
const spareThreads = 2

// hungLaunch begins the line on standard error of a worker that ended itself because a launch did not end; package
// session knows it.
const hungLaunch = "tilus-lab worker: hung launch: "

// Methods are the lab methods that a supervisor can call beside the cells; Main serves those given to it.
type Methods map[string]func(ctx context.Context, params json.RawMessage) (any, error)

type worker struct {
	out    *output
	stdin  *stdin
	mu     sync.Mutex
	eng    *cell.Engine
	hooks  cell.Hooks
	id     int64 // cell that runs, or ran last: what its goroutines show late is its own
	busy   bool  // it runs
	ctx    context.Context
	silent map[int64]bool               // cells that run and show nothing
	turns  map[int64]context.CancelFunc // cells that run or wait for their turn
	beside map[int64]context.CancelFunc // cells that run beside them
	call   Methods
	debug  *debugger.Debugger
}

// Main serves until the input ends or a shutdown is asked for, and returns the exit status. r and w are the pipes of the supervisor, usually
// os.Stdin and os.Stdout, which cells must not see: they are moved away and replaced.
func Main(r io.Reader, w io.Writer) int { return Serve(r, w, nil) }

// Serve is Main with lab methods.
func Serve(r io.Reader, w io.Writer, methods Methods) int {
	debug.SetMaxStack(maxStack)
	if os.Getenv("GOMAXPROCS") == "" {
		// A launch on the simulator works on all processors. The operating system finds time for others beside it; the
		// scheduler of goroutines would let them wait for 10 ms at every turn.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareThreads)
	}
	r, w, err := takePipes(r, w)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tilus-lab worker:", err)
		return 1
	}
	k := &worker{call: methods, silent: map[int64]bool{}, turns: map[int64]context.CancelFunc{}, beside: map[int64]context.CancelFunc{}}
	if k.out, err = newOutput(proto.NewWriter(w)); err != nil {
		fmt.Fprintln(os.Stderr, "tilus-lab worker:", err)
		return 1
	}
	k.stdin = &stdin{k: k, cells: map[int64]*asker{}}
	stdout, stderr := k.out.pipes[0].w, k.out.pipes[1].w
	// Libraries in this process print through these. The Go runtime writes crash reports to file descriptor 2 itself, which
	// stays the supervisor's.
	os.Stdout = stdout
	os.Stderr = stderr
	devnull, _ := os.Open(os.DevNull)
	os.Stdin = devnull
	k.debug = k.newDebugger()
	k.hooks = cell.Hooks{
		Write:  func(id int64, stream string, p []byte) { k.out.write(id, stream, p) },
		Sync:   k.out.sync,
		Result: k.result,
		Debug:  k.debug,
		Files:  [3]any{devnull, stdout, stderr},
		Stdin:  k.stdin,
	}
	if k.eng, err = cell.New(k.hooks, cell.Symbols, cell.Preimported); err != nil {
		fmt.Fprintln(stderr, "tilus-lab worker:", err)
		return 1
	}
	defer display.Attach(k.display)()
	defer display.AttachClear(func(wait bool) error {
		return k.tell(proto.Event{Kind: proto.KindClear, Clear: &proto.Clear{Wait: wait}})
	})()
	defer comm.Attach(func(step comm.Step, id, target string, m comm.Message) error {
		return k.tell(proto.Event{Kind: proto.KindComm, Comm: &proto.Comm{Step: string(step), ID: id, Target: target, Data: m.Data, Metadata: m.Metadata, Buffers: m.Buffers}})
	})()
	defer lab.Attach(lab.Hooks{Context: k.context, Explore: func(form, text string) {
		k.out.send(proto.Event{ID: k.running(), Kind: proto.KindExplore, Explore: &proto.Explore{Form: form, Text: text}})
	}, Display: func(data map[string]string) {
		m := map[string]any{}
		for mime, s := range data {
			m[mime] = s
		}
		k.display(display.Data{Data: m})
	}, Unended: func(err error) {
		// The session reads why from standard error, and starts another worker.
		k.out.sync()
		fmt.Fprintf(crash, "%s%v\n", hungLaunch, err)
		os.Exit(3)
	}, Launch: k.launch, Picture: func(caption string, p layoutviz.Picture) {
		d := display.Picture(p)
		d.Data[display.MIMETypeText] = caption
		k.display(d)
	}})()
	k.out.send(proto.Event{Kind: proto.KindReady, Ready: &proto.Ready{PID: os.Getpid(), Go: "go1.26", Version: proto.Version}})
	return k.serve(proto.NewReader(r))
}

// job is a cell that was asked for; ctx is ended by an interrupt.
type job struct {
	proto.Request
	ctx    context.Context
	cancel context.CancelFunc
}

// job registers a cell before the next request is read, so that an interrupt right behind it finds it.
func (k *worker) job(req proto.Request) job {
	ctx, all := context.Background(), k.turns
	if req.Beside {
		ctx, all = cell.Beside(ctx), k.beside
	}
	j := job{Request: req}
	j.ctx, j.cancel = context.WithCancel(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	all[req.ID], k.silent[req.ID] = j.cancel, req.Silent
	return j
}

func (k *worker) serve(in *proto.Reader) int {
	cells, debugs := make(chan job, 64), make(chan proto.Request, 1024)
	defer close(cells)
	defer close(debugs)
	go func() {
		for req := range debugs {
			k.debugging(req)
		}
	}()
	go func() {
		for j := range cells {
			k.execute(j)
		}
	}()
	for {
		var req proto.Request
		if err := in.Receive(&req); err != nil {
			if errors.Is(err, io.EOF) {
				return 0
			}
			return 1
		}
		switch req.Op {
		case proto.OpExecute, proto.OpReset, proto.OpComm:
			if j := k.job(req); req.Beside {
				go k.executeBeside(j)
			} else {
				cells <- j
			}
		case proto.OpInterrupt:
			k.interrupt(req)
		case proto.OpInput:
			k.stdin.give(req.ID, line{req.Text, req.EOF})
		case proto.OpComplete:
			go k.answer(req, func(e *cell.Engine) proto.Event {
				c := e.Complete(req.Code, req.Cursor)
				return proto.Event{Kind: proto.KindCompleted, Completed: &c}
			})
		case proto.OpInspect:
			go k.answer(req, func(e *cell.Engine) proto.Event {
				c := e.Inspect(req.Code, req.Cursor)
				return proto.Event{Kind: proto.KindInspected, Inspected: &c}
			})
		case proto.OpIsComplete:
			go k.answer(req, func(*cell.Engine) proto.Event {
				c := cell.IsComplete(req.Code)
				return proto.Event{Kind: proto.KindCompleteness, Completeness: &c}
			})
		case proto.OpCall:
			go k.method(req)
		case proto.OpDebug:
			debugs <- req
		case proto.OpShutdown:
			return 0
		}
	}
}

// answer sends the answer to a question about code; a fault in finding it is no reason to end the worker.
func (k *worker) answer(req proto.Request, f func(*cell.Engine) proto.Event) {
	k.mu.Lock()
	e := k.eng
	k.mu.Unlock()
	var ev proto.Event
	func() {
		defer func() {
			if r := recover(); r != nil {
				ev = proto.Event{Kind: proto.KindDone, Done: &proto.Done{Status: "error"}}
			}
		}()
		ev = f(e)
	}()
	ev.ID = req.ID
	k.out.send(ev)
}

func (k *worker) method(req proto.Request) {
	fail := func(msg string) {
		k.out.send(proto.Event{ID: req.ID, Kind: proto.KindError, Error: &proto.Error{Name: "CallError", Value: msg, Traceback: []string{msg}}})
		k.out.send(proto.Event{ID: req.ID, Kind: proto.KindDone, Done: &proto.Done{Status: "error"}})
	}
	f := k.call[req.Method]
	if f == nil {
		fail("no method " + req.Method)
		return
	}
	defer func() {
		if r := recover(); r != nil {
			fail(fmt.Sprint(r))
		}
	}()
	v, err := f(context.Background(), req.Params)
	if err != nil {
		fail(err.Error())
		return
	}
	raw, err := json.Marshal(v)
	if err != nil {
		fail(err.Error())
		return
	}
	k.out.send(proto.Event{ID: req.ID, Kind: proto.KindReturned, Returned: raw})
}

// execute runs one cell from its request to Done.
func (k *worker) execute(j job) {
	defer j.cancel()
	k.mu.Lock()
	k.id, k.ctx, k.busy = j.ID, j.ctx, true
	k.out.begin(j.ID)
	k.mu.Unlock()
	k.perform(j.ctx, j.Request)
}

// executeBeside is execute for a cell of a subshell, which does not wait for the running one.
func (k *worker) executeBeside(j job) {
	defer j.cancel()
	k.mu.Lock()
	if !k.busy { // what it prints through the files is its own
		k.out.begin(j.ID)
	}
	e := k.eng
	k.mu.Unlock()
	defer e.Attend(j.ctx, j.ID)()
	k.perform(j.ctx, j.Request)
}

// perform runs one cell to its Done.
func (k *worker) perform(ctx context.Context, req proto.Request) {
	defer k.stdin.allow(req.ID, req.AllowStdin)()
	start := time.Now()
	res, pager := k.run(ctx, req)
	k.out.sync()
	k.out.resume(req.ID)
	done := &proto.Done{Status: "ok", Seconds: time.Since(start).Seconds(), Tainted: res.Tainted, Pager: pager}
	if res.Err != nil {
		done.Status = "error"
		k.out.send(proto.Event{ID: req.ID, Kind: proto.KindError, Error: res.Err})
	}
	k.mu.Lock()
	if req.Beside {
		delete(k.beside, req.ID)
	} else {
		k.busy = false
		delete(k.turns, req.ID)
	}
	delete(k.silent, req.ID)
	e := k.eng
	k.mu.Unlock()
	if !res.Tainted {
		// Where others run, the last of them tells.
		e.Quiet(func() { k.out.send(proto.Event{ID: req.ID, Kind: proto.KindVars, Vars: e.Vars()}) })
	}
	var m runtime.MemStats
	if req.Count%16 == 0 {
		runtime.ReadMemStats(&m)
		done.Heap = m.HeapInuse
	}
	k.out.send(proto.Event{ID: req.ID, Kind: proto.KindDone, Done: done})
}

func (k *worker) run(ctx context.Context, req proto.Request) (res cell.Outcome, pager string) {
	defer func() {
		if r := recover(); r != nil {
			msg := fmt.Sprintf("the worker could not handle this cell: %v", r)
			res = cell.Outcome{Err: &proto.Error{Name: "CellError", Value: msg, Traceback: []string{msg}}}
			fmt.Fprintf(crash, "tilus-lab worker: %s\n%s\n", msg, debug.Stack())
		}
	}()
	name := fmt.Sprintf("cell%d", max(req.Count, 0))
	switch {
	case req.Beside && onlyMain(req.Code):
		msg := "this line changes the whole session: run it in the main shell"
		return cell.Outcome{Err: &proto.Error{Name: "CellError", Value: msg, Traceback: []string{msg}}}, ""
	case req.Op == proto.OpReset:
		return k.reset(), ""
	case req.Op == proto.OpComm && req.Comm != nil:
		return k.deliver(ctx, req), ""
	}
	if !req.Beside {
		k.debug.Cell(name, req.Code)
	}
	if res, pager, ok := k.withMagics(ctx, req, name); ok {
		return res, pager
	}
	return k.eng.Run(ctx, req.ID, name, req.Code), ""
}

// onlyMain reports a cell that replaces the interpreter, which others run in.
func onlyMain(code string) bool {
	for line := range strings.Lines(code) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "%reset" {
			return true
		}
	}
	return false
}

// deliver hands a comm message to what cells registered for it.
func (k *worker) deliver(ctx context.Context, req proto.Request) cell.Outcome {
	var err error
	c := req.Comm
	out := k.eng.Call(ctx, req.ID, "comm", func() {
		err = comm.Deliver(comm.Step(c.Step), c.ID, c.Target, comm.Message{Data: c.Data, Metadata: c.Metadata, Buffers: c.Buffers})
	})
	if out.Err == nil && err != nil {
		out.Err = &proto.Error{Name: "CommError", Value: err.Error(), Traceback: []string{"CommError: " + err.Error()}}
	}
	return out
}

func (k *worker) reset() cell.Outcome {
	e, err := cell.New(k.hooks, cell.Symbols, cell.Preimported)
	if err != nil {
		return cell.Outcome{Err: &proto.Error{Name: "CellError", Value: err.Error(), Traceback: []string{err.Error()}}}
	}
	k.mu.Lock()
	k.eng = e
	k.mu.Unlock()
	debug.FreeOSMemory()
	return cell.Outcome{}
}

// interrupt ends the cell that a request names, or all that run beside the others: the interpreter cannot stop one of them alone.
func (k *worker) interrupt(req proto.Request) {
	k.mu.Lock()
	end := k.turns[req.Cell]
	if req.Beside {
		for _, end := range k.beside {
			end()
		}
		end = nil
	}
	k.mu.Unlock()
	if end != nil {
		k.out.drop(req.Cell)
		end()
	}
}

// running is the cell that the calling goroutine works for.
func (k *worker) running() int64 {
	if id, _, ok := k.engine().Aside(); ok {
		return id
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.id
}

// context ends the cell that the calling goroutine works for.
func (k *worker) context() context.Context {
	if _, ctx, ok := k.engine().Aside(); ok {
		return ctx
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil {
		return context.Background()
	}
	return k.ctx
}

// tell sends an event of the running cell in order with what was printed before.
func (k *worker) tell(ev proto.Event) error {
	k.out.sync()
	ev.ID = k.running()
	return k.out.send(ev)
}

// display shows data in order with what was printed before.
func (k *worker) display(d display.Data) error { return k.show(k.running(), proto.KindDisplay, d) }

func (k *worker) show(id int64, kind proto.Kind, d display.Data) error {
	k.out.sync()
	k.mu.Lock()
	silent := k.silent[id]
	k.mu.Unlock()
	if silent {
		return nil
	}
	data, meta := display.Bundle(d)
	b := &proto.Bundle{Data: data, Metadata: meta}
	if s, ok := d.Transient["display_id"].(string); ok {
		b.DisplayID = s
		b.Update, _ = d.Transient["update"].(bool)
	}
	if form, ok := d.Transient["form"].(string); ok {
		text, _ := d.Transient["text"].(string)
		b.Shows = &proto.Explore{Form: form, Text: text}
	}
	if err := k.out.send(proto.Event{ID: id, Kind: kind, Bundle: b}); err != nil {
		return fmt.Errorf("display: %w", err)
	}
	return nil
}

// result shows the values of the last expression.
func (k *worker) result(id int64, vals []any, _ []string) {
	d, ok := display.Results(vals)
	if !ok {
		return
	}
	k.show(id, proto.KindResult, d)
	if l, isLayout := vals[0].(layout.Layout); isLayout && len(vals) == 1 {
		// A layout has two sides: the result shows the elements, a display after it what the threads hold.
		for _, p := range others(display.Pictures(l)) {
			k.show(id, proto.KindDisplay, p)
		}
	}
}

// others are all but the first.
func others(ds []display.Data) []display.Data { return ds[min(1, len(ds)):] }
