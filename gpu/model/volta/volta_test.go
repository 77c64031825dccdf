package volta

import (
	"slices"
	"testing"
)

// TestProduct multiplies every (m, n, k) exactly once, into the registers that
// the accumulator says.
func TestProduct(t *testing.T) {
	for _, sums := range []Sums{F32, F16} {
		done := map[[3]int]int{}
		for _, o := range Octets() {
			places, err := Accumulator(sums, o.Number)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range HMMA(sums) {
				cells := 0
				for g, rows := range []Range{s.Low, s.High} {
					for m := rows.First; m <= rows.Last; m++ {
						for n := s.Columns.First; n <= s.Columns.Last; n++ {
							cells++
							for k := s.K.First; k <= s.K.Last; k++ {
								done[[3]int{o.Rows.First + m, o.Columns.First + n, k}]++
							}
							i := slices.IndexFunc(places, func(p Place) bool { return p.Row == m && p.Column == n })
							p := places[i]
							// f16 sums of a lane are rows, so a step adds to all lanes of the group.
							if p.Register < s.Registers.First || p.Register > s.Registers.Last || p.Lane/16 != g {
								t.Errorf("%s set %d step %d: sum (%d, %d) is %+v, not in registers %v of group %d", sums, s.Set, s.Step, m, n, p, s.Registers, g)
							}
						}
					}
				}
				if want := 64 / sums.Steps(); cells != want {
					t.Errorf("%s step %d touches %d cells of an octet, want %d", sums, s.Step, cells, want)
				}
			}
		}
		if len(done) != 16*16*16 {
			t.Errorf("%s: %d products, want 4096", sums, len(done))
		}
		for at, n := range done {
			if n != 1 {
				t.Fatalf("%s: %v is multiplied %d times", sums, at, n)
			}
		}
	}
}

func TestLetters(t *testing.T) {
	for _, c := range []struct {
		sums      Sums
		at        int
		low, high string
	}{{F32, 0, "a[0:1] x A", "e[0:1] x A"}, {F32, 6, "b[0:1] x F", "f[0:1] x F"}, {F32, 15, "d[2:3] x H", "h[2:3] x H"}, {F16, 1, "a[0:3] x E", "e[0:3] x E"}} {
		if low, high := HMMA(c.sums)[c.at].Letters(); low != c.low || high != c.high {
			t.Errorf("%s %d: %s, %s", c.sums, c.at, low, high)
		}
	}
	if _, err := Accumulator(F32, 4); err == nil {
		t.Error("octet 4")
	}
}

// TestCycles compares the formula with the paper's figure.
func TestCycles(t *testing.T) {
	if got := Cycles(F32); !slices.Equal(got, []int{10, 12, 14, 18, 20, 22, 24, 28, 30, 32, 34, 38, 40, 42, 44, 54}) {
		t.Error(got)
	}
	if got := Cycles(F16); !slices.Equal(got, []int{12, 21, 25, 34, 38, 47, 51, 64}) {
		t.Error(got)
	}
}
