package notebooks

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCopyToKeepsTheUsersWork(t *testing.T) {
	dir := t.TempDir()
	const lesson = "01-low-precision-matmul.ipynb"
	for range 2 {
		if err := CopyTo(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "data", "query_weight.npy")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, lesson), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, lesson)); err != nil || string(got) != "mine" {
		t.Errorf("the second copy overwrote the lesson: %q, %v", got, err)
	}
}
