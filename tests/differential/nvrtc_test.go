package differential

import (
	"path/filepath"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// TestCUDACompiles gives the CUDA C++ of every program of the corpus to NVIDIA's
// run-time compiler, which needs no GPU.
func TestCUDACompiles(t *testing.T) {
	t.Setenv(cuda.EnvNVRTC, need.NVRTC(t))
	nvrtc, err := cuda.OpenNVRTC()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, l := range launches(t) {
		o := compile.Options{Arch: l.Target(compile.DefaultArch), Divisible: compile.Divisors(l.Program, l.Args)}
		key := compile.Key(l.Program, o)
		if seen[key] {
			continue
		}
		seen[key] = true
		c, err := compile.Program(l.Program, o)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			continue
		}
		cubin, err := nvrtc.Compile(c.CUDA(), filepath.Base(l.Name)+".cu", c.Arch.Name)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
		} else if len(cubin) < 1000 {
			t.Errorf("%s: a cubin of %d bytes", l.Name, len(cubin))
		}
	}
}
