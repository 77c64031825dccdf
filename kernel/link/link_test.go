package link

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

func listenTest(t *testing.T) (path string, got chan Message) {
	t.Helper()
	path, got = SocketPath(need.Scratch(t)), make(chan Message, 100)
	l, err := Listen(path, func(m Message) { got <- m }, func(fresh bool) string {
		if fresh {
			return "http://127.0.0.1:1/?token=x"
		}
		return "http://127.0.0.1:1/"
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return path, got
}

func next(t *testing.T, got chan Message) Message {
	t.Helper()
	select {
	case m := <-got:
		return m
	case <-time.After(20 * time.Second):
		t.Fatal("no message")
		return Message{}
	}
}

func TestStateAndGone(t *testing.T) {
	path, got := listenTest(t)
	c, err := Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(Message{Op: "state", Session: "s1", Vars: []Var{{Name: "l", Form: "layout", Text: "local(2)"}}}); err != nil {
		t.Fatal(err)
	}
	if m := next(t, got); m.Session != "s1" || len(m.Vars) != 1 || m.Vars[0].Text != "local(2)" {
		t.Errorf("got %+v", m)
	}
	if err := c.Send(Message{Op: "explore", Session: "s1", Explore: &Explore{Form: "layout", Text: "local(3)"}}); err != nil {
		t.Fatal(err)
	}
	if m := next(t, got); m.Op != "explore" || m.Explore == nil || m.Explore.Text != "local(3)" {
		t.Errorf("got %+v", m)
	}
	c.Close()
	if m := next(t, got); m.Session != "s1" || !m.Gone {
		t.Errorf("after close got %+v", m)
	}
}

// TestNewerConnection ends a connection that its kernel gave up after the one that took its place has been heard.
func TestNewerConnection(t *testing.T) {
	path, got := listenTest(t)
	var c [2]*Client
	for i := range c {
		var err error
		if c[i], err = Dial(path); err != nil {
			t.Fatal(err)
		}
		defer c[i].Close()
		if err := c[i].Send(Message{Op: "state", Session: "s1", Title: string(rune('a' + i))}); err != nil {
			t.Fatal(err)
		}
		if m := next(t, got); m.Title != string(rune('a'+i)) {
			t.Errorf("got %+v", m)
		}
	}
	c[0].Send(Message{Op: "state", Session: "s1", Title: "old"})
	c[0].Close()
	if err := c[1].Send(Message{Op: "state", Session: "s1", Title: "c"}); err != nil {
		t.Fatal(err)
	}
	if m := next(t, got); m.Title != "c" {
		t.Errorf("got %+v", m)
	}
	c[1].Close()
	if m := next(t, got); !m.Gone {
		t.Errorf("got %+v", m)
	}
	select {
	case m := <-got:
		t.Errorf("the session ended, and then came %+v", m)
	default:
	}
}

func TestSocketIsPrivateAndAnswersAddress(t *testing.T) {
	path, _ := listenTest(t)
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, want 0600", fi.Mode().Perm())
	}
	dir := filepath.Dir(path)
	for fresh, want := range map[bool]string{false: "http://127.0.0.1:1/", true: "http://127.0.0.1:1/?token=x"} {
		if url, ok := Running(dir, fresh); !ok || url != want {
			t.Errorf("Running(fresh %v) = %q, %v, want %q", fresh, url, ok, want)
		}
	}
	if _, err := Listen(path, nil, nil); err == nil {
		t.Error("a second listener took the socket of a living one")
	}
	if _, ok := Running(t.TempDir(), false); ok {
		t.Error("Running found an explorer where there is none")
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	dir := need.Scratch(t)
	ln, err := net.Listen("unix", SocketPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	ln.Close()
	l, err := Listen(SocketPath(dir), func(Message) {}, func(bool) string { return "" })
	if err != nil {
		t.Fatalf("stale socket: %v", err)
	}
	l.Close()
	if _, err := os.Stat(SocketPath(dir)); !os.IsNotExist(err) {
		t.Errorf("socket left behind: %v", err)
	}
}

func TestBadLinesEndTheConnection(t *testing.T) {
	path, got := listenTest(t)
	for _, line := range []string{"{", `{"v":0}`, `{"v":1,"op":"state","session":"s","gone":true}`, `{"v":1,"op":"state"}`, strings.Repeat("x", MaxLine+10)} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		go conn.Write([]byte(line + "\n"))
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("%.40q: connection stayed open (%v)", line, err)
		}
		conn.Close()
	}
	select {
	case m := <-got:
		t.Errorf("bad line reached the handler: %+v", m)
	default:
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"op":"state","session":"a","vars":[{"name":"x","type":"int"}]}`))
	f.Add([]byte(`{"v":1,"op":"url","fresh":true}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := Decode(line)
		if err == nil && (m.V < 1 || m.Gone) {
			t.Errorf("accepted %q", line)
		}
	})
}

func TestLinks(t *testing.T) {
	shown := []Explore{{Form: "layout", Text: "local(2)"}, {Form: "view", Text: "u6 local(4)"}, {Form: "layout", Text: "local(2)"}, {Form: "layout", Text: "spatial(3, 1)"}}
	vars := []Var{{Name: "a", Form: "layout", Text: "local(2)"}, {Name: "b", Form: "layout", Text: "local(2)", Fresh: true}, {Name: "c", Form: "layout", Text: "local(2)"}, {Name: "p", Form: "program", Text: "spatial(3, 1)"}}
	want := []Link{
		{"b", "?v=1&p=layout&e=%24b%40s"},
		{"u6 local(4)", "?v=1&p=reinterpret&w=6&k=uint&e=local%284%29"},
		{"spatial(3, 1)", "?v=1&p=layout&e=spatial%283%2C+1%29"},
	}
	if got := Links("s", shown, vars); !slices.Equal(got, want) {
		t.Errorf("Links = %q\nwant %q", got, want)
	}
}
