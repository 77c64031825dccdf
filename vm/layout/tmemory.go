package layout

import (
	"fmt"
	"slices"
)

// TMemory says where the elements of a tile lie in tensor memory, the memory
// beside the matrix units of sm_100: dimension 0 runs along lanes (rows), the
// others along columns, in units of the element. It is an immutable value.
//
// Source: PTX ISA, "Tensor Memory"; 128 lanes, of which a warp reaches 32.
type TMemory struct {
	_     [0]func()
	shape []int
	steps []int // of columns; 0 for dimension 0
	lane  int   // of the first row
}

// TMemoryRowMajor is a tile of 32, 64 or 128 lanes whose columns lie without
// holes, the last dimension fastest. There is at least one dimension of columns.
func TMemoryRowMajor(shape ...int) (TMemory, error) {
	if len(shape) < 2 {
		return TMemory{}, fail(eTMemory, "", "shape %s has no lanes and columns", list(shape))
	}
	d, err := packed(shape[1:], upTo(len(shape)-1), MaxCells)
	if err != nil {
		return TMemory{}, err
	}
	steps := make([]int, len(shape))
	step := 1
	for k := len(shape) - 1; k > 0; k-- {
		steps[k] = step
		step *= d.shape[k-1]
	}
	return NewTMemory(shape, steps, 0)
}

// NewTMemory makes a layout from the stride of each dimension, in columns, 0 for
// dimension 0, and the lane of its first row, a multiple of 32.
func NewTMemory(shape, columnStrides []int, laneOffset int) (TMemory, error) {
	switch {
	case len(shape) < 2 || len(shape) > MaxRank:
		return TMemory{}, fail(eTMemory, "", "shape %s has no lanes and columns", list(shape))
	case shape[0] != 32 && shape[0] != 64 && shape[0] != 128:
		return TMemory{}, fail(eTMemory, "", "dimension 0 has %d lanes; it must have 32, 64 or 128", shape[0])
	case len(columnStrides) != len(shape) || columnStrides[0] != 0:
		return TMemory{}, fail(eTMemory, "", "column strides %s of shape %s; there is one for each dimension, 0 for dimension 0", list(columnStrides), list(shape))
	case laneOffset < 0 || laneOffset%32 != 0 || laneOffset+shape[0] > 128:
		return TMemory{}, fail(eTMemory, "", "%d lanes from lane %d on; they must start at a multiple of 32 and end at 128 or before", shape[0], laneOffset)
	}
	modes := make([]mode, len(shape)-1)
	for k := range modes {
		modes[k] = mode{k, shape[k+1], columnStrides[k+1]}
	}
	if _, err := buildStrided(shape[1:], modes, MaxCells); err != nil {
		return TMemory{}, err
	}
	return TMemory{shape: slices.Clone(shape), steps: slices.Clone(columnStrides), lane: laneOffset}, nil
}

// Slice is the part that begins lane lanes lower and lies along these dimensions,
// of which the first is 0, with this shape. Where it begins along the columns is
// an address, not part of the layout.
func (t TMemory) Slice(lane int, along, shape []int) (TMemory, error) {
	along, err := dims(along, len(t.shape))
	if err != nil {
		return TMemory{}, err
	}
	if len(along) == 0 || along[0] != 0 {
		return TMemory{}, fail(eTMemory, "", "a slice along dimensions %s leaves the lanes out; dimension 0 comes first", list(along))
	}
	if len(shape) != len(along) {
		return TMemory{}, fail(eTMemory, "", "shape %s has %d sizes for %d dimensions", list(shape), len(shape), len(along))
	}
	steps := make([]int, len(along))
	for i, k := range along {
		room := t.shape[k]
		if k == 0 {
			room -= lane
		}
		if shape[i] < 1 || shape[i] > room || lane < 0 {
			return TMemory{}, fail(eTMemory, "", "%d elements do not fit dimension %d of size %d", shape[i], k, t.shape[k])
		}
		steps[i] = t.steps[k]
	}
	return NewTMemory(shape, steps, t.lane+lane)
}

// Shape is the shape of the tile, lanes first.
func (t TMemory) Shape() []int { return append([]int{}, t.shape...) }

// ColumnStrides is the stride of each dimension in columns, 0 for dimension 0.
func (t TMemory) ColumnStrides() []int { return append([]int{}, t.steps...) }

// LaneOffset is the lane of the first row.
func (t TMemory) LaneOffset() int { return t.lane }

// Position is the lane and the column of an element. It panics, as a slice
// does, when the index is outside the tile.
func (t TMemory) Position(index ...int) (lane, column int) {
	if err := (&strided{shape: t.shape}).inside(index); err != nil {
		panic(fmt.Errorf("layout: %w", err))
	}
	for k, v := range index {
		column += v * t.steps[k]
	}
	return t.lane + index[0], column
}

// Columns is the number of columns that the tile reaches over, in elements.
func (t TMemory) Columns() int {
	n := 1
	for k, s := range t.shape {
		n += (s - 1) * t.steps[k]
	}
	return n
}

// Equal reports whether both layouts are the same map.
func (t TMemory) Equal(g TMemory) bool {
	if t.lane != g.lane || !slices.Equal(t.shape, g.shape) {
		return false
	}
	for k, n := range t.shape {
		if n > 1 && t.steps[k] != g.steps[k] {
			return false
		}
	}
	return true
}

// String is the layout in notation that [ParseTMemory] reads back exactly.
func (t TMemory) String() string {
	if r, err := TMemoryRowMajor(t.shape...); err == nil && r.Equal(t) {
		return "tmemory_row_major(" + join(t.shape) + ")"
	}
	text := "tmemory_layout(" + list(t.shape) + ", " + list(t.steps)
	if t.lane != 0 {
		text += fmt.Sprintf(", lane_offset=%d", t.lane)
	}
	return text + ")"
}
