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
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestDriverFailures runs this binary under a stand-in for the driver that fails in
// each way that a driver can. What the child says must name the cause and a way out.
func TestDriverFailures(t *testing.T) {
	underStub(t, "^TestDriverChild$", map[string][]string{
		"works":  {"open: <nil>", "first: <nil>", "second: <nil>"},
		"none":   {"open: device: no NVIDIA GPU", "--device interp and --device sim need none"},
		"old":    {"open: ", "compute capability 7.0"},
		"aged":   {"open: <nil>", "CUDA 11.4) is too old for PTX version", "update it", "--device sim", "second: device"},
		"memory": {"open: <nil>", "CUDA_ERROR_OUT_OF_MEMORY", "second: device"},
		"jit":    {"open: <nil>", "CUDA_ERROR_INVALID_PTX", "ptxas: stub refuses"},
		"fault":  {"open: <nil>", "broke the GPU context", "a new context is in its place", "--device sim, which finds the place", "second: device"},
		"stuck":  {"open: <nil>", "program scale broke the GPU context: cuda: ", "a new process has one in its place; arguments were copied, so that nothing else is lost", "second: device: cuda:0: program scale broke the GPU context", "third: device: cuda:0: program scale broke the GPU context"},
		// What the process that is given no context hands to another.
		"stuck+works":  {"first: device: cuda:0: program scale broke", "second: <nil>", "third: <nil>", "again: <nil>", "another: <nil>"},
		"stuck+crash":  {"first: device: cuda:0: program scale broke", "second: device: cuda:0: the process that held the GPU ended", "SIGSEGV", "third: device: cuda:0: the process that held the GPU ended"},
		"stuck+hang":   {"second: device: cuda:0: the launch had not ended after", "it was ended, with the process that held the GPU", "third: device: cuda:0: the launch had not ended"},
		"stuck+memory": {"second: device: cuda:0: cuda: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"},
		"stuck+stuck":  {"third: device: cuda:0: program scale broke"},
		"stuck+old":    {"no other context can be made", "nor has another process one: ", "compute capability 7.0", "second: device: cuda:0: cuda: cuCtxCreate: CUDA_ERROR_ILLEGAL_ADDRESS"},
		"hang":         {"open: <nil>", "the launch had not ended after", "restart the kernel"},
	})
}

// TestNoKeeper loses the context of a program that never calls Keeper.
func TestNoKeeper(t *testing.T) {
	t.Setenv("TEST_NO_KEEPER", "1")
	underStub(t, "^TestDriverChild$", map[string][]string{
		"stuck": {"open: <nil>", "broke the GPU context", "no other context can be made: the driver refuses a process in which a program has broken a context; start it again", "second: device: cuda:0: cuda: cuCtxCreate: CUDA_ERROR_ILLEGAL_ADDRESS"},
	})
}

// TestMain makes keepers of this binary when devices of a test ask for them.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_NO_KEEPER") == "" {
		Keeper()
	}
	os.Exit(m.Run())
}

// TestAncientDriver opens a driver that lacks functions.
func TestAncientDriver(t *testing.T) {
	underStub(t, "^TestDriverChild$", map[string][]string{
		"works": {"open: cuda: the driver lacks cuMemcpyPeer; it is older than CUDA 11.4", "update the NVIDIA driver"},
	}, "-DANCIENT")
}

// underStub runs a test of this binary under the stand-in, in each mode, and wants it to
// say so. The stand-in is a Linux library.
func underStub(t *testing.T, child string, modes map[string][]string, flags ...string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in is a Linux library")
	}
	dir := t.TempDir()
	lib := filepath.Join(dir, "libcuda.so.1")
	if out, err := exec.Command(need.CC(t), append(flags, "-shared", "-fPIC", "-o", lib, filepath.Join("testdata", "stub", "libcuda.c"))...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for mode, want := range modes {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	for _, which := range []string{"first", "second", "third"} {
		x, err := array.Generate("ones:f32[64]")
		if err != nil {
			t.Fatal(err)
		}
		patience := time.Minute
		if strings.HasSuffix(os.Getenv("STUB"), "hang") {
			patience = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	if os.Getenv("STUB") != "stuck+works" {
		return
	}
	for _, which := range []string{"again", "another"} { // of a process that is given no context
		d, err := Open("cuda")
		if err == nil {
			x := array.New(dtype.F32, 64)
			_, err = d.Run(t.Context(), p, []ir.Arg{{Array: x}, {Array: x}, {Int: 64}, {Float: 2}, {}})
		}
		fmt.Printf("%s: %v\n", which, err)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
