package text_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestEveryRuleIsBroken holds each problem of the corpus to its `// want` line
// and each rule to a line that breaks it.
func TestEveryRuleIsBroken(t *testing.T) {
	broken := map[string]bool{}
	for _, name := range corpus.Errors() {
		for _, f := range corpus.Broken(name) {
			file := name + "/" + f.Name
			var want, got []string
			for i, line := range strings.Split(string(f.Data), "\n") {
				if _, codes, ok := strings.Cut(line, "// want "); ok {
					for _, c := range strings.Fields(codes) {
						want = append(want, fmt.Sprintf("%s:%d %s", file, i+1, c))
						broken[c] = true
					}
				}
			}
			_, err := text.Parse(file, string(f.Data), nil)
			var list diag.List
			if !errors.As(err, &list) {
				t.Errorf("%s: no problems, but %v", file, err)
				continue
			}
			for _, p := range list {
				got = append(got, fmt.Sprintf("%s:%d %s", file, p.Pos.Line, p.Code))
				if p.Pos.Col < 1 || p.Msg == "" {
					t.Errorf("%s: no column or no message: %v", file, p)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: got\n%s\nwant\n%s\n%v", file, strings.Join(got, "\n"), strings.Join(want, "\n"), list)
			}
			if tidy, err := text.FormatSource(file, string(f.Data)); err == nil && tidy != string(f.Data) {
				t.Errorf("%s is stored as\n%s\nformatted it is\n%s", file, f.Data, tidy)
			}
		}
	}
	for _, r := range append(ir.Rules(), text.Rules()...) {
		if !broken[r.Code] {
			t.Errorf("no corpus line breaks %s: %s", r.Code, r.Text)
		}
		if doc, ok := text.Explain(strings.ToLower(r.Code)); !ok || doc.Text != r.Text {
			t.Errorf("%s is not explained", r.Code)
		}
	}
}

// TestExamplesAreText holds the rows' examples to the canonical form.
func TestExamplesAreText(t *testing.T) {
	for _, op := range ir.Ops() {
		if tidy, err := text.FormatSource(op.Name, op.Example); err != nil || tidy != op.Example+"\n" {
			t.Errorf("%s: the example is written %s (%v)", op.Name, tidy, err)
		}
	}
}

// TestWrongViewSaysTheWayOut is the message of the main job's wrong View.
func TestWrongViewSaysTheWayOut(t *testing.T) {
	src := strings.Replace(corpus.Program("matmul_f16_i6"), "u8[96] local(3)", "u8[64] local(2)", 1)
	_, err := text.Parse("matmul.tile", src, nil)
	want := "matmul.tile:10:19: rb holds 16 bits per thread (2 × u8), the view 24 (4 × i6) [View.C2]\n" +
		"\thelp: view it as i4, whose 4 slots fill 16 bits, or load rb as u8[96] local(3).spatial(32)"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestLimits(t *testing.T) {
	head := "program p<1>(n: i32) warps=1 {\n"
	for name, src := range map[string]string{
		"text":       head + strings.Repeat(" ", text.MaxText) + "}\n",
		"name":       head + strings.Repeat("x", text.MaxName+1) + " = 3\n}\n",
		"operators":  head + "x = n" + strings.Repeat("+n", text.MaxOperators+1) + "\n}\n",
		"minus":      head + "x = " + strings.Repeat("-", 100_000) + "n\n}\n",
		"blocks":     head + strings.Repeat("while n < 3 {\n", 100) + strings.Repeat("}\n", 101),
		"elses":      head + "if n < 3 {\n}" + strings.Repeat(" else if n < 3 {\n}", 100) + "\n}\n",
		"bad blocks": head + strings.Repeat("wile n < 3 {\n", 1000) + strings.Repeat("}\n", 1001),
		"operands":   head + "x = Add(" + strings.Repeat("n, ", 2000) + "n) : i32\n}\n",
		"offsets":    head + "x = Add(offset=[" + strings.Repeat("n, ", 2000) + "n]) : i32\n}\n",
		"names":      head + strings.Repeat("x, ", 2000) + "x = Add(n)\n}\n",
		"statements": head + strings.Repeat("x=3\n", text.MaxStatements+1) + "}\n",
		"grid":       "program p<" + strings.Repeat("1, ", 2000) + "1>() warps=1 {\n}\n",
		"parameters": "program p<1>(" + strings.Repeat("a: i32, ", 2000) + "a: i32) warps=1 {\n}\n",
	} {
		_, err := text.Parse(name, src, nil)
		var list diag.List
		if !errors.As(err, &list) || !slices.ContainsFunc(list, func(p diag.Problem) bool { return p.Code == "Text.E11" }) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// As many problems as lines are not all kept.
	_, err := text.Parse("p", head+strings.Repeat("x = $\n", 10_000)+"}\n", nil)
	var list diag.List
	if !errors.As(err, &list) || len(list) > 20_000 {
		t.Errorf("%d problems", len(list))
	}
}

// TestWarpsAreNamedWhereTheyStand holds Prog.C1 to the number, as it is written.
func TestWarpsAreNamedWhereTheyStand(t *testing.T) {
	for _, warps := range []string{"99999999999", "0", "-3", "33", "W*8"} {
		head := "program p<1>() warps="
		if warps == "W*8" {
			head = "program p[W=8]<1>() warps="
		}
		_, err := text.Parse("p.tile", head+warps+" {\n}\n", nil)
		var list diag.List
		if !errors.As(err, &list) || len(list) != 1 {
			t.Errorf("warps=%s: %v", warps, err)
			continue
		}
		value := strings.Replace(warps, "W*8", "64", 1)
		if p := list[0]; p.Code != "Prog.C1" || p.Pos.Line != 1 || p.Pos.Col != len(head)+1 || p.End.Col != len(head)+1+len(warps) || p.Msg != "warps is "+value {
			t.Errorf("warps=%s: %+v", warps, p)
		}
	}
}

// TestByteOrderMark holds that a mark before the text moves nothing, and that one
// elsewhere is no text.
func TestByteOrderMark(t *testing.T) {
	src := corpus.Program("vector_add")
	p, err := text.Parse("p.tile", "\ufeff"+src, nil)
	if err != nil || p.Source != src {
		t.Fatalf("%v; the source is %.20q", err, p.Source)
	}
	if tidy, err := text.FormatSource("p.tile", "\ufeff"+src); err != nil || tidy != src {
		t.Errorf("formatted: %v, %.20q", err, tidy)
	}
	_, err = text.Parse("p.tile", "\ufeffprogramm p<1>() {\n}\n", nil)
	if err == nil || !strings.HasPrefix(err.Error(), "p.tile:1:1: ") {
		t.Errorf("%v", err)
	}
	for _, src := range []string{"\ufeff\ufeff" + src, "program\ufeff p<1>() {\n}\n"} {
		if _, err := text.Parse("p.tile", src, nil); err == nil {
			t.Errorf("%.20q is read", src)
		}
	}
}
