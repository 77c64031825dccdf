package cost

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// TestLoops counts a loop that swaps two values it carries, loads at a carried
// pointer under a guard and stores at an address that it computes, with a loop
// inside that only adds.
func TestLoops(t *testing.T) {
	pos := func(line int) diag.Pos { return diag.Pos{File: "t.tile", Line: line, Col: 1} }
	b := code.NewBuilder("f").At(pos(1))
	p, n := b.Pointer("p", "f32"), b.Scalar("n", code.B32, "i32")
	b.Func().Launch.Block = 32
	guard := b.SetpS32(code.LT, b.TidX(), n)
	zero, one := b.Const32(0), b.Const32(1)
	out := b.At(pos(2)).For(zero, n, one, 1, []code.Value{n, b.TidX(), p}, func(i code.Value, c []code.Value) []code.Value {
		x := b.Guarded(guard, code.OpLdGlobalB32, []int64{0, 0}, []code.Value{c[2]}, zero)[0]
		sum := b.At(pos(3)).For(zero, i, one, 1, []code.Value{x}, func(_ code.Value, c []code.Value) []code.Value {
			return []code.Value{b.Add32(c[0], n)}
		})[0]
		b.At(pos(2))
		to := b.Emit1(code.OpMadWideS32, nil, b.Emit1(code.OpMinS32, nil, i, n), b.Const32(4), p)
		b.StGlobal(4, to, 16, 0, b.Xor32(sum, c[0]))
		return []code.Value{c[1], c[0], b.Add64(c[2], b.Const64(4))}
	})
	b.StGlobal(4, p, 0, 0, b.Add32(out[0], out[1]))
	f, err := b.Done()
	if err != nil {
		t.Fatal(err)
	}
	loops := Loops(f)
	if len(loops) != 2 || loops[0].Pos != pos(2) || loops[1].Pos != pos(3) || loops[0].Depth != 1 || loops[1].Depth != 2 {
		t.Fatalf("%+v", loops)
	}
	l := loops[0]
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"instructions", l.Instrs, 7}, // ld, for, min, mad, xor, st, add
		{"loads of 4 bytes", l.Loads[4], 1},
		{"stores of 4 bytes", l.Stores[4], 1},
		{"guarded", l.Guarded, 1},
		{"pointers", l.Pointers, 2},
		{"additions", l.Adds, 2},
		{"steps", l.Steps, 1},
		{"moves", l.Moves, 3}, // two registers through a third
		{"fills", l.Fills, 2}, // what the load starts from and the inner loop's variable
		{"inner instructions", loops[1].Instrs, 1},
		{"inner pure", loops[1].Classes[code.Pure], 1},
		{"inner moves", loops[1].Moves + loops[1].Fills, 0},
		{"inner pointers", loops[1].Pointers, 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	report := Report(f)
	for _, want := range []string{"threads         32 in each block\n", "t.tile:3:1, 2 deep\n", "loads of 4 bytes", "  additions for them", "total"} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
}
