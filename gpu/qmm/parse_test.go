package qmm

import (
	"strings"
	"testing"
)

// TestParseRefuses holds what words hear that say nothing, and how to get out.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"i4 factor=7":          `"factor=7" of "i4 factor=7": it has no value`,
		"u4 zero=":             "it is zero, or zero=any",
		"u4 zero=1":            "it is zero, or zero=any",
		"i4 scalebits":         "it is a positive number",
		"i4 scalebits=x":       "it is a positive number",
		"i4 scalebits=-1":      "it is a positive number",
		"i4 group=0":           "it is a positive number, or channel",
		"i4 group=x":           "it is a positive number, or channel",
		"i4 group=100":         "or 0 (group=channel) for one to an output",
		"i4 scale=e8m0":        "f8e8m0",
		"i4 128":               "the words are",
		"":                     "no kind of layer",
		"i4 scalebits=99":      "they have 1 to 24",
		"i4 group=channel far": "take all of them anyway",
		"nvfp4 far":            "leave Far out",
		"f4e2m1 zero":          "only unsigned weights have them",
		"i4 group=1000000":     "groups of 1000000",
	} {
		if l, err := Parse(text, 256, 512); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, l, err, want)
		}
	}
}

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
