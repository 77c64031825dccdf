package notation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

func mustRead(t *testing.T, text string) Value {
	t.Helper()
	v, err := Read(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// The accumulator of m16n8k16 in every notation is one register layout.
func TestOneLayoutInAllNotations(t *testing.T) {
	want, err := layout.Parse("local(2, 1).spatial(8, 4).local(1, 2)")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ form, text string }{
		{Chain, "local(2, 1).spatial(8, 4).local(1, 2)"},
		{Chain, " ( local(2,1) * spatial(8,4) ) * local(1,2) "},
		{Chain, "local(2, 1).spatial(8, 4).local(1, 2) on 16x8"},
		{FourPart, "register_layout([16, 8], [2, 8, 4, 2], [1, 2], [0, 3])"},
		{CuTe, "((4,8),(2,2)):((32,1),(16,8)) on 16x8"},
		{CuTe, "((_4,_8),(_2,_2)):((_32,_1),(_16,_8)) on (16,8)"},
		{CuTe, "((4,8),(2,2)):((2@1,1@0),(1@1,8@0))"},
		{Linear, " - register=1 -> (0, 1)\n   register=2 -> (8, 0)\n - lane=1 -> (0, 2)\n   lane=2 -> (0, 4)\n   lane=4 -> (1, 0)\n   lane=8 -> (2, 0)\n   lane=16 -> (4, 0)\n - warp is a size 1 dimension\nwhere out dims are: [dim0 (size 16), dim1 (size 8)]"},
		{Linear, "acc: [T,W,R] -> [A,B]\nT: [[0,2],[0,4],[1,0],[2,0],[4,0]]\nW: []\nR: [[0,1],[8,0]]"},
		{Triton, "#ttg.linear<{register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [], block = []}>"},
		{Triton, "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}> on 16x8"},
		{Triton, "tensor<16x8xf32, #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>>"},
		{Triton, "NVMMADistributedLayout(version=[2, 0], warps_per_cta=[1, 1], instr_shape=[16, 8], cga_layout=[]) on 16x8"},
		{Triton, "gl.DistributedLinearLayout(reg_bases=[[0, 1], [8, 0]], lane_bases=[[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp_bases=[], block_bases=[], shape=[16, 8])"},
		{Atom, "mma.m16n8k16.f32.f16/C"},
		{Atom, "SM80_16x8x16_F32F16F16F32_TN/D"},
	} {
		v := mustRead(t, c.text)
		if v.Form() != c.form {
			t.Errorf("%s is recognised as %s, want %s", c.text, v.Form(), c.form)
		}
		got, err := v.Registers()
		if err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v", c.text, got, err)
		}
		for form, text := range map[string]string{
			Chain:    "local(2, 1).spatial(8, 4).local(1, 2)",
			FourPart: "register_layout([16, 8], [2, 8, 4, 2], [1, 2], [0, 3])",
			CuTe:     "((4,8),(2,2)):((32,1),(16,8)) on 16x8",
		} {
			if got, err := v.To(form); err != nil || got != text {
				t.Errorf("%s as %s is %s, %v", c.text, form, got, err)
			}
		}
	}
	if got, err := Convert("local(2, 1).spatial(8, 4).local(1, 2)", Triton); err != nil ||
		got != "#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [8, 4], warpsPerCTA = [1, 1], order = [1, 0]}> on 16x8" {
		t.Errorf("as Triton's: %s, %v", got, err)
	}
}

// checkRegisters writes a register layout in every form and reads it back.
func checkRegisters(t *testing.T, v Value) (said int) {
	t.Helper()
	want, err := v.Registers()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range v.Notations() {
		if n.Text == "" {
			if n.Reason == "" {
				t.Errorf("%s: no %s form and no reason", v.Text(), n.Form)
			}
			continue
		}
		said++
		back, err := Read(n.Text)
		if err != nil {
			t.Errorf("%s as %s is %s: %v", v.Text(), n.Form, n.Text, err)
			continue
		}
		if back.Form() != n.Form {
			t.Errorf("%s is recognised as %s, not %s", n.Text, back.Form(), n.Form)
		}
		got, err := back.Registers()
		if err != nil || !got.Equal(want) {
			t.Errorf("%s as %s is\n%s\nwhich reads back as %s, %v", want, n.Form, n.Text, got, err)
		}
		if n.Form == Linear && want.Threads()*want.Slots() <= 1<<14 {
			l, err := back.Linear()
			if err != nil {
				t.Fatal(err)
			}
			lanes := 1
			if d, ok := l.InDim(linear.Lane); ok {
				lanes = d.Size()
			}
			for thread := range want.Threads() {
				for slot := range want.Slots() {
					if got := l.Apply(slot, thread%lanes, thread/lanes, 0); !slices.Equal(got, want.Index(thread, slot)) {
						t.Fatalf("%s: thread %d slot %d is %v in linear form, %v in the layout", want, thread, slot, got, want.Index(thread, slot))
					}
				}
			}
		}
	}
	return said
}

// Every operand of the catalogue goes through every notation and back.
func TestCatalogueRoundTrips(t *testing.T) {
	seen := map[string]bool{}
	said := map[int]int{}
	for _, a := range arch.Atoms() {
		for _, o := range a.Operands {
			key := fmt.Sprint(a.Vendor, a.Vendor == "amd" && a.Lanes == 64, o.Layout.Key())
			if o.In == arch.Unspecified || seen[key] {
				continue
			}
			seen[key] = true
			if testing.Short() && len(seen)%5 != 0 {
				continue
			}
			said[checkRegisters(t, operandValue(a, o))]++
		}
	}
	t.Logf("%d layouts; by the number of forms that say them: %v", len(seen), said)
	if len(seen) < 200 {
		t.Errorf("only %d different layouts", len(seen))
	}
}

// Random chains, sizes of powers of two and others.
func TestChainsRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	atoms := []string{"local", "spatial", "column_local", "column_spatial"}
	for range 300 {
		rank := 1 + r.IntN(3)
		text := ""
		sizes := []int{1, 2, 4}
		if r.IntN(3) == 0 {
			sizes = []int{1, 2, 3}
		}
		for i := range 1 + r.IntN(4) {
			if i > 0 {
				text += "."
			}
			if r.IntN(5) == 0 {
				text += fmt.Sprintf("replicated(%snum_workers=2)", strings.Repeat("1, ", rank))
				continue
			}
			var args []string
			for range rank {
				args = append(args, fmt.Sprint(sizes[r.IntN(3)]))
			}
			text += atoms[r.IntN(len(atoms))] + "(" + strings.Join(args, ", ") + ")"
		}
		checkRegisters(t, mustRead(t, text))
	}
}

func TestMemoryRoundTrips(t *testing.T) {
	for _, c := range []struct {
		text string
		no   string // forms that cannot say it
	}{
		{"shared_row_major(8, 64)", ""},
		{"shared_column_major(8, 64)", ""},
		{"shared_row_major_swizzle([8, 64], 2)", ""},
		{"shared_row_major_swizzle([64, 32], 4)", ""},
		{"shared_row_major(8, 64).apply_swizzle(base=3, bits=3, shift=3)", ""},
		{"(8,64):(64,1)", ""},
		{"Sw<3,3,3> o (8,64):(64,1)", ""},
		{"Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)", ""},
		{"((2,4),8):((1,16),2)", ""},
		{"(8,64):(65,1)", "linear triton"},
		{"(8,64):(72,1)", "linear triton"},
		{"(6,10):(10,1)", "linear triton"},
		{"(4,8):(0,1)", "linear triton"},
		{"global_row_major(16, 32)", ""},
		{"global_strides([16, 32], [40, 1])", "linear triton"},
		{"#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}> on 64x64", ""},
		{"#ttg.swizzled_shared<{vec = 2, perPhase = 2, maxPhase = 4, order = [0, 1]}> on 64x64", ""},
		{"#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}> on 64x128", ""},
		{"#ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8}> on 64x64", ""},
		{"- offset=1 -> (0, 1)\n  offset=2 -> (1, 1)\nwhere out dims are: [dim0, dim1]", ""},
	} {
		v := mustRead(t, c.text)
		want, err := v.Memory()
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		for _, n := range v.Notations() {
			if strings.Contains(c.no, n.Form) != (n.Text == "") {
				t.Errorf("%s as %s is %q: %s", c.text, n.Form, n.Text, n.Reason)
			}
			if n.Text == "" {
				continue
			}
			back := mustRead(t, n.Text)
			got, err := back.Memory()
			if err != nil {
				t.Errorf("%s as %s is %s: %v", c.text, n.Form, n.Text, err)
				continue
			}
			if !slices.Equal(got.Shape(), want.Shape()) || !slices.Equal(got.Offsets(), want.Offsets()) {
				t.Errorf("%s as %s is\n%s\nwhich reads back as %s", c.text, n.Form, n.Text, got)
			}
		}
	}
}

func TestLanes(t *testing.T) {
	v := mustRead(t, "local(4, 1).spatial(2, 32).local(4, 1)")
	for lanes, want := range map[int]string{0: "threadsPerWarp = [1, 32], warpsPerCTA = [2, 1]", 64: "threadsPerWarp = [2, 32], warpsPerCTA = [1, 1]"} {
		got, err := v.WithLanes(lanes).To(Triton)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%d lanes: %s, %v", lanes, got, err)
		}
	}
	if _, err := v.WithLanes(48).Linear(); err == nil {
		t.Error("48 lanes are no power of two")
	}
}

// What a Triton programmer wants of a TMA layout: CuTe's atom of it.
func TestSwizzlesAcrossNotations(t *testing.T) {
	for _, c := range []struct{ text, form, want string }{
		{"#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}> on 8x64", CuTe, "Sw<3,3,3> o 0 o (8,64):(64,1)"},
		{"#ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 8}> on 8x32", CuTe, "Sw<1,4,3> o 0 o (8,32):(32,1)"},
		{"Sw<3,3,3> o (8,64):(64,1)", Triton, "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}> on 8x64"},
		{"Sw<2,3,3> o (64,32):(32,1)", Triton, "#ttg.swizzled_shared<{vec = 8, perPhase = 2, maxPhase = 4, order = [1, 0]}> on 64x32"},
		{"Swizzle<1, 0, 2>", Linear, " - offset=1 -> (1)\n   offset=2 -> (2)\n   offset=4 -> (5)\nwhere out dims are: [address (size 8)]"},
		{"Sw<1,0,2>", CuTe, "Sw<1,0,2>"},
		{"local(2, 1).spatial(8, 4).local(1, 2)", Chain, "local(2, 1).spatial(8, 4).local(1, 2)"},
		{"local(2, 2).spatial(8, 4).local(1, 2)", Triton, "#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [8, 4], warpsPerCTA = [1, 1], order = [1, 0]}> on 16x16"},
		{"column_local(2, 2).spatial(8, 4).local(1, 2)", Triton, "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}> on 16x16"},
		{"mma.m16n8k16.f32.f16/A", Triton, "#ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>, kWidth = 2}> on 16x16"},
		{"mma.m16n8k16.f32.f16/C", Triton, "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}> on 16x8"},
		{"cdna3/v_mfma_f32_32x32x8_f16/D", Triton, "#ttg.amd_mfma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [32, 32], isTransposed = false}> on 32x32"},
		{"x: [W, T, R] -> [A, B]\n[[2, 2]]\n[[0, 1], [1, 1]]\n[[0, 2]]", Triton, "#ttg.linear<{register = [[0, 2]], lane = [[0, 1], [1, 1]], warp = [[2, 2]], block = []}> on 4x4"},
		{"spatial(32, 4)", Triton, "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}> on 32x4"},
		{"#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}> on 64x32", Chain, "local(2, 2).spatial(32, 4).local(1, 4)"},
	} {
		if got, err := Convert(c.text, c.form); err != nil || got != c.want {
			t.Errorf("%s as %s is\n%s\nwant\n%s\n%v", c.text, c.form, got, c.want, err)
		}
	}
}

func TestReasons(t *testing.T) {
	for _, c := range []struct{ text, form, want string }{
		{"spatial(6, 4)", Linear, "size 6, which is not a power of two"},
		{"spatial(6, 4)", Triton, "not a power of two"},
		{"Sw<3,4,3>", Chain, "a swizzle alone has no chain form"},
		{"Sw<3,4,3>", Triton, "a swizzle alone is no encoding"},
		{"register_layout([4], [2, 2], [1, 0], [])", Chain, "no chain of factors counts so"},
		{"(8,64):(65,1)", Linear, "with carry"},
		{"(8,64):(128,1)", Linear, "there are holes"},
		{"(4,8):(0,1)", Linear, "two elements lie at one offset"},
		{"x: [a] -> [b]\n[[1]]", Chain, "counts neither registers nor threads"},
		{"x: [a] -> [b]\n[[1]]", Triton, "the layout maps a"},
		{"x: [R] -> [b, c]\n[[1, 1], [0, 1]]", Chain, "flips several bits of the index"},
		{"x: [R] -> [b]\n[[1], [0]]", CuTe, "replicates within a thread"},
		{"mma.m16n8k16.f32.f16", Chain, "choose one of mma.m16n8k16.f32.f16/A"},
		{"local(2)", "chian", "did you mean chain?"},
		{"tmemory_row_major(128, 64)", CuTe, "a layout of tensor memory holds no threads"},
	} {
		v := mustRead(t, c.text)
		if got, err := v.To(c.form); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %s is %q, %v; want %s", c.text, c.form, got, err, c.want)
		}
	}
	if _, err := mustRead(t, "(8,64):(64,1)").Registers(); err == nil || !strings.Contains(err.Error(), `"on 16x8"`) {
		t.Errorf("CuTe without a tile: %v", err)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "there is no layout in an empty text [Notation.E1]"},
		{"local(2,1).spatil(8,4)", "1:12: there is no layout function spatil [Layout.E2]\n\thelp: did you mean spatial?"},
		{"spatil(8,4)", "did you mean spatial?"},
		{"mma.m16n8k16.f32.f61", "did you mean mma.m16n8k16.f32.f16?"},
		{"mma.m16n8k16.f32.f16/X", "its operands are A, B, C, D"},
		{"spatial", "neither an instruction of the catalogue nor a layout"},
		{"(8,4):(4", "1:9:"},
		{"shared_row_major(8", "Layout.E1"},
		{"shared_row_majr(8)", "did you mean shared_row_major?"},
		{"((4,8),(2,2)):((32,1),(16,8)) on 16x16", "does not cover"},
		{"local(2, 1) on 2x2", "the layout has shape 2x1, not 2x2 [Notation.E3]"},
		{"Sw<3,4,3> o (8,64):(64,1) on 8x64", "has no swizzle"},
		{"#ttg.blocked<{sizePerThread = [1]}>", "needs the shape of the tensor"},
		{"Sw<3,4,1>", "overlap"},
		{"BlokedLayout([1], [32], [4], [0])", "did you mean BlockedLayout?"},
		{"BlockedLayout([1], [32], [4], ordr=[0]) on 128", "1:31: BlockedLayout has no parameter ordr"},
		{"%%", "1:1:"},
		{"(d0, d1) -> (d0 * 3 + d1)", "looks like an indexing map"},
		{" (d0)[s0] -> (d0)", "looks like an indexing map"},
		{strings.Repeat("x", MaxText+1), "Notation.E2"},
	} {
		_, err := Read(c.text)
		if err == nil {
			t.Errorf("%.40q is read", c.text)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v\nwant %s", c.text, err, c.want)
		}
	}
	if _, err := ReadOn("local(2) on 2", []int{4}); err == nil {
		t.Error("two shapes that differ must be an error")
	}
	if v, err := ReadOn("((4,8),(2,2)):((32,1),(16,8))", []int{16, 8}); err != nil || v.What() != "register layout" {
		t.Errorf("a tile beside the text: %v", err)
	}
}

func TestRulesAreNumbered(t *testing.T) {
	for i, r := range Rules {
		if r.Code != fmt.Sprintf("Notation.E%d", i+1) {
			t.Errorf("rule %d is %s", i+1, r.Code)
		}
	}
	if int(eOpen) != len(Rules) {
		t.Errorf("%d rules, the last number is %d", len(Rules), eOpen)
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"local(2, 1).spatial(8, 4).local(1, 2)", "register_layout([4], [2, 2], [1, 0], [])", "((4,8),(2,2)):((32,1),(16,8)) on 16x8",
		"((4,8),(2,2)):((2@1,1@0),(1@1,8@0))", "Sw<3,3,3> o (8,64):(64,1)", "Sw<3,4,3>", "logical_divide((8,8),<4:1,2:1>)",
		" - register=1 -> (0, 1)\n - lane=1 -> (1, 0)\nwhere out dims are: [dim0 (size 2), dim1 (size 2)]",
		"x: [T] -> [A]\nT: [[1]]", "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}> on 64x32",
		"#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}> on 64x64",
		"tensor<16x8xf32, #ttg.linear<{register = [[0, 1]]}>>", "shared_row_major_swizzle([8, 64], 2)", "global_strides([16, 32], [40, 1])",
		"SliceLayout(1, parent=BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])) on 64", "tmemory_row_major(128, 64)", "mma.m16n8k16.f32.f16/A", "mma.m16n8k16.f32.f61", "local(2) on []",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Read(text)
		if err != nil {
			return
		}
		for _, part := range v.Parts() {
			for _, n := range part.Notations() {
				if (n.Text == "") == (n.Reason == "") {
					t.Fatalf("%q as %s is %q, because %q", text, n.Form, n.Text, n.Reason)
				}
				if n.Text == "" || len(n.Text) > layout.MaxText {
					continue
				}
				back, err := Read(n.Text)
				if err != nil {
					t.Fatalf("%q as %s is %q: %v", text, n.Form, n.Text, err)
				}
				if want, err := part.Registers(); err == nil && part.kind == registers {
					if got, err := back.Registers(); err != nil || !got.Equal(want) {
						t.Fatalf("%q as %s is %q, which is %s: %v", text, n.Form, n.Text, got, err)
					}
				}
			}
		}
	})
}

// What an operation computes is a number; a list that is written out is a shape.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"size((4,8):(8,1))", "32"},
		{"rank((4,(2,4)))", "2"},
		{"idx2crd(37,(4,8))", "(1,9)"},
		{"coshape((4,8):(1@0,1@1))", "(4,8)"},
		{"crd2idx((1,2),(4,8):(8,1))", "10"},
	} {
		v, err := Read(c.text)
		if err != nil {
			t.Fatal(err)
		}
		n, ok := v.Number()
		if !ok || n.String() != c.want {
			t.Errorf("%s is %v %s %s, want %s", c.text, ok, v.What(), n, c.want)
		}
		if _, err := v.To(Chain); err == nil {
			t.Errorf("%s has a chain form", c.text)
		}
	}
	v, err := Read("(4,8)")
	if _, ok := v.Number(); err != nil || ok {
		t.Errorf("(4,8) is no layout: %v", err)
	}
}
