package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MultiFunction is a set-valued map from the indices of a tile to numbers. The
// number is written in digits, slowest first; each is a mode of the index, or any
// of r values. Modes of the index that are no digit do not matter. [Layout.Holding]
// is such a function: the threads that hold an element. [MultiFunction.Covers]
// then says whether every thread that needs an element has it, which is what
// broadcasting one tile to the layout of another asks.
//
// It is an immutable value in canonical form: modes of size 1 are dropped, and
// neighbours merge where that does not change the map. The zero value maps the
// one index of rank 0 to {0}.
type MultiFunction struct {
	_      [0]func()
	shape  []int
	digits []Digit // Dim -1 for any
}

// NewMultiFunction makes a map from its lists: the modes multiply up to the
// dimensions as in [New], and digits name modes, or are -r for any of r values.
func NewMultiFunction(shape, modeShape, digits []int) (MultiFunction, error) {
	modes, err := factor(shape, modeShape)
	if err != nil {
		return MultiFunction{}, err
	}
	used := make([]bool, len(modes))
	var out []Digit
	for _, k := range digits {
		switch {
		case k < -MaxCells:
			return MultiFunction{}, tooLarge(shape)
		case k < 0:
			out = append(out, Digit{Size: -k, Dim: -1})
		case k >= len(modes):
			return MultiFunction{}, fail(eModes, "", "a digit names mode %d; there are modes 0 to %d", k, len(modes)-1)
		case used[k]:
			return MultiFunction{}, fail(eModes, "", "mode %d is used twice", k)
		default:
			used[k] = true
			out = append(out, modes[k])
		}
	}
	return newMulti(shape, out)
}

func newMulti(shape []int, digits []Digit) (MultiFunction, error) {
	if len(shape) > MaxRank {
		return MultiFunction{}, fail(eSize, "use fewer dimensions", "the map has %d dimensions; at most %d are allowed", len(shape), MaxRank)
	}
	size := 1
	for d, n := range shape {
		if n <= 0 {
			return MultiFunction{}, fail(eSize, "", "dimension %d has size %d; sizes must be positive", d, n)
		}
		var ok bool
		if size, ok = times(size, n); !ok {
			return MultiFunction{}, tooLarge(shape)
		}
	}
	digits = merge(make([]Digit, 0, len(digits)), digits)
	if _, ok := extent(digits); !ok {
		return MultiFunction{}, fail(eSize, "use smaller sizes", "the map has more than %d values", MaxCells)
	}
	return MultiFunction{shape: slices.Clone(shape), digits: digits}, nil
}

// Identity maps every index of a shape to its row-major number. It panics when a
// size is not positive or too large.
func Identity(shape ...int) MultiFunction {
	digits := make([]Digit, len(shape))
	for d, n := range shape {
		digits[d] = Digit{Size: n, Dim: d, Stride: 1}
	}
	f, err := newMulti(shape, digits)
	if err != nil {
		panic(fmt.Errorf("layout: %w", err))
	}
	return f
}

// Holding maps every element to the threads that hold it.
func (l Layout) Holding() MultiFunction {
	d := l.rep()
	return MultiFunction{shape: d.shape, digits: d.spatial}
}

// Shape is the shape of the indices.
func (f MultiFunction) Shape() []int { return append([]int{}, f.shape...) }

// Range is one more than the largest value.
func (f MultiFunction) Range() int { n, _ := extent(f.digits); return n }

// modes lists the modes of the index, those that are no digit included.
func (f MultiFunction) modes() (sizes, digits []int) {
	sizes, digits = []int{}, make([]int, len(f.digits))
	for d, n := range f.shape {
		var own []int // places in f.digits, outermost mode first
		for i, g := range f.digits {
			if g.Dim == d {
				own = append(own, i)
			}
		}
		slices.SortFunc(own, func(a, b int) int { return f.digits[b].Stride - f.digits[a].Stride })
		high := n
		for _, i := range own {
			g := f.digits[i]
			if gap := high / (g.Size * g.Stride); gap > 1 {
				sizes = append(sizes, gap)
			}
			digits[i] = len(sizes)
			sizes = append(sizes, g.Size)
			high = g.Stride
		}
		if high > 1 {
			sizes = append(sizes, high)
		}
	}
	for i, g := range f.digits {
		if g.Dim < 0 {
			digits[i] = -g.Size
		}
	}
	return sizes, digits
}

// ModeShape lists the sizes of the modes, dimension by dimension, outermost first.
func (f MultiFunction) ModeShape() []int { m, _ := f.modes(); return m }

// Modes lists the digits of the value, slowest first: a mode, or -r for any of r.
func (f MultiFunction) Modes() []int { _, m := f.modes(); return m }

// Equal reports whether both are the same map of the same shape.
func (f MultiFunction) Equal(g MultiFunction) bool {
	return slices.Equal(f.shape, g.shape) && slices.Equal(f.digits, g.digits)
}

// At lists the values of an index, in ascending order. It panics, as a slice does,
// when the index lies outside the shape.
func (f MultiFunction) At(index ...int) []int {
	if err := (&strided{shape: f.shape}).inside(index); err != nil {
		panic(fmt.Errorf("layout: %w", err))
	}
	out := []int{0}
	for _, g := range f.digits {
		next := make([]int, 0, len(out))
		for _, v := range out {
			if g.Dim >= 0 {
				next = append(next, v*g.Size+index[g.Dim]/g.Stride%g.Size)
				continue
			}
			for r := range g.Size {
				next = append(next, v*g.Size+r)
			}
		}
		out = next
	}
	return out
}

// Collapse maps an index to all that the indices which differ from it only in
// these dimensions are mapped to.
func (f MultiFunction) Collapse(over ...int) (MultiFunction, error) {
	over, err := dims(over, len(f.shape))
	if err != nil {
		return MultiFunction{}, err
	}
	digits := slices.Clone(f.digits)
	for i, g := range digits {
		if slices.Contains(over, g.Dim) {
			digits[i] = Digit{Size: g.Size, Dim: -1}
		}
	}
	return newMulti(f.shape, digits)
}

// CollapseTo collapses every dimension in which shape, aligned at the last
// dimension, is 1, and drops leading dimensions that shape does not have.
func (f MultiFunction) CollapseTo(shape []int) (MultiFunction, error) {
	lead := len(f.shape) - len(shape)
	if lead < 0 {
		return MultiFunction{}, fail(eReduceTo, "", "shape %s does not collapse to %s", list(f.shape), list(shape))
	}
	var over []int
	for d, n := range f.shape {
		switch {
		case d < lead || shape[d-lead] == 1 && n != 1:
			over = append(over, d)
		case shape[d-lead] != n:
			return MultiFunction{}, fail(eReduceTo, "", "shape %s does not collapse to %s", list(f.shape), list(shape))
		}
	}
	c, err := f.Collapse(over...)
	if err != nil {
		return MultiFunction{}, err
	}
	digits := slices.Clone(c.digits)
	for i := range digits {
		if digits[i].Dim >= 0 {
			digits[i].Dim -= lead
		}
	}
	return newMulti(shape, digits)
}

// pair is the part of two digits that stand at the same place of a number.
type pair struct{ a, b Digit }

// align cuts the digits of two numbers so that they pair, slowest first. A
// number with fewer digits is filled with zeros, digits of Dim -2. It fails where
// a mode would have to be cut unevenly; any of r can be cut where r divides.
func align(x, y []Digit) ([]pair, bool) {
	a, b := slices.Clone(x), slices.Clone(y)
	low := func(ds []Digit, n int) (part Digit, rest []Digit) { // the low part of the last digit
		g := &ds[len(ds)-1]
		part = Digit{Size: n, Dim: g.Dim, Stride: g.Stride}
		if n == g.Size {
			return part, ds[:len(ds)-1]
		}
		g.Size, g.Stride = g.Size/n, g.Stride*n
		return part, ds
	}
	var out []pair
	for len(a) > 0 || len(b) > 0 {
		zero := func(n int) Digit { return Digit{Size: n, Dim: -2} }
		var p pair
		switch {
		case len(a) == 0:
			n := b[len(b)-1].Size
			p.a = zero(n)
			p.b, b = low(b, n)
		case len(b) == 0:
			n := a[len(a)-1].Size
			p.b = zero(n)
			p.a, a = low(a, n)
		default:
			m, n := a[len(a)-1].Size, b[len(b)-1].Size
			k := min(m, n)
			if m%k != 0 || n%k != 0 {
				return nil, false
			}
			p.a, a = low(a, k)
			p.b, b = low(b, k)
		}
		out = append(out, p)
	}
	slices.Reverse(out)
	return out, true
}

// Then is the map x → g(f(x)), where g maps numbers: it has rank 1. It fails
// where the modes of g cut those of f unevenly, or where f reaches beyond g.
func (f MultiFunction) Then(g MultiFunction) (MultiFunction, error) {
	if len(g.shape) != 1 {
		return MultiFunction{}, fail(eMulti, "", "the second map takes indices of shape %s, not numbers", list(g.shape))
	}
	if f.Range() > g.shape[0] {
		return MultiFunction{}, fail(eMulti, "", "the first map has %d values, the second takes %d", f.Range(), g.shape[0])
	}
	no := fail(eMulti, "", "%s after %s cuts a mode unevenly", g, f)
	sizes, _ := g.modes()
	// The number that f makes, cut where the modes of g are cut.
	number := make([]Digit, len(sizes))
	stride := 1
	for i := len(sizes) - 1; i >= 0; i-- {
		number[i] = Digit{Size: sizes[i], Dim: 0, Stride: stride}
		stride *= sizes[i]
	}
	pairs, ok := align(f.digits, number)
	if !ok {
		return MultiFunction{}, no
	}
	var digits []Digit
	for _, d := range g.digits {
		if d.Dim < 0 {
			digits = append(digits, d)
			continue
		}
		for _, p := range pairs {
			if p.b.Dim != 0 || p.b.Stride < d.Stride || p.b.Stride >= d.Stride*d.Size {
				continue
			}
			if p.a.Dim == -2 && len(digits) == 0 {
				continue
			}
			if p.a.Dim == -2 {
				return MultiFunction{}, fail(eMulti, "", "%s after %s needs a digit that is always 0", g, f)
			}
			digits = append(digits, p.a)
		}
	}
	return newMulti(f.shape, digits)
}

// Covers says whether every value of g is a value of f, for every index. Where the
// digits of both do not pair it compares value by value, which fails for maps of
// more than 2^20 values in all.
func (f MultiFunction) Covers(g MultiFunction) (bool, error) {
	if !slices.Equal(f.shape, g.shape) {
		return false, fail(eMulti, "", "one map is of shape %s, the other of %s", list(f.shape), list(g.shape))
	}
	if pairs, ok := align(f.digits, g.digits); ok {
		for _, p := range pairs {
			if p.a.Dim != -1 && p.a != p.b {
				return false, nil
			}
		}
		return true, nil
	}
	many := func(h MultiFunction) int {
		n := 1
		for _, d := range h.digits {
			if d.Dim < 0 {
				n *= d.Size
			}
		}
		return n
	}
	size := 1
	for _, n := range f.shape {
		size *= n
	}
	const most = 1 << 20
	if n := many(f) + many(g); n > most/size {
		return false, fail(eMulti, "use smaller sizes", "%s and %s have more than %d values to compare", f, g, most)
	}
	index := make([]int, len(f.shape))
	for i := range size {
		for d, n := len(index)-1, i; d >= 0; d-- {
			index[d] = n % f.shape[d]
			n /= f.shape[d]
		}
		have := f.At(index...)
		for _, v := range g.At(index...) {
			if _, ok := slices.BinarySearch(have, v); !ok {
				return false, nil
			}
		}
	}
	return true, nil
}

// String prints the lists: "[2, 3, 4] → [0, any 5, 3] of modes [2, 3, 2, 2]".
func (f MultiFunction) String() string {
	sizes, digits := f.modes()
	words := make([]string, len(digits))
	for i, d := range digits {
		if words[i] = strconv.Itoa(d); d < 0 {
			words[i] = "any " + strconv.Itoa(-d)
		}
	}
	return fmt.Sprintf("%s → [%s] of modes %s", list(f.shape), strings.Join(words, ", "), list(sizes))
}
