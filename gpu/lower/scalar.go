package lower

import (
	"math"
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// scalar computes a scalar expression as a value of type t: b32 for integers,
// pred for bool, and the float's own width for what names a float.
func (l *lowerer) scalar(e ir.Expr, t dtype.Type) code.Value {
	if s, ok := e.(*ir.Select); ok {
		return l.choice(s, t)
	}
	switch {
	case t == dtype.Bool:
		return l.boolean(e)
	case t.IsFloat():
		return l.floatScalar(e, t)
	case t.Bits() != 32:
		if n, ok := ir.ConstInt(e); ok && t == dtype.I64 {
			return l.Const64(n)
		}
		if r, ok := e.(*ir.Ref); ok && r.Var.Type.Elem == t {
			return l.env.get(r.Var).scalar
		}
		l.refuse(e.Position(), "Lower.E6", "%s is %s", e, t)
		return l.Const32(0)
	}
	return l.integer(e, t != dtype.U32)
}

// choice is select(c, x, y). What may fail runs in a branch; anything else is computed
// always.
func (l *lowerer) choice(e *ir.Select, t dtype.Type) code.Value {
	on := l.boolean(e.Cond)
	if divides(e.X) || divides(e.Y) {
		side := func(x ir.Expr) func() []code.Value {
			return func() []code.Value {
				return l.scoped(func() []code.Value { return []code.Value{l.scalar(x, t)} })
			}
		}
		return l.If(on, side(e.X), side(e.Y))[0]
	}
	l.eager++
	x, y := l.scalar(e.X, t), l.scalar(e.Y, t)
	l.eager--
	switch {
	case t == dtype.Bool:
		x = l.Op(code.OpAndPred, nil, on, x)
		return l.Op(code.OpOrPred, nil, x, l.Op(code.OpAndPred, nil, l.Op(code.OpNotPred, nil, on), y))
	case t.Bits() == 16:
		return l.Op(code.OpSelp16, nil, x, y, on)
	case t.Bits() == 64:
		return l.Op(code.OpSelp64, nil, x, y, on)
	}
	return l.Op(code.OpSelp32, nil, x, y, on)
}

// numberOf is the value of a constant.
func numberOf(e ir.Expr) (float64, bool) {
	switch e := e.(type) {
	case *ir.Float:
		return e.Value, true
	case *ir.Unary:
		if f, ok := e.X.(*ir.Float); ok {
			return -f.Value, true
		}
	}
	n, ok := ir.ConstInt(e)
	return float64(n), ok
}

func (l *lowerer) floatScalar(e ir.Expr, t dtype.Type) code.Value {
	switch e := e.(type) {
	case *ir.Ref:
		return l.env.get(e.Var).scalar
	case *ir.Select:
		return l.choice(e, t)
	}
	v, ok := numberOf(e)
	if !ok {
		l.refuse(e.Position(), "Lower.E6", "%s is an integer expression used as %s", e, t)
	}
	c := t.Encode(v, false)
	switch t.Bits() {
	case 16:
		return l.Const16(int64(c))
	case 64:
		return l.Const64(int64(c))
	}
	return l.Const32(int64(c))
}

func (l *lowerer) boolean(e ir.Expr) code.Value {
	if n, ok := ir.ConstInt(e); ok {
		return l.ConstPred(n != 0)
	}
	switch e := e.(type) {
	case *ir.Ref:
		return l.env.get(e.Var).scalar
	case *ir.Unary:
		return l.Op(code.OpNotPred, nil, l.boolean(e.X))
	case *ir.Binary:
		switch e.Op {
		case "&&", "||":
			return l.shortCircuit(e)
		}
		return l.compare(e)
	case *ir.Select:
		return l.choice(e, dtype.Bool)
	}
	l.refuse(e.Position(), "Lower.E6", "%s is no condition", e)
	return l.ConstPred(false)
}

// shortCircuit is x && y or x || y. The right side may fail only where it counts,
// so that one with a division runs in a branch; any other is computed always.
func (l *lowerer) shortCircuit(e *ir.Binary) code.Value {
	x := l.boolean(e.X)
	if !divides(e.Y) {
		op := code.OpAndPred
		if e.Op == "||" {
			op = code.OpOrPred
		}
		l.eager++
		y := l.boolean(e.Y)
		l.eager--
		return l.Op(op, nil, x, y)
	}
	return l.inBranch(x, e)
}

// whereOn is a condition that counts, and may fail, only where on holds.
func (l *lowerer) whereOn(on code.Value, cond ir.Expr) code.Value {
	if !divides(cond) {
		l.eager++
		y := l.boolean(cond)
		l.eager--
		return l.Op(code.OpAndPred, nil, on, y)
	}
	return l.inBranch(on, &ir.Binary{Op: "&&", Y: cond})
}

// inBranch is x && e.Y or x || e.Y, the right side in a branch.
func (l *lowerer) inBranch(x code.Value, e *ir.Binary) code.Value {
	right := func() []code.Value {
		return l.scoped(func() []code.Value { return []code.Value{l.boolean(e.Y)} })
	}
	known := func() []code.Value { return []code.Value{l.ConstPred(e.Op == "||")} }
	if e.Op == "||" {
		return l.If(x, known, right)[0]
	}
	return l.If(x, right, known)[0]
}

// divides reports whether an expression divides by what may be 0.
func divides(e ir.Expr) bool {
	switch e := e.(type) {
	case *ir.Unary:
		return divides(e.X)
	case *ir.Binary:
		if e.Op == "/" || e.Op == "%" {
			if n, ok := ir.ConstInt(e.Y); !ok || n == 0 {
				return true
			}
		}
		return divides(e.X) || divides(e.Y)
	case *ir.Select:
		return divides(e.Cond) || divides(e.X) || divides(e.Y)
	}
	return false
}

var compares = map[string]code.Cmp{"==": code.EQ, "!=": code.NE, "<": code.LT, "<=": code.LE, ">": code.GT, ">=": code.GE}

func (l *lowerer) compare(e *ir.Binary) code.Value {
	silent := func(diag.Pos, string, string, string) {}
	t, fixed := ir.TypeOf(e.X, silent)
	if u, f := ir.TypeOf(e.Y, silent); f && !fixed {
		t = u
	}
	cmp := []int64{int64(compares[e.Op])}
	switch {
	case t == dtype.Bool:
		x := l.Op(code.OpXorPred, nil, l.boolean(e.X), l.boolean(e.Y))
		if e.Op == "==" {
			x = l.Op(code.OpNotPred, nil, x)
		}
		return x
	case t == dtype.U32:
		return l.Op(code.OpSetpU32, cmp, l.integer(e.X, false), l.integer(e.Y, false))
	case t == dtype.I32:
		return l.Op(code.OpSetpS32, cmp, l.integer(e.X, true), l.integer(e.Y, true))
	}
	l.refuse(e.Position(), "Lower.E6", "%s compares values of %s", e, t)
	return l.ConstPred(false)
}

// index computes an index or extent, whose type is i32 or u32. A u32 that is no
// i32 lies outside every tensor, and must stay there when a thread adds its part.
func (l *lowerer) index(e ir.Expr) code.Value {
	if t, _ := ir.TypeOf(e, func(diag.Pos, string, string, string) {}); t == dtype.U32 {
		return l.Op(code.OpMinU32, nil, l.integer(e, false), l.Const32(math.MaxInt32))
	}
	return l.integer(e, true)
}

// integer computes an i32 (signed) or u32 expression.
func (l *lowerer) integer(e ir.Expr, signed bool) code.Value {
	if n, ok := ir.ConstInt(e); ok {
		if n > math.MaxUint32 || n < math.MinInt32 {
			l.refuse(e.Position(), "Lower.E6", "%d needs more than 32 bits", n)
		}
		return l.Const32(n)
	}
	switch e := e.(type) {
	case *ir.Ref:
		if b := e.Var.Type.Elem.Bits(); b != 32 {
			l.refuse(e.Pos, "Lower.E6", "%s is %s", e.Var.Name, e.Var.Type)
			return l.Const32(0)
		}
		return l.env.get(e.Var).scalar
	case *ir.Unary:
		return l.exact(e.Pos, signed, code.OpNeg32, l.integer(e.X, signed))
	case *ir.Binary:
		x, y := l.integer(e.X, signed), l.integer(e.Y, signed)
		switch e.Op {
		case "+":
			return l.exact(e.Pos, signed, code.OpAdd32, x, y)
		case "-":
			return l.exact(e.Pos, signed, code.OpSub32, x, y)
		case "*":
			return l.exact(e.Pos, signed, code.OpMul32, x, y)
		case "/", "%":
			return l.floorDivide(e, x, y, signed)
		case "&":
			return l.Op(code.OpAnd32, nil, x, y)
		case "|":
			return l.Op(code.OpOr32, nil, x, y)
		case "^":
			return l.Op(code.OpXor32, nil, x, y)
		case "<<":
			return l.Op(code.OpShl32, nil, x, y)
		case ">>":
			if signed {
				return l.Op(code.OpShrS32, nil, x, y)
			}
			return l.Op(code.OpShrU32, nil, x, y)
		case "min", "max":
			op := map[string][2]code.Op{"min": {code.OpMinU32, code.OpMinS32}, "max": {code.OpMaxU32, code.OpMaxS32}}[e.Op]
			if signed {
				return l.Op(op[1], nil, x, y)
			}
			return l.Op(op[0], nil, x, y)
		}
	case *ir.Select:
		t := dtype.U32
		if signed {
			t = dtype.I32
		}
		return l.choice(e, t)
	}
	l.refuse(e.Position(), "Lower.E6", "%s is no integer", e)
	return l.Const32(0)
}

// exact emits arithmetic that must not overflow, at its operator.
func (l *lowerer) exact(pos diag.Pos, signed bool, op code.Op, in ...code.Value) code.Value {
	defer l.at(pos)()
	kind := code.ExactUnsigned
	if signed {
		kind = code.ExactSigned
	}
	if l.eager > 0 {
		kind = code.MayWrap
	}
	return l.EmitExact(op, kind, in...)
}

// at moves the builder to a position, if it is known; the result moves it back.
func (l *lowerer) at(pos diag.Pos) (back func()) {
	if !pos.Known() {
		return func() {}
	}
	was := l.Pos()
	l.At(pos)
	return func() { l.At(was) }
}

// floorDivide is x / y or x % y rounding down. A shift or mask serves powers of
// two; otherwise the machine's truncating division is corrected where signs
// differ and a remainder is left.
func (l *lowerer) floorDivide(e *ir.Binary, x, y code.Value, signed bool) code.Value {
	defer l.at(e.Pos)()
	if c, ok := ir.ConstInt(e.Y); ok && c > 0 && c <= 1<<30 {
		if c&(c-1) == 0 {
			n := bits.TrailingZeros64(uint64(c))
			switch {
			case e.Op == "%":
				return l.Op(code.OpAnd32, nil, x, l.Const32(c-1))
			case signed:
				return l.Op(code.OpShrS32, nil, x, l.Const32(int64(n)))
			}
			return l.Op(code.OpShrU32, nil, x, l.Const32(int64(n)))
		}
	}
	if !signed || l.facts.NonNegative(e.X) && l.facts.NonNegative(e.Y) {
		if e.Op == "/" {
			return l.Op(code.OpDivU32, nil, x, y)
		}
		return l.Op(code.OpRemU32, nil, x, y)
	}
	r := l.Op(code.OpRemS32, nil, x, y)
	differ := l.Op(code.OpSetpS32, []int64{int64(code.LT)}, l.Op(code.OpXor32, nil, r, y), l.Const32(0))
	left := l.Op(code.OpSetpS32, []int64{int64(code.NE)}, r, l.Const32(0))
	fix := l.Op(code.OpAndPred, nil, differ, left)
	if e.Op == "%" {
		return l.Op(code.OpSelp32, nil, l.Op(code.OpAdd32, nil, r, y), r, fix)
	}
	q := l.exact(e.Pos, true, code.OpDivS32, x, y)
	return l.Op(code.OpSelp32, nil, l.Op(code.OpAdd32, nil, q, l.Const32(-1)), q, fix)
}
