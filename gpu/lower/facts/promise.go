package facts

import (
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// promises finds what assume says of parameters: divisors and bounds. A promise counts from the
// start of the program, since a launch that breaks it is an error wherever it stands.
func (f *Facts) promises(b *ir.Block) {
	for _, s := range b.Stmts {
		if a, ok := s.(*ir.Assume); ok {
			f.promise(a.Cond)
		}
	}
}

func (f *Facts) promise(e ir.Expr) {
	b, ok := e.(*ir.Binary)
	if !ok {
		return
	}
	if b.Op == "&&" {
		f.promise(b.X)
		f.promise(b.Y)
		return
	}
	x, y, op := b.X, b.Y, b.Op
	n, ok := ir.ConstInt(y)
	if !ok {
		if n, ok = ir.ConstInt(x); !ok {
			return
		}
		x, op = y, map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}[op]
	}
	r := affine.Everything
	switch op {
	case "<":
		r.Hi = n - 1
	case "<=":
		r.Hi = n
	case ">":
		r.Lo = n + 1
	case ">=":
		r.Lo = n
	case "==":
		r = affine.Range{Lo: n, Hi: n}
	default:
		return
	}
	switch x := x.(type) {
	case *ir.Ref:
		if x.Var.Param {
			f.known.Restrict(x.Var.Name, r)
		}
	case *ir.Binary:
		by, ok := ir.ConstInt(x.Y)
		if p, isRef := x.X.(*ir.Ref); op == "==" && n == 0 && x.Op == "%" && ok && isRef && p.Var.Param && by >= 1 && by <= Many {
			f.known.Multiple(p.Var.Name, by)
		}
	}
}
