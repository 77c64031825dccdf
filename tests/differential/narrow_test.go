package differential

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestNarrowElements loads and stores elements of every width below a byte where
// they stand, in layouts from whole bytes a thread to neighbours in other threads and
// slots apart, at offsets that begin inside bytes, over the edges of the tensor, and
// between elements that must stay: the fallback of the paper's Figure 7.
func TestNarrowElements(t *testing.T) {
	layouts := []string{
		"local(1, 8).spatial(4, 8)",
		"spatial(4, 8).local(1, 8)",
		"spatial(4, 8).local(1, 4).local(1, 2)",
		"local(4, 1).spatial(1, 32).local(1, 2)",
		"column_spatial(4, 8).local(1, 8)",
		"column_local(2, 4).column_spatial(2, 16)",
		"local(2, 2).spatial(2, 16).local(1, 2)",
		"spatial(4, 4).replicated(1, 1, num_workers=2).local(1, 16)",
	}
	ref := open(t, "interp")
	for bits := 1; bits <= 7; bits++ {
		for _, kind := range []string{"u", "i"} {
			if kind == "i" && bits == 1 {
				continue
			}
			elem := fmt.Sprintf("%s%d", kind, bits)
			for k, lay := range layouts {
				// The same elements, each bit of them a value, whatever the width.
				src := strings.NewReplacer("ELEM", elem, "LAYOUT", lay).Replace(`program narrow<2, 2>(x: *ELEM, y: *ELEM, n: i32) warps=1 {
	i, j = BlockIndices()
	gx = ViewGlobal(x) : global ELEM[9, n]
	gy = ViewGlobal(y) : global ELEM[10, n]
	r = LoadGlobal(gx, offset=[i*4 + 1, j*64 - 3]) : register ELEM[4, 64] LAYOUT
	StoreGlobal(gy, r, offset=[i*4, j*64 + 1])
	part = SliceGlobal(gy, offset=[9, 5], dims=[1]) : global ELEM[101]
	if i + j == 2 {
		row = LoadGlobal(gx, offset=[0, 2], dims=[1]) : register ELEM[128] spatial(32).local(4)
		StoreGlobal(part, row, offset=[-1])
	}
}
`)
				p, err := text.Parse(fmt.Sprintf("narrow_%s_%d", elem, k), src, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range []int64{107, 128} {
					x, err := array.Generate(fmt.Sprintf("randint:%s[9,%d]:seed=%d", elem, n, k+1))
					if err != nil {
						t.Fatal(err)
					}
					y, err := array.Generate(fmt.Sprintf("randint:%s[10,%d]:seed=%d", elem, n, k+20))
					if err != nil {
						t.Fatal(err)
					}
					l := Launch{Name: fmt.Sprintf("%s, %s, n=%d", elem, lay, n), Program: p, Args: []ir.Arg{{Array: x}, {Array: y}, {Int: n}}}
					want, err := ref.Run(context.Background(), p, l.Args)
					if err != nil {
						t.Fatalf("%s: %v", l.Name, err)
					}
					for _, o := range []compile.Options{{Arch: "sm_80", NoOpt: true}, {Arch: "sm_80", Divisible: compile.Divisors(p, l.Args)}} {
						got, err := simulate(l, o)
						if err != nil {
							t.Fatalf("%s: %v", l.Name, err)
						}
						same(t, l, "sm_80", got, want.Args)
					}
				}
			}
		}
	}
}
