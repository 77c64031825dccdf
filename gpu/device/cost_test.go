package device

import (
	"context"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestCost counts what can be counted by hand, from all blocks and from a sample.
func TestCost(t *testing.T) {
	p := program(t, `program columns<n/64>(x: *f32, y: *f32, n: i32) warps=2 {
	i = BlockIndices()
	gx = ViewGlobal(x) : global f32[n]
	gy = ViewGlobal(y) : global f32[n]
	s = AllocateShared() : shared f32[64, 32] shared_row_major(64, 32)
	r = LoadGlobal(gx, offset=[i*64]) : register f32[64] spatial(64)
	r = Fma(r, 2.0, r) : register f32[64] spatial(64)
	StoreShared(s, r, offset=[0, 0], dims=[0])
	StoreGlobal(gy, r, offset=[i*64])
}
`)
	x, _ := array.Generate("iota:f32[1024]")
	args := []ir.Arg{{Array: x}, {Array: array.New(x.Type, 1024)}, {Int: 1024}}
	for _, blocks := range []int{0, 4} {
		c, err := Cost(context.Background(), p, args, "sm_80", blocks)
		if err != nil {
			t.Fatal(err)
		}
		if c.Flops != 2*1024 || c.LoadBytes != 4096 || c.StoreBytes != 4096 || c.Requests != 64 || c.Sectors != 256 || c.IdealSectors != 256 {
			t.Errorf("%d blocks: %+v", blocks, c)
		}
		// All lanes of a warp store to one bank.
		if c.Conflicts() != 31*32 || c.Shared != 64*32*4 || c.Threads != 64 || c.Blocks != 16 {
			t.Errorf("%d blocks: %d conflicts, %+v", blocks, c.Conflicts(), c)
		}
		if c.Registers < 8 || c.Registers > 24 || c.Occupancy.Blocks != 18 || c.Occupancy.Limit != "shared memory" {
			t.Errorf("%d registers, %+v", c.Registers, c.Occupancy)
		}
	}
}

// TestCostOfTurns counts a program whose blocks wait for each other.
func TestCostOfTurns(t *testing.T) {
	p := program(t, corpus.Program("semaphore"))
	x, _ := array.Generate("ones:f32[6, 128]")
	turn, _ := array.Generate("zeros:i32[1]")
	c, err := Cost(context.Background(), p, []ir.Arg{{Array: x}, {Array: array.New(x.Type, 128)}, {Array: turn}, {Int: 6}}, "", 2)
	if err != nil || c.Ran != 6 || c.LoadBytes < 2*6*512 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestCostOfPuts counts a program whose blocks wait for what others put: rows of 248 words, of which the last of four is not handed on.
func TestCostOfPuts(t *testing.T) {
	x, _ := array.Generate("ones:f32[4, 248]")
	p := program(t, corpus.Program("put_global"))
	c, err := Cost(context.Background(), p, []ir.Arg{{Array: x}, {Array: array.New(x.Type, 4, 248)}, {Array: array.New(x.Type, 4, 248)}, {Int: 4}, {Int: 62}}, "", 2)
	if row := int64(4 * 248); err != nil || c.Ran != 4 || int64(c.LoadBytes) != (4+3)*row || int64(c.StoreBytes) != (4+3+3)*row {
		t.Errorf("%+v, %v", c, err)
	}
}
