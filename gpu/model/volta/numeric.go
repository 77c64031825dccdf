package volta

import (
	"math"
	"math/big"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Adder is how a tensor core adds the products of one group of k to what it has:
// it shifts all addends to the largest exponent among them, cuts them toward zero
// to 24 bits and Guard more, adds exactly, and brings the sum to its type, cut for
// f32 and rounded to nearest even for f16.
//
// Source: Fasi, Higham, Mikaitis, Pranesh, Numerical behavior of NVIDIA tensor
// cores, PeerJ Computer Science 7:e330 (2021).
type Adder struct {
	Guard int // bits below the 24 of an f32 significand that alignment keeps
	// Group is the number of products that are added at once.
	Group int
}

// The adders that were measured.
var (
	V100 = Adder{Guard: 0, Group: 4}
	// T4 is also A100's, for the first products; no test tells more guard bits from one.
	T4 = Adder{Guard: 1, Group: 4}
)

// Add is c + Σ products in the given sum type, f32 or f16, group after group.
func (a Adder) Add(sums Sums, c float64, products []float64) float64 {
	for len(products) > 0 {
		n := min(a.Group, len(products))
		c = a.group(sums, c, products[:n])
		products = products[n:]
	}
	return c
}

func (a Adder) group(sums Sums, c float64, products []float64) float64 {
	top, any := 0, false
	addends := append([]float64{c}, products...)
	for _, v := range addends {
		if v != 0 {
			if _, e := math.Frexp(v); !any || e > top {
				top, any = e, true
			}
		}
	}
	if !any {
		return 0
	}
	unit := top - 24 - a.Guard // weight of the last kept bit, as a power of two
	sum := new(big.Int)
	for _, v := range addends {
		// Exact products of two f16 numbers have at most 22 bits.
		cut := math.Trunc(math.Ldexp(v, -unit))
		n, _ := big.NewFloat(cut).Int(nil)
		sum.Add(sum, n)
	}
	total := new(big.Float).SetMantExp(new(big.Float).SetInt(sum), unit)
	if sums == F16 {
		v, _ := total.Float64()
		return dtype.F16.Decode(dtype.F16.Encode(v, false))
	}
	cut, _ := new(big.Float).SetMode(big.ToZero).SetPrec(24).Set(total).Float64()
	return cut
}
