package tune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Options choose how to measure; the zero value is right for most programs.
type Options struct {
	// Bytes is what one launch must move; 0 is each array once.
	Bytes int64
	// Want holds, per parameter, what its array must be after one launch; nil
	// entries, or a nil list, are not checked.
	Want []*array.Array
	// Tolerance is the relative Frobenius error that is allowed; 0 asks for equal bits.
	Tolerance float64
	// WorkingSet is how many bytes of inputs to rotate over; 0 is four times the L2 cache.
	WorkingSet int64
	// Launches is how many launches one graph holds, rounded up to whole rounds
	// over the sets; 0 fills about 3 ms.
	Launches int
	// Replays is how often the graph is timed; 0 is 11, and 7 is the least.
	Replays int
	// Read also times our read kernel over as many bytes, right afterwards.
	Read bool
	// NoOpt leaves the thread-code passes out.
	NoOpt bool
	// Clocks also asks the blocks of other launches when and where they ran.
	Clocks bool
	// Seen, if not nil, hears of the arguments as the first launch leaves them; its error
	// ends the measurement. Without Want, later launches must come to the same.
	Seen func(args []ir.Arg) error
	// Outputs is over how many copies of what each launch writes anew launches go round, 1 by
	// default. With more, all of them are compared after each replay: every launch is then held
	// to what is wanted, not only the last one.
	Outputs int
	// Held keeps what rotates and nothing writes on the GPU for the next measurement with the same arrays.
	Held *Held
	// Until, if not zero, is when the time is up: no step begins behind it, and a measurement that
	// is not done ends with [ErrLate].
	Until time.Time
	// Before are launches in front of each launch, timed with it. An array that several
	// programs have is one. What one stores and a later one reads is there once per set, so that
	// the next launches may store it while these still read; see [Overlap].
	Before []Launch
}

// Launch is a launch of a program.
type Launch struct {
	Program *ir.Program
	Args    []ir.Arg
}

// Timing is what was measured. Times per launch are in µs.
type Timing struct {
	Median, Min, Max float64
	Samples          []float64 // one per replay, in order
	Bytes            int64     // per launch
	GBps             float64   // Bytes over Median, in 10^9 bytes a second

	Launches   int   // per replay
	Sets       int   // copies of the inputs that launches rotate over
	WorkingSet int64 // bytes of all those copies

	CompileMs float64 // program text to PTX: our share
	JITMs     float64 // PTX to machine code: the driver's; see [cuda.Module]
	PTXBytes  int     // of the program's text for the driver, on which JITMs depends where nothing is kept

	Grid                  [3]int
	Threads               int // per block
	Registers, LocalBytes int // per thread
	SharedBytes           int // per block, static and dynamic
	BlocksPerSM           int // that fit at a time

	Checked  bool
	RelError float64 // the largest of the checked arrays; 0 where all bits are equal

	ReadUs, ReadGBps float64 // of the read kernel over as many bytes, with Options.Read

	Spent Spent

	Clocks *Clocks // with Options.Clocks
}

// Ratio is the time over that of the read kernel, or 0 if that was not measured.
func (t Timing) Ratio() float64 {
	if t.ReadUs == 0 {
		return 0
	}
	return t.Median / t.ReadUs
}

func (t Timing) String() string {
	s := fmt.Sprintf("%.2f µs (%.2f to %.2f), %.0f GB/s", t.Median, t.Min, t.Max, t.GBps)
	if t.ReadUs > 0 {
		s += fmt.Sprintf(", %.3f of the read kernel's %.2f µs", t.Ratio(), t.ReadUs)
	}
	s += fmt.Sprintf("; %d sets, %d launches, compile %.1f ms, JIT %.1f ms, %d registers, %d local bytes, %d blocks a SM",
		t.Sets, t.Launches, t.CompileMs, t.JITMs, t.Registers, t.LocalBytes, t.BlocksPerSM)
	if t.Clocks != nil {
		s += "; " + t.Clocks.text()
	}
	return s
}

// Spent is where the time of a measurement went, in ms; the read kernel and [Clocks] come on top.
type Spent struct {
	Code    float64 `json:"code_ms"`    // waiting for machine code, or making it
	Memory  float64 `json:"memory_ms"`  // allocations, copies to the GPU and inside it, and giving back
	Check   float64 `json:"check_ms"`   // the first launch, and holding results to what is wanted
	Graph   float64 `json:"graph_ms"`   // recording and instantiating
	Replays float64 `json:"replays_ms"` // and the round before them
}

// Add adds what another measurement took.
func (s *Spent) Add(o Spent) {
	s.Code, s.Memory, s.Check, s.Graph, s.Replays = s.Code+o.Code, s.Memory+o.Memory, s.Check+o.Check, s.Graph+o.Graph, s.Replays+o.Replays
}

func (s Spent) String() string {
	return fmt.Sprintf("code %.0f ms, memory %.0f, check %.0f, graph %.0f, replays %.0f", s.Code, s.Memory, s.Check, s.Graph, s.Replays)
}

// ErrLate is wrapped by the error of a measurement that was not done when [Options.Until] came.
var ErrLate = errors.New("the time is up")

// ErrWrong is wrapped by the error of a launch whose result is not the expected one.
var ErrWrong = errors.New("wrong result")

// Time measures launches of p with args, which are not changed. One launch is
// checked first, over outputs filled with 0xff, and what every launch writes anew
// is checked again after the last one. Arrays that the program only
// reads are copied on the device, and launches go round the copies; an array
// that it updates in place goes on from launch to launch.
//
// A program that is wrong gives a diag.List, a wrong result [ErrWrong], a GPU
// that does not answer until ctx is done ctx's error.
func Time(ctx context.Context, g *GPU, p *ir.Program, args []ir.Arg, o Options) (Timing, error) {
	fail := func(err error) (Timing, error) {
		return Timing{}, fmt.Errorf("tune: %s: %w", p.Name, err)
	}
	begin := time.Now()
	r, err := prepare(g, p, args, o)
	if err != nil {
		return Timing{}, err
	}
	for _, step := range o.Before {
		b, err := prepare(g, step.Program, step.Args, o)
		if err != nil {
			return Timing{}, err
		}
		r.before = append(r.before, b)
	}
	if err := g.connect(); err != nil {
		return Timing{}, err
	}
	r.t.Spent.Code = ms(begin)
	err = r.measure(ctx)
	if err == nil && o.Clocks {
		err = r.clocks(ctx, compile.Options{Arch: g.Target, Divisible: compile.Divisors(r.p, args), NoOpt: o.NoOpt})
	}
	begin = time.Now()
	r.close(err)
	r.t.Spent.Memory += ms(begin)
	if err != nil {
		return fail(err)
	}
	if o.Read {
		read, err := TimeRead(ctx, g, r.t.Bytes, Options{Replays: o.Replays, WorkingSet: o.WorkingSet})
		if err != nil {
			return Timing{}, err
		}
		r.t.ReadUs, r.t.ReadGBps = read.Median, read.GBps
	}
	return r.t, nil
}

// prepare compiles a program for its arguments.
func prepare(g *GPU, p *ir.Program, args []ir.Arg, o Options) (*run, error) {
	grid, err := interp.CheckArgs(p, args)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*run, error) { return nil, fmt.Errorf("tune: %s: %w", p.Name, err) }
	m := g.code(p, compile.Options{Arch: g.Target, Divisible: compile.Divisors(p, args), NoOpt: o.NoOpt}, o.Until)
	if m == nil {
		return fail(ErrLate)
	}
	if m.err != nil {
		return fail(m.err)
	}
	p = m.program
	c := m.compiled
	maps := c.Func.Params[len(p.Params):]
	if slices.ContainsFunc(maps, func(m code.Param) bool { return m.Kind != code.Tensor }) {
		return nil, fmt.Errorf("tune: %s has tensors of AllocateGlobal, which are not timed; give it their memory as arguments", p.Name)
	}
	return &run{g: g, p: p, args: args, maps: maps, o: o, made: m, entry: c.Func.Name, shared: c.Func.Launch.SharedBytes, dependent: c.Func.Launch.PDL, t: Timing{
		CompileMs: m.compileMs, Grid: grid, Threads: p.Threads(), Bytes: o.Bytes,
	}}, nil
}

// errBusy says that work was left behind on the GPU.
var errBusy = errors.New("the GPU has not finished")

// run is one measurement under way.
type run struct {
	g    *GPU
	p    *ir.Program
	args []ir.Arg
	maps []code.Param // tensor maps, behind the program's parameters
	o    Options
	t    Timing

	before []*run // launched in front; they have the stream and the buffers of this one

	made   *moduleCode
	entry  string
	shared int // dynamic, per block
	// dependent launches may begin before those in front of them end.
	dependent bool

	module  *cuda.Module
	fn      *cuda.Function
	stream  *cuda.Stream
	closers []func() error
	buffers []buffer
	buffer  []int // per argument: index into buffers, or -1
	encoded map[encoded][]byte
}

// buffer is one array on the device, once or once per set.
type buffer struct {
	array *array.Array
	use   use
	ahead bool // launches in front of each launch write it
	ptr   []cuda.Ptr
}

// at is the address for launch i.
func (b *buffer) at(i int) cuda.Ptr { return b.ptr[i%len(b.ptr)] }

// size is what an array takes on a device: whole 16-byte units, so that the
// words in which packed elements are stored never stick out.
func (b *buffer) size() int { return max((len(b.array.Data)+15)&^15, 16) }

// stride is how far copies of size bytes are apart in the one allocation that they have: a large page
// of the GPU's where they are as large, so that each begins where one of its own would begin.
func stride(size int) int {
	const small, page = 512, 2 << 20
	if size >= page {
		return (size + page - 1) / page * page
	}
	return (size + small - 1) / small * small
}

func (r *run) later(f func() error) { r.closers = append(r.closers, f) }

// close frees what the measurement holds. After an error that took the context
// away, that is the context; after one that left the GPU at work, freeing would
// wait for it, so the context is given up as it is, with what is held in it.
func (r *run) close(err error) {
	var ce *cuda.Error
	switch {
	case errors.As(err, &ce) && ce.Sticky():
		r.o.Held.forget()
		r.g.Close()
		return
	case errors.Is(err, errBusy):
		r.o.Held.forget()
		r.g.leave()
		return
	}
	for i := len(r.closers) - 1; i >= 0; i-- {
		r.closers[i]()
	}
}

func (r *run) measure(ctx context.Context) (err error) {
	if r.stream, err = r.g.ctx.NewStream(); err != nil {
		return err
	}
	r.later(r.stream.Close)
	if err := r.timed(&r.t.Spent.Code, r.code); err != nil {
		return err
	}
	if err := r.timed(&r.t.Spent.Memory, r.upload); err != nil {
		return err
	}
	if err := r.overlaps(); err != nil {
		return err
	}
	if err := r.timed(&r.t.Spent.Check, func() error { return r.check(ctx) }); err != nil {
		return err
	}
	// A first round tells about how long a launch takes; the one before it, in
	// check, has paid what only a first launch pays.
	round, first := max(r.t.Sets, 4), 0.0
	err = r.timed(&r.t.Spent.Replays, func() (err error) {
		first, err = r.elapsed(ctx, func() error { return r.launches(round) })
		return err
	})
	if err != nil {
		return err
	}
	n := launchCount(first/float64(round), 3000, r.t.Sets)
	if r.o.Launches > 0 {
		n = (r.o.Launches + r.t.Sets - 1) / r.t.Sets * r.t.Sets
	}
	n = max(n, (r.o.Outputs+r.t.Sets-1)/r.t.Sets*r.t.Sets)
	var graph *cuda.Graph
	err = r.timed(&r.t.Spent.Graph, func() (err error) {
		graph, err = r.stream.Capture(func() error { return r.launches(n) })
		return err
	})
	if err != nil {
		return err
	}
	r.later(graph.Close)
	r.t.Launches = n
	replays := 11
	if r.o.Replays > 0 {
		replays = max(r.o.Replays, 7)
	}
	const warm = 2
	for i := range warm + replays {
		us := 0.0
		err := r.timed(&r.t.Spent.Replays, func() (err error) {
			us, err = r.elapsed(ctx, func() error { return graph.Launch(r.stream) })
			return err
		})
		if err != nil {
			return err
		}
		if i >= warm {
			r.t.Samples = append(r.t.Samples, us/float64(n))
		}
		if r.o.Outputs > 1 {
			if err := r.compare(written, true); err != nil {
				return fmt.Errorf("in replay %d: %w", i, err)
			}
		}
	}
	r.t.Median, r.t.Min, r.t.Max = summary(r.t.Samples)
	r.t.GBps = float64(r.t.Bytes) / r.t.Median / 1000
	// What is written anew by each launch must be the same after many, which may
	// have overlapped and share what they update.
	defer func(begin time.Time) { r.t.Spent.Check += ms(begin) }(time.Now())
	if err := r.compare(written, true); err != nil {
		return fmt.Errorf("after the last launch: %w", err)
	}
	return nil
}

// timed does a step if there is time for it, and counts what it takes.
func (r *run) timed(spent *float64, step func() error) error {
	if u := r.o.Until; !u.IsZero() && !r.g.now().Before(u) {
		return ErrLate
	}
	begin := time.Now()
	err := step()
	*spent += ms(begin)
	return err
}

// code loads the code of all launches.
func (r *run) code() error {
	if err := r.load(r.later); err != nil {
		return err
	}
	for _, b := range r.before {
		b.stream = r.stream
		if err := b.load(r.later); err != nil {
			return err
		}
		r.t.CompileMs, r.t.JITMs = r.t.CompileMs+b.t.CompileMs, r.t.JITMs+b.t.JITMs
	}
	return nil
}

// load JIT-compiles and asks the driver what came out.
func (r *run) load(later func(func() error)) (err error) {
	if r.made.module != nil && r.made.ctx == r.g.ctx { // which Forget closes
		r.module = r.made.module
	} else {
		if r.module, err = r.g.ctx.Load([]byte(r.made.ptx), cuda.JIT{}); err != nil {
			return err
		}
		later(r.module.Close)
	}
	if r.fn, err = r.module.Function(r.entry); err != nil {
		return err
	}
	if r.shared > 48<<10 {
		if err := r.fn.SetMaxDynamicShared(r.shared); err != nil {
			return err
		}
	}
	r.t.JITMs, r.t.PTXBytes = float64(r.module.Time)/float64(time.Millisecond), len(r.made.ptx)
	r.t.Registers, r.t.LocalBytes, r.t.SharedBytes = r.fn.Registers, r.fn.LocalBytes, r.fn.SharedBytes+r.shared
	r.t.BlocksPerSM, err = r.fn.BlocksPerSM(r.t.Threads, r.shared)
	return err
}

// upload puts the arrays on the device and copies those that rotate.
func (r *run) upload() error {
	index := map[*array.Array]int{}
	for _, x := range append([]*run{r}, r.before...) {
		byParam := uses(x.p)
		for i, a := range x.args {
			if x.p.Params[i].Type.Kind != ir.Pointer {
				x.buffer = append(x.buffer, -1)
				continue
			}
			k, ok := index[a.Array]
			if !ok {
				k = len(r.buffers)
				index[a.Array] = k
				r.buffers = append(r.buffers, buffer{array: a.Array})
			}
			// What is written in front is there for each launch, and is no result.
			if x != r && byParam[i]&writes != 0 {
				r.buffers[k].ahead = true
				if byParam[i] == writes {
					byParam[i] = 0
				}
			}
			r.buffers[k].use |= byParam[i]
			x.buffer = append(x.buffer, k)
		}
	}
	var sizes []int64
	var all, once, rotating, apart int64
	var of []use
	for k := range r.buffers {
		of = append(of, r.buffers[k].use)
		sizes = append(sizes, int64(r.buffers[k].size()))
		all += int64(len(r.buffers[k].array.Data))
	}
	turn := rotated(sizes, of)
	for k, n := range sizes {
		if turn[k] {
			rotating, apart = rotating+n, apart+int64(stride(int(n)))
		} else {
			once += n
		}
	}
	if r.t.Bytes == 0 {
		r.t.Bytes = all
	}
	want := r.o.WorkingSet
	if want == 0 {
		want = 4 * r.g.L2
	}
	free, _, err := r.g.ctx.MemInfo()
	if err != nil {
		return err
	}
	for k := range r.buffers {
		if b := &r.buffers[k]; turn[k] && !b.ahead { // what is held takes its place
			if n := r.o.Held.count(r.g.ctx, b.array); n > 0 {
				free += int64(b.span(n))
			}
		}
	}
	r.t.Sets = setCount(rotating, apart, want, free*9/10-once)
	r.t.WorkingSet = int64(r.t.Sets) * rotating
	for k := range r.buffers {
		b := &r.buffers[k]
		copies := 1
		if turn[k] {
			copies = r.t.Sets
		} else if written(b) {
			copies = max(1, r.o.Outputs)
		}
		held := r.o.Held
		if !turn[k] || b.ahead {
			held = nil
		}
		if b.ptr = held.of(r.g.ctx, b.array, copies); b.ptr != nil {
			continue
		}
		base, err := r.g.ctx.Alloc(b.span(copies))
		if err != nil {
			return err
		}
		for i := range copies {
			b.ptr = append(b.ptr, base+cuda.Ptr(i*stride(b.size())))
		}
		if err = r.fill(b); err == nil && held != nil {
			held.keep(b.array, b.ptr)
			continue
		}
		r.later(func() error { return r.g.ctx.Free(base) })
		if err != nil {
			return err
		}
	}
	for _, b := range r.before {
		b.buffers = r.buffers
	}
	return r.g.ctx.Synchronize()
}

// span is how many bytes that many copies take, one behind the other.
func (b *buffer) span(copies int) int { return (copies-1)*stride(b.size()) + b.size() }

// fill gives all copies of b what they are before a launch: the array, which is copied to the GPU
// once and there from what is filled to as much again, or a pattern where the program must write
// every element.
func (r *run) fill(b *buffer) error {
	base, n := b.ptr[0], len(b.ptr)
	if written(b) {
		return r.g.ctx.Memset(base, 0xff, b.span(n), nil)
	}
	if err := r.g.ctx.CopyIn(base, b.array.Data); err != nil {
		return err
	}
	if rest := b.size() - len(b.array.Data); rest > 0 {
		if err := r.g.ctx.CopyIn(base+cuda.Ptr(len(b.array.Data)), make([]byte, rest)); err != nil {
			return err
		}
	}
	for done := 1; done < n; {
		more := min(done, n-done)
		if err := r.g.ctx.Copy(b.ptr[done], base, b.span(more), nil); err != nil {
			return err
		}
		done += more
	}
	return nil
}

// launches queues n launches, the i-th with set i modulo the number of sets.
func (r *run) launches(n int) error { return r.queue(r.fn, n, nil) }

// queue queues launches of fn, which has the program's parameters and those that
// more, if not nil, appends, each behind those in front of it.
func (r *run) queue(fn *cuda.Function, n int, more func(i int, params *cuda.Params)) error {
	for i := range n {
		for _, b := range r.before {
			if err := b.one(b.fn, i, nil); err != nil {
				return err
			}
		}
		if err := r.one(fn, i, more); err != nil {
			return err
		}
	}
	return nil
}

// one queues launch i.
func (r *run) one(fn *cuda.Function, i int, more func(i int, params *cuda.Params)) error {
	grid := cuda.Dim{X: r.t.Grid[0], Y: r.t.Grid[1], Z: r.t.Grid[2]}
	block := cuda.Dim{X: r.t.Threads, Y: 1, Z: 1}
	var params cuda.Params
	for j, v := range r.p.Params {
		a := r.args[j]
		switch t := v.Type.Elem; {
		case r.buffer[j] >= 0:
			params.Ptr(r.buffers[r.buffer[j]].at(i))
		case t.IsFloat() && t.Bits() == 64:
			params.F64(a.Float)
		case t.IsFloat() && t.Bits() == 32:
			params.F32(float32(a.Float))
		case t.IsFloat():
			bits := t.Encode(a.Float, false)
			params.Bytes([]byte{byte(bits), byte(bits >> 8)})
		case t == dtype.Bool || t.Bits() == 32:
			params.I32(int32(a.Int))
		case t.Bits() == 64:
			params.I64(a.Int)
		default:
			params.Bytes([]byte{byte(a.Int), byte(a.Int >> 8)})
		}
	}
	if err := r.tensorMaps(i, &params); err != nil {
		return err
	}
	if more != nil {
		more(i, &params)
	}
	launch := fn.Launch
	if r.dependent {
		launch = fn.LaunchDependent
	}
	return launch(grid, block, r.shared, r.stream, &params)
}

// encoded names a tensor map: which one, and where what it is of begins.
type encoded struct {
	at  cuda.Ptr
	nth int
}

// tensorMaps appends the maps of launch i, which are those of all launches with the same set.
func (r *run) tensorMaps(i int, params *cuda.Params) error {
	for nth, m := range r.maps {
		bases := map[string]cuda.Ptr{}
		key := encoded{nth: nth}
		if j := slices.IndexFunc(r.p.Params, func(v *ir.Var) bool { return v.Name == m.Map.Base }); j >= 0 && r.buffer[j] >= 0 {
			key.at = r.buffers[r.buffer[j]].at(i)
			bases[m.Map.Base] = key.at
		}
		data := r.encoded[key]
		if data == nil {
			scalars := map[string]int64{}
			for j, v := range r.p.Params {
				if r.buffer[j] < 0 {
					scalars[v.Name] = r.args[j].Int
				}
			}
			var err error
			if data, err = device.EncodeTensorMap(r.g.ctx, m.Map, bases, scalars); err != nil {
				return err
			}
			if r.encoded == nil {
				r.encoded = map[encoded][]byte{}
			}
			r.encoded[key] = data
		}
		params.Bytes(data)
	}
	return nil
}

// check launches once and compares with what is wanted.
func (r *run) check(ctx context.Context) error {
	if err := r.launches(1); err != nil {
		return err
	}
	if err := r.wait(ctx); err != nil {
		return err
	}
	if r.o.Seen != nil {
		args, err := r.after()
		if err == nil {
			err = r.o.Seen(args)
		}
		if err != nil {
			return err
		}
		if r.o.Want == nil { // later launches must come to the same
			r.o.Want = make([]*array.Array, len(args))
			for i, k := range r.buffer {
				if k >= 0 && r.buffers[k].use == writes {
					r.o.Want[i] = args[i].Array
				}
			}
		}
	}
	return r.compare(func(*buffer) bool { return true }, false)
}

// written reports whether each launch writes an array anew.
func written(b *buffer) bool { return b.use == writes }

// after is the program's arguments with what it has written.
func (r *run) after() ([]ir.Arg, error) {
	out := slices.Clone(r.args)
	for i, k := range r.buffer {
		if k < 0 || r.buffers[k].use&writes == 0 {
			continue
		}
		out[i].Array = r.buffers[k].array.Clone()
		if err := r.g.ctx.CopyOut(out[i].Array.Data, r.buffers[k].ptr[0]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compare holds arrays to what is wanted, those for which the filter is true: the first copy of
// each, or all of them.
func (r *run) compare(filter func(*buffer) bool, all bool) error {
	for i, want := range r.o.Want {
		if want == nil || i < len(r.buffer) && r.buffer[i] >= 0 && !filter(&r.buffers[r.buffer[i]]) {
			continue
		}
		if i >= len(r.buffer) || r.buffer[i] < 0 {
			return fmt.Errorf("an array is wanted of argument %d, which is none", i)
		}
		b := &r.buffers[r.buffer[i]]
		got, copies := b.array.Clone(), b.ptr[:1]
		if all && written(b) {
			copies = b.ptr
		}
		for k, ptr := range copies {
			if err := r.g.ctx.CopyOut(got.Data, ptr); err != nil {
				return err
			}
			r.t.Checked = true
			relError, err := compare(got, want, r.o.Tolerance)
			if err != nil {
				name := r.p.Params[i].Name
				if len(copies) > 1 {
					name = fmt.Sprintf("%s of launch %d", name, k)
				}
				return fmt.Errorf("%s: %w", name, err)
			}
			r.t.RelError = max(r.t.RelError, relError)
		}
	}
	return nil
}

// compare says how far got is from want; beyond the tolerance is an error.
func compare(got, want *array.Array, tolerance float64) (relError float64, err error) {
	if got.Header() != want.Header() {
		return 0, fmt.Errorf("%w: %s is compared with %s", ErrWrong, got.Header(), want.Header())
	}
	if bytes.Equal(got.Data, want.Data) {
		return 0, nil
	}
	if tolerance == 0 {
		report := array.Compare(got, want)
		return 0, fmt.Errorf("%w: %d of %d elements differ, first %v", ErrWrong, report.Differ, report.N, report.First)
	}
	relError = array.RelFro(got, want)
	if math.IsNaN(relError) || relError > tolerance {
		report := array.Compare(got, want)
		return relError, fmt.Errorf("%w: the relative error is %.3g, more than %.3g; %d of %d elements differ, first %v", ErrWrong, relError, tolerance, report.Differ, report.N, report.First)
	}
	return relError, nil
}

// wait waits for the stream, and no longer than ctx allows.
func (r *run) wait(ctx context.Context) error {
	for {
		done, err := r.stream.Done()
		if done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", errBusy, err)
		}
		time.Sleep(20 * time.Microsecond)
	}
}

// elapsed gives the µs that what queue puts on the stream takes, by events.
func (r *run) elapsed(ctx context.Context, queue func() error) (float64, error) {
	start, err := r.g.ctx.NewEvent()
	if err != nil {
		return 0, err
	}
	defer start.Close()
	end, err := r.g.ctx.NewEvent()
	if err != nil {
		return 0, err
	}
	defer end.Close()
	if err := start.Record(r.stream); err != nil {
		return 0, err
	}
	if err := queue(); err != nil {
		return 0, err
	}
	if err := end.Record(r.stream); err != nil {
		return 0, err
	}
	if err := r.wait(ctx); err != nil {
		return 0, err
	}
	ms, err := end.Since(start)
	return ms * 1000, err
}
