package lower

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/facts"
	"github.com/tilus-lab/tilus-lab/gpu/lower/shared"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// hopper is what lowering knows of copies by tensor maps and of products of
// warpgroups.
type hopper struct {
	maps map[string]code.Value // parameters that are tensor maps, by what they map
	// products are the accumulators and fragments of groups on their way, in the
	// straight line of code so far; the last is open.
	products [][]*ir.Var
	sums     []*ir.Var // every accumulator of the program
	tensors  bool      // it uses tensor memory
	paired   bool      // together with another block
	loads    []*ir.Var // begun from there, in the straight line of code so far
	// registers are what thread groups set for each of their threads.
	registers map[ir.Threads]int64
}

// sharedAlign is where a tile begins: tensor copies and products find swizzled
// tiles by the bits of their addresses.
func (l *lowerer) sharedAlign(v *ir.Var) int {
	w := v.Type.Shared.Swizzle()
	if w.Identity() || l.maps == nil && l.sums == nil && !l.tensors {
		return shared.Align
	}
	return max(shared.Align, 1<<(w.Base+w.Bits+max(w.Shift, -w.Shift))*v.Type.Elem.Bits()/8)
}

// onBarriers reports instructions that one thread, or each warp, does on its own.
func onBarriers(name string) bool {
	switch name {
	case "ArriveBarrier", "ArriveExpectTxBarrier", "WaitBarrier", "AcquirePipeline", "CommitPipeline", "WaitPipeline", "ReleasePipeline", "FenceProxyAsync", "CopyAsyncTensorGlobalToShared", "CopyAsyncTensorSharedToGlobal", "CopyAsyncTensorCommitGroup", "CopyAsyncTensorWaitGroup",
		"CopyAsyncBulkGlobalToShared", "CopyAsyncBulkSharedToGlobal", "CopyAsyncBulkSharedToClusterShared", "PrefetchTensor", "ClusterLaunchControlTryCancel", "ClusterLaunchControlQueryResponse",
		"Tcgen05Mma", "Tcgen05MmaScaled", "Tcgen05MmaSparse", "Tcgen05Copy", "Tcgen05Commit", "Tcgen05Slice", "Tcgen05View":
		return true
	}
	return false
}

// tensorMaps adds a parameter for each tensor map, and notes the accumulators.
func (l *lowerer) tensorMaps() {
	l.p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		switch {
		case !ok:
		case in.Op.Family == "tcgen05":
			l.tensors = true
			l.paired = l.paired || ir.TensorBlocks(in) == 2
		case in.Op.Name == "WgmmaDot":
			if !slices.Contains(l.sums, in.Out[0]) {
				l.sums = append(l.sums, in.Out[0])
			}
		case in.Op.Name == "CopyAsyncTensorGlobalToShared" || in.Op.Name == "CopyAsyncTensorSharedToGlobal" || in.Op.Name == "PrefetchTensor":
			l.tensorMap(in)
		}
		return true
	})
}

var mapTypes = map[dtype.Type]code.MapType{
	dtype.F16: code.MapF16, dtype.BF16: code.MapBF16, dtype.F32: code.MapF32, dtype.TF32: code.MapF32, dtype.F64: code.MapF64,
	dtype.I32: code.MapI32, dtype.U32: code.MapU32, dtype.I64: code.MapI64, dtype.U64: code.MapU64,
}

func boxesOf(in *ir.Instr) ir.Boxes {
	if len(in.In) == 1 {
		return prefetched(in)
	}
	rank, t := len(in.In[0].Var().Type.Shape), in.In[1].Var().Type
	b, err := ir.BoxesOf(t, in.Dims(rank, len(t.Shape)), rank)
	if err != nil {
		panic(err) // the verifier has seen it
	}
	return b
}

func mapKey(in *ir.Instr, b ir.Boxes) string {
	return fmt.Sprintf("%s %v %d %d", in.In[0].Var().Name, b.Shape, b.Swizzle, mapType(in))
}

// mapType is what a tensor map calls the elements of a copy. Bits of i64 are combined as
// those of u64: and, or and xor of signed 64-bit elements are illegal instructions on an H200.
func mapType(in *ir.Instr) code.MapType {
	elem := in.In[0].Var().Type.Elem
	if a := in.Attr("op"); a != nil && elem == dtype.I64 && (a.Word == "and" || a.Word == "or" || a.Word == "xor") {
		return code.MapU64
	}
	if kind, ok := mapTypes[elem]; ok {
		return kind
	}
	bytes, _ := elem.Bytes()
	return map[int]code.MapType{1: code.MapU8, 2: code.MapU16, 4: code.MapU32, 8: code.MapU64}[bytes]
}

func (l *lowerer) tensorMap(in *ir.Instr) {
	v := in.In[0].Var()
	b := boxesOf(in)
	key := mapKey(in, b)
	if _, ok := l.maps[key]; ok {
		return
	}
	ptr := ir.ViewOf(l.p, v)
	elem := v.Type.Elem
	bytes, _ := elem.Bytes()
	m := &code.TensorMap{Base: ptr.Name, Type: mapType(in), Promotion: code.Promote256B,
		Swizzle: map[int]code.MapSwizzle{0: code.SwizzleNone, 32: code.Swizzle32B, 64: code.Swizzle64B, 128: code.Swizzle128B}[b.Swizzle]}
	stride := affine.Const(int64(bytes))
	for d := len(v.Type.Shape) - 1; d >= 0; d-- {
		e, ok := facts.Affine(v.Type.Shape[d])
		if !ok {
			l.refuse(in.In[0].Pos, "Lower.E6", "extent %s is not an expression of parameters", v.Type.Shape[d])
			return
		}
		m.Dims, m.Box = append(m.Dims, e), append(m.Box, b.Shape[d])
		if d > 0 {
			stride = stride.Mul(e)
			m.Strides = append(m.Strides, stride)
		}
	}
	if l.maps == nil {
		l.maps = map[string]code.Value{}
	}
	l.maps[key] = l.Param(code.Param{Name: fmt.Sprintf("%s_map%d", v.Name, len(l.maps)), Kind: code.Tensor, Type: code.B64, Map: m})
}

// single runs f in the first thread of those that run.
func (l *lowerer) single(f func()) {
	if l.threads.Size == 1 {
		f()
		return
	}
	l.If(l.Op(code.OpSetpU32, []int64{int64(code.EQ)}, l.ID, l.Const32(0)), func() []code.Value {
		return l.scoped(func() []code.Value { f(); return nil })
	}, nil)
}

// coords are the coordinates of the first element of a box, inner first.
func (l *lowerer) coords(at []code.Value, b ir.Box) []code.Value {
	var out []code.Value
	for d := len(at) - 1; d >= 0; d-- {
		x := at[d]
		if b.Index[d] > 0 {
			x = l.Add32(x, l.Const32(int64(b.Index[d])))
		}
		out = append(out, x)
	}
	return out
}

// boxes runs f for each box of a copy, in one thread; place is in bytes from the
// start of the tile.
func (l *lowerer) boxes(in *ir.Instr, f func(m code.Value, tile code.Value, place int64, coords []code.Value)) {
	b := boxesOf(in)
	var at []code.Value
	for _, e := range in.Attr("offset").Exprs {
		at = append(at, l.index(e))
	}
	tile := l.begins(in.In[1].Var())
	l.single(func() {
		for _, part := range b.Parts {
			f(l.maps[mapKey(in, b)], tile, int64(part.Place*in.In[1].Var().Type.Elem.Bits()/8), l.coords(at, part))
		}
	})
}

var policies = map[string]code.Op{"first": code.OpPolicyEvictFirst, "last": code.OpPolicyEvictLast, "normal": code.OpPolicyEvictNormal}

func copyTensorIn(l *lowerer, in *ir.Instr) {
	bar, _ := l.turn(in, 2)
	word := "load"
	var more []code.Value
	if a := in.Attr("multicast"); a != nil {
		word += ".multicast"
		more = append(more, l.Op(code.OpTrunc16, nil, l.index(a.Exprs[0])))
	}
	if to, far := l.inCluster(in, bar); far {
		word, bar = word+".pair", to
		if !l.blackwell(in) {
			return
		}
	}
	if a := in.Attr("cache"); a != nil {
		word += ".hint"
		more = append(more, l.Op(policies[a.Word], nil))
	}
	op := l.tensorCopy(in, word)
	l.boxes(in, func(m, tile code.Value, place int64, coords []code.Value) {
		l.Op(op, []int64{place, 0}, slices.Concat([]code.Value{tile, m, bar}, coords, more)...)
	})
}

func (l *lowerer) tensorCopy(in *ir.Instr, word string) code.Op {
	op, err := code.TensorCopy(len(in.In[0].Var().Type.Shape), word)
	if err != nil {
		panic(err)
	}
	return op
}

func copyTensorOut(l *lowerer, in *ir.Instr) {
	word := "store"
	var more []code.Value
	switch a, hint := in.Attr("op"), in.Attr("cache"); {
	case a != nil:
		word = "reduce." + a.Word
	case hint != nil:
		word += ".hint"
		more = append(more, l.Op(policies[hint.Word], nil))
	}
	op := l.tensorCopy(in, word)
	l.boxes(in, func(m, tile code.Value, place int64, coords []code.Value) {
		l.Op(op, []int64{place}, slices.Concat([]code.Value{m, tile}, coords, more)...)
	})
}

// Groups of copies belong to the thread that begins them.
func copyTensorCommit(l *lowerer, _ *ir.Instr) { l.single(func() { l.Op(code.OpBulkCommit, nil) }) }

func copyTensorWait(l *lowerer, in *ir.Instr) {
	op := code.OpBulkWait
	if in.Attr("until") != nil {
		op = code.OpBulkWaitRead
	}
	l.single(func() { l.Op(op, []int64{int64(in.Attr("n").Number)}) })
}

// descriptor is that of an operand whose first element is at a row and column, which
// are known as far as they are constant.
type descriptor struct {
	base code.Value
	view *shared.View
}

var swizzleCodes = map[int]uint64{0: 0, 128: 1, 64: 2, 32: 3}

// describe makes the descriptor of an operand as [MN, K] that begins at row mn of it.
func (l *lowerer) describe(v *ir.Var, c layout.Canonical, mn int, row code.Value) descriptor {
	s := *l.env.get(v).shared
	s.Swizzle = layout.Swizzle{}
	index := []code.Value{l.Const32(0), l.Const32(0)}
	index[mn] = row
	bytes := uint64(s.Width)
	field := func(elements int) uint64 { return uint64(elements) * bytes / 8 >> 4 & 0x3fff }
	fixed := field(c.LBO)<<16 | field(c.SBO)<<32 | swizzleCodes[c.Width]<<62
	if l.tensors { // another format: version 1, and three bits that say how bytes are swizzled
		fixed = field(c.LBO)<<16 | field(c.SBO)<<32 | 1<<46 | 2*swizzleCodes[c.Width]<<61
	}
	at := l.Op(code.OpShrU32, nil, l.Op(code.OpAnd32, nil, s.Address(l.Thread, index), l.Const32(0x3ffff)), l.Const32(4))
	return descriptor{l.Op(code.OpOr64, nil, l.Op(code.OpZext32, nil, at), l.Const64(int64(fixed))), &s}
}

// further is the descriptor some elements further, along both dimensions of the operand.
func (l *lowerer) further(d descriptor, i, j int) code.Value {
	n := (shared.Along(d.view.Modes[0], i) + shared.Along(d.view.Modes[1], j)) * d.view.Width / 8
	if n == 0 {
		return d.base
	}
	return l.Op(code.OpAdd64, nil, d.base, l.Const64(int64(n>>4)))
}

func wgmmaDot(l *lowerer, in *ir.Instr) {
	a, b, c := in.In[0].Var(), in.In[1].Var(), in.In[2].Var()
	if l.threads.Begin%ir.WarpgroupThreads != 0 {
		l.refuse(in.Pos, "Lower.E10", "threads %d to %d are no whole warpgroups", l.threads.Begin, l.threads.Begin+l.threads.Size-1)
		return
	}
	plan, err := ir.PlanWgmma(in)
	if err != nil {
		panic(err) // the verifier has seen it
	}
	inRegs := a.Type.IsRegister()
	op, err := code.WGMMA(c.Type.Elem, a.Type.Elem, b.Type.Elem, plan.Form.N, inRegs, false)
	if err != nil {
		l.refuse(in.Pos, "Lower.E2", "%v", err)
		return
	}
	imm := []int64{}
	if a.Type.Elem.IsFloat() {
		imm = append(imm, 1, 1)
	}
	if a.Type.Elem.Bits() == 16 {
		if !inRegs {
			imm = append(imm, turned(plan.FormA))
		}
		imm = append(imm, turned(plan.FormB))
	}
	// Rows and columns of the warpgroup; the same in all threads of a warp.
	row, col := l.Const32(0), l.Const32(0)
	if l.threads.Size > ir.WarpgroupThreads {
		group := thread.New(l.Builder, l.DivideU32(l.ID, ir.WarpgroupThreads))
		at := group.Coords(plan.C)
		row, col = at[0], at[1]
	}
	var da descriptor
	if !inRegs {
		da = l.describe(a, plan.FormA, 0, l.Mul32(row, l.Const32(64)))
	}
	db := l.describe(b, plan.FormB, 1, l.Mul32(col, l.Const32(int64(plan.Form.N))))
	dims, _ := a.Type.Dims()
	words := slices.Clone(l.env.get(c).words)
	per := len(words) / plan.C.Slots()
	on := l.ConstPred(true)
	first := on
	if a := in.Attr("sum"); a != nil {
		first = l.Op(code.OpSetpU32, []int64{int64(code.NE)}, l.index(a.Exprs[0]), l.Const32(0))
	}
	for k := 0; k < dims[1]; k += plan.Form.K {
		add := on
		if k == 0 {
			add = first
		}
		for slot := range plan.C.Slots() {
			at := plan.C.Index(0, slot)
			var args []code.Value
			if inRegs {
				args = l.fragment(a, plan, at[0], k/plan.Form.K)
			} else {
				args = []code.Value{l.further(da, at[0]*64, k)}
			}
			args = append(args, l.further(db, k, at[1]*plan.Form.N), add)
			out := l.Emit(op, imm, append(args, words[slot*per:(slot+1)*per]...)...)
			copy(words[slot*per:], out)
		}
	}
	l.env.set(c, val{words: words})
	l.uses(c)
	if inRegs {
		l.uses(a)
	}
}

// fragment is the words of a fragment of a in registers.
func (l *lowerer) fragment(a *ir.Var, plan ir.WgmmaPlan, row, step int) []code.Value {
	words := l.env.get(a).words
	per := len(words) / plan.A.Slots()
	for slot := range plan.A.Slots() {
		if at := plan.A.Index(0, slot); at[0] == row && at[1] == step {
			return slices.Clone(words[slot*per : (slot+1)*per])
		}
	}
	panic("lower: a fragment that the thread does not hold")
}

// uses notes registers of the open group.
func (l *lowerer) uses(v *ir.Var) {
	if len(l.products) == 0 {
		l.products = [][]*ir.Var{nil}
	}
	last := &l.products[len(l.products)-1]
	if !slices.Contains(*last, v) {
		*last = append(*last, v)
	}
}

func wgmmaFence(l *lowerer, _ *ir.Instr) { l.Op(code.OpWgmmaFence, nil) }

func wgmmaCommit(l *lowerer, _ *ir.Instr) {
	l.Op(code.OpWgmmaCommit, nil)
	l.products = append(l.products, nil)
}

// wgmmaWait gives back the registers of the groups that are over: of a wait for all
// those of all accumulators, which may have come from an earlier turn of a loop.
func wgmmaWait(l *lowerer, in *ir.Instr) {
	n := int(in.Attr("n").Number)
	var back []*ir.Var
	if over := len(l.products) - 1 - n; over > 0 {
		for i, group := range l.products[:over] {
			for _, v := range group {
				again := slices.ContainsFunc(l.products[max(over, i+1):], func(g []*ir.Var) bool { return slices.Contains(g, v) })
				if !again && !slices.Contains(back, v) {
					back = append(back, v)
				}
			}
		}
		l.products = l.products[over:]
	}
	if n == 0 {
		for _, v := range l.sums {
			if _, set := l.env.find(v); set && !slices.Contains(back, v) && l.holds(v) {
				back = append(back, v)
			}
		}
	}
	back = slices.DeleteFunc(back, func(v *ir.Var) bool { _, set := l.env.find(v); return !set })
	args := l.flatten(back)
	out := make([]code.Value, len(args))
	for i := range out {
		out[i] = l.Func().NewValue(code.B32)
	}
	l.Add(&code.Instr{Op: code.OpWgmmaWait, Imm: []int64{int64(n)}, In: args, Out: out})
	l.unflatten(back, out)
}

// holds reports that the threads which run hold a register tensor.
func (l *lowerer) holds(v *ir.Var) bool { return v.Type.Layout.Threads() == l.threads.Size }

// setMaxRegisters gives registers back or takes more, against what the launch begins
// with: all of the multiprocessor's, spread evenly.
func setMaxRegisters(l *lowerer, in *ir.Instr) {
	n := int64(in.Attr("n").Number)
	first := int64(min(255, 65536/l.p.Threads()/8*8))
	l.Func().Launch.MaxReg = int(first)
	if l.threads.Size%ir.WarpgroupThreads != 0 || l.threads.Begin%ir.WarpgroupThreads != 0 {
		l.refuse(in.Pos, "Lower.E10", "threads %d to %d are no whole warpgroups", l.threads.Begin, l.threads.Begin+l.threads.Size-1)
		return
	}
	if l.registers == nil {
		l.registers = map[ir.Threads]int64{}
	}
	l.registers[l.threads] = max(n, l.registers[l.threads])
	total := first * int64(l.p.Threads())
	for t, n := range l.registers {
		total += (n - first) * int64(t.Size)
	}
	if total > first*int64(l.p.Threads()) && !l.givesLater(in) {
		l.refuse(in.Pos, "Lower.E13", "thread groups have %d registers together, the block begins with %d", total, first*int64(l.p.Threads()))
		return
	}
	switch {
	case n < first:
		l.Op(code.OpSetMaxRegDec, []int64{n})
	case n > first || !l.keeps(first):
		l.Op(code.OpSetMaxRegInc, []int64{n})
	}
}

func clusterRank(l *lowerer, in *ir.Instr) {
	l.env.set(in.Out[0], val{scalar: l.Op(code.OpClusterCtaRank, nil)})
}

func clusterSynchronize(l *lowerer, _ *ir.Instr) {
	l.Op(code.OpClusterArrive, nil)
	l.Op(code.OpClusterWait, nil)
}

// keeps reports that no thread of the program ever has more or fewer registers than it begins with.
func (l *lowerer) keeps(first int64) bool {
	all := true
	l.p.Body.Walk(func(s ir.Stmt) bool {
		if in, ok := s.(*ir.Instr); ok && in.Op.Name == "SetMaxRegisters" {
			all = all && int64(in.Attr("n").Number) == first
		}
		return true
	})
	return all
}

// givesLater reports that the program sets registers again behind an instruction: what
// groups have together is known at the last one.
func (l *lowerer) givesLater(in *ir.Instr) bool {
	var last *ir.Instr
	l.p.Body.Walk(func(s ir.Stmt) bool {
		if other, ok := s.(*ir.Instr); ok && other.Op == in.Op {
			last = other
		}
		return true
	})
	return last != in
}
