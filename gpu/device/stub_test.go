package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestDriverFailures runs this binary under a stand-in for the driver that fails in
// each way that a driver can. What the child says must name the cause and a way out.
func TestDriverFailures(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in is a Linux library")
	}
	underStub(t, "^TestDriverChild$", map[string][]string{
		"works":  {"open: <nil>", "first: <nil>", "second: <nil>"},
		"none":   {"open: device: no NVIDIA GPU", "--device interp and --device sim need none"},
		"old":    {"open: ", "compute capability 7.0"},
		"aged":   {"open: <nil>", "CUDA 11.4) is too old for PTX version", "update it", "--device sim", "second: device"},
		"memory": {"open: <nil>", "CUDA_ERROR_OUT_OF_MEMORY", "second: device"},
		"jit":    {"open: <nil>", "CUDA_ERROR_INVALID_PTX", "ptxas: stub refuses"},
		"fault":  {"open: <nil>", "broke the GPU context", "a new context is in its place", "--device sim, which finds the place", "second: device"},
		"stuck":  {"open: <nil>", "broke the GPU context", "no other context can be made: since scale the driver refuses this process; start it again", "second: device: cuda:0: cuda: cuCtxCreate: CUDA_ERROR_ILLEGAL_ADDRESS"},
		"hang":   {"open: <nil>", "the launch had not ended after", "restart the kernel"},
	})
}

// TestAncientDriver opens a driver that lacks functions.
func TestAncientDriver(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in is a Linux library")
	}
	underStub(t, "^TestDriverChild$", map[string][]string{
		"works": {"open: cuda: the driver lacks cuMemcpyPeer; it is older than CUDA 11.4", "update the NVIDIA driver"},
	}, "-DANCIENT")
}

// underStub runs a test of this binary under the stand-in, in each mode, and wants it to
// say so.
func underStub(t *testing.T, child string, modes map[string][]string, flags ...string) {
	t.Helper()
	dir := t.TempDir()
	lib := filepath.Join(dir, "libcuda.so.1")
	if out, err := exec.Command(need.CC(t), append(flags, "-shared", "-fPIC", "-o", lib, filepath.Join("testdata", "stub", "libcuda.c"))...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for mode, want := range modes {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", child, "-test.v")
		cmd.Env = append(os.Environ(), "STUB="+mode, "LD_LIBRARY_PATH="+dir)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("%s: %v\n%s", mode, err, out)
		}
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				t.Errorf("%s: nothing says %q:\n%s", mode, w, out)
			}
		}
	}
}

// TestDriverChild opens the GPU and runs a program twice.
func TestDriverChild(t *testing.T) {
	if os.Getenv("STUB") == "" {
		t.Skip("a child of TestDriverFailures")
	}
	d, err := Open("cuda")
	fmt.Printf("open: %v\n", err)
	if err != nil {
		return
	}
	p := program(t, scale)
	for _, which := range []string{"first", "second"} {
		x, err := array.Generate("ones:f32[64]")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		start := time.Now()
		_, err = d.Run(ctx, p, []ir.Arg{{Array: x}, {Array: array.New(x.Type, 64)}, {Int: 64}, {Float: 2}, {}})
		cancel()
		fmt.Printf("%s: %v\n", which, err)
		if u := (*Unended)(nil); errors.As(err, &u) && time.Since(start) > 10*time.Second {
			t.Errorf("giving up took %s", time.Since(start))
		}
	}
	if err := d.Close(); err != nil && os.Getenv("STUB") == "works" {
		t.Errorf("close: %v", err)
	}
}
