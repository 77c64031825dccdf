package lanes

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// TestWords: elements fill words of 32 bits, low bits first, whatever their type, and
// predicates stand alone.
func TestWords(t *testing.T) {
	for _, typ := range []hlo.Type{hlo.Pred, hlo.S4, hlo.U8, hlo.F8E5M2, hlo.BF16, hlo.F16, hlo.S32, hlo.F32, hlo.U64, hlo.F64} {
		for _, n := range []int{1, 2, 4, 8} {
			b := Scalars{Thread: thread.New(code.NewBuilder("t").At(diag.Pos{File: "t", Line: 1, Col: 1}), 0)}
			want := max(1, n*typ.Bits()/32)
			if typ == hlo.Pred {
				want = n
			}
			v := b.Splat(b.Constant(typ, 1, 1), n)
			if v.Type != typ || v.N != n || len(v.Words) != want {
				t.Errorf("%d of %s: %d of %s in %d words, not %d", n, typ, v.N, v.Type, len(v.Words), want)
			}
			for i := range n {
				if x := b.Lane(v, i); x.Type != typ || x.N != 1 || len(x.Words) != max(1, typ.Bits()/32) {
					t.Errorf("element %d of %d of %s: %v", i, n, typ, x)
				}
			}
		}
	}
}

// TestRefuses: what has no thread code is an error, not a wrong answer.
func TestRefuses(t *testing.T) {
	b := Scalars{Thread: thread.New(code.NewBuilder("t").At(diag.Pos{File: "t", Line: 1, Col: 1}), 0)}
	x := b.Constant(hlo.F32, 0, 1)
	in := &hlo.Instruction{Name: "r", Op: hlo.Remainder, Shape: hlo.Shape{Type: hlo.F32}}
	if v, err := b.Elementwise(in, []Vec{x, x}); err == nil {
		t.Errorf("the remainder of floats is %v", v)
	}
}
