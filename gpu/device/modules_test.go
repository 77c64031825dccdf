package device

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestGPUModules runs a program in two processes: the driver keeps the machine code that it makes for the first.
func TestGPUModules(t *testing.T) {
	d, err := Open("cuda")
	if err != nil {
		t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o device.test ./gpu/device && ./device.test -test.run GPUModules -test.v", err)
	}
	if os.Getenv("TEST_MODULES") == "" {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		dir := t.TempDir()
		child := func() (took time.Duration, sum string) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestGPUModules$", "-test.v")
			cmd.Env = append(os.Environ(), "TEST_MODULES=1", "CUDA_CACHE_DISABLE=0", "CUDA_CACHE_PATH="+dir)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			_, said, _ := strings.Cut(string(out), "loaded in ")
			if _, err := fmt.Sscan(strings.ReplaceAll(said, "ns, sum", ""), (*int64)(&took), &sum); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			return took, sum
		}
		made, want := child()
		kept, got := child()
		if t.Logf("made: %v, kept: %v to load", made, kept); got != want {
			t.Errorf("the sum of the products is %s, was %s", got, want)
		}
		if kept > made/2 && kept > 5*time.Millisecond {
			t.Errorf("kept machine code takes %v, made %v", kept, made)
		}
		return
	}
	defer d.Close()
	p, err := text.Parse("matmul_pipelined.tile", corpus.Program("matmul_pipelined"), nil)
	if err != nil {
		t.Fatal(err)
	}
	args := make([]ir.Arg, len(p.Params))
	for i, v := range p.Params {
		if v.Type.Kind != ir.Pointer {
			args[i].Int = 64
			continue
		}
		if args[i].Array, err = array.Generate("randint:" + v.Type.Elem.String() + "[64, 64]:seed=1:lo=0:hi=3"); err != nil {
			t.Fatal(err)
		}
	}
	res, err := d.Run(t.Context(), p, args)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.
	for _, a := range res.Args {
		if a.Array != nil {
			for _, x := range a.Array.Floats() {
				sum += x
			}
		}
	}
	fmt.Printf("loaded in %dns, sum %v\n", res.JIT.Nanoseconds(), sum)
}
