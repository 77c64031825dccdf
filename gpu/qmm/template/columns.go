package template

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// What a block of [Gather] has: so many warps side by side, of whose lanes each has neighbouring columns of so many rows. An
// element that is read brings 32 bytes: where a block has many columns it reads most of these again while they are near.
const (
	gatherWarps   = 16
	gatherRows    = 4
	gatherColumns = 8
)

// Gather brings columns of x[M, K] into an order: y[m, k] = x[m, order[k]]. It is what stands in front of all else where the inputs
// of a layer's weights are not in the order of x. Numbers outside 0 to K-1 are taken for the nearest of these, so that nothing outside x is read.
//
// Parameters are x, order, an i32[K], y, M and K.
func Gather(act dtype.Type) (*ir.Program, error) {
	if err := checkAct(act); err != nil {
		return nil, err
	}
	const width = gatherWarps * 32 * gatherColumns
	b := build.Program(fmt.Sprintf("gather_%s", act), build.Warps(gatherWarps), build.Grid(ceilText("M", gatherRows), ceilText("K", width)))
	x, order, y := b.Pointer("x", act), b.Pointer("order", dtype.I32), b.Pointer("y", act)
	m, k := b.Scalar("M", dtype.I32), b.Scalar("K", dtype.I32)
	bm, bk := b.BlockIndices2("bm", "bk")
	b.GridDependencyLaunch()
	gx, gy := b.ViewGlobal("gx", x, build.Global(act, m, k)), b.ViewGlobal("gy", y, build.Global(act, m, k))
	gi := b.ViewGlobal("gi", order, build.Global(dtype.I32, 1, k))
	columns := layout.Spatial(1, gatherWarps*32).Local(1, gatherColumns)
	one := build.Register(dtype.I32, columns)
	from := b.LoadGlobal("from", gi, one, build.Offset(0, bk.Mul(width)))
	from = b.Min("from", b.Max("from", from, 0, one), k.Sub(1), one)
	all := layout.Local(gatherRows, 1).Mul(columns)
	at := b.AllocateRegister("at", build.Register(dtype.I32, all), build.Init(0))
	at = b.Add("at", at, from, build.Register(dtype.I32, all))
	rx := b.LoadGlobalGather("rx", gx, at, build.Register(act, all), build.Dim(1), build.Offset(bm.Mul(gatherRows), 0))
	b.StoreGlobal(gy, rx, build.Offset(bm.Mul(gatherRows), bk.Mul(width)))
	return b.Build()
}
