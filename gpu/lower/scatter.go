package lower

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// sharedElements are the addresses of the elements of the tile that is operand at,
// per slot; by indices if the instruction has a dim. The simulator checks that they
// are inside.
func (l *lowerer) sharedElements(in *ir.Instr, at int) (addr []code.Value, owner code.Value) {
	s := l.env[in.In[0].Var()].shared
	lay := in.In[at].Var().Type.Layout
	thread, shape := l.threadCoords(lay), lay.Shape()
	owner, _ = l.firstHolder(lay)
	offset := in.Offset(len(s.dims))
	dims := in.Dims(len(s.dims), lay.Rank())
	dim := -1
	if in.Attr("dim") != nil {
		dim = in.ScatterDim()
		for d := range dims {
			dims[d] = d
		}
	}
	defer l.at(in.Pos)()
	for slot := range lay.Slots() {
		x := lay.Index(0, slot)
		index := make([]code.Value, len(s.dims))
		for d := range index {
			index[d] = l.index(offset[d])
			high := int64(0)
			switch i := slices.Index(dims, d); {
			case d == dim:
				index[d] = l.add32(index[d], l.env[in.In[1].Var()].words[slot])
				high = int64(s.dims[d]) // not proved
			case i >= 0:
				index[d] = l.add32(l.add32(index[d], thread[i]), l.const32(int64(x[i])))
				high = int64(shape[i] - 1)
			}
			if extent := ir.NewInt(int64(s.dims[d])); !l.facts.inside(offset[d], 0, high, extent) {
				l.op(code.OpCheckIndex, nil, l.below(index[d], extent))
			}
		}
		addr = append(addr, l.sharedElement(s, index))
	}
	return addr, owner
}

// sharedElement is the address of an element.
func (l *lowerer) sharedElement(s *shared, index []code.Value) code.Value {
	v := l.const32(int64(s.static))
	for _, t := range s.terms {
		v = l.add32(v, t.value)
	}
	for d, modes := range s.modes {
		unit := int64(1)
		for i := len(modes) - 1; i >= 0; i-- {
			x := index[d]
			if unit > 1 {
				x = l.divideU32(x, unit)
			}
			if i > 0 {
				x = l.remainderU32(x, int64(modes[i].Size))
			}
			v = l.add32(v, l.mul32(x, l.const32(int64(modes[i].Stride))))
			unit *= int64(modes[i].Size)
		}
	}
	v = l.mul32(l.swizzle(s.w, v), l.const32(int64(s.width/8)))
	return l.add32(l.op(code.OpSharedBase, nil), l.add32(v, l.const32(int64(s.plan))))
}

func storeSharedScatter(l *lowerer, in *ir.Instr) {
	v := in.In[2].Var()
	w := v.Type.Elem.Bits()
	addr, owner := l.sharedElements(in, 2)
	for s := range addr {
		x := l.field(l.env[v].words, s*w, w)
		if w == 16 {
			x = l.op(code.OpTrunc16, nil, x)
		}
		l.guarded(owner, sharedStores[w], []int64{0}, nil, addr[s], x)
	}
}

func atomicShared(l *lowerer, in *ir.Instr) {
	at := slices.IndexFunc(in.Op.In, func(p ir.Port) bool { return p.Name == "tile" })
	addr, owner := l.sharedElements(in, at)
	l.atomics(in, at, addr, slices.Repeat([]code.Value{owner}, len(addr)))
}
