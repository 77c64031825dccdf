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
	s := l.env.get(in.In[0].Var()).shared
	lay := in.In[at].Var().Type.Layout
	thread, shape := l.Coords(lay), lay.Shape()
	owner, _ = l.FirstHolder(lay)
	offset := in.Offset(len(s.Dims))
	dims := in.Dims(len(s.Dims), lay.Rank())
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
		index := make([]code.Value, len(s.Dims))
		for d := range index {
			index[d] = l.index(offset[d])
			high := int64(0)
			switch i := slices.Index(dims, d); {
			case d == dim:
				index[d] = l.Add32(index[d], l.env.get(in.In[1].Var()).words[slot])
				high = int64(s.Dims[d]) // not proved
			case i >= 0:
				index[d] = l.Add32(l.Add32(index[d], thread[i]), l.Const32(int64(x[i])))
				high = int64(shape[i] - 1)
			}
			if extent := ir.NewInt(int64(s.Dims[d])); !l.facts.Inside(offset[d], 0, high, extent) {
				l.Op(code.OpCheckIndex, nil, l.below(index[d], extent))
			}
		}
		addr = append(addr, s.Address(l.Thread, index))
	}
	return addr, owner
}

func storeSharedScatter(l *lowerer, in *ir.Instr) {
	v := in.In[2].Var()
	w := v.Type.Elem.Bits()
	addr, owner := l.sharedElements(in, 2)
	for s := range addr {
		x := l.Field(l.env.get(v).words, s*w, w)
		if w == 16 {
			x = l.Op(code.OpTrunc16, nil, x)
		}
		l.Guard(owner, sharedStores[w], []int64{0}, nil, addr[s], x)
	}
}

func atomicShared(l *lowerer, in *ir.Instr) {
	at := slices.IndexFunc(in.Op.In, func(p ir.Port) bool { return p.Name == "tile" })
	addr, owner := l.sharedElements(in, at)
	if in.Attr("rank") != nil {
		l.farAtomics(in, at, addr, owner)
		return
	}
	l.atomics(in, at, addr, slices.Repeat([]code.Value{owner}, len(addr)))
}
