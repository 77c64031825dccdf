package status

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/tests/differential"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// TestRegisterEstimate compares the estimate of gpu/cost with what the assembler
// takes for the corpus: within a factor of 0.6 to 1.8 and a few.
func TestRegisterEstimate(t *testing.T) {
	launches, err := differential.Launches()
	if err != nil {
		t.Fatal(err)
	}
	seen, sum, n := map[string]bool{}, 0.0, 0
	for _, l := range launches {
		if seen[l.File] || !l.Runs("sm_80") {
			continue
		}
		seen[l.File] = true
		c, err := compile.Program(l.Program, compile.Options{Arch: "sm_80", Divisible: compile.Divisors(l.Program, l.Args)})
		if err != nil {
			continue
		}
		ptx, err := c.PTX()
		if err != nil {
			t.Fatal(err)
		}
		made, err := need.Assemble(t, "sm_80", ptx)
		if err != nil {
			t.Errorf("%s: %v", l.File, err)
			continue
		}
		used, est := made.Registers, cost.Of(c.Func, c.Arch).Registers
		sum, n = sum+float64(est)/float64(used), n+1
		t.Logf("%-24s %3d est, %3d used", l.File, est, used)
		if 10*est < 6*used-40 || 10*est > 18*used+80 {
			t.Errorf("%s: the estimate is %d registers, the assembler takes %d", l.File, est, used)
		}
	}
	t.Logf("%d programs, the estimate is %.2f times what is used on average", n, sum/float64(n))
}
