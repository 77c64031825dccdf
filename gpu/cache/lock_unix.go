//go:build unix

package cache

import (
	"os"
	"syscall"
)

// lock waits until no other process or goroutine holds the file, and gives what lets
// it go. Where there are no locks, nobody waits.
func lock(path string) func() {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return func() {}
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	return func() { f.Close() }
}
