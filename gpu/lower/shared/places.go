package shared

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Places is where the elements of a register tile lie in shared memory, as far as
// the thread and the slot decide: the rest is in terms.
type Places struct {
	*Part
	*elements
	t       *thread.Thread
	threads int
	index   []code.Value // of this thread's slot 0 per dimension of the tile; for the slow way
	terms   []Term       // of the view and of the part
	hi      []Term       // added to the swizzled place
	lo      []Term       // swizzled themselves and XORed with it
	loBits  int          // bits that lo may change
	hoisted bool         // hi and lo are all terms
	raws    []raw        // addresses made so far
	room    []int        // for a table that is compared and not kept
}

// elements are the places of a tile's elements without terms, which all tiles of a layout have
// in a part of a view.
type elements struct {
	slots [][]int   // of each slot
	at    [][]int32 // [slot][thread]: elements before swizzling; nil if the parts are not apart
	base  int       // of at: all of it that no index decides
	adds  [][]int32 // of at: what the indices along each dimension of the tile add
	used  int       // all bits of at
}

// raw is a table of bytes per thread with the address made of it.
type raw struct {
	table []int
	addr  code.Value // table ^ lo + hi + the block's first shared address
}

// Finder finds tiles in shared memory. It remembers those that it found: a program loads the
// same part of a tile over and over, from another stage of a pipeline or another turn of a loop.
// The zero value has found none.
type Finder struct {
	found map[string]*elements
	key   []byte // of the last one
}

// Place finds a tile of a layout in shared memory.
func (f *Finder) Place(t *thread.Thread, p *Part, lay layout.Layout) *Places {
	x := &Places{Part: p, t: t, threads: lay.Threads(), terms: slices.Concat(p.View.Terms, p.Terms)}
	x.index = t.Coords(lay)
	x.elements = f.elements(p, lay)
	if x.at != nil {
		x.sort()
	}
	return x
}

func (f *Finder) elements(p *Part, lay layout.Layout) *elements {
	apart := !slices.Contains(p.Apart, false)
	f.key = append(f.key[:0], lay.Key()...)
	number := func(n int) { f.key = binary.AppendVarint(f.key, int64(n)) }
	if apart {
		number(p.View.Static)
		for d, modes := range p.View.Modes {
			number(p.From[d])
			number(len(modes))
			for _, m := range modes {
				number(m.Size)
				number(m.Stride)
			}
		}
		for _, d := range p.Dims {
			number(d)
		}
	}
	if x := f.found[string(f.key)]; x != nil {
		return x
	}
	threads, slots := lay.Parts()
	x := &elements{slots: indices(lay.Shape(), slots)}
	if f.found == nil {
		f.found = map[string]*elements{}
	}
	f.found[string(f.key)] = x
	if !apart {
		return x
	}
	x.base, x.adds = p.along(lay.Shape())
	first := make([][]int, len(x.adds)) // by dimension: the index of slot 0 of each thread
	for _, index := range indices(lay.Shape(), threads) {
		for i, n := range index {
			first[i] = append(first[i], n)
		}
	}
	all := make([]int32, len(x.slots)*len(threads))
	x.at = make([][]int32, len(x.slots))
	for s, slot := range x.slots {
		at := all[s*len(threads) : (s+1)*len(threads)]
		for id := range at {
			at[id] = int32(x.base)
		}
		for i, places := range x.adds {
			places = places[slot[i]:]
			for id, n := range first[i] {
				at[id] += places[n]
			}
		}
		for _, n := range at {
			x.used |= int(n)
		}
		x.at[s] = at
	}
	return x
}

// indices are those of elements by their row-major numbers.
func indices(shape []int, numbers []int32) [][]int {
	all := make([]int, len(numbers)*len(shape))
	out := make([][]int, len(numbers))
	for k, n := range numbers {
		index := all[k*len(shape) : (k+1)*len(shape)]
		rest := int(n)
		for d := len(shape) - 1; d >= 0; d-- {
			index[d], rest = rest%shape[d], rest/shape[d]
		}
		out[k] = index
	}
	return out
}

// along says where the elements of a tile of a shape lie, without terms: at base, and
// what each index along each dimension adds.
func (p *Part) along(shape []int) (base int, along [][]int32) {
	base, along = p.View.Static, make([][]int32, len(shape))
	for d, modes := range p.View.Modes {
		i := slices.Index(p.Dims, d)
		if i < 0 {
			base += Along(modes, p.From[d])
			continue
		}
		along[i] = make([]int32, shape[i])
		for n := range along[i] {
			along[i][n] = int32(Along(modes, p.From[d]+n))
		}
	}
	return base, along
}

// sort finds which terms can be kept apart from the swizzle.
func (x *Places) sort() {
	x.hoisted = true
	if x.View.Swizzle.Identity() {
		x.hi = x.terms
		return
	}
	if x.View.Width&(x.View.Width-1) != 0 && len(x.terms) > 0 {
		x.hoisted = false
		return
	}
	w := x.View.Swizzle
	period := int64(1) << (w.Base + w.Bits + max(w.Shift, -w.Shift))
	used := x.used
	for _, q := range x.terms {
		if q.Div%period == 0 {
			x.hi = append(x.hi, q)
			continue
		}
		mask := (1<<bits.Len64(uint64(q.Most)) - 1) &^ (1<<bits.TrailingZeros64(uint64(q.Div)) - 1)
		if mask&used != 0 {
			x.hoisted = false
			return
		}
		used |= mask
		x.lo = append(x.lo, q)
		field := (1<<w.Bits - 1) << (w.Base + max(0, -w.Shift)) // what the swizzle changes
		x.loBits |= x.bytes(mask) | x.bytes(field)
	}
}

// bytes is a place in bytes, rounded down.
func (x *Places) bytes(n int) int { return n * x.View.Width / 8 }

// table is the bytes of a place for each thread, swizzled, until the next one is asked for or it is kept.
func (x *Places) table(at []int32) []int {
	x.room = slices.Grow(x.room[:0], len(at))
	for _, n := range at {
		x.room = append(x.room, x.bytes(x.View.Swizzle.Apply(int(n))))
	}
	return x.room
}

// keep remembers the address of a table.
func (x *Places) keep(table []int, addr code.Value) {
	x.raws = append(x.raws, raw{table, addr})
	x.room = nil
}

// inBytes is a number of elements as bytes; it is a whole number of them.
func (x *Places) inBytes(v code.Value) code.Value {
	t := x.t
	if x.View.Width%8 == 0 {
		return t.Mul32(v, t.Const32(int64(x.View.Width/8)))
	}
	return t.Op(code.OpShrU32, nil, t.Mul32(v, t.Const32(int64(x.View.Width))), t.Const32(3))
}

// address is an address and an offset for what a table says. ok is false if the
// thread numbers cannot be turned into the table by a few steps.
func (x *Places) address(table []int) (addr code.Value, offset int64, ok bool) {
	for _, r := range x.raws {
		if d, same := x.distance(r.table, table); same {
			return r.addr, int64(d + x.View.Plan), true
		}
	}
	t := x.t
	v, ok := t.Table(table)
	if !ok {
		return 0, 0, false
	}
	for _, q := range x.lo {
		v = t.Op(code.OpXor32, nil, v, x.inBytes(swizzle(t, x.View.Swizzle, q.Value)))
	}
	base := t.Op(code.OpSharedBase, nil)
	for _, q := range x.hi {
		base = t.Add32(base, x.inBytes(q.Value))
	}
	addr = t.Add32(base, v)
	x.keep(table, addr)
	return addr, int64(x.View.Plan), true
}

// distance is what lies between two tables, where it is the same for each thread
// and lo, which is XORed with one, would change the other alike.
func (x *Places) distance(a, b []int) (d int, same bool) {
	d = b[0] - a[0]
	for id := range a {
		if b[id]-a[id] != d || (a[id]^b[id])&x.loBits != 0 {
			return 0, false
		}
	}
	return d, true
}

// Run is a set of slots whose elements lie one after the other.
type Run struct {
	Slots []int
	Align int64 // divides each thread's place of the first, in bits
}

// Runs cuts the slots into runs.
func (x *Places) Runs() []Run {
	order := make([]int, len(x.slots))
	for s := range order {
		order[s] = s
	}
	if x.at != nil {
		slices.SortStableFunc(order, func(a, b int) int { return int(x.at[a][0] - x.at[b][0]) })
	}
	var out []Run
	for _, s := range order {
		if n := len(out); n > 0 && x.at != nil && x.Follows(out[n-1].Slots, s) {
			out[n-1].Slots = append(out[n-1].Slots, s)
			continue
		}
		out = append(out, Run{Slots: []int{s}, Align: x.AlignOf(s)})
	}
	return out
}

// Follows reports that slot b lies behind a run in every thread, and is moved by the
// swizzle together with it.
func (x *Places) Follows(run []int, b int) bool {
	keep := x.View.Swizzle.Base
	for id, n := range x.at[run[len(run)-1]] {
		if x.at[b][id] != n+1 || !x.View.Swizzle.Identity() && (n+1)>>keep != n>>keep {
			return false
		}
	}
	if x.hoisted || x.View.Swizzle.Identity() {
		return true
	}
	// Terms that are swizzled with the rest could move it across a border.
	align := x.AlignOf(run[0])
	return int64((len(run)+1)*x.View.Width) <= align&-align
}

// AlignOf is a number of bits that divides the places of a slot.
func (x *Places) AlignOf(slot int) int64 {
	g := int64(8 * Align)
	if x.at == nil {
		return int64(x.View.Width & -x.View.Width)
	}
	for _, n := range x.at[slot] {
		g = affine.GCD(g, int64(x.View.Swizzle.Apply(int(n))*x.View.Width))
	}
	for _, q := range x.terms {
		g = affine.GCD(g, q.Div*int64(x.View.Width))
		if !x.View.Swizzle.Identity() { // what a swizzle does to a term stays above its units
			g = affine.GCD(g, max(q.Div&-q.Div, 1)*int64(x.View.Width))
		}
	}
	return g
}

// Of is the address of the first slot of a run, and an offset.
func (x *Places) Of(r Run) (addr code.Value, offset int64) {
	if x.at == nil || !x.hoisted {
		return x.compute(r), int64(x.View.Plan)
	}
	table := x.table(x.at[r.Slots[0]])
	addr, offset, ok := x.address(table)
	if !ok {
		addr, offset = x.compute(r), int64(x.View.Plan)
		x.keep(table, addr)
	}
	return addr, offset
}

// compute is the address of the first slot of a run, digit by digit.
func (x *Places) compute(r Run) code.Value {
	t := x.t
	at := x.View.at(t, func(d int) code.Value {
		n := t.Const32(int64(x.From[d]))
		if i := slices.Index(x.Dims, d); i >= 0 {
			n = t.Add32(x.index[i], t.Const32(int64(x.From[d]+x.slots[r.Slots[0]][i])))
		}
		if x.Rest[d] != 0 {
			n = t.Add32(n, x.Rest[d])
		}
		return n
	})
	return t.Add32(t.Op(code.OpSharedBase, nil), x.inBytes(at))
}
