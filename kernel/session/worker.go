package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

const (
	startLimit = 20 * time.Second // for a worker to say Ready, on a loaded machine
	askLimit   = 5 * time.Second  // for completion and the like
	keepSinks  = 200              // cells whose late output still finds its sink
	tailBytes  = 64 << 10         // of standard error kept to explain a death
	watchEvery = 50 * time.Millisecond

	// hungLaunch begins the last line of a worker that ended itself because a launch on a GPU did not end.
	hungLaunch = "tilus-lab worker: hung launch: "
)

// worker is one child process.
type worker struct {
	cmd   *exec.Cmd
	out   *proto.Writer
	stdin io.Closer
	dead  chan struct{} // closed when the process has ended or its pipe is broken

	mu     sync.Mutex
	calls  map[int64]*call
	order  []int64 // IDs in calls, oldest first
	tail   bytes.Buffer
	why    [2]string // ename, evalue when the session killed it
	memory int64     // bytes resident when last looked, of limit
	limit  int64
	warned int64 // memory at the last notice
	state  *os.ProcessState
	waited chan struct{}
}

// call is one request that has been sent, and stays as the address of late output.
type call struct {
	id    int64
	sink  func(proto.Event)
	input func(string, bool) (string, error)
	mu    sync.Mutex // serialises sink
	err   *proto.Error
	end   proto.Done
	reply proto.Event
	done  chan struct{}
	once  sync.Once
}

func (c *call) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *call) deliver(ev proto.Event) {
	if c.sink == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sink(ev)
}

// worker returns the live worker, starting one if there is none.
func (s *Session) worker() (*worker, error) {
	s.mu.Lock()
	w, closed := s.w, s.closed
	s.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if w != nil {
		select {
		case <-w.dead:
		default:
			return w, nil
		}
	}
	fresh, err := s.spawn()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		fresh.kill()
		return nil, ErrClosed
	case s.w != nil && s.w != w:
		// Another call was faster.
		fresh.kill()
		return s.w, nil
	}
	s.w = fresh
	return fresh, nil
}

func (s *Session) spawn() (*worker, error) {
	if len(s.opt.Exe) == 0 {
		return nil, errors.New("session: no worker program given")
	}
	cmd := exec.Command(s.opt.Exe[0], s.opt.Exe[1:]...)
	cmd.Dir = s.opt.Dir
	cmd.Env = append(os.Environ(), s.opt.Env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	widen(out)
	w := &worker{cmd: cmd, out: proto.NewWriter(in), stdin: in, dead: make(chan struct{}), waited: make(chan struct{}), calls: map[int64]*call{}}
	cmd.Stderr = &tail{w: w, log: s.opt.Log}
	// A grandchild may keep standard error open; the end of the worker itself is what counts.
	cmd.WaitDelay = 300 * time.Millisecond
	dieWithParent(cmd)
	limit := s.opt.Memory
	if limit == 0 {
		limit = totalMemory() / 2
	}
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		// Garbage is collected harder before the limit is met.
		cmd.Env = append(cmd.Env, fmt.Sprintf("GOMEMLIMIT=%d", limit*3/4))
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("session: start worker: %w", err)
	}
	ready := make(chan proto.Event, 1)
	go w.read(s, proto.NewReader(out), ready)
	if limit > 0 {
		go w.watch(limit)
	}
	select {
	case ev := <-ready:
		if ev.Ready.Version != proto.Version {
			w.kill()
			return nil, fmt.Errorf("session: worker speaks protocol %d, want %d", ev.Ready.Version, proto.Version)
		}
		s.debugging.again(w)
		return w, nil
	case <-w.dead:
		<-w.waited
		return nil, fmt.Errorf("session: worker %s ended before it was ready: %s", s.opt.Exe[0], w.lastLine())
	case <-time.After(startLimit):
		w.kill()
		return nil, fmt.Errorf("session: worker %s was not ready after %s", s.opt.Exe[0], startLimit)
	}
}

// read delivers events until the pipe ends.
func (w *worker) read(s *Session, r *proto.Reader, ready chan<- proto.Event) {
	defer func() {
		if raw := s.debugging.lost(); raw != nil {
			s.publish(proto.Event{Kind: proto.KindDebug, Debug: raw})
		}
		close(w.dead)
		w.kill()
		w.cmd.Wait()
		w.mu.Lock()
		w.state = w.cmd.ProcessState
		w.mu.Unlock()
		close(w.waited)
	}()
	for {
		var ev proto.Event
		if err := r.Receive(&ev); err != nil {
			return
		}
		if ev.Kind == proto.KindReady && ev.Ready != nil {
			select {
			case ready <- ev:
			default:
			}
			continue
		}
		w.mu.Lock()
		c := w.calls[ev.ID]
		w.mu.Unlock()
		switch ev.Kind {
		case proto.KindVars:
			if ev.Vars != nil {
				s.mu.Lock()
				s.vars = ev.Vars.Vars
				s.mu.Unlock()
			}
			s.publish(ev)
		case proto.KindExplore:
			s.publish(ev)
		case proto.KindDebug:
			s.debugging.event(ev.Debug)
			s.publish(ev)
		}
		if c == nil {
			continue
		}
		switch ev.Kind {
		case proto.KindDone:
			if ev.Done != nil {
				c.end = *ev.Done
			}
			c.once.Do(func() { close(c.done) })
		case proto.KindCompleted, proto.KindInspected, proto.KindCompleteness, proto.KindReturned:
			c.reply = ev
			c.once.Do(func() { close(c.done) })
		case proto.KindInputRequest:
			go w.answer(c, ev)
		default:
			if ev.Kind == proto.KindError {
				c.err = ev.Error
			}
			c.deliver(ev)
		}
	}
}

// answer asks the front end for a line and passes it on.
func (w *worker) answer(c *call, ev proto.Event) {
	req := proto.Request{ID: c.id, Op: proto.OpInput, EOF: true}
	if c.input != nil && ev.InputRequest != nil {
		if text, err := c.input(ev.InputRequest.Prompt, ev.InputRequest.Password); err == nil {
			req.Text, req.EOF = text, false
		}
	}
	w.send(req)
}

func (s *Session) publish(ev proto.Event) {
	s.mu.Lock()
	fs := make([]func(proto.Event), 0, len(s.subs))
	for _, f := range s.subs {
		fs = append(fs, f)
	}
	s.mu.Unlock()
	for _, f := range fs {
		f(ev)
	}
}

// open registers a request before it is sent.
func (w *worker) open(id int64, sink func(proto.Event), input func(string, bool) (string, error)) *call {
	c := &call{id: id, sink: sink, input: input, done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[id] = c
	if sink == nil {
		return c
	}
	w.order = append(w.order, id)
	if len(w.order) > keepSinks {
		// One that still runs is kept: it could not be told its end.
		for i, old := range w.order {
			if w.calls[old].ended() {
				delete(w.calls, old)
				w.order = slices.Delete(w.order, i, i+1)
				break
			}
		}
	}
	return c
}

func (s *Session) ask(req proto.Request) (proto.Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	return s.askCtx(ctx, req)
}

func (s *Session) askCtx(ctx context.Context, req proto.Request) (proto.Event, error) {
	w, err := s.worker()
	if err != nil {
		return proto.Event{}, err
	}
	s.mu.Lock()
	s.nextID++
	req.ID = s.nextID
	s.mu.Unlock()
	c := w.open(req.ID, nil, nil)
	defer func() {
		w.mu.Lock()
		delete(w.calls, req.ID)
		w.mu.Unlock()
	}()
	if err := w.send(req); err != nil {
		return proto.Event{}, err
	}
	select {
	case <-c.done:
		if c.err != nil {
			return proto.Event{ID: req.ID, Kind: proto.KindError, Error: c.err}, nil
		}
		return c.reply, nil
	case <-w.dead:
		return proto.Event{}, fmt.Errorf("session: %s: the worker ended", req.Op)
	case <-ctx.Done():
		return proto.Event{}, fmt.Errorf("session: %s: %w", req.Op, ctx.Err())
	}
}

func (w *worker) send(req proto.Request) error { return w.out.Send(req) }

func (w *worker) kill() { w.cmd.Process.Kill() }

// killed kills the worker and says why in its obituary.
func (w *worker) killed(name, value string) {
	w.mu.Lock()
	w.why = [2]string{name, value}
	w.mu.Unlock()
	w.kill()
}

// watch kills a worker that holds more memory than it may, before the system looks for a victim of its own choice.
func (w *worker) watch(limit int64) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.dead:
			return
		case <-tick.C:
		}
		n := resident(w.cmd.Process.Pid)
		w.mu.Lock()
		w.memory, w.limit = n, limit
		w.mu.Unlock()
		if n > limit {
			w.killed("memory", fmt.Sprintf("it held %s, and %s are the limit", bytesText(n), bytesText(limit)))
			return
		}
	}
}

// notice is what to tell the person about the memory of the worker: once past half of its limit, and again for each
// further eighth.
func (w *worker) notice() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit == 0 || w.memory < w.limit/2 || w.memory < w.warned+w.limit/8 {
		return ""
	}
	w.warned = w.memory
	return fmt.Sprintf("[Tilus Lab: the worker holds %s and is ended at %s. A cell that says %%rebuild runs the cells that succeeded again, in a fresh worker.]\n",
		bytesText(w.memory), bytesText(w.limit))
}

// bytesText is a size for people.
func bytesText(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// shutdown asks the worker to end, and kills it when it does not.
func (w *worker) shutdown() {
	w.mu.Lock()
	w.why = [2]string{"closed", "the session was closed while the cell ran"}
	w.mu.Unlock()
	if w.send(proto.Request{Op: proto.OpShutdown}) == nil {
		select {
		case <-w.dead:
		case <-time.After(300 * time.Millisecond):
		}
	}
	w.kill()
	w.stdin.Close()
	<-w.dead
}

// tail keeps the end of the worker's standard error and copies all of it to the log.
type tail struct {
	w   *worker
	log io.Writer
}

func (t *tail) Write(p []byte) (int, error) {
	t.w.mu.Lock()
	t.w.tail.Write(p)
	if n := t.w.tail.Len() - 2*tailBytes; n > 0 {
		// The head of a crash report says what happened, so keep the first half and the last.
		b := t.w.tail.Bytes()
		cut := append(append([]byte{}, b[:tailBytes]...), b[tailBytes+n:]...)
		t.w.tail.Reset()
		t.w.tail.Write(cut)
	}
	t.w.mu.Unlock()
	if t.log != nil {
		t.log.Write(p)
	}
	return len(p), nil
}

func (w *worker) lastLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(w.tail.String()), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	if w.state != nil {
		return w.state.String()
	}
	return "no reason given"
}

var crashLine = regexp.MustCompile(`(?m)^(?:panic: |fatal error: |runtime: goroutine stack exceeds|SIG[A-Z]+: |tilus-lab worker: )(.*)$`)

// obituary explains the end of the worker: ename, evalue and the first lines of a traceback. It waits at most a moment for the exit status.
func (w *worker) obituary() (name, value string, trace []string) {
	select {
	case <-w.waited:
	case <-time.After(2 * time.Second):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why[0] == "memory" {
		return "OutOfMemory", w.why[1], []string{"OutOfMemory: the worker was ended: " + w.why[1]}
	}
	if w.why[0] != "" {
		return "WorkerEnded", w.why[0] + ": " + w.why[1], []string{"WorkerEnded: " + w.why[0] + ": " + w.why[1]}
	}
	text := w.tail.String()
	switch m := crashLine.FindString(text); {
	case strings.Contains(text, "stack exceeds") || strings.Contains(text, "fatal error: stack overflow"):
		name, value = "StackOverflow", "the recursion of the cell has no end: the stack is full"
	case strings.HasPrefix(m, hungLaunch):
		name, value = "LaunchHung", strings.TrimPrefix(m, hungLaunch)
	case strings.Contains(text, "fatal error: runtime: out of memory") || strings.Contains(text, "fatal error: runtime: cannot allocate memory"):
		name, value = "OutOfMemory", "the system gave the worker no more memory"
	case strings.HasPrefix(m, "panic: "):
		name, value = "Panic", "in a goroutine that the cell started: "+strings.TrimSuffix(strings.TrimPrefix(m, "panic: "), " [recovered]")
	case m != "":
		name, value = "WorkerCrashed", m
	case w.state != nil:
		name, value = "WorkerEnded", "the worker process ended: "+w.state.String()
	default:
		name, value = "WorkerEnded", "the worker process ended"
	}
	return name, value, []string{name + ": " + value}
}
