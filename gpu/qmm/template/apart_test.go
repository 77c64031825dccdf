package template

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// apartCases calls do for products of a row whose groups are apart: every type of weights that needs no sums of x, in groups
// of 16, 32 and 64 with every type of scales, by warps along k and by blocks that stay. Every part-th is taken.
func apartCases(part int, do func(name string, f Form, i int, shape formShape)) {
	shapes := []formShape{
		{1, 48, 1024, Schedule{Parts: 4, Depth: 2, PDL: true}},
		{2, 40, 640, Schedule{Parts: 4, Depth: 1, Sides: 2, AddBias: true, AddResidual: true}},
		{1, 70, 1408, Schedule{Parts: 2, Splits: 2, Depth: 1, PDL: true}},
		{1, 40, 640, Schedule{Parts: 2, Splits: 2, Depth: 1, Sides: 2, Joint: true}},
		{1, 16, 128, Schedule{Stages: 2, Blocks: 1, PDL: true}},
		{3, 300, 648, Schedule{Stages: 3, Blocks: 2, Warps: 2, Sides: 2, Depth: 3}},
		{1, 150, 264, Schedule{Stages: 3, Blocks: 3, Warps: 4, AddBias: true, AddResidual: true, PDL: true}},
		{1, 260, 768, Schedule{Stages: 4, Splits: 2, Joint: true, Warps: 2}},
	}
	scales := []dtype.Type{dtype.F16, dtype.BF16, dtype.F8E8M0, dtype.F8E4M3}
	count := 0
	for i, w := range weights() {
		for j, group := range []int{16, 32, 64} {
			for k, act := range []dtype.Type{dtype.F16, dtype.BF16} {
				f := Form{Weight: w, Act: act, Scale: scales[(i+j+k)%4], Group: group, Factor: (i+j)%3 == 0}
				f.Zero = w.IsInt() && !w.Signed() && (i+j)%2 == 0
				if p, err := PlanOf(f); err != nil || p.Shifts() {
					continue
				}
				for n, shape := range shapes {
					shape.s.Apart = true
					if count++; count%part == 0 {
						do(fmt.Sprintf("%+v_%d_%d_%d_%+v", f, shape.m, shape.n, shape.k, shape.s), f, i*8+n, shape)
					}
				}
			}
		}
	}
}

// TestApart multiplies with groups apart on the interpreter and the simulator.
func TestApart(t *testing.T) {
	part := 53
	if *every {
		part = 1
	}
	apartCases(part, func(name string, f Form, i int, shape formShape) {
		t.Run(name, func(t *testing.T) {
			l := randomLayer(f, shape.m, shape.n, shape.k, rand.New(rand.NewPCG(uint64(i), 8)))
			for _, name := range machines(i) {
				l.check(t, machine(t, name), shape.s)
			}
		})
	})
}

// TestGPUApart is TestApart on the attached GPU.
func TestGPUApart(t *testing.T) { onGPU(t, 8, apartCases, 7, 1) }

// TestApartRefused holds that other products say what they need.
func TestApartRefused(t *testing.T) {
	f := Form{Weight: dtype.I4, Act: dtype.F16, Scale: dtype.F16, Group: 32}
	for _, c := range []struct {
		name  string
		group int
		zero  bool
		s     Schedule
	}{
		{"rows", 32, false, Schedule{Apart: true, Parts: 4, Rows: 8}},
		{"one_group", 128, false, Schedule{Apart: true, Parts: 4}},
		{"plain", 32, false, Schedule{Apart: true}},
		{"warpgroups", 32, false, Schedule{Apart: true, Stages: 4, Warpgroups: true}},
		{"sums_of_x", 32, true, Schedule{Apart: true, Parts: 4}},
	} {
		g := f
		g.Group = c.group
		if c.zero {
			g.Weight, g.Zero, g.AnyZero = dtype.U4, true, true
		}
		if _, err := Decode(g, c.s); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
}

// TestFolds multiplies with scales folded into operands, on the interpreter and the simulator.
func TestFolds(t *testing.T) {
	nv := Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 16, Factor: true}
	mx := Form{Weight: dtype.F4E2M1, Act: dtype.BF16, Scale: dtype.F8E8M0, Group: 32}
	near := Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 32}
	exact := func(w, act dtype.Type, group int, zero bool) Form {
		return Form{Weight: w, Act: act, Scale: act, Group: group, Zero: zero, Exact: true}
	}
	stay := Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4}
	fine := Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4, Warpgroups: true, Fine: true}
	wideFine := fine
	wideFine.Warps, wideFine.Sides, wideFine.PDL, wideFine.AddBias = 8, 2, true, true
	for i, c := range []struct {
		f     Form
		shape formShape
	}{
		{exact(dtype.I4, dtype.F16, 32, false), formShape{3, 300, 640, Schedule{Stages: 3, Blocks: 2, Warps: 2, Sides: 2, Depth: 3}}},
		{exact(dtype.U4, dtype.F16, 64, true), formShape{3, 300, 640, Schedule{Stages: 3, Blocks: 2, Warps: 2, Sides: 2, Depth: 3}}},
		{exact(dtype.I4, dtype.BF16, 64, false), formShape{3, 300, 640, Schedule{Stages: 3, Blocks: 2, Warps: 2, Sides: 2, Depth: 3}}},
		{exact(dtype.U3, dtype.F16, 16, true), formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4, Warpgroups: true}}},
		{exact(dtype.U4, dtype.BF16, 32, true), formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4, Warpgroups: true}}},
		{exact(dtype.I2, dtype.F16, 64, false), formShape{9, 40, 640, Schedule{Parts: 4, Rows: 16, Sides: 2}}},
		{exact(dtype.U4, dtype.F16, 64, true), formShape{2, 40, 640, Schedule{Parts: 2, Splits: 3}}},
		{exact(dtype.I5, dtype.BF16, 32, false), formShape{9, 40, 600, Schedule{Rows: 16, Warps: 2, Splits: 3}}},
		{exact(dtype.U5, dtype.F16, 32, true), formShape{5, 40, 600, Schedule{Brief: true}}},
		{exact(dtype.F4E2M1, dtype.F16, 64, false), formShape{9, 150, 264, stay}},
		{exact(dtype.F3E1M1, dtype.F16, 32, false), formShape{9, 150, 264, stay}},
		{exact(dtype.F3E1M1, dtype.BF16, 32, false), formShape{9, 150, 264, stay}},
		{exact(dtype.U4, dtype.F16, 32, false), formShape{9, 150, 264, stay}},
		{exact(dtype.I4, dtype.F16, 32, false), formShape{9, 150, 264, fine}},
		{exact(dtype.I3, dtype.F16, 64, false), formShape{16, 150, 520, fine}},
		{exact(dtype.U3, dtype.BF16, 16, true), formShape{9, 290, 264, wideFine}},
		{exact(dtype.U6, dtype.F16, 32, true), formShape{9, 290, 264, wideFine}},
		{nv, formShape{9, 150, 264, fine}},
		{near, formShape{9, 150, 520, fine}},
		{near, formShape{9, 200, 264, wideFine}},
		{mx, formShape{9, 150, 264, fine}},
		{nv, formShape{3, 300, 640, Schedule{Stages: 3, Blocks: 2, Warps: 2, Sides: 2, Depth: 3}}},
		{nv, formShape{17, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4, AddBias: true, AddResidual: true, PDL: true}}},
		{nv, formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4, Warpgroups: true}}},
		{nv, formShape{9, 40, 640, Schedule{Parts: 4, Rows: 16, Sides: 2}}},
		{nv, formShape{9, 40, 600, Schedule{Rows: 16, Warps: 2, Splits: 3}}},
		{mx, formShape{3, 300, 640, Schedule{Stages: 3, Blocks: 2, Warps: 2, Sides: 2, Depth: 3}}},
		{mx, formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4, Warpgroups: true}}},
		{mx, formShape{2, 40, 640, Schedule{Parts: 2, Splits: 3}}},
		{mx, formShape{5, 40, 600, Schedule{Brief: true}}},
		{near, formShape{3, 300, 640, Schedule{Stages: 3, Blocks: 2, Warps: 2, Sides: 2, Depth: 3}}},
		{near, formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4, Warpgroups: true}}},
		{near, formShape{2, 40, 640, Schedule{Parts: 2, Splits: 3}}},
		{Form{Weight: dtype.F8E4M3, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 32}, formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4}}},
		{Form{Weight: dtype.I8, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 64}, formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4}}},
		{Form{Weight: dtype.F6E2M3, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 64}, formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4}}},
		{Form{Weight: dtype.I4, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 32}, formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4}}},
		{Form{Weight: dtype.I2, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 16}, formShape{9, 150, 264, Schedule{Stages: 3, Blocks: 2, Rows: 16, Warps: 4}}},
	} {
		if p, err := PlanOf(c.f); err != nil || !p.Folds {
			t.Errorf("%+v: folds: %v, %v", c.f, p != nil && p.Folds, err)
		}
		t.Run(fmt.Sprintf("%d", i), func(t *testing.T) {
			randomLayer(c.f, c.shape.m, c.shape.n, c.shape.k, rand.New(rand.NewPCG(uint64(i), 9))).checkOnCPU(t, c.shape.s)
		})
	}
}

// TestFoldsTypes multiplies with 16-bit scales folded into operands of every type of weights.
func TestFoldsTypes(t *testing.T) {
	part := 5
	if *every {
		part = 1
	}
	count := map[bool]int{}
	for i, w := range weights() {
		for j, act := range []dtype.Type{dtype.F16, dtype.BF16} {
			f := Form{Weight: w, Act: act, Scale: act, Group: []int{16, 32, 64}[(i+j)%3], Exact: true}
			f.Zero = w.IsInt() && !w.Signed() && (i+j)%2 == 0
			p, err := PlanOf(f)
			if err != nil || !f.Exacts(2) { // scales of one bit are few
				continue
			}
			if count[p.Folds]++; (2*i+j)%part != 0 {
				continue
			}
			s := []Schedule{{Parts: 4, Rows: 16}, {Stages: 3, Blocks: 2, Rows: 16, Warps: 4}, {Stages: 3, Blocks: 2, Rows: 16, Warps: 4, Warpgroups: true, Fine: p.Folds}}[(i+j)%3]
			t.Run(fmt.Sprintf("%+v_%+v", f, s), func(t *testing.T) {
				randomLayer(f, 9, 70, 384, rand.New(rand.NewPCG(uint64(i), 10))).checkOnCPU(t, s)
			})
		}
	}
	if count[true] < 60 || count[false] > 10 {
		t.Errorf("%d forms are folded, %d are not", count[true], count[false])
	}
}

// TestFoldsWide is TestFolds for products of warpgroups with many rows.
func TestFoldsWide(t *testing.T) {
	exact := func(w, act dtype.Type, group int, zero bool) Form {
		return Form{Weight: w, Act: act, Scale: act, Group: group, Zero: zero, Exact: true}
	}
	for i, c := range []struct {
		f       Form
		m, n, k int
		s       WideSchedule
	}{
		{exact(dtype.I4, dtype.F16, 32, false), 40, 150, 392, WideSchedule{Rows: 64}},
		{exact(dtype.U4, dtype.F16, 64, true), 20, 300, 392, WideSchedule{Rows: 32, Sides: 2, Staged: true}},
		{exact(dtype.I4, dtype.BF16, 64, false), 40, 150, 640, WideSchedule{Rows: 32, Splits: 2}},
		{exact(dtype.U3, dtype.BF16, 16, true), 20, 300, 392, WideSchedule{Rows: 32, Blocks: 3}},
		{exact(dtype.U4, dtype.BF16, 32, true), 20, 300, 392, WideSchedule{Rows: 32, Sides: 2, Fine: true}},
		{exact(dtype.I3, dtype.F16, 64, false), 20, 300, 392, WideSchedule{Rows: 32, Fine: true, Blocks: 3, AddBias: true}},
		{exact(dtype.I4, dtype.F16, 32, false), 20, 150, 264, WideSchedule{Rows: 32, Persistent: true}},
		{exact(dtype.I3, dtype.F16, 16, false), 20, 150, 264, WideSchedule{Rows: 32, Parts: 2}},
		// Those that hang over from turn to turn, with several tiles to a block, a few turns, or one.
		{exact(dtype.I4, dtype.F16, 32, false), 40, 520, 392, WideSchedule{Rows: 32, Sides: 2, Blocks: 3}},
		{exact(dtype.U4, dtype.BF16, 64, true), 70, 300, 520, WideSchedule{Rows: 64, Blocks: 4, Staged: true}},
		{exact(dtype.I4, dtype.BF16, 64, false), 40, 520, 264, WideSchedule{Rows: 32, Sides: 2, Persistent: true}},
		{exact(dtype.U4, dtype.F16, 32, true), 70, 150, 640, WideSchedule{Rows: 64, Splits: 2, Joint: true}},
		{exact(dtype.I4, dtype.F16, 16, false), 70, 150, 100, WideSchedule{Rows: 64}},
		{Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 32}, 40, 520, 392, WideSchedule{Rows: 32, Sides: 2, Blocks: 3}},
		{Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 16, Factor: true}, 70, 150, 520, WideSchedule{Rows: 64, Splits: 2}},
		{Form{Weight: dtype.F5E2M2, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 32}, 20, 150, 264, WideSchedule{Rows: 16, Consumers: 1, Parts: 4}},
		{Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 32}, 20, 300, 392, WideSchedule{Rows: 32, Sides: 2, Fine: true}},
		{Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 16, Factor: true}, 20, 300, 392, WideSchedule{Rows: 32, Sides: 2, Fine: true, Splits: 2}},
	} {
		if p, err := PlanOf(c.f); err != nil || !p.Folds {
			t.Errorf("%+v: folds: %v, %v", c.f, p != nil && p.Folds, err)
		}
		if testing.Short() && i%3 != 0 {
			continue
		}
		t.Run(fmt.Sprintf("%d", i), func(t *testing.T) {
			l := randomLayer(c.f, c.m, c.n, c.k, rand.New(rand.NewPCG(uint64(i), 9)))
			for _, name := range machines(i) {
				l.checkWide(t, machine(t, name), c.s)
			}
		})
	}
}
