package template

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// clusterCases calls do for forms and shapes whose k the blocks of a cluster share: by warps along k, one
// by one, with stages, as digits, by warpgroups; k that does not divide, outputs and rows that end in the
// middle, and blocks without a turn. Every part-th form is taken.
func clusterCases(part int, do func(name string, f Form, i int, shape formShape)) {
	plain := []formShape{
		{1, 64, 1024, Schedule{Splits: 2, Parts: 4, Joint: true, PDL: true}},
		{3, 150, 640, Schedule{Splits: 3, Parts: 2, Sides: 2, Depth: 2, Joint: true, AddBias: true, AddResidual: true}},
		{17, 300, 648, Schedule{Splits: 4, Rows: 16, Warps: 2, Sides: 4, Joint: true, PDL: true}},
		{2, 40, 200, Schedule{Splits: 8, Joint: true}},
		{1, 64, 1024, Schedule{Stages: 2, Splits: 2, Joint: true, PDL: true}},
		{3, 300, 640, Schedule{Stages: 3, Splits: 3, Warps: 2, Sides: 2, Depth: 3, Joint: true, AddBias: true, AddResidual: true, PDL: true}},
		{17, 150, 264, Schedule{Stages: 2, Splits: 4, Rows: 16, Warps: 4, Joint: true}}, // four blocks, three turns
	}
	digits := []formShape{
		{1, 512, 1280, Schedule{Stages: 2, Splits: 4, Warps: 2, Digits: true, Joint: true, PDL: true}},
		{1, 512, 2304, Schedule{Stages: 4, Early: 3, Splits: 8, Warps: 2, Digits: true, Long: true, Joint: true, PDL: true}},
		{2, 300, 1288, Schedule{Stages: 4, Splits: 3, Warps: 2, Sides: 2, Digits: true, Long: true, Joint: true, AddBias: true, AddResidual: true}},
	}
	gangs := []formShape{
		{9, 300, 1280, Schedule{Stages: 2, Splits: 2, Warps: 4, Rows: 16, Warpgroups: true, Joint: true, PDL: true}},
		{16, 600, 896, Schedule{Stages: 4, Early: 2, Splits: 4, Warps: 4, Sides: 2, Rows: 16, Warpgroups: true, Joint: true, PDL: true, AddBias: true, AddResidual: true}},
		{16, 600, 640, Schedule{Stages: 4, Splits: 3, Warps: 4, Rows: 16, Warpgroups: true, Fine: true, Joint: true}},
		{16, 600, 1152, Schedule{Stages: 4, Splits: 2, Warps: 4, Sides: 2, Rows: 16, Warpgroups: true, Fine: true, Once: true, Joint: true}},
		{5, 200, 264, Schedule{Stages: 2, Splits: 5, Warps: 4, Rows: 8, Warpgroups: true, Joint: true}}, // five blocks, three turns
		{5, 200, 264, Schedule{Stages: 2, Splits: 4, Warps: 4, Rows: 8, Warpgroups: true, Fine: true, Once: true, Joint: true}},
		{16, 300, 640, Schedule{Stages: 4, Splits: 3, Warps: 4, Rows: 16, Warpgroups: true, Fixed: true, Joint: true}},
	}
	plain = append(plain, gangs...)
	count := 0
	types := []dtype.Type{dtype.U1, dtype.U2, dtype.I2, dtype.U3, dtype.U4, dtype.F6E3M2, dtype.U8}
	for i, w := range types {
		for j, shape := range append(plain[:len(plain):len(plain)], digits...) {
			f := Form{Weight: w, Act: []dtype.Type{dtype.F16, dtype.BF16}[(i+j)%2], Scale: dtype.F16, Group: []int{128, 128, 64, 32}[(i+j)%4]}
			if shape.s.Digits || shape.s.Fine || shape.s.Fixed {
				f.Act, f.Group = dtype.F16, 128
			}
			if shape.s.Parts <= 1 && !shape.s.Digits && (i+j)%5 == 0 {
				f.Group = 0
			}
			p, err := PlanOf(f)
			if err != nil || shape.s.Digits && !p.Bytewise() {
				continue
			}
			s, err := shape.s.fill(p)
			if err != nil || !s.Takes(p, shape.n, shape.k) {
				continue
			}
			if count++; count%part != 0 {
				continue
			}
			do(fmt.Sprintf("%s_%s_%d_%d_%d_%d_%s", w, f.Act, f.Group, shape.m, shape.n, shape.k, s), f, i*16+j, shape)
		}
	}
}

// TestDecodeClusters multiplies with blocks of a cluster that share k, on the interpreter and the simulator.
func TestDecodeClusters(t *testing.T) {
	part, ran := 5, 0
	if *every {
		part = 1
	}
	clusterCases(part, func(name string, f Form, i int, shape formShape) {
		ran++
		t.Run(name, func(t *testing.T) {
			l := randomLayer(f, shape.m, shape.n, shape.k, rand.New(rand.NewPCG(uint64(i), 7)))
			for _, name := range machines(i) {
				l.check(t, machine(t, name), shape.s)
			}
		})
	})
	if ran < 15 {
		t.Errorf("only %d products were tried", ran)
	}
}

// TestGPUClusters is [TestDecodeClusters] on the attached GPU.
func TestGPUClusters(t *testing.T) { onGPU(t, 7, clusterCases, 1) }

// TestClustersLeaveStages holds that clusters of two are no candidates where they leave two stages, if a turn has one scale.
func TestClustersLeaveStages(t *testing.T) {
	some := 0
	for _, f := range []Form{
		{Weight: dtype.I8, Act: dtype.F16, Scale: dtype.F16, Group: 128}, {Weight: dtype.F8E4M3, Act: dtype.F16, Scale: dtype.F16},
		{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 64, Zero: true, Exact: true},
	} {
		p, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range WideCandidates(p, 128, 8192, 8192, false, false, H200()) {
			if s.Joint && s.Stages < 3 {
				t.Errorf("%+v: %s", f, s)
			}
			if s.Splits == 2 && !s.Joint && s.Rows == 128 {
				some++
			}
		}
	}
	if some == 0 {
		t.Error("no candidate of 128 rows shares k by way of the L2 cache")
	}
}
