package fuse

import (
	"math"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Arguments makes an argument for each parameter: numbers that add up exactly, drawn from
// a seed. What says where something is read or written is drawn from the places that there
// are, and one beyond; what is said to be unique or sorted is.
func (f *Fusion) Arguments(seed int) []*array.Array { return f.Samples(seed, math.MaxInt) }

// Samples is [Fusion.Arguments] with no more than most elements of each, in one dimension
// where there are fewer than the parameter has.
func (f *Fusion) Samples(seed, most int) []*array.Array {
	at := f.places()
	var out []*array.Array
	for i, p := range f.Program.Flat.Params {
		s := p.Shape
		if s.Elements() > most {
			s = hlo.Array(s.Type, most)
		}
		out = append(out, argument(s, uint64(seed)*1000003+uint64(i), at[p]))
	}
	return out
}

// places are what elements of a parameter say: where something lies.
type places struct {
	sizes  []int // of the dimensions that the parts of an index stand for
	parts  int   // elements of an index
	unique bool  // no two indices are alike
	sorted bool
}

// places finds the parameters that say where something lies.
func (f *Fusion) places() map[*hlo.Instruction]places {
	out := map[*hlo.Instruction]places{}
	of := func(in *hlo.Instruction, p places) {
		for len(in.Operands) == 1 && (in.Op.Elementwise() || in.Op == hlo.Bitcast || in.Op == hlo.Reshape || in.Op == hlo.Broadcast || in.Op == hlo.Slice) {
			in = in.Operands[0]
		}
		if in.Op == hlo.Parameter {
			out[in] = p
		}
	}
	sizes := func(s hlo.Shape, dims []int) (list []int) {
		for _, d := range dims {
			list = append(list, s.Dims[d])
		}
		return list
	}
	parts := func(s hlo.Shape, vector int) int {
		if vector < len(s.Dims) {
			return s.Dims[vector]
		}
		return 1
	}
	for _, in := range f.Program.Flat.Instructions {
		switch in.Op {
		case hlo.Gather:
			at := in.Operands[1]
			of(at, places{sizes(in.Operands[0].Shape, in.Gather.StartMap), parts(at.Shape, in.Gather.IndexVector), in.Unique, in.Sorted})
		case hlo.Scatter:
			at := in.Operands[in.Inputs()]
			of(at, places{sizes(in.Operands[0].Shape, in.Scatter.ToOperand), parts(at.Shape, in.Scatter.IndexVector), in.Unique, in.Sorted})
		case hlo.DynamicSlice:
			for d, x := range in.Operands[1:] {
				of(x, places{sizes: []int{in.Operands[0].Shape.Dims[d] - in.Sizes[d] + 1}, parts: 1})
			}
		case hlo.DynamicUpdateSlice:
			for d, x := range in.Operands[2:] {
				of(x, places{sizes: []int{in.Shape.Dims[d] - in.Operands[1].Shape.Dims[d] + 1}, parts: 1})
			}
		}
	}
	return out
}

// place is part k of the indices, of which there are n, where z is any number.
func (p places) place(k, n int, z uint64) uint64 {
	index, part := k/p.parts, k%p.parts
	size := uint64(p.sizes[min(part, len(p.sizes)-1)])
	switch {
	case p.unique: // counted, the first part fastest
		for _, s := range p.sizes[:min(part, len(p.sizes))] {
			index /= max(s, 1)
		}
		return uint64(index) % max(size, 1)
	case p.sorted && part == 0:
		return uint64(index) * size / uint64(max(n/p.parts, 1))
	}
	return z % (size + 1)
}

func argument(s hlo.Shape, seed uint64, at places) *array.Array {
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
		case len(at.sizes) > 0:
			a.SetCode(k, t.EncodeInt(int64(at.place(k, a.Len(), z)), true))
		default:
			a.SetCode(k, t.EncodeInt(int64(z%8), true))
		}
	}
	return a
}
