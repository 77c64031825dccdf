package cell

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// The interpreter gives silently wrong answers for parts of Go (see facts in RATIONALE.md), and knows no Go younger than 1.21. So a
// cell is not handed to it as written: gen prints, from the checked syntax tree, a plainer Go that means the same. Constants
// are folded, generics are copied per instance, loops get a fresh variable per iteration, defer and recover run through
// the host, min, max, clear, new(x), range over integers and functions become what they stand for. What cannot be
// printed safely is refused with a numbered problem.
//
// Names that gen makes contain ǃ, a letter that nobody types.

// unit is what gen makes of one cell.
type unit struct {
	imports []string // import declarations not yet known to the interpreter
	types   strings.Builder
	vars    strings.Builder
	funcs   strings.Builder
	regs    strings.Builder // statements that run before the cell's
}

// local is what gen remembers about the function it prints.
type local struct {
	results *types.Tuple
	defers  bool
	direct  bool     // a literal that is deferred where it is written
	outs    []string // variables that hold the results when the function defers
	seq     *seqLoop // the range-over-func body being printed
	cont    []string // what to print before continue, innermost loop last
	labels  []string // of these loops
}

// seqLoop is a loop over a function: its body is printed as a function literal.
type seqLoop struct {
	n     int
	label string
	inner map[string]bool   // labels of statements in the body
	exits []*ast.BranchStmt // to labels outside
	depth int               // loops and switches opened inside the body
	brk   int               // switches and selects that break binds to, inside the body
	outer *seqLoop
	fn    *local
}

type gen struct {
	e    *Engine
	info *types.Info
	env  map[*types.TypeParam]types.Type
	out  *unit
	fn   *local
	cell string

	calling   *ast.SelectorExpr // the function of the call being printed
	selecting bool              // what a clause of a select waits for is being printed

	names  map[types.Object]string // where a name is printed differently for a while
	vars   map[types.Object]string // top-level variables of this cell
	bail   []problem
	label  string       // of the loop about to be printed
	direct *ast.FuncLit // the deferred literal being printed

	tracing bool   // for a debugger
	within  string // function being printed, "" for the statements of a cell
}

func (g *gen) refuse(n ast.Node, code, help, format string, args ...any) {
	g.bail = append(g.bail, problem{pos: n.Pos(), end: n.End(), code: code, msg: fmt.Sprintf(format, args...), help: help})
}

func (g *gen) fresh(s string) string {
	g.e.serial++
	return fmt.Sprintf("%sǃ%d", s, g.e.serial)
}

// once names what a key stands for, and tells whether the name was made now: what it names is then to be printed.
func (g *gen) once(key, name string) (string, bool) {
	if known, ok := g.e.typeNames[key]; ok {
		return known, false
	}
	made := g.fresh(name)
	g.e.typeNames[key] = made
	return made, true
}

// lineVar is the interpreter's variable that holds the cell and line being run, see gen.mark.
const lineVar = "lineǃ"

// linesPerCell is more lines than a cell has.
const linesPerCell = 100000

func (g *gen) typeOf(e ast.Expr) types.Type {
	t := g.info.TypeOf(e)
	if t == nil {
		return types.Typ[types.Invalid]
	}
	return g.subst(t)
}

// typ prints a type.
func (g *gen) typ(t types.Type) string {
	t = g.subst(t)
	switch t := t.(type) {
	case *types.Basic:
		if t.Info()&types.IsUntyped != 0 {
			return g.typ(types.Default(t))
		}
		return t.Name()
	case *types.Alias:
		if it, ok := types.Unalias(t).(*types.Interface); ok && it.NumMethods() > 0 {
			return g.typ(it) // the interpreter wraps values only for interfaces with names
		}
		if o := t.Obj(); o.Pkg() != nil && o.Pkg().Path() != "main" && !g.e.imp.source[o.Pkg().Path()] && t.TypeArgs().Len() == 0 {
			return g.pkg(o.Pkg()) + "." + o.Name()
		}
		return g.typ(types.Unalias(t))
	case *types.Named:
		return g.named(t)
	case *types.Pointer:
		return "*" + g.typ(t.Elem())
	case *types.Slice:
		return "[]" + g.typ(t.Elem())
	case *types.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), g.typ(t.Elem()))
	case *types.Map:
		if g.reboxes(t.Key()) {
			return "map[interface{}]" + g.typ(t.Elem()) // see key
		}
		return "map[" + g.typ(t.Key()) + "]" + g.typ(t.Elem())
	case *types.Chan:
		switch t.Dir() {
		case types.SendOnly:
			return "chan<- " + g.typ(t.Elem())
		case types.RecvOnly:
			return "<-chan " + g.typ(t.Elem())
		}
		return "chan (" + g.typ(t.Elem()) + ")"
	case *types.Signature:
		return "func" + g.sig(t, nil)
	case *types.Struct:
		return g.structType(t, mark{})
	case *types.Interface:
		if t.NumMethods() == 0 && t.NumEmbeddeds() == 0 {
			return "interface{}"
		}
		var b strings.Builder
		b.WriteString("interface{ ")
		for i := range t.NumMethods() {
			m := t.Method(i)
			b.WriteString(m.Name() + g.sig(m.Type().(*types.Signature), nil) + "; ")
		}
		b.WriteString("}")
		return b.String()
	}
	return "interface{}"
}

// structType prints a struct; first marks what it is the type of.
func (g *gen) structType(t *types.Struct, first mark) string {
	var b strings.Builder
	b.WriteString("struct { ")
	for i := range t.NumFields() {
		f := t.Field(i)
		if !f.Embedded() {
			b.WriteString(f.Name() + " ")
		}
		b.WriteString(g.typ(f.Type()))
		m := mark{hidden: !f.Exported() && f.Name() != "_", embeds: f.Embedded()}
		if i == 0 {
			first.hidden, first.embeds = m.hidden, m.embeds
			m = first
		}
		ft := m.tag(t.Tag(i))
		if ft != "" {
			b.WriteString(" " + strconv.Quote(ft))
		}
		b.WriteString("; ")
	}
	b.WriteString("}")
	return b.String()
}

// sig prints parameters and results; names gives the printed parameter names, nil for none.
func (g *gen) sig(s *types.Signature, names func(v *types.Var, i int) string) string {
	var b strings.Builder
	b.WriteString("(")
	for i := range s.Params().Len() {
		if i > 0 {
			b.WriteString(", ")
		}
		p := s.Params().At(i)
		if names != nil {
			b.WriteString(names(p, i) + " ")
		}
		if s.Variadic() && i == s.Params().Len()-1 {
			if sl, ok := g.subst(p.Type()).(*types.Slice); ok {
				b.WriteString("..." + g.typ(sl.Elem()))
			} else {
				b.WriteString("..." + g.typ(types.Typ[types.Byte]))
			}
		} else {
			b.WriteString(g.typ(p.Type()))
		}
	}
	b.WriteString(")")
	n := s.Results().Len()
	if n == 0 {
		return b.String()
	}
	named := names != nil && s.Results().At(0).Name() != ""
	b.WriteString(" (")
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		r := s.Results().At(i)
		if named {
			b.WriteString(names(r, -1-i) + " ")
		}
		b.WriteString(g.typ(r.Type()))
	}
	b.WriteString(")")
	return b.String()
}

// pkg prints the name under which the interpreter knows a package, importing it when it is new.
func (g *gen) pkg(p *types.Package) string {
	if name, ok := g.e.alias[p.Path()]; ok {
		return name
	}
	name := g.fresh(p.Name()) // an import that is taken back stays in the interpreter, and its name may not come again
	g.e.alias[p.Path()] = name
	g.out.imports = append(g.out.imports, fmt.Sprintf("import %s %q\n", name, p.Path()))
	return name
}

// isSource tells whether an object is printed by gen rather than called in the host.
func (g *gen) isSource(o types.Object) bool {
	return o.Pkg() != nil && (o.Pkg().Path() == "main" || g.e.imp.source[o.Pkg().Path()] && g.e.sources[o] != nil)
}

// named prints a named type and, the first time it is met, its declaration with all methods.
func (g *gen) named(t *types.Named) string {
	o := t.Obj()
	if o.Pkg() == nil {
		return o.Name()
	}
	if !g.isSource(o) && o.Pkg().Path() != "main" {
		return g.pkg(o.Pkg()) + "." + o.Name()
	}
	key := types.TypeString(t, func(p *types.Package) string { return p.Path() }) + fmt.Sprintf("@%p", t.Origin().Obj())
	if t.TypeArgs().Len() > 0 {
		for i := range t.TypeArgs().Len() {
			key += "," + g.typ(t.TypeArgs().At(i))
		}
	}
	if name, ok := g.e.typeNames[key]; ok {
		return name
	}
	name := g.e.newName(o.Name())
	g.e.typeNames[key] = name
	g.e.shown[name] = o.Name()
	under := t.Underlying()
	var text string
	if st, ok := g.subst(under).(*types.Struct); ok {
		text = g.structType(st, g.marks(t, name))
	} else {
		text = g.typ(under)
	}
	fmt.Fprintf(&g.out.types, "type %s %s\n", name, text)
	if types.IsInterface(t) {
		return name
	}
	have := map[string]bool{}
	for i := range t.NumMethods() {
		m := t.Method(i).Origin()
		have[m.Name()] = true
		if d := g.e.bodies[m]; d != nil {
			g.method(d, t, name)
		}
	}
	g.forward(t, name, have)
	g.identify(t, name)
	return name
}

// forward prints the methods that a struct gets from its embedded fields, because the interpreter does not find them when it
// looks for the methods of an interface.
func (g *gen) forward(t *types.Named, name string, have map[string]bool) {
	if _, ok := t.Underlying().(*types.Struct); !ok {
		return
	}
	ms := types.NewMethodSet(types.NewPointer(t))
	for i := range ms.Len() {
		sel := ms.At(i)
		fn, ok := sel.Obj().(*types.Func)
		if !ok || len(sel.Index()) < 2 || have[fn.Name()] || !fn.Exported() {
			continue
		}
		s := sel.Type().(*types.Signature)
		path, _ := g.path("r", t, sel.Index()[:len(sel.Index())-1])
		star := ""
		if types.NewMethodSet(t).Lookup(fn.Pkg(), fn.Name()) == nil {
			star = "*"
		}
		call := path + "." + fn.Name() + g.forwardArgs(s)
		ret := ""
		if s.Results().Len() > 0 {
			ret = "return "
		}
		fmt.Fprintf(&g.out.funcs, "func (r %s%s) %s%s { %s%s }\n", star, name, fn.Name(),
			g.sig(stripNames(s), func(_ *types.Var, i int) string { return fmt.Sprintf("a%d", i) }), ret, call)
	}
}

func stripNames(s *types.Signature) *types.Signature {
	strip := func(t *types.Tuple) *types.Tuple {
		var vs []*types.Var
		for i := range t.Len() {
			vs = append(vs, types.NewParam(token.NoPos, nil, "", t.At(i).Type()))
		}
		return types.NewTuple(vs...)
	}
	return types.NewSignatureType(nil, nil, nil, strip(s.Params()), strip(s.Results()), s.Variadic())
}

func (g *gen) forwardArgs(s *types.Signature) string {
	var args []string
	for i := range s.Params().Len() {
		a := fmt.Sprintf("a%d", i)
		if s.Variadic() && i == s.Params().Len()-1 {
			a += "..."
		}
		args = append(args, a)
	}
	return "(" + strings.Join(args, ", ") + ")"
}

// path prints the selection of fields by index, starting at x of type t.
func (g *gen) path(x string, t types.Type, index []int) (string, types.Type) {
	for _, i := range index {
		u := g.subst(t).Underlying()
		if p, ok := u.(*types.Pointer); ok {
			u = p.Elem().Underlying()
		}
		st, ok := u.(*types.Struct)
		if !ok {
			return x, t
		}
		x += "." + st.Field(i).Name()
		t = st.Field(i).Type()
	}
	return x, t
}

// conv prints e for a place of type to.
func (g *gen) conv(e ast.Expr, to types.Type) string {
	if n := g.cellType(g.typeOf(e)); to != nil && n != nil && g.sealed(g.subst(to)) {
		g.refuse(e, "Cell.E1", "keep there what is embedded in "+n.Obj().Name(), "cells cannot keep a %s in %s, which has methods that only its package names", n.Obj().Name(), goType(to))
	}
	s, from := g.expr(e), g.typeOf(e)
	if to != nil && isComposite(e) && g.foreign(g.subst(to)) && g.cellType(from) == nil && types.Unalias(from) != from.Underlying() {
		return g.between("as", from, g.subst(to), func(_, _ string) string { return "return x" }) + "(" + s + ")" // the interpreter does not see that a literal goes into an interface
	}
	return g.convText(s, from, to)
}

// convText is conv for text of type from.
func (g *gen) convText(s string, from, to types.Type) string {
	if _, ok := from.(*types.Tuple); ok || to == nil {
		return s
	}
	to = g.subst(to)
	if isEmptyInterface(to) {
		return g.boxed(s, from)
	}
	if types.Identical(to, errorInterface) {
		if b, ok := from.(*types.Basic); ok && b.Kind() == types.UntypedNil {
			return s
		}
		return g.asError(s, from)
	}
	if b, ok := from.(*types.Basic); ok && b.Kind() == types.UntypedNil {
		return s
	}
	if types.IsInterface(to) {
		return g.kept(s, from, to)
	}
	if types.Identical(from, to) {
		return s
	}
	if c, ok := from.Underlying().(*types.Chan); ok {
		// The interpreter does not make a channel one-way by itself.
		if d, ok := to.Underlying().(*types.Chan); ok && c.Dir() != d.Dir() {
			return "(" + g.typ(to) + ")(" + s + ")"
		}
	}
	// Function literals and unnamed composites may be given to a place of a named type; the interpreter is not always aware of it.
	if _, ok := to.(*types.Named); ok {
		if _, ok := to.Underlying().(*types.Signature); ok {
			return g.typ(to) + "(" + s + ")"
		}
	}
	return s
}

// constant prints a constant of the type that the checker settled on.
func (g *gen) constant(v constant.Value, t types.Type) string {
	if t == nil || t == types.Typ[types.Invalid] {
		return v.ExactString()
	}
	b, ok := t.Underlying().(*types.Basic)
	if !ok {
		return v.ExactString()
	}
	info := b.Info()
	var lit string
	switch {
	case info&types.IsBoolean != 0:
		lit = strconv.FormatBool(constant.BoolVal(v))
	case info&types.IsString != 0:
		lit = strconv.Quote(constant.StringVal(v))
	case info&types.IsInteger != 0:
		lit = constant.ToInt(v).ExactString()
	case info&types.IsFloat != 0:
		f, _ := constant.Float64Val(constant.ToFloat(v))
		if b.Kind() == types.Float32 {
			f32, _ := constant.Float32Val(constant.ToFloat(v))
			lit = strconv.FormatFloat(float64(f32), 'g', -1, 32)
		} else {
			lit = strconv.FormatFloat(f, 'g', -1, 64)
		}
		if !strings.ContainsAny(lit, ".e") {
			lit += ".0"
		}
	case info&types.IsComplex != 0:
		re, _ := constant.Float64Val(constant.Real(v))
		im, _ := constant.Float64Val(constant.Imag(v))
		lit = fmt.Sprintf("complex(float64(%g), float64(%g))", re, im)
		if b.Kind() == types.UntypedComplex || t == types.Typ[types.Complex128] {
			return lit
		}
	default:
		return v.ExactString()
	}
	if t == types.Typ[types.Bool] || t == types.Typ[types.Int] || t == types.Typ[types.String] || t == types.Typ[types.UntypedBool] || t == types.Typ[types.UntypedString] || t == types.Typ[types.UntypedInt] {
		return lit
	}
	return g.typ(t) + "(" + lit + ")"
}

// funcDecl prints a function or one instance of a generic one.
func (g *gen) function(d *decl, name string, targs []types.Type) {
	sub := g.enter(d, targs)
	defer sub()
	fmt.Fprintf(&g.out.funcs, "func %s%s\n", name, g.signatureAndBody(d.ast.Type, d.ast.Body, d.sig, nil))
}

func (g *gen) method(d *decl, t *types.Named, recv string) {
	var targs []types.Type
	for i := range t.TypeArgs().Len() {
		targs = append(targs, g.subst(t.TypeArgs().At(i)))
	}
	sub := g.enter(d, targs)
	defer sub()
	r := "_"
	if f := d.ast.Recv.List[0]; len(f.Names) > 0 {
		r = f.Names[0].Name
	}
	star := ""
	if d.ptr {
		star = "*"
	}
	fmt.Fprintf(&g.out.funcs, "func (%s %s%s) %s%s\n", r, star, recv, d.ast.Name.Name, g.signatureAndBody(d.ast.Type, d.ast.Body, d.sig, d.recv))
}

// enter switches to the checked information and type arguments of another declaration.
func (g *gen) enter(d *decl, targs []types.Type) func() {
	info, env, fn, cell, names, within := g.info, g.env, g.fn, g.cell, g.names, g.within
	g.within = d.key
	g.info, g.fn, g.names = d.info, nil, map[types.Object]string{}
	g.env = map[*types.TypeParam]types.Type{}
	for i, p := range d.tparams {
		if i < len(targs) {
			g.env[p] = targs[i]
		}
	}
	return func() { g.info, g.env, g.fn, g.cell, g.names, g.within = info, env, fn, cell, names, within }
}

// mentions tells whether a type is made of type parameters of the instance being printed.
func (g *gen) mentions(t types.Type, seen map[types.Type]bool) bool {
	t = types.Unalias(t)
	if seen[t] {
		return false
	}
	seen[t] = true
	tuple := func(tu *types.Tuple) bool {
		return slices.ContainsFunc(tupleVars(tu), func(v *types.Var) bool { return g.mentions(v.Type(), seen) })
	}
	switch t := t.(type) {
	case *types.TypeParam:
		_, ok := g.env[t]
		return ok
	case *types.Named:
		for i := range t.TypeArgs().Len() {
			if g.mentions(t.TypeArgs().At(i), seen) {
				return true
			}
		}
		return t.Obj().Pkg() != nil && g.isSource(t.Obj()) && t.TypeArgs().Len() == 0 && g.mentions(t.Underlying(), seen)
	case *types.Map:
		return g.mentions(t.Key(), seen) || g.mentions(t.Elem(), seen)
	case interface{ Elem() types.Type }:
		return g.mentions(t.Elem(), seen)
	case *types.Signature:
		return tuple(t.Params()) || tuple(t.Results())
	case *types.Struct:
		for i := range t.NumFields() {
			if g.mentions(t.Field(i).Type(), seen) {
				return true
			}
		}
	case *types.Interface:
		for i := range t.NumMethods() {
			if g.mentions(t.Method(i).Type(), seen) {
				return true
			}
		}
	}
	return false
}

// envKey tells instances apart.
func (g *gen) envKey() string {
	var parts []string
	for p, t := range g.env {
		parts = append(parts, fmt.Sprintf("%p=%s", p, g.typ(t)))
	}
	slices.Sort(parts)
	return "<" + strings.Join(parts, ",") + ">"
}

// signatureAndBody prints a function from its parameters on. Names come from the syntax, types from sig.
func (g *gen) signatureAndBody(ft *ast.FuncType, body *ast.BlockStmt, sig *types.Signature, skip *types.Var) string {
	var ps, rs []string
	collect := func(fl *ast.FieldList) (out []string) {
		if fl == nil {
			return nil
		}
		for _, f := range fl.List {
			for _, n := range f.Names {
				out = append(out, n.Name)
			}
		}
		return out
	}
	ps, rs = collect(ft.Params), collect(ft.Results)
	if skip != nil {
		// The checked form has the receiver as its first parameter.
		sig = types.NewSignatureType(nil, nil, nil, types.NewTuple(tupleVars(sig.Params())[1:]...), sig.Results(), sig.Variadic())
	}
	old := g.fn
	g.fn = &local{results: sig.Results(), defers: hasDefer(body), direct: g.direct != nil && g.direct.Body == body}
	arm := ""
	if !g.fn.direct && g.recovers(body) {
		arm = "ǃarm := " + g.host() + ".Disarm()\n_ = ǃarm\n"
	}
	arm += g.begins()
	defer func() { g.fn = old }()
	head := g.sig(sig, func(_ *types.Var, i int) string {
		if i < 0 {
			if k := -1 - i; k < len(rs) {
				return rs[k]
			}
			return "_"
		}
		if i < len(ps) {
			return ps[i]
		}
		return "_"
	})
	if !g.fn.defers {
		return head + " {\n" + arm + g.stmts(body.List) + "}"
	}
	// The interpreter holds a lock while it runs deferred calls, so the body runs as a function of its own and the host runs them.
	ret := ""
	if n := sig.Results().Len(); n > 0 {
		for i := range n {
			name := fmt.Sprintf("ǃr%d", i)
			if i < len(rs) && rs[i] != "_" {
				name = rs[i]
			}
			g.fn.outs = append(g.fn.outs, name)
		}
		ret = "return " + strings.Join(g.fn.outs, ", ") + "\n"
	}
	outs := g.fn.outs
	head = g.sig(sig, func(_ *types.Var, i int) string {
		if i < len(ps) && i >= 0 {
			return ps[i]
		}
		return "_"
	})
	decls := ""
	for i, n := range outs {
		decls += fmt.Sprintf("var %s %s\n_ = %s\n", n, g.typ(sig.Results().At(i).Type()), n)
	}
	if len(outs) > 0 && sig.Results().At(0).Name() != "" {
		// Results are plain variables here, so the head must not declare them again.
		head = g.sig(types.NewSignatureType(nil, nil, nil, sig.Params(), nil, sig.Variadic()), func(_ *types.Var, i int) string {
			if i < len(ps) {
				return ps[i]
			}
			return "_"
		})
		var ts []string
		for i := range outs {
			ts = append(ts, g.typ(sig.Results().At(i).Type()))
		}
		head += " (" + strings.Join(ts, ", ") + ")"
	}
	return head + " {\n" + arm + decls + g.deferring(g.stmts(body.List)) + ret + "}"
}

// recovers tells whether a function calls recover itself.
func (g *gen) recovers(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.Ident:
			b, ok := g.info.Uses[n].(*types.Builtin)
			found = found || ok && b.Name() == "recover"
		}
		return !found
	})
	return found
}

// deferring prints statements that defer calls.
func (g *gen) deferring(stmts string) string {
	return "ǃds := " + g.host() + ".NewDefers()\nǃds.Do(func() {\n" + stmts + "})\n"
}

func tupleVars(t *types.Tuple) (out []*types.Var) {
	for i := range t.Len() {
		out = append(out, t.At(i))
	}
	return out
}

// hasDefer tells whether a function body defers, not counting function literals in it.
func hasDefer(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.DeferStmt:
			found = true
		case *ast.FuncLit:
			return false
		}
		return !found
	})
	return found
}

func (g *gen) host() string { return g.pkg(g.e.imp.Package(hostPath)) }
