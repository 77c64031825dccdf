package affine

import (
	"strings"
	"testing"
)

// FuzzParse: what reads prints as a text that reads back as the same expression, and
// simplified it has the same values where both have one.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"4*i + 8*j", "(M + 31)/32", "i % 8 - -3", "min(8*i, 12) / max(1, j)", "ceildiv(i, 4) * mod(j, 3)", "floordiv(i*6, 4) % 5",
		"((((i))))", "-9223372036854775808", "9223372036854775807 + i", "1/0", "i / (j - j)", "min(", "a b", "2*i/2 + 3*(j/3) + j%3",
		strings.Repeat("-", maxDepth) + "i", strings.Repeat("i+", maxText/2) + "1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		printed := e.String()
		if len(printed) <= maxText { // a name may come again in each part of a product
			back, err := Parse(printed)
			if err != nil || !back.Equal(e) {
				t.Fatalf("%q prints as %q and reads back as %v, %v", text, printed, back, err)
			}
		}
		vars := e.Vars()
		if len(vars) > 4 {
			return
		}
		bounds := map[string]Range{}
		for _, v := range vars {
			bounds[v] = Range{0, 3}
		}
		s := e.Simplify(bounds)
		r := e.Range(bounds)
		at := map[string]int64{}
		for k := range int64(1) << (2 * len(vars)) {
			for i, v := range vars {
				at[v] = k >> (2 * i) & 3
			}
			want, err := e.Eval(at)
			if err != nil {
				continue
			}
			if want < r.Lo || want > r.Hi {
				t.Fatalf("%q is %d at %v, outside %v", text, want, at, r)
			}
			if got, err := s.Eval(at); err == nil && got != want {
				t.Fatalf("%q is %d at %v, simplified to %q it is %d", text, want, at, s, got)
			}
		}
	})
}
