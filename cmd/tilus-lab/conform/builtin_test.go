package conform

import (
	"archive/zip"
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update-builtin", false, "rewrite cases.zip")

// The program carries the cases as they are in the tests.
func TestBuiltin(t *testing.T) {
	files, err := filepath.Glob("../../../tests/testdata/cases/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := z.Create(filepath.Base(name))
		if err != nil {
			t.Fatal(err)
		}
		w.Write(text)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("cases.zip", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), builtin) {
		t.Error("cases.zip is not tests/testdata/cases: go test ./cmd/tilus-lab/conform -run Builtin -update-builtin")
	}
	if cases, err := Builtin(); err != nil || len(cases) < 1000 {
		t.Errorf("%d cases, %v", len(cases), err)
	}
}
