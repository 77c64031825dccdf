package emit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// TestScatters combines updates whose indices are sorted, in runs, and updates that no
// atomic instruction combines. Some indices are illegal, many are equal.
func TestScatters(t *testing.T) {
	const one = "c {\n a = TT[] parameter(0)\n b = TT[] parameter(1)\n ROOT r = TT[] OP(a, b)\n}\n"
	const two = "c {\n a = TT[] parameter(0)\n i = s32[] parameter(1)\n b = TT[] parameter(2)\n j = s32[] parameter(3)\n s = TT[] OP(a, b)\n m = s32[] maximum(i, j)\n ROOT r = (TT[], s32[]) tuple(s, m)\n}\n"
	zeros := " z = TT[] constant(0)\n o = TT[50,WW] broadcast(z), dimensions={}\n"
	for _, c := range []struct {
		name, typ, op, text string
		window              int
		params              string // of which one is the indices
		begins              string
		emitter, code       string
	}{
		{"rows", "f32", "add", one, 12, "", zeros, plan.ScatterEmitter, "choose"},
		{"long rows", "bf16", "maximum", one, 300, "", zeros, plan.ScatterEmitter, "choose"},
		{"odd rows", "s32", "add", one, 7, "", zeros, plan.ScatterEmitter, "choose"},
		{"bytes", "u8", "add", one, 32, "", zeros, plan.ScatterEmitter, "choose"},
		{"wide", "f64", "add", one, 4, "", zeros, plan.LoopEmitter, ""},
		{"wide integers", "s64", "multiply", one, 1, "", zeros, plan.LoopEmitter, ""},
		{"two at once", "f32", "add", two, 4, "", "", plan.LoopEmitter, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 1500
			attrs := "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, indices_are_sorted=true, to_apply=c"
			body := fmt.Sprintf(" i = s32[%d] parameter(0)\n u = TT[%d,WW] parameter(1)\n", n, n)
			if c.begins != "" {
				body += c.begins + " ROOT r = TT[50,WW] scatter(o, i, u), " + attrs + "\n"
			} else {
				body += fmt.Sprintf(" v = s32[%d,WW] parameter(2)\n o = TT[50,WW] parameter(3)\n p = s32[50,WW] parameter(4)\n ROOT r = (TT[50,WW], s32[50,WW]) scatter(o, p, i, u, v), %s\n", n, attrs)
			}
			text := strings.NewReplacer("TT", c.typ, "OP", c.op, "WW", fmt.Sprint(c.window)).Replace("HloModule m\n" + c.text + "ENTRY e {\n" + body + "}\n")
			m, err := hlo.Parse("test", text)
			if err != nil {
				t.Fatal(err)
			}
			args := arguments(m.Entry, 5)
			rows := make([]int, n)
			for k := range rows {
				rows[k] = k*k%64 - 5
			}
			slices.Sort(rows)
			for k, r := range rows {
				args[0].SetCode(k, uint64(uint32(r)))
			}
			for k := range args[1].Len() { // sums are exact
				e := args[1].Type
				if e.IsFloat() {
					args[1].SetCode(k, e.Encode(float64(k*k%9-4), false))
				}
			}
			want, err := eval.Run(m, args)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Compile(m, Options{Device: plan.Device{Name: "small", SMs: 4, ThreadsPerSM: 512, SharedBytes: 48 << 10, Warp: 32}})
			if err != nil {
				t.Fatal(err)
			}
			k := p.Kernels[len(p.Kernels)-1]
			if k.Plan.Emitter != c.emitter || !strings.Contains(k.Tensor.String(), c.code) {
				t.Errorf("by %s:\n%s", k.Plan.Emitter, k.Tensor)
			}
			got, err := p.Simulate(context.Background(), args)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if r := array.Compare(got[i], want[i]); r.Differ > 0 && !(r.MaxAbs < math.SmallestNonzeroFloat64) {
					t.Errorf("result %d: %d of %d differ, the first at %v\n%s", i, r.Differ, r.N, r.First, k.Tensor)
				}
			}
		})
	}
}
