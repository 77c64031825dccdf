package emit

import (
	"errors"
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/emit/approx"
	"github.com/tilus-lab/tilus-lab/gpu/lower/arith"
	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
)

// vec is n neighbouring elements that a thread holds: b32 words with the elements one after
// another, low bits first, or n predicates.
type vec struct {
	t hlo.Type
	n int
	w []code.Value
}

// scalars computes with elements in registers.
type scalars struct {
	*thread.Thread
	approximate bool // exponentials by the machine's own, within 2 units of the last place
}

// wide are the types that instructions compute with, by those that stand in words.
var wide = map[hlo.Type]hlo.Type{hlo.S4: hlo.S32, hlo.U4: hlo.U32, hlo.S8: hlo.S32, hlo.U8: hlo.U32, hlo.S16: hlo.S32, hlo.U16: hlo.U32}

func (b scalars) k(v int64) code.Value { return b.Const32(v) }

func (b scalars) not(p code.Value) code.Value { return b.Op(code.OpNotPred, nil, p) }

// constant is n times the element of a code.
func (b scalars) constant(t hlo.Type, c uint64, n int) vec {
	if t == hlo.Pred {
		return b.splat(vec{t, 1, []code.Value{b.ConstPred(c != 0)}}, n)
	}
	if t.Bits() == 64 {
		return b.splat(vec{t, 1, []code.Value{b.k(int64(uint32(c))), b.k(int64(c >> 32))}}, n)
	}
	return b.splat(vec{t, 1, []code.Value{b.k(int64(uint32(c)))}}, n)
}

// splat repeats one element.
func (b scalars) splat(x vec, n int) vec {
	if x.n == n {
		return x
	}
	parts := make([]vec, n)
	for i := range parts {
		parts[i] = x
	}
	return b.pack(x.t, parts)
}

// at is element i alone.
func (b scalars) at(x vec, i int) vec {
	switch {
	case x.n == 1:
		return x
	case x.t == hlo.Pred:
		return vec{x.t, 1, x.w[i : i+1]}
	case x.t.Bits() == 64:
		return vec{x.t, 1, x.w[2*i : 2*i+2]}
	case x.t.Bits() == 32:
		return vec{x.t, 1, x.w[i : i+1]}
	}
	return vec{x.t, 1, []code.Value{b.Field(x.w, i*x.t.Bits(), x.t.Bits())}}
}

// pack puts elements together.
func (b scalars) pack(t hlo.Type, parts []vec) vec {
	if len(parts) == 1 {
		return parts[0]
	}
	out := vec{t, len(parts), nil}
	if t == hlo.Pred || t.Bits() >= 32 {
		for _, p := range parts {
			out.w = append(out.w, p.w...)
		}
		return out
	}
	w := t.Bits()
	for i := 0; i < len(parts); i += 32 / w {
		var word code.Value
		for j := i; j < min(i+32/w, len(parts)); j++ {
			v := parts[j].w[0]
			if c, ok := b.ConstOf(v); ok {
				v = b.k(int64(c & (1<<w - 1)))
			}
			if w == 16 && j+1 < len(parts) && j == i {
				word = b.Prmt(v, parts[j+1].w[0], 0x5410)
				break
			}
			word = b.OrShifted(word, b.low(v, w), (j-i)*w)
		}
		out.w = append(out.w, word)
	}
	return out
}

// low keeps the low bits of a word.
func (b scalars) low(v code.Value, w int) code.Value {
	if w >= 32 {
		return v
	}
	return b.Op(code.OpAnd32, nil, v, b.k(1<<w-1))
}

// each applies a function to elements one by one.
func (b scalars) each(t hlo.Type, n int, f func(x []vec) vec, x ...vec) vec {
	parts := make([]vec, n)
	in := make([]vec, len(x))
	for i := range parts {
		for j := range x {
			in[j] = b.at(x[j], i)
		}
		parts[i] = f(in)
	}
	return b.pack(t, parts)
}

// words is an integer of 8, 16 or 32 bits as one of 32, its sign kept.
func (b scalars) word(x vec) code.Value {
	switch n := x.t.Bits(); {
	case x.t == hlo.Pred:
		return b.Op(code.OpSelp32, nil, b.k(1), b.k(0), x.w[0])
	case n == 64:
		return x.w[0]
	case n == 32:
		return x.w[0]
	case x.t.Signed():
		return b.BfeS(x.w[0], 0, n)
	default:
		return b.low(x.w[0], n)
	}
}

// reg is one element in the register that instructions compute with: b32 or b64.
func (b scalars) reg(x vec) code.Value {
	switch {
	case x.t.Bits() == 64:
		return b.Op(code.OpPack32, nil, x.w[0], x.w[1])
	case x.t.IsInt():
		return b.word(x)
	}
	return arith.Wide(b.Thread, x.t.Elem(), x.w, 0, false)
}

// unreg is the vec of a register that holds an integer or a float of 32 or 64 bits.
func (b scalars) unreg(t hlo.Type, v code.Value) vec {
	if t.Bits() == 64 {
		return vec{t, 1, []code.Value{b.Op(code.OpTrunc32, nil, v), b.Op(code.OpHi32, nil, v)}}
	}
	return vec{t, 1, []code.Value{b.low(v, t.Bits())}}
}

// pick is x where p, else y.
func (b scalars) pick(p code.Value, x, y vec) vec {
	out := vec{x.t, x.n, make([]code.Value, len(x.w))}
	for i := range x.w {
		switch {
		case x.w[i] == y.w[i]:
			out.w[i] = x.w[i]
		case x.t == hlo.Pred:
			out.w[i] = b.Op(code.OpOrPred, nil, b.Op(code.OpAndPred, nil, p, x.w[i]), b.Op(code.OpAndPred, nil, b.not(p), y.w[i]))
		default:
			out.w[i] = b.Op(code.OpSelp32, nil, x.w[i], y.w[i], p)
		}
	}
	return out
}

// test compares two elements.
func (b scalars) test(how code.Cmp, x, y vec) code.Value {
	imm := []int64{int64(how)}
	switch {
	case x.t == hlo.Pred:
		p, q := x.w[0], y.w[0]
		switch how {
		case code.EQ:
			return b.not(b.Op(code.OpXorPred, nil, p, q))
		case code.NE:
			return b.Op(code.OpXorPred, nil, p, q)
		case code.LT:
			return b.Op(code.OpAndPred, nil, b.not(p), q)
		case code.LE:
			return b.Op(code.OpOrPred, nil, b.not(p), q)
		case code.GT:
			return b.Op(code.OpAndPred, nil, p, b.not(q))
		}
		return b.Op(code.OpOrPred, nil, p, b.not(q))
	case x.t == hlo.F64:
		return b.Op(code.OpSetpF64, imm, b.reg(x), b.reg(y))
	case x.t.IsFloat():
		return b.Op(code.OpSetpF32, imm, b.reg(x), b.reg(y))
	case x.t == hlo.S64:
		return b.Op(code.OpSetpS64, imm, b.reg(x), b.reg(y))
	case x.t == hlo.U64:
		return b.Op(code.OpSetpU64, imm, b.reg(x), b.reg(y))
	case x.t.Signed():
		return b.Op(code.OpSetpS32, imm, b.reg(x), b.reg(y))
	}
	return b.Op(code.OpSetpU32, imm, b.reg(x), b.reg(y))
}

// apply is an op of gpu/lower/arith on the elements; types that it does not compute with go
// through wider ones.
func (b scalars) apply(op string, seq *dtype.Sequence, x ...vec) (vec, error) {
	t, n := x[0].t, x[0].n
	none := fmt.Errorf("%s on %s has no thread code", op, t)
	if t == hlo.Pred {
		ops, ok := arith.BitOps[op]
		if !ok {
			return vec{}, none
		}
		out := vec{t, n, make([]code.Value, n)}
		for i := range out.w {
			in := []code.Value{x[0].w[i]}
			if len(x) > 1 {
				in = append(in, x[1].w[i])
			}
			out.w[i] = b.Op(ops[1], nil, in...)
		}
		return out, nil
	}
	if _, bit := arith.BitOps[op]; bit || t.Bits() >= 32 || t == hlo.F16 || t == hlo.BF16 {
		words := make([][]code.Value, len(x))
		for i := range x {
			words[i] = x[i].w
		}
		if w := arith.Apply(b.Thread, op, seq, t.Elem(), n, words...); w != nil {
			return vec{t, n, w}, nil
		}
		return vec{}, none
	}
	var fail error
	out := b.each(t, n, func(in []vec) vec {
		for i := range in {
			in[i] = b.convert(wide[t], in[i])
		}
		v, err := b.apply(op, seq, in...)
		if err != nil {
			fail = none
			return b.constant(t, 0, 1)
		}
		return b.convert(t, v)
	}, x...)
	return out, fail
}

// convert is [eval.Convert] of the elements.
func (b scalars) convert(to hlo.Type, x vec) vec {
	from := x.t
	switch {
	case to == from:
		return x
	case to == hlo.Pred && f8(from):
		return b.convert(to, b.convert(hlo.F32, x))
	case to == hlo.Pred:
		zero := b.constant(from, 0, 1)
		return b.each(to, x.n, func(in []vec) vec { return vec{to, 1, []code.Value{b.test(code.NE, in[0], zero)}} }, x)
	case from == hlo.Pred:
		one, zero := b.constant(to, eval.Convert(to, hlo.S32, 1), 1), b.constant(to, 0, 1)
		return b.each(to, x.n, func(in []vec) vec { return b.pick(in[0].w[0], one, zero) }, x)
	case to.IsInt() && from.IsInt():
		if to.Bits() == from.Bits() {
			return vec{to, x.n, x.w}
		}
		return b.each(to, x.n, func(in []vec) vec {
			switch {
			case to.Bits() == 64:
				lo := b.word(in[0])
				hi := b.k(0)
				if from.Signed() {
					hi = b.Op(code.OpShrS32, nil, lo, b.k(31))
				}
				return vec{to, 1, []code.Value{lo, hi}}
			case to.Bits() > from.Bits():
				return vec{to, 1, []code.Value{b.low(b.word(in[0]), to.Bits())}}
			}
			return vec{to, 1, []code.Value{b.low(in[0].w[0], to.Bits())}}
		}, x)
	}
	if f8(to) {
		return b.toF8(to, x)
	}
	slots := make([]int, x.n)
	for i := range slots {
		slots[i] = i
	}
	w, err := cast.Tile(b.Builder, to.Elem(), from.Elem(), slots, x.w)
	if err != nil {
		panic("emit: " + err.Error())
	}
	return vec{to, x.n, w}
}

// f8 says whether a type is a float of 8 bits, which is computed with as f32.
func f8(t hlo.Type) bool { return t == hlo.F8E4M3FN || t == hlo.F8E5M2 }

// toF8 rounds to a float of 8 bits; beyond its range is infinity or, where there is none,
// NaN.
func (b scalars) toF8(to hlo.Type, x vec) vec {
	through := hlo.F32 // exact up to far beyond the range
	if x.t.Bits() == 64 {
		through = hlo.F64
	}
	if x.t != through {
		x = b.convert(through, x)
	}
	// What rounds beyond the largest number: above the middle to the next one, or from it on.
	how, middle := code.LT, 464.0
	last := to.Elem().Encode(math.NaN(), false)
	if to == hlo.F8E5M2 {
		how, middle, last = code.LE, 61440, to.Elem().Encode(math.Inf(1), false)
	}
	bound := b.constant(through, through.Elem().Encode(middle, false), 1)
	return b.each(to, x.n, func(in []vec) vec {
		w, err := cast.Tile(b.Builder, to.Elem(), through.Elem(), []int{0}, in[0].w)
		if err != nil {
			panic("emit: " + err.Error())
		}
		a, _ := b.apply("Abs", nil, in[0])
		over := b.k(int64(last))
		if to == hlo.F8E5M2 {
			over = b.Op(code.OpOr32, nil, over, b.Op(code.OpAnd32, nil, w[0], b.k(0x80)))
		}
		return vec{to, 1, []code.Value{b.Op(code.OpSelp32, nil, over, w[0], b.test(how, bound, a))}}
	}, x)
}

// throughF32 computes an operation on floats of 8 bits as one on f32.
func (b scalars) throughF32(in *hlo.Instruction, x []vec) (vec, error) {
	as := *in
	if f8(in.Shape.Type) {
		as.Shape.Type = hlo.F32
	}
	y := make([]vec, len(x))
	for i, v := range x {
		if y[i] = v; f8(v.t) {
			y[i] = b.convert(hlo.F32, v)
		}
	}
	out, err := b.elementwise(&as, y)
	if err != nil {
		return vec{}, err
	}
	return b.convert(in.Shape.Type, out), nil
}

// names are the ops of gpu/lower/arith that compute operations as they are.
var names = map[hlo.Op]string{
	hlo.Negate: "Neg", hlo.Abs: "Abs", hlo.Not: "Not", hlo.Sqrt: "Sqrt", hlo.Floor: "Floor", hlo.Ceil: "Ceil", hlo.RoundEven: "Round",
	hlo.Add: "Add", hlo.Subtract: "Sub", hlo.Multiply: "Mul", hlo.And: "And", hlo.Or: "Or", hlo.Xor: "Xor",
}

var directions = map[string]code.Cmp{"EQ": code.EQ, "NE": code.NE, "LT": code.LT, "LE": code.LE, "GT": code.GT, "GE": code.GE}

// elementwise is the operation on elements, with the bits that vm/hlo/eval gives.
func (b scalars) elementwise(in *hlo.Instruction, x []vec) (vec, error) {
	t, n := in.Shape.Type, x[0].n
	none := fmt.Errorf("%s: %s on %s has no thread code", in.Pos, in.Op, x[0].t)
	small := f8(t)
	for _, y := range x {
		if y.t.Elem() == 0 {
			return vec{}, none
		}
		small = small || f8(y.t)
	}
	if t.Elem() == 0 {
		return vec{}, none
	}
	if small {
		switch in.Op {
		case hlo.Copy, hlo.BitcastConvert, hlo.Convert, hlo.Select, hlo.Map, hlo.Expm1, hlo.Log1p, hlo.Erf, hlo.Cbrt, hlo.Tan, hlo.Acos, hlo.Acosh,
			hlo.Asin, hlo.Asinh, hlo.Atanh, hlo.Cosh, hlo.Sinh, hlo.RoundAway, hlo.Power, hlo.Atan2:
		case hlo.Negate, hlo.Abs:
			op, mask := code.OpXor32, int64(0x80808080)
			if in.Op == hlo.Abs {
				op, mask = code.OpAnd32, 0x7f7f7f7f
			}
			out := vec{t, n, nil}
			for _, w := range x[0].w {
				out.w = append(out.w, b.low(b.Op(op, nil, w, b.k(mask)), min(32, 8*n)))
			}
			return out, nil
		default:
			return b.throughF32(in, x)
		}
	}
	perElement := func(f func(in []vec) vec) (vec, error) { return b.each(t, n, f, x...), nil }
	pred := func(p code.Value) vec { return vec{hlo.Pred, 1, []code.Value{p}} }
	switch in.Op {
	case hlo.Copy:
		return x[0], nil
	case hlo.BitcastConvert:
		return vec{t, n, x[0].w}, nil
	case hlo.Convert:
		return b.convert(t, x[0]), nil
	case hlo.Abs:
		if t.IsInt() && !t.Signed() {
			return x[0], nil
		}
	case hlo.Add, hlo.Multiply:
		if t == hlo.Pred {
			return b.apply(map[hlo.Op]string{hlo.Add: "Or", hlo.Multiply: "And"}[in.Op], nil, x...)
		}
	case hlo.Maximum, hlo.Minimum:
		return b.extreme(in.Op, x[0], x[1])
	case hlo.Clamp:
		v, err := b.extreme(hlo.Maximum, x[0], x[1])
		if err != nil {
			return vec{}, err
		}
		return b.extreme(hlo.Minimum, v, x[2])
	case hlo.Sign:
		zero, one := b.constant(t, 0, 1), b.constant(t, eval.Convert(t, hlo.S32, 1), 1)
		minus := b.constant(t, eval.Convert(t, hlo.S32, math.MaxUint32), 1)
		return perElement(func(in []vec) vec {
			v := b.pick(b.test(code.LT, zero, in[0]), one, in[0])
			return b.pick(b.test(code.LT, in[0], zero), minus, v)
		})
	case hlo.IsFinite:
		inf := b.constant(x[0].t, x[0].t.Elem().Encode(math.Inf(1), false), 1)
		return perElement(func(in []vec) vec {
			a, _ := b.apply("Abs", nil, in[0])
			return pred(b.test(code.LT, a, inf))
		})
	case hlo.Popcnt, hlo.CountLeadingZeros:
		op := in.Op
		return perElement(func(in []vec) vec { return b.count(op, in[0]) })
	case hlo.Divide, hlo.Remainder:
		if t.IsFloat() {
			if in.Op == hlo.Remainder {
				return vec{}, none
			}
			return b.apply("Div", nil, x...)
		}
		return b.divide(in.Op, x[0], x[1])
	case hlo.Power:
		if !t.IsFloat() {
			return b.power(x[0], x[1])
		}
	case hlo.ShiftLeft, hlo.ShiftRightArithmetic, hlo.ShiftRightLogical:
		return b.shift(in.Op, x[0], x[1])
	case hlo.Compare:
		how := directions[in.Direction]
		return perElement(func(in []vec) vec { return pred(b.test(how, in[0], in[1])) })
	case hlo.Select:
		return perElement(func(in []vec) vec { return b.pick(in[0].w[0], in[1], in[2]) })
	case hlo.Map:
		out, err := b.combine(in.Apply, x)
		if err != nil {
			return vec{}, err
		}
		return out[0], nil
	}
	if name := names[in.Op]; name != "" {
		v, err := b.apply(name, nil, x...)
		if err != nil {
			return vec{}, none
		}
		return v, nil
	}
	if name := eval.Sequence(in.Op); name != "" && t != hlo.F64 {
		v, err := b.apply(name, dtype.SequenceOf(name, b.approximate && in.Op == hlo.Exp && t == hlo.F32), x...)
		if err != nil {
			return vec{}, none
		}
		return v, nil
	}
	if f := approx.Of(in.Op); f != nil && t.IsFloat() {
		y := make([]vec, len(x))
		for i := range x {
			y[i] = b.convert(hlo.F64, x[i])
		}
		v, err := b.combine(f, y)
		if err != nil {
			return vec{}, err
		}
		return b.convert(t, v[0]), nil
	}
	return vec{}, none
}

// count counts the bits that are set, or those that are not above the highest one.
func (b scalars) count(op hlo.Op, x vec) vec {
	w := x.t.Bits()
	if w == 64 {
		lo, hi := x.w[0], x.w[1]
		if op == hlo.Popcnt {
			return vec{x.t, 1, []code.Value{b.Add32(b.Op(code.OpPopc32, nil, lo), b.Op(code.OpPopc32, nil, hi)), b.k(0)}}
		}
		empty := b.Op(code.OpSetpU32, []int64{int64(code.EQ)}, hi, b.k(0))
		n := b.Op(code.OpSelp32, nil, b.Add32(b.Op(code.OpClz32, nil, lo), b.k(32)), b.Op(code.OpClz32, nil, hi), empty)
		return vec{x.t, 1, []code.Value{n, b.k(0)}}
	}
	v := b.low(x.w[0], w)
	if op == hlo.Popcnt {
		return vec{x.t, 1, []code.Value{b.Op(code.OpPopc32, nil, v)}}
	}
	return vec{x.t, 1, []code.Value{b.Op(code.OpSub32, nil, b.Op(code.OpClz32, nil, v), b.k(int64(32-w)))}}
}

// nanWins are the instructions for it.
var nanWins = map[hlo.Type]map[hlo.Op]code.Op{
	hlo.F32:  {hlo.Maximum: code.OpMaxNaNF32, hlo.Minimum: code.OpMinNaNF32},
	hlo.F16:  {hlo.Maximum: code.OpMaxNaNF16x2, hlo.Minimum: code.OpMinNaNF16x2},
	hlo.BF16: {hlo.Maximum: code.OpMaxNaNBF16x2, hlo.Minimum: code.OpMinNaNBF16x2},
}

// extreme is the larger or the smaller element; NaN if either is.
func (b scalars) extreme(op hlo.Op, x, y vec) (vec, error) {
	t := x.t
	name := map[hlo.Op]string{hlo.Maximum: "Max", hlo.Minimum: "Min"}[op]
	if t == hlo.Pred {
		return b.apply(map[hlo.Op]string{hlo.Maximum: "Or", hlo.Minimum: "And"}[op], nil, x, y)
	}
	if native := nanWins[t][op]; native != 0 {
		out := vec{t, x.n, make([]code.Value, len(x.w))}
		for i := range out.w {
			out.w[i] = b.Op(native, nil, x.w[i], y.w[i])
		}
		return out, nil
	}
	v, err := b.apply(name, nil, x, y)
	if err != nil || !t.IsFloat() {
		return v, err
	}
	nan := b.constant(t, t.Elem().Encode(math.NaN(), false), 1)
	return b.each(t, x.n, func(in []vec) vec {
		var p code.Value
		for _, side := range in[:2] {
			if c, ok := b.ConstOf(side.w[0]); ok && !math.IsNaN(t.Elem().Decode(c)) && t != hlo.F64 {
				continue
			}
			p = b.Both(p, b.test(code.EQ, side, side))
		}
		if p == 0 {
			return in[2]
		}
		return b.pick(p, in[2], nan)
	}, x, y, v), nil
}

// divide is division and remainder of whole numbers; by zero it gives all ones, or x.
func (b scalars) divide(op hlo.Op, x, y vec) (vec, error) {
	t := x.t
	if t.Bits() < 32 {
		var fail error
		v := b.each(t, x.n, func(in []vec) vec {
			v, err := b.divide(op, b.convert(wide[t], in[0]), b.convert(wide[t], in[1]))
			if err != nil {
				fail = err
				return in[0]
			}
			return b.convert(t, v)
		}, x, y)
		return v, fail
	}
	name := map[hlo.Op]string{hlo.Divide: "Div", hlo.Remainder: "Mod"}[op]
	var fail error
	one, zero := b.constant(t, 1, 1), b.constant(t, 0, 1)
	ones := b.constant(t, math.MaxUint64, 1)
	out := b.each(t, x.n, func(in []vec) vec {
		isZero := b.test(code.EQ, in[1], zero)
		by := b.pick(isZero, one, in[1])
		rest := in[0]
		if op == hlo.Divide {
			rest = ones
		}
		a := in[0]
		if t.Signed() { // the least number by -1 leaves the type
			minus := b.test(code.EQ, by, ones)
			neg, _ := b.apply("Neg", nil, a)
			v, err := b.apply(name, nil, a, b.pick(minus, one, by))
			if err != nil {
				fail = err
				return a
			}
			if op == hlo.Divide {
				v = b.pick(minus, neg, v)
			}
			return b.pick(isZero, rest, v)
		}
		v, err := b.apply(name, nil, a, by)
		if err != nil {
			fail = err
			return a
		}
		return b.pick(isZero, rest, v)
	}, x, y)
	return out, fail
}

// power multiplies whole numbers; a negative exponent gives the reciprocal rounded to zero.
func (b scalars) power(x, y vec) (vec, error) {
	t := x.t
	if t.Bits() < 32 {
		v, err := b.power(b.convert(wide[t], x), b.convert(wide[t], y))
		return b.convert(t, v), err
	}
	one, zero, ones := b.constant(t, 1, 1), b.constant(t, 0, 1), b.constant(t, math.MaxUint64, 1)
	logical := map[hlo.Type]hlo.Type{hlo.S32: hlo.U32, hlo.S64: hlo.U64}[t]
	if logical == 0 {
		logical = t
	}
	var fail error
	out := b.each(t, x.n, func(in []vec) vec {
		w := len(one.w)
		carried := append(append(append([]code.Value{}, one.w...), in[0].w...), in[1].w...)
		words := b.For(b.k(0), b.k(int64(t.Bits())), b.k(1), 1, carried, func(_ code.Value, c []code.Value) []code.Value {
			r, a, n := vec{t, 1, c[:w]}, vec{t, 1, c[w : 2*w]}, vec{logical, 1, c[2*w:]}
			odd := b.SetpU32(code.NE, b.Op(code.OpAnd32, nil, n.w[0], b.k(1)), b.k(0))
			next, err1 := b.apply("Mul", nil, r, a)
			square, err2 := b.apply("Mul", nil, a, a)
			half, err3 := b.shift(hlo.ShiftRightLogical, n, b.constant(logical, 1, 1))
			if fail = errors.Join(fail, err1, err2, err3); fail != nil {
				return c
			}
			return append(append(append([]code.Value{}, b.pick(odd, next, r).w...), square.w...), half.w...)
		})
		v := vec{t, 1, words[:w]}
		if !t.Signed() {
			return v
		}
		odd := b.SetpU32(code.NE, b.Op(code.OpAnd32, nil, in[1].w[0], b.k(1)), b.k(0))
		turned := b.pick(odd, ones, one)
		turned = b.pick(b.test(code.EQ, in[0], ones), turned, zero)
		turned = b.pick(b.test(code.EQ, in[0], one), one, turned)
		return b.pick(b.test(code.LT, in[1], zero), turned, v)
	}, x, y)
	return out, fail
}

// shift gives 0, or the sign, from the width on. Counts are taken as unsigned.
func (b scalars) shift(op hlo.Op, x, y vec) (vec, error) {
	t := x.t
	return b.each(t, x.n, func(in []vec) vec {
		w := t.Bits()
		if w == 64 {
			n := b.Op(code.OpMinU64, nil, b.Op(code.OpPack32, nil, in[1].w[0], in[1].w[1]), b.Const64(64))
			c := map[hlo.Op]code.Op{hlo.ShiftLeft: code.OpShl64, hlo.ShiftRightLogical: code.OpShrU64, hlo.ShiftRightArithmetic: code.OpShrS64}[op]
			return b.unreg(t, b.Op(c, nil, b.Op(code.OpPack32, nil, in[0].w[0], in[0].w[1]), b.Op(code.OpTrunc32, nil, n)))
		}
		n := b.Op(code.OpMinU32, nil, b.low(in[1].w[0], w), b.k(32))
		v := b.low(in[0].w[0], w)
		if op == hlo.ShiftRightArithmetic && w < 32 {
			v = b.BfeS(in[0].w[0], 0, w)
		}
		c := map[hlo.Op]code.Op{hlo.ShiftLeft: code.OpShl32, hlo.ShiftRightLogical: code.OpShrU32, hlo.ShiftRightArithmetic: code.OpShrS32}[op]
		return vec{t, 1, []code.Value{b.low(b.Op(c, nil, v, n), w)}}
	}, x, y), nil
}

// combine applies a computation on scalars, such as that of a reduce.
func (b scalars) combine(c *hlo.Computation, args []vec) ([]vec, error) {
	values := make([]vec, len(c.Instructions))
	n := args[0].n
	for i, in := range c.Instructions {
		switch in.Op {
		case hlo.Parameter:
			values[i] = args[in.Number]
		case hlo.Constant:
			if in.Value == nil {
				return nil, fmt.Errorf("%s: the value of %s is not known", in.Pos, in.Name)
			}
			values[i] = b.constant(in.Shape.Type, in.Value.Code(0), n)
		case hlo.Tuple:
		case hlo.Bitcast, hlo.Reshape, hlo.Broadcast, hlo.Transpose:
			values[i] = values[in.Operands[0].Index]
		default:
			var x []vec
			for _, o := range in.Operands {
				x = append(x, values[o.Index])
			}
			v, err := b.elementwise(in, x)
			if err != nil {
				return nil, err
			}
			values[i] = v
		}
	}
	var out []vec
	for _, r := range c.Roots() {
		out = append(out, values[r.Index])
	}
	return out, nil
}
