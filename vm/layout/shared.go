package layout

import (
	"fmt"
	"slices"
	"strconv"
)

// Shared says where the elements of a tile lie in shared memory: the map from
// indices to offsets in elements. The index of each dimension is cut into modes,
// each mode adds its digit times its stride, and a swizzle, if there is one,
// permutes the sum. It is an immutable value in canonical form; compare with
// [Shared.Equal] or [Shared.Key]. The zero value is one element at offset 0.
//
// A swizzle belongs to addresses, not to indices: a slice of a swizzled tile
// keeps it although within the slice it may move nothing. So two layouts are
// equal exactly where they are the same map and swizzle alike.
type Shared struct {
	_       [0]func()
	d       *strided
	swizzle Swizzle
}

func (s Shared) rep() *strided {
	if s.d == nil {
		return unitStrided
	}
	return s.d
}

func (s Shared) with(d *strided, err error) (Shared, error) {
	if err != nil {
		return Shared{}, err
	}
	return Shared{d: d, swizzle: s.swizzle}, nil
}

func mustShared(s Shared, err error) Shared {
	if err != nil {
		panic(fmt.Errorf("layout: %w", err))
	}
	return s
}

// NewShared makes a layout from its lists: the modes multiply up to the
// dimensions as in [New], and each has a stride in elements.
func NewShared(shape, modeShape, modeStrides []int, w Swizzle) (Shared, error) {
	if w.Identity() {
		w = Swizzle{}
	} else if _, err := NewSwizzle(w.Bits, w.Base, w.Shift); err != nil {
		return Shared{}, fail(eSwizzle, "", "%v", err)
	}
	return Shared{swizzle: w}.with(newStrided(shape, modeShape, modeStrides, MaxCells))
}

// SharedRowMajor is a tile without holes, the last dimension fastest. It and
// [SharedColumnMajor] panic when a size is not positive or too large.
func SharedRowMajor(shape ...int) Shared {
	return mustShared(Shared{}.with(packed(shape, upTo(len(shape)), MaxCells)))
}

// SharedColumnMajor is a tile without holes, the first dimension fastest.
func SharedColumnMajor(shape ...int) Shared {
	return mustShared(Shared{}.with(packed(shape, column(shape), MaxCells)))
}

// SharedRowMajorSwizzle is a row-major tile of elements of the given bits in the
// form that ldmatrix, TMA and the matrix instructions read without bank
// conflicts. Of 128, 64, 32 and 16 bytes the widest that divides a row is the
// width of a panel: rows lie one panel wide under each other, wider tiles are cut
// into panels of columns, and the 16-byte units of a panel row are permuted by
// the row (not for 16 bytes). There must be a multiple of 8 rows, and a row must
// be a multiple of 16 bytes.
//
// Source: PTX ISA, "Shared Memory Matrix Layout", swizzling modes.
func SharedRowMajorSwizzle(bits int, shape ...int) (Shared, error) {
	unit, err := unitOf(bits)
	if err != nil {
		return Shared{}, err
	}
	if len(shape) < 2 {
		return Shared{}, fail(eSwizzle, "", "shape %s has no rows and columns", list(shape))
	}
	rows, columns := shape[len(shape)-2], shape[len(shape)-1]
	if rows%8 != 0 || rows < 1 {
		return Shared{}, fail(eSwizzle, "make the number of rows a multiple of 8", "a swizzled tile of shape %s has %d rows", list(shape), rows)
	}
	if columns%unit != 0 || columns < 1 {
		return Shared{}, fail(eSwizzle, fmt.Sprintf("make the number of columns a multiple of %d", unit), "a row of %d elements of %d bits is not a whole number of 16-byte units", columns, bits)
	}
	w, panel := Swizzle{}, unit
	for b := 3; b > 0; b-- {
		if columns%(unit<<b) == 0 {
			w, panel = Swizzle{Bits: b, Base: log2(unit), Shift: 3}, unit<<b
			break
		}
	}
	if n := rows; n > MaxCells || columns > MaxCells/n {
		return Shared{}, fail(eSize, "use smaller sizes", "the layout of shape %s has more than %d elements", list(shape), MaxCells)
	}
	modes := []mode{{len(shape) - 2, rows, panel}, {len(shape) - 1, columns / panel, rows * panel}, {len(shape) - 1, panel, 1}}
	step := rows * columns
	for k := len(shape) - 3; k >= 0; k-- {
		modes = append([]mode{{k, shape[k], step}}, modes...)
		if n := shape[k]; n > 0 && n <= MaxCells/step {
			step *= n
		}
	}
	return Shared{swizzle: w}.with(buildStrided(shape, modes, MaxCells))
}

// unitOf is how many elements of these bits fill 16 bytes, the unit in which
// swizzles move data.
func unitOf(bits int) (int, error) {
	if bits < 1 || bits > 128 || bits&(bits-1) != 0 {
		return 0, fail(eSwizzle, "", "elements of %d bits do not fill 16 bytes; the width must be a power of two from 1 to 128", bits)
	}
	return 128 / bits, nil
}

func log2(n int) int {
	k := 0
	for n > 1 {
		n >>= 1
		k++
	}
	return k
}

// Shape is the shape of the tile.
func (s Shared) Shape() []int { return append(make([]int, 0, someDims), s.rep().shape...) }

// Rank is the number of dimensions of the tile.
func (s Shared) Rank() int { return len(s.rep().shape) }

// Size is the number of elements of the tile.
func (s Shared) Size() int { return s.rep().size() }

// ModeShape lists the sizes of the modes, dimension by dimension, outermost first.
func (s Shared) ModeShape() []int { sizes, _ := s.rep().lists(); return sizes }

// ModeStrides lists the strides of the modes, in elements.
func (s Shared) ModeStrides() []int { _, steps := s.rep().lists(); return steps }

// Swizzle is the permutation of the tile's offsets: offset before it → offset after
// it, both in elements, of any shape. Without a swizzle it is the zero value, which
// moves nothing ([Swizzle.Identity]). In bytes it is [Shared.ByteSwizzle].
func (s Shared) Swizzle() Swizzle { return s.swizzle }

// ByteSwizzle is the permutation of [Shared.Swizzle] for offsets in bytes, where an
// element is 1, 2, 4, 8 or 16 bytes; other sizes are an error, and so is a swizzle
// whose bits reach beyond bit 48 then.
func (s Shared) ByteSwizzle(bytes int) (Swizzle, error) {
	if bytes < 1 || bytes > 16 || bytes&(bytes-1) != 0 {
		return Swizzle{}, fail(eSwizzle, "", "elements have %d bytes; a swizzle of bytes needs 1, 2, 4, 8 or 16", bytes)
	}
	w, err := s.swizzle.Rescale(log2(bytes))
	if err != nil {
		return Swizzle{}, fail(eSwizzle, "", "%v", err)
	}
	return w, nil
}

// Offset is where an element lies. It panics, as a slice does, when the index is
// outside the tile.
func (s Shared) Offset(index ...int) int {
	if err := s.rep().inside(index); err != nil {
		panic(fmt.Errorf("layout: %w", err))
	}
	return s.swizzle.Apply(s.rep().at(index))
}

// Offsets lists the offset of every element, in row-major order.
func (s Shared) Offsets() []int {
	out := s.rep().offsets()
	if !s.swizzle.Identity() {
		for i, off := range out {
			out[i] = s.swizzle.Apply(off)
		}
	}
	return out
}

// CountSize is the largest offset plus one: the elements of memory that the tile
// needs, holes included.
func (s Shared) CountSize() int {
	if s.swizzle.Identity() {
		return s.rep().extent()
	}
	if n := s.rep().extent(); s.rep().dense() && n == s.apart() {
		return n // the swizzle permutes whole periods
	}
	return slices.Max(s.Offsets()) + 1
}

// Injective says whether no two elements lie at the same offset.
func (s Shared) Injective() bool {
	if s.rep().increasing() {
		return true
	}
	all := s.rep().offsets() // the swizzle is a permutation
	slices.Sort(all)
	return len(slices.Compact(all)) == s.Size()
}

// apart is how far copies of the layout are laid apart: its size, rounded up to the
// period of the swizzle, which permutes offsets within each period alike.
func (s Shared) apart() int {
	n := s.rep().extent()
	if s.swizzle.Identity() {
		return n
	}
	period := 1 << (s.swizzle.Base + s.swizzle.Bits + max(s.swizzle.Shift, -s.swizzle.Shift))
	return (n + period - 1) / period * period
}

// Equal reports whether both layouts are the same map with the same swizzle.
func (s Shared) Equal(g Shared) bool { return s.swizzle == g.swizzle && s.rep().equal(g.rep()) }

// Key is a short string that is equal for equal layouts only.
func (s Shared) Key() string { return s.rep().key() + s.swizzle.String() }

// Mul is the product: every element of s becomes a whole copy of g. It is made
// of the offsets before swizzling, so the product has no swizzle; give it one
// with [Shared.ApplySwizzle].
func (s Shared) Mul(g Shared) (Shared, error) {
	return Shared{}.with(s.rep().mul(g.rep(), g.rep().extent(), MaxCells))
}

// Permute reorders dimensions: dimension i of the result is dimension order[i] of s.
func (s Shared) Permute(order ...int) (Shared, error) {
	if len(order) != s.Rank() {
		return Shared{}, fail(eDims, "", "permute names %d dimensions; the rank is %d", len(order), s.Rank())
	}
	return s.Slice(order...)
}

// Transpose exchanges two dimensions.
func (s Shared) Transpose(a, b int) (Shared, error) {
	ab, err := dims([]int{a}, s.Rank())
	if err != nil {
		return Shared{}, err
	}
	bb, err := dims([]int{b}, s.Rank())
	if err != nil {
		return Shared{}, err
	}
	order := upTo(s.Rank())
	order[ab[0]], order[bb[0]] = bb[0], ab[0]
	return s.Permute(order...)
}

// Slice keeps these dimensions, in this order; the index of the others is fixed.
// Where it is fixed adds a base address that the layout does not know: it must
// be a multiple of the swizzle's period, or be part of what is swizzled.
func (s Shared) Slice(retain ...int) (Shared, error) {
	retain, err := dims(retain, s.Rank())
	if err != nil {
		return Shared{}, err
	}
	return s.with(s.rep().pick(retain), nil)
}

// Unsqueeze inserts dimensions of size 1, at these places in the result.
func (s Shared) Unsqueeze(at ...int) (Shared, error) { return s.with(s.rep().unsqueeze(at)) }

// Prepend lays n copies one after the other, as a first dimension: the stages of
// a pipeline. Copies of a swizzled tile start at multiples of its period.
func (s Shared) Prepend(n int) (Shared, error) {
	d := s.rep().extend(s.Rank() + 1)
	shape := slices.Clone(d.shape)
	shape[0] = n
	return s.with(buildStrided(shape, append([]mode{{0, n, s.apart()}}, d.modes...), MaxCells))
}

// Reshape gives the tile another shape of the same size, elements in row-major
// order. It exists where every border between new dimensions falls between modes
// or cuts a mode into two whole factors.
func (s Shared) Reshape(shape ...int) (Shared, error) {
	return s.with(s.rep().reshape(shape, MaxCells))
}

// ApplySwizzle permutes the offsets of a layout, in elements; shape, modes and
// strides stay. It is an error where the layout has a swizzle already, and where w
// is none that [NewSwizzle] makes.
func (s Shared) ApplySwizzle(w Swizzle) (Shared, error) {
	if !s.swizzle.Identity() {
		return Shared{}, fail(eSwizzle, "take it off first", "the layout has the swizzle %s already", s.swizzle)
	}
	return NewShared(s.Shape(), s.ModeShape(), s.ModeStrides(), w)
}

// Unswizzled is the layout without its swizzle.
func (s Shared) Unswizzled() Shared { return Shared{d: s.d} }

// String is the layout in notation that [ParseShared] reads back exactly.
func (s Shared) String() string {
	text := "shared_" + s.rep().text()
	if w := s.swizzle; !w.Identity() {
		text += ".apply_swizzle(base=" + strconv.Itoa(w.Base) + ", bits=" + strconv.Itoa(w.Bits) + ", shift=" + strconv.Itoa(w.Shift) + ")"
	}
	return text
}
