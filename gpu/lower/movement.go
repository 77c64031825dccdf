package lower

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// move renames registers: each slot of the result is one slot of an operand, alike
// in all threads. Where the offset of a slice is not constant, every place that it
// may point to is made, and comparisons choose.
func move(l *lowerer, in *ir.Instr) {
	places, ok := ir.Places(in)
	if !ok {
		panic("lower: a slice with too many places")
	}
	w := in.Out[0].Type.Elem.Bits()
	var words []code.Value
	var place code.Value
	for i, at := range places {
		slots, bad := ir.MoveSlots(in, at)
		if bad != nil {
			panic("lower: " + bad.Msg)
		}
		here := l.Assemble(len(slots), w, func(s int) thread.Field {
			return thread.Field{Words: l.env.get(in.In[slots[s].Operand].Var()).words, Pos: slots[s].Slot * w}
		})
		if i == 0 {
			words = here
			continue
		}
		if i == 1 {
			place = l.placeNumber(in)
		}
		here = l.Choose(l.Op(code.OpSetpU32, []int64{int64(code.EQ)}, place, l.Const32(int64(i))), here, words)
		words = here
	}
	l.env.set(in.Out[0], val{words: words})
}

// placeNumber is the number of the place, in the order of [ir.Places], to which the
// offset of a slice points.
func (l *lowerer) placeNumber(in *ir.Instr) code.Value {
	whole, _ := in.In[0].Var().Type.Dims()
	n := l.Const32(0)
	for d, e := range in.Attr("offset").Exprs {
		if _, ok := ir.ConstInt(e); ok {
			continue
		}
		places := whole[d] - in.Extents()[d] + 1
		n = l.Add32(l.Mul32(n, l.Const32(int64(places))), l.index(e))
	}
	return n
}

// shuffleLanes is ShuffleUp and ShuffleDown: every word goes to another lane.
func shuffleLanes(l *lowerer, in *ir.Instr) {
	delta, width, _ := in.Shuffle()
	up := in.Op.Name == "ShuffleUp"
	words := make([]code.Value, 0, len(l.env.get(in.In[0].Var()).words))
	var lane code.Value
	if width < ir.LanesPerWarp {
		// The lanes of a run agree in the bits above it.
		at := l.Op(code.OpAnd32, nil, l.ID, l.Const32(int64(width-1)))
		cmp, limit, step := code.GE, delta, -delta
		if !up {
			cmp, limit, step = code.LT, width-delta, delta
		}
		has := l.Op(code.OpSetpU32, []int64{int64(cmp)}, at, l.Const32(int64(limit)))
		lane = l.Op(code.OpSelp32, nil, l.Add32(l.ID, l.Const32(int64(step))), l.ID, has)
	}
	for _, x := range l.env.get(in.In[0].Var()).words {
		switch {
		case width < ir.LanesPerWarp:
			words = append(words, l.Op(code.OpShflIdx, nil, x, lane))
		case up:
			words = append(words, l.Op(code.OpShflUp, []int64{int64(delta)}, x))
		default:
			words = append(words, l.Op(code.OpShflDown, []int64{int64(delta)}, x))
		}
	}
	l.env.set(in.Out[0], val{words: words})
}
