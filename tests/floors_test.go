package tests

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tilus-lab/tilus-lab/"

// floors is DESIGN.md's list: a package imports only from lower floors. A name
// ending in /* stands for the package and everything below it.
const floors = `
14 cmd/tilus-lab/*
13 kernel  web  web/site
12 kernel/worker
11 kernel/cell  kernel/session  web/answer
10 kernel/native  kernel/comm  kernel/docs  kernel/widget  kernel/debugger  kernel/proto  kernel/wire  kernel/link  kernel/display  kernel/lab  web/pane/*  gpu/qmm/parallel  gpu/qmm/report
 9 layoutviz/fusion  gpu/attention/template  gpu/gemm/template  gpu/gemm/hopper  gpu/qmm  gpu/qmm/template  gpu/qmm/checkpoint  gpu/export
 8 gpu/fuse  gpu/tune  gpu/probe  gpu/blocktrace
 7 gpu/lsp  gpu/traffic  gpu/emit/launch  gpu/device
 6 vm/debug/dap  gpu/launch  gpu/compile  gpu/emit  gpu/emit/tensor  gpu/emit/lanes  gpu/cost  layoutviz  layoutviz/theatre  layoutviz/timeline
 5 vm/debug  gpu/follow  gpu/lower/*  gpu/opt  gpu/sim  gpu/ptx  gpu/cudac  layoutviz/scene  layoutviz/cuteprint
 4 vm/build  vm/interp  vm/pass  vm/infer  vm/hlo/part  vm/hlo/plan  vm/randprog  gpu/code  gpu/notation  gpu/assist  gpu/model/*
 3 vm/text  vm/hlo/index  vm/hlo/eval  vm/hlo/rand  gpu/arch  gpu/emit/approx
 2 vm/ir  vm/hlo
 1 vm/dtype  vm/layout/*  vm/affine  vm/array  vm/recipe
 0 web/facts  vm/diag  vm/memo  vm/workers  vm/corpus  gpu/cuda  gpu/cache  notebooks
`

// inFloor are the arrows allowed inside one floor.
const inFloor = `
vm/array -> vm/dtype
vm/recipe -> vm/dtype
vm/recipe -> vm/layout/bits
vm/layout/cute -> vm/layout
vm/layout/linear -> vm/layout
vm/layout/cute -> vm/layout/linear
gpu/lower/arith -> gpu/lower/thread
gpu/lower/exchange -> gpu/lower/thread
gpu/lower/shared -> gpu/lower/thread
gpu/model/volta -> gpu/model/trace
gpu/model/dispatch -> gpu/model/trace
gpu/model/recorded -> gpu/model/trace
gpu/model/recorded -> gpu/model/dispatch
gpu/model/exercise -> gpu/model/volta
gpu/model/exercise -> gpu/model/dispatch
gpu/model/exercise -> gpu/model/bank
gpu/model/exercise -> gpu/model/pipeline
gpu/model/exercise -> vm/interp
gpu/follow -> gpu/lower/products
gpu/emit -> gpu/emit/tensor
gpu/emit -> gpu/emit/lanes
gpu/emit/tensor -> gpu/emit/lanes
gpu/launch -> gpu/compile
layoutviz/theatre -> layoutviz
layoutviz/timeline -> layoutviz
kernel/display -> kernel/lab
kernel/widget -> kernel/comm
kernel/lab -> kernel/widget
kernel/lab -> kernel/proto
kernel/lab -> kernel/display
kernel/display -> kernel/proto
gpu/qmm -> gpu/qmm/template
gpu/qmm/checkpoint -> gpu/qmm
gpu/qmm -> gpu/gemm/hopper
cmd/tilus-lab -> cmd/tilus-lab/conform
web/site -> web
`

// deny are imports that the floors would allow: pages and the Jupyter side
// reach devices and Go cells only through the worker.
const deny = `
layoutviz web/pane web/answer kernel web -> gpu/cuda gpu/device github.com/traefik/yaegi
`

// outsideTree are packages that stand on no floor: programs that only generate
// files, and tests.
func outsideTree(pkg string) bool {
	return pkg == "tests" || strings.HasPrefix(pkg, "tests/") || strings.HasSuffix(pkg, "/gen")
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

func floorOf(pkg string) (floor string, ok bool) {
	for line := range strings.Lines(floors) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		for _, name := range fields[1:] {
			base, tree := strings.CutSuffix(name, "/*")
			if pkg == base || tree && strings.HasPrefix(pkg, base+"/") {
				return fields[0], true
			}
		}
	}
	return "", false
}

func number(s string) (n int) {
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}

// TestFloors explains itself: each message names the arrow that breaks the
// architecture and the list above that says so.
func TestFloors(t *testing.T) {
	var allowed []string
	for line := range strings.Lines(inFloor) {
		allowed = append(allowed, strings.TrimSpace(line))
	}
	pkgs := listPackages(t)
	if len(pkgs) < 5 {
		t.Fatalf("go list found %d packages", len(pkgs))
	}
	for _, p := range pkgs {
		from := strings.TrimPrefix(p.ImportPath, module)
		if outsideTree(from) {
			continue
		}
		floor, ok := floorOf(from)
		if !ok {
			t.Errorf("%s stands on no floor: add it to the list in tests/floors_test.go and to ARCHITECTURE.md, or put its code where it belongs", from)
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours {
				continue
			}
			toFloor, ok := floorOf(to)
			switch {
			case outsideTree(to):
				t.Errorf("%s imports %s: nothing imports tests or generators", from, to)
			case !ok:
			case number(toFloor) > number(floor):
				t.Errorf("%s (floor %s) imports %s (floor %s): imports go down; move the shared part to the lower floor", from, floor, to, toFloor)
			case toFloor == floor && from != to && !slices.Contains(allowed, from+" -> "+to) && !strings.HasPrefix(to, from+"/"):
				t.Errorf("%s imports %s on the same floor %s: only the arrows listed in inFloor are allowed", from, to, floor)
			}
		}
	}
}

func TestDeny(t *testing.T) {
	for line := range strings.Lines(deny) {
		from, to, ok := strings.Cut(line, "->")
		if !ok {
			continue
		}
		for _, p := range listPackages(t) {
			pkg := strings.TrimPrefix(p.ImportPath, module)
			if !slices.Contains(strings.Fields(from), pkg) {
				continue
			}
			for _, imp := range p.Imports {
				for _, bad := range strings.Fields(to) {
					if short := strings.TrimPrefix(imp, module); short == bad || strings.HasPrefix(short, bad+"/") {
						t.Errorf("%s imports %s: it must reach devices and Go cells through the worker", pkg, short)
					}
				}
			}
		}
	}
}

// TestOnlyLayoutvizDraws holds that every picture is written through svgo in one
// place. The generated symbol table hands svgo to notebook cells and draws
// nothing.
func TestOnlyLayoutvizDraws(t *testing.T) {
	drawers := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			if !strings.HasPrefix(imp.Path.Value, `"github.com/ajstarks/svgo`) {
				continue
			}
			switch rel := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator))); {
			case strings.HasPrefix(rel, "layoutviz/"):
				drawers++
			case rel != "kernel/cell/zsym_svgo.go":
				t.Errorf("%s imports svgo: drawing belongs to layoutviz", rel)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if drawers == 0 {
		t.Error("layoutviz does not write through svgo")
	}
}
