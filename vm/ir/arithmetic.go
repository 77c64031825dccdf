package ir

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// The rows of this file compute element by element. vm/dtype says what each does
// with one element; the names of exp, log and the like are those of its
// sequences.

const tile16 = " : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"
const tile32 = " : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"
const tileInt = " : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"
const tileBool = " : register bool[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"

var arithmeticRows = []*Op{
	elementwise("Min", "The smaller of x and y. Of floats -0 is below +0, and a NaN loses against a number.", 2, "m = Min(x, y)"+tile16),
	elementwise("Max", "The larger of x and y. Of floats -0 is below +0, and a NaN loses against a number.", 2, "m = Max(x, 0)"+tile16),
	elementwise("Clip", "x held between y and z: Min(Max(x, y), z). A NaN becomes y.", 3, "c = Clip(x, -1.0, 1.0)"+tile16),
	elementwise("Div", "x / y. Floats are the exact quotient rounded once; integers round toward zero, the least signed one divided by -1 is itself, and division by zero is an error on interpreter and simulator.", 2, "q = Div(x, y)"+tile32),
	elementwise("Neg", "-x; of a float the flipped sign.", 1, "n = Neg(x)"+tile16),
	elementwise("Abs", "|x|; of a float the value without its sign, of the least signed integer itself.", 1, "a = Abs(x)"+tile16),
	elementwise("Square", "x · x.", 1, "s = Square(x)"+tile32),
	onTypes(elementwise("Mod", "The remainder of Div on integers, which has the sign of x. By zero it is an error on interpreter and simulator.", 2, "r = Mod(x, 10)"+tileInt), "an integer of 16 to 64 bits", "Floats have no remainder instruction: compute x - Trunc(x / y) · y with the rounding you want.", wholeNumber),
	onTypes(elementwise("And", "The bits that x and y both have; of bools whether both are true.", 2, "b = And(x, 255)"+tileInt), bitTypes, bitWhy, bitwise),
	onTypes(elementwise("Or", "The bits that x or y has; of bools whether one is true.", 2, "b = Or(x, y)"+tileInt), bitTypes, bitWhy, bitwise),
	onTypes(elementwise("Xor", "The bits that one of x and y has; of bools whether they differ.", 2, "b = Xor(x, y)"+tileInt), bitTypes, bitWhy, bitwise),
	onTypes(elementwise("CountOnes", "How many bits of x are 1: with Xor, how many bits two words differ in, which is the product of 1-bit numbers.", 1, "n = CountOnes(x)"+tileInt), "i32 or u32", "Narrower and wider ones are counted as words: View or Cast them.", func(t dtype.Type) bool { return t == dtype.I32 || t == dtype.U32 }),
	onTypes(elementwise("Not", "The bits that x lacks; of bools whether it is false.", 1, "b = Not(x)"+tileInt), bitTypes, bitWhy, bitwise),
	onTypes(elementwise("Shl", "x shifted left by y bits, y being taken without sign; 0 where y is the width of the type or more.", 2, "b = Shl(x, 4)"+tileInt), "an integer of 16 to 64 bits", "", wholeNumber),
	onTypes(elementwise("Shr", "x shifted right by y bits, y being taken without sign. Into signed integers the sign enters, into others 0; where y is the width of the type or more nothing else is left.", 2, "b = Shr(x, 4)"+tileInt), "an integer of 16 to 64 bits", "", wholeNumber),

	comparison("Equal", "x = y. -0 equals +0; a NaN equals nothing.", "c = Equal(x, y)"+tileBool),
	comparison("NotEqual", "x ≠ y; true where one is a NaN.", "c = NotEqual(x, y)"+tileBool),
	comparison("Less", "x < y; false where one is a NaN.", "c = Less(x, 0)"+tileBool),
	comparison("LessEqual", "x ≤ y; false where one is a NaN.", "c = LessEqual(x, y)"+tileBool),
	comparison("Greater", "x > y; false where one is a NaN.", "c = Greater(x, y)"+tileBool),
	comparison("GreaterEqual", "x ≥ y; false where one is a NaN.", "c = GreaterEqual(x, y)"+tileBool),
	{
		Name: "Where", Family: "arithmetic", Class: ClassElementwise,
		Doc: "x where cond is true, else y, element by element." + broadcastDoc,
		In:  []Port{{Name: "cond", Accept: AcceptRegister | AcceptScalar}, {Name: "x", Accept: AcceptRegister | AcceptScalar}, {Name: "y", Accept: AcceptRegister | AcceptScalar}},
		Out: []Port{{Name: "tile", Accept: AcceptRegister}},
		Rules: []Rule{
			{Text: "cond is of bool.", Check: func(p *Program, in *Instr) *Violation {
				if t, _ := elemOf(in.In[0]); t != dtype.Bool {
					return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is %s", in.In[0].Expr, t), Help: "compare it first: NotEqual(x, 0)"}
				}
				return nil
			}},
			{Text: "x, y and the result have one element type.", Check: func(p *Program, in *Instr) *Violation { return oneElem(in.In[1:], in.Out[0].Type.Elem) }},
			ruleWide,
			ruleBroadcasts,
			ruleCover,
		},
		Since: "0.3", Source: tilusDoc, Example: "w = Where(c, x, 0)" + tile16,
	},

	onTypes(elementwise("Sqrt", "The square root of x, rounded once; NaN below 0.", 1, "r = Sqrt(x)"+tile32), floatTypes, "", floats),
	onTypes(elementwise("Round", "x rounded to the nearest whole number, ties to even.", 1, "r = Round(x)"+tile32), floatTypes, "", floats),
	onTypes(elementwise("Floor", "x rounded down to a whole number.", 1, "r = Floor(x)"+tile32), floatTypes, "", floats),
	onTypes(elementwise("Ceil", "x rounded up to a whole number.", 1, "r = Ceil(x)"+tile32), floatTypes, "", floats),
	onTypes(elementwise("Trunc", "x rounded toward zero to a whole number.", 1, "r = Trunc(x)"+tile32), floatTypes, "", floats),

	function("Exp", "e to the power of x."),
	function("Exp2", "2 to the power of x."),
	function("Log", "The natural logarithm of x: -inf at 0, NaN below."),
	function("Log2", "The logarithm of x to base 2: -inf at 0, NaN below."),
	function("Sin", "The sine of x in radians; arguments of any size are reduced exactly."),
	function("Cos", "The cosine of x in radians; arguments of any size are reduced exactly."),
	function("Tanh", "The hyperbolic tangent of x."),
	function("Sigmoid", "1 / (1 + e to the power of -x)."),
	function("Rsqrt", "1 / √x: inf at 0, NaN below."),
}

const broadcastDoc = " Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element."

// elementwise is the row of an arithmetic op with n operands.
func elementwise(name, doc string, n int, example string) *Op {
	ports := []Port{}
	for _, s := range []string{"x", "y", "z"}[:n] {
		ports = append(ports, Port{Name: s, Accept: AcceptRegister | AcceptScalar})
	}
	return &Op{
		Name: name, Family: "arithmetic", Class: ClassElementwise,
		Doc: doc + broadcastDoc + " Floats round once to nearest even, integers wrap.",
		In:  ports, Out: []Port{{Name: "tile", Accept: AcceptRegister}},
		Rules: []Rule{
			{Text: "Operands and result have one element type.", Check: func(p *Program, in *Instr) *Violation { return oneElem(in.In, in.Out[0].Type.Elem) }},
			ruleWide,
			ruleBroadcasts,
			ruleCover,
		},
		Since: "0.1", Source: paper + " Table 1", Example: example,
	}
}

const (
	floatTypes = "f16, bf16, f32 or f64"
	bitTypes   = "an integer of 16 to 64 bits, or bool"
	bitWhy     = "View a float as an integer of its width to work on its bits."
)

func floats(t dtype.Type) bool {
	return t == dtype.F16 || t == dtype.BF16 || t == dtype.F32 || t == dtype.F64
}

func wholeNumber(t dtype.Type) bool { return t.IsInt() && t.Bits() >= 16 }

func bitwise(t dtype.Type) bool { return wholeNumber(t) || t == dtype.Bool }

// onTypes narrows the element types of a row.
func onTypes(op *Op, which, why string, ok func(dtype.Type) bool) *Op {
	op.Rules[1] = Rule{Text: "The element type is " + which + ".", Why: why, Check: func(p *Program, in *Instr) *Violation {
		if t := in.Out[0].Type.Elem; !ok(t) {
			return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s of %s", in.Op.Name, t), Help: "the element type is " + which + "; Cast (value) or View (bits) first"}
		}
		return nil
	}}
	return op
}

// function is the row of a function that vm/dtype has as a sequence.
func function(name, doc string) *Op {
	s, fast := dtype.SequenceOf(name, false), dtype.SequenceOf(name, true)
	op := elementwise(name, doc, 1, fmt.Sprintf("r = %s(x)%s", name, tile32))
	op.Doc = fmt.Sprintf("%s A fixed sequence of f32 steps, bit-equal on all machines and within %s of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: %s.%s", doc, s.Bound, fast.Bound, broadcastDoc)
	op.Attrs = []AttrSpec{{Name: "approx", Kind: AttrWord, Words: []string{"true"}, Doc: "true: use the machine's approximation, which is faster and less exact"}}
	op.Since, op.Source = "0.3", "vm/dtype sequences; PTX ISA 9.7.3 for approx"
	return onTypes(op, "f16, bf16 or f32", "The sequences are of f32 steps.", func(t dtype.Type) bool { return floats(t) && t != dtype.F64 })
}

// comparison is the row of an op from two numbers to a bool.
func comparison(name, doc, example string) *Op {
	op := elementwise(name, doc, 2, example)
	op.Doc = doc + broadcastDoc
	op.Rules = []Rule{
		{Text: "An operand is a register tensor, and both have its element type, which has at least 16 bits.", Check: func(p *Program, in *Instr) *Violation {
			t, ok := TileElem(in.In)
			switch {
			case !ok:
				return &Violation{Msg: "no operand is a register tensor", Help: "scalars compare in expressions: x < y"}
			case t.Bits() < 16 || t == dtype.TF32:
				return narrow(in.In[0].Pos, t)
			}
			return oneElem(in.In, t)
		}},
		{Text: "The result is of bool.", Check: func(p *Program, in *Instr) *Violation {
			if t := in.Out[0].Type.Elem; t != dtype.Bool {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the result is of %s", t), Help: "Where makes numbers of bools"}
			}
			return nil
		}},
		ruleBroadcasts,
		ruleCover,
	}
	op.Since, op.Source = "0.3", tilusDoc
	return op
}

// TileElem is the element type of the first register tensor among operands.
func TileElem(in []Operand) (dtype.Type, bool) {
	for _, o := range in {
		if v := o.Var(); v != nil && v.Type.IsRegister() {
			return v.Type.Elem, true
		}
	}
	return 0, false
}

// elemOf is the element type of a tensor or scalar operand, and whether a literal
// leaves it open.
func elemOf(o Operand) (t dtype.Type, fixed bool) {
	if v := o.Var(); v != nil {
		return v.Type.Elem, true
	}
	return TypeOf(o.Expr, func(diag.Pos, string, string, string) {})
}

// oneElem finds an operand of another type.
func oneElem(in []Operand, want dtype.Type) *Violation {
	for _, o := range in {
		got, fixed := elemOf(o)
		if fixed && got != want || !fixed && (got.IsFloat() && !want.IsFloat() || want == dtype.Bool) {
			return &Violation{Pos: o.Pos, Msg: fmt.Sprintf("%s is %s, the result %s", o.Expr, got, want), Help: fmt.Sprintf("Cast it to %s first", want)}
		}
	}
	return nil
}

func narrow(pos diag.Pos, t dtype.Type) *Violation {
	return &Violation{Pos: pos, Msg: fmt.Sprintf("%s has no arithmetic", t), Help: "Cast to f16, bf16, f32 or i32 first"}
}

var ruleWide = Rule{Text: "The element type has at least 16 bits.", Why: "Narrower types have no arithmetic; they are stored, viewed and cast.", Check: func(p *Program, in *Instr) *Violation {
	if t := in.Out[0].Type.Elem; t.Bits() < 16 || t == dtype.TF32 {
		return narrow(in.typePos(0), t)
	}
	return nil
}}

var ruleBroadcasts = Rule{Text: "Each operand's shape broadcasts to the result's.", Check: func(p *Program, in *Instr) *Violation {
	out, _ := in.Out[0].Type.Dims()
	for _, o := range in.In {
		if v := o.Var(); v != nil && v.Type.IsRegister() {
			if dims, _ := v.Type.Dims(); !broadcasts(dims, out) {
				return &Violation{Pos: o.Pos, Msg: fmt.Sprintf("%s is %v, the result %v", v.Name, dims, out), Help: "extents agree, or are 1 in the operand"}
			}
		}
	}
	return nil
}}

var ruleCover = Rule{Text: "Every thread holds the operand elements that its result elements need.", Why: "Element-wise instructions move nothing between threads.", Check: checkCover}
