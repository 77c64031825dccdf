package cuda

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// faults are kernels that lose their context, and the code that the driver then gives.
var faults = map[string]struct {
	body string
	code int
}{
	"address":     {"mov.b64 %rd1, 64;\n\tst.global.b32 [%rd1], %r0;", 700},
	"misaligned":  {"st.global.b32 [%rd0+2], %r0;", 716},
	"trap":        {"trap;", 719},
	"instruction": {"mov.b64 %rd1, 0x123456789;\n\tld.global.L2::cache_hint.b32 %r0, [%rd0], %rd1;\n\tst.global.b32 [%rd0], %r0;", 715},
}

// TestGPURecovery loses contexts on purpose, each in a process of its own, which goes on
// with a new one.
func TestGPURecovery(t *testing.T) {
	kind := os.Getenv("CUDA_TEST_LOSE")
	if kind == "" {
		c := gpu(t)
		for kind := range faults {
			t.Run(kind, func(t *testing.T) {
				cmd := exec.Command(os.Args[0], "-test.run=^TestGPURecovery$", "-test.v")
				cmd.Env = append(os.Environ(), "CUDA_TEST_LOSE="+kind)
				out, err := cmd.CombinedOutput()
				if t.Logf("%s", out); err != nil {
					t.Error(err)
				}
			})
		}
		ok(t, c.Synchronize()) // this process is unharmed
		return
	}
	d, err := Open()
	ok(t, err)
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
	if err := own.Close(); err != nil {
		t.Logf("close: %v", err)
	}
	start := time.Now()
	for tries := 1; ; tries++ {
		next, err := d.NewContext(0)
		if err == nil {
			t.Logf("a new context after %d tries, %v", tries, time.Since(start))
			addOne(t, next)
			ok(t, next.Close())
			return
		}
		if time.Since(start) > time.Second {
			t.Fatalf("no new context after %d tries, %v: %v", tries, time.Since(start), err)
		}
		time.Sleep(20 * time.Millisecond)
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
