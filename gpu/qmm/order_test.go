package qmm

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// shuffled is an order of k inputs.
func shuffled(seed uint64, k int) *array.Array {
	order := array.New(dtype.I32, k)
	for i, from := range rand.New(rand.NewPCG(seed, 3)).Perm(k) {
		order.SetCode(i, uint64(from))
	}
	return order
}

// inOrder are x's columns in an order.
func inOrder(x, order *array.Array) *array.Array {
	out := array.New(x.Type, x.Shape...)
	for i := range x.Shape[0] {
		for k := range x.Shape[1] {
			out.SetCode(i*x.Shape[1]+k, x.Code(i*x.Shape[1]+int(order.Code(k))))
		}
	}
	return out
}

// TestOrder multiplies by all plans with weights whose inputs have an order: each bit is that of the same weights without, and x in
// that order. Packing keeps it, and plain weights are in the order of x.
func TestOrder(t *testing.T) {
	for _, c := range []struct {
		text string
		n, k int
		m    int
		call Call
		on   string
	}{
		{"u4 zero group=32", 40, 300, 1, Call{}, "interp"},
		{"u4 zero group=128 act=bf16", 40, 300, 9, Call{}, "sim"},
		{"u3 zero group=64", 33, 257, 3, Call{Soon: true}, "interp"},
		{"i8 group=channel", 24, 200, 2, Call{Plan: Decode}, "sim"},
		{"i4", 70, 300, 17, Call{Plan: Wide}, "interp"},
		{"u4 zero group=64 act=bf16", 70, 300, 20, Call{Plan: Wide}, "sim"},
		{"i4 group=32", 130, 200, 256, Call{Plan: Prefill}, "interp"},
		{"i4 group=32", 64, 264, 128, Call{Plan: Expand}, "interp"},
	} {
		t.Run(c.text+" "+c.call.Plan, func(t *testing.T) {
			d, ctx := openDevice(t, c.on), t.Context()
			plain, err := kind(t, c.text, c.n, c.k).Quantize(ctx, normal(dtype.F32, 4, c.n, c.k))
			if err != nil {
				t.Fatal(err)
			}
			q := *plain
			q.Order = shuffled(5, c.k)
			w := dequantized(t, &q)
			for n := range c.n {
				for k := range c.k {
					if got, want := w.At(n, int(q.Order.Code(k))), float64(float32(plain.At(n, k))); got != want {
						t.Fatalf("weight [%d, %d] is %g, not %g", n, k, got, want)
					}
				}
			}
			p, err := q.Pack(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			back, err := p.Unpack(ctx, d)
			if err != nil || back.Order == nil || !array.Compare(dequantized(t, back), w).Equal() {
				t.Fatalf("%+v, %v", back, err)
			}
			x := normal(q.ActType, 6, c.m, c.k)
			if c.call.Plan != Expand {
				c.call.Bias = normal(q.ActType, 7, c.n)
			}
			ready, err := p.Prepare(ctx, d, c.m, c.call)
			if err != nil || !ready.Gathered {
				t.Fatalf("%+v, %v", ready, err)
			}
			got, err := p.Run(ctx, d, x, c.call)
			if err != nil {
				t.Fatal(err)
			}
			p.Order = nil
			want, err := p.Run(ctx, d, inOrder(x, q.Order), c.call)
			if err != nil {
				t.Fatal(err)
			}
			if r := array.Compare(got.Y, want.Y); !r.Equal() || got.Plan != want.Plan || !got.Gathered || want.Gathered {
				t.Errorf("y %v, %+v, not %+v", r, got, want)
			}
		})
	}
}

// TestOrderRefused holds what is no order, in weights and in packed ones.
func TestOrderRefused(t *testing.T) {
	d := openDevice(t, "interp")
	l := kind(t, "u4 zero group=32", 8, 40)
	q, err := l.Quantize(t.Context(), normal(dtype.F32, 1, l.N, l.K))
	if err != nil {
		t.Fatal(err)
	}
	p, err := q.Pack(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	q.Order = shuffled(2, l.K)
	if own, err := q.Pack(t.Context(), d); err != nil || &own.Order.Data[0] == &q.Order.Data[0] {
		t.Errorf("products have an order that its owner may change: %v", err)
	}
	with := func(k int, from int64) *array.Array {
		order := shuffled(2, l.K)
		order.SetCode(slices.IndexFunc(order.Floats(), func(v float64) bool { return v == 3 }), order.Code(k))
		order.SetCode(k, uint64(from))
		return order
	}
	x := normal(l.ActType, 3, 2, l.K)
	for want, order := range map[string]*array.Array{
		"qmm: order[5] of u4 group=32 scale=f16 act=f16 zero scalebits=4 is 40, and its inputs are 0 to 39": with(5, 40),
		" is -1, and its inputs are 0 to 39":               with(5, -1),
		", which order[":                                   with(5, 7),
		"is i32[39], and must be i32[40]; leave Order nil": shuffled(2, 39),
		"is i64[40], and must be i32[40]":                  shuffled(2, 40).Cast(dtype.I64),
		"is i32[1, 40], and must be i32[40]":               {Type: dtype.I32, Shape: []int{1, 40}, Data: make([]byte, 160)},
		"has 156 bytes, and i32[40] takes 160":             {Type: dtype.I32, Shape: []int{40}, Data: make([]byte, 156)},
	} {
		q.Order, p.Order = order, order
		if err := q.Valid(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
		if _, err := q.Dequantize(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dequantizing: %v; want %s", err, want)
		}
		if _, err := q.Pack(t.Context(), d); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("packing: %v; want %s", err, want)
		}
		if _, err := p.Run(t.Context(), d, x, Call{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a product: %v; want %s", err, want)
		}
		if _, err := p.Prepare(t.Context(), d, 2, Call{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("preparing one: %v; want %s", err, want)
		}
	}
}
