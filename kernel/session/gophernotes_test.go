package session_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/kernel/cell"
	"github.com/tilus-lab/tilus-lab/kernel/session"
)

// gophernotes is the folder of the pinned peer's sources in the module cache.
func gophernotes(t *testing.T) string {
	t.Helper()
	const mod = "github.com/gopherdata/gophernotes"
	cmd := exec.Command("go", "mod", "download", "-json", mod)
	cmd.Dir = filepath.Join("..", "..", "tests", "tools")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	var m struct{ Dir, Version, Error string }
	if json.Unmarshal(out, &m); m.Dir == "" {
		t.Skipf("%s cannot be had here: %v %s", mod, err, m.Error)
	}
	if m.Version != "v0.7.5" {
		t.Fatalf("%s %s: these tests read v0.7.5", mod, m.Version)
	}
	return m.Dir
}

// declared lists the functions, types and constants that the files of a folder declare at top level: a function by its signature
// without parameter names, a type by its text, a constant by "const".
func declared(t *testing.T, dir string) map[string]string {
	t.Helper()
	var files []*ast.File
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	plain := func(x ast.Expr) string {
		s := strings.Join(strings.Fields(types.ExprString(x)), " ")
		return strings.ReplaceAll(strings.ReplaceAll(s, "interface{}", "any"), "interface {}", "any")
	}
	list := func(fl *ast.FieldList) string {
		var out []string
		if fl != nil {
			for _, f := range fl.List {
				for range max(len(f.Names), 1) {
					out = append(out, plain(f.Type))
				}
			}
		}
		return "(" + strings.Join(out, ", ") + ")"
	}
	out := map[string]string{}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					out[d.Name.Name] = "func" + list(d.Type.Params) + list(d.Type.Results)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						out[s.Name.Name] = "type " + plain(s.Type)
						if _, ok := s.Type.(*ast.StructType); ok {
							out[s.Name.Name] = "type struct"
						}
					case *ast.ValueSpec:
						for _, n := range s.Names {
							out[n.Name] = d.Tok.String()
						}
					}
				}
			}
		}
	}
	return out
}

// Package display has all that gophernotes gives to cells, with the same signatures.
func TestDisplayCoversGophernotes(t *testing.T) {
	dir := gophernotes(t)
	theirs, ours := declared(t, dir), declared(t, filepath.Join("..", "display"))
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "x_package.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		kv, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if id, ok := kv.Key.(*ast.Ident); ok && (id.Name == "Binds" || id.Name == "Types") {
			for _, e := range kv.Value.(*ast.CompositeLit).Elts {
				names[strings.Trim(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value, `"`)] = true
			}
			return false
		}
		return true
	})
	if len(names) < 35 {
		t.Fatalf("read only %d names from the export table", len(names))
	}
	table := cell.Symbols["github.com/tilus-lab/tilus-lab/kernel/display/display"]
	for name := range names {
		want, got := theirs[name], ours[name]
		if got != want || got == "" {
			t.Errorf("%s: ours is %q, gophernotes has %q", name, got, want)
		}
		if !table[name].IsValid() {
			t.Errorf("%s is not given to cells", name)
		}
	}
	t.Logf("%d names", len(names))
}

// The example notebooks of gophernotes run as they are, or fail with errors that say where and why.
func TestGophernotesNotebooks(t *testing.T) {
	dir := gophernotes(t)
	// What the cells need to fail, with words from the error; all others must succeed.
	const offline, missing = "nil pointer", "Cell.E5"
	fails := map[string]map[int]string{
		"Display":                       {3: offline, 4: offline, 5: offline, 6: offline},
		"Worker_Pools":                  {},
		"Matrix_Operations":             {},
		"Facial_Recognition_MachineBox": {0: missing, 1: "undefined: facebox", 3: "undefined: ", 4: "undefined: facebox", 5: "undefined: ", 6: "undefined: "},
	}
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(dir, "examples", name+".ipynb"))
			if err != nil {
				t.Fatal(err)
			}
			var nb struct {
				Cells []struct {
					Type   string `json:"cell_type"`
					Source []string
				}
			}
			if err := json.Unmarshal(raw, &nb); err != nil {
				t.Fatal(err)
			}
			// No cell may reach the internet, so that the outcome is the same everywhere.
			const nowhere = "http://127.0.0.1:9"
			s, err := session.Start(session.Options{Exe: []string{os.Args[0]}, Env: []string{"TILUS_TEST_WORKER=1", "HTTP_PROXY=" + nowhere, "HTTPS_PROXY=" + nowhere, "NO_PROXY="}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			b := &book{Session: s, t: t}
			n := 0
			var all strings.Builder
			for _, c := range nb.Cells {
				if c.Type != "code" {
					continue
				}
				r, out := b.run(strings.Join(c.Source, ""))
				fmt.Fprintf(&all, "[%d] %s", n, out)
				for _, e := range b.ev {
					if e.Bundle != nil {
						for mime := range e.Bundle.Data {
							fmt.Fprintf(&all, "[%d %s]", n, mime)
						}
					}
				}
				want := fail[n]
				switch {
				case want == "" && r.Status != "ok":
					t.Errorf("cell %d: %s", n, strings.Join(r.Traceback, "\n"))
				case want != "" && (r.Status != "error" || !strings.Contains(strings.Join(r.Traceback, "\n"), want)):
					t.Errorf("cell %d: want an error with %q, got %s %q", n, want, r.Status, r.Traceback)
				case r.Status == "error" && (r.Lost || strings.Contains(r.EValue, "Cell.E9") || len(r.Problems) == 0 || r.Problems[0].Line < 1):
					t.Errorf("cell %d: not a clean error: %+v", n, r)
				}
				n++
			}
			var shows []string
			switch name {
			case "Display":
				shows = []string{"[0 text/html]", "[1 text/markdown]", "[1 text/latex]", "[10 text/html]", "[11 text/latex]", "[12 text/latex]"}
			case "Matrix_Operations":
				shows = []string{"b = ⎡ 8   9  10⎤", "1024"}
			case "Worker_Pools":
				shows = []string{"processing job 1\n", "processing job 9\n"}
			}
			for _, w := range shows {
				if !strings.Contains(all.String(), w) {
					t.Errorf("no %s in %s", w, all.String())
				}
			}
			if r, out := b.run("1 + 1"); r.Status != "ok" || out != "=> 2\n" {
				t.Errorf("after the notebook: %+v %q", r, out)
			}
		})
	}
}
