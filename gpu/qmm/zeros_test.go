package qmm

import (
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestZeros packs layers whose zero points are from elsewhere: of 3 bits and more, whole ones are taken
// off codes, and of others beside x of f16 as much as is whole; what is left off sums, and products are as
// close in all ways, with any form of groups.
func TestZeros(t *testing.T) {
	d := openDevice(t, "sim")
	for i, c := range []struct {
		layer string
		zero  func(i int) float64
		any   bool
	}{
		{"u4", func(i int) float64 { return float64(1 + i%16) }, false}, // as GPTQ has them
		{"u4 group=32", func(i int) float64 { return float64(i % 256) }, false},
		{"u8 act=bf16", func(i int) float64 { return float64(255 - i%256) }, false},
		{"u8 group=channel", func(i int) float64 { return 256 }, true},
		{"u3 group=64", func(i int) float64 { return -1 }, true},
		{"u4", func(i int) float64 { return 7.25 + float64(i%5) }, true}, // as HQQ has them
		{"u3 act=bf16", func(i int) float64 { return 3.5 }, true},
		{"u6 group=32", func(i int) float64 { return []float64{31.4375, -70, 150, -0.0625, 63}[i%5] }, true},
		{"u2", func(i int) float64 { return 1.5 }, true},
		{"u5 group=channel", func(i int) float64 { return math.Copysign(0, -1) }, false},
	} {
		l := kind(t, c.layer+" zero", 40, 328)
		q, err := l.Quantize(t.Context(), normal(l.ActType, uint64(i), l.N, l.K))
		if err != nil {
			t.Fatal(err)
		}
		for j := range q.Zeros.Len() {
			q.Zeros.SetCode(j, l.ActType.Encode(c.zero(j), false))
		}
		p, err := q.Pack(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := template.PlanOf(p.Form())
		if err != nil {
			t.Fatal(err)
		}
		less, as := l.WeightType.Bits() > 2 && (!c.any || l.ActType == dtype.F16), l.ActType
		if less && !c.any {
			as = dtype.U8
		}
		if p.AnyZero != c.any || plan.Less != less || plan.Rest() != (c.any || !less) || p.Zeros.Type != as {
			t.Errorf("%s: any zero points: %v, taken off codes: %v, off sums: %v, as %s", c.layer, p.AnyZero, plan.Less, plan.Rest(), p.Zeros.Type)
		}
		back, err := p.Unpack(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		for n := range l.N {
			for k := range l.K {
				if back.At(n, k) != q.At(n, k) {
					t.Fatalf("%s: weight [%d, %d] comes back as %g, was %g", c.layer, n, k, back.At(n, k), q.At(n, k))
				}
			}
		}
		for j, m := range []int{1, 9, 40} {
			holds(t, d, q, p, filled(l.ActType, j, m, l.K), inputs[j].name, Call{})
		}
	}
	for _, text := range []string{"u4 zero=any", "u4 zero"} {
		if l := kind(t, text, 8, 128); l.AnyZero != (text == "u4 zero=any") || kind(t, l.String(), 8, 128) != l {
			t.Errorf("%s is read as %s", text, l)
		}
	}
	for _, text := range []string{"u4 zero=some", "i4 zero=any"} {
		if _, err := Parse(text, 8, 128); err == nil {
			t.Errorf("%s is a kind of layer", text)
		}
	}
}
