package cuteprint

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// digest is the SHA-256 of a text in hexadecimal.
func digest(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// tv is a thread-value layout of mode sizes and strides over a tile of columns of the
// given height, as CuTe counts: threads first.
func tv(rows int, threads, values [][2]int) TV {
	size := func(m [][2]int) int {
		n := 1
		for _, x := range m {
			n *= x[0]
		}
		return n
	}
	at := func(i int, m [][2]int) (off int) {
		for _, x := range m {
			off += i % x[0] * x[1]
			i /= x[0]
		}
		return off
	}
	return TV{Threads: size(threads), Values: size(values), At: func(t, v int) (int, int) {
		i := at(t, threads) + at(v, values)
		return i % rows, i / rows
	}}
}

// The documents of SM80_16x8x8_F32TF32TF32F32_TN are CuTe's to the byte.
func TestCuteDocuments(t *testing.T) {
	raw, err := os.ReadFile("../../tests/testdata/cases/cute.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name   string
		Expect json.RawMessage
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	want := func(name, key string) string {
		for _, c := range cases {
			if c.Name == name {
				var e map[string]any
				if err := json.Unmarshal(c.Expect, &e); err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(e[key])
			}
		}
		t.Fatalf("no case %s", name)
		return ""
	}
	ops := Operands{M: 16, N: 8, K: 8,
		A: tv(16, [][2]int{{4, 16}, {8, 1}}, [][2]int{{2, 8}, {2, 64}}),
		B: tv(8, [][2]int{{4, 8}, {8, 1}}, [][2]int{{2, 32}}),
		C: tv(16, [][2]int{{4, 32}, {8, 1}}, [][2]int{{2, 16}, {2, 8}}),
	}
	doc, err := MMASVG(ops)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := digest(doc), want("render_svg/SM80_16x8x8_F32TF32TF32F32_TN", "sha256_without_comments"); got != want {
		t.Errorf("SVG has digest %s, want %s\n%.600s", got, want, doc)
	}
	tex, err := LayoutTeX("(_8,_1):(_2,_0)", 8, 1, func(m, n int) int { return 2 * m })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := digest([]byte(tex)), want("render_latex/latex 8:2", "sha256"); got != want {
		t.Errorf("LaTeX has digest %s, want %s", got, want)
	}
	ops.C.Text = "ArithTuple(_0,_0) o ((_4,_8),((_2,_2),(_1,_1))):((_2@1,_1@0),((_1@1,_8@0),(_0,_0)))"
	ops.A.Text = "ArithTuple(_0,_0) o ((_4,_8),((_2,_2),(_1,_1))):((_1@1,_1@0),((_8@0,_4@1),(_0,_0)))"
	ops.B.Text = "ArithTuple(_0,_0) o ((_4,_8),(_2,(_1,_1))):((_1@1,_1@0),(_4@1,(_0,_0)))"
	tex, err = MMATeX(ops)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := digest([]byte(tex)), want("render_latex/latex_mma SM80_16x8x8_F32TF32TF32F32_TN", "sha256"); got != want {
		t.Errorf("LaTeX of the MMA has digest %s, want %s\n%s", got, want, tex[:700])
	}
}
