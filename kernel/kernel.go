// Package kernel is the Jupyter kernel: the process that a front end starts from the
// kernelspec, with a connection file as its argument.
//
// It is the supervisor half of a notebook. It speaks the Jupyter protocol on five
// sockets (kernel/wire) and hands cells to a worker process (kernel/session), where
// the interpreter, the values and the devices live; so a cell can crash, exit or run
// away, and this process still answers. What a front end sees is decided here: which
// message is busy and idle around which request, in which order output is published,
// and what is cut, dropped or aborted.
//
//	shell ──┬─ execute, comm messages ──> queue ──> one executor ──> Engine.Execute ──> output ──> iopub
//	        ├─ complete, inspect, is_complete, history ──> one goroutine, also while a cell runs
//	control ┼─ kernel_info, interrupt, shutdown ──> at once
//	        ├─ subshells: an executor each, beside the main one (subshell.go)
//	        └─ debug ──> one goroutine, also while a cell stands still at a breakpoint
//	stdin ──── input_reply ──> the cell that asked
//	hb ─────── echoed inside kernel/wire
//
// Source: "Messaging in Jupyter" 5.5; JEP 65 (iopub welcome); JEP 91 (subshells).
package kernel

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
	"github.com/tilus-lab/tilus-lab/kernel/wire"
)

// ProtocolVersion is the version of the Jupyter protocol that messages declare.
const ProtocolVersion = "5.5"

// Engine is what the kernel needs of a session; *session.Session is one.
type Engine interface {
	Execute(ctx context.Context, req session.Request, sink func(proto.Event)) (session.Reply, error)
	Comm(ctx context.Context, msg proto.Comm, sink func(proto.Event)) (session.Reply, error)
	CommBeside(ctx context.Context, msg proto.Comm, sink func(proto.Event)) (session.Reply, error)
	Replay(ctx context.Context, sink func(proto.Event)) (session.Reply, error)
	Journal() []session.Entry
	Restart() error
	Interrupt()
	Complete(code string, cursor int) (proto.Completed, error)
	Inspect(code string, cursor int) (proto.Inspected, error)
	IsComplete(code string) (proto.Completeness, error)
	Debug(ctx context.Context, request json.RawMessage) (json.RawMessage, error)
	Subscribe(f func(proto.Event)) (cancel func())
	Close() error
}

// Options says how a kernel runs its cells.
type Options struct {
	Exe     []string  // command line of the worker, for example {"/usr/bin/tilus-lab", "worker"}
	Dir     string    // working directory of cells; empty for the current one
	Env     []string  // added to the worker's environment
	Version string    // of the program, shown by front ends
	Log     io.Writer // the kernel's log, never shown in a notebook; nil for standard error

	// Explorer is the path of the explorer's socket (link.SocketPath). Variables and
	// lab.Explore values go there while somebody listens; empty means nowhere.
	Explorer string

	// Start makes the engine; nil starts a session from the fields above. It is called
	// again if it failed.
	Start func() (Engine, error)
}

// Kernel is one running kernel.
type Kernel struct {
	opts   Options
	conn   Connection
	signer *wire.Signer
	id     string // session of our headers, and in topics

	shell, control, stdin, iopub, hb *wire.Socket

	done     chan struct{} // closed when the kernel ends
	stopOnce sync.Once

	engineMu sync.Mutex
	engine   Engine

	comms   comms
	main    shell
	subs    subshells
	side    chan request
	debug   chan request
	history history
	prompt  prompt

	logMu sync.Mutex
	seqMu sync.Mutex
	seq   int64

	// statusMu orders the busy and idle messages of cells and of requests answered
	// beside them, and guards the running cells of shells.
	statusMu sync.Mutex
	count    int
}

// Connection is the content of a connection file.
type Connection struct {
	Transport       string `json:"transport"`
	IP              string `json:"ip"`
	ShellPort       int    `json:"shell_port"`
	IOPubPort       int    `json:"iopub_port"`
	StdinPort       int    `json:"stdin_port"`
	ControlPort     int    `json:"control_port"`
	HBPort          int    `json:"hb_port"`
	Key             string `json:"key"`
	SignatureScheme string `json:"signature_scheme"`
	KernelName      string `json:"kernel_name,omitempty"`
}

// maxConnection is the largest connection file, in bytes; front ends write some 300.
const maxConnection = 64 << 10

// ReadConnection reads a connection file of at most 64 KiB.
func ReadConnection(path string) (Connection, error) {
	var c Connection
	f, err := os.Open(path)
	if err != nil {
		return c, fmt.Errorf("kernel: connection file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConnection+1))
	switch {
	case err != nil:
		return c, fmt.Errorf("kernel: connection file: %w", err)
	case len(data) > maxConnection:
		return c, fmt.Errorf("kernel: %s has more than %d bytes and is no connection file; give the one that Jupyter writes for the kernel", path, maxConnection)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("kernel: connection file %s: %w", path, err)
	}
	if c.Transport == "" {
		c.Transport = "tcp"
	}
	if c.IP == "" && c.Transport == "tcp" {
		c.IP = "127.0.0.1"
	}
	return c, nil
}

// Run serves the kernel of a connection file until a shutdown request, SIGTERM or the
// end of ctx, which are no errors. Ports that are 0 in the file are picked and written
// back. SIGINT interrupts the running cell.
func Run(ctx context.Context, connectionFile string, opts Options) error {
	c, err := ReadConnection(connectionFile)
	if err != nil {
		return err
	}
	k, err := bind(c, opts)
	if err != nil {
		return err
	}
	if k.conn != c {
		data, err := json.MarshalIndent(k.conn, "", "  ")
		if err == nil {
			err = os.WriteFile(connectionFile, data, 0o600)
		}
		if err != nil {
			k.close()
			return fmt.Errorf("kernel: connection file: %w", err)
		}
	}
	return k.run(ctx)
}

// bind opens the five sockets. Nobody is answered before run.
func bind(c Connection, opts Options) (*Kernel, error) {
	if opts.Log == nil {
		opts.Log = os.Stderr
	}
	signer, err := wire.NewSigner(c.SignatureScheme, c.Key)
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	k := &Kernel{
		opts: opts, conn: c, signer: signer, id: newID(),
		done: make(chan struct{}), side: make(chan request, 1024), debug: make(chan request, 1024),
	}
	k.main.queue.init()
	for _, ch := range []struct {
		socket **wire.Socket
		kind   wire.Kind
		port   *int
		opts   wire.Options
	}{
		{&k.hb, wire.Rep, &k.conn.HBPort, wire.Options{}},
		{&k.iopub, wire.XPub, &k.conn.IOPubPort, wire.Options{Subscribed: k.welcome}},
		{&k.stdin, wire.Router, &k.conn.StdinPort, wire.Options{}},
		{&k.control, wire.Router, &k.conn.ControlPort, wire.Options{}},
		{&k.shell, wire.Router, &k.conn.ShellPort, wire.Options{}},
	} {
		ch.opts.Log = k.logf
		*ch.socket, *ch.port, err = listen(ch.kind, c, *ch.port, ch.opts)
		if err != nil {
			k.close()
			return nil, fmt.Errorf("kernel: %w", err)
		}
	}
	return k, nil
}

// listen binds one channel. For ipc a port is a suffix of the path, and 0 stands for
// the first suffix that is free.
func listen(kind wire.Kind, c Connection, port int, o wire.Options) (*wire.Socket, int, error) {
	if c.Transport != "ipc" {
		s, err := wire.Bind(kind, c.Transport+"://"+net.JoinHostPort(c.IP, strconv.Itoa(port)), o)
		if err != nil || port != 0 {
			return s, port, err
		}
		_, p, err := net.SplitHostPort(strings.TrimPrefix(s.Endpoint(), "tcp://"))
		if err == nil {
			port, err = strconv.Atoi(p)
		}
		return s, port, err
	}
	first, last := port, port
	if port == 0 {
		first, last = 1, 64
	}
	var err error
	for p := first; p <= last; p++ {
		var s *wire.Socket
		if s, err = wire.Bind(kind, "ipc://"+c.IP+"-"+strconv.Itoa(p), o); err == nil {
			return s, p, nil
		}
	}
	return nil, 0, err
}

// run serves until the kernel ends.
func (k *Kernel) run(ctx context.Context) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)

	go func() {
		// Started early, so that the first cell does not wait for it. An error is shown by
		// the cell that needs the engine.
		if _, err := k.startEngine(); err != nil {
			k.logf("%v", err)
		}
	}()
	var loops sync.WaitGroup
	for _, loop := range []func(){
		func() { k.receive(k.shell) }, func() { k.receive(k.control) }, k.receiveInput, func() { k.executor(&k.main) }, k.beside, k.debugger,
	} {
		loops.Go(loop)
	}
	parent := time.NewTicker(time.Second)
	defer parent.Stop()
	ppid := os.Getppid()
	watch := os.Getenv("JPY_PARENT_PID") != ""
	for running := true; running; {
		select {
		case <-k.done:
			running = false
		case <-ctx.Done():
			running = false
		case s := <-signals:
			if s == os.Interrupt {
				k.interrupt()
			} else {
				running = false
			}
		case <-parent.C:
			// jupyter_client sets the variable for kernels that must not outlive it.
			if watch && os.Getppid() != ppid {
				k.logf("the process that started this kernel has ended")
				running = false
			}
		}
	}
	k.close()
	ended := make(chan struct{})
	go func() {
		loops.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(200 * time.Millisecond):
	}
	return nil
}

// stop asks run to end.
func (k *Kernel) stop() { k.stopOnce.Do(func() { close(k.done) }) }

// close ends worker and sockets together, within half a second.
func (k *Kernel) close() {
	k.stop()
	k.statusMu.Lock()
	for _, s := range append(k.subs.all(), &k.main) {
		if s.cell != nil {
			s.cell.cancel()
		}
	}
	k.statusMu.Unlock()
	var all sync.WaitGroup
	for _, s := range []*wire.Socket{k.shell, k.control, k.stdin, k.iopub, k.hb} {
		if s != nil {
			all.Go(func() { s.Close(200 * time.Millisecond) })
		}
	}
	all.Go(func() {
		// A start in progress holds the lock; the worker it makes dies with this process.
		if k.engineMu.TryLock() {
			defer k.engineMu.Unlock()
			if k.engine != nil {
				k.engine.Close()
			}
		}
	})
	ended := make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(450 * time.Millisecond):
	}
}

// startEngine returns the engine, and makes it if there is none yet.
func (k *Kernel) startEngine() (Engine, error) {
	k.engineMu.Lock()
	defer k.engineMu.Unlock()
	if k.engine != nil {
		return k.engine, nil
	}
	select {
	case <-k.done:
		return nil, errors.New("kernel: it is shutting down")
	default:
	}
	start := k.opts.Start
	if start == nil {
		start = k.startSession
	}
	e, err := start()
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	k.engine = e
	e.Subscribe(k.debugEvent)
	return e, nil
}

func (k *Kernel) startSession() (Engine, error) {
	s, err := session.Start(session.Options{Exe: k.opts.Exe, Dir: k.opts.Dir, Env: k.opts.Env, Log: k.opts.Log})
	if err != nil {
		return nil, err
	}
	if k.opts.Explorer != "" {
		k.explore(s)
	}
	return s, nil
}

// interrupt ends the running cell of the main shell: its printed backlog is thrown
// away, a question to the user is withdrawn. The first interrupt cancels; later ones of
// the same cell go to the engine, which may give up on the worker. Where the main shell
// is idle, the cells of subshells are cancelled, which nothing else could.
func (k *Kernel) interrupt() {
	k.statusMu.Lock()
	c := k.main.cell
	if c == nil {
		for _, s := range k.subs.all() {
			if s.cell != nil {
				s.cell.out.dropStreams()
				s.cell.cancel()
			}
		}
	}
	k.statusMu.Unlock()
	if c == nil {
		return
	}
	c.out.dropStreams()
	if c.ctx.Err() == nil {
		c.cancel()
		return
	}
	k.engineMu.Lock()
	e := k.engine
	k.engineMu.Unlock()
	if e != nil {
		// Its pipe may be full, and nobody may wait for it here.
		go e.Interrupt()
	}
}

// request is one message with the way back.
type request struct {
	msg  *wire.Message
	peer *wire.Peer
	sock *wire.Socket
}

// publish sends a message on iopub. parent is the header of the request that it
// belongs to, nil for none.
func (k *Kernel) publish(msgType string, parent json.RawMessage, content any) {
	k.publishWith(msgType, parent, nil, content, nil)
}

// publishWith is publish with metadata and buffers, which follow the signed parts.
func (k *Kernel) publishWith(msgType string, parent json.RawMessage, metadata map[string]any, content any, buffers [][]byte) {
	k.emit(msgType, parent, metadata, content, func(parts [][]byte) {
		parts = append([][]byte{[]byte("kernel." + k.id + "." + msgType)}, parts...)
		k.iopub.Publish(append(parts, buffers...))
	})
}

// reply answers a request on the socket it came from.
func (k *Kernel) reply(r request, msgType string, content any) {
	k.replyMeta(r, msgType, nil, content)
}

func (k *Kernel) replyMeta(r request, msgType string, metadata map[string]any, content any) {
	k.emit(msgType, r.msg.RawHeader, metadata, content, func(parts [][]byte) {
		err := r.sock.Send(r.peer, parts)
		select {
		case <-k.done: // the front end that stopped us need not wait for what still ran
		default:
			if err != nil {
				k.logf("%s: %v", msgType, err)
			}
		}
	})
}

// emit encodes and signs a message and hands its parts to send. It returns the ID of
// the message.
func (k *Kernel) emit(msgType string, parent json.RawMessage, metadata map[string]any, content any, send func([][]byte)) string {
	m := &wire.Message{Parent: parent, Header: wire.Header{
		MsgID: k.nextID(), Session: k.id, Username: "kernel", MsgType: msgType, Version: ProtocolVersion,
		Date: time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"),
	}}
	var err error
	if m.Content, err = encode(content); err == nil && len(metadata) > 0 {
		m.Metadata, err = encode(metadata)
	}
	var parts [][]byte
	if err == nil {
		parts, err = k.signer.Parts(m)
	}
	if err != nil {
		k.logf("%s not sent: %v", msgType, err)
		return ""
	}
	send(parts)
	return m.Header.MsgID
}

// encode is json.Marshal without escaping HTML, which would grow SVG by a half.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// welcome is the first message to a new subscriber (JEP 65): from now on it sees
// everything.
func (k *Kernel) welcome(topic string) [][]byte {
	var out [][]byte
	k.emit("iopub_welcome", nil, nil, map[string]any{"subscription": topic}, func(parts [][]byte) {
		if topic != "" {
			out = append(out, []byte(topic))
		}
		out = append(out, parts...)
	})
	return out
}

func (k *Kernel) nextID() string {
	k.seqMu.Lock()
	defer k.seqMu.Unlock()
	k.seq++
	return k.id + "_" + strconv.FormatInt(k.seq, 10)
}

func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (k *Kernel) logf(format string, args ...any) {
	k.logMu.Lock()
	defer k.logMu.Unlock()
	fmt.Fprintf(k.opts.Log, time.Now().Format("15:04:05.000")+" tilus-lab kernel: "+format+"\n", args...)
}

// guard runs one handler. A panic in it is a bug of ours, but must not take the
// notebook with it.
func (k *Kernel) guard(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			k.logf("%s: panic: %v\n%s", what, p, debug.Stack())
		}
	}()
	f()
}
