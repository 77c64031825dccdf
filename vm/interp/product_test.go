package interp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestProductsRoundAsTheStepsDo compares the products, with their quick ways for
// numbers that add up exactly, with step after step of each form.
func TestProductsRoundAsTheStepsDo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	draws := map[string]func() float64{
		"small":    func() float64 { return float64(r.IntN(15) - 7) },
		"zeros":    func() float64 { return []float64{0, math.Copysign(0, -1), 1}[r.IntN(3)] },
		"normal":   r.NormFloat64,
		"spread":   func() float64 { return math.Ldexp(r.NormFloat64(), r.IntN(40)-20) },
		"tiny":     func() float64 { return math.Ldexp(r.NormFloat64(), -14-r.IntN(12)) },
		"large":    func() float64 { return math.Ldexp(r.NormFloat64(), 12) },
		"infinite": func() float64 { return []float64{1, -1, math.Inf(1)}[r.IntN(3)] },
	}
	ways := map[string]int{}
	for _, types := range [][3]dtype.Type{{dtype.F16, dtype.F16, dtype.F32}, {dtype.F16, dtype.F16, dtype.F16}, {dtype.BF16, dtype.BF16, dtype.F32}, {dtype.TF32, dtype.TF32, dtype.F32}, {dtype.F8E4M3, dtype.F8E5M2, dtype.F32}, {dtype.F8E5M2, dtype.F8E5M2, dtype.F16}, {dtype.F64, dtype.F64, dtype.F64}} {
		forms := ir.DotForms(types[0], types[1], types[2])
		for name, draw := range draws {
			for i := range 12 {
				f := forms[i%len(forms)]
				tileOf := func(e dtype.Type, rows, cols int) *tile {
					x := &tile{elem: e, dims: []int{rows, cols}, codes: make([]uint64, rows*cols)}
					for k := range x.codes {
						x.codes[k] = e.Encode(draw(), false)
					}
					return x
				}
				inner := 2 * f.K * f.Vec
				p := product{a: tileOf(types[0], 3, inner), b: tileOf(types[1], inner, 3), c: tileOf(types[2], 3, 3), order: f.Order(), step: f.K, matrix: !f.Chained, stopped: func() error { return nil }}
				if f.Chained {
					p.step = 1
				}
				got := make([]uint64, 9)
				if err := p.float(got); err != nil {
					t.Fatal(err)
				}
				a, b, _ := gather(&p, func(x *tile, e int) float64 { return x.elem.Decode(x.codes[e]) })
				ways[fmt.Sprint(easyOf(a, b, p.c, inner))]++
				for at := range got {
					z := p.c.codes[at]
					for k := 0; k < inner; k += p.step {
						x, y := a[at/3*inner+k:][:p.step], b[at%3*inner+k:][:p.step]
						if f.Chained {
							z = dtype.Fma(types[2], types[2].Encode(x[0], false), types[2].Encode(y[0], false), z)
						} else {
							z = DotStep(types[2], z, x, y)
						}
					}
					if z != got[at] {
						t.Fatalf("%v, %s, %s: element %d is %x, by steps %x", types, name, f, at, got[at], z)
					}
				}
			}
		}
	}
	if len(ways) != 3 {
		t.Errorf("ways taken: %v", ways)
	}
}

// TestOrderIsAPermutation holds the order of every form to be all of a fragment's
// columns, in runs that a 32-bit register holds.
func TestOrderIsAPermutation(t *testing.T) {
	for _, e := range []dtype.Type{dtype.F16, dtype.TF32, dtype.F64, dtype.I8, dtype.I4, dtype.U1} {
		for _, c := range []dtype.Type{dtype.F32, dtype.I32, dtype.F64} {
			for _, f := range ir.DotForms(e, e, c) {
				order := f.Order()
				sorted := slices.Sorted(slices.Values(order))
				for i, k := range sorted {
					if i != k || len(sorted) != f.K*f.Vec {
						t.Fatalf("%s of %s: %v", f, e, order)
					}
				}
			}
		}
	}
}
