package recipe

import (
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

func TestSteps(t *testing.T) {
	r := &Recipe{To: dtype.F16}
	for _, c := range []struct {
		s       Step
		a, b, c uint32
		want    uint32
	}{
		{Step{Op: Shr, N: 8}, 0x87654321, 0, 0, 0x00876543},
		{Step{Op: Shl, N: 8}, 0x87654321, 0, 0, 0x65432100},
		{Step{Op: Funnel, N: 8}, 0x87654321, 0xaabbccdd, 0, 0xdd876543},
		{Step{Op: Lop3, N: LutAnd}, 0xff00ff00, 0x0ff00ff0, 0x12345678, 0x0f000f00},
		{Step{Op: Lop3, N: LutAndXor}, 0xff00ff00, 0x0ff00ff0, 0xffffffff, 0xf0fff0ff},
		{Step{Op: Lop3, N: LutAndOr}, 0xff00ff00, 0x0ff00ff0, 0x00000001, 0x0f000f01},
		{Step{Op: Lop3, N: LutXor}, 0xff00ff00, 0x0ff00ff0, 0x12345678, 0xf0f0f0f0},
		{Step{Op: Prmt, N: 0x4140}, 0x44332211, 0x64646464, 0, 0x64226411},
		{Step{Op: Prmt, N: 0x7210}, 0x44332211, 0x64aabbcc, 0, 0x64332211},
		{Step{Op: CvtE4M3, N: 1}, 0x38c0ffff, 0, 0, 0x3c00c000}, // 1, -2
		{Step{Op: Sub}, 0x64016402, 0x64006400, 0, 0x3c004000},
		{Step{Op: Mul}, 0x3c000001, 0x40007400, 0, 0x40001400}, // 1·2, 2^-24·2^14
		{Step{Op: Fma}, 0x3c004000, 0x40004000, 0x3c003c00, 0x42004500},
	} {
		if got := r.step(c.s, c.a, c.b, c.c); got != c.want {
			t.Errorf("%s %#x of %#x, %#x, %#x is %#x, want %#x", c.s.Op, c.s.N, c.a, c.b, c.c, got, c.want)
		}
	}
}

// TestDependencesCoverAllChanges checks the ground of the proof: on random steps, an
// input bit that is not in the dependences of an output bit cannot change it, and a
// bit that is said to be known has that value.
func TestDependencesCoverAllChanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		r := &Recipe{From: dtype.U8, To: dtype.F16, Place: bits.Identity(8, 8)}
		r.Consts = []uint32{0, rnd.Uint32(), 0x00ff00ff, 0x64006400}
		have := 2 + len(r.Consts)
		for range 6 {
			s := Step{Op: Shr + Op(rnd.IntN(int(Fma)))}
			for i, to := range []*Ref{&s.A, &s.B, &s.C} {
				if i < s.Op.Arity() {
					*to = Ref(rnd.IntN(have))
				}
			}
			switch {
			case s.Op == Prmt:
				s.N = rnd.Uint32() & 0x7777
			case opRows[s.Op].limit > 0:
				s.N = rnd.Uint32N(opRows[s.Op].limit)
			}
			r.Steps = append(r.Steps, s)
			have++
		}
		for v := range have {
			r.Out = append(r.Out, Ref(v))
		}
		vals := r.trits()
		for range 40 {
			in := []uint32{rnd.Uint32(), rnd.Uint32()}
			before := r.Run(in)
			w, b := rnd.IntN(2), rnd.IntN(32)
			in[w] ^= 1 << b
			after := r.Run(in)
			for v := range before {
				for i := range 32 {
					bit := &vals[v][i]
					if changed := (before[v]^after[v])>>i&1 != 0; changed && bit.from[w]>>b&1 == 0 {
						t.Fatalf("%v: bit %d of %s changes with bit %d of w%d", r, i, r.name(Ref(v)), b, w)
					}
					if bit.known && bit.value != (before[v]>>i&1 != 0) {
						t.Fatalf("%v: bit %d of %s is not %v", r, i, r.name(Ref(v)), bit.value)
					}
				}
			}
		}
	}
}
