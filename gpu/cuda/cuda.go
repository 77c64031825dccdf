// Package cuda speaks to the NVIDIA driver: it opens libcuda.so.1 at run time, so that neither a
// toolkit nor cgo is needed to build, and a machine without a driver gets ErrNoDriver and no crash.
// It holds no policy: what to compile, cache, measure or retry is decided above it.
//
// # Threads
//
// A driver context is current per operating-system thread, and goroutines move between threads.
// Each method therefore locks its goroutine to its thread for the length of the call and makes its
// context current first (cuCtxSetCurrent, some 200 ns). The other way, one goroutine that owns a
// thread and serves a queue, would make a Synchronize hold up every other call. All methods may be
// called from several goroutines, except that Close must be the last call and a Params belongs to
// one goroutine at a time.
//
// # Lifetime
//
// Closing a Context does not close what was made in it; close modules, streams, events and graphs
// first. After Close a method gives ErrClosed. A wrong kernel can lose a context: see Error.Sticky.
//
// Source: NVIDIA CUDA Driver API reference; each method names its driver functions.
package cuda

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Driver is the opened and initialised driver library.
type Driver struct {
	fn      [symbolCount]uintptr
	version int
}

// Open loads the driver library and initialises it (cuInit, cuDriverGetVersion). The error is
// ErrNoDriver (errors.Is) where there is none, and an *Error with NoDevice true where there is a
// driver without a GPU. The library stays loaded until the process ends: the driver does not
// support being unloaded.
func Open() (*Driver, error) {
	lib, err := openLibrary(libraries)
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", ErrNoDriver, err)
	}
	return OpenFrom(func(name string) uintptr { return lookup(lib, name) })
}

// OpenFrom is Open for driver functions from elsewhere: find gives the address of one by the name
// that libcuda exports, or 0. Tests that count what is asked of a driver have one of their own.
func OpenFrom(find func(name string) uintptr) (*Driver, error) {
	d := new(Driver)
	for s := range symbolCount {
		if d.fn[s] = find(symbolNames[s]); d.fn[s] == 0 && !s.optional() {
			return nil, fmt.Errorf("cuda: the driver lacks %s; it is older than CUDA 11.4: update the NVIDIA driver, or run without a GPU", symbolNames[s])
		}
	}
	if err := d.call(cuInit, 0); err != nil {
		return nil, err
	}
	var v int32
	if err := d.call(cuDriverGetVersion, uintptr(unsafe.Pointer(&v))); err != nil {
		return nil, err
	}
	d.version = int(v)
	return d, nil
}

// Version is the newest CUDA version that the driver serves.
func (d *Driver) Version() (major, minor int) { return d.version / 1000, d.version % 1000 / 10 }

// call is a driver call that needs no context.
//
//go:uintptrescapes
func (d *Driver) call(s symbol, args ...uintptr) error {
	return d.check(s, call(d.fn[s], args...))
}

// DeviceCount is the number of GPUs this process may use (cuDeviceGetCount).
func (d *Driver) DeviceCount() (int, error) {
	var n int32
	err := d.call(cuDeviceGetCount, uintptr(unsafe.Pointer(&n)))
	return int(n), err
}

// Device describes one GPU. Sizes are bytes, clocks kHz.
type Device struct {
	Ordinal              int
	Name                 string
	Major, Minor         int // compute capability
	SMs                  int
	WarpSize             int
	Memory               int64
	L2                   int
	ClockKHz             int
	MemoryClockKHz       int
	MemoryBusBits        int
	SharedPerBlock       int // without opting in
	SharedPerBlockOptin  int // Function.SetMaxDynamicShared allows up to this
	SharedPerSM          int
	SharedReserved       int // of SharedPerSM, for each block that runs
	RegistersPerBlock    int
	RegistersPerSM       int
	MaxThreadsPerBlock   int
	MaxThreadsPerSM      int
	PCIDomain, Bus, Slot int
}

// Arch is the name of the base target, "sm_90".
func (d Device) Arch() string { return fmt.Sprintf("sm_%d%d", d.Major, d.Minor) }

// Device describes the GPU with that ordinal (cuDeviceGet, cuDeviceGetName, cuDeviceTotalMem,
// cuDeviceGetAttribute).
func (d *Driver) Device(ordinal int) (Device, error) {
	dev := Device{Ordinal: ordinal}
	h, err := d.handle(ordinal)
	if err != nil {
		return dev, err
	}
	name := make([]byte, 256)
	if err := d.call(cuDeviceGetName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), h); err != nil {
		return dev, err
	}
	dev.Name = text(name)
	var mem uint64
	if err := d.call(cuDeviceTotalMem, uintptr(unsafe.Pointer(&mem)), h); err != nil {
		return dev, err
	}
	dev.Memory = int64(mem)
	// Numbers: enum CUdevice_attribute.
	for _, a := range []struct {
		to   *int
		attr uintptr
	}{
		{&dev.MaxThreadsPerBlock, 1}, {&dev.SharedPerBlock, 8}, {&dev.WarpSize, 10},
		{&dev.RegistersPerBlock, 12}, {&dev.ClockKHz, 13}, {&dev.SMs, 16},
		{&dev.Bus, 33}, {&dev.Slot, 34}, {&dev.MemoryClockKHz, 36}, {&dev.MemoryBusBits, 37},
		{&dev.L2, 38}, {&dev.MaxThreadsPerSM, 39}, {&dev.PCIDomain, 50}, {&dev.Major, 75},
		{&dev.Minor, 76}, {&dev.SharedPerSM, 81}, {&dev.RegistersPerSM, 82},
		{&dev.SharedPerBlockOptin, 97}, {&dev.SharedReserved, 111},
	} {
		var v int32
		if err := d.call(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&v)), a.attr, h); err != nil {
			return dev, err
		}
		*a.to = int(v)
	}
	return dev, nil
}

func (d *Driver) handle(ordinal int) (uintptr, error) {
	var h int32
	err := d.call(cuDeviceGet, uintptr(unsafe.Pointer(&h)), uintptr(ordinal))
	return uintptr(h), err
}

// Context is where modules, memory and streams of one device live.
type Context struct {
	d       *Driver
	ordinal int
	device  uintptr
	h       uintptr
	primary bool
	closed  atomic.Bool
}

// PrimaryContext retains the context that the process shares with the CUDA runtime and its
// libraries (cuDevicePrimaryCtxRetain).
func (d *Driver) PrimaryContext(ordinal int) (*Context, error) {
	h, err := d.handle(ordinal)
	if err != nil {
		return nil, err
	}
	c := &Context{d: d, ordinal: ordinal, device: h, primary: true}
	if err := d.call(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&c.h)), h); err != nil {
		return nil, err
	}
	return c, nil
}

// NewContext makes a context of our own (cuCtxCreate), which shares nothing with the primary one.
func (d *Driver) NewContext(ordinal int) (*Context, error) {
	h, err := d.handle(ordinal)
	if err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &Context{d: d, ordinal: ordinal, device: h}
	if err := d.call(cuCtxCreate, uintptr(unsafe.Pointer(&c.h)), 0, h); err != nil {
		return nil, err
	}
	// cuCtxCreate leaves the context on this thread's stack, where it would outlive Close.
	var popped uintptr
	if err := d.call(cuCtxPopCurrent, uintptr(unsafe.Pointer(&popped))); err != nil {
		return nil, err
	}
	return c, nil
}

// Close gives the context back (cuDevicePrimaryCtxRelease or cuCtxDestroy). A second Close does
// nothing.
func (c *Context) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if c.primary {
		return c.d.call(cuDevicePrimaryCtxRelease, c.device)
	}
	return c.d.call(cuCtxDestroy, c.h)
}

// Driver is the driver that the context belongs to.
func (c *Context) Driver() *Driver { return c.d }

// Device describes the context's device.
func (c *Context) Device() (Device, error) { return c.d.Device(c.ordinal) }

// call is a driver call with the context current on the calling thread.
//
//go:uintptrescapes
func (c *Context) call(s symbol, args ...uintptr) error {
	if c.closed.Load() {
		return fmt.Errorf("%s: %w", s.base(), ErrClosed)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if r := call(c.d.fn[cuCtxSetCurrent], c.h); r != 0 {
		return c.d.check(cuCtxSetCurrent, r)
	}
	return c.d.check(s, call(c.d.fn[s], args...))
}

// Synchronize waits until all work in the context is done (cuCtxSynchronize). Faults of kernels
// show up here.
func (c *Context) Synchronize() error { return c.call(cuCtxSynchronize) }
