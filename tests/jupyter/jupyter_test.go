// Package jupyter_test talks to `tilus-lab kernel` and its worker the way front ends do:
// through jupyter_client and a kernelspec.
package jupyter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// python runs a script of testdata with the kernelspec of tilus-lab, and
// returns what it prints.
func python(t *testing.T, script string, args ...string) string {
	t.Helper()
	py := need.Jupyter(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if _, err := kernel.Install(kernel.InstallOptions{Prefix: dir, Exe: need.Program(t)}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, py, append([]string{filepath.Join("testdata", script)}, args...)...)
	cmd.Env = append(os.Environ(),
		"JUPYTER_PATH="+filepath.Join(dir, "share", "jupyter"), "JUPYTER_RUNTIME_DIR="+filepath.Join(dir, "runtime"),
		"TILUS_LAB_DATA="+filepath.Join(dir, "data"), "TMPDIR="+need.Scratch(t), "PYTHONWARNINGS=ignore")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, out, said.Bytes())
	}
	t.Logf("%s", out)
	return string(out)
}

// TestConformance runs jupyter_kernel_test, the Jupyter project's suite for kernels.
func TestConformance(t *testing.T) { python(t, "suite.py") }

// TestCells runs Go cells: state, errors, interrupts, input, and every way in which a
// cell can kill its worker.
func TestCells(t *testing.T) { python(t, "cells.py") }

// TestSubshells runs cells beside the main shell's.
func TestSubshells(t *testing.T) { python(t, "subshell.py") }

// TestSubshellBesideNbclient runs cells, completion and inspection on a subshell while nbclient waits for a cell of a notebook.
func TestSubshellBesideNbclient(t *testing.T) { python(t, "nbclient_subshell.py") }

// subshellRecord is what 1+1 on a subshell took during a simulation on a quiet machine:
//
//	go test ./tests/jupyter -run TestSubshellRecord -record-probe
const subshellRecord = "../record/subshell.json"

// TestSubshellRecord holds the record to the limit of the issue; [TestSubshells] measures
// on any machine, with a limit of four times as much.
func TestSubshellRecord(t *testing.T) {
	if *recordProbe {
		if err := os.WriteFile(subshellRecord, []byte(python(t, "subshell.py", "10")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(subshellRecord)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Simulation float64 `json:"simulation_s"`
		Asked      int     `json:"asked"`
		Median     float64 `json:"median_ms"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if r.Simulation < 9 || r.Asked < 50 || r.Median <= 0 || r.Median > 20 {
		t.Errorf("%+v: 1+1 takes at most 20 ms during a simulation of 10 s", r)
	}
}
