package session_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Packages come from the module cache as source; those of this module's own requirements are there.
func TestImportSource(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no Go toolchain")
	}
	b := open(t)
	r, _ := b.run("%import github.com/inconshreveable/mousetrap@v1.1.0\nmousetrap.StartedByExplorer()")
	if r.Status == "error" && (strings.Contains(r.EValue, "dial") || strings.Contains(r.EValue, "lookup")) {
		t.Skip(r.EValue)
	}
	if r.Status != "ok" {
		t.Errorf("mousetrap: %+v", r)
	}
	for _, c := range []struct{ code, want string }{
		{"%import github.com/rogpeppe/go-internal/txtar@v1.16.0\na := txtar.Parse([]byte(\"head\\n-- f --\\nbody\\n\"))\nimport \"fmt\"\nfmt.Print(len(a.Files), a.Files[0].Name, string(txtar.Format(a)))", "1f" + "head\n-- f --\nbody\n"},
		{"%import github.com/rogpeppe/go-internal/fmtsort@v1.16.0", ""},
	} {
		if r, out := b.run(c.code); r.Status != "ok" || out != c.want {
			t.Errorf("%s: %+v %q", c.code, r, out)
		}
	}
	for code, want := range map[string]string{
		"%import golang.org/x/sys/unix@v0.49.0": "assembly",
		"%import no.such/thing@v1.0.0":          "cannot be loaded",
		"%import fmt":                           "path@version",
	} {
		if r, _ := b.run(code); r.Status != "error" || !strings.Contains(r.EValue, want) {
			t.Errorf("%s: %+v", code, r)
		}
	}
	b.ok("1 + 1", "=> 2\n")
}
