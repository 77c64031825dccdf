package launch

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// statements are the most of PTX that a case may become on f32 and on bf16. What the driver
// takes to load a module goes with them: 5 ms and 0.05 more for each on a core of an H200's
// machine, and half as much again where something else keeps the core's other thread busy, so
// that 240 are what 20 ms from text to loaded module leave room for.
var statements = map[string][2]int{
	"column_reduce_4096":      {120, 140},
	"column_reduce_small":     {95, 145},
	"column_reduce_tall":      {160, 185},
	"concat_1d":               {60, 65},
	"concat_minor":            {65, 75},
	"dus_rows":                {30, 30},
	"ew_add":                  {25, 25},
	"ew_bias_broadcast":       {35, 40},
	"ew_fma_relu":             {35, 40},
	"gather_rows":             {45, 45},
	"multi_row_32":            {85, 140},
	"multi_row_8":             {70, 120},
	"pad_slice":               {30, 35},
	"reduce_with_side_output": {80, 105},
	"row_reduce_1000":         {105, 115},
	"row_reduce_4096":         {80, 90},
	"row_reduce_to_scalar":    {155, 160},
	"scatter_add_contended":   {45, 75},
	"scatter_add_light":       {50, 50},
	"scatter_add_unique":      {50, 55},
	"softmax_rows_4096":       {190, 210},
	"transpose_021":           {70, 80},
	"transpose_10":            {65, 75},
	"transpose_102_heads":     {30, 30},
	"transpose_10_odd":        {160, 210},
	"transpose_210":           {70, 80},
}

// TestStatements holds the cases to their limits, and ours of the way from text to a loaded
// module to a small part of it.
func TestStatements(t *testing.T) {
	for i, typ := range []string{"f32", "bf16"} {
		for _, c := range Cases(typ, 512) {
			best, n := time.Hour, 0
			for range 3 {
				start := time.Now()
				p, err := compile(c.Text, emit.Tuning{})
				if err != nil {
					t.Fatal(c.Name, err)
				}
				text, err := Text(p, "sm_90a")
				if err != nil {
					t.Fatal(c.Name, err)
				}
				best, n = min(best, time.Since(start)), strings.Count(text, ";")
			}
			t.Logf("%-24s %-4s %6.2f ms, %d statements", c.Name, typ, best.Seconds()*1e3, n)
			if most, ok := statements[c.Name]; !ok || n > most[i] {
				t.Errorf("%s on %s becomes %d statements, more than %d", c.Name, typ, n, most[i])
			}
			if best > 100*time.Millisecond { // under 10 on an idle machine
				t.Errorf("%s on %s takes %v", c.Name, typ, best)
			}
		}
	}
}

// timed is a case in tests/record/fusion_times.json, where [row] met the peers'.
type timed struct {
	row
	Jax        float64         `json:"jax_gbps"`
	Inductor   float64         `json:"inductor_gbps"`
	JaxMS      float64         `json:"jax_compile_ms"`
	InductorMS float64         `json:"inductor_compile_ms"`
	Agree      map[string]bool `json:"values_agree"`
}

// weak are cases where a peer is slow for a reason of its own, by name and type, with the rate
// to be beaten: odd transposes and scatters of bf16 in both; small columns, softmax and rows of
// bf16 in Inductor. Of the rows of bf16 two are left out: multi_row_32, where Inductor is as
// fast as memory, and reduce_with_side_output, which writes as much as it reads, so that 0.9 of
// the read kernel, which it has to reach, is less than 1.15 of Inductor.
var weak = map[string]func(timed) float64{
	"transpose_10_odd f32": better, "transpose_10_odd bf16": better,
	"scatter_add_unique bf16": better, "scatter_add_light bf16": better, "scatter_add_contended bf16": better,
	"column_reduce_small f32": inductor, "column_reduce_small bf16": inductor,
	"softmax_rows_4096 f32": inductor, "softmax_rows_4096 bf16": inductor,
	"row_reduce_4096 bf16": inductor, "row_reduce_1000 bf16": inductor, "row_reduce_to_scalar bf16": inductor, "multi_row_8 bf16": inductor,
}

func inductor(r timed) float64 { return r.Inductor }

func better(r timed) float64 { return max(r.Jax, r.Inductor) }

// TestTimesRecord holds what was measured beside the peers: our rate over that of the better
// one and over that of the read kernel, what a peer's weak spot is won by, and the time from
// text to loaded module. It says which rows no longer hold for the code as it is now; those
// wait for a GPU.
func TestTimesRecord(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(need.Root(t), "tests", "record", "fusion_times.json"))
	if err != nil {
		t.Fatalf("%v; %s", err, howTo)
	}
	var r struct {
		GPU    string  `json:"gpu"`
		Commit string  `json:"commit"`
		Read   float64 `json:"read_gbps"`
		Rows   []timed `json:"rows"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if r.GPU == "" || r.Commit == "" || r.Read <= 0 {
		t.Fatalf("the record does not say where it was measured, or the read kernel's rate; %s", howTo)
	}
	rows := map[string]timed{}
	for _, x := range r.Rows {
		rows[x.Case+" "+x.Dtype] = x
	}
	sum, cases, spots := 0.0, 0, 0
	for _, typ := range []string{"f32", "bf16"} {
		for _, c := range Cases(typ, 512) {
			name := c.Name + " " + typ
			x, ok := rows[name]
			if !ok || x.GBps <= 0 || x.Jax <= 0 || x.Inductor <= 0 || x.CompileMS <= 0 || x.LoadMS <= 0 || x.Ideal != c.Ideal || x.Group != c.Group {
				t.Errorf("%s is missing, incomplete or another case: %+v; %s", name, x, howTo)
				continue
			}
			if p, err := compile(c.Text, emit.Tuning{}); err != nil {
				t.Fatal(name, err)
			} else if (subject{programs: []*emit.Program{p}}).hash() != x.Hash {
				t.Logf("%s is stale: it was measured with other code", name)
			}
			// Where hundreds of bf16 updates meet in one element, peers round after each of
			// them, in any order; ours are added in f32.
			if name != "scatter_add_contended bf16" && !(x.Agree["jax"] && x.Agree["inductor"]) {
				t.Errorf("%s: values differ from a peer's: %v", name, x.Agree)
			}
			ratio := x.GBps / better(x)
			sum, cases = sum+math.Log(ratio), cases+1
			if ratio < 0.9 {
				t.Errorf("%s: %.3f of the better peer's rate; 0.9 is the least", name, ratio)
			}
			if got := x.GBps / r.Read; slices.Contains([]string{"elementwise", "concat", "dus", "reduce"}, c.Group) && got < 0.9 {
				t.Errorf("%s: %.3f of the read kernel's rate; 0.9 is the least", name, got)
			}
			if peer, ok := weak[name]; ok {
				spots++
				if got := x.GBps / peer(x); got < 1.15 {
					t.Errorf("%s, which is a weak spot of a peer, is won by %.3f; 1.15 is the least", name, got)
				}
			}
			if ours := x.CompileMS + x.LoadMS; ours >= 20 {
				t.Errorf("%s: %.1f ms from text to loaded module; there may be 20", name, ours)
			} else if x.JaxMS > 0 && ours >= x.JaxMS || x.InductorMS > 0 && ours >= x.InductorMS {
				t.Errorf("%s: %.1f ms from text to loaded module, more than a peer takes: XLA %.1f, Inductor %.1f", name, ours, x.JaxMS, x.InductorMS)
			}
		}
	}
	if spots != len(weak) {
		t.Errorf("%d of %d weak spots are among the cases", spots, len(weak))
	}
	if mean := math.Exp(sum / float64(cases)); !(mean >= 1) {
		t.Errorf("geometric mean of our rate over the better peer's: %.3f; 1 is the least", mean)
	}
	t.Logf("%d cases: geometric mean of our rate over the better peer's %.3f", cases, math.Exp(sum/float64(cases)))
}
