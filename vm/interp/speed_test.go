package interp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// tiled is a product of 512 × 512 × 512 in blocks of 64 × 64 over 4 warps, with
// 4-bit weights that are unpacked in registers.
const tiled = `program tiled<M/64, N/64>(a: *f16, b: *u4, c: *f32, M: i32, N: i32, K: i32) warps=4 {
	bi, bj = BlockIndices()
	ga = ViewGlobal(a) : global f16[M, K]
	gb = ViewGlobal(b) : global u4[K, N]
	gc = ViewGlobal(c) : global f32[M, N]
	acc = AllocateRegister(init=0) : register f32[64, 64] spatial(2, 2).local(2, 4).local(2, 1).spatial(8, 4).local(1, 2)
	for k in 0..K/32 {
		ra = LoadGlobal(ga, offset=[bi*64, k*32]) : register f16[64, 32] spatial(2, 1).replicated(1, 1, num_workers=2).local(2, 2).column_local(2, 2).spatial(8, 4).local(1, 2)
		rw = LoadGlobal(gb, offset=[k*32, bj*64]) : register u4[32, 64] replicated(1, 1, num_workers=2).spatial(1, 2).local(2, 4).local(2, 1).column_spatial(4, 8).local(2, 1)
		rb = Cast(rw) : register f16[32, 64] replicated(1, 1, num_workers=2).spatial(1, 2).local(2, 4).local(2, 1).column_spatial(4, 8).local(2, 1)
		acc = Dot(ra, rb, acc) : register f32[64, 64] spatial(2, 2).local(2, 4).local(2, 1).spatial(8, 4).local(1, 2)
	}
	StoreGlobal(gc, acc, offset=[bi*64, bj*64])
}
`

func TestLowBitProductIsFast(t *testing.T) {
	if testing.Short() {
		t.Skip("a product of 512 × 512 × 512 takes seconds")
	}
	for _, kind := range []string{"randint", "rand"} {
		args := matmulArgs(t, 512, kind)
		start := time.Now()
		if _, err := run(t, tiled, args...); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		t.Logf("%s: %v", kind, took)
		if took > 10*time.Second {
			t.Errorf("512 × 512 × 512 of %s took %v", kind, took)
		}
	}
}

// TestCancelWithinAnInstruction stops a machine in the middle of a large product.
func TestCancelWithinAnInstruction(t *testing.T) {
	const big = `program p<1>() warps=1 {
	a = AllocateRegister(init=1) : register f32[1024, 1024] spatial(32, 1).local(32, 1024)
	b = AllocateRegister(init=1) : register f32[1024, 1024] spatial(32, 1).local(32, 1024)
	c = AllocateRegister(init=0.3) : register f32[1024, 1024] spatial(32, 1).local(32, 1024)
	d = Dot(a, b, c) : register f32[1024, 1024] spatial(32, 1).local(32, 1024)
}
`
	m, err := New(parse(t, big), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := m.Step(); err != nil {
			t.Fatal(err)
		}
	}
	late := time.Duration(0)
	for range 4 { // another program may have the processors when the word comes
		ctx, cancel := context.WithCancel(context.Background())
		var at time.Time
		time.AfterFunc(100*time.Millisecond, func() { at = time.Now(); cancel() })
		if err = m.Run(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "t.tile:5:6: interrupted; block (0, 0, 0) stood here") {
			t.Fatalf("the end: %v", err)
		}
		if late = time.Since(at); late <= 50*time.Millisecond {
			break
		}
	}
	if late > 50*time.Millisecond {
		t.Errorf("stopped %v after being told to", late)
	}
	if next := fmt.Sprint(m.Next().Position().Line); m.Done() || next != "5" {
		t.Errorf("the next statement is in line %s, not 5", next)
	}
}

func matmulArgs(t *testing.T, n int, kind string) []ir.Arg {
	return []ir.Arg{
		gen(t, fmt.Sprintf("%s:f16[%d, %d]:seed=1", kind, n, n)), gen(t, fmt.Sprintf("randcode:u4[%d, %d]:seed=2", n, n)), gen(t, fmt.Sprintf("zeros:f32[%d, %d]", n, n)),
		{Int: int64(n)}, {Int: int64(n)}, {Int: int64(n)},
	}
}
