package qmm

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// roundedKinds may have their weights rounded.
var roundedKinds = []string{"i4 group=32 scalebits=11", "u4 zero=any group=64", "u4 zero group=64 scalebits=11", "u2 zero=any group=16", "u2 zero group=32 scalebits=11", "u3 zero=any group=64",
	"f6e3m2 group=32 scalebits=11", "u8 zero=any group=64", "u1 zero=any group=32",
	"i4 group=64 act=bf16 scale=bf16 scalebits=8", "u4 zero=any group=64 act=bf16 scale=bf16", "u4 zero group=32 act=bf16 scale=bf16 scalebits=8", "u2 zero=any group=32 act=bf16 scale=bf16",
	"f4e2m1 group=16 act=bf16 scale=bf16 scalebits=8", "i8 group=64 act=bf16 scale=bf16 scalebits=8"}

// differences are plainly with what groups apart make of weights: codes less zero points are rounded, and no products with scales.
func differences(q *Weights) []float64 { return rounding(q, func(v float64) float64 { return v }) }

// plainly are the weights as frameworks make them plain: a code less its zero point, and that times the scale, each rounded to
// the type of the activations.
func plainly(q *Weights) []float64 {
	return rounding(q, func(v float64) float64 { return q.ActType.Decode(q.ActType.Encode(v, false)) })
}

func rounding(q *Weights, product func(v float64) float64) []float64 {
	act := func(v float64) float64 { return q.ActType.Decode(q.ActType.Encode(v, false)) }
	w := make([]float64, 0, q.N*q.K)
	for n := range q.N {
		for k := range q.K {
			v, g := q.WeightType.Decode(q.Codes.Code(n*q.K+k)), q.groupOf(k)
			if q.Zeros != nil {
				v = act(v - q.Zeros.At(g, n))
			}
			w = append(w, product(v*q.Scales.At(g, n)))
		}
	}
	return w
}

// holdRounded holds products of layers that may be rounded to the error of f32 sums of weights that are.
func holdRounded(t *testing.T, d device.Device, n, k int, plans []string) {
	for i, name := range roundedKinds {
		if testing.Short() && i%3 != 0 {
			continue
		}
		q, p := packed(t, d, kind(t, name+" rounded", n, k), uint64(i), func(w *array.Array) {
			for j := range w.Len() {
				w.Set(w.At(j/k, j%k)*[]float64{0.02, 0.003, 1}[j/k%3], j/k, j%k)
			}
		})
		if plan, err := template.PlanOf(p.Form()); err != nil || !plan.Rounded || !plan.Folds || plan.Rest() {
			t.Errorf("%s: packed as %s, %+v, %v", name, p.Linear, p.Form(), err)
		}
		w := plainly(q)
		for _, plan := range plans {
			for j, of := range []int{0, 3, 4, 0} {
				x := filled(p.ActType, of, []int{2, 17, 16, 1}[j], k)
				res, err := p.Run(context.Background(), d, x, Call{Plan: plan})
				if err != nil {
					t.Fatalf("%s, plan %s: %v", name, plan, err)
				}
				w := w
				if res.Plan == Decode && res.Schedule.Apart {
					w = differences(q)
				}
				exact, single := productsOf(w, x, func(i, j int) float64 { return 0 })
				if ours, theirs := far(res.Y.Floats(), exact), far(rounded(p.ActType, single), exact); !(ours <= 1.1*theirs) {
					t.Errorf("%s, plan %s, %s: the error is %.3g, that of f32 sums %.3g", name, plan, inputs[of].name, ours, theirs)
				}
			}
		}
	}
}

func TestRounded(t *testing.T) { holdRounded(t, openDevice(t, "sim"), 40, 300, []string{Decode, Wide}) }

// TestGPURounded is TestRounded on the attached GPU.
func TestGPURounded(t *testing.T) {
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPURounded")
	defer d.Close()
	holdRounded(t, d, 1000, 2080, []string{Decode, Wide, Prefill, Expand})
}

// manyRounded may have weights rounded where many rows are multiplied, and have no programs that round them else.
var manyRounded = []struct {
	name   string
	folded bool // may have folded scales
}{
	{"i4 scalebits=11", true}, {"u4 zero scalebits=11", true}, {"u3 scalebits=11", true}, {"i8 group=256 scalebits=11", true}, {"f6e3m2 act=bf16 scale=bf16 scalebits=8", true},
	{"u4 zero=any", false}, {"i8 group=channel scalebits=11", false}, {"u8 zero=any group=channel", false}, {"i8 scale=bf16 scalebits=8", false}, {"u8 zero group=64 scale=bf16 scalebits=8", false},
	{"nvfp4", false}, {"u4 zero act=bf16 scalebits=11", false},
}

// holdManyRounded holds what plan Expand makes of such weights, and products with folded scales, to the weights rounded once.
func holdManyRounded(t *testing.T, d device.Device, m, n, k int, plans []string) {
	for i, c := range manyRounded {
		if testing.Short() && i%4 != 0 {
			continue
		}
		l := kind(t, c.name+" rounded", n, k)
		q, _ := packed(t, d, l, uint64(i), func(w *array.Array) {
			for j := range w.Len() {
				w.Set(w.At(j/k, j%k)*[]float64{0.02, 0.003, 0.5}[j/k%3], j/k, j%k)
			}
		})
		if l.Factor {
			q.One *= 1.1 // as those of others are
		}
		p, err := q.Pack(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		act := func(v float64) float64 { return p.ActType.Decode(p.ActType.Encode(v, false)) }
		w, some := make([]float64, 0, n*k), false
		for at := range n * k {
			is := q.At(at/k, at%k)
			w, some = append(w, act(is)), some || act(is) != is
		}
		if plans := p.Plans(4096); !some || p.Far || !slices.Contains(plans, Expand) || p.folds() != c.folded {
			t.Errorf("%s: packed as %s, of which some weights are rounded (%v), with plans %v, folded %v", c.name, p.Linear, some, plans, p.folds())
		}
		program, err := template.Expand(p.Form())
		if err != nil {
			t.Fatal(err)
		}
		args := arrays(p.W, p.Scales, p.Zeros, array.New(p.ActType, n, k))
		at := len(args) - 1
		all := sizes(args, n, k)
		if p.Factor {
			all = append(all, ir.Arg{Float: q.One})
		}
		res, err := launch(t.Context(), d, program, all)
		if err != nil {
			t.Fatal(err)
		}
		for j, want := range w {
			is := q.At(j/k, j%k)
			if got := res.Args[at].Array.At(j/k, j%k); !(math.Abs(got-is) <= 1.001*math.Abs(want-is)) { // f32 may be half-way where is is not
				t.Fatalf("%s: weight [%d, %d] is %g, and plain %g, not %g", c.name, j/k, j%k, is, got, want)
			}
		}
		for _, plan := range plans {
			call := Call{Plan: plan}
			if plan != Expand {
				var ok bool
				if call, ok = takeFolded(t, p, plan, m, false); !ok {
					if c.folded {
						t.Errorf("%s by %s: none is folded", c.name, plan)
					}
					continue
				}
			}
			of := i % 2 * 3
			x := filled(p.ActType, of, m, k)
			res, err := p.Run(t.Context(), d, x, call)
			if err != nil {
				t.Fatal(err)
			}
			exact, single := productsOf(w, x, func(i, j int) float64 { return 0 })
			if ours, theirs := far(res.Y.Floats(), exact), far(rounded(p.ActType, single), exact); !(ours <= 1.1*theirs) {
				t.Errorf("%s, plan %s, %s: the error is %.3g, that of f32 sums %.3g", c.name, plan, inputs[of].name, ours, theirs)
			}
		}
	}
}

func TestManyRounded(t *testing.T) {
	holdManyRounded(t, openDevice(t, "sim"), 140, 40, 304, []string{Wide})
}

// TestGPUManyRounded is TestManyRounded on the attached GPU.
func TestGPUManyRounded(t *testing.T) {
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUManyRounded")
	defer d.Close()
	holdManyRounded(t, d, 260, 304, 1056, []string{Wide, Prefill, Expand})
}

// TestManyRoundedFound holds that only layers whose scales leave all weights within the type of the activations are rounded.
func TestManyRoundedFound(t *testing.T) {
	d := openDevice(t, "interp")
	for _, c := range []struct {
		name            string
		scale           float64 // of one group
		rounded, folded bool
	}{
		{"i4 scalebits=11", 1.3, true, true}, {"i4 scalebits=11", 100.3, true, false}, {"i4 scalebits=11", 8192, false, false},
		{"u4 zero=any", 100.3, true, false}, {"u4 zero=any", 4000, false, false},
		{"i8 group=channel scalebits=11", 511.5, true, false}, {"i8 group=channel scalebits=11", 512, false, false},
		{"i8 scale=bf16 scalebits=8", 1e30, false, false}, {"i8 act=bf16 scale=bf16 scalebits=8", 1e30, true, true},
	} {
		q, _ := packed(t, d, kind(t, c.name+" rounded", 24, 256), 3, nil)
		q.Scales.Set(c.scale, 0, 2)
		p, err := q.Pack(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if p.plain() != c.rounded || slices.Contains(p.Plans(4096), Expand) != c.rounded || p.folds() != c.folded {
			t.Errorf("%s with a scale of %g: packed as %s, with plans %v, folded %v", c.name, c.scale, p.Linear, p.Plans(4096), p.folds())
		}
		q.Rounded = false
		without, err := q.Pack(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(without.Plans(4096), Expand) || without.folds() {
			t.Errorf("%s with a scale of %g: %s has plans %v", c.name, c.scale, without.Linear, without.Plans(4096))
		}
	}
}

// TestRoundedFound holds that layers with scales or zero points too large for operands are not rounded, nor those whose
// weights are exact, and that others have the form that they have without the word.
func TestRoundedFound(t *testing.T) {
	d := openDevice(t, "interp")
	for _, c := range []struct {
		name    string
		change  func(q *Weights)
		rounded bool
	}{
		{"i4 group=32 scalebits=11 rounded", nil, true},
		{"i4 group=32 scalebits=11 rounded", func(q *Weights) { q.Scales.Set(64.5, 1, 2) }, false},
		{"i4 group=32 scalebits=5 rounded", nil, false},
		{"u4 zero=any group=64 rounded", nil, true},
		{"u4 zero=any group=64 rounded", func(q *Weights) { q.Zeros.Set(-900, 1, 2) }, true},
		{"u4 zero=any group=64 rounded", func(q *Weights) { q.Zeros.Set(3000, 1, 2) }, false},
		{"u4 zero=any group=64 rounded", func(q *Weights) { q.Scales.Set(31, 1, 2) }, false},
		{"u4 zero=any group=64 rounded", func(q *Weights) { q.Scales.Set(15, 1, 2) }, true},
		{"u1 zero group=32 scalebits=11 rounded", nil, false},
		// Whole zero points beyond codes, and a difference that is rounded up.
		{"u4 zero group=64 scalebits=11 rounded", func(q *Weights) { q.Scales.Set(8, 1, 2); q.Zeros.Set(255, 1, 2) }, false},
		{"u4 zero group=64 scalebits=11 rounded", func(q *Weights) { q.Scales.Set(1.75, 1, 2); q.Zeros.Set(255, 1, 2) }, true},
		{"u2 zero group=32 scalebits=11 rounded", func(q *Weights) { q.Scales.Set(40, 1, 2); q.Zeros.Set(128, 1, 2) }, false},
		{"u4 zero=any group=64 rounded", func(q *Weights) { q.Scales.Set(0.24951171875, 1, 2); q.Zeros.Set(-2036, 1, 2) }, false},
		{"i4 group=128 scalebits=11 rounded", nil, false},
		{"nvfp4 rounded", nil, false},
	} {
		l := kind(t, c.name, 24, 160)
		q, _ := packed(t, d, l, 3, nil)
		if c.change != nil {
			c.change(q)
		}
		p, err := q.Pack(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Form().Rounded; got != c.rounded {
			t.Errorf("%s: rounded %v (%s)", c.name, got, p.Linear)
		}
		x := normal(l.ActType, 9, 3, l.K)
		if !c.rounded {
			holds(t, d, q, p, x, "normal", Call{})
			p.Rounded, q.Rounded = false, false
			if again, err := q.Pack(t.Context(), d); err != nil || again.Form() != p.Form() {
				t.Errorf("%s: without the word %+v, with it %+v, %v", c.name, again.Form(), p.Form(), err)
			}
			continue
		}
		res, err := p.Run(t.Context(), d, x, Call{})
		if err != nil {
			t.Fatal(err)
		}
		exact, single := productsOf(plainly(q), x, func(i, j int) float64 { return 0 })
		if ours, theirs := far(res.Y.Floats(), exact), far(rounded(dtype.F16, single), exact); !(ours <= 1.1*theirs) {
			t.Errorf("%s: the error is %.3g, that of f32 sums %.3g", c.name, ours, theirs)
		}
	}
}
