package lab

import (
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
)

// Follow draws the way of one element of A, B or D of a Volta product: where it lies
// in shared memory, which lanes hold it in which registers, and which HMMA steps use
// it. n is the instruction that is looked at, from 1; 0 is the first that uses it.
//
//	lab.Show(lab.Follow("mixed", "row.col", "A", 5, 9, 0))
func Follow(mode, layout, matrix string, row, col, n int) (layoutviz.Picture, error) {
	r, err := VoltaRun(mode, layout)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	return theatre.Follow(r, matrix, row, col, n, layoutviz.Options{})
}
