package cute

import (
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

func mustParse(t testing.TB, text string) Layout {
	t.Helper()
	l, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return l
}

func TestEval(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"(4,8)", "(4,8)"},
		{"(_4,_8):(_8,_1)", "(4,8):(8,1)"},
		{"((4,2),8):((1,4),8) o 8:2", "8:2"},
		{"((4,2),8):((1,5),10) o 8:2", "(2,4):(2,5)"},
		{"composition((6,2):(8,2),(4,3):(3,1))", "((2,2),3):((24,2),8)"},
		{"composition((4,2,8):(3,12,97), 3:3)", "3:9"}, // neither divides, but it stays inside the mode
		{"logical_divide((8,8),<4:1,2:1>)", "((4,2),(2,4)):((1,4),(8,16))"},
		{"logical_divide((8,8),<_,2:1>)", "(8,(2,4)):(1,(8,16))"},
		{"logical_divide((8,8),(4,2))", "((4,2),(2,4)):((1,4),(8,16))"},
		{"tiled_divide((8,24):(24,1),<4:1>)", "((4),2,24):((24),96,1)"},
		{"upcast<2>((8,8):(8,1))", "(8,4):(4,1)"},
		{"upcast<8>(Sw<3,1,3>)", "Sw<1,0,3>"},
		{"downcast(Sw<3,3,3>, 2)", "Sw<3,4,3>"},
		{"Sw<3,4,3> o (8,64):(64,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)"},
		{"Swizzle<3,4,3> o _16 o (8,64):(64,1)", "Sw<3,4,3> o 16 o (8,64):(64,1)"},
		{"Sw<0,4,3> o (8,64):(64,1)", "(8,64):(64,1)"},
		{"GMMA::Layout_K_SW64_Atom<f16>", "Sw<2,4,3> o smem_ptr[16b](unset) o (8,32):(32,1)"},
		{"Sw<2,4,3> o smem_ptr[16b](unset) o (_8,_32):(_32,_1)", "Sw<2,4,3> o smem_ptr[16b](unset) o (8,32):(32,1)"},
		{"as_position_independent_swizzle_layout(GMMA::Layout_K_SW64_Atom<f16>)", "Sw<2,3,3> o 0 o (8,32):(32,1)"},
		{"tile_to_shape(GMMA::Layout_K_SW128_Atom<f16>, (128,128,4), (2,1,3))", "Sw<3,4,3> o smem_ptr[16b](unset) o ((8,16),(64,2),(1,4)):((64,1024),(1,512),(0,16384))"},
		{"ArithTuple(_0,_0) o (4,8):(1@0,1@1)", "(4,8):(1@0,1@1)"},
		{"crd2idx((1,2),(4,8):(1@0,1@1))", "(1,2)"},
		{"crd2idx(0,(4,8):(1@0,1@1))", "(0,0)"},
		{"coshape((4,(2,3)):(2@0,(1@1,1@0@2)))", "(7,2,(3))"},
		{"composition((4,8):(8,1), (4,2):(1@1,2@0))", "(4,2):(1,16)"},
		{"composition((4,8):(1@0,1@1), (8,4):(4,1))", "(8,4):(1@1,1@0)"},
		{"right_inverse((8,4):(4,1))", "(4,8):(8,1)"},
		{"left_inverse((4,8):(1,5))", "(5,8):(1,4)"},
		{"(4:1, 2:8)", "(4,2):(1,8)"},
		{"((4,8):(8,1))", "(4,8):(8,1)"},
		{"4:-1", "4:-1"},
		{"idx2crd(37,(4,8))", "(1,9)"},
		{"make_layout_tv((4,8):(8,1), (2,4):(4,1))", "layout ((8,4),(4,2)):((32,2),(8,1)) tiler <8:1,32:1>"},
		{"mode((4,8):(8,1), 1)", "8:1"},
		{"complement(4:2)", "2:1"},
		{"max_alignment((8,8):(16,1))", "8"},
		{"Layout<Shape<_4,_8>,Stride<_8,_1>>", "(4,8):(8,1)"},
		{"Layout<Shape<Shape<_4,_2>,_8>,Stride<Stride<_1,_64>,_8>>", "((4,2),8):((1,64),8)"},
		{"logical_divide((8,8), Tile<_4,Layout<_2,_1>>)", "((4,2),(2,4)):((1,4),(8,16))"},
		{"<4:1,<2,_>>", "<4:1,<2:1,_>>"},
	} {
		v, err := Eval(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if v.String() != c.want {
			t.Errorf("%s is %s, want %s", c.text, v, c.want)
		}
		again, err := Eval(v.String())
		if v.Kind() != "pair" && (err != nil || again.String() != v.String()) {
			t.Errorf("%s prints as %s, which reads as %s, %v", c.text, v, again, err)
		}
	}
}

func TestErrors(t *testing.T) {
	deep := strings.Repeat("(", 100)
	for _, c := range []struct {
		text, code, say string
		col             int
	}{
		{"", "CuTe.E1", "a layout is wanted here, not the end of the text", 1},
		{"(4,8", "CuTe.E1", `")" is wanted`, 5},
		{"(4,8):(8", "CuTe.E1", `")" is wanted`, 9},
		{"(4,8):(8,1,2)", "CuTe.E4", "not congruent", 1},
		{"size((4,0))", "CuTe.E3", "0 is no size", 6},
		{"size((4,-2))", "CuTe.E3", "-2 is no size", 6},
		{"99999999999999999999", "CuTe.E3", "beyond 2^52", 1},
		{"size((1048576,1048576,2))", "CuTe.E5", "more than 2^40", 6},
		{"1048576:4503599627370496", "CuTe.E5", "beyond 2^52", 1},
		{"4:1 8", "CuTe.E1", `"8" cannot follow a layout`, 5},
		{"4;1", "CuTe.E1", `";" cannot follow`, 2},
		{"composition(4:1", "CuTe.E1", `")" is wanted to close composition(`, 16},
		{"compositon(4:1, 2)", "CuTe.E9", "there is no operation compositon", 1},
		{"composition(4:1)", "CuTe.E10", "lacks its argument tiler", 1},
		{"filter(4:1, 2:1)", "CuTe.E10", "no argument number 2", 13},
		{"filter(Sw<1,2,3>)", "CuTe.E10", "a layout is wanted here, not a swizzle", 8},
		{"logical_divide((3,4):(4,1), 2:1)", "CuTe.E6", "2:1 does not divide (3,4):(4,1): the mode 3:4 is stepped through by 2, and 3 is not divisible by 2", 1},
		{"Layout<8:1>", "CuTe.E1", "a shape and a stride", 1},
		{"Shape<8:1>", "CuTe.E10", "lists numbers", 1},
		{"composition((4,6):(1,10), 3:2)", "CuTe.E6", "3 is not divisible by 2", 1},
		{"composition((4,6):(1,10), 3:6)", "CuTe.E6", "6 is not divisible by 4", 1},
		{"logical_divide(8:1, <4,2>)", "CuTe.E7", "has 2 modes, the layout 8:1 has 1", 1},
		{"complement((4,4):(1,2), 16)", "CuTe.E11", "overlap", 1},
		{"complement(4:-1, 16)", "CuTe.E11", "negative", 1},
		{"left_inverse((2,2):(2,3))", "CuTe.E12", "3 is not a positive multiple of 2", 1},
		{"make_ordered_layout((2,2),(1,1))", "CuTe.E13", "has 1 twice", 1},
		{"upcast<4>((2,3):(3,1))", "CuTe.E14", "neither of the stride 3 and 4", 1},
		{"tile_to_shape((4,4),(8,6))", "CuTe.E15", "6 is not divisible by 4", 1},
		{"Sw<3,4,2>", "CuTe.E16", "", 1},
		{"Sw<3,4> o 4:1", "CuTe.E16", "three numbers", 1},
		{"Sw<3,4,3> o 8:-1", "CuTe.E16", "not negative", 13},
		{"Sw<2,3,3> o smem_ptr[32b](unset) o Sw<1,1,1> o 8", "CuTe.E10", "not to a swizzled layout", 36},
		{"(4,4):(1,1@0)", "CuTe.E18", "mixes", 1},
		{"crd2idx((1,2,3),(4,8))", "CuTe.E8", "has 3 modes", 1},
		{"GMMA::Layout_K_SW12_Atom<f16>", "CuTe.E9", "none of INTER", 1},
		{"GMMA::Layout_K_SW64_Atom<f6e3m2>", "CuTe.E14", "no whole number of elements of 6 bits", 1},
		{"GMMA::Layout_K_SW64_Atom<uint256_t>", "CuTe.E14", "of 256 bits", 1},
		{"GMMA::Layout_K_SW64_Atom<u0>", "CuTe.E9", "no element type", 1},
		{"GMMA::Layout_K_SW64_Atom<f8e4m9>", "CuTe.E9", "no element type", 1},
		{"UMMA::Layout_K_SW128_32B_Atom<f32>", "CuTe.E9", "none of INTER", 1},
		{"GMMA::Layout_MN_SW128_32B_Atom<f32>", "CuTe.E9", "none of INTER", 1},
		{deep, "CuTe.E2", "deeper than 64", 65},
		{"composition((8,4):(1,100), (3,2):(1,6))", "CuTe.E20", "place 8 of 8", 1},
		{"4:1" + strings.Repeat(" ", MaxText) + "x", "CuTe.E2", "longer than 4096", MaxText + 1},
		{"smem_ptr[16b](unset)", "CuTe.E1", "stands between", 1},
	} {
		_, err := Eval(c.text)
		var list diag.List
		if !errors.As(err, &list) || len(list) != 1 {
			t.Errorf("%.40s: %v", c.text, err)
			continue
		}
		d := list[0]
		if d.Code != c.code || !strings.Contains(d.Msg, c.say) || d.Pos.Col != c.col {
			t.Errorf("%.40s: column %d: %v, want column %d, %s, %s", c.text, d.Pos.Col, err, c.col, c.code, c.say)
		}
	}
	if _, err := Eval("logcal_divide(8,2)"); err == nil || !strings.Contains(err.Error(), "logical_divide") {
		t.Errorf("no suggestion: %v", err)
	}
}

// TestNames keeps every name that Functions lists callable, and the rules in order.
func TestNames(t *testing.T) {
	for _, f := range Functions() {
		if f.Doc == "" || !strings.HasPrefix(f.Signature, f.Name+"(") {
			t.Errorf("%+v", f)
		}
		_, err := Eval(f.Name + "()")
		if err == nil || strings.Contains(err.Error(), "no operation") {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	for i, r := range Rules {
		if want := rule(i + 1).code(); r.Code != want || r.Text == "" {
			t.Errorf("rule %d is %+v", i+1, r)
		}
	}
	if len(Rules) != int(eCarry) || eCells.code() != "CuTe.E19" {
		t.Errorf("%d rules", len(Rules))
	}
}

func TestZero(t *testing.T) {
	var l Layout
	if l.String() != "1:0" || l.Size() != 1 || l.Cosize() != 1 || l.At(0) != 0 || l.Rank() != 1 {
		t.Errorf("%s: size %d, cosize %d", l, l.Size(), l.Cosize())
	}
	if got := Coalesce(l); !got.Equal(l) {
		t.Error(got)
	}
}

// random shapes have up to 3 levels and sizes that divide and do not.
func randomShape(r *rand.Rand, depth, room int) Tuple {
	sizes := []int{1, 2, 2, 3, 4, 4, 6, 8}
	if depth == 0 || r.Intn(3) == 0 {
		n := sizes[r.Intn(len(sizes))]
		if n > room {
			n = 1
		}
		return Int(n)
	}
	items := make([]Tuple, 1+r.Intn(3))
	for i := range items {
		items[i] = randomShape(r, depth-1, room)
		room /= max(items[i].Size(), 1)
	}
	return Of(items...)
}

// randomLayout has strides of all kinds: compact in any order, padded, 0.
func randomLayout(r *rand.Rand) Layout {
	shape := randomShape(r, 3, 256)
	n := len(shape.Leaves())
	order := r.Perm(n)
	leaves, strides, at := shape.Leaves(), make([]int, n), 1
	kind := r.Intn(4)
	for _, i := range order {
		strides[i] = at
		at *= leaves[i].n
		switch {
		case kind == 1 && r.Intn(3) == 0:
			at *= 2
		case kind == 2 && r.Intn(3) == 0:
			strides[i] = 0
		case kind == 3:
			strides[i] = r.Intn(20)
		}
	}
	k := 0
	stride := shape.mapLeaves(func(Tuple) Tuple { k++; return Int(strides[k-1]) })
	l, err := New(shape, stride)
	if err != nil {
		panic(err)
	}
	return l
}

const rounds = 1500

func each(t *testing.T, seed int64, f func(r *rand.Rand)) {
	n := rounds
	if testing.Short() {
		n /= 10
	}
	r := rand.New(rand.NewSource(seed))
	for range n {
		f(r)
		if t.Failed() {
			return
		}
	}
}

func offsets(t testing.TB, l Layout) []int {
	t.Helper()
	out, err := l.Offsets()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPrintParse(t *testing.T) {
	each(t, 1, func(r *rand.Rand) {
		l := randomLayout(r)
		if m := mustParse(t, l.String()); !m.Equal(l) {
			t.Errorf("%s reads as %s", l, m)
		}
		if m := mustParse(t, l.Static()); !m.Equal(l) {
			t.Errorf("%s reads as %s", l.Static(), m)
		}
		for i, at := range offsets(t, l) {
			v, err := l.Value(i)
			coord, cerr := Idx2Crd(i, l.Shape())
			w, werr := l.ValueAt(coord)
			if l.At(i) != at || err != nil || cerr != nil || werr != nil || v.n != at || w.n != at {
				t.Errorf("%s at %d: %d, %s, %s", l, i, at, v, w)
			}
		}
	})
}

func TestCoalesce(t *testing.T) {
	each(t, 2, func(r *rand.Rand) {
		l := randomLayout(r)
		c := Coalesce(l)
		if !slices.Equal(offsets(t, c), offsets(t, l)) || !Coalesce(c).Equal(c) || !c.SameMap(l) {
			t.Errorf("%s coalesces to %s", l, c)
		}
		byMode, err := CoalesceBy(l, Of(Int(1)))
		if err != nil || !slices.Equal(offsets(t, byMode), offsets(t, l)) || byMode.Rank() != l.Rank() {
			t.Errorf("%s coalesces by mode to %s, %v", l, byMode, err)
		}
		// Two layouts are one map where and only where they coalesce alike.
		m := randomLayout(r)
		if same := slices.Equal(offsets(t, l), offsets(t, m)); same != l.SameMap(m) {
			t.Errorf("%s and %s", l, m)
		}
		f := Filter(l)
		set, rest := offsets(t, l), offsets(t, f)
		slices.Sort(set)
		slices.Sort(rest)
		if !slices.Equal(slices.Compact(set), slices.Compact(rest)) {
			t.Errorf("%s filters to %s", l, f)
		}
		if n := Nullspace(l); n.Size()*FilterZeros(l).Size() != l.Size() {
			t.Errorf("nullspace of %s is %s", l, n)
		} else {
			for _, i := range offsets(t, n) {
				if l.At(i) != 0 {
					t.Errorf("nullspace of %s is %s", l, n)
				}
			}
		}
	})
}

// TestComposition checks R(i) = a(b(i)), and where it fails, that no layout of
// the shape of b, however refined, could have answered with the steps of b.
func TestComposition(t *testing.T) {
	done, failed := 0, 0
	each(t, 3, func(r *rand.Rand) {
		a, b := randomLayout(r), randomLayout(r)
		c, err := Composition(a, b)
		if err != nil {
			failed++
			return
		}
		done++
		if c.Size() != b.Size() || !b.Shape().IsInt() && c.Rank() != b.Rank() {
			t.Errorf("%s o %s is %s", a, b, c)
		}
		limit := a.Size()
		for i := range b.Size() {
			at := b.At(i)
			// Beyond a, its last mode of more than one element goes on.
			if at < limit && c.At(i) != a.At(at) {
				t.Errorf("%s o %s is %s: at %d %d, want %d", a, b, c, i, c.At(i), a.At(at))
				return
			}
		}
		// Associativity, where all of it exists and stays inside.
		d := randomLayout(r)
		if bd, err := Composition(b, d); err == nil && d.Cosize() <= b.Size() && b.Cosize() <= a.Size() {
			left, lerr := Composition(c, d)
			right, rerr := Composition(a, bd)
			if lerr == nil && rerr == nil && !left.SameMap(right) {
				t.Errorf("(%s o %s) o %s is %s, bracketed otherwise %s", a, b, d, left, right)
			}
		}
	})
	if done < failed/4 {
		t.Errorf("only %d of %d compositions exist", done, done+failed)
	}
}

func TestComplement(t *testing.T) {
	done := 0
	each(t, 4, func(r *rand.Rand) {
		l := randomLayout(r)
		target := 1 + r.Intn(500)
		c, err := Complement(l, Int(target))
		if err != nil {
			return
		}
		done++
		f := Filter(l)
		seen := map[int]bool{}
		for _, x := range offsets(t, f) {
			for _, y := range offsets(t, c) {
				if seen[x+y] {
					t.Errorf("%s and its complement %s meet at %d", l, c, x+y)
					return
				}
				seen[x+y] = true
			}
		}
		up := offsets(t, c)
		if !slices.IsSorted(up) {
			t.Errorf("the complement %s of %s is not ascending", c, l)
		}
		// Where strides divide one another every place below the target is reached.
		covers := true
		fl, next := flatten(f), 1
		for _, i := range ascending(fl.stride) {
			covers = covers && fl.stride[i].n%next == 0
			next = fl.stride[i].n * fl.shape[i].n
		}
		for x := 0; covers && f.stride.Size() != 0 && x < target; x++ {
			if !seen[x] {
				t.Errorf("%s and its complement %s below %d leave %d free", l, c, target, x)
				return
			}
		}
	})
	if done < 100 {
		t.Errorf("%d complements", done)
	}
}

func TestInverses(t *testing.T) {
	left := 0
	each(t, 5, func(r *rand.Rand) {
		l := randomLayout(r)
		inv := RightInverse(l)
		for i := range inv.Size() {
			if l.At(inv.At(i)) != i {
				t.Errorf("right inverse of %s is %s", l, inv)
				return
			}
		}
		inv, err := LeftInverse(l)
		if err != nil {
			return
		}
		left++
		all := offsets(t, l)
		sorted := slices.Clone(all)
		slices.Sort(sorted)
		injective := len(slices.Compact(sorted)) == len(all)
		for i, x := range all {
			if back := inv.At(x); injective && back != i {
				t.Errorf("left inverse of %s is %s: %d goes to %d and to %d", l, inv, i, x, back)
				return
			}
		}
	})
	if left < 100 {
		t.Errorf("%d left inverses", left)
	}
}

func TestDivideAndProduct(t *testing.T) {
	divided, multiplied := 0, 0
	each(t, 6, func(r *rand.Rand) {
		l, tile := randomLayout(r), randomLayout(r)
		if tile.Cosize() <= l.Size() && l.Size()%max(tile.Cosize(), 1) == 0 {
			d, err := LogicalDivide(l, LayoutTiler(tile))
			if err == nil {
				divided++
				c, err := Complement(tile, Coalesce(l).Shape())
				if err != nil || d.Rank() != 2 {
					t.Fatal(d, err)
				}
				for i := range tile.Size() {
					for j := range c.Size() {
						if at := tile.At(i) + c.At(j); at < l.Size() && d.At(i+j*tile.Size()) != l.At(at) {
							t.Errorf("%s divided by %s is %s", l, tile, d)
							return
						}
					}
				}
				// The other forms only bracket differently.
				for name, f := range map[string]func(Layout, Tiler) (Layout, error){"zipped": ZippedDivide, "tiled": TiledDivide, "flat": FlatDivide} {
					if z, err := f(l, LayoutTiler(tile)); err != nil || !slices.Equal(offsets(t, z), offsets(t, d)) {
						t.Errorf("%s divide of %s by %s is %s, not %s, %v", name, l, tile, z, d, err)
					}
				}
			}
		}
		p, err := LogicalProduct(l, LayoutTiler(tile))
		if err != nil {
			return
		}
		multiplied++
		if !p.Mode(0).Equal(l) || p.Mode(1).Size() != tile.Size() {
			t.Errorf("%s times %s is %s", l, tile, p)
		}
		// Copies do not meet.
		f := Filter(l)
		seen := map[int]bool{}
		distinct := Filter(p.Mode(1))
		tiles := offsets(t, distinct)
		slices.Sort(tiles)
		tiles = slices.Compact(tiles)
		for _, y := range tiles {
			for _, x := range offsets(t, f) {
				if seen[x+y] {
					t.Errorf("copies in %s times %s = %s meet", l, tile, p)
					return
				}
			}
			for _, x := range offsets(t, f) {
				seen[x+y] = true
			}
		}
		// Blocked and raked products have the same elements in the same tile.
		b, berr := BlockedProduct(l, tile)
		k, kerr := RakedProduct(l, tile)
		if (berr == nil) != (kerr == nil) {
			t.Errorf("blocked: %v, raked: %v", berr, kerr)
		}
		if berr == nil {
			x, y, z := offsets(t, b), offsets(t, k), offsets(t, p)
			slices.Sort(x)
			slices.Sort(y)
			slices.Sort(z)
			if !slices.Equal(x, y) || !slices.Equal(x, z) {
				t.Errorf("%s times %s: blocked %s, raked %s, logical %s", l, tile, b, k, p)
			}
		}
	})
	if divided < 50 || multiplied < 100 {
		t.Errorf("%d divisions, %d products", divided, multiplied)
	}
}

// TestRecast checks that Upcast undoes Downcast, and that offsets scale.
func TestRecast(t *testing.T) {
	each(t, 7, func(r *rand.Rand) {
		l := randomLayout(r)
		n := 1 + r.Intn(4)
		d, err := Downcast(l, n)
		if err != nil {
			t.Error(err)
		}
		if u, err := Upcast(d, n); err != nil || !u.Equal(l) {
			t.Errorf("upcast<%d>(downcast<%d>(%s)) is %s, %v", n, n, l, u, err)
		}
		a, err := MaxAlignment(l)
		if err == nil && a > 0 {
			if _, err := Upcast(Coalesce(l), a); err != nil {
				t.Errorf("%s has alignment %d: %v", l, a, err)
			}
		}
		m := randomLayout(r)
		c := MaxCommonLayout(l, m)
		for i := range c.Size() {
			if l.At(c.At(i)) != i || m.At(c.At(i)) != i {
				t.Errorf("common layout of %s and %s is %s", l, m, c)
				return
			}
		}
		if MaxCommonVector(l, m) != c.Size() {
			t.Errorf("common vector of %s and %s is %d, layout %s", l, m, MaxCommonVector(l, m), c)
		}
	})
}

func TestSwizzleUnits(t *testing.T) {
	for _, name := range append(SharedAtoms(), "GMMA::Layout_K_SW128_Atom<double>", "GMMA::Layout_MN_SW64_Atom<e2m1>", "GMMA::Layout_K_SW32_Atom<uint1b_t>",
		"UMMA::Layout_MN_SW128_32B_Atom<tfloat32_t>", "GMMA::Layout_K_SW128_Atom<u128>", "GMMA::Layout_MN_SW128_Atom<f4e2m1>") {
		c, err := SharedAtom(name)
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.Elements()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for i := range c.Size() {
			// The element stands where its first bit goes, with the byte that holds it.
			bit := c.Layout.At(i) * c.Bits
			want := (c.Swizzle.Apply(bit/8)*8 + bit%8) / c.Bits
			if c.At(i) != want || e.At(i) != want {
				t.Errorf("%s at %d: %d, %d, want %d", name, i, c.At(i), e.At(i), want)
			}
			seen[want] = true
		}
		if len(seen) != c.Size() {
			t.Errorf("%s puts %d elements in %d places", name, c.Size(), len(seen))
		}
		if again, err := ParseComposed(c.Static()); err != nil || again.String() != c.String() {
			t.Errorf("%s prints as %s, %v", name, c.Static(), err)
		}
	}
	if _, err := (Composed{Swizzle: layout.Swizzle{Bits: 1, Base: 4, Shift: 3}, Bits: 6}).Elements(); err == nil {
		t.Error("elements of 6 bits")
	}
}

func TestTable(t *testing.T) {
	text, err := Table(Composed{Layout: mustParse(t, "(2,3):(3,1)")})
	want := "(_2,_3):(_3,_1)\n      0   1   2 \n    +---+---+---+\n 0  | 0 | 1 | 2 |\n    +---+---+---+\n 1  | 3 | 4 | 5 |\n    +---+---+---+\n"
	if err != nil || text != want {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err = Table(Composed{Layout: mustParse(t, "(2,2):(1@0,1@1)")}); err != nil || !strings.Contains(text, "| (1,0) | (1,1) |") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, bad := range []string{"(2,2,2)", "(512,512)"} {
		if _, err := Table(Composed{Layout: mustParse(t, bad)}); err == nil {
			t.Errorf("a table of %s", bad)
		}
	}
}

func TestTiledMMA(t *testing.T) {
	atom := MMA{M: 16, N: 8, K: 16, ThrID: mustParse(t, "32"), A: mustParse(t, "((4,8),(2,2,2)):((32,1),(16,8,128))"),
		B: mustParse(t, "((4,8),(2,2)):((16,1),(8,64))"), C: mustParse(t, "((4,8),(2,2)):((32,1),(16,8))")}
	m, err := NewTiledMMA(atom, mustParse(t, "(2,2,1)"), []Tiler{LayoutTiler(mustParse(t, "64")), KeepMode()})
	if err != nil {
		t.Fatal(err)
	}
	if m.Tile().String() != "(64,16,16)" {
		t.Error(m.Tile())
	}
	for operand, size := range map[string]int{"A": 64 * 16, "B": 16 * 16, "C": 64 * 16} {
		l, err := m.LayoutTV(operand)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]int{}
		for _, x := range offsets(t, l) {
			seen[x]++
		}
		for x, n := range seen {
			if x >= size || n != l.Size()/size {
				t.Errorf("operand %s: element %d is held %d times", operand, x, n)
			}
		}
		if len(seen) != size || l.Mode(0).Size() != 128 {
			t.Errorf("operand %s: %s holds %d elements", operand, l, len(seen))
		}
	}
	if _, err := NewTiledMMA(atom, mustParse(t, "(2,2,1)"), []Tiler{LayoutTiler(mustParse(t, "16"))}); err == nil {
		t.Error("a tile smaller than the groups need")
	}
	if _, err := m.LayoutTV("D"); err == nil {
		t.Error("operand D")
	}
}

// TestTiledCopy spreads copies over threads: every element of the tile has one
// owner on either side.
func TestTiledCopy(t *testing.T) {
	each(t, 9, func(r *rand.Rand) {
		a, b := 1<<r.Intn(4), 1<<r.Intn(4)
		c, d := 1<<r.Intn(3), 1<<r.Intn(3)
		thr, _ := New(Ints(a, b), Ints(b, 1))
		val, _ := Compact(Ints(c, d))
		tv, err := MakeLayoutTV(thr, val)
		if err != nil {
			t.Errorf("%s, %s: %v", thr, val, err)
			return
		}
		for i := range tv.MN.Size() { // each is the other's inverse
			if x := tv.Layout.At(i); tv.MN.At(x) != i {
				t.Errorf("%s, %s: %s and %s at %d", thr, val, tv.Layout, tv.MN, i)
				return
			}
		}
		one, _ := Compact(Ints(1, c))
		copy, err := NewTiledCopy(Copy{Src: one, Dst: one, Ref: one}, tv.Layout, tv.Tile)
		if err != nil {
			t.Error(err)
			return
		}
		target, _ := CompactRight(Ints(2*a*c, 3*b*d))
		for _, side := range []string{"S", "D"} {
			parts, err := copy.Partition(target, side)
			if err != nil {
				t.Error(err)
				return
			}
			all := offsets(t, parts)
			slices.Sort(all)
			if len(slices.Compact(all)) != target.Size() || parts.Mode(0).Size() != a*b || parts.Mode(1).Size() != c*d {
				t.Errorf("%s in parts of %s is %s", target, tv.Layout, parts)
			}
		}
	})
	if _, err := MakeLayoutTV(mustParse(t, "(2,2):(1,4)"), mustParse(t, "2")); err == nil {
		t.Error("threads with gaps")
	}
}

// TestWorst evaluates texts that are as bad as the limits allow, in a moment.
func TestWorst(t *testing.T) {
	list := func(s string, n int) string { return "(" + strings.Repeat(s+",", n-1) + s + ")" }
	for _, text := range []string{
		"coshape(" + list("2", 6) + ":" + list("1"+strings.Repeat("@4095", 60), 6) + ")",
		"composition(" + list("1", 900) + "," + list("1", 900) + ")",
		"flat_divide(" + list("2", 30) + "," + list("1", 1800) + ")",
		"logical_product(" + list("1", 900) + "," + list("1", 900) + ")",
		strings.Repeat("coalesce(", 63) + list("2", 40) + strings.Repeat(")", 63),
		strings.Repeat("(", 62) + "1" + strings.Repeat(")", 62),
		"raked_product(1048576:1,1048576:1)",
		"1048576:1048576 o 1048576:1048576",
		strings.Repeat("2 o ", 1000) + "2",
		strings.Repeat("8:8 o ", 62) + "8:8",
	} {
		start := time.Now()
		if v, err := Eval(text); err == nil {
			_ = v.String()
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%.40s… takes %v", text, took)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"(4,8):(8,1)", "((2,(3)),_1@0):(1@1@2,-4)", "<4:1,_,(2,2)>", "Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)", "4 o 2 o 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Parse(text)
		if err != nil {
			var list diag.List
			if !errors.As(err, &list) || len(list) == 0 || list[0].Code == "" || !list[0].Pos.Known() {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		s := l.String()
		if m, err := Parse(s); len(s) < MaxText && (err != nil || !m.Equal(l)) {
			t.Errorf("%q is %s, which reads as %s, %v", text, s, m, err)
		}
	})
}

func FuzzEval(f *testing.F) {
	for _, s := range []string{"logical_divide((8,8),<4:1,2:1>)", "upcast<2>((8,8):(8,1))", "raked_product((4,32):(32,1),(4,1))",
		"tile_to_shape(GMMA::Layout_K_SW128_Atom<f16>,(128,64),(2,1))", "left_inverse(complement((4,8):(1,5),99))", "crd2idx((1,2),(4,8):(1@0,1@1))",
		"make_layout_tv((4,8):(8,1),(2,4):(4,1))", "max_alignment(coalesce((8,8):(16,1),(1,1)))", "make_fragment_like(nullspace(flatten((4,8):(0,0))))"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Eval(text)
		if err != nil {
			var list diag.List
			if !errors.As(err, &list) || len(list) == 0 || list[0].Code == "" || !list[0].Pos.Known() {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		s := v.String()
		if w, err := Eval(s); v.Kind() != "pair" && len(s) < MaxText && (err != nil || w.String() != s) {
			t.Errorf("%q is %s, which evaluates to %s, %v", text, s, w, err)
		}
		if c, ok := v.Composed(); ok && c.Size() <= 1<<12 {
			for i := range c.Size() {
				c.At(i)
			}
		}
	})
}
