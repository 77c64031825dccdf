package randprog

import (
	"math"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// instruction places one instruction of a row drawn at random.
func (g *generator) instruction() {
	ops := ir.Ops()
	if g.o.Only != nil {
		ops = slices.DeleteFunc(ops, func(op *ir.Op) bool { return !g.o.Only(op) })
	}
	for range 12 {
		if op := pick(g, ops); g.try(func() bool { return g.place(op) }) {
			return
		}
	}
}

// place tries to add an instruction of a row, and what it needs before it.
func (g *generator) place(op *ir.Op) bool {
	switch op.Family {
	case "barrier", "tensor", "bulk", "launch", "tcgen05", "wgmma", "cluster":
		return false // steps of a protocol, and of sm_90 only: alone they wait forever
	}
	switch op.Name {
	case "BlockIndices", "ViewGlobal":
		return false // at the start, and with each array
	case "LoadGlobal":
		e, l := g.elem(), g.layout()
		return g.loadGlobal(e, l) != nil
	case "StoreGlobal":
		return len(g.tiles) > 0 && g.storeGlobal(pick(g, g.tiles))
	case "AllocateRegister":
		return g.allocate(g.elem(), g.layout()) != nil
	case "View":
		return g.view(g.anyTile()) != nil
	case "Dot":
		return g.dot(op)
	case "CastDeferred":
		return slices.ContainsFunc(make([]int, 30), func(int) bool { return g.try(func() bool { return g.castPlaced(op) }) })
	case "SliceGlobal":
		return g.sliceGlobal(op)
	case "AllocateGlobal":
		return g.allocateGlobal(op)
	case "Random":
		return g.random(op)
	case "AllocateShared":
		return g.allocateShared(op) != nil
	case "FreeShared":
		return g.freeShared(op)
	case "SliceShared":
		return g.sliceShared(op)
	case "LoadShared":
		return g.loadShared(op)
	case "StoreShared":
		return g.storeShared(op)
	case "CopyAsync":
		return g.copyAsync(op)
	case "AtomicScalar":
		return g.atomicScalar(op)
	}
	if op.Name == "Cast" && g.chance(30) && g.try(func() bool { return g.castPlaced(op) }) {
		return true
	}
	for range 60 {
		if g.try(func() bool {
			in := g.propose(op)
			return in != nil && g.commit(in)
		}) {
			return true
		}
	}
	return false
}

// elem draws an element type, those that programs use most more often.
func (g *generator) elem() dtype.Type {
	if g.chance(70) {
		return pick(g, []dtype.Type{dtype.F32, dtype.F32, dtype.F16, dtype.F16, dtype.BF16, dtype.I32, dtype.I32, dtype.U32, dtype.U8, dtype.I8, dtype.U4, dtype.I6})
	}
	return pick(g, dtype.All())
}

// maxTile bounds the elements of a tile, and maxSlots those of one thread, so that
// interpreter and simulator stay quick.
const (
	maxTile  = 4096
	maxSlots = 64
)

// layout draws a register layout over the threads of the block, often one that
// the program has already.
func (g *generator) layout() layout.Layout {
	if len(g.tiles) > 0 && g.chance(50) {
		return pick(g, g.tiles).v.Type.Layout
	}
	t := g.threads()
	a := pick(g, []int{1, 2, 4, 8, 16, 32})
	b := t / a
	local := []int{1, 1, 2, 2, 3, 4}
	spatial := layout.Spatial(a, b)
	if g.chance(30) {
		spatial = layout.ColumnSpatial(a, b)
	}
	switch g.r.IntN(9) {
	case 0, 1:
		return layout.Spatial(t).Local(pick(g, []int{1, 2, 4, 8, 3}))
	case 2:
		return layout.Local(pick(g, local)).Spatial(t).Local(pick(g, local))
	case 3, 4:
		return layout.Local(pick(g, local), 1).Mul(spatial).Local(1, pick(g, local))
	case 5:
		return spatial.ColumnLocal(pick(g, local), pick(g, local))
	case 6:
		if r := pick(g, []int{2, 4, 8}); b%r == 0 {
			return layout.Spatial(a, b/r).Replicated(r, 1, 1).Local(pick(g, local), pick(g, local))
		}
		return spatial
	case 7:
		if l, err := layout.AutoLocalSpatial(t, pick(g, []int{4, 8, 16, 5}), pick(g, []int{8, 16, 32, 6})); err == nil {
			return l
		}
		return layout.Spatial(t)
	}
	if len(g.o.Products) > 0 {
		p := pick(g, g.o.Products)
		return layout.Spatial(g.warps(), 1).Mul(pick(g, []layout.Layout{p.LA, p.LB, p.LC}))
	}
	return spatial
}

func (g *generator) anyTile() *tile {
	if len(g.tiles) == 0 || g.chance(10) {
		return g.supply(g.elem(), g.layout())
	}
	return pick(g, g.tiles)
}

// supply gives a tile of a type and layout: one there is, or one made for it.
func (g *generator) supply(e dtype.Type, l layout.Layout) *tile {
	if t := g.have(e, l); t != nil && g.chance(70) {
		return t
	}
	if g.chance(25) {
		return g.allocate(e, l)
	}
	if t := g.loadGlobal(e, l); t != nil {
		return t
	}
	return g.allocate(e, l)
}

// have finds a tile of the program of a type and layout.
func (g *generator) have(e dtype.Type, l layout.Layout) *tile {
	for _, i := range g.r.Perm(len(g.tiles)) {
		if t := g.tiles[i]; t.v.Type.Elem == e && t.v.Type.Layout.Equal(l) && !t.v.Type.HasPlace {
			return t
		}
	}
	return nil
}

func registers(e dtype.Type, l layout.Layout) (ir.Type, bool) {
	return ir.RegisterOf(e, l), l.Size() <= maxTile && l.Slots() <= maxSlots && l.Rank() > 0
}

func (g *generator) allocate(e dtype.Type, l layout.Layout) *tile {
	t, ok := registers(e, l)
	if !ok {
		return nil
	}
	n := pick(g, []float64{0, 0, 1, 2, -1, 3})
	if n < e.Min() || n > e.Max() || e.Decode(e.Encode(n, true)) != n {
		n = 0
		if e.Min() > 0 {
			return nil
		}
	}
	in := &ir.Instr{Op: ir.OpByName("AllocateRegister"), Attrs: []ir.Attr{{Name: "init", Number: n}}, Out: []*ir.Var{{Name: g.name("r"), Type: t}}}
	s := typeSpan(e)
	if e.IsFloat() {
		s = span{math.Abs(n), 0}
	}
	return g.keep(in, s)
}

// keep adds an instruction that makes one new tile.
func (g *generator) keep(in *ir.Instr, s span) *tile {
	if g.broken(in) {
		return nil
	}
	g.add(in)
	t := &tile{v: in.Out[0], span: s, born: len(g.trips), home: g.at}
	g.tiles = append(g.tiles, t)
	return t
}

// broken reports that an instruction breaks a rule of its row here.
func (g *generator) broken(in *ir.Instr) bool {
	at := g.at.Stmts
	g.at.Stmts = append(at[:len(at):len(at)], in) // rules may look where it stands
	defer func() { g.at.Stmts = at }()
	for _, r := range in.Op.Rules {
		if r.Check(g.p, in) != nil {
			return true
		}
	}
	return false
}

func operand(v *ir.Var) ir.Operand { return ir.Operand{Expr: ir.NewRef(v)} }

// propose draws an instruction of a row by its ports and attributes alone; the
// row's rules say whether it is one.
func (g *generator) propose(op *ir.Op) *ir.Instr {
	in := &ir.Instr{Op: op}
	var anchor *tile
	var tensor *memory
	for i, port := range op.In {
		if port.Optional && g.chance(50) {
			break
		}
		o, ok := ir.Operand{}, true
		switch kinds := port.Accept; {
		case kinds&ir.AcceptRegister != 0 && (kinds == ir.AcceptRegister || anchor == nil || g.chance(75)):
			t := g.named(port.Name, anchor)
			if t == nil {
				t = g.partner(anchor, kinds != ir.AcceptRegister)
			}
			if t == nil {
				return nil
			}
			if anchor == nil {
				anchor = t
			}
			o = operand(t.v)
		case kinds&ir.AcceptScalar != 0:
			o.Expr = g.literal(anchor)
		case kinds&(ir.AcceptShared|ir.AcceptGlobal) != 0:
			if tensor, ok = g.memory(op, kinds); ok {
				o = operand(tensor.v)
			}
		default:
			ok = false
		}
		if !ok {
			return nil
		}
		if i == 1 && anchor != nil && (op.Name == "Div" || op.Name == "Mod") && !anchor.v.Type.Elem.IsFloat() {
			o.Expr = ir.NewInt(pick(g, []int64{1, 2, 3, 7})) // never zero
		}
		in.In = append(in.In, o)
	}
	for _, a := range op.Attrs {
		if a.Name == "blocks" {
			continue // for the last statement of a program, which this is not
		}
		if !a.Required && g.chance(50) || a.Name == "approx" {
			continue // approximations may differ between machines
		}
		attr := ir.Attr{Name: a.Name}
		switch a.Kind {
		case ir.AttrWord:
			attr.Word = pick(g, a.Words)
		case ir.AttrText:
			attr.Word = "x"
		case ir.AttrNumber:
			attr.Number = float64(g.r.IntN(3))
		case ir.AttrInts:
			rank := 2
			if anchor != nil {
				rank = anchor.v.Type.Layout.Rank()
			} else if tensor != nil {
				rank = len(tensor.shape)
			}
			for _, n := range g.integers(rank) {
				attr.Exprs = append(attr.Exprs, ir.NewInt(int64(n)))
			}
		case ir.AttrExprs:
			switch {
			case tensor != nil:
				attr.Exprs = g.offset(tensor, nil)
			case anchor != nil:
				for _, n := range anchor.v.Type.Layout.Shape() {
					attr.Exprs = append(attr.Exprs, ir.NewInt(pick(g, []int64{0, 0, int64(n / 2)})))
				}
			default:
				return nil
			}
		default:
			return nil
		}
		in.Attrs = append(in.Attrs, attr)
	}
	for _, port := range op.Out {
		if port.Optional && g.chance(50) {
			break
		}
		v := &ir.Var{Name: g.name("v")}
		switch {
		case port.Accept&ir.AcceptRegister != 0:
			if anchor == nil && tensor == nil {
				if anchor = g.anyTile(); anchor == nil {
					return nil
				}
			}
			t, ok := g.result(in, anchor, tensor)
			if !ok {
				return nil
			}
			v.Type = t
		case port.Accept&ir.AcceptScalar != 0:
			v.Type = ir.ScalarOf(dtype.I32)
		case port.Accept&ir.AcceptShared != 0 && tensor != nil && tensor.v.Type.IsShared():
			l, err := g.sharedView(in, tensor.v.Type.Shared)
			if err != nil {
				return nil
			}
			v.Type = ir.SharedOf(tensor.v.Type.Elem, l)
		default:
			return nil
		}
		in.Out = append(in.Out, v)
	}
	return in
}

// named draws an operand whose name says what it must be, or is nil.
func (g *generator) named(port string, anchor *tile) *tile {
	l := g.layout()
	if anchor != nil {
		l = anchor.v.Type.Layout
	}
	switch {
	case port == "cond" && g.chance(90):
		return g.supply(dtype.Bool, l)
	case port == "indices" && g.chance(70): // small ones are inside
		return g.allocate(dtype.I32, l)
	}
	return nil
}

// integers draws a list: dimensions, one small number for each, or one number.
func (g *generator) integers(rank int) []int {
	switch g.r.IntN(4) {
	case 0:
		out := ones(rank)
		out[g.r.IntN(rank)] = 2
		return out
	case 1:
		return []int{pick(g, []int{1, 2, 4, 8, 16})}
	}
	return g.r.Perm(rank)[:1+g.r.IntN(rank)]
}

// half is a layout of half of a tensor, held by the threads that hold the whole.
func (g *generator) half(l layout.Layout) (layout.Layout, error) {
	shape := ones(l.Rank())
	shape[g.r.IntN(len(shape))] = 2
	if g.chance(50) {
		return l.Div(layout.Local(shape...))
	}
	return l.LeftDiv(layout.Local(shape...))
}

// partner draws an operand beside the first one: most often of the same type.
func (g *generator) partner(anchor *tile, broadcast bool) *tile {
	if anchor == nil {
		return g.anyTile()
	}
	t := anchor.v.Type
	switch k := g.r.IntN(10); {
	case k < 5:
		return g.supply(t.Elem, t.Layout)
	case k < 7:
		if x := g.supply(pick(g, []dtype.Type{dtype.Bool, dtype.I32, g.elem()}), t.Layout); x != nil {
			return x
		}
	case k == 7 && !broadcast:
		if l, err := g.half(t.Layout); err == nil {
			return g.supply(t.Elem, l)
		}
	case k < 9 && broadcast:
		dims := t.Layout.Shape()
		for d := range dims {
			if g.chance(50) {
				dims[d] = 1
			}
		}
		if l, err := t.Layout.ReduceTo(dims); err == nil {
			return g.supply(t.Elem, l)
		}
	}
	return g.anyTile()
}

// literal is a scalar operand that goes with a tile.
func (g *generator) literal(with *tile) ir.Expr {
	if with != nil && with.v.Type.Elem.IsFloat() {
		return &ir.Float{Value: pick(g, []float64{0.5, 1, 2, 3, -1})}
	}
	if g.chance(50) {
		return ir.NewInt(pick(g, []int64{0, 1, 2, 3, 5}))
	}
	return g.expr(1).e
}

// memory draws a tensor for an op to read, or one to write.
func (g *generator) memory(op *ir.Op, kinds ir.Accept) (*memory, bool) {
	var list []*memory
	for _, m := range g.mems {
		switch {
		case m.v.Type.IsShared() && kinds&ir.AcceptShared != 0:
		case m.v.Type.IsGlobal() && kinds&ir.AcceptGlobal != 0 && (m.output || op.Effects&ir.WritesGlobal == 0):
		default:
			continue
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		return nil, false
	}
	return pick(g, list), true
}

// offset draws an index of a tensor such that a tile of a shape along the last
// dimensions lies inside; for outputs, in the block's own part.
func (g *generator) offset(m *memory, part []int) []ir.Expr {
	out := make([]ir.Expr, len(m.shape))
	for d, n := range m.shape {
		room := n - 1
		if k := d - len(m.shape) + len(part); part != nil && k >= 0 {
			room = n - part[k]
		}
		out[d] = g.within(int64(room))
	}
	if m.output {
		out[0] = g.block0()
	}
	return out
}

// block0 is the index of the block.
func (g *generator) block0() ir.Expr {
	return ir.NewRef(g.p.Body.Stmts[0].(*ir.Instr).Out[0])
}

// within draws an expression from 0 to n.
func (g *generator) within(n int64) ir.Expr {
	if n <= 0 || g.chance(40) {
		return ir.NewInt(0)
	}
	if x := g.expr(1); x.lo >= 0 && x.hi <= n {
		return x.e
	} else if x.lo >= -largest && g.chance(60) {
		return &ir.Binary{Op: "%", X: x.e, Y: ir.NewInt(n + 1)}
	}
	return ir.NewInt(g.r.Int64N(n + 1))
}

// result draws a type for a result tile from the operands and attributes.
func (g *generator) result(in *ir.Instr, anchor *tile, from *memory) (ir.Type, bool) {
	if anchor == nil {
		l, err := layout.AutoLocalSpatial(g.threads(), from.shape[min(1, len(from.shape)-1):]...)
		if err != nil || g.chance(30) {
			l = g.layout()
		}
		return registers(from.v.Type.Elem, l)
	}
	e := anchor.v.Type.Elem
	switch g.r.IntN(8) {
	case 0:
		e = dtype.Bool
	case 1:
		e = dtype.I32
	case 2, 3:
		e = g.elem()
	case 4:
		if v := last(in); v != nil {
			e = v.Type.Elem
		}
	}
	l := anchor.v.Type.Layout
	if v := last(in); v != nil && g.chance(30) {
		l = v.Type.Layout
	}
	var dims []int
	for _, a := range in.Attrs {
		if spec := in.Op.Spec(a.Name); spec.Kind == ir.AttrInts {
			dims = in.Dims(0, 0)
			for i, x := range a.Exprs {
				n, _ := ir.ConstInt(x)
				dims = append(dims[:i], int(n))
			}
		} else if spec.Kind == ir.AttrNumber {
			dims = append(dims[:0], int(a.Number))
		}
	}
	if dims == nil || g.chance(20) {
		dims = g.r.Perm(l.Rank())[:1+g.r.IntN(l.Rank())]
	}
	m, err := l, error(nil)
	switch k := g.r.IntN(13); {
	case k < 4:
	case k == 4:
		m, err = l.Reduce(dims, true)
	case k == 5:
		m, err = l.Reduce(dims, false)
	case k == 6:
		m, err = l.Permute(dims...)
	case k == 7:
		m, err = l.Permute(backward(l.Rank())...)
	case k == 8:
		m, err = l.Reshape(g.factors(l.Size())...)
	case k == 9:
		if m, err = l.Unsqueeze(dims...); g.chance(50) {
			m, err = l.Squeeze(dims...)
		}
	case k == 10:
		shape := ones(l.Rank())
		if shape[g.r.IntN(len(shape))] = 2; len(dims) == len(shape) && slices.Min(dims) > 0 {
			shape = dims
		}
		if m = l.Mul(layout.Local(shape...)); g.chance(50) {
			m = layout.Local(shape...).Mul(l)
		}
	case k == 11:
		m, err = g.half(l)
	default:
		m, err = layout.AutoLocalSpatial(g.threads(), l.Shape()...)
	}
	if err != nil {
		return ir.Type{}, false
	}
	return registers(e, m)
}

// last is the register tensor that is the last operand, or nil.
func last(in *ir.Instr) *ir.Var {
	if n := len(in.In); n > 0 {
		if v := in.In[n-1].Var(); v != nil && v.Type.IsRegister() {
			return v
		}
	}
	return nil
}

func ones(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}

// factors draws a shape of n elements.
func (g *generator) factors(n int) []int {
	if a := pick(g, []int{1, 2, 4, 8, 16}); n%a == 0 && g.chance(70) {
		return []int{a, n / a}
	}
	return []int{n}
}

// sharedView is a layout that a view of shared memory may have.
func (g *generator) sharedView(in *ir.Instr, l layout.Shared) (layout.Shared, error) {
	if in.Attr("dims") != nil {
		return l.Permute(in.Order()...)
	}
	switch g.r.IntN(3) {
	case 0:
		var order []int
		for d := l.Rank() - 1; d >= 0; d-- {
			order = append(order, d)
		}
		return l.Permute(order...)
	case 1:
		return l.Reshape(g.factors(l.Size())...)
	}
	return l, nil
}

// commit adds a proposed instruction if its rules hold and its values stay equal
// on all machines, with what memory needs before and after it.
func (g *generator) commit(in *ir.Instr) bool {
	spans := g.spans(in)
	if spans == nil || g.broken(in) {
		return false
	}
	if strings.Contains(in.Op.Name, "Scatter") && !commutes(in) {
		return false
	}
	root := g.root(in)
	if strings.HasPrefix(in.Op.Name, "Atomic") && in.In[0].Var().Type.IsGlobal() && root != nil {
		// Blocks come in any order: each stays in its part, or all do the same.
		how := "apart"
		if !alone(in) {
			how = in.Attr("op").Word
		}
		if how != "apart" && !commutes(in) || root.atomics != "" && root.atomics != how {
			return false
		}
		root.atomics = how
	}
	for i, v := range in.Out {
		if v.Type.IsRegister() {
			g.update(in, i, spans[i])
		}
	}
	if writes := in.Op.Effects&(ir.WritesGlobal|ir.WritesShared) != 0; root != nil && (writes || in.Op.Effects&(ir.ReadsGlobal|ir.ReadsShared) != 0) {
		g.touch(root, writes)
	}
	g.add(in)
	if in.Op.Effects&ir.Synchronizes != 0 && in.Op.Name == "Synchronize" {
		for _, r := range g.roots {
			r.read, r.written = false, false
		}
	}
	for i, v := range in.Out {
		switch {
		case v.Type.Kind == ir.Scalar:
			g.scalars = append(g.scalars, scalar{ir.NewRef(v), -2000, 2000})
		case v.Type.IsShared():
			dims, _ := v.Type.Dims()
			g.mems = append(g.mems, &memory{v: v, root: root, shape: dims, span: spans[i]})
		case v.Type.IsRegister() && !slices.ContainsFunc(g.tiles, func(t *tile) bool { return t.v == v }):
			g.tiles = append(g.tiles, &tile{v: v, span: spans[i], born: len(g.trips), home: g.at})
		}
	}
	return true
}

// commutes reports that it does not matter in which order the elements of an
// instruction come to one place.
func commutes(in *ir.Instr) bool {
	a := in.Attr("op")
	if a == nil {
		return true // two threads at one place are a race, which machines report
	}
	return len(in.Out) == 0 && !in.In[len(in.In)-1].Var().Type.Elem.IsFloat() && a.Word != "exch" && a.Word != "cas"
}

// alone reports that the atomic steps of an instruction stay in the block's own part of
// a global tensor, its first dimension.
func alone(in *ir.Instr) bool {
	g, at := in.In[0].Var().Type, 1
	if strings.Contains(in.Op.Name, "Scatter") {
		at = 2
	}
	if at == 2 && in.ScatterDim() == 0 {
		return false
	}
	if in.Op.Name == "AtomicScalar" {
		return true // which steps a counter of the block
	}
	shape := in.In[at].Var().Type.Shape
	for d, along := range in.Dims(len(g.Shape), len(shape)) {
		if n, ok := ir.ConstInt(shape[d]); along == 0 && (!ok || n > 1) {
			return false
		}
	}
	return true
}

// root is the storage that an instruction's memory operand is a view of.
func (g *generator) root(in *ir.Instr) *storage {
	for _, o := range in.In {
		for _, m := range g.mems {
			if m.v == o.Var() {
				return m.root
			}
		}
	}
	return nil
}

// update lets the result go to a variable that there is, where its span allows.
func (g *generator) update(in *ir.Instr, i int, s span) {
	if !g.chance(35) {
		return
	}
	for _, k := range g.r.Perm(len(g.tiles)) {
		t := g.tiles[k]
		if !t.v.Type.Equal(in.Out[i].Type) || slices.Contains(in.Out, t.v) {
			continue
		}
		inside := s.max <= t.max && s.grain >= t.grain || !t.v.Type.Elem.IsFloat()
		switch {
		case len(g.trips) == t.born && t.home == g.at:
			t.span = s
		case inside:
		case len(g.trips) == t.born:
			t.span = t.span.join(s)
		default:
			turns := 1.0
			for _, n := range g.trips[t.born:] {
				turns *= float64(n)
			}
			// What is added in all turns must fit the room.
			reads := slices.ContainsFunc(in.In, func(o ir.Operand) bool { return o.Var() == t.v })
			if more := (s.max - t.max) * turns; !reads || s.grain < t.grain || !(more <= t.room) {
				continue
			} else {
				t.room -= more
			}
		}
		in.Out[i] = t.v
		return
	}
}

// spans bounds the results, or is nil where machines may add up differently.
func (g *generator) spans(in *ir.Instr) []span {
	var from []span
	size, floats := 1, false
	for _, o := range in.In {
		switch v := o.Var(); {
		case v != nil && v.Type.IsRegister():
			i := slices.IndexFunc(g.tiles, func(t *tile) bool { return t.v == v })
			from = append(from, g.tiles[i].span)
			size, floats = max(size, v.Type.Layout.Size()), floats || v.Type.Elem.IsFloat()
		case v != nil && v.Type.Kind == ir.Tensor:
			i := slices.IndexFunc(g.mems, func(m *memory) bool { return m.v == v })
			from = append(from, g.mems[i].span)
		default:
			if f, ok := o.Expr.(*ir.Float); ok {
				from = append(from, span{math.Abs(f.Value), -1})
			} else {
				from = append(from, span{largest, 0})
			}
		}
	}
	all := span{0, 0}
	for _, s := range from {
		all = all.join(s)
	}
	sum := span{all.max * float64(size), all.grain}
	steady := true // whatever order terms are taken in
	switch in.Op.Class {
	case ir.ClassElementwise, ir.ClassView, ir.ClassMemory, ir.ClassIndex:
	default:
		for _, o := range in.In {
			if v := o.Var(); floats && v != nil && v.Type.IsRegister() && v.Type.Elem.IsFloat() {
				steady = steady && sum.exact(v.Type.Elem)
			}
		}
		for _, a := range in.Attrs {
			if floats && (a.Word == "mul" || a.Word == "prod") {
				steady = false
			}
		}
	}
	if !steady {
		return nil
	}
	out := make([]span, len(in.Out))
	for i, v := range in.Out {
		e := v.Type.Elem
		if !e.IsFloat() || v.Type.Kind != ir.Tensor {
			out[i] = typeSpan(e)
			continue
		}
		s := wild
		switch in.Op.Name {
		case "Add", "Sub":
			s = span{from[0].max + from[1].max, all.grain}
		case "Mul":
			s = from[0].mul(from[1])
		case "Fma":
			p := from[0].mul(from[1])
			s = span{p.max + from[2].max, min(p.grain, from[2].grain)}
		case "Cast":
			s = from[0].cast(e)
			if from[0] == wild && in.In[0].Var().Type.Elem.IsFloat() {
				s = wild
			}
		case "Neg", "Abs", "Min", "Max", "Clip", "Where":
			s = all
		default:
			if in.Op.Class == ir.ClassView || in.Op.Class == ir.ClassMemory || in.Op.Family == "register" || in.Op.Family == "movement" {
				s = all
			} else if in.Op.Class != ir.ClassElementwise {
				s = sum
			}
		}
		if !s.exact(e) {
			s = wild
		}
		out[i] = s
	}
	return out
}

func backward(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = n - 1 - i
	}
	return out
}
