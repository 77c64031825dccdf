package dtype

import (
	"math"
	"strconv"
)

// layout of a float: the low pad bits of the storage are not used (tf32), then
// mantissa, exponent, sign.
func (r *Row) pad() int {
	if r.Special == Scale {
		return 0
	}
	return r.Bits - 1 - r.Exp - r.Man
}

// signBit is the mask of the sign, or 0 for a type without.
func (t Type) signBit() uint64 {
	if !t.Signed() {
		return 0
	}
	return 1 << (t.Bits() - 1)
}

// facts are what coding needs at every element and a row would have to work out.
type facts struct {
	max, over uint64    // Type.MaxCode, and what lies beyond it without saturation, of positive sign
	values    []float64 // what each code of a type of at most 8 bits decodes to
}

var known = func() (all [len(table)]facts) {
	for t := invalid + 1; int(t) < len(table); t++ {
		f, r := &all[t], &table[t]
		f.max = t.maxCode()
		f.over = f.max
		switch {
		case r.Special == IEEE:
			f.over = t.Inf(false)
		case r.Special == FN:
			f.over = t.NaN()
		}
		if r.Bits <= 8 {
			f.values = make([]float64, 1<<r.Bits)
			for code := range f.values {
				f.values[code] = t.decode(uint64(code))
			}
		}
	}
	return all
}()

// Decode is the exact value of a code; bits above the width are ignored. Only
// 64-bit integers of more than 53 significant bits are rounded, to nearest; see
// [Type.DecodeInt] for those.
func (t Type) Decode(code uint64) float64 {
	if v := known[t].values; v != nil {
		return v[code&uint64(len(v)-1)]
	}
	return t.decode(code)
}

// decode is Decode by the rule.
func (t Type) decode(code uint64) float64 {
	switch t {
	case F32:
		return float64(math.Float32frombits(uint32(code)))
	case F64:
		return math.Float64frombits(code)
	}
	r := &table[t]
	switch r.Kind {
	case Int:
		return float64(signExtend(code, r.Bits))
	case Uint:
		return float64(code & lowBits(r.Bits))
	case BoolKind:
		if code&lowBits(r.Bits) != 0 {
			return 1
		}
		return 0
	}
	code &= lowBits(r.Bits)
	if r.Special == Scale {
		if code == 0xff {
			return math.NaN()
		}
		return pow2(int(code) - r.Bias)
	}
	sign := code >> (r.Bits - 1) << 63
	code = code &^ (1 << (r.Bits - 1)) >> r.pad()
	exp, man := int(code>>r.Man), code&lowBits(r.Man)
	switch {
	case r.Special == IEEE && exp == 1<<r.Exp-1:
		if man != 0 {
			return math.NaN()
		}
		return math.Float64frombits(sign | 0x7ff<<52)
	case r.Special == FN && code == lowBits(r.Exp+r.Man):
		return math.NaN()
	case exp == 0:
		return math.Float64frombits(sign | math.Float64bits(float64(man)*pow2(1-r.Bias-r.Man)))
	}
	return math.Float64frombits(sign | uint64(exp-r.Bias+1023)<<52 | man<<(52-r.Man))
}

// pow2 is 2^e for e in the normal range of f64.
func pow2(e int) float64 { return math.Float64frombits(uint64(e+1023) << 52) }

func signExtend(code uint64, bits int) int64 {
	return int64(code<<(64-bits)) >> (64 - bits)
}

// DecodeInt is the exact value of a code of an integer type or bool, and the
// value rounded toward zero (NaN: 0, out of range: the nearest limit) of a
// float. A u64 of 2^63 and more comes back as its 64 bits.
func (t Type) DecodeInt(code uint64) int64 {
	switch r := &table[t]; r.Kind {
	case Int:
		return signExtend(code, r.Bits)
	case Uint:
		return int64(code & lowBits(r.Bits))
	case BoolKind:
		if code&lowBits(r.Bits) != 0 {
			return 1
		}
		return 0
	}
	return int64(Cast(I64, t, code))
}

// Encode is the code nearest to v, ties to even: of floats without mantissa the greater one of two powers of two. Beyond the range it is the
// nearest limit if sat, else the overflow result of the type (see the package
// comment). NaN is the NaN of the type; where there is none it is the largest
// value of a float and 0 of an integer. For bool it is v ≠ 0.
func (t Type) Encode(v float64, sat bool) uint64 {
	r := &table[t]
	if t == F64 {
		switch {
		case v != v:
			return t.NaN()
		case sat && math.IsInf(v, 0):
			return math.Float64bits(math.Copysign(math.MaxFloat64, v))
		}
		return math.Float64bits(v)
	}
	switch r.Kind {
	case BoolKind:
		if v != 0 {
			return 1
		}
		return 0
	case Int, Uint:
		return t.encodeWhole(math.RoundToEven(v), sat)
	}
	if v != v {
		if r.Special == Finite {
			return t.MaxCode()
		}
		return t.NaN()
	}
	if r.Special == Scale {
		return t.encodeScale(v, sat)
	}
	bits := math.Float64bits(v)
	sign := bits >> 63 << (r.Bits - 1)
	max := known[t].max
	over := sign | max
	if !sat {
		over = known[t].over
		if r.Special != FN {
			over |= sign
		}
	}
	if math.IsInf(v, 0) {
		return over
	}
	exp, man := int(bits>>52&0x7ff), bits&lowBits(52)
	if exp == 0 {
		exp = 1
	} else {
		man |= 1 << 52
	}
	// |v| is man·2^(exp−1075). The codes around |v| are multiples of 2^q.
	e := exp - 1023
	if e < 1-r.Bias {
		e = 1 - r.Bias
	}
	q := e - r.Man
	n := shiftRNE(man, q-(exp-1075))
	// n counts from the start of the binade; a carry out of the mantissa moves
	// into the exponent by itself.
	code := (uint64(e+r.Bias-1)<<r.Man + n) << r.pad()
	if code > max {
		return over
	}
	return sign | code
}

// shiftRNE is m / 2^s rounded to nearest, ties to even; s is not negative.
func shiftRNE(m uint64, s int) uint64 {
	if s == 0 {
		return m
	}
	if s > 54 {
		return 0
	}
	n, rest, half := m>>s, m&lowBits(s), uint64(1)<<(s-1)
	if rest > half || rest == half && n&1 == 1 {
		n++
	}
	return n
}

// encodeScale is Encode for f8e8m0; v is not NaN.
func (t Type) encodeScale(v float64, sat bool) uint64 {
	bias := table[t].Bias
	switch {
	case v < 0:
		if sat {
			return 0
		}
		return t.NaN()
	case v <= pow2(-bias):
		return 0
	case v > pow2(254-bias)*1.5: // the tie itself goes to the even code 254
		if sat {
			return 254
		}
		return t.NaN()
	}
	frac, exp := math.Frexp(v) // v = frac·2^exp, frac in [0.5, 1)
	code := uint64(exp - 1 + bias)
	if frac > 0.75 || frac == 0.75 && code&1 == 1 {
		code++
	}
	return code
}

// encodeWhole encodes a whole number, an infinity or NaN in an integer type.
func (t Type) encodeWhole(v float64, sat bool) uint64 {
	r := &table[t]
	lo, span := 0.0, pow2(r.Bits)
	if r.Kind == Int {
		lo = -span / 2
	}
	switch {
	case v != v:
		return 0
	case v >= lo && v < lo+span:
	case sat || math.IsInf(v, 0):
		if v < lo {
			return t.MinCode()
		}
		return t.MaxCode()
	default:
		v = math.Mod(v, span)
	}
	if v < 0 {
		return -uint64(-v) & lowBits(r.Bits)
	}
	return uint64(v) & lowBits(r.Bits)
}

// EncodeInt is the code of the integer v: exact where t can hold it; else the
// nearest limit of an integer type if sat and the low bits if not. For floats
// it rounds once, to nearest even, and sat is as in [Type.Encode].
func (t Type) EncodeInt(v int64, sat bool) uint64 {
	r := &table[t]
	switch r.Kind {
	case Int:
		if sat {
			v = min(max(v, signExtend(t.MinCode(), r.Bits)), int64(t.MaxCode()))
		}
		return uint64(v) & lowBits(r.Bits)
	case Uint:
		if sat {
			if v < 0 {
				return 0
			}
			return min(uint64(v), t.MaxCode())
		}
		return uint64(v) & lowBits(r.Bits)
	case BoolKind:
		if v != 0 {
			return 1
		}
		return 0
	}
	if v < 0 {
		return t.encodeMagnitude(-uint64(v), true, sat)
	}
	return t.encodeMagnitude(uint64(v), false, sat)
}

// encodeMagnitude rounds ±u to a float type once.
func (t Type) encodeMagnitude(u uint64, neg, sat bool) uint64 {
	v := float64(u)
	if t != F64 {
		v = oddFromUint(u)
	}
	if neg {
		v = -v
	}
	return t.Encode(v, sat)
}

// oddFromUint is u rounded to f64 so that an inexact result has an odd last
// bit. A second rounding to a type of at most 51 bits then gives the same as
// one rounding of u.
func oddFromUint(u uint64) float64 {
	if u < 1<<53 {
		return float64(u)
	}
	if rest := u & lowBits(11); rest != 0 {
		u = u&^lowBits(11) | 1<<11
	}
	return float64(u)
}

// NaN is the code of the NaN that encoding makes. It must not be called for a
// type without one.
func (t Type) NaN() uint64 {
	if !t.HasNaN() {
		panic("dtype: " + t.String() + " has no NaN")
	}
	if t == F64 {
		return 0x7ff8000000000000
	}
	return t.Mask() &^ t.signBit()
}

// Inf is the code of infinity, or of minus infinity. It must not be called for
// a type without one.
func (t Type) Inf(neg bool) uint64 {
	if !t.HasInf() {
		panic("dtype: " + t.String() + " has no infinity")
	}
	r := &table[t]
	code := lowBits(r.Exp) << (r.Bits - 1 - r.Exp)
	if neg {
		code |= t.signBit()
	}
	return code
}

// IsNaN reports whether a code is a NaN.
func (t Type) IsNaN(code uint64) bool {
	return t.HasNaN() && math.IsNaN(t.Decode(code))
}

// MaxCode is the code of the largest finite value.
func (t Type) MaxCode() uint64 { return known[t].max }

func (t Type) maxCode() uint64 {
	r := &table[t]
	switch r.Kind {
	case Int:
		return lowBits(r.Bits - 1)
	case Uint:
		return lowBits(r.Bits)
	case BoolKind:
		return 1
	}
	switch r.Special {
	case IEEE:
		return t.Inf(false) - 1<<r.pad()
	case FN, Scale:
		return t.NaN() - 1
	}
	return lowBits(r.Bits - 1)
}

// MinCode is the code of the least finite value: the one farthest below zero,
// or zero, or 2^-127 of the scale type.
func (t Type) MinCode() uint64 {
	switch r := &table[t]; {
	case r.Kind == Int:
		return 1 << (r.Bits - 1)
	case r.Kind == Float && r.Special != Scale:
		return t.signBit() | t.MaxCode()
	}
	return 0
}

// Max is the largest finite value (exact except for i64 and u64, where it is
// rounded up to 2^63 and 2^64; [Type.MaxCode] is exact).
func (t Type) Max() float64 { return t.Decode(t.MaxCode()) }

// Min is the least finite value.
func (t Type) Min() float64 { return t.Decode(t.MinCode()) }

// Smallest is the smallest value above zero: a subnormal where the type has
// some, 1 for integers.
func (t Type) Smallest() float64 {
	r := &table[t]
	switch {
	case r.Kind != Float:
		return float64(min(t.MaxCode(), 1)) // i1 has no value above zero
	case r.Special == Scale:
		return pow2(-r.Bias)
	}
	return t.Decode(1 << r.pad())
}

// SmallestNormal is the smallest value above zero with full precision.
func (t Type) SmallestNormal() float64 {
	r := &table[t]
	if r.Kind != Float || r.Special == Scale {
		return t.Smallest()
	}
	return t.Decode(1 << (r.pad() + r.Man))
}

// Format prints the value of a code: integers in full, floats with the fewest
// digits that encode back to the same value.
func (t Type) Format(code uint64) string {
	r := &table[t]
	switch r.Kind {
	case Int:
		return strconv.FormatInt(signExtend(code, r.Bits), 10)
	case Uint:
		return strconv.FormatUint(code&lowBits(r.Bits), 10)
	case BoolKind:
		return strconv.FormatBool(code&lowBits(r.Bits) != 0)
	}
	v := t.Decode(code)
	if math.IsNaN(v) {
		return "nan"
	}
	if math.IsInf(v, 0) {
		if v < 0 {
			return "-inf"
		}
		return "inf"
	}
	switch t {
	case F64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case F32:
		return strconv.FormatFloat(v, 'g', -1, 32)
	}
	for digits := 1; digits < 17; digits++ {
		s := strconv.FormatFloat(v, 'g', digits, 64)
		if back, err := strconv.ParseFloat(s, 64); err == nil && t.Decode(t.Encode(back, true)) == v {
			// A short number is plain to read in full: 448, not 4.5e+02.
			if full := strconv.FormatFloat(v, 'g', -1, 64); len(full) <= len(s) {
				return full
			}
			return s
		}
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
