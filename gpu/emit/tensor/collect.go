package tensor

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/emit/lanes"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// collect is an element of the results of a scatter: what is there, combined with all
// updates that meet it, one after another in the order of vm/hlo/eval. It is how scatters are
// computed that no atomic instruction does.
func (e *elemental) collect(in *hlo.Instruction, idx []affine.Expr, w where, n int) ([]lanes.Vec, error) {
	g, inputs := in.Scatter, in.Inputs()
	rows, updates := in.Operands[inputs], in.Operands[inputs+1:]
	var acc []lanes.Vec
	for _, o := range in.Operands[:inputs] {
		v, err := e.value(o, idx, w, n)
		if err != nil {
			return nil, err
		}
		acc = append(acc, v)
	}
	var vars []affine.Variable // of the updates' dimensions that are no window's
	var batch []affine.Expr
	for i, size := range updates[0].Shape.Dims {
		if !slices.Contains(g.UpdateWindow, i) {
			vars = append(vars, affine.Variable{Name: e.name("u"), Range: upTo(size)})
			batch = append(batch, affine.Var(vars[len(vars)-1].Name))
		}
	}
	if slices.Contains(updates[0].Shape.Dims, 0) {
		return acc, nil
	}
	like := acc
	words, err := e.loopOver(vars, e.flat(acc), func(values map[string]affine.Expr, carried []code.Value) ([]code.Value, error) {
		turn := make([]affine.Expr, len(batch))
		for i, b := range batch {
			turn[i] = b.Subst(values)
		}
		at := make([]affine.Expr, len(updates[0].Shape.Dims))
		next := 0
		for i := range at {
			if !slices.Contains(g.UpdateWindow, i) {
				at[i] = turn[next]
				next++
			}
		}
		var extra where
		window := WindowOf(in)
		for i := range in.Operands[0].Shape.Dims {
			size, offset := 1, idx[i]
			k := window[i]
			if k >= 0 {
				size = updates[0].Shape.Dims[k]
			}
			if d := Batch(in, i); d >= 0 {
				offset = offset.Sub(turn[d])
			}
			if part := slices.Index(g.ToOperand, i); part >= 0 {
				// One below and one above the legal starts stand for all others.
				start, err := e.start(rows, IndexRow(in, part, turn), w, affine.Range{Lo: -1, Hi: int64(Room(in, i))})
				if err != nil {
					return nil, err
				}
				extra = e.need(extra, start, upTo(Room(in, i)))
				offset = offset.Sub(start)
			}
			offset = e.simplify(offset)
			extra = e.need(extra, offset, upTo(size))
			if k >= 0 {
				at[k] = offset
			}
		}
		return e.combineWhere(in, like, carried, updates, at, w, extra, n)
	})
	if err == errOneByOne {
		return e.oneByOne(in, idx, w, n)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Name, err)
	}
	return e.unflat(like, words), nil
}
