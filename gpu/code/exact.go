package code

import "math"

// Exact says that an integer instruction of 32 bits must not overflow. Machines
// wrap and do not look; the simulator stops. Only instructions that come straight
// from a program's scalar expressions have it, and a pass that computes the
// same value in another way, or where it was not asked for, drops it.
type Exact uint8

// The kinds of numbers that inputs and result are taken for.
const (
	MayWrap Exact = iota
	ExactSigned
	ExactUnsigned
)

// Overflows reports whether the exact result of op on a and b is no number of
// this kind, and gives that result. Ops other than +, -, ·, << and division of
// b32 never overflow.
func (e Exact) Overflows(op Op, a, b uint64) (n int64, over bool) {
	if e == MayWrap {
		return 0, false
	}
	x, y := int64(uint32(a)), int64(uint32(b))
	low, high := int64(0), int64(math.MaxUint32)
	if e == ExactSigned {
		x, y = int64(int32(uint32(a))), int64(int32(uint32(b)))
		low, high = math.MinInt32, math.MaxInt32
	}
	switch op {
	case OpAdd32:
		n = x + y
	case OpSub32:
		n = x - y
	case OpMul32:
		if x > 1<<31 && y > math.MaxInt64/x {
			return math.MaxInt64, true
		}
		n = x * y
	case OpShl32:
		if x < 0 && b < 32 || b < 31 {
			n = x << (b & 31)
		} else if x != 0 {
			return math.MaxInt64, true
		}
	case OpNeg32:
		n = -x
	case OpDivS32:
		if y != -1 {
			return 0, false
		}
		n = -x
	default:
		return 0, false
	}
	return n, n < low || n > high
}
