package template

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// ringCases are products whose warps share k and have their turns from stages: all kinds of groups, zero points and scales, ragged outputs, more
// rows than one, fewer turns than warps, and turns that are no multiple of what stages hold.
func ringCases(do func(name string, f Form, i int, shape formShape)) {
	of := func(w, act dtype.Type, group int) Form {
		return Form{Weight: w, Act: act, Scale: dtype.F16, Group: group}
	}
	zeros := func(f Form, any bool) Form {
		f.Zero, f.AnyZero = true, any
		return f
	}
	scaled := func(f Form, scale dtype.Type) Form {
		f.Scale = scale
		return f
	}
	for i, c := range []struct {
		f     Form
		shape formShape
	}{
		{of(dtype.U4, dtype.F16, 128), formShape{1, 48, 1024, Schedule{Parts: 4, Depth: 2, Stages: 2, PDL: true}}},
		{of(dtype.U2, dtype.F16, 128), formShape{1, 70, 2176, Schedule{Parts: 4, Stages: 3, Early: 2, Sides: 2, Resident: 1, PDL: true}}},
		{of(dtype.U1, dtype.F16, 128), formShape{2, 150, 640, Schedule{Parts: 2, Stages: 4, Depth: 1}}},
		{of(dtype.I2, dtype.BF16, 128), formShape{1, 40, 896, Schedule{Parts: 8, Stages: 2, Depth: 1, Sides: 4, AddBias: true}}},
		{zeros(of(dtype.U3, dtype.F16, 128), false), formShape{3, 70, 1408, Schedule{Parts: 2, Depth: 2, Splits: 2, Direct: true, Early: 1, Stages: 3, PDL: true}}},
		{zeros(of(dtype.U4, dtype.BF16, 64), false), formShape{1, 40, 640, Schedule{Parts: 4, Splits: 2, Stages: 2, Depth: 1, Direct: true, AddBias: true, AddResidual: true}}},
		{zeros(of(dtype.U4, dtype.F16, 128), true), formShape{1, 42, 640, Schedule{Parts: 4, Depth: 2, Stages: 4, Sides: 2, PDL: true}}},
		{zeros(of(dtype.U2, dtype.F16, 32), true), formShape{1, 70, 896, Schedule{Parts: 8, Splits: 3, Stages: 2, Depth: 1, Direct: true}}},
		{of(dtype.I3, dtype.F16, 32), formShape{1, 70, 640, Schedule{Parts: 2, Splits: 3, Stages: 2, Depth: 1}}},
		{of(dtype.U6, dtype.BF16, 128), formShape{2, 70, 1408, Schedule{Parts: 4, Splits: 2, Joint: true, Stages: 2, Depth: 1, PDL: true, AddBias: true}}},
		{of(dtype.F6E3M2, dtype.F16, 128), formShape{1, 16, 512, Schedule{Parts: 8, Depth: 1, Stages: 4}}},
		{of(dtype.U5, dtype.F16, 16), formShape{1, 64, 384, Schedule{Parts: 4, Stages: 2, Depth: 1}}},
		{of(dtype.I8, dtype.F16, 128), formShape{1, 40, 128, Schedule{Parts: 16, Stages: 2, Depth: 2, Sides: 2}}},
		{scaled(of(dtype.F4E2M1, dtype.BF16, 32), dtype.F8E8M0), formShape{1, 40, 640, Schedule{Parts: 4, Stages: 2, Depth: 1, Sides: 2}}},
		{scaled(of(dtype.F4E2M1, dtype.F16, 16), dtype.F8E4M3), formShape{1, 40, 640, Schedule{Parts: 4, Stages: 2, Depth: 1, Splits: 2, Direct: true}}},
		{scaled(of(dtype.F8E4M3, dtype.BF16, 32), dtype.F8E8M0), formShape{2, 40, 640, Schedule{Parts: 8, Stages: 2, Depth: 1}}},
	} {
		do(fmt.Sprintf("%s_%d", c.f.Weight, i), c.f, i, c.shape)
	}
}

// TestRing holds products whose warps along k have their turns from stages, on interpreter and simulator, to exact sums.
func TestRing(t *testing.T) {
	ringCases(func(name string, f Form, i int, shape formShape) {
		t.Run(name, func(t *testing.T) {
			l := randomLayer(f, shape.m, shape.n, shape.k, rand.New(rand.NewPCG(uint64(i), 5)))
			l.checkOnCPU(t, shape.s)
		})
	})
}

// TestGPURing has a GPU come to the same sums.
func TestGPURing(t *testing.T) {
	onGPU(t, 5, func(_ int, check func(name string, f Form, i int, shape formShape)) { ringCases(check) }, 0)
}

// TestRingSays has schedules that are none say why.
func TestRingSays(t *testing.T) {
	u4 := Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}
	u1 := Form{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128}
	e8 := Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 128}
	for _, c := range []struct {
		f    Form
		s    Schedule
		says string
	}{
		{u4, Schedule{Parts: 4, Stages: 2, Rows: 8}, "one row of x"},
		{u4, Schedule{Parts: 4, Stages: 2, Blocks: 132}, "no block stays"},
		{u4, Schedule{Parts: 4, Stages: 1, Depth: 1}, "there are 2 to 32"},
		{u4, Schedule{Parts: 4, Stages: 2, Depth: 3}, "as many as turns are multiplied together"},
		{u4, Schedule{Parts: 4, Stages: 2, Depth: 1, Early: 2}, "fewer than there are stages"},
		{u4, Schedule{Parts: 16, Stages: 32, Depth: 1, Sides: 4}, "do not fit shared memory"},
		{e8, Schedule{Parts: 4, Stages: 2, Depth: 1}, "64 and 0 bytes of scales"},
		{u1, Schedule{Parts: 2, Stages: 2, Depth: 1, Sides: 4}, "of 256 outputs at most"},
	} {
		if _, err := Decode(c.f, c.s); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, has no %q", c.s, err, c.says)
		}
	}
}

// TestRingEarly has programs ask for the weights of as many stages as Early says before they wait for the launch in front, and for x of these
// behind.
func TestRingEarly(t *testing.T) {
	f := Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}
	for early, want := range map[int]string{0: "early = min(steps, 4)", 3: "early = min(steps, 3)"} {
		p, err := Decode(f, Schedule{Parts: 4, Stages: 4, Depth: 1, Early: early, PDL: true})
		if err != nil {
			t.Fatal(err)
		}
		before, behind, ok := strings.Cut(text.Format(p), "GridDependencyWait()")
		if !ok || !strings.Contains(before, want) || strings.Count(before, "for t in 0..early") != 1 || strings.Count(behind, "for t in 0..early") != 1 || !strings.Contains(behind, "for t in early..steps") ||
			!strings.Contains(before, "CopyAsyncTensorGlobalToShared(gw") || strings.Contains(before, "CopyAsyncTensorGlobalToShared(gx") {
			t.Errorf("%d early: has no %q in front of its wait, or other copies:\n%s", early, want, before)
		}
	}
}

// TestRingResidents has ptxas told of as many blocks as a launch has on a multiprocessor where they fit, and of one else.
func TestRingResidents(t *testing.T) {
	p, err := PlanOf(Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128})
	if err != nil {
		t.Fatal(err)
	}
	s := Schedule{Rows: 1, Depth: 1, Warps: 1, Sides: 1, Splits: 1, Parts: 8, Stages: 4, PDL: true}
	for n, want := range map[int]int{2048: 1, 4096: 2, 8192: 4, 57344: 1} {
		if got := p.ringResidents(s, 1, n, H200()); got != want {
			t.Errorf("%d outputs: %d blocks, not %d", n, got, want)
		}
	}
}
