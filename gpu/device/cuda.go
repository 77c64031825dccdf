package device

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/cache"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/cudac"
	"github.com/tilus-lab/tilus-lab/gpu/launch"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// gpu runs lowered code on an NVIDIA GPU. One launch runs at a time; a context
// that a faulty program broke is replaced before the next one, by one of a
// process of its own (see [Keeper]) where this one is given no other.
type gpu struct {
	driver   *cuda.Driver
	nvrtc    *cuda.NVRTC // compiles CUDA C++; nil where the driver compiles PTX
	real     string      // the GPU's own target
	ordinal  int
	info     Info
	programs programs
	shells   shells
	modules  *cache.Dir     // code of other processes; nil without it
	keeping  sync.WaitGroup // of what is written to modules, and what is done beside the driver
	making   atomic.Int32   // shells at present

	which string // as openCUDA takes it
	apart bool   // a keeper holds the GPU, never this process

	mu      sync.Mutex
	keeper  *keeper       // holds the GPU where the driver gives this process no context
	ctx     *cuda.Context // nil when it must be made again
	stream  *cuda.Stream
	code    *contextCode // of ctx
	started bool         // the program of Run has begun, and may be to blame
}

// contextCode is the machine code in a context. It is loaded with or without the device's lock: what
// closes the context waits for what is being loaded.
type contextCode struct {
	ctx      *cuda.Context
	loads    sync.WaitGroup // begun under the device's lock
	mu       sync.Mutex
	bySource map[string]*loaded // by PTX or CUDA C++
}

// loaded is a function, when it has been made.
type loaded struct {
	made chan struct{}
	fn   *cuda.Function
	err  error
}

// openCUDA opens a GPU. which has words between colons, each of which may be
// missing: the GPU's number, the target to compile for if not the GPU's own
// ("sm_80"), and "nvrtc" for code that goes through CUDA C++ and NVIDIA's
// run-time compiler instead of PTX and the driver's.
func openCUDA(which string) (Device, error) {
	g, err := newGPU(which)
	if err != nil {
		return nil, err
	}
	return g, g.reach()
}

// newGPU looks for a GPU without a context on it.
func newGPU(which string) (*gpu, error) {
	g := &gpu{which: which}
	var target arch.Arch
	for _, word := range strings.Split(which, ":") {
		n, err := strconv.Atoi(word)
		switch {
		case word == "":
		case err == nil && n >= 0:
			g.ordinal = n
		case word == "nvrtc":
			if g.nvrtc, err = cuda.OpenNVRTC(); err != nil {
				return nil, fmt.Errorf("device: %w", err)
			}
		case strings.HasPrefix(word, "sm_"):
			if target, err = arch.Lookup(word); err != nil {
				return nil, fmt.Errorf("device: %w", err)
			}
		default:
			return nil, fmt.Errorf("device: cuda:%s: %q is no GPU number, target (sm_80, …) or nvrtc", which, word)
		}
	}
	driver, err := cuda.Open()
	var ce *cuda.Error
	if errors.Is(err, cuda.ErrNoDriver) || errors.As(err, &ce) && ce.NoDevice() {
		return nil, fmt.Errorf("device: %w (%w); --device interp and --device sim need none", ErrNoGPU, err)
	}
	if err != nil {
		return nil, err
	}
	if n, err := driver.DeviceCount(); err != nil {
		return nil, err
	} else if g.ordinal >= n {
		return nil, fmt.Errorf("device: %w number %d; this machine has %d, from cuda:0 on", ErrNoGPU, g.ordinal, n)
	}
	d, err := driver.Device(g.ordinal)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("cuda:%d", g.ordinal)
	own, err := arch.For(d.Major, d.Minor)
	if err != nil {
		return nil, err
	}
	if target.Name == "" {
		target = own
	} else {
		name += ":" + target.Name
	}
	g.real, g.modules = own.Name, openModules()
	if g.nvrtc != nil {
		name += ":nvrtc"
	}
	major, minor := driver.Version()
	g.driver, g.info = driver, Info{Name: name, Title: d.Name, Arch: target.Name, Driver: fmt.Sprintf("CUDA %d.%d", major, minor), Memory: d.Memory}
	return g, nil
}

// reach makes a context, or has a keeper make one where the driver refuses this process.
func (g *gpu) reach() error {
	var err error
	if !g.apart {
		if err = g.connect(); !keeps.Load() || !refused(err) {
			return err
		}
	}
	k, other := startKeeper(g.which)
	switch {
	case other != nil && err != nil:
		return fmt.Errorf("%w; nor has another process one: %w", err, other)
	case other != nil:
		return other
	}
	g.keeper = k
	return nil
}

// refused says that the driver gives this process no context, since a program has broken one.
func refused(err error) bool {
	ce := (*cuda.Error)(nil)
	return errors.As(err, &ce) && ce.Sticky()
}

// connect makes a context and a stream.
func (g *gpu) connect() error {
	ctx, err := g.driver.NewContext(g.ordinal)
	if err != nil {
		return err
	}
	stream, err := ctx.NewStream()
	if err != nil {
		ctx.Close()
		return err
	}
	g.ctx, g.stream, g.code = ctx, stream, &contextCode{ctx: ctx, bySource: map[string]*loaded{}}
	return nil
}

// renew puts a new context into the place of one that a program broke, and says how it
// went. Drivers differ: some give a process no other context once one is lost. Then
// another process has the new one.
func (g *gpu) renew() (how string, err error) {
	g.drop()
	switch err := g.reach(); {
	case err != nil:
		return "no other context can be made" + noContext(err), err
	case g.apart:
		return "a new process holds the GPU in the place of the old one", nil
	case g.keeper != nil:
		return "the driver gives this process no other context, and a new process has one in its place", nil
	}
	return "a new context is in its place", nil
}

// nothingElse is behind what renew says where a launch has copied its arguments.
func nothingElse(how string, err error) string {
	if err != nil {
		return how
	}
	return how + "; arguments were copied, so that nothing else is lost"
}

// noContext says what helps where the driver gives no context any more.
func noContext(err error) string {
	if refused(err) {
		return ": the driver refuses a process in which a program has broken a context; start it again (in a notebook, restart the kernel)"
	}
	return ""
}

// drop gives the context up with everything in it.
func (g *gpu) drop() error {
	if g.keeper != nil {
		g.keeper.end()
		g.keeper = nil
	}
	if g.ctx == nil {
		return nil
	}
	ctx, code := g.ctx, g.code
	g.ctx, g.stream, g.code = nil, nil, nil
	code.loads.Wait()
	return ctx.Close()
}

func (g *gpu) Name() string   { return g.info.Name }
func (g *gpu) Describe() Info { return g.info }

func (g *gpu) Close() error {
	defer g.keeping.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.drop()
}

func (g *gpu) Run(ctx context.Context, p *ir.Program, args []ir.Arg) (*Result, error) {
	l, err := prepare(p, args, g.info.Arch, &g.programs)
	if err != nil {
		return nil, err
	}
	return g.start(ctx, p, l, args, func() (*ir.Program, error) { return p, nil })
}

// start launches; whole gives the program where p is but its outside.
func (g *gpu) start(ctx context.Context, p *ir.Program, l *launch.Launch, args []ir.Arg, whole func() (*ir.Program, error)) (*Result, error) {
	var err error
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for again := false; ; again = true {
		if g.ctx == nil && g.keeper == nil {
			if err := g.reach(); err != nil {
				return nil, fmt.Errorf("device: %s: %w%s", g.info.Name, err, noContext(err))
			}
		}
		g.started = g.keeper != nil
		var res *Result
		if g.keeper == nil {
			res, err = g.run(ctx, p, l, args)
		} else if all, e := whole(); e != nil {
			return nil, e
		} else if res, err = g.keeper.run(ctx, all, args); err == nil {
			res.Device = g.info.Name
		}
		switch gone := (*keeperFailed)(nil); {
		case refused(err) && !g.started && !again:
			g.renew() // what broke the context was another's, of a queue perhaps
			continue
		case refused(err):
			ce := (*cuda.Error)(nil)
			errors.As(err, &ce)
			return nil, fmt.Errorf("device: %s: program %s broke the GPU context: %w; %s; run it with --device sim, which finds the place", g.info.Name, p.Name, ce, nothingElse(g.renew()))
		case errors.As(err, &gone) && !gone.Gone:
			return nil, err // says which device it is
		case gone != nil:
			g.keeper = nil
			return nil, fmt.Errorf("device: %s: %w", g.info.Name, err)
		case err != nil:
			return nil, fmt.Errorf("device: %s: %w", g.info.Name, err)
		}
		return res, nil
	}
}

func (g *gpu) run(ctx context.Context, p *ir.Program, l *launch.Launch, args []ir.Arg) (*Result, error) {
	fn, jit, err := g.load(g.code, l.Code)
	if err != nil {
		return nil, err
	}
	ptrs := make([]cuda.Ptr, len(l.Buffers))
	defer func() {
		for _, ptr := range ptrs {
			if ptr != 0 && g.ctx != nil {
				g.ctx.Free(ptr)
			}
		}
	}()
	for k, a := range l.Buffers {
		n := launch.Bytes(a)
		if ptrs[k], err = g.ctx.Alloc(max(n, 16)); err != nil {
			return nil, err
		}
		data := make([]byte, n)
		copy(data, a.Data)
		if err := g.ctx.CopyIn(ptrs[k], data); err != nil {
			return nil, err
		}
	}
	spaces, sizes := map[string]cuda.Ptr{}, map[string]int{}
	params, err := g.params(p, l, ptrs, func(w code.Param, n int) (cuda.Ptr, error) {
		ptr, err := g.ctx.Alloc(n)
		if err != nil {
			return 0, err
		}
		ptrs = append(ptrs, ptr)
		spaces[w.Name], sizes[w.Name] = ptr, n
		if w.Workspace.Zero {
			err = g.ctx.CopyIn(ptr, make([]byte, n))
		}
		return ptr, err
	})
	if err != nil {
		return nil, err
	}
	start := fn.Launch
	if l.Code.Func.Launch.PDL {
		start = fn.LaunchDependent
	}
	exec, err := g.time(ctx, func() error {
		g.started = true
		return start(cuda.Dim{X: l.Grid[0], Y: l.Grid[1], Z: l.Grid[2]}, cuda.Dim{X: p.Threads(), Y: 1, Z: 1}, l.Code.Func.Launch.SharedBytes, g.stream, params)
	})
	if err != nil {
		return nil, err
	}
	data := make([][]byte, len(l.Buffers))
	for k, a := range l.Buffers {
		data[k] = make([]byte, len(a.Data))
		if err := g.ctx.CopyOut(data[k], ptrs[k]); err != nil {
			return nil, err
		}
	}
	workspaces := map[string][]byte{}
	if prints(p) {
		for name, n := range sizes {
			workspaces[name] = make([]byte, n)
			if err := g.ctx.CopyOut(workspaces[name], spaces[name]); err != nil {
				return nil, err
			}
		}
	}
	return &Result{Device: g.info.Name, Args: l.Results(p, args, data), Compile: l.Code.Elapsed, JIT: jit, Exec: exec, Printed: launch.Printed(p, l.Grid, workspaces)}, nil
}

// params are the parameters of a launch: the buffers at ptrs, what scalars are, tensor maps,
// and workspaces of so many bytes, which space gives.
func (g *gpu) params(p *ir.Program, l *launch.Launch, ptrs []cuda.Ptr, space func(w code.Param, n int) (cuda.Ptr, error)) (*cuda.Params, error) {
	params, bases := &cuda.Params{}, map[string]cuda.Ptr{}
	for i, v := range p.Params {
		switch t := v.Type.Elem; {
		case l.Buffer[i] >= 0:
			params.Ptr(ptrs[l.Buffer[i]])
			bases[v.Name] = ptrs[l.Buffer[i]]
		case t == dtype.Bool || t.Bits() == 32:
			params.I32(int32(l.Bits[i]))
		case t.Bits() == 64:
			params.I64(int64(l.Bits[i]))
		default:
			params.Bytes([]byte{byte(l.Bits[i]), byte(l.Bits[i] >> 8)})
		}
	}
	for _, w := range l.Code.Func.Params[len(p.Params):] {
		if w.Kind == code.Tensor {
			data, err := EncodeTensorMap(g.ctx, w.Map, bases, l.Scalars)
			if err != nil {
				return nil, err
			}
			params.Bytes(data)
			continue
		}
		n, err := w.Workspace.Bytes(l.Scalars)
		if err != nil {
			return nil, err
		}
		ptr, err := space(w, n)
		if err != nil {
			return nil, err
		}
		bases[w.Name] = ptr
		params.Ptr(ptr)
	}
	return params, nil
}

// time measures what queue puts on the stream, by events.
func (g *gpu) time(ctx context.Context, queue func() error) (time.Duration, error) {
	start, err := g.ctx.NewEvent()
	if err != nil {
		return 0, err
	}
	defer start.Close()
	end, err := g.ctx.NewEvent()
	if err != nil {
		return 0, err
	}
	defer end.Close()
	if err := start.Record(g.stream); err != nil {
		return 0, err
	}
	if err := queue(); err != nil {
		return 0, err
	}
	if err := end.Record(g.stream); err != nil {
		return 0, err
	}
	if err := g.wait(ctx); err != nil {
		return 0, err
	}
	ms, err := end.Since(start)
	return time.Duration(ms * float64(time.Millisecond)), err
}

// Waiting asks often at first, since most launches are short, and then leaves the
// processor alone.
const (
	waitBusy  = 100 * time.Microsecond
	waitSleep = 200 * time.Microsecond
	// waitUnended is how long a launch may go on after its caller gave up: most end by themselves, and the context with all
	// its programs can be kept.
	waitUnended = 100 * time.Millisecond
)

// wait ends when the stream has done all, or waitUnended after the end of ctx. A launch cannot be stopped: the
// context in which it goes on is given up with it, and whatever was in it.
func (g *gpu) wait(ctx context.Context) error {
	start := time.Now()
	var ended time.Time
	for {
		done, err := g.stream.Done()
		if done || err != nil {
			return err
		}
		cause := context.Cause(ctx)
		if cause != nil && ended.IsZero() {
			ended = time.Now()
		}
		if cause != nil && time.Since(ended) > waitUnended {
			g.ctx, g.stream, g.code = nil, nil, nil // destroying it would wait as well
			return &Unended{After: time.Since(start), Cause: cause}
		}
		if time.Since(start) > waitBusy {
			time.Sleep(waitSleep)
		}
	}
}

// Unended is the error of a launch that was still running when its context ended.
type Unended struct {
	After time.Duration
	Cause error
}

func (e *Unended) Error() string {
	return fmt.Sprintf("the launch had not ended after %s: %v; it keeps the GPU busy until this process ends (in a notebook: restart the kernel)", e.After.Round(time.Millisecond), e.Cause)
}

// Unwrap is why waiting ended.
func (e *Unended) Unwrap() error { return e.Cause }

// load gives the function for compiled code, JIT-compiling it the first time, and what that
// took. The caller holds the device's lock, or is one of loads. Several may be loaded at once; who
// asks for what is being made waits for it.
func (g *gpu) load(in *contextCode, c *compile.Compiled) (*cuda.Function, time.Duration, error) {
	source, err := c.PTX()
	if g.nvrtc != nil {
		source = c.CUDA()
	}
	if err != nil {
		return nil, 0, err
	}
	start := time.Now()
	in.mu.Lock()
	known := in.bySource[source]
	if known != nil {
		in.mu.Unlock()
		select {
		case <-known.made:
			return known.fn, 0, known.err
		default:
		}
		<-known.made
		return known.fn, time.Since(start), known.err
	}
	known = &loaded{made: make(chan struct{})}
	in.bySource[source] = known
	in.mu.Unlock()
	known.fn, known.err = g.module(in.ctx, source, c)
	if known.err != nil { // the next one tries again
		in.mu.Lock()
		delete(in.bySource, source)
		in.mu.Unlock()
	}
	close(known.made)
	return known.fn, time.Since(start), known.err
}

// module makes machine code in a context.
func (g *gpu) module(in *cuda.Context, source string, c *compile.Compiled) (*cuda.Function, error) {
	image, entry := []byte(source), c.Func.Name
	var err error
	if g.nvrtc != nil {
		entry = cudac.Entry(c.Func)
		if image, err = g.nvrtc.Compile(source, c.Func.Name+".cu", g.real); err != nil {
			return nil, err
		}
	}
	// PTX is loaded as it is: the driver keeps machine code itself, and what its linker makes, which could be kept here,
	// is made as a part of a program: slower, with up to twice the registers.
	m, err := in.Load(image, cuda.JIT{})
	if ce := (*cuda.Error)(nil); errors.As(err, &ce) && ce.NewerPTX() {
		_, version, _ := strings.Cut(source, ".version ")
		version, _, _ = strings.Cut(version, "\n")
		return nil, fmt.Errorf("the NVIDIA driver (%s) is too old for PTX version %s: update it, choose an older target (cuda:sm_80), or run with --device sim: %w", g.info.Driver, version, err)
	}
	if err != nil {
		return nil, err
	}
	fn, err := m.Function(entry)
	if err == nil && c.Func.Launch.SharedBytes > 48<<10 {
		err = fn.SetMaxDynamicShared(c.Func.Launch.SharedBytes)
	}
	if d := c.Func.Launch.Cluster; err == nil && max(d[0], 1)*max(d[1], 1)*max(d[2], 1) > 8 {
		err = fn.AllowLargeClusters()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return fn, nil
}
