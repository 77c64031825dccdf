// Package cast turns casts of register tiles into thread code that gives, bit
// for bit, what dtype.Cast says, for every pair of element types.
//
// Two ways lead there. Low-bit types go to f16 in pairs: integers by placing
// their bits under the exponent of 1024 and subtracting, floats by placing their
// fields in f16's and multiplying by a power of two, f8e4m3 by an instruction where there is one. Everything else goes
// element by element through f32, f64 or an integer register, each of which
// holds the source exactly, and is then rounded once.
package cast

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Tile casts a thread's slots: slot s of the result is slot slots[s] of the
// source. words hold the source, slot after slot and low bits first, and so does
// the result ([⌈len(slots)·bits/32⌉] b32 words). From [NativeE4M3] on, level is that of a machine that
// converts f8e4m3 itself. The error names a pair that has no form.
func Tile(b *code.Builder, level code.Arch, to, from dtype.Type, slots []int, words []code.Value) ([]code.Value, error) {
	if !to.Valid() || !from.Valid() {
		return nil, fmt.Errorf("no cast from %s to %s", from, to)
	}
	same := to == from && to != dtype.Bool // a bool's codes other than 0 all become 1
	if same && slices.IsSorted(slots) {
		return slices.Clone(words), nil // slots are a permutation, so they are in order
	}
	c := &caster{Builder: b, level: level, to: to, from: from, words: words}
	w := to.Bits()
	out := make([]code.Value, (len(slots)*w+31)/32)
	if c.hasPairForm() {
		for j := range out {
			out[j] = c.pair(slots[2*j : min(2*j+2, len(slots))])
		}
		return out, nil
	}
	both, whole := pairs[[2]dtype.Type{to, from}], 0 // slots that go two at a time
	if both != 0 {
		for whole = 0; whole+1 < len(slots); whole += 2 {
			out[whole/2] = c.op(both, words[slots[whole]], words[slots[whole+1]])
		}
	}
	for s, at := range slots {
		if s < whole {
			continue
		}
		if same {
			c.copy(out, s, at)
		} else {
			c.put(out, s, c.encode(c.decode(at)))
		}
	}
	return out, nil
}

// pairs are the casts of which one instruction does two.
var pairs = map[[2]dtype.Type]code.Op{
	{dtype.F16, dtype.F32}:  code.OpF32x2ToF16x2,
	{dtype.BF16, dtype.F32}: code.OpF32x2ToBF16x2,
}

// caster writes one tile's cast.
type caster struct {
	*code.Builder
	level    code.Arch
	to, from dtype.Type
	words    []code.Value
}

func (c *caster) op(op code.Op, in ...code.Value) code.Value { return c.Emit1(op, nil, in...) }

func (c *caster) cmp(op code.Op, how code.Cmp, x, y code.Value) code.Value {
	return c.Emit1(op, []int64{int64(how)}, x, y)
}

func (c *caster) k(n uint32) code.Value { return c.Const32(int64(n)) }

// bits reads w ≤ 32 bits at a bit position of the source, zeros above.
func (c *caster) bits(pos, w int) code.Value {
	word, at := c.words[pos/32], pos%32
	switch {
	case w == 32:
		return word
	case at+w <= 32:
		return c.BfeU(word, at, w)
	}
	return c.op(code.OpAnd32, c.op(code.OpFunnelR32, word, c.words[pos/32+1], c.k(uint32(at))), c.k(1<<w-1))
}

// put places a code in slot s of the result: a value of w ≤ 32 bits with zeros
// above, or b64.
func (c *caster) put(out []code.Value, s int, v code.Value) {
	w := c.to.Bits()
	if w == 64 {
		out[2*s], out[2*s+1] = c.op(code.OpTrunc32, v), c.op(code.OpHi32, v)
		return
	}
	at := s * w % 32
	or := func(j int, x code.Value) {
		if out[j] != 0 {
			x = c.op(code.OpOr32, out[j], x)
		}
		out[j] = x
	}
	or(s*w/32, c.op(code.OpShl32, v, c.k(uint32(at))))
	if at+w > 32 {
		or(s*w/32+1, c.op(code.OpShrU32, v, c.k(uint32(32-at))))
	}
}

// copy moves slot at of the source to slot s of the result as it is.
func (c *caster) copy(out []code.Value, s, at int) {
	if w := c.to.Bits(); w == 64 {
		out[2*s], out[2*s+1] = c.words[2*at], c.words[2*at+1]
	} else {
		c.put(out, s, c.bits(at*w, w))
	}
}

// number is a source element in a form that holds it exactly.
type number struct {
	kind  kind
	value code.Value
}

type kind uint8

const (
	s32 kind = iota // b32, signed
	u32             // b32, unsigned
	s64
	u64
	f32 // b32
	f64 // b64
)

func (c *caster) decode(s int) number {
	t, w := c.from, c.from.Bits()
	row := t.Row()
	if w == 64 {
		v := c.op(code.OpPack32, c.words[2*s], c.words[2*s+1])
		switch {
		case t == dtype.F64:
			return number{f64, v}
		case t.Signed():
			return number{s64, v}
		}
		return number{u64, v}
	}
	if c.native() {
		half := []code.Op{code.OpTrunc16, code.OpHi16}
		pair := c.op(code.OpE4M3x2ToF16x2, c.op(half[s/2%2], c.words[s/4]))
		return number{f32, c.op(code.OpF16ToF32, c.op(half[s%2], pair))}
	}
	x := c.bits(s*w, w)
	switch {
	case t == dtype.Bool:
		return number{u32, c.op(code.OpSelp32, c.k(1), c.k(0), c.cmp(code.OpSetpU32, code.NE, x, c.k(0)))}
	case t.IsInt() && t.Signed():
		if w < 32 {
			x = c.BfeS(x, 0, w)
		}
		return number{s32, x}
	case t.IsInt():
		return number{u32, x}
	case t == dtype.F32:
		return number{f32, x}
	case t == dtype.TF32:
		return number{f32, c.op(code.OpAnd32, x, c.k(0xffffe000))}
	case t == dtype.F16:
		return number{f32, c.op(code.OpF16ToF32, c.op(code.OpTrunc16, x))}
	case t == dtype.BF16:
		return number{f32, c.op(code.OpBF16ToF32, c.op(code.OpTrunc16, x))}
	case t == dtype.F8E8M0:
		// Code 0 is half of 2^-126, which has no exponent of its own. The last code becomes infinity,
		// which times 0 is no number; others gain 0.
		v := c.op(code.OpMaxU32, c.op(code.OpShl32, x, c.k(23)), c.k(0x00400000))
		return number{f32, c.op(code.OpFmaF32, v, c.k(0), v)}
	}
	// A small float: its magnitude under f32's exponent field is 2^(bias-127) of
	// its value, subnormals included.
	mag := c.op(code.OpAnd32, x, c.k(1<<(w-1)-1))
	v := c.op(code.OpShl32, mag, c.k(uint32(23-row.Man)))
	v = c.op(code.OpMulF32, v, c.k(uint32(127-row.Bias+127)<<23))
	if t.HasInf() {
		v = c.op(code.OpSelp32, c.k(inf32), v, c.cmp(code.OpSetpU32, code.EQ, mag, c.k(uint32(t.Inf(false)))))
	}
	if t.HasNaN() {
		last := uint32(t.MaxCode())
		if t.HasInf() {
			last = uint32(t.Inf(false))
		}
		v = c.op(code.OpSelp32, c.k(nan32), v, c.cmp(code.OpSetpU32, code.GT, mag, c.k(last)))
	}
	sign := c.op(code.OpShl32, c.op(code.OpShrU32, x, c.k(uint32(w-1))), c.k(31))
	return number{f32, c.op(code.OpOr32, v, sign)}
}

// native reports whether f8e4m3 goes to f16 by an instruction, of which f32 is made.
func (c *caster) native() bool { return c.from == dtype.F8E4M3 && c.level >= NativeE4M3 }

// canonical reports whether decode makes the one NaN of f32 itself.
func (c *caster) canonical() bool {
	return c.from == dtype.F16 || c.from == dtype.F8E8M0 || c.native()
}

const (
	nan32 = 0x7fffffff
	inf32 = 0x7f800000
)

// encode rounds a number to the target and gives its code with zeros above.
func (c *caster) encode(n number) code.Value {
	switch t := c.to; {
	case t == dtype.Bool:
		return c.op(code.OpSelp32, c.k(1), c.k(0), c.nonzero(n))
	case t.IsInt():
		return c.toInt(n)
	case t == dtype.F64:
		return c.toF64(n)
	case t == dtype.F16:
		return c.op(code.OpZext16, c.toF16(n))
	}
	x := c.toF32(n, c.to != dtype.F32)
	switch c.to {
	case dtype.F32:
		if n.kind == f32 && c.from.HasNaN() && !c.canonical() {
			return c.op(code.OpSelp32, x, c.k(nan32), c.cmp(code.OpSetpF32, code.EQ, x, x))
		}
		return x
	case dtype.BF16:
		return c.op(code.OpZext16, c.op(code.OpF32ToBF16, x))
	case dtype.TF32:
		return c.toTF32(x)
	case dtype.F8E8M0:
		return c.toE8M0(x)
	}
	return c.toSmallFloat(x)
}

func (c *caster) nonzero(n number) code.Value {
	switch n.kind {
	case f32:
		return c.cmp(code.OpSetpF32, code.NE, n.value, c.k(0))
	case f64:
		return c.cmp(code.OpSetpF64, code.NE, n.value, c.Const64(0))
	case s64, u64:
		return c.cmp(code.OpSetpU64, code.NE, n.value, c.Const64(0))
	}
	return c.cmp(code.OpSetpU32, code.NE, n.value, c.k(0))
}

func (c *caster) toF64(n number) code.Value {
	op := map[kind]code.Op{s32: code.OpS32ToF64, u32: code.OpU32ToF64, s64: code.OpS64ToF64, u64: code.OpU64ToF64, f32: code.OpF32ToF64}
	if n.kind == f64 {
		return n.value
	}
	return c.op(op[n.kind], n.value)
}

func (c *caster) toF16(n number) code.Value {
	op := map[kind]code.Op{s32: code.OpS32ToF16, u32: code.OpU32ToF16, s64: code.OpS64ToF16, u64: code.OpU64ToF16, f32: code.OpF32ToF16, f64: code.OpF64ToF16}
	return c.op(op[n.kind], n.value)
}

// toF32 rounds to f32; with odd, to nearest only if exact and otherwise to the
// neighbour with an odd last bit, so that rounding again to fewer bits gives
// what one rounding would.
func (c *caster) toF32(n number, odd bool) code.Value {
	op := map[kind]code.Op{s32: code.OpS32ToF32, u32: code.OpU32ToF32, s64: code.OpS64ToF32, u64: code.OpU64ToF32, f64: code.OpF64ToF32}
	switch {
	case n.kind == f32:
		return n.value
	case !odd || c.from.IsInt() && c.from.Bits() <= 16:
		return c.op(op[n.kind], n.value)
	case n.kind == s64 || n.kind == u64:
		return c.oddFromInt64(n)
	}
	x := c.toF64(n) // exact for 32-bit integers
	return c.oddFromF64(x)
}

// oddFromF64 rounds f64 to f32 to odd.
func (c *caster) oddFromF64(x code.Value) code.Value {
	near := c.op(code.OpF64ToF32, x)
	back := c.op(code.OpF32ToF64, near)
	inexact := c.cmp(code.OpSetpF64, code.NE, back, x)
	ordered := c.cmp(code.OpSetpF64, code.EQ, x, x)
	even := c.cmp(code.OpSetpU32, code.EQ, c.op(code.OpAnd32, near, c.k(1)), c.k(0))
	fix := c.AndPred(c.AndPred(inexact, ordered), even)
	below := c.cmp(code.OpSetpF64, code.LT, c.op(code.OpAbsF64, back), c.op(code.OpAbsF64, x))
	step := c.op(code.OpSelp32, c.k(1), c.k(0xffffffff), below)
	return c.op(code.OpSelp32, c.op(code.OpAdd32, near, step), near, fix)
}

// oddFromInt64 keeps the top 32 significant bits and a sticky one, which f64
// holds exactly, and rounds that to odd.
func (c *caster) oddFromInt64(n number) code.Value {
	x := n.value
	negative := c.ConstPred(false)
	if n.kind == s64 {
		negative = c.cmp(code.OpSetpS64, code.LT, x, c.Const64(0))
		x = c.op(code.OpSelp64, c.op(code.OpNeg64, x), x, negative)
	}
	// Fold the low 24 bits of numbers of more than 40 bits into one sticky bit.
	low := c.op(code.OpAnd64, x, c.Const64(1<<24-1))
	sticky := c.op(code.OpSelp64, c.Const64(1<<23), c.Const64(0), c.cmp(code.OpSetpU64, code.NE, low, c.Const64(0)))
	folded := c.op(code.OpOr64, c.op(code.OpXor64, x, low), sticky)
	large := c.cmp(code.OpSetpU64, code.GE, x, c.Const64(1<<53))
	x = c.op(code.OpSelp64, folded, x, large)
	f := c.op(code.OpU64ToF64, x)
	f = c.op(code.OpSelp64, c.op(code.OpNegF64, f), f, negative)
	return c.oddFromF64(f)
}

// toTF32 rounds f32 to 10 mantissa bits; the code keeps f32's place.
func (c *caster) toTF32(x code.Value) code.Value {
	lsb := c.BfeU(x, 13, 1)
	r := c.op(code.OpAdd32, c.op(code.OpAdd32, x, c.k(0xfff)), lsb)
	r = c.op(code.OpAnd32, r, c.k(0xffffe000))
	ordered := c.cmp(code.OpSetpF32, code.EQ, x, x)
	return c.op(code.OpSelp32, r, c.k(uint32(dtype.TF32.NaN())), ordered)
}

// toE8M0 rounds a positive f32 to a power of two; ties go to the even exponent.
func (c *caster) toE8M0(x code.Value) code.Value {
	lsb := c.BfeU(x, 23, 1)
	r := c.op(code.OpShrU32, c.op(code.OpAdd32, c.op(code.OpAdd32, x, c.k(1<<22-1)), lsb), c.k(23))
	r = c.op(code.OpMinU32, r, c.k(254))
	// Below the smallest normal f32 the two codes 0 and 1 stand for 2^-127 and
	// 2^-126; their middle goes to 0.
	small := c.op(code.OpSelp32, c.k(1), c.k(0), c.cmp(code.OpSetpU32, code.GT, x, c.k(0x00600000)))
	r = c.op(code.OpSelp32, small, r, c.cmp(code.OpSetpU32, code.LT, x, c.k(0x00800000)))
	r = c.op(code.OpSelp32, r, c.k(0), c.cmp(code.OpSetpS32, code.GE, x, c.k(0)))
	return c.op(code.OpSelp32, r, c.k(0xff), c.cmp(code.OpSetpF32, code.EQ, x, x))
}

// toSmallFloat rounds f32 to a float of at most 8 bits with a sign, saturating.
func (c *caster) toSmallFloat(x code.Value) code.Value {
	t := c.to
	row := t.Row()
	mag := c.op(code.OpAnd32, x, c.k(0x7fffffff))
	// Normal results: round the f32 bits at the place of the last mantissa bit,
	// then move the exponent's origin.
	// Without mantissa bits every significand is odd, and ties go up.
	shift := 23 - row.Man
	tie := c.k(1)
	if row.Man > 0 {
		tie = c.BfeU(mag, shift, 1)
	}
	n := c.op(code.OpAdd32, c.op(code.OpAdd32, mag, c.k(1<<(shift-1)-1)), tie)
	n = c.op(code.OpSub32, c.op(code.OpShrU32, n, c.k(uint32(shift))), c.k(uint32(127-row.Bias)<<row.Man))
	// Subnormal results: adding a power of two whose last bit weighs as much as
	// the target's leaves the rounded code in the low bits.
	magic := uint32(127+23+1-row.Bias-row.Man) << 23
	sub := c.op(code.OpSub32, c.op(code.OpAddF32, mag, c.k(magic)), c.k(magic))
	tiny := c.cmp(code.OpSetpU32, code.LT, mag, c.k(uint32(127+1-row.Bias)<<23))
	r := c.op(code.OpSelp32, sub, n, tiny)
	// Rounding has not wrapped: n is below 2^31 for every magnitude.
	r = c.op(code.OpMinU32, r, c.k(uint32(t.MaxCode())))
	r = c.op(code.OpOr32, r, c.op(code.OpShl32, c.op(code.OpShrU32, x, c.k(31)), c.k(uint32(t.Bits()-1))))
	notNumber := uint32(t.MaxCode())
	if t.HasNaN() {
		notNumber = uint32(t.NaN())
	}
	return c.op(code.OpSelp32, r, c.k(notNumber), c.cmp(code.OpSetpF32, code.EQ, x, x))
}
