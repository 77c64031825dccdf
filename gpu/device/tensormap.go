package device

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
)

// EncodeTensorMap makes the 128 bytes of a parameter of kind [code.Tensor] for one
// launch. bases gives the address of each pointer parameter.
func EncodeTensorMap(c *cuda.Context, m *code.TensorMap, bases map[string]cuda.Ptr, scalars map[string]int64) ([]byte, error) {
	offset, dims, strides, err := m.Shape(scalars)
	if err != nil {
		return nil, err
	}
	base, ok := bases[m.Base]
	if !ok {
		return nil, fmt.Errorf("device: tensor map of %s, which is no buffer", m.Base)
	}
	return c.EncodeTiled(cuda.TensorMap{
		Type: int(m.Type), Address: base + cuda.Ptr(offset), Dims: dims, Strides: strides, Box: m.Box, ElementStrides: m.ElementStrides,
		Interleave: int(m.Interleave), Swizzle: int(m.Swizzle), Promotion: int(m.Promotion), FillNaN: m.FillNaN,
	})
}
