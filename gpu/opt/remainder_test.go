package opt

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
)

// TestRemainder divides numbers around the edges in all four ways, with quotients in
// front of remainders, behind them, and in a branch.
func TestRemainder(t *testing.T) {
	numbers := []uint64{1, 2, 3, 7, 31, 1 << 31, 1<<31 - 1, 1<<32 - 1, 1<<32 - 3, 1 << 63, 1<<63 - 1, 1<<64 - 1, 1<<64 - 7}
	d := &drawer{b: code.NewBuilder("p").At(at(1))}
	mem := d.b.Pointer("p", "u8")
	d.b.Func().Launch.Block = 1
	store := func(n int, v code.Value) {
		if d.b.Func().Type(v) == code.B32 {
			v = d.raw(code.OpZext32, nil, v)
		}
		d.b.StGlobalV(mem, 8*n, 0, d.raw(code.OpTrunc32, nil, v), d.raw(code.OpTrunc32, nil, d.raw(code.OpShrU64, nil, v, d.b.Const32(32))))
	}
	n, rems := 64, 0
	for _, ops := range [][2]code.Op{{code.OpDivU32, code.OpRemU32}, {code.OpDivS32, code.OpRemS32}, {code.OpDivU64, code.OpRemU64}, {code.OpDivS64, code.OpRemS64}} {
		for i := range numbers {
			for j := range numbers {
				load := func(k int) code.Value {
					lo := d.b.LdGlobal(4, mem, 8*k, 0)
					if ops[0].Row().In[0] == code.B32 {
						return lo
					}
					hi := d.b.LdGlobal(4, mem, 8*k+4, 0)
					return d.raw(code.OpOr64, nil, d.raw(code.OpZext32, nil, lo), d.raw(code.OpShl64, nil, d.raw(code.OpZext32, nil, hi), d.b.Const32(32)))
				}
				x, y := load(i), load(j)
				if ops[0].Row().In[0] == code.B32 && uint32(numbers[j]) == 0 {
					continue
				}
				switch (i + j) % 3 {
				case 0:
					store(n, d.raw(ops[0], nil, x, y))
					store(n+1, d.raw(ops[1], nil, x, y))
				case 1:
					store(n, d.raw(ops[1], nil, x, y))
					store(n+1, d.raw(ops[0], nil, x, y))
				case 2:
					store(n, d.raw(ops[1], nil, x, y))
					d.b.If(d.raw(code.OpSetpU32, []int64{int64(code.NE)}, d.b.LdGlobal(4, mem, 0, 0), d.b.Const32(0)), func() []code.Value {
						store(n+1, d.raw(ops[0], nil, x, y))
						return nil
					}, nil)
				}
				n, rems = n+2, rems+1
			}
		}
	}
	f, err := d.b.Done()
	if err != nil {
		t.Fatal(err)
	}
	result := func(f *code.Func) []byte {
		data := make([]byte, 8*n)
		for i, x := range numbers {
			binary.LittleEndian.PutUint64(data[8*i:], x)
		}
		if _, err := sim.Run(context.Background(), f, sim.Launch{Grid: [3]int{1}, Args: []sim.Arg{{Buffer: data}}}, sim.Options{}); err != nil {
			t.Fatal(err)
		}
		return data
	}
	g := Clone(f)
	if !Remainder(g) {
		t.Fatal("nothing changes")
	}
	if err := code.Verify(g).Err(); err != nil {
		t.Fatal(err)
	}
	if text := code.Format(g); strings.Contains(text, "rem.") {
		t.Errorf("remainders are left:\n%s", text)
	}
	if !bytes.Equal(result(f), result(g)) {
		t.Error("results differ")
	}
	if rems < 400 {
		t.Errorf("only %d remainders", rems)
	}
}

// TestRemainderAlone leaves a remainder whose quotient nobody wants, or is wanted in a
// branch that ends in front of it.
func TestRemainderAlone(t *testing.T) {
	d := &drawer{b: code.NewBuilder("p").At(at(1))}
	mem, x, y := d.b.Pointer("p", "u8"), d.b.Scalar("x", code.B32, "i32"), d.b.Scalar("y", code.B32, "i32")
	d.b.Func().Launch.Block = 1
	d.b.If(d.raw(code.OpSetpU32, []int64{int64(code.NE)}, y, d.b.Const32(0)), func() []code.Value {
		d.b.StGlobal(4, mem, 0, 0, d.raw(code.OpDivU32, nil, x, y))
		return nil
	}, nil)
	d.b.StGlobal(4, mem, 4, 0, d.raw(code.OpRemU32, nil, x, y))
	d.b.StGlobal(4, mem, 8, 0, d.raw(code.OpDivS32, nil, x, y))
	f, err := d.b.Done()
	if err != nil {
		t.Fatal(err)
	}
	if Remainder(f) {
		t.Errorf("changes\n%s", code.Format(f))
	}
}
