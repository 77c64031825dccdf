package randprog

import (
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// maxArray bounds the elements of an argument.
const maxArray = 1 << 15

// values draws an array whose sums are exact: small integers, powers of two, all
// codes of the types up to 8 bits, or anything for integers.
func (g *generator) values(e dtype.Type, shape []int) *array.Array {
	a := array.New(e, shape...)
	kind := g.r.IntN(5)
	for k := range a.Len() {
		switch {
		case !e.IsFloat() && (kind < 2 || e.Bits() < 8):
			a.SetCode(k, g.r.Uint64()&e.Mask())
		case !e.IsFloat():
			a.SetCode(k, e.EncodeInt(int64(g.r.IntN(9))-4, false)&e.Mask())
		case kind == 0 && e.Bits() <= 6 && !e.HasNaN():
			a.SetCode(k, g.r.Uint64()&e.Mask())
		case kind == 1:
			a.SetCode(k, e.Encode(pick(g, []float64{0.5, 1, 2, -1}), true))
		default:
			a.SetCode(k, e.Encode(float64(g.r.IntN(7)-3), true))
		}
	}
	return a
}

// loadGlobal makes a tile from a tensor of its own or from one there is; parts of
// it may lie outside.
func (g *generator) loadGlobal(e dtype.Type, l layout.Layout) *tile {
	t, ok := registers(e, l)
	if !ok {
		return nil
	}
	in := &ir.Instr{Op: ir.OpByName("LoadGlobal"), Out: []*ir.Var{{Name: g.name("r"), Type: t}}}
	dims := l.Shape()
	var src *memory
	for _, m := range g.mems {
		if m.v.Type.IsGlobal() && m.v.Type.Elem == e && len(m.shape) >= len(dims) && g.chance(30) {
			src = m
		}
	}
	if src == nil {
		var shape []int
		if g.chance(25) {
			shape = append(shape, 1+g.r.IntN(3))
		}
		for _, n := range dims {
			switch g.r.IntN(8) {
			case 0:
				n = max(1, n-g.r.IntN(4))
			case 1:
				n *= 2
			case 2:
				n = int(g.args[1].Int)
			}
			shape = append(shape, n)
		}
		if size := product(shape); size > maxArray {
			return nil
		}
		src = g.param("a", g.values(e, shape), false)
	}
	offset := ir.Attr{Name: "offset"}
	for range src.shape {
		x := ir.Expr(ir.NewInt(0))
		if g.chance(40) {
			x = g.expr(1).e
		}
		offset.Exprs = append(offset.Exprs, x)
	}
	if src.output {
		offset.Exprs[0] = g.block0()
	}
	in.In, in.Attrs = []ir.Operand{operand(src.v)}, []ir.Attr{offset}
	if d := g.r.Perm(len(src.shape)); g.chance(20) || src.output && len(dims) == len(src.shape) {
		attr := ir.Attr{Name: "dims"}
		for i := 0; len(attr.Exprs) < len(dims) && i < len(d); i++ {
			if !src.output || d[i] != 0 {
				attr.Exprs = append(attr.Exprs, ir.NewInt(int64(d[i])))
			}
		}
		in.Attrs = append(in.Attrs, attr)
	}
	if g.chance(10) {
		in.Attrs = append(in.Attrs, ir.Attr{Name: "cache", Word: "stream"})
	}
	if g.broken(in) {
		return nil
	}
	g.touch(src.root, false)
	return g.keep(in, src.span)
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// storeGlobal stores a tile to a tensor of which each block has a part.
func (g *generator) storeGlobal(t *tile) bool {
	e, dims := t.v.Type.Elem, t.v.Type.Layout.Shape()
	shape := []int{g.blocks}
	for _, n := range dims {
		switch g.r.IntN(8) {
		case 0:
			n = max(1, n-1)
		case 1:
			n += 3
		}
		shape = append(shape, n)
	}
	if t.v.Type.HasPlace || product(shape) > maxArray {
		return false
	}
	offset := ir.Attr{Name: "offset", Exprs: []ir.Expr{g.block0()}}
	for range dims {
		x := ir.Expr(ir.NewInt(0))
		if g.chance(15) {
			x = g.expr(1).e
		}
		offset.Exprs = append(offset.Exprs, x)
	}
	m := g.param("o", array.New(e, shape...), true)
	in := &ir.Instr{Op: ir.OpByName("StoreGlobal"), In: []ir.Operand{operand(m.v), operand(t.v)}, Attrs: []ir.Attr{offset}}
	if g.broken(in) {
		return false
	}
	g.touch(m.root, true)
	g.add(in)
	return true
}

// view reads a tile's bits as another type and layout.
func (g *generator) view(x *tile) *tile {
	if x == nil || x.v.Type.HasPlace {
		return nil
	}
	from := x.v.Type
	bits := from.BitsPerThread()
	for range 20 {
		e := g.elem()
		if bits%e.Bits() != 0 {
			continue
		}
		n := bits / e.Bits()
		l := from.Layout
		if n != l.Slots() {
			switch t := g.threads(); g.r.IntN(3) {
			case 0:
				l = layout.Spatial(t).Local(n)
			case 1:
				l = layout.Local(n, 1).Mul(layout.Spatial(4, t/4))
			default:
				l = layout.Spatial(t/8, 8).Local(1, n)
			}
		}
		if t, ok := registers(e, l); ok {
			s := typeSpan(e)
			if e == from.Elem && l.Equal(from.Layout) {
				s = x.span
			}
			if v := g.keep(&ir.Instr{Op: ir.OpByName("View"), In: []ir.Operand{operand(x.v)}, Out: []*ir.Var{{Name: g.name("w"), Type: t}}}, s); v != nil {
				return v
			}
		}
	}
	return nil
}

// dot draws a product over the warps of the block.
func (g *generator) dot(op *ir.Op) bool {
	if len(g.o.Products) == 0 {
		return false
	}
	p := pick(g, g.o.Products)
	wm := pick(g, []int{1, 2, 4})
	if g.warps()%wm != 0 {
		wm = 1
	}
	wn := g.warps() / wm
	rm, rn, rk := 1+g.r.IntN(2), 1+g.r.IntN(2), 1+g.r.IntN(2)
	lc := layout.Local(rm, rn).Spatial(wm, wn).Mul(p.LC)
	la := layout.Local(rm, rk).Spatial(wm, 1).Replicated(wn, 1, 1).Mul(p.LA)
	lb := layout.Local(rk, rn).Replicated(wm, 1, 1).Spatial(1, wn).Mul(p.LB)
	a, b, c := g.supply(p.A, la), g.supply(p.B, lb), g.supply(p.C, lc)
	if a == nil || b == nil || c == nil {
		return false
	}
	k := la.Shape()[1]
	s := a.span.mul(b.span)
	if s = (span{s.max*float64(k) + c.max, min(s.grain, c.grain)}); !s.exact(p.C) {
		return false
	}
	in := &ir.Instr{Op: op, In: []ir.Operand{operand(a.v), operand(b.v), operand(c.v)}, Out: []*ir.Var{{Name: g.name("d"), Type: c.v.Type}}}
	if g.broken(in) {
		return false
	}
	g.update(in, 0, s)
	if in.Out[0].Pos = in.Pos; g.known(in.Out[0]) {
		g.add(in)
		return true
	}
	return g.keep(in, s) != nil
}

func (g *generator) known(v *ir.Var) bool {
	for _, t := range g.tiles {
		if t.v == v {
			return true
		}
	}
	return false
}

// allocateShared makes a tile in shared memory and writes all of it.
func (g *generator) allocateShared(op *ir.Op) *memory {
	t := g.anyTile()
	if t == nil || t.v.Type.HasPlace || t.v.Type.Layout.Size() > 1024 {
		return nil
	}
	e, dims := t.v.Type.Elem, t.v.Type.Layout.Shape()
	l := layout.SharedRowMajor(dims...)
	switch g.r.IntN(5) {
	case 0:
		l = layout.SharedColumnMajor(dims...)
	case 1, 2:
		if s, err := layout.SharedRowMajorSwizzle(e.Bits(), dims...); err == nil {
			l = s
		}
	}
	stages := 1
	if g.chance(30) {
		if s, err := l.Prepend(2); err == nil {
			l, stages = s, 2
		}
	}
	in := &ir.Instr{Op: op, Out: []*ir.Var{{Name: g.name("s"), Type: ir.SharedOf(e, l)}}}
	if g.broken(in) {
		return nil
	}
	g.add(in)
	m := &memory{v: in.Out[0], root: &storage{}, shape: l.Shape(), span: t.span, home: g.at}
	g.roots = append(g.roots, m.root)
	for i := range stages {
		store := &ir.Instr{Op: ir.OpByName("StoreShared"), In: []ir.Operand{operand(m.v), operand(t.v)}}
		if stages > 1 {
			offset := ir.Attr{Name: "offset", Exprs: []ir.Expr{ir.NewInt(int64(i))}}
			for range dims {
				offset.Exprs = append(offset.Exprs, ir.NewInt(0))
			}
			store.Attrs = append(store.Attrs, offset)
		}
		g.add(store)
	}
	m.root.written = true
	g.mems = append(g.mems, m)
	return m
}

// sharedTile draws a tile of shared memory for an op.
func (g *generator) sharedTile(op *ir.Op) *memory {
	m, ok := g.memory(op, ir.AcceptShared)
	if !ok || g.chance(20) {
		return g.allocateShared(ir.OpByName("AllocateShared"))
	}
	return m
}

func (g *generator) freeShared(op *ir.Op) bool {
	for i, m := range g.mems {
		if m.home != g.at || !m.v.Type.IsShared() {
			continue
		}
		in := &ir.Instr{Op: op, In: []ir.Operand{operand(m.v)}}
		if g.broken(in) {
			continue
		}
		g.mems = append(g.mems[:i:i], g.mems[i+1:]...)
		for k := len(g.mems) - 1; k >= 0; k-- {
			if g.mems[k].root == m.root {
				g.mems = append(g.mems[:k:k], g.mems[k+1:]...)
			}
		}
		g.add(in)
		g.synchronize() // what takes its place must not come too early
		return true
	}
	return false
}

func (g *generator) sliceShared(op *ir.Op) bool {
	m := g.sharedTile(op)
	if m == nil {
		return false
	}
	keep := 1 + g.r.IntN(len(m.shape))
	part := append([]int(nil), m.shape[len(m.shape)-keep:]...)
	if d := g.r.IntN(keep); part[d]%2 == 0 && g.chance(50) {
		part[d] /= 2
	}
	offset := g.offset(m, part)
	for d := range part { // a cut begins at a multiple of its size
		at := len(offset) - keep + d
		offset[at] = ir.NewInt(int64(g.r.IntN(m.shape[at]/part[d]) * part[d]))
	}
	in := &ir.Instr{Op: op, In: []ir.Operand{operand(m.v)}, Attrs: []ir.Attr{{Name: "offset", Exprs: offset}}}
	dims := make([]int, keep)
	for d := range dims {
		dims[d] = len(m.shape) - keep + d
	}
	l, err := ir.PartOfShared(m.v.Type.Shared, dims, part)
	if err != nil {
		return false
	}
	in.Out = []*ir.Var{{Name: g.name("s"), Type: ir.SharedOf(m.v.Type.Elem, l)}}
	return g.commit(in)
}

func (g *generator) loadShared(op *ir.Op) bool {
	m := g.sharedTile(op)
	if m == nil {
		return false
	}
	for range 10 {
		rank := 1 + g.r.IntN(min(2, len(m.shape)))
		part := append([]int(nil), m.shape[len(m.shape)-rank:]...)
		l, err := layout.AutoLocalSpatial(g.threads(), part...)
		if err != nil || g.chance(60) {
			l = g.layout()
		}
		t, ok := registers(m.v.Type.Elem, l)
		if !ok || l.Rank() > len(m.shape) {
			continue
		}
		in := &ir.Instr{Op: op, In: []ir.Operand{operand(m.v)}, Out: []*ir.Var{{Name: g.name("r"), Type: t}}}
		fits := true
		for d, n := range l.Shape() {
			fits = fits && n <= m.shape[len(m.shape)-l.Rank()+d]
		}
		if !fits {
			continue
		}
		if g.chance(60) || l.Rank() < len(m.shape) {
			in.Attrs = []ir.Attr{{Name: "offset", Exprs: g.offset(m, l.Shape())}}
		}
		return g.commit(in)
	}
	return false
}

func (g *generator) storeShared(op *ir.Op) bool {
	m := g.sharedTile(op)
	if m == nil {
		return false
	}
	for range 20 {
		t := g.anyTile()
		if t == nil || t.v.Type.HasPlace || t.v.Type.Elem != m.v.Type.Elem {
			continue
		}
		l := t.v.Type.Layout
		fits := l.Rank() <= len(m.shape)
		for d, n := range l.Shape() {
			fits = fits && n <= m.shape[len(m.shape)-l.Rank()+d]
		}
		if !fits || t.max > m.span.max || t.grain < m.span.grain {
			continue
		}
		return g.commit(&ir.Instr{Op: op, In: []ir.Operand{operand(m.v), operand(t.v)}, Attrs: []ir.Attr{{Name: "offset", Exprs: g.offset(m, l.Shape())}}})
	}
	return false
}

// copyAsync copies a tensor of its own to shared memory and waits for it.
func (g *generator) copyAsync(op *ir.Op) bool {
	m := g.sharedTile(op)
	if m == nil || product(m.shape) > maxArray {
		return false
	}
	shape := append([]int(nil), m.shape...)
	if g.chance(30) {
		shape[0] = max(1, shape[0]-1) // what lies outside becomes 0
	}
	values := g.values(m.v.Type.Elem, shape)
	if s := spanOf(values); s.max > m.span.max || s.grain < m.span.grain {
		return false
	}
	src := g.param("a", values, false)
	offset := ir.Attr{Name: "offset"}
	for range shape {
		x := ir.Expr(ir.NewInt(0))
		if g.chance(20) {
			x = g.expr(1).e
		}
		offset.Exprs = append(offset.Exprs, x)
	}
	in := &ir.Instr{Op: op, In: []ir.Operand{operand(src.v), operand(m.v)}, Attrs: []ir.Attr{offset}}
	if g.chance(20) {
		in.Attrs = append(in.Attrs, ir.Attr{Name: "keep", Word: "l1"})
	}
	if g.broken(in) {
		return false
	}
	g.touch(m.root, true)
	g.add(in)
	if g.chance(60) {
		g.add(&ir.Instr{Op: ir.OpByName("CopyAsyncCommitGroup")})
		g.add(&ir.Instr{Op: ir.OpByName("CopyAsyncWaitGroup"), Attrs: []ir.Attr{{Name: "n", Number: 0}}})
	} else {
		g.add(&ir.Instr{Op: ir.OpByName("CopyAsyncWaitAll")})
	}
	g.synchronize()
	return true
}

// atomicScalar steps a counter of the block.
func (g *generator) atomicScalar(op *ir.Op) bool {
	m := g.param("o", array.New(dtype.I32, g.blocks, 2), true)
	word, value := pick(g, op.Spec("op").Words), func() ir.Operand { return ir.Operand{Expr: ir.NewInt(pick(g, []int64{0, 1, 3, -1}))} }
	in := &ir.Instr{Op: op, In: []ir.Operand{operand(m.v), value()}, Out: []*ir.Var{{Name: g.name("c"), Type: ir.ScalarOf(dtype.I32)}},
		Attrs: []ir.Attr{{Name: "offset", Exprs: []ir.Expr{g.block0(), g.within(1)}}, {Name: "op", Word: word}}}
	if word == "cas" {
		in.In = append(in.In, value())
	}
	if g.chance(30) {
		in.Attrs = append(in.Attrs, ir.Attr{Name: "order", Word: pick(g, op.Spec("order").Words)})
	}
	return g.commit(in)
}

// recipes is the table, read once.
var recipes = sync.OnceValues(recipe.Table)

// castPlaced draws a cast of stored codes whose bits lie as a recipe of vm/recipe
// wants them: by Cast, or by CastDeferred where the recipe leaves powers of two.
func (g *generator) castPlaced(op *ir.Op) bool {
	table, err := recipes()
	if err != nil || len(g.o.Products) == 0 {
		return false
	}
	r := pick(g, table)
	l := layout.Local(1, 1+g.r.IntN(2)).Spatial(g.warps(), 1).Mul(pick(g, g.o.Products).LA)
	n, w := l.Slots(), r.From.Bits()
	if mode := recipe.Exact; op.Name == "CastDeferred" && r.Mode == mode || op.Name == "Cast" && r.Mode != mode || r.Recode || n%r.Elements() != 0 || n*w%32 != 0 {
		return false
	}
	place, err := r.Place.Repeat(n / r.Elements())
	if err != nil || !place.Full() {
		return false
	}
	stored := g.supply(dtype.U32, layout.Spatial(g.threads()).Local(n*w/32))
	t, ok := registers(r.From, l)
	if !ok || stored == nil {
		return false
	}
	t.Place, t.HasPlace = place, true
	view := &ir.Instr{Op: ir.OpByName("View"), In: []ir.Operand{operand(stored.v)}, Out: []*ir.Var{{Name: g.name("w"), Type: t}}}
	if g.broken(view) {
		return false
	}
	g.add(view)
	in := &ir.Instr{Op: op, In: []ir.Operand{operand(view.Out[0])}, Out: []*ir.Var{{Name: g.name("v"), Type: ir.RegisterOf(r.To, l)}}}
	if r.Domain.Finite || r.From.HasInf() || r.From.HasNaN() {
		in.Attrs = append(in.Attrs, ir.Attr{Name: "domain", Word: "finite"})
	}
	s := typeSpan(r.From).cast(r.To)
	if op.Name == "CastDeferred" {
		if g.chance(30) {
			in.Attrs = append(in.Attrs, ir.Attr{Name: "least", Number: float64(r.Least())})
		}
		rows, err := l.ReduceTo([]int{l.Shape()[0], 1})
		if err != nil {
			return false
		}
		in.Out = append(in.Out, &ir.Var{Name: g.name("v"), Type: ir.RegisterOf(dtype.F32, rows)})
		s = wild
	}
	if g.broken(in) {
		return false
	}
	g.add(in)
	for i, v := range in.Out {
		if i > 0 {
			s = wild
		}
		g.tiles = append(g.tiles, &tile{v: v, span: s, born: len(g.trips), home: g.at})
	}
	return true
}

// sliceGlobal takes a part of an input.
func (g *generator) sliceGlobal(op *ir.Op) bool {
	m, ok := g.memory(op, ir.AcceptGlobal)
	if !ok || m.output {
		return false
	}
	part := append([]int(nil), m.shape[g.r.IntN(len(m.shape)):]...)
	for d := range part {
		part[d] = 1 + g.r.IntN(part[d])
	}
	var shape []ir.Expr
	for _, n := range part {
		shape = append(shape, ir.NewInt(int64(n)))
	}
	in := &ir.Instr{Op: op, In: []ir.Operand{operand(m.v)}, Attrs: []ir.Attr{{Name: "offset", Exprs: g.offset(m, part)}}, Out: []*ir.Var{{Name: g.name("g"), Type: ir.GlobalOf(m.v.Type.Elem, shape...)}}}
	if g.broken(in) {
		return false
	}
	g.add(in)
	g.mems = append(g.mems, &memory{v: in.Out[0], root: m.root, shape: part, span: m.span, home: g.at})
	return true
}

// random draws random numbers of a tile of counters.
func (g *generator) random(op *ir.Op) bool {
	x := g.supply(pick(g, []dtype.Type{dtype.I32, dtype.U32}), g.layout())
	if x == nil {
		return false
	}
	l, err := ir.RandomLayout(x.v.Type.Layout)
	if err != nil {
		return false
	}
	t, ok := registers(dtype.U32, l)
	return ok && g.commit(&ir.Instr{Op: op, In: []ir.Operand{{Expr: ir.NewInt(g.r.Int64N(1 << 30))}, operand(x.v)}, Out: []*ir.Var{{Name: g.name("v"), Type: t}}})
}

// allocateGlobal makes a tensor of the launch's own, of which each block has a part.
func (g *generator) allocateGlobal(op *ir.Op) bool {
	x := g.anyTile()
	if x == nil || g.at != g.p.Body {
		return false
	}
	dims := x.v.Type.Layout.Shape()
	shape := []ir.Expr{ir.NewRef(g.p.Params[0])}
	for _, n := range dims {
		shape = append(shape, ir.NewInt(int64(n)))
	}
	in := &ir.Instr{Op: op, Attrs: []ir.Attr{{Name: "init", Number: 0}}, Out: []*ir.Var{{Name: g.name("g"), Type: ir.GlobalOf(x.v.Type.Elem, shape...)}}}
	if x.v.Type.HasPlace || g.broken(in) {
		return false
	}
	g.add(in)
	m := &memory{v: in.Out[0], root: &storage{}, shape: append([]int{g.blocks}, dims...), span: wild, output: true, home: g.at}
	g.roots, g.mems = append(g.roots, m.root), append(g.mems, m)
	store := &ir.Instr{Op: ir.OpByName("StoreGlobal"), In: []ir.Operand{operand(m.v), operand(x.v)}, Attrs: []ir.Attr{{Name: "offset", Exprs: g.offset(m, nil)}}}
	if g.broken(store) {
		return true
	}
	g.touch(m.root, true)
	g.add(store)
	return true
}
