package cuda

import (
	"fmt"
	"runtime"
	"unsafe"
)

// TensorMap is what the driver makes a tensor map of: a tensor in global memory and
// the box that one copy moves. Lists go from the inner dimension out; numbers are
// those of cuda.h.
type TensorMap struct {
	Type           int // CUtensorMapDataType
	Address        Ptr
	Dims           []uint64 // elements
	Strides        []uint64 // bytes, one fewer than Dims
	Box            []int    // elements
	ElementStrides []int    // nil is all 1
	Interleave     int      // CUtensorMapInterleave
	Swizzle        int      // CUtensorMapSwizzle
	Promotion      int      // CUtensorMapL2promotion
	FillNaN        bool
}

// TensorMapBytes is the size of an encoded tensor map; in memory it lies at a multiple
// of 64.
const TensorMapBytes = 128

// EncodeTiled makes the 128 bytes that a kernel takes as a parameter
// (cuTensorMapEncodeTiled). The error says that the driver refuses the map, or is older
// than CUDA 12.0.
func (c *Context) EncodeTiled(m TensorMap) ([]byte, error) { return encodeTiled(c.d, c.call, m) }

// encodeTiled encodes by a call, which the driver wants to be made in a context.
func encodeTiled(d *Driver, call func(s symbol, args ...uintptr) error, m TensorMap) ([]byte, error) {
	rank := len(m.Dims)
	if rank < 1 || rank > 5 || len(m.Strides) != rank-1 || len(m.Box) != rank || m.ElementStrides != nil && len(m.ElementStrides) != rank {
		return nil, fmt.Errorf("cuda: a tensor map of %d dimensions, %d strides and a box of %d; it has 1 to 5 dimensions, a stride less, and as long a box", rank, len(m.Strides), len(m.Box))
	}
	if d.fn[cuTensorMapEncodeTiled] == 0 {
		return nil, fmt.Errorf("cuda: the driver lacks cuTensorMapEncodeTiled; it is older than CUDA 12.0: update the NVIDIA driver, or take a program without tensor copies")
	}
	strides := append(append([]uint64{}, m.Strides...), 0)
	box, steps := make([]uint32, rank), make([]uint32, rank)
	for i := range box {
		box[i], steps[i] = uint32(m.Box[i]), 1
		if m.ElementStrides != nil {
			steps[i] = uint32(m.ElementStrides[i])
		}
	}
	room := make([]byte, TensorMapBytes+64)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&room[0])
	skip := -uintptr(unsafe.Pointer(&room[0])) & 63
	fill := uintptr(0)
	if m.FillNaN {
		fill = 1
	}
	err := call(cuTensorMapEncodeTiled, uintptr(unsafe.Pointer(&room[skip])), uintptr(m.Type), uintptr(rank), uintptr(m.Address),
		uintptr(unsafe.Pointer(&m.Dims[0])), uintptr(unsafe.Pointer(&strides[0])), uintptr(unsafe.Pointer(&box[0])), uintptr(unsafe.Pointer(&steps[0])),
		uintptr(m.Interleave), uintptr(m.Swizzle), uintptr(m.Promotion), fill)
	if err != nil {
		return nil, fmt.Errorf("cuda: tensor map of %v elements, strides %v, box %v: %w", m.Dims, m.Strides, m.Box, err)
	}
	return room[skip : skip+TensorMapBytes], nil
}

// AllowLargeClusters lets launches of the kernel have clusters of more than 8 blocks
// (cuFuncSetAttribute with NON_PORTABLE_CLUSTER_SIZE_ALLOWED).
func (f *Function) AllowLargeClusters() error {
	return f.m.c.call(cuFuncSetAttribute, f.h, 14, 1)
}
