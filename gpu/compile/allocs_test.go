package compile

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestAllocations bounds what a compilation asks of memory: unlike times, which the
// machine decides, counts tell on every machine that a pass began to do things twice. The
// bounds leave a third on top.
func TestAllocations(t *testing.T) {
	for name, most := range map[string]float64{"flash_hopper": 24_000, "matmul_hopper_v5": 8_000, "prefill_u4_f16": 9_700} {
		src := corpus.Program(name)
		got := testing.AllocsPerRun(3, func() {
			p, err := text.Parse(name+".tile", src, nil)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Program(p, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.PTX(); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %.0f allocations from text to PTX", name, got)
		if got > most {
			t.Errorf("%s takes %.0f allocations from text to PTX, more than %.0f; see where: go test ./gpu/compile -run Allocations -memprofile mem -memprofilerate 1", name, got, most)
		}
	}
}
