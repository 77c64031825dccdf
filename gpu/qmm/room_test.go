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
					if s.Stages == 0 || s.SharedBytes(p) < 200000 {
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

// TestRoomWide is TestRoom for products by warpgroups: what is chosen, and what a search would time next.
func TestRoomWide(t *testing.T) {
	count := 0
	for _, form := range append([]string{"mxfp8e5m2", "mxfp6e3m2", "u8", "f6e3m2", "u3", "u1", "u2 zero group=32", "u5 zero=any group=32", "i8 group=32 act=bf16", "u1 zero group=16"}, otherForms...) {
		for _, s := range []Shape{{N: 5120, K: 13824}, {N: 8192, K: 8192}, {N: 28672, K: 4096}, {N: 1000, K: 3000}} {
			l := kind(t, form, s.N, s.K)
			for _, m := range []int{17, 32, 64, 128, 300, 4096} {
				for _, plan := range []string{Wide, Prefill} {
					all, err := l.WideSchedules(plan, m, 2)
					if err != nil {
						t.Fatal(err)
					}
					for _, s := range all {
						program, err := template.Wide(l.Form(), s)
						if err != nil {
							t.Fatal(err)
						}
						if count++; testing.Short() && count > 20 {
							return
						}
						if _, err := compile.Program(program, compile.Options{Arch: "sm_90a"}); err != nil {
							t.Errorf("%s, %d rows, %s: %v", l, m, s, err)
						}
					}
				}
			}
		}
	}
	t.Logf("%d programs", count)
}
