package volta

import (
	"math"
	"testing"
)

// The published cases of the V100 and the T4.
func TestAdder(t *testing.T) {
	tiny := math.Ldexp(1, -24)
	for _, x := range []struct {
		name     string
		a        Adder
		sums     Sums
		c        float64
		products []float64
		want     float64
	}{
		{"small terms are lost", V100, F32, 1, []float64{tiny, tiny, tiny, tiny}, 1},
		{"not monotonic", V100, F32, 1 - tiny, []float64{tiny, tiny, tiny, tiny}, 1 + math.Ldexp(1, -23)},
		{"truncation", V100, F32, 0, []float64{2, 1.5 * math.Ldexp(1, -23)}, 2},
		{"truncation of a negative sum", V100, F32, 0, []float64{-2, -1.5 * math.Ldexp(1, -23)}, -2},
		{"no guard bit", V100, F32, -(1 - tiny), []float64{1}, math.Ldexp(1, -23)},
		{"a guard bit", T4, F32, -(1 - tiny), []float64{1}, tiny},
		{"four sets", V100, F32, 1, []float64{tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny}, 1},
		{"f16 rounds to nearest", V100, F16, 0, []float64{math.Ldexp(1, -25), math.Ldexp(1, -26)}, tiny},
		{"zeros", V100, F32, 0, []float64{0, 0}, 0},
	} {
		if got := x.a.Add(x.sums, x.c, x.products); got != x.want {
			t.Errorf("%s: %x, want %x", x.name, got, x.want)
		}
	}
}

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]float64{"1-2^-24": 1 - 0x1p-24, "-1 + 2^-24": -1 + 0x1p-24, "1.5*2^-23": 1.5 * 0x1p-23, "0x1p-24": 0x1p-24, "1e-3": 1e-3, "2^-24": 0x1p-24, "-2": -2, "3": 3} {
		if got, err := ParseNumber(text); err != nil || got != want {
			t.Errorf("%s is %x, %v; want %x", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "1-", "3^2", "2^", "x", "1*", "inf", "2^5000", "1 2^"} {
		if v, err := ParseNumber(text); err == nil {
			t.Errorf("%q is %v", text, v)
		}
	}
}

// Any text is a number or an error that shows it, not all of a long one.
func FuzzParseNumber(f *testing.F) {
	for _, text := range []string{"1-2^-24", "1.5*2^-23", "0x1p-24", "-1+-1", "2^2^2", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := ParseNumber(text); err != nil && len(err.Error()) > 600 {
			t.Fatalf("%d bytes of error", len(err.Error()))
		}
	})
}
