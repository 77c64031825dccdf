package emit

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// argmax keeps the larger number with its index, of equal ones the lower index.
const argmax = `c {
 a = f32[] parameter(0)
 ai = s32[] parameter(1)
 b = f32[] parameter(2)
 bi = s32[] parameter(3)
 gt = pred[] compare(a, b), direction=GT
 nan = pred[] compare(a, a), direction=NE
 over = pred[] or(gt, nan)
 m = f32[] select(over, a, b)
 eq = pred[] compare(a, b), direction=EQ
 lt = pred[] compare(ai, bi), direction=LT
 first = pred[] and(eq, lt)
 which = pred[] or(over, first)
 mi = s32[] select(which, ai, bi)
 ROOT r = (f32[], s32[]) tuple(m, mi)
}
`

// TestVariadic reduces several operands at once by the emitters of rows and columns where
// the order is open, by one thread for each result where it is not.
func TestVariadic(t *testing.T) {
	sums := `c {
 a = f32[] parameter(0)
 ai = f32[] parameter(1)
 b = f32[] parameter(2)
 bi = f32[] parameter(3)
 m = f32[] add(a, b)
 mi = f32[] maximum(bi, ai)
 ROOT r = (f32[], f32[]) tuple(m, mi)
}
`
	first := `c {
 a = f32[] parameter(0)
 ai = s32[] parameter(1)
 b = f32[] parameter(2)
 bi = s32[] parameter(3)
 ge = pred[] compare(a, b), direction=GE
 m = f32[] select(ge, a, b)
 mi = s32[] select(ge, ai, bi)
 ROOT r = (f32[], s32[]) tuple(m, mi)
}
`
	for _, c := range []struct {
		shape, out string
		dims       []int
		dim        int
		emitter    string
	}{
		{"[40,96]", "[40]", []int{40, 96}, 1, plan.RowEmitter},
		{"[600,32]", "[600]", []int{600, 32}, 1, plan.MultiRowEmitter},
		{"[2,20000]", "[2]", []int{2, 20000}, 1, plan.RowSplitEmitter},
		{"[33,70]", "[70]", []int{33, 70}, 0, plan.ColumnEmitter},
		{"[1500,64]", "[64]", []int{1500, 64}, 0, plan.ColumnSplitEmitter},
	} {
		body := func(typ, second string) string {
			return fmt.Sprintf("ENTRY e {\n x = f32%[1]s parameter(0)\n i = %[3]s\n l = f32[] constant(%[5]s)\n z = %[4]s[] constant(0)\n ROOT r = (f32%[2]s, %[4]s%[2]s) reduce(x, i, l, z), dimensions={%[6]d}, to_apply=c\n}\n",
				c.shape, c.out, second, typ, map[string]string{"s32": "-inf", "f32": "0"}[typ], c.dim)
		}
		iota := fmt.Sprintf("s32%s iota(), iota_dimension=%d", c.shape, c.dim)
		for _, v := range []struct {
			name, text string
			emitter    string
		}{
			{"argmax", argmax + body("s32", iota), c.emitter},
			{"sum and maximum", sums + body("f32", "f32"+c.shape+" multiply(x, x)"), c.emitter},
			{"the first of the largest", first + body("s32", iota), plan.LoopEmitter},
		} {
			t.Run(v.name+c.shape, func(t *testing.T) {
				m, err := hlo.Parse("test", "HloModule m\n"+v.text)
				if err != nil {
					t.Fatal(err)
				}
				x := array.New(hlo.F32.Elem(), c.dims...)
				for k := range x.Len() {
					x.SetCode(k, uint64(math.Float32bits(float32(k*7919%61-30)))) // equal ones, in every row
				}
				args := []*array.Array{x}
				want, err := eval.Run(m, args)
				if err != nil {
					t.Fatal(err)
				}
				p, err := Compile(m, Options{Device: plan.Device{Name: "small", SMs: 4, ThreadsPerSM: 1024, SharedBytes: 48 << 10, Warp: 32}})
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Kernels[0].Plan.Emitter; len(p.Kernels) != 1 || got != v.emitter {
					t.Errorf("%d kernels, the first by %s, not one by %s", len(p.Kernels), got, v.emitter)
				}
				got, err := p.Simulate(context.Background(), args)
				if err != nil {
					t.Fatal(err)
				}
				for i := range want {
					if r := array.Compare(got[i], want[i]); r.Differ > 0 {
						t.Errorf("result %d: %d of %d differ, the first at %v", i, r.Differ, r.N, r.First)
					}
				}
			})
		}
	}
}
