package array

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// QuantizeGroups rounds weights w, a float array [K, N], to the signed type t
// with one scale for each group of consecutive rows in a column: q is t[K, N],
// scales is f16[K/group, N], and w[k, n] is about q[k, n]·scales[k/group, n].
//
// Exactly: with A the largest |w| of the group and C = t.Max(), the scale is
// A/C, divided in float64 and rounded to f16 (nearest even). A scale that
// rounds to 0 becomes 2^-24, the smallest f16; where A is 0 the scale is 1. Each
// w/scale is divided in float64, rounded to t (nearest even), and clamped to
// ±C, so that −2^(n−1) of an integer type is never used.
//
// It is an error if w is not a float array of two dimensions, t is not signed or
// is wider than 16 bits, group does not divide K, w holds NaN or infinity, or a
// scale is beyond the range of f16.
func QuantizeGroups(w *Array, t dtype.Type, group int) (q, scales *Array, err error) {
	fail := func(format string, args ...any) (*Array, *Array, error) {
		return nil, nil, fmt.Errorf("array: QuantizeGroups: "+format, args...)
	}
	switch {
	case len(w.Shape) != 2 || !w.Type.IsFloat():
		return fail("weights are %s, and must be a float array [K, N]", w.Header())
	case !t.Valid() || !t.Signed() || t.Bits() > 16 || t.Max() == 0:
		return fail("%s is not a signed type of 2 to 16 bits", t)
	case group < 1 || w.Shape[0]%group != 0:
		return fail("group size %d does not divide K = %d", group, w.Shape[0])
	}
	rows, cols := w.Shape[0], w.Shape[1]
	limit := t.Max()
	q = New(t, rows, cols)
	scales = New(dtype.F16, rows/group, cols)
	for g := range rows / group {
		for n := range cols {
			largest := 0.0
			for k := g * group; k < (g+1)*group; k++ {
				v := math.Abs(w.Type.Decode(w.Code(k*cols + n)))
				if math.IsNaN(v) || math.IsInf(v, 0) {
					return fail("w[%d, %d] is %s", k, n, w.Type.Format(w.Code(k*cols+n)))
				}
				largest = max(largest, v)
			}
			scale := 1.0
			if largest > 0 {
				scale = max(dtype.F16.Decode(dtype.F16.Encode(largest/limit, false)), dtype.F16.Smallest())
			}
			if math.IsInf(scale, 0) {
				return fail("the scale of rows %d to %d in column %d is %g, beyond f16", g*group, (g+1)*group-1, n, largest/limit)
			}
			scales.SetCode(g*cols+n, dtype.F16.Encode(scale, false))
			for k := g * group; k < (g+1)*group; k++ {
				v := w.Type.Decode(w.Code(k*cols+n)) / scale
				q.SetCode(k*cols+n, t.Encode(min(max(v, -limit), limit), true))
			}
		}
	}
	return q, scales, nil
}

// DequantizeGroups is q[k, n]·scales[k/group, n] in f64, where the group size is
// K over the rows of scales; the product is exact for what [QuantizeGroups]
// makes.
func DequantizeGroups(q, scales *Array) *Array {
	if len(q.Shape) != 2 || len(scales.Shape) != 2 || q.Shape[1] != scales.Shape[1] ||
		scales.Shape[0] == 0 || q.Shape[0]%scales.Shape[0] != 0 {
		panic(fmt.Sprintf("array: DequantizeGroups needs [K, N] and [K/group, N], got %s and %s", q.Header(), scales.Header()))
	}
	rows, cols := q.Shape[0], q.Shape[1]
	group := rows / scales.Shape[0]
	w := New(dtype.F64, rows, cols)
	for k := range rows {
		for n := range cols {
			s := scales.Type.Decode(scales.Code(k/group*cols + n))
			w.SetCode(k*cols+n, math.Float64bits(q.Type.Decode(q.Code(k*cols+n))*s))
		}
	}
	return w
}
