package differential

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestPutAndTake has a block put a tile and the next one take it: with tiles that many threads have, that lie in any dimension, that reach
// beyond the tensor, and of which only some is taken. What is taken is what was put, its places are empty after, and nothing else changes.
func TestPutAndTake(t *testing.T) {
	devices := []string{"interp", "sim", "sim:sm_80"}
	minus := uint64(1) << 31 // a 0 is put as -0
	for _, c := range []struct {
		warps, rows, columns int
		shape                []int
		tile, dims           string
		load                 code.Op // what the take does
	}{
		{1, 5, 40, []int{4, 32}, "f32[4, 32] local(4, 1).spatial(1, 32)", "0, 1", code.OpLdRelaxedGlobalB32},
		{1, 3, 128, []int{2, 128}, "f32[2, 128] local(2, 1).spatial(1, 32).local(1, 4)", "0, 1", code.OpLdRelaxedGlobalV4B32},
		{1, 6, 64, []int{4, 32}, "f32[4, 32] local(2, 1).spatial(2, 16).local(1, 2)", "0, 1", code.OpLdRelaxedGlobalV2B32},
		{2, 5, 64, []int{4, 32}, "f32[4, 32] replicated(1, 1, num_workers=2).local(2, 1).spatial(2, 16).local(1, 2)", "0, 1", code.OpLdRelaxedGlobalV2B32},
		{4, 8, 16, []int{8, 16}, "f32[8, 16] spatial(4, 1).replicated(1, 1, num_workers=4).spatial(2, 4).local(1, 4)", "0, 1", code.OpLdRelaxedGlobalV4B32},
		{1, 3, 128, []int{128}, "f32[128] spatial(32).local(4)", "1", code.OpLdRelaxedGlobalB32}, // the count may cut between neighbours
		{1, 128, 3, []int{128}, "f32[128] spatial(32).local(4)", "0", code.OpLdRelaxedGlobalB32},
		{1, 128, 1, []int{128, 1}, "f32[128, 1] spatial(32, 1).local(4, 1)", "0, 1", code.OpLdRelaxedGlobalB32}, // neighbours, in the first dimension
		{2, 32, 8, []int{8, 32}, "f32[8, 32] spatial(2, 32).local(4, 1)", "1, 0", code.OpLdRelaxedGlobalB32},
	} {
		src := fmt.Sprintf(`program put<2>(x: *f32, parts: *f32, y: *f32, n: i32, i: i32, j: i32) warps=%d {
	b = BlockIndices()
	gx = ViewGlobal(x) : global f32[%[2]d, %[3]d]
	gp = ViewGlobal(parts) : global f32[%[2]d, %[3]d]
	gy = ViewGlobal(y) : global f32[%[2]d, %[3]d]
	if b == 0 {
		v = LoadGlobal(gx, offset=[i, j], dims=[%[5]s]) : register %[4]s
		PutGlobal(gp, v, offset=[i, j], dims=[%[5]s])
	} else {
		w = TakeGlobal(gp, n, offset=[i, j], dims=[%[5]s]) : register %[4]s
		StoreGlobal(gy, w, offset=[i, j], dims=[%[5]s])
	}
}
`, c.warps, c.rows, c.columns, c.tile, c.dims)
		p, err := text.Parse("put.tile", src, nil)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := text.Parse("put.tile", strings.NewReplacer("i: i32, j: i32", "k: i32", "[i, j]", "[0, 0]").Replace(src), nil)
		if err != nil {
			t.Fatal(err)
		}
		k, err := compile.Program(whole, compile.Options{Arch: "sm_90"})
		if err != nil {
			t.Fatal(err)
		}
		k.Func.Body.Walk(func(in *code.Instr) {
			if in.Row().Relaxed && in.Row().Class == code.Load && in.Op != c.load {
				t.Errorf("%s: %s, want %s", c.tile, in.Op, c.load)
			}
		})
		var dims []int
		for _, d := range strings.Split(c.dims, ", ") {
			dims = append(dims, int(d[0]-'0'))
		}
		for _, count := range []int{-1, 0, 1, 2, 3, 126, 1000} {
			for _, at := range [][]int{{0, 0}, {1, 0}, {-1, 3}, {2, -5}, {0, 2}} {
				x, y, empty := array.New(dtype.F32, c.rows, c.columns), array.New(dtype.F32, c.rows, c.columns), array.New(dtype.F32, c.rows, c.columns)
				wantY, wantP := make([]uint64, x.Len()), make([]uint64, x.Len())
				for k := range x.Len() {
					x.SetCode(k, []uint64{0, minus, uint64(math.Float32bits(float32(k))), 1, 0x7fc00001}[k%5]) // zeros, a subnormal, a NaN
					y.SetCode(k, 7)
					wantY[k] = 7
				}
				size := 1
				for _, n := range c.shape {
					size *= n
				}
				for e := range size {
					index, rest, inside := append([]int{}, at...), e, true
					first := 0
					for d := len(c.shape) - 1; d >= 0; d-- {
						first = rest % c.shape[d]
						index[dims[d]] += first
						rest /= c.shape[d]
					}
					inside = index[0] >= 0 && index[0] < c.rows && index[1] >= 0 && index[1] < c.columns
					if !inside {
						continue
					}
					k := index[0]*c.columns + index[1]
					put := x.Code(k)
					if put == 0 {
						put = minus
					}
					if wantY[k], wantP[k] = put, 0; first >= count {
						wantY[k], wantP[k] = 0, put
					}
				}
				for _, device := range devices {
					res, err := open(t, device).Run(context.Background(), p, []ir.Arg{{Array: x}, {Array: empty}, {Array: y}, {Int: int64(count)}, {Int: int64(at[0])}, {Int: int64(at[1])}})
					if err != nil {
						t.Fatalf("%s on %s, %d at %v: %v", c.tile, device, count, at, err)
					}
					for k := range wantY {
						if g, h := res.Args[2].Array.Code(k), res.Args[1].Array.Code(k); g != wantY[k] || h != wantP[k] {
							t.Fatalf("%s on %s, %d at %v: element %d is taken as %#x, and %#x stays; want %#x, %#x", c.tile, device, count, at, k, g, h, wantY[k], wantP[k])
						}
					}
				}
			}
		}
	}
}

// TestPutInGroups hands elements from thread groups to others of the same block, in either order of the text, to and fro, and from a part of a
// warp to a single thread: who waits lets the others go on.
func TestPutInGroups(t *testing.T) {
	head := "program groups<2>(parts: *f32, y: *f32) warps=4 {\n	b = BlockIndices()\n	gp = ViewGlobal(parts) : global f32[4, 64]\n	gy = ViewGlobal(y) : global f32[2, 64]\n"
	take := "w = TakeGlobal(gp, offset=[b, 0], dims=[1]) : register f32[64] spatial(64)"
	put := "v = AllocateRegister(init=3) : register f32[64] spatial(64)\n		PutGlobal(gp, v, offset=[b, 0], dims=[1])"
	store := "\n		StoreGlobal(gy, w, offset=[b, 0], dims=[1])"
	group := func(begin, size int, body string) string {
		return fmt.Sprintf("	group(%d, %d) {\n		%s\n	}\n", begin, size, body)
	}
	for _, c := range []struct {
		name, body string
		want       [2]float64 // of the first 16 elements, and of others
	}{
		{"takes first", group(0, 64, take+store) + group(64, 64, put), [2]float64{3, 3}},
		{"puts first", group(0, 64, put) + group(64, 64, take+store), [2]float64{3, 3}},
		{"to and fro", group(0, 64, take+"\n		w = Add(w, 1) : register f32[64] spatial(64)\n		PutGlobal(gp, w, offset=[b + 2, 0], dims=[1])") +
			group(64, 64, put+"\n		w = TakeGlobal(gp, offset=[b + 2, 0], dims=[1]) : register f32[64] spatial(64)"+store), [2]float64{4, 4}},
		{"a part of a warp", group(96, 16, "v = AllocateRegister(init=3) : register f32[16] spatial(16)\n		PutGlobal(gp, v, offset=[b, 0], dims=[1])") +
			group(5, 1, "w = TakeGlobal(gp, offset=[b, 0], dims=[1]) : register f32[16] local(16)\n"+store), [2]float64{3, 0}},
	} {
		p, err := text.Parse("groups.tile", head+c.body+"}\n", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, device := range []string{"interp", "sim", "sim:sm_80"} {
			res, err := open(t, device).Run(context.Background(), p, []ir.Arg{{Array: array.New(dtype.F32, 4, 64)}, {Array: array.New(dtype.F32, 2, 64)}})
			if err != nil {
				t.Errorf("%s on %s: %v", c.name, device, err)
				continue
			}
			for k := range 128 {
				if g := dtype.F32.Decode(res.Args[1].Array.Code(k)); g != c.want[min(k%64/16, 1)] {
					t.Errorf("%s on %s: element %d is %v, want %v", c.name, device, k, g, c.want[min(k%64/16, 1)])
					break
				}
			}
			for k := range 4 * 64 {
				if x := res.Args[0].Array.Code(k); x != 0 {
					t.Errorf("%s on %s: place %d is not empty", c.name, device, k)
					break
				}
			}
		}
	}
}
