package cuda

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// gpu gives a context on device 0, or skips.
func gpu(t *testing.T) *Context {
	t.Helper()
	d, err := Open()
	if e := (*Error)(nil); errors.Is(err, ErrNoDriver) || errors.As(err, &e) && e.NoDevice() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.PrimaryContext(0)
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const addPTX = `.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
	.reg .pred %p;
	.reg .b32 %r<6>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<8>;
	mov.u32 %r0, %ctaid.x;
	mov.u32 %r1, %ntid.x;
	mov.u32 %r2, %tid.x;
	mad.lo.s32 %r3, %r0, %r1, %r2;
	ld.param.u32 %r4, [n];
	setp.ge.u32 %p, %r3, %r4;
	@%p ret;
	ld.param.u64 %rd0, [a];
	ld.param.u64 %rd1, [b];
	ld.param.u64 %rd2, [c];
	mul.wide.u32 %rd3, %r3, 4;
	add.s64 %rd4, %rd0, %rd3;
	add.s64 %rd5, %rd1, %rd3;
	add.s64 %rd6, %rd2, %rd3;
	ld.global.f32 %f0, [%rd4];
	ld.global.f32 %f1, [%rd5];
	add.rn.f32 %f2, %f0, %f1;
	st.global.f32 [%rd6], %f2;
	ret;
}
`

// mmaPTX multiplies A of ones [16, 16] by B [16, 8], whose lane l holds the f16 of both its
// registers at b[l], and writes the four f32 of each lane in lane order.
const mmaPTX = `.version 7.0
.target sm_80
.address_size 64
.visible .entry mma(.param .u64 b, .param .u64 d)
{
	.reg .b32 %r<4>;
	.reg .f32 %f<5>;
	.reg .b64 %rd<6>;
	mov.u32 %r0, %tid.x;
	ld.param.u64 %rd0, [b];
	ld.param.u64 %rd1, [d];
	mul.wide.u32 %rd2, %r0, 4;
	add.s64 %rd3, %rd0, %rd2;
	ld.global.b32 %r1, [%rd3];
	mov.b32 %r2, 0x3c003c00;
	mov.f32 %f4, 0f00000000;
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
		{%f0, %f1, %f2, %f3}, {%r2, %r2, %r2, %r2}, {%r1, %r1}, {%f4, %f4, %f4, %f4};
	mul.wide.u32 %rd4, %r0, 16;
	add.s64 %rd5, %rd1, %rd4;
	st.global.v4.f32 [%rd5], {%f0, %f1, %f2, %f3};
	ret;
}
`

func floats(n int, f func(i int) float32) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(f(i)))
	}
	return b
}

func float(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

func upload(t *testing.T, c *Context, b []byte) Ptr {
	t.Helper()
	p, err := c.Alloc(len(b))
	ok(t, err)
	t.Cleanup(func() { c.Free(p) })
	ok(t, c.CopyIn(p, b))
	return p
}

func kernel(t *testing.T, c *Context, ptx, name string, o JIT) *Function {
	t.Helper()
	m, err := c.Load([]byte(ptx), o)
	ok(t, err)
	t.Cleanup(func() { m.Close() })
	f, err := m.Function(name)
	ok(t, err)
	t.Logf("%s: JIT %v, %d registers, parameters %v, log %q", name, m.Time, f.Registers, f.ParamBytes, m.Log)
	return f
}

func TestGPUDevice(t *testing.T) {
	c := gpu(t)
	dev, err := c.Device()
	ok(t, err)
	major, minor := c.Driver().Version()
	n, err := c.Driver().DeviceCount()
	ok(t, err)
	free, total, err := c.MemInfo()
	ok(t, err)
	t.Logf("driver for CUDA %d.%d, %d devices, %d of %d bytes free, %+v", major, minor, n, free, total, dev)
	if dev.Name == "" || dev.SMs < 1 || dev.WarpSize != 32 || dev.Major < 5 || dev.L2 < 1 || dev.SharedPerBlockOptin < dev.SharedPerBlock || free > total {
		t.Error("implausible")
	}
	if _, err := c.Driver().Device(n); err == nil {
		t.Error("a device past the last is described")
	}
}

func TestGPUAdd(t *testing.T) {
	const n = 100_000
	c := gpu(t)
	f := kernel(t, c, addPTX, "add", JIT{OptLevel: 4, Verbose: true, LineInfo: true, MaxRegisters: 64})
	a := upload(t, c, floats(n, func(i int) float32 { return float32(i) }))
	b := upload(t, c, floats(n, func(i int) float32 { return 0.5 }))
	out, err := c.Alloc(4 * n)
	ok(t, err)
	defer c.Free(out)
	s, err := c.NewStream()
	ok(t, err)
	defer s.Close()
	start, err := c.NewEvent()
	ok(t, err)
	defer start.Close()
	end, err := c.NewEvent()
	ok(t, err)
	defer end.Close()
	host, err := c.AllocHost(4 * n)
	ok(t, err)
	defer host.Close()

	var p Params
	p.Ptr(a)
	p.Ptr(b)
	p.Ptr(out)
	if f.ParamBytes != nil { // without them such a launch crashes
		if err := f.Launch(Dim{X: 1}, Dim{X: 1}, 0, s, &p); err == nil {
			t.Error("a launch with an argument too few is taken")
		}
	}
	p.I32(n)
	check := func(what string) {
		t.Helper()
		ok(t, s.Synchronize())
		for i := range n {
			if got := float(host.Bytes(), i); got != float32(i)+0.5 {
				t.Fatalf("%s: element %d is %v", what, i, got)
			}
		}
	}
	clear(host.Bytes())
	ok(t, c.Memset(out, 0xff, 4*n, s))
	ok(t, start.Record(s))
	ok(t, f.Launch(Dim{X: (n + 255) / 256}, Dim{X: 256}, 0, s, &p))
	ok(t, end.Record(s))
	ok(t, s.CopyOutAsync(host, 0, out, 4*n))
	check("launch")
	ms, err := end.Since(start)
	ok(t, err)
	t.Logf("kernel: %.4f ms", ms)
	if ms <= 0 || ms > 10_000 {
		t.Error("implausible time")
	}

	g, err := s.Capture(func() error {
		return errors.Join(
			c.Memset(out, 0, 4*n, s),
			f.Launch(Dim{X: (n + 255) / 256}, Dim{X: 256}, 0, s, &p),
			s.CopyOutAsync(host, 0, out, 4*n))
	})
	ok(t, err)
	defer g.Close()
	ok(t, s.Synchronize())
	for range 3 {
		clear(host.Bytes())
		ok(t, g.Launch(s))
		check("graph")
	}
	stop := errors.New("stop")
	if _, err := s.Capture(func() error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if done, err := s.Done(); !done || err != nil {
		t.Error(done, err)
	}
	blocks, err := f.BlocksPerSM(256, 0)
	if err != nil || blocks < 1 {
		t.Error(blocks, err)
	}
	ok(t, f.SetMaxDynamicShared(64<<10))

	// Many goroutines on many threads: each call must find its context.
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			var p Params
			p.Ptr(a)
			p.Ptr(b)
			p.Ptr(out)
			p.I32(n)
			for range 20 {
				if err := f.Launch(Dim{X: (n + 255) / 256}, Dim{X: 256}, 0, nil, &p); err != nil {
					t.Error(err)
				}
			}
			if err := c.Synchronize(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// chainPTX adds 1 to each element, after what is in front of it has ended, and
// lets the next launch begin at once.
const chainPTX = `.version 8.0
.target sm_90
.address_size 64
.visible .entry chain(.param .u64 a)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<3>;
	griddepcontrol.launch_dependents;
	mov.u32 %r0, %ctaid.x;
	mov.u32 %r1, %ntid.x;
	mov.u32 %r2, %tid.x;
	mad.lo.s32 %r3, %r0, %r1, %r2;
	ld.param.u64 %rd0, [a];
	mul.wide.u32 %rd1, %r3, 4;
	add.s64 %rd2, %rd0, %rd1;
	griddepcontrol.wait;
	ld.global.u32 %r4, [%rd2];
	add.s32 %r4, %r4, 1;
	st.global.u32 [%rd2], %r4;
	ret;
}
`

// TestGPUDependentLaunches holds that launches which may begin early see all that
// those in front of them did, on a stream and in a graph, and tells what a launch
// takes both ways.
func TestGPUDependentLaunches(t *testing.T) {
	c := gpu(t)
	d, err := c.Device()
	ok(t, err)
	if d.Major < 9 {
		t.Skipf("%s has no griddepcontrol", d.Arch())
	}
	const n, chain, replays = 1 << 16, 200, 5
	f := kernel(t, c, chainPTX, "chain", JIT{})
	for _, blocks := range []int{d.SMs - 1, d.SMs, d.SMs + 1, n / 256, 3 * d.SMs, 100 * d.SMs} {
		shared, err := f.evenShared(blocks, 256, 0)
		ok(t, err)
		free, err := f.BlocksPerSM(256, 0)
		ok(t, err)
		want := (blocks + d.SMs - 1) / d.SMs
		if blocks == d.SMs || want > free {
			want = free
		}
		if got, err := f.BlocksPerSM(256, shared); err != nil || got != want {
			t.Errorf("%d blocks take %d bytes, with which %d fit an SM, not %d: %v", blocks, shared, got, want, err)
		}
	}
	a, err := c.Alloc(4 * n)
	ok(t, err)
	defer c.Free(a)
	ok(t, c.Memset(a, 0, 4*n, nil))
	ok(t, c.Synchronize())
	s, err := c.NewStream()
	ok(t, err)
	defer s.Close()
	var p Params
	p.Ptr(a)
	done := uint32(0)
	check := func(what string, more int) {
		t.Helper()
		done += uint32(more)
		ok(t, s.Synchronize())
		data := make([]byte, 4*n)
		ok(t, c.CopyOut(data, a))
		for i := range n {
			if got := binary.LittleEndian.Uint32(data[4*i:]); got != done {
				t.Fatalf("%s: element %d is %d, want %d", what, i, got, done)
			}
		}
	}
	for _, way := range []struct {
		name   string
		launch func(grid, block Dim, shared int, s *Stream, args *Params) error
	}{{"dependent", f.LaunchDependent}, {"plain", f.Launch}} {
		queue := func() error {
			for range chain {
				if err := way.launch(Dim{X: n / 256}, Dim{X: 256}, 0, s, &p); err != nil {
					return err
				}
			}
			return nil
		}
		ok(t, queue())
		check(way.name, chain)
		g, err := s.Capture(queue)
		ok(t, err)
		defer g.Close()
		start, err := c.NewEvent()
		ok(t, err)
		defer start.Close()
		end, err := c.NewEvent()
		ok(t, err)
		defer end.Close()
		ok(t, g.Launch(s))
		ok(t, start.Record(s))
		for range replays {
			ok(t, g.Launch(s))
		}
		ok(t, end.Record(s))
		check(way.name+", graph", chain*(replays+1))
		ms, err := end.Since(start)
		ok(t, err)
		t.Logf("%s: %.3f µs a launch", way.name, ms*1000/chain/replays)
	}
}

func TestGPUMma(t *testing.T) {
	c := gpu(t)
	f := kernel(t, c, mmaPTX, "mma", JIT{})
	// Column n of B holds n everywhere; lane l holds a part of column l/4.
	half := [8]uint32{0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700}
	bits := make([]byte, 4*32)
	for l := range 32 {
		binary.LittleEndian.PutUint32(bits[4*l:], half[l/4]*0x10001)
	}
	b := upload(t, c, bits)
	d := upload(t, c, make([]byte, 32*16))
	var p Params
	p.Ptr(b)
	p.Ptr(d)
	ok(t, f.Launch(Dim{}, Dim{X: 32}, 0, nil, &p))
	got := make([]byte, 32*16)
	ok(t, c.CopyOut(got, d))
	for l := range 32 {
		for r := range 4 {
			col := l%4*2 + r%2
			if v := float(got, 4*l+r); v != float32(16*col) {
				t.Errorf("lane %d register %d: %v, want %d", l, r, v, 16*col)
			}
		}
	}
}

func TestGPUBadPTX(t *testing.T) {
	c := gpu(t)
	_, err := c.Load([]byte(strings.Replace(addPTX, "add.rn.f32", "add.rn.f33", 1)), JIT{})
	var e *Error
	if !errors.As(err, &e) || e.Code != codeInvalidPTX || e.Sticky() || !strings.Contains(e.Log, "line") {
		t.Fatalf("got %v", err)
	}
	t.Log(err)
	m, err := c.Load([]byte(addPTX), JIT{OptLevel: -1})
	ok(t, err)
	defer m.Close()
	if _, err := m.Function("sub"); !errors.As(err, &e) || e.Code != 500 {
		t.Errorf("a missing function: %v", err)
	}
}

func TestGPUOwnContext(t *testing.T) {
	d := gpu(t).Driver()
	c, err := d.NewContext(0)
	ok(t, err)
	p := upload(t, c, []byte{1, 2, 3})
	got := make([]byte, 3)
	ok(t, c.CopyOut(got, p))
	if got[2] != 3 {
		t.Error(got)
	}
	ok(t, c.Close())
	if err := c.Synchronize(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestGPUIllegalAddress loses its context on purpose, in a process of its own.
func TestGPUIllegalAddress(t *testing.T) {
	c := gpu(t)
	if os.Getenv("CUDA_TEST_FAULT") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestGPUIllegalAddress$", "-test.v")
		cmd.Env = append(os.Environ(), "CUDA_TEST_FAULT=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
		ok(t, c.Synchronize()) // this process is unharmed
		return
	}
	f := kernel(t, c, addPTX, "add", JIT{})
	var p Params
	p.Ptr(64)
	p.Ptr(64)
	p.Ptr(64)
	p.I32(1)
	ok(t, f.Launch(Dim{X: 1}, Dim{X: 1}, 0, nil, &p))
	err := c.Synchronize()
	var e *Error
	if !errors.As(err, &e) || !e.Sticky() {
		t.Fatalf("got %v", err)
	}
	t.Log(err)
	if _, err := c.Alloc(16); !errors.As(err, &e) || !e.Sticky() {
		t.Errorf("the next call gives %v", err)
	}
}

func BenchmarkGPULaunch(b *testing.B) {
	d, err := Open()
	if err != nil {
		b.Skip(err)
	}
	c, err := d.PrimaryContext(0)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	m, err := c.Load([]byte(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry none() { ret; }\n"), JIT{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	f, err := m.Function("none")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Launch(Dim{}, Dim{X: 32}, 0, nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Synchronize(); err != nil {
		b.Fatal(err)
	}
}
