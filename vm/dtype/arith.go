package dtype

import "math"

// Cast is the code in type to of the value that code has in type from; it is
// the definition of the Cast instruction. The package comment has the table of
// rounding, range and NaN.
func Cast(to, from Type, code uint64) uint64 {
	if to == from {
		if to == Bool {
			return uint64(from.DecodeInt(code))
		}
		return code & to.Mask()
	}
	src, dst := &table[from], &table[to]
	switch src.Kind {
	case Float:
		v := from.Decode(code)
		if dst.Kind == Int || dst.Kind == Uint {
			return to.encodeWhole(math.Trunc(v), true)
		}
		return to.Encode(v, to.Saturates())
	case Uint:
		u := code & lowBits(src.Bits)
		switch dst.Kind {
		case Int, Uint:
			return min(u, to.MaxCode())
		case Float:
			return to.encodeMagnitude(u, false, to.Saturates())
		}
	}
	return to.EncodeInt(from.DecodeInt(code), to.Saturates())
}

// round is the one rounding that ends float arithmetic; v is exact or rounded
// to odd.
func (t Type) round(v float64) uint64 { return t.Encode(v, t.Saturates()) }

// Add is a + b.
func Add(t Type, a, b uint64) uint64 {
	if t == F32 {
		return codeOf32(f32(a) + f32(b))
	}
	if t.IsFloat() {
		x, y := t.Decode(a), t.Decode(b)
		if t == F64 {
			return t.round(x + y)
		}
		return t.round(addOdd(x, y))
	}
	return t.wrap(t.DecodeInt(a) + t.DecodeInt(b))
}

// Sub is a − b.
func Sub(t Type, a, b uint64) uint64 {
	if t == F32 {
		return codeOf32(f32(a) - f32(b))
	}
	if t.IsFloat() {
		x, y := t.Decode(a), t.Decode(b)
		if t == F64 {
			return t.round(x - y)
		}
		return t.round(addOdd(x, -y))
	}
	return t.wrap(t.DecodeInt(a) - t.DecodeInt(b))
}

// Mul is a · b.
func Mul(t Type, a, b uint64) uint64 {
	if t == F32 {
		return codeOf32(f32(a) * f32(b))
	}
	if t.IsFloat() {
		// Two mantissas of 24 bits make 48: the product is exact below f64.
		return t.round(t.Decode(a) * t.Decode(b))
	}
	return t.wrap(t.DecodeInt(a) * t.DecodeInt(b))
}

// Div is a / b; integers round toward zero. Integer division by zero is an
// error that the caller must report before it calls; here it gives 0.
func Div(t Type, a, b uint64) uint64 {
	switch t.Kind() {
	case Float:
		x, y := t.Decode(a), t.Decode(b)
		if t == F64 {
			return t.round(x / y)
		}
		return t.round(divOdd(x, y))
	case Int:
		x, y := t.DecodeInt(a), t.DecodeInt(b)
		switch y {
		case 0:
			return 0
		case -1:
			return t.wrap(-x)
		}
		return t.wrap(x / y)
	}
	x, y := uint64(t.DecodeInt(a)), uint64(t.DecodeInt(b))
	if y == 0 {
		return 0
	}
	return t.wrap(int64(x / y))
}

// Mod is the remainder of [Div] on integers: it has the sign of a, and
// a = Div(a, b)·b + Mod(a, b). By zero it gives 0, as Div does. On floats it is
// the exact remainder of the quotient rounded toward zero.
func Mod(t Type, a, b uint64) uint64 {
	switch t.Kind() {
	case Float:
		return t.round(math.Mod(t.Decode(a), t.Decode(b)))
	case Int:
		x, y := t.DecodeInt(a), t.DecodeInt(b)
		if y == 0 || y == -1 {
			return 0
		}
		return t.wrap(x % y)
	}
	x, y := uint64(t.DecodeInt(a)), uint64(t.DecodeInt(b))
	if y == 0 {
		return 0
	}
	return t.wrap(int64(x % y))
}

// Fma is a · b + c with one rounding.
func Fma(t Type, a, b, c uint64) uint64 {
	if t == F32 {
		return codeOf32(fma32(f32(a), f32(b), f32(c)))
	}
	if t.IsFloat() {
		x, y, z := t.Decode(a), t.Decode(b), t.Decode(c)
		if t == F64 {
			return t.round(math.FMA(x, y, z))
		}
		// The conversion keeps the compiler from fusing; the product is exact.
		return t.round(addOdd(float64(x*y), z))
	}
	return t.wrap(t.DecodeInt(a)*t.DecodeInt(b) + t.DecodeInt(c))
}

// Min is the smaller of a and b. As in PTX, −0 is below +0, a NaN loses against
// a number, and two NaNs give NaN.
func Min(t Type, a, b uint64) uint64 { return t.pick(a, b, true) }

// Max is the larger of a and b, with the rules of [Min].
func Max(t Type, a, b uint64) uint64 { return t.pick(a, b, false) }

func (t Type) pick(a, b uint64, least bool) uint64 {
	a, b = a&t.Mask(), b&t.Mask()
	switch aNaN, bNaN := t.IsNaN(a), t.IsNaN(b); {
	case aNaN && bNaN:
		return t.NaN()
	case aNaN:
		return b
	case bNaN:
		return a
	case Equal(t, a, b):
		if (a&t.signBit() != 0) == least {
			return a
		}
		return b
	case Less(t, a, b) == least:
		return a
	}
	return b
}

// Neg is −a: the flipped sign of a float (NaN too), modulo 2^bits for integers.
// The scale type has no values below zero and gives its least one.
func Neg(t Type, a uint64) uint64 {
	if t.IsFloat() {
		if t.signBit() == 0 {
			return t.round(-t.Decode(a))
		}
		return a&t.Mask() ^ t.signBit()
	}
	return t.wrap(-t.DecodeInt(a))
}

// Abs is |a|: a float without its sign; the least integer stays as it is.
func Abs(t Type, a uint64) uint64 {
	if t.IsFloat() {
		return a & t.Mask() &^ t.signBit()
	}
	if v := t.DecodeInt(a); t.Signed() && v < 0 {
		return t.wrap(-v)
	}
	return t.wrap(t.DecodeInt(a))
}

// Less reports a < b; a comparison with NaN is false.
func Less(t Type, a, b uint64) bool {
	switch t.Kind() {
	case Float:
		return t.Decode(a) < t.Decode(b)
	case Int:
		return t.DecodeInt(a) < t.DecodeInt(b)
	}
	return uint64(t.DecodeInt(a)) < uint64(t.DecodeInt(b))
}

// Equal reports a = b as values: −0 equals +0, NaN equals nothing.
func Equal(t Type, a, b uint64) bool {
	if t.IsFloat() {
		return t.Decode(a) == t.Decode(b)
	}
	return t.DecodeInt(a) == t.DecodeInt(b)
}

// wrap takes the low bits of v; bool takes v ≠ 0.
func (t Type) wrap(v int64) uint64 { return t.EncodeInt(v, false) }

// addOdd is x + y rounded to f64 so that an inexact result has an odd last bit;
// rounding that to a type of at most 51 bits is the same as rounding the exact
// sum once (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").
// x and y are exact products or values of types below f64, so that nothing here
// overflows or underflows.
func addOdd(x, y float64) float64 {
	s := x + y
	if math.IsInf(s, 0) || s != s {
		return s
	}
	// Knuth's two-sum: s + e is the exact sum.
	t := s - x
	e := (x - (s - t)) + (y - t)
	return toOdd(s, e)
}

// divOdd is x / y rounded to odd, as addOdd.
func divOdd(x, y float64) float64 {
	q := x / y
	if q == 0 || math.IsInf(q, 0) || q != q || math.IsInf(y, 0) {
		return q
	}
	rest := math.FMA(-q, y, x) // exact
	if y < 0 {
		rest = -rest
	}
	return toOdd(q, rest)
}

// toOdd moves the rounded value s to its odd neighbour in the direction of the
// rounding error e, if there is one and s is even.
func toOdd(s, e float64) float64 {
	bits := math.Float64bits(s)
	if e == 0 || bits&1 == 1 {
		return s
	}
	if (e > 0) == (s > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}
