package opt

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// TestIndex counts what is left of formulas that are one number, and keeps those that
// only look like it.
func TestIndex(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(b *code.Builder, tid, n code.Value) code.Value
		block int
		left  int // instructions beside tid, constants and the store
	}{
		{"put together again", func(b *code.Builder, tid, _ code.Value) code.Value {
			q := b.Shr32(tid, b.Const32(2))
			return b.Add32(b.Mul32(q, b.Const32(4)), b.And32(tid, b.Const32(3)))
		}, 64, 0},
		{"a mask of what is smaller", func(b *code.Builder, tid, _ code.Value) code.Value { return b.And32(tid, b.Const32(63)) }, 64, 0},
		{"a mask that cuts", func(b *code.Builder, tid, _ code.Value) code.Value { return b.And32(tid, b.Const32(31)) }, 64, 1},
		{"two ways to one sum", func(b *code.Builder, tid, _ code.Value) code.Value {
			x := b.Add32(b.Shl32(tid, b.Const32(3)), tid)
			return b.Sub32(x, b.Mul32(tid, b.Const32(9)))
		}, 64, 0},
		{"what may wrap", func(b *code.Builder, _, n code.Value) code.Value {
			return b.Shr32(b.Shl32(n, b.Const32(2)), b.Const32(2))
		}, 64, 2},
		{"a test that always holds", func(b *code.Builder, tid, n code.Value) code.Value {
			return b.Select(b.SetpU32(code.LT, tid, b.Const32(64)), n, tid)
		}, 64, 0},
		{"a test that may not", func(b *code.Builder, tid, n code.Value) code.Value {
			return b.Select(b.SetpU32(code.LT, tid, b.Const32(63)), n, tid)
		}, 64, 2},
	} {
		b := code.NewBuilder("index").At(at(1))
		p := b.Pointer("p", "u8")
		n := b.Scalar("n", code.B32, "i32")
		b.Func().Launch.Block = c.block
		b.StGlobal(4, p, 0, 0, c.make(b, b.TidX(), n))
		f, err := b.Done()
		if err != nil {
			t.Fatal(err)
		}
		Index(f)
		Fold(f)
		Dce(f)
		if err := code.Verify(f).Err(); err != nil {
			t.Fatal(err)
		}
		left := 0
		for _, in := range f.Body.Instrs {
			if !isConst(in.Op) && in.Op != code.OpTidX {
				left++
			}
		}
		if left != c.left+1 {
			t.Errorf("%s: %d instructions are left, want %d:\n%s", c.name, left-1, c.left, code.Format(f))
		}
	}
}
