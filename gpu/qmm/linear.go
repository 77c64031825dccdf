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
// who asks for it by name gets less: the plan [Expand] where it rounds weights, layers that are Rounded, schedules
// that round x ([template.Schedule.Rounds]), and layers with a Factor whose products are beyond f32 before it.
package qmm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/workers"
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
	// AnyZero says that zero points may be any numbers of the type of the activations. They are
	// whole numbers from 0 to 255 otherwise, as [Linear.Quantize] makes them, which from 3 bits on
	// are taken off codes before these are multiplied. Of other f16 a whole number near them is, and
	// sums of x take off what is left, which f32 rounds where products are large and cancel; sums
	// take off all of bf16. Weights that may be Rounded have all taken off codes. [Weights.Pack] sets it where there are others.
	AnyZero bool
	// Far says that scales of f8e8m0 may be any. Otherwise those of groups with other weights than 0 are within what
	// programs may fold ([template.Form]), which is faster from two rows of x on: beside f16 mostly from 2^-17 to 1, beside
	// bf16 all but those near its ends. 16-bit scales of groups may be folded where ScaleBits says that weights are
	// exact; Far then says that some are too large for that: beside f16 the bound is 2^9 by the greatest code, rounded to
	// powers of two (32 for u4), in groups of 128 and more, where folding begins beyond 128 rows, less for types of 3, 5 and 6 bits (1
	// for u3, u5 and u6) and some floats ([template.Plan.Folding]). It says the same of weights that
	// were to be Rounded. [Weights.Pack] sets it where there are others.
	Far bool
	// Rounded says that products may round weights to the type of the activations, twice: a code less its zero point,
	// and that times the scale, as frameworks do that make plain weights of layers, and other kernels. In groups
	// of less than 128, with 16-bit scales of the type of the activations, products are then as fast as where weights are exact
	// (ScaleBits), those with zero points that are not whole among them. Of any layer plan [Expand] may make plain weights for thousands of rows,
	// and where groups are of 128 and more and scales 16 bits of the type of the activations, scales may be folded beyond 128 rows.
	// It is leave, not a command: with one row some programs round differences alone. Without it nothing is
	// rounded. [Weights.Pack] sets Far where scales or zero points are too large to be folded so, and takes it back where that type might not hold a weight.
	Rounded bool
	// ScaleBits is how many significant bits scales, times the factor, have at most, where all
	// are within [template.Form.Reach], codes such as [template.Form.Counts], and zero points are values of codes; 0 says nothing of
	// them. [Linear.Quantize] gives scales no more than that, within reach or not (beside a factor that is no power of two it is
	// of the scales alone), and takes 0 as leave to choose. In quantised
	// weights it is what their scales are found to be, and 0 unless [template.Form.Expands].
	// Programs, and the order in which weights are packed, may depend on it ([Linear.Form]), so that who packs and multiplies
	// by [template] himself does both with one number.
	ScaleBits int
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
	return Linear{}, fmt.Errorf("qmm: no preset %q; there are %s", name, strings.Join(Presets(), ", "))
}

// Name is the preset that the layer is of, or else its type of weights, with what is not as usual for
// products that are measured: zero points, groups, scales and a factor.
func (l Linear) Name() string {
	l = l.typed()
	for _, p := range presets {
		f := p.form.Form()
		if f.Act, f.Far = l.ActType, l.Far; f != l.Form() {
			continue
		}
		if l.Far {
			return p.name + " far"
		}
		return p.name
	}
	s := l.WeightType.String()
	switch {
	case l.AnyZero:
		s += " zero=any"
	case l.ZeroPoint:
		s += " zero"
	}
	if l.Group == 0 {
		s += " group=channel"
	} else if l.Group != 128 {
		s += fmt.Sprintf(" group=%d", l.Group)
	}
	if l.ScaleType != dtype.F16 {
		s += " scale=" + l.ScaleType.String()
	}
	if l.Factor {
		s += " factor"
	}
	if l.Far {
		s += " far"
	}
	if l.Form().Rounded {
		s += " rounded"
	}
	return s
}

// MaxSize bounds N and K. Weights as they are stored have at most [array.MaxBytes] too: programs find
// their bytes by 32 bits.
const MaxSize = 1 << 24

// checkRows finds what no number of rows of x could be.
func checkRows(m int) error {
	if m < 1 || m > MaxSize {
		return fmt.Errorf("qmm: %d rows of x: there are 1 to %d", m, MaxSize)
	}
	return nil
}

// typed is the layer with the defaults of types that are left out.
func (l Linear) typed() Linear {
	if l.ActType == 0 {
		l.ActType = dtype.F16
	}
	if l.ScaleType == 0 {
		l.ScaleType = dtype.F16
	}
	return l
}

// Check finds what no layer could be, and fills defaults in.
func (l Linear) Check() (Linear, error) {
	l = l.typed()
	if l.N < 1 || l.K < 1 || l.N > MaxSize || l.K > MaxSize {
		return l, fmt.Errorf("qmm: a layer of %d outputs and %d inputs: there are 1 to %d of each", l.N, l.K, MaxSize)
	}
	if l.ScaleBits < 0 || l.ScaleBits > dtype.F32.Row().Man+1 {
		return l, fmt.Errorf("qmm: scales of %d significant bits: they have 1 to %d; leave scalebits out (ScaleBits 0) for as many as the weights ask for", l.ScaleBits, dtype.F32.Row().Man+1)
	}
	if l.Group > MaxSize {
		return l, fmt.Errorf("qmm: groups of %d inputs, of which a layer has at most %d; group=channel (Group 0) is one scale for each output", l.Group, MaxSize)
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return l, fmt.Errorf("qmm: %w", err)
	}
	if l.Far && !l.bounded() {
		return l, fmt.Errorf("qmm: scales that are far apart, in %s: programs take all of them anyway; leave far out", l)
	}
	// [template.Pack] has k along y of its grid.
	if most := ir.MostBlocks(1) / (template.Turn / p.Sub) * template.Turn; l.K > most {
		return l, fmt.Errorf("qmm: %d inputs of %s: the program that packs its weights takes at most %d; make several layers of its inputs, and add up their products", l.K, l.WeightType, most)
	}
	if stored := p.PackedShape(l.N, l.K); stored[0]*stored[1]*stored[2] >= array.MaxBytes {
		return l, fmt.Errorf("qmm: weights [%d, %d] of %s take %d bytes, and programs reach %d; make several layers of its outputs", l.N, l.K, l.WeightType, stored[0]*stored[1]*stored[2], array.MaxBytes-1)
	}
	return l, nil
}

// bounded reports whether Far says anything of the layer.
func (l Linear) bounded() bool {
	f := l.Form()
	return f.Scale == dtype.F8E8M0 || f.Exacts(1) || l.Rounded && f.Rounds() || l.folding() != nil
}

// Activations are an array, such as x or a bias, in the type of x and y. The error, which begins with the array's name, is of a number
// beyond that type, which would become infinite, of an infinity or NaN, of which no product is a number, or of an array that is none.
func (l Linear) Activations(name string, a *array.Array) (*array.Array, error) {
	if err := complete(a); err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	t := l.typed().ActType
	out := a.Cast(t)
	for i := range out.Len() {
		r := t.Decode(out.Code(i))
		if r-r == 0 {
			continue
		}
		v := a.Type.Decode(a.Code(i))
		if v-v != 0 {
			return nil, fmt.Errorf("%s %s is %v", name, elementAt(i, a.Shape), v)
		}
		way := "divide it"
		if t == dtype.F16 {
			way = "take act=bf16, or divide it"
		}
		return nil, fmt.Errorf("%s has %g, and %s, the type of x and y, holds at most %g; %s", name, v, t, t.Max(), way)
	}
	return out, nil
}

// elementAt is where element i of an array is, "[1, 2]".
func elementAt(i int, shape []int) string {
	at := make([]string, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d] = strconv.Itoa(i % shape[d])
		i /= shape[d]
	}
	return "[" + strings.Join(at, ", ") + "]"
}

// complete finds an array that is not there, or without all the bytes of its type and shape, as hand-made ones may be; errors go on behind its name.
func complete(a *array.Array) error {
	if a == nil {
		return errors.New("is no array, but nil; array.New, array.FromFloats and array.Load make some")
	}
	if err := array.CheckShape(a.Type, a.Shape...); err != nil {
		return fmt.Errorf("is no array: %w", err)
	}
	if takes := dtype.PackedBytes(a.Type.Bits(), a.Len()); len(a.Data) != takes {
		return fmt.Errorf("has %d bytes, and %s takes %d; make it by array.New or array.FromBytes", len(a.Data), a.Header(), takes)
	}
	return nil
}

// Form is what the programs of the layer depend on.
func (l Linear) Form() template.Form {
	l = l.typed()
	f := template.Form{Weight: l.WeightType, Act: l.ActType, Scale: l.ScaleType, Group: l.Group, Zero: l.ZeroPoint, AnyZero: l.AnyZero, Factor: l.Factor}
	if l.ScaleType.Bits() == 16 {
		f.Exact = !l.Far && f.Exacts(l.ScaleBits)
		if l.Rounded && !l.Far && f.Rounds() && (!f.Exact || f.AnyZero) {
			f.Exact, f.Rounded = false, true
		}
	} else {
		f.Far = l.Far
	}
	return f
}

// Weights are quantised weights in plain order. Groups of K's end may be short. Who puts them
// together asks [Weights.Valid].
type Weights struct {
	Linear
	Codes  *array.Array // [N, K]
	Scales *array.Array // [groups, N]
	Zeros  *array.Array // [groups, N], of the type of the activations; nil without zero points
	One    float64      // the factor of all weights; 1 without one
	// Order is which input, a column of x, each k of the codes is of, an i32[K] that has each of 0 to K-1 once: quantisers that
	// choose which inputs share a scale (act-order) do not choose neighbours, of which groups of codes are. Products bring x into that
	// order first. nil is the order of x.
	Order *array.Array
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
// The scale of a group is such that its greatest weight becomes the greatest code ([template.Form.Top]); with zero points, such that the codes span its weights and 0. Powers of two follow
// the MX standard for floats: the exponent of the greatest weight less that of the
// greatest code; for integers they are the least that no weight exceeds.
//
// Other scales have so few significant bits that the type of the activations holds each
// weight as it is, where the weights' error grows by 2% at most, or, as with 8 bits, is up to 1/64 of the weights and grows by 12.5% at most: see [Linear.ScaleBits]; and
// fewer, as long as it is no greater than with all of them. They
// are rounded up, and where few bits are left the best for the group's weights of that and
// its neighbours is taken, so that the greatest weight may be more than a code is. Floats of many exponents, of which a group needs few, have larger
// scales where that makes weights exact: its greatest weight is then a code below the greatest.
//
// With a factor the greatest weight of all has the greatest scale there is, or 1 where scales have the exponents of f32: what products are
// before the factor, y/One, must be in reach of f32.
//
// The error is that of ctx where it ends before, or of weights that scales do not reach: those of a group are too great, or all so small that
// they would become 0.
// Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3.
func (l Linear) Quantize(ctx context.Context, w *array.Array) (*Weights, error) {
	l, err := l.Check()
	if err != nil {
		return nil, err
	}
	if w == nil {
		return nil, fmt.Errorf("qmm: no weights [%d, %d] to quantise", l.N, l.K)
	}
	if !slices.Equal(w.Shape, []int{l.N, l.K}) {
		return nil, fmt.Errorf("qmm: weights are %v, the layer's [%d, %d]", w.Shape, l.N, l.K)
	}
	if err := complete(w); err != nil {
		return nil, fmt.Errorf("qmm: the array of weights to quantise %w", err)
	}
	values, most, err := l.weightsOf(ctx, w)
	if err != nil {
		return nil, err
	}
	q := &Weights{Linear: l, Codes: array.New(l.WeightType, l.N, l.K), Scales: array.New(l.ScaleType, l.Groups(), l.N), One: 1}
	if l.ZeroPoint {
		q.Zeros = array.New(l.ActType, l.Groups(), l.N)
	}
	if err := q.fill(ctx, values, most); err != nil {
		return nil, err
	}
	return q, nil
}

// weightsOf are weights as numbers, and the greatest of them without its sign. What is no weight of the
// layer is an error that says where the first of them is.
func (l Linear) weightsOf(ctx context.Context, w *array.Array) (values []float64, most float64, err error) {
	values = make([]float64, w.Len())
	unsigned := l.WeightType.IsInt() && !l.WeightType.Signed() && !l.ZeroPoint
	parts := workers.Parts(l.N, len(values)>>14)
	mosts, errs := make([]float64, parts), make([]error, parts)
	workers.Share(parts, l.N, func(part, from, to int) {
		bits := w.Type.Bits()
		for n := from; n < to; n++ {
			if errs[part] = ended(ctx); errs[part] != nil {
				return
			}
			for i := n * l.K; i < (n+1)*l.K; i++ {
				v := w.Type.Decode(dtype.Get(w.Data, bits, i))
				values[i] = v
				switch {
				case v-v != 0:
					errs[part] = fmt.Errorf("qmm: weight [%d, %d] is %v", n, i%l.K, v)
					return
				case unsigned && v < 0:
					errs[part] = fmt.Errorf("qmm: weight [%d, %d] is %v, and %s without zero points is never negative; take zero points, or a signed type", n, i%l.K, v, l.WeightType)
					return
				}
				mosts[part] = max(mosts[part], math.Abs(v))
			}
		}
	})
	for _, err := range errs {
		if err != nil {
			return nil, 0, err
		}
	}
	return values, slices.Max(mosts), nil
}

// Valid finds what weights that somebody put together, such as those of a checkpoint, have that
// [Weights.Pack] and [Weights.At] would take for something else: the types and shapes of the
// layer's codes, scales and zero points, and One, which is 1 where the layer has no factor; an Order that has not each input once; and
// codes of no number that the type of the activations holds.
func (q *Weights) Valid() error {
	if err := q.shaped(); err != nil {
		return err
	}
	l := q.Linear
	switch {
	case !l.Factor && q.One != 1:
		return fmt.Errorf("qmm: One is %v, and must be 1 for %s, which has no factor; set Factor, or One", q.One, l)
	case q.One-q.One != 0 || q.One == 0:
		return fmt.Errorf("qmm: One, the factor of all weights, is %v", q.One)
	case math.Abs(q.One) > math.MaxFloat32 || float32(q.One) == 0:
		return fmt.Errorf("qmm: One, the factor of all weights, is %v, beyond f32, as which programs take it; bring scales and One nearer to each other", q.One)
	}
	if err := l.checkOrder(q.Order); err != nil {
		return err
	}
	if err := errors.Join(q.numbers("scale", q.Scales), q.numbers("zero point", q.Zeros)); err != nil {
		return err
	}
	return q.finite()
}

// shaped finds what is no layer, and arrays that are not those of the layer.
func (q *Weights) shaped() error {
	l, err := q.Check()
	if err != nil {
		return err
	}
	if l != q.Linear {
		return fmt.Errorf("qmm: weights of a layer whose types of activations or scales are left out; take what its Check gives")
	}
	groups := []int{l.Groups(), l.N}
	want := []struct {
		name  string
		a     *array.Array
		t     dtype.Type
		shape []int
		held  bool
	}{
		{"codes", q.Codes, l.WeightType, []int{l.N, l.K}, true},
		{"scales", q.Scales, l.ScaleType, groups, true},
		{"zero points", q.Zeros, l.ActType, groups, l.ZeroPoint},
	}
	for _, w := range want {
		is := (&array.Array{Type: w.t, Shape: w.shape}).Header()
		switch {
		case w.a == nil && w.held:
			return fmt.Errorf("qmm: weights of %s without %s %s", l, w.name, is)
		case w.a == nil:
		case !w.held:
			return fmt.Errorf("qmm: weights of %s with %s %s, which the layer has not; set ZeroPoint", l, w.name, w.a.Header())
		case !slices.Equal(w.a.Shape, w.shape):
			return fmt.Errorf("qmm: %s of %s are %s, and must be %s", w.name, l, w.a.Header(), is)
		case w.a.Type != w.t:
			return fmt.Errorf("qmm: %s of %s are %s, and must be %s; Cast makes them so", w.name, l, w.a.Header(), is)
		}
		if w.a == nil {
			continue
		}
		if err := complete(w.a); err != nil {
			return fmt.Errorf("qmm: the array of %s of %s %w", w.name, l, err)
		}
	}
	return nil
}

// numbers finds what is no number in an array of groups, [groups, N]. Powers of two have NaN by the MX standard, of a group that is none.
func (q *Weights) numbers(what string, a *array.Array) error {
	if a == nil || a.Type == dtype.F8E8M0 {
		return nil
	}
	for _, code := range distinct(a) {
		v := a.Type.Decode(code)
		if v-v == 0 {
			continue
		}
		i := 0
		for a.Code(i) != code {
			i++
		}
		return fmt.Errorf("qmm: %s [%d, %d] of %s is %v, and must be a number; make it another one", what, i/q.N, i%q.N, q.Linear, v)
	}
	return nil
}

// checkOrder finds what is no order of the layer's inputs.
func (l Linear) checkOrder(order *array.Array) error {
	if order == nil {
		return nil
	}
	if order.Type != dtype.I32 || !slices.Equal(order.Shape, []int{l.K}) {
		return fmt.Errorf("qmm: the order of inputs of %s is %s, and must be i32[%d]; leave Order nil where inputs are in the order of x", l, order.Header(), l.K)
	}
	if err := complete(order); err != nil {
		return fmt.Errorf("qmm: the order of inputs of %s %w", l, err)
	}
	at := make([]int32, l.K) // of each input, counted from 1
	for k := range l.K {
		from := order.Type.DecodeInt(order.Code(k))
		switch {
		case from < 0 || from >= int64(l.K):
			return fmt.Errorf("qmm: order[%d] of %s is %d, and its inputs are 0 to %d; an order has each of them once", k, l, from, l.K-1)
		case at[from] > 0:
			return fmt.Errorf("qmm: order[%d] of %s is %d, which order[%d] is too; an order has each of 0 to %d once", k, l, from, at[from]-1, l.K-1)
		}
		at[from] = int32(k) + 1
	}
	return nil
}

// unheld are the codes of numbers with which no program multiplies ([template.Form.Holds]). Programs take any number for them.
func (l Linear) unheld() (codes []uint64) {
	f := l.Form()
	for code := range uint64(1) << l.WeightType.Bits() {
		if !f.Holds(l.WeightType.Decode(code)) {
			codes = append(codes, code)
		}
	}
	return codes
}

// outside are the codes, unheld ones among them, of which [Linear.ScaleBits] says nothing: layers that have some have ScaleBits 0.
func (l Linear) outside() (codes []uint64) {
	f := l.Form()
	for code := range uint64(1) << l.WeightType.Bits() {
		if !f.Counts(l.WeightType.Decode(code)) {
			codes = append(codes, code)
		}
	}
	return codes
}

// narrow reports whether numbers that the type of the activations holds are among those.
func (l Linear) narrow() bool { return len(l.outside()) > len(l.unheld()) }

// finite finds a weight whose code is unheld.
func (q *Weights) finite() error {
	i := q.first(q.unheld())
	if i < 0 {
		return nil
	}
	return fmt.Errorf("qmm: code [%d, %d] of %s stands for %v, and weights are 0, or numbers from %g to %g, beside activations of %s; make it another one", i/q.K, i%q.K, q.Linear, q.WeightType.Decode(q.Codes.Code(i)), q.smallest(), min(q.WeightType.Max(), q.ActType.Max()), q.ActType)
}

// first is the first weight with one of some codes, -1 if none has.
func (q *Weights) first(codes []uint64) int {
	if len(codes) == 0 {
		return -1
	}
	var is [256]bool
	for _, code := range codes {
		is[code] = true
	}
	n := q.Codes.Len()
	first := make([]int, workers.Parts(n, n>>16)) // of each worker's part
	workers.Share(len(first), n, func(w, at, end int) {
		for at < end && !is[q.Codes.Code(at)] {
			at++
		}
		if first[w] = at; at == end {
			first[w] = n
		}
	})
	if i := slices.Min(first); i < n {
		return i
	}
	return -1
}

// At is a weight as it is multiplied with, of the k that its code has: input Order[k], where there is an Order.
func (q *Weights) At(n, k int) float64 {
	v, at := q.Codes.At(n, k), q.groupOf(k)*q.N+n
	if q.Zeros != nil {
		v -= q.Zeros.Type.Decode(q.Zeros.Code(at))
	}
	return v * q.Scales.Type.Decode(q.Scales.Code(at)) * q.One
}

// Dequantize is the weights as f32 [N, K], in the order of x. The error is that of ctx where it ends before, or of arrays that are not the
// layer's, such as an Order that has not each input once.
func (q *Weights) Dequantize(ctx context.Context) (*array.Array, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := q.shaped(); err != nil {
		return nil, err
	}
	if err := q.checkOrder(q.Order); err != nil {
		return nil, err
	}
	out := array.New(dtype.F32, q.N, q.K)
	workers.Share(workers.Parts(q.N, q.N*q.K>>14), q.N, func(_, from, to int) {
		for n := from; n < to && ctx.Err() == nil; n++ {
			for k := range q.K {
				input := k
				if q.Order != nil {
					input = int(q.Order.Code(k))
				}
				out.Set(q.At(n, k), n, input)
			}
		}
	})
	if err := ended(ctx); err != nil {
		return nil, err
	}
	return out, nil
}

// ended is the error of a context that has ended, or is none.
func ended(ctx context.Context) error {
	if ctx == nil {
		return errors.New("qmm: no context, but nil; context.Background() is one that never ends")
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("qmm: %w", err)
	}
	return nil
}

// Bytes is what a product reads of the layer: codes, scales and zero points.
func (l Linear) Bytes() int64 {
	bits := int64(l.N) * int64(l.K) * int64(l.WeightType.Bits())
	scales := int64(l.N) * int64(l.Groups())
	out := bits/8 + scales*int64(l.Form().Scale.Bits())/8
	if p, err := template.PlanOf(l.Form()); err == nil && l.ZeroPoint {
		out += scales * int64(p.ZeroType().Bits()) / 8
	}
	return out
}
