package dtype

import (
	"math"
	"math/big"
)

// The tests check the package against this second, slow definition: values are
// exact rationals, and rounding looks at nothing but the row.

// refValue is the exact value of a finite code, by the textbook formula; kind is
// "nan", "inf" or "-inf" for the others.
func refValue(t Type, code uint64) (v *big.Rat, kind string) {
	r := t.Row()
	switch r.Kind {
	case BoolKind:
		if code == 0 {
			return new(big.Rat), ""
		}
		return big.NewRat(1, 1), ""
	case Uint:
		return new(big.Rat).SetInt(new(big.Int).SetUint64(code)), ""
	case Int:
		i := new(big.Int).SetUint64(code)
		if code>>(r.Bits-1) == 1 {
			i.Sub(i, new(big.Int).Lsh(big.NewInt(1), uint(r.Bits)))
		}
		return new(big.Rat).SetInt(i), ""
	}
	if t == TF32 {
		code >>= 13
	}
	man := int64(code % (1 << r.Man))
	exp := int(code >> r.Man % (1 << r.Exp))
	neg := code>>(r.Man+r.Exp) == 1
	ones := exp == 1<<r.Exp-1
	switch {
	case r.Special == Scale:
		if code == 255 {
			return nil, "nan"
		}
		return refPow2(int(code) - 127), ""
	case r.Special == IEEE && ones && man == 0:
		if neg {
			return nil, "-inf"
		}
		return nil, "inf"
	case r.Special == IEEE && ones, r.Special == FN && ones && man == 1<<r.Man-1:
		return nil, "nan"
	}
	if exp > 0 {
		man += 1 << r.Man
	} else {
		exp = 1
	}
	if neg {
		man = -man
	}
	v = new(big.Rat).SetInt64(man)
	return v.Mul(v, refPow2(exp-r.Bias-r.Man)), ""
}

func refPow2(e int) *big.Rat {
	one := big.NewInt(1)
	if e < 0 {
		return new(big.Rat).SetFrac(one, new(big.Int).Lsh(one, uint(-e)))
	}
	return new(big.Rat).SetInt(new(big.Int).Lsh(one, uint(e)))
}

// refNearest is x rounded to a whole number, ties to even.
func refNearest(x *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(x.Num(), 1)
	twice.Add(twice, x.Denom())
	n, rest := new(big.Int).DivMod(twice, new(big.Int).Lsh(x.Denom(), 1), new(big.Int))
	if rest.Sign() == 0 && n.Bit(0) == 1 {
		n.Sub(n, big.NewInt(1))
	}
	return n
}

// refRound is x rounded once to a float type with sign; over reports that the
// result is beyond the finite range.
func refRound(t Type, x *big.Rat) (v *big.Rat, over bool) {
	r := t.Row()
	if x.Sign() == 0 {
		return new(big.Rat), false
	}
	abs := new(big.Rat).Abs(x)
	e := abs.Num().BitLen() - abs.Denom().BitLen()
	if abs.Cmp(refPow2(e)) < 0 {
		e--
	}
	q := refPow2(max(e, 1-r.Bias) - r.Man)
	n := refNearest(new(big.Rat).Quo(x, q))
	v = new(big.Rat).SetInt(n)
	v.Mul(v, q)
	largest, _ := refValue(t, t.MaxCode())
	return v, new(big.Rat).Abs(v).Cmp(largest) > 0
}

// refEncode is the code that an exact value must get; negZero chooses the zero
// that x = 0 becomes.
func refEncode(t Type, x *big.Rat, negZero, sat bool) uint64 {
	r := t.Row()
	neg := x.Sign() < 0 || x.Sign() == 0 && negZero
	sign := uint64(0)
	if neg {
		sign = 1 << (r.Bits - 1)
	}
	v, over := refRound(t, x)
	if over {
		switch {
		case sat || r.Special == Finite:
			return sign | t.MaxCode()
		case r.Special == FN:
			return 1<<(r.Bits-1) - 1
		}
		return sign | (1<<r.Exp-1)<<(r.Bits-1-r.Exp)
	}
	f, exact := v.Float64()
	if !exact {
		panic("value is not a float64")
	}
	// Read the fields off the float64.
	f = math.Abs(f)
	if f == 0 {
		return sign
	}
	frac, exp := math.Frexp(f)
	frac, exp = frac*2, exp-1
	shift := r.Bits - 1 - r.Exp - r.Man
	if exp < 1-r.Bias {
		return sign | uint64(math.Ldexp(f, r.Bias-1+r.Man))<<shift
	}
	return sign | (uint64(exp+r.Bias)<<r.Man+uint64(math.Ldexp(frac-1, r.Man)))<<shift
}
