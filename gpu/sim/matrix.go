package sim

import (
	"math"
	"math/big"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds the matrix instructions. D = A·B + C is defined as the exact
// sum of all products and the start value, rounded once, to nearest even. The
// hardware may round intermediate sums; where every partial sum is exact both
// give the same bits. Zero sums are +0.

var f16Values = sync.OnceValue(func() *[1 << 16]float64 {
	var t [1 << 16]float64
	for c := range t {
		t[c] = dtype.F16.Decode(uint64(c))
	}
	return &t
})

// matrix executes mma.m16n8k16. Lane l holds, with g = l / 4 and t = l mod 4:
// of A the rows g and g+8 at columns 2t, 2t+1 and 2t+8, 2t+9; of B the column g
// at rows 2t, 2t+1, 2t+8, 2t+9; of C and D the rows g and g+8 at columns 2t,
// 2t+1. Source: PTX ISA, matrix fragments for mma.m16n8k16 with floating-point
// types.
func (w *warp) matrix(i *inst) {
	var a [16][16]float64
	var b [8][16]float64 // by column
	var c, d [16][8]float64
	half := f16Values()
	input := dtype.F16
	if i.op == code.OpMmaBF16F32 {
		input = dtype.BF16
	}
	value := func(code16 uint64) float64 {
		if input == dtype.F16 {
			return half[code16&0xffff]
		}
		return float64(f32(code16 << 16))
	}
	for l := range lanes {
		g, t := l/4, l%4
		for r := range 4 {
			v := w.regs[int(i.in[r])+l]
			row, col := g+8*(r&1), 2*t+8*(r>>1)
			a[row][col], a[row][col+1] = value(v), value(v>>16&0xffff)
		}
		for r := range 2 {
			v := w.regs[int(i.in[4+r])+l]
			b[g][2*t+8*r], b[g][2*t+8*r+1] = value(v), value(v>>16&0xffff)
		}
		for r := range 2 {
			if i.op == code.OpMmaF16F16 {
				v := w.regs[int(i.in[6+r])+l]
				c[g+8*r][2*t], c[g+8*r][2*t+1] = half[v&0xffff], half[v>>16&0xffff]
				continue
			}
			for k := range 2 {
				c[g+8*r][2*t+k] = float64(f32(w.regs[int(i.in[6+2*r+k])+l]))
			}
		}
	}
	var as [16]scale
	var bs [8]scale
	for r := range a {
		as[r] = scaleOf(a[r][:])
	}
	for n := range b {
		bs[n] = scaleOf(b[n][:])
	}
	for r := range 16 {
		for n := range 8 {
			d[r][n] = dot(&a[r], &b[n], as[r], bs[n], c[r][n])
		}
	}
	out := dtype.F32
	if i.op == code.OpMmaF16F16 {
		out = dtype.F16
	}
	for l := range lanes {
		g, t := l/4, l%4
		for r := range 2 {
			x, y := out.Encode(d[g+8*r][2*t], false), out.Encode(d[g+8*r][2*t+1], false)
			if out == dtype.F16 {
				w.regs[int(i.out[r])+l] = y<<16 | x
				continue
			}
			w.regs[int(i.out[2*r])+l], w.regs[int(i.out[2*r+1])+l] = x, y
		}
	}
}

// scale bounds a vector: every value is a multiple of 2^low and at most 2^high in
// magnitude.
type scale struct {
	low, high int
	finite    bool
}

func scaleOf(v []float64) scale {
	s := scale{low: math.MaxInt32, high: math.MinInt32, finite: true}
	for _, x := range v {
		if x == 0 {
			continue
		}
		bits := math.Float64bits(x)
		e := int(bits>>52&0x7ff) - 1023
		if e == 1024 {
			s.finite = false
			return s
		}
		frac := bits & (1<<52 - 1)
		low := e // of the lowest set bit
		if frac != 0 {
			low = e - 52 + trailing(frac)
		}
		s.low, s.high = min(s.low, low), max(s.high, e+1)
	}
	return s
}

func trailing(v uint64) int {
	n := 0
	for v&1 == 0 {
		v >>= 1
		n++
	}
	return n
}

// dot is c + Σ a·b so that one rounding to f32 or f16 gives the rounded exact
// sum: either exact, or rounded to odd with 53 bits.
func dot(a, b *[16]float64, as, bs scale, c float64) float64 {
	cs := scaleOf([]float64{c})
	if !as.finite || !bs.finite || !cs.finite {
		s := c
		for k := range a {
			s += a[k] * b[k]
		}
		return s
	}
	if as.low == math.MaxInt32 || bs.low == math.MaxInt32 {
		return c + 0
	}
	low, high := min(as.low+bs.low, cs.low), max(as.high+bs.high+4, cs.high)
	if high+1-low <= 53 { // every partial sum fits the 53 bits of f64
		s := c + 0
		for k := range a {
			s += float64(a[k] * b[k])
		}
		return s + 0
	}
	s, e, exact := c, 0.0, true
	for k := range a {
		p := float64(a[k] * b[k]) // exact: at most 2·11 bits
		t := s + p
		z := t - s
		lost := (s - (t - z)) + (p - z)
		s = t
		if lost != 0 {
			f := e + lost
			y := f - e
			exact = exact && (e-(f-y))+(lost-y) == 0
			e = f
		}
	}
	if !exact {
		return dotBig(a, b, c)
	}
	t := s + e
	z := t - s
	e = (s - (t - z)) + (e - z)
	return odd(t, e) + 0
}

// odd moves s to the neighbour with odd last bit in the direction of the lost e.
func odd(s, e float64) float64 {
	bits := math.Float64bits(s)
	switch {
	case e == 0 || bits&1 == 1:
		return s
	case (e > 0) == (s > 0):
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}

func dotBig(a, b *[16]float64, c float64) float64 {
	const prec = 1024 // f32 and bf16 products span fewer bits
	sum := new(big.Float).SetPrec(prec).SetFloat64(c)
	for k := range a {
		p := new(big.Float).SetPrec(prec).SetFloat64(a[k])
		sum.Add(sum, p.Mul(p, new(big.Float).SetFloat64(b[k])))
	}
	s, acc := sum.Float64()
	return odd(s, -float64(acc)) + 0
}
