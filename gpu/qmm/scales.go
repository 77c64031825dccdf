package qmm

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/workers"
)

const (
	// spare is how many binades of normal numbers a float type of weights keeps below a
	// group's greatest weight where scales are made larger to be in reach.
	spare = 7
	// scarce bits have steps so wide that a scale's neighbours may suit its group better.
	scarce = 7
	// grows is by how much rounding scales unasked may multiply the weights' error, and growsSlight where that is up to slight of
	// the weights, as with 8 bits: nothing to what other widths lose, for products of thousands of rows that are a fourth faster. probe is
	// on how many groups it is tried.
	grows       = 1.02
	growsSlight = 1.125
	slight      = 1. / 64
	probe       = 1 << 12
	// octet outputs have codes of whole bytes, so that each worker may have some; in front of them it asks whether the context has ended.
	octet = 8
)

// grid is what scales are rounded to; bits 0 is all that their type has.
type grid struct {
	bits  int
	reach bool // within [template.Form.Reach]
}

// span is the range of a group's weights and 0.
type span struct{ lo, hi float64 }

func (s span) most() float64 { return max(s.hi, -s.lo) }

// filling is the state of [Weights.fill].
type filling struct {
	*Weights
	values  []float64
	top     float64
	size    int       // of a group
	spans   []span    // of groups, [groups, N]
	codes   []float64 // values of them
	small   float64   // [Linear.cutOff]
	least   int       // with largest, [template.Form.Reach]
	largest float64
}

// filled is the state for plain weights, of which no spans are known yet.
func (q *Weights) filled(values []float64) *filling {
	f := &filling{Weights: q, values: values, top: q.Form().Top(), size: q.Group, spans: make([]span, q.Groups()*q.N)}
	if f.size == 0 {
		f.size = q.K
	}
	for code := range uint64(1) << q.WeightType.Bits() {
		f.codes = append(f.codes, q.WeightType.Decode(code))
	}
	f.small = q.cutOff()
	f.least, f.largest = q.Form().Reach()
	return f
}

// fill finds scales, zero points and codes of plain weights, of which the greatest is most.
func (q *Weights) fill(ctx context.Context, values []float64, most float64) error {
	f := q.filled(values)
	mosts := make([]float64, workers.Parts(len(f.spans), len(values)>>14))
	workers.Share(len(mosts), len(f.spans), func(part, from, to int) {
		for i := from; i < to; i++ {
			if i%octet == 0 && ctx.Err() != nil {
				return
			}
			s := &f.spans[i]
			for _, v := range f.part(i) {
				s.lo, s.hi = min(s.lo, v), max(s.hi, v)
			}
			mosts[part] = max(mosts[part], s.hi-s.lo)
		}
	})
	if err := ended(ctx); err != nil {
		return err
	}
	if q.ZeroPoint {
		most = max(most, slices.Max(mosts)) // which codes span then
	}
	if q.Factor {
		q.One = q.factor(most, f.top)
		for i := range f.spans {
			f.spans[i].lo /= q.One
			f.spans[i].hi /= q.One
		}
	}
	if err := f.inReach(); err != nil {
		return err
	}
	to := f.grid(ctx)
	octets := (q.N + octet - 1) / octet
	workers.Share(workers.Parts(octets, len(values)>>14), octets, func(_, from, end int) {
		for g := range q.Groups() {
			for n := from * octet; n < min(end*octet, q.N); n++ {
				if n%octet == 0 && ctx.Err() != nil {
					return
				}
				f.group(g*q.N+n, to)
			}
		}
	})
	if err := ended(ctx); err != nil {
		return err
	}
	q.ScaleBits = q.scaleBits(q.Scales, q.Zeros)
	return nil
}

// inReach finds a group whose scale its type does not hold: its weights would become less than
// they are by any factor; and weights that are all too small for any.
func (f *filling) inReach() error {
	if f.One-f.One != 0 {
		return fmt.Errorf("qmm: the factor of all weights of %s would be %v, as f32", f.Linear, f.One)
	}
	most, held := f.beyond()
	greatest := 0.0
	for i, s := range f.spans {
		want := f.want(s, f.top)
		if greatest = max(greatest, want); want > most {
			return fmt.Errorf("qmm: weights [%d, %d…] of %s want a scale of %.3g, and %s; take another type of scales, or a factor", i%f.N, i/f.N*f.size, f.Linear, want, held)
		}
	}
	if greatest > 0 && greatest*f.top < f.lost() {
		return fmt.Errorf("qmm: all weights of %s would be 0: they want a scale of %.3g at most, and %s begins at %g; take another type of scales, or a factor", f.Linear, greatest, f.ScaleType, f.ScaleType.Smallest())
	}
	return nil
}

// beyond is what scales are above that their type, or so few bits of it, do not hold, and what says so: half a step above the greatest is
// still rounded to it, and weights are up to twice what a power of two stands for.
func (l Linear) beyond() (most float64, held string) {
	t, greatest, bits := l.ScaleType, l.greatest(), l.ScaleType.Row().Man+1
	held = fmt.Sprintf("%s holds up to %g", t, greatest)
	switch {
	case t == dtype.F8E8M0:
		return math.Ldexp(greatest, 1), held
	case greatest < t.Max():
		bits, held = l.ScaleBits, held+fmt.Sprintf(" with scalebits=%d", l.ScaleBits)
	}
	return greatest + math.Ldexp(1, math.Ilogb(greatest)-bits), held
}

// lost is what weights are below that become 0 with the least scale: half of the least code but 0.
func (l Linear) lost() float64 {
	code := 1.0
	if l.WeightType.IsFloat() {
		code = l.smallest()
	}
	return l.ScaleType.Smallest() * code / 2
}

// part are the plain weights of a group.
func (f *filling) part(i int) []float64 {
	g, n := i/f.N, i%f.N
	return f.values[n*f.K+g*f.size : n*f.K+min((g+1)*f.size, f.K)]
}

// group quantises a group with the best scale of a grid.
func (f *filling) group(i int, to grid) {
	r := f.best(i, to)
	f.Scales.SetCode(i, r.scale)
	if f.ZeroPoint {
		f.Zeros.SetCode(i, f.ActType.Encode(r.zero, true))
	}
	bits, from := f.WeightType.Bits(), i%f.N*f.K+i/f.N*f.Group
	for k, code := range r.codes {
		dtype.Put(f.Codes.Data, bits, from+k, uint64(code))
	}
}

// groupCodes are a group that is quantised with a scale, and the sum of the errors' squares.
type groupCodes struct {
	scale     uint64
	zero, off float64
	codes     []byte
}

// best is a group quantised with the best scale of a grid.
func (f *filling) best(i int, to grid) groupCodes {
	s, w := f.spans[i], f.part(i)
	scale := f.scale(f.want(s, f.top), s.most(), f.top, to)
	r, spare := f.round(w, scale, s.lo, f.top, make([]byte, len(w))), []byte(nil)
	for _, near := range f.near(scale, to) {
		if spare == nil {
			spare = make([]byte, len(w))
		}
		if now := f.round(w, near, s.lo, f.top, spare); now.off < r.off {
			r, spare = now, r.codes
		}
	}
	return r
}

// factor is that of all weights: with it the greatest weight has a [full] scale. It is a
// power of two, which takes no bits of the products, where such factors expand.
func (q *Weights) factor(most, top float64) float64 {
	one := float64(float32(most / (q.full() * top)))
	if one > 0 && q.Form().ExpandBits() > 0 {
		one = float64(float32(math.Ldexp(1, math.Ilogb(one)+1)))
	}
	if one == 0 {
		return math.SmallestNonzeroFloat32
	}
	return one
}

// full is the scale that the greatest weight has beside a factor: the greatest, which leaves
// most room to groups of less; 1 where the type has the exponents of f32, which holds sums before the factor, and of types beyond the activations',
// whose scales have to grow to be in reach.
func (l Linear) full() float64 {
	if l.ScaleType.Row().Exp >= 8 || l.narrow() {
		return 1
	}
	return l.greatest()
}

// greatest is the greatest scale, of as many bits as scales are to have.
func (l Linear) greatest() float64 {
	most := l.ScaleType.Max()
	if l.ScaleBits == 0 || l.ScaleType == dtype.F8E8M0 {
		return most
	}
	unit := math.Ilogb(most) + 1 - l.ScaleBits
	return math.Ldexp(math.Floor(math.Ldexp(most, -unit)), unit)
}

// want is the scale of a group before it is rounded.
func (q *Weights) want(s span, top float64) float64 {
	if q.ZeroPoint {
		return (s.hi - s.lo) / q.WeightType.Max()
	}
	return s.most() / top
}

// grid is what the layer's scales are rounded to: what the layer wishes; else the fewest bits
// with which all scales get in reach and the weights' error is no greater than with all bits, of those
// with which the form [template.Form.Expands]. Numbers of few significant bits take less power to
// multiply, and tensor cores go as fast as power allows. Where there are none it is the most bits, if the
// error hardly grows: where weights have w significant bits and scales b, rounding a
// scale moves the group's greatest weight by up to 2^(w-b) of its own steps: up to two of them
// the choice among neighbours makes up for, and more hardly count where steps are small.
func (f *filling) grid(ctx context.Context) grid {
	if f.ScaleType == dtype.F8E8M0 {
		return grid{}
	}
	form, wish := f.Form(), f.ScaleBits
	if wish > 0 {
		for to := (grid{wish, form.Expands(wish)}); to.bits > 0 && ctx.Err() == nil; to.bits-- {
			if f.fits(to) {
				return to
			}
		}
		return grid{bits: wish}
	}
	most := form.ExpandBits()
	plain, all := f.tried(ctx, grid{})
	for bits := 1; bits <= most && ctx.Err() == nil; bits++ {
		if to := (grid{bits, true}); f.fits(to) {
			if off, _ := f.tried(ctx, to); off <= plain {
				return to
			}
		}
	}
	least, limit := max(form.WeightBits()-1, 4), grows
	if plain <= slight*slight*all {
		least, limit = min(least, most), growsSlight
	}
	for bits := most; bits >= max(least, 1) && ctx.Err() == nil; bits-- {
		if to := (grid{bits, true}); f.fits(to) {
			if off, _ := f.tried(ctx, to); off > limit*limit*plain {
				break
			}
			return to
		}
	}
	return grid{}
}

// tried is the sum of the errors' squares of some groups with scales of a grid, and that of their weights' squares, both without the layer's factor; of less of them where
// ctx ends.
func (f *filling) tried(ctx context.Context, to grid) (off, all float64) {
	for i := 0; i < len(f.spans) && ctx.Err() == nil; i += (len(f.spans) + probe - 1) / probe {
		off += f.best(i, to).off
		for _, w := range f.part(i) {
			w /= f.One
			all += w * w
		}
	}
	return off, all
}

// fits reports whether all scales lie on a grid or near by.
func (f *filling) fits(to grid) bool {
	for _, s := range f.spans {
		if f.fitted(f.want(s, f.top), to) < 0 {
			return false
		}
	}
	return true
}

// fitted is the least number from want on that lies on a grid; less than 0 if none is near
// by. What the type rounds as well as the grid does stays as it is, and is rounded to
// the nearest then.
func (f *filling) fitted(want float64, to grid) float64 {
	if want == 0 || to.bits == 0 {
		return want
	}
	digits := f.ScaleType.Row().Man + 1
	unit := math.Ilogb(want) + 1 - min(to.bits, digits)
	if to.reach {
		least, most := f.least, f.largest
		if least -= math.Ilogb(f.One); unit < least {
			switch more := least - unit; {
			case math.Ilogb(f.ScaleType.Smallest()) >= least:
				return want
			case f.WeightType.IsFloat() && more <= f.room():
				// Floats of more exponents than a group needs lose nothing in the lower ones.
				want, unit = math.Ldexp(want, more), least
			default:
				return -1
			}
		}
		if 2*want*f.One > most {
			return -1
		}
	}
	if to.bits >= digits {
		return want
	}
	up := math.Ldexp(math.Ceil(math.Ldexp(want, -unit)), unit)
	if up > f.ScaleType.Max() {
		if to.reach {
			return -1
		}
		return f.greatest() // what is wished for: other grids that are not within reach have all bits
	}
	return up
}

// room is by how many binades scales of weights of a float type may grow.
func (l Linear) room() int {
	return math.Ilogb(l.Form().Top()) - math.Ilogb(max(l.WeightType.SmallestNormal(), l.ActType.SmallestNormal())) - spare
}

// near are the neighbours of a scale on a grid of few bits.
func (f *filling) near(code uint64, to grid) (out []uint64) {
	t := f.ScaleType
	if to.bits == 0 || to.bits > min(scarce, t.Row().Man) {
		return nil
	}
	s := t.Decode(code)
	_, e := math.Frexp(s)
	step := math.Ldexp(1, e-to.bits)
	below := s - step
	if fraction, _ := math.Frexp(s); fraction == 0.5 {
		below = s - step/2
	}
	least, most := f.least, f.largest
	for _, v := range []float64{s + step, below} {
		near := t.Encode(v, true)
		if n, ok := digits(t.Decode(near)*f.One, least, most); v > 0 && n <= to.bits && (ok || !to.reach) {
			out = append(out, near)
		}
	}
	return out
}

// scale is the code of the scale nearest to want, which is not 0, for a group whose
// greatest weight is most and becomes top.
func (f *filling) scale(want, most, top float64, to grid) uint64 {
	t := f.ScaleType
	if want == 0 {
		return t.Encode(1, true)
	}
	if t == dtype.F8E8M0 {
		e := math.Ceil(math.Log2(want))
		if f.WeightType.IsFloat() {
			_, a := math.Frexp(most)
			_, b := math.Frexp(top)
			e = float64(a - b)
		}
		return t.Encode(math.Ldexp(1, int(max(-127, min(127, e)))), true)
	}
	code := t.Encode(f.fitted(want, to), true)
	if t.Decode(code) == 0 {
		code = 1 // the least there is
	}
	return code
}

// round quantises one group of an output with a scale, into codes.
func (f *filling) round(values []float64, scale uint64, lo, top float64, codes []byte) groupCodes {
	t, r := f.WeightType, groupCodes{scale: scale, codes: codes}
	s, whole, mask := f.ScaleType.Decode(scale), t.IsInt(), t.Mask()
	least := max(t.Min(), -top) // integers with a sign are symmetric
	if f.ZeroPoint {
		r.zero = min(math.RoundToEven(-lo/s), t.Max())
	}
	for i, v := range values {
		v /= f.One
		x := min(max(v/s+r.zero, least), top)
		var code uint64
		if whole {
			code = uint64(int64(math.RoundToEven(x))) & mask
		} else {
			code = nearest(t, x, f.small)
		}
		codes[i] = byte(code)
		d := (f.codes[code]-r.zero)*s - v
		r.off += d * d
	}
	return r
}

// smallest is the smallest value of a code but 0 that programs multiply with.
func (l Linear) smallest() float64 {
	return template.Form{Weight: l.WeightType, Act: l.ActType}.Smallest()
}

// cutOff is smallest where the type has codes of smaller values, else 0.
func (l Linear) cutOff() float64 {
	if small := l.smallest(); l.WeightType.IsFloat() && l.WeightType.Smallest() < small {
		return small
	}
	return 0
}

// nearest is the code nearest to a number, of those that programs multiply with: types of more exponents than the activations' have
// smaller ones.
func (l Linear) nearest(x float64) uint64 { return nearest(l.WeightType, x, l.cutOff()) }

// nearest is that of a type, of whose values but 0 none is smaller than small.
func nearest(t dtype.Type, x, small float64) uint64 {
	if math.Abs(x) < 2*small {
		x = math.Copysign(math.RoundToEven(math.Abs(x)/small)*small, x)
	}
	return t.Encode(x, true)
}

// scaleBits is what [Linear.ScaleBits] says of the weights' scales and zero points, if the
// form [template.Form.Expands] with them; else 0.
func (q *Weights) scaleBits(scales, zeros *array.Array) int {
	f, one, n := q.Form(), 1.0, 1
	if q.Factor {
		one = q.One
	}
	least, most := f.Reach()
	for _, code := range distinct(scales) {
		bits, ok := digits(q.ScaleType.Decode(code)*one, least, most)
		if !ok {
			return 0
		}
		n = max(n, bits)
	}
	if zeros != nil {
		for _, code := range distinct(zeros) {
			if z := q.ActType.Decode(code); z != math.Trunc(z) || z < 0 || z > q.WeightType.Max() {
				return 0
			}
		}
	}
	if !f.Expands(n) || q.narrow() && q.first(q.outside()) >= 0 {
		return 0
	}
	return n
}

// digits is how many significant bits a number has, and whether it is 0 or a multiple of
// 2^least up to most.
func digits(v float64, least int, most float64) (n int, ok bool) {
	if v == 0 {
		return 0, true
	}
	if v = math.Abs(v); v-v != 0 {
		return 53, false
	}
	fraction, e := math.Frexp(v)
	n = 53 - bits.TrailingZeros64(uint64(math.Ldexp(fraction, 53)))
	return n, v <= most && e-n >= least
}

// distinct are the codes of an array of elements of 8 or 16 bits, each once.
func distinct(a *array.Array) []uint64 {
	size := a.Type.Bits() / 8
	n := len(a.Data) / size
	seen := make([][]bool, workers.Parts(n, n>>16))
	workers.Share(len(seen), n, func(i, from, to int) {
		seen[i] = make([]bool, 1<<a.Type.Bits())
		part := a.Data[from*size : to*size]
		for j := 0; j < len(part); j += size {
			code := int(part[j])
			if size == 2 {
				code |= int(part[j+1]) << 8
			}
			seen[i][code] = true
		}
	})
	var out []uint64
	for code := range seen[0] {
		for i := range seen {
			if seen[i][code] {
				out = append(out, uint64(code))
				break
			}
		}
	}
	return out
}

// mostSample is how many inputs a sample has at most: so many tell what more of a group would.
const mostSample = 1 << 14

// sample is a small layer of the kind, quantised: normally distributed weights of the sizes
// that layers of models have.
func (l Linear) sample() (*Weights, error) {
	l.N, l.K = 32, min(max(l.Group, 256), mostSample)
	w := array.New(dtype.F32, l.N, l.K)
	r := rand.New(rand.NewPCG(5, 6))
	for n := range l.N {
		size := 0.005 * math.Pow(10, float64(n)/float64(l.N))
		for k := range l.K {
			v := size * r.NormFloat64()
			if l.WeightType.IsInt() && !l.WeightType.Signed() && !l.ZeroPoint {
				v = math.Abs(v)
			}
			w.Set(v, n, k)
		}
	}
	return l.Quantize(context.Background(), w)
}

// Usual is the kind with the ScaleBits that [Linear.Quantize] gives weights of the size and
// distribution that layers of models have, and Far where packing finds these too large for folding in groups of 128 and more: what
// is to be expected of a layer before there is one.
func (l Linear) Usual() Linear {
	kind := l
	kind.N, kind.K = 0, 0
	known, ok := usual.Load(kind)
	if !ok {
		q, err := l.sample()
		if err != nil {
			return l
		}
		found := expected{bits: q.ScaleBits}
		if as, err := q.AsPacked(); err == nil && l.folding() != nil {
			found.far = as.Far
		}
		known, _ = usual.LoadOrStore(kind, found)
	}
	is := known.(expected)
	l.Far = l.Far || is.far
	if is.bits > 0 { // else a wish for all bits stays one: 0 is leave to choose
		l.ScaleBits = is.bits
	}
	return l
}

// expected is what Usual says of a kind.
type expected struct {
	bits int
	far  bool
}

// usual is what Usual has found, which takes some 10 ms, by kind.
var usual sync.Map
