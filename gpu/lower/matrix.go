package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// fragments is a Dot's operand cut into the fragments of a matrix instruction:
// per outer index (row-major in outer.Shape), the warp-local fragment number in
// each warp that holds it.
type fragments struct {
	outer layout.Layout // [rows, columns] of fragments over warps
	words int           // b32 words of one fragment in one lane
	tile  []code.Value
}

// cut divides an operand's layout by the instruction's fragment layout.
func cut(t ir.Type, fragment layout.Layout, warps int, tile []code.Value) (*fragments, error) {
	outer, err := t.Layout.Div(fragment)
	if err != nil {
		return nil, err
	}
	if outer.Threads() != warps {
		return nil, fmt.Errorf("%s / %s spreads over %d warps, the block has %d", t.Layout, fragment, outer.Threads(), warps)
	}
	return &fragments{outer: outer, words: fragment.Slots() * t.Elem.Bits() / 32, tile: tile}, nil
}

// slot is where warp w holds fragment (i, j), or -1.
func (f *fragments) slot(warp, i, j int) int {
	for _, h := range f.outer.Holders(i, j) {
		if h.Thread == warp {
			return h.Slot
		}
	}
	return -1
}

// at is the words of the fragment in a slot.
func (f *fragments) at(slot int) []code.Value {
	return f.tile[slot*f.words : (slot+1)*f.words]
}

func dot(l *lowerer, in *ir.Instr) {
	a, b, c := in.In[0].Var(), in.In[1].Var(), in.In[2].Var()
	var why []string
	for _, m := range arch.Matrices() {
		if m.A != a.Type.Elem || m.B != b.Type.Elem || m.C != c.Type.Elem {
			continue
		}
		since, err := arch.Lookup(m.Since)
		if err != nil || since.Capability() > l.opt.Arch.Capability() {
			why = append(why, fmt.Sprintf("%s needs %s", m.Name, m.Since))
			continue
		}
		fa, errA := cut(a.Type, m.LA, l.p.Warps, l.env[a].words)
		fb, errB := cut(b.Type, m.LB, l.p.Warps, l.env[b].words)
		fc, errC := cut(c.Type, m.LC, l.p.Warps, l.env[c].words)
		if errA != nil || errB != nil || errC != nil {
			for i, err := range []error{errA, errB, errC} {
				if err != nil {
					why = append(why, fmt.Sprintf("%s: operand %c: %v", m.Name, 'a'+i, err))
				}
			}
			continue
		}
		l.dotWith(in, m, fa, fb, fc)
		return
	}
	if len(why) == 0 {
		why = append(why, fmt.Sprintf("no matrix instruction multiplies %s by %s into %s", a.Type.Elem, b.Type.Elem, c.Type.Elem))
	}
	l.refuse(in.Pos, "Lower.E2", "%s", strings.Join(why, "; "))
}

// dotWith emits the products: every warp does the same instructions on the
// fragments it holds, so fragments must stand in the same slots in all warps.
func (l *lowerer) dotWith(in *ir.Instr, m arch.Matrix, fa, fb, fc *fragments) {
	op, err := code.Lookup(m.Name)
	if err != nil {
		l.refuse(in.Pos, "Lower.E1", "%v", err)
		return
	}
	steps := fa.outer.Shape()[1]
	out := slices.Clone(fc.tile)
	for s := range fc.outer.Slots() {
		acc := fc.at(s)
		for k := range steps {
			var sa, sb int
			for w := range l.p.Warps {
				at := fc.outer.Index(w, s)
				i, j := at[0], at[1]
				wa, wb := fa.slot(w, i, k), fb.slot(w, k, j)
				if wa < 0 || wb < 0 {
					which := in.In[0].Var()
					if wa >= 0 {
						which = in.In[1].Var()
					}
					l.refuse(in.Pos, "Lower.E3", "warp %d computes fragment (%d, %d) and needs step %d of %s, which it does not hold", w, i, j, k, which.Name)
					return
				}
				if w > 0 && (wa != sa || wb != sb) {
					l.refuse(in.Pos, "Lower.E5", "warps 0 and %d hold the fragments of one step in different slots", w)
					return
				}
				sa, sb = wa, wb
			}
			acc = l.b.Emit(op, nil, slices.Concat(fa.at(sa), fb.at(sb), acc)...)
		}
		copy(out[s*fc.words:], acc)
	}
	l.env[in.Out[0]] = val{words: out}
}
