package emit

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/emit/approx"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
	hlorand "github.com/tilus-lab/tilus-lab/vm/hlo/rand"
)

var long = flag.Bool("long", false, "compare 5,000 random fusions")
var graphs = flag.Int("graphs", 300, "random fusions to compare")
var firstSeed = flag.Uint64("seed", 0, "seed of the first of them")

// tiny is a device that few elements fill, so that small tensors are unrolled and split too.
var tiny = plan.Device{Name: "tiny", SMs: 2, ThreadsPerSM: 8, SharedBytes: 48 << 10, Warp: 32}

// arguments are random elements for the parameters of a computation.
func arguments(c *hlo.Computation, seed uint64) []*array.Array {
	r := rand.New(rand.NewPCG(seed, 1))
	var out []*array.Array
	for _, p := range c.Params {
		t := p.Shape.Type
		a := array.New(t.Elem(), p.Shape.Dims...)
		for k := range a.Len() {
			switch {
			case t == hlo.Pred:
				a.SetCode(k, uint64(r.IntN(2)))
			case t.IsFloat():
				a.SetCode(k, t.Elem().Encode(float64(r.IntN(257)-128)/16, false))
			default:
				a.SetCode(k, t.Elem().EncodeInt(int64(r.IntN(19)-6), false))
			}
		}
		out = append(out, a)
	}
	return out
}

// check compiles a module for a device and compares the simulator with vm/hlo/eval.
func check(m *hlo.Module, d plan.Device, seed uint64, tolerance float64) error {
	p, err := Compile(m, Options{Device: d})
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	args := arguments(m.Entry, seed)
	want, err := eval.Run(m, args)
	if err != nil {
		return err
	}
	got, err := p.Simulate(context.Background(), args)
	if err != nil {
		return err
	}
	for i := range want {
		r := array.Compare(got[i], want[i])
		if tolerance > 0 && array.RelFro(got[i], want[i]) <= tolerance {
			continue
		}
		if r.Differ > 0 {
			return fmt.Errorf("result %d differs in %d of %d elements, first %v: got\n%s\nwant\n%s", i, r.Differ, r.N, r.First, got[i], want[i])
		}
	}
	return nil
}

// TestWideFusions: fusions that read places from tensors, of results in any layout and of
// several sizes, give on the simulator what vm/hlo/eval gives.
func TestWideFusions(t *testing.T) {
	h200, _ := plan.FindDevice("h200_sxm")
	for seed := *firstSeed; seed < *firstSeed+uint64(*graphs); seed++ {
		o := hlorand.Options{Exact: true, Wide: true}
		if seed%3 == 1 {
			o.Types = []hlo.Type{hlo.S32, hlo.S4, hlo.U8, hlo.S64, hlo.Pred}
		}
		m, err := hlorand.Fusion(seed, o)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		d := h200
		if seed%2 == 1 {
			d = tiny
		}
		if err := check(m, d, seed, 0); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, hlo.Format(m))
		}
	}
}

func TestRandomFusions(t *testing.T) {
	h200, _ := plan.FindDevice("h200_sxm")
	missing := map[string]int{}
	n := *graphs
	if *long {
		n = 5000
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		o := hlorand.Options{Exact: true}
		switch seed % 5 { // all types, in sets that meet often
		case 1:
			o.Types = []hlo.Type{hlo.S4, hlo.U4, hlo.S8, hlo.U8, hlo.F32}
		case 2:
			o.Types = []hlo.Type{hlo.F8E4M3FN, hlo.F8E5M2, hlo.F32, hlo.BF16, hlo.S32}
		case 3:
			o.Types = []hlo.Type{hlo.S64, hlo.U64, hlo.F64, hlo.F32, hlo.Pred, hlo.U32, hlo.S16, hlo.U16}
		}
		m, err := hlorand.Fusion(seed, o)
		if err != nil {
			t.Fatal(err)
		}
		d := h200
		if seed%2 == 1 {
			d = tiny
		}
		tolerance := 0.0
		for _, in := range m.Entry.Instructions { // functions of f64 have bounds, not bits
			if in.Shape.Type == hlo.F64 && approx.Of(in.Op) != nil {
				tolerance = 1e-12
			}
		}
		if err := check(m, d, seed, tolerance); err != nil {
			if strings.Contains(err.Error(), "has no thread code") {
				missing[err.Error()]++
				continue
			}
			t.Fatalf("seed %d: %v\n%s", seed, err, hlo.Format(m))
		}
	}
	for m, n := range missing {
		t.Errorf("%d times: %s", n, m)
	}
}
