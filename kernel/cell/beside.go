package cell

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// Cells can run beside the one in the foreground: those of a front end's subshells. The interpreter compiles for one goroutine
// at a time, but compiled functions run beside each other and beside a compilation. So [Engine.build] is held from the check of
// a cell until its function begins; a long loop or launch in the foreground keeps nobody waiting.
//
// The interpreter can be told to stop, but only as a whole. A cancelled cell in the foreground waits a moment for those beside
// it, and takes those with it that have not ended by then. One beside it that is cancelled is stopped only when nothing runs in
// the foreground.

// besideGrace is how long a cancelled cell in the foreground waits for those beside it.
const besideGrace = 25 * time.Millisecond

type besideKey struct{}

// Beside marks the context of a cell that runs beside the one in the foreground, for [Engine.Run], [Engine.Call] and
// [Engine.Bind]. Any number may run at a time.
func Beside(ctx context.Context) context.Context { return context.WithValue(ctx, besideKey{}, true) }

func isBeside(ctx context.Context) bool { return ctx.Value(besideKey{}) != nil }

// evaluation is one run of a printed function.
type evaluation struct {
	id      int64
	name    string
	ctx     context.Context
	types   []string      // of the last expression's values
	perform func()        // what Call runs
	handed  any           // a value on its way from Bind to a variable
	done    chan struct{} // closed when the function has ended
	stopped chan struct{} // closed when it was told to stop, which wakes what it waits for
	began   chan struct{} // closed when the function has begun
	entered func()        // closes began, and lets others compile
	finish  func()        // closes done
	stop    func()        // closes stopped
}

func newEvaluation(ctx context.Context, id int64, name string) *evaluation {
	v := &evaluation{id: id, name: name, ctx: ctx, done: make(chan struct{}), stopped: make(chan struct{}), began: make(chan struct{}), entered: func() {}}
	v.finish = sync.OnceFunc(func() { close(v.done) })
	v.stop = sync.OnceFunc(func() { close(v.stopped) })
	return v
}

// mine is the run that the calling goroutine belongs to; goroutines that cells started count as in the foreground.
func (h *host) mine() *evaluation {
	if v := h.besides(goidIf(h.aside.Load() > 0)); v != nil {
		return v
	}
	return h.front.Load()
}

func goidIf(wanted bool) int64 {
	if !wanted {
		return 0
	}
	return goid()
}

func (h *host) besides(goroutine int64) *evaluation {
	if h.aside.Load() == 0 {
		return nil
	}
	v, ok := h.asides.Load(goroutine)
	if !ok {
		return nil
	}
	return v.(*evaluation)
}

// attend makes the calling goroutine belong to a cell beside the foreground.
func (h *host) attend(v *evaluation) (leave func()) {
	id := goid()
	h.asides.Store(id, v)
	h.aside.Add(1)
	return func() {
		h.asides.Delete(id)
		h.aside.Add(-1)
	}
}

// Attend makes the calling goroutine belong to a cell beside the foreground until leave is called; what it calls asks
// [Engine.Aside] whose it is.
func (e *Engine) Attend(ctx context.Context, id int64) (leave func()) {
	return e.host.attend(newEvaluation(ctx, id, ""))
}

// Aside is the cell beside the foreground to which the calling goroutine belongs, and the context that ends it.
func (e *Engine) Aside() (id int64, ctx context.Context, ok bool) {
	v := e.host.besides(goidIf(e.host.aside.Load() > 0))
	if v == nil {
		return 0, nil, false
	}
	return v.id, v.ctx, true
}

// Quiet runs f if no cell runs, and keeps all from beginning meanwhile.
func (e *Engine) Quiet(f func()) bool {
	e.build.Lock()
	defer e.build.Unlock()
	if len(e.running(func(*evaluation) bool { return true })) > 0 {
		return false
	}
	f()
	return true
}

// running lists the runs that have not ended.
func (e *Engine) running(which func(*evaluation) bool) (out []*evaluation) {
	e.activeMu.Lock()
	defer e.activeMu.Unlock()
	for v := range e.active {
		if which(v) {
			out = append(out, v)
		}
	}
	return out
}

func (v *evaluation) ahead() bool { return !isBeside(v.ctx) }

// enter evaluates a call of a printed function, waits for its end, and lets the interpreter forget what it need not keep of
// trim. The caller holds build; nobody does afterwards.
func (e *Engine) enter(v *evaluation, entry, trim string) (out Outcome) {
	v.entered = sync.OnceFunc(func() {
		close(v.began)
		e.build.Unlock()
	})
	var line reflect.Value
	if !v.ahead() {
		line = e.line()
	}
	e.activeMu.Lock()
	e.active[v] = true
	e.activeMu.Unlock()
	var err error
	if v.ahead() {
		out, err = e.runAhead(v, entry)
	} else {
		out, err = e.runBeside(v, entry)
	}
	v.entered() // where it never came to its first statement
	e.build.Lock()
	defer e.build.Unlock()
	e.activeMu.Lock()
	delete(e.active, v)
	e.activeMu.Unlock()
	if out.Err == nil && err != nil {
		out.Err = e.panicked(v.name, err)
	}
	if !v.ahead() && line.IsValid() {
		e.setLine(line)
	}
	if !out.Tainted {
		e.trim(trim)
	}
	return out
}

func (e *Engine) runAhead(v *evaluation, entry string) (out Outcome, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(v.ctx, func() {
		// An interpreter that is told to stop before the function has begun runs it all the same.
		select {
		case <-v.began:
		case <-ended:
			return
		}
		if e.endBesides(v) {
			cancel()
		}
	})()
	e.host.front.Store(v)
	_, err = e.in.EvalWithContext(ctx, entry+"()")
	if v.ctx.Err() == nil {
		return out, err
	}
	if ctx.Err() != nil {
		e.stale.Store(true)
	} else {
		v.finish() // also where it never began
	}
	v.stop()
	const kept = "the cell was interrupted; variables keep their values"
	out = v.interrupted(kept)
	return out, nil
}

// interrupted waits a moment for a function that was told to stop.
func (v *evaluation) interrupted(why string) Outcome {
	out := Outcome{Cancelled: true}
	select {
	case <-v.done:
	case <-time.After(Grace):
		out.Tainted = true
		why = "the cell was interrupted, but a library call in it has not ended and goes on in the background; calls that take a context end at once with lab.Context()"
	}
	out.Err = &proto.Error{Name: "Interrupted", Value: why, Traceback: []string{"Interrupted: " + why}}
	return out
}

// endBesides lets cells beside the foreground end before the interpreter stops, and tells those that do not. It reports false
// where the foreground has ended meanwhile.
func (e *Engine) endBesides(front *evaluation) bool {
	late := time.After(besideGrace)
	besides := func() []*evaluation { return e.running(func(v *evaluation) bool { return !v.ahead() }) }
	for _, v := range besides() {
		select {
		case <-v.done:
		case <-front.done:
			return false
		case <-late:
			for _, v := range besides() {
				v.stop()
			}
			return true
		}
	}
	return true
}

func (e *Engine) runBeside(v *evaluation, entry string) (out Outcome, err error) {
	foreground := func() bool { return len(e.running((*evaluation).ahead)) > 0 }
	if !foreground() && e.stale.Swap(false) {
		// What was stopped last left its signal behind.
		_, _ = e.in.EvalWithContext(context.Background(), "0")
	}
	ended := make(chan error, 1)
	go func() {
		defer e.host.attend(v)()
		_, err := e.in.Eval(entry + "()")
		v.finish()
		ended <- err
	}()
	select {
	case err = <-ended:
		if v.ctx.Err() != nil {
			return v.interrupted("the cell was interrupted; variables keep their values"), nil
		}
		return out, err
	case <-v.stopped:
		return v.interrupted("the cell was stopped together with the one in the main shell; variables keep their values"), nil
	case <-v.ctx.Done():
	}
	select {
	case <-v.began:
	case err = <-ended:
		return out, err
	}
	e.build.Lock()
	if !foreground() {
		// The interpreter stops what runs when an evaluation's context has ended.
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_, _ = e.in.EvalWithContext(gone, "0")
		e.stale.Store(true)
	}
	e.build.Unlock()
	v.stop()
	return v.interrupted("the cell was interrupted; variables keep their values"), nil
}

// line is the variable in which cells note the statement that runs; setLine puts it back.
func (e *Engine) line() reflect.Value {
	g, ok := e.in.Globals()[lineVar]
	if !ok || g.Kind() != reflect.Int {
		return reflect.Value{}
	}
	return reflect.ValueOf(int(g.Int()))
}

func (e *Engine) setLine(to reflect.Value) {
	if g, ok := e.in.Globals()[lineVar]; ok && g.CanSet() {
		g.Set(to)
	}
}
