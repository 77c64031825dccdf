package lower

import (
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/shared"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// begins is where a shared tensor begins, without a swizzle: tiles begin at whole
// periods.
func (l *lowerer) begins(v *ir.Var) code.Value { return l.start(*l.env.get(v).shared) }

func (l *lowerer) start(s shared.View) code.Value {
	s.Swizzle = layout.Swizzle{}
	zeros := make([]code.Value, len(s.Dims))
	for d := range zeros {
		zeros[d] = l.Const32(0)
	}
	return s.Address(l.Thread, zeros)
}

func (l *lowerer) allocateBarrier(in *ir.Instr) {
	l.allocateShared(in)
	l.makeBarriers(in, l.env.get(in.Out[0]).shared, "count")
}

// makeBarriers makes the barriers of a view, of whose arrivals an attribute tells.
func (l *lowerer) makeBarriers(in *ir.Instr, v *shared.View, arrivals string) {
	at := l.start(*v)
	n := v.Dims[0]
	count := l.Const32(int64(in.Attr(arrivals).Number))
	l.single(func() {
		for i := range n {
			l.Op(code.OpMbarInit, []int64{int64(8 * i)}, at, count)
		}
		l.Op(code.OpFenceMbarInit, nil)
	})
}

// turn is the address of the barrier of a turn, and the number of its phase, of which
// only the lowest bit counts.
func (l *lowerer) turn(in *ir.Instr, i int) (addr, phase code.Value) {
	return l.turnOf(*l.env.get(in.In[i].Var()).shared, in.In[i+1].Expr)
}

func (l *lowerer) turnOf(v shared.View, number ir.Expr) (addr, phase code.Value) {
	n := int64(v.Dims[0])
	base, t := l.start(v), l.index(number)
	one := l.Const32(1)
	if n == 1 {
		return base, l.Op(code.OpAnd32, nil, t, one)
	}
	var at code.Value
	if n&(n-1) == 0 {
		at = l.Op(code.OpAnd32, nil, t, l.Const32(n-1))
		phase = l.Op(code.OpShrU32, nil, t, l.Const32(int64(bits.TrailingZeros64(uint64(n)))))
	} else {
		t = l.Add32(t, l.Const32(2*n)) // turns begin at -n; two phases on is the same parity
		phase = l.DivideU32(t, n)
		at = l.Op(code.OpSub32, nil, t, l.Mul32(phase, l.Const32(n)))
	}
	return l.Add32(base, l.Mul32(at, l.Const32(8))), l.Op(code.OpAnd32, nil, phase, one)
}

// inCluster is the address in another block of the cluster, if the instruction names
// one.
func (l *lowerer) inCluster(in *ir.Instr, addr code.Value) (code.Value, bool) {
	a := in.Attr("rank")
	if a == nil {
		return addr, false
	}
	return l.Op(code.OpMapa, nil, addr, l.index(a.Exprs[0])), true
}

func arriveBarrier(l *lowerer, in *ir.Instr) {
	l.tensorFence(true)
	addr, _ := l.turn(in, 0)
	l.arrive(in, addr)
}

// arrive counts once for each warp of the threads that run.
func (l *lowerer) arrive(in *ir.Instr, addr code.Value) {
	arrive := func() {
		if to, far := l.inCluster(in, addr); far {
			op := code.OpMbarArriveRemote
			if l.handsOver() {
				op = code.OpMbarArriveCluster
			}
			l.Op(op, []int64{0}, to)
		} else {
			l.Op(code.OpMbarArrive, []int64{0}, addr)
		}
	}
	if l.threads.Size < ir.LanesPerWarp {
		l.single(arrive)
		return
	}
	l.Op(code.OpBarWarp, nil)
	lane := l.Op(code.OpAnd32, nil, l.ID, l.Const32(ir.LanesPerWarp-1))
	l.If(l.Op(code.OpSetpU32, []int64{int64(code.EQ)}, lane, l.Const32(0)), func() []code.Value {
		return l.scoped(func() []code.Value { arrive(); return nil })
	}, nil)
}

func arriveExpectTxBarrier(l *lowerer, in *ir.Instr) {
	addr, _ := l.turn(in, 0)
	bytes := l.Const32(int64(in.Attr("bytes").Number))
	l.single(func() {
		if to, far := l.inCluster(in, addr); far {
			l.Op(code.OpMbarArriveExpectTxCluster, []int64{0}, to, bytes)
		} else {
			l.Op(code.OpMbarArriveExpectTx, []int64{0}, addr, bytes)
		}
	})
}

func waitBarrier(l *lowerer, in *ir.Instr) {
	addr, phase := l.turn(in, 0)
	l.await(addr, phase)
}

func (l *lowerer) await(addr, phase code.Value) {
	op := code.OpMbarWaitParity
	if l.handsOver() {
		op = code.OpMbarWaitParityCluster
	}
	l.Op(op, []int64{0}, addr, phase)
	l.tensorFence(false)
}

// handsOver reports that a block may read what threads of another block of its cluster
// stored: something in the memory of another block, or in a global tensor that the
// program also reads. What copies bring needs no fences beside the barriers, which
// cost much of the speed of pipelines.
func (l *lowerer) handsOver() bool {
	if l.p.ClusterSize() == 1 {
		return false
	}
	over := false
	for _, does := range l.p.Touched() {
		over = over || does == ir.ReadsGlobal|ir.WritesGlobal
	}
	l.p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		over = over || ok && in.Attr("rank") != nil && in.Op.Family != "barrier" && in.Op.Family != "pipeline" && in.Op.Family != "bulk" && in.Op.Family != "tensor"
		return !over
	})
	return over
}

func fenceProxyAsync(l *lowerer, _ *ir.Instr) { l.Op(code.OpFenceProxyAsyncShared, nil) }

// allocatePipeline makes the barriers of two arrays as two AllocateBarriers would.
func (l *lowerer) allocatePipeline(in *ir.Instr) {
	v := in.Out[0]
	stages := ir.Stages(v.Type)
	array := func(arrivals string) *shared.View {
		view := &shared.View{Plan: l.room(in, 8*stages, shared.Align), Modes: [][]ir.SharedMode{{{Size: stages, Stride: 1}}}, Dims: []int{stages}, Width: 64}
		l.makeBarriers(in, view, arrivals)
		return view
	}
	l.env.set(v, val{shared: array("producers"), empty: array("consumers")})
}

// emptyTurn is the turn of a pipeline's empty side.
func (l *lowerer) emptyTurn(in *ir.Instr, number ir.Expr) (addr, phase code.Value) {
	return l.turnOf(*l.env.get(in.In[0].Var()).empty, number)
}

func acquirePipeline(l *lowerer, in *ir.Instr) {
	addr, phase := l.emptyTurn(in, ir.Sooner(in.In[1].Expr, ir.Stages(in.In[0].Var().Type), in.Pos))
	l.await(addr, phase)
}

func commitPipeline(l *lowerer, in *ir.Instr) {
	switch {
	case in.Attr("after") != nil:
		tensorCommit(l, in)
	case in.Attr("bytes") != nil:
		arriveExpectTxBarrier(l, in)
	default:
		arriveBarrier(l, in)
	}
}

func releasePipeline(l *lowerer, in *ir.Instr) {
	addr, _ := l.emptyTurn(in, in.In[1].Expr)
	if in.Attr("after") != nil {
		l.afterProducts(in, addr)
		return
	}
	l.tensorFence(true)
	l.arrive(in, addr)
}
