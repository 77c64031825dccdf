package template

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

var every = flag.Bool("every", false, "try every form on every shape, which takes minutes")

// weights are the types that a form may have.
func weights() []dtype.Type {
	var out []dtype.Type
	for _, t := range dtype.All() {
		if (Form{Weight: t, Act: dtype.F16, Scale: dtype.F16}).check() == nil {
			out = append(out, t)
		}
	}
	return out
}

// layer is a random layer in the tensors of a form, and what its product is. Codes
// are small enough for sums of plain numbers that no order rounds in f32.
type layer struct {
	form       Form
	factor     float64
	q, s, z, x *array.Array // s and z are [groups, N], in plain order
	m, n, k    int
	counters   map[string]int64 // of the last program that check ran, on the simulator
}

func randomLayer(f Form, m, n, k int, r *rand.Rand) *layer {
	p, _ := PlanOf(f)
	l := &layer{form: f, factor: 1, m: m, n: n, k: k, q: array.New(f.Weight, n, k), x: array.New(f.Act, m, k)}
	if f.Factor {
		l.factor = 0.5
	}
	groups := p.Groups(k)
	l.s = array.New(f.Scale, groups, n)
	if f.Zero {
		l.z = array.New(p.ZeroType(), groups, n)
	}
	var codes []uint64
	for c := range uint64(1) << f.Weight.Bits() {
		v := f.Weight.Decode(c)
		// With these, products and their sums keep within 24 bits. -0 does not come back.
		if v == 0 && c > 0 || v-v != 0 || v > 16 && f.Weight.IsFloat() || v < -16 && f.Weight.IsFloat() || v != 0 && f.Weight.IsFloat() && v*1024 != float64(int(v*1024)) {
			continue
		}
		codes = append(codes, c)
	}
	for i := range n * k {
		l.q.SetCode(i, codes[r.IntN(len(codes))])
	}
	for i := range m * k {
		// Few of them differ from 0, which keeps sums short.
		if r.IntN(8) == 0 || k < 64 {
			l.x.SetCode(i, f.Act.Encode(float64(1-2*r.IntN(2)), false))
		}
	}
	scales := []float64{0.5, 1, 2}
	if p.Near {
		scales = []float64{0.25, 0.5, 1}
	}
	for i := range groups * n {
		l.s.SetCode(i, f.Scale.Encode(scales[r.IntN(3)], false))
		if f.Zero {
			z := float64(r.IntN(1 << f.Weight.Bits()))
			if f.AnyZero {
				if z += 0.5 * float64(i%2); i%7 == 3 {
					z = []float64{-3.25, -600, 1500}[r.IntN(3)]
				}
			}
			l.z.SetCode(i, l.z.Type.Encode(z, false))
		}
	}
	return l
}

func (l *layer) group(k int) int {
	if l.form.Group == 0 {
		return 0
	}
	return k / l.form.Group
}

// weight is an element of the plain weights.
func (l *layer) weight(j, k int) float64 {
	v := l.q.At(j, k)
	if l.z != nil {
		v -= l.z.At(l.group(k), j)
	}
	return v * l.s.At(l.group(k), j) * l.factor
}

// plain are the weights, rounded once.
func (l *layer) plain() *array.Array {
	w := array.New(l.form.Act, l.n, l.k)
	for j := range l.n {
		for k := range l.k {
			w.Set(l.weight(j, k), j, k)
		}
	}
	return w
}

// want is the product in float64, rounded once.
func (l *layer) want(bias, residual *array.Array) *array.Array {
	y, x, w := array.New(l.form.Act, l.m, l.n), l.x.Floats(), make([]float64, l.k)
	for j := range l.n {
		for k := range w {
			w[k] = l.weight(j, k)
		}
		for i := range l.m {
			sum := 0.0
			for k, w := range w {
				sum += x[i*l.k+k] * w
			}
			if residual != nil {
				sum += residual.At(i, j)
			}
			if bias != nil {
				sum += bias.At(j)
			}
			y.Set(sum, i, j)
		}
	}
	return y
}

// ordered brings scales into the order of the plan, padded.
func ordered(p *Plan, a *array.Array) *array.Array {
	n := a.Shape[1]
	out := array.New(a.Type, a.Shape[0], p.Padded(n))
	for g := range a.Shape[0] {
		for j := range n {
			out.SetCode(g*out.Shape[1]+p.ScaleIndex(j), a.Code(g*n+j))
		}
	}
	return out
}

// checkOnCPU is check on the interpreter and the simulator.
func (l *layer) checkOnCPU(t *testing.T, s Schedule) {
	t.Helper()
	for _, name := range []string{"interp", "sim"} {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		l.check(t, d, s)
		d.Close()
	}
}

// check packs, multiplies and unpacks on a device.
func (l *layer) check(t *testing.T, d device.Device, s Schedule) {
	t.Helper()
	run := func(p *ir.Program, err error, args ...any) []ir.Arg {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		in := make([]ir.Arg, len(args))
		for i, a := range args {
			switch a := a.(type) {
			case *array.Array:
				in[i].Array = a
			case int:
				in[i].Int = int64(a)
			case float64:
				in[i].Float = a
			}
		}
		res, err := d.Run(context.Background(), p, in)
		if err != nil {
			t.Fatal(err)
		}
		l.counters = res.Counters
		return res.Args
	}
	plan, err := PlanOf(l.form)
	if err != nil {
		t.Fatal(err)
	}
	s, err = s.fill(plan)
	if err != nil {
		t.Fatal(err)
	}
	pack, err := Pack(l.form)
	shape := plan.PackedShape(l.n, l.k)
	w := run(pack, err, l.q, array.New(dtype.U8, shape...), l.n, l.k)[1].Array
	reader, err := plan.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	for j := range l.n {
		for k := range l.k {
			if got := reader.At(w.Data, l.k, j, k); got != l.q.At(j, k) {
				t.Fatalf("stored weight [%d, %d] is %g, not %g", j, k, got, l.q.At(j, k))
			}
		}
	}
	unpack, err := Unpack(l.form)
	back := run(unpack, err, array.New(l.form.Weight, l.n, l.k), w, l.n, l.k)[0].Array
	if r := array.Compare(back, l.q); r.Differ > 0 {
		t.Errorf("%s: unpacked weights: %v", d.Name(), r)
	}
	in := []any{w, ordered(plan, l.s)}
	if l.z != nil {
		in = append(in, ordered(plan, l.z))
	}
	out := len(in)
	in = append(in, array.New(l.form.Act, l.n, l.k), l.n, l.k)
	if l.form.Factor {
		in = append(in, l.factor)
	}
	expand, err := Expand(l.form)
	if r := array.Compare(run(expand, err, in...)[out].Array, l.plain()); r.Differ > 0 {
		t.Errorf("%s: expanded weights: %v", d.Name(), r)
	}
	args := []any{w, ordered(plan, l.s)}
	if l.z != nil {
		args = append(args, ordered(plan, l.z))
	}
	args = append(args, l.x)
	var bias *array.Array
	if s.AddBias {
		bias = array.New(l.form.Act, l.n)
		for j := range l.n {
			bias.Set(float64(j%5), j)
		}
		args = append(args, bias)
	}
	var residual *array.Array
	if s.AddResidual {
		residual = array.New(l.form.Act, l.m, l.n)
		for j := range l.m * l.n {
			residual.SetCode(j, l.form.Act.Encode(float64(j%7), false))
		}
		args = append(args, residual)
	}
	at := len(args)
	args = append(args, array.New(l.form.Act, l.m, l.n))
	if s.Shares() {
		part, arrived := s.Workspace(plan, l.m, l.n)
		args = append(args, array.New(dtype.F32, part...), array.New(dtype.I32, arrived))
	}
	decode, err := Decode(l.form, s)
	args = append(args, l.m, l.n, l.k)
	if l.form.Factor {
		args = append(args, l.factor)
	}
	got := run(decode, err, args...)
	if r := array.Compare(got[at].Array, l.want(bias, residual)); r.Differ > 0 {
		t.Errorf("%s: product: %v", d.Name(), r)
	}
	if s.Shares() {
		for _, b := range got[at+2].Array.Data {
			if b != 0 {
				t.Fatalf("%s: the next launch would start from the counts %v", d.Name(), got[at+2].Array)
			}
		}
		for i, b := range got[at+1].Array.Data {
			if s.Direct && b != 0 {
				t.Fatalf("%s: the next launch would find byte %d of a sum", d.Name(), i)
			}
		}
	}
}

// TestForms packs, multiplies and unpacks on the interpreter and the simulator:
// every type of weights with both types of activations, groups and shapes in turn;
// with -every all of them.
func TestForms(t *testing.T) {
	devices := []device.Device{machine(t, "interp"), machine(t, "sim")}
	count := 0
	formCases(func(name string, f Form, i int, shape formShape) {
		count++
		t.Run(name, func(t *testing.T) {
			l := randomLayer(f, shape.m, shape.n, shape.k, rand.New(rand.NewPCG(uint64(i), 1)))
			for _, d := range devices {
				l.check(t, d, shape.s)
			}
		})
	})
	t.Logf("%d layers", count)
}

type formShape struct {
	m, n, k int
	s       Schedule
}

// formCases calls do for every type of weights with both types of activations,
// groups and shapes in turn; with -every for all of them.
func formCases(do func(name string, f Form, i int, shape formShape)) {
	shapes := []formShape{
		{1, 16, 128, Schedule{}},
		{3, 40, 200, Schedule{Splits: 2, Sides: 2}},
		{9, 21, 333, Schedule{Rows: 16, AddBias: true, AddResidual: true}},
		{2, 150, 256, Schedule{Warps: 2, Sides: 2, Depth: 1}},
		{17, 5, 7, Schedule{Depth: 3}},
		{1, 48, 640, Schedule{Splits: 3, PDL: true, Depth: 1}},
	}
	for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
		for i, w := range weights() {
			for j, group := range []int{128, 64, 32, 0, 256} {
				for k, shape := range shapes {
					if !*every && ((i+j)%5 != 0 || (i/5+k)%6 != 0) {
						continue
					}
					f := Form{Weight: w, Act: act, Scale: []dtype.Type{dtype.F16, dtype.BF16, dtype.F8E8M0}[(i+k)%3], Group: group}
					f.Zero = w.IsInt() && !w.Signed() && (j+k)%2 == 0
					f.AnyZero = f.Zero && (j+k)%4 == 0
					do(fmt.Sprintf("%+v_%d_%d_%d_%+v", f, shape.m, shape.n, shape.k, shape.s), f, i*6+k, shape)
				}
			}
		}
	}
	for i, shape := range []formShape{{3, 24, 160, Schedule{Splits: 2}}, {9, 21, 333, Schedule{Rows: 16, AddBias: true, AddResidual: true}}} {
		for _, f := range []Form{
			{Weight: dtype.F4E2M1, Act: dtype.BF16, Scale: dtype.F8E4M3, Group: 16, Factor: true},
			{Weight: dtype.U3, Act: dtype.F16, Scale: dtype.F16, Group: 16, Zero: true},
			{Weight: dtype.U8, Act: dtype.BF16, Scale: dtype.F16, Group: 64, Zero: true},
			{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Zero: true},
			{Weight: dtype.F6E3M2, Act: dtype.F16, Scale: dtype.F8E8M0, Group: 32, Factor: true},
		} {
			do(fmt.Sprintf("%+v_%d", f, i), f, i, shape)
		}
	}
}
