package template

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// streamCases calls do for types of weights, activations, groups and shapes in turn, with
// blocks that stay: outputs of one block, of several, and turns that end in the middle.
// Every part-th form is taken.
func streamCases(part int, do func(name string, f Form, i int, shape formShape)) {
	shapes := []formShape{
		{1, 16, 128, Schedule{Stages: 2, Blocks: 1, PDL: true}},
		{3, 300, 640, Schedule{Stages: 3, Blocks: 2, Warps: 2, Sides: 2, Depth: 3}},
		{17, 150, 264, Schedule{Stages: 3, Early: 2, Blocks: 2, Rows: 16, Warps: 4, AddBias: true, AddResidual: true, PDL: true}},
		{2, 40, 768, Schedule{Stages: 4, Early: 1, Blocks: 7, Sides: 4, Depth: 2}},
		{1, 192, 256, Schedule{Stages: 4, Blocks: 2, Warps: 3}},
	}
	digits := []formShape{
		{1, 128, 128, Schedule{Stages: 2, Blocks: 1, Digits: true}},
		{2, 300, 640, Schedule{Stages: 2, Blocks: 5, Warps: 2, Digits: true, PDL: true, AddBias: true, AddResidual: true}},
		{1, 512, 264, Schedule{Stages: 3, Early: 2, Blocks: 3, Warps: 2, Sides: 4, Depth: 2, Digits: true}},
	}
	count := 0
	one := func(f Form, i int, shape formShape) {
		if count++; count%part == 0 {
			do(fmt.Sprintf("%+v_%d_%d_%d_%+v", f, shape.m, shape.n, shape.k, shape.s), f, i, shape)
		}
	}
	for i, w := range weights() {
		for j, group := range []int{128, 64, 32, 0, 256} {
			for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
				f := Form{Weight: w, Act: act, Scale: []dtype.Type{dtype.F16, dtype.BF16, dtype.F8E8M0}[(i+j)%3], Group: group}
				f.Zero = w.IsInt() && !w.Signed() && (i+j)%2 == 0
				f.AnyZero = f.Zero && (i+j)%4 == 0
				for k, shape := range shapes {
					one(f, i*6+k, shape)
				}
				if p, err := PlanOf(f); err == nil && p.Bytewise() {
					for k, shape := range digits {
						one(f, i*6+k, shape)
					}
				}
			}
		}
	}
	for k, shape := range shapes {
		one(Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 16, Factor: true}, k, shape)
		one(Form{Weight: dtype.U5, Act: dtype.F16, Scale: dtype.F16, Group: 16, Zero: true}, k, shape)
	}
}

// TestDecodeStreams multiplies with blocks that stay, on the interpreter and the
// simulator.
func TestDecodeStreams(t *testing.T) {
	part := 61
	if *every {
		part = 1
	}
	check := func(name string, f Form, i int, shape formShape) {
		t.Run(name, func(t *testing.T) {
			l := randomLayer(f, shape.m, shape.n, shape.k, rand.New(rand.NewPCG(uint64(i), 2)))
			for _, name := range machines(i) {
				l.check(t, machine(t, name), shape.s)
			}
		})
	}
	streamCases(part, check)
	if !*every { // few of the forms are bytewise, and few blocks wait for several others
		f := Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}
		check("shared", f, 1, formShape{3, 300, 640, Schedule{Stages: 2, Blocks: 3, Warps: 2, Depth: 2, PDL: true}})
		for early := 1; early < 5; early++ { // more turns than stages, and shares of fewer turns than that
			check(fmt.Sprintf("early_%d", early), f, 1, formShape{3, 300, 640, Schedule{Stages: 5, Early: early, Blocks: 3, Warps: 2, PDL: true}})
			check(fmt.Sprintf("few_early_%d", early), f, 1, formShape{3, 300, 640, Schedule{Stages: 5, Early: early, Blocks: 8, Warps: 4, PDL: true}})
		}
		for i, group := range []int{128, 32, 0} {
			f := Form{Weight: []dtype.Type{dtype.U4, dtype.U7, dtype.U5}[i], Act: dtype.F16, Scale: dtype.F16, Group: group, Zero: true}
			check(fmt.Sprintf("zeros_%d", group), f, i, formShape{3, 300, 640, Schedule{Stages: 2, Blocks: 3, Warps: 2, Depth: 2, Sides: 1 + i%2, PDL: true}})
			f.AnyZero = true
			check(fmt.Sprintf("any_%d", group), f, i, formShape{3, 300, 640, Schedule{Stages: 2, Blocks: 3, Warps: 2, Depth: 2, Sides: 1 + i%2, PDL: true}})
		}
		check("few", f, 2, formShape{1, 130, 256, Schedule{Stages: 2, Blocks: 40, PDL: true}}) // blocks without turns
		for i, w := range []dtype.Type{dtype.U1, dtype.I2} {                                   // more turns of a block than stages, and sums that are put
			f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
			check("digits_early_"+w.String(), f, i, formShape{1, 300, 1408, Schedule{Stages: 6, Early: 2 + i, Blocks: 3, Warps: 2, Digits: true, Long: true, Direct: true, PDL: true}})
		}
		for i, w := range []dtype.Type{dtype.U1, dtype.I2, dtype.U2, dtype.U4} {
			f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: w == dtype.U2, AnyZero: w == dtype.U2}
			check("digits_"+w.String(), f, i, formShape{2, 300, 640, Schedule{Stages: 2, Depth: 2, Blocks: 4, Warps: 2, Digits: true, PDL: true, AddBias: true, AddResidual: true}})
		}
	}
}

// TestEarly holds of how many turns programs ask for weights in front of the wait for the launch before, and that the others follow.
func TestEarly(t *testing.T) {
	for _, s := range []Schedule{{}, {Rows: 16, Warps: 4, Warpgroups: true}, {Digits: true, Long: true}, {Splits: 2, Joint: true}} {
		for _, early := range []int{0, 1, 2, 5} {
			s.Stages, s.Early, s.PDL = 6, early, true
			p, err := Decode(Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 128}, s)
			if err != nil {
				t.Fatal(err)
			}
			before, behind, ok := strings.Cut(text.Format(p), "GridDependencyWait()")
			turns := cmp.Or(early, s.Stages)
			if first, rest := fmt.Sprintf("ahead = min(mine, %d)\n", turns), fmt.Sprintf("if t >= %d {", turns); !ok || !strings.Contains(before, first) || !strings.Contains(behind, rest) {
				t.Errorf("%s: no %q in front of the wait, or no %q behind it", s, first, rest)
			}
		}
	}
}

// TestStreamBanks holds that no two threads that load x, weights or scales together want the same bank.
func TestStreamBanks(t *testing.T) {
	plain := Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}
	folded := Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 16, Factor: true}
	for _, c := range []struct {
		f Form
		s Schedule
	}{
		{plain, Schedule{Rows: 8}}, {plain, Schedule{Rows: 16}}, {folded, Schedule{Rows: 8}}, {folded, Schedule{Rows: 16}},
	} {
		c.s.Stages, c.s.Blocks, c.s.Warps = 3, 1, 8
		l := randomLayer(c.f, c.s.Rows, 128, 512, rand.New(rand.NewPCG(3, 4)))
		l.check(t, machine(t, "sim"), c.s)
		if n := l.counters; n["shared_bank_conflicts"] != 0 || n["shared_wavefronts"] == 0 {
			t.Errorf("%s, %s: %d wavefronts, %d more than without conflicts", c.f.Weight, c.s, n["shared_wavefronts"], n["shared_bank_conflicts"])
		}
	}
}

// TestGPUStreams is TestDecodeStreams on the attached GPU, for as many forms as the
// budget allows; a part of them at first, then all.
func TestGPUStreams(t *testing.T) {
	onGPU(t, 2, streamCases, 17, 1)
}

// TestDigits holds products of digits to float64, for x of any exponents: sums are exact
// up to those of f32 over groups, however small some elements are beside others.
func TestDigits(t *testing.T) {
	const n, k = 128, 384
	r := rand.New(rand.NewPCG(5, 6))
	for _, weight := range []dtype.Type{dtype.U1, dtype.I2, dtype.U4} {
		l := randomLayer(Form{Weight: weight, Act: dtype.F16, Scale: dtype.F16, Group: 128}, 1, n, k, r)
		for i := range k {
			for {
				if c := uint64(r.IntN(1 << 16)); c>>10&31 < 31 {
					l.x.SetCode(i, c)
					break
				}
			}
		}
		l.x.SetCode(3, 0x7bff) // the largest
		l.x.SetCode(9, 0x0001) // the least
		plan, err := PlanOf(l.form)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Schedule{Stages: 2, Blocks: 2, Digits: true}.fill(plan)
		if err != nil {
			t.Fatal(err)
		}
		pack, err := Pack(l.form)
		if err != nil {
			t.Fatal(err)
		}
		product, err := Decode(l.form, s)
		if err != nil {
			t.Fatal(err)
		}
		var first *array.Array
		for _, name := range []string{"interp", "sim"} {
			d, err := device.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			packed, err := d.Run(context.Background(), pack, []ir.Arg{{Array: l.q}, {Array: array.New(dtype.U8, plan.PackedShape(n, k)...)}, {Int: n}, {Int: k}})
			if err != nil {
				t.Fatal(err)
			}
			part, arrived := s.Workspace(plan, 1, n)
			res, err := d.Run(context.Background(), product, []ir.Arg{packed.Args[1], {Array: ordered(plan, l.s)}, {Array: l.x}, {Array: array.New(dtype.F16, 1, n)},
				{Array: array.New(dtype.F32, part...)}, {Array: array.New(dtype.I32, arrived)}, {Int: 1}, {Int: n}, {Int: k}})
			if err != nil {
				t.Fatal(err)
			}
			d.Close()
			y := res.Args[3].Array
			if first == nil {
				first = y
			} else if c := array.Compare(y, first); c.Differ > 0 {
				t.Errorf("%s: the simulator gives something else: %v", weight, c)
			}
			for j := range n {
				want, size := 0.0, 0.0
				for i := range k {
					v := l.x.At(0, i) * l.weight(j, i)
					want, size = want+v, size+math.Abs(v)
				}
				if got := y.At(0, j); math.Abs(want) < 65504 && math.Abs(got-want) > math.Abs(want)/2000+size*1e-6 {
					t.Errorf("%s: y[%d] is %g, not %g", weight, j, got, want)
				}
			}
		}
	}
}
