package need

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// program is the executable that tests of this process run; held keeps other processes from removing it.
var program struct {
	once sync.Once
	path string
	held io.Closer
	err  error
}

// Program is tilus-lab as this tree builds it. An executable is 80 MB: processes share it, in tests/.env/bin, and it is
// linked again only when the tree has changed.
func Program(t testing.TB) string {
	t.Helper()
	root := Root(t)
	program.once.Do(func() { program.path, program.held, program.err = build(root, "./cmd/tilus-lab") })
	if program.err != nil {
		t.Fatalf("go build ./cmd/tilus-lab: %v", program.err)
	}
	return program.path
}

// build makes the executable of a package under the folder tests/.env/bin of root, in a folder named by what is in it,
// since processes of an older tree may still run theirs. It removes those that no test holds.
func build(root, pkg string) (path string, held io.Closer, err error) {
	bin := filepath.Join(root, "tests", ".env", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", nil, err
	}
	one, err := hold(bin, exclusive)
	if err != nil {
		return "", nil, err
	}
	defer one.Close()
	name := filepath.Base(pkg)
	made := filepath.Join(bin, name)
	cmd := exec.Command("go", "build", "-o", made, pkg) // Go links nothing again that is as it would be
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("%w\n%s", err, out)
	}
	f, err := os.Open(made)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	f.Close()
	if err != nil {
		return "", nil, err
	}
	folder := filepath.Join(bin, hex.EncodeToString(sum.Sum(nil)[:8]))
	path = filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return "", nil, err
		}
		// The second name takes no room.
		if err := os.Link(made, path); err != nil {
			return "", nil, err
		}
	}
	if held, err = hold(folder, shared); err != nil {
		return "", nil, err
	}
	sweep(filepath.Join(bin, "*"), folder)
	return path, held, nil
}

// Scratch makes a folder that is removed with the test. Its path is short, as those of sockets must be. What tests left
// that were killed is removed by the next test that makes one.
func Scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", scratch)
	if err != nil {
		t.Fatal(err)
	}
	held, err := hold(dir, shared)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A server that was just told to end may still write: what is left then goes with the next test.
		os.RemoveAll(dir)
		held.Close()
	})
	swept.Do(func() { sweep(filepath.Join(os.TempDir(), scratch+"*"), "") })
	return dir
}

const scratch = "tlt"

var swept sync.Once

// sweep removes the folders of a pattern that no process holds, but one.
func sweep(pattern, but string) {
	list, _ := filepath.Glob(pattern)
	for _, dir := range list {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() || dir == but {
			continue
		}
		if free(dir) {
			os.RemoveAll(dir)
		}
	}
}
