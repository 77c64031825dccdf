package lower_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/gpu/opt"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func parse(t *testing.T, src string) *ir.Program {
	t.Helper()
	p, err := text.Parse("test.tile", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func lowered(t *testing.T, p *ir.Program, divisible map[string]int64) *code.Func {
	t.Helper()
	return loweredFor(t, "sm_80", p, divisible)
}

func loweredFor(t *testing.T, target string, p *ir.Program, divisible map[string]int64) *code.Func {
	t.Helper()
	a, err := arch.Lookup(target)
	if err != nil {
		t.Fatal(err)
	}
	f, err := lower.Lower(p, lower.Options{Arch: a, Divisible: divisible})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func arg(t *testing.T, spec string) ir.Arg {
	t.Helper()
	a, err := array.Generate(spec)
	if err != nil {
		t.Fatal(err)
	}
	return ir.Arg{Array: a}
}

// agree runs a program on the interpreter and, lowered, on the simulator and
// requires equal bytes in every array.
func agree(t *testing.T, p *ir.Program, divisible map[string]int64, args []ir.Arg) sim.Stats {
	t.Helper()
	return agreeOn(t, "sm_80", p, divisible, args)
}

func agreeOn(t *testing.T, target string, p *ir.Program, divisible map[string]int64, args []ir.Arg) sim.Stats {
	t.Helper()
	m, err := interp.New(p, args)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	f := loweredFor(t, target, p, divisible)
	in := make([]sim.Arg, len(args))
	for i, a := range args {
		if a.Array != nil {
			in[i].Buffer = append(append([]byte(nil), a.Array.Data...), make([]byte, 16)...)
		} else {
			in[i].Bits = uint64(a.Int)
		}
	}
	stats, err := sim.Run(context.Background(), f, sim.Launch{Grid: m.Grid(), Args: in}, sim.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, code.Format(f))
	}
	for i, a := range m.Args() {
		if a.Array == nil {
			continue
		}
		n := len(a.Array.Data)
		if !bytes.Equal(a.Array.Data, in[i].Buffer[:n]) {
			got := array.FromBytes(a.Array.Type, a.Array.Shape, in[i].Buffer[:n])
			t.Fatalf("argument %s: %v\ninterp %v\nsim %v\n%s", p.Params[i].Name, array.Compare(got, a.Array), a.Array, got, code.Format(f))
		}
		if extra := in[i].Buffer[n:]; !bytes.Equal(extra, make([]byte, 16)) {
			t.Fatalf("argument %s: bytes after the array changed: %v", p.Params[i].Name, extra)
		}
	}
	return stats
}

const matmul = `program matmul<(M + 15)/16, (N + 7)/8>(a: *f16, b: *u8, c: *%[2]s, M: i32, N: i32, K: i32) warps=1 {
	bi, bj = BlockIndices()
	ga = ViewGlobal(a) : global f16[M, K]
	gb = ViewGlobal(b) : global u8[K/16, (N + 7)/8, 96]
	gc = ViewGlobal(c) : global %[2]s[M, N]
	acc = AllocateRegister(init=0) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	for k in 0..K/16 %[1]s{
		ra = LoadGlobal(ga, offset=[bi*16, k*16]) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)
		rb = LoadGlobal(gb, offset=[k, bj, 0], dims=[2]) : register u8[96] local(3).spatial(32)
		rw = View(rb) : register i6[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
		rh = Cast(rw) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
		acc = Dot(ra, rh, acc) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	}
	%[3]s
}
`

func TestMatmul(t *testing.T) {
	outs := map[string]string{
		"f32": "StoreGlobal(gc, acc, offset=[bi*16, bj*8])",
		"f16": "out = Cast(acc) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)\n\tStoreGlobal(gc, out, offset=[bi*16, bj*8])",
	}
	for elem, store := range outs {
		for _, unroll := range []string{"", "unroll=1 ", "unroll=2 "} {
			p := parse(t, fmt.Sprintf(matmul, unroll, elem, store))
			for _, size := range [][3]int{{16, 8, 16}, {32, 24, 64}, {20, 12, 32}, {1, 8, 48}} {
				m, n, k := size[0], size[1], size[2]
				args := []ir.Arg{arg(t, fmt.Sprintf("randint:f16[%d, %d]:seed=1", m, k)), arg(t, fmt.Sprintf("randcode:u8[%d, %d, 96]:seed=2", k/16, (n+7)/8)),
					arg(t, fmt.Sprintf("zeros:%s[%d, %d]", elem, m, n)), {Int: int64(m)}, {Int: int64(n)}, {Int: int64(k)}}
				agree(t, p, nil, args)
				agree(t, p, map[string]int64{"M": int64(m & -m), "N": int64(n & -n), "K": int64(k & -k)}, args)
			}
		}
	}
}

// Real inputs round at every step, so they agree only if the simulator rounds
// where the interpreter does.
func TestMatmulOnReals(t *testing.T) {
	p := parse(t, fmt.Sprintf(matmul, "", "f32", "StoreGlobal(gc, acc, offset=[bi*16, bj*8])"))
	agree(t, p, nil, []ir.Arg{arg(t, "randn:f16[32, 128]:seed=5"), arg(t, "randcode:u8[8, 2, 96]:seed=6"), arg(t, "zeros:f32[32, 16]"), {Int: 32}, {Int: 16}, {Int: 128}})
}

func TestRearrange(t *testing.T) {
	for _, c := range []struct{ elem, from, to string }{
		{"i6", "[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)", "[96] local(3).spatial(32)"},
		{"u4", "[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)", "[64] spatial(32).local(2)"},
		{"f3e1m1", "[32, 8] local(4, 1).column_spatial(4, 8).local(2, 1)", "[96] local(3).spatial(32)"},
		{"u2", "[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)", "[32] spatial(32)"},
		{"i5", "[32, 8] local(4, 1).column_spatial(4, 8).local(2, 1)", "[160] local(5).spatial(32)"},
		{"f7e3m3", "[16, 16] spatial(8, 4).local(2, 4)", "[224] local(7).spatial(32)"},
		{"u1", "[16, 16] spatial(16, 2).local(1, 8)", "[32] spatial(32)"},
	} {
		rows, cols, bytes := 0, 0, 0
		fmt.Sscanf(c.from, "[%d, %d]", &rows, &cols)
		fmt.Sscanf(c.to, "[%d]", &bytes)
		forth := parse(t, fmt.Sprintf(`program forth<K/%[1]d, N/%[2]d>(b: *%[4]s, t: *u8, K: i32, N: i32) warps=1 {
	bi, bj = BlockIndices()
	gb = ViewGlobal(b) : global %[4]s[K, N]
	gt = ViewGlobal(t) : global u8[K/%[1]d, N/%[2]d, %[3]d]
	rb = LoadGlobal(gb, offset=[bi*%[1]d, bj*%[2]d]) : register %[4]s%[5]s
	rt = View(rb) : register u8%[6]s
	StoreGlobal(gt, rt, offset=[bi, bj, 0], dims=[2])
}
`, rows, cols, bytes, c.elem, c.from, c.to))
		back := parse(t, fmt.Sprintf(`program back<K/%[1]d, N/%[2]d>(b: *%[4]s, t: *u8, K: i32, N: i32) warps=1 {
	bi, bj = BlockIndices()
	gb = ViewGlobal(b) : global %[4]s[K, N]
	gt = ViewGlobal(t) : global u8[K/%[1]d, N/%[2]d, %[3]d]
	rt = LoadGlobal(gt, offset=[bi, bj, 0], dims=[2]) : register u8%[6]s
	rb = View(rt) : register %[4]s%[5]s
	StoreGlobal(gb, rb, offset=[bi*%[1]d, bj*%[2]d])
}
`, rows, cols, bytes, c.elem, c.from, c.to))
		k, n := 2*rows, 3*cols
		scalars := []ir.Arg{{Int: int64(k)}, {Int: int64(n)}}
		agree(t, forth, nil, append([]ir.Arg{arg(t, fmt.Sprintf("randcode:%s[%d, %d]:seed=3", c.elem, k, n)), arg(t, fmt.Sprintf("zeros:u8[2, 3, %d]", bytes))}, scalars...))
		agree(t, back, nil, append([]ir.Arg{arg(t, fmt.Sprintf("randcode:%s[%d, %d]:seed=9", c.elem, k, n)), arg(t, fmt.Sprintf("randcode:u8[2, 3, %d]:seed=4", bytes))}, scalars...))
	}
}

// Tiles that hang over every edge of tensors whose rows begin at odd bits.
func TestEdges(t *testing.T) {
	for _, elem := range []string{"u1", "i3", "u4", "i6", "f7e2m4", "u8", "f16", "f32", "i64"} {
		p := parse(t, fmt.Sprintf(`program edges<2, 3>(x: *%[1]s, y: *%[1]s, H: i32, W: i32, di: i32, dj: i32) warps=1 {
	bi, bj = BlockIndices()
	gx = ViewGlobal(x) : global %[1]s[H, W]
	gy = ViewGlobal(y) : global %[1]s[H, W]
	r = LoadGlobal(gx, offset=[bi*8 + di, bj*16 + dj]) : register %[1]s[8, 16] spatial(8, 4).local(1, 4)
	StoreGlobal(gy, r, offset=[bi*8, bj*16])
}
`, elem))
		for _, c := range [][4]int{{16, 48, 0, 0}, {13, 37, 0, 0}, {9, 41, -3, 5}, {16, 40, 2, -7}} {
			args := []ir.Arg{arg(t, fmt.Sprintf("randcode:%s[%d, %d]:seed=1", elem, c[0], c[1])), arg(t, fmt.Sprintf("randcode:%s[%d, %d]:seed=2", elem, c[0], c[1])),
				{Int: int64(c[0])}, {Int: int64(c[1])}, {Int: int64(uint32(int32(c[2])))}, {Int: int64(uint32(int32(c[3])))}}
			args[4].Int, args[5].Int = int64(c[2]), int64(c[3])
			agree(t, p, nil, args)
			agree(t, p, map[string]int64{"W": int64(c[1] & -c[1]), "H": int64(c[0] & -c[0])}, args)
		}
	}
}

func TestArithmetic(t *testing.T) {
	for _, elem := range []string{"f16", "bf16", "f32", "f64", "i16", "u16", "i32", "u32", "i64", "u64"} {
		p := parse(t, fmt.Sprintf(`program arith<1>(x: *%[1]s, s: *%[1]s, y: *%[1]s) warps=1 {
	gx = ViewGlobal(x) : global %[1]s[16, 8]
	gs = ViewGlobal(s) : global %[1]s[1, 8]
	gy = ViewGlobal(y) : global %[1]s[16, 8]
	a = LoadGlobal(gx, offset=[0, 0]) : register %[1]s[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	b = LoadGlobal(gs, offset=[0, 0]) : register %[1]s[1, 8] reduce(spatial(8, 4).local(1, 2), dims=[0], keepdims=True)
	c = Mul(a, b) : register %[1]s[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	d = Add(c, 3) : register %[1]s[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	e = Sub(b, d) : register %[1]s[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	f = Fma(a, b, e) : register %[1]s[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	StoreGlobal(gy, f, offset=[0, 0])
}
`, elem))
		agree(t, p, nil, []ir.Arg{arg(t, fmt.Sprintf("randcode:%s[16, 8]:seed=1", elem)), arg(t, fmt.Sprintf("randcode:%s[1, 8]:seed=2", elem)), arg(t, fmt.Sprintf("zeros:%s[16, 8]", elem))})
	}
}

func TestControl(t *testing.T) {
	p := parse(t, `program control<2>(x: *i32, n: i32) warps=1 {
	bi = BlockIndices()
	g = ViewGlobal(x) : global i32[2, 32]
	r = LoadGlobal(g, offset=[bi, 0], dims=[1]) : register i32[32] spatial(32)
	i = 0
	while i < n {
		if i % 3 == 1 && bi == 0 {
			r = Add(r, i) : register i32[32] spatial(32)
		} else {
			r = Mul(r, -3) : register i32[32] spatial(32)
		}
		i = i + 1
	}
	for k in n..0 step -2 {
		r = Sub(r, k/2 + (-k) % 3) : register i32[32] spatial(32)
	}
	for k in 1..n step 3 {
		if k > 4 || !(bi == 1) {
			r = Add(r, max(k, 5) - min(k, -k)) : register i32[32] spatial(32)
		}
	}
	StoreGlobal(g, r, offset=[bi, 0], dims=[1])
}
`)
	for n := range 12 {
		agree(t, p, nil, []ir.Arg{arg(t, "randint:i32[2, 32]:seed=1"), {Int: int64(n)}})
	}
}

// Loops whose bounds lie so far apart, or so near to the end of the numbers, that
// neither the distance nor the variable after the last turn has 32 bits.
func TestLoopsAtTheEndsOfTheNumbers(t *testing.T) {
	const program = `program loop<1>(x: *%[1]s, n: %[1]s, m: %[1]s) warps=1 {
	g = ViewGlobal(x) : global %[1]s[32]
	r = LoadGlobal(g, offset=[0]) : register %[1]s[32] spatial(32)
	for k in %[2]s..%[3]s step %[4]d %[5]s{
		r = Mul(r, 3) : register %[1]s[32] spatial(32)
		r = Add(r, k) : register %[1]s[32] spatial(32)
	}
	StoreGlobal(g, r, offset=[0])
}
`
	const least, most, whole = math.MinInt32, math.MaxInt32, math.MaxUint32
	for _, c := range []struct {
		elem     string
		from, to int64
		step     int
	}{
		{"i32", least, most, 1000000000}, {"i32", most, least, -1000000000}, {"i32", 2000000000, -2000000000, -1000000000},
		{"i32", 5, -2147483647, -1000000000}, {"i32", 0, most, 1000000000}, {"i32", most - 3, most, 1}, {"i32", most - 3, most, 2}, {"i32", most - 3, most, 7},
		{"i32", least + 3, least, -1}, {"i32", least + 3, least, -2}, {"i32", least, most, most}, {"i32", most, least, least},
		{"i32", most, least, 1}, {"i32", least, most, -1}, {"i32", 7, 7, 3}, {"i32", 7, 7, -3}, {"i32", 0, 10, 3}, {"i32", 10, 0, -3}, {"i32", -5, 6, 4},
		{"u32", 0, whole, 1000000000}, {"u32", whole, 0, -1000000000}, {"u32", whole - 3, whole, 1}, {"u32", whole - 3, whole, 2}, {"u32", most - 2, most + 3, 1},
		{"u32", most + 3, most - 2, -1}, {"u32", 3, 0, -1}, {"u32", whole, 0, 1}, {"u32", 0, whole, -1}, {"u32", 0, 9, 2}, {"u32", 1, 9, 4},
	} {
		for _, text := range [][2]string{{"n", "m"}, {"n", fmt.Sprint(c.to)}, {fmt.Sprint(c.from), "m"}, {fmt.Sprint(c.from), fmt.Sprint(c.to)}, {"min(n, 3)", "max(m, 2)"}} {
			for _, unroll := range []string{"", "unroll=2 "} {
				if !strings.ContainsAny(text[0]+text[1], "nm") && c.elem == "u32" {
					continue // literals alone are i32
				}
				f, m := c.from, c.to
				if text[0] == "min(n, 3)" {
					f, m = min(f, 3), max(m, 2)
				}
				if turns := (max(m-f, f-m) + 1) / int64(max(c.step, -c.step)); turns > 1000 && (c.step > 0) == (f < m) {
					continue // long
				}
				p := parse(t, fmt.Sprintf(program, c.elem, text[0], text[1], c.step, unroll))
				agree(t, p, nil, []ir.Arg{arg(t, "randint:"+c.elem+"[32]:seed=1"), {Int: c.from}, {Int: c.to}})
			}
		}
	}
}

// Ordinary loops count with their own variable.
func TestOrdinaryLoopsStayPlain(t *testing.T) {
	for _, head := range []string{"0..n", "n..m", "0..n/16 step 4", "bi..n/2", "bi*4..n/8 step 32", "0..n step 16", "3..100 step 7"} {
		p := parse(t, `program loop<n>(x: *i32, n: i32, m: i32) warps=1 {
	bi = BlockIndices()
	g = ViewGlobal(x) : global i32[32]
	r = AllocateRegister(init=0) : register i32[32] spatial(32)
	for k in `+head+` {
		r = Add(r, k) : register i32[32] spatial(32)
	}
	StoreGlobal(g, r, offset=[bi])
}
`)
		if s := code.Format(lowered(t, p, map[string]int64{"n": 16})); strings.Contains(s, "selp") || strings.Contains(s, "xor") {
			t.Errorf("%s:\n%s", head, s)
		}
	}
}

// The right side of && and || is not computed where the left side decides.
func TestShortCircuit(t *testing.T) {
	p := parse(t, `program p<1>(y: *i32, n: i32, m: i32) warps=1 {
	gy = ViewGlobal(y) : global i32[32]
	r = AllocateRegister(init=1) : register i32[32] spatial(32)
	if n != 0 && 12/n > 3 {
		r = Add(r, 1) : register i32[32] spatial(32)
	}
	if n == 0 || 12 % n == 1 || m != 0 && n/m == 2 {
		r = Add(r, 2) : register i32[32] spatial(32)
	}
	i = n
	while i != 0 && 40/i > 2 {
		r = Add(r, 4) : register i32[32] spatial(32)
		i = i - 1
	}
	ok = !(m != 0 && 7/m == 1) && n < 5
	if ok {
		r = Add(r, 64) : register i32[32] spatial(32)
	}
	StoreGlobal(gy, r, offset=[0])
}
`)
	for n := range int64(14) {
		for m := range int64(8) {
			agree(t, p, nil, []ir.Arg{arg(t, "zeros:i32[32]"), {Int: n}, {Int: m}})
		}
	}
}

// Both machines stop at the same operator.
func TestScalarErrorsHaveThePlaceOfTheOperator(t *testing.T) {
	for _, c := range []struct {
		expr string
		n, m int64
		col  int
		rule string
	}{
		{"n*m + 5", 1 << 20, 1 << 20, 7, "Sim.E10"}, {"n + m", math.MaxInt32, 1, 8, "Sim.E10"}, {"n - m", math.MinInt32, 1, 8, "Sim.E10"}, {"3 - n - m", -5, math.MinInt32, 12, "Sim.E10"},
		{"-n", math.MinInt32, 0, 6, "Sim.E10"}, {"n/m", math.MinInt32, -1, 7, "Sim.E10"}, {"n*65536", 65536, 0, 7, "Sim.E10"}, {"n*8", -1 << 29, 0, 7, "Sim.E10"},
		{"n/m", 3, 0, 7, "Sim.E9"}, {"1 + n % m", 3, 0, 12, "Sim.E9"}, {"max(n, m)/(n - m)", 3, 3, 15, "Sim.E9"},
	} {
		p := parse(t, `program p<1>(y: *i32, n: i32, m: i32) warps=1 {
	gy = ViewGlobal(y) : global i32[32]
	r = AllocateRegister(init=1) : register i32[32] spatial(32)
	x = `+c.expr+`
	r = Add(r, x) : register i32[32] spatial(32)
	StoreGlobal(gy, r, offset=[0])
}
`)
		args := []ir.Arg{arg(t, "zeros:i32[32]"), {Int: c.n}, {Int: c.m}}
		m, err := interp.New(p, args)
		if err != nil {
			t.Fatal(err)
		}
		place := fmt.Sprintf("test.tile:4:%d", c.col)
		if err := m.Run(context.Background()); err == nil || !strings.Contains(err.Error(), place) {
			t.Errorf("%s of %d and %d: interpreter gives %v, want %s", c.expr, c.n, c.m, err, place)
		}
		f := lowered(t, p, nil)
		optimised, err := opt.Run(f, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []*code.Func{f, optimised} {
			_, err = sim.Run(context.Background(), f, sim.Launch{Args: []sim.Arg{{Buffer: make([]byte, 128)}, {Bits: uint64(c.n)}, {Bits: uint64(c.m)}}}, sim.Options{})
			if err == nil || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), c.rule) {
				t.Errorf("%s of %d and %d: simulator gives %v, want %s at %s", c.expr, c.n, c.m, err, c.rule, place)
			}
		}
	}
}

func TestDotOverWarpsAndSteps(t *testing.T) {
	p := parse(t, `program block<1>(a: *f16, b: *f16, c: *f32) warps=4 {
	ga = ViewGlobal(a) : global f16[32, 32]
	gb = ViewGlobal(b) : global f16[32, 32]
	gc = ViewGlobal(c) : global f32[32, 32]
	ra = LoadGlobal(ga, offset=[0, 0]) : register f16[32, 32] reduce(spatial(2, 1, 2, ranks=[1, 0, 2]), dims=[2]).local(1, 2).column_local(2, 2).spatial(8, 4).local(1, 2)
	rb = LoadGlobal(gb, offset=[0, 0]) : register f16[32, 32] reduce(spatial(1, 2, 2, ranks=[0, 2, 1]), dims=[2]).local(2, 2).local(2, 1).column_spatial(4, 8).local(2, 1)
	rc = AllocateRegister(init=1) : register f32[32, 32] spatial(2, 2).local(1, 2).local(2, 1).spatial(8, 4).local(1, 2)
	rc = Dot(ra, rb, rc) : register f32[32, 32] spatial(2, 2).local(1, 2).local(2, 1).spatial(8, 4).local(1, 2)
	StoreGlobal(gc, rc, offset=[0, 0])
}
`)
	agree(t, p, nil, []ir.Arg{arg(t, "randint:f16[32, 32]:seed=1"), arg(t, "randint:f16[32, 32]:seed=2"), arg(t, "zeros:f32[32, 32]")})
}

func TestLoadsAreWide(t *testing.T) {
	count := func(f *code.Func, op code.Op) (n int) {
		for line := range strings.Lines(code.Format(f)) {
			if strings.Contains(line, op.String()+" ") || strings.Contains(line, op.String()+"\n") {
				n++
			}
		}
		return n
	}
	p := parse(t, `program copy<N/512>(x: *f16, y: *f16, N: i32) warps=2 {
	bi = BlockIndices()
	gx = ViewGlobal(x) : global f16[N]
	gy = ViewGlobal(y) : global f16[N]
	r = LoadGlobal(gx, offset=[bi*512]) : register f16[512] spatial(64).local(8)
	StoreGlobal(gy, r, offset=[bi*512])
}
`)
	f := lowered(t, p, nil)
	if count(f, code.OpLdGlobalV4B32) != 1 || count(f, code.OpStGlobalV4B32) != 1 || strings.Contains(code.Format(f), "setp") {
		t.Errorf("an aligned copy of 8 f16 per thread must be one 16-byte load and store without checks:\n%s", code.Format(f))
	}
	p = parse(t, fmt.Sprintf(matmul, "", "f32", "StoreGlobal(gc, acc, offset=[bi*16, bj*8])"))
	f = lowered(t, p, map[string]int64{"K": 16, "N": 8, "M": 16})
	if n := count(f, code.OpLdGlobalB32); n != 4 {
		t.Errorf("the A fragment must load 4 words when K is a multiple of 16, not %d:\n%s", n, code.Format(f))
	}
}

// TestFarSlots loads and stores elements that lie farther apart in a tensor than constants of
// accesses reach.
func TestFarSlots(t *testing.T) {
	for _, shape := range []string{"f32[4, 536870911]", "f32[4, 300000000]", "f32[1, 2147483647]"} {
		f := lowered(t, parse(t, fmt.Sprintf(`program p<1>(x: *f32) warps=1 {
	gx = ViewGlobal(x) : global %s
	a = LoadGlobal(gx, offset=[0, 0]) : register f32[8, 32] local(8, 1).spatial(1, 32)
	StoreGlobal(gx, a, offset=[0, 0])
}
`, shape)), nil)
		n := map[code.Op]int{}
		f.Body.Walk(func(in *code.Instr) { n[in.Op]++ })
		if n[code.OpLdGlobalB32] != 8 || n[code.OpStGlobalB32] != 8 {
			t.Errorf("%s: %d loads and %d stores", shape, n[code.OpLdGlobalB32], n[code.OpStGlobalB32])
		}
	}
}

// TestNewerTargets says of what a target is too old for which one has it.
func TestNewerTargets(t *testing.T) {
	_, err := lowerFor(t, parse(t, "program p<2>(x: *f32) warps=1 cluster=[2] {\n}\n"), "sm_89", nil)
	if want := "test.tile:1:9: cluster= needs sm_90, the target is sm_89 [Lower.E1]\n\thelp: --arch sm_90 has it; --device interp runs the program"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRefusals(t *testing.T) {
	for rule, src := range map[string]string{
		"Lower.E2": `program p<1>(c: *f32) warps=1 {
	gc = ViewGlobal(c) : global f32[16, 8]
	a = AllocateRegister(init=1) : register f16[16, 16] spatial(16, 2).local(1, 8)
	b = AllocateRegister(init=1) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
	d = AllocateRegister(init=0) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	d = Dot(a, b, d) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	StoreGlobal(gc, d, offset=[0, 0])
}
`,
	} {
		a, _ := arch.Lookup("sm_80")
		_, err := lower.Lower(parse(t, src), lower.Options{Arch: a})
		if err == nil || !strings.Contains(err.Error(), rule) || !strings.Contains(err.Error(), "test.tile:6:6") {
			t.Errorf("want %s at test.tile:6:6, got %v", rule, err)
		}
	}
}
