package lower

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/facts"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func blockIndices(l *lowerer, in *ir.Instr) {
	for i, v := range in.Out {
		l.env.set(v, val{scalar: l.Op([]code.Op{code.OpCtaidX, code.OpCtaidY, code.OpCtaidZ}[i], nil)})
		l.facts.Span(v, ir.NewInt(0), l.p.Grid[i], 1)
	}
}

func viewGlobal(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	g := &global{elem: t.Elem, base: l.env.get(in.In[0].Var()).scalar, extents: t.Shape}
	if a := in.Attr("strides"); a != nil {
		g.part = g.whole()
		g.part.strides = a.Exprs
	}
	l.env.set(in.Out[0], val{global: g})
}

// access is a tile's place in a global tensor, seen by one thread.
type access struct {
	g     *global
	width int // bits of an element
	tile  ir.Type

	index  []code.Value // per tensor dimension: where this thread's slot 0 lies
	proved []bool       // per tensor dimension: surely inside
	// block is, per tensor dimension along which the whole tile is inside or outside
	// together, its offset; else 0.
	block []code.Value
	// stride is elements per step in each tensor dimension; where it depends on
	// parameters, or leads too far, strideVal computes it and stride is 0.
	stride    []int
	strideVal []code.Value
	slots     [][]int    // per slot: its constant part of the index, per tensor dimension
	origin    code.Value // of a part: the element that it begins at; 0 for none

	align int64 // divides every thread's element index of a slot group's base; at most 1<<20
	along int   // the dimension in which neighbours lie side by side, if there is one
	last  int64 // divides every thread's index in that dimension and its extent
	hints code.Attr
}

// farthest is how many elements slots may lie apart in a dimension for the distance of all
// dimensions together, in bytes, to be a constant of an access, which has 32 bits.
const farthest = 1 << 24

// locate finds the tile of a load or store in its tensor.
func (l *lowerer) locate(in *ir.Instr, tile ir.Type) *access {
	a := &access{g: l.env.get(in.In[0].Var()).global, tile: tile, width: tile.Elem.Bits()}
	if c := in.Attr("cache"); c != nil {
		a.hints = map[string]code.Attr{"stream": code.NoAllocate, "evict_first": code.EvictFirst, "evict_last": code.EvictLast}[c.Word]
	}
	if n := in.Attr("prefetch"); n != nil {
		a.hints |= map[float64]code.Attr{64: code.L2Prefetch64, 128: code.L2Prefetch128, 256: code.L2Prefetch256}[n.Number]
	}
	rank := len(a.g.extents)
	dims := in.Dims(rank, len(tile.Shape))
	shape := tile.Layout.Shape()
	spatial, local := tile.Layout.Digits()
	thread := l.Coords(tile.Layout)
	offset := in.Attr("offset").Exprs

	a.slots = make([][]int, tile.Layout.Slots())
	far := make([]int64, rank) // the last slot's index
	for s := range a.slots {
		a.slots[s] = make([]int, rank)
		for i, x := range tile.Layout.Index(0, s) {
			a.slots[s][dims[i]] = x
			far[dims[i]] = max(far[dims[i]], int64(x))
		}
	}
	// What the thread number and the slots add moves in these steps.
	threadStep, slotStep := make([]int64, rank), make([]int64, rank)
	for _, d := range spatial {
		if d.Dim >= 0 && d.Size > 1 {
			threadStep[dims[d.Dim]] = affine.GCD(threadStep[dims[d.Dim]], int64(d.Stride))
		}
	}
	for _, d := range local {
		if d.Size > 1 {
			slotStep[dims[d.Dim]] = affine.GCD(slotStep[dims[d.Dim]], int64(d.Stride))
		}
	}

	a.index, a.proved, a.block = make([]code.Value, rank), make([]bool, rank), make([]code.Value, rank)
	for g := range rank {
		a.index[g] = l.index(offset[g])
		first := a.index[g]
		high := int64(0)
		if i := slices.Index(dims, g); i >= 0 {
			a.index[g] = l.Add32(a.index[g], thread[i])
			high = int64(shape[i] - 1)
		}
		a.proved[g] = l.facts.Inside(offset[g], 0, high, a.g.extents[g])
		// Both are multiples of what is no smaller than the tile.
		if n := affine.GCD(l.facts.Divisor(offset[g]), l.facts.Divisor(a.g.extents[g])); n > high {
			a.block[g] = first
		}
	}

	a.stride, a.strideVal = make([]int, rank), make([]code.Value, rank)
	factor := int64(1) // divides the stride
	known, value := 1, code.Value(0)
	root := a.g.whole()
	a.along = rank - 1
	if root.strides != nil {
		if g := slices.IndexFunc(root.dims, func(r int) bool { n, ok := ir.ConstInt(root.strides[r]); return ok && n == 1 }); g >= 0 {
			a.along = g
		}
	}
	for r := len(root.extents) - 1; r >= 0; r-- {
		if root.strides != nil {
			n, _ := ir.ConstInt(root.strides[r])
			known, value = int(n), l.index(root.strides[r])
			if factor = facts.Saturate(l.facts.Divisor(root.strides[r])); factor == 0 {
				factor = facts.Many // no step moves anything
			}
		}
		stride := value
		if known != 0 {
			stride = l.Const32(int64(known))
		}
		step := root.by[r]
		if root.at[r] != 0 {
			a.origin = l.Plus(a.origin, l.Mul32(root.at[r], stride))
		}
		if g := slices.Index(root.dims, r); g >= 0 {
			a.stride[g], a.strideVal[g] = known, stride
			if int64(known)*far[g] > farthest {
				a.stride[g] = 0 // to the slots as if it were known only when the program runs
			}
			moves := affine.GCD(l.facts.Divisor(offset[g]), threadStep[g])
			if a.stride[g] == 0 {
				moves = affine.GCD(moves, slotStep[g])
			}
			step = affine.GCD(step, moves)
			if g == a.along {
				a.last = affine.GCD(moves, l.facts.Divisor(a.g.extents[g]))
			}
		}
		a.align = affine.GCD(a.align, facts.Saturate(step*min(factor, facts.Many)))
		if root.strides != nil {
			continue
		}
		if n, ok := ir.ConstInt(root.extents[r]); ok && known != 0 {
			known *= int(n)
		} else {
			value = l.Mul32(stride, l.index(root.extents[r]))
			known = 0
		}
		factor = facts.Saturate(min(factor, facts.Many) * max(1, min(l.facts.Divisor(root.extents[r]), facts.Many)))
	}
	if a.align == 0 {
		a.align = facts.Many
	}
	if a.last == 0 {
		a.last = facts.Many
	}
	return a
}

// run is a set of slots whose elements lie one after the other in memory and are
// inside the tensor together.
type run struct {
	slots []int // in the order of memory
	delta int   // elements from the base to the first
}

// group are the slots that share a base address: those with the same index in
// the dimensions whose stride is known only when the program runs.
type group struct {
	base code.Value // element index, b32
	runs []run
}

func (l *lowerer) groups(a *access) []group {
	rank := len(a.g.extents)
	var key []byte // of the last one
	keyOf := func(s int) string {
		key = key[:0]
		for g := range rank {
			if a.stride[g] == 0 {
				key = binary.AppendVarint(key, int64(a.slots[s][g]))
			}
		}
		return string(key)
	}
	// Slots that only together are inside: their index in unproved dimensions,
	// in the last one by steps that divide everything.
	together := func(s int) string {
		key = key[:0]
		for g := range rank {
			if !a.proved[g] && a.block[g] == 0 {
				at := a.slots[s][g]
				if g == a.along {
					at /= int(min(a.last, 1<<16))
				}
				key = binary.AppendVarint(key, int64(at))
			}
		}
		return string(key)
	}
	delta := func(s int) (n int) {
		for g := range rank {
			n += a.slots[s][g] * a.stride[g]
		}
		return n
	}
	var keys []string
	byKey := map[string][]int{}
	for s := range a.slots {
		k := keyOf(s)
		if byKey[k] == nil {
			keys = append(keys, k)
		}
		byKey[k] = append(byKey[k], s)
	}
	base := l.Plus(a.origin, l.Const32(0))
	for g := range rank {
		base = l.Add32(base, l.Mul32(a.index[g], a.strideVal[g]))
	}
	var out []group
	for _, k := range keys {
		slots := byKey[k]
		slices.SortFunc(slots, func(x, y int) int { return cmp.Compare(delta(x), delta(y)) })
		gr := group{base: base}
		for g := range rank {
			if x := a.slots[slots[0]][g]; a.stride[g] == 0 && x != 0 {
				gr.base = l.Add32(gr.base, l.Mul32(l.Const32(int64(x)), a.strideVal[g]))
			}
		}
		for _, s := range slots {
			n := len(gr.runs)
			if n > 0 {
				r := &gr.runs[n-1]
				if delta(s) == r.delta+len(r.slots) && together(s) == together(r.slots[0]) {
					r.slots = append(r.slots, s)
					continue
				}
			}
			gr.runs = append(gr.runs, run{slots: []int{s}, delta: delta(s)})
		}
		out = append(out, gr)
	}
	return out
}

// guard is the predicate that a slot's element is inside, or 0 when that is sure.
func (l *lowerer) guard(a *access, slot int) code.Value {
	var all code.Value
	for g := range a.g.extents {
		if a.proved[g] {
			continue
		}
		at := a.block[g]
		if at == 0 {
			at = l.Add32(a.index[g], l.Const32(int64(a.slots[slot][g])))
		}
		// Unsigned, so that negative indices are outside too.
		in := l.Op(code.OpSetpU32, []int64{int64(code.LT)}, at, l.index(a.g.extents[g]))
		all = l.Both(all, in)
	}
	return all
}

// runAlign is the alignment in bits of a run's first element.
func (a *access) runAlign(r run) int64 {
	return affine.GCD(a.align, int64(r.delta)) * int64(a.width)
}

// whole reports that a run can be moved in bytes and wider units.
func (a *access) whole(r run) bool {
	n := len(r.slots) * a.width
	if n%8 != 0 {
		return false
	}
	return thread.ChunkBits(a.runAlign(r), 0, n) > 0
}

// address is the address of a byte-aligned element index plus a constant offset
// in bytes.
func (l *lowerer) address(a *access, base code.Value) code.Value {
	if a.width%8 == 0 {
		return l.Op(code.OpMadWideS32, nil, base, l.Const32(int64(a.width/8)), a.g.base)
	}
	// base·width/8 without leaving 32 bits.
	w := l.Const32(int64(a.width))
	bytes := l.Mul32(l.Op(code.OpShrS32, nil, base, l.Const32(3)), w)
	if a.align%8 != 0 {
		rest := l.Mul32(l.Op(code.OpAnd32, nil, base, l.Const32(7)), w)
		bytes = l.Add32(bytes, l.Op(code.OpShrU32, nil, rest, l.Const32(3)))
	}
	return l.Op(code.OpMadWideS32, nil, bytes, l.Const32(1), a.g.base)
}

var loadOps = map[int]code.Op{8: code.OpLdGlobalB8, 16: code.OpLdGlobalB16, 32: code.OpLdGlobalB32, 64: code.OpLdGlobalV2B32, 128: code.OpLdGlobalV4B32}
var storeOps = map[int]code.Op{8: code.OpStGlobalB8, 16: code.OpStGlobalB16, 32: code.OpStGlobalB32, 64: code.OpStGlobalV2B32, 128: code.OpStGlobalV4B32}

func loadGlobal(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	a := l.locate(in, t)
	// Loads under one guard become a branch in ptxas, which ends their overlap with
	// others: on an H200 products of 8 rows took an eighth longer.
	clear(a.block)
	source := make([]thread.Field, len(a.slots))
	for _, gr := range l.groups(a) {
		var addr code.Value
		for _, r := range gr.runs {
			if !a.whole(r) {
				for i, s := range r.slots {
					source[s] = thread.Field{Words: []code.Value{l.loadBits(a, gr.base, r.delta+i, l.guard(a, s))}}
				}
				continue
			}
			if addr == 0 {
				addr = l.address(a, gr.base)
			}
			words := l.loadRun(a, addr, r, l.guard(a, r.slots[0]))
			for i, s := range r.slots {
				source[s] = thread.Field{Words: words, Pos: i * a.width}
			}
		}
	}
	l.env.set(in.Out[0], val{words: l.Assemble(len(a.slots), a.width, func(s int) thread.Field { return source[s] })})
}

// loadRun loads a run's bits into words, in the widest accesses that alignment
// allows.
func (l *lowerer) loadRun(a *access, addr code.Value, r run, guard code.Value) []code.Value {
	n := len(r.slots) * a.width
	words := make([]code.Value, (n+31)/32)
	for pos := 0; pos < n; {
		w := thread.ChunkBits(a.runAlign(r), pos, n)
		op := loadOps[w]
		imm := []int64{int64((r.delta*a.width + pos) / 8), int64(a.hints)}
		var zeros []code.Value
		for _, t := range op.Row().Out {
			if t == code.B16 {
				zeros = append(zeros, l.Const16(0))
			} else {
				zeros = append(zeros, l.Const32(0))
			}
		}
		got := l.Guard(guard, op, imm, zeros, addr)
		for i, v := range got {
			if w == 16 {
				v = l.Op(code.OpZext16, nil, v)
			}
			at := pos + 32*i
			words[at/32] = l.OrShifted(words[at/32], v, at%32)
		}
		pos += w
	}
	return words
}

// bitPlace is where element base+delta begins: the address of its unit of
// 2^log bits, and the bit inside, without leaving 32 bits.
func (l *lowerer) bitPlace(a *access, base code.Value, delta int, log int64) (addr, bit code.Value) {
	unit := int64(1) << log
	e := l.Add32(base, l.Const32(int64(delta)))
	w := l.Const32(int64(a.width))
	rest := l.Mul32(l.Op(code.OpAnd32, nil, e, l.Const32(unit-1)), w)
	units := l.Add32(l.Mul32(l.Op(code.OpShrS32, nil, e, l.Const32(log)), w), l.Op(code.OpShrU32, nil, rest, l.Const32(log)))
	return l.Op(code.OpMadWideS32, nil, units, l.Const32(unit/8), a.g.base), l.Op(code.OpAnd32, nil, rest, l.Const32(unit-1))
}

// loadBits loads one element of less than 8 bits that may lie across two bytes:
// the fallback of the paper's Figure 7.
func (l *lowerer) loadBits(a *access, base code.Value, delta int, guard code.Value) code.Value {
	addr, bit := l.bitPlace(a, base, delta, 3)
	zero := []code.Value{l.Const32(0)}
	v := l.Guard(guard, code.OpLdGlobalB8, []int64{0, 0}, zero, addr)[0]
	if 8%a.width != 0 {
		crosses := l.Op(code.OpSetpU32, []int64{int64(code.GT)}, bit, l.Const32(int64(8-a.width)))
		next := l.Guard(l.Both(guard, crosses), code.OpLdGlobalB8, []int64{1, 0}, zero, addr)[0]
		v = l.OrShifted(v, next, 8)
	}
	v = l.Op(code.OpShrU32, nil, v, bit)
	return l.Op(code.OpAnd32, nil, v, l.Const32(1<<a.width-1))
}

func storeGlobal(l *lowerer, in *ir.Instr) {
	v := in.In[1].Var()
	words := l.env.get(v).words
	a := l.locate(in, v.Type)
	owner, _ := l.FirstHolder(v.Type.Layout)
	for _, gr := range l.groups(a) {
		var addr code.Value
		for _, r := range gr.runs {
			if !a.whole(r) {
				for i, s := range r.slots {
					guard := l.Both(owner, l.guard(a, s))
					l.storeBits(a, gr.base, r.delta+i, guard, l.Field(words, s*a.width, a.width))
				}
				continue
			}
			if addr == 0 {
				addr = l.address(a, gr.base)
			}
			data := l.Assemble(len(r.slots), a.width, func(i int) thread.Field { return thread.Field{Words: words, Pos: r.slots[i] * a.width} })
			l.storeRun(a, addr, r, l.Both(owner, l.guard(a, r.slots[0])), data)
		}
	}
}

func (l *lowerer) storeRun(a *access, addr code.Value, r run, guard code.Value, words []code.Value) {
	n := len(r.slots) * a.width
	for pos := 0; pos < n; {
		w := thread.ChunkBits(a.runAlign(r), pos, n)
		in := []code.Value{addr}
		for i := 0; i < w; i += 32 {
			x := words[(pos+i)/32]
			if s := (pos + i) % 32; s > 0 {
				x = l.Op(code.OpShrU32, nil, x, l.Const32(int64(s)))
			}
			if w == 16 {
				x = l.Op(code.OpTrunc16, nil, x)
			}
			in = append(in, x)
		}
		l.Guard(guard, storeOps[w], []int64{int64((r.delta*a.width + pos) / 8), int64(a.hints)}, nil, in...)
		pos += w
	}
}

// storeBits stores one element of less than 8 bits whose byte other threads may
// write too: its bits are cleared and set by two atomic steps on 32-bit words,
// which leave all other bits alone whatever the order.
func (l *lowerer) storeBits(a *access, base code.Value, delta int, guard, v code.Value) {
	addr, bit := l.bitPlace(a, base, delta, 5)
	mask := l.Const32(1<<a.width - 1)
	put := func(guard code.Value, offset int64, keep, set code.Value) {
		l.Guard(guard, code.OpRedGlobalAnd, []int64{offset}, nil, addr, keep)
		l.Guard(guard, code.OpRedGlobalOr, []int64{offset}, nil, addr, set)
	}
	not := func(x code.Value) code.Value { return l.Op(code.OpNot32, nil, x) }
	put(guard, 0, not(l.Op(code.OpShl32, nil, mask, bit)), l.Op(code.OpShl32, nil, v, bit))
	if 32%a.width != 0 {
		crosses := l.Op(code.OpSetpU32, []int64{int64(code.GT)}, bit, l.Const32(int64(32-a.width)))
		// The high part is the value shifted right by 32-bit; bit is not 0 here.
		left := l.Op(code.OpSub32, nil, l.Const32(32), bit)
		put(l.Both(guard, crosses), 4, not(l.Op(code.OpShrU32, nil, mask, left)), l.Op(code.OpShrU32, nil, v, left))
	}
}
