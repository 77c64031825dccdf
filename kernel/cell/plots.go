package cell

import "go/ast"

// oldPlots lets notebooks of gonum/plot's first years run: there, plot.New gave an error beside the plot, which was always nil.
func oldPlots(p *parsed) {
	visit := func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != 2 || len(a.Rhs) != 1 {
			return true
		}
		call, ok := a.Rhs[0].(*ast.CallExpr)
		if !ok || len(call.Args) != 0 {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "New" {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "plot" {
				at := call.End()
				a.Rhs = append(a.Rhs, &ast.CallExpr{Fun: &ast.Ident{NamePos: at, Name: "error"}, Lparen: at, Args: []ast.Expr{&ast.Ident{NamePos: at, Name: "nil"}}, Rparen: at})
			}
		}
		return true
	}
	if p.body != nil {
		ast.Inspect(p.body, visit)
	}
	for _, f := range p.funcs {
		ast.Inspect(f, visit)
	}
}
