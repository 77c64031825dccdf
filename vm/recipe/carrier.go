package recipe

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// A carrier is a way for one code to become a number of the target type: its bits
// go to certain bits of a lane, a magic constant is xored over them, and perhaps a
// byte is lifted to 16 bits and one arithmetic step follows. Which bits, which
// magic and which arithmetic work is found by trying: a choice is good if the lane,
// read as a number, is α·value + β for all codes, α a power of two. That yields the
// subnormals, the magic exponents and the byte tricks without naming any of them.
type carrier struct {
	parts  []part
	lift   lift
	fin    Op // 0: none
	a, b   uint16
	scale  int
	offset int
}

// part is a set of code bits that travel together.
type part struct {
	shape []int  // target bit in the lane for code bit lo + i
	lo    int    // lowest code bit
	mask  uint32 // of the targets
	magic uint32 // xored over the lane
}

// lift makes a 16-bit lane of a byte; the zero lift is none.
type lift struct {
	op    Op
	high  bool   // Prmt: the byte goes to the high half of the lane
	other uint32 // Prmt: the byte in the other half
}

// rank orders what follows the lane by its price: nothing, then the arithmetic
// steps by the rate of the hardware (HADD2 is faster than HFMA2).
func (c *carrier) rank() int { return slices.Index([]Op{0, Sub, Mul, Fma}, c.fin) }

// class identifies what the accumulator must know.
func (c *carrier) class() [2]int { return [2]int{c.scale, c.offset} }

// source is the task of a search: the value of every stored code.
type source struct {
	from, to dtype.Type
	mode     Mode
	recode   []uint8
	domain   Domain
	vals     []float64 // [2^bits], NaN where any result will do
	want     []uint64  // [2^bits] what an exact recipe gives
	flip     bool      // two's complement: the top bit may be xored
}

func newSource(from, to dtype.Type, mode Mode, recode bool) *source {
	n := 1 << from.Bits()
	s := &source{from: from, to: to, mode: mode, vals: make([]float64, n), want: make([]uint64, n)}
	s.flip = from.Kind() == dtype.Int && !recode
	if recode {
		s.recode = recoding(from)
		if s.recode == nil {
			return nil
		}
		s.domain.NoNegZero = from.IsFloat()
	}
	for i := range s.vals {
		s.vals[i] = math.NaN()
	}
	for c := n - 1; c >= 0; c-- {
		at := c
		if s.recode != nil {
			at = int(s.recode[c])
		}
		if cast := dtype.Cast(to, from, uint64(c)); finite(to, cast) {
			s.vals[at], s.want[at] = from.Decode(uint64(c)), cast
		}
	}
	return s
}

// spread puts the bits of a part of a code on its targets and xors the magic.
func (p *part) spread(code uint64) uint32 {
	x := p.magic
	for i, t := range p.shape {
		x ^= uint32(code>>(p.lo+i)&1) << t
	}
	return x
}

// shapes lists where n code bits may go in a lane: in one run, or the top bit apart.
func shapes(n, lane int) [][]int {
	run := func(p, n int) []int {
		s := make([]int, n)
		for i := range s {
			s[i] = p + i
		}
		return s
	}
	var out [][]int
	for p := 0; p+n <= lane; p++ {
		out = append(out, run(p, n))
	}
	if n == 1 {
		return out
	}
	for p := 0; p+n-1 <= lane; p++ {
		for q := range lane {
			if q < p || q >= p+n {
				out = append(out, append(run(p, n-1), q))
			}
		}
	}
	return out
}

// frames lists the ways from a lane of the given width to 16 bits, with the magics
// that may be xored: every sign and exponent of the target.
func (s *source) frames(lane int) (lifts []lift, magics func(lift) []uint32) {
	man := s.to.Row().Man
	steps := func(step, end int) []uint32 {
		var out []uint32
		for m := 0; m < end; m += step {
			out = append(out, uint32(m))
		}
		return out
	}
	if lane == 16 {
		return []lift{{}}, func(lift) []uint32 { return steps(1<<man, 1<<16) }
	}
	lifts = append(lifts, lift{op: Prmt, high: true})
	if s.to == dtype.F16 {
		lifts = append(lifts, lift{op: CvtE4M3})
	}
	for m := range uint32(256) {
		lifts = append(lifts, lift{op: Prmt, other: m})
	}
	return lifts, func(l lift) []uint32 {
		switch {
		case l.op == CvtE4M3:
			return steps(1<<3, 256)
		case l.high:
			return steps(1<<max(man-8, 0), 256)
		}
		return []uint32{0}
	}
}

// decode is the number in a lane.
func (s *source) decode(l lift, x uint32) uint64 {
	switch {
	case l.op == CvtE4M3:
		return dtype.Cast(dtype.F16, dtype.F8E4M3, uint64(x))
	case l.op == Prmt && l.high:
		return uint64(x)<<8 | uint64(l.other)
	case l.op == Prmt:
		return uint64(x) | uint64(l.other)<<8
	}
	return uint64(x)
}

// carriers finds the carriers in lanes of a width, the best for each set of targets.
func (s *source) carriers(lane int) []carrier {
	w := s.from.Bits()
	best := map[uint32]carrier{}
	lifts, magics := s.frames(lane)
	var all [][]int
	if w <= lane {
		all = shapes(w, lane)
	}
	for _, shape := range all {
		p := part{shape: shape}
		for _, t := range shape {
			p.mask |= 1 << t
		}
		for _, l := range lifts {
			for _, m := range magics(l) {
				for _, flip := range []bool{false, true} {
					if flip && !s.flip {
						continue
					}
					p.magic = m
					if flip {
						p.magic ^= 1 << shape[w-1]
					}
					c, ok := s.fit(carrier{parts: []part{p}, lift: l})
					if old, have := best[p.mask]; ok && (!have || c.before(&old)) {
						best[p.mask] = c
					}
				}
			}
		}
	}
	var out []carrier
	for _, c := range best {
		out = append(out, c)
	}
	if lane == 16 && len(out) == 0 {
		out = s.sums()
	}
	slices.SortFunc(out, func(x, y carrier) int {
		return cmp.Compare(x.parts[len(x.parts)-1].mask, y.parts[len(y.parts)-1].mask)
	})
	return out
}

// before orders carriers of the same targets: cheap arithmetic, no bits flipped,
// small offset, small scale, small constants.
func (c *carrier) before(d *carrier) bool {
	key := func(c *carrier) []int {
		return []int{c.rank(), bits.OnesCount32(c.parts[0].magic & c.parts[0].mask), abs(c.offset), abs(c.scale), int(c.parts[0].magic), int(c.lift.other)}
	}
	return slices.Compare(key(c), key(d)) < 0
}

func abs(x int) int { return max(x, -x) }

// fit finds the α and β of a carrier and the arithmetic that they need.
func (s *source) fit(c carrier) (carrier, bool) {
	lane := func(code int) uint64 { return s.decode(c.lift, c.parts[0].spread(uint64(code))) }
	c0, c1 := -1, -1
	var x0, alpha, beta float64
	for code, v := range s.vals {
		if math.IsNaN(v) {
			continue
		}
		x := s.to.Decode(lane(code))
		switch {
		case math.IsNaN(x) || math.IsInf(x, 0):
			return c, false
		case c0 < 0:
			c0, x0 = code, x
		case c1 < 0 && v != s.vals[c0]:
			c1 = code
			alpha = (x - x0) / (v - s.vals[c0])
			if frac, _ := math.Frexp(alpha); frac != 0.5 && frac != -0.5 {
				return c, false
			}
			beta = x0 - alpha*s.vals[c0]
		}
		if c1 >= 0 && x != alpha*v+beta {
			return c, false
		}
	}
	if c1 < 0 {
		return c, false
	}
	if s.mode == Deferred && alpha > 0 {
		_, k := math.Frexp(alpha)
		off := beta / alpha
		if k--; k >= MinScale && off == math.Trunc(off) && math.Abs(off) <= 1<<16 && (off != 0 || s.keepsZeros(lane)) {
			c.scale, c.offset = k, int(off)
			return c, true
		}
	}
	a, b := 1/alpha, -beta/alpha
	switch {
	case alpha == 1 && beta == 0:
	case alpha == 1:
		c.fin, b = Sub, beta
	case beta == 0:
		c.fin = Mul
	default:
		c.fin = Fma
	}
	for _, k := range []struct {
		v  float64
		to *uint16
	}{{a, &c.a}, {b, &c.b}} {
		code := s.to.Encode(k.v, false)
		if s.to.Decode(code) != k.v {
			return c, false
		}
		*k.to = uint16(code)
	}
	for code, v := range s.vals {
		if !math.IsNaN(v) && !s.hits(code, c.finish(s.to, lane(code), 0)) {
			return c, false
		}
	}
	return c, true
}

// keepsZeros reports whether zero comes out as zero of the same sign.
func (s *source) keepsZeros(lane func(code int) uint64) bool {
	for code, v := range s.vals {
		if v == 0 && !s.domain.NoNegZero && math.Signbit(v) != math.Signbit(s.to.Decode(lane(code))) {
			return false
		}
	}
	return true
}

// hits reports whether a stored code may come out as got.
func (s *source) hits(code int, got uint64) bool {
	return got == s.want[code] || s.domain.NoNegZero && s.to.Decode(got) == 0 && s.vals[code] == 0
}

// finish is the arithmetic of a carrier on the lanes of its parts.
func (c *carrier) finish(t dtype.Type, x, y uint64) uint64 {
	switch c.fin {
	case Sub:
		if len(c.parts) == 2 {
			return dtype.Sub(t, x, y)
		}
		return dtype.Sub(t, x, uint64(c.b))
	case Mul:
		return dtype.Mul(t, x, uint64(c.a))
	case Fma:
		if len(c.parts) == 2 {
			return dtype.Fma(t, y, uint64(c.a), x)
		}
		return dtype.Fma(t, x, uint64(c.a), uint64(c.b))
	}
	return x
}

// sums finds carriers for integers too wide for the mantissa: the top bit gets a
// lane of its own, and a subtraction or FMA joins the two. x is the lane of the low
// bits under a magic exponent, y = y0 or y1 that of the top bit; x − y or s·y + x
// must round to the value, or to value + offset where that may be left over.
func (s *source) sums() []carrier {
	w, man := s.from.Bits(), s.to.Row().Man
	if s.from.IsFloat() || w-1 > man {
		return nil
	}
	low := part{magic: uint32(s.to.Encode(math.Ldexp(1, man), false))}
	for i := range w - 1 {
		low.shape = append(low.shape, i)
		low.mask |= 1 << i
	}
	x0 := math.Ldexp(1, man)
	var out []carrier
	for t := range 16 {
		var found *carrier
		for m := 0; m < 1<<16; m += 1 << man {
			for _, flip := range []uint32{0, 1} {
				top := part{shape: []int{t}, lo: w - 1, mask: 1 << t, magic: uint32(m) ^ flip<<t}
				y0 := s.to.Decode(uint64(top.spread(0)))
				c := carrier{parts: []part{low, top}, fin: Sub}
				switch {
				case y0 == x0:
				case s.mode == Deferred && y0 == 2*x0:
					c.offset = -int(x0)
				default: // s·y0 takes the magic away
					a := s.to.Encode(-x0/y0, false)
					if y0 == 0 || s.to.Decode(a)*y0 != -x0 {
						continue
					}
					c.fin, c.a = Fma, uint16(a)
				}
				if s.joins(&c) && (found == nil || c.sumKey() < found.sumKey()) {
					found = &c
				}
			}
		}
		if found != nil {
			out = append(out, *found)
		}
	}
	return out
}

// joins reports whether a carrier of two parts gives value + offset for all codes.
func (s *source) joins(c *carrier) bool {
	for code, v := range s.vals {
		got := c.finish(s.to, uint64(c.parts[0].spread(uint64(code))), uint64(c.parts[1].spread(uint64(code))))
		if s.to.Decode(got) != v+float64(c.offset) || c.offset == 0 && !s.hits(code, got) {
			return false
		}
	}
	return true
}

func (c *carrier) sumKey() int { return 2*c.rank() + min(abs(c.offset), 1) }
