package qmm

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestRoom compiles what is chosen, for all types and forms, where it takes nearly all shared
// memory: nothing that is chosen may need more than a block can have.
func TestRoom(t *testing.T) {
	count := 0
	for _, act := range []dtype.Type{dtype.F16, dtype.BF16} {
		for _, w := range weightTypes() {
			for _, c := range typeCases(w, act, typeShapes) {
				l, err := c.l.Check()
				if err != nil {
					t.Fatal(err)
				}
				p, err := template.PlanOf(l.Form())
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range []int{1, 3, 9, 16} {
					s, err := l.Choose(m)
					if err != nil {
						t.Fatal(err)
					}
					if !s.Streams() || s.SharedBytes(p) < 220000 {
						continue
					}
					count++
					program, err := template.Decode(l.Form(), s)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := compile.Program(program, compile.Options{Arch: "sm_90a"}); err != nil {
						t.Errorf("%s, %d rows, %s: %v", l, m, s, err)
					}
				}
			}
		}
	}
	t.Logf("%d programs", count)
}
