package cell

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// expr prints an expression.
func (g *gen) expr(e ast.Expr) string {
	if tv, ok := g.info.Types[e]; ok {
		if tv.Value != nil {
			return g.constant(tv.Value, g.subst(tv.Type))
		}
		if tv.IsType() {
			return g.typ(tv.Type)
		}
		if tv.IsNil() {
			return "nil"
		}
	}
	switch e := e.(type) {
	case *ast.Ident:
		return g.ident(e)
	case *ast.BasicLit:
		return e.Value
	case *ast.ParenExpr:
		if _, ok := unparen(e).(*ast.Ident); ok {
			return g.expr(e.X) // for !(x), see below
		}
		return "(" + g.expr(e.X) + ")"
	case *ast.SelectorExpr:
		return g.selector(e)
	case *ast.CallExpr:
		return g.call(e)
	case *ast.StarExpr:
		return "*" + g.expr(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			if c, ok := unparen(e.X).(*ast.CompositeLit); ok {
				return "&" + g.expr(c)
			}
		}
		if e.Op == token.ARROW && !g.selecting && g.reboxes(g.typeOf(e)) {
			// The interpreter fails for nil that is received into one variable.
			c := g.typeOf(e.X)
			return g.between("receive", c, g.typeOf(e), func(string, string) string { return "v, ok := <-x\n_ = ok\nreturn v" }) + "(" + g.expr(e.X) + ")"
		}
		if _, ok := unparen(e.X).(*ast.Ident); ok {
			// The interpreter puts !(x) beside || and && where the function's first result is.
			return e.Op.String() + g.expr(unparen(e.X))
		}
		return e.Op.String() + "(" + g.expr(e.X) + ")"
	case *ast.BinaryExpr:
		return g.binary(e)
	case *ast.IndexExpr:
		if inst, ok := g.instance(e); ok {
			return inst
		}
		if m, ok := g.core(e.X).(*types.Map); ok {
			return g.operand(e.X) + "[" + g.key(e.Index, m.Key()) + "]"
		}
		return g.operand(e.X) + "[" + g.expr(e.Index) + "]"
	case *ast.IndexListExpr:
		if inst, ok := g.instance(e); ok {
			return inst
		}
	case *ast.SliceExpr:
		s := g.operand(e.X) + "["
		if e.Low != nil {
			s += g.expr(e.Low)
		}
		s += ":"
		if e.High != nil {
			s += g.expr(e.High)
		}
		if e.Slice3 {
			s += ":" + g.expr(e.Max)
		}
		return s + "]"
	case *ast.TypeAssertExpr:
		if e.Type != nil {
			_, comma := g.info.TypeOf(e).(*types.Tuple)
			return g.assertion(g.operand(e.X), g.typeOf(e.X), g.typeOf(e.Type), comma)
		}
		return g.operand(e.X) + ".(type)"
	case *ast.FuncLit:
		// The interpreter keeps a literal in a slot of the frame that it is evaluated in, and the end of each call of it
		// gives the slot what it held before: a goroutine that ends would take away the literal that the next turn of a
		// loop has just put there. In a frame of its own, nobody else has the slot. The maker goes through a parameter,
		// because only a literal that is used as a value keeps the variables of this turn of a loop.
		t := g.typ(g.typeOf(e))
		return "func(ǃf func() " + t + ") " + t + " { return ǃf() }(func() " + t + " { return " + g.literal(e) + " })"
	case *ast.CompositeLit:
		return g.composite(e)
	case *ast.KeyValueExpr:
		return g.expr(e.Key) + ": " + g.expr(e.Value)
	}
	g.refuse(e, "Cell.E1", "", "cannot run this expression here")
	return "nil"
}

// literal prints a function literal that is called at once.
func (g *gen) literal(e *ast.FuncLit) string {
	sig, _ := g.info.TypeOf(e).(*types.Signature)
	if sig == nil {
		return "nil"
	}
	seq, within := g.fn, g.within
	g.within = "func literal"
	s := "func" + g.signatureAndBody(e.Type, e.Body, sig, nil)
	g.fn, g.within = seq, within
	return s
}

func unparen(e ast.Expr) ast.Expr {
	for {
		p, ok := e.(*ast.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

func (g *gen) core(e ast.Expr) types.Type {
	u := g.typeOf(e).Underlying()
	if p, ok := u.(*types.Pointer); ok {
		return p.Elem().Underlying()
	}
	return u
}

// operand prints an expression that a suffix follows.
func (g *gen) operand(e ast.Expr) string {
	switch unparen(e).(type) {
	case *ast.UnaryExpr, *ast.BinaryExpr, *ast.StarExpr, *ast.FuncLit:
		return "(" + g.expr(unparen(e)) + ")"
	}
	return g.expr(e)
}

func (g *gen) ident(e *ast.Ident) string {
	if e.Name == "_" {
		return "_"
	}
	obj := g.info.Uses[e]
	if obj == nil {
		obj = g.info.Defs[e]
	}
	if obj == nil {
		return e.Name
	}
	if f, ok := obj.(*types.Func); ok && g.isSource(f) {
		if inst, ok := g.instance(e); ok {
			return inst
		}
	}
	if _, isVar := obj.(*types.Var); obj.Pkg() != nil && obj.Parent() == obj.Pkg().Scope() && !g.isSource(obj) && obj.Pkg().Path() != "main" && (isVar || g.e.emitted[obj] == "") {
		return g.pkg(obj.Pkg()) + "." + obj.Name()
	}
	return g.object(obj)
}

// object prints the name of a variable, function or builtin.
func (g *gen) object(obj types.Object) string {
	if n, ok := g.names[obj]; ok {
		return n
	}
	if n, ok := g.vars[obj]; ok {
		return n
	}
	if n, ok := g.e.emitted[obj]; ok {
		return n
	}
	if v, ok := obj.(*types.Var); ok && g.e.imp.source[pathOf(v)] && g.e.sources[v] != nil {
		return g.sourceVar(v)
	}
	if f, ok := obj.(*types.Func); ok && g.isSource(f) {
		if d := g.e.bodies[f]; d != nil {
			name := g.e.newName(f.Name())
			g.e.emitted[obj] = name
			g.e.shown[name] = f.Name()
			g.function(d, name, nil)
			return name
		}
	}
	return obj.Name()
}

func pathOf(o types.Object) string {
	if o.Pkg() == nil {
		return ""
	}
	return o.Pkg().Path()
}

// instance prints the name of one instance of a generic function, and the instance when it is new.
func (g *gen) instance(e ast.Expr) (string, bool) {
	var id *ast.Ident
	switch x := e.(type) {
	case *ast.Ident:
		id = x
	case *ast.IndexExpr:
		return g.instance(x.X)
	case *ast.IndexListExpr:
		return g.instance(x.X)
	case *ast.SelectorExpr:
		id = x.Sel
	default:
		return "", false
	}
	inst, ok := g.info.Instances[id]
	if !ok {
		return "", false
	}
	f, ok := g.info.Uses[id].(*types.Func)
	if !ok {
		return "", false
	}
	d := g.e.bodies[f.Origin()]
	if d == nil {
		g.refuse(e, "Cell.E2", "write a small function of your own", "%s is not available in cells", f.Name())
		return "nil", true
	}
	key := fmt.Sprintf("%p", f.Origin())
	var targs []types.Type
	for i := range inst.TypeArgs.Len() {
		t := g.subst(inst.TypeArgs.At(i))
		targs = append(targs, t)
		key += "," + g.typ(t)
	}
	name, made := g.once(key, f.Name())
	if !made {
		return name, true
	}
	g.e.shown[name] = f.Name()
	g.function(d, name, targs)
	return name, true
}

func (g *gen) selector(e *ast.SelectorExpr) string {
	if id, ok := e.X.(*ast.Ident); ok {
		if pn, ok := g.info.Uses[id].(*types.PkgName); ok {
			if f, ok := g.info.Uses[e.Sel].(*types.Func); ok && g.isSource(f) {
				if inst, ok := g.instance(e); ok {
					return inst
				}
				return g.object(f)
			}
			if v, ok := g.info.Uses[e.Sel].(*types.Var); ok && g.isSource(v) {
				return g.object(v)
			}
			if pn.Imported().Path() == "os" && (e.Sel.Name == "Stdout" || e.Sel.Name == "Stderr") {
				g.e.raw = true
			}
			return g.pkg(pn.Imported()) + "." + e.Sel.Name
		}
	}
	sel := g.info.Selections[e]
	if sel == nil {
		return g.operand(e.X) + "." + e.Sel.Name
	}
	index := sel.Index()
	switch sel.Kind() {
	case types.FieldVal:
		if len(g.env) > 0 {
			// In an instance the field may hide behind a type argument.
			obj, idx, _ := types.LookupFieldOrMethod(g.typeOf(e.X), true, sel.Obj().Pkg(), e.Sel.Name)
			if obj != nil {
				index = idx
			}
		}
		s, _ := g.path(g.operand(e.X), g.typeOf(e.X), index)
		return s
	case types.MethodExpr:
		s, ok := sel.Type().(*types.Signature)
		if !ok {
			break
		}
		ret := ""
		if s.Results().Len() > 0 {
			ret = "return "
		}
		args := g.forwardArgs(types.NewSignatureType(nil, nil, nil, types.NewTuple(tupleVars(s.Params())[1:]...), nil, s.Variadic()))
		for i := s.Params().Len() - 1; i > 0; i-- {
			args = strings.ReplaceAll(args, fmt.Sprintf("a%d", i-1), fmt.Sprintf("a%d", i))
		}
		return "func" + g.sig(stripNames(s), func(_ *types.Var, i int) string { return fmt.Sprintf("a%d", i) }) + " { " + ret + "a0." + e.Sel.Name + args + " }"
	case types.MethodVal:
		called := g.calling == e // owner may print other calls
		s, t := g.owner(e, sel)
		if !called && g.mirror(e) != "" {
			g.refuse(e, "Cell.E1", "write a function that calls it", "cells cannot use this method of package reflect as a value")
		}
		if !called {
			return g.bound(e, s, t, sel)
		}
		return s + "." + e.Sel.Name
	}
	return g.operand(e.X) + "." + e.Sel.Name
}

// owner prints what has the method that a selector names: its operand, or what is embedded there.
func (g *gen) owner(e *ast.SelectorExpr, sel *types.Selection) (string, types.Type) {
	t, index := g.typeOf(e.X), sel.Index()
	if len(g.env) > 0 {
		if obj, idx, _ := types.LookupFieldOrMethod(t, true, sel.Obj().Pkg(), e.Sel.Name); obj != nil {
			index = idx
		}
	}
	return g.path(g.operand(e.X), t, index[:len(index)-1])
}

func (g *gen) binary(e *ast.BinaryExpr) string {
	x, y := g.expr(e.X), g.expr(e.Y)
	if e.Op == token.EQL || e.Op == token.NEQ {
		// The interpreter compares an interface with a plain value wrongly unless both sides are interfaces.
		tx, ty := g.typeOf(e.X), g.typeOf(e.Y)
		nilX, nilY := g.info.Types[e.X].IsNil(), g.info.Types[e.Y].IsNil()
		if !nilX && !nilY && types.IsInterface(tx) != types.IsInterface(ty) {
			if types.IsInterface(tx) {
				y = g.typ(tx) + "(" + y + ")"
			} else {
				x = g.typ(ty) + "(" + x + ")"
			}
		}
		if not := map[bool]string{true: "!"}[e.Op == token.NEQ]; nilX != nilY {
			if t, s := tx, x; types.IsInterface(tx) || types.IsInterface(ty) {
				if nilX {
					t, s = ty, y
				}
				if types.IsInterface(t) {
					return not + g.host() + ".IsNil(" + g.arg(s, t) + ")"
				}
			}
		} else if types.Identical(tx, errorInterface) || types.Identical(ty, errorInterface) {
			return not + g.host() + ".Equal(" + g.conv(e.X, errorInterface) + ", " + g.conv(e.Y, errorInterface) + ")"
		} else if !nilX && (types.IsInterface(tx) || types.IsInterface(ty)) {
			// The interpreter compares values of cells' types in interfaces wrongly, so they are compared in boxes.
			return not + g.host() + ".Equal(" + g.boxed(g.expr(e.X), types.Default(tx)) + ", " + g.boxed(g.expr(e.Y), types.Default(ty)) + ")"
		}
	}
	if t := types.Default(g.typeOf(e.X)); (e.Op == token.EQL || e.Op == token.NEQ) && g.holds(t) {
		return map[bool]string{true: "!"}[e.Op == token.NEQ] + g.same(t) + "(" + x + ", " + y + ")"
	}
	return "(" + x + " " + e.Op.String() + " " + y + ")"
}

// holds tells whether a struct or array has interfaces with methods in it, which the interpreter compares wrongly.
func (g *gen) holds(t types.Type) bool {
	switch u := g.subst(t).Underlying().(type) {
	case *types.Struct:
		if n, ok := types.Unalias(t).(*types.Named); ok && n.Obj().Pkg() != nil && !g.isSource(n.Obj()) {
			return false
		}
		for i := range u.NumFields() {
			if ft := u.Field(i).Type(); g.reboxes(ft) || g.foreign(ft) || g.holds(ft) {
				return true
			}
		}
	case *types.Array:
		return g.reboxes(u.Elem()) || g.foreign(u.Elem()) || g.holds(u.Elem())
	}
	return false
}

// same names the function that compares two values of a type that holds interfaces.
func (g *gen) same(t types.Type) string {
	ty := g.typ(t)
	f, made := g.once("same:"+ty, "same")
	if !made {
		return f
	}
	equal := func(x, y string, t types.Type) string {
		switch {
		case types.IsInterface(t):
			return g.host() + ".Equal(" + g.boxed(x, t) + ", " + g.boxed(y, t) + ")"
		case g.holds(t):
			return g.same(t) + "(" + x + ", " + y + ")"
		}
		return x + " == " + y
	}
	body := ""
	switch u := g.subst(t).Underlying().(type) {
	case *types.Struct:
		for i := range u.NumFields() {
			if f := u.Field(i); f.Name() != "_" {
				body += "if !(" + equal("x."+f.Name(), "y."+f.Name(), g.subst(f.Type())) + ") { return false }\n"
			}
		}
	case *types.Array:
		body = fmt.Sprintf("for i := 0; i < %d; i++ { if !(%s) { return false } }\n", u.Len(), equal("x[i]", "y[i]", g.subst(u.Elem())))
	}
	fmt.Fprintf(&g.out.funcs, "func %s(x, y %s) bool {\n%sreturn true }\n", f, ty, body)
	return f
}

// key prints the key of a map. The interpreter does not find values of cells' types again among keys of an interface type, so maps
// have boxes for keys then; those of the library cannot.
func (g *gen) key(e ast.Expr, to types.Type) string {
	if n := namedOf(g.typeOf(e)); n != nil && g.foreign(g.subst(to)) && !types.IsInterface(n) && g.isSource(n.Obj()) {
		g.refuse(e, "Cell.E10", "use the type itself as the type of the keys", "cells cannot use %s as a key of an interface type", n.Obj().Name())
	}
	if g.holds(to) {
		g.refuse(e, "Cell.E10", "use a text that tells the keys apart, such as fmt.Sprint of them", "cells cannot use %s as a key, because there is an interface in it", goType(to))
	}
	if g.reboxes(g.subst(to)) {
		to = types.NewInterfaceType(nil, nil)
	}
	return g.conv(e, to)
}

// unkey prints a key of a map, of the text s, as one of its type.
func (g *gen) unkey(s string, t types.Type) string {
	if t == nil || !g.reboxes(g.subst(t)) {
		return s
	}
	return g.between("unkey", types.NewInterfaceType(nil, nil), t, func(_, _ string) string {
		return "if x == nil { return nil }\nreturn " + g.into(t) + "ǃmust(x)"
	}) + "(" + s + ")"
}

func (g *gen) composite(e *ast.CompositeLit) string {
	t := g.typeOf(e)
	amp := ""
	if p, ok := t.Underlying().(*types.Pointer); ok {
		amp, t = "&", p.Elem()
	}
	var parts []string
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for i, el := range e.Elts {
			if kv, ok := el.(*ast.KeyValueExpr); ok {
				name := kv.Key.(*ast.Ident).Name
				var ft types.Type
				for k := range u.NumFields() {
					if u.Field(k).Name() == name {
						ft = u.Field(k).Type()
					}
				}
				parts = append(parts, name+": "+g.conv(kv.Value, ft))
				continue
			}
			parts = append(parts, u.Field(i).Name()+": "+g.conv(el, u.Field(i).Type()))
		}
	case *types.Map:
		for _, el := range e.Elts {
			kv := el.(*ast.KeyValueExpr)
			parts = append(parts, g.key(kv.Key, u.Key())+": "+g.conv(kv.Value, u.Elem()))
		}
	default:
		var et types.Type
		switch u := u.(type) {
		case *types.Slice:
			et = u.Elem()
		case *types.Array:
			et = u.Elem()
		}
		for _, el := range e.Elts {
			if kv, ok := el.(*ast.KeyValueExpr); ok {
				parts = append(parts, g.expr(kv.Key)+": "+g.conv(kv.Value, et))
				continue
			}
			parts = append(parts, g.conv(el, et))
		}
	}
	return amp + g.typ(t) + "{" + strings.Join(parts, ", ") + "}"
}

func (g *gen) call(e *ast.CallExpr) string {
	fun := unparen(e.Fun)
	if tv := g.info.Types[fun]; tv.IsType() {
		t := g.subst(tv.Type)
		s := g.typ(t)
		if isEmptyInterface(t) {
			return "(" + s + ")(" + g.boxed(g.expr(e.Args[0]), g.typeOf(e.Args[0])) + ")"
		}
		in := g.conv(e.Args[0], t)
		if types.IsInterface(t) && !g.info.Types[e.Args[0]].IsNil() {
			return in
		}
		return "(" + s + ")(" + g.expr(e.Args[0]) + ")"
	}
	if id, ok := fun.(*ast.Ident); ok {
		if b, ok := g.info.Uses[id].(*types.Builtin); ok {
			return g.builtin(e, b.Name())
		}
	}
	sig, _ := g.typeOf(fun).Underlying().(*types.Signature)
	if s := g.mirrored(e, fun); s != "" {
		return s
	}
	var f string
	if sel, ok := fun.(*ast.SelectorExpr); ok {
		g.calling = sel
	}
	if lit, ok := fun.(*ast.FuncLit); ok {
		f = g.literal(lit)
	} else {
		f = g.operand(fun)
	}
	if s := g.special(e, fun); s != "" {
		return s
	}
	if tu, ok := g.tupleArg(e); ok && sig != nil {
		if _, _, ok := prints(g.callee(e.Fun)); !ok {
			p, v := g.each(g.expr(e.Args[0]), tu, func(i int) types.Type { return g.param(sig, i) })
			if p != "" {
				ret := ""
				if sig.Results().Len() > 0 {
					ret = "return "
				}
				head := g.sig(types.NewSignatureType(nil, nil, nil, nil, stripNames(sig).Results(), false), nil)
				return "func" + head + " {\n" + p + ret + f + "(" + strings.Join(v, ", ") + ")\n}()"
			}
		}
	}
	return f + "(" + g.args(e, sig) + ")"
}

// tupleArg gives the types of a call that is all the arguments of another.
func (g *gen) tupleArg(e *ast.CallExpr) (*types.Tuple, bool) {
	if len(e.Args) != 1 {
		return nil, false
	}
	tu, ok := g.typeOf(e.Args[0]).(*types.Tuple)
	return tu, ok
}

// param is the type of an argument of a call that does not spread a slice.
func (g *gen) param(sig *types.Signature, i int) types.Type {
	n := sig.Params().Len()
	if sig.Variadic() && i >= n-1 {
		if sl, ok := g.subst(sig.Params().At(n - 1).Type()).(*types.Slice); ok {
			return sl.Elem()
		}
	}
	if i < n {
		return sig.Params().At(i).Type()
	}
	return nil
}

// unboxed prints an expression of an interface type without the box that may be around its value.
func (g *gen) unboxed(s string, t types.Type) string {
	if !types.IsInterface(t) || types.Identical(t, errorInterface) {
		return s
	}
	return g.host() + ".Unbox(" + g.boxed(s, t) + ")"
}

// args prints the arguments of a call.
func (g *gen) args(e *ast.CallExpr, sig *types.Signature) string {
	var args []string
	fn := g.callee(e.Fun)
	if first, format, ok := prints(fn); ok {
		return g.printArgs(e, first, format)
	}
	for i, a := range e.Args {
		var to types.Type
		if g.native(fn) {
			// The library gets plain values.
			_, isCall := g.typeOf(a).(*types.Tuple)
			if e.Ellipsis != token.NoPos && i == len(e.Args)-1 && mainName(g.typeOf(a)) == "[]interface {}" {
				args = append(args, g.host()+".UnboxAll("+g.expr(a)+")")
				continue
			}
			if !isCall && e.Ellipsis == token.NoPos {
				args = append(args, g.toHost(e, a, sig, i))
				continue
			}
		}
		if sig != nil {
			n := sig.Params().Len()
			switch {
			case sig.Variadic() && i >= n-1:
				to = sig.Params().At(n - 1).Type()
				if sl, ok := g.subst(to).(*types.Slice); ok && e.Ellipsis == token.NoPos {
					to = sl.Elem()
				}
			case i < n:
				to = sig.Params().At(i).Type()
			}
		}
		args = append(args, g.arg(g.conv(a, to), to))
	}
	s := strings.Join(args, ", ")
	if e.Ellipsis != token.NoPos {
		s += "..."
	}
	return s
}

// arg prints an argument, of the text s, for a parameter of a type. The interpreter puts an interface that comes straight from a call into another
// interface.
func (g *gen) arg(s string, to types.Type) string {
	if to != nil && types.IsInterface(g.subst(to)) && strings.HasSuffix(s, ")") {
		return "(" + s + ")"
	}
	return s
}

// toHost prints an argument of a function of the library.
func (g *gen) toHost(call *ast.CallExpr, a ast.Expr, sig *types.Signature, i int) string {
	var to types.Type
	if sig != nil {
		switch n := sig.Params().Len(); {
		case sig.Variadic() && i >= n-1:
			if sl, ok := sig.Params().At(n - 1).Type().(*types.Slice); ok {
				to = sl.Elem()
			}
		case i < n:
			to = sig.Params().At(i).Type()
		}
	}
	if to != nil && isEmptyInterface(to) {
		s, t := g.expr(a), g.typeOf(a)
		if pkg := g.callee(call.Fun).Pkg().Path(); strings.HasPrefix(pkg, "encoding/") {
			if g.encodes(t) {
				return s // it has the methods
			}
			if to := g.marshaler(call, pkg, t); to != nil {
				return g.kept(s, t, to)
			}
			for _, name := range encoderMethods {
				if n := g.withMethod(t, name, map[types.Type]bool{}); n != nil {
					g.refuse(a, "Cell.E8", "call the method yourself and encode what it gives", "package %s cannot call method %s of %s, which a cell declared", pkg, name, n.Obj().Name())
				}
			}
		}
		if b, ok := t.(*types.Basic); ok && b.Kind() == types.UntypedNil {
			return s
		}
		switch f := g.callee(call.Fun); f.Pkg().Path() {
		case "encoding/json", "encoding/xml":
			if types.IsInterface(t) || g.embeds(t, map[types.Type]bool{}) {
				if types.IsInterface(t) {
					s = g.boxed(s, t)
				}
				return fmt.Sprintf("%s.Encoding(%s, %q, %t)", g.host(), s, f.Pkg().Name(), strings.HasPrefix(f.Name(), "Marshal") || f.Name() == "Encode")
			}
		case "log/slog":
			return g.host() + ".Logged(" + g.boxed(s, types.Default(t)) + ")"
		case "text/template", "html/template":
			if types.IsInterface(t) {
				return g.host() + ".Templated(" + g.boxed(s, t) + ")"
			}
			if in := g.texts(t); in != "" {
				g.refuse(a, "Cell.E8", templateHelp, "%s", templateText(in))
			}
			return g.host() + ".Templated(" + g.boxed(s, types.Default(t)) + ")"
		case module + "kernel/display":
			if types.IsInterface(t) {
				return g.shown(a, s, t)
			}
			return s // it prints what is in a box
		case "container/heap", "container/list", "container/ring", "context", "sync", "sync/atomic":
			return g.boxed(s, types.Default(t)) // they give it back
		case "reflect":
			if name := g.callee(call.Fun).Name(); name != "TypeOf" && name != "ValueOf" {
				break
			}
			if types.IsInterface(t) {
				return g.host() + ".Mirrored(" + g.boxed(s, t) + ")"
			}
			g.reflects(a, t)
		}
		return g.unboxed(s, t)
	}
	return g.conv(a, to)
}

// withMethod finds a type of cells in t that has a method.
func (g *gen) withMethod(t types.Type, name string, seen map[types.Type]bool) *types.Named {
	t = types.Unalias(g.subst(t))
	if seen[t] {
		return nil
	}
	seen[t] = true
	if n := g.cellType(t); n != nil {
		if o, _, _ := types.LookupFieldOrMethod(types.NewPointer(n), true, n.Obj().Pkg(), name); o != nil {
			if _, ok := o.(*types.Func); ok {
				return n
			}
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return g.withMethod(u.Elem(), name, seen)
	case *types.Slice:
		return g.withMethod(u.Elem(), name, seen)
	case *types.Array:
		return g.withMethod(u.Elem(), name, seen)
	case *types.Map:
		if n := g.withMethod(u.Key(), name, seen); n != nil {
			return n
		}
		return g.withMethod(u.Elem(), name, seen)
	case *types.Struct:
		if n := namedOf(t); n != nil && !g.isSource(n.Obj()) {
			return nil
		}
		for i := range u.NumFields() {
			if n := g.withMethod(u.Field(i).Type(), name, seen); n != nil {
				return n
			}
		}
	}
	return nil
}

// encoderMethods are those that encoders call.
var encoderMethods = []string{"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "MarshalXML", "UnmarshalXML", "MarshalBinary", "UnmarshalBinary"}

// encodes tells whether an interface of the host has a method that encoders call.
func (g *gen) encodes(t types.Type) bool {
	return g.foreign(t) && slices.ContainsFunc(encoderMethods, func(name string) bool {
		o, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
		return o != nil
	})
}

// marshaler gives the interface by which encoding/json encodes a value of a cell's type, nil where it has none.
func (g *gen) marshaler(call *ast.CallExpr, pkg string, t types.Type) types.Type {
	if f := g.callee(call.Fun); pkg != "encoding/json" || g.cellType(t) == nil || !strings.HasPrefix(f.Name(), "Marshal") && f.Name() != "Encode" {
		return nil
	}
	p, err := g.e.imp.Import(pkg)
	if err != nil {
		return nil
	}
	if o := p.Scope().Lookup("Marshaler"); o != nil && types.Implements(t, o.Type().Underlying().(*types.Interface)) {
		return o.Type()
	}
	return nil
}

// embeds tells whether a struct in t embeds another, which the interpreter does not.
func (g *gen) embeds(t types.Type, seen map[types.Type]bool) bool {
	t = types.Unalias(g.subst(t))
	if seen[t] {
		return false
	}
	seen[t] = true
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() != nil && !g.isSource(n.Obj()) {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for i := range u.NumFields() {
			f := u.Field(i)
			in := f.Type().Underlying()
			if p, ok := in.(*types.Pointer); ok {
				in = p.Elem().Underlying()
			}
			if _, ok := in.(*types.Struct); ok && f.Embedded() || g.embeds(f.Type(), seen) {
				return true
			}
		}
	case interface{ Elem() types.Type }:
		return g.embeds(u.Elem(), seen)
	}
	return false
}

// special prints the few library calls that the interpreter gets wrong.
func (g *gen) special(e *ast.CallExpr, fun ast.Expr) string {
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	f, ok := g.info.Uses[sel.Sel].(*types.Func)
	if !ok || f.Pkg() == nil {
		return ""
	}
	switch f.Pkg().Path() + "." + f.Name() {
	case "errors.As":
		p, ok := g.typeOf(e.Args[1]).Underlying().(*types.Pointer)
		if !ok {
			return ""
		}
		if to := p.Elem(); types.IsInterface(to) && !isEmptyInterface(to) && !types.Identical(to, errorInterface) {
			// The library knows neither the methods of cells' errors nor the interfaces of cells.
			ty := g.typ(to)
			return "func(ǃe error, ǃp *" + ty + ") bool { return " + g.host() + ".AsInterface(ǃe, func(ǃx interface{}) bool { ǃv, ǃok := " + g.into(to) + "(ǃx); if ǃok { *ǃp = ǃv }; return ǃok }) }(" +
				g.conv(e.Args[0], errorInterface) + ", " + g.expr(e.Args[1]) + ")"
		}
		if n := namedOf(p.Elem()); n == nil || !g.isSource(n.Obj()) || types.IsInterface(p.Elem()) {
			return ""
		}
		return g.host() + ".As(" + g.conv(e.Args[0], errorInterface) + ", " + strconv.Quote(g.typ(p.Elem())) + ", " + g.expr(e.Args[1]) + ")"
	case "fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln":
		// A writer that has a String method is mistaken for something to print.
		if len(e.Args) > 1 || f.Name() == "Fprintln" {
			rest := &ast.CallExpr{Fun: e.Fun, Args: e.Args[1:], Ellipsis: e.Ellipsis}
			first, format := 0, -1
			if f.Name() == "Fprintf" {
				first, format = 1, 0
			}
			return g.host() + ".WriteTo(" + g.expr(e.Args[0]) + ", " + g.pkg(f.Pkg()) + ".S" + f.Name()[1:] + "(" + g.printArgs(rest, first, format) + "))"
		}
	}
	return ""
}

func namedOf(t types.Type) *types.Named {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, _ := types.Unalias(t).(*types.Named)
	return n
}

func (g *gen) builtin(e *ast.CallExpr, name string) string {
	list := func(to func(i int) types.Type) string {
		var s []string
		for i, a := range e.Args {
			s = append(s, g.conv(a, to(i)))
		}
		out := strings.Join(s, ", ")
		if e.Ellipsis != token.NoPos {
			out += "..."
		}
		return out
	}
	none := func(int) types.Type { return nil }
	switch name {
	case "append":
		sl, _ := g.typeOf(e).Underlying().(*types.Slice)
		return "append(" + list(func(i int) types.Type {
			if i > 0 && sl != nil && e.Ellipsis == token.NoPos {
				return sl.Elem()
			}
			return nil
		}) + ")"
	case "make":
		s := "make(" + g.typ(g.typeOf(e.Args[0]))
		for _, a := range e.Args[1:] {
			s += ", int(" + g.expr(a) + ")"
		}
		return s + ")"
	case "new":
		if !g.info.Types[e.Args[0]].IsType() {
			t := g.typ(g.typeOf(e).Underlying().(*types.Pointer).Elem())
			return fmt.Sprintf("func(v %s) *%s { return &v }(%s)", t, t, g.expr(e.Args[0]))
		}
		return "new(" + g.typ(g.typeOf(e.Args[0])) + ")"
	case "delete":
		m, _ := g.typeOf(e.Args[0]).Underlying().(*types.Map)
		if m == nil {
			break
		}
		return "delete(" + g.expr(e.Args[0]) + ", " + g.key(e.Args[1], m.Key()) + ")"
	case "min", "max":
		t := g.typeOf(e)
		if len(e.Args) == 1 {
			return g.expr(e.Args[0])
		}
		return g.extreme(name, t) + "(" + list(none) + ")"
	case "clear":
		return g.clear(g.typeOf(e.Args[0])) + "(" + g.expr(e.Args[0]) + ")"
	case "print", "println":
		return g.host() + "." + map[string]string{"print": "Print", "println": "PrintLine"}[name] + "(" + list(none) + ")"
	case "recover":
		if g.fn != nil && !g.fn.direct {
			return g.host() + ".RecoverIf(ǃarm)"
		}
		return g.host() + ".Recover()"
	case "panic":
		return "panic(" + g.conv(e.Args[0], types.NewInterfaceType(nil, nil)) + ")"
	}
	return name + "(" + list(none) + ")"
}

// extreme names the function that does min or max for a type, printing it when it is new.
func (g *gen) extreme(name string, t types.Type) string {
	f, made := g.once(name+":"+g.typ(t), name)
	if !made {
		return f
	}
	op := map[string]string{"min": "<", "max": ">"}[name]
	s := g.typ(t)
	step := "if a " + op + " m { m = a }"
	if b, ok := t.Underlying().(*types.Basic); ok && b.Info()&types.IsFloat != 0 {
		// Not a number, and zeros with a sign, follow their own rules.
		step = "m = " + s + "(" + g.host() + "." + map[string]string{"min": "Min", "max": "Max"}[name] + "(float64(m), float64(a)))"
	}
	fmt.Fprintf(&g.out.funcs, "func %s(m %s, rest ...%s) %s {\nfor _, a := range rest { %s }\nreturn m }\n", f, s, s, s, step)
	return f
}

func (g *gen) clear(t types.Type) string {
	f, made := g.once("clear:"+g.typ(t), "clear")
	if !made {
		return f
	}
	body := ""
	switch u := t.Underlying().(type) {
	case *types.Map:
		body = "for k := range x { delete(x, k) }"
	case *types.Slice:
		body = "var zero " + g.typ(u.Elem()) + "\nfor i := range x { x[i] = zero }"
	}
	fmt.Fprintf(&g.out.funcs, "func %s(x %s) {\n%s }\n", f, g.typ(t), body)
	return f
}

// bound prints a method value of recv, of type t. Its receiver is evaluated now, which the interpreter puts off.
func (g *gen) bound(e *ast.SelectorExpr, recv string, t types.Type, sel *types.Selection) string {
	sig, ok := g.typeOf(e).(*types.Signature)
	if !ok {
		return recv + "." + e.Sel.Name
	}
	recv, t = g.receiver(recv, t, sel)
	ret := ""
	if sig.Results().Len() > 0 {
		ret = "return "
	}
	sig = stripNames(sig)
	f := g.sig(sig, func(_ *types.Var, i int) string { return fmt.Sprintf("a%d", i) })
	return "func(ǃx " + g.typ(t) + ") func" + g.sig(sig, nil) + " { return func" + f + " { " + ret + "ǃx." + e.Sel.Name + g.forwardArgs(sig) + " } }(" + recv + ")"
}

// receiver prints the value that a method of x, of type t, is called with: x, its address or what it points to.
func (g *gen) receiver(x string, t types.Type, sel *types.Selection) (string, types.Type) {
	obj, _, _ := types.LookupFieldOrMethod(t, true, sel.Obj().Pkg(), sel.Obj().Name())
	f, ok := obj.(*types.Func)
	if !ok || types.IsInterface(t) {
		return x, t
	}
	_, byPointer := f.Signature().Recv().Type().(*types.Pointer)
	p, isPointer := t.Underlying().(*types.Pointer)
	switch {
	case byPointer && !isPointer:
		return "&" + x, types.NewPointer(t)
	case !byPointer && isPointer:
		return "*" + x, p.Elem()
	}
	return x, t
}
