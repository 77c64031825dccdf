// Package affine is the one integer-expression algebra of Tilus Lab: launch
// grids, shapes and index proofs are all written in it. An [Expr] stands for a
// whole number that depends on named variables, such as the number of blocks
// (M + 15)/16. Numbers are mathematical integers: nothing wraps, division
// rounds down, and what does not fit 64 bits is an error of [Expr.Eval], never
// a wrong answer.
//
// Constructors keep every expression in a canonical form: a sum of a constant
// and of terms, each a constant times a sorted product of atoms, where an atom
// is a variable, a quotient, a remainder, a minimum or a maximum. Two
// expressions with the same canonical form are equal; the converse does not
// hold (the form is sound, not complete).
package affine

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strconv"
)

// Expr is an immutable integer expression. The zero value is the constant 0.
type Expr struct{ s *sum }

type sum struct {
	c     int64
	terms []term // sorted by key, keys distinct, coefficients nonzero
	bad   string // why the value cannot be represented; such an expression has no value
}

type term struct {
	coef    int64
	factors []atom // sorted by key, at least one
	key     string
}

type op uint8

const (
	opVar op = iota
	opDiv
	opMod
	opMin
	opMax
)

type atom struct {
	op   op
	name string // of opVar
	a, b Expr
	key  string
}

// maxTerms bounds what multiplying out may make of a product.
const maxTerms = 4096

var zero = &sum{}

func (e Expr) sum() *sum {
	if e.s == nil {
		return zero
	}
	return e.s
}

func bad(why string) Expr { return Expr{&sum{bad: why}} }

// Const is the constant v.
func Const(v int64) Expr { return Expr{&sum{c: v}} }

// Var is the variable of that name.
func Var(name string) Expr {
	return single(atom{op: opVar, name: name, key: name})
}

func single(a atom) Expr {
	return Expr{&sum{terms: []term{{coef: 1, factors: []atom{a}, key: a.key}}}}
}

func binary(o op, a, b Expr) Expr {
	at := atom{op: o, a: a, b: b}
	switch o {
	case opDiv:
		at.key = a.operand() + "/" + b.operand()
	case opMod:
		at.key = a.operand() + " % " + b.operand()
	case opMin:
		at.key = "min(" + a.String() + ", " + b.String() + ")"
	case opMax:
		at.key = "max(" + a.String() + ", " + b.String() + ")"
	}
	return single(at)
}

// operand is the expression in brackets unless it is one variable or a
// nonnegative constant.
func (e Expr) operand() string {
	s := e.sum()
	if v, ok := e.Const(); ok && v >= 0 {
		return strconv.FormatInt(v, 10)
	}
	if s.c == 0 && len(s.terms) == 1 && s.terms[0].coef == 1 && len(s.terms[0].factors) == 1 {
		if f := s.terms[0].factors[0]; f.op == opVar || f.op == opMin || f.op == opMax {
			return f.key
		}
	}
	return "(" + e.String() + ")"
}

// Const reports the value of an expression without variables.
func (e Expr) Const() (v int64, ok bool) {
	s := e.sum()
	return s.c, s.bad == "" && len(s.terms) == 0
}

// Err is nil unless the expression cannot have a value: a constant division by
// zero, or a coefficient beyond 64 bits.
func (e Expr) Err() error {
	if why := e.sum().bad; why != "" {
		return fmt.Errorf("affine: %s", why)
	}
	return nil
}

// Equal reports whether both have the same canonical form, and so the same value
// for all variables. False does not mean that they differ.
func (e Expr) Equal(f Expr) bool {
	x, y := e.sum(), f.sum()
	if x.bad != "" || y.bad != "" || x.c != y.c || len(x.terms) != len(y.terms) {
		return false
	}
	for i := range x.terms {
		if x.terms[i].coef != y.terms[i].coef || x.terms[i].key != y.terms[i].key {
			return false
		}
	}
	return true
}

// Var reports the name of an expression that is one variable.
func (e Expr) Var() (name string, ok bool) {
	f, ok := single1(e)
	return f.name, ok && f.op == opVar
}

// Vars is the sorted set of names of the variables.
func (e Expr) Vars() []string {
	set := map[string]bool{}
	e.vars(set)
	names := make([]string, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

func (e Expr) vars(set map[string]bool) {
	for _, t := range e.sum().terms {
		for _, f := range t.factors {
			if f.op == opVar {
				set[f.name] = true
				continue
			}
			f.a.vars(set)
			f.b.vars(set)
		}
	}
}

// String is the canonical text, which [Parse] reads back.
func (e Expr) String() string {
	s := e.sum()
	if s.bad != "" {
		return "invalid"
	}
	if len(s.terms) == 0 {
		return strconv.FormatInt(s.c, 10)
	}
	room := 24 * len(s.terms)
	for _, t := range s.terms {
		room += len(t.key)
	}
	b := make([]byte, 0, room)
	for i, t := range s.terms {
		c := t.coef
		switch {
		case i > 0 && c < 0:
			b = append(b, " - "...)
		case i > 0:
			b = append(b, " + "...)
		case c < 0:
			b = append(b, '-')
		}
		if c == 1 || c == -1 { // a leading minus would bind to the dividend
			b = t.text(b, i > 0 || c == 1)
		} else {
			b = t.text(append(strconv.AppendUint(b, mag(c), 10), '*'), false)
		}
	}
	switch {
	case s.c > 0:
		b = append(b, " + "...)
	case s.c < 0:
		b = append(b, " - "...)
	}
	if s.c != 0 {
		b = strconv.AppendUint(b, mag(s.c), 10)
	}
	return string(b)
}

// text adds the product of the factors.
func (t term) text(b []byte, alone bool) []byte {
	for i, f := range t.factors {
		if i > 0 {
			b = append(b, '*')
		}
		if (f.op == opDiv || f.op == opMod) && (!alone || len(t.factors) > 1) {
			b = append(append(append(b, '('), f.key...), ')')
		} else {
			b = append(b, f.key...)
		}
	}
	return b
}

func addOK(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0)
}

func mulOK(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	hi, lo := bits.Mul64(mag(a), mag(b))
	if hi != 0 {
		return 0, false
	}
	if (a < 0) != (b < 0) {
		return -int64(lo), lo <= 1<<63
	}
	return int64(lo), lo < 1<<63
}

func mag(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// Add is e + f.
func (e Expr) Add(f Expr) Expr {
	x, y := e.sum(), f.sum()
	if x.bad != "" {
		return e
	}
	if y.bad != "" {
		return f
	}
	c, ok := addOK(x.c, y.c)
	switch {
	case !ok:
		return bad("a constant does not fit 64 bits")
	case len(x.terms) == 0:
		return y.plus(c)
	case len(y.terms) == 0:
		return x.plus(c)
	}
	out := &sum{c: c, terms: make([]term, 0, len(x.terms)+len(y.terms))}
	i, j := 0, 0
	for i < len(x.terms) || j < len(y.terms) {
		switch {
		case j == len(y.terms) || i < len(x.terms) && x.terms[i].key < y.terms[j].key:
			out.terms = append(out.terms, x.terms[i])
			i++
		case i == len(x.terms) || y.terms[j].key < x.terms[i].key:
			out.terms = append(out.terms, y.terms[j])
			j++
		default:
			t := x.terms[i]
			if t.coef, ok = addOK(t.coef, y.terms[j].coef); !ok {
				return bad("a coefficient does not fit 64 bits")
			}
			if t.coef != 0 {
				out.terms = append(out.terms, t)
			}
			i, j = i+1, j+1
		}
	}
	return Expr{out}
}

// plus is the sum with another constant.
func (x *sum) plus(c int64) Expr {
	if c == x.c {
		return Expr{x}
	}
	return Expr{&sum{c: c, terms: x.terms[:len(x.terms):len(x.terms)]}}
}

// AddConst is e + v.
func (e Expr) AddConst(v int64) Expr { return e.Add(Const(v)) }

// Sub is e - f.
func (e Expr) Sub(f Expr) Expr { return e.Add(f.MulConst(-1)) }

// MulConst is v·e.
func (e Expr) MulConst(v int64) Expr {
	if x := e.sum(); x.bad == "" {
		return x.times(v)
	}
	return e
}

// Mul is e·f, multiplied out.
func (e Expr) Mul(f Expr) Expr {
	x, y := e.sum(), f.sum()
	if x.bad != "" {
		return e
	}
	if y.bad != "" {
		return f
	}
	if len(x.terms) == 0 {
		x, y = y, x
	}
	if len(y.terms) == 0 {
		return x.times(y.c)
	}
	if (len(x.terms)+1)*(len(y.terms)+1) > maxTerms {
		return bad("a product has too many terms")
	}
	c, ok := mulOK(x.c, y.c)
	if !ok {
		return bad("a constant does not fit 64 bits")
	}
	var terms []term
	scaled := func(t term, by int64) {
		if by == 0 || !ok {
			return
		}
		t.coef, ok = mulOK(t.coef, by)
		terms = append(terms, t)
	}
	for _, t := range x.terms {
		scaled(t, y.c)
		for _, u := range y.terms {
			v := term{coef: t.coef, factors: append(append([]atom(nil), t.factors...), u.factors...)}
			sort.SliceStable(v.factors, func(i, j int) bool { return v.factors[i].key < v.factors[j].key })
			v.key = string(v.text(nil, true))
			scaled(v, u.coef)
		}
	}
	for _, u := range y.terms {
		scaled(u, x.c)
	}
	if !ok {
		return bad("a coefficient does not fit 64 bits")
	}
	out := Const(c)
	for _, t := range terms {
		out = out.Add(Expr{&sum{terms: []term{t}}})
	}
	return out
}

// times is x·v.
func (x *sum) times(v int64) Expr {
	if v == 1 {
		return Expr{x}
	}
	c, ok := mulOK(x.c, v)
	if !ok {
		return bad("a constant does not fit 64 bits")
	}
	out := &sum{c: c}
	if v == 0 {
		return Expr{out}
	}
	out.terms = slices.Clone(x.terms)
	for i := range out.terms {
		t := &out.terms[i]
		if t.coef, ok = mulOK(t.coef, v); !ok {
			return bad("a coefficient does not fit 64 bits")
		}
	}
	return Expr{out}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - b*floorDiv(a, b) }

// split writes e = d·q + r, where r holds the terms whose coefficients d does not
// divide and a constant in [0, d).
func (e Expr) split(d int64) (q, r Expr) {
	s := e.sum()
	qs, rs := &sum{c: floorDiv(s.c, d)}, &sum{c: floorMod(s.c, d)}
	for _, t := range s.terms {
		if t.coef%d == 0 {
			t.coef /= d
			qs.terms = append(qs.terms, t)
		} else {
			rs.terms = append(rs.terms, t)
		}
	}
	return Expr{qs}, Expr{rs}
}

// reduce divides r and d by the greatest factor common to d and to all
// coefficients of r: r = g·small + rest with 0 ≤ rest < g.
func (e Expr) reduce(d int64) (g int64, small Expr, rest int64) {
	s := e.sum()
	g = d
	for _, t := range s.terms {
		for b := mag(t.coef); b != 0; {
			g, b = int64(b), uint64(g)%b
		}
	}
	out := &sum{c: floorDiv(s.c, g)}
	for _, t := range s.terms {
		t.coef /= g
		out.terms = append(out.terms, t)
	}
	return g, Expr{out}, floorMod(s.c, g)
}

// divisor is a number that divides the term for all values of its variables.
func (t term) divisor() int64 {
	for _, f := range t.factors {
		if f.op != opVar {
			return t.alone().Divisor(nil)
		}
	}
	return divides(t.coef)
}

// divides is the greatest number of 64 bits that divides n, 0 for 0: of -2^63 it is 2^62.
func divides(n int64) int64 {
	if n == math.MinInt64 {
		return 1 << 62
	}
	return int64(mag(n))
}

// termsDivisor is a number that divides all terms.
func (e Expr) termsDivisor() int64 {
	g := int64(0)
	for _, t := range e.sum().terms {
		g = GCD(g, t.divisor())
	}
	return g
}

// FloorDiv is ⌊e/f⌋.
func (e Expr) FloorDiv(f Expr) Expr {
	if e.sum().bad != "" {
		return e
	}
	if f.sum().bad != "" {
		return f
	}
	d, ok := f.Const()
	switch {
	case !ok:
		return binary(opDiv, e, f)
	case d == 0:
		return bad("division by zero")
	case d < 0 && d != -d:
		return e.MulConst(-1).FloorDiv(Const(-d))
	case d < 0:
		return bad("a divisor does not fit 64 bits")
	case d == 1:
		return e
	}
	q, r := e.split(d)
	if r.sum().c != 0 {
		if g := GCD(r.termsDivisor(), d); g > 1 { // below g, the constant makes no difference
			r = r.AddConst(-floorMod(r.sum().c, g))
		}
	}
	g, small, _ := r.reduce(d)
	d /= g
	if _, ok := small.Const(); ok { // 0 ≤ r < d
		return q
	}
	if s := small.sum(); len(s.terms) == 1 && s.terms[0].coef == 1 && len(s.terms[0].factors) == 1 {
		if f := s.terms[0].factors[0]; f.op == opDiv {
			if n, ok := f.b.Const(); ok {
				inner, ok1 := mulOK(n, s.c)
				outer, ok2 := mulOK(n, d)
				if ok1 && ok2 {
					return q.Add(f.a.AddConst(inner).FloorDiv(Const(outer)))
				}
			}
		}
	}
	return q.Add(binary(opDiv, small, Const(d)))
}

// CeilDiv is ⌈e/f⌉.
func (e Expr) CeilDiv(f Expr) Expr {
	if d, ok := f.Const(); ok && d > 0 {
		return e.AddConst(d - 1).FloorDiv(f)
	}
	return e.MulConst(-1).FloorDiv(f).MulConst(-1)
}

// Mod is e - f·⌊e/f⌋: it has the sign of f.
func (e Expr) Mod(f Expr) Expr {
	if e.sum().bad != "" {
		return e
	}
	if f.sum().bad != "" {
		return f
	}
	d, ok := f.Const()
	switch {
	case !ok:
		return binary(opMod, e, f)
	case d == 0:
		return bad("division by zero")
	case d < 0 && d != -d:
		return e.MulConst(-1).Mod(Const(-d)).MulConst(-1)
	case d < 0:
		return bad("a divisor does not fit 64 bits")
	case d == 1:
		return Const(0)
	}
	_, r := e.split(d)
	for _, t := range r.sum().terms {
		if t.divisor()%d == 0 { // without d in its coefficient
			if r = r.Sub(t.alone()); r.sum().bad != "" {
				return r
			}
		}
	}
	// A remainder by a multiple of d inside the dividend does nothing.
	for _, t := range r.sum().terms {
		if f := t.factors[0]; len(t.factors) == 1 && f.op == opMod {
			if m, ok := f.b.Const(); ok && m > 0 {
				if km, ok := mulOK(t.coef, m); ok && km%d == 0 {
					return r.Sub(t.alone()).Add(f.a.MulConst(t.coef)).Mod(Const(d))
				}
			}
		}
	}
	g, small, rest := r.reduce(d)
	d /= g
	if d == 1 {
		return Const(rest)
	}
	if v, ok := small.Const(); ok {
		return Const(floorMod(v, d)*g + rest)
	}
	return binary(opMod, small, Const(d)).MulConst(g).AddConst(rest)
}

// Min is the smaller of e and f.
func (e Expr) Min(f Expr) Expr { return e.extreme(f, opMin) }

// Max is the larger of e and f.
func (e Expr) Max(f Expr) Expr { return e.extreme(f, opMax) }

func (e Expr) extreme(f Expr, o op) Expr {
	if e.sum().bad != "" {
		return e
	}
	if f.sum().bad != "" {
		return f
	}
	if d, ok := e.Sub(f).Const(); ok {
		if (d < 0) == (o == opMin) {
			return e
		}
		return f
	}
	if f.String() < e.String() {
		e, f = f, e
	}
	return binary(o, e, f)
}

// Eval is the value with the variables bound. Errors: a variable without a
// value, division by zero, a result or part of it beyond 64 bits.
func (e Expr) Eval(vars map[string]int64) (int64, error) {
	if err := e.Err(); err != nil {
		return 0, err
	}
	s := e.sum()
	total := s.c
	for _, t := range s.terms {
		v, ok := t.coef, true
		for _, f := range t.factors {
			x, err := f.eval(vars)
			if err != nil {
				return 0, err
			}
			if v, ok = mulOK(v, x); !ok {
				return 0, fmt.Errorf("affine: %s does not fit 64 bits", e)
			}
		}
		if total, ok = addOK(total, v); !ok {
			return 0, fmt.Errorf("affine: %s does not fit 64 bits", e)
		}
	}
	return total, nil
}

func (f atom) eval(vars map[string]int64) (int64, error) {
	if f.op == opVar {
		v, ok := vars[f.name]
		if !ok {
			return 0, fmt.Errorf("affine: no value for %s", f.name)
		}
		return v, nil
	}
	a, err := f.a.Eval(vars)
	if err != nil {
		return 0, err
	}
	b, err := f.b.Eval(vars)
	if err != nil {
		return 0, err
	}
	switch f.op {
	case opMin:
		return min(a, b), nil
	case opMax:
		return max(a, b), nil
	}
	if b == 0 {
		return 0, fmt.Errorf("affine: division by zero in %s", f.key)
	}
	if b == -1 {
		if f.op == opMod {
			return 0, nil
		}
		if a == -a && a != 0 {
			return 0, fmt.Errorf("affine: %s does not fit 64 bits", f.key)
		}
		return -a, nil
	}
	if f.op == opDiv {
		return floorDiv(a, b), nil
	}
	return floorMod(a, b), nil
}
