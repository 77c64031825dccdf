package affine

import (
	"fmt"
	"sort"
	"strings"
)

// maxRounds bounds the rounds of a simplification. Each round that changes an
// expression makes it cheaper or moves terms out of a division, so few are needed.
const maxRounds = 16

// Subst replaces variables, all at once; a variable that values does not name
// stays.
func (e Expr) Subst(values map[string]Expr) Expr {
	return e.rebuild(func(name string) Expr {
		if v, ok := values[name]; ok {
			return v
		}
		return Var(name)
	}, func(o op, a, b Expr) Expr { return apply(o, a, b) })
}

// rebuild makes the expression anew from its leaves.
func (e Expr) rebuild(leaf func(name string) Expr, node func(o op, a, b Expr) Expr) Expr {
	s := e.sum()
	if s.bad != "" {
		return e
	}
	out := Const(s.c)
	for _, t := range s.terms {
		p := Const(1)
		for _, f := range t.factors {
			if f.op == opVar {
				p = p.Mul(leaf(f.name))
			} else {
				p = p.Mul(node(f.op, f.a.rebuild(leaf, node), f.b.rebuild(leaf, node)))
			}
		}
		out = out.Add(p.MulConst(t.coef))
	}
	return out
}

func apply(o op, a, b Expr) Expr {
	switch o {
	case opDiv:
		return a.FloorDiv(b)
	case opMod:
		return a.Mod(b)
	case opMin:
		return a.Min(b)
	}
	return a.Max(b)
}

// cost counts the variables and operations of an expression.
func (e Expr) cost() int {
	n := 0
	for _, t := range e.sum().terms {
		n++
		for _, f := range t.factors {
			n++
			if f.op != opVar {
				n += 1 + f.a.cost() + f.b.cost()
			}
		}
	}
	return n
}

// Simplify is an expression with the same value as e for all variables within
// their bounds, and mostly a simpler one: it drops quotients and remainders that
// the bounds decide, takes out of them what does not need to be inside, and puts a
// quotient and its remainder together again.
//
// Source: the rules R1 to R12 of the indexing maps of openxla/xla, xla/hlo/analysis.
func (e Expr) Simplify(bounds map[string]Range) Expr { return NewSimplifier(bounds).Simplify(e) }

// Simplifier simplifies many expressions of the same variables. Bounds may be added for
// variables that no expression so far has; others must stay as they are.
type Simplifier struct{ s simplifier }

// NewSimplifier is for variables within bounds.
func NewSimplifier(bounds map[string]Range) *Simplifier {
	return &Simplifier{simplifier{bounds: bounds, tried: map[string]Expr{}, settled: map[string]bool{}}}
}

// Simplify is [Expr.Simplify] with the bounds of the simplifier.
func (s *Simplifier) Simplify(e Expr) Expr { return s.s.expr(e) }

type simplifier struct {
	bounds map[string]Range
	// known are ranges of whole expressions, by canonical text.
	known map[string]Range
	// keepPoints leaves variables that can have one value only in place.
	keepPoints bool
	// tried, if set, is what quotients and remainders become, by canonical text: sums meet the
	// same ones again and again. It holds as long as nothing else is known.
	tried map[string]Expr
	// settled, if set, has the operations, by canonical text, that no rule changes; as tried.
	settled map[string]bool
	// remainders makes a remainder of a multiple of a quotient that is taken off, also where
	// that is as long.
	remainders bool
	// note, if set, is told of each rule that makes one expression of another.
	note func(rule string, before, after Expr)
}

// say tells note of a rule, unless it changed nothing.
func (s simplifier) say(rule string, before, after Expr) Expr {
	if s.note != nil && !before.Equal(after) {
		s.note(rule, before, after)
	}
	return after
}

// quietly is the simplifier for what is only tried.
func (s simplifier) quietly() simplifier {
	s.note = nil
	return s
}

func (s simplifier) expr(e Expr) Expr {
	if s.plain(e) {
		return e
	}
	for range maxRounds {
		next := s.round(e)
		if next.Err() != nil || next.Equal(e) {
			return e
		}
		e = next
	}
	return e
}

// plain says that an expression is a sum of multiples of variables that no rule changes.
func (s simplifier) plain(e Expr) bool {
	for _, t := range e.sum().terms {
		for _, f := range t.factors {
			if f.op != opVar {
				return false
			}
			if r, ok := s.bounds[f.name]; ok && r.Lo == r.Hi && !s.keepPoints {
				return false
			}
		}
	}
	r := s.rangeOf(e)
	return r.Lo != r.Hi || open(r.Lo) || s.keeps(e)
}

func (s simplifier) rangeOf(e Expr) Range {
	r := e.Range(s.bounds)
	if len(s.known) == 0 {
		return r
	}
	if k, ok := s.known[e.String()]; ok {
		r = r.Intersect(k)
	}
	return r
}

func (s simplifier) round(e Expr) Expr {
	if r := s.rangeOf(e); r.Lo == r.Hi && !open(r.Lo) && !s.keeps(e) {
		return s.say("R1: it can have one value only", e, Const(r.Lo))
	}
	if s.settled != nil && s.note == nil && len(s.known) == 0 {
		return s.recombine(s.again(e))
	}
	return s.recombine(e.rebuild(s.leaf, s.node))
}

func (s simplifier) leaf(name string) Expr {
	if r, ok := s.bounds[name]; ok && r.Lo == r.Hi && !s.keepPoints {
		return s.say("R1: it can have one value only", Var(name), Const(r.Lo))
	}
	return Var(name)
}

// again is rebuild that keeps terms in which nothing changes.
func (s simplifier) again(e Expr) Expr {
	all := e.sum()
	if all.bad != "" {
		return e
	}
	kept := &sum{c: all.c}
	var rest []term
	for _, t := range all.terms {
		same := true
		for _, f := range t.factors {
			if f.op == opVar {
				r, ok := s.bounds[f.name]
				same = same && !(ok && r.Lo == r.Hi && !s.keepPoints)
			} else {
				same = same && s.settled[f.key]
			}
		}
		if same {
			kept.terms = append(kept.terms, t)
		} else {
			rest = append(rest, t)
		}
	}
	if len(rest) == 0 {
		return e
	}
	out := Expr{kept}
	for _, t := range rest {
		p := Const(1)
		for _, f := range t.factors {
			if f.op == opVar {
				p = p.Mul(s.leaf(f.name))
				continue
			}
			x := single(f)
			if !s.settled[f.key] {
				x = s.node(f.op, s.again(f.a), s.again(f.b))
				if g, ok := single1(x); ok && g.key == f.key {
					s.settled[f.key] = true
				}
			}
			p = p.Mul(x)
		}
		out = out.Add(p.MulConst(t.coef))
	}
	return out
}

// keeps says that the expression is a variable which must stay.
func (s simplifier) keeps(e Expr) bool {
	return s.keepPoints && len(e.Vars()) > 0
}

func (s simplifier) node(o op, a, b Expr) Expr {
	if r := s.rangeOf(a); r.Lo == r.Hi && !open(r.Lo) && !s.keeps(a) {
		a = s.say("R1: it can have one value only", a, Const(r.Lo))
	}
	a = s.recombine(a)
	switch o {
	case opMin, opMax:
		const rule = "R12: the ranges decide which is smaller"
		x, y := s.rangeOf(a), s.rangeOf(b)
		switch {
		case x.Hi <= y.Lo && o == opMin, y.Hi <= x.Lo && o == opMax:
			if s.note != nil {
				s.say(rule, apply(o, a, b), a)
			}
			return a
		case x.Hi <= y.Lo, y.Hi <= x.Lo:
			if s.note != nil {
				s.say(rule, apply(o, a, b), b)
			}
			return b
		}
		return apply(o, a, b)
	}
	d, ok := b.Const()
	if !ok || d <= 0 {
		return apply(o, a, b)
	}
	if o == opMod {
		return s.mod(a, d)
	}
	if r := s.rangeOf(a); len(s.known) > 0 && !open(r.Lo) && !open(r.Hi) && floorDiv(r.Lo, d) == floorDiv(r.Hi, d) && !s.keeps(a) {
		// What is known of the whole is lost where div takes it apart.
		return s.say("R1: it can have one value only", a.FloorDiv(b), Const(floorDiv(r.Lo, d)))
	}
	return s.div(a, d)
}

// peel splits e = g·high + k·g + low, where low lies in [0, g-1] and g > 1 is the
// largest divisor of d for which the bounds prove that. Then e/d is
// (high + k)/(d/g), and e mod d is ((high + k) mod (d/g))·g + low.
func (s simplifier) peel(e Expr, d int64) (g int64, high, low Expr, ok bool) {
	sum := e.sum()
	sizes := []int64{d}
	for _, t := range sum.terms {
		if g := GCD(t.coef, d); g > 1 && g < d {
			sizes = append(sizes, g)
		}
	}
	sort.Slice(sizes, func(i, j int) bool { return sizes[i] > sizes[j] })
	for i, g := range sizes {
		if i > 0 && g == sizes[i-1] {
			continue
		}
		h, l := Const(0), Const(sum.c)
		for _, t := range sum.terms {
			if t.coef%g == 0 {
				t.coef /= g
				h = h.Add(t.alone())
			} else {
				l = l.Add(t.alone())
			}
		}
		r := s.rangeOf(l)
		if open(r.Lo) || open(r.Hi) || floorDiv(r.Lo, g) != floorDiv(r.Hi, g) {
			continue
		}
		k := floorDiv(r.Lo, g)
		shift, fits := mulOK(k, g)
		if !fits {
			continue
		}
		return g, h.AddConst(k), l.Sub(Const(shift)), true
	}
	return 0, Expr{}, Expr{}, false
}

// alone is the expression of one term.
func (t term) alone() Expr { return Expr{&sum{terms: []term{t}}} }

// GCD is the greatest number that divides both; 0 is divided by every number.
func GCD(a, b int64) int64 {
	x, y := mag(a), mag(b)
	for y != 0 {
		x, y = y, x%y
	}
	return int64(x)
}

// div is ⌊a/d⌋ for d > 0.
func (s simplifier) div(a Expr, d int64) Expr {
	out, rule, g := s.divided(a, d)
	if s.note != nil {
		if strings.Contains(rule, "%") {
			rule = fmt.Sprintf(rule, g)
		}
		s.say(rule, a.FloorDiv(Const(d)), out)
	}
	return out
}

// divided is div, with the rule that is applied, a format of g.
func (s simplifier) divided(a Expr, d int64) (out Expr, rule string, g int64) {
	if g, high, _, ok := s.peel(a, d); ok {
		return high.FloorDiv(Const(d / g)), "R8: multiples of %d leave the quotient; the rest stays within one multiple and is dropped", g
	}
	sum := a.sum()
	// (x mod m)/d is (x/d) mod (m/d) where d divides m.
	if f, ok := single1(a); ok && f.op == opMod {
		if m, ok := f.b.Const(); ok && m > 0 && m%d == 0 {
			return f.a.FloorDiv(Const(d)).Mod(Const(m / d)), "R6: the divisor divides the modulus", 0
		}
	}
	// (x/c + y)/d is (x + c·y)/(c·d); with two quotients nothing would be gained.
	inner := -1
	for i, t := range sum.terms {
		for _, f := range t.factors {
			if f.op != opDiv {
				continue
			}
			if inner >= 0 {
				return a.FloorDiv(Const(d)), "", 0
			}
			if c, ok := f.b.Const(); !ok || c <= 0 || t.coef != 1 || len(t.factors) != 1 {
				return a.FloorDiv(Const(d)), "", 0
			}
			inner = i
		}
	}
	if inner < 0 {
		return a.FloorDiv(Const(d)), "", 0
	}
	f := sum.terms[inner].factors[0]
	c, _ := f.b.Const()
	rest := a.Sub(sum.terms[inner].alone())
	if cd, ok := mulOK(c, d); ok {
		if up := f.a.Add(rest.MulConst(c)); up.Err() == nil {
			rule := "R9: a quotient inside a sum that is divided"
			if v, ok := rest.Const(); ok && v == 0 {
				rule = "R7: a quotient of a quotient"
			}
			return up.FloorDiv(Const(cd)), rule, 0
		}
	}
	return a.FloorDiv(Const(d)), "", 0
}

func single1(e Expr) (atom, bool) {
	s := e.sum()
	if s.c != 0 || len(s.terms) != 1 || s.terms[0].coef != 1 || len(s.terms[0].factors) != 1 {
		return atom{}, false
	}
	return s.terms[0].factors[0], true
}

// mod is a mod d for d > 0.
func (s simplifier) mod(a Expr, d int64) Expr {
	g, high, low, ok := s.peel(a, d)
	if !ok {
		return a.Mod(Const(d))
	}
	out := high.Mod(Const(d / g)).MulConst(g).Add(low)
	if s.note != nil {
		rule := fmt.Sprintf("R5: what stays within one multiple of %d moves outside, and %d with it", g, g)
		if g == d {
			rule = fmt.Sprintf("R2, R4: multiples of %d vanish, and the rest stays within one period", d)
		} else if v, ok := low.Const(); ok && v == 0 {
			rule = fmt.Sprintf("R3: a factor %d of everything moves outside", g)
		}
		s.say(rule, a.Mod(Const(d)), out)
	}
	return out
}

// recombine applies x = c·⌊x/c⌋ + x mod c, both ways, wherever that makes the sum
// cheaper. The quotient or remainder that stands in the sum may have been
// rewritten already, so the missing one is made and simplified, not searched for.
func (s simplifier) recombine(e Expr) Expr {
	try := s.quietly()
	for range maxRounds {
		sum, best, changed := e.sum(), e.cost(), false
		for _, t := range sum.terms {
			if len(t.factors) != 1 {
				continue
			}
			f := t.factors[0]
			if f.op != opDiv && f.op != opMod {
				continue
			}
			c, ok := f.b.Const()
			if !ok || c <= 0 {
				continue
			}
			rest := e.Sub(t.alone())
			var next Expr
			if f.op == opMod {
				kc, fits := mulOK(t.coef, c)
				if !fits {
					continue
				}
				next = rest.Add(f.a.MulConst(t.coef)).Sub(try.other(f, c).MulConst(kc))
			} else {
				if t.coef%c != 0 {
					continue
				}
				next = rest.Add(f.a.Sub(try.other(f, c)).MulConst(t.coef / c))
			}
			longest := best - 1
			if s.remainders && f.op == opDiv && t.coef < 0 {
				longest = best
			}
			if next.Err() == nil && next.cost() <= longest {
				rule := "R10: quotient and remainder of one number meet"
				if f.op == opDiv {
					rule = "R11: a multiple of the quotient leaves the remainder"
				}
				e, changed = s.say(rule, e, next), true
				break
			}
		}
		if !changed {
			return e
		}
	}
	return e
}

// other is the quotient that belongs to a remainder by c, or the remainder to a quotient.
func (s simplifier) other(f atom, c int64) Expr {
	if e, ok := s.tried[f.key]; ok {
		return e
	}
	var e Expr
	if f.op == opMod {
		e = s.expr(s.div(f.a, c))
	} else {
		e = s.expr(s.mod(f.a, c))
	}
	if s.tried != nil {
		s.tried[f.key] = e
	}
	return e
}

// Intersect is the set of values in both ranges.
func (r Range) Intersect(s Range) Range { return Range{max(r.Lo, s.Lo), min(r.Hi, s.Hi)} }

// Empty says whether no value lies in the range.
func (r Range) Empty() bool { return r.Lo > r.Hi }

// Divisor is the largest known number that divides the expression for all values
// of its variables, given numbers that divide variables; 0 stands for the constant 0.
func (e Expr) Divisor(of map[string]int64) int64 {
	s := e.sum()
	if s.bad != "" {
		return 1
	}
	d := divides(s.c)
	for _, t := range s.terms {
		n := divides(t.coef)
		for _, f := range t.factors {
			m, ok := mulOK(n, f.divisor(of))
			if !ok {
				break
			}
			n = m
		}
		d = GCD(d, n)
	}
	return d
}

func (f atom) divisor(of map[string]int64) int64 {
	a := func() int64 { return f.a.Divisor(of) }
	switch f.op {
	case opVar:
		if d, ok := of[f.name]; ok && d > 0 {
			return d
		}
		return 1
	case opDiv:
		if c, ok := f.b.Const(); ok && c > 0 {
			if d := a(); d != 0 && d%c == 0 {
				return d / c
			}
		}
		return 1
	}
	return max(GCD(a(), f.b.Divisor(of)), 1)
}
