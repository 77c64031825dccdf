package cuda

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/ebitengine/purego"
)

// faults are kernels that lose their context, and the code that the driver then gives.
var faults = map[string]struct {
	body string
	code int
}{
	"address":    {"mov.b64 %rd1, 64;\n\tst.global.b32 [%rd1], %r0;", 700},
	"misaligned": {"st.global.b32 [%rd0+2], %r0;", 716},
	"trap":       {"trap;", 719},
}

// TestGPURecovery loses contexts on purpose, each in a process of its own, and looks for
// ways on: what the driver gives differs between drivers, so that it is told, not wanted.
func TestGPURecovery(t *testing.T) {
	kind, way, _ := strings.Cut(os.Getenv("CUDA_TEST_LOSE"), " ")
	if kind == "" {
		c := gpu(t)
		for kind := range faults {
			for _, way := range []string{"plain", "null", "reset", "spare", "primary", "process"} {
				if kind != "address" && way != "plain" {
					continue
				}
				t.Run(kind+" "+way, func(t *testing.T) {
					cmd := exec.Command(os.Args[0], "-test.run=^TestGPURecovery$", "-test.v")
					cmd.Env = append(os.Environ(), "CUDA_TEST_LOSE="+kind+" "+way)
					out, err := cmd.CombinedOutput()
					if t.Logf("%s", out); err != nil {
						t.Error(err)
					}
				})
			}
		}
		ok(t, c.Synchronize()) // this process is unharmed
		return
	}
	runtime.LockOSThread() // no other thread has the lost context
	d, err := Open()
	ok(t, err)
	var spare *Context
	switch way {
	case "spare":
		spare, err = d.NewContext(0)
	case "primary":
		spare, err = d.PrimaryContext(0)
	}
	ok(t, err)
	if spare != nil {
		addOne(t, spare)
	}
	own, err := d.NewContext(0)
	ok(t, err)
	x := faults[kind]
	f := kernel(t, own, ".version 7.4\n.target sm_80\n.address_size 64\n.visible .entry lose(.param .u64 p)\n{\n\t.reg .b32 %r<2>;\n\t.reg .b64 %rd<3>;\n\tld.param.u64 %rd0, [p];\n\tmov.b32 %r0, 1;\n\t"+x.body+"\n\tret;\n}\n", "lose", JIT{})
	var p Params
	p.Ptr(upload(t, own, make([]byte, 64)))
	ok(t, f.Launch(Dim{X: 1}, Dim{X: 1}, 0, nil, &p))
	err = own.Synchronize()
	var e *Error
	if !errors.As(err, &e) || !e.Sticky() {
		t.Fatalf("got %v", err)
	}
	if e.Code != x.code {
		t.Errorf("got %v, want code %d", err, x.code)
	}
	t.Log(err)
	if way == "null" {
		t.Logf("set no context: %v", d.call(cuCtxSetCurrent, 0))
	}
	t.Logf("close: %v", own.Close())
	if way == "reset" {
		lib, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW)
		ok(t, err)
		reset, err := purego.Dlsym(lib, "cuDevicePrimaryCtxReset_v2")
		ok(t, err)
		t.Logf("reset: %v", call(reset, 0))
	}
	if spare != nil {
		p, err := spare.Alloc(16)
		t.Logf("the spare context: %v", err)
		if err == nil {
			ok(t, spare.Free(p))
			addOne(t, spare)
			t.Log("the spare context adds")
		}
	}
	next, err := d.NewContext(0)
	t.Logf("a new context: %v", err)
	if err == nil {
		addOne(t, next)
		ok(t, next.Close())
	}
	if way == "process" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestGPUAdd$", "-test.v")
		out, err := cmd.CombinedOutput()
		t.Logf("a new process: %v\n%s", err, out)
		ok(t, err)
	}
}

// addOne adds two numbers in a context.
func addOne(t *testing.T, c *Context) {
	t.Helper()
	f := kernel(t, c, addPTX, "add", JIT{})
	a, b, out := upload(t, c, []byte{0, 0, 0x80, 0x3f}), upload(t, c, []byte{0, 0, 0, 0x40}), upload(t, c, make([]byte, 4))
	var p Params
	p.Ptr(a)
	p.Ptr(b)
	p.Ptr(out)
	p.I32(1)
	ok(t, f.Launch(Dim{X: 1}, Dim{X: 1}, 0, nil, &p))
	ok(t, c.Synchronize())
	got := make([]byte, 4)
	ok(t, c.CopyOut(got, out))
	if got[2] != 0x40 || got[3] != 0x40 { // 3
		t.Errorf("1 + 2 = %v", got)
	}
}
