package randprog

import (
	"math"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// span bounds the elements of a float tile: each is a multiple of 2^grain and at
// most max in size. Sums of which max/2^grain fits the type's significand are exact
// in any order. Integers wrap alike everywhere and need none.
type span struct {
	max   float64
	grain int
}

// wild is the span of what nothing is known of.
var wild = span{math.Inf(1), -1200}

// significand is how many bits a float holds, the hidden one included.
func significand(t dtype.Type) int { return t.Row().Man + 1 }

// exact reports that every multiple of the grain up to max is a value of t, half
// to spare for an intermediate sum.
func (s span) exact(t dtype.Type) bool {
	return !t.IsFloat() || s.max <= t.Max() && math.Ldexp(s.max, -s.grain) < math.Ldexp(1, significand(t)-1) && s.grain >= -24
}

func (s span) join(t span) span { return span{max(s.max, t.max), min(s.grain, t.grain)} }

func (s span) mul(t span) span { return span{s.max * t.max, s.grain + t.grain} }

// reserve is how much may be added to a tile in a loop, counted in its bound.
func (t *tile) reserve() float64 {
	if !t.v.Type.Elem.IsFloat() {
		return math.Inf(1)
	}
	wide := t.span
	if wide.max = max(4*wide.max, 64); !wide.exact(t.v.Type.Elem) {
		return 0
	}
	room := wide.max - t.max
	t.max = wide.max
	return room
}

// spanOf is the span of an array's elements.
func spanOf(a *array.Array) span {
	s := span{0, 0}
	if !a.Type.IsFloat() {
		return typeSpan(a.Type)
	}
	for k := range a.Len() {
		v := a.Type.Decode(a.Code(k))
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return wild
		}
		s.max = max(s.max, math.Abs(v))
		for v != 0 && math.Ldexp(v, -s.grain) != math.Trunc(math.Ldexp(v, -s.grain)) {
			s.grain--
		}
	}
	return s
}

// typeSpan is what is known of a type's values.
func typeSpan(t dtype.Type) span {
	if !t.IsFloat() {
		return span{max(math.Abs(t.Min()), t.Max()), 0}
	}
	if t.Bits() > 8 || t.HasInf() || t.HasNaN() {
		return wild
	}
	s := span{t.Max(), 0}
	for c := range uint64(1) << t.Bits() {
		for v := t.Decode(c); v != 0 && math.Ldexp(v, -s.grain) != math.Trunc(math.Ldexp(v, -s.grain)); {
			s.grain--
		}
	}
	return s
}

// cast is the span after a cast: rounding gives multiples of the same grain, or
// of the type's own where that is coarser.
func (s span) cast(to dtype.Type) span {
	if !to.IsFloat() {
		return typeSpan(to)
	}
	if math.IsInf(s.max, 1) {
		return wild
	}
	out := span{2 * s.max, s.grain}
	if to.Bits() <= 8 {
		if all := typeSpan(to); !math.IsInf(all.max, 1) {
			return span{min(out.max, all.max), min(out.grain, all.grain)}
		}
		return wild
	}
	if out.max > to.Max() || out.grain < -24 {
		return wild
	}
	return out
}
