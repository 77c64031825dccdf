package infer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// TestRulesOfTilus walks the rules of Tilus's layout inference in their order, and
// shows of each that ours does what it does, or better. A graph is written as a line
// of tiles, "name space type shape [= layout]", and one of instructions, "Op in … -> out …";
// want are the layouts found.
//
// Source: github.com/NVIDIA/tilus, python/tilus/transforms/layout_inference, commit 9a22de0a.
func TestRulesOfTilus(t *testing.T) {
	for _, c := range []struct {
		n      string // of the rule there
		tiles  string
		instrs string
		want   string // name: layout; …
		more   string // what ours does beyond it
	}{
		{"1 Tcgen05Alloc", "t tensor f32 128,64", "TMemoryAlloc -> t", "t: tmemory_row_major(128, 64)", ""},
		{"2 Tcgen05Slice", "t tensor f32 128,64 = row; s tensor f32 128,32", "TMemorySlice t -> s", "s: tmemory_row_major(128, 32)", ""},
		{"3 Tcgen05Load", "t tensor f32 128,64 = row; r register f32 128,64", "TMemoryLoad t -> r", "r: spatial(4, 1).column_local(4, 8).spatial(8, 4).local(1, 2)", ""},
		{"4 Tcgen05MmaSS", "a shared f16 128,64; b shared f16 64,128; d tensor f32 128,128 = row", "TMemoryProduct a b d", "a: shared_row_major(128, 64).apply_swizzle(base=3, bits=3, shift=3)", ""},
		{"5 SliceRegister", "x register f32 4,64; y register f32 64", "SliceRegister x -> y", "x: replicated(4, 1, num_workers=2).spatial(1, 64)", ""},
		{"6 SliceAssign", "x register f32 4,64; y register f32 64; z register f32 4,64", "SliceAssign x y -> z", "x: replicated(4, 1, num_workers=2).spatial(1, 64)", ""},
		{"7 AllocBarrier", "b register u32 2", "AllocBarrier -> b", "b: replicated(2, num_workers=128)", ""},
		{"8 MmaDot, nothing known", "a register f16 64,16; b register f16 16,64; c register f32 64,64", "Dot a b c -> c", "a: spatial(2, 1).replicated(2, 2, num_workers=2).local(2, 1).spatial(8, 4).local(1, 2); c: spatial(2, 2).local(2, 4).local(2, 1).spatial(8, 4).local(1, 2)", ""},
		{"8 MmaDot, d known", "a register f16 16,16; b register f16 16,32; c register f32 16,32 = spatial(1, 4).local(2, 1).spatial(8, 4).local(1, 2)", "Dot a b c -> c", "b: local(2, 1).column_spatial(4, 32).local(2, 1)", ""},
		{"8 MmaDot, only a known", "a register f16 64,16 = spatial(4, 1).column_local(2, 2).spatial(8, 4).local(1, 2); b register f16 16,64; c register f32 64,64", "Dot a b c -> c", "c: spatial(4, 1).column_local(2, 8).spatial(8, 4).local(1, 2)", "the split that a lies in; nothing there"},
		{"9 WgmmaMmaSS", "a shared f16 64,64; b shared f16 64,64; d register f32 64,64", "WgmmaProduct a b d", "d: spatial(4, 1).column_local(2, 8).spatial(8, 4).local(1, 2); a: shared_row_major(64, 64).apply_swizzle(base=3, bits=3, shift=3)", ""},
		{"11 Tcgen05Copy", "s shared f16 128,64; t tensor f16 128,64 = row", "TMemoryCopy s t", "s: shared_row_major(128, 64).apply_swizzle(base=3, bits=3, shift=3)", ""},
		{"12 Philox4x32", "o register u32 128 = spatial(128); r register u32 4,128", "Random o -> r", "r: spatial(1, 128).local(4, 1)", ""},
		{"12 Philox4x32, back", "o register u32 128; r register u32 4,128 = local(4, 1).spatial(1, 128)", "Random o -> r", "o: spatial(128)", ""},
		{"13 Binary, from c", "a register f32 64,1; b register f32 64,64; c register f32 64,64 = spatial(4, 32).local(16, 2)", "Binary a b -> c", "a: spatial(4, 1).replicated(16, 1, num_workers=32); b: spatial(4, 32).local(16, 2)", ""},
		{"13 Binary, from a", "a register f32 64,64 = spatial(4, 32).local(16, 2); b register f32 1,64; c register f32 64,64", "Binary a b -> c", "c: spatial(4, 32).local(16, 2)", ""},
		{"14 Unary", "a register f32 128 = spatial(128); c register f16 128", "Unary a -> c", "c: spatial(128)", ""},
		{"15 LoadGlobal", "g global f16 64,64; r register f16 64,64", "LoadGlobal g -> r along=1 vector=8", "r: local(4, 1).spatial(16, 8).local(1, 8)", ""},
		{"15 LoadGlobal, uneven", "g global f32 5,7; r register f32 5,7", "LoadGlobal g -> r along=1 vector=1", "r: replicated(5, 7, num_workers=128)", "an error there"},
		{"16 Reduce", "x register f32 64,64 = spatial(4, 32).local(16, 2); r register f32 64", "Reduce x -> r", "r: spatial(4).replicated(16, num_workers=32)", ""},
		{"17 Scan", "x register f32 128; r register f32 128 = spatial(128)", "Scan x -> r", "x: spatial(128)", ""},
		{"18 Transpose", "x register f32 64,64 = spatial(4, 32).local(16, 2); r register f32 64,64", "Transpose x -> r", "r: column_spatial(32, 4).column_local(2, 16)", ""},
		{"18 Squeeze", "x register f32 1,128; r register f32 128 = spatial(128)", "Squeeze x -> r", "x: spatial(1, 128)", ""},
		{"18 Unsqueeze", "x register f32 128 = spatial(128); r register f32 128,1", "Unsqueeze x -> r", "r: spatial(128, 1)", ""},
		{"18 Reshape", "x register f32 128 = spatial(128); r register f32 4,32", "Reshape x -> r", "r: spatial(4, 32)", ""},
		{"19 Where", "p register bool 128; x register f32 128; y register f32 1; r register f32 128 = spatial(128)", "Where p x y -> r", "p: spatial(128); y: replicated(1, num_workers=128)", ""},
		{"20 Assign", "x register f32 128 = spatial(128); r register f32 128", "Assign x -> r", "r: spatial(128)", ""},
		{"21 StoreGlobal", "g global f32 512; r register f32 512", "StoreGlobal g r along=0 vector=4", "r: spatial(128).local(4)", ""},
		{"22 AtomicElementWise", "g global i32 128; v register i32 128; o register i32 128", "AtomicGlobal g v -> o", "v: spatial(128); o: spatial(128)", ""},
		{"22 Scatter", "g global i32 128; i register i32 128; v register i32 128", "StoreGlobalScatter g i v", "i: spatial(128); v: spatial(128)", ""},
		{"23 cluster control", "r register i32 3", "Uniform -> r", "r: replicated(3, num_workers=128)", ""},
		{"24 Empty", "s shared f16 64,64 = shared_row_major(64, 64)", "FreeShared s", "", ""},
		{"25 LoadShared → swizzled", "s shared f16 64,64; r register f16 64,64 = local(8, 4).spatial(1, 4).spatial(8, 4).local(1, 2)", "LoadShared s -> r", "s: shared_row_major(64, 64).apply_swizzle(base=3, bits=3, shift=3)", ""},
		{"25 StoreShared → swizzled", "s shared f16 64,16; r register f16 64,16 = spatial(4, 1).local(2, 2).spatial(8, 4).local(1, 2)", "StoreShared s r", "s: shared_row_major(64, 16).apply_swizzle(base=3, bits=1, shift=3)", ""},
		{"26 SharedSlice", "s shared f16 3,64,64 = shared_row_major(3, 64, 64); u shared f16 64,64", "SliceShared s -> u", "u: shared_row_major(64, 64)", ""},
		{"26 PermuteShared", "s shared f16 32,64 = shared_row_major(32, 64); u shared f16 64,32", "PermuteShared s -> u", "u: shared_column_major(64, 32)", ""},
		{"26 PermuteShared, read across", "s shared f16 64,64; u shared f16 64,64; r register f16 64,64 = local(8, 4).spatial(1, 4).column_spatial(4, 8).local(2, 1)", "PermuteShared s -> u; LoadShared u -> r", "s: shared_row_major(64, 64).apply_swizzle(base=3, bits=3, shift=3)", "rows stay rows for cp.async"},
		{"26 ReshapeShared", "s shared f16 4096 = shared_row_major(4096); u shared f16 64,64", "ReshapeShared s -> u", "u: shared_row_major(64, 64)", ""},
		{"27 CopyAsync", "g global f16 64,64; s shared f16 64,64 = shared_row_major(64, 64)", "CopyAsync g s", "", ""},
		{"28 LoadShared → ldmatrix", "s shared f16 64,64 = shared_row_major(64, 64); r register f16 64,64", "LoadShared s -> r", "r: local(8, 2).spatial(1, 4).spatial(8, 4).local(1, 2)", ""},
		{"29 LoadShared → registers", "s shared f32 4,256 = shared_column_major(4, 256); r register f32 4,256", "LoadShared s -> r", "r: column_local(4, 2).spatial(1, 128)", "along memory, not along rows"},
		{"30 LoadShared → row-major", "s shared f32 5,32; r register f32 5,32 = local(5, 1).spatial(4, 32)", "LoadShared s -> r", "s: shared_row_major(5, 32)", ""},
		{"31 AllocateShared", "s shared f32 5,33", "AllocateShared -> s", "s: shared_row_major(5, 33)", ""},
		{"none: Repeat", "x register f32 128 = spatial(128); r register f32 256", "Repeat x -> r", "r: local(2).spatial(128)", "no rule there"},
		{"none: RepeatInterleave", "x register f32 128 = spatial(128); r register f32 256", "RepeatInterleave x -> r", "r: spatial(128).local(2)", "no rule there"},
		{"none: SIMT dot", "a register f32 64,32; b register f32 32,64; c register f32 64,64", "LaneDot a b c -> c", "c: local(16, 1).spatial(4, 32).local(1, 2)", "no rule there"},
		{"none: shuffles", "x register f32 128 = spatial(128); r register f32 128", "ShuffleUp x -> r", "r: spatial(128)", "no rule there"},
		{"none: View", "x register u8 192; r register i6 16,16 = local(2, 1).spatial(8, 4).local(1, 2).local(1, 2)", "View x -> r", "x: local(3).spatial(32).local(2)", "the packed view; there a source must have its layout"},
		{"none: AllocateRegister", "x register f32 256", "AllocateRegister -> x", "x: local(2).spatial(128)", "stuck there"},
		{"none: Indices", "x register i32 256", "Indices -> x", "x: local(2).spatial(128)", "stuck there"},
		{"none: thread groups", "x register f32 256", "AllocateRegister -> x threads=64", "x: local(4).spatial(64)", "stuck there"},
	} {
		t.Run(c.n, func(t *testing.T) {
			g := &infer.Graph{Warps: 4, Target: compile.Layouts()}
			tiles := map[string]*infer.Tile{}
			for line := range strings.SplitSeq(c.tiles, "; ") {
				head, l, known := strings.Cut(line, " = ")
				f := strings.Fields(head)
				x := &infer.Tile{Name: f[0], Space: infer.Space(slices.Index([]string{"register", "shared", "tensor", "global"}, f[1])), Known: known}
				var err error
				if x.Elem, err = dtype.Parse(f[2]); err != nil {
					t.Fatal(err)
				}
				for n := range strings.SplitSeq(f[3], ",") {
					var extent int
					fmt.Sscan(n, &extent)
					x.Shape = append(x.Shape, extent)
				}
				switch {
				case known && x.Space == infer.Register:
					x.Register, err = layout.Parse(l)
				case known && x.Space == infer.Shared:
					x.Shared, err = layout.ParseShared(l)
				case known:
					x.TMemory, err = layout.TMemoryRowMajor(x.Shape...)
				}
				if err != nil {
					t.Fatal(err)
				}
				tiles[x.Name] = x
			}
			for line := range strings.SplitSeq(c.instrs, "; ") {
				f := strings.Fields(line)
				in := &infer.Instr{Op: f[0]}
				to := &in.In
				for _, w := range f[1:] {
					switch {
					case w == "->":
						to = &in.Out
					case strings.HasPrefix(w, "along="):
						fmt.Sscanf(w, "along=%d", &in.Along)
					case strings.HasPrefix(w, "vector="):
						fmt.Sscanf(w, "vector=%d", &in.Vector)
					case strings.HasPrefix(w, "threads="):
						fmt.Sscanf(w, "threads=%d", &in.Threads)
					default:
						*to = append(*to, tiles[w])
					}
				}
				g.Instrs = append(g.Instrs, in)
			}
			trace, _ := g.Infer()
			if c.want == "" && len(trace) > 0 {
				t.Errorf("found %s", trace)
			}
			for w := range strings.SplitSeq(c.want, "; ") {
				name, l, ok := strings.Cut(w, ": ")
				if !ok {
					continue
				}
				if got := tiles[name].Layout(); got != l {
					t.Errorf("%s is %s, want %s\n%s", name, got, l, trace)
				}
			}
		})
	}
}
