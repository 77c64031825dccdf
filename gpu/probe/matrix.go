package probe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// product is the operands of one matrix instruction, by row and column.
type product struct {
	a [16][16]float64
	b [16][8]float64
	c [16][8]float64
}

// matrixCases prove the fragment maps with one-hot operands, the arithmetic with
// integers small enough that every sum is exact, and measure it on real numbers.
// Where elements lie is taken from the catalogue of gpu/arch.
func matrixCases(op code.Op) []Case {
	var m arch.Matrix
	for _, x := range arch.Matrices() {
		if x.Name == op.String() {
			m = x
		}
	}
	if m.Name == "" {
		panic("probe: no matrix instruction " + op.String())
	}
	src := newSource(uint64(op))
	var exact, real []product
	for i := range 16 { // A one-hot: D has row k of B in row i
		for k := range 16 {
			var p product
			p.a[i][k] = 1
			for r := range 16 {
				for n := range 8 {
					p.b[r][n] = float64(r*8 + n + 1)
				}
			}
			exact = append(exact, p)
		}
	}
	for k := range 16 { // B one-hot: D has column k of A in column n
		for n := range 8 {
			var p product
			p.b[k][n] = 1
			for i := range 16 {
				for r := range 16 {
					p.a[i][r] = float64(i*16 + r + 1)
				}
			}
			exact = append(exact, p)
		}
	}
	var p product // C comes through
	for i := range 16 {
		for n := range 8 {
			p.c[i][n] = float64(i*8 + n - 64)
		}
	}
	exact = append(exact, p)
	whole := func(most int) float64 { return float64(src.IntN(2*most+1) - most) }
	for len(exact)%8 != 0 || len(exact) < 512 {
		var p product
		for i := range 16 {
			for k := range 16 {
				p.a[i][k] = whole(8)
			}
			for n := range 8 {
				p.b[i][n], p.c[i][n] = whole(8), whole(512)
			}
		}
		exact = append(exact, p)
	}
	for range 512 {
		var p product
		for i := range 16 {
			for k := range 16 {
				p.a[i][k] = src.NormFloat64()
			}
			for n := range 8 {
				p.b[i][n], p.c[i][n] = src.NormFloat64(), 4*src.NormFloat64()
			}
		}
		real = append(real, p)
	}
	ec := laneCase(op, "one-hot and integers", []variant{{nil, -1, 0}}, fragments(m, exact))
	ec.Want = func() [][]byte { return results(m, exact) }
	rc := laneCase(op, "random reals against the exact sum rounded once", []variant{{nil, -1, 0}}, fragments(m, real))
	rc.Want = func() [][]byte { return simulated(rc) }
	rc.Measure = func(got, want [][]byte) string { return distance(m, real, got, want) }
	values := []float64{0, math.Copysign(0, -1), 1, -1, 1.5, math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-20, -0x1p-24, m.A.Max(), -m.A.Max(), 0x1p-140}
	var odd []product
	for q := range 512 {
		var p product
		// From few of them to many, so that not every sum is a NaN.
		pick := func() float64 {
			if src.IntN(256) < 1+q/4 {
				return values[src.IntN(len(values))]
			}
			return math.Copysign(0, float64(q%2)-0.5)
		}
		for i := range 16 {
			for k := range 16 {
				p.a[i][k] = pick()
			}
			for n := range 8 {
				p.b[i][n], p.c[i][n] = pick(), pick()
			}
		}
		odd = append(odd, p)
	}
	oc := laneCase(op, "zeros, infinities, NaNs, extremes", []variant{{nil, -1, 0}}, fragments(m, odd))
	oc.Want = func() [][]byte { return simulated(oc) }
	oc.Measure = func(got, want [][]byte) string { return kinds(m, got, want) }
	return []Case{ec, rc, oc}
}

// simulated is what the simulator makes of a case.
func simulated(c Case) [][]byte {
	bufs := make([][]byte, len(c.Bufs))
	for i, b := range c.Bufs {
		bufs[i] = bytes.Clone(b)
	}
	if err := (Simulator{}).Run(context.Background(), c.Func, c.Grid, bufs); err != nil {
		panic(fmt.Sprintf("probe: %s on the simulator: %v", c.Op, err))
	}
	out := make([][]byte, len(c.Out))
	for i, o := range c.Out {
		out[i] = bufs[o.Buf]
	}
	return out
}

// fragments lays products out over warps: one column of 32-bit words for each
// input of the row, 32 lanes for each product.
func fragments(m arch.Matrix, ps []product) [][]uint64 {
	var cols [][]uint64
	add := func(l layout.Layout, t dtype.Type, at func(p *product, i, j int) float64) {
		per := 32 / t.Bits()
		for w := range l.Slots() / per {
			var col []uint64
			for q := range ps {
				for lane := range 32 {
					var v uint64
					for h := range per {
						ij := l.Index(lane, w*per+h)
						v |= t.Encode(at(&ps[q], ij[0], ij[1]), false) << (h * t.Bits())
					}
					col = append(col, v)
				}
			}
			cols = append(cols, col)
		}
	}
	add(m.LA, m.A, func(p *product, i, j int) float64 { return p.a[i][j] })
	add(m.LB, m.B, func(p *product, i, j int) float64 { return p.b[i][j] })
	add(m.LC, m.C, func(p *product, i, j int) float64 { return p.c[i][j] })
	return cols
}

// results lays A·B + C out as fragments, one buffer for each result word. Sums
// in float64 are exact here.
func results(m arch.Matrix, ps []product) [][]byte {
	per := 32 / m.C.Bits()
	out := make([][]byte, m.LC.Slots()/per)
	for w := range out {
		out[w] = make([]byte, 4*32*len(ps))
		for q := range ps {
			p := &ps[q]
			for lane := range 32 {
				var v uint64
				for h := range per {
					ij := m.LC.Index(lane, w*per+h)
					s := p.c[ij[0]][ij[1]]
					for k := range 16 {
						s += p.a[ij[0]][k] * p.b[k][ij[1]]
					}
					v |= m.C.Encode(s, false) << (h * m.C.Bits())
				}
				put(out[w], 4, 32*q+lane, v)
			}
		}
	}
	return out
}

// distance says how far results lie from the exact sum rounded once: in units in
// the last place of that, and relative to the sum of the magnitudes of all terms,
// which cancellation does not make small.
func distance(m arch.Matrix, ps []product, got, want [][]byte) string {
	per, n := 32/m.C.Bits(), m.C.Bits()
	mask := m.C.Mask()
	ordinal := func(c uint64) int64 { // codes in the order of their values
		v := int64(c & (mask >> 1))
		if c>>(n-1) != 0 {
			return -v
		}
		return v
	}
	differ, total, ulps, worst := 0, 0, int64(0), 0.0
	for w := range got {
		for q := range ps {
			for lane := range 32 {
				g, x := element(got[w], 4, 32*q+lane), element(want[w], 4, 32*q+lane)
				for h := range per {
					gc, xc := g>>(h*n)&mask, x>>(h*n)&mask
					total++
					if gc == xc {
						continue
					}
					differ++
					d := ordinal(gc) - ordinal(xc)
					ulps = max(ulps, max(d, -d))
					ij := m.LC.Index(lane, w*per+h)
					sum := math.Abs(ps[q].c[ij[0]][ij[1]])
					for k := range 16 {
						sum += math.Abs(ps[q].a[ij[0]][k] * ps[q].b[k][ij[1]])
					}
					worst = max(worst, math.Abs(m.C.Decode(gc)-m.C.Decode(xc))/sum)
				}
			}
		}
	}
	return fmt.Sprintf("%d of %d differ, at most %d ulp; error at most %.2f·2^-%d of Σ|a·b| + |c|", differ, total, ulps, math.Ldexp(worst, m.C.Row().Man+1), m.C.Row().Man+1)
}

// kinds says how many results differ, with an example for each pair of kinds.
func kinds(m arch.Matrix, got, want [][]byte) string {
	n, mask := m.C.Bits(), m.C.Mask()
	kind := func(c uint64) string {
		switch v := m.C.Decode(c); {
		case v != v:
			return "NaN"
		case math.IsInf(v, 0):
			return "infinity"
		case v == 0:
			return "zero"
		}
		return "number"
	}
	total, text := 0, ""
	counts, example := map[string]int{}, map[string]string{}
	for w := range got {
		for at := range len(got[w]) / 4 {
			g, x := element(got[w], 4, at), element(want[w], 4, at)
			for h := 0; h < 32; h += n {
				gc, xc := g>>h&mask, x>>h&mask
				total++
				if gc == xc {
					continue
				}
				k := kind(gc) + " for " + kind(xc)
				if counts[k]++; counts[k] == 1 {
					example[k] = fmt.Sprintf("%#x for %#x", gc, xc)
				}
			}
		}
	}
	differ := 0
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		differ += counts[k]
		text += fmt.Sprintf("; %d %s, such as %s", counts[k], k, example[k])
	}
	return fmt.Sprintf("%d of %d differ%s", differ, total, text)
}
