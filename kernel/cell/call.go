package cell

import (
	"context"
	"go/types"
	"strings"
	"time"
)

// Call runs f, which calls functions that cells handed to this process, as a cell: id owns what they print, cancelling ctx
// ends their loops and waits, and a panic is the outcome's error. name stands in the error's positions. Like Run it is for one
// goroutine at a time.
func (e *Engine) Call(ctx context.Context, id int64, name string, f func()) (out Outcome) {
	start := time.Now()
	defer func() { out.Seconds = time.Since(start).Seconds() }()
	e.build.Lock()
	if e.calls == "" {
		e.mu.Lock()
		u := &unit{}
		g := &gen{e: e, out: u, names: map[types.Object]string{}, vars: map[types.Object]string{}}
		entry := e.newName("callǃ")
		code := "func " + entry + "() {\ndefer " + g.host() + ".Done()\n" + g.host() + ".Enter()\n" + g.host() + ".Perform()\n}\n"
		code = "package main\n" + strings.Join(u.imports, "") + code
		e.mu.Unlock()
		if err := e.eval(code); err != nil {
			e.build.Unlock()
			return Outcome{Err: e.internal(name, err, code)}
		}
		e.calls = entry
	}
	v := newEvaluation(ctx, id, name)
	v.perform = f
	return e.enter(v, e.calls, "")
}
