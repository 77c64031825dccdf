package plan

import (
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// widenFrom is how many updates of an element on average make it worth to add them in f32
// and to round once.
const widenFrom = 8

// widenScatters makes scatters that add many f16 or bf16 updates to each element add in
// f32. A computation without such scatters stays as it is.
func widenScatters(c *hlo.Computation) *hlo.Computation {
	some := false
	for _, in := range c.Instructions {
		some = some || widens(in)
	}
	if !some {
		return c
	}
	out := &hlo.Computation{Name: c.Name, Pos: c.Pos}
	of := make([]*hlo.Instruction, len(c.Instructions))
	add := func(in hlo.Instruction) *hlo.Instruction {
		in.Index = len(out.Instructions)
		out.Instructions = append(out.Instructions, &in)
		return &in
	}
	for i, in := range c.Instructions {
		n := *in
		n.Operands = make([]*hlo.Instruction, len(in.Operands))
		for j, o := range in.Operands {
			n.Operands[j] = of[o.Index]
		}
		if !widens(in) {
			of[i] = add(n)
			if in.Op == hlo.Parameter {
				out.Params = append(out.Params, of[i])
			}
			continue
		}
		convert := func(name string, x *hlo.Instruction, t hlo.Type) *hlo.Instruction {
			s := x.Shape
			s.Type = t
			return add(hlo.Instruction{Name: name, Op: hlo.Convert, Shape: s, Operands: []*hlo.Instruction{x}, Pos: in.Pos})
		}
		sum := n
		sum.Name = in.Name + "_sum"
		sum.Shape.Type = hlo.F32
		sum.Apply = addF32(in.Apply)
		sum.Operands = []*hlo.Instruction{convert(in.Name+"_into", n.Operands[0], hlo.F32), n.Operands[1], convert(in.Name+"_updates", n.Operands[2], hlo.F32)}
		of[i] = convert(in.Name, add(sum), in.Shape.Type)
		of[i].Shape = in.Shape
	}
	// Parameters count by number, whatever the order of the text.
	for i, p := range c.Params {
		out.Params[i] = of[p.Index]
	}
	out.Root = of[c.Root.Index]
	return out
}

func widens(in *hlo.Instruction) bool {
	if in.Op != hlo.Scatter || in.Shape.IsTuple() || in.Unique || in.Inputs() != 1 {
		return false
	}
	op, ok := combiner(in.Apply)
	return ok && op == hlo.Add && (in.Shape.Type == hlo.BF16 || in.Shape.Type == hlo.F16) &&
		in.Operands[2].Shape.Elements() >= widenFrom*in.Shape.Elements()
}

// addF32 is a sum of two f32, in the place of another computation.
func addF32(like *hlo.Computation) *hlo.Computation {
	c := &hlo.Computation{Name: like.Name + "_f32", Pos: like.Pos}
	s := hlo.Array(hlo.F32)
	for i, p := range like.Params {
		c.Params = append(c.Params, &hlo.Instruction{Name: p.Name, Op: hlo.Parameter, Shape: s, Attrs: hlo.Attrs{Number: i}, Index: i, Pos: p.Pos})
	}
	c.Root = &hlo.Instruction{Name: "sum", Op: hlo.Add, Shape: s, Operands: c.Params, Index: len(c.Params), Pos: like.Pos}
	c.Instructions = append(append(c.Instructions, c.Params...), c.Root)
	return c
}
