package web

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

// packages skips the test where the npm packages of tests/setup/web.sh are missing.
func packages(t *testing.T) (modules string) {
	t.Helper()
	modules = filepath.Join(need.Root(t), "tests", ".env", "node", "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "lit-html")); err != nil {
		if need.Required("chromium") {
			t.Fatal("the npm packages are missing; run `bash tests/setup/web.sh`")
		}
		t.Skip("the npm packages are missing; run `bash tests/setup/web.sh`")
	}
	return modules
}

// TestBundleIsFresh bundles web/page again and compares every byte with web/assets.
func TestBundleIsFresh(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a bundler")
	}
	packages(t)
	cmd := exec.Command("go", "run", "./page", "-check")
	cmd.Dir = filepath.Join(need.Root(t), "tests", "tools")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTypes checks the types of web/page.
func TestTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("runs TypeScript's compiler")
	}
	tsc := filepath.Join(packages(t), ".bin", "tsc")
	out, err := exec.Command(tsc, "-p", filepath.Join(need.Root(t), "web", "page")).CombinedOutput()
	if err != nil {
		t.Errorf("tsc: %v\n%s", err, out)
	}
}

// Limits of what a page loads, in gzipped bytes: of all scripts, and of those that
// come before the editor.
const (
	maxScripts = 180 << 10
	maxFirst   = 30 << 10
)

// TestScriptsAreSmall adds up the scripts that the product embeds.
func TestScriptsAreSmall(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(need.Root(t), "web", "assets", "*.js"))
	if err != nil {
		t.Fatal(err)
	}
	all, first := 0, 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(text) // a buffer takes everything
		w.Close()
		all += b.Len()
		if !strings.HasPrefix(filepath.Base(f), "editor-") {
			first += b.Len()
		}
	}
	if len(files) < 4 || all > maxScripts || first > maxFirst {
		t.Errorf("%d scripts have %d bytes gzipped, %d without the editor; the limits are %d and %d", len(files), all, first, maxScripts, maxFirst)
	}
	t.Logf("%d scripts, %d bytes gzipped, %d of them before the editor", len(files), all, first)
}
