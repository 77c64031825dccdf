package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Bias is what a layer adds to each output, [N] numbers of the type of x and y that l has, which is the kind of what [File.Layer] gives,
// or [As] of it. It is nil where the layer has none, and where all of it is 0, as GPTQModel and AutoAWQ store it for layers that had none.
//
// It is the array NAME.bias, of experts that are one array a row of NAME_bias (mlp1_bias for mlp1_weight); f16, bf16 or f32. Libraries round it to the type of x and y
// when they load a model; here nothing is rounded unasked: the error names a number that the type does not hold as it is, and what holds it.
func (f *File) Bias(name string, l qmm.Linear) (*array.Array, error) {
	s, err := f.source(name)
	if err != nil {
		return nil, err
	}
	of, err := s.bias(l.N)
	if of == nil || err != nil {
		return nil, err
	}
	return s.heldBias(of, l.ActType)
}

// biasArray is the array that has a layer's bias, or those of its experts; "" without one.
func (f *File) biasArray(layer string) string {
	for _, name := range f.biasNames(layer) {
		if _, _, ok := f.tensors.Head(name); ok {
			return name
		}
	}
	return ""
}

// biasNames are what that may be called.
func (f *File) biasNames(layer string) []string {
	out := []string{layer + ".bias"}
	if layer == "" { // whose arrays have no other name
		out = []string{"bias"}
	}
	if f.experts(layer) == 0 {
		return out
	}
	of, weight := strings.CutSuffix(layer, "_weight") // mlp.mlp1_weight.blocks, or mlp.experts.gate_up_proj_blocks
	if weight {
		out = append(out, of+"_bias")
	}
	return append(out, layer+"_bias")
}

// biasAt is a number of the bias in words.
func (s *source) biasAt(i int) string {
	if s.expert >= 0 {
		return fmt.Sprintf("%s[%d, %d]", s.biasArray(s.layer), s.expert, i)
	}
	return fmt.Sprintf("bias[%d]", i)
}

// bias is that of n outputs as it is stored; nil without one, and where all of it is 0.
func (s *source) bias(n int) (*array.Array, error) {
	name := s.biasArray(s.layer)
	if name == "" {
		for _, name := range s.biasNames(s.layer) {
			if in := s.elsewhere(name); in != "" {
				return nil, s.bad("its bias, %s, is in %s, another of the model's files: name the layer as %s:%s", name, in, s.index, s.name)
			}
		}
		return nil, nil
	}
	typ, is, _ := s.tensors.Head(name)
	shape := []int{n}
	if s.expert >= 0 {
		shape = []int{s.experts(s.layer), n}
	}
	if !slices.Contains(strings.Fields(scaled), typ) || !slices.Equal(is, shape) {
		return nil, s.noBias("give another, "+byHand, "%s is %s, and a bias is f16, bf16 or f32 and %s beside the layer's other arrays", name, headText(typ, is), shapeText(shape))
	}
	a, err := s.read(name)
	if err != nil {
		return nil, err
	}
	zero := true
	for i := range a.Len() {
		v := a.Type.Decode(a.Code(i))
		if v-v != 0 {
			return nil, s.noBias("give another, "+byHand, "%s is %v; a bias is numbers", s.biasAt(i), v)
		}
		zero = zero && v == 0
	}
	if zero {
		return nil, nil
	}
	return a, nil
}

// heldBias is a bias as a type of x and y holds it.
func (s *source) heldBias(a *array.Array, act dtype.Type) (*array.Array, error) {
	lost := func(t dtype.Type) int { // the first number that a type does not hold, or -1
		return slices.IndexFunc(a.Floats(), func(v float64) bool { return t.Decode(t.Encode(v, false)) != v })
	}
	i := lost(act)
	if i < 0 {
		return a.Cast(act), nil
	}
	other := dtype.BF16
	if act == dtype.BF16 {
		other = dtype.F16
	}
	v := a.Type.Decode(a.Code(i))
	what := fmt.Sprintf("%s is %v, and %s, the type of x and y, would make it %v", s.biasAt(i), float32(v), act, act.Decode(act.Encode(v, false)))
	switch {
	case lost(other) < 0:
		return nil, s.bad("%s; %s holds all of it: take that for x and y, by --act %[2]s, act=%[2]s in a cell", what, other)
	case s.expert >= 0:
		return nil, s.noBias("give one [N] of your own instead, "+byHand+", which round it", "%s; f16 and bf16 hold not all of it", what)
	}
	return nil, s.noBias(fmt.Sprintf("give %s:%s %s, which round it", s.path, s.biasArray(s.layer), byHand), "%s; f16 and bf16 hold not all of it", what)
}

// byHand is how products take a bias that the layer does not have.
const byHand = "by --bias of qmm, in a cell by RunWith"

// BiasError is why a layer's bias is not taken. Way is how products take another, which an exported layer does not.
type BiasError struct {
	Err error
	Way string
}

func (e *BiasError) Error() string { return e.Err.Error() + ": " + e.Way }
func (e *BiasError) Unwrap() error { return e.Err }

// noBias is a [BiasError] of the layer.
func (s *source) noBias(way, format string, args ...any) error {
	return &BiasError{s.bad(format, args...), way}
}

// storedBias is what [Found] says of the bias of n outputs.
func (s *source) storedBias(n int) (string, error) {
	a, err := s.bias(n)
	switch {
	case err != nil:
		return "", err
	case s.biasArray(s.layer) == "":
		return "", nil
	case a == nil:
		return "0", nil
	}
	return a.Type.String(), nil
}
