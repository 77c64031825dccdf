package qmm

import (
	"fmt"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// fewBytes is how many a thread may keep in memory: four words.
const fewBytes = 16

// TestTableAssembles has ptxas assemble what the table's schedules make of types of their width,
// with what may stand behind a product: hardly anything of a thread goes to memory. Those that say how many
// blocks a multiprocessor holds, and so how many registers there are, are assembled for all types, others
// for one, and in a short test some of them.
//
// Of types that a schedule was not timed with, few bytes may: f6e5m0, of which 12 do beside bias and
// residual, takes 1.02 of the time of the fastest type of its width (TestWidthsRecord).
func TestTableAssembles(t *testing.T) {
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	done, count := map[string]bool{}, 0
	for i, e := range all {
		if testing.Short() && i%8 != 0 {
			continue
		}
		var kinds []string
		for _, w := range weightTypes() {
			if kinds = append(kinds, w.String()); w.IsInt() && !w.Signed() {
				kinds = append(kinds, w.String()+" zero")
			}
		}
		for _, w := range kinds {
			l, err := Parse(fmt.Sprintf("%s group=128 act=%s", w, e.Act), e.N, e.K)
			if err != nil {
				t.Fatal(err)
			}
			p, err := template.PlanOf(l.Form())
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%d bits in %d tiles as %s, zero points %v", p.Stored.Bits(), p.Tiles, e.Act, l.ZeroPoint)
			if e.Schedule.Resident > 0 {
				name = w + " as " + e.Act
			}
			name = fmt.Sprintf("%s, %s", name, e.Schedule)
			m := max(e.Rows, 1)
			s, err := l.Choose(m)
			if err != nil {
				t.Fatal(err)
			}
			if s != e.Schedule || done[name] {
				continue
			}
			done[name] = true
			count++
			s.AddBias, s.AddResidual = true, true
			program, err := template.Decode(l.Form(), s)
			if err != nil {
				t.Fatal(err)
			}
			c, err := compile.Program(program, compile.Options{Arch: "sm_90a", Divisible: map[string]int64{"N": 128, "K": 128}})
			if err != nil {
				t.Fatal(err)
			}
			text, err := c.PTX()
			if err != nil {
				t.Fatal(err)
			}
			if made, err := need.Assemble(t, "sm_90a", text); err != nil || made.Spills() > fewBytes {
				t.Errorf("%s, %s: %d bytes in memory %v", w, name, made.Spills(), err)
			}
		}
	}
	t.Logf("%d programs", count)
}
