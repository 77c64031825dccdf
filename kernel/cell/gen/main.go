// Command gen writes the symbol tables of the packages that cells can import, by yaegi's extract: one zsym_*.go file for each, and one
// zstd_*.go file for each package of the standard library in which Go has names that yaegi's tables do not.
package main

import (
	"bytes"
	"fmt"
	"go/build"
	"go/format"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/traefik/yaegi/extract"
	"github.com/traefik/yaegi/stdlib"
	"github.com/traefik/yaegi/stdlib/unrestricted"
)

const module = "github.com/tilus-lab/tilus-lab/"

// paths are the packages, each to a file named after its last element.
var paths = []string{
	module + "vm/affine", module + "vm/array", module + "vm/build", module + "vm/debug", module + "vm/diag", module + "vm/dtype", module + "vm/interp", module + "vm/ir", module + "vm/layout",
	module + "vm/layout/bits", module + "vm/layout/cute", module + "vm/layout/linear", module + "vm/recipe", module + "vm/text",
	module + "gpu/arch", module + "gpu/code", module + "gpu/cost", module + "gpu/cuda", module + "gpu/device", module + "gpu/model/bank", module + "gpu/model/volta", module + "gpu/model/dispatch", module + "gpu/model/exercise", module + "gpu/model/trace",
	module + "gpu/notation", module + "gpu/qmm", module + "gpu/qmm/template", module + "gpu/qmm/checkpoint", module + "gpu/sim", module + "gpu/tune",
	module + "layoutviz", module + "layoutviz/cuteprint", module + "layoutviz/scene", module + "kernel/lab", module + "kernel/display", module + "kernel/comm", module + "kernel/widget", "github.com/ajstarks/svgo",
	"gonum.org/v1/gonum/floats", "gonum.org/v1/gonum/mat", "gonum.org/v1/gonum/stat", "gonum.org/v1/plot", "gonum.org/v1/plot/font", "gonum.org/v1/plot/plotter", "gonum.org/v1/plot/plotutil", "gonum.org/v1/plot/vg",
}

func main() {
	log.SetFlags(0)
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	standard(dir)
	for _, p := range paths {
		cmd := exec.Command("go", "run", "github.com/traefik/yaegi/cmd/yaegi", "extract", "-name", "cell", p)
		out, err := cmd.CombinedOutput()
		file := strings.NewReplacer("/", "-", ".", "_").Replace(p) + ".go"
		if err != nil {
			log.Fatalf("%s: %v\n%s", p, err, out)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		os.Remove(file)
		write(filepath.Join(dir, "zsym_"+path.Base(p)+".go"), text)
		fmt.Println(p)
	}
}

func write(file string, text []byte) {
	// Cells may use what a package calls deprecated.
	text = bytes.Replace(text, []byte("\npackage "), []byte("\n//lint:file-ignore SA1019 a symbol table has all names\n\npackage "), 1)
	src, err := format.Source(text)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(file, src, 0o644); err != nil {
		log.Fatal(err)
	}
}

// standard writes tables of what yaegi's own lack.
func standard(dir string) {
	old, err := filepath.Glob(filepath.Join(dir, "zstd_*.go"))
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range old {
		os.Remove(f)
	}
	out, err := exec.Command("go", "list", "-export", "-f", "{{.ImportPath}} {{.Export}}", "std").Output()
	if err != nil {
		log.Fatal("go list std: ", err)
	}
	var list []string
	files := map[string]string{}
	for l := range strings.Lines(string(out)) {
		p, file, _ := strings.Cut(strings.TrimSpace(l), " ")
		files[p] = file
		if !strings.HasPrefix(p, "vendor/") && !slices.Contains(strings.Split(p, "/"), "internal") && !notForCells[p] {
			list = append(list, p)
		}
	}
	build.Default.CgoEnabled = false // extract reads source, and what cgo would make of it is not there
	imp := importer.ForCompiler(token.NewFileSet(), "gc", func(p string) (io.ReadCloser, error) { return os.Open(files[p]) })
	for _, p := range list {
		pkg, err := imp.Import(p)
		if err != nil {
			log.Fatal(err)
		}
		var have []string
		missing := false
		for _, n := range pkg.Scope().Names() {
			key := p + "/" + pkg.Name()
			_, known := stdlib.Symbols[key][n]
			if _, more := unrestricted.Symbols[key][n]; known || more {
				have = append(have, regexp.QuoteMeta(n))
			} else if o := pkg.Scope().Lookup(n); o.Exported() && !generic(o) {
				missing = true
			}
		}
		if !missing {
			continue
		}
		var text bytes.Buffer
		x := extract.Extractor{Dest: "cell", Exclude: []string{"^(" + strings.Join(have, "|") + ")$"}}
		if _, err := x.Extract(p, p, &text); err != nil {
			log.Fatalf("%s: %v", p, err)
		}
		// A name that this toolchain has, later ones have too.
		src := regexp.MustCompile(`(?m)^// \+build .*\n`).ReplaceAll(text.Bytes(), nil)
		src = bytes.Replace(src, []byte("Symbols["), []byte("newer["), 1)
		write(filepath.Join(dir, "zstd_"+strings.ReplaceAll(p, "/", "_")+".go"), src)
		fmt.Println(p)
	}
}

// notForCells are packages that need a compiler, a test, or C, or let a cell call the system as no Go does that is not part of one.
var notForCells = map[string]bool{
	"crypto/mlkem/mlkemtest": true, "embed": true, "plugin": true, "runtime/cgo": true, "runtime/coverage": true, "structs": true, "syscall": true, "testing/cryptotest": true, "testing/synctest": true, "unsafe": true,
}

// generic tells whether a name needs type arguments, or is a constraint.
func generic(o types.Object) bool {
	switch t := o.Type().(type) {
	case *types.Signature:
		return t.TypeParams().Len() > 0
	case *types.Named:
		if it, ok := t.Underlying().(*types.Interface); ok && !it.IsMethodSet() {
			return true
		}
		return t.TypeParams().Len() > 0
	case *types.Alias:
		return t.TypeParams().Len() > 0
	}
	return false
}
