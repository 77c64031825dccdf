package randprog_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/randprog"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestShrinkKeepsWhatFails shrinks programs to those that still have a Dot, and
// holds that what is left verifies, fits its arguments and is small.
func TestShrinkKeepsWhatFails(t *testing.T) {
	has := func(p *randprog.Program) bool { return p.Placed["Dot"] > 0 }
	shrunk := 0
	for seed := uint64(1); seed < 60 && shrunk < 5; seed++ {
		p, err := randprog.New(seed, randprog.Options{Products: products()})
		if err != nil {
			t.Fatal(err)
		}
		if !has(p) {
			continue
		}
		shrunk++
		q := randprog.Shrink(p, 500, has)
		if !has(q) {
			t.Fatalf("seed %d: the Dot is gone:\n%s", seed, q.Text())
		}
		if err := ir.Verify(q.Program).Err(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if len(q.Args) != len(q.Program.Params) {
			t.Errorf("seed %d: %d arguments for %d parameters", seed, len(q.Args), len(q.Program.Params))
		}
		// A product needs three operands, each of which may need a view and a load.
		if n := strings.Count(text.Format(q.Program), "\n"); n > 12 {
			t.Errorf("seed %d: %d lines are left of %d:\n%s", seed, n, strings.Count(text.Format(p.Program), "\n"), q.Text())
		}
	}
	if shrunk == 0 {
		t.Error("no program has a Dot")
	}
}
