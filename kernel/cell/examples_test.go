package cell

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestExamples runs Go examples of packages that cells can import as cells: the same text prints the same.
func TestExamples(t *testing.T) {
	for _, file := range []string{"../../gpu/qmm/example_test.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, file, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		of := func(from, to token.Pos) string {
			return string(src[files.Position(from).Offset:files.Position(to).Offset])
		}
		var imports strings.Builder
		for _, s := range f.Imports {
			imports.WriteString("import " + s.Path.Value + "\n")
		}
		examples := doc.Examples(f)
		if len(examples) == 0 {
			t.Errorf("%s has no examples", file)
		}
		for _, x := range examples {
			b := &bench{}
			b.Engine, err = New(Hooks{Write: func(_ int64, _ string, p []byte) { b.out.Write(p) }, Sync: func() {}, Result: func(int64, []any, []string) {}}, Symbols, Preimported)
			if err != nil {
				t.Fatal(err)
			}
			body := x.Code.(*ast.BlockStmt)
			if got := b.run(imports.String() + of(body.Lbrace+1, body.Rbrace)); strings.TrimSpace(got) != strings.TrimSpace(x.Output) {
				t.Errorf("%s: Example%s as a cell prints\n%s\nnot\n%s", file, x.Name, got, x.Output)
			}
		}
	}
}
