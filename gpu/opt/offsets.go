package opt

import (
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Offsets moves constant parts of shared addresses into the offsets of the
// accesses, wherever they stand in the sum that makes the address, so that the
// fragments of a tile share few registers. Swizzled places are XORs; one with a
// constant whose bits the other side cannot have is a sum too.
func Offsets(f *code.Func) bool {
	o := &offsets{f: f, zeros: wordLists.lend(len(f.Types)), def: instrLists.lend(len(f.Types))}
	o.region(f.Body)
	wordLists.back(o.zeros)
	instrLists.back(o.def)
	return o.changed
}

type offsets struct {
	f       *code.Func
	zeros   []uint32 // of each value, bits that cannot be set
	def     []*code.Instr
	out     []*code.Instr
	changed bool
}

func (o *offsets) region(r *code.Region) {
	outer := o.out
	o.out = make([]*code.Instr, 0, len(r.Instrs))
	for _, in := range r.Instrs {
		for _, sub := range in.Regions {
			o.region(sub)
		}
		o.instr(in)
		o.out = append(o.out, in)
		for _, v := range in.Out {
			o.grow()
			o.def[v] = in
		}
	}
	r.Instrs, o.out = o.out, outer
}

// constant is the constant that a value is.
func (o *offsets) constant(v code.Value) (uint32, bool) {
	o.grow()
	if d := o.def[v]; d != nil && d.Op == code.OpConst32 {
		return uint32(d.Imm[0]), true
	}
	return 0, false
}

// may are the bits that a value may have.
func (o *offsets) may(v code.Value) uint32 {
	o.grow()
	return ^o.zeros[v]
}

// only says which bits of a value may be set.
func (o *offsets) only(v code.Value, ones uint32) {
	o.grow()
	o.zeros[v] = ^ones
}

// grow makes room for values that are new.
func (o *offsets) grow() {
	if last := code.Value(len(o.f.Types) - 1); int(last) >= len(o.def) {
		o.def, o.zeros = room(o.def, last), room(o.zeros, last)
	}
}

func (o *offsets) instr(in *code.Instr) {
	var c uint32
	known := false
	if len(in.In) == 2 {
		c, known = o.constant(in.In[1])
	}
	below := func(most uint64) uint32 { return uint32(uint64(1)<<bits.Len64(most) - 1) }
	switch in.Op {
	case code.OpConst32:
		o.only(in.Out[0], uint32(in.Imm[0]))
	case code.OpTidX:
		if n := o.f.Launch.Block; n > 0 {
			o.only(in.Out[0], below(uint64(n-1)))
		}
	case code.OpLaneID:
		o.only(in.Out[0], 31)
	case code.OpAnd32:
		o.only(in.Out[0], o.may(in.In[0])&o.may(in.In[1]))
	case code.OpXor32, code.OpOr32:
		o.only(in.Out[0], o.may(in.In[0])|o.may(in.In[1]))
		if apart := c &^ o.may(in.In[0]); known && apart != 0 {
			if both := c &^ apart; both != 0 { // x ^ (both + apart) = (x ^ both) + apart
				in.In[0] = o.insert(in, in.Op, in.In[0], o.insertConst(in, both))
				in.In[1] = o.insertConst(in, apart)
			}
			in.Op, in.Exact = code.OpAdd32, code.MayWrap
			o.changed = true
		}
	case code.OpShl32:
		if known && c < 32 {
			o.only(in.Out[0], o.may(in.In[0])<<c)
		}
	case code.OpShrU32:
		if known && c < 32 {
			o.only(in.Out[0], o.may(in.In[0])>>c)
		}
	case code.OpAdd32:
		a, b := o.may(in.In[0]), o.may(in.In[1])
		if sum := uint64(a) + uint64(b); a&b == 0 {
			o.only(in.Out[0], a|b)
		} else if sum == uint64(uint32(sum)) {
			o.only(in.Out[0], below(sum)&^(1<<bits.TrailingZeros32(a|b)-1))
		}
	default:
		for _, a := range in.Row().Addresses() {
			if a.Space == code.Shared {
				o.address(in, a)
			}
		}
	}
}

// address takes the constants out of the sum that an address is.
func (o *offsets) address(in *code.Instr, a code.Address) {
	var terms []code.Value
	var add uint32
	budget := 16 // of terms; longer sums are left alone
	var walk func(v code.Value)
	walk = func(v code.Value) {
		if c, ok := o.constant(v); ok {
			add += c
			return
		}
		if d := o.def[v]; d != nil && d.Op == code.OpAdd32 && budget > 0 {
			budget--
			walk(d.In[0])
			walk(d.In[1])
			return
		}
		terms = append(terms, v)
	}
	walk(in.In[a.In])
	off := in.Imm[a.Imm] + int64(int32(add))
	if add == 0 || len(terms) == 0 || budget == 0 || off != int64(int32(off)) {
		return
	}
	base := terms[0]
	for _, t := range terms[1:] {
		base = o.insert(in, code.OpAdd32, base, t)
	}
	in.In[a.In], in.Imm[a.Imm] = base, off
	o.changed = true
}

// insert puts an instruction in front of another one.
func (o *offsets) insert(like *code.Instr, op code.Op, inputs ...code.Value) code.Value {
	v := o.f.NewValue(code.B32)
	in := &code.Instr{Op: op, In: inputs, Out: []code.Value{v}, Pos: like.Pos}
	o.out = append(o.out, in)
	o.grow()
	o.def[v] = in
	return v
}

func (o *offsets) insertConst(like *code.Instr, c uint32) code.Value {
	v := o.insert(like, code.OpConst32)
	o.def[v].Imm = []int64{int64(c)}
	return v
}
