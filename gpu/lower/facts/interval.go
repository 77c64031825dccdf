package facts

import (
	"math"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Interval is a range of values, both ends included.
type Interval struct{ Lo, Hi int64 }

// Interval is a range that holds an expression of type t for every launch. What
// could leave the type's range has the type's whole range, as it would after
// wrapping.
func (f *Facts) Interval(e ir.Expr, t dtype.Type) Interval {
	whole := Interval{math.MinInt32, math.MaxInt32}
	if t == dtype.U32 {
		whole = Interval{0, math.MaxUint32}
	}
	within := func(lo, hi int64) Interval {
		if lo < whole.Lo || hi > whole.Hi || lo > hi {
			return whole
		}
		return Interval{lo, hi}
	}
	switch e := e.(type) {
	case *ir.Int:
		return within(e.Value, e.Value)
	case *ir.Ref:
		if r, ok := f.bounds[e.Var.Name]; ok && e.Var.Param {
			return within(max(r.Lo, whole.Lo), min(r.Hi, whole.Hi))
		}
		if v, ok := f.value[e.Var]; ok && f.assigned[e.Var] == 1 {
			return f.Interval(v, t)
		}
		if s, ok := f.span[e.Var]; ok {
			from, to := f.Interval(s.from, t), f.Interval(s.to, t)
			if s.step < 0 {
				return within(to.Lo+1, from.Hi)
			}
			return within(from.Lo, to.Hi-1)
		}
	case *ir.Unary:
		if x := f.Interval(e.X, t); e.Op == "-" {
			return within(-x.Hi, -x.Lo)
		}
	case *ir.Binary:
		x, y := f.Interval(e.X, t), f.Interval(e.Y, t)
		switch e.Op {
		case "+":
			return within(x.Lo+y.Lo, x.Hi+y.Hi)
		case "-":
			return within(x.Lo-y.Hi, x.Hi-y.Lo)
		case "*":
			if y.Lo == y.Hi && abs(y.Lo) <= math.MaxInt32 {
				return within(min(x.Lo*y.Lo, x.Hi*y.Lo), max(x.Lo*y.Lo, x.Hi*y.Lo))
			}
		case "/":
			if y.Lo == y.Hi && y.Lo > 0 {
				return within(floorDiv(x.Lo, y.Lo), floorDiv(x.Hi, y.Lo))
			}
		case "%":
			if y.Lo == y.Hi && y.Lo > 0 {
				return within(0, y.Lo-1)
			}
		case "&":
			if y.Lo == y.Hi && y.Lo >= 0 {
				return within(0, y.Lo)
			}
		case ">>":
			if y.Lo == y.Hi && y.Lo >= 0 && y.Lo < 32 {
				return within(x.Lo>>y.Lo, x.Hi>>y.Lo)
			}
		case "min":
			return within(min(x.Lo, y.Lo), min(x.Hi, y.Hi))
		case "max":
			return within(max(x.Lo, y.Lo), max(x.Hi, y.Hi))
		}
	}
	return whole
}

func floorDiv(x, y int64) int64 {
	q := x / y
	if x%y != 0 && (x < 0) != (y < 0) {
		q--
	}
	return q
}
