// Package rand draws random fusions: valid modules for differential tests of
// everything that reads fusions against vm/hlo/eval.
package rand

import (
	"math/rand/v2"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Options bound what is drawn. Zero values mean the defaults in brackets.
type Options struct {
	Steps    int        // operations [8]
	Elements int        // of a tensor, at most [512]
	Types    []hlo.Type // of parameters [f32, bf16, f16, s32, s8, pred]
	// Exact leaves out sums of floats, whose results depend on the order, so that results
	// of machines can be compared bit for bit.
	Exact bool
	// NoReduce leaves out everything of the class Combining.
	NoReduce bool
	// Wide draws also what reads its places from tensors (gathers, scatters, slices at
	// parameters), windows, results in other layouts, and several results of other sizes.
	Wide bool
}

type drawer struct {
	*rand.Rand
	o    Options
	b    *hlo.Builder
	pool []*hlo.Instruction
}

// Fusion draws the module of a seed.
func Fusion(seed uint64, o Options) (*hlo.Module, error) {
	if o.Steps == 0 {
		o.Steps = 8
	}
	if o.Elements == 0 {
		o.Elements = 512
	}
	if o.Types == nil {
		o.Types = []hlo.Type{hlo.F32, hlo.BF16, hlo.F16, hlo.S32, hlo.S8, hlo.Pred}
	}
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 0x686c6f)), o: o, b: hlo.NewBuilder("random")}
	for range 1 + d.IntN(3) {
		d.pool = append(d.pool, d.b.Param(d.shape()))
	}
	for len(d.pool) < 3+o.Steps {
		d.step()
	}
	last := d.pool[len(d.pool)-1]
	results := []*hlo.Instruction{last}
	if d.IntN(4) == 0 { // a second result of as many elements
		for _, x := range d.pool {
			if x != last && x.Op != hlo.Parameter && x.Shape.Elements() == last.Shape.Elements() {
				results = append(results, x)
				break
			}
		}
	}
	for d.o.Wide && len(results) < 4 && d.IntN(2) == 0 {
		if x := d.pool[d.IntN(len(d.pool))]; !slices.Contains(results, x) {
			results = append(results, x)
		}
	}
	return d.b.Done(results...)
}

// sizes draws sizes whose product is at most the limit.
func (d *drawer) sizes() []int {
	rank := d.IntN(4)
	dims := []int{}
	left := d.o.Elements
	for range rank {
		n := []int{1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64}[d.IntN(12)]
		n = min(n, left)
		dims = append(dims, n)
		left /= n
	}
	return dims
}

func (d *drawer) shape() hlo.Shape {
	s := hlo.Array(d.o.Types[d.IntN(len(d.o.Types))], d.sizes()...)
	if len(s.Dims) > 1 && d.IntN(6) == 0 {
		s.Layout = d.Perm(len(s.Dims))
		if s.RowMajor() {
			s.Layout = nil
		}
	}
	return s
}

func (d *drawer) pick() *hlo.Instruction {
	if d.IntN(2) == 0 {
		return d.pool[len(d.pool)-1]
	}
	return d.pool[d.IntN(len(d.pool))]
}

// like is an operand of the shape of x: one of the pool, a broadcast, or x.
func (d *drawer) like(x *hlo.Instruction) *hlo.Instruction {
	var fit []*hlo.Instruction
	for _, y := range d.pool {
		if y.Shape.Same(x.Shape) {
			fit = append(fit, y)
		}
	}
	if d.IntN(4) == 0 {
		c := d.b.Scalar(x.Shape.Type, float64(d.IntN(5)))
		return d.b.Broadcast(c, x.Shape.Dims)
	}
	return fit[d.IntN(len(fit))]
}

func one[T any](d *drawer, list ...T) T { return list[d.IntN(len(list))] }

func (d *drawer) step() {
	x := d.pick()
	t := x.Shape.Type
	dims := x.Shape.Dims
	rank := len(dims)
	push := func(in *hlo.Instruction) {
		if in.Shape.Elements() <= 4*d.o.Elements {
			d.pool = append(d.pool, in)
		}
	}
	kinds := 16
	if d.o.Wide {
		kinds = 24
	}
	switch kind := d.IntN(kinds); kind {
	default:
		d.wide(kind-16, x, push)
	case 0, 1, 2:
		push(d.b.Elementwise(d.binary(t), x, d.like(x)))
	case 3:
		push(d.b.Elementwise(d.unary(t), x))
	case 4:
		push(d.b.Compare(one(d, "EQ", "NE", "LT", "LE", "GT", "GE"), x, d.like(x)))
	case 5:
		y := d.like(x)
		push(d.b.Elementwise(hlo.Select, d.b.Compare(one(d, "LT", "GE"), x, y), x, y))
	case 6:
		push(d.b.Convert(d.o.Types[d.IntN(len(d.o.Types))], x))
	case 7:
		if rank > 0 {
			push(d.b.Transpose(x, d.Perm(rank)...))
		}
	case 8:
		push(d.b.Reshape(x, d.factors(x.Shape.Elements())...))
	case 9:
		places := []int{}
		sizes := []int{}
		for _, n := range dims {
			if d.IntN(3) == 0 {
				sizes = append(sizes, 1+d.IntN(4))
			}
			places = append(places, len(sizes))
			sizes = append(sizes, n)
		}
		if d.IntN(2) == 0 {
			sizes = append(sizes, 1+d.IntN(4))
		}
		if hlo.Array(t, sizes...).Elements() <= d.o.Elements {
			push(d.b.Broadcast(x, sizes, places...))
		}
	case 10:
		ranges := make([]hlo.SliceDim, rank)
		for i, n := range dims {
			s := d.IntN(n)
			ranges[i] = hlo.SliceDim{Start: s, Limit: s + 1 + d.IntN(n-s), Stride: 1 + d.IntN(2)}
		}
		push(d.b.Slice(x, ranges...))
	case 11:
		pads := make([]hlo.PadDim, rank)
		for i, n := range dims {
			pads[i] = hlo.PadDim{Lo: d.IntN(3) - min(1, n-1), Hi: d.IntN(3), Interior: d.IntN(2)}
		}
		push(d.b.Pad(x, d.b.Scalar(t, float64(d.IntN(3))), pads...))
	case 12:
		if rank > 0 {
			push(d.b.Concat(d.IntN(rank), x, d.like(x)))
		}
	case 13:
		var which []int
		for i := range rank {
			if d.IntN(2) == 0 {
				which = append(which, i)
			}
		}
		push(d.b.Reverse(x, which...))
	case 14:
		if rank > 0 && !d.o.NoReduce && t != hlo.F16 && t != hlo.BF16 {
			op := one(d, hlo.Add, hlo.Maximum, hlo.Minimum)
			if t.IsFloat() && d.o.Exact {
				op = one(d, hlo.Maximum, hlo.Minimum)
			}
			var which []int
			for i := range rank {
				if d.IntN(2) == 0 {
					which = append(which, i)
				}
			}
			if len(which) == 0 {
				which = []int{d.IntN(rank)}
			}
			push(d.b.Reduce(op, x, d.b.Scalar(t, 0), which...))
		}
	case 15:
		if rank > 0 {
			sizes := make([]int, rank)
			var starts []*hlo.Instruction
			for i, n := range dims {
				sizes[i] = 1 + d.IntN(n)
				starts = append(starts, d.b.Scalar(hlo.S32, float64(d.IntN(n+2)-1)))
			}
			if d.IntN(2) == 0 {
				push(d.b.DynamicSlice(x, sizes, starts...))
			} else {
				ranges := make([]hlo.SliceDim, rank)
				for i, n := range sizes {
					ranges[i] = hlo.SliceDim{Limit: n, Stride: 1}
				}
				push(d.b.DynamicUpdateSlice(x, d.b.Slice(d.like(x), ranges...), starts...))
			}
		}
	}
}

// factors draws sizes with a given product.
func (d *drawer) factors(n int) []int {
	out := []int{}
	for n > 1 && len(out) < 4 {
		var divisors []int
		for k := 1; k <= n; k++ {
			if n%k == 0 {
				divisors = append(divisors, k)
			}
		}
		k := divisors[d.IntN(len(divisors))]
		out = append(out, k)
		n /= k
	}
	if n != 1 || len(out) == 0 && d.IntN(2) == 0 {
		out = append(out, n)
	}
	return out
}

func (d *drawer) unary(t hlo.Type) hlo.Op {
	switch {
	case t == hlo.Pred:
		return hlo.Not
	case t.IsInt() && !t.Signed():
		return one(d, hlo.Not, hlo.Negate, hlo.Popcnt)
	case t.IsInt():
		return one(d, hlo.Not, hlo.Negate, hlo.Abs, hlo.Sign, hlo.Popcnt, hlo.CountLeadingZeros)
	}
	return one(d, hlo.Negate, hlo.Abs, hlo.Sign, hlo.Floor, hlo.Ceil, hlo.RoundEven, hlo.Exp, hlo.Tanh, hlo.Logistic)
}

func (d *drawer) binary(t hlo.Type) hlo.Op {
	switch {
	case t == hlo.Pred:
		return one(d, hlo.And, hlo.Or, hlo.Xor)
	case t.IsInt():
		return one(d, hlo.Add, hlo.Subtract, hlo.Multiply, hlo.Divide, hlo.Remainder, hlo.Maximum, hlo.Minimum, hlo.And, hlo.Or, hlo.Xor, hlo.ShiftLeft, hlo.ShiftRightLogical)
	}
	return one(d, hlo.Add, hlo.Subtract, hlo.Multiply, hlo.Maximum, hlo.Minimum)
}

// Ops lists the operations that a module uses, sorted, without repetition.
func Ops(m *hlo.Module) []hlo.Op {
	var ops []hlo.Op
	for _, c := range m.Computations {
		for _, in := range c.Instructions {
			ops = append(ops, in.Op)
		}
	}
	slices.Sort(ops)
	return slices.Compact(ops)
}
