package linear

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// random is a layout of up to three input and two output dimensions.
func random(r *rand.Rand) Layout {
	var in []Dim
	var out []OutDim
	for i := range 1 + r.IntN(2) {
		out = append(out, OutDim{DimName(i), 1 << r.IntN(4)})
	}
	for _, name := range []string{Register, Lane, Warp}[:1+r.IntN(3)] {
		d := Dim{Name: name}
		for range r.IntN(4) {
			d.Bases = append(d.Bases, randomIndex(r, out))
		}
		in = append(in, d)
	}
	return must(New(in, out))
}

func randomIndex(r *rand.Rand, out []OutDim) []int {
	b := make([]int, len(out))
	for j, o := range out {
		b[j] = r.IntN(o.Size)
	}
	return b
}

// invertible is a random square layout of full rank.
func invertible(r *rand.Rand, in, out []OutDim) Layout {
	for {
		l := Layout{Out: out}
		for _, d := range in {
			e := Dim{Name: d.Name}
			for range width(d.Size) {
				e.Bases = append(e.Bases, randomIndex(r, out))
			}
			l.In = append(l.In, e)
		}
		if l.IsInvertible() {
			return must(New(l.In, l.Out))
		}
	}
}

// places calls f for every place of a layout.
func places(l Layout, f func(place []int)) {
	place := make([]int, len(l.In))
	for n := range 1 << l.InBits() {
		for i, d := range l.In {
			place[i] = n & (d.Size() - 1)
			n >>= len(d.Bases)
		}
		f(place)
	}
}

func TestApplyIsLinear(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		l := random(r)
		a, b, c := make([]int, len(l.In)), make([]int, len(l.In)), make([]int, len(l.In))
		for i, d := range l.In {
			a[i], b[i] = r.IntN(d.Size()), r.IntN(d.Size())
			c[i] = a[i] ^ b[i]
		}
		x, y, z := l.Apply(a...), l.Apply(b...), l.Apply(c...)
		for j := range z {
			if x[j]^y[j] != z[j] {
				t.Fatalf("%s\nis not linear at %v, %v", l, a, b)
			}
		}
	}
}

// The rank is checked by counting the elements that are held.
func TestRankCountsElements(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 300 {
		l := random(r)
		held := map[string]int{}
		places(l, func(p []int) { held[fmt.Sprint(l.Apply(p...))]++ })
		if len(held) != 1<<l.Rank() {
			t.Fatalf("%s\nhas rank %d and holds %d elements", l, l.Rank(), len(held))
		}
		if l.IsSurjective() != (len(held) == 1<<l.OutBits()) || l.IsInjective() != (len(held) == 1<<l.InBits()) {
			t.Fatalf("%s: surjective %v, injective %v with %d elements", l, l.IsSurjective(), l.IsInjective(), len(held))
		}
		// Clearing the free bits of a place leaves a place of the same element's
		// coset: with them, each element is held equally often.
		free := 0
		for _, m := range l.Free() {
			for ; m > 0; m &= m - 1 {
				free++
			}
		}
		for at, n := range held {
			if n != 1<<free {
				t.Fatalf("%s\nhas %d free bits and holds %s %d times", l, free, at, n)
			}
		}
	}
}

func TestComposeWithInverseIsIdentity(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	in := []OutDim{{Register, 4}, {Lane, 8}}
	out := []OutDim{{"dim0", 8}, {"dim1", 4}}
	for range 100 {
		l := invertible(r, in, out)
		inv, err := l.Invert()
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range [][2]Layout{{l, inv}, {inv, l}} {
			c, err := pair[0].Compose(pair[1])
			if err != nil {
				t.Fatal(err)
			}
			places(c, func(p []int) {
				if !slices.Equal(c.Apply(p...), p) {
					t.Fatalf("%s\ncomposed with its inverse sends %v to %v", l, p, c.Apply(p...))
				}
			})
		}
		back, err := inv.Invert()
		if err != nil || !back.Equal(l) {
			t.Fatalf("the inverse of the inverse of\n%s\nis\n%s (%v)", l, back, err)
		}
	}
}

func TestComposeIsComposition(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	for range 200 {
		l := random(r)
		g := Layout{Out: []OutDim{{"x", 8}, {"y", 2}}}
		for i := len(l.Out) - 1; i >= 0; i-- { // another order of the dimensions
			d := Dim{Name: l.Out[i].Name}
			for range width(l.Out[i].Size) {
				d.Bases = append(d.Bases, randomIndex(r, g.Out))
			}
			g.In = append(g.In, d)
		}
		c, err := l.Compose(g)
		if err != nil {
			t.Fatal(err)
		}
		places(l, func(p []int) {
			mid := slices.Clone(l.Apply(p...))
			slices.Reverse(mid)
			if got, want := c.Apply(p...), g.Apply(mid...); !slices.Equal(got, want) {
				t.Fatalf("composition at %v is %v, want %v", p, got, want)
			}
		})
	}
	if _, err := Identity(8, Lane, "dim0").Compose(Identity(4, "dim0", "x")); err == nil {
		t.Error("composition into a smaller dimension must fail")
	}
	if _, err := Identity(8, Lane, "dim0").Compose(Identity(8, "dim1", "x")); err == nil {
		t.Error("composition of different dimensions must fail")
	}
}

func TestPseudoInverse(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	surjective := 0
	for range 500 {
		l := random(r)
		inv, err := l.PseudoInvert()
		if (err == nil) != l.IsSurjective() {
			t.Fatalf("%s\nsurjective %v, but %v", l, l.IsSurjective(), err)
		}
		if err != nil {
			continue
		}
		surjective++
		free := l.Free()
		places(inv, func(index []int) {
			place := inv.Apply(index...)
			if got := l.Apply(place...); !slices.Equal(got, index) {
				t.Fatalf("%s\nsends the place %v of %v to %v", l, place, index, got)
			}
			for i := range place {
				if place[i]&free[i] != 0 {
					t.Fatalf("%s\nplace %v of %v has free bits %v", l, place, index, free)
				}
			}
		})
	}
	if surjective < 50 {
		t.Errorf("only %d of the layouts are surjective", surjective)
	}
}

// Going from one layout to another finds the element that was there.
func TestInvertAndCompose(t *testing.T) {
	a := must(ParseTriton(mma(2, "[16,8]", "[2,2]", ""), []int{64, 64}))
	b := must(ParseTriton(blocked("[1,8]", "[4,8]", "[4,1]", "[1,0]", ""), []int{64, 64}))
	x, err := a.InvertAndCompose(b)
	if err != nil {
		t.Fatal(err)
	}
	places(a, func(p []int) {
		if got, want := b.Apply(x.Apply(p...)...), a.Apply(p...); !slices.Equal(got, want) {
			t.Fatalf("%v goes to %v, which holds %v instead of %v", p, x.Apply(p...), got, want)
		}
	})
	if _, err := b.InvertAndCompose(must(New([]Dim{{Register, [][]int{{1, 0}}}}, b.Out))); err == nil {
		t.Error("elements that nobody holds must be an error")
	}
}

func TestProductsAndQuotients(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for range 300 {
		f, g, h := random(r), random(r), random(r)
		fg, err := f.Mul(g)
		if err != nil {
			t.Fatal(err)
		}
		// The meaning: g counts in steps of f.
		places(fg, func(p []int) {
			low, high := make([]int, len(f.In)), make([]int, len(g.In))
			for i, d := range fg.In {
				n := 0
				if k := slices.IndexFunc(f.In, func(e Dim) bool { return e.Name == d.Name }); k >= 0 {
					n = len(f.In[k].Bases)
					low[k] = p[i] & (1<<n - 1)
				}
				if k := slices.IndexFunc(g.In, func(e Dim) bool { return e.Name == d.Name }); k >= 0 {
					high[k] = p[i] >> n
				}
			}
			x, y, z := f.Apply(low...), g.Apply(high...), fg.Apply(p...)
			for j, o := range fg.Out {
				want := 0
				scale := 1
				if k := f.outIndex(o.Name); k >= 0 {
					want, scale = x[k], f.Out[k].Size
				}
				if k := g.outIndex(o.Name); k >= 0 {
					want += y[k] * scale
				}
				if z[j] != want {
					t.Fatalf("the product sends %v to %v; dimension %s must be %d", p, z, o.Name, want)
				}
			}
		})
		fgh1, err1 := fg.Mul(h)
		gh, err2 := g.Mul(h)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if fgh2, err := f.Mul(gh); err != nil || !fgh1.Equal(fgh2) {
			t.Fatalf("the product is not associative: %v", err)
		}
		if q, err := fg.DivideLeft(f); err != nil || !q.SameMap(pad(g, fg)) {
			t.Fatalf("(f g) / f is\n%s\nnot g =\n%s\n(%v)", q, g, err)
		}
		if q, err := fg.DivideRight(g); err != nil || !q.SameMap(pad(f, fg)) {
			t.Fatalf("(f g) / g is\n%s\nnot f =\n%s\n(%v)", q, f, err)
		}
	}
	if _, err := Identity(4, Lane, "dim0").DivideLeft(must(New([]Dim{{Lane, [][]int{{0}}}}, []OutDim{{"dim0", 2}}))); err == nil {
		t.Error("division by what is not a factor must fail")
	}
}

// pad gives a layout the output dimensions of a product, those it lacks of size 1.
func pad(l, like Layout) Layout {
	for _, o := range like.Out {
		if l.outIndex(o.Name) < 0 {
			l = must(l.Mul(Layout{Out: []OutDim{{o.Name, 1}}}))
		}
	}
	return l
}

func TestQuotient(t *testing.T) {
	l := must(Identity(4, Warp, Warp).Mul(Identity(8, Register, "dim0")))
	q, err := l.Quotient(Warp)
	if err != nil || !q.Equal(Identity(8, Register, "dim0")) {
		t.Errorf("quotient is\n%s (%v)", q, err)
	}
	twisted := must(New([]Dim{{Warp, [][]int{{1, 0}, {2, 0}}}, {Register, [][]int{{1, 1}}}}, []OutDim{{Warp, 4}, {"dim0", 2}}))
	if _, err := twisted.Quotient(Warp); err == nil {
		t.Error("registers touch warps: there is no quotient")
	}
	if _, err := l.Quotient(Register); err == nil {
		t.Error("register is no output dimension")
	}
}

func TestReshapes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for range 200 {
		l := random(r)
		flat := l.FlattenIn("place").FlattenOut("index")
		place := 0
		places(l, func(p []int) {
			want, at := 0, 0
			for j, v := range l.Apply(p...) {
				want |= v << at
				at += width(l.Out[j].Size)
			}
			if got := flat.Apply(place)[0]; got != want {
				t.Fatalf("flattened place %d is %d, want %d", place, got, want)
			}
			place++
		})
		back, err := flat.ReshapeIn(l.sizes()...)
		if err != nil {
			t.Fatal(err)
		}
		if back, err = back.ReshapeOut(l.Out...); err != nil || !back.Equal(l) {
			t.Fatalf("flattening does not come back: %v", err)
		}
		names := make([]string, len(l.In))
		for i, d := range l.In {
			names[len(names)-1-i] = d.Name
		}
		turned, err := l.TransposeIn(names...)
		if err != nil || !turned.SameMap(l) {
			t.Fatalf("transposed inputs are another map: %v", err)
		}
	}
	if _, err := Identity(8, Lane, "dim0").ReshapeIn(OutDim{Lane, 4}); err == nil {
		t.Error("a reshape that loses a bit must fail")
	}
}

func TestMatrix(t *testing.T) {
	l := must(New([]Dim{{Register, [][]int{{0, 1}, {2, 0}}}, {Lane, [][]int{{1, 1}}}}, []OutDim{{"dim0", 4}, {"dim1", 2}}))
	m := l.Matrix()
	if got := fmt.Sprint(m.Rows, m.Columns, m.Bits); got != "[dim0=1 dim0=2 dim1=1] [register=1 register=2 lane=1] [[0 0 1] [0 1 0] [1 0 1]]" {
		t.Errorf("matrix is %s", got)
	}
}

func TestTextRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for range 300 {
		l := random(r)
		back, err := Parse(l.String())
		if err != nil || !back.Equal(l) {
			t.Fatalf("%s\nreads back as\n%s\n%v", l, back, err)
		}
		if back, err = ParseTriton(l.Attr(), l.Shape()); err != nil && l.InBits() > 0 && l.IsSurjective() {
			t.Fatalf("%s: %v", l.Attr(), err)
		} else if err == nil && l.IsSurjective() && !back.Equal(l) {
			t.Fatalf("%s reads back as\n%s", l.Attr(), back)
		}
	}
	for _, text := range []string{
		"(empty layout)",
		// As a comment in a test of the compiler, and without sizes.
		"// - register=1 -> (0, 1)\n//   register=2 -> (8, 0)\n// - lane=1 -> (0, 2)\n// - block is a size 1 dimension\n// where out dims are: [dim0, dim1]\n",
		"acc: [T,W,R] -> [A,B] # a comment\nT: [[0,2],[0,4],[1,0],[2,0],[4,0]]\nW: []\nR: [[0,1],[8,0]]",
		"acc: [T, W, R] -> [A, B]\n[[0,2],[0,4],[1,0],[2,0],[4,0]]\n[]\n[[0,1],[8,0]]",
		"#ttg.linear<{register = [[0, 1]], lane = [[1, 0]], warp = [], block = []}>",
		"#ttg.shared_linear<{offset = [[0, 1], [1, 1]], block = []}>",
		"#ttg.shared_linear<{offset = [[0, 1], [1, 1]]}, alignment = 16>",
	} {
		l, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if back, err := Parse(l.String()); err != nil || !back.Equal(l) {
			t.Errorf("%s prints as %s: %v", text, l, err)
		}
	}
}

func TestParseSaysWhere(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "1:1: \"where\" is wanted here, not the end of the text [Linear.E1]"},
		{"- lane=1 -> (0, 1)\n  lane=4 -> (1, 0)\nwhere out dims are: [a, b]", "2:8: the bases of lane are those of 1, 2, 4, …; 2 is wanted here, not 4 [Linear.E4]"},
		{"- lane=1 -> (0, 1\nwhere", "2:1: \")\" is wanted after the numbers"},
		{"- lane=1 -> (0, 1)\nwhere out dims are: [a (size 2)]", "lane=1 goes to (0, 1), which has 2 numbers; there are 1 output dimensions [Linear.E4]"},
		{"- lane=1 -> (2)\nwhere out dims are: [a (size 2)]", "lane=1 goes to (2), but a has size 2"},
		{"- lane=1 -> (2)\nwhere out dims are: [a (size 3)]", "size 3, which is not a power of two [Linear.E3]"},
		{"x: [T] -> [A]\nR: []", "2:1: the bases of T are wanted here, not those of R"},
		{"x: [T] -> [A]\nT: [[1]] [", "cannot follow a layout"},
		{"x: [T, T] -> [A]\n[]\n[]", "named twice"},
		{"#ttg.linear<{lane = [[0, 1], [1]]}>", "has 1 numbers; the tensor has rank 2"},
		{"x: [T] -> [A]\nT: [[99999999999]]", "out of range"},
		{strings.Repeat(" ", MaxText+1), "longer than 32768 bytes"},
	} {
		if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v\nwant %s", c.text, err, c.want)
		}
	}
}

// Encodings are found again: what ParseTriton made has an encoding that is not
// just its bases, and all that are listed give the same map.
func TestEncodingsAreFound(t *testing.T) {
	bases := 0
	for _, f := range tritonFacts {
		if strings.Contains(f.attr, "CTAs") {
			continue
		}
		l := must(ParseTriton(f.attr, f.shape))
		text := l.Encoding()
		if back, err := ParseTriton(text, f.shape); err != nil || !back.SameMap(l) {
			t.Errorf("%s: %s reads back as\n%s\n%v", f.name, text, back, err)
		}
		if text == l.Attr() {
			bases++
		}
		for _, text := range l.EncodedAs() {
			if back, err := ParseTriton(text, f.shape); err != nil || !back.SameMap(l) {
				t.Errorf("%s: %s is listed, and reads back as\n%s\n%v", f.name, text, back, err)
			}
		}
	}
	if bases > len(tritonFacts)/2 {
		t.Errorf("%d of %d layouts are given as bases only", bases, len(tritonFacts))
	}
	t.Logf("%d of %d layouts are given as bases only", bases, len(tritonFacts))
}

func TestRegisterRoundTrip(t *testing.T) {
	for _, text := range []string{
		"local()", "local(2, 1).spatial(8, 4).local(1, 2)", "column_local(2, 2).spatial(8, 4).local(1, 2)",
		"local(2, 1).column_spatial(4, 8).local(2, 1)", "reduce(spatial(4, 8), [0])", "spatial(2, 2).local(4, 2).spatial(8, 4).local(1, 2)",
		"spatial(2, 1).replicated(1, 1, num_workers=2).spatial(8, 4)", "local(64)", "spatial(4, 4, 8).local(2, 1, 1)",
	} {
		r, err := layout.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, lanes := range []int{1, 32, 64} {
			l, err := FromRegister(r, lanes)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			for thread := range r.Threads() {
				for slot := range r.Slots() {
					if got, want := l.Apply(slot, thread%min(lanes, r.Threads()), thread/min(lanes, r.Threads()), 0), r.Index(thread, slot); !slices.Equal(got, want) {
						t.Fatalf("%s with %d lanes: thread %d slot %d is %v, want %v", text, lanes, thread, slot, got, want)
					}
				}
			}
			back, err := ToRegister(l)
			if err != nil || !back.Equal(r) {
				t.Errorf("%s comes back as %s: %v", text, back, err)
			}
		}
	}
}

func TestRegisterRefuses(t *testing.T) {
	for _, text := range []string{"local(3)", "spatial(6, 4)", "reduce(spatial(3, 4), [0])"} {
		r, err := layout.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := FromRegister(r, 32); err == nil || !strings.Contains(err.Error(), "not a power of two [Linear.E3]") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"x: [R] -> [A]\n[[1],[3]]", "register=2"},
		{"x: [R] -> [A]\n[[1],[0]]", "replicates within a thread"},
		{"x: [R] -> [A]\n[[1],[4]]", "no place holds an index with bit 2"},
		{"x: [R, T] -> [A]\n[[1]]\n[[1]]", "flip the same bit"},
		{"x: [R] -> [A, B]\n[[1, 1],[0, 1]]", "flips several bits"},
		{"x: [offset] -> [A]\n[[1]]", "counts neither registers nor threads"},
	} {
		l, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(c.want, "register=", "R=")
		if _, err := ToRegister(l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", c.text, err, want)
		}
	}
}

func TestRulesAreNumbered(t *testing.T) {
	for i, r := range Rules {
		if r.Code != fmt.Sprintf("Linear.E%d", i+1) {
			t.Errorf("rule %d is %s", i+1, r.Code)
		}
	}
	if int(eRegister) != len(Rules) {
		t.Errorf("%d rules, the last number is %d", len(Rules), eRegister)
	}
}

func TestShapes(t *testing.T) {
	for _, text := range []string{"16x64", "[16, 64]", "(16,64)"} {
		if s, err := ParseShape(text); err != nil || !slices.Equal(s, []int{16, 64}) {
			t.Errorf("%s is %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "x", "0x4", "-1", "16x"} {
		if s, err := ParseShape(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range tritonFacts[:8] {
		f.Add(c.attr)
		f.Add(must(ParseTriton(c.attr, c.shape)).String())
	}
	f.Add("x: [T] -> [A]\nT: [[1]]")
	f.Fuzz(func(t *testing.T, text string) {
		for _, shape := range [][]int{nil, {32}, {16, 8}} {
			l, err := ParseTriton(text, shape)
			if err == nil && !slices.Equal(l.Shape(), shape) && shape != nil {
				t.Fatalf("%q on %v has shape %v", text, shape, l.Shape())
			}
		}
		l, err := Parse(text)
		if err != nil {
			return
		}
		if back, err := Parse(l.String()); err != nil || !back.Equal(l) {
			t.Fatalf("%q prints as %q: %v", text, l, err)
		}
	})
}
