package tensor

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// IndexRow is the place of one number of an index vector.
func IndexRow(in *hlo.Instruction, part int, batch []affine.Expr) (row []affine.Expr) {
	next := 0
	for d := range in.Operands[in.Inputs()].Shape.Dims {
		if d == in.Scatter.IndexVector {
			row = append(row, affine.Const(int64(part)))
		} else {
			row = append(row, batch[next])
			next++
		}
	}
	return row
}

// WindowOf is, for each dimension that is written into, the dimension of updates that holds
// its part of the window, or -1 where a window is one wide.
func WindowOf(in *hlo.Instruction) (of []int) {
	g, next := in.Scatter, 0
	for i := range in.Operands[0].Shape.Dims {
		if slices.Contains(g.Inserted, i) || slices.Contains(g.InputBatch, i) {
			of = append(of, -1)
			continue
		}
		of = append(of, g.UpdateWindow[next])
		next++
	}
	return of
}

// Batch is the dimension of a batch that a dimension of the operand has in common with it,
// or -1.
func Batch(in *hlo.Instruction, dim int) int {
	g := in.Scatter
	k := slices.Index(g.InputBatch, dim)
	if k < 0 {
		return -1
	}
	if d := g.IndexBatch[k]; d > g.IndexVector {
		return d - 1
	}
	return g.IndexBatch[k]
}

// Room is how many starts of a window are legal in a dimension.
func Room(in *hlo.Instruction, dim int) int {
	size := 1
	if k := WindowOf(in)[dim]; k >= 0 {
		size = in.Operands[in.Inputs()+1].Shape.Dims[k]
	}
	return in.Operands[0].Shape.Dims[dim] - size + 1
}
