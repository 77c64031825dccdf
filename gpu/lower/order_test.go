package lower_test

import (
	"fmt"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
)

// TestGridDependencies holds that launches may overlap where the target can do
// it, and follow each other elsewhere.
func TestGridDependencies(t *testing.T) {
	p := parse(t, corpus.Program("sum_blocks"))
	for _, target := range arch.All() {
		f, err := lower.Lower(p, lower.Options{Arch: target})
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if target.Major >= 9 {
			want = 1
		}
		n := map[code.Op]int{}
		f.Body.Walk(func(in *code.Instr) { n[in.Op]++ })
		if n[code.OpGridDepWait] != want || n[code.OpGridDepLaunch] != want || f.Launch.PDL != (want == 1) {
			t.Errorf("%s: %d waits, %d launches, PDL %v", target.Name, n[code.OpGridDepWait], n[code.OpGridDepLaunch], f.Launch.PDL)
		}
	}
}

// TestBarriersAndAtomics looks at what barriers and atomics become for blocks of
// one warp and of two, and that an offset which is surely inside is not tested.
func TestBarriersAndAtomics(t *testing.T) {
	for _, c := range []struct {
		warps                int
		offset               string
		warp, block, compare int
	}{
		{1, "bi", 1, 0, 1}, {1, "n", 1, 0, 2}, {2, "bi", 0, 3, 1}, {2, "n", 0, 3, 2},
	} {
		f := lowered(t, parse(t, fmt.Sprintf(`program p<n>(c: *i32, n: i32) warps=%d {
	bi = BlockIndices()
	g = ViewGlobal(c) : global i32[n]
	Synchronize()
	old = AtomicScalar(g, 5, offset=[%s], op=inc, order=acq_rel)
}
`, c.warps, c.offset)), nil)
		n := map[code.Op]int{}
		f.Body.Walk(func(in *code.Instr) { n[in.Op]++ })
		if n[code.OpBarWarp] != c.warp || n[code.OpBarSync] != c.block || n[code.OpSetpU32] != c.compare || n[code.OpAtomGlobalAcqRelInc] != 1 || (f.Launch.SharedBytes > 0) != (c.warps > 1) {
			t.Errorf("%+v: %v, %d bytes shared", c, n, f.Launch.SharedBytes)
		}
	}
}
