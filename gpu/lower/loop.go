package lower

import (
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func (l *lowerer) forLoop(s *ir.For) {
	step := int64(1)
	if s.Step != nil {
		step, _ = ir.ConstInt(s.Step)
	}
	l.facts.span[s.Var] = span{from: s.From, to: s.To, step: step}
	vars := l.changed(s.Body)
	c := l.counter(s, step)
	unroll := max(s.Unroll, 1)
	if s.Unroll < 0 {
		unroll = tripCount(s, step)
	}
	if flags := l.going[s]; flags != nil {
		l.unflatten(vars, l.leftLoop(s, c, vars, flags))
		return
	}
	out := l.b.For(c.start, c.end, c.by, unroll, l.flatten(vars), func(i code.Value, carried []code.Value) []code.Value {
		return l.scoped(func() []code.Value {
			l.unflatten(vars, carried)
			l.env[s.Var] = val{scalar: c.index(i)}
			l.block(s.Body)
			return l.flatten(vars)
		})
	})
	l.unflatten(vars, out)
}

// counter is how a loop counts in thread code, which only knows i = start,
// start+by, … while i < end on signed 32-bit numbers that must not overflow;
// index gives the program's variable of i.
type counter struct {
	start, end, by code.Value
	index          func(i code.Value) code.Value
}

// counter chooses the cheapest way to count that is right for every value that
// the bounds can have: the variable itself, its distance from the start, or the
// number of the turn.
func (l *lowerer) counter(s *ir.For, step int64) counter {
	t := s.Var.Type.Elem
	from, to := l.scalar(s.From, t), l.scalar(s.To, t)
	f, g := l.facts.interval(s.From, t), l.facts.interval(s.To, t)
	if step > 0 {
		// The variable goes up to at most to-1+step, or to if that is whole steps.
		most := g.hi - 1 + step
		if l.facts.divides(s.From, step) && l.facts.divides(s.To, step) {
			most = g.hi
		}
		if f.hi <= math.MaxInt32 && most <= math.MaxInt32 {
			return counter{from, to, l.const32(step), func(i code.Value) code.Value { return i }}
		}
	} else if f.hi-g.lo-1-step <= math.MaxInt32 && f.lo-g.hi >= math.MinInt32 {
		return counter{l.const32(0), l.op(code.OpSub32, nil, from, to), l.const32(-step),
			func(i code.Value) code.Value { return l.op(code.OpSub32, nil, from, i) }}
	}

	less := code.OpSetpS32
	if t == dtype.U32 {
		less = code.OpSetpU32
	}
	low, high, farthest, size := from, to, g.hi-f.lo, step
	if step < 0 {
		low, high, farthest, size = to, from, f.hi-g.lo, -step
	}
	// Unsigned, (high - low - 1)/size + 1 turns fit 32 bits where low < high.
	turns := l.op(code.OpAdd32, nil, l.op(code.OpSub32, nil, high, low), l.const32(-1))
	turns = l.add32(l.divideU32(turns, size), l.const32(1))
	turns = l.op(code.OpSelp32, nil, turns, l.const32(0), l.op(less, []int64{int64(code.LT)}, low, high))
	start, bias := l.const32(0), l.const32(0)
	if (farthest-1)/size+1 > math.MaxInt32 {
		start, bias = l.const32(math.MinInt32), l.const32(math.MinInt32)
	}
	return counter{start, l.op(code.OpXor32, nil, turns, bias), l.const32(1), func(i code.Value) code.Value {
		away := l.mul32(l.op(code.OpXor32, nil, i, bias), l.const32(size))
		if step < 0 {
			return l.op(code.OpSub32, nil, from, away)
		}
		return l.add32(from, away)
	}}
}

func (l *lowerer) divideU32(x code.Value, by int64) code.Value {
	for n := range 32 {
		if by == 1<<n {
			return l.op(code.OpShrU32, nil, x, l.const32(int64(n)))
		}
	}
	return l.op(code.OpDivU32, nil, x, l.const32(by))
}

// tripCount is how often a loop of constant bounds runs, for unroll=all; 1 where
// the bounds are not constant, which keeps the loop.
func tripCount(s *ir.For, step int64) int {
	from, okF := ir.ConstInt(s.From)
	to, okT := ir.ConstInt(s.To)
	if !okF || !okT {
		return 1
	}
	var n int64
	if step > 0 {
		n = (to - from + step - 1) / step
	} else {
		n = (from - to - step - 1) / -step
	}
	return int(max(1, min(n, 1<<16)))
}

// interval is a range of values, both ends included.
type interval struct{ lo, hi int64 }

// interval is a range that holds an expression of type t for every launch. What
// could leave the type's range has the type's whole range, as it would after
// wrapping.
func (f *facts) interval(e ir.Expr, t dtype.Type) interval {
	whole := interval{math.MinInt32, math.MaxInt32}
	if t == dtype.U32 {
		whole = interval{0, math.MaxUint32}
	}
	within := func(lo, hi int64) interval {
		if lo < whole.lo || hi > whole.hi || lo > hi {
			return whole
		}
		return interval{lo, hi}
	}
	switch e := e.(type) {
	case *ir.Int:
		return within(e.Value, e.Value)
	case *ir.Ref:
		if r, ok := f.bounds[e.Var.Name]; ok && e.Var.Param {
			return within(max(r.Lo, whole.lo), min(r.Hi, whole.hi))
		}
		if v, ok := f.value[e.Var]; ok && f.assigned[e.Var] == 1 {
			return f.interval(v, t)
		}
		if s, ok := f.span[e.Var]; ok {
			from, to := f.interval(s.from, t), f.interval(s.to, t)
			if s.step < 0 {
				return within(to.lo+1, from.hi)
			}
			return within(from.lo, to.hi-1)
		}
	case *ir.Unary:
		if x := f.interval(e.X, t); e.Op == "-" {
			return within(-x.hi, -x.lo)
		}
	case *ir.Binary:
		x, y := f.interval(e.X, t), f.interval(e.Y, t)
		switch e.Op {
		case "+":
			return within(x.lo+y.lo, x.hi+y.hi)
		case "-":
			return within(x.lo-y.hi, x.hi-y.lo)
		case "*":
			if y.lo == y.hi && abs(y.lo) <= math.MaxInt32 {
				return within(min(x.lo*y.lo, x.hi*y.lo), max(x.lo*y.lo, x.hi*y.lo))
			}
		case "/":
			if y.lo == y.hi && y.lo > 0 {
				return within(floorDiv(x.lo, y.lo), floorDiv(x.hi, y.lo))
			}
		case "%":
			if y.lo == y.hi && y.lo > 0 {
				return within(0, y.lo-1)
			}
		case "&":
			if y.lo == y.hi && y.lo >= 0 {
				return within(0, y.lo)
			}
		case ">>":
			if y.lo == y.hi && y.lo >= 0 && y.lo < 32 {
				return within(x.lo>>y.lo, x.hi>>y.lo)
			}
		case "min":
			return within(min(x.lo, y.lo), min(x.hi, y.hi))
		case "max":
			return within(max(x.lo, y.lo), max(x.hi, y.hi))
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
