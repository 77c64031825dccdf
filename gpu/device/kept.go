package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// A queue whose GPU a keeper holds asks it for all that it does; the keeper has a queue of its own
// with the same things in it, under numbers that this side gives.

// asking says what is asked for.
type asking uint8

const (
	askBuffer asking = iota + 1 // ID of Type and Len
	askWrite                    // Data to buffer ID
	askRead                     // buffer ID
	askCopy                     // buffer ID to buffer Other
	askLaunch                   // Calls, one
	askGraph                    // ID of Calls, called Name
	askRun                      // graph ID, called Name
	askIn                       // Data to buffer ID, behind what is queued
	askOut                      // buffer ID, behind what is queued; the answer to askWait has it
	askWait                     // Number and all before
	askMark                     // ID
	askReach                    // mark ID
	askSince                    // from mark Other to mark ID
	askClose                    // ID
)

// asked is one request. Number is that of the launch or copy which it queues.
type asked struct {
	Do        asking
	ID, Other int
	Number    int
	Name, At  string
	Type      dtype.Type
	Len       int
	Data      []byte
	Calls     []called
}

// called is a launch: the text of its program, and buffers by their numbers, from 1 on.
type called struct {
	Program string
	Args    []argument
}

func call(p *ir.Program, args []Value) called {
	c := called{Program: text.Format(p)}
	for _, a := range args {
		x := argument{Int: a.Int, Float: a.Float}
		if a.Buffer != nil {
			x.Array = a.Buffer.id
		}
		c.Args = append(c.Args, x)
	}
	return c
}

// given is what a request gives.
type given struct {
	Data []byte
	Out  map[int][]byte // by launch: contents for pinned arrays
	Time time.Duration
}

// number is that of one more thing in the keeper.
func (q *Queue) number() int {
	q.made++
	return q.made
}

// tell asks the keeper. Where that has ended, the error is a [Lost].
func (q *Queue) tell(ctx context.Context, a *asked) (given, error) {
	got, err := q.g.keeper.ask(ctx, order{Queue: a})
	if err != nil {
		return given{}, q.failed(err)
	}
	return got.Queue, nil
}

// ask queues something.
func (q *Queue) ask(x *Pending, a *asked) error {
	a.Number, a.At = x.Number, x.at
	if a.Name == "" {
		a.Name = x.Program
	}
	q.flying = append(q.flying, x)
	if _, err := q.tell(context.Background(), a); err != nil {
		if n := len(q.flying); n > 0 && q.flying[n-1] == x { // it was refused
			x.done, q.flying = true, q.flying[:n-1]
		}
		return err
	}
	return nil
}

// waitKept waits for a launch in the keeper and all before it.
func (q *Queue) waitKept(ctx context.Context, x *Pending) error {
	told, err := q.tell(ctx, &asked{Do: askWait, Number: x.Number})
	if err != nil {
		return err
	}
	for len(q.flying) > 0 && q.flying[0].Number <= x.Number {
		first := q.flying[0]
		if first.into != nil {
			copy(first.into.Array.Data, told.Out[first.Number])
		}
		first.done, q.flying = true, q.flying[1:]
	}
	return nil
}

// close gives a thing in the keeper up.
func (q *Queue) close(id int) error {
	_, err := q.tell(context.Background(), &asked{Do: askClose, ID: id})
	return err
}

// served is the queue of a keeper, and what it holds for the other side.
type served struct {
	q        *Queue
	things   map[int]any // buffers, marks and graphs by number
	programs map[string]*ir.Program
	copies   []staged // under way
	spare    map[int][]*cuda.Host
}

// staged is pinned memory of a copy under way.
type staged struct {
	x    *Pending
	host *cuda.Host
	n    int  // bytes
	out  bool // the other side wants the contents
}

func newServed(g *gpu) *served {
	return &served{q: newQueue(g), things: map[int]any{}, programs: map[string]*ir.Program{}, spare: map[int][]*cuda.Host{}}
}

func (s *served) buffer(id int) *Buffer { b, _ := s.things[id].(*Buffer); return b }

// do does what is asked for.
func (s *served) do(a *asked) (given, error) {
	none := given{}
	switch a.Do {
	case askBuffer:
		b, err := s.q.NewBuffer(a.Name, a.Type, a.Len)
		if err != nil {
			return none, err
		}
		s.things[a.ID] = b
		return none, nil
	case askClose:
		thing := s.things[a.ID]
		delete(s.things, a.ID)
		if c, ok := thing.(interface{ Close() error }); ok {
			return none, c.Close()
		}
		return none, nil
	case askWait:
		return s.wait(a.Number)
	case askLaunch, askGraph:
		return none, s.calls(a)
	case askRun:
		g, ok := s.things[a.ID].(*Graph)
		if !ok {
			break
		}
		s.q.launches = a.Number - 1
		_, err := g.Launch()
		return none, err
	case askMark:
		m, err := s.q.Mark()
		if err != nil {
			return none, err
		}
		s.things[a.ID] = m
		return none, nil
	case askReach, askSince:
		m, ok := s.things[a.ID].(*Mark)
		if !ok {
			break
		}
		if a.Do == askReach {
			return none, m.Wait(context.Background())
		}
		start, ok := s.things[a.Other].(*Mark)
		if !ok {
			break
		}
		took, err := m.Since(start)
		return given{Time: took}, err
	case askWrite, askRead, askCopy, askIn, askOut:
		if b := s.buffer(a.ID); b != nil {
			return s.move(b, a)
		}
	}
	return none, fmt.Errorf("device: the process that holds the GPU does not know request %d of %d", a.Do, a.ID)
}

// move copies to or from a buffer.
func (s *served) move(b *Buffer, a *asked) (given, error) {
	x := &array.Array{Type: b.Type, Shape: []int{b.Len}, Data: a.Data}
	switch a.Do {
	case askWrite:
		if n := dtype.PackedBytes(b.Type.Bits(), b.Len); len(a.Data) != n {
			return given{}, fmt.Errorf("device: %d bytes for buffer %s; it has %d", len(a.Data), b.Name, n)
		}
		return given{}, b.Write(x)
	case askRead:
		x = array.New(b.Type, b.Len)
		return given{Data: x.Data}, b.Read(x)
	case askCopy:
		to := s.buffer(a.Other)
		if to == nil {
			return given{}, fmt.Errorf("device: the process that holds the GPU has no buffer %d", a.Other)
		}
		return given{}, b.CopyTo(to)
	}
	n := dtype.PackedBytes(b.Type.Bits(), b.Len)
	host, err := s.staging(max(b.bytes(), 16))
	if err != nil {
		return given{}, err
	}
	copy(host.Bytes()[:n], a.Data)
	s.q.launches = a.Number - 1
	work := func() error { return s.q.g.stream.CopyInAsync(b.ptr, host, 0, n) }
	if a.Do == askOut {
		work = func() error { return s.q.g.stream.CopyOutAsync(host, 0, b.ptr, n) }
	}
	c, err := s.q.queue(a.Name, true, work)
	if err != nil {
		return given{}, err
	}
	s.copies = append(s.copies, staged{c, host, n, a.Do == askOut})
	return given{}, nil
}

// staging is pinned memory that no copy uses.
func (s *served) staging(n int) (*cuda.Host, error) {
	if list := s.spare[n]; len(list) > 0 {
		s.spare[n] = list[:len(list)-1]
		return list[len(list)-1], nil
	}
	return s.q.g.ctx.AllocHost(n)
}

// wait waits for a launch and gives what copies before it have brought.
func (s *served) wait(number int) (given, error) {
	out := given{Out: map[int][]byte{}}
	for len(s.q.flying) > 0 && s.q.flying[0].Number <= number {
		if err := s.q.flying[0].Wait(context.Background()); err != nil {
			return out, err
		}
	}
	for len(s.copies) > 0 && s.copies[0].x.done && s.copies[0].x.Number <= number {
		c := s.copies[0]
		s.copies = s.copies[1:]
		if c.out {
			out.Out[c.x.Number] = append([]byte(nil), c.host.Bytes()[:c.n]...)
		}
		n := len(c.host.Bytes())
		s.spare[n] = append(s.spare[n], c.host)
	}
	return out, nil
}

// calls launches a program, or makes a graph.
func (s *served) calls(a *asked) error {
	var all []Call
	for _, c := range a.Calls {
		p := s.programs[c.Program]
		if p == nil {
			var err error
			if p, err = text.Parse("keeper", c.Program, nil); err != nil {
				return err
			}
			if len(s.programs) >= maxPrograms {
				clear(s.programs)
			}
			s.programs[c.Program] = p
		}
		args := make([]Value, len(c.Args))
		for i, v := range c.Args {
			args[i] = Value{Int: v.Int, Float: v.Float}
			if v.Array > 0 {
				if args[i].Buffer = s.buffer(v.Array); args[i].Buffer == nil {
					return fmt.Errorf("device: the process that holds the GPU has no buffer %d", v.Array)
				}
			}
		}
		all = append(all, Call{p, args})
	}
	if a.Do == askGraph {
		g, err := s.q.NewGraph(a.Name, all...)
		if err == nil {
			s.things[a.ID] = g
		}
		return err
	}
	if len(all) != 1 {
		return errors.New("device: a launch is of one program")
	}
	l, ptrs, err := s.q.ready(all[0].Program, all[0].Args)
	if err != nil {
		return err
	}
	s.q.launches = a.Number - 1
	x := s.q.pending(a.Name)
	x.at = a.At
	return s.q.launch(x, all[0].Program, l, ptrs)
}
