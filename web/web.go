// Package web is the explorer: a server on a loopback port with embedded
// assets, whose page shows panes (web/pane) over a websocket and notebooks
// through kernel/session.
//
// Who may use it. Everything but pictures of plain notation needs a cookie,
// which a browser gets by opening the address that holds a one-time start token.
// Requests must name a known host and, where they can change anything, come from
// the page itself (Origin). A link can make the server draw; it can never make
// it run a cell, a device or read a file.
package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/session"
)

// DefaultPort is where the explorer listens when nothing else is asked for.
const DefaultPort = 7717

// Device is one machine that programs can run on.
type Device struct {
	Name   string `json:"name"`   // "interp", "sim", "cuda:0"
	Detail string `json:"detail"` // for people: "NVIDIA H200, driver 570"
}

// RunRequest asks for one run of a program.
type RunRequest struct {
	Program string   `json:"program"` // program text
	Args    []string `json:"args"`    // generators such as "rand:f16[64, 32]:seed=1"; one for each parameter
	Device  string   `json:"device"`  // "auto" or the name of a device
}

// RunResult is how it went. Text is for people.
type RunResult struct {
	Device string `json:"device"`
	Text   string `json:"text"`
}

// Backend reaches devices. It is given by the command, because web may not
// import them; the usual one asks a worker process.
type Backend interface {
	Devices(ctx context.Context) ([]Device, error)
	Run(ctx context.Context, r RunRequest) (RunResult, error)
}

// Options say how to serve.
type Options struct {
	Addr    string // address to listen on; empty means 127.0.0.1
	Port    int    // 0 means DefaultPort, -1 any free port
	BaseURL string // address under which a proxy shows this server, for example https://host/user/proxy/7717/; empty for none
	DataDir string // holds the socket; empty means link.DataDir()
	Root    string // folder of notebooks; empty for none
	Worker  session.Options
	Backend Backend // nil where no devices can be reached

	Sample RunRequest // what the Run door opens with; Program empty for no door

	Log   io.Writer          // requests that were refused, and failures; nil to drop
	Ready func(start string) // called once with the address that holds the start token
}

// Serve runs the explorer until ctx ends, then closes connections and sessions.
// It fails when the port is taken or the data directory cannot be written.
func Serve(ctx context.Context, o Options) error {
	s, err := newServer(o)
	if err != nil {
		return err
	}
	defer s.close()
	addr := net.JoinHostPort(s.opt.Addr, strconv.Itoa(s.opt.Port))
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("web: cannot listen on %s: %w; choose another port with --port", addr, err)
	}
	defer ln.Close()
	s.setPort(ln.Addr().(*net.TCPAddr).Port)
	l, err := link.Listen(link.SocketPath(s.opt.DataDir), s.vars.receive, s.address)
	if err != nil {
		return fmt.Errorf("web: data directory %s: %w", s.opt.DataDir, err)
	}
	defer l.Close()

	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	if o.Ready != nil {
		o.Ready(s.address(true))
	}
	select {
	case err := <-failed:
		return fmt.Errorf("web: %w", err)
	case <-ctx.Done():
	}
	s.hangUp()
	stop, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		srv.Close()
	}
	return nil
}

// SocketPath is where kernels reach the explorer of a data directory.
func SocketPath(dataDir string) string { return link.SocketPath(dataDir) }

// Running returns an address, with a start token, of the explorer that already
// serves a data directory.
func Running(dataDir string) (start string, ok bool) { return link.Running(dataDir, true) }

// server holds what requests share.
type server struct {
	opt    Options
	base   *url.URL // public address
	prefix string   // path under which everything lies, ends in "/"
	hosts  map[string]bool
	secret string // value of the cookie
	cookie string // its name

	mu     sync.Mutex
	tokens map[string]time.Time // start tokens not used yet

	draw   drawer
	single chan struct{} // held while a single picture is drawn
	vars   vars
	books  *books
	conns  conns
	mux    *http.ServeMux
}

func newServer(o Options) (*server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1"
	}
	switch {
	case o.Port == 0:
		o.Port = DefaultPort
	case o.Port < 0:
		o.Port = 0
	}
	if o.DataDir == "" {
		d, err := link.DataDir()
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		o.DataDir = d
	}
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("web: data directory: %w", err)
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	s := &server{opt: o, secret: random(), tokens: map[string]time.Time{}}
	s.draw.init(runtime.NumCPU())
	s.single = make(chan struct{}, max(1, runtime.NumCPU()/2))
	s.vars.changed = s.conns.varsChanged
	if o.Root != "" {
		abs, err := filepath.Abs(o.Root)
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		if s.books, err = openBooks(abs, o.Worker, &s.vars); err != nil {
			return nil, err
		}
	}
	if o.BaseURL != "" {
		u, err := url.Parse(o.BaseURL)
		if err != nil || u.Host == "" && !strings.HasPrefix(u.Path, "/") {
			s.close()
			return nil, fmt.Errorf("web: base URL %q is neither an address nor a path that begins with /", o.BaseURL)
		}
		s.base = u
	}
	s.setPort(o.Port)
	return s, nil
}

// setPort fixes what depends on the port: allowed hosts, cookie name, routes.
func (s *server) setPort(port int) {
	s.opt.Port = port
	p := strconv.Itoa(port)
	s.hosts = map[string]bool{}
	for _, h := range []string{"127.0.0.1", "localhost", "::1", s.opt.Addr} {
		s.hosts[net.JoinHostPort(h, p)] = true
	}
	s.prefix = "/"
	if s.base != nil {
		s.prefix = "/" + strings.Trim(s.base.Path, "/")
		if s.prefix != "/" {
			s.prefix += "/"
		}
		if s.base.Host != "" {
			s.hosts[s.base.Host] = true
		}
	}
	// Cookies do not tell ports apart, so the name does.
	s.cookie = "tilus_lab_" + p
	s.routes()
}

func (s *server) close() {
	s.hangUp()
	if s.books != nil {
		s.books.close()
	}
}

func (s *server) hangUp() { s.conns.closeAll() }

// random is 128 random bits.
func random() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// address is the public address of the page, with a new start token if fresh.
func (s *server) address(fresh bool) string {
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(s.opt.Addr, strconv.Itoa(s.opt.Port)), Path: s.prefix}
	if s.base != nil && s.base.Host != "" {
		u.Scheme, u.Host = s.base.Scheme, s.base.Host
	}
	if fresh {
		u.RawQuery = "token=" + s.token()
	}
	return u.String()
}

// Limits of start tokens.
const (
	maxTokens = 32
	tokenLife = 24 * time.Hour
)

func (s *server) token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := ""
	for t, at := range s.tokens {
		if time.Since(at) > tokenLife {
			delete(s.tokens, t)
		} else if oldest == "" || at.Before(s.tokens[oldest]) {
			oldest = t
		}
	}
	if len(s.tokens) >= maxTokens {
		delete(s.tokens, oldest)
	}
	t := random()
	s.tokens[t] = time.Now()
	return t
}

// spend uses a start token up.
func (s *server) spend(t string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.tokens[t]
	delete(s.tokens, t)
	return ok && time.Since(at) <= tokenLife
}

// errNoBooks says why there are no notebooks.
var errNoBooks = errors.New("this explorer was started without a folder of notebooks")
