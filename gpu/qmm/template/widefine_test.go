package template

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// fineCases are wide products made tile by tile: with one tile and more, several parts, casts
// of 128 k and of less, and each way to share k out.
var fineCases = []wideCase{
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 33, 260, 384, WideSchedule{Rows: 64, Sides: 2, Splits: 2}},
	{Form{Weight: dtype.U3, Act: dtype.F16, Scale: dtype.F16, Group: 256, Zero: true}, 10, 258, 520, WideSchedule{Rows: 16, Consumers: 1, Persistent: true}},
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true}, 33, 260, 384, WideSchedule{Rows: 64, Sides: 2, Splits: 2}},
	{Form{Weight: dtype.I3, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 20, 300, 400, WideSchedule{Rows: 16, Parts: 2, Splits: 2, AddBias: true}},
	{Form{Weight: dtype.U5, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true, AnyZero: true}, 20, 300, 400, WideSchedule{Rows: 16, Parts: 2, Splits: 2, AddBias: true}},
	{Form{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 17, 1100, 256, WideSchedule{Rows: 16, Parts: 4, AddResidual: true}},
	{Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 128}, 20, 400, 640, WideSchedule{Rows: 32, Consumers: 1, Blocks: 5}},
	{Form{Weight: dtype.F7E3M3, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 40, 300, 256, WideSchedule{Rows: 32, Cluster: 2}},
	{Form{Weight: dtype.F6E3M2, Act: dtype.BF16, Scale: dtype.F16, Group: 128}, 9, 140, 128, WideSchedule{Rows: 8, Consumers: 1, Sides: 2}},
	{Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 9, 140, 100, WideSchedule{Rows: 8, Consumers: 1, Sides: 2, Splits: 2}}, // the second has no turn
}

// TestFine multiplies tile by tile on the interpreter and the simulator.
func TestFine(t *testing.T) {
	cases := slices.Clone(fineCases)
	for i := range cases {
		cases[i].s.Fine = true
		once := cases[i]
		once.s.Once = true
		cases = append(cases, once)
	}
	checkWideCases(t, cases, 3)
	for _, s := range []WideSchedule{{Fine: true}, {Fine: true, Sides: 2, Rows: 32}} {
		group := 64
		if s.Sides < 2 {
			group = 128
		}
		p, err := PlanOf(Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: group})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Filled(p); err == nil || !strings.Contains(err.Error(), "by tiles") {
			t.Errorf("groups of %d, %v: %v", group, s, err)
		}
	}
}

// TestFineAssembles has ptxas assemble products tile by tile for few and for many rows: nothing
// of a thread goes to memory, and products go on beside its threads.
func TestFineAssembles(t *testing.T) {
	check := func(name string, program *ir.Program, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		made, err := assembled(t, program)
		if err != nil || made.Spills() > 0 || strings.Contains(made.Said, "serialized") {
			t.Errorf("%s: %v\n%s", name, err, made.Said)
		}
	}
	types := []dtype.Type{dtype.U4, dtype.U1}
	if *every {
		types = weights()
	} else if testing.Short() {
		types = types[:1]
	}
	for _, w := range types {
		f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
		p, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		s := Schedule{Rows: 16, Warps: 16, Sides: max(1, 2/p.Tiles), Stages: 2, Blocks: 132, PDL: true, Warpgroups: true, Fine: true}
		if p.gangNeeds(s) > s.gangRegisters() {
			s.Warps = 8
		}
		for _, s.Once = range []bool{false, true} {
			program, err := Decode(f, s)
			check(fmt.Sprintf("%s %s", w, s), program, err)
		}
		rows := 64
		if p.Shifts() {
			rows = 32
		}
		many := WideSchedule{Rows: rows, Parts: max(1, p.Tiles/2), Sides: max(1, 2/p.Tiles), Stages: 2, Splits: 2, Fine: true}
		if many.Parts == 1 && p.Tiles > 1 {
			many.Rows = min(rows, p.Most(many))
		}
		for _, many.Once = range []bool{false, true} {
			program, err := Wide(f, many)
			check(fmt.Sprintf("%s %s", w, many), program, err)
		}
	}
}

// TestFineFoldsAssembles has ptxas assemble what products with folded scales take tile by tile: where operands leave too few
// registers, no schedule is by tiles.
func TestFineFoldsAssembles(t *testing.T) {
	types := []dtype.Type{dtype.I4, dtype.F6E3M2}
	if *every {
		types = slices.DeleteFunc(weights(), func(w dtype.Type) bool { return w.Bits() < 3 })
	} else if testing.Short() {
		types = types[:1]
	}
	for _, w := range types {
		for _, f := range []Form{{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 32, Exact: true}, {Weight: w, Act: dtype.BF16, Scale: dtype.F8E8M0, Group: 32}, {Weight: w, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 16, Factor: true}} {
			p, err := PlanOf(f)
			if err != nil {
				t.Fatal(err)
			}
			if !p.Folds {
				continue
			}
			done := map[WideSchedule]bool{}
			for _, m := range []int{16, 64, 256} {
				for _, s := range WideCandidates(p, m, 8192, 8192, false, false, H200()) {
					if s.Splits, s.Joint, s.Once = 1, false, false; !s.Fine || done[s] || m < 256 && s.Rows < 64 && !*every {
						continue
					}
					done[s] = true
					program, err := Wide(f, s)
					if err != nil {
						t.Fatal(err)
					}
					made, err := assembled(t, program)
					if err != nil || made.Spills() > 0 || strings.Contains(made.Said, "serialized") {
						t.Errorf("%s, scales of %s, %s: %v\n%s", w, f.Scale, s, err, made.Said)
					}
				}
			}
			t.Logf("%s, scales of %s: %d schedules by tiles", w, f.Scale, len(done))
			if len(done) == 0 {
				t.Errorf("%s, scales of %s: none by tiles", w, f.Scale)
			}
		}
	}
}
