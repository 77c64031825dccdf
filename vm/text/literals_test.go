package text_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Numbers may be hexadecimal, infinite or none; bools have words. All read back as they are
// printed.
func TestLiterals(t *testing.T) {
	src := `program p[B=0x20]<1>(x: *f32) warps=1 {
	gx = ViewGlobal(x) : global f32[B]
	v = AllocateRegister(init=-inf) : register f32[B] spatial(B)
	n = AllocateRegister(init=nan) : register f32[B] spatial(B)
	h = AllocateRegister(init=0x20) : register i32[B] spatial(B)
	c = Less(v, inf) : register bool[B] spatial(B)
	v = Where(c, -inf, nan)
	v = Mul(v, 0x1.8p-1)
	k = -0x10 + 0XFF
	while true {
		if k == 0xef && !false {
			break
		}
		k = k + 1
	}
	StoreGlobal(gx, v, offset=[k - 0xef])
}
`
	p, err := text.Parse("p.tile", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := text.Format(p)
	for _, want := range []string{"init=-inf", "init=nan", "init=32", "Less(v, inf)", "Where(c, -inf, nan)", "Mul(v, 0.75)", "-16 + 255", "while 1 == 1", "k == 239 && !(1 != 1)"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	q, err := text.Parse("p.tile", out, nil)
	if err != nil || text.Format(q) != out {
		t.Errorf("does not read back: %v", err)
	}
	if p, err := text.Parse("p.tile", src, map[string]string{"B": "0x20"}); err != nil || p.Bindings["B"] != "32" {
		t.Errorf("B is bound to a hexadecimal number: %v", err)
	}
	if _, err := text.Parse("p.tile", src, map[string]string{"B": "0x_20"}); err == nil {
		t.Error("0x_20 is a number")
	}
	for _, init := range []string{"-nan", "nan", "0x1ff"} {
		p, err := text.Parse("p.tile", "program p<1>() warps=1 {\n\tn = AllocateRegister(init="+init+") : register i8[32] spatial(32)\n}\n", nil)
		if err == nil {
			err = ir.Verify(p).Err()
		}
		if err == nil || !strings.Contains(err.Error(), "AllocateRegister.C1") {
			t.Errorf("init=%s of i8: %v", init, err)
		}
	}
	for _, word := range []string{"inf", "nan", "true", "false"} {
		if _, err := text.Parse("p.tile", "program p<1>() warps=1 {\n\t"+word+" = 1\n}\n", nil); err == nil || !strings.Contains(err.Error(), "word of the language [Text.E6]") {
			t.Errorf("%s as a name: %v", word, err)
		}
	}
	for _, number := range []string{"0x", "0xg", "0x1p", "0x1.8", "0xfffffffffffffffff"} {
		if _, err := text.Parse("p.tile", "program p<1>() warps=1 {\n\tk = "+number+"\n}\n", nil); err == nil {
			t.Errorf("%s is a number", number)
		}
	}
}

// A layout that one assignment of a variable leaves out is that of the others, before it or
// behind it; variables of two blocks that have one name each have their own.
func TestLayoutsOfVariables(t *testing.T) {
	const head = "program p<1>(x: *f32) warps=1 {\n\tgx = ViewGlobal(x) : global f32[64]\n"
	p, err := text.Parse("p.tile", head+`	v = LoadGlobal(gx, offset=[0]) : register f32[64]
	v = Add(v, v) : register f32[64] spatial(32).local(2)
	v = Add(v, v) : register f32[64]
	if 1 == 1 {
		w = Add(v, v) : register f32[64] spatial(32).local(2)
	}
	if 1 == 1 {
		w = ConvertLayout(v) : register f32[64] local(2).spatial(32)
	}
}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.Format(p), "spatial(32).local(2)"); n != 4 {
		t.Errorf("%d layouts, not 4:\n%s", n, text.Format(p))
	}
	for _, second := range []string{"f32[64] local(2).spatial(32)", "f16[64]", "f32[32]"} {
		_, err := text.ParseOnly("p.tile", head+"\tv = LoadGlobal(gx, offset=[0]) : register f32[64] spatial(32).local(2)\n\tv = Add(v, v) : register "+second+"\n}\n", nil)
		if err == nil || !strings.Contains(err.Error(), "p.tile:4:") || !strings.Contains(err.Error(), "[Var.C1]") {
			t.Errorf("%s: %v", second, err)
		}
	}
}

// What other languages write is answered with how it is written here.
func TestSaysHowItIsWritten(t *testing.T) {
	for line, help := range map[string]string{
		"if N = 1 {":                "help: == compares",
		"if N > 0 and N < 3 {":      "help: write &&",
		"if N > 0 or N < 3 {":       "help: write ||",
		"if not N > 0 {":            "help: write !",
		"elif N > 0 {":              "help: write else if",
		"for i in range(N) {":       "help: write for i in from..to",
		"if N // 2 == 1 {":          "help: // begins a comment",
		"k = min(N N)":              "needs a comma, not N",
		"for i in 0..5 step N {\n}": "must be a constant other than 0 [For.C1]\n\thelp: count turns",
	} {
		_, err := text.Parse("p.tile", "program p<1>(N: i32) warps=1 {\n\t"+line+"\n}\n", nil)
		if err == nil || !strings.Contains(err.Error(), help) {
			t.Errorf("%s: %v", line, err)
		}
	}
	_, err := text.Parse("p.tile", "program p<1>(N: i32) warps=1 maxreg=3 {\n}\n", nil)
	if err == nil || !strings.Contains(err.Error(), "warps=4 cluster=[2, 1] resident=2") {
		t.Errorf("%v", err)
	}
	_, err = text.Parse("p.tile", "program p[W: type = u3]<1>() warps=1 {\n}\n", map[string]string{"W": "foo"})
	if err == nil || strings.Contains(err.Error(), "Type.N1") || !strings.Contains(err.Error(), "[Text.E9]\n\thelp: element types are") {
		t.Errorf("%v", err)
	}
	_, err = text.Parse("p.tile", "program p[BM=1, BN=1]<1>() warps=1 {\n}\n", map[string]string{"Quite": "1"})
	if err == nil || !strings.Contains(err.Error(), "help: it has BM, BN") {
		t.Errorf("%v", err)
	}
}
