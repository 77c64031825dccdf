// Package lanes is thread code on the neighbouring elements that a thread of a fusion's kernel
// holds, in any type of vm/hlo, with the bits that vm/hlo/eval gives.
package lanes

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

// Vec is n neighbouring elements that a thread holds: b32 words with the elements one after
// another, low bits first, or n predicates.
type Vec struct {
	Type  hlo.Type
	N     int
	Words []code.Value
}

// Scalars computes with elements in registers.
type Scalars struct {
	*thread.Thread
	Exponential Exponential // of f32
	Halves      Halves      // may be nil
}

// Halves remembers words that are 16 bits with zeros above, so that nothing is taken apart
// and put together again on the way to and from memory.
type Halves map[code.Value]Half

// Half is where the bits of such a word come from: the low or the high half of a word, or a
// register of 16 bits.
type Half struct {
	Word, Reg code.Value
	High      bool
}

// Widened is a register of 16 bits as a word.
func (b Scalars) Widened(r code.Value) code.Value {
	w := b.Zext16(r)
	if b.Halves != nil {
		b.Halves[w] = Half{Reg: r}
	}
	return w
}

// Narrowed is the low half of a word as a register of 16 bits.
func (b Scalars) Narrowed(w code.Value) code.Value {
	switch h, ok := b.Halves[w]; {
	case ok && h.Reg != 0:
		return h.Reg
	case ok && h.High:
		return b.Op(code.OpHi16, nil, h.Word)
	case ok:
		w = h.Word
	}
	return b.Trunc16(w)
}

// Exponential is how exponentials of f32 are computed.
type Exponential uint8

// The ways. What the machine's is given is x·log₂e in f32: the rounding of that product costs
// a large x as many bits as it has, which the correction gives back.
const (
	Steps   Exponential = iota // as vm/hlo/eval does, bit by bit
	Close                      // by the machine's with a correction
	Machine                    // by the machine's
)

// Bound is how far an exponential of x may be from the exact value, as a part of it. Where
// the machine's is taken, values below 2^-126 may also be 0.
func (e Exponential) Bound(x float64) float64 {
	const unit = 0x1p-23
	switch e {
	case Close:
		return 4 * unit
	case Machine:
		return (3 + math.Abs(x)) * unit
	}
	return 1.25 * unit
}

// exponential is e^x of f32 by the machine's 2^t.
func (b Scalars) exponential(x Vec) Vec {
	f := func(v float64) code.Value { return b.K(int64(math.Float32bits(float32(v)))) }
	hi := float32(math.Log2E)
	out := Vec{x.Type, x.N, nil}
	for _, w := range x.Words {
		w = b.Op(code.OpMaxNaNF32, nil, b.Op(code.OpMinNaNF32, nil, w, f(128)), f(-126)) // finite, and as good as any beyond
		t := b.Op(code.OpMulF32, nil, w, f(math.Log2E))
		lost := b.Op(code.OpFmaF32, nil, w, f(math.Log2E), b.Op(code.OpNegF32, nil, t))
		lost = b.Op(code.OpFmaF32, nil, w, f(math.Log2E-float64(hi)), lost)
		out.Words = append(out.Words, b.Op(code.OpMulF32, nil, b.Op(code.OpExp2ApproxF32, nil, t), b.Op(code.OpFmaF32, nil, lost, f(math.Ln2), f(1))))
	}
	return out
}

// Widen is the elements in f32 of those in bf16. A NaN becomes the one of vm/dtype if that is
// asked for; else it stays one, with its own bits.
func (b Scalars) Widen(x Vec, oneNaN bool) Vec {
	out := Vec{hlo.F32, x.N, nil}
	for i := range x.N {
		w := x.Words[i/2]
		if i%2 == 0 {
			w = b.Op(code.OpShl32, nil, w, b.K(16))
		} else {
			w = b.Op(code.OpAnd32, nil, w, b.K(0xffff0000))
		}
		if oneNaN {
			w = b.Op(code.OpSelp32, nil, w, b.K(0x7fffffff), b.Op(code.OpSetpF32, []int64{int64(code.EQ)}, w, w))
		}
		out.Words = append(out.Words, w)
	}
	return out
}

// wide are the types that instructions compute with, by those that stand in words.
var wide = map[hlo.Type]hlo.Type{hlo.S4: hlo.S32, hlo.U4: hlo.U32, hlo.S8: hlo.S32, hlo.U8: hlo.U32, hlo.S16: hlo.S32, hlo.U16: hlo.U32}

// K is a whole number of 32 bits.
func (b Scalars) K(v int64) code.Value { return b.Const32(v) }

func (b Scalars) not(p code.Value) code.Value { return b.Op(code.OpNotPred, nil, p) }

// Constant is n times the element of a code.
func (b Scalars) Constant(t hlo.Type, c uint64, n int) Vec {
	if t == hlo.Pred {
		return b.Splat(Vec{t, 1, []code.Value{b.ConstPred(c != 0)}}, n)
	}
	if t.Bits() == 64 {
		return b.Splat(Vec{t, 1, []code.Value{b.K(int64(uint32(c))), b.K(int64(c >> 32))}}, n)
	}
	return b.Splat(Vec{t, 1, []code.Value{b.K(int64(uint32(c)))}}, n)
}

// Splat repeats one element.
func (b Scalars) Splat(x Vec, n int) Vec {
	if x.N == n {
		return x
	}
	parts := make([]Vec, n)
	for i := range parts {
		parts[i] = x
	}
	return b.Pack(x.Type, parts)
}

// Lane is element i alone.
func (b Scalars) Lane(x Vec, i int) Vec {
	switch {
	case x.N == 1:
		return x
	case x.Type == hlo.Pred:
		return Vec{x.Type, 1, x.Words[i : i+1]}
	case x.Type.Bits() == 64:
		return Vec{x.Type, 1, x.Words[2*i : 2*i+2]}
	case x.Type.Bits() == 32:
		return Vec{x.Type, 1, x.Words[i : i+1]}
	}
	w := x.Type.Bits()
	v := b.Field(x.Words, i*w, w)
	if _, constant := b.ConstOf(v); w == 16 && b.Halves != nil && !constant {
		b.Halves[v] = Half{Word: x.Words[i/2], High: i%2 == 1}
	}
	return Vec{x.Type, 1, []code.Value{v}}
}

// Part is n elements from number k on.
func (b Scalars) Part(x Vec, k, n int) Vec {
	w := x.Type.Bits()
	switch {
	case n == x.N:
		return x
	case n == 1:
		return b.Lane(x, k)
	case x.Type == hlo.Pred:
		return Vec{x.Type, n, x.Words[k : k+n]}
	case k*w%32 == 0 && n*w%32 == 0:
		return Vec{x.Type, n, x.Words[k*w/32 : (k+n)*w/32]}
	}
	var parts []Vec
	for i := range n {
		parts = append(parts, b.Lane(x, k+i))
	}
	return b.Pack(x.Type, parts)
}

// Pack puts elements together.
func (b Scalars) Pack(t hlo.Type, parts []Vec) Vec {
	if len(parts) == 1 {
		return parts[0]
	}
	out := Vec{t, len(parts), nil}
	if t == hlo.Pred || t.Bits() >= 32 {
		for _, p := range parts {
			out.Words = append(out.Words, p.Words...)
		}
		return out
	}
	w := t.Bits()
	for i := 0; i < len(parts); i += 32 / w {
		var word code.Value
		for j := i; j < min(i+32/w, len(parts)); j++ {
			v := parts[j].Words[0]
			if c, ok := b.ConstOf(v); ok {
				v = b.K(int64(c & (1<<w - 1)))
			}
			if w == 16 && j+1 < len(parts) && j == i {
				if v, ok := b.halves(v, parts[j+1].Words[0]); ok {
					word = v
					break
				}
				word = b.Prmt(v, parts[j+1].Words[0], 0x5410)
				break
			}
			word = b.OrShifted(word, b.Low(v, w), (j-i)*w)
		}
		out.Words = append(out.Words, word)
	}
	return out
}

// halves is a word of two halves that are in registers or in other words.
func (b Scalars) halves(x, y code.Value) (code.Value, bool) {
	lo, ok1 := b.Halves[x]
	hi, ok2 := b.Halves[y]
	switch {
	case !ok1 || !ok2 || (lo.Reg == 0) != (hi.Reg == 0):
		return 0, false
	case lo.Reg != 0:
		return b.Op(code.OpPack16, nil, lo.Reg, hi.Reg), true
	case lo.Word == hi.Word && !lo.High && hi.High:
		return lo.Word, true
	}
	how := uint16(0x5410)
	if lo.High {
		how |= 0x22
	}
	if hi.High {
		how |= 0x2200
	}
	return b.Prmt(lo.Word, hi.Word, how), true
}

// Low keeps the low bits of a word.
func (b Scalars) Low(v code.Value, w int) code.Value {
	if w >= 32 {
		return v
	}
	return b.Op(code.OpAnd32, nil, v, b.K(1<<w-1))
}

// each applies a function to elements one by one.
func (b Scalars) each(t hlo.Type, n int, f func(x []Vec) Vec, x ...Vec) Vec {
	parts := make([]Vec, n)
	in := make([]Vec, len(x))
	for i := range parts {
		for j := range x {
			in[j] = b.Lane(x[j], i)
		}
		parts[i] = f(in)
	}
	return b.Pack(t, parts)
}

// Word is an integer of 8, 16 or 32 bits as one of 32, its sign kept.
func (b Scalars) Word(x Vec) code.Value {
	switch n := x.Type.Bits(); {
	case x.Type == hlo.Pred:
		return b.Op(code.OpSelp32, nil, b.K(1), b.K(0), x.Words[0])
	case n == 64:
		return x.Words[0]
	case n == 32:
		return x.Words[0]
	case x.Type.Signed():
		return b.BfeS(x.Words[0], 0, n)
	default:
		return b.Low(x.Words[0], n)
	}
}

// Reg is one element in the register that instructions compute with: b32 or b64.
func (b Scalars) Reg(x Vec) code.Value {
	switch {
	case x.Type.Bits() == 64:
		return b.Op(code.OpPack32, nil, x.Words[0], x.Words[1])
	case x.Type.IsInt():
		return b.Word(x)
	}
	return arith.Wide(b.Thread, x.Type.Elem(), x.Words, 0, false)
}

// unreg is the Vec of a register that holds an integer or a float of 32 or 64 bits.
func (b Scalars) unreg(t hlo.Type, v code.Value) Vec {
	if t.Bits() == 64 {
		return Vec{t, 1, []code.Value{b.Op(code.OpTrunc32, nil, v), b.Op(code.OpHi32, nil, v)}}
	}
	return Vec{t, 1, []code.Value{b.Low(v, t.Bits())}}
}

// Pick is x where p, else y.
func (b Scalars) Pick(p code.Value, x, y Vec) Vec {
	out := Vec{x.Type, x.N, make([]code.Value, len(x.Words))}
	for i := range x.Words {
		switch {
		case x.Words[i] == y.Words[i]:
			out.Words[i] = x.Words[i]
		case x.Type == hlo.Pred:
			out.Words[i] = b.Op(code.OpOrPred, nil, b.Op(code.OpAndPred, nil, p, x.Words[i]), b.Op(code.OpAndPred, nil, b.not(p), y.Words[i]))
		default:
			out.Words[i] = b.Op(code.OpSelp32, nil, x.Words[i], y.Words[i], p)
		}
	}
	return out
}

// test compares two elements.
func (b Scalars) test(how code.Cmp, x, y Vec) code.Value {
	imm := []int64{int64(how)}
	switch {
	case x.Type == hlo.Pred:
		p, q := x.Words[0], y.Words[0]
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
	case x.Type == hlo.F64:
		return b.Op(code.OpSetpF64, imm, b.Reg(x), b.Reg(y))
	case x.Type.IsFloat():
		return b.Op(code.OpSetpF32, imm, b.Reg(x), b.Reg(y))
	case x.Type == hlo.S64:
		return b.Op(code.OpSetpS64, imm, b.Reg(x), b.Reg(y))
	case x.Type == hlo.U64:
		return b.Op(code.OpSetpU64, imm, b.Reg(x), b.Reg(y))
	case x.Type.Signed():
		return b.Op(code.OpSetpS32, imm, b.Reg(x), b.Reg(y))
	}
	return b.Op(code.OpSetpU32, imm, b.Reg(x), b.Reg(y))
}

// Apply is an op of gpu/lower/arith on the elements; types that it does not compute with go
// through wider ones.
func (b Scalars) Apply(op string, seq *dtype.Sequence, x ...Vec) (Vec, error) {
	t, n := x[0].Type, x[0].N
	none := fmt.Errorf("%s on %s has no thread code", op, t)
	if t == hlo.Pred {
		ops, ok := arith.BitOps[op]
		if !ok {
			return Vec{}, none
		}
		out := Vec{t, n, make([]code.Value, n)}
		for i := range out.Words {
			in := []code.Value{x[0].Words[i]}
			if len(x) > 1 {
				in = append(in, x[1].Words[i])
			}
			out.Words[i] = b.Op(ops[1], nil, in...)
		}
		return out, nil
	}
	if _, bit := arith.BitOps[op]; bit || t.Bits() >= 32 || t == hlo.F16 || t == hlo.BF16 {
		words := make([][]code.Value, len(x))
		for i := range x {
			words[i] = x[i].Words
		}
		if w := arith.Apply(b.Thread, op, seq, t.Elem(), n, words...); w != nil {
			return Vec{t, n, w}, nil
		}
		return Vec{}, none
	}
	var fail error
	out := b.each(t, n, func(in []Vec) Vec {
		for i := range in {
			in[i] = b.Convert(wide[t], in[i])
		}
		v, err := b.Apply(op, seq, in...)
		if err != nil {
			fail = none
			return b.Constant(t, 0, 1)
		}
		return b.Convert(t, v)
	}, x...)
	return out, fail
}

// Convert is [eval.Convert] of the elements.
func (b Scalars) Convert(to hlo.Type, x Vec) Vec {
	from := x.Type
	switch {
	case to == from:
		return x
	case to == hlo.Pred && f8(from):
		return b.Convert(to, b.Convert(hlo.F32, x))
	case to == hlo.Pred:
		zero := b.Constant(from, 0, 1)
		return b.each(to, x.N, func(in []Vec) Vec { return Vec{to, 1, []code.Value{b.test(code.NE, in[0], zero)}} }, x)
	case from == hlo.Pred:
		one, zero := b.Constant(to, eval.Convert(to, hlo.S32, 1), 1), b.Constant(to, 0, 1)
		return b.each(to, x.N, func(in []Vec) Vec { return b.Pick(in[0].Words[0], one, zero) }, x)
	case to.IsInt() && from.IsInt():
		if to.Bits() == from.Bits() {
			return Vec{to, x.N, x.Words}
		}
		return b.each(to, x.N, func(in []Vec) Vec {
			switch {
			case to.Bits() == 64:
				lo := b.Word(in[0])
				hi := b.K(0)
				if from.Signed() {
					hi = b.Op(code.OpShrS32, nil, lo, b.K(31))
				}
				return Vec{to, 1, []code.Value{lo, hi}}
			case to.Bits() > from.Bits():
				return Vec{to, 1, []code.Value{b.Low(b.Word(in[0]), to.Bits())}}
			}
			return Vec{to, 1, []code.Value{b.Low(in[0].Words[0], to.Bits())}}
		}, x)
	}
	if f8(to) {
		return b.toF8(to, x)
	}
	if from == hlo.BF16 && to == hlo.F32 {
		return b.Widen(x, true)
	}
	slots := make([]int, x.N)
	for i := range slots {
		slots[i] = i
	}
	w, err := cast.Tile(b.Builder, 0, to.Elem(), from.Elem(), slots, x.Words)
	if err != nil {
		panic("emit: " + err.Error())
	}
	out := Vec{to, x.N, w}
	if from == hlo.F64 && (to == hlo.F32 || to == hlo.F16) { // the machine keeps what it can of the NaN's code
		nan := b.Constant(to, to.Elem().NaN(), 1)
		return b.each(to, x.N, func(in []Vec) Vec { return b.Pick(b.test(code.EQ, in[0], in[0]), in[1], nan) }, x, out)
	}
	return out
}

// f8 says whether a type is a float of 8 bits, which is computed with as f32.
func f8(t hlo.Type) bool { return t == hlo.F8E4M3FN || t == hlo.F8E5M2 }

// toF8 rounds to a float of 8 bits; beyond its range is infinity or, where there is none,
// NaN.
func (b Scalars) toF8(to hlo.Type, x Vec) Vec {
	through := hlo.F32 // exact up to far beyond the range
	if x.Type.Bits() == 64 {
		through = hlo.F64
	}
	if x.Type != through {
		x = b.Convert(through, x)
	}
	// What rounds beyond the largest number: above the middle to the next one, or from it on.
	how, middle := code.LT, 464.0
	last := to.Elem().Encode(math.NaN(), false)
	if to == hlo.F8E5M2 {
		how, middle, last = code.LE, 61440, to.Elem().Encode(math.Inf(1), false)
	}
	bound := b.Constant(through, through.Elem().Encode(middle, false), 1)
	return b.each(to, x.N, func(in []Vec) Vec {
		w, err := cast.Tile(b.Builder, 0, to.Elem(), through.Elem(), []int{0}, in[0].Words)
		if err != nil {
			panic("emit: " + err.Error())
		}
		a, _ := b.Apply("Abs", nil, in[0])
		over := b.K(int64(last))
		if to == hlo.F8E5M2 {
			over = b.Op(code.OpOr32, nil, over, b.Op(code.OpAnd32, nil, w[0], b.K(0x80)))
		}
		return Vec{to, 1, []code.Value{b.Op(code.OpSelp32, nil, over, w[0], b.test(how, bound, a))}}
	}, x)
}

// throughF32 computes an operation on floats of 8 bits as one on f32.
func (b Scalars) throughF32(in *hlo.Instruction, x []Vec) (Vec, error) {
	as := *in
	if f8(in.Shape.Type) {
		as.Shape.Type = hlo.F32
	}
	y := make([]Vec, len(x))
	for i, v := range x {
		if y[i] = v; f8(v.Type) {
			y[i] = b.Convert(hlo.F32, v)
		}
	}
	out, err := b.Elementwise(&as, y)
	if err != nil {
		return Vec{}, err
	}
	return b.Convert(in.Shape.Type, out), nil
}

// names are the ops of gpu/lower/arith that compute operations as they are.
var names = map[hlo.Op]string{
	hlo.Negate: "Neg", hlo.Abs: "Abs", hlo.Not: "Not", hlo.Sqrt: "Sqrt", hlo.Floor: "Floor", hlo.Ceil: "Ceil", hlo.RoundEven: "Round",
	hlo.Add: "Add", hlo.Subtract: "Sub", hlo.Multiply: "Mul", hlo.And: "And", hlo.Or: "Or", hlo.Xor: "Xor",
}

var directions = map[string]code.Cmp{"EQ": code.EQ, "NE": code.NE, "LT": code.LT, "LE": code.LE, "GT": code.GT, "GE": code.GE}

// Elementwise is the operation on elements, with the bits that vm/hlo/eval gives.
func (b Scalars) Elementwise(in *hlo.Instruction, x []Vec) (Vec, error) {
	t, n := in.Shape.Type, x[0].N
	none := fmt.Errorf("%s: %s on %s has no thread code", in.Pos, in.Op, x[0].Type)
	small := f8(t)
	for _, y := range x {
		if y.Type.Elem() == 0 {
			return Vec{}, none
		}
		small = small || f8(y.Type)
	}
	if t.Elem() == 0 {
		return Vec{}, none
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
			out := Vec{t, n, nil}
			for _, w := range x[0].Words {
				out.Words = append(out.Words, b.Low(b.Op(op, nil, w, b.K(mask)), min(32, 8*n)))
			}
			return out, nil
		default:
			return b.throughF32(in, x)
		}
	}
	perElement := func(f func(in []Vec) Vec) (Vec, error) { return b.each(t, n, f, x...), nil }
	pred := func(p code.Value) Vec { return Vec{hlo.Pred, 1, []code.Value{p}} }
	switch in.Op {
	case hlo.Copy:
		return x[0], nil
	case hlo.BitcastConvert:
		return Vec{t, n, x[0].Words}, nil
	case hlo.Convert:
		return b.Convert(t, x[0]), nil
	case hlo.Abs:
		if t.IsInt() && !t.Signed() {
			return x[0], nil
		}
	case hlo.Add, hlo.Multiply:
		if t == hlo.Pred {
			return b.Apply(map[hlo.Op]string{hlo.Add: "Or", hlo.Multiply: "And"}[in.Op], nil, x...)
		}
	case hlo.Maximum, hlo.Minimum:
		return b.extreme(in.Op, x[0], x[1])
	case hlo.Clamp:
		v, err := b.extreme(hlo.Maximum, x[0], x[1])
		if err != nil {
			return Vec{}, err
		}
		return b.extreme(hlo.Minimum, v, x[2])
	case hlo.Sign:
		zero, one := b.Constant(t, 0, 1), b.Constant(t, eval.Convert(t, hlo.S32, 1), 1)
		minus := b.Constant(t, eval.Convert(t, hlo.S32, math.MaxUint32), 1)
		return perElement(func(in []Vec) Vec {
			v := b.Pick(b.test(code.LT, zero, in[0]), one, in[0])
			return b.Pick(b.test(code.LT, in[0], zero), minus, v)
		})
	case hlo.IsFinite:
		inf := b.Constant(x[0].Type, x[0].Type.Elem().Encode(math.Inf(1), false), 1)
		return perElement(func(in []Vec) Vec {
			a, _ := b.Apply("Abs", nil, in[0])
			return pred(b.test(code.LT, a, inf))
		})
	case hlo.Popcnt, hlo.CountLeadingZeros:
		op := in.Op
		return perElement(func(in []Vec) Vec { return b.count(op, in[0]) })
	case hlo.Divide, hlo.Remainder:
		if t.IsFloat() {
			if in.Op == hlo.Remainder {
				return Vec{}, none
			}
			return b.Apply("Div", nil, x...)
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
		return perElement(func(in []Vec) Vec { return pred(b.test(how, in[0], in[1])) })
	case hlo.Select:
		return perElement(func(in []Vec) Vec { return b.Pick(in[0].Words[0], in[1], in[2]) })
	case hlo.Map:
		out, err := b.Combine(in.Apply, x)
		if err != nil {
			return Vec{}, err
		}
		return out[0], nil
	}
	if name := names[in.Op]; name != "" {
		v, err := b.Apply(name, nil, x...)
		if err != nil {
			return Vec{}, none
		}
		return v, nil
	}
	if name := eval.Sequence(in.Op); name != "" && t != hlo.F64 {
		exp := in.Op == hlo.Exp && t == hlo.F32
		if exp && b.Exponential == Close {
			return b.exponential(x[0]), nil
		}
		v, err := b.Apply(name, dtype.SequenceOf(name, exp && b.Exponential == Machine), x...)
		if err != nil {
			return Vec{}, none
		}
		return v, nil
	}
	if f := approx.Of(in.Op); f != nil && t.IsFloat() {
		y := make([]Vec, len(x))
		for i := range x {
			y[i] = b.Convert(hlo.F64, x[i])
		}
		v, err := b.Combine(f, y)
		if err != nil {
			return Vec{}, err
		}
		return b.Convert(t, v[0]), nil
	}
	return Vec{}, none
}

// count counts the bits that are set, or those that are not above the highest one.
func (b Scalars) count(op hlo.Op, x Vec) Vec {
	w := x.Type.Bits()
	if w == 64 {
		lo, hi := x.Words[0], x.Words[1]
		if op == hlo.Popcnt {
			return Vec{x.Type, 1, []code.Value{b.Add32(b.Op(code.OpPopc32, nil, lo), b.Op(code.OpPopc32, nil, hi)), b.K(0)}}
		}
		empty := b.Op(code.OpSetpU32, []int64{int64(code.EQ)}, hi, b.K(0))
		n := b.Op(code.OpSelp32, nil, b.Add32(b.Op(code.OpClz32, nil, lo), b.K(32)), b.Op(code.OpClz32, nil, hi), empty)
		return Vec{x.Type, 1, []code.Value{n, b.K(0)}}
	}
	v := b.Low(x.Words[0], w)
	if op == hlo.Popcnt {
		return Vec{x.Type, 1, []code.Value{b.Op(code.OpPopc32, nil, v)}}
	}
	return Vec{x.Type, 1, []code.Value{b.Op(code.OpSub32, nil, b.Op(code.OpClz32, nil, v), b.K(int64(32-w)))}}
}

// nanWins are the instructions for it.
var nanWins = map[hlo.Type]map[hlo.Op]code.Op{
	hlo.F32:  {hlo.Maximum: code.OpMaxNaNF32, hlo.Minimum: code.OpMinNaNF32},
	hlo.F16:  {hlo.Maximum: code.OpMaxNaNF16x2, hlo.Minimum: code.OpMinNaNF16x2},
	hlo.BF16: {hlo.Maximum: code.OpMaxNaNBF16x2, hlo.Minimum: code.OpMinNaNBF16x2},
}

// extreme is the larger or the smaller element; NaN if either is.
func (b Scalars) extreme(op hlo.Op, x, y Vec) (Vec, error) {
	t := x.Type
	name := map[hlo.Op]string{hlo.Maximum: "Max", hlo.Minimum: "Min"}[op]
	if t == hlo.Pred {
		return b.Apply(map[hlo.Op]string{hlo.Maximum: "Or", hlo.Minimum: "And"}[op], nil, x, y)
	}
	if native := nanWins[t][op]; native != 0 {
		out := Vec{t, x.N, make([]code.Value, len(x.Words))}
		for i := range out.Words {
			out.Words[i] = b.Op(native, nil, x.Words[i], y.Words[i])
		}
		return out, nil
	}
	v, err := b.Apply(name, nil, x, y)
	if err != nil || !t.IsFloat() {
		return v, err
	}
	nan := b.Constant(t, t.Elem().Encode(math.NaN(), false), 1)
	return b.each(t, x.N, func(in []Vec) Vec {
		var p code.Value
		for _, side := range in[:2] {
			if c, ok := b.ConstOf(side.Words[0]); ok && !math.IsNaN(t.Elem().Decode(c)) && t != hlo.F64 {
				continue
			}
			p = b.Both(p, b.test(code.EQ, side, side))
		}
		if p == 0 {
			return in[2]
		}
		return b.Pick(p, in[2], nan)
	}, x, y, v), nil
}

// divide is division and remainder of whole numbers; by zero it gives all ones, or x.
func (b Scalars) divide(op hlo.Op, x, y Vec) (Vec, error) {
	t := x.Type
	if t.Bits() < 32 {
		var fail error
		v := b.each(t, x.N, func(in []Vec) Vec {
			v, err := b.divide(op, b.Convert(wide[t], in[0]), b.Convert(wide[t], in[1]))
			if err != nil {
				fail = err
				return in[0]
			}
			return b.Convert(t, v)
		}, x, y)
		return v, fail
	}
	name := map[hlo.Op]string{hlo.Divide: "Div", hlo.Remainder: "Mod"}[op]
	var fail error
	one, zero := b.Constant(t, 1, 1), b.Constant(t, 0, 1)
	ones := b.Constant(t, math.MaxUint64, 1)
	out := b.each(t, x.N, func(in []Vec) Vec {
		isZero := b.test(code.EQ, in[1], zero)
		by := b.Pick(isZero, one, in[1])
		rest := in[0]
		if op == hlo.Divide {
			rest = ones
		}
		a := in[0]
		if t.Signed() { // the least number by -1 leaves the type
			minus := b.test(code.EQ, by, ones)
			neg, _ := b.Apply("Neg", nil, a)
			v, err := b.Apply(name, nil, a, b.Pick(minus, one, by))
			if err != nil {
				fail = err
				return a
			}
			if op == hlo.Divide {
				v = b.Pick(minus, neg, v)
			}
			return b.Pick(isZero, rest, v)
		}
		v, err := b.Apply(name, nil, a, by)
		if err != nil {
			fail = err
			return a
		}
		return b.Pick(isZero, rest, v)
	}, x, y)
	return out, fail
}

// power multiplies whole numbers; a negative exponent gives the reciprocal rounded to zero.
func (b Scalars) power(x, y Vec) (Vec, error) {
	t := x.Type
	if t.Bits() < 32 {
		v, err := b.power(b.Convert(wide[t], x), b.Convert(wide[t], y))
		return b.Convert(t, v), err
	}
	one, zero, ones := b.Constant(t, 1, 1), b.Constant(t, 0, 1), b.Constant(t, math.MaxUint64, 1)
	logical := map[hlo.Type]hlo.Type{hlo.S32: hlo.U32, hlo.S64: hlo.U64}[t]
	if logical == 0 {
		logical = t
	}
	var fail error
	out := b.each(t, x.N, func(in []Vec) Vec {
		w := len(one.Words)
		carried := append(append(append([]code.Value{}, one.Words...), in[0].Words...), in[1].Words...)
		words := b.For(b.K(0), b.K(int64(t.Bits())), b.K(1), 1, carried, func(_ code.Value, c []code.Value) []code.Value {
			r, a, n := Vec{t, 1, c[:w]}, Vec{t, 1, c[w : 2*w]}, Vec{logical, 1, c[2*w:]}
			odd := b.SetpU32(code.NE, b.Op(code.OpAnd32, nil, n.Words[0], b.K(1)), b.K(0))
			next, err1 := b.Apply("Mul", nil, r, a)
			square, err2 := b.Apply("Mul", nil, a, a)
			half, err3 := b.shift(hlo.ShiftRightLogical, n, b.Constant(logical, 1, 1))
			if fail = errors.Join(fail, err1, err2, err3); fail != nil {
				return c
			}
			return append(append(append([]code.Value{}, b.Pick(odd, next, r).Words...), square.Words...), half.Words...)
		})
		v := Vec{t, 1, words[:w]}
		if !t.Signed() {
			return v
		}
		odd := b.SetpU32(code.NE, b.Op(code.OpAnd32, nil, in[1].Words[0], b.K(1)), b.K(0))
		turned := b.Pick(odd, ones, one)
		turned = b.Pick(b.test(code.EQ, in[0], ones), turned, zero)
		turned = b.Pick(b.test(code.EQ, in[0], one), one, turned)
		return b.Pick(b.test(code.LT, in[1], zero), turned, v)
	}, x, y)
	return out, fail
}

// shift gives 0, or the sign, from the width on. Counts are taken as unsigned.
func (b Scalars) shift(op hlo.Op, x, y Vec) (Vec, error) {
	t := x.Type
	return b.each(t, x.N, func(in []Vec) Vec {
		w := t.Bits()
		if w == 64 {
			n := b.Op(code.OpMinU64, nil, b.Op(code.OpPack32, nil, in[1].Words[0], in[1].Words[1]), b.Const64(64))
			c := map[hlo.Op]code.Op{hlo.ShiftLeft: code.OpShl64, hlo.ShiftRightLogical: code.OpShrU64, hlo.ShiftRightArithmetic: code.OpShrS64}[op]
			return b.unreg(t, b.Op(c, nil, b.Op(code.OpPack32, nil, in[0].Words[0], in[0].Words[1]), b.Op(code.OpTrunc32, nil, n)))
		}
		n := b.Op(code.OpMinU32, nil, b.Low(in[1].Words[0], w), b.K(32))
		v := b.Low(in[0].Words[0], w)
		if op == hlo.ShiftRightArithmetic && w < 32 {
			v = b.BfeS(in[0].Words[0], 0, w)
		}
		c := map[hlo.Op]code.Op{hlo.ShiftLeft: code.OpShl32, hlo.ShiftRightLogical: code.OpShrU32, hlo.ShiftRightArithmetic: code.OpShrS32}[op]
		return Vec{t, 1, []code.Value{b.Low(b.Op(c, nil, v, n), w)}}
	}, x, y), nil
}

// Combine applies a computation on scalars, such as that of a reduce.
func (b Scalars) Combine(c *hlo.Computation, args []Vec) ([]Vec, error) {
	values := make([]Vec, len(c.Instructions))
	n := args[0].N
	for i, in := range c.Instructions {
		switch in.Op {
		case hlo.Parameter:
			values[i] = args[in.Number]
		case hlo.Constant:
			if in.Value == nil {
				return nil, fmt.Errorf("%s: the value of %s is not known", in.Pos, in.Name)
			}
			values[i] = b.Constant(in.Shape.Type, in.Value.Code(0), n)
		case hlo.Tuple:
		case hlo.Bitcast, hlo.Reshape, hlo.Broadcast, hlo.Transpose:
			values[i] = values[in.Operands[0].Index]
		default:
			var x []Vec
			for _, o := range in.Operands {
				x = append(x, values[o.Index])
			}
			v, err := b.Elementwise(in, x)
			if err != nil {
				return nil, err
			}
			values[i] = v
		}
	}
	var out []Vec
	for _, r := range c.Roots() {
		out = append(out, values[r.Index])
	}
	return out, nil
}
