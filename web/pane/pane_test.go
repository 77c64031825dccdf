package pane

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/model/exercise"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

func run(t *testing.T, name string, v Values) (Result, error) {
	t.Helper()
	p, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return p.Run(v)
}

// Every pane opens with a picture or a text, and a sentence; twice the same.
func TestDefaultsRender(t *testing.T) {
	for _, p := range All() {
		a, err := p.Run(nil)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		if a.Sentence == "" || len(a.Pictures) == 0 && a.Text == "" {
			t.Errorf("%s shows nothing", p.Name)
		}
		b, err := p.Run(Values{"unknown": "newer field"})
		if err != nil || len(a.Pictures) != len(b.Pictures) {
			t.Fatalf("%s: second rendering differs: %v", p.Name, err)
		}
		for i := range a.Pictures {
			if !bytes.Equal(a.Pictures[i].SVG, b.Pictures[i].SVG) {
				t.Errorf("%s: picture %d is not deterministic", p.Name, i)
			}
		}
		for _, d := range p.Params {
			if d.Title == "" || d.Doc == "" {
				t.Errorf("%s: parameter %s has no title or doc", p.Name, d.Name)
			}
		}
	}
}

func TestStartSentence(t *testing.T) {
	r, err := run(t, "layout", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "Thread 5 slot 2 holds (9, 2)."; !strings.HasPrefix(r.Sentence, want) {
		t.Errorf("sentence %q, want it to begin with %q", r.Sentence, want)
	}
	// The cell of the sentence is in both pictures, under the same key.
	keys := map[string]int{}
	for _, p := range r.Pictures {
		for _, e := range p.IDs {
			if e.ID == "t5s2" || e.ID == "e9.2" {
				keys[e.ID] = e.Keys[0]
			}
		}
	}
	if len(keys) != 2 || keys["t5s2"] != keys["e9.2"] {
		t.Errorf("views are not linked: %v", keys)
	}
}

func TestReinterpretAtEveryWidth(t *testing.T) {
	for _, w := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		for _, k := range []string{"uint", "int", "float"} {
			_, err := run(t, "reinterpret", Values{"w": w, "k": k})
			none := k == "float" && (w == "1" || w == "2")
			if (err != nil) != none {
				t.Errorf("width %s %s: %v", w, k, err)
			}
		}
	}
}

// Malformed values give problems that name the parameter and a place in it.
func TestProblemsHavePlaces(t *testing.T) {
	for _, c := range []struct {
		pane  string
		v     Values
		param string
		has   string
	}{
		{"layout", Values{"e": "locl(2, 1)"}, "e", "local"},
		{"layout", Values{"e": "local(2,1).spatial(8,"}, "e", ""},
		{"layout", Values{"e": ""}, "e", ""},
		{"layout", Values{"e": "local(1000000000)"}, "e", "16777216"},
		{"layout", Values{"e": strings.Repeat("(", 5000)}, "e", "64"},
		{"layout", Values{"e": "local(2)", "pal": "red"}, "pal", "one of"},
		{"reinterpret", Values{"w": "9"}, "w", "1 to 8"},
		{"reinterpret", Values{"w": "x"}, "w", "1 to 8"},
		{"reinterpret", Values{"w": "3", "e": "local(2, 1).spatial(8, 4)"}, "e", "whole number of bytes"},
		{"reinterpret", Values{"t": "99"}, "t", "thread"},
		{"reinterpret", Values{"w": "2", "k": "float"}, "w", "floats have 3"},
		{"see", Values{"x": " "}, "x", "nothing"},
		{"see", Values{"x": "hello"}, "x", "element type"},
		{"see", Values{"x": strings.Repeat("x", MaxValue+1)}, "x", "limit"},
		{"program", Values{"src": "program p<1>() warps=1 {\n\tx = Nop()\n}\n"}, "src", ""},
	} {
		_, err := run(t, c.pane, c.v)
		var list diag.List
		if !errors.As(err, &list) {
			t.Errorf("%s %.60v: got %v, want a diag.List", c.pane, c.v, err)
			continue
		}
		if p := list[0]; p.Pos.File != c.param || p.Pos.Line < 1 || p.Pos.Col < 1 {
			t.Errorf("%s %.60v: position %v, want one in %s", c.pane, c.v, p.Pos, c.param)
		}
		if !strings.Contains(err.Error(), c.has) {
			t.Errorf("%s %.60v: %v does not say %q", c.pane, c.v, err, c.has)
		}
	}
	if _, err := Find("layuot"); err == nil || !strings.Contains(err.Error(), "layout") {
		t.Errorf("unknown pane: %v", err)
	}
}

func TestSeeRecognises(t *testing.T) {
	for x, want := range map[string]string{
		"f4e2m1":                      "element type of 4 bits",
		" spatial(8, 4).local(1, 2)":  "holds",
		"// comment\n" + StartProgram: "register layout",
	} {
		r, err := run(t, "see", Values{"x": x})
		if err != nil || !strings.Contains(r.Sentence, want) {
			t.Errorf("%q: %q, %v", x, r.Sentence, err)
		}
	}
}

// A program's equal layouts are one picture that names all its variables.
func TestProgramLayouts(t *testing.T) {
	r, err := run(t, "program", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Pictures) != 2 || r.Pictures[1].Name != "x : f32; y : f16" {
		t.Errorf("%d pictures, the last of %s", len(r.Pictures), r.Pictures[len(r.Pictures)-1].Name)
	}
}

// The views of one warp stand beside each other on a screen.
func TestViewsFitAScreen(t *testing.T) {
	r, err := run(t, "layout", nil)
	if err != nil {
		t.Fatal(err)
	}
	w, h := 0, 0
	for _, p := range r.Pictures {
		w, h = w+p.Width, max(h, p.Height)
	}
	if w > 1200 || h > 600 {
		t.Errorf("the views are %d×%d", w, h)
	}
}

// A layout at the limit is drawn coarser, in bounded time and bytes.
func TestLargeLayouts(t *testing.T) {
	begin := time.Now()
	r, err := run(t, "layout", Values{"e": "local(64, 64).spatial(8, 4).local(4, 32)"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Pictures {
		if len(p.SVG) > 1<<20 {
			t.Errorf("%s: %d bytes", p.Name, len(p.SVG))
		}
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
}

// TestChoosing takes every element that changes something, on the panes of the
// machine models: what it sets are values that the pane accepts, and there are some.
func TestChoosing(t *testing.T) {
	for _, c := range []struct {
		pane string
		in   Values
	}{
		{"volta", nil}, {"volta", Values{"v": "multipliers"}}, {"volta", Values{"v": "all steps"}}, {"follow", nil}, {"follow", Values{"x": "D", "m": "fp16"}},
		{"dispatch", nil}, {"dispatch", Values{"v": "staircase"}}, {"dispatch", Values{"s": "streams"}},
	} {
		p, err := Find(c.pane)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Run(c.in)
		if err != nil {
			t.Fatal(err)
		}
		n, seen := 0, map[string]bool{}
		for _, pic := range r.Pictures {
			for id, v := range pic.Go {
				n++
				next := Values{}
				for k, x := range c.in {
					next[k] = x
				}
				for k, x := range v {
					next[k] = x
				}
				// One of each kind of element is enough.
				if kind := id[:1]; !seen[kind] {
					seen[kind] = true
					if _, err := p.Run(next); err != nil {
						t.Errorf("%s: choosing %s: %v", c.pane, id, err)
					}
				}
			}
		}
		if n == 0 {
			t.Errorf("%s %v: no element changes anything", c.pane, c.in)
		}
	}
}

// TestExerciseKeepsItsAnswer holds that what the page gets of an exercise does not
// have what is right until it is asked for.
func TestExerciseKeepsItsAnswer(t *testing.T) {
	p, err := Find("exercise")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"owner", "swizzle", "mask", "mistake"} {
		q, err := exercise.New(kind, 9)
		if err != nil {
			t.Fatal(err)
		}
		answer, why := q.Answer()
		r, err := p.Run(Values{"k": kind, "q": "9", "y": "1 2 3"})
		if err != nil || strings.Contains(r.Text+r.Sentence, why) || !strings.HasPrefix(r.Sentence, "Not yet") {
			t.Errorf("%s: %q, %v", kind, r.Sentence, err)
		}
		r, err = p.Run(Values{"k": kind, "q": "9", "y": answer})
		if err != nil || !strings.HasPrefix(r.Sentence, "Right: ") {
			t.Errorf("%s: %q, %v", kind, r.Sentence, err)
		}
		if r, err = p.Run(Values{"k": kind, "q": "9", "s": "yes"}); err != nil || !strings.Contains(r.Text, why) {
			t.Errorf("%s: %q, %v", kind, r.Text, err)
		}
	}
}
