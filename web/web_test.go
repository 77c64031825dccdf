package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/web/answer"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

const smallBook = `{"cells": [{"cell_type": "markdown", "metadata": {"k": 1}, "source": ["# A\n", "b"]},
 {"cell_type": "code", "id": "c", "metadata": {}, "source": "x", "outputs": [{"output_type": "stream", "name": "stdout", "text": ["1\n"]}], "execution_count": 7}],
 "metadata": {"kernelspec": {"name": "tilus-lab"}}, "nbformat": 4, "nbformat_minor": 5}`

// testServer is a server on a free port with one notebook; secret outside its
// root must never be seen.
func testServer(t *testing.T) (s *server, base string) {
	t.Helper()
	outside := t.TempDir()
	root := filepath.Join(outside, "root")
	must(t, os.Mkdir(root, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "secret.ipynb"), []byte(smallBook), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "01-first.ipynb"), []byte(smallBook), 0o644))
	must(t, os.Symlink(filepath.Join(outside, "secret.ipynb"), filepath.Join(root, "02-link.ipynb")))
	s, err := newServer(Options{DataDir: t.TempDir(), Root: root})
	must(t, err)
	h := httptest.NewServer(s)
	u, err := url.Parse(h.URL)
	must(t, err)
	var port int
	fmt.Sscan(u.Port(), &port)
	s.setPort(port)
	t.Cleanup(func() {
		s.close()
		h.Close()
	})
	return s, h.URL
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get sends a request without following redirects.
func get(t *testing.T, method, address string, header map[string]string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, address, nil)
	must(t, err)
	for k, v := range header {
		if k == "Host" {
			r.Host = v
		}
		r.Header.Set(k, v)
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w, err := c.Do(r)
	must(t, err)
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	must(t, err)
	return w, string(b)
}

func (s *server) cookieHeader() string { return s.cookie + "=" + s.secrets[RoleRun] }

func TestStartTokenWorksOnce(t *testing.T) {
	s, base := testServer(t)
	if w, body := get(t, "GET", base+"/", nil); w.StatusCode != 403 || !strings.Contains(body, "tilus-lab up") {
		t.Errorf("without a token: %d %q", w.StatusCode, body)
	}
	start := s.address(true)
	w, _ := get(t, "GET", start+"&v=1&p=layout&e=local(2)", nil)
	c := w.Cookies()
	if w.StatusCode != 303 || len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("start: %d, cookies %v", w.StatusCode, c)
	}
	if to := w.Header.Get("Location"); strings.Contains(to, "token") || to != "/?v=1&p=layout&e=local(2)" {
		t.Errorf("redirected to %s", to)
	}
	if w.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Error("the token may leave in a Referer")
	}
	w, body := get(t, "GET", base+"/", map[string]string{"Cookie": c[0].Name + "=" + c[0].Value})
	if w.StatusCode != 200 || !strings.Contains(body, "<main") {
		t.Errorf("with the cookie: %d", w.StatusCode)
	}
	if w, _ := get(t, "GET", start, nil); w.StatusCode != 403 || len(w.Cookies()) != 0 {
		t.Errorf("the token worked twice: %d", w.StatusCode)
	}
	if w, _ := get(t, "GET", base+"/?token=guess", nil); w.StatusCode != 403 {
		t.Errorf("a guessed token: %d", w.StatusCode)
	}
	if w, _ := get(t, "GET", base+"/", map[string]string{"Cookie": c[0].Name + "=guess"}); w.StatusCode != 403 {
		t.Errorf("a guessed cookie: %d", w.StatusCode)
	}
}

func TestRefusals(t *testing.T) {
	s, base := testServer(t)
	for _, c := range []struct {
		name, method, path string
		header             map[string]string
		want               int
	}{
		{"foreign host", "GET", "/", map[string]string{"Host": "evil.example"}, 421},
		{"rebinding", "GET", "/svg?p=layout", map[string]string{"Host": "evil.example:80"}, 421},
		{"foreign origin", "GET", "/", map[string]string{"Origin": "http://evil.example"}, 403},
		{"null origin", "GET", "/ws", map[string]string{"Origin": "null"}, 403},
		{"foreign websocket", "GET", "/ws", map[string]string{"Origin": "http://127.0.0.1:1", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw=="}, 403},
		{"post", "POST", "/", nil, 405},
		{"long address", "GET", "/svg?p=layout&e=" + strings.Repeat("a", 9000), nil, 414},
		{"traversal", "GET", "/assets/../web.go", nil, 307},
		{"encoded traversal", "GET", "/assets/..%2f..%2fgo.mod", nil, 400},
		{"listing", "GET", "/assets/", nil, 404},
		{"template", "GET", "/assets/page.html", nil, 404},
		{"broken escape", "GET", "/svg?p=layout&e=%zz", nil, 400},
		{"unknown pane", "GET", "/svg?p=nothing", nil, 400},
		{"giant layout", "GET", "/svg?p=layout&e=local(1000000000)", nil, 400},
		{"deep layout", "GET", "/svg?p=layout&e=" + strings.Repeat("(", 4000), nil, 400},
	} {
		h := map[string]string{"Cookie": s.cookieHeader()}
		for k, v := range c.header {
			h[k] = v
		}
		w, body := get(t, c.method, base+c.path, h)
		if w.StatusCode != c.want {
			t.Errorf("%s: %d %.80q, want %d", c.name, w.StatusCode, body, c.want)
		}
	}
	// Variables of notebooks are not for everyone who can reach the port.
	if w, _ := get(t, "GET", base+"/svg?p=layout&e=%24x", nil); w.StatusCode != 403 {
		t.Errorf("variable without cookie: %d", w.StatusCode)
	}
}

func TestSVG(t *testing.T) {
	_, base := testServer(t)
	w, body := get(t, "GET", base+"/svg?v=7&p=layout&e=local(2,1).spatial(8,4).local(1,2)&name=threads&newer=1", nil)
	if w.StatusCode != 200 || w.Header.Get("Content-Type") != "image/svg+xml" || w.Header.Get("X-Content-Type-Options") != "nosniff" || w.Header.Get("Content-Security-Policy") != "default-src 'none'; sandbox" {
		t.Fatalf("%d %v", w.StatusCode, w.Header)
	}
	p, err := pane.Find("layout")
	must(t, err)
	r, err := p.Run(pane.Values{"e": "local(2,1).spatial(8,4).local(1,2)"})
	must(t, err)
	if body != string(r.Pictures[1].SVG) {
		t.Error("the bytes differ from the pane's")
	}
	// A script in a value comes back as text.
	w, body = get(t, "GET", base+"/svg?p=layout&e=<script>alert(1)</script>", nil)
	if w.StatusCode != 400 || strings.HasPrefix(w.Header.Get("Content-Type"), "text/html") {
		t.Errorf("%d %s %q", w.StatusCode, w.Header.Get("Content-Type"), body)
	}
}

// Every picture is to be had in every form, as a file that a browser does not run.
func TestForms(t *testing.T) {
	_, base := testServer(t)
	begins := map[string]string{"svg": "<?xml", "png": "\x89PNG", "pdf": "%PDF-", "tikz": "%", "json": "{", "csv": "", "md": "", "txt": ""}
	for _, f := range layoutviz.Formats() {
		w, body := get(t, "GET", base+"/svg?v=1&p=layout&e=local(2).spatial(4)&as="+f.Name, nil)
		if w.StatusCode != 200 || !strings.HasPrefix(w.Header.Get("Content-Type"), f.MIME) || w.Header.Get("Content-Security-Policy") != "default-src 'none'; sandbox" ||
			w.Header.Get("Content-Disposition") != `attachment; filename="layout.`+f.Name+`"` || w.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", f.Name, w.StatusCode, w.Header)
		}
		want, known := begins[f.Name]
		if !known || !strings.HasPrefix(body, want) || body == "" {
			t.Errorf("%s: %.40q", f.Name, body)
		}
	}
	if w, body := get(t, "GET", base+"/svg?p=layout&e=local(2)&as=exe", nil); w.StatusCode != 400 || !strings.Contains(body, "no form") {
		t.Errorf("an unknown form: %d %q", w.StatusCode, body)
	}
	// A pane with an engine draws bounded work only; its limits are errors like others.
	for _, q := range []string{"p=debug&a=zeros:f32[90000000]", "p=debug&a=/etc/passwd", "p=debug&n=-1", "p=code&t=sm_1", "p=banks&a=load+4:+1<<70", "p=catalogue&i=nothing"} {
		if w, body := get(t, "GET", base+"/svg?v=1&"+q, nil); w.StatusCode != 400 || strings.Contains(body, "root:") {
			t.Errorf("%s: %d %.80q", q, w.StatusCode, body)
		}
	}
}

// What the palette lists opens: each pane knows the values that an entry gives it.
func TestPalette(t *testing.T) {
	s, _ := testServer(t)
	kinds := map[string]int{}
	for _, e := range answer.Palette(s.books.list()) {
		kinds[e.Kind]++
		if e.Title == "" || (e.Pane == "") == (e.Book == "") {
			t.Fatalf("entry %+v", e)
		}
		if e.Pane == "" {
			continue
		}
		p, err := pane.Find(e.Pane)
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{"src": e.Example != ""}
		for _, param := range p.Params {
			known[param.Name] = true
		}
		for name := range e.Values {
			if !known[name] {
				t.Errorf("%s: pane %s has no parameter %s", e.Title, e.Pane, name)
			}
		}
	}
	for _, k := range []string{"pane", "lesson", "VM instruction", "program", "nvidia instruction", "amd instruction"} {
		if kinds[k] == 0 {
			t.Errorf("no %s in %v", k, kinds)
		}
	}
}

func TestPagePolicy(t *testing.T) {
	s, base := testServer(t)
	for _, path := range []string{"/", "/nb/01", "/?v=1&p=layout&e=\"><script>x</script>"} {
		w, body := get(t, "GET", base+path, map[string]string{"Cookie": s.cookieHeader()})
		if w.StatusCode != 200 || !strings.HasPrefix(w.Header.Get("Content-Security-Policy"), "default-src 'none'; script-src 'self';") {
			t.Errorf("%s: %d, policy %q", path, w.StatusCode, w.Header.Get("Content-Security-Policy"))
		}
		if regexp.MustCompile(`<script>|<style|\son\w+=|style=|https?://`).MatchString(body) {
			t.Errorf("%s: inline script, style or a foreign address in %s", path, body)
		}
	}
}

// The link in a notebook at another host name works: the page loads itself once
// more, and then the strict cookie comes along.
func TestCrossSiteNavigation(t *testing.T) {
	_, base := testServer(t)
	h := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
	w, body := get(t, "GET", base+"/?v=1&p=layout&e=local(2)&token=old", h)
	if w.StatusCode != 200 || !strings.Contains(body, "http-equiv") || strings.Contains(body, "token") || strings.Contains(body, "<main") {
		t.Errorf("%d %q", w.StatusCode, body)
	}
}

func TestBaseURL(t *testing.T) {
	s, err := newServer(Options{DataDir: t.TempDir(), BaseURL: "https://hub.example/user/a/proxy/7717"})
	must(t, err)
	defer s.close()
	if got := s.address(false); got != "https://hub.example/user/a/proxy/7717/" {
		t.Errorf("address %s", got)
	}
	for _, path := range []string{"/user/a/proxy/7717/", "/"} {
		r := httptest.NewRequest("GET", "http://hub.example"+path, nil)
		r.Header.Set("Cookie", s.cookieHeader())
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), `src="/user/a/proxy/7717/assets/app.js"`) {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if _, err := newServer(Options{DataDir: t.TempDir(), BaseURL: "nothing"}); err == nil {
		t.Error("a bad base URL is accepted")
	}
}

// client is a page.
type client struct {
	t  *testing.T
	ws *websocket.Conn
	id int64
}

func dial(t *testing.T, s *server, base string) *client {
	t.Helper()
	h := http.Header{"Cookie": {s.cookieHeader()}, "Origin": {base}}
	ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(base, "http")+"/ws", h)
	must(t, err)
	t.Cleanup(func() { ws.Close() })
	return &client{t: t, ws: ws}
}

func (c *client) send(kind string, body any) int64 {
	c.t.Helper()
	c.id++
	must(c.t, c.ws.WriteJSON(map[string]any{"v": 1, "id": c.id, "type": kind, "body": body, "later": "ignored"}))
	return c.id
}

// answer reads until the answer to a request.
func (c *client) answer(id int64) (kind string, body string) {
	c.t.Helper()
	c.ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		var e answer.Message
		must(c.t, c.ws.ReadJSON(&e))
		if e.ID == id && (e.Type == "ok" || e.Type == "error" || e.Type == "superseded") {
			return e.Type, string(e.Body)
		}
	}
}

// until reads until a message on the way to an answer.
func (c *client) until(id int64, kind string) {
	c.t.Helper()
	c.ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		var e answer.Message
		must(c.t, c.ws.ReadJSON(&e))
		if e.ID == id && e.Type == kind {
			return
		}
	}
}

// answers reads until all of these requests are answered, in any order.
func (c *client) answers(ids ...int64) map[int64]string {
	c.t.Helper()
	c.ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	got := map[int64]string{}
	for len(got) < len(ids) {
		var e answer.Message
		must(c.t, c.ws.ReadJSON(&e))
		if slices.Contains(ids, e.ID) && (e.Type == "ok" || e.Type == "error" || e.Type == "superseded") {
			got[e.ID] = string(e.Body)
		}
	}
	return got
}

func (c *client) ask(kind string, body any) (string, string) {
	c.t.Helper()
	return c.answer(c.send(kind, body))
}

func TestSocket(t *testing.T) {
	s, base := testServer(t)
	c := dial(t, s, base)
	if kind, body := c.ask("hello", nil); kind != "ok" || !strings.Contains(body, `"name":"reinterpret"`) || !strings.Contains(body, `"notebooks":["01-first","02-link"]`) {
		t.Errorf("hello: %s %s", kind, body)
	}
	kind, body := c.ask("render", map[string]any{"view": "a", "pane": "layout", "values": map[string]string{}})
	var r struct {
		Sentence string
		Pictures []struct {
			Name, SVG string
			IDs       [][]any
		}
	}
	must(t, json.Unmarshal([]byte(body), &r))
	if kind != "ok" || len(r.Pictures) != 2 || len(r.Pictures[0].IDs) != 128 || len(r.Pictures[0].IDs[0]) != 10 {
		t.Errorf("render: %s %.200s", kind, body)
	}
	kind, body = c.ask("render", map[string]any{"view": "a", "pane": "layout", "values": map[string]string{"e": "locl(2)"}})
	if kind != "error" || !strings.Contains(body, `"param":"e","line":1,"col":1,"endLine":1,"endCol":5`) {
		t.Errorf("render of a bad chain: %s %s", kind, body)
	}
	for _, q := range []struct {
		kind string
		body any
	}{{"nothing", nil}, {"render", 7}, {"run", map[string]string{}}, {"nb.open", map[string]string{"name": "9"}}} {
		if kind, body := c.ask(q.kind, q.body); kind != "error" {
			t.Errorf("%s: %s %s", q.kind, kind, body)
		}
	}
}

// Of a burst for one view only the last needs an answer with pictures; all are
// answered in some way.
func TestSuperseded(t *testing.T) {
	s, base := testServer(t)
	c := dial(t, s, base)
	const n = 30
	for i := range n {
		c.send("render", map[string]any{"view": "a", "pane": "layout", "values": map[string]string{"e": fmt.Sprintf("local(16, 8).spatial(8, 4).local(1, %d)", i+1)}})
	}
	got := map[int64]string{}
	c.ws.SetReadDeadline(time.Now().Add(30 * time.Second))
	for len(got) < n {
		var e answer.Message
		must(t, c.ws.ReadJSON(&e))
		got[e.ID] = e.Type
	}
	if got[n] != "ok" {
		t.Errorf("the last request ended as %s", got[n])
	}
	for id, kind := range got {
		if kind != "ok" && kind != "superseded" {
			t.Errorf("request %d ended as %s", id, kind)
		}
	}
}

func TestSocketAttacks(t *testing.T) {
	s, base := testServer(t)
	for _, bad := range []string{"", "{", "[]", `{"v":1}`, `{"v":1,"id":-1,"type":"hello"}`, strings.Repeat("[", 100000), "\x00\xff"} {
		c := dial(t, s, base)
		must(t, c.ws.WriteMessage(websocket.TextMessage, []byte(bad)))
		var e answer.Message
		must(t, c.ws.ReadJSON(&e))
		if e.Type != "error" {
			t.Errorf("%.20q: answered %s", bad, e.Type)
		}
		if kind, _ := c.ask("hello", nil); kind != "ok" {
			t.Errorf("%.20q: the connection is of no more use", bad)
		}
	}
	c := dial(t, s, base)
	c.ws.WriteMessage(websocket.TextMessage, make([]byte, maxMessage+1))
	c.ws.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, _, err := c.ws.ReadMessage(); err == nil {
		t.Error("a giant message was answered")
	}
	if kind, _ := dial(t, s, base).ask("hello", nil); kind != "ok" {
		t.Error("the server did not survive")
	}
	// Without the cookie there is no socket.
	_, w, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(base, "http")+"/ws", http.Header{"Origin": {base}})
	if err == nil || w.StatusCode != 403 {
		t.Errorf("socket without cookie: %v", err)
	}
}

// Pages that never read do not hold up the others, and leave nothing behind.
func TestDeadPages(t *testing.T) {
	s, base := testServer(t)
	before := runtime.NumGoroutine()
	var dead []*client
	for range 20 {
		c := dial(t, s, base)
		for i := range 20 {
			c.send("render", map[string]any{"view": fmt.Sprint(i), "pane": "layout", "values": map[string]string{"e": "local(8, 2).spatial(8, 4).local(1, 2)"}})
		}
		dead = append(dead, c)
	}
	begin := time.Now()
	if kind, _ := dial(t, s, base).ask("render", map[string]any{"view": "a", "pane": "layout"}); kind != "ok" {
		t.Error("no answer beside dead pages")
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("the answer took %v", d)
	}
	for _, c := range dead {
		c.ws.Close()
	}
	for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before+8; {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines remain of %d", runtime.NumGoroutine(), before)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestVariables(t *testing.T) {
	s, base := testServer(t)
	c := dial(t, s, base)
	draw := map[string]any{"view": "a", "pane": "layout", "values": map[string]string{"e": "$acc@s1"}}
	if kind, body := c.ask("render", draw); kind != "error" || !strings.Contains(body, "acc") {
		t.Errorf("unknown variable: %s %s", kind, body)
	}
	tell := func(session, text string) {
		s.vars.receive(link.Message{V: 1, Op: "state", Session: session, Vars: []link.Var{{Name: "acc", Form: "layout", Text: text}, {Name: "n", Type: "int"}}})
	}
	tell("s1", "spatial(8, 4)")
	var e answer.Message
	must(t, c.ws.ReadJSON(&e))
	if e.Type != "vars" || e.ID != 0 || !strings.Contains(string(e.Body), `"acc"`) || strings.Contains(string(e.Body), `"n"`) {
		t.Errorf("pages heard %s %s", e.Type, e.Body)
	}
	if kind, body := c.ask("render", draw); kind != "ok" || !strings.Contains(body, "[8, 4]") {
		t.Errorf("%s %.100s", kind, body)
	}
	tell("s1", "spatial(4, 8)")
	if _, body := c.ask("render", draw); !strings.Contains(body, "[4, 8]") {
		t.Errorf("the variable did not change: %.100s", body)
	}
	s.vars.receive(link.Message{V: 1, Op: "explore", Session: "s1", Explore: &link.Explore{Form: "layout", Text: "local(5)"}})
	if text, err := s.vars.bind("$acc@s1"); err != nil || text != "spatial(4, 8)" {
		t.Errorf("after explore the variable is %q, %v", text, err)
	}
	tell("s2", "local(2)")
	if _, err := s.vars.bind("$acc"); err == nil || !strings.Contains(err.Error(), "say which") {
		t.Errorf("ambiguous name: %v", err)
	}
	s.vars.receive(link.Message{Session: "s1", Gone: true})
	if text, err := s.vars.bind("$acc"); err != nil || text != "local(2)" {
		t.Errorf("%q %v", text, err)
	}
}

func TestNotebook(t *testing.T) {
	s, base := testServer(t)
	c := dial(t, s, base)
	kind, body := c.ask("nb.open", map[string]string{"name": "01"})
	if kind != "ok" || !strings.Contains(body, `\u003ch1\u003eA\u003c/h1\u003e`) || !strings.Contains(body, `"count":7`) {
		t.Fatalf("open: %s %s", kind, body)
	}
	// Names that lead out of the folder find nothing, links out of it open nothing.
	for _, name := range []string{"../secret", "..%2fsecret", "/etc/passwd", "02", "", "01-first.ipynb/../../secret"} {
		if kind, body := c.ask("nb.open", map[string]string{"name": name}); kind != "error" {
			t.Errorf("%q opened: %s", name, body)
		}
	}
	cells := []map[string]string{{"id": "cell-0", "type": "markdown", "source": "# A\nchanged"}, {"id": "c", "type": "code", "source": "y"}, {"id": "new", "type": "code", "source": "a\nb\n"}}
	if kind, body := c.ask("nb.save", map[string]any{"name": "01", "cells": cells}); kind != "ok" {
		t.Fatalf("save: %s", body)
	}
	path := filepath.Join(s.books.dir, "01-first.ipynb")
	raw, err := os.ReadFile(path)
	must(t, err)
	var nb notebook
	must(t, json.Unmarshal(raw, &nb))
	if len(nb.Cells) != 3 || nb.Cells[0].Source != "# A\nchanged" || string(nb.Cells[0].Metadata) == "{}" || len(nb.Cells[1].Outputs) != 1 || *nb.Cells[1].Count != 7 || !strings.Contains(string(nb.Metadata), "kernelspec") {
		t.Errorf("saved %s", raw)
	}
	if !strings.Contains(string(raw), `"execution_count": null`) || strings.Count(string(raw), `"outputs"`) != 2 {
		t.Errorf("nbformat wants outputs and execution_count in code cells only: %s", raw)
	}
	// Somebody else wrote the file.
	must(t, os.WriteFile(path, []byte(smallBook), 0o644))
	save := map[string]any{"name": "01", "cells": cells}
	if kind, body := c.ask("nb.save", save); kind != "error" || !strings.Contains(body, "changed on disk") {
		t.Errorf("conflict: %s %s", kind, body)
	}
	save["force"] = true
	if kind, body := c.ask("nb.save", save); kind != "ok" {
		t.Errorf("forced: %s %s", kind, body)
	}
	left, err := os.ReadDir(s.books.dir)
	must(t, err)
	if len(left) != 2 {
		t.Errorf("files left behind: %v", left)
	}
	c.trust("01", false)
	if kind, body := c.ask("nb.run", map[string]string{"name": "01", "cell": "c", "source": "x"}); kind != "error" || !strings.Contains(body, "worker") {
		t.Errorf("run without a worker: %s %s", kind, body)
	}
}

// A cell's links name what it set, not what it only used.
func TestSetByCell(t *testing.T) {
	v := func(name, text string) proto.Var {
		return proto.Var{Name: name, Form: "layout", Text: text, Fresh: true}
	}
	b := &book{}
	for _, c := range []struct {
		source string
		vars   []proto.Var
		want   string
	}{
		{"a := layout.Local(2)\na", []proto.Var{v("a", "local(2)")}, "a"},
		{"fmt.Println(a.Index(0, 1), a == b)", []proto.Var{v("a", "local(2)")}, ""},
		{"b, err := f(6, a)", []proto.Var{v("a", "local(2)"), v("b", "local(3)")}, "b"},
		{"b, err := f(6, a)", []proto.Var{v("a", "local(2)"), v("b", "local(3)")}, "b"},
		{"change(&a)", []proto.Var{v("a", "local(4)"), v("b", "local(3)")}, "a"},
		{"%%tile p\nprogram p<1>() warps=1 {\n}", []proto.Var{v("a", "local(4)"), v("p", "program")}, "p"},
		{"%%tile p\nprogram p<1>() warps=1 {\n}", []proto.Var{v("a", "local(4)"), v("p", "program")}, "p"},
		{"if a != b {\n}", []proto.Var{v("a", "local(4)")}, ""},
	} {
		var names []string
		for _, l := range seen(b.set(c.vars, c.source), nil, "s") {
			names = append(names, l.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%q links %q, want %q", c.source, got, c.want)
		}
	}
}

// A large picture travels without its texts in the SVG, a small one with them.
func TestTextsApart(t *testing.T) {
	for chain, apart := range map[string]bool{"spatial(8, 4)": false, "spatial(8, 4).local(4, 8)": true, "local(4096, 1)": false} {
		p, err := pane.Find("layout")
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Run(pane.Values{"e": chain})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Pictures []struct {
				SVG   string
				Texts [][]any
			}
		}
		if err := json.Unmarshal(answer.Result(r), &got); err != nil {
			t.Fatal(err)
		}
		tensor := got.Pictures[0]
		if strings.Contains(tensor.SVG, "<text") == apart || (len(tensor.Texts) > 0) != apart {
			t.Errorf("%s: %d texts beside an SVG of %d bytes", chain, len(tensor.Texts), len(tensor.SVG))
			continue
		}
		if words := 0; apart {
			for _, x := range tensor.Texts {
				words += len(x[5].([]any)) / 2
			}
			if words < 2*1024 {
				t.Errorf("%s: %d words for 1024 cells", chain, words)
			}
		}
	}
}

func TestServe(t *testing.T) {
	dir := need.Scratch(t)
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, Options{Port: -1, DataDir: dir, Ready: func(s string) { ready <- s }}) }()
	first := <-ready
	again, ok := Running(dir)
	if !ok || again == first || !strings.Contains(again, "token=") {
		t.Errorf("Running = %q, %v", again, ok)
	}
	u, err := url.Parse(first)
	must(t, err)
	var port int
	fmt.Sscan(u.Port(), &port)
	if err := Serve(ctx, Options{Port: port, DataDir: need.Scratch(t)}); err == nil || !strings.Contains(err.Error(), "--port") {
		t.Errorf("a busy port: %v", err)
	}
	stop()
	select {
	case err := <-ended:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("Serve did not stop")
	}
	if _, ok := Running(dir); ok {
		t.Error("Running after the end")
	}
}

// What link.Query writes, the grammar of addresses reads.
func TestQuery(t *testing.T) {
	for _, c := range [][4]string{
		{"layout", "local(2, 1) * spatial(8, 4)", "layout", "e"},
		{"program", "program p<1>() warps=1 {\n\t// a&b=c%20+\n}", "program", "src"},
		{"type", "f4e2m1", "see", "x"},
	} {
		v, err := answer.ParseQuery(strings.TrimPrefix(link.Query(c[0], c[1]), "?"))
		if err != nil || len(v) != 1 || v[0].Pane != c[2] || v[0].Values[c[3]] != c[1] {
			t.Errorf("%s: %v, %v", c[0], v, err)
		}
	}
}

// The grammar of addresses: what is said of a picture is drawn or refused, never
// passed over; only names that nobody knows are.
func TestAddresses(t *testing.T) {
	_, base := testServer(t)
	draw := func(name string, v pane.Values) string {
		p, err := pane.Find(name)
		must(t, err)
		r, err := p.Run(v)
		must(t, err)
		return string(r.Pictures[0].SVG)
	}
	whole := draw("layout", nil)
	for query, want := range map[string]string{ // "" for refused
		"":                                 whole,
		"v=1":                              whole,
		"v=2&newer=field":                  whole,
		"embed=1":                          whole,
		"e=local(4,2)":                     draw("layout", pane.Values{"e": "local(4,2)"}),
		"v=1&e=local(4,2)&newer=1":         draw("layout", pane.Values{"e": "local(4,2)"}),
		"pal=okabe-ito&e=local(2)":         draw("layout", pane.Values{"e": "local(2)", "pal": "okabe-ito"}),
		"e=local(2)&p=layout":              whole, // each pane has its own values
		"p=layout&e=local(2)&p=layout&e=x": draw("layout", pane.Values{"e": "local(2)"}),
		"p=reinterpret&w=":                 draw("reinterpret", nil),
		"e=local(4096,4096)":               draw("layout", pane.Values{"e": "local(4096,4096)"}),
		"e=":                               "",
		"e=nonsense":                       "",
		"e=local(2)&pal=beige":             "",
		"p=":                               "",
		"p=nothing":                        "",
		"p=reinterpret&w=9":                "",
		"p=reinterpret&w=six":              "",
		"p=reinterpret&k=complex":          "",
		"p=reinterpret&t=500":              "",
		"v=one":                            "",
		"v=0":                              "",
		"v":                                "",
	} {
		w, body := get(t, "GET", base+"/svg?"+query, nil)
		if want == "" && (w.StatusCode != 400 || body == "") || want != "" && (w.StatusCode != 200 || body != want) {
			t.Errorf("%q: %d %.120q", query, w.StatusCode, body)
		}
	}
	if w, _ := get(t, "GET", base+"/svg?name=nothing", nil); w.StatusCode != 404 {
		t.Errorf("a picture of no such name: %d", w.StatusCode)
	}
}

func FuzzState(f *testing.F) {
	f.Add("v=1&p=layout&e=local(2,1)")
	f.Add("v=9&x=1&p=a&p=b&c=%20+")
	f.Fuzz(func(t *testing.T, q string) {
		views, err := answer.ParseQuery(q)
		if err == nil && (len(views) == 0 || len(views) > answer.MaxViews) {
			t.Errorf("%q: %d views", q, len(views))
		}
	})
}

// Whatever a page sends is either refused or answered; nothing it says makes the
// server panic. Only requests without a device or file are tried.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"v":1,"id":1,"type":"hello"}`))
	f.Add([]byte(`{"v":1,"id":2,"type":"render","body":{"view":"a","pane":"layout","values":{"e":"local(2)"}}}`))
	f.Add([]byte(`{"v":2,"id":3,"type":"render","body":{"pane":"reinterpret","values":{"w":"3","t":"0,1","e":"local(8)"}}}`))
	f.Add([]byte(`{"v":1,"id":4,"type":"render","body":{"pane":"see","values":{"x":"program p<1>() warps=1 {}"}}}`))
	s, err := newServer(Options{DataDir: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := answer.Parse(b)
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c := s.newConn(ctx, cancel, RoleRun)
		body, err := c.handle(ctx, cancel, e)
		if err == nil {
			if _, err := json.Marshal(body); err != nil {
				t.Errorf("%q: the answer is no JSON: %v", b, err)
			}
		}
	})
}

// served is an explorer of its own until ctx ends: its address, the cookies of a person who has logged in, and how it ended.
func served(t *testing.T, ctx context.Context, data string) (*url.URL, http.CookieJar, <-chan error) {
	t.Helper()
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- Serve(ctx, Options{Port: -1, DataDir: data, Ready: func(s string) { ready <- s }}) }()
	start := <-ready
	jar, err := cookiejar.New(nil)
	must(t, err)
	w, err := (&http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}).Get(start)
	must(t, err)
	w.Body.Close()
	u, err := url.Parse(start)
	must(t, err)
	return u, jar, ended
}

// A notebook of a stranger is shown or refused; opening it runs nothing.
func FuzzNotebook(f *testing.F) {
	f.Add([]byte(smallBook))
	f.Add([]byte(`{"nbformat":4,"cells":[{"cell_type":"code","source":["1","2"],"execution_count":3,"outputs":[{"output_type":"display_data","data":{"text/html":["<b>"],"image/png":"AA==","application/json":{"a":[1]}}},{"output_type":"error","ename":"e","evalue":"v","traceback":["\u001b[31mx"]},{"output_type":"stream","name":"stderr","text":["a\n","b"]}]}]}`))
	f.Add([]byte(`{"nbformat":4,"cells":[{"cell_type":"markdown","source":"# a\n<script>$x$"}]}`))
	root := f.TempDir()
	s, err := newServer(Options{DataDir: f.TempDir(), Root: root})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(filepath.Join(root, "01.ipynb"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c := s.newConn(ctx, cancel, RoleView)
		body, err := c.handle(ctx, cancel, answer.Message{V: 1, ID: 1, Type: "nb.open", Body: json.RawMessage(`{"name":"01"}`)})
		if err != nil {
			return
		}
		if _, err := json.Marshal(body); err != nil {
			t.Errorf("%q: the answer is no JSON: %v", raw, err)
		}
	})
}
