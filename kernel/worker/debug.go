package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/kernel/cell"
	"github.com/tilus-lab/tilus-lab/kernel/debugger"
	"github.com/tilus-lab/tilus-lab/kernel/display"
	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	vmdebug "github.com/tilus-lab/tilus-lab/vm/debug"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// newDebugger is the debugger of this worker's cells.
func (k *worker) newDebugger() *debugger.Debugger {
	return debugger.New(debugger.Options{
		Event: func(raw json.RawMessage) {
			k.out.sync() // what was printed comes before
			k.out.send(proto.Event{Kind: proto.KindDebug, Debug: raw})
		},
		Rich:  rich,
		Lines: lines,
		Globals: func() []debugger.Var {
			return k.engine().Globals()
		},
		Copy: func(name string, v debugger.Var) error { return k.engine().Adopt(name, v) },
	})
}

func (k *worker) engine() *cell.Engine {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.eng
}

// lines are those of a cell at which something can stop, nil where that is not known.
func lines(code string) []int {
	if !strings.HasPrefix(strings.TrimSpace(code), "%%tile") {
		return cell.Lines(code)
	}
	at := strings.Index(code, "%%tile")
	head, body, _ := strings.Cut(code[at:], "\n")
	p, err := lab.ParseAs("", strings.Repeat("\n", 1+strings.Count(code[:at], "\n"))+body, strings.Fields(head)[min(2, len(strings.Fields(head))):]...)
	if err != nil {
		return nil
	}
	var out []int
	p.Body.Walk(func(s ir.Stmt) bool {
		out = append(out, s.Position().Line)
		return true
	})
	slices.Sort(out)
	return out
}

// debugging answers one debug request.
func (k *worker) debugging(req proto.Request) {
	answered := false
	reply := func(raw json.RawMessage) {
		answered = true
		k.out.send(proto.Event{ID: req.ID, Kind: proto.KindReturned, Returned: raw})
	}
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(crash, "tilus-lab worker: debugger: %v\n%s\n", r, debug.Stack())
			if !answered {
				k.out.send(proto.Event{ID: req.ID, Kind: proto.KindError, Error: &proto.Error{Name: "DebugError", Value: fmt.Sprint(r)}})
				k.out.send(proto.Event{ID: req.ID, Kind: proto.KindDone, Done: &proto.Done{Status: "error"}})
			}
		}
	}()
	k.debug.Handle(req.Params, reply)
}

// rich are the forms of a value that the debugger shows.
func rich(v any) (data, metadata map[string]any) {
	defer func() {
		if r := recover(); r != nil {
			data, metadata = map[string]any{display.MIMETypeText: fmt.Sprint(r)}, nil
		}
	}()
	if x, ok := v.(vmdebug.Variable); ok {
		if x.Tile == nil {
			return map[string]any{display.MIMETypeText: fmt.Sprint(x.Var.Name, ": ", x.Var.Type)}, nil
		}
		d := display.Tensor(x.Var.Type.Layout, x.Tile)
		d.Data[display.MIMETypeText] = x.Var.Type.String() + "\n" + x.Tile.String()
		return display.Bundle(d)
	}
	d, ok := display.Results([]any{v})
	if !ok {
		return map[string]any{display.MIMETypeText: fmt.Sprint(v)}, nil
	}
	return display.Bundle(d)
}

// launch runs a program of a %%tile cell under the debugger, where a front end debugs; see [lab.Hooks].
func (k *worker) launch(ctx context.Context, p *ir.Program, start func() (*vmdebug.Session, error)) (*vmdebug.Session, error) {
	if _, _, beside := k.engine().Aside(); beside || !k.debug.Stops(p.Pos.File) || ctx.Err() != nil {
		return nil, nil
	}
	s, err := start()
	if err != nil {
		return nil, nil // it is for the launch itself to say what is wrong
	}
	if err := k.debug.Launch(ctx, s, p.Pos.File, k.engine().Stack()); err != nil {
		return nil, err
	}
	return s, nil
}
