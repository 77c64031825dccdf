// Package facts knows scalar variables while code is made: how many blocks a block
// index runs over, what a loop variable runs over, what divides a parameter. Facts
// prove index bounds, so that checks can be left out, and alignment, so that accesses
// can be wide.
package facts

import (
	"maps"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Many bounds divisors that are of use.
const Many = 1 << 20

// New finds what a program says of its variables; divisible gives numbers that surely
// divide parameters.
func New(p *ir.Program, divisible map[string]int64) *Facts {
	f := &Facts{divisors: map[string]int64{}, bounds: map[string]affine.Range{}, span: map[*ir.Var]span{}, value: map[*ir.Var]ir.Expr{}, assigned: map[*ir.Var]int{}}
	maps.Copy(f.divisors, divisible)
	f.scan(p.Body)
	f.promises(p.Body)
	return f
}

// Span says that a variable runs over [from, to) in steps.
func (f *Facts) Span(v *ir.Var, from, to ir.Expr, step int64) { f.span[v] = span{from, to, step} }

// Facts are what is known about the scalar variables of a program.
type Facts struct {
	divisors map[string]int64        // parameters: a known divisor
	bounds   map[string]affine.Range // parameters: what the program assumes of their size
	span     map[*ir.Var]span        // variables with bounds
	value    map[*ir.Var]ir.Expr     // scalar variables assigned exactly once
	assigned map[*ir.Var]int         // how often a scalar variable is assigned
}

// span is the half-open range [from, to) in steps.
type span struct {
	from, to ir.Expr
	step     int64
}

// Affine is an expression over parameters in vm/affine's form; ok is false
// when it names anything else or compares.
func Affine(e ir.Expr) (a affine.Expr, ok bool) {
	switch e := e.(type) {
	case *ir.Int:
		return affine.Const(e.Value), true
	case *ir.Ref:
		return affine.Var(e.Var.Name), e.Var.Param
	case *ir.Unary:
		x, ok := Affine(e.X)
		return affine.Const(0).Sub(x), ok && e.Op == "-"
	case *ir.Binary:
		x, okX := Affine(e.X)
		y, okY := Affine(e.Y)
		if !okX || !okY {
			return a, false
		}
		switch e.Op {
		case "+":
			return x.Add(y), true
		case "-":
			return x.Sub(y), true
		case "*":
			return x.Mul(y), true
		case "/":
			return x.FloorDiv(y), true
		case "%":
			return x.Mod(y), true
		case "min":
			return x.Min(y), true
		case "max":
			return x.Max(y), true
		}
	}
	return a, false
}

// upper is an expression over parameters that scale·e never exceeds; scale ≥ 1.
func (f *Facts) upper(e ir.Expr, scale int64) (a affine.Expr, ok bool) {
	if a, ok := Affine(e); ok {
		return shrink(e, a, scale), true
	}
	switch e := e.(type) {
	case *ir.Ref:
		if v, ok := f.value[e.Var]; ok && f.assigned[e.Var] == 1 {
			return f.upper(v, scale)
		}
		s, ok := f.span[e.Var]
		if !ok {
			return a, false
		}
		if s.step < 0 {
			return f.upper(s.from, scale)
		}
		// The last value is to-1, or to-step when the span is whole steps.
		last := int64(1)
		if f.Divides(s.to, s.step) && f.Divides(s.from, s.step) {
			last = s.step
		}
		top, ok := f.upper(s.to, scale)
		return top.AddConst(-last * scale), ok
	case *ir.Binary:
		return f.upperBinary(e, scale)
	}
	return a, false
}

func (f *Facts) upperBinary(e *ir.Binary, scale int64) (a affine.Expr, ok bool) {
	switch e.Op {
	case "+":
		x, okX := f.upper(e.X, scale)
		y, okY := f.upper(e.Y, scale)
		return x.Add(y), okX && okY
	case "-":
		x, okX := f.upper(e.X, scale)
		y, okY := f.lower(e.Y, scale)
		return x.Sub(y), okX && okY
	case "*":
		for _, p := range [2][2]ir.Expr{{e.X, e.Y}, {e.Y, e.X}} {
			if c, isConst := ir.ConstInt(p[1]); isConst && c >= 1 && c < 1<<31 && scale < 1<<31 {
				return f.upper(p[0], scale*c)
			}
		}
	case "min":
		if x, ok := f.upper(e.X, scale); ok {
			return x, true
		}
		return f.upper(e.Y, scale)
	}
	return a, false
}

// shrink is scale·a, but for a quotient x/c with c dividing scale it is the
// larger (scale/c)·x, which cancels against extents written without division.
func shrink(e ir.Expr, a affine.Expr, scale int64) affine.Expr {
	if q, isQuotient := e.(*ir.Binary); isQuotient && q.Op == "/" {
		if c, ok := ir.ConstInt(q.Y); ok && c > 0 && scale%c == 0 {
			if x, ok := Affine(q.X); ok {
				return x.MulConst(scale / c)
			}
		}
	}
	return a.MulConst(scale)
}

// lower is an expression over parameters that scale·e never falls below.
func (f *Facts) lower(e ir.Expr, scale int64) (a affine.Expr, ok bool) {
	if a, ok := Affine(e); ok {
		return a.MulConst(scale), true
	}
	switch e := e.(type) {
	case *ir.Ref:
		if v, ok := f.value[e.Var]; ok && f.assigned[e.Var] == 1 {
			return f.lower(v, scale)
		}
		s, ok := f.span[e.Var]
		if !ok || s.step < 0 {
			return a, false
		}
		return f.lower(s.from, scale)
	case *ir.Binary:
		switch e.Op {
		case "+":
			x, okX := f.lower(e.X, scale)
			y, okY := f.lower(e.Y, scale)
			return x.Add(y), okX && okY
		case "-":
			x, okX := f.lower(e.X, scale)
			y, okY := f.upper(e.Y, scale)
			return x.Sub(y), okX && okY
		case "*":
			for _, p := range [2][2]ir.Expr{{e.X, e.Y}, {e.Y, e.X}} {
				if c, isConst := ir.ConstInt(p[1]); isConst && c >= 1 && c < 1<<31 && scale < 1<<31 {
					return f.lower(p[0], scale*c)
				}
			}
		}
	}
	return a, false
}

// Inside proves 0 ≤ e + low and e + high < extent. The extent is at least 1: a
// launch with an empty view is refused before it starts (Run.E6).
func (f *Facts) Inside(e ir.Expr, low, high int64, extent ir.Expr) bool {
	n, ok := Affine(extent)
	return ok && f.notBelow(e, low, n) && f.below(e, high, n)
}

// below proves e + high < n for n ≥ 1; for a minimum either side will do.
func (f *Facts) below(e ir.Expr, high int64, n affine.Expr) bool {
	if m, ok := e.(*ir.Binary); ok && m.Op == "min" {
		return f.below(m.X, high, n) || f.below(m.Y, high, n)
	}
	a, ok := f.upper(e, 1)
	a = a.AddConst(high)
	return ok && (f.nonNegative(n.Sub(a).AddConst(-1)) || f.nonNegative(a.MulConst(-1)))
}

// notBelow proves e + low ≥ 0 given n ≥ 1; a minimum needs both sides.
func (f *Facts) notBelow(e ir.Expr, low int64, n affine.Expr) bool {
	if m, ok := e.(*ir.Binary); ok && m.Op == "min" {
		return f.notBelow(m.X, low, n) && f.notBelow(m.Y, low, n)
	}
	a, ok := f.lower(e, 1)
	a = a.AddConst(low)
	return ok && (f.nonNegative(a) || f.nonNegative(a.Sub(n).AddConst(1)))
}

// nonNegative proves a ≥ 0 from parameters alone, about which nothing is
// known but what the program assumes.
func (f *Facts) nonNegative(a affine.Expr) bool { return a.Range(f.bounds).Lo >= 0 }

// Divides proves that n divides e.
func (f *Facts) Divides(e ir.Expr, n int64) bool {
	d := f.Divisor(e)
	return n != 0 && (d == 0 || d%n == 0)
}

// Divisor is a number that surely divides e; 0 stands for e = 0, which every
// number divides.
func (f *Facts) Divisor(e ir.Expr) int64 {
	switch e := e.(type) {
	case *ir.Int:
		return abs(e.Value)
	case *ir.Ref:
		if e.Var.Param {
			return max(1, f.divisors[e.Var.Name])
		}
		if v, ok := f.value[e.Var]; ok && f.assigned[e.Var] == 1 {
			return f.Divisor(v)
		}
		if s, ok := f.span[e.Var]; ok {
			return max(1, GCD(f.Divisor(s.from), abs(s.step)))
		}
	case *ir.Unary:
		if e.Op == "-" {
			return f.Divisor(e.X)
		}
	case *ir.Binary:
		x, y := f.Divisor(e.X), f.Divisor(e.Y)
		switch e.Op {
		case "+", "-", "min", "max":
			return GCD(x, y)
		case "*":
			if x > 1<<30 || y > 1<<30 {
				return max(x, y)
			}
			return x * y
		case "/":
			if c, ok := ir.ConstInt(e.Y); ok && c > 0 && x%c == 0 && x > 0 {
				return x / c
			}
		}
	}
	return 1
}

// Saturate keeps divisors of two known to be useful within a bound; only their
// powers of two matter beyond it.
func Saturate(n int64) int64 {
	if n > Many {
		return n & -n
	}
	return n
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

// GCD treats 0 as divisible by everything: GCD(0, n) = n.
func GCD(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return abs(a)
}

// scan counts assignments of scalars, so that facts know which variables are
// names for one expression.
func (f *Facts) scan(b *ir.Block) {
	b.Walk(func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Let:
			f.assigned[s.Var]++
			f.value[s.Var] = s.Value
		case *ir.Instr:
			for _, v := range s.Out {
				f.assigned[v]++
			}
		}
		return true
	})
	// A variable whose expression names a variable that changes is no fixed name.
	for v, e := range f.value {
		ir.Refs(e, func(r *ir.Ref) {
			if f.assigned[r.Var] > 1 {
				delete(f.value, v)
			}
		})
	}
}
