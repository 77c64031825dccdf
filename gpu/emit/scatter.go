package emit

import (
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/emit/tensor"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// scatter combines updates into the result, which holds what they are combined into.
func (b *builder) scatter(in *hlo.Instruction) {
	b.out[0].Role = Update
	if b.sorted(in) {
		return
	}
	g, updates := in.Scatter, in.Operands[2]
	u := b.wholeBytes(updates.Shape)
	if minor := updates.Shape.MinorToMajor(); len(minor) > 0 {
		if !slices.Contains(g.UpdateWindow, minor[0]) {
			u = 1
		} else {
			for u > 1 && updates.Shape.Dims[minor[0]]%u != 0 {
				u /= 2
			}
		}
	}
	at, where := b.over(updates.Shape, u)
	starts, legal := b.starts(in, batchOf(in, at), where)
	where = append(slices.Clone(where), legal...)
	place := placeOf(in, at, starts)
	v := b.f.Value(updates.Shape.Type, u)
	b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: updates, Index: at, Where: where})
	if in.Unique {
		old, sum := b.f.Value(v.Type, u), b.f.Value(v.Type, u)
		if b.k.begins != nil { // nothing is read
			b.add(&Step{Op: PureCall, Out: []*Value{old}, Of: b.k.begins, Index: place, Where: where})
		} else {
			b.add(&Step{Op: Extract, Out: []*Value{old}, On: b.out[0], Index: place, Where: where})
		}
		b.add(&Step{Op: Combine, Out: []*Value{sum}, In: []*Value{old, v}, Of: in})
		b.add(&Step{Op: Insert, In: []*Value{sum}, On: b.out[0], Index: place, Where: where})
	} else {
		b.add(&Step{Op: AtomicRMW, In: []*Value{v}, On: b.out[0], Index: place, Where: where, Of: in})
	}
}

// batchOf is the part of an update's index that is no window's.
func batchOf(in *hlo.Instruction, at []affine.Expr) (batch []affine.Expr) {
	for i, x := range at {
		if !slices.Contains(in.Scatter.UpdateWindow, i) {
			batch = append(batch, x)
		}
	}
	return batch
}

// starts are where the windows of a batch begin in each dimension, and when that is legal.
func (b *builder) starts(in *hlo.Instruction, batch []affine.Expr, where []affine.Constraint) (starts []affine.Expr, legal []affine.Constraint) {
	for i := range in.Operands[0].Shape.Dims {
		start := num(0)
		if d := tensor.Batch(in, i); d >= 0 {
			start = batch[d]
		}
		if part := slices.Index(in.Scatter.ToOperand, i); part >= 0 {
			// One below and one above the legal starts stand for all others.
			name, n := b.variable(), tensor.Room(in, i)
			b.add(&Step{Op: Start, Var: name, Of: in.Operands[1], Index: tensor.IndexRow(in, part, batch), Where: append(slices.Clone(where), legal...), Trips: n + 1, From: -1})
			start = start.Add(affine.Var(name))
			legal = append(legal, affine.Constraint{Expr: affine.Var(name), Range: to(n)})
		}
		starts = append(starts, start)
	}
	return starts, legal
}

// placeOf is where an update goes.
func placeOf(in *hlo.Instruction, at, starts []affine.Expr) []affine.Expr {
	place := slices.Clone(starts)
	for i, k := range tensor.WindowOf(in) {
		if k >= 0 {
			place[i] = place[i].Add(at[k])
		}
	}
	return place
}

// sorted combines updates whose indices are in order: a group of threads takes a run of
// them, keeps what it has combined in registers while the index stays the same, and writes
// it, with an atomic operation since another group may have the same one, when it changes.
// The results do not depend on the order.
func (b *builder) sorted(h *hlo.Instruction) bool {
	g, updates := h.Scatter, h.Operands[2].Shape
	if _, known := tensor.IdentityOf(h); !known || b.k.Plan.Run == 0 || len(g.ToOperand) == 0 || len(g.InputBatch) > 0 || !updates.RowMajor() || updates.Type.Bits() < 8 || updates.Type == hlo.Pred {
		return false
	}
	batches := len(updates.Dims) - len(g.UpdateWindow)
	if batches == 0 || slices.ContainsFunc(g.UpdateWindow, func(d int) bool { return d < batches }) {
		return false
	}
	rows, window := product(updates.Dims[:batches]), product(updates.Dims[batches:])
	u := min(8, 128/updates.Type.Bits())
	for u > 1 && (len(g.UpdateWindow) == 0 || updates.Dims[len(updates.Dims)-1]%u != 0) {
		u /= 2
	}
	const threads, under = 128, 4 // reads of a thread that are under way
	nv := window / u
	tr := min(32, powerOfTwo(nv))
	chunks := ceilDiv(nv, tr)
	if chunks > 4 {
		return false
	}
	run := ceilDiv(b.k.Plan.Run, under) * under
	groups := threads / tr
	b.f.Threads = threads
	b.f.Blocks = [3]int{ceilDiv(rows, groups*run), 1, 1}
	first := blockX.MulConst(int64(groups)).Add(threadX.FloorDiv(num(tr))).MulConst(int64(run))
	// number is another one for each place where a window may begin.
	places := 1
	for _, d := range g.ToOperand {
		if tensor.Room(h, d)+2 > math.MaxInt32/places {
			return false
		}
		places *= tensor.Room(h, d) + 2
	}
	number := func(starts []affine.Expr) affine.Expr {
		n := num(0)
		for _, d := range g.ToOperand {
			n = n.MulConst(int64(tensor.Room(h, d) + 2)).Add(starts[d])
		}
		return n
	}
	// element is the index of this thread's part of a row, and whether it has one.
	element := func(row affine.Expr, chunk int) ([]affine.Expr, []affine.Constraint) {
		vec := threadX.Mod(num(tr)).AddConst(int64(chunk * tr))
		e := vec.MulConst(int64(u))
		if u > 1 {
			e = e.Add(affine.Var(lane))
		}
		return append(index.Delinear(row, updates.Dims[:batches]), index.Delinear(e, updates.Dims[batches:])...), []affine.Constraint{in(vec, nv)}
	}
	begin := func(row affine.Expr, where []affine.Constraint) ([]affine.Expr, []affine.Constraint) {
		return b.starts(h, index.Delinear(row, updates.Dims[:batches]), where)
	}
	write := func(v *Value, starts, row []affine.Expr, where ...[]affine.Constraint) {
		b.add(&Step{Op: AtomicRMW, In: []*Value{v}, On: b.out[0], Index: placeOf(h, row, starts), Where: slices.Concat(where...), Of: h})
	}
	values := func() (v []*Value) {
		for range chunks {
			v = append(v, b.f.Value(updates.Type, u))
		}
		return v
	}
	id := b.f.Value(updates.Type, u)
	b.add(&Step{Op: Identity, Out: []*Value{id}, Of: h})
	loop := &Step{Op: Loop, Var: b.variable(), Trips: run / under, In: slices.Repeat([]*Value{id}, chunks), Args: values(), Out: values()}
	outer := b.f.Body
	b.f.Body = nil
	acc := loop.Args
	var starts [][]affine.Expr
	var legal [][]affine.Constraint
	var reads [][]*Value
	for k := range under + 1 {
		row := first.Add(affine.Var(loop.Var).MulConst(under)).AddConst(int64(k))
		exists := []affine.Constraint{in(row, rows)}
		s, l := begin(row, exists)
		starts, legal = append(starts, s), append(legal, l)
		if k == under {
			break
		}
		x := values()
		for c := range chunks {
			at, mine := element(row, c)
			b.add(&Step{Op: PureCall, Out: x[c : c+1], In: []*Value{id}, Of: h.Operands[2], Index: at, Where: append(mine, exists...)})
		}
		reads = append(reads, x)
	}
	for k := range under {
		turn := affine.Var(loop.Var).MulConst(under).AddConst(int64(k))
		row := first.Add(turn)
		// The index changes, before the last row of the run and of all.
		change := number(starts[k+1]).Sub(number(starts[k]))
		changes := []affine.Constraint{{Expr: change.Max(change.MulConst(-1)), Range: affine.Range{Lo: 1, Hi: int64(places)}}, in(turn, run-1), in(row.AddConst(1), rows)}
		next := values()
		for c := range chunks {
			at, mine := element(row, c)
			sum := b.f.Value(updates.Type, u)
			b.add(&Step{Op: Combine, Out: []*Value{sum}, In: []*Value{acc[c], reads[k][c]}, Of: h})
			write(sum, starts[k], at, legal[k], changes, mine)
			b.add(&Step{Op: Choose, Out: next[c : c+1], In: []*Value{id, sum}, Where: changes})
		}
		acc = next
	}
	loop.Yield, loop.Body = acc, b.f.Body
	b.f.Body = append(outer, loop)
	last := first.AddConst(int64(run - 1)).Min(num(rows - 1))
	some := []affine.Constraint{in(first, rows)}
	s, l := begin(last, some)
	for c := range chunks {
		at, mine := element(last, c)
		write(loop.Out[c], s, at, some, l, mine)
	}
	return true
}
