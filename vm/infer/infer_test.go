package infer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// strip is the text of a program without its layouts.
func strip(p *ir.Program) string {
	p = ir.Clone(p)
	p.Body.Walk(func(s ir.Stmt) bool {
		if in, ok := s.(*ir.Instr); ok {
			for _, v := range in.Out {
				v.Type.HasLayout = false
			}
		}
		return true
	})
	return text.Format(p)
}

// What Tilus's own example writes by hand is what inference finds: the whole
// program, fragments, packed bytes and all.
func TestFindsWhatThePaperWrites(t *testing.T) {
	src := corpus.Program("matmul_f16_i6")
	want, err := text.Parse("matmul", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	bare := strip(want)
	if strings.Contains(bare, "spatial") {
		t.Fatalf("layouts are left:\n%s", bare)
	}
	got, trace, err := infer.Parse("matmul", bare, nil, compile.Layouts())
	if err != nil {
		t.Fatalf("%v\n%s", err, trace)
	}
	if text.Format(got) != text.Format(want) {
		t.Errorf("found:\n%s\nwritten:\n%s", text.Format(got), text.Format(want))
	}
	if !strings.Contains(trace.String(), "rb: local(3).spatial(32) by View (view)\n") {
		t.Errorf("trace:\n%s", trace)
	}
}

// Of every example program, layouts left out are found or what is missing is said
// at its place; what is found verifies, lowers, and prints as text that needs no inference.
func TestCompletesTheCorpus(t *testing.T) {
	done := 0
	for _, name := range corpus.Names() {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			continue // takes bindings
		}
		full := text.Format(p)
		q, trace, err := infer.Parse(name, strip(p), nil, compile.Layouts())
		if err != nil {
			var list diag.List
			if !errors.As(err, &list) || len(list) == 0 || slices.ContainsFunc(list, func(d diag.Problem) bool { return !d.Pos.Known() || d.Code == "" }) {
				t.Errorf("%s: %v", name, err)
			}
			t.Logf("%s: %v", name, err)
			continue
		}
		done++
		again, more, err := infer.Parse(name, text.Format(q), nil, compile.Layouts())
		if err != nil || len(more) != 0 || text.Format(again) != text.Format(q) {
			t.Errorf("%s: what was found does not read back: %v", name, err)
		}
		target := compile.DefaultArch
		if strings.Contains(full, "Tcgen05") || strings.Contains(full, "ClusterLaunchControl") {
			target = "sm_100a"
		}
		if _, err := compile.Program(q, compile.Options{Arch: target}); err != nil {
			t.Errorf("%s: what was found does not lower: %v", name, err)
		}
		if len(trace) == 0 && strings.Contains(full, "register") {
			t.Errorf("%s: no trace", name)
		}
	}
	if done < 8 {
		t.Errorf("only %d programs were completed", done)
	}
}

// Four warps share a product whose layouts are all inferred: operands that several
// warps hold, a row of scales that is broadcast. Interpreter and simulator agree with
// a plain loop.
func TestInferredProductRuns(t *testing.T) {
	p, _, err := infer.Parse("big.tile", `program big<M/64, N/64>(a: *f16, b: *f16, s: *f32, c: *f32, M: i32, N: i32, K: i32) warps=4 {
	bi, bj = BlockIndices()
	ga = ViewGlobal(a) : global f16[M, K]
	gb = ViewGlobal(b) : global f16[K, N]
	gs = ViewGlobal(s) : global f32[N]
	gc = ViewGlobal(c) : global f32[M, N]
	acc = AllocateRegister(init=0) : register f32[64, 64]
	for k in 0..K/16 {
		ra = LoadGlobal(ga, offset=[bi*64, k*16]) : register f16[64, 16]
		rb = LoadGlobal(gb, offset=[k*16, bj*64]) : register f16[16, 64]
		acc = Dot(ra, rb, acc) : register f32[64, 64]
	}
	rs = LoadGlobal(gs, offset=[bj*64]) : register f32[64]
	out = Mul(acc, rs) : register f32[64, 64]
	StoreGlobal(gc, out, offset=[bi*64, bj*64])
}
`, nil, compile.Layouts())
	if err != nil {
		t.Fatal(err)
	}
	const m, n, k = 64, 128, 32
	make := func(spec string) *array.Array {
		a, err := array.Generate(spec)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, b, s := make("randint:f16[64,32]:seed=1"), make("randint:f16[32,128]:seed=2"), make("randint:f32[128]:seed=3")
	args := []ir.Arg{{Array: a}, {Array: b}, {Array: s}, {Array: make("zeros:f32[64,128]")}, {Int: m}, {Int: n}, {Int: k}}
	for _, name := range []string{"interp", "sim"} {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Run(t.Context(), p, args)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range m {
			for j := range n {
				want := 0.0
				for x := range k {
					want += a.At(i, x) * b.At(x, j)
				}
				if got := r.Args[3].Array.At(i, j); got != want*s.At(j) {
					t.Fatalf("%s: c[%d, %d] is %v, want %v", name, i, j, got, want*s.At(j))
				}
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStuckSaysWhere(t *testing.T) {
	_, trace, err := infer.Parse("x.tile", `program p<1>(a: *i32) warps=1 {
	x = AllocateRegister(init=0) : register i32[65537]
	ga = ViewGlobal(a) : global i32[64]
	y = LoadGlobal(ga, offset=[0]) : register i32[64]
	z = Add(y, 1) : register i32[64] spatial(64)
	StoreGlobal(ga, z, offset=[0])
}
`, nil, compile.Layouts())
	if err == nil {
		t.Fatalf("no error; trace:\n%s", trace)
	}
	for _, want := range []string{"x.tile:2:", "no layout of x, i32 [65537], follows from AllocateRegister [Infer.E1]", "help: write its layout", "[Type.C2]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "Type.C4") {
		t.Errorf("says twice that a layout is missing: %v", err)
	}
	// Other mistakes are reported as ever.
	if _, _, err := infer.Parse("x.tile", "program p<1>(a: *i32) warps=1 {\n\tx = AllocateRegister(init=0) : register i32[32]\n\ty = Nothing(x) : register i32[32]\n}\n", nil, compile.Layouts()); err == nil || !strings.Contains(err.Error(), "Text.E3") {
		t.Errorf("%v", err)
	}
}

// A graph with shared memory: a load that is stored swizzled, and read as ldmatrix
// leaves it for a product.
func TestSharedMemory(t *testing.T) {
	tile := func(name string, s infer.Space, e dtype.Type, shape ...int) *infer.Tile {
		return &infer.Tile{Name: name, Space: s, Elem: e, Shape: shape}
	}
	ga := tile("ga", infer.Global, dtype.F16)
	ra := tile("ra", infer.Register, dtype.F16, 64, 16)
	stages := tile("stages", infer.Shared, dtype.F16, 3, 64, 16)
	sa := tile("sa", infer.Shared, dtype.F16, 64, 16)
	a := tile("a", infer.Register, dtype.F16, 64, 16)
	b := tile("b", infer.Register, dtype.F16, 16, 64)
	c := tile("c", infer.Register, dtype.F32, 64, 64)
	cs := tile("cs", infer.Shared, dtype.F32, 64, 64)
	g := &infer.Graph{Warps: 4, Target: compile.Layouts(), Instrs: []*infer.Instr{
		{Op: "AllocateShared", Out: []*infer.Tile{stages}},
		{Op: "SliceShared", In: []*infer.Tile{stages}, Out: []*infer.Tile{sa}},
		{Op: "LoadGlobal", In: []*infer.Tile{ga}, Out: []*infer.Tile{ra}, Along: 1, Vector: 64},
		{Op: "StoreShared", In: []*infer.Tile{sa, ra}},
		{Op: "LoadShared", In: []*infer.Tile{sa}, Out: []*infer.Tile{a}},
		{Op: "Dot", In: []*infer.Tile{a, b, c}, Out: []*infer.Tile{c}},
		{Op: "StoreShared", In: []*infer.Tile{cs, c}},
		{Op: "AllocateShared", Out: []*infer.Tile{cs}},
	}}
	trace, err := g.Infer()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		tile *infer.Tile
		text string
	}{
		{ra, "spatial(64, 2).local(1, 8)"},
		{sa, "shared_row_major(64, 16).apply_swizzle(base=3, bits=1, shift=3)"},
		{stages, "shared_row_major(3, 64, 16).apply_swizzle(base=3, bits=1, shift=3)"},
		{cs, "shared_row_major(64, 64)"}, // f32 pairs are no rows of ldmatrix
	} {
		if want.tile.Layout() != want.text {
			t.Errorf("%s is %s, want %s\n%s", want.tile.Name, want.tile.Layout(), want.text, trace)
		}
	}
	if len(trace) != 7 {
		t.Errorf("%d steps:\n%s", len(trace), trace)
	}
}

// The largest program with the least favourable order takes little time.
func TestLongProgramsAreQuick(t *testing.T) {
	var b strings.Builder
	b.WriteString("program p<1>(a: *f32) warps=1 {\n\tx0 = AllocateRegister(init=0) : register f32[32]\n")
	n := infer.MaxInstrs - 2
	for i := range n {
		fmt.Fprintf(&b, "\tx%d = Add(x%d, 1.0) : register f32[32]\n", i+1, i)
	}
	fmt.Fprintf(&b, "\ty = Add(x%d, 1.0) : register f32[32] spatial(32)\n}\n", n)
	start := time.Now()
	_, trace, err := infer.Parse("long", b.String(), nil, compile.Layouts())
	if err != nil || len(trace) != n+1 {
		t.Fatalf("%d steps: %v", len(trace), err)
	}
	if d := time.Since(start); d > 8*time.Second {
		t.Errorf("took %v", d)
	}
}

// Registers that nothing else decides are read in vectors, along the dimension that is
// contiguous in shared memory.
func TestLoadSharedFollowsMemory(t *testing.T) {
	for _, c := range []struct{ shared, want string }{
		{"shared_row_major(4, 256)", "spatial(4, 32).local(1, 8)"},
		{"shared_column_major(256, 4)", "spatial(32, 4).local(8, 1)"},
		{"shared_layout([4, 256], [4, 256], [260, 1])", "local(2, 1).spatial(2, 64).local(1, 4)"}, // rows begin at multiples of 4
		{"shared_row_major(4, 256).apply_swizzle(base=1, bits=2, shift=3)", "spatial(1, 128).local(4, 2)"},
		{"shared_row_major(128)", "spatial(128)"},
		{"shared_row_major(3, 3)", "replicated(3, 3, num_workers=128)"}, // 9 elements do not spread over 128 threads
		{"shared_row_major(3, 12)", "replicated(3, 3, num_workers=32).spatial(1, 4)"},
		{"shared_row_major(257, 3)", ""}, // too many for each thread
	} {
		l, err := layout.ParseShared(c.shared)
		if err != nil {
			t.Fatal(err)
		}
		s := &infer.Tile{Name: "s", Space: infer.Shared, Elem: dtype.F16, Shape: l.Shape(), Known: true, Shared: l}
		r := &infer.Tile{Name: "r", Space: infer.Register, Elem: dtype.F16, Shape: l.Shape()}
		g := &infer.Graph{Warps: 4, Target: compile.Layouts(), Instrs: []*infer.Instr{{Op: "LoadShared", In: []*infer.Tile{s}, Out: []*infer.Tile{r}}}}
		_, err = g.Infer()
		if r.Layout() != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s is read as %s (%v), want %s", c.shared, r.Layout(), err, c.want)
		}
	}
}

// The split over warps covers the product, and no other split is cheaper.
func TestSpread(t *testing.T) {
	p := compile.Layouts().Products(dtype.F16, dtype.F32)[0]
	for _, c := range []struct{ m, n, k, warps int }{{16, 8, 16, 1}, {64, 64, 16, 4}, {32, 128, 16, 4}, {128, 64, 32, 8}, {96, 24, 48, 3}, {64, 8, 16, 4}} {
		s, err := infer.Spread(p, c.m, c.n, c.k, c.warps, 16, 32, 224)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.A.Shape(), []int{c.m, c.k}) || !slices.Equal(s.B.Shape(), []int{c.k, c.n}) || !slices.Equal(s.C.Shape(), []int{c.m, c.n}) {
			t.Errorf("%v: %v %v %v", c, s.A.Shape(), s.B.Shape(), s.C.Shape())
		}
		for _, l := range []layout.Layout{s.A, s.B, s.C} {
			if l.Threads() != 32*c.warps {
				t.Errorf("%v: %s has %d threads", c, l, l.Threads())
			}
		}
		if s.C.Replicas() != 1 || s.A.Replicas() != s.Warps[1] || s.B.Replicas() != s.Warps[0] {
			t.Errorf("%v: replicas %d %d %d of %v", c, s.A.Replicas(), s.B.Replicas(), s.C.Replicas(), s.Warps)
		}
	}
	for _, c := range []struct{ m, n, k, warps int }{{256, 128, 64, 4}, {8, 8, 16, 1}, {16, 8, 16, 2}, {16, 8, 8, 1}, {0, 8, 16, 1}, {1 << 30, 1 << 30, 16, 1}} {
		if s, err := infer.Spread(p, c.m, c.n, c.k, c.warps, 16, 32, 224); err == nil {
			t.Errorf("%v is split %v", c, s.Warps)
		}
	}
}

// Every rule has a name of its own and says what it does; every instruction of the
// table that makes a register tile is named by a rule, or makes one from nothing.
func TestRulesNameInstructions(t *testing.T) {
	seen, ops := map[string]bool{}, map[string]bool{infer.OpUnary: true}
	for _, r := range infer.Rules() {
		if seen[r.Name] || r.Doc == "" || len(r.Ops) == 0 {
			t.Errorf("rule %q: %q %v", r.Name, r.Doc, r.Ops)
		}
		seen[r.Name] = true
		for _, op := range r.Ops {
			ops[op] = true
		}
	}
	for _, op := range ir.Ops() {
		makes := slices.ContainsFunc(op.Out, func(p ir.Port) bool { return p.Accept == ir.AcceptRegister })
		if makes && len(op.In) > 0 && op.Class != ir.ClassElementwise && op.Name != "CastDeferred" && !ops[op.Name] {
			t.Errorf("no rule of layouts names %s; add it to vm/infer/rules.go", op.Name)
		}
	}
}

func FuzzInfer(f *testing.F) {
	for _, name := range corpus.Names() {
		if p, err := text.Parse(name, corpus.Program(name), nil); err == nil {
			f.Add(strip(p))
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		p, _, err := infer.Parse("f.tile", src, nil, compile.Layouts())
		if err != nil {
			return
		}
		q, more, err := infer.Parse("f.tile", text.Format(p), nil, compile.Layouts())
		if err != nil || len(more) > 0 || text.Format(q) != text.Format(p) {
			t.Fatalf("%q: does not read back: %v", src, err)
		}
	})
}
