// Package launch runs fusions that gpu/emit compiled on an NVIDIA GPU.
package launch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/vm/array"
)

// Loaded is a program on a device, with memory for its buffers. Close it when done.
type Loaded struct {
	Program *emit.Program
	Memory  []cuda.Ptr    // by buffer
	Time    time.Duration // from thread code to a loaded module

	ctx     *cuda.Context
	own     []cuda.Ptr
	module  *cuda.Module
	kernels []kernel
}

type kernel struct {
	f           *cuda.Function
	grid, block cuda.Dim
	shared      int
	args        []int
}

// Text is the PTX of a program: one module, since each that is loaded costs milliseconds
// before its first instruction is compiled.
func Text(p *emit.Program, arch string) (string, error) {
	var header, entries strings.Builder
	version, shared := "", ""
	for _, k := range p.Kernels {
		text, err := ptx.Print(k.Code, ptx.Options{Arch: arch, NoPos: true})
		if err != nil {
			return "", err
		}
		at := strings.Index(text, ".visible .entry")
		first, _, _ := strings.Cut(text, "\n")
		version = max(version, first)
		if strings.Contains(text[:at], ".shared") {
			shared = ".extern .shared .align 1024 .b8 shared_memory[];\n"
		}
		entries.WriteString(text[at:])
	}
	fmt.Fprintf(&header, "%s\n.target %s\n.address_size 64\n%s", version, arch, shared)
	return header.String() + entries.String(), nil
}

// Load compiles the kernels for a device.
func Load(ctx *cuda.Context, p *emit.Program, arch string) (*Loaded, error) {
	return load(ctx, p, arch, cuda.JIT{})
}

func load(ctx *cuda.Context, p *emit.Program, arch string, jit cuda.JIT) (l *Loaded, err error) {
	l = &Loaded{Program: p, ctx: ctx, Memory: make([]cuda.Ptr, len(p.Buffers))}
	loaded := l
	defer func() {
		if err != nil {
			loaded.Close()
		}
	}()
	start := time.Now()
	if len(p.Kernels) == 0 {
		return l, nil
	}
	text, err := Text(p, arch)
	if err != nil {
		return nil, err
	}
	if l.module, err = ctx.Load([]byte(text), jit); err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	for _, k := range p.Kernels {
		f, err := l.module.Function(k.Code.Name)
		if err != nil {
			return nil, err
		}
		n := kernel{f: f, block: cuda.Dim{X: k.Code.Launch.Block}, shared: k.Code.Launch.SharedBytes, args: k.Args}
		for i, g := range k.Code.Launch.Grid {
			v, err := g.Eval(nil)
			if err != nil {
				return nil, err
			}
			*[]*int{&n.grid.X, &n.grid.Y, &n.grid.Z}[i] = int(v)
		}
		if n.shared > 48<<10 {
			if err := f.SetMaxDynamicShared(n.shared); err != nil {
				return nil, err
			}
		}
		l.kernels = append(l.kernels, n)
	}
	l.Time = time.Since(start)
	return l, nil
}

// Registers are those of a thread, by kernel.
func (l *Loaded) Registers() (n []int) {
	for _, k := range l.kernels {
		n = append(n, k.f.Registers)
	}
	return n
}

// Alloc makes memory for the buffers that have none; what counts as 0 at first is 0.
func (l *Loaded) Alloc() error {
	for i := range l.Program.Buffers {
		if l.Memory[i] != 0 {
			continue
		}
		b := &l.Program.Buffers[i]
		size := max(16, (b.Shape.Bytes()+15)/16*16)
		p, err := l.ctx.Alloc(size)
		if err != nil {
			return err
		}
		l.own, l.Memory[i] = append(l.own, p), p
		if b.Zero {
			if err := l.ctx.Memset(p, 0, size, nil); err != nil {
				return err
			}
		}
		if b.Data != nil {
			if err := l.ctx.CopyIn(p, emit.Pack(b.Shape, b.Data)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Queue starts the kernels on a stream.
func (l *Loaded) Queue(s *cuda.Stream) error { return l.queue(l.kernels, s) }

func (l *Loaded) queue(kernels []kernel, s *cuda.Stream) error {
	var params cuda.Params
	for _, k := range kernels {
		params.Reset()
		for _, b := range k.args {
			params.Ptr(l.Memory[b])
		}
		if err := k.f.Launch(k.grid, k.block, k.shared, s, &params); err != nil {
			return err
		}
	}
	return nil
}

// Measure is how long the kernels take: the median of repeats of a graph of calls, after one
// that does not count.
func (l *Loaded) Measure(stream *cuda.Stream, calls, repeats int) (time.Duration, error) {
	return l.measure(l.kernels, stream, calls, repeats)
}

// MeasureKernel is [Loaded.Measure] of one kernel alone.
func (l *Loaded) MeasureKernel(i int, stream *cuda.Stream, calls, repeats int) (time.Duration, error) {
	return l.measure(l.kernels[i:i+1], stream, calls, repeats)
}

func (l *Loaded) measure(kernels []kernel, stream *cuda.Stream, calls, repeats int) (time.Duration, error) {
	if err := errors.Join(l.Alloc(), l.ctx.Synchronize()); err != nil {
		return 0, err
	}
	if len(kernels) == 0 {
		return 0, nil // nothing to launch
	}
	g, err := stream.Capture(func() error {
		for range calls {
			if err := l.queue(kernels, stream); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	defer g.Close()
	a, err := l.ctx.NewEvent()
	if err != nil {
		return 0, err
	}
	defer a.Close()
	b, err := l.ctx.NewEvent()
	if err != nil {
		return 0, err
	}
	defer b.Close()
	var times []float64 // ms
	for i := range repeats + 1 {
		if err := errors.Join(a.Record(stream), g.Launch(stream), b.Record(stream), b.Synchronize()); err != nil {
			return 0, err
		}
		t, err := b.Since(a)
		if err != nil {
			return 0, err
		}
		if i > 0 {
			times = append(times, t)
		}
	}
	slices.Sort(times)
	return time.Duration(times[len(times)/2] / float64(calls) * 1e6), nil
}

// Give writes arguments to the memory of the parameters; one of fewer elements than its
// parameter is repeated.
func (l *Loaded) Give(args []*array.Array) error {
	if len(args) != len(l.Program.Flat.Params) {
		return fmt.Errorf("launch: %d arguments for %d parameters", len(args), len(l.Program.Flat.Params))
	}
	if err := l.Alloc(); err != nil {
		return err
	}
	for i := range l.Program.Buffers {
		b := &l.Program.Buffers[i]
		if b.Param < 0 && b.From < 0 {
			continue
		}
		from := b
		for from.From >= 0 && from.Param < 0 {
			from = &l.Program.Buffers[from.From]
		}
		if from.Param >= 0 && args[from.Param].Len() < b.Shape.Elements() {
			part := args[from.Param].Data
			for at := 0; at < b.Shape.Bytes(); at += len(part) {
				if err := l.ctx.CopyIn(l.Memory[i]+cuda.Ptr(at), part[:min(len(part), b.Shape.Bytes()-at)]); err != nil {
					return err
				}
			}
			continue
		}
		if data := l.Program.Bytes(i, args); len(data) > 0 {
			if err := l.ctx.CopyIn(l.Memory[i], data); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run computes the results of arguments.
func (l *Loaded) Run(args []*array.Array) ([]*array.Array, error) {
	if err := l.Give(args); err != nil {
		return nil, err
	}
	if err := l.Queue(nil); err != nil {
		return nil, err
	}
	if err := l.ctx.Synchronize(); err != nil {
		return nil, err
	}
	var out []*array.Array
	for _, r := range l.Program.Results {
		a, err := l.Result(r)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// Result is what a buffer holds.
func (l *Loaded) Result(buffer int) (*array.Array, error) {
	s := l.Program.Buffers[buffer].Shape
	data := make([]byte, (s.Bytes()+15)/16*16)
	if len(data) > 0 {
		if err := l.ctx.CopyOut(data, l.Memory[buffer]); err != nil {
			return nil, err
		}
	}
	return emit.Unpack(s, data), nil
}

// Close gives everything back.
func (l *Loaded) Close() {
	if l.module != nil {
		l.module.Close()
	}
	for _, p := range l.own {
		l.ctx.Free(p)
	}
	l.module, l.own, l.kernels = nil, nil, nil
}
