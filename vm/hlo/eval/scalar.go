package eval

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Func computes an element from elements, all as codes of vm/dtype.
type Func func(args []uint64) uint64

// sequences are the functions that vm/dtype defines step by step, so that all machines
// agree on every bit of f32, f16 and bf16.
var sequences = map[hlo.Op]string{hlo.Exp: "Exp", hlo.Log: "Log", hlo.Tanh: "Tanh", hlo.Sine: "Sin", hlo.Cosine: "Cos", hlo.Rsqrt: "Rsqrt", hlo.Logistic: "Sigmoid"}

// real are functions in float64; the result is rounded once.
var real = map[hlo.Op]func(float64) float64{
	hlo.Exp: math.Exp, hlo.Expm1: math.Expm1, hlo.Log: math.Log, hlo.Log1p: math.Log1p, hlo.Tanh: math.Tanh, hlo.Erf: math.Erf,
	hlo.Logistic: func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	hlo.Rsqrt:    func(x float64) float64 { return 1 / math.Sqrt(x) },
	hlo.Cbrt:     math.Cbrt, hlo.Sine: math.Sin, hlo.Cosine: math.Cos, hlo.Tan: math.Tan, hlo.RoundAway: math.Round,
	hlo.Acos: math.Acos, hlo.Acosh: math.Acosh, hlo.Asin: math.Asin, hlo.Asinh: math.Asinh, hlo.Atanh: math.Atanh, hlo.Cosh: math.Cosh, hlo.Sinh: math.Sinh,
}

// Sequence is the name of the sequence of vm/dtype that defines an operation on f32,
// f16 and bf16, or "" where the definition is the float64 function, rounded once.
func Sequence(op hlo.Op) string { return sequences[op] }

// Scalar is the meaning of an element-wise instruction on elements. The error says
// that it has none, such as on complex numbers.
func Scalar(in *hlo.Instruction) (Func, error) {
	op, out := in.Op, in.Shape.Type
	from := out
	if len(in.Operands) > 0 {
		from = in.Operands[0].Shape.Type
	}
	t := from.Elem()
	none := func() (Func, error) {
		return nil, fmt.Errorf("%s: %s on %s cannot be computed", in.Pos, op, from)
	}
	if t == 0 || out.Elem() == 0 {
		if op == hlo.Copy {
			return func(a []uint64) uint64 { return a[0] }, nil
		}
		return none()
	}
	if out == from && (out == hlo.F8E4M3FN || out == hlo.F8E5M2) && throughF32[op] {
		return inF32(in)
	}
	unary := func(f func(dtype.Type, uint64) uint64) (Func, error) {
		return func(a []uint64) uint64 { return f(t, a[0]) }, nil
	}
	binary := func(f func(t dtype.Type, a, b uint64) uint64) (Func, error) {
		return func(a []uint64) uint64 { return f(t, a[0], a[1]) }, nil
	}
	isPred, isFloat := from == hlo.Pred, from.IsFloat()
	switch op {
	case hlo.Copy:
		return func(a []uint64) uint64 { return a[0] }, nil
	case hlo.BitcastConvert:
		if from == hlo.Pred || out == hlo.Pred {
			return none()
		}
		return func(a []uint64) uint64 { return a[0] }, nil
	case hlo.Convert:
		return func(a []uint64) uint64 { return Convert(out, from, a[0]) }, nil
	case hlo.Negate:
		return unary(dtype.Neg)
	case hlo.Abs:
		return unary(dtype.Abs)
	case hlo.Not:
		return unary(dtype.Not)
	case hlo.Sqrt:
		return unary(dtype.Sqrt)
	case hlo.Floor:
		return unary(dtype.Floor)
	case hlo.Ceil:
		return unary(dtype.Ceil)
	case hlo.RoundEven:
		return unary(dtype.RoundEven)
	case hlo.Sign:
		return func(a []uint64) uint64 {
			zero := t.Encode(0, false)
			switch {
			case dtype.Less(t, zero, a[0]):
				return one(t)
			case dtype.Less(t, a[0], zero):
				return dtype.Neg(t, one(t))
			}
			return a[0]
		}, nil
	case hlo.IsFinite:
		return func(a []uint64) uint64 {
			v := t.Decode(a[0])
			return truth(!math.IsNaN(v) && !math.IsInf(v, 0))
		}, nil
	case hlo.Popcnt:
		return func(a []uint64) uint64 { return uint64(bits.OnesCount64(a[0])) }, nil
	case hlo.CountLeadingZeros:
		return func(a []uint64) uint64 { return uint64(bits.LeadingZeros64(a[0]) - 64 + t.Bits()) }, nil
	case hlo.ReducePrecision:
		return func(a []uint64) uint64 {
			return t.Encode(reducePrecision(t.Decode(a[0]), in.Sizes[0], in.Sizes[1]), false)
		}, nil
	case hlo.Add:
		if isPred {
			return binary(dtype.Or)
		}
		return binary(dtype.Add)
	case hlo.Subtract:
		return binary(dtype.Sub)
	case hlo.Multiply:
		if isPred {
			return binary(dtype.And)
		}
		return binary(dtype.Mul)
	case hlo.Divide:
		if isFloat {
			return binary(dtype.Div)
		}
		return binary(divide)
	case hlo.Remainder:
		if isFloat {
			return binary(dtype.Mod)
		}
		return binary(func(t dtype.Type, a, b uint64) uint64 {
			if b == 0 {
				return a
			}
			return dtype.Mod(t, a, b)
		})
	case hlo.Maximum:
		if isPred {
			return binary(dtype.Or)
		}
		return binary(Maximum)
	case hlo.Minimum:
		if isPred {
			return binary(dtype.And)
		}
		return binary(Minimum)
	case hlo.And:
		return binary(dtype.And)
	case hlo.Or:
		return binary(dtype.Or)
	case hlo.Xor:
		return binary(dtype.Xor)
	case hlo.ShiftLeft:
		return binary(dtype.Shl)
	case hlo.ShiftRightArithmetic, hlo.ShiftRightLogical:
		kind := map[bool]string{true: "i", false: "u"}[op == hlo.ShiftRightArithmetic]
		same, err := dtype.Parse(fmt.Sprint(kind, t.Bits()))
		if err != nil {
			return nil, err
		}
		return func(a []uint64) uint64 { return dtype.Shr(same, a[0], a[1]) }, nil
	case hlo.Power:
		if isFloat {
			return func(a []uint64) uint64 { return t.Encode(math.Pow(t.Decode(a[0]), t.Decode(a[1])), false) }, nil
		}
		return binary(power)
	case hlo.Atan2:
		return func(a []uint64) uint64 { return t.Encode(math.Atan2(t.Decode(a[0]), t.Decode(a[1])), false) }, nil
	case hlo.Compare:
		for _, e := range in.Extra {
			if e.Name == "type" && strings.Contains(e.Text, "TOTALORDER") {
				return nil, fmt.Errorf("%s: a compare of type TOTALORDER cannot be computed", in.Pos)
			}
		}
		direction := in.Direction
		return func(a []uint64) uint64 { return truth(compare(t, direction, a[0], a[1])) }, nil
	case hlo.Select:
		return func(a []uint64) uint64 {
			if a[0] != 0 {
				return a[1]
			}
			return a[2]
		}, nil
	case hlo.Clamp:
		return func(a []uint64) uint64 { return Minimum(t, Maximum(t, a[0], a[1]), a[2]) }, nil
	case hlo.Map:
		return apply1(in)
	}
	if name := sequences[op]; name != "" && from != hlo.F64 {
		s := dtype.SequenceOf(name, false)
		if from == hlo.F32 || from == hlo.F16 || from == hlo.BF16 {
			return func(a []uint64) uint64 { return s.EvalAs(t, a[0]) }, nil
		}
		return func(a []uint64) uint64 {
			return Convert(from, hlo.F32, s.Eval(Convert(hlo.F32, from, a[0])))
		}, nil
	}
	if f := real[op]; f != nil {
		return func(a []uint64) uint64 { return t.Encode(f(t.Decode(a[0])), false) }, nil
	}
	return none()
}

// throughF32 are the operations that floats of 8 bits compute in f32; the result is
// converted, so that beyond the range is infinity or NaN.
var throughF32 = map[hlo.Op]bool{hlo.Add: true, hlo.Subtract: true, hlo.Multiply: true, hlo.Divide: true, hlo.Remainder: true, hlo.Maximum: true, hlo.Minimum: true,
	hlo.Sign: true, hlo.Floor: true, hlo.Ceil: true, hlo.RoundEven: true, hlo.Sqrt: true}

func inF32(in *hlo.Instruction) (Func, error) {
	t := in.Shape.Type
	wide := *in
	wide.Shape.Type = hlo.F32
	wide.Operands = nil
	for _, o := range in.Operands {
		x := *o
		x.Shape.Type = hlo.F32
		wide.Operands = append(wide.Operands, &x)
	}
	f, err := Scalar(&wide)
	if err != nil {
		return nil, err
	}
	args := make([]uint64, len(in.Operands))
	return func(a []uint64) uint64 {
		for i := range args {
			args[i] = Convert(hlo.F32, t, a[i])
		}
		return Convert(t, hlo.F32, f(args))
	}, nil
}

func truth(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

func one(t dtype.Type) uint64 {
	if t.IsFloat() {
		return t.Encode(1, false)
	}
	return t.EncodeInt(1, false)
}

func nan(t dtype.Type, a uint64) bool { return t.IsFloat() && math.IsNaN(t.Decode(a)) }

// Maximum is the larger element; NaN if either is.
func Maximum(t dtype.Type, a, b uint64) uint64 {
	switch {
	case nan(t, a):
		return t.Encode(math.NaN(), false)
	case nan(t, b):
		return t.Encode(math.NaN(), false)
	}
	return dtype.Max(t, a, b)
}

// Minimum is the smaller element; NaN if either is.
func Minimum(t dtype.Type, a, b uint64) uint64 {
	if nan(t, a) || nan(t, b) {
		return t.Encode(math.NaN(), false)
	}
	return dtype.Min(t, a, b)
}

// divide on whole numbers: by zero it gives all ones.
func divide(t dtype.Type, a, b uint64) uint64 {
	if b == 0 {
		return dtype.Not(t, 0)
	}
	return dtype.Div(t, a, b)
}

// power on whole numbers wraps; a negative exponent gives the reciprocal rounded to zero.
func power(t dtype.Type, a, b uint64) uint64 {
	unit := one(t)
	if t.Signed() && t.DecodeInt(b) < 0 {
		switch {
		case a == unit:
			return unit
		case a == dtype.Neg(t, unit):
			if b&1 == 0 {
				return unit
			}
			return a
		}
		return 0
	}
	out := unit
	for ; b != 0; b >>= 1 {
		if b&1 == 1 {
			out = dtype.Mul(t, out, a)
		}
		a = dtype.Mul(t, a, a)
	}
	return out
}

func compare(t dtype.Type, direction string, a, b uint64) bool {
	switch direction {
	case "EQ":
		return dtype.Equal(t, a, b)
	case "NE":
		return !dtype.Equal(t, a, b)
	case "LT":
		return dtype.Less(t, a, b)
	case "GT":
		return dtype.Less(t, b, a)
	case "LE":
		return dtype.Less(t, a, b) || dtype.Equal(t, a, b)
	}
	return dtype.Less(t, b, a) || dtype.Equal(t, a, b)
}

// Convert is an element in another type: to floats rounded to nearest even, beyond
// their range infinity or, where there is none, NaN; from floats to whole numbers
// toward zero with saturation, NaN to 0; between whole numbers modulo 2^bits; to pred
// whether it is not 0.
func Convert(to, from hlo.Type, code uint64) uint64 {
	t, f := to.Elem(), from.Elem()
	switch {
	case to == from:
		return code
	case to == hlo.Pred:
		return truth(!dtype.Equal(f, code, f.Encode(0, false)))
	case from == hlo.Pred:
		if code != 0 {
			return one(t)
		}
		return t.Encode(0, false)
	case to.IsFloat() && from.IsFloat():
		return t.Encode(f.Decode(code), false)
	case to.IsFloat():
		if t.Bits() == 8 {
			v := f.DecodeInt(code)
			if !from.Signed() && v < 0 { // 2^63 and more
				return t.Encode(math.Inf(1), false)
			}
			return t.Encode(float64(max(-1<<40, min(v, 1<<40))), false)
		}
		return dtype.Cast(t, f, code)
	case from.IsFloat():
		return dtype.Cast(t, f, code)
	}
	return t.EncodeInt(f.DecodeInt(code), false)
}

// reducePrecision rounds to fewer bits of exponent and mantissa; what is too small for
// a normal number becomes zero.
func reducePrecision(v float64, exponent, mantissa int) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	frac, e := math.Frexp(v) // |frac| in [1/2, 1)
	scale := math.Ldexp(1, mantissa+1)
	v = math.Ldexp(math.RoundToEven(frac*scale)/scale, e)
	_, e = math.Frexp(v)
	bias := 1<<(exponent-1) - 1
	switch {
	case e-1 > bias:
		return math.Inf(int(math.Copysign(1, v)))
	case e-1 < 1-bias:
		return math.Copysign(0, v)
	}
	return v
}

// Apply is a computation on scalars, such as that of a reduce: from the codes of its
// parameters to those of its results.
func Apply(c *hlo.Computation) (func(args, out []uint64), error) {
	type step struct {
		f    Func
		from []int // indices of operands
	}
	steps := make([]step, len(c.Instructions))
	values := make([]uint64, len(c.Instructions))
	for i, in := range c.Instructions {
		switch in.Op {
		case hlo.Parameter:
			if len(in.Shape.Dims) > 0 || in.Shape.IsTuple() {
				return nil, fmt.Errorf("%s: %s is no scalar", in.Pos, in.Name)
			}
		case hlo.Constant:
			if in.Value == nil || in.Shape.Elements() != 1 {
				return nil, fmt.Errorf("%s: the value of %s is not known", in.Pos, in.Name)
			}
			values[i] = in.Value.Code(0)
		case hlo.Tuple:
			if in != c.Root {
				return nil, fmt.Errorf("%s: a tuple inside a scalar computation", in.Pos)
			}
		default:
			if len(in.Shape.Dims) > 0 {
				return nil, fmt.Errorf("%s: %s is no scalar", in.Pos, in.Name)
			}
			if in.Op == hlo.Bitcast || in.Op == hlo.Reshape || in.Op == hlo.Broadcast || in.Op == hlo.Transpose {
				steps[i].f = func(a []uint64) uint64 { return a[0] }
			} else {
				f, err := Scalar(in)
				if err != nil {
					return nil, err
				}
				steps[i].f = f
			}
			for _, o := range in.Operands {
				steps[i].from = append(steps[i].from, o.Index)
			}
		}
	}
	var outs []int
	for _, r := range c.Roots() {
		outs = append(outs, r.Index)
	}
	params := make([]int, len(c.Params))
	for i, p := range c.Params {
		params[i] = p.Index
	}
	scratch := make([]uint64, 0, 8)
	return func(args, out []uint64) {
		for i, p := range params {
			values[p] = args[i]
		}
		for i := range steps {
			s := &steps[i]
			if s.f == nil {
				continue
			}
			scratch = scratch[:0]
			for _, k := range s.from {
				scratch = append(scratch, values[k])
			}
			values[i] = s.f(scratch)
		}
		for i, k := range outs {
			out[i] = values[k]
		}
	}, nil
}

func apply1(in *hlo.Instruction) (Func, error) {
	f, err := Apply(in.Apply)
	if err != nil {
		return nil, err
	}
	out := make([]uint64, 1)
	return func(a []uint64) uint64 {
		f(a, out)
		return out[0]
	}, nil
}
