package cell

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"strings"
)

// Generic packages cannot be called through reflection, so slices, maps, cmp and iter come as source: gen prints the instances
// that a cell needs.
//
//go:embed generic/*.go.txt generic/more/*.go.txt
var genericFiles embed.FS

// addSources checks the packages that are given as source. Order matters: later ones import earlier ones. What stands in generic/more
// adds to packages of the library.
func (e *Engine) addSources() error {
	for _, path := range []string{"cmp", "iter", "slices", "maps"} {
		pkg, err := e.addSource(path, path, "generic/"+path)
		if err != nil {
			return err
		}
		e.imp.pkgs[path] = pkg
		e.imp.filled[path] = true
		delete(e.imp.keys, path)
	}
	for _, path := range []string{"bytes", "errors", "math/rand/v2", "reflect", "strings", "sync", "sync/atomic"} {
		pkg, err := e.addSource(path, "more/"+path, "generic/more/"+strings.ReplaceAll(path, "/", "_"))
		if err != nil {
			return err
		}
		native, err := e.imp.Import(path)
		if err != nil {
			return fmt.Errorf("cell: %w", err)
		}
		for _, name := range pkg.Scope().Names() {
			if o := pkg.Scope().Lookup(name); o.Exported() && native.Scope().Lookup(name) == nil {
				native.Scope().Insert(o)
			}
		}
	}
	return nil
}

// addSource checks one file as the package of that path.
func (e *Engine) addSource(name, path, file string) (*types.Package, error) {
	text, err := genericFiles.ReadFile(file + ".go.txt")
	if err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	f, err := parser.ParseFile(e.fset, path+".go", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	info := newInfo()
	conf := types.Config{Importer: e.imp, GoVersion: "go1.26"}
	pkg, err := conf.Check(path, e.fset, []*ast.File{f}, info)
	if err != nil {
		return nil, fmt.Errorf("cell: package %s: %w", name, err)
	}
	e.imp.source[path] = true
	e.takeSource(path, f, info)
	return pkg, nil
}
