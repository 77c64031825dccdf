package lower

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/arith"
	"github.com/tilus-lab/tilus-lab/gpu/lower/facts"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// globalPart says where a part of a global tensor lies in the whole one.
type globalPart struct {
	extents []ir.Expr    // of the whole
	strides []ir.Expr    // of the whole, nil if it is row-major
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
			a, ok := facts.Affine(e)
			if !ok {
				l.refuse(e.Position(), "Lower.E6", "extent %s is not an expression of parameters", e)
			}
			w.Shape = append(w.Shape, a)
		}
		base := l.Param(code.Param{Name: v.Name, Kind: code.Pointer, Type: code.B64, Elem: v.Type.Elem.String(), NoAlias: true, Workspace: w})
		l.env.set(v, val{global: &global{elem: v.Type.Elem, base: base, extents: v.Type.Shape}})
		return true
	})
}

// allocateGlobal has been done at the start.
func allocateGlobal(*lowerer, *ir.Instr) {}

func sliceGlobal(l *lowerer, in *ir.Instr) {
	g, t := l.env.get(in.In[0].Var()).global, in.Out[0].Type
	w := g.whole()
	p := &globalPart{extents: w.extents, strides: w.strides, at: slices.Clone(w.at), by: slices.Clone(w.by)}
	keep := in.Dims(len(g.extents), len(t.Shape))
	for d, e := range in.Attr("offset").Exprs {
		r := w.dims[d]
		at := l.index(e)
		p.at[r], p.by[r] = l.Plus(p.at[r], at), affine.GCD(p.by[r], l.facts.Divisor(e))
		size := ir.Expr(ir.NewInt(1))
		if i := slices.Index(keep, d); i >= 0 {
			size = t.Shape[i]
		}
		if n, ok := ir.ConstInt(size); ok && l.facts.Inside(e, 0, n-1, g.extents[d]) || size.String() == g.extents[d].String() && l.isZero(e) {
			continue
		}
		// From 0 to extent - size, which may be negative.
		room := l.Op(code.OpSub32, nil, l.index(g.extents[d]), l.index(size))
		ok := l.Op(code.OpAndPred, nil, l.Op(code.OpSetpS32, []int64{int64(code.GE)}, at, l.Const32(0)), l.Op(code.OpSetpS32, []int64{int64(code.LE)}, at, room))
		l.Op(code.OpCheckIndex, nil, ok)
	}
	for _, d := range keep {
		p.dims = append(p.dims, w.dims[d])
	}
	l.env.set(in.Out[0], val{global: &global{elem: g.elem, base: g.base, extents: t.Shape, part: p}})
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
		at[w.dims[d]] = l.Plus(at[w.dims[d]], x)
	}
	flat := l.Const32(0)
	for r, x := range at {
		if w.strides != nil {
			if x != 0 {
				flat = l.Add32(flat, l.Mul32(x, l.index(w.strides[r])))
			}
			continue
		}
		flat = l.Mul32(flat, l.index(w.extents[r]))
		if x != 0 {
			flat = l.Add32(flat, x)
		}
	}
	return flat
}

// element is the address of one element, and whether it is inside; 0 is surely.
func (l *lowerer) element(g *global, offset []ir.Expr) (addr, inside code.Value) {
	index := make([]code.Value, len(offset))
	for d, e := range offset {
		index[d] = l.index(e)
		if !l.facts.Inside(e, 0, 0, g.extents[d]) {
			inside = l.Both(inside, l.below(index[d], g.extents[d]))
		}
	}
	return l.Op(code.OpMadWideS32, nil, l.flat(g, index), l.Const32(int64(g.elem.Bits()/8)), g.base), inside
}

// below is 0 ≤ x < extent: unsigned, so that negative indices are outside too.
func (l *lowerer) below(x code.Value, extent ir.Expr) code.Value {
	return l.Op(code.OpSetpU32, []int64{int64(code.LT)}, x, l.index(extent))
}

// chosen gives the address of each slot's element by indices, and the predicate that
// it is there; it lets the simulator check the indices. owned says that only the
// first holder of an element uses it.
func (l *lowerer) chosen(in *ir.Instr, lay layout.Layout, owned bool) (addr, on []code.Value) {
	g := l.env.get(in.In[0].Var()).global
	dim := in.ScatterDim()
	indices := l.env.get(in.In[1].Var()).words
	thread := l.Coords(lay)
	owner := code.Value(0)
	if owned {
		owner, _ = l.FirstHolder(lay)
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
				index[d] = l.Add32(base, indices[s])
				l.Op(code.OpCheckIndex, nil, l.below(index[d], g.extents[d]))
				continue
			}
			index[d] = l.Add32(l.Add32(base, thread[d]), l.Const32(int64(x)))
			if !l.facts.Inside(offset[d], 0, int64(shape[d]-1), g.extents[d]) {
				guard = l.Both(guard, l.below(index[d], g.extents[d]))
			}
		}
		addr = append(addr, l.Op(code.OpMadWideS32, nil, l.flat(g, index), l.Const32(int64(g.elem.Bits()/8)), g.base))
		on = append(on, guard)
	}
	return addr, on
}

func loadGlobalGather(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	w := t.Elem.Bits()
	addr, on := l.chosen(in, t.Layout, false)
	source := make([]thread.Field, len(addr))
	for s := range addr {
		zero := l.Const32(0)
		if w == 16 {
			zero = l.Const16(0)
		}
		v := l.Guard(on[s], loadOps[w], []int64{0, 0}, []code.Value{zero}, addr[s])[0]
		if w == 16 {
			v = l.Op(code.OpZext16, nil, v)
		}
		source[s] = thread.Field{Words: []code.Value{v}}
	}
	l.env.set(in.Out[0], val{words: l.Assemble(len(addr), w, func(s int) thread.Field { return source[s] })})
}

func storeGlobalScatter(l *lowerer, in *ir.Instr) {
	v := in.In[2].Var()
	w := v.Type.Elem.Bits()
	words := l.env.get(v).words
	addr, on := l.chosen(in, v.Type.Layout, true)
	for s := range addr {
		x := l.Field(words, s*w, w)
		if w == 16 {
			x = l.Op(code.OpTrunc16, nil, x)
		}
		l.Guard(on[s], storeOps[w], []int64{0, 0}, nil, addr[s], x)
	}
}

func atomicGlobal(l *lowerer, in *ir.Instr) {
	defer l.inOrder(in)()
	v := in.In[1].Var()
	a := l.locate(in, v.Type)
	owner, _ := l.FirstHolder(v.Type.Layout)
	addr, on := make([]code.Value, len(a.slots)), make([]code.Value, len(a.slots))
	for _, gr := range l.groups(a) {
		base := l.Op(code.OpMadWideS32, nil, gr.base, l.Const32(int64(a.width/8)), a.g.base)
		for _, r := range gr.runs {
			done := l.packedAdd(in, a, base, r, l.Both(owner, l.guard(a, r.slots[0])))
			for i, s := range r.slots {
				if done[i] {
					continue
				}
				addr[s] = l.Op(code.OpAdd64, nil, base, l.Const64(int64((r.delta+i)*a.width/8)))
				on[s] = l.Both(owner, l.guard(a, s))
			}
		}
	}
	l.atomics(in, 1, addr, on)
}

// inOrder begins steps that order what blocks do; the result ends them.
func (l *lowerer) inOrder(in *ir.Instr) (end func()) {
	if in.Releases() {
		l.Op(code.OpFenceGPU, nil)
	}
	return func() {
		if in.Acquires() {
			l.Op(code.OpFenceGPU, nil)
		}
	}
}

func atomicScatterGlobal(l *lowerer, in *ir.Instr) {
	defer l.inOrder(in)()
	addr, on := l.chosen(in, in.In[2].Var().Type.Layout, true)
	l.atomics(in, 2, addr, on)
}

// atomics makes the steps of a tile, operand at, where addr is not 0.
func (l *lowerer) atomics(in *ir.Instr, at int, addr, on []code.Value) {
	v := in.In[at].Var()
	t, w := v.Type.Elem, v.Type.Elem.Bits()
	op := in.Attr("op").Word
	old := make([]thread.Field, len(addr))
	for s := range addr {
		if addr[s] == 0 {
			continue
		}
		x := l.Field(l.env.get(v).words, s*w, w)
		compare := code.Value(0)
		if op == "cas" {
			compare = l.Field(l.env.get(in.In[at+1].Var()).words, s*w, w)
		}
		old[s] = thread.Field{Words: []code.Value{l.atomic(op, t, addr[s], on[s], x, compare)}}
	}
	if len(in.Out) > 0 {
		l.env.set(in.Out[0], val{words: l.Assemble(len(addr), w, func(s int) thread.Field { return old[s] })})
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
	zero := []code.Value{l.Const32(0)}
	if op == "sub" {
		op = "add"
		if t.IsFloat() {
			x = l.Op(code.OpXor32, nil, x, l.Const32(1<<(t.Bits()-1)))
		} else {
			x = l.Op(code.OpNeg32, nil, x)
		}
	}
	ops, native := wordAtomics[op]
	add, cas := code.OpAtomGlobalAddF32, code.OpAtomGlobalCas
	if l.Func().Type(addr) == code.B32 {
		ops = sharedAtomics[op]
		add, cas = code.OpAtomSharedAddF32, code.OpAtomSharedCas
	}
	switch {
	case t == dtype.F32 && op == "add":
		return l.Guard(on, add, []int64{0}, zero, addr, x)[0]
	case t.Bits() == 32 && op == "cas":
		return l.Guard(on, cas, []int64{0}, zero, addr, compare, x)[0]
	case t.Bits() == 32 && native && (!t.IsFloat() || op == "exch"):
		k := 0
		if t == dtype.U32 {
			k = 1
		}
		return l.Guard(on, ops[k], []int64{0}, zero, addr, x)[0]
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
			low = l.Op(code.OpTrunc32, nil, addr)
			addr = l.Op(code.OpAnd64, nil, addr, l.Const64(-4))
		} else {
			addr = l.Op(code.OpAnd32, nil, addr, l.Const32(-4))
		}
		shift = l.Op(code.OpShl32, nil, l.Op(code.OpAnd32, nil, low, l.Const32(2)), l.Const32(3))
	}
	element := func(word code.Value) code.Value {
		if shift == 0 {
			return word
		}
		return l.Op(code.OpAnd32, nil, l.Op(code.OpShrU32, nil, word, shift), l.Const32(0xffff))
	}
	if on == 0 {
		on = l.ConstPred(true)
	}
	out := l.While([]code.Value{l.Const32(0), on}, func(c []code.Value) code.Value { return c[1] }, func(c []code.Value) []code.Value {
		return l.scoped(func() []code.Value {
			old := element(c[0])
			to := x
			switch op {
			case "cas":
				to = l.Op(code.OpSelp32, nil, x, old, l.Op(code.OpSetpU32, []int64{int64(code.EQ)}, old, compare))
			case "add", "min", "max":
				name := map[string]string{"add": "Add", "min": "Min", "max": "Max"}[op]
				to = arith.Apply(l.Thread, name, nil, t, 1, []code.Value{old}, []code.Value{x})[0]
			}
			word := to
			if shift != 0 {
				keep := l.Op(code.OpNot32, nil, l.Op(code.OpShl32, nil, l.Const32(0xffff), shift))
				to = l.Op(code.OpAnd32, nil, to, l.Const32(0xffff))
				word = l.Op(code.OpOr32, nil, l.Op(code.OpAnd32, nil, c[0], keep), l.Op(code.OpShl32, nil, to, shift))
			}
			found := l.Op(cas, []int64{0}, addr, c[0], word)
			return []code.Value{found, l.Op(code.OpSetpU32, []int64{int64(code.NE)}, found, c[0])}
		})
	})
	return element(out[0])
}

// first is true in the first thread of those that run.
func (l *lowerer) first() code.Value {
	return l.Op(code.OpSetpU32, []int64{int64(code.EQ)}, l.ID, l.Const32(0))
}

// semaphore is the address of a semaphore, which the simulator checks.
func (l *lowerer) semaphore(in *ir.Instr) code.Value {
	addr, inside := l.element(l.env.get(in.In[0].Var()).global, in.Attr("offset").Exprs)
	if inside != 0 {
		l.Op(code.OpCheckIndex, nil, inside)
	}
	return addr
}

// onlyFirst runs f in the first thread.
func (l *lowerer) onlyFirst(f func()) {
	if l.threads.Size == 1 {
		f()
		return
	}
	l.If(l.first(), func() []code.Value {
		return l.scoped(func() []code.Value { f(); return nil })
	}, nil)
}

var putOps = map[int]code.Op{1: code.OpStRelaxedGlobalB32, 2: code.OpStRelaxedGlobalV2B32, 4: code.OpStRelaxedGlobalV4B32}
var takeOps = map[int]code.Op{1: code.OpLdRelaxedGlobalB32, 2: code.OpLdRelaxedGlobalV2B32, 4: code.OpLdRelaxedGlobalV4B32}

// empty is the predicate that a word is no element that was put.
func (l *lowerer) empty(word code.Value) code.Value {
	return l.Op(code.OpSetpU32, []int64{int64(code.EQ)}, word, l.Const32(0))
}

// either is x || y, where 0 stands for false.
func (l *lowerer) either(x, y code.Value) code.Value {
	if x == 0 || y == 0 {
		return x | y
	}
	return l.Op(code.OpOrPred, nil, x, y)
}

// piece is what one access moves of a tile of words.
type piece struct {
	addr   code.Value
	offset int64 // bytes from there
	slots  []int // one, two or four, in the order of memory
	on     code.Value
}

// pieces cuts a tile into accesses, which f gets in turn; slots of which row says different numbers are in different ones.
func (l *lowerer) pieces(a *access, row func(slot int) int, f func(p piece)) {
	for _, gr := range l.groups(a) {
		addr := l.address(a, gr.base)
		for _, r := range gr.runs {
			for i := 0; i < len(r.slots); {
				n := thread.ChunkBits(a.runAlign(r), i*a.width, len(r.slots)*a.width) / a.width
				for slices.ContainsFunc(r.slots[i:i+n], func(s int) bool { return row(s) != row(r.slots[i]) }) {
					n /= 2
				}
				f(piece{addr: addr, offset: int64((r.delta + i) * a.width / 8), slots: r.slots[i : i+n]})
				i += n
			}
		}
	}
}

func putGlobal(l *lowerer, in *ir.Instr) {
	v := in.In[1].Var()
	words := l.env.get(v).words
	a := l.locate(in, v.Type)
	owner, _ := l.FirstHolder(v.Type.Layout)
	minus := l.Const32(1 << 31)
	l.pieces(a, func(int) int { return 0 }, func(p piece) {
		args := []code.Value{p.addr}
		for _, s := range p.slots {
			args = append(args, l.Op(code.OpSelp32, nil, minus, words[s], l.empty(words[s])))
		}
		l.Guard(l.Both(owner, l.guard(a, p.slots[0])), putOps[len(p.slots)], []int64{p.offset}, nil, args...)
	})
}

// takeGlobal asks for all elements at once and looks then which of them are there: mostly all are.
func takeGlobal(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	a := l.locate(in, t)
	count, row := code.Value(0), func(int) int { return 0 }
	if len(in.In) > 1 {
		count, row = l.scalar(in.In[1].Expr, dtype.I32), func(slot int) int { return t.Layout.Index(0, slot)[0] }
	}
	zero, first := l.Const32(0), l.Coords(t.Layout)[0]
	words := make([]code.Value, len(a.slots))
	var all []piece
	l.pieces(a, row, func(p piece) {
		p.on = l.guard(a, p.slots[0])
		if count != 0 {
			at := l.Add32(first, l.Const32(int64(row(p.slots[0]))))
			p.on = l.Both(p.on, l.Op(code.OpSetpS32, []int64{int64(code.LT)}, at, count))
		}
		l.request(p, words, slices.Repeat([]code.Value{zero}, len(words)), p.on)
		all = append(all, p)
	})
	// missing are the predicates of the pieces of which a word is not there.
	missing := func(words []code.Value) (each []code.Value) {
		for _, p := range all {
			absent := code.Value(0)
			for _, s := range p.slots {
				absent = l.either(absent, l.empty(words[s]))
			}
			each = append(each, l.Both(p.on, absent))
		}
		return each
	}
	words = l.While(words, func(c []code.Value) code.Value {
		return l.scoped(func() []code.Value {
			some := code.Value(0)
			for _, absent := range missing(c) {
				some = l.either(some, absent)
			}
			// What a warp leaves as one keeps uniform what is so: ptxas has products' descriptors in uniform registers only where
			// threads of a warp are together.
			if l.threads.Size > 1 {
				some = l.Op(code.OpVoteAny, nil, some)
			}
			return []code.Value{some}
		})[0]
	}, func(c []code.Value) []code.Value {
		return l.scoped(func() []code.Value {
			each, found := missing(c), slices.Clone(c)
			for i, p := range all {
				for k := range p.slots {
					l.Op(code.OpAwaitGlobal, []int64{p.offset + int64(4*k)}, p.addr, each[i])
				}
			}
			for i, p := range all {
				l.request(p, found, c, each[i])
			}
			return found
		})
	})
	owner, shared := l.FirstHolder(t.Layout)
	if shared {
		l.barrier() // all that hold an element have seen it
	}
	for _, p := range all {
		l.Guard(l.Both(owner, p.on), putOps[len(p.slots)], []int64{p.offset}, nil, append([]code.Value{p.addr}, slices.Repeat([]code.Value{zero}, len(p.slots))...)...)
	}
	l.env.set(in.Out[0], val{words: words})
}

// request loads the words of a piece, where on is false those of otherwise.
func (l *lowerer) request(p piece, words, otherwise []code.Value, on code.Value) {
	var rest []code.Value
	for _, s := range p.slots {
		rest = append(rest, otherwise[s])
	}
	for i, x := range l.Guard(on, takeOps[len(p.slots)], []int64{p.offset}, rest, p.addr) {
		words[p.slots[i]] = x
	}
}

func lockSemaphore(l *lowerer, in *ir.Instr) {
	addr, v := l.semaphore(in), l.scalar(in.In[1].Expr, dtype.I32)
	l.onlyFirst(func() { l.Op(code.OpSpinGlobal, []int64{0}, addr, v) })
	l.barrier()
}

func releaseSemaphore(l *lowerer, in *ir.Instr) {
	addr, v := l.semaphore(in), l.scalar(in.In[1].Expr, dtype.I32)
	l.barrier()
	l.onlyFirst(func() { l.Op(code.OpAtomGlobalAcqRelExch, []int64{0}, addr, v) })
}

// lineBytes is how much one prefetch brings.
const lineBytes = 128

// prefetchGlobal cuts the part into lines along its last dimension, which the threads
// ask for in turn.
func prefetchGlobal(l *lowerer, in *ir.Instr) {
	g := l.env.get(in.In[0].Var()).global
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
		n := l.Add32(l.ID, l.Const32(first))
		var on code.Value
		if first+int64(l.threads.Size) > total {
			on = l.Op(code.OpSetpU32, []int64{int64(code.LT)}, n, l.Const32(total))
		}
		index := make([]code.Value, len(shape))
		for d := last; d >= 0; d-- {
			extent, unit := shape[d], int64(1)
			if d == last {
				extent, unit = lines, step
			}
			x := n
			if d > 0 {
				x, n = l.RemainderU32(n, extent), l.DivideU32(n, extent)
			}
			index[d] = l.Add32(l.index(offset[d]), l.Mul32(x, l.Const32(unit)))
			on = l.Both(on, l.below(index[d], g.extents[d]))
		}
		// Bits of elements fit 64 bits; a line may begin inside a byte.
		bits := l.Op(code.OpMulWideS32, nil, l.flat(g, index), l.Const32(int64(g.elem.Bits())))
		addr := l.Op(code.OpAdd64, nil, g.base, l.Op(code.OpShrU64, nil, bits, l.Const32(3)))
		l.If(on, func() []code.Value { l.Op(code.OpPrefetchL2, nil, addr); return nil }, nil)
	}
}

// loadScalar is one load of the same element by every thread.
func loadScalar(l *lowerer, in *ir.Instr) {
	addr, inside := l.element(l.env.get(in.In[0].Var()).global, in.Attr("offset").Exprs)
	x := l.Guard(inside, code.OpLdGlobalB32, []int64{0, 0}, []code.Value{l.Const32(0)}, addr)[0]
	l.env.set(in.Out[0], val{scalar: x})
}
