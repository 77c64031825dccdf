package emit

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// places says whether an element of an instruction needs only those of parameters at the
// same place in memory, so that what stands beside a row may be read along with it.
func places(in *hlo.Instruction, dims []int) bool {
	if len(in.Shape.Dims) == 0 {
		return in.Op == hlo.Constant || in.Op == hlo.Parameter
	}
	switch {
	case !slices.Equal(in.Shape.Dims, dims) || !in.Shape.RowMajor():
		return false
	case in.Op == hlo.Parameter:
		return true
	case in.Op == hlo.Broadcast && len(in.Operands[0].Shape.Dims) == 0, in.Op.Elementwise():
		return !slices.ContainsFunc(in.Operands, func(o *hlo.Instruction) bool { return !places(o, dims) })
	}
	return false
}

// skewed moves tiles of a transpose whose rows begin anywhere, with vectors all the same: a
// row of a tile is read from the last multiple of a vector before it to the first after it,
// and written from the first multiple in it to the first in the next tile, which is why a
// tile has some rows of the next one. What is left over at the ends of the result's rows is
// written one by one.
func (b *builder) skewed(t turned, heroes []*hlo.Instruction, x, y int) bool {
	bits := heroes[0].Shape.Type.Bits()
	if bits != 16 && bits != 32 || heroes[0].Shape.Type.Elem() == 0 || len(t.groups[x]) != 1 || len(t.groups[y]) != 1 {
		return false
	}
	for _, h := range heroes {
		if h.Shape.Type.Bits() != bits || !places(h.Operands[0], h.Operands[0].Shape.Dims) {
			return false
		}
	}
	v := 128 / bits
	// Turns at a time: all where they are few, so that all reads are on their way together.
	side, threads, rolledIn, rolledOut := 64, 512, 0, 0
	if bits == 16 {
		side, rolledIn, rolledOut = 128, 2, 1
	}
	if b.p.tune.Tile > 0 {
		side = b.p.tune.Tile
	}
	if b.p.tune.Turners > 0 {
		threads = b.p.tune.Turners
	}
	if b.p.tune.RolledIn > 0 {
		rolledIn = b.p.tune.RolledIn
	}
	if b.p.tune.RolledOut > 0 {
		rolledOut = b.p.tune.RolledOut
	}
	if t.sizes[x] < 2*side || t.sizes[y] < 2*side || threads%(side/v) != 0 || threads < side {
		return false
	}
	rows, width := side+v-1, side+2*v-1 // of the operand, and places across a tile
	if len(heroes)*width*(rows+2)*bits/8 > b.d.SharedBytes {
		return false
	}
	b.f.Threads = threads
	counts := slices.Clone(t.sizes)
	counts[x], counts[y] = ceilDiv(t.sizes[x], side), ceilDiv(t.sizes[y], side)
	b.f.Blocks = [3]int{product(counts), 1, 1}
	block := index.Delinear(blockX, counts)
	for i, e := range block {
		block[i] = b.let(e)
	}
	at := func(atX, atY affine.Expr) []affine.Expr {
		out := slices.Clone(block)
		out[x], out[y] = atX, atY
		return out
	}
	ofResult := func(sizes []affine.Expr) []affine.Expr { // groups in the order of the result
		var out []affine.Expr
		for _, k := range t.order {
			out = append(out, sizes[k])
		}
		return out
	}
	var turnedSizes []int
	for _, k := range t.order {
		turnedSizes = append(turnedSizes, t.sizes[k])
	}
	x0, y0 := block[x].MulConst(int64(side)), block[y].MulConst(int64(side))
	vw := num(v)
	// places are the vector that an element of a turn lies in, and where in it. Where turns are
	// multiples of v rows apart, all begin alike and lie a constant apart.
	places := func(e func(turn affine.Expr) affine.Expr, rows int) func(turn affine.Expr) (vector, within affine.Expr) {
		if rows%v != 0 {
			return func(turn affine.Expr) (vector, within affine.Expr) {
				return b.let(e(turn).FloorDiv(vw)), b.let(e(turn).Mod(vw))
			}
		}
		first := e(num(0))
		vector, within := b.let(first.FloorDiv(vw)), b.let(first.Mod(vw))
		return func(turn affine.Expr) (affine.Expr, affine.Expr) {
			return vector.Add(e(turn).Sub(first).FloorDiv(vw)), within
		}
	}

	var tiles []*Tensor
	for _, h := range heroes {
		b.tiles++
		stride := rows | 1
		if bits == 16 { // an odd number of words
			stride = (rows+1)/2*2 + 2
			if stride/2%2 == 0 {
				stride += 2
			}
		}
		tile := &Tensor{Name: "tile" + num(b.tiles).String(), Shape: hlo.Array(h.Shape.Type, width, rows), Shared: true, Stride: []int{stride, 1}}
		b.add(&Step{Op: Alloc, On: tile})
		tiles = append(tiles, tile)
	}
	across := side/v + 1
	type loaded struct {
		tile  *Tensor
		v     *Value
		q, in affine.Expr
		where []affine.Constraint
	}
	perTurn := max(1, threads/across/v*v)
	inX := func(turn affine.Expr) affine.Expr {
		return threadX.FloorDiv(num(across)).Add(turn.MulConst(int64(perTurn)))
	}
	start := func(turn affine.Expr) affine.Expr { // of the operand's row
		return index.Linear(at(x0.Add(inX(turn)), num(0)), t.sizes)
	}
	var placeOf func(turn affine.Expr) (vector, within affine.Expr)
	read := func(turns []affine.Expr) {
		var all []loaded
		for _, turn := range turns {
			inX, k := inX(turn), threadX.Mod(num(across))
			vector, within := placeOf(turn)
			first := vector.Add(k).MulConst(int64(v))
			column := first.Sub(start(turn))
			where := []affine.Constraint{in(inX, rows), in(first, product(t.sizes))} // rows behind the last one lie behind the end
			for i, h := range heroes {
				val := b.f.Value(h.Operands[0].Shape.Type, v)
				b.add(&Step{Op: PureCall, Out: []*Value{val}, Of: h.Operands[0], Index: t.operand(at(x0.Add(inX), column.Add(affine.Var(lane)))), Where: where})
				all = append(all, loaded{tiles[i], val, k.MulConst(int64(v)).AddConst(int64(v - 1)).Sub(within), inX, where[:1]})
			}
		}
		for _, l := range all {
			for j := range v {
				one := b.f.Value(l.tile.Shape.Type, 1)
				b.add(&Step{Op: Zip, Out: []*Value{one}, In: []*Value{l.v}, From: j})
				b.add(&Step{Op: Insert, In: []*Value{one}, On: l.tile, Index: []affine.Expr{l.q.AddConst(int64(j)), l.in}, Where: l.where})
			}
		}
	}
	b.where([]affine.Constraint{in(threadX, perTurn*across)}, func() {
		placeOf = places(func(turn affine.Expr) affine.Expr { return start(turn).Add(y0) }, perTurn)
		b.grouped(ceilDiv(rows, perTurn), rolledIn, read)
	})
	b.add(&Step{Op: Sync})

	// give writes n elements of place p of the tile's rows, which is place to in a row of the
	// result, where the tile has them.
	give := func(inY, p, to affine.Expr, n int, has, where []affine.Constraint) {
		if n > 1 {
			p, to = p.Add(affine.Var(lane)), to.Add(affine.Var(lane))
		}
		idx := t.result(at(to, y0.Add(inY)))
		for i, h := range heroes {
			val := b.f.Value(h.Shape.Type, n)
			b.add(&Step{Op: Extract, Out: []*Value{val}, On: tiles[i], Index: []affine.Expr{inY.AddConst(int64(v - 1)), p}, Where: has})
			b.add(&Step{Op: Inject, In: []*Value{val}, Of: h, Index: idx})
		}
		for i, r := range b.roots {
			b.give(i, r, idx, where, n)
		}
	}
	// row is the first element of a row of the result.
	row := func(inY affine.Expr) affine.Expr {
		return index.Linear(ofResult(at(num(0), y0.Add(inY))), turnedSizes)
	}
	across = side / v
	down := threads / across // rows of a turn
	inY := func(turn affine.Expr) affine.Expr {
		return threadX.FloorDiv(num(across)).Add(turn.MulConst(int64(down)))
	}
	placeOf = places(func(turn affine.Expr) affine.Expr { return row(inY(turn)).Add(x0).AddConst(int64(v - 1)) }, down)
	b.grouped(ceilDiv(side*across, threads), rolledOut, func(turns []affine.Expr) {
		for _, turn := range turns {
			inY := inY(turn)
			vector, within := placeOf(turn)
			skip := num(v - 1).Sub(within) // to the first multiple of a vector in the tile
			k := threadX.Mod(num(across))
			p := k.MulConst(int64(v)).Add(skip)
			inside := []affine.Constraint{in(inY, side), in(y0.Add(inY), t.sizes[y])}
			give(inY, p, vector.Add(k).MulConst(int64(v)).Sub(row(inY)), v, inside[:1], append(slices.Clone(inside), in(x0.Add(p), t.sizes[x]-v+1)))
		}
	})
	// What no vector of a row has, v threads for each row: at its beginning in the first tile,
	// at its end in the tile that has the place behind the row's last vector.
	later := b.let(block[x].Min(num(1)))
	down = threads / v
	inY = func(turn affine.Expr) affine.Expr {
		return threadX.FloorDiv(vw).Add(turn.MulConst(int64(down)))
	}
	begin := places(func(turn affine.Expr) affine.Expr { return row(inY(turn)).AddConst(int64(v - 1)) }, down)
	placeOf = places(func(turn affine.Expr) affine.Expr { return row(inY(turn)).Add(later.MulConst(int64(t.sizes[x]))) }, down)
	b.grouped(ceilDiv(side*v, threads), 1, func(turns []affine.Expr) {
		inY := inY(turns[0])
		_, before := begin(turns[0])
		_, within := placeOf(turns[0])
		skip := num(v - 1).Sub(before)
		to := later.MulConst(int64(t.sizes[x])).Add(threadX.Mod(vw)).Sub(within)
		// How far the vector that the row begins or ends in lies before the first that is no
		// longer written from this tile: v in the first one, unless the row begins with a vector.
		short := later.MulConst(int64(t.sizes[x] - side)).Sub(x0).Sub(within).Sub(skip)
		b.where([]affine.Constraint{in(inY, side), in(y0.Add(inY), t.sizes[y]), {Expr: short, Range: affine.Range{Lo: int64(-side), Hi: -1}}, in(to, t.sizes[x])}, func() {
			give(inY, to.Sub(x0), to, 1, nil, nil)
		})
	})
	return true
}

// let names an expression, so that what is made of it stays small.
func (b *builder) let(e affine.Expr) affine.Expr {
	if _, ok := e.Const(); ok {
		return e
	}
	s := b.add(&Step{Op: Let, Var: b.variable(), Index: []affine.Expr{e}})
	return affine.Var(s.Var)
}

// where adds steps that are taken where constraints hold.
func (b *builder) where(c []affine.Constraint, steps func()) {
	s := &Step{Op: If, Where: c}
	outer := b.f.Body
	b.f.Body = nil
	steps()
	s.Body, b.f.Body = b.f.Body, append(outer, s)
}

// grouped adds the steps of turns, size of them in each turn of a loop.
func (b *builder) grouped(turns, size int, steps func(turns []affine.Expr)) {
	if size == 0 {
		size = turns
	}
	group := func(i affine.Expr) {
		var list []affine.Expr
		for k := range size {
			list = append(list, i.MulConst(int64(size)).AddConst(int64(k)))
		}
		steps(list)
	}
	if n := ceilDiv(turns, size); n > 1 {
		b.repeat(n, group)
	} else {
		size = turns
		group(num(0))
	}
}

// repeat adds steps that are taken n times.
func (b *builder) repeat(n int, steps func(i affine.Expr)) {
	s := &Step{Op: Loop, Var: b.variable(), Trips: n}
	outer := b.f.Body
	b.f.Body = nil
	steps(affine.Var(s.Var))
	s.Body, b.f.Body = b.f.Body, append(outer, s)
}
