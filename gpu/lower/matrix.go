package lower

import (
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/gpu/lower/products"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// dot multiplies by the forms of matrix instruction that divide the layouts: the
// first one that the target has, of those that compute the same. Without any it is
// FMAs.
func dot(l *lowerer, in *ir.Instr) {
	c := products.Choose(in, l.opt.Arch)
	if len(c.Same) > 0 {
		l.dotWith(in, c.Same[0].Plan, c.Same[0].Form)
		return
	}
	if !c.Fits {
		bad := l.dotLanes(in)
		if bad == "" {
			return
		}
		c.Not = append(c.Not, bad)
	}
	l.refuse(in.Pos, "Lower.E2", "%s", strings.Join(c.Not, "; "))
}

// dotWith emits the products: every warp does the same instructions on the
// fragments it holds, so fragments must stand in the same slots in all warps.
func (l *lowerer) dotWith(in *ir.Instr, p ir.DotPlan, form arch.Form) {
	op, err := code.Lookup(form.Name)
	if err != nil {
		l.refuse(in.Pos, "Lower.E1", "%v", err)
		return
	}
	cut := func(i int, outer, part layout.Layout) *products.Fragments {
		v := in.In[i].Var()
		words := l.env.get(v).words
		bits := part.Slots() * v.Type.Elem.Bits()
		if v.Type.Elem == dtype.F64 {
			var wide []code.Value
			for s := 0; s < len(words); s += 2 {
				wide = append(wide, l.Op(code.OpPack32, nil, words[s], words[s+1]))
			}
			return &products.Fragments{Outer: outer, Size: bits / 64, Words: wide}
		}
		return &products.Fragments{Outer: outer, Size: bits / 32, Words: words}
	}
	fa, fb, fc := cut(0, p.A, p.Form.A), cut(1, p.B, p.Form.B), cut(2, p.C, p.Form.C)
	out := slices.Clone(fc.Words)
	n := fc.Outer.Slots()
	// k outermost, so that no sum waits for the one before. Within a step fragments are
	// used in the order in which the next step needs theirs: what loads those takes the
	// registers as they come free. Going back and forth, which shares more operands,
	// took 4% longer on an H200.
	rank := fa.Outer.Rank()
	for k := range fa.Outer.Shape()[rank-1] {
		left, right := make([]int, n), make([]int, n) // fragments of each result
		for s := range n {
			for w := range fc.Outer.Threads() {
				at := fc.Outer.Index(w, s)
				i, j := at[rank-2], at[rank-1]
				place := func(row, column int) []int { return append(slices.Clone(at[:rank-2]), row, column) }
				wa, wb := fa.Slot(w, place(i, k)...), fb.Slot(w, place(k, j)...)
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
				acc := out[s*fc.Size:][:fc.Size]
				copy(acc, l.Emit(op, nil, slices.Concat(fa.At(left[s], step, p.Form.Vec), fb.At(right[s], step, p.Form.Vec), acc)...))
			}
		}
	}
	l.env.set(in.Out[0], val{words: l.narrow(out)})
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
	slots, bad := products.Lanes(in)
	if bad != "" {
		return bad
	}
	words := func(v *ir.Var) []code.Value {
		if t.IsInt() && v.Type.Elem.Bits() == t.Bits() { // wrapping arithmetic does not see the sign
			return l.env.get(v).words
		}
		order := make([]int, v.Type.Layout.Slots())
		for s := range order {
			order[s] = s
		}
		w, err := cast.Tile(l.Builder, l.level(), t, v.Type.Elem, order, l.env.get(v).words)
		if err != nil {
			l.refuse(in.Pos, "Lower.E4", "%v", err)
		}
		return w
	}
	aw, bw, cw := words(a), words(b), l.env.get(c).words
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
	l.env.set(in.Out[0], val{words: out})
	return ""
}
