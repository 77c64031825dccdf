package ir

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Select is select(cond, x, y): x where cond holds, else y, of any scalar type. Only
// the one that counts may fail: select(n > 0, m/n, 0) divides where it can.
type Select struct {
	Cond, X, Y Expr
	Pos        diag.Pos
}

func (e *Select) prec() int { return precAtom }

// Position is where the expression is written.
func (e *Select) Position() diag.Pos { return e.Pos }

func (e *Select) String() string { return fmt.Sprintf("select(%s, %s, %s)", e.Cond, e.X, e.Y) }

// Chosen is the side that the condition chooses.
func (e *Select) Chosen(value func(*Var) (int64, bool)) (Expr, error) {
	c, err := EvalInt(e.Cond, value)
	if c != 0 {
		return e.X, err
	}
	return e.Y, err
}

type reporter = func(pos diag.Pos, code, help, msg string)

func (e *Select) typeOf(report reporter) (t dtype.Type, fixed bool) {
	if c, _ := TypeOf(e.Cond, report); c != dtype.Bool {
		report(e.Cond.Position(), "Expr.C3", "compare first: x != 0", fmt.Sprintf("select needs a bool, %s is %s", e.Cond, c))
	}
	xt, xf := TypeOf(e.X, report)
	yt, yf := TypeOf(e.Y, report)
	t, _ = joined(e.Pos, "select", e.X, e.Y, xt, yt, xf, yf, report)
	return t, xf || yf
}

// joined is the one type of two expressions; ok is false where they have none, which
// is reported.
func joined(pos diag.Pos, op string, x, y Expr, xt, yt dtype.Type, xf, yf bool, report reporter) (t dtype.Type, ok bool) {
	t = xt
	if !xf {
		t = yt
		if !yf && yt.Bits() < xt.Bits() {
			t = xt
		}
	}
	switch {
	case xf && yf && xt != yt, xt.IsFloat() != yt.IsFloat(), (xt == dtype.Bool) != (yt == dtype.Bool):
		report(pos, "Expr.C1", "both sides of an operator have one type", fmt.Sprintf("%s %s %s mixes types", xt, op, yt))
	case xf && !yf && !fits(y, yt, t):
		report(y.Position(), "Expr.R1", "", fmt.Sprintf("%s is no %s", y, t))
	case yf && !xf && !fits(x, xt, t):
		report(x.Position(), "Expr.R1", "", fmt.Sprintf("%s is no %s", x, t))
	default:
		return t, true
	}
	return t, false
}
