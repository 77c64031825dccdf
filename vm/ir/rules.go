package ir

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// check is an instruction whose rules are to be checked.
type check struct {
	in  *Instr
	at  int // where in the verifier's list its problems belong
	bad diag.List
}

// someChecks is how many instructions a goroutine takes at a time.
const someChecks = 16

// rules checks the rules of rows, which is most of the verifier's work and sees one
// instruction at a time: several do it.
func (v *verifier) rules() {
	var next atomic.Int64
	work := func() {
		for {
			end := int(next.Add(someChecks))
			if end-someChecks >= len(v.checks) {
				return
			}
			for i := end - someChecks; i < min(end, len(v.checks)); i++ {
				v.checks[i].run(v.p)
			}
		}
	}
	var wait sync.WaitGroup
	var failed atomic.Value // what a rule panicked with
	for range min(runtime.GOMAXPROCS(0), 8, len(v.checks)/someChecks) - 1 {
		wait.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					failed.Store([]any{r})
				}
			}()
			work()
		})
	}
	work()
	wait.Wait()
	if r, ok := failed.Load().([]any); ok { // it is the caller's, as without goroutines
		panic(r[0])
	}
	for _, c := range slices.Backward(v.checks) {
		if len(c.bad) > 0 {
			v.list = slices.Insert(v.list, c.at, c.bad...)
		}
	}
}

func (c *check) run(p *Program) {
	for i, r := range c.in.Op.Rules {
		if bad := r.Check(p, c.in); bad != nil {
			pos := bad.Pos
			if !pos.Known() {
				pos = c.in.Pos
			}
			c.bad.Addf(pos, c.in.Op.Code(i), bad.Help, "%s", bad.Msg)
		}
	}
}
