package cell

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

func (g *gen) stmts(list []ast.Stmt) string {
	var b strings.Builder
	for _, s := range list {
		pause := g.pause(s)
		text := g.stmt(s)
		b.WriteString(pause + g.mark(s) + text + "\n")
	}
	return b.String()
}

// mark notes the line of a statement that can panic, since the interpreter reports only functions.
func (g *gen) mark(s ast.Node) string {
	can := false
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt, *ast.FuncLit, *ast.CaseClause, *ast.CommClause:
			return n == s
		case *ast.IndexExpr, *ast.SliceExpr, *ast.CallExpr, *ast.StarExpr, *ast.TypeAssertExpr, *ast.SendStmt:
			can = true
		case *ast.SelectorExpr:
			can = can || g.info.Selections[n] != nil
		case *ast.BinaryExpr:
			can = can || n.Op == token.QUO || n.Op == token.REM
		case *ast.AssignStmt:
			can = can || n.Tok == token.QUO_ASSIGN || n.Tok == token.REM_ASSIGN
		}
		return !can
	})
	p := g.e.place(s.Pos())
	k := g.e.number[p.Filename]
	if !can || k == 0 {
		return ""
	}
	return fmt.Sprintf("%s = %d\n", lineVar, k*linesPerCell+p.Line)
}

func (g *gen) block(b *ast.BlockStmt) string { return "{\n" + g.stmts(b.List) + "}" }

func (g *gen) stmt(s ast.Stmt) string {
	switch s := s.(type) {
	case nil, *ast.EmptyStmt:
		return ""
	case *ast.ExprStmt:
		if lit, ok := unparen(s.X).(*ast.CallExpr); ok {
			if _, ok := unparen(lit.Fun).(*ast.FuncLit); ok {
				// A literal that is called at once: the interpreter mistakes it for a main.
				return g.expr(lit)
			}
		}
		return g.expr(unparen(s.X))
	case *ast.BlockStmt:
		return g.block(s)
	case *ast.AssignStmt:
		return g.assign(s)
	case *ast.IncDecStmt:
		return g.expr(s.X) + s.Tok.String()
	case *ast.DeclStmt:
		return g.declStmt(s.Decl.(*ast.GenDecl))
	case *ast.ReturnStmt:
		return g.ret(s)
	case *ast.IfStmt:
		init := ""
		if s.Init != nil {
			init = g.stmt(s.Init) + "; "
		}
		before, after := "", ""
		if strings.Contains(init, "\n") {
			before, init, after = "{\n"+strings.TrimSuffix(init, "; ")+"\n", "", "\n}"
		}
		out := before + "if " + init + g.expr(s.Cond) + " " + g.block(s.Body)
		if s.Else != nil {
			out += " else " + g.stmt(s.Else)
		}
		return out + after
	case *ast.ForStmt:
		return g.forLoop(s)
	case *ast.RangeStmt:
		return g.rangeLoop(s)
	case *ast.LabeledStmt:
		if q := g.seq(); q != nil {
			q.inner[s.Label.Name] = true
		}
		switch s.Stmt.(type) {
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			g.label = s.Label.Name // it stands in front of the statement proper
			return g.stmt(s.Stmt)
		}
		return s.Label.Name + ":\n" + g.stmt(s.Stmt)
	case *ast.BranchStmt:
		return g.branch(s)
	case *ast.SwitchStmt:
		return g.switchStmt(s)
	case *ast.TypeSwitchStmt:
		return g.typeSwitch(s)
	case *ast.SelectStmt:
		return g.selectStmt(s)
	case *ast.SendStmt:
		var to types.Type
		if c, ok := g.typeOf(s.Chan).Underlying().(*types.Chan); ok {
			to = c.Elem()
		}
		if g.info.Types[s.Value].IsNil() && g.reboxes(to) {
			// What comes out of the channel again must be an interface.
			zero, made := g.once("zero:"+g.typ(to), "zero")
			if made {
				fmt.Fprintf(&g.out.funcs, "func %s() (%s) {\nvar x %[2]s\nreturn x }\n", zero, g.typ(to))
			}
			return g.operand(s.Chan) + " <- " + zero + "()"
		}
		return g.operand(s.Chan) + " <- " + g.conv(s.Value, to)
	case *ast.GoStmt:
		return g.closed(s.Call, true)
	case *ast.DeferStmt:
		// A literal that goes straight to the host would share its variables with the next iteration.
		f := g.fresh("f")
		return f + " := " + g.closed(s.Call, false) + "\nǃds.Push(" + f + ")"
	}
	g.refuse(s, "Cell.E1", "", "cannot run this statement here")
	return ""
}

// closed prints a call for later: arguments and function value are evaluated now, in a frame of their own. For go it is
// a call of the host, for defer a function value.
func (g *gen) closed(c *ast.CallExpr, spawn bool) string {
	fun := unparen(c.Fun)
	if lit, ok := fun.(*ast.FuncLit); ok && !spawn {
		old := g.direct
		g.direct = lit
		defer func() { g.direct = old }()
	}
	if lit, ok := fun.(*ast.FuncLit); ok && len(c.Args) == 0 {
		if f := g.noResult(g.expr(lit), lit); spawn {
			return g.host() + ".Go(" + f + ")"
		} else {
			return f
		}
	}
	var params, args, names []string
	sig, _ := g.typeOf(fun).Underlying().(*types.Signature)
	call := ""
	builtin := false
	if id, ok := fun.(*ast.Ident); ok {
		if b, ok := g.info.Uses[id].(*types.Builtin); ok {
			builtin = true
			call = b.Name()
			switch call {
			case "print", "println":
				call = g.host() + "." + map[string]string{"print": "Print", "println": "PrintLine"}[call]
			case "recover":
				call = g.host() + ".Recover"
			case "clear":
				call = g.clear(g.typeOf(c.Args[0]))
			}
		}
	}
	direct := false
	switch f := fun.(type) {
	case *ast.Ident:
		_, direct = g.info.Uses[f].(*types.Func)
	case *ast.SelectorExpr:
		if id, ok := f.X.(*ast.Ident); ok {
			if _, ok := g.info.Uses[id].(*types.PkgName); ok {
				_, direct = g.info.Uses[f.Sel].(*types.Func)
			}
		}
		if sel := g.info.Selections[f]; sel != nil && sel.Kind() == types.MethodVal {
			// The receiver is evaluated now.
			x, t := g.owner(f, sel)
			x, t = g.receiver(x, t, sel)
			params = append(params, "ǃx "+g.typ(t))
			args = append(args, x)
			call = "ǃx." + f.Sel.Name
			direct = true
		}
	}
	switch {
	case call != "":
	case direct:
		call = g.expr(fun)
	default:
		params = append(params, "ǃf "+g.typ(g.typeOf(fun)))
		args = append(args, g.operand(fun))
		call = "ǃf"
	}
	for i, a := range c.Args {
		t := g.typeOf(a)
		if sig != nil && !builtin {
			n := sig.Params().Len()
			switch {
			case sig.Variadic() && i >= n-1 && c.Ellipsis == token.NoPos:
				if sl, ok := g.subst(sig.Params().At(n - 1).Type()).(*types.Slice); ok && !types.IsInterface(sl.Elem()) {
					t = sl.Elem()
				}
			case i < n && !types.IsInterface(sig.Params().At(i).Type()):
				t = g.subst(sig.Params().At(i).Type())
			}
		}
		if b, ok := t.(*types.Basic); ok && b.Kind() == types.UntypedNil {
			names = append(names, "nil")
			continue
		}
		if s, ty, ok := g.later(c, i, sig, builtin); ok {
			name := fmt.Sprintf("ǃ%d", i)
			params, args, names = append(params, name+" "+ty), append(args, s), append(names, name)
			continue
		}
		name := fmt.Sprintf("ǃ%d", i)
		params = append(params, name+" "+g.typ(types.Default(t)))
		args = append(args, g.conv(a, t))
		names = append(names, name)
	}
	dots := ""
	if c.Ellipsis != token.NoPos {
		dots = "..."
	}
	body := call + "(" + strings.Join(names, ", ") + dots + ")"
	if _, lit := fun.(*ast.FuncLit); !lit && !builtin && !spawn && !g.native(g.callee(c.Fun)) {
		body = g.host() + ".Arm(); " + body
	}
	f := "func(" + strings.Join(params, ", ") + ") func() { return func() { " + body + " } }(" + strings.Join(args, ", ") + ")"
	if spawn {
		return g.host() + ".Go(" + f + ")"
	}
	return f
}

// later prints argument i of a call for later, and its type, when its parameter keeps it in another form.
func (g *gen) later(c *ast.CallExpr, i int, sig *types.Signature, builtin bool) (text, ty string, ok bool) {
	fn := g.callee(c.Fun)
	if sig == nil || builtin || c.Ellipsis != token.NoPos {
		return "", "", false
	}
	t := sig.Params().At(min(i, sig.Params().Len()-1)).Type()
	if sl, ok := t.(*types.Slice); ok && sig.Variadic() && i >= sig.Params().Len()-1 {
		t = sl.Elem()
	}
	t = g.subst(t)
	s, from := g.expr(c.Args[i]), types.Default(g.typeOf(c.Args[i]))
	in := s
	switch {
	case types.Identical(t, errorInterface):
		in = g.asError(s, from)
		return in, "error", in != s
	case !isEmptyInterface(t):
		return "", "", false
	}
	if first, _, ok := prints(fn); ok && i >= first {
		in = g.printable(c.Args[i], s, from)
	} else if !g.native(fn) {
		in = g.boxed(s, from)
	}
	return in, "interface{}", in != s
}

// noResult makes a function literal fit func().
func (g *gen) noResult(f string, lit *ast.FuncLit) string {
	if lit.Type.Results == nil || len(lit.Type.Results.List) == 0 {
		return f
	}
	return "func() { " + f + "() }"
}

func (g *gen) declStmt(d *ast.GenDecl) string {
	var b strings.Builder
	if d.Tok != token.VAR {
		return "" // constants are folded, types are printed where they are used
	}
	for _, sp := range d.Specs {
		vs := sp.(*ast.ValueSpec)
		for _, n := range vs.Names {
			obj := g.info.Defs[n]
			if obj == nil || n.Name == "_" {
				continue
			}
			t := g.typ(obj.Type())
			if name, ok := g.vars[obj]; ok {
				if len(vs.Values) == 0 {
					z := g.fresh("zero")
					fmt.Fprintf(&b, "var %s %s\n%s = %s\n", z, t, name, z)
				}
				continue
			}
			fmt.Fprintf(&b, "var %s %s\n_ = %s\n", n.Name, t, n.Name)
		}
		if len(vs.Values) > 0 {
			var l, r []string
			for i, n := range vs.Names {
				if n.Name == "_" {
					l = append(l, "_")
				} else {
					l = append(l, g.ident(n))
				}
				if len(vs.Values) == len(vs.Names) {
					var to types.Type
					if obj := g.info.Defs[n]; obj != nil {
						to = obj.Type()
					}
					r = append(r, g.conv(vs.Values[i], to))
				}
			}
			if len(r) == 0 {
				r = []string{g.expr(vs.Values[0])}
			}
			if len(r) == 1 && len(l) > 1 {
				var names []string
				for range l {
					names = append(names, g.fresh("t"))
				}
				fmt.Fprintf(&b, "%s := %s\n", strings.Join(names, ", "), r[0])
				tu, _ := g.typeOf(vs.Values[0]).(*types.Tuple)
				for i, n := range l {
					v := names[i]
					if obj := g.info.Defs[vs.Names[i]]; tu != nil && obj != nil && n != "_" {
						v = g.convText(v, tu.At(i).Type(), obj.Type())
					}
					fmt.Fprintf(&b, "%s = %s\n", n, v)
				}
				continue
			}
			t := types.Type(types.Typ[types.Int])
			for _, n := range vs.Names {
				if obj := g.info.Defs[n]; obj != nil && types.IsInterface(obj.Type()) {
					t = obj.Type()
				}
			}
			if len(l) > 1 && types.IsInterface(t) {
				// The names are new, so no value can depend on them.
				for i := range l {
					fmt.Fprintf(&b, "%s = %s\n", l[i], r[i])
				}
				continue
			}
			fmt.Fprintf(&b, "%s = %s\n", strings.Join(l, ", "), strings.Join(r, ", "))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (g *gen) ret(s *ast.ReturnStmt) string {
	var vals []string
	pre := ""
	for i, r := range s.Results {
		var to types.Type
		if g.fn != nil && g.fn.results != nil && len(s.Results) == g.fn.results.Len() {
			to = g.fn.results.At(i).Type()
		}
		v := g.conv(r, to)
		if u, ok := unparen(r).(*ast.UnaryExpr); ok && u.Op == token.ARROW {
			// The interpreter cannot return what it receives.
			t := g.fresh("t")
			pre += t + " := " + v + "\n"
			v = t
		}
		vals = append(vals, v)
	}
	if g.fn != nil && g.fn.results != nil && len(vals) == 1 && g.fn.results.Len() > 1 {
		if tu, ok := g.typeOf(s.Results[0]).(*types.Tuple); ok {
			if p, v := g.each(vals[0], tu, func(i int) types.Type { return g.fn.results.At(i).Type() }); p != "" {
				pre, vals = pre+p, v
			}
		}
	}
	if g.fn != nil && g.fn.seq != nil {
		q := g.fn.seq
		out := fmt.Sprintf("ǃret%d = true; ", q.n)
		if len(vals) > 0 {
			var l []string
			for i := range q.fn.results.Len() {
				l = append(l, fmt.Sprintf("ǃval%d_%d", q.n, i))
			}
			out += g.apart(l, vals)
		}
		return pre + out + "return false"
	}
	return pre + g.leave(vals)
}

// each takes the values of a call apart when some of them are converted to other types.
func (g *gen) each(call string, tu *types.Tuple, to func(int) types.Type) (pre string, vals []string) {
	var names []string
	hit := false
	for i := range tu.Len() {
		n := g.fresh("t")
		v := g.convText(n, tu.At(i).Type(), to(i))
		hit = hit || v != n || types.IsInterface(tu.At(i).Type()) // the interpreter loses interfaces on that way
		names, vals = append(names, n), append(vals, v)
	}
	if !hit {
		return "", nil
	}
	return strings.Join(names, ", ") + " := " + call + "\n", vals
}

// apart prints a parallel assignment in two steps, because the interpreter loses captured variables in one.
func (g *gen) apart(l, vals []string) string {
	if len(l) != len(vals) || len(l) == 1 {
		return strings.Join(l, ", ") + " = " + strings.Join(vals, ", ") + "; "
	}
	var first, then strings.Builder
	for i, v := range vals {
		if v == "nil" {
			fmt.Fprintf(&then, "%s = nil; ", l[i])
			continue
		}
		t := g.fresh("t")
		fmt.Fprintf(&first, "%s := %s; ", t, v)
		fmt.Fprintf(&then, "%s = %s; ", l[i], t)
	}
	return first.String() + then.String()
}

// leave prints a return with the given values.
func (g *gen) leave(vals []string) string {
	if g.fn != nil && g.fn.defers {
		if len(vals) == 0 || len(g.fn.outs) == 0 {
			return "return"
		}
		iface := false
		for i := range g.fn.results.Len() {
			iface = iface || types.IsInterface(g.subst(g.fn.results.At(i).Type()))
		}
		if len(vals) > 1 && len(vals) == len(g.fn.outs) && iface {
			// See mixed.
			var first, then []string
			for i, v := range vals {
				if v != "nil" {
					t := g.fresh("t")
					first = append(first, fmt.Sprintf("var %s %s = %s", t, g.typ(g.fn.results.At(i).Type()), v))
					v = t
				}
				then = append(then, g.fn.outs[i]+" = "+v)
			}
			return strings.Join(append(first, then...), "\n") + "\nreturn"
		}
		return together(g.fn.outs, vals) + "; return"
	}
	return "return " + strings.Join(vals, ", ")
}

func (g *gen) branch(s *ast.BranchStmt) string {
	label := ""
	if s.Label != nil {
		label = " " + s.Label.Name
	}
	if q := g.seq(); q != nil {
		switch {
		case s.Tok == token.GOTO && !q.inner[s.Label.Name]:
			g.refuse(s, "Cell.E4", "collect into a slice first (slices.Collect), then range over it", "cells cannot go to a label outside of a loop over a function")
			return ""
		case label != "" && s.Label.Name == q.label && s.Tok == token.CONTINUE:
			return "return true"
		case label != "" && s.Label.Name == q.label:
			return "return false"
		case label != "" && !q.inner[s.Label.Name]:
			q.exits = append(q.exits, s)
			return fmt.Sprintf("ǃexit%d = %d; return false", q.n, len(q.exits))
		case label != "":
		case s.Tok == token.CONTINUE && q.depth == 0:
			return "return true"
		case s.Tok == token.BREAK && q.depth == 0 && q.brk == 0:
			return "return false"
		}
	}
	if s.Tok == token.CONTINUE && label == "" && g.fn != nil && len(g.fn.cont) > 0 {
		return g.fn.cont[len(g.fn.cont)-1] + "continue"
	}
	if s.Tok == token.CONTINUE && g.fn != nil {
		for i, l := range g.fn.labels {
			if s.Label != nil && l == s.Label.Name {
				return g.fn.cont[i] + "continue" + label
			}
		}
	}
	return s.Tok.String() + label
}

func (g *gen) seq() *seqLoop {
	if g.fn == nil {
		return nil
	}
	return g.fn.seq
}

// takeLabel is the label of the statement about to be printed.
func (g *gen) takeLabel() string {
	l := g.label
	g.label = ""
	return l
}

// colon prints a label.
func colon(label string) string {
	if label == "" {
		return ""
	}
	return label + ":\n"
}

// inLoop prints a loop body; cont comes before each continue and at the end.
func (g *gen) inLoop(label string, body *ast.BlockStmt, pre, cont string) string {
	if g.fn == nil {
		g.fn = &local{}
	}
	if q := g.seq(); q != nil {
		q.depth++
		defer func() { q.depth-- }()
	}
	g.fn.cont, g.fn.labels = append(g.fn.cont, cont), append(g.fn.labels, label)
	s := "{\n" + pre + g.stmts(body.List) + cont + "\n}"
	g.fn.cont, g.fn.labels = g.fn.cont[:len(g.fn.cont)-1], g.fn.labels[:len(g.fn.labels)-1]
	return s
}

// captured tells whether a function literal in n uses obj, or n takes its address.
func (g *gen) captured(n ast.Node, obj types.Object) bool {
	found := false
	var walk func(n ast.Node, lit bool)
	walk = func(n ast.Node, lit bool) {
		ast.Inspect(n, func(m ast.Node) bool {
			switch m := m.(type) {
			case *ast.FuncLit:
				if m != n {
					walk(m, true)
					return false
				}
			case *ast.UnaryExpr:
				if m.Op == token.AND {
					walk(m.X, true)
				}
			case *ast.Ident:
				if lit && g.info.Uses[m] == obj {
					found = true
				}
			case *ast.DeferStmt, *ast.GoStmt:
				if m != n {
					walk(m, true)
					return false
				}
			case *ast.SelectorExpr:
				// A method with a pointer receiver takes the address of its operand.
				if sel := g.info.Selections[m]; sel != nil && sel.Kind() == types.MethodVal {
					walk(m.X, true)
				}
			case *ast.RangeStmt:
				if _, ok := g.typeOf(m.X).Underlying().(*types.Signature); ok && m != n {
					walk(m.Body, true)
				}
			}
			return !found
		})
	}
	walk(n, false)
	return found
}

func (g *gen) forLoop(s *ast.ForStmt) string {
	label := g.takeLabel()
	init, cond, post := "", "", ""
	pre, cont := "", ""
	var restore []func()
	if as, ok := s.Init.(*ast.AssignStmt); ok && as.Tok == token.DEFINE {
		for _, l := range as.Lhs {
			id := l.(*ast.Ident)
			obj := g.info.Defs[id]
			if obj == nil || id.Name == "_" || !g.captured(s.Body, obj) {
				continue
			}
			outer := g.fresh(id.Name)
			g.names[obj] = outer
			pre += id.Name + " := " + outer + "\n"
			cont += outer + " = " + id.Name + "; "
			restore = append(restore, func() { delete(g.names, obj) })
		}
	}
	if s.Init != nil {
		init = g.stmt(s.Init)
	}
	if s.Cond != nil {
		cond = g.expr(s.Cond)
	}
	if s.Post != nil {
		post = g.stmt(s.Post)
	}
	for _, f := range restore {
		f()
	}
	head, after := colon(label)+"for ", ""
	if strings.Contains(init+post, "\n") {
		head, init, after = "{\n"+init+"\n"+head, "", "\n}"
	}
	if strings.Contains(post, "\n") {
		// Steps that do not fit there come first in every turn but the first.
		again := g.fresh("again")
		test := ""
		if cond != "" {
			test = "if !(" + cond + ") { break }\n"
		}
		pre = fmt.Sprintf("if %s {\n%s\n}\n%s = true\n%s%s", again, post, again, test, pre)
		head, cond, post = strings.Replace(head, "\n", "\n"+again+" := false\n", 1), "", ""
	}
	if init != "" || post != "" {
		head += init + "; " + cond + "; " + post + " "
	} else if cond != "" {
		head += cond + " "
	}
	return head + g.inLoop(label, s.Body, pre, cont) + after
}

func (g *gen) rangeLoop(s *ast.RangeStmt) string {
	label := g.takeLabel()
	t := g.typeOf(s.X)
	// Names of this iteration, and how they get their values.
	name := func(e ast.Expr, from string, t types.Type) string {
		if e == nil {
			return ""
		}
		if id, ok := e.(*ast.Ident); ok && id.Name == "_" {
			return ""
		}
		if s.Tok == token.DEFINE {
			id := e.(*ast.Ident)
			obj := g.info.Defs[id]
			x := g.object(obj)
			if _, top := g.vars[obj]; top {
				return x + " = " + from + "\n"
			}
			return x + " := " + from + "\n_ = " + x + "\n"
		}
		return g.expr(e) + " = " + g.convText(from, t, g.typeOf(e)) + "\n"
	}
	var kt, vt types.Type = types.Typ[types.Int], nil
	switch u := g.core(s.X).(type) {
	case *types.Map:
		kt, vt = u.Key(), u.Elem()
	case *types.Slice:
		vt = u.Elem()
	case *types.Array:
		vt = u.Elem()
	case *types.Chan:
		kt = u.Elem()
	case *types.Basic:
		kt, vt = types.Default(t), types.Typ[types.Rune]
		if u.Info()&types.IsString != 0 {
			kt = types.Typ[types.Int]
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if u.Info()&types.IsInteger != 0 {
			if s.Key != nil && s.Tok == token.DEFINE {
				if id, ok := s.Key.(*ast.Ident); ok && g.info.Defs[id] != nil {
					kt = g.info.Defs[id].Type()
				}
			}
			i, n := g.fresh("i"), g.fresh("n")
			ty := g.typ(kt)
			return colon(label) + fmt.Sprintf("for %s, %s := %s(0), %s(%s); %s < %s; %s++ ", i, n, ty, ty, g.expr(s.X), i, n, i) + g.inLoop(label, s.Body, name(s.Key, i, kt), "")
		}
	case *types.Signature:
		return g.rangeFunc(s, u, label)
	}
	if _, ok := t.Underlying().(*types.Chan); ok && label == "" {
		// The interpreter loses the channel of a loop inside of another.
		ch, v, more := g.fresh("ch"), g.fresh("v"), g.fresh("more")
		pre := fmt.Sprintf("%s, %s := <-%s\nif !%s { break }\n_ = %s\n", v, more, ch, more, v) + name(s.Key, v, kt)
		return fmt.Sprintf("{\n%s := %s\nfor ", ch, g.operand(s.X)) + g.inLoop(label, s.Body, pre, "") + "\n}"
	}
	key, val := "_", "_"
	pre := ""
	if n := name(s.Key, "ǃ", kt); n != "" {
		key = g.fresh("k")
		pre += name(s.Key, g.unkey(key, kt), kt)
	}
	if n := name(s.Value, "ǃ", vt); n != "" {
		val = g.fresh("v")
		pre += name(s.Value, val, vt)
	}
	x := g.operand(s.X)
	if sl, ok := t.Underlying().(*types.Slice); ok && val != "_" && label == "" {
		if _, ok := sl.Elem().Underlying().(*types.Chan); ok {
			// The interpreter loses channels that a loop takes out of a slice.
			xs, k := g.fresh("xs"), g.fresh("k")
			pre := name(s.Key, k, kt) + name(s.Value, xs+"["+k+"]", vt)
			return fmt.Sprintf("{\n%s := %s\nfor %s := range %s ", xs, x, k, xs) + g.inLoop(label, s.Body, pre, "") + "\n}"
		}
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		if _, ok := p.Elem().Underlying().(*types.Array); ok {
			if val == "_" {
				// Only the length counts, and the pointer may be nil.
				x = fmt.Sprintf("[%d]struct{}{}", p.Elem().Underlying().(*types.Array).Len())
			} else {
				x = "(*" + x + ")[:]"
			}
		}
	}
	switch {
	case key == "_" && val == "_":
		return colon(label) + "for range " + x + " " + g.inLoop(label, s.Body, "", "")
	case val == "_":
		return colon(label) + "for " + key + " := range " + x + " " + g.inLoop(label, s.Body, pre, "")
	}
	return colon(label) + "for " + key + ", " + val + " := range " + x + " " + g.inLoop(label, s.Body, pre, "")
}

// rangeFunc prints a loop over a function: the body becomes the yield function.
func (g *gen) rangeFunc(s *ast.RangeStmt, sig *types.Signature, label string) string {
	yield, ok := g.subst(sig.Params().At(0).Type()).Underlying().(*types.Signature)
	if !ok {
		return ""
	}
	g.e.serial++
	n := g.e.serial
	if g.fn == nil {
		g.fn = &local{}
	}
	fn := g.fn
	q := &seqLoop{n: n, label: label, inner: map[string]bool{}, outer: fn.seq, fn: fn}
	var params []string
	pre := ""
	for i := range yield.Params().Len() {
		e := s.Key
		if i == 1 {
			e = s.Value
		}
		p := fmt.Sprintf("ǃy%d", i)
		params = append(params, p+" "+g.typ(yield.Params().At(i).Type()))
		if id, isID := e.(*ast.Ident); e == nil || isID && id.Name == "_" {
			continue
		} else if s.Tok == token.DEFINE {
			pre += g.object(g.info.Defs[id]) + " := " + p + "\n_ = " + id.Name + "\n"
		} else {
			pre += g.expr(e) + " = " + g.convText(p, yield.Params().At(i).Type(), g.typeOf(e)) + "\n"
		}
	}
	cont, labels := fn.cont, fn.labels
	fn.cont, fn.labels = nil, nil
	fn.seq = q
	body := g.stmts(s.Body.List)
	fn.seq, fn.cont, fn.labels = q.outer, cont, labels
	var b strings.Builder
	fmt.Fprintf(&b, "ǃret%d := false\n_ = ǃret%d\n", n, n)
	var vals []string
	if fn.results != nil {
		for i := range fn.results.Len() {
			v := fmt.Sprintf("ǃval%d_%d", n, i)
			vals = append(vals, v)
			fmt.Fprintf(&b, "var %s %s\n_ = %s\n", v, g.typ(fn.results.At(i).Type()), v)
		}
	}
	fmt.Fprintf(&b, "%s(func(%s) bool {\n%s%sreturn true\n})\n", g.operand(s.X), strings.Join(params, ", "), pre, body)
	if q.outer != nil {
		// Leaving from two loops: the outer one passes it on.
		set := ""
		for i := range vals {
			set += fmt.Sprintf("ǃval%d_%d = %s; ", q.outer.n, i, vals[i])
		}
		fmt.Fprintf(&b, "if ǃret%d { ǃret%d = true; %sreturn false }", n, q.outer.n, set)
	} else {
		fmt.Fprintf(&b, "if ǃret%d { %s }", n, g.leave(vals))
	}
	if len(q.exits) == 0 {
		return b.String()
	}
	for i, x := range q.exits {
		fmt.Fprintf(&b, "\nif ǃexit%d == %d { %s }", n, i+1, g.branch(x))
	}
	return fmt.Sprintf("ǃexit%d := 0\n_ = ǃexit%d\n", n, n) + b.String()
}

// inSwitch prints the clauses of a switch or select, in which break means the switch.
func (g *gen) inSwitch(f func()) {
	if q := g.seq(); q != nil {
		q.brk++
		defer func() { q.brk-- }()
	}
	f()
}

func (g *gen) switchStmt(s *ast.SwitchStmt) string {
	var b strings.Builder
	label := g.takeLabel()
	after := ""
	if s.Init != nil {
		// In the head of the switch the interpreter would lose it for a tag that is more than a name.
		b.WriteString("{\n" + g.stmt(s.Init) + "\n")
		after = "\n}"
	}
	if s.Tag != nil && (types.IsInterface(g.typeOf(s.Tag)) || g.holds(g.typeOf(s.Tag))) {
		return b.String() + g.switchIface(s, label) + after
	}
	b.WriteString(colon(label) + "switch ")
	if s.Tag != nil {
		tag := g.expr(s.Tag)
		if g.info.Types[s.Tag].Value != nil {
			tag = "(" + g.typ(g.typeOf(s.Tag)) + ")(" + tag + ")"
		}
		b.WriteString(tag)
	}
	b.WriteString(" {\n")
	g.inSwitch(func() {
		for _, c := range s.Body.List {
			cc := c.(*ast.CaseClause)
			if cc.List == nil {
				b.WriteString("default:\n")
			} else {
				var l []string
				for _, e := range cc.List {
					l = append(l, g.expr(e))
				}
				b.WriteString("case " + strings.Join(l, ", ") + ":\n")
			}
			b.WriteString(g.stmts(cc.Body))
		}
	})
	b.WriteString("}" + after)
	return b.String()
}

// switchIface prints a switch over a value that is or holds an interface as one over conditions.
func (g *gen) switchIface(s *ast.SwitchStmt, label string) string {
	var b strings.Builder
	v := g.fresh("tag")
	t := g.typeOf(s.Tag)
	boxed := func(x string, t types.Type) string {
		if types.Identical(g.typeOf(s.Tag), errorInterface) {
			return g.asError(x, t)
		}
		return g.boxed(x, types.Default(t))
	}
	fmt.Fprintf(&b, "{\n%s := %s\n_ = %s\n%sswitch {\n", v, boxed(g.expr(s.Tag), t), v, colon(label))
	g.inSwitch(func() {
		for _, c := range s.Body.List {
			cc := c.(*ast.CaseClause)
			if cc.List == nil {
				b.WriteString("default:\n")
			} else {
				var l []string
				for _, e := range cc.List {
					if g.info.Types[e].IsNil() {
						l = append(l, g.host()+".IsNil("+v+")")
					} else {
						if g.holds(t) && !types.IsInterface(t) {
							l = append(l, g.same(t)+"("+v+", "+g.expr(e)+")")
							continue
						}
						l = append(l, g.host()+".Equal("+v+", "+boxed(g.expr(e), g.typeOf(e))+")")
					}
				}
				b.WriteString("case " + strings.Join(l, ", ") + ":\n")
			}
			b.WriteString(g.stmts(cc.Body))
		}
	})
	b.WriteString("}\n}")
	return b.String()
}

// typeSwitch prints a type switch as a chain of assertions, which the interpreter decides more reliably.
func (g *gen) typeSwitch(s *ast.TypeSwitchStmt) string {
	var x ast.Expr
	bind := ""
	switch a := s.Assign.(type) {
	case *ast.AssignStmt:
		bind = a.Lhs[0].(*ast.Ident).Name
		x = a.Rhs[0].(*ast.TypeAssertExpr).X
	case *ast.ExprStmt:
		x = unparen(a.X).(*ast.TypeAssertExpr).X
	}
	var b strings.Builder
	v, k := g.fresh("sw"), g.fresh("case")
	label := g.takeLabel()
	b.WriteString("{\n")
	if s.Init != nil {
		b.WriteString(g.stmt(s.Init) + "\n")
	}
	from := g.typeOf(x)
	fmt.Fprintf(&b, "%s := %s\n_ = %s\n%s := -1\n", v, g.expr(x), v, k)
	in := v
	if in = g.boxed(v, from); in != v && !g.reboxes(from) {
		box := g.fresh("box")
		fmt.Fprintf(&b, "%s := %s\n_ = %s\n", box, in, box)
		in, from = box, types.NewInterfaceType(nil, nil)
	} else {
		in = v
	}
	// Values of single-type clauses are bound before the switch on the clause number.
	binds := map[int]string{}
	var def = -1
	for i, c := range s.Body.List {
		cc := c.(*ast.CaseClause)
		if cc.List == nil {
			def = i
			continue
		}
		for _, te := range cc.List {
			test := ""
			if g.info.Types[te].IsNil() {
				test = g.host() + ".IsNil(" + v + ")"
				fmt.Fprintf(&b, "if %s < 0 && %s { %s = %d }\n", k, test, k, i)
				continue
			}
			t := g.typ(g.typeOf(te))
			is := g.assertion(in, from, g.typeOf(te), true)
			if len(cc.List) == 1 && bind != "" {
				binds[i] = g.fresh(bind)
				fmt.Fprintf(&b, "var %s %s\n_ = %s\nif %s < 0 { if ǃt, ǃok := %s; ǃok { %s = %d; %s = ǃt } }\n", binds[i], t, binds[i], k, is, k, i, binds[i])
			} else {
				fmt.Fprintf(&b, "if %s < 0 { if _, ǃok := %s; ǃok { %s = %d } }\n", k, is, k, i)
			}
		}
	}
	fmt.Fprintf(&b, "%sswitch %s {\n", colon(label), k)
	g.inSwitch(func() {
		for i, c := range s.Body.List {
			cc := c.(*ast.CaseClause)
			if i == def {
				b.WriteString("default:\n")
			} else {
				fmt.Fprintf(&b, "case %d:\n", i)
			}
			if bind != "" {
				if from, ok := binds[i]; ok {
					fmt.Fprintf(&b, "%s := %s\n_ = %s\n", bind, from, bind)
				} else {
					fmt.Fprintf(&b, "%s := %s\n_ = %s\n", bind, v, bind)
				}
			}
			b.WriteString(g.stmts(cc.Body))
		}
	})
	b.WriteString("}\n}")
	return b.String()
}

func (g *gen) selectStmt(s *ast.SelectStmt) string {
	var b strings.Builder
	b.WriteString(colon(g.takeLabel()) + "select {\n")
	g.inSwitch(func() {
		for _, c := range s.Body.List {
			cc := c.(*ast.CommClause)
			if cc.Comm == nil {
				b.WriteString("default:\n")
			} else {
				comm, pre := g.comm(cc.Comm)
				b.WriteString("case " + comm + ":\n" + pre)
			}
			b.WriteString(g.stmts(cc.Body))
		}
	})
	b.WriteString("}")
	return b.String()
}

// comm prints what a clause of a select waits for, and what comes then. Values are received into new variables: the interpreter takes no
// others, nor any conversion.
func (g *gen) comm(s ast.Stmt) (comm, then string) {
	g.selecting = true
	defer func() { g.selecting = false }()
	as, ok := s.(*ast.AssignStmt)
	if !ok {
		return g.stmt(s), ""
	}
	if as.Tok == token.DEFINE {
		for _, l := range as.Lhs {
			if id := l.(*ast.Ident); id.Name != "_" {
				then += "_ = " + id.Name + "\n"
			}
		}
		return g.stmt(s), then
	}
	var names []string
	tok := " = "
	for i, l := range as.Lhs {
		if id, ok := l.(*ast.Ident); ok && id.Name == "_" {
			names = append(names, "_")
			continue
		}
		n := g.fresh("t")
		names, tok = append(names, n), " := "
		from := g.typeOf(as.Rhs[0])
		if tu, ok := from.(*types.Tuple); ok {
			from = tu.At(i).Type()
		}
		then += g.expr(l) + " = " + g.convText(n, from, g.typeOf(l)) + "\n"
	}
	return strings.Join(names, ", ") + tok + g.expr(as.Rhs[0]), then
}
