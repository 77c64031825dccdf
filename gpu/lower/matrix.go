package lower

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// dot multiplies by the forms of matrix instruction that divide the layouts: the
// first one that the target has, of those that compute the same. Without any it is
// FMAs.
func dot(l *lowerer, in *ir.Instr) {
	a, b, c := in.In[0].Var().Type.Elem, in.In[1].Var().Type.Elem, in.In[2].Var().Type.Elem
	plans, why := ir.DotPlans(in)
	for _, p := range plans {
		// Floats of up to 32 bits are rounded after each step of the first form.
		if f := plans[0].Form; c.IsFloat() && !f.Chained && (p.Form.K != f.K || p.Form.Vec != f.Vec) {
			continue
		}
		form, err := machineForm(p.Form, a, b, c)
		if err != nil {
			why = append(why, err.Error())
			continue
		}
		if since, err := arch.Lookup(form.Since); err == nil && since.Capability() > l.opt.Arch.Capability() {
			why = append(why, fmt.Sprintf("%s needs %s, the target is %s", form.Name, form.Since, l.opt.Arch.Name))
			continue
		}
		l.dotWith(in, p, form)
		return
	}
	if len(plans) == 0 {
		bad := l.dotLanes(in)
		if bad == "" {
			return
		}
		why = append(why, bad)
	}
	l.refuse(in.Pos, "Lower.E2", "%s", strings.Join(why, "; "))
}

// forms are the instructions of the catalogue.
var forms = sync.OnceValue(arch.Forms)

// machineForm is the instruction of the catalogue that computes a form.
func machineForm(f ir.DotForm, a, b, c dtype.Type) (arch.Form, error) {
	for _, m := range forms() {
		plain := m.Blocks <= 1 && m.Selectors == 0 && !strings.HasSuffix(m.Name, ".satfinite") && !strings.HasSuffix(m.Name, ".xor.popc")
		if plain && m.M == f.M && m.N == 8 && m.K == f.K && m.A == a && m.B == b && m.C == c && m.D == c {
			return m, nil
		}
	}
	return arch.Form{}, fmt.Errorf("the catalogue has no %s of %s by %s into %s", f, a, b, c)
}

// fragments is a Dot's operand cut into fragments: per outer index (row-major in
// outer.Shape), the warp-local fragment number in each warp that holds it.
type fragments struct {
	outer layout.Layout // [rows, columns] of fragments over warps
	size  int           // registers of one fragment in one lane
	tile  []code.Value  // b32, or b64 for f64
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

// at is the registers that a step takes of the fragment in a slot: of vec
// neighbours, one for each step.
func (f *fragments) at(slot, step, vec int) []code.Value {
	var out []code.Value
	for i := step; i < f.size; i += vec {
		out = append(out, f.tile[slot*f.size+i])
	}
	return out
}

// dotWith emits the products: every warp does the same instructions on the
// fragments it holds, so fragments must stand in the same slots in all warps.
func (l *lowerer) dotWith(in *ir.Instr, p ir.DotPlan, form arch.Form) {
	op, err := code.Lookup(form.Name)
	if err != nil {
		l.refuse(in.Pos, "Lower.E1", "%v", err)
		return
	}
	cut := func(i int, outer, part layout.Layout) *fragments {
		v := in.In[i].Var()
		words := l.env[v].words
		bits := part.Slots() * v.Type.Elem.Bits()
		if v.Type.Elem == dtype.F64 {
			var wide []code.Value
			for s := 0; s < len(words); s += 2 {
				wide = append(wide, l.Op(code.OpPack32, nil, words[s], words[s+1]))
			}
			return &fragments{outer, bits / 64, wide}
		}
		return &fragments{outer, bits / 32, words}
	}
	fa, fb, fc := cut(0, p.A, p.Form.A), cut(1, p.B, p.Form.B), cut(2, p.C, p.Form.C)
	out := slices.Clone(fc.tile)
	n := fc.outer.Slots()
	// k outermost, so that no sum waits for the one before. Within a step fragments are
	// used in the order in which the next step needs theirs: what loads those takes the
	// registers as they come free. Going back and forth, which shares more operands,
	// took 4% longer on an H200.
	for k := range fa.outer.Shape()[1] {
		left, right := make([]int, n), make([]int, n) // fragments of each result
		for s := range n {
			for w := range fc.outer.Threads() {
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
				if w > 0 && (wa != left[s] || wb != right[s]) {
					l.refuse(in.Pos, "Lower.E5", "warps 0 and %d hold the fragments of one step in different slots", w)
					return
				}
				left[s], right[s] = wa, wb
			}
		}
		for step := range p.Form.Vec {
			for s := range n {
				acc := out[s*fc.size:][:fc.size]
				copy(acc, l.Emit(op, nil, slices.Concat(fa.at(left[s], step, p.Form.Vec), fb.at(right[s], step, p.Form.Vec), acc)...))
			}
		}
	}
	l.env[in.Out[0]] = val{words: l.narrow(out)}
}

// narrow cuts b64 values into words.
func (l *lowerer) narrow(x []code.Value) []code.Value {
	if len(x) == 0 || l.Func().Type(x[0]) != code.B64 {
		return x
	}
	var words []code.Value
	for _, v := range x {
		words = append(words, l.Op(code.OpTrunc32, nil, v), l.Op(code.OpHi32, nil, v))
	}
	return words
}

// dotLanes computes a Dot in each thread by itself, one FMA after the other along k,
// in the type of c. It says what a thread lacks for that.
func (l *lowerer) dotLanes(in *ir.Instr) string {
	a, b, c := in.In[0].Var(), in.In[1].Var(), in.In[2].Var()
	t := c.Type.Elem
	slots, bad := dotSlots(in)
	if bad != "" {
		return bad
	}
	words := func(v *ir.Var) []code.Value {
		if t.IsInt() && v.Type.Elem.Bits() == t.Bits() { // wrapping arithmetic does not see the sign
			return l.env[v].words
		}
		order := make([]int, v.Type.Layout.Slots())
		for s := range order {
			order[s] = s
		}
		w, err := cast.Tile(l.Builder, t, v.Type.Elem, order, l.env[v].words)
		if err != nil {
			l.refuse(in.Pos, "Lower.E4", "%v", err)
		}
		return w
	}
	aw, bw, cw := words(a), words(b), l.env[c].words
	n := c.Type.Layout.Slots()
	var out []code.Value
	switch t.Bits() {
	case 64:
		wide := func(w []code.Value, s int) code.Value { return l.Op(code.OpPack32, nil, w[2*s], w[2*s+1]) }
		for s := range n {
			acc := wide(cw, s)
			for _, k := range slots[s] {
				if x, y := wide(aw, k[0]), wide(bw, k[1]); t.IsFloat() {
					acc = l.Op(code.OpFmaF64, nil, x, y, acc)
				} else {
					acc = l.Op(code.OpAdd64, nil, l.Op(code.OpMul64, nil, x, y), acc)
				}
			}
			out = append(out, acc)
		}
		out = l.narrow(out)
	case 32:
		op := code.OpFmaF32
		if t.IsInt() {
			op = code.OpMad32
		}
		for s := range n {
			acc := cw[s]
			for _, k := range slots[s] {
				acc = l.Op(op, nil, aw[k[0]], bw[k[1]], acc)
			}
			out = append(out, acc)
		}
	default: // 16-bit floats, by halves
		op := map[dtype.Type]code.Op{dtype.F16: code.OpFmaF16, dtype.BF16: code.OpFmaBF16}[t]
		half := func(w []code.Value, s int) code.Value {
			if s%2 == 0 {
				return l.Op(code.OpTrunc16, nil, w[s/2])
			}
			return l.Op(code.OpHi16, nil, w[s/2])
		}
		elems := make([]code.Value, n+n%2)
		elems[n+n%2-1] = l.Const16(0)
		for s := range n {
			acc := half(cw, s)
			for _, k := range slots[s] {
				acc = l.Op(op, nil, half(aw, k[0]), half(bw, k[1]), acc)
			}
			elems[s] = acc
		}
		for s := 0; s < n; s += 2 {
			out = append(out, l.Op(code.OpPack16, nil, elems[s], elems[s+1]))
		}
	}
	l.env[in.Out[0]] = val{words: out}
	return ""
}

// dotSlots gives, for each slot of c and each k, the slots of a and b that hold the
// factors in every thread; or says which thread lacks one.
func dotSlots(in *ir.Instr) (slots [][][2]int, bad string) {
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
