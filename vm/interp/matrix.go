package interp

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// dot multiplies by the first form of matrix instruction that divides the layouts,
// or element by element where none does: [ir.DotPlans].
func dot(m *Machine, in *ir.Instr) error {
	var x [3]*tile
	for i := range x {
		t, err := m.tile(in, i)
		if err != nil {
			return err
		}
		x[i] = t
	}
	p, known := m.dots[in]
	if !known {
		p = product{step: 1, order: []int{0}}
		if plans, _ := ir.DotPlans(in); len(plans) > 0 {
			f := plans[0].Form
			p.order, p.matrix = f.Order(), !f.Chained
			if p.matrix {
				p.step = f.K
			}
		}
		m.dots[in] = p
	}
	p.stopped = m.stopped
	c := x[2]
	out := &tile{elem: c.elem, dims: c.dims, codes: make([]uint64, len(c.codes))}
	many := 1
	if len(c.dims) > 2 {
		many = c.dims[0]
	}
	for i := range many {
		p.a, p.b, p.c = x[0].product(i), x[1].product(i), c.product(i)
		f := p.float
		if !c.elem.IsFloat() {
			f = p.whole
		}
		if err := f(out.product(i).codes); err != nil {
			return err
		}
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// product is the operand, or result, of the i-th of several products.
func (t *tile) product(i int) *tile {
	if len(t.dims) == 2 {
		return t
	}
	n := t.dims[1] * t.dims[2]
	return &tile{elem: t.elem, dims: t.dims[1:], codes: t.codes[i*n:][:n]}
}

// product is a·b + c. Elements along k are taken in an order that repeats after
// len(order). Sums are rounded after each step.
type product struct {
	a, b, c *tile
	order   []int
	step    int
	matrix  bool // a step is summed exactly; else it is a fused multiply-add
	stopped func() error
}

func (p *product) size() (rows, inner, cols int) { return p.a.dims[0], p.a.dims[1], p.b.dims[1] }

// whole multiplies integers.
func (p *product) whole(out []uint64) error {
	rows, inner, cols := p.size()
	a, b, err := gather(p, func(x *tile, e int) int64 { return x.elem.DecodeInt(x.codes[e]) })
	if err != nil {
		return err
	}
	t := p.c.elem
	for i := range rows {
		if err := p.stopped(); err != nil {
			return err
		}
		for j := range cols {
			s := t.DecodeInt(p.c.codes[i*cols+j])
			y := b[j*inner:][:inner]
			for k, x := range a[i*inner:][:inner] {
				s += x * y[k]
			}
			out[i*cols+j] = uint64(s) & t.Mask()
		}
	}
	return nil
}

// float multiplies floats. Where plain addition is exact it is used.
func (p *product) float(out []uint64) error {
	rows, inner, cols := p.size()
	t := p.c.elem
	a, b, err := gather(p, func(x *tile, e int) float64 { return x.elem.Decode(x.codes[e]) })
	if err != nil {
		return err
	}
	easy := easyOf(a, b, p.c, inner)
	var ca, cb []uint64
	if !p.matrix {
		ca, cb, err = gather(p, func(x *tile, e int) uint64 { return t.Encode(x.elem.Decode(x.codes[e]), false) })
		if err != nil {
			return err
		}
	}
	for i := range rows {
		if err := p.stopped(); err != nil {
			return err
		}
		for j := range cols {
			x, y, z := a[i*inner:][:inner], b[j*inner:][:inner], p.c.codes[i*cols+j]
			if easy.whole {
				sum := t.Decode(z)
				for k, v := range x {
					sum += v * y[k]
				}
				if p.matrix || sum != 0 {
					out[i*cols+j] = t.Encode(sum+0, false)
					continue
				}
			}
			switch {
			case !p.matrix:
				for k, v := range ca[i*inner:][:inner] {
					z = dtype.Fma(t, v, cb[j*inner+k], z)
				}
			case easy.steps:
				sum := t.Decode(z)
				for k0 := 0; k0 < inner; k0 += p.step {
					w := y[k0:]
					for k, v := range x[k0 : k0+p.step] {
						sum += v * w[k]
					}
					if t == dtype.F32 {
						sum = float64(float32(sum)) + 0
					} else {
						sum = t.Decode(t.Encode(sum, false)) + 0
					}
				}
				z = t.Encode(sum, false)
			default:
				for k0 := 0; k0 < inner; k0 += p.step {
					z = DotStep(t, z, x[k0:k0+p.step], y[k0:k0+p.step])
				}
			}
			out[i*cols+j] = z
		}
	}
	return nil
}

// gather takes the rows of a and the columns of b, in the order of the product.
func gather[T any](p *product, value func(x *tile, e int) T) (rows, cols []T, err error) {
	m, inner, n := p.size()
	rows, cols = make([]T, m*inner), make([]T, n*inner)
	for k := range inner {
		if err := p.stopped(); err != nil {
			return nil, nil, err
		}
		from := k - k%len(p.order) + p.order[k%len(p.order)]
		for i := range m {
			rows[i*inner+k] = value(p.a, i*inner+from)
		}
		for j := range n {
			cols[j*inner+k] = value(p.b, from*n+j)
		}
	}
	return rows, cols, nil
}

// easy says that plain f64 addition is exact: all numbers are multiples of one
// power of two, and no sum comes near 2^53 of it.
type easy struct {
	steps bool // within a step
	whole bool // and no sum needs rounding to c's type
}

func easyOf(a, b []float64, c *tile, inner int) easy {
	t := c.elem
	digits, ok := map[dtype.Type]int{dtype.F32: 24, dtype.F16: 11, dtype.BF16: 8}[t]
	if !ok {
		return easy{}
	}
	start := make([]float64, len(c.codes))
	for i, code := range c.codes {
		start[i] = t.Decode(code)
	}
	ea, ma := span(a)
	eb, mb := span(b)
	ec, mc := span(start)
	most := mc + float64(inner)*ma*mb
	if !(most < t.Max()/2) {
		return easy{}
	}
	grid := min(ea+eb, ec)
	units := math.Ldexp(most, -grid)
	// Roundings to c's type raise sums, but by less than a factor 2^3.
	e := easy{steps: units < 1<<50}
	e.whole = units < float64(int64(1)<<digits) && t.Decode(t.Encode(math.Ldexp(1, grid), false)) != 0
	return e
}

// span is the exponent of the largest power of two that divides all numbers, and
// their largest magnitude, which is infinite where one is not finite.
func span(x []float64) (exp int, most float64) {
	exp = 1 << 10
	for _, v := range x {
		if v == 0 {
			continue
		}
		b := math.Float64bits(v)
		e := int(b >> 52 & 0x7ff)
		if e == 0x7ff || e == 0 { // no type of up to 32 bits has numbers that are subnormal here
			return 0, math.Inf(1)
		}
		exp = min(exp, e-1075+bits.TrailingZeros64(b|1<<52))
		most = max(most, math.Abs(v))
	}
	return exp, most
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
