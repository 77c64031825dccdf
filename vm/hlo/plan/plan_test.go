package plan

import (
	"fmt"
	rng "math/rand/v2"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/rand"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func device(t *testing.T) Device {
	t.Helper()
	d, err := FindDevice("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func bijective(t *testing.T, what string, k *Kernel, names ...string) {
	t.Helper()
	for _, m := range k.Maps {
		if m.Dims == nil || len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		if err := m.Map.Bijective(m.Dims); err != nil {
			t.Errorf("%s: %s %s: %v\n%s", what, k.Emitter, m.Name, err, m.Map)
		}
	}
}

// TestTransposesMoveEverythingOnce: whatever the sizes, each element is read once and
// written once.
func TestTransposesMoveEverythingOnce(t *testing.T) {
	r := rng.New(rng.NewPCG(1, 2))
	seen := map[string]int{}
	n := 150
	if testing.Short() {
		n = 100
	}
	for range n {
		rank := 2 + r.IntN(3)
		dims := make([]int, rank)
		for i := range dims {
			dims[i] = []int{1, 2, 3, 8, 16, 20, 24, 32, 33, 40, 64, 70}[r.IntN(12)]
		}
		for product(dims) > 1<<17 {
			dims[r.IntN(rank)] = 2
		}
		perm := r.Perm(rank)
		types := []hlo.Type{hlo.F32, hlo.BF16, hlo.S8, hlo.S4, hlo.F64}
		ty := types[r.IntN(len(types))]
		k := Transpose(ty, dims, perm, device(t))
		kind := k.Emitter
		if k.Packed != nil {
			kind = "packed"
		}
		seen[kind]++
		if k.Emitter == TransposeEmitter {
			bijective(t, fmt.Sprint(ty, dims, perm), k, "thread_to_input", "thread_to_output")
		}
	}
	if seen["packed"] == 0 || seen[TransposeEmitter] == 0 || seen[LoopEmitter] == 0 {
		t.Errorf("the sample holds %v", seen)
	}
}

// TestPackedMeetsNoBankTwice: the lanes of a warp write and read different banks.
func TestPackedMeetsNoBankTwice(t *testing.T) {
	for _, c := range []struct {
		t    hlo.Type
		dims []int
	}{{hlo.BF16, []int{256, 256}}, {hlo.S8, []int{256, 512}}, {hlo.S4, []int{512, 256}}} {
		k := Transpose(c.t, c.dims, []int{1, 0}, device(t))
		if k.Packed == nil {
			t.Fatalf("%v is not packed: %v", c, k.Why)
		}
		side, vs := int64(k.Packed.Side), int64(k.Packed.Elements)
		for _, name := range []string{"shared_write", "shared_read"} {
			named, _ := k.Find(name)
			m := named.Map
			banks := map[[3]int64]map[int64]int64{}
			err := m.Points(1<<24, func(dims, symbols, at []int64) error {
				if dims[3] > 0 || symbols[1] > 0 { // one block, the first element of a word
					return nil
				}
				key := [3]int64{dims[0] / 32, symbols[0], 0}
				if len(symbols) > 2 {
					key[2] = symbols[2]
				}
				word := (at[0]*side + at[1]) / vs
				if banks[key] == nil {
					banks[key] = map[int64]int64{}
				}
				if other, ok := banks[key][word%32]; ok && other != word {
					return fmt.Errorf("two words of one bank at %v %v", dims, symbols)
				}
				banks[key][word%32] = word
				return nil
			})
			if err != nil {
				t.Errorf("%s %s: %v", c.t, name, err)
			}
		}
	}
}

// TestReductionsReadEverythingOnce sweeps rows and columns.
func TestReductionsReadEverythingOnce(t *testing.T) {
	r := rng.New(rng.NewPCG(3, 4))
	seen := map[string]int{}
	n := 150
	if testing.Short() {
		n = 40
	}
	for range n {
		abc := []int{1 + r.IntN(4), []int{1, 5, 33, 64, 129, 300}[r.IntN(6)], []int{1, 2, 4, 6, 8, 16, 31, 32, 33, 64, 100, 256, 513}[r.IntN(13)]}
		dims := []int{0, 2}
		if r.IntN(2) == 0 {
			dims = []int{1}
		}
		types := []hlo.Type{hlo.F32, hlo.BF16, hlo.S8, hlo.F64}
		s := hlo.Array(types[r.IntN(len(types))], abc...)
		k := Reduce(s, dims, WidthsOf(s.Type), device(t))
		seen[k.Emitter]++
		if k.Emitter != LoopEmitter {
			bijective(t, fmt.Sprint(s, dims), k)
		}
	}
	for _, e := range []string{RowEmitter, MultiRowEmitter, ColumnEmitter, SmallColumnEmitter, LoopEmitter} {
		if seen[e] == 0 {
			t.Errorf("the sample holds no %s: %v", e, seen)
		}
	}
}

func TestLoops(t *testing.T) {
	d := device(t)
	for _, s := range []hlo.Shape{hlo.Array(hlo.F32), hlo.Array(hlo.S4, 7), hlo.Array(hlo.F32, 3, 5, 7), hlo.Array(hlo.BF16, 600, 512),
		{Type: hlo.F32, Dims: []int{6, 10, 4}, Layout: []int{0, 2, 1}}} {
		bijective(t, s.String(), Loop(s, true, d))
	}
	k := Loop(hlo.Array(hlo.S8, 1<<20, 1<<20), false, d)
	if k.Blocks[1] < 2 || k.Blocks[0] > ir.MostBlocks(0) {
		t.Errorf("a grid of %v", k.Blocks)
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		n, k1, k2 int
	}{{50021, 126, 397}, {50048, 128, 391}, {65536, 256, 256}, {98304, 256, 384}, {73984, 289, 256}, {19739, 140, 141}} {
		s := SplitReduction(hlo.Array(hlo.F32, c.n), []int{0})
		if fmt.Sprint(s.Reshaped) != fmt.Sprint([]int{c.k1, c.k2}) {
			t.Errorf("%d becomes %v, want [%d %d]", c.n, s.Reshaped, c.k1, c.k2)
		}
	}
	if s := SplitReduction(hlo.Array(hlo.F32, 10303, 8), []int{0}); fmt.Sprint(s.Reshaped) != "[64 161 8]" {
		t.Errorf("10303 becomes %v", s.Reshaped)
	}
	// Rows that one thread each reduces stay whole, however many there are.
	for minor, action := range map[int]string{30: "none", 6: "none", 8: "minor_first", 32: "minor_first"} {
		if s := SplitReduction(hlo.Array(hlo.F32, 100, 2, minor), []int{0, 2}); s.Action != action {
			t.Errorf("rows of %d: %s, not %s", minor, s.Action, action)
		}
	}
}

// TestIndexBits: 32 bits up to 2^31 elements.
func TestIndexBits(t *testing.T) {
	for _, c := range []struct{ n, bits int }{{1 << 31, 32}, {1<<31 + 1, 64}} {
		b := hlo.NewBuilder("x")
		m, err := b.Done(b.Elementwise(hlo.Negate, b.Param(hlo.Array(hlo.F32, c.n))))
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(m.Entry, device(t))
		if err != nil || p.Kernels[0].IndexBits != c.bits {
			t.Errorf("%d elements: %v %v", c.n, p, err)
		}
	}
}

// TestRandomFusions: every fusion has a plan, with numbers that a launch allows.
func TestRandomFusions(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 60
	}
	for seed := range n {
		m, err := rand.Fusion(uint64(seed), rand.Options{Elements: 4096})
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(m.Entry, device(t))
		if err != nil {
			t.Fatal(err)
		}
		k := p.Kernels[0]
		if k.Threads < 1 || k.Threads > 1024 || k.Blocks[0] < 1 || k.Emitter == "" || len(k.Steps) == 0 {
			t.Errorf("seed %d: %+v\n%s", seed, k, hlo.Format(m))
		}
	}
}

// TestSortedScatters: the numbers are those of XLA's tests of sorted indices (sorted_indices,
// sorted_indices_large, sorted_indices_small, sorted_unique_indices); each element of the
// updates and each index is read by one thread or warp.
func TestSortedScatters(t *testing.T) {
	d, err := FindDevice("rtx_a6000")
	if err != nil {
		t.Fatal(err)
	}
	text := func(operand, indices, update, attrs string, parts int) string {
		window, to := "1", "0"
		if parts == 2 {
			window, to = "1,2", "0,1"
		}
		return fmt.Sprintf("add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\nENTRY e {\n o = f32[%s] parameter(0)\n i = %s parameter(1)\n u = f32[%s] parameter(2)\n ROOT r = f32[%[1]s] scatter(o, i, u), update_window_dims={%[4]s}, inserted_window_dims={}, scatter_dims_to_operand_dims={%[5]s}, index_vector_dim=1, indices_are_sorted=true, to_apply=add%[6]s\n}",
			operand, indices, update, window, to, attrs)
	}
	for _, c := range []struct {
		name, text                  string
		run, indices, vector, loops int
		blocks                      int
	}{
		{"sorted", text("100", "s32[2008,1]", "2008,32", "", 1), 8, 4, 1, 1, 63},
		{"long windows", text("100", "s32[2008,1]", "2008,64", "", 1), 8, 4, 2, 1, 63},
		{"indices of 64 bits", text("100", "s64[2008,1]", "2008,64", "", 1), 6, 2, 2, 1, 84},
		{"windows of several turns", text("1000", "s32[4000,1]", "4000,396", "", 1), 8, 4, 4, 4, 125},
		{"index vectors of two", text("9,20", "s32[9000,2]", "9000,4,3", "", 2), 27, 1, 1, 1, 84},
		{"an index for each update", text("4000", "s32[2008,1]", "2008,32", "", 1), 1, 1, 1, 1, 502},
		{"few", text("100", "s32[200,1]", "200,32", "", 1), 0, 0, 1, 0, 50},
		{"unique", text("10000", "s32[10,1]", "10,32", ", unique_indices=true", 1), 0, 0, 1, 0, 3},
	} {
		p, err := Single(parse(t, c.text).Entry, d)
		if err != nil {
			t.Fatal(c.name, err)
		}
		k := p.Kernels[0]
		if got := []int{k.Run, k.IndexVector, k.Vector, k.Loop, k.Blocks[0]}; k.Emitter != ScatterEmitter || !slices.Equal(got, []int{c.run, c.indices, c.vector, c.loops, c.blocks}) {
			t.Errorf("%s: %s %v, not %v: %v", c.name, k.Emitter, got, c, k.Why)
		}
		bijective(t, c.name, k, "thread_to_update")
		if c.run == 0 {
			continue
		}
		// All lanes of a warp read the same indices.
		m, _ := k.Find("thread_to_index_row")
		one, err := affine.NewMap(m.Map.Dims, m.Map.Ranges, nil, m.Map.Results, append(slices.Clone(m.Map.Constraints), affine.Constraint{Expr: thread.Mod(num(32))}))
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Bijective(m.Dims); err != nil {
			t.Errorf("%s: indices: %v", c.name, err)
		}
	}
	// The map in XLA's sorted_indices_small.
	few, _ := affine.ParseMap("(th_x, th_y, th_z, bl_x, bl_y, bl_z) -> (bl_x * 4 + th_x / 32, th_x mod 32), domain: th_x in [0, 127], th_y in [0, 0], th_z in [0, 0], bl_x in [0, 49], bl_y in [0, 0], bl_z in [0, 0]")
	p, _ := Single(parse(t, text("100", "s32[200,1]", "200,32", "", 1)).Entry, d)
	if m, _ := p.Kernels[0].Find("thread_to_update"); affine.Same(m.Map, few) != nil {
		t.Errorf("few: %s", m.Map)
	}
}
