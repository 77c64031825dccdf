package session

import (
	"os"
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

// widen lets a pipe hold a picture: at 64 KiB, the usual, a megabyte would wake both processes 16 times. A system that
// does not allow it keeps the pipe as it is.
func widen(f any) {
	if f, ok := f.(*os.File); ok {
		if c, err := f.SyscallConn(); err == nil {
			c.Control(func(fd uintptr) { syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_SETPIPE_SZ, 1<<20) })
		}
	}
}
