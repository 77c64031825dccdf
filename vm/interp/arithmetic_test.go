package interp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestDivisionByZero names the operand and its element.
func TestDivisionByZero(t *testing.T) {
	for _, op := range []string{"Div", "Mod"} {
		p, err := text.Parse("p.tile", fmt.Sprintf(`program p<1>(x: *i16) warps=1 {
	g = ViewGlobal(x) : global i16[32]
	r = LoadGlobal(g, offset=[0]) : register i16[32] spatial(32)
	q = %s(7, r) : register i16[32] spatial(32)
	StoreGlobal(g, q, offset=[0])
}
`, op), nil)
		if err != nil {
			t.Fatal(err)
		}
		x := array.New(dtype.I16, 32)
		for k := range 32 {
			x.SetCode(k, uint64(k+1)%20)
		}
		m, err := interp.New(p, []ir.Arg{{Array: x}})
		if err != nil {
			t.Fatal(err)
		}
		if err = m.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "p.tile:4:13: element 19 of 7 is divided by 0 [Run.E16]") {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// BenchmarkElementwise measures a tile of 64Ki elements; allocations are a few for
// each instruction, none for an element.
func BenchmarkElementwise(b *testing.B) {
	for _, call := range []string{"Add(r, r)", "Fma(r, r, 1.5)", "Add(r, c)", "Exp(r)", "Reduce(r, op=sum, dim=[1], keepdims=true)"} {
		b.Run(strings.SplitN(call, "(", 2)[0]+call[len(call)-2:len(call)-1], func(b *testing.B) {
			result := "f32[256, 256] spatial(32, 1).local(8, 256)"
			if strings.HasPrefix(call, "Reduce") {
				result = "f32[256, 1] spatial(32, 1).local(8, 1)"
			}
			p, err := text.Parse("p.tile", fmt.Sprintf(`program p<1>() warps=1 {
	r = AllocateRegister(init=0.5) : register f32[256, 256] spatial(32, 1).local(8, 256)
	c = AllocateRegister(init=0.5) : register f32[256, 1] spatial(32, 1).local(8, 1)
	for i in 0..10 {
		q = %s : register %s
	}
}
`, call, result), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				m, err := interp.New(p, nil)
				if err == nil {
					err = m.Run(context.Background())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/655360, "ns/element")
		})
	}
}
