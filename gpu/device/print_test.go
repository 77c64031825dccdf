package device_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// What programs print is one text on all machines: block by block, as they came to it,
// with a notice of what is missing.
func TestPrinted(t *testing.T) {
	gen := func(spec string) ir.Arg {
		a, err := array.Generate(spec)
		if err != nil {
			t.Fatal(err)
		}
		return ir.Arg{Array: a}
	}
	for _, c := range []struct {
		name, src string
		args      []ir.Arg
		has       []string // in this order
		lines     int
	}{
		{"print", corpus.Program("print"), []ir.Arg{gen("iota:i32[96]"), {Int: 3}, {Float: 0.5}},
			[]string{"block 0: row 0, square 0, scale 0.5\nblock 0: 0\n", "block 1: row 1, square 0, scale 0.5\nblock 1: row 1, square 1, scale 0.5\nblock 1: the second turn\n", "block 2: 63\n", "… 18 more prints of line 12: at most 64 of a block are shown\n"}, 6 + 2 + 3*64 + 1},
		{"print_tensor", corpus.Program("print_tensor"), []ir.Arg{gen("randint:f16[16, 16]:seed=1"), gen("randcode:u3[64]:seed=2")},
			[]string{"block 0, 0: x: register f16[8, 8] spatial(8, 4).local(1, 2)\n[[", "block 0, 0: largest of each row: register f16[8]", "block 1, 0: x:", "block 1, 0: the codes: register u3[64]"}, -1},
		{"many blocks", "program p<N, 40>(N: i32, b: u32, l: i64) warps=2 {\n\ti, j = BlockIndices()\n\tif j == 0 {\n\t\tPrint(i, b, l, -0.0)\n\t}\n}\n", []ir.Arg{{Int: 40}, {Int: 1<<32 - 1}, {Int: -1 << 40}},
			[]string{"block 0, 0: 0 4294967295 -1099511627776 -0", "block 31, 0: 31", "… what blocks beyond 32 along dimension 0 of the grid print is not shown\n… what blocks beyond 32 along dimension 1"}, 34},
	} {
		p, err := compile.Parse(c.name, c.src, nil)
		if err != nil {
			t.Fatal(err)
		}
		var want string
		for _, name := range []string{"interp", "sim", "sim:sm_80", "cuda"} {
			d, err := device.Open(name)
			if errors.Is(err, device.ErrNoGPU) {
				t.Logf("%v: %s is not printed there", err, c.name)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := d.Run(t.Context(), p, c.args)
			if err != nil {
				t.Fatalf("%s on %s: %v", c.name, name, err)
			}
			if name == "interp" {
				want = r.Printed
				rest := want
				for _, h := range c.has {
					_, after, ok := strings.Cut(rest, h)
					if !ok {
						t.Fatalf("%s printed\n%s\nlacks %q there", c.name, want, h)
					}
					rest = after
				}
				if n := strings.Count(want, "\n"); c.lines >= 0 && n != c.lines {
					t.Errorf("%s printed %d lines, want %d:\n%s", c.name, n, c.lines, want)
				}
			}
			if r.Printed != want {
				t.Errorf("%s: %s printed\n%s\nthe interpreter\n%s", c.name, name, r.Printed, want)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
