//go:build unix

package worker

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a command in a process group of its own, so that what it starts can be ended with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
