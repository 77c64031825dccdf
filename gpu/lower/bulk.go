package lower

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// bulkRows runs f in one thread for each row of a bulk copy, with its address in global
// memory and its place in the tile.
func (l *lowerer) bulkRows(in *ir.Instr, f func(global, tile code.Value, place int64, bytes code.Value)) {
	g, v := l.env.get(in.In[0].Var()).global, in.In[1].Var()
	dims := in.Dims(len(g.extents), len(v.Type.Shape))
	rows, n, err := ir.BulkRowsOf(v.Type, dims, len(g.extents))
	if err != nil {
		panic(err) // the verifier has seen it
	}
	offset, tile := in.Attr("offset").Exprs, l.begins(v)
	high := make([]int, len(offset))
	for _, r := range rows {
		for d, x := range r.Index {
			high[d] = max(high[d], x)
		}
	}
	high[len(high)-1] += n - 1
	size := g.elem.Bits() / 8
	bytes := l.Const32(int64(n * size))
	l.single(func() {
		at := make([]code.Value, len(offset))
		for d, e := range offset {
			at[d] = l.index(e)
			if !l.facts.Inside(e, 0, int64(high[d]), g.extents[d]) {
				l.Op(code.OpCheckIndex, nil, l.below(at[d], g.extents[d]))
				l.Op(code.OpCheckIndex, nil, l.below(l.Add32(at[d], l.Const32(int64(high[d]))), g.extents[d]))
			}
		}
		for _, r := range rows {
			index := slices.Clone(at)
			for d, x := range r.Index {
				if x > 0 {
					index[d] = l.Add32(index[d], l.Const32(int64(x)))
				}
			}
			addr := l.Op(code.OpMadWideS32, nil, l.flat(g, index), l.Const32(int64(size)), g.base)
			f(addr, tile, int64(r.Place*size), bytes)
		}
	})
}

func copyBulkIn(l *lowerer, in *ir.Instr) {
	bar, _ := l.turn(in, 2)
	op := code.OpBulkLoad
	var more []code.Value
	mask, hint := in.Attr("multicast"), in.Attr("cache")
	switch {
	case mask != nil && hint != nil:
		op = code.OpBulkLoadMulticastHint
	case mask != nil:
		op = code.OpBulkLoadMulticast
	case hint != nil:
		op = code.OpBulkLoadHint
	}
	if mask != nil {
		more = append(more, l.Op(code.OpTrunc16, nil, l.index(mask.Exprs[0])))
	}
	if hint != nil {
		more = append(more, l.Op(policies[hint.Word], nil))
	}
	l.bulkRows(in, func(global, tile code.Value, place int64, bytes code.Value) {
		l.Op(op, []int64{place, 0, 0}, append([]code.Value{tile, global, bytes, bar}, more...)...)
	})
}

func copyBulkOut(l *lowerer, in *ir.Instr) {
	op := code.OpBulkStore
	var more []code.Value
	if hint := in.Attr("cache"); hint != nil {
		op, more = code.OpBulkStoreHint, []code.Value{l.Op(policies[hint.Word], nil)}
	}
	l.bulkRows(in, func(global, tile code.Value, place int64, bytes code.Value) {
		l.Op(op, []int64{0, place}, append([]code.Value{global, tile, bytes}, more...)...)
	})
}

func copyBulkAcross(l *lowerer, in *ir.Instr) {
	t := in.In[0].Var().Type
	bar, _ := l.turn(in, 2)
	from, to := l.begins(in.In[0].Var()), l.begins(in.In[1].Var())
	bytes := l.Const32(int64(t.Shared.Size() * t.Elem.Bits() / 8))
	l.single(func() {
		dst, _ := l.inCluster(in, to)
		far, _ := l.inCluster(in, bar)
		l.Op(code.OpBulkToCluster, []int64{0, 0, 0}, dst, from, bytes, far)
	})
}

func prefetchTensor(l *lowerer, in *ir.Instr) {
	b := boxesOf(in)
	var at []code.Value
	for _, e := range in.Attr("offset").Exprs {
		at = append(at, l.index(e))
	}
	op := l.tensorCopy(in, "prefetch")
	l.single(func() {
		l.Op(op, nil, append([]code.Value{l.maps[mapKey(in, b)]}, l.coords(at, b.Parts[0])...)...)
	})
}

// prefetched is the box of a PrefetchTensor.
func prefetched(in *ir.Instr) ir.Boxes {
	var b ir.Boxes
	for _, e := range in.Attr("shape").Exprs {
		n, _ := ir.ConstInt(e)
		b.Shape = append(b.Shape, int(n))
	}
	b.Parts = []ir.Box{{Index: make([]int, len(b.Shape))}}
	return b
}

func tryCancel(l *lowerer, in *ir.Instr) {
	if l.lacks(in.Pos, in.Op.Name, code.OpClcTryCancel) {
		return
	}
	bar, _ := l.turn(in, 1)
	answer := l.begins(in.In[0].Var())
	op := code.OpClcTryCancel
	if l.p.ClusterSize() > 1 {
		op = code.OpClcTryCancelMulticast
	}
	l.single(func() { l.Op(op, []int64{0, 0}, answer, bar) })
}

func queryResponse(l *lowerer, in *ir.Instr) {
	if l.lacks(in.Pos, in.Op.Name, code.OpClcIsCanceled) {
		return
	}
	answer := l.begins(in.In[0].Var())
	lo, hi := l.Op(code.OpLdSharedB64, []int64{0}, answer), l.Op(code.OpLdSharedB64, []int64{8}, answer)
	taken := l.Op(code.OpClcIsCanceled, nil, lo, hi)
	zero := l.Const32(0)
	// What the machine says of a place that it did not give is not defined.
	where := l.If(taken, func() []code.Value {
		at := []code.Value{l.Op(code.OpClcFirstX, nil, lo, hi), l.Op(code.OpClcFirstY, nil, lo, hi), l.Op(code.OpClcFirstZ, nil, lo, hi)}
		for d, n := range l.p.Cluster { // the block at this one's place in its cluster
			if n > 1 {
				at[d] = l.Add32(at[d], l.Op([]code.Op{code.OpClusterCtaIDX, code.OpClusterCtaIDY, code.OpClusterCtaIDZ}[d], nil))
			}
		}
		return append([]code.Value{l.Const32(1)}, at...)
	}, func() []code.Value { return []code.Value{zero, zero, zero, zero} })
	for i, v := range in.Out {
		l.env.set(v, val{scalar: where[i]})
	}
}

// farReduce are atomic steps on another block's memory whose result nobody wants.
var farReduce = map[string]code.Op{"add": code.OpRedClusterAdd, "min": code.OpRedClusterMinS32, "max": code.OpRedClusterMaxS32}

// farAtomic is one atomic step on the shared memory of another block, whose instructions
// are fewer; the others compare and swap.
func (l *lowerer) farAtomic(in *ir.Instr, t dtype.Type, addr, on, x, compare code.Value) code.Value {
	op := in.Attr("op").Word
	zero := []code.Value{l.Const32(0)}
	alone := len(in.Out) == 0
	red, known := farReduce[op]
	switch {
	case alone && t == dtype.F32 && op == "add":
		red, known = code.OpRedClusterAddF32, true
	case t != dtype.I32 && (t != dtype.U32 || op != "add"):
		known = false
	}
	switch {
	case alone && known:
		l.Guard(on, red, []int64{0}, nil, addr, x)
		return zero[0]
	case op == "add" && t.Bits() == 32 && !t.IsFloat():
		return l.Guard(on, code.OpAtomClusterAdd, []int64{0}, zero, addr, x)[0]
	case op == "exch" && t.Bits() == 32:
		return l.Guard(on, code.OpAtomClusterExch, []int64{0}, zero, addr, x)[0]
	case op == "cas" && t.Bits() == 32:
		return l.Guard(on, code.OpAtomClusterCas, []int64{0}, zero, addr, compare, x)[0]
	case op == "sub":
		if t.IsFloat() {
			x = l.Op(code.OpXor32, nil, x, l.Const32(1<<(t.Bits()-1)))
		} else {
			x = l.Op(code.OpNeg32, nil, x)
		}
		op = "add"
	}
	return l.swap(code.OpAtomClusterCas, op, t, addr, on, x, compare)
}

// farAtomics are the atomic steps of an instruction with a rank.
func (l *lowerer) farAtomics(in *ir.Instr, at int, addr []code.Value, owner code.Value) {
	v := in.In[at].Var()
	t, w := v.Type.Elem, v.Type.Elem.Bits()
	old := make([]thread.Field, len(addr))
	for s := range addr {
		compare := code.Value(0)
		if len(in.In) > at+1 {
			compare = l.Field(l.env.get(in.In[at+1].Var()).words, s*w, w)
		}
		far, _ := l.inCluster(in, addr[s])
		old[s] = thread.Field{Words: []code.Value{l.farAtomic(in, t, far, owner, l.Field(l.env.get(v).words, s*w, w), compare)}}
	}
	if len(in.Out) > 0 {
		l.env.set(in.Out[0], val{words: l.Assemble(len(addr), w, func(s int) thread.Field { return old[s] })})
	}
}
