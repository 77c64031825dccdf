package web

import (
	"container/list"
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// drawer renders panes: a few at a time, and the last results from memory.
type drawer struct {
	slots chan struct{}

	mu    sync.Mutex
	cache map[string]*list.Element
	order *list.List // newest first, of *cached
	bytes int
}

type cached struct {
	key   string
	r     pane.Result
	bytes int
}

// cacheBytes bounds the memory of remembered results.
const cacheBytes = 32 << 20

func (d *drawer) init(parallel int) {
	d.slots = make(chan struct{}, parallel)
	d.cache, d.order = map[string]*list.Element{}, list.New()
}

// render runs a pane. bind replaces values of the form $name@session by the
// text of that variable.
func (d *drawer) render(ctx context.Context, bind func(string) (string, error), name string, in pane.Values) (pane.Result, error) {
	p, err := pane.Find(name)
	if err != nil {
		return pane.Result{}, err
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
				return pane.Result{}, diag.List{{Pos: diag.Pos{File: param.Name, Line: 1, Col: 1}, Code: "Web.E1", Msg: err.Error()}}
			}
		}
		v[param.Name] = s
		fmt.Fprintf(&key, "\x00%s=%d:%s", param.Name, len(s), s)
	}
	if r, ok := d.recall(key.String()); ok {
		return r, nil
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return pane.Result{}, ctx.Err()
	}
	if ctx.Err() != nil {
		return pane.Result{}, ctx.Err()
	}
	r, err := p.Run(v)
	if err != nil {
		return r, err
	}
	d.remember(key.String(), r)
	return r, nil
}

func (d *drawer) recall(key string) (pane.Result, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.cache[key]
	if e == nil {
		return pane.Result{}, false
	}
	d.order.MoveToFront(e)
	return e.Value.(*cached).r, true
}

func (d *drawer) remember(key string, r pane.Result) {
	c := &cached{key: key, r: r, bytes: len(key) + len(r.Text)}
	for _, p := range r.Pictures {
		c.bytes += len(p.SVG) + 200*len(p.IDs)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cache[key] != nil || c.bytes > cacheBytes/4 {
		return
	}
	d.cache[key] = d.order.PushFront(c)
	d.bytes += c.bytes
	for d.bytes > cacheBytes {
		old := d.order.Remove(d.order.Back()).(*cached)
		delete(d.cache, old.key)
		d.bytes -= old.bytes
	}
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
