package cudac

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func at(line int) diag.Pos { return diag.Pos{File: "t.tile", Line: line, Col: 1} }

func sample() (*code.Func, error) {
	b := code.NewBuilder("sample").At(at(1))
	x, y, n := b.Pointer("x", "f16"), b.Pointer("y", "f32"), b.Scalar("n", code.B32, "i32")
	b.Func().Launch = code.Launch{Block: 64, SharedBytes: 1024, MaxReg: 40}
	i := b.TidX()
	px := b.Add64(x, b.MulWideU(i, b.Const32(16)))
	slot := b.Mad32(i, b.Const32(4), b.SharedBase())
	zero := b.Const32(0)
	r := b.At(at(2)).For(zero, n, b.Const32(1), 1, []code.Value{zero, zero, zero, zero, px}, func(k code.Value, c []code.Value) []code.Value {
		a := b.At(at(3)).LdGlobalV(4, c[4], 16, 0)
		bb := b.LdGlobalV(2, c[4], 0, code.NC|code.L2Prefetch64)
		acc := b.At(at(4)).Mma(code.OpMmaF16F32, a, bb, c[:4])
		return append(acc, b.Add64(c[4], b.Const64(1024)))
	})
	p := b.At(at(5)).SetpF32(code.GT, r[0], b.Const32(0x3f800000))
	v := b.If(p, func() []code.Value { return []code.Value{r[1]} }, func() []code.Value { return []code.Value{b.Prmt(r[1], r[2], 0x5140)} })
	b.At(at(6)).StShared(4, slot, 0, v[0])
	b.BarSync()
	w := b.LdShared(4, slot, 0)
	b.Guarded(p, code.OpStGlobalB32, []int64{8, 0}, []code.Value{b.Add64(y, b.MulWideU(i, b.Const32(4))), w})
	return b.Done()
}

func TestGolden(t *testing.T) {
	f, err := sample()
	if err != nil {
		t.Fatal(err)
	}
	got := Print(f)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/sample.cu", []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/sample.cu")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from testdata/sample.cu (rewrite it with -update):\n%s", got)
	}
}

// every is one function with every row that has no region, each on values of
// its own.
func every(t *testing.T) *code.Func {
	b := code.NewBuilder("every").At(at(1))
	p := b.Pointer("p", "u8")
	b.Func().Launch = code.Launch{Block: 32, SharedBytes: 1024}
	shared := b.SharedBase()
	ops := code.Rows()
	for _, op := range code.ProxyRows() {
		if row := op.Row(); row.Since <= 90 && (!row.InPlace || strings.Contains(row.Name, ".m64n8k")) {
			ops = append(ops, op)
		}
	}
	for k, op := range ops {
		row := op.Row()
		if row.Class == code.Control {
			continue
		}
		b.At(at(k + 2))
		for _, guard := range []bool{false, true} {
			if guard && (!row.Memory() || row.Collective) {
				continue
			}
			in := &code.Instr{Op: op}
			value := func(i int, typ code.Type) code.Value {
				switch typ {
				case code.Pred:
					return b.SetpU32(code.EQ, b.LdGlobal(4, p, 64*i, 0), b.Const32(1))
				case code.B16:
					return b.LdGlobal(2, p, 64*i, 0)
				case code.B32:
					return b.LdGlobal(4, p, 64*i, 0)
				}
				return b.LdGlobal(8, p, 64*i, 0)
			}
			for i, typ := range row.In {
				switch {
				case i == 0 && row.Space == code.Shared:
					in.In = append(in.In, shared)
				case i == 0 && row.Space == code.Global:
					in.In = append(in.In, p)
				default:
					in.In = append(in.In, value(i, typ))
				}
			}
			for _, k := range row.Imm {
				n := int64(1)
				if k == code.ImmSelector {
					n = int64(row.Selectors) - 1
				}
				switch k {
				case code.ImmThreads:
					n = 64
				case code.ImmRegisters:
					n = 40
				case code.ImmAttr:
					if row.Class == code.Async {
						n = int64(code.L2Prefetch128)
					}
				}
				in.Imm = append(in.Imm, n)
			}
			if row.Class == code.Store && row.Space == code.Global && !row.Relaxed {
				in.Imm[1] = int64(code.NoAllocate)
			}
			if guard {
				in.Guard = value(9, code.Pred)
				for i, typ := range row.Out {
					in.In = append(in.In, value(10+i, typ))
				}
			}
			for _, typ := range row.Out {
				in.Out = append(in.Out, b.Func().NewValue(typ))
			}
			b.Add(in)
			for i, v := range in.Out {
				switch row.Out[i] {
				case code.Pred:
					b.StGlobal(4, p, 2048+16*i, 0, b.Select(v, b.Const32(1), b.Const32(0)))
				case code.B16:
					b.StGlobal(2, p, 2048+16*i, 0, v)
				case code.B32:
					b.StGlobal(4, p, 2048+16*i, 0, v)
				default:
					b.StGlobal(8, p, 2048+16*i, 0, v)
				}
			}
		}
	}
	f, err := b.Done()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestEveryRow prints every row; a row whose template the printer does not know
// panics. With -cu FILE the text is kept for a compiler.
func TestEveryRow(t *testing.T) {
	text := Print(every(t))
	if *keep != "" {
		if err := os.WriteFile(*keep, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "{a") || strings.Contains(line, "{o") || strings.Contains(line, "{i") {
			t.Errorf("unfilled template: %s", line)
		}
		if strings.Contains(line, `"(p`) && strings.Contains(line, "asm") {
			t.Errorf("predicate in inline assembler: %s", line)
		}
	}
}

var keep = flag.String("cu", "", "write the text of TestEveryRow to this file")
