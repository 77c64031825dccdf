package lower

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/arith"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// combiner combines two tiles that lie alike, word by word.
type combiner func(a, b []code.Value) []code.Value

// combining is an op of the arithmetic family as a combiner.
func (l *lowerer) combining(op string, t dtype.Type) combiner {
	return func(a, b []code.Value) []code.Value {
		return arith.Apply(l.Thread, op, nil, t, len(a)*32/t.Bits(), a, b)
	}
}

// pick packs some slots of a tile, in order.
func (l *lowerer) pick(words []code.Value, w int, slots []int) []code.Value {
	if w == 64 {
		var out []code.Value
		for _, s := range slots {
			out = append(out, words[2*s], words[2*s+1])
		}
		return out
	}
	return l.Assemble(len(slots), w, func(i int) thread.Field { return thread.Field{Words: words, Pos: slots[i] * w} })
}

// columns are the slots of a tile as one packed tile for each place along the
// dimensions of a reduction: column j holds slot list[j] of each list.
func (l *lowerer) columns(words []code.Value, w int, lists [][]int) [][]code.Value {
	out := make([][]code.Value, len(lists[0]))
	for j := range out {
		slots := make([]int, len(lists))
		for r, list := range lists {
			slots[r] = list[j]
		}
		out[j] = l.pick(words, w, slots)
	}
	return out
}

var reduceSteps = map[string]string{"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min", "any": "Or", "all": "And"}

// reduce combines slots, then lanes by shuffles, then what is left through shared
// memory, always neighbours of the order that [ir.Reduction] says.
func reduce(l *lowerer, in *ir.Instr) {
	l.env.set(in.Out[0], val{words: l.reduced(in, ir.ReductionOf(in.In[0].Var().Type.Layout, in.ReducedDims()))})
}

func (l *lowerer) reduced(in *ir.Instr, r ir.Reduction) []code.Value {
	v := in.In[0].Var()
	words := l.env.get(v).words
	if v.Type.Elem == dtype.Bool { // any code but 0 is true
		words = l.truthWords(v.Type, l.truths(in.In[0], v.Type))
	}
	combine := l.combining(reduceSteps[in.Attr("op").Word], v.Type.Elem)
	x := ir.Neighbours(l.columns(words, v.Type.Elem.Bits(), r.Slots), combine)
	return l.overThreads(x, r.Parts, combine)
}

// overThreads combines what threads hold along digits of their number; all of them
// get the result. combine must give the same for both orders of its operands.
func (l *lowerer) overThreads(x []code.Value, parts []ir.ThreadDigit, combine combiner) []code.Value {
	parts = slices.Clone(parts)
	for len(parts) > 0 {
		// The fastest digit, by distances that lie in the warp.
		last := &parts[len(parts)-1]
		pow := last.After&(last.After-1) == 0
		for pow && last.After < ir.LanesPerWarp && last.Size%2 == 0 {
			y := make([]code.Value, len(x))
			for j := range x {
				y[j] = l.Op(code.OpShflBfly, []int64{int64(last.After)}, x[j])
			}
			x = combine(x, y)
			last.After, last.Size = 2*last.After, last.Size/2
		}
		if last.Size > 1 {
			break
		}
		parts = parts[:len(parts)-1]
	}
	if len(parts) == 0 {
		return x
	}
	first := l.ID
	for _, d := range parts {
		first = l.Op(code.OpSub32, nil, first, l.Mul32(l.Digit(d.After, d.Size, l.threads.Size), l.Const32(int64(d.After))))
	}
	return l.trade(x, func(x []code.Value, of func(thread code.Value, offset int) []code.Value) []code.Value {
		var all [][]code.Value
		for _, at := range ir.Offsets(parts) {
			all = append(all, of(first, at))
		}
		return ir.Neighbours(all, combine)
	})
}

// tradeBytes bounds the shared memory of one trade.
const tradeBytes = 16 << 10

// trade lets threads read each other's words, as many at a time as fit. use
// gets some words, and what gives those of the thread with another number; it may
// be called several times, and results stand one after the other. A part is of
// whole 64-bit elements.
func (l *lowerer) trade(x []code.Value, use func(x []code.Value, of func(thread code.Value, offset int) []code.Value) []code.Value) []code.Value {
	threads := l.threads.Size
	most := max(2, tradeBytes/(4*threads)&^1)
	var out []code.Value
	base := l.Op(code.OpSharedBase, nil)
	address := func(thread code.Value) code.Value {
		return l.Add32(base, l.Op(code.OpShl32, nil, thread, l.Const32(2)))
	}
	mine := address(l.ID)
	for at := 0; at < len(x); at += most {
		part := x[at:min(at+most, len(x))]
		begin := l.scratch(4 * threads * len(part))
		for j, v := range part {
			l.StShared(4, mine, begin+4*threads*j, v)
		}
		l.barrier()
		out = append(out, use(part, func(thread code.Value, offset int) []code.Value {
			y, addr := make([]code.Value, len(part)), address(thread)
			for j := range y {
				y[j] = l.LdShared(4, addr, begin+4*(threads*j+offset))
			}
			return y
		})...)
		l.barrier() // the next words may take the place
	}
	return out
}

// argReduce makes of each element a key of 64 bits that orders as the elements
// do, later ones below earlier ones, and takes the largest.
func argReduce(l *lowerer, in *ir.Instr) {
	v, dim := in.In[0].Var(), in.ReducedDims()[0]
	t := v.Type.Elem
	words := l.env.get(v).words
	at := l.Coords(v.Type.Layout)[dim]
	r := ir.ReductionOf(v.Type.Layout, []int{dim})
	key := func(slot int) []code.Value {
		x := arith.Wide(l.Thread, t, words, slot, false)
		switch {
		case t.IsFloat():
			x = l.Op(code.OpSelp32, nil, l.Const32(0), x, l.Op(code.OpSetpF32, []int64{int64(code.EQ)}, x, l.Const32(0))) // -0 is +0
			nan := l.Op(code.OpSetpF32, []int64{int64(code.NE)}, x, x)
			// Of negative numbers all bits are turned, of others the sign.
			turn := l.Op(code.OpOr32, nil, l.Op(code.OpShrS32, nil, x, l.Const32(31)), l.Const32(0x80000000))
			x = l.Op(code.OpXor32, nil, x, turn)
			if in.Op.Name == "ArgMin" {
				x = l.Op(code.OpNot32, nil, x)
			}
			x = l.Op(code.OpSelp32, nil, l.Const32(0), x, nan)
		default:
			if t.Signed() {
				x = l.Op(code.OpXor32, nil, x, l.Const32(0x80000000))
			}
			if in.Op.Name == "ArgMin" {
				x = l.Op(code.OpNot32, nil, x)
			}
		}
		index := l.Add32(at, l.Const32(int64(v.Type.Layout.Index(0, slot)[dim])))
		return []code.Value{l.Op(code.OpNot32, nil, index), x}
	}
	larger := l.combining("Max", dtype.U64)
	var keys []code.Value
	for _, list := range r.Slots {
		all := make([][]code.Value, len(list))
		for j, s := range list {
			all[j] = key(s)
		}
		keys = append(keys, ir.Neighbours(all, larger)...)
	}
	keys = l.overThreads(keys, r.Parts, larger)
	out := make([]code.Value, len(r.Slots))
	for s := range out {
		out[s] = l.Op(code.OpNot32, nil, keys[2*s])
	}
	l.env.set(in.Out[0], val{words: out})
}

var scanSteps = map[string]string{"add": "Add", "mul": "Mul", "max": "Max", "min": "Min", "and": "And", "or": "Or", "xor": "Xor"}

// scan goes through the levels of the dimension as [ir.ScanLevels] gives them.
// Beside each element it keeps the total of the run that the element is in.
func scan(l *lowerer, in *ir.Instr) {
	v, dim := in.In[0].Var(), in.ReducedDims()[0]
	t, lay := v.Type.Elem, v.Type.Layout
	word := in.Attr("op").Word
	combine := l.combining(scanSteps[word], t)
	r := ir.ReductionOf(lay, []int{dim})
	row := l.columns(l.env.get(v).words, t.Bits(), r.Slots)
	total := slices.Clone(row)
	var before [][]code.Value
	if in.Attr("exclusive") != nil {
		start := l.startWords(word, t, len(r.Slots))
		for range row {
			before = append(before, start)
		}
	}
	// digit is the place of column j along a level of slots.
	digit := func(j int, level ir.ScanLevel) int { return r.Slots[0][j] / level.After % level.Size }
	// prefix combines column j with what comes before its run, where p holds.
	prefix := func(j int, x []code.Value, p code.Value) {
		set := func(to [][]code.Value) {
			y := combine(x, to[j])
			if p != 0 {
				y = l.Choose(p, y, to[j])
			}
			to[j] = y
		}
		set(row)
		if before != nil {
			set(before)
		}
	}
	for _, level := range ir.ScanLevels(lay, dim) {
		if level.Local {
			scanned := map[int][]code.Value{} // by column: the scanned total up to its run
			for j := range row {
				if g := digit(j, level); g == 0 {
					scanned[j] = total[j]
				} else {
					before := slices.Index(r.Slots[0], r.Slots[0][j]-level.After)
					scanned[j] = combine(scanned[before], total[j])
				}
			}
			for j := range row {
				g := digit(j, level)
				if g > 0 {
					prefix(j, scanned[slices.Index(r.Slots[0], r.Slots[0][j]-level.After)], 0)
				}
				total[j] = scanned[slices.Index(r.Slots[0], r.Slots[0][j]+(level.Size-1-g)*level.After)]
			}
			continue
		}
		g := l.Digit(level.After, level.Size, l.threads.Size)
		// Columns that are in one run have the same total, word for word.
		type result struct{ of, prefix, total []code.Value }
		var known []result
		inner := l.Op(code.OpSetpU32, []int64{int64(code.GT)}, g, l.Const32(0))
		for j := range row {
			i := slices.IndexFunc(known, func(k result) bool { return slices.Equal(k.of, total[j]) })
			if i < 0 {
				i = len(known)
				res := result{of: total[j]}
				if level.Lanes {
					res.prefix, res.total = l.scanLanes(total[j], level, g, combine)
				} else {
					res.prefix, res.total = l.scanWarps(total[j], level, g, combine)
				}
				known = append(known, res)
			}
			prefix(j, known[i].prefix, inner)
			total[j] = known[i].total
		}
	}
	result := row
	if before != nil {
		result = before
	}
	// Back into slots.
	w := t.Bits()
	out := make([]code.Value, wordsOf(v.Type))
	place := make([]thread.Field, lay.Slots())
	for s, list := range r.Slots {
		for j, slot := range list {
			place[slot] = thread.Field{Words: result[j], Pos: s * w}
		}
	}
	if w == 64 {
		for s, f := range place {
			out[2*s], out[2*s+1] = f.Words[f.Pos/32], f.Words[f.Pos/32+1]
		}
	} else {
		out = l.Assemble(lay.Slots(), w, func(s int) thread.Field { return place[s] })
	}
	l.env.set(in.Out[0], val{words: out})
}

// startWords is n elements that the op leaves others alone with.
func (l *lowerer) startWords(op string, t dtype.Type, n int) []code.Value {
	codes := make([]uint64, n)
	for i := range codes {
		codes[i] = interp.ScanStart(op, t)
	}
	data := append(dtype.Pack(t.Bits(), codes), 0, 0, 0)
	words := make([]code.Value, (n*t.Bits()+31)/32)
	for j := range words {
		words[j] = l.Const32(int64(dtype.Get(data, 32, j)))
	}
	return words
}

// fromLane are the words of another lane of the warp.
func (l *lowerer) fromLane(x []code.Value, lane code.Value) []code.Value {
	out := make([]code.Value, len(x))
	for j := range out {
		out[j] = l.Op(code.OpShflIdx, nil, x[j], lane)
	}
	return out
}

// scanLanes scans totals along a level of lanes: what comes before this lane's
// run, and the total of all of them.
func (l *lowerer) scanLanes(x []code.Value, level ir.ScanLevel, g code.Value, combine combiner) (before, all []code.Value) {
	below := func(d int) code.Value { return l.Op(code.OpSub32, nil, l.ID, l.Const32(int64(d*level.After))) }
	for d := 1; d < level.Size; d *= 2 {
		far := l.Op(code.OpSetpU32, []int64{int64(code.GE)}, g, l.Const32(int64(d)))
		x = l.Choose(far, combine(l.fromLane(x, below(d)), x), x)
	}
	last := l.Add32(l.ID, l.Mul32(l.Op(code.OpSub32, nil, l.Const32(int64(level.Size-1)), g), l.Const32(int64(level.After))))
	return l.fromLane(x, below(1)), l.fromLane(x, last)
}

// scanWarps is scanLanes through shared memory, one run after the other.
func (l *lowerer) scanWarps(x []code.Value, level ir.ScanLevel, g code.Value, combine combiner) (before, all []code.Value) {
	first := l.Op(code.OpSub32, nil, l.ID, l.Mul32(g, l.Const32(int64(level.After))))
	all = l.trade(x, func(part []code.Value, of func(code.Value, int) []code.Value) []code.Value {
		sum := of(first, 0)
		here := sum
		for k := 1; k < level.Size; k++ {
			at := l.Op(code.OpSetpU32, []int64{int64(code.EQ)}, g, l.Const32(int64(k)))
			here = l.Choose(at, sum, here)
			sum = combine(sum, of(first, k*level.After))
		}
		before = append(before, here...)
		return sum
	})
	return before, all
}
