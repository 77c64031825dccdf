package template

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestBiasOffCodes holds the products of codes whose bias is taken off before they are multiplied to
// exact sums, and the expanded weights to theirs, on interpreter and simulator: by each plan, in each
// kind of groups, and as digits, which it stays beside.
func TestBiasOffCodes(t *testing.T) {
	for _, name := range []string{"interp", "sim:sm_90a"} {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		for i, group := range []int{128, 64, 32, 0} {
			if testing.Short() && i%2 != 0 {
				continue
			}
			// Scales of bf16 have weights expanded by f32.
			f := Form{Weight: dtype.I2, Act: dtype.F16, Scale: []dtype.Type{dtype.F16, dtype.BF16}[i%2], Group: group}
			schedules := []Schedule{
				{Splits: 2, Sides: 2, AddBias: true},
				{Stages: 2, Blocks: 3, Warps: 2, Depth: 2, PDL: true},
				{Stages: 2, Blocks: 3, Rows: 16, Warpgroups: true, AddResidual: true},
			}
			if group > 0 {
				schedules = append(schedules, Schedule{Parts: 4, Rows: 16})
			}
			wides := []WideSchedule{{Rows: 16, Consumers: 1, AddBias: true}, {Rows: 16, Sides: 2, Splits: 2}}
			if group > 0 {
				wides = append(wides, WideSchedule{Rows: 16, Parts: 2, Splits: 2})
			}
			if group == 128 {
				schedules = append(schedules, Schedule{Stages: 2, Blocks: 3, Rows: 16, Sides: 2, Warpgroups: true, Fine: true},
					Schedule{Stages: 2, Blocks: 3, Digits: true, Long: true}, Schedule{Stages: 2, Blocks: 3, Rows: 16, Warpgroups: true, Fixed: true})
				wides = append(wides, WideSchedule{Rows: 16, Sides: 2, Fine: true})
			}
			l := randomLayer(f, 11, 140, 640, rand.New(rand.NewPCG(uint64(i), 7)))
			for _, s := range schedules {
				t.Run(fmt.Sprintf("%s/%d_%+v", name, group, s), func(t *testing.T) { l.check(t, d, s) })
			}
			for _, s := range wides {
				t.Run(fmt.Sprintf("%s/%d_wide_%+v", name, group, s), func(t *testing.T) { l.checkWide(t, d, s) })
			}
		}
	}
}
