package affine

import (
	"math"
	"strconv"
)

// Range is the set of integers from Lo to Hi, both included. Lo = math.MinInt64
// and Hi = math.MaxInt64 mean "no bound known". Lo > Hi is the empty set.
type Range struct{ Lo, Hi int64 }

// Everything is the range of a value about which nothing is known.
var Everything = Range{math.MinInt64, math.MaxInt64}

// Contains reports whether v lies in the range.
func (r Range) Contains(v int64) bool { return r.Lo <= v && v <= r.Hi }

// Within reports whether every value of r lies in s.
func (r Range) Within(s Range) bool { return r.Lo > r.Hi || s.Lo <= r.Lo && r.Hi <= s.Hi }

// String is "[0, 31]", with an open side written as "?".
func (r Range) String() string {
	side := func(v int64) string {
		if v == math.MinInt64 || v == math.MaxInt64 {
			return "?"
		}
		return strconv.FormatInt(v, 10)
	}
	return "[" + side(r.Lo) + ", " + side(r.Hi) + "]"
}

func open(v int64) bool { return v == math.MinInt64 || v == math.MaxInt64 }

func addSat(a, b, side int64) int64 {
	if open(a) || open(b) {
		return side
	}
	if s, ok := addOK(a, b); ok {
		return s
	}
	return side
}

func (r Range) add(s Range) Range {
	return Range{addSat(r.Lo, s.Lo, math.MinInt64), addSat(r.Hi, s.Hi, math.MaxInt64)}
}

// mulBound multiplies bounds; an open bound or an overflow gives the open bound
// of the product's sign.
func mulBound(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	if v, ok := mulOK(a, b); ok && !open(a) && !open(b) {
		return v
	}
	if (a < 0) != (b < 0) {
		return math.MinInt64
	}
	return math.MaxInt64
}

func hull(vs ...int64) Range {
	r := Range{vs[0], vs[0]}
	for _, v := range vs {
		r.Lo, r.Hi = min(r.Lo, v), max(r.Hi, v)
	}
	return r
}

func (r Range) mul(s Range) Range {
	return hull(mulBound(r.Lo, s.Lo), mulBound(r.Lo, s.Hi), mulBound(r.Hi, s.Lo), mulBound(r.Hi, s.Hi))
}

func divBound(a, b int64) int64 {
	switch {
	case open(a):
		return a
	case open(b): // the quotient of a finite number by an arbitrarily large one
		if a < 0 {
			return -1
		}
		return 0
	}
	return floorDiv(a, b)
}

// Range is an interval that holds every value of the expression whose variables
// lie in bounds; a variable without bounds may be anything.
func (e Expr) Range(bounds map[string]Range) Range {
	s := e.sum()
	if s.bad != "" {
		return Everything
	}
	total := Range{s.c, s.c}
	if open(s.c) {
		return Everything
	}
	for _, t := range s.terms {
		r := Range{t.coef, t.coef}
		for _, f := range t.factors {
			r = r.mul(f.bounds(bounds))
		}
		total = total.add(r)
	}
	return total
}

func (f atom) bounds(bounds map[string]Range) Range {
	if f.op == opVar {
		if r, ok := bounds[f.name]; ok {
			return r
		}
		return Everything
	}
	a, b := f.a.Range(bounds), f.b.Range(bounds)
	switch f.op {
	case opMin:
		return Range{min(a.Lo, b.Lo), min(a.Hi, b.Hi)}
	case opMax:
		if _, ok := single(f).magnitudeOf(); ok && b.Lo <= 0 && b.Hi >= 0 {
			return Range{0, max(a.Hi, b.Hi)}
		}
		return Range{max(a.Lo, b.Lo), max(a.Hi, b.Hi)}
	case opDiv:
		if b.Hi <= -1 {
			a, b = a.mul(Range{-1, -1}), b.mul(Range{-1, -1})
		}
		if b.Lo >= 1 {
			return hull(divBound(a.Lo, b.Lo), divBound(a.Lo, b.Hi), divBound(a.Hi, b.Lo), divBound(a.Hi, b.Hi))
		}
		return Everything
	}
	if _, ok := f.b.magnitudeOf(); ok { // there is no remainder by 0
		b.Lo = max(b.Lo, 1)
	}
	if b.Lo < 1 {
		return Everything
	}
	if a.Lo >= 0 && a.Hi < b.Lo {
		return a
	}
	r := Range{0, b.Hi}
	if !open(b.Hi) {
		r.Hi = b.Hi - 1
	}
	if a.Lo >= 0 {
		r.Hi = min(r.Hi, a.Hi)
	}
	return r
}
