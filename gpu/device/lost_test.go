package device

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// leave stores beyond its shared memory, and beyond what any block may have.
const leave = `program leave<1>(n: i32) warps=1 {
	s = AllocateShared() : shared f32[64] shared_row_major(64)
	z = AllocateRegister(init=1) : register f32[32] spatial(32)
	StoreShared(s, z, offset=[n])
}
`

// TestLeave: machines that need no GPU refuse the programs that TestGPULost and TestGPUQueueLost lose
// contexts with.
func TestLeave(t *testing.T) {
	for _, name := range []string{"interp", "sim"} {
		d, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Run(t.Context(), program(t, leave), []ir.Arg{{Int: 1 << 24}})
		if err == nil || !strings.Contains(err.Error(), "t.tile:4:") {
			t.Errorf("%s: %v", name, err)
		}
		turn, _ := array.Generate("zeros:i32[1]")
		_, err = d.Run(t.Context(), program(t, stays), []ir.Arg{{Array: turn}})
		if err == nil || !strings.Contains(err.Error(), "t.tile:3:") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGPULost loses a context on a GPU, and runs programs after it: of the same device, of another one, and of a queue
// that had nothing to do with it.
func TestGPULost(t *testing.T) {
	d, err := Open("cuda")
	if errors.Is(err, ErrNoGPU) {
		t.Skipf("no GPU here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("TEST_LOSE") == "" { // other tests of this process keep their contexts
		cmd := exec.Command(os.Args[0], "-test.run=^TestGPULost$", "-test.v")
		cmd.Env = append(os.Environ(), "TEST_LOSE=1")
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	other, err := Open("cuda:sm_80")
	if err != nil {
		t.Fatal(err)
	}
	good := func(d Device) {
		t.Helper()
		x, err := array.Generate("ones:f32[64]")
		if err != nil {
			t.Fatal(err)
		}
		res, err := d.Run(t.Context(), program(t, scale), []ir.Arg{{Array: x}, {Array: array.New(x.Type, 64)}, {Int: 64}, {Float: 2}, {}})
		if err != nil {
			t.Error(err)
		} else if got := res.Args[1].Array.At(63); got != 2 || res.Device != d.Name() {
			t.Errorf("%s: got %v, want 2", res.Device, got)
		}
	}
	good(d)
	good(other)
	for range 3 {
		_, err = d.Run(t.Context(), program(t, leave), []ir.Arg{{Int: 1 << 24}})
		t.Log(err)
		if err == nil || !strings.Contains(err.Error(), "program leave broke the GPU context") || !strings.Contains(err.Error(), "nothing else is lost") {
			t.Errorf("got %v", err)
		}
		good(d)
		good(other)
	}
	fresh, err := Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	good(fresh)
	for _, d := range []Device{d, other, fresh} {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
