package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tilus-lab/tilus-lab/kernel/cell"
	"github.com/tilus-lab/tilus-lab/kernel/docs"
)

// Limit of the issue.
const maxTable = 4 << 20

func TestTableIsSmall(t *testing.T) {
	if n := docs.Size(); n > maxTable {
		t.Errorf("the table has %d bytes, the limit is %d", n, maxTable)
	}
}

// Declarations of our own packages are whole; others are cut behind a line.
func TestDeclarationsAreCutBehindLines(t *testing.T) {
	for _, p := range docs.Paths() {
		for _, s := range docs.Of(p).Symbols {
			cut, ok := strings.CutSuffix(s.Decl, "…")
			if ok && (strings.HasPrefix(p, "github.com/tilus-lab/") || !strings.HasSuffix(cut, "\n")) {
				t.Errorf("the declaration of %s.%s is cut: …%.60q", p, s.Name, s.Decl[max(0, len(s.Decl)-60):])
			}
		}
	}
}

// The table must have the declarations of our own packages as their sources have them. Comments may lag behind until the next generation.
func TestTableIsFresh(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain")
	}
	for k := range cell.Symbols {
		p := k[:strings.LastIndexByte(k, '/')]
		dir, ok := strings.CutPrefix(p, "github.com/tilus-lab/tilus-lab/")
		if !ok {
			continue
		}
		dir = "../../../" + dir
		if _, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		}
		want, err := extract(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		got := docs.Of(p)
		if got == nil {
			t.Errorf("%s is missing; run go generate ./kernel/docs", p)
			continue
		}
		if d := cmp.Diff(decls(want), decls(got)); d != "" {
			t.Errorf("%s has changed; run go generate ./kernel/docs\n%.2000s", p, d)
		}
	}
}

func decls(p *docs.Package) map[string]string {
	out := map[string]string{}
	for _, s := range p.Symbols {
		out[s.Name] = s.Decl
	}
	return out
}
