package volta

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Numerics is how the products of one group of four k are added. PTX leaves it
// open, so each of them is legal.
type Numerics string

// The ways to add. The zero value of a [Setup] means V100's.
const (
	// Exact keeps every sum whole over all of k and rounds what it writes to
	// nearest even: what the VM's Dot does.
	Exact Numerics = "exact"
	// RN adds one product after the other to a sum of f32, rounding each time to
	// nearest even.
	RN Numerics = "fp32-rn"
	// AsV100 aligns and cuts as [V100].
	AsV100 Numerics = "v100"
	// AsAmpere aligns and cuts as [T4]. Beyond the one test that tells it from
	// V100 it is an assumption.
	AsAmpere Numerics = "ampere"
)

// AllNumerics lists the ways to add.
func AllNumerics() []Numerics { return []Numerics{Exact, RN, AsV100, AsAmpere} }

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

// Addend is one number that a sum is made of: what alignment keeps of it and what
// it cuts off. Value is Kept + Cut.
type Addend struct {
	Name             string // "C", or "p0" to "p3"
	Value, Kept, Cut float64
}

// Sum is one addition as a tensor core does it. Every addend is below 2^Top in
// size, and 2^Unit is the weight of the last bit that alignment keeps; both are 0
// where nothing is aligned. Exact is the sum of the values, Total that of what is
// kept, Result what is written; Exact and Total are rounded to a float64 where
// they do not fit one.
type Sum struct {
	Addends              []Addend
	Top, Unit            int
	Exact, Total, Result float64
}

// Lost is the size of the error: |Result - Exact|.
func (s Sum) Lost() float64 { return math.Abs(s.Result - s.Exact) }

// Add is c + Σ products in the given sum type, f32 or f16, group after group.
func (a Adder) Add(sums Sums, c float64, products []float64) float64 {
	for len(products) > 0 {
		n := min(a.Group, len(products))
		c = a.Explain(sums, c, products[:n]).Result
		products = products[n:]
	}
	return c
}

// Explain is one group's addition with what alignment does to each addend.
func (a Adder) Explain(sums Sums, c float64, products []float64) Sum {
	s := newSum(c, products)
	if s.special(sums) {
		return s
	}
	any := false
	for _, x := range s.Addends {
		if x.Value != 0 {
			if _, e := math.Frexp(x.Value); !any || e > s.Top {
				s.Top, any = e, true
			}
		}
	}
	if !any {
		return s
	}
	s.Unit = s.Top - 24 - a.Guard
	total := new(big.Int)
	for i := range s.Addends {
		x := &s.Addends[i]
		// Exact products of two f16 numbers have at most 22 bits.
		cut := math.Trunc(math.Ldexp(x.Value, -s.Unit))
		x.Kept = math.Ldexp(cut, s.Unit)
		x.Cut = x.Value - x.Kept
		n, _ := big.NewFloat(cut).Int(nil)
		total.Add(total, n)
	}
	kept := new(big.Float).SetMantExp(new(big.Float).SetInt(total), s.Unit)
	s.Total, _ = kept.Float64()
	if sums == F16 {
		s.Result = sums.Round(s.Total)
		return s
	}
	cut, _ := new(big.Float).SetMode(big.ToZero).SetPrec(24).Set(kept).Float64()
	s.Result = cut
	return s
}

func newSum(c float64, products []float64) Sum {
	s := Sum{Addends: []Addend{{Name: "C", Value: c, Kept: c}}}
	for i, p := range products {
		s.Addends = append(s.Addends, Addend{Name: fmt.Sprintf("p%d", i), Value: p, Kept: p})
	}
	s.Exact, _ = s.fixed()
	return s
}

// special adds where an addend is infinite or no number: as float64 does.
func (s *Sum) special(sums Sums) bool {
	if !math.IsInf(s.Exact, 0) && !math.IsNaN(s.Exact) {
		return false
	}
	s.Total, s.Result = s.Exact, s.Exact
	return true
}

// fraction is the weight of the last bit of a fixed-point number that holds every
// f32 and every product of two f16 exactly.
const fraction = -149

func fixed(v float64) *big.Int {
	n, _ := new(big.Float).SetMantExp(big.NewFloat(v), -fraction).Int(nil)
	return n
}

// float is the nearest float64, rounded to odd, so that rounding it once more to
// a type of at most 51 bits gives what rounding at once does.
func float(n *big.Int) float64 {
	x := new(big.Float).SetMode(big.ToZero).SetPrec(53).SetInt(n)
	odd := x.Acc() != big.Exact
	v, _ := x.SetMantExp(x, fraction).Float64()
	if odd {
		v = math.Float64frombits(math.Float64bits(v) | 1)
	}
	return v
}

// fixed is the exact sum of the values, and its float64.
func (s Sum) fixed() (float64, *big.Int) {
	total := new(big.Int)
	direct := 0.0
	for _, x := range s.Addends {
		direct += x.Value
	}
	if math.IsInf(direct, 0) || math.IsNaN(direct) {
		return direct, nil
	}
	for _, x := range s.Addends {
		total.Add(total, fixed(x.Value))
	}
	v, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(total), fraction).Float64()
	return v, total
}

// Round is the nearest number of the type of sums, ties to even.
func (s Sums) Round(v float64) float64 {
	t := s.Type()
	return t.Decode(t.Encode(v, false))
}

// Type is the element type of the sums.
func (s Sums) Type() dtype.Type {
	if s == F16 {
		return dtype.F16
	}
	return dtype.F32
}

// Explain adds c and the products of one group of k.
func (n Numerics) Explain(sums Sums, c float64, products []float64) (Sum, error) {
	switch n {
	case AsV100, "":
		return V100.Explain(sums, c, products), nil
	case AsAmpere:
		return T4.Explain(sums, c, products), nil
	}
	s := newSum(c, products)
	if s.special(sums) {
		return s, nil
	}
	switch n {
	case Exact:
		_, total := s.fixed()
		s.Total = s.Exact
		s.Result = sums.Round(float(total))
	case RN:
		s.Total = c
		for _, p := range products {
			s.Total = dtype.F32.Decode(dtype.F32.Encode(addOdd(s.Total, p), false))
		}
		s.Result = sums.Round(s.Total)
	default:
		return Sum{}, fmt.Errorf("volta: no way to add %q; there are %v", string(n), AllNumerics())
	}
	return s, nil
}

// addOdd is a + b rounded to odd, to be rounded once more.
func addOdd(a, b float64) float64 {
	if s := a + b; math.IsInf(s, 0) || math.IsNaN(s) {
		return s
	}
	return float(new(big.Int).Add(fixed(a), fixed(b)))
}

// Bits writes |v| in binary from the bit of weight 2^high down to 2^low; a bit
// beyond what v has is a zero.
func Bits(v float64, high, low int) string {
	if high < low {
		return ""
	}
	n, _ := new(big.Float).SetMantExp(big.NewFloat(math.Abs(v)), -low).Int(nil)
	var b strings.Builder
	for i := high - low; i >= 0; i-- {
		b.WriteByte('0' + byte(n.Bit(i)))
	}
	return b.String()
}

// ParseNumber reads a number written as a sum of terms, each a decimal or
// hexadecimal float, a power of two, or their product: "1-2^-24", "1.5*2^-23", "0x1p-24".
func ParseNumber(text string) (float64, error) {
	bad := fmt.Errorf("volta: %.60q is no number; write such as 1-2^-24 or 1.5*2^-23", text)
	rest := strings.ReplaceAll(text, " ", "")
	total := 0.0
	for first := true; rest != "" || first; first = false {
		sign := 1.0
		if r := rest; r != "" && (r[0] == '-' || r[0] == '+') {
			if rest = r[1:]; r[0] == '-' {
				sign = -1
			}
		} else if !first {
			return 0, bad
		}
		// A sign belongs to the number where it follows an exponent's letter.
		end := 0
		hex := strings.HasPrefix(rest, "0x")
		for end < len(rest) {
			if c := rest[end]; end > 0 && (c == '+' || c == '-') {
				if p := rest[end-1]; p != '^' && p != 'p' && (p != 'e' || hex) {
					break
				}
			}
			end++
		}
		term := 1.0
		for _, factor := range strings.Split(rest[:end], "*") {
			base, exp, power := strings.Cut(factor, "^")
			v, err := strconv.ParseFloat(base, 64)
			if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
				return 0, bad
			}
			if power {
				e, err := strconv.Atoi(exp)
				if err != nil || base != "2" {
					return 0, bad
				}
				v = math.Ldexp(1, e)
			}
			term *= v
		}
		total += sign * term
		rest = rest[end:]
	}
	if math.IsInf(total, 0) {
		return 0, bad
	}
	return total, nil
}
