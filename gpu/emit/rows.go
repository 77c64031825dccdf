package emit

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// minReduce is the fewest elements that threads reduce together.
const minReduce = 8

// shape3 is a reduction as [a, b, c] with b reduced: the kept dimensions before, the reduced
// ones, and the kept ones after.
type shape3 struct {
	a, b, c          int
	before, mid, end []int // sizes of the dimensions
}

// shapeOf takes a reduction of neighbouring dimensions of a row-major tensor apart.
func shapeOf(in *hlo.Instruction) (s shape3, ok bool) {
	o := in.Operands[0].Shape
	if !o.RowMajor() || !in.Shape.RowMajor() || in.Shape.IsTuple() {
		return s, false
	}
	dims := slices.Sorted(slices.Values(in.Dims))
	if len(dims) == 0 || dims[len(dims)-1]-dims[0] != len(dims)-1 {
		return s, false
	}
	s.before, s.mid, s.end = o.Dims[:dims[0]], o.Dims[dims[0]:dims[len(dims)-1]+1], o.Dims[dims[len(dims)-1]+1:]
	s.a, s.b, s.c = product(s.before), product(s.mid), product(s.end)
	return s, true
}

func product(v []int) int {
	n := 1
	for _, x := range v {
		n *= x
	}
	return n
}

// rowPlan is a kernel whose results all belong to rows: whole rows, or one element of each.
type rowPlan struct {
	reduces []*hlo.Instruction // operands before users
	s       shape3             // with c = 1
}

// reductions are the reductions that threads share, operands before users.
func reductions(roots []*hlo.Instruction) (list []*hlo.Instruction) {
	seen := map[*hlo.Instruction]bool{}
	var visit func(in *hlo.Instruction)
	visit = func(in *hlo.Instruction) {
		if seen[in] {
			return
		}
		seen[in] = true
		for _, o := range in.Operands {
			visit(o)
		}
		if in.Op == hlo.Reduce {
			list = append(list, in)
		}
	}
	for _, r := range roots {
		visit(r)
	}
	return slices.DeleteFunc(list, func(in *hlo.Instruction) bool {
		s, ok := shapeOf(in)
		return ok && s.b < minReduce
	})
}

// rowsOf plans results that one pass over rows gives, or nil: reductions of equal rows and
// what is computed of them and of the elements of the same row.
func rowsOf(roots []*hlo.Instruction, d plan.Device) *rowPlan {
	p := &rowPlan{reduces: reductions(roots)}
	if len(p.reduces) == 0 {
		return nil
	}
	for i, in := range p.reduces {
		s, ok := shapeOf(in)
		if _, known := identity(in); !ok || !known || s.c != 1 || s.a*s.b == 0 {
			return nil
		}
		if i > 0 && (s.a != p.s.a || s.b != p.s.b) {
			return nil
		}
		p.s = s
	}
	for _, r := range roots {
		n := r.Shape.Elements()
		if !r.Shape.RowMajor() || n != p.s.a && n != p.s.a*p.s.b || r.Op == hlo.Scatter {
			return nil
		}
	}
	return p
}

// vector is how many neighbouring elements of n a thread reads at once: 16 bytes of the
// narrowest large tensor.
func (b *builder) vector(n int) int {
	bits := 64
	for _, p := range b.c.Params {
		if p.Shape.Elements() >= n {
			bits = min(bits, max(8, p.Shape.Type.Bits()))
		}
	}
	v := min(8, 128/bits)
	for v > 1 && n%v != 0 {
		v /= 2
	}
	return v
}

// at is the index of a result of as many elements as there are rows, or elements of rows.
func at(shape hlo.Shape, s shape3, row affine.Expr, place *affine.Expr) []affine.Expr {
	dims := s.before
	idx := index.Delinear(row, s.before)
	if place != nil {
		dims = append(slices.Clone(dims), s.mid...)
		idx = append(idx, index.Delinear(*place, s.mid)...)
	}
	if slices.Equal(dims, shape.Dims) {
		return idx
	}
	return follow(index.Reshaped(dims, shape.Dims), idx)
}

// rows reduces rows by threads of a warp or by several warps, and computes what follows
// from elements that are still in registers.
func (b *builder) rows(p *rowPlan) {
	rows, c := p.s.a, p.s.b
	full := slices.ContainsFunc(b.roots, func(r *hlo.Instruction) bool { return r.Shape.Elements() != rows })
	v := b.vector(c)
	nv := c / v
	if len(p.reduces) == 1 && !full && rows < 2*b.d.SMs && nv >= 2048 {
		b.splitRows(p, v)
		return
	}
	tr := powerOfTwo(nv)
	if nv > 32 {
		tr = max(32, powerOfTwo(ceilDiv(nv, 4)))
	}
	tr = min(tr, 1024)
	turns := ceilDiv(nv, tr)
	b.f.Threads = max(tr, 256)
	if rows*tr < b.f.Threads {
		b.f.Threads = max(tr, (rows*tr+31)/32*32)
	}
	tk := b.f.Threads / tr
	b.f.Blocks = [3]int{ceilDiv(rows, tk), 1, 1}
	row := blockX.MulConst(int64(tk)).Add(threadX.FloorDiv(num(tr)))
	inRows := []affine.Constraint{in(row, rows)}
	if rows == 1 {
		row, inRows = num(0), []affine.Constraint{in(threadX, tr)}
	}
	for _, r := range p.reduces {
		acc := b.partial(r, v, turns, turns*v <= 64, func(turn affine.Expr) ([]affine.Expr, []affine.Constraint) {
			vec := turn.MulConst(int64(tr)).Add(threadX.Mod(num(tr)))
			place := vec.MulConst(int64(v)).Add(affine.Var(lane))
			return at(r.Operands[0].Shape, p.s, row, &place), append(slices.Clone(inRows), in(vec, nv))
		})
		total := b.begun(r, b.across(r, acc, tr, tk))
		b.add(&Step{Op: Inject, In: []*Value{total}, Of: r, Index: at(r.Shape, p.s, row, nil)})
	}
	for i, r := range b.roots {
		if r.Shape.Elements() == rows && (rows > 1 || r.Shape.Elements() != rows*c) {
			idx := at(r.Shape, p.s, row, nil)
			where := append(slices.Clone(inRows), affine.Constraint{Expr: threadX.Mod(num(tr))})
			b.give(i, r, idx, where, 1)
		}
	}
	for i, r := range b.roots {
		if n := r.Shape.Elements(); n == rows && !(rows == 1 && n == c) {
			continue
		}
		loop := &Step{Op: Loop, Var: b.variable(), Trips: turns, Roll: turns*v > 64}
		vec := affine.Var(loop.Var).MulConst(int64(tr)).Add(threadX.Mod(num(tr)))
		place := vec.MulConst(int64(v)).Add(affine.Var(lane))
		where := append(slices.Clone(inRows), in(vec, nv))
		outer := b.f.Body
		b.f.Body = nil
		b.give(i, r, at(r.Shape, p.s, row, &place), where, v)
		loop.Body, b.f.Body = b.f.Body, append(outer, loop)
	}
}

func (b *builder) variable() string {
	b.vars++
	return "s" + num(b.vars).String()
}

// give computes elements of a result and writes them.
func (b *builder) give(i int, r *hlo.Instruction, idx []affine.Expr, where []affine.Constraint, n int) {
	v := b.f.value(r.Shape.Type, n)
	b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: r, Index: idx, Where: where})
	b.add(&Step{Op: Insert, In: []*Value{v}, On: b.out[i], Index: idx, Where: where})
}

// partial is what one thread combines of a reduction: turns of n elements, folded to one
// unless they are kept apart. Elements that are not there count as the identity.
func (b *builder) partials(r *hlo.Instruction, n, turns int, unroll bool, read func(turn affine.Expr, into *Value, id *Value)) *Value {
	t := r.Apply.Root.Shape.Type
	id := b.f.value(t, n)
	b.add(&Step{Op: Identity, Out: []*Value{id}, Of: r})
	group := 1
	if !unroll {
		group = 8
	}
	outer := b.f.Body
	inner := func(turn affine.Expr, acc *Value) *Value {
		x, next := b.f.value(t, n), b.f.value(t, n)
		read(turn, x, id)
		b.add(&Step{Op: Combine, Out: []*Value{next}, In: []*Value{acc, x}, Of: r})
		return next
	}
	loop := &Step{Op: Loop, Var: b.variable(), Trips: ceilDiv(turns, group), Roll: !unroll, In: []*Value{id}}
	acc := b.f.value(t, n)
	loop.Args = []*Value{acc}
	b.f.Body = nil
	if group == 1 {
		acc = inner(affine.Var(loop.Var), acc)
	} else {
		// All reads of a group come before what combines them, so that they are on their way
		// together.
		var xs []*Value
		for g := range group {
			x := b.f.value(t, n)
			read(affine.Var(loop.Var).MulConst(int64(group)).AddConst(int64(g)), x, id)
			xs = append(xs, x)
		}
		for _, x := range xs {
			next := b.f.value(t, n)
			b.add(&Step{Op: Combine, Out: []*Value{next}, In: []*Value{acc, x}, Of: r})
			acc = next
		}
	}
	loop.Body, loop.Yield = b.f.Body, []*Value{acc}
	out := b.f.value(t, n)
	loop.Out = []*Value{out}
	b.f.Body = append(outer, loop)
	return out
}

func (b *builder) partial(r *hlo.Instruction, n, turns int, unroll bool, place func(turn affine.Expr) ([]affine.Expr, []affine.Constraint)) *Value {
	acc := b.partials(r, n, turns, unroll, func(turn affine.Expr, into, id *Value) {
		idx, where := place(turn)
		b.add(&Step{Op: PureCall, Out: []*Value{into}, In: []*Value{id}, Of: r.Operands[0], Index: idx, Where: where})
	})
	return b.fold(r, acc)
}

func (b *builder) fold(r *hlo.Instruction, v *Value) *Value {
	if v.N == 1 {
		return v
	}
	out := b.f.value(v.Type, 1)
	b.add(&Step{Op: Fold, Out: []*Value{out}, In: []*Value{v}, Of: r})
	return out
}

// across combines the values of tr neighbouring threads, of which there are tk groups; all
// threads get the result, still without the initial value.
func (b *builder) across(r *hlo.Instruction, acc *Value, tr, tk int) *Value {
	if tr > 1 {
		out := b.f.value(acc.Type, 1)
		b.add(&Step{Op: ShuffleReduce, Out: []*Value{out}, In: []*Value{acc}, Of: r, From: min(tr, 32) / 2, Trips: 1})
		acc = out
	}
	if tr > 32 {
		warps := tr / 32
		tile := b.tile(r, acc.Type, tk, warps)
		group, warp := threadX.FloorDiv(num(tr)), threadX.Mod(num(tr)).FloorDiv(num(32))
		b.add(&Step{Op: Insert, In: []*Value{acc}, On: tile, Index: []affine.Expr{group, warp}, Where: []affine.Constraint{{Expr: threadX.Mod(num(32))}}})
		b.add(&Step{Op: Sync})
		all := b.f.value(acc.Type, warps)
		b.add(&Step{Op: Extract, Out: []*Value{all}, On: tile, Index: []affine.Expr{group, affine.Var(lane)}})
		acc = b.fold(r, all)
	}
	return acc
}

// begun combines the initial value of a reduction with what the elements give.
func (b *builder) begun(r *hlo.Instruction, acc *Value) *Value {
	init, out := b.f.value(acc.Type, acc.N), b.f.value(acc.Type, acc.N)
	b.add(&Step{Op: PureCall, Out: []*Value{init}, Of: r.Operands[1]})
	b.add(&Step{Op: Combine, Out: []*Value{out}, In: []*Value{init, acc}, Of: r})
	return out
}

func (b *builder) tile(r *hlo.Instruction, t hlo.Type, dims ...int) *Tensor {
	b.tiles++
	tile := &Tensor{Name: "tile" + num(b.tiles).String(), Shape: hlo.Array(t, dims...), Shared: true}
	b.add(&Step{Op: Alloc, On: tile, Of: r})
	return tile
}

// workspace is memory that blocks share.
func (b *builder) workspace(name string, s hlo.Shape, zero bool) *Tensor {
	n := b.p.buffer(Buffer{Name: b.f.Name + "." + name, Shape: s, Param: -1, From: -1, Zero: zero})
	t := &Tensor{Name: name, Shape: s, Buffer: n, Role: Update}
	b.f.Args = append(b.f.Args, t)
	b.k.Args = append(b.k.Args, n)
	return t
}

// splitRows spreads few long rows over all multiprocessors; the block of a row that comes
// last combines what the others left.
func (b *builder) splitRows(p *rowPlan, v int) {
	r := p.reduces[0]
	rows, nv := p.s.a, p.s.b/v
	const threads, group = 512, 8
	b.f.Threads = threads
	parts := min(ceilDiv(4*b.d.SMs, rows), ceilDiv(nv, threads*group))
	per := ceilDiv(nv, parts)
	turns := ceilDiv(per, threads)
	per = turns * threads
	parts = ceilDiv(nv, per)
	b.f.Blocks = [3]int{rows * parts, 1, 1}
	row, part := blockX.FloorDiv(num(parts)), blockX.Mod(num(parts))
	acc := b.partial(r, v, turns, false, func(turn affine.Expr) ([]affine.Expr, []affine.Constraint) {
		inPart := turn.MulConst(threads).Add(threadX)
		vec := part.MulConst(int64(per)).Add(inPart)
		place := vec.MulConst(int64(v)).Add(affine.Var(lane))
		return at(r.Operands[0].Shape, p.s, row, &place), []affine.Constraint{in(inPart, per), in(vec, nv)}
	})
	one := []affine.Constraint{{Expr: threadX}}
	finish := func(total *Value) {
		b.add(&Step{Op: Inject, In: []*Value{total}, Of: r, Index: at(r.Shape, p.s, row, nil)})
		for i, root := range b.roots {
			b.give(i, root, at(root.Shape, p.s, row, nil), one, 1)
		}
	}
	if parts == 1 {
		finish(b.begun(r, b.across(r, acc, threads, 1)))
		return
	}
	mine := b.across(r, acc, threads, 1)
	left := b.workspace("partial", hlo.Array(mine.Type, rows, parts), false)
	ticket := b.workspace("ticket", hlo.Array(hlo.U32, rows), true)
	b.add(&Step{Op: Insert, In: []*Value{mine}, On: left, Index: []affine.Expr{row, part}, Where: one})
	last := &Step{Op: LastBlock, On: ticket, Index: []affine.Expr{row}, Trips: parts}
	outer := b.f.Body
	b.f.Body = nil
	acc = b.partials(r, 1, ceilDiv(parts, threads), true, func(turn affine.Expr, into, id *Value) {
		at := turn.MulConst(threads).Add(threadX)
		b.add(&Step{Op: Extract, Out: []*Value{into}, In: []*Value{id}, On: left, Index: []affine.Expr{row, at}, Where: []affine.Constraint{in(at, parts)}})
	})
	finish(b.begun(r, b.across(r, acc, threads, 1)))
	last.Body, b.f.Body = b.f.Body, append(outer, last)
}
