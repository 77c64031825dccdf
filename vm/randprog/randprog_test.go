package randprog_test

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/randprog"
)

func products() []randprog.Product {
	var out []randprog.Product
	for _, m := range arch.Matrices() {
		out = append(out, randprog.Product{A: m.A, B: m.B, C: m.C, LA: m.LA, LB: m.LB, LC: m.LC})
	}
	return out
}

// neverPlaced are the rows that no program has, and why.
var neverPlaced = func() map[string]string {
	never := map[string]string{}
	for _, op := range ir.Ops() {
		switch op.Family {
		case "barrier", "pipeline", "tensor", "bulk", "launch", "tcgen05", "wgmma", "cluster":
			never[op.Name] = "a step of a protocol between instructions of sm_90 and later; vm/corpus and vm/corpus/bugs have those"
		}
	}
	return never
}()

// TestEveryRowIsPlaced holds that a new instruction is drawn without being named
// here, or is listed with the reason.
func TestEveryRowIsPlaced(t *testing.T) {
	placed := map[string]int{}
	missing := func() (names []string) {
		for _, op := range ir.Ops() {
			if placed[op.Name] == 0 && neverPlaced[op.Name] == "" {
				names = append(names, op.Name)
			}
		}
		return names
	}
	o := randprog.Options{Products: products()}
	seed := uint64(1)
	for ; seed <= 1000 && len(missing()) > 0; seed++ {
		p, err := randprog.New(seed, o)
		if err != nil {
			t.Fatal(err)
		}
		for name, n := range p.Placed {
			placed[name] += n
		}
	}
	t.Logf("%d programs: %v", seed-1, placed)
	for _, name := range missing() {
		t.Errorf("no program has %s: teach vm/randprog to place it, or list it in neverPlaced with the reason", name)
	}
	for name := range neverPlaced {
		if placed[name] > 0 || ir.OpByName(name) == nil {
			t.Errorf("%s is placed, or is no row: take it off neverPlaced", name)
		}
	}
}

// TestSeedsRepeat holds that a seed always gives the same program and arguments.
func TestSeedsRepeat(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		a, err := randprog.New(seed, randprog.Options{Products: products()})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := randprog.New(seed, randprog.Options{Products: products()})
		if a.Text() != b.Text() {
			t.Fatalf("seed %d gives two programs:\n%s\n%s", seed, a.Text(), b.Text())
		}
		for i := range a.Args {
			if x, y := a.Args[i].Array, b.Args[i].Array; x != nil && string(x.Data) != string(y.Data) {
				t.Errorf("seed %d gives argument %d two values", seed, i)
			}
		}
		seen[a.Text()] = true
	}
	if len(seen) < 20 {
		t.Errorf("20 seeds give %d programs", len(seen))
	}
}
