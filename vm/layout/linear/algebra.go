package linear

import (
	"fmt"
	"math/bits"
	"slices"
)

// solver solves equations whose unknowns are the bits of a place. Columns that
// depend on earlier ones are left out: their bits are free, and are zero in every
// solution.
type solver struct {
	pivots []pivot
	free   uint64 // columns that depend on earlier ones
}

// pivot is a vector with the columns whose sum it is. lead is a bit that no
// later pivot has.
type pivot struct {
	vec, combo uint64
	lead       int
}

func solve(cols []uint64) solver {
	var s solver
	for j, c := range cols {
		vec, combo := s.reduce(c)
		if vec == 0 {
			s.free |= 1 << j
			continue
		}
		s.pivots = append(s.pivots, pivot{vec, combo ^ 1<<j, bits.TrailingZeros64(vec)})
	}
	return s
}

// reduce takes pivots away from a vector, and says which columns that were.
func (s solver) reduce(vec uint64) (rest, combo uint64) {
	for _, p := range s.pivots {
		if vec>>p.lead&1 == 1 {
			vec ^= p.vec
			combo ^= p.combo
		}
	}
	return vec, combo
}

// Rank is the number of independent bases: 2^Rank different elements are held.
func (l Layout) Rank() int { return len(solve(l.columns()).pivots) }

// IsSurjective reports whether every element is held somewhere.
func (l Layout) IsSurjective() bool { return l.Rank() == l.OutBits() }

// IsInjective reports whether no two places hold the same element.
func (l Layout) IsInjective() bool { return l.Rank() == l.InBits() }

// IsInvertible reports whether every element is held in exactly one place.
func (l Layout) IsInvertible() bool { return l.IsSurjective() && l.IsInjective() }

// Free says which bits of each input dimension only replicate: a mask for each
// dimension, in their order. A bit is free where its basis is a sum of bases
// before it; places that differ in free bits only hold elements that other places
// hold too.
func (l Layout) Free() []int {
	free := solve(l.columns()).free
	out := make([]int, len(l.In))
	for i, d := range l.In {
		out[i] = int(free & (1<<len(d.Bases) - 1))
		free >>= len(d.Bases)
	}
	return out
}

// Compose is g after l: places of l go to elements of g. The output dimensions of
// l are the input dimensions of g, in any order, and no larger.
func (l Layout) Compose(g Layout) (Layout, error) {
	at := make([]int, len(g.In)) // output dimension of l
	for i, d := range g.In {
		at[i] = l.outIndex(d.Name)
		if at[i] < 0 {
			return Layout{}, fail(eCompose, "", "the second layout takes %s, which the first does not give", d.Name)
		}
		if n := l.Out[at[i]].Size; n > d.Size() {
			return Layout{}, fail(eCompose, "", "the first layout gives %s up to %d, the second takes it up to %d", d.Name, n-1, d.Size()-1)
		}
	}
	if len(l.Out) > len(g.In) {
		for _, o := range l.Out {
			if _, ok := g.InDim(o.Name); !ok {
				return Layout{}, fail(eCompose, "", "the first layout gives %s, which the second does not take", o.Name)
			}
		}
	}
	in := make([]Dim, len(l.In))
	for i, d := range l.In {
		in[i].Name = d.Name
		for _, b := range d.Bases {
			place := make([]int, len(at))
			for k, j := range at {
				place[k] = b[j]
			}
			in[i].Bases = append(in[i].Bases, g.Apply(place...))
		}
	}
	return New(in, g.Out)
}

// Invert maps each element to the one place that holds it.
func (l Layout) Invert() (Layout, error) {
	if !l.IsInjective() {
		return Layout{}, fail(eInverse, "PseudoInvert picks one place for each element", "there is no inverse: the rank is %d and places have %d bits, so several hold the same element", l.Rank(), l.InBits())
	}
	return l.PseudoInvert()
}

// PseudoInvert maps each element to one of the places that hold it, the one in
// which all bits that [Layout.Free] names are zero: r with r.Compose(l) the
// identity. Every element must be held.
func (l Layout) PseudoInvert() (Layout, error) {
	id := Layout{Out: slices.Clone(l.Out)}
	for j, o := range l.Out {
		d := Dim{Name: o.Name}
		for v := 1; v < o.Size; v *= 2 {
			b := make([]int, len(l.Out))
			b[j] = v
			d.Bases = append(d.Bases, b)
		}
		id.In = append(id.In, d)
	}
	return id.InvertAndCompose(l)
}

// InvertAndCompose says for each place of l which place of g holds the same
// element: x with x.Compose(g) equal to l. It is how data moves from one layout
// to another. Both need the same output dimensions, and g must hold every element
// that l holds; of several places it takes the one whose free bits are zero.
func (l Layout) InvertAndCompose(g Layout) (Layout, error) {
	if len(l.Out) != len(g.Out) {
		return Layout{}, fail(eCompose, "", "the layouts have %d and %d output dimensions", len(l.Out), len(g.Out))
	}
	at := make([]int, len(g.Out))
	for i, o := range g.Out {
		if at[i] = l.outIndex(o.Name); at[i] < 0 || l.Out[at[i]].Size != o.Size {
			return Layout{}, fail(eCompose, "", "the layouts differ in the output dimension %s", o.Name)
		}
	}
	s := solve(g.columns())
	var cols []uint64
	for _, d := range l.In {
		for k, b := range d.Bases {
			index := make([]int, len(at))
			for i, j := range at {
				index[i] = b[j]
			}
			rest, place := s.reduce(g.pack(index))
			if rest != 0 {
				return Layout{}, fail(eInverse, "", "no place holds (%s), which %s=%d asks for: the rank is %d, elements have %d bits", join(index), d.Name, 1<<k, len(s.pivots), g.OutBits())
			}
			cols = append(cols, place)
		}
	}
	return fromColumns(cols, l.sizes(), g.sizes())
}

// Mul is the product: places and indices of l are the low bits, those of g the
// high ones, dimension by dimension. A dimension that only one of them has is
// taken from there. Products are associative.
func (l Layout) Mul(g Layout) (Layout, error) {
	out := slices.Clone(l.Out)
	for _, o := range g.Out {
		if i := l.outIndex(o.Name); i >= 0 {
			if out[i].Size > 1<<MaxBits/o.Size {
				return Layout{}, fail(eDims, "", "the product has more than %d bits of %s", MaxBits, o.Name)
			}
			out[i].Size *= o.Size
			continue
		}
		out = append(out, o)
	}
	find := func(name string) int {
		return slices.IndexFunc(out, func(o OutDim) bool { return o.Name == name })
	}
	in := make([]Dim, 0, len(l.In)+len(g.In))
	for _, d := range l.In {
		e := Dim{Name: d.Name}
		for _, b := range d.Bases {
			e.Bases = append(e.Bases, append(slices.Clone(b), make([]int, len(out)-len(b))...))
		}
		in = append(in, e)
	}
	for _, d := range g.In {
		i := slices.IndexFunc(in, func(e Dim) bool { return e.Name == d.Name })
		if i < 0 {
			i = len(in)
			in = append(in, Dim{Name: d.Name})
		}
		for _, b := range d.Bases {
			c := make([]int, len(out))
			for j, v := range b {
				at := find(g.Out[j].Name)
				c[at] = v
				if at < len(l.Out) {
					c[at] *= l.Out[at].Size
				}
			}
			in[i].Bases = append(in[i].Bases, c)
		}
	}
	return New(in, out)
}

// DivideLeft is the q with f.Mul(q) equal to l: what is left when f has the low
// bits. Dimensions that f uses up stay, with size 1.
func (l Layout) DivideLeft(f Layout) (Layout, error) {
	return l.divide(f, func(whole, part int) (take, rest [2]int) {
		return [2]int{0, part}, [2]int{part, whole}
	}, func(q Layout) (Layout, error) { return f.Mul(q) }, "low")
}

// DivideRight is the q with q.Mul(g) equal to l: what is left when g has the high
// bits. Dimensions that g uses up stay, with size 1.
func (l Layout) DivideRight(g Layout) (Layout, error) {
	return l.divide(g, func(whole, part int) (take, rest [2]int) {
		return [2]int{whole - part, whole}, [2]int{0, whole - part}
	}, func(q Layout) (Layout, error) { return q.Mul(g) }, "high")
}

func (l Layout) divide(f Layout, cut func(whole, part int) (take, rest [2]int), check func(Layout) (Layout, error), side string) (Layout, error) {
	out := slices.Clone(l.Out)
	shift := make([]int, len(out)) // the rest counts from this bit
	for _, o := range f.Out {
		i := l.outIndex(o.Name)
		if i < 0 || l.Out[i].Size < o.Size {
			return Layout{}, fail(eDivide, "", "the quotient does not exist: the divisor's %s is not in the layout, or larger there", o.Name)
		}
		out[i].Size /= o.Size
		if side == "low" {
			shift[i] = width(o.Size)
		}
	}
	in := make([]Dim, len(l.In))
	for i, d := range l.In {
		in[i].Name = d.Name
		part, _ := f.InDim(d.Name)
		if len(part.Bases) > len(d.Bases) {
			return Layout{}, fail(eDivide, "", "the quotient does not exist: the divisor's %s is larger", d.Name)
		}
		_, rest := cut(len(d.Bases), len(part.Bases))
		for _, b := range d.Bases[rest[0]:rest[1]] {
			c := make([]int, len(b))
			for j, v := range b {
				c[j] = v >> shift[j]
				if c[j] >= out[j].Size || v&(1<<shift[j]-1) != 0 {
					return Layout{}, fail(eDivide, "", "the quotient does not exist: the basis (%s) of %s touches the divisor's bits of %s", join(b), d.Name, l.Out[j].Name)
				}
			}
			in[i].Bases = append(in[i].Bases, c)
		}
	}
	q, err := New(in, out)
	if err != nil {
		return Layout{}, err
	}
	back, err := check(q)
	if err != nil {
		return Layout{}, err
	}
	if !back.SameMap(l) {
		return Layout{}, fail(eDivide, "", "the quotient does not exist: the %s bits of the layout are not the divisor", side)
	}
	return q, nil
}

// Quotient leaves out dimensions in which the layout is the identity by itself:
// each name is an input and an output dimension of one size, its place i goes to
// index i, and nothing else touches that index.
func (l Layout) Quotient(names ...string) (Layout, error) {
	for _, name := range names {
		d, ok := l.InDim(name)
		j := l.outIndex(name)
		if !ok || j < 0 || l.Out[j].Size != d.Size() {
			return Layout{}, fail(eDivide, "", "%s is not an input and an output dimension of one size", name)
		}
		for _, e := range l.In {
			for k, b := range e.Bases {
				for i, v := range b {
					want := 0
					if e.Name == name && i == j {
						want = 1 << k
					}
					if (e.Name == name || i == j) && v != want {
						return Layout{}, fail(eDivide, "", "the layout is not the identity in %s: %s=%d goes to (%s)", name, e.Name, 1<<k, join(b))
					}
				}
			}
		}
	}
	keep := func(name string) bool { return !slices.Contains(names, name) }
	var in, out []string
	for _, d := range l.In {
		if keep(d.Name) {
			in = append(in, d.Name)
		}
	}
	for _, o := range l.Out {
		if keep(o.Name) {
			out = append(out, o.Name)
		}
	}
	return l.Sub(in, out)
}

// Sub is the part of the layout between some of its dimensions, in this order.
func (l Layout) Sub(in, out []string) (Layout, error) {
	var s Layout
	at := make([]int, len(out))
	for i, name := range out {
		if at[i] = l.outIndex(name); at[i] < 0 {
			return Layout{}, fail(eDims, "", "there is no output dimension %s", name)
		}
		s.Out = append(s.Out, l.Out[at[i]])
	}
	for _, name := range in {
		d, ok := l.InDim(name)
		if !ok {
			return Layout{}, fail(eDims, "", "there is no input dimension %s", name)
		}
		e := Dim{Name: name}
		for _, b := range d.Bases {
			c := make([]int, len(at))
			for i, j := range at {
				c[i] = b[j]
			}
			e.Bases = append(e.Bases, c)
		}
		s.In = append(s.In, e)
	}
	return New(s.In, s.Out)
}

// TransposeIn puts the input dimensions into this order.
func (l Layout) TransposeIn(names ...string) (Layout, error) {
	if len(names) != len(l.In) {
		return Layout{}, fail(eDims, "", "transpose names all %d input dimensions", len(l.In))
	}
	out := make([]string, len(l.Out))
	for i, o := range l.Out {
		out[i] = o.Name
	}
	return l.Sub(names, out)
}

// TransposeOut puts the output dimensions into this order.
func (l Layout) TransposeOut(names ...string) (Layout, error) {
	if len(names) != len(l.Out) {
		return Layout{}, fail(eDims, "", "transpose names all %d output dimensions", len(l.Out))
	}
	in := make([]string, len(l.In))
	for i, d := range l.In {
		in[i] = d.Name
	}
	return l.Sub(in, names)
}

// ReshapeIn counts the same places in other dimensions, the first the fastest.
func (l Layout) ReshapeIn(dims ...OutDim) (Layout, error) {
	if err := sameBits(dims, l.InBits()); err != nil {
		return Layout{}, err
	}
	return fromColumns(l.columns(), dims, l.Out)
}

// ReshapeOut counts the same indices in other dimensions, the first the fastest.
func (l Layout) ReshapeOut(dims ...OutDim) (Layout, error) {
	if err := sameBits(dims, l.OutBits()); err != nil {
		return Layout{}, err
	}
	return fromColumns(l.columns(), l.sizes(), dims)
}

// FlattenIn makes all input dimensions one.
func (l Layout) FlattenIn(name string) Layout {
	return must(l.ReshapeIn(OutDim{name, 1 << l.InBits()}))
}

// FlattenOut makes all output dimensions one.
func (l Layout) FlattenOut(name string) Layout {
	return must(l.ReshapeOut(OutDim{name, 1 << l.OutBits()}))
}

func sameBits(dims []OutDim, want int) error {
	have := 0
	for _, d := range dims {
		n, ok := log2(d.Size)
		if !ok {
			return fail(eSize, "", "dimension %s has size %d, which is not a power of two", d.Name, d.Size)
		}
		have += n
	}
	if have != want {
		return fail(eCompose, "", "reshaping keeps the number of bits: there are %d, the new dimensions have %d", want, have)
	}
	return nil
}

// rename gives the output dimensions other names.
func (l Layout) rename(names []string) Layout {
	if len(names) != len(l.Out) {
		panic(fmt.Errorf("linear: %d names for %d output dimensions", len(names), len(l.Out)))
	}
	r := Layout{In: l.In, Out: slices.Clone(l.Out)}
	for i := range r.Out {
		r.Out[i].Name = names[i]
	}
	return r
}
