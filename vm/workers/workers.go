// Package workers shares a computation out among goroutines.
package workers

import (
	"sync"
	"sync/atomic"
)

// Each calls do for each of n workers, 0 to n-1, all at once, and returns when all have ended. What the first of them panics with the caller
// panics with, without the worker's stack: on a goroutine of its own a panic ends the process, whatever the caller recovers from.
func Each(n int, do func(worker int)) {
	var wait sync.WaitGroup
	var failed atomic.Pointer[any]
	for worker := range n {
		wait.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					failed.CompareAndSwap(nil, &r)
				}
			}()
			do(worker)
		})
	}
	wait.Wait()
	if r := failed.Load(); r != nil {
		panic(*r)
	}
}
