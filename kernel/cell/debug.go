package cell

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/kernel/debugger"
)

// Cells that run while a debugger is attached are printed with calls of the host in front of every statement: which
// statement comes, and, where the debugger may want them, the addresses of the variables that the statement sees. So positions
// are those of the person's source, and a cell that ran without a debugger costs nothing. See RATIONALE.md for why the
// interpreter's own debugger is not used.

// point is a statement at which a debugger can stop.
type point struct {
	place debugger.Place
	fn    string
	top   bool // in the statements of a cell, not in a function
	vars  []*types.Var
	types []types.Type // of vars
	exprs map[string]compiled
}

// compiled is an expression as a function of the addresses of a point's variables.
type compiled struct {
	f   reflect.Value
	t   types.Type
	age int // of the session's variables, see tracing
}

// Calling is one call of a function of a cell, on the stack of its goroutine. Printed cells see it as host.Calling.
type Calling struct {
	h     *host
	stack *callStack
	frame debugger.Frame
	at    *point
	ptrs  []any // to at's variables; nil where they were not asked for
}

// callStack are the calls of one goroutine, outermost first.
type callStack struct{ calls []*Calling }

// tracing is what the host knows of debugged cells.
type tracing struct {
	points []*point // by number
	stacks sync.Map // goroutine → *callStack
	given  []any    // values on their way out of an expression
	age    int      // how often the debugger made variables of the session

	starts map[string]map[int]int // file → line → column of the first statement
}

// traced tells whether cells are printed for a debugger.
func (e *Engine) traced() bool {
	return !e.untraced && e.hooks.Debug != nil && e.hooks.Debug.Attached()
}

// unstopped tells whether a function must be printed again for a debugger.
func (e *Engine) unstopped(d *decl) bool { return d.ast != nil && e.traced() && !e.stops[d.key] }

// begins prints what stands at the head of a debugged function.
func (g *gen) begins() string {
	if !g.tracing {
		return ""
	}
	return "ǃd := " + g.host() + ".Called()\ndefer ǃd.Return()\n"
}

// pause prints the stop in front of a statement.
func (g *gen) pause(s ast.Stmt) string {
	if !g.tracing {
		return ""
	}
	switch s := s.(type) {
	case nil, *ast.EmptyStmt, *ast.BlockStmt:
		return ""
	case *ast.LabeledStmt:
		if _, loop := s.Stmt.(*ast.BlockStmt); loop {
			return ""
		}
	case *ast.DeclStmt:
		if d, ok := s.Decl.(*ast.GenDecl); ok && d.Tok != token.VAR {
			return ""
		}
	}
	p := g.e.place(s.Pos())
	if g.e.number[p.Filename] == 0 {
		return "" // of the library
	}
	pt := &point{fn: g.within, top: g.within == "", place: debugger.Place{File: p.Filename, Line: p.Line, Col: runeCol(lineOf(g.e.text[p.Filename], p.Line), p.Column)}}
	if pt.top {
		pt.fn = p.Filename
	}
	pt.place.First = g.e.starts(p.Filename)[p.Line] == p.Column
	var args []string
	for _, v := range g.visible(s.Pos()) {
		pt.vars, pt.types = append(pt.vars, v), append(pt.types, g.subst(v.Type()))
		args = append(args, "&"+g.object(v))
	}
	t := &g.e.host.tracing
	n := len(t.points)
	t.points = append(t.points, pt)
	if g.waits(s) {
		return fmt.Sprintf("ǃd.Pass(%s)\n", strings.Join(append([]string{fmt.Sprint(n)}, args...), ", "))
	}
	return fmt.Sprintf("if ǃd.Wants(%d) { ǃd.Stop(%s) }\n", n, strings.Join(args, ", "))
}

// starts gives, for each line of a cell on which statements begin, the column of the first.
func (e *Engine) starts(file string) map[int]int {
	t := &e.host.tracing
	if m, ok := t.starts[file]; ok {
		return m
	}
	if t.starts == nil {
		t.starts = map[string]map[int]int{}
	}
	t.starts[file] = starts(e.text[file])
	return t.starts[file]
}

// waits tells whether a statement calls something, so that its frame may wait for another stop.
func (g *gen) waits(s ast.Stmt) bool {
	found := false
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt, *ast.FuncLit, *ast.CaseClause, *ast.CommClause:
			return false
		case *ast.RangeStmt:
			_, fn := g.typeOf(n.X).Underlying().(*types.Signature)
			found = found || fn
		case *ast.CallExpr:
			tv := g.info.Types[n.Fun]
			found = found || !tv.IsType() && !tv.IsBuiltin()
		}
		return !found
	})
	return found
}

// visible are the local variables that a statement at pos sees, inner ones last.
func (g *gen) visible(pos token.Pos) []*types.Var {
	var inner *types.Scope
	for _, s := range g.info.Scopes {
		if s.Contains(pos) && (inner == nil || s.Pos() > inner.Pos() || s.Pos() == inner.Pos() && s.End() < inner.End()) {
			inner = s
		}
	}
	var out []*types.Var
	seen := map[string]bool{}
	for s := inner; s != nil && s.Pos().IsValid(); s = s.Parent() {
		var here []*types.Var
		for _, name := range s.Names() {
			v, ok := s.Lookup(name).(*types.Var)
			if !ok || name == "_" || seen[name] {
				continue
			}
			if _, o := inner.LookupParent(name, pos); o != v {
				continue // not declared yet
			}
			seen[name] = true
			if _, top := g.vars[v]; !top {
				here = append(here, v)
			}
		}
		sort.Slice(here, func(i, j int) bool { return here[i].Pos() > here[j].Pos() })
		out = append(out, here...)
	}
	slices.Reverse(out)
	return out
}

// called begins a call on the goroutine of the caller.
func (h *host) called() *Calling {
	id := goid()
	s, _ := h.tracing.stacks.LoadOrStore(id, &callStack{})
	c := &Calling{h: h, stack: s.(*callStack)}
	c.frame = debugger.Frame{Depth: len(c.stack.calls), Thread: id, Scopes: c.scopes, Eval: c.eval}
	c.stack.calls = append(c.stack.calls, c)
	return c
}

// Return ends a call, and those above it that a panic ended.
func (c *Calling) Return() {
	c.stack.calls = c.stack.calls[:min(c.frame.Depth, len(c.stack.calls))]
	if c.frame.Depth == 0 {
		c.h.tracing.stacks.Delete(c.frame.Thread)
	}
}

// Wants says which statement comes, and tells whether its variables are wanted.
func (c *Calling) Wants(n int) bool {
	c.at, c.ptrs = c.h.tracing.points[n], nil
	c.frame.Place = c.at.place
	c.frame.Func = c.at.fn
	if c.h.besides(c.frame.Thread) != nil {
		return false // a cell of a subshell does not stop
	}
	return c.h.e.hooks.Debug.Wants(&c.frame)
}

// Stop stops in front of the statement that Wants was told.
func (c *Calling) Stop(ptrs ...any) {
	c.ptrs = ptrs
	c.h.e.hooks.Debug.Here(c.stack.frames(c.frame.Depth), c.h.mine().stopped)
}

// Pass is Wants and Stop, for a statement that calls: another stop may ask what it sees.
func (c *Calling) Pass(n int, ptrs ...any) {
	wants := c.Wants(n)
	if c.ptrs = ptrs; wants {
		c.Stop(ptrs...)
	}
}

// frames are the calls up to a depth, innermost first.
func (s *callStack) frames(depth int) []*debugger.Frame {
	var out []*debugger.Frame
	for i := min(depth, len(s.calls)-1); i >= 0; i-- {
		if c := s.calls[i]; c.at != nil {
			out = append(out, &c.frame)
		}
	}
	return out
}

// Stack are the calls of debugged cells on this goroutine, innermost first.
func (e *Engine) Stack() []*debugger.Frame {
	s, ok := e.host.tracing.stacks.Load(goid())
	if !ok {
		return nil
	}
	st := s.(*callStack)
	return st.frames(len(st.calls))
}

// scopes are the variables that a call's statement sees.
func (c *Calling) scopes() []debugger.Scope {
	locals := func() []debugger.Var {
		var out []debugger.Var
		for i := len(c.ptrs) - 1; i >= 0; i-- {
			out = append(out, variable(c.at.vars[i].Name(), reflect.ValueOf(c.ptrs[i]).Elem(), c.at.types[i]))
		}
		if c.at.top {
			out = append(out, c.h.e.Globals()...)
		}
		return out
	}
	return []debugger.Scope{{Name: "Locals", Vars: locals}, {Name: "Globals", Vars: c.h.e.Globals}}
}

// Globals are the variables of the session that hold values now.
func (e *Engine) Globals() []debugger.Var {
	e.host.quiet.Store(true)
	defer e.host.quiet.Store(false)
	e.build.Lock()
	defer e.build.Unlock()
	e.mu.RLock()
	defer e.mu.RUnlock()
	globals := e.in.Globals()
	var out []debugger.Var
	for name, o := range e.objs {
		v, ok := o.(*types.Var)
		if !ok || v.Pkg() == nil || v.Pkg().Path() != "main" {
			continue
		}
		if rv, ok := globals[e.emitted[v]]; ok && rv.IsValid() {
			out = append(out, variable(name, rv, v.Type()))
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// held is a variable of static type t for Options.Copy.
type held struct {
	v reflect.Value
	t types.Type
}

// variable is how a value of static type t is listed.
func variable(name string, v reflect.Value, t types.Type) debugger.Var {
	out := debugger.Var{Name: name, Eval: name, Of: held{v, t}}
	return part(out, v, t)
}

// part fills in what a value shows; t is nil where only the interpreter's type is known.
func part(out debugger.Var, v reflect.Value, t types.Type) debugger.Var {
	if t != nil {
		out.Type = goType(t)
	} else if v.IsValid() {
		out.Type = typeText(v.Type())
	}
	if v.IsValid() {
		in := bare(v)
		if !in.IsValid() || in.Type() != v.Type() {
			t = nil
		}
		v = in
	}
	if !v.IsValid() {
		out.Value = "nil"
		return out
	}
	out.Value = short(v)
	if v.CanInterface() {
		out.Any = v.Interface
		if form, text, ok := formOf(v.Interface()); ok && form == "program" {
			out.Value, _, _ = strings.Cut(text, "\n")
		}
	}
	out.Parts = parts(v, t)
	return out
}

// maxParts is how many elements of a value are listed.
const maxParts = 1000

// parts lists the fields or elements of a value, nil where it has none.
func parts(v reflect.Value, t types.Type) func() []debugger.Var {
	var under types.Type
	if t != nil {
		under = t.Underlying()
	}
	elem := func(get func(types.Type) types.Type) types.Type {
		if under == nil {
			return nil
		}
		return get(under)
	}
	named := func(name string) debugger.Var { return debugger.Var{Name: name} }
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		to := elem(func(t types.Type) types.Type {
			if p, ok := t.(*types.Pointer); ok {
				return p.Elem()
			}
			return nil
		})
		if v.Elem().Kind() == reflect.Struct {
			return parts(v.Elem(), to)
		}
		return func() []debugger.Var { return []debugger.Var{part(named("*"), v.Elem(), to)} }
	case reflect.Slice, reflect.Array:
		if v.Len() == 0 {
			return nil
		}
		to := elem(func(t types.Type) types.Type {
			if s, ok := t.(interface{ Elem() types.Type }); ok {
				return s.Elem()
			}
			return nil
		})
		return func() (out []debugger.Var) {
			for i := range min(v.Len(), maxParts) {
				out = append(out, part(named(fmt.Sprintf("[%d]", i)), v.Index(i), to))
			}
			return out
		}
	case reflect.Map:
		if v.Len() == 0 {
			return nil
		}
		to := elem(func(t types.Type) types.Type {
			if m, ok := t.(*types.Map); ok {
				return m.Elem()
			}
			return nil
		})
		return func() (out []debugger.Var) {
			for _, k := range v.MapKeys() {
				if len(out) < maxParts {
					out = append(out, part(named("["+short(k)+"]"), v.MapIndex(k), to))
				}
			}
			sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
			return out
		}
	case reflect.Struct:
		st, _ := under.(*types.Struct)
		var fields []int
		for i := range v.NumField() {
			if v.Field(i).CanInterface() {
				fields = append(fields, i)
			}
		}
		if len(fields) == 0 {
			return nil
		}
		return func() (out []debugger.Var) {
			for _, i := range fields {
				name, ft := fieldName(v.Type().Field(i)), types.Type(nil)
				if st != nil && st.NumFields() == v.NumField() {
					name, ft = st.Field(i).Name(), st.Field(i).Type()
				}
				out = append(out, part(named(name), v.Field(i), ft))
			}
			return out
		}
	}
	return nil
}

// eval evaluates an expression with the variables that a call's statement sees, on the goroutine of the call.
func (c *Calling) eval(expr string) (debugger.Var, error) {
	e := c.h.e
	if len(c.ptrs) < len(c.at.vars) {
		return debugger.Var{}, errors.New("the variables of this frame are not known here")
	}
	f, ok := c.at.exprs[expr]
	if !ok || f.age != e.host.tracing.age {
		x, err := parser.ParseExprFrom(e.fset, "expression", expr, 0)
		if err != nil {
			return debugger.Var{}, fmt.Errorf("%q is no expression of Go", expr)
		}
		if f.f, f.t, err = e.compile(c.at, x); err != nil {
			return debugger.Var{}, err
		}
		f.age = e.host.tracing.age
		if c.at.exprs == nil {
			c.at.exprs = map[string]compiled{}
		}
		c.at.exprs[expr] = f
	}
	vals, err := e.apply(f.f, c.ptrs)
	if err != nil {
		return debugger.Var{}, err
	}
	if len(vals) == 0 {
		return debugger.Var{Name: expr, Value: "no value"}, nil
	}
	v, t := reflect.ValueOf(unbox(vals[0])), f.t
	if tu, ok := t.(*types.Tuple); ok {
		t = tu.At(0).Type()
	}
	return part(debugger.Var{Name: expr, Eval: expr, Of: held{v, t}}, v, t), nil
}

// compile makes a function of an expression. One that is refused leaves nothing behind.
func (e *Engine) compile(at *point, x ast.Expr) (f reflect.Value, t types.Type, err error) {
	e.build.Lock()
	defer e.build.Unlock()
	e.mu.Lock()
	undo := e.snapshot()
	code, entry, t, err := e.printExpr(at, x)
	e.mu.Unlock()
	if err == nil {
		if f, err = e.function(code, entry); err != nil {
			err = fmt.Errorf("the interpreter cannot evaluate this here, though it is right Go; assign it to a variable in the cell: %w", err)
		}
	}
	if err != nil {
		e.takeBack(undo)
	}
	return f, t, err
}

// printExpr prints a function of the addresses of a point's variables that hands the value of an expression to the host.
func (e *Engine) printExpr(at *point, x ast.Expr) (code, entry string, t types.Type, err error) {
	pkg := types.NewPackage("main", "main")
	local := map[string]types.Object{}
	for _, v := range at.vars {
		local[v.Name()] = v
	}
	for n, o := range local {
		// Objects have their scopes already; a scope takes them by name.
		pkg.Scope().Insert(alias(n, o, pkg))
	}
	for n, o := range e.objs {
		if local[n] == nil {
			pkg.Scope().Insert(alias(n, o, pkg))
		}
	}
	info := newInfo()
	if err := types.CheckExpr(e.fset, pkg, token.NoPos, x, info); err != nil {
		var te types.Error
		if errors.As(err, &te) {
			err = errors.New(te.Msg)
		}
		return "", "", nil, err
	}
	u := &unit{}
	g := &gen{e: e, info: info, out: u, names: map[types.Object]string{}, vars: map[types.Object]string{}}
	var params []string
	for i, v := range at.vars {
		g.names[v] = fmt.Sprintf("(*ǃp%d)", i)
		params = append(params, fmt.Sprintf("ǃp%d *%s", i, g.typ(at.types[i])))
	}
	t = info.TypeOf(x)
	old := e.host.resultTypes
	var text string
	if tu, ok := t.(*types.Tuple); ok && tu.Len() == 0 {
		text = g.expr(unparen(x))
	} else {
		text = strings.Replace(g.result(x), g.host()+".Result(", g.host()+".Given(", 1)
	}
	e.host.resultTypes = old
	if len(g.bail) > 0 {
		return "", "", nil, errors.New(g.bail[0].msg)
	}
	if t != nil {
		t = types.Default(t)
	}
	entry = e.newName("evalǃ")
	code = "package main\n" + strings.Join(u.imports, "") + u.types.String() + u.vars.String() + u.funcs.String() +
		fmt.Sprintf("func %s(%s) {\n%s%s\n}\n", entry, strings.Join(params, ", "), u.regs.String(), text)
	return code, entry, t, nil
}

// function evaluates code and gives a function of it. The caller holds build.
func (e *Engine) function(code, entry string) (f reflect.Value, err error) {
	if err := e.eval(code); err != nil {
		return f, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return e.in.Eval(entry)
}

// apply calls a function. It gives what that handed to the host.
func (e *Engine) apply(f reflect.Value, args []any) (vals []any, err error) {
	defer func() {
		if r := recover(); r != nil {
			vals, err = nil, fmt.Errorf("%v", asRuntime(shed(r)))
		}
	}()
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		in[i] = reflect.ValueOf(a)
	}
	e.host.tracing.given = nil
	f.Call(in)
	vals, e.host.tracing.given = e.host.tracing.given, nil
	return vals, nil
}

// Adopt makes a variable of the session with the value of a debugger's variable.
func (e *Engine) Adopt(name string, v debugger.Var) error {
	if err := e.Check(name); err != nil {
		return err
	}
	h, ok := v.Of.(held)
	if !ok {
		x := v.Any()
		rt := reflect.TypeOf(x)
		if rt == nil {
			return fmt.Errorf("%s holds no value", v.Name)
		}
		if p := rt; p.Kind() == reflect.Pointer && p.Elem().PkgPath() != "" {
			if _, err := e.imp.Import(p.Elem().PkgPath()); err != nil {
				return err
			}
		}
		h = held{reflect.ValueOf(x), e.imp.Type(rt)}
	}
	if h.t == nil || !h.v.IsValid() {
		return fmt.Errorf("%s holds no value", v.Name)
	}
	e.build.Lock()
	e.mu.Lock()
	undo := e.snapshot()
	u := &unit{}
	g := &gen{e: e, out: u, names: map[types.Object]string{}, vars: map[types.Object]string{}}
	sv := types.NewVar(0, types.NewPackage("main", "main"), name, h.t)
	printed := ""
	if old, ok := e.objs[name].(*types.Var); ok && types.Identical(old.Type(), h.t) {
		sv, printed = old, e.emitted[old]
	}
	if printed == "" {
		printed = e.newName(name)
		e.shown[printed] = name
		fmt.Fprintf(&u.vars, "var %s %s\n", printed, g.typ(h.t))
	}
	e.emitted[sv], e.objs[name] = printed, sv
	entry := e.newName("adoptǃ")
	code := u.vars.String() + fmt.Sprintf("func %s(ǃp *%s) {\n%s%s = *ǃp }\n", entry, g.typ(h.t), u.regs.String(), printed)
	code = "package main\n" + strings.Join(u.imports, "") + u.types.String() + u.funcs.String() + code
	e.mu.Unlock()
	p := h.v
	if p.CanAddr() {
		p = p.Addr()
	} else {
		p = reflect.New(h.v.Type())
		p.Elem().Set(h.v)
	}
	e.host.tracing.age++
	f, err := e.function(code, entry)
	if err != nil {
		e.takeBack(undo)
	}
	e.build.Unlock()
	if err != nil {
		return fmt.Errorf("the interpreter cannot keep %s in a variable of the session; watch it instead: %w", v.Name, err)
	}
	_, err = e.apply(f, []any{p.Interface()})
	return err
}

// starts gives, for each line of a text on which statements begin, the column of the first, in bytes; nil where it is not Go.
func starts(src string) map[int]int {
	fset := token.NewFileSet()
	p, errs := parse(fset, "text", src)
	if len(errs) > 0 {
		return nil
	}
	out := map[int]int{}
	stmts := func(list []ast.Stmt) {
		for _, s := range list {
			f := fset.File(s.Pos())
			if f == nil {
				continue
			}
			at := f.PositionFor(s.Pos(), false)
			if at.Line == 1 {
				at.Column = max(at.Column-p.files[f], 1)
			}
			if c, ok := out[at.Line]; !ok || at.Column < c {
				out[at.Line] = at.Column
			}
		}
	}
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			stmts(n.List)
		case *ast.CaseClause:
			stmts(n.Body)
		case *ast.CommClause:
			stmts(n.Body)
		}
		return true
	}
	if p.body != nil {
		ast.Inspect(p.body, visit)
	}
	for _, f := range p.funcs {
		ast.Inspect(f, visit)
	}
	return out
}

// Lines are the lines of a cell of Go on which statements begin, ascending; nil where it is not Go.
func Lines(src string) []int {
	if s := strings.TrimSpace(src); s == "" || strings.ContainsRune("%!$", rune(s[0])) {
		return nil
	}
	var lines []int
	for l := range starts(src) {
		lines = append(lines, l)
	}
	sort.Ints(lines)
	return lines
}
