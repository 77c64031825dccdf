package cast

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// hasPairForm reports that the source goes to f16 two elements at a time:
// integers of up to 8 bits, small floats whose exponents f16 has and that
// are all finite, and f8e4m3 where an instruction converts two, to the one NaN of f16 too.
func (c *caster) hasPairForm() bool {
	t := c.from
	switch {
	case c.to != dtype.F16 || t.Bits() > 8 || t == dtype.Bool:
		return false
	case t.IsInt() || c.native():
		return true
	}
	return t != dtype.F8E8M0 && t.Row().Exp < 5 && !t.HasNaN()
}

// pair makes a word of two f16 from one or two slots of the source.
func (c *caster) pair(slots []int) code.Value {
	if c.from.IsInt() {
		if v := c.masked(slots); v != 0 {
			return v
		}
		return c.magic(c.halves(slots))
	}
	if c.native() {
		return c.converted(slots)
	}
	return c.rebias(c.halves(slots))
}

// converted serves one or two f8e4m3, which an instruction takes from half a word.
func (c *caster) converted(slots []int) code.Value {
	half, at := []code.Op{code.OpTrunc16, code.OpHi16}, slots[0]
	word := c.words[at/4]
	if len(slots) == 2 && (at%2 > 0 || slots[1] != at+1) {
		word, at = c.bits(8*at, 8), 0
		word = c.Bfi(c.bits(8*slots[1], 8), word, 8, 8)
	}
	pair := c.op(code.OpE4M3x2ToF16x2, c.op(half[at/2%2], word))
	switch {
	case len(slots) == 2:
		return pair
	case at%2 > 0:
		return c.op(code.OpShrU32, pair, c.k(16))
	}
	return c.op(code.OpAnd32, pair, c.k(0xffff))
}

// masked serves two integers that stand at the same place in the two halves of
// one word: a mask keeps both where they are. Under the exponent of 1024, whose
// last mantissa bit weighs 1, a code at bit p counts 2^p times; one fma takes
// the 1024 away and the 2^p back. It gives 0 where the elements stand otherwise.
func (c *caster) masked(slots []int) code.Value {
	w := c.from.Bits()
	if len(slots) != 2 {
		return 0
	}
	p, q := slots[0]*w, slots[1]*w
	if q != p+16 || p%32+w > 16 {
		return 0
	}
	x, at := c.words[p/32], p%32
	if at+w > 10 {
		// One shift serves all fields of the upper byte.
		if at < 8 {
			return 0
		}
		x, at = c.op(code.OpShrU32, x, c.k(8)), at-8
	}
	turn := uint32(0)
	if c.from.Signed() {
		turn = 1 << (w - 1)
	}
	x = c.Lop3(x, c.k(both((1<<w-1)<<at)), c.k(both(0x6400|turn<<at)), code.LopA&code.LopB^code.LopC)
	if at == 0 {
		return c.op(code.OpSubF16x2, x, c.k(both(0x6400+turn)))
	}
	scale := dtype.F16.Encode(1/float64(uint32(1)<<at), false)
	bias := dtype.F16.Encode(-(1024/float64(uint32(1)<<at) + float64(turn)), false)
	return c.op(code.OpFmaF16x2, x, c.k(both(uint32(scale))), c.k(both(uint32(bias))))
}

// magic makes f16 of two integer codes in the low bits of the halves: x|0x6400
// is 1024+x. A signed x is first made x + 2^(w-1) by turning its top bit.
func (c *caster) magic(x code.Value) code.Value {
	turn := uint32(0)
	if c.from.Signed() {
		turn = 1 << (c.from.Bits() - 1)
	}
	return c.op(code.OpSubF16x2, c.op(code.OpXor32, x, c.k(both(0x6400|turn))), c.k(both(0x6400+turn)))
}

// rebias makes f16 of two small floats in the low bits of the halves: their
// fields go to the places of f16's, and a power of two corrects the exponent.
func (c *caster) rebias(x code.Value) code.Value {
	w, row := c.from.Bits(), c.from.Row()
	mag := c.op(code.OpShl32, c.op(code.OpAnd32, x, c.k(both(1<<(w-1)-1))), c.k(uint32(10-row.Man)))
	sign := c.op(code.OpShl32, c.op(code.OpAnd32, x, c.k(both(1<<(w-1)))), c.k(uint32(16-w)))
	return c.op(code.OpMulF16x2, c.op(code.OpOr32, mag, sign), c.k(both(uint32(15+15-row.Bias)<<10)))
}

// both is a 16-bit constant in both halves.
func both(x uint32) uint32 { return x<<16 | x }

// halves brings one or two slots into the halves of a word, zeros above each.
func (c *caster) halves(slots []int) code.Value {
	w := c.from.Bits()
	p := slots[0] * w
	if len(slots) == 1 {
		return c.bits(p, w)
	}
	q := slots[1] * w
	if w == 8 && p/32 == q/32 {
		// Two bytes of one word, with zeros between them.
		return c.op(code.OpPrmt, c.words[p/32], c.k(0), c.Const32(int64(0x4040|p/8%4|q/8%4<<8)))
	}
	low := c.bits(p, w)
	return c.Bfi(c.bits(q, w), low, 16, w)
}
