// Package eval is the meaning of fusions: it computes every element of a
// computation on the host, as the definition that generated code is tested against.
//
// Arrays are in row-major order of their dimensions; the layouts of shapes do not
// change values, except through bitcast. Every operation rounds once to the type of
// its result. Where several elements are combined, the order is fixed:
//
//   - reduce starts with the initial value and takes the elements in row-major order
//     of the reduced dimensions; acc = f(acc, x).
//   - reduce-window takes the elements of a window likewise and leaves out what is
//     padding or a hole of dilation.
//   - scatter takes the updates in row-major order; a box that does not lie inside the
//     tensor is left out.
//   - dot converts both operands to the type of the sum, which is f32 for narrower
//     floats, and adds with one rounding each (fma) in row-major order of the
//     contracted dimensions.
package eval

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Limits of one evaluation.
const (
	MaxElements = 1 << 24 // of one tensor
	MaxWork     = 1 << 30 // elements computed or combined
)

// Run computes the entry of a module: one array for every result.
func Run(m *hlo.Module, args []*array.Array) ([]*array.Array, error) {
	return Computation(m.Entry, args)
}

// Computation computes a computation. Args are the parameters by number; their types and
// sizes must be those of the parameters.
func Computation(c *hlo.Computation, args []*array.Array) ([]*array.Array, error) {
	if len(args) != len(c.Params) {
		return nil, fmt.Errorf("eval: %s takes %d arguments, not %d", c.Name, len(c.Params), len(args))
	}
	values := make([]value, len(args))
	for i, a := range args {
		s := c.Params[i].Shape
		if a == nil || a.Type != s.Type.Elem() || s.Type.Elem() == 0 || !slices.Equal(a.Shape, nonNil(s.Dims)) && a.Len() > 0 || a.Len() != s.Elements() {
			return nil, fmt.Errorf("eval: the argument for %s must be %s", c.Params[i].Name, s)
		}
		values[i] = value{tensor{s, a.Codes()}}
	}
	e := &evaluator{}
	out, err := e.run(c, values)
	if err != nil {
		return nil, err
	}
	arrays := make([]*array.Array, len(out))
	for i, t := range out {
		arrays[i] = array.FromCodes(t.shape.Type.Elem(), nonNil(t.shape.Dims), t.codes)
	}
	return arrays, nil
}

func nonNil(v []int) []int {
	if v == nil {
		return []int{}
	}
	return v
}

type tensor struct {
	shape hlo.Shape
	codes []uint64
}

// value is a tensor, or the tensors of a tuple.
type value []tensor

type evaluator struct{ work int }

var errWork = errors.New("eval: the computation has too many elements to be computed here")

func (e *evaluator) spend(n int) error {
	if e.work += n; n > MaxWork || e.work > MaxWork {
		return errWork
	}
	return nil
}

func (e *evaluator) run(c *hlo.Computation, args []value) (value, error) {
	values := make([]value, len(c.Instructions))
	for i, in := range c.Instructions {
		for _, s := range in.Shape.Outputs() {
			if s.IsTuple() {
				return nil, fmt.Errorf("%s: nested tuples cannot be computed; put all elements into one tuple", in.Pos)
			}
			if s.Elements() > MaxElements {
				return nil, errWork
			}
			if err := e.spend(s.Elements()); err != nil {
				return nil, err
			}
		}
		if in.Op == hlo.Parameter {
			values[i] = args[in.Number]
			continue
		}
		operands := make([]value, len(in.Operands))
		for k, o := range in.Operands {
			operands[k] = values[o.Index]
		}
		v, err := e.instruction(in, operands)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values[c.Root.Index], nil
}

func (e *evaluator) instruction(in *hlo.Instruction, args []value) (value, error) {
	switch in.Op {
	case hlo.Tuple:
		var out value
		for _, a := range args {
			out = append(out, a...)
		}
		return out, nil
	case hlo.GetTupleElement:
		return value{args[0][in.Number]}, nil
	case hlo.Fusion, hlo.Call:
		return e.run(in.Apply, args)
	case hlo.Reduce, hlo.ReduceWindow:
		return e.reduce(in, args)
	case hlo.Scatter:
		return e.scatter(in, args)
	}
	out := tensor{in.Shape, make([]uint64, in.Shape.Elements())}
	if in.Op.Elementwise() {
		return value{out}, e.elementwise(in, args, out)
	}
	if err := e.moved(in, args, out); err != nil {
		return nil, err
	}
	return value{out}, nil
}

func (e *evaluator) elementwise(in *hlo.Instruction, args []value, out tensor) error {
	f, err := Scalar(in)
	if err != nil {
		return err
	}
	elements := make([]uint64, len(args))
	for i := range out.codes {
		for k, a := range args {
			if len(a[0].shape.Dims) == 0 {
				elements[k] = a[0].codes[0]
			} else {
				elements[k] = a[0].codes[i]
			}
		}
		out.codes[i] = f(elements)
	}
	return nil
}

// each visits the positions of sizes in row-major order. The list is reused.
func each(sizes []int, visit func(at []int)) {
	at := make([]int, len(sizes))
	for _, n := range sizes {
		if n == 0 {
			return
		}
	}
	for {
		visit(at)
		i := len(sizes) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < sizes[i] {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// rowMajor are the distances between neighbours in a row-major array.
func rowMajor(dims []int) []int {
	out := make([]int, len(dims))
	n := 1
	for i := len(dims) - 1; i >= 0; i-- {
		out[i] = n
		n *= dims[i]
	}
	return out
}

func dot(a, b []int) int {
	n := 0
	for i := range a {
		n += a[i] * b[i]
	}
	return n
}

// moved computes operations that move elements, and dot, iota and constants.
func (e *evaluator) moved(in *hlo.Instruction, args []value, out tensor) error {
	dims := out.shape.Dims
	var a tensor
	var strides []int
	if len(args) > 0 {
		a = args[0][0]
		strides = rowMajor(a.shape.Dims)
	}
	// from fills the result from the first operand, at the offset of each position; a
	// negative offset leaves the element as it is.
	from := func(offset func(at []int) int) {
		k := 0
		each(dims, func(at []int) {
			if o := offset(at); o >= 0 {
				out.codes[k] = a.codes[o]
			}
			k++
		})
	}
	switch in.Op {
	case hlo.Constant:
		if in.Value == nil {
			return fmt.Errorf("%s: the value of %s is not known", in.Pos, in.Name)
		}
		copy(out.codes, in.Value.Codes())
	case hlo.Iota:
		t := in.Shape.Type.Elem()
		if t == 0 {
			return fmt.Errorf("%s: iota of %s cannot be computed", in.Pos, in.Shape.Type)
		}
		k := 0
		each(dims, func(at []int) {
			if t.IsFloat() {
				out.codes[k] = t.Encode(float64(at[in.Number]), false)
			} else {
				out.codes[k] = t.EncodeInt(int64(at[in.Number]), false)
			}
			k++
		})
	case hlo.Reshape:
		copy(out.codes, a.codes)
	case hlo.Bitcast:
		back := make([]uint64, len(a.codes)) // in the order of memory
		k, physical := 0, a.shape.Strides()
		each(a.shape.Dims, func(at []int) { back[dot(at, physical)] = a.codes[k]; k++ })
		k, physical = 0, out.shape.Strides()
		each(dims, func(at []int) { out.codes[k] = back[dot(at, physical)]; k++ })
	case hlo.Broadcast:
		from(func(at []int) int {
			o := 0
			for i, d := range in.Dims {
				o += at[d] * strides[i]
			}
			return o
		})
	case hlo.Transpose:
		from(func(at []int) int {
			o := 0
			for i, d := range in.Dims {
				o += at[i] * strides[d]
			}
			return o
		})
	case hlo.Reverse:
		from(func(at []int) int {
			o := 0
			for i, k := range at {
				if slices.Contains(in.Dims, i) {
					k = dims[i] - 1 - k
				}
				o += k * strides[i]
			}
			return o
		})
	case hlo.Slice:
		from(func(at []int) int {
			o := 0
			for i, k := range at {
				o += (in.Slices[i].Start + k*in.Slices[i].Stride) * strides[i]
			}
			return o
		})
	case hlo.Pad:
		for i := range out.codes {
			out.codes[i] = args[1][0].codes[0]
		}
		from(func(at []int) int {
			o := 0
			for i, k := range at {
				p := in.Pads[i]
				k -= p.Lo
				if k < 0 || k%(p.Interior+1) != 0 || k/(p.Interior+1) >= a.shape.Dims[i] {
					return -1
				}
				o += k / (p.Interior + 1) * strides[i]
			}
			return o
		})
	case hlo.Concatenate:
		axis, first := in.Dims[0], 0
		to := rowMajor(dims)
		for _, v := range args {
			k := 0
			each(v[0].shape.Dims, func(at []int) {
				out.codes[dot(at, to)+first*to[axis]] = v[0].codes[k]
				k++
			})
			first += v[0].shape.Dims[axis]
		}
	case hlo.DynamicSlice:
		o := 0
		for i := range dims {
			o += start(args[1+i][0], 0, a.shape.Dims[i]-dims[i]) * strides[i]
		}
		from(func(at []int) int { return o + dot(at, strides) })
	case hlo.DynamicUpdateSlice:
		copy(out.codes, a.codes)
		u := args[1][0]
		o := 0
		for i := range dims {
			o += start(args[2+i][0], 0, dims[i]-u.shape.Dims[i]) * strides[i]
		}
		k := 0
		each(u.shape.Dims, func(at []int) { out.codes[o+dot(at, strides)] = u.codes[k]; k++ })
	case hlo.Gather:
		return e.gather(in, args, out)
	case hlo.Dot:
		return e.dot(in, args, out)
	default:
		return fmt.Errorf("%s: %s cannot be computed", in.Pos, in.Op)
	}
	return nil
}

// start is element k of an index tensor, kept between 0 and limit.
func start(t tensor, k, limit int) int {
	code := t.codes[k]
	v := t.shape.Type.Elem().DecodeInt(code)
	if !t.shape.Type.Signed() && v < 0 { // 2^63 and more
		return limit
	}
	return int(max(0, min(v, int64(limit))))
}

// index is element k of an index tensor; ok is false where it is beyond all sizes.
func index(t tensor, k int) (int, bool) {
	v := t.shape.Type.Elem().DecodeInt(t.codes[k])
	if !t.shape.Type.Signed() && v < 0 || v > MaxElements || v < -MaxElements {
		return 0, false
	}
	return int(v), true
}

// split separates positions: those of boxes, at the places given, from the others.
func split(at, places []int) (box, rest []int) {
	for i, k := range at {
		if slices.Contains(places, i) {
			box = append(box, k)
		} else {
			rest = append(rest, k)
		}
	}
	return box, rest
}

// vectorOffset is where the index vector of a row begins, and the distance of its elements.
func vectorOffset(rows hlo.Shape, vector int, batch []int) (offset, step int) {
	strides := rowMajor(rows.Dims)
	b := 0
	for i := range rows.Dims {
		if i == vector {
			step = strides[i]
			continue
		}
		offset += batch[b] * strides[i]
		b++
	}
	return offset, step
}

func (e *evaluator) gather(in *hlo.Instruction, args []value, out tensor) error {
	g := in.Gather
	a, rows := args[0][0], args[1][0]
	strides := rowMajor(a.shape.Dims)
	gone := slices.Concat(g.Collapsed, g.OperandBatch)
	k := 0
	each(out.shape.Dims, func(at []int) {
		box, batch := split(at, g.Offset)
		first, step := vectorOffset(rows.shape, g.IndexVector, batch)
		o := 0
		for i, axis := range g.StartMap {
			o += start(rows, first+i*step, a.shape.Dims[axis]-in.Sizes[axis]) * strides[axis]
		}
		for i, axis := range g.OperandBatch {
			o += batch[batchPlace(g.IndexBatch[i], g.IndexVector)] * strides[axis]
		}
		b := 0
		for axis := range a.shape.Dims {
			if !slices.Contains(gone, axis) {
				o += box[b] * strides[axis]
				b++
			}
		}
		out.codes[k] = a.codes[o]
		k++
	})
	return nil
}

// batchPlace is the place of a dimension of the indices among those that are not the
// index vector.
func batchPlace(dim, vector int) int {
	if dim > vector {
		return dim - 1
	}
	return dim
}

func (e *evaluator) scatter(in *hlo.Instruction, args []value) (value, error) {
	n := in.Inputs()
	s := in.Scatter
	rows := args[n][0]
	out := make(value, n)
	for i := range n {
		out[i] = tensor{args[i][0].shape, slices.Clone(args[i][0].codes)}
	}
	f, err := Apply(in.Apply)
	if err != nil {
		return nil, err
	}
	sizes := out[0].shape.Dims
	strides := rowMajor(sizes)
	u := args[n+1][0]
	gone := slices.Concat(s.Inserted, s.InputBatch)
	window, _ := split(u.shape.Dims, s.UpdateWindow)
	elements, results := make([]uint64, 2*n), make([]uint64, n)
	if err := e.spend(len(u.codes)); err != nil {
		return nil, err
	}
	k := -1
	each(u.shape.Dims, func(at []int) {
		k++
		box, batch := split(at, s.UpdateWindow)
		first, step := vectorOffset(rows.shape, s.IndexVector, batch)
		extent := make([]int, len(sizes)) // of the box
		place := make([]int, len(sizes))
		b := 0
		for axis := range sizes {
			extent[axis] = 1
			if !slices.Contains(gone, axis) {
				extent[axis], place[axis] = window[b], box[b]
				b++
			}
		}
		for i, axis := range s.InputBatch {
			place[axis] = batch[batchPlace(s.IndexBatch[i], s.IndexVector)]
		}
		for i, axis := range s.ToOperand {
			v, ok := index(rows, first+i*step)
			if !ok || v < 0 || v > sizes[axis]-extent[axis] {
				return
			}
			place[axis] += v
		}
		o := dot(place, strides)
		for i := range n {
			elements[i], elements[n+i] = out[i].codes[o], args[n+1+i][0].codes[k]
		}
		f(elements, results)
		for i := range n {
			out[i].codes[o] = results[i]
		}
	})
	return out, nil
}

func (e *evaluator) reduce(in *hlo.Instruction, args []value) (value, error) {
	n := in.Inputs()
	f, err := Apply(in.Apply)
	if err != nil {
		return nil, err
	}
	shapes := in.Shape.Outputs()
	dims := shapes[0].Dims
	a := args[0][0].shape.Dims
	strides := rowMajor(a)
	out := make(value, n)
	for i := range n {
		out[i] = tensor{shapes[i], make([]uint64, shapes[i].Elements())}
	}
	elements, results := make([]uint64, 2*n), make([]uint64, n)
	var sizes, kept []int // of what is combined; strides of the dimensions kept
	for i, size := range a {
		if in.Op == hlo.ReduceWindow {
			sizes = append(sizes, in.Window[i].Size)
		} else if slices.Contains(in.Dims, i) {
			sizes = append(sizes, size)
		} else {
			kept = append(kept, strides[i])
		}
	}
	count := 1
	for _, s := range sizes {
		count *= s
		if count > MaxWork {
			return nil, errWork
		}
	}
	if count > 0 && shapes[0].Elements() > MaxWork/count {
		return nil, errWork
	}
	if err := e.spend(count * shapes[0].Elements()); err != nil {
		return nil, err
	}
	var reduced []int
	for i := range a {
		if in.Op == hlo.Reduce && slices.Contains(in.Dims, i) {
			reduced = append(reduced, strides[i])
		}
	}
	k := 0
	each(dims, func(at []int) {
		for i := range n {
			results[i] = args[n+i][0].codes[0]
		}
		base := 0
		if in.Op == hlo.Reduce {
			base = dot(at, kept)
		}
		each(sizes, func(w []int) {
			o := base
			if in.Op == hlo.Reduce {
				o += dot(w, reduced)
			} else if o = windowOffset(in.Window, at, w, a, strides); o < 0 {
				return
			}
			copy(elements, results)
			for i := range n {
				elements[n+i] = args[i][0].codes[o]
			}
			f(elements, results)
		})
		for i := range n {
			out[i].codes[k] = results[i]
		}
		k++
	})
	return out, nil
}

// windowOffset is the offset of an element of a window, or -1 for padding and holes.
func windowOffset(window []hlo.WindowDim, at, w, dims, strides []int) int {
	o := 0
	for i, d := range window {
		p := w[i]
		if d.Reverse {
			p = d.Size - 1 - p
		}
		x := at[i]*d.Stride + p*d.WindowDilation - d.Lo
		if x < 0 || x%d.BaseDilation != 0 || x/d.BaseDilation >= dims[i] {
			return -1
		}
		o += x / d.BaseDilation * strides[i]
	}
	return o
}

func (e *evaluator) dot(in *hlo.Instruction, args []value, out tensor) error {
	d := in.Dot
	a, b := args[0][0], args[1][0]
	sum := in.Shape.Type
	if sum.IsFloat() && sum.Bits() < 32 {
		sum = hlo.F32
	}
	t := sum.Elem()
	if t == 0 || a.shape.Type.Elem() == 0 || b.shape.Type.Elem() == 0 || sum == hlo.Pred {
		return fmt.Errorf("%s: dot of %s cannot be computed", in.Pos, in.Shape.Type)
	}
	as, bs := rowMajor(a.shape.Dims), rowMajor(b.shape.Dims)
	var aOut, bOut []int // strides of each dimension of the result
	var sizes, aSum, bSum []int
	for i := range d.LHSBatch {
		aOut, bOut = append(aOut, as[d.LHSBatch[i]]), append(bOut, bs[d.RHSBatch[i]])
	}
	for i := range a.shape.Dims {
		if !slices.Contains(d.LHSBatch, i) && !slices.Contains(d.LHSContract, i) {
			aOut, bOut = append(aOut, as[i]), append(bOut, 0)
		}
	}
	for i := range b.shape.Dims {
		if !slices.Contains(d.RHSBatch, i) && !slices.Contains(d.RHSContract, i) {
			aOut, bOut = append(aOut, 0), append(bOut, bs[i])
		}
	}
	count := 1
	for i := range d.LHSContract {
		sizes = append(sizes, a.shape.Dims[d.LHSContract[i]])
		aSum, bSum = append(aSum, as[d.LHSContract[i]]), append(bSum, bs[d.RHSContract[i]])
		count *= sizes[i]
	}
	if n := len(out.codes); count > 0 && n > MaxWork/count {
		return errWork
	}
	if err := e.spend(count * len(out.codes)); err != nil {
		return err
	}
	k := 0
	each(out.shape.Dims, func(at []int) {
		acc := t.Encode(0, false)
		ao, bo := dot(at, aOut), dot(at, bOut)
		each(sizes, func(w []int) {
			x := Convert(sum, a.shape.Type, a.codes[ao+dot(w, aSum)])
			y := Convert(sum, b.shape.Type, b.codes[bo+dot(w, bSum)])
			acc = dtype.Fma(t, x, y, acc)
		})
		out.codes[k] = Convert(in.Shape.Type, sum, acc)
		k++
	})
	return nil
}
