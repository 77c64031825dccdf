package code

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

func at(line int) diag.Pos { return diag.Pos{File: "t.tile", Line: line, Col: 1} }

func sample() *Builder {
	b := NewBuilder("sample").At(at(1))
	x, n := b.Pointer("x", "f32"), b.Scalar("n", B32, "i32")
	b.Func().Launch.Block = 32
	i := b.TidX()
	p := b.SetpS32(LT, i, n)
	b.At(at(2))
	addr := b.Add64(x, b.MulWideU(i, b.Const32(4)))
	b.If(p, func() []Value {
		v := b.LdGlobal(4, addr, 0, NC|L2Prefetch128)
		s := b.At(at(3)).For(b.Const32(0), n, b.Const32(1), 1, []Value{v}, func(i Value, c []Value) []Value {
			return []Value{b.Add32(c[0], i)}
		})
		b.StGlobal(4, addr, 16, 0, s[0])
		return nil
	}, nil)
	return b
}

func TestBuilderAndFormat(t *testing.T) {
	f, err := sample().Done()
	if err != nil {
		t.Fatal(err)
	}
	want := `func sample(%1 x: *f32, %2 n: i32) grid=[] block=32 {
	%5 = const.b32 4  // t.tile:2:1
	%9 = const.b32 0  // t.tile:3:1
	%10 = const.b32 1
	%3 = tid.x  // t.tile:1:1
	%4 = setp.s32.lt %3, %2
	%6 = mul.wide.u32 %3, %5  // t.tile:2:1
	%7 = add.b64 %1, %6
	if %4 {
		%8 = ld.global.b32.nc.L2::128B %7
		%14 = for %9, %2, %10, %8 (%11 b32, %12 b32) {  // t.tile:3:1
			%13 = add.b32 %12, %11
			yield %13
		}
		st.global.b32 %7, %14, offset=16
	}
}
`
	if got := Format(f); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestBuilderFolds(t *testing.T) {
	b := NewBuilder("fold").At(at(1))
	x := b.Scalar("x", B32, "i32")
	if v, ok := b.ConstOf(b.Add32(b.Const32(3), b.Const32(-5))); !ok || v != 0xfffffffe {
		t.Errorf("3 + -5 is %#x %t", v, ok)
	}
	if b.Add32(b.Const32(0), x) != x || b.Shl32(x, b.Const32(0)) != x || b.Mul32(x, b.Const32(1)) != x {
		t.Error("0 + x, x << 0 or x · 1 is not x")
	}
	if _, ok := b.ConstOf(b.Emit1(OpDivU32, nil, b.Const32(1), b.Const32(0))); ok {
		t.Error("1 / 0 was folded")
	}
}

// TestVerifierRules breaks a right function in one place per rule.
func TestVerifierRules(t *testing.T) {
	first := func(f *Func, op Op) *Instr {
		var found *Instr
		f.Body.Walk(func(in *Instr) {
			if in.Op == op && found == nil {
				found = in
			}
		})
		return found
	}
	for _, c := range []struct {
		code  string
		wreck func(f *Func)
	}{
		{"Code.F1", func(f *Func) { f.Body = nil }},
		{"Code.F2", func(f *Func) { f.Params[0].Type = B32 }},
		{"Code.F2", func(f *Func) { f.Params = f.Params[:1] }},
		{"Code.F3", func(f *Func) { f.Body.Yield = []Value{1} }},
		{"Code.L1", func(f *Func) { f.Launch.Block = 2000 }},
		{"Code.L1", func(f *Func) { f.Launch.PDL = true }},
		{"Code.V1", func(f *Func) { first(f, OpAdd64).In[0] = 99 }},
		{"Code.V2", func(f *Func) { first(f, OpAdd64).Out[0] = 6 }},
		{"Code.V3", func(f *Func) { first(f, OpAdd64).In[0] = 7 }},
		{"Code.V3", func(f *Func) { first(f, OpStGlobalB32).In[1] = 13 }},
		{"Code.V4", func(f *Func) { first(f, OpAdd64).In[1] = 2 }},
		{"Code.I1", func(f *Func) { first(f, OpAdd64).Op = Op(len(rows)) }},
		{"Code.I2", func(f *Func) { first(f, OpAdd64).Pos = diag.Pos{} }},
		{"Code.I3", func(f *Func) { first(f, OpAdd64).Guard = 4 }},
		{"Code.I4", func(f *Func) { first(f, OpLdGlobalB32).Guard = 4 }},
		{"Code.I5", func(f *Func) { first(f, OpAdd64).Regions = []*Region{{}} }},
		{"Code.I6", func(f *Func) { first(f, OpAdd64).Out = nil }},
		{"Code.I7", func(f *Func) { f.Types[7] = B32 }},
		{"Code.M1", func(f *Func) { first(f, OpSetpS32).Imm = nil }},
		{"Code.M2", func(f *Func) { first(f, OpSetpS32).Imm[0] = 9 }},
		{"Code.M3", func(f *Func) { first(f, OpStGlobalB32).Imm[1] = int64(NC) }},
		{"Code.M3", func(f *Func) { first(f, OpLdGlobalB32).Imm[1] = int64(NoAllocate | EvictLast) }},
		{"Code.C1", func(f *Func) { first(f, OpIf).Regions = nil }},
		{"Code.C2", func(f *Func) { first(f, OpFor).Regions[0].Yield = nil }},
		{"Code.C2", func(f *Func) { first(f, OpFor).Regions[0].Yield[0] = 7 }},
		{"Code.C3", func(f *Func) { first(f, OpIf).Regions[0].Args = []Value{f.NewValue(B32)} }},
	} {
		f, err := sample().Done()
		if err != nil {
			t.Fatal(err)
		}
		c.wreck(f)
		if err := Verify(f).Err(); err == nil || !strings.Contains(err.Error(), "["+c.code+"]") {
			t.Errorf("%s: got %v", c.code, err)
		}
	}
}

// TestTable holds what every row must have.
func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, op := range Rows() {
		r := op.Row()
		if r.Name == "" || r.Doc == "" || r.Source == "" {
			t.Errorf("op %d (%s) has no name, doc or source", op, r.Name)
		}
		if names[r.Name] {
			t.Errorf("two rows named %s", r.Name)
		}
		names[r.Name] = true
		if r.PTX == "" && r.Class != Control {
			t.Errorf("%s has no PTX", r.Name)
		}
		if (r.Class == Pure) != (r.Meaning != nil) {
			t.Errorf("%s is %s but meaning is %t", r.Name, r.Class, r.Meaning != nil)
		}
		if r.Class != Barrier && (r.Memory() || r.Class == Async) != (r.Space != NoSpace && r.Unit > 0 && r.Count > 0) {
			t.Errorf("%s: class and access do not agree", r.Name)
		}
		if r.Meaning != nil && (len(r.Out) != 1 || len(r.In) > 3) {
			t.Errorf("%s: a pure row has one result and up to three inputs", r.Name)
		}
		for _, tie := range r.Ties {
			if r.Out[tie.Out] != r.In[tie.In] {
				t.Errorf("%s: tie of different types", r.Name)
			}
		}
		if got, err := Lookup(r.Name); err != nil || got != op {
			t.Errorf("lookup of %s gives %v, %v", r.Name, got, err)
		}
	}
	if _, err := Lookup("nothing"); err == nil {
		t.Error("lookup of nothing succeeds")
	}
}
