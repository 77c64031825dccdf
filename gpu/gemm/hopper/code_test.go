package hopper

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestNothingMovesInProducts reads the PTX of every step: between a fence and the wait
// behind it no register is moved, which would make the assembler wait for each product;
// and where an assembler is installed it neither spills nor says that it waits.
func TestNothingMovesInProducts(t *testing.T) {
	installed := false
	t.Run("assembler", func(t *testing.T) {
		need.Ptxas(t)
		installed = true
	})
	schedules := map[string]struct {
		step int
		s    Schedule
	}{"v1": {1, Schedule{}}, "v2": {2, Schedule{}}, "v3": {3, Schedule{}}, "v4": {4, Schedule{}}, "v5": {5, Schedule{}}, "f8": {5, Schedule{Type: dtype.F8E4M3, Out: dtype.BF16}},
		"ping-pong": {5, Schedule{M: 128, N: 128, PingPong: true, Parts: 2}}}
	for name, c := range schedules {
		p, err := Matmul(c.step, c.s)
		if err != nil {
			t.Fatal(err)
		}
		done, err := compile.Program(p, compile.Options{Arch: "sm_90a", Divisible: map[string]int64{"M": 128, "N": 128, "K": 128}})
		if err != nil {
			t.Fatal(err)
		}
		ptx, err := done.PTX()
		if err != nil {
			t.Fatal(err)
		}
		inside, products := false, 0
		for _, line := range strings.Split(ptx, "\n") {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "wgmma.fence"):
				inside = true
			case strings.HasPrefix(line, "wgmma.wait_group"):
				inside = false
			case strings.Contains(line, "wgmma.mma_async"):
				products++
			case inside && strings.HasPrefix(line, "mov."):
				t.Errorf("%s: %s stands between a fence and the wait", name, line)
			}
		}
		if products == 0 {
			t.Errorf("%s: no products", name)
		}
		if !installed {
			continue
		}
		if made, err := need.Assemble(t, "sm_90a", ptx); err != nil || strings.Contains(made.Said, "serializ") || made.Spills() > 0 {
			t.Errorf("%s: %v\n%s", name, err, made.Said)
		}
	}
}

// TestRegistersFit refuses a block whose groups ask for more than there is.
func TestRegistersFit(t *testing.T) {
	src := `program greedy<1>() warps=12 {
	group(0, 128) {
		SetMaxRegisters(n=104)
	}
	group(128, 256) {
		SetMaxRegisters(n=240)
	}
}
`
	p, err := parse(src)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := compile.Program(p, compile.Options{Arch: "sm_90a"}); err == nil || !strings.Contains(err.Error(), "Lower.E13") {
		t.Errorf("%v", err)
	}
}

func parse(src string) (*ir.Program, error) { return text.Parse("greedy.tile", src, nil) }
