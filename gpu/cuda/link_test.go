package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWhole: what the linker would make slow code of is left to Load.
func TestWhole(t *testing.T) {
	for _, line := range []string{"wgmma.fence.sync.aligned;", "setmaxnreg.inc.sync.aligned.u32 160;", "tcgen05.wait::ld.sync.aligned;"} {
		if _, err := new(Context).Cubin([]byte(line)); !errors.Is(err, ErrWhole) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestGPUCubinUnderLoad has the driver make machine code while goroutines move between
// threads and garbage is collected.
func TestGPUCubinUnderLoad(t *testing.T) {
	c := gpu(t)
	stop := make(chan bool)
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var keep [][]byte
			for {
				select {
				case <-stop:
					return
				default:
				}
				if keep = append(keep, make([]byte, 1<<12)); len(keep) > 1<<10 {
					keep = nil
				}
				runtime.Gosched()
			}
		})
	}
	defer wg.Wait()
	defer close(stop)
	start, n := time.Now(), 0
	for ; time.Since(start) < 6*time.Second; n++ {
		// Each text is another, and long enough to take a while.
		var body strings.Builder
		for i := range 200 {
			fmt.Fprintf(&body, "\tmad.lo.s32 %%r3, %%r3, %d, %%r2;\n", 3+n+i)
		}
		ptx := strings.Replace(addPTX, "\tld.param.u32 %r4, [n];\n", body.String()+"\tld.param.u32 %r4, [n];\n", 1)
		cubin, err := c.Cubin([]byte(ptx))
		ok(t, err)
		m, err := c.Load(cubin, JIT{})
		ok(t, err)
		ok(t, m.Close())
	}
	t.Logf("%d programs", n)
}
