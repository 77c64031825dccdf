package emit

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// MaxInlineReduce is the most elements that a reduction inside a fusion combines where its
// value is read; longer ones get a kernel of their own.
const MaxInlineReduce = 16

// split decides which instructions get kernels: the results, and what would be computed too
// often where it is read.
func (p *Program) split(d plan.Device) error {
	p.Buffers, p.Kernels, p.Results = nil, nil, nil
	at := map[*hlo.Instruction]int{} // buffers of what stands in memory
	for i, in := range p.Flat.Params {
		at[in] = p.buffer(Buffer{Name: in.Name, Shape: in.Shape, Param: i, From: -1})
	}
	roots := p.Flat.Roots()
	var cuts []*hlo.Instruction // in order
	onePass := !p.apart && rowsOf(roots, d) != nil
	for _, in := range p.Flat.Instructions {
		if !reads(roots, in) {
			continue
		}
		switch {
		case in.Op == hlo.Constant && in.Shape.Elements() > 1:
			if in.Value == nil {
				return fmt.Errorf("%s: the value of %s is not known", in.Pos, in.Name)
			}
			at[in] = p.buffer(Buffer{Name: in.Name, Shape: in.Shape, Param: -1, From: -1, Data: in.Value})
		case p.apart && in.Op == hlo.Reduce:
			cuts = append(cuts, in)
		case in.Op == hlo.Scatter, !onePass && expensive(in):
			if !slices.Contains(roots, in) {
				cuts = append(cuts, in)
			}
		}
	}
	for _, in := range cuts {
		if err := p.kernels([]*hlo.Instruction{in}, at, d); err != nil {
			return err
		}
	}
	groups := together(roots, func(r *hlo.Instruction) bool {
		_, ok := at[r]
		return ok && r.Op != hlo.Parameter && r.Op != hlo.Constant
	})
	if onePass {
		groups = [][]*hlo.Instruction{roots}
	}
	for _, group := range groups {
		if err := p.kernels(group, at, d); err != nil {
			return err
		}
	}
	for _, r := range roots {
		p.Results = append(p.Results, at[r])
	}
	return nil
}

func (p *Program) buffer(b Buffer) int {
	p.Buffers = append(p.Buffers, b)
	return len(p.Buffers) - 1
}

// expensive says whether an instruction combines so many elements that it is computed once.
func expensive(in *hlo.Instruction) bool {
	switch in.Op {
	case hlo.Reduce:
		n := 1
		for _, d := range in.Dims {
			n *= in.Operands[0].Shape.Dims[d]
		}
		return n > MaxInlineReduce
	case hlo.Dot:
		n := 1
		for _, d := range in.Dot.LHSContract {
			n *= in.Operands[0].Shape.Dims[d]
		}
		return n > MaxInlineReduce
	}
	return false
}

// together groups results that one kernel can write: those with as many elements.
func together(roots []*hlo.Instruction, stands func(*hlo.Instruction) bool) [][]*hlo.Instruction {
	var out [][]*hlo.Instruction
next:
	for _, r := range roots {
		if stands(r) {
			continue
		}
		for i, g := range out {
			if slices.Contains(g, r) {
				continue next
			}
			same := g[0].Shape.Elements() == r.Shape.Elements()
			if g[0].Op != hlo.Scatter && r.Op != hlo.Scatter && r.Op != hlo.Parameter && g[0].Op != hlo.Parameter && same {
				out[i] = append(g, r)
				continue next
			}
		}
		out = append(out, []*hlo.Instruction{r})
	}
	return out
}

// kernels adds what computes instructions from what stands in memory.
func (p *Program) kernels(roots []*hlo.Instruction, at map[*hlo.Instruction]int, d plan.Device) error {
	k := &Kernel{Name: fmt.Sprintf("%s_%d", clean(roots[0].Name), len(p.Kernels))}
	c := &hlo.Computation{Name: k.Name, Pos: roots[0].Pos}
	clones := map[*hlo.Instruction]*hlo.Instruction{}
	var clone func(in *hlo.Instruction) *hlo.Instruction
	clone = func(in *hlo.Instruction) *hlo.Instruction {
		if x := clones[in]; x != nil {
			return x
		}
		x := *in
		x.Operands = nil
		if b, ok := at[in]; ok {
			x.Op, x.Attrs = hlo.Parameter, hlo.Attrs{Number: len(c.Params)}
			c.Params = append(c.Params, &x)
			k.Args = append(k.Args, b)
		} else {
			for _, o := range in.Operands {
				x.Operands = append(x.Operands, clone(o))
			}
		}
		x.Index = len(c.Instructions)
		c.Instructions = append(c.Instructions, &x)
		clones[in] = &x
		return &x
	}
	var ends []*hlo.Instruction
	for _, r := range roots {
		ends = append(ends, clone(r))
	}
	setRoots(c, ends)
	k.Computation = c
	for _, r := range roots {
		b := Buffer{Name: r.Name, Shape: r.Shape, Param: -1, From: -1}
		root := ends[slices.Index(roots, r)]
		if target := inPlace(root); target != nil && len(roots) == 1 {
			if from := p.Buffers[k.Args[target.Number]]; from.Param >= 0 {
				b.From = from.Param
			}
		}
		n := p.buffer(b)
		k.Args = append(k.Args, n)
		at[r] = n
	}
	p.Kernels = append(p.Kernels, k)
	if roots[0].Op == hlo.Scatter {
		return p.scatterInit(k, roots[0], at, d)
	}
	return nil
}

// inPlace is the parameter that a root updates a part of, or nil.
func inPlace(root *hlo.Instruction) *hlo.Instruction {
	if root.Op != hlo.DynamicUpdateSlice && root.Op != hlo.Scatter || root.Operands[0].Op != hlo.Parameter {
		return nil
	}
	target := root.Operands[0]
	if !slices.Equal(target.Shape.MinorToMajor(), root.Shape.MinorToMajor()) || reads(root.Operands[1:], target) {
		return nil
	}
	return target
}

// reads says whether instructions need another one.
func reads(from []*hlo.Instruction, in *hlo.Instruction) bool {
	seen := map[*hlo.Instruction]bool{}
	var visit func(x *hlo.Instruction) bool
	visit = func(x *hlo.Instruction) bool {
		if x == in {
			return true
		}
		if seen[x] {
			return false
		}
		seen[x] = true
		return slices.ContainsFunc(x.Operands, visit)
	}
	return slices.ContainsFunc(from, visit)
}

// scatterInit puts a kernel in front that writes what the scatter combines into, unless the
// result begins as an argument.
func (p *Program) scatterInit(k *Kernel, in *hlo.Instruction, at map[*hlo.Instruction]int, d plan.Device) error {
	result := at[in]
	if p.Buffers[result].From >= 0 {
		return nil
	}
	p.Kernels = p.Kernels[:len(p.Kernels)-1]
	init := in.Operands[0]
	old, stood := at[init]
	first := &hlo.Instruction{Name: in.Name + ".init", Op: hlo.Copy, Shape: in.Shape, Operands: []*hlo.Instruction{init}, Pos: in.Pos}
	if err := p.kernels([]*hlo.Instruction{first}, at, d); err != nil {
		return err
	}
	// The copy writes the buffer of the result.
	extra := at[first]
	args := p.Kernels[len(p.Kernels)-1].Args
	args[len(args)-1] = result
	p.Buffers = slices.Delete(p.Buffers, extra, extra+1)
	if stood {
		at[init] = old
	}
	p.Kernels = append(p.Kernels, k)
	return nil
}

func clean(name string) string {
	out := []byte(name)
	for i, c := range out {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			out[i] = '_'
		}
	}
	return "k_" + string(out)
}
