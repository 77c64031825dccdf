// Package workers shares a computation out among goroutines.
package workers

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Panic is what a worker panicked with, and its stack, which that of the caller does not tell.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("%v\n\na worker's stack:\n%s", p.Value, p.Stack) }

// Unwrap is the value, where it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Parts is how many workers share n things out: one for each processor, and no more than there are things, or
// than most, which says how many the work is worth; at least one.
func Parts(n, most int) int { return max(1, min(runtime.GOMAXPROCS(0), n, most)) }

// Share cuts 0 to n-1 into equal parts, in order, and calls do as [Each] does, for each with its number and the first of its things and
// of those of the next.
func Share(parts, n int, do func(part, from, to int)) {
	Each(parts, func(part int) { do(part, n*part/parts, n*(part+1)/parts) })
}

// Each calls do for each of n workers, 0 to n-1, all at once, and returns when all have ended. Where some panic, the caller panics with the
// [*Panic] of the first: on a goroutine of its own a panic ends the process, whatever the caller recovers from.
func Each(n int, do func(worker int)) {
	var wait sync.WaitGroup
	var failed atomic.Pointer[Panic]
	for worker := range n {
		wait.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					p, inner := r.(*Panic) // of workers of this one
					if !inner {
						p = &Panic{r, debug.Stack()}
					}
					failed.CompareAndSwap(nil, p)
				}
			}()
			do(worker)
		})
	}
	wait.Wait()
	if p := failed.Load(); p != nil {
		panic(p)
	}
}
