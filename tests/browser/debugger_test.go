package browser

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

// TestDebugger stops Go cells and a tile program in JupyterLab, and looks at what they hold.
func TestDebugger(t *testing.T) {
	f := find(t)
	need.Jupyter(t)
	h := newHome(t)
	h.write(t, "debug.ipynb", debugged)
	wait := h.jupyter(t) // takes longest
	h.up(t)              // installs the kernel
	f.script(t, "debugger.mjs", wait(), "debug.ipynb")
}

// debugged are cells that stop; the script counts their lines.
var debugged = []string{
	"func grow(by int, l layout.Layout) int {\n\ttwice := by * 2\n\treturn twice + l.Threads()\n}",
	"L := layout.Local(2, 1).Spatial(8, 4)\nsum := 0\nfor i := range 3 {\n\tsum += grow(i, L)\n}\nsum",
	`%%tile mm
program mm<2>(a: *f16, b: *f16, c: *f32, K: i32) warps=1 {
	bi = BlockIndices()
	ga = ViewGlobal(a) : global f16[32, K]
	gb = ViewGlobal(b) : global f16[K, 8]
	gc = ViewGlobal(c) : global f32[32, 8]
	acc = AllocateRegister(init=0) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	for k in 0..K/16 {
		ra = LoadGlobal(ga, offset=[bi*16, k*16]) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)
		rb = LoadGlobal(gb, offset=[k*16, 0]) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
		acc = Dot(ra, rb, acc) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	}
	StoreGlobal(gc, acc, offset=[bi*16, 0])
}`,
	"out, err := lab.RunOn(\"interp\", mm, \"iota:f16[32, 32]\", \"const=1:f16[32, 8]\", \"zeros:f32[32, 8]\", 32)\nlab.Check(err)\nout.Out(\"c\").At(31, 7)",
}
