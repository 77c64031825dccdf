package pane

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/notebooks"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
)

// TestWay follows elements in the panes of programs, and goes to a station.
func TestWay(t *testing.T) {
	run := func(name string, v Values) (Result, error) {
		p, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		return p.Run(v)
	}
	// The program that both open with: choosing a cell follows it.
	r, err := run("program", Values{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Pictures[0].Name != "PTX" || len(r.Pictures[0].IDs) < 20 {
		t.Fatalf("no code stands beside the program but %s", r.Pictures[0].Name)
	}
	to := r.Pictures[1].Go["v0.e3.5"]
	if to["el"] != "x[3, 5]" {
		t.Fatalf("choosing x[3, 5] changes %v", to)
	}
	if r, err = run("program", to); err != nil {
		t.Fatal(err)
	}
	strip := r.Pictures[0]
	if strip.Name != "way" || len(strip.IDs) != 4 || !strings.Contains(strip.Desc, "global memory a[3, 5], then register x[3, 5], then register y[3, 5], then global memory c[3, 5]") {
		t.Fatalf("%s: %s", strip.Name, strip.Desc)
	}
	// A station is linked with the element in the picture of its layout, and with its line.
	at := map[string][]int{}
	for _, e := range r.Pictures[2].IDs {
		at[e.ID] = e.Keys
	}
	x := strip.IDs[1]
	if x.ID != "station1.line5" || x.Keys[0] != 5 || len(at["v0.e3.5"]) != 2 || x.Keys[1] != at["v0.e3.5"][0] || strip.IDs[2].Keys[1] != at["v0.e3.5"][1] {
		t.Errorf("station %v; the cell has the keys %v", x, at["v0.e3.5"])
	}
	// In the debugger a station leads to the step at which the element is there.
	if r, err = run("debug", Values{"el": "y[3, 5]"}); err != nil {
		t.Fatal(err)
	}
	to = r.Pictures[0].Go["station2.line6"]
	if to["x"] != "y" || to["n"] == "" {
		t.Fatalf("the station of y leads to %v", to)
	}
	to["el"] = "y[3, 5]"
	if r, err = run("debug", to); err != nil {
		t.Fatal(err)
	}
	var value Picture
	for _, p := range r.Pictures {
		if p.Name == "y" {
			value = p
		}
	}
	found := false
	for _, e := range value.IDs {
		found = found || e.ID == "v.e3.5" && e.Keys[0] == r.Pictures[0].IDs[2].Keys[1] && value.Go[e.ID]["el"] == "y[3, 5] @ "+to["n"]
	}
	if !found {
		t.Errorf("the values of y have no cell that is linked with its station")
	}
	// Programs without arguments get some.
	r, err = run("program", Values{"src": corpus.Program("matmul_v3"), "el": "acc[9, 2]"})
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Pictures[0].Desc; !strings.Contains(d, "shared memory sa[9, 0]") || !strings.Contains(d, "operand ra[9, 0]") || !strings.Contains(d, "global memory c[9, 2]") {
		t.Errorf("acc of matmul_v3: %s", d)
	}
	for _, c := range []struct{ pane, key, text, says, where string }{
		{"debug", "el", "z[1, 2]", "cast has no tensor", "el:1:1"},
		{"debug", "el", "x[1", "names no element", "el:1:1"},
		{"program", "el", "x[1, 99]", "the last one is x[15, 7]", "el:1:1"},
		{"debug", "x", " xx", "did you mean x? there are x, y", "x:1:2"},
		{"debug", "x", "bi", "bi is i32, no register tensor", "x:1:1"},
		{"debug", "a", "7", "randint:f32[64, 64]", "a:1:1"},
	} {
		_, err := run(c.pane, Values{c.key: c.text})
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.where) {
			t.Errorf("%s of %s, %q: %v", c.key, c.pane, c.text, err)
		}
	}
}

// TestLessons holds that lessons that panes lead to are there.
func TestLessons(t *testing.T) {
	names, err := fs.Glob(notebooks.Files, "*.ipynb")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range All() {
		if l := p.Lesson(); l == "" || !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, l+"-") }) {
			t.Errorf("%s: no lesson begins with %q", p.Name, l)
		}
	}
}

// TestTensors shows tensors of notebooks, and says what is no tensor.
func TestTensors(t *testing.T) {
	for _, c := range []struct{ text, says, wrong string }{
		{"f16[2, 3] = 1 2 3 4 5 -6", "6 elements from -6 to 5", ""},
		{"i4[40] = 1 2 3 …", "40 elements from 1 to 3; 1 rows of 16", ""},
		{"bool[2] = true false", "2 elements from 0 to 1", ""},
		{"f32[] = 7", "1 elements from 7 to 7", ""},
		{"f16[2, 3] = 1 2 x", "", `x:1:17: "x" is no number`},
		{"f16[2] = 1 2 3", "", "there are more numbers"},
		{"f16[2] = 1", "", "1 numbers are given"},
		{"q7[2] = 1 2", "", "no element type q7"},
	} {
		r, err := run(t, "see", Values{"x": c.text})
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v", c.text, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.text, err)
		case !strings.Contains(r.Sentence, c.says) || len(r.Pictures) != 1:
			t.Errorf("%s: %s", c.text, r.Sentence)
		}
	}
	a, err := array.Generate("randint:f16[64, 64]:seed=1")
	if err != nil {
		t.Fatal(err)
	}
	form, text, ok := lab.Form(a)
	if !ok || form != "array" {
		t.Fatalf("a tensor is %s", form)
	}
	if r, err := run(t, "see", Values{"x": text}); err != nil || !strings.Contains(r.Sentence, "f16[64, 64]: 4096 elements") {
		t.Errorf("%s, %v", r.Sentence, err)
	}
}
