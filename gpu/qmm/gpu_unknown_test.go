package qmm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/record"
)

var (
	unknownOut  = flag.String("unknown", "", "write what TestGPUUnknown measured to this file, one JSON row a product")
	unknownPart = flag.Int("part", 0, "of the shapes that TestGPUUnknown has: 1 is the first half, 2 the second, 0 all")
	unknownTime = flag.Duration("tuning", 3*time.Second, "how long TestGPUUnknown tunes a product")
)

// unknownShapes are layers that no table has. Source: config.json of Llama-3.1-8B, Qwen2.5-14B,
// Qwen2.5-7B, and odd ones.
var unknownShapes = []Shape{
	{Name: "llama8b o", N: 4096, K: 4096}, {Name: "llama8b gate_up", N: 28672, K: 4096}, {Name: "llama8b down", N: 4096, K: 14336}, {Name: "qwen14b down", N: 5120, K: 13824},
	{Name: "qwen14b qkv", N: 7168, K: 5120}, {Name: "qwen7b gate_up", N: 37888, K: 3584}, {Name: "square", N: 6144, K: 6144}, {Name: "ragged", N: 11000, K: 4232},
}

// unknownRows are how many rows of x they have: each kind of program that there is, and 32, which two kinds are made for.
var unknownRows = []int{1, 16, 32, 64}

// unknownRow says how far what is chosen without a search is from what a search finds.
type unknownRow struct {
	Layer  string  `json:"layer"`
	Weight string  `json:"weight"`
	M      int     `json:"m"`
	N      int     `json:"n"`
	K      int     `json:"k"`
	Plan   string  `json:"plan"` // that is chosen
	Chosen float64 `json:"chosen_us"`
	Best   float64 `json:"best_us"`
	By     string  `json:"best_plan"`
	Of     float64 `json:"chosen_of_best"`
	Tried  int     `json:"tried"` // of all plans
	// Searched are the schedules of the plan with the most of them, and End is why there were no more.
	Searched int        `json:"searched,omitempty"`
	End      tune.End   `json:"search_end,omitempty"`
	Took     float64    `json:"search_s"`
	Spent    tune.Spent `json:"spent"`
	record.Row
}

// searched is how many schedules a search timed: rows of earlier commits do not tell, but that
// beside another plan one schedule of decode was timed.
func (r unknownRow) searched() int {
	switch {
	case r.Searched > 0:
		return r.Searched
	case r.Plan != Decode:
		return r.Tried - 1
	}
	return r.Tried
}

// TestGPUUnknown searches for schedules of products of shapes that no table has, and says
// how much faster what it finds is than what is chosen at once.
func TestGPUUnknown(t *testing.T) {
	b, err := NewBench(*firstCommit)
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUUnknown -test.v -unknown unknown_shapes.json", err)
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
	var rows []unknownRow
	shapes := unknownShapes
	if half := len(shapes) / 2; *unknownPart > 0 {
		shapes = shapes[(*unknownPart-1)*half:][:half]
	}
	start := time.Now()
	for _, s := range shapes {
		for _, w := range []string{"u4", "f6e3m2", "u2"} {
			for _, m := range unknownRows {
				if time.Since(start) > *budget {
					t.Fatalf("%s and all behind it: left out after %v", s.Name, *budget)
				}
				l := kind(t, w, s.N, s.K)
				row := unknownRow{Layer: s.Name, Weight: w, M: m, N: s.N, K: s.K, Plan: l.Usual().PlanFor(m, Call{}), Row: stamp}
				row.Name = fmt.Sprintf("%s %s × %d", w, s.Name, m)
				begin := time.Now()
				r, err := b.Tune(ctx, l, s.Name, m, TuneOptions{Budget: *unknownTime})
				if err != nil {
					t.Errorf("%s, %d rows, %s: %v", w, m, s.Name, err)
					continue
				}
				row.Chosen, row.Best, row.By, row.Tried, row.Searched, row.End, row.Hash = r.ChosenUs, r.FastestUs, r.Choice().Plan, r.Tried, r.Tried, r.End, r.Hash
				if r.Spent != nil {
					row.Spent = *r.Spent
				}
				row.Took = time.Since(begin).Seconds()
				row.Of = row.Chosen / row.Best
				rows = append(rows, row)
				fmt.Printf("%-7s %-16s %2d rows: %8.2f µs by %s, best of %2d %8.2f µs by %s: %.3f, %.2f s, %s: %s\n", w, s.Name, m, row.Chosen, row.Plan, row.Tried, row.Best, row.By, row.Of, row.Took, row.End, row.Spent)
				writeJSON(t, *unknownOut, rows)
			}
		}
	}
}
