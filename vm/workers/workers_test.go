package workers

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// breaks is what the caller's stack does not have.
func breaks() { panic(io.ErrUnexpectedEOF) }

// TestEach: each worker works once, and a panic of some is the caller's, with the worker's stack, once all others have ended.
func TestEach(t *testing.T) {
	var sum atomic.Int64
	Each(5, func(worker int) { sum.Add(1 << worker) })
	Each(0, func(int) { sum.Add(1 << 9) })
	if sum.Load() != 31 {
		t.Errorf("workers %b of 11111 have worked", sum.Load())
	}
	defer func() {
		r := recover()
		p, ok := r.(*Panic)
		if !ok || p.Value != io.ErrUnexpectedEOF || !errors.Is(p, io.ErrUnexpectedEOF) || sum.Load() != 62 {
			t.Fatalf("the caller recovers %v, and workers %b of 11111 have ended", r, sum.Load()-31)
		}
		if text := fmt.Sprint(r); !strings.HasPrefix(text, "unexpected EOF\n") || strings.Count(text, "workers.breaks(") != 1 {
			t.Errorf("the caller recovers %s", text)
		}
	}()
	Each(5, func(worker int) {
		defer sum.Add(1 << worker)
		if worker%2 == 0 {
			Each(2, func(int) { breaks() })
		}
	})
	t.Error("the caller goes on")
}

// TestShare holds that parts have each thing once, in order, and that there are as many as are asked for.
func TestShare(t *testing.T) {
	for _, n := range []int{0, 1, 7, 64} {
		for parts := 1; parts <= 9; parts++ {
			had := make([][]int, parts)
			Share(parts, n, func(part, from, to int) {
				for i := from; i < to; i++ {
					had[part] = append(had[part], i)
				}
			})
			var all []int
			for _, h := range had {
				if all = append(all, h...); len(h) < n/parts || len(h) > n/parts+1 {
					t.Errorf("%d things, %d parts: one has %d", n, parts, len(h))
				}
			}
			for i := range n {
				if len(all) != n || all[i] != i {
					t.Fatalf("%d things, %d parts: %v", n, parts, all)
				}
			}
		}
	}
	if a, b, c := Parts(0, 0), Parts(1<<20, 1<<20), Parts(1<<20, 1); a != 1 || b != runtime.GOMAXPROCS(0) || c != 1 {
		t.Errorf("%d, %d and %d workers", a, b, c)
	}
}
