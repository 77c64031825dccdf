package array

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Report says how two arrays differ. First is the index of the first element
// that differs, nil if none does. MaxAbs is the largest |got−want|, MaxRel the
// largest |got−want|/|want|; a NaN on one side, or a difference against zero,
// counts as infinite. Note explains arrays that cannot be compared by element.
type Report struct {
	N, Differ      int
	First          []int
	MaxAbs, MaxRel float64
	Note           string
}

// Equal reports that nothing differs.
func (r Report) Equal() bool { return r.Differ == 0 && r.Note == "" }

// String is "0 of N differ", or where and by how much.
func (r Report) String() string {
	if r.Note != "" {
		return r.Note
	}
	s := fmt.Sprintf("%d of %d differ", r.Differ, r.N)
	if r.Differ > 0 {
		s += fmt.Sprintf(", first at %s, max abs %.3g, max rel %.3g", shapeText(r.First), r.MaxAbs, r.MaxRel)
	}
	return s
}

// Compare counts the elements that differ: by bits where the types are equal
// (so −0 is not +0, and a NaN equals the same NaN), else by value. In f64 a NaN
// equals every other: vm/dtype says why their codes are not comparable.
func Compare(got, want *Array) Report {
	r := Report{N: want.Len()}
	if !slices.Equal(got.Shape, want.Shape) {
		r.N = max(r.N, got.Len())
		r.Differ = r.N
		r.MaxAbs, r.MaxRel = math.Inf(1), math.Inf(1)
		r.Note = fmt.Sprintf("shapes differ: got %s, want %s", got.Header(), want.Header())
		return r
	}
	for k := range r.N {
		g, w := got.Code(k), want.Code(k)
		x, y := got.Type.Decode(g), want.Type.Decode(w)
		byBits := got.Type == want.Type && (got.Type != dtype.F64 || x == x)
		if byBits && g == w || !byBits && (got.Type != want.Type && x == y || x != x && y != y) {
			continue
		}
		if r.Differ == 0 {
			r.First = unravel(k, want.Shape)
		}
		r.Differ++
		d := distance(x, y)
		r.MaxAbs = max(r.MaxAbs, d)
		if d > 0 {
			r.MaxRel = max(r.MaxRel, relative(d, y))
		}
	}
	return r
}

// distance is |x−y|; a NaN or infinity against anything else is infinitely far.
func distance(x, y float64) float64 {
	switch {
	case x == y || x != x && y != y:
		return 0
	case math.IsNaN(x-y) || math.IsInf(x-y, 0):
		return math.Inf(1)
	}
	return math.Abs(x - y)
}

func relative(d, y float64) float64 {
	if math.IsInf(d, 0) || y == 0 {
		return math.Inf(1)
	}
	return d / math.Abs(y)
}

func unravel(k int, shape []int) []int {
	index := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		index[i] = k % shape[i]
		k /= shape[i]
	}
	return index
}

// RelFro is the relative Frobenius error ‖got−ref‖/‖ref‖ in float64. Equal
// infinities do not count; any other NaN or infinity on either side makes the
// error infinite. For ref = 0 it is 0 or infinite.
func RelFro(got, ref *Array) float64 {
	if !slices.Equal(got.Shape, ref.Shape) {
		panic(fmt.Sprintf("array: RelFro of %s and %s, which have different shapes", got.Header(), ref.Header()))
	}
	var diff, norm float64
	for k := range ref.Len() {
		x, y := got.Type.Decode(got.Code(k)), ref.Type.Decode(ref.Code(k))
		if math.IsInf(y, 0) && x == y {
			continue
		}
		d := x - y
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return math.Inf(1)
		}
		diff = math.Hypot(diff, d)
		norm = math.Hypot(norm, y)
	}
	switch {
	case diff == 0:
		return 0
	case norm == 0:
		return math.Inf(1)
	}
	return diff / norm
}

// MatMulF64 is the reference product: a is [M, K], b is [K, N], the result is
// f64[M, N], summed over k in order without fused steps.
func MatMulF64(a, b *Array) *Array {
	if len(a.Shape) != 2 || len(b.Shape) != 2 || a.Shape[1] != b.Shape[0] {
		panic(fmt.Sprintf("array: MatMulF64 needs [M, K] and [K, N], got %s and %s", a.Header(), b.Header()))
	}
	m, inner, n := a.Shape[0], a.Shape[1], b.Shape[1]
	x, y := a.Floats(), b.Floats()
	c := New(dtype.F64, m, n)
	sum := make([]float64, n)
	for i := range m {
		clear(sum)
		for k := range inner {
			v := x[i*inner+k]
			for j := range sum {
				sum[j] += float64(v * y[k*n+j])
			}
		}
		for j, s := range sum {
			c.SetCode(i*n+j, math.Float64bits(s))
		}
	}
	return c
}
