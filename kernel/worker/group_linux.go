package worker

import "syscall"

// ownGroup starts a command in a process group of its own, so that what it starts can be ended with it, and has the system
// end it with the worker, which may be killed itself.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
