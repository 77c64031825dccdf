package cell

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// assign prints an assignment or short declaration.
func (g *gen) assign(s *ast.AssignStmt) string {
	if s.Tok != token.DEFINE && s.Tok != token.ASSIGN {
		return g.expr(s.Lhs[0]) + " " + s.Tok.String() + " " + g.expr(s.Rhs[0])
	}
	if len(s.Lhs) != len(s.Rhs) {
		return g.assignTuple(s)
	}
	if len(s.Lhs) > 1 && g.stepwise(s) {
		return g.oneByOne(s)
	}
	tok := ":="
	for _, l := range s.Lhs {
		if g.declares(s, l) {
			tok = ":="
			break
		}
		tok = "="
	}
	var lhs, rhs []string
	for i, l := range s.Lhs {
		x := g.expr(l)
		lhs = append(lhs, x)
		var to types.Type
		if x != "_" {
			to = g.typeOf(l)
		}
		r := g.conv(s.Rhs[i], to)
		if _, deref := unparen(s.Rhs[i]).(*ast.StarExpr); deref && x == "_" && len(s.Lhs) == 1 {
			// The interpreter does not look where nobody wants the value.
			v := g.fresh("v")
			return v + " := " + r + "\n_ = " + v
		}
		// What := declares has the type that the checker found, which the interpreter may see differently.
		if tok == ":=" {
			if _, isLit := unparen(s.Rhs[i]).(*ast.FuncLit); !isLit && g.info.Types[s.Rhs[i]].Value == nil && needsType(g.typeOf(s.Rhs[i])) {
				r = "(" + g.typ(g.typeOf(l)) + ")(" + r + ")"
			}
		}
		rhs = append(rhs, r)
	}
	if tok == "=" {
		return together(lhs, rhs)
	}
	return strings.Join(lhs, ", ") + " " + tok + " " + strings.Join(rhs, ", ")
}

// declares tells whether an assignment declares a variable in the function being printed.
func (g *gen) declares(s *ast.AssignStmt, l ast.Expr) bool {
	id, ok := l.(*ast.Ident)
	if !ok || s.Tok != token.DEFINE || id.Name == "_" || g.info.Defs[id] == nil {
		return false
	}
	_, top := g.vars[g.info.Defs[id]]
	return !top
}

// assignTuple prints an assignment of the values of one expression. The interpreter loses values that go straight from a call into several
// package-level variables, and does not convert them.
func (g *gen) assignTuple(s *ast.AssignStmt) string {
	r := g.expr(s.Rhs[0])
	plain := true
	for _, l := range s.Lhs {
		if id, ok := l.(*ast.Ident); !ok || id.Name != "_" && !g.declares(s, l) {
			plain = false
		}
	}
	if plain {
		var names []string
		tok := " = "
		for _, l := range s.Lhs {
			names = append(names, g.expr(l))
			if g.declares(s, l) {
				tok = " := "
			}
		}
		return strings.Join(names, ", ") + tok + r
	}
	pre, lhs := g.places(s)
	var names, sets []string
	tu, _ := g.typeOf(s.Rhs[0]).(*types.Tuple)
	for i, x := range lhs {
		if x == "_" {
			names = append(names, "_")
			continue
		}
		n := g.fresh("t")
		names = append(names, n)
		v, tok := n, " := "
		if !g.declares(s, s.Lhs[i]) {
			tok = " = "
			if tu != nil {
				v = g.convText(n, tu.At(i).Type(), g.typeOf(s.Lhs[i]))
			}
		}
		sets = append(sets, x+tok+v)
	}
	return strings.Join(append(append(pre, strings.Join(names, ", ")+" := "+r), sets...), "\n")
}

// isComposite tells whether an expression is a composite literal.
func isComposite(x ast.Expr) bool {
	_, ok := unparen(x).(*ast.CompositeLit)
	return ok
}

// convertsLiteral tells whether an expression converts a function literal.
func (g *gen) convertsLiteral(x ast.Expr) bool {
	c, ok := unparen(x).(*ast.CallExpr)
	if !ok || len(c.Args) != 1 || !g.info.Types[unparen(c.Fun)].IsType() {
		return false
	}
	_, lit := unparen(c.Args[0]).(*ast.FuncLit)
	return lit || g.convertsLiteral(c.Args[0])
}

// stepwise tells whether the values of a parallel assignment must be apart from its places: the interpreter loses values beside
// composite literals, interfaces and elements of maps, and does not take converted function literals.
func (g *gen) stepwise(s *ast.AssignStmt) bool {
	for i, l := range s.Lhs {
		if x, ok := unparen(l).(*ast.IndexExpr); ok {
			if _, ok := g.typeOf(x.X).Underlying().(*types.Map); ok {
				return true
			}
		}
		if id, ok := l.(*ast.Ident); (!ok || id.Name != "_") && types.IsInterface(g.typeOf(l)) || types.IsInterface(g.typeOf(s.Rhs[i])) || isComposite(s.Rhs[i]) || g.convertsLiteral(s.Rhs[i]) {
			return true
		}
	}
	return false
}

// oneByOne prints a parallel assignment in steps: where the places are, all values, then all places.
func (g *gen) oneByOne(s *ast.AssignStmt) string {
	vals, lhs := g.places(s)
	var sets []string
	for i, x := range lhs {
		t := g.typeOf(s.Rhs[i])
		if x != "_" {
			t = g.typeOf(s.Lhs[i])
		}
		r := g.conv(s.Rhs[i], t)
		tok := " = "
		if g.declares(s, s.Lhs[i]) {
			tok = " := "
		}
		if r != "nil" {
			v := g.fresh("t")
			vals = append(vals, fmt.Sprintf("var %s %s = %s", v, g.typ(types.Default(t)), r))
			r = v
		}
		if r != "nil" || x != "_" {
			sets = append(sets, x+tok+r)
		}
	}
	return strings.Join(append(vals, sets...), "\n")
}

// places prints the left side of an assignment. What says where a place is, such as an index, is evaluated before, where the
// assignment could change it.
func (g *gen) places(s *ast.AssignStmt) (before, lhs []string) {
	set := map[types.Object]bool{}
	calls := false
	for _, l := range s.Lhs {
		if id, ok := unparen(l).(*ast.Ident); ok {
			set[g.info.Uses[id]] = true
		}
	}
	for _, x := range slices.Concat(s.Lhs, s.Rhs) {
		ast.Inspect(x, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			calls = calls || ok && !g.info.Types[c.Fun].IsType()
			return !calls
		})
	}
	fixed := func(x ast.Expr, text string) string {
		if g.info.Types[x].Value != nil {
			return text
		}
		if id, ok := unparen(x).(*ast.Ident); ok && !calls && !set[g.info.Uses[id]] {
			return text
		}
		t := g.fresh("t")
		before = append(before, t+" := "+text)
		return t
	}
	var place func(x ast.Expr) string
	place = func(x ast.Expr) string {
		switch x := unparen(x).(type) {
		case *ast.StarExpr:
			return "*" + fixed(x.X, g.operand(x.X))
		case *ast.SelectorExpr:
			sel := g.info.Selections[x]
			if sel == nil || sel.Kind() != types.FieldVal || len(g.env) > 0 {
				break
			}
			t := g.typeOf(x.X)
			in := ""
			if _, ok := t.Underlying().(*types.Pointer); ok {
				in = fixed(x.X, g.operand(x.X))
			} else {
				in = place(x.X)
			}
			in, _ = g.path(in, t, sel.Index())
			return in
		case *ast.IndexExpr:
			switch t := g.typeOf(x.X).Underlying().(type) {
			case *types.Map:
				return fixed(x.X, g.operand(x.X)) + "[" + fixed(x.Index, g.key(x.Index, t.Key())) + "]"
			case *types.Array:
				return place(x.X) + "[" + fixed(x.Index, g.expr(x.Index)) + "]"
			default:
				return fixed(x.X, g.operand(x.X)) + "[" + fixed(x.Index, g.expr(x.Index)) + "]"
			}
		}
		return g.operand(x)
	}
	for _, l := range s.Lhs {
		lhs = append(lhs, place(l))
	}
	return before, lhs
}

// together prints a parallel assignment. The interpreter cannot have nil in one, and nil needs no evaluation.
func together(lhs, rhs []string) string {
	var l, r, after []string
	if len(lhs) == 1 || len(lhs) != len(rhs) {
		return strings.Join(lhs, ", ") + " = " + strings.Join(rhs, ", ")
	}
	for i := range lhs {
		if rhs[i] == "nil" {
			after = append(after, lhs[i]+" = nil")
			continue
		}
		l, r = append(l, lhs[i]), append(r, rhs[i])
	}
	if len(l) > 0 {
		after = append([]string{strings.Join(l, ", ") + " = " + strings.Join(r, ", ")}, after...)
	}
	return strings.Join(after, "; ")
}

// needsType tells whether an expression must be converted to keep its type: comparisons and shifts of untyped operands.
func needsType(t types.Type) bool {
	b, ok := t.(*types.Basic)
	return ok && b.Info()&types.IsUntyped != 0 && b.Kind() != types.UntypedNil
}
