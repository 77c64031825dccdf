package probe

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// elsewhere is a simulator on which one input of a matrix instruction lies in other
// lanes than the catalogue says: two lanes of each warp have changed places.
type elsewhere struct{ input int }

func (e elsewhere) Run(ctx context.Context, f *code.Func, grid [3]int, bufs [][]byte) error {
	moved := slices.Clone(bufs)
	b := bytes.Clone(bufs[e.input])
	size := 4
	if n := len(b) / (grid[0] * blockSize); n == 8 {
		size = 8
	}
	for at := 0; at+32 <= len(b)/size; at += 32 {
		x, y := element(b, size, at+1), element(b, size, at+6)
		put(b, size, at+1, y)
		put(b, size, at+6, x)
	}
	moved[e.input] = b
	return Simulator{}.Run(ctx, f, grid, moved)
}

// TestWrongFragmentsAreSeen holds that no wrong map passes: an input of A, of B and
// the last one of C or of the metadata in turn have two lanes exchanged.
func TestWrongFragmentsAreSeen(t *testing.T) {
	for _, op := range code.Rows() {
		row := op.Row()
		if row.Class != code.Matrix {
			continue
		}
		for input := range row.In {
			if input != 0 && input != len(row.In)/2 && input != len(row.In)-1 || testing.Short() && input != 0 {
				continue
			}
			rows, err := Run(context.Background(), elsewhere{input}, Options{Cross: 64, Random: 64, Only: func(name string) bool { return name == op.String() }})
			if err != nil || len(rows) != 1 {
				t.Fatal(rows, err)
			}
			if rows[0].Differ == 0 || rows[0].Failed != 0 {
				t.Errorf("%s: lanes of input %d have changed places and nothing differs in %d results", op, input, rows[0].Tried)
			}
		}
	}
}
