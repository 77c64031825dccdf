// Package parallel spreads a quantised linear layer over several GPUs, each of
// which holds the weights of some k: every GPU multiplies its part, and NCCL adds
// the parts up on all of them. The kernels are those of one GPU, from
// gpu/qmm/template; the collectives are NVIDIA's.
package parallel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Weights are those of a layer: W in the order of [template.PackU4], u8[N/16,
// K/Group, 8·Group], and Scales, f16[K/Group, N].
type Weights struct {
	W, Scales *array.Array
	N, K      int
	Group     int
}

// Split gives each of n ranks its part: neighbouring groups of k. The number of
// groups must be a multiple of n.
func (w Weights) Split(n int) ([]Weights, error) {
	groups := w.K / w.Group
	if n < 1 || w.K%w.Group != 0 || groups%n != 0 {
		return nil, fmt.Errorf("parallel: k %d in groups of %d does not spread over %d ranks", w.K, w.Group, n)
	}
	parts := make([]Weights, n)
	for i := range parts {
		from, to := groups/n*i, groups/n*(i+1)
		parts[i] = Weights{W: columns(w.W, from, to), Scales: rows(w.Scales, from, to), N: w.N, K: w.K / n, Group: w.Group}
	}
	return parts, nil
}

// rows are the elements [from, to) of the first dimension of whole bytes.
func rows(a *array.Array, from, to int) *array.Array {
	row := len(a.Data) / a.Shape[0]
	out := array.New(a.Type, append([]int{to - from}, a.Shape[1:]...)...)
	copy(out.Data, a.Data[from*row:to*row])
	return out
}

// columns are the elements [from, to) of the second dimension.
func columns(a *array.Array, from, to int) *array.Array {
	row := len(a.Data) / a.Shape[0]
	unit := row / a.Shape[1]
	out := array.New(a.Type, append([]int{a.Shape[0], to - from}, a.Shape[2:]...)...)
	for i := range a.Shape[0] {
		copy(out.Data[i*(to-from)*unit:(i+1)*(to-from)*unit], a.Data[i*row+from*unit:i*row+to*unit])
	}
	return out
}

// Linear is a layer on several GPUs. It is for one goroutine at a time.
type Linear struct {
	N, K    int
	m       int
	program *ir.Program
	ranks   []*rank
	group   *cuda.Ranks
}

// rank is one GPU's part.
type rank struct {
	part          Weights
	ctx           *cuda.Context
	stream        *cuda.Stream
	module        *cuda.Module
	fn            *cuda.Function
	w, s, x, y    cuda.Ptr
	shared, warps int
	grid          [3]int
}

// MaxRows is the most rows of x that a layer takes.
const MaxRows = 8

// New puts a layer on these GPUs, by number, for m ≤ [MaxRows] rows of x. The
// error wraps [cuda.ErrNoDriver] or [cuda.ErrNoNCCL] where those are missing.
func New(w Weights, m int, gpus []int) (l *Linear, err error) {
	if m < 1 || m > MaxRows {
		return nil, fmt.Errorf("parallel: %d rows of x, 1 to %d fit", m, MaxRows)
	}
	parts, err := w.Split(len(gpus))
	if err != nil {
		return nil, err
	}
	driver, err := cuda.Open()
	if err != nil {
		return nil, fmt.Errorf("parallel: %w", err)
	}
	nccl, err := cuda.OpenNCCL()
	if err != nil {
		return nil, fmt.Errorf("parallel: %w", err)
	}
	l = &Linear{N: w.N, K: w.K, m: m}
	if l.program, err = template.DecodeU4(template.DecodeOptions{Group: w.Group}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	var streams []*cuda.Stream
	for i, gpu := range gpus {
		r := &rank{part: parts[i]}
		l.ranks = append(l.ranks, r)
		if err := r.open(driver, gpu, l.program, m); err != nil {
			return nil, fmt.Errorf("parallel: GPU %d: %w", gpu, err)
		}
		streams = append(streams, r.stream)
	}
	if l.group, err = nccl.Join(streams); err != nil {
		return nil, fmt.Errorf("parallel: %w", err)
	}
	return l, nil
}

// args are the arguments of the program for one part.
func (w Weights) args(x *array.Array) []ir.Arg {
	m := x.Shape[0]
	return []ir.Arg{{Array: w.W}, {Array: w.Scales}, {Array: x}, {Array: array.New(dtype.F16, m, w.N)}, {Int: int64(m)}, {Int: int64(w.N)}, {Int: int64(w.K)}}
}

func (r *rank) open(driver *cuda.Driver, gpu int, p *ir.Program, m int) error {
	d, err := driver.Device(gpu)
	if err != nil {
		return err
	}
	target, err := arch.For(d.Major, d.Minor)
	if err != nil {
		return err
	}
	args := r.part.args(array.New(dtype.F16, m, r.part.K))
	if r.grid, err = interp.CheckArgs(p, args); err != nil {
		return err
	}
	c, err := compile.Program(p, compile.Options{Arch: target.Name, Divisible: compile.Divisors(p, args)})
	if err != nil {
		return err
	}
	text, err := c.PTX()
	if err != nil {
		return err
	}
	if r.ctx, err = driver.PrimaryContext(gpu); err != nil {
		return err
	}
	if r.stream, err = r.ctx.NewStream(); err != nil {
		return err
	}
	if r.module, err = r.ctx.Load([]byte(text), cuda.JIT{}); err != nil {
		return err
	}
	if r.fn, err = r.module.Function(c.Func.Name); err != nil {
		return err
	}
	r.shared, r.warps = c.Func.Launch.SharedBytes, p.Threads()
	for _, b := range []struct {
		to    *cuda.Ptr
		array *array.Array
	}{{&r.w, r.part.W}, {&r.s, r.part.Scales}, {&r.x, args[2].Array}, {&r.y, args[3].Array}} {
		if *b.to, err = r.ctx.Alloc((len(b.array.Data) + 15) &^ 15); err != nil {
			return err
		}
		if err := r.ctx.CopyIn(*b.to, b.array.Data); err != nil {
			return err
		}
	}
	return nil
}

// launch queues the part's product.
func (r *rank) launch(m int) error {
	var params cuda.Params
	for _, p := range []cuda.Ptr{r.w, r.s, r.x, r.y} {
		params.Ptr(p)
	}
	params.I32(int32(m))
	params.I32(int32(r.part.N))
	params.I32(int32(r.part.K))
	return r.fn.Launch(cuda.Dim{X: r.grid[0], Y: r.grid[1], Z: r.grid[2]}, cuda.Dim{X: r.warps, Y: 1, Z: 1}, r.shared, r.stream, &params)
}

// Run gives y[M, N] = x[M, K]·(w·s)ᵀ: each part in f16, and their sum in f16 in
// the order of NCCL, the same on all GPUs. It waits for the result.
func (l *Linear) Run(ctx context.Context, x *array.Array) (*array.Array, error) {
	if x.Type != dtype.F16 || len(x.Shape) != 2 || x.Shape[0] != l.m || x.Shape[1] != l.K {
		return nil, fmt.Errorf("parallel: x is %s%v, want f16[%d, %d]", x.Type, x.Shape, l.m, l.K)
	}
	for i, r := range l.ranks {
		if err := r.ctx.CopyIn(r.x, columns(x, i*r.part.K, (i+1)*r.part.K).Data); err != nil {
			return nil, err
		}
	}
	if err := l.queue(); err != nil {
		return nil, err
	}
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	y := array.New(dtype.F16, l.m, l.N)
	return y, l.ranks[0].ctx.CopyOut(y.Data, l.ranks[0].y)
}

// queue puts one product and its sum on the streams.
func (l *Linear) queue() error {
	y := make([]cuda.Ptr, len(l.ranks))
	for i, r := range l.ranks {
		if err := r.launch(l.m); err != nil {
			return err
		}
		y[i] = r.y
	}
	return l.group.AllReduce(y, y, l.m*l.N, cuda.ElemF16, cuda.Sum)
}

// wait ends when all streams have, or the context does.
func (l *Linear) wait(ctx context.Context) error {
	for _, r := range l.ranks {
		for {
			done, err := r.stream.Done()
			if err != nil {
				return err
			}
			if done {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("parallel: %w", ctx.Err())
			}
			time.Sleep(20 * time.Microsecond)
		}
	}
	return nil
}

// Time gives the wall time of one of n products with their sums, queued one
// behind the other with the last x.
func (l *Linear) Time(ctx context.Context, n int) (time.Duration, error) {
	if n < 1 {
		return 0, errors.New("parallel: Time of no products")
	}
	start := time.Now()
	for range n {
		if err := l.queue(); err != nil {
			return 0, err
		}
	}
	err := l.wait(ctx)
	return time.Since(start) / time.Duration(n), err
}

// Close gives the GPUs back.
func (l *Linear) Close() error {
	var errs []error
	if l.group != nil {
		errs = append(errs, l.group.Close())
	}
	for _, r := range l.ranks {
		if r.ctx == nil {
			continue
		}
		for _, p := range []cuda.Ptr{r.w, r.s, r.x, r.y} {
			if p != 0 {
				errs = append(errs, r.ctx.Free(p))
			}
		}
		if r.module != nil {
			errs = append(errs, r.module.Close())
		}
		if r.stream != nil {
			errs = append(errs, r.stream.Close())
		}
		errs = append(errs, r.ctx.Close())
	}
	l.ranks, l.group = nil, nil
	return errors.Join(errs...)
}

// Reference is what [Linear.Run] gives, computed on the interpreter: the parts in
// f16, added in the order of ranks. With two ranks any order is this one.
func Reference(ctx context.Context, w Weights, x *array.Array, ranks int) (*array.Array, error) {
	p, err := template.DecodeU4(template.DecodeOptions{Group: w.Group})
	if err != nil {
		return nil, err
	}
	parts, err := w.Split(ranks)
	if err != nil {
		return nil, err
	}
	var y *array.Array
	for i, part := range parts {
		m, err := interp.New(p, part.args(columns(x, i*part.K, (i+1)*part.K)))
		if err != nil {
			return nil, err
		}
		if err := m.Run(ctx); err != nil {
			return nil, err
		}
		part := m.Args()[3].Array
		if y == nil {
			y = part.Clone()
			continue
		}
		for k := range y.Len() {
			y.SetCode(k, dtype.Add(dtype.F16, y.Code(k), part.Code(k)))
		}
	}
	return y, nil
}
