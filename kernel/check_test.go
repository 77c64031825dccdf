package kernel

import (
	"os"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Check(t.Context(), []string{exe, "kernel", "{connection_file}"})
	// The fake engine knows no arithmetic; all before that must have worked.
	if err == nil || !strings.Contains(err.Error(), "6 * 7") || !strings.HasPrefix(got.Kernel, "tilus-lab") || got.Ready <= 0 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := Check(t.Context(), []string{exe, "-test.run=^$", "{connection_file}"}); err == nil || !strings.Contains(err.Error(), "ended before") {
		t.Errorf("a program that is no kernel: %v", err)
	}
}
