package volta_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

const program = `program product<1>(a: *f16, b: *f16, c: *TYPE) warps=1 {
	ga = ViewGlobal(a) : global f16[16, 16]
	gb = ViewGlobal(b) : global f16[16, 16]
	gc = ViewGlobal(c) : global TYPE[16, 16]
	ra = LoadGlobal(ga, offset=[0, 0]) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)
	rb = LoadGlobal(gb, offset=[0, 0]) : register f16[16, 16] local(1, 2).local(2, 1).column_spatial(4, 8).local(2, 1)
	rc = LoadGlobal(gc, offset=[0, 0]) : register TYPE[16, 16] local(1, 2).local(2, 1).spatial(8, 4).local(1, 2)
	rd = Dot(ra, rb, rc) : register TYPE[16, 16] local(1, 2).local(2, 1).spatial(8, 4).local(1, 2)
	StoreGlobal(gc, rd, offset=[0, 0])
}
`

// TestDot compares the exact mode with the VM's Dot on random numbers, bit for bit;
// the tiles are those of m16n8k16, which sums all sixteen k exactly.
func TestDot(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, sums := range []volta.Sums{volta.F32, volta.F16} {
		var a, b, c volta.Matrix
		for i := range volta.Size {
			for j := range volta.Size {
				a[i][j], b[i][j], c[i][j] = rnd.NormFloat64(), rnd.NormFloat64(), rnd.NormFloat64()
			}
		}
		of := func(m volta.Matrix, e dtype.Type) ir.Arg {
			x := array.New(e, volta.Size, volta.Size)
			for i, row := range m {
				for j, v := range row {
					x.Set(v, i, j)
				}
			}
			return ir.Arg{Array: x}
		}
		p, err := text.Parse("product", strings.ReplaceAll(program, "TYPE", sums.Type().String()), nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := interp.New(p, []ir.Arg{of(a, dtype.F16), of(b, dtype.F16), of(c, sums.Type())})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		want := m.Args()[2].Array
		for _, s := range []volta.Setup{{B: volta.Column}, {A: volta.Column, C: volta.Column}} {
			s.Sums, s.Numerics = sums, volta.Exact
			r, err := volta.New(s, "", a, b, c)
			if err != nil {
				t.Fatal(err)
			}
			for i := range volta.Size {
				for j := range volta.Size {
					if r.D[i][j] != want.At(i, j) {
						t.Fatalf("%s: D[%d,%d] is %x, the VM has %x", s, i, j, r.D[i][j], want.At(i, j))
					}
				}
			}
		}
	}
}
