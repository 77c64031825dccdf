package lower_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/opt"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// TestDifferencesOfCodes takes every number of a byte off every code of each exact recipe
// to f16, on the interpreter and the simulator: by the cast and one difference for each pair of
// bytes, where the cast took a constant off; f16 that a sum rounds, the same; numbers that may be any, or any
// below one, which it must not do; and constants, of which it must do so with whole ones only.
func TestDifferencesOfCodes(t *testing.T) {
	all, err := recipe.Table()
	if err != nil {
		t.Fatal(err)
	}
	with := 0
	for _, r := range all {
		if r.To != dtype.F16 || r.Mode != recipe.Exact || r.Recode || !r.From.IsInt() || r.From.Signed() || testing.Short() && r.From.Bits() > 4 {
			continue
		}
		taken, subtracted, constants := 0, 0, map[float64]bool{}
		for _, s := range r.Steps {
			if s.Op != recipe.Sub {
				continue
			}
			subtracted++
			if k := dtype.F16.Decode(uint64(r.Consts[int(s.B)-r.Place.Words()] & 0xffff)); k >= 1 { // u1 has a fraction too
				taken++
				if k < 1024 {
					constants[k] = true
				}
			}
		}
		for _, less := range []string{"u8", "f16", "f16 below 1024", "f16 rounded", "2", "2.5", "-2"} {
			of := dtype.U8
			if strings.HasPrefix(less, "f16") {
				of = dtype.F16
			}
			n, w := r.Place.Elements(), r.From.Bits()
			lay := layout.Local(1, n).Spatial(32, 1)
			from := ir.RegisterOf(r.From, lay)
			from.Place, from.HasPlace = r.Place, true
			blocks := 8 * max(1, (1<<w)/n)
			words, z := array.New(dtype.U32, blocks, 32*r.Place.Words()), array.New(of, blocks*32, 1)
			for b := range blocks {
				for th := range 32 {
					codes := make([]uint64, n)
					for e := range codes {
						codes[e] = uint64(e+b/8*n) & r.From.Mask()
					}
					for j, x := range r.Place.Pack(codes) {
						words.SetCode((b*32+th)*r.Place.Words()+j, uint64(x))
					}
					v := float64(b%8*32 + th)
					switch less {
					case "f16":
						v /= 16 // of which codes under a constant have no room
					case "f16 below 1024", "f16 rounded":
						v = 7.3*v - 600
					}
					z.SetCode(b*32+th, of.Encode(v, false))
				}
			}
			var s strings.Builder
			half := ir.RegisterOf(dtype.F16, lay)
			fmt.Fprintf(&s, "program p<%d>(a: *u32, z: *%s, y: *f16) warps=1 {\n\tb = BlockIndices()\n", blocks, of)
			fmt.Fprintf(&s, "ga = ViewGlobal(a) : global u32[%d, %d]\ngz = ViewGlobal(z) : global %s[%d, 1]\ngy = ViewGlobal(y) : global f16[%d, %d]\n", blocks, 32*r.Place.Words(), of, blocks*32, blocks*32, n)
			fmt.Fprintf(&s, "ra = LoadGlobal(ga, offset=[b, 0], dims=[1]) : register u32[%d] spatial(32).local(%d)\n", 32*r.Place.Words(), r.Place.Words())
			fmt.Fprintf(&s, "x = View(ra) : %s\nv = Cast(x) : %s\n", from, half)
			fmt.Fprintf(&s, "rz = LoadGlobal(gz, offset=[b*32, 0]) : register %s[32, 1] spatial(32, 1)\n", of)
			name := less // a constant
			if steps, ok := map[string][]string{"u8": {"Cast(%s)"}, "f16": nil, "f16 below 1024": {"Min(%s, 1024)", "Add(%s, 1024)", "Sub(%s, 1024)"},
				"f16 rounded": {"Min(%s, 1024)", "Max(%s, -512)", "Add(%s, 1024)", "Sub(%s, 1024)"}}[less]; ok {
				name = "rz"
				for _, step := range steps {
					fmt.Fprintf(&s, "fz = "+step+" : register f16[32, 1] spatial(32, 1)\n", name)
					name = "fz"
				}
			}
			fmt.Fprintf(&s, "d = Sub(v, %s) : %s\nStoreGlobal(gy, d, offset=[b*32, 0])\n}\n", name, half)
			p := parse(t, s.String())
			agree(t, p, nil, []ir.Arg{{Array: words}, {Array: z}, {Array: array.New(dtype.F16, blocks*32, n)}})
			f, err := opt.Run(lowered(t, p, nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			differences := 0
			f.Body.Walk(func(in *code.Instr) {
				if in.Op == code.OpSubF16x2 {
					differences++
				}
			})
			want := len(r.Out) + subtracted
			switch less {
			case "u8", "f16 rounded":
				if want -= taken; taken < len(r.Out) {
					want++ // of the byte's own cast, or the number's
				}
				if with += taken; less != "u8" {
					want += len(constants)
				}
			case "f16 below 1024":
				want++ // of the numbers
			case "2":
				want -= taken
			}
			if differences != want {
				t.Errorf("%s: %d differences for %d pairs less %s, want %d", r.From, differences, len(r.Out), less, want)
			}
		}
	}
	if with == 0 {
		t.Error("no recipe takes a constant off codes")
	}
}
