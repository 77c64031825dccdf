package probe

import (
	"context"
	"errors"
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
)

// Simulator is the machine that gpu/sim is.
type Simulator struct{}

// Run executes f with all of the simulator's checks.
func (Simulator) Run(ctx context.Context, f *code.Func, grid [3]int, bufs [][]byte) error {
	l := sim.Launch{Grid: grid}
	for _, b := range bufs {
		l.Args = append(l.Args, sim.Arg{Buffer: b})
	}
	_, err := sim.Run(ctx, f, l, sim.Options{})
	return err
}

// GPU is an NVIDIA GPU, reached with PTX text through the driver.
type GPU struct {
	driver *cuda.Driver
	ctx    *cuda.Context // nil when it must be made again
	Title  string        // "NVIDIA H200"
	Target string        // what the text is printed for: "sm_90a"
	Driver string        // "CUDA 13.0"
}

// OpenGPU opens the first GPU. The error wraps [device.ErrNoGPU] where there is
// none.
func OpenGPU() (*GPU, error) {
	driver, err := cuda.Open()
	if e := (*cuda.Error)(nil); errors.Is(err, cuda.ErrNoDriver) || errors.As(err, &e) && e.NoDevice() {
		return nil, fmt.Errorf("probe: %w (%w)", device.ErrNoGPU, err)
	}
	if err != nil {
		return nil, err
	}
	d, err := driver.Device(0)
	if err != nil {
		return nil, err
	}
	target, err := arch.For(d.Major, d.Minor)
	if err != nil {
		return nil, err
	}
	major, minor := driver.Version()
	g := &GPU{driver: driver, Title: d.Name, Target: target.Name, Driver: fmt.Sprintf("CUDA %d.%d", major, minor)}
	g.ctx, err = driver.NewContext(0)
	return g, err
}

// Close gives the GPU back.
func (g *GPU) Close() error {
	if g.ctx == nil {
		return nil
	}
	c := g.ctx
	g.ctx = nil
	return c.Close()
}

// Run compiles, loads and launches f. A function that breaks the context costs
// that function only: the next one gets a new context.
func (g *GPU) Run(ctx context.Context, f *code.Func, grid [3]int, bufs [][]byte) error {
	text, err := ptx.Print(f, ptx.Options{Arch: g.Target, NoPos: true})
	if err != nil {
		return err
	}
	if g.ctx == nil {
		if g.ctx, err = g.driver.NewContext(0); err != nil {
			return err
		}
	}
	err = g.launch(text, f, grid, bufs)
	if e := (*cuda.Error)(nil); errors.As(err, &e) {
		if e.Log != "" {
			err = fmt.Errorf("%w: %s", err, e.Log)
		}
		if e.Sticky() {
			g.Close()
		}
	}
	return err
}

func (g *GPU) launch(text string, f *code.Func, grid [3]int, bufs [][]byte) error {
	m, err := g.ctx.Load([]byte(text), cuda.JIT{})
	if err != nil {
		return err
	}
	defer m.Close()
	fn, err := m.Function(f.Name)
	if err != nil {
		return err
	}
	var params cuda.Params
	ptrs := make([]cuda.Ptr, len(bufs))
	defer func() {
		for _, p := range ptrs {
			g.ctx.Free(p)
		}
	}()
	for i, b := range bufs {
		if ptrs[i], err = g.ctx.Alloc(max(len(b), 16)); err != nil {
			return err
		}
		if err := g.ctx.CopyIn(ptrs[i], b); err != nil {
			return err
		}
		params.Ptr(ptrs[i])
	}
	bases := map[string]cuda.Ptr{}
	for i := range bufs {
		bases[f.Params[i].Name] = ptrs[i]
	}
	for _, p := range f.Params[len(bufs):] {
		data, err := device.EncodeTensorMap(g.ctx, p.Map, bases, nil)
		if err != nil {
			return err
		}
		params.Bytes(data)
	}
	if f.Launch.SharedBytes > 48<<10 {
		if err := fn.SetMaxDynamicShared(f.Launch.SharedBytes); err != nil {
			return err
		}
	}
	dim := cuda.Dim{X: max(grid[0], 1), Y: max(grid[1], 1), Z: max(grid[2], 1)}
	if err := fn.Launch(dim, cuda.Dim{X: f.Launch.Block, Y: 1, Z: 1}, f.Launch.SharedBytes, nil, &params); err != nil {
		return err
	}
	if err := g.ctx.Synchronize(); err != nil {
		return err
	}
	for i, b := range bufs {
		if err := g.ctx.CopyOut(b, ptrs[i]); err != nil {
			return err
		}
	}
	return nil
}
