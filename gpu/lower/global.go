package lower

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// globalPart says where a part of a global tensor lies in the whole one.
type globalPart struct {
	extents []ir.Expr    // of the whole
	at      []code.Value // per dimension of the whole: where the part begins; 0 for none
	by      []int64      // what divides that
	dims    []int        // the dimension of the whole that each one of the part is
}

// whole is the tensor that g is a part of; a whole tensor is all of itself.
func (g *global) whole() *globalPart {
	if g.part != nil {
		return g.part
	}
	n := len(g.extents)
	p := &globalPart{extents: g.extents, at: make([]code.Value, n), by: make([]int64, n)}
	for d := range n {
		p.dims = append(p.dims, d)
	}
	return p
}

// workspaces adds a parameter for each tensor of the launch's own.
func (l *lowerer) workspaces() {
	l.p.Body.Walk(func(s ir.Stmt) bool { // a return puts what follows it into a branch
		in, ok := s.(*ir.Instr)
		if !ok || in.Op.Name != "AllocateGlobal" {
			return true
		}
		v := in.Out[0]
		w := &code.Workspace{Bits: v.Type.Elem.Bits(), Zero: in.Attr("init") != nil}
		for _, e := range v.Type.Shape {
			a, ok := affineOf(e)
			if !ok {
				l.refuse(e.Position(), "Lower.E6", "extent %s is not an expression of parameters", e)
			}
			w.Shape = append(w.Shape, a)
		}
		base := l.b.Param(code.Param{Name: v.Name, Kind: code.Pointer, Type: code.B64, Elem: v.Type.Elem.String(), NoAlias: true, Workspace: w})
		l.env[v] = val{global: &global{elem: v.Type.Elem, base: base, extents: v.Type.Shape}}
		return true
	})
}

// allocateGlobal has been done at the start.
func allocateGlobal(*lowerer, *ir.Instr) {}

// plus is x + y, where 0 stands for nothing.
func (l *lowerer) plus(x, y code.Value) code.Value {
	if x == 0 || y == 0 {
		return x | y
	}
	return l.add32(x, y)
}

func sliceGlobal(l *lowerer, in *ir.Instr) {
	g, t := l.env[in.In[0].Var()].global, in.Out[0].Type
	w := g.whole()
	p := &globalPart{extents: w.extents, at: slices.Clone(w.at), by: slices.Clone(w.by)}
	keep := in.Dims(len(g.extents), len(t.Shape))
	for d, e := range in.Attr("offset").Exprs {
		r := w.dims[d]
		at := l.index(e)
		p.at[r], p.by[r] = l.plus(p.at[r], at), gcd(p.by[r], l.facts.divisor(e))
		size := ir.Expr(ir.NewInt(1))
		if i := slices.Index(keep, d); i >= 0 {
			size = t.Shape[i]
		}
		if n, ok := ir.ConstInt(size); ok && l.facts.inside(e, 0, n-1, g.extents[d]) || size.String() == g.extents[d].String() && l.isZero(e) {
			continue
		}
		// From 0 to extent - size, which may be negative.
		room := l.op(code.OpSub32, nil, l.index(g.extents[d]), l.index(size))
		ok := l.op(code.OpAndPred, nil, l.op(code.OpSetpS32, []int64{int64(code.GE)}, at, l.const32(0)), l.op(code.OpSetpS32, []int64{int64(code.LE)}, at, room))
		l.op(code.OpCheckIndex, nil, ok)
	}
	for _, d := range keep {
		p.dims = append(p.dims, w.dims[d])
	}
	l.env[in.Out[0]] = val{global: &global{elem: g.elem, base: g.base, extents: t.Shape, part: p}}
}

func (l *lowerer) isZero(e ir.Expr) bool {
	n, ok := ir.ConstInt(e)
	return ok && n == 0
}

// flat is the number of an element of the whole tensor, given its index in g.
func (l *lowerer) flat(g *global, index []code.Value) code.Value {
	w := g.whole()
	at := slices.Clone(w.at)
	for d, x := range index {
		at[w.dims[d]] = l.plus(at[w.dims[d]], x)
	}
	flat := l.const32(0)
	for r, x := range at {
		flat = l.mul32(flat, l.index(w.extents[r]))
		if x != 0 {
			flat = l.add32(flat, x)
		}
	}
	return flat
}

// element is the address of one element, and whether it is inside; 0 is surely.
func (l *lowerer) element(g *global, offset []ir.Expr) (addr, inside code.Value) {
	index := make([]code.Value, len(offset))
	for d, e := range offset {
		index[d] = l.index(e)
		if !l.facts.inside(e, 0, 0, g.extents[d]) {
			inside = l.andPred(inside, l.below(index[d], g.extents[d]))
		}
	}
	return l.op(code.OpMadWideS32, nil, l.flat(g, index), l.const32(int64(g.elem.Bits()/8)), g.base), inside
}

// below is 0 ≤ x < extent: unsigned, so that negative indices are outside too.
func (l *lowerer) below(x code.Value, extent ir.Expr) code.Value {
	return l.op(code.OpSetpU32, []int64{int64(code.LT)}, x, l.index(extent))
}

// chosen gives the address of each slot's element by indices, and the predicate that
// it is there; it lets the simulator check the indices. owned says that only the
// first holder of an element uses it.
func (l *lowerer) chosen(in *ir.Instr, lay layout.Layout, owned bool) (addr, on []code.Value) {
	g := l.env[in.In[0].Var()].global
	dim := in.ScatterDim()
	indices := l.env[in.In[1].Var()].words
	thread := l.threadCoords(lay)
	owner := code.Value(0)
	if owned {
		owner, _ = l.firstHolder(lay)
	}
	defer l.at(in.Pos)()
	shape := lay.Shape()
	offset := in.Offset(len(g.extents))
	for s := range lay.Slots() {
		index := make([]code.Value, len(g.extents))
		guard := owner
		for d, x := range lay.Index(0, s) {
			base := l.index(offset[d])
			if d == dim {
				index[d] = l.add32(base, indices[s])
				l.op(code.OpCheckIndex, nil, l.below(index[d], g.extents[d]))
				continue
			}
			index[d] = l.add32(l.add32(base, thread[d]), l.const32(int64(x)))
			if !l.facts.inside(offset[d], 0, int64(shape[d]-1), g.extents[d]) {
				guard = l.andPred(guard, l.below(index[d], g.extents[d]))
			}
		}
		addr = append(addr, l.op(code.OpMadWideS32, nil, l.flat(g, index), l.const32(int64(g.elem.Bits()/8)), g.base))
		on = append(on, guard)
	}
	return addr, on
}

func loadGlobalGather(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	w := t.Elem.Bits()
	addr, on := l.chosen(in, t.Layout, false)
	source := make([]field, len(addr))
	for s := range addr {
		zero := l.const32(0)
		if w == 16 {
			zero = l.b.Const16(0)
		}
		v := l.guarded(on[s], loadOps[w], []int64{0, 0}, []code.Value{zero}, addr[s])[0]
		if w == 16 {
			v = l.op(code.OpZext16, nil, v)
		}
		source[s] = field{words: []code.Value{v}}
	}
	l.env[in.Out[0]] = val{words: l.assemble(len(addr), w, func(s int) field { return source[s] })}
}

func storeGlobalScatter(l *lowerer, in *ir.Instr) {
	v := in.In[2].Var()
	w := v.Type.Elem.Bits()
	words := l.env[v].words
	addr, on := l.chosen(in, v.Type.Layout, true)
	for s := range addr {
		x := l.field(words, s*w, w)
		if w == 16 {
			x = l.op(code.OpTrunc16, nil, x)
		}
		l.guarded(on[s], storeOps[w], []int64{0, 0}, nil, addr[s], x)
	}
}

func atomicGlobal(l *lowerer, in *ir.Instr) {
	v := in.In[1].Var()
	a := l.locate(in, v.Type)
	owner, _ := l.firstHolder(v.Type.Layout)
	addr, on := make([]code.Value, len(a.slots)), make([]code.Value, len(a.slots))
	for _, gr := range l.groups(a) {
		base := l.op(code.OpMadWideS32, nil, gr.base, l.const32(int64(a.width/8)), a.g.base)
		for _, r := range gr.runs {
			for i, s := range r.slots {
				addr[s] = l.op(code.OpAdd64, nil, base, l.b.Const64(int64((r.delta+i)*a.width/8)))
				on[s] = l.andPred(owner, l.guard(a, s))
			}
		}
	}
	l.atomics(in, 1, addr, on)
}

func atomicScatterGlobal(l *lowerer, in *ir.Instr) {
	addr, on := l.chosen(in, in.In[2].Var().Type.Layout, true)
	l.atomics(in, 2, addr, on)
}

// atomics makes the steps of a tile, operand at.
func (l *lowerer) atomics(in *ir.Instr, at int, addr, on []code.Value) {
	v := in.In[at].Var()
	t, w := v.Type.Elem, v.Type.Elem.Bits()
	op := in.Attr("op").Word
	old := make([]field, len(addr))
	for s := range addr {
		x := l.field(l.env[v].words, s*w, w)
		compare := code.Value(0)
		if op == "cas" {
			compare = l.field(l.env[in.In[at+1].Var()].words, s*w, w)
		}
		old[s] = field{words: []code.Value{l.atomic(op, t, addr[s], on[s], x, compare)}}
	}
	if len(in.Out) > 0 {
		l.env[in.Out[0]] = val{words: l.assemble(len(addr), w, func(s int) field { return old[s] })}
	}
}

// sharedAtomics are those of shared memory, as [wordAtomics].
var sharedAtomics = map[string][2]code.Op{
	"add": {code.OpAtomSharedAdd, code.OpAtomSharedAdd}, "min": {code.OpAtomSharedMinS32, code.OpAtomSharedMinU32}, "max": {code.OpAtomSharedMaxS32, code.OpAtomSharedMaxU32},
	"and": {code.OpAtomSharedAnd, code.OpAtomSharedAnd}, "or": {code.OpAtomSharedOr, code.OpAtomSharedOr}, "xor": {code.OpAtomSharedXor, code.OpAtomSharedXor}, "exch": {code.OpAtomSharedExch, code.OpAtomSharedExch},
}

// wordAtomics are the atomics that GPUs have, on words of global memory, for signed
// and unsigned numbers.
var wordAtomics = map[string][2]code.Op{
	"add": {code.OpAtomGlobalAdd, code.OpAtomGlobalAdd}, "min": {code.OpAtomGlobalMinS32, code.OpAtomGlobalMinU32}, "max": {code.OpAtomGlobalMaxS32, code.OpAtomGlobalMaxU32},
	"and": {code.OpAtomGlobalAnd, code.OpAtomGlobalAnd}, "or": {code.OpAtomGlobalOr, code.OpAtomGlobalOr}, "xor": {code.OpAtomGlobalXor, code.OpAtomGlobalXor}, "exch": {code.OpAtomGlobalExch, code.OpAtomGlobalExch},
}

// atomic makes one step and gives what stood there. What GPUs have no instruction for
// compares and swaps words until nobody came between.
func (l *lowerer) atomic(op string, t dtype.Type, addr, on, x, compare code.Value) code.Value {
	zero := []code.Value{l.const32(0)}
	if op == "sub" {
		op = "add"
		if t.IsFloat() {
			x = l.op(code.OpXor32, nil, x, l.const32(1<<(t.Bits()-1)))
		} else {
			x = l.op(code.OpNeg32, nil, x)
		}
	}
	ops, native := wordAtomics[op]
	add, cas := code.OpAtomGlobalAddF32, code.OpAtomGlobalCas
	if l.b.Func().Type(addr) == code.B32 {
		ops = sharedAtomics[op]
		add, cas = code.OpAtomSharedAddF32, code.OpAtomSharedCas
	}
	switch {
	case t == dtype.F32 && op == "add":
		return l.guarded(on, add, []int64{0}, zero, addr, x)[0]
	case t.Bits() == 32 && op == "cas":
		return l.guarded(on, cas, []int64{0}, zero, addr, compare, x)[0]
	case t.Bits() == 32 && native && (!t.IsFloat() || op == "exch"):
		k := 0
		if t == dtype.U32 {
			k = 1
		}
		return l.guarded(on, ops[k], []int64{0}, zero, addr, x)[0]
	}
	return l.swap(cas, op, t, addr, on, x, compare)
}

// swap makes a step by compare-and-swap. It begins with a guess of 0: if that is
// wrong, the first try says what stands there.
func (l *lowerer) swap(cas code.Op, op string, t dtype.Type, addr, on, x, compare code.Value) code.Value {
	shift := code.Value(0)
	if t.Bits() == 16 {
		low := addr
		if cas == code.OpAtomGlobalCas {
			low = l.op(code.OpTrunc32, nil, addr)
			addr = l.op(code.OpAnd64, nil, addr, l.b.Const64(-4))
		} else {
			addr = l.op(code.OpAnd32, nil, addr, l.const32(-4))
		}
		shift = l.op(code.OpShl32, nil, l.op(code.OpAnd32, nil, low, l.const32(2)), l.const32(3))
	}
	element := func(word code.Value) code.Value {
		if shift == 0 {
			return word
		}
		return l.op(code.OpAnd32, nil, l.op(code.OpShrU32, nil, word, shift), l.const32(0xffff))
	}
	if on == 0 {
		on = l.b.ConstPred(true)
	}
	out := l.b.While([]code.Value{l.const32(0), on}, func(c []code.Value) code.Value { return c[1] }, func(c []code.Value) []code.Value {
		return l.scoped(func() []code.Value {
			old := element(c[0])
			to := x
			switch op {
			case "cas":
				to = l.op(code.OpSelp32, nil, x, old, l.op(code.OpSetpU32, []int64{int64(code.EQ)}, old, compare))
			case "add", "min", "max":
				name := map[string]string{"add": "Add", "min": "Min", "max": "Max"}[op]
				to = l.apply(name, nil, t, 1, []code.Value{old}, []code.Value{x})[0]
			}
			word := to
			if shift != 0 {
				keep := l.op(code.OpNot32, nil, l.op(code.OpShl32, nil, l.const32(0xffff), shift))
				to = l.op(code.OpAnd32, nil, to, l.const32(0xffff))
				word = l.op(code.OpOr32, nil, l.op(code.OpAnd32, nil, c[0], keep), l.op(code.OpShl32, nil, to, shift))
			}
			found := l.op(cas, []int64{0}, addr, c[0], word)
			return []code.Value{found, l.op(code.OpSetpU32, []int64{int64(code.NE)}, found, c[0])}
		})
	})
	return element(out[0])
}

// first is true in the first thread of those that run.
func (l *lowerer) first() code.Value {
	return l.op(code.OpSetpU32, []int64{int64(code.EQ)}, l.tid, l.const32(0))
}

// semaphore is the address of a semaphore, which the simulator checks.
func (l *lowerer) semaphore(in *ir.Instr) code.Value {
	addr, inside := l.element(l.env[in.In[0].Var()].global, in.Attr("offset").Exprs)
	if inside != 0 {
		l.op(code.OpCheckIndex, nil, inside)
	}
	return addr
}

// onlyFirst runs f in the first thread.
func (l *lowerer) onlyFirst(f func()) {
	if l.threads.Size == 1 {
		f()
		return
	}
	l.b.If(l.first(), func() []code.Value {
		return l.scoped(func() []code.Value { f(); return nil })
	}, nil)
}

func lockSemaphore(l *lowerer, in *ir.Instr) {
	addr, v := l.semaphore(in), l.scalar(in.In[1].Expr, dtype.I32)
	l.onlyFirst(func() { l.op(code.OpSpinGlobal, []int64{0}, addr, v) })
	l.barrier()
}

func releaseSemaphore(l *lowerer, in *ir.Instr) {
	addr, v := l.semaphore(in), l.scalar(in.In[1].Expr, dtype.I32)
	l.barrier()
	l.onlyFirst(func() { l.op(code.OpAtomGlobalAcqRelExch, []int64{0}, addr, v) })
}

// lineBytes is how much one prefetch brings.
const lineBytes = 128

// prefetchGlobal cuts the part into lines along its last dimension, which the threads
// ask for in turn.
func prefetchGlobal(l *lowerer, in *ir.Instr) {
	g := l.env[in.In[0].Var()].global
	shape := make([]int64, len(g.extents))
	for d, e := range in.Attr("shape").Exprs {
		shape[d], _ = ir.ConstInt(e)
	}
	last := len(shape) - 1
	step := max(1, int64(lineBytes*8/g.elem.Bits())) // elements of a line
	lines := (shape[last] + step - 1) / step
	total := lines
	for _, n := range shape[:last] {
		total *= n
	}
	offset := in.Attr("offset").Exprs
	for first := int64(0); first < total; first += int64(l.threads.Size) {
		n := l.add32(l.tid, l.const32(first))
		var on code.Value
		if first+int64(l.threads.Size) > total {
			on = l.op(code.OpSetpU32, []int64{int64(code.LT)}, n, l.const32(total))
		}
		index := make([]code.Value, len(shape))
		for d := last; d >= 0; d-- {
			extent, unit := shape[d], int64(1)
			if d == last {
				extent, unit = lines, step
			}
			x := n
			if d > 0 {
				x, n = l.remainderU32(n, extent), l.divideU32(n, extent)
			}
			index[d] = l.add32(l.index(offset[d]), l.mul32(x, l.const32(unit)))
			on = l.andPred(on, l.below(index[d], g.extents[d]))
		}
		// Bits of elements fit 64 bits; a line may begin inside a byte.
		bits := l.op(code.OpMulWideS32, nil, l.flat(g, index), l.const32(int64(g.elem.Bits())))
		addr := l.op(code.OpAdd64, nil, g.base, l.op(code.OpShrU64, nil, bits, l.const32(3)))
		l.b.If(on, func() []code.Value { l.op(code.OpPrefetchL2, nil, addr); return nil }, nil)
	}
}
