package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tilus-lab/tilus-lab/kernel/session"
	"github.com/tilus-lab/tilus-lab/web/answer"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// nothingRuns fails the test when a worker is started or a device asked.
type nothingRuns struct{ t *testing.T }

func (n nothingRuns) Devices(context.Context) ([]Device, error) {
	return []Device{{Name: "interp"}}, nil
}

func (n nothingRuns) Run(context.Context, RunRequest) (RunResult, error) {
	n.t.Error("an attack reached a device")
	return RunResult{}, nil
}

// attacked is a server that can run things, with what it wrote to its log; at the
// end it must still answer, and have run nothing.
func attacked(t *testing.T) (s *server, base string, log *lockedBuffer) {
	t.Helper()
	s, base = testServer(t)
	log = &lockedBuffer{}
	s.opt.Log, s.opt.Backend = log, nothingRuns{t}
	ran := filepath.Join(t.TempDir(), "ran")
	s.books.worker = session.Options{Exe: []string{"/bin/sh", "-c", "touch '" + ran + "'"}}
	t.Cleanup(func() {
		if _, err := os.Stat(ran); err == nil {
			t.Error("an attack started a worker")
		}
	})
	return s, base, log
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// alive asks for a picture, as the page and as a link.
func alive(t *testing.T, s *server, base string) {
	t.Helper()
	if kind, body := dial(t, s, base).ask("render", map[string]any{"view": "a", "pane": "layout"}); kind != "ok" {
		t.Errorf("after the attack the page gets %s %.100s", kind, body)
	}
	if w, body := get(t, "GET", base+"/svg?v=1&p=layout&e=local(2)", nil); w.StatusCode != 200 {
		t.Errorf("after the attack a link gets %d %.100s", w.StatusCode, body)
	}
}

// No page of another origin opens a websocket, whatever it says it is, and neither
// does a program without the cookie.
func TestAttackOrigin(t *testing.T) {
	s, base, _ := attacked(t)
	host := strings.TrimPrefix(base, "http://")
	_, port, err := net.SplitHostPort(host)
	must(t, err)
	for _, origin := range []string{"http://evil.example", "http://evil.example:" + port, "https://" + host + ".evil.example", "null", "file://", "http://127.0.0.1:1",
		"http://localhost.evil.example:" + port, "chrome-extension://abc", "javascript:1", "http://" + host + "@evil.example", "ftp://" + host} {
		for _, cookie := range []string{"", s.cookieHeader()} {
			h := http.Header{"Origin": {origin}}
			if cookie != "" {
				h.Set("Cookie", cookie)
			}
			ws, w, err := websocket.DefaultDialer.Dial("ws://"+host+"/ws", h)
			if err == nil {
				ws.Close()
				t.Errorf("origin %q opened a websocket", origin)
				continue
			}
			if w == nil || w.StatusCode != 403 {
				t.Errorf("origin %q: %v", origin, err)
				continue
			}
			if why, _ := io.ReadAll(w.Body); !strings.Contains(string(why), "refused") {
				t.Errorf("origin %q is told %q", origin, why)
			}
		}
	}
	for _, name := range []string{"127.0.0.1.evil.example:" + port, "evil.example:" + port, "127.0.0.1", "", host + "."} {
		conn, err := net.Dial("tcp", host)
		must(t, err)
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nConnection: close\r\n\r\n", name, s.cookieHeader())
		w, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		if w.StatusCode != 421 {
			t.Errorf("host %q: %d", name, w.StatusCode)
		}
		conn.Close()
	}
	alive(t, s, base)
}

// Nothing but pictures of plain notation is for who has no token.
func TestAttackWithoutToken(t *testing.T) {
	s, base, _ := attacked(t)
	frame := s.books.frames.add(frame{"<b>x</b>", true})
	for _, path := range []string{"/", "/nb/01", "/ws", "/frame/" + frame, "/svg?p=layout&e=$x", "/svg?p=layout&e=%24x", "/svg?p=layout&%65=%24x", "/?token=", "/?token=x&token=y"} {
		for _, cookie := range []string{"", s.cookie + "=", s.cookie + "=" + strings.Repeat("0", 32), s.cookie + "=" + s.secrets[RoleRun] + "0", "other=" + s.secrets[RoleRun]} {
			w, body := get(t, "GET", base+path, map[string]string{"Cookie": cookie})
			if w.StatusCode != 403 || !strings.Contains(body, "tilus-lab up") {
				t.Errorf("%s with %q: %d %.60q", path, cookie, w.StatusCode, body)
			}
		}
	}
	alive(t, s, base)
}

// A token stays out of addresses, logs, pages and what other servers see.
func TestAttackToken(t *testing.T) {
	s, base, log := attacked(t)
	start, err := url.Parse(s.address(true))
	must(t, err)
	token := start.Query().Get("token")
	w, body := get(t, "GET", base+"/nb/01?v=1&token="+token+"&p=layout", map[string]string{"Referer": "http://evil.example/"})
	if to := w.Header.Get("Location"); w.StatusCode != 303 || to != "/nb/01?v=1&p=layout" || strings.Contains(body, token) || w.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%d to %s: %s", w.StatusCode, to, body)
	}
	cookie := w.Cookies()[0]
	if cookie.Value == token || strings.Contains(cookie.Value, token) {
		t.Error("the cookie holds the token")
	}
	// Used up, guessed or in the wrong place, it is refused, and the log does not have it.
	for _, path := range []string{"/?token=" + token, "/ws?token=" + token, "/nothing?token=" + token, "/svg?p=layout&e=$a&token=" + token} {
		w, body := get(t, "GET", base+path, map[string]string{"Referer": base + "/?token=" + token})
		if w.StatusCode != 403 || strings.Contains(body, token) || strings.Contains(fmt.Sprint(w.Header), token) {
			t.Errorf("%s: %d %s %v", path, w.StatusCode, body, w.Header)
		}
	}
	fresh, err := url.Parse(s.address(true))
	must(t, err)
	second := fresh.Query().Get("token")
	w, _ = get(t, "GET", base+"/?token="+second, map[string]string{"Host": "evil.example"})
	if w.StatusCode != 421 {
		t.Errorf("a token at another host: %d", w.StatusCode)
	}
	// A page that was opened with a token knows nothing of it.
	w, body = get(t, "GET", base+"/?v=1", map[string]string{"Cookie": cookie.Name + "=" + cookie.Value})
	if w.StatusCode != 200 || strings.Contains(body, token) || strings.Contains(body, cookie.Value) {
		t.Errorf("the page: %d", w.StatusCode)
	}
	if text := log.String(); strings.Contains(text, token) || strings.Contains(text, second) || strings.Contains(text, cookie.Value) || !strings.Contains(text, "refused") {
		t.Errorf("the log: %s", text)
	}
	if state, err := answer.State(base + "/?token=" + second + "&v=1&p=layout"); err != nil || strings.Contains(state, "token") {
		t.Errorf("a shared link keeps the token: %q, %v", state, err)
	}
	alive(t, s, base)
}

// Messages that are too large, too deep or no messages are answered with what is
// wrong, or end their own connection.
func TestAttackMessages(t *testing.T) {
	s, base, _ := attacked(t)
	nested := func(open, close string, n int) string {
		return `{"v":1,"id":1,"type":"render","body":` + strings.Repeat(open, n) + strings.Repeat(close, n) + "}"
	}
	for _, bad := range []string{
		nested("[", "]", 200_000), nested(`{"a":`, "", 100_000), strings.Repeat("{", 500_000), strings.Repeat(`"`, 1000),
		`{"v":1,"id":1e400,"type":"hello"}`, `{"v":1,"id":99999999999999999999,"type":"hello"}`, `{"v":"1","id":1,"type":"hello"}`,
		`{"v":1,"id":1,"type":["hello"]}`, `{"v":1,"id":0,"type":"hello"}`, `{"v":0,"id":1,"type":"hello"}`, `{"v":1,"id":1,"type":"` + strings.Repeat("x", 1000) + `"}`,
		"null", "true", "1", "\x00", "\xff\xfe", "<script>alert(1)</script>",
	} {
		c := dial(t, s, base)
		must(t, c.ws.WriteMessage(websocket.TextMessage, []byte(bad)))
		var e answer.Message
		c.ws.SetReadDeadline(time.Now().Add(20 * time.Second))
		if err := c.ws.ReadJSON(&e); err != nil || e.Type != "error" || !strings.Contains(string(e.Body), "message must be JSON") {
			t.Errorf("%.40q: %s %s, %v", bad, e.Type, e.Body, err)
		}
		if kind, _ := c.ask("hello", nil); kind != "ok" {
			t.Errorf("%.40q: the connection is of no more use", bad)
		}
		c.ws.Close()
	}
	c := dial(t, s, base)
	for kind, body := range map[string]any{
		"render":                map[string]any{"view": 1},
		"copy":                  []int{1},
		"example":               map[string]int{},
		"run":                   "x",
		"nb.run":                map[string]any{"name": []int{}},
		"__proto__":             nil,
		"nb.exec":               map[string]string{"name": "01"},
		"eval":                  "1",
		"nb.open\u0000":         map[string]string{"name": "01"},
		"file:///etc/passwd":    nil,
		"<img src=x onerror=1>": nil,
	} {
		if got, text := c.ask(kind, body); got != "error" || !strings.Contains(text, `"msg":"`) || strings.Contains(text, "root:") {
			t.Errorf("%s: %s %s", kind, got, text)
		}
	}
	// Binary messages are no messages; giant ones end the connection with the reason.
	must(t, c.ws.WriteMessage(websocket.BinaryMessage, []byte(`{"v":1,"id":1000,"type":"hello"}`)))
	if kind, body := c.answer(0); kind != "error" || !strings.Contains(body, "JSON") {
		t.Errorf("a binary message: %s %s", kind, body)
	}
	c.ws.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte(" "), maxMessage+1)) // the server may hang up meanwhile
	c.ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		if _, _, err := c.ws.ReadMessage(); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Error("a giant message does not end its connection")
			}
			break
		}
	}
	alive(t, s, base)
}

// A thousand requests of one page at a time are refused beyond the limit, not queued.
func TestAttackFlood(t *testing.T) {
	s, base, _ := attacked(t)
	c := dial(t, s, base)
	const n = 1000
	for i := range n {
		body := map[string]any{"view": fmt.Sprint(i), "pane": "layout", "values": map[string]string{"e": fmt.Sprintf("local(64, 64).spatial(1, %d)", i+1)}}
		if c.ws.WriteJSON(map[string]any{"v": 1, "id": i + 1, "type": "render", "body": body}) != nil {
			break // it hung up, since nobody reads its answers
		}
	}
	kinds := map[string]int{}
	c.ws.SetReadDeadline(time.Now().Add(60 * time.Second))
	for got := 0; got < n; got++ {
		var e answer.Message
		if err := c.ws.ReadJSON(&e); err != nil {
			kinds["hung up"]++
			break
		}
		if e.Type == "error" && !strings.Contains(string(e.Body), "requests at a time") {
			t.Fatalf("refused with %s", e.Body)
		}
		kinds[e.Type]++
	}
	if kinds["error"]+kinds["hung up"] == 0 {
		t.Errorf("all of a flood was done: %v", kinds)
	}
	alive(t, s, base)
}

// Frames that break the protocol of websockets end their own connection only.
func TestAttackFrames(t *testing.T) {
	s, base, _ := attacked(t)
	u, err := url.Parse(base)
	must(t, err)
	huge := binary.BigEndian.AppendUint64([]byte{0x81, 0xff}, 1<<62)
	for name, raw := range map[string][]byte{
		"not masked":             []byte("\x81\x05hello"),
		"reserved bits":          {0xf1, 0x80, 1, 2, 3, 4},
		"unknown opcode":         {0x83, 0x80, 1, 2, 3, 4},
		"2^62 bytes":             append(huge, 1, 2, 3, 4),
		"control frame too long": append([]byte{0x89, 0xfe, 0x01, 0x00, 1, 2, 3, 4}, make([]byte, 256)...),
		"continuation first":     {0x80, 0x80, 1, 2, 3, 4},
		"fragmented ping":        {0x09, 0x80, 1, 2, 3, 4},
		"no frames at all":       []byte("GET / HTTP/1.1\r\n\r\n"),
		"close with bad code":    {0x88, 0x82, 0, 0, 0, 0, 0x00, 0x01},
	} {
		conn, err := net.Dial("tcp", u.Host)
		must(t, err)
		fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nCookie: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n", u.Host, base, s.cookieHeader())
		r := bufio.NewReader(conn)
		w, err := http.ReadResponse(r, nil)
		must(t, err)
		if w.StatusCode != 101 {
			t.Fatalf("%s: no websocket: %d", name, w.StatusCode)
		}
		conn.Write(raw)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, r); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Errorf("%s: the connection stays", name)
			}
		}
		conn.Close()
	}
	alive(t, s, base)
}

// Sizes and depths that no machine could draw are refused with the reason, fast
// enough that nothing was built.
func TestAttackSizes(t *testing.T) {
	s, base, _ := attacked(t)
	c := dial(t, s, base)
	for _, q := range []struct {
		pane   string
		values pane.Values
	}{
		{"layout", pane.Values{"e": "local(1000000000)"}},
		{"layout", pane.Values{"e": "local(1000000000, 1000000000, 1000000000)"}},
		{"layout", pane.Values{"e": strings.TrimSuffix(strings.Repeat("local(16).", 300), ".")}},
		{"layout", pane.Values{"e": "(1000000000,1000000000):(1,1000000000)"}},
		{"layout", pane.Values{"e": strings.Repeat("(", 30000)}},
		{"layout", pane.Values{"e": strings.Repeat("reduce(", 5000) + "local(2)"}},
		{"layout", pane.Values{"e": "#ttg.blocked<{sizePerThread = [1000000000], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}> on 1000000000"}},
		{"layout", pane.Values{"e": strings.Repeat("x", pane.MaxValue+1)}},
		{"reinterpret", pane.Values{"e": "local(1000000000)"}},
		{"see", pane.Values{"x": "local(1000000000)"}},
		{"program", pane.Values{"src": strings.Repeat("{", 60000)}},
		{"debug", pane.Values{"a": "zeros:f32[1000000000]"}},
		{"debug", pane.Values{"a": "/etc/passwd"}},
		{"banks", pane.Values{"a": "load 4: 1<<70"}},
	} {
		kind, body := c.ask("render", map[string]any{"view": "a", "pane": q.pane, "values": q.values})
		if kind != "error" || !strings.Contains(body, `"msg":"`) || strings.Contains(body, "failed inside") || strings.Contains(body, "root:") {
			t.Errorf("%s %.60v: %s %.200s", q.pane, q.values, kind, body)
		}
	}
	// Every field of every pane, whatever it makes of the text, says what is wrong or draws.
	panes := pane.All()
	if testing.Short() {
		panes = panes[:3]
	}
	for _, p := range panes {
		for _, param := range p.Params {
			if param.Kind == pane.Slider || param.Kind == pane.Choice {
				continue // TestAddresses has these
			}
			for _, v := range []string{"local(1000000000)", strings.Repeat("(", 30000), strings.Repeat("9", 400), "-1", "\x00", "program p<1000000000>() warps=1 {\n}\n"} {
				kind, body := c.ask("render", map[string]any{"view": "a", "pane": p.Name, "values": pane.Values{param.Name: v}})
				if kind != "ok" && (kind != "error" || !strings.Contains(body, `"msg":"`) || strings.Contains(body, "failed inside")) {
					t.Errorf("%s %s=%.60q: %s %.300s", p.Name, param.Name, v, kind, body)
				}
			}
		}
	}
	alive(t, s, base)
}

// No name leads out of the folders of assets and notebooks, through a link neither.
func TestAttackPaths(t *testing.T) {
	s, base, _ := attacked(t)
	must(t, os.Symlink(filepath.Dir(s.books.dir), filepath.Join(s.books.dir, "up")))
	must(t, os.Symlink("/etc", filepath.Join(s.books.dir, "etc")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(s.books.dir, "passwd.ipynb")))
	h := map[string]string{"Cookie": s.cookieHeader()}
	for _, path := range []string{"/assets/../../web.go", "/assets/%2e%2e/web.go", "/assets/..%2fweb.go", "/assets/....//web.go", "/assets/%00", "/assets/\\..\\web.go", "/assets//etc/passwd",
		"/assets/page.html", "/frame/../../etc/passwd", "/frame/%2e%2e%2fetc%2fpasswd", "//etc/passwd", "/etc/passwd", "/nb/../../etc/passwd"} {
		w, body := get(t, "GET", base+path, h)
		if strings.Contains(body, "root:") || strings.Contains(body, "package web") || w.StatusCode == 200 && !strings.HasPrefix(path, "/nb/") {
			t.Errorf("%s: %d %.60q", path, w.StatusCode, body)
		}
	}
	c := dial(t, s, base)
	for _, name := range []string{"../secret", "up/secret", "up/" + filepath.Base(s.books.dir) + "/01-first", "etc/passwd", "passwd", "passwd.ipynb", "02-link", "/etc/passwd", "..\\secret", "01-first/../../secret", "\x00", strings.Repeat("../", 100) + "etc/passwd"} {
		for _, kind := range []string{"nb.open", "nb.run", "nb.save"} {
			got, body := c.ask(kind, map[string]any{"name": name, "cell": "c", "source": "x", "force": true, "cells": []map[string]string{{"id": "c", "type": "code", "source": "changed"}}})
			if got != "error" || strings.Contains(body, "root:") || !strings.Contains(body, "there is no notebook") && !strings.Contains(body, "is no file in") {
				t.Errorf("%s of %q: %s %.100s", kind, name, got, body)
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(s.books.dir), "secret.ipynb"))
	must(t, err)
	if string(raw) != smallBook {
		t.Error("a file outside of the folder was changed")
	}
	alive(t, s, base)
}

// Script in names and texts stays text: in pictures, pages, shared files, messages.
func TestAttackScript(t *testing.T) {
	s, base, _ := attacked(t)
	const script = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	h := map[string]string{"Cookie": s.cookieHeader()}
	for _, path := range []string{"/?v=1&p=layout&e=" + url.QueryEscape(script), "/nb/" + url.PathEscape(script), "/?" + url.QueryEscape(script) + "=1"} {
		if _, body := get(t, "GET", base+path, h); strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") {
			t.Errorf("%s: %s", path, body)
		}
	}
	// Program text may hold anything in comments and names; pictures of it must not run.
	program := "// " + script + "\n" + pane.StartProgram
	for _, q := range []string{"p=program&src=" + url.QueryEscape(program), "p=code&src=" + url.QueryEscape(program), "p=layout&e=" + url.QueryEscape(script), "p=see&x=" + url.QueryEscape(script)} {
		for _, as := range []string{"", "&as=html", "&as=svg"} {
			w, body := get(t, "GET", base+"/svg?v=1&"+q+as, nil)
			kind := w.Header.Get("Content-Type")
			if w.StatusCode == 200 && (strings.Contains(body, "<script>alert") || strings.Contains(body, "<img")) {
				t.Errorf("%.40s%s: %.300s", q, as, body)
			}
			if w.StatusCode == 200 && w.Header.Get("Content-Security-Policy") != "default-src 'none'; sandbox" || w.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%.40s%s: %v", q, as, w.Header)
			}
			if w.StatusCode != 200 && !strings.HasPrefix(kind, "text/plain") {
				t.Errorf("%.40s%s: an error of type %s", q, as, kind)
			}
			if strings.HasPrefix(kind, "text/html") && !strings.HasPrefix(w.Header.Get("Content-Disposition"), "attachment") {
				t.Errorf("%.40s%s: a page that the browser would show", q, as)
			}
		}
	}
	// What a session says of itself reaches pages as JSON.
	c := dial(t, s, base)
	if kind, body := c.ask("render", map[string]any{"view": "a", "pane": "layout", "values": map[string]string{"e": "$" + script}}); kind != "error" || strings.Contains(body, "<script") {
		t.Errorf("%s %s", kind, body)
	}
	alive(t, s, base)
}

// Output of cells that tries to reach the page, or to run cells, stands in frames
// of no origin with a policy that lets nothing out; what a file brought runs nothing.
func TestAttackOutputs(t *testing.T) {
	s, base, _ := attacked(t)
	page := `<script>new WebSocket("ws://` + strings.TrimPrefix(base, "http://") + `/ws").onopen = (e) => e.target.send('{"v":1,"id":1,"type":"nb.run","body":{"name":"01","cell":"c","source":"x"}}')</script>`
	for _, o := range []nbOutput{
		{Type: "display_data", Data: map[string]any{"text/html": page}},
		{Type: "display_data", Data: map[string]any{"text/html": page}, fresh: true},
		{Type: "display_data", Data: map[string]any{"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>" + page + "</svg>"}},
		{Type: "display_data", Data: map[string]any{"text/markdown": page + " [x](javascript:alert(1))"}},
		{Type: "stream", Text: func() *lines { l := lines(page); return &l }()},
	} {
		x := s.books.form(o)
		raw, err := json.Marshal(x)
		must(t, err)
		switch x.Kind {
		case "frame":
			w, _ := get(t, "GET", base+"/frame/"+x.Src, map[string]string{"Cookie": s.cookieHeader()})
			p := w.Header.Get("Content-Security-Policy")
			if !strings.HasPrefix(p, "sandbox") || strings.Contains(p, "allow-same-origin") || strings.Contains(p, "connect-src") || !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "allow-scripts") != o.fresh {
				t.Errorf("frame: %s", p)
			}
		case "image":
			if !strings.HasPrefix(x.Src, "data:image/svg+xml;base64,") {
				t.Errorf("an SVG is shown as %.60s", raw)
			}
		case "html":
			if strings.Contains(x.HTML, "<script") || strings.Contains(x.HTML, "javascript:") {
				t.Errorf("Markdown: %s", x.HTML)
			}
		case "text", "stream":
		default:
			t.Errorf("output of kind %s: %s", x.Kind, raw)
		}
	}
	// From such a frame the origin is null, and a strict cookie does not come along.
	for _, cookie := range []string{"", s.cookieHeader()} {
		h := http.Header{"Origin": {"null"}}
		if cookie != "" {
			h.Set("Cookie", cookie)
		}
		if ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(base, "http")+"/ws", h); err == nil {
			ws.Close()
			t.Error("a frame reaches the websocket")
		}
	}
	alive(t, s, base)
}

// A link draws; it can name no cell, device or file. Opening a page at any address
// asks for nothing that runs, which is the page's part; the server's is that GET
// never starts a worker.
func TestAttackLinks(t *testing.T) {
	s, base, _ := attacked(t)
	h := map[string]string{"Cookie": s.cookieHeader()}
	for _, p := range pane.All() {
		for _, q := range []string{"", "&d=cuda", "&device=cuda:0", "&run=1", "&cell=c", "&src=" + url.QueryEscape("import \"os\"")} {
			get(t, "GET", base+"/svg?v=1&p="+p.Name+q, h)
			get(t, "GET", base+"/?v=1&p="+p.Name+q, h)
		}
	}
	get(t, "GET", base+"/nb/01?run=1#run", h)
	alive(t, s, base)
}

// Who reads slowly, or never ends a request, keeps nobody waiting.
func TestAttackSlow(t *testing.T) {
	s, base, _ := attacked(t)
	u, err := url.Parse(base)
	must(t, err)
	for i := range 40 {
		conn, err := net.Dial("tcp", u.Host)
		must(t, err)
		defer conn.Close()
		if i%2 == 0 {
			fmt.Fprintf(conn, "GET /svg?p=layout HTTP/1.1\r\nHost: %s\r\nX-Slow: ", u.Host) // and never ends
		} else {
			fmt.Fprintf(conn, "GET /svg?p=layout&e=local(64,64) HTTP/1.1\r\nHost: %s\r\n\r\n", u.Host) // and never reads
		}
	}
	alive(t, s, base)
}
