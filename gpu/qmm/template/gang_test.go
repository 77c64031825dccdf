package template

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// gangCases calls do for types of weights, activations, groups and shapes in turn, with
// products of warpgroups. Every part-th form is taken.
func gangCases(part int, do func(name string, f Form, i int, shape formShape)) {
	gang := func(s Schedule) Schedule {
		s.Warpgroups = true
		return s
	}
	shapes := []formShape{
		{9, 300, 640, gang(Schedule{Stages: 2, Blocks: 3, Rows: 16, PDL: true})},
		{3, 150, 264, gang(Schedule{Stages: 3, Early: 1, Blocks: 2, Sides: 2, AddBias: true, AddResidual: true})},
		{17, 600, 392, gang(Schedule{Stages: 2, Blocks: 5, Rows: 16, Warps: 8})},
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
				p, err := PlanOf(f)
				for k, shape := range shapes {
					one(f, i*6+k, shape)
					if err == nil && p.Bytewise() {
						shape.s.Fixed = true
						one(f, i*6+k, shape)
						shape.s.Fixed = false
					}
					if err == nil && group > 0 && group%Turn == 0 {
						shape.s.Fine, shape.s.Sides = true, max(shape.s.Sides, 2/min(p.Tiles, 2))
						if full, err := shape.s.fill(p); err == nil && full.Takes(p, shape.n, shape.k) {
							one(f, i*6+k, shape)
						}
					}
				}
			}
		}
	}
	one(Form{Weight: dtype.F4E2M1, Act: dtype.F16, Scale: dtype.F8E4M3, Group: 16, Factor: true}, 1, shapes[0])
}

// TestGangs multiplies by matrix instructions of warpgroups, on the interpreter and the
// simulator.
func TestGangs(t *testing.T) {
	check := func(name string, f Form, i int, shape formShape) {
		t.Run(name, func(t *testing.T) {
			l := randomLayer(f, shape.m, shape.n, shape.k, rand.New(rand.NewPCG(uint64(i), 2)))
			for _, name := range machines(i) {
				l.check(t, machine(t, name), shape.s)
			}
		})
	}
	part := 197
	if *every {
		part = 1
	}
	gangCases(part, check)
	if !*every { // few of the forms are multiplied as whole numbers
		for i, w := range []dtype.Type{dtype.U1, dtype.I2, dtype.U2, dtype.U4} {
			f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: w == dtype.U2, AnyZero: w == dtype.U2}
			check("fixed_"+w.String(), f, i, formShape{11, 300, 640, Schedule{Stages: 3, Depth: 2, Blocks: 4, Rows: 16, Warpgroups: true, Fixed: true, PDL: true}})
		}
		for i, f := range []Form{
			{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true},
			{Weight: dtype.U3, Act: dtype.F16, Scale: dtype.BF16, Group: 256},
			{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true},
			{Weight: dtype.F6E3M2, Act: dtype.BF16, Scale: dtype.F16, Group: 128},
			{Weight: dtype.U5, Act: dtype.F16, Scale: dtype.F16, Group: 128, Zero: true, AnyZero: true},
		} {
			check("fine_"+f.Weight.String(), f, i, formShape{11, 300, 648, Schedule{Stages: 3, Blocks: 3, Sides: 1 + i/2%2, Rows: 8 << (i % 2), Warpgroups: true, Fine: true, Once: i%2 == 0, PDL: true}})
		}
	}
}

// TestGPUGangs is TestGangs on the attached GPU, for as many forms as the budget allows.
func TestGPUGangs(t *testing.T) {
	onGPU(t, 2, gangCases, 17, 1)
}

// TestFixed holds products of x as whole numbers to float64, for x of any size: what x loses
// is a part of the largest element of its group, and what is no number stays none.
func TestFixed(t *testing.T) {
	const m, n, k = 5, 64, 256
	r := rand.New(rand.NewPCG(5, 6))
	for _, weight := range []dtype.Type{dtype.I2, dtype.U4} {
		act := dtype.F16
		l := randomLayer(Form{Weight: weight, Act: act, Scale: dtype.F16, Group: 128}, m, n, k, r)
		largest := make([][2]float64, m)
		for i := range m {
			size := math.Ldexp(1, []int{0, 4, -10, -16, 0}[i])
			for j := range k {
				l.x.Set(r.NormFloat64()*size, i, j)
				if i == 4 { // the largest that two digits hold, and just above
					l.x.Set([]float64{1.9921875, -1.9921875, 1.99609375, -1.9990234375}[j/64], i, j)
				}
				largest[i][j/128] = max(largest[i][j/128], math.Abs(l.x.At(i, j)))
			}
		}
		plan, err := PlanOf(l.form)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Schedule{Stages: 2, Blocks: 2, Warpgroups: true, Fixed: true}.fill(plan)
		if err != nil {
			t.Fatal(err)
		}
		run := func(d device.Device, p *ir.Program, err error, args ...ir.Arg) []ir.Arg {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			res, err := d.Run(context.Background(), p, args)
			if err != nil {
				t.Fatal(err)
			}
			return res.Args
		}
		for _, special := range []float64{0, math.Inf(1), math.NaN()} {
			if special != 0 {
				l.x.Set(special, 2, 200)
			}
			var first *array.Array
			for _, name := range []string{"interp", "sim"} {
				d := machine(t, name)
				pack, err := Pack(l.form)
				w := run(d, pack, err, ir.Arg{Array: l.q}, ir.Arg{Array: array.New(dtype.U8, plan.PackedShape(n, k)...)}, ir.Arg{Int: n}, ir.Arg{Int: k})[1]
				part, arrived := s.Workspace(plan, m, n)
				product, err := Decode(l.form, s)
				y := run(d, product, err, w, ir.Arg{Array: ordered(plan, l.s)}, ir.Arg{Array: l.x}, ir.Arg{Array: array.New(act, m, n)},
					ir.Arg{Array: array.New(dtype.F32, part...)}, ir.Arg{Array: array.New(dtype.I32, arrived)}, ir.Arg{Int: m}, ir.Arg{Int: n}, ir.Arg{Int: k})[3].Array
				if first == nil {
					first = y
				} else if c := array.Compare(y, first); c.Differ > 0 {
					t.Errorf("%s: the simulator gives something else: %v", weight, c)
				}
				for i := range m {
					for j := range n {
						want, lost := 0.0, 0.0
						for kk := range k {
							want += l.x.At(i, kk) * l.weight(j, kk)
							lost += largest[i][kk/128] / (1 << 15) * math.Abs(l.weight(j, kk))
						}
						got := y.At(i, j)
						if i == 2 && special != 0 {
							if !math.IsNaN(got) && !math.IsInf(got, 0) {
								t.Errorf("%s: y[%d, %d] is %g with %g in x", weight, i, j, got, special)
							}
						} else if math.Abs(got-want) > math.Abs(want)*math.Ldexp(1, -act.Row().Man-1)*1.01+lost {
							t.Errorf("%s: y[%d, %d] is %g, not %g", weight, i, j, got, want)
						}
					}
				}
			}
		}
	}
}
