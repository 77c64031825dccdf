package layout

import (
	"fmt"
	"slices"
)

// Global says where the elements of a tensor lie in global memory: the map from
// indices to offsets in elements, counted from the pointer of the tensor. It is
// an immutable value in canonical form. Sizes are numbers, at most [MaxOffset]
// in all; nothing is enumerated. The zero value is one element at offset 0.
type Global struct {
	_    [0]func()
	d    *strided
	base int
}

func (g Global) rep() *strided {
	if g.d == nil {
		return unitStrided
	}
	return g.d
}

func (g Global) with(d *strided, err error) (Global, error) {
	if err != nil {
		return Global{}, err
	}
	return Global{d: d, base: g.base}, nil
}

// NewGlobal makes a layout from its lists, as [NewShared] does, and the offset
// of its first element.
func NewGlobal(shape, modeShape, modeStrides []int, base int) (Global, error) {
	if base < 0 || base > MaxOffset {
		return Global{}, fail(eOffset, "", "the first element lies at %d; it must lie between 0 and %d", base, MaxOffset)
	}
	return Global{base: base}.with(newStrided(shape, modeShape, modeStrides, MaxOffset))
}

// GlobalStrides is a tensor with one stride for each dimension.
func GlobalStrides(shape, strides []int) (Global, error) {
	if len(strides) != len(shape) {
		return Global{}, fail(eModes, "", "there are %d strides for %d dimensions", len(strides), len(shape))
	}
	modes := make([]mode, len(shape))
	for d, n := range shape {
		modes[d] = mode{d, n, strides[d]}
	}
	return Global{}.with(buildStrided(shape, modes, MaxOffset))
}

func mustGlobal(g Global, err error) Global {
	if err != nil {
		panic(fmt.Errorf("layout: %w", err))
	}
	return g
}

// GlobalRowMajor is a tensor without holes, the last dimension fastest. It and
// [GlobalColumnMajor] panic when a size is not positive or too large.
func GlobalRowMajor(shape ...int) Global {
	return mustGlobal(Global{}.with(packed(shape, upTo(len(shape)), MaxOffset)))
}

// GlobalColumnMajor is a tensor without holes, the first dimension fastest.
func GlobalColumnMajor(shape ...int) Global {
	return mustGlobal(Global{}.with(packed(shape, column(shape), MaxOffset)))
}

// Shape is the shape of the tensor.
func (g Global) Shape() []int { return append([]int{}, g.rep().shape...) }

// Rank is the number of dimensions.
func (g Global) Rank() int { return len(g.rep().shape) }

// Size is the number of elements.
func (g Global) Size() int { return g.rep().size() }

// Base is the offset of the first element.
func (g Global) Base() int { return g.base }

// ModeShape lists the sizes of the modes, dimension by dimension, outermost first.
func (g Global) ModeShape() []int { sizes, _ := g.rep().lists(); return sizes }

// ModeStrides lists the strides of the modes, in elements.
func (g Global) ModeStrides() []int { _, steps := g.rep().lists(); return steps }

// CountSize is the largest offset plus one.
func (g Global) CountSize() int { return g.base + g.rep().extent() }

// Offset is where an element lies. It panics, as a slice does, when the index is
// outside the tensor.
func (g Global) Offset(index ...int) int {
	if err := g.rep().inside(index); err != nil {
		panic(fmt.Errorf("layout: %w", err))
	}
	return g.base + g.rep().at(index)
}

// Mul is the product: every element of g becomes a whole copy of h, so that
// element i*shape(h) + j lies at g(i)*size(h) + h(j), size being
// [Global.CountSize]. The one of lower rank is extended by leading dimensions of
// size 1.
func (g Global) Mul(h Global) (Global, error) {
	apart := h.CountSize()
	if g.base > (MaxOffset-h.base)/apart {
		return Global{}, fail(eOffset, "use smaller sizes or strides", "the product has offsets beyond %d", MaxOffset)
	}
	return Global{base: g.base*apart + h.base}.with(g.rep().mul(h.rep(), apart, MaxOffset))
}

// Permute reorders dimensions: dimension i of the result is dimension order[i] of g.
func (g Global) Permute(order ...int) (Global, error) {
	if len(order) != g.Rank() {
		return Global{}, fail(eDims, "", "permute names %d dimensions; the rank is %d", len(order), g.Rank())
	}
	order, err := dims(order, g.Rank())
	if err != nil {
		return Global{}, err
	}
	return g.with(g.rep().pick(order), nil)
}

// Slice is the part of the tensor that begins at an index and lies along some of
// its dimensions, in this order, with this shape. A part may begin or end between
// the borders of modes only where its dimension is one mode.
func (g Global) Slice(first, along, shape []int) (Global, error) {
	d := g.rep()
	if err := d.inside(first); err != nil {
		return Global{}, err
	}
	along, err := dims(along, g.Rank())
	if err != nil {
		return Global{}, err
	}
	if len(shape) != len(along) {
		return Global{}, fail(eDims, "", "shape %s has %d sizes for %d dimensions", list(shape), len(shape), len(along))
	}
	out := &strided{shape: slices.Clone(shape)}
	for i, k := range along {
		n := shape[i]
		if n < 1 || n > d.shape[k]-first[k] {
			return Global{}, fail(eOffset, "", "%d elements from %d on do not fit dimension %d of size %d", n, first[k], k, d.shape[k])
		}
		var own []mode
		for _, m := range d.modes {
			if m.dim == k {
				own = append(own, m)
			}
		}
		var cut []mode
		block := 1 // elements of the modes inside
		for j := len(own) - 1; j >= 0 && n > 1; j-- {
			m := own[j]
			whole := n%m.size == 0 && j > 0
			if !whole && n > m.size-first[k]/block%m.size || whole && first[k]/block%m.size != 0 {
				return Global{}, fail(eOffset, "", "%d elements from %d on do not follow the modes of dimension %d", shape[i], first[k], k)
			}
			size := n
			if whole {
				size = m.size
			}
			cut = append(cut, mode{i, size, m.step})
			block *= m.size
			n /= size
		}
		slices.Reverse(cut)
		out.modes = append(out.modes, cut...)
	}
	canonical, err := buildStrided(out.shape, out.modes, MaxOffset)
	return Global{base: g.base + d.at(first)}.with(canonical, err)
}

// Equal reports whether both layouts are the same map.
func (g Global) Equal(h Global) bool { return g.base == h.base && g.rep().equal(h.rep()) }

// String is the layout in notation that [ParseGlobal] reads back exactly.
func (g Global) String() string {
	d := g.rep()
	text := d.text()
	if g.base != 0 || text[0] == 'l' {
		sizes, steps := d.lists()
		text = "layout(" + list(d.shape) + ", " + list(sizes) + ", " + list(steps)
		if g.base != 0 {
			text += fmt.Sprintf(", base=%d", g.base)
		}
		text += ")"
	}
	return "global_" + text
}
