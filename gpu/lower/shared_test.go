package lower_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/gpu/lower/shared"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// sharedOps counts the instructions on shared memory by name.
func sharedOps(f *code.Func) map[string]int {
	n := map[string]int{}
	f.Body.Walk(func(in *code.Instr) {
		if in.Row().Space == code.Shared || strings.HasPrefix(in.Op.String(), "cp.async") || in.Op == code.OpCheck {
			n[in.Op.String()]++
		}
	})
	return n
}

func lowerFor(t *testing.T, p *ir.Program, target string, divisible map[string]int64) (*code.Func, error) {
	t.Helper()
	a, err := arch.Lookup(target)
	if err != nil {
		t.Fatal(err)
	}
	return lower.Lower(p, lower.Options{Arch: a, Divisible: divisible})
}

// TestSharedAccesses holds the accesses that a tile's layout and place allow.
func TestSharedAccesses(t *testing.T) {
	const mma = "column_local(2, 2).spatial(8, 4).local(1, 2)"
	for _, c := range []struct {
		elem, shared, offset, register string
		target                         string
		load, store                    map[string]int
	}{
		{"f16", "shared_row_major(16, 16)", "0, 0", "spatial(16, 2).local(1, 8)", "sm_80", map[string]int{"ld.shared.v4.b32": 1}, map[string]int{"st.shared.v4.b32": 1}},
		{"f16", "shared_layout([16, 16], [16, 16], [20, 1])", "0, 0", "spatial(16, 2).local(1, 8)", "sm_80", map[string]int{"ld.shared.v2.b32": 2}, map[string]int{"st.shared.v2.b32": 2}},
		{"f16", "shared_row_major(16, 16)", "0, 0", mma, "sm_80", map[string]int{"ldmatrix.m8n8.x4.b16": 1}, map[string]int{"st.shared.b32": 4}},
		{"f16", "shared_row_major(16, 16)", "0, 0", mma, "sm_90", map[string]int{"ldmatrix.m8n8.x4.b16": 1}, map[string]int{"stmatrix.m8n8.x4.b16": 1}},
		{"f16", "shared_column_major(16, 16)", "0, 0", mma, "sm_90", map[string]int{"ldmatrix.m8n8.x4.trans.b16": 1}, map[string]int{"stmatrix.m8n8.x4.trans.b16": 1}},
		{"f16", "shared_row_major(32, 64).apply_swizzle(base=3, bits=3, shift=3)", "16*k, 16*k", mma, "sm_80", map[string]int{"ldmatrix.m8n8.x4.b16": 1}, map[string]int{"st.shared.b32": 4}},
		{"f16", "shared_row_major(32, 64).apply_swizzle(base=3, bits=3, shift=3)", "16*k, 4*k", mma, "sm_80", map[string]int{"ld.shared.b32": 4}, map[string]int{"st.shared.b32": 4}},
		{"f16", "shared_row_major(32, 64)", "0, k", mma, "sm_80", map[string]int{"ld.shared.b16": 8}, map[string]int{"st.shared.b16": 8}},
		{"f16", "shared_row_major(16, 64)", "0, n", "local(2, 1).column_spatial(4, 8).local(2, 1)", "sm_80", map[string]int{"check": 1, "ld.shared.b16": 4}, map[string]int{"check": 1, "st.shared.b16": 4}},
		{"f16", "shared_row_major(16, 8)", "0, 0", "local(2, 1).column_spatial(4, 8).local(2, 1)", "sm_80", map[string]int{"ldmatrix.m8n8.x2.trans.b16": 1}, map[string]int{"st.shared.b16": 4}},
		{"f16", "shared_row_major(8, 8)", "0, 0", "spatial(8, 4).local(1, 2)", "sm_80", map[string]int{"ldmatrix.m8n8.x1.b16": 1}, map[string]int{"st.shared.b32": 1}},
		{"u8", "shared_row_major(16, 32)", "0, 0", "column_local(2, 2).spatial(8, 4).local(1, 4)", "sm_80", map[string]int{"ldmatrix.m8n8.x4.b16": 1}, map[string]int{"st.shared.b32": 4}},
		{"f32", "shared_row_major(8, 4)", "0, 0", "spatial(8, 4)", "sm_80", map[string]int{"ldmatrix.m8n8.x1.b16": 1}, map[string]int{"st.shared.b32": 1}},
		{"u4", "shared_row_major(16, 32)", "0, 0", "spatial(16, 2).local(1, 16)", "sm_80", map[string]int{"ld.shared.v2.b32": 1}, map[string]int{"st.shared.v2.b32": 1}},
		{"i6", "shared_row_major(32, 16)", "0, 0", "spatial(32, 1).local(1, 16)", "sm_80", map[string]int{"ld.shared.b32": 3}, map[string]int{"st.shared.b32": 3}},
	} {
		reg := func() string {
			p := parse(t, "program p<1>() warps=1 {\n\tx = AllocateRegister(init=0) : register "+c.elem+shapeOf(t, c.register)+" "+c.register+"\n}\n")
			return p.Body.Stmts[0].(*ir.Instr).Out[0].Type.String()
		}()
		shape := c.shared[strings.IndexAny(c.shared, "([")+1:]
		shape = strings.Trim(shape[:strings.IndexAny(shape, ")]")], "[")
		head := fmt.Sprintf("program p<1>(n: i32) warps=1 {\n\ts = AllocateShared() : shared %s[%s] %s\n\tx = AllocateRegister(init=0) : %s\n\tfor k in 0..2 {\n", c.elem, shape, c.shared, reg)
		for _, way := range []struct {
			line string
			want map[string]int
		}{
			{fmt.Sprintf("\t\ty = LoadShared(s, offset=[%s]) : %s\n", c.offset, reg), c.load},
			{fmt.Sprintf("\t\tStoreShared(s, x, offset=[%s])\n", c.offset), c.store},
		} {
			f, err := lowerFor(t, parse(t, head+way.line+"\t}\n}\n"), c.target, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := sharedOps(f); !maps.Equal(got, way.want) {
				t.Errorf("%s as %s for %s:%s\tgot %v, want %v", c.shared, c.register, c.target, way.line, got, way.want)
			}
		}
	}
}

// shapeOf is the shape of a register layout in brackets.
func shapeOf(t *testing.T, register string) string {
	t.Helper()
	l, err := layout.Parse(register)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(fmt.Sprint(l.Shape()), " ", ", ")
}

// TestCopies holds what becomes of CopyAsync.
func TestCopies(t *testing.T) {
	for _, c := range []struct {
		elem, shared, global, offset, attrs string
		divisible                           map[string]int64
		want                                map[string]int
	}{
		{"f16", "64, 32", "64, 32", "0, 0", "", nil, map[string]int{"cp.async.cg.16": 2}},
		{"f16", "64, 32", "64, 32", "0, 0", ", keep=l1", nil, map[string]int{"cp.async.ca.16": 2}},
		{"f16", "64, 32", "n, m", "0, 0", "", map[string]int64{"m": 8}, map[string]int{"cp.async.cg.16": 2}},
		{"f16", "64, 32", "n, m", "n, 4", "", map[string]int64{"m": 8}, map[string]int{"cp.async.ca.8": 4}},
		{"f16", "64, 32", "n, m", "0, 0", "", map[string]int64{"m": 2}, map[string]int{"cp.async.ca.4": 8}},
		{"f16", "64, 32", "n, m", "0, 0", "", nil, map[string]int{"st.shared.b16": 16}},
		{"u8", "96", "n", "0", "", map[string]int64{"n": 32}, map[string]int{"cp.async.cg.16": 1}},
		{"u8", "2, 4, 96", "n, m, 96", "n, n, 0", "", nil, map[string]int{"cp.async.cg.16": 1}},
		{"f32", "32, 16", "n, m, 8", "0, 0, 3", ", dims=[0, 1]", nil, map[string]int{"cp.async.ca.4": 4}},
		{"u4", "16, 32", "n, 64", "0, 0", "", nil, map[string]int{"cp.async.cg.16": 1}},
	} {
		src := fmt.Sprintf("program p<1>(a: *%[1]s, n: i32, m: i32) warps=4 {\n\tg = ViewGlobal(a) : global %[1]s[%[3]s]\n\ts = AllocateShared() : shared %[1]s[%[2]s] shared_row_major(%[2]s)\n\tCopyAsync(g, s, offset=[%[4]s]%[5]s)\n}\n", c.elem, c.shared, c.global, c.offset, c.attrs)
		f, err := lowerFor(t, parse(t, src), "sm_80", c.divisible)
		if err != nil {
			t.Fatal(err)
		}
		if got := sharedOps(f); !maps.Equal(got, c.want) {
			t.Errorf("%s\tgot %v, want %v", src, got, c.want)
		}
	}
}

// TestConflicts counts bank conflicts of transpositions and products: what padding
// and swizzles are for.
func TestConflicts(t *testing.T) {
	run := func(name string, args ...ir.Arg) (wavefronts, ideal int64) {
		s := agree(t, parse(t, corpus.Program(name)), map[string]int64{"M": 32, "N": 32, "K": 32}, args)
		return s.SharedWavefronts, s.SharedIdeal
	}
	transpose := []ir.Arg{arg(t, "randint:f32[32, 32]:seed=1"), arg(t, "zeros:f32[32, 32]"), {Int: 32}, {Int: 32}}
	product := []ir.Arg{arg(t, "randint:f16[64, 64]:seed=1"), arg(t, "randint:f16[64, 64]:seed=2"), arg(t, "zeros:f16[64, 64]"), {Int: 64}, {Int: 64}, {Int: 64}}
	for _, c := range []struct {
		name      string
		args      []ir.Arg
		conflicts bool
	}{
		{"transpose_shared", transpose, true}, {"transpose_padded", transpose, false}, {"transpose_swizzled", transpose, false},
		{"matmul_shared", product, true}, {"matmul_swizzled", product, false},
	} {
		n, ideal := run(c.name, c.args...)
		if (n > ideal) != c.conflicts {
			t.Errorf("%s: %d wavefronts, ideal are %d", c.name, n, ideal)
		}
		if c.name == "transpose_shared" && n != 32+32*32 {
			t.Errorf("%d wavefronts of a transposition without padding", n)
		}
	}
}

// TestSharedRefusals holds what lowering refuses, and where.
func TestSharedRefusals(t *testing.T) {
	for _, c := range []struct {
		src, target, code string
		line              int
	}{
		{"\ts = AllocateShared() : shared f16[1024, 100] shared_row_major(1024, 100)", "sm_89", "Lower.E7", 2},
		{"\ts = AllocateShared() : shared f16[1024, 100] shared_row_major(1024, 100)", "sm_90a", "", 0},
		{"\ts = AllocateShared() : shared f16[1024, 100] shared_row_major(1024, 100)", "sm_90", "Lower.E7", 2}, // which GPUs of capability 12 run
		{"\ts = AllocateShared() : shared f16[1024, 40] shared_row_major(1024, 40)\n\tFreeShared(s)\n\tu = AllocateShared() : shared f16[1024, 40] shared_row_major(1024, 40)", "sm_89", "", 0},
		{"\ts = AllocateShared() : shared f16[1024, 40] shared_row_major(1024, 40)\n\tu = AllocateShared() : shared f16[1024, 40] shared_row_major(1024, 40)", "sm_89", "Lower.E7", 3},
		{"\tfor k in 0..n {\n\t\ts = AllocateShared() : shared f16[1024, 40] shared_row_major(1024, 40)\n\t}\n\tu = AllocateShared() : shared f16[1024, 40] shared_row_major(1024, 40)", "sm_89", "", 0},
		{"\ts = AllocateShared() : shared f16[8, 128] shared_row_major_swizzle([8, 128], 2)\n\tv = SliceShared(s, offset=[0, n]) : shared f16[8, 64] shared_row_major(8, 64).apply_swizzle(base=3, bits=3, shift=3)", "sm_80", "Lower.E8", 3},
		{"\ts = AllocateShared() : shared f16[8, 128] shared_row_major_swizzle([8, 128], 2)\n\tv = SliceShared(s, offset=[0, n*64]) : shared f16[8, 64] shared_row_major(8, 64).apply_swizzle(base=3, bits=3, shift=3)", "sm_80", "", 0},
		{"\ts = AllocateShared() : shared u4[64] shared_row_major(64)\n\tx = LoadShared(s) : register u4[64] local(2).spatial(32)", "sm_80", "Lower.E9", 3},
		{"\ts = AllocateShared() : shared u3[96] shared_row_major(96)\n\tx = AllocateRegister(init=0) : register u3[96] spatial(32).local(3)\n\tStoreShared(s, x)", "sm_80", "Lower.E9", 4},
	} {
		f, err := lowerFor(t, parse(t, "program p<1>(n: i32) warps=1 {\n"+c.src+"\n}\n"), c.target, nil)
		var list diag.List
		switch {
		case c.code == "" && err != nil:
			t.Errorf("%s: %v", c.src, err)
		case c.code == "" && strings.Count(c.src, "Allocate") == 2 && f.Launch.SharedBytes != 1024*40*2:
			t.Errorf("%s: %d bytes", c.src, f.Launch.SharedBytes)
		case c.code != "" && (!errors.As(err, &list) || list[0].Code != c.code || list[0].Pos.Line != c.line):
			t.Errorf("%s for %s: want %s in line %d, got %v", c.src, c.target, c.code, c.line, err)
		}
	}
}

// TestResident has blocks of a multiprocessor as many as the program says; without a word, so many
// as fit where tensor copies fill shared memory, else none.
func TestResident(t *testing.T) {
	for head, want := range map[string]int{"warps=2 ": 0, "warps=2 resident=7 ": 7} {
		p := parse(t, `program p<1>(a: *i32) `+head+`{
	ga = ViewGlobal(a) : global i32[64]
	x = LoadGlobal(ga, offset=[0]) : register i32[64] spatial(64)
	StoreGlobal(ga, x, offset=[0])
}
`)
		if f := lowered(t, ir.Clone(p), nil); f.Launch.MinBlocks != want {
			t.Errorf("%s: %d blocks", head, f.Launch.MinBlocks)
		}
		again, err := text.Parse("resident.tile", text.Format(p), nil)
		if err != nil || again.Resident != want || !strings.Contains(text.Format(p), head+"{") {
			t.Errorf("%s: %v, printed as\n%s", head, err, text.Format(p))
		}
	}
	for copies, want := range map[string]int{"resident=2 ": 2, "": 3} {
		p := parse(t, `program p<1>(a: *f16, n: i32) warps=1 `+copies+`{
	ga = ViewGlobal(a) : global f16[n, 64]
	s = AllocateShared() : shared f16[512, 64] shared_row_major(512, 64)
	full = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)
	Synchronize()
	group(0, 1) {
		ArriveExpectTxBarrier(full, 0, bytes=65536)
		CopyAsyncTensorGlobalToShared(ga, s, full, 0, offset=[0, 0])
	}
	WaitBarrier(full, 0)
}
`)
		if f := lowered(t, p, nil); f.Launch.MinBlocks != want {
			t.Errorf("%s, %d bytes: %d blocks", copies, f.Launch.SharedBytes, f.Launch.MinBlocks)
		}
	}
}

// TestTilesBesideScratch has the program's tiles and what single instructions need
// for themselves in shared memory at the same time.
func TestTilesBesideScratch(t *testing.T) {
	p := parse(t, `program p<1>(a: *i32, c: *i32, counter: *i32) warps=2 {
	ga = ViewGlobal(a) : global i32[64]
	gc = ViewGlobal(c) : global i32[64]
	gn = ViewGlobal(counter) : global i32[1]
	s = AllocateShared() : shared i32[64] shared_row_major(64)
	x = LoadGlobal(ga, offset=[0]) : register i32[64] spatial(64)
	StoreShared(s, x)
	n = AtomicScalar(gn, 7, offset=[0], op=add)
	Synchronize()
	y = LoadShared(s, offset=[0]) : register i32[64] spatial(64)
	z = Mul(y, n) : register i32[64] spatial(64)
	StoreGlobal(gc, z, offset=[0])
}
`)
	agree(t, p, nil, []ir.Arg{arg(t, "randint:i32[64]:seed=1"), arg(t, "zeros:i32[64]"), arg(t, "const=3:i32[1]")})
	if f := lowered(t, p, nil); f.Launch.SharedBytes != shared.Align+256 {
		t.Errorf("%d bytes of shared memory", f.Launch.SharedBytes)
	}
}

// TestAtomicsOfHalvesWords changes 16-bit elements whose neighbours in the word nobody
// has written.
func TestAtomicsOfHalvesWords(t *testing.T) {
	for _, c := range []struct{ elem, op string }{{"f16", "add"}, {"bf16", "max"}, {"f16", "exch"}} {
		p := parse(t, strings.ReplaceAll(`program p<1>(x: *ELEM, y: *ELEM) warps=1 {
	gx = ViewGlobal(x) : global ELEM[1]
	gy = ViewGlobal(y) : global ELEM[1]
	s = AllocateShared() : shared ELEM[2] shared_row_major(2)
	v = LoadGlobal(gx, offset=[0]) : register ELEM[1] replicated(1, num_workers=32)
	StoreShared(s, v, offset=[1])
	Synchronize()
	AtomicShared(s, v, offset=[1], op=`+c.op+`)
	Synchronize()
	r = LoadShared(s, offset=[1]) : register ELEM[1] replicated(1, num_workers=32)
	StoreGlobal(gy, r, offset=[0])
}`, "ELEM", c.elem))
		agree(t, p, nil, []ir.Arg{arg(t, "const=3:"+c.elem+"[1]"), arg(t, "zeros:"+c.elem+"[1]")})
	}
}
