// Package blocktrace asks an attached NVIDIA GPU where and when it runs the blocks of
// a launch: the counterpart of what package gpu/model/dispatch models for AMD. The
// first thread of each block reads the number of its multiprocessor (SM) and the
// GPU's clock when it enters and when it leaves, and between that waits for the
// block's time. What comes back is a trace in the form that the models use.
//
// Package gpu/model/recorded has such traces of a GPU that was there once, so that the
// picture and its lesson need none.
package blocktrace

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/recorded"
	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Kernel is one launch. Kernels of different streams may run at the same time;
// those of one stream run one after the other.
type Kernel struct {
	Name    string
	Stream  string
	Blocks  int
	Threads int   // of a block
	Shared  int   // bytes of a block
	Micros  []int // µs that block k stays, at k modulo its length
}

// Limits of launches: they must end soon, on a GPU that others use too.
const (
	MaxKernels = 16
	MaxBlocks  = 1 << 16
	MaxMicros  = 100_000
	MaxTotal   = 10_000_000 // µs of all blocks together
)

func check(list []Kernel) error {
	if len(list) == 0 || len(list) > MaxKernels {
		return fmt.Errorf("blocktrace: %d kernels; there must be 1 to %d", len(list), MaxKernels)
	}
	names := map[string]bool{}
	total := 0
	for _, k := range list {
		switch {
		case k.Name == "" || names[k.Name]:
			return fmt.Errorf("blocktrace: kernels need names of their own, not %.40q", k.Name)
		case k.Blocks < 1 || k.Blocks > MaxBlocks || k.Threads < 1 || k.Threads > 1024 || k.Shared < 0:
			return fmt.Errorf("blocktrace: %.40q has %d blocks of %d threads and %d bytes; there must be 1 to %d blocks of 1 to 1024 threads", k.Name, k.Blocks, k.Threads, k.Shared, MaxBlocks)
		case len(k.Micros) == 0:
			return fmt.Errorf("blocktrace: %.40q does not say how long its blocks stay", k.Name)
		}
		names[k.Name] = true
		for b := range k.Blocks {
			m := k.Micros[b%len(k.Micros)]
			if m < 0 || m > MaxMicros {
				return fmt.Errorf("blocktrace: a block of %.40q stays %d µs; the most is %d", k.Name, m, MaxMicros)
			}
			total += m
		}
	}
	if total > MaxTotal {
		return fmt.Errorf("blocktrace: the blocks stay %d µs together; the most is %d", total, MaxTotal)
	}
	return nil
}

// Kernels are the launches of a scenario of the model: a tick takes so many µs.
// CUDA has no masks of multiprocessors, so a scenario with masks is refused, as is
// one whose blocks wait for each other. Arrival times are left to the order of
// launches.
func Kernels(p dispatch.Program, micros int) ([]Kernel, error) {
	var out []Kernel
	for _, x := range p.Launches {
		if x.Mask != nil || len(x.Waits) > 0 || p.Global != "" || slices.ContainsFunc(p.Streams, func(s dispatch.Stream) bool { return s.Mask != "" }) {
			return nil, fmt.Errorf("blocktrace: %q has a mask or blocks that wait, which CUDA does not know", x.Name)
		}
		k := Kernel{Name: x.Name, Stream: x.Stream, Blocks: x.Blocks, Threads: x.Threads, Shared: x.LDS}
		times := x.Times
		if len(times) == 0 {
			times = []int{x.Ticks}
		}
		for _, t := range times {
			k.Micros = append(k.Micros, t*micros)
		}
		out = append(out, k)
	}
	return out, check(out)
}

// A stamp is what a block leaves: when it entered at 0, when it left at 8, its SM at 16.
const stampBytes = 32

// waiter is the kernel: parameters are the address of stamps and of each block's
// time in ns.
func waiter(name string, threads, shared int) (*code.Func, error) {
	b := code.NewBuilder(name).At(diag.Pos{File: name, Line: 1, Col: 1})
	b.Func().Launch = code.Launch{Block: threads, SharedBytes: shared}
	stamps, times := b.Pointer("stamps", "u8"), b.Pointer("times", "u32")
	block := b.CtaidX()
	first := b.SetpU32(code.EQ, b.TidX(), b.Const32(0))
	b.If(first, func() []code.Value {
		entry := b.Emit1(code.OpGlobalTimer, nil)
		to := b.MadWideU(block, b.Const32(stampBytes), stamps)
		stay := b.Zext32(b.LdGlobal(4, b.MadWideU(block, b.Const32(4), times), 0, 0))
		b.StGlobal(8, to, 0, 0, entry)
		b.StGlobal(4, to, 16, 0, b.Emit1(code.OpSmID, nil))
		now := b.While([]code.Value{entry}, func(c []code.Value) code.Value {
			return b.SetpS64(code.LT, b.Sub64(c[0], entry), stay)
		}, func([]code.Value) []code.Value { return []code.Value{b.Emit1(code.OpGlobalTimer, nil)} })
		b.StGlobal(8, to, 8, 0, now[0])
		return nil
	}, nil)
	b.BarSync() // the block ends with its first thread
	return b.Done()
}

// Run launches kernels on the GPU of that number, all at once, and returns what
// their blocks read. The error wraps [device.ErrNoGPU] where there is no GPU.
func Run(ordinal int, title string, list []Kernel) (*trace.Trace, error) {
	if err := check(list); err != nil {
		return nil, err
	}
	driver, err := cuda.Open()
	if e := (*cuda.Error)(nil); errors.Is(err, cuda.ErrNoDriver) || errors.As(err, &e) && e.NoDevice() {
		return nil, fmt.Errorf("blocktrace: %w here; the trace of one is recorded", device.ErrNoGPU)
	}
	if err != nil {
		return nil, fmt.Errorf("blocktrace: %w", err)
	}
	if n, err := driver.DeviceCount(); err != nil {
		return nil, fmt.Errorf("blocktrace: %w", err)
	} else if ordinal < 0 || ordinal >= n {
		return nil, fmt.Errorf("blocktrace: %w number %d; this machine has %d", device.ErrNoGPU, ordinal, n)
	}
	d, err := driver.Device(ordinal)
	if err != nil {
		return nil, fmt.Errorf("blocktrace: %w", err)
	}
	ctx, err := driver.NewContext(ordinal)
	if err != nil {
		return nil, fmt.Errorf("blocktrace: %w", err)
	}
	// Closing the context frees what was made in it.
	stamps, err := launch(ctx, d.Arch(), list)
	if e := ctx.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, fmt.Errorf("blocktrace: %w", err)
	}
	major, minor := driver.Version()
	t, err := Tell(title, fmt.Sprintf("%s, %d SMs, CUDA %d.%d", d.Name, d.SMs, major, minor), d.SMs, list, stamps)
	if err != nil {
		return nil, err
	}
	t.Made = time.Now().UTC().Format("2006-01-02 15:04 UTC")
	return t, nil
}

// launch runs the kernels twice, the first time to warm up, and returns the stamps
// of the second.
func launch(ctx *cuda.Context, arch string, list []Kernel) ([][]byte, error) {
	type one struct {
		fn     *cuda.Function
		stream *cuda.Stream
		params cuda.Params
		stamps cuda.Ptr
	}
	streams := map[string]*cuda.Stream{}
	all := make([]one, len(list))
	for i, k := range list {
		f, err := waiter(fmt.Sprintf("wait%d", i), k.Threads, k.Shared)
		if err != nil {
			return nil, err
		}
		text, err := ptx.Print(f, ptx.Options{Arch: arch})
		if err != nil {
			return nil, err
		}
		m, err := ctx.Load([]byte(text), cuda.JIT{})
		if err != nil {
			return nil, err
		}
		x := &all[i]
		if x.fn, err = m.Function(f.Name); err != nil {
			return nil, err
		}
		if k.Shared > 48<<10 {
			if err := x.fn.SetMaxDynamicShared(k.Shared); err != nil {
				return nil, err
			}
		}
		if x.stream = streams[k.Stream]; x.stream == nil {
			if x.stream, err = ctx.NewStream(); err != nil {
				return nil, err
			}
			streams[k.Stream] = x.stream
		}
		if x.stamps, err = ctx.Alloc(k.Blocks * stampBytes); err != nil {
			return nil, err
		}
		times := make([]byte, 4*k.Blocks)
		for b := range k.Blocks {
			binary.LittleEndian.PutUint32(times[4*b:], uint32(1000*k.Micros[b%len(k.Micros)]))
		}
		at, err := ctx.Alloc(len(times))
		if err != nil {
			return nil, err
		}
		if err := ctx.CopyIn(at, times); err != nil {
			return nil, err
		}
		x.params.Ptr(x.stamps)
		x.params.Ptr(at)
	}
	for range 2 {
		for i, k := range list {
			x := &all[i]
			if err := x.fn.Launch(cuda.Dim{X: k.Blocks}, cuda.Dim{X: k.Threads}, k.Shared, x.stream, &x.params); err != nil {
				return nil, err
			}
		}
		if err := ctx.Synchronize(); err != nil {
			return nil, err
		}
	}
	var out [][]byte
	for i, k := range list {
		data := make([]byte, k.Blocks*stampBytes)
		if err := ctx.CopyOut(data, all[i].stamps); err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// Tell makes a trace of the stamps that the blocks of each kernel left, in their
// order. Times count from the first block's entry. A block's cause is the block
// whose leaving made room for it: the last that had left its SM; the first blocks
// of an SM have their launch as the cause.
func Tell(title, machine string, sms int, list []Kernel, stamps [][]byte) (*trace.Trace, error) {
	type run struct {
		kernel, block, sm int
		entry, exit       int64
		id                int
	}
	var runs []*run
	if len(stamps) != len(list) {
		return nil, fmt.Errorf("blocktrace: %d kernels and stamps of %d", len(list), len(stamps))
	}
	for i, data := range stamps {
		if len(data) != list[i].Blocks*stampBytes {
			return nil, fmt.Errorf("blocktrace: %d blocks left %d bytes", list[i].Blocks, len(data))
		}
		for b := range list[i].Blocks {
			at := data[b*stampBytes:]
			r := &run{kernel: i, block: b, entry: int64(binary.LittleEndian.Uint64(at)), exit: int64(binary.LittleEndian.Uint64(at[8:])), sm: int(binary.LittleEndian.Uint32(at[16:]))}
			if r.entry <= 0 || r.exit < r.entry || r.sm < 0 {
				return nil, fmt.Errorf("blocktrace: block %d of %s was there from %d to %d ns on SM %d", b, list[i].Name, r.entry, r.exit, r.sm)
			}
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *run) int {
		return cmp.Or(cmp.Compare(a.entry, b.entry), cmp.Compare(a.kernel, b.kernel), cmp.Compare(a.block, b.block))
	})
	zero := runs[0].entry
	t := trace.New(title, machine, trace.Measurement, "ns")
	t.Facts = []string{
		"SM, entry and exit of each block are read by its first thread: %smid and %globaltimer [measured]",
		"which block made room for which is concluded from them [derived]",
		fmt.Sprintf("the GPU has %d SMs", sms),
	}
	// Lines of all SMs in their order, also of those without a block.
	for sm := range sms {
		t.Tracks = append(t.Tracks, trace.Track{Name: smName(sm), Group: "SMs"})
	}
	kernels := make([]int, len(list))
	for i, k := range list {
		first, last := int64(-1), int64(0)
		for _, r := range runs {
			if r.kernel == i {
				if first < 0 {
					first = r.entry
				}
				last = max(last, r.exit)
			}
		}
		kernels[i] = t.Add("kernels", k.Name, trace.Event{Kind: "kernel", Start: first - zero, End: last - zero, Tag: trace.Derived,
			Text:  fmt.Sprintf("%s: %d blocks of %d threads in stream %s, first entry to last exit", k.Name, k.Blocks, k.Threads, k.Stream),
			About: map[string]string{"kernel": k.Name, "blocks": strconv.Itoa(k.Blocks), "threads": strconv.Itoa(k.Threads), "shared": strconv.Itoa(k.Shared), "stream": k.Stream}})
	}
	gone := map[int][]*run{} // of each SM, those whose room has not been taken again
	for i, r := range runs {
		// Who has left this SM by now, and not been the cause of another?
		var best *run
		for _, o := range gone[r.sm] {
			if o.exit <= r.entry && (best == nil || o.exit > best.exit) {
				best = o
			}
		}
		e := trace.Event{Kind: "block", Start: r.entry - zero, End: r.exit - zero, Tag: trace.Measured,
			About: map[string]string{"kernel": list[r.kernel].Name, "block": strconv.Itoa(r.block), "sm": strconv.Itoa(r.sm)}}
		e.Text = fmt.Sprintf("block %d of %s runs on SM %d", r.block, list[r.kernel].Name, r.sm)
		if best != nil {
			e.Causes = []int{best.id}
			e.Text += fmt.Sprintf(" in the room that block %d of %s left", best.block, list[best.kernel].Name)
			gone[r.sm] = slices.DeleteFunc(gone[r.sm], func(o *run) bool { return o == best })
		} else {
			e.Causes = []int{kernels[r.kernel]}
			e.Text += ", which had room"
		}
		r.id = t.Add("SMs", smName(r.sm), e)
		gone[r.sm] = append(gone[r.sm], runs[i])
	}
	return t, t.Check()
}

func smName(n int) string { return fmt.Sprintf("SM %d", n) }

// RunLaunch runs a launch that is recorded, on a GPU.
func RunLaunch(ordinal int, x recorded.Launch) (*trace.Trace, error) {
	list, err := Kernels(x.Program, x.Micros)
	if err != nil {
		return nil, err
	}
	return Run(ordinal, x.Title, list)
}
