package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestGraphFailures uses pinned arrays, marks and graphs under the stand-in for the driver.
func TestGraphFailures(t *testing.T) {
	underStub(t, "^TestGraphChild$", map[string][]string{
		"works":  {"run 3: <nil>", "since: 500µs <nil>", "wait for: <nil>", "two queues: device: buffer x and pinned array h are of two queues", "closed buffer: device: graph twice of scale, scale: device: buffer y", "again: device: graph twice of scale, scale: cuda: used after Close", "close: <nil>"},
		"pinned": {"pinned array h", "CUDA_ERROR_OUT_OF_MEMORY"},
		"third":  {"graph twice of scale, scale (launch 6) broke the GPU context", "x, y, h are lost", "lost array: 0 bytes", "copy: device: pinned array h was lost when program graph twice of scale, scale (launch 6) broke its context; make it again", "again: device: graph twice of scale, scale was lost when program graph twice", "mark: device: the mark was lost when program graph twice", "close: <nil>"},
		"hang":   {"write x (launch 1): the launch had not ended after"},
	})
}

// TestGraphChild runs a graph of two launches three times between marks.
func TestGraphChild(t *testing.T) {
	if os.Getenv("STUB") == "" {
		t.Skip("a child of TestGraphFailures")
	}
	q, err := NewQueue("cuda")
	if err != nil {
		t.Fatal(err)
	}
	x, err := q.NewBuffer("x", dtype.F32, 64)
	if err != nil {
		t.Fatal(err)
	}
	y, err := q.NewBuffer("y", dtype.F32, 64)
	if err != nil {
		t.Fatal(err)
	}
	h, err := q.NewPinned("h", dtype.F32, 64)
	if err != nil {
		fmt.Println("pinned:", err)
		return
	}
	p := program(t, scale)
	call := func(a, b *Buffer) Call {
		return Call{p, []Value{{Buffer: a}, {Buffer: b}, {Int: 64}, {Float: 2}, {}}}
	}
	if _, err := q.NewGraph("short", Call{Program: p}); err == nil {
		t.Error("a graph of a call without arguments")
	}
	g, err := q.NewGraph("twice", call(x, y), call(y, x))
	if err != nil {
		t.Fatal(err)
	}
	start, err := q.Mark()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	for i := range 3 {
		if _, err := x.WriteFrom(h); err != nil {
			t.Fatal(err)
		}
		run, err := g.Launch()
		if err == nil {
			err = run.Wait(ctx)
		}
		fmt.Printf("run %d: %v\n", i+1, err)
		if q.unended {
			return
		}
	}
	if h.Array.Data == nil {
		_, err := x.ReadTo(h)
		fmt.Printf("lost array: %d bytes\ncopy: %v\n", len(h.Array.Data), err)
		_, err = g.Launch()
		fmt.Printf("again: %v\nmark: %v\n", err, start.Wait(ctx))
		fmt.Println("close:", errors.Join(g.Close(), start.Close(), h.Close(), x.Close(), y.Close(), q.Close()))
		return
	}
	end, err := q.Mark()
	if err != nil {
		t.Fatal(err)
	}
	if err := end.Wait(ctx); err != nil {
		t.Error(err)
	}
	took, err := end.Since(start)
	fmt.Println("since:", took, err)
	other, err := NewQueue("cuda")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("wait for:", other.WaitFor(end))
	foreign, err := other.NewBuffer("x", dtype.F32, 64)
	if err != nil {
		t.Fatal(err)
	}
	_, err = foreign.ReadTo(h)
	fmt.Println("two queues:", err)
	if err := errors.Join(foreign.Close(), other.Close(), y.Close()); err != nil {
		t.Error(err)
	}
	_, err = g.Launch()
	fmt.Println("closed buffer:", err)
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	_, err = g.Launch()
	fmt.Println("again:", err)
	fmt.Println("close:", errors.Join(start.Close(), end.Close(), h.Close(), h.Close(), x.Close(), q.Close()))
}

// TestGPUGraph runs a graph on a GPU between copies of pinned memory.
func TestGPUGraph(t *testing.T) {
	q, err := NewQueue("cuda")
	if errors.Is(err, ErrNoGPU) {
		t.Skipf("no GPU here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	x, errX := q.NewBuffer("x", dtype.F32, 64)
	y, errY := q.NewBuffer("y", dtype.F32, 64)
	h, errH := q.NewPinned("h", dtype.F32, 64)
	if err := errors.Join(errX, errY, errH); err != nil {
		t.Fatal(err)
	}
	ones, err := array.Generate("ones:f32[64]")
	if err != nil {
		t.Fatal(err)
	}
	copy(h.Array.Data, ones.Data)
	if _, err := x.WriteFrom(h); err != nil {
		t.Fatal(err)
	}
	p := program(t, scale)
	rest := []Value{{Int: 64}, {Float: 2}, {}}
	g, err := q.NewGraph("twice", Call{p, append([]Value{{Buffer: x}, {Buffer: y}}, rest...)}, Call{p, append([]Value{{Buffer: y}, {Buffer: x}}, rest...)})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := g.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.ReadTo(h); err != nil {
		t.Fatal(err)
	}
	if err := q.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := h.Array.At(63); got != 1024 {
		t.Errorf("ten launches gave %v, must be 1024", got)
	}
	if err := errors.Join(g.Close(), h.Close(), x.Close(), y.Close(), q.Close()); err != nil {
		t.Error(err)
	}
}
