package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// JIT holds the choices for compiling PTX; the zero value takes the driver's.
type JIT struct {
	OptLevel     int  // 1 to 4; 0 is the driver's choice (4), -1 no optimisation at all
	MaxRegisters int  // per thread; 0 is no limit
	LineInfo     bool // keep source lines for profilers
	Verbose      bool // have registers and spills told in Module.Log
}

// Module is loaded device code.
type Module struct {
	c   *Context
	h   uintptr
	Log string // what the JIT compiler had to say: warnings, and statistics with JIT.Verbose

	// Time is how long the load took on the host. The driver keeps compiled PTX in a cache on disk
	// (~/.nv/ComputeCache); CUDA_CACHE_DISABLE=1 in the environment makes it compile each time.
	Time time.Duration
}

// Load compiles PTX text, or loads a cubin or fat binary (cuModuleLoadDataEx). Errors of the JIT
// compiler are in Error.Log.
func (c *Context) Load(image []byte, o JIT) (*Module, error) {
	if len(image) == 0 {
		return nil, fmt.Errorf("cuda: Load of an empty image; it takes PTX, a cubin or a fat binary")
	}
	if o.OptLevel < -1 || o.OptLevel > 4 || o.MaxRegisters < 0 {
		return nil, fmt.Errorf("cuda: Load with OptLevel %d and MaxRegisters %d; OptLevel must be -1 to 4, MaxRegisters not negative", o.OptLevel, o.MaxRegisters)
	}
	image = append(bytes.Clone(image), 0) // PTX ends at a zero
	const logBytes = 16 << 10
	info, errs := make([]byte, logBytes), make([]byte, logBytes)
	var pin runtime.Pinner // the driver finds these through an array of addresses
	defer pin.Unpin()
	pin.Pin(&info[0])
	pin.Pin(&errs[0])

	// Numbers: enum CUjit_option. Values stand in pointer-sized slots.
	keys := []int32{3, 4, 5, 6}
	values := []uintptr{
		uintptr(unsafe.Pointer(&info[0])), logBytes,
		uintptr(unsafe.Pointer(&errs[0])), logBytes,
	}
	option := func(key int32, value int) {
		keys, values = append(keys, key), append(values, uintptr(value))
	}
	if o.MaxRegisters > 0 {
		option(0, o.MaxRegisters)
	}
	if o.OptLevel != 0 {
		option(7, max(o.OptLevel, 0))
	}
	if o.Verbose {
		option(12, 1)
	}
	if o.LineInfo {
		option(13, 1)
	}

	m := &Module{c: c}
	start := time.Now()
	err := c.call(cuModuleLoadDataEx, uintptr(unsafe.Pointer(&m.h)), uintptr(unsafe.Pointer(&image[0])),
		uintptr(len(keys)), uintptr(unsafe.Pointer(&keys[0])), uintptr(unsafe.Pointer(&values[0])))
	m.Time = time.Since(start)
	m.Log = text(info)
	if e := (*Error)(nil); errors.As(err, &e) {
		e.Log = text(errs)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Close unloads the module; its functions end with it (cuModuleUnload).
func (m *Module) Close() error {
	h := m.h
	if m.h = 0; h == 0 {
		return nil
	}
	return m.c.call(cuModuleUnload, h)
}

// Function is one kernel of a module.
type Function struct {
	m *Module
	h uintptr

	Name                    string
	Registers               int // per thread
	LocalBytes, SharedBytes int // per thread, and static per block
	ConstBytes              int
	MaxThreads              int // per block, with these registers
	PTXVersion, BinVersion  int // 10·major + minor of target and of the code

	// ParamBytes holds the size of each parameter; nil where the driver is too old to tell.
	ParamBytes []int

	even struct { // of evenShared
		sync.Mutex
		known map[evenly]int
		most  int
	}
}

// Function finds a kernel by its entry name and reads its attributes (cuModuleGetFunction,
// cuFuncGetAttribute, cuFuncGetParamInfo).
func (m *Module) Function(name string) (*Function, error) {
	if m.h == 0 {
		return nil, ErrClosed
	}
	f := &Function{m: m, Name: name}
	c := m.c
	cname := append([]byte(name), 0)
	if err := c.call(cuModuleGetFunction, uintptr(unsafe.Pointer(&f.h)), m.h, uintptr(unsafe.Pointer(&cname[0]))); err != nil {
		return nil, fmt.Errorf("cuda: function %q: %w", name, err)
	}
	// Numbers: enum CUfunction_attribute.
	for i, to := range []*int{&f.MaxThreads, &f.SharedBytes, &f.ConstBytes, &f.LocalBytes, &f.Registers, &f.PTXVersion, &f.BinVersion} {
		var v int32
		if err := c.call(cuFuncGetAttribute, uintptr(unsafe.Pointer(&v)), uintptr(i), f.h); err != nil {
			return nil, err
		}
		*to = int(v)
	}
	if c.d.fn[cuFuncGetParamInfo] == 0 {
		return f, nil
	}
	f.ParamBytes = []int{}
	for {
		var offset, size uint64
		err := c.call(cuFuncGetParamInfo, f.h, uintptr(len(f.ParamBytes)), uintptr(unsafe.Pointer(&offset)), uintptr(unsafe.Pointer(&size)))
		if e := (*Error)(nil); errors.As(err, &e) && e.Code == 1 {
			return f, nil // CUDA_ERROR_INVALID_VALUE: past the last parameter
		}
		if err != nil {
			return nil, err
		}
		f.ParamBytes = append(f.ParamBytes, int(size))
	}
}

// SetMaxDynamicShared allows launches with up to size bytes of dynamic shared memory, up to
// Device.SharedPerBlockOptin less the static part (cuFuncSetAttribute).
func (f *Function) SetMaxDynamicShared(size int) error {
	return f.m.c.call(cuFuncSetAttribute, f.h, 8, uintptr(size))
}

// BlocksPerSM is how many blocks of that many threads and bytes of dynamic shared memory fit on one
// SM at a time (cuOccupancyMaxActiveBlocksPerMultiprocessor).
func (f *Function) BlocksPerSM(threads, shared int) (int, error) {
	var n int32
	err := f.m.c.call(cuOccupancyMaxActiveBlocksPerMultiprocessor, uintptr(unsafe.Pointer(&n)), f.h, uintptr(threads), uintptr(shared))
	return int(n), err
}

// Params is a list of kernel arguments in order. The zero value is empty, and Reset makes it so
// again without giving up its memory.
type Params struct {
	data []byte // the values, each at a multiple of 8
	at   []int  // where each starts
	size []int
	ptrs []uintptr
}

// Reset empties the list.
func (p *Params) Reset() { p.data, p.at, p.size = p.data[:0], p.at[:0], p.size[:0] }

// Len is the number of arguments.
func (p *Params) Len() int { return len(p.at) }

// Bytes appends an argument given as it stands in memory, little-endian (a struct, or an integer
// narrower than 32 bits).
func (p *Params) Bytes(b []byte) {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	p.at, p.size = append(p.at, len(p.data)), append(p.size, len(b))
	p.data = append(p.data, b...)
}

func (p *Params) word(v uint64, size int) {
	b := [8]byte{}
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
	p.Bytes(b[:size])
}

// Ptr appends a device address.
func (p *Params) Ptr(v Ptr) { p.word(uint64(v), 8) }

// I32 appends a 32-bit integer, signed or not.
func (p *Params) I32(v int32) { p.word(uint64(uint32(v)), 4) }

// I64 appends a 64-bit integer, signed or not.
func (p *Params) I64(v int64) { p.word(uint64(v), 8) }

// F32 appends a float.
func (p *Params) F32(v float32) { p.word(uint64(math.Float32bits(v)), 4) }

// F64 appends a double.
func (p *Params) F64(v float64) { p.word(math.Float64bits(v), 8) }

// pointers gives the array that cuLaunchKernel calls kernelParams: the address of each value.
func (p *Params) pointers() []uintptr {
	p.ptrs = p.ptrs[:0]
	for i, at := range p.at {
		var q uintptr
		if p.size[i] > 0 {
			q = uintptr(unsafe.Pointer(&p.data[at]))
		}
		p.ptrs = append(p.ptrs, q)
	}
	return p.ptrs
}

// fits checks the arguments against the kernel's parameters: the driver reads as many addresses as
// the kernel has parameters, and one too few would crash the process.
func (p *Params) fits(name string, want []int) error {
	if want == nil {
		return nil
	}
	if len(want) != len(p.size) {
		return fmt.Errorf("cuda: kernel %q has %d parameters, and %d arguments are given", name, len(want), len(p.size))
	}
	for i := range want {
		if want[i] != p.size[i] {
			return fmt.Errorf("cuda: parameter %d of kernel %q has %d bytes, and its argument %d", i, name, want[i], p.size[i])
		}
	}
	return nil
}

// Dim is a size in blocks or threads; a 0 counts as 1.
type Dim struct{ X, Y, Z int }

func (d Dim) args() (x, y, z uintptr) {
	return uintptr(max(d.X, 1)), uintptr(max(d.Y, 1)), uintptr(max(d.Z, 1))
}

// Launch queues the kernel on s with shared bytes of dynamic shared memory (cuLaunchKernel). It
// returns before the kernel has run; the arguments are copied, so args may be reused at once. nil
// args is an empty list.
func (f *Function) Launch(grid, block Dim, shared int, s *Stream, args *Params) error {
	return f.launch(false, grid, block, shared, s, args)
}

// LaunchDependent is Launch for a kernel that waits itself, with griddepcontrol.wait, for what is in
// front of it on s: if that is a kernel too, this one may begin when it allows that or ends
// (cuLaunchKernelEx with CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION; drivers that lack it
// launch as usual). It may be captured. If all blocks fit the GPU at a time, they may take more dynamic
// shared memory than they need, which spreads them evenly.
func (f *Function) LaunchDependent(grid, block Dim, shared int, s *Stream, args *Params) error {
	if f.m.h == 0 || f.m.c.d.fn[cuLaunchKernelEx] == 0 {
		return f.Launch(grid, block, shared, s, args)
	}
	gx, gy, gz := grid.args()
	bx, by, bz := block.args()
	shared, err := f.evenShared(int(gx*gy*gz), int(bx*by*bz), shared)
	if err != nil {
		return err
	}
	return f.launch(true, grid, block, shared, s, args)
}

// evenShared is how much dynamic shared memory blocks of a dependent launch take: if a GPU has room for all of them, so much that no SM
// has more of them than it must. Where they begin while blocks in front still hold room, some SMs would have more of them than
// others, which wait for these. Where there are as many as SMs, they take what they need, so that the next launch's fit beside them,
// and so do clusters, which need room on several SMs.
func (f *Function) evenShared(blocks, threads, shared int) (int, error) {
	f.even.Lock()
	defer f.even.Unlock()
	asked := evenly{blocks, threads, shared}
	if out, ok := f.even.known[asked]; ok {
		return out, nil
	}
	dev, err := f.m.c.Device()
	if err != nil {
		return 0, err
	}
	fit, err := f.BlocksPerSM(threads, shared)
	if err != nil {
		return 0, err
	}
	clusters := false
	for side := uintptr(11); side <= 13; side++ { // CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, _HEIGHT, _DEPTH
		var n int32
		if err := f.m.c.call(cuFuncGetAttribute, uintptr(unsafe.Pointer(&n)), side, f.h); err != nil {
			return 0, err
		}
		clusters = clusters || n > 1
	}
	out := shared
	if dynamic := dev.evenShared(blocks, fit) - f.SharedBytes; !clusters && dynamic > shared {
		if dynamic > f.even.most {
			if err := f.SetMaxDynamicShared(dynamic); err != nil {
				return 0, err
			}
			f.even.most = dynamic
		}
		out = dynamic
	}
	if f.even.known == nil {
		f.even.known = map[evenly]int{}
	}
	f.even.known[asked] = out
	return out, nil
}

// evenShared is how much shared memory a block takes for SMs to have no more of so many blocks than they must; 0 where these have
// room for no more, or all have one. Shared memory is given out in units of 128 bytes.
func (d Device) evenShared(blocks, fit int) int {
	each := (blocks + d.SMs - 1) / d.SMs
	if blocks == d.SMs || each >= fit {
		return 0
	}
	all := (d.SharedPerSM/(each+1) - d.SharedReserved + 128) / 128 * 128 // one block more has no room
	if all > d.SharedPerBlockOptin {
		return 0
	}
	return all
}

// evenly is a launch that [Function.evenShared] knows.
type evenly struct{ blocks, threads, shared int }

// launchConfig is the struct CUlaunchConfig.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	stream      uintptr
	attrs       *launchAttribute
	attrCount   uint32
}

// launchAttribute is the struct CUlaunchAttribute; the value is a union of 64 bytes.
type launchAttribute struct {
	id    int32
	_     int32
	value [16]int32
}

const programmaticStreamSerialization = 6 // enum CUlaunchAttributeID

func (f *Function) launch(dependent bool, grid, block Dim, shared int, s *Stream, args *Params) error {
	if f.m.h == 0 {
		return fmt.Errorf("cuda: Launch of %q: %w", f.Name, ErrClosed)
	}
	if err := s.check(); err != nil {
		return err
	}
	if args == nil {
		args = new(Params)
	}
	if err := args.fits(f.Name, f.ParamBytes); err != nil {
		return err
	}
	gx, gy, gz := grid.args()
	bx, by, bz := block.args()
	var pin runtime.Pinner
	defer pin.Unpin()
	var array uintptr
	if len(args.data) > 0 {
		pin.Pin(&args.data[0])
		ptrs := args.pointers()
		pin.Pin(&ptrs[0])
		array = uintptr(unsafe.Pointer(&ptrs[0]))
	}
	if !dependent {
		return f.m.c.call(cuLaunchKernel, f.h, gx, gy, gz, bx, by, bz, uintptr(shared), s.handle(), array, 0)
	}
	attr := &launchAttribute{id: programmaticStreamSerialization, value: [16]int32{1}}
	pin.Pin(attr)
	config := &launchConfig{
		grid: [3]uint32{uint32(gx), uint32(gy), uint32(gz)}, block: [3]uint32{uint32(bx), uint32(by), uint32(bz)},
		shared: uint32(shared), stream: s.handle(), attrs: attr, attrCount: 1,
	}
	return f.m.c.call(cuLaunchKernelEx, uintptr(unsafe.Pointer(config)), f.h, array, 0)
}
