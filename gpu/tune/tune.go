// Package tune measures programs on a GPU, so that every number the project
// tells about speed comes from one harness. [Time] compiles a program once and
// times many launches of it in a CUDA graph, over copies of its inputs that do
// not fit in the cache; [GPU.Read] gives the time in which our own read kernel
// streams as many bytes in the same run, which is the roof that a memory-bound
// program is held against; [Clocks] is what the blocks of a launch say of it, where
// there is no profiler; [Row] is what a measurement leaves in tests/record.
//
// Times are of the device's events, per launch, in microseconds; bandwidths are
// in 10^9 bytes a second.
package tune

import (
	"errors"
	"fmt"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/device"
)

// GPU is an NVIDIA GPU opened for measuring. One measurement runs at a time.
type GPU struct {
	Title  string // "NVIDIA H200"
	Driver string // "CUDA 13.0"
	Target string // what programs are lowered for: "sm_90a"
	SMs    int
	L2     int64 // bytes

	driver  *cuda.Driver
	ordinal int
	ctx     *cuda.Context // nil when it must be made again; who measures changes it, and holds the lock of ahead for that
	ahead   ahead
	now     func() time.Time // tells when the time is up
}

// warmup is the least function there is. Its JIT pays what the driver does once
// a process, so that the first program's JIT time is like the later ones'.
const warmup = `.version 7.0
.target sm_80
.address_size 64
.visible .entry warmup() { ret; }
`

// OpenGPU opens a GPU by its number. The error wraps [device.ErrNoGPU] where
// there is none.
func OpenGPU(ordinal int) (*GPU, error) {
	driver, err := cuda.Open()
	if e := (*cuda.Error)(nil); errors.Is(err, cuda.ErrNoDriver) || errors.As(err, &e) && e.NoDevice() {
		return nil, fmt.Errorf("tune: %w (%w)", device.ErrNoGPU, err)
	}
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	if n, err := driver.DeviceCount(); err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	} else if ordinal < 0 || ordinal >= n {
		return nil, fmt.Errorf("tune: %w number %d; this machine has %d", device.ErrNoGPU, ordinal, n)
	}
	d, err := driver.Device(ordinal)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	target, err := arch.For(d.Major, d.Minor)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	major, minor := driver.Version()
	g := &GPU{Title: d.Name, Driver: fmt.Sprintf("CUDA %d.%d", major, minor), Target: target.Name, SMs: d.SMs, L2: int64(d.L2),
		driver: driver, ordinal: ordinal, now: time.Now}
	return g, g.connect()
}

// connect makes the context if there is none.
func (g *GPU) connect() error {
	if g.ctx != nil {
		return nil
	}
	ctx, err := g.driver.NewContext(g.ordinal)
	if err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	m, err := ctx.Load([]byte(warmup), cuda.JIT{})
	if err != nil {
		ctx.Close()
		return fmt.Errorf("tune: %w", err)
	}
	g.ahead.mu.Lock()
	g.ctx = ctx
	g.ahead.mu.Unlock()
	return m.Close()
}

// leave gives the context up as it is, and gives it; nothing is made ahead in it any more.
func (g *GPU) leave() *cuda.Context {
	g.ahead.mu.Lock()
	defer g.ahead.mu.Unlock()
	ctx := g.ctx
	g.ctx = nil
	return ctx
}

// Close gives the GPU back.
func (g *GPU) Close() error {
	ctx := g.leave()
	if ctx == nil {
		return nil
	}
	g.Forget()
	g.ahead.work.Wait() // it uses the context
	return ctx.Close()
}
