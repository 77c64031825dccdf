package qmm

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func openDevice(t *testing.T, name string) device.Device {
	t.Helper()
	d, err := device.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// normal is an array of normally distributed numbers.
func normal(t dtype.Type, seed uint64, shape ...int) *array.Array {
	a := array.New(t, shape...)
	r := rand.New(rand.NewPCG(seed, 5))
	for i := range a.Len() {
		a.SetCode(i, t.Encode(r.NormFloat64(), true))
	}
	return a
}

// dequantized are weights as f32.
func dequantized(t *testing.T, q *Weights) *array.Array {
	t.Helper()
	w, err := q.Dequantize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// products are x·wᵀ in float64, and with sums in f32, one k after the other; both
// unrounded.
func products(q *Weights, x *array.Array, extra func(i, j int) float64) (exact, single []float64) {
	w := make([]float64, q.N*q.K)
	for n := range q.N {
		for k := range q.K {
			w[n*q.K+k] = q.At(n, k)
		}
	}
	return productsOf(w, x, extra)
}

// productsOf is products of plain weights.
func productsOf(w []float64, x *array.Array, extra func(i, j int) float64) (exact, single []float64) {
	m, in := x.Shape[0], x.Shape[1]
	xs := x.Floats()
	for i := range m {
		for j := range len(w) / in {
			sum, half := extra(i, j), float32(0)
			for k := range in {
				v := xs[i*in+k] * w[j*in+k]
				sum += v
				half += float32(v)
			}
			exact, single = append(exact, sum), append(single, float64(half)+extra(i, j))
		}
	}
	return exact, single
}

// far is the relative error of got, after both were rounded to the type of y; 0 where all
// are 0.
func far(got, exact []float64) float64 {
	var num, den float64
	for i := range got {
		num += (got[i] - exact[i]) * (got[i] - exact[i])
		den += exact[i] * exact[i]
	}
	if num == 0 {
		return 0
	}
	return math.Sqrt(num / den)
}

func rounded(t dtype.Type, v []float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = t.Decode(t.Encode(v[i], true))
	}
	return out
}

// TestLinear quantises, packs, unpacks and multiplies random layers of many kinds on
// the simulator. The error of a product against float64 is at most 1.1 of that of f32
// sums of the same weights.
func TestLinear(t *testing.T) {
	d := openDevice(t, "sim")
	ctx := context.Background()
	layers := []Linear{
		{WeightType: dtype.U4, ZeroPoint: true, Group: 128, N: 48, K: 384},
		{WeightType: dtype.I4, Group: 128, N: 40, K: 300},
		{WeightType: dtype.U3, ZeroPoint: true, ActType: dtype.BF16, Group: 64, N: 33, K: 256},
		{WeightType: dtype.I6, Group: 0, N: 24, K: 200},
		{WeightType: dtype.F6E3M2, ActType: dtype.BF16, Group: 32, ScaleType: dtype.BF16, N: 24, K: 256},
		{WeightType: dtype.F5E2M2, Group: 128, N: 64, K: 256},
		{WeightType: dtype.I8, Group: 256, N: 16, K: 512},
		{WeightType: dtype.U1, ZeroPoint: true, Group: 128, N: 128, K: 256},
		{WeightType: dtype.F8E4M3, Group: 128, N: 16, K: 256},
	}
	for _, name := range Presets() {
		l, err := Preset(name, 24, 288)
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	for i, l := range layers {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			q, err := l.Quantize(t.Context(), normal(dtype.F32, uint64(i), l.N, l.K))
			if err != nil {
				t.Fatal(err)
			}
			p, err := q.Pack(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			back, err := p.Unpack(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			for n := range l.N {
				for k := range l.K {
					if back.At(n, k) != q.At(n, k) {
						t.Fatalf("weight [%d, %d] comes back as %g, was %g", n, k, back.At(n, k), q.At(n, k))
					}
				}
			}
			m := []int{1, 5, 17, 40}[i%4]
			x := normal(q.ActType, 77, m, l.K)
			c := Call{}
			extra := func(i, j int) float64 { return 0 }
			if i%3 == 0 {
				c.Bias, c.Residual = normal(q.ActType, 8, l.N), normal(q.ActType, 9, m, l.N)
				extra = func(i, j int) float64 { return c.Bias.At(j) + c.Residual.At(i, j) }
			}
			res, err := p.Run(ctx, d, x, c)
			if err != nil {
				t.Fatal(err)
			}
			exact, single := products(q, x, extra)
			ours, theirs := far(res.Y.Floats(), exact), far(rounded(q.ActType, single), exact)
			t.Logf("%d rows, plan %s, %+v: error %.3g, of f32 sums %.3g", m, res.Plan, res.Schedule, ours, theirs)
			if ours > 1.1*theirs {
				t.Errorf("error %.3g, more than 1.1 of %.3g", ours, theirs)
			}
		})
	}
}

// TestExpand multiplies many rows by plain weights. Where scales have too many bits, rounded
// weights add an error of about the size of the result's rounding.
func TestExpand(t *testing.T) {
	d := openDevice(t, "sim")
	ctx := context.Background()
	l := Linear{WeightType: dtype.I4, Group: 64, N: 136, K: 192, ScaleBits: 11}
	q, err := l.Quantize(t.Context(), normal(dtype.F32, 1, l.N, l.K))
	if err != nil {
		t.Fatal(err)
	}
	p, err := q.Pack(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	x := normal(dtype.F16, 2, 40, l.K)
	res, err := p.Run(ctx, d, x, Call{Plan: Expand})
	if err != nil {
		t.Fatal(err)
	}
	exact, single := products(q, x, func(i, j int) float64 { return 0 })
	ours, theirs := far(res.Y.Floats(), exact), far(rounded(dtype.F16, single), exact)
	if res.Plan != Expand || ours > 2*theirs || p.ScaleBits != 0 {
		t.Errorf("plan %s has the error %.3g; f32 sums have %.3g", res.Plan, ours, theirs)
	}
	if _, err := p.Run(ctx, d, x, Call{Plan: Expand, Bias: normal(dtype.F16, 3, l.N)}); err == nil {
		t.Error("plan expand takes a bias")
	}
}

// TestRefused holds what no layer can be.
func TestRefused(t *testing.T) {
	for _, l := range []Linear{
		{WeightType: dtype.F16, N: 8, K: 8}, {WeightType: dtype.I4, N: 0, K: 8}, {WeightType: dtype.I4, ZeroPoint: true, N: 8, K: 8},
		{WeightType: dtype.U4, Group: 100, N: 8, K: 8}, {WeightType: dtype.U4, ActType: dtype.F32, N: 8, K: 8}, {WeightType: dtype.U4, ScaleType: dtype.F32, N: 8, K: 8},
		{WeightType: dtype.U4, N: 8, K: 8}, // negative weights without zero points
	} {
		if _, err := l.Quantize(t.Context(), normal(dtype.F32, 1, l.N, l.K)); err == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
	if _, err := Preset("mxfp5", 8, 8); err == nil {
		t.Error("there is no mxfp5")
	}
}

// TestPick holds what is chosen for any size: a schedule that there is.
func TestPick(t *testing.T) {
	for _, w := range []dtype.Type{dtype.U1, dtype.U3, dtype.U4, dtype.I7, dtype.F8E5M2, dtype.F3E2M0} {
		plan, err := template.PlanOf(Linear{WeightType: w, ActType: dtype.F16, ScaleType: dtype.F16, Group: 128}.Form())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 100, 8192, 57344} {
			for _, k := range []int{7, 384, 8192, 28672} {
				for _, m := range []int{1, 9, 64} {
					s := template.Pick(plan, m, n, k, template.H200())
					if _, err := s.Filled(plan); err != nil || s.Rows == 0 {
						t.Errorf("%s [%d, %d, %d]: %+v, %v", w, m, n, k, s, err)
					}
				}
			}
		}
	}
}

// TestParse reads what is printed, and refuses what is none.
func TestParse(t *testing.T) {
	for _, text := range append(Presets(), "u4 zero", "i4 group=channel", "f6e3m2 group=64 scale=bf16 act=bf16", "f4e2m1 group=16 scale=f8e4m3 factor", "u4 zero scalebits=7", "mxfp4 far", "i8 group=64 scale=f8e8m0 far") {
		l, err := Parse(text, 8, 16)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if again, err := Parse(l.String(), 8, 16); err != nil || again != l {
			t.Errorf("%s is %s, which reads as %+v, %v", text, l, again, err)
		}
	}
	for _, text := range []string{"", "u9", "mxfp5", "u4 group=", "u4 group=-1", "u4 scale=f77", "u4 fast", "i4 zero", "u4 group=100", "u4 scalebits=0", "u4 scalebits=few", "u4 scalebits=99"} {
		if l, err := Parse(text, 8, 16); err == nil {
			t.Errorf("%q is read as %+v", text, l)
		}
	}
}

// TestValid holds weights that Pack and At would take for others, one after the other.
func TestValid(t *testing.T) {
	l := Linear{WeightType: dtype.U4, ActType: dtype.F16, ScaleType: dtype.F16, Group: 128, ZeroPoint: true, N: 24, K: 300}
	good := func() *Weights {
		q, err := l.Quantize(t.Context(), normal(dtype.F32, 3, l.N, l.K))
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	if err := good().Valid(); err != nil {
		t.Errorf("what Quantize gives: %v", err)
	}
	for _, c := range []struct {
		spoil func(q *Weights)
		want  string
	}{
		{func(q *Weights) { q.Codes = nil }, "without codes u4[24, 300]"},
		{func(q *Weights) { q.Codes = q.Codes.Transpose() }, "are u4[300, 24], and must be u4[24, 300]"},
		{func(q *Weights) { q.Codes = q.Codes.Cast(dtype.U8) }, "are u8[24, 300], and must be u4[24, 300]; Cast"},
		{func(q *Weights) { q.Scales = nil }, "without scales f16[3, 24]"},
		{func(q *Weights) { q.Scales = q.Scales.Transpose() }, "are f16[24, 3], and must be f16[3, 24]"},
		{func(q *Weights) { q.Scales = q.Scales.Cast(dtype.F32) }, "are f32[3, 24], and must be f16[3, 24]; Cast"},
		{func(q *Weights) { q.Scales = q.Scales.Reshape(72) }, "must be f16[3, 24]"},
		{func(q *Weights) { q.Group = 64 }, "must be f16[5, 24]"},
		{func(q *Weights) { q.Zeros = nil }, "without zero points f16[3, 24]"},
		{func(q *Weights) { q.Zeros = q.Zeros.Cast(dtype.BF16) }, "are bf16[3, 24], and must be f16[3, 24]; Cast"},
		{func(q *Weights) { q.Zeros = q.Zeros.Cast(dtype.U4) }, "are u4[3, 24], and must be f16[3, 24]; Cast"},
		{func(q *Weights) { q.ZeroPoint = false }, "set ZeroPoint"},
		{func(q *Weights) { q.One = 0 }, "must be 1"},
		{func(q *Weights) { q.One = 3 }, "set Factor"},
		{func(q *Weights) { q.Factor, q.One = true, math.NaN() }, "the factor of all weights, is NaN"},
		{func(q *Weights) { q.Factor, q.One = true, 1e39 }, "is 1e+39, beyond f32"},
		{func(q *Weights) { q.Factor, q.One = true, -1e-46 }, "is -1e-46, beyond f32"},
		{func(q *Weights) { q.N = 0 }, "0 outputs and 300 inputs: there are 1 to 16777216 of each"},
		{func(q *Weights) { q.ActType = 0 }, "left out"},
	} {
		q := good()
		c.spoil(q)
		if err := q.Valid(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestUnheld refuses codes of numbers that programs do not multiply with, of which machine code makes others: NaN of f8e4m3 becomes a
// number of bf16, and what is beyond the exponents of f16 is not stored.
func TestUnheld(t *testing.T) {
	d := openDevice(t, "interp")
	for text, code := range map[string]uint64{"f8e4m3 act=bf16": 0x7f, "mxfp8e5m2": 0xfc, "f6e5m0": 0x1f, "f8e7m0": 0x4f, "f7e6m0": 15, "f8e6m1": 2*15 + 1} {
		q, err := kind(t, text, 16, 130).Quantize(t.Context(), normal(dtype.F32, 3, 16, 130))
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Valid(); err != nil {
			t.Errorf("%s, as Quantize gives it: %v", text, err)
		}
		q.Codes.SetCode(5*130+129, code)
		if _, err := q.Pack(t.Context(), d); err == nil || !strings.Contains(err.Error(), "code [5, 129] of ") {
			t.Errorf("%s with a code %#x: %v", text, code, err)
		}
	}
	for _, text := range []string{"f8e4m3", "f6e5m0"} {
		if e, err := kind(t, text, 16, 130).Export("of", "sm_90a", Extra{}, 1); err != nil || !strings.Contains(string(e.Python), "some codes stand for numbers") {
			t.Errorf("%s: the module takes any codes, %v", text, err)
		}
	}
	if e, err := kind(t, "f6e3m2", 16, 130).Export("of", "sm_90a", Extra{}, 1); err != nil || strings.Contains(string(e.Python), "some codes stand for numbers") {
		t.Errorf("the module looks for codes that there are not, %v", err)
	}
}

// TestReach holds scales that their type does not hold, and what a factor brings in reach.
func TestReach(t *testing.T) {
	size := func(text string, most float64) error {
		w := normal(dtype.F32, 4, 16, 64)
		w.Set(most, 3, 40)
		l := kind(t, text, 16, 64)
		q, err := l.Quantize(t.Context(), w)
		if err == nil {
			if off := math.Abs(q.At(3, 40)/most - 1); off > 0.04 {
				t.Errorf("%s: the greatest weight is off by %.3g of it", text, off)
			}
		}
		return err
	}
	for _, text := range []string{"i4", "u4 zero", "f8e4m3 scale=f8e4m3"} {
		if err := size(text, 1e8); err == nil || !strings.Contains(err.Error(), "take another type of scales, or a factor") || !strings.Contains(err.Error(), "weights [3, 0…]") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"i4 scale=bf16", "i4 factor", "u4 zero factor", "i4 scale=f8e8m0", "nvfp4", "u4 zero group=16 scale=f8e4m3 factor", "i8 scale=f8e4m3 factor", "mxfp4"} {
		if err := size(text, 1e8); err != nil && text != "i4 scale=f8e8m0" && text != "mxfp4" {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Codes span weights of both signs, whose range is up to twice the greatest.
	for _, size := range []float64{2.1, 2.6, 3, 3.9} {
		w := array.New(dtype.F32, 16, 64)
		for i := range w.Len() {
			w.Set(size*float64(1-2*(i%2)), i/64, i%64)
		}
		q, err := kind(t, "u8 zero group=16 scale=f8e4m3 factor", 16, 64).Quantize(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if off := array.RelFro(dequantized(t, q), w); off > 0.04 {
			t.Errorf("zero points and a factor: weights of ±%g are off by %.3g of their norm", size, off)
		}
	}
}

// TestLargest holds layers whose bytes no program reaches, which 32 bits would take for others.
func TestLargest(t *testing.T) {
	for _, c := range []struct {
		text string
		n, k int
		of   string // what several layers are made of; "" where one takes all
	}{
		{"u8", 128256, 8192, ""}, {"u8", 256000, 12288, "outputs"}, {"u4", 256000, 12288, ""}, {"u4", 256000, 18432, "outputs"},
		{"u1", 1 << 24, 1 << 24, "inputs"}, {"u8", 1 << 18, 1 << 13, "outputs"}, {"u8", 1<<18 - 512, 1 << 13, ""},
	} {
		if _, err := Parse(c.text, c.n, c.k); (err == nil) != (c.of == "") || err != nil && !strings.Contains(err.Error(), "make several layers of its "+c.of) {
			t.Errorf("%s [%d, %d]: %v", c.text, c.n, c.k, err)
		}
	}
}

// TestCallsOfNothing refuses calls and sizes that no product has, without a panic and with what there is.
func TestCallsOfNothing(t *testing.T) {
	ctx := t.Context()
	d, err := device.Open("interp")
	if err != nil {
		t.Fatal(err)
	}
	l := kind(t, "u4", 256, 512)
	_, p := packed(t, d, l, 1, nil)
	x := normal(p.ActType, 2, 3, 512)
	huge := &array.Array{Type: p.ActType, Shape: []int{1 << 23, 512}}
	for _, c := range []struct {
		name string
		x    *array.Array
		call Call
		want string
	}{
		{"no x", nil, Call{}, "no x"},
		{"no rows", array.New(p.ActType, 0, 512), Call{}, "there are 1 to"},
		{"other inputs", array.New(p.ActType, 3, 511), Call{}, "the layer takes f16[M, 512]"},
		{"y too large", huge, Call{}, "multiply x in parts"},
		{"residual across", x, Call{Residual: array.New(p.ActType, 256, 3)}, "the residual is f16[256, 3]"},
		{"residual flat", x, Call{Residual: array.New(p.ActType, 3*256)}, "the residual is"},
		{"bias", x, Call{Bias: array.New(p.ActType, 255)}, "the bias is"},
		{"two plans", x, Call{Plan: Wide, Schedule: &template.Schedule{}}, "leave one of them out"},
		{"no plan", x, Call{Plan: "fast"}, `no plan "fast"`},
	} {
		if res, err := p.Run(ctx, d, c.x, c.call); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", c.name, res, err, c.want)
		}
	}
	ragged, of := packed(t, d, kind(t, "u4", 24, 300), 1, nil)
	for _, s := range []template.Schedule{{Parts: 4}, {Stages: 4, Blocks: 2}} {
		if res, err := of.Run(ctx, d, normal(ragged.ActType, 2, 3, 300), Call{Schedule: &s}); err == nil || !strings.Contains(err.Error(), "is not for a layer [24, 300]") {
			t.Errorf("K of 300 by %s: %v, %v", s, res, err)
		}
	}
	if _, err := p.Prepare(ctx, d, MaxSize, Call{}); err == nil || !strings.Contains(err.Error(), "in parts") {
		t.Errorf("x too large to prepare for: %v", err)
	}
	for _, m := range []int{0, -1} {
		if _, err := l.Choose(m); err == nil {
			t.Errorf("a schedule for %d rows", m)
		}
		if _, _, err := l.Known(m); err == nil {
			t.Errorf("a time of %d rows", m)
		}
		if _, err := l.WideSchedules(Wide, m, 0); err == nil {
			t.Errorf("wide schedules for %d rows", m)
		}
	}
	if _, err := l.WideSchedules("fast", 64, 0); err == nil {
		t.Error("schedules of a plan that is none")
	}
	// Weights whose plain ones no array holds are not expanded, however many rows there are.
	big := kind(t, "u4", 152064, 8192).Usual()
	for _, m := range []int{128, 8192} {
		if plans := big.Plans(m); slices.Contains(plans, Expand) {
			t.Errorf("%d rows of %s take %v", m, big, plans)
		}
	}
	if _, err := (&Bench{}).about(l, "small", MaxSize); err == nil {
		t.Error("x of 16 GiB is measured")
	}
	if all, _, err := l.Candidates(64, nil); err != nil || len(all) < 2 {
		t.Errorf("of all plans %d candidates, %v", len(all), err)
	}
	if _, _, err := l.Candidates(16, []string{Wide}); err == nil {
		t.Error("16 rows are searched by warpgroups")
	}
	for _, c := range []struct {
		kind, from string
		m          int
	}{{"u4", "table", 64}, {"u4 zero", "table", 64}, {"u4 group=64", "table", 64}, {"u4", "model", 1000}} {
		if _, from, err := kind(t, c.kind, 57344, 8192).choice(c.m, Call{Plan: map[bool]string{true: Prefill, false: Wide}[c.m > 512]}); err != nil || from != c.from {
			t.Errorf("%s, %d rows: from %s, %v; want %s", c.kind, c.m, from, err, c.from)
		}
	}
	// A few inputs and outputs of very many rows: what programs need of x is larger than x, and grids end.
	few, thin := packed(t, d, kind(t, "u4", 7, 9), 1, nil)
	for _, c := range []struct {
		call Call
		want string
	}{
		{Call{}, "x in the order that programs read f16[16777216 128] is beyond"},
		{Call{Plan: Wide}, "x in the order that programs read"},
		{Call{Soon: true}, "2097152 blocks along dimension 1 of the grid of plan decode"},
		{Call{Plan: Decode}, "multiply x in parts"},
	} {
		x := &array.Array{Type: few.ActType, Shape: []int{MaxSize, 9}}
		if res, err := thin.Run(ctx, d, x, c.call); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "multiply x in parts") {
			t.Errorf("%d rows, %+v: %v, %v; want %q", MaxSize, c.call, res, err, c.want)
		}
	}
	// More outputs than the grid of Expand has blocks for.
	l = kind(t, "u4", 1<<22+8, 8).Usual()
	plan, err := template.PlanOf(l.Form())
	if err != nil {
		t.Fatal(err)
	}
	for n, takes := range map[int]bool{plan.MostExpanded(): true, plan.MostExpanded() + 8: false} {
		l.N = n
		if plans := l.Plans(128); slices.Contains(plans, Expand) != takes || (l.PlanFor(128, Call{}) == Expand) && !takes {
			t.Errorf("128 rows of %d outputs take %v", n, plans)
		}
		program, err := template.Expand(l.Form())
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := ir.EvalInt(program.Grid[1], func(v *ir.Var) (int64, bool) { return map[string]int64{"N": int64(n), "K": 8}[v.Name], true })
		if err != nil || (blocks <= int64(ir.MostBlocks(1))) != takes {
			t.Errorf("%d outputs are expanded by %d blocks, %v", n, blocks, err)
		}
	}
	none := &Packed{Linear: l}
	none.N = plan.MostExpanded() + 8
	if _, _, err := none.begin(d, array.New(l.ActType, 128, 8), Call{Plan: Expand}); err == nil || !strings.Contains(err.Error(), "take plan prefill") {
		t.Errorf("%d outputs by expand: %v", none.N, err)
	}
	if err := fitting(sumsOfBlocks, dtype.F32, []int{16, 1 << 16, 1 << 12}); err == nil {
		t.Error("sums of 16 GiB fit")
	}
}

// TestBroken holds what is said of weights that are none.
func TestBroken(t *testing.T) {
	plain := normal(dtype.F32, 3, 16, 256)
	for want, spoil := range map[string]func(q *Weights){
		"without codes u4[16, 256]": func(q *Weights) { *q = Weights{Linear: q.Linear} },
		"has 7 bytes, and u4[16, 256] takes 2048": func(q *Weights) {
			q.Codes = &array.Array{Type: q.Codes.Type, Shape: q.Codes.Shape, Data: q.Codes.Data[:7]}
		},
		"scales of":         func(q *Weights) { q.Scales = array.New(dtype.F16, 1, 16) },
		"scale [1, 3]":      func(q *Weights) { q.Scales.Set(math.NaN(), 1, 3) },
		"scale [0, 5]":      func(q *Weights) { q.Scales.SetCode(5, q.ScaleType.Encode(math.Inf(1), false)) },
		"zero point [1, 0]": func(q *Weights) { q.Zeros.Set(math.NaN(), 1, 0) },
	} {
		q, err := kind(t, "u4 zero", 16, 256).Quantize(t.Context(), plain)
		if err != nil {
			t.Fatal(err)
		}
		spoil(q)
		if err := q.Valid(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Valid says %v", want, err)
		}
		if _, err := q.Pack(t.Context(), openDevice(t, "interp")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: Pack says %v", want, err)
		}
		numbers := strings.Contains(want, "[1, ") || strings.Contains(want, "[0, ") // which Dequantize gives as they are
		if _, err := q.Dequantize(t.Context()); (err == nil) != numbers {
			t.Errorf("%s: Dequantize says %v", want, err)
		}
	}
	q, err := kind(t, "i4", 16, 256).Quantize(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Pack(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "device.Open") {
		t.Errorf("packed on no device: %v", err)
	}
	p, err := q.Pack(t.Context(), openDevice(t, "interp"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), nil, normal(dtype.F16, 4, 1, 256), Call{}); err == nil || !strings.Contains(err.Error(), "device.Open") {
		t.Errorf("multiplied on no device: %v", err)
	}
	if err := q.Takes(array.New(dtype.F16, 0, 256)); err == nil || !strings.Contains(err.Error(), "there are 1 to") {
		t.Errorf("no rows of x: %v", err)
	}
	for _, name := range []string{"", "a b", "é", "a.b"} {
		if _, err := kind(t, "i4", 16, 256).Export(name, "sm_90a", Extra{}, 1); err == nil || !strings.Contains(err.Error(), "letters, digits and _") {
			t.Errorf("a layer called %q: %v", name, err)
		}
	}
}
