package qmm

import (
	"flag"
	"fmt"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// fewBytes is how many a thread may keep in memory: four words.
const fewBytes = 16

// assembled is what ptxas makes of a layer's decode program.
func assembled(t *testing.T, l Linear, s template.Schedule) (need.Code, error) {
	t.Helper()
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
	return need.Assemble(t, "sm_90a", text)
}

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
			if made, err := assembled(t, l, s); err != nil || made.Spills() > fewBytes {
				t.Errorf("%s, %s: %d bytes in memory %v", w, name, made.Spills(), err)
			}
		}
	}
	t.Logf("%d programs", count)
}

var every = flag.Bool("every", false, "assemble all programs, where a third of them stand for the others")

// TestToldAssembles has ptxas assemble what products without a table take where it is told how many blocks are to fit a multiprocessor: so
// many do, and little of a thread goes to memory.
func TestToldAssembles(t *testing.T) {
	done, told := map[string]bool{}, 0
	hold := func(text string, n, k, m, most int) {
		l := kind(t, text, n, k).Usual()
		p, err := template.PlanOf(l.Form())
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range append([]template.Schedule{template.Pick(p, m, n, k, template.H200())}, template.Candidates(p, m, n, k, template.H200())...) {
			name := fmt.Sprintf("%s, %s", text, s)
			if i > most || s.Resident == 0 || done[name] {
				continue
			}
			done[name] = true
			if told++; !*every && (told%3 > 0 || testing.Short() && told%8 > 0) {
				continue
			}
			code, err := assembled(t, l, s)
			if room := 65536 / 32 / s.Parts / s.Resident; err != nil || code.Spills() > 4*fewBytes || code.Registers > room {
				t.Errorf("%s: %d registers of %d, %d bytes in memory %v", name, code.Registers, room, code.Spills(), err)
			}
		}
	}
	for _, forms := range []bool{false, true} {
		for _, c := range unknownProducts(forms) {
			if c.rows <= 32 {
				hold(c.kind, c.N, c.K, c.rows, 4)
			}
		}
	}
	for _, weight := range []string{"u3", "u4", "i4", "u6", "i8", "f4e2m1", "f8e4m3"} {
		for _, group := range []string{"group=16", "group=32", "group=64", "group=channel"} {
			for _, zero := range []string{"", " zero", " zero=any"} {
				for _, act := range []string{"", " act=bf16"} {
					text := weight + " " + group + zero + act
					if _, err := Parse(text, 6144, 4096); err != nil {
						continue // zero points beside a sign
					}
					for _, size := range [][2]int{{6144, 4096}, {11008, 4096}, {5120, 5120}} {
						for _, m := range []int{1, 5, 16} {
							hold(text, size[0], size[1], m, 0)
						}
					}
				}
			}
		}
	}
	if told < 40 {
		t.Errorf("%d programs are told", told)
	}
	t.Logf("%d programs", told)
}
