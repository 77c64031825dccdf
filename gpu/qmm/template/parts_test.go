package template

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestParts holds products whose warps share k, on interpreter and simulator, to exact sums.
func TestParts(t *testing.T) {
	for i, c := range []struct {
		w     dtype.Type
		act   dtype.Type
		group int
		zero  bool
		shape formShape
	}{
		{dtype.U4, dtype.F16, 128, false, formShape{1, 48, 1024, Schedule{Parts: 4, Depth: 2, PDL: true}}},
		{dtype.U4, dtype.F16, 128, true, formShape{2, 40, 640, Schedule{Parts: 4, Depth: 1, Sides: 2, AddBias: true, AddResidual: true}}},
		{dtype.U3, dtype.F16, 128, false, formShape{1, 70, 1408, Schedule{Parts: 2, Splits: 2, PDL: true}}},
		{dtype.U4, dtype.F16, 128, true, formShape{3, 40, 640, Schedule{Parts: 2, Splits: 3, Depth: 1, Sides: 2}}},
		{dtype.U4, dtype.F16, 128, false, formShape{1, 16, 128, Schedule{Parts: 2, Splits: 4, Depth: 2}}},
		{dtype.I3, dtype.BF16, 32, false, formShape{9, 21, 384, Schedule{Parts: 2, Rows: 16}}},
		{dtype.U1, dtype.F16, 128, true, formShape{1, 150, 512, Schedule{Parts: 2}}},
		{dtype.U2, dtype.F16, 64, false, formShape{3, 70, 896, Schedule{Parts: 8}}},
		{dtype.F6E3M2, dtype.F16, 128, false, formShape{1, 16, 512, Schedule{Parts: 8, Depth: 3}}},
		{dtype.U5, dtype.F16, 32, true, formShape{3, 40, 640, Schedule{Parts: 2, Splits: 3, Depth: 1, Sides: 2}}},
		{dtype.U4, dtype.F16, 128, true, formShape{1, 42, 640, Schedule{Parts: 4, Depth: 2, Sides: 2, PDL: true}}},
		{dtype.F8E4M3, dtype.BF16, 16, false, formShape{1, 16, 256, Schedule{Parts: 2}}},
		{dtype.U4, dtype.F16, 128, true, formShape{9, 40, 640, Schedule{Parts: 4, Splits: 2, Direct: true, PDL: true, AddBias: true, AddResidual: true}}},
		{dtype.U2, dtype.F16, 64, false, formShape{3, 70, 896, Schedule{Parts: 8, Splits: 3, Sides: 2, Direct: true, AddBias: true}}},
	} {
		t.Run(fmt.Sprintf("%s_%d", c.w, i), func(t *testing.T) {
			f := Form{Weight: c.w, Act: c.act, Scale: dtype.F16, Group: c.group, Zero: c.zero, AnyZero: c.zero && i > 8}
			l := randomLayer(f, c.shape.m, c.shape.n, c.shape.k, rand.New(rand.NewPCG(uint64(i), 5)))
			l.checkOnCPU(t, c.shape.s)
		})
	}
}
