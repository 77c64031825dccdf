package session_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/session"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

const onGPU = "%%tile add\nprogram add<1>(a: *f32, b: *f32) warps=1 {\n\tga = ViewGlobal(a) : global f32[32]\n\tgb = ViewGlobal(b) : global f32[32]\n\tra = LoadGlobal(ga, offset=[0]) : register f32[32] spatial(32)\n\tStoreGlobal(gb, ra, offset=[0])\n}\n"

// TestDriver runs launches on a stand-in for NVIDIA's driver that breaks its context, crashes, or never ends a launch:
// the cell gets its error within a second, and the notebook goes on.
func TestDriver(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in is a Linux library")
	}
	dir := t.TempDir()
	source := filepath.Join("..", "..", "gpu", "device", "testdata", "stub", "libcuda.c")
	if out, err := exec.Command(need.CC(t), "-shared", "-fPIC", "-o", filepath.Join(dir, "libcuda.so.1"), source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const launch = `lab.RunOn("cuda", add, "ones:f32[32]", "zeros:f32[32]")`
	for _, c := range []struct {
		mode, want string
		lost       bool
		interrupt  bool
		next       string // what the launch gives then; "" is not tried
	}{
		{mode: "fault", want: "broke the GPU context"},
		// A driver that gives the worker no other context: a process of its own has it, and all variables stay.
		{mode: "stuck+works", want: "a new process has one in its place; arguments were copied, so that nothing else is lost", next: "=> cuda:0\n"},
		{mode: "crash", want: "SIGSEGV", lost: true},
		{mode: "hang", want: "had not ended after", lost: true, interrupt: true},
	} {
		t.Run(c.mode, func(t *testing.T) {
			s, err := session.Start(session.Options{Exe: []string{os.Args[0]}, Env: []string{"TILUS_TEST_WORKER=1", "STUB=" + c.mode, "LD_LIBRARY_PATH=" + dir}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			b := &book{Session: s, t: t}
			b.ok(onGPU, "")
			b.ok("keep := 5", "")
			var r session.Reply
			start := time.Now()
			if c.interrupt {
				b.ok(`if err := lab.Device("cuda"); err != nil { panic(err) }`, "") // all but the launch is done
				ended := b.ahead(t.Context(), "println(\"begun\")\n"+launch)
				time.Sleep(500 * time.Millisecond) // and into the launch
				start = time.Now()
				b.Interrupt()
				r = b.end(ended)
			} else {
				r, _ = b.run(launch)
			}
			took := time.Since(start)
			t.Logf("%s after %s: %s", r.EName, took, r.EValue)
			if said := r.EValue + strings.Join(r.Traceback, "\n"); r.Status != "error" || r.Lost != c.lost || !strings.Contains(said, c.want) {
				t.Errorf("%+v, want %q", r, c.want)
			}
			if took > 4*time.Second && !testing.Short() {
				t.Errorf("the reply came after %s", took)
			}
			if c.lost {
				if r, err := b.Replay(context.Background(), nil); err != nil || r.Status != "ok" {
					t.Errorf("replay: %+v %v", r, err)
				}
			}
			b.ok("keep", "=> 5\n")
			for range 2 {
				if c.next != "" {
					b.ok("again, err := "+launch+"\nif err != nil { panic(err) }\nagain.Device", c.next)
				}
			}
			b.ok("got, _ := "+strings.Replace(launch, "cuda", "interp", 1)+"\ngot.Device", "=> interp\n")
		})
	}
}

// TestGPULost loses a context on a GPU in one cell and runs a program in the next; all variables stay.
func TestGPULost(t *testing.T) {
	s, err := session.Start(session.Options{Exe: []string{os.Args[0]}, Env: []string{"TILUS_TEST_WORKER=1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b := &book{Session: s, t: t}
	if r, _ := b.run(`if err := lab.Device("cuda"); err != nil { panic(err) }`); strings.Contains(r.EValue, "no NVIDIA GPU") {
		t.Skipf("no GPU here: %s", r.EValue)
	}
	b.ok(onGPU, "")
	b.ok("%%tile leave\nprogram leave<1>(n: i32) warps=1 {\n\ts = AllocateShared() : shared f32[64] shared_row_major(64)\n\tz = AllocateRegister(init=1) : register f32[32] spatial(32)\n\tStoreShared(s, z, offset=[n])\n}\n", "")
	b.ok("keep := 5", "")
	launch := "r, err := lab.RunOn(\"cuda\", add, \"iota:f32[32]\", \"zeros:f32[32]\")\nif err != nil { panic(err) }\nr.Out(\"b\").At(31)"
	b.ok(launch, "=> 31\n")
	for range 2 {
		r, _ := b.run(`lab.RunOn("cuda", leave, 1<<24)`)
		t.Logf("%s: %s", r.EName, r.EValue)
		if r.Status != "error" || !strings.Contains(r.EValue, "program leave broke the GPU context") || !strings.Contains(r.EValue, "nothing else is lost") {
			t.Errorf("%+v", r)
		}
		b.ok(launch, "=> 31\n")
		b.ok("keep", "=> 5\n")
	}
}
