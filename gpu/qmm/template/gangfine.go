package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Turns of a gang with Fine. A product is of one tile of outputs and of fineK k, so that
// operands of two, one that runs and one that is cast meanwhile, and sums of two tiles take
// few registers, however many tiles a plan has: 16 warps fit a multiprocessor, or 8 with many
// tiles. Nothing ends with a turn: its last product runs while the next turn is waited for
// and its first product is cast.
const fineK = 64

// fillFine checks a schedule with Fine.
func (s Schedule) fillFine(p *Plan) error {
	if s.Fixed || p.Group == 0 || p.Group%Turn != 0 || p.Tiles*s.Sides%2 != 0 {
		return fmt.Errorf("template: products of a tile each, for groups of %d, %d tiles and %d sides: groups are multiples of %d, tiles and sides together even, and x is as it is", p.Group, p.Tiles, s.Sides, Turn)
	}
	return nil
}

// fineProducts is how many products a turn has: Turn/fineK of each tile of each side.
func (g *gang) fineProducts() int { return Turn / fineK * g.Tiles * g.Sides }

// fineSum is the name of the sums of product i.
func fineSum(i int) string { return name("sum", i/(Turn/fineK)%2) }

// stretchFine multiplies so many turns of outputs, from t on.
func (g *gang) stretchFine(t, count build.Value) {
	b := g.b
	g.each(func() {
		for i := range g.Tiles {
			b.AllocateRegister(g.of(name("acc", i)), g.oneF32, build.Init(0))
		}
	})
	for i := range 2 {
		b.AllocateRegister(name("sum", i), g.oneF32, build.Init(0))
	}
	g.firstFine(t, "_0")
	b.For("i", 0, count.Sub(1), func(i build.Value) { g.turnFine(b.Let("t0", t.Add(i)), true) }, build.Unroll(1))
	g.turnFine(b.Let("t0", t.Add(count).Sub(1)), false)
	g.joinTiles()
}

// firstFine waits for a turn and begins its first product.
func (g *gang) firstFine(t build.Value, tag string) {
	g.w.pipe.Wait(t)
	g.w.rows(t, tag)
	for sub := range max(1, fineK/g.Sub) {
		g.loadFine(t, sub, tag)
	}
	g.beginFine(0, g.castFine(0, tag))
}

// loadFine loads the codes of a cast of the present side.
func (g *gang) loadFine(t build.Value, sub int, tag string) {
	k := name("", sub) + tag
	g.b.LoadShared(g.of("rb"+k), g.w.weights(g.of("uw"+k), t, sub), g.w.pieces8())
}

// castFine makes operands of product i of a turn whose codes are loaded.
func (g *gang) castFine(i int, tag string) (operands []build.Value) {
	b := g.b
	each := Turn / fineK
	tile, from := i/each%g.Tiles, i%each*fineK
	k := min(g.Sub, fineK)
	for at := from; at < from+fineK; at += k {
		n := name("", at/g.Sub) + tag
		of := fmt.Sprintf("%d_%d", i, at) + tag
		all := g.w.castWide("rh"+of, b.View("rw"+of, build.Expr(g.of("rb"+n)), g.w.codes1))
		operands = append(operands, b.SliceRegister("ra"+of, all, build.Register(g.Act, g.w.operand(1, k)), build.Offset(16*g.Warps*tile, at%g.Sub)))
	}
	return operands
}

// beginFine begins product i of a turn.
func (g *gang) beginFine(i int, operands []build.Value) {
	b := g.b
	sum, from, k := fineSum(i), i%(Turn/fineK)*fineK, fineK/len(operands)
	if from == 0 {
		b.AllocateRegister(sum, g.oneF32, build.Init(0))
	}
	b.WgmmaFence()
	for j, a := range operands {
		b.WgmmaDot(sum, a, g.w.x[(from+j*k)/g.w.piece()], build.Expr(sum), g.oneF32)
	}
	b.WgmmaCommitGroup()
}

// turnFine multiplies turn t, whose first product runs; more says that another one follows, of
// which it begins the first.
func (g *gang) turnFine(t build.Value, more bool) {
	b := g.b
	n := g.fineProducts()
	g.w.rows(t, "")
	g.each(func() {
		for sub := range Turn / g.Sub {
			g.loadFine(t, sub, "")
		}
		g.loadShared("0", t, 0)
	})
	var sumx build.Value
	if g.shifted() {
		sumx = b.LoadShared("xs0", b.SliceShared(g.fresh("usx"), g.sxs, rowMajor(dtype.F32, 1, g.Rows), build.Offset(t.Mod(g.Stages), 0, 0)), g.w.row)
	}
	// All casts stand in front of the turn's products, since ptxas has products wait for each
	// other where it finds operands made between them; it makes them there itself.
	operands := make([][]build.Value, n)
	for i := 1; i < n; i++ {
		g.side = i * g.Sides / n
		operands[i] = g.castFine(i, "")
	}
	g.side = 0
	for i := 1; i < n; i++ {
		g.beginFine(i, operands[i])
		b.WgmmaWaitGroup(build.N(1))
		g.endFine(i-1, sumx)
	}
	running := 0
	if more {
		g.firstFine(t.Add(1), "_1")
		running = 1
	}
	b.WgmmaWaitGroup(build.N(running))
	g.pipe.Release(t)
	g.endFine(n-1, sumx)
}

// endFine ends product i of a turn: after the last one of a tile, its sums are scaled.
func (g *gang) endFine(i int, sumx build.Value) {
	each := Turn / fineK
	if i%each < each-1 {
		return
	}
	back := g.side
	g.side = i * g.Sides / g.fineProducts()
	b, tile := g.b, i/each%g.Tiles
	scale, minus := g.scaleOf("0")
	acc, at := g.of(name("acc", tile)), build.Offset(16*g.Warps*tile, 0)
	b.Fma(acc, build.Expr(fineSum(i)), b.SliceRegister("scale_tile", scale, g.oneRow, at), build.Expr(acc), g.oneF32)
	if minus != nil {
		b.Fma(acc, sumx, b.SliceRegister("minus_tile", *minus, g.oneRow, at), build.Expr(acc), g.oneF32)
	}
	g.side = back
}

// joinTiles makes one tile of outputs of those of each side.
func (g *gang) joinTiles() {
	b := g.b
	g.each(func() {
		acc := b.AllocateRegister(g.of("acc"), g.sum, build.Init(0))
		for i := range g.Tiles {
			b.SliceAssign(g.of("acc"), acc, build.Expr(g.of(name("acc", i))), g.sum, build.Offset(16*g.Warps*i, 0))
		}
	})
}
