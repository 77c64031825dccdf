package probe

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// flavour says as what the operands of a tuple are chosen; the machine does not
// know, so every row gets tuples of each.
type flavour int

const (
	integers flavour = iota
	floats           // f16, f32, f64
	halves           // f16, also two in 32 bits
	brains           // bf16, also two in 32 bits
	flavours
)

// format is the element type of a value of type t under a flavour; pair says that
// there are two. The result is not valid for integers.
func format(t code.Type, fl flavour) (e dtype.Type, pair bool) {
	switch {
	case fl == integers || t == code.Pred:
		return e, false
	case t == code.B64:
		return dtype.F64, false
	case t == code.B32 && fl == floats:
		return dtype.F32, false
	case fl == brains:
		return dtype.BF16, t == code.B32
	}
	return dtype.F16, t == code.B32
}

// source makes operands; two sources with one seed make the same ones.
type source struct {
	*rand.Rand
	edge map[dtype.Type][]uint64
}

func newSource(seed uint64) *source {
	return &source{rand.New(rand.NewPCG(seed, 0x70726f6265)), map[dtype.Type][]uint64{}}
}

// integerEdges are the edge values of n-bit integers.
func integerEdges(n int) []uint64 {
	mask := uint64(1)<<n - 1
	set := []uint64{0x5555555555555555 & mask, 0xaaaaaaaaaaaaaaaa & mask, 0x0123456789abcdef & mask}
	for _, p := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 23, 24, 25, 31, 32, 33, 47, 52, 53, 54, 62, 63, 64} {
		if p > n {
			break
		}
		v := uint64(0)
		if p < 64 {
			v = 1 << p
		}
		for _, e := range []uint64{v - 1, v, v + 1} {
			set = append(set, e&mask, -e&mask)
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// floatEdges are the edge values of a float format: for each number of a list
// the nearest code and the codes beside it, with both signs, and NaNs.
func floatEdges(t dtype.Type) []uint64 {
	n := t.Bits()
	man := t.Row().Man
	top := uint64(1)<<(n-1) - 1 // all but the sign
	var set []uint64
	add := func(c uint64) {
		for d := uint64(0); d < 3; d++ {
			v := (c + d - 1) & top
			set = append(set, v, v|(top+1))
		}
	}
	for _, v := range []float64{0, 1, 1.5, 2, 2.5, 3, 10, 0.5, 0.75, 1.0 / 3,
		65504, 65520, 65536, 0x1p-14, 0x1p-24, 0x1p-25, 0x1.8p-24, // f16: largest, rounds up, subnormal
		math.MaxFloat32, 0x1.ffffffp127, 0x1.fep127, 0x1.ffp127, 0x1p-126, 0x1p-133, 0x1p-134, 0x1p-149, 0x1p-150, 0x1.8p-149,
		2147483647, 0x1p31, 0x1p32, 0x1p63, 0x1p64, 32767.5, 127.5, 255.5, // integer ranges
		0x1.004p0, 0x1.00cp0, 0x1.01p0, 0x1.03p0, 0x1.000001p0, 0x1.000003p0, // halfway for f16, bf16, f32
		math.Ldexp(1, man), math.Ldexp(1, man+1), math.Ldexp(1, -man-1)} {
		add(t.Encode(v, false))
	}
	inf := t.Inf(false)
	add(inf)              // also the largest finite number and a NaN that signals
	add(uint64(1) << man) // smallest normal, largest subnormal
	add(top)
	add(inf | 1<<(man-1)) // quiet NaN
	add(inf | 0x2a)
	slices.Sort(set)
	return slices.Compact(set)
}

func (s *source) edges(e dtype.Type) []uint64 {
	if s.edge[e] == nil {
		s.edge[e] = floatEdges(e)
	}
	return s.edge[e]
}

// edgesOf are the edge values of an operand. For pairs they are those of the low
// half; the caller fills the high one.
func (s *source) edgesOf(t code.Type, fl flavour) []uint64 {
	if t == code.Pred {
		return []uint64{0, 1}
	}
	if e, _ := format(t, fl); e.Valid() {
		return s.edges(e)
	}
	return integerEdges(t.Bits())
}

// integer is a random n-bit integer: of any bits, of random length with a
// halfway pattern below some place, or near an edge.
func (s *source) integer(n int) uint64 {
	mask := uint64(1)<<n - 1
	v := s.Uint64() & mask
	switch s.IntN(4) {
	case 0:
		return v
	case 1: // short, either sign
		v >>= s.IntN(n)
	case 2:
		v = s.tail(v>>s.IntN(n), s.IntN(n))
	case 3:
		edges := integerEdges(n)
		v = edges[s.IntN(len(edges))] + uint64(s.IntN(9)-4)
	}
	if s.IntN(2) == 0 {
		v = -v
	}
	return v & mask
}

// tail replaces the low p bits of v by a pattern where rounding turns.
func (s *source) tail(v uint64, p int) uint64 {
	if p == 0 {
		return v
	}
	half := uint64(1) << (p - 1)
	return v>>p<<p | []uint64{0, half, half - 1, half + 1, 2*half - 1}[s.IntN(5)]
}

// number is a random code of a float format with an exponent near center (in
// exponent codes), or anywhere if center is below 0.
func (s *source) number(e dtype.Type, center int) uint64 {
	n, man := e.Bits(), e.Row().Man
	exps := 1<<(n-1-man) - 1
	code := s.Uint64() & (1<<n - 1)
	switch s.IntN(8) {
	case 0:
		return code
	case 1:
		edges := s.edges(e)
		return edges[s.IntN(len(edges))]
	case 2, 3: // halfway for a shorter significand
		code = s.tail(code, s.IntN(man))
	}
	if center >= 0 {
		exp := min(max(center+s.IntN(2*man+5)-man-2, 0), exps)
		code = code&^(uint64(exps)<<man) | uint64(exp)<<man
	}
	return code
}

// halfway are the significand bits below those of a narrower format that a
// conversion from e rounds away.
var halfway = map[dtype.Type][]int{dtype.F32: {13, 16}, dtype.F64: {29, 42, 45}}

// fill makes the operands of one random tuple.
func (s *source) fill(types []code.Type, fl flavour, tuple []uint64) {
	centers := [2]int{-1, -1}
	for i, t := range types {
		e, pair := format(t, fl)
		switch {
		case t == code.Pred:
			tuple[i] = s.Uint64() & 1
			continue
		case !e.Valid():
			tuple[i] = s.integer(t.Bits())
			continue
		}
		tuple[i] = 0
		man := e.Row().Man
		for h := range 2 {
			if h == 1 && !pair {
				break
			}
			if centers[h] < 0 && s.IntN(2) == 0 { // half the tuples lie near 1 or near an exponent of another format
				bias := 1<<(e.Bits()-2-man) - 1
				centers[h] = max(bias+[]int{0, 0, 0, 0, -14, -24, 15, -126, -149, 127, 31, 63, -1022, 1023}[s.IntN(14)], 0)
			}
			v := s.number(e, centers[h])
			if p := halfway[e]; p != nil && s.IntN(4) == 0 {
				v = s.tail(v, p[s.IntN(len(p))])
			}
			tuple[i] |= v << (16 * h)
		}
	}
	s.cancel(types, fl, tuple)
}

// cancel makes some tuples of floats cancel: b near -a, c near -a·b.
func (s *source) cancel(types []code.Type, fl flavour, tuple []uint64) {
	e, pair := format(types[0], fl)
	last := len(types) - 1
	if !e.Valid() || last == 0 || types[last] != types[0] || s.IntN(6) != 0 {
		return
	}
	n := e.Bits()
	mask := uint64(1)<<n - 1
	one := func(shift int) {
		v := tuple[0] >> shift & mask
		if last == 2 {
			v = dtype.Mul(e, v, tuple[1]>>shift&mask)
		}
		v = (v ^ 1<<(n-1) + uint64(s.IntN(5)-2)) & mask
		tuple[last] = tuple[last]&^(mask<<shift) | v<<shift
	}
	one(0)
	if pair {
		one(16)
	}
}

// operands makes the columns of the operands of types: up to cross crossed
// edges, then random tuples, rounded up to a multiple of 256. avoid is true for
// operand 1 of rows that must not get a zero there.
func (s *source) operands(types []code.Type, cross, random int, avoid bool) [][]uint64 {
	cols := make([][]uint64, len(types))
	if len(types) == 0 {
		return cols
	}
	add := func(tuple []uint64) {
		for i, v := range tuple {
			if avoid && i == 1 && v == 0 {
				v = 1
			}
			cols[i] = append(cols[i], v)
		}
	}
	tuple := make([]uint64, len(types))
	if len(types) == 1 && types[0].Bits() <= 16 {
		for v := range uint64(1) << types[0].Bits() {
			tuple[0] = v
			add(tuple)
		}
		cross = 0
	}
	for fl := range flavours {
		if cross == 0 {
			break
		}
		edges := make([][]uint64, len(types))
		size := 1
		for i, t := range types {
			edges[i] = s.edgesOf(t, fl)
			size *= len(edges[i])
		}
		share := cross / int(flavours)
		for k := range min(size, share) {
			at := k
			if size > share {
				at = s.IntN(size)
			}
			for i, t := range types {
				tuple[i] = edges[i][at%len(edges[i])]
				at /= len(edges[i])
				if _, pair := format(t, fl); pair {
					tuple[i] |= edges[i][s.IntN(len(edges[i]))] << 16
				}
			}
			add(tuple)
		}
	}
	for k := 0; k < random || len(cols[0])%blockSize != 0; k++ {
		s.fill(types, flavour(k%int(flavours)), tuple)
		add(tuple)
	}
	return cols
}

// constants are the values that inputs of type t are tried with as constants in
// the text.
func constants(t code.Type) []uint64 {
	if t == code.Pred {
		return []uint64{0, 1}
	}
	n := t.Bits()
	mask := t.Mask()
	set := []uint64{0, 1, mask, 2, 3, 7, 31, 32, 33, uint64(1) << (n - 1), uint64(1)<<(n-1) - 1, 0x7fff, 0x8000, 0xffff, 0x10000 & mask, 0x10001 & mask, ^uint64(0xfffe) & mask, ^uint64(0xffff) & mask, 0x89abcdef01234567 & mask}
	if n >= 32 {
		e := dtype.F32
		if n == 64 {
			e = dtype.F64
		}
		for _, v := range []float64{1, -1.5, 0x1p-126, 0x1p-149, math.Inf(1), math.Inf(-1), math.NaN(), 1.0 / 3} {
			set = append(set, e.Encode(v, false))
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// immediates are the immediates that a row is tried with: all of them where they
// are few. Bits of constants are a sample, offsets and attributes belong to the
// memory rows and are none of this function's business.
func immediates(row *code.Row) [][]int64 {
	all := [][]int64{nil}
	extend := func(vals func(prefix []int64) []int64) {
		var next [][]int64
		for _, p := range all {
			for _, v := range vals(p) {
				next = append(next, append(slices.Clone(p), v))
			}
		}
		all = next
	}
	upTo := func(lo, hi int64) (v []int64) {
		for k := lo; k <= hi; k++ {
			v = append(v, k)
		}
		return v
	}
	for i, kind := range row.Imm {
		switch kind {
		case code.ImmBits:
			extend(func([]int64) (v []int64) {
				for _, c := range constants(row.Out[0]) {
					v = append(v, int64(c))
				}
				return v
			})
		case code.ImmCmp:
			extend(func([]int64) []int64 { return upTo(int64(code.EQ), int64(code.GE)) })
		case code.ImmLut:
			extend(func([]int64) []int64 { return upTo(0, 255) })
		case code.ImmBit, code.ImmLane:
			extend(func([]int64) []int64 { return upTo(0, 31) })
		case code.ImmWidth:
			extend(func(p []int64) []int64 { return upTo(1, 32-p[i-1]) })
		case code.ImmID:
			extend(func([]int64) []int64 { return upTo(0, 15) })
		case code.ImmThreads:
			extend(func([]int64) []int64 { return []int64{blockSize} })
		}
	}
	return all
}
