//go:build linux && !android && (amd64 || arm64) && !nogpu

package tune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// copying is a program of a stub that copies n numbers, and what its launches do there: it holds
// that each finds its input whole, and notes where it read.
func copying(t *testing.T, n int) (*ir.Program, []ir.Arg, *GPU, *stub, map[uintptr]int) {
	t.Helper()
	p, err := text.Parse("copies.tile", fmt.Sprintf("program copies<%d>(x: *f32, y: *f32) warps=1 {\n\tbi = BlockIndices()\n\tgx = ViewGlobal(x) : global f32[%d]\n\tgy = ViewGlobal(y) : global f32[%[2]d]\n\tr = LoadGlobal(gx, offset=[bi*32]) : register f32[32] spatial(32)\n\tStoreGlobal(gy, r, offset=[bi*32])\n}\n", n/32, n), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := array.New(dtype.F32, n)
	for i := range n {
		x.Set(float64(i+1), i)
	}
	size, from := uintptr(len(x.Data)), map[uintptr]int{}
	g, s := stubbed(t, 2, func(a []uintptr) {
		if !bytes.Equal(bytesAt(a[0], size), x.Data) {
			t.Errorf("launch reads at %#x what is not the input", a[0])
		}
		from[a[0]]++
		copy(bytesAt(a[1], size), bytesAt(a[0], size))
	})
	return p, []ir.Arg{{Array: x}, {Array: array.New(dtype.F32, n)}}, g, s, from
}

// TestUpload counts what a measurement over many sets asks of the driver: one allocation an array,
// one copy to the GPU, and copies inside it that double what is there.
func TestUpload(t *testing.T) {
	for _, c := range []struct{ n, sets, copies int }{{4096, 100, 7}, {4096, 256, 8}, {4096 + 32, 3, 2}, {32, 2, 1}, {1 << 19, 2, 1}} {
		p, args, g, s, from := copying(t, c.n)
		size := len(args[0].Array.Data)
		took, err := Time(t.Context(), g, p, args, Options{WorkingSet: int64(c.sets * size), Replays: 7, Want: []*array.Array{nil, args[0].Array}})
		if err != nil {
			t.Fatal(err)
		}
		if took.Sets != c.sets || !took.Checked || took.WorkingSet != int64(c.sets*size) || took.Median < 9.9 || took.Median > 10.1 {
			t.Errorf("%d sets: %v", c.sets, took)
		}
		for name, want := range map[string]int{"cuMemAlloc_v2": 2, "cuMemFree_v2": 2, "cuMemcpyHtoD_v2": 1, "cuMemcpyDtoD_v2": c.copies, "cuMemsetD8_v2": 1} {
			if got := s.calls[name]; got != want {
				t.Errorf("%d sets of %d bytes: %d calls of %s, want %d", c.sets, size, got, name, want)
			}
		}
		if got, want := s.bytes["cuMemcpyHtoD_v2"], size; got != want {
			t.Errorf("%d bytes are copied to the GPU, want %d", got, want)
		}
		// Launches go round all sets, which are aligned and apart, and each was whole.
		at := slices.Sorted(maps.Keys(from))
		if len(at) != c.sets {
			t.Errorf("launches read at %d addresses, want %d", len(at), c.sets)
		}
		for i, p := range at {
			if p%256 != 0 || i > 0 && p-at[i-1] < uintptr(size) {
				t.Errorf("set %d begins at %#x, the one in front at %#x", i, p, at[max(i-1, 0)])
			}
		}
	}
}

// TestStride holds copies apart as far as allocations of their own are.
func TestStride(t *testing.T) {
	for size, want := range map[int]int{16: 512, 512: 512, 528: 1024, 2<<20 - 16: 2 << 20, 2 << 20: 2 << 20, 2<<20 + 16: 4 << 20, gateUp: 112 << 21, gateUp + 16: 113 << 21} {
		if got := stride(size); got != want {
			t.Errorf("%d bytes are %d apart, want %d", size, got, want)
		}
	}
}

// TestHeld has a second measurement find what the first one left, another array or more sets not,
// and what launches in front write is never kept.
func TestHeld(t *testing.T) {
	p, args, g, s, _ := copying(t, 4096)
	size := int64(len(args[0].Array.Data))
	held := &Held{}
	defer held.Close()
	measure := func(sets int64, args []ir.Arg, before ...Launch) (allocated, copied int) {
		t.Helper()
		a, c := s.calls["cuMemAlloc_v2"], s.calls["cuMemcpyHtoD_v2"]
		took, err := Time(t.Context(), g, p, args, Options{WorkingSet: sets * size, Replays: 7, Held: held, Before: before})
		if err != nil || len(before) == 0 && took.Sets != int(sets) {
			t.Fatal(took, err)
		}
		return s.calls["cuMemAlloc_v2"] - a, s.calls["cuMemcpyHtoD_v2"] - c
	}
	for i, c := range []struct {
		sets              int64
		allocated, copied int
	}{{10, 2, 1}, {10, 1, 0}, {7, 1, 0}, {12, 2, 1}, {12, 1, 0}} { // an output is always new
		if a, n := measure(c.sets, args); a != c.allocated || n != c.copied {
			t.Errorf("measurement %d: %d allocations, %d copies, want %d and %d", i, a, n, c.allocated, c.copied)
		}
	}
	if n := len(s.held); n != 1 {
		t.Errorf("%d allocations are held", n)
	}
	held.Close()
	between := args[0].Array.Clone()
	for i := range 2 { // the second finds what is only read
		if a, n := measure(5, []ir.Arg{{Array: between}, args[1]}, Launch{p, []ir.Arg{args[0], {Array: between}}}); n != a-1 || a != 3-i {
			t.Errorf("with launches in front: %d allocations, %d copies", a, n)
		}
		if held.by[between] != nil || held.by[args[0].Array] == nil {
			t.Errorf("held: %d arrays, that which launches in front write among them", len(held.by))
		}
	}
}

// TestHeldOnBusyGPU has nothing be freed that a GPU at work, which was given up, would have us wait for.
func TestHeldOnBusyGPU(t *testing.T) {
	p, args, g, s, _ := copying(t, 4096)
	held := &Held{}
	o := Options{WorkingSet: 1 << 20, Replays: 7, Held: held}
	if _, err := Time(t.Context(), g, p, args, o); err != nil || len(held.by) != 1 {
		t.Fatal(len(held.by), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.before = func(call string) {
		if call == "cuGraphLaunch" {
			s.busy = true
			cancel()
		}
	}
	freed := s.calls["cuMemFree_v2"]
	if _, err := Time(ctx, g, p, args, o); !errors.Is(err, errBusy) {
		t.Fatal(err)
	}
	held.Close()
	if n := s.calls["cuMemFree_v2"] - freed; n > 0 {
		t.Errorf("%d calls of cuMemFree would wait", n)
	}
	s.before, s.busy = nil, false
	clear(s.held) // what was given up goes with the process
	s.now = 0
	if _, err := Time(t.Context(), g, p, args, o); err != nil || len(held.by) != 1 {
		t.Errorf("in another context %d arrays are held: %v", len(held.by), err)
	}
	held.Close()
}

// TestHeldInLittleMemory has a second measurement go round as many sets as the first, which left them there:
// what is held is no memory that lacks.
func TestHeldInLittleMemory(t *testing.T) {
	p, args, g, s, _ := copying(t, 4096)
	size := int64(len(args[0].Array.Data))
	held := &Held{}
	defer held.Close()
	s.all = s.now + 24*int(size)
	for i, want := range []struct{ sets, fit, allocated int }{{30, 20, 2}, {30, 20, 1}, {8, 8, 1}, {30, 20, 1}} {
		before := s.calls["cuMemAlloc_v2"]
		took, err := Time(t.Context(), g, p, args, Options{WorkingSet: int64(want.sets) * size, Replays: 7, Held: held})
		if err != nil || took.Sets != want.fit || s.calls["cuMemAlloc_v2"]-before != want.allocated {
			t.Errorf("measurement %d: %d sets, %d allocations, want %d and %d: %v", i, took.Sets, s.calls["cuMemAlloc_v2"]-before, want.fit, want.allocated, err)
		}
	}
}

// TestLate has measurements end when the time is up, with nothing left on the GPU, wherever they are.
func TestLate(t *testing.T) {
	for _, name := range []string{"", "cuModuleLoadDataEx", "cuMemAlloc_v2", "cuLaunchKernel", "cuGraphInstantiateWithFlags", "cuGraphLaunch"} {
		p, args, g, s, _ := copying(t, 4096)
		until, late := time.Now(), name == ""
		g.now = func() time.Time {
			if late {
				return until
			}
			return until.Add(-1)
		}
		s.before = func(call string) { late = late || call == name }
		_, err := Time(t.Context(), g, p, args, Options{WorkingSet: 1 << 20, Replays: 7, Until: until})
		if !errors.Is(err, ErrLate) || !strings.Contains(err.Error(), "copies") {
			t.Errorf("the time is up in %q: %v", name, err)
		}
		if len(s.held) > 0 || len(s.graphs) > 1 || name == "cuGraphLaunch" && s.calls[name] != 1 || name != "cuGraphLaunch" && s.calls["cuGraphLaunch"] > 0 {
			t.Errorf("the time is up in %q: %d allocations are left, %d graphs, %v", name, len(s.held), len(s.graphs), s.calls)
		}
		s.before = nil
		if _, err := Time(t.Context(), g, p, args, Options{WorkingSet: 1 << 20, Replays: 7, Until: until.Add(1)}); err != nil {
			t.Errorf("there is time: %v", err)
		}
	}
}

// TestLateCode does not wait for code that is made ahead when the time is up.
func TestLateCode(t *testing.T) {
	p, args, g, s, _ := copying(t, 4096)
	block := make(chan bool)
	s.before = func(call string) {
		if call == "cuModuleLoadDataEx" {
			<-block
		}
	}
	g.Ahead(p, args, Options{})
	if _, err := Time(t.Context(), g, p, args, Options{Until: time.Now().Add(20 * time.Millisecond)}); !errors.Is(err, ErrLate) {
		t.Errorf("code that is not ready: %v", err)
	}
	close(block)
	if _, err := Time(t.Context(), g, p, args, Options{WorkingSet: 1 << 20, Replays: 7, Until: time.Now().Add(time.Hour)}); err != nil {
		t.Error(err)
	}
}

// TestAheadCloses begins code while the GPU is closed, as searches do that end: none is begun behind that, in no new context.
func TestAheadCloses(t *testing.T) {
	p, args, g, s, _ := copying(t, 4096)
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for range 50 {
				g.Ahead(p, args, Options{})
				g.Forget()
			}
		})
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	others.Wait()
	g.Ahead(p, args, Options{})
	g.ahead.work.Wait()
	if s.calls["cuCtxCreate_v2"] != 1 || s.calls["cuModuleLoadDataEx"] != s.calls["cuModuleUnload"] {
		t.Errorf("behind the end: %v", s.calls)
	}
	if _, err := Time(t.Context(), g, p, args, Options{WorkingSet: 1 << 20, Replays: 7}); err != nil || s.calls["cuCtxCreate_v2"] != 2 {
		t.Errorf("opened again: %v, %v", err, s.calls)
	}
}

// TestSearchOnBusyGPU has a search end in time where the GPU, or what stands before it, becomes slow:
// what was timed before tells nothing of that.
func TestSearchOnBusyGPU(t *testing.T) {
	p, args, g, s, _ := copying(t, 4096)
	all, us := invented(t)
	const budget, wait = 500 * time.Millisecond, 100 * time.Millisecond
	var begin time.Time
	timed := 0
	s.before = func(call string) {
		if call == "cuGraphLaunch" && timed >= 3 {
			time.Sleep(wait)
		}
	}
	search := Search{Target: "sm_90a", SMs: 132, Budget: budget, Time: func(ctx context.Context, c Candidate) (float64, error) {
		o := Options{WorkingSet: 1 << 20, Replays: 7}
		if timed > 0 {
			o.Until = begin.Add(budget)
		}
		if _, err := Time(ctx, g, p, args, o); err != nil {
			return 0, err
		}
		timed++
		return us[c.Name], nil
	}}
	begin = time.Now()
	out, err := search.Best(t.Context(), all)
	took := time.Since(begin)
	if err != nil || out.End != EndTime || out.Timed < 1 || out.Timed > 3 || !(out.Us > 0) {
		t.Errorf("%+v, %v", out, err)
	}
	if most := budget + 4*wait; took > most {
		t.Errorf("the search took %v of %v", took, budget)
	}
	if len(s.held) > 0 {
		t.Errorf("%d allocations are left", len(s.held))
	}
}

// boxes copies by a tensor map of x.
const boxes = `program boxes<1>(x: *f16, y: *f16) warps=4 {
	gx = ViewGlobal(x) : global f16[64, 64]
	gy = ViewGlobal(y) : global f16[64, 64]
	sx = AllocateShared() : shared f16[64, 64] shared_row_major(64, 64).apply_swizzle(base=3, bits=3, shift=3)
	full = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)
	Synchronize()
	group(0, 1) {
		ArriveExpectTxBarrier(full, 0, bytes=8192)
		CopyAsyncTensorGlobalToShared(gx, sx, full, 0, offset=[0, 0])
	}
	WaitBarrier(full, 0)
	r = LoadShared(sx) : register f16[64, 64] spatial(16, 8).local(4, 8)
	StoreGlobal(gy, r, offset=[0, 0])
}
`

// TestTensorMaps encodes each map once a set, however many launches there are, and gives each launch those of its set.
func TestTensorMaps(t *testing.T) {
	p, err := text.Parse("boxes.tile", boxes, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := array.New(dtype.F16, 64, 64)
	launches, wrong := 0, 0
	g, s := stubbed(t, 3, func(a []uintptr) { // x, y, the map of x
		if launches++; a[2] != a[0] {
			wrong++
		}
	})
	const sets = 20
	took, err := Time(t.Context(), g, p, []ir.Arg{{Array: x}, {Array: array.New(dtype.F16, 64, 64)}}, Options{WorkingSet: int64(sets * len(x.Data)), Replays: 7})
	if err != nil || took.Sets != sets {
		t.Fatal(took, err)
	}
	if n := s.calls["cuTensorMapEncodeTiled"]; n != sets || launches < 10*sets || wrong > 0 {
		t.Errorf("%d maps are encoded for %d sets and %d launches, %d of them with that of another set", n, sets, launches, wrong)
	}
}
