package workers

import (
	"sync/atomic"
	"testing"
)

// TestEach: each worker works once, and a panic of some is the caller's, once all others have ended.
func TestEach(t *testing.T) {
	var sum atomic.Int64
	Each(5, func(worker int) { sum.Add(1 << worker) })
	Each(0, func(int) { sum.Add(1 << 9) })
	if sum.Load() != 31 {
		t.Errorf("workers %b of 11111 have worked", sum.Load())
	}
	defer func() {
		if r := recover(); r != "broken" || sum.Load() != 62 {
			t.Errorf("the caller recovers %v, and workers %b of 11111 have ended", r, sum.Load()-31)
		}
	}()
	Each(5, func(worker int) {
		defer sum.Add(1 << worker)
		if worker%2 == 0 {
			panic("broken")
		}
	})
	t.Error("the caller goes on")
}
