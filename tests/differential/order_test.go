package differential

import (
	"context"
	"fmt"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestAtomicScalars holds each op, inside and outside of the tensor, with blocks
// of one warp and of several, to plain arithmetic.
func TestAtomicScalars(t *testing.T) {
	step := map[string]func(old, v int32) int32{
		"add":  func(old, v int32) int32 { return old + v },
		"exch": func(_, v int32) int32 { return v },
		"sub":  func(old, v int32) int32 { return old - v },
		"min":  func(old, v int32) int32 { return min(old, v) },
		"max":  func(old, v int32) int32 { return max(old, v) },
		"and":  func(old, v int32) int32 { return old & v },
		"or":   func(old, v int32) int32 { return old | v },
		"xor":  func(old, v int32) int32 { return old ^ v },
		"cas": func(old, v int32) int32 {
			if old == 3 {
				return v
			}
			return old
		},
		"inc": func(old, v int32) int32 {
			if uint32(old) >= uint32(v) {
				return 0
			}
			return old + 1
		},
	}
	const blocks = 6
	starts := []int32{0, 3, -1, 1<<31 - 1}
	for _, device := range []string{"interp", "sim", "sim:sm_80"} {
		d := open(t, device)
		for op, f := range step {
			operand := ""
			if op == "cas" {
				operand = ", 3"
			}
			for _, order := range []string{"", ", order=acq_rel", ", order=acquire", ", order=release"} {
				for _, warps := range []int{1, 3} {
					for _, v := range []int64{3, -2, 1<<31 - 1} {
						src := fmt.Sprintf(`program steps<%d>(c: *i32, seen: *i32, v: i32, shift: i32) warps=%d {
	b = BlockIndices()
	gc = ViewGlobal(c) : global i32[4, 2]
	gs = ViewGlobal(seen) : global i32[%d, %d]
	old = AtomicScalar(gc, v%s, offset=[b %% 4 + shift, 1], op=%s%s)
	r = AllocateRegister(init=0) : register i32[%d] spatial(%d)
	r = Add(r, old) : register i32[%d] spatial(%d)
	StoreGlobal(gs, r, offset=[b, 0], dims=[1])
}
`, blocks, warps, blocks, 32*warps, operand, op, order, 32*warps, 32*warps, 32*warps, 32*warps)
						p, err := text.Parse("steps.tile", src, nil)
						if err != nil {
							t.Fatal(err)
						}
						for _, shift := range []int{0, 1, -3} {
							c := array.New(dtype.I32, 4, 2)
							want := make([]int32, 8)
							for i := range 4 {
								want[2*i+1] = starts[i]
								c.Set(float64(starts[i]), i, 1)
							}
							olds := make([]int32, blocks)
							for b := range blocks {
								if at := b%4 + shift; at >= 0 && at < 4 {
									olds[b] = want[2*at+1]
									want[2*at+1] = f(olds[b], int32(v))
								}
							}
							res, err := d.Run(context.Background(), p, []ir.Arg{{Array: c}, {Array: array.New(dtype.I32, blocks, 32*warps)}, {Int: v}, {Int: int64(shift)}})
							if err != nil {
								t.Fatalf("%s, %s%s, %d warps: %v", device, op, order, warps, err)
							}
							name := fmt.Sprintf("%s, %s%s, %d warps, value %d, shift %d", device, op, order, warps, v, shift)
							for i, w := range want {
								if g := int32(uint32(res.Args[0].Array.Code(i))); g != w {
									t.Errorf("%s: element %d is %d, want %d", name, i, g, w)
								}
							}
							for k := range blocks * 32 * warps {
								if g := int32(uint32(res.Args[1].Array.Code(k))); g != olds[k/32/warps] {
									t.Errorf("%s: thread %d of block %d has %d, want %d", name, k%(32*warps), k/32/warps, g, olds[k/32/warps])
									break
								}
							}
						}
					}
				}
			}
		}
	}
}
