package main

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// castCosts says what each cast of low-bit codes takes for a pair of elements, by the
// recipe that it is lowered by: integer steps, and those of floats.
func castCosts(p *ir.Program) string {
	var b strings.Builder
	seen := map[string]bool{}
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok || in.Op.Name != "Cast" && in.Op.Name != "CastDeferred" {
			return true
		}
		from, to := in.In[0].Var().Type, in.Out[0].Type
		if !from.IsRegister() || from.Elem.Bits() > 8 || !to.Elem.IsFloat() {
			return true
		}
		var r *recipe.Recipe
		kind := "exact"
		if in.Op.Name == "CastDeferred" {
			d, err := in.Deferral()
			if err != nil {
				return true
			}
			r = d.Recipe
			if r.Mode == recipe.Deferred {
				kind = "deferred"
			}
		} else if place, ok := ir.PlaceOf(from); ok {
			r, _, _ = recipe.ForPlacement(from.Elem, to.Elem, recipe.Exact, place, recipe.MinScale)
		}
		line := fmt.Sprintf("cast %s → %s, no recipe for these bits: by shifts, masks and conversions of elements\n", from.Elem, to.Elem)
		if r != nil {
			c := r.Cost()
			pair := func(n int) string { return fmt.Sprintf("%.2f", 2*float64(n)/float64(c.Elements)) }
			line = fmt.Sprintf("cast %s → %s, %s: for a pair %s shifts, %s lop3, %s prmt, %s cvt; %s of floats\n",
				from.Elem, to.Elem, kind, pair(c.Shift), pair(c.Lop3), pair(c.Prmt), pair(c.Cvt), pair(c.Arith))
		}
		if !seen[line] {
			seen[line] = true
			b.WriteString(line)
		}
		return true
	})
	return b.String()
}
