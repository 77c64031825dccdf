package session

import (
	"os/exec"
	"syscall"
)

// dieWithParent keeps a worker out of the terminal's process group, so that Ctrl-C reaches the supervisor alone, and has the
// system kill it when the supervisor is killed. The worker also ends when its input pipe closes; the signal is for a
// worker that is stuck in a native call.
//
// The signal is tied to the thread that started the child. Go may end a thread only when a goroutine locked to it returns, and
// no caller of a session does that.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
