package dtype

import "math"

// Sqrt is the square root of a float, rounded once; NaN below 0.
func Sqrt(t Type, a uint64) uint64 {
	x := t.Decode(a)
	r := math.Sqrt(x)
	if t == F64 || r == 0 || r != r || math.IsInf(r, 0) {
		return t.round(r)
	}
	return t.round(toOdd(r, math.FMA(-r, r, x)))
}

// RoundEven, Floor, Ceil and Trunc are a float rounded to a whole number.
func RoundEven(t Type, a uint64) uint64 { return t.whole(a, math.RoundToEven) }

// Floor rounds down.
func Floor(t Type, a uint64) uint64 { return t.whole(a, math.Floor) }

// Ceil rounds up.
func Ceil(t Type, a uint64) uint64 { return t.whole(a, math.Ceil) }

// Trunc rounds toward zero.
func Trunc(t Type, a uint64) uint64 { return t.whole(a, math.Trunc) }

func (t Type) whole(a uint64, f func(float64) float64) uint64 { return t.round(f(t.Decode(a))) }

// And, Or, Xor and Not work on the bits of a code; for bool on truth.
func And(t Type, a, b uint64) uint64 { return t.bits(a) & t.bits(b) }

// Or is the union of the bits.
func Or(t Type, a, b uint64) uint64 { return t.bits(a) | t.bits(b) }

// Xor is the difference of the bits.
func Xor(t Type, a, b uint64) uint64 { return t.bits(a) ^ t.bits(b) }

// Not is the complement of the bits.
func Not(t Type, a uint64) uint64 {
	if t == Bool {
		return t.bits(a) ^ 1
	}
	return ^a & t.Mask()
}

func (t Type) bits(a uint64) uint64 {
	if t == Bool {
		return uint64(t.DecodeInt(a))
	}
	return a & t.Mask()
}

// Shl is a shifted left by the number that the bits of b are, unsigned; 0 from
// the width of the type on.
func Shl(t Type, a, b uint64) uint64 {
	if b &= t.Mask(); b >= uint64(t.Bits()) {
		return 0
	}
	return a << b & t.Mask()
}

// Shr is a shifted right, as [Shl]; the sign of a signed integer enters at the
// top, and is all that is left from the width of the type on.
func Shr(t Type, a, b uint64) uint64 {
	b = min(b&t.Mask(), uint64(t.Bits()))
	if t.Kind() == Int {
		return uint64(t.DecodeInt(a)>>b) & t.Mask()
	}
	return a & t.Mask() >> b
}
