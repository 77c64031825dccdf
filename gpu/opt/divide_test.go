package opt

import (
	"math/rand/v2"
	"testing"
)

// TestReciprocal compares quotients around multiples of the divisor, and random ones.
func TestReciprocal(t *testing.T) {
	r, found := rand.New(rand.NewPCG(1, 2)), 0
	for c := uint64(0); c < 2000; c++ {
		m, s, ok := reciprocal(c)
		if !ok {
			continue
		}
		found++
		check := func(x uint64) {
			if x &= 1<<32 - 1; x*m>>(32+s) != x/c {
				t.Fatalf("%d / %d is %d, not %d", x, c, x/c, x*m>>(32+s))
			}
		}
		for range 200 {
			x := r.Uint64() >> 32
			check(x)
			check(x / c * c)
			check(x/c*c - 1)
		}
		check(1<<32 - 1)
		check((1<<32-1)/c*c - 1)
	}
	if _, _, ok := reciprocal(3); !ok || found < 900 {
		t.Errorf("only %d divisors of 2000 have a reciprocal", found)
	}
}
