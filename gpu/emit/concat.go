package emit

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// concatenate writes every operand to its part of the result, on the grid of the largest,
// so that each has code of its own. Operands that are cheap to compute stay in one loop with
// one test for each, which moves less per thread and was faster on an H200.
func (b *builder) concatenate() bool {
	hero := b.k.Plan.Heroes[0]
	axis := hero.Dims[0]
	costly := slices.ContainsFunc(hero.Operands, func(o *hlo.Instruction) bool { return work(o, map[*hlo.Instruction]bool{}) > 8 })
	if len(b.roots) != 1 || !costly || !hero.Shape.RowMajor() || b.roots[0].Shape.Elements() != hero.Shape.Elements() || hero.Shape.Type.Bits() < 8 && hero.Shape.Type != hlo.Pred {
		return false
	}
	largest := hero.Operands[0].Shape
	minor := 0 // what vectors must divide
	for _, o := range hero.Operands {
		if !o.Shape.RowMajor() {
			return false
		}
		if o.Shape.Elements() > largest.Elements() {
			largest = o.Shape
		}
		minor = gcd(minor, o.Shape.Dims[len(o.Shape.Dims)-1])
	}
	if largest.Elements() == 0 || minor == 0 {
		return false
	}
	u := b.unroll(largest)
	for u > 1 && minor%u != 0 {
		u /= 2
	}
	at, where := b.over(largest, u)
	begin := 0
	for _, o := range hero.Operands {
		n := o.Shape.Dims[axis]
		out := slices.Clone(at)
		out[axis] = out[axis].AddConst(int64(begin))
		here := append(slices.Clone(where), in(at[axis], n))
		v := b.f.Value(o.Shape.Type, u)
		b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: o, Index: at, Where: here})
		b.add(&Step{Op: Inject, In: []*Value{v}, Of: hero, Index: out})
		b.give(0, b.roots[0], as(hero.Shape, b.roots[0].Shape, out), here, u)
		begin += n
	}
	return true
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// work counts the instructions under one that cost something.
func work(in *hlo.Instruction, seen map[*hlo.Instruction]bool) int {
	if seen[in] {
		return 0
	}
	seen[in] = true
	n := 0
	switch in.Op {
	case hlo.Parameter, hlo.Constant, hlo.Broadcast, hlo.Reshape, hlo.Bitcast, hlo.Slice, hlo.Transpose:
	case hlo.Exp, hlo.Log, hlo.Tanh, hlo.Logistic, hlo.Erf, hlo.Sine, hlo.Cosine, hlo.Power, hlo.Reduce, hlo.Dot, hlo.ReduceWindow, hlo.Gather:
		n = 16
	default:
		n = 1
	}
	for _, o := range in.Operands {
		n += work(o, seen)
	}
	return n
}

// slicesOf is the instruction that all results are parts of, if together they are most of
// it, and the parts.
func slicesOf(c *hlo.Computation) (input *hlo.Instruction, parts [][]hlo.SliceDim) {
	roots := c.Roots()
	n := 0
	for _, r := range roots {
		if r.Op != hlo.Slice || input != nil && r.Operands[0] != input || !r.Shape.RowMajor() || r.Shape.Type.Bits() < 8 && r.Shape.Type != hlo.Pred {
			return nil, nil
		}
		input = r.Operands[0]
		n += r.Shape.Elements()
		parts = append(parts, r.Slices)
	}
	if len(roots) < 2 || input.Op == hlo.Parameter && input.Shape.Elements() == 0 || 2*n < input.Shape.Elements() || input.Op == hlo.Scatter || input.Op == hlo.Reduce {
		return nil, nil
	}
	return input, parts
}

// inputSlices reads an input once and writes each element to the parts that it lies in.
func (b *builder) inputSlices() bool {
	input := b.roots[0].Operands[0]
	at, where := b.over(input.Shape, 1)
	v := b.f.Value(input.Shape.Type, 1)
	b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: input, Index: at, Where: where})
	for i, r := range b.roots {
		here := slices.Clone(where)
		var out []affine.Expr
		for d, s := range r.Slices {
			e := at[d].AddConst(int64(-s.Start))
			here = append(here, in(e, (r.Shape.Dims[d]-1)*s.Stride+1))
			if s.Stride > 1 {
				here = append(here, affine.Constraint{Expr: e.Mod(num(s.Stride))})
			}
			out = append(out, e.FloorDiv(num(s.Stride)))
		}
		b.add(&Step{Op: Insert, In: []*Value{v}, On: b.out[i], Index: out, Where: here})
	}
	return true
}

// planned is the plan of a computation: that of plan.New, but for results that all are parts
// of one input, which one kernel writes.
func planned(c *hlo.Computation, d plan.Device) (*plan.Plan, error) {
	input, parts := slicesOf(c)
	if input == nil {
		return plan.New(c, d)
	}
	pl, err := plan.Single(c, d)
	if err != nil {
		return nil, err
	}
	if all, err := plan.New(c, d); err != nil || len(all.Kernels) == 1 || len(all.Buffers) > len(c.Params)+len(parts) {
		return all, err // nothing to gain, or there are values in between
	}
	old := pl.Kernels[0]
	k := plan.InputSlices(input.Shape, parts, d)
	k.Computation, k.Args, k.Results, k.Roots, k.Heroes, k.IndexBits = old.Computation, old.Args, old.Results, old.Roots, old.Roots, old.IndexBits
	k.Groups = [][]*hlo.Instruction{k.Roots}
	k.Why = append(k.Why, "all results are parts of "+input.Name+": it is read once")
	pl.Kernels[0] = k
	return pl, nil
}
