package lanes

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/affine"
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

// TestExponential holds exponentials to float64. The simulator rounds 2^t of the machine
// once, which leaves of each bound what a machine may be off itself.
func TestExponential(t *testing.T) {
	const n, machine = 1 << 15, 2.5 * 0x1p-23
	in := make([]byte, 4*n)
	for k := range n {
		x := float32(k-n/2) * 100 / (n / 2)
		switch k {
		case 0:
			x = float32(math.Inf(-1))
		case 1:
			x = float32(math.Inf(1))
		case 2:
			x = float32(math.NaN())
		}
		binary.LittleEndian.PutUint32(in[4*k:], math.Float32bits(x))
	}
	for _, how := range []Exponential{Steps, Close, Machine} {
		b := Scalars{Thread: thread.New(code.NewBuilder("t").At(diag.Pos{File: "t", Line: 1, Col: 1}), 0), Exponential: how}
		from := b.Param(code.Param{Name: "x", Kind: code.Pointer, Type: code.B64, Elem: "f32"})
		to := b.Param(code.Param{Name: "y", Kind: code.Pointer, Type: code.B64, Elem: "f32"})
		at := b.Add32(b.TidX(), b.Mul32(b.CtaidX(), b.K(256)))
		x := b.LdGlobal(4, b.Op(code.OpMadWideU32, nil, at, b.K(4), from), 0, 0)
		v, err := b.Elementwise(&hlo.Instruction{Name: "e", Op: hlo.Exp, Shape: hlo.Shape{Type: hlo.F32}}, []Vec{{hlo.F32, 1, []code.Value{x}}})
		if err != nil {
			t.Fatal(err)
		}
		b.Emit(code.OpStGlobalB32, []int64{0, 0}, b.Op(code.OpMadWideU32, nil, at, b.K(4), to), v.Words[0])
		b.Func().Launch = code.Launch{Grid: []affine.Expr{affine.Const(n / 256), affine.Const(1), affine.Const(1)}, Block: 256}
		f, err := b.Done()
		if err != nil {
			t.Fatal(err)
		}
		out := make([]byte, 4*n)
		if _, err := sim.Run(context.Background(), f, sim.Launch{Grid: [3]int{n / 256, 1, 1}, Args: []sim.Arg{{Buffer: in}, {Buffer: out}}}, sim.Options{}); err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		for k := range n {
			x := float64(math.Float32frombits(binary.LittleEndian.Uint32(in[4*k:])))
			got, want := float64(math.Float32frombits(binary.LittleEndian.Uint32(out[4*k:]))), math.Exp(x)
			switch {
			case math.IsNaN(x):
				if !math.IsNaN(got) {
					t.Errorf("way %d: e^NaN is %g", how, got)
				}
			case want > math.MaxFloat32 || want == 0:
				if got != float64(float32(want)) {
					t.Errorf("way %d: e^%g is %g", how, x, got)
				}
			case want < 0x1p-126:
				if got > 0x1p-126 {
					t.Errorf("way %d: e^%g is %g", how, x, got)
				}
			default:
				bound := how.Bound(x)
				if how != Steps {
					bound -= machine
				}
				off := math.Abs(got-want) / want
				if worst = max(worst, off/bound); off > bound {
					t.Errorf("way %d: e^%g is %g, %g of it off", how, x, got, off)
				}
			}
		}
		t.Logf("way %d: at most %.2f of the bound", how, worst)
	}
}
