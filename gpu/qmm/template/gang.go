package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// gang is a [stream] whose products are those of warpgroups (wgmma): weights are in
// registers, rows of x the columns of what lies in shared memory, and while one product
// runs, the weights of the next are cast. Two warps bring x into the order in which the
// weights are packed.
//
// With Fixed, they write x of a group of k as whole numbers of 16 bits, whose scale is a
// power of two: two digits of base 256 between −128 and 127, rows of their own of a
// product of bytes, whose sums are exact. The largest element of the group has 15 or 14
// bits then, where f16 has 11; what an f16 result rounds is more than what the others
// lose. Four codes are cut out of a word by one mask, wherever in their bytes they lie.
type gang struct {
	*stream
	w              *wide
	sa, sxs, scale build.Value // x as matrix instructions take it, its sums, its scales
	sums, one      build.Type  // of a product of bytes; of a digit of it
	oneF32, oneRow build.Type
	flat           layout.Layout // of sums, as threads have them
}

// fixedScale makes room for the digit above: ±32639 is the largest number of two digits.
const fixedScale = 32768. / 32639

// fillGang checks a schedule with Warpgroups.
func (s Schedule) fillGang(p *Plan) error {
	switch {
	case s.Digits || s.Depth > 1 && !s.Fixed || s.Rows != 8 && s.Rows != 16 || s.Warps%4 != 0:
		return fmt.Errorf("template: %d rows, depth %d, %d warps: warpgroups are of 4 warps, multiply 8 or 16 rows, a turn at a time, without Digits", s.Rows, s.Depth, s.Warps)
	case s.Fine && s.Fixed:
		return fmt.Errorf("template: whole numbers are multiplied by tiles anyway")
	case s.Once && p.Folds:
		return fmt.Errorf("template: one copy of the turn beside folded scales, where products begun in vain would be added; leave Once out")
	case s.Fine:
		return p.fills(WideSchedule{Sides: s.Sides})
	case s.Fixed && !p.Bytewise():
		return fmt.Errorf("template: whole numbers for %s: they are for codes of 1, 2 or 4 bits that are stored without a sign (here as %s) and have no zero points taken off, in groups of %d", p.Weight, p.Stored, Turn)
	}
	return nil
}

// gangNeeds is about how many registers a thread that multiplies needs: outputs, sums of
// the products that run, and their weights.
func (p *Plan) gangNeeds(s Schedule) int {
	acc := p.Tiles * s.Sides * s.Rows / 2
	if s.Fine {
		return 36 + acc + s.Rows + fineK/2 + p.bytesPerLane()*(Turn/p.Sub)/4
	}
	if !s.Fixed {
		return 40 + 2*acc + p.Tiles*p.Sub/2 + p.bytesPerLane()/4
	}
	both := 2
	if s.Warps >= 16 {
		both = 1
	}
	return 40 + acc + both*(s.Rows+16) + p.bytesPerLane()*(Turn/p.Sub)/4
}

func newGang(d *stream) *gang {
	s := WideSchedule{Rows: d.Rows, Consumers: d.Warps / 4, Sides: d.Sides, Stages: d.Stages, Cluster: 1, Fine: d.Fine, Once: d.Once}
	if !d.Fixed {
		d.Plan = d.Plan.halved(s)
	}
	g := &gang{stream: d, w: &wide{decoder: d.decoder, s: s, gang: true}}
	of := func(columns int) layout.Layout {
		return layout.Spatial(d.Warps, 1).ColumnLocal(2, columns/8).Spatial(8, 4).Local(1, 2)
	}
	g.sums, g.one, g.oneF32 = build.Register(dtype.I32, of(2*d.Rows)), build.Register(dtype.I32, of(d.Rows)), build.Register(dtype.F32, of(d.Rows))
	g.flat = layout.Spatial(d.Warps, 1, 1, 1).Local(1, g.pieces(), 1, 1).Spatial(1, 1, 32, 1).Local(1, 1, 1, 4)
	g.oneRow = build.Register(dtype.F32, layout.Spatial(d.Warps, 1).Local(2, 1).Spatial(8, 1).Mul(layout.Replicated(4, 1, 1)))
	return g
}

// gangRoom is what a stage takes beside what is copied.
func (d *stream) gangRoom() int {
	n := 2*Turn*d.Rows + 4*d.Rows
	if d.shifted() {
		n += 4 * d.Rows * d.scales()
	}
	return n
}

// allocate allocates what the block's own threads write.
func (g *gang) allocate() {
	b := g.b
	if g.Fixed {
		g.sa = b.AllocateShared("sa", build.Shared(dtype.I8, g.digits(g.Stages)))
		g.scale = b.AllocateShared("sc", rowMajor(dtype.F32, g.Stages, 1, g.Rows))
	} else {
		g.sa = b.AllocateShared("sa", build.Shared(g.Act, swizzled(g.Stages*Turn/g.w.piece(), g.Rows, g.w.piece())))
	}
	if g.shifted() {
		g.sxs = b.AllocateShared("sxs", rowMajor(dtype.F32, g.Stages*g.scales(), 1, g.Rows))
	}
}

// digits is the layout of digits of x in so many stages, those of the upper digit first.
func (g *gang) digits(stages int) layout.Shared {
	shape := []int{2 * g.Rows, Turn}
	if stages > 0 {
		shape = append([]int{stages}, shape...)
	}
	l, err := layout.SharedRowMajorSwizzle(8, shape...)
	if err != nil {
		panic(err) // schedules are checked
	}
	return l
}

// share tells the parts of the program what they share.
func (g *gang) share() {
	b, w := g.b, g.w
	w.gx, w.gy, w.m, w.n = g.gx, g.gy, g.m, g.n
	w.bias, w.residual, w.factor = g.bias, g.residual, g.factor
	w.pipe, w.sx, w.sw, w.flat8, w.sxs = g.pipe, g.sa, g.sw, g.flat8, g.sxs
	w.pipe.Full = g.ready        // a turn is, when x is in order
	if g.Group > 0 && !g.Fixed { // whole numbers take the stream's
		of := func(t dtype.Type) build.Type { return rowMajor(t, g.Stages*g.scales()*g.Sides, g.outputs()) }
		w.ss = b.ReshapeShared("scales", g.ss, of(g.Scale))
		if g.Zero {
			w.sz = b.ReshapeShared("zeros", g.sz, of(g.ZeroType()))
		}
	}
}

// gangAside is how many registers threads have that bring x and weights.
const gangAside = 64

// gangRegisters is how many each of the others has, of all that the block begins with.
func (s Schedule) gangRegisters() int {
	begin := min(248, 65536/32/(s.Warps+4)/8*8)
	return min(240, (begin*(s.Warps+4)-4*gangAside)/s.Warps/8*8)
}

// aside is what the warpgroup does that does not multiply.
func (g *gang) aside(copies func()) {
	g.b.Group(32*g.Warps, 128, func() {
		g.b.SetMaxRegisters(build.N(gangAside))
		g.b.Group(0, 1, copies)
		g.b.Group(32, 4*g.Rows, g.arrange)
	})
}

// arrange brings x of the block's turns into order, in warps of its own. They wait for each
// turn: who leaves some to others may find the barrier of a stage two turns behind, which
// looks like the turn that is waited for.
func (g *gang) arrange() {
	b := g.b
	b.For("t", 0, g.mine, func(t build.Value) {
		g.pipe.Wait(t)
		if g.Fixed {
			g.fix(t)
		} else {
			g.order(t)
		}
		b.FenceProxyAsync()
		b.ArriveBarrier(g.ready, t)
	}, build.Unroll(1))
}

// ofRows is a layout of the rows of x over the warps that bring it into order.
func (g *gang) ofRows() layout.Layout { return layout.Spatial(g.Rows/8, 1) }

// rowOf is what all threads of a row of x share, as they have it and as it is stored.
func (g *gang) rowOf() (column, stored build.Type) {
	return build.Register(dtype.F32, g.ofRows().Spatial(8, 1).Mul(layout.Replicated(4, 1, 1))),
		build.Register(dtype.F32, layout.Spatial(1, g.Rows/8).Spatial(1, 8).Mul(layout.Replicated(4, 1, 1)))
}

// keep stores a number of each row of x of turn t.
func (g *gang) keep(name string, to build.Value, t build.Value, per, q int, x build.Value) {
	b := g.b
	_, stored := g.rowOf()
	at := slot(t, g.Stages)
	if per > 1 {
		at = at.Mul(per).Add(q)
	}
	b.StoreShared(b.SliceShared(g.fresh("u"+name), to, rowMajor(dtype.F32, 1, g.Rows), build.Offset(at, 0, 0)), b.View(name+"_row", x, stored))
}

// order is arrange for x as it is.
func (g *gang) order(t build.Value) {
	b, piece := g.b, g.w.piece()
	blocks := piece / (4 * g.Run)
	from := g.ofRows().Local(1, blocks).Spatial(8, 4).Local(1, g.Run)
	to := build.Register(g.Act, g.ofRows().Local(1, blocks).Local(1, g.Run/2).Spatial(8, 4).Local(1, 2))
	column, _ := g.rowOf()
	each := Turn / g.scales() / piece // pieces of a sum
	for i := range Turn / piece {
		x := b.LoadShared(name("x", i), g.tileX("ux", t, i), build.Register(g.Act, from))
		b.StoreShared(g.ordered("ua", t, i), b.View(name("a", i), x, to))
		if !g.shifted() {
			continue
		}
		part := b.Reduce("sum_part", b.Cast("x_wide", x, build.Register(dtype.F32, from)), column, build.Dim(1), build.Op("sum"), build.Keepdims("true"))
		if i%each > 0 {
			part = b.Add("x_sum", build.Expr("x_sum"), part, column)
		} else {
			part = b.Mul("x_sum", part, 1, column)
		}
		if i%each == each-1 {
			g.keep("sum", g.sxs, t, g.scales(), i/each, part)
		}
	}
}

// ordered is a piece of a turn's x in order.
func (g *gang) ordered(name string, t build.Value, i int) build.Value {
	at, per := slot(t, g.Stages), Turn/g.w.piece()
	if per > 1 {
		at = at.Mul(per).Add(i)
	}
	return g.b.SliceShared(g.fresh(name), g.sa, build.Shared(g.Act, swizzled(0, g.Rows, g.w.piece())), build.Offset(at, 0, 0))
}

// fix is arrange for x as whole numbers.
func (g *gang) fix(t build.Value) {
	b := g.b
	from := g.ofRows().Local(1, Turn/32).Spatial(8, 4).Local(1, 8)
	f32, i32 := build.Register(dtype.F32, from), build.Register(dtype.I32, from)
	column, _ := g.rowOf()
	row := g.ofRows().Spatial(8, 1).Mul(layout.Replicated(4, 1, 1))
	ri := build.Register(dtype.I32, row)
	x := b.LoadShared("xk", b.SliceShared(g.fresh("ux"), g.sx, rowMajor(g.Act, g.Rows, Turn), build.Offset(t.Mod(g.Stages), 0, 0), build.Dims(1, 2)), build.Register(g.Act, from))
	x = b.Cast("xf", x, f32)
	// The bits of numbers without sign are in their order; what is no number comes last.
	most := b.Reduce("most", b.And("size", b.View("x_bits", x, i32), 0x7fffffff, i32), ri, build.Dim(1), build.Op("max"), build.Keepdims("true"))
	top := b.View("top", most, column)
	power := b.Max("power", b.Shr("power", b.View("power", b.Mul("top", top, fixedScale, column), ri), 23, ri), 30, ri)
	back := b.View("scale", b.Mul("scale_bits", b.Sub("scale_bits", power, 14, ri), 1<<23, ri), column)
	times := b.View("times", b.Mul("times_bits", b.Sub("times_bits", 268, power, ri), 1<<23, ri), column)
	back = b.Fma("scale", b.View("top", most, column), 0, back, column) // no number where x has such
	q := b.Fma("q", x, times, magicValue, f32)
	if g.shifted() {
		sum := b.Reduce("sum", b.Sub("rounded", q, magicValue, f32), column, build.Dim(1), build.Op("sum"), build.Keepdims("true"))
		g.keep("sum", g.sxs, t, 1, 0, b.Mul("sum", sum, back, column))
	}
	g.keep("scale", g.scale, t, 1, 0, back)
	// Bytes of four neighbours of k, those of the upper digit first: of these, codes that are
	// four bits apart follow each other.
	fours := func(t dtype.Type, n int) build.Type {
		shape := layout.Spatial(g.Rows/8, 1, 1).Local(1, Turn/32, 1).Spatial(8, 4, 1).Local(1, 2, 1)
		if n > 1 {
			shape = shape.Local(1, 1, n)
		}
		return build.Register(t, shape)
	}
	bytes := build.Register(dtype.I8, g.ofRows().Local(1, Turn/32).Local(1, 2).Spatial(8, 4).Local(1, 4))
	words := b.View("fours", b.View("q_bits", q, i32), fours(dtype.I32, 4))
	for i, digit := range []string{"upper_byte", "lower_byte"} {
		from := words
		if i == 0 {
			from = b.Shr("above", b.Add("above", words, 128, fours(dtype.I32, 4)), 8, fours(dtype.I32, 4))
		}
		packed := build.Value{}
		for place, k := range []int{0, 2, 1, 3} {
			one := fours(dtype.I32, 1)
			all := digit + "s"
			part := b.SliceRegister(digit, from, one, build.Offset(0, 0, k))
			if place == 0 {
				packed = b.And(all, part, 255, one)
			} else {
				packed = b.Or(all, packed, b.Shl(digit, b.And(digit, part, 255, one), 8*place, one), one)
			}
		}
		to := b.SliceShared(g.fresh("ua"), g.sa, build.Shared(dtype.I8, g.half()), build.Offset(t.Mod(g.Stages), i*g.Rows, 0), build.Dims(1, 2))
		b.StoreShared(to, b.View(digit+"_bytes", packed, bytes))
	}
}

// half is the layout of one digit of a turn's x.
func (g *gang) half() layout.Shared {
	l, err := layout.SharedRowMajorSwizzle(8, g.Rows, Turn)
	if err != nil {
		panic(err) // schedules are checked
	}
	return l
}

// constants makes what the powers of two of rows are, and the sums of products.
func (g *gang) constants() {
	g.b.SetMaxRegisters(build.N(g.gangRegisters()))
	if !g.Fixed {
		return
	}
	b, w := g.b, g.Stored.Bits()
	rows := layout.Local(g.Tiles, 1).Spatial(g.Warps, 1).Local(2, 1).Spatial(8, 1).Mul(layout.Replicated(4, 1, 1))
	ri := build.Register(dtype.I32, rows)
	n := b.Indices("row", ri, build.Dim(0))
	tile := b.Mul("row_tile", b.Div("row_tile", n, 16*g.Warps, ri), 2, ri)
	q := b.And("row", b.Add("row", tile, b.And("row", b.Shr("row", n, 3, ri), 1, ri), ri), 8/w-1, ri)
	b.View("back", b.Mul("back_bits", b.Add("row", b.Mul("row", q, -w, ri), 127, ri), 1<<23, ri), g.rowF32)
	for i := range g.beside() {
		b.AllocateRegister(name("sum", i), g.sums, build.Init(0))
	}
}

// hangs reports whether products hang over from turn to turn.
func (g *gang) hangs() bool { return !g.Fixed && g.w.hangs() }

// stretch multiplies so many turns of outputs, from t on.
func (g *gang) stretch(t, count build.Value) {
	b := g.b
	if !g.Fixed {
		g.w.begin(t, count.String())
		g.w.several(g.hangs(), t, count, g.mine.Sub(t).Sub(count), func(i build.Value) build.Value { return i }, g.w.turn)
		if g.Fine {
			g.w.joinTiles()
		}
		if g.summed() == 0 {
			g.each(func() {
				if !g.Less && !g.Folds {
					g.loadScale("", "0")
				}
				g.finish("", build.Expr(g.of("acc")), build.Expr("sumx"), true)
			})
		}
		return
	}
	g.each(func() {
		for i := range g.Tiles {
			b.AllocateRegister(g.of(name("acc", i)), g.oneF32, build.Init(0))
		}
	})
	rest := build.Expr("0")
	if g.Depth > 1 { // while the last product of a turn runs, the next turn begins
		rest = b.Let("rest", count.Div(g.Depth).Mul(g.Depth))
		b.For("i", 0, rest, func(i build.Value) {
			at := make([]build.Value, g.Depth)
			for j := range at {
				at[j] = b.Let(name("t", j), t.Add(i.Add(j)))
			}
			g.turnsFixed(at)
		}, build.Unroll(1), build.Step(g.Depth))
	}
	b.For("i", rest, count, func(i build.Value) { g.turnsFixed([]build.Value{b.Let("t0", t.Add(i))}) }, build.Unroll(1))
	g.each(func() {
		acc := b.AllocateRegister(g.of("acc"), g.sum, build.Init(0))
		for i := range g.Tiles {
			b.SliceAssign(g.of("acc"), acc, build.Expr(g.of(name("acc", i))), g.sum, build.Offset(16*g.Warps*i, 0))
		}
	})
}

// pieces is how many times four sums a thread has of a side.
func (g *gang) pieces() int { return g.Tiles * g.Rows / 8 }

// parts is the type of the sums that blocks bring to each other: those of a thread are
// together, for who adds them up has the same ones.
func (g *gang) parts() build.Type {
	return build.Global(dtype.F32, g.Blocks, g.Warps*g.Sides, g.pieces(), 32, 4)
}

// portion is where the i-th part of the present side is.
func (g *gang) portion() partAt {
	return partAt{[]any{g.side * g.Warps, 0, 0, 0}, []any{1, 2, 3, 4}}
}

// total is what the present side came to, and store stores it.
func (g *gang) total() build.Value {
	return g.b.View(g.of("held"), build.Expr(g.of("acc")), build.Register(dtype.F32, g.flat))
}

func (g *gang) store(sums build.Value) {
	g.w.store(g.b.View(g.of("plain"), sums, g.w.actual))
}

// turnsFixed multiplies turns of whole numbers, one behind the other.
func (g *gang) turnsFixed(turns []build.Value) {
	b := g.b
	run := &running{}
	for j, t := range turns {
		g.turnFixed(run, j, t)
	}
	if run.end != nil {
		b.WgmmaWaitGroup(build.N(0))
		run.end()
	}
}

// running is the product that runs.
type running struct {
	count int    // of those before it
	end   func() // what is done when it has ended
}

// beside is how many products of a warpgroup run at a time: one, where there are enough
// warpgroups that others compute meanwhile, which leaves registers.
func (g *gang) beside() int {
	if g.Warps >= 16 {
		return 1
	}
	return 2
}

// begin begins a product, and ends the one before it, or at once this one.
func (g *gang) begin(r *running, end func()) {
	g.b.WgmmaCommitGroup()
	if g.beside() == 1 {
		g.b.WgmmaWaitGroup(build.N(0))
		end()
		return
	}
	if r.end != nil {
		g.b.WgmmaWaitGroup(build.N(1))
		r.end()
	}
	r.end, r.count = end, r.count+1
}

// turnFixed multiplies turn t of whole numbers, the j-th of some.
func (g *gang) turnFixed(run *running, j int, t build.Value) {
	b, w, lane := g.b, g.Stored.Bits(), g.bytesPerLane()
	g.pipe.Wait(t)
	b.WaitBarrier(g.ready, t)
	pieces := build.Register(dtype.U8, layout.Spatial(g.Warps, 1).Local(1, lane/16).Spatial(1, 32).Local(1, 16))
	subs, steps := Turn/g.Sub, g.Sub/32
	words := func(steps, halves int) build.Type {
		return build.Register(dtype.U32, layout.Spatial(g.Warps, 1, 1, 1, 1).Local(1, steps, 1, 1, 1).Local(1, 1, 2, 1, 1).Local(1, 1, 1, halves, 1).Spatial(1, 1, 1, 1, 32))
	}
	left := build.Register(dtype.U8, layout.Spatial(g.Warps, 1).Local(1, Turn/32).ColumnLocal(2, 2).Spatial(8, 4).Local(1, 4))
	across, err := g.digits(0).Transpose(0, 1)
	if err != nil {
		panic(err) // schedules are checked
	}
	ud := b.SliceShared(g.fresh("ud"), g.sa, build.Shared(dtype.I8, g.digits(0)), build.Offset(t.Mod(g.Stages), 0, 0), build.Dims(1, 2))
	ux := b.PermuteShared(g.fresh("ut"), ud, build.Shared(dtype.I8, across))
	load := func(to, from string, s build.Value) build.Value {
		return b.LoadShared(name(to, j), b.SliceShared(g.fresh(from), s, rowMajor(dtype.F32, 1, g.Rows), build.Offset(t.Mod(g.Stages), 0, 0)), g.w.row)
	}
	xs := load("xs", "usc", g.scale)
	var sumx build.Value
	if g.shifted() {
		sumx = load("xsum", "usx", g.sxs)
	}
	g.each(func() {
		tag := fmt.Sprintf("%d_%d", j, g.side)
		g.loadShared(tag, t, 0)
		scale, minus := g.scaleOf(tag)
		// Words to cut codes from: of one bit, both halves of the rows are in two words whose
		// even bytes are those of the first tiles.
		var cut [2][]build.Value
		for sub := range subs {
			from := b.SliceShared(g.fresh("uw"), g.flat8, g.part(), build.Offset(t.Mod(g.Stages), g.side*g.Warps, sub*32*lane))
			rb := b.LoadShared(name("rb", sub), from, pieces)
			one := words(steps, 1)
			if w > 1 {
				cut[0] = append(cut[0], b.View(name("words", sub), rb, one))
				continue
			}
			both := b.View("words", rb, words(steps, 2))
			lo := b.SliceRegister("lo", both, one, build.Offset(0, 0, 0, 0, 0))
			hi := b.SliceRegister("hi", both, one, build.Offset(0, 0, 0, 1, 0))
			const even = 0x00ff00ff
			cut[0] = append(cut[0], b.Or(name("even", sub), b.And("e", lo, even, one), b.And("f", b.Shl("f", hi, 8, one), int64(even)<<8, one), one))
			cut[1] = append(cut[1], b.Or(name("odd", sub), b.And("e", b.Shr("e", lo, 8, one), even, one), b.And("f", hi, int64(even)<<8, one), one))
		}
		for tile := range g.Tiles {
			i := run.count % 2
			u := b.AllocateRegister(name("u", i), words(Turn/32, 2), build.Init(0))
			for half := range 2 {
				of, q := cut[0], 2*tile+half
				if w == 1 {
					of = cut[tile/4]
				}
				for sub, from := range of {
					m := b.And("m", from, int64(0x01010101*(1<<w-1))<<(w*(q%(8/w))), words(steps, 1))
					b.SliceAssign(name("u", i), u, m, words(Turn/32, 2), build.Offset(0, sub*steps, 0, half, 0))
				}
			}
			sum := name("sum", i)
			a := b.View(name("ra", i), u, left)
			b.WgmmaFence()
			b.WgmmaDot(sum, a, ux, build.Expr(sum), g.sums, build.Sum(0))
			side, last := g.side, g.side == g.Sides-1 && tile == g.Tiles-1
			g.begin(run, func() {
				back := g.side
				g.side = side
				if last {
					g.pipe.Release(t)
				}
				g.finishFixed(tile, build.Expr(sum), xs, sumx, scale, minus)
				g.side = back
			})
		}
	})
}

// finishFixed adds sums of digits, times their scales, to a tile's outputs.
func (g *gang) finishFixed(tile int, sum, xs, sumx, scale build.Value, minus *build.Value) {
	b := g.b
	digit := func(as string, i int) build.Value { return b.SliceRegister(as, sum, g.one, build.Offset(0, i*g.Rows)) }
	both := b.Add("both", b.Mul("both", digit("upper", 0), 256, g.one), digit("lower", 1), g.one)
	f := b.Mul("fs", b.Cast("fs", both, g.oneF32), xs, g.oneF32)
	acc, at := g.of(name("acc", tile)), build.Offset(16*g.Warps*tile, 0)
	b.Fma(acc, f, b.SliceRegister("scale_tile", scale, g.oneRow, at), build.Expr(acc), g.oneF32)
	if minus != nil {
		b.Fma(acc, sumx, b.SliceRegister("minus_tile", *minus, g.oneRow, at), build.Expr(acc), g.oneF32)
	}
}
