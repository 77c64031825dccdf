package affine

// Term is one summand of an expression: a number times factors.
type Term struct {
	Coef    int64
	Factors []Factor // at least one
}

// Factor is an atom: a variable, or two expressions joined by an operation.
type Factor struct {
	Op   string // "var", "div", "mod", "min" or "max"
	Name string // of a variable
	A, B Expr   // of the others
}

// Terms takes an expression apart: its value is constant plus the sum of the terms. It
// is what generates code from expressions.
func (e Expr) Terms() (constant int64, terms []Term) {
	s := e.sum()
	for _, t := range s.terms {
		out := Term{Coef: t.coef}
		for _, f := range t.factors {
			out.Factors = append(out.Factors, Factor{Op: [...]string{"var", "div", "mod", "min", "max"}[f.op], Name: f.name, A: f.a, B: f.b})
		}
		terms = append(terms, out)
	}
	return s.c, terms
}
