package lower

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// random makes the four numbers of each slot where the slot is.
func random(l *lowerer, in *ir.Instr) {
	seed := l.scalar(in.In[0].Expr, dtype.I64)
	low, high := l.Op(code.OpTrunc32, nil, seed), l.Op(code.OpHi32, nil, seed)
	x := l.env.get(in.In[1].Var()).words
	out := make([]code.Value, 4*len(x))
	zero := l.Const32(0)
	mul := func(a code.Value, m uint32) (hi, lo code.Value) {
		k := l.Const32(int64(m))
		return l.Op(code.OpMulHiU32, nil, a, k), l.Op(code.OpMul32, nil, a, k)
	}
	xor := func(a, b, c code.Value) code.Value { return l.Op(code.OpXor32, nil, l.Op(code.OpXor32, nil, a, b), c) }
	for s, v := range x {
		c := [4]code.Value{v, zero, zero, zero}
		k0, k1 := low, high
		for range ir.PhiloxRounds {
			ah, al := mul(c[0], ir.PhiloxM0)
			bh, bl := mul(c[2], ir.PhiloxM1)
			c = [4]code.Value{xor(bh, c[1], k0), bl, xor(ah, c[3], k1), al}
			k0, k1 = l.Add32(k0, l.Const32(ir.PhiloxW0)), l.Add32(k1, l.Const32(ir.PhiloxW1))
		}
		for w := range c {
			out[w*len(x)+s] = c[w]
		}
	}
	l.env.set(in.Out[0], val{words: out})
}
