package opt

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// TestChangesAreTold holds each pass to what [InPlace] leaves passes out for: one that says that
// it changed nothing did not, and one that stands in the list twice changes nothing of what it made.
func TestChangesAreTold(t *testing.T) {
	times := map[string]int{}
	for _, p := range Passes() {
		times[p.Name]++
	}
	for seed := range int64(60) {
		f := draw(seed)
		before := code.Format(f)
		for _, p := range Passes() {
			changed := p.Run(f)
			after := code.Format(f)
			if !changed && after != before {
				t.Fatalf("seed %d: %s says that it changed nothing:\n%s\nbecame\n%s", seed, p.Name, before, after)
			}
			if before = after; times[p.Name] == 1 {
				continue
			}
			again := Clone(f)
			p.Run(again)
			if twice := code.Format(again); twice != after {
				t.Fatalf("seed %d: %s changes what it made:\n%s\nbecame\n%s", seed, p.Name, after, twice)
			}
		}
	}
}
