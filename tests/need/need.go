// Package need finds the outside programs that some tests use, and decides what
// happens when one is missing: the test skips and says how to get it, except where it
// is required, and there it fails. Required is everything when CI=true, and what the
// comma-separated list TILUS_LAB_REQUIRE names (jupyter, chromium, ptxas, nvrtc, cc).
package need

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Jupyter is the Python of the pinned environment, with jupyter_client, pyzmq,
// nbclient, jupyter_kernel_test, jupyterlab and numpy.
func Jupyter(t testing.TB) string {
	t.Helper()
	return found(t, "jupyter", "run `bash tests/setup/python.sh`", func(root string) string {
		// The stamp is written last, so an interrupted installation does not count.
		venv := filepath.Join(root, "tests", ".env", "venv")
		if _, err := os.Stat(filepath.Join(venv, ".requirements")); err != nil {
			return ""
		}
		return executable(filepath.Join(venv, "bin", "python"))
	})
}

// Chromium is a Chromium that can run headless.
func Chromium(t testing.TB) string {
	t.Helper()
	return found(t, "chromium", "on Debian: apt-get install chromium", func(string) string {
		path, _ := exec.LookPath("chromium")
		return path
	})
}

// Ptxas is NVIDIA's PTX assembler from the CUDA wheel of the pinned environment; it
// needs no GPU.
func Ptxas(t testing.TB) string {
	t.Helper()
	return found(t, "ptxas", "run `bash tests/setup/python.sh`", func(root string) string {
		site := filepath.Join(root, "tests", ".env", "venv", "lib", "python*", "site-packages", "nvidia")
		// Wheels of CUDA 12 have a folder for each component, those of CUDA 13 one for all.
		paths, _ := filepath.Glob(filepath.Join(site, "*", "bin", "ptxas"))
		for _, p := range paths {
			if p = executable(p); p != "" {
				return p
			}
		}
		return ""
	})
}

// NVRTC is NVIDIA's run-time compiler of CUDA C++ from the wheel of the pinned
// environment; it needs no GPU.
func NVRTC(t testing.TB) string {
	t.Helper()
	return found(t, "nvrtc", "run `bash tests/setup/python.sh`", func(root string) string {
		paths, _ := filepath.Glob(filepath.Join(root, "tests", ".env", "venv", "lib", "python*", "site-packages", "nvidia", "*", "lib", "libnvrtc.so.*"))
		for _, p := range paths {
			return p
		}
		return ""
	})
}

// CC is a C compiler.
func CC(t testing.TB) string {
	t.Helper()
	return found(t, "cc", "run `bash tests/setup/cc.sh`", func(string) string {
		path, _ := exec.LookPath("cc")
		return path
	})
}

// GPU goes on where err is nil, and skips the test where it is none, the error that says that there is no GPU: no CI has
// one. howTo says how the test is run on a machine that does.
func GPU(t testing.TB, err, none error, howTo string) {
	t.Helper()
	if errors.Is(err, none) {
		t.Skipf("no GPU here: %v; %s", err, howTo)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Root is the folder of go.mod above the test that runs.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if filepath.Dir(dir) == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = filepath.Dir(dir)
	}
}

// found applies the rule of the package to one program.
func found(t testing.TB, name, help string, look func(root string) string) string {
	t.Helper()
	if path := look(Root(t)); path != "" {
		return path
	}
	if Required(name) {
		t.Fatalf("%s is required here and not found; %s", name, help)
	}
	t.Skipf("%s not found; %s", name, help)
	return ""
}

// Required reports whether a test that cannot find the program must fail.
func Required(name string) bool {
	return os.Getenv("CI") == "true" || slices.Contains(strings.Split(os.Getenv("TILUS_LAB_REQUIRE"), ","), name)
}

func executable(path string) string {
	if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return ""
	}
	return path
}
