package emit

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// turned is a transpose in normal form: groups of dimensions of the operand that stay
// together, and the order in which the result has them.
type turned struct {
	groups [][]int // sizes of the dimensions of each group of the operand
	sizes  []int
	order  []int // order[i] is the group of the operand that is number i in the result
}

func turnedOf(in *hlo.Instruction) (t turned, ok bool) {
	o := in.Operands[0].Shape
	if in.Op != hlo.Transpose || !o.RowMajor() || !in.Shape.RowMajor() {
		return t, false
	}
	n := len(o.Dims)
	starts := make([]bool, n) // a dimension of the operand that begins a group
	for i, d := range in.Dims {
		if i == 0 || d != in.Dims[i-1]+1 {
			starts[d] = true
		}
	}
	group := make([]int, n)
	for d := range n {
		if d == 0 || starts[d] {
			t.groups = append(t.groups, nil)
			t.sizes = append(t.sizes, 1)
		}
		k := len(t.groups) - 1
		group[d] = k
		t.groups[k] = append(t.groups[k], o.Dims[d])
		t.sizes[k] *= o.Dims[d]
	}
	for i, d := range in.Dims {
		if i == 0 || group[d] != group[in.Dims[i-1]] {
			t.order = append(t.order, group[d])
		}
	}
	return t, true
}

// operand is the index of the operand by that of the groups.
func (t turned) operand(at []affine.Expr) (idx []affine.Expr) {
	for k, x := range at {
		idx = append(idx, index.Delinear(x, t.groups[k])...)
	}
	return idx
}

// result is the index of the result by that of the groups.
func (t turned) result(at []affine.Expr) (idx []affine.Expr) {
	for _, k := range t.order {
		idx = append(idx, index.Delinear(at[k], t.groups[k])...)
	}
	return idx
}

// transpose moves tiles through shared memory: read along the rows of the operand, written
// along the rows of the result, each with vectors. Elements of less than 32 bits stand in
// the tile in words that hold as many rows as fit, so that no bank is met more than twice.
func (b *builder) transpose() bool {
	heroes := b.k.Plan.Heroes
	t, ok := turnedOf(heroes[0])
	if !ok || len(t.order) < 2 || t.order[len(t.order)-1] == len(t.order)-1 {
		return false
	}
	for _, h := range heroes {
		if !slices.Equal(h.Dims, heroes[0].Dims) || !slices.Equal(h.Shape.Dims, heroes[0].Shape.Dims) || h.Shape.Type.Bits() < 8 || h.Shape.Type.Elem() == 0 {
			return false
		}
	}
	for _, r := range b.roots {
		if !slices.Equal(r.Shape.Dims, heroes[0].Shape.Dims) || !r.Shape.RowMajor() {
			return false
		}
	}
	bits := 64
	for _, h := range heroes {
		bits = min(bits, h.Shape.Type.Bits())
	}
	y, x := len(t.sizes)-1, t.order[len(t.order)-1] // minor in the operand, and in the result
	width := func(n int) int {
		v := 128 / bits
		for v > 1 && n%v != 0 {
			v /= 2
		}
		return min(v, 8)
	}
	vy, vx := width(t.sizes[y]), width(t.sizes[x])
	if (vx*bits < 64 || vy*bits < 64) && b.skewed(t, heroes, x, y) {
		return true
	}
	zip := max(1, 32/bits)
	side, threads := b.p.tune.Tile, b.p.tune.Turners
	if side == 0 {
		if side = 64; bits <= 16 && t.sizes[x] >= 128 && t.sizes[y] >= 128 {
			side = 128
		}
	}
	if threads == 0 {
		if threads = 512; side == 128 {
			threads = 1024
		}
	}
	tx, ty := side, side
	for threads > 32 && (threads*vy*zip > tx*ty || threads*vx > tx*ty) { // each has something to do
		threads /= 2
	}
	b.f.Threads = threads
	// Blocks that follow each other read rows that follow each other.
	counts := slices.Clone(t.sizes)
	counts[x], counts[y] = ceilDiv(t.sizes[x], tx), ceilDiv(t.sizes[y], ty)
	b.f.Blocks = [3]int{product(counts), 1, 1}
	block := index.Delinear(blockX, counts)
	at := func(inX, inY affine.Expr) []affine.Expr {
		out := slices.Clone(block)
		out[x] = block[x].MulConst(int64(tx)).Add(inX)
		out[y] = block[y].MulConst(int64(ty)).Add(inY)
		return out
	}
	where := func(g []affine.Expr) []affine.Constraint {
		return []affine.Constraint{in(g[x], t.sizes[x]), in(g[y], t.sizes[y])}
	}
	var tiles []*Tensor
	for _, h := range heroes {
		b.tiles++
		tile := &Tensor{Name: "tile" + num(b.tiles).String(), Shape: hlo.Array(h.Shape.Type, ty, tx), Shared: true}
		// One more word in each row.
		tile.Stride = []int{tx + max(1, 32/h.Shape.Type.Bits()), 1}
		b.add(&Step{Op: Alloc, On: tile})
		tiles = append(tiles, tile)
	}
	across := ty / vy
	perTurn := threads / across * zip
	type loaded struct {
		v  []*Value
		at []affine.Expr
	}
	var all []loaded
	for turn := range ceilDiv(tx, perTurn) {
		for _, h := range heroes {
			l := loaded{}
			for z := range zip {
				inX := threadX.FloorDiv(num(across)).MulConst(int64(zip)).AddConst(int64(turn*perTurn + z))
				inY := threadX.Mod(num(across)).MulConst(int64(vy)).Add(affine.Var(lane))
				g := at(inX, inY)
				v := b.f.Value(h.Operands[0].Shape.Type, vy)
				b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: h.Operands[0], Index: t.operand(g), Where: where(g)})
				l.v = append(l.v, v)
				if z == 0 {
					l.at = []affine.Expr{threadX.Mod(num(across)).MulConst(int64(vy)), inX}
				}
			}
			all = append(all, l)
		}
	}
	for k, l := range all {
		tile := tiles[k%len(heroes)]
		for j := range vy {
			v := b.f.Value(tile.Shape.Type, zip)
			b.add(&Step{Op: Zip, Out: []*Value{v}, In: l.v, From: j})
			inX := l.at[1]
			if zip > 1 {
				inX = inX.Add(affine.Var(lane))
			}
			b.add(&Step{Op: Insert, In: []*Value{v}, On: tile, Index: []affine.Expr{l.at[0].AddConst(int64(j)), inX}})
		}
	}
	b.add(&Step{Op: Sync})
	across = tx / vx
	perTurn = threads / across
	for turn := range ceilDiv(ty, perTurn) {
		inX := threadX.Mod(num(across)).MulConst(int64(vx)).Add(affine.Var(lane))
		inY := threadX.FloorDiv(num(across)).AddConst(int64(turn * perTurn))
		g := at(inX, inY)
		idx := t.result(g)
		for i, h := range heroes {
			v := b.f.Value(h.Shape.Type, vx)
			b.add(&Step{Op: Extract, Out: []*Value{v}, On: tiles[i], Index: []affine.Expr{inY, inX}})
			b.add(&Step{Op: Inject, In: []*Value{v}, Of: h, Index: idx})
		}
		for i, r := range b.roots {
			b.give(i, r, idx, where(g), vx)
		}
	}
	return true
}
