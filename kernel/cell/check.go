package cell

import (
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// checked is what the type checker found out about a cell.
type checked struct {
	info    *types.Info
	objs    map[string]types.Object // imports, types, constants and functions of the cell
	decls   []*decl
	bodies  map[*types.Func]*decl
	vars    []topVar
	late    []lateMethod
	main    *types.Func
	novalue map[*ast.ExprStmt]bool // a last statement without value
	touched []string               // earlier variables that the cell assigns or calls methods on
	notes   []string
}

// topVar is a variable that a statement of the cell declares at top level.
type topVar struct {
	obj     *types.Var // in the cell's statements
	session *types.Var // for later cells and functions
	old     types.Object
}

type lateMethod struct {
	*decl
	named *types.Named
}

func typeKey(t *types.Named) string {
	return types.TypeString(t, func(p *types.Package) string { return p.Path() }) + fmt.Sprintf("@%p", t.Origin().Obj())
}

func newInfo() *types.Info {
	return &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Instances: map[*ast.Ident]types.Instance{}, Implicits: map[ast.Node]types.Object{}, Scopes: map[ast.Node]*types.Scope{}}
}

// split makes the declarations of a cell.
func (e *Engine) split(name, src string, p *parsed) (ds []*decl, probs []problem) {
	text := func(n ast.Node) string {
		a, b := e.place(n.Pos()).Offset, e.place(n.End()).Offset
		if a < 0 || b > len(src) || a > b {
			return ""
		}
		return src[a:b]
	}
	for _, gd := range p.decls {
		if gd.Tok == token.CONST {
			var keys []string
			for _, s := range gd.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					keys = append(keys, n.Name)
				}
			}
			ds = append(ds, &decl{key: strings.Join(keys, ","), cell: name, gen: gd, text: text(gd)})
			continue
		}
		for _, s := range gd.Specs {
			ts := s.(*ast.TypeSpec)
			ds = append(ds, &decl{key: ts.Name.Name, cell: name, text: text(ts), gen: &ast.GenDecl{TokPos: gd.TokPos, Tok: token.TYPE, Specs: []ast.Spec{ts}}})
		}
	}
	for _, fd := range p.funcs {
		if fd.Body == nil {
			continue // documentation of a signature
		}
		key := fd.Name.Name
		d := &decl{cell: name, ast: fd, text: text(fd)}
		if fd.Recv != nil && len(fd.Recv.List) == 1 {
			base, ptr := recvBase(fd.Recv.List[0].Type)
			key, d.ptr = base+"."+key, ptr
		}
		d.key = key
		ds = append(ds, d)
	}
	// In one cell a name is declared once, except blank ones and init.
	seen := map[string]bool{}
	for _, d := range ds {
		for _, k := range strings.Split(d.key, ",") {
			if seen[k] && k != "_" && k != "init" {
				n := d.node()
				probs = append(probs, problem{pos: n.Pos(), end: n.Pos(), msg: k + " is declared twice in this cell"})
			}
			seen[k] = true
		}
	}
	return ds, probs
}

func (d *decl) node() ast.Node {
	if d.ast != nil {
		return d.ast
	}
	return d.gen
}

func recvBase(x ast.Expr) (string, bool) {
	ptr := false
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			ptr, x = true, t.X
		case *ast.ParenExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name, ptr
		default:
			return "", ptr
		}
	}
}

// check type-checks a cell against what earlier cells declared.
//
// Declarations whose text is already in force are left alone, so that values made from them stay usable. The others start a new
// generation, together with all earlier declarations that depend on them.
func (e *Engine) check(name, src string, p *parsed) (*checked, []problem) {
	imports := map[string]types.Object{}
	var probs []problem
	for _, im := range p.imports {
		path := strings.Trim(im.Path.Value, "\"`")
		pkg, err := e.imp.Import(path)
		if err != nil {
			probs = append(probs, problem{pos: im.Path.Pos(), end: im.Path.End(), code: "Cell.E5", msg: fmt.Sprintf("package %q is not available in cells", path), help: e.suggestImport(path)})
			continue
		}
		n := pkg.Name()
		if im.Name != nil {
			n = im.Name.Name
		}
		switch n {
		case "_":
		case ".":
			for _, s := range pkg.Scope().Names() {
				if o := pkg.Scope().Lookup(s); o.Exported() {
					imports[s] = o
				}
			}
		default:
			imports[n] = types.NewPkgName(im.Pos(), nil, n, pkg)
		}
	}
	ds, ps := e.split(name, src, p)
	if probs = append(probs, ps...); len(probs) > 0 {
		return nil, probs
	}
	// Leave out what is in force.
	changed := map[string]bool{}
	for k, d := range e.decls {
		// A function of an earlier cell gets its stops when a debugger comes. A method waits until its cell runs again,
		// because its type starts a new generation then.
		if d.ast != nil && d.ast.Recv == nil && e.unstopped(d) {
			changed[k] = true
		}
	}
	for again := true; again; {
		again = false
		for _, d := range ds {
			if changed[d.key] || e.same(d, changed) && !e.unstopped(d) {
				continue
			}
			changed[d.key], again = true, true
			if d.ast != nil && d.ast.Recv != nil {
				t, _, _ := strings.Cut(d.key, ".")
				if old := e.decls[d.key]; old != nil || e.isGeneric(t) {
					changed[t] = true // a method cannot be replaced, so its type starts a new generation
				}
			}
		}
	}
	mine := map[string]*decl{}
	for _, d := range ds {
		mine[d.key] = d
	}
	var dropped []string
	for round := 0; ; round++ {
		set := e.closure(ds, mine, changed, dropped)
		c, probs, stale := e.phases(name, p, imports, set)
		if len(stale) > 0 && round < 50 {
			dropped = append(dropped, stale...)
			continue
		}
		if len(probs) > 0 {
			return nil, probs
		}
		// Functions that use a variable whose type changed follow it.
		grew := false
		for _, v := range c.vars {
			if o := e.objs[v.obj.Name()]; o != nil && v.old == nil && !changed[v.obj.Name()] {
				changed[v.obj.Name()], grew = true, true
			}
		}
		if grew && round < 50 {
			continue
		}
		for _, k := range dropped {
			c.notes = append(c.notes, fmt.Sprintf("%s (%s) does not fit the new declarations and keeps using the earlier ones", k, e.decls[k].cell))
		}
		return c, nil
	}
}

// same tells whether a declaration is in force already, and nothing it depends on changes.
func (e *Engine) same(d *decl, changed map[string]bool) bool {
	for _, k := range strings.Split(d.key, ",") {
		old := e.decls[k]
		if old == nil || old.text != d.text {
			return false
		}
		for dep := range old.deps {
			if changed[dep] {
				return false
			}
		}
	}
	if d.ast != nil && d.ast.Recv != nil {
		t, _, _ := strings.Cut(d.key, ".")
		return !changed[t]
	}
	if d.gen != nil && d.gen.Tok == token.TYPE {
		_, ok := e.objs[d.key].(*types.TypeName)
		return ok
	}
	return e.objs[strings.Split(d.key, ",")[0]] != nil
}

func (e *Engine) isGeneric(t string) bool {
	d := e.decls[t]
	return d != nil && d.gen != nil && len(d.gen.Specs) > 0 && d.gen.Specs[0].(*ast.TypeSpec).TypeParams != nil
}

// closure lists the declarations to check: those of the cell that changed, and earlier ones that depend on a change.
func (e *Engine) closure(ds []*decl, mine map[string]*decl, changed map[string]bool, dropped []string) []*decl {
	var set []*decl
	in := map[string]bool{}
	add := func(d *decl) {
		if !in[d.key] {
			in[d.key] = true
			set = append(set, d)
		}
	}
	for _, d := range ds {
		if changed[d.key] {
			add(d)
		}
	}
	names := clone(changed)
	for again := true; again; {
		again = false
		keys := make([]string, 0, len(e.decls))
		for k := range e.decls {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			d := e.decls[k]
			if mine[d.key] != nil && changed[d.key] || in[d.key] || slices.Contains(dropped, d.key) {
				continue
			}
			hit := names[d.key]
			for dep := range d.deps {
				hit = hit || names[dep]
			}
			if t, _, ok := strings.Cut(d.key, "."); ok && d.ast != nil && d.ast.Recv != nil && names[t] {
				hit = true
			}
			if !hit {
				continue
			}
			fresh := &decl{key: d.key, cell: d.cell, text: d.text, gen: d.gen, ast: d.ast, ptr: d.ptr}
			if mine[d.key] != nil {
				fresh = mine[d.key]
			}
			add(fresh)
			for _, n := range strings.Split(d.key, ",") {
				names[n] = true
			}
			again = true
		}
	}
	return set
}

// phases checks in two steps: first types, signatures and the statements, in order, as the body of a function; then the bodies of functions, which
// see the variables that the statements declare.
func (e *Engine) phases(name string, p *parsed, imports map[string]types.Object, set []*decl) (c *checked, probs []problem, stale []string) {
	info := newInfo()
	c = &checked{info: info, objs: map[string]types.Object{}, bodies: map[*types.Func]*decl{}, novalue: map[*ast.ExprStmt]bool{}}
	for n, o := range imports {
		c.objs[n] = o
	}
	inSet := map[string]bool{}
	for _, d := range set {
		for _, k := range strings.Split(d.key, ",") {
			inSet[k] = true
		}
	}
	var lateDecls []*decl
	fileA := &ast.File{Name: ast.NewIdent("main")}
	for _, d := range set {
		switch {
		case d.gen != nil:
			fileA.Decls = append(fileA.Decls, d.gen)
		case d.ast.Recv != nil:
			base, _ := recvBase(d.ast.Recv.List[0].Type)
			if inSet[base] {
				fileA.Decls = append(fileA.Decls, headOnly(d.ast))
			} else {
				lateDecls = append(lateDecls, d)
			}
		default:
			fileA.Decls = append(fileA.Decls, headOnly(d.ast))
		}
	}
	see := func(extra map[string]types.Object) *types.Package {
		pkg := e.empty()
		for n, o := range extra {
			pkg.Scope().Insert(alias(n, o, pkg))
		}
		for n, o := range e.objs {
			if !inSet[n] && extra[n] == nil {
				pkg.Scope().Insert(alias(n, o, pkg))
			}
		}
		return pkg
	}
	var errs []types.Error
	conf := &types.Config{Importer: e.imp, GoVersion: "go1.26", Error: func(err error) {
		if te, ok := err.(types.Error); ok {
			errs = append(errs, te)
		}
	}}
	pkgA := see(imports)

	// Methods for types of earlier cells join those types first.
	for _, d := range lateDecls {
		base, _ := recvBase(d.ast.Recv.List[0].Type)
		tn, _ := e.objs[base].(*types.TypeName)
		var named *types.Named
		if tn != nil {
			named, _ = types.Unalias(tn.Type()).(*types.Named)
		}
		if named == nil || tn.Pkg() == nil || tn.Pkg().Path() != "main" {
			probs = append(probs, problem{pos: d.ast.Recv.Pos(), end: d.ast.Recv.End(), msg: fmt.Sprintf("no cell declares a type %s that could have methods", base), help: "declare the type in this cell or an earlier one"})
			continue
		}
		errs = nil
		probe := newInfo()
		types.NewChecker(conf, e.fset, see(imports), probe).Files([]*ast.File{{Name: ast.NewIdent("main"), Decls: []ast.Decl{asFunc(d, nil, false)}}})
		if bad := e.problems(nil, errs, nil); len(bad) > 0 {
			probs = append(probs, bad...)
			continue
		}
		for _, o := range probe.Defs {
			f, ok := o.(*types.Func)
			if !ok {
				continue
			}
			s := f.Type().(*types.Signature)
			rest := types.NewTuple(tupleVars(s.Params())[1:]...)
			m := types.NewFunc(d.ast.Name.Pos(), tn.Pkg(), d.ast.Name.Name, types.NewSignatureType(s.Params().At(0), nil, nil, rest, s.Results(), s.Variadic()))
			if o, _, _ := types.LookupFieldOrMethod(types.NewPointer(named), true, tn.Pkg(), m.Name()); o != nil {
				if _, isField := o.(*types.Var); isField {
					probs = append(probs, problem{pos: d.ast.Name.Pos(), end: d.ast.Name.End(), msg: fmt.Sprintf("%s has a field of that name", base)})
					continue
				}
			}
			named.AddMethod(m)
			c.bodies[m] = d
			c.late = append(c.late, lateMethod{d, named})
			c.decls = append(c.decls, d)
		}
	}
	if len(probs) > 0 {
		return nil, probs, nil
	}

	var stmt *ast.FuncDecl
	if p.body != nil {
		stmt = &ast.FuncDecl{Name: &ast.Ident{Name: "_", NamePos: p.body.Pos()}, Type: &ast.FuncType{Func: p.body.Pos(), Params: &ast.FieldList{}}, Body: p.body}
		fileA.Decls = append(fileA.Decls, stmt)
	}
	errs = nil
	types.NewChecker(conf, e.fset, pkgA, info).Files([]*ast.File{fileA})
	errsA := errs
	for _, d := range set {
		for _, k := range strings.Split(d.key, ",") {
			if o := pkgA.Scope().Lookup(k); o != nil {
				c.objs[k] = o
			}
		}
	}
	// Top-level variables.
	var top *types.Scope
	vars := map[string]types.Object{}
	tops := map[types.Object]bool{}
	if stmt != nil {
		top = info.Scopes[stmt.Type]
		for _, o := range scopeVars(info, top) {
			v, ok := o.(*types.Var)
			if !ok {
				continue
			}
			tops[v] = true
			if v.Type() == nil || v.Type() == types.Typ[types.Invalid] {
				continue
			}
			tv := topVar{obj: v, session: types.NewVar(v.Pos(), pkgA, v.Name(), v.Type())}
			if old, ok := e.objs[v.Name()].(*types.Var); ok && types.Identical(old.Type(), v.Type()) {
				tv.old = old
				tv.session = old
			}
			c.vars = append(c.vars, tv)
			vars[v.Name()] = tv.session
		}
	}
	// Bodies.
	all := clone(c.objs)
	for n, o := range vars {
		all[n] = o
	}
	fileB := &ast.File{Name: ast.NewIdent("main")}
	var funcs []*decl
	for _, d := range set {
		if d.ast == nil {
			continue
		}
		var ts *ast.TypeSpec
		if d.ast.Recv != nil {
			base, _ := recvBase(d.ast.Recv.List[0].Type)
			ts = e.typeSpec(base, set)
		}
		f := asFunc(d, ts, true)
		fileB.Decls = append(fileB.Decls, f)
		funcs = append(funcs, d)
	}
	errs = nil
	if len(funcs) > 0 {
		types.NewChecker(conf, e.fset, seeAll(e.empty(), all, e.objs), info).Files([]*ast.File{fileB})
	}
	bad := e.problems(p, errsA, tops)
	bad = append(bad, e.problems(p, errs, nil)...)
	for _, b := range bad {
		at := e.place(b.pos).Filename
		if at != name && at != "" {
			for _, d := range set {
				if d.cell == at && d.cell != name && d.node().Pos() <= b.pos && b.pos <= d.node().End() {
					stale = append(stale, d.key)
				}
			}
		}
	}
	if len(bad) > 0 {
		return nil, bad, stale
	}
	for i, d := range funcs {
		fd := fileB.Decls[i].(*ast.FuncDecl)
		f, _ := info.Defs[fd.Name].(*types.Func)
		if f == nil {
			continue
		}
		d.sig = f.Type().(*types.Signature)
		d.info = info
		for k := range d.sig.TypeParams().Len() {
			d.tparams = append(d.tparams, d.sig.TypeParams().At(k))
		}
		if d.ast.Recv != nil {
			d.recv = d.sig.Params().At(0)
			base, _ := recvBase(d.ast.Recv.List[0].Type)
			if tn, ok := c.objs[base].(*types.TypeName); ok {
				if n, ok := types.Unalias(tn.Type()).(*types.Named); ok {
					for k := range n.NumMethods() {
						if n.Method(k).Name() == d.ast.Name.Name {
							c.bodies[n.Method(k)] = d
						}
					}
				}
			}
			continue
		}
		if o, ok := c.objs[d.key].(*types.Func); ok {
			c.bodies[o] = d
			if d.key == "main" && d.cell == name {
				c.main = o
			}
		}
	}
	for _, d := range set {
		d.deps = deps(d, info)
		if d.ast == nil || d.ast.Recv == nil || !slices.ContainsFunc(c.late, func(l lateMethod) bool { return l.decl == d }) {
			c.decls = append(c.decls, d)
		}
	}
	if p.body != nil {
		for _, s := range p.body.List {
			if x, ok := s.(*ast.ExprStmt); ok {
				if tv := info.Types[x.X]; tv.IsVoid() || tv.IsBuiltin() {
					c.novalue[x] = true
				}
				if call, ok := unparen(x.X).(*ast.CallExpr); ok {
					if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
						// Nobody wants to see how many bytes were printed.
						if f, ok := info.Uses[sel.Sel].(*types.Func); ok && f.Pkg() != nil && f.Pkg().Path() == "fmt" && strings.Contains(f.Name(), "rint") && !strings.HasPrefix(f.Name(), "S") {
							c.novalue[x] = true
						}
					}
					if tu, ok := info.TypeOf(call).(*types.Tuple); ok && tu.Len() == 0 {
						c.novalue[x] = true
					}
				}
			}
		}
		ast.Inspect(p.body, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if v, ok := info.Uses[id].(*types.Var); ok && e.objs[id.Name] == v {
					c.touched = append(c.touched, id.Name)
				}
			}
			return true
		})
	}
	return c, nil, nil
}

// empty empties the package that all cells are in. The checker asks whether an unexported field is of the same package by comparing
// pointers, so every cell must be checked in the same one.
func (e *Engine) empty() *types.Package {
	// Its scope stays the same one too, since types of earlier cells are asked whether they are local by comparing scopes.
	*e.main.Scope() = *types.NewScope(types.Universe, token.NoPos, token.NoPos, "package main")
	e.main.SetImports(nil)
	return e.main
}

// seeAll puts objects into pkg; those of first hide those of second.
func seeAll(pkg *types.Package, first, second map[string]types.Object) *types.Package {
	for n, o := range first {
		pkg.Scope().Insert(alias(n, o, pkg))
	}
	for n, o := range second {
		if first[n] == nil {
			pkg.Scope().Insert(alias(n, o, pkg))
		}
	}
	return pkg
}

// alias makes an object visible under a name: package names belong to the scope they are seen in.
func alias(name string, o types.Object, pkg *types.Package) types.Object {
	if pn, ok := o.(*types.PkgName); ok {
		return types.NewPkgName(pn.Pos(), pkg, name, pn.Imported())
	}
	return o
}

// scopeVars lists the objects declared directly in the body of the statements, in order. The body of a function shares the scope of
// its parameters.
func scopeVars(info *types.Info, top *types.Scope) []types.Object {
	if top == nil {
		return nil
	}
	var out []types.Object
	for _, n := range top.Names() {
		out = append(out, top.Lookup(n))
	}
	slices.SortFunc(out, func(a, b types.Object) int { return int(a.Pos() - b.Pos()) })
	return out
}

func headOnly(fd *ast.FuncDecl) *ast.FuncDecl {
	c := *fd
	c.Body = nil
	c.Doc = nil
	return &c
}

// asFunc makes a blank function of a declaration, so that only its body is checked. A receiver becomes the first parameter, the type parameters
// of its type, from ts, become those of the function.
func asFunc(d *decl, ts *ast.TypeSpec, body bool) *ast.FuncDecl {
	fd := d.ast
	ft := &ast.FuncType{Func: fd.Type.Func, TypeParams: fd.Type.TypeParams, Params: fd.Type.Params, Results: fd.Type.Results}
	if fd.Recv != nil {
		r := *fd.Recv.List[0]
		if len(r.Names) == 0 {
			r.Names = []*ast.Ident{{Name: "_", NamePos: r.Type.Pos()}}
		}
		ps := fd.Type.Params.List
		if len(ps) > 0 && len(ps[0].Names) == 0 {
			var named []*ast.Field
			for _, f := range ps {
				c := *f
				c.Names = []*ast.Ident{{Name: "_", NamePos: f.Pos()}}
				named = append(named, &c)
			}
			ps = named
		}
		ft.Params = &ast.FieldList{Opening: fd.Type.Params.Opening, List: append([]*ast.Field{&r}, ps...), Closing: fd.Type.Params.Closing}
		if ts != nil && ts.TypeParams != nil {
			var names []*ast.Ident
			x := r.Type
			if st, ok := x.(*ast.StarExpr); ok {
				x = st.X
			}
			switch t := x.(type) {
			case *ast.IndexExpr:
				if id, ok := t.Index.(*ast.Ident); ok {
					names = append(names, id)
				}
			case *ast.IndexListExpr:
				for _, i := range t.Indices {
					if id, ok := i.(*ast.Ident); ok {
						names = append(names, id)
					}
				}
			}
			ft.TypeParams = &ast.FieldList{}
			k := 0
			for _, f := range ts.TypeParams.List {
				for range f.Names {
					if k < len(names) {
						ft.TypeParams.List = append(ft.TypeParams.List, &ast.Field{Names: []*ast.Ident{{Name: names[k].Name, NamePos: names[k].NamePos}}, Type: f.Type})
					}
					k++
				}
			}
		}
	}
	out := &ast.FuncDecl{Name: &ast.Ident{Name: "_", NamePos: fd.Name.NamePos}, Type: ft}
	if body {
		out.Body = fd.Body
	}
	return out
}

func (e *Engine) typeSpec(name string, set []*decl) *ast.TypeSpec {
	for _, d := range set {
		if d.key == name && d.gen != nil && d.gen.Tok == token.TYPE {
			return d.gen.Specs[0].(*ast.TypeSpec)
		}
	}
	if d := e.decls[name]; d != nil && d.gen != nil && d.gen.Tok == token.TYPE {
		return d.gen.Specs[0].(*ast.TypeSpec)
	}
	return nil
}

// deps lists the top-level names that a declaration uses.
func deps(d *decl, info *types.Info) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(d.node(), func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		if o := info.Uses[id]; o != nil && o.Pkg() != nil && o.Pkg().Path() == "main" && o.Name() != d.key {
			switch o := o.(type) {
			case *types.PkgName:
			case *types.Var:
				if !o.IsField() && o.Parent() != nil && o.Parent().Parent() == types.Universe {
					out[o.Name()] = true
				}
			default:
				out[o.Name()] = true
			}
		}
		return true
	})
	return out
}

// problems turns checker errors into problems, leaving out what is no error in a cell.
func (e *Engine) problems(p *parsed, errs []types.Error, tops map[types.Object]bool) (out []problem) {
	for _, err := range errs {
		if strings.HasPrefix(err.Msg, "\t") {
			continue // the continuation of the one before
		}
		msg := err.Msg
		switch {
		case strings.Contains(msg, "imported and not used"):
			continue
		case strings.HasPrefix(msg, "declared and not used: "):
			name := strings.TrimPrefix(msg, "declared and not used: ")
			skip := false
			for o := range tops {
				skip = skip || o.Name() == name && o.Pos() == err.Pos
			}
			if skip {
				continue
			}
		case strings.HasSuffix(msg, "is not used") || strings.Contains(msg, ") is not used"):
			if p != nil && p.body != nil && len(p.body.List) > 0 {
				last := p.body.List[len(p.body.List)-1]
				if _, ok := last.(*ast.ExprStmt); ok && last.Pos() <= err.Pos && err.Pos <= last.End() {
					continue
				}
			}
		case strings.Contains(msg, "missing function body"), strings.Contains(msg, "func main is unused"):
			continue
		}
		q := problem{pos: err.Pos, msg: msg}
		if rest, ok := strings.CutPrefix(msg, "undefined: "); ok {
			q.end = err.Pos + token.Pos(len(rest))
			if _, sel, ok := strings.Cut(rest, "."); ok {
				q.end = err.Pos + token.Pos(len(sel))
			}
			q.help = e.suggest(rest)
		}
		out = append(out, q)
	}
	return out
}

// suggest finds what an undefined name may have meant.
func (e *Engine) suggest(name string) string {
	if pkg, sel, ok := strings.Cut(name, "."); ok {
		pn, _ := e.objs[pkg].(*types.PkgName)
		if pn == nil {
			return ""
		}
		if s := diag.Suggest(sel, pn.Imported().Scope().Names()); s != "" {
			return fmt.Sprintf("did you mean %s.%s?", pkg, s)
		}
		return ""
	}
	var known []string
	for n := range e.objs {
		known = append(known, n)
	}
	known = append(known, types.Universe.Names()...)
	slices.Sort(known)
	if s := diag.Suggest(name, known); s != "" {
		return fmt.Sprintf("did you mean %s?", s)
	}
	for _, p := range e.imp.Paths() {
		if p == name || strings.HasSuffix(p, "/"+name) {
			return fmt.Sprintf("import %q", p)
		}
	}
	return ""
}

func (e *Engine) suggestImport(path string) string {
	if s := diag.Suggest(path, e.imp.Paths()); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	return "cells can import the standard library, and of Tilus Lab the packages that %help lists"
}

// syntax turns parse errors into problems.
func (e *Engine) syntax(p *parsed, errs scanner.ErrorList) (out []problem) {
	for _, err := range errs {
		// The offset is that of the cell; any file of the cell gives the position back.
		for f, n := range p.files {
			off := min(err.Pos.Offset+n, f.Size())
			q := problem{pos: f.Pos(off), msg: "syntax error: " + err.Msg}
			if p.over {
				q.code, q.msg, q.help = "Cell.E11", err.Msg, "split the cell, or read long data from a file"
			}
			out = append(out, q)
			break
		}
	}
	return out
}
