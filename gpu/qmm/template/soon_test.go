package template

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// soonForms calls do for every type of weights with both types of activations, the first of its
// groups, types of scales and zero points, or each of them.
func soonForms(all bool, do func(name string, f Form, i int)) {
	count := 0
	for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
		for i, w := range weights() {
			for j, group := range []int{128, 64, 32, 0, 256, 16} {
				for zero := range 3 { // none, whole ones, any
					if zero > 0 && (!w.IsInt() || w.Signed()) || !all && j != i%6 {
						continue
					}
					f := Form{Weight: w, Act: act, Scale: []dtype.Type{dtype.F16, dtype.BF16, dtype.F8E8M0, dtype.F8E4M3}[(i+j)%4], Group: group, Zero: zero > 0, AnyZero: zero > 1, Factor: i%7 == 0}
					do(fmt.Sprintf("%+v", f), f, count)
					count++
				}
			}
		}
	}
}

// soonShapes have every number of blocks of rows, one that is full, and K that ends within a cast.
var soonShapes = []formShape{{m: 1, n: 21, k: 333}, {m: 3, n: 40, k: 200}, {m: 16, n: 150, k: 256}, {m: 17, n: 5, k: 392}, {m: 40, n: 33, k: 264}}

// TestSoon holds products by the schedule for all sizes to exact sums: on the interpreter, and some
// on the simulator.
func TestSoon(t *testing.T) {
	interp, sim := machine(t, "interp"), machine(t, "sim")
	soonForms(false, func(name string, f Form, i int) {
		if testing.Short() && i%5 != 0 {
			return
		}
		shape := soonShapes[i%len(soonShapes)]
		t.Run(fmt.Sprintf("%s_%d", name, shape.m), func(t *testing.T) {
			p, err := PlanOf(f)
			if err != nil {
				t.Fatal(err)
			}
			s := p.Soon()
			s.AddBias, s.AddResidual = i%2 == 0, i%3 == 0
			l := randomLayer(f, shape.m, shape.n, shape.k, rand.New(rand.NewPCG(uint64(i), 11)))
			for _, d := range []device.Device{interp, sim} {
				if d == interp || i%4 == 0 {
					l.check(t, d, s)
				}
			}
		})
	})
}

// TestBriefRefused has what brief programs lack be told.
func TestBriefRefused(t *testing.T) {
	f := Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}
	for want, s := range map[string]Schedule{
		"2 stages":       {Brief: true, Stages: 2, Blocks: 2, Rows: 8},
		"4 warps along":  {Brief: true, Parts: 4},
		"and 2 splits: ": {Brief: true, Splits: 2},
	} {
		if _, err := Decode(f, s); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "or Brief") {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// Instructions of PTX that programs of [Plan.Soon] have at most, those of groups of 16 too:
// ptxas takes 0.5 to 0.7 million of its own for each.
const (
	soonText   = 1200
	soonText16 = 1550
)

// TestSoonIsBrief holds programs of all forms to so many instructions that ptxas is soon done, and
// to registers alone: those that it assembles here, the longest one and some others.
func TestSoonIsBrief(t *testing.T) {
	type program struct{ name, ptx string }
	var some []program
	var longest program
	most := 0
	soonForms(true, func(name string, f Form, i int) {
		p, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Soon()
		s.AddBias, s.AddResidual = true, true
		for _, m := range []int{1, 16, 64, 300} {
			if !s.Fits(p, m, 8192, 8192, H200()) {
				t.Errorf("%s: %s does not fit %d rows", name, s, m)
			}
		}
		d, err := Decode(f, s)
		if err != nil {
			t.Fatal(err)
		}
		c, err := compile.Program(d, compile.Options{Arch: "sm_90a", Divisible: map[string]int64{"N": 128, "K": 128}})
		if err != nil {
			t.Fatal(err)
		}
		ptx, err := c.PTX()
		if err != nil {
			t.Fatal(err)
		}
		limit, n := soonText, strings.Count(ptx, ";\n")
		if f.Group == 16 {
			limit = soonText16
		}
		if n > limit {
			t.Errorf("%s: %d instructions, at most %d", name, n, limit)
		}
		if n > most {
			most, longest = n, program{name, ptx}
		}
		if i%60 == 0 {
			some = append(some, program{name, ptx})
		}
	})
	t.Logf("at most %d instructions: %s", most, longest.name)
	for _, p := range append(some, longest) {
		if made, err := need.Assemble(t, "sm_90a", p.ptx); err != nil || made.Spills() > 0 {
			t.Errorf("%s: %d bytes in memory %v", p.name, made.Spills(), err)
		}
	}
}
