package qmm

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/workers"
)

// TestTypesLeftOut: a layer whose types are left out is in all ways the one that has their defaults.
func TestTypesLeftOut(t *testing.T) {
	for _, bare := range []Linear{{WeightType: dtype.U4, Group: 32, N: 64, K: 256}, {WeightType: dtype.I8, Group: 128, N: 8192, K: 8192}, {WeightType: dtype.F4E2M1, Group: 32, ScaleType: dtype.F8E8M0, N: 64, K: 256}} {
		whole, err := bare.Check()
		if err != nil {
			t.Fatal(err)
		}
		table, err := Table()
		if err != nil {
			t.Fatal(err)
		}
		wide, err := WideTable()
		if err != nil {
			t.Fatal(err)
		}
		for name, of := range map[string]func(l Linear) []any{
			"Problem": func(l Linear) []any { name, err := l.Problem(9); return []any{name, err} },
			"Name":    func(l Linear) []any { return []any{l.Name()} },
			"Form":    func(l Linear) []any { return []any{l.Form()} },
			"Bytes":   func(l Linear) []any { return []any{l.Bytes()} },
			"Usual":   func(l Linear) []any { return []any{l.Usual().typed()} },
			"Plans": func(l Linear) []any {
				return []any{l.Plans(1), l.Plans(100), l.Named(4096), l.PlanFor(100, Call{}), l.PlanFor(4096, Call{})}
			},
			"Activations": func(l Linear) []any {
				a, err := l.Activations("x", array.FromFloats(dtype.F32, []int{2}, []float64{1.0001, 3}))
				return []any{a, err}
			},
			"Takes": func(l Linear) []any {
				return []any{l.Takes(array.New(dtype.F16, 3, l.K)), l.Takes(array.New(dtype.F16, 3, 7)).Error()}
			},
			"Choose": func(l Linear) []any {
				s, err := l.Choose(1)
				plain, errPlain := l.ChoosePlain(9)
				return []any{s, err, plain, errPlain}
			},
			"Schedules": func(l Linear) []any {
				s, err := l.Schedules(1, 3)
				in, errIn := l.In(table, 1)
				return []any{s, err, in, errIn}
			},
			"WideSchedules": func(l Linear) []any {
				s, err := l.WideSchedules(Wide, 100, 3)
				in, errIn := l.InWide(wide, 100)
				return []any{s, err, in, errIn}
			},
			"programs": func(l Linear) []any {
				all, err := Choice{Plan: Expand}.programs(l, 256)
				if err != nil {
					return []any{err}
				}
				return []any{all[0].Name, all[1].Name}
			},
		} {
			if got, want := of(bare), of(whole); !reflect.DeepEqual(got, want) {
				t.Errorf("%s of %s is %v, and %v with its types", name, bare, got, want)
			}
		}
	}
}

// TestBareWeights: weights of a layer whose types are left out stand for the same numbers; what else is asked of them names the way out.
func TestBareWeights(t *testing.T) {
	q, err := Linear{WeightType: dtype.U4, ZeroPoint: true, Group: 32, N: 8, K: 64}.Quantize(t.Context(), normal(dtype.F32, 1, 8, 64))
	if err != nil {
		t.Fatal(err)
	}
	bare := *q
	bare.ActType, bare.ScaleType = 0, 0
	if bare.At(1, 2) != q.At(1, 2) {
		t.Errorf("weight [1, 2] is %g, was %g", bare.At(1, 2), q.At(1, 2))
	}
	_, packed := bare.AsPacked()
	_, plain := bare.Dequantize(t.Context())
	for _, err := range []error{packed, plain} {
		if err == nil || !strings.Contains(err.Error(), "take what its Check gives") {
			t.Errorf("%v names no way out", err)
		}
	}
}

// recovered is what a function, or a worker of it, panics with.
func recovered(f func()) (r any) {
	defer func() {
		r = recover()
		if p, ok := r.(*workers.Panic); ok {
			r = p.Value
		}
	}()
	f()
	return nil
}

// TestBrokenWeights: weights that somebody put together wrongly are an error of AsPacked, and of Tensors, which has none, a panic that its
// caller recovers.
func TestBrokenWeights(t *testing.T) {
	for want, spoil := range map[string]func(q *Weights){
		"without codes":                func(q *Weights) { q.Codes = nil },
		"without scales":               func(q *Weights) { q.Scales = nil },
		"without zero points":          func(q *Weights) { q.Zeros = nil },
		"are f16[20, 80]":              func(q *Weights) { q.Scales = array.New(dtype.F16, 20, 80) },
		"has 0 bytes, and f16[2, 8]":   func(q *Weights) { q.Scales = &array.Array{Type: dtype.F16, Shape: []int{2, 8}} },
		"has 0 bytes, and u4[8, 64]":   func(q *Weights) { q.Codes = &array.Array{Type: dtype.U4, Shape: []int{8, 64}} },
		"must be u4[16, 64]":           func(q *Weights) { q.N = 16 },
		"are u4[8, 32], and must be":   func(q *Weights) { q.Codes = array.New(dtype.U4, 8, 32) },
		"has 3 bytes, and f16[2, 8] t": func(q *Weights) { q.Zeros.Data = q.Zeros.Data[:3] },
	} {
		q, err := kind(t, "u4 zero group=32", 8, 64).Quantize(t.Context(), normal(dtype.F32, 1, 8, 64))
		if err != nil {
			t.Fatal(err)
		}
		spoil(q)
		if _, err := q.AsPacked(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: AsPacked says %v", want, err)
		}
		if r := recovered(func() { q.Tensors() }); !strings.Contains(fmt.Sprint(r), want) {
			t.Errorf("%s: Tensors panics with %v", want, r)
		}
	}
}

// fault is a context of a cell's own that panics, when it has been asked as often as it has room for, whether it has ended.
type fault struct {
	context.Context
	asked chan bool
}

func (c fault) Err() error {
	select {
	case c.asked <- true:
		return nil
	default:
		panic("a broken context")
	}
}

// TestFaultOfWorkers: a context that panics on a goroutine of the library does so for the caller.
func TestFaultOfWorkers(t *testing.T) {
	l := kind(t, "u4 zero group=32", 8, 64)
	w := normal(dtype.F32, 1, 8, 64)
	q, err := l.Quantize(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for asked := range 12 {
		ctx := func() context.Context { return fault{t.Context(), make(chan bool, asked)} }
		if r := recovered(func() { q.Dequantize(ctx()) }); (r != nil) != (asked < 10) { // before, for each output, and behind
			t.Errorf("Dequantize with a context that panics when asked %d times: %v", asked+1, r)
		}
		if r := recovered(func() { l.Quantize(ctx(), w) }); r != "a broken context" {
			t.Errorf("Quantize with a context that panics when asked %d times: %v", asked+1, r)
		}
	}
}

// TestNil: what is left out is said, with a way out.
func TestNil(t *testing.T) {
	d, l := openDevice(t, "interp"), kind(t, "u4", 8, 64)
	w := normal(dtype.F16, 1, 8, 64)
	for i := range w.Len() {
		w.SetCode(i, w.Code(i)&^(1<<15))
	}
	q, p := packed(t, d, l, 1, nil)
	x := array.New(dtype.F16, 1, 64)
	var none context.Context
	for what, c := range map[string]struct {
		want string
		do   func() error
	}{
		"Unpack on nil":       {"device.Open", func() error { _, err := p.Unpack(t.Context(), nil); return err }},
		"Takes":               {"no x; the layer takes f16[M, 64]", func() error { return l.Takes(nil) }},
		"Run of nil":          {"no x; the layer takes f16[M, 64]", func() error { _, err := p.Run(t.Context(), d, nil, Call{}); return err }},
		"Activations":         {"the bias is no array, but nil", func() error { _, err := l.Activations("the bias", nil); return err }},
		"Activations of none": {"the bias is no array: an array needs an element type", func() error { _, err := l.Activations("the bias", &array.Array{}); return err }},
		"Quantize":            {"context.Background()", func() error { _, err := l.Quantize(none, w); return err }},
		"Dequantize":          {"context.Background()", func() error { _, err := q.Dequantize(none); return err }},
		"Pack":                {"context.Background()", func() error { _, err := q.Pack(none, d); return err }},
		"Unpack":              {"context.Background()", func() error { _, err := p.Unpack(none, d); return err }},
		"Run":                 {"context.Background()", func() error { _, err := p.Run(none, d, x, Call{}); return err }},
		"Prepare":             {"context.Background()", func() error { _, err := p.Prepare(none, d, 1, Call{}); return err }},
	} {
		if err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", what, err, c.want)
		}
	}
}

// TestShortData: arrays that somebody made without all their bytes are errors, on any device.
func TestShortData(t *testing.T) {
	cut := func(a *array.Array) *array.Array {
		return &array.Array{Type: a.Type, Shape: a.Shape, Data: a.Data[:len(a.Data)-2]}
	}
	for _, name := range []string{"interp", "sim"} {
		d := openDevice(t, name)
		l := kind(t, "u4 zero group=32", 8, 64)
		_, p := packed(t, d, l, 1, nil)
		x, bias, residual := array.New(dtype.F16, 3, 64), array.New(dtype.F16, 8), array.New(dtype.F16, 3, 8)
		run := func(d device.Device, p *Packed, x *array.Array, c Call) error {
			_, err := p.Run(t.Context(), d, x, c)
			return err
		}
		if err := run(d, p, x, Call{Bias: bias, Residual: residual}); err != nil {
			t.Fatal(err)
		}
		spoilt := func(spoil func(p *Packed)) *Packed {
			q := &Packed{Linear: p.Linear, W: p.W, Scales: p.Scales, Zeros: p.Zeros, One: p.One}
			spoil(q)
			return q
		}
		noW := spoilt(func(p *Packed) { p.W = cut(p.W) })
		for want, err := range map[string]error{
			"x has 382 bytes, and f16[3, 64] takes 384":           run(d, p, cut(x), Call{}),
			"the bias has 14 bytes":                               run(d, p, x, Call{Bias: cut(bias)}),
			"the residual has 46 bytes":                           run(d, p, x, Call{Residual: cut(residual)}),
			"W of the packed weights has":                         run(d, noW, x, Call{}),
			"Scales of the packed weights has":                    run(d, spoilt(func(p *Packed) { p.Scales = cut(p.Scales) }), x, Call{Plan: Wide}),
			"Zeros of the packed weights has":                     run(d, spoilt(func(p *Packed) { p.Zeros = cut(p.Zeros) }), x, Call{}),
			"array of weights to quantise has 1022 bytes":         func() error { _, err := l.Quantize(t.Context(), cut(array.New(dtype.F16, 8, 64))); return err }(),
			"the residual has 46 bytes, and f16[3, 8] takes 48; ": func() error { _, err := l.Activations("the residual", cut(residual)); return err }(),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
		if _, err := noW.Unpack(t.Context(), d); err == nil || !strings.Contains(err.Error(), "W of the packed weights has") {
			t.Errorf("%s: Unpack says %v", name, err)
		}
	}
}

// TestTableFilled: no schedule of the table that ships has a field set without what that is for.
func TestTableFilled(t *testing.T) {
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	p, err := template.PlanOf(kind(t, "u4", 8, 128).Form())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		for _, s := range []template.Schedule{e.Schedule, e.Few} {
			if _, err := s.Filled(p); err != nil && strings.Contains(err.Error(), "without") {
				t.Errorf("%d bits, %d rows: %v", e.Bits, e.Rows, err)
			}
		}
	}
}

// TestMisspeltPlan: a plan that there is not is said to be none, whatever the number of rows.
func TestMisspeltPlan(t *testing.T) {
	for _, m := range []int{1, 17} {
		if _, _, err := kind(t, "u4", 64, 256).Candidates(m, []string{"bogus"}); err == nil || !strings.Contains(err.Error(), `no plan "bogus"; there are`) {
			t.Errorf("%d rows: %v", m, err)
		}
	}
}
