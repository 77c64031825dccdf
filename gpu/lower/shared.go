package lower

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// shared is a view of a tile in shared memory. Its element at an index lies at
//
//	plan + bytes(swizzle(static + Σ terms + what the layout gives for the index))
//
// bytes behind the block's first shared address.
type shared struct {
	plan   int // place of the tile, bytes
	static int // constant part of what slices add, elements
	terms  []term
	modes  [][]ir.SharedMode
	dims   []int
	w      layout.Swizzle
	width  int // bits of an element
}

// term is a part of a place that is known only when the program runs: a number of
// elements from 0 to most, divisible by div.
type term struct {
	value     code.Value
	div, most int64
}

// tile is a tile that the block of statements around has allocated.
type tile struct {
	v    *ir.Var
	name string // in the plan
}

func (l *lowerer) allocateShared(in *ir.Instr) {
	v := in.Out[0]
	size := (v.Type.Shared.CountSize()*v.Type.Elem.Bits() + 7) / 8
	l.named++
	name := fmt.Sprintf("%s#%d", v.Name, l.named)
	at, err := l.plan.Alloc(name, size, SharedAlign)
	if err != nil {
		panic(err) // sizes are bounded by AllocateShared.C2
	}
	if l.plan.Peak() > l.peak {
		l.peak, l.peakPos = l.plan.Peak(), in.Pos
	}
	l.tiles = append(l.tiles, tile{v, name})
	dims, _ := v.Type.Dims()
	l.env[v] = val{shared: &shared{plan: l.tilesAt + at, modes: ir.SharedModes(v.Type.Shared), dims: dims, w: v.Type.Shared.Swizzle(), width: v.Type.Elem.Bits()}}
}

func (l *lowerer) freeShared(in *ir.Instr) {
	i := slices.IndexFunc(l.tiles, func(t tile) bool { return t.v == in.In[0].Var() })
	l.free(i)
	l.tiles[i].name = ""
}

// free gives memory back. Beside other thread groups it is kept for later: they run
// at the same time, but their code is made one after the other.
func (l *lowerer) free(i int) {
	if l.threads.Size != l.p.Threads() {
		l.held = append(l.held, l.tiles[i].name)
		return
	}
	if err := l.plan.Free(l.tiles[i].name); err != nil {
		panic(err)
	}
}

// release frees what groups have held, once they have ended.
func (l *lowerer) release(next ir.Stmt) {
	if _, group := next.(*ir.Group); group || l.threads.Size != l.p.Threads() {
		return
	}
	for _, name := range l.held {
		if err := l.plan.Free(name); err != nil {
			panic(err)
		}
	}
	l.held = nil
}

// leave frees the tiles of a block of statements that ends.
func (l *lowerer) leave(mark int) {
	for i := mark; i < len(l.tiles); i++ {
		if l.tiles[i].name != "" {
			l.free(i)
		}
	}
	l.tiles = l.tiles[:mark]
}

// placeTiles says what the launch needs, and where tiles have to begin.
func (l *lowerer) placeTiles() (begin int) {
	f := l.b.Func()
	own := f.Launch.SharedBytes
	if l.peak > 0 {
		begin = (own + SharedAlign - 1) / SharedAlign * SharedAlign
		f.Launch.SharedBytes = l.tilesAt + l.peak
	}
	if limit := l.opt.Arch.MaxShared; limit > 0 && f.Launch.SharedBytes > limit {
		pos := l.peakPos
		if !pos.Known() {
			pos = l.p.Pos
		}
		l.refuse(pos, "Lower.E7", "here the program has %d bytes of shared memory, %d of them for single instructions; a block of %s can have %d", f.Launch.SharedBytes, own, l.opt.Arch.Name, limit)
	}
	return begin
}

// tilesMoved says that the tiles have to begin elsewhere.
type tilesMoved struct{ to int }

func (m *tilesMoved) Error() string { return "lower: shared tiles begin elsewhere" }

func viewShared(l *lowerer, in *ir.Instr) {
	s := *l.env[in.In[0].Var()].shared
	out := in.Out[0].Type
	s.modes = ir.SharedModes(out.Shared)
	s.dims, _ = out.Dims()
	l.env[in.Out[0]] = val{shared: &s}
}

func sliceShared(l *lowerer, in *ir.Instr) {
	s := *l.env[in.In[0].Var()].shared
	sizes, _ := in.Out[0].Type.Dims()
	dims := in.Dims(len(s.dims), len(sizes))
	p := l.part(in, &s, dims, sizes)
	for d := range s.dims {
		size := 1
		if i := slices.Index(dims, d); i >= 0 {
			size = sizes[i]
		}
		c := p.from[d]
		if !p.apart[d] || along(s.modes[d], c+size-1)-along(s.modes[d], c) != along(s.modes[d], size-1) {
			l.refuse(in.Pos, "Lower.E8", "elements of dimension %d from %s on lie in several panels, or cannot be shown to lie in one", d, in.Offset(len(s.dims))[d])
			break
		}
		s.static += along(s.modes[d], c)
	}
	s.terms = slices.Concat(s.terms, p.terms)
	s.modes = ir.SharedModes(in.Out[0].Type.Shared)
	s.dims = sizes
	l.env[in.Out[0]] = val{shared: &s}
}

// along is what index x of a dimension adds to a place, in elements.
func along(modes []ir.SharedMode, x int) (at int) {
	for i := len(modes) - 1; i >= 0; i-- {
		at += x % modes[i].Size * modes[i].Stride
		x /= modes[i].Size
	}
	return at
}

// part is the place of a part of a shared tensor: per dimension the constant part
// of the offset, and terms for the rest.
type part struct {
	s     *shared
	dims  []int
	from  []int
	rest  []code.Value // per dimension, 0 for none
	terms []term
	// apart says, per dimension, that what the rest adds to a place does not depend
	// on the index inside the part.
	apart []bool
}

// part evaluates the offset of an instruction and checks it as far as it is not
// proved.
func (l *lowerer) part(in *ir.Instr, s *shared, dims, sizes []int) *part {
	p := &part{s: s, dims: dims, from: make([]int, len(s.dims)), rest: make([]code.Value, len(s.dims)), apart: make([]bool, len(s.dims))}
	for d, e := range in.Offset(len(s.dims)) {
		size := 1
		if i := slices.Index(dims, d); i >= 0 {
			size = sizes[i]
		}
		p.apart[d] = true
		if n, ok := ir.ConstInt(e); ok {
			p.from[d] = int(n)
			continue
		}
		room := int64(s.dims[d] - size)
		l.checkIndex(e, room)
		if room == 0 { // the only index inside
			continue
		}
		// A constant summand goes with the index, if what is left is not negative.
		if b, ok := e.(*ir.Binary); ok && b.Op == "+" {
			if n, ok := ir.ConstInt(b.Y); ok && n > 0 && n < int64(s.dims[d]) && l.facts.interval(b.X, dtype.I32).lo >= 0 {
				p.from[d], e = int(n), b.X
			}
		}
		p.rest[d] = l.index(e)
		g := l.facts.divisor(e)
		most := room - int64(p.from[d])
		if hi := l.facts.interval(e, dtype.I32).hi; hi >= 0 {
			most = min(most, hi)
		}
		if g == 0 || most <= 0 {
			p.rest[d] = 0
			continue
		}
		p.apart[d] = p.split(l, d, p.rest[d], g, most, int64(p.from[d]+size))
	}
	return p
}

// checkIndex sees to it that an offset e from which on a part lies is at most room.
func (l *lowerer) checkIndex(e ir.Expr, room int64) {
	if x := l.facts.interval(e, dtype.I32); x.lo >= 0 && x.hi <= room || l.facts.inside(e, 0, 0, ir.NewInt(room+1)) {
		return
	}
	// Unsigned, so that negative indices are outside too.
	l.op(code.OpCheck, nil, l.op(code.OpSetpU32, []int64{int64(code.LE)}, l.index(e), l.const32(room)))
}

// split adds the terms of x in dimension d, which is divisible by g and at most
// most. It reports whether adding an index below span carries from no mode into
// the next, so that the sum of the places is the place of the sum.
func (p *part) split(l *lowerer, d int, x code.Value, g, most, span int64) bool {
	modes := p.s.modes[d]
	apart, unit := true, int64(1)
	var terms []term
	for i := len(modes) - 1; i >= 0; i-- {
		size, stride := int64(modes[i].Size), int64(modes[i].Stride)
		if i > 0 {
			b := unit * size
			apart = apart && (g%b == 0 || b%g == 0 && span <= g)
		}
		next := unit * size
		if g%next != 0 || i == 0 {
			v, top, div := x, most/unit, int64(1)
			if unit > 1 {
				v = l.divideU32(v, unit)
			}
			if g%unit == 0 {
				div = g / unit
			}
			if i > 0 && most >= next {
				v = l.remainderU32(v, size)
				top = size - 1
			}
			terms = append(terms, term{l.mul32(v, l.const32(stride)), div * stride, top * stride})
		}
		unit = next
	}
	p.terms = append(p.terms, terms...)
	return apart
}

func (l *lowerer) remainderU32(x code.Value, by int64) code.Value {
	if by&(by-1) == 0 {
		return l.op(code.OpAnd32, nil, x, l.const32(by-1))
	}
	return l.op(code.OpRemU32, nil, x, l.const32(by))
}

// places is where the elements of a register tile lie in shared memory, as far as
// the thread and the slot decide: the rest is in terms.
type places struct {
	*part
	l       *lowerer
	threads int
	index   []code.Value // of this thread's slot 0 per dimension of the tile; for the slow way
	slots   [][]int      // of each slot
	at      [][]int      // [slot][thread]: elements before swizzling; nil if the parts are not apart
	terms   []term       // of the view and of the part
	hi      []term       // added to the swizzled place
	lo      []term       // swizzled themselves and XORed with it
	loBits  int          // bits that lo may change
	hoisted bool         // hi and lo are all terms
	raws    []raw        // addresses made so far
}

// raw is a table of bytes per thread with the address made of it.
type raw struct {
	table []int
	addr  code.Value // table ^ lo + hi + the block's first shared address
}

// place finds a tile of a layout in shared memory.
func (l *lowerer) place(p *part, lay layout.Layout) *places {
	x := &places{part: p, l: l, threads: lay.Threads(), terms: slices.Concat(p.s.terms, p.terms)}
	lines := make([][]int, lay.Threads()) // index of slot 0 of each thread
	for t := range lines {
		lines[t] = lay.Index(t, 0)
	}
	for s := range lay.Slots() {
		x.slots = append(x.slots, lay.Index(0, s))
	}
	x.index = l.threadCoords(lay)
	for _, apart := range p.apart {
		if !apart {
			return x
		}
	}
	x.at = make([][]int, len(x.slots))
	for s, slot := range x.slots {
		x.at[s] = make([]int, len(lines))
		for t, line := range lines {
			x.at[s][t] = p.element(func(i int) int { return line[i] + slot[i] })
		}
	}
	x.sort()
	return x
}

// element is the place of an element by its index in the tile, without terms.
func (p *part) element(index func(i int) int) int {
	at := p.s.static
	for d, modes := range p.s.modes {
		n := p.from[d]
		if i := slices.Index(p.dims, d); i >= 0 {
			n += index(i)
		}
		at += along(modes, n)
	}
	return at
}

// sort finds which terms can be kept apart from the swizzle.
func (x *places) sort() {
	x.hoisted = true
	if x.s.w.Identity() {
		x.hi = x.terms
		return
	}
	if x.s.width&(x.s.width-1) != 0 && len(x.terms) > 0 {
		x.hoisted = false
		return
	}
	w := x.s.w
	period := int64(1) << (w.Base + w.Bits + max(w.Shift, -w.Shift))
	used := 0
	for _, at := range x.at {
		for _, n := range at {
			used |= n
		}
	}
	for _, t := range x.terms {
		if t.div%period == 0 {
			x.hi = append(x.hi, t)
			continue
		}
		mask := (1<<bits.Len64(uint64(t.most)) - 1) &^ (1<<bits.TrailingZeros64(uint64(t.div)) - 1)
		if mask&used != 0 {
			x.hoisted = false
			return
		}
		used |= mask
		x.lo = append(x.lo, t)
		field := (1<<w.Bits - 1) << (w.Base + max(0, -w.Shift)) // what the swizzle changes
		x.loBits |= x.bytes(mask) | x.bytes(field)
	}
}

// bytes is a place in bytes, rounded down.
func (x *places) bytes(n int) int { return n * x.s.width / 8 }

// table is the bytes of a place for each thread, swizzled.
func (x *places) table(at []int) []int {
	out := make([]int, len(at))
	for t, n := range at {
		out[t] = x.bytes(x.s.w.Apply(n))
	}
	return out
}

// swizzle permutes a place, in elements, when the program runs.
func (l *lowerer) swizzle(w layout.Swizzle, v code.Value) code.Value {
	if w.Identity() {
		return v
	}
	from, to := w.Base+w.Shift, w.Base
	if w.Shift < 0 {
		from, to = w.Base, w.Base-w.Shift
	}
	mask := int64(1<<w.Bits - 1)
	var field code.Value
	if from >= to {
		field = l.op(code.OpAnd32, nil, l.op(code.OpShrU32, nil, v, l.const32(int64(from-to))), l.const32(mask<<to))
	} else {
		field = l.op(code.OpAnd32, nil, l.op(code.OpShl32, nil, v, l.const32(int64(to-from))), l.const32(mask<<to))
	}
	return l.op(code.OpXor32, nil, v, field)
}

// inBytes is a number of elements as bytes; it is a whole number of them.
func (x *places) inBytes(v code.Value) code.Value {
	l := x.l
	if x.s.width%8 == 0 {
		return l.mul32(v, l.const32(int64(x.s.width/8)))
	}
	return l.op(code.OpShrU32, nil, l.mul32(v, l.const32(int64(x.s.width))), l.const32(3))
}

// address is an address and an offset for what a table says. ok is false if the
// thread numbers cannot be turned into the table by a few steps.
func (x *places) address(table []int) (addr code.Value, offset int64, ok bool) {
	for _, r := range x.raws {
		if d, same := x.distance(r.table, table); same {
			return r.addr, int64(d + x.s.plan), true
		}
	}
	l := x.l
	v, ok := l.threadTable(table)
	if !ok {
		return 0, 0, false
	}
	for _, t := range x.lo {
		v = l.op(code.OpXor32, nil, v, x.inBytes(l.swizzle(x.s.w, t.value)))
	}
	base := l.op(code.OpSharedBase, nil)
	for _, t := range x.hi {
		base = l.add32(base, x.inBytes(t.value))
	}
	addr = l.add32(base, v)
	x.raws = append(x.raws, raw{table, addr})
	return addr, int64(x.s.plan), true
}

// distance is what lies between two tables, where it is the same for each thread
// and lo, which is XORed with one, would change the other alike.
func (x *places) distance(a, b []int) (d int, same bool) {
	d = b[0] - a[0]
	for t := range a {
		if b[t]-a[t] != d || (a[t]^b[t])&x.loBits != 0 {
			return 0, false
		}
	}
	return d, true
}

// threadTable is the value that a table has for this thread, where the bits of the
// thread number each change some bits of it, or each add something.
func (l *lowerer) threadTable(table []int) (code.Value, bool) {
	key := fmt.Sprint("table", table)
	if v, ok := l.coords[key]; ok {
		return v[0], true
	}
	v, ok := l.xorTable(table)
	if !ok {
		v, ok = l.sumTable(table)
	}
	if ok {
		l.coords[key] = []code.Value{v}
	}
	return v, ok
}

// sumTable adds what fields of the thread number add.
func (l *lowerer) sumTable(table []int) (code.Value, bool) {
	var each []int // what each bit adds
	for b := 1; b < len(table); b *= 2 {
		each = append(each, table[b]-table[0])
	}
	for t, n := range table {
		want := table[0]
		for b, x := range each {
			want += t >> b & 1 * x
		}
		if n != want {
			return 0, false
		}
	}
	v := l.const32(int64(table[0]))
	for b := 0; b < len(each); {
		n := 1
		for b+n < len(each) && each[b+n] == each[b]<<n {
			n++
		}
		f := l.tid
		if b > 0 {
			f = l.op(code.OpShrU32, nil, f, l.const32(int64(b)))
		}
		if b+n < len(each) || len(table)&(len(table)-1) != 0 {
			f = l.op(code.OpAnd32, nil, f, l.const32(1<<n-1))
		}
		if each[b] != 0 {
			v = l.add32(v, l.mul32(f, l.const32(int64(each[b]))))
		}
		b += n
	}
	return v, true
}

// xorTable joins what fields of the thread number change.
func (l *lowerer) xorTable(table []int) (code.Value, bool) {
	first := table[0]
	each := []int{} // what each bit of the thread number changes
	for b := 1; b < len(table); b *= 2 {
		each = append(each, table[b]^first)
	}
	for t, n := range table {
		want := first
		for b, x := range each {
			if t>>b&1 != 0 {
				want ^= x
			}
		}
		if n != want {
			return 0, false
		}
	}
	// Bits of the thread number that move equally far go together.
	masks := map[int]int64{}
	var shifts []int
	for b, x := range each {
		for j := range bits.Len(uint(x)) {
			if x>>j&1 == 0 {
				continue
			}
			if masks[j-b] == 0 {
				shifts = append(shifts, j-b)
			}
			masks[j-b] |= 1 << b
		}
	}
	var v code.Value
	for _, s := range shifts {
		f, m := l.tid, masks[s]
		switch {
		case s > 0:
			f = l.op(code.OpShl32, nil, f, l.const32(int64(s)))
			m <<= s
		case s < 0:
			f = l.op(code.OpShrU32, nil, f, l.const32(int64(-s)))
			m >>= -s
		}
		if m != int64(len(table)-1) || s != 0 || len(table)&(len(table)-1) != 0 {
			f = l.op(code.OpAnd32, nil, f, l.const32(m))
		}
		if v != 0 {
			f = l.op(code.OpXor32, nil, v, f)
		}
		v = f
	}
	if v == 0 {
		v = l.const32(int64(first))
	} else if first != 0 {
		v = l.op(code.OpXor32, nil, v, l.const32(int64(first)))
	}
	return v, true
}

// sharedRun is a set of slots whose elements lie one after the other.
type sharedRun struct {
	slots []int
	align int64 // divides each thread's place of the first, in bits
}

// runs cuts the slots into runs.
func (x *places) runs() []sharedRun {
	order := make([]int, len(x.slots))
	for s := range order {
		order[s] = s
	}
	if x.at != nil {
		slices.SortStableFunc(order, func(a, b int) int { return x.at[a][0] - x.at[b][0] })
	}
	var out []sharedRun
	for _, s := range order {
		if n := len(out); n > 0 && x.at != nil && x.follows(out[n-1].slots, s) {
			out[n-1].slots = append(out[n-1].slots, s)
			continue
		}
		out = append(out, sharedRun{slots: []int{s}, align: x.alignOf(s)})
	}
	return out
}

// follows reports that slot b lies behind a run in every thread, and is moved by the
// swizzle together with it.
func (x *places) follows(run []int, b int) bool {
	keep := x.s.w.Base
	for t, n := range x.at[run[len(run)-1]] {
		if x.at[b][t] != n+1 || !x.s.w.Identity() && (n+1)>>keep != n>>keep {
			return false
		}
	}
	// Terms that are swizzled with the rest could move it across a border.
	align := x.alignOf(run[0])
	return x.hoisted || x.s.w.Identity() || int64((len(run)+1)*x.s.width) <= align&-align
}

// alignOf is a number of bits that divides the places of a slot.
func (x *places) alignOf(slot int) int64 {
	g := int64(8 * SharedAlign)
	if x.at == nil {
		return int64(x.s.width & -x.s.width)
	}
	for _, n := range x.at[slot] {
		g = gcd(g, int64(x.s.w.Apply(n)*x.s.width))
	}
	for _, t := range x.terms {
		g = gcd(g, t.div*int64(x.s.width))
		if !x.s.w.Identity() { // what a swizzle does to a term stays above its units
			g = gcd(g, max(t.div&-t.div, 1)*int64(x.s.width))
		}
	}
	return g
}

// of is the address of the first slot of a run, and an offset.
func (x *places) of(r sharedRun) (addr code.Value, offset int64) {
	if x.at == nil || !x.hoisted {
		return x.compute(r), int64(x.s.plan)
	}
	table := x.table(x.at[r.slots[0]])
	addr, offset, ok := x.address(table)
	if !ok {
		addr, offset = x.compute(r), int64(x.s.plan)
		x.raws = append(x.raws, raw{table, addr})
	}
	return addr, offset
}

// compute is the address of the first slot of a run, digit by digit.
func (x *places) compute(r sharedRun) code.Value {
	l := x.l
	sum := l.const32(int64(x.s.static))
	for _, t := range x.s.terms {
		sum = l.add32(sum, t.value)
	}
	for d, modes := range x.s.modes {
		n := l.const32(int64(x.from[d]))
		if i := slices.Index(x.dims, d); i >= 0 {
			n = l.add32(x.index[i], l.const32(int64(x.from[d]+x.slots[r.slots[0]][i])))
		}
		if x.rest[d] != 0 {
			n = l.add32(n, x.rest[d])
		}
		unit := int64(1)
		for i := len(modes) - 1; i >= 0; i-- {
			v := n
			if unit > 1 {
				v = l.divideU32(v, unit)
			}
			if i > 0 {
				v = l.remainderU32(v, int64(modes[i].Size))
			}
			sum = l.add32(sum, l.mul32(v, l.const32(int64(modes[i].Stride))))
			unit *= int64(modes[i].Size)
		}
	}
	return l.add32(l.op(code.OpSharedBase, nil), x.inBytes(l.swizzle(x.s.w, sum)))
}

var sharedLoads = map[int]code.Op{8: code.OpLdSharedB8, 16: code.OpLdSharedB16, 32: code.OpLdSharedB32, 64: code.OpLdSharedV2B32, 128: code.OpLdSharedV4B32}
var sharedStores = map[int]code.Op{8: code.OpStSharedB8, 16: code.OpStSharedB16, 32: code.OpStSharedB32, 64: code.OpStSharedV2B32, 128: code.OpStSharedV4B32}

// whole reports that every run can be moved in bytes; else the instruction is
// refused.
func (x *places) whole(in *ir.Instr, runs []sharedRun) bool {
	for _, r := range runs {
		if n := len(r.slots) * x.s.width; n%8 != 0 || chunkBits(r.align, 0, n) == 0 {
			x.l.refuse(in.Pos, "Lower.E9", "elements of %d bits that threads hold one after the other do not fill whole bytes of shared memory", x.s.width)
			return false
		}
	}
	return true
}

func loadShared(l *lowerer, in *ir.Instr) {
	v := in.Out[0]
	dims, _ := v.Type.Dims()
	s := l.env[in.In[0].Var()].shared
	p := l.part(in, s, in.Dims(len(s.dims), len(dims)), dims)
	x := l.place(p, v.Type.Layout)
	if words := l.loadMatrices(x, v.Type); words != nil {
		l.env[v] = val{words: words}
		return
	}
	runs := x.runs()
	l.env[v] = val{words: make([]code.Value, wordsOf(v.Type))}
	if !x.whole(in, runs) {
		return
	}
	source := make([]field, len(x.slots))
	for _, r := range runs {
		addr, offset := x.of(r)
		n := len(r.slots) * s.width
		words := make([]code.Value, (n+31)/32)
		for pos := 0; pos < n; {
			w := chunkBits(r.align, pos, n)
			for i, got := range l.b.Emit(sharedLoads[w], []int64{offset + int64(pos/8)}, addr) {
				if w == 16 {
					got = l.op(code.OpZext16, nil, got)
				}
				at := pos + 32*i
				words[at/32] = l.orShifted(words[at/32], got, at%32)
			}
			pos += w
		}
		for i, slot := range r.slots {
			source[slot] = field{words: words, pos: i * s.width}
		}
	}
	l.env[v] = val{words: l.assemble(len(x.slots), s.width, func(s int) field { return source[s] })}
}

func storeShared(l *lowerer, in *ir.Instr) {
	v := in.In[1].Var()
	dims, _ := v.Type.Dims()
	words := l.env[v].words
	s := l.env[in.In[0].Var()].shared
	x := l.place(l.part(in, s, in.Dims(len(s.dims), len(dims)), dims), v.Type.Layout)
	owner, replicas := l.firstHolder(v.Type.Layout)
	if !replicas && l.storeMatrices(x, v.Type, words) {
		return
	}
	runs := x.runs()
	if !x.whole(in, runs) {
		return
	}
	for _, r := range runs {
		data := l.assemble(len(r.slots), s.width, func(i int) field { return field{words: words, pos: r.slots[i] * s.width} })
		addr, offset := x.of(r)
		l.storeSharedRun(addr, offset, r.align, len(r.slots)*s.width, owner, data)
	}
}

// storeSharedRun stores n bits.
func (l *lowerer) storeSharedRun(addr code.Value, offset, align int64, n int, guard code.Value, words []code.Value) {
	for pos := 0; pos < n; {
		w := chunkBits(align, pos, n)
		in := []code.Value{addr}
		for i := 0; i < w; i += 32 {
			y := words[(pos+i)/32]
			if s := (pos + i) % 32; s > 0 {
				y = l.op(code.OpShrU32, nil, y, l.const32(int64(s)))
			}
			if w == 16 {
				y = l.op(code.OpTrunc16, nil, y)
			}
			in = append(in, y)
		}
		l.guarded(guard, sharedStores[w], []int64{offset + int64(pos/8)}, nil, in...)
		pos += w
	}
}
