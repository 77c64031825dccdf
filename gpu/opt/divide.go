package opt

import (
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Divide writes unsigned quotients and remainders by constants as the high half of a
// product, where 32 bits of a reciprocal are enough: x / 3 is (x · 0xaaaaaaab) >> 33.
// Assemblers may compute the reciprocal when the code runs.
//
// Source: Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994.
func Divide(f *code.Func) bool {
	d := &divider{f: f, consts: constLists.lend(len(f.Types))[:0]}
	d.region(f.Body)
	constLists.back(d.consts)
	return d.changed
}

type divider struct {
	f       *code.Func
	consts  consts
	changed bool
}

func (d *divider) region(r *code.Region) {
	out := make([]*code.Instr, 0, len(r.Instrs))
	emit := func(like *code.Instr, op code.Op, imm []int64, in ...code.Value) code.Value {
		v := d.f.NewValue(code.B32)
		out = append(out, &code.Instr{Op: op, In: in, Out: []code.Value{v}, Imm: imm, Pos: like.Pos})
		return v
	}
	for _, in := range r.Instrs {
		if isConst(in.Op) {
			d.consts.set(in.Out[0], uint64(in.Imm[0])&in.Row().Out[0].Mask())
		}
		for _, sub := range in.Regions {
			d.region(sub)
		}
		div, rem := in.Op == code.OpDivU32, in.Op == code.OpRemU32
		if (div || rem) && in.Guard == 0 {
			if m, s, ok := reciprocal(d.consts.bits(in.In[1])); ok {
				q := emit(in, code.OpMulHiU32, nil, in.In[0], emit(in, code.OpConst32, []int64{int64(m)}))
				if s > 0 {
					q = emit(in, code.OpShrU32, nil, q, emit(in, code.OpConst32, []int64{int64(s)}))
				}
				last := out[len(out)-1]
				if rem {
					p := emit(in, code.OpMul32, nil, q, in.In[1])
					emit(in, code.OpSub32, nil, in.In[0], p)
					last = out[len(out)-1]
				}
				last.Out = in.Out
				d.changed = true
				continue
			}
		}
		out = append(out, in)
	}
	r.Instrs = out
}

// reciprocal is a number of 32 bits by which x / c is (x · m) >> (32 + s) for every x
// of 32 bits; there is none for some c.
func reciprocal(c uint64) (m uint64, s int, ok bool) {
	if c < 3 || bits.OnesCount64(c) == 1 || c >= 1<<31 {
		return 0, 0, false
	}
	for s = range bits.Len64(c) {
		m = (1<<(32+s) + c - 1) / c
		if m < 1<<32 && m*c-(1<<(32+s)) <= 1<<s {
			return m, s, true
		}
	}
	return 0, 0, false
}
