package template

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestGPUOverlap holds every one of thousands of launches, which overlap, to the bits of the
// first: with schedules whose blocks stay, of which several launches are under way at a time.
func TestGPUOverlap(t *testing.T) {
	g := timers(t)
	bits := random(512 << 20)
	for _, c := range []struct {
		w     dtype.Type
		m     int
		layer [2]int
		s     Schedule
	}{
		{dtype.U4, 16, [2]int{57344, 8192}, Schedule{Rows: 16, Warps: 8, Stages: 2, Blocks: 264}},
		{dtype.U4, 16, [2]int{57344, 8192}, Schedule{Rows: 16, Warps: 8, Stages: 2, Blocks: 132}},
		{dtype.U4, 16, [2]int{57344, 8192}, Schedule{Rows: 16, Warps: 8, Stages: 4, Blocks: 132}},
		{dtype.U4, 16, [2]int{8192, 8192}, Schedule{Rows: 16, Warps: 8, Stages: 2, Blocks: 264}},
		{dtype.U4, 16, [2]int{8192, 8192}, Schedule{Rows: 16, Warps: 8, Stages: 8, Blocks: 132}},
		{dtype.U8, 16, [2]int{57344, 8192}, Schedule{Rows: 16, Warps: 8, Stages: 2, Blocks: 264}},
		{dtype.F6E3M2, 16, [2]int{57344, 8192}, Schedule{Rows: 16, Warps: 8, Stages: 2, Blocks: 264}},
		{dtype.U4, 16, [2]int{57344, 8192}, Schedule{Rows: 16, Warps: 8, Sides: 2, Stages: 4, Blocks: 132, Warpgroups: true, Fine: true}},
		{dtype.U2, 16, [2]int{8192, 28672}, Schedule{Rows: 16, Warps: 8, Stages: 4, Blocks: 132, Warpgroups: true, Fine: true}},
		{dtype.U1, 1, [2]int{57344, 8192}, Schedule{Rows: 1, Warps: 8, Stages: 4, Blocks: 132, Digits: true, Long: true}},
		{dtype.U2, 1, [2]int{8192, 28672}, Schedule{Rows: 1, Warps: 16, Stages: 4, Blocks: 132, Digits: true, Long: true}},
		{dtype.U4, 1, [2]int{8192, 8192}, Schedule{Rows: 8, Depth: 4, Sides: 2, Parts: 4}},
		{dtype.U3, 1, [2]int{8192, 28672}, Schedule{Rows: 8, Depth: 1, Parts: 4, Splits: 4}},
	} {
		t.Run(fmt.Sprintf("%s_%d_%d_%v", c.w, c.m, c.layer[0], c.s), func(t *testing.T) {
			f := Form{Weight: c.w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
			plan, err := PlanOf(f)
			if err != nil {
				t.Fatal(err)
			}
			c.s.PDL = true
			s, err := c.s.fill(plan)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Decode(f, s)
			if err != nil {
				t.Fatal(err)
			}
			n, k := c.layer[0], c.layer[1]
			shape := plan.PackedShape(n, k)
			w := array.New(dtype.U8, 0)
			w.Shape, w.Data = shape, bits[:shape[0]*shape[1]*shape[2]]
			scales := generate(t, "pow2:f16[%d, %d]:seed=2:lo=-8:hi=-7", plan.Groups(k), plan.Padded(n))
			args := []ir.Arg{{Array: w}, {Array: scales}, {Array: noise(c.m, k)}, {Array: array.New(f.Act, c.m, n)}}
			if part, arrived := s.Workspace(plan, c.m, n); s.Shares() {
				args = append(args, ir.Arg{Array: array.New(dtype.F32, part...)}, ir.Arg{Array: array.New(dtype.I32, arrived)})
			}
			args = append(args, ir.Arg{Int: int64(c.m)}, ir.Arg{Int: int64(n)}, ir.Arg{Int: int64(k)})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			timing, err := tune.Time(ctx, g, p, args, tune.Options{Replays: 40, Launches: 64, Outputs: 64, Seen: func([]ir.Arg) error { return nil }})
			if err != nil {
				t.Error(err)
			}
			t.Logf("%v: %d launches of %.2f µs are equal, %d blocks fit", s, timing.Launches*42, timing.Median, timing.BlocksPerSM)
		})
	}
}
