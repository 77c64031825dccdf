package opt

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// TestRing runs loops with remainders before and after the pass: the same numbers,
// and a division left only where an index could wrap.
func TestRing(t *testing.T) {
	for _, c := range []struct {
		start, step int64
		add         []int64
		size        int64
		divisions   int // left
	}{
		{0, 1, []int64{0}, 3, 0},
		{0, 1, []int64{2, 0, 1}, 3, 0},
		{0, 1, []int64{5, 4, 3, 2}, 3, 0}, // 5 and 2 are the same
		{4, 3, []int64{1, 9}, 7, 0},
		{2, 5, []int64{-1, -2}, 3, 0},
		{1, 7, []int64{0, 1}, 5, 0},  // steps beyond the ring
		{0, 1, []int64{-1, 1}, 5, 1}, // -1 is a large number there
		{-2, 1, []int64{0, 2}, 5, 2}, // so is the start
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			d := &drawer{b: code.NewBuilder("p").At(at(1))}
			p := d.b.Pointer("p", "u8")
			d.b.Func().Launch.Block = 32
			// Built by hand: the builder would fold constants.
			d.b.For(d.b.Const32(c.start), d.b.Const32(c.start+20*c.step), d.b.Const32(c.step), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
				for k, n := range c.add {
					x := d.raw(code.OpRemU32, nil, d.raw(code.OpAdd32, nil, i, d.b.Const32(n)), d.b.Const32(c.size))
					turn := d.raw(code.OpDivU32, nil, d.raw(code.OpSub32, nil, i, d.b.Const32(c.start)), d.b.Const32(c.step))
					word := d.raw(code.OpAdd32, nil, d.raw(code.OpMul32, nil, turn, d.b.Const32(int64(len(c.add)))), d.b.Const32(int64(k)))
					d.b.StGlobal(4, d.raw(code.OpMadWideS32, nil, word, d.b.Const32(4), p), 0, 0, x)
				}
				return nil
			})
			f, err := d.b.Done()
			if err != nil {
				t.Fatal(err)
			}
			result := func(f *code.Func) []byte {
				th := thread{v: make([]uint64, len(f.Types)), mem: make([]byte, 4*20*len(c.add))}
				th.region(f.Body)
				return th.mem
			}
			want := result(f)
			g := Clone(f)
			Ring(g)
			if err := code.Verify(g).Err(); err != nil {
				t.Fatal(err)
			}
			if got := result(g); !bytes.Equal(got, want) {
				t.Errorf("got %v\nwant %v", got, want)
			}
			left := 0
			g.Body.Walk(func(in *code.Instr) {
				if in.Op == code.OpRemU32 {
					left++
				}
			})
			if left != c.divisions {
				t.Errorf("%d divisions are left, not %d\n%s", left, c.divisions, code.Format(g))
			}
		})
	}
}
