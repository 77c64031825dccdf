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
	l.facts.Span(s.Var, s.From, s.To, step)
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
	out := l.For(c.start, c.end, c.by, unroll, l.flatten(vars), func(i code.Value, carried []code.Value) []code.Value {
		return l.scoped(func() []code.Value {
			l.unflatten(vars, carried)
			l.env.set(s.Var, val{scalar: c.index(i)})
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
	f, g := l.facts.Interval(s.From, t), l.facts.Interval(s.To, t)
	if step > 0 {
		// The variable goes up to at most to-1+step, or to if that is whole steps.
		most := g.Hi - 1 + step
		if l.facts.Divides(s.From, step) && l.facts.Divides(s.To, step) {
			most = g.Hi
		}
		if f.Hi <= math.MaxInt32 && most <= math.MaxInt32 {
			return counter{from, to, l.Const32(step), func(i code.Value) code.Value { return i }}
		}
	} else if f.Hi-g.Lo-1-step <= math.MaxInt32 && f.Lo-g.Hi >= math.MinInt32 {
		return counter{l.Const32(0), l.Op(code.OpSub32, nil, from, to), l.Const32(-step),
			func(i code.Value) code.Value { return l.Op(code.OpSub32, nil, from, i) }}
	}

	less := code.OpSetpS32
	if t == dtype.U32 {
		less = code.OpSetpU32
	}
	low, high, farthest, size := from, to, g.Hi-f.Lo, step
	if step < 0 {
		low, high, farthest, size = to, from, f.Hi-g.Lo, -step
	}
	// Unsigned, (high - low - 1)/size + 1 turns fit 32 bits where low < high.
	turns := l.Op(code.OpAdd32, nil, l.Op(code.OpSub32, nil, high, low), l.Const32(-1))
	turns = l.Add32(l.DivideU32(turns, size), l.Const32(1))
	turns = l.Op(code.OpSelp32, nil, turns, l.Const32(0), l.Op(less, []int64{int64(code.LT)}, low, high))
	start, bias := l.Const32(0), l.Const32(0)
	if (farthest-1)/size+1 > math.MaxInt32 {
		start, bias = l.Const32(math.MinInt32), l.Const32(math.MinInt32)
	}
	return counter{start, l.Op(code.OpXor32, nil, turns, bias), l.Const32(1), func(i code.Value) code.Value {
		away := l.Mul32(l.Op(code.OpXor32, nil, i, bias), l.Const32(size))
		if step < 0 {
			return l.Op(code.OpSub32, nil, from, away)
		}
		return l.Add32(from, away)
	}}
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
