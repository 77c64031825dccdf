package plan

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Bounds under which one block can reduce everything that belongs together.
const (
	MaxRow       = 16384
	MaxRowMajor  = 8
	MaxColumn    = 4096
	sharedRowMax = 32
)

// Normal is a reduction in normal form: rows [a, b, c] with a and c reduced, or
// columns [a, b, c] with b reduced. Ok is false where the dimensions in memory do not
// have that form, or there is no element.
func Normal(s hlo.Shape, dims []int) (row bool, abc []int, ok bool) {
	if s.Elements() == 0 {
		return false, nil, false
	}
	type group struct {
		reduced bool
		n       int
	}
	var groups []group // from the fastest to the slowest dimension
	for _, d := range s.MinorToMajor() {
		n := s.Dims[d]
		if n == 1 {
			continue
		}
		r := slices.Contains(dims, d)
		if len(groups) > 0 && groups[len(groups)-1].reduced == r {
			groups[len(groups)-1].n *= n
		} else {
			groups = append(groups, group{r, n})
		}
	}
	if len(groups) == 0 || len(groups) > 3 {
		return false, nil, false
	}
	abc = []int{1, 1, 1}
	for i, g := range groups {
		abc[2-i] = g.n
	}
	return groups[0].reduced, abc, groups[0].reduced || len(groups) > 1
}

// sameNormal says whether two reductions have one normal form: then one kernel does both,
// whatever shapes their operands have.
func sameNormal(g, h *hlo.Instruction) bool {
	row, abc, ok := Normal(g.Operands[0].Shape, g.Dims)
	row2, abc2, ok2 := Normal(h.Operands[0].Shape, h.Dims)
	return ok && ok2 && row == row2 && slices.Equal(abc, abc2)
}

// vectorOf is the vector width of a reduction: 2 for 32 bits and 4 below, as far as the
// minor dimension gives all threads that many.
func vectorOf(elementBits, threads, minor int) int {
	switch {
	case elementBits >= 64 || minor%2 == 1 || 2*threads > minor:
		return 1
	case elementBits == 32:
		return 2
	case 4*threads > minor || minor%4 != 0:
		return 2
	}
	return 4
}

// Widths are the widths in bits of the elements that a fusion reads and writes.
type Widths struct {
	SmallestInput  int // of what is read
	SmallestOutput int
	Largest        int
	Complex        bool
}

// WidthsOf are the widths where elements of one type are read and written.
func WidthsOf(t hlo.Type) Widths {
	return Widths{t.Bits(), t.Bits(), t.Bits(), t == hlo.C64 || t == hlo.C128}
}

// Reduce plans a reduction of an operand over dimensions.
func Reduce(s hlo.Shape, dims []int, w Widths, d Device) *Kernel {
	return reduce(s, dims, w, d).simplified()
}

func reduce(s hlo.Shape, dims []int, w Widths, d Device) *Kernel {
	k := &Kernel{}
	row, abc, ok := Normal(s, dims)
	loop := func(reason, format string, args ...any) *Kernel {
		k.Emitter, k.Reason = LoopEmitter, reason
		k.why(format, args...)
		return k
	}
	switch {
	case s.Elements() == 0:
		return loop("elemental", "there is nothing to reduce")
	case !ok:
		return loop("elemental", "the reduced dimensions are not one group of rows or columns")
	}
	a, b, c := abc[0], abc[1], abc[2]
	k.Dims = abc
	if why := tooShort(row, abc); why != "" {
		return loop("elemental", "%s", why)
	}
	if row {
		if c > MaxRow || a > MaxRowMajor {
			return loop("too large", "[%d, %d, %d] does not fit one block: at most %d × %d", a, b, c, MaxRowMajor, MaxRow)
		}
		// A vector that a warp needs to hold a row, but that leaves multiprocessors idle, is
		// not halved further: the row then goes to whole warps.
		if v, ok := multiRowVector(abc, w, d); ok && (v == 1 || ceilDiv(b, multiRows(abc, v)) >= d.SMs) {
			k.multiRow(abc, v)
		} else {
			k.row(abc, w)
		}
		return k
	}
	switch {
	case b > MaxColumn:
		return loop("too large", "columns of %d elements do not fit one block: at most %d", b, MaxColumn)
	case 32%c == 0:
		k.smallColumn(abc, w)
	default:
		k.column(abc, w)
	}
	return k
}

// tooShort says why one element of the result per thread is faster, or nothing.
func tooShort(row bool, abc []int) string {
	b, c := abc[1], abc[2]
	switch {
	case row && c < 32 && 32%c != 0:
		return fmt.Sprintf("rows of %d elements are too short and do not divide a warp", c)
	case !row && (b < 32 || b < 64 && c < 32 || b < 128 && c < 8 || b < 256 && c < 3):
		return fmt.Sprintf("columns of %d elements, %d of them, are too few", b, c)
	}
	return ""
}

func (w Widths) elementBits() int {
	if w.Complex {
		return 64
	}
	return w.SmallestInput
}

// row: warps share rows; partial results meet in shared memory unless one warp has a
// whole row.
func (k *Kernel) row(abc []int, w Widths) {
	b, c := abc[1], abc[2]
	tr := min(1024, roundUp(ceilDiv(c, 16), 32))
	tk := 1
	if 2*tr <= 256 {
		tk = min(b, 256/tr)
	}
	v := vectorOf(w.elementBits(), tr, c)
	k.rowsOf(abc, tr, tk, v, min(16/v, ceilDiv(ceilDiv(c, v), tr)))
}

// rowsOf: tr threads share a row, tk rows are in a block, and a thread reads v elements in
// each of the turns.
func (k *Kernel) rowsOf(abc []int, tr, tk, v, turns int) {
	a, b, c := abc[0], abc[1], abc[2]
	k.Emitter = RowEmitter
	k.ThreadsKept, k.ThreadsReduced, k.Threads, k.Vector = tk, tr, tk*tr, v
	k.Tile = []int{a, turns, v}
	k.Blocks = grid(ceilDiv(b, tk))
	k.WarpsPerRow, k.ShuffleDistance = tr/32, 16
	k.Steps = []string{"combiner", "shuffle_reduce", "call:epilogue", "predicated_insert"}
	if k.WarpsPerRow > 1 {
		k.Shared, k.SharedTiles, k.Syncs = []int{tk, k.WarpsPerRow}, 1, 1
		k.Steps = []string{"combiner", "shuffle_reduce", "allocate_shared", "predicated_insert", "sync_threads", "predicated_extract", "shuffle_reduce", "call:epilogue", "predicated_insert"}
	}
	k.why("%d threads for %d elements of a row, %d rows per block, vectors of %d", tr, c, tk, v)
	kept := blockX.Mul(num(tk)).Add(thread.FloorDiv(num(tr)))
	place := sym(1).Mul(num(tr)).Add(thread.Mod(num(tr)))
	k.add("thread_to_reduction_input", threadMap(k.Threads, k.Blocks, k.Tile, []affine.Expr{sym(0), kept, place, sym(2)},
		in(kept, b), in(place, c/v)), []int{a, b, c / v, v})
	k.add("thread_to_reduction_output", threadMap(k.Threads, k.Blocks, nil, []affine.Expr{kept},
		in(kept, b), affine.Constraint{Expr: thread.Mod(num(tr))}), []int{b})
}

// multiRowVector is the vector width where a part of a warp reduces a whole row.
func multiRowVector(abc []int, w Widths, d Device) (int, bool) {
	b, c := abc[1], abc[2]
	if bits.OnesCount(uint(c)) != 1 {
		return 0, false
	}
	smallest := min(w.SmallestInput, w.SmallestOutput)
	v := min(c, 64/max(smallest, 1))
	if w.Largest >= 32 {
		v = min(v, 128/w.Largest)
	}
	if c > 32*v {
		return 0, false
	}
	for v > 1 && ceilDiv(b, multiRows(abc, v)) < d.SMs && c <= 32*(v/2) {
		v /= 2
	}
	return v, true
}

// multiRows is how many rows a block of at most 256 threads reduces where a thread reads v
// elements of one.
func multiRows(abc []int, v int) int { return min(abc[1], 256/(abc[2]/v)) }

func (k *Kernel) multiRow(abc []int, v int) {
	a, b, c := abc[0], abc[1], abc[2]
	k.Emitter = MultiRowEmitter
	tr, tk := c/v, multiRows(abc, v)
	k.Threads, k.ThreadsKept, k.ThreadsReduced, k.Vector = tk*tr, tk, tr, v
	k.Blocks = grid(ceilDiv(b, tk))
	k.ShuffleDistance = tr / 2
	k.Steps = []string{"combiner", "shuffle_reduce", "call:epilogue", "predicated_insert"}
	k.why("%d threads share a row of %d, %d rows per block, vectors of %d", tr, c, tk, v)
	kept := blockX.Mul(num(tk)).Add(thread.FloorDiv(num(tr)))
	place := thread.Mod(num(tr)).Mul(num(v)).Add(sym(1))
	k.add("thread_to_reduction_input", threadMap(k.Threads, k.Blocks, []int{a, v}, []affine.Expr{sym(0), kept, place}, in(kept, b)), abc)
	k.add("thread_to_reduction_output", threadMap(k.Threads, k.Blocks, nil, []affine.Expr{kept},
		in(kept, b), affine.Constraint{Expr: thread.Mod(num(tr))}), []int{b})
}

var columnSteps = []string{"combiner", "allocate_shared", "insert", "sync_threads", "predicated_extract", "shuffle_reduce", "call:epilogue", "predicated_insert"}

func (k *Kernel) column(abc []int, w Widths) {
	a, b, c := abc[0], abc[1], abc[2]
	k.Emitter = ColumnEmitter
	v := vectorOf(w.elementBits(), 32, c)
	wide := 32 * v
	perRow := ceilDiv(c, wide)
	k.Threads, k.Vector = 1024, v
	k.Tile = []int{ceilDiv(b, 32), v}
	k.Blocks = grid(a * perRow)
	k.Shared, k.SharedTiles, k.Syncs, k.ShuffleDistance = []int{32, wide + 1}, 1, 1, 16
	k.Steps = columnSteps
	k.why("32×32 threads walk %d columns, vectors of %d", wide, v)
	major, first := blockX.FloorDiv(num(perRow)), blockX.Mod(num(perRow)).Mul(num(wide))
	r := sym(0).Mul(num(32)).Add(thread.FloorDiv(num(32)))
	col := first.Add(thread.Mod(num(32)).Mul(num(v))).Add(sym(1))
	k.add("thread_to_reduction_input", threadMap(k.Threads, k.Blocks, k.Tile, []affine.Expr{major, r, col}, in(r, b), in(col, c)), abc)
	out := first.Add(thread.FloorDiv(num(32)).Mul(num(v))).Add(sym(0))
	k.add("thread_to_reduction_output", threadMap(k.Threads, k.Blocks, []int{v}, []affine.Expr{major, out},
		in(out, c), affine.Constraint{Expr: thread.Mod(num(32))}), []int{a, c})
	// Column l·v + s of the tile stands at s·32 + l, so that lanes meet in no bank.
	lane, warp := thread.Mod(num(32)), thread.FloorDiv(num(32))
	k.add("shared_write", threadMap(k.Threads, k.Blocks, []int{v}, []affine.Expr{warp, sym(0).Mul(num(32)).Add(lane)}), nil)
	k.add("shared_read", threadMap(k.Threads, k.Blocks, []int{v}, []affine.Expr{lane, sym(0).Mul(num(32)).Add(warp)}), nil)
}

func (k *Kernel) smallColumn(abc []int, w Widths) {
	a, b, c := abc[0], abc[1], abc[2]
	k.Emitter = SmallColumnEmitter
	threads := 128
	v := vectorOf(w.elementBits(), threads, b*c)
	for v*threads/c > sharedRowMax && v > 1 {
		v /= 2
	}
	for v*threads/c > sharedRowMax {
		threads /= 2
	}
	v = min(v, c)
	rows := v * threads / c
	k.Threads, k.Vector, k.SharedRows = threads, v, rows
	k.Loop = ceilDiv(b*c, threads*v)
	k.Blocks = grid(a)
	k.Shared, k.SharedTiles, k.Syncs, k.ShuffleDistance = []int{rows, c + 1}, 1, 1, rows/2
	k.Steps = columnSteps
	k.why("a block streams %d × %d elements, %d threads with vectors of %d, %d rows in shared memory", b, c, threads, v, rows)
	linear := sym(0).Mul(num(threads * v)).Add(thread.Mul(num(v))).Add(sym(1))
	k.add("thread_to_reduction_input", threadMap(threads, k.Blocks, []int{k.Loop, v},
		[]affine.Expr{blockX, linear.FloorDiv(num(c)), linear.Mod(num(c))}, in(linear, b*c)), abc)
	perTurn := threads / rows
	out := sym(0).Mul(num(perTurn)).Add(thread.FloorDiv(num(rows)))
	k.add("thread_to_reduction_output", threadMap(threads, k.Blocks, []int{ceilDiv(c, perTurn)}, []affine.Expr{blockX, out},
		in(out, c), affine.Constraint{Expr: thread.Mod(num(rows))}), []int{a, c})
	at := thread.Mul(num(v)).Add(sym(0))
	k.add("shared_write", threadMap(threads, k.Blocks, []int{v}, []affine.Expr{at.FloorDiv(num(c)), at.Mod(num(c))}), nil)
	k.add("shared_read", threadMap(threads, k.Blocks, []int{ceilDiv(c, perTurn)}, []affine.Expr{thread.Mod(num(rows)), out}, in(out, c)), nil)
}

// Split is how a reduction that is too large for one block becomes two.
type Split struct {
	Action    string // "none", "split" or "minor_first"
	Dimension int    // that is split in two
	Padded    int
	Reshaped  []int
	Inner     []int // dimensions reduced first, of the reshaped operand
	Between   []int // sizes in between
	Outer     []int // dimensions reduced after
}

// SplitReduction splits the reduction of an operand over dimensions: the longest
// reduced dimension n becomes [k1, k2] with k1·k2 ≥ n near its square root, and k2 is
// reduced first.
func SplitReduction(s hlo.Shape, dims []int) Split {
	row, abc, ok := Normal(s, dims)
	none := Split{Action: "none"}
	if !ok || tooShort(row, abc) != "" {
		return none
	}
	bound, n := MaxColumn, abc[1]
	if row {
		bound, n = MaxRow, abc[2]
	}
	if n <= bound && (!row || abc[0] <= MaxRowMajor) {
		return none
	}
	sorted := slices.Sorted(slices.Values(dims))
	without := func(sizes, gone []int) []int {
		out := []int{}
		for i, n := range sizes {
			if !slices.Contains(gone, i) {
				out = append(out, n)
			}
		}
		return out
	}
	// The dimension to split is the longest of the minor group that is reduced.
	order := s.MinorToMajor()
	at := -1
	for _, d := range order {
		reduced := slices.Contains(dims, d)
		if at >= 0 && !reduced && s.Dims[d] > 1 {
			break
		}
		if reduced && (at < 0 || s.Dims[d] > s.Dims[at]) {
			at = d
		}
	}
	if row && abc[0] > MaxRowMajor {
		var minor, major []int
		seen := false // a kept dimension
		for _, d := range order {
			switch {
			case !slices.Contains(dims, d):
				seen = seen || s.Dims[d] > 1
			case seen:
				major = append(major, d)
			default:
				minor = append(minor, d)
			}
		}
		slices.Sort(minor)
		slices.Sort(major)
		for i, d := range major {
			less := 0
			for _, e := range minor {
				if e < d {
					less++
				}
			}
			major[i] = d - less
		}
		return Split{Action: "minor_first", Inner: minor, Between: without(s.Dims, minor), Outer: major}
	}
	n = s.Dims[at]
	k2 := min(isqrt(n), bound)
	best, padding := k2, (k2-n%k2)%k2
	for i := k2 - 1; i > k2/2; i-- {
		p := (i - n%i) % i
		if p < padding || p == padding && bits.OnesCount(uint(i)) == 1 {
			best, padding = i, p
		}
	}
	k2 = best
	k1 := (n + padding) / k2
	swap := !row
	if row {
		if k2%2 == 0 && n%2 == 0 {
			swap = 2*k2 < k1 || k1%2 == 0
		} else {
			swap = n%2 == 0 || k1%2 == 1
		}
	}
	if swap && k1 <= bound {
		k1, k2 = k2, k1
	}
	out := Split{Action: "split", Dimension: at, Padded: k1 * k2}
	for d, n := range s.Dims {
		if d == at {
			out.Reshaped = append(out.Reshaped, k1, k2)
		} else {
			out.Reshaped = append(out.Reshaped, n)
		}
	}
	for _, d := range sorted {
		if d >= at {
			d++
		}
		out.Inner = append(out.Inner, d)
	}
	out.Between = without(out.Reshaped, out.Inner)
	less := 0
	for _, d := range out.Inner {
		if d < at {
			less++
		}
	}
	out.Outer = []int{at - less}
	return out
}

func isqrt(n int) int {
	r := 1
	for (r+1)*(r+1) <= n {
		step := 1
		for (r+2*step)*(r+2*step) <= n {
			step *= 2
		}
		r += step
	}
	return r
}
