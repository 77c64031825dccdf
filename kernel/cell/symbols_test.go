package cell

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"reflect"
	"slices"
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

// notInCells are the names of the standard library that cells do not have, by package ("" for all of it), with the reason.
var notInCells = map[string]map[string]string{
	"crypto/mlkem/mlkemtest": {"": "for tests"},
	"database/sql":           {"Null": "the library would not see methods of a type that is given as source"},
	"embed":                  {"": "a directive of the compiler"},
	"plugin":                 {"": "needs C"},
	"runtime":                {"AddCleanup": "the interpreter keeps values alive"},
	"runtime/cgo":            {"": "needs C"},
	"runtime/race":           {"": "has no names"},
	"runtime/coverage":       {"": "for instrumented programs"},
	"structs":                {"": "marks for the compiler"},
	"testing/cryptotest":     {"": "for tests"},
	"testing/synctest":       {"": "for tests"},
	"time/tzdata":            {"": "has no names"},
	"unsafe":                 {"": "the interpreter's memory is not Go's"},
	"weak":                   {"": "the interpreter keeps values alive"},
}

// Cells have the standard library of the Go version that go.mod names.
func TestStandardLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("loads the library")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain")
	}
	if v, err := exec.Command("go", "env", "GOVERSION").Output(); err != nil || !strings.HasPrefix(string(v), "go1.26") {
		t.Skipf("the tables are of Go 1.26, the toolchain is %s", v)
	}
	out, err := exec.Command("go", "list", "-export", "-f", "{{.ImportPath}} {{.Export}}", "std").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	for l := range strings.Lines(string(out)) {
		p, file, _ := strings.Cut(strings.TrimSpace(l), " ")
		files[p] = file
	}
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(p string) (io.ReadCloser, error) { return os.Open(files[p]) })
	cells := newBench(t).imp
	for p := range files {
		if p == "syscall" || p == "" {
			continue // another on each system
		}
		if strings.HasPrefix(p, "vendor/") || slices.Contains(strings.Split(p, "/"), "internal") {
			continue
		}
		not := notInCells[p]
		have, err := cells.Import(p)
		if err != nil {
			if not[""] == "" {
				t.Errorf("cells cannot import %s: run go generate ./kernel/cell, or see source.go if it is generic", p)
			}
			continue
		}
		if not[""] != "" {
			t.Errorf("cells can import %s, which is listed as absent", p)
		}
		want, err := imp.Import(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range want.Scope().Names() {
			if o := want.Scope().Lookup(n); o.Exported() && (have.Scope().Lookup(n) == nil) != (not[n] != "") {
				t.Errorf("%s.%s: cells have it: %t, listed as absent: %t; names that are not generic come from go generate ./kernel/cell", p, n, have.Scope().Lookup(n) != nil, not[n] != "")
			}
		}
	}
}

// The types that importable packages show in signatures and exported fields must be importable too: a cell cannot keep a value
// whose type the interpreter has no table of.
func TestSymbolsReachTheirTypes(t *testing.T) {
	have := map[string]bool{}
	for k := range Symbols {
		have[path.Dir(k)] = true
	}
	seen := map[reflect.Type]bool{}
	var visit func(rt reflect.Type, from string)
	visit = func(rt reflect.Type, from string) {
		if seen[rt] {
			return
		}
		seen[rt] = true
		if p := rt.PkgPath(); strings.HasPrefix(p, module) && !have[p] {
			t.Errorf("%s shows %s, and cells cannot import %s: add it to paths of gen/main.go", from, rt, p)
			have[p] = true
		}
		if rt.PkgPath() != "" && !strings.HasPrefix(rt.PkgPath(), module) {
			return
		}
		if rt.Name() != "" {
			from = rt.String()
		}
		shown(rt, func(in reflect.Type) { visit(in, from) })
	}
	for k, tab := range Symbols {
		if !strings.HasPrefix(k, module) {
			continue
		}
		for n, v := range tab {
			if token.IsExported(n) && v.IsValid() {
				visit(v.Type(), path.Base(k)+"."+n)
			}
		}
	}
}

// shown gives the types that users of a type see: of elements, exported fields, parameters, results and methods.
func shown(rt reflect.Type, see func(reflect.Type)) {
	for i := range rt.NumMethod() {
		see(rt.Method(i).Type)
	}
	switch rt.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
		see(rt.Elem())
	case reflect.Map:
		see(rt.Key())
		see(rt.Elem())
	case reflect.Func:
		for i := range rt.NumIn() {
			see(rt.In(i))
		}
		for i := range rt.NumOut() {
			see(rt.Out(i))
		}
	case reflect.Struct:
		for i := range rt.NumField() {
			if rt.Field(i).IsExported() {
				see(rt.Field(i).Type)
			}
		}
	}
	if rt.Name() != "" && rt.Kind() != reflect.Interface {
		see(reflect.PointerTo(rt)) // it has more methods
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

// Values of types that only other packages' signatures name live in variables of cells.
func TestValuesOfOtherPackages(t *testing.T) {
	b := newLabBench(t, Symbols)
	for src, want := range map[string]string{
		`l, _ := qmm.Parse("u4", 8, 64); ca, ch, err := l.Candidates(100, nil); fmt.Sprint(len(ca) > 0, len(ch) > 0, err)`:         "=> true true <nil>",
		`st := qmm.Call{}.Store; fmt.Sprint(st == nil)`:                                                                            "=> true",
		`l, _ := qmm.Parse("u4", 8, 64); choose := l.ChooseOn; fmt.Sprint(choose != nil)`:                                          "=> true",
		`type mine struct { qmm.Linear; note string }; l, _ := qmm.Parse("u4", 8, 64); m := mine{l, "x"}; fmt.Sprint(m.N, m.note)`: "=> 8x",
		`type weights struct { *qmm.Weights }; w := weights{&qmm.Weights{}}; fmt.Sprint(w.Group)`:                                  "=> 0",
		`import "github.com/tilus-lab/tilus-lab/gpu/tune"; c := qmm.Call{Store: &tune.Store{}}; fmt.Sprint(c.Store != nil)`:        "=> true",
		`p, err := lab.Parse("program p(a: *f16) {\n}"); s, err := lab.Debug(p, nil); fmt.Sprint(s != nil || err != nil)`:          "=> true",
	} {
		if got := b.run("import \"fmt\"\n" + src); got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
}

// What a cell declares that the interpreter does not take is not there for others.
func TestTakenBack(t *testing.T) {
	fewer := maps.Clone(Symbols)
	delete(fewer, module+"gpu/tune/tune")
	b := newLabBench(t, fewer)
	for _, c := range []struct{ src, want string }{
		{"kept := \"kept\"\nlost := qmm.Call{}.Store", "[Cell.E9]"},
		{"import \"fmt\"\nfmt.Sprint(1 + 1)", "=> 2"},
		{"kept", "undefined: kept"},
		{"lost", "undefined: lost"},
		{"lost := layout.Local(2).String()\nlost", "=> local(2)"},
	} {
		if got := b.run(c.src); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.src, got, c.want)
		}
	}
}

// newLabBench is a bench with packages of Tilus Lab, whose cells end in a text.
func newLabBench(t *testing.T, symbols map[string]map[string]reflect.Value) *bench {
	t.Helper()
	b := &bench{}
	e, err := New(Hooks{Write: func(_ int64, _ string, p []byte) { b.out.Write(p) }, Sync: func() {},
		Result: func(_ int64, vals []any, _ []string) { b.out.WriteString("=> " + vals[0].(string)) }}, symbols, Preimported)
	if err != nil {
		t.Fatal(err)
	}
	b.Engine = e
	return b
}

func TestPreimported(t *testing.T) {
	b := newLabBench(t, Symbols)
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

// Interfaces of Tilus Lab hold values of cells' types, and give them back.
func TestLabInterfaces(t *testing.T) {
	b := newLabBench(t, Symbols)
	for _, c := range []struct{ src, want string }{
		{`import ("context"; "fmt"; "github.com/tilus-lab/tilus-lab/gpu/device")
type mine struct { name string; n int }
func (m mine) Close() error { return nil }
func (m mine) Describe() (i device.Info) { return }
func (m mine) Name() string { return m.name }
func (m mine) Run(ctx context.Context, p *ir.Program, args []ir.Arg) (*device.Result, error) { return nil, fmt.Errorf("%s %d does not run", m.name, m.n) }
m := mine{"mine", 7}
var d device.Device = m
m.name = "other"
_, err := d.Run(context.Background(), nil, nil)
fmt.Sprint(d.Name(), " ", d, " ", err)`, "=> mine {mine 7} mine 7 does not run"},
		{"var a any = d\nx, ok := d.(mine)\ny, too := a.(mine)\nfmt.Sprintf(\"%T %v %v %v %v\", d, x.n, ok, y.name, too)", "=> main.mine 7 true mine true"},
		{"fmt.Sprint([]device.Device{d}, d == device.Device(mine{\"mine\", 7}), d == device.Device(m))", "=> [{mine 7}] true false"},
		{`type noted struct { ir.Stmt; note string }
var s ir.Stmt = noted{nil, "first"}
fmt.Sprint(s)`, "ERROR cell4:2:17: cells cannot keep a noted in ir.Stmt"},
	} {
		if got := b.run(c.src); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.src, got, c.want)
		}
	}
}
