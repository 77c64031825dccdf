package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck: what one system alone does not compile is found there and nowhere else, in the
// package that is asked for.
func TestCheck(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":              "module example.com/m\n\ngo 1.26\n",
		"a/a.go":              "package a\n\nimport \"fmt\"\n\nfunc A() { fmt.Println(b()) }\n",
		"a/b_windows.go":      "package a\n\nfunc b() int { return \"one\" }\n",
		"a/b_other.go":        "//go:build !windows\n\npackage a\n\nfunc b() int { return 1 }\n",
		"c/c.go":              "package c\n\nvar C = 1\n",
		"c/tagged.go":         "//go:build nogpu\n\npackage c\n\nvar C = 2\n",
		"only/only_darwin.go": "package only\n\nvar X int = y\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ target, of, want string }{
		{"linux/arm64", "./...", ""},
		{"windows/amd64", "./a", `b_windows.go:3:23: cannot use "one"`},
		{"windows/amd64", "./c", ""},
		{"linux/amd64,nogpu", "./...", "C redeclared in this block"},
		{"darwin/arm64", "./...", "undefined: y"},
		{"linux", "./...", "want GOOS/GOARCH"},
		{"linux/amd64", "./none", "none"},
	} {
		err := check(root, c.target, []string{c.of})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.target, c.of, err, c.want)
		}
	}
}
