package cell

import (
	"go/ast"
	"go/types"
	"strings"
)

// mirrorPath is the import path of what printed cells call for methods of package reflect, see mirror.go.
const mirrorPath = hostPath + "/mirror"

// mirrored prints a call of a method of reflect.Type or reflect.Value that says of types of cells what the interpreter's types do not
// know, "" for other calls.
func (g *gen) mirrored(e *ast.CallExpr, fun ast.Expr) string {
	switch x := fun.(type) {
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if f := g.callee(sel); f != nil && f.Pkg() != nil && (f.Name() == "TypeFor" || f.Name() == "TypeAssert") && strings.HasSuffix(f.Pkg().Path(), "reflect") {
		if inst, ok := g.info.Instances[sel.Sel]; ok {
			g.reflects(e, inst.TypeArgs.At(0))
		}
		return ""
	}
	name := g.mirror(sel)
	if name == "" {
		return ""
	}
	x, t := g.owner(sel, g.info.Selections[sel])
	if _, ok := t.Underlying().(*types.Pointer); ok {
		x = "*" + x
	}
	args := []string{x}
	if s := g.args(e, g.typeOf(fun).Underlying().(*types.Signature)); s != "" {
		args = append(args, s)
	}
	return g.pkg(g.e.imp.Package(mirrorPath)) + "." + name + "(" + strings.Join(args, ", ") + ")"
}

// mirror names what cells call instead of a method, "" where that is the method.
func (g *gen) mirror(sel *ast.SelectorExpr) string {
	s := g.info.Selections[sel]
	if s == nil || s.Kind() != types.MethodVal || s.Obj().Pkg() == nil || s.Obj().Pkg().Path() != "reflect" {
		return ""
	}
	n := namedOf(s.Obj().(*types.Func).Signature().Recv().Type())
	if n == nil {
		// Methods of interfaces that come from tables have no receiver: what has them does.
		_, t := g.owner(sel, s)
		n = namedOf(t)
	}
	if n == nil || n.Obj().Pkg() == nil || n.Obj().Pkg().Path() != "reflect" {
		return ""
	}
	name := n.Obj().Name() + s.Obj().Name()
	if _, ok := g.e.host.mirrors()[name]; !ok {
		return ""
	}
	return name
}

// reflects refuses a type of which package reflect would say what is not so.
func (g *gen) reflects(at ast.Expr, t types.Type) {
	if strings.HasPrefix(g.e.fset.File(at.Pos()).Name(), moreSource) {
		return // the cell's call of it is refused
	}
	if in := g.lossy(t, map[types.Type]bool{}); in != "" {
		g.refuse(at, "Cell.E8", mirrorHelp, "%s", mirrorText(mainName(g.subst(t)), in))
	}
}

// lossy names a type in t of which the interpreter's type says only what it is made of, "" when there is none.
func (g *gen) lossy(t types.Type, seen map[types.Type]bool) string {
	t = types.Unalias(g.subst(t))
	if seen[t] {
		return ""
	}
	seen[t] = true
	first := func(vs []*types.Var) string {
		for _, v := range vs {
			if in := g.lossy(v.Type(), seen); in != "" {
				return in
			}
		}
		return ""
	}
	switch t := t.(type) {
	case *types.Named:
		if t.Obj().Pkg() == nil || !g.isSource(t.Obj()) {
			return ""
		}
		if st, ok := t.Underlying().(*types.Struct); ok && st.NumFields() > 0 {
			return g.lossy(st, seen)
		}
		return mainName(t)
	case *types.Map:
		if in := g.lossy(t.Key(), seen); in != "" {
			return in
		}
		return g.lossy(t.Elem(), seen)
	case *types.Signature:
		return first(append(tupleVars(t.Params()), tupleVars(t.Results())...))
	case *types.Struct:
		var fields []*types.Var
		for i := range t.NumFields() {
			fields = append(fields, t.Field(i))
		}
		return first(fields)
	case *types.Interface:
		if t.NumMethods() > 0 {
			return mainName(t)
		}
	case interface{ Elem() types.Type }:
		return g.lossy(t.Elem(), seen)
	}
	return ""
}

// marks is what the first field of a struct says of its type.
func (g *gen) marks(t *types.Named, printed string) mark {
	return mark{printed: printed, name: mainName(t), lossy: g.lossy(t, map[types.Type]bool{}), coder: g.codes(t), unsharp: g.unsharp(t, true), texts: g.texts(t)}
}

// codes names a type of cells in t that has methods for encoders, "" when there is none.
func (g *gen) codes(t types.Type) string {
	for _, name := range encoderMethods {
		if n := g.withMethod(t, name, map[types.Type]bool{}); n != nil {
			return mainName(n)
		}
	}
	return ""
}

// texts names a type of cells in t that has a method by which the library prints it, "" when there is none.
func (g *gen) texts(t types.Type) string {
	for _, name := range []string{"Error", "String"} {
		if n := g.withMethod(t, name, map[types.Type]bool{}); n != nil {
			return mainName(n)
		}
	}
	return ""
}
