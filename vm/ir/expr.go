package ir

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Expr is a scalar expression: *Int, *Float, *Ref, *Unary, *Binary
// or *Select. Integer
// division and remainder are floor (the remainder has the divisor's sign);
// division by zero and overflow of the expression's type are run-time errors.
type Expr interface {
	Position() diag.Pos
	String() string
	prec() int
}

// Int is an integer literal; it takes the integer type its context needs.
type Int struct {
	Value int64
	Pos   diag.Pos
}

// Float is a floating-point literal.
type Float struct {
	Value float64
	Pos   diag.Pos
}

// Ref names a variable.
type Ref struct {
	Var *Var
	Pos diag.Pos
}

// Unary is -x or !x.
type Unary struct {
	Op  string
	X   Expr
	Pos diag.Pos
}

// Binary is x op y with op one of || && == != < <= > >= + - | ^ * / % & << >>, and
// min or max, which print as calls. Shifts drop the bits that leave the type, and
// by 32 or more, or by less than 0, all of them; >> of an i32 repeats the sign.
type Binary struct {
	Op   string
	X, Y Expr
	Pos  diag.Pos // of the operator
}

// NewInt and NewRef make expressions without a position.
func NewInt(n int64) *Int  { return &Int{Value: n} }
func NewRef(v *Var) *Ref   { return &Ref{Var: v} }
func (e *Int) prec() int   { return precAtom }
func (e *Float) prec() int { return precAtom }
func (e *Ref) prec() int   { return precAtom }
func (e *Unary) prec() int { return precUnary }
func (e *Binary) prec() int {
	if e.Op == "min" || e.Op == "max" {
		return precAtom
	}
	return BinaryPrec(e.Op)
}

const (
	precUnary = 6
	precAtom  = 7
)

// BinaryPrec is the precedence of a binary operator, 1 (loosest) to 5, or 0 for
// anything else. Operators of one level associate to the left.
func BinaryPrec(op string) int {
	switch op {
	case "||":
		return 1
	case "&&":
		return 2
	case "==", "!=", "<", "<=", ">", ">=":
		return 3
	case "+", "-", "|", "^":
		return 4
	case "*", "/", "%", "&", "<<", ">>":
		return 5
	}
	return 0
}

// Position is where the expression is written.
func (e *Int) Position() diag.Pos { return e.Pos }

// Position is where the expression is written.
func (e *Float) Position() diag.Pos { return e.Pos }

// Position is where the expression is written.
func (e *Ref) Position() diag.Pos { return e.Pos }

// Position is where the expression is written.
func (e *Unary) Position() diag.Pos { return e.Pos }

// Position is where the left operand is written.
func (e *Binary) Position() diag.Pos {
	if p := e.X.Position(); p.Known() {
		return p
	}
	return e.Pos
}

func (e *Int) String() string { return strconv.FormatInt(e.Value, 10) }
func (e *Ref) String() string { return e.Var.Name }

// String prints the shortest decimal that reads back as the same float, always
// with a point or an exponent.
func (e *Float) String() string { return FormatFloat(e.Value) }

// FormatFloat prints a float literal of program text.
func FormatFloat(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return map[bool]string{true: "inf", false: "-inf"}[v > 0]
	}
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func (e *Unary) String() string {
	if e.X.prec() < precUnary {
		return e.Op + "(" + e.X.String() + ")"
	}
	return e.Op + e.X.String()
}

func (e *Binary) String() string {
	if e.prec() == precAtom {
		return e.Op + "(" + e.X.String() + ", " + e.Y.String() + ")"
	}
	wrap := func(x Expr, tight bool) string {
		if p := x.prec(); p < e.prec() || tight && p == e.prec() || e.prec() == 3 && p == 3 {
			return "(" + x.String() + ")"
		}
		return x.String()
	}
	sep := " "
	if e.Op == "*" || e.Op == "/" {
		sep = ""
	}
	return wrap(e.X, false) + sep + e.Op + sep + wrap(e.Y, true)
}

// ConstInt is the value of an expression of integer literals; ok is false when
// it names a variable, overflows, or divides by zero.
func ConstInt(e Expr) (n int64, ok bool) {
	switch e := e.(type) {
	case *Int:
		return e.Value, true
	case *Ref:
		return 0, false
	case *Binary: // most often of a variable, for which there would be an error
		if ref(e.X) || ref(e.Y) && e.Op != "&&" && e.Op != "||" {
			return 0, false
		}
	}
	n, err := EvalInt(e, func(*Var) (int64, bool) { return 0, false })
	return n, err == nil
}

// ref reports an expression that is a variable, or computed from one first.
func ref(e Expr) bool {
	switch e := e.(type) {
	case *Ref:
		return true
	case *Binary:
		return ref(e.X)
	case *Unary:
		return ref(e.X)
	}
	return false
}

// EvalError says why an integer expression has no value, and where.
type EvalError struct {
	Pos diag.Pos
	Msg string
}

func (e *EvalError) Error() string {
	return diag.Problem{Pos: e.Pos, Msg: e.Msg, Code: "Expr.R1"}.Error()
}

// EvalInt computes an integer or boolean (0 or 1) expression; value gives the
// variables. Each result is checked against the type of its sub-expression:
// overflow and division by zero are an *EvalError.
func EvalInt(e Expr, value func(*Var) (int64, bool)) (int64, error) {
	switch e := e.(type) {
	case *Int:
		return e.Value, nil
	case *Float:
		return 0, &EvalError{e.Pos, fmt.Sprintf("%s is not an integer", e)}
	case *Ref:
		if n, ok := value(e.Var); ok {
			return n, nil
		}
		return 0, &EvalError{e.Pos, fmt.Sprintf("%s has no value here", e.Var.Name)}
	case *Unary:
		x, err := EvalInt(e.X, value)
		if err != nil {
			return 0, err
		}
		if e.Op == "!" {
			return b2i(x == 0), nil
		}
		t, _ := TypeOf(e, func(diag.Pos, string, string, string) {})
		if x == math.MinInt64 || !CheckRange(t, -x) {
			return 0, &EvalError{e.Pos, fmt.Sprintf("integer overflow: -(%d) is no %s", x, t)}
		}
		return -x, nil
	case *Binary:
		x, err := EvalInt(e.X, value)
		if err != nil {
			return 0, err
		}
		if e.Op == "&&" && x == 0 || e.Op == "||" && x != 0 {
			return b2i(x != 0), nil
		}
		y, err := EvalInt(e.Y, value)
		if err != nil {
			return 0, err
		}
		n, ok := evalBinary(e.Op, x, y)
		if !ok {
			if y == 0 && (e.Op == "/" || e.Op == "%") {
				text := fmt.Sprintf("division by zero: the divisor of %s is 0", e)
				if n, ok := e.Y.(*Int); !ok || n.Value != 0 {
					text = fmt.Sprintf("division by zero: in %s, %s is 0", e, e.Y)
				}
				return 0, &EvalError{e.Pos, text}
			}
			return 0, &EvalError{e.Pos, fmt.Sprintf("integer overflow: %d %s %d", x, e.Op, y)}
		}
		if n < 0 || n > math.MaxInt32 {
			t, _ := TypeOf(e, func(diag.Pos, string, string, string) {})
			switch {
			case e.Op == "<<" && t == dtype.U32:
				return int64(uint32(n)), nil
			case e.Op == "<<" && t == dtype.I32:
				return int64(int32(n)), nil
			case !CheckRange(t, n):
				return 0, &EvalError{e.Pos, fmt.Sprintf("integer overflow: %d %s %d is no %s", x, e.Op, y, t)}
			}
		}
		return n, nil
	case *Select:
		x, err := e.Chosen(value)
		if err != nil {
			return 0, err
		}
		return EvalInt(x, value)
	}
	panic(fmt.Sprintf("ir: no such expression %T", e))
}

func evalBinary(op string, x, y int64) (int64, bool) {
	switch op {
	case "||":
		return b2i(x != 0 || y != 0), true
	case "&&":
		return b2i(x != 0 && y != 0), true
	case "==":
		return b2i(x == y), true
	case "!=":
		return b2i(x != y), true
	case "<":
		return b2i(x < y), true
	case "<=":
		return b2i(x <= y), true
	case ">":
		return b2i(x > y), true
	case ">=":
		return b2i(x >= y), true
	case "&":
		return x & y, true
	case "|":
		return x | y, true
	case "^":
		return x ^ y, true
	case "<<":
		if y < 0 || y > 31 {
			return 0, true
		}
		return x << y, true
	case ">>":
		if y < 0 || y > 31 {
			y = 63
		}
		return x >> y, true
	case "min":
		return min(x, y), true
	case "max":
		return max(x, y), true
	case "+":
		n := x + y
		return n, (n > x) == (y > 0)
	case "-":
		n := x - y
		return n, (n < x) == (y > 0)
	case "*":
		if x == 0 || y == 0 {
			return 0, true
		}
		n := x * y
		return n, n/y == x && !(x == -1 && y == math.MinInt64) && !(y == -1 && x == math.MinInt64)
	case "/", "%":
		if y == 0 || x == math.MinInt64 && y == -1 {
			return 0, false
		}
		q, r := x/y, x%y
		if r != 0 && (r < 0) != (y < 0) {
			q, r = q-1, r+y
		}
		if op == "/" {
			return q, true
		}
		return r, true
	}
	panic("ir: no such operator " + op)
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// CheckRange reports whether n is a value of the integer type t.
func CheckRange(t dtype.Type, n int64) bool {
	if t == dtype.Bool {
		return n == 0 || n == 1
	}
	if t == dtype.U64 {
		return n >= 0
	}
	return t == dtype.I64 || float64(n) >= t.Min() && float64(n) <= t.Max()
}

const noArithmetic = "arithmetic on floats and on 64-bit and low-bit values is done on register tensors, by instructions"

// TypeOf is the scalar type of an expression and whether it is fixed: an integer
// literal alone is i32 but fits any integer type, a float literal f32 but any
// float type. The problem, if the parts do not fit, goes to report.
func TypeOf(e Expr, report func(pos diag.Pos, code, help, msg string)) (t dtype.Type, fixed bool) {
	switch e := e.(type) {
	case *Int:
		if e.Value > math.MaxInt32 || e.Value < math.MinInt32 {
			return dtype.I64, false
		}
		return dtype.I32, false
	case *Float:
		return dtype.F32, false
	case *Ref:
		if e.Var.Type.Kind != Scalar {
			report(e.Pos, "Expr.C1", "only scalars can be computed with in expressions; tensors go through instructions",
				fmt.Sprintf("%s is a %s, not a scalar", e.Var.Name, e.Var.Type))
			return dtype.I32, false
		}
		return e.Var.Type.Elem, true
	case *Unary:
		t, fixed := TypeOf(e.X, report)
		if e.Op == "!" {
			if t != dtype.Bool {
				report(e.Pos, "Expr.C3", "compare first: x != 0", fmt.Sprintf("! needs a bool, %s is %s", e.X, t))
			}
			return dtype.Bool, true
		}
		if t == dtype.Bool {
			report(e.Pos, "Expr.C2", "", fmt.Sprintf("- needs a number, %s is a bool", e.X))
		} else if _, literal := e.X.(*Float); !literal && t.IsFloat() || fixed && t == dtype.I64 {
			report(e.Pos, "Expr.C2", noArithmetic, fmt.Sprintf("- needs i32 or u32, %s is %s", e.X, t))
		}
		return t, fixed
	case *Binary:
		xt, xf := TypeOf(e.X, report)
		yt, yf := TypeOf(e.Y, report)
		if e.Op == "&&" || e.Op == "||" {
			if xt != dtype.Bool || yt != dtype.Bool {
				report(e.Pos, "Expr.C3", "compare first: x != 0", fmt.Sprintf("%s needs bools, has %s and %s", e.Op, xt, yt))
			}
			return dtype.Bool, true
		}
		t, ok := joined(e.Pos, e.Op, e.X, e.Y, xt, yt, xf, yf, report)
		fixed := xf || yf
		switch {
		case !ok:
		case t == dtype.Bool && (e.Op == "==" || e.Op == "!="):
		case t == dtype.Bool, t.IsFloat(), t == dtype.I64 && fixed:
			report(e.Pos, "Expr.C2", noArithmetic,
				fmt.Sprintf("%s needs i32 or u32, has %s", e.Op, t))
		}
		if BinaryPrec(e.Op) == 3 {
			return dtype.Bool, true
		}
		return t, fixed
	case *Select:
		return e.typeOf(report)
	}
	panic(fmt.Sprintf("ir: no such expression %T", e))
}

// fits reports whether an expression of literals, of type t by itself, can take
// the type want. One that has no value fits nothing; Verify reports it.
func fits(e Expr, t, want dtype.Type) bool {
	if t.IsFloat() || want.IsFloat() || t == dtype.Bool {
		return true
	}
	n, ok := ConstInt(e)
	return !ok || CheckRange(want, n)
}

// constantErrors reports the parts of an expression that are computed of
// literals and have no value, and divisions by a literal 0. What can be known
// before the program runs is not left to it.
func constantErrors(e Expr, report func(*EvalError)) (constant bool) {
	switch e := e.(type) {
	case *Int:
		return true
	case *Unary:
		if e.Op == "-" {
			if _, ok := e.X.(*Float); ok {
				return false
			}
		}
		constant = constantErrors(e.X, report)
	case *Binary:
		x, y := constantErrors(e.X, report), constantErrors(e.Y, report)
		constant = x && y
		if n, ok := ConstInt(e.Y); !constant && ok && n == 0 && (e.Op == "/" || e.Op == "%") {
			report(&EvalError{e.Pos, fmt.Sprintf("division by zero: the divisor of %s is 0", e)})
			return false
		}
	case *Select:
		c, x, y := constantErrors(e.Cond, report), constantErrors(e.X, report), constantErrors(e.Y, report)
		constant = c && x && y
	default:
		return false
	}
	if constant {
		_, err := EvalInt(e, func(*Var) (int64, bool) { return 0, false })
		if bad, ok := err.(*EvalError); ok {
			report(bad)
			return false
		}
	}
	return constant
}

// Refs calls f for every variable the expression names.
func Refs(e Expr, f func(*Ref)) {
	switch e := e.(type) {
	case *Ref:
		f(e)
	case *Unary:
		Refs(e.X, f)
	case *Binary:
		Refs(e.X, f)
		Refs(e.Y, f)
	case *Select:
		Refs(e.Cond, f)
		Refs(e.X, f)
		Refs(e.Y, f)
	}
}

// String prints the type as program text does: "f16", "*u8",
// "global f16[M, K]", "shared f16[64, 32] shared_row_major(64, 32)",
// "register i6[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)".
func (t Type) String() string {
	switch t.Kind {
	case Scalar:
		return t.Elem.String()
	case Pointer:
		return "*" + t.Elem.String()
	}
	var room [256]byte
	b := append(append(append(room[:0], t.Space.String()...), ' '), t.Elem.String()...)
	for i, e := range t.Shape {
		b = append(append(b, []string{"[", ", "}[min(i, 1)]...), e.String()...)
	}
	if len(t.Shape) == 0 {
		b = append(b, '[')
	}
	b = append(b, ']')
	switch {
	case t.HasLayout && t.Space == Shared:
		b = append(append(b, ' '), t.Shared.String()...)
	case t.HasLayout:
		b = append(append(b, ' '), t.Layout.String()...)
	}
	if t.HasPlace {
		b = append(append(b, " place="...), t.Place.String()...)
	}
	return string(b)
}
