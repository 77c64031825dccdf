package lower

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/arith"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func arithmetic(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	switch {
	case in.Op.Name == "Where":
		l.where(in)
		return
	case t.Elem == dtype.Bool && arith.BitOps[in.Op.Name] != [2]code.Op{}:
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
			out[s] = l.Op(arith.BitOps[in.Op.Name][1], nil, args...)
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
	var words []code.Value
	if in.Op.Name == "Sub" && t.Elem == dtype.F16 {
		words = l.difference(in.In[1], t, operands)
	} else {
		words = arith.Apply(l.Thread, in.Op.Name, dtype.SequenceOf(in.Op.Name, in.Attr("approx") != nil), t.Elem, t.Layout.Slots(), operands...)
	}
	if words == nil {
		l.refuse(in.Pos, "Lower.E1", "%s of %s has no lowering", in.Op.Name, t.Elem)
		return
	}
	if t.Elem == dtype.F16 && len(in.In) == 2 && in.In[1].Var() == nil {
		if c, ok := numberOf(in.In[1].Expr); ok {
			l.codes.bound(in.Op.Name, words, operands[0], c)
		}
	}
	l.env.set(in.Out[0], val{words: words})
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
		out[s] = l.Op(op, []int64{int64(tileCompares[in.Op.Name])}, arith.Wide(l.Thread, elem, x, s, false), arith.Wide(l.Thread, elem, y, s, false))
	}
	l.setTruths(in.Out[0], out)
}

// setTruths gives a bool tile its predicates, and the bytes that memory and views
// take; passes drop what nobody reads.
func (l *lowerer) setTruths(v *ir.Var, preds []code.Value) {
	l.env.set(v, val{words: l.truthWords(v.Type, preds), truths: preds})
}

// truthWords are predicates as bytes of 0 and 1.
func (l *lowerer) truthWords(t ir.Type, preds []code.Value) []code.Value {
	words := make([]code.Value, wordsOf(t))
	zero := l.Const32(0)
	for s, p := range preds {
		words[s/4] = l.OrShifted(words[s/4], l.Op(code.OpSelp32, nil, l.Const32(1<<(8*(s%4))), zero, p), 0)
	}
	return words
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
	x := l.env.get(v)
	for s, at := range from {
		if x.truths != nil {
			preds[s] = x.truths[at]
		} else {
			preds[s] = l.Op(code.OpSetpU32, []int64{int64(code.NE)}, l.Field(x.words, 8*at, 8), l.Const32(0))
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
		out[j] = l.Op(code.OpSelp32, nil, x[j], y[j], p[s])
		if t.Elem.Bits() == 16 && s+1 < len(p) && p[s+1] != p[s] {
			out[j] = l.Op(code.OpBfi32, []int64{0, 16}, out[j], l.Op(code.OpSelp32, nil, x[j], y[j], p[s+1]))
		}
	}
	l.env.set(in.Out[0], val{words: out})
}

// operand gives an operand's words arranged as the result's slots, repeating
// what is broadcast.
func (l *lowerer) operand(o ir.Operand, out ir.Type) []code.Value {
	w, slots := out.Elem.Bits(), out.Layout.Slots()
	v := o.Var()
	if v == nil || !v.Type.IsRegister() {
		return l.repeatScalar(l.elementScalar(o.Expr, out.Elem), w, slots)
	}
	words := l.env.get(v).words
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
	return l.Assemble(slots, w, func(s int) thread.Field { return thread.Field{Words: words, Pos: from[s] * w} })
}

// elementScalar computes a scalar operand as an element: b16, b32 or b64.
func (l *lowerer) elementScalar(e ir.Expr, t dtype.Type) code.Value {
	if t.IsFloat() {
		return l.floatScalar(e, t)
	}
	if n, ok := ir.ConstInt(e); ok {
		return l.Const(map[int]code.Type{16: code.B16, 32: code.B32, 64: code.B64}[t.Bits()], t.EncodeInt(n, false))
	}
	return l.scalar(e, t)
}

func (l *lowerer) repeatScalar(x code.Value, w, slots int) []code.Value {
	words := make([]code.Value, 0, slots*w/32+1)
	for s := 0; s < slots; s++ {
		switch w {
		case 64:
			words = append(words, l.Op(code.OpTrunc32, nil, x), l.Op(code.OpHi32, nil, x))
		case 32:
			words = append(words, x)
		case 16:
			if s%2 == 0 {
				words = append(words, l.Op(code.OpPack16, nil, x, x))
			}
		}
	}
	return words
}
