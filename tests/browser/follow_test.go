package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/corpus"
)

// TestFollow follows elements through programs, from a click to the store.
func TestFollow(t *testing.T) {
	f := find(t)
	file := filepath.Join(t.TempDir(), "program.tile")
	if err := os.WriteFile(file, []byte(corpus.Program("matmul_v3")), 0o644); err != nil {
		t.Fatal(err)
	}
	f.script(t, "follow.mjs", newHome(t).up(t), file)
}
