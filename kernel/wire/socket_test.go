package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

// TestLibzmq holds the whole conversation of testdata/libzmq.py with libzmq, over
// tcp and ipc.
func TestLibzmq(t *testing.T) {
	python := need.Jupyter(t)
	for _, transport := range []string{"tcp", "ipc"} {
		t.Run(transport, func(t *testing.T) {
			dir := t.TempDir()
			bind := func(kind Kind, o Options) *Socket {
				endpoint := "tcp://127.0.0.1:0"
				if transport == "ipc" {
					endpoint = "ipc://" + filepath.Join(dir, kind.String())
				}
				o.Log = t.Logf
				s, err := Bind(kind, endpoint, o)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			router := bind(Router, Options{})
			xpub := bind(XPub, Options{Subscribed: func(topic string) [][]byte {
				parts := [][]byte{[]byte("welcome"), []byte(topic)}
				if topic != "" {
					parts = append([][]byte{[]byte(topic)}, parts...)
				}
				return parts
			}})
			rep := bind(Rep, Options{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for r := range router.Received() {
					if first := string(r.Parts[0]); first == "publish" {
						xpub.Publish(r.Parts[1:])
						continue
					}
					parts := append([][]byte{[]byte(r.Peer.Identity())}, r.Parts...)
					if err := router.Send(r.Peer, parts); err != nil {
						t.Log(err)
					}
					if string(r.Parts[0]) == "close" {
						return
					}
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			go func() {
				select {
				case <-ended:
					router.Close(5 * time.Second)
				case <-ctx.Done():
				}
			}()
			out, err := exec.CommandContext(ctx, python, "testdata/libzmq.py", router.Endpoint(), xpub.Endpoint(), rep.Endpoint()).CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "ok" {
				t.Errorf("%v\n%s", err, out)
			}
			for _, s := range []*Socket{router, xpub, rep} {
				s.Close(0)
			}
		})
	}
}

// peer is a ZMTP client made of this package's frames, for what libzmq never sends.
type peer struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, s *Socket) peer {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.Endpoint(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return peer{t, c}
}

// connect makes the handshake as socketType.
func connect(t *testing.T, s *Socket, socketType, identity string) peer {
	t.Helper()
	p := dial(t, s)
	p.Write(greeting())
	p.Write(commandFrame("READY", appendProperty(appendProperty(nil, "Socket-Type", socketType), "identity", identity)))
	g := make([]byte, greetingSize)
	if _, err := io.ReadFull(p, g); err != nil || checkGreeting(g) != nil {
		t.Fatalf("greeting %x: %v", g, err)
	}
	if f := p.frame(); !f.command {
		t.Fatalf("after the greeting: %+v", f)
	}
	return p
}

func (p peer) frame() frame {
	p.t.Helper()
	f, err := readFrame(p, 1<<20)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

func (p peer) send(parts ...string) {
	for i, s := range parts {
		flags := byte(flagMore)
		if i == len(parts)-1 {
			flags = 0
		}
		p.Write(append(appendHead(nil, len(s), flags), s...))
	}
}

func (p peer) wantClosed(what string) {
	p.t.Helper()
	if _, err := io.Copy(io.Discard, p); err != nil && !strings.Contains(err.Error(), "reset") {
		p.t.Errorf("%s: connection not closed: %v", what, err)
	}
}

func bindTest(t *testing.T, kind Kind, o Options) *Socket {
	t.Helper()
	if o.Log == nil {
		o.Log = t.Logf
	}
	s, err := Bind(kind, "tcp://127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(0) })
	return s
}

// TestMalformed sends broken bytes at every stage; each closes its own connection
// and no other.
func TestMalformed(t *testing.T) {
	s := bindTest(t, Router, Options{MaxFrame: 1000, MaxMessage: 1500, Handshake: 2 * time.Second})
	good := connect(t, s, "DEALER", "good")
	long := bytes.Repeat([]byte("x"), 900)
	for name, raw := range map[string][]byte{
		"http":           []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + strings.Repeat("x", 64)),
		"zmtp 2":         append([]byte{0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 1, 0}, make([]byte, 60)...),
		"curve":          append(append(greeting()[:12:12], "CURVE"...), make([]byte, 60)...),
		"silence":        {0xFF},
		"message first":  append(greeting(), 0, 1, 'x'),
		"unnamed":        append(greeting(), flagCommand, 0),
		"not ready":      append(greeting(), commandFrame("HELLO", nil)...),
		"property":       append(greeting(), commandFrame("READY", []byte{200, 'x'})...),
		"property size":  append(greeting(), commandFrame("READY", []byte{1, 'x', 255, 255, 255, 255})...),
		"huge command":   append(greeting(), flagCommand|flagLong, 0, 0, 0, 0, 0, 16, 0, 0),
		"wrong type":     append(greeting(), commandFrame("READY", appendProperty(nil, "Socket-Type", "SUB"))...),
		"no socket type": append(greeting(), commandFrame("READY", nil)...),
	} {
		p := dial(t, s)
		p.Write(raw)
		p.wantClosed(name)
	}
	for name, raw := range map[string][]byte{
		"flags":        {0xF0, 0},
		"more command": {flagCommand | flagMore, 1, 'x'},
		"huge frame":   {flagLong, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
		"big message": append(append(appendHead(nil, 900, flagMore), long...),
			append(appendHead(nil, 900, 0), long...)...),
		"ping":  commandFrame("PING", []byte{0}),
		"error": commandFrame("ERROR", []byte("\x03bad")),
	} {
		p := connect(t, s, "DEALER", name)
		p.Write(raw)
		p.wantClosed(name)
	}
	good.send("a", "", "b")
	select {
	case r := <-s.Received():
		if r.Peer.Identity() != "good" || len(r.Parts) != 3 {
			t.Errorf("received %q from %q", r.Parts, r.Peer.Identity())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the good peer is not served any more")
	}
	good.Write(commandFrame("PING", []byte("\x00\x00ctx")))
	if f := good.frame(); !f.command || string(f.body) != "\x04PONGctx" {
		t.Errorf("answer to PING: %+v", f)
	}
}

// TestSubscribeForms subscribes with messages (ZMTP 3.0) and commands (3.1).
func TestSubscribeForms(t *testing.T) {
	s := bindTest(t, XPub, Options{Subscribed: func(topic string) [][]byte { return [][]byte{[]byte("w:" + topic)} }})
	for name, sub := range map[string][2][]byte{
		"message": {append(appendHead(nil, 3, 0), "\x01ab"...), append(appendHead(nil, 3, 0), "\x00ab"...)},
		"command": {commandFrame("SUBSCRIBE", []byte("ab")), commandFrame("CANCEL", []byte("ab"))},
	} {
		p := connect(t, s, "SUB", "")
		p.Write(sub[0])
		if f := p.frame(); string(f.body) != "w:ab" {
			t.Fatalf("%s: welcome %q", name, f.body)
		}
		// A second equal subscription counts, and is welcomed only once.
		p.Write(sub[0])
		p.Write(sub[1])
		p.Write(commandFrame("PING", []byte{0, 0}))
		p.frame()
		s.Publish([][]byte{[]byte("abc")})
		if f := p.frame(); string(f.body) != "abc" {
			t.Errorf("%s: got %q", name, f.body)
		}
		p.Write(sub[1])
		p.Write(commandFrame("PING", []byte{0, 0}))
		p.frame()
		s.Publish([][]byte{[]byte("abc")})
		p.Write(commandFrame("PING", []byte("\x00\x00end")))
		if f := p.frame(); string(f.body) != "\x04PONGend" {
			t.Errorf("%s: after the last cancel got %q", name, f.body)
		}
		p.Close()
	}
}

// TestQueueBound fills the queue of a peer that does not read: messages are dropped,
// which the log says once until the peer takes some again (the system's own buffers
// take some megabytes when they like), and others are served meanwhile.
func TestQueueBound(t *testing.T) {
	logs := make(chan string, 100)
	s := bindTest(t, XPub, Options{QueueLen: 10, Log: func(f string, a ...any) { logs <- f }})
	sub := func() peer {
		p := connect(t, s, "SUB", "")
		p.Write(commandFrame("SUBSCRIBE", nil))
		p.Write(commandFrame("PING", []byte{0, 0}))
		p.frame()
		return p
	}
	sub().Conn.(*net.TCPConn).SetReadBuffer(1 << 16) // never reads again
	reader := sub()
	body := bytes.Repeat([]byte("x"), 1<<20)
	for range 60 {
		s.Publish([][]byte{body})
		if f := reader.frame(); len(f.body) != len(body) {
			t.Fatalf("got %d bytes", len(f.body))
		}
	}
	want := []string{"dropping", "reads again"}
	if len(logs)%2 == 0 {
		t.Errorf("%d log lines; the last must say that messages are dropped", len(logs))
	}
	for i := range len(logs) {
		if line := <-logs; !strings.Contains(line, want[i%2]) {
			t.Errorf("line %d is %q, want %q", i+1, line, want[i%2])
		}
	}
}

func TestBindErrors(t *testing.T) {
	for _, endpoint := range []string{"", "udp://127.0.0.1:1", "127.0.0.1:0", "ipc://", "tcp://nowhere.invalid:99999"} {
		if s, err := Bind(Router, endpoint, Options{}); err == nil {
			s.Close(0)
			t.Errorf("Bind(%q) succeeded", endpoint)
		}
	}
	path := "ipc://" + filepath.Join(t.TempDir(), "s")
	a, err := Bind(Router, path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close(0)
	if b, err := Bind(Router, path, Options{}); err == nil {
		b.Close(0)
		t.Error("a live ipc socket was taken over")
	}
}
