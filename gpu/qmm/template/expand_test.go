package template

import (
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestExpands holds that what is said to hold all weights does, by every code with every
// scale within what f32 holds as normal numbers, and that there are weights which the next
// form rounds.
func TestExpands(t *testing.T) {
	held := 0
	for _, w := range weights() {
		for _, scale := range []dtype.Type{dtype.F16, dtype.BF16, dtype.F8E8M0, dtype.F8E4M3} {
			f := Form{Weight: w, Act: dtype.BF16, Scale: scale, Group: 128}
			lost := false
			for c := range uint64(1) << w.Bits() {
				v := w.Decode(c)
				if v-v != 0 {
					continue
				}
				for e := range uint64(1) << min(scale.Bits(), 10) {
					// Of 16 bits, all last digits at a few exponents.
					code := e
					if scale.Bits() == 16 {
						code = uint64(0x3c00) + e
					}
					p := v * scale.Decode(code)
					if a := math.Abs(p); p-p != 0 || a < 0x1p-126 || a > 0x1p127 {
						continue
					}
					lost = lost || dtype.BF16.Decode(dtype.BF16.Encode(p, false)) != p
				}
			}
			if f.Expands() && lost {
				t.Errorf("%+v: weights are rounded", f)
			}
			if f.Expands() {
				held++
			} else if !lost {
				t.Errorf("%+v: no weight is rounded", f)
			}
			if f.Act = dtype.F16; f.Expands() {
				t.Errorf("%+v: f16 has too few exponents to be sure", f)
			}
		}
	}
	if held < 50 {
		t.Errorf("%d forms hold all weights", held)
	}
}
