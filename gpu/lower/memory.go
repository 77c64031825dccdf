package lower

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func blockIndices(l *lowerer, in *ir.Instr) {
	for i, v := range in.Out {
		l.env[v] = val{scalar: l.op([]code.Op{code.OpCtaidX, code.OpCtaidY, code.OpCtaidZ}[i], nil)}
		l.facts.span[v] = span{from: ir.NewInt(0), to: l.p.Grid[i], step: 1}
	}
}

func viewGlobal(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	l.env[in.Out[0]] = val{global: &global{elem: t.Elem, base: l.env[in.In[0].Var()].scalar, extents: t.Shape}}
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
	// parameters, strideVal computes it and stride is 0.
	stride    []int
	strideVal []code.Value
	slots     [][]int    // per slot: its constant part of the index, per tensor dimension
	origin    code.Value // of a part: the element that it begins at; 0 for none

	align int64 // divides every thread's element index of a slot group's base; at most 1<<20
	last  int64 // divides every thread's index in the last dimension and its extent
	hints code.Attr
}

const manyElements = 1 << 20

// locate finds the tile of a load or store in its tensor.
func (l *lowerer) locate(in *ir.Instr, tile ir.Type) *access {
	a := &access{g: l.env[in.In[0].Var()].global, tile: tile, width: tile.Elem.Bits()}
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
	thread := l.threadCoords(tile.Layout)
	offset := in.Attr("offset").Exprs

	a.slots = make([][]int, tile.Layout.Slots())
	for s := range a.slots {
		a.slots[s] = make([]int, rank)
		for i, x := range tile.Layout.Index(0, s) {
			a.slots[s][dims[i]] = x
		}
	}
	// What the thread number and the slots add moves in these steps.
	threadStep, slotStep := make([]int64, rank), make([]int64, rank)
	for _, d := range spatial {
		if d.Dim >= 0 && d.Size > 1 {
			threadStep[dims[d.Dim]] = gcd(threadStep[dims[d.Dim]], int64(d.Stride))
		}
	}
	for _, d := range local {
		if d.Size > 1 {
			slotStep[dims[d.Dim]] = gcd(slotStep[dims[d.Dim]], int64(d.Stride))
		}
	}

	a.index, a.proved, a.block = make([]code.Value, rank), make([]bool, rank), make([]code.Value, rank)
	for g := range rank {
		a.index[g] = l.index(offset[g])
		first := a.index[g]
		high := int64(0)
		if i := slices.Index(dims, g); i >= 0 {
			a.index[g] = l.add32(a.index[g], thread[i])
			high = int64(shape[i] - 1)
		}
		a.proved[g] = l.facts.inside(offset[g], 0, high, a.g.extents[g])
		// Both are multiples of what is no smaller than the tile.
		if n := gcd(l.facts.divisor(offset[g]), l.facts.divisor(a.g.extents[g])); n > high {
			a.block[g] = first
		}
	}

	a.stride, a.strideVal = make([]int, rank), make([]code.Value, rank)
	factor := int64(1) // divides the stride
	known, value := 1, code.Value(0)
	root := a.g.whole()
	for r := len(root.extents) - 1; r >= 0; r-- {
		stride := value
		if known != 0 {
			stride = l.const32(int64(known))
		}
		step := root.by[r]
		if root.at[r] != 0 {
			a.origin = l.plus(a.origin, l.mul32(root.at[r], stride))
		}
		if g := slices.Index(root.dims, r); g >= 0 {
			a.stride[g], a.strideVal[g] = known, stride
			moves := gcd(l.facts.divisor(offset[g]), threadStep[g])
			if known == 0 {
				moves = gcd(moves, slotStep[g])
			}
			step = gcd(step, moves)
			if g == rank-1 {
				a.last = gcd(moves, l.facts.divisor(a.g.extents[g]))
			}
		}
		a.align = gcd(a.align, saturate(step*min(factor, manyElements)))
		if n, ok := ir.ConstInt(root.extents[r]); ok && known != 0 {
			known *= int(n)
		} else {
			value = l.mul32(stride, l.index(root.extents[r]))
			known = 0
		}
		factor = saturate(min(factor, manyElements) * max(1, min(l.facts.divisor(root.extents[r]), manyElements)))
	}
	if a.align == 0 {
		a.align = manyElements
	}
	if a.last == 0 {
		a.last = manyElements
	}
	return a
}

// saturate keeps divisors of two known to be useful within a bound; only their
// powers of two matter beyond it.
func saturate(n int64) int64 {
	if n > manyElements {
		return n & -n
	}
	return n
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
	keyOf := func(s int) string {
		key := make([]int, rank)
		for g := range rank {
			if a.stride[g] == 0 {
				key[g] = a.slots[s][g]
			}
		}
		return fmt.Sprint(key)
	}
	// Slots that only together are inside: their index in unproved dimensions,
	// in the last one by steps that divide everything.
	together := func(s int) string {
		key := make([]int, rank)
		for g := range rank {
			if !a.proved[g] && a.block[g] == 0 {
				if key[g] = a.slots[s][g]; g == rank-1 {
					key[g] /= int(min(a.last, 1<<16))
				}
			}
		}
		return fmt.Sprint(key)
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
	base := l.plus(a.origin, l.const32(0))
	for g := range rank {
		base = l.add32(base, l.mul32(a.index[g], a.strideVal[g]))
	}
	var out []group
	for _, k := range keys {
		slots := byKey[k]
		slices.SortFunc(slots, func(x, y int) int { return cmp.Compare(delta(x), delta(y)) })
		gr := group{base: base}
		for g := range rank {
			if x := a.slots[slots[0]][g]; a.stride[g] == 0 && x != 0 {
				gr.base = l.add32(gr.base, l.mul32(l.const32(int64(x)), a.strideVal[g]))
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
			at = l.add32(a.index[g], l.const32(int64(a.slots[slot][g])))
		}
		// Unsigned, so that negative indices are outside too.
		in := l.op(code.OpSetpU32, []int64{int64(code.LT)}, at, l.index(a.g.extents[g]))
		all = l.andPred(all, in)
	}
	return all
}

// andPred is x && y, where 0 stands for true.
func (l *lowerer) andPred(x, y code.Value) code.Value {
	if x == 0 || y == 0 {
		return x | y
	}
	return l.op(code.OpAndPred, nil, x, y)
}

// chunkBits is how wide an access at bit pos of a run of n bits may be, if the
// run's start is aligned to align bits: a power of two, 0 when not even a byte.
func chunkBits(align int64, pos, n int) int {
	w := min(align&-align, 128)
	if pos > 0 {
		w = min(w, int64(pos&-pos))
	}
	for w > int64(n-pos) {
		w /= 2
	}
	if w < 8 {
		return 0
	}
	return int(w)
}

// runAlign is the alignment in bits of a run's first element.
func (a *access) runAlign(r run) int64 {
	return gcd(a.align, int64(r.delta)) * int64(a.width)
}

// whole reports that a run can be moved in bytes and wider units.
func (a *access) whole(r run) bool {
	n := len(r.slots) * a.width
	if n%8 != 0 {
		return false
	}
	return chunkBits(a.runAlign(r), 0, n) > 0
}

// address is the address of a byte-aligned element index plus a constant offset
// in bytes.
func (l *lowerer) address(a *access, base code.Value) code.Value {
	if a.width%8 == 0 {
		return l.op(code.OpMadWideS32, nil, base, l.const32(int64(a.width/8)), a.g.base)
	}
	// base·width/8 without leaving 32 bits.
	w := l.const32(int64(a.width))
	bytes := l.mul32(l.op(code.OpShrS32, nil, base, l.const32(3)), w)
	if a.align%8 != 0 {
		rest := l.mul32(l.op(code.OpAnd32, nil, base, l.const32(7)), w)
		bytes = l.add32(bytes, l.op(code.OpShrU32, nil, rest, l.const32(3)))
	}
	return l.op(code.OpMadWideS32, nil, bytes, l.const32(1), a.g.base)
}

var loadOps = map[int]code.Op{8: code.OpLdGlobalB8, 16: code.OpLdGlobalB16, 32: code.OpLdGlobalB32, 64: code.OpLdGlobalV2B32, 128: code.OpLdGlobalV4B32}
var storeOps = map[int]code.Op{8: code.OpStGlobalB8, 16: code.OpStGlobalB16, 32: code.OpStGlobalB32, 64: code.OpStGlobalV2B32, 128: code.OpStGlobalV4B32}

func loadGlobal(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	a := l.locate(in, t)
	// Loads under one guard become a branch in ptxas, which ends their overlap with
	// others: on an H200 products of 8 rows took an eighth longer.
	clear(a.block)
	source := make([]field, len(a.slots))
	for _, gr := range l.groups(a) {
		var addr code.Value
		for _, r := range gr.runs {
			if !a.whole(r) {
				for i, s := range r.slots {
					source[s] = field{words: []code.Value{l.loadBits(a, gr.base, r.delta+i, l.guard(a, s))}}
				}
				continue
			}
			if addr == 0 {
				addr = l.address(a, gr.base)
			}
			words := l.loadRun(a, addr, r, l.guard(a, r.slots[0]))
			for i, s := range r.slots {
				source[s] = field{words: words, pos: i * a.width}
			}
		}
	}
	l.env[in.Out[0]] = val{words: l.assemble(len(a.slots), a.width, func(s int) field { return source[s] })}
}

// loadRun loads a run's bits into words, in the widest accesses that alignment
// allows.
func (l *lowerer) loadRun(a *access, addr code.Value, r run, guard code.Value) []code.Value {
	n := len(r.slots) * a.width
	words := make([]code.Value, (n+31)/32)
	for pos := 0; pos < n; {
		w := chunkBits(a.runAlign(r), pos, n)
		op := loadOps[w]
		imm := []int64{int64((r.delta*a.width + pos) / 8), int64(a.hints)}
		var zeros []code.Value
		for _, t := range op.Row().Out {
			if t == code.B16 {
				zeros = append(zeros, l.b.Const16(0))
			} else {
				zeros = append(zeros, l.const32(0))
			}
		}
		got := l.guarded(guard, op, imm, zeros, addr)
		for i, v := range got {
			if w == 16 {
				v = l.op(code.OpZext16, nil, v)
			}
			at := pos + 32*i
			words[at/32] = l.orShifted(words[at/32], v, at%32)
		}
		pos += w
	}
	return words
}

// orShifted is word | v<<n, where word 0 stands for nothing yet.
func (l *lowerer) orShifted(word, v code.Value, n int) code.Value {
	if n > 0 {
		v = l.op(code.OpShl32, nil, v, l.const32(int64(n)))
	}
	if word == 0 {
		return v
	}
	return l.op(code.OpOr32, nil, word, v)
}

// guarded emits an access, under the guard if there is one.
func (l *lowerer) guarded(guard code.Value, op code.Op, imm []int64, otherwise []code.Value, in ...code.Value) []code.Value {
	if guard == 0 {
		return l.b.Emit(op, imm, in...)
	}
	instr := &code.Instr{Op: op, Imm: imm, In: append(slices.Clone(in), otherwise...), Guard: guard, Pos: l.b.Pos()}
	for _, t := range op.Row().Out {
		instr.Out = append(instr.Out, l.b.Func().NewValue(t))
	}
	l.b.Add(instr)
	return instr.Out
}

// bitPlace is where element base+delta begins: the address of its unit of
// 2^log bits, and the bit inside, without leaving 32 bits.
func (l *lowerer) bitPlace(a *access, base code.Value, delta int, log int64) (addr, bit code.Value) {
	unit := int64(1) << log
	e := l.add32(base, l.const32(int64(delta)))
	w := l.const32(int64(a.width))
	rest := l.mul32(l.op(code.OpAnd32, nil, e, l.const32(unit-1)), w)
	units := l.add32(l.mul32(l.op(code.OpShrS32, nil, e, l.const32(log)), w), l.op(code.OpShrU32, nil, rest, l.const32(log)))
	return l.op(code.OpMadWideS32, nil, units, l.const32(unit/8), a.g.base), l.op(code.OpAnd32, nil, rest, l.const32(unit-1))
}

// loadBits loads one element of less than 8 bits that may lie across two bytes:
// the fallback of the paper's Figure 7.
func (l *lowerer) loadBits(a *access, base code.Value, delta int, guard code.Value) code.Value {
	addr, bit := l.bitPlace(a, base, delta, 3)
	zero := []code.Value{l.const32(0)}
	v := l.guarded(guard, code.OpLdGlobalB8, []int64{0, 0}, zero, addr)[0]
	if 8%a.width != 0 {
		crosses := l.op(code.OpSetpU32, []int64{int64(code.GT)}, bit, l.const32(int64(8-a.width)))
		next := l.guarded(l.andPred(guard, crosses), code.OpLdGlobalB8, []int64{1, 0}, zero, addr)[0]
		v = l.orShifted(v, next, 8)
	}
	v = l.op(code.OpShrU32, nil, v, bit)
	return l.op(code.OpAnd32, nil, v, l.const32(1<<a.width-1))
}

func storeGlobal(l *lowerer, in *ir.Instr) {
	v := in.In[1].Var()
	words := l.env[v].words
	a := l.locate(in, v.Type)
	owner, _ := l.firstHolder(v.Type.Layout)
	for _, gr := range l.groups(a) {
		var addr code.Value
		for _, r := range gr.runs {
			if !a.whole(r) {
				for i, s := range r.slots {
					guard := l.andPred(owner, l.guard(a, s))
					l.storeBits(a, gr.base, r.delta+i, guard, l.field(words, s*a.width, a.width))
				}
				continue
			}
			if addr == 0 {
				addr = l.address(a, gr.base)
			}
			data := l.assemble(len(r.slots), a.width, func(i int) field { return field{words: words, pos: r.slots[i] * a.width} })
			l.storeRun(a, addr, r, l.andPred(owner, l.guard(a, r.slots[0])), data)
		}
	}
}

func (l *lowerer) storeRun(a *access, addr code.Value, r run, guard code.Value, words []code.Value) {
	n := len(r.slots) * a.width
	for pos := 0; pos < n; {
		w := chunkBits(a.runAlign(r), pos, n)
		in := []code.Value{addr}
		for i := 0; i < w; i += 32 {
			x := words[(pos+i)/32]
			if s := (pos + i) % 32; s > 0 {
				x = l.op(code.OpShrU32, nil, x, l.const32(int64(s)))
			}
			if w == 16 {
				x = l.op(code.OpTrunc16, nil, x)
			}
			in = append(in, x)
		}
		l.guarded(guard, storeOps[w], []int64{int64((r.delta*a.width + pos) / 8), int64(a.hints)}, nil, in...)
		pos += w
	}
}

// storeBits stores one element of less than 8 bits whose byte other threads may
// write too: its bits are cleared and set by two atomic steps on 32-bit words,
// which leave all other bits alone whatever the order.
func (l *lowerer) storeBits(a *access, base code.Value, delta int, guard, v code.Value) {
	addr, bit := l.bitPlace(a, base, delta, 5)
	mask := l.const32(1<<a.width - 1)
	put := func(guard code.Value, offset int64, keep, set code.Value) {
		l.guarded(guard, code.OpRedGlobalAnd, []int64{offset}, nil, addr, keep)
		l.guarded(guard, code.OpRedGlobalOr, []int64{offset}, nil, addr, set)
	}
	not := func(x code.Value) code.Value { return l.op(code.OpNot32, nil, x) }
	put(guard, 0, not(l.op(code.OpShl32, nil, mask, bit)), l.op(code.OpShl32, nil, v, bit))
	if 32%a.width != 0 {
		crosses := l.op(code.OpSetpU32, []int64{int64(code.GT)}, bit, l.const32(int64(32-a.width)))
		// The high part is the value shifted right by 32-bit; bit is not 0 here.
		left := l.op(code.OpSub32, nil, l.const32(32), bit)
		put(l.andPred(guard, crosses), 4, not(l.op(code.OpShrU32, nil, mask, left)), l.op(code.OpShrU32, nil, v, left))
	}
}
