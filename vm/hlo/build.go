package hlo

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Builder writes a module from Go. Its methods add instructions to the entry
// computation and give them names (add0, add1, …); shapes of results are found from
// operands and attributes. What does not fit is told by [Builder.Done], located in the
// text that the module prints as.
type Builder struct {
	module *Module
	comp   *Computation
	counts map[string]int
}

// NewBuilder starts a module of that name with an empty entry computation.
func NewBuilder(name string) *Builder {
	b := &Builder{module: &Module{Name: name}, counts: map[string]int{}}
	b.comp = &Computation{Name: "main"}
	return b
}

// Add appends an instruction of any operation. Its name is made up where it is empty.
func (b *Builder) Add(in Instruction) *Instruction {
	p := &in
	if p.Name == "" {
		base := short(p.Op)
		p.Name = fmt.Sprintf("%s%d", base, b.counts[base])
		b.counts[base]++
	}
	p.Index = len(b.comp.Instructions)
	b.comp.Instructions = append(b.comp.Instructions, p)
	return p
}

// short is the beginning of names of an operation.
func short(op Op) string {
	switch op {
	case Parameter:
		return "p"
	case Constant:
		return "c"
	}
	var out []rune
	for _, r := range op.String() {
		if r == '-' {
			r = '_'
		}
		out = append(out, r)
	}
	return string(out)
}

// Param adds the next parameter.
func (b *Builder) Param(s Shape) *Instruction {
	in := b.Add(Instruction{Op: Parameter, Shape: s, Attrs: Attrs{Number: len(b.comp.Params)}})
	b.comp.Params = append(b.comp.Params, in)
	return in
}

// Scalar adds a constant of one element, rounded to the type.
func (b *Builder) Scalar(t Type, v float64) *Instruction {
	e := t.Elem()
	code := uint64(0)
	switch {
	case e == 0:
	case t == Pred && v != 0:
		code = 1
	case t.IsInt():
		code = e.EncodeInt(int64(v), true)
	case t.IsFloat():
		code = e.Encode(v, false)
	}
	in := Instruction{Op: Constant, Shape: Array(t)}
	if e != 0 {
		in.Value = array.FromCodes(e, []int{}, []uint64{code})
	}
	return b.Add(in)
}

// Const adds a constant with the elements of an array.
func (b *Builder) Const(a *array.Array) *Instruction {
	t, _ := TypeOf(a.Type)
	return b.Add(Instruction{Op: Constant, Shape: Array(t, a.Shape...), Value: a})
}

// Iota adds the index along a dimension.
func (b *Builder) Iota(s Shape, dimension int) *Instruction {
	return b.Add(Instruction{Op: Iota, Shape: s, Attrs: Attrs{Number: dimension}})
}

// Elementwise adds an operation whose result has the shape of its last operand, or of the
// second of three; a compare or is-finite gives pred.
func (b *Builder) Elementwise(op Op, operands ...*Instruction) *Instruction {
	s := Shape{}
	if n := len(operands); n > 0 {
		s = operands[min(1, n-1)].Shape
	}
	s.Layout = nil
	if op == IsFinite {
		s.Type = Pred
	}
	return b.Add(Instruction{Op: op, Shape: s, Operands: operands})
}

// Compare adds a comparison; direction is EQ, NE, LT, LE, GT or GE.
func (b *Builder) Compare(direction string, x, y *Instruction) *Instruction {
	return b.Add(Instruction{Op: Compare, Shape: Array(Pred, x.Shape.Dims...), Operands: []*Instruction{x, y}, Attrs: Attrs{Direction: direction}})
}

// Convert adds a conversion to another type.
func (b *Builder) Convert(t Type, x *Instruction) *Instruction {
	return b.Add(Instruction{Op: Convert, Shape: Array(t, x.Shape.Dims...), Operands: []*Instruction{x}})
}

// Broadcast adds a broadcast to sizes; dimension i of x becomes dimension places[i].
func (b *Builder) Broadcast(x *Instruction, sizes []int, places ...int) *Instruction {
	if places == nil {
		places = []int{}
	}
	return b.Add(Instruction{Op: Broadcast, Shape: Array(x.Shape.Type, sizes...), Operands: []*Instruction{x}, Attrs: Attrs{Dims: places}})
}

// Transpose adds a transpose: dimension i of the result is dimension order[i] of x.
func (b *Builder) Transpose(x *Instruction, order ...int) *Instruction {
	s := Shape{Type: x.Shape.Type, Dims: []int{}}
	for _, d := range order {
		if d >= 0 && d < len(x.Shape.Dims) {
			s.Dims = append(s.Dims, x.Shape.Dims[d])
		}
	}
	return b.Add(Instruction{Op: Transpose, Shape: s, Operands: []*Instruction{x}, Attrs: Attrs{Dims: nonNil(order)}})
}

// Reshape adds a reshape to sizes.
func (b *Builder) Reshape(x *Instruction, sizes ...int) *Instruction {
	return b.Add(Instruction{Op: Reshape, Shape: Array(x.Shape.Type, sizes...), Operands: []*Instruction{x}})
}

// Bitcast adds a bitcast to a shape.
func (b *Builder) Bitcast(x *Instruction, s Shape) *Instruction {
	return b.Add(Instruction{Op: Bitcast, Shape: s, Operands: []*Instruction{x}})
}

// Reverse adds a reversal of dimensions.
func (b *Builder) Reverse(x *Instruction, dims ...int) *Instruction {
	s := x.Shape
	s.Layout = nil
	return b.Add(Instruction{Op: Reverse, Shape: s, Operands: []*Instruction{x}, Attrs: Attrs{Dims: nonNil(dims)}})
}

// Slice adds a slice with one range for each dimension.
func (b *Builder) Slice(x *Instruction, ranges ...SliceDim) *Instruction {
	s := Shape{Type: x.Shape.Type, Dims: []int{}}
	for _, r := range ranges {
		s.Dims = append(s.Dims, max(0, (r.Limit-r.Start+max(r.Stride, 1)-1)/max(r.Stride, 1)))
	}
	return b.Add(Instruction{Op: Slice, Shape: s, Operands: []*Instruction{x}, Attrs: Attrs{Slices: ranges}})
}

// Pad adds padding with one row for each dimension.
func (b *Builder) Pad(x, value *Instruction, pads ...PadDim) *Instruction {
	s := Shape{Type: x.Shape.Type, Dims: []int{}}
	for i, p := range pads {
		n := 0
		if i < len(x.Shape.Dims) {
			n, _ = paddedSize(x.Shape.Dims[i], p)
		}
		s.Dims = append(s.Dims, max(0, n))
	}
	return b.Add(Instruction{Op: Pad, Shape: s, Operands: []*Instruction{x, value}, Attrs: Attrs{Pads: pads}})
}

// Concat adds a concatenation along a dimension.
func (b *Builder) Concat(dimension int, operands ...*Instruction) *Instruction {
	s := Shape{}
	for i, o := range operands {
		if i == 0 {
			s = Shape{Type: o.Shape.Type, Dims: slices.Clone(o.Shape.Dims)}
		} else if dimension < len(s.Dims) && dimension < len(o.Shape.Dims) {
			s.Dims[dimension] += o.Shape.Dims[dimension]
		}
	}
	return b.Add(Instruction{Op: Concatenate, Shape: s, Operands: operands, Attrs: Attrs{Dims: []int{dimension}}})
}

// DynamicSlice adds a slice of sizes at starts.
func (b *Builder) DynamicSlice(x *Instruction, sizes []int, starts ...*Instruction) *Instruction {
	return b.Add(Instruction{Op: DynamicSlice, Shape: Array(x.Shape.Type, sizes...), Operands: append([]*Instruction{x}, starts...), Attrs: Attrs{Sizes: nonNil(sizes)}})
}

// DynamicUpdateSlice adds an update of a box at starts.
func (b *Builder) DynamicUpdateSlice(x, update *Instruction, starts ...*Instruction) *Instruction {
	s := x.Shape
	return b.Add(Instruction{Op: DynamicUpdateSlice, Shape: s, Operands: append([]*Instruction{x, update}, starts...)})
}

// Gather adds a gather of boxes of sizes.
func (b *Builder) Gather(x, rows *Instruction, g GatherDims, sizes []int, result Shape) *Instruction {
	return b.Add(Instruction{Op: Gather, Shape: result, Operands: []*Instruction{x, rows}, Attrs: Attrs{Gather: &g, Sizes: nonNil(sizes)}})
}

// Combiner is the computation (a, b) → op(a, b) on scalars, made on first use.
func (b *Builder) Combiner(op Op, t Type) *Computation {
	name := fmt.Sprintf("%s_%s", short(op), t)
	if c := b.module.Find(name); c != nil {
		return c
	}
	c := &Computation{Name: name}
	for i := range 2 {
		p := &Instruction{Name: fmt.Sprintf("p%d", i), Op: Parameter, Shape: Array(t), Attrs: Attrs{Number: i}, Index: i}
		c.Params = append(c.Params, p)
	}
	c.Root = &Instruction{Name: "r", Op: op, Shape: Array(t), Operands: slices.Clone(c.Params), Index: 2}
	c.Instructions = append(slices.Clone(c.Params), c.Root)
	b.module.Computations = append(b.module.Computations, c)
	return c
}

// Reduce adds a reduction of x over dimensions from an initial value, by one operation.
func (b *Builder) Reduce(op Op, x, init *Instruction, dims ...int) *Instruction {
	s := Shape{Type: x.Shape.Type, Dims: []int{}}
	for i, n := range x.Shape.Dims {
		if !slices.Contains(dims, i) {
			s.Dims = append(s.Dims, n)
		}
	}
	return b.Add(Instruction{Op: Reduce, Shape: s, Operands: []*Instruction{x, init}, Attrs: Attrs{Dims: nonNil(dims), Apply: b.Combiner(op, x.Shape.Type)}})
}

// ReduceWindow adds a reduction of every window by one operation.
func (b *Builder) ReduceWindow(op Op, x, init *Instruction, window ...WindowDim) *Instruction {
	s := Shape{Type: x.Shape.Type, Dims: []int{}}
	for i, w := range window {
		n := 0
		if i < len(x.Shape.Dims) {
			n, _ = windowSize(x.Shape.Dims[i], w)
		}
		s.Dims = append(s.Dims, n)
	}
	return b.Add(Instruction{Op: ReduceWindow, Shape: s, Operands: []*Instruction{x, init}, Attrs: Attrs{Window: window, Apply: b.Combiner(op, x.Shape.Type)}})
}

// Scatter adds a scatter of updates into x by one operation.
func (b *Builder) Scatter(op Op, x, rows, updates *Instruction, d ScatterDims, unique bool) *Instruction {
	return b.Add(Instruction{Op: Scatter, Shape: x.Shape, Operands: []*Instruction{x, rows, updates},
		Attrs: Attrs{Scatter: &d, Unique: unique, Apply: b.Combiner(op, x.Shape.Type)}})
}

// Dot adds sums of products with the element type of the result.
func (b *Builder) Dot(x, y *Instruction, d DotDims, t Type) *Instruction {
	s := Shape{Type: t, Dims: []int{}}
	for _, i := range d.LHSBatch {
		s.Dims = append(s.Dims, x.Shape.Dims[i])
	}
	for i, n := range x.Shape.Dims {
		if !slices.Contains(d.LHSBatch, i) && !slices.Contains(d.LHSContract, i) {
			s.Dims = append(s.Dims, n)
		}
	}
	for i, n := range y.Shape.Dims {
		if !slices.Contains(d.RHSBatch, i) && !slices.Contains(d.RHSContract, i) {
			s.Dims = append(s.Dims, n)
		}
	}
	return b.Add(Instruction{Op: Dot, Shape: s, Operands: []*Instruction{x, y}, Attrs: Attrs{Dot: &d}})
}

// Done is the module with the results as roots, several as a tuple. It is printed and
// read again, so that problems have places in the text of [Format].
func (b *Builder) Done(results ...*Instruction) (*Module, error) {
	if len(results) == 0 {
		return nil, diag.List{{Code: codeRoot, Msg: "a computation without results"}}
	}
	root := results[0]
	if len(results) > 1 {
		s := Shape{Type: TupleType}
		for _, r := range results {
			s.Elems = append(s.Elems, r.Shape)
		}
		root = b.Add(Instruction{Op: Tuple, Shape: s, Operands: results})
	}
	b.comp.Root = root
	m := &Module{Name: b.module.Name, Computations: append(slices.Clone(b.module.Computations), b.comp), Entry: b.comp}
	return Parse(m.Name, Format(m))
}
