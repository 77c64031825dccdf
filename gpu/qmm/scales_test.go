package qmm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// query are the weights of a layer of a model.
func query(t *testing.T) *array.Array {
	t.Helper()
	w, err := array.FromSpec("../../notebooks/data/query_weight.npy")
	if err != nil {
		t.Fatal(err)
	}
	return array.FromFloats(dtype.F32, []int{24, 384}, w.Transpose().Floats()[:24*384])
}

// TestScaleBits quantises weights of all types with the scales that Quantize chooses and with
// all significant bits of theirs: the error of the weights grows by 2% at most, or where it is up to 1/64 of them by 12.5%, and
// where a layer is said to have few bits, the type of the activations holds every weight.
// It does for all types but those that have too many significant bits or exponents.
func TestScaleBits(t *testing.T) {
	small := array.New(dtype.F32, 24, 512)
	for i, v := range normal(dtype.F32, 4, 24, 512).Floats() {
		small.SetCode(i, dtype.F32.Encode(0.02*v, true))
	}
	not := map[dtype.Type][]string{
		dtype.BF16: {"u5", "u6", "u7", "u8", "i6", "i7", "i8", "f6e1m4", "f7e1m5", "f8e1m6"},
	}
	worst, most := 0.0, ""
	for i, w := range weightTypes() {
		for j, act := range []dtype.Type{dtype.F16, dtype.BF16} {
			for k, plain := range []*array.Array{small, query(t)} {
				l := Linear{WeightType: w, ActType: act, Group: []int{128, 32, 64, 0}[(i+j+2*k)%4], ZeroPoint: w.IsInt() && !w.Signed(), N: plain.Shape[0], K: plain.Shape[1]}
				if testing.Short() && k > 0 {
					continue
				}
				q, err := l.Quantize(t.Context(), plain)
				if err != nil {
					t.Fatal(err)
				}
				// Two and three bits, which are good enough for some weights of these and not for others, are all that bf16 leaves.
				some := act == dtype.BF16 && (w == dtype.F8E3M4 || w == dtype.F7E2M4 || w == dtype.F8E2M5)
				if got, want := q.ScaleBits > 0, !slices.Contains(not[act], w.String()); got != want && !some {
					t.Errorf("%s: scales of %d bits", l, q.ScaleBits)
				}
				for n := 0; n < l.N && q.ScaleBits > 0; n++ {
					for k := range l.K {
						if v := q.At(n, k); act.Decode(act.Encode(v, false)) != v {
							t.Fatalf("%s: %s rounds weight [%d, %d], %g", q, act, n, k, v)
						}
					}
				}
				l.ScaleBits = 11 // of f16, all
				all, err := l.Quantize(t.Context(), plain)
				if err != nil {
					t.Fatal(err)
				}
				off, limit := array.RelFro(dequantized(t, all), plain), 1.02
				if off < 1./64 {
					limit = 1.125
				}
				ratio := array.RelFro(dequantized(t, q), plain) / off
				if !(ratio <= limit) {
					t.Errorf("%s: the weights' error is %.4f of that with full scales", q, ratio)
				}
				if f := l.Form(); q.ScaleBits > 0 && q.ScaleBits < f.ExpandBits() && ratio > 1.0001 {
					t.Errorf("%s: fewer bits than there could be, and %.4f of the error", q, ratio)
				}
				if ratio > worst {
					worst, most = ratio, q.String()
				}
			}
		}
	}
	t.Logf("at most %.4f of the error with full scales, %s", worst, most)
}

// TestScalesFound holds what is found of scales from elsewhere.
func TestScalesFound(t *testing.T) {
	d := openDevice(t, "interp")
	set := func(v float64) func(q *Weights) {
		return func(q *Weights) { q.Scales.Set(v, 1, 5) }
	}
	for _, c := range []struct {
		layer  string
		scales float64 // of all
		change func(q *Weights)
		bits   int // 0 where expanding rounds weights
	}{
		{"u8", 1. / 256, nil, 1},
		{"u8", 1. / 256, set(7. / 256), 3},
		{"u8", 1. / 256, set(9. / 256), 0}, // 4 + 8 bits
		{"i4", 1. / 256, set(-255. / 256), 8},
		{"i4", 1. / 256, set(0x1p14), 0},                  // 8 of it are beyond f16
		{"i4 scale=bf16", 1. / 256, set(0x1p-24), 1},      // the least of f16
		{"i4 scale=bf16", 1. / 256, set(0x1p-25), 0},      // less
		{"f8e4m3 scale=f8e8m0", 0x1p-15, nil, 1},          // codes have 2^-9
		{"f8e4m3 scale=f8e8m0", 0x1p-16, nil, 0},          // beyond f16's least number
		{"f8e4m3 scale=f8e8m0 act=bf16", 0x1p-16, nil, 1}, // bf16 has more exponents
		{"u4 zero", 1. / 256, nil, 1},
		{"u4 zero", 1. / 256, func(q *Weights) { q.Zeros.Set(15, 1, 5) }, 1},
		{"u4 zero", 1. / 256, func(q *Weights) { q.Zeros.Set(7.5, 1, 5) }, 0},
		{"u4 zero", 1. / 256, func(q *Weights) { q.Zeros.Set(16, 1, 5) }, 0},
		{"nvfp4", 1, func(q *Weights) { q.One = 1. / 1024 }, 1},
		{"nvfp4", 1.125, func(q *Weights) { q.One = 3. / 4096 }, 5}, // 4 and 2 bits
		{"nvfp4", 1.125, func(q *Weights) { q.One = 1. / 3000 }, 0},
		{"f8e6m1", 1, func(q *Weights) { q.Codes.Set(1, 3, 5); q.Codes.Set(0x1p-16, 3, 6) }, 1},
		{"f8e6m1", 1, func(q *Weights) { q.Codes.Set(1.5, 3, 5) }, 0}, // scales in reach may bring it beyond f16
		{"f8e6m1 act=bf16", 1, func(q *Weights) { q.Codes.Set(0x1.8p-24, 3, 5) }, 1},
	} {
		l := kind(t, c.layer, 64, 256)
		q := &Weights{Linear: l, Codes: array.New(l.WeightType, l.N, l.K), Scales: array.New(l.ScaleType, l.Groups(), l.N), One: 1}
		for i := range q.Scales.Len() {
			q.Scales.SetCode(i, l.ScaleType.Encode(c.scales, true))
		}
		if l.ZeroPoint {
			q.Zeros = array.New(l.ActType, l.Groups(), l.N)
		}
		if c.change != nil {
			c.change(q)
		}
		q.ScaleBits = 2 // what is claimed does not count
		p, err := q.Pack(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if p.ScaleBits != c.bits {
			t.Errorf("%s with %g: %d bits, not %d", c.layer, c.scales, p.ScaleBits, c.bits)
		}
		big := p.Linear
		big.N, big.K = 8192, 8192
		if plans := big.Plans(4096); slices.Contains(plans, Expand) != (c.bits > 0) {
			t.Errorf("%s with %g: plans %v for many rows", c.layer, c.scales, plans)
		}
	}
	scales := array.New(dtype.F16, 64, 57344)
	for i := range scales.Data {
		scales.Data[i] = byte(i * i >> 3)
	}
	start := time.Now()
	n := len(distinct(scales))
	t.Logf("%d scales, %d of them distinct, in %v", scales.Len(), n, time.Since(start))
}

// TestDistinct finds each code once, in arrays of one and of several parts.
func TestDistinct(t *testing.T) {
	for _, typ := range []dtype.Type{dtype.F16, dtype.F8E8M0} {
		for _, n := range []int{1, 5, 1<<18 + 3} {
			a, want := array.New(typ, n), map[uint64]bool{}
			for i := range n {
				code := uint64(i*7919+3) & typ.Mask()
				a.SetCode(i, code)
				want[code] = true
			}
			got := distinct(a)
			for _, code := range got {
				if !want[code] {
					t.Errorf("%s: %d is not among them", typ, code)
				}
			}
			if len(got) != len(want) || !slices.IsSorted(got) {
				t.Errorf("%s, %d elements: %d codes, not %d", typ, n, len(got), len(want))
			}
		}
	}
}

// TestUsual holds what is expected of layers, and what the bench draws: no fewer significant
// bits than layers have.
func TestUsual(t *testing.T) {
	for _, c := range []struct {
		layer string
		bits  int
	}{
		{"u4 zero", 4}, {"u4", 4}, {"i4", 2}, {"i4 act=bf16", 2}, {"f6e3m2", 2}, {"u6 zero", 5}, {"u8 zero", 3}, {"i8", 4}, {"u7", 4}, {"f8e1m6", 4}, {"i8 scalebits=11", 11}, {"f8e7m0", 1}, {"f8e6m1", 3}, {"f8e4m3", 2}, {"u1 group=channel", 1},
		{"mxfp4", 1}, {"mxint8", 1}, {"nvfp4", 3}, {"nvfp4 act=bf16", 3}, {"u4 scalebits=3", 3}, {"u8 zero scalebits=3", 3}, {"u4 scalebits=11", 11}, {"u4 zero=any", 0}, {"u8 zero=any group=64 act=bf16", 0},
	} {
		l := kind(t, c.layer, 8192, 8192)
		if got := l.Usual(); got.ScaleBits != c.bits || got.N != l.N {
			t.Errorf("%s: %d bits, not %d", c.layer, got.ScaleBits, c.bits)
		}
		usual := l.Usual()
		if plans := usual.Plans(4096); slices.Contains(plans, Expand) != (c.bits > 0 && c.bits < 11) {
			t.Errorf("%s: plans %v for many rows", c.layer, plans)
		}
		if again := usual.Usual(); again != usual {
			t.Errorf("%s: usual is %s, and of that %s", c.layer, usual, again)
		}
		like, err := l.sample()
		if err != nil {
			t.Fatal(err)
		}
		bits := func(codes []uint64) (most int) {
			for _, code := range codes {
				n, _ := digits(l.ScaleType.Decode(code), 0, 0)
				most = max(most, n)
			}
			return most
		}
		if drawn, have := bits(like.drawn()), bits(distinct(like.Scales)); drawn != have {
			t.Errorf("%s: scales of %d bits are measured, layers have %d", c.layer, drawn, have)
		}
	}
}

// TestExpandKeeps makes weights plain whose scales have as many significant bits as are said
// to be kept, at both ends of what is in reach: the program's own steps lose none either.
func TestExpandKeeps(t *testing.T) {
	d := openDevice(t, "sim")
	for i, w := range weightTypes() {
		for j, act := range []dtype.Type{dtype.F16, dtype.BF16} {
			if testing.Short() && (i+j)%4 != 0 {
				continue
			}
			l, err := Linear{WeightType: w, ActType: act, ScaleType: act, Group: 128, ZeroPoint: w.IsInt() && !w.Signed() && i%2 == 0, N: 40, K: 256}.Check()
			if err != nil {
				t.Fatal(err)
			}
			f := l.Form()
			bits := f.ExpandBits()
			least, most := f.Reach()
			q := &Weights{Linear: l, Codes: array.New(w, l.N, l.K), Scales: array.New(act, l.Groups(), l.N), One: 1}
			for k := range q.Codes.Len() {
				code := uint64(k*5+k/256) & w.Mask()
				if !f.Counts(w.Decode(code)) {
					code = 0
				}
				q.Codes.SetCode(k, code)
			}
			if l.ZeroPoint {
				q.Zeros = array.New(act, l.Groups(), l.N)
			}
			for k := range q.Scales.Len() {
				unit := least
				switch k % 3 {
				case 1:
					unit = max(least, math.Ilogb(most)+1-bits)
				case 2:
					unit = max(least, -6-bits)
				}
				v := math.Ldexp(float64(max(1, 1<<bits-1-k%4)), unit)
				for ; v > most; v /= 2 {
				}
				q.Scales.SetCode(k, act.Encode(v, true))
				if l.ZeroPoint {
					q.Zeros.SetCode(k, act.Encode(float64(k)-math.Floor(float64(k)/(w.Max()+1))*(w.Max()+1), true))
				}
			}
			p, err := q.Pack(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if p.ScaleBits == 0 {
				if math.Ldexp(1, least) <= most {
					t.Errorf("%s: nothing is in reach", l)
				}
				continue
			}
			program, err := template.Expand(f)
			if err != nil {
				t.Fatal(err)
			}
			args := arrays(p.W, p.Scales, p.Zeros, array.New(act, l.N, l.K))
			at := len(args) - 1
			res, err := launch(t.Context(), d, program, sizes(args, l.N, l.K))
			if err != nil {
				t.Fatal(err)
			}
		rows:
			for n := range l.N {
				for k := range l.K {
					if got, want := res.Args[at].Array.At(n, k), q.At(n, k); got != want {
						t.Errorf("%s: weight [%d, %d] is %g, plain %g", p.Linear, n, k, want, got)
						break rows
					}
				}
			}
		}
	}
}

// TestFactor holds that a factor that is a power of two costs the weights nothing.
func TestFactor(t *testing.T) {
	for i, plain := range []*array.Array{query(t), normal(dtype.F32, 6, 24, 512), normal(dtype.F32, 7, 24, 512)} {
		q, err := kind(t, "nvfp4", plain.Shape[0], plain.Shape[1]).Quantize(t.Context(), plain)
		if err != nil {
			t.Fatal(err)
		}
		ours, most := array.RelFro(dequantized(t, q), plain), 0.0
		for _, v := range plain.Floats() {
			most = max(most, math.Abs(v))
		}
		if n, _ := digits(q.One, 0, 0); n != 1 || q.ScaleBits != 3 {
			t.Errorf("%d: the factor %g has %d significant bits, with scales %d", i, q.One, n, q.ScaleBits)
		}
		f := q.filled(plain.Floats())
		q.One = most / (q.ScaleType.Max() * f.top)
		for i := range q.Groups() * q.N {
			s := &f.spans[i]
			for _, v := range f.part(i) {
				s.lo, s.hi = min(s.lo, v/q.One), max(s.hi, v/q.One)
			}
			f.group(i, grid{})
		}
		if theirs := array.RelFro(dequantized(t, q), plain); !(ours <= 1.01*theirs) {
			t.Errorf("%d: the weights are off by %g, by %g with the factor that fits them best", i, ours, theirs)
		}
	}
}

// TestFactorInReach multiplies layers with a factor beside scales of all types: what sums are before the factor stays in reach of f32.
func TestFactorInReach(t *testing.T) {
	for _, text := range []string{"mxfp4 factor", "i4 scale=f8e8m0 factor group=32", "i4 scale=bf16 factor act=bf16", "u4 zero scale=bf16 factor", "f8e4m3 scale=bf16 factor", "i4 factor", "nvfp4"} {
		l := kind(t, text, 24, 256)
		q, p := packed(t, openDevice(t, "interp"), l, 5, nil)
		for _, size := range []float64{1, 1000} {
			x := normal(l.ActType, 6, 3, l.K)
			for i, v := range x.Floats() {
				x.SetCode(i, l.ActType.Encode(size/64*v, true))
			}
			holds(t, openDevice(t, "interp"), q, p, x, fmt.Sprint("x of ", size/64), Call{})
		}
		greatest := 0.0
		for _, v := range q.Scales.Floats() {
			greatest = max(greatest, v)
		}
		if want := l.full(); !(greatest >= want/2 && greatest <= 2*want) {
			t.Errorf("%s: the greatest scale is %g, not about %g", text, greatest, want)
		}
	}
}

// TestFewScaleBits has scales beside a factor have no more significant bits than they are to have: the greatest scale of
// the type has more.
func TestFewScaleBits(t *testing.T) {
	w := normal(dtype.F32, 12, 64, 512)
	for _, text := range []string{"nvfp4", "nvfp4 act=bf16", "f8e4m3 scale=f8e4m3 group=16 factor", "u4 zero group=16 scale=f8e4m3 factor", "i4 factor", "i4 scale=bf16 act=bf16 factor"} {
		for size := 1.0; size > 1e-8; size /= 20 {
			sized := array.New(dtype.F32, 64, 512)
			for i, v := range w.Floats() {
				sized.Set(size*v, i/512, i%512)
			}
			for bits := 1; bits <= 4; bits++ {
				l := kind(t, fmt.Sprintf("%s scalebits=%d", text, bits), 64, 512)
				q, err := l.Quantize(t.Context(), sized)
				if err != nil || q.ScaleBits > bits || q.ScaleBits == 0 && size == 1 { // smaller ones programs may not fold
					t.Fatalf("%s, weights of %g: scales have %d bits, %v", l, size, q.ScaleBits, err)
				}
				for _, code := range distinct(q.Scales) {
					if n, _ := digits(l.ScaleType.Decode(code), 0, 0); n > bits && q.ScaleBits > 0 {
						t.Fatalf("%s, weights of %g: scale %g has %d bits", l, size, l.ScaleType.Decode(code), n)
					}
				}
			}
		}
	}
}

// TestWishedBits: scales have no more significant bits than they are to have, however small or large weights are: none has the greatest
// of its type where that has more, and weights that would have one are refused.
func TestWishedBits(t *testing.T) {
	const n, k = 15, 256
	w := normal(dtype.F32, 12, n, k)
	refused := map[string]int{}
	for _, text := range []string{"i4", "u4 zero=any", "i4 scale=bf16 act=bf16", "i8 group=channel", "f6e3m2", "f8e7m0 factor", "f4e2m1 group=16 scale=f8e4m3", "u4 zero group=32 act=bf16", "i4 factor"} {
		for size := 1e7; size > 1e-9; size /= 7 {
			sized := array.New(dtype.F32, n, k)
			for i, v := range w.Floats() {
				sized.Set(size*math.Pow(1e-3, float64(i/k%3))*v, i/k, i%k)
			}
			for _, bits := range []int{1, 2, 3, 5, 9} {
				l := kind(t, fmt.Sprintf("%s scalebits=%d", text, bits), n, k)
				q, err := l.Quantize(t.Context(), sized)
				if err != nil {
					if few := fmt.Sprintf(" with scalebits=%d; take", bits); strings.Contains(err.Error(), few) {
						refused[few]++
					}
					continue
				}
				for _, code := range distinct(q.Scales) {
					if has, _ := digits(l.ScaleType.Decode(code), 0, 0); has > bits {
						t.Fatalf("%s, weights of %g: scale %g has %d bits", l, size, l.ScaleType.Decode(code), has)
					}
				}
				// A group whose scale would be above the greatest has that, by up to half a step.
				if off := array.RelFro(dequantized(t, q), sized); bits > 2 && l.WeightType.Bits() > 3 && size > 1 && off > 0.2 {
					t.Errorf("%s, weights of %g are off by %g", l, size, off)
				}
			}
		}
	}
	if len(refused) < 3 {
		t.Errorf("weights that are too large for few bits of scales are refused: %v", refused)
	}
	for text, want := range map[string]string{
		"i4 scalebits=1":              "f16 holds up to 32768 with scalebits=1; take another type of scales, or a factor",
		"i4 scalebits=11":             "f16 holds up to 65504; take",
		"i4 scale=f8e4m3 scalebits=2": "f8e4m3 holds up to 384 with scalebits=2; take",
	} {
		for _, over := range []bool{false, true} {
			l := kind(t, text, 1, 128)
			most, _ := l.beyond()
			large := array.New(dtype.F32, 1, 128)
			large.Set(most*7, 0, 5)
			if over {
				large.Set(most*7.001, 0, 5)
			}
			q, err := l.Quantize(t.Context(), large)
			if over != (err != nil) || over && !strings.Contains(err.Error(), want) || !over && q.Scales.At(0, 0) != l.greatest() {
				t.Errorf("%s, weights of %g: %v does not say %q", l, large.At(0, 5), err, want)
			}
		}
	}
}

// TestSlight: what an error is beside its weights, and so what scales get, does not depend on how large these are.
func TestSlight(t *testing.T) {
	w := query(t)
	for _, text := range []string{"i8", "i8 factor", "i8 scale=bf16 factor"} {
		bits := map[int]bool{}
		for _, size := range []float64{1, 10, 100} {
			sized := array.New(dtype.F32, w.Shape...)
			for i, v := range w.Floats() {
				sized.SetCode(i, dtype.F32.Encode(size*v, true))
			}
			q, err := kind(t, text, w.Shape[0], w.Shape[1]).Quantize(t.Context(), sized)
			if err != nil {
				t.Fatal(err)
			}
			bits[q.ScaleBits] = true
		}
		if len(bits) != 1 || bits[0] {
			t.Errorf("%s: scales of weights 1, 10 and 100 times as large have bits %v", text, bits)
		}
	}
}

// TestTooSmall quantises weights that hardly any scale reaches, and those that none does.
func TestTooSmall(t *testing.T) {
	for text, least := range map[string]float64{"i4": 3e-8, "u4 zero": 3e-8, "f4e2m1": 1.5e-8, "f8e6m1": 0x1p-41, "f8e7m0 group=32 scale=bf16": 0x1p-150, "f7e6m0 scale=f8e8m0": 0x1p-143, "i4 scale=bf16": 0, "i4 factor": 0} {
		l := kind(t, text, 2, 128)
		for _, v := range []float64{1.1 * least, 0.9 * least, 1e-30, 0} {
			w := array.New(dtype.F64, 2, 128)
			w.Set(v, 1, 70)
			q, err := l.Quantize(t.Context(), w)
			if err == nil && v > 0 && q.Codes.Code(128+70) == 0 {
				t.Errorf("%s: weights of %g became 0", text, v)
			}
			if none := v > 0 && v < least; none != (err != nil) || none && !strings.Contains(err.Error(), "would be 0: they want a scale of") {
				t.Errorf("%s, weights of %g: %v", text, v, err)
			}
		}
	}
}

// TestMiddles holds what exported Python knows of codes, values in their order and which way their middles go, to Encode.
func TestMiddles(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, w := range weightTypes() {
		l := Linear{WeightType: w, ActType: dtype.F16, ScaleType: dtype.F16}
		codes, upwards := l.middles()
		least, most := w.Decode(codes[0]), w.Decode(codes[len(codes)-1])
		nearest := func(v float64) uint64 {
			at := sort.Search(len(upwards), func(i int) bool { return v <= (w.Decode(codes[i])+w.Decode(codes[i+1]))/2 })
			if at < len(upwards) && v == (w.Decode(codes[at])+w.Decode(codes[at+1]))/2 && upwards[at] {
				at++
			}
			return codes[at]
		}
		hold := func(v float64) {
			v = min(max(v, least), most) + 0 // 0 is added as groups do, which takes the sign of −0
			if got, want := nearest(v), l.nearest(v); got != want {
				t.Errorf("%s: %g is code %d, and quantised %d", w, v, got, want)
			}
			if is := w.Decode(l.nearest(v)); dtype.F16.Decode(dtype.F16.Encode(is, false)) != is {
				t.Errorf("%s: %g becomes %g, which f16 does not hold", w, v, is)
			}
		}
		for i, code := range codes {
			v := w.Decode(code)
			if hold(v); i > 0 {
				hold((v + w.Decode(codes[i-1])) / 2)
			}
			hold(v + (most-least)*r.NormFloat64()/16)
			hold(math.Nextafter(v, 1))
		}
		for range 100 {
			hold(math.Ldexp(r.NormFloat64(), -24)) // where f16 ends
		}
	}
}

// TestQuantizeBeside has several processors quantise parts of a layer, of sizes whose codes end within bytes: as one does.
func TestQuantizeBeside(t *testing.T) {
	for _, text := range []string{"u3 zero group=64", "i5 group=channel", "f7e3m3", "nvfp4", "u1 zero"} {
		const n, k = 203, 333
		w := normal(dtype.F32, 12, n, k)
		quantised := func(processors int) *Weights {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			q, err := kind(t, text, n, k).Quantize(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		one, four := quantised(1), quantised(4)
		if !bytes.Equal(one.Codes.Data, four.Codes.Data) || !bytes.Equal(one.Scales.Data, four.Scales.Data) || one.Zeros != nil && !bytes.Equal(one.Zeros.Data, four.Zeros.Data) {
			t.Errorf("%s: four processors give something else", text)
		}
	}
}

// waning is a context that ends once it was asked so often.
type waning struct {
	context.Context
	left atomic.Int64
}

func (c *waning) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestQuantizeEnds ends the context at every place that asks for it: no weights come of that.
func TestQuantizeEnds(t *testing.T) {
	for _, text := range []string{"i4 group=32", "u4 zero group=channel", "f6e3m2 scalebits=3", "mxfp4", "nvfp4"} {
		l := kind(t, text, 40, 96)
		w := normal(dtype.F32, 1, l.N, l.K)
		asked := func(work func(ctx context.Context) error) int {
			for n := 0; ; n++ {
				ctx := &waning{Context: t.Context()}
				ctx.left.Store(int64(n))
				switch err := work(ctx); {
				case err == nil && ctx.left.Load() >= 0:
					return n
				case !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "qmm: "):
					t.Fatalf("%s, ended after %d: %v", text, n, err)
				}
			}
		}
		quantized := asked(func(ctx context.Context) error {
			q, err := l.Quantize(ctx, w)
			if (q == nil) != (err != nil) {
				t.Errorf("%s: %v, %v", text, q, err)
			}
			return err
		})
		q, err := l.Quantize(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		plain := asked(func(ctx context.Context) error {
			w, err := q.Dequantize(ctx)
			if (w == nil) != (err != nil) {
				t.Errorf("%s: %v, %v", text, w, err)
			}
			return err
		})
		// Once a row of weights, once eight outputs of a group, and once more for all; of plain ones in front of all too.
		if quantized < l.N+l.Groups()*l.N/8*2+1 || plain != l.N+2 {
			t.Errorf("%s: asked %d and %d times", text, quantized, plain)
		}
	}
}

// TestQuantizeSaysWhere holds that of several weights that are none the first is named, whatever worker meets it.
func TestQuantizeSaysWhere(t *testing.T) {
	const n, k = 64, 1024 // several workers' parts
	for _, c := range []struct {
		kind, want string
		bad        float64
	}{
		{"i4", "qmm: weight [5, 7] is NaN", math.NaN()},
		{"f8e5m2", "qmm: weight [5, 7] is +Inf", math.Inf(1)},
		{"u4", "qmm: weight [5, 7] is -1, and u4 without zero points is never negative; take zero points, or a signed type", -1},
	} {
		w := array.New(dtype.F32, n, k)
		w.Set(c.bad, 5, 7)
		w.Set(c.bad, 5, 9)
		w.Set(c.bad, n-1, 0)
		if _, err := kind(t, c.kind, n, k).Quantize(t.Context(), w); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, not %s", c.kind, err, c.want)
		}
	}
}
