package lower

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/shared"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// tensorRef is a tensor in tensor memory: the place in shared memory where its address
// is, and lane·2^16 + column to add.
type tensorRef struct {
	at  *shared.View
	add int
}

// tcgen05 is a row of thread code.
func tcgen05(name string) code.Op {
	op, err := code.Lookup("tcgen05." + name)
	if err != nil {
		panic(err)
	}
	return op
}

// grouped is a row of thread code for the blocks that use tensor memory together.
func (l *lowerer) grouped(name string) code.Op {
	if l.paired {
		name += ".cta2"
	}
	return tcgen05(name)
}

// tensorAddress is the address of a tensor in tensor memory.
func (l *lowerer) tensorAddress(v *ir.Var) code.Value {
	r := l.env.get(v).tensor
	at := l.Op(code.OpLdSharedB32, []int64{0}, r.at.Address(l.Thread, []code.Value{l.Const32(0)}))
	if r.add > 0 {
		at = l.Add32(at, l.Const32(int64(r.add)))
	}
	return at
}

// firstWarp runs f in the first warp of those that run.
func (l *lowerer) firstWarp(f func()) {
	if l.threads.Size == ir.LanesPerWarp {
		f()
		return
	}
	l.If(l.Op(code.OpSetpU32, []int64{int64(code.LT)}, l.ID, l.Const32(ir.LanesPerWarp)), func() []code.Value {
		return l.scoped(func() []code.Value { f(); return nil })
	}, nil)
}

// blackwell refuses targets without tensor memory.
func (l *lowerer) blackwell(in *ir.Instr) bool {
	return !l.lacks(in.Pos, in.Op.Name, tcgen05("fence::before_thread_sync"))
}

func tensorAlloc(l *lowerer, in *ir.Instr) {
	v := in.Out[0]
	view := tensorPlace(l.room(in, shared.Align, shared.Align))
	l.env.set(v, val{tensor: &tensorRef{at: view}})
	if !l.blackwell(in) {
		return
	}
	cols := l.Const32(int64(ir.ColumnsOf(v.Type)))
	l.firstWarp(func() {
		l.Emit(l.grouped("alloc"), []int64{0}, view.Address(l.Thread, []code.Value{l.Const32(0)}), cols)
	})
}

// tensorPlace is the word of shared memory, from byte at on, that says where a tensor lies.
func tensorPlace(at int) *shared.View {
	return &shared.View{Plan: at, Modes: [][]ir.SharedMode{{{Size: 1, Stride: 1}}}, Dims: []int{1}, Width: 32}
}

func tensorDealloc(l *lowerer, in *ir.Instr) {
	if !l.blackwell(in) {
		return
	}
	v := in.In[0].Var()
	cols := l.Const32(int64(ir.ColumnsOf(v.Type)))
	l.firstWarp(func() { l.Emit(l.grouped("dealloc"), nil, l.tensorAddress(v), cols) })
}

func tensorRelinquish(l *lowerer, in *ir.Instr) {
	if l.blackwell(in) {
		l.firstWarp(func() { l.Emit(l.grouped("relinquish_alloc_permit"), nil) })
	}
}

func tensorView(l *lowerer, in *ir.Instr) {
	r := *l.env.get(in.In[0].Var()).tensor
	if a := in.Attr("offset"); a != nil {
		lane, _ := ir.ConstInt(a.Exprs[0])
		c, _ := ir.ConstInt(a.Exprs[1])
		r.add += int(lane)<<16 + int(c)*in.Out[0].Type.Elem.Bits()/32
	}
	l.env.set(in.Out[0], val{tensor: &r})
}

// tensorFence orders tensor memory against a barrier, in programs that have it.
func (l *lowerer) tensorFence(before bool) {
	op := tcgen05("fence::after_thread_sync")
	if before {
		op = tcgen05("fence::before_thread_sync")
	}
	if l.tensors && l.needs(op) == "" {
		l.Emit(op, nil)
	}
}

// inLanes is the address of a tensor in the lanes that a warp reaches.
func (l *lowerer) inLanes(v *ir.Var) code.Value {
	warp := l.Op(code.OpShrU32, nil, l.ID, l.Const32(5))
	return l.Add32(l.tensorAddress(v), l.Op(code.OpShl32, nil, warp, l.Const32(21)))
}

func (l *lowerer) warpgroup(in *ir.Instr) bool {
	if l.threads.Begin%ir.WarpgroupThreads != 0 || l.threads.Size != ir.WarpgroupThreads {
		l.refuse(in.Pos, "Lower.E10", "threads %d to %d are no warpgroup", l.threads.Begin, l.threads.Begin+l.threads.Size-1)
		return false
	}
	return l.blackwell(in)
}

// lanesForm is the shape in which a warp loads or stores its part of a tensor.
func lanesForm(t ir.Type) string {
	if dims, _ := t.Dims(); dims[0] == ir.HalfLanes {
		return fmt.Sprintf("16x256b.x%d", ir.ColumnsOf(t)/8)
	}
	return fmt.Sprintf("32x32b.x%d", ir.ColumnsOf(t))
}

func tensorLoad(l *lowerer, in *ir.Instr) {
	v := in.Out[0]
	if !l.warpgroup(in) {
		l.env.set(v, val{words: make([]code.Value, wordsOf(v.Type))})
		return
	}
	l.env.set(v, val{words: l.Emit(tcgen05("ld."+lanesForm(in.In[0].Var().Type)), nil, l.inLanes(in.In[0].Var()))})
	l.loads = append(l.loads, v)
}

func tensorStore(l *lowerer, in *ir.Instr) {
	if l.warpgroup(in) {
		l.Emit(tcgen05("st."+lanesForm(in.In[0].Var().Type)), nil, append([]code.Value{l.inLanes(in.In[0].Var())}, l.env.get(in.In[1].Var()).words...)...)
	}
}

// tensorWait gives back the registers that loads have filled.
func tensorWait(l *lowerer, in *ir.Instr) {
	if !l.blackwell(in) {
		return
	}
	if in.Attr("for").Word == "store" {
		l.Emit(tcgen05("wait::st"), nil)
		return
	}
	var back []*ir.Var
	for _, v := range l.loads {
		if _, set := l.env.find(v); set && l.holds(v) {
			back = append(back, v)
		}
	}
	l.loads = nil
	args := l.flatten(back)
	out := make([]code.Value, len(args))
	for i := range out {
		out[i] = l.Func().NewValue(code.B32)
	}
	l.Add(&code.Instr{Op: tcgen05("wait::ld"), In: args, Out: out})
	l.unflatten(back, out)
}

// tensorKinds are the kinds of products by the type of a, and what the types are called
// in an instruction descriptor.
var tensorKinds = map[dtype.Type]struct {
	kind string
	code int64
}{
	dtype.F16: {"f16", 0}, dtype.BF16: {"f16", 1}, dtype.TF32: {"tf32", 2}, dtype.F8E4M3: {"f8f6f4", 0}, dtype.F8E5M2: {"f8f6f4", 1}, dtype.U8: {"i8", 0}, dtype.I8: {"i8", 1},
}

// scaledKinds are the kinds of products with scales by how many elements have one, and
// the types' names.
var scaledKinds = map[[2]int]string{{8, 32}: "mxf8f6f4", {4, 32}: "mxf4", {4, 16}: "mxf4nvf4"}

var scaledCodes = map[dtype.Type]int64{dtype.F8E4M3: 0, dtype.F8E5M2: 1, dtype.F4E2M1: 1}

func turned(c layout.Canonical) int64 {
	if c.Major == layout.MajorMN {
		return 1
	}
	return 0
}

// instruction is the row of a product and the fixed bits of its descriptor.
func (l *lowerer) instruction(in *ir.Instr, plan ir.TensorPlan) (code.Op, int64) {
	a, b, d := in.In[0].Var().Type, in.In[1].Var().Type, in.In[2].Var().Type
	dims, _ := a.Dims()
	rows := int64(dims[0] * ir.TensorBlocks(in))
	word := turned(plan.FormA)<<15 | turned(plan.FormB)<<16 | int64(plan.N/8)<<17 | rows/16<<24
	if plan.Block > 0 {
		if in.In[3].Var().Type.Elem == dtype.F8E8M0 {
			word |= 1 << 23
		}
		return l.grouped("mma.ss." + scaledKinds[[2]int{a.Elem.Bits(), plan.Block}]), word | scaledCodes[a.Elem]<<7 | scaledCodes[b.Elem]<<10
	}
	sums := int64(1)
	if d.Elem == dtype.I32 {
		sums = 2
	}
	form := "ss."
	if a.IsTensorMemory() {
		form = "ts."
	}
	switch {
	case ir.TensorSparse(in):
		form, word = "sp."+form, word|1<<2
	case ir.TensorKeeps(in):
		form = "ws." + form
	}
	ka, kb := tensorKinds[a.Elem], tensorKinds[b.Elem]
	return l.grouped("mma." + form + ka.kind), word | sums<<4 | ka.code<<7 | kb.code<<10
}

func tensorMma(l *lowerer, in *ir.Instr) {
	if !l.blackwell(in) {
		return
	}
	a, b, d := in.In[0].Var(), in.In[1].Var(), in.In[2].Var()
	plan, err := ir.PlanTensor(in)
	if err != nil {
		panic(err) // the verifier has seen it
	}
	op, word := l.instruction(in, plan)
	sum := l.ConstPred(true)
	first := sum
	if x := in.Attr("sum"); x != nil {
		first = l.Op(code.OpSetpU32, []int64{int64(code.NE)}, l.index(x.Exprs[0]), l.Const32(0))
	}
	dims, _ := b.Type.Dims()
	inner, columns, kept := dims[0], dims[1]*ir.TensorBlocks(in), 1 // of the kept elements of a, one in so many
	sparse := ir.TensorSparse(in)
	if sparse {
		kept = 2
	}
	l.single(func() {
		var da descriptor
		var ta code.Value
		if a.Type.IsTensorMemory() {
			ta = l.tensorAddress(a)
		} else {
			da = l.describe(a, plan.FormA, 0, l.Const32(0))
		}
		db, td := l.describe(b, plan.FormB, 1, l.Const32(0)), l.tensorAddress(d)
		var scales [2]code.Value
		if plan.Block > 0 {
			scales = [2]code.Value{l.tensorAddress(in.In[3].Var()), l.tensorAddress(in.In[4].Var())}
		}
		for k := 0; k < inner; k += plan.K {
			add := sum
			if k == 0 {
				add = first
			}
			for n := 0; n < columns; n += plan.N {
				x := ta
				if ta == 0 {
					x = l.further(da, 0, k/kept)
				} else {
					x = l.Add32(ta, l.Const32(int64(k/kept*a.Type.Elem.Bits()/32)))
				}
				args := []code.Value{l.Add32(td, l.Const32(int64(n))), x, l.further(db, k, n)}
				if sparse { // the first of two columns, and which of them it is
					_, column, _ := ir.SparseMark(a.Type.Elem, 0, k)
					args = append(args, l.Add32(l.tensorAddress(in.In[3].Var()), l.Const32(int64(column&^1))), l.Const32(word|int64(column&1)))
					l.Emit(op, nil, append(args, add)...)
					continue
				}
				if plan.Block == 0 {
					l.Emit(op, nil, append(args, l.Const32(word), add)...)
					continue
				}
				// Four blocks along k share a column; which of its bytes are meant is said.
				id := int64(k / plan.Block % 4)
				args = append(args, l.Const32(word|id<<4|id<<29))
				for i, rows := range []int{ir.TensorLanes, columns} {
					_, at := ir.ScaleAt(rows, i*n, k/plan.Block/4*4)
					args = append(args, l.Add32(scales[i], l.Const32(int64(at/4))))
				}
				l.Emit(op, nil, append(args, add)...)
			}
		}
	})
}

// tensorCopy copies rows in parts of 32 or 16 bytes.
func tensorCopy(l *lowerer, in *ir.Instr) {
	if !l.blackwell(in) {
		return
	}
	src, dst := in.In[0].Var(), in.In[1].Var()
	dims, _ := src.Type.Dims()
	bits := src.Type.Elem.Bits()
	form, err := src.Type.Shared.Canonical(bits)
	if err != nil {
		panic(err) // the verifier has seen it
	}
	name, part := "cp.128x256b", 256
	switch {
	case dims[0] == ir.LanesPerWarp:
		name, part = "cp.32x128b.warpx4", 128
	case dims[1]*bits%256 != 0:
		name, part = "cp.128x128b", 128
	}
	op := l.grouped(name)
	l.single(func() {
		from, to := l.describe(src, form, 0, l.Const32(0)), l.tensorAddress(dst)
		for at := 0; at < dims[1]*bits; at += part {
			l.Emit(op, nil, l.Add32(to, l.Const32(int64(at/32))), l.further(from, 0, at/bits))
		}
	})
}

func tensorCommit(l *lowerer, in *ir.Instr) {
	bar, _ := l.turn(in, 0)
	l.afterProducts(in, bar)
}

// afterProducts arrives at a barrier when products are done.
func (l *lowerer) afterProducts(in *ir.Instr, bar code.Value) {
	if l.blackwell(in) {
		op, args := l.grouped("commit"), []code.Value{bar}
		if a := in.Attr("multicast"); a != nil {
			op, args = l.grouped("commit.multicast"), append(args, l.Op(code.OpTrunc16, nil, l.index(a.Exprs[0])))
		}
		l.single(func() { l.Emit(op, []int64{0}, args...) })
	}
}
