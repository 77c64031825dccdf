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

// TestToldAssembles has ptxas assemble what products without a table take where it is told how many blocks are to fit a multiprocessor: so
// many do, and little of a thread goes to memory.
func TestToldAssembles(t *testing.T) {
	done, told := map[string]bool{}, 0
	for _, forms := range []bool{false, true} {
		for _, c := range unknownProducts(forms) {
			if c.rows > 32 {
				continue
			}
			l := kind(t, c.kind, c.N, c.K).Usual()
			p, err := template.PlanOf(l.Form())
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range template.Candidates(p, c.rows, c.N, c.K, template.H200()) {
				name := fmt.Sprintf("%s, %s", c.kind, s)
				if i > 3 || s.Resident == 0 || done[name] {
					continue
				}
				done[name] = true
				told++
				if testing.Short() && told%8 > 0 {
					continue
				}
				program, err := template.Decode(l.Form(), s)
				if err != nil {
					t.Fatal(err)
				}
				made, err := compile.Program(program, compile.Options{Arch: "sm_90a", Divisible: map[string]int64{"N": 128, "K": 128}})
				if err != nil {
					t.Fatal(err)
				}
				text, err := made.PTX()
				if err != nil {
					t.Fatal(err)
				}
				code, err := need.Assemble(t, "sm_90a", text)
				if most := 65536 / 32 / s.Parts / s.Resident; err != nil || code.Spills() > 3*fewBytes || code.Registers > most {
					t.Errorf("%s: %d registers of %d, %d bytes in memory %v", name, code.Registers, most, code.Spills(), err)
				}
			}
		}
	}
	if told < 20 {
		t.Errorf("%d programs are told", told)
	}
	t.Logf("%d programs", told)
}
