package products

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestFormsAreTheCatalogues compares the fragments of Dot's forms with those of the
// catalogue, and finds a row of thread code for each.
func TestFormsAreTheCatalogues(t *testing.T) {
	n := 0
	for _, a := range dtype.All() {
		for _, b := range dtype.All() {
			for _, c := range dtype.All() {
				for _, f := range ir.DotForms(a, b, c) {
					m, err := Form(f, a, b, c)
					if err != nil {
						t.Errorf("%v", err)
						continue
					}
					if _, err := code.Lookup(m.Name); err != nil {
						t.Errorf("%v", err)
					}
					if f.Vec > 1 {
						continue
					}
					n++
					atom, err := arch.FindAtom(m.Name)
					if err != nil {
						t.Fatal(err)
					}
					for name, l := range map[string]interface{ String() string }{"A": f.A, "B": f.B, "C": f.C, "D": f.C} {
						if o, _ := atom.Operand(name); o.Layout.String() != l.String() {
							t.Errorf("%s operand %s lies as %s, Dot takes %s", m.Name, name, o.Layout, l)
						}
					}
				}
			}
		}
	}
	// f16 4, bf16 2, tf32 2, f64 4, fp8 16, i8 12, i4 12, b1 3.
	if n != 55 {
		t.Errorf("%d forms of one step", n)
	}
}
