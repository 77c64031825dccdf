package build_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func matmul() *build.Builder {
	operandA := layout.ColumnLocal(2, 2).Spatial(8, 4).Local(1, 2)
	operandB := layout.Local(2, 1).ColumnSpatial(4, 8).Local(2, 1)
	product := layout.Local(2, 1).Spatial(8, 4).Local(1, 2)

	p := build.Program("matmul", build.Grid("M/16", "N/8"), build.Warps(1))
	a, b, c := p.Pointer("a", dtype.F16), p.Pointer("b", dtype.U8), p.Pointer("c", dtype.F16)
	M, N, K := p.Scalar("M", dtype.I32), p.Scalar("N", dtype.I32), p.Scalar("K", dtype.I32)
	bi, bj := p.BlockIndices2("bi", "bj")
	ga := p.ViewGlobal("ga", a, build.Global(dtype.F16, M, K))
	gb := p.ViewGlobal("gb", b, build.Global(dtype.U8, K.Div(16), N.Div(8), 96))
	gc := p.ViewGlobal("gc", c, build.Global(dtype.F16, M, N))
	acc := p.AllocateRegister("acc", build.Register(dtype.F32, product), build.Init(0))
	p.For("k", 0, K.Div(16), func(k build.Value) {
		ra := p.LoadGlobal("ra", ga, build.Register(dtype.F16, operandA), build.Offset(bi.Mul(16), k.Mul(16)))
		rb := p.LoadGlobal("rb", gb, "register u8[96] local(3).spatial(32)", build.Offset(k, bj, 0), build.Dims(2))
		rw := p.View("rw", rb, build.Register(dtype.I6, operandB))
		rh := p.Cast("rh", rw, build.Register(dtype.F16, operandB))
		p.Dot("acc", ra, rh, acc, build.Register(dtype.F32, product))
	})
	out := p.Cast("out", acc, build.Register(dtype.F16, product))
	p.StoreGlobal(gc, out, build.Offset(bi.Mul(16), "bj*8"))
	return p
}

func TestMatmulIsItsText(t *testing.T) {
	p, err := matmul().Build()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text.Format(p), corpus.Program("matmul_f16_i6"); got != want || p.Source != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestControlFlow(t *testing.T) {
	b := build.Program("flow", build.Grid(build.Program("").Scalar("n", dtype.I32).Add(1).Mul(2)))
	n := b.Scalar("n", dtype.I32)
	b.Comment("count\ndown")
	x := b.Let("x", n.Add(3).Mul(n.Sub(-1)).Neg())
	b.LetAs("y", dtype.I64, 0)
	b.While(x.Greater(0).And(x.Equal(5).Not()), func() { b.Let("x", x.Sub(x.Sub(1))) })
	b.If(x.Less(3), func() { b.Let("x", x.Min(n).Mod(7)) }).
		ElseIf(x.LessEqual("n*2").Or("n == 1"), func() { b.Let("x", x.Max(2)) }).
		Else(func() {
			b.For("k", n, 0, func(k build.Value) { b.Let("x", k.Div(2)) }, build.Unroll(-1), build.Step(-2))
		})
	p, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := `program flow<(n + 1)*2>(n: i32) warps=1 {
	// count
	// down
	x = -((n + 3)*(n - -1))
	y: i64 = 0
	while x > 0 && !(x == 5) {
		x = x - (x - 1)
	}
	if x < 3 {
		x = min(x, n) % 7
	} else if x <= n*2 || n == 1 {
		x = max(x, 2)
	} else {
		for k in n..0 step -2 unroll=all {
			x = k/2
		}
	}
}
`
	if got := text.Format(p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestControlStatements(t *testing.T) {
	b := build.Program("control", build.Warps(2))
	n := b.Scalar("n", dtype.I32)
	b.Assume(n.Mod(4).Equal(0))
	b.For("i", 0, n, func(i build.Value) {
		b.If(i.BitAnd(3).Equal(1), b.Continue)
		b.If(i.Shl(2).BitXor(n).Greater(i.Shr(1).BitOr(9)), b.Break)
	})
	b.Group(32, 32, func() { b.Synchronize() })
	b.Return()
	if _, err := b.Build(); err != nil {
		t.Fatal(err)
	}
	want := `	assume(n % 4 == 0)
	for i in 0..n {
		if i & 3 == 1 {
			continue
		}
		if i << 2 ^ n > i >> 1 | 9 {
			break
		}
	}
	group(32, 32) {
		Synchronize()
	}
	return
`
	if got := b.Text(); !strings.Contains(got, want) {
		t.Errorf("got\n%s", got)
	}
}

func TestProblemsPointIntoTheText(t *testing.T) {
	b := build.Program("wrong")
	g := b.ViewGlobal("g", b.Pointer("p", dtype.U8), build.Global(dtype.U8, 64))
	r := b.LoadGlobal("r", g, build.Register(dtype.U8, layout.Local(2).Spatial(32)), build.Offset(0))
	b.View("v", r, build.Register(dtype.I6, layout.Local(3).Spatial(32)))
	_, err := b.Build()
	if err == nil || !strings.Contains(err.Error(), "wrong.tile:4:16: r holds 16 bits per thread") || !strings.Contains(err.Error(), "[View.C2]") {
		t.Errorf("got %v", err)
	}
	if line := strings.Split(b.Text(), "\n")[3]; !strings.HasPrefix(line[15:], "register i6[96]") {
		t.Errorf("line 4 is %q", line)
	}
}

func TestGoMistakesAreReported(t *testing.T) {
	b := build.Program("wrong")
	b.Let("x", []int{1})
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "Go []int") {
		t.Errorf("a slice as expression: %v", err)
	}
	b = build.Program("wrong")
	r := b.If("1 < 2", func() {})
	b.Let("x", 1)
	r.Else(func() {})
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "apart from its if") {
		t.Errorf("else after a statement: %v", err)
	}
	b = build.Program("wrong")
	b.Let("x", build.Program("").Let("y", 1).Add(struct{}{}))
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "Text.E1") {
		t.Errorf("a struct in a sum: %v", err)
	}
}
