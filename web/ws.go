package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/web/answer"
)

// Limits of one connection.
const (
	maxMessage  = 1 << 20
	maxPending  = 64 // requests of a connection that are being worked on
	maxQueue    = 256
	maxQueued   = 64 << 20 // bytes that wait to be sent
	maxConns    = 512
	pingEvery   = 20 * time.Second
	idleLimit   = 60 * time.Second
	writeLimit  = 10 * time.Second
	maxRunTime  = 2 * time.Minute
	maxRuns     = 4 // on devices at a time, of all pages
	deviceLimit = 20 * time.Second
)

// conns are the open websockets.
type conns struct {
	mu     sync.Mutex
	all    map[*conn]bool
	closed bool
	live   sync.WaitGroup
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
	c.live.Add(1)
	return true
}

func (c *conns) remove(x *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, x)
	c.live.Done()
}

func (c *conns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for x := range c.all {
		x.cancel()
	}
}

// wait returns when the last connection has ended, or ctx.
func (c *conns) wait(ctx context.Context) {
	gone := make(chan struct{})
	go func() {
		c.live.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
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

	role   Role
	share  chan struct{} // held while something is drawn for this page
	queued atomic.Int64  // bytes in out

	mu      sync.Mutex
	pending map[int64]context.CancelFunc
	turn    chan struct{} // closed when all of turns that were asked for have been done; nil for none yet
	views   map[string]*drawing
	books   map[string]string // sum of each notebook as this page has last seen it
}

// saw notes which file of a notebook this page knows; sawLast is that, or what any
// page knows for one that has only now connected. Both are called with b locked.
func (c *conn) saw(b *book) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.books == nil {
		c.books = map[string]string{}
	}
	c.books[b.name] = b.sum
}

func (c *conn) sawLast(b *book) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sum, ok := c.books[b.name]; ok {
		return sum
	}
	return b.sum
}

// drawing is the newest request of one view of a page.
type drawing struct {
	id     int64
	cancel context.CancelFunc
}

func (s *server) newConn(ctx context.Context, cancel context.CancelFunc, role Role) *conn {
	return &conn{s: s, out: make(chan []byte, maxQueue), ctx: ctx, cancel: cancel, role: role, share: make(chan struct{}, s.draw.share()),
		pending: map[int64]context.CancelFunc{}, views: map[string]*drawing{}}
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
	c := s.newConn(ctx, cancel, roleOf(r))
	c.ws = ws
	if !s.conns.add(c) {
		cancel()
		ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseTryAgainLater, "too many pages are open"), time.Now().Add(time.Second))
		ws.Close()
		return
	}
	defer s.conns.remove(c)
	written := make(chan struct{})
	go func() {
		defer close(written)
		c.write()
	}()
	c.read()
	cancel()
	<-written
}

// write is the only goroutine that writes to the socket.
func (c *conn) write() {
	defer c.ws.Close()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case b := <-c.out:
			c.queued.Add(-int64(len(b)))
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
			c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseGoingAway, "the explorer stops, or this page did not read"), time.Now().Add(time.Second))
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
		e, err := answer.Parse(b)
		if err != nil || kind != websocket.TextMessage {
			c.fail(0, answer.ErrMessage)
			continue
		}
		c.accept(e)
	}
}

// accept starts work on a request.
func (c *conn) accept(e answer.Message) {
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
	before, mine := c.turn, make(chan struct{})
	waits, takes := turns[e.Type]
	if takes {
		c.turn = mine
	}
	c.mu.Unlock()
	go func() {
		defer func() {
			cancel()
			c.mu.Lock()
			delete(c.pending, e.ID)
			c.mu.Unlock()
			if takes {
				if before != nil {
					<-before
				}
				close(mine)
			}
		}()
		if waits && before != nil {
			select {
			case <-before:
			case <-ctx.Done():
			}
		}
		if e.Type == "hello" {
			c.hello(e.ID)
			return
		}
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

// turns are the requests that act on what a notebook holds in the order in which its page asks: those of true wait until all before
// them are done. The others are done at once, and waited for.
var turns = map[string]bool{"nb.run": true, "nb.comm": true, "nb.restart": false, "nb.trust": false}

var errSuperseded = errors.New("a newer request for the same view")

// handle does one request.
func (c *conn) handle(ctx context.Context, cancel context.CancelFunc, e answer.Message) (any, error) {
	var books []string
	if e.Type == "palette" && c.s.books != nil {
		books = c.s.books.list()
	}
	draw := func(q answer.Drawing) (json.RawMessage, error) { return c.render(ctx, cancel, e.ID, q) }
	if body, ok, err := e.Ask(c.s.vars.bind, books, draw); ok {
		return body, err
	}
	if c.role != RoleRun && !viewed[e.Type] {
		return nil, errView
	}
	switch e.Type {
	case "devices":
		if c.s.opt.Backend == nil {
			return []Device{}, nil
		}
		ctx, cancel := context.WithTimeout(ctx, deviceLimit)
		defer cancel()
		return c.s.opt.Backend.Devices(ctx)
	case "run":
		var q RunRequest
		if err := e.Decode(&q); err != nil {
			return nil, err
		}
		if c.s.opt.Backend == nil {
			return nil, errors.New("this explorer was started without devices")
		}
		select {
		case c.s.runs <- struct{}{}:
			defer func() { <-c.s.runs }()
		default:
			return nil, fmt.Errorf("%d programs run already; wait until one has ended", maxRuns)
		}
		ctx, cancel := context.WithTimeout(ctx, maxRunTime)
		defer cancel()
		return c.s.opt.Backend.Run(ctx, q)
	}
	if c.s.books != nil {
		return c.s.books.handle(ctx, c, e.ID, e.Type, e.Decode)
	}
	if strings.HasPrefix(e.Type, "nb.") {
		return nil, errNoBooks
	}
	return nil, fmt.Errorf("there is no request %.40q", e.Type)
}

// viewed are the requests of notebooks that only look.
var viewed = map[string]bool{"nb.open": true, "nb.markdown": true}

var errView = errors.New("you may look here, not run or change anything: this explorer gives you the role view; its owner starts it with --role run, or gives you a password of that role")

// hello answers what a page asks first, with the lock of what tells of changes: no page gets an older list of variables
// after a newer one.
func (c *conn) hello(id int64) {
	out := c.about()
	c.s.conns.mu.Lock()
	defer c.s.conns.mu.Unlock()
	out["vars"] = c.s.vars.list()
	c.push(id, "ok", out)
}

// about is what hello says: the rows, and what else there is.
func (c *conn) about() map[string]any {
	books := []string{}
	if c.s.books != nil {
		books = c.s.books.list()
	}
	out := map[string]any{"forms": answer.Forms(), "panes": answer.Rows(), "notebooks": books, "role": c.role,
		"share": map[string]any{"local": c.s.local(), "static": c.s.opt.StaticBase}}
	if c.role == RoleRun && c.s.opt.Backend != nil && c.s.opt.Sample.Program != "" {
		out["sample"] = c.s.opt.Sample
	}
	return out
}

// render draws one view of the page. A newer request for the view cancels it.
func (c *conn) render(ctx context.Context, cancel context.CancelFunc, id int64, q answer.Drawing) (json.RawMessage, error) {
	me := &drawing{id, cancel}
	c.mu.Lock()
	if old := c.views[q.View]; old != nil {
		if old.id > id {
			c.mu.Unlock()
			return nil, errSuperseded
		}
		old.cancel()
	}
	if len(c.views) >= maxPending && c.views[q.View] == nil {
		clear(c.views)
	}
	c.views[q.View] = me
	c.mu.Unlock()
	r, err := c.s.draw.json(ctx, c.share, c.s.vars.bind, q.Pane, q.Values)
	if ctx.Err() != nil {
		return nil, errSuperseded
	}
	if err != nil {
		c.s.tell(err)
		return nil, err
	}
	return r, nil
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
	b = answer.AppendString(b, kind)
	if raw != nil {
		b = append(b, `,"body":`...)
		b = append(b, raw...)
	}
	b = append(b, '}')
	// What waits for a page that does not read is bounded in number and in bytes.
	if waiting := c.queued.Add(int64(len(b))); waiting > maxQueued && waiting > int64(len(b)) {
		c.cancel()
		return
	}
	select {
	case c.out <- b:
	default:
		c.cancel()
	}
}

func (c *conn) fail(id int64, err error) {
	c.push(id, "error", map[string]any{"problems": answer.Problems(err)})
}
