package cute

import (
	"fmt"
	"slices"
)

// flat is a layout as lists of leaves.
type flat struct{ shape, stride []Tuple }

func flatten(l Layout) flat { return flat{l.Shape().Leaves(), l.stride.Leaves()} }

// layout puts leaves together: none is 1:0, one is a number.
func (f flat) layout() Layout {
	switch len(f.shape) {
	case 0:
		return Layout{Int(1), Int(0)}
	case 1:
		return makeLayout(f.shape[0], f.stride[0])
	}
	return makeLayout(Of(f.shape...), Of(f.stride...))
}

// Flatten removes all nesting: (2,(3,4)) becomes (2,3,4).
func Flatten(l Layout) Layout {
	if l.Shape().IsInt() {
		return l
	}
	f := flatten(l)
	return Layout{Of(f.shape...), Of(f.stride...)}
}

// follows says whether stride e continues a mode s:d, so that both are one mode.
func follows(s, d, e Tuple) bool {
	if e.n != 0 && !slices.Equal(d.basis, e.basis) {
		return false
	}
	return d.n == 0 && e.n == 0 || d.n != 0 && s.n <= MaxOffset/abs(d.n) && s.n*d.n == e.n
}

// Coalesce is the layout with the fewest modes that has the same value at every
// number: modes of size 1 go, modes that continue one another merge.
func Coalesce(l Layout) Layout {
	f := flatten(l)
	var out flat
	for i, s := range f.shape {
		if s.n == 1 {
			continue
		}
		d := f.stride[i]
		if k := len(out.shape) - 1; k >= 0 && follows(out.shape[k], out.stride[k], d) {
			out.shape[k].n *= s.n
			continue
		}
		out.shape, out.stride = append(out.shape, s), append(out.stride, d)
	}
	return out.layout()
}

// CoalesceBy coalesces each mode that has a place in the profile by itself; the
// numbers of the profile do not matter. Modes beyond it stay as they are.
func CoalesceBy(l Layout, profile Tuple) (out Layout, err error) {
	defer catch(&err)
	return coalesceBy(l, profile), nil
}

func coalesceBy(l Layout, profile Tuple) Layout {
	if profile.IsInt() {
		return Coalesce(l)
	}
	if len(profile.items) > l.Rank() {
		fail(eProfile, "", "the profile %s has more modes than %s", profile, l)
	}
	modes := l.Modes()
	for i, p := range profile.items {
		modes[i] = coalesceBy(modes[i], p)
	}
	return join(modes...)
}

// coalesceLast is Coalesce that keeps a last mode of size 1, for layouts that are
// asked beyond their size.
func coalesceLast(l Layout) flat {
	f := flatten(l)
	last := len(f.shape) - 1
	if f.shape[last].n != 1 {
		return flatten(Coalesce(l))
	}
	// The last mode goes on for ever, so for this purpose it is not of size 1.
	f.shape[last] = Int(2)
	return flatten(Coalesce(f.layout()))
}

// FilterZeros replaces the size of every mode of stride 0 by 1.
func FilterZeros(l Layout) Layout {
	return Layout{filterZeros(l.Shape(), l.stride), l.stride}
}

func filterZeros(shape, stride Tuple) Tuple {
	if shape.IsInt() {
		if stride.n == 0 {
			return Int(1)
		}
		return shape
	}
	out := make([]Tuple, len(shape.items))
	for i, s := range shape.items {
		out[i] = filterZeros(s, stride.items[i])
	}
	return Of(out...)
}

// Filter removes repetition: Coalesce of FilterZeros.
func Filter(l Layout) Layout { return Coalesce(FilterZeros(l)) }

// Composition is R with R(c) = a(b(c)) for every coordinate of b; its shape
// refines that of b. It fails where no layout of that shape has these values.
// Where b has coordinates as values, they go to the modes of a.
func Composition(a, b Layout) (out Layout, err error) {
	defer catch(&err)
	return compose(a, b), nil
}

func compose(a, b Layout) Layout {
	c := composer{a: a, b: b}
	return c.mode(b.Shape(), b.stride)
}

// composer composes a with the modes of b, one by one.
type composer struct {
	a, b  Layout
	tiler *Layout // b is a tiler and its complement, for messages
	f     flat
	used  []int             // largest coordinate so far in each mode of f
	modes map[int]*composer // for modes of a that strides of b name
}

func (c *composer) mode(shape, stride Tuple) Layout {
	if !shape.IsInt() {
		modes := make([]Layout, len(shape.items))
		for i, s := range shape.items {
			modes[i] = c.mode(s, stride.items[i])
		}
		return join(modes...)
	}
	if stride.n == 0 {
		return Layout{shape, Int(0)}
	}
	if n := len(stride.basis); n > 0 {
		outer := stride.basis[n-1]
		if outer >= c.a.Rank() {
			fail(eBasis, "", "the stride %s steps in mode %d, but %s has %d", stride, outer, c.a, c.a.Rank())
		}
		if c.modes == nil {
			c.modes = map[int]*composer{}
		}
		if c.modes[outer] == nil {
			c.modes[outer] = &composer{a: c.a.Mode(outer), b: c.b, tiler: c.tiler}
		}
		rest := Int(stride.n)
		if n > 1 {
			rest.basis = stride.basis[:n-1]
		}
		return c.modes[outer].mode(shape, rest)
	}
	return c.leaf(shape.n, stride.n)
}

// problem says what does not fit.
func (c *composer) problem(s, d int) string {
	if c.tiler != nil {
		return fmt.Sprintf("%s does not divide %s", c.tiler, c.a)
	}
	return fmt.Sprintf("%d:%d does not fit %s", s, d, c.a)
}

// leaf is a ∘ s:d.
func (c *composer) leaf(s, d int) Layout {
	if c.f.shape == nil {
		c.f = coalesceLast(c.a)
		c.used = make([]int, len(c.f.shape))
	}
	f := c.f
	var out flat
	size, step := s, d
	add := func(i, take int) {
		out.shape, out.stride = append(out.shape, Int(take)), append(out.stride, f.stride[i].scaled(step))
		if i == len(f.shape)-1 {
			return
		}
		c.used[i] += (take - 1) * abs(step)
		if n := f.shape[i].n; c.used[i] >= n {
			fail(eCarry, "choose modes that divide one another, or pad the layout",
				"%s does not fit %s: its modes together reach place %d of %d in the mode %d:%s", c.b, c.a, c.used[i], n, n, f.stride[i])
		}
	}
	last := len(f.shape) - 1
	for i := range last {
		n, width := f.shape[i].n, abs(step)
		switch {
		case size == 1:
			step = ceilDiv(width, n) * sign(step)
		case width%n == 0:
			step = width / n * sign(step)
		case n%width == 0:
			fits := n / width
			take := min(fits, size)
			if size%take != 0 {
				fail(eDivide, "choose sizes that divide one another, or pad the layout",
					"%s: %d steps of %d fill the mode %d:%s, and %d is not divisible by %d", c.problem(s, d), fits, width, n, f.stride[i], size, take)
			}
			add(i, take)
			size, step = size/take, sign(step)
		case (size-1)*width < n:
			add(i, size)
			size, step = 1, sign(step)
		case n > width:
			fail(eDivide, "choose a step that divides the size, or pad the layout",
				"%s: the mode %d:%s is stepped through by %d, and %d is not divisible by %d", c.problem(s, d), n, f.stride[i], width, n, width)
		default:
			fail(eDivide, "choose a step that is a multiple of the size, or pad the layout",
				"%s: the mode %d:%s is stepped over by %d, and %d is not divisible by %d", c.problem(s, d), n, f.stride[i], width, width, n)
		}
	}
	if len(out.shape) == 0 || size != 1 {
		add(last, size)
	}
	return out.layout()
}

// Complement is the layout, with ascending strides, of the places that l leaves
// free below the size of target: (l, complement) is injective, and fills the
// target where sizes divide one another. target is a number or a shape.
func Complement(l Layout, target Tuple) (out Layout, err error) {
	defer catch(&err)
	checkShape(target)
	return complement(l, target), nil
}

func complement(l Layout, target Tuple) Layout {
	if l.Coordinates() {
		fail(eBasis, "", "%s gives coordinates and has no complement", l)
	}
	f := flatten(Filter(l))
	if f.shape[0].n == 1 {
		return Coalesce(compact(target))
	}
	order := ascending(f.stride)
	var out flat
	next := 1
	for _, i := range order {
		d := f.stride[i].n
		if d < next {
			why := "modes overlap"
			if d < 0 {
				why = "a stride is negative"
			}
			fail(eInjective, "", "%s has no complement: %s, the mode %s:%d begins before %d", l, why, f.shape[i], d, next)
		}
		out.shape, out.stride = append(out.shape, Int(d/next)), append(out.stride, Int(next))
		next = times(d, f.shape[i].n)
	}
	rest := Coalesce(compact(ceilDivShape(target, next))).Shape()
	stride, _ := colMajor(rest, next)
	out.shape, out.stride = append(out.shape, rest.Leaves()...), append(out.stride, stride.Leaves()...)
	return Coalesce(out.layout())
}

// ceilDivShape divides a shape by a number that is used up mode by mode, from
// the left.
func ceilDivShape(shape Tuple, by int) Tuple {
	if shape.IsInt() {
		return Int(ceilDiv(shape.n, by))
	}
	out := make([]Tuple, len(shape.items))
	for i, s := range shape.items {
		out[i] = ceilDivShape(s, by)
		by = ceilDiv(by, s.Size())
	}
	return Of(out...)
}

// ascending orders strides, keeping the order of equal ones.
func ascending(stride []Tuple) []int {
	order := make([]int, len(stride))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return stride[i].n - stride[j].n })
	return order
}

// RightInverse is the largest R with l(R(i)) = i. It is 1:0 where l never is 1.
func RightInverse(l Layout) Layout {
	f := flatten(Coalesce(l))
	before := prefix(f.shape)
	out := flat{}
	next := 1
	if l.Coordinates() {
		next = 0 // no stride is 1
	}
	for _, i := range ascending(f.stride) {
		if f.stride[i].n == next && next > 0 && f.shape[i].n > 1 {
			out.shape, out.stride = append(out.shape, f.shape[i]), append(out.stride, Int(before[i]))
			next *= f.shape[i].n
		}
	}
	return Coalesce(out.layout())
}

// prefix is the product of all sizes before each.
func prefix(shape []Tuple) []int {
	out, p := make([]int, len(shape)), 1
	for i, s := range shape {
		out[i] = p
		p *= s.n
	}
	return out
}

// LeftInverse is R with R(l(i)) = i for every i of an injective layout, and with
// l(R(l(i))) = l(i) where modes of stride 0 repeat. Offsets that l never has go
// anywhere.
func LeftInverse(l Layout) (out Layout, err error) {
	defer catch(&err)
	if l.Coordinates() {
		fail(eBasis, "", "%s gives coordinates and has no left inverse", l)
	}
	f := flatten(Coalesce(l))
	before := prefix(f.shape)
	order := ascending(f.stride)
	inv := flat{stride: []Tuple{Int(0)}}
	at := 1
	for _, i := range order {
		d := f.stride[i].n
		if d == 0 {
			continue
		}
		if d < 0 || d%at != 0 {
			fail(eInverse, "", "%s has no left inverse: its stride %d is not a positive multiple of %d", l, d, at)
		}
		inv.shape, inv.stride = append(inv.shape, Int(d/at)), append(inv.stride, Int(before[i]))
		at = d
	}
	inv.shape = append(inv.shape, f.shape[order[len(order)-1]])
	return Coalesce(inv.layout()), nil
}

// Nullspace is the layout of the numbers that modes of stride 0 step over: every
// value of it goes to 0.
func Nullspace(l Layout) Layout {
	f := flatten(l)
	stride, _ := colMajor(Of(f.shape...), 1)
	var out flat
	for i, d := range f.stride {
		if d.n == 0 {
			out.shape, out.stride = append(out.shape, f.shape[i]), append(out.stride, stride.items[i])
		}
	}
	return out.layout()
}

// common is b's right inverse and a after it, as far as that is a layout.
func common(a, b Layout) (inv, both Layout) {
	inv = RightInverse(b)
	both, err := Composition(a, inv)
	if err != nil {
		return inv, Layout{}
	}
	return inv, Coalesce(both).Mode(0)
}

// MaxCommonLayout is the longest R with a(R(i)) = b(R(i)) = i: the elements, one
// after the other in memory, that a copy from a to b may move as a vector. It is
// 1:0 where there are none.
func MaxCommonLayout(a, b Layout) Layout {
	inv, both := common(a, b)
	if !both.stride.Equal(Int(1)) {
		return Layout{Int(1), Int(0)}
	}
	out, err := Composition(inv, both)
	if err != nil {
		return Layout{Int(1), Int(0)}
	}
	return out
}

// MaxCommonVector is the size of MaxCommonLayout.
func MaxCommonVector(a, b Layout) int {
	_, both := common(a, b)
	if !both.stride.Equal(Int(1)) {
		return 1
	}
	return both.Size()
}

// MaxAlignment is the largest n for which Upcast of the coalesced layout rounds
// no size up.
func MaxAlignment(l Layout) (n int, err error) {
	defer catch(&err)
	if l.Coordinates() {
		fail(eBasis, "", "%s gives coordinates, not offsets", l)
	}
	f := Coalesce(l)
	parts := divide(f, LayoutTiler(RightInverse(f)))
	n = parts.Mode(0).Size()
	for _, d := range parts.Mode(1).stride.Leaves() {
		n = gcd(n, abs(d.n))
	}
	return n, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Upcast counts in units n times larger: runs of neighbours become shorter,
// strides smaller. Elements of stride 0 stay. Where a run is no multiple of the
// unit, the last, partial unit counts.
func Upcast(l Layout, n int) (out Layout, err error) {
	defer catch(&err)
	if n < 1 || n > MaxSize {
		fail(eRecast, "", "%d is no factor", n)
	}
	return recast(l, func(s, d Tuple) (Tuple, Tuple) {
		w := abs(d.n)
		switch {
		case w == 0 || d.basis != nil:
			return s, d
		case w%n != 0 && n%w != 0:
			fail(eRecast, "", "%s cannot count in units of %d: neither of the stride %d and %d divides the other", l, n, d.n, n)
		}
		run := ceilDiv(n, w)
		return Int(ceilDiv(s.n, run)), Int(sign(d.n) * ceilDiv(w, n))
	}), nil
}

// Downcast counts in units n times smaller: every element of stride 1 becomes n
// neighbours, other strides grow.
func Downcast(l Layout, n int) (out Layout, err error) {
	defer catch(&err)
	if n < 1 || n > MaxSize {
		fail(eRecast, "", "%d is no factor", n)
	}
	return recast(l, func(s, d Tuple) (Tuple, Tuple) {
		switch {
		case d.basis != nil:
			return s, d
		case d.n == 1 || d.n == -1:
			return Int(times(s.n, n)), d
		}
		return s, d.scaled(n)
	}), nil
}

func recast(l Layout, f func(s, d Tuple) (Tuple, Tuple)) Layout {
	var walk func(s, d Tuple) (Tuple, Tuple)
	walk = func(s, d Tuple) (Tuple, Tuple) {
		if s.IsInt() {
			return f(s, d)
		}
		ss, dd := make([]Tuple, len(s.items)), make([]Tuple, len(s.items))
		for i := range ss {
			ss[i], dd[i] = walk(s.items[i], d.items[i])
		}
		return Of(ss...), Of(dd...)
	}
	return makeLayout(walk(l.Shape(), l.stride))
}

// MakeOrderedLayout is the compact layout of a shape in which the mode with the
// lowest number in order is fastest. A number of the order may stand for a list
// of modes, which are column-major among themselves.
func MakeOrderedLayout(shape, order Tuple) (l Layout, err error) {
	defer catch(&err)
	checkShape(shape)
	seen := map[int]bool{}
	for _, o := range order.Leaves() {
		if seen[o.n] {
			fail(eOrder, "", "the order %s has %d twice", order, o.n)
		}
		seen[o.n] = true
	}
	return makeLayout(shape, compactOrder(shape, order)), nil
}

// compactOrder are the strides that follow an order; sizes of equal rank do not
// count for each other.
func compactOrder(shape, order Tuple) Tuple {
	type pair struct {
		size, at int
	}
	var pairs []pair
	var collect func(s, o Tuple)
	collect = func(s, o Tuple) {
		if o.IsInt() {
			pairs = append(pairs, pair{s.Size(), o.n})
			return
		}
		if s.IsInt() || len(s.items) != len(o.items) {
			fail(eOrder, "", "the order %s does not fit the shape %s", order, shape)
		}
		for i := range s.items {
			collect(s.items[i], o.items[i])
		}
	}
	collect(shape, order)
	var build func(s, o Tuple) Tuple
	build = func(s, o Tuple) Tuple {
		if o.IsInt() {
			from := 1
			for _, p := range pairs {
				if p.at < o.n {
					from = times(from, p.size)
				}
			}
			d, _ := colMajor(s, from)
			return d
		}
		out := make([]Tuple, len(s.items))
		for i := range out {
			out[i] = build(s.items[i], o.items[i])
		}
		return Of(out...)
	}
	return build(shape, order)
}

// MakeLayoutLike is a compact layout of the same shape whose modes keep the
// order of their strides; modes of stride 0 keep it.
func MakeLayoutLike(l Layout) (out Layout, err error) {
	defer catch(&err)
	l.wantOffsets()
	return makeLayout(l.Shape(), compactOrder(filterZeros(l.Shape(), l.stride), l.stride)), nil
}

func (l Layout) wantOffsets() {
	if l.Coordinates() {
		fail(eBasis, "", "%s gives coordinates, not offsets", l)
	}
}

// MakeFragmentLike is MakeLayoutLike but for the first mode, which is
// column-major and fastest: the registers for a part of l.
func MakeFragmentLike(l Layout) (out Layout, err error) {
	defer catch(&err)
	l.wantOffsets()
	if l.Rank() < 2 {
		return compact(l.Shape()), nil
	}
	first := l.Mode(0)
	stride, _ := colMajor(filterZeros(first.Shape(), first.stride), 1)
	rest := join(l.Modes()[1:]...)
	grid := makeLayout(rest.Shape(), compactOrder(rest.Shape(), rest.stride))
	return tiledProduct(makeLayout(first.Shape(), stride), LayoutTiler(grid)), nil
}

// Crd2Idx is the offset of a coordinate, see [Layout.ValueAt].
func Crd2Idx(coord Tuple, l Layout) (Tuple, error) { return l.ValueAt(coord) }

// Idx2Crd is the coordinate of a number in a shape, column-major. As in CuTe the
// last mode goes on beyond its size: 37 in (4,8) is (1,9).
func Idx2Crd(i int, shape Tuple) (coord Tuple, err error) {
	defer catch(&err)
	checkShape(shape)
	if i < 0 || i > MaxSize {
		fail(eCoord, "", "%d is no coordinate", i)
	}
	return idx2crd(i, shape), nil
}

func idx2crd(i int, shape Tuple) Tuple {
	if shape.IsInt() {
		return Int(i)
	}
	out := make([]Tuple, len(shape.items))
	for k, s := range shape.items {
		c := i
		if k < len(shape.items)-1 {
			c, i = i%s.Size(), i/s.Size()
		}
		out[k] = idx2crd(c, s)
	}
	return Of(out...)
}
