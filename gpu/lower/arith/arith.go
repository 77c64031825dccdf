// Package arith computes the arithmetic family of tile instructions on a thread's words.
package arith

import (
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// emitter computes one op on words or pairs of words of its element type.
type emitter func(t *thread.Thread, x []code.Value) code.Value

func plain(op code.Op) emitter {
	return func(t *thread.Thread, x []code.Value) code.Value { return t.Op(op, nil, x...) }
}

// bf16 operations go through fma, which every target has: a+b = a·1+b,
// a-b = b·(-1)+a, a·b = a·b+(-0), each rounded once and with the same zeros.
func bf16(mulBy uint64, order func(x []code.Value, c code.Value) []code.Value) emitter {
	return func(t *thread.Thread, x []code.Value) code.Value {
		return t.Op(code.OpFmaBF16x2, nil, order(x, t.Const32(int64(mulBy<<16|mulBy)))...)
	}
}

func half(op code.Op, k uint32) emitter {
	return func(t *thread.Thread, x []code.Value) code.Value { return t.Op(op, nil, x[0], t.Const32(int64(k))) }
}

func keep(_ *thread.Thread, x []code.Value) code.Value { return x[0] }

// clamped is a shift of b64, whose count is a b32.
func clamped(op code.Op) emitter {
	return func(t *thread.Thread, x []code.Value) code.Value {
		n := t.Op(code.OpTrunc32, nil, t.Op(code.OpMinU64, nil, x[1], t.Const64(64)))
		return t.Op(op, nil, x[0], n)
	}
}

// forms are the thread-level forms per op and element type: on words of
// two 16-bit floats, on words, or on b64. Floats of 16 bits without a form go
// through f32, which holds the result of one operation well enough to be rounded
// once more; integers of 16 bits go through 32. Unsigned integers without a form
// share the signed one.
var forms = map[string]map[dtype.Type]emitter{
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
		dtype.I64: func(t *thread.Thread, x []code.Value) code.Value {
			return t.Op(code.OpAdd64, nil, t.Op(code.OpMul64, nil, x[0], x[1]), x[2])
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
		dtype.I64: func(t *thread.Thread, x []code.Value) code.Value {
			return t.Op(code.OpMaxS64, nil, x[0], t.Op(code.OpNeg64, nil, x[0]))
		},
	},
	"Sqrt":      {dtype.F32: plain(code.OpSqrtF32), dtype.F64: plain(code.OpSqrtF64)},
	"Round":     {dtype.F32: plain(code.OpRoundF32), dtype.F64: plain(code.OpRoundF64)},
	"Floor":     {dtype.F32: plain(code.OpFloorF32), dtype.F64: plain(code.OpFloorF64)},
	"Ceil":      {dtype.F32: plain(code.OpCeilF32), dtype.F64: plain(code.OpCeilF64)},
	"Trunc":     {dtype.F32: plain(code.OpTruncF32), dtype.F64: plain(code.OpTruncF64)},
	"CountOnes": {dtype.I32: plain(code.OpPopc32)},
	"Shl":       {dtype.I32: plain(code.OpShl32), dtype.I64: clamped(code.OpShl64)},
	"Shr":       {dtype.I32: plain(code.OpShrS32), dtype.U32: plain(code.OpShrU32), dtype.I64: clamped(code.OpShrS64), dtype.U64: clamped(code.OpShrU64)},
}

// BitOps work on words of any integers, and on predicates.
var BitOps = map[string][2]code.Op{
	"And": {code.OpAnd32, code.OpAndPred}, "Or": {code.OpOr32, code.OpOrPred}, "Xor": {code.OpXor32, code.OpXorPred}, "Not": {code.OpNot32, code.OpNotPred},
}

// form finds what computes an op on elements of type t by way of another type
// (often t itself), or nil.
func form(op string, seq *dtype.Sequence, elem dtype.Type) (emit emitter, by dtype.Type) {
	find := func(by dtype.Type) emitter {
		if seq != nil && by == dtype.F32 {
			return func(t *thread.Thread, x []code.Value) code.Value { return sequence(t, seq, x[0]) }
		}
		if e := forms[op][by]; e != nil {
			return e
		}
		return forms[op][map[dtype.Type]dtype.Type{dtype.U32: dtype.I32, dtype.U64: dtype.I64}[by]]
	}
	by = map[dtype.Type]dtype.Type{dtype.I16: dtype.I32, dtype.U16: dtype.U32}[elem]
	if emit = find(elem); emit != nil || elem != dtype.F16 && elem != dtype.BF16 && by == 0 {
		return emit, elem
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
func sequence(t *thread.Thread, s *dtype.Sequence, x code.Value) code.Value {
	ops := stepOps()
	r := make([]code.Value, len(s.Steps))
	for i, step := range s.Steps {
		switch step.Op {
		case dtype.StepArg:
			r[i] = x
			continue
		case dtype.StepConst:
			r[i] = t.Const32(int64(step.K))
			continue
		}
		var imm []int64
		if step.Op == dtype.StepLess || step.Op == dtype.StepIntLess {
			imm = []int64{int64(code.LT)}
		}
		in := make([]code.Value, step.Op.Inputs())
		for k := range in {
			in[k] = r[step.In[k]]
		}
		r[i] = t.Op(ops[step.Op.String()], imm, in...)
	}
	return r[len(r)-1]
}

// Apply computes an op of the arithmetic family on n elements of type t, whose
// words stand alike in all operands. Ops that Apply has no form for give nil.
func Apply(t *thread.Thread, op string, seq *dtype.Sequence, elem dtype.Type, n int, x ...[]code.Value) []code.Value {
	switch op {
	case "Clip":
		return Apply(t, "Min", nil, elem, n, Apply(t, "Max", nil, elem, n, x[0], x[1]), x[2])
	case "Square":
		return Apply(t, "Mul", nil, elem, n, x[0], x[0])
	}
	out := make([]code.Value, len(x[0]))
	at := func(j int) []code.Value {
		in := make([]code.Value, len(x))
		for i, words := range x {
			in[i] = words[j]
		}
		return in
	}
	if ops, ok := BitOps[op]; ok {
		for j := range out {
			out[j] = t.Op(ops[0], nil, at(j)...)
		}
		return out
	}
	emit, by := form(op, seq, elem)
	switch {
	case emit == nil:
		return nil
	case by != elem:
		elems := make([]code.Value, n)
		for s := range elems {
			in := make([]code.Value, len(x))
			for i, words := range x {
				in[i] = Wide(t, elem, words, s, i > 0 && (op == "Shl" || op == "Shr"))
			}
			elems[s] = emit(t, in)
		}
		if by != dtype.F32 {
			return t.Assemble(n, 16, func(s int) thread.Field { return thread.Field{Words: elems[s : s+1]} })
		}
		round := map[dtype.Type]code.Op{dtype.F16: code.OpF32x2ToF16x2, dtype.BF16: code.OpF32x2ToBF16x2}[elem]
		for j := range out {
			out[j] = t.Op(round, nil, elems[2*j], elems[min(2*j+1, n-1)])
		}
	case elem.Bits() == 64:
		for s := range n {
			in := make([]code.Value, len(x))
			for i, words := range x {
				in[i] = t.Op(code.OpPack32, nil, words[2*s], words[2*s+1])
			}
			v := emit(t, in)
			out[2*s], out[2*s+1] = t.Op(code.OpTrunc32, nil, v), t.Op(code.OpHi32, nil, v)
		}
	default:
		for j := range out {
			out[j] = emit(t, at(j))
		}
	}
	return out
}

// Wide is element s of a tile in a register that instructions compare and compute
// with: b32 as f32, i32 or u32, or b64.
func Wide(t *thread.Thread, elem dtype.Type, words []code.Value, s int, unsigned bool) code.Value {
	switch {
	case elem.Bits() == 64:
		return t.Op(code.OpPack32, nil, words[2*s], words[2*s+1])
	case elem.Bits() == 32:
		return words[s]
	case elem == dtype.BF16 && s%2 == 1:
		return t.Op(code.OpAnd32, nil, words[s/2], t.Const32(0xffff0000))
	case elem == dtype.BF16:
		return t.Op(code.OpShl32, nil, words[s/2], t.Const32(16))
	case elem == dtype.F16:
		return t.Op(code.OpF16ToF32, nil, t.Op([]code.Op{code.OpTrunc16, code.OpHi16}[s%2], nil, words[s/2]))
	case elem.Signed() && !unsigned:
		return t.Op(code.OpBfeS32, []int64{int64(16 * (s % 2)), 16}, words[s/2])
	}
	return t.Field(words, 16*s, 16)
}
