package plan

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// Packed are the numbers of a transpose of elements under 32 bits: a square buffer
// whose columns are rotated, so that neither reads nor writes of 32-bit words meet in
// a bank.
type Packed struct {
	Elements      int // of a 32-bit word
	Side          int // of the square buffer
	T2, A, T1     int // sizes of a tile of the operand [T2, A, T1]
	Rows, Columns int // that are populated
}

// PhysicalTranspose is a transpose, or a copy to another layout, as the sizes of the
// operand in memory and the permutation of its dimensions in memory.
func PhysicalTranspose(in *hlo.Instruction) (dims, perm []int, ok bool) {
	if in.Op != hlo.Transpose && in.Op != hlo.Copy || len(in.Operands) != 1 {
		return nil, nil, false
	}
	from, into := in.Operands[0].Shape, in.Shape
	if from.IsTuple() || into.IsTuple() {
		return nil, nil, false
	}
	at := func(order []int) []int { // logical dimension → place from slowest to fastest
		out := make([]int, len(order))
		for i, d := range order {
			out[d] = len(order) - 1 - i
		}
		return out
	}
	place := at(from.MinorToMajor())
	order := into.MinorToMajor()
	perm = make([]int, len(order))
	for i := range order {
		d := order[len(order)-1-i]
		if in.Op == hlo.Transpose {
			d = in.Dims[d]
		}
		perm[i] = place[d]
	}
	return from.Physical().Dims, perm, true
}

// normalTranspose merges dimensions that stay adjacent and drops unit dimensions.
func normalTranspose(dims, perm []int) (sizes, order []int) {
	var groups [][]int // of operand dimensions, in output order
	for _, p := range perm {
		if dims[p] == 1 {
			continue
		}
		if n := len(groups); n > 0 {
			last := groups[n-1][len(groups[n-1])-1]
			next := last + 1
			for next < p && dims[next] == 1 {
				next++
			}
			if next == p {
				groups[n-1] = append(groups[n-1], p)
				continue
			}
		}
		groups = append(groups, []int{p})
	}
	byStart := slices.Clone(groups)
	slices.SortFunc(byStart, func(a, b []int) int { return a[0] - b[0] })
	for _, g := range byStart {
		n := 1
		for _, d := range g {
			n *= dims[d]
		}
		sizes = append(sizes, n)
	}
	for _, g := range groups {
		order = append(order, slices.IndexFunc(byStart, func(h []int) bool { return h[0] == g[0] }))
	}
	return sizes, order
}

// Transpose plans a transpose through shared memory. Dims are the sizes of the operand
// in memory, perm[i] the operand dimension that output dimension i is.
func Transpose(t hlo.Type, dims, perm []int, d Device) *Kernel {
	return transpose(t, dims, perm, d, true).simplified()
}

// transpose is [Transpose], with its maps or without, which saves most of the time.
func transpose(t hlo.Type, dims, perm []int, d Device, maps bool) *Kernel {
	k := &Kernel{}
	sizes, order := normalTranspose(dims, perm)
	k.Dims, k.Permutation = sizes, order
	bits := t.Bits()
	loop := func(format string, args ...any) *Kernel {
		k.Emitter, k.Reason = LoopEmitter, fmt.Sprintf(format, args...)
		k.why(format, args...)
		return k
	}
	if len(sizes) < 2 {
		return loop("nothing moves")
	}
	last := len(sizes) - 1
	if order[last] == last { // the minor dimension stays
		minor, small := sizes[last], min(sizes[last-1], sizes[order[last-1]])
		if bits*minor > 64 || bits*minor*small < 128 {
			return loop("the minor dimension stays, %d bits wide, with %d next to it", bits*minor, small)
		}
		k.tiled(dims, perm, sizes, order, 1, maps)
		return k
	}
	packed, why := packedOf(bits, sizes, order)
	if packed != nil {
		k.packed(packed, dims, perm, sizes, order, maps)
		return k
	}
	k.Reason = why
	a, b := sizes[last], sizes[order[last]]
	if bits < 8 || !(a >= 16 && b >= 16 || a >= 8 && b >= 8 && a*b >= 8192) {
		return loop("minor dimensions of %d and %d are too small for tiles", a, b)
	}
	k.tiled(dims, perm, sizes, order, tileVector(sizes, order, bits, bits, d), maps)
	return k
}

// tileVector is how many elements a thread moves at once where the minor dimension moves:
// a block holds a tile of each type, the widest of so many bits, all of them together of so
// many.
func tileVector(sizes, order []int, widest, together int, d Device) int {
	last := len(sizes) - 1
	v := max(1, 32/widest)
	blocks := 1
	for i, n := range sizes {
		if i == last || i == order[last] {
			n = ceilDiv(n, 32)
		}
		blocks *= n
	}
	for v > 1 && (blocks*128 < v*v*d.Wave() || 32*33*v*v*together/8 > d.SharedBytes || sizes[last]%v != 0 || sizes[order[last]]%v != 0) {
		v /= 2
	}
	return v
}

func (k *Kernel) tiled(dims, perm, sizes, order []int, v int, maps bool) {
	k.Emitter = TransposeEmitter
	last := len(sizes) - 1
	keeps := order[last] == last
	inner, outer := last, order[last] // operand dimensions that are fastest in operand and output
	if keeps {
		inner, outer = last-1, order[last-1]
	}
	side := 32 * v
	tile := make([]int, len(sizes))
	counts := make([]int, len(sizes))
	for i, n := range sizes {
		tile[i] = 1
		switch {
		case i == inner || i == outer:
			tile[i] = side
		case keeps && i == last:
			tile[i] = n
		}
		counts[i] = ceilDiv(n, tile[i])
	}
	k.Tile, k.BlockCounts, k.Threads = tile, counts, 128
	k.Blocks = grid(product(counts))
	k.Vector = v
	if keeps {
		k.Vector = sizes[last]
	}
	k.Shared = slices.Clone(tile)
	k.Shared[inner]++
	k.SharedTiles, k.Syncs = 1, 1
	k.Steps = []string{"allocate_shared", "loop", "call:prologue", "insert_shared", "sync_threads", "loop", "call:epilogue", "insert_output"}
	k.why("tiles of %v in %d blocks, vectors of %d", tile, product(counts), k.Vector)
	if !maps {
		return
	}

	block := index.Delinear(blockX, counts)
	position := func(fast, slow int) ([]affine.Expr, []affine.Constraint) {
		at := make([]affine.Expr, len(sizes))
		var bounds []affine.Constraint
		for i := range sizes {
			at[i] = block[i].Mul(num(tile[i]))
			switch {
			case i == fast && keeps:
				at[i] = at[i].Add(thread.Mod(num(32)))
			case i == fast:
				at[i] = at[i].Add(thread.Mod(num(32)).Mul(num(v))).Add(sym(1))
			case i == slow:
				at[i] = at[i].Add(sym(0).Mul(num(4))).Add(thread.FloorDiv(num(32)))
			case keeps && i == last:
				at[i] = sym(1)
			}
			bounds = append(bounds, in(at[i], sizes[i]))
		}
		return at, bounds
	}
	symbols := []int{side / 4, k.Vector}
	// Where a thread's element stands in the tile.
	place := func(fast, slow int) []affine.Expr {
		at := make([]affine.Expr, len(sizes))
		for i := range sizes {
			at[i] = num(0)
			switch {
			case i == fast && keeps:
				at[i] = thread.Mod(num(32))
			case i == fast:
				at[i] = thread.Mod(num(32)).Mul(num(v)).Add(sym(1))
			case i == slow:
				at[i] = sym(0).Mul(num(4)).Add(thread.FloorDiv(num(32)))
			case keeps && i == last:
				at[i] = sym(1)
			}
		}
		return at
	}
	read, bounds := position(inner, outer)
	k.add("shared_write", threadMap(128, k.Blocks, symbols, place(inner, outer), bounds...), nil)
	k.add("thread_to_input", threadMap(128, k.Blocks, symbols, index.Delinear(index.Linear(read, sizes), dims), bounds...), dims)
	write, bounds := position(outer, inner)
	k.add("shared_read", threadMap(128, k.Blocks, symbols, place(outer, inner), bounds...), nil)
	k.add("thread_to_output", threadMap(128, k.Blocks, symbols, outputPosition(write, sizes, order, dims, perm), bounds...), permuted(dims, perm))
}

func permuted(dims, perm []int) []int {
	out := make([]int, len(perm))
	for i, p := range perm {
		out[i] = dims[p]
	}
	return out
}

// outputPosition is a position in the normal form of the operand as one in the output.
func outputPosition(at []affine.Expr, sizes, order, dims, perm []int) []affine.Expr {
	out := make([]affine.Expr, len(order))
	for i, p := range order {
		out[i] = at[p]
	}
	return index.Delinear(index.Linear(out, permuted(sizes, order)), permuted(dims, perm))
}

// packedOf is the packed form of a transpose of elements under 32 bits, or why there
// is none. The operand is [.., T2, A, T1] and the output [.., T1, A, T2], where A may be
// missing.
func packedOf(bits int, sizes, order []int) (*Packed, string) {
	last := len(sizes) - 1
	if bits >= 32 {
		return nil, fmt.Sprintf("elements of %d bits fill a word", bits)
	}
	if order[last] == last {
		return nil, "the minor dimension stays"
	}
	vs := 32 / bits
	p := &Packed{Elements: vs, Side: 32 * vs}
	n1, n2, middle := sizes[last], sizes[order[last]], 1
	if a := last - 1; a != order[last] && order[len(order)-2] == a {
		middle = sizes[a]
	}
	p.T1 = min(n1, p.Side)
	p.A = min(middle, p.Side/p.T1)
	p.T2 = min(n2, p.Side)
	p.Rows, p.Columns = p.T2, p.A*p.T1
	for _, c := range []struct {
		n    int
		what string
	}{{p.Rows, "rows"}, {p.Columns, "columns"}} {
		if c.n < 10*vs {
			return nil, fmt.Sprintf("%d populated %s are fewer than %d", c.n, c.what, 10*vs)
		}
		if c.n%vs != 0 {
			return nil, fmt.Sprintf("%d populated %s are not a multiple of %d", c.n, c.what, vs)
		}
	}
	if (n2%p.T2)%vs != 0 {
		return nil, fmt.Sprintf("a last tile of %d rows is not a multiple of %d", n2%p.T2, vs)
	}
	return p, ""
}

// packed plans the maps of a packed transpose. A thread writes words of the buffer and
// reads a square of elements that it turns in registers.
func (k *Kernel) packed(p *Packed, dims, perm, sizes, order []int, maps bool) {
	k.Emitter, k.Packed = TransposeEmitter, p
	last := len(sizes) - 1
	vs := p.Elements
	k.Vector, k.Threads = vs, 128
	k.Shared, k.SharedTiles, k.Syncs = []int{p.Side, p.Side}, 1, 1
	tile := make([]int, len(sizes))
	for i := range tile {
		tile[i] = 1
	}
	tile[last], tile[order[last]] = p.T1, p.T2
	middle := last - 1
	if middle >= 0 && middle != order[last] && order[len(order)-2] == middle {
		tile[middle] = p.A
	} else {
		middle = -1
	}
	counts := make([]int, len(sizes))
	for i, n := range sizes {
		counts[i] = ceilDiv(n, tile[i])
	}
	k.Tile, k.BlockCounts = tile, counts
	k.Blocks = grid(product(counts))
	k.Steps = []string{"allocate_shared", "loop", "call:prologue", "insert_shared", "sync_threads", "loop", "call:epilogue", "insert_output"}
	k.why("words of %d elements, a square buffer of side %d, %d×%d of it in use", vs, p.Side, p.Rows, p.Columns)
	if !maps {
		return
	}
	block := index.Delinear(blockX, counts)
	position := func(row, column affine.Expr) ([]affine.Expr, []affine.Constraint) {
		at := make([]affine.Expr, len(sizes))
		var bounds []affine.Constraint
		for i := range sizes {
			at[i] = block[i].Mul(num(tile[i]))
			switch i {
			case order[last]:
				at[i] = at[i].Add(row)
			case last:
				at[i] = at[i].Add(column.Mod(num(p.T1)))
			case middle:
				at[i] = at[i].Add(column.FloorDiv(num(p.T1)))
			}
			bounds = append(bounds, in(at[i], sizes[i]))
		}
		return at, append(bounds, in(row, p.Rows), in(column, p.Columns))
	}
	row, column := sym(0).Mul(num(4)).Add(thread.FloorDiv(num(32))), thread.Mod(num(32)).Mul(num(vs)).Add(sym(1))
	read, bounds := position(row, column)
	k.add("thread_to_input", threadMap(128, k.Blocks, []int{p.Side / 4, vs}, index.Delinear(index.Linear(read, sizes), dims), bounds...), dims)
	swizzled := func(row, column affine.Expr) []affine.Expr {
		return []affine.Expr{row, column.Add(row.FloorDiv(num(vs)).Mul(num(vs))).Mod(num(p.Side))}
	}
	k.add("shared_write", threadMap(128, k.Blocks, []int{p.Side / 4, vs}, swizzled(row, column), bounds...), nil)
	row2, column2 := thread.Mod(num(32)).Mul(num(vs)).Add(sym(2)), sym(0).Mul(num(4)).Add(thread.FloorDiv(num(32))).Mul(num(vs)).Add(sym(1))
	write, bounds := position(row2, column2)
	symbols := []int{p.Side / vs / 4, vs, vs}
	k.add("shared_read", threadMap(128, k.Blocks, symbols, swizzled(row2, column2), bounds...), nil)
	k.add("thread_to_output", threadMap(128, k.Blocks, symbols, outputPosition(write, sizes, order, dims, perm), bounds...), permuted(dims, perm))
}

// Decision says whether a loop that reads or writes consecutive elements becomes one
// vector access, and the index of its first element.
type Decision struct {
	Vectorised bool
	Base       affine.Expr
	Why        string
}

// Vectorise decides for a map to the offset in a tensor with elements of that many bits;
// its last range variable counts the loop.
func Vectorise(m affine.Map, bits int, complexElement bool, elements, trip int) Decision {
	no := func(format string, args ...any) Decision { return Decision{Why: fmt.Sprintf(format, args...)} }
	if m.Undefined() || m.KnownEmpty() || len(m.Results) != 1 || len(m.Ranges) == 0 {
		return no("there is no loop or no single index")
	}
	s := m.Ranges[len(m.Ranges)-1]
	switch {
	case !slices.Contains([]int{2, 4, 8, 16, 32}, trip):
		return no("%d turns are no vector", trip)
	case s.Range.Lo != 0:
		return no("the loop starts at %d", s.Range.Lo)
	case complexElement:
		return no("complex elements")
	case trip*bits > 256:
		return no("%d bits are more than 256", trip*bits)
	case elements%trip != 0:
		return no("%d elements are no multiple of %d", elements, trip)
	}
	m, _ = m.Simplify(false)
	if m.KnownEmpty() {
		return no("the loop is empty")
	}
	base := m.Results[0].Sub(affine.Var(s.Name))
	if slices.Contains(base.Vars(), s.Name) {
		return no("the index does not move by one")
	}
	if g := base.Divisor(nil); g != 0 && g%int64(trip) != 0 {
		return no("the base %s is not a multiple of %d", base, trip)
	}
	return Decision{Vectorised: true, Base: base}
}
