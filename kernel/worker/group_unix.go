//go:build unix

package worker

import (
	"os/exec"
	"syscall"
)

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
