package emit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/emit/tensor"
	"github.com/tilus-lab/tilus-lab/gpu/opt"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// build makes the kernels of a plan.
func (p *Program) build(d plan.Device) error {
	pl, err := planned(p.Flat, d)
	if err != nil {
		return err
	}
	p.Plan = pl
	of := make([]int, len(pl.Buffers)) // buffers of the program by those of the plan
	for i, b := range pl.Buffers {
		of[i] = -1
		n := Buffer{Name: b.Name, Shape: b.Shape, Param: -1, From: -1, Data: b.Value}
		switch b.Role {
		case plan.PartialBuffer, plan.CounterBuffer: // emitters make their own
			continue
		case plan.ParameterBuffer:
			n.Param = i
		}
		of[i] = p.buffer(n)
		if b.Role == plan.ResultBuffer {
			p.Results = append(p.Results, of[i])
		}
	}
	for _, pk := range pl.Kernels {
		roots := pk.Computation.Roots()
		k := &Kernel{Name: fmt.Sprintf("%s_%d", clean(roots[0].Name), len(p.Kernels)), Computation: pk.Computation, Plan: pk}
		for _, a := range pk.Args {
			k.Args = append(k.Args, of[a])
		}
		for i, r := range pk.Results {
			if from := pl.Buffers[r].From; from >= 0 && !slices.Contains(pk.Args, r) {
				switch {
				case pl.Buffers[from].Role == plan.ParameterBuffer || pl.Buffers[from].Role == plan.ConstantBuffer:
					p.Buffers[of[r]].From = of[from]
				case pk.Emitter == plan.ScatterEmitter:
					if err := p.copyKernel(of[from], of[r], roots[i], d); err != nil {
						return err
					}
				}
			}
			k.Args = append(k.Args, of[r])
		}
		if pk.Emitter == plan.ScatterEmitter {
			k.begins = p.begins(k.Args[len(k.Args)-1])
		}
		if err := p.finish(k, d); err != nil {
			return err
		}
	}
	return nil
}

// begins is what a buffer holds, where the only kernel that writes it so far reads nothing.
func (p *Program) begins(buffer int) (root *hlo.Instruction) {
	for _, k := range p.Kernels {
		if slices.Contains(k.Args[len(k.Computation.Params):], buffer) {
			if root = nil; len(k.Computation.Params) == 0 && len(k.Args) == 1 {
				root = k.Computation.Root
			}
		}
	}
	return root
}

// finish emits a kernel and lowers it.
func (p *Program) finish(k *Kernel, d plan.Device) error {
	err := p.attempt(k, d)
	if errors.Is(err, tensor.ErrElsewhere) {
		k.plain = true
		err = p.attempt(k, d)
	}
	if err != nil {
		return err
	}
	p.Kernels = append(p.Kernels, k)
	return nil
}

func (p *Program) attempt(k *Kernel, d plan.Device) (err error) {
	buffers, args := len(p.Buffers), len(k.Args)
	leaves := map[*hlo.Instruction]*Tensor{}
	k.emit(p, d, leaves)
	tune := p.tune
	if k.Plan.Emitter == plan.ScatterEmitter && k.Plan.Atomic && tune.LoadHint == 0 {
		tune.LoadHint = code.EvictFirst // what is added to stays in the cache, and not what is read once
	}
	if k.Lowered, err = tensor.Lower(k.Tensor, leaves, tensor.Hints{Load: tune.LoadHint, Store: tune.StoreHint}, k.Computation.Roots()[0].Pos); err != nil {
		p.Buffers, k.Args = p.Buffers[:buffers], k.Args[:args]
		return err
	}
	k.Code, err = opt.Run(k.Lowered, nil)
	return err
}

// copyKernel copies a buffer, so that the next kernel can work in place.
func (p *Program) copyKernel(from, to int, like *hlo.Instruction, d plan.Device) error {
	s := p.Buffers[from].Shape
	in := &hlo.Instruction{Name: p.Buffers[from].Name, Op: hlo.Parameter, Shape: s, Pos: like.Pos}
	c := &hlo.Computation{Name: like.Name + "_copy", Pos: like.Pos, Params: []*hlo.Instruction{in}}
	c.Root = &hlo.Instruction{Name: like.Name + "_copy", Op: hlo.Copy, Shape: s, Operands: c.Params, Index: 1, Pos: like.Pos}
	c.Instructions = []*hlo.Instruction{in, c.Root}
	pl, err := plan.Single(c, d)
	if err != nil {
		return err
	}
	return p.finish(&Kernel{Name: fmt.Sprintf("%s_%d", clean(c.Name), len(p.Kernels)), Computation: c, Plan: pl.Kernels[0], Args: []int{from, to}}, d)
}

func (p *Program) buffer(b Buffer) int {
	p.Buffers = append(p.Buffers, b)
	return len(p.Buffers) - 1
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
