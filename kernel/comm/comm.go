// Package comm is how cells talk with code in the front end: a comm is one conversation, of messages in both directions, that
// either side can begin. Widgets are made of comms.
//
// The front end begins one by naming a target; a cell registers what happens then with [Target]. A cell begins one with [Open].
// Messages from the front end wait, as cells do, until the running cell has ended, and what is printed while one is handled
// appears where the front end shows output of that message.
//
// Source: "Messaging in Jupyter" 5.5, custom messages.
package comm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Message is what one side tells the other. Data and Metadata must encode to JSON; Buffers are bytes that go beside them.
type Message struct {
	Data     map[string]interface{}
	Metadata map[string]interface{}
	Buffers  [][]byte
}

// Comm is one conversation. Its methods are safe for concurrent use.
type Comm struct {
	ID     string
	Target string

	mu      sync.Mutex
	message func(Message)
	closed  func(Message)
	ended   bool
}

// Step is what a message does to a comm.
type Step string

// The steps.
const (
	Begin Step = "open"
	Tell  Step = "msg"
	End   Step = "close"
)

// registry holds the targets and comms of this process: a worker has one notebook.
type registry struct {
	mu      sync.Mutex
	targets map[string]func(*Comm, Message)
	comms   map[string]*Comm
}

func newRegistry() *registry {
	return &registry{targets: map[string]func(*Comm, Message){}, comms: map[string]*Comm{}}
}

// Send carries one message to the front end; target is empty but for Begin.
type Send func(step Step, id, target string, m Message) error

type link struct {
	send Send
	reg  *registry
}

var attached atomic.Pointer[link]

// Attach makes comms reach a front end through send until the returned function is called.
func Attach(send Send) (detach func()) {
	l := &link{send, newRegistry()}
	attached.Store(l)
	return func() { attached.CompareAndSwap(l, nil) }
}

var (
	errNone  = errors.New("comm: no notebook is attached to this process")
	errEnded = errors.New("comm: the conversation has ended")
)

// Target registers what happens when the front end begins a comm with that target name; nil forgets the name.
func Target(name string, f func(*Comm, Message)) error {
	l := attached.Load()
	if l == nil {
		return errNone
	}
	l.reg.mu.Lock()
	defer l.reg.mu.Unlock()
	if f == nil {
		delete(l.reg.targets, name)
		return nil
	}
	l.reg.targets[name] = f
	return nil
}

// Open begins a comm with code that the front end has under a target name. A front end that has none closes it again.
func Open(target string, m Message) (*Comm, error) {
	var b [16]byte
	rand.Read(b[:])
	return OpenAs(fmt.Sprintf("%x", b), target, m)
}

// OpenAs is [Open] with an ID of the caller's, which no comm may have.
func OpenAs(id, target string, m Message) (*Comm, error) {
	l := attached.Load()
	if l == nil {
		return nil, errNone
	}
	c := &Comm{ID: id, Target: target}
	l.reg.mu.Lock()
	if l.reg.comms[id] != nil {
		l.reg.mu.Unlock()
		return nil, fmt.Errorf("comm: there is a comm %s already", id)
	}
	l.reg.comms[id] = c
	l.reg.mu.Unlock()
	if err := l.send(Begin, id, target, m); err != nil {
		l.reg.forget(id)
		return nil, fmt.Errorf("comm: %w", err)
	}
	return c, nil
}

// OnMessage sets what happens with messages of the front end.
func (c *Comm) OnMessage(f func(Message)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.message = f
}

// OnClose sets what happens when the front end ends the comm.
func (c *Comm) OnClose(f func(Message)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = f
}

// Send tells the front end something.
func (c *Comm) Send(m Message) error { return c.tell(Tell, m) }

// Close ends the comm.
func (c *Comm) Close(m Message) error { return c.tell(End, m) }

func (c *Comm) tell(step Step, m Message) error {
	l := attached.Load()
	if l == nil {
		return errNone
	}
	c.mu.Lock()
	ended := c.ended
	c.ended = c.ended || step == End
	c.mu.Unlock()
	if ended {
		return errEnded
	}
	if step == End {
		l.reg.forget(c.ID)
	}
	if err := l.send(step, c.ID, "", m); err != nil {
		return fmt.Errorf("comm: %w", err)
	}
	return nil
}

func (r *registry) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.comms, id)
}

// Deliver hands on a message of the front end, and returns when it has been handled. A comm for a target that nobody
// registered is closed; messages for a comm that is not there are dropped, because it may have ended meanwhile.
func Deliver(step Step, id, target string, m Message) error {
	l := attached.Load()
	if l == nil {
		return errNone
	}
	l.reg.mu.Lock()
	c, begin := l.reg.comms[id], l.reg.targets[target]
	if step == Begin && begin != nil && c == nil {
		c = &Comm{ID: id, Target: target}
		l.reg.comms[id] = c
	}
	l.reg.mu.Unlock()
	switch {
	case step == Begin && begin == nil:
		return l.send(End, id, "", Message{})
	case step == Begin:
		begin(c, m)
		return nil
	case c == nil:
		return nil
	}
	c.mu.Lock()
	f := c.message
	if step == End {
		f, c.ended = c.closed, true
	}
	c.mu.Unlock()
	if step == End {
		l.reg.forget(id)
	}
	if f != nil {
		f(m)
	}
	return nil
}

// List gives the IDs of the open comms, sorted.
func List() []string {
	l := attached.Load()
	if l == nil {
		return nil
	}
	l.reg.mu.Lock()
	defer l.reg.mu.Unlock()
	var ids []string
	for id := range l.reg.comms {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
