package affine

// Known is what is known of variables: the least and the greatest value, numbers that
// divide them, and of loop variables and block indices what they run over. It proves
// that indices lie inside tensors and how they are aligned. Make one with [NewKnown].
type Known struct {
	ranges   map[string]Range
	divisors map[string]int64
	spans    map[string]Span
	order    map[string]int // of the spans: a span may name variables of earlier ones
}

// Span is what a variable runs over: From, From + Step, … as long as To is not
// reached. Step is not 0; one below 0 counts down.
type Span struct {
	From, To Expr
	Step     int64
}

// NewKnown knows nothing.
func NewKnown() *Known {
	return &Known{ranges: map[string]Range{}, divisors: map[string]int64{}, spans: map[string]Span{}, order: map[string]int{}}
}

// Restrict says that a variable lies in r, beside what is known. What contradicts it
// is left out: nothing runs then.
func (k *Known) Restrict(name string, r Range) {
	if known, ok := k.ranges[name]; ok {
		r = r.Intersect(known)
	}
	if !r.Empty() {
		k.ranges[name] = r
	}
}

// Multiple says that by, which is positive, divides a variable, beside what is known.
func (k *Known) Multiple(name string, by int64) {
	n := max(k.divisors[name], 1)
	if both, ok := mulOK(n/GCD(n, by), by); ok {
		k.divisors[name] = both
	}
}

// Runs says what a variable runs over. It may name variables that have got a span
// before.
func (k *Known) Runs(name string, s Span) {
	k.spans[name], k.order[name] = s, len(k.order)
	k.Multiple(name, max(GCD(s.From.Divisor(k.divisors), divides(s.Step)), 1))
	from, to := s.From.Range(k.ranges), s.To.Range(k.ranges)
	r := Range{from.Lo, to.Hi}
	if !open(r.Hi) {
		r.Hi--
	}
	if s.Step < 0 {
		r = Range{to.Lo, from.Hi}
		if !open(r.Lo) {
			r.Lo++
		}
	}
	k.Restrict(name, r)
}

// ends are the least and the greatest value of a variable that runs over s.
func (k *Known) ends(s Span) (least, most Expr) {
	last := int64(1)
	if s.Step < 0 {
		return s.To.AddConst(1), s.From
	}
	if k.Divides(s.Step, s.From) && k.Divides(s.Step, s.To) {
		last = s.Step // the span is whole steps
	}
	return s.From, s.To.AddConst(-last)
}

// Range is an interval that holds every value of e.
func (k *Known) Range(e Expr) Range { return e.Range(k.ranges) }

// Simplify is [Expr.Simplify] with what is known.
func (k *Known) Simplify(e Expr) Expr { return e.Simplify(k.ranges) }

// Divisor is a number that divides every value of e; 0 for the constant 0.
func (k *Known) Divisor(e Expr) int64 { return e.Divisor(k.divisors) }

// Divides proves that n divides e.
func (k *Known) Divides(n int64, e Expr) bool {
	return n != 0 && e.Err() == nil && k.Divisor(e)%n == 0
}

// proofSteps bounds the rewritings of one proof.
const proofSteps = 64

// NonNegative proves that e is never negative where given are not. False does not mean
// that it may be.
//
// Variables that run over spans take the end that makes e least, the innermost first,
// so that loop bounds cancel against extents; of minima and maxima the sides are
// looked at; and quotients give way to what they are quotients of.
func (k *Known) NonNegative(e Expr, given ...Expr) bool {
	return (&proof{k, given, proofSteps}).nonNegative(e)
}

type proof struct {
	*Known
	given []Expr
	steps int // left
}

func (k *proof) nonNegative(e Expr) bool {
	if k.steps--; k.steps < 0 || e.Err() != nil {
		return false
	}
	if k.Range(e).Lo >= 0 {
		return true
	}
	for _, g := range k.given {
		if k.Range(e.Sub(g)).Lo >= 0 {
			return true
		}
	}
	for _, t := range e.sum().terms {
		f := t.factors[0]
		if len(t.factors) > 1 || f.op != opMin && f.op != opMax {
			continue
		}
		rest := e.Sub(t.alone())
		x, y := rest.Add(f.a.MulConst(t.coef)), rest.Add(f.b.MulConst(t.coef))
		if (f.op == opMin) == (t.coef < 0) { // the term is the larger of two
			return k.nonNegative(x) || k.nonNegative(y)
		}
		return k.nonNegative(x) && k.nonNegative(y)
	}
	if less, ok := k.atEnd(e, false); ok {
		return k.nonNegative(less)
	}
	for _, t := range e.sum().terms {
		if less, ok := k.withoutQuotient(t); ok {
			return k.nonNegative(e.Sub(t.alone()).Add(less))
		}
	}
	return false
}

// atEnd puts the end of its span in the place of the variable that got its span last,
// of those that stand in e outside of quotients: the end that makes e least, or most.
func (k *Known) atEnd(e Expr, most bool) (end Expr, ok bool) {
	name, at := "", -1
	for _, t := range e.sum().terms {
		for _, f := range t.factors {
			if n, ran := k.order[f.name]; ran && f.op == opVar && n > at {
				name, at = f.name, n
			}
		}
	}
	if at < 0 {
		return e, false
	}
	lo, hi := k.ends(k.spans[name])
	out := e
	for _, t := range e.sum().terms {
		others, times := Const(t.coef), 0
		for _, f := range t.factors {
			if f.op == opVar && f.name == name {
				times++
			} else {
				others = others.Mul(single(f))
			}
		}
		if times == 0 {
			continue
		}
		r := k.Range(others)
		switch {
		case times > 1:
			return e, false
		case r.Lo >= 0 && most, r.Hi <= 0 && !most:
			out = out.Sub(t.alone()).Add(others.Mul(hi))
		case r.Lo >= 0, r.Hi <= 0:
			out = out.Sub(t.alone()).Add(others.Mul(lo))
		default:
			return e, false
		}
	}
	return out, out.Err() == nil
}

// withoutQuotient is an expression no greater than a term that is a quotient by a
// constant.
func (k *Known) withoutQuotient(t term) (less Expr, ok bool) {
	f := t.factors[0]
	d, isConst := f.b.Const()
	if len(t.factors) > 1 || f.op != opDiv || !isConst || d < 2 {
		return Expr{}, false
	}
	switch n := t.coef / d; {
	case t.coef%d != 0: // ends of spans inside
		if a, ok := k.atEnd(f.a, t.coef < 0); ok {
			return a.FloorDiv(f.b).MulConst(t.coef), true
		}
		return Expr{}, false
	case n < 0 || k.Divides(d, f.a):
		return f.a.MulConst(n), true
	default:
		return f.a.AddConst(1 - d).MulConst(n), true
	}
}
