package cell

import (
	"flag"
	"fmt"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var corpusFile = flag.String("corpus", "testdata/corpus.txtar", "cells to compare with go run")

// known are the cells of the corpus on which kernel and go run differ, with the reason.
const noNumbers = "the interpreter does not say which index it was: the texts of these panics have no numbers"

var known = map[string]string{
	"panic-runtime-text": noNumbers,
	"panic-text-slices":  noNumbers,
	"json-marshaler":     "refused: the library cannot call methods of types that cells declare",
}

// asPackage writes a cell as a Go package with a function Run. Variables that the cell
// declares before its first other statement are the package's, so that its functions see them.
func asPackage(name, src string) string {
	var imports, decls, vars, body strings.Builder
	for _, r := range cut(src) {
		text := src[r.start:r.end] + "\n"
		switch {
		case r.kind == runImport:
			imports.WriteString(text)
		case r.kind != runStmt:
			decls.WriteString(text)
		case body.Len() == 0 && strings.HasPrefix(text, "var "):
			vars.WriteString(text)
		default:
			body.WriteString(text)
		}
	}
	return fmt.Sprintf("package %s\nimport \"fmt\"\n%s\nvar _ = fmt.Sprint\n%s\n%s\nfunc Run() {\n%s\n}\n", name, &imports, &decls, &vars, &body)
}

// The kernel and the Go toolchain must print the same for every cell of the corpus. All cells are built into one program.
func TestCorpusAgreesWithGo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain")
	}
	ar, err := txtar.ParseFile(*corpusFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var imports, calls strings.Builder
	for i, f := range ar.Files {
		pkg := fmt.Sprintf("c%d", i)
		if err := os.MkdirAll(filepath.Join(dir, pkg), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, pkg, "c.go"), []byte(asPackage(pkg, string(f.Data))), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&imports, "import %q\n", "corpus/"+pkg)
		fmt.Fprintf(&calls, "%s.Run()\nprint0()\n", pkg)
	}
	os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module corpus\n\ngo 1.26\n"), 0o644)
	os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\nimport \"os\"\n"+imports.String()+"func print0() { os.Stdout.WriteString(\"\\x00\") }\nfunc main() {\n"+calls.String()+"}\n"), 0o644)
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go run: %v\n%s", err, stderr.String())
	}
	// Types are main's in cells.
	want := strings.Split(regexp.MustCompile(`\bc\d+\.`).ReplaceAllString(string(out), "main."), "\x00")
	agree := 0
	for i, f := range ar.Files {
		b := newBench(t)
		got := b.run("import \"fmt\"\n" + string(f.Data))
		switch {
		case got == want[i]:
			agree++
		case known[f.Name] != "":
			t.Logf("%s differs: %s", f.Name, known[f.Name])
		default:
			t.Errorf("%s:\nkernel %q\ngo     %q", f.Name, got, want[i])
		}
	}
	t.Logf("%d of %d cells agree", agree, len(ar.Files))
}

func FuzzCut(f *testing.F) {
	for _, s := range []string{"x := 1", "func (t T) M() {}", "import (\"a\"\n\"b\")", "for {", ")", "func(", "package main\nvar x", "`", "a\xff", "for i := 0; ; i++ {}", "x;;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 256 {
			return // minimising one input tries all pairs of its bytes
		}
		last := 0
		for _, r := range cut(s) {
			if r.start < last || r.end < r.start || r.end > len(s) {
				t.Fatalf("runs overlap: %+v", cut(s))
			}
			last = r.end
		}
		parse(token.NewFileSet(), "c", s)
	})
}

// What a cell leaves open ends at the end of the cell, not at a brace that nobody wrote.
func TestEndOfCell(t *testing.T) {
	for _, src := range []string{"x.", "f(1,", "if true {", "func f() {", "var x ="} {
		_, errs := parse(token.NewFileSet(), "c", src)
		if len(errs) == 0 {
			t.Errorf("%s: is taken", src)
		}
		for _, e := range errs {
			if strings.Contains(e.Msg, "found '}'") || strings.Contains(e.Msg, "EOF") {
				t.Errorf("%s: %s", src, e.Msg)
			}
		}
	}
	if _, errs := parse(token.NewFileSet(), "c", "x := }"); len(errs) == 0 || !strings.Contains(errs[0].Msg, "found '}'") {
		t.Errorf("a brace of the cell's own: %v", errs)
	}
}
