package device

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestGPUModules runs a program from machine code that is made, kept, broken and made
// again, and says how long each takes.
func TestGPUModules(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(CacheEnv, dir)
	t.Setenv("CUDA_CACHE_DISABLE", "")
	p, err := text.Parse("matmul_pipelined.tile", corpus.Program("matmul_pipelined"), nil)
	if err != nil {
		t.Fatal(err)
	}
	run := func(what string) (time.Duration, []ir.Arg) {
		t.Helper()
		d, err := Open("cuda")
		if errors.Is(err, ErrNoGPU) {
			t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o device.test ./gpu/device && ./device.test -test.run GPUModules -test.v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		args := make([]ir.Arg, len(p.Params))
		for i, v := range p.Params {
			if v.Type.Kind == ir.Pointer {
				a, err := array.Generate("randint:" + v.Type.Elem.String() + "[64, 64]:seed=1:lo=0:hi=3")
				if err != nil {
					t.Fatal(err)
				}
				args[i].Array = a
			} else {
				args[i].Int = 64
			}
		}
		res, err := d.Run(context.Background(), p, args)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %v to load", what, res.JIT)
		return res.JIT, res.Args
	}
	made, want := run("made")
	kept, got := run("kept")
	files, err := filepath.Glob(filepath.Join(dir, "*.bin"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the store has %v, %v", files, err)
	}
	if kept > made/2 && kept > 2*time.Millisecond {
		t.Errorf("kept machine code takes %v, made %v", kept, made)
	}
	if err := os.WriteFile(files[0], []byte("broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, again := run("broken")
	for i := range want {
		if want[i].Array != nil && (array.Compare(got[i].Array, want[i].Array).Differ > 0 || array.Compare(again[i].Array, want[i].Array).Differ > 0) {
			t.Errorf("%s differs", p.Params[i].Name)
		}
	}
}
