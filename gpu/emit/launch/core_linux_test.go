package launch

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// onCore runs f on a core of the machine, as far as this process may choose; -1 is any.
func onCore(core int, f func()) {
	if core < 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
		return
	}
	done := make(chan bool)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its goroutine
		var all unix.CPUSet
		if unix.SchedGetaffinity(0, &all) == nil && all.IsSet(core) {
			var one unix.CPUSet
			one.Set(core)
			unix.SchedSetaffinity(0, &one)
		}
		f()
		close(done)
	}()
	<-done
}

func TestOnCore(t *testing.T) {
	n := 0
	for i := range runtime.NumCPU() {
		onCore(i, func() {
			n++
			var now unix.CPUSet
			if err := unix.SchedGetaffinity(0, &now); err != nil {
				t.Error(err)
			}
			if now.IsSet(i) && now.Count() != 1 {
				t.Errorf("on %d cores, not on core %d", now.Count(), i)
			}
		})
	}
	if n != runtime.NumCPU() {
		t.Errorf("run %d times", n)
	}
}
