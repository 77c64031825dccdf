// Package link is how notebooks and the explorer find each other. The explorer
// listens on a Unix socket in the data directory that only its user may open;
// each Jupyter kernel connects to it and says which variables it has. A message
// is one line of JSON.
//
// A second use of the same socket is to ask for the explorer's address: the
// socket's file permissions prove that the asker is the same user, so the answer
// may carry a start token.
package link

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Version is the message version. Newer fields are ignored by older readers.
const Version = 1

// MaxLine is the largest message in bytes.
const MaxLine = 4 << 20

// maxConns bounds how many kernels one explorer listens to.
const maxConns = 128

// ErrMessage is wrapped by every error about a line that is no message.
var ErrMessage = errors.New("link: bad message")

// Var is a variable that a pane can be bound to.
type Var struct {
	Name string `json:"name"`
	Type string `json:"type"`           // Go type
	Form string `json:"form,omitempty"` // "layout", "program", "type", "array", or empty when no pane can show it
	Text string `json:"text,omitempty"` // canonical text of a layout or program

	Fresh bool `json:"-"` // the last cell set it
}

// Explore asks the page to show a value now.
type Explore struct {
	Name string `json:"name,omitempty"` // variable it came from
	Form string `json:"form"`
	Text string `json:"text"`
}

// Message is one line. Op "state" says what a session has: Vars replaces all it
// said before. Op "explore" asks to show a value and leaves Vars alone. Op "url" asks for the explorer's address, which comes back as a
// message with URL set: Fresh asks for one that carries a start token.
type Message struct {
	V       int      `json:"v"`
	Op      string   `json:"op"`
	Session string   `json:"session,omitempty"`
	Title   string   `json:"title,omitempty"` // for people: name of the notebook
	Vars    []Var    `json:"vars,omitempty"`
	Explore *Explore `json:"explore,omitempty"`
	Fresh   bool     `json:"fresh,omitempty"`
	URL     string   `json:"url,omitempty"`
	Gone    bool     `json:"gone,omitempty"` // made by the listener: the session's connection ended
}

// Decode reads one line.
func Decode(line []byte) (Message, error) {
	var m Message
	if len(line) > MaxLine {
		return m, fmt.Errorf("%w: %d bytes; the limit is %d", ErrMessage, len(line), MaxLine)
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return Message{}, fmt.Errorf("%w: %v", ErrMessage, err)
	}
	if m.V < 1 {
		return Message{}, fmt.Errorf("%w: no version", ErrMessage)
	}
	if m.Gone {
		return Message{}, fmt.Errorf("%w: gone is not for senders", ErrMessage)
	}
	if len(m.Session) > 200 || len(m.Title) > 1000 {
		return Message{}, fmt.Errorf("%w: session or title too long", ErrMessage)
	}
	return m, nil
}

// DataDir is where Tilus Lab keeps its state for this user: $TILUS_LAB_DATA, or
// tilus-lab in $XDG_DATA_HOME, or in ~/.local/share.
func DataDir() (string, error) {
	if d := os.Getenv("TILUS_LAB_DATA"); d != "" {
		return d, nil
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "tilus-lab"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("link: no data directory: %w", err)
	}
	return filepath.Join(home, ".local", "share", "tilus-lab"), nil
}

// SocketPath is the explorer's socket in a data directory.
func SocketPath(dataDir string) string { return filepath.Join(dataDir, "explorer.sock") }

// Link leads to a value in the explorer. Name is for people: a variable, or the
// text of a value that no variable holds.
type Link struct {
	Name  string `json:"name"`
	Query string `json:"query"`
}

// Links are the addresses of values that a cell of a session has shown. The one of
// a value that a variable holds is bound to the variable, best one that is fresh, and follows it.
func Links(session string, shown []Explore, vars []Var) []Link {
	var out []Link
	for _, x := range shown {
		l := Link{x.Text, Query(x.Form, x.Text)}
		bound := false
		for _, v := range vars {
			if v.Form == x.Form && v.Text == x.Text && (!bound || v.Fresh) {
				l, bound = Link{v.Name, Query(v.Form, "$"+v.Name+"@"+session)}, true
			}
		}
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// Query is the part of an explorer address that shows a value of a form: a text,
// or a variable as "$name@session". It goes behind the address that Running
// gives: http://127.0.0.1:7717/?v=1&p=layout&e=local%282%29
func Query(form, text string) string {
	pane, param := "see", "x"
	switch form {
	case "view": // "i6 local(2, 1).spatial(8, 4)"
		name, chain, _ := strings.Cut(text, " ")
		kind := "int"
		if strings.HasPrefix(name, "u") {
			kind = "uint"
		}
		return "?v=1&p=reinterpret&w=" + strings.TrimLeft(name, "iu") + "&k=" + kind + "&e=" + url.QueryEscape(chain)
	case "layout":
		pane, param = "layout", "e"
	case "program":
		pane, param = "program", "src"
	}
	return "?v=1&p=" + pane + "&" + param + "=" + url.QueryEscape(text)
}

// Client is a kernel's connection to the explorer. Its methods are safe for
// concurrent use.
type Client struct {
	mu   sync.Mutex
	conn net.Conn
}

// Dial connects to the explorer. It fails at once when none runs.
func Dial(path string) (*Client, error) {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	return &Client{conn: conn}, nil
}

// Send sends one message; V is filled in. After an error the client is of no
// more use.
func (c *Client) Send(m Message) error {
	m.V = Version
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("link: %w", err)
	}
	if len(line) > MaxLine {
		return fmt.Errorf("link: message of %d bytes; the limit is %d", len(line), MaxLine)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A stuck explorer must not stop a notebook.
	if err := c.conn.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	return nil
}

// Lost is closed when the connection has ended, also when nothing is sent on it.
// It may be called once.
func (c *Client) Lost() <-chan struct{} {
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		io.Copy(io.Discard, c.conn)
	}()
	return lost
}

// Close ends the connection; the explorer forgets the session's variables.
func (c *Client) Close() error { return c.conn.Close() }

// Running asks the explorer of a data directory for its address. With fresh the
// address carries a one-time start token, for a browser that is about to open
// it. It reports false when no explorer runs.
func Running(dataDir string, fresh bool) (url string, ok bool) {
	c, err := Dial(SocketPath(dataDir))
	if err != nil {
		return "", false
	}
	defer c.Close()
	if c.Send(Message{Op: "url", Fresh: fresh}) != nil {
		return "", false
	}
	c.conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	line, err := bufio.NewReader(io.LimitReader(c.conn, 1<<16)).ReadBytes('\n')
	if err != nil {
		return "", false
	}
	m, err := Decode(line)
	return m.URL, err == nil && m.URL != ""
}

// Listener is the explorer's end of the socket.
type Listener struct {
	ln      net.Listener
	handle  func(Message)
	url     func(fresh bool) string
	mu      sync.Mutex
	conns   map[net.Conn]bool
	closing bool
	wg      sync.WaitGroup

	telling sync.Mutex
	newest  map[string]int // number of the newest connection of each session
}

// Listen makes the socket, with permissions 0600, and calls handle for each
// message of each session until Close, one at a time; a message with Gone set ends a
// session. url answers address questions. A
// socket file that nobody listens on any more is replaced.
func Listen(path string, handle func(Message), url func(fresh bool) string) (*Listener, error) {
	if c, err := Dial(path); err == nil {
		c.Close()
		return nil, fmt.Errorf("link: another explorer listens on %s", path)
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSocket != 0 {
		os.Remove(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	ln, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	l := &Listener{ln: ln, handle: handle, url: url, conns: map[net.Conn]bool{}, newest: map[string]int{}}
	l.wg.Add(1)
	go l.accept()
	return l, nil
}

// listen makes the socket in a directory of its own that only this user may
// enter and then moves it to its place, so that it is never open to others.
func listen(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", made)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		ln.Close()
		return nil, err
	}
	return &pathListener{ln, path}, nil
}

// pathListener removes the socket from its final place.
type pathListener struct {
	net.Listener
	path string
}

func (p *pathListener) Close() error {
	os.Remove(p.path)
	return p.Listener.Close()
}

// Close stops listening, ends all connections and waits for them.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closing = true
	for c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	err := l.ln.Close()
	l.wg.Wait()
	return err
}

func (l *Listener) accept() {
	defer l.wg.Done()
	for n := 1; ; n++ {
		conn, err := l.ln.Accept()
		if err != nil {
			return
		}
		l.mu.Lock()
		if l.closing || len(l.conns) >= maxConns {
			conn.Close()
		} else {
			l.conns[conn] = true
			l.wg.Add(1)
			go l.serve(conn, n)
		}
		l.mu.Unlock()
	}
}

func (l *Listener) serve(conn net.Conn, n int) {
	defer l.wg.Done()
	session := ""
	defer func() {
		conn.Close()
		l.mu.Lock()
		delete(l.conns, conn)
		l.mu.Unlock()
		l.tell(n, Message{V: Version, Op: "state", Session: session, Gone: true})
	}()
	sc := bufio.NewScanner(conn)
	sc.Buffer(nil, MaxLine+1)
	for sc.Scan() {
		line := bytes.TrimSpace(sc.Bytes())
		if len(line) == 0 {
			continue
		}
		m, err := Decode(line)
		if err != nil {
			return
		}
		switch m.Op {
		case "url":
			b, err := json.Marshal(Message{V: Version, Op: "url", URL: l.url(m.Fresh)})
			if err != nil {
				return
			}
			conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
			if _, err := conn.Write(append(b, '\n')); err != nil {
				return
			}
		case "state", "explore":
			if m.Session == "" || session != "" && m.Session != session {
				return
			}
			session = m.Session
			l.tell(n, m)
		}
	}
}

// tell hands on what the nth connection says of its session, unless the session has a newer one: a kernel that connects again may
// be heard before the end of the connection that it gave up.
func (l *Listener) tell(n int, m Message) {
	l.telling.Lock()
	defer l.telling.Unlock()
	switch {
	case m.Session == "" || l.newest[m.Session] > n || m.Gone && l.newest[m.Session] != n:
		return
	case m.Gone:
		delete(l.newest, m.Session)
	default:
		l.newest[m.Session] = n
	}
	l.handle(m)
}
