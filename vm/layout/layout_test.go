package layout

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

func parse(t testing.TB, text string) Layout {
	t.Helper()
	l, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return l
}

func TestPrintsTheShortestChain(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"local(2,1).spatial(8,4).local(1,2)", "local(2, 1).spatial(8, 4).local(1, 2)"},
		{"column_local(2,2).spatial(8,4).local(1,2)", "column_local(2, 2).spatial(8, 4).local(1, 2)"},
		{"local(2,1).column_spatial(4,8).local(2,1)", "local(2, 1).column_spatial(4, 8).local(2, 1)"},
		{"local(2,1).spatial(4,1).spatial(2,4).local(1,2)", "local(2, 1).spatial(8, 4).local(1, 2)"},
		{"local(3).spatial(32)", "local(3).spatial(32)"},
		{"local()", "local()"},
		{"local(1,1)", "local(1, 1)"},
		{"column_local(2,1)", "local(2, 1)"},
		{"repeat(2).column_repeat(3)", "local(6)"},
		{"spatial(2,3,4,ranks=[2,0,1])", "spatial(2, 3, 4, ranks=[2, 0, 1])"},
		{"spatial(1,4,2,ranks=[0,2,1])", "column_spatial(1, 4, 2)"},
		{"reduce(spatial(3,4),[0])", "replicated(1, num_workers=3).spatial(4)"},
		{"reduce(spatial(2,3),[0,1])", "replicated(num_workers=6)"},
		{"replicated(2,3,num_workers=4)", "replicated(2, 3, num_workers=4)"},
		{"register_layout([16,2],[2,8,2],[1,2,0],[])", "register_layout([16, 2], [2, 8, 2], [1, 2, 0], [])"},
		{"register_layout([6],[2,3],[1,0],[])", "register_layout([6], [2, 3], [1, 0], [])"},
	} {
		l := parse(t, c.in)
		if got := l.String(); got != c.want {
			t.Errorf("%s prints %s, want %s", c.in, got, c.want)
		}
		if !parse(t, l.String()).Equal(l) {
			t.Errorf("%s does not read back", l)
		}
	}
	if got := (Layout{}).String(); got != "local()" {
		t.Errorf("the zero value prints %s", got)
	}
}

// The worked example of the package comment.
func TestFragmentByHand(t *testing.T) {
	c := Local(2, 1).Spatial(8, 4).Local(1, 2)
	if got := c.Index(5, 2); !slices.Equal(got, []int{9, 2}) {
		t.Errorf("thread 5 slot 2 holds %v", got)
	}
	if got := c.Holders(9, 5); !slices.Equal(got, []Holder{{6, 3}}) {
		t.Errorf("(9, 5) is held by %v", got)
	}
	if c.Holders(16, 0) != nil || c.Slot(0, -1) != -1 {
		t.Error("an element outside the tile has a holder")
	}
	r, err := Spatial(3, 4).Reduce([]int{0}, false)
	if got := r.Holders(2); err != nil || !slices.Equal(got, []Holder{{2, 0}, {6, 0}, {10, 0}}) {
		t.Errorf("replicas: %v %v", got, err)
	}
	if r.Replicas() != 3 || c.Replicas() != 1 || c.Size() != 128 {
		t.Error("counts")
	}
	s, x := c.Digits()
	if !slices.Equal(s, []Digit{{8, 0, 1}, {4, 1, 2}}) || !slices.Equal(x, []Digit{{2, 0, 8}, {2, 1, 1}}) {
		t.Errorf("digits %v %v", s, x)
	}
}

// splits calls f with every ordered list of factors of n, factors of 1 left out.
func splits(n int, f func([]int)) {
	var rec func(n int, head []int)
	rec = func(n int, head []int) {
		if n == 1 {
			f(head)
			return
		}
		for k := 2; k <= n; k++ {
			if n%k == 0 {
				rec(n/k, append(head[:len(head):len(head)], k))
			}
		}
	}
	rec(n, nil)
}

func permutations(n int, f func([]int)) {
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	var rec func(k int)
	rec = func(k int) {
		if k == n {
			f(p)
			return
		}
		for i := k; i < n; i++ {
			p[k], p[i] = p[i], p[k]
			rec(k + 1)
			p[k], p[i] = p[i], p[k]
		}
	}
	rec(0)
}

// every enumerates all four-lists (modes > 1, up to one replica digit of each
// size between them) with at most cells cells and rank 0 to 2, calling f with
// the layout made of them.
func every(t *testing.T, cells int, f func(l Layout, raw string)) {
	do := func(shape []int, size int) {
		var factored func(d int, modes []int)
		factored = func(d int, modes []int) {
			if d < len(shape) {
				splits(shape[d], func(m []int) { factored(d+1, slices.Concat(modes, m)) })
				return
			}
			for r := 1; r*size <= cells; r++ {
				splits(r, func(replicas []int) {
					n := len(modes) + len(replicas)
					permutations(n, func(p []int) {
						// Every cut of the order between the two lists; replicas only before it.
						for cut := 0; cut <= n; cut++ {
							var spatial, local []int
							ok := true
							for i, k := range p {
								switch {
								case k >= len(modes) && i >= cut:
									ok = false
								case k >= len(modes):
									spatial = append(spatial, -replicas[k-len(modes)])
								case i < cut:
									spatial = append(spatial, k)
								default:
									local = append(local, k)
								}
							}
							if !ok {
								continue
							}
							l, err := New(shape, modes, spatial, local)
							if err != nil {
								t.Fatalf("New(%v, %v, %v, %v): %v", shape, modes, spatial, local, err)
							}
							f(l, fmt.Sprint(shape, modes, spatial, local))
						}
					})
				})
			}
		}
		factored(0, nil)
	}
	do(nil, 1)
	for a := 1; a <= cells; a++ {
		do([]int{a}, a)
		for b := 1; a*b <= cells; b++ {
			do([]int{a, b}, a*b)
		}
	}
}

// Canonical forms are equal exactly where shapes, thread counts and maps are, for
// all layouts of up to 64 cells.
func TestCanonicalFormIsUnique(t *testing.T) {
	cells := 64
	if testing.Short() {
		cells = 24
	}
	byKey, byMap := map[string]string{}, map[string]string{}
	total := 0
	every(t, cells, func(l Layout, raw string) {
		total++
		flat := l.Flat()
		m := make([]byte, 0, 8+len(flat))
		m = append(m, byte(l.Threads()), byte(l.Rank()))
		for _, n := range l.Shape() {
			m = append(m, byte(n))
		}
		for _, e := range flat {
			m = append(m, byte(e))
		}
		key := l.Key()
		if had, ok := byKey[key]; ok && had != string(m) {
			t.Fatalf("%s has the form of another map", raw)
		}
		if had, ok := byMap[string(m)]; ok && had != key {
			t.Fatalf("%s: form %s, but the same map has %s", raw, key, had)
		}
		byKey[key], byMap[string(m)] = string(m), key
	})
	if len(byKey) != len(byMap) || len(byKey) < 100 {
		t.Fatalf("%d forms, %d maps", len(byKey), len(byMap))
	}
	t.Logf("%d four-lists, %d layouts", total, len(byKey))
}

// On every small layout: the queries agree with each other and with the four
// lists' definition, the text reads back, and the four lists rebuild it.
func TestQueriesAndTextOnAllSmallLayouts(t *testing.T) {
	seen := map[string]bool{}
	every(t, 12, func(l Layout, raw string) {
		if seen[l.Key()] {
			return
		}
		seen[l.Key()] = true
		flat := l.Flat()
		shape := l.Shape()
		holders := map[string][]Holder{}
		for th := range l.Threads() {
			for s := range l.Slots() {
				at := l.Index(th, s)
				n := 0
				for d, v := range at {
					n = n*shape[d] + v
				}
				if want := naive(l, th, s); !slices.Equal(at, want) {
					t.Fatalf("%s: thread %d slot %d: %v, by definition %v", raw, th, s, at, want)
				}
				if int(flat[th*l.Slots()+s]) != n || l.FlatIndex(th, s) != n {
					t.Fatalf("%s: flat index of thread %d slot %d", raw, th, s)
				}
				holders[fmt.Sprint(at)] = append(holders[fmt.Sprint(at)], Holder{th, s})
			}
		}
		if len(holders) != l.Size() {
			t.Fatalf("%s: %d of %d elements are held", raw, len(holders), l.Size())
		}
		for th := range l.Threads() {
			for s := range l.Slots() {
				at := l.Index(th, s)
				if got := l.Holders(at...); !slices.Equal(got, holders[fmt.Sprint(at)]) {
					t.Fatalf("%s: holders of %v: %v", raw, at, got)
				}
			}
		}
		if got := parse(t, l.String()); !got.Equal(l) || got.Key() != l.Key() {
			t.Fatalf("%s prints as %s", raw, l)
		}
		again, err := New(l.Shape(), l.ModeShape(), l.SpatialModes(), l.LocalModes())
		if err != nil || !again.Equal(l) {
			t.Fatalf("%s: four lists do not rebuild it: %v", raw, err)
		}
	})
}

// naive is the definition of the map from the four lists, written again.
func naive(l Layout, thread, slot int) []int {
	modes := l.ModeShape()
	value := make([]int, len(modes))
	split := func(n int, order []int) {
		for i := len(order) - 1; i >= 0; i-- {
			if k := order[i]; k < 0 {
				n /= -k
			} else {
				value[k] = n % modes[k]
				n /= modes[k]
			}
		}
	}
	split(thread, l.SpatialModes())
	split(slot, l.LocalModes())
	index := make([]int, l.Rank())
	m := 0
	for d, size := range l.Shape() {
		for have := 1; have < size; m++ {
			index[d] = index[d]*modes[m] + value[m]
			have *= modes[m]
		}
	}
	return index
}

func random(r *rand.Rand) Layout {
	rank := r.Intn(7)
	l := Layout{}
	for range 1 + r.Intn(4) {
		if l.Threads()*l.Slots() > 1000 {
			break
		}
		shape := make([]int, rank)
		for d := range shape {
			shape[d] = 1
			if r.Intn(max(rank, 3)) < 3 {
				shape[d] += r.Intn(3)
			}
		}
		switch r.Intn(5) {
		case 0:
			l = l.Local(shape...)
		case 1:
			l = l.Spatial(shape...)
		case 2:
			l = l.ColumnLocal(shape...)
		case 3:
			l = l.ColumnSpatial(shape...)
		default:
			l = l.Replicated(1+r.Intn(2), shape...)
		}
	}
	return l
}

func TestLaws(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 3000 {
		a, b, c := random(r), random(r), random(r)
		ab, err := mul(a, b)
		if err != nil || ab.Threads()*ab.Slots() > 1<<12 {
			continue
		}
		left, err1 := mul(ab, c)
		bc, err2 := mul(b, c)
		if err1 == nil && err2 == nil {
			if right, err := mul(a, bc); err != nil || !left.Equal(right) {
				t.Fatalf("(%s * %s) * %s is not associative", a, b, c)
			}
		}
		// The product by its definition on maps.
		wantRank := max(a.Rank(), b.Rank())
		for th := range ab.Threads() {
			for s := range ab.Slots() {
				x := append(make([]int, wantRank-a.Rank()), a.Index(th/b.Threads(), s/b.Slots())...)
				y := append(make([]int, wantRank-b.Rank()), b.Index(th%b.Threads(), s%b.Slots())...)
				for d, n := range b.Shape() {
					x[wantRank-b.Rank()+d] *= n
				}
				for d := range x {
					x[d] += y[d]
				}
				if !slices.Equal(x, ab.Index(th, s)) {
					t.Fatalf("%s * %s at %d, %d", a, b, th, s)
				}
			}
		}
		extended := Local(ones(wantRank)...)
		f, err := ab.Div(b)
		if err != nil || !f.Equal(extended.Mul(a)) {
			t.Fatalf("(%s * %s) / %s = %s, %v", a, b, b, f, err)
		}
		g, err := ab.LeftDiv(a)
		if err != nil || !g.Equal(extended.Mul(b)) {
			t.Fatalf("left_divide(%s * %s, %s) = %s, %v", a, b, a, g, err)
		}
		if !parse(t, ab.String()).Equal(ab) {
			t.Fatalf("%s does not read back", ab)
		}
		order := r.Perm(ab.Rank())
		p, err := ab.Permute(order...)
		if err != nil {
			t.Fatal(err)
		}
		th, s := r.Intn(ab.Threads()), r.Intn(ab.Slots())
		at := ab.Index(th, s)
		for i, d := range order {
			if p.Index(th, s)[i] != at[d] {
				t.Fatalf("permute %v of %s", order, ab)
			}
		}
		flat, err := ab.Flatten(0, -1)
		if err != nil || !reflect.DeepEqual(flat.Flat(), ab.Flat()) {
			t.Fatalf("flatten of %s: %v", ab, err)
		}
		back, err := flat.Reshape(ab.Shape()...)
		if err != nil || !back.Equal(ab) {
			t.Fatalf("reshape of %s back to %v: %s %v", flat, ab.Shape(), back, err)
		}
	}
}

// Whenever a quotient exists it is right, and where it does not, none exists:
// tried over all pairs of small layouts.
func TestDivisionIsComplete(t *testing.T) {
	var all []Layout
	seen := map[string]bool{}
	every(t, 8, func(l Layout, _ string) {
		if !seen[l.Key()] && l.Rank() == 2 {
			seen[l.Key()] = true
			all = append(all, l)
		}
	})
	products, lefts := map[string]bool{}, map[string]bool{}
	for _, f := range all {
		for _, g := range all {
			if f.Threads()*f.Slots()*g.Threads()*g.Slots() <= 8 {
				h := f.Mul(g).Key()
				products[h+"/"+g.Key()], lefts[h+"/"+f.Key()] = true, true
			}
		}
	}
	for _, h := range all {
		for _, g := range all {
			f, err := h.Div(g)
			if (err == nil) != products[h.Key()+"/"+g.Key()] || err == nil && !f.Mul(g).Equal(h) {
				t.Fatalf("%s / %s = %s, %v", h, g, f, err)
			}
			f, err = h.LeftDiv(g)
			if (err == nil) != lefts[h.Key()+"/"+g.Key()] || err == nil && !g.Mul(f).Equal(h) {
				t.Fatalf("left_divide(%s, %s) = %s, %v", h, g, f, err)
			}
		}
	}
	t.Logf("%d layouts, %d products", len(all), len(products))
}

func TestErrorsHavePlaceRuleAndHelp(t *testing.T) {
	for _, c := range []struct {
		text string
		col  int
		code string
		say  string
	}{
		{"", 1, "Layout.E1", "end of the text"},
		{"local(2, 1", 11, "Layout.E1", `")" is wanted`},
		{"local(2).spatal(3)", 10, "Layout.E2", "did you mean spatial?"},
		{"local(2) § 3", 10, "Layout.E1", "cannot follow"},
		{"local(2) spatial(3)", 10, "Layout.E1", "cannot follow"},
		{"local(2,\n  0)", 1, "Layout.E4", "must be positive"},
		{"local(2) *\n  locl(3)", 3, "Layout.E2", "local"},
		{"local(99999999999999999999)", 7, "Layout.E15", "out of range"},
		{"local(4096, 4096, 2)", 1, "Layout.E4", "cells"},
		{"spatial(4096).local(4096).local(4096)", 27, "Layout.E4", "cells"},
		{"spatial(2,3,ranks=[0,2])", 1, "Layout.E5", "permutation"},
		{"spatial(2,3,rank=[0,1])", 13, "Layout.E3", "ranks"},
		{"register_layout([4],[2,2],[0],[])", 1, "Layout.E6", "neither spatial nor local"},
		{"spatial(6) / spatial(4)", 12, "Layout.E7", "does not exist"},
		{"left_divide(local(2,4), local(1,2))", 1, "Layout.E8", "does not exist"},
		{"permute(spatial(2,3),[0,0])", 1, "Layout.E9", "twice"},
		{"spatial(4,6).reshape(6,4)", 14, "Layout.E10", "unevenly"},
		{"spatial(4,8).reduce_to(3,8)", 14, "Layout.E11", "reduce"},
		{"auto_local_spatial(32, 5, 7)", 1, "Layout.E12", "evenly"},
		{strings.Repeat("(", 100), 65, "Layout.E13", "deeper"},
		{"local(" + strings.Repeat("1,", 4000) + "1)", 4097, "Layout.E13", "longer"},
		{"local(1/0)", 9, "Layout.E15", "zero"},
		{"3", 1, "Layout.E3", "a layout is wanted"},
		{"local(2) * 3", 12, "Layout.E3", "a layout is wanted"},
		{"replicated(2)", 1, "Layout.E3", "num_workers"},
	} {
		_, err := Parse(c.text)
		problems, ok := err.(diag.List)
		if !ok || len(problems) != 1 {
			t.Errorf("%.40q: %v", c.text, err)
			continue
		}
		p := problems[0]
		if p.Pos.Col != c.col || p.Code != c.code || !strings.Contains(p.Error(), c.say) {
			t.Errorf("%.40q: want column %d, %s, %q; got %v", c.text, c.col, c.code, c.say, p)
		}
	}
	if _, err := PackedView(3, Local(4)); err == nil || !strings.Contains(err.Error(), "Layout.E14") {
		t.Errorf("packed view of 12 bits: %v", err)
	}
	for i, r := range Rules {
		if want := fmt.Sprintf("Layout.E%d", i+1); r.Code != want || r.Text == "" {
			t.Errorf("rule %d is %s", i+1, r.Code)
		}
	}
}

func TestParsePrefixTakesNamesAndLeavesTheRest(t *testing.T) {
	names := map[string]any{"BM": 64, "atom": Spatial(8, 4)}
	text := "local(BM/16-2, (1+1)*2) * atom.local(1, 2), offset=[0]"
	l, n, err := ParsePrefix(text, diag.Pos{File: "a.tile", Line: 3, Col: 9}, names)
	if err != nil || text[n:] != ", offset=[0]" || l.String() != "local(2, 4).spatial(8, 4).local(1, 2)" {
		t.Fatalf("%s %q %v", l, text[n:], err)
	}
	_, _, err = ParsePrefix("local(BN)", diag.Pos{File: "a.tile", Line: 3, Col: 9}, names)
	if err == nil || !strings.Contains(err.Error(), "a.tile:3:15: ") || !strings.Contains(err.Error(), "BM") {
		t.Fatal(err)
	}
}

func TestTokensCoverTheText(t *testing.T) {
	var got []string
	text := "local(2, 1) ~ x"
	for _, k := range Tokens(text) {
		got = append(got, k.Kind+":"+text[k.Start:k.End])
	}
	want := "name:local sign:( number:2 sign:, number:1 sign:) bad:~ name:x"
	if strings.Join(got, " ") != want {
		t.Errorf("%v", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"local(2, 1).spatial(8, 4).local(1, 2)",
		"column_local(2,2)*spatial(8,4)/spatial(2,1)",
		"reduce(spatial(2,1,2,ranks=[1,0,2]),dims=[2]).local(4,2)*(column_local(2,2).spatial(8,4).local(1,2))",
		"register_layout([4,6],[2,2,3,2],[0,-3,2],[3,1])",
		"auto_local_spatial(32,[8, 8]).permute(1,0).reshape(-(-64)).unsqueeze(-1).flatten()",
		"left_divide(spatial(6),spatial(2)).concat(local(3)).squeeze([])",
		"reduce_to(replicated(4,8,num_workers=3),[1,8])", "local((((1)))", "local(2)\n.\tspatial(3%2)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, k := range Tokens(text) {
			if k.Start >= k.End || k.End > len(text) {
				t.Fatalf("token %v", k)
			}
		}
		l, err := Parse(text)
		if err != nil {
			if list, ok := err.(diag.List); !ok || len(list) == 0 || list[0].Code == "" || !list[0].Pos.Known() {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if l.Threads()*l.Slots() > MaxCells {
			t.Fatalf("%q is too large", text)
		}
		s := l.String()
		again, err := Parse(s)
		if err != nil || !again.Equal(l) || again.String() != s {
			t.Fatalf("%q prints %q, which reads as %v, %v", text, s, again, err)
		}
		if again.Key() != l.Key() {
			t.Fatalf("%q: keys differ", text)
		}
	})
}
