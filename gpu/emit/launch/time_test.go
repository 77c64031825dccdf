package launch

import (
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
)

// TestOurShare logs what of the way from text to a loaded module is ours.
func TestOurShare(t *testing.T) {
	for _, typ := range []string{"f32", "bf16"} {
		for _, c := range Cases(typ, 512) {
			best, lines := time.Hour, 0
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
				lines = strings.Count(text, "\n")
				best = min(best, time.Since(start))
			}
			if best > 100*time.Millisecond { // under 15 on an idle machine
				t.Errorf("%s on %s takes %v", c.Name, typ, best)
			}
			t.Logf("%-24s %-4s %6.2f ms, %d lines of PTX", c.Name, typ, best.Seconds()*1e3, lines)
		}
	}
}
