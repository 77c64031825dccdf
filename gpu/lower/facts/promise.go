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
	f.bound(b)
	if zero, ok := ir.ConstInt(b.Y); b.Op != "==" || !ok || zero != 0 {
		return
	}
	mod, ok := b.X.(*ir.Binary)
	if !ok || mod.Op != "%" {
		return
	}
	r, ok := mod.X.(*ir.Ref)
	n, ok2 := ir.ConstInt(mod.Y)
	if !ok || !ok2 || !r.Var.Param || n < 1 || n > Many {
		return
	}
	was := max(1, f.divisors[r.Var.Name])
	f.divisors[r.Var.Name] = was / GCD(was, n) * n
}

// bound takes a comparison of a parameter with a constant.
func (f *Facts) bound(b *ir.Binary) {
	r, ok := b.X.(*ir.Ref)
	n, ok2 := ir.ConstInt(b.Y)
	op := b.Op
	if !ok || !ok2 {
		if r, ok = b.Y.(*ir.Ref); !ok {
			return
		}
		if n, ok = ir.ConstInt(b.X); !ok {
			return
		}
		op = map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}[op]
	}
	if !r.Var.Param {
		return
	}
	all := affine.Everything
	if known, ok := f.bounds[r.Var.Name]; ok {
		all = known
	}
	switch op {
	case "<":
		all.Hi = min(all.Hi, n-1)
	case "<=":
		all.Hi = min(all.Hi, n)
	case ">":
		all.Lo = max(all.Lo, n+1)
	case ">=":
		all.Lo = max(all.Lo, n)
	case "==":
		all.Lo, all.Hi = max(all.Lo, n), min(all.Hi, n)
	}
	if all.Lo <= all.Hi { // else nothing runs
		f.bounds[r.Var.Name] = all
	}
}
