package need

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnCore runs f, and the processes that it starts, on one core of the machine, as far as this process may choose;
// -1 is the core where this process runs anyway.
func OnCore(core int, f func()) {
	if core < 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
		return
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with its goroutine
		var all unix.CPUSet
		if unix.SchedGetaffinity(0, &all) == nil && all.IsSet(core) {
			var one unix.CPUSet
			one.Set(core)
			unix.SchedSetaffinity(0, &one)
		}
		f()
	}()
	<-done
}
