package web

import (
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// Limits of scripts, in gzipped bytes: of all, and of those that a page loads before the editor.
const (
	maxScripts = 180 << 10
	maxFirst   = 30 << 10
)

// imported finds what a script imports at once; what it imports later is in parentheses.
var imported = regexp.MustCompile(`(?:from|import)"\./([^"]+)"`)

// TestScriptsAreSmall adds up the scripts that the product embeds, and those of each page.
func TestScriptsAreSmall(t *testing.T) {
	dir := filepath.Join(need.Root(t), "web", "assets")
	files, err := filepath.Glob(filepath.Join(dir, "*.js"))
	if err != nil {
		t.Fatal(err)
	}
	all, size, imports := 0, map[string]int{}, map[string][]string{}
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
		name := filepath.Base(f)
		size[name] = b.Len()
		all += b.Len()
		for _, m := range imported.FindAllSubmatch(text, -1) {
			imports[name] = append(imports[name], string(m[1]))
		}
	}
	for _, page := range []string{"app.js", "nb.js"} {
		first, loaded := 0, map[string]bool{}
		var load func(name string)
		load = func(name string) {
			if loaded[name] {
				return
			}
			if loaded[name] = true; size[name] == 0 {
				t.Errorf("%s is imported and not there", name)
			}
			first += size[name]
			for _, n := range imports[name] {
				load(n)
			}
		}
		load("theme.js")
		load(page)
		if len(loaded) < 4 || first > maxFirst {
			t.Errorf("the page of %s loads %d bytes gzipped in %d scripts before the editor, the limit is %d", page, first, len(loaded), maxFirst)
		}
		t.Logf("%s: %d bytes gzipped before the editor", page, first)
	}
	if len(files) < 4 || all > maxScripts {
		t.Errorf("%d scripts have %d bytes gzipped, the limit is %d", len(files), all, maxScripts)
	}
	t.Logf("%d scripts, %d bytes gzipped", len(files), all)
}
