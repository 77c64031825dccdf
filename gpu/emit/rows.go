package emit

import (
	"slices"
	"sort"

	"github.com/tilus-lab/tilus-lab/gpu/emit/tensor"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// form is a reduction in normal form: the elements of its operand as [a, b, c] in memory
// order, either with a and c reduced (rows) or with b (columns).
type form struct {
	hero    *hlo.Instruction
	row     bool
	a, b, c int
	sizes   [3][]int // of the dimensions in memory that make up a, b and c
}

func formOf(hero *hlo.Instruction) (f form, ok bool) {
	s := hero.Operands[0].Shape
	row, abc, ok := plan.Normal(s, hero.Dims)
	if !ok {
		return f, false
	}
	f = form{hero: hero, row: row, a: abc[0], b: abc[1], c: abc[2]}
	group := 2 // the fastest
	order := s.MinorToMajor()
	want := [3]bool{!row, row, !row} // whether a, b, c are kept
	for i, d := range order {
		n := s.Dims[d]
		if n > 1 {
			for kept := !slices.Contains(hero.Dims, d); kept != want[group]; {
				group--
			}
		}
		_ = i
		f.sizes[group] = slices.Insert(f.sizes[group], 0, n)
	}
	return f, true
}

// element is the index of the operand.
func (f form) element(a, b, c affine.Expr) []affine.Expr {
	var at []affine.Expr // from the slowest dimension to the fastest
	for g, x := range []affine.Expr{a, b, c} {
		at = append(at, index.Delinear(x, f.sizes[g])...)
	}
	order := f.hero.Operands[0].Shape.MinorToMajor()
	out := make([]affine.Expr, len(order))
	for i, d := range order {
		out[d] = at[len(at)-1-i]
	}
	return out
}

// result is the index of the result where the kept numbers are given.
func (f form) result(a, b, c affine.Expr) []affine.Expr {
	var out []affine.Expr
	for d, x := range f.element(a, b, c) {
		if !slices.Contains(f.hero.Dims, d) {
			out = append(out, x)
		}
	}
	return out
}

// as is the index of a tensor with as many elements, in the same order in memory.
func as(from, s hlo.Shape, at []affine.Expr) []affine.Expr {
	if slices.Equal(from.Dims, s.Dims) && slices.Equal(from.MinorToMajor(), s.MinorToMajor()) {
		return at
	}
	return follow(index.Bitcast(from, s), at)
}

// forms are the normal forms of the kernel's reductions, which have equal sizes.
func (b *builder) forms(row bool) (list []form) {
	for _, h := range b.k.Plan.Heroes {
		f, ok := formOf(h)
		if !ok || !tensor.AnyOrder(h) || f.row != row || f.a*f.b*f.c == 0 {
			return nil
		}
		if len(list) > 0 && (f.a != list[0].a || f.b != list[0].b || f.c != list[0].c) {
			return nil
		}
		list = append(list, f)
	}
	return list
}

// formFor is the form of the reduction that a result is computed from: the index of the
// result follows from it.
func (b *builder) formFor(r *hlo.Instruction, forms []form) form {
	found := forms[0]
	seen := map[*hlo.Instruction]bool{}
	var visit func(in *hlo.Instruction) bool
	visit = func(in *hlo.Instruction) bool {
		if seen[in] {
			return false
		}
		seen[in] = true
		if i := slices.IndexFunc(forms, func(f form) bool { return f.hero == in }); i >= 0 {
			found = forms[i]
			return true
		}
		return slices.ContainsFunc(in.Operands, visit)
	}
	visit(r)
	return found
}

// resultOf is the index of a result of as many elements as the reductions have, where the
// kept numbers are given.
func (b *builder) resultOf(r *hlo.Instruction, forms []form, x, y, z affine.Expr) []affine.Expr {
	f := b.formFor(r, forms)
	return as(f.hero.Shape.Outputs()[0], r.Shape, f.result(x, y, z))
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

// product is the number of elements of sizes.
func product(v []int) int {
	n := 1
	for _, x := range v {
		n *= x
	}
	return n
}

// rows reduces rows by threads of a warp or by several warps, and computes what follows
// from elements that are still in registers.
func (b *builder) rows() bool {
	forms := b.forms(true)
	if len(forms) == 0 {
		return false
	}
	f := forms[0]
	rows, c := f.b, f.c
	in0 := f.hero.Operands[0].Shape
	for _, r := range b.roots {
		if n := r.Shape.Elements(); n != rows && n != in0.Elements() {
			return false
		}
	}
	full := slices.ContainsFunc(b.roots, func(r *hlo.Instruction) bool { return r.Shape.Elements() != rows })
	v := b.vector(c)
	nv := c / v
	if len(forms) == 1 && !full && rows < 2*b.d.SMs && f.a*nv >= 2048 {
		b.splitRows(f, v)
		return true
	}
	tr := powerOfTwo(nv)
	if nv > 32 {
		loads := b.p.tune.RowLoads
		if loads == 0 {
			if loads = 4; full || v == 8 { // they stay in registers, or each is much code
				loads = 2
			}
		}
		tr = max(32, powerOfTwo(ceilDiv(nv, loads)))
	}
	tr = min(tr, 1024)
	turns := ceilDiv(nv, tr)
	b.f.Threads = max(tr, 256)
	if rows*tr < b.f.Threads {
		b.f.Threads = max(tr, (rows*tr+31)/32*32)
	}
	tk := b.f.Threads / tr
	all := f.a * turns
	several := b.p.tune.ShortRows // rows of a thread
	for several > 1 && (all > 1 || tr > 32 || full || rows < several*tk*2*b.d.SMs) {
		several /= 2
	}
	b.f.Blocks = [3]int{ceilDiv(rows, tk*several), 1, 1}
	unroll := all*v <= 64
	var places []*rowPlace
	for i := range several {
		r := &rowPlace{tr: tr, v: v, turns: turns, nv: nv}
		r.row = blockX.MulConst(int64(tk * several)).AddConst(int64(i * tk)).Add(threadX.FloorDiv(num(tr)))
		r.where = []affine.Constraint{in(r.row, rows)}
		if rows == 1 {
			r.row, r.where = num(0), []affine.Constraint{in(threadX, tr)}
		}
		places = append(places, r)
	}
	// Where a thread has several rows, all of them are read before any is finished.
	partial := func(f form, r *rowPlace) []*Value {
		return b.partial(f.hero, v, all, unroll, r.where, func(turn affine.Expr) ([]affine.Expr, []affine.Constraint) {
			x, col, where := r.at(turn)
			return f.element(x, r.row, col), where
		})
	}
	early := map[*rowPlace][][]*Value{}
	if several > 1 {
		for _, r := range places {
			for _, f := range forms {
				early[r] = append(early[r], partial(f, r))
			}
		}
	}
	wide := func(r *hlo.Instruction) bool { return r.Shape.Elements() != rows || rows == in0.Elements() }
	apart := b.apart()
	// write gives elements of a wide result, before the reductions where it can.
	write := func(p *rowPlace, early bool) {
		for i, r := range b.roots {
			if !wide(r) || early != apart[r] {
				continue
			}
			turn := func(turn affine.Expr) {
				x, col, where := p.at(turn)
				b.give(i, r, as(in0, r.Shape, f.element(x, p.row, col)), where, v)
			}
			if !unroll {
				b.repeat(all, turn)
				continue
			}
			for k := range all {
				turn(num(k))
			}
		}
	}
	for _, p := range places {
		for i, f := range forms {
			var acc []*Value
			if several > 1 {
				acc = early[p][i]
			} else {
				acc = partial(f, p)
			}
			if i == 0 {
				write(p, true)
			}
			total := b.begun(f.hero, b.across(f.hero, acc, tr, tk))
			b.add(&Step{Op: Inject, In: total, Of: f.hero, Index: f.result(num(0), p.row, num(0))})
		}
		for i, r := range b.roots {
			if !wide(r) {
				where := append(slices.Clone(p.where), affine.Constraint{Expr: threadX.Mod(num(tr))})
				b.give(i, r, b.resultOf(r, forms, num(0), p.row, num(0)), where, 1)
			}
		}
		write(p, false)
	}
	return true
}

// apart are the instructions that need none of the kernel's reductions.
func (b *builder) apart() map[*hlo.Instruction]bool {
	out := map[*hlo.Instruction]bool{}
	for _, in := range b.c.Instructions {
		out[in] = !slices.Contains(b.k.Plan.Heroes, in) && !slices.ContainsFunc(in.Operands, func(o *hlo.Instruction) bool { return !out[o] })
	}
	return out
}

// rowPlace is a row that threads reduce, and where in it each of them is.
type rowPlace struct {
	row              affine.Expr
	where            []affine.Constraint
	tr, v, turns, nv int
}

// at is the major and the minor place of a turn, and where it is one.
func (r *rowPlace) at(turn affine.Expr) (x, col affine.Expr, where []affine.Constraint) {
	x, t := turn.FloorDiv(num(r.turns)), turn.Mod(num(r.turns))
	vec := t.MulConst(int64(r.tr)).Add(threadX.Mod(num(r.tr)))
	return x, vec.MulConst(int64(r.v)).Add(affine.Var(lane)), append(slices.Clone(r.where), in(vec, r.nv))
}

func (b *builder) variable() string {
	b.vars++
	return "s" + num(b.vars).String()
}

// give computes elements of a result and writes them.
func (b *builder) give(i int, r *hlo.Instruction, idx []affine.Expr, where []affine.Constraint, n int) {
	v := b.f.Value(r.Shape.Type, n)
	b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: r, Index: idx, Where: where})
	b.add(&Step{Op: Insert, In: []*Value{v}, On: b.out[i], Index: idx, Where: where})
}

// turnsOf is what a thread combines of a reduction: n elements a turn of each operand.
type turnsOf struct {
	r      *hlo.Instruction
	n      int
	turns  int
	group  int // turns under way at once
	unroll bool
	guard  func(turn affine.Expr) []affine.Constraint // where a turn has elements
	read   func(turn affine.Expr, into, id []*Value)  // id elsewhere
}

// values are new ones of the types that a reduction computes with.
func (b *builder) values(r *hlo.Instruction, n int) (out []*Value) {
	for _, x := range r.Apply.Roots() {
		out = append(out, b.f.Value(x.Shape.Type, n))
	}
	return out
}

// nothing is what may be combined with elements and changes nothing: where a computation
// selects, the initial value, which is combined in the end anyway.
func (b *builder) nothing(r *hlo.Instruction, n int) []*Value {
	id := b.values(r, n)
	if _, ok := tensor.IdentitiesOf(r); ok {
		b.add(&Step{Op: Identity, Out: id, Of: r})
		return id
	}
	for i, v := range id {
		b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: r.Operands[r.Inputs()+i]})
	}
	return id
}

// combined is two values in one, or the second where there is no first.
func (b *builder) combined(r *hlo.Instruction, x, y []*Value) []*Value {
	if x == nil {
		return y
	}
	out := b.values(r, y[0].N)
	b.add(&Step{Op: Combine, Out: out, In: slices.Concat(x, y), Of: r})
	return out
}

// partials is what one thread combines, of each of its n elements. Elements that are not
// there count as nothing. A loop asks for guards only in the turns that need them.
func (b *builder) partials(p turnsOf) []*Value {
	id := b.nothing(p.r, p.n)
	if p.unroll {
		return b.turns(p, 0, 1, p.turns, nil, id)
	}
	// All reads of a group come before what combines them, so that they are on their way
	// together.
	group := p.group
	whole := b.whole(p.turns, p.guard) / group
	acc := id
	if whole > 0 {
		acc = b.turns(p, 0, whole, group, acc, id)
	}
	rest, from := p.turns-whole*group, whole*group
	if whole > 0 { // few
		group = 1
	}
	if rest > 0 {
		acc = b.turns(p, from, ceilDiv(rest, group), group, acc, id)
	}
	return acc
}

// whole is how many turns, from the first on, need no guard.
func (b *builder) whole(turns int, guard func(turn affine.Expr) []affine.Constraint) int {
	const turn = "turn"
	ranges := map[string]affine.Range{"th_x": to(b.f.Threads), "bl_x": to(b.f.Blocks[0]), "bl_y": to(b.f.Blocks[1]), lane: {}}
	where := guard(affine.Var(turn))
	return sort.Search(turns, func(n int) bool {
		ranges[turn] = to(n + 1)
		return slices.ContainsFunc(where, func(c affine.Constraint) bool {
			return tensor.Uses(c.Expr, turn) && !c.Expr.Simplify(ranges).Range(ranges).Within(c.Range)
		})
	})
}

// turns is a loop of trips over groups of turns.
func (b *builder) turns(p turnsOf, from, trips, size int, acc, id []*Value) []*Value {
	body := func(group affine.Expr, acc []*Value) []*Value {
		var all [][]*Value
		for g := range size {
			x := b.values(p.r, p.n)
			p.read(group.MulConst(int64(size)).AddConst(int64(from+g)), x, id)
			all = append(all, x)
		}
		for _, x := range all {
			acc = b.combined(p.r, acc, x)
		}
		return acc
	}
	if trips == 1 {
		return body(num(0), acc)
	}
	loop := &Step{Op: Loop, Var: b.variable(), Trips: trips, In: acc, Args: b.values(p.r, p.n)}
	outer := b.f.Body
	b.f.Body = nil
	loop.Yield = body(affine.Var(loop.Var), loop.Args)
	loop.Body, loop.Out = b.f.Body, b.values(p.r, p.n)
	b.f.Body = append(outer, loop)
	return loop.Out
}

// partial is what one thread combines, of all its elements. What it is where the constraints
// open do not hold matters to nobody.
func (b *builder) partial(r *hlo.Instruction, n, turns int, unroll bool, open []affine.Constraint, place func(turn affine.Expr) ([]affine.Expr, []affine.Constraint)) []*Value {
	acc := b.partials(turnsOf{r, n, turns, b.p.tune.Group, unroll, func(turn affine.Expr) []affine.Constraint {
		_, where := place(turn)
		return where
	}, func(turn affine.Expr, into, id []*Value) {
		idx, where := place(turn)
		b.readOperands(r, idx, where, open, into, id)
	}})
	return b.fold(r, acc)
}

// readOperands computes elements of what a reduction reads.
func (b *builder) readOperands(r *hlo.Instruction, idx []affine.Expr, where, open []affine.Constraint, into, id []*Value) {
	for i, v := range into {
		b.add(&Step{Op: PureCall, Out: []*Value{v}, In: id[i : i+1], Of: r.Operands[i], Index: idx, Where: where, Open: open})
	}
}

func (b *builder) fold(r *hlo.Instruction, v []*Value) []*Value {
	if v[0].N == 1 {
		return v
	}
	out := b.values(r, 1)
	b.add(&Step{Op: Fold, Out: out, In: v, Of: r})
	return out
}

// across combines the values of tr neighbouring threads, of which there are tk groups; all
// threads get the result, still without the initial value.
func (b *builder) across(r *hlo.Instruction, acc []*Value, tr, tk int) []*Value {
	if tr > 1 {
		out := b.values(r, 1)
		b.add(&Step{Op: ShuffleReduce, Out: out, In: acc, Of: r, From: min(tr, 32) / 2, Trips: 1})
		acc = out
	}
	if tr > 32 {
		warps := tr / 32
		group, warp := threadX.FloorDiv(num(tr)), threadX.Mod(num(tr)).FloorDiv(num(32))
		var tiles []*Tensor
		for _, v := range acc {
			tile := b.tile(r, v.Type, tk, warps)
			b.add(&Step{Op: Insert, In: []*Value{v}, On: tile, Index: []affine.Expr{group, warp}, Where: []affine.Constraint{{Expr: threadX.Mod(num(32))}}})
			tiles = append(tiles, tile)
		}
		b.add(&Step{Op: Sync})
		if warps > 8 { // less code than to fold so many
			one := b.values(r, 1)
			for i, tile := range tiles {
				b.add(&Step{Op: Extract, Out: one[i : i+1], On: tile, Index: []affine.Expr{group, threadX.Mod(num(warps))}})
			}
			acc = b.values(r, 1)
			b.add(&Step{Op: ShuffleReduce, Out: acc, In: one, Of: r, From: warps / 2, Trips: 1})
			return acc
		}
		all := b.values(r, warps)
		for i, tile := range tiles {
			b.add(&Step{Op: Extract, Out: all[i : i+1], On: tile, Index: []affine.Expr{group, affine.Var(lane)}})
		}
		acc = b.fold(r, all)
	}
	return acc
}

// begun combines the initial value of a reduction with what the elements give.
func (b *builder) begun(r *hlo.Instruction, acc []*Value) []*Value {
	init := b.values(r, acc[0].N)
	for i, v := range init {
		b.add(&Step{Op: PureCall, Out: []*Value{v}, Of: r.Operands[r.Inputs()+i]})
	}
	return b.combined(r, init, acc)
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

// shares is in how many parts blocks take n items each, turn items at a time, where there are
// some blocks already: as many as fill the device, or near that a number that leaves no
// turn to guard.
func (b *builder) shares(blocks, n, turn int) int {
	want := ceilDiv(b.p.tune.Fill*b.d.SMs, blocks)
	for off := range max(1, want/4) + 1 {
		for _, p := range []int{want + off, want - off} {
			if p > 0 && p*blocks <= 8*b.d.SMs && n%(p*turn*b.p.tune.Group) == 0 {
				return p
			}
		}
	}
	return want
}

// splitRows spreads few long rows over all multiprocessors; the block of a row that comes
// last combines what the others left.
func (b *builder) splitRows(f form, v int) {
	r := f.hero
	rows, nv := f.b, f.a*f.c/v
	threads := b.p.tune.Splitters
	b.f.Threads = threads
	group := b.p.tune.Group
	parts := min(b.shares(rows, nv, threads), ceilDiv(nv, threads*group))
	turns := ceilDiv(nv, parts*threads)
	b.f.Blocks = [3]int{rows * parts, 1, 1}
	row, part := blockX.FloorDiv(num(parts)), blockX.Mod(num(parts))
	acc := b.partial(r, v, turns, false, nil, func(turn affine.Expr) ([]affine.Expr, []affine.Constraint) {
		vec := turn.MulConst(int64(parts)).Add(part).MulConst(int64(threads)).Add(threadX) // blocks take turns
		x, y := vec.FloorDiv(num(f.c/v)), vec.Mod(num(f.c/v))
		if f.a == 1 {
			x, y = num(0), vec
		}
		return f.element(x, row, y.MulConst(int64(v)).Add(affine.Var(lane))), []affine.Constraint{in(vec, nv)}
	})
	one := []affine.Constraint{{Expr: threadX}}
	finish := func(total []*Value) {
		b.add(&Step{Op: Inject, In: total, Of: r, Index: f.result(num(0), row, num(0))})
		for i, root := range b.roots {
			b.give(i, root, as(r.Shape.Outputs()[0], root.Shape, f.result(num(0), row, num(0))), one, 1)
		}
	}
	if parts == 1 {
		finish(b.begun(r, b.across(r, acc, threads, 1)))
		return
	}
	mine := b.across(r, acc, threads, 1)
	ticket := b.workspace("ticket", hlo.Array(hlo.U32, rows), true)
	var left []*Tensor
	for i, v := range mine {
		t := b.workspace("partial"+num(i).String(), hlo.Array(v.Type, rows, parts), false)
		b.add(&Step{Op: Insert, In: []*Value{v}, On: t, Index: []affine.Expr{row, part}, Where: one})
		left = append(left, t)
	}
	last := &Step{Op: LastBlock, On: ticket, Index: []affine.Expr{row}, Trips: parts}
	outer := b.f.Body
	b.f.Body = nil
	guard := func(turn affine.Expr) []affine.Constraint {
		return []affine.Constraint{in(turn.MulConst(int64(threads)).Add(threadX), parts)}
	}
	acc = b.partials(turnsOf{r, 1, ceilDiv(parts, threads), 1, true, guard, func(turn affine.Expr, into, id []*Value) {
		where := guard(turn)
		for i, t := range left {
			b.add(&Step{Op: Extract, Out: into[i : i+1], In: id[i : i+1], On: t, Index: []affine.Expr{row, where[0].Expr}, Where: where})
		}
	}})
	finish(b.begun(r, b.across(r, acc, threads, 1)))
	last.Body, b.f.Body = b.f.Body, append(outer, last)
}
