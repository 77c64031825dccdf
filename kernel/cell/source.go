package cell

import (
	"crypto/hkdf"
	"crypto/pbkdf2"
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"hash"
	"hash/maphash"
	"reflect"
	"strings"
)

// Generic functions cannot be called through reflection, so they come as source: gen prints the instances that a cell needs.
//
//go:embed generic/*.go.txt generic/more/*.go.txt
var genericFiles embed.FS

// moreSource begins the names of files that add to packages of the library.
const moreSource = "more/"

// addSources checks the packages that are given as source. Order matters: later ones import earlier ones. What stands in generic/more
// adds to packages of the library.
func (e *Engine) addSources() error {
	for _, path := range []string{"cmp", "iter", "slices", "maps", "unique", "crypto/hkdf", "crypto/pbkdf2"} {
		pkg, err := e.addSource(path, path, "generic/"+strings.ReplaceAll(path, "/", "_"))
		if err != nil {
			return err
		}
		e.imp.pkgs[path] = pkg
		e.imp.filled[path] = true
		delete(e.imp.keys, path)
	}
	for _, path := range []string{"errors", "hash/maphash", "math/rand/v2", "reflect", "sync", "sync/atomic"} {
		pkg, err := e.addSource(path, moreSource+path, "generic/"+moreSource+strings.ReplaceAll(path, "/", "_"))
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

// genericPath is the import path under which source finds the library's instances that do its work.
const genericPath = hostPath + "/generic"

var instances = map[string]reflect.Value{
	"Hash":        reflect.ValueOf(maphash.Comparable[any]),
	"WriteHash":   reflect.ValueOf(maphash.WriteComparable[any]),
	"HKDFExpand":  reflect.ValueOf(hkdf.Expand[hash.Hash]),
	"HKDFExtract": reflect.ValueOf(hkdf.Extract[hash.Hash]),
	"HKDFKey":     reflect.ValueOf(hkdf.Key[hash.Hash]),
	"PBKDF2":      reflect.ValueOf(pbkdf2.Key[hash.Hash]),
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
	e.takeInits(info)
	return pkg, nil
}
