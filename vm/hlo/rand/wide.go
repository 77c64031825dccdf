package rand

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// wide draws one of the operations of [Options.Wide].
func (d *drawer) wide(kind int, x *hlo.Instruction, push func(*hlo.Instruction)) {
	t, dims, rank := x.Shape.Type, x.Shape.Dims, len(x.Shape.Dims)
	switch kind {
	case 0, 1: // a box at parameters, of any type that starts may have
		if rank == 0 {
			return
		}
		place := one(d, hlo.S32, hlo.U32, hlo.S8, hlo.U8, hlo.S64, hlo.U64)
		sizes := d.box(dims)
		var starts []*hlo.Instruction
		for range dims {
			starts = append(starts, d.b.Param(hlo.Array(place)))
		}
		if kind == 0 {
			push(d.b.DynamicSlice(x, sizes, starts...))
			return
		}
		push(d.b.DynamicUpdateSlice(x, d.b.Param(hlo.Array(t, sizes...)), starts...))
	case 2:
		push(d.b.Add(hlo.Instruction{Op: hlo.Copy, Shape: d.turned(x.Shape), Operands: []*hlo.Instruction{x}}))
	case 3:
		push(d.b.Bitcast(x, d.turned(hlo.Array(t, d.factors(x.Shape.Elements())...))))
	case 4, 5:
		if rank > 0 {
			d.indexed(kind == 4, x, push)
		}
	case 6:
		if rank == 0 || d.o.NoReduce || d.rounds(t) {
			return
		}
		var window []hlo.WindowDim
		for _, n := range dims {
			window = append(window, hlo.WindowDim{Size: 1 + d.IntN(min(n, 4)), Stride: 1 + d.IntN(2), Lo: d.IntN(2), Hi: d.IntN(2), BaseDilation: 1, WindowDilation: 1})
		}
		push(d.b.ReduceWindow(d.combiner(t), x, d.b.Scalar(t, 0), window...))
	case 7: // a reduction whose result lies in memory in another order
		if rank < 3 || d.o.NoReduce || d.rounds(t) {
			return
		}
		r := d.b.Reduce(d.combiner(t), x, d.b.Scalar(t, 0), d.IntN(rank))
		r.Shape = d.turned(r.Shape)
		push(r)
	}
}

// indexed draws a gather or a scatter: some dimensions of the whole are found in a tensor of
// index vectors, and the batch of these stands anywhere among the dimensions of the boxes.
func (d *drawer) indexed(gather bool, x *hlo.Instruction, push func(*hlo.Instruction)) {
	t, dims, rank := x.Shape.Type, x.Shape.Dims, len(x.Shape.Dims)
	if !gather && (d.o.NoReduce || d.rounds(t)) {
		return
	}
	n, parts := 1+d.IntN(40), 1+d.IntN(rank)
	found := d.Perm(rank)[:parts]
	sizes := d.box(dims)
	var gone []int // dimensions of the whole of which boxes have one place
	for i := range dims {
		if slices.Contains(found, i) && d.IntN(2) == 0 {
			sizes[i] = 1
			gone = append(gone, i)
		}
	}
	var out, window []int
	batch := d.IntN(rank - len(gone) + 1)
	for i, size := range sizes {
		if slices.Contains(gone, i) {
			continue
		}
		if len(window) == batch {
			out = append(out, n)
		}
		window = append(window, len(out))
		out = append(out, size)
	}
	if len(window) == batch {
		out = append(out, n)
	}
	vector := d.IntN(2)
	lists := []int{n, n}
	lists[vector] = parts
	if hlo.Array(t, out...).Elements() > 4*d.o.Elements {
		return
	}
	rows := d.b.Param(hlo.Array(one(d, hlo.S32, hlo.U32, hlo.S8, hlo.U8, hlo.S64), lists...))
	if gather {
		push(d.b.Gather(x, rows, hlo.GatherDims{Offset: window, Collapsed: gone, StartMap: found, IndexVector: vector}, sizes, hlo.Array(t, out...)))
		return
	}
	push(d.b.Scatter(d.combiner(t), x, rows, d.b.Param(hlo.Array(t, out...)), hlo.ScatterDims{UpdateWindow: window, Inserted: gone, ToOperand: found, IndexVector: vector}, false))
}

// box draws sizes that fit into others.
func (d *drawer) box(dims []int) []int {
	out := make([]int, len(dims))
	for i, n := range dims {
		out[i] = 1 + d.IntN(n)
	}
	return out
}

// turned is the shape in another order of memory.
func (d *drawer) turned(s hlo.Shape) hlo.Shape {
	if s.Layout = nil; len(s.Dims) > 1 {
		if s.Layout = d.Perm(len(s.Dims)); s.RowMajor() {
			s.Layout = nil
		}
	}
	return s
}

// rounds says whether what combines elements of a type may round them to it again and again.
func (d *drawer) rounds(t hlo.Type) bool { return t.IsFloat() && t.Bits() < 32 }

// combiner is an operation whose results do not depend on the order.
func (d *drawer) combiner(t hlo.Type) hlo.Op {
	switch {
	case t == hlo.Pred:
		return one(d, hlo.And, hlo.Or, hlo.Xor)
	case t.IsFloat():
		return one(d, hlo.Maximum, hlo.Minimum)
	}
	return one(d, hlo.Add, hlo.Multiply, hlo.Maximum, hlo.Minimum, hlo.And, hlo.Or, hlo.Xor)
}
