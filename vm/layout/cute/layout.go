package cute

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Layout is a function from coordinates to offsets, shape:stride. It is
// immutable; the zero value is 1:0.
type Layout struct {
	shape, stride Tuple
}

// New checks that the two are congruent and within the limits.
func New(shape, stride Tuple) (l Layout, err error) {
	defer catch(&err)
	checkShape(shape)
	if n := len(stride.Leaves()); n > MaxLeaves {
		fail(eText, "", "the stride holds %d numbers", n)
	}
	if !shape.Congruent(stride) {
		fail(eCongruent, "", "shape %s and stride %s are not congruent", shape, stride)
	}
	for _, x := range stride.Leaves() {
		if x.n > MaxOffset || x.n < -MaxOffset {
			fail(eNumber, "", "the stride %d is beyond 2^52", x.n)
		}
		if len(x.basis) > MaxDepth {
			fail(eText, "", "a stride names %d modes", len(x.basis))
		}
		for _, m := range x.basis {
			if m < 0 || m >= MaxLeaves {
				fail(eNumber, "", "there is no mode %d", m)
			}
		}
	}
	l = Layout{shape, stride}
	l.checkOffsets()
	return l, nil
}

func checkShape(shape Tuple) {
	leaves := shape.Leaves()
	if len(leaves) == 0 || len(leaves) > MaxLeaves || shape.Depth() > MaxDepth {
		fail(eText, "", "a shape has 1 to %d numbers, nested at most %d deep", MaxLeaves, MaxDepth)
	}
	for _, x := range leaves {
		if x.n < 1 || x.n > MaxSize || x.basis != nil {
			fail(eNumber, "", "%s is no size", x)
		}
	}
	if shape.Size() > MaxSize {
		fail(eSize, "", "the shape %s has more than 2^40 elements", shape)
	}
}

// checkOffsets makes sure that no sum of offsets overflows and that offsets and
// coordinates are not mixed.
func (l Layout) checkOffsets() {
	shape, stride := l.shape.Leaves(), l.stride.Leaves()
	reach := 0
	for i, d := range stride {
		reach = plus(reach, times(shape[i].n-1, abs(d.n)))
	}
	basis := slices.IndexFunc(stride, func(d Tuple) bool { return d.basis != nil })
	if basis < 0 {
		return
	}
	for i, d := range stride {
		if d.basis == nil && d.n != 0 && shape[i].n > 1 {
			fail(eBasis, "give every stride a mode, as in 1@0, or none", "the stride %s mixes offsets and coordinates", l.stride)
		}
	}
	// Whether bases clash, as 1@0 and 1@0@0 do, shows when they are added.
	var v Tuple
	for _, d := range stride {
		v = sum(v, d.scaled(1).value())
	}
}

// makeLayout is New for parts that the algebra put together; the caller catches.
func makeLayout(shape, stride Tuple) Layout {
	l, err := New(shape, stride)
	if err != nil {
		panic(err)
	}
	return l
}

// Compact is the layout of a shape in column-major order: the first mode
// fastest. Modes of size 1 get stride 0.
func Compact(shape Tuple) (l Layout, err error) {
	defer catch(&err)
	return compact(shape), nil
}

func compact(shape Tuple) Layout {
	checkShape(shape)
	stride, _ := colMajor(shape, 1)
	return makeLayout(shape, stride)
}

// CompactRight is Compact in row-major order: the last mode fastest.
func CompactRight(shape Tuple) (l Layout, err error) {
	defer catch(&err)
	checkShape(shape)
	return makeLayout(shape, rowMajor(shape)), nil
}

func colMajor(shape Tuple, from int) (stride Tuple, next int) {
	if shape.IsInt() {
		if shape.n == 1 {
			return Int(0), from
		}
		return Int(from), times(from, shape.n)
	}
	out := make([]Tuple, len(shape.items))
	for i, x := range shape.items {
		out[i], from = colMajor(x, from)
	}
	return Of(out...), from
}

func rowMajor(shape Tuple) Tuple {
	from := 1
	var walk func(Tuple) Tuple
	walk = func(t Tuple) Tuple {
		if t.IsInt() {
			d := from
			if t.n == 1 {
				d = 0
			}
			from = times(from, t.n)
			return Int(d)
		}
		out := make([]Tuple, len(t.items))
		for i := len(out) - 1; i >= 0; i-- {
			out[i] = walk(t.items[i])
		}
		return Of(out...)
	}
	return walk(shape)
}

// Join is the layout that has the given ones as its modes.
func Join(modes ...Layout) (l Layout, err error) {
	defer catch(&err)
	return join(modes...), nil
}

func join(modes ...Layout) Layout {
	s, d := make([]Tuple, len(modes)), make([]Tuple, len(modes))
	for i, m := range modes {
		s[i], d[i] = m.Shape(), m.Stride()
	}
	return makeLayout(Of(s...), Of(d...))
}

// Shape is the domain.
func (l Layout) Shape() Tuple {
	if l.shape.IsInt() && l.shape.n == 0 {
		return Int(1)
	}
	return l.shape
}

// Stride is congruent with the shape.
func (l Layout) Stride() Tuple { return l.stride }

// Size is the number of coordinates.
func (l Layout) Size() int { return l.Shape().Size() }

// Rank is the number of modes.
func (l Layout) Rank() int { return l.Shape().Rank() }

// Depth is how deep the modes nest; 0 for s:d.
func (l Layout) Depth() int { return l.Shape().Depth() }

// Mode is one mode, numbered from 0, as a layout.
func (l Layout) Mode(i int) Layout {
	return Layout{l.Shape().list()[i], l.stride.list()[i]}
}

// Modes are all modes.
func (l Layout) Modes() []Layout {
	out := make([]Layout, l.Rank())
	for i := range out {
		out[i] = l.Mode(i)
	}
	return out
}

// Coordinates says whether the layout gives coordinates, through strides such as
// 1@0, instead of offsets.
func (l Layout) Coordinates() bool { return l.stride.hasBasis() }

func (t Tuple) hasBasis() bool { return t.basis != nil || slices.ContainsFunc(t.items, Tuple.hasBasis) }

// At is the offset of the i-th coordinate in column-major order. The last mode
// goes on beyond its size, as in CuTe. It is -1 for layouts that give
// coordinates, see [Layout.Value], and for negative i.
func (l Layout) At(i int) int {
	if i < 0 || l.Coordinates() {
		return -1
	}
	at, _ := offset(l.Shape(), l.stride, i, true)
	return at
}

// offset takes from the number i what the shape has room for, all of it where it
// is the last of the layout, and returns the rest.
func offset(shape, stride Tuple, i int, last bool) (at, rest int) {
	if shape.IsInt() {
		if last {
			return i * stride.n, 0
		}
		return i % shape.n * stride.n, i / shape.n
	}
	for k, s := range shape.items {
		var x int
		x, i = offset(s, stride.items[k], i, last && k == len(shape.items)-1)
		at += x
	}
	return at, i
}

// Offsets are the values at all coordinates in order. It fails beyond 2^24
// coordinates and for layouts that give coordinates.
func (l Layout) Offsets() (out []int, err error) {
	defer catch(&err)
	if l.Coordinates() {
		fail(eBasis, "", "%s gives coordinates, not offsets", l)
	}
	if l.Size() > layout.MaxCells {
		fail(eCells, "", "%s has %d elements, too many to list", l, l.Size())
	}
	out = []int{0}
	stride := l.stride.Leaves()
	for k, s := range l.Shape().Leaves() {
		n := len(out)
		for c := 1; c < s.n; c++ {
			for _, x := range out[:n] {
				out = append(out, x+c*stride[k].n)
			}
		}
	}
	return out, nil
}

// Value is the value at the i-th coordinate: an offset, or for strides such as
// 1@0 a coordinate.
func (l Layout) Value(i int) (v Tuple, err error) {
	defer catch(&err)
	if i < 0 || i > MaxSize {
		fail(eCoord, "", "%d is no coordinate", i)
	}
	return l.value(Int(i)), nil
}

// ValueAt is the value at a coordinate: a number, or a list of coordinates for
// the modes.
func (l Layout) ValueAt(coord Tuple) (v Tuple, err error) {
	defer catch(&err)
	return l.value(coord), nil
}

// value gives coordinates all their modes, also where they are 0.
func (l Layout) value(coord Tuple) Tuple {
	v := value(l.Shape(), l.stride, coord)
	for _, d := range l.stride.Leaves() {
		if d.basis != nil {
			v = sum(v, Tuple{basis: d.basis}.value())
		}
	}
	return v
}

func value(shape, stride, coord Tuple) Tuple {
	switch {
	case shape.IsInt() && coord.IsInt():
		if coord.basis != nil {
			fail(eCoord, "", "%s is no coordinate", coord)
		}
		return stride.scaled(coord.n).value()
	case shape.IsInt():
		if len(coord.items) == 1 {
			return value(shape, stride, coord.items[0])
		}
		fail(eCoord, "", "the coordinate %s does not fit the mode %s", coord, shape)
	case coord.IsInt():
		var v Tuple
		n := coord.n
		for i, s := range shape.items {
			c := n
			if i < len(shape.items)-1 {
				c, n = n%s.Size(), n/s.Size()
			}
			v = sum(v, value(s, stride.items[i], Int(c)))
		}
		return v
	case len(coord.items) == 1 && len(shape.items) > 1:
		return value(shape, stride, coord.items[0])
	case len(coord.items) != len(shape.items):
		fail(eCoord, "", "the coordinate %s has %d modes, the shape %s has %d", coord, len(coord.items), shape, len(shape.items))
	}
	var v Tuple
	for i, s := range shape.items {
		v = sum(v, value(s, stride.items[i], coord.items[i]))
	}
	return v
}

// Cosize is one more than the largest offset, where negative strides count as
// positive ones. It is 0 for layouts that give coordinates, see [Layout.Coshape].
func (l Layout) Cosize() int {
	if l.Coordinates() {
		return 0
	}
	shape, c := l.Shape().Leaves(), 1
	for i, d := range l.stride.Leaves() {
		c += (shape[i].n - 1) * abs(d.n)
	}
	return c
}

// Coshape is the smallest shape that holds all values: the cosize, or a shape of
// coordinates.
func (l Layout) Coshape() Tuple {
	var v Tuple
	shape := l.Shape().Leaves()
	for i, d := range l.stride.Leaves() {
		d.n = abs(d.n)
		v = sum(v, d.scaled(shape[i].n-1).value())
		if d.basis != nil { // a mode of one element still has a place
			v = sum(v, Tuple{basis: d.basis}.value())
		}
	}
	return v.mapLeaves(func(x Tuple) Tuple { return Int(x.n + 1) })
}

// Equal compares shapes and strides as they are written; see [Layout.SameMap].
func (l Layout) Equal(m Layout) bool {
	return l.Shape().Equal(m.Shape()) && l.stride.Equal(m.stride)
}

// SameMap says whether two layouts have the same size and the same value at
// every number.
func (l Layout) SameMap(m Layout) bool {
	a, b := Coalesce(l), Coalesce(m)
	return l.Size() == m.Size() && a.Equal(b)
}

// String prints shape:stride.
func (l Layout) String() string { return l.Shape().String() + ":" + l.stride.String() }

// Static prints it with the underscores of CuTe's static numbers.
func (l Layout) Static() string { return l.Shape().Static() + ":" + l.stride.Static() }

// Composed is Swizzle ∘ (Offset + Layout). Where Bits is not 0 it is a layout of
// shared memory in elements of Bits bits, but the swizzle counts bytes, as CuTe
// keeps it until it has a pointer; [Composed.Elements] counts elements in both.
type Composed struct {
	Swizzle layout.Swizzle
	Offset  int
	Layout  Layout
	Bits    int
}

// Elements is the layout with a swizzle that counts elements. It fails where
// elements are larger than what the swizzle keeps together, and for elements
// whose bits are no power of two.
func (c Composed) Elements() (out Composed, err error) {
	defer catch(&err)
	if c.Bits == 0 {
		return c, nil
	}
	by, n := 0, c.Bits
	for ; n > 8; n /= 2 {
		by--
	}
	for ; n < 8 && n > 0; n *= 2 {
		by++
	}
	if n != 8 || c.Bits != 8<<max(-by, 0)>>max(by, 0) {
		fail(eSwizzle, "", "elements of %d bits are no power of two", c.Bits)
	}
	s, serr := c.Swizzle.Rescale(by)
	if serr != nil {
		fail(eSwizzle, "", "%v", serr)
	}
	return Composed{Swizzle: s, Offset: c.Offset, Layout: c.Layout}, nil
}

// Size is the number of coordinates.
func (c Composed) Size() int { return c.Layout.Size() }

// At is the offset, in elements, of the i-th coordinate; -1 where there is none.
func (c Composed) At(i int) int {
	e, err := c.Elements()
	if err != nil {
		return -1
	}
	at := e.Layout.At(i) + e.Offset
	if at < 0 {
		return -1
	}
	return e.Swizzle.Apply(at)
}

// Plain says whether the layout is one without swizzle and offset.
func (c Composed) Plain() bool { return c.Swizzle.Identity() && c.Offset == 0 && c.Bits == 0 }

// String prints the parts joined by "o", or the layout alone where it is plain.
func (c Composed) String() string { return c.text(false) }

// Static prints it with the underscores of CuTe's static numbers.
func (c Composed) Static() string { return c.text(true) }

func (c Composed) text(static bool) string {
	l, under := c.Layout.String(), ""
	if static {
		l, under = c.Layout.Static(), "_"
	}
	if c.Plain() {
		return l
	}
	var b strings.Builder
	b.WriteString(c.Swizzle.String())
	if c.Bits > 0 && c.Offset == 0 {
		fmt.Fprintf(&b, " o smem_ptr[%db](unset) o ", c.Bits)
	} else {
		fmt.Fprintf(&b, " o %s%d o ", under, c.Offset)
	}
	b.WriteString(l)
	return b.String()
}
