package ir_test

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestTouched finds what a program does with memory through views of views.
func TestTouched(t *testing.T) {
	p, err := text.Parse("t.tile", `program p<1>(x: *f32, y: *f32, z: *f32, u: *f32, n: i32) warps=1 {
	own = AllocateGlobal() : global f32[4, 32]
	gx = ViewGlobal(x) : global f32[4, 32]
	gy = ViewGlobal(y) : global f32[4, 32]
	gz = ViewGlobal(z) : global f32[4, 32]
	unused = ViewGlobal(u) : global f32[4, 32]
	for k in 0..n {
		part = SliceGlobal(gz, offset=[k, 0], dims=[1]) : global f32[32]
		half = SliceGlobal(part, offset=[0]) : global f32[16]
		a = LoadGlobal(gx, offset=[k, 0], dims=[1]) : register f32[32] spatial(32)
		StoreGlobal(half, a, offset=[0])
		StoreGlobal(gy, a, offset=[k, 0], dims=[1])
		b = LoadGlobal(gz, offset=[k, 0], dims=[1]) : register f32[32] spatial(32)
		StoreGlobal(own, b, offset=[k, 0], dims=[1])
	}
}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := p.Touched()
	for v, want := range map[*ir.Var]ir.Effects{p.Params[0]: ir.ReadsGlobal, p.Params[1]: ir.WritesGlobal, p.Params[2]: ir.ReadsGlobal | ir.WritesGlobal, p.Params[3]: 0, p.Params[4]: 0, p.Body.Stmts[0].(*ir.Instr).Out[0]: ir.WritesGlobal} {
		if got[v] != want {
			t.Errorf("%s: %b, want %b", v.Name, got[v], want)
		}
	}
}
