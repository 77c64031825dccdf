package cast

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
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
	case c.holds():
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

// holds reports whether the target, of at most 32 bits, has all values of an integer type.
func (c *caster) holds() bool {
	from, to := c.from, c.to
	switch {
	case !from.IsInt():
		return false
	case from.Signed() == to.Signed():
		return from.Bits() <= to.Bits()
	}
	return to.Signed() && from.Bits() < to.Bits()
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
