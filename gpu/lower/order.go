package lower

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// synchronize is the barrier of a warp where the threads are one.
func synchronize(l *lowerer, _ *ir.Instr) {
	l.tensorFence(true)
	l.barrier()
	l.tensorFence(false)
}

// synchronizeReduce is a barrier, and what Reduce of the whole tile is in every thread.
func synchronizeReduce(l *lowerer, in *ir.Instr) {
	synchronize(l, in)
	found := l.reduced(in, ir.ReductionOf(in.In[0].Var().Type.Layout, in.ReducedDims()))[0]
	l.env.set(in.Out[0], val{scalar: l.Op(code.OpAnd32, nil, found, l.Const32(1))}) // a byte, what is above it is anything
}

// ordering are the steps that have the order acq_rel in one instruction.
var ordering = map[string]code.Op{"add": code.OpAtomGlobalAcqRelAdd, "inc": code.OpAtomGlobalAcqRelInc, "exch": code.OpAtomGlobalAcqRelExch}

// atomicScalar is an atomic of thread 0, which hands the others what it found.
func atomicScalar(l *lowerer, in *ir.Instr) {
	g := l.env.get(in.In[0].Var()).global
	value, compare := l.scalar(in.In[1].Expr, dtype.I32), code.Value(0)
	if len(in.In) > 2 {
		compare = l.scalar(in.In[2].Expr, dtype.I32)
	}
	first := l.Op(code.OpSetpU32, []int64{int64(code.EQ)}, l.ID, l.Const32(0))
	addr, inside := l.element(g, in.Attr("offset").Exprs)
	guard := l.Both(first, inside)
	step := func(op code.Op) code.Value {
		return l.Guard(guard, op, []int64{0}, []code.Value{l.Const32(0)}, addr, value)[0]
	}
	var old code.Value
	op := in.Attr("op").Word
	if both, ok := ordering[op]; ok && in.Acquires() && in.Releases() {
		old = step(both)
	} else {
		end := l.inOrder(in)
		if op == "inc" {
			old = step(code.OpAtomGlobalInc)
		} else {
			old = l.atomic(op, dtype.I32, addr, guard, value, compare)
		}
		end()
	}
	if l.hands(in) {
		old = l.fromFirst(first, old)
	}
	l.env.set(in.Out[0], val{scalar: old})
}

// hands reports whether an AtomicScalar's result is read, so that thread 0 hands it to the others,
// for which all wait. A debugger may read any.
func (l *lowerer) hands(in *ir.Instr) bool { return l.opt.Stops != nil || l.reads[in.Out[0]] }

// readIn are the variables that some expression of a block names.
func readIn(b *ir.Block) map[*ir.Var]bool {
	reads := map[*ir.Var]bool{}
	read := func(list ...ir.Expr) {
		for _, e := range list {
			ir.Refs(e, func(r *ir.Ref) { reads[r.Var] = true })
		}
	}
	b.Walk(func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Instr:
			for _, o := range s.In {
				read(o.Expr)
			}
			for _, a := range s.Attrs {
				read(a.Exprs...)
			}
		case *ir.Let:
			read(s.Value)
		case *ir.For:
			read(s.From, s.To)
		case *ir.While:
			read(s.Cond)
		case *ir.If:
			read(s.Cond)
		case *ir.Assume:
			read(s.Cond)
		}
		return true
	})
	return reads
}

// handed is the bytes through which a thread hands a word to the others.
const handed = 16

// fromFirst is what x is in thread 0, where first holds.
func (l *lowerer) fromFirst(first, x code.Value) code.Value {
	switch l.warps() {
	case 0:
		return x // one thread; see partly
	case 1:
		return l.Op(code.OpShflIdx, nil, x, l.Const32(0))
	}
	at := []int64{int64(l.scratch(handed))}
	base := l.Op(code.OpSharedBase, nil)
	l.Guard(first, code.OpStSharedB32, at, nil, base, x)
	l.barrier()
	x = l.Op(code.OpLdSharedB32, at, base)
	l.barrier() // the next value may take the place
	return x
}

// Launches overlap from sm_90 on; before, they follow each other, which is what
// the program means.
func overlaps(l *lowerer) bool { return l.opt.Arch.Capability() >= 90 }

func gridDependencyWait(l *lowerer, in *ir.Instr) {
	if !overlaps(l) {
		return
	}
	l.Func().Launch.PDL = true
	if in.Attr("blocks") == nil {
		l.Op(code.OpGridDepWait, nil)
		return
	}
	block := l.Op(code.OpCtaidX, nil)
	for _, op := range []code.Op{code.OpCtaidY, code.OpCtaidZ}[:max(len(l.p.Grid), 1)-1] {
		block = l.Op(code.OpOr32, nil, block, l.Op(op, nil))
	}
	first := l.Op(code.OpSetpU32, []int64{int64(code.EQ)}, block, l.Const32(0))
	l.If(first, func() []code.Value { l.Op(code.OpGridDepWait, nil); return nil }, nil)
}

func gridDependencyLaunch(l *lowerer, _ *ir.Instr) {
	if overlaps(l) {
		l.Op(code.OpGridDepLaunch, nil)
	}
}
