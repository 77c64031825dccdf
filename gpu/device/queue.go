package device

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/launch"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Queue launches programs on one GPU, one after the other, without waiting for them.
// It has a context of its own, so that what goes wrong in one queue breaks no other. What it
// hands out, [Buffer]s, [Pinned] memory, [Mark]s and [Graph]s, belongs to the caller, who closes
// it before the queue. A Queue is for one goroutine.
//
// A program that breaks the context costs all that was in it: the error is a [Lost], whatever is
// used of it says so, and what is made then is in a new context. That is one of this process,
// where nothing stands between a launch and the driver; where the driver gives this process no other,
// and [Keeper] was called, it is one of a process of its own, as [NewKeptQueue] has it from the
// beginning. There each call is a message, and a launch that never ends can be ended.
type Queue struct {
	g       *gpu
	flying  []*Pending // in order
	buffers []*Buffer
	pinned  []*Pinned
	lost    map[home]string // what broke those that are gone
	made    int             // things in keepers, which have numbers there
	// Workspaces that the stream is done with when it comes to the next launch, by their
	// bytes: clean ones hold zeros.
	clean, dirty map[int][]cuda.Ptr
	launches     int
	unended      bool // a launch goes on for ever
}

// home is where what a queue hands out lives: a context of this process, or a keeper.
type home struct {
	ctx    *cuda.Context
	keeper *keeper
}

// home is where the queue makes things now.
func (q *Queue) home() home { return home{q.g.ctx, q.g.keeper} }

// here says whether something of a home can still be used.
func (q *Queue) here(h home, what string) error {
	if h == q.home() {
		return nil
	}
	why := "with its context"
	if by := q.lost[h]; by != "" {
		why = "when " + by + " broke its context"
	}
	return fmt.Errorf("device: %s was lost %s; make it again", what, why)
}

// Buffer is memory of a GPU, of Len elements that are packed as in [array.Array].
type Buffer struct {
	Name string
	Type dtype.Type
	Len  int // elements
	q    *Queue
	home home
	id   int // in a keeper
	ptr  cuda.Ptr
	open bool
}

// Value is an argument of a launch: a buffer for a pointer, else a number.
type Value struct {
	Buffer *Buffer // of the same queue
	Int    int64   // for integers; not 0 is true
	Float  float64 // for floats
}

// Pending is a launch under way.
type Pending struct {
	Program string
	Number  int // of the launch in its queue, from 1 on
	q       *Queue
	at      string      // place of the program in its text; "" for none
	event   *cuda.Event // nil in a keeper
	into    *Pinned     // in a keeper: where the contents go once it has ended
	copies  bool        // no program
	done    bool
	lost    error // what its context ended with
}

// String names the launch: "scale at t.tile:1:9 (launch 3)".
func (x *Pending) String() string {
	if x.at != "" {
		return fmt.Sprintf("%s at %s (launch %d)", x.Program, x.at, x.Number)
	}
	return fmt.Sprintf("%s (launch %d)", x.Program, x.Number)
}

// Lost is the error of a queue whose context a launch broke, or whose process is gone. The queue
// goes on with a new one, if there can be another; what was in the old one is gone.
type Lost struct {
	Programs []string // that had not ended: the first is the one to blame, if there is no other
	Buffers  []string // buffers and pinned arrays whose contents are gone
	Cause    error
	Renewed  string // how making a new context went
}

// who names the programs to blame.
func (e *Lost) who() string {
	if len(e.Programs) > 1 {
		return "one of the programs " + strings.Join(e.Programs, ", ")
	}
	return "program " + e.Programs[0]
}

func (e *Lost) Error() string {
	how := " broke the GPU context: "
	if gone := (*keeperFailed)(nil); errors.As(e.Cause, &gone) && gone.Driver == nil {
		how = ": "
	}
	what := "no buffers were lost"
	if len(e.Buffers) > 0 {
		what = "the buffers " + strings.Join(e.Buffers, ", ") + " are lost and have to be made again"
	}
	return fmt.Sprintf("device: %s%s%v; %s, %s; --device sim finds the place in the program", e.who(), how, e.Cause, e.Renewed, what)
}

// Unwrap is what the driver said.
func (e *Lost) Unwrap() error { return e.Cause }

// NewQueue opens a queue on a GPU: "cuda", "cuda:1". Its context is one of this process as long as
// the driver gives one: what is timed should be timed there.
func NewQueue(name string) (*Queue, error) {
	d, err := Open(name)
	if err != nil {
		return nil, err
	}
	g, ok := d.(*gpu)
	if !ok {
		d.Close()
		return nil, fmt.Errorf("device: %s has no queues; GPUs have (cuda, cuda:1)", d.Name())
	}
	return newQueue(g), nil
}

// NewKeptQueue is [NewQueue] whose context is one of another process, which takes the place of this
// one where a program faults or never ends: not even a fault in the driver costs this one.
// Each call costs the way to that process and back, and copies go
// through it, so that nothing should be timed here. The main function must have called [Keeper].
func NewKeptQueue(name string) (*Queue, error) {
	kind, which, _ := strings.Cut(name, ":")
	if kind != "cuda" {
		return nil, fmt.Errorf("device: %s has no queues; GPUs have (cuda, cuda:1)", name)
	}
	if !keeps.Load() {
		return nil, errors.New("device: a queue in a process of its own needs device.Keeper to be the first call of the main function")
	}
	g, err := newGPU(which)
	if err != nil {
		return nil, err
	}
	g.apart = true
	if err := g.reach(); err != nil {
		return nil, err
	}
	return newQueue(g), nil
}

func newQueue(g *gpu) *Queue {
	return &Queue{g: g, lost: map[home]string{}, clean: map[int][]cuda.Ptr{}, dirty: map[int][]cuda.Ptr{}}
}

// NewBuffer allocates a buffer of n elements, whose contents are not defined. The error names it
// and says what the driver did: no memory, for one.
func (q *Queue) NewBuffer(name string, t dtype.Type, n int) (*Buffer, error) {
	if err := q.alive(); err != nil {
		return nil, fmt.Errorf("device: buffer %s: %w", name, err)
	}
	b := &Buffer{Name: name, Type: t, Len: n, q: q, home: q.home(), open: true}
	if q.g.keeper != nil {
		b.id = q.number()
		if _, err := q.tell(context.Background(), &asked{Do: askBuffer, ID: b.id, Name: name, Type: t, Len: n}); err != nil {
			return nil, err
		}
	} else {
		var err error
		if b.ptr, err = q.g.ctx.Alloc(max(b.bytes(), 16)); err != nil {
			return nil, fmt.Errorf("device: buffer %s: %w", name, q.failed(err))
		}
	}
	q.buffers = append(q.buffers, b)
	return b, nil
}

func (b *Buffer) bytes() int { return (dtype.PackedBytes(b.Type.Bits(), b.Len) + 15) &^ 15 }

// here refuses a buffer that was closed or lost.
func (b *Buffer) here() error {
	if !b.open {
		return fmt.Errorf("device: buffer %s: %w", b.Name, cuda.ErrClosed)
	}
	return b.q.here(b.home, "buffer "+b.Name)
}

// Write copies an array of the buffer's type and length in, behind all launches so far.
func (b *Buffer) Write(a *array.Array) error { return b.move(a, true) }

// Read copies the buffer out into an array of its type and length, behind all launches so far, whose
// mistakes it may be the first to tell.
func (b *Buffer) Read(a *array.Array) error { return b.move(a, false) }

func (b *Buffer) move(a *array.Array, in bool) error {
	if a.Type != b.Type || a.Len() != b.Len {
		return fmt.Errorf("device: buffer %s is %d of %s, the array %d of %s", b.Name, b.Len, b.Type, a.Len(), a.Type)
	}
	if err := b.here(); err != nil {
		return err
	}
	if err := b.q.Wait(context.Background()); err != nil {
		return err
	}
	switch {
	case b.home.keeper != nil && in:
		_, err := b.q.tell(context.Background(), &asked{Do: askWrite, ID: b.id, Data: a.Data})
		return err
	case b.home.keeper != nil:
		told, err := b.q.tell(context.Background(), &asked{Do: askRead, ID: b.id})
		copy(a.Data, told.Data)
		return err
	case in:
		data := make([]byte, b.bytes())
		copy(data, a.Data)
		return b.q.failed(b.home.ctx.CopyIn(b.ptr, data))
	}
	return b.q.failed(b.home.ctx.CopyOut(a.Data, b.ptr))
}

// CopyTo copies a buffer to one of the same type and length, of another GPU as well. From one
// process to another it goes through the host.
func (b *Buffer) CopyTo(to *Buffer) error {
	if to.Type != b.Type || to.Len != b.Len {
		return fmt.Errorf("device: buffer %s is %d of %s, %s %d of %s", b.Name, b.Len, b.Type, to.Name, to.Len, to.Type)
	}
	for _, x := range []*Buffer{b, to} {
		if err := x.here(); err != nil {
			return err
		}
		if err := x.q.Wait(context.Background()); err != nil {
			return err
		}
	}
	switch {
	case b.home.keeper != nil && b.home == to.home:
		_, err := b.q.tell(context.Background(), &asked{Do: askCopy, ID: b.id, Other: to.id})
		return err
	case b.home.keeper != nil || to.home.keeper != nil:
		a := array.New(b.Type, b.Len)
		if err := b.Read(a); err != nil {
			return err
		}
		return to.Write(a)
	case b.home == to.home:
		return b.q.failed(b.home.ctx.Copy(to.ptr, b.ptr, b.bytes(), nil))
	}
	return to.q.failed(to.home.ctx.CopyPeer(to.ptr, b.home.ctx, b.ptr, b.bytes()))
}

// Close frees the buffer; launches that use it must have ended.
func (b *Buffer) Close() error {
	if !b.open {
		return nil
	}
	b.open = false
	b.q.buffers = slices.DeleteFunc(b.q.buffers, func(x *Buffer) bool { return x == b })
	switch {
	case b.home != b.q.home():
		return nil // gone with its context
	case b.home.keeper != nil:
		return b.q.close(b.id)
	}
	return b.home.ctx.Free(b.ptr)
}

// Launch queues a program. The error is about the arguments, or about an earlier launch.
func (q *Queue) Launch(p *ir.Program, args ...Value) (*Pending, error) {
	l, ptrs, err := q.ready(p, args)
	if err != nil {
		return nil, err
	}
	x := q.pending(p.Name)
	x.at = p.Pos.String()
	if q.g.keeper != nil {
		return x, q.ask(x, &asked{Do: askLaunch, Calls: []called{call(p, args)}})
	}
	return x, q.launch(x, p, l, ptrs)
}

// pending is the next launch.
func (q *Queue) pending(name string) *Pending {
	q.launches++
	return &Pending{Program: name, q: q, Number: q.launches}
}

// ready checks arguments and finds the code for them, and the addresses of its buffers.
func (q *Queue) ready(p *ir.Program, args []Value) (*launch.Launch, []cuda.Ptr, error) {
	if err := q.alive(); err != nil {
		return nil, nil, fmt.Errorf("device: %s: %w", p.Name, err)
	}
	if len(args) != len(p.Params) {
		return nil, nil, fmt.Errorf("device: %s takes %d arguments, %d are given", p.Name, len(p.Params), len(args))
	}
	// Arrays without contents stand for buffers: what is checked is type and length.
	stand := map[*Buffer]*array.Array{}
	in := make([]ir.Arg, len(args))
	for i, a := range args {
		in[i] = ir.Arg{Int: a.Int, Float: a.Float}
		if a.Buffer == nil {
			continue
		}
		if a.Buffer.q != q {
			return nil, nil, fmt.Errorf("device: %s: buffer %s is of another queue; copy it to one of this queue", p.Name, a.Buffer.Name)
		}
		if err := a.Buffer.here(); err != nil {
			return nil, nil, err
		}
		if stand[a.Buffer] == nil {
			stand[a.Buffer] = &array.Array{Type: a.Buffer.Type, Shape: []int{a.Buffer.Len}}
		}
		in[i].Array = stand[a.Buffer]
	}
	grid, err := interp.CheckArgs(p, in)
	if err != nil {
		return nil, nil, err
	}
	c, err := q.g.programs.get(p, compile.Options{Arch: q.g.info.Arch, Divisible: compile.Divisors(p, in)})
	if err != nil {
		return nil, nil, err
	}
	l := launch.New(p, in, grid, c)
	ptrs := make([]cuda.Ptr, len(l.Buffers))
	for i, a := range args {
		if k := l.Buffer[i]; k >= 0 {
			ptrs[k] = a.Buffer.ptr
		}
	}
	return l, ptrs, nil
}

func (q *Queue) launch(x *Pending, p *ir.Program, l *launch.Launch, ptrs []cuda.Ptr) error {
	fn, _, err := q.g.load(q.g.code, l.Code)
	if err != nil {
		return q.failed(err)
	}
	type space struct {
		ptr  cuda.Ptr
		n    int
		zero bool
	}
	var spaces []space
	params, err := q.g.params(p, l, ptrs, func(w code.Param, n int) (cuda.Ptr, error) {
		pool := q.dirty
		if w.Workspace.Zero {
			pool = q.clean
		}
		if k := len(pool[n]); k > 0 {
			ptr := pool[n][k-1]
			pool[n] = pool[n][:k-1]
			spaces = append(spaces, space{ptr, n, w.Workspace.Zero})
			return ptr, nil
		}
		ptr, err := q.g.ctx.Alloc(n)
		if err != nil {
			return 0, err
		}
		spaces = append(spaces, space{ptr, n, w.Workspace.Zero})
		if w.Workspace.Zero {
			err = q.g.ctx.Memset(ptr, 0, n, q.g.stream)
		}
		return ptr, err
	})
	if err != nil {
		return q.failed(err)
	}
	if x.event, err = q.g.ctx.NewEvent(); err != nil {
		return q.failed(err)
	}
	q.flying = append(q.flying, x)
	err = start(l, p, fn, q.g.stream, params)
	for _, s := range spaces { // the next launch comes behind this one
		pool := q.dirty
		if s.zero {
			pool = q.clean
			if err == nil {
				err = q.g.ctx.Memset(s.ptr, 0, s.n, q.g.stream)
			}
		}
		pool[s.n] = append(pool[s.n], s.ptr)
	}
	if err == nil {
		err = x.event.Record(q.g.stream)
	}
	return q.failed(err)
}

// start queues the launch itself.
func start(l *launch.Launch, p *ir.Program, fn *cuda.Function, s *cuda.Stream, params *cuda.Params) error {
	run := fn.Launch
	if l.Code.Func.Launch.PDL {
		run = fn.LaunchDependent
	}
	return run(cuda.Dim{X: l.Grid[0], Y: l.Grid[1], Z: l.Grid[2]}, cuda.Dim{X: p.Threads(), Y: 1, Z: 1}, l.Code.Func.Launch.SharedBytes, s, params)
}

// failed looks at an error: one that broke the context, or ended the process that had it, is given
// its programs, and a new context made.
func (q *Queue) failed(err error) error {
	var ce *cuda.Error
	var gone *keeperFailed
	if errors.As(err, &gone) {
		if !gone.Gone {
			return err
		}
	} else if !errors.As(err, &ce) || !ce.Sticky() {
		return err
	}
	e, old := &Lost{Cause: err}, q.home()
	if gone != nil && gone.Driver != nil {
		e.Cause = gone.Driver
	}
	var copies []string
	for _, x := range q.flying {
		switch {
		case x.done:
			continue
		case x.copies:
			copies = append(copies, x.String())
		default:
			e.Programs = append(e.Programs, x.String())
		}
		x.done, x.lost = true, e
	}
	if len(e.Programs) == 0 { // no copy breaks a context where a program can have done it
		e.Programs = copies
	}
	if gone != nil && len(gone.Blamed) > 0 { // they know what had ended
		e.Programs = gone.Blamed
	}
	for _, b := range q.buffers {
		if b.home == old {
			e.Buffers = append(e.Buffers, b.Name)
		}
	}
	for _, p := range q.pinned {
		e.Buffers = append(e.Buffers, p.Name)
		p.lose() // the driver frees it with its context
	}
	q.pinned = nil
	if len(e.Programs) == 0 {
		e.Programs = []string{"of another queue"}
	}
	q.lost[old] = e.who()
	q.flying, q.clean, q.dirty = nil, map[int][]cuda.Ptr{}, map[int][]cuda.Ptr{}
	e.Renewed, _ = q.g.renew()
	return e
}

// alive makes a context where there is none, if there can be one.
func (q *Queue) alive() error {
	switch {
	case q.g.ctx != nil || q.g.keeper != nil:
		return nil
	case q.unended:
		return errors.New("a launch of the queue goes on; close it and take another queue")
	}
	if err := q.g.reach(); err != nil {
		return fmt.Errorf("%w%s", err, noContext(err))
	}
	return nil
}

// Wait waits for all launches so far; see [Pending.Wait] for its errors.
func (q *Queue) Wait(ctx context.Context) error {
	for len(q.flying) > 0 {
		if err := q.flying[0].Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Wait waits for this launch and those before it. A launch of this process cannot be stopped: after the
// end of ctx the error is [Unended], and the queue can only be given up. One of a process of its own
// ends with that process: the error is a [Lost], and the queue goes on.
func (x *Pending) Wait(ctx context.Context) error {
	q, start := x.q, time.Now()
	for !x.done {
		if q.g.keeper != nil {
			return q.waitKept(ctx, x)
		}
		first := q.flying[0]
		done, err := first.event.Done()
		switch {
		case err != nil:
			return q.failed(err)
		case done:
			first.done = true
			first.event.Close()
			q.flying = q.flying[1:]
			continue
		}
		if cause := context.Cause(ctx); cause != nil {
			q.unended = true
			return fmt.Errorf("device: %s: %w", first, &Unended{After: time.Since(start), Cause: cause})
		}
		if time.Since(start) > waitBusy {
			time.Sleep(waitSleep)
		}
	}
	return x.lost
}

// Close ends the queue when its launches have ended, and frees its workspaces.
func (q *Queue) Close() error {
	if q.unended {
		return nil // it would wait
	}
	if err := q.Wait(context.Background()); err != nil {
		return err
	}
	return q.g.Close()
}
