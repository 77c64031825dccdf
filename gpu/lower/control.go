package lower

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// goesOn is true where all flags of a loop are set.
func (l *lowerer) goesOn(flags []*ir.Var) (on code.Value) {
	for _, v := range flags {
		on = l.Both(on, l.env.get(v).scalar)
	}
	return on
}

// leftLoop is a for loop that break or return may end early.
func (l *lowerer) leftLoop(s *ir.For, c counter, vars []*ir.Var, flags []*ir.Var) []code.Value {
	init := append([]code.Value{c.start}, l.flatten(vars)...)
	out := l.While(init, func(carried []code.Value) code.Value {
		return l.scoped(func() []code.Value {
			l.unflatten(vars, carried[1:])
			more := l.Op(code.OpSetpS32, []int64{int64(code.LT)}, carried[0], c.end)
			return []code.Value{l.Both(more, l.goesOn(flags))}
		})[0]
	}, func(carried []code.Value) []code.Value {
		return l.scoped(func() []code.Value {
			l.unflatten(vars, carried[1:])
			l.env.set(s.Var, val{scalar: c.index(carried[0])})
			l.block(s.Body)
			return append([]code.Value{l.Add32(carried[0], c.by)}, l.flatten(vars)...)
		})
	})
	return out[1:]
}

// assume takes what is promised for a fact, and lets the simulator check it.
func (l *lowerer) assume(s *ir.Assume) {
	l.Op(code.OpAssume, nil, l.boolean(s.Cond))
}

// group runs its body in some of the threads: they have numbers of their own there.
func (l *lowerer) group(s *ir.Group) {
	around, whole := l.threads, l.Thread
	l.threads = around.Of(s)
	var in code.Value
	first, behind := int64(s.Begin), int64(s.Begin+s.Size)
	if s.Begin > 0 {
		in = l.Op(code.OpSetpU32, []int64{int64(code.GE)}, l.ID, l.Const32(first))
	}
	if s.Begin+s.Size < around.Size {
		in = l.Both(in, l.Op(code.OpSetpU32, []int64{int64(code.LT)}, l.ID, l.Const32(behind)))
	}
	body := func() []code.Value {
		return l.scoped(func() []code.Value {
			l.Thread = thread.New(l.Builder, l.Op(code.OpSub32, nil, l.ID, l.Const32(first)))
			l.block(s.Body)
			return nil
		})
	}
	if in == 0 {
		body()
	} else {
		l.If(in, body, nil)
	}
	l.threads, l.Thread = around, whole
}

// warps is how many warps run; 0 for a part of one.
func (l *lowerer) warps() int { return l.threads.Size / ir.LanesPerWarp }

// partly refuses what needs whole warps in a thread group that is none.
func (l *lowerer) partly(in *ir.Instr) bool {
	if l.threads.Size%ir.LanesPerWarp == 0 {
		return false
	}
	switch in.Op.Name {
	case "BlockIndices", "ClusterRank", "ViewGlobal", "SliceGlobal", "AllocateRegister", "LoadGlobal", "LoadScalar", "StoreGlobal", "View", "Cast", "LoadShared", "StoreShared", "SliceShared", "PermuteShared", "ReshapeShared",
		"GridDependencyLaunch", "CopyAsync", "CopyAsyncCommitGroup", "CopyAsyncWaitGroup", "CopyAsyncWaitAll", "PrefetchGlobal", "AtomicGlobal", "AtomicShared", "StoreGlobalScatter", "LoadGlobalGather", "AtomicScatterGlobal", "AtomicScatterShared", "StoreSharedScatter", "PutGlobal":
		return false
	case "Synchronize", "AtomicScalar", "LockSemaphore", "ReleaseSemaphore", "TakeGlobal":
		if l.threads.Size == 1 {
			return false
		}
	}
	if in.Op.Class == ir.ClassElementwise || onBarriers(in.Op.Name) {
		return false
	}
	l.refuse(in.Pos, "Lower.E10", "%s in %d threads of a warp", in.Op.Name, l.threads.Size)
	return true
}

// barrier is the barrier of the threads that run.
func (l *lowerer) barrier() {
	switch {
	case l.threads.Size == 1:
	case l.threads.Size == ir.LanesPerWarp:
		l.Op(code.OpBarWarp, nil)
	case l.threads.Size == l.p.Threads():
		l.Op(code.OpBarSync, []int64{0})
	default:
		id, ok := l.barriers[l.threads]
		if !ok {
			id = int64(len(l.barriers) + 1)
			l.barriers[l.threads] = id
		}
		if id > 15 {
			l.refuse(l.Pos(), "Lower.E11", "the program has %d sets of threads with barriers", id)
			id = 15
		}
		l.Op(code.OpBarGroup, []int64{id, int64(l.threads.Size)})
	}
}
