// Command gen writes the symbol tables of the packages that cells can import: one zsym_*.go file for each, by yaegi's extract.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

const module = "github.com/tilus-lab/tilus-lab/"

// paths are the packages, each to a file named after its last element.
var paths = []string{
	module + "vm/affine", module + "vm/array", module + "vm/build", module + "vm/debug", module + "vm/diag", module + "vm/dtype", module + "vm/interp", module + "vm/ir", module + "vm/layout",
	module + "vm/layout/bits", module + "vm/layout/cute", module + "vm/layout/linear", module + "vm/recipe", module + "vm/text",
	module + "gpu/arch", module + "gpu/code", module + "gpu/cost", module + "gpu/cuda", module + "gpu/device", module + "gpu/model/bank", module + "gpu/model/volta", module + "gpu/model/dispatch", module + "gpu/model/exercise", module + "gpu/model/trace",
	module + "gpu/notation", module + "gpu/qmm", module + "gpu/qmm/template", module + "gpu/qmm/checkpoint", module + "gpu/sim", module + "gpu/tune",
	module + "layoutviz", module + "layoutviz/cuteprint", module + "layoutviz/scene", module + "kernel/lab", module + "kernel/display", module + "kernel/comm", "github.com/ajstarks/svgo",
	"gonum.org/v1/gonum/floats", "gonum.org/v1/gonum/mat", "gonum.org/v1/gonum/stat", "gonum.org/v1/plot", "gonum.org/v1/plot/font", "gonum.org/v1/plot/plotter", "gonum.org/v1/plot/plotutil", "gonum.org/v1/plot/vg",
}

func main() {
	log.SetFlags(0)
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	tmp, err := os.MkdirTemp("", "gen")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)
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
		// Cells may use what a package calls deprecated.
		text = bytes.Replace(text, []byte("\npackage "), []byte("\n//lint:file-ignore SA1019 a symbol table has all names\n\npackage "), 1)
		src, err := format.Source(text)
		if err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "zsym_"+path.Base(p)+".go"), src, 0o644); err != nil {
			log.Fatal(err)
		}
		fmt.Println(p)
	}
}
