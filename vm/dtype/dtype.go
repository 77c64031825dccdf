// Package dtype is the table of element types and the one definition of what
// their bits mean: decode, encode, cast, arithmetic, packing. The interpreter
// calls it, the simulator calls it, and the GPU lowering is tested against it,
// so a question such as "what is 1.5 in f4e2m1 plus infinity" has one answer.
//
// A value of a type is held as its code: the bits of the element in the low
// bits of a uint64. [Type.Decode] turns a code into a float64, [Type.Encode]
// a float64 into the nearest code.
//
// # Names
//
// Integers are u1..u8 i1..i8 i16 i32 i64 u16 u32 u64, truth is bool, floats are
// f16 bf16 tf32 f32 f64 and f<bits>e<exponent>m<mantissa> for every split of 3
// to 8 bits with a sign and at least one exponent bit. f8e8m0 is the scale type
// of the microscaling formats. bool takes 8 bits in storage; u1 is the packed
// bit. tf32 takes 32 bits, of which the low 13 are ignored on decode and zero
// after encode.
//
// # Special values and overflow
//
// The overflow result is what a value beyond the range becomes when it is
// encoded without saturation.
//
//	types                           infinity  NaN        overflow result
//	f16 bf16 tf32 f32 f64 f8e5m2    yes       yes        infinity
//	f8e4m3                          no        0x7f 0xff  NaN 0x7f
//	f8e8m0                          no        0xff       NaN 0xff (also for values below zero)
//	every other float of ≤ 8 bits   no        no         largest finite value, with the sign
//	integers                        no        no         the low bits (modulo 2^bits)
//
// Only f8e4m3 and f8e5m2 reserve codes among the 8-bit floats with sign,
// because only they have a standard that does. A NaN that is made here is the
// positive one with all exponent and mantissa bits set, as NVIDIA's f16 and f32
// units make it; for f64 it is 0x7ff8000000000000, where a GPU keeps an operand's
// payload and makes 0xfff8000000000000 of numbers (gpu/probe has the rule), so the
// code of an f64 NaN is not comparable: vm/array.Compare takes all of them as equal.
//
// # Casts
//
// [Cast] takes the exact value of the source and rounds it once:
//
//	to                          rounding            beyond the range    NaN becomes
//	f16 bf16 tf32 f32 f64       nearest, ties even  infinity            NaN
//	f8e4m3 f8e5m2 f8e8m0        nearest, ties even  nearest finite      NaN
//	other floats of ≤ 8 bits    nearest, ties even  nearest finite      +largest
//	integers                    toward zero         nearest limit       0
//	bool                        v ≠ 0               -                   1
//
// So f8 targets behave as PTX cvt.rn.satfinite, wide floats as cvt.rn, integers
// as cvt.rzi from floats and cvt.sat from integers. NaN to integer is 0 for all
// widths; a lowering must repair the 64-bit conversions of the hardware, which
// return 2^63. A cast to the same type keeps the code, NaN payload included.
// In f8e8m0, which has neither zero nor sign, zero and values below zero become
// 2^-127, and a tie goes to the even code.
//
// # Arithmetic
//
// [Add], [Sub], [Mul], [Div] and [Fma] on floats compute the exact result and
// round it once, with the range rule of Cast. Integers wrap modulo 2^bits.
//
// # Packing
//
// Element k of an n-bit array occupies bits [k·n, (k+1)·n) of the byte string,
// least significant bit first, across byte borders ([Get], [Put]).
package dtype

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Type names an element type. The zero value is not a type.
type Type uint8

// Kind says how the bits of a type are read.
type Kind uint8

// The kinds.
const (
	Uint Kind = iota + 1
	Int
	Float
	BoolKind
)

// String is the kind as an English noun.
func (k Kind) String() string {
	switch k {
	case Uint:
		return "unsigned integer"
	case Int:
		return "integer"
	case Float:
		return "float"
	case BoolKind:
		return "bool"
	}
	return "invalid"
}

// Special says which codes of a float are not finite numbers.
type Special uint8

// The special-value rules.
const (
	Finite Special = iota // every code is a finite number
	IEEE                  // the all-ones exponent is infinity (mantissa 0) or NaN
	FN                    // all exponent and mantissa bits set is NaN; no infinity
	Scale                 // no sign, no zero, all ones is NaN
)

// Row is what the table says about one type. Bits is the storage width, Exp and
// Man count stored exponent and mantissa bits, PTX and C are the names of the
// type there ("" where there is none), Source is the document that defines it.
type Row struct {
	Name    string
	Kind    Kind
	Bits    int
	Exp     int
	Man     int
	Bias    int
	Special Special
	PTX     string
	C       string
	Source  string
}

// All lists the types in table order.
func All() []Type {
	ts := make([]Type, 0, len(table)-1)
	for t := invalid + 1; int(t) < len(table); t++ {
		ts = append(ts, t)
	}
	return ts
}

// Names lists the names of all types in table order.
func Names() []string {
	var names []string
	for _, t := range All() {
		names = append(names, t.Row().Name)
	}
	return names
}

const (
	codeName = "Type.N1"
	names    = "u1..u8 i1..i8 i16..i64 u16..u64 bool f16 bf16 tf32 f32 f64 and f3..f8 with a split, such as f6e3m2"
)

// Rules are the numbered rules of element types.
var Rules = []diag.Rule{
	{Code: codeName, Text: "Element types are called " + names + ".", Why: "The bits of a float add up: one sign bit, at least one exponent bit, and the mantissa."},
}

// Parse finds a type by name. The error is a [diag.List] without position, code
// Type.N1, with help where a near name or the reason is known.
func Parse(name string) (Type, error) {
	for t := invalid + 1; int(t) < len(table); t++ {
		if table[t].Name == name {
			return t, nil
		}
	}
	help := diag.DidYouMean(name, Names())
	if bits, exp, man, ok := splitFloat(name); ok {
		switch {
		case exp < 1:
			help = "a float has at least one exponent bit"
		case 1+exp+man != bits:
			help = fmt.Sprintf("a sign, %d exponent and %d mantissa bits make %d bits: f%de%dm%d",
				exp, man, 1+exp+man, 1+exp+man, exp, man)
			if 1+exp+man > 8 || 1+exp+man < 3 {
				help = "floats with a free split have 3 to 8 bits, such as f6e3m2"
			}
		default:
			help = "floats with a free split have 3 to 8 bits, such as f6e3m2"
		}
	}
	if help == "" {
		help = "element types are " + names
	}
	var l diag.List
	l.Addf(diag.Pos{}, codeName, help, "%q is not an element type", name)
	return invalid, l.Err()
}

// splitFloat reads f<bits>e<exp>m<man>.
func splitFloat(name string) (bits, exp, man int, ok bool) {
	rest, found := strings.CutPrefix(name, "f")
	b, rest, foundE := strings.Cut(rest, "e")
	e, m, foundM := strings.Cut(rest, "m")
	if !found || !foundE || !foundM {
		return 0, 0, 0, false
	}
	var nums [3]int
	for i, s := range []string{b, e, m} {
		n, err := strconv.ParseUint(s, 10, 8)
		if err != nil || strconv.FormatUint(n, 10) != s {
			return 0, 0, 0, false
		}
		nums[i] = int(n)
	}
	return nums[0], nums[1], nums[2], true
}

// FromTilusName finds the type behind a name of NVIDIA's Tilus, such as
// float6_e3m2, int6b, uint4b, float16 or boolean; the conformance cases use
// those. Complex and vector types have no counterpart.
func FromTilusName(name string) (Type, bool) {
	switch name {
	case "boolean", "bool": // what a program writes, and what the type calls itself
		return Bool, true
	case "bfloat16":
		return BF16, true
	case "tfloat32":
		return TF32, true
	}
	short := name
	switch {
	case strings.HasPrefix(name, "float"):
		short = "f" + strings.Replace(name[len("float"):], "_", "", 1)
	case strings.HasPrefix(name, "uint"):
		short = "u" + strings.TrimSuffix(name[len("uint"):], "b")
	case strings.HasPrefix(name, "int"):
		short = "i" + strings.TrimSuffix(name[len("int"):], "b")
	default:
		return invalid, false
	}
	t, err := Parse(short)
	return t, err == nil
}

// Valid reports whether t is a type of the table.
func (t Type) Valid() bool { return t != invalid && int(t) < len(table) }

// Row is the table row of t; the row of an invalid type is empty.
func (t Type) Row() Row {
	if !t.Valid() {
		return Row{}
	}
	return table[t]
}

// row is Row without a copy; it must not be changed.
func (t Type) row() *Row {
	if !t.Valid() {
		t = invalid
	}
	return &table[t]
}

// String is the name of t in program text.
func (t Type) String() string {
	if !t.Valid() {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return table[t].Name
}

// Bits is the storage width of one element.
func (t Type) Bits() int { return t.row().Bits }

// Kind says how the bits of t are read.
func (t Type) Kind() Kind { return t.row().Kind }

// IsFloat reports whether t is a float, the scale type included.
func (t Type) IsFloat() bool { return t.Kind() == Float }

// IsInt reports whether t is a signed or unsigned integer; bool is neither.
func (t Type) IsInt() bool { return t.Kind() == Int || t.Kind() == Uint }

// Signed reports whether t has values below zero.
func (t Type) Signed() bool {
	r := t.row()
	return r.Kind == Int || r.Kind == Float && r.Special != Scale
}

// Bytes is the number of bytes that hold one element, and whether the element
// fills them.
func (t Type) Bytes() (n int, whole bool) {
	bits := t.Bits()
	return (bits + 7) / 8, bits%8 == 0
}

// Mask has the low Bits bits set: the codes of t are 0 to Mask.
func (t Type) Mask() uint64 { return lowBits(t.Bits()) }

// Saturates reports whether values beyond the range of t become its nearest
// limit in casts and arithmetic results; the other types overflow to infinity.
// Integer arithmetic wraps all the same.
func (t Type) Saturates() bool {
	r := t.row()
	return r.Kind != Float || r.Bits <= 8
}

// HasInf reports whether t can hold infinity.
func (t Type) HasInf() bool { return t.row().Kind == Float && t.row().Special == IEEE }

// HasNaN reports whether t can hold NaN.
func (t Type) HasNaN() bool { return t.row().Kind == Float && t.row().Special != Finite }

// lowBits is 2^n − 1.
func lowBits(n int) uint64 {
	if n >= 64 {
		return math.MaxUint64
	}
	return 1<<n - 1
}
