package text_test

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func TestCorpusRoundTrip(t *testing.T) {
	for _, name := range corpus.Names() {
		src := corpus.Program(name)
		p, err := text.Parse(name, src, nil)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		got := text.Format(p)
		if !strings.Contains(src, "]<") && got != src {
			t.Errorf("%s: prints as\n%s\nstored is\n%s", name, got, src)
		}
		q, err := text.Parse(name, got, nil)
		if err != nil {
			t.Errorf("%s: the printed program does not parse: %v\n%s", name, err, got)
			continue
		}
		if again := text.Format(q); again != got {
			t.Errorf("%s: printed twice differs:\n%s\n%s", name, got, again)
		}
		tidy, err := text.FormatSource(name, src)
		if err != nil || tidy != src {
			t.Errorf("%s: FormatSource gives %v\n%s\nstored is\n%s", name, err, tidy, src)
		}
	}
}

// TestFormatIsTheProgram compares trees, not only texts: a printed program reads
// back as the same program.
func TestFormatIsTheProgram(t *testing.T) {
	for _, name := range corpus.Names() {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		q, err := text.Parse(name, text.Format(p), nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(p, q); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if d := diff(p, ir.Clone(p)); d != "" {
			t.Errorf("%s: clone: %s", name, d)
		}
		if c := ir.Clone(p); text.Format(c) != text.Format(p) {
			t.Errorf("%s: the clone prints as\n%s", name, text.Format(c))
		}
	}
}

// diff compares programs without positions, source, bindings and comments, which
// other tests compare through the text.
func diff(p, q *ir.Program) string {
	return cmp.Diff(p, q,
		cmpopts.IgnoreTypes(diag.Pos{}, []diag.Pos{}, &ir.Comments{}),
		cmpopts.IgnoreFields(ir.Program{}, "Source", "Bindings"),
		cmp.Comparer(func(a, b *ir.Op) bool { return a == b }),
		cmp.Comparer(func(a, b layout.Layout) bool { return a.Equal(b) }),
		cmp.Comparer(func(a, b bits.Placement) bool { return a.Equal(b) }),
		cmp.Comparer(func(a, b ir.Expr) bool { return (a == nil) == (b == nil) && (a == nil || a.String() == b.String()) }),
		cmpopts.EquateEmpty())
}

// TestCompileTimeParameters binds the any-width product to every type that fills
// bytes, and compares its packed layout with vm/layout's.
func TestCompileTimeParameters(t *testing.T) {
	tile := map[string]layout.Layout{
		"16": layout.Local(2, 1).ColumnSpatial(4, 8).Local(2, 1),
		"32": layout.Local(4, 1).ColumnSpatial(4, 8).Local(2, 1),
	}
	for _, name := range []string{"matmul_any", "rearrange_any", "matmul_scaled", "matmul_scaled_mul"} {
		for _, elem := range dtype.All() {
			if elem.Bits() > 8 || elem == dtype.Bool || elem == dtype.F8E8M0 {
				continue
			}
			for bk, l := range tile {
				p, err := text.Parse(name, corpus.Program(name), map[string]string{"W": elem.String(), "BK": bk})
				packed, packErr := layout.PackedView(elem.Bits(), l)
				if (err == nil) != (packErr == nil) {
					t.Errorf("%s of %s, BK=%s: the program %v, the packed view %v", name, elem, bk, err, packErr)
				}
				if err != nil {
					continue
				}
				if p.Bindings["W"] != elem.String() || p.Bindings["BK"] != bk {
					t.Errorf("bindings are %v", p.Bindings)
				}
				if want := "register u8[" + strconv.Itoa(packed.Size()) + "] " + packed.String() + "\n"; !strings.Contains(text.Format(p), want) {
					t.Errorf("%s of %s, BK=%s: no %s in\n%s", name, elem, bk, want, text.Format(p))
				}
			}
		}
	}
	for _, bind := range []map[string]string{{"W": "i9"}, {"BK": "x"}, {"Q": "1"}, {"BK": "0"}} {
		if _, err := text.Parse("p", corpus.Program("matmul_any"), bind); err == nil {
			t.Errorf("%v is accepted", bind)
		}
	}
	if _, err := text.Parse("p", corpus.Program("matmul_f16_i6"), map[string]string{"W": "i6"}); err == nil || !strings.Contains(err.Error(), "[Text.E9]") {
		t.Errorf("a binding of no parameter: %v", err)
	}
}

func TestLayoutParameters(t *testing.T) {
	src := `program p[L: layout = local(2, 1).spatial(8, 4), N=2, T: type = f16]<1>() warps=1 {
	a = AllocateRegister(init=-1.5) : register T[16, 4*N] L.local(1, N)
	b = AllocateRegister(init=N) : register T[32] reduce(L, [1])
}
`
	p, err := text.Parse("p", src, nil)
	if err == nil || !strings.Contains(err.Error(), "p:3:33: ") {
		t.Fatalf("got %v, %v", p, err)
	}
	p, err = text.Parse("p", strings.Replace(src, "[32]", "[16]", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "program p<1>() warps=1 {\n" +
		"\ta = AllocateRegister(init=-1.5) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)\n" +
		"\tb = AllocateRegister(init=2) : register f16[16] "
	if got := text.Format(p); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s", got)
	}
	// Columns of layout problems are those of the text as written.
	_, err = text.Parse("p", strings.Replace(src, "L.local(1, N)", "L.local(1, N).spatal(2)", 1), nil)
	if err == nil || !strings.Contains(err.Error(), "p:2:70: ") {
		t.Errorf("got %v", err)
	}
}

const commented = `// What it is for.

// More of it.
program p<n>(x: *f32, n: i32) warps=1 { // the head
	// first

	i = BlockIndices() // which block
	y: i64 = 3
	// before if
	if i < n { // then
		// only a comment
	} else if i == n {
		i = i + 1
		// end
	} else { // else
		z = 2
	} // after if

	for k in 0..4 {
	}
	// last
}

// After it.
`

func TestCommentsAndBlankLinesStay(t *testing.T) {
	p, err := text.Parse("p", commented, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text.Format(p); got != commented {
		t.Errorf("Format gives\n%s", got)
	}
	if got, err := text.FormatSource("p", commented); err != nil || got != commented {
		t.Errorf("FormatSource gives %v\n%s", err, got)
	}
	messy := "\n\n// What it is for.\n\n\n// More of it.\nprogram  p < n > ( x :*f32,n:i32 )warps = 1 {// the head\n\n// first\n\n\n  i=BlockIndices( ) // which block\ny:i64=3\n// before if\nif i<n { // then\n// only a comment\n\n}else if i==n{i=i+1\n// end\n}else{ // else\nz=2\n} // after if\n\n\nfor k in 0 .. 4 { }\n// last\n\n}\n\n\n// After it.\n\n"
	if got, err := text.FormatSource("p", messy); err != nil || got != commented {
		t.Errorf("FormatSource gives %v\n%s", err, got)
	}
	p, err = text.Parse("p", messy, nil)
	if err != nil || text.Format(p) != commented {
		t.Errorf("Format gives %v\n%s", err, text.Format(p))
	}
}

const placed = `program p<1>() warps=1 {
	r = AllocateRegister(init=0) : register u8[128] local(4).spatial(32)
	a = View(r) : register u4[256] local(8).spatial(32) place=4[(0,16)*4+4] // two codes under one mask
	b = View(r) : register u4[256] local(8).spatial(32) place=4[0*8+4]
	c = View(r) : register u4[256] local(8).spatial(32)
	d = View(r) : register u2[512] local(16).spatial(32) place=2[0:1|31:1,1*15+2]
	place = 4
	h = Cast(a) : register f16[256] local(8).spatial(32)
}
`

// TestPlacements prints placements as they are read, tells types with and without
// one apart, and points at what is wrong in one.
func TestPlacements(t *testing.T) {
	p, err := text.Parse("p", placed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text.Format(p); got != placed {
		t.Errorf("printed as\n%s", got)
	}
	if q, err := text.Parse("p", text.Format(ir.Clone(p)), nil); err != nil || diff(p, q) != "" {
		t.Errorf("read back (%v): %s", err, diff(p, q))
	}
	var types []ir.Type
	p.Body.Walk(func(s ir.Stmt) bool {
		if in, ok := s.(*ir.Instr); ok && in.Op.Name == "View" {
			types = append(types, in.Out[0].Type)
		}
		return true
	})
	for i, x := range types {
		for j, y := range types {
			if x.Equal(y) != (i == j) {
				t.Errorf("Equal(%s, %s) is %v", x, y, x.Equal(y))
			}
		}
	}
	loose := strings.NewReplacer("place=4[(0,16)*4+4]", "place = 4 [ (0, 16) * 4 + 4 ]/1", "place=4[0*8+4]", "place=4[0,4,8,12,16,20,24,28]").Replace(placed)
	if p, err := text.Parse("p", loose, nil); err != nil || text.Format(p) != placed {
		t.Errorf("written loosely: %v", err)
	}
	const long, tail = "4[(0,16)*4+4]", "place=4[(0,16)*4+4]"
	for in, want := range map[string]string{
		"4[(0,16)*4+4,99]":  "p:3:", // beyond the words, or the elements
		"4[(0,16)*4+":       "p:3:60: ",
		"4[(0,16)*4+4]/x":   "p:3:73: ",
		"4[(0,,16)*4+4]":    "p:3:65: ",
		"four":              "p:3:60: ",
		"4[(0,16)*4+4] 3":   "p:3:74: ",
		"4[(0,16)*4+4] k=3": "p:3:74: ",
	} {
		_, err := text.Parse("p", strings.Replace(placed, long, in, 1), nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
	if _, err := text.Parse("p", strings.Replace(placed, tail, "place", 1), nil); err == nil {
		t.Error("place without = is accepted")
	}
	if _, err := text.Parse("p", strings.Replace(placed, "register u4[256] local(8).spatial(32) "+tail, "global u4[256] "+tail, 1), nil); err == nil || !strings.Contains(err.Error(), "has no placement") {
		t.Errorf("a global tensor: %v", err)
	}
}

func TestNumbersAndOperators(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"-9223372036854775808", "-9223372036854775808"},
		{"- 3 - -4", "-3 - -4"},
		{"((n))*(2 + 3)", "n*(2 + 3)"},
		{"n - (n - n)", "n - (n - n)"},
		{"(n - n) - n", "n - n - n"},
		{"-(n + 1)*-n", "-(n + 1)*-n"},
		{"n%2*3", "n % 2*3"},
		{"n%(2*3)", "n % (2*3)"},
		{"min(n,(max(1,n+2)))", "min(n, max(1, n + 2))"},
		{"(n < 3) == (n > 4)", "(n < 3) == (n > 4)"},
		{"!(n < 3) || n >= 2 && n != 1", "!(n < 3) || n >= 2 && n != 1"},
		{"bits(f6e3m2) + gcd(12, 18)", "12"},
		{"2.50", "2.5"}, {"1e10", "1e+10"}, {"7.0", "7.0"},
	} {
		src := "program p<1>(n: i32) warps=1 {\n\tx = " + c.in + "\n}\n"
		p, err := text.ParseOnly("p", src, nil)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		want := strings.Replace(src, c.in, c.want, 1)
		if got := text.Format(p); !strings.HasPrefix(got, strings.TrimSuffix(want, "\n}\n")) && !strings.Contains(got, ": i64 = "+c.want) {
			t.Errorf("%s prints as\n%s", c.in, got)
		}
		if tidy, err := text.FormatSource("p", text.Format(p)); err != nil || tidy != text.Format(p) {
			t.Errorf("%s is tidied to %v\n%s", c.in, err, tidy)
		}
	}
}

// TestMutants has programs of the corpus with a number, a word or a piece of a list replaced be read, or refused with
// located problems: neither reading nor the rules of instructions may fail otherwise, whatever else is wrong.
func TestMutants(t *testing.T) {
	token := regexp.MustCompile(`\d+|[a-z_]\w*\(|, \d+|f16|f32|u8|i32|shared|register|global`)
	r := rand.New(rand.NewPCG(1, 2))
	each := 60
	if testing.Short() {
		each = 4
	}
	refused, all := 0, 0
	for _, name := range corpus.Names() {
		src := corpus.Program(name)
		places := token.FindAllStringIndex(src, -1)
		for range each {
			at := places[r.IntN(len(places))]
			by := []string{"0", "1", "2", "3", "7", "64", "512", "100000", "4294967296", ""}[r.IntN(10)]
			if r.IntN(2) == 0 { // something that stands elsewhere
				from := places[r.IntN(len(places))]
				by = src[from[0]:from[1]]
			}
			mutant := src[:at[0]] + by + src[at[1]:]
			func() {
				defer func() {
					if e := recover(); e != nil {
						t.Errorf("%s with %q for %q at byte %d: %v", name, by, src[at[0]:at[1]], at[0], e)
					}
				}()
				_, err := text.Parse(name, mutant, nil)
				if all++; err != nil {
					refused++
				}
			}()
		}
	}
	t.Logf("%d of %d are refused", refused, all)
	if refused < all/4 {
		t.Errorf("of %d mutants %d are refused", all, refused)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range corpus.Names() {
		f.Add(corpus.Program(name))
	}
	for _, name := range corpus.Errors() {
		for _, file := range corpus.Broken(name) {
			f.Add(string(file.Data))
		}
	}
	f.Add(commented)
	f.Add(placed)
	f.Fuzz(func(t *testing.T, src string) {
		tidy, err := text.FormatSource("fuzz", src)
		if err == nil {
			if again, err := text.FormatSource("fuzz", tidy); err != nil || again != tidy {
				t.Errorf("tidied twice differs (%v):\n%q\n%q", err, tidy, again)
			}
		}
		p, err := text.Parse("fuzz", src, nil)
		if err != nil {
			return
		}
		printed := text.Format(p)
		q, err := text.Parse("fuzz", printed, nil)
		if err != nil {
			t.Fatalf("the printed program does not parse: %v\n%s", err, printed)
		}
		if again := text.Format(q); again != printed {
			t.Errorf("printed twice differs:\n%s\n%s", printed, again)
		}
		if tidy, err := text.FormatSource("fuzz", printed); err != nil || tidy != printed {
			t.Errorf("FormatSource changes what Format prints (%v):\n%s\n%s", err, printed, tidy)
		}
		if d := diff(p, q); d != "" {
			t.Errorf("another program: %s", d)
		}
	})
}
