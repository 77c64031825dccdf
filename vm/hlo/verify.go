package hlo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Verify checks a module: operands and their types, attributes, the shape of every
// result, called computations. The problems are located where the instruction has
// its name.
func Verify(m *Module) diag.List {
	var list diag.List
	for _, c := range m.Computations {
		for i, p := range c.Params {
			if p.Number != i {
				list.Addf(p.Pos, codeParam, "", "the parameters of %s are numbered from 0 without gaps; parameter(%d) stands where parameter(%d) must", c.Name, p.Number, i)
				break
			}
		}
		for _, in := range c.Instructions {
			v := verifier{in: in}
			v.check()
			list = append(list, v.list...)
			if len(list) >= maxProblems {
				return list
			}
		}
	}
	return list
}

type verifier struct {
	in   *Instruction
	list diag.List
}

func (v *verifier) bad(code, format string, args ...any) {
	v.list.Addf(v.in.Pos, code, "", "%s: %s", v.in.Op, fmt.Sprintf(format, args...))
}

// want compares the shape that an operation gives with the one that stands in the text.
func (v *verifier) want(s Shape) {
	if !s.Same(v.in.Shape) {
		v.bad(codeResult, "the result is %s, not %s", withoutLayout(s), withoutLayout(v.in.Shape))
	}
}

func withoutLayout(s Shape) Shape {
	s.Layout = nil
	s.Elems = slices.Clone(s.Elems)
	for i := range s.Elems {
		s.Elems[i] = withoutLayout(s.Elems[i])
	}
	return s
}

func (v *verifier) check() {
	in := v.in
	row := in.Op.Row()
	if row.Args >= 0 && len(in.Operands) != row.Args {
		v.bad(codeArgs, "%d operands, not %d", row.Args, len(in.Operands))
		return
	}
	if in.Op.Class() == Opaque {
		return
	}
	if !slices.Contains([]Op{Tuple, Fusion, Call, GetTupleElement, Parameter}, in.Op) {
		for _, o := range in.Operands {
			if o.Shape.IsTuple() || o.Shape.Type == TokenType {
				v.bad(codeTypes, "%s is %s, which is no array", o.Name, o.Shape)
				return
			}
		}
		several := slices.Contains([]Op{Reduce, ReduceWindow, Scatter, Scan, AllGather, Map}, in.Op)
		if !several && in.Shape.IsTuple() {
			v.bad(codeResult, "the result is an array, not %s", in.Shape)
			return
		}
	}
	if in.Op.Elementwise() && in.Op != Map {
		v.elementwise()
		return
	}
	switch in.Op {
	case Constant:
		if in.Shape.Type == TokenType || in.Shape.IsTuple() {
			v.bad(codeResult, "a constant is an array, not %s", in.Shape)
		}
	case Iota:
		v.types(in.Shape.Type, "ifc")
		if in.Number < 0 || in.Number >= len(in.Shape.Dims) {
			v.bad(codeValue, "iota_dimension=%d is no dimension of %s", in.Number, in.Shape)
		}
	case Map:
		v.mapped()
	case Broadcast, Transpose, Reshape, Bitcast, Reverse, Slice, Pad, Concatenate, DynamicSlice, DynamicUpdateSlice:
		v.movement()
	case Gather:
		v.gather()
	case Reduce:
		v.reduce()
	case ReduceWindow:
		v.reduceWindow()
	case Scatter:
		v.scatter()
	case Dot, ScaledDot:
		v.dot()
	case Convolution:
		v.convolution()
	case Scan:
		if in.Apply == nil || in.Dims == nil || len(in.Dims) != 1 {
			v.bad(codeMissing, "dimensions={…} of one dimension and to_apply are needed")
		}
	case AllGather:
		if in.Dims == nil || len(in.Dims) != 1 || len(in.Operands) == 0 || in.Shape.IsTuple() {
			v.bad(codeMissing, "dimensions={…} of one dimension is needed, and an operand")
			return
		}
		for _, o := range in.Operands {
			if !v.dims(in.Dims, o.Shape) || len(o.Shape.Dims) != len(in.Shape.Dims) {
				v.bad(codeResult, "%s and the result %s differ in rank", o.Name, in.Shape)
			}
		}
	case Fusion, Call:
		v.call()
	case Tuple:
		s := Shape{Type: TupleType}
		for _, o := range in.Operands {
			s.Elems = append(s.Elems, o.Shape)
		}
		v.want(s)
	case GetTupleElement:
		s := in.Operands[0].Shape
		if !s.IsTuple() || in.Number < 0 || in.Number >= len(s.Elems) {
			v.bad(codeValue, "%s is %s and has no element %d", in.Operands[0].Name, s, in.Number)
			return
		}
		v.want(s.Elems[in.Number])
	}
}

// types checks an element type against letters of b(ool) i(nteger) f(loat) c(omplex).
func (v *verifier) types(t Type, letters string) bool {
	letter := "c"
	switch {
	case t == Pred:
		letter = "b"
	case t.IsInt():
		letter = "i"
	case t.IsFloat():
		letter = "f"
	case t == TupleType || t == TokenType:
		letter = "-"
	}
	if !strings.Contains(letters, letter) {
		v.bad(codeTypes, "it is not defined on %s", t)
		return false
	}
	return true
}

// same checks that operands from..to have the type and sizes of the first of them.
func (v *verifier) same(operands []*Instruction) bool {
	for _, o := range operands[1:] {
		if !o.Shape.Same(operands[0].Shape) {
			v.bad(codeTypes, "%s is %s and %s is %s; they must agree", operands[0].Name, withoutLayout(operands[0].Shape), o.Name, withoutLayout(o.Shape))
			return false
		}
	}
	return true
}

func (v *verifier) elementwise() {
	in := v.in
	letters := in.Op.Row().Types
	a := in.Operands[0].Shape
	switch in.Op {
	case Select:
		if a.Type != Pred {
			v.bad(codeTypes, "%s is %s, not pred", in.Operands[0].Name, a)
			return
		}
		if len(a.Dims) > 0 && !slices.Equal(a.Dims, in.Shape.Dims) {
			v.bad(codeTypes, "%s is %s and the result %s; they must have the same sizes", in.Operands[0].Name, a, in.Shape)
			return
		}
		if v.same(in.Operands[1:]) {
			v.want(in.Operands[1].Shape)
		}
		return
	case Clamp:
		x := in.Operands[1].Shape
		for _, k := range []int{0, 2} {
			o := in.Operands[k].Shape
			if o.Type != x.Type || len(o.Dims) > 0 && !slices.Equal(o.Dims, x.Dims) {
				v.bad(codeTypes, "%s is %s, which does not fit %s", in.Operands[k].Name, o, withoutLayout(x))
				return
			}
		}
		if v.types(x.Type, letters) {
			v.want(x)
		}
		return
	}
	if !v.same(in.Operands) || !v.types(a.Type, letters) {
		return
	}
	out := Shape{Type: a.Type, Dims: a.Dims}
	switch in.Op {
	case Convert, BitcastConvert:
		out.Type = in.Shape.Type
		if !v.types(out.Type, letters) {
			return
		}
		if in.Op == BitcastConvert && out.Type.Bits() != a.Type.Bits() {
			v.bad(codeTypes, "%s has %d bits and %s %d", a.Type, a.Type.Bits(), out.Type, out.Type.Bits())
			return
		}
	case Compare:
		if in.Direction == "" {
			v.bad(codeMissing, "direction=EQ, NE, LT, LE, GT or GE is needed")
			return
		}
		if in.Direction != "EQ" && in.Direction != "NE" && (a.Type == C64 || a.Type == C128) {
			v.bad(codeTypes, "complex numbers have no order")
		}
		out.Type = Pred
	case IsFinite:
		out.Type = Pred
	case Abs:
		if a.Type.IsInt() && !a.Type.Signed() {
			v.bad(codeTypes, "it is not defined on %s", a.Type)
			return
		}
	case ReducePrecision:
		if len(in.Sizes) != 2 || in.Sizes[0] < 1 || in.Sizes[1] < 0 || in.Sizes[0] > 11 || in.Sizes[1] > 52 {
			v.bad(codeMissing, "exponent_bits from 1 to 11 and mantissa_bits from 0 to 52 are needed")
			return
		}
	}
	v.want(out)
}

// dims checks that a list names dimensions of a shape, each at most once.
func (v *verifier) dims(list []int, s Shape) bool {
	for i, d := range list {
		if d < 0 || d >= len(s.Dims) || slices.Contains(list[:i], d) {
			v.bad(codeValue, "{%s} does not name different dimensions of %s", commas(list), withoutLayout(s))
			return false
		}
	}
	return true
}

func (v *verifier) sized(t Type, dims []int) {
	s := Shape{Type: t, Dims: dims}
	for _, d := range dims {
		if d < 0 {
			v.bad(codeValue, "the result would have the size %d", d)
			return
		}
	}
	v.want(s)
}

func (v *verifier) movement() {
	in := v.in
	if len(in.Operands) == 0 {
		v.bad(codeArgs, "an operand is needed")
		return
	}
	a := in.Operands[0].Shape
	missing := func(name string) {
		help := ""
		var names []string
		for _, e := range in.Extra {
			names = append(names, e.Name)
		}
		if near := diag.Suggest(name, names); near != "" {
			help = "the attribute is called " + name
		}
		v.list.Addf(in.Pos, codeMissing, help, "%s: %s is needed", in.Op, name)
	}
	switch in.Op {
	case Broadcast:
		if in.Dims == nil {
			missing("dimensions")
			return
		}
		if len(in.Dims) != len(a.Dims) || !v.dims(in.Dims, in.Shape) {
			if len(in.Dims) != len(a.Dims) {
				v.bad(codeValue, "dimensions={%s} has not one place for each dimension of %s", commas(in.Dims), withoutLayout(a))
			}
			return
		}
		for i, d := range in.Dims {
			if in.Shape.Dims[d] != a.Dims[i] {
				v.bad(codeResult, "dimension %d has size %d in the operand and %d in the result", d, a.Dims[i], in.Shape.Dims[d])
				return
			}
		}
		if in.Shape.Type != a.Type {
			v.bad(codeResult, "the result is of %s, not %s", a.Type, in.Shape.Type)
		}
	case Transpose:
		if in.Dims == nil {
			missing("dimensions")
			return
		}
		if len(in.Dims) != len(a.Dims) {
			v.bad(codeValue, "dimensions={%s} is no order of the dimensions of %s", commas(in.Dims), withoutLayout(a))
			return
		}
		if v.dims(in.Dims, a) {
			out := make([]int, len(in.Dims))
			for i, d := range in.Dims {
				out[i] = a.Dims[d]
			}
			v.sized(a.Type, out)
		}
	case Reshape:
		if a.Type != in.Shape.Type || a.Elements() != in.Shape.Elements() {
			v.bad(codeResult, "%s and %s have not the same elements", withoutLayout(a), withoutLayout(in.Shape))
		}
	case Bitcast:
		if a.Type.Bits() != in.Shape.Type.Bits() || a.Elements() != in.Shape.Elements() {
			v.bad(codeResult, "%s and %s have not the same bytes", withoutLayout(a), withoutLayout(in.Shape))
		}
	case Reverse:
		if in.Dims == nil {
			missing("dimensions")
		} else if v.dims(in.Dims, a) {
			v.want(a)
		}
	case Slice:
		if in.Slices == nil {
			missing("slice")
			return
		}
		if len(in.Slices) != len(a.Dims) {
			v.bad(codeValue, "%d ranges for the %d dimensions of %s", len(in.Slices), len(a.Dims), withoutLayout(a))
			return
		}
		out := make([]int, len(a.Dims))
		for i, s := range in.Slices {
			if s.Stride < 1 || s.Start < 0 || s.Limit < s.Start || s.Limit > a.Dims[i] {
				v.bad(codeValue, "[%d:%d:%d] does not lie in the size %d of dimension %d", s.Start, s.Limit, s.Stride, a.Dims[i], i)
				return
			}
			out[i] = (s.Limit - s.Start + s.Stride - 1) / s.Stride
		}
		v.sized(a.Type, out)
	case Pad:
		if in.Pads == nil && len(a.Dims) > 0 {
			missing("padding")
			return
		}
		p := in.Operands[1].Shape
		if p.Type != a.Type || len(p.Dims) != 0 {
			v.bad(codeTypes, "the padding %s is %s, not %s[]", in.Operands[1].Name, p, a.Type)
			return
		}
		if len(in.Pads) != len(a.Dims) {
			v.bad(codeValue, "padding of %d dimensions for the %d of %s", len(in.Pads), len(a.Dims), withoutLayout(a))
			return
		}
		out := make([]int, len(a.Dims))
		for i, p := range in.Pads {
			if p.Interior < 0 {
				v.bad(codeValue, "interior padding %d", p.Interior)
				return
			}
			n, ok := paddedSize(a.Dims[i], p)
			if !ok {
				v.bad(codeValue, "dimension %d is padded beyond all sizes, or to less than none", i)
				return
			}
			out[i] = n
		}
		v.sized(a.Type, out)
	case Concatenate:
		if in.Dims == nil {
			missing("dimensions")
			return
		}
		if len(in.Dims) != 1 || !v.dims(in.Dims, a) {
			if len(in.Dims) != 1 {
				v.bad(codeValue, "it runs along one dimension, not {%s}", commas(in.Dims))
			}
			return
		}
		axis := in.Dims[0]
		out := slices.Clone(a.Dims)
		for _, o := range in.Operands[1:] {
			other := slices.Clone(o.Shape.Dims)
			if len(other) == len(out) {
				out[axis] += other[axis]
				other[axis] = a.Dims[axis]
			}
			if o.Shape.Type != a.Type || !slices.Equal(other, a.Dims) {
				v.bad(codeTypes, "%s is %s, which does not fit %s along dimension %d", o.Name, withoutLayout(o.Shape), withoutLayout(a), axis)
				return
			}
		}
		v.sized(a.Type, out)
	case DynamicSlice:
		if in.Sizes == nil {
			missing("dynamic_slice_sizes")
			return
		}
		if len(in.Sizes) != len(a.Dims) {
			v.bad(codeValue, "%d sizes for the %d dimensions of %s", len(in.Sizes), len(a.Dims), withoutLayout(a))
			return
		}
		for i, n := range in.Sizes {
			if n < 0 || n > a.Dims[i] {
				v.bad(codeValue, "size %d of dimension %d, which has %d", n, i, a.Dims[i])
				return
			}
		}
		if v.starts(in.Operands[1:], len(a.Dims)) {
			v.sized(a.Type, in.Sizes)
		}
	case DynamicUpdateSlice:
		if len(in.Operands) < 2 {
			v.bad(codeArgs, "a tensor, an update and starts are needed")
			return
		}
		u := in.Operands[1].Shape
		if u.Type != a.Type || len(u.Dims) != len(a.Dims) {
			v.bad(codeTypes, "the update %s does not fit %s", withoutLayout(u), withoutLayout(a))
			return
		}
		for i, n := range u.Dims {
			if n > a.Dims[i] {
				v.bad(codeTypes, "the update %s is larger than %s", withoutLayout(u), withoutLayout(a))
				return
			}
		}
		if v.starts(in.Operands[2:], len(a.Dims)) {
			v.want(a)
		}
	}
}

// paddedSize is the size of a padded dimension.
func paddedSize(n int, p PadDim) (int, bool) {
	inner := 0
	if n > 0 {
		inner = n - 1
	}
	if p.Interior > 0 && inner > int(MaxBytes)/p.Interior {
		return 0, false
	}
	out := n + inner*p.Interior + p.Lo + p.Hi
	return out, out >= 0 && int64(out) <= MaxBytes*8
}

func (v *verifier) starts(list []*Instruction, rank int) bool {
	if len(list) != rank {
		v.bad(codeArgs, "%d starts for %d dimensions", len(list), rank)
		return false
	}
	for _, s := range list {
		if !s.Shape.Type.IsInt() || len(s.Shape.Dims) != 0 || s.Shape.Type != list[0].Shape.Type {
			v.bad(codeTypes, "the start %s is %s; starts are whole numbers of one type", s.Name, s.Shape)
			return false
		}
	}
	return true
}

// applies checks a called computation: it takes scalars of the given types, and gives as
// many results as results has types.
func (v *verifier) applies(params, results []Type) bool {
	c := v.in.Apply
	if c == nil {
		v.bad(codeMissing, "to_apply is needed")
		return false
	}
	ok := len(c.Params) == len(params)
	for i := 0; ok && i < len(params); i++ {
		s := c.Params[i].Shape
		ok = s.Type == params[i] && len(s.Dims) == 0
	}
	out := c.Root.Shape.Outputs()
	ok = ok && len(out) == len(results)
	for i := 0; ok && i < len(results); i++ {
		ok = out[i].Type == results[i] && len(out[i].Dims) == 0
	}
	if !ok {
		v.bad(codeApply, "%s must take scalars %v and give %v", c.Name, params, results)
	}
	return ok
}

func (v *verifier) mapped() {
	in := v.in
	if len(in.Operands) == 0 {
		v.bad(codeArgs, "an operand is needed")
		return
	}
	var params []Type
	for _, o := range in.Operands {
		if !slices.Equal(o.Shape.Dims, in.Operands[0].Shape.Dims) {
			v.bad(codeTypes, "%s and %s have different sizes", in.Operands[0].Name, o.Name)
			return
		}
		params = append(params, o.Shape.Type)
	}
	if v.applies(params, []Type{in.Shape.Type}) {
		v.want(Shape{Type: in.Shape.Type, Dims: in.Operands[0].Shape.Dims})
	}
}

// inits checks inputs and initial values of a reduction.
func (v *verifier) inits() (input Shape, ok bool) {
	in := v.in
	n := len(in.Operands) / 2
	if n == 0 || len(in.Operands)%2 != 0 {
		v.bad(codeArgs, "as many initial values as inputs are needed")
		return Shape{}, false
	}
	var types []Type
	for i, o := range in.Operands[:n] {
		first, init := in.Operands[0].Shape, in.Operands[n+i]
		if !slices.Equal(o.Shape.Dims, first.Dims) {
			v.bad(codeTypes, "%s and %s have different sizes", in.Operands[0].Name, o.Name)
			return Shape{}, false
		}
		if init.Shape.Type != o.Shape.Type || len(init.Shape.Dims) != 0 {
			v.bad(codeTypes, "the initial value %s is %s, not %s[]", init.Name, init.Shape, o.Shape.Type)
			return Shape{}, false
		}
		types = append(types, o.Shape.Type)
	}
	return in.Operands[0].Shape, v.applies(append(slices.Clone(types), types...), types)
}

func (v *verifier) outputs(dims []int) {
	in := v.in
	s := Shape{Type: TupleType}
	for _, o := range in.Operands[:in.Inputs()] {
		s.Elems = append(s.Elems, Shape{Type: o.Shape.Type, Dims: dims})
	}
	if len(s.Elems) == 1 && !in.Shape.IsTuple() {
		s = s.Elems[0]
	}
	v.want(s)
}

func (v *verifier) reduce() {
	in := v.in
	if in.Dims == nil {
		v.bad(codeMissing, "dimensions is needed")
		return
	}
	s, ok := v.inits()
	if !ok || !v.dims(in.Dims, s) {
		return
	}
	out := []int{}
	for i, n := range s.Dims {
		if !slices.Contains(in.Dims, i) {
			out = append(out, n)
		}
	}
	v.outputs(out)
}

// windowSize is the size of a dimension after a window has moved over it.
func windowSize(n int, w WindowDim) (int, bool) {
	const big = 1 << 40
	if w.Size < 1 || w.Stride < 1 || w.BaseDilation < 1 || w.WindowDilation < 1 ||
		w.Size > big || w.Stride > big || w.BaseDilation > big || w.WindowDilation > big || max(w.Lo, -w.Lo, w.Hi, -w.Hi) > big {
		return 0, false
	}
	if n > 1 && w.BaseDilation > big/n || w.Size > 1 && w.WindowDilation > big/w.Size {
		return 0, false
	}
	base := 0
	if n > 0 {
		base = (n-1)*w.BaseDilation + 1
	}
	base += w.Lo + w.Hi
	window := (w.Size-1)*w.WindowDilation + 1
	if base < window {
		return 0, true
	}
	return (base-window)/w.Stride + 1, true
}

func (v *verifier) windows(dims []int) ([]int, bool) {
	in := v.in
	if len(in.Window) != len(dims) {
		v.bad(codeMissing, "window={size=…} of %d dimensions is needed", len(dims))
		return nil, false
	}
	out := make([]int, len(dims))
	for i, w := range in.Window {
		n, ok := windowSize(dims[i], w)
		if !ok {
			v.bad(codeValue, "the window of dimension %d has sizes, strides or dilations that are less than 1 or too large", i)
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

func (v *verifier) reduceWindow() {
	s, ok := v.inits()
	if !ok {
		return
	}
	if dims, ok := v.windows(s.Dims); ok {
		v.outputs(dims)
	}
}

func (v *verifier) dot() {
	in := v.in
	d := in.Dot
	if d == nil {
		v.bad(codeMissing, "lhs_contracting_dims and rhs_contracting_dims are needed")
		return
	}
	a, b := in.Operands[0].Shape, in.Operands[1].Shape
	if len(d.LHSBatch) != len(d.RHSBatch) || len(d.LHSContract) != len(d.RHSContract) {
		v.bad(codeValue, "the sides have different numbers of batch or contracted dimensions")
		return
	}
	left, right := slices.Concat(d.LHSBatch, d.LHSContract), slices.Concat(d.RHSBatch, d.RHSContract)
	if !v.dims(left, a) || !v.dims(right, b) {
		return
	}
	for i := range left {
		if a.Dims[left[i]] != b.Dims[right[i]] {
			v.bad(codeTypes, "dimension %d of %s and %d of %s have the sizes %d and %d", left[i], in.Operands[0].Name, right[i], in.Operands[1].Name, a.Dims[left[i]], b.Dims[right[i]])
			return
		}
	}
	var out []int
	for _, i := range d.LHSBatch {
		out = append(out, a.Dims[i])
	}
	for i, n := range a.Dims {
		if !slices.Contains(left, i) {
			out = append(out, n)
		}
	}
	for i, n := range b.Dims {
		if !slices.Contains(right, i) {
			out = append(out, n)
		}
	}
	if in.Op == Dot && (!v.types(a.Type, "ifc") || !v.types(b.Type, "ifc")) {
		return
	}
	v.sized(in.Shape.Type, out) // the element type of the sum is free
	if in.Op == ScaledDot {
		for k, o := range in.Operands[2:] {
			of := in.Operands[k].Shape
			for i, n := range o.Shape.Dims {
				if len(o.Shape.Dims) != len(of.Dims) || n < 1 || of.Dims[i]%n != 0 {
					v.bad(codeTypes, "the scales %s do not divide %s", o.Shape, of)
					return
				}
			}
		}
	}
}

func (v *verifier) convolution() {
	in := v.in
	c := in.Conv
	if c == nil || c.InBatch < 0 {
		v.bad(codeMissing, "dim_labels is needed")
		return
	}
	a, k := in.Operands[0].Shape, in.Operands[1].Shape
	rank := len(c.InSpatial) + 2
	if len(a.Dims) != rank || len(k.Dims) != rank || len(in.Shape.Dims) != rank {
		v.bad(codeTypes, "dim_labels of rank %d for %s, %s and %s", rank, withoutLayout(a), withoutLayout(k), withoutLayout(in.Shape))
		return
	}
	if c.FeatureGroups < 1 || c.BatchGroups < 1 || k.Dims[c.KernelOut]%c.FeatureGroups != 0 || a.Dims[c.InBatch]%c.BatchGroups != 0 ||
		c.FeatureGroups > 1 && k.Dims[c.KernelOut] < c.FeatureGroups || k.Dims[c.KernelIn]*c.FeatureGroups != a.Dims[c.InFeature] {
		v.bad(codeValue, "the groups do not divide features or batch")
		return
	}
	sizes := make([]int, len(c.InSpatial))
	for i, d := range c.InSpatial {
		sizes[i] = a.Dims[d]
	}
	spatial, ok := v.windows(sizes)
	if !ok {
		return
	}
	out := make([]int, rank)
	out[c.OutBatch], out[c.OutFeature] = a.Dims[c.InBatch]/c.BatchGroups, k.Dims[c.KernelOut]
	for i, d := range c.OutSpatial {
		out[d] = spatial[i]
		if in.Window[i].Size != k.Dims[c.KernelSpatial[i]] {
			v.bad(codeValue, "the window and the kernel have the sizes %d and %d", in.Window[i].Size, k.Dims[c.KernelSpatial[i]])
			return
		}
	}
	v.sized(in.Shape.Type, out)
}

func (v *verifier) gather() {
	in := v.in
	g := in.Gather
	a, rows := in.Operands[0].Shape, in.Operands[1].Shape
	if g == nil || g.IndexVector < 0 || in.Sizes == nil {
		v.bad(codeMissing, "offset_dims, start_index_map, index_vector_dim and slice_sizes are needed")
		return
	}
	if !rows.Type.IsInt() {
		v.bad(codeTypes, "the indices %s are not whole numbers", rows)
		return
	}
	if g.IndexVector > len(rows.Dims) || len(in.Sizes) != len(a.Dims) {
		v.bad(codeValue, "index_vector_dim or slice_sizes do not fit %s and %s", withoutLayout(rows), withoutLayout(a))
		return
	}
	vector := 1
	if g.IndexVector < len(rows.Dims) {
		vector = rows.Dims[g.IndexVector]
	}
	gone := slices.Concat(g.Collapsed, g.OperandBatch)
	if len(g.StartMap) != vector || len(g.OperandBatch) != len(g.IndexBatch) ||
		!v.dims(slices.Concat(g.StartMap, g.OperandBatch), a) || !v.dims(gone, a) || !v.dims(g.IndexBatch, rows) {
		v.bad(codeValue, "start_index_map names %d dimensions, an index vector has %d", len(g.StartMap), vector)
		return
	}
	var box []int
	for i, n := range in.Sizes {
		if n < 0 || n > a.Dims[i] || slices.Contains(gone, i) && n > 1 {
			v.bad(codeValue, "the size %d of dimension %d does not fit %s", n, i, withoutLayout(a))
			return
		}
		if !slices.Contains(gone, i) {
			box = append(box, n)
		}
	}
	var batch []int
	for i, n := range rows.Dims {
		if i != g.IndexVector {
			batch = append(batch, n)
		}
	}
	rank := len(box) + len(batch)
	if len(g.Offset) != len(box) || !v.dims(g.Offset, Shape{Type: a.Type, Dims: make([]int, rank)}) {
		v.bad(codeValue, "offset_dims={%s} for boxes of %d dimensions", commas(g.Offset), len(box))
		return
	}
	v.sized(a.Type, interleave(box, batch, g.Offset, rank))
}

// interleave puts sizes of boxes at the places given, and the others between them.
func interleave(box, batch, places []int, rank int) []int {
	out := make([]int, 0, rank)
	sorted := slices.Sorted(slices.Values(places))
	b, s := 0, 0
	for i := range rank {
		if slices.Contains(sorted, i) {
			out = append(out, box[b])
			b++
		} else {
			out = append(out, batch[s])
			s++
		}
	}
	return out
}

func (v *verifier) scatter() {
	in := v.in
	s := in.Scatter
	n := (len(in.Operands) - 1) / 2
	if n == 0 || len(in.Operands) != 2*n+1 {
		v.bad(codeArgs, "tensors, indices and as many updates as tensors are needed")
		return
	}
	if s == nil || s.IndexVector < 0 {
		v.bad(codeMissing, "update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims and index_vector_dim are needed")
		return
	}
	a, rows, u := in.Operands[0].Shape, in.Operands[n].Shape, in.Operands[n+1].Shape
	var types []Type
	for i := range n {
		x, y := in.Operands[i].Shape, in.Operands[n+1+i].Shape
		if !slices.Equal(x.Dims, a.Dims) || !slices.Equal(y.Dims, u.Dims) || x.Type != y.Type {
			v.bad(codeTypes, "%s %s and its updates %s do not fit", in.Operands[i].Name, withoutLayout(x), withoutLayout(y))
			return
		}
		types = append(types, x.Type)
	}
	if !rows.Type.IsInt() || s.IndexVector > len(rows.Dims) {
		v.bad(codeTypes, "the indices %s do not fit index_vector_dim=%d", rows, s.IndexVector)
		return
	}
	vector := 1
	if s.IndexVector < len(rows.Dims) {
		vector = rows.Dims[s.IndexVector]
	}
	if len(s.ToOperand) != vector || len(s.InputBatch) != len(s.IndexBatch) ||
		!v.dims(slices.Concat(s.ToOperand, s.InputBatch), a) || !v.dims(slices.Concat(s.Inserted, s.InputBatch), a) ||
		!v.dims(s.UpdateWindow, u) || !v.dims(s.IndexBatch, rows) {
		v.bad(codeValue, "scatter_dims_to_operand_dims names %d dimensions, an index vector has %d", len(s.ToOperand), vector)
		return
	}
	var kept []int
	for i, size := range a.Dims {
		if !slices.Contains(s.Inserted, i) && !slices.Contains(s.InputBatch, i) {
			kept = append(kept, size)
		}
	}
	if len(kept) != len(s.UpdateWindow) {
		v.bad(codeValue, "update_window_dims={%s} for boxes of %d dimensions", commas(s.UpdateWindow), len(kept))
		return
	}
	var batch []int
	for i, size := range rows.Dims {
		if i != s.IndexVector {
			batch = append(batch, size)
		}
	}
	window := slices.Sorted(slices.Values(s.UpdateWindow))
	b := 0
	for i, size := range u.Dims {
		if w := slices.Index(window, i); w >= 0 {
			if size > kept[w] {
				v.bad(codeTypes, "the updates %s are larger than %s", withoutLayout(u), withoutLayout(a))
				return
			}
			continue
		}
		if b >= len(batch) || batch[b] != size {
			v.bad(codeTypes, "the updates %s do not fit the indices %s", withoutLayout(u), withoutLayout(rows))
			return
		}
		b++
	}
	if b != len(batch) {
		v.bad(codeTypes, "the updates %s do not fit the indices %s", withoutLayout(u), withoutLayout(rows))
		return
	}
	if v.applies(append(slices.Clone(types), types...), types) {
		v.outputs(a.Dims)
	}
}

func (v *verifier) call() {
	in := v.in
	c := in.Apply
	if c == nil {
		v.bad(codeMissing, "a called computation is needed")
		return
	}
	if len(c.Params) != len(in.Operands) {
		v.bad(codeApply, "%s takes %d arguments, not %d", c.Name, len(c.Params), len(in.Operands))
		return
	}
	for i, p := range c.Params {
		if !p.Shape.Same(in.Operands[i].Shape) {
			v.bad(codeApply, "%s takes %s for %s, which is %s", c.Name, p.Shape, in.Operands[i].Name, in.Operands[i].Shape)
			return
		}
	}
	v.want(c.Root.Shape)
}
