package layout

import (
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
)

// Limits of a layout. Every layout that exists respects them, whether it was
// written as text or built in Go, so each can be printed, parsed and enumerated.
const (
	// MaxCells bounds Threads() * Slots(), replicas included.
	MaxCells = 1 << 24
	// MaxRank bounds the number of dimensions.
	MaxRank = 32
)

// Layout says which element of a tile each thread holds in each of its slots.
// It is an immutable value in canonical form; compare with [Layout.Equal] or
// [Layout.Key] (it is deliberately not comparable with ==). The zero value is
// the layout of rank 0 with one thread and one slot.
type Layout struct {
	_ [0]func()
	d *data
}

// Digit is one digit of a thread number or of a slot number, and what it adds
// to the index: digit value * Stride in dimension Dim (in elements of that
// dimension). A replica digit chooses among threads that hold the same element:
// its Dim is -1 and its Stride 0.
type Digit struct {
	Size   int
	Dim    int
	Stride int
}

// Holder is one place that holds an element.
type Holder struct {
	Thread int
	Slot   int
}

// data is what layouts share; after build only what is remembered of it is written.
type data struct {
	shape   []int
	spatial []Digit // of the thread number, slowest first
	local   []Digit // of the slot number, slowest first
	threads int
	slots   int
	row     []int // row-major stride of each dimension

	text  atomic.Pointer[string] // of String
	key   atomic.Pointer[string] // of Key
	parts atomic.Pointer[parts]  // of Parts
}

// parts are the results of [Layout.Parts].
type parts struct{ threads, slots []int32 }

// maxKept bounds the parts of a map that a layout remembers: programs ask for those of
// their tiles many times.
const maxKept = 1 << 16

var unit = &data{threads: 1, slots: 1}

func (l Layout) rep() *data {
	if l.d == nil {
		return unit
	}
	return l.d
}

// build makes the canonical layout of these digits. The caller guarantees that
// the digits of each dimension factor it: sorted by stride they run from 1 to
// the size of the dimension without gap. build drops digits of size 1 and
// merges neighbours.
//
// Why the result is unique. Let the last digit of a number have size s and
// contribute v per step, and the digit before it w per step (vectors over the
// dimensions, zero for a replica). The map sends t to t*v for every t < s, and s
// to w. Merging stops only where w differs from s*v, so s is the first t at
// which the map leaves the line t*v, v is the image of 1, and both can be read
// off the map; so can, by induction, all digits before it. Two canonical
// layouts with equal maps have therefore equal digits.
func build(shape []int, spatial, local []Digit) (Layout, error) {
	if len(shape) > MaxRank {
		return Layout{}, fail(eSize, "use fewer dimensions", "the layout has %d dimensions; at most %d are allowed", len(shape), MaxRank)
	}
	size := 1
	for d, n := range shape {
		if n <= 0 {
			return Layout{}, fail(eSize, "", "dimension %d has size %d; sizes must be positive", d, n)
		}
		var ok bool
		if size, ok = times(size, n); !ok {
			return Layout{}, tooLarge(shape)
		}
	}
	ints, digits := make([]int, 2*len(shape)), make([]Digit, 0, len(spatial)+len(local))
	d := &data{shape: ints[:len(shape):len(shape)], row: ints[len(shape):]}
	copy(d.shape, shape)
	d.spatial = merge(digits, spatial)
	d.local = merge(digits[len(d.spatial):len(d.spatial)], local)
	var ok1, ok2 bool
	d.threads, ok1 = extent(d.spatial)
	d.slots, ok2 = extent(d.local)
	if _, ok := times(d.threads, d.slots); !ok || !ok1 || !ok2 {
		return Layout{}, tooLarge(shape)
	}
	rowMajor(d.row, shape)
	return Layout{d: d}, nil
}

func tooLarge(shape []int) error {
	return fail(eSize, "use smaller sizes", "the layout of shape %s has more than %d cells (threads times slots)", list(shape), MaxCells)
}

// merge writes digits to an empty list with room for them, drops those of size 1 and joins
// neighbours that count on in the same dimension, or are both replicas. One sweep is enough: joining does not change
// size*stride, which is all that the digit to the left is compared with.
func merge(out, in []Digit) []Digit {
	for _, g := range in {
		if g.Size == 1 {
			continue
		}
		if n := len(out); n > 0 {
			if p := &out[n-1]; p.Dim == g.Dim && p.Stride == g.Size*g.Stride {
				if size, ok := times(p.Size, g.Size); ok {
					p.Size, p.Stride = size, g.Stride
					continue
				}
			}
		}
		out = append(out, g)
	}
	return out[:len(out):len(out)]
}

// times multiplies positive numbers; false when the result exceeds MaxCells.
func times(a, b int) (int, bool) {
	if a > MaxCells || b > MaxCells || a > MaxCells/b {
		return MaxCells, false
	}
	return a * b, true
}

// extent is the number that the digits count to.
func extent(digits []Digit) (int, bool) {
	n, ok := 1, true
	for _, g := range digits {
		if n, ok = times(n, g.Size); !ok {
			return n, false
		}
	}
	return n, true
}

// rowMajor writes the strides of row-major order.
func rowMajor(row, shape []int) {
	n := 1
	for d := len(shape) - 1; d >= 0; d-- {
		row[d] = n
		n *= shape[d]
	}
}

// must is for Go constructors, whose arguments are the caller's own constants.
func must(l Layout, err error) Layout {
	if err != nil {
		panic(fmt.Errorf("layout: %w", err))
	}
	return l
}

// Shape is the shape of the tile.
func (l Layout) Shape() []int { return append(make([]int, 0, someDims), l.rep().shape...) }

// someDims is the room of a list of as many dimensions as most tiles have: where a caller keeps it no longer
// than its own variables, it lies among them.
const someDims = 6

// Rank is the number of dimensions of the tile.
func (l Layout) Rank() int { return len(l.rep().shape) }

// Threads is the number of threads, replicas included.
func (l Layout) Threads() int { return l.rep().threads }

// Slots is the number of elements that each thread holds.
func (l Layout) Slots() int { return l.rep().slots }

// Size is the number of elements of the tile.
func (l Layout) Size() int {
	n := 1
	for _, s := range l.rep().shape {
		n *= s
	}
	return n
}

// Replicas is the number of threads that hold each element.
func (l Layout) Replicas() int { return l.Threads() * l.Slots() / l.Size() }

// Digits returns the digits of the thread number and of the slot number,
// slowest first, with what each adds to the index. It is all that address
// arithmetic needs: index[Dim] is the sum of digit*Stride over both lists.
func (l Layout) Digits() (spatial, local []Digit) {
	d := l.rep()
	return slices.Clone(d.spatial), slices.Clone(d.local)
}

// modes numbers the modes dimension by dimension, outermost first.
func (l Layout) modes() (sizes, spatial, local []int) {
	type ref struct {
		Digit
		at *int
	}
	d := l.rep()
	spatial, local = make([]int, len(d.spatial)), make([]int, len(d.local))
	var refs []ref
	for i, g := range d.spatial {
		if g.Dim < 0 {
			spatial[i] = -g.Size
			continue
		}
		refs = append(refs, ref{g, &spatial[i]})
	}
	for i, g := range d.local {
		refs = append(refs, ref{g, &local[i]})
	}
	slices.SortFunc(refs, func(a, b ref) int {
		if a.Dim != b.Dim {
			return a.Dim - b.Dim
		}
		return b.Stride - a.Stride
	})
	sizes = make([]int, len(refs))
	for i, r := range refs {
		sizes[i], *r.at = r.Size, i
	}
	return sizes, spatial, local
}

// ModeShape lists the sizes of the modes: every dimension factored, outermost
// first, dimension by dimension. Dimensions of size 1 have no mode.
func (l Layout) ModeShape() []int { m, _, _ := l.modes(); return m }

// SpatialModes lists the digits of the thread number, slowest first: a mode
// number, or -r for a replica digit of size r.
func (l Layout) SpatialModes() []int { _, s, _ := l.modes(); return s }

// LocalModes lists the modes that are digits of the slot number, slowest first.
func (l Layout) LocalModes() []int { _, _, x := l.modes(); return x }

// Equal reports whether both layouts are the same map of the same shape.
func (l Layout) Equal(g Layout) bool {
	a, b := l.rep(), g.rep()
	return a == b || slices.Equal(a.shape, b.shape) && slices.Equal(a.spatial, b.spatial) && slices.Equal(a.local, b.local)
}

// Key is a short string that is equal for equal layouts only: the key to use in
// a Go map or a cache.
func (l Layout) Key() string {
	d := l.rep()
	if key := d.key.Load(); key != nil {
		return *key
	}
	m, s, x := l.modes()
	key := list(d.shape) + list(m) + list(s) + list(x)
	d.key.Store(&key)
	return key
}

// Index is the index of the element in a slot of a thread, [Rank] numbers. It
// panics, as a slice does, when thread or slot is out of range.
func (l Layout) Index(thread, slot int) []int {
	d := l.rep()
	d.check(thread, slot)
	index := make([]int, len(d.shape))
	d.add(index, d.spatial, thread)
	d.add(index, d.local, slot)
	return index
}

func (d *data) check(thread, slot int) {
	if thread < 0 || thread >= d.threads || slot < 0 || slot >= d.slots {
		panic(fmt.Errorf("layout: thread %d slot %d out of range: there are %d threads with %d slots", thread, slot, d.threads, d.slots))
	}
}

func (d *data) add(index []int, digits []Digit, n int) {
	for i := len(digits) - 1; i >= 0; i-- {
		g := digits[i]
		if g.Dim >= 0 {
			index[g.Dim] += n % g.Size * g.Stride
		}
		n /= g.Size
	}
}

// FlatIndex is the row-major number of the element in a slot of a thread.
func (l Layout) FlatIndex(thread, slot int) int {
	d := l.rep()
	d.check(thread, slot)
	return d.flat(d.spatial, thread) + d.flat(d.local, slot)
}

func (d *data) flat(digits []Digit, n int) int {
	at := 0
	for i := len(digits) - 1; i >= 0; i-- {
		g := digits[i]
		if g.Dim >= 0 {
			at += n % g.Size * g.Stride * d.row[g.Dim]
		}
		n /= g.Size
	}
	return at
}

// Flat is the whole map, [Threads * Slots]: element thread*Slots()+slot is the
// row-major number of the element held there.
func (l Layout) Flat() []int32 {
	threads, slots := l.Parts()
	out := make([]int32, 0, len(threads)*len(slots))
	for _, base := range threads {
		for _, s := range slots {
			out = append(out, base+s)
		}
	}
	return out
}

// Parts are what threads and slots have in the row-major number of an element: that in a
// slot of a thread is the sum of both. They are shared and must not be changed.
func (l Layout) Parts() (threads, slots []int32) {
	d := l.rep()
	if p := d.parts.Load(); p != nil {
		return p.threads, p.slots
	}
	p := &parts{d.offsets(d.spatial, d.threads), d.offsets(d.local, d.slots)}
	if d.threads+d.slots <= maxKept {
		d.parts.Store(p)
	}
	return p.threads, p.slots
}

// offsets is flat of the numbers below n.
func (d *data) offsets(digits []Digit, n int) []int32 {
	out := make([]int32, n)
	have := 1
	for _, g := range digits { // each number so far becomes Size numbers, from the last on
		step := int32(0)
		if g.Dim >= 0 {
			step = int32(g.Stride * d.row[g.Dim])
		}
		for i := have - 1; i >= 0; i-- {
			base := out[i]
			for k := g.Size - 1; k >= 0; k-- {
				out[i*g.Size+k] = base + int32(k)*step
			}
		}
		have *= g.Size
	}
	return out
}

// Holders lists every place that holds an element, by thread number; there are
// several when the layout has replicas, and none when index lies outside the
// tile. It panics when index does not have Rank() numbers.
func (l Layout) Holders(index ...int) []Holder {
	d := l.rep()
	slot := l.Slot(index...)
	if slot < 0 {
		return nil
	}
	threads := []int{0}
	for _, g := range d.spatial {
		if g.Dim >= 0 {
			v := index[g.Dim] / g.Stride % g.Size
			for i := range threads {
				threads[i] = threads[i]*g.Size + v
			}
			continue
		}
		next := make([]int, 0, len(threads)*g.Size)
		for _, t := range threads {
			for r := range g.Size {
				next = append(next, t*g.Size+r)
			}
		}
		threads = next
	}
	out := make([]Holder, len(threads))
	for i, t := range threads {
		out[i] = Holder{Thread: t, Slot: slot}
	}
	return out
}

// Slot is the slot in which the threads that hold an element hold it, or -1 when
// index lies outside the tile. It panics when index does not have Rank() numbers.
func (l Layout) Slot(index ...int) int {
	d := l.rep()
	if len(index) != len(d.shape) {
		panic(fmt.Errorf("layout: index %s has %d numbers; the layout has rank %d", list(index), len(index), len(d.shape)))
	}
	for i, v := range index {
		if v < 0 || v >= d.shape[i] {
			return -1
		}
	}
	slot := 0
	for _, g := range d.local {
		slot = slot*g.Size + index[g.Dim]/g.Stride%g.Size
	}
	return slot
}

// list prints numbers as "[1, 2]".
func list(ns []int) string {
	var room [64]byte
	return string(append(appendJoined(append(room[:0], '['), ns), ']'))
}

func join(ns []int) string {
	var room [64]byte
	return string(appendJoined(room[:0], ns))
}

// appendJoined appends numbers with commas between them.
func appendJoined(b []byte, ns []int) []byte {
	for i, n := range ns {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return b
}
