package code

import (
	"math"
	"math/bits"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds the arithmetic that rows of the table share.

func s32(a uint64) int64 { return int64(int32(uint32(a))) }

// The machine's division by zero is not specified; these give what current
// machines give, and the simulator does not let it come to that.

func divU(a, b uint64) uint64 {
	if b == 0 {
		return math.MaxUint64
	}
	return a / b
}

func remU(a, b uint64) uint64 {
	if b == 0 {
		return math.MaxUint64
	}
	return a % b
}

func divS(a, b int64) int64 {
	switch b {
	case 0:
		return -1
	case -1:
		return -a
	}
	return a / b
}

func remS(a, b int64) int64 {
	switch b {
	case 0:
		return -1
	case -1:
		return 0
	}
	return a % b
}

func mulHi64(a, b uint64) uint64 {
	hi, _ := bits.Mul64(a, b)
	return hi
}

// lop3 looks each bit of a, b, c up in the table lut.
func lop3(lut int64, a, b, c uint64) uint64 {
	var r uint64
	for k := range 8 {
		if lut>>k&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if k&4 == 0 {
			x = ^x
		}
		if k&2 == 0 {
			y = ^y
		}
		if k&1 == 0 {
			z = ^z
		}
		r |= x & y & z
	}
	return r & 0xffffffff
}

func prmt(a, b, sel uint64) uint64 {
	both := b<<32 | a
	var r uint64
	for j := range 4 {
		s := sel >> (4 * j) & 15
		v := both >> (8 * (s & 7)) & 0xff
		if s&8 != 0 {
			v = uint64(uint8(int8(v) >> 7))
		}
		r |= v << (8 * j)
	}
	return r
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func choose(p, a, b uint64) uint64 {
	if p != 0 {
		return a
	}
	return b
}

// compare is false for a NaN unless it asks whether the two differ.
func compare[T int64 | float64](c int64, a, b T) uint64 {
	switch Cmp(c) {
	case EQ:
		return truth(a == b)
	case NE:
		return truth(a != b)
	case LT:
		return truth(a < b)
	case LE:
		return truth(a <= b)
	case GT:
		return truth(a > b)
	}
	return truth(a >= b)
}

func compareU(c int64, a, b uint64) uint64 {
	const flip = 1 << 63
	return compare(c, int64(a^flip), int64(b^flip))
}

// toInt is the conversion of a float to an integer: as dtype.Cast but for NaN.
func toInt(to, from dtype.Type, a uint64) uint64 {
	if from.IsNaN(a) {
		if from.Bits() < 64 && to.Bits() < 64 {
			return 0
		}
		return 1 << (to.Bits() - 1)
	}
	return dtype.Cast(to, from, a)
}

func sqrt(t dtype.Type, a uint64) uint64 {
	v := math.Sqrt(t.Decode(a))
	if v != v {
		return t.NaN()
	}
	// For f32 the second rounding is harmless: f64 has more than 2·24 + 1 bits.
	return t.Encode(v, false)
}

type meaning = func(imm []int64, a, b, c uint64) uint64

func lane2(t dtype.Type, f func(t dtype.Type, a, b uint64) uint64) meaning {
	return func(_ []int64, a, b, _ uint64) uint64 { return f(t, a, b) }
}

// nanWins is a choice of one of two numbers, NaN where one is.
func nanWins(f func(t dtype.Type, a, b uint64) uint64) func(t dtype.Type, a, b uint64) uint64 {
	return func(t dtype.Type, a, b uint64) uint64 {
		if math.IsNaN(t.Decode(a)) || math.IsNaN(t.Decode(b)) {
			return t.NaN()
		}
		return f(t, a, b)
	}
}

func lane3(t dtype.Type, f func(t dtype.Type, a, b, c uint64) uint64) meaning {
	return func(_ []int64, a, b, c uint64) uint64 { return f(t, a, b, c) }
}

func pair2(t dtype.Type, f func(t dtype.Type, a, b uint64) uint64) meaning {
	return func(_ []int64, a, b, _ uint64) uint64 {
		return f(t, a>>16, b>>16)<<16 | f(t, a&0xffff, b&0xffff)
	}
}

func pair3(t dtype.Type, f func(t dtype.Type, a, b, c uint64) uint64) meaning {
	return func(_ []int64, a, b, c uint64) uint64 {
		return f(t, a>>16, b>>16, c>>16)<<16 | f(t, a&0xffff, b&0xffff, c&0xffff)
	}
}

// f32 sums and products by the host's own arithmetic, which rounds alike; only
// the code of NaN is the machine's.

func float(a uint64) float32 { return math.Float32frombits(uint32(a)) }

func fromFloat(v float32) uint64 {
	if v != v {
		return 0x7fffffff
	}
	return uint64(math.Float32bits(v))
}

func addF32(_ []int64, a, b, _ uint64) uint64 { return fromFloat(float(a) + float(b)) }
func subF32(_ []int64, a, b, _ uint64) uint64 { return fromFloat(float(a) - float(b)) }
func mulF32(_ []int64, a, b, _ uint64) uint64 { return fromFloat(float(a) * float(b)) }
func fmaF32(_ []int64, a, b, c uint64) uint64 { return dtype.Fma(dtype.F32, a, b, c) }

func approximate(op dtype.StepOp) meaning {
	return func(_ []int64, a, _, _ uint64) uint64 { return dtype.Approximate(op, a) }
}
