// Package facts knows scalar variables while code is made: how many blocks a block
// index runs over, what a loop variable runs over, what divides a parameter. Facts
// prove index bounds, so that checks can be left out, and alignment, so that accesses
// can be wide. What there is to know of expressions says vm/affine; here programs'
// expressions become its.
package facts

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Many bounds divisors that are of use.
const Many = 1 << 20

// Facts are what is known about the scalar variables of a program.
type Facts struct {
	known    *affine.Known
	value    map[*ir.Var]ir.Expr     // scalar variables assigned exactly once
	assigned map[*ir.Var]int         // how often a scalar variable is assigned
	names    map[*ir.Var]affine.Expr // of variables that stand for themselves
	exprs    map[ir.Expr]affine.Expr // looked at so far
	symbols  int                     // made so far
}

// New finds what a program says of its variables; divisible gives numbers that surely
// divide parameters.
func New(p *ir.Program, divisible map[string]int64) *Facts {
	f := &Facts{known: affine.NewKnown(), value: map[*ir.Var]ir.Expr{}, assigned: map[*ir.Var]int{}, names: map[*ir.Var]affine.Expr{}, exprs: map[ir.Expr]affine.Expr{}}
	for _, v := range p.Params {
		if v.Type.Kind != ir.Scalar || !v.Type.Elem.IsInt() {
			continue
		}
		f.known.Restrict(v.Name, rangeOf(v.Type.Elem))
		if n := divisible[v.Name]; n > 0 {
			f.known.Multiple(v.Name, n)
		}
	}
	f.scan(p.Body)
	f.promises(p.Body)
	return f
}

// rangeOf is what an index of a type can be.
func rangeOf(t dtype.Type) affine.Range {
	switch t {
	case dtype.I32:
		return affine.Range{Lo: math.MinInt32, Hi: math.MaxInt32}
	case dtype.U32:
		return affine.Range{Lo: 0, Hi: math.MaxUint32}
	}
	return affine.Everything
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

// Span says that a variable runs over [from, to) in steps.
func (f *Facts) Span(v *ir.Var, from, to ir.Expr, step int64) {
	if name := f.of(ir.NewRef(v)).Vars(); len(name) == 1 {
		f.known.Runs(name[0], affine.Span{From: f.of(from), To: f.of(to), Step: step})
	}
}

// Affine is an expression over parameters in vm/affine's form; ok is false
// when it names anything else or compares.
func Affine(e ir.Expr) (a affine.Expr, ok bool) {
	ok = true
	a = translate(e, func(e ir.Expr) affine.Expr {
		if r, isRef := e.(*ir.Ref); isRef && r.Var.Param {
			return affine.Var(r.Var.Name)
		}
		ok = false
		return affine.Expr{}
	})
	return a, ok
}

// operations are those that programs and vm/affine have both.
var operations = map[string]func(x, y affine.Expr) affine.Expr{
	"+": affine.Expr.Add, "-": affine.Expr.Sub, "*": affine.Expr.Mul, "/": affine.Expr.FloorDiv, "%": affine.Expr.Mod, "min": affine.Expr.Min, "max": affine.Expr.Max,
}

// translate makes an expression of vm/affine; other gives what stands for its parts
// that have no form there.
func translate(e ir.Expr, other func(ir.Expr) affine.Expr) affine.Expr {
	switch e := e.(type) {
	case *ir.Int:
		return affine.Const(e.Value)
	case *ir.Unary:
		if e.Op == "-" {
			return translate(e.X, other).MulConst(-1)
		}
	case *ir.Binary:
		if f := operations[e.Op]; f != nil {
			return f(translate(e.X, other), translate(e.Y, other))
		}
	}
	return other(e)
}

// of is a program's expression as vm/affine has it. Its values are those of the
// program: an overflow is an error when the program runs, not another value.
func (f *Facts) of(e ir.Expr) affine.Expr {
	if a, ok := f.exprs[e]; ok {
		return a
	}
	a := translate(e, f.part)
	f.exprs[e] = a
	return a
}

// part stands for a variable, or for what vm/affine has no form of.
func (f *Facts) part(e ir.Expr) affine.Expr {
	switch e := e.(type) {
	case *ir.Ref:
		if e.Var.Param {
			return affine.Var(e.Var.Name)
		}
		if v, ok := f.value[e.Var]; ok && f.assigned[e.Var] == 1 {
			return f.of(v)
		}
		a, ok := f.names[e.Var]
		if !ok {
			a = f.symbol(rangeOf(e.Var.Type.Elem))
			f.names[e.Var] = a
		}
		return a
	case *ir.Binary:
		if n, ok := ir.ConstInt(e.Y); ok && n >= 0 {
			switch x := f.of(e.X); {
			case e.Op == ">>" && n < 32:
				return x.FloorDiv(affine.Const(1 << n))
			case e.Op == "<<" && n < 32:
				if y := x.MulConst(1 << n); f.known.Range(y).Within(affine.Range{Lo: 0, Hi: math.MaxInt32}) {
					return y
				}
			case e.Op == "&" && n&(n+1) == 0:
				return x.Mod(affine.Const(n + 1))
			case e.Op == "&":
				return f.symbol(affine.Range{Lo: 0, Hi: n})
			}
		}
	}
	t, _ := ir.TypeOf(e, func(diag.Pos, string, string, string) {})
	if s, ok := e.(*ir.Select); ok && (t == dtype.I32 || t == dtype.U32) { // one of the two
		x, y := f.Interval(s.X, t), f.Interval(s.Y, t)
		a := f.symbol(affine.Range{Lo: min(x.Lo, y.Lo), Hi: max(x.Hi, y.Hi)})
		if n := affine.GCD(f.Divisor(s.X), f.Divisor(s.Y)); n > 1 {
			f.known.Multiple(a.Vars()[0], min(n, Many))
		}
		return a
	}
	return f.symbol(rangeOf(t))
}

// symbol is a new variable.
func (f *Facts) symbol(r affine.Range) affine.Expr {
	f.symbols++
	name := fmt.Sprintf("#%d", f.symbols)
	f.known.Restrict(name, r)
	return affine.Var(name)
}

// Inside proves 0 ≤ e + low and e + high < extent. The extent is at least 1: a
// launch with an empty view is refused before it starts (Run.E6).
func (f *Facts) Inside(e ir.Expr, low, high int64, extent ir.Expr) bool {
	n, ok := Affine(extent)
	if !ok {
		return false
	}
	first, last := f.of(e).AddConst(low), f.of(e).AddConst(high)
	most := n.AddConst(-1)
	return f.known.NonNegative(first, most) && f.known.NonNegative(most.Sub(last), most)
}

// Divides proves that n divides e.
func (f *Facts) Divides(e ir.Expr, n int64) bool { return f.known.Divides(n, f.of(e)) }

// Divisor is a number that surely divides e; 0 stands for e = 0, which every
// number divides.
func (f *Facts) Divisor(e ir.Expr) int64 { return f.known.Divisor(f.of(e)) }

// Interval is a range that holds an expression of type t for every launch; the whole
// type's where an expression could leave it.
func (f *Facts) Interval(e ir.Expr, t dtype.Type) affine.Range {
	if r := f.known.Range(f.of(e)); r.Within(rangeOf(t)) {
		return r
	}
	return rangeOf(t)
}

// NonNegative proves that e is never negative.
func (f *Facts) NonNegative(e ir.Expr) bool { return f.known.NonNegative(f.of(e)) }

// Saturate keeps divisors of two known to be useful within a bound; only their
// powers of two matter beyond it.
func Saturate(n int64) int64 {
	if n > Many {
		return n & -n
	}
	return n
}
