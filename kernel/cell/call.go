package cell

import (
	"context"
	"go/types"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// Call runs f, which calls functions that cells handed to this process, as a cell: id owns what they print, cancelling ctx
// ends their loops and waits, and a panic is the outcome's error. name stands in the error's positions. Like Run it is for one
// goroutine at a time.
func (e *Engine) Call(ctx context.Context, id int64, name string, f func()) (out Outcome) {
	start := time.Now()
	defer func() { out.Seconds = time.Since(start).Seconds() }()
	if e.calls == "" {
		e.mu.Lock()
		u := &unit{}
		g := &gen{e: e, out: u, names: map[types.Object]string{}, vars: map[types.Object]string{}}
		entry := e.newName("callǃ")
		code := "func " + entry + "() {\ndefer " + g.host() + ".Done()\n" + g.host() + ".Perform()\n}\n"
		code = "package main\n" + strings.Join(u.imports, "") + code
		e.mu.Unlock()
		if err := e.eval(code); err != nil {
			return Outcome{Err: e.internal(name, err, code)}
		}
		e.calls = entry
	}
	e.host.mu.Lock()
	e.host.perform = f
	e.host.mu.Unlock()
	if out = e.enter(ctx, id, name, e.calls); !out.Tainted {
		e.trim("")
	}
	return out
}

// enter evaluates a call of a printed function and waits for its end.
func (e *Engine) enter(ctx context.Context, id int64, name, entry string) (out Outcome) {
	done := e.host.begin(id)
	_, err := e.in.EvalWithContext(ctx, entry+"()")
	if ctx.Err() != nil {
		out.Cancelled = true
		e.host.stop()
		select {
		case <-done:
		case <-time.After(Grace):
			out.Tainted = true
		}
		out.Err = &proto.Error{Name: "Interrupted", Value: "the cell was interrupted; variables keep their values", Traceback: []string{"Interrupted: the cell was interrupted; variables keep their values"}}
		if out.Tainted {
			out.Err.Value = "the cell was interrupted, but a library call in it has not ended and goes on in the background"
			out.Err.Traceback = []string{"Interrupted: " + out.Err.Value}
		}
		return out
	}
	if err != nil {
		out.Err = e.panicked(name, err)
	}
	return out
}
