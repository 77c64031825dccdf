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
		{dtype.U3, 1, [2]int{8192, 28672}, Schedule{Rows: 8, Depth: 1, Parts: 4, Splits: 4, Direct: true}},
		{dtype.U2, 1, [2]int{8192, 28672}, Schedule{Rows: 1, Warps: 16, Stages: 4, Blocks: 132, Digits: true, Long: true, Direct: true}},
		{dtype.U4, 16, [2]int{57344, 8192}, Schedule{Rows: 16, Warps: 8, Sides: 2, Stages: 8, Blocks: 132, Warpgroups: true, Fine: true, Direct: true}},
		{dtype.U2, 1, [2]int{8192, 28672}, Schedule{Rows: 1, Warps: 16, Stages: 4, Early: 1, Blocks: 132, Digits: true, Long: true, Direct: true}},
		{dtype.U4, 16, [2]int{57344, 8192}, Schedule{Rows: 16, Warps: 8, Sides: 2, Stages: 6, Early: 5, Blocks: 132, Warpgroups: true, Fine: true, Direct: true}},
		{dtype.U3, 16, [2]int{8192, 28672}, Schedule{Rows: 16, Warps: 8, Stages: 4, Early: 2, Blocks: 132}},
		{dtype.U3, 1, [2]int{8192, 28672}, Schedule{Rows: 8, Depth: 1, Parts: 4, Splits: 4, Joint: true}},
		{dtype.U2, 1, [2]int{8192, 28672}, Schedule{Rows: 1, Warps: 16, Stages: 4, Splits: 8, Joint: true, Digits: true, Long: true}},
		{dtype.U4, 16, [2]int{8192, 28672}, Schedule{Rows: 16, Warps: 8, Sides: 2, Stages: 4, Splits: 4, Joint: true, Warpgroups: true}},
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

// TestGPUOverlapWide is [TestGPUOverlap] for products of many rows, which may begin while x is still
// arranged. What is arranged is one x after another, in the same memory, so that a product that does
// not wait is seen.
func TestGPUOverlapWide(t *testing.T) {
	g := timers(t)
	bits := random(512 << 20)
	for _, c := range []struct {
		w        dtype.Type
		m        int
		layer    [2]int
		s        WideSchedule
		launches int
	}{
		{dtype.U4, 64, [2]int{57344, 8192}, WideSchedule{Rows: 64, Sides: 2, Stages: 4}, 16},
		{dtype.U4, 64, [2]int{8192, 8192}, WideSchedule{Rows: 64, Splits: 2}, 64},
		{dtype.U4, 64, [2]int{8192, 28672}, WideSchedule{Rows: 64, Blocks: 132}, 64},
		{dtype.I4, 64, [2]int{8192, 8192}, WideSchedule{Rows: 64, Splits: 2}, 64},
		{dtype.F6E3M2, 64, [2]int{8192, 8192}, WideSchedule{Rows: 64, Splits: 2, Whole: true}, 64},
		{dtype.U3, 64, [2]int{8192, 8192}, WideSchedule{Rows: 64, Parts: 2, Splits: 2}, 64},
		{dtype.U1, 64, [2]int{8192, 8192}, WideSchedule{Rows: 64, Parts: 8, Splits: 2}, 64},
		{dtype.U2, 32, [2]int{10240, 8192}, WideSchedule{Rows: 32, Splits: 2, Stages: 4, Fine: true}, 64},
		{dtype.U8, 64, [2]int{8192, 8192}, WideSchedule{Rows: 64, Sides: 2, Splits: 4, Cluster: 2}, 64},
		{dtype.U4, 64, [2]int{8192, 8192}, WideSchedule{Rows: 64, Splits: 2, Joint: true}, 64},
		{dtype.U3, 64, [2]int{8192, 8192}, WideSchedule{Rows: 64, Parts: 4, Splits: 2, Joint: true}, 64},
		{dtype.U4, 1024, [2]int{8192, 8192}, WideSchedule{Rows: 128, Persistent: true, Cluster: 2, Stages: 4}, 16},
		{dtype.I4, 1024, [2]int{8192, 8192}, WideSchedule{Rows: 128, Persistent: true, Stages: 4}, 16},
	} {
		t.Run(fmt.Sprintf("%s_%d_%d_%v", c.w, c.m, c.layer[0], c.s), func(t *testing.T) {
			f := Form{Weight: c.w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
			plan, err := PlanOf(f)
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.s.Filled(plan)
			if err != nil {
				t.Fatal(err)
			}
			multiply, err := Wide(f, s)
			if err != nil {
				t.Fatal(err)
			}
			arrange, err := Arrange(f, WideSchedule{})
			if err != nil {
				t.Fatal(err)
			}
			n, k := c.layer[0], c.layer[1]
			w := array.New(dtype.U8, 0)
			w.Shape = plan.PackedShape(n, k)
			w.Data = bits[:w.Shape[0]*w.Shape[1]*w.Shape[2]]
			scales := generate(t, "pow2:f16[%d, %d]:seed=2:lo=-8:hi=-7", plan.Groups(k), plan.Padded(n))
			shape, of := plan.Arranged(c.m, k)
			arranged := array.New(f.Act, shape...)
			var sums, part, arrived *array.Array
			if plan.Shifts() {
				sums = array.New(dtype.F32, of...)
			}
			if s.Shares() {
				shape, n := s.Workspace(plan, c.m, n)
				part, arrived = array.New(dtype.F32, shape...), array.New(dtype.I32, n)
			}
			// product is x arranged, and multiplied.
			product := func(x *array.Array) (tune.Launch, tune.Launch) {
				args := []any{w, scales, arranged, sums, array.New(f.Act, c.m, n), part, arrived, c.m, n, k}
				if s.Persistent {
					args = append(args, g.SMs/s.Cluster*s.Cluster)
				}
				return tune.Launch{Program: arrange, Args: launchArgs(x, arranged, sums, c.m, k)}, tune.Launch{Program: multiply, Args: launchArgs(args...)}
			}
			other := noise(c.m, k)
			for i := range other.Data[:len(other.Data)/2] {
				j := len(other.Data) - 1 - i
				other.Data[i], other.Data[j] = other.Data[j], other.Data[i]
			}
			for i := 0; i < len(other.Data); i += 2 { // bytes of a number in their order
				other.Data[i], other.Data[i+1] = other.Data[i+1], other.Data[i]
			}
			first, second := product(other)
			third, last := product(noise(c.m, k))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			timing, err := tune.Time(ctx, g, last.Program, last.Args, tune.Options{Replays: 20, Launches: c.launches, Outputs: c.launches, Seen: func([]ir.Arg) error { return nil }, Before: []tune.Launch{first, second, third}})
			if err != nil {
				t.Error(err)
			}
			t.Logf("%v: %d products of %.2f µs are equal, %d blocks fit", s, timing.Launches*22, timing.Median, timing.BlocksPerSM)
		})
	}
}
