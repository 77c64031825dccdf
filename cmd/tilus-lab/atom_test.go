package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "rewrite gpu/arch/CATALOGUE.md")

// TestCataloguePage holds the committed status page to the catalogue and to the
// record of GPU runs.
func TestCataloguePage(t *testing.T) {
	root := filepath.Join("..", "..")
	record, err := readRecord(filepath.Join(root, recordFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := statusPage(record)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "gpu", "arch", "CATALOGUE.md")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("gpu/arch/CATALOGUE.md is out of date; rewrite it with go test ./cmd/tilus-lab -run CataloguePage -update")
	}
}
