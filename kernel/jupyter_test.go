package kernel

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

// python runs a script of testdata against this test binary installed as a kernel.
func python(t *testing.T, script string) {
	t.Helper()
	py := need.Jupyter(t)
	prefix := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Install(InstallOptions{Prefix: prefix, Exe: exe}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, py, script)
	cmd.Env = append(os.Environ(), "JUPYTER_PATH="+prefix+"/share/jupyter", "JUPYTER_RUNTIME_DIR="+t.TempDir(), "TMPDIR="+need.Scratch(t), "PYTHONWARNINGS=ignore")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", script, err, out)
	} else {
		t.Logf("%s", out)
	}
}

// TestConformance runs jupyter_kernel_test, the Jupyter project's suite for kernels.
func TestConformance(t *testing.T) { python(t, "testdata/suite.py") }

// TestConversation runs what that suite does not ask: order, abort, interrupt, stdin,
// forged and broken messages, shutdown while busy.
func TestConversation(t *testing.T) { python(t, "testdata/conversation.py") }
