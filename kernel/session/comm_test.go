package session_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// tell sends a comm message and returns what the cells answered, and what they printed.
func (b *book) tell(m proto.Comm) (answers []proto.Comm, out string) {
	b.t.Helper()
	b.mu.Lock()
	b.ev = nil
	b.mu.Unlock()
	if r, err := b.Comm(context.Background(), m, b.sink); err != nil || r.Status != "ok" {
		b.t.Errorf("%+v: %+v %v", m, r, err)
	}
	for _, e := range b.ev {
		if e.Comm != nil {
			answers = append(answers, *e.Comm)
		}
	}
	return answers, b.text()
}

func TestComms(t *testing.T) {
	b := open(t)
	got, _ := b.tell(proto.Comm{Step: "open", ID: "a", Target: "nobody"})
	if d := cmp.Diff([]proto.Comm{{Step: "close", ID: "a"}}, got); d != "" {
		t.Errorf("unknown target: %s", d)
	}
	b.ok(`import "fmt"
total := 0
err := comm.Target("adder", func(c *comm.Comm, m comm.Message) {
	fmt.Println("opened with", m.Data["by"])
	c.OnMessage(func(m comm.Message) {
		total += int(m.Data["n"].(float64))
		fmt.Println("total", total, len(m.Buffers))
		c.Send(comm.Message{Data: map[string]any{"total": total}, Buffers: m.Buffers})
	})
	c.OnClose(func(comm.Message) { fmt.Println("closed") })
})
err`, "")
	if got, out := b.tell(proto.Comm{Step: "open", ID: "b", Target: "adder", Data: map[string]any{"by": 2}}); len(got) != 0 || out != "opened with 2\n" {
		t.Errorf("open: %+v %q", got, out)
	}
	got, out := b.tell(proto.Comm{Step: "msg", ID: "b", Data: map[string]any{"n": 7}, Buffers: [][]byte{{0, 255}}})
	if d := cmp.Diff([]proto.Comm{{Step: "msg", ID: "b", Data: map[string]any{"total": 7.0}, Buffers: [][]byte{{0, 255}}}}, got); d != "" || out != "total 7 1\n" {
		t.Errorf("message: %s %q", d, out)
	}
	b.ok("total", "=> 7\n")
	if _, out := b.tell(proto.Comm{Step: "close", ID: "b"}); out != "closed\n" {
		t.Errorf("close: %q", out)
	}
	if got, out := b.tell(proto.Comm{Step: "msg", ID: "b"}); len(got) != 0 || out != "" {
		t.Errorf("after the close: %+v %q", got, out)
	}

	// A cell begins one.
	b.run(`c, err := comm.Open("front", comm.Message{Data: map[string]any{"v": 1}, Metadata: map[string]any{"version": "2.1.0"}})
c.Send(comm.Message{Data: map[string]any{"v": 2}})
c.Close(comm.Message{})`)
	var steps []string
	for _, e := range b.ev {
		if e.Comm != nil {
			steps = append(steps, e.Comm.Step+" "+e.Comm.Target)
		}
	}
	if d := cmp.Diff([]string{"open front", "msg ", "close "}, steps); d != "" {
		t.Error(d)
	}
	b.ok("c.Send(comm.Message{})", "=> comm: the conversation has ended\n")

	// What a cell registered can fail or hang; that costs no more than the message.
	b.ok(`comm.Target("bad", func(*comm.Comm, comm.Message) { panic("no") })
comm.Target("spin", func(*comm.Comm, comm.Message) { for { } })`, "")
	r, err := b.Comm(context.Background(), proto.Comm{Step: "open", ID: "x", Target: "bad"}, b.sink)
	if err != nil || r.EName != "Panic" || r.Lost {
		t.Errorf("%+v %v", r, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	r, err = b.Comm(ctx, proto.Comm{Step: "open", ID: "y", Target: "spin"}, b.sink)
	if err != nil || r.EName != "Interrupted" || r.Tainted || time.Since(start) > 5*time.Second {
		t.Errorf("%+v %v after %v", r, err, time.Since(start))
	}
	b.ok("total", "=> 7\n")
}

func TestLiveDisplays(t *testing.T) {
	b := open(t)
	start := time.Now()
	b.run(`import "time"
p, err := display.NewProgress("work", 40)
for range 40 {
	p.Add(1)
	time.Sleep(10 * time.Millisecond)
}
display.ClearOutput(true)
err`)
	took := time.Since(start)
	var ids = map[string]bool{}
	updates, last, cleared := 0, "", false
	for _, e := range b.ev {
		switch {
		case e.Bundle != nil:
			ids[e.Bundle.DisplayID] = true
			if e.Bundle.Update {
				updates++
			}
			last = e.Bundle.Data["text/plain"].(string)
		case e.Clear != nil:
			cleared = e.Clear.Wait
		}
	}
	// 0.4 s of work, or more on a busy machine: at least 4 updates are 10 a second, and no front end draws more than one in 40 ms.
	if len(ids) != 1 || updates < 4 || updates > 6+int(took/(40*time.Millisecond)) || !strings.Contains(last, "40/40") || !cleared {
		t.Errorf("%d displays, %d updates, last %q, cleared %v", len(ids), updates, last, cleared)
	}
}
