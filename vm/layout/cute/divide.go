package cute

import (
	"slices"
	"strings"
)

// Tiler says which elements of a layout belong together: one layout of elements
// for all of it, or a tiler for each mode.
type Tiler struct {
	keep   bool   // leave the mode alone
	layout Layout // where modes is nil
	modes  []Tiler
}

// LayoutTiler takes the elements that a layout numbers.
func LayoutTiler(l Layout) Tiler { return Tiler{layout: l} }

// ByMode gives each mode a tiler of its own.
func ByMode(modes ...Tiler) Tiler {
	if modes == nil {
		modes = []Tiler{}
	}
	return Tiler{modes: modes}
}

// KeepMode leaves a mode alone.
func KeepMode() Tiler { return Tiler{keep: true} }

// ShapeTiler takes the first elements of every mode.
func ShapeTiler(shape Tuple) (t Tiler, err error) {
	defer catch(&err)
	checkShape(shape)
	return shapeTiler(shape), nil
}

func shapeTiler(shape Tuple) Tiler {
	if shape.IsInt() {
		return LayoutTiler(compact(shape))
	}
	modes := make([]Tiler, len(shape.items))
	for i, s := range shape.items {
		modes[i] = shapeTiler(s)
	}
	return ByMode(modes...)
}

// String prints <…> for tilers by mode.
func (t Tiler) String() string {
	switch {
	case t.keep:
		return "_"
	case t.modes == nil:
		return t.layout.String()
	}
	parts := make([]string, len(t.modes))
	for i, m := range t.modes {
		parts[i] = m.String()
	}
	return "<" + strings.Join(parts, ",") + ">"
}

// Size is the number of elements of a tile; 1 for a mode that is left alone.
func (t Tiler) Size() int {
	if t.keep {
		return 1
	}
	if t.modes == nil {
		return t.layout.Size()
	}
	p := Tuple{items: make([]Tuple, len(t.modes))}
	for i, m := range t.modes {
		p.items[i] = Int(m.Size())
	}
	return p.Size()
}

func (t Tiler) check(l Layout) {
	if len(t.modes) > l.Rank() {
		fail(eProfile, "", "the tiler %s has %d modes, the layout %s has %d", t, len(t.modes), l, l.Rank())
	}
}

// apply transforms a layout mode by mode down to where the tiler has layouts.
// Modes beyond the tiler are kept, or dropped.
func (t Tiler) apply(l Layout, drop bool, f func(l, tile Layout) Layout) Layout {
	switch {
	case t.keep:
		return l
	case t.modes == nil:
		return f(l, t.layout)
	}
	t.check(l)
	modes := l.Modes()
	for i, m := range t.modes {
		modes[i] = m.apply(modes[i], drop, f)
	}
	if drop {
		modes = modes[:len(t.modes)]
	}
	return join(modes...)
}

// CompositionBy composes a with the tiler mode by mode. Modes of a beyond the
// tiler are dropped.
func CompositionBy(a Layout, t Tiler) (out Layout, err error) {
	defer catch(&err)
	return t.apply(a, true, compose), nil
}

// LogicalDivide splits l, or every mode that the tiler has, in two: the elements
// of a tile, and the tiles.
func LogicalDivide(l Layout, t Tiler) (out Layout, err error) {
	defer catch(&err)
	return divide(l, t), nil
}

func divide(l Layout, t Tiler) Layout {
	return t.apply(l, false, func(l, tile Layout) Layout {
		both := join(tile, complement(tile, Coalesce(l).Shape()))
		c := composer{a: l, b: both, tiler: &tile}
		return c.mode(both.Shape(), both.stride)
	})
}

// LogicalProduct repeats the block l as the tiler says: the first mode, of all
// or of every mode that the tiler has, is l, the second numbers its copies.
func LogicalProduct(l Layout, t Tiler) (out Layout, err error) {
	defer catch(&err)
	return product(l, t), nil
}

func product(l Layout, t Tiler) Layout {
	return t.apply(l, false, func(l, tile Layout) Layout {
		l.wantOffsets()
		tile.wantOffsets()
		room := times(l.Size(), tile.Cosize())
		if room > MaxSize {
			fail(eSize, "", "the product of %s and %s needs %d elements", l, tile, room)
		}
		return join(l, compose(complement(l, Int(room)), tile))
	})
}

// unzip gathers the pairs that a division or product leaves at the ends of the
// tiler: ((tile, …), (rest, …)).
func unzip(l Layout, t Tiler) Layout {
	if t.modes == nil {
		if l.Rank() != 2 {
			fail(eProfile, "", "the mode %s that the tiler keeps has no two parts to gather", l)
		}
		return l
	}
	t.check(l)
	var tile, rest []Layout
	for i, m := range t.modes {
		pair := unzip(l.Mode(i), m)
		tile, rest = append(tile, pair.Mode(0)), append(rest, pair.Mode(1))
	}
	rest = append(rest, l.Modes()[len(t.modes):]...)
	return join(join(tile...), join(rest...))
}

// open replaces modes by their items: what does not, stays.
func open(l Layout, which ...int) Layout {
	var out []Layout
	for i, m := range l.Modes() {
		if m.Rank() > 1 && slices.Contains(which, i) {
			out = append(out, m.Modes()...)
			continue
		}
		out = append(out, m)
	}
	return join(out...)
}

// ZippedDivide is LogicalDivide with the parts gathered: ((tile modes), (rest modes)).
func ZippedDivide(l Layout, t Tiler) (out Layout, err error) {
	defer catch(&err)
	return zippedDivide(l, t), nil
}

func zippedDivide(l Layout, t Tiler) Layout { return unzip(divide(l, t), t) }

// TiledDivide is ZippedDivide with the rest opened: ((tile modes), rest, …).
func TiledDivide(l Layout, t Tiler) (out Layout, err error) {
	defer catch(&err)
	return open(zippedDivide(l, t), 1), nil
}

// FlatDivide is ZippedDivide with both opened: (tile, …, rest, …).
func FlatDivide(l Layout, t Tiler) (out Layout, err error) {
	defer catch(&err)
	return open(zippedDivide(l, t), 0, 1), nil
}

// ZippedProduct is LogicalProduct with the parts gathered.
func ZippedProduct(l Layout, t Tiler) (out Layout, err error) {
	defer catch(&err)
	return unzip(product(l, t), t), nil
}

// TiledProduct is ZippedProduct with the copies opened: (block, copies, …).
func TiledProduct(l Layout, t Tiler) (out Layout, err error) {
	defer catch(&err)
	return tiledProduct(l, t), nil
}

func tiledProduct(l Layout, t Tiler) Layout { return open(unzip(product(l, t), t), 1) }

// FlatProduct is ZippedProduct with both opened.
func FlatProduct(l Layout, t Tiler) (out Layout, err error) {
	defer catch(&err)
	return open(unzip(product(l, t), t), 0, 1), nil
}

// padded is a list of at least rank modes, the missing ones 1:0.
func padded(l Layout, rank int) Layout {
	modes := l.Modes()
	for len(modes) < rank {
		modes = append(modes, Layout{})
	}
	return join(modes...)
}

// BlockedProduct repeats block as tiler says, mode with mode: mode i of the
// result is (block i, tiler i), so that blocks stand side by side.
func BlockedProduct(block, tiler Layout) (out Layout, err error) {
	defer catch(&err)
	return zipProduct(block, tiler, 0, 1), nil
}

// RakedProduct is BlockedProduct with the elements of blocks dealt out: mode i is
// (tiler i, block i).
func RakedProduct(block, tiler Layout) (out Layout, err error) {
	defer catch(&err)
	return zipProduct(block, tiler, 1, 0), nil
}

func zipProduct(block, tiler Layout, first, second int) Layout {
	rank := max(block.Rank(), tiler.Rank())
	both := product(padded(block, rank), LayoutTiler(padded(tiler, rank)))
	a, b := both.Mode(first), both.Mode(second)
	modes := make([]Layout, rank)
	for i := range modes {
		modes[i] = join(a.Mode(i), b.Mode(i))
	}
	return join(modes...)
}

// TileToShape repeats block until it has a shape; order says which mode is
// filled first and may be the zero Tuple for column-major order.
func TileToShape(block Layout, shape, order Tuple) (out Layout, err error) {
	defer catch(&err)
	checkShape(shape)
	rank := shape.Rank()
	if block.Rank() > rank {
		fail(eTile, "", "the block %s has more modes than the shape %s", block, shape)
	}
	block = padded(block, rank)
	times := make([]Tuple, rank)
	for i, s := range shape.list() {
		n, b := s.Size(), block.Mode(i).Size()
		if n%b != 0 {
			fail(eTile, "choose a shape that is a multiple of the block, or pad it", "mode %d of the shape %s is not divisible by that of the block: %d is not divisible by %d", i, shape, n, b)
		}
		times[i] = Int(n / b)
	}
	copies := Of(times...)
	if shape.IsInt() {
		copies = times[0]
	}
	grid := compact(copies)
	if !order.IsInt() || order.n != 0 {
		if grid, err = MakeOrderedLayout(copies, order); err != nil {
			return Layout{}, err
		}
	}
	return zipProduct(block, grid, 0, 1), nil
}
