package interp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func parse(t testing.TB, src string) *ir.Program {
	t.Helper()
	p, err := text.Parse("t.tile", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func gen(t testing.TB, spec string) ir.Arg {
	t.Helper()
	a, err := array.Generate(spec)
	if err != nil {
		t.Fatal(err)
	}
	return ir.Arg{Array: a}
}

func run(t testing.TB, src string, args ...ir.Arg) ([]ir.Arg, error) {
	t.Helper()
	m, err := New(parse(t, src), args)
	if err != nil {
		return nil, err
	}
	err = m.Run(context.Background())
	return m.Args(), err
}

const matmul = `program matmul<M/16, N/8>(a: *f16, b: *u8, c: *f32, M: i32, N: i32, K: i32) warps=1 {
	bi, bj = BlockIndices()
	ga = ViewGlobal(a) : global f16[M, K]
	gb = ViewGlobal(b) : global u8[K/16, N/8, 96]
	gc = ViewGlobal(c) : global f32[M, N]
	acc = AllocateRegister(init=0) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	for k in 0..K/16 {
		ra = LoadGlobal(ga, offset=[bi*16, k*16]) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)
		rb = LoadGlobal(gb, offset=[k, bj, 0], dims=[2]) : register u8[96] local(3).spatial(32)
		rw = View(rb) : register i6[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
		rh = Cast(rw) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
		acc = Dot(ra, rh, acc) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	}
	StoreGlobal(gc, acc, offset=[bi*16, bj*8])
}
`

// TestPaperMatmul packs i6 weights by hand, from the fragment's formula and the
// rule for packing, and compares with a plain product.
func TestPaperMatmul(t *testing.T) {
	const m, n, k = 32, 16, 48
	a := gen(t, fmt.Sprintf("randint:f16[%d, %d]:seed=1", m, k)).Array
	w := gen(t, fmt.Sprintf("randcode:i6[%d, %d]:seed=2", k, n)).Array
	b := array.New(dtype.U8, k/16, n/8, 96)
	for kb := range k / 16 {
		for nb := range n / 8 {
			for lane := range 32 {
				var bits [3]byte
				for i := range 4 {
					row := 16*kb + lane%4*2 + i%2 + i/2*8
					dtype.Put(bits[:], 6, i, w.Code(row*n+8*nb+lane/4))
				}
				for j, x := range bits {
					// Slot j of local(3).spatial(32) is byte 32·j + lane.
					b.SetCode((kb*(n/8)+nb)*96+32*j+lane, uint64(x))
				}
			}
		}
	}
	args := []ir.Arg{{Array: a}, {Array: b}, {Array: array.New(dtype.F32, m, n)}, {Int: m}, {Int: n}, {Int: k}}
	out, err := run(t, matmul, args...)
	if err != nil {
		t.Fatal(err)
	}
	want := array.MatMulF64(a, w).Cast(dtype.F32)
	if r := array.Compare(out[2].Array, want); !r.Equal() {
		t.Error(r)
	}
	if args[2].Array.At(0, 0) != 0 {
		t.Error("the caller's array changed")
	}
}

func TestStepSnapshotRestore(t *testing.T) {
	args := []ir.Arg{gen(t, "randint:f16[16, 32]"), gen(t, "randcode:u8[2, 1, 96]"), gen(t, "zeros:f32[16, 8]"), {Int: 16}, {Int: 8}, {Int: 32}}
	m, err := New(parse(t, matmul), args)
	if err != nil {
		t.Fatal(err)
	}
	var snaps []*Snapshot
	for !m.Done() {
		snaps = append(snaps, m.Snapshot())
		if err := m.Step(); err != nil {
			t.Fatal(err)
		}
	}
	want := m.Args()[2].Array.Clone()
	for i, s := range snaps {
		m.Restore(s)
		if err := m.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if r := array.Compare(m.Args()[2].Array, want); !r.Equal() {
			t.Fatalf("from snapshot %d: %v", i, r)
		}
	}
	// 5 statements, for and 2 rounds of 5, the store.
	if len(snaps) != 17 {
		t.Errorf("%d steps, want 17", len(snaps))
	}
	m.Restore(snaps[len(snaps)-1])
	if in, ok := m.Next().(*ir.Instr); !ok || in.Op.Name != "StoreGlobal" {
		t.Errorf("next is %v", m.Next())
	}
	var acc *array.Array
	for _, v := range m.Variables() {
		if v.Var.Name == "acc" {
			acc = v.Tile
		}
	}
	if acc == nil || !array.Compare(acc, want).Equal() {
		t.Errorf("acc before the store is %v", acc)
	}
}

func TestCancel(t *testing.T) {
	p := parse(t, "program spin<1>(n: i32) warps=1 {\n\ti = 0\n\twhile n >= i {\n\t\ti = i*0\n\t}\n}\n")
	m, err := New(p, []ir.Arg{{Int: 1}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := m.Run(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > time.Second ||
		!strings.HasPrefix(err.Error(), "t.tile:4:3: interrupted; block (0, 0, 0) stood here (") && !strings.HasPrefix(err.Error(), "t.tile:3:2: interrupted; ") {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
	m, _ = New(p, []ir.Arg{{Int: 1}}, MaxSteps(100))
	if err := m.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "t.tile:4:3: no end after 100 statements [Run.E7]") {
		t.Errorf("got %v", err)
	}
}

func TestRunTimeErrorsHavePlaceAndRule(t *testing.T) {
	head := "program p<1>(x: *f32, n: i32) warps=1 {\n\tg = ViewGlobal(x) : global f32[32]\n"
	for _, c := range []struct{ name, body, want string }{
		{"unset", "\tr = AllocateRegister() : register f32[32] spatial(32)\n\tStoreGlobal(g, r, offset=[0])\n", "t.tile:4:17: element 0 of r has no value [Run.E3]"},
		{"unset through View", "\tr = AllocateRegister() : register f32[32] spatial(32)\n\tv = View(r) : register i32[32] spatial(32)\n\tv = Add(v, 1) : register i32[32] spatial(32)\n", "t.tile:5:10: element 0 of v has no value [Run.E3]"},
		{"read after write", "\tr = LoadGlobal(g, offset=[0]) : register f32[32] spatial(32)\n\tStoreGlobal(g, r, offset=[0])\n\ts = LoadGlobal(g, offset=[1]) : register f32[32] spatial(32)\n", "t.tile:5:6: thread 0 of block 0 reads element 1 of g, which thread 1 of block 0 wrote in this launch, in line 4 [Run.E4]"},
		{"write after write", "\tr = LoadGlobal(g, offset=[0]) : register f32[32] spatial(32)\n\tStoreGlobal(g, r, offset=[0])\n\tStoreGlobal(g, r, offset=[1])\n", "t.tile:5:2: thread 0 of block 0 overwrites element 1 of g"},
		{"write after read", "\tr = LoadGlobal(g, offset=[1]) : register f32[32] spatial(32)\n\tStoreGlobal(g, r, offset=[0])\n", "t.tile:4:2: thread 1 of block 0 overwrites element 1 of g, which thread 0 of block 0 read in this launch, in line 3 [Run.E4]"},
		{"write after many read", "\tr = LoadGlobal(g, offset=[0]) : register f32[1] reduce(spatial(32), dims=[0], keepdims=True)\n\tStoreGlobal(g, r, offset=[0])\n", "which several threads of block 0 read in this launch, in line 3 [Run.E4]"},
		{"division by zero", "\ti = 5/n\n", "t.tile:3:7: division by zero: in 5/n, n is 0 [Expr.R1]"},
		{"overflow", "\ti = (n + 65536)*65536\n", "integer overflow: 65536 * 65536 is no i32 [Expr.R1]"},
	} {
		_, err := run(t, head+c.body+"}\n", gen(t, "ones:f32[32]"), ir.Arg{Int: 0})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestArguments(t *testing.T) {
	src := "program p<n>(x: *f32, n: i32) warps=1 {\n\tg = ViewGlobal(x) : global f32[n, 4]\n}\n"
	for _, c := range []struct {
		args []ir.Arg
		want string
	}{
		{nil, "p takes 2 arguments, 0 are given [Run.E1]"},
		{[]ir.Arg{gen(t, "ones:f16[8]"), {Int: 2}}, "t.tile:1:14: argument x is an array of f16, not f32 [Run.E1]"},
		{[]ir.Arg{{}, {Int: 2}}, "argument x is not an array"},
		{[]ir.Arg{gen(t, "ones:f32[8]"), {Int: 1 << 40}}, "which is no i32"},
		{[]ir.Arg{gen(t, "ones:f32[8]"), {Int: 0}}, "grid dimension 0, n, is 0 [Run.E5]"},
		{[]ir.Arg{gen(t, "ones:f32[8]"), {Int: 3}}, "t.tile:2:6: g views [3, 4] of f32, 12 elements; argument x has 8 [Run.E2]"},
	} {
		if _, err := run(t, src, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if _, err := run(t, src, gen(t, "ones:f32[8]"), ir.Arg{Int: 2}); err != nil {
		t.Error(err)
	}
}

// A thread may use again what it wrote itself.
func TestOwnWritesAreOrdered(t *testing.T) {
	out, err := run(t, `program p<2>(x: *f32) warps=1 {
	bi = BlockIndices()
	g = ViewGlobal(x) : global f32[2, 32]
	for k in 0..3 {
		r = LoadGlobal(g, offset=[bi, 0], dims=[1]) : register f32[32] spatial(32)
		r = Add(r, 1.5) : register f32[32] spatial(32)
		StoreGlobal(g, r, offset=[bi, 0], dims=[1])
	}
}
`, gen(t, "zeros:f32[2, 32]"))
	if err != nil || out[0].Array.At(1, 31) != 4.5 {
		t.Errorf("got %v, %v", out, err)
	}
}

// TestDotStepRoundsOnce compares with sums in 600-bit floats.
func TestDotStepRoundsOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for trial := range 20000 {
		in := dtype.F16
		if trial%2 == 1 {
			in = dtype.BF16
		}
		a, b := make([]float64, ir.DotStep), make([]float64, ir.DotStep)
		for k := range a {
			a[k], b[k] = in.Decode(rng.Uint64N(1<<16)), in.Decode(rng.Uint64N(1<<16))
			if math.IsNaN(a[k]) || math.IsInf(a[k], 0) || math.IsNaN(b[k]) || math.IsInf(b[k], 0) {
				a[k], b[k] = 1, 3
			}
			if trial%3 == 0 {
				a[k] = math.Ldexp(1, int(rng.Uint64N(20))-10)
			}
		}
		c := dtype.F32.Encode(math.Ldexp(rng.Float64()-0.5, int(rng.Uint64N(40))-20), false)
		sum := new(big.Float).SetPrec(1200).SetFloat64(dtype.F32.Decode(c))
		for k := range a {
			x := new(big.Float).SetPrec(1200).SetFloat64(a[k])
			sum.Add(sum, x.Mul(x, new(big.Float).SetFloat64(b[k])))
		}
		want, _ := sum.Float32()
		if got := DotStep(dtype.F32, c, a, b); uint32(got) != math.Float32bits(want) && want != 0 {
			t.Fatalf("trial %d: %v, want %v", trial, dtype.F32.Decode(got), want)
		}
	}
	// The exact sum lies just above the middle of two f16 numbers; rounding it to
	// f64 first would put it on the middle, and then to even.
	a, b := make([]float64, ir.DotStep), make([]float64, ir.DotStep)
	a[0], b[0] = 1, 1
	a[1], b[1] = math.Ldexp(1, -11), 1
	a[2], b[2] = math.Ldexp(1, -24), math.Ldexp(1, -24)
	a[3], b[3] = math.Ldexp(1, -24), math.Ldexp(1, -23)
	if got := dtype.F16.Decode(DotStep(dtype.F16, 0, a, b)); got != 1+math.Ldexp(1, -10) {
		t.Errorf("got %v", got)
	}
}

// TestDotStepOfSpecialValues compares with sums in float64, which know infinities
// and NaN, and are exact for the small numbers among them.
func TestDotStepOfSpecialValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	special := []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1)}
	draw := func() float64 {
		if rng.Uint64N(12) == 0 {
			return special[rng.Uint64N(uint64(len(special)))]
		}
		return float64(rng.Uint64N(9)) - 4
	}
	nans, infs := 0, 0
	for trial := range 20000 {
		acc := dtype.F32
		if trial%2 == 1 {
			acc = dtype.F16
		}
		a, b := make([]float64, ir.DotStep), make([]float64, ir.DotStep)
		c := draw()
		want := c
		for k := range a {
			a[k], b[k] = draw(), draw()
			want += a[k] * b[k]
		}
		got := acc.Decode(DotStep(acc, acc.Encode(c, false), a, b))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("trial %d: %v + Σ %v · %v is %v, want %v", trial, c, a, b, got, want)
		}
		if math.IsNaN(want) {
			nans++
		} else if math.IsInf(want, 0) {
			infs++
		}
	}
	if nans < 1000 || infs < 1000 {
		t.Errorf("only %d NaN and %d infinities", nans, infs)
	}
}

func TestEveryOpHasAMeaning(t *testing.T) {
	for _, name := range ir.OpNames() {
		if !Has(name) {
			t.Errorf("%s: add its meaning to vm/interp", name)
		}
	}
}

func BenchmarkMatmul(b *testing.B) {
	p := parse(b, matmul)
	args := []ir.Arg{gen(b, "randint:f16[64, 64]"), gen(b, "randcode:u8[4, 8, 96]"), gen(b, "zeros:f32[64, 64]"), {Int: 64}, {Int: 64}, {Int: 64}}
	for b.Loop() {
		m, err := New(p, args)
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Run(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPlacement packs codes where a placement says, views them, and casts them
// as they are and with the power of two of each row left to c.
func TestPlacement(t *testing.T) {
	const src = `program p<1>(a: *u32, y: *f16, v: *f16, c: *f32) warps=1 {
	ga = ViewGlobal(a) : global u32[32]
	gy = ViewGlobal(y) : global f16[16, 16]
	gv = ViewGlobal(v) : global f16[16, 16]
	gc = ViewGlobal(c) : global f32[16, 1]
	ra = LoadGlobal(ga, offset=[0]) : register u32[32] spatial(32)
	x = View(ra) : register u4[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2) place=4[(0,16)*4+4]
	ry = Cast(x) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)
	rv, rc = CastDeferred(x) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2), register f32[16, 1] local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)
	StoreGlobal(gy, ry, offset=[0, 0])
	StoreGlobal(gv, rv, offset=[0, 0])
	StoreGlobal(gc, rc, offset=[0, 0])
}
`
	words, want := array.New(dtype.U32, 32), array.New(dtype.F16, 16, 16)
	for th := range 32 {
		for s := range 8 {
			code := uint64(th*5+s*3) % 16
			words.SetCode(th, words.Code(th)|code<<(s/2*4+s%2*16))
			// Slots go two along a row, then to the row eight below, then eight columns on.
			want.Set(float64(code), th/4+s/2%2*8, th%4*2+s%2+s/4*8)
		}
	}
	out, err := run(t, src, ir.Arg{Array: words}, gen(t, "zeros:f16[16, 16]"), gen(t, "zeros:f16[16, 16]"), gen(t, "zeros:f32[16, 1]"))
	if err != nil {
		t.Fatal(err)
	}
	if r := array.Compare(out[1].Array, want); !r.Equal() {
		t.Error(r)
	}
	for i := range 16 {
		k := -24
		if i >= 8 {
			k = -20
		}
		if c := out[3].Array.At(i, 0); c != math.Ldexp(1, -k) {
			t.Errorf("c[%d] is %v", i, c)
		}
		for j := range 16 {
			if v := out[2].Array.At(i, j); v != math.Ldexp(want.At(i, j), k) {
				t.Errorf("v[%d, %d] is %v of %v", i, j, v, want.At(i, j))
			}
		}
	}
}

func TestFiniteDomain(t *testing.T) {
	const src = `program p<1>(a: *f8e4m3) warps=1 {
	g = ViewGlobal(a) : global f8e4m3[32]
	r = LoadGlobal(g, offset=[0]) : register f8e4m3[32] spatial(32)
	y = Cast(r, domain=finite) : register f16[32] spatial(32)
}
`
	a := gen(t, "ones:f8e4m3[32]")
	if _, err := run(t, src, a); err != nil {
		t.Error(err)
	}
	a.Array.SetCode(7, 0x7f)
	if _, err := run(t, src, a); err == nil || !strings.Contains(err.Error(), "t.tile:4:6: element 7 of r is NaN, which is not finite in f16 [Run.E8]") {
		t.Errorf("got %v", err)
	}
	big := gen(t, "const=70000:f32[32]")
	if _, err := run(t, strings.ReplaceAll(src, "f8e4m3", "f32"), big); err == nil || !strings.Contains(err.Error(), "[Run.E8]") {
		t.Errorf("got %v", err)
	}
}
