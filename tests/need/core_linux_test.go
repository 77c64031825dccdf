package need

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnCore(t *testing.T) {
	n := 0
	for i := range runtime.NumCPU() {
		OnCore(i, func() {
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
