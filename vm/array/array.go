// Package array holds tensors of any element type on the host: the inputs and
// outputs of programs, and what tests compare. It reads and writes .npy files,
// generates test data from short texts, and does the few computations that a
// reference needs ([MatMulF64], [QuantizeGroups], [RelFro]).
//
// An array is row-major and packed: element k occupies bits [k·n, (k+1)·n) of
// Data for an n-bit type, least significant bit first. i6[64, 32] is 1536 bytes
// and nothing else, on disk and on the GPU as here.
//
// Text from users ([Generate], [Load], [ReadNPY]) gives numbered, located
// errors, Array.N1 to Array.N9. The other functions take their arguments from
// Go code; shapes that do not fit there are mistakes of the caller and panic
// with a message that says what would fit.
package array

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Limits of one array.
const (
	MaxRank  = 32
	MaxBytes = 1 << 31
)

// Array is a host tensor. Shape may be empty: a scalar of one element. Data
// holds dtype.PackedBytes(Type.Bits(), Len()) bytes; the bits behind the last
// element are zero.
type Array struct {
	Type  dtype.Type
	Shape []int
	Data  []byte
}

// CheckShape says why there is no array of this type and shape, or nil. The
// error is a [diag.List] with code Array.N4.
func CheckShape(t dtype.Type, shape ...int) error {
	var l diag.List
	bad := func(help, format string, args ...any) error {
		l.Addf(diag.Pos{}, codeShape, help, format, args...)
		return l.Err()
	}
	if !t.Valid() {
		return bad("", "an array needs an element type")
	}
	if len(shape) > MaxRank {
		return bad("", "an array has at most %d dimensions, not %d", MaxRank, len(shape))
	}
	n := 1
	for _, d := range shape {
		if d < 0 {
			return bad("sizes count elements from 0", "dimension %d of %s is negative", d, shapeText(shape))
		}
		if d > 0 && n > 8*MaxBytes/d {
			return bad(fmt.Sprintf("the limit is %d bytes", MaxBytes), "%s%s is too large", t, shapeText(shape))
		}
		n *= d
	}
	if n > 8*MaxBytes/t.Bits() {
		return bad(fmt.Sprintf("the limit is %d bytes", MaxBytes), "%s%s is too large", t, shapeText(shape))
	}
	return nil
}

// New is an array whose codes are all 0.
func New(t dtype.Type, shape ...int) *Array {
	if err := CheckShape(t, shape...); err != nil {
		panic(err.Error())
	}
	a := &Array{Type: t, Shape: slices.Clone(shape)}
	a.Data = make([]byte, dtype.PackedBytes(t.Bits(), a.Len()))
	return a
}

// FromFloats encodes values in row-major order as [Array.Set] does. A nil shape
// means one dimension.
func FromFloats(t dtype.Type, shape []int, values []float64) *Array {
	a := newFor(t, shape, len(values))
	sat := t.Saturates()
	for k, v := range values {
		a.SetCode(k, t.Encode(v, sat))
	}
	return a
}

// FromCodes takes codes in row-major order; bits above the width are dropped. A
// nil shape means one dimension.
func FromCodes(t dtype.Type, shape []int, codes []uint64) *Array {
	a := newFor(t, shape, len(codes))
	for k, c := range codes {
		a.SetCode(k, c)
	}
	return a
}

// FromBytes takes packed data, which it copies; it must have the exact length.
func FromBytes(t dtype.Type, shape []int, data []byte) *Array {
	a := New(t, shape...)
	if len(data) != len(a.Data) {
		panic(fmt.Sprintf("array: %s takes %d bytes, got %d", a.Header(), len(a.Data), len(data)))
	}
	copy(a.Data, data)
	a.clearTail()
	return a
}

func newFor(t dtype.Type, shape []int, n int) *Array {
	if shape == nil {
		shape = []int{n}
	}
	a := New(t, shape...)
	if a.Len() != n {
		panic(fmt.Sprintf("array: %s has %d elements, got %d values", a.Header(), a.Len(), n))
	}
	return a
}

// clearTail zeroes the bits behind the last element.
func (a *Array) clearTail() {
	if used := a.Len() * a.Type.Bits() % 8; used != 0 {
		a.Data[len(a.Data)-1] &= 1<<used - 1
	}
}

// Len is the number of elements.
func (a *Array) Len() int {
	n := 1
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// Header is type and shape as program text writes them: "i6[64, 32]".
func (a *Array) Header() string { return a.Type.String() + shapeText(a.Shape) }

func shapeText(shape []int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range shape {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(d))
	}
	b.WriteByte(']')
	return b.String()
}

// Code is the code of element k in row-major order.
func (a *Array) Code(k int) uint64 {
	a.checkIndex(k)
	return dtype.Get(a.Data, a.Type.Bits(), k)
}

// SetCode stores a code as element k in row-major order.
func (a *Array) SetCode(k int, code uint64) {
	a.checkIndex(k)
	dtype.Put(a.Data, a.Type.Bits(), k, code)
}

// checkIndex keeps k from reaching the padding bits, which Get would allow.
func (a *Array) checkIndex(k int) {
	if n := a.Len(); k < 0 || k >= n {
		panic(fmt.Sprintf("array: element %d of %s, which has %d", k, a.Header(), n))
	}
}

// Codes are all codes in row-major order.
func (a *Array) Codes() []uint64 { return dtype.Unpack(a.Type.Bits(), a.Data, a.Len()) }

// Offset is the row-major number of an element.
func (a *Array) Offset(index ...int) int {
	if len(index) != len(a.Shape) {
		panic(fmt.Sprintf("array: index %s into %s needs %d numbers", shapeText(index), a.Header(), len(a.Shape)))
	}
	k := 0
	for i, x := range index {
		if x < 0 || x >= a.Shape[i] {
			panic(fmt.Sprintf("array: index %s is outside %s", shapeText(index), a.Header()))
		}
		k = k*a.Shape[i] + x
	}
	return k
}

// At is the value of one element.
func (a *Array) At(index ...int) float64 {
	return a.Type.Decode(dtype.Get(a.Data, a.Type.Bits(), a.Offset(index...)))
}

// Set stores a value, rounded to nearest even; beyond the range it is what Cast
// makes of it: the nearest limit, or infinity for f16 and wider floats.
func (a *Array) Set(v float64, index ...int) {
	dtype.Put(a.Data, a.Type.Bits(), a.Offset(index...), a.Type.Encode(v, a.Type.Saturates()))
}

// Floats are all values in row-major order.
func (a *Array) Floats() []float64 {
	values := make([]float64, a.Len())
	bits := a.Type.Bits()
	for k := range values {
		values[k] = a.Type.Decode(dtype.Get(a.Data, bits, k))
	}
	return values
}

// Cast is a new array of another type, each element through [dtype.Cast]:
// floats become integers by rounding toward zero.
func (a *Array) Cast(t dtype.Type) *Array {
	b := New(t, a.Shape...)
	from, to := a.Type.Bits(), t.Bits()
	for k := range a.Len() {
		dtype.Put(b.Data, to, k, dtype.Cast(t, a.Type, dtype.Get(a.Data, from, k)))
	}
	return b
}

// Reshape is a view of the same data; writes through one are seen in the other.
// One size may be -1 and is then computed.
func (a *Array) Reshape(shape ...int) *Array {
	shape = slices.Clone(shape)
	if i := slices.Index(shape, -1); i >= 0 {
		rest := 1
		for j, d := range shape {
			if j != i {
				rest *= d
			}
		}
		if rest > 0 && a.Len()%rest == 0 {
			shape[i] = a.Len() / rest
		}
	}
	b := &Array{Type: a.Type, Shape: shape, Data: a.Data}
	if err := CheckShape(a.Type, shape...); err != nil || b.Len() != a.Len() {
		panic(fmt.Sprintf("array: %s has %d elements and cannot become %s", a.Header(), a.Len(), shapeText(shape)))
	}
	return b
}

// View is a new array of the same bytes in row-major order, read as another
// type and shape with as many bits.
func (a *Array) View(t dtype.Type, shape ...int) *Array {
	b := &Array{Type: t, Shape: slices.Clone(shape), Data: a.Data}
	if err := CheckShape(t, shape...); err != nil {
		panic(err.Error())
	}
	if have, want := a.Len()*a.Type.Bits(), b.Len()*t.Bits(); have != want {
		panic(fmt.Sprintf("array: %s has %d bits and %s has %d; they must be equal", a.Header(), have, b.Header(), want))
	}
	return b
}

// Transpose is a new array [N, M] of an array [M, N].
func (a *Array) Transpose() *Array {
	if len(a.Shape) != 2 {
		panic(fmt.Sprintf("array: Transpose needs two dimensions, not %s", a.Header()))
	}
	m, n := a.Shape[0], a.Shape[1]
	b := New(a.Type, n, m)
	bits := a.Type.Bits()
	for i := range m {
		for j := range n {
			dtype.Put(b.Data, bits, j*m+i, dtype.Get(a.Data, bits, i*n+j))
		}
	}
	return b
}

// Clone is a copy that shares nothing.
func (a *Array) Clone() *Array {
	return &Array{Type: a.Type, Shape: slices.Clone(a.Shape), Data: slices.Clone(a.Data)}
}

// Printing as numpy does it: arrays of more than maxPrinted elements show
// edgeItems at both ends of every dimension.
const (
	maxPrinted = 1000
	edgeItems  = 3
	maxLine    = 100
)

// String is the header and the values in nested brackets, with long arrays
// elided in the middle.
func (a *Array) String() string {
	if a == nil {
		return "<nil array>"
	}
	p := printer{a: a, elide: a.Len() > maxPrinted}
	p.walk(0, 0, func(k int) {
		p.width = max(p.width, len(a.Type.Format(a.Code(k))))
	})
	p.b.WriteString(a.Header())
	p.b.WriteByte('\n')
	p.print(0, 0)
	return p.b.String()
}

type printer struct {
	a     *Array
	elide bool
	width int
	b     strings.Builder
}

// shown lists the indices of a dimension that are printed; -1 is the gap.
func (p *printer) shown(d int) []int {
	var list []int
	for i := 0; i < d; i++ {
		if p.elide && d > 2*edgeItems && i == edgeItems {
			list = append(list, -1)
			i = d - edgeItems
		}
		list = append(list, i)
	}
	return list
}

// walk calls f for the number of every printed element.
func (p *printer) walk(dim, base int, f func(k int)) {
	if dim == len(p.a.Shape) {
		f(base)
		return
	}
	for _, i := range p.shown(p.a.Shape[dim]) {
		if i >= 0 {
			p.walk(dim+1, base*p.a.Shape[dim]+i, f)
		}
	}
}

func (p *printer) print(dim, base int) {
	a := p.a
	if dim == len(a.Shape) {
		fmt.Fprintf(&p.b, "%*s", p.width, a.Type.Format(a.Code(base)))
		return
	}
	p.b.WriteByte('[')
	last := dim == len(a.Shape)-1
	indent := strings.Repeat(" ", dim+1)
	at := dim + 1
	for n, i := range p.shown(a.Shape[dim]) {
		if n > 0 {
			switch {
			case !last:
				p.b.WriteString(strings.Repeat("\n", len(a.Shape)-1-dim) + indent)
			case at+1+p.width > maxLine:
				p.b.WriteString("\n" + indent)
				at = dim + 1
			default:
				p.b.WriteByte(' ')
				at++
			}
		}
		if i < 0 {
			p.b.WriteString("...")
			at += 3
			continue
		}
		p.print(dim+1, base*a.Shape[dim]+i)
		at += p.width
	}
	p.b.WriteByte(']')
}
