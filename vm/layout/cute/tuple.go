package cute

import (
	"slices"
	"strconv"
	"strings"
)

// Tuple is a number or a list of tuples: a shape, a stride, a coordinate, a
// profile. As a stride a number may count steps in one mode of a coordinate
// instead of offsets: 2@1 is two steps in mode 1. Tuples are immutable; the zero
// value is the number 0.
type Tuple struct {
	n     int
	basis []int   // of a number: innermost mode first, as in 2@0@1
	items []Tuple // nil for a number
}

// Int is a number.
func Int(n int) Tuple { return Tuple{n: n} }

// Of is a list. A list of one is not the same as its item.
func Of(items ...Tuple) Tuple {
	if items == nil {
		items = []Tuple{}
	}
	return Tuple{items: items}
}

// Ints is a list of numbers.
func Ints(n ...int) Tuple {
	items := make([]Tuple, len(n))
	for i, v := range n {
		items[i] = Int(v)
	}
	return Of(items...)
}

// Basis is n steps in a mode of a coordinate; of several modes the last is the
// outermost, so that Basis(2, 0, 1) is 2@0@1: mode 0 of mode 1.
func Basis(n int, mode ...int) Tuple { return Tuple{n: n, basis: slices.Clone(mode)} }

// IsInt says whether the tuple is a number, with or without basis.
func (t Tuple) IsInt() bool { return t.items == nil }

// Int is the number, or how many steps a basis counts; 0 for a list.
func (t Tuple) Int() int { return t.n }

// Mode lists the modes of a basis, innermost first; nil for plain numbers.
func (t Tuple) Mode() []int { return slices.Clone(t.basis) }

// Items are the items of a list; a number has itself as only item.
func (t Tuple) Items() []Tuple { return slices.Clone(t.list()) }

func (t Tuple) list() []Tuple {
	if t.items == nil {
		return []Tuple{t}
	}
	return t.items
}

// Rank is the number of items, 1 for a number.
func (t Tuple) Rank() int { return len(t.list()) }

// Depth is 0 for a number and otherwise one more than the deepest item.
func (t Tuple) Depth() int {
	if t.items == nil {
		return 0
	}
	d := 0
	for _, x := range t.items {
		d = max(d, x.Depth())
	}
	return d + 1
}

// Leaves are the numbers in order, as tuples.
func (t Tuple) Leaves() []Tuple { return t.leaves(nil) }

func (t Tuple) leaves(out []Tuple) []Tuple {
	if t.items == nil {
		return append(out, t)
	}
	for _, x := range t.items {
		out = x.leaves(out)
	}
	return out
}

// Size is the product of the numbers. It stops growing at MaxSize+1.
func (t Tuple) Size() int {
	if t.items == nil {
		return t.n
	}
	p := 1
	for _, x := range t.items {
		s := x.Size()
		if s > 0 && p > MaxSize/s {
			return MaxSize + 1
		}
		p *= s
	}
	return p
}

// Congruent says whether two tuples have lists of the same lengths in the same places.
func (t Tuple) Congruent(u Tuple) bool {
	if t.IsInt() || u.IsInt() {
		return t.IsInt() && u.IsInt()
	}
	return slices.EqualFunc(t.items, u.items, Tuple.Congruent)
}

// Equal compares structure and numbers.
func (t Tuple) Equal(u Tuple) bool {
	if t.IsInt() != u.IsInt() {
		return false
	}
	if t.IsInt() {
		return t.n == u.n && slices.Equal(t.basis, u.basis)
	}
	return slices.EqualFunc(t.items, u.items, Tuple.Equal)
}

// String prints the tuple as CuTe does, without the underscores of static numbers.
func (t Tuple) String() string {
	var b strings.Builder
	t.write(&b, "")
	return b.String()
}

// Static prints it with an underscore before every number, as CuTe prints what
// is known when it compiles.
func (t Tuple) Static() string {
	var b strings.Builder
	t.write(&b, "_")
	return b.String()
}

func (t Tuple) write(b *strings.Builder, static string) {
	if t.items == nil {
		b.WriteString(static)
		b.WriteString(strconv.Itoa(t.n))
		for _, m := range t.basis {
			b.WriteByte('@')
			b.WriteString(strconv.Itoa(m))
		}
		return
	}
	b.WriteByte('(')
	for i, x := range t.items {
		if i > 0 {
			b.WriteByte(',')
		}
		x.write(b, static)
	}
	b.WriteByte(')')
}

// each is the size of every item, as a flat list; a number stays a number.
func (t Tuple) each() Tuple {
	if t.IsInt() {
		return t
	}
	out := make([]Tuple, len(t.items))
	for i, x := range t.items {
		out[i] = Int(x.Size())
	}
	return Of(out...)
}

// scaled is the tuple with every number multiplied by k. Basis steps of 0 become
// the number 0: standing still has no direction.
func (t Tuple) scaled(k int) Tuple {
	return t.mapLeaves(func(x Tuple) Tuple {
		x.n = times(x.n, k)
		if x.n == 0 {
			x.basis = nil
		}
		return x
	})
}

func (t Tuple) mapLeaves(f func(Tuple) Tuple) Tuple {
	if t.IsInt() {
		return f(t)
	}
	out := make([]Tuple, len(t.items))
	for i, x := range t.items {
		out[i] = x.mapLeaves(f)
	}
	return Of(out...)
}

// sum adds offsets, or coordinates mode by mode; the number 0 is neutral, and
// missing modes count as 0.
func sum(a, b Tuple) Tuple {
	switch {
	case a.IsInt() && a.n == 0:
		return b
	case b.IsInt() && b.n == 0:
		return a
	case a.IsInt() && b.IsInt():
		return Int(plus(a.n, b.n))
	case a.IsInt() != b.IsInt():
		fail(eBasis, "give every stride a mode, as in 1@0, or none", "the offset %s and the coordinate %s cannot be added", a, b)
	}
	out := make([]Tuple, max(len(a.items), len(b.items)))
	for i := range out {
		var x, y Tuple
		if i < len(a.items) {
			x = a.items[i]
		}
		if i < len(b.items) {
			y = b.items[i]
		}
		out[i] = sum(x, y)
	}
	return Of(out...)
}

// value is what a stride adds: a number, or a coordinate that is 0 but for one mode.
func (t Tuple) value() Tuple {
	v := Int(t.n)
	for _, m := range t.basis {
		items := make([]Tuple, m+1)
		items[m] = v
		v = Of(items...)
	}
	return v
}
