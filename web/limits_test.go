package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/web/answer"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// A drawing that hangs holds one slot: its page gets an error in the end, newer
// requests of its view take its place at once, and other pages are answered.
func TestHangingDrawing(t *testing.T) {
	s, base := testServer(t)
	free, begun := make(chan struct{}), make(chan string, 10)
	s.draw.run = func(name string, v pane.Values) (pane.Result, error) {
		if strings.HasPrefix(v["e"], "local(3") {
			begun <- v["e"]
			<-free
		}
		return answer.Run(name, v)
	}
	defer close(free)
	c := dial(t, s, base)
	draw := func(view, e string) map[string]any {
		return map[string]any{"view": view, "pane": "layout", "values": map[string]string{"e": e}}
	}
	first := c.send("render", draw("a", "local(3)"))
	if e := <-begun; e != "local(3)" {
		t.Fatal(e)
	}
	second := c.send("render", draw("a", "local(31)"))
	if kind, _ := c.answer(first); kind != "superseded" {
		t.Errorf("what a newer request replaced ended as %s", kind)
	}
	if kind, body := dial(t, s, base).ask("render", draw("a", "local(4)")); kind != "ok" {
		t.Errorf("another page: %s %s", kind, body)
	}
	if w, body := get(t, "GET", base+"/svg?e=local(5)", nil); w.StatusCode != 200 {
		t.Errorf("a link: %d %s", w.StatusCode, body)
	}
	id := c.send("cancel", second)
	answers := map[int64]string{}
	c.ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	for len(answers) < 2 {
		var e answer.Message
		must(t, c.ws.ReadJSON(&e))
		answers[e.ID] = e.Type
	}
	if answers[second] != "superseded" || answers[id] != "ok" {
		t.Errorf("a cancelled request: %v", answers)
	}
}

func TestSlowDrawing(t *testing.T) {
	s, base := testServer(t)
	free := make(chan struct{})
	defer close(free)
	s.draw.run = func(string, pane.Values) (pane.Result, error) {
		<-free
		return pane.Result{}, nil
	}
	s.draw.limit = 10 * time.Millisecond
	if kind, body := dial(t, s, base).ask("render", map[string]any{"view": "a", "pane": "layout"}); kind != "error" || !strings.Contains(body, "ask for less") {
		t.Errorf("%s %s", kind, body)
	}
}

// A pane that panics is an error for who asked and a line in the log.
func TestPanickingPane(t *testing.T) {
	s, base, log := attacked(t)
	s.draw.run = func(name string, _ pane.Values) (pane.Result, error) {
		return pane.Result{}, &answer.Panic{Pane: name, Value: "out of range", Stack: "the stack"}
	}
	if kind, body := dial(t, s, base).ask("render", map[string]any{"view": "a", "pane": "layout"}); kind != "error" || !strings.Contains(body, "mistake of Tilus Lab") || strings.Contains(body, "the stack") {
		t.Errorf("%s %s", kind, body)
	}
	if !strings.Contains(log.String(), "the stack") {
		t.Errorf("the log: %s", log)
	}
}

// Pictures are drawn once: who has them already is told so.
func TestPictureTag(t *testing.T) {
	_, base := testServer(t)
	w, _ := get(t, "GET", base+"/svg?e=local(2)", nil)
	tag := w.Header.Get("ETag")
	if tag == "" || !strings.Contains(w.Header.Get("Cache-Control"), "max-age") {
		t.Fatalf("%v", w.Header)
	}
	if w, body := get(t, "GET", base+"/svg?e=local(2)", map[string]string{"If-None-Match": tag}); w.StatusCode != 304 || body != "" {
		t.Errorf("again: %d, %d bytes", w.StatusCode, len(body))
	}
	if w, _ := get(t, "GET", base+"/svg?e=local(3)", map[string]string{"If-None-Match": tag}); w.StatusCode != 200 {
		t.Errorf("another picture: %d", w.StatusCode)
	}
	if w, _ := get(t, "GET", base+"/svg?e=local(2)&as=html", nil); w.StatusCode != 200 || !strings.HasPrefix(w.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("a page: %d %v", w.StatusCode, w.Header)
	}
}

// A page that lost its connection makes a new one and gets the same answers: its
// state is its own. Pages are told when the explorer stops.
func TestReconnectAndStop(t *testing.T) {
	data := need.Scratch(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	u, jar, ended := served(t, ctx, data)
	connect := func() *client {
		ws, _, err := (&websocket.Dialer{Jar: jar}).Dial("ws://"+u.Host+"/ws", http.Header{"Origin": {"http://" + u.Host}})
		must(t, err)
		t.Cleanup(func() { ws.Close() })
		return &client{t: t, ws: ws}
	}
	ask := func(c *client) string {
		_, hello := c.ask("hello", nil)
		kind, body := c.ask("render", map[string]any{"view": "a", "pane": "layout", "values": map[string]string{"e": "spatial(8, 4)"}})
		if kind != "ok" {
			t.Fatal(body)
		}
		return hello + body
	}
	first := connect()
	was := ask(first)
	first.ws.NetConn().Close() // without goodbye
	second := connect()
	if now := ask(second); now != was {
		t.Error("the answers differ after connecting again")
	}
	stop()
	second.ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, _, err := second.ws.ReadMessage()
	if !websocket.IsCloseError(err, websocket.CloseGoingAway) || !strings.Contains(err.Error(), "stops") {
		t.Errorf("a page is told %v", err)
	}
	must(t, <-ended)
}

// More pages than there is room for are turned away with a reason.
func TestTooManyPages(t *testing.T) {
	s, base := testServer(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range maxConns {
		c := s.newConn(ctx, func() {}, RoleView)
		if !s.conns.add(c) {
			t.Fatal("no room")
		}
		defer s.conns.remove(c)
	}
	ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(base, "http")+"/ws", http.Header{"Cookie": {s.cookieHeader()}, "Origin": {base}})
	must(t, err)
	defer ws.Close()
	ws.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseTryAgainLater) {
		t.Errorf("one page too many is told %v", err)
	}
}

// What waits for a page that does not read is bounded in bytes.
func TestQueueBytes(t *testing.T) {
	s, _ := testServer(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := s.newConn(ctx, cancel, RoleView)
	big := strings.Repeat("x", 8<<20)
	for range 20 {
		c.push(0, "vars", big)
	}
	if ctx.Err() == nil {
		t.Error("160 MB wait for one page")
	}
	if n := len(c.out); n*len(big) > maxQueued {
		t.Errorf("%d messages wait", n)
	}
}

// What Share offers says whether an address is for this machine only.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		o     Options
		local bool
	}{
		{Options{StaticBase: "https://lab.example/"}, true},
		{Options{Addr: "0.0.0.0"}, false},
		{Options{BaseURL: "https://hub.example/x/"}, false},
		{Options{BaseURL: "http://127.0.0.1:8888/x/"}, true},
		{Options{BaseURL: "/x/"}, true},
	} {
		c.o.DataDir = t.TempDir()
		s, err := newServer(c.o)
		must(t, err)
		h := s.newConn(context.Background(), func() {}, RoleView).about()
		if got, want := fmt.Sprint(h["share"]), fmt.Sprint(map[string]any{"local": c.local, "static": c.o.StaticBase}); got != want {
			t.Errorf("%+v: %s, want %s", c.o, got, want)
		}
		s.close()
	}
}

// waits is a device that runs until its context ends.
type waits struct{ begun chan bool }

func (waits) Devices(context.Context) ([]Device, error) { return nil, nil }

func (w waits) Run(ctx context.Context, _ RunRequest) (RunResult, error) {
	w.begun <- true
	<-ctx.Done()
	return RunResult{}, ctx.Err()
}

// Devices run a few programs at a time, and none for a page that has gone.
func TestRuns(t *testing.T) {
	s, base := testServer(t)
	w := waits{make(chan bool, 2*maxRuns)}
	s.opt.Backend = w
	c := dial(t, s, base)
	for range maxRuns {
		c.send("run", RunRequest{Program: "p"})
		<-w.begun
	}
	d := dial(t, s, base)
	if kind, body := d.ask("run", RunRequest{Program: "p"}); kind != "error" || !strings.Contains(body, "run already") {
		t.Errorf("one run too many: %s %s", kind, body)
	}
	c.ws.Close()
	for deadline := time.Now().Add(20 * time.Second); len(s.runs) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("programs run for a page that has gone")
		}
	}
	d.send("run", RunRequest{Program: "p"})
	<-w.begun
}

// Of two pages with the same notebook, the one that saves last is told of the other.
func TestTwoPagesSave(t *testing.T) {
	s, base := testServer(t)
	a, b := dial(t, s, base), dial(t, s, base)
	for _, c := range []*client{a, b} {
		if kind, body := c.ask("nb.open", map[string]string{"name": "01"}); kind != "ok" {
			t.Fatal(body)
		}
	}
	save := func(text string) map[string]any {
		return map[string]any{"name": "01", "cells": []map[string]string{{"id": "c", "type": "code", "source": text}}}
	}
	if kind, body := b.ask("nb.save", save("of b")); kind != "ok" {
		t.Fatal(body)
	}
	if kind, body := a.ask("nb.save", save("of a")); kind != "error" || !strings.Contains(body, "changed on disk") {
		t.Errorf("the first page overwrote the second: %s %s", kind, body)
	}
	if kind, body := b.ask("nb.save", save("of b again")); kind != "ok" {
		t.Errorf("the second page saves again: %s", body)
	}
	if kind, body := a.ask("nb.open", map[string]string{"name": "01"}); kind != "ok" || !strings.Contains(body, "of b again") {
		t.Errorf("%s %s", kind, body)
	}
	if kind, body := a.ask("nb.save", save("of a")); kind != "ok" {
		t.Errorf("after reading it again: %s", body)
	}
}
