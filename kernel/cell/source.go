package cell

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
)

// Generic packages cannot be called through reflection, so slices, maps, cmp and iter come as source: gen prints the instances
// that a cell needs.
//
//go:embed generic/*.go.txt
var genericFiles embed.FS

// addSources checks the packages that are given as source. Order matters: later ones import earlier ones.
func (e *Engine) addSources() error {
	for _, path := range []string{"cmp", "iter", "slices", "maps"} {
		text, err := genericFiles.ReadFile("generic/" + path + ".go.txt")
		if err != nil {
			return fmt.Errorf("cell: %w", err)
		}
		f, err := parser.ParseFile(e.fset, path+".go", text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("cell: %w", err)
		}
		info := newInfo()
		conf := types.Config{Importer: e.imp, GoVersion: "go1.26"}
		pkg, err := conf.Check(path, e.fset, []*ast.File{f}, info)
		if err != nil {
			return fmt.Errorf("cell: package %s: %w", path, err)
		}
		e.imp.source[path] = true
		e.imp.pkgs[path] = pkg
		e.imp.filled[path] = true
		delete(e.imp.keys, path)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				fn := info.Defs[d.Name].(*types.Func)
				sig := fn.Type().(*types.Signature)
				x := &decl{key: d.Name.Name, cell: path, ast: d, info: info, sig: sig}
				for k := range sig.TypeParams().Len() {
					x.tparams = append(x.tparams, sig.TypeParams().At(k))
				}
				e.bodies[fn] = x
				e.sources[fn] = x
			case *ast.GenDecl:
				if d.Tok != token.TYPE {
					continue
				}
				for _, s := range d.Specs {
					e.sources[info.Defs[s.(*ast.TypeSpec).Name]] = &decl{key: s.(*ast.TypeSpec).Name.Name, cell: path}
				}
			}
		}
	}
	return nil
}
