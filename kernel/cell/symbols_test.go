package cell

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// The generated tables must hold every exported name of their packages that is not generic: what is missing there does not exist for cells.
func TestSymbolsAreFresh(t *testing.T) {
	if testing.Short() {
		t.Skip("loads the packages")
	}
	var paths []string
	for k := range Symbols {
		paths = append(paths, path.Dir(k))
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain")
	}
	out, err := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	for _, l := range strings.Split(string(out), "\n") {
		p, file, _ := strings.Cut(l, " ")
		files[p] = file
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(p string) (io.ReadCloser, error) { return os.Open(files[p]) })
	for _, path := range paths {
		p, err := imp.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		tab := Symbols[path+"/"+p.Name()]
		for _, n := range p.Scope().Names() {
			o := p.Scope().Lookup(n)
			if !o.Exported() || generic(o) {
				continue
			}
			if _, ok := tab[n]; !ok {
				t.Errorf("%s.%s is missing: run go generate ./kernel/cell", p.Name(), n)
			}
		}
		for n := range tab {
			if !strings.HasPrefix(n, "_") && p.Scope().Lookup(n) == nil {
				t.Errorf("%s.%s is gone: run go generate ./kernel/cell", p.Name(), n)
			}
		}
	}
}

func generic(o types.Object) bool {
	switch t := o.Type().(type) {
	case *types.Signature:
		return t.TypeParams().Len() > 0
	case *types.Named:
		return t.TypeParams().Len() > 0
	case *types.Alias:
		return t.TypeParams().Len() > 0
	}
	if n, ok := o.Type().Underlying().(*types.Interface); ok {
		return !n.IsMethodSet() // a constraint
	}
	return false
}

func TestPreimported(t *testing.T) {
	b := &bench{}
	e, err := New(Hooks{Write: func(_ int64, _ string, p []byte) { b.out.Write(p) }, Sync: func() {},
		Result: func(_ int64, vals []any, _ []string) { b.out.WriteString("=> " + vals[0].(string)) }}, Symbols, Preimported)
	if err != nil {
		t.Fatal(err)
	}
	b.Engine = e
	for src, want := range map[string]string{
		`layout.Local(2, 1).Spatial(8, 4).String()`: "=> local(2, 1).spatial(8, 4)",
		`dtype.I6.String()`:                         "=> i6",
		`l, err := layout.Parse("spatial(8, 4)"); if err != nil { panic(err) }; l.String()`: "=> spatial(8, 4)",
		`import "github.com/gopherdata/gophernotes"; display.MIMETypeSVG`:                   "=> image/svg+xml",
		`array.New(dtype.F16, 2).Type.String()`:                                             "=> f16",
		`layout.Spatail(8)`:                                                                 "ERROR cell6:1:8: undefined: layout.Spatail",
	} {
		b.n = 5
		if got := b.run(src); got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
}
