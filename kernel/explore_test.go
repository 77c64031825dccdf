package kernel

import (
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// An explorer that is started anew hears of the variables again, without a cell.
func TestExplorerStartsAnew(t *testing.T) {
	dir := need.Scratch(t)
	k := &Kernel{id: "s", done: make(chan struct{}), opts: Options{Explorer: link.SocketPath(dir)}}
	vars, shows, ended := make(chan []proto.Var, 1), make(chan proto.Explore), make(chan struct{})
	go func() {
		defer close(ended)
		k.tellExplorer(vars, shows)
	}()
	defer func() { close(k.done); <-ended }()
	vars <- []proto.Var{{Name: "L", Form: "layout", Text: "local(2)"}}
	for range 2 {
		got := make(chan link.Message, 10)
		l, err := link.Listen(k.opts.Explorer, func(m link.Message) { got <- m }, func(bool) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		select {
		case m := <-got:
			if m.Session != "s" || len(m.Vars) != 1 || m.Vars[0].Text != "local(2)" {
				t.Errorf("the explorer was told %+v", m)
			}
		case <-time.After(20 * time.Second):
			t.Error("the explorer was told nothing")
		}
		l.Close()
	}
}
