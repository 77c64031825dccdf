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
	}{
		{mode: "fault", want: "broke the GPU context"},
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
			start := time.Now()
			if c.interrupt {
				go func() {
					time.Sleep(500 * time.Millisecond)
					start = time.Now()
					b.Interrupt()
				}()
			}
			r, _ := b.run(launch)
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
			b.ok("got, _ := "+strings.Replace(launch, "cuda", "interp", 1)+"\ngot.Device", "=> interp\n")
		})
	}
}
