package interp

import (
	"math"
	"math/big"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func dot(m *Machine, in *ir.Instr) error {
	var x [3]*tile
	for i := range x {
		t, err := m.tile(in, i)
		if err != nil {
			return err
		}
		x[i] = t
	}
	a, b, c := x[0], x[1], x[2]
	rows, inner, cols := a.dims[0], a.dims[1], b.dims[1]
	fa, fb := decodeAll(a), decodeAll(b)
	out := &tile{elem: c.elem, dims: c.dims, codes: append([]uint64(nil), c.codes...)}
	left, right := make([]float64, ir.DotStep), make([]float64, ir.DotStep)
	for i := range rows {
		for j := range cols {
			acc := out.codes[i*cols+j]
			for k0 := 0; k0 < inner; k0 += ir.DotStep {
				for k := range ir.DotStep {
					left[k], right[k] = fa[i*inner+k0+k], fb[(k0+k)*cols+j]
				}
				acc = DotStep(c.elem, acc, left, right)
			}
			out.codes[i*cols+j] = acc
		}
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

func decodeAll(x *tile) []float64 {
	f := make([]float64, len(x.codes))
	for k, c := range x.codes {
		f[k] = x.elem.Decode(c)
	}
	return f
}

// DotStep is c + Σ a[k]·b[k] for f16 or bf16 values, summed exactly and rounded
// once to t: one k-step of a matrix instruction. A sum that is or rounds to zero
// is +0. The simulator computes its matrix instructions with it, so both
// machines round alike; an H200 keeps fewer bits inside a step and was measured
// within 2·2^-24·(Σ |a·b| + |c|) of it for f32 (tests/record/rows.json).
func DotStep(t dtype.Type, c uint64, a, b []float64) uint64 {
	sum, exact := t.Decode(c), true
	for k := range a {
		p := a[k] * b[k] // exact: 11 + 11 or 8 + 8 significant bits
		s := sum + p
		// The rounding error of s; it is NaN where a part is infinite or NaN, which
		// makes the step inexact too.
		z := s - sum
		if (sum-(s-z))+(p-z) != 0 {
			exact = false
			break
		}
		sum = s
	}
	if !exact {
		sum = dotStepBig(t, c, a, b)
	}
	code := t.Encode(sum, false)
	if t.Decode(code) == 0 {
		return 0
	}
	return code
}

// sumPrec holds any sum of bf16 products and an f32 exactly: exponents from
// 2^-266 to 2^256, and room for carries.
const sumPrec = 640

// dotStepBig is the exact sum rounded to odd at 53 bits, so that the rounding
// to t is the only one. With an infinite or NaN part it is what adding in any
// order gives: NaN for a NaN or for infinities of both signs.
func dotStepBig(t dtype.Type, c uint64, a, b []float64) float64 {
	start := t.Decode(c)
	plain := start
	for k := range a {
		plain += a[k] * b[k]
	}
	if math.IsNaN(plain) || math.IsInf(plain, 0) {
		return plain
	}
	sum := new(big.Float).SetPrec(sumPrec).SetFloat64(start)
	p := new(big.Float).SetPrec(sumPrec)
	for k := range a {
		sum.Add(sum, p.Mul(new(big.Float).SetFloat64(a[k]), new(big.Float).SetFloat64(b[k])))
	}
	v, acc := sum.Float64()
	if acc != big.Exact && math.Float64bits(v)&1 == 0 {
		if (acc == big.Below) == (v > 0) {
			v = math.Float64frombits(math.Float64bits(v) + 1)
		} else {
			v = math.Float64frombits(math.Float64bits(v) - 1)
		}
	}
	return v
}
