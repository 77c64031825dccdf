package layout

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDense holds what is said without a list of offsets to the list.
func TestDense(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 0
	for range 3000 {
		shape, modes := []int{}, []mode{}
		for d := range 1 + r.IntN(3) {
			shape = append(shape, 1)
			for range 1 + r.IntN(2) {
				m := mode{dim: d, size: 1 + r.IntN(4), step: []int{1, 2, 3, 4, 8, 16}[r.IntN(6)]}
				shape[d] *= m.size
				modes = append(modes, m)
			}
		}
		d, err := buildStrided(shape, modes, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		all := d.offsets()
		slices.Sort(all)
		injective := len(slices.Compact(slices.Clone(all))) == len(all)
		filled := injective && all[len(all)-1] == len(all)-1
		if d.dense() != filled {
			t.Fatalf("%v: dense %t, offsets %v", d.modes, d.dense(), all)
		}
		if filled {
			n++
		}
		if d.increasing() && !injective {
			t.Fatalf("%v: increasing, offsets %v", d.modes, all)
		}
		if filled && !d.increasing() {
			t.Fatalf("%v: dense, but not increasing", d.modes)
		}
		s := Shared{d: d, swizzle: Swizzle{Bits: r.IntN(3), Base: r.IntN(2), Shift: 2}}
		if s.Injective() != injective {
			t.Fatalf("%s: Injective %t, offsets %v", s, s.Injective(), all)
		}
		if got := s.CountSize(); got != slices.Max(s.Offsets())+1 {
			t.Fatalf("%s: CountSize %d, not %d", s, got, slices.Max(s.Offsets())+1)
		}
	}
	if n < 20 {
		t.Errorf("%d dense ones", n)
	}
}
