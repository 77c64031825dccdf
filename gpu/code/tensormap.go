package code

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/affine"
)

// TensorMap says how the host makes the descriptor of 128 bytes by which tensor
// copies find a tensor and its boxes: the parameter of kind [Tensor] holds it, and
// the value of the parameter is its address. Lists go from the inner dimension out;
// expressions range over the scalar parameters.
type TensorMap struct {
	Base           string        // the pointer parameter of the tensor's buffer
	Offset         affine.Expr   // bytes from there; the zero value is 0
	Type           MapType       // of an element
	Dims           []affine.Expr // elements of the tensor
	Strides        []affine.Expr // bytes, one fewer than Dims, for the inner dimension is dense
	Box            []int         // elements of a copy
	ElementStrides []int         // nil is all 1
	Swizzle        MapSwizzle
	Interleave     MapInterleave
	Promotion      MapPromotion
	FillNaN        bool // what lies outside reads as NaN, not 0
}

// MapType is an element type of tensor maps, numbered as CUtensorMapDataType.
type MapType uint8

// The element types.
const (
	MapU8 MapType = iota
	MapU16
	MapU32
	MapI32
	MapU64
	MapI64
	MapF16
	MapF32
	MapF64
	MapBF16
	MapF32Flush
	MapTF32
	MapTF32Flush
)

// Bytes is the size of an element.
func (t MapType) Bytes() int { return [...]int{1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4}[t] }

// Float reports whether elements are floats.
func (t MapType) Float() bool { return t >= MapF16 }

// MapSwizzle is how copies move 16-byte chunks in shared memory, numbered as
// CUtensorMapSwizzle.
type MapSwizzle uint8

// The swizzles.
const (
	SwizzleNone MapSwizzle = iota
	Swizzle32B
	Swizzle64B
	Swizzle128B
)

// String is the swizzle's name as gpu/model/bank has it.
func (s MapSwizzle) String() string { return [...]string{"none", "32B", "64B", "128B"}[s] }

// MapInterleave is the layout of channels, numbered as CUtensorMapInterleave.
type MapInterleave uint8

// The layouts of channels.
const (
	InterleaveNone MapInterleave = iota
	Interleave16B
	Interleave32B
)

// String is the layout's name as gpu/model/bank has it.
func (i MapInterleave) String() string { return [...]string{"none", "16B", "32B"}[i] }

// MapPromotion is the least that a copy reads into the L2 cache, numbered as
// CUtensorMapL2promotion.
type MapPromotion uint8

// The promotions.
const (
	PromoteNone MapPromotion = iota
	Promote64B
	Promote128B
	Promote256B
)

// BoxBytes is how many bytes a copy counts at its barrier.
func (m *TensorMap) BoxBytes() int {
	n := m.Type.Bytes()
	for i, b := range m.Box {
		if i < len(m.ElementStrides) && (i > 0 || m.Interleave != InterleaveNone) {
			b = (b + m.ElementStrides[i] - 1) / m.ElementStrides[i]
		}
		n *= b
	}
	return n
}

// Shape is the numbers of a map for one launch.
func (m *TensorMap) Shape(scalars map[string]int64) (offset int64, dims, strides []uint64, err error) {
	eval := func(e affine.Expr) uint64 {
		v, bad := e.Eval(scalars)
		if bad != nil && err == nil {
			err = fmt.Errorf("code: tensor map of %s: %w", m.Base, bad)
		}
		if v < 0 && err == nil {
			err = fmt.Errorf("code: tensor map of %s: %s is %d", m.Base, e, v)
		}
		return uint64(v)
	}
	offset = int64(eval(m.Offset))
	for _, d := range m.Dims {
		dims = append(dims, eval(d))
	}
	for _, s := range m.Strides {
		strides = append(strides, eval(s))
	}
	return offset, dims, strides, err
}
