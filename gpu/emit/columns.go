package emit

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// columns reduces a dimension that others follow: tx threads stand side by side over the
// columns, with vectors, ty below each other. Where columns are too few to fill the device,
// blocks share the rows, and the last one of a stripe combines what the others left.
func (b *builder) columns() bool {
	forms := b.forms(false)
	if len(forms) == 0 || len(forms) > plan.MaxReduceOutputs {
		return false
	}
	s := forms[0]
	in0 := s.hero.Operands[0].Shape
	side := map[int]bool{} // results of as many elements as are read
	for i, r := range b.roots {
		switch r.Shape.Elements() {
		case s.a * s.c:
		case in0.Elements():
			side[i] = true
		default:
			return false
		}
	}
	v := b.vector(s.c)
	nv := s.c / v
	tx := min(b.p.tune.Across, powerOfTwo(nv))
	// Eight rows for each thread, as far as there are as many.
	ty := max(1, min(256/tx, powerOfTwo(ceilDiv(s.b, b.p.tune.Rows))))
	if tx*ty < 32 {
		ty = 32 / tx
	}
	if tx*ty > 32 && s.a*ceilDiv(nv, tx) >= 8*b.d.SMs && s.b <= 512 && tx < 32 {
		ty = 32 / tx // a warp for each: no shared memory
	}
	ta := 1
	if tx*ty == 32 {
		ta = 8
	}
	stripes := ceilDiv(nv, tx)
	majors := ceilDiv(s.a, ta)
	parts := 1
	if ta == 1 {
		parts = max(1, min(b.shares(majors*stripes, s.b, ty), s.b/(b.p.tune.Rows*ty)))
	}
	b.f.Threads = tx * ty * ta
	b.f.Blocks = [3]int{stripes * majors, parts, 1}
	ix, iy := threadX.Mod(num(tx)), threadX.FloorDiv(num(tx)).Mod(num(ty))
	major := blockX.FloorDiv(num(stripes)).MulConst(int64(ta)).Add(threadX.FloorDiv(num(tx * ty)))
	stripe := blockX.Mod(num(stripes))
	col := stripe.MulConst(int64(tx)).Add(ix) // of vectors
	base := []affine.Constraint{in(major, s.a), in(col, nv)}
	column := col.MulConst(int64(v)).Add(affine.Var(lane))
	turns := ceilDiv(s.b, parts*ty)
	group := b.p.tune.Group
	if v == 8 && stripes*majors*parts >= 7*b.d.SMs { // enough is under way, and each turn is much code
		group = min(group, 2)
	}
	rowOf := func(turn affine.Expr) affine.Expr { // blocks take turns
		return turn.MulConst(int64(parts)).Add(blockY).MulConst(int64(ty)).Add(iy)
	}
	guard := func(turn affine.Expr) []affine.Constraint { return append(slices.Clone(base), in(rowOf(turn), s.b)) }
	var mine [][]*Value
	for k, f := range forms {
		mine = append(mine, b.partials(turnsOf{f.hero, v, turns, group, turns <= group, guard, func(turn affine.Expr, into, id []*Value) {
			at, where := f.element(major, rowOf(turn), column), guard(turn)
			b.readOperands(f.hero, at, where, base, into, id)
			for i := range b.roots {
				if k == 0 && side[i] {
					b.give(i, b.roots[i], as(in0, b.roots[i].Shape, at), where, v)
				}
			}
		}}))
	}
	k := &columnKernel{b, s, v, nv, tx, ty, ta, major, stripe, side}
	if parts == 1 {
		k.finish(forms, func(i int) columnSums { return k.total(forms[i].hero, mine[i]) })
		return true
	}
	ticket := b.workspace("ticket", hlo.Array(hlo.U32, s.a, stripes), true)
	left := make([][]*Tensor, len(forms))
	var block columnSums
	partial := 0
	for i, f := range forms {
		block = k.total(f.hero, mine[i])
		for _, v := range block.v {
			t := b.workspace("partial"+num(partial).String(), hlo.Array(v.Type, parts, s.a, s.c), false)
			b.add(&Step{Op: Insert, In: []*Value{v}, On: t, Index: []affine.Expr{blockY, major, block.at}, Where: block.mine()})
			left[i] = append(left[i], t)
			partial++
		}
	}
	last := &Step{Op: LastBlock, On: ticket, Index: []affine.Expr{major, stripe}, Trips: parts}
	outer := b.f.Body
	b.f.Body = nil
	// from reads what a part has left of columns.
	from := func(i int, part, column affine.Expr, where []affine.Constraint, into, id []*Value) {
		for j, t := range left[i] {
			step := &Step{Op: Extract, Out: into[j : j+1], On: t, Index: []affine.Expr{part, major, column}, Where: where, Open: base}
			if id != nil {
				step.In = id[j : j+1]
			}
			b.add(step)
		}
	}
	k.finish(forms, func(i int) columnSums {
		r := forms[i].hero
		if parts <= 2*ty { // a thread takes all parts of its columns
			sum := block
			sum.v = nil
			for p := range parts {
				x := b.values(r, block.v[0].N)
				from(i, num(p), block.at, block.there, x, nil)
				sum.v = b.combined(r, sum.v, x)
			}
			return sum
		}
		turns := ceilDiv(parts, ty)
		partOf := func(turn affine.Expr) affine.Expr { return turn.MulConst(int64(ty)).Add(iy) }
		guard := func(turn affine.Expr) []affine.Constraint { return append(slices.Clone(base), in(partOf(turn), parts)) }
		return k.total(r, b.partials(turnsOf{r, v, turns, b.p.tune.Group, turns <= b.p.tune.Group, guard, func(turn affine.Expr, into, id []*Value) {
			from(i, partOf(turn), column, guard(turn), into, id)
		}}))
	})
	last.Body, b.f.Body = b.f.Body, append(outer, last)
	return true
}

type columnKernel struct {
	b             *builder
	s             form
	v, nv         int
	tx, ty, ta    int
	major, stripe affine.Expr
	side          map[int]bool
}

// columnSums are what columns add up to, in some threads.
type columnSums struct {
	v     []*Value
	at    affine.Expr
	there []affine.Constraint // where there is a column
	one   []affine.Constraint // where no other thread has it too
}

// mine is where a thread writes.
func (c columnSums) mine() []affine.Constraint { return append(slices.Clone(c.there), c.one...) }

// total combines what the ty threads of each column have.
func (k *columnKernel) total(r *hlo.Instruction, acc []*Value) columnSums {
	b := k.b
	ix := threadX.Mod(num(k.tx))
	if k.ty > 1 && k.tx < 32 {
		out := b.values(r, acc[0].N)
		b.add(&Step{Op: ShuffleReduce, Out: out, In: acc, Of: r, From: 16, Trips: k.tx})
		acc = out
	}
	width := k.tx * k.v
	if k.tx*k.ty > 32 && k.ty > 1 {
		per := max(32, k.tx) // threads that have a row of the tile
		warps := k.tx * k.ty / per
		where := []affine.Constraint{{Expr: threadX.Mod(num(per)).FloorDiv(num(k.tx))}}
		var tiles []*Tensor
		for _, v := range acc {
			tile := b.tile(r, v.Type, warps, width)
			b.add(&Step{Op: Insert, In: []*Value{v}, On: tile, Index: []affine.Expr{threadX.FloorDiv(num(per)), ix.MulConst(int64(k.v)).Add(affine.Var(lane))}, Where: where})
			tiles = append(tiles, tile)
		}
		b.add(&Step{Op: Sync})
		// Threads for which there is no column read one that another has: cheaper than a guard
		// for each read.
		n := max(1, width/b.f.Threads) // columns of a thread
		first := threadX.Mod(num(width / n)).MulConst(int64(n))
		one := []affine.Constraint{{Expr: threadX.FloorDiv(num(width / n))}}
		if n > 1 {
			first = first.Add(affine.Var(lane))
		}
		// Where there are threads enough, two neighbours share a column: less code than for one
		// thread to read all of it.
		half := num(0)
		shared := n == 1 && warps%2 == 0 && warps > 4 && b.f.Threads >= 2*width
		if shared {
			warps /= 2
			first, half = threadX.FloorDiv(num(2)).Mod(num(width)), threadX.Mod(num(2))
			one = []affine.Constraint{{Expr: half}, in(threadX, 2*width)}
		}
		var sum []*Value
		for w := range warps {
			x := b.values(r, n)
			for i, tile := range tiles {
				b.add(&Step{Op: Extract, Out: x[i : i+1], On: tile, Index: []affine.Expr{half.MulConst(int64(warps)).AddConst(int64(w)), first}})
			}
			sum = b.combined(r, sum, x)
		}
		if shared {
			x := b.values(r, n)
			b.add(&Step{Op: ShuffleReduce, Out: x, In: sum, Of: r, From: 1, Trips: 1})
			sum = x
		}
		at := k.stripe.MulConst(int64(width)).Add(first)
		return columnSums{sum, at, []affine.Constraint{in(at, k.s.c)}, one}
	}
	vec := k.stripe.MulConst(int64(k.tx)).Add(ix)
	return columnSums{acc, vec.MulConst(int64(k.v)).Add(affine.Var(lane)), []affine.Constraint{in(k.major, k.s.a), in(vec, k.nv)},
		[]affine.Constraint{{Expr: threadX.FloorDiv(num(k.tx)).Mod(num(k.ty))}}}
}

// finish makes the results of what each reduction has found.
func (k *columnKernel) finish(forms []form, found func(i int) columnSums) {
	b := k.b
	var c columnSums
	for i, f := range forms {
		c = found(i)
		c.v = b.begun(f.hero, c.v)
		b.add(&Step{Op: Inject, In: c.v, Of: f.hero, Index: f.result(k.major, num(0), c.at)})
	}
	for i, r := range b.roots {
		if !k.side[i] {
			b.give(i, r, b.resultOf(r, forms, k.major, num(0), c.at), c.mine(), c.v[0].N)
		}
	}
}
