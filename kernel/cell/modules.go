package cell

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
)

// SourcePackage is a package that cells get as source, as the go command lists it.
type SourcePackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	CgoFiles   []string
	SFiles     []string
	Standard   bool
}

// AddPackages makes packages available to cells that import them: those that are not in the tables are checked from their source,
// and what cells use of them is printed into the cells. They come in the order in which they depend on each other, as
// go list -deps gives them.
func (e *Engine) AddPackages(list []SourcePackage) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range list {
		if _, native := e.imp.keys[p.ImportPath]; native || e.imp.source[p.ImportPath] || p.ImportPath == "unsafe" {
			continue
		}
		if p.Standard {
			continue // of use only to packages whose table is there; others say below what they miss
		}
		if err := e.addPackage(p); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) addPackage(p SourcePackage) error {
	switch {
	case len(p.CgoFiles) > 0:
		return fmt.Errorf("package %s has C code, which cells cannot run", p.ImportPath)
	case len(p.SFiles) > 0:
		return fmt.Errorf("package %s has assembly, which cells cannot run", p.ImportPath)
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(e.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("package %s: %w", p.ImportPath, err)
		}
		files = append(files, f)
	}
	info := newInfo()
	conf := types.Config{Importer: e.imp, GoVersion: "go1.26"}
	pkg, err := conf.Check(p.ImportPath, e.fset, files, info)
	if err != nil {
		var te types.Error
		if errors.As(err, &te) {
			at := e.fset.Position(te.Pos)
			return fmt.Errorf("package %s: %s:%d: %s", p.ImportPath, filepath.Base(at.Filename), at.Line, te.Msg)
		}
		return fmt.Errorf("package %s: %w", p.ImportPath, err)
	}
	for _, f := range files {
		for _, d := range f.Decls {
			if fd, ok := d.(*ast.FuncDecl); ok && (fd.Body == nil || fd.Recv == nil && fd.Name.Name == "init") {
				return fmt.Errorf("package %s: %s: cells cannot run a package with init functions or functions without bodies", p.ImportPath, fd.Name.Name)
			}
		}
	}
	e.imp.source[p.ImportPath] = true
	e.imp.pkgs[p.ImportPath] = pkg
	e.imp.filled[p.ImportPath] = true
	for _, f := range files {
		e.takeSource(p.ImportPath, f, info)
	}
	e.takeInits(info)
	return nil
}

// initializer is how variables of a package given as source get their values.
type initializer struct {
	*types.Initializer
	info *types.Info
}

// takeInits notes how variables of a package get their values.
func (e *Engine) takeInits(info *types.Info) {
	for _, in := range info.InitOrder {
		for _, v := range in.Lhs {
			e.inits[v] = &initializer{in, info}
		}
	}
}

// sourceVar prints a variable of a package given as source the first time that a cell uses it.
func (g *gen) sourceVar(v *types.Var) string {
	name := g.e.newName(v.Name())
	g.e.emitted[v] = name
	g.e.shown[name] = v.Name()
	fmt.Fprintf(&g.out.vars, "var %s %s\n", name, g.typ(v.Type()))
	in := g.e.inits[v]
	if in == nil {
		return name
	}
	restore := g.enter(&decl{info: in.info}, nil)
	defer restore()
	if len(in.Lhs) == 1 {
		text := g.conv(in.Rhs, v.Type())
		fmt.Fprintf(&g.out.regs, "%s = %s\n", name, text)
		return name
	}
	// One call gives values to several variables.
	text := g.expr(in.Rhs)
	head, sets := "", ""
	for i, w := range in.Lhs {
		t := g.fresh("t")
		if i > 0 {
			head += ", "
		}
		head += t
		if g.e.emitted[w] == "" && w.Name() != "_" {
			n := g.e.newName(w.Name())
			g.e.emitted[w] = n
			fmt.Fprintf(&g.out.vars, "var %s %s\n", n, g.typ(w.Type()))
		}
		if w.Name() == "_" {
			sets += "_ = " + t + "\n"
		} else {
			sets += g.e.emitted[w] + " = " + t + "\n"
		}
	}
	g.out.regs.WriteString(head + " := " + text + "\n" + sets)
	return name
}

// takeSource notes the declarations of a checked file.
func (e *Engine) takeSource(path string, f *ast.File, info *types.Info) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			fn, ok := info.Defs[d.Name].(*types.Func)
			if !ok {
				continue
			}
			sig := fn.Type().(*types.Signature)
			x := &decl{key: d.Name.Name, cell: path, ast: d, info: info, sig: sig}
			params := sig.TypeParams()
			if r := sig.Recv(); r != nil {
				// As in cells, the receiver is the first parameter.
				params, x.recv = sig.RecvTypeParams(), r
				_, x.ptr = r.Type().(*types.Pointer)
				x.sig = types.NewSignatureType(nil, nil, nil, types.NewTuple(append([]*types.Var{r}, tupleVars(sig.Params())...)...), sig.Results(), sig.Variadic())
			}
			for k := range params.Len() {
				x.tparams = append(x.tparams, params.At(k))
			}
			e.bodies[fn] = x
			e.sources[fn] = x
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					e.sources[info.Defs[s.Name]] = &decl{key: s.Name.Name, cell: path}
				case *ast.ValueSpec:
					if d.Tok == token.VAR {
						for _, n := range s.Names {
							if o := info.Defs[n]; o != nil {
								e.sources[o] = &decl{key: n.Name, cell: path}
							}
						}
					}
				}
			}
		}
	}
}
