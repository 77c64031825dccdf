package qmm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/record"
)

var (
	unknownOut  = flag.String("unknown", "", "write what TestGPUUnknown or TestGPUForms measured to this file, one JSON row a product")
	unknownPart = flag.Int("part", 0, "of the products that TestGPUUnknown or TestGPUForms has: 1 is the first half, 2 the second, 0 all")
	unknownRows = flag.Int("rows", 0, "of these products those of so many rows, 0 all")
	unknownTime = flag.Duration("tuning", 3*time.Second, "how long TestGPUUnknown and TestGPUForms tune a product")
)

// unknownShapes are layers that no table has. Source: config.json of Llama-3.1-8B, Qwen2.5-14B,
// Qwen2.5-7B, and odd ones.
var unknownShapes = []Shape{
	{Name: "llama8b o", N: 4096, K: 4096}, {Name: "llama8b gate_up", N: 28672, K: 4096}, {Name: "llama8b down", N: 4096, K: 14336}, {Name: "qwen14b down", N: 5120, K: 13824},
	{Name: "qwen14b qkv", N: 7168, K: 5120}, {Name: "qwen7b gate_up", N: 37888, K: 3584}, {Name: "square", N: 6144, K: 6144}, {Name: "ragged", N: 11000, K: 4232},
}

// otherForms are kinds of layers with other groups, scales or zero points than those that tables have, as they are
// used: OCP MX and NVFP4, GPTQ in groups of 32, AWQ, HQQ, and one scale for each output.
var otherForms = []string{"mxfp4", "mxfp4 act=bf16", "nvfp4", "mxfp8e4m3", "i4 group=32", "i4 group=64 act=bf16 scale=bf16", "u4 zero", "u4 zero=any group=64", "u3 zero=any group=64", "i4 group=channel", "i8 group=channel", "f8e4m3 group=channel"}

// unknownProduct is a product that no table has.
type unknownProduct struct {
	kind string
	Shape
	rows int
}

// unknownProducts are those of types as tables have them, for each kind of program that there is and 32 rows, which two kinds are
// made for; with forms those of [otherForms], of few shapes.
func unknownProducts(forms bool) []unknownProduct {
	shapes, kinds, rows := unknownShapes, []string{"u4", "f6e3m2", "u2"}, []int{1, 16, 32, 64}
	if forms {
		shapes, kinds, rows = []Shape{unknownShapes[1], unknownShapes[3], unknownShapes[6]}, otherForms, []int{1, 16, 64, 128}
	}
	var out []unknownProduct
	for _, s := range shapes {
		for _, kind := range kinds {
			for _, m := range rows {
				out = append(out, unknownProduct{kind, s, m})
			}
		}
	}
	return out
}

// unknownRow says how far what is chosen without a search is from what a search finds.
type unknownRow struct {
	Layer  string     `json:"layer"`
	Weight string     `json:"weight"` // kind of layer
	M      int        `json:"m"`
	N      int        `json:"n"`
	K      int        `json:"k"`
	Plan   string     `json:"plan"` // that is chosen
	Chosen float64    `json:"chosen_us"`
	Best   float64    `json:"best_us"`
	By     string     `json:"best_plan"` // of what is kept
	Of     float64    `json:"chosen_of_best"`
	Tried  int        `json:"tried"` // of all plans
	End    tune.End   `json:"search_end"`
	Took   float64    `json:"search_s"`
	Spent  tune.Spent `json:"spent"`
	record.Row
}

// TestGPUUnknown searches for plans and schedules of products of shapes that no table has, and says
// how much faster what it finds is than what is chosen at once; TestGPUForms of products of other forms.
func TestGPUUnknown(t *testing.T) {
	searchUnknown(t, "GPUUnknown", "unknown_shapes.json", unknownProducts(false))
}
func TestGPUForms(t *testing.T) {
	searchUnknown(t, "GPUForms", "unknown_forms.json", unknownProducts(true))
}

func searchUnknown(t *testing.T, test, file string, all []unknownProduct) {
	b, err := NewBench(*firstCommit)
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run %s -test.v -unknown %s", err, test, file)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	stamp, err := record.Writer{Commit: firstCommit}.Stamp("unknown shape")
	if err != nil {
		t.Fatal(err)
	}
	stamp.GPU, stamp.Driver, stamp.Target, stamp.Result = b.g.Title, b.g.Driver, b.g.Target, "equal"
	ctx := context.Background()
	// Pays what only the first product pays.
	if _, err := b.Tune(ctx, kind(t, "u8", 2048, 2048), "first", 1, TuneOptions{Limit: 1}); err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(c unknownProduct) bool { return *unknownRows > 0 && c.rows != *unknownRows })
	if half := len(all) / 2; *unknownPart > 0 {
		all = all[(*unknownPart-1)*half:][:half]
	}
	var rows []unknownRow
	start := time.Now()
	for _, c := range all {
		if time.Since(start) > *budget {
			t.Fatalf("%s and all behind it: left out after %v", c.Name, *budget)
		}
		l := kind(t, c.kind, c.N, c.K)
		row := unknownRow{Layer: c.Name, Weight: c.kind, M: c.rows, N: c.N, K: c.K, Plan: l.Usual().PlanFor(c.rows, Call{}), Row: stamp}
		row.Name = fmt.Sprintf("%s %s × %d", c.kind, c.Name, c.rows)
		begin := time.Now()
		r, err := b.Tune(ctx, l, c.Name, c.rows, TuneOptions{Budget: *unknownTime})
		if err != nil {
			t.Errorf("%s: %v", row.Name, err)
			continue
		}
		row.Chosen, row.Best, row.By, row.Tried, row.End, row.Hash, row.Spent = r.ChosenUs, r.FastestUs, r.Choice().Plan, r.Tried, r.End, r.Hash, *r.Spent
		row.Took, row.Of = time.Since(begin).Seconds(), row.Chosen/row.Best
		rows = append(rows, row)
		fmt.Printf("%-22s %-16s %3d rows: %8.2f µs by %s, best of %2d %8.2f µs by %s: %.3f, %.2f s, %s: %s\n", c.kind, c.Name, c.rows, row.Chosen, row.Plan, row.Tried, row.Best, r.Choice(), row.Of, row.Took, row.End, row.Spent)
		writeJSON(t, *unknownOut, rows)
	}
}
