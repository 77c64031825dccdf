package emit

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/emit/approx"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
)

// TestFunctions computes every function in kernels, of all float types. Those of f64 are
// compared within their bounds, others bit by bit.
func TestFunctions(t *testing.T) {
	for _, b := range approx.Bounds() {
		for _, typ := range []hlo.Type{hlo.F8E4M3FN, hlo.F8E5M2, hlo.F16, hlo.BF16, hlo.F32, hlo.F64} {
			args := []*array.Array{array.New(typ.Elem(), 64)}
			for k := range 64 {
				lo, hi := max(b.Lo, -9), min(b.Hi, 9)
				args[0].SetCode(k, typ.Elem().Encode(lo+(hi-lo)*float64(k)/63, false))
			}
			params, names := fmt.Sprintf(" x = %s[64] parameter(0)\n", typ), "x"
			if b.Op == hlo.Power || b.Op == hlo.Atan2 {
				params += fmt.Sprintf(" y = %s[64] parameter(1)\n", typ)
				names = "x, y"
				y := args[0].Clone()
				for k := range 64 {
					y.SetCode(k, args[0].Code(k*23%64))
				}
				args = append(args, y)
			}
			m, err := hlo.Parse("test", fmt.Sprintf("HloModule m\nENTRY e {\n%s ROOT r = %s[64] %s(%s)\n}\n", params, typ, b.Op, names))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Compile(m, Options{Device: tiny})
			if err != nil {
				t.Errorf("%s of %s: %v", b.Op, typ, err)
				continue
			}
			want, err := eval.Run(m, args)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Simulate(context.Background(), args)
			if err != nil {
				t.Fatal(err)
			}
			for k := range 64 {
				g, w := got[0].Code(k), want[0].Code(k)
				if typ == hlo.F64 {
					x, y := math.Float64frombits(g), math.Float64frombits(w)
					if math.Abs(x-y) <= (b.ULP+2)*0x1p-52*math.Abs(y) || x == y || math.IsNaN(x) && math.IsNaN(y) {
						continue
					}
				}
				if g != w {
					t.Errorf("%s of %g in %s is %#x, not %#x", b.Op, args[0].At(k), typ, g, w)
				}
			}
		}
	}
}
