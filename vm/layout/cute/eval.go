package cute

import (
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Value is what an expression stands for: exactly one of a layout, a swizzled
// layout, a number or list, a swizzle, a tiler, or the layout of threads and
// values with the tiler that MakeLayoutTV gives.
type Value struct{ v term }

// Eval evaluates an expression of layouts and operations, such as
//
//	logical_divide((8,8), <4:1,2:1>)
//	Sw<3,4,3> o (8,64):(64,1)
//	upcast<2>((8,8):(8,1))
//
// The error is a [diag.List] whose columns count from the start of the text.
func Eval(text string) (Value, error) { return EvalAt(text, diag.Pos{Line: 1, Col: 1}) }

// EvalAt is Eval for a text that begins at pos of a larger one.
func EvalAt(text string, pos diag.Pos) (Value, error) {
	p := newParser(text, pos)
	var v term
	err := p.run(func() { v = p.whole() })
	if err != nil {
		return Value{}, err
	}
	return Value{v}, nil
}

// Kind is "layout", "composed", "tuple", "swizzle", "tiler" or "pair".
func (v Value) Kind() string {
	return [...]string{vTuple: "tuple", vLayout: "layout", vTiler: "tiler", vSwizzle: "swizzle", vComposed: "composed", vPair: "pair"}[v.v.kind]
}

// Layout is the layout, where the value is one; a shape is its column-major layout.
func (v Value) Layout() (Layout, bool) {
	switch v.v.kind {
	case vLayout, vPair:
		return v.v.layout, true
	case vTuple:
		l, err := Compact(v.v.tuple)
		return l, err == nil
	case vComposed:
		return v.v.composed.Layout, v.v.composed.Plain()
	}
	return Layout{}, false
}

// Composed is the swizzled layout, where the value is one or a layout.
func (v Value) Composed() (Composed, bool) {
	if v.v.kind == vComposed {
		return v.v.composed, true
	}
	l, ok := v.Layout()
	return Composed{Layout: l}, ok
}

// Tuple is the number or list, where the value is one.
func (v Value) Tuple() (Tuple, bool) { return v.v.tuple, v.v.kind == vTuple }

// Swizzle is the swizzle, where the value is one.
func (v Value) Swizzle() (layout.Swizzle, bool) { return v.v.swizzle, v.v.kind == vSwizzle }

// Tiler is the tiler, where the value is one or came with one.
func (v Value) Tiler() (Tiler, bool) { return v.v.tiler, v.v.kind == vTiler || v.v.kind == vPair }

// String prints the value in notation.
func (v Value) String() string {
	switch v.v.kind {
	case vLayout:
		return v.v.layout.String()
	case vTiler:
		return v.v.tiler.String()
	case vSwizzle:
		return v.v.swizzle.String()
	case vComposed:
		return v.v.composed.String()
	case vPair:
		return "layout " + v.v.layout.String() + " tiler " + v.v.tiler.String()
	}
	return v.v.tuple.String()
}

type paramKind int

const (
	pLayout paramKind = iota
	pTiler
	pTuple
	pInt
	pSwizzled
	pRecast
	pSwizzle
)

func (k paramKind) String() string {
	return [...]string{"a layout", "a tiler", "a number or list", "a number", "a layout", "a layout or a swizzle", "a swizzle"}[k]
}

type param struct {
	name     string
	kind     paramKind
	optional bool
}

type function struct {
	name   string
	doc    string
	params []param
	eval   func(a []term) (term, error)
}

func layoutValue(l Layout, err error) (term, error) { return term{kind: vLayout, layout: l}, err }

func tupleValue(t Tuple, err error) (term, error) { return term{kind: vTuple, tuple: t}, err }

func number(n int) (term, error) { return term{kind: vTuple, tuple: Int(n)}, nil }

func functions() []function {
	a, b, t := param{name: "layout", kind: pLayout}, param{name: "other", kind: pLayout}, param{name: "tiler", kind: pTiler}
	block, copies := param{name: "block", kind: pLayout}, param{name: "tiler", kind: pLayout}
	one := func(name, doc string, f func(Layout) (term, error)) function {
		return function{name, doc, []param{a}, func(v []term) (term, error) { return f(v[0].layout) }}
	}
	two := func(name, doc string, a, b param, f func(a, b Layout) (Layout, error)) function {
		return function{name, doc, []param{a, b}, func(v []term) (term, error) { return layoutValue(f(v[0].layout, v[1].layout)) }}
	}
	tile := func(name, doc string, f func(Layout, Tiler) (Layout, error)) function {
		first := a
		if strings.HasSuffix(name, "_product") {
			first = block
		}
		return function{name, doc, []param{first, t}, func(v []term) (term, error) { return layoutValue(f(v[0].layout, v[1].tiler)) }}
	}
	plain := func(f func(Layout) Layout) func(Layout) (term, error) {
		return func(l Layout) (term, error) { return layoutValue(f(l), nil) }
	}
	checked := func(f func(Layout) (Layout, error)) func(Layout) (term, error) {
		return func(l Layout) (term, error) { return layoutValue(f(l)) }
	}
	recast := func(name, doc string, up bool) function {
		return function{name, doc, []param{{name: "layout", kind: pRecast}, {name: "n", kind: pInt}}, func(v []term) (term, error) {
			n := v[1].tuple.n
			if v[0].kind == vSwizzle {
				s, err := recastSwizzle(v[0].swizzle, n, up)
				return term{kind: vSwizzle, swizzle: s}, err
			}
			if up {
				return layoutValue(Upcast(v[0].layout, n))
			}
			return layoutValue(Downcast(v[0].layout, n))
		}}
	}
	return []function{
		{"coalesce", "the fewest modes with the same values, of all or of every mode of a profile", []param{a, {"profile", pTuple, true}}, func(v []term) (term, error) {
			if v[1].tuple.Equal(Tuple{}) {
				return layoutValue(Coalesce(v[0].layout), nil)
			}
			return layoutValue(CoalesceBy(v[0].layout, v[1].tuple))
		}},
		one("flatten", "without nesting", plain(Flatten)),
		one("filter", "without modes of stride 0 and size 1", plain(Filter)),
		one("filter_zeros", "modes of stride 0 get size 1", plain(FilterZeros)),
		{"composition", "layout after layout, or mode by mode: R(c) = layout(tiler(c))", []param{a, t}, func(v []term) (term, error) {
			if v[1].tiler.modes == nil && !v[1].tiler.keep {
				return layoutValue(Composition(v[0].layout, v[1].tiler.layout))
			}
			return layoutValue(CompositionBy(v[0].layout, v[1].tiler))
		}},
		{"complement", "the places below target that the layout leaves free", []param{a, {"target", pTuple, true}}, func(v []term) (term, error) {
			target := v[1].tuple
			if target.Equal(Tuple{}) {
				target = Int(max(Filter(v[0].layout).Cosize(), 1))
			}
			return layoutValue(Complement(v[0].layout, target))
		}},
		one("right_inverse", "R with l(R(i)) = i", plain(RightInverse)),
		one("left_inverse", "R with R(l(i)) = i", checked(LeftInverse)),
		one("nullspace", "the numbers that go to 0", plain(Nullspace)),
		two("max_common_layout", "the longest R with layout(R(i)) = other(R(i)) = i", a, b, func(a, b Layout) (Layout, error) { return MaxCommonLayout(a, b), nil }),
		{"max_common_vector", "the size of max_common_layout", []param{a, b}, func(v []term) (term, error) { return number(MaxCommonVector(v[0].layout, v[1].layout)) }},
		one("max_alignment", "the largest n for which upcast<n> rounds no size up", func(l Layout) (term, error) {
			n, err := MaxAlignment(l)
			return term{kind: vTuple, tuple: Int(n)}, err
		}),
		tile("logical_divide", "every mode in two: elements of a tile, and tiles", LogicalDivide),
		tile("zipped_divide", "((tile), (rest))", ZippedDivide),
		tile("tiled_divide", "((tile), rest, …)", TiledDivide),
		tile("flat_divide", "(tile, …, rest, …)", FlatDivide),
		tile("logical_product", "(block, copies)", LogicalProduct),
		tile("zipped_product", "((block), (copies))", ZippedProduct),
		tile("tiled_product", "((block), copies, …)", TiledProduct),
		tile("flat_product", "(block, …, copies, …)", FlatProduct),
		two("blocked_product", "blocks side by side", block, copies, BlockedProduct),
		two("raked_product", "blocks dealt out", block, copies, RakedProduct),
		{"tile_to_shape", "a block repeated until it has a shape, in an order", []param{{name: "block", kind: pSwizzled}, {name: "shape", kind: pTuple}, {"order", pTuple, true}}, func(v []term) (term, error) {
			c := v[0].composed
			l, err := TileToShape(c.Layout, v[1].tuple, v[2].tuple)
			c.Layout = l
			if c.Plain() {
				return layoutValue(l, err)
			}
			return term{kind: vComposed, composed: c}, err
		}},
		recast("upcast", "units n times larger", true),
		recast("downcast", "units n times smaller", false),
		{"as_position_independent_swizzle_layout", "a swizzle that counts elements", []param{{name: "layout", kind: pSwizzled}}, func(v []term) (term, error) {
			c, err := v[0].composed.Elements()
			return term{kind: vComposed, composed: c}, err
		}},
		{"make_layout", "the column-major layout of a shape", []param{{name: "shape", kind: pTuple}, {"stride", pTuple, true}}, func(v []term) (term, error) {
			if v[1].tuple.Equal(Tuple{}) {
				return layoutValue(Compact(v[0].tuple))
			}
			return layoutValue(New(v[0].tuple, v[1].tuple))
		}},
		{"make_ordered_layout", "the compact layout in which the mode of lowest order is fastest", []param{{name: "shape", kind: pTuple}, {name: "order", kind: pTuple}}, func(v []term) (term, error) {
			return layoutValue(MakeOrderedLayout(v[0].tuple, v[1].tuple))
		}},
		one("make_layout_like", "the compact layout with strides in the same order", checked(MakeLayoutLike)),
		one("make_fragment_like", "registers for a part: first mode fastest", checked(MakeFragmentLike)),
		{"make_layout_tv", "from layouts of threads and values in a tile: (thread, value) → element, and the tile", []param{{name: "threads", kind: pLayout}, {name: "values", kind: pLayout}}, func(v []term) (term, error) {
			tv, err := MakeLayoutTV(v[0].layout, v[1].layout)
			if err != nil {
				return term{}, err
			}
			tiler, err := ShapeTiler(tv.Tile)
			return term{kind: vPair, layout: tv.Layout, tiler: tiler}, err
		}},
		one("size", "the number of coordinates", func(l Layout) (term, error) { return number(l.Size()) }),
		one("cosize", "one more than the largest offset", func(l Layout) (term, error) { return number(l.Cosize()) }),
		one("rank", "the number of modes", func(l Layout) (term, error) { return number(l.Rank()) }),
		one("depth", "how deep modes nest", func(l Layout) (term, error) { return number(l.Depth()) }),
		one("coshape", "the smallest shape that holds all values", func(l Layout) (term, error) { return tupleValue(l.Coshape(), nil) }),
		one("shape", "the shape", func(l Layout) (term, error) { return tupleValue(l.Shape(), nil) }),
		one("stride", "the strides", func(l Layout) (term, error) { return tupleValue(l.Stride(), nil) }),
		{"mode", "one mode, numbered from 0", []param{a, {name: "i", kind: pInt}}, func(v []term) (out term, err error) {
			defer catch(&err)
			l, i := v[0].layout, v[1].tuple.n
			if i < 0 || i >= l.Rank() {
				fail(eCoord, "", "%s has the modes 0 to %d", l, l.Rank()-1)
			}
			return layoutValue(l.Mode(i), nil)
		}},
		{"crd2idx", "the value at a coordinate", []param{{name: "coord", kind: pTuple}, a}, func(v []term) (term, error) { return tupleValue(Crd2Idx(v[0].tuple, v[1].layout)) }},
		{"idx2crd", "the coordinate of a number in a shape", []param{{name: "i", kind: pInt}, {name: "shape", kind: pTuple}}, func(v []term) (term, error) {
			return tupleValue(Idx2Crd(v[0].tuple.n, v[1].tuple))
		}},
	}
}

// recastSwizzle counts in units n times larger or smaller; n is a power of two.
// A swizzle that would split a unit loses the bits below it.
func recastSwizzle(s layout.Swizzle, n int, up bool) (out layout.Swizzle, err error) {
	defer catch(&err)
	log := 0
	for 1<<log < n && log < 48 {
		log++
	}
	if n != 1<<log {
		fail(eRecast, "", "%d is no power of two", n)
	}
	switch {
	case !up:
		s.Base += log
	case s.Base >= log:
		s.Base -= log
	default:
		s.Bits, s.Base = max(s.Bits-(log-s.Base), 0), 0
	}
	out, serr := layout.NewSwizzle(s.Bits, s.Base, s.Shift)
	if serr != nil {
		fail(eSwizzle, "", "%v", serr)
	}
	return out, nil
}

// UpcastSwizzle counts in units n times larger, n a power of two. Where the
// swizzle would split a unit, the bits inside the unit are lost.
func UpcastSwizzle(s layout.Swizzle, n int) (layout.Swizzle, error) { return recastSwizzle(s, n, true) }

// DowncastSwizzle counts in units n times smaller, n a power of two.
func DowncastSwizzle(s layout.Swizzle, n int) (layout.Swizzle, error) {
	return recastSwizzle(s, n, false)
}

// Functions lists the operations that expressions can call, for help and
// completion.
func Functions() []layout.Function {
	var out []layout.Function
	for _, f := range functions() {
		out = append(out, layout.Function{Name: f.name, Signature: f.signature(), Doc: f.doc})
	}
	return out
}

func (f function) signature() string {
	parts := make([]string, len(f.params))
	for i, q := range f.params {
		parts[i] = q.name
		if q.optional {
			parts[i] += "="
		}
	}
	return f.name + "(" + strings.Join(parts, ", ") + ")"
}

// Table draws a layout of rank 1 or 2 as a box of offsets with numbered rows and
// columns, as CuTe's print_layout does. Coordinates stand as they are.
func Table(c Composed) (text string, err error) {
	defer catch(&err)
	rows, cols := c.Layout.Size(), 1
	if c.Layout.Rank() == 2 {
		rows, cols = c.Layout.Mode(0).Size(), c.Layout.Mode(1).Size()
	}
	if c.Layout.Rank() > 2 || c.Layout.Size() > 1<<16 {
		fail(eCells, "", "%s has rank %d and %d cells", c.Layout, c.Layout.Rank(), c.Layout.Size())
	}
	e, eerr := c.Elements()
	if eerr != nil {
		return "", eerr
	}
	cell := make([]string, rows*cols)
	for i := range cell {
		if c.Layout.Coordinates() {
			cell[i] = c.Layout.value(Int(i)).String()
		} else {
			cell[i] = strconv.Itoa(e.At(i))
		}
	}
	// CuTe makes room for the digits of the cosize, even where no offset has as many.
	width := len(strconv.Itoa(c.Layout.Cosize()))
	for _, s := range cell {
		width = max(width, len(s))
	}
	right := func(s string, n int) string { return strings.Repeat(" ", max(n-len(s), 0)) + s }
	var b strings.Builder
	b.WriteString(c.Static() + "\n    ")
	for n := range cols {
		b.WriteString("  " + right(strconv.Itoa(n), width) + " ")
	}
	line := "\n    " + strings.Repeat("+"+strings.Repeat("-", width+2), cols) + "+\n"
	for m := range rows {
		b.WriteString(line)
		number := right(strconv.Itoa(m), 2)
		b.WriteString(number + strings.Repeat(" ", max(4-len(number), 0)))
		for n := range cols {
			b.WriteString("| " + right(cell[m+n*rows], width) + " ")
		}
		b.WriteString("|")
	}
	b.WriteString(line)
	return b.String(), nil
}
