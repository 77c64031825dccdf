package hlo

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Type is the type of elements.
type Type uint8

// The types. Complex numbers can be moved and indexed but not computed with.
const (
	InvalidType Type = iota
	Pred
	S4
	S8
	S16
	S32
	S64
	U4
	U8
	U16
	U32
	U64
	F8E4M3FN
	F8E5M2
	F16
	BF16
	F32
	F64
	C64
	C128
	TupleType
	TokenType
)

// typeRow is what the table says about one type.
type typeRow struct {
	name string
	bits int
	elem dtype.Type // 0 where there is none
}

var typeRows = [...]typeRow{
	InvalidType: {"invalid", 0, 0},
	Pred:        {"pred", 8, dtype.Bool},
	S4:          {"s4", 4, dtype.I4}, S8: {"s8", 8, dtype.I8}, S16: {"s16", 16, dtype.I16}, S32: {"s32", 32, dtype.I32}, S64: {"s64", 64, dtype.I64},
	U4: {"u4", 4, dtype.U4}, U8: {"u8", 8, dtype.U8}, U16: {"u16", 16, dtype.U16}, U32: {"u32", 32, dtype.U32}, U64: {"u64", 64, dtype.U64},
	F8E4M3FN: {"f8e4m3fn", 8, dtype.F8E4M3}, F8E5M2: {"f8e5m2", 8, dtype.F8E5M2},
	F16: {"f16", 16, dtype.F16}, BF16: {"bf16", 16, dtype.BF16}, F32: {"f32", 32, dtype.F32}, F64: {"f64", 64, dtype.F64},
	C64: {"c64", 64, 0}, C128: {"c128", 128, 0},
	TupleType: {"tuple", 0, 0}, TokenType: {"token", 0, 0},
}

// Types lists the types of arrays.
func Types() []Type {
	var all []Type
	for t := Pred; t <= C128; t++ {
		all = append(all, t)
	}
	return all
}

// ParseType finds a type of arrays by its name.
func ParseType(name string) (Type, bool) {
	for t := Pred; t <= C128; t++ {
		if typeRows[t].name == name {
			return t, true
		}
	}
	return InvalidType, false
}

func (t Type) String() string { return typeRows[t].name }

// Bits is the width of an element in memory, 8 for pred.
func (t Type) Bits() int { return typeRows[t].bits }

// Elem is the element type of vm/dtype that defines the arithmetic; 0 for
// complex numbers, tuples and tokens.
func (t Type) Elem() dtype.Type { return typeRows[t].elem }

// IsFloat says whether elements are real floating-point numbers.
func (t Type) IsFloat() bool { return t >= F8E4M3FN && t <= F64 }

// IsInt says whether elements are whole numbers; pred is not.
func (t Type) IsInt() bool { return t >= S4 && t <= U64 }

// Signed says whether elements are signed whole numbers.
func (t Type) Signed() bool { return t >= S4 && t <= S64 }

// TypeOf is the type whose elements are of that element type.
func TypeOf(t dtype.Type) (Type, bool) {
	for k := Pred; k <= F64; k++ {
		if typeRows[k].elem == t {
			return k, true
		}
	}
	return InvalidType, false
}

// Shape is the type, sizes and layout of a value. Layout lists the dimensions
// from the one that changes fastest in memory to the slowest; nil is row-major,
// the last dimension fastest. A tuple has Type [TupleType] and Elems.
type Shape struct {
	Type   Type
	Dims   []int
	Layout []int
	Elems  []Shape
}

// Array is the row-major shape of an array.
func Array(t Type, dims ...int) Shape { return Shape{Type: t, Dims: slices.Clone(dims)} }

// TupleOf is the shape of a tuple.
func TupleOf(elems ...Shape) Shape { return Shape{Type: TupleType, Elems: elems} }

// IsTuple says whether the value is a tuple.
func (s Shape) IsTuple() bool { return s.Type == TupleType }

// Rank is the number of dimensions.
func (s Shape) Rank() int { return len(s.Dims) }

// Elements is the number of elements; shapes that Verify accepts have less than 2^50.
func (s Shape) Elements() int {
	n := 1
	for _, d := range s.Dims {
		n *= d
	}
	return n
}

// Bytes is what the elements take in memory, packed.
func (s Shape) Bytes() int {
	if s.IsTuple() {
		n := 0
		for _, e := range s.Elems {
			n += e.Bytes()
		}
		return n
	}
	return (s.Elements()*s.Type.Bits() + 7) / 8
}

// MinorToMajor is the layout in full.
func (s Shape) MinorToMajor() []int {
	if s.Layout != nil {
		return s.Layout
	}
	m := make([]int, len(s.Dims))
	for i := range m {
		m[i] = len(m) - 1 - i
	}
	return m
}

// RowMajor says whether the last dimension is the fastest, and so on.
func (s Shape) RowMajor() bool {
	for i, d := range s.Layout {
		if d != len(s.Layout)-1-i {
			return false
		}
	}
	return true
}

// Physical is the shape in memory: row-major, dimensions from slowest to fastest.
func (s Shape) Physical() Shape {
	m := s.MinorToMajor()
	out := Shape{Type: s.Type, Dims: make([]int, len(m))}
	for i := range m {
		out.Dims[i] = s.Dims[m[len(m)-1-i]]
	}
	return out
}

// Strides are the distances in elements between neighbours along each dimension.
func (s Shape) Strides() []int {
	out := make([]int, len(s.Dims))
	n := 1
	for _, d := range s.MinorToMajor() {
		out[d] = n
		n *= s.Dims[d]
	}
	return out
}

// Outputs are the shapes of the elements of a tuple, or the shape alone.
func (s Shape) Outputs() []Shape {
	if s.IsTuple() {
		return s.Elems
	}
	return []Shape{s}
}

// Same says whether types and sizes agree; layouts may differ.
func (s Shape) Same(o Shape) bool {
	return s.Type == o.Type && slices.Equal(s.Dims, o.Dims) && slices.EqualFunc(s.Elems, o.Elems, Shape.Same)
}

// Equal says whether types, sizes and layouts agree.
func (s Shape) Equal(o Shape) bool {
	return s.Same(o) && slices.Equal(s.MinorToMajor(), o.MinorToMajor()) && slices.EqualFunc(s.Elems, o.Elems, Shape.Equal)
}

// String is the shape as XLA writes it, f32[8,128]{0,1}; a row-major layout is
// left out.
func (s Shape) String() string {
	var b strings.Builder
	s.write(&b)
	return b.String()
}

func (s Shape) write(b *strings.Builder) {
	switch s.Type {
	case TupleType:
		b.WriteByte('(')
		for i, e := range s.Elems {
			if i > 0 {
				b.WriteString(", ")
			}
			e.write(b)
		}
		b.WriteByte(')')
		return
	case TokenType:
		b.WriteString("token[]")
		return
	}
	b.WriteString(s.Type.String())
	b.WriteByte('[')
	b.WriteString(commas(s.Dims))
	b.WriteByte(']')
	if !s.RowMajor() {
		b.WriteString("{" + commas(s.Layout) + "}")
	}
}

func commas(v []int) string { return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ",") }

// checkSize says why an array of the shape is too large, or "".
func (s Shape) checkSize() string {
	if len(s.Dims) > MaxRank {
		return fmt.Sprintf("%d dimensions, at most %d", len(s.Dims), MaxRank)
	}
	n, zero := int64(1), false
	for _, d := range s.Dims {
		zero = zero || d == 0
		if d > 0 && n > math.MaxInt64/int64(d) {
			return "more elements than fit 64 bits"
		}
		if d > 0 {
			n *= int64(d)
		}
	}
	if n > MaxBytes*8/int64(max(s.Type.Bits(), 1)) {
		return fmt.Sprintf("more than %d TiB", MaxBytes>>40)
	}
	return ""
}
