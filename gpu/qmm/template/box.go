package template

import (
	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// box brings what the groups of a turn have for a block's outputs, scales or zero points, by one tensor copy. One thread
// begins all copies: with a bulk copy for each group and side, sixteen a turn for NVFP4 with two sides, 64 rows took 1.28 times as long (WIDE.md).
type box struct {
	d              *decoder
	elem           dtype.Type
	global, stages build.Value
	shape          []int // groups, and the outputs in rows of a box
}

// tensorStep is the number of bytes that where tensor copies bring to is a multiple of.
const tensorStep = 128

// boxOf is a box of n outputs from a tensor of the layer to stages; nil where a turn has one group, a stage's part does not begin
// at multiples of [tensorStep], or outputs are no whole rows, as those of three warps.
func (d *decoder) boxOf(name string, pointer, shared build.Value, t dtype.Type, stages, n int) *box {
	row := min(n, 16*MaxWarps) // which outputs of a layer are padded to, times tiles
	if d.scales() == 1 || n%row != 0 || 16*MaxWarps%row != 0 || d.scales()*n*t.Bits()/8%tensorStep != 0 {
		return nil
	}
	x := &box{d: d, elem: t, shape: []int{d.scales(), n / row, row}}
	x.global = d.b.ViewGlobal("g"+name, pointer, build.Global(t, build.Expr(ceilText("K", Turn)).Mul(d.scales()), build.Expr(ceilText("N", d.Outputs()*MaxWarps)).Mul(d.Outputs()*MaxWarps/row), row))
	x.stages = d.b.ReshapeShared("s"+name, shared, rowMajor(t, append([]int{stages}, x.shape...)...))
	return x
}

// copy begins to bring those of group and more, of the block's outputs, to a stage of a pipeline.
func (x *box) copy(p build.Pipeline, t, stage, group build.Value, name string) {
	b := x.d.b
	to := b.SliceShared(name, x.stages, rowMajor(x.elem, x.shape...), build.Offset(stage, 0, 0, 0), build.Dims(1, 2, 3))
	b.CopyAsyncTensorGlobalToShared(x.global, to, p.Full, t, build.Offset(group, x.d.bn.Mul(x.shape[1]), 0))
}
