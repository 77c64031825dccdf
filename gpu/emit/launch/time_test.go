package launch

import (
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
)

// statements are the most of PTX that a case may become on f32 and on bf16. What the driver
// takes to load a module goes with them: about 6 ms and 0.05 more for each on an H200, so that
// 280 are what 20 ms from text to loaded module leave room for.
var statements = map[string][2]int{
	"column_reduce_4096":      {190, 260},
	"column_reduce_small":     {110, 210},
	"column_reduce_tall":      {255, 250},
	"concat_1d":               {70, 75},
	"concat_minor":            {75, 85},
	"dus_rows":                {35, 35},
	"ew_add":                  {30, 30},
	"ew_bias_broadcast":       {40, 45},
	"ew_fma_relu":             {40, 45},
	"gather_rows":             {55, 55},
	"multi_row_32":            {95, 155},
	"multi_row_8":             {80, 135},
	"pad_slice":               {35, 45},
	"reduce_with_side_output": {100, 120},
	"row_reduce_1000":         {135, 195},
	"row_reduce_4096":         {95, 155},
	"row_reduce_to_scalar":    {215, 230},
	"scatter_add_contended":   {55, 85},
	"scatter_add_light":       {55, 55},
	"scatter_add_unique":      {60, 65},
	"softmax_rows_4096":       {230, 235},
	"transpose_021":           {80, 90},
	"transpose_10":            {80, 90},
	"transpose_102_heads":     {35, 35},
	"transpose_10_odd":        {220, 315},
	"transpose_210":           {90, 95},
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
