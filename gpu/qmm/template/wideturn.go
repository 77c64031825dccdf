package template

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// What warpgroups that multiply do with the turns of a tile. Products run beside threads,
// so the order is: cast, begin a product, cast what the next takes, and scale what one came
// to while another runs.

// loadScales loads scales, zero points and sums of x of a turn.
func (w *wide) loadScales(t, g build.Value) {
	b := w.b
	w.each(func() {
		w.groups(g, func(q int, _ build.Value) {
			w.loadFactors(t, q, "")
			if w.Zero {
				w.loadZeros(t, q, "")
			}
		})
	})
	if w.Shifts() {
		for q := range w.scales() {
			tag := w.scaleTag(q)
			for w.half = range w.halves() {
				from := w.stage(w.rowsOf("uq"+tag), w.sxs, t, w.scales(), q, rowMajor(dtype.F32, 1, w.rowsEach()), 0, w.half*w.rowsEach())
				b.LoadShared(w.rowsOf("xs"+tag), from, w.row)
			}
			w.half = 0
		}
	}
}

// loadZeros loads zero points of a turn's group q, of the present side; tag tells names of shared
// memory apart.
func (w *wide) loadZeros(t build.Value, q int, tag string) {
	of := w.scaleTag(q) + tag
	if w.s.Parts > 1 {
		w.loadOwn(w.of("rz"+of), w.of("uz"+of), w.sz3, t, q, w.ZeroType(), w.flatZ)
		return
	}
	w.b.LoadShared(w.of("rz"+of), w.scaleStage(w.of("uz"+of), w.sz, t, q, w.ZeroType()), w.flatZ)
}

// loadFactors is loadZeros for scales.
func (w *wide) loadFactors(t build.Value, q int, tag string) {
	of := w.scaleTag(q) + tag
	if w.s.Parts > 1 {
		w.loadOwn(w.of("rs"+of), w.of("us"+of), w.ss3, t, q, w.Scale, w.flat)
		return
	}
	w.b.LoadShared(w.of("rs"+of), w.scaleStage(w.of("us"+of), w.ss, t, q, w.Scale), w.flat)
}

// groupedWide is grouped for some k of a turn, whose scales and zero points are loaded, unless they are of
// a turn that is still to begin.
func (w *wide) groupedWide(rh string, t build.Value, sub int, tag string) build.Value {
	group := func(k int) int {
		if w.scales() == 1 {
			return 0
		}
		return k / w.Group
	}
	if (w.Less || w.Folds) && w.Group > 0 && tag != "" {
		for q := group(sub * w.Sub); q <= group((sub+1)*w.Sub-1); q++ {
			if w.Less {
				w.loadZeros(t, q, tag)
			}
			if w.Folds {
				w.loadFactors(t, q, tag)
			}
		}
	}
	return w.grouped(rh, func(k int) layout.Layout { return w.operand(w.own(w.s), k) }, func(what string, k int) string {
		if w.Group == 0 {
			return w.of(what)
		}
		return w.of(what + w.scaleTag(group(sub*w.Sub+k)) + tag)
	})
}

// begin begins a tile.
func (w *wide) begin(t build.Value, some string) func() {
	b := w.b
	if w.s.Fine {
		w.beginFine()
		return func() {
			w.joinTiles()
			w.end()
		}
	}
	w.all(func() { b.AllocateRegister(w.at("acc"), w.sum, build.Init(0)) })
	if w.Less && w.Group == 0 {
		w.each(func() { w.loadScale("", "0") })
	}
	if w.Deferred() && w.summed() == 0 {
		b.AllocateRegister("back", w.rowF32, build.Init(1))
	}
	if w.Shifts() && w.Group == 0 {
		for w.half = range w.halves() {
			b.AllocateRegister(w.rowsOf("sumx"), w.row, build.Init(0))
		}
		w.half = 0
	}
	if w.ahead(w.s) && !w.hangs() { // what hangs over is of the turn before, of another tile perhaps
		b.AllocateRegister("rh0", build.Register(w.Act, w.operand(w.own(w.s), w.Sub)), build.Init(0))
		if w.Deferred() && w.summed() > 0 {
			b.AllocateRegister("back", w.rowF32, build.Init(1))
		}
		b.If(build.Expr(some).Greater(0), func() { w.prepare(t, "_0") })
	}
	return w.end
}

// halved is the plan with two casts a turn where a schedule has one, if thread's bytes
// allow: one is made while what the other gave is multiplied.
func (p *Plan) halved(s WideSchedule) *Plan {
	half := *p
	if half.Sub /= 2; s.Fine || s.Sides > 1 || p.Sub < Turn || p.own(s) > 2 || half.bytesPerLane()%16 != 0 {
		return p
	}
	return &half
}

// ahead reports whether the weights that a turn begins with are cast beside the last
// product of the turn before: where it has several, and registers for operands of two.
func (p *Plan) ahead(s WideSchedule) bool {
	return s.Fine || s.Sides*Turn/p.Sub > 1 && p.own(s)*p.Sub <= Turn
}

// prepare waits for a turn, and casts the weights that it begins with.
func (w *wide) prepare(t build.Value, tag string) {
	w.pipe.Wait(t)
	w.cast1(t, 0, tag)
}

// cast1 casts some k of the present side; tag tells names of shared memory apart.
func (w *wide) cast1(t build.Value, sub int, tag string) build.Value {
	k := name("", sub)
	rb := w.b.LoadShared(w.of("rb"+k)+tag, w.weights(w.of("uw"+k)+tag, t, sub), w.pieces8())
	to := w.of("rh" + k)
	if w.hangs() && tag != "" { // not one variable of both turns, which would be moved between them
		to = "lead" + tag
	}
	w.castWide(to, w.b.View(w.of("rw"+k)+tag, w.words(w.of("rl"+k)+tag, rb), w.codes1))
	return w.groupedWide(to, t, sub, tag)
}

// pieces8 is the type of the bytes of a cast.
func (w *wide) pieces8() build.Type {
	return build.Register(dtype.U8, layout.Spatial(w.Warps, 1).Local(1, w.bytesPerLane()/16).Spatial(1, 32).Local(1, 16))
}

// start begins the first products of the first turn, t.
func (w *wide) start(t build.Value) {
	if w.s.Fine {
		w.firstFine(t, "_0")
		return
	}
	w.running = nil
	w.first(t, "_0")
}

// first waits for a turn, casts the weights that it begins with, and begins their
// products.
func (w *wide) first(t build.Value, tag string) {
	w.pipe.Wait(t)
	rh := w.cast1(t, 0, tag)
	w.rows(t, tag)
	operands := w.pieces(rh, tag)
	for w.half = range w.halves() {
		if w.summed() == 0 && tag == "_0" { // of a tile's first turn: as zeros that begin says once more they need no copies behind the fence
			w.b.AllocateRegister(w.at("acc"), w.sum, build.Init(0))
		}
		w.products(0, 0, operands[:w.leading()])
	}
	w.half = 0
	if at := w.leading() * w.piece(); at < w.Sub {
		w.b.SliceRegister("rest", rh, build.Register(w.Act, w.operand(w.own(w.s), w.Sub-at)), build.Offset(0, at))
	}
}

// leading is how many pieces of the first product of a turn are begun in the turn before: not
// the last one of a group, since ptxas lets a product go on beside threads only if its sums are
// read in the turn of the loop that ends it.
func (p *Plan) leading() int {
	if p.Sub < Turn {
		return p.Sub / p.piece()
	}
	return p.Sub / p.piece() / 2
}

// rows are the x of a turn.
func (w *wide) rows(t build.Value, tag string) {
	w.x = nil
	across := sure(swizzled(0, w.rowsEach(), w.piece()).Transpose(0, 1))
	half := w.half
	for i := range Turn / w.piece() {
		for w.half = range w.halves() {
			tx := w.stage(w.rowsOf(name("ux", i))+tag, w.sx, t, Turn/w.piece(), i, build.Shared(w.Act, swizzled(0, w.rowsEach(), w.piece())), w.half*w.rowsEach(), 0)
			w.x = append(w.x, w.b.PermuteShared(w.rowsOf(name("ut", i))+tag, tx, build.Shared(w.Act, across)))
		}
	}
	w.half = half
}

// turn multiplies a turn. Where a product goes on beside the next turn, its first one
// runs already, and that of turn more is begun, if there is one.
func (w *wide) turn(t, g build.Value, more string) {
	b := w.b
	if w.s.Fine {
		w.turnFine(t, g, more)
		return
	}
	if !w.ahead(w.s) {
		w.pipe.Wait(t)
	}
	w.loadScales(t, g)
	w.rows(t, "")
	if w.hangs() {
		w.casts, w.running = 0, nil
		for half := range w.halves() {
			w.running = append(w.running, product{half: half, before: true, end: func() {}})
		}
	}
	for sub := range Turn / w.Sub {
		w.each(func() { w.multiply(t, sub) })
	}
	if w.Shifts() && w.Group == 0 {
		for w.half = range w.halves() {
			b.Add(w.rowsOf("sumx"), build.Expr(w.rowsOf("sumx")), build.Expr(w.rowsOf("xs"+w.scaleTag(0))), w.row)
		}
		w.half = 0
	}
	switch {
	case w.hangs() && more != "":
		w.settleCasts()
		w.casts++
		w.first(b.Let("next", build.Expr(more)), "_1")
		w.settle(w.halves())
	case w.ahead(w.s) && !w.hangs():
		w.settle(1)
		b.If(build.Expr(more), func() { w.prepare(t.Add(1), "_1") })
		fallthrough
	default:
		w.settle(0)
	}
	w.release(t)
}

// release gives a turn's stage back.
func (w *wide) release(t build.Value) {
	if w.s.Cluster == 1 {
		w.pipe.Release(t)
		return
	}
	for r := range w.s.Cluster {
		w.pipe.Release(t, build.Rank(r))
	}
}

// settle waits until n products run at most, and ends the others.
func (w *wide) settle(n int) {
	if len(w.running) <= n {
		return
	}
	w.b.WgmmaWaitGroup(build.N(n))
	done, side, half := w.running[:len(w.running)-n], w.side, w.half
	w.running = slices.Clone(w.running[len(done):])
	for _, p := range done {
		w.side, w.half = p.side, p.half
		p.end()
	}
	w.side, w.half = side, half
}

// settleOwn ends the products of the present side and half.
func (w *wide) settleOwn() {
	for i := len(w.running) - 1; i >= 0; i-- {
		if w.running[i].side == w.side && w.running[i].half == w.half {
			w.settle(len(w.running) - 1 - i)
			return
		}
	}
}

// multiply casts some k of the present side, and begins their products.
func (w *wide) multiply(t build.Value, sub int) {
	if !w.ahead(w.s) {
		for w.half = range w.halves() { // its operands are written anew
			w.settleOwn()
		}
		w.half = 0
	}
	from, operands := 0, []build.Value(nil)
	switch begins := sub+w.side == 0; {
	case begins && w.hangs():
		if from = w.leading(); from*w.piece() < w.Sub {
			operands = w.pieces(build.Expr("rest"), "")
		}
	case begins && w.ahead(w.s):
		operands = w.pieces(build.Expr("rh0"), "")
	default:
		w.settleCasts()
		operands = w.pieces(w.cast1(t, sub, ""), "")
		for i := len(w.running) - 1; i >= 0; i-- {
			if w.running[i].before {
				w.settle(len(w.running) - 1 - i)
				break
			}
		}
	}
	for w.half = range w.halves() {
		if len(operands) > 0 {
			w.products(sub, from, operands)
		}
	}
	w.half = 0
	w.casts++
}

// settleCasts ends products of all casts but the last: registers of two are enough for the
// next cast beside products.
func (w *wide) settleCasts() {
	for i, p := range w.running {
		if p.cast == w.running[len(w.running)-1].cast {
			w.settle(len(w.running) - i)
			return
		}
	}
}

// pieces are parts of operands, as long as a tile of x or a group.
func (w *wide) pieces(rh build.Value, tag string) []build.Value {
	piece, n := w.piece(), w.Sub
	if rh.String() == "rest" {
		n -= w.leading() * piece
	}
	if piece == n {
		return []build.Value{rh}
	}
	var operands []build.Value
	for i := range n / piece {
		operands = append(operands, w.b.SliceRegister(fmt.Sprintf("%s_%d", rh, i)+tag, rh, build.Register(w.Act, w.operand(w.own(w.s), piece)), build.Offset(0, i*piece)))
	}
	return operands
}

// products begins those of the present side and half with operands, from some piece of a cast
// on.
func (w *wide) products(sub, from int, operands []build.Value) {
	b, piece, fence := w.b, w.piece(), true
	for i, rh := range operands {
		k := sub*w.Sub + (from+i)*piece
		sum := w.at("acc")
		if w.summed() > 0 {
			if sum = w.at("sum"); k%min(w.Group, Turn) == 0 {
				w.settleOwn()
				b.AllocateRegister(sum, w.sum, build.Init(0))
				fence = true
			}
		}
		if fence {
			b.WgmmaFence()
			fence = false
		}
		b.WgmmaDot(sum, rh, w.x[k/piece*w.halves()+w.half], build.Expr(sum), w.sum)
		if w.ends(k) || i == len(operands)-1 {
			b.WgmmaCommitGroup()
			w.running = append(w.running, product{w.side, w.half, w.casts, false, w.endOf(k)})
		}
	}
}

// ends reports whether a group's last piece is that of k.
func (w *wide) ends(k int) bool { return w.summed() > 0 && (k+w.piece())%min(w.Group, Turn) == 0 }

// endOf is what ends the product whose last piece is that of k.
func (w *wide) endOf(k int) func() {
	if w.ends(k) {
		return w.scaled(k)
	}
	return func() {}
}

// scaleTag is what names of a group of a turn end with.
func (w *wide) scaleTag(q int) string {
	if w.scales() == 1 {
		return "0"
	}
	return fmt.Sprintf("0_%d", q)
}

// scaled is what adds the sums of a group, whose last piece is that of k, to the output's.
func (w *wide) scaled(k int) func() {
	tag := w.scaleTag(0)
	if w.scales() > 1 {
		tag = w.scaleTag(k / w.Group)
	}
	return func() { w.scale(tag, build.Expr(w.at("sum")), build.Expr(w.rowsOf("xs"+tag)), false) }
}

// scale is finish for the present half.
func (w *wide) scale(tag string, sum, sumx build.Value, whole bool) {
	b, acc := w.b, w.at("acc")
	scale, minus := w.scaleOf(tag)
	if whole {
		b.Mul(acc, sum, scale, w.sum)
	} else {
		b.Fma(acc, sum, scale, build.Expr(acc), w.sum)
	}
	if minus != nil {
		b.Fma(acc, sumx, *minus, build.Expr(acc), w.sum)
	}
}

// castWide makes operands of codes, and back where powers of two are left over.
func (w *wide) castWide(rh string, rw build.Value) build.Value {
	to := build.Register(w.Act, w.operand(w.Tiles, w.Sub))
	if w.s.Parts > 1 {
		return w.castPart(rh, rw, to)
	}
	return w.operands(w.b, rh, "back", rw, to, w.rowF32)
}
