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
