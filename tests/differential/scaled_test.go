package differential

import (
	"context"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
)

// TestScaledProducts holds products of blocks with scales to a loop over the numbers that
// codes and scales mean. Scales are stored as [tile, four blocks along k, row mod 32,
// 4·(row div 32) + block mod 4].
func TestScaledProducts(t *testing.T) {
	cases := map[string]struct {
		rowsB, block int // rows of a tile of b, elements along k with one scale
		nibbles      bool
	}{
		"matmul_mxf8": {64, 32, false},
		"matmul_nvf4": {128, 16, true},
		"matmul_mxf4": {128, 32, true},
	}
	d := open(t, "interp")
	seen := 0
	for _, l := range launches(t) {
		c, ok := cases[l.Name]
		if !ok {
			continue
		}
		seen++
		res, err := d.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Fatal(err)
		}
		a, b, sa, sb, got := l.Args[0].Array, l.Args[1].Array, l.Args[2].Array, l.Args[3].Array, res.Args[4].Array
		m, n, k := int(l.Args[5].Int), int(l.Args[6].Int), int(l.Args[7].Int)
		value := func(x *array.Array, s *array.Array, tile, row, i int) float64 {
			block := i / c.block
			scale := s.At(row/tile, block/4, row%tile%32, row%tile/32*4+block%4)
			if !c.nibbles {
				return x.At(row, i) * scale
			}
			code := int(x.Code(row*k/2+i/2)) >> (i % 2 * 4) & 15
			v := []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}[code&7]
			if code&8 != 0 {
				v = -v
			}
			return v * scale
		}
		for i := range m {
			for j := range n {
				want := 0.0
				for e := range k {
					want += value(a, sa, 128, i, e) * value(b, sb, c.rowsB, j, e)
				}
				if math.Abs(got.At(i, j)-want) > 1e-4*math.Max(1, math.Abs(want)) {
					t.Fatalf("%s: [%d, %d] is %v, the loop gives %v", l.Name, i, j, got.At(i, j), want)
				}
			}
		}
	}
	if seen != len(cases) {
		t.Errorf("%d of %d programs are there", seen, len(cases))
	}
}
