package opt

import (
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Fold computes pure instructions on constants, drops those that change nothing
// (x + 0, x · 1, x & -1, …), writes multiplications and divisions by powers of
// two as shifts and masks, adds constant offsets up ((x + 3) + 4, [x + 16]),
// takes the branch of an If whose predicate is constant, and leaves accesses out that
// no lane takes part in. Assemblers do that too, but late: what they then know to be zero
// ptxas (CUDA 12.9, 13.0) converts wrongly from the upper half of a word of f8e4m3 or f8e5m2.
func Fold(f *code.Func) bool {
	fo := &folder{f: f, consts: constLists.lend(len(f.Types)), sums: sumLists.lend(len(f.Types)), shifts: sumLists.lend(len(f.Types)), same: valueLists.lend(len(f.Types))[:0]}
	fo.region(f.Body)
	fo.same.apply(f.Body)
	constLists.back(fo.consts)
	sumLists.back(fo.sums, fo.shifts)
	valueLists.back(fo.same)
	return fo.changed
}

// sum is a value that is another one plus a constant.
type sum struct {
	base code.Value
	add  uint64
}

func derived(list []sum, v code.Value) (sum, bool) {
	if int(v) < len(list) {
		return list[v], list[v].base != 0
	}
	return sum{}, false
}

type folder struct {
	f       *code.Func
	consts  consts
	sums    []sum // of each value; those without have no base
	shifts  []sum // of values that are another one shifted left by add
	same    replacer
	out     []*code.Instr
	changed bool
}

func (fo *folder) region(r *code.Region) {
	outer := fo.out
	fo.out = make([]*code.Instr, 0, len(r.Instrs))
	for _, in := range r.Instrs {
		fo.same.inputs(in)
		fo.instr(in)
	}
	for i, y := range r.Yield {
		r.Yield[i] = fo.same.of(y)
	}
	r.Instrs, fo.out = fo.out, outer
}

func (fo *folder) instr(in *code.Instr) {
	row := in.Row()
	if p, ok := fo.consts.get(in.Guard); in.Guard != 0 && ok && p == 0 && !row.Through {
		for i, v := range in.Out {
			fo.same.set(v, in.In[len(row.In)+i]) // what lanes have that are left out
		}
		fo.changed = true
		return
	}
	switch {
	case isConst(in.Op):
		fo.consts.set(in.Out[0], uint64(in.Imm[0])&row.Out[0].Mask())
	case in.Op == code.OpIf:
		if p, ok := fo.consts.get(in.In[0]); ok {
			r := in.Regions[1-p&1]
			for _, sub := range r.Instrs {
				fo.same.inputs(sub)
				fo.instr(sub)
			}
			for i, v := range in.Out {
				fo.same.set(v, fo.same.of(r.Yield[i]))
			}
			fo.changed = true
			return
		}
	case row.Addresses() != nil:
		// The machine adds the offset of global addresses in 64 bits and of shared
		// addresses in 32, so that a constant can move into it.
		for _, a := range row.Addresses() {
			if s, ok := derived(fo.sums, in.In[a.In]); ok {
				off := in.Imm[a.Imm] + signed(s.add, a.Space.Bits())
				if off == int64(int32(off)) && s.base != in.In[a.In] {
					in.In[a.In], in.Imm[a.Imm] = s.base, off
					fo.changed = true
				}
			}
		}
	case row.Meaning != nil:
		if fo.pure(in, row) {
			fo.changed = true
			return
		}
	}
	for _, sub := range in.Regions {
		fo.region(sub)
	}
	fo.out = append(fo.out, in)
}

func signed(v uint64, width int) int64 { return int64(v<<(64-width)) >> (64 - width) }

// constant adds a constant before the instruction that needs it.
func (fo *folder) constant(t code.Type, v uint64, like *code.Instr) code.Value {
	c := &code.Instr{Op: constOp(t), Out: []code.Value{fo.f.NewValue(t)}, Imm: []int64{int64(v & t.Mask())}, Pos: like.Pos}
	fo.consts.set(c.Out[0], v&t.Mask())
	fo.out = append(fo.out, c)
	return c.Out[0]
}

// become turns in into another instruction with the same result.
func (fo *folder) become(in *code.Instr, op code.Op, inputs ...code.Value) {
	in.Op, in.In, in.Imm, in.Exact = op, inputs, nil, code.MayWrap
	fo.changed = true
}

// pure simplifies one instruction and reports whether it is gone.
func (fo *folder) pure(in *code.Instr, row *code.Row) bool {
	var args [3]uint64
	var known [3]bool
	all := true
	for i, v := range in.In {
		args[i], known[i] = fo.consts.get(v)
		all = all && known[i]
	}
	out := in.Out[0]
	_, over := in.Exact.Overflows(in.Op, args[0], args[1])
	if all && !over && !(row.NonZero && args[1] == 0) {
		fo.same.set(out, fo.constant(row.Out[0], row.Meaning(in.Imm, args[0], args[1], args[2]), in))
		return true
	}
	if row.Commutes && known[0] && !known[1] { // constants second
		in.In[0], in.In[1] = in.In[1], in.In[0]
		args[0], args[1], known[0], known[1] = args[1], args[0], known[1], known[0]
		fo.changed = true
	}
	keep := func(v code.Value) bool {
		fo.same.set(out, v)
		return true
	}
	if in.Op == code.OpSelp32 || in.Op == code.OpSelp64 || in.Op == code.OpSelp16 {
		switch {
		case known[2] && args[2] != 0, in.In[0] == in.In[1]:
			return keep(in.In[0])
		case known[2]:
			return keep(in.In[1])
		}
		return false
	}
	if len(in.In) < 2 || !known[1] {
		return fo.threeInputs(in, known, args, keep)
	}
	x, c := in.In[0], args[1]
	power := func() (code.Value, bool) {
		if bits.OnesCount64(c) != 1 || c == 1 {
			return 0, false
		}
		return fo.constant(code.B32, uint64(bits.TrailingZeros64(c)), in), true
	}
	ones := row.Out[0].Mask()
	switch in.Op {
	case code.OpAdd32, code.OpAdd64:
		if c == 0 {
			return keep(x)
		}
		s := sum{x, c}
		if t, ok := derived(fo.sums, x); ok { // (base + t) + c
			s = sum{t.base, (t.add + c) & ones}
			if s.add == 0 {
				return keep(s.base)
			}
			in.In[0], in.In[1], in.Exact = s.base, fo.constant(row.Out[0], s.add, in), code.MayWrap
			fo.changed = true
		}
		fo.sums = room(fo.sums, out)
		fo.sums[out] = s
	case code.OpSub32, code.OpSub64:
		if c == 0 {
			return keep(x)
		}
		op := code.OpAdd32
		if in.Op == code.OpSub64 {
			op = code.OpAdd64
		}
		exact := in.Exact
		fo.become(in, op, x, fo.constant(row.Out[0], -c, in))
		if exact == code.ExactSigned && c != 1<<31 { // x - c is x + (-c) there
			in.Exact = exact
		}
		return fo.pure(in, in.Row())
	case code.OpOr32, code.OpXor32, code.OpOr64, code.OpXor64, code.OpShl32, code.OpShrU32, code.OpShrS32, code.OpShl64, code.OpShrU64, code.OpShrS64:
		if c == 0 {
			return keep(x)
		}
		fo.shift(in, x, c)
	case code.OpAnd32, code.OpAnd64:
		switch c {
		case 0:
			return keep(fo.constant(row.Out[0], 0, in))
		case ones:
			return keep(x)
		}
	case code.OpAndPred, code.OpOrPred:
		if (c != 0) == (in.Op == code.OpAndPred) {
			return keep(x)
		}
		return keep(fo.constant(code.Pred, c, in))
	case code.OpXorPred:
		if c == 0 {
			return keep(x)
		}
		fo.become(in, code.OpNotPred, x)
	case code.OpMul32, code.OpMul64:
		shl := code.OpShl32
		if in.Op == code.OpMul64 {
			shl = code.OpShl64
		}
		switch c {
		case 0:
			return keep(fo.constant(row.Out[0], 0, in))
		case 1:
			return keep(x)
		}
		if n, ok := power(); ok {
			exact := in.Exact
			fo.become(in, shl, x, n)
			if c != 1<<31 { // as a signed number it is negative
				in.Exact = exact
			}
			fo.shift(in, x, fo.consts.bits(n))
		}
	case code.OpDivU32, code.OpDivU64:
		if c == 1 {
			return keep(x)
		}
		if n, ok := power(); ok {
			op := code.OpShrU32
			if in.Op == code.OpDivU64 {
				op = code.OpShrU64
			}
			fo.become(in, op, x, n)
		}
	case code.OpRemU32, code.OpRemU64:
		if bits.OnesCount64(c) == 1 {
			op := code.OpAnd32
			if in.Op == code.OpRemU64 {
				op = code.OpAnd64
			}
			fo.become(in, op, x, fo.constant(row.Out[0], c-1, in))
		}
	case code.OpMulWideU32:
		if c == 1 {
			fo.become(in, code.OpZext32, x)
		}
	default:
		return fo.threeInputs(in, known, args, keep)
	}
	return false
}

// shift joins two shifts of b32 to the left by constants.
func (fo *folder) shift(in *code.Instr, x code.Value, n uint64) {
	if in.Op != code.OpShl32 || in.Exact != code.MayWrap || n > 31 {
		return
	}
	if s, ok := derived(fo.shifts, x); ok && s.add+n < 32 {
		x, n = s.base, s.add+n
		in.In = []code.Value{x, fo.constant(code.B32, n, in)}
		fo.changed = true
	}
	fo.shifts = room(fo.shifts, in.Out[0])
	fo.shifts[in.Out[0]] = sum{x, n}
}

// threeInputs simplifies a · b + c.
func (fo *folder) threeInputs(in *code.Instr, known [3]bool, args [3]uint64, keep func(code.Value) bool) bool {
	switch in.Op {
	case code.OpMad32:
		switch {
		case known[2] && args[2] == 0:
			fo.become(in, code.OpMul32, in.In[0], in.In[1])
		case known[1] && args[1] == 0:
			return keep(in.In[2])
		case known[1] && args[1] == 1:
			fo.become(in, code.OpAdd32, in.In[0], in.In[2])
		default:
			return false
		}
		return fo.pure(in, in.Row())
	case code.OpMadWideU32:
		if known[2] && args[2] == 0 {
			fo.become(in, code.OpMulWideU32, in.In[0], in.In[1])
			return fo.pure(in, in.Row())
		}
	}
	return false
}
