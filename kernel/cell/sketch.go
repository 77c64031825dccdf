package cell

import (
	"go/ast"
	"go/token"
	"go/types"
)

// hole stands for the name that is still to be typed.
const hole = "ǃ"

// sketched is what the type checker makes of a cell that is being written.
type sketched struct {
	info   *types.Info
	fset   *token.FileSet
	prefix map[*token.File]int
}

// sketch checks a cell that need not be complete, ignoring errors; it changes nothing. at is the cursor, last the part of a name before it.
func (e *Engine) sketch(code string, at int, last string) *sketched {
	if last == "" {
		code = code[:at] + hole + code[at:]
	}
	s := &sketched{info: newInfo(), fset: token.NewFileSet()}
	p, _ := parse(s.fset, "cell", code)
	if p.over {
		return nil
	}
	s.prefix = p.files
	f := &ast.File{Name: ast.NewIdent("main")}
	mine := map[string]bool{}
	for _, im := range p.imports {
		f.Decls = append(f.Decls, &ast.GenDecl{Tok: token.IMPORT, Specs: []ast.Spec{im}})
	}
	for _, d := range p.decls {
		f.Decls = append(f.Decls, d)
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				mine[spec.Name.Name] = true
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					mine[n.Name] = true
				}
			}
		}
	}
	for _, d := range p.funcs {
		if d.Name.Name == "main" || d.Name.Name == "init" {
			d.Name = ast.NewIdent(d.Name.Name + hole)
		}
		f.Decls = append(f.Decls, d)
		if d.Recv == nil {
			mine[d.Name.Name] = true
		}
	}
	if p.body != nil {
		f.Decls = append(f.Decls, &ast.FuncDecl{Name: ast.NewIdent("cell" + hole), Type: &ast.FuncType{Params: &ast.FieldList{}}, Body: p.body})
	}
	seen := map[string]types.Object{}
	for n, o := range e.objs {
		if !mine[n] {
			seen[n] = o
		}
	}
	conf := types.Config{Importer: e.imp, GoVersion: "go1.26", Error: func(error) {}}
	pkg := seeAll(types.NewPackage("main", "main"), seen, nil)
	types.NewChecker(&conf, s.fset, pkg, s.info).Files([]*ast.File{f})
	return s
}

// offset is where a position is in the cell.
func (s *sketched) offset(pos token.Pos) int {
	f := s.fset.File(pos)
	if f == nil {
		return -1
	}
	return f.Offset(pos) - s.prefix[f]
}

// selected is the package or the type that the selector with its name at offset selects from.
func (s *sketched) selected(at int) (*types.Package, types.Type) {
	if s == nil {
		return nil, nil
	}
	for x := range s.info.Types {
		sel, ok := x.(*ast.SelectorExpr)
		if !ok || s.offset(sel.Sel.Pos()) != at {
			continue
		}
		if t := s.info.TypeOf(sel.X); t != nil && t != types.Typ[types.Invalid] {
			return nil, t
		}
	}
	// A package has no type, and a wrong selection none either.
	for id, o := range s.info.Uses {
		end := s.offset(id.End())
		if end < 0 || end >= at {
			continue
		}
		if pn, ok := o.(*types.PkgName); ok && end+1 == at {
			return pn.Imported(), nil
		} else if end+1 == at && o.Type() != nil {
			return nil, o.Type()
		}
	}
	return nil, nil
}

// object is what the name at an offset stands for, or nil.
func (s *sketched) object(at int) types.Object {
	if s == nil {
		return nil
	}
	for _, m := range []map[*ast.Ident]types.Object{s.info.Uses, s.info.Defs} {
		for id, o := range m {
			if o != nil && s.offset(id.Pos()) == at {
				return o
			}
		}
	}
	return nil
}

// locals are the names that the cell declares before an offset.
func (s *sketched) locals(at int) map[string]types.Object {
	out := map[string]types.Object{}
	if s == nil {
		return out
	}
	for id, o := range s.info.Defs {
		if o != nil && s.offset(id.Pos()) < at && o.Parent() != nil && id.Name != "_" {
			out[id.Name] = o
		}
	}
	return out
}

// literal is the struct whose composite literal has the name at an offset as an element or as the key of one, with the fields that the
// literal does not name elsewhere.
func (s *sketched) literal(at int) (t types.Type, open []*types.Var) {
	if s == nil {
		return nil, nil
	}
	for x, tv := range s.info.Types {
		lit, ok := x.(*ast.CompositeLit)
		if !ok || tv.Type == nil {
			continue
		}
		t := tv.Type
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem() // of a list of pointers
		}
		st, isStruct := t.Underlying().(*types.Struct)
		here, named := false, map[string]bool{}
		for _, el := range lit.Elts {
			kv, keyed := el.(*ast.KeyValueExpr)
			if keyed {
				el = kv.Key
			}
			if id, ok := el.(*ast.Ident); ok && s.offset(id.Pos()) == at {
				here = true
			} else if ok && keyed {
				named[id.Name] = true
			}
		}
		if !here || !isStruct {
			continue
		}
		for f := range st.Fields() {
			if !named[f.Name()] && (f.Exported() || pathOf(f) == "main") {
				open = append(open, f)
			}
		}
		return t, open
	}
	return nil, nil
}
