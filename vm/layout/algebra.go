package layout

import (
	"fmt"
	"slices"
)

// Mul is the product: every element of l becomes a whole copy of g. Thread and
// slot numbers of l are the slow digits, those of g the fast ones, and the shapes
// multiply. The one of lower rank is extended by leading dimensions of size 1.
// The product is associative, not commutative, and undone by [Layout.Div]. It
// panics when the result exceeds [MaxCells].
func (l Layout) Mul(g Layout) Layout { return must(mul(l, g)) }

func mul(f, g Layout) (Layout, error) {
	rank := max(f.Rank(), g.Rank())
	a, b := f.extend(rank), g.extend(rank)
	var dims [someDims]int
	shape := dims[:0]
	for d := range rank {
		// Strides of f below must not overflow before build looks at the sizes.
		n, ok := times(a.shape[d], b.shape[d])
		if !ok {
			return Layout{}, tooLarge([]int{a.shape[d], b.shape[d]})
		}
		shape = append(shape, n)
	}
	var spatial, local [2 * someDims]Digit
	outer := func(out, in, inner []Digit) []Digit {
		for _, x := range in {
			if x.Dim >= 0 {
				x.Stride *= b.shape[x.Dim]
			}
			out = append(out, x)
		}
		return append(out, inner...)
	}
	return build(shape, outer(spatial[:0], a.spatial, b.spatial), outer(local[:0], a.local, b.local))
}

// extend is the layout with dimensions of size 1 in front, up to rank.
func (l Layout) extend(rank int) *data {
	d := l.rep()
	k := rank - len(d.shape)
	if k <= 0 {
		return d
	}
	shift := func(in []Digit) []Digit {
		out := slices.Clone(in)
		for i := range out {
			if out[i].Dim >= 0 {
				out[i].Dim += k
			}
		}
		return out
	}
	return &data{shape: append(ones(k), d.shape...), spatial: shift(d.spatial), local: shift(d.local)}
}

func ones(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// quotient is the shape of h divided by that of g, dimension by dimension.
func quotient(h, g *data) ([]int, bool) {
	shape := make([]int, len(h.shape))
	for d := range shape {
		if h.shape[d]%g.shape[d] != 0 {
			return nil, false
		}
		shape[d] = h.shape[d] / g.shape[d]
	}
	return shape, true
}

// Div is the f with f.Mul(g) equal to l, of the rank of l.
func (l Layout) Div(g Layout) (Layout, error) {
	no := func(why string) (Layout, error) {
		return Layout{}, fail(eDivide, "the divisor must be the inner part of the layout; left_divide takes off an outer part", "%s / %s does not exist: %s", l, g, why)
	}
	if g.Rank() > l.Rank() {
		return no("the divisor has more dimensions")
	}
	h, inner := l.rep(), g.extend(l.Rank())
	shape, ok := quotient(h, inner)
	if !ok {
		return no("shape " + list(inner.shape) + " does not divide " + list(h.shape))
	}
	rest := func(whole, part []Digit) ([]Digit, bool) {
		out := slices.Clone(whole)
		for i := len(part) - 1; i >= 0; i-- {
			p := part[i]
			if len(out) == 0 {
				return nil, false
			}
			x := &out[len(out)-1]
			if x.Dim != p.Dim || x.Stride != p.Stride || x.Size%p.Size != 0 {
				return nil, false
			}
			if x.Size == p.Size {
				out = out[:len(out)-1]
				continue
			}
			// A cut digit continues the divisor's outermost one; a canonical
			// divisor cannot go on with the same digit.
			if i > 0 {
				return nil, false
			}
			x.Size /= p.Size
			x.Stride *= p.Size
		}
		for i := range out {
			if d := out[i].Dim; d >= 0 {
				out[i].Stride /= inner.shape[d]
			}
		}
		return out, true
	}
	spatial, ok := rest(h.spatial, inner.spatial)
	if !ok {
		return no("its thread digits do not end with those of the divisor")
	}
	local, ok := rest(h.local, inner.local)
	if !ok {
		return no("its slot digits do not end with those of the divisor")
	}
	return build(shape, spatial, local)
}

// LeftDiv is the g with f.Mul(g) equal to l, of the rank of l.
func (l Layout) LeftDiv(f Layout) (Layout, error) {
	no := func(why string) (Layout, error) {
		return Layout{}, fail(eLeftDivide, "the divisor must be the outer part of the layout; '/' takes off an inner part", "left_divide(%s, %s) does not exist: %s", l, f, why)
	}
	if f.Rank() > l.Rank() {
		return no("the divisor has more dimensions")
	}
	h, outer := l.rep(), f.extend(l.Rank())
	shape, ok := quotient(h, outer)
	if !ok {
		return no("shape " + list(outer.shape) + " does not divide " + list(h.shape))
	}
	rest := func(whole, part []Digit) ([]Digit, bool) {
		out := slices.Clone(whole)
		for i, p := range part {
			if len(out) == 0 {
				return nil, false
			}
			if p.Dim >= 0 {
				p.Stride *= shape[p.Dim]
			}
			x := &out[0]
			// The slow part of x has the size of p and x.Size/p.Size times the stride.
			if x.Dim != p.Dim || x.Size%p.Size != 0 || x.Stride*(x.Size/p.Size) != p.Stride {
				return nil, false
			}
			if x.Size == p.Size {
				out = out[1:]
				continue
			}
			if i < len(part)-1 {
				return nil, false
			}
			x.Size /= p.Size
		}
		return out, true
	}
	spatial, ok := rest(h.spatial, outer.spatial)
	if !ok {
		return no("its thread digits do not begin with those of the divisor")
	}
	local, ok := rest(h.local, outer.local)
	if !ok {
		return no("its slot digits do not begin with those of the divisor")
	}
	return build(shape, spatial, local)
}

// dims checks dimension numbers, counts negative ones from the end, and refuses
// repetitions.
func dims(in []int, rank int) ([]int, error) {
	out := make([]int, len(in))
	for i, d := range in {
		if d < -rank || d >= rank {
			return nil, fail(eDims, "", "dimension %d does not exist: the rank is %d", d, rank)
		}
		if d < 0 {
			d += rank
		}
		if slices.Contains(out[:i], d) {
			return nil, fail(eDims, "", "dimension %d is named twice", d)
		}
		out[i] = d
	}
	return out, nil
}

// remap renumbers the dimensions of digits; to[d] is the new number.
func remap(in []Digit, to []int) []Digit {
	out := slices.Clone(in)
	for i := range out {
		if d := out[i].Dim; d >= 0 {
			out[i].Dim = to[d]
		}
	}
	return out
}

// Reduce is the layout of the tile after a reduction over some dimensions: slots
// that differed only there become one, threads become replicas of each other.
// The dimensions stay with size 1 if keep is set, else they vanish.
func (l Layout) Reduce(over []int, keep bool) (Layout, error) {
	d := l.rep()
	over, err := dims(over, len(d.shape))
	if err != nil {
		return Layout{}, err
	}
	var shape []int
	to := make([]int, len(d.shape))
	for i, n := range d.shape {
		to[i] = len(shape)
		switch {
		case !slices.Contains(over, i):
			shape = append(shape, n)
		case keep:
			shape = append(shape, 1)
		}
	}
	var spatial, local []Digit
	for _, g := range d.spatial {
		if slices.Contains(over, g.Dim) {
			g = Digit{Size: g.Size, Dim: -1}
		}
		spatial = append(spatial, g)
	}
	for _, g := range d.local {
		if !slices.Contains(over, g.Dim) {
			local = append(local, g)
		}
	}
	return build(shape, remap(spatial, to), remap(local, to))
}

// Slice is the layout of the part of the tile that keeps these dimensions, in
// ascending order, and fixes the index of the others. It does not exist where
// threads are spread over a dimension that vanishes: only some of them hold the part.
func (l Layout) Slice(retain ...int) (Layout, error) {
	d := l.rep()
	keep, err := dims(retain, len(d.shape))
	if err != nil {
		return Layout{}, err
	}
	if !slices.IsSorted(keep) {
		return Layout{}, fail(eDims, "permute the slice", "slice keeps dimensions %s, which do not ascend", list(keep))
	}
	var drop []int
	for i := range d.shape {
		if !slices.Contains(keep, i) {
			drop = append(drop, i)
		}
	}
	for _, g := range d.spatial {
		if slices.Contains(drop, g.Dim) {
			return Layout{}, fail(eDims, "keep the dimension, or go through shared memory", "slice: threads are spread over dimension %d, so only some of them hold the part", g.Dim)
		}
	}
	return l.Reduce(drop, false)
}

// ReduceTo reduces every dimension in which shape, aligned at the last
// dimension, is 1, and drops leading dimensions that shape does not have. It is
// the layout an operand of that shape must have to be broadcast to l.
func (l Layout) ReduceTo(shape []int) (Layout, error) {
	d := l.rep()
	lead := len(d.shape) - len(shape)
	no := fail(eReduceTo, "", "shape %s does not reduce to %s", list(d.shape), list(shape))
	if lead < 0 {
		return Layout{}, no
	}
	var keep, drop []int
	for i, n := range d.shape {
		switch {
		case i < lead:
			drop = append(drop, i)
		case shape[i-lead] == 1 && n != 1:
			keep = append(keep, i)
		case shape[i-lead] != n:
			return Layout{}, no
		}
	}
	r, err := l.Reduce(keep, true)
	if err != nil {
		return Layout{}, err
	}
	return r.Reduce(drop, false)
}

// Permute reorders dimensions: dimension i of the result is dimension order[i]
// of l. Permute(1, 0) is the transpose.
func (l Layout) Permute(order ...int) (Layout, error) {
	d := l.rep()
	if len(order) != len(d.shape) {
		return Layout{}, fail(eDims, "", "permute names %d dimensions; the rank is %d", len(order), len(d.shape))
	}
	order, err := dims(order, len(d.shape))
	if err != nil {
		return Layout{}, err
	}
	shape, to := make([]int, len(order)), make([]int, len(order))
	for i, from := range order {
		shape[i], to[from] = d.shape[from], i
	}
	return build(shape, remap(d.spatial, to), remap(d.local, to))
}

// Reshape gives the tile another shape of the same size, elements staying in
// row-major order. It exists where every border between new dimensions falls
// between modes or cuts a mode into two whole factors.
func (l Layout) Reshape(shape ...int) (Layout, error) {
	d := l.rep()
	size := 1
	for i, n := range shape {
		if n <= 0 {
			return Layout{}, fail(eSize, "", "dimension %d has size %d; sizes must be positive", i, n)
		}
		var ok bool
		if size, ok = times(size, n); !ok {
			return Layout{}, tooLarge(shape)
		}
	}
	if size != l.Size() {
		return Layout{}, fail(eReshape, "", "shape %s has %d elements; the layout of shape %s has %d", list(shape), size, list(d.shape), l.Size())
	}
	row := make([]int, len(shape))
	rowMajor(row, shape)
	// In row-major numbers a digit covers the range from low to low*Size. Cut
	// it where new dimensions begin, fastest dimension first.
	cut := func(in []Digit) ([]Digit, error) {
		var out []Digit
		for _, g := range in {
			if g.Dim < 0 {
				out = append(out, g)
				continue
			}
			low := g.Stride * d.row[g.Dim]
			var parts []Digit
			left := g.Size
			for dim := len(shape) - 1; dim >= 0 && left > 1; dim-- {
				high := row[dim] * shape[dim]
				if high <= low {
					continue
				}
				size := left
				if high < low*left {
					if high%low != 0 || left%(high/low) != 0 {
						return nil, fail(eReshape, "", "reshape to %s cuts a mode of size %d of dimension %d unevenly", list(shape), g.Size, g.Dim)
					}
					size = high / low
				}
				if low%row[dim] != 0 {
					return nil, fail(eReshape, "", "reshape to %s cuts a mode of size %d of dimension %d unevenly", list(shape), g.Size, g.Dim)
				}
				parts = append(parts, Digit{Size: size, Dim: dim, Stride: low / row[dim]})
				low *= size
				left /= size
			}
			slices.Reverse(parts)
			out = append(out, parts...)
		}
		return out, nil
	}
	spatial, err := cut(d.spatial)
	if err != nil {
		return Layout{}, err
	}
	local, err := cut(d.local)
	if err != nil {
		return Layout{}, err
	}
	return build(shape, spatial, local)
}

// Squeeze removes dimensions of size 1.
func (l Layout) Squeeze(drop ...int) (Layout, error) {
	d := l.rep()
	drop, err := dims(drop, len(d.shape))
	if err != nil {
		return Layout{}, err
	}
	for _, i := range drop {
		if d.shape[i] != 1 {
			return Layout{}, fail(eDims, "", "squeeze: dimension %d has size %d, not 1", i, d.shape[i])
		}
	}
	return l.Reduce(drop, false)
}

// Unsqueeze inserts dimensions of size 1, at these places in the result.
func (l Layout) Unsqueeze(at ...int) (Layout, error) {
	d := l.rep()
	rank := len(d.shape) + len(at)
	at, err := dims(at, rank)
	if err != nil {
		return Layout{}, err
	}
	shape, to := make([]int, 0, rank), make([]int, 0, len(d.shape))
	for i := range rank {
		if slices.Contains(at, i) {
			shape = append(shape, 1)
			continue
		}
		shape = append(shape, d.shape[len(to)])
		to = append(to, i)
	}
	return build(shape, remap(d.spatial, to), remap(d.local, to))
}

// Flatten joins the dimensions from start to end, both included, into one.
// Negative numbers count from the end, so Flatten(0, -1) joins all.
func (l Layout) Flatten(start, end int) (Layout, error) {
	shape := l.rep().shape
	if len(shape) == 0 && start == 0 && end == -1 {
		return l.Reshape(1)
	}
	ends, err := dims([]int{start}, len(shape))
	if err != nil {
		return Layout{}, err
	}
	start = ends[0]
	if ends, err = dims([]int{end}, len(shape)); err != nil {
		return Layout{}, err
	}
	end = ends[0]
	if end < start {
		return Layout{}, fail(eDims, "", "flatten from dimension %d to %d: the first comes after the last", start, end)
	}
	n := 1
	for _, s := range shape[start : end+1] {
		n *= s
	}
	return l.Reshape(slices.Concat(shape[:start], []int{n}, shape[end+1:])...)
}

// Concat is the layout of pairs: its shape is that of l followed by that of g,
// its slow digits are those of l and its fast ones those of g. It panics when the
// result exceeds [MaxCells].
func (l Layout) Concat(g Layout) Layout { return must(concat(l, g)) }

func concat(a, b Layout) (Layout, error) {
	x, y := a.rep(), b.rep()
	to := make([]int, len(y.shape))
	for i := range to {
		to[i] = len(x.shape) + i
	}
	return build(slices.Concat(x.shape, y.shape),
		append(slices.Clone(x.spatial), remap(y.spatial, to)...),
		append(slices.Clone(x.local), remap(y.local, to)...))
}

// PackedView is the layout of u8 elements, [bytes of the tile], that is the same
// registers as l with elements of the given number of bits: the same threads,
// each with the same number of bits. With B bytes in each of T threads it is
// local(B/n).spatial(T).local(n), n = gcd(B, 16), so that every thread moves
// its bytes in vectors of n bytes which lie side by side. It does not exist
// where a thread's bits are not whole bytes. Replicas of l are stored each.
//
// Source: Tilus paper, section 6.2.
func PackedView(bits int, l Layout) (Layout, error) {
	if bits < 1 || bits > 64 {
		return Layout{}, fail(ePacked, "", "an element has %d bits; it must have 1 to 64", bits)
	}
	n := bits * l.Slots()
	if n%8 != 0 {
		return Layout{}, fail(ePacked, fmt.Sprintf("make the tile larger, so that each thread holds a multiple of %d elements", 8/gcd(bits, 8)),
			"each thread holds %d elements of %d bits, %d bits in all, which is not a whole number of bytes", l.Slots(), bits, n)
	}
	n /= 8
	inner := gcd(n, 16)
	f, err := localAtom([]int{n / inner}, nil)
	if err != nil {
		return Layout{}, err
	}
	f, err = mul(f, Spatial(l.Threads()))
	if err != nil {
		return Layout{}, err
	}
	return mul(f, Local(inner))
}
