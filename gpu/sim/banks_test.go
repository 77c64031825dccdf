package sim

import (
	"context"
	"sync"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
)

// TestBankConflicts runs stores and loads of known strides: the counters are those of
// gpu/model/bank, and OnShared is told the same accesses.
func TestBankConflicts(t *testing.T) {
	for _, c := range []struct {
		stride                 int64
		active                 int // lanes
		wavefronts, ideal      int64
		wideWavefronts, ideal4 int64 // the same with 16 bytes a lane
	}{
		{4, 32, 1, 1, 0, 0},
		{128, 32, 32, 1, 32, 4},
		{16, 32, 4, 1, 4, 4},
		{144, 32, 4, 1, 4, 4},
		{64, 7, 4, 1, 4, 1},
		{0, 32, 1, 1, 4, 4},
	} {
		for _, wide := range []bool{false, true} {
			wavefronts, ideal, width := c.wavefronts, c.ideal, 4
			if wide {
				wavefronts, ideal, width = c.wideWavefronts, c.ideal4, 16
			}
			if wavefronts == 0 {
				continue
			}
			f := kernel(t, 64, 16384, nil, func(b *code.Builder, _ []code.Value) {
				tid := b.TidX()
				lane := b.And32(tid, b.Const32(31))
				base := b.Add32(b.SharedBase(), b.Mul32(b.Shr32(tid, b.Const32(5)), b.Const32(8192)))
				in := []code.Value{b.Add32(base, b.Mul32(lane, b.Const32(c.stride))), tid}
				op := code.OpStSharedB32
				if wide {
					op, in = code.OpStSharedV4B32, append(in, tid, tid, tid)
				}
				b.Add(&code.Instr{Op: op, Imm: []int64{0}, In: in, Guard: b.SetpU32(code.LT, lane, b.Const32(int64(c.active)))})
			})
			var mu sync.Mutex
			var told int64
			st, err := Run(context.Background(), f, Launch{Grid: [3]int{3}}, Options{Fast: true, OnShared: func(a SharedAccess) {
				r, err := bank.Count(bank.Nvidia(), a.Access)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || a.Access.Width != width || a.Access.Kind != bank.Store {
					t.Errorf("told of %+v: %v", a.Access, err)
				}
				told += int64(r.Wavefronts)
			}})
			if err != nil {
				t.Fatal(err)
			}
			const warps = 2 * 3
			if st.SharedWavefronts != warps*wavefronts || st.SharedIdeal != warps*ideal || told != st.SharedWavefronts {
				t.Errorf("stride %d, %d bytes: %d wavefronts, ideal %d, told %d; want %d, %d", c.stride, width, st.SharedWavefronts, st.SharedIdeal, told, warps*wavefronts, warps*ideal)
			}
			n := st.Counters()
			if n["shared_bank_conflicts"] != warps*(wavefronts-ideal) {
				t.Errorf("counters %v", n)
			}
		}
	}
}
