package status

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/tests/differential"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

var usedRegisters = regexp.MustCompile(`Used (\d+) registers`)

// TestRegisterEstimate compares the estimate of gpu/cost with what the assembler
// takes for the corpus: within a factor of 0.6 to 1.8 and a few.
func TestRegisterEstimate(t *testing.T) {
	ptxas := need.Ptxas(t)
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
		file := filepath.Join(t.TempDir(), "p.ptx")
		if err := os.WriteFile(file, []byte(ptx), 0o666); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(ptxas, "-v", "-arch=sm_80", "-o", os.DevNull, file).CombinedOutput()
		m := usedRegisters.FindSubmatch(out)
		if err != nil || m == nil {
			t.Errorf("%s: %v\n%s", l.File, err, out)
			continue
		}
		used, _ := strconv.Atoi(string(m[1]))
		est := cost.Of(c.Func, c.Arch).Registers
		sum, n = sum+float64(est)/float64(used), n+1
		t.Logf("%-24s %3d est, %3d used", l.File, est, used)
		if 10*est < 6*used-40 || 10*est > 18*used+80 {
			t.Errorf("%s: the estimate is %d registers, the assembler takes %d", l.File, est, used)
		}
	}
	t.Logf("%d programs, the estimate is %.2f times what is used on average", n, sum/float64(n))
}
