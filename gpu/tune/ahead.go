package tune

import (
	"slices"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// moduleCode is the code of a program, perhaps still being made.
type moduleCode struct {
	ready     chan struct{}
	program   *ir.Program
	compiled  *compile.Compiled
	ptx       string
	module    *cuda.Module // nil where Time loads it
	err       error
	ctx       *cuda.Context
	compileMs float64 // our share
}

// ahead is what [GPU.Ahead] makes, by the compiler's key.
type ahead struct {
	mu   sync.Mutex
	by   map[string]*moduleCode
	work sync.WaitGroup
}

// Ahead begins to make the machine code of a program for arguments, which [Time] takes then,
// until [GPU.Forget]: several programs can be made at the same time, and while others are timed. It does nothing where
// there is no context, such as behind [GPU.Close]. It is safe for concurrent use, also beside a measurement.
func (g *GPU) Ahead(p *ir.Program, args []ir.Arg, o Options) {
	options := compile.Options{Arch: g.Target, Divisible: compile.Divisors(p, args), NoOpt: o.NoOpt}
	key := compile.Key(p, options)
	g.ahead.mu.Lock()
	defer g.ahead.mu.Unlock()
	if g.ctx == nil || g.ahead.by[key] != nil {
		return
	}
	if g.ahead.by == nil {
		g.ahead.by = map[string]*moduleCode{}
	}
	m := &moduleCode{ready: make(chan struct{})}
	g.ahead.by[key] = m
	ctx := g.ctx
	g.ahead.work.Go(func() {
		defer close(m.ready)
		if m.compile(p, options); m.err != nil {
			return
		}
		if module, err := ctx.Load([]byte(m.ptx), cuda.JIT{}); err == nil {
			m.ctx, m.module = ctx, module
		}
	})
}

// Forget forgets what was made ahead.
func (g *GPU) Forget() {
	g.ahead.mu.Lock()
	by := g.ahead.by
	g.ahead.by = nil
	g.ahead.mu.Unlock()
	for _, m := range by {
		g.ahead.work.Go(func() {
			if <-m.ready; m.module != nil {
				m.module.Close()
			}
		})
	}
}

// code is the code of a program: what was begun ahead, or made now, however long that takes; nil where what
// was begun is not ready when the time is up. A zero time is never up.
func (g *GPU) code(p *ir.Program, o compile.Options, until time.Time) *moduleCode {
	key := compile.Key(p, o)
	g.ahead.mu.Lock()
	m := g.ahead.by[key]
	g.ahead.mu.Unlock()
	if m != nil {
		var late <-chan time.Time
		if !until.IsZero() {
			late = time.After(time.Until(until))
		}
		select {
		case <-m.ready:
			return m
		case <-late:
			return nil
		}
	}
	m = &moduleCode{}
	m.compile(p, o)
	return m
}

// compile makes PTX of a program's text.
func (m *moduleCode) compile(p *ir.Program, o compile.Options) {
	src, start := text.Format(p), time.Now()
	if m.program, m.err = text.Parse(p.Name+".tile", src, nil); m.err != nil {
		return
	}
	if m.compiled, m.err = compile.Program(m.program, o); m.err != nil {
		return
	}
	m.ptx, m.err = m.compiled.PTX()
	m.compileMs = ms(start)
}

func ms(since time.Time) float64 { return float64(time.Since(since)) / float64(time.Millisecond) }

// Held are arrays that stay on the GPU between measurements, each in one allocation for all its
// copies; the arrays must not change.
type Held struct {
	ctx *cuda.Context
	by  map[*array.Array][]cuda.Ptr
}

// of is as many copies of an array, if so many are there. Those of a context that was closed
// went with it. Nothing holds nothing.
func (h *Held) of(ctx *cuda.Context, a *array.Array, copies int) []cuda.Ptr {
	if h == nil {
		return nil
	}
	if h.ctx != ctx {
		h.ctx, h.by = ctx, map[*array.Array][]cuda.Ptr{}
	}
	all := h.by[a]
	if len(all) >= copies {
		return all[:copies]
	}
	if len(all) > 0 {
		ctx.Free(all[0])
		delete(h.by, a)
	}
	return nil
}

// keep takes the copies of an array, which lie in the allocation that begins with the first.
func (h *Held) keep(a *array.Array, ptr []cuda.Ptr) {
	h.by[a] = ptr
}

// count is how many copies of an array are there.
func (h *Held) count(ctx *cuda.Context, a *array.Array) int {
	if h == nil || h.ctx != ctx {
		return 0
	}
	return len(h.by[a])
}

// forget leaves all to a context that is gone, or that frees nothing before its work ends.
func (h *Held) forget() {
	if h != nil {
		*h = Held{}
	}
}

// Only frees all other arrays.
func (h *Held) Only(keep ...*array.Array) {
	if h == nil {
		return
	}
	for a, all := range h.by {
		if !slices.Contains(keep, a) {
			h.ctx.Free(all[0])
			delete(h.by, a)
		}
	}
}

// Close frees all.
func (h *Held) Close() error {
	h.Only()
	return nil
}
