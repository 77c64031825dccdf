package pass_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/pass"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func run(t *testing.T, src string, o pass.Options) string {
	t.Helper()
	p, err := text.Parse("p", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := text.Format(p)
	q, err := pass.Run(p, o, func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	if after := text.Format(p); after != before {
		t.Errorf("the pass changed its input to\n%s", after)
	}
	return text.Format(q)
}

const wasteful = `program p<n*1, 2 + 0>(a: *f32, n: i32) warps=1 {
	i, j = BlockIndices()
	g = ViewGlobal(a) : global f32[n + 2*3]
	unused = LoadGlobal(g, offset=[0]) : register f32[32] spatial(32)
	acc = AllocateRegister(init=0) : register f32[32] spatial(32)
	r = LoadGlobal(g, offset=[(i + 0)*1]) : register f32[32] spatial(32)
	x = 3*4 - 5
	y = x/n
	big = x*2147483647
	for k in 0..n {
		acc = Add(acc, r) : register f32[32] spatial(32)
	}
	for k in 5..2 + 3 {
		StoreGlobal(g, r, offset=[0])
	}
	if 1 == 2 {
		StoreGlobal(g, r, offset=[1])
	}
	// the result
	StoreGlobal(g, r, offset=[min(3, 4) + x*(7 - 5)]) // stays
}
`

func TestPassesDropWaste(t *testing.T) {
	want := `program p<n, 2>(a: *f32, n: i32) warps=1 {
	i, j = BlockIndices()
	g = ViewGlobal(a) : global f32[n + 6]
	r = LoadGlobal(g, offset=[i]) : register f32[32] spatial(32)
	x = 7
	y = x/n
	// the result
	StoreGlobal(g, r, offset=[3 + x*2]) // stays
}
`
	if got := run(t, wasteful, pass.Options{}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := run(t, wasteful, pass.Options{Skip: []string{"fold", "dead"}}); got != wasteful {
		t.Errorf("without passes the program changes:\n%s", got)
	}
	if got := run(t, wasteful, pass.Options{Skip: []string{"dead"}}); !strings.Contains(got, "y = x/n") || !strings.Contains(got, "x*2147483647") {
		t.Errorf("errors at run time must stay where the value is used:\n%s", got)
	}
}

// TestCorpusHasNoWaste also shows that passes keep what matters. Prints, which become
// much code, are left as they are.
func TestCorpusHasNoWaste(t *testing.T) {
	for _, name := range corpus.Names() {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(text.Format(p), "local(1, 1).", "")
		var names []string
		q, err := pass.Run(p, pass.Options{Skip: []string{"prints"}}, func(name, _ string) { names = append(names, name) })
		if err != nil {
			t.Fatal(err)
		}
		if len(names) != len(pass.Passes())-1 {
			t.Errorf("dumped %v", names)
		}
		if got := text.Format(q); strings.Count(got, "\n") != strings.Count(want, "\n") {
			t.Errorf("%s becomes\n%s", name, got)
		}
	}
}

func TestUnknownPass(t *testing.T) {
	p, _ := text.Parse("p", wasteful, nil)
	if _, err := pass.Run(p, pass.Options{Skip: []string{"fodl"}}, nil); err == nil || !strings.Contains(err.Error(), "fodl") {
		t.Errorf("got %v", err)
	}
}

// TestPassesKeepTheRules verifies the programs of the corpus after each pass.
func TestPassesKeepTheRules(t *testing.T) {
	for _, name := range corpus.Names() {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pass.Run(p, pass.Options{}, func(string, string) {}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
