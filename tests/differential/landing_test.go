package differential

import (
	"context"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
)

// TestAnyLandingOrder: what copies of the asynchronous proxy, products in tensor memory
// and commits do comes at any time until the waits for it, in any order that the machine
// keeps. Programs give the same results in orders drawn at random as in the order of
// their instructions.
func TestAnyLandingOrder(t *testing.T) {
	ref := open(t, "interp")
	ran := 0
	for _, l := range launches(t) {
		if l.Needs != "sm_90a" && l.Needs != "sm_100a" {
			continue
		}
		want, err := ref.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			continue
		}
		c, err := compile.Program(l.Program, compile.Options{Arch: l.Needs})
		if err != nil {
			t.Fatal(err)
		}
		ran++
		seeds := uint64(3)
		if testing.Short() {
			seeds = 1
		}
		for seed := range seeds {
			got, err := simulateWith(l, c.Func, sim.Options{Seed: seed + 1})
			if err != nil {
				t.Errorf("%s, seed %d: %v", l.Name, seed+1, err)
				continue
			}
			same(t, l, "another order", got, want.Args)
		}
	}
	if ran < 20 {
		t.Errorf("%d programs ran", ran)
	}
}
