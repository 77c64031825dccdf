package debug

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

const sum = `program sums<2>(x: *i32, y: *i32, n: i32) warps=1 {
	bi = BlockIndices()
	gx = ViewGlobal(x) : global i32[n, 32]
	gy = ViewGlobal(y) : global i32[2, 32]
	acc = AllocateRegister(init=0) : register i32[32] spatial(32)
	for k in 0..n {
		row = LoadGlobal(gx, offset=[k, 0], dims=[1]) : register i32[32] spatial(32)
		acc = Add(acc, row) : register i32[32] spatial(32)
	}
	StoreGlobal(gy, acc, offset=[bi, 0], dims=[1])
}
`

func start(t *testing.T, src string, n int) *Session {
	t.Helper()
	p, err := text.Parse("sums.tile", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := array.Generate(fmt.Sprintf("iota:i32[%d, 32]", n))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(p, []ir.Arg{{Array: x}, {Array: array.New(p.Params[1].Type.Elem, 2, 32)}, {Int: int64(n)}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at says where a session stands: line, k and the first element of acc.
func at(s *Session) string {
	k, acc := "-", "-"
	for _, v := range s.Variables() {
		switch v.Var.Name {
		case "k":
			k = fmt.Sprint(v.Int)
		case "acc":
			acc = fmt.Sprint(v.Tile.At(0))
		}
	}
	return fmt.Sprintf("%d block %d k=%s acc=%s", s.Position().Line, s.Machine().BlockIndex()[0], k, acc)
}

// TestSteps goes through a loop and back, statement by statement.
func TestSteps(t *testing.T) {
	ctx := context.Background()
	s := start(t, sum, 300)
	want := func(why Why, is Why, place string) {
		t.Helper()
		if got := at(s); why != is || got != place {
			t.Fatalf("%s at %q, not %s at %q", why, got, is, place)
		}
	}
	if list := s.Set([]Breakpoint{{Line: 8, Condition: "k == 3"}, {Line: 99}, {Line: 8, Condition: "q == 3"}, {Line: 9, Block: []int{1}}}); list[0].At != 8 || list[0].Problem != "" || list[1].Problem == "" || !strings.Contains(list[2].Problem, "there is no q here") || list[3].At != 10 {
		t.Fatalf("%+v", list)
	}
	want(s.Continue(ctx), Breaks, "8 block 0 k=3 acc=96")
	if n, err := s.Eval("k*2 + n"); err != nil || n != 306 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := s.Eval("k +"); err == nil {
		t.Error("half an expression has a value")
	}
	want(s.In(ctx), Stepped, "7 block 0 k=4 acc=192")
	want(s.Back(), Stepped, "8 block 0 k=3 acc=96")
	want(s.Back(), Stepped, "7 block 0 k=3 acc=96")
	want(s.Out(ctx), Breaks, "8 block 0 k=3 acc=96") // a breakpoint stops every run
	want(s.Out(ctx), Stepped, "10 block 0 k=- acc=1.4352e+06")
	want(s.ReverseContinue(ctx), Breaks, "8 block 0 k=3 acc=96")
	want(s.ReverseContinue(ctx), Beginning, "2 block 0 k=- acc=-")
	want(s.Back(), Beginning, "2 block 0 k=- acc=-")
	s.Set(nil)
	for range 4 {
		s.Over(ctx)
	}
	want(s.Over(ctx), Stepped, "10 block 0 k=- acc=1.4352e+06")
	s.Set([]Breakpoint{{Line: 10, Block: []int{1}}})
	want(s.Continue(ctx), Breaks, "10 block 1 k=- acc=1.4352e+06")
	for s.Back() == Stepped && s.Position().Line != 5 {
	}
	want(Stepped, Stepped, "5 block 1 k=- acc=-")
	want(s.Continue(ctx), Breaks, "10 block 1 k=- acc=1.4352e+06")
	want(s.Continue(ctx), Terminated, "0 block 0 k=- acc=-")
	want(s.Back(), Stepped, "10 block 1 k=- acc=1.4352e+06")
	if n := len(s.points); n > maxCheckpoints {
		t.Errorf("%d checkpoints", n)
	}
}

// TestFault stops where a program goes wrong, and goes back from there.
func TestFault(t *testing.T) {
	ctx := context.Background()
	s := start(t, strings.Replace(sum, "acc = AllocateRegister(init=0)", "acc = AllocateRegister()", 1), 4)
	if why := s.Continue(ctx); why != Fault || !strings.Contains(s.Err().Error(), "Run.E3") || s.Position().Line != 8 {
		t.Fatalf("%s: %v", why, s.Err())
	}
	if why := s.Continue(ctx); why != Fault {
		t.Errorf("%s behind a fault", why)
	}
	if why := s.Back(); why != Stepped || s.Err() != nil || s.Position().Line != 7 {
		t.Errorf("%s at %v: %v", why, s.Position(), s.Err())
	}
	if why := s.In(ctx); why != Stepped || s.Position().Line != 8 {
		t.Errorf("%s at %v", why, s.Position())
	}
	if why := s.In(ctx); why != Fault {
		t.Errorf("%s at %v", why, s.Position())
	}
}

// TestPause ends a run whose context ends.
func TestPause(t *testing.T) {
	s := start(t, sum, 300)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if why := s.Continue(ctx); why != Paused {
		t.Errorf("%s", why)
	}
}
