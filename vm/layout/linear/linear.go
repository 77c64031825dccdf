package linear

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Names of dimensions that Triton uses.
const (
	Register = "register" // elements that one thread holds
	Lane     = "lane"     // threads of a warp
	Warp     = "warp"     // warps of a block
	Block    = "block"    // blocks of a cluster
	Offset   = "offset"   // elements of shared memory
)

// Dim is an input dimension of 2^len(Bases) places. Bases[i] is where place 2^i
// goes: a number for each output dimension.
type Dim struct {
	Name  string
	Bases [][]int
}

// Size is the number of places.
func (d Dim) Size() int { return 1 << len(d.Bases) }

// OutDim is an output dimension, an axis of the tensor.
type OutDim struct {
	Name string
	Size int
}

// Layout is a linear map from places to elements. Treat it as immutable: make one
// with [New], which checks it, or with a function of this package. The zero value
// maps nothing to the one element of a tensor without axes.
type Layout struct {
	In  []Dim
	Out []OutDim
}

// New checks the bases and makes a layout of copies of them.
func New(in []Dim, out []OutDim) (Layout, error) {
	if len(in) > MaxDims || len(out) > MaxDims {
		return Layout{}, fail(eDims, "", "the layout has %d input and %d output dimensions; at most %d are allowed", len(in), len(out), MaxDims)
	}
	var inBits, outBits int
	for i, o := range out {
		if o.Name == "" || slices.ContainsFunc(out[:i], func(p OutDim) bool { return p.Name == o.Name }) {
			return Layout{}, fail(eDims, "", "the output dimension %q is named twice or has no name", o.Name)
		}
		n, ok := log2(o.Size)
		if !ok {
			return Layout{}, fail(eSize, "", "output dimension %s has size %d, which is not a power of two", o.Name, o.Size)
		}
		outBits += n
	}
	l := Layout{In: make([]Dim, len(in)), Out: slices.Clone(out)}
	for i, d := range in {
		if d.Name == "" || slices.ContainsFunc(in[:i], func(p Dim) bool { return p.Name == d.Name }) {
			return Layout{}, fail(eDims, "", "the input dimension %q is named twice or has no name", d.Name)
		}
		inBits += len(d.Bases)
		l.In[i] = Dim{d.Name, make([][]int, len(d.Bases))}
		for k, b := range d.Bases {
			if len(b) != len(out) {
				return Layout{}, fail(eBasis, "", "%s=%d goes to (%s), which has %d numbers; there are %d output dimensions", d.Name, 1<<min(k, 62), join(b), len(b), len(out))
			}
			for j, v := range b {
				if v < 0 || v >= out[j].Size {
					return Layout{}, fail(eBasis, "", "%s=%d goes to (%s), but %s has size %d", d.Name, 1<<min(k, 62), join(b), out[j].Name, out[j].Size)
				}
			}
			l.In[i].Bases[k] = slices.Clone(b)
		}
	}
	if inBits > MaxBits || outBits > MaxBits {
		return Layout{}, fail(eDims, "", "the layout has %d bits of places and %d bits of indices; at most %d are allowed", inBits, outBits, MaxBits)
	}
	return l, nil
}

// must is for layouts that are sums of checked parts.
func must(l Layout, err error) Layout {
	if err != nil {
		panic(fmt.Errorf("linear: %w", err))
	}
	return l
}

// Identity maps place i of the input dimension to index i of the output dimension.
// The size must be a power of two of at most [MaxBits] bits.
func Identity(size int, in, out string) Layout {
	d := Dim{Name: in}
	for v := 1; v < size; v *= 2 {
		d.Bases = append(d.Bases, []int{v})
	}
	return must(New([]Dim{d}, []OutDim{{out, size}}))
}

// Zeros maps all places of the input dimension to index 0 of an output dimension
// of size 1.
func Zeros(size int, in, out string) Layout {
	d := Dim{Name: in}
	for v := 1; v < size; v *= 2 {
		d.Bases = append(d.Bases, []int{0})
	}
	return must(New([]Dim{d}, []OutDim{{out, 1}}))
}

// InBits is the number of bits of a place, over all input dimensions.
func (l Layout) InBits() int {
	n := 0
	for _, d := range l.In {
		n += len(d.Bases)
	}
	return n
}

// OutBits is the number of bits of an index, over all output dimensions.
func (l Layout) OutBits() int {
	n := 0
	for _, o := range l.Out {
		n += width(o.Size)
	}
	return n
}

// InDim finds an input dimension by its name.
func (l Layout) InDim(name string) (Dim, bool) {
	i := slices.IndexFunc(l.In, func(d Dim) bool { return d.Name == name })
	if i < 0 {
		return Dim{}, false
	}
	return l.In[i], true
}

// OutSize is the size of an output dimension, or 0 where there is none.
func (l Layout) OutSize(name string) int {
	if i := l.outIndex(name); i >= 0 {
		return l.Out[i].Size
	}
	return 0
}

func (l Layout) outIndex(name string) int {
	return slices.IndexFunc(l.Out, func(o OutDim) bool { return o.Name == name })
}

// Shape lists the sizes of the output dimensions.
func (l Layout) Shape() []int {
	shape := make([]int, len(l.Out))
	for i, o := range l.Out {
		shape[i] = o.Size
	}
	return shape
}

// Apply is the element at a place: an index for each output dimension, for a
// number in each input dimension, in their order. It panics, as a slice does,
// where a number is out of range.
func (l Layout) Apply(place ...int) []int {
	if len(place) != len(l.In) {
		panic(fmt.Errorf("linear: place (%s) has %d numbers; the layout has %d input dimensions", join(place), len(place), len(l.In)))
	}
	out := make([]int, len(l.Out))
	for i, d := range l.In {
		if place[i] < 0 || place[i] >= d.Size() {
			panic(fmt.Errorf("linear: %s=%d is out of range: there are %d", d.Name, place[i], d.Size()))
		}
		for k, b := range d.Bases {
			if place[i]>>k&1 == 1 {
				for j, v := range b {
					out[j] ^= v
				}
			}
		}
	}
	return out
}

// columns is the matrix as a word for each bit of the place, the first input
// dimension first. In each word the first output dimension has the low bits.
func (l Layout) columns() []uint64 {
	cols := make([]uint64, 0, l.InBits())
	for _, d := range l.In {
		for _, b := range d.Bases {
			cols = append(cols, l.pack(b))
		}
	}
	return cols
}

// pack puts an index into a word.
func (l Layout) pack(index []int) uint64 {
	var w uint64
	at := 0
	for j, v := range index {
		w |= uint64(v) << at
		at += width(l.Out[j].Size)
	}
	return w
}

// unpack cuts a word into indices of these sizes.
func unpack(w uint64, out []OutDim) []int {
	index := make([]int, len(out))
	for j, o := range out {
		n := width(o.Size)
		index[j] = int(w & (1<<n - 1))
		w >>= n
	}
	return index
}

// fromColumns is the layout of a matrix, cut into dimensions of these sizes.
func fromColumns(cols []uint64, in, out []OutDim) (Layout, error) {
	dims := make([]Dim, len(in))
	for i, d := range in {
		n := width(d.Size)
		dims[i].Name = d.Name
		for _, c := range cols[:n] {
			dims[i].Bases = append(dims[i].Bases, unpack(c, out))
		}
		cols = cols[n:]
	}
	return New(dims, out)
}

// sizes lists the input dimensions with their sizes.
func (l Layout) sizes() []OutDim {
	in := make([]OutDim, len(l.In))
	for i, d := range l.In {
		in[i] = OutDim{d.Name, d.Size()}
	}
	return in
}

// Matrix is a matrix of bits. Bits[r][c] says whether bit Columns[c] of the place
// flips bit Rows[r] of the index; labels are such as "lane=4" and "dim0=8".
type Matrix struct {
	Rows    []string
	Columns []string
	Bits    [][]uint8
}

// Matrix is the layout as a matrix over F2: a column for each bit of the place, a
// row for each bit of the index, low bits first.
func (l Layout) Matrix() Matrix {
	var m Matrix
	for _, o := range l.Out {
		for v := 1; v < o.Size; v *= 2 {
			m.Rows = append(m.Rows, o.Name+"="+strconv.Itoa(v))
		}
	}
	for _, d := range l.In {
		for k := range d.Bases {
			m.Columns = append(m.Columns, d.Name+"="+strconv.Itoa(1<<k))
		}
	}
	m.Bits = make([][]uint8, len(m.Rows))
	cols := l.columns()
	for r := range m.Bits {
		m.Bits[r] = make([]uint8, len(cols))
		for c, w := range cols {
			m.Bits[r][c] = uint8(w >> r & 1)
		}
	}
	return m
}

// Equal reports whether both are the same map with the same dimensions in the
// same order.
func (l Layout) Equal(g Layout) bool {
	return slices.Equal(l.Out, g.Out) && slices.EqualFunc(l.In, g.In, func(a, b Dim) bool {
		return a.Name == b.Name && slices.EqualFunc(a.Bases, b.Bases, func(x, y []int) bool { return slices.Equal(x, y) })
	})
}

// SameMap is Equal but for the order of the dimensions, and for input dimensions
// of size 1.
func (l Layout) SameMap(g Layout) bool { return l.sorted().Equal(g.sorted()) }

func (l Layout) sorted() Layout {
	order := make([]int, len(l.Out))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(l.Out[a].Name, l.Out[b].Name) })
	var s Layout
	for _, i := range order {
		s.Out = append(s.Out, l.Out[i])
	}
	for _, d := range l.In {
		if len(d.Bases) == 0 {
			continue
		}
		e := Dim{Name: d.Name}
		for _, b := range d.Bases {
			c := make([]int, len(b))
			for k, i := range order {
				c[k] = b[i]
			}
			e.Bases = append(e.Bases, c)
		}
		s.In = append(s.In, e)
	}
	slices.SortFunc(s.In, func(a, b Dim) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// width is the number of bits of a number below size, a power of two.
func width(size int) int { return bits.TrailingZeros(uint(size)) }

func log2(n int) (int, bool) {
	if n <= 0 || n&(n-1) != 0 {
		return 0, false
	}
	return width(n), true
}

func join(ns []int) string {
	parts := make([]string, len(ns))
	for i, n := range ns {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ", ")
}
