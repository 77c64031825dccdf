// Package web is the explorer: a server on a loopback port with embedded
// assets, whose page shows panes (web/pane) over a websocket and notebooks
// through kernel/session.
//
// Who may use it. Everything but pictures of plain notation needs a cookie,
// which a browser gets by opening the address that holds a one-time start token,
// or by a password. The cookie stands for a role: who views sees everything, who
// runs may also run cells and devices and change notebooks. Beyond this machine
// the role is view unless the owner says otherwise, and passwords and the role run
// need TLS. Requests must name a known host and, where they can change anything,
// come from the page itself (Origin). A link can make the server draw, which is
// bounded; it can never make it run a cell, a device or read a file. A notebook that came
// from elsewhere runs nothing until a person has trusted its code.
package web

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/session"
	"github.com/tilus-lab/tilus-lab/web/answer"
)

// DefaultPort is where the explorer listens when nothing else is asked for.
const DefaultPort = 7717

// GCPercent suits the explorer: what drawings leave behind dies young, and the
// heap that lives is small.
const GCPercent = 200

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

	Role      Role       // of who comes with the start token; empty means run on loopback and view beyond it
	Passwords []Password // that let people in who have no token
	Hosts     []string   // more names, with or without port, under which browsers reach this server
	TLSCert   string     // file of the certificate chain; empty for plain HTTP
	TLSKey    string     // file of its key

	StaticBase string // address of a static build, which links for others begin with; empty for none

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
	var secure *tls.Config
	if o.TLSCert != "" { // read before an address is told
		cert, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
		if err != nil {
			return fmt.Errorf("web: --tls-cert %s and --tls-key %s: %w", o.TLSCert, o.TLSKey, err)
		}
		secure = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
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

	// The time-outs are of single requests; websockets have their own.
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 2 * maxDraw,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, ErrorLog: log.New(o.logTo(), "web: ", 0), ConnState: s.limitConns, TLSConfig: secure}
	failed := make(chan error, 1)
	go func() {
		if secure != nil {
			failed <- srv.ServeTLS(ln, "", "")
		} else {
			failed <- srv.Serve(ln)
		}
	}()
	if o.Ready != nil {
		o.Ready(s.address(true))
	}
	select {
	case err := <-failed:
		return fmt.Errorf("web: %w", err)
	case <-ctx.Done():
	}
	// Requests that are being answered get a moment to end, pages a word of goodbye.
	s.hangUp()
	stop, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		srv.Close()
	}
	s.conns.wait(stop)
	return nil
}

// maxHTTP is how many connections are open at a time that are no websockets.
const maxHTTP = 1024

// limitConns closes connections beyond the limit at once.
func (s *server) limitConns(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.open.Add(1) > maxHTTP {
			c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

func (o Options) logTo() io.Writer {
	if o.Log == nil {
		return io.Discard
	}
	return o.Log
}

// tell writes to the log what a pane did wrong inside.
func (s *server) tell(err error) {
	var p *answer.Panic
	if errors.As(err, &p) {
		fmt.Fprintf(s.opt.Log, "web: %v\n%s\n", p, p.Stack)
	}
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
	cookie string // name of the cookie

	secrets map[Role]string // values of the cookie
	tries   tries
	open    atomic.Int64 // connections that are no websockets

	mu     sync.Mutex
	tokens map[string]time.Time // start tokens not used yet

	draw   drawer
	single chan struct{} // held while a single picture is drawn
	alone  chan struct{} // share of single pictures in drawings
	runs   chan struct{} // held while a program runs on a device
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
	o.Log = o.logTo()
	if o.Role == "" {
		o.Role = RoleView
		if isLoopback(o.Addr) {
			o.Role = RoleRun
		}
	}
	s := &server{opt: o, secrets: map[Role]string{RoleView: random(), RoleRun: random()}, tokens: map[string]time.Time{}}
	s.tries.busy = make(chan struct{}, 1)
	s.draw.init(max(2, runtime.NumCPU()))
	s.single = make(chan struct{}, s.draw.share())
	s.alone = make(chan struct{}, s.draw.share())
	s.runs = make(chan struct{}, maxRuns)
	s.vars.changed = s.conns.varsChanged
	if o.Root != "" {
		abs, err := filepath.Abs(o.Root)
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		if s.books, err = openBooks(abs, o.DataDir, o.Worker, &s.vars); err != nil {
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
	if err := s.guarded(); err != nil {
		s.close()
		return nil, err
	}
	s.setPort(o.Port)
	return s, nil
}

// setPort fixes what depends on the port: allowed hosts, cookie name, routes.
func (s *server) setPort(port int) {
	s.opt.Port = port
	p := strconv.Itoa(port)
	s.hosts = map[string]bool{}
	names := []string{"127.0.0.1", "localhost", "::1", s.opt.Addr}
	if ip := net.ParseIP(s.opt.Addr); ip != nil && ip.IsUnspecified() {
		names = append(names, ownHosts()...)
	}
	for _, h := range names {
		s.hosts[net.JoinHostPort(h, p)] = true
		if port == 80 || port == 443 {
			s.hosts[h] = true // browsers leave out the usual port
		}
	}
	for _, h := range s.opt.Hosts {
		s.hosts[h] = true
		if _, _, err := net.SplitHostPort(h); err != nil {
			s.hosts[net.JoinHostPort(h, p)] = true
		}
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
	host := s.opt.Addr
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if own := ownHosts(); len(own) > 0 {
			host = own[0]
		}
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, strconv.Itoa(s.opt.Port)), Path: s.prefix}
	if s.opt.TLSCert != "" {
		u.Scheme = "https"
	}
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
