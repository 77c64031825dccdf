package device

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
)

// stays waits for a turn that nobody gives it.
const stays = `program stays<1>(turn: *i32) warps=1 {
	t = ViewGlobal(turn) : global i32[1]
	LockSemaphore(t, 1, offset=[0])
}
`

// TestGPUQueueLost loses contexts of queues on a GPU, of this process and of others, and uses the
// queues after it; in a process of its own it also ends a launch that never ends.
func TestGPUQueueLost(t *testing.T) {
	d, err := Open("cuda")
	if errors.Is(err, ErrNoGPU) {
		t.Skipf("no GPU here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("TEST_LOSE") == "" { // other tests of this process keep their contexts
		cmd := exec.Command(os.Args[0], "-test.run=^TestGPUQueueLost$", "-test.v")
		cmd.Env = append(os.Environ(), "TEST_LOSE=1")
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	kept, err := NewKeptQueue("cuda")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKeptQueue("cuda")
	if err != nil {
		t.Fatal(err)
	}
	direct, err := NewQueue("cuda")
	if err != nil {
		t.Fatal(err)
	}
	apart := use(t, other)
	for _, c := range []struct {
		name string
		q    *Queue
		fail string
	}{{"kept", kept, leave}, {"kept", kept, stays}, {"kept", kept, leave}, {"direct", direct, leave}, {"direct", direct, leave}} {
		old := use(t, c.q)
		args := []Value{{Int: 1 << 24}}
		if c.fail == stays {
			args = []Value{{Buffer: old.turn}}
		}
		last, err := c.q.Launch(program(t, c.fail), args...)
		if err == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			err = last.Wait(ctx)
			cancel()
		}
		t.Logf("%s: %v", c.name, err)
		if lost := (*Lost)(nil); !errors.As(err, &lost) || len(lost.Programs) != 1 || len(lost.Buffers) == 0 {
			t.Errorf("%s: got %v, which is no loss by one program", c.name, err)
		}
		if err := old.x.Write(array.New(old.x.Type, old.x.Len)); err == nil || !strings.Contains(err.Error(), "buffer x was lost when program ") {
			t.Errorf("%s: the old buffer: %v", c.name, err)
		}
		if _, err := old.twice.Launch(); err == nil || !strings.Contains(err.Error(), "was lost when program ") {
			t.Errorf("%s: the old graph: %v", c.name, err)
		}
		old.close(t)
		use(t, c.q).close(t)
	}
	apart.run(t) // neither cost it anything
	apart.close(t)
	for _, q := range []*Queue{kept, other, direct} {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

// used is what a queue is used with.
type used struct {
	q     *Queue
	x, y  *Buffer
	turn  *Buffer
	host  *Pinned
	twice *Graph
}

// use makes buffers, a pinned array and a graph in a queue and runs it.
func use(t *testing.T, q *Queue) *used {
	t.Helper()
	ones, err := array.Generate("ones:f32[64]")
	if err != nil {
		t.Fatal(err)
	}
	turn, err := array.Generate("zeros:i32[1]")
	if err != nil {
		t.Fatal(err)
	}
	u := &used{q: q}
	for _, b := range []struct {
		to   **Buffer
		name string
		a    *array.Array
	}{{&u.x, "x", ones}, {&u.y, "y", ones}, {&u.turn, "turn", turn}} {
		if *b.to, err = q.NewBuffer(b.name, b.a.Type, b.a.Len()); err == nil {
			err = (*b.to).Write(b.a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if u.host, err = q.NewPinned("host", ones.Type, 64); err != nil {
		t.Fatal(err)
	}
	p := program(t, scale)
	call := func(a, b *Buffer) Call {
		return Call{p, []Value{{Buffer: a}, {Buffer: b}, {Int: 64}, {Float: 2}, {}}}
	}
	if u.twice, err = q.NewGraph("twice", call(u.x, u.y), call(u.y, u.x)); err != nil {
		t.Fatal(err)
	}
	u.run(t)
	return u
}

// run doubles ones twice by a graph, then once by a launch, between marks.
func (u *used) run(t *testing.T) {
	t.Helper()
	copy(u.host.Array.Data, mustOnes(t).Data)
	start, err := u.q.Mark()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.x.WriteFrom(u.host); err != nil {
		t.Fatal(err)
	}
	if _, err := u.twice.Launch(); err != nil {
		t.Fatal(err)
	}
	if _, err := u.q.Launch(program(t, scale), Value{Buffer: u.x}, Value{Buffer: u.y}, Value{Int: 64}, Value{Float: 2}, Value{}); err != nil {
		t.Fatal(err)
	}
	last, err := u.y.ReadTo(u.host)
	if err == nil {
		err = last.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	end, err := u.q.Mark()
	if err == nil {
		err = end.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if took, err := end.Since(start); err != nil || took <= 0 {
		t.Errorf("took %s, %v", took, err)
	}
	if got := u.host.Array.At(63); got != 8 {
		t.Errorf("got %v, want 8", got)
	}
	if err := errors.Join(start.Close(), end.Close()); err != nil {
		t.Error(err)
	}
}

func mustOnes(t *testing.T) *array.Array {
	t.Helper()
	a, err := array.Generate("ones:f32[64]")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (u *used) close(t *testing.T) {
	t.Helper()
	if err := errors.Join(u.twice.Close(), u.host.Close(), u.x.Close(), u.y.Close(), u.turn.Close()); err != nil {
		t.Error(err)
	}
}
