package emit

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/emit/lanes"
	"github.com/tilus-lab/tilus-lab/gpu/emit/tensor"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// emit writes a kernel at the tensor level.
func (k *Kernel) emit(p *Program, d plan.Device, leaves map[*hlo.Instruction]*Tensor) {
	c := k.Computation
	b := &builder{k: k, p: p, d: d, f: &Func{Name: k.Name, Blocks: [3]int{1, 1, 1}}, c: c}
	for i, in := range c.Params {
		t := &Tensor{Name: clean(in.Name)[2:], Shape: in.Shape, Buffer: k.Args[i]}
		leaves[in] = t
		b.f.Args = append(b.f.Args, t)
	}
	for _, r := range c.Roots() {
		for i, s := range r.Shape.Outputs() {
			n := len(b.out)
			t := &Tensor{Name: fmt.Sprintf("out%d", n), Shape: s, Buffer: k.Args[len(c.Params)+n], Role: Write}
			b.out, b.f.Args = append(b.out, t), append(b.f.Args, t)
			root := r
			if r.Shape.IsTuple() {
				root = &hlo.Instruction{Name: fmt.Sprintf("%s.%d", r.Name, i), Op: hlo.GetTupleElement, Shape: s,
					Operands: []*hlo.Instruction{r}, Attrs: hlo.Attrs{Number: i}, Pos: r.Pos, Index: len(c.Instructions) + n}
			}
			b.roots = append(b.roots, root)
		}
	}
	k.Tensor = b.f
	b.f.Washed, b.f.Once = washed(c), once(c)
	if k.Plan.Emitter == plan.OnePassEmitter && slices.ContainsFunc(k.Plan.Heroes, func(h *hlo.Instruction) bool {
		op, ok := tensor.Combiner(h.Apply)
		return ok && op == hlo.Add && h.Shape.Type.IsFloat()
	}) {
		b.f.Exponential = lanes.Machine
		for _, r := range b.roots {
			if t := r.Shape.Type; !t.IsFloat() || t.Bits() > 16 {
				b.f.Exponential = lanes.Close
			}
		}
	}
	if b.roots[0].Shape.Elements() == 0 {
		b.f.Threads = 32
		return
	}
	b.choose()
}

// builder writes the steps of one kernel.
type builder struct {
	k     *Kernel
	p     *Program
	d     plan.Device
	f     *Func
	c     *hlo.Computation
	roots []*hlo.Instruction
	out   []*Tensor
	vars  int
	tiles int
}

func (b *builder) choose() {
	k := b.k.Plan
	done := false
	switch {
	case k.Emitter == plan.ScatterEmitter:
		b.scatter(b.roots[0])
		return
	case b.k.plain:
	case k.Emitter == plan.UpdateEmitter:
		done = b.updates()
	case k.Emitter == plan.ConcatEmitter:
		done = b.concatenate()
	case k.Emitter == plan.SlicesEmitter:
		done = b.inputSlices()
	case k.Emitter == plan.TransposeEmitter:
		done = b.transpose()
	case k.Emitter == plan.RowEmitter, k.Emitter == plan.MultiRowEmitter, k.Emitter == plan.OnePassEmitter, k.Emitter == plan.RowSplitEmitter:
		done = b.rows()
	case k.Emitter == plan.ColumnEmitter, k.Emitter == plan.SmallColumnEmitter, k.Emitter == plan.ColumnSplitEmitter:
		done = b.columns()
	}
	if !done {
		b.loop()
	}
}

func (b *builder) add(s *Step) *Step {
	b.f.Body = append(b.f.Body, s)
	return s
}

func num(n int) affine.Expr                     { return affine.Const(int64(n)) }
func to(n int) affine.Range                     { return affine.Range{Hi: int64(n) - 1} }
func ceilDiv(a, b int) int                      { return (a + b - 1) / b }
func in(e affine.Expr, n int) affine.Constraint { return affine.Constraint{Expr: e, Range: to(n)} }

var threadX, blockX, blockY = affine.Var("th_x"), affine.Var("bl_x"), affine.Var("bl_y")

// unroll is how many neighbouring elements a thread handles: 16 bytes of the result, once
// that leaves enough threads. Wider elements that are read take several accesses.
func (b *builder) unroll(s hlo.Shape) int {
	n := s.Elements()
	if s.Type.Bits() < 8 && s.Type != hlo.Pred { // a thread owns whole bytes
		return 8 / s.Type.Bits()
	}
	if n < b.d.Wave() {
		return 1
	}
	u := 128 / max(8, s.Type.Bits())
	for u > 1 && (n%u != 0 || n > math.MaxInt32 && s.Dims[s.MinorToMajor()[0]]%u != 0) { // then no index of a row is divided
		u /= 2
	}
	return min(u, 8)
}

// wholeBytes is the same for what is written somewhere in a tensor.
func (b *builder) wholeBytes(s hlo.Shape) int {
	if s.Type.Bits() < 8 && s.Type != hlo.Pred {
		return 1
	}
	return b.unroll(s)
}

// delinear is the index of an element by its place in memory.
func delinear(offset affine.Expr, s hlo.Shape) []affine.Expr {
	order := s.MinorToMajor()
	at := index.Delinear(offset, s.Physical().Dims)
	out := make([]affine.Expr, len(order))
	for i, e := range at {
		out[order[len(order)-1-i]] = e
	}
	return out
}

// spread sets the grid for a loop over items, and gives the number of this thread's item.
func (b *builder) spread(items int) (affine.Expr, []affine.Constraint) {
	b.f.Threads = min(b.p.tune.Threads, (items+31)/32*32)
	blocks := ceilDiv(items, b.f.Threads)
	b.f.Blocks = [3]int{blocks, 1, 1}
	linear := blockX.MulConst(int64(b.f.Threads)).Add(threadX)
	if blocks*b.f.Threads == items {
		return linear, nil
	}
	return linear, []affine.Constraint{in(linear, items)}
}

// over sets the grid for a loop over a shape, u elements in a row for each thread, and gives
// the index of this thread's and where it is one.
func (b *builder) over(s hlo.Shape, u int) ([]affine.Expr, []affine.Constraint) {
	elements := func(item affine.Expr) affine.Expr {
		if item = item.MulConst(int64(u)); u > 1 {
			return item.Add(affine.Var(lane))
		}
		return item
	}
	sizes := s.Physical().Dims
	items := ceilDiv(s.Elements(), u)
	if items <= b.p.tune.Items || s.Elements()%u != 0 {
		item, where := b.spread(items)
		if s.Elements()%u != 0 {
			where = append(where, in(elements(item), s.Elements()))
		}
		return delinear(elements(item), s), where
	}
	// More than one index may count: blocks share the slower dimensions out, and the
	// faster ones in each.
	k := len(sizes) - 1
	for k > 0 && product(sizes[k-1:])/u <= b.p.tune.Items || product(sizes[k:])%u != 0 {
		k--
	}
	inner := ceilDiv(product(sizes[k:]), u)
	item, where := b.spread(inner)
	blocks := b.f.Blocks[0]
	b.f.Blocks[0] = blocks * product(sizes[:k])
	here := map[string]affine.Expr{"bl_x": blockX.Mod(num(blocks))}
	for i, c := range where {
		where[i].Expr = c.Expr.Subst(here)
	}
	if inner > b.p.tune.Items { // one dimension: only the last block has too many threads
		full, rest := (inner-1)/b.f.Threads, (inner-1)%b.f.Threads
		last := here["bl_x"].AddConst(int64(-full)).Max(num(-1)).MulConst(int64(b.f.Threads)).Add(threadX)
		where = []affine.Constraint{{Expr: last, Range: affine.Range{Lo: int64(-b.f.Threads), Hi: int64(rest)}}}
	}
	at := append(index.Delinear(blockX.FloorDiv(num(blocks)), sizes[:k]), index.Delinear(elements(item.Subst(here)), sizes[k:])...)
	order := s.MinorToMajor()
	out := make([]affine.Expr, len(order))
	for i, e := range at {
		out[order[len(order)-1-i]] = e
	}
	return out, where
}

// loop computes every element where it stands.
func (b *builder) loop() {
	s := b.roots[0].Shape
	if slices.ContainsFunc(b.roots, func(r *hlo.Instruction) bool { return r.Shape.Elements() != s.Elements() }) {
		b.uneven()
		return
	}
	u := b.unroll(s)
	turns := b.p.tune.Vectors
	if turns == 0 {
		turns = 1
		if slices.ContainsFunc(b.c.Instructions, func(in *hlo.Instruction) bool { return in.Op == hlo.Gather }) {
			turns = 2
		}
	}
	for turns > 1 && (b.d.Wave()*u*turns > s.Elements() || s.Elements()%(u*turns*b.p.tune.Threads) != 0) {
		turns /= 2
	}
	at, where := b.over(s, u)
	if turns > 1 {
		b.spread(s.Elements() / u / turns)
	}
	var writes []*Step
	for turn := range turns {
		if turns > 1 {
			item := blockX.MulConst(int64(turns)).AddConst(int64(turn)).MulConst(int64(b.f.Threads)).Add(threadX)
			at, where = delinear(item.MulConst(int64(u)).Add(affine.Var(lane)), s), nil
		}
		for i, r := range b.roots {
			idx := as(s, r.Shape, at)
			if slices.Equal(r.Shape.Dims, s.Dims) {
				idx = at
			}
			v := b.f.Value(r.Shape.Type, u)
			b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: r, Index: idx, Where: where})
			writes = append(writes, &Step{Op: Insert, In: []*Value{v}, On: b.out[i], Index: idx, Where: where})
		}
	}
	for _, s := range writes {
		b.add(s)
	}
}

// uneven computes every element of results that have other numbers of elements: each
// thread has one of each result, as far as there is one.
func (b *builder) uneven() {
	width := func(r *hlo.Instruction) int {
		if bits := r.Shape.Type.Bits(); bits < 8 && r.Shape.Type != hlo.Pred { // a thread owns whole bytes
			return 8 / bits
		}
		return 1
	}
	most := 0
	for _, r := range b.roots {
		most = max(most, ceilDiv(r.Shape.Elements(), width(r)))
	}
	item, _ := b.spread(most)
	for i, r := range b.roots {
		n, u := r.Shape.Elements(), width(r)
		at, where := item, []affine.Constraint{in(item, ceilDiv(n, u))}
		if u > 1 {
			at = item.MulConst(int64(u)).Add(affine.Var(lane))
		}
		if n%u != 0 {
			where = append(where, in(at, n))
		}
		b.give(i, r, delinear(at, r.Shape), where, u)
	}
}

// once are the instructions that one other reads, and nothing else.
func once(c *hlo.Computation) map[*hlo.Instruction]bool {
	reads := map[*hlo.Instruction]int{}
	for _, in := range c.Instructions {
		for _, o := range in.Operands {
			reads[o]++
		}
	}
	for _, r := range c.Roots() {
		reads[r]++
	}
	out := map[*hlo.Instruction]bool{}
	for in, n := range reads {
		out[in] = n == 1
	}
	return out
}

// washed are the conversions to f32 whose NaN may have any bits: what reads them computes
// with them, and gives the machine's one NaN.
func washed(c *hlo.Computation) map[*hlo.Instruction]bool {
	users := map[*hlo.Instruction][]*hlo.Instruction{}
	for _, in := range c.Instructions {
		for _, o := range in.Operands {
			users[o] = append(users[o], in)
		}
	}
	for _, r := range c.Roots() {
		users[r] = append(users[r], nil)
	}
	seen := map[*hlo.Instruction]bool{}
	var washes func(in *hlo.Instruction) bool
	washes = func(in *hlo.Instruction) bool {
		if ok, known := seen[in]; known {
			return ok
		}
		seen[in] = !slices.ContainsFunc(users[in], func(u *hlo.Instruction) bool {
			switch {
			case u == nil:
				return true
			case u.Op == hlo.Add, u.Op == hlo.Subtract, u.Op == hlo.Multiply, u.Op == hlo.Maximum, u.Op == hlo.Minimum, u.Op == hlo.Exp:
				return false
			case u.Op == hlo.Convert:
				return u.Shape.Type != hlo.BF16 && u.Shape.Type != hlo.F16
			case u.Op == hlo.Abs, u.Op == hlo.Negate, u.Op == hlo.Broadcast, u.Op == hlo.Reshape, u.Op == hlo.Bitcast, u.Op == hlo.Transpose, u.Op == hlo.Slice:
				return !washes(u)
			case u.Op == hlo.Reduce && u.Inputs() == 1:
				op, ok := tensor.Combiner(u.Apply)
				return !ok || op != hlo.Add && op != hlo.Multiply && op != hlo.Maximum && op != hlo.Minimum
			}
			return true
		})
		return seen[in]
	}
	out := map[*hlo.Instruction]bool{}
	for _, in := range c.Instructions {
		out[in] = in.Op == hlo.Convert && washes(in)
	}
	return out
}

func follow(m affine.Map, idx []affine.Expr) []affine.Expr {
	values := map[string]affine.Expr{}
	for i, d := range m.Dims {
		values[d.Name] = idx[i]
	}
	out := make([]affine.Expr, len(m.Results))
	for i, r := range m.Results {
		out[i] = r.Subst(values)
	}
	return out
}

// updates writes the boxes that updates in place replace; the rest of each result stays.
func (b *builder) updates() bool {
	box := b.k.Plan.Heroes[0].Operands[1]
	for i, h := range b.k.Plan.Heroes {
		if b.p.Buffers[b.out[i].Buffer].From < 0 && !slices.Contains(b.k.Args[:len(b.c.Params)], b.out[i].Buffer) || !slices.Equal(h.Operands[1].Shape.Dims, box.Shape.Dims) {
			return false
		}
	}
	u := b.wholeBytes(box.Shape)
	at, where := b.over(box.Shape, u)
	for i, in := range b.k.Plan.Heroes {
		b.out[i].Role = Update
		out := slices.Clone(at)
		for d, start := range in.Operands[2:] {
			if room := in.Shape.Dims[d] - box.Shape.Dims[d]; room > 0 {
				name := b.variable()
				b.add(&Step{Op: Start, Var: name, Of: start, Trips: room + 1})
				out[d] = out[d].Add(affine.Var(name))
			}
		}
		v := b.f.Value(in.Operands[1].Shape.Type, u)
		b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: in.Operands[1], Index: at, Where: where})
		if s := b.out[i].Shape; !slices.Equal(s.Dims, in.Shape.Dims) || !slices.Equal(s.MinorToMajor(), in.Shape.MinorToMajor()) {
			out = follow(index.Bitcast(in.Shape, s), out)
		}
		b.add(&Step{Op: Insert, In: []*Value{v}, On: b.out[i], Index: out, Where: where})
	}
	return true
}

// powerOfTwo is the least power of two that is not below n.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }
