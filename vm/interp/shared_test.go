package interp_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

const pipeline = `program p<1>(a: *f16, c: *f16, n: i32) warps=2 {
	ga = ViewGlobal(a) : global f16[128, 64]
	gc = ViewGlobal(c) : global f16[128, 64]
	s = AllocateShared() : shared f16[2, 16, 64] shared_row_major_swizzle([16, 64], 2).prepend_dim(2)
	s0 = SliceShared(s, offset=[0, 0, 0]) : shared f16[16, 64] shared_row_major_swizzle([16, 64], 2)
	CopyAsync(ga, s0, offset=[0, 0])
	CopyAsyncCommitGroup()
	for k in 0..n {
		next = SliceShared(s, offset=[(k + 1) % 2, 0, 0]) : shared f16[16, 64] shared_row_major_swizzle([16, 64], 2)
		CopyAsync(ga, next, offset=[(k + 1)*16, 0])
		CopyAsyncCommitGroup()
		CopyAsyncWaitGroup(n=1)
		Synchronize()
		x = LoadShared(s, offset=[k % 2, 0, 0]) : register f16[16, 64] spatial(16, 4).local(1, 16)
		StoreGlobal(gc, x, offset=[k*16, 0])
		Synchronize()
	}
	CopyAsyncWaitAll()
}
`

// Changes to a right program, and what the interpreter finds at which line.
func TestSharedMemory(t *testing.T) {
	const views = `program p<1>(a: *f16, c: *f16, n: i32) warps=2 {
	ga = ViewGlobal(a) : global f16[128, 64]
	gc = ViewGlobal(c) : global f16[128, 64]
	x = LoadGlobal(ga, offset=[0, 0]) : register f16[16, 64] spatial(16, 4).local(1, 16)
	s = AllocateShared() : shared f16[16, 64] shared_layout([16, 64], [16, 64], [72, 1])
	StoreShared(s, x)
	Synchronize()
	st = PermuteShared(s, dims=[1, 0]) : shared f16[64, 16] shared_layout([64, 16], [64, 16], [1, 72])
	part = SliceShared(st, offset=[n, 0]) : shared f16[32, 16] shared_layout([32, 16], [32, 16], [1, 72])
	y = LoadShared(part) : register f16[32, 16] spatial(32, 2).local(1, 8)
	FreeShared(s)
	Synchronize()
	b = AllocateShared() : shared f16[32, 16] shared_row_major(32, 16)
	StoreShared(b, y)
	Synchronize()
	z = LoadShared(b) : register f16[32, 16] local(1, 8).spatial(32, 2)
	StoreGlobal(gc, z, offset=[0, 0])
}
`
	for _, c := range []struct {
		name, src, old, new, code string
		line                      int
	}{
		{"right", pipeline, "", "", "", 0},
		{"views", views, "", "", "", 0},
		{"no wait", pipeline, "\t\tCopyAsyncWaitGroup(n=1)\n", "", "Run.E11", 13},
		{"wait for too few", pipeline, "n=1", "n=2", "Run.E11", 14},
		{"no commit", pipeline, "\t\tCopyAsyncCommitGroup()\n", "", "Run.E11", 13},
		{"no barrier after the wait", pipeline, "n=1)\n\t\tSynchronize()\n", "n=1)\n", "Run.E4", 13},
		{"no barrier before the next copy", pipeline, "\t\tSynchronize()\n\t}", "\t}", "Run.E4", 10},
		{"outside", pipeline, "offset=[k % 2,", "offset=[k,", "Run.E10", 14},
		{"never written", pipeline, "offset=[k % 2, 0, 0]", "offset=[1 - k, 0, 0]", "Run.E11", 14},
		{"no barrier after a store", views, "x)\n\tSynchronize()\n", "x)\n", "Run.E4", 9},
		{"unset", views, "\tStoreShared(s, x)\n", "", "Run.E9", 9},
		{"slice outside", views, "offset=[n, 0]) : shared", "offset=[n + 31, 0]) : shared", "Run.E10", 9},
		{"memory taken too early", views, "FreeShared(s)\n\tSynchronize()", "FreeShared(s)", "Run.E4", 13},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := c.src
			if c.old != "" {
				if src = strings.Replace(src, c.old, c.new, 1); src == c.src {
					t.Fatal("nothing replaced")
				}
			}
			p, err := text.Parse("t.tile", src, nil)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := text.Parse("t.tile", text.Format(p), nil); err != nil || text.Format(again) != text.Format(p) {
				t.Fatalf("%v does not read back:\n%s", err, text.Format(p))
			}
			a, err := array.Generate("randint:f16[128, 64]:seed=1")
			if err != nil {
				t.Fatal(err)
			}
			m, err := interp.New(p, []ir.Arg{{Array: a}, {Array: array.New(a.Type, 128, 64)}, {Int: 4}})
			if err != nil {
				t.Fatal(err)
			}
			var snap *interp.Snapshot
			for steps := 0; !m.Done() && err == nil; steps++ {
				if steps == 12 {
					snap = m.Snapshot()
				}
				err = m.Step()
			}
			var list diag.List
			if c.code != "" {
				if !errors.As(err, &list) || list[0].Code != c.code || list[0].Pos.Line != c.line {
					t.Fatalf("want %s in line %d, got %v", c.code, c.line, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			check := func() {
				t.Helper()
				got := m.Args()[1].Array
				for i := range 64 {
					for j := range 64 {
						want := a.At(i, j)
						if c.name == "views" {
							if want = 0; i < 32 && j < 16 {
								want = a.At(j, i+4)
							}
						}
						if got.At(i, j) != want {
							t.Fatalf("[%d, %d] is %v, want %v", i, j, got.At(i, j), want)
						}
					}
				}
			}
			check()
			m.Restore(snap)
			if err := m.Run(context.Background()); err != nil {
				t.Fatalf("after going back: %v", err)
			}
			check()
		})
	}
}
