//go:build unix

package worker

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// crash is the standard error of the supervisor.
var crash = os.Stderr

// takePipes moves the supervisor's pipes away from file descriptors 0 and 1, so that neither cells nor libraries written in C can
// write into the protocol.
func takePipes(r io.Reader, w io.Writer) (io.Reader, io.Writer, error) {
	if r != io.Reader(os.Stdin) || w != io.Writer(os.Stdout) {
		return r, w, nil
	}
	in, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, nil, fmt.Errorf("worker: %w", err)
	}
	out, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, nil, fmt.Errorf("worker: %w", err)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("worker: %w", err)
	}
	unix.Dup2(null, 0)
	unix.Dup2(2, 1)
	return os.NewFile(uintptr(in), "requests"), os.NewFile(uintptr(out), "events"), nil
}
