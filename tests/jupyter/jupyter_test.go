// Package jupyter_test talks to `tilus-lab kernel` and its worker the way front ends do:
// through jupyter_client and a kernelspec.
package jupyter_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// python runs a script of testdata with the kernelspec of a freshly built tilus-lab.
func python(t *testing.T, script string) {
	t.Helper()
	py := need.Jupyter(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	exe := filepath.Join(dir, "tilus-lab")
	build := exec.CommandContext(ctx, "go", "build", "-o", exe, "./cmd/tilus-lab")
	build.Dir = need.Root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/tilus-lab: %v\n%s", err, out)
	}
	if _, err := kernel.Install(kernel.InstallOptions{Prefix: dir, Exe: exe}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, py, filepath.Join("testdata", script))
	cmd.Env = append(os.Environ(),
		"JUPYTER_PATH="+filepath.Join(dir, "share", "jupyter"), "JUPYTER_RUNTIME_DIR="+filepath.Join(dir, "runtime"),
		"TILUS_LAB_DATA="+filepath.Join(dir, "data"), "PYTHONWARNINGS=ignore")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	t.Logf("%s", out)
}

// TestConformance runs jupyter_kernel_test, the Jupyter project's suite for kernels.
func TestConformance(t *testing.T) { python(t, "suite.py") }

// TestCells runs Go cells: state, errors, interrupts, input, and every way in which a
// cell can kill its worker.
func TestCells(t *testing.T) { python(t, "cells.py") }
