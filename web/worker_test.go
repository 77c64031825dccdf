package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
	"github.com/tilus-lab/tilus-lab/web/answer"
)

// TestMain lets the test binary stand in for a worker: what a cell says is what
// it does.
func TestMain(m *testing.M) {
	if os.Getenv("TILUS_FAKE_WORKER") == "1" {
		os.Exit(fakeWorker(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// workingServer is a testServer whose cells fakeWorker runs.
func workingServer(t *testing.T) (*server, string) {
	t.Setenv("TILUS_FAKE_WORKER", "1")
	exe, err := os.Executable()
	must(t, err)
	s, base := testServer(t)
	s.books.worker = session.Options{Exe: []string{exe}}
	return s, base
}

func fakeWorker(in io.Reader, out io.Writer) int {
	r, w := proto.NewReader(in), proto.NewWriter(out)
	w.Send(&proto.Event{Kind: proto.KindReady, Ready: &proto.Ready{PID: os.Getpid(), Go: "go1.26", Version: proto.Version}})
	for {
		var q proto.Request
		if err := r.Receive(&q); err != nil || q.Op == proto.OpShutdown {
			if errors.Is(err, io.EOF) || err == nil {
				return 0
			}
			return 1
		}
		if q.Op != proto.OpExecute && q.Op != proto.OpReset {
			continue
		}
		done := proto.Done{Status: "ok"}
		switch {
		case q.Code == "fail":
			done.Status = "error"
			w.Send(&proto.Event{ID: q.ID, Kind: proto.KindError, Error: &proto.Error{Name: "Panic", Value: "no", Traceback: []string{"\x1b[31mcell 1:1: no\x1b[0m"}}})
		case strings.HasPrefix(q.Code, "html "):
			w.Send(&proto.Event{ID: q.ID, Kind: proto.KindDisplay, Bundle: &proto.Bundle{Data: map[string]any{"text/html": strings.TrimPrefix(q.Code, "html "), "text/plain": "page", "image/svg+xml": "<svg/>"}}})
		case strings.HasPrefix(q.Code, "say "):
			w.Send(&proto.Event{ID: q.ID, Kind: proto.KindStream, Stream: &proto.Stream{Name: "stdout", Text: q.Code[4:]}})
		case q.Code == "animate":
			shown := &proto.Event{ID: q.ID, Kind: proto.KindDisplay, Bundle: &proto.Bundle{Data: map[string]any{"text/plain": "."}, DisplayID: "d"}}
			for n := 0; w.Send(shown) == nil; n++ {
				shown.Bundle.Update = true
				if n%100 == 99 { // a page is left behind that more waits for
					time.Sleep(500 * time.Millisecond)
				}
			}
		case q.Code == "flood":
			for range 200 {
				w.Send(&proto.Event{ID: q.ID, Kind: proto.KindStream, Stream: &proto.Stream{Name: "stdout", Text: strings.Repeat("x", 64<<10)}})
			}
		case strings.HasPrefix(q.Code, "acc = "):
			w.Send(&proto.Event{ID: q.ID, Kind: proto.KindStream, Stream: &proto.Stream{Name: "stdout", Text: "one "}})
			w.Send(&proto.Event{ID: q.ID, Kind: proto.KindStream, Stream: &proto.Stream{Name: "stdout", Text: "two\n"}})
			w.Send(&proto.Event{ID: q.ID, Kind: proto.KindResult, Bundle: &proto.Bundle{Data: map[string]any{"image/svg+xml": "<svg/>", "text/plain": "pic"}}})
			w.Send(&proto.Event{ID: q.ID, Kind: proto.KindVars, Vars: &proto.Vars{Vars: []proto.Var{{Name: "acc", Type: "layout.Layout", Form: "layout", Text: strings.TrimPrefix(q.Code, "acc = "), Fresh: true}}}})
		}
		w.Send(&proto.Event{ID: q.ID, Kind: proto.KindDone, Done: &done})
	}
}

func TestNotebookRuns(t *testing.T) {
	s, base := workingServer(t)
	c := dial(t, s, base)
	c.trust("01", false)
	var vars string
	run := func(code string) (outputs []string, end string) {
		t.Helper()
		id := c.send("nb.run", map[string]string{"name": "01", "cell": "c", "source": code})
		c.ws.SetReadDeadline(time.Now().Add(20 * time.Second))
		for {
			var e answer.Message
			must(t, c.ws.ReadJSON(&e))
			switch {
			case e.ID == id && e.Type == "output":
				outputs = append(outputs, string(e.Body))
			case e.ID == id && e.Type == "vars":
				vars = string(e.Body)
			case e.ID == id:
				return outputs, e.Type + " " + string(e.Body)
			}
		}
	}
	out, end := run("acc = spatial(8, 4)")
	if len(out) != 3 || out[0] != `{"kind":"stream","text":"one "}` || !strings.Contains(out[2], "data:image/svg+xml;base64,") || !strings.Contains(end, `"status":"ok"`) {
		t.Errorf("outputs %q, %s", out, end)
	}
	if want := "?v=1\\u0026p=layout\\u0026e=%24acc%40nb%3A01-first"; !strings.Contains(vars, want) {
		t.Errorf("the cell's variables are %s, want %s", vars, want)
	}
	if kind, body := c.ask("render", map[string]any{"view": "a", "pane": "layout", "values": map[string]string{"e": "$acc@nb:01-first"}}); kind != "ok" || !strings.Contains(body, "[8, 4]") {
		t.Errorf("a pane does not see the variable: %s %.100s", kind, body)
	}
	if out, end := run("fail"); len(out) != 1 || !strings.Contains(out[0], `"kind":"error","text":"cell 1:1: no"`) || !strings.Contains(end, `"status":"error"`) {
		t.Errorf("failing cell: %q, %s", out, end)
	}
	if out, end := run("flood"); len(out) > 70 || !strings.Contains(out[len(out)-1], "more output was dropped") || !strings.Contains(end, `"status":"ok"`) {
		t.Errorf("flooding cell: %d outputs, %s", len(out), end)
	}
	// HTML with scripts gets a frame of its own, without this origin.
	out, _ = run("html <script>parent.document</script>")
	var framed outputJSON
	must(t, json.Unmarshal([]byte(out[0]), &framed))
	if framed.Kind != "frame" || !framed.Scripts {
		t.Fatalf("HTML output: %s", out[0])
	}
	w, body := get(t, "GET", base+"/frame/"+framed.Src, map[string]string{"Cookie": s.cookieHeader()})
	if p := w.Header.Get("Content-Security-Policy"); w.StatusCode != 200 || !strings.Contains(body, "parent.document") || !strings.HasPrefix(p, "sandbox allow-scripts; default-src 'none'") || strings.Contains(p, "same-origin") {
		t.Errorf("frame: %d %q", w.StatusCode, w.Header.Get("Content-Security-Policy"))
	}
	if w, _ := get(t, "GET", base+"/frame/"+framed.Src, nil); w.StatusCode != 403 {
		t.Errorf("a frame without the cookie: %d", w.StatusCode)
	}
	if w, _ := get(t, "GET", base+"/frame/guess", map[string]string{"Cookie": s.cookieHeader()}); w.StatusCode != 404 {
		t.Errorf("a guessed frame: %d", w.StatusCode)
	}
	// One that a file brought runs nothing.
	still := s.books.form(nbOutput{Type: "display_data", Data: map[string]any{"text/html": "<script>1</script>"}})
	w, _ = get(t, "GET", base+"/frame/"+still.Src, map[string]string{"Cookie": s.cookieHeader()})
	if p := w.Header.Get("Content-Security-Policy"); still.Kind != "frame" || still.Scripts || !strings.HasPrefix(p, "sandbox; default-src 'none'") || strings.Contains(p, "script-src") {
		t.Errorf("a frame from a file: %+v %s", still, p)
	}
	if x := s.books.form(nbOutput{Type: "display_data", Data: map[string]any{"text/html": "<script>1</script>", "image/svg+xml": "<svg/>"}}); x.Kind != "image" {
		t.Errorf("a picture from a file: %+v", x)
	}
	if _, end := run("acc = local(2)"); !strings.Contains(end, "ok") {
		t.Error(end)
	}
	cells := []map[string]string{{"id": "c", "type": "code", "source": "acc = local(2)"}}
	if kind, body := c.ask("nb.save", map[string]any{"name": "01", "cells": cells}); kind != "ok" {
		t.Fatal(body)
	}
	raw, err := os.ReadFile(filepath.Join(s.books.dir, "01-first.ipynb"))
	must(t, err)
	for _, want := range []string{`"one two\n"`, `"execution_count": 5`, `"<svg/>"`, `"metadata": {}`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the saved notebook lacks %s: %s", want, raw)
		}
	}
	if kind, body := c.ask("nb.restart", map[string]string{"name": "01"}); kind != "ok" {
		t.Error(body)
	}
}

// Cells run in the order in which a page sends them, also while the worker starts, and behind a restart.
func TestCellsInOrder(t *testing.T) {
	s, base := workingServer(t)
	c := dial(t, s, base)
	c.trust("01", false)
	for range 2 {
		want, got := "", ""
		var last int64
		for i := range 40 {
			last = c.send("nb.run", map[string]string{"name": "01", "cell": "c", "source": fmt.Sprint("say ", i)})
			want += fmt.Sprintln(i, i+1)
		}
		c.ws.SetReadDeadline(time.Now().Add(20 * time.Second))
		said := ""
		for done := false; !done; {
			var e answer.Message
			must(t, c.ws.ReadJSON(&e))
			switch {
			case e.Type == "output":
				var o outputJSON
				must(t, json.Unmarshal(e.Body, &o))
				said = o.Text
			case e.Type == "ok" && len(e.Body) > 0: // the answer to the restart has none
				var r struct{ Count int }
				must(t, json.Unmarshal(e.Body, &r))
				got += fmt.Sprintln(said, r.Count)
				done = e.ID == last
			}
		}
		if got != want {
			t.Errorf("cells and their counts:\n%s", got)
		}
		c.send("nb.restart", map[string]string{"name": "01"}) // the next cells stand behind it, and count from 1
	}
}

// A cell that shows something anew all the time ends with its session: neither waits for the other.
func TestAnimatedRestarts(t *testing.T) {
	s, base := workingServer(t)
	c := dial(t, s, base)
	c.trust("01", false)
	for range 3 {
		id := c.send("nb.run", map[string]string{"name": "01", "cell": "c", "source": "animate"})
		c.until(id, "update")
		restart := c.send("nb.restart", map[string]string{"name": "01"})
		for _, body := range c.answers(id, restart) {
			if strings.Contains(body, "problems") {
				t.Error(body)
			}
		}
	}
	id := c.send("nb.run", map[string]string{"name": "01", "cell": "c", "source": "animate"})
	c.until(id, "update")
	ended := make(chan bool)
	go func() {
		s.close()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not end while a cell shows something")
	}
}
