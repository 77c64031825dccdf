package template

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestEvenShare has ptxas assemble wide programs whose warpgroups all keep the registers that they begin with:
// those are enough. Programs with more sums, which would need memory, take more.
func TestEvenShare(t *testing.T) {
	for _, c := range []struct {
		weight dtype.Type
		s      WideSchedule
		even   bool
	}{
		{dtype.U4, WideSchedule{Rows: 64, Splits: 2, Stages: 4, Once: true, Staged: true}, true},
		{dtype.U4, WideSchedule{Rows: 64, Stages: 4, Blocks: 132, Whole: true, AddBias: true, AddResidual: true}, true},
		{dtype.U2, WideSchedule{Rows: 64, Parts: 2, Splits: 2, Stages: 4, Staged: true}, true},
		{dtype.U5, WideSchedule{Rows: 64, Parts: 4, Splits: 2, Stages: 4}, false},
		{dtype.F8E4M3, WideSchedule{Rows: 64, Stages: 4, Blocks: 132}, true},
		{dtype.U4, WideSchedule{Rows: 64, Sides: 2, Stages: 4, Blocks: 132}, false},
		{dtype.F8E4M3, WideSchedule{Rows: 128, Stages: 4, Blocks: 132}, false},
		{dtype.U4, WideSchedule{Rows: 64, Sides: 2, Stages: 4, Fine: true}, false},
	} {
		name := fmt.Sprintf("%s %s", c.weight, c.s)
		program, err := Wide(Form{Weight: c.weight, Act: dtype.F16, Scale: dtype.F16, Group: 128}, c.s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		made, err := compile.Program(program, compile.Options{Arch: "sm_90a"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := made.PTX()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if even := !strings.Contains(text, "setmaxnreg"); even != c.even || !strings.Contains(text, ".maxnreg 168") {
			t.Errorf("%s: registers stay evenly shared: %t, want %t; and a thread begins with 168", name, even, c.even)
		}
		if is, err := assembled(t, program); err != nil || is.Spills() > 0 || strings.Contains(is.Said, "serialized") {
			t.Errorf("%s: %v\n%s", name, err, is.Said)
		}
	}
}
