package cast

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// toInt rounds toward zero and saturates to the target's range.
func (c *caster) toInt(n number) code.Value {
	t := c.to
	w, signed := t.Bits(), t.Signed()
	if n.kind == f32 || n.kind == f64 {
		n = c.floatToInt(n, w, signed)
	}
	if w == 64 {
		return c.toInt64(n, signed)
	}
	if n.kind == s64 || n.kind == u64 {
		n = c.narrow64(n, signed)
	}
	// n is s32 or u32 now; hold it to the range of w bits.
	v := n.value
	switch {
	case signed && n.kind == u32:
		v = c.op(code.OpMinU32, v, c.k(1<<(w-1)-1))
	case signed && w < 32:
		v = c.op(code.OpMaxS32, c.op(code.OpMinS32, v, c.k(1<<(w-1)-1)), c.Const32(-1<<(w-1)))
	case !signed && n.kind == s32:
		v = c.op(code.OpMaxS32, v, c.k(0))
		if w < 32 {
			v = c.op(code.OpMinS32, v, c.k(1<<w-1))
		}
	case !signed && w < 32:
		v = c.op(code.OpMinU32, v, c.k(1<<w-1))
	}
	if signed && w < 32 {
		v = c.op(code.OpAnd32, v, c.k(1<<w-1))
	}
	return v
}

// floatToInt truncates to the 32- or 64-bit integer that holds the target.
func (c *caster) floatToInt(n number, w int, signed bool) number {
	ops := map[kind][4]code.Op{
		f32: {code.OpF32ToS32, code.OpF32ToU32, code.OpF32ToS64, code.OpF32ToU64},
		f64: {code.OpF64ToS32, code.OpF64ToU32, code.OpF64ToS64, code.OpF64ToU64},
	}[n.kind]
	out, op := number{kind: s32}, ops[0]
	switch {
	case w == 64 && signed:
		out.kind, op = s64, ops[2]
	case w == 64:
		out.kind, op = u64, ops[3]
	case !signed:
		out.kind, op = u32, ops[1]
	}
	out.value = c.op(op, n.value)
	if n.kind == f32 && w <= 32 {
		return out // the machine gives 0 for NaN
	}
	var ordered code.Value
	if n.kind == f32 {
		ordered = c.cmp(code.OpSetpF32, code.EQ, n.value, n.value)
	} else {
		ordered = c.cmp(code.OpSetpF64, code.EQ, n.value, n.value)
	}
	if w == 64 {
		out.value = c.op(code.OpSelp64, out.value, c.Const64(0), ordered)
	} else {
		out.value = c.op(code.OpSelp32, out.value, c.k(0), ordered)
	}
	return out
}

func (c *caster) toInt64(n number, signed bool) code.Value {
	switch n.kind {
	case u32:
		return c.op(code.OpZext32, n.value)
	case s32:
		n.value = c.op(code.OpSext32, n.value)
		n.kind = s64
	}
	switch {
	case signed && n.kind == u64:
		return c.op(code.OpMinU64, n.value, c.Const64(1<<63-1))
	case !signed && n.kind == s64:
		return c.op(code.OpMaxS64, n.value, c.Const64(0))
	}
	return n.value
}

// narrow64 saturates a 64-bit integer to the 32-bit one of the target's sign.
func (c *caster) narrow64(n number, signed bool) number {
	v := n.value
	switch {
	case signed && n.kind == s64:
		v = c.op(code.OpMaxS64, c.op(code.OpMinS64, v, c.Const64(1<<31-1)), c.Const64(-1<<31))
	case signed:
		v = c.op(code.OpMinU64, v, c.Const64(1<<31-1))
	case n.kind == s64:
		v = c.op(code.OpMinS64, c.op(code.OpMaxS64, v, c.Const64(0)), c.Const64(1<<32-1))
	default:
		v = c.op(code.OpMinU64, v, c.Const64(1<<32-1))
	}
	out := number{kind: u32, value: c.op(code.OpTrunc32, v)}
	if signed {
		out.kind = s32
	}
	return out
}

// pairForm is how two neighbouring elements become a word of two f16, or nil
// where only the element-wise way is right. Its input holds the codes in the low
// bits of the two halves.
func (c *caster) pairForm() func(x code.Value) code.Value {
	t, w := c.from, c.from.Bits()
	row := t.Row()
	switch {
	case c.to != dtype.F16 || w > 8 || t == dtype.Bool:
		return nil
	case t.IsInt():
		// 0x6400 is 1024, whose last mantissa bit weighs 1: x|0x6400 is 1024+x. A
		// signed x is first made x + 2^(w-1) by turning its top bit.
		turn, bias := uint32(0), uint32(0)
		if t.Signed() {
			turn, bias = 1<<(w-1), 1<<(w-1)
		}
		place, base := c.k(both(0x6400|turn)), c.k(both(0x6400+bias))
		return func(x code.Value) code.Value {
			return c.op(code.OpSubF16x2, c.op(code.OpXor32, x, place), base)
		}
	case t.IsFloat() && t != dtype.F8E8M0 && row.Exp < 5 && !t.HasNaN():
		shift, scale := uint32(10-row.Man), c.k(both(uint32(15+15-row.Bias)<<10))
		return func(x code.Value) code.Value {
			mag := c.op(code.OpShl32, c.op(code.OpAnd32, x, c.k(both(1<<(w-1)-1))), c.k(shift))
			sign := c.op(code.OpShl32, c.op(code.OpAnd32, x, c.k(both(1<<(w-1)))), c.k(uint32(16-w)))
			return c.op(code.OpMulF16x2, c.op(code.OpOr32, mag, sign), scale)
		}
	}
	return nil
}

// both is a 16-bit constant in both halves.
func both(x uint32) uint32 { return x<<16 | x }

// pair brings elements s and s+1 into the two halves of a word; without a second
// one the high half is zero.
func (c *caster) pair(s int, second bool) code.Value {
	w := c.from.Bits()
	pos := s * w
	if second && w == 8 {
		// Bytes k and k+1 with zeros between them.
		k := int64(pos / 8 % 4)
		return c.op(code.OpPrmt, c.words[pos/32], c.k(0), c.Const32(0x4040|k|(k+1)<<8))
	}
	x := c.bits(pos, w)
	if !second {
		return x
	}
	return c.Bfi(c.bits(pos+w, w), x, 16, w)
}
