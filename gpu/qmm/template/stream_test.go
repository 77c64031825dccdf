package template

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestDecodeStreams multiplies with blocks that stay, on the interpreter and the
// simulator: outputs of one block, of several, and turns that end in the middle.
func TestDecodeStreams(t *testing.T) {
	shapes := []formShape{
		{1, 32, 128, Schedule{Stages: 2, Blocks: 1, Warps: 2}},
		{1, 32, 128, Schedule{Stages: 2, Blocks: 1, Sides: 2}},
		{1, 32, 256, Schedule{Stages: 2, Blocks: 2, Warps: 2}},
		{1, 16, 128, Schedule{Stages: 2, Blocks: 1, PDL: true}},
		{3, 300, 640, Schedule{Stages: 2, Blocks: 5, Warps: 2, Sides: 2}},
		{17, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4, AddBias: true, AddResidual: true, PDL: true}},
		{2, 40, 768, Schedule{Stages: 4, Blocks: 7, Sides: 4}},
	}
	for i, f := range []Form{
		{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128},
		{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 64, Zero: true},
		{Weight: dtype.I3, Act: dtype.F16, Scale: dtype.F16, Group: 128},
		{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128},
		{Weight: dtype.F6E3M2, Act: dtype.BF16, Scale: dtype.F8E8M0, Group: 32},
		{Weight: dtype.U8, Act: dtype.F16, Scale: dtype.F16, Group: 0, Zero: true},
		{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 16, Factor: true},
		{Weight: dtype.I5, Act: dtype.BF16, Scale: dtype.BF16, Group: 256},
	} {
		for j, shape := range shapes {
			if !*every && (i+j)%2 != 0 && f.Weight != dtype.U4 {
				continue
			}
			t.Run(fmt.Sprintf("%s_%s_%d_%d_%d", f.Weight, f.Act, shape.m, shape.n, shape.k), func(t *testing.T) {
				l := randomLayer(f, shape.m, shape.n, shape.k, rand.New(rand.NewPCG(uint64(i), uint64(j))))
				for _, name := range []string{"interp", "sim"} {
					d, err := device.Open(name)
					if err != nil {
						t.Fatal(err)
					}
					l.check(t, d, shape.s)
					d.Close()
				}
			})
		}
	}
}
