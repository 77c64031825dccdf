package arith

import (
	"math/rand"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestSequenceStepsAreRows holds each kind of step of vm/dtype's sequences to the
// thread-code row of its name: as many inputs, and the same results.
func TestSequenceStepsAreRows(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	ops := stepOps()
	seen := map[dtype.StepOp]bool{dtype.StepArg: true, dtype.StepConst: true}
	for _, s := range dtype.Sequences() {
		for _, step := range s.Steps {
			if seen[step.Op] {
				continue
			}
			seen[step.Op] = true
			op, ok := ops[step.Op.String()]
			if !ok {
				t.Errorf("%s, of %s, is no row", step.Op, s.Name)
				continue
			}
			row := op.Row()
			if len(row.In) != step.Op.Inputs() || row.Meaning == nil {
				t.Errorf("%s has %d inputs, the row %d", step.Op, step.Op.Inputs(), len(row.In))
				continue
			}
			for range 2000 {
				var in [3]uint64
				// The step on constants, which [dtype.Sequence.Eval] computes as any other.
				one := dtype.Sequence{Steps: []dtype.Step{{Op: dtype.StepArg}}}
				last := dtype.Step{Op: step.Op}
				for i, typ := range row.In {
					in[i] = rng.Uint64() & typ.Mask()
					if rng.Intn(2) == 0 && typ == code.B32 {
						in[i] = dtype.F32.Encode(rng.NormFloat64()*8, false)
					}
					one.Steps = append(one.Steps, dtype.Step{Op: dtype.StepConst, K: in[i]})
					last.In[i] = uint8(i + 1)
				}
				one.Steps = append(one.Steps, last)
				var imm []int64
				if len(row.Imm) > 0 {
					imm = []int64{int64(code.LT)}
				}
				if got, want := row.Meaning(imm, in[0], in[1], in[2]), one.Eval(0); got != want {
					t.Fatalf("%s of %#x: the row gives %#x, the step %#x", step.Op, in, got, want)
				}
			}
		}
	}
}

// TestHalvesThroughF32 tries that quotients, roots and whole numbers of 16-bit
// floats may be rounded to f32 first, which is how they are lowered.
func TestHalvesThroughF32(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	wide := func(h dtype.Type, x uint64) uint64 { return dtype.Cast(dtype.F32, h, x) }
	back := func(h dtype.Type, x uint64) uint64 { return dtype.Cast(h, dtype.F32, x) }
	second := 200
	if testing.Short() {
		second = 20
	}
	for _, h := range []dtype.Type{dtype.F16, dtype.BF16} {
		for a := range uint64(1 << 16) {
			for name, f := range map[string]func(dtype.Type, uint64) uint64{"Sqrt": dtype.Sqrt, "Round": dtype.RoundEven, "Floor": dtype.Floor, "Ceil": dtype.Ceil, "Trunc": dtype.Trunc} {
				if got, want := back(h, f(dtype.F32, wide(h, a))), f(h, a); got != want {
					t.Fatalf("%s of %s %#x: %#x through f32, %#x at once", name, h, a, got, want)
				}
			}
			for range second {
				b := rng.Uint64() & 0xffff
				if rng.Intn(4) == 0 { // quotients that are subnormal
					b |= 0x7000
				}
				if got, want := back(h, dtype.Div(dtype.F32, wide(h, a), wide(h, b))), dtype.Div(h, a, b); got != want {
					t.Fatalf("%s %#x / %#x: %#x through f32, %#x at once", h, a, b, got, want)
				}
			}
		}
	}
}
