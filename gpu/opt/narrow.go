package opt

import (
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Narrow knows how many low bits of each value can be set, and with that drops
// masks that mask nothing and puts bytes and halves together by one instruction
// where a shift and an or stand:
//
//	bfe.u32 x, 0, n; and.b32 x, 2^n - 1   x, where x has at most n bits
//	x | y << 16, both extended halves      pack.b16
//	x | y << 8k, where x has at most 8k bits  prmt
func Narrow(f *code.Func) bool {
	n := &narrower{f: f, width: intLists.lend(len(f.Types)), def: instrLists.lend(len(f.Types)), same: valueLists.lend(len(f.Types))[:0]}
	for v, t := range f.Types {
		n.width[v] = t.Bits()
	}
	n.region(f.Body)
	n.same.apply(f.Body)
	intLists.back(n.width)
	instrLists.back(n.def)
	valueLists.back(n.same)
	return n.changed
}

type narrower struct {
	f       *code.Func
	width   []int
	def     []*code.Instr
	same    replacer
	out     []*code.Instr
	changed bool
}

func (n *narrower) region(r *code.Region) {
	outer := n.out
	n.out = make([]*code.Instr, 0, len(r.Instrs))
	for _, in := range r.Instrs {
		n.same.inputs(in)
		for _, sub := range in.Regions {
			n.region(sub)
		}
		if n.instr(in) {
			n.out = append(n.out, in)
		}
	}
	r.Instrs, n.out = n.out, outer
}

// constant is the value of a constant.
func (n *narrower) constant(v code.Value) (uint64, bool) {
	if d := n.def[v]; d != nil && isConst(d.Op) {
		return uint64(d.Imm[0]), true
	}
	return 0, false
}

// instr handles one instruction and reports whether it stays.
func (n *narrower) instr(in *code.Instr) bool {
	if len(in.Out) != 1 {
		return true
	}
	out := in.Out[0]
	drop := func() bool {
		n.same.set(out, in.In[0])
		n.changed = true
		return false
	}
	if in.Op == code.OpAnd32 || in.Op == code.OpOr32 {
		if _, ok := n.constant(in.In[0]); ok {
			in.In[0], in.In[1] = in.In[1], in.In[0]
		}
	}
	switch in.Op {
	case code.OpBfeU32:
		if in.Imm[0] == 0 && n.width[in.In[0]] <= int(in.Imm[1]) {
			return drop()
		}
	case code.OpAnd32:
		if c, ok := n.constant(in.In[1]); ok && bits.TrailingZeros64(^c) >= n.width[in.In[0]] {
			return drop()
		}
	case code.OpOr32:
		if !n.join(in, in.In[0], in.In[1]) {
			n.join(in, in.In[1], in.In[0])
		}
	}
	n.def[out] = in
	n.width[out] = min(n.widthOf(in), n.width[out])
	return true
}

// join turns in = x | y<<c into one instruction if it can.
func (n *narrower) join(in *code.Instr, x, shifted code.Value) bool {
	d := n.def[shifted]
	if d == nil || d.Op != code.OpShl32 {
		return false
	}
	c, ok := n.constant(d.In[1])
	if !ok || c == 0 || c%8 != 0 || c > 24 || n.width[x] > int(c) {
		return false
	}
	y := d.In[0]
	width := min(32, n.width[y]+int(c))
	n.changed = true
	n.width[in.Out[0]] = width
	lo, hi := n.def[x], n.def[y]
	if c == 16 && lo != nil && hi != nil && lo.Op == code.OpZext16 && hi.Op == code.OpZext16 {
		in.Op, in.In = code.OpPack16, []code.Value{lo.In[0], hi.In[0]}
		return true
	}
	var sel int64
	for j := range 4 {
		from := j // byte j of x
		if k := j - int(c/8); k >= 0 {
			from = 4 + k // byte k of y
		}
		sel |= int64(from) << (4 * j)
	}
	s := n.f.NewValue(code.B32)
	k := &code.Instr{Op: code.OpConst32, Out: []code.Value{s}, Imm: []int64{sel}, Pos: in.Pos}
	n.def, n.width = append(n.def, k), append(n.width, bits.Len64(uint64(sel)))
	n.out = append(n.out, k)
	in.Op, in.In = code.OpPrmt, []code.Value{x, y, s}
	return true
}

// widthOf is the number of low bits of the result that can be set.
func (n *narrower) widthOf(in *code.Instr) int {
	w := func(i int) int { return n.width[in.In[i]] }
	all := n.f.Type(in.Out[0]).Bits()
	switch in.Op {
	case code.OpConstPred, code.OpConst16, code.OpConst32, code.OpConst64:
		return bits.Len64(uint64(in.Imm[0]))
	case code.OpLdGlobalB8, code.OpLdSharedB8:
		if in.Guard != 0 {
			return max(8, w(1))
		}
		return 8
	case code.OpZext16, code.OpZext32:
		return w(0)
	case code.OpLaneID:
		return 5
	case code.OpTidX:
		return bits.Len(uint(n.f.Launch.Block - 1))
	case code.OpBfeU32:
		return int(in.Imm[1])
	case code.OpAnd32, code.OpAnd64, code.OpMinU32, code.OpMinU64:
		return min(w(0), w(1))
	case code.OpOr32, code.OpOr64, code.OpXor32, code.OpXor64, code.OpMaxU32, code.OpMaxU64, code.OpSelp16, code.OpSelp32, code.OpSelp64:
		return max(w(0), w(1))
	case code.OpAdd32, code.OpAdd64:
		return min(all, max(w(0), w(1))+1)
	case code.OpMul32, code.OpMul64, code.OpMulWideU32:
		return min(all, w(0)+w(1))
	case code.OpShl32, code.OpShl64:
		if c, ok := n.constant(in.In[1]); ok && c < uint64(all) {
			return min(all, w(0)+int(c))
		}
	case code.OpShrU32, code.OpShrU64:
		if c, ok := n.constant(in.In[1]); ok {
			return max(0, w(0)-int(min(c, 64)))
		}
		return w(0)
	case code.OpPopc32, code.OpClz32:
		return 6
	}
	return all
}
