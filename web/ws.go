package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// envelope is a message in either direction, version 1. A request has an ID that
// its answers repeat; answers are "ok", "error" or "superseded", after any number
// of others. Messages that answer nothing have ID 0. Unknown fields are ignored.
type envelope struct {
	V    int             `json:"v"`
	ID   int64           `json:"id"`
	Type string          `json:"type"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Limits of one connection.
const (
	maxMessage  = 1 << 20
	maxPending  = 64 // requests of a connection that are being worked on
	maxQueue    = 256
	maxConns    = 512
	pingEvery   = 20 * time.Second
	idleLimit   = 60 * time.Second
	writeLimit  = 10 * time.Second
	maxRunTime  = 2 * time.Minute
	deviceLimit = 20 * time.Second
)

// problem is a located complaint as the page gets it. Param names the field;
// lines and columns count from 1, columns in bytes.
type problem struct {
	Param   string `json:"param"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	EndLine int    `json:"endLine,omitempty"`
	EndCol  int    `json:"endCol,omitempty"`
	Code    string `json:"code,omitempty"`
	Msg     string `json:"msg"`
	Help    string `json:"help,omitempty"`
}

func problems(err error) []problem {
	var list diag.List
	if !errors.As(err, &list) {
		return []problem{{Msg: err.Error()}}
	}
	var out []problem
	for i, p := range list {
		if i == diag.MaxShown {
			break
		}
		out = append(out, problem{Param: p.Pos.File, Line: p.Pos.Line, Col: p.Pos.Col, EndLine: p.End.Line, EndCol: p.End.Col, Code: p.Code, Msg: p.Msg, Help: p.Help})
	}
	return out
}

// conns are the open websockets.
type conns struct {
	mu     sync.Mutex
	all    map[*conn]bool
	closed bool
}

func (c *conns) add(x *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.all) >= maxConns {
		return false
	}
	if c.all == nil {
		c.all = map[*conn]bool{}
	}
	c.all[x] = true
	return true
}

func (c *conns) remove(x *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, x)
}

func (c *conns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for x := range c.all {
		x.cancel()
	}
}

// varsChanged tells all pages; a value that a cell asked to show comes along.
func (c *conns) varsChanged(shown *link.Explore, session string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.all {
		x.push(0, "vars", x.s.vars.list())
		if shown != nil {
			x.push(0, "explore", map[string]string{"session": session, "name": shown.Name, "form": shown.Form, "text": shown.Text})
		}
	}
}

// conn is one page.
type conn struct {
	s      *server
	ws     *websocket.Conn
	out    chan []byte
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	pending map[int64]context.CancelFunc
	views   map[string]*drawing
}

// drawing is the newest request of one view of a page.
type drawing struct {
	id     int64
	cancel context.CancelFunc
}

func (s *server) ws(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{
		HandshakeTimeout: 10 * time.Second,
		WriteBufferSize:  16 << 10,
		ReadBufferSize:   4 << 10,
		// A browser always sends Origin with a websocket; a request without one
		// comes from a program that already holds the cookie.
		CheckOrigin: func(r *http.Request) bool { o := r.Header.Get("Origin"); return o == "" || s.ownOrigin(o) },
	}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &conn{s: s, ws: ws, out: make(chan []byte, maxQueue), ctx: ctx, cancel: cancel,
		pending: map[int64]context.CancelFunc{}, views: map[string]*drawing{}}
	if !s.conns.add(c) {
		cancel()
		ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseTryAgainLater, "too many pages are open"), time.Now().Add(time.Second))
		ws.Close()
		return
	}
	defer s.conns.remove(c)
	go c.write()
	c.read()
	cancel()
}

// write is the only goroutine that writes to the socket.
func (c *conn) write() {
	defer c.ws.Close()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case b := <-c.out:
			c.ws.SetWriteDeadline(time.Now().Add(writeLimit))
			if c.ws.WriteMessage(websocket.TextMessage, b) != nil {
				c.cancel()
				return
			}
		case <-tick.C:
			if c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeLimit)) != nil {
				c.cancel()
				return
			}
		case <-c.ctx.Done():
			c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, ""), time.Now().Add(time.Second))
			return
		}
	}
}

func (c *conn) read() {
	c.ws.SetReadLimit(maxMessage)
	alive := func(string) error { return c.ws.SetReadDeadline(time.Now().Add(idleLimit)) }
	alive("")
	c.ws.SetPongHandler(alive)
	for {
		kind, b, err := c.ws.ReadMessage()
		if err != nil {
			return
		}
		alive("")
		e, err := parseMessage(b)
		if err != nil || kind != websocket.TextMessage {
			c.fail(0, errMessage)
			continue
		}
		c.accept(e)
	}
}

var errMessage = errors.New("a message must be JSON {v: 1, id, type, body} with a number and a type")

func parseMessage(b []byte) (envelope, error) {
	var e envelope
	if json.Unmarshal(b, &e) != nil || e.V < 1 || e.ID < 1 || e.Type == "" || len(e.Type) > 40 {
		return envelope{}, errMessage
	}
	return e, nil
}

// accept starts work on a request.
func (c *conn) accept(e envelope) {
	if e.Type == "cancel" {
		var target int64
		if json.Unmarshal(e.Body, &target) == nil {
			c.mu.Lock()
			if f := c.pending[target]; f != nil {
				f()
			}
			c.mu.Unlock()
		}
		c.push(e.ID, "ok", nil)
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	c.mu.Lock()
	if len(c.pending) >= maxPending || c.pending[e.ID] != nil {
		c.mu.Unlock()
		cancel()
		c.fail(e.ID, fmt.Errorf("more than %d requests at a time, or a number used twice", maxPending))
		return
	}
	c.pending[e.ID] = cancel
	c.mu.Unlock()
	go func() {
		defer func() {
			cancel()
			c.mu.Lock()
			delete(c.pending, e.ID)
			c.mu.Unlock()
		}()
		body, err := c.handle(ctx, cancel, e)
		switch {
		case errors.Is(err, errSuperseded), err != nil && ctx.Err() != nil:
			c.push(e.ID, "superseded", nil)
		case err != nil:
			c.fail(e.ID, err)
		default:
			c.push(e.ID, "ok", body)
		}
	}()
}

var errSuperseded = errors.New("a newer request for the same view")

// handle does one request.
func (c *conn) handle(ctx context.Context, cancel context.CancelFunc, e envelope) (any, error) {
	decode := func(v any) error {
		if err := json.Unmarshal(e.Body, v); err != nil {
			return fmt.Errorf("the body of %s does not fit: %w", e.Type, err)
		}
		return nil
	}
	switch e.Type {
	case "hello":
		return c.hello(), nil
	case "render":
		var q struct {
			View   string      `json:"view"`
			Pane   string      `json:"pane"`
			Values pane.Values `json:"values"`
		}
		if err := decode(&q); err != nil {
			return nil, err
		}
		return c.render(ctx, cancel, e.ID, q.View, q.Pane, q.Values)
	case "palette":
		return c.s.palette(), nil
	case "example":
		var name string
		if err := decode(&name); err != nil {
			return nil, err
		}
		src := corpus.Program(name)
		if src == "" {
			return nil, fmt.Errorf("there is no example program %.60q", name)
		}
		return map[string]string{"src": src}, nil
	case "devices":
		if c.s.opt.Backend == nil {
			return []Device{}, nil
		}
		ctx, cancel := context.WithTimeout(ctx, deviceLimit)
		defer cancel()
		return c.s.opt.Backend.Devices(ctx)
	case "run":
		var q RunRequest
		if err := decode(&q); err != nil {
			return nil, err
		}
		if c.s.opt.Backend == nil {
			return nil, errors.New("this explorer was started without devices")
		}
		ctx, cancel := context.WithTimeout(ctx, maxRunTime)
		defer cancel()
		return c.s.opt.Backend.Run(ctx, q)
	}
	if c.s.books != nil {
		return c.s.books.handle(ctx, c, e.ID, e.Type, decode)
	}
	if len(e.Type) > 3 && e.Type[:3] == "nb." {
		return nil, errNoBooks
	}
	return nil, fmt.Errorf("there is no request %.40q", e.Type)
}

// hello is what a page asks first: the rows, and what else there is.
func (c *conn) hello() any {
	type row struct {
		Name   string       `json:"name"`
		Title  string       `json:"title"`
		Doc    string       `json:"doc"`
		Params []pane.Param `json:"params"`
	}
	var rows []row
	for _, p := range pane.All() {
		rows = append(rows, row{p.Name, p.Title, p.Doc, p.Params})
	}
	books := []string{}
	if c.s.books != nil {
		books = c.s.books.list()
	}
	forms := []string{}
	for _, f := range layoutviz.Formats() {
		forms = append(forms, f.Name)
	}
	out := map[string]any{"forms": forms, "panes": rows, "vars": c.s.vars.list(), "notebooks": books}
	if c.s.opt.Backend != nil && c.s.opt.Sample.Program != "" {
		out["sample"] = c.s.opt.Sample
	}
	return out
}

// render draws one view of the page. A newer request for the view cancels it.
func (c *conn) render(ctx context.Context, cancel context.CancelFunc, id int64, name, paneName string, v pane.Values) (any, error) {
	me := &drawing{id, cancel}
	c.mu.Lock()
	if old := c.views[name]; old != nil {
		if old.id > id {
			c.mu.Unlock()
			return nil, errSuperseded
		}
		old.cancel()
	}
	if len(c.views) >= maxPending && c.views[name] == nil {
		clear(c.views)
	}
	c.views[name] = me
	c.mu.Unlock()
	r, err := c.s.draw.render(ctx, c.s.vars.bind, paneName, v)
	if ctx.Err() != nil {
		return nil, errSuperseded
	}
	if err != nil {
		return nil, err
	}
	return resultJSON(r), nil
}

// Pictures with at least this many elements go to the page as an SVG without
// texts, and the texts, which the page draws on a canvas of at most maxCanvas
// pixels each way.
const (
	splitFrom = 400
	maxCanvas = 8192
)

// resultJSON writes the pictures' element tables as short arrays,
// [id, x, y, w, h, [keys], label, thread], which is most of the message, and
// texts as [y, size, colour, anchor, bold, [x, word, x, word, …]].
func resultJSON(r pane.Result) json.RawMessage {
	size := 1 << 10
	for _, p := range r.Pictures {
		size += len(p.SVG) + 90*len(p.IDs)
	}
	b := append(make([]byte, 0, size), `{"sentence":`...)
	b = appendString(b, r.Sentence)
	b = append(b, `,"text":`...)
	b = appendString(b, r.Text)
	b = append(b, `,"pictures":[`...)
	for i, p := range r.Pictures {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = appendString(b, p.Name)
		b = append(b, `,"title":`...)
		b = appendString(b, p.Title)
		b = append(b, `,"desc":`...)
		b = appendString(b, p.Desc)
		b = append(b, `,"width":`...)
		b = strconv.AppendInt(b, int64(p.Width), 10)
		b = append(b, `,"height":`...)
		b = strconv.AppendInt(b, int64(p.Height), 10)
		svg, texts := p.SVG, []layoutviz.Text(nil)
		if len(p.IDs) >= splitFrom && p.Width <= maxCanvas && p.Height <= maxCanvas {
			svg, texts = p.Split()
		}
		b = append(b, `,"svg":`...)
		b = appendString(b, string(svg))
		b = append(b, `,"texts":[`...)
		for j, t := range texts {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendText(b, t)
		}
		b = append(b, ']')
		b = append(b, `,"ids":[`...)
		for j, e := range p.IDs {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendElement(b, e)
		}
		b = append(b, ']')
		if len(p.Go) > 0 {
			// The error cannot happen: these are strings.
			raw, _ := json.Marshal(p.Go)
			b = append(append(b, `,"go":`...), raw...)
		}
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

func appendText(b []byte, t layoutviz.Text) []byte {
	b = append(b, '[')
	b = strconv.AppendInt(b, int64(t.Y), 10)
	b = append(b, ',')
	b = strconv.AppendFloat(b, t.Size, 'f', -1, 64)
	b = append(b, ',')
	b = appendString(b, t.Color)
	b = append(b, ',')
	b = appendString(b, t.Anchor)
	b = append(b, ',')
	b = strconv.AppendBool(b, t.Bold)
	b = append(b, ",["...)
	for i, w := range t.Words {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(w.X), 10)
		b = append(b, ',')
		b = appendString(b, w.S)
	}
	return append(b, "]]"...)
}

func appendElement(b []byte, e layoutviz.Element) []byte {
	b = append(b, '[')
	b = appendString(b, e.ID)
	for _, n := range []int{e.X, e.Y, e.W, e.H} {
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(n), 10)
	}
	b = append(b, ",["...)
	for i, k := range e.Keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(k), 10)
	}
	b = append(b, "],"...)
	b = appendString(b, e.Label)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(e.Thread), 10)
	return append(b, ']')
}

func appendString(b []byte, s string) []byte {
	simple := true
	for i := 0; i < len(s) && simple; i++ {
		simple = s[i] >= ' ' && s[i] < 0x7f && s[i] != '"' && s[i] != '\\'
	}
	if simple {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	q, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always encode
	}
	return append(b, q...)
}

// push queues a message. A page that does not read loses its connection rather
// than hold up others; it connects again and asks anew.
func (c *conn) push(id int64, kind string, body any) {
	raw, ready := body.(json.RawMessage)
	if body != nil && !ready {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			panic(err) // bodies are our own types
		}
	}
	// Written by hand: Marshal would read a result of megabytes once more.
	b := make([]byte, 0, len(raw)+80)
	b = append(b, `{"v":1,"id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, `,"type":`...)
	b = appendString(b, kind)
	if raw != nil {
		b = append(b, `,"body":`...)
		b = append(b, raw...)
	}
	b = append(b, '}')
	select {
	case c.out <- b:
	default:
		c.cancel()
	}
}

func (c *conn) fail(id int64, err error) {
	c.push(id, "error", map[string]any{"problems": problems(err)})
}
