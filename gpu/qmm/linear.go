// Package qmm multiplies with quantised weights: y[M, N] = x[M, K]·wᵀ, where w[N, K]
// is stored in elements of 1 to 8 bits with a scale for each group of k.
//
// A [Linear] says which kind of layer it is. [Linear.Quantize] rounds plain weights to
// it, [Weights.Pack] brings them into the order that the kernels read, by a program of
// the tile machine, and [Packed.Run] multiplies, for any M, on any device. The programs
// are those of gpu/qmm/template.
//
// What a product takes by itself is as exact as sums in f32: for any x, its error against
// float64 of the quantised weights is at most 1.1 of theirs, both rounded to the type of y
// (TestTypes and TestErrors on the simulator, tests/record/lowbit_types.json on a GPU). Only
// who asks for it by name gets less: the plan [Expand] where it rounds weights, and schedules
// that round x ([template.Schedule.Rounds]).
package qmm

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Linear is a kind of quantised linear layer: w[n, k] = (q[n, k] − z)·s, where s and z
// belong to Group neighbours of k.
type Linear struct {
	WeightType dtype.Type // u1 to u8, i2 to i8, or a float of 3 to 8 bits
	ActType    dtype.Type // of x and y: f16, the default, or bf16
	Group      int        // 16, 32, 64 or a multiple of 128; 0 is one scale for each output
	ScaleType  dtype.Type // f16, the default, bf16, f8e8m0 or f8e4m3
	ZeroPoint  bool       // weights, which must be unsigned, have zero points
	Factor     bool       // all weights have one more factor, an f32
	N, K       int        // outputs and inputs
}

// preset is a named form.
type preset struct {
	name string
	form Linear
	doc  string
}

var presets = []preset{
	{"mxfp4", Linear{WeightType: dtype.F4E2M1, Group: 32, ScaleType: dtype.F8E8M0}, "OCP MX: f4e2m1 in groups of 32 with powers of two"},
	{"mxfp6e2m3", Linear{WeightType: dtype.F6E2M3, Group: 32, ScaleType: dtype.F8E8M0}, "OCP MX: f6e2m3 in groups of 32 with powers of two"},
	{"mxfp6e3m2", Linear{WeightType: dtype.F6E3M2, Group: 32, ScaleType: dtype.F8E8M0}, "OCP MX: f6e3m2 in groups of 32 with powers of two"},
	{"mxfp8e4m3", Linear{WeightType: dtype.F8E4M3, Group: 32, ScaleType: dtype.F8E8M0}, "OCP MX: f8e4m3 in groups of 32 with powers of two"},
	{"mxfp8e5m2", Linear{WeightType: dtype.F8E5M2, Group: 32, ScaleType: dtype.F8E8M0}, "OCP MX: f8e5m2 in groups of 32 with powers of two"},
	{"mxint8", Linear{WeightType: dtype.I8, Group: 32, ScaleType: dtype.F8E8M0}, "OCP MX: i8 in groups of 32 with powers of two, which hold the format's 2^-6 too"},
	{"nvfp4", Linear{WeightType: dtype.F4E2M1, Group: 16, ScaleType: dtype.F8E4M3, Factor: true}, "NVIDIA: f4e2m1 in groups of 16 with f8e4m3 and one f32 for all"},
}

// Presets are the names that [Preset] takes.
func Presets() []string {
	var names []string
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// Preset is a block-scaled format of n outputs and k inputs, by its name.
func Preset(name string, n, k int) (Linear, error) {
	for _, p := range presets {
		if p.name == name {
			p.form.N, p.form.K, p.form.ActType = n, k, dtype.F16
			return p.form, nil
		}
	}
	return Linear{}, fmt.Errorf("qmm: no preset %q; there are %v", name, Presets())
}

// MaxSize bounds N and K: products of them index tensors in 64 bits, sizes are i32.
const MaxSize = 1 << 24

// Check finds what no layer could be, and fills defaults in.
func (l Linear) Check() (Linear, error) {
	if l.ActType == 0 {
		l.ActType = dtype.F16
	}
	if l.ScaleType == 0 {
		l.ScaleType = dtype.F16
	}
	if l.N < 1 || l.K < 1 || l.N > MaxSize || l.K > MaxSize {
		return l, fmt.Errorf("qmm: a layer of %d outputs and %d inputs", l.N, l.K)
	}
	if _, err := template.PlanOf(l.Form()); err != nil {
		return l, fmt.Errorf("qmm: %w", err)
	}
	return l, nil
}

// Form is what the programs of the layer depend on.
func (l Linear) Form() template.Form {
	return template.Form{Weight: l.WeightType, Act: l.ActType, Scale: l.ScaleType, Group: l.Group, Zero: l.ZeroPoint, Factor: l.Factor}
}

// Weights are quantised weights in plain order. Groups of K's end may be short.
type Weights struct {
	Linear
	Codes  *array.Array // [N, K]
	Scales *array.Array // [groups, N]
	Zeros  *array.Array // [groups, N], nil without zero points
	One    float64      // the factor of all weights; 1 without one
}

// Groups is how many scales an output has.
func (l Linear) Groups() int {
	if l.Group == 0 {
		return 1
	}
	return (l.K + l.Group - 1) / l.Group
}

// groupOf is the group of a k.
func (l Linear) groupOf(k int) int {
	if l.Group == 0 {
		return 0
	}
	return k / l.Group
}

// Quantize rounds plain weights w[N, K] to the nearest of the layer's, group by group.
//
// The scale of a group is such that its greatest weight becomes the greatest code that the
// type of the activations holds; with zero points, such that the codes span its weights and 0. Powers of two follow
// the MX standard for floats: the exponent of the greatest weight less that of the
// greatest code; for integers they are the least that no weight exceeds.
// Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3.
func (l Linear) Quantize(w *array.Array) (*Weights, error) {
	l, err := l.Check()
	if err != nil {
		return nil, err
	}
	if len(w.Shape) != 2 || w.Shape[0] != l.N || w.Shape[1] != l.K {
		return nil, fmt.Errorf("qmm: weights are %v, the layer's [%d, %d]", w.Shape, l.N, l.K)
	}
	values := w.Floats()
	unsigned := l.WeightType.IsInt() && !l.WeightType.Signed()
	most := 0.0
	for i, v := range values {
		switch {
		case v-v != 0:
			return nil, fmt.Errorf("qmm: weight [%d, %d] is %v", i/l.K, i%l.K, v)
		case unsigned && !l.ZeroPoint && v < 0:
			return nil, fmt.Errorf("qmm: weight [%d, %d] is %v, and %s without zero points is never negative; take zero points, or a signed type", i/l.K, i%l.K, v, l.WeightType)
		}
		most = max(most, math.Abs(v))
	}
	q := &Weights{Linear: l, Codes: array.New(l.WeightType, l.N, l.K), Scales: array.New(l.ScaleType, l.Groups(), l.N), One: 1}
	if l.ZeroPoint {
		q.Zeros = array.New(l.ActType, l.Groups(), l.N)
	}
	top := l.top()
	if l.Factor {
		if most > 0 {
			q.One = float64(float32(most / (l.ScaleType.Max() * top)))
		}
		if q.One == 0 {
			q.One = math.SmallestNonzeroFloat32
		}
	}
	size := l.Group
	if size == 0 {
		size = l.K
	}
	for n := range l.N {
		for g := range l.Groups() {
			from, to := g*size, min((g+1)*size, l.K)
			q.round(n, g, from, values[n*l.K+from:n*l.K+to], top)
		}
	}
	return q, nil
}

// top is the greatest value of a code that groups take: the greatest that the type of the
// activations, with which weights are multiplied, holds too.
func (l Linear) top() float64 {
	t, most := l.WeightType, l.ActType.Max()
	if t.Max() <= most {
		return t.Max()
	}
	top := 0.0
	for code := range uint64(1) << t.Bits() {
		if v := t.Decode(code); v <= most {
			top = max(top, v)
		}
	}
	return top
}

// round quantises one group of an output.
func (q *Weights) round(n, g, from int, values []float64, top float64) {
	t := q.WeightType
	lo, hi := 0.0, 0.0
	for _, v := range values {
		lo, hi = min(lo, v/q.One), max(hi, v/q.One)
	}
	zero, want := 0.0, max(hi, -lo)/top
	if q.ZeroPoint {
		want = (hi - lo) / t.Max()
	}
	scale := q.scale(want, max(hi, -lo), top)
	at := g*q.N + n
	q.Scales.SetCode(at, scale)
	s := q.ScaleType.Decode(scale)
	if q.ZeroPoint {
		zero = min(math.RoundToEven(-lo/s), t.Max())
		q.Zeros.SetCode(at, q.ActType.Encode(zero, true))
	}
	for i, v := range values {
		x := v/q.One/s + zero
		if t.IsInt() {
			x = math.RoundToEven(x)
			if t.Signed() {
				x = max(x, -top) // symmetric
			}
		}
		code := t.Encode(min(max(x, t.Min(), -top), top), true)
		q.Codes.SetCode(n*q.K+from+i, code)
	}
}

// scale is the code of the scale nearest to want, which is not 0, for a group whose
// greatest weight is most and becomes top.
func (l Linear) scale(want, most, top float64) uint64 {
	t := l.ScaleType
	if want == 0 {
		return t.Encode(1, true)
	}
	if t == dtype.F8E8M0 {
		e := math.Ceil(math.Log2(want))
		if l.WeightType.IsFloat() {
			_, a := math.Frexp(most)
			_, b := math.Frexp(top)
			e = float64(a - b)
		}
		return t.Encode(math.Ldexp(1, int(max(-127, min(127, e)))), true)
	}
	code := t.Encode(want, true)
	if t.Decode(code) == 0 {
		code = 1 // the least there is
	}
	return code
}

// At is a weight as it is multiplied with.
func (q *Weights) At(n, k int) float64 {
	v, at := q.Codes.At(n, k), q.groupOf(k)*q.N+n
	if q.Zeros != nil {
		v -= q.ActType.Decode(q.Zeros.Code(at))
	}
	return v * q.ScaleType.Decode(q.Scales.Code(at)) * q.One
}

// Dequantize is the weights as f32 [N, K].
func (q *Weights) Dequantize() *array.Array {
	out := array.New(dtype.F32, q.N, q.K)
	for n := range q.N {
		for k := range q.K {
			out.Set(q.At(n, k), n, k)
		}
	}
	return out
}

// Bytes is what a product reads of the layer: codes, scales and zero points.
func (l Linear) Bytes() int64 {
	bits := int64(l.N) * int64(l.K) * int64(l.WeightType.Bits())
	scales := int64(l.N) * int64(l.Groups())
	out := bits/8 + scales*int64(l.ScaleType.Bits())/8
	if l.ZeroPoint {
		out += 2 * scales
	}
	return out
}
