package lower

import (
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

// arithmeticOps are the thread-level forms per op and element type: on words of
// two 16-bit floats, on words, or on b64.
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
}

// arithmeticOp finds the form for an element type; integers of one width share
// it, since they wrap. 16-bit integers use the 32-bit form element by element.
func arithmeticOp(op string, t dtype.Type) emitter {
	if t.IsInt() {
		t = map[int]dtype.Type{16: dtype.I32, 32: dtype.I32, 64: dtype.I64}[t.Bits()]
	}
	return arithmeticOps[op][t]
}

func arithmetic(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	emit := arithmeticOp(in.Op.Name, t.Elem)
	if emit == nil {
		l.refuse(in.Pos, "Lower.E1", "%s of %s has no lowering", in.Op.Name, t.Elem)
		return
	}
	operands := make([][]code.Value, len(in.In))
	for i, o := range in.In {
		if operands[i] = l.operand(o, t); operands[i] == nil {
			return
		}
	}
	w, slots := t.Elem.Bits(), t.Layout.Slots()
	pick := func(j int) []code.Value {
		x := make([]code.Value, len(operands))
		for i, words := range operands {
			x[i] = words[j]
		}
		return x
	}
	out := make([]code.Value, wordsOf(t))
	switch {
	case w == 64:
		for s := range slots {
			x := make([]code.Value, len(operands))
			for i, words := range operands {
				x[i] = l.op(code.OpPack32, nil, words[2*s], words[2*s+1])
			}
			v := emit(l, x)
			out[2*s], out[2*s+1] = l.op(code.OpTrunc32, nil, v), l.op(code.OpHi32, nil, v)
		}
	case w == 16 && t.Elem.IsInt():
		elems := make([]code.Value, slots)
		for s := range slots {
			x := make([]code.Value, len(operands))
			for i, words := range operands {
				x[i] = l.field(words, 16*s, 16)
			}
			elems[s] = emit(l, x)
		}
		out = l.assemble(slots, 16, func(s int) field { return field{words: elems[s : s+1]} })
	default:
		for j := range out {
			out[j] = emit(l, pick(j))
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
