package launch

import (
	"context"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// TestCasesOnTheSimulator compares small forms of the cases with vm/hlo/eval.
func TestCasesOnTheSimulator(t *testing.T) {
	d := plan.Device{Name: "small", SMs: 4, ThreadsPerSM: 64, SharedBytes: 48 << 10, Warp: 32}
	for _, typ := range []string{"f32", "bf16"} {
		for _, c := range Cases(typ, 1) {
			t.Run(c.Name+"/"+typ, func(t *testing.T) {
				if testing.Short() && typ == "bf16" {
					t.Skip()
				}
				m, err := hlo.Parse(c.Name, c.Text)
				if err != nil {
					t.Fatal(err, c.Text)
				}
				var args []*array.Array
				for _, in := range c.Args {
					f, err := hlo.Parse("fill", in.Fill(typ))
					if err != nil {
						t.Fatal(err)
					}
					v, err := eval.Run(f, nil)
					if err != nil {
						t.Fatal(err)
					}
					args = append(args, v[0])
				}
				want, err := eval.Run(m, args)
				if err != nil {
					t.Fatal(err)
				}
				tunings := []emit.Tuning{{}}
				if typ == "f32" && !testing.Short() {
					tunings = append(tunings, emit.Tuning{Across: 128, ShortRows: 4, Splitters: 256, Tile: 32, Turners: 128, Vectors: 2, RowLoads: 8, RolledIn: 2, RolledOut: 1, Fill: 8, Group: 2})
				}
				for _, tune := range tunings {
					p, err := emit.Compile(m, emit.Options{Device: d, Tune: tune})
					if err != nil {
						t.Fatal(err)
					}
					got, err := p.Simulate(context.Background(), args)
					if err != nil {
						t.Fatalf("%v\n%s", err, p.Kernels[0].Tensor)
					}
					limit := map[string]float64{"f32": 1e-5, "bf16": 1e-2}[typ]
					for i := range want {
						if r := array.RelFro(got[i], want[i]); r > limit {
							t.Errorf("result %d is %g off\n%s", i, r, p.Kernels[0].Tensor)
						}
					}
					for _, k := range p.Kernels {
						t.Logf("%s %s: threads %d, blocks %v, %d arguments", k.Name, k.Plan.Emitter, k.Tensor.Threads, k.Tensor.Blocks, len(k.Args))
					}
				}
			})
		}
	}
}
