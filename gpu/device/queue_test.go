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
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestQueueFailures runs a queue under the stand-in for the driver.
func TestQueueFailures(t *testing.T) {
	underStub(t, "^TestQueueChild$", map[string][]string{
		"works":  {"wait: <nil>", "again: <nil>", "peer: <nil>", "close: <nil>"},
		"memory": {"buffer x", "CUDA_ERROR_OUT_OF_MEMORY"},
		"third":  {"broke the GPU context", "third at t.tile:1:9 (launch 3)", "the buffers x, y are lost", "a new context is in its place", "old: device: buffer x was lost when one of the programs first at", "again: <nil>", "close: <nil>"},
		"stuck":  {"wait: device: program first at t.tile:1:9 (launch 1) broke the GPU context", "the driver gives this process no other context, and a new process has one in its place", "the buffers x, y are lost", "again: device: program fifth at t.tile:1:9 (launch 2) broke", "close: <nil>"},
		// A queue whose process is given no context goes on in another.
		"stuck+works": {"wait: device: program first at", "old: device: buffer x was lost when program first at t.tile:1:9 (launch 1) broke its context; make it again", "again: <nil>", "wait again: <nil>", "peer: <nil>", "close: <nil>"},
		"stuck+crash": {"again: device: program fifth at t.tile:1:9 (launch 2): the process that held the GPU ended", "a new process has one in its place"},
		"stuck+old":   {"wait: device: program first at", "no other context can be made", "buffers: device: buffer x: cuda: cuCtxCreate", "nor has another process one", "close: <nil>"},
		"hang":        {"first at t.tile:1:9 (launch 1): the launch had not ended after", "close: <nil>"},
	})
}

// TestNoKeeperQueue loses the context of a queue in a program that never calls Keeper.
func TestNoKeeperQueue(t *testing.T) {
	t.Setenv("TEST_NO_KEEPER", "1")
	underStub(t, "^TestQueueChild$", map[string][]string{
		"stuck": {"broke the GPU context", "no other context can be made: the driver refuses a process in which a program has broken a context", "the buffers x, y are lost", "old: device: fourth: cuda", "buffers: device: buffer x: cuda: cuCtxCreate", "pinned: device: pinned array h: cuda", "mark: device: mark: cuda", "close: <nil>"},
	})
}

// TestQueueChild queues three programs and waits.
func TestQueueChild(t *testing.T) {
	if os.Getenv("STUB") == "" {
		t.Skip("a child of TestQueueFailures")
	}
	q, err := NewQueue("cuda")
	if err != nil {
		t.Fatal(err)
	}
	buffers := func() (x, y *Buffer, err error) {
		if x, err = q.NewBuffer("x", dtype.F32, 64); err == nil {
			y, err = q.NewBuffer("y", dtype.F32, 64)
		}
		return x, y, err
	}
	x, y, err := buffers()
	if err != nil {
		fmt.Println("buffers:", err)
		return
	}
	launch := func(name string) error {
		p := program(t, strings.Replace(scale, "program scale", "program "+name, 1))
		_, err := q.Launch(p, Value{Buffer: x}, Value{Buffer: y}, Value{Int: 64}, Value{Float: 2}, Value{})
		return err
	}
	for _, name := range []string{"first", "second", "third"} {
		if err = launch(name); err != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err == nil {
		err = q.Wait(ctx)
	}
	fmt.Println("wait:", err)
	if lost := (*Lost)(nil); errors.As(err, &lost) {
		fmt.Println("old:", launch("fourth"))
		if x, y, err = buffers(); err != nil {
			fmt.Println("buffers:", err)
			_, err := q.NewPinned("h", dtype.F32, 64)
			fmt.Println("pinned:", err)
			_, err = q.Mark()
			fmt.Println("mark:", err)
			fmt.Println("close:", q.Close())
			return
		}
	}
	if !q.unended {
		fmt.Println("again:", launch("fifth"))
		fmt.Println("wait again:", q.Wait(ctx))
		other, err := NewQueue("cuda")
		if err != nil {
			t.Fatal(err)
		}
		z, err := other.NewBuffer("z", dtype.F32, 64)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("peer:", y.CopyTo(z))
		a := array.New(dtype.F32, 64)
		if err := z.Read(a); err != nil {
			t.Error(err)
		}
		if err := errors.Join(z.Close(), other.Close(), x.Close(), y.Close()); err != nil {
			t.Error(err)
		}
	}
	fmt.Println("close:", q.Close())
}

// TestWorkspaces launches a program with memory of its own under the stand-in for the
// driver: workspaces are used again, those that must hold zeros apart from the others. And
// a driver with twelve GPUs gives each of them.
func TestWorkspaces(t *testing.T) {
	underStub(t, "^TestWorkspacesChild$", map[string][]string{
		"many": {"last: cuda:11 <nil>", "after 1: 2 clean of 16 and 96 bytes, 1 dirty of 2048", "after 5: 2 clean of 16 and 96 bytes, 1 dirty of 2048", "beyond: device: no NVIDIA GPU number 12; this machine has 12", "close: <nil>"},
	})
}

func TestWorkspacesChild(t *testing.T) {
	if os.Getenv("STUB") == "" {
		t.Skip("a child of TestWorkspaces")
	}
	d, err := Open("cuda:11")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("last:", d.Name(), d.Close())
	_, err = Open("cuda:12")
	fmt.Println("beyond:", err)
	q, err := NewQueue("cuda:11")
	if err != nil {
		t.Fatal(err)
	}
	p := program(t, corpus.Program("allocate_global"))
	var args []Value
	for _, x := range []struct {
		t dtype.Type
		n int
	}{{dtype.F32, 4 * 3 * 128}, {dtype.F32, 128}, {dtype.U3, 64}} {
		b, err := q.NewBuffer("b", x.t, x.n)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, Value{Buffer: b})
	}
	args = append(args, Value{Int: 4}, Value{Int: 128})
	for i := 1; i <= 5; i++ {
		if _, err := q.Launch(p, args...); err != nil {
			t.Fatal(err)
		}
		var sizes []int
		clean, dirty := 0, 0
		for n, list := range q.clean {
			sizes, clean = append(sizes, n), clean+len(list)
		}
		slices.Sort(sizes)
		fmt.Printf("after %d: %d clean of %d and %d bytes,", i, clean, sizes[0], sizes[len(sizes)-1])
		for n, list := range q.dirty {
			dirty += len(list)
			fmt.Printf(" %d dirty of %d\n", dirty, n)
		}
	}
	if err := q.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	for _, a := range args[:3] {
		if err := a.Buffer.Close(); err != nil {
			t.Error(err)
		}
	}
	fmt.Println("close:", q.Close())
}

// TestGPUQueue launches programs without waiting, on a GPU: each sees what the one before
// it stored, and buffers are copied between queues.
func TestGPUQueue(t *testing.T) {
	q, err := NewQueue("cuda")
	if errors.Is(err, ErrNoGPU) {
		t.Skipf("no GPU here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	last := "cuda:1"
	other, err := NewQueue(last)
	if errors.Is(err, ErrNoGPU) {
		other, err = NewQueue("cuda")
	}
	if err != nil {
		t.Fatal(err)
	}
	p := program(t, scale)
	a, err := array.Generate("ones:f32[64]")
	if err != nil {
		t.Fatal(err)
	}
	x, err := q.NewBuffer("x", a.Type, 64)
	if err != nil {
		t.Fatal(err)
	}
	y, err := q.NewBuffer("y", a.Type, 64)
	if err != nil {
		t.Fatal(err)
	}
	z, err := other.NewBuffer("z", a.Type, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Write(a); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		for _, v := range [][2]*Buffer{{x, y}, {y, x}} {
			if _, err := q.Launch(p, Value{Buffer: v[0]}, Value{Buffer: v[1]}, Value{Int: 64}, Value{Float: 2}, Value{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := x.CopyTo(z); err != nil {
		t.Fatal(err)
	}
	got := array.New(a.Type, 64)
	if err := z.Read(got); err != nil {
		t.Fatal(err)
	}
	if got.At(0) != 1024 || got.At(63) != 1024 {
		t.Errorf("ten launches gave %v, must be 1024", got.At(0))
	}
	if err := errors.Join(x.Close(), y.Close(), z.Close(), other.Close(), q.Close()); err != nil {
		t.Error(err)
	}
}
