//go:build unix && !linux

package worker

import "syscall"

// ownGroup starts a command in a process group of its own, so that what it starts can be ended with it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
