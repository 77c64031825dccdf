package pane

import (
	"fmt"
	"strings"
	"testing"
)

// product is a program of one Dot over k columns, whose result has a layout or, of "", none.
func product(a, c string, k int, layout, unit string) string {
	return fmt.Sprintf(`program m<1>(a: *%[1]s, b: *%[1]s, c: *%[2]s) warps=1 {
	ga = ViewGlobal(a) : global %[1]s[16, %[3]d]
	gb = ViewGlobal(b) : global %[1]s[%[3]d, 8]
	gc = ViewGlobal(c) : global %[2]s[16, 8]
	x = LoadGlobal(ga, offset=[0, 0]) : register %[1]s[16, %[3]d]
	y = LoadGlobal(gb, offset=[0, 0]) : register %[1]s[%[3]d, 8]
	acc = AllocateRegister(init=0) : register %[2]s[16, 8] %[4]s
	d = Dot(x, y, acc%[5]s) : register %[2]s[16, 8]
	StoreGlobal(gc, d, offset=[0, 0])
}
`, a, c, k, layout, unit)
}

// The panes of programs say which matrix instruction a Dot takes and why, what fits as
// well, and what was converted for it.
func TestProductsAreTold(t *testing.T) {
	for _, c := range []struct {
		what, src, say string
		rows           []string // of the table, by what they begin with, in order
	}{
		{"two fit", product("f16", "f32", 16, "", ""), "The Dot of line 8 is computed by mma.m16n8k16.f32.f16, 1 in each warp; mma.m16n8k8.f32.f16 fits too.",
			[]string{"8, d, mma.m16n8k16.f32.f16, taken", ", , mma.m16n8k8.f32.f16, fits too, 2 in each warp"}},
		{"one fits", product("f16", "f32", 24, "", ""), "by mma.m16n8k8.f32.f16, 3 in each warp; no other fits.",
			[]string{"8, d, mma.m16n8k8.f32.f16, taken", ", , 16x8x16, does not fit, operand a"}},
		{"whole numbers", product("i8", "i32", 32, "", ""), "by mma.m16n8k32.s32.s8, 1 in each warp; 2 others fit too.",
			[]string{"8, d, mma.m16n8k32.s32.s8, taken", ", , mma.m16n8k16.s32.s8, fits too, the same bits", ", , mma.m8n8k16.s32.s8, fits too, the same bits"}},
		{"a layout that none has", product("f16", "f32", 24, "spatial(4, 8).local(4, 1)", ""), "no other fits; 4 conversions put in for that.",
			[]string{"8, d_1, mma.m16n8k8.f32.f16, taken", ", , 16x8x16, does not fit", ", , ConvertLayout, put in, Dot needs x as"}},
		{"by FMAs", product("f32", "f32", 4, "", ""), "by FMAs, as no matrix instruction fits.",
			[]string{"8, d, fma, taken", ", , , does not fit, no matrix instruction multiplies f32 by f32 into f32"}},
		{"asked for FMAs", product("f16", "f32", 16, "", ", unit=simt"), "by FMAs, as no matrix instruction fits.", []string{"8, d, fma, taken", ", , , does not fit, unit=simt"}},
	} {
		for pane, at := range map[string]int{"program": 1, "code": 2} {
			r, err := run(t, pane, Values{"src": c.src})
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			table := r.Pictures[at]
			if !strings.HasSuffix(r.Sentence, c.say) || table.Name != "products" {
				t.Errorf("%s, %s: %q and %s, want it to end with %q", c.what, pane, r.Sentence, table.Name, c.say)
				continue
			}
			for i, want := range c.rows {
				if e := table.IDs[i]; !strings.HasPrefix(e.Label, want) || e.Keys[0] != 8 {
					t.Errorf("%s, %s: row %d is %q of line %v, want %q of line 8", c.what, pane, i, e.Label, e.Keys, want)
				}
			}
		}
	}
	// A target without any is an error at the Dot.
	_, err := run(t, "code", Values{"src": product("f8e4m3", "f32", 32, "", ""), "t": "sm_80"})
	if err == nil || !strings.HasPrefix(err.Error(), "src:8:") || !strings.Contains(err.Error(), "needs sm_89, the target is sm_80") {
		t.Errorf("sm_80: %v", err)
	}
}
