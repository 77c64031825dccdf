package need

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Processes of one tree share an executable, a change makes another, and what no test holds goes.
func TestBuild(t *testing.T) {
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(says string) {
		must(os.WriteFile(filepath.Join(root, "main.go"), []byte("package main\n\nfunc main() { print(\""+says+"\") }\n"), 0o644))
	}
	says := func(path, want string) {
		t.Helper()
		if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%s says %q, want %q; %v", path, out, want, err)
		}
	}
	t.Setenv("GOWORK", "off")
	must(os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/said\n\ngo 1.26\n"), 0o644))
	write("first")
	first, held, err := build(root, "example.com/said")
	must(err)
	again, heldAgain, err := build(root, "example.com/said")
	must(err)
	if again != first {
		t.Errorf("the same tree made %s and %s", first, again)
	}
	write("second")
	old := time.Now().Add(-time.Hour)
	must(os.Chtimes(filepath.Dir(first), old, old))
	second, heldSecond, err := build(root, "example.com/said")
	must(err)
	defer heldSecond.Close()
	if second == first {
		t.Errorf("another tree made %s too", first)
	}
	says(first, "first")
	says(second, "second")
	held.Close()
	heldAgain.Close()
	if _, third, err := build(root, "example.com/said"); err != nil {
		t.Error(err)
	} else {
		third.Close()
	}
	if _, err := os.Stat(first); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", first, err)
	}
	says(second, "second")
	write("broken\n")
	if _, _, err := build(root, "example.com/said"); err == nil || !strings.Contains(err.Error(), "main.go") {
		t.Errorf("a tree that does not build: %v", err)
	}
}

// A folder goes with its test, also where the test's process was killed.
func TestScratch(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var dir string
	t.Run("test", func(t *testing.T) {
		dir = Scratch(t)
		if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	pattern := filepath.Join(tmp, scratch+"*")
	old := time.Now().Add(-time.Hour)
	var list []string
	for range 3 { // held, left behind, made just now
		d, err := os.MkdirTemp(tmp, scratch)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	held, err := hold(list[0], shared)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, d := range list[:2] {
		if err := os.Chtimes(d, old, old); err != nil {
			t.Fatal(err)
		}
	}
	sweep(pattern, "")
	left, err := filepath.Glob(pattern)
	if err != nil || len(left) != 2 || left[0] == list[1] || left[1] == list[1] {
		t.Errorf("%v are left of %v, %v", left, list, err)
	}
}
