//go:build unix

package need

import (
	"os"
	"syscall"
	"time"
)

const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
)

// hold locks a folder until it is closed or the process ends, however it ends.
func hold(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// free reports whether no process holds a folder. One that was made just now may be about to be held.
func free(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && time.Since(info.ModTime()) > time.Minute && syscall.Flock(int(f.Fd()), exclusive|syscall.LOCK_NB) == nil
}
