package cell

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// bench is an engine whose output is collected.
type bench struct {
	*Engine
	out strings.Builder
	n   int
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{}
	e, err := New(Hooks{
		Write:  func(_ int64, _ string, p []byte) { b.out.Write(p) },
		Sync:   func() {},
		Result: func(_ int64, vals []any, ts []string) { fmt.Fprintln(&b.out, append([]any{"=>"}, vals...)...) },
		Stdin:  strings.NewReader(""),
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Engine = e
	return b
}

// run runs a cell and returns its output, or the error text.
func (b *bench) run(src string) string {
	b.n++
	b.out.Reset()
	o := b.Run(context.Background(), int64(b.n), fmt.Sprintf("cell%d", b.n), src)
	if o.Err != nil {
		return b.out.String() + "ERROR " + o.Err.Value
	}
	return b.out.String()
}

// A cell whose library call does not end with it is told which calls do.
func TestUnendedCall(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	o := b.Run(ctx, 1, "cell1", "import \"sync\"\nvar mu sync.Mutex\nmu.Lock()\nmu.Lock()")
	if !o.Tainted || o.Err == nil || !strings.Contains(o.Err.Value, "lab.Context()") {
		t.Errorf("outcome %+v, error %v", o, o.Err)
	}
}

// Cells beyond the limits are refused before a recursive part sees them.
func TestLimits(t *testing.T) {
	b := newBench(t)
	for _, src := range []string{
		strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300),
		strings.Repeat("{", 100_000),
		"x := " + strings.Repeat("!", 50_000) + "true",
		"x := 1" + strings.Repeat(" +\n1", 50_000),
		"x := 1\n" + strings.Repeat("// padding\n", 100_000),
		"if false {}" + strings.Repeat(" else if false {}", 20_000),
	} {
		start := time.Now()
		if got := b.run(src); !strings.Contains(got, "[Cell.E11]") {
			t.Errorf("%.20q…: %.200q", src, got)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%.20q…: took %s", src, d)
		}
	}
	if got := b.run("x := 1" + strings.Repeat(" +\n1", 1_500) + "\nx"); got != "=> 1501\n" {
		t.Errorf("a long sum: %.200q", got)
	}
}

// What cannot be made right is refused.
func TestRefusals(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ src, code string }{
		{"import \"fmt\"\ntype S struct{ X int }\nfunc (S) String() string { return \"\" }\nm := map[fmt.Stringer]int{S{1}: 5}\nm[S{1}]", "[Cell.E10]"},
		{"import \"no/such\"", "[Cell.E5]"},
		{"type Sh interface{ M() }\ntype K struct{ s Sh; n int }\nm := map[K]int{}\nm[K{}]", "[Cell.E10]"},
		{"import \"fmt\"\ntype V2 int\ntype U2 struct{ X []V2 }\nfmt.Printf(\"%d %#v\", 1, U2{})", "cell4:4:25: cells cannot print U2 as Go source: the interpreter does not know the name of main.V2"},
		{"import \"encoding/json\"\ntype In struct{ A int }\ntype Out struct{ In; B int; Next []*Out }\njson.Marshal([]Out{{}})", "cannot see the embedded fields of main.Out, which has itself inside"},
		{"import \"fmt\"\ntype U3 int\nfmt.Printf(\"%[1]v %[1]T\", U3(1))", "cell6:3:12: "},
		{"import \"reflect\"\ntype N int\nreflect.TypeOf(N(3)).String()", "cell7:3:16: cells cannot look into main.N by reflection"},
		{"import \"reflect\"\ntype N2 int\ntype S2 struct{ X []N2 }\nfunc f() int { return reflect.TypeFor[*S2]().NumMethod() }\nf()", "cell8:4:23: cells cannot look into *main.S2 by reflection: of main.N2"},
		{"import \"reflect\"\ntype N2 int\ntype S2 struct{ X []N2 }\nvar a any = S2{}\nreflect.ValueOf(a).Kind()", "cells cannot look into main.S2 by reflection: of main.N2"},
		{"import \"reflect\"\na = map[string]N2{}\nreflect.ValueOf(a).Kind()", "cells cannot look into map[string]main.N2 by reflection"},
		{"import \"reflect\"\nreflect.ValueOf([]any{N2(3)}).Index(0).Elem().Kind()", "cells cannot look into main.N2 by reflection"},
		{"import \"reflect\"\ntype M struct{ A int }\nfunc (M) Get() int { return 1 }\nreflect.ValueOf(M{}).MethodByName(\"Get\").IsValid()", "cells cannot find methods of main.M by reflection"},
		{"import \"encoding/json\"\ntype L int\nfunc (L) MarshalText() ([]byte, error) { return nil, nil }\ntype H struct{ L L }\nfunc js(v any) { json.Marshal(v) }\njs(H{})", "encoding/json cannot call the methods of main.L inside of other values"},
		{"import \"encoding/json\"\njson.Unmarshal(nil, any(new(L)))", "encoding/json cannot call the methods of main.L inside of other values"},
		{"import \"fmt\"\ntype V3 int\ntype U3a struct{ X []V3 }\nvar a3 any = U3a{}\nfmt.Printf(\"%#v\", a3)", "cells cannot print main.U3a as Go source"},
		{"import \"fmt\"\ntype F struct{ A int }\nfunc (F) Format(fmt.State, rune) {}\nfmt.Println([]F{{}})", "cannot call method Format of F, which a cell declared, inside of other values"},
		{"import (\"io\"; \"text/template\")\ntype Lv int\nfunc (Lv) String() string { return \"\" }\ntype R struct{ L []Lv }\ntemplate.Must(template.New(\"\").Parse(\"\")).Execute(io.Discard, R{})", "cell17:5:63: templates cannot call the methods of main.Lv"},
		{"import (\"io\"; \"text/template\")\ntype Lw int\nfunc (Lw) String() string { return \"\" }\ntype Rw struct{ L []Lw }\nvar av any = map[string]any{\"x\": &Rw{}}\ntemplate.Must(template.New(\"\").Parse(\"\")).Execute(io.Discard, av)", "templates cannot call the methods of *main.Rw"},
		{"import \"reflect\"\nf := reflect.ValueOf(1).Interface", "cell19:2:6: cells cannot use this method"},
	} {
		if got := b.run(c.src); !strings.Contains(got, c.code) {
			t.Errorf("%s: %q, want %s", c.src, got, c.code)
		}
	}
	if got := b.run("1+1"); got != "=> 2\n" {
		t.Errorf("after refusals: %q", got)
	}
}

func TestCells(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ src, want string }{
		{"1+1", "=> 2\n"},
		{"x := 5\nx", "=> 5\n"},
		{"x*2", "=> 10\n"},
		{"import \"fmt\"\nfmt.Println(\"hi\", x)", "hi 5\n"},
		{"for i := range 3 { fmt.Print(i, \" \") }", "0 1 2 "},
		{"if true { x := 2; _ = x }\nx", "=> 5\n"},
		{"func f(a int) int { return a + x }\nf(1)", "=> 6\n"},
		{"x = 7\nf(1)", "=> 8\n"},
		{"type T struct{ A int }\nfunc (t T) Get() int { return t.A }\nv := T{3}\nv.Get()", "=> 3\n"},
		{"func (t *T) Set(a int) { t.A = a }\nv.Set(9)\nv.Get()", "=> 9\n"},
		{"var a any = v\nswitch u := a.(type) { case int: fmt.Println(\"int\"); case T: fmt.Println(\"T\", u.A) }", "T 9\n"},
		{"fs := []func() int{}\nfor i := 0; i < 3; i++ { fs = append(fs, func() int { return i }) }\nfor _, g := range fs { fmt.Print(g(), \" \") }", "0 1 2 "},
		{"func d() (s string) { for i := 0; i < 3; i++ { defer func(k int) { s += fmt.Sprint(k) }(i) }; return \"r\" }\nd()", "=> r210\n"},
		{"func r() (err error) { defer func() { if e := recover(); e != nil { err = fmt.Errorf(\"got %v\", e) } }(); panic(\"no\") }\nr()", "=> got no\n"},
		{"import \"slices\"\nxs := []int{3,1,2}\nslices.Sort(xs)\nxs", "=> [1 2 3]\n"},
		{"import \"maps\"\nm := map[string]int{\"b\":2,\"a\":1}\nslices.Sorted(maps.Keys(m))", "=> [a b]\n"},
		{"for k, v := range maps.All(map[int]int{1: 2}) { fmt.Println(k, v) }", "1 2\n"},
		{"func Map[A, B any](s []A, f func(A) B) []B { var out []B; for _, a := range s { out = append(out, f(a)) }; return out }\nMap(xs, func(i int) string { return fmt.Sprint(i, \"!\") })", "=> [1! 2! 3!]\n"},
		{"type Stack[E any] struct { items []E }\nfunc (s *Stack[E]) Push(e E) { s.items = append(s.items, e) }\nfunc (s *Stack[E]) Len() int { return len(s.items) }\nvar st Stack[string]\nst.Push(\"a\"); st.Push(\"b\")\nst.Len()", "=> 2\n"},
		{"min(3, 1, 2), max(2.5, 1)", "ERROR cell20:1:1: syntax error: expected 1 expression"},
		{"func two() (int, string) { return 1, \"z\" }\ntwo()", "=> 1 z\n"},
		{"p := new(42)\n*p", "=> 42\n"},
		{"func f(a int) int { return a * 100 }\nf(2)", "=> 200\n"},
		{"func g(a int) int { return f(a) + 1 }\ng(1)", "=> 101\n"},
		{"func f(a int) int { return a * 1000 }\ng(1)", "=> 1001\n"},
		{"x := \"now a string\"\nx", "=> now a string\n"},
		{"y := undefinedName + alsoMissing", "ERROR cell27:1:6: undefined: undefinedName (and 1 more)"},
		{"T.Get(v)", "=> 9\n"},
		{"package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"main ran\") }", "main ran\n"},
		{"x", "=> now a string\n"},
		{"// only a comment", ""},
		{"arr := [3]int{1,2,3}\nvar nilp *T\nnilp.A", "ERROR invalid memory address or nil pointer dereference"},
		{"type Stringy int\nfunc (s Stringy) String() string { return \"S!\" }\nStringy(3)", "=> S!\n"},
		{"import \"os\"\nos.Exit(3)", "ERROR the cell called os.Exit(3)"},
		{"var e error = fmt.Errorf(\"x\")\ne == nil", "=> false\n"},
		{"v, ok := m[\"a\"]\nif ok { fmt.Println(v) }", "1\n"},
		{"func() int { return 5 }()", "=> 5\n"},
		{"clear(m)\nlen(m)", "=> 0\n"},
		{"func try(bad bool) (int, error) { if bad { return 0, fmt.Errorf(\"bad %d\", 1) }; return 7, nil }\ntry(true)", "ERROR bad 1"},
		{"try(false)", "=> 7\n"},
		{"func three() (int, string, error) { return 1, \"a\", nil }\nthree()", "=> 1 a\n"},
		{"fmt.Errorf(\"a value\")", "=> a value\n"},
		{"type K struct{ A int }\nfmt.Printf(\"%T %T %5T|%T %T %v\", K{}, &K{}, []K{}, map[string]*K{}, 1, K{2})", "main.K *main.K []main.K|map[string]*main.K int {2}"},
		{"type F float64\nvar af, ak, ap any = F(1), K{1}, &K{1}\nfmt.Printf(\"%T %T %T %T\", af, ak, ap, any(2))", "main.F main.K *main.K int"},
		{"type Col int\nfunc (c Col) String() string { return [...]string{\"red\", \"green\"}[c] }\n[]Col{0, 1}", "=> [red green]\n"},
		{"map[string]Col{\"a\": 1}", "=> map[a:green]\n"},
		{"var ac any = Col(1)\nac", "=> green\n"},
		{"[]any{ac, Col(0)}", "=> [green red]\n"},
		{"type Gen[E any] struct{ V E }\nGen[Col]{1}", "=> {green}\n"}, // Col is of an earlier cell
		{"func pair() ([]Col, int) { return []Col{1}, 2 }\npair()", "=> [green] 2\n"},
		{"panic(Col(1))", "ERROR green"},
		{"panic(K{7})", "ERROR {7}"},
		{"type Named interface{ String() string }\nvar named Named = Col(1)\nnamed", "=> green\n"},
		{"type Temp interface{ K() float64 }\ntype Cel float64\nfunc (c Cel) K() float64 { return float64(c) + 273 }\nvar temps = []Temp{Cel(1)}\ntemps", "=> [1]\n"},
		{"func (c Cel) String() string { return \"cel\" }\ntemps", "=> [cel]\n"}, // values of earlier cells get the method
		{"fmt.Println(temps[0], any(temps[0]), temps[0].(fmt.Stringer))", "cel cel cel\n"},
		{"type Fah float64\nfunc (f Fah) K() float64 { return float64(f) }\n_, isFah := temps[0].(Fah)\nisFah", "=> false\n"},
		{"import \"io\"\ntype Z struct{ n int; s string }\nfunc (z Z) Read([]byte) (int, error) { return z.n, io.EOF }\nvar rd io.Reader = Z{3, \"z\"}\nrd", "=> {3 z}\n"},
		{"zs, ok := rd.(Z)\nfmt.Println(zs.s, ok)\nfmt.Printf(\"%+v %T\", rd, rd)", "z true\n{n:3 s:z} main.Z"},
		{"type Z struct{ n int }\nfunc (z Z) Read([]byte) (int, error) { return z.n, io.EOF }\n_, ok = rd.(Z)\nok", "=> false\n"}, // of the type before
		{"rd = Z{4}\nswitch v := rd.(type) { case Z: fmt.Println(v.n) }\n[]io.Reader{rd}", "4\n=> [{4}]\n"},
		{"func init() { fmt.Print(\"init \", started, \" \") }\nstarted := 5\nstarted + 1", "init 5 => 6\n"},
		{"package main\nfunc init() { fmt.Print(\"1 \") }\nfunc init() { fmt.Print(\"2 \") }\nfunc main() { fmt.Println(\"main\") }", "1 2 main\n"},
		{"1 + 1;;", "=> 2\n"},
		{";", ""},
	} {
		if got := b.run(c.src); got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.src, got, c.want)
		}
	}
}

// The list of variables shows what is in interfaces.
func TestVarsOfInterfaces(t *testing.T) {
	b := newBench(t)
	if got := b.run(`import ("io"; "time")
type Temp interface{ K() float64 }
type Cel float64
func (c Cel) K() float64 { return float64(c) }
type P struct{ a int; B string }
func (p P) K() float64 { return 0 }
func (p P) Read([]byte) (int, error) { return 0, nil }
type Named interface{ String() string }
var t1, t2, t3 Temp = Cel(3), P{1, "x"}, nil
var r1, r2 io.Reader = P{2, "y"}, nil
n, _ := any(time.Second).(Named)
ts := []Temp{t1, t2}
m := map[string]io.Reader{"k": r1}`); got != "" {
		t.Fatal(got)
	}
	want := map[string]string{"t1": "3", "t2": "{1 x}", "t3": "<nil>", "r1": "{2 y}", "r2": "<nil>", "n": "1s", "ts": "[3 {1 x}]", "m": "map[k:{2 y}]"}
	for _, v := range b.Vars().Vars {
		if v.Short != want[v.Name] {
			t.Errorf("%s: %q, want %q", v.Name, v.Short, want[v.Name])
		}
		delete(want, v.Name)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
	for _, v := range b.Globals() {
		if v.Name == "t2" {
			if ps := v.Parts(); len(ps) != 2 || ps[0].Name != "a" || ps[1].Value != `"x"` {
				t.Errorf("parts of %s: %+v", v.Value, ps)
			}
		}
	}
}
