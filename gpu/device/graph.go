package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Pinned is an array in host memory that GPUs copy to and from while the host goes on.
type Pinned struct {
	Name string
	// Array is the contents. A copy under way reads or writes them. Without memory, after
	// Close or the loss of the context, its Data is nil.
	Array *array.Array
	q     *Queue
	home  home
	host  *cuda.Host // nil where a keeper copies
}

// NewPinned allocates a pinned array of a shape, in elements, whose contents are not defined.
func (q *Queue) NewPinned(name string, t dtype.Type, shape ...int) (*Pinned, error) {
	if err := q.alive(); err != nil {
		return nil, fmt.Errorf("device: pinned array %s: %w", name, err)
	}
	a := &array.Array{Type: t, Shape: slices.Clone(shape)}
	n := dtype.PackedBytes(t.Bits(), a.Len())
	p := &Pinned{Name: name, Array: a, q: q, home: q.home()}
	if q.g.keeper != nil {
		a.Data = make([]byte, n)
	} else {
		host, err := q.g.ctx.AllocHost(max((n+15)&^15, 16))
		if err != nil {
			return nil, fmt.Errorf("device: pinned array %s: %w", name, err)
		}
		p.host, a.Data = host, host.Bytes()[:n]
	}
	q.pinned = append(q.pinned, p)
	return p, nil
}

func (p *Pinned) lose() { p.Array.Data, p.host = nil, nil }

// Close frees the memory when the launches and copies so far have ended.
func (p *Pinned) Close() error {
	if p.Array.Data == nil {
		return nil
	}
	if err := p.q.Wait(context.Background()); err != nil {
		return err
	}
	p.q.pinned = slices.DeleteFunc(p.q.pinned, func(x *Pinned) bool { return x == p })
	host := p.host
	if p.lose(); host == nil {
		return nil
	}
	return host.Close()
}

// WriteFrom queues a copy of a pinned array of the same queue, type and length into the buffer.
// The array must stay as it is until what it gives has been waited for.
func (b *Buffer) WriteFrom(p *Pinned) (*Pending, error) { return b.copy(p, "write "+b.Name, true) }

// ReadTo queues a copy of the buffer to a pinned array of the same queue, type and length. The
// contents are there when what it gives has been waited for.
func (b *Buffer) ReadTo(p *Pinned) (*Pending, error) { return b.copy(p, "read "+b.Name, false) }

func (b *Buffer) copy(p *Pinned, what string, in bool) (*Pending, error) {
	switch a := p.Array; {
	case a.Data == nil && p.home != p.q.home():
		return nil, p.q.here(p.home, "pinned array "+p.Name)
	case a.Data == nil:
		return nil, fmt.Errorf("device: pinned array %s: %w", p.Name, cuda.ErrClosed)
	case p.q != b.q:
		return nil, fmt.Errorf("device: buffer %s and pinned array %s are of two queues; take both of one", b.Name, p.Name)
	case a.Type != b.Type || a.Len() != b.Len:
		return nil, fmt.Errorf("device: buffer %s is %d of %s, the pinned array %s %d of %s", b.Name, b.Len, b.Type, p.Name, a.Len(), a.Type)
	}
	if err := b.here(); err != nil {
		return nil, err
	}
	if b.home.keeper != nil {
		x, a := b.q.pending(what), &asked{Do: askIn, ID: b.id, Data: p.Array.Data}
		x.copies = true
		if !in {
			x.into, a = p, &asked{Do: askOut, ID: b.id}
		}
		return x, b.q.ask(x, a)
	}
	s := b.q.g.stream
	return b.q.queue(what, true, func() error {
		if in {
			return s.CopyInAsync(b.ptr, p.host, 0, len(p.Array.Data))
		}
		return s.CopyOutAsync(p.host, 0, b.ptr, len(p.Array.Data))
	})
}

// queue queues work that is not a program.
func (q *Queue) queue(name string, copies bool, work func() error) (*Pending, error) {
	if err := q.alive(); err != nil {
		return nil, fmt.Errorf("device: %s: %w", name, err)
	}
	x := q.pending(name)
	x.copies = copies
	var err error
	if x.event, err = q.g.ctx.NewEvent(); err != nil {
		return nil, q.failed(err)
	}
	q.flying = append(q.flying, x)
	if err = work(); err == nil {
		err = x.event.Record(q.g.stream)
	}
	return x, q.failed(err)
}

// Mark is a place in a queue, and the time at which the GPU reached it.
type Mark struct {
	q     *Queue
	home  home
	id    int // in a keeper
	event *cuda.Event
	after *Pending // the last launch before it
}

// Mark marks the place behind all launches so far. The error may be a [Lost].
func (q *Queue) Mark() (*Mark, error) {
	if err := q.alive(); err != nil {
		return nil, fmt.Errorf("device: mark: %w", err)
	}
	m := &Mark{q: q, home: q.home()}
	if len(q.flying) > 0 {
		m.after = q.flying[len(q.flying)-1]
	}
	if q.g.keeper != nil {
		m.id = q.number()
		_, err := q.tell(context.Background(), &asked{Do: askMark, ID: m.id})
		return m, err
	}
	var err error
	if m.event, err = q.g.ctx.NewEvent(); err != nil {
		return nil, q.failed(err)
	}
	if err := m.event.Record(q.g.stream); err != nil {
		return nil, q.failed(err)
	}
	return m, nil
}

func (m *Mark) here() error { return m.q.here(m.home, "the mark") }

// WaitFor lets what is queued from now on wait for a mark, of another queue as a rule. The
// host does not wait, unless one of the queues is in a process of its own.
func (q *Queue) WaitFor(m *Mark) error {
	if err := m.here(); err != nil {
		return err
	}
	if m.home.keeper != nil || q.g.keeper != nil {
		return m.Wait(context.Background())
	}
	if err := q.alive(); err != nil {
		return fmt.Errorf("device: mark: %w", err)
	}
	return q.failed(q.g.stream.Wait(m.event))
}

// Wait waits on the host until the GPU has reached the mark; see [Pending.Wait].
func (m *Mark) Wait(ctx context.Context) error {
	if err := m.here(); err != nil {
		return err
	}
	if m.after != nil {
		if err := m.after.Wait(ctx); err != nil {
			return err
		}
	}
	if m.home.keeper != nil {
		_, err := m.q.tell(ctx, &asked{Do: askReach, ID: m.id})
		return err
	}
	return m.q.failed(m.event.Synchronize())
}

// Since is the time on the GPU between two marks of a queue, which it has reached.
func (m *Mark) Since(start *Mark) (time.Duration, error) {
	if err := errors.Join(m.here(), start.here()); err != nil {
		return 0, err
	}
	if m.home != start.home {
		return 0, errors.New("device: the marks are of two queues; take both of one")
	}
	if m.home.keeper != nil {
		told, err := m.q.tell(context.Background(), &asked{Do: askSince, ID: m.id, Other: start.id})
		return told.Time, err
	}
	ms, err := m.event.Since(start.event)
	return time.Duration(ms * float64(time.Millisecond)), m.q.failed(err)
}

// Close gives the mark up.
func (m *Mark) Close() error {
	switch {
	case m.here() != nil:
		return nil // gone with its context
	case m.home.keeper != nil:
		return m.q.close(m.id)
	}
	return m.event.Close()
}

// Call is a launch of a graph: a program, and an argument for each of its parameters.
type Call struct {
	Program *ir.Program
	Args    []Value
}

// Graph is launches, one after the other, that are queued in one call. It has workspaces of
// its own; the buffers are the caller's, and must be there as long as it runs.
type Graph struct {
	Name    string
	q       *Queue
	home    home
	id      int // in a keeper
	graph   *cuda.Graph
	open    bool
	spaces  []cuda.Ptr
	buffers []*Buffer
}

// NewGraph makes a graph of launches, which is known by name in errors. Nothing runs. The error is about
// the arguments of a call, the memory for its workspaces, or a [Lost] queue.
func (q *Queue) NewGraph(name string, calls ...Call) (_ *Graph, err error) {
	if err := q.alive(); err != nil {
		return nil, fmt.Errorf("device: graph %s: %w", name, err)
	}
	g := &Graph{q: q, home: q.home()}
	defer func() {
		if err != nil {
			if lost := (*Lost)(nil); !errors.As(err, &lost) {
				err = q.failed(err)
			}
			err = fmt.Errorf("device: graph %s: %w", name, errors.Join(err, g.free()))
		}
	}()
	var steps []func() error
	var names []string
	var kept []called
	for _, c := range calls {
		l, ptrs, err := q.ready(c.Program, c.Args)
		if err != nil {
			return nil, err
		}
		names = append(names, c.Program.Name)
		for _, a := range c.Args {
			if a.Buffer != nil {
				g.buffers = append(g.buffers, a.Buffer)
			}
		}
		if q.g.keeper != nil {
			kept = append(kept, call(c.Program, c.Args))
			continue
		}
		fn, _, err := q.g.load(q.g.code, l.Code)
		if err != nil {
			return nil, err
		}
		params, err := q.g.params(c.Program, l, ptrs, func(w code.Param, n int) (cuda.Ptr, error) {
			ptr, err := q.g.ctx.Alloc(n)
			if err != nil {
				return 0, err
			}
			g.spaces = append(g.spaces, ptr)
			if w.Workspace.Zero { // in every run
				steps = append(steps, func() error { return q.g.ctx.Memset(ptr, 0, n, q.g.stream) })
			}
			return ptr, nil
		})
		if err != nil {
			return nil, err
		}
		steps = append(steps, func() error { return start(l, c.Program, fn, q.g.stream, params) })
	}
	g.Name = fmt.Sprintf("%s of %s", name, strings.Join(names, ", "))
	if q.g.keeper != nil {
		g.id = q.number()
		_, err = q.tell(context.Background(), &asked{Do: askGraph, ID: g.id, Name: name, Calls: kept})
		g.open = err == nil
		return g, err
	}
	g.graph, err = q.g.stream.Capture(func() error {
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	g.open = err == nil
	return g, err
}

// Launch queues the whole graph. The error says that the graph or a buffer was closed or lost.
func (g *Graph) Launch() (*Pending, error) {
	if !g.open {
		return nil, fmt.Errorf("device: graph %s: %w", g.Name, cuda.ErrClosed)
	}
	if err := g.q.here(g.home, "graph "+g.Name); err != nil {
		return nil, err
	}
	for _, b := range g.buffers {
		if err := b.here(); err != nil {
			return nil, fmt.Errorf("device: graph %s: %w", g.Name, err)
		}
	}
	if g.home.keeper != nil {
		x := g.q.pending("graph " + g.Name)
		return x, g.q.ask(x, &asked{Do: askRun, ID: g.id})
	}
	return g.q.queue("graph "+g.Name, false, func() error { return g.graph.Launch(g.q.g.stream) })
}

// Close frees the graph and its workspaces when the launches so far have ended.
func (g *Graph) Close() error {
	if !g.open {
		return nil
	}
	g.open = false
	if g.home != g.q.home() {
		return nil // gone with its context
	}
	if err := g.q.Wait(context.Background()); err != nil {
		return err
	}
	if g.home.keeper != nil {
		return g.q.close(g.id)
	}
	return errors.Join(g.graph.Close(), g.free())
}

func (g *Graph) free() error {
	var err error
	for _, ptr := range g.spaces {
		if g.home == g.q.home() {
			err = errors.Join(err, g.home.ctx.Free(ptr))
		}
	}
	g.spaces = nil
	return err
}
