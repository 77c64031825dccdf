package launch

import (
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
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
