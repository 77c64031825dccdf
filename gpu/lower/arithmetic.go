package lower

import (
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// emitter computes one op on words or pairs of words of its element type.
type emitter func(l *lowerer, x []code.Value) code.Value

func plain(op code.Op) emitter {
	return func(l *lowerer, x []code.Value) code.Value { return l.op(op, nil, x...) }
}

// bf16 operations go through fma, which every target has: a+b = a·1+b,
// a-b = b·(-1)+a, a·b = a·b+(-0), each rounded once and with the same zeros.
func bf16(mulBy uint64, order func(x []code.Value, c code.Value) []code.Value) emitter {
	return func(l *lowerer, x []code.Value) code.Value {
		return l.op(code.OpFmaBF16x2, nil, order(x, l.const32(int64(mulBy<<16|mulBy)))...)
	}
}

func half(op code.Op, k uint32) emitter {
	return func(l *lowerer, x []code.Value) code.Value { return l.op(op, nil, x[0], l.const32(int64(k))) }
}

func keep(_ *lowerer, x []code.Value) code.Value { return x[0] }

// clamped is a shift of b64, whose count is a b32.
func clamped(op code.Op) emitter {
	return func(l *lowerer, x []code.Value) code.Value {
		n := l.op(code.OpTrunc32, nil, l.op(code.OpMinU64, nil, x[1], l.b.Const64(64)))
		return l.op(op, nil, x[0], n)
	}
}

// arithmeticOps are the thread-level forms per op and element type: on words of
// two 16-bit floats, on words, or on b64. Floats of 16 bits without a form go
// through f32, which holds the result of one operation well enough to be rounded
// once more; integers of 16 bits go through 32. Unsigned integers without a form
// share the signed one.
var arithmeticOps = map[string]map[dtype.Type]emitter{
	"Add": {
		dtype.F16: plain(code.OpAddF16x2), dtype.F32: plain(code.OpAddF32), dtype.F64: plain(code.OpAddF64),
		dtype.BF16: bf16(0x3f80, func(x []code.Value, one code.Value) []code.Value { return []code.Value{x[0], one, x[1]} }),
		dtype.I32:  plain(code.OpAdd32), dtype.I64: plain(code.OpAdd64),
	},
	"Sub": {
		dtype.F16: plain(code.OpSubF16x2), dtype.F32: plain(code.OpSubF32), dtype.F64: plain(code.OpSubF64),
		dtype.BF16: bf16(0xbf80, func(x []code.Value, minus code.Value) []code.Value { return []code.Value{x[1], minus, x[0]} }),
		dtype.I32:  plain(code.OpSub32), dtype.I64: plain(code.OpSub64),
	},
	"Mul": {
		dtype.F16: plain(code.OpMulF16x2), dtype.F32: plain(code.OpMulF32), dtype.F64: plain(code.OpMulF64),
		dtype.BF16: bf16(0x8000, func(x []code.Value, zero code.Value) []code.Value { return []code.Value{x[0], x[1], zero} }),
		dtype.I32:  plain(code.OpMul32), dtype.I64: plain(code.OpMul64),
	},
	"Fma": {
		dtype.F16: plain(code.OpFmaF16x2), dtype.F32: plain(code.OpFmaF32), dtype.F64: plain(code.OpFmaF64),
		dtype.BF16: plain(code.OpFmaBF16x2),
		dtype.I32:  plain(code.OpMad32),
		dtype.I64: func(l *lowerer, x []code.Value) code.Value {
			return l.op(code.OpAdd64, nil, l.op(code.OpMul64, nil, x[0], x[1]), x[2])
		},
	},
	"Min": {
		dtype.F16: plain(code.OpMinF16x2), dtype.BF16: plain(code.OpMinBF16x2), dtype.F32: plain(code.OpMinF32), dtype.F64: plain(code.OpMinF64),
		dtype.I32: plain(code.OpMinS32), dtype.U32: plain(code.OpMinU32), dtype.I64: plain(code.OpMinS64), dtype.U64: plain(code.OpMinU64),
	},
	"Max": {
		dtype.F16: plain(code.OpMaxF16x2), dtype.BF16: plain(code.OpMaxBF16x2), dtype.F32: plain(code.OpMaxF32), dtype.F64: plain(code.OpMaxF64),
		dtype.I32: plain(code.OpMaxS32), dtype.U32: plain(code.OpMaxU32), dtype.I64: plain(code.OpMaxS64), dtype.U64: plain(code.OpMaxU64),
	},
	"Div": {
		dtype.F32: plain(code.OpDivF32), dtype.F64: plain(code.OpDivF64),
		dtype.I32: plain(code.OpDivS32), dtype.U32: plain(code.OpDivU32), dtype.I64: plain(code.OpDivS64), dtype.U64: plain(code.OpDivU64),
	},
	"Mod": {dtype.I32: plain(code.OpRemS32), dtype.U32: plain(code.OpRemU32), dtype.I64: plain(code.OpRemS64), dtype.U64: plain(code.OpRemU64)},
	"Neg": {
		dtype.F16: half(code.OpXor32, 0x80008000), dtype.BF16: half(code.OpXor32, 0x80008000), dtype.F32: plain(code.OpNegF32), dtype.F64: plain(code.OpNegF64),
		dtype.I32: plain(code.OpNeg32), dtype.I64: plain(code.OpNeg64),
	},
	"Abs": {
		dtype.F16: half(code.OpAnd32, 0x7fff7fff), dtype.BF16: half(code.OpAnd32, 0x7fff7fff), dtype.F32: plain(code.OpAbsF32), dtype.F64: plain(code.OpAbsF64),
		dtype.I32: plain(code.OpAbsS32), dtype.U32: keep, dtype.U64: keep,
		dtype.I64: func(l *lowerer, x []code.Value) code.Value {
			return l.op(code.OpMaxS64, nil, x[0], l.op(code.OpNeg64, nil, x[0]))
		},
	},
	"Sqrt":  {dtype.F32: plain(code.OpSqrtF32), dtype.F64: plain(code.OpSqrtF64)},
	"Round": {dtype.F32: plain(code.OpRoundF32), dtype.F64: plain(code.OpRoundF64)},
	"Floor": {dtype.F32: plain(code.OpFloorF32), dtype.F64: plain(code.OpFloorF64)},
	"Ceil":  {dtype.F32: plain(code.OpCeilF32), dtype.F64: plain(code.OpCeilF64)},
	"Trunc": {dtype.F32: plain(code.OpTruncF32), dtype.F64: plain(code.OpTruncF64)},
	"Shl":   {dtype.I32: plain(code.OpShl32), dtype.I64: clamped(code.OpShl64)},
	"Shr":   {dtype.I32: plain(code.OpShrS32), dtype.U32: plain(code.OpShrU32), dtype.I64: clamped(code.OpShrS64), dtype.U64: clamped(code.OpShrU64)},
}

// bitOps work on words of any integers, and on predicates.
var bitOps = map[string][2]code.Op{
	"And": {code.OpAnd32, code.OpAndPred}, "Or": {code.OpOr32, code.OpOrPred}, "Xor": {code.OpXor32, code.OpXorPred}, "Not": {code.OpNot32, code.OpNotPred},
}

// form finds what computes an op on elements of type t by way of another type
// (often t itself), or nil.
func form(op string, seq *dtype.Sequence, t dtype.Type) (emit emitter, by dtype.Type) {
	find := func(t dtype.Type) emitter {
		if seq != nil && t == dtype.F32 {
			return func(l *lowerer, x []code.Value) code.Value { return l.sequence(seq, x[0]) }
		}
		if e := arithmeticOps[op][t]; e != nil {
			return e
		}
		return arithmeticOps[op][map[dtype.Type]dtype.Type{dtype.U32: dtype.I32, dtype.U64: dtype.I64}[t]]
	}
	by = map[dtype.Type]dtype.Type{dtype.I16: dtype.I32, dtype.U16: dtype.U32}[t]
	if emit = find(t); emit != nil || t != dtype.F16 && t != dtype.BF16 && by == 0 {
		return emit, t
	}
	if by == 0 {
		by = dtype.F32
	}
	return find(by), by
}

// stepOps are the instructions of sequences by their names.
var stepOps = sync.OnceValue(func() map[string]code.Op {
	ops := map[string]code.Op{}
	for _, op := range code.Rows() {
		ops[op.String()] = op
	}
	return ops
})

// sequence emits the steps of a function of f32 one by one.
func (l *lowerer) sequence(s *dtype.Sequence, x code.Value) code.Value {
	ops := stepOps()
	r := make([]code.Value, len(s.Steps))
	for i, t := range s.Steps {
		switch t.Op {
		case dtype.StepArg:
			r[i] = x
			continue
		case dtype.StepConst:
			r[i] = l.const32(int64(t.K))
			continue
		}
		var imm []int64
		if t.Op == dtype.StepLess || t.Op == dtype.StepIntLess {
			imm = []int64{int64(code.LT)}
		}
		in := make([]code.Value, t.Op.Inputs())
		for k := range in {
			in[k] = r[t.In[k]]
		}
		r[i] = l.op(ops[t.Op.String()], imm, in...)
	}
	return r[len(r)-1]
}

// apply computes an op of the arithmetic family on n elements of type t, whose
// words stand alike in all operands. Ops that apply has no form for give nil.
func (l *lowerer) apply(op string, seq *dtype.Sequence, t dtype.Type, n int, x ...[]code.Value) []code.Value {
	switch op {
	case "Clip":
		return l.apply("Min", nil, t, n, l.apply("Max", nil, t, n, x[0], x[1]), x[2])
	case "Square":
		return l.apply("Mul", nil, t, n, x[0], x[0])
	}
	out := make([]code.Value, len(x[0]))
	at := func(j int) []code.Value {
		in := make([]code.Value, len(x))
		for i, words := range x {
			in[i] = words[j]
		}
		return in
	}
	if ops, ok := bitOps[op]; ok {
		for j := range out {
			out[j] = l.op(ops[0], nil, at(j)...)
		}
		return out
	}
	emit, by := form(op, seq, t)
	switch {
	case emit == nil:
		return nil
	case by != t:
		elems := make([]code.Value, n)
		for s := range elems {
			in := make([]code.Value, len(x))
			for i, words := range x {
				in[i] = l.wide(t, words, s, i > 0 && (op == "Shl" || op == "Shr"))
			}
			elems[s] = emit(l, in)
		}
		if by != dtype.F32 {
			return l.assemble(n, 16, func(s int) field { return field{words: elems[s : s+1]} })
		}
		round := map[dtype.Type]code.Op{dtype.F16: code.OpF32x2ToF16x2, dtype.BF16: code.OpF32x2ToBF16x2}[t]
		for j := range out {
			out[j] = l.op(round, nil, elems[2*j], elems[min(2*j+1, n-1)])
		}
	case t.Bits() == 64:
		for s := range n {
			in := make([]code.Value, len(x))
			for i, words := range x {
				in[i] = l.op(code.OpPack32, nil, words[2*s], words[2*s+1])
			}
			v := emit(l, in)
			out[2*s], out[2*s+1] = l.op(code.OpTrunc32, nil, v), l.op(code.OpHi32, nil, v)
		}
	default:
		for j := range out {
			out[j] = emit(l, at(j))
		}
	}
	return out
}

// wide is element s of a tile in a register that instructions compare and compute
// with: b32 as f32, i32 or u32, or b64.
func (l *lowerer) wide(t dtype.Type, words []code.Value, s int, unsigned bool) code.Value {
	switch {
	case t.Bits() == 64:
		return l.op(code.OpPack32, nil, words[2*s], words[2*s+1])
	case t.Bits() == 32:
		return words[s]
	case t == dtype.BF16 && s%2 == 1:
		return l.op(code.OpAnd32, nil, words[s/2], l.const32(0xffff0000))
	case t == dtype.BF16:
		return l.op(code.OpShl32, nil, words[s/2], l.const32(16))
	case t == dtype.F16:
		return l.op(code.OpF16ToF32, nil, l.op([]code.Op{code.OpTrunc16, code.OpHi16}[s%2], nil, words[s/2]))
	case t.Signed() && !unsigned:
		return l.op(code.OpBfeS32, []int64{int64(16 * (s % 2)), 16}, words[s/2])
	}
	return l.field(words, 16*s, 16)
}

func arithmetic(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	switch {
	case in.Op.Name == "Where":
		l.where(in)
		return
	case t.Elem == dtype.Bool && bitOps[in.Op.Name] != [2]code.Op{}:
		x := make([][]code.Value, len(in.In))
		for i, o := range in.In {
			if x[i] = l.truths(o, t); x[i] == nil {
				return
			}
		}
		out := make([]code.Value, t.Layout.Slots())
		for s := range out {
			args := make([]code.Value, len(x))
			for i := range x {
				args[i] = x[i][s]
			}
			out[s] = l.op(bitOps[in.Op.Name][1], nil, args...)
		}
		l.setTruths(in.Out[0], out)
		return
	case t.Elem == dtype.Bool:
		l.compareTiles(in)
		return
	}
	operands := make([][]code.Value, len(in.In))
	for i, o := range in.In {
		if operands[i] = l.operand(o, t); operands[i] == nil {
			return
		}
	}
	words := l.apply(in.Op.Name, dtype.SequenceOf(in.Op.Name, in.Attr("approx") != nil), t.Elem, t.Layout.Slots(), operands...)
	if words == nil {
		l.refuse(in.Pos, "Lower.E1", "%s of %s has no lowering", in.Op.Name, t.Elem)
		return
	}
	l.env[in.Out[0]] = val{words: words}
}

// tileCompares are the comparisons of the arithmetic family.
var tileCompares = map[string]code.Cmp{"Equal": code.EQ, "NotEqual": code.NE, "Less": code.LT, "LessEqual": code.LE, "Greater": code.GT, "GreaterEqual": code.GE}

// compareTiles gives predicates.
func (l *lowerer) compareTiles(in *ir.Instr) {
	elem, _ := ir.TileElem(in.In)
	t := in.Out[0].Type
	t.Elem = elem
	x, y := l.operand(in.In[0], t), l.operand(in.In[1], t)
	if x == nil || y == nil {
		return
	}
	op := map[dtype.Type]code.Op{dtype.I64: code.OpSetpS64, dtype.U64: code.OpSetpU64, dtype.F64: code.OpSetpF64, dtype.U32: code.OpSetpU32, dtype.U16: code.OpSetpU32}[elem]
	switch {
	case op != 0:
	case elem.IsFloat():
		op = code.OpSetpF32
	default:
		op = code.OpSetpS32
	}
	out := make([]code.Value, t.Layout.Slots())
	for s := range out {
		out[s] = l.op(op, []int64{int64(tileCompares[in.Op.Name])}, l.wide(elem, x, s, false), l.wide(elem, y, s, false))
	}
	l.setTruths(in.Out[0], out)
}

// setTruths gives a bool tile its predicates, and the bytes that memory and views
// take; passes drop what nobody reads.
func (l *lowerer) setTruths(v *ir.Var, preds []code.Value) {
	words := make([]code.Value, wordsOf(v.Type))
	zero := l.const32(0)
	for s, p := range preds {
		words[s/4] = l.orShifted(words[s/4], l.op(code.OpSelp32, nil, l.const32(1<<(8*(s%4))), zero, p), 0)
	}
	l.env[v] = val{words: words, truths: preds}
}

// truths gives a bool operand as predicates, one for each slot of the result.
func (l *lowerer) truths(o ir.Operand, out ir.Type) []code.Value {
	preds := make([]code.Value, out.Layout.Slots())
	v := o.Var()
	if v == nil || !v.Type.IsRegister() {
		p := l.boolean(o.Expr)
		for s := range preds {
			preds[s] = p
		}
		return preds
	}
	from, ok := ir.SlotMap(v.Type, out)
	if !ok {
		l.refuse(o.Pos, "Lower.E5", "%s lies as %s, the result as %s", v.Name, v.Type.Layout, out.Layout)
		return nil
	}
	x := l.env[v]
	for s, at := range from {
		if x.truths != nil {
			preds[s] = x.truths[at]
		} else {
			preds[s] = l.op(code.OpSetpU32, []int64{int64(code.NE)}, l.field(x.words, 8*at, 8), l.const32(0))
		}
	}
	return preds
}

// where picks words by predicates.
func (l *lowerer) where(in *ir.Instr) {
	t := in.Out[0].Type
	p, x, y := l.truths(in.In[0], t), l.operand(in.In[1], t), l.operand(in.In[2], t)
	if p == nil || x == nil || y == nil {
		return
	}
	out := make([]code.Value, len(x))
	for j := range out {
		s := j * 32 / t.Elem.Bits()
		out[j] = l.op(code.OpSelp32, nil, x[j], y[j], p[s])
		if t.Elem.Bits() == 16 && s+1 < len(p) && p[s+1] != p[s] {
			out[j] = l.op(code.OpBfi32, []int64{0, 16}, out[j], l.op(code.OpSelp32, nil, x[j], y[j], p[s+1]))
		}
	}
	l.env[in.Out[0]] = val{words: out}
}

// operand gives an operand's words arranged as the result's slots, repeating
// what is broadcast.
func (l *lowerer) operand(o ir.Operand, out ir.Type) []code.Value {
	w, slots := out.Elem.Bits(), out.Layout.Slots()
	v := o.Var()
	if v == nil || !v.Type.IsRegister() {
		return l.repeatScalar(l.elementScalar(o.Expr, out.Elem), w, slots)
	}
	words := l.env[v].words
	if v.Type.Layout.Equal(out.Layout) {
		return words
	}
	from, ok := ir.SlotMap(v.Type, out)
	if !ok {
		l.refuse(o.Pos, "Lower.E5", "%s lies as %s, the result as %s", v.Name, v.Type.Layout, out.Layout)
		return nil
	}
	if w == 64 {
		var rep []code.Value
		for _, s := range from {
			rep = append(rep, words[2*s], words[2*s+1])
		}
		return rep
	}
	return l.assemble(slots, w, func(s int) field { return field{words: words, pos: from[s] * w} })
}

// elementScalar computes a scalar operand as an element: b16, b32 or b64.
func (l *lowerer) elementScalar(e ir.Expr, t dtype.Type) code.Value {
	if t.IsFloat() {
		return l.floatScalar(e, t)
	}
	if n, ok := ir.ConstInt(e); ok {
		return l.b.Const(map[int]code.Type{16: code.B16, 32: code.B32, 64: code.B64}[t.Bits()], t.EncodeInt(n, false))
	}
	return l.scalar(e, t)
}

func (l *lowerer) repeatScalar(x code.Value, w, slots int) []code.Value {
	words := make([]code.Value, 0, slots*w/32+1)
	for s := 0; s < slots; s++ {
		switch w {
		case 64:
			words = append(words, l.op(code.OpTrunc32, nil, x), l.op(code.OpHi32, nil, x))
		case 32:
			words = append(words, x)
		case 16:
			if s%2 == 0 {
				words = append(words, l.op(code.OpPack16, nil, x, x))
			}
		}
	}
	return words
}
