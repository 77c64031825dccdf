package web

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/web/answer"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// drawer renders panes: a few at a time, and the last results from memory.
type drawer struct {
	slots chan struct{}
	run   func(name string, v pane.Values) (pane.Result, error)
	limit time.Duration // how long somebody waits for a drawing

	mu    sync.Mutex
	cache map[string]*list.Element
	order *list.List // newest first, of *cached
	bytes int
}

// cached is one drawing; raw is the page's answer, made when it is first asked for.
type cached struct {
	key   string
	r     pane.Result
	bytes int

	once sync.Once
	raw  json.RawMessage
}

func (c *cached) json() json.RawMessage {
	c.once.Do(func() { c.raw = answer.Result(c.r) })
	return c.raw
}

// cacheBytes bounds the memory of remembered results, maxDraw the time of one
// drawing.
const (
	cacheBytes = 48 << 20
	maxDraw    = 30 * time.Second
)

func (d *drawer) init(parallel int) {
	d.slots = make(chan struct{}, parallel)
	d.run, d.limit = answer.Run, maxDraw
	d.cache, d.order = map[string]*list.Element{}, list.New()
}

// share is how many drawings one page may have at work: never all there are, so
// that a page with slow drawings leaves room for others.
func (d *drawer) share() int { return max(1, cap(d.slots)/2) }

// render runs a pane. bind replaces values of the form $name@session by the
// text of that variable.
func (d *drawer) render(ctx context.Context, share chan struct{}, bind func(string) (string, error), name string, in pane.Values) (pane.Result, error) {
	c, err := d.draw(ctx, share, bind, name, in)
	if err != nil {
		return pane.Result{}, err
	}
	return c.r, nil
}

// json is render with the answer that a page gets.
func (d *drawer) json(ctx context.Context, share chan struct{}, bind func(string) (string, error), name string, in pane.Values) (json.RawMessage, error) {
	c, err := d.draw(ctx, share, bind, name, in)
	if err != nil {
		return nil, err
	}
	return c.json(), nil
}

func (d *drawer) draw(ctx context.Context, share chan struct{}, bind func(string) (string, error), name string, in pane.Values) (*cached, error) {
	p, err := pane.Find(name)
	if err != nil {
		return nil, err
	}
	v := pane.Values{}
	var key strings.Builder
	key.WriteString(name)
	for _, param := range p.Params {
		s, ok := in[param.Name]
		if !ok {
			continue
		}
		if strings.HasPrefix(s, "$") {
			if s, err = bind(s); err != nil {
				return nil, diag.List{{Pos: diag.Pos{File: param.Name, Line: 1, Col: 1}, Code: "Web.E1", Msg: err.Error()}}
			}
		}
		v[param.Name] = s
		fmt.Fprintf(&key, "\x00%s=%d:%s", param.Name, len(s), s)
	}
	if c := d.recall(key.String()); c != nil {
		return c, nil
	}
	late := time.NewTimer(d.limit)
	defer late.Stop()
	for _, room := range []chan struct{}{share, d.slots} {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			if room == d.slots {
				<-share
			}
			return nil, ctx.Err()
		}
	}
	if ctx.Err() != nil {
		<-share
		<-d.slots
		return nil, ctx.Err()
	}
	// Nobody can stop a pane at work; who no longer waits leaves it behind, and
	// its slot is taken until it ends.
	type outcome struct {
		c   *cached
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := d.run(name, v)
		<-share
		<-d.slots
		if err != nil {
			done <- outcome{nil, err}
			return
		}
		done <- outcome{d.remember(key.String(), r), nil}
	}()
	select {
	case o := <-done:
		return o.c, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, fmt.Errorf("this takes longer than %v to draw; ask for less", d.limit)
	}
}

func (d *drawer) recall(key string) *cached {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.cache[key]
	if e == nil {
		return nil
	}
	d.order.MoveToFront(e)
	return e.Value.(*cached)
}

func (d *drawer) remember(key string, r pane.Result) *cached {
	c := &cached{key: key, r: r, bytes: len(key) + 2*len(r.Text)}
	for _, p := range r.Pictures {
		c.bytes += 2*len(p.SVG) + 300*len(p.IDs)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cache[key] != nil || c.bytes > cacheBytes/4 {
		return c
	}
	d.cache[key] = d.order.PushFront(c)
	d.bytes += c.bytes
	for d.bytes > cacheBytes {
		old := d.order.Remove(d.order.Back()).(*cached)
		delete(d.cache, old.key)
		d.bytes -= old.bytes
	}
	return c
}

// vars are the variables that sessions have told about.
type vars struct {
	mu       sync.Mutex
	sessions map[string]link.Message
	changed  func(shown *link.Explore, session string)
}

// receive takes one message of a kernel or of an embedded notebook.
func (v *vars) receive(m link.Message) {
	v.mu.Lock()
	if v.sessions == nil {
		v.sessions = map[string]link.Message{}
	}
	explore := m.Explore
	switch {
	case m.Gone:
		delete(v.sessions, m.Session)
	case m.Op == "explore":
		// Only a value to show; what is known about the session stays.
		if _, ok := v.sessions[m.Session]; !ok {
			v.sessions[m.Session] = link.Message{Session: m.Session, Title: m.Title}
		}
	default:
		m.Explore = nil
		v.sessions[m.Session] = m
	}
	v.mu.Unlock()
	if v.changed != nil {
		v.changed(explore, m.Session)
	}
}

// sessionVars is what the page shows about one session.
type sessionVars struct {
	Session string     `json:"session"`
	Title   string     `json:"title"`
	Vars    []link.Var `json:"vars"`
}

// list returns the variables that a pane can show, by session.
func (v *vars) list() []sessionVars {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := []sessionVars{}
	for id, m := range v.sessions {
		s := sessionVars{Session: id, Title: m.Title, Vars: []link.Var{}}
		for _, x := range m.Vars {
			if x.Form != "" {
				s.Vars = append(s.Vars, x)
			}
		}
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Session < out[j].Session })
	return out
}

// bind finds the text of "$name@session"; without a session the name must be
// known in exactly one.
func (v *vars) bind(ref string) (string, error) {
	name, session, given := strings.Cut(strings.TrimPrefix(ref, "$"), "@")
	v.mu.Lock()
	defer v.mu.Unlock()
	var texts []string
	for id, m := range v.sessions {
		if given && id != session {
			continue
		}
		for _, x := range m.Vars {
			if x.Name == name && x.Text != "" {
				texts = append(texts, x.Text)
			}
		}
	}
	switch len(texts) {
	case 1:
		return texts[0], nil
	case 0:
		return "", fmt.Errorf("no running notebook has a variable %.60q that can be shown", name)
	}
	return "", fmt.Errorf("%d notebooks have a variable %.60q; say which: $%.60s@session", len(texts), name, name)
}
