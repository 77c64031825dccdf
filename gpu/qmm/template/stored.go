package template

import (
	"fmt"
	"math"
)

// Reader finds single weights in the order of [Pack], without running a program.
type Reader struct {
	plan *Plan
	bit  [][]int // per output and k of a cast: where its code's bits are in the cast's bytes
}

// NewReader makes a reader for a plan.
func (p *Plan) NewReader() (*Reader, error) {
	l, err := p.natural()
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	width, lane := p.Stored.Bits(), p.bytesPerLane()
	codes := p.codes(1)
	r := &Reader{plan: p, bit: make([][]int, p.Outputs()*p.Sub)}
	for thread := range l.Threads() {
		for slot := range l.Slots() {
			at := l.Index(thread, slot)
			bits := make([]int, width)
			for i := range bits {
				b := slot*width + i
				if codes.HasPlace {
					b = codes.Place.At(slot, i)
				}
				byteOf := b / 8
				bits[i] = 8*(byteOf/16*512+thread*16+byteOf%16) + b%8
			}
			r.bit[at[0]*p.Sub+at[1]] = bits
		}
	}
	if lane%16 != 0 {
		return nil, fmt.Errorf("template: %d bytes of a thread are not whole pieces of 16", lane)
	}
	return r, nil
}

// At is the value, without scale and zero point, of weight [n, k] of a layer with
// that many inputs.
func (r *Reader) At(w []byte, inputs, n, k int) float64 {
	p := r.plan
	size := p.Outputs() * Turn * p.Stored.Bits() / 8
	from := (n/p.Outputs()*ceil(inputs, Turn)+k/Turn)*size + k%Turn/p.Sub*(size*p.Sub/Turn)
	code := uint64(0)
	for i, b := range r.bit[n%p.Outputs()*p.Sub+k%p.Sub] {
		code |= uint64(w[from+b/8]>>(b%8)&1) << i
	}
	return math.Ldexp(p.Stored.Decode(code)-float64(p.Bias), p.Power)
}
