package qmm

import (
	"context"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
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
