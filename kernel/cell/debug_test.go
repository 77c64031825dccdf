package cell

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/kernel/debugger"
)

// traced is a bench to which a debugger is attached.
func traced(t *testing.T) *bench {
	t.Helper()
	d := debugger.New(debugger.Options{Event: func(json.RawMessage) {}})
	d.Handle(json.RawMessage(`{"type":"request","seq":1,"command":"attach","arguments":{}}`), func(json.RawMessage) {})
	if !d.Attached() {
		t.Fatal("not attached")
	}
	b := newBench(t)
	b.hooks.Debug = d
	return b
}

// Cells mean the same with stops in front of their statements, and the interpreter takes them all.
func TestCorpusTraced(t *testing.T) {
	ar, err := txtar.ParseFile(*corpusFile)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range ar.Files {
		if testing.Short() && i%8 != 0 {
			continue
		}
		src := "import \"fmt\"\n" + string(f.Data)
		want := newBench(t).run(src)
		got := traced(t).run(src)
		if strings.Contains(got, "cannot stop") {
			t.Errorf("%s: the interpreter refuses the cell with its stops", f.Name)
		}
		if got != want {
			t.Errorf("%s:\ntraced %q\nplain  %q", f.Name, got, want)
		}
	}
}

// Stops name what the statement sees, and stand where the person wrote it.
func TestPoints(t *testing.T) {
	src := "x := 1\nfunc f(a, _ int) (r int) {\n\tdefer func() { r++ }()\n\tif b := a + x; b > 1 {\n\t\tc, a := b, 7; _ = a\n\t\treturn c\n\t}\n\tfor i, v := range []int{1} { r += i + v }\n\tswitch v := any(a).(type) {\n\tcase int:\n\t\tr = v\n\t}\n\treturn\n}\ny := f(x, 2)"
	b := traced(t)
	if got := b.run(src); got != "" {
		t.Fatal(got)
	}
	var got strings.Builder
	for _, p := range b.host.tracing.points {
		var vars []string
		for i, v := range p.vars {
			vars = append(vars, v.Name()+" "+goType(p.types[i]))
		}
		fmt.Fprintf(&got, "%d:%d first=%v %s: %s\n", p.place.Line, p.place.Col, p.place.First, p.fn, strings.Join(vars, ", "))
	}
	want := `1:1 first=true cell1: 
15:1 first=true cell1: 
3:2 first=true f: a int, r int
3:17 first=false func literal: a int, r int
4:2 first=true f: a int, r int
5:3 first=true f: a int, r int, b int
5:17 first=false f: r int, b int, c int, a int
6:3 first=true f: r int, b int, c int, a int
8:2 first=true f: a int, r int
8:31 first=false f: a int, r int, i int, v int
9:2 first=true f: a int, r int
11:3 first=true f: a int, r int, v int
13:2 first=true f: a int, r int
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", &got, want)
	}
}

// An expression that the interpreter refuses leaves nothing behind, nor does a variable that it cannot keep.
func TestRefusedExpression(t *testing.T) {
	fewer := maps.Clone(Symbols)
	delete(fewer, module+"gpu/tune/tune")
	b := newLabBench(t, fewer)
	if got := b.run("type P struct{ a int }\nfunc (p P) Sum() int { return p.a }\nfunc later(x any) int { return P{4}.Sum() }"); got != "" {
		t.Fatal(got)
	}
	c := &Calling{h: b.host, at: &point{}}
	for _, expr := range []string{"later(new(qmm.Call{}.Store))", "new(qmm.Call{}.Store)", "later(", "later(missing)"} {
		if v, err := c.eval(expr); err == nil {
			t.Errorf("%s: no error but %+v", expr, v)
		}
	}
	lost := reflect.ValueOf(qmm.Call{}).FieldByName("Store")
	if err := b.Adopt("lost", debugger.Var{Name: "Store", Of: held{lost, b.imp.Type(lost.Type())}}); err == nil {
		t.Error("no error for what the session cannot keep")
	}
	for _, s := range []struct{ src, want string }{
		{"import \"fmt\"\nfmt.Sprint(later(nil))", "=> 4"},
		{"l, err := qmm.Parse(\"u4\", 8, 64); fmt.Sprint(l.N, err)", "=> 8 <nil>"},
		{"lost", "undefined: lost"},
	} {
		if got := b.run(s.src); !strings.Contains(got, s.want) {
			t.Errorf("%s: %q, want %q", s.src, got, s.want)
		}
	}
	if v, err := c.eval("later(nil) + 1"); err != nil || v.Value != "5" {
		t.Errorf("%+v, %v", v, err)
	}
}
