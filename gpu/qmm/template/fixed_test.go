package template

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestFixedDigits holds products of one row as whole numbers, on interpreter and simulator, to
// exact sums: shares of blocks that begin and end at any turn of four.
func TestFixedDigits(t *testing.T) {
	for i, c := range []struct {
		w     dtype.Type
		zero  bool
		shape formShape
	}{
		{dtype.U1, false, formShape{1, 300, 1152, Schedule{Blocks: 3, Stages: 4, Warps: 2}}},
		{dtype.U2, true, formShape{1, 40, 1408, Schedule{Blocks: 3, Stages: 8, PDL: true}}},
		{dtype.I2, false, formShape{1, 128, 640, Schedule{Blocks: 4, Stages: 4, Sides: 2, AddBias: true, AddResidual: true}}},
		{dtype.U4, false, formShape{1, 48, 896, Schedule{Blocks: 2, Stages: 4, Warps: 2}}},
		{dtype.U4, false, formShape{2, 32, 256, Schedule{Blocks: 5, Stages: 4}}},
		{dtype.U1, true, formShape{1, 128, 384, Schedule{Blocks: 2, Stages: 4}}},
	} {
		for _, long := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_%d_%v", c.w, i, long), func(t *testing.T) {
				f := Form{Weight: c.w, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: c.zero}
				c.shape.s.Digits, c.shape.s.Fixed, c.shape.s.Long = true, !long, long
				l := randomLayer(f, c.shape.m, c.shape.n, c.shape.k, rand.New(rand.NewPCG(uint64(i), 5)))
				l.checkOnCPU(t, c.shape.s)
			})
		}
	}
}
