package lower_test

import (
	"fmt"
	"strings"
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

// TestFirstBlockWaits holds that with blocks=first one block waits, at its end, of grids of any rank.
func TestFirstBlockWaits(t *testing.T) {
	src := corpus.Program("grid_dependency_first")
	hopper, err := arch.Lookup("sm_90a")
	if err != nil {
		t.Fatal(err)
	}
	for rank, grid := range map[int]string{1: "<2>", 2: "<2, 3>", 3: "<2, 3, 4>"} {
		f, err := lower.Lower(parse(t, strings.Replace(src, "<2>", grid, 1)), lower.Options{Arch: hopper})
		if err != nil {
			t.Fatal(err)
		}
		last := f.Body.Instrs[len(f.Body.Instrs)-1]
		if last.Op != code.OpIf || len(last.Regions[0].Instrs) != 1 || last.Regions[0].Instrs[0].Op != code.OpGridDepWait || !f.Launch.PDL {
			t.Errorf("rank %d: the last instruction is %v, PDL %v", rank, last.Op, f.Launch.PDL)
		}
		read := map[code.Op]bool{}
		f.Body.Walk(func(in *code.Instr) { read[in.Op] = true })
		for i, op := range []code.Op{code.OpCtaidX, code.OpCtaidY, code.OpCtaidZ} {
			if read[op] != (i < rank) {
				t.Errorf("rank %d: the block's index %d is read: %v", rank, i, read[op])
			}
		}
		last.Regions[0].Instrs = nil
		if !strings.Contains(code.Verify(f).Error(), "waits neither") {
			t.Errorf("rank %d: a launch without a wait passes", rank)
		}
	}
}

// TestBarriersAndAtomics looks at what barriers and atomics become for blocks of
// one warp and of two, that an offset which is surely inside is not tested, and that a result
// which nothing reads is handed to nobody.
func TestBarriersAndAtomics(t *testing.T) {
	for _, c := range []struct {
		warps                int
		offset               string
		read                 bool
		warp, block, compare int
	}{
		{1, "bi", true, 1, 0, 1}, {1, "n", true, 1, 0, 2}, {2, "bi", true, 0, 3, 1}, {2, "n", true, 0, 3, 2}, {2, "n", false, 0, 1, 2},
	} {
		use := ""
		if c.read {
			use = "next = old + 1"
		}
		f := lowered(t, parse(t, fmt.Sprintf(`program p<n>(c: *i32, n: i32) warps=%d {
	bi = BlockIndices()
	g = ViewGlobal(c) : global i32[n]
	Synchronize()
	old = AtomicScalar(g, 5, offset=[%s], op=inc, order=acq_rel)
	%s
}
`, c.warps, c.offset, use)), nil)
		n := map[code.Op]int{}
		f.Body.Walk(func(in *code.Instr) { n[in.Op]++ })
		if n[code.OpBarWarp] != c.warp || n[code.OpBarSync] != c.block || n[code.OpSetpU32] != c.compare || n[code.OpAtomGlobalAcqRelInc] != 1 || (f.Launch.SharedBytes > 0) != (c.read && c.warps > 1) {
			t.Errorf("%+v: %v, %d bytes shared", c, n, f.Launch.SharedBytes)
		}
	}
}
