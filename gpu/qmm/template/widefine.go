package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Turns with Fine. A product is of one tile of outputs and of fineK k, so that operands of
// two, one that runs and one that is cast meanwhile, and sums of two tiles take few registers,
// however many tiles a warpgroup has. While one tile is multiplied, what another came to is
// scaled. Nothing ends with a turn: its last product runs while the next turn is waited for and
// its first product is cast. Where scales are folded, tiles' products add to what the output has.
const fineK = 64

// fills reports whether tiles of a plan can be multiplied one by one: sums of two, in turn, end
// with a turn.
func (p *Plan) fills(s WideSchedule) error {
	if p.Folds && s.Parts <= 1 && p.halves(s) == 1 {
		return nil
	}
	if p.Group == 0 || p.Group%Turn != 0 || p.own(s)*s.Sides%2 != 0 {
		return fmt.Errorf("template: groups of %d, %d tiles and %d sides: by tiles, groups are multiples of %d, and tiles and sides together even, or scales are folded and neither tiles nor rows dealt out", p.Group, p.own(s), s.Sides, Turn)
	}
	return nil
}

// fineProducts is how many products a turn has: Turn/fineK of each tile of each side.
func (w *wide) fineProducts() int { return Turn / fineK * w.own(w.s) * w.Sides }

// fineSum is the name of the sums of product i.
func (w *wide) fineSum(i int) string {
	if !w.Folds {
		return name("sum", i/(Turn/fineK)%2)
	}
	side := w.side
	w.side = i * w.Sides / w.fineProducts()
	defer func() { w.side = side }()
	return w.of(name("acc", i/(Turn/fineK)%w.own(w.s)))
}

// beginFine begins a tile of a block.
func (w *wide) beginFine() {
	b := w.b
	w.each(func() {
		for i := range w.own(w.s) {
			b.AllocateRegister(w.of(name("acc", i)), w.oneF32, build.Init(0))
		}
	})
	if w.Folds {
		if w.Deferred() {
			b.AllocateRegister("back", w.rowF32, build.Init(1))
		}
		return
	}
	for i := range 2 {
		b.AllocateRegister(name("sum", i), w.oneF32, build.Init(0))
	}
}

// firstFine waits for a turn and begins its first product.
func (w *wide) firstFine(t build.Value, tag string) {
	w.pipe.Wait(t)
	w.rows(t, tag)
	for sub := range max(1, fineK/w.Sub) {
		w.loadFine(t, sub, tag)
	}
	for q := range max(1, w.scales()*fineK/Turn) {
		if w.Less {
			w.loadZeros(t, q, tag)
		}
		if w.Folds {
			w.loadFactors(t, q, tag)
		}
	}
	operands := w.castFine(0, tag)
	if w.Folds && tag == "_0" { // as in [wide.first]
		w.b.AllocateRegister(w.fineSum(0), w.oneF32, build.Init(0))
	}
	w.product1(0, operands)
}

// loadFine loads the codes of a cast of the present side.
func (w *wide) loadFine(t build.Value, sub int, tag string) {
	k := name("", sub) + tag
	w.words(w.of("rl"+k), w.b.LoadShared(w.of("rb"+k), w.weights(w.of("uw"+k), t, sub), w.pieces8()))
}

// castFine makes operands of product i of a turn whose codes are loaded.
func (w *wide) castFine(i int, tag string) (operands []build.Value) {
	b := w.b
	each := Turn / fineK
	tile, from := i/each%w.own(w.s), i%each*fineK
	k := min(w.Sub, fineK)
	for at := from; at < from+fineK; at += k {
		n := name("", at/w.Sub) + tag
		of := fmt.Sprintf("%d_%d", i, at) + tag
		from := w.of("rb" + n)
		if w.slide > 0 {
			from = w.of("rl" + n)
		}
		all := w.castWide("rh"+of, b.View("rw"+of, build.Expr(from), w.codes1))
		as := build.Register(w.Act, w.operand(1, k))
		part := b.SliceRegister("ra"+of, all, as, build.Offset(16*w.Warps*tile, at%w.Sub))
		operands = append(operands, w.changedFine("ra"+of, part, at, tile, tag))
	}
	return operands
}

// changedFine is [decoder.changed] for a tile's operand of a turn, from k on.
func (w *wide) changedFine(name string, operand build.Value, k, tile int, tag string) build.Value {
	if !w.Less && !w.Folds {
		return operand
	}
	b, at, row := w.b, []any{16 * w.Warps * tile, 0}, w.lay(1, layout.Local(1, 1), layout.Local(2, 1).Spatial(8, 1).Mul(layout.Replicated(4, 1, 1)))
	if w.Near {
		row, at = sure(row.Unsqueeze(2)).Local(1, 1, 2), append(at, 0)
	}
	of := func(name string, rows build.Value) build.Value {
		return b.SliceRegister(name, rows, build.Register(w.Act, row), build.Offset(at...))
	}
	each := min(w.Sub, fineK)
	n := each
	if w.scales() > 1 {
		n = min(each, w.Group)
	}
	return w.inGroups(name, operand, each, n, func(k int) layout.Layout { return w.operand(1, k) }, func(to string, part build.Value, from int, l layout.Layout) build.Value {
		group := w.scaleTag((k+from)/max(n, w.Group)) + tag
		return w.changed(to, part, of, func(what string) string { return w.of(what + group) }, l)
	})
}

// product1 begins product i of a turn.
func (w *wide) product1(i int, operands []build.Value) {
	b := w.b
	sum, from, k := w.fineSum(i), i%(Turn/fineK)*fineK, fineK/len(operands)
	if from == 0 && !w.Folds {
		b.AllocateRegister(sum, w.oneF32, build.Init(0))
	}
	b.WgmmaFence()
	for j, a := range operands {
		b.WgmmaDot(sum, a, w.x[(from+j*k)/w.piece()], build.Expr(sum), w.oneF32)
	}
	b.WgmmaCommitGroup()
}

// turnFine multiplies turn t, whose first product runs, and begins that of turn next, if there is
// one.
func (w *wide) turnFine(t, g build.Value, next string) {
	b, n := w.b, w.fineProducts()
	w.rows(t, "")
	w.each(func() {
		for sub := range Turn / w.Sub {
			w.loadFine(t, sub, "")
		}
	})
	w.loadScales(t, g)
	// All casts stand in front of the turn's products, since ptxas has products wait for each
	// other where it finds operands made between them; it makes them there itself.
	operands := make([][]build.Value, n)
	for i := 1; i < n; i++ {
		w.side = i * w.Sides / n
		operands[i] = w.castFine(i, "")
	}
	w.side = 0
	for i := 1; i < n; i++ {
		w.product1(i, operands[i])
		b.WgmmaWaitGroup(build.N(1))
		w.endFine(i - 1)
	}
	running := 0
	if next != "" {
		w.firstFine(build.Expr(next), "_1")
		running = 1
	}
	b.WgmmaWaitGroup(build.N(running))
	w.release(t)
	w.endFine(n - 1)
}

// endFine ends product i of a turn: after the last one of a tile, its sums are scaled.
func (w *wide) endFine(i int) {
	each := Turn / fineK
	if i%each < each-1 || w.Folds {
		return
	}
	w.side = i * w.Sides / w.fineProducts()
	b, tile, tag := w.b, i/each%w.own(w.s), w.scaleTag(0)
	scale, minus := w.scaleOf(tag)
	acc, at := w.of(name("acc", tile)), build.Offset(16*w.Warps*tile, 0)
	b.Fma(acc, build.Expr(w.fineSum(i)), b.SliceRegister("scale_tile", scale, w.oneRow, at), build.Expr(acc), w.oneF32)
	if minus != nil {
		b.Fma(acc, build.Expr("xs"+tag), b.SliceRegister("minus_tile", *minus, w.oneRow, at), build.Expr(acc), w.oneF32)
	}
	w.side = 0
}

// joinTiles makes one tile of outputs of those of each side.
func (w *wide) joinTiles() {
	b := w.b
	w.each(func() {
		acc := b.AllocateRegister(w.of("acc"), w.sum, build.Init(0))
		for i := range w.own(w.s) {
			b.SliceAssign(w.of("acc"), acc, build.Expr(w.of(name("acc", i))), w.sum, build.Offset(16*w.Warps*i, 0))
		}
	})
}
