package fuse

import (
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Arguments makes an argument for each parameter: numbers that add up exactly, drawn from
// a seed. What says where something is read or written is drawn from the places that there
// are, and one beyond.
func (f *Fusion) Arguments(seed int) []*array.Array { return f.Samples(seed, math.MaxInt) }

// Samples is [Fusion.Arguments] with no more than most elements of each, in one dimension
// where there are fewer than the parameter has.
func (f *Fusion) Samples(seed, most int) []*array.Array {
	places := f.places()
	var out []*array.Array
	for i, p := range f.Program.Flat.Params {
		s := p.Shape
		if s.Elements() > most {
			s = hlo.Array(s.Type, most)
		}
		out = append(out, argument(s, uint64(seed)*1000003+uint64(i), places[p]))
	}
	return out
}

// places is how many places there are for the parameters that say where something lies.
func (f *Fusion) places() map[*hlo.Instruction]uint64 {
	out := map[*hlo.Instruction]uint64{}
	of := func(in *hlo.Instruction, n int) {
		for len(in.Operands) == 1 && (in.Op.Elementwise() || in.Op == hlo.Bitcast || in.Op == hlo.Reshape || in.Op == hlo.Broadcast || in.Op == hlo.Slice) {
			in = in.Operands[0]
		}
		if in.Op == hlo.Parameter {
			out[in] = max(out[in], uint64(n))
		}
	}
	largest := func(s hlo.Shape, dims []int) (n int) {
		for _, d := range dims {
			n = max(n, s.Dims[d])
		}
		return n
	}
	for _, in := range f.Program.Flat.Instructions {
		switch in.Op {
		case hlo.Gather:
			of(in.Operands[1], largest(in.Operands[0].Shape, slices.Concat(in.Gather.StartMap, in.Gather.OperandBatch)))
		case hlo.Scatter:
			of(in.Operands[in.Inputs()], largest(in.Operands[0].Shape, slices.Concat(in.Scatter.ToOperand, in.Scatter.InputBatch)))
		case hlo.DynamicSlice:
			for d, x := range in.Operands[1:] {
				of(x, in.Operands[0].Shape.Dims[d]-in.Sizes[d]+1)
			}
		case hlo.DynamicUpdateSlice:
			for d, x := range in.Operands[2:] {
				of(x, in.Shape.Dims[d]-in.Operands[1].Shape.Dims[d]+1)
			}
		}
	}
	return out
}

func argument(s hlo.Shape, seed, places uint64) *array.Array {
	t := s.Type.Elem()
	a := array.New(t, s.Dims...)
	state := seed
	for k := range a.Len() {
		// SplitMix64.
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		switch {
		case s.Type == hlo.Pred:
			a.SetCode(k, z&1)
		case s.Type.IsFloat():
			a.SetCode(k, t.Encode(float64(int64(z%65)-32)/16, false))
		case places > 0:
			a.SetCode(k, t.EncodeInt(int64(z%(places+1)), true))
		default:
			a.SetCode(k, t.EncodeInt(int64(z%8), true))
		}
	}
	return a
}
