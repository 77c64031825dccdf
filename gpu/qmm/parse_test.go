package qmm

import "testing"

// FuzzParse: what reads as a kind of layer prints as a text that reads as the same kind.
func FuzzParse(f *testing.F) {
	for _, s := range append(Presets(), "i4", "u3 zero group=64", "f6e3m2 group=channel scale=bf16 act=bf16", "u8 zero group=16 scale=f16 scalebits=7",
		"nvfp4 factor", "i4 group=0", "i4 group=99999999999999999999", "i4 scale=", "i4 =", "i44", "") {
		f.Add(s, 256, 512)
	}
	f.Add("i4", 0, -1)
	f.Fuzz(func(t *testing.T, text string, n, k int) {
		l, err := Parse(text, n, k)
		if err != nil {
			return
		}
		if l.N != n || l.K != k {
			t.Fatalf("%q of %d outputs and %d inputs has %d and %d", text, n, k, l.N, l.K)
		}
		if again, err := l.Check(); err != nil || again != l {
			t.Fatalf("%q is %+v; checked again it is %+v, %v", text, l, again, err)
		}
		if back, err := Parse(l.String(), n, k); err != nil || back != l {
			t.Fatalf("%q is %+v, prints as %q and reads back as %+v, %v", text, l, l.String(), back, err)
		}
	})
}
