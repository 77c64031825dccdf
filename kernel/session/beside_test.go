package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
)

// limit ends a test whose cells do not.
const limit = time.Minute

// beside runs a cell beside the others and returns its reply and what it shows.
func (b *book) beside(ctx context.Context, code string) (session.Reply, string) {
	b.t.Helper()
	own := &book{t: b.t}
	r, err := b.Execute(ctx, session.Request{Code: code, StoreHistory: true, Beside: true}, own.sink)
	if err != nil {
		b.t.Error(err)
	}
	return r, own.text()
}

// ahead starts a cell of the foreground and waits until it has printed.
func (b *book) ahead(ctx context.Context, code string) (ended chan session.Reply) {
	b.t.Helper()
	begun := make(chan struct{})
	var once sync.Once
	ended = make(chan session.Reply, 1)
	go func() {
		r, err := b.Execute(ctx, session.Request{Code: code, StoreHistory: true}, func(ev proto.Event) {
			if ev.Stream != nil {
				once.Do(func() { close(begun) })
			}
			b.sink(ev)
		})
		if err != nil {
			b.t.Error(err)
		}
		ended <- r
	}()
	select {
	case <-begun:
	case <-time.After(limit):
		b.t.Fatal("the cell does not begin")
	}
	return ended
}

func (b *book) end(ended chan session.Reply) session.Reply {
	b.t.Helper()
	select {
	case r := <-ended:
		return r
	case <-time.After(limit):
		b.t.Fatal("the cell does not end")
	}
	return session.Reply{}
}

// TestBesideALoop runs cells of all kinds while Go code loops in the foreground, the last
// of which ends the loop.
func TestBesideALoop(t *testing.T) {
	b := open(t)
	ctx := t.Context()
	b.ok("import \"fmt\"\nstop, n := false, 0\ntype P struct{ X int }\nfunc twice(x int) int { return 2 * x }", "")
	ended := b.ahead(ctx, "println(\"begun\")\nfor !stop {\n\tn++\n}\n\"ended\"")
	for _, c := range []struct{ code, want string }{
		{"1 + 1", "=> 2\n"},
		{"fmt.Println(twice(21))\ntwice(4)", "42\n=> 8\n"},
		{"p := P{7}\np.X", "=> 7\n"},
		{"func thrice(x int) int { return x + twice(x) }\nthrice(3)", "=> 9\n"},
		{"c := make(chan int)\ngo func() { c <- 5 }()\n<-c", "=> 5\n"},
		{"import \"strings\"\nstrings.ToUpper(\"a\")", "=> A\n"},
		{"n > 0", "=> true\n"},
	} {
		if r, out := b.beside(ctx, c.code); r.Status != "ok" || out != c.want {
			t.Errorf("%s: %+v %q", c.code, r, out)
		}
	}
	if r, _ := b.beside(ctx, "var a []int\na[3]"); r.EName != "RuntimeError" || !strings.Contains(strings.Join(r.Traceback, "\n"), "a[3]") {
		t.Errorf("%+v", r)
	}
	if r, _ := b.beside(ctx, "nope"); r.Status != "error" || len(r.Problems) != 1 {
		t.Errorf("%+v", r)
	}
	if r, _ := b.beside(ctx, "%reset"); r.Status != "error" || !strings.Contains(r.EValue, "main shell") {
		t.Errorf("%+v", r)
	}
	if got, err := b.Complete("thr", 3); err != nil || len(got.Matches) == 0 || got.Matches[0].Text != "thrice" {
		t.Errorf("%+v %v", got, err)
	}
	select {
	case r := <-ended:
		t.Fatalf("the loop ended: %+v", r)
	default:
	}
	if r, _ := b.beside(ctx, "stop = true"); r.Status != "ok" {
		t.Errorf("%+v", r)
	}
	if r := b.end(ended); r.Status != "ok" || b.text() != "begun\n=> ended\n" {
		t.Errorf("%+v %q", r, b.text())
	}
	b.ok("thrice(p.X)", "=> 21\n")
	if len(b.Vars()) != 5 { // stop, n, p, c, a
		t.Errorf("%+v", b.Vars())
	}
}

// TestManyBeside compiles in many goroutines while one loops.
func TestManyBeside(t *testing.T) {
	b := open(t)
	b.ok("import \"fmt\"\nstop, n := false, 0\nm := map[string]int{}\ntype P struct{ X int }\nvar (\n\tp P\n\tq *P\n\ta any\n\tf func() int\n\ts []int\n)", "")
	// What is written while others compile is not lost, of any kind.
	ended := b.ahead(t.Context(), "println(1)\nfor !stop {\n\tm[\"a\"]++\n\tn += len(m)\n\tk := n\n\tp, q, a, f, s = P{k}, &P{k}, k, func() int { return k }, []int{k}\n}")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 12 {
				name := fmt.Sprintf("f%d_%d", i, k)
				if r, out := b.beside(t.Context(), fmt.Sprintf("func %s(x int) int { return x + %d }\nv%s := %s(1)\nfmt.Print(v%s)\nv%s", name, k, name, name, name, name)); r.Status != "ok" || out != fmt.Sprintf("%d=> %d\n", k+1, k+1) {
					t.Errorf("%s: %+v %q", name, r, out)
				}
			}
		})
	}
	all.Wait()
	b.beside(t.Context(), "stop = true")
	if r := b.end(ended); r.Status != "ok" {
		t.Errorf("%+v", r)
	}
	b.ok("vf7_11 + f0_3(1)", "=> 16\n")
	b.ok("p.X == n && q.X == n && a.(int) == n && f() == n && s[0] == n && m[\"a\"] == n && n > 0", "=> true\n")
}

// TestInterruptsBeside interrupts the foreground, which leaves short cells beside it
// alone, and a cell beside it where nothing else runs.
func TestInterruptsBeside(t *testing.T) {
	b := open(t)
	b.ok("import \"time\"\nn := 0", "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := b.ahead(ctx, "println(1)\nfor {\n}")
	spins := make(chan session.Reply, 1)
	spun := make(chan struct{})
	var once sync.Once
	go func() {
		r, err := b.Execute(t.Context(), session.Request{Code: "println(2)\nfor {\n\tn++\n}", Beside: true}, func(ev proto.Event) {
			if ev.Stream != nil {
				once.Do(func() { close(spun) })
			}
		})
		if err != nil {
			t.Error(err)
		}
		spins <- r
	}()
	select {
	case <-spun:
	case <-time.After(limit):
		t.Fatal("nothing runs beside the loop")
	}
	cancel()
	if r := b.end(ended); r.EName != "Interrupted" {
		t.Errorf("%+v", r)
	}
	if r := b.end(spins); r.EName != "Interrupted" || !strings.Contains(r.EValue, "main shell") {
		t.Errorf("%+v", r)
	}
	b.ok("n > 0", "=> true\n")
	// Channels work again, on both sides.
	for range 2 {
		if r, out := b.beside(t.Context(), "c := make(chan int)\ngo func() { time.Sleep(time.Millisecond); c <- 5 }()\n<-c"); r.Status != "ok" || out != "=> 5\n" {
			t.Errorf("%+v %q", r, out)
		}
		b.ok("d := make(chan int)\ngo func() { time.Sleep(time.Millisecond); d <- 6 }()\n<-d", "=> 6\n")
	}
	b.ok("k := 0", "")
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		for {
			if _, out := b.beside(t.Context(), "k > 10"); strings.Contains(out, "true") {
				break
			}
		}
		cancel()
	}()
	if r, _ := b.beside(ctx, "for {\n\tk++\n}"); r.EName != "Interrupted" {
		t.Errorf("%+v", r)
	}
	b.ok("k > 10", "=> true\n")
}

// TestInputBeside asks from two cells at a time.
func TestInputBeside(t *testing.T) {
	b := open(t)
	b.ok("import \"fmt\"\nvar x, y string", "")
	asked := make(chan struct{})
	answer := make(chan string)
	ended := make(chan session.Reply, 1)
	go func() {
		r, err := b.Execute(t.Context(), session.Request{Code: "fmt.Scanln(&x)", AllowStdin: true, Input: func(string, bool) (string, error) {
			close(asked)
			return <-answer, nil
		}}, b.sink)
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	select {
	case <-asked:
	case <-time.After(limit):
		t.Fatal("nobody is asked")
	}
	r, err := b.Execute(t.Context(), session.Request{Code: "fmt.Scanln(&y)", AllowStdin: true, Beside: true, Input: func(string, bool) (string, error) { return "two", nil }}, nil)
	if err != nil || r.Status != "ok" {
		t.Errorf("%+v %v", r, err)
	}
	answer <- "one"
	if r := b.end(ended); r.Status != "ok" {
		t.Errorf("%+v", r)
	}
	b.ok("x + y", "=> onetwo\n")
	if r, _ := b.beside(t.Context(), "_, err := fmt.Scanln(&y)\nerr"); r.Status != "ok" {
		t.Errorf("%+v", r)
	}
}

// TestDisplaysBeside shows things under the cell that shows them.
func TestDisplaysBeside(t *testing.T) {
	b := open(t)
	b.ok("stop := false", "")
	ended := b.ahead(t.Context(), "println(1)\nfor !stop {\n}")
	if r, out := b.beside(t.Context(), "display.Show(display.HTML(\"<b>x</b>\"))\nlayout.Local(2)"); r.Status != "ok" || strings.Count(out, "=>") < 2 {
		t.Errorf("%+v %q", r, out)
	}
	if r, out := b.beside(t.Context(), "%time 1 + 1"); r.Status != "ok" || !strings.Contains(out, "=> 2\n") {
		t.Errorf("%+v %q", r, out)
	}
	if r, out := b.beside(t.Context(), "!echo hi"); r.Status != "ok" || out != "hi\n" {
		t.Errorf("%+v %q", r, out)
	}
	b.beside(t.Context(), "stop = true")
	if r := b.end(ended); r.Status != "ok" || b.text() != "1\n" {
		t.Errorf("%+v %q", r, b.text())
	}
}

// TestCommBeside hands a message of the front end to a cell that waits for it.
func TestCommBeside(t *testing.T) {
	b := open(t)
	b.ok("stop, total := false, 0\ncomm.Target(\"stopper\", func(c *comm.Comm, m comm.Message) {\n\tc.OnMessage(func(m comm.Message) {\n\t\ttotal = int(m.Data[\"n\"].(float64))\n\t\tc.Send(comm.Message{Data: m.Data})\n\t\tstop = true\n\t})\n})", "")
	b.tell(proto.Comm{Step: "open", ID: "a", Target: "stopper"})
	ended := b.ahead(t.Context(), "println(1)\nfor !stop {\n}\ntotal")
	answers := 0
	r, err := b.CommBeside(t.Context(), proto.Comm{Step: "msg", ID: "a", Data: map[string]any{"n": 7}}, func(ev proto.Event) {
		if ev.Comm != nil {
			answers++
		}
	})
	if err != nil || r.Status != "ok" || answers != 1 {
		t.Errorf("%+v %v, %d answers", r, err, answers)
	}
	if r := b.end(ended); r.Status != "ok" || !strings.Contains(b.text(), "=> 7\n") {
		t.Errorf("%+v %q", r, b.text())
	}
}

// TestBesideABreakpoint runs cells while one stands still in a function, which does not
// stop those that call it too.
func TestBesideABreakpoint(t *testing.T) {
	k := newTalk(t, txtar.Parse([]byte("-- cell --\nx := 20\nfunc twice(n int) int {\n\treturn 2 * n\n}\nx = twice(x)\nx\n")))
	k.replay("> initialize {}\n> attach {}\n> setBreakpoints {\"source\":{\"path\":\"$cell\"},\"breakpoints\":[{\"line\":3}]}\n> configurationDone {}\n! cell\n")
	for stopped := false; !stopped; {
		raw, end := k.next()
		if raw == nil {
			t.Fatalf("the cell ended: %s", end)
		}
		stopped = strings.Contains(string(raw), `"stopped"`)
	}
	for code, want := range map[string]string{"1 + 1": "=> 2\n", "x": "=> 20\n", "twice(21)": "=> 42\n"} {
		if r, out := k.beside(t.Context(), code); r.Status != "ok" || out != want {
			t.Errorf("%s: %+v %q", code, r, out)
		}
	}
	k.ask("continue", `{"threadId":1}`)
	for {
		raw, end := k.next()
		if raw == nil {
			if !strings.Contains(end, "ok") || !strings.Contains(end, "40") {
				t.Errorf("%s", end)
			}
			break
		}
	}
}

// TestLongBesideMany ends a cell beside which more were handled than late output is kept for.
func TestLongBesideMany(t *testing.T) {
	b := open(t)
	b.ok("stop := false", "")
	ended := b.ahead(t.Context(), "println(1)\nfor !stop {\n}\nprintln(2)")
	for range 250 {
		if r, err := b.CommBeside(t.Context(), proto.Comm{Step: "msg", ID: "none"}, func(proto.Event) {}); err != nil || r.Status != "ok" {
			t.Fatalf("%+v %v", r, err)
		}
	}
	b.beside(t.Context(), "stop = true")
	if r := b.end(ended); r.Status != "ok" || b.text() != "1\n2\n" {
		t.Errorf("%+v %q", r, b.text())
	}
}
