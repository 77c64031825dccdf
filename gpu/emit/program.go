// Package emit makes GPU kernels of fusions. A fusion (vm/hlo) is split into kernels with
// temporaries between them ([Compile]); vm/hlo/plan chooses an emitter for each; the emitter
// writes the kernel at the tensor level, where tensors are values ([Func]); the pass
// lower-tensors makes thread code of it, which gpu/opt improves, gpu/sim runs and gpu/ptx
// prints.
//
// Results have the bits that vm/hlo/eval gives, except that sums of floats may be added in
// another order, that what is divided by such a sum may be multiplied by its reciprocal,
// that exponentials which are summed are the machine's ([lanes.Exponential] has the bounds),
// and that functions of f64 have bounds (gpu/emit/approx).
package emit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// Program is a fusion compiled for a device.
type Program struct {
	Module  *hlo.Module
	Flat    *hlo.Computation // the entry with its fusions inlined
	Buffers []Buffer
	Kernels []*Kernel // in order
	Results []int     // buffers
	Plan    *plan.Plan

	tune Tuning
}

// Buffer is an array in global memory.
type Buffer struct {
	Name  string
	Shape hlo.Shape
	Param int          // number of the parameter that it holds, or -1
	Data  *array.Array // its value, of a constant
	From  int          // buffer of a parameter or constant whose value it begins with, to be updated in place, or -1
	Zero  bool         // all bytes are 0 before the first launch, and again after each
}

// Kernel is one launch.
type Kernel struct {
	Name        string
	Computation *hlo.Computation // what it computes, of its own parameters
	Plan        *plan.Kernel     // what chose the emitter
	Tensor      *Func
	Lowered     *code.Func // before the passes
	Code        *code.Func
	Args        []int // buffers

	plain  bool             // as a loop, whatever the plan says
	begins *hlo.Instruction // what a scatter in place finds in its result, where that is computed of nothing
}

// Options of [Compile].
type Options struct {
	Device plan.Device // the zero value stands for an H200
	Tune   Tuning
}

// Tuning is what a search may vary: results stay the same. A zero stands for what measured
// best on an H200.
//
// Vectors default to 1, and to 2 where a gather waits for its indices; RowLoads to 4, and 2
// where the row is used again or written; tiles to sides of 64, turned by 512 threads, or 128
// and 1024 of elements of 16 bits and less.
type Tuning struct {
	Threads   int // of a block of a loop
	Vectors   int // that a thread of a loop handles, a block's width apart
	RowLoads  int // vectors of a row that a thread has under way
	ShortRows int // rows that a thread reads of where each takes one vector
	Rows      int // of a column, likewise
	Across    int // threads side by side over columns, at most
	Group     int // turns of a loop over a column, or over the part of a row, that a thread has under way
	Splitters int // threads of a block that shares a row with others
	Fill      int // blocks on each multiprocessor where blocks share rows or columns
	Tile      int // side of a transposed tile
	Turners   int // threads that turn a tile
	RolledIn  int // turns at a time of what reads a tile whose rows begin anywhere; 0 for all
	RolledOut int // turns at a time of what writes it
	Items     int // the most that one index counts in a loop: what 32 bits hold
	LoadHint  code.Attr
	StoreHint code.Attr
}

func (t Tuning) orBest() Tuning {
	pick := func(v *int, best int) {
		if *v == 0 {
			*v = best
		}
	}
	pick(&t.Threads, 256)
	pick(&t.Rows, 8)
	pick(&t.ShortRows, 4)
	pick(&t.Group, 4)
	pick(&t.Splitters, 256)
	pick(&t.Across, 32)
	pick(&t.Fill, 4)
	pick(&t.Items, math.MaxInt32)
	return t
}

// Simulate runs the program in gpu/sim. Arguments and results are row-major arrays, as those
// of vm/hlo/eval.
func (p *Program) Simulate(ctx context.Context, args []*array.Array) ([]*array.Array, error) {
	if len(args) != len(p.Flat.Params) {
		return nil, fmt.Errorf("emit: %d arguments for %d parameters", len(args), len(p.Flat.Params))
	}
	data := make([][]byte, len(p.Buffers))
	for i := range p.Buffers {
		data[i] = p.Bytes(i, args)
	}
	for _, k := range p.Kernels {
		launch := sim.Launch{}
		for i, g := range k.Code.Launch.Grid {
			n, err := g.Eval(nil)
			if err != nil {
				return nil, err
			}
			launch.Grid[i] = int(n)
		}
		for _, b := range k.Args {
			launch.Args = append(launch.Args, sim.Arg{Buffer: data[b]})
		}
		if _, err := sim.Run(ctx, k.Code, launch, sim.Options{}); err != nil {
			return nil, fmt.Errorf("emit: kernel %s: %w", k.Name, err)
		}
	}
	var out []*array.Array
	for _, r := range p.Results {
		out = append(out, Unpack(p.Buffers[r].Shape, data[r]))
	}
	return out, nil
}

// Bytes is what a buffer holds before the first kernel.
func (p *Program) Bytes(buffer int, args []*array.Array) []byte {
	b := &p.Buffers[buffer]
	switch {
	case b.Param >= 0:
		return Pack(b.Shape, args[b.Param])
	case b.From >= 0:
		return p.Bytes(b.From, args)
	case b.Data != nil:
		return Pack(b.Shape, b.Data)
	}
	return make([]byte, (b.Shape.Bytes()+15)/16*16)
}

// Pack is an array as it lies in memory, in the layout of a shape, padded to 16 bytes.
func Pack(s hlo.Shape, a *array.Array) []byte {
	out := make([]byte, (s.Bytes()+15)/16*16)
	if s.RowMajor() {
		copy(out, a.Data)
		return out
	}
	walk(s, func(k, at int) { dtype.Put(out, s.Type.Bits(), at, a.Code(k)) })
	return out
}

// Unpack is the inverse of [Pack].
func Unpack(s hlo.Shape, data []byte) *array.Array {
	a := array.New(s.Type.Elem(), s.Dims...)
	if s.RowMajor() {
		copy(a.Data, data[:len(a.Data)])
		return a
	}
	walk(s, func(k, at int) { a.SetCode(k, dtype.Get(data, s.Type.Bits(), at)) })
	return a
}

// walk visits the elements in row-major order with their places in memory.
func walk(s hlo.Shape, visit func(k, at int)) {
	strides := s.Strides()
	index := make([]int, len(s.Dims))
	for k := range s.Elements() {
		at := 0
		for i, x := range index {
			at += x * strides[i]
		}
		visit(k, at)
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < s.Dims[i] {
				break
			}
			index[i] = 0
		}
	}
}

// Compile makes the kernels of a module's entry.
func Compile(m *hlo.Module, o Options) (*Program, error) {
	if o.Device.Name == "" {
		d, err := plan.FindDevice("h200_sxm")
		if err != nil {
			return nil, err
		}
		o.Device = d
	}
	flat, err := Flatten(m)
	if err != nil {
		return nil, err
	}
	p := &Program{Module: m, Flat: flat, tune: o.Tune.orBest()}
	if err := p.build(o.Device); err != nil {
		return nil, err
	}
	return p, nil
}

var errUnsupported = errors.New("has no thread code")

// Flatten is the entry as one computation: fusions and calls are inlined, tuples in between
// resolved.
func Flatten(m *hlo.Module) (*hlo.Computation, error) {
	out := &hlo.Computation{Name: m.Entry.Name, Pos: m.Entry.Pos}
	used := map[string]int{}
	add := func(in hlo.Instruction) *hlo.Instruction {
		used[in.Name]++
		if n := used[in.Name]; n > 1 {
			in.Name = fmt.Sprintf("%s.i%d", in.Name, n)
		}
		in.Index = len(out.Instructions)
		p := &in
		out.Instructions = append(out.Instructions, p)
		return p
	}
	var inline func(c *hlo.Computation, args [][]*hlo.Instruction) ([]*hlo.Instruction, error)
	inline = func(c *hlo.Computation, args [][]*hlo.Instruction) ([]*hlo.Instruction, error) {
		values := map[*hlo.Instruction][]*hlo.Instruction{}
		for _, in := range c.Instructions {
			var operands []*hlo.Instruction
			for _, o := range in.Operands {
				operands = append(operands, values[o]...)
			}
			switch {
			case in.Op == hlo.Parameter && args != nil:
				values[in] = args[in.Number]
			case in.Op == hlo.Tuple:
				values[in] = operands
			case in.Op == hlo.GetTupleElement && len(values[in.Operands[0]]) > 1:
				values[in] = values[in.Operands[0]][in.Number : in.Number+1]
			case (in.Op == hlo.Fusion || in.Op == hlo.Call) && in.Apply != nil:
				var inner [][]*hlo.Instruction
				for _, o := range in.Operands {
					inner = append(inner, values[o])
				}
				v, err := inline(in.Apply, inner)
				if err != nil {
					return nil, err
				}
				values[in] = v
			case in.Op.Class() == hlo.Opaque:
				return nil, fmt.Errorf("%s: %s %w", in.Pos, in.Op, errUnsupported)
			case !in.Shape.IsTuple() && in.Shape.Type.Elem() == 0:
				return nil, fmt.Errorf("%s: %s %w", in.Pos, in.Shape.Type, errUnsupported)
			default:
				clone := *in
				clone.Operands = operands
				v := add(clone)
				values[in] = []*hlo.Instruction{v}
				if v.Op == hlo.Parameter {
					if v.Shape.IsTuple() {
						return nil, fmt.Errorf("%s: a parameter that is a tuple %w", in.Pos, errUnsupported)
					}
					out.Params = append(out.Params, v)
				}
				if v.Shape.IsTuple() { // a variadic reduction: its values one by one
					var each []*hlo.Instruction
					for i, s := range v.Shape.Elems {
						each = append(each, add(hlo.Instruction{Name: fmt.Sprintf("%s.%d", v.Name, i), Op: hlo.GetTupleElement, Shape: s,
							Operands: []*hlo.Instruction{v}, Attrs: hlo.Attrs{Number: i}, Pos: in.Pos}))
					}
					values[in] = each
				}
			}
		}
		return values[c.Root], nil
	}
	roots, err := inline(m.Entry, nil)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out.Params, func(a, b *hlo.Instruction) int { return a.Number - b.Number })
	setRoots(out, roots)
	return out, nil
}

// setRoots ends a computation.
func setRoots(c *hlo.Computation, roots []*hlo.Instruction) {
	if len(roots) == 1 {
		c.Root = roots[0]
		return
	}
	t := &hlo.Instruction{Name: "results", Op: hlo.Tuple, Operands: roots, Index: len(c.Instructions)}
	t.Shape = hlo.Shape{Type: hlo.TupleType}
	for _, r := range roots {
		t.Shape.Elems = append(t.Shape.Elems, r.Shape)
	}
	c.Instructions = append(c.Instructions, t)
	c.Root = t
}
