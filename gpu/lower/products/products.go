// Package products finds how a Dot is computed: the matrix instruction of a form, the
// fragments that its operands are cut into, and what FMAs of single threads need.
package products

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// forms are the instructions of the catalogue.
var forms = sync.OnceValue(arch.Forms)

// Form is the instruction of the catalogue that computes a form.
func Form(f ir.DotForm, a, b, c dtype.Type) (arch.Form, error) {
	for _, m := range forms() {
		plain := m.Blocks <= 1 && m.Selectors == 0 && !strings.HasSuffix(m.Name, ".satfinite") && !strings.HasSuffix(m.Name, ".xor.popc")
		if plain && m.M == f.M && m.N == 8 && m.K == f.K && m.A == a && m.B == b && m.C == c && m.D == c {
			return m, nil
		}
	}
	return arch.Form{}, fmt.Errorf("the catalogue has no %s of %s by %s into %s", f, a, b, c)
}

// Way is a matrix instruction that can compute a Dot, and how the Dot is cut into it.
type Way struct {
	Plan ir.DotPlan
	Form arch.Form
}

// Count is how many of the instruction each warp does.
func (w Way) Count() int {
	steps := w.Plan.A.Shape()
	return w.Plan.C.Slots() * steps[len(steps)-1] * w.Plan.Form.Vec
}

// Choice says how a Dot is computed on a target: by the first way of Same, or by FMAs
// where no form of matrix instruction Fits its layouts.
type Choice struct {
	Same  []Way    // give the same bits, those with fewer instructions first
	Other []Way    // fit as well, but would round sums after other steps of k
	Not   []string // of forms that do not fit, or that the target lacks: why
	Fits  bool     // some form divides the layouts, whether the target has it or not
}

// Choose says how a Dot is computed on a target.
func Choose(in *ir.Instr, target arch.Arch) Choice {
	a, b, c := in.In[0].Var().Type.Elem, in.In[1].Var().Type.Elem, in.In[2].Var().Type.Elem
	plans, why := ir.DotPlans(in)
	out := Choice{Not: why, Fits: len(plans) > 0}
	for _, p := range plans {
		form, err := Form(p.Form, a, b, c)
		if err == nil {
			if since, bad := arch.Lookup(form.Since); bad == nil && since.Capability() > target.Capability() {
				err = fmt.Errorf("%s needs %s, the target is %s", form.Name, form.Since, target.Name)
			}
		}
		// Floats of up to 32 bits are rounded after each step of the first form.
		f := plans[0].Form
		other := c.IsFloat() && !f.Chained && (p.Form.K != f.K || p.Form.Vec != f.Vec)
		switch {
		case err == nil && other:
			out.Other = append(out.Other, Way{p, form})
		case err == nil:
			out.Same = append(out.Same, Way{p, form})
		case !other:
			out.Not = append(out.Not, err.Error())
		}
	}
	return out
}

// Fragments is a Dot's operand cut into fragments: per outer index (row-major in
// Outer.Shape), the warp-local fragment number in each warp that holds it.
type Fragments struct {
	Outer layout.Layout // [rows, columns] of fragments over warps, or [products, rows, columns]
	Size  int           // registers of one fragment in one lane
	Words []code.Value  // b32, or b64 for f64
}

// Slot is where warp w holds a fragment, or -1.
func (f *Fragments) Slot(warp int, at ...int) int {
	for _, h := range f.Outer.Holders(at...) {
		if h.Thread == warp {
			return h.Slot
		}
	}
	return -1
}

// At is the registers that a step takes of the fragment in a slot: of vec
// neighbours, one for each step.
func (f *Fragments) At(slot, step, vec int) []code.Value {
	var out []code.Value
	for i := step; i < f.Size; i += vec {
		out = append(out, f.Words[slot*f.Size+i])
	}
	return out
}

// Lanes gives, for each slot of c and each k, the slots of a and b that hold the
// factors in every thread; or says which thread lacks one.
func Lanes(in *ir.Instr) (slots [][][2]int, bad string) {
	a, b, c := in.In[0].Var().Type.Layout, in.In[1].Var().Type.Layout, in.In[2].Var().Type.Layout
	if c.Rank() > 2 {
		return nil, "several products at once need a matrix instruction"
	}
	inner := a.Shape()[1]
	if work := c.Slots() * inner; work > maxLaneProducts {
		return nil, fmt.Sprintf("each thread would do %d FMAs in a row, more than %d", work, maxLaneProducts)
	}
	find := func(l layout.Layout, name string, slot int, index func(t int) (row, col int)) (int, string) {
		held, n, cols := l.Flat(), l.Slots(), l.Shape()[1]
		at := -1
		for t := range c.Threads() {
			row, col := index(t)
			need := int32(row*cols + col)
			if t == 0 {
				at = slices.Index(held[:n], need)
			}
			if at < 0 || held[t*n+at] != need {
				return 0, fmt.Sprintf("by FMAs, thread %d computes element %v of %s and needs %s[%d, %d] in the slot in which the others hold theirs (%s)", t, c.Index(t, slot), in.In[2].Var().Name, name, row, col, l)
			}
		}
		return at, ""
	}
	for s := range c.Slots() {
		var along [][2]int
		for k := range inner {
			sa, bad := find(a, in.In[0].Var().Name, s, func(t int) (int, int) { return c.Index(t, s)[0], k })
			if bad != "" {
				return nil, bad
			}
			sb, bad := find(b, in.In[1].Var().Name, s, func(t int) (int, int) { return k, c.Index(t, s)[1] })
			if bad != "" {
				return nil, bad
			}
			along = append(along, [2]int{sa, sb})
		}
		slots = append(slots, along)
	}
	return slots, ""
}

// maxLaneProducts bounds the code of a Dot by FMAs.
const maxLaneProducts = 1 << 14
