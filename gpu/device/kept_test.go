package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestKeptQueue runs a queue whose GPU another process holds, under the stand-in for the driver:
// the modes are what goes wrong there.
func TestKeptQueue(t *testing.T) {
	lost := func(by string) []string {
		return []string{
			"the buffers x, y, h are lost and have to be made again", "a new process holds the GPU in the place of the old one",
			"buffer: device: buffer x was lost when " + by, "pinned: device: pinned array h was lost when " + by,
			"mark: device: the mark was lost when " + by, "graph: device: graph twice of scale, scale was lost when " + by,
			"close lost: <nil>", "other: 63 <nil>", "copied after: 63 <nil>", "pinned after: 63 <nil>", "close: <nil>",
		}
	}
	which := "one of the programs first at t.tile:1:9 (launch 3), second at t.tile:1:9 (launch 4), third at t.tile:1:9 (launch 5) broke "
	underStub(t, "^TestKeptQueueChild$", map[string][]string{
		"+works":  {"wait: <nil>", "copied: 63 <nil>", "pinned: 63 <nil>", "graph: <nil>", "since: 500µs <nil>", "follow: <nil>", "across: 63 <nil>", "back: 63 <nil>", "foreign: device: scale: buffer z is of another queue", "short: device: short takes 5 arguments, 1 are given", "close: <nil>"},
		"+third":  append(lost(which+"its context; make it again"), "wait: device: "+which+"the GPU context: cuda: ", "pending: device: "+which),
		"+hang":   append(lost(which+"its context; make it again"), "wait: device: one of the programs first at t.tile:1:9 (launch 3), second at", "the launch had not ended after", "it was ended, with the process that held the GPU for it"),
		"+crash":  {"wait: device: program first at t.tile:1:9 (launch 3): the process that held the GPU ended", "SIGSEGV", "buffer: device: buffer x was lost when program first", "other: 63 <nil>", "copied after: 63 <nil>", "close: <nil>"},
		"+memory": {"open: <nil>", "made: device: buffer x: cuda: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY", "close: <nil>"},
		"+old":    {"open: ", "compute capability 7.0"},
		"none":    {"open: device: no NVIDIA GPU"},
	})
}

// TestNeedsKeeper asks for a queue in a process of its own in a program that never calls Keeper.
func TestNeedsKeeper(t *testing.T) {
	t.Setenv("TEST_NO_KEEPER", "1")
	underStub(t, "^TestKeptQueueChild$", map[string][]string{"works": {"open: device: a queue in a process of its own needs device.Keeper to be the first call of the main function"}})
}

func TestKeptQueueChild(t *testing.T) {
	if os.Getenv("STUB") == "" {
		t.Skip("a child of TestKeptQueue")
	}
	q, err := NewKeptQueue("cuda")
	if fmt.Println("open:", err); err != nil {
		return
	}
	if q.g.ctx != nil {
		t.Error("this process has a context")
	}
	want := array.New(dtype.F32, 64)
	for i := range 64 {
		want.Set(float64(i), i)
	}
	// read is the last element of what comes back.
	read := func(b *Buffer) string {
		got := array.New(dtype.F32, 64)
		err := b.Read(got)
		return fmt.Sprint(got.At(63), " ", err)
	}
	x, err := q.NewBuffer("x", dtype.F32, 64)
	if err != nil {
		fmt.Println("made:", err)
		fmt.Println("close:", q.Close())
		return
	}
	other, err := NewKeptQueue("cuda:0")
	if err != nil {
		t.Fatal(err)
	}
	make := func(q *Queue, name string) *Buffer {
		b, err := q.NewBuffer(name, dtype.F32, 64)
		if err == nil {
			err = b.Write(want)
		}
		if err != nil {
			t.Fatal(name, err)
		}
		return b
	}
	y, z := make(q, "y"), make(other, "z")
	h, err := q.NewPinned("h", dtype.F32, 64)
	if err != nil {
		t.Fatal(err)
	}
	p := program(t, scale)
	args := func(x, y *Buffer) []Value {
		return []Value{{Buffer: x}, {Buffer: y}, {Int: 64}, {Float: 2}, {}}
	}
	g, err := q.NewGraph("twice", Call{p, args(x, y)}, Call{p, args(y, x)})
	if err != nil {
		t.Fatal(err)
	}
	start, err := q.Mark()
	if err != nil {
		t.Fatal(err)
	}
	copy(h.Array.Data, want.Data)
	if _, err := x.WriteFrom(h); err != nil {
		t.Fatal(err)
	}
	clear(h.Array.Data) // it has been taken
	if _, err := x.ReadTo(h); err != nil {
		t.Fatal(err)
	}
	var last *Pending
	for _, name := range []string{"first", "second", "third"} {
		if last, err = q.Launch(program(t, strings.Replace(scale, "program scale", "program "+name, 1)), args(x, y)...); err != nil {
			break
		}
	}
	patience := time.Minute
	if strings.HasSuffix(os.Getenv("STUB"), "hang") {
		patience = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err == nil {
		err = q.Wait(ctx)
	}
	fmt.Println("wait:", err)
	if err != nil {
		if u := (*Unended)(nil); q.unended || errors.As(err, &u) {
			t.Error("the queue is given up:", err)
		}
		fmt.Println("pending:", last.Wait(t.Context()))
		fmt.Println("buffer:", x.Write(want))
		_, err := x.ReadTo(h)
		fmt.Println("closed or lost:", err)
		copied, err := y.ReadTo(h)
		fmt.Println("pinned:", pinnedError(h), copied == nil, err != nil)
		fmt.Println("mark:", start.Wait(t.Context()))
		_, err = g.Launch()
		fmt.Println("graph:", err)
		fmt.Println("close lost:", errors.Join(g.Close(), start.Close(), h.Close(), x.Close(), y.Close()))
		fmt.Println("other:", read(z))
		x, y = make(q, "x"), make(q, "y")
		if h, err = q.NewPinned("h", dtype.F32, 64); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(os.Getenv("STUB"), "hang") && !strings.HasSuffix(os.Getenv("STUB"), "crash") {
			if _, err := q.Launch(p, args(x, y)...); err != nil {
				t.Error(err)
			}
		}
	}
	if err := x.CopyTo(y); err != nil {
		t.Error(err)
	}
	after := ""
	if err != nil || h.Array.At(63) != 63 {
		after = " after"
	}
	fmt.Printf("copied%s: %s\n", after, read(y))
	run, err := y.ReadTo(h)
	if err == nil {
		err = run.Wait(t.Context())
	}
	fmt.Printf("pinned%s: %v %v\n", after, h.Array.At(63), err)
	if after == "" {
		run, err := g.Launch()
		if err == nil {
			err = run.Wait(t.Context())
		}
		fmt.Println("graph:", err)
		end, err := q.Mark()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("follow:", other.WaitFor(end))
		took, err := end.Since(start)
		fmt.Println("since:", took, err)
		direct, err := NewQueue("cuda")
		if err != nil {
			t.Fatal(err)
		}
		w, err := direct.NewBuffer("w", dtype.F32, 64)
		if err != nil {
			t.Fatal(err)
		}
		err = y.CopyTo(w)
		fmt.Println("across:", read(w), err)
		err = w.CopyTo(z)
		fmt.Println("back:", read(z), err)
		_, err = q.Launch(p, args(x, z)...)
		fmt.Println("foreign:", err)
		_, err = q.Launch(program(t, strings.Replace(scale, "program scale", "program short", 1)), Value{})
		fmt.Println("short:", err)
		if err := errors.Join(w.Close(), direct.Close(), end.Close(), start.Close(), g.Close()); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(h.Close(), x.Close(), y.Close(), z.Close(), other.Close()); err != nil {
		t.Error(err)
	}
	if !slices.Equal(q.buffers, nil) || len(q.pinned) > 0 {
		t.Error("the queue still knows what was closed")
	}
	fmt.Println("close:", q.Close())
}

// pinnedError says why a pinned array cannot be used.
func pinnedError(p *Pinned) error { return p.q.here(p.home, "pinned array "+p.Name) }
