package lower_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestAssumptionsServe counts what promises save: guards of loads, and loads that
// divisors make wide.
func TestAssumptionsServe(t *testing.T) {
	src := `program p<1>(x: *f32, y: *f32, n: i32) warps=1 {
	ASSUME
	gx = ViewGlobal(x) : global f32[8, n]
	gy = ViewGlobal(y) : global f32[128]
	r = LoadGlobal(gx, offset=[3, 0], dims=[1]) : register f32[128] spatial(32).local(4)
	StoreGlobal(gy, r, offset=[0])
}
`
	cases := []struct {
		assume        string
		loads, guards int
	}{
		{"assume(true2)", 4, 4},
		{"assume(n % 4 == 0)", 1, 1},
		{"assume(n >= 128)", 4, 0},
		{"assume(128 <= n && n % 8 == 0 && n < 4096)", 1, 0},
		{"if n > 200 {\n		return\n	}\n	assume(n % 4 == 0)", 4, 4},
	}
	for _, c := range cases {
		text := strings.Replace(src, "ASSUME", strings.Replace(c.assume, "assume(true2)", "k = 0", 1), 1)
		p := parse(t, text)
		args := []ir.Arg{arg(t, "rand:f32[8,128]:seed=1"), arg(t, "zeros:f32[128]"), {Int: 128}}
		agree(t, p, nil, args)
		loads, guards := 0, 0
		lowered(t, p, nil).Body.Walk(func(in *code.Instr) {
			if in.Row().Class == code.Load {
				loads++
				if in.Guard != 0 {
					guards++
				}
			}
		})
		if loads != c.loads || guards != c.guards {
			t.Errorf("%s: %d loads, %d of them guarded; want %d, %d", c.assume, loads, guards, c.loads, c.guards)
		}
	}
}

// TestGroupsAreRefused breaks the rules of what lowers in thread groups.
func TestGroupsAreRefused(t *testing.T) {
	head := "program p<1>(x: *i32) warps=4 {\n	gx = ViewGlobal(x) : global i32[64]\n"
	cases := []struct{ body, code string }{
		{"	group(3, 5) {\n		Synchronize()\n	}\n", "Lower.E10"},
		{"	gf = AllocateGlobal(init=0) : global f32[5]\n	group(3, 5) {\n		r = TakeGlobal(gf, offset=[0]) : register f32[5] spatial(5)\n	}\n", "Lower.E10"},
		// What was refused is used by what would not be.
		{"	group(32, 16) {\n		s = AllocateShared() : shared i32[16, 4] shared_row_major(16, 4)\n		u = PermuteShared(s) : shared i32[4, 16] shared_column_major(4, 16)\n		y = LoadShared(u) : register i32[4, 16] spatial(1, 16).local(4, 1)\n	}\n", "Lower.E10"},
	}
	for _, c := range cases {
		refused(t, parse(t, head+c.body+"}\n"), c.code)
	}
}
