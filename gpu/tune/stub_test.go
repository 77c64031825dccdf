//go:build linux && !android && (amd64 || arm64) && !nogpu

package tune

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
)

// stub is a driver without a GPU: its device memory is the host's, a kernel is a function of the
// test, and it counts what it is asked for.
type stub struct {
	mu    sync.Mutex
	calls map[string]int
	bytes map[string]int // that calls allocate, copy or set
	held  map[uintptr][]byte
	most  int // bytes allocated at one time
	now   int
	all   int // bytes of memory there are
	// params is how many parameters of 8 bytes kernels have; run is what a launch does.
	params int
	run    func(args []uintptr)
	// before, if not nil, hears of each call.
	before func(name string)
	busy   bool // no stream is done

	capture  [][]uintptr // launches of the capture under way, if capturing
	captures bool
	graphs   map[uintptr][][]uintptr
	handles  uintptr
	clock    float32 // ms
	events   map[uintptr]float32
}

// theStub is the one that the driver's functions, which C never frees, go to.
var theStub *stub

// at is the memory at an address that came as a number.
func at[T any](p uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&p))) }

func bytesAt(p, n uintptr) []byte { return unsafe.Slice(at[byte](p), n) }

func (s *stub) handle() uintptr { s.handles++; return s.handles }

// launch is one launch: it takes 10 µs.
func (s *stub) launch(args []uintptr) {
	s.clock += 0.01
	s.run(args)
}

// functions are what the stub has of a driver.
var functions = map[string]any{
	"cuInit":             func(_ uintptr) uintptr { return 0 },
	"cuDriverGetVersion": func(v uintptr) uintptr { *at[int32](v) = 13000; return 0 },
	"cuDeviceGet":        func(h, _ uintptr) uintptr { *at[int32](h) = 0; return 0 },
	"cuCtxCreate_v2":     func(h, _, _ uintptr) uintptr { *at[uintptr](h) = theStub.handle(); return 0 },
	"cuCtxPopCurrent_v2": func(h uintptr) uintptr { return 0 },
	"cuCtxSetCurrent":    func(h uintptr) uintptr { return 0 },
	"cuCtxSynchronize":   func() uintptr { return 0 },
	"cuCtxDestroy_v2":    func(h uintptr) uintptr { return 0 },
	"cuModuleLoadDataEx": func(h, _, _, _, _ uintptr) uintptr { *at[uintptr](h) = theStub.handle(); return 0 },
	"cuModuleUnload":     func(h uintptr) uintptr { return 0 },
	"cuModuleGetFunction": func(h, _, _ uintptr) uintptr {
		*at[uintptr](h) = theStub.handle()
		return 0
	},
	"cuFuncGetAttribute":                          func(v, _, _ uintptr) uintptr { *at[int32](v) = 32; return 0 },
	"cuOccupancyMaxActiveBlocksPerMultiprocessor": func(n, _, _, _ uintptr) uintptr { *at[int32](n) = 2; return 0 },
	"cuMemGetInfo_v2": func(free, total uintptr) uintptr {
		*at[uint64](free), *at[uint64](total) = uint64(theStub.all-theStub.now), uint64(theStub.all)
		return 0
	},
	"cuMemAlloc_v2": func(p, n uintptr) uintptr {
		s := theStub
		const page = 4096
		b := make([]byte, n+page)
		base := (uintptr(unsafe.Pointer(&b[0])) + page - 1) / page * page
		s.held[base] = b[base-uintptr(unsafe.Pointer(&b[0])):][:n]
		s.bytes["cuMemAlloc_v2"] += int(n)
		s.now += int(n)
		s.most = max(s.most, s.now)
		*at[uintptr](p) = base
		return 0
	},
	"cuMemFree_v2": func(p uintptr) uintptr {
		s := theStub
		if s.held[p] == nil {
			return 1
		}
		s.now -= len(s.held[p])
		delete(s.held, p)
		return 0
	},
	"cuMemcpyHtoD_v2": func(to, from, n uintptr) uintptr { return theStub.copy("cuMemcpyHtoD_v2", to, from, n, to) },
	"cuMemcpyDtoH_v2": func(to, from, n uintptr) uintptr { return theStub.copy("cuMemcpyDtoH_v2", to, from, n, from) },
	"cuMemcpyDtoD_v2": func(to, from, n uintptr) uintptr {
		return theStub.copy("cuMemcpyDtoD_v2", to, from, n, to, from)
	},
	"cuMemsetD8_v2": func(to, v, n uintptr) uintptr {
		s := theStub
		if !s.inside(to, n) {
			return 1
		}
		s.bytes["cuMemsetD8_v2"] += int(n)
		b := bytesAt(to, n)
		for i := range b {
			b[i] = byte(v)
		}
		return 0
	},
	"cuStreamCreate":      func(h, _ uintptr) uintptr { *at[uintptr](h) = theStub.handle(); return 0 },
	"cuStreamDestroy_v2":  func(h uintptr) uintptr { return 0 },
	"cuStreamSynchronize": func(h uintptr) uintptr { return 0 },
	"cuStreamQuery": func(h uintptr) uintptr {
		if theStub.busy {
			return 600 // CUDA_ERROR_NOT_READY
		}
		return 0
	},
	"cuStreamBeginCapture_v2": func(h, _ uintptr) uintptr {
		theStub.captures, theStub.capture = true, nil
		return 0
	},
	"cuStreamEndCapture": func(h, graph uintptr) uintptr {
		s := theStub
		s.captures = false
		*at[uintptr](graph) = s.handle()
		s.graphs[s.handles] = s.capture
		return 0
	},
	"cuGraphInstantiateWithFlags": func(h, graph, _ uintptr) uintptr { *at[uintptr](h) = graph; return 0 },
	"cuGraphLaunch": func(graph, _ uintptr) uintptr {
		for _, args := range theStub.graphs[graph] {
			theStub.launch(args)
		}
		return 0
	},
	"cuGraphExecDestroy": func(h uintptr) uintptr { delete(theStub.graphs, h); return 0 },
	"cuGraphDestroy":     func(h uintptr) uintptr { return 0 },
	"cuEventCreate":      func(h, _ uintptr) uintptr { *at[uintptr](h) = theStub.handle(); return 0 },
	"cuEventDestroy_v2":  func(h uintptr) uintptr { delete(theStub.events, h); return 0 },
	"cuEventRecord":      func(h, _ uintptr) uintptr { theStub.events[h] = theStub.clock; return 0 },
	"cuEventElapsedTime": func(ms, a, b uintptr) uintptr { *at[float32](ms) = theStub.events[b] - theStub.events[a]; return 0 },
	"cuTensorMapEncodeTiled": func(to, _, _, address, _, _, _, _, _, _, _, _ uintptr) uintptr {
		*at[uintptr](to) = address // what a launch finds at the front of the map
		return 0
	},
	"cuLaunchKernel": func(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra uintptr) uintptr {
		s := theStub
		args := make([]uintptr, s.params)
		for i, p := range unsafe.Slice(at[uintptr](params), s.params) {
			args[i] = *at[uintptr](p)
		}
		if s.captures {
			s.capture = append(s.capture, args)
		} else {
			s.launch(args)
		}
		return 0
	},
}

// inside reports whether bytes lie in one allocation.
func (s *stub) inside(p, n uintptr) bool {
	for base, b := range s.held {
		if p >= base && p+n <= base+uintptr(len(b)) {
			return true
		}
	}
	return false
}

func (s *stub) copy(name string, to, from, n uintptr, device ...uintptr) uintptr {
	for _, p := range device {
		if !s.inside(p, n) {
			return 1
		}
	}
	s.bytes[name] += int(n)
	copy(bytesAt(to, n), bytesAt(from, n))
	return 0
}

// counted is a function of the driver that counts its calls.
func counted(name string, f any) any {
	enter := func() {
		s := theStub
		if s.before != nil {
			s.before(name)
		}
		s.mu.Lock()
		s.calls[name]++
	}
	leave := func() { theStub.mu.Unlock() }
	switch f := f.(type) {
	case func() uintptr:
		return func() uintptr { enter(); defer leave(); return f() }
	case func(a uintptr) uintptr:
		return func(a uintptr) uintptr { enter(); defer leave(); return f(a) }
	case func(a, b uintptr) uintptr:
		return func(a, b uintptr) uintptr { enter(); defer leave(); return f(a, b) }
	case func(a, b, c uintptr) uintptr:
		return func(a, b, c uintptr) uintptr { enter(); defer leave(); return f(a, b, c) }
	case func(a, b, c, d uintptr) uintptr:
		return func(a, b, c, d uintptr) uintptr { enter(); defer leave(); return f(a, b, c, d) }
	case func(a, b, c, d, e uintptr) uintptr:
		return func(a, b, c, d, e uintptr) uintptr { enter(); defer leave(); return f(a, b, c, d, e) }
	case func(a, b, c, d, e, f, g, h, i, j, k uintptr) uintptr:
		return func(a, b, c, d, e, g, h, i, j, k, l uintptr) uintptr {
			enter()
			defer leave()
			return f(a, b, c, d, e, g, h, i, j, k, l)
		}
	case func(a, b, c, d, e, f, g, h, i, j, k, l uintptr) uintptr:
		return func(a, b, c, d, e, g, h, i, j, k, l, m uintptr) uintptr {
			enter()
			defer leave()
			return f(a, b, c, d, e, g, h, i, j, k, l, m)
		}
	}
	panic("no such function: " + name)
}

// addresses are those of the functions, by name.
var addresses = sync.OnceValue(func() map[string]uintptr {
	out := map[string]uintptr{}
	for name, f := range functions {
		out[name] = purego.NewCallback(counted(name, f))
	}
	return out
})

// stubbed is a GPU whose driver is a stub: launches of kernels with params parameters of 8 bytes
// run what run says.
func stubbed(t *testing.T, params int, run func(args []uintptr)) (*GPU, *stub) {
	t.Helper()
	s := &stub{calls: map[string]int{}, bytes: map[string]int{}, held: map[uintptr][]byte{}, graphs: map[uintptr][][]uintptr{}, events: map[uintptr]float32{}, all: 1 << 37, params: params, run: run}
	theStub = s
	driver, err := cuda.OpenFrom(func(name string) uintptr {
		if p, ok := addresses()[name]; ok {
			return p
		}
		if strings.HasPrefix(name, "cuLink") || slices.Contains([]string{"cuFuncGetParamInfo", "cuLaunchKernelEx"}, name) {
			return 0 // drivers may lack it
		}
		return addresses()["cuInit"] // which nothing here calls
	})
	if err != nil {
		t.Fatal(err)
	}
	g := &GPU{Title: "stub", Driver: "none", Target: "sm_90a", SMs: 132, L2: 1 << 20, driver: driver, now: time.Now}
	if err := g.connect(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		if n := len(s.held); n > 0 {
			t.Errorf("%d allocations are left: %v", n, slices.Sorted(maps.Keys(s.held)))
		}
	})
	return g, s
}
