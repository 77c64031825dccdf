package sim

import (
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
)

// This file holds the matrix instructions. D = A·B + C is what the interpreter's
// [interp.DotStep] says: the exact sum of all products and the start value,
// rounded once. The hardware may round intermediate sums; where every partial
// sum is exact both give the same bits.

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
	var b [8][16]float64   // by column
	var c, d [16][8]uint64 // codes
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
				c[g+8*r][2*t], c[g+8*r][2*t+1] = v&0xffff, v>>16&0xffff
				continue
			}
			for k := range 2 {
				c[g+8*r][2*t+k] = w.regs[int(i.in[6+2*r+k])+l]
			}
		}
	}
	out := dtype.F32
	if i.op == code.OpMmaF16F16 {
		out = dtype.F16
	}
	for r := range 16 {
		for n := range 8 {
			d[r][n] = interp.DotStep(out, c[r][n], a[r][:], b[n][:])
		}
	}
	for l := range lanes {
		g, t := l/4, l%4
		for r := range 2 {
			x, y := d[g+8*r][2*t], d[g+8*r][2*t+1]
			if out == dtype.F16 {
				w.regs[int(i.out[r])+l] = y<<16 | x
				continue
			}
			w.regs[int(i.out[2*r])+l], w.regs[int(i.out[2*r+1])+l] = x, y
		}
	}
}
