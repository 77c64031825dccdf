package layoutviz

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/layoutviz/cuteprint"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

// byID are the elements of a picture by ID.
func byID(p Picture) map[string]Element {
	out := map[string]Element{}
	for _, e := range p.IDs {
		out[e.ID] = e
	}
	return out
}

// Each word that the model serves in a phase is one cell with its lanes; the counts
// above are the model's, and the two lanes that it names stand in marked cells.
func TestBanksAgreeWithModel(t *testing.T) {
	for _, c := range []struct {
		profile string
		kind    bank.Kind
		width   int
		at      func(lane int) int
	}{
		{"nvidia", bank.Load, 4, func(l int) int { return l * 132 % 4096 }},
		{"nvidia", bank.Store, 16, func(l int) int { return l * 48 }},
		{"nvidia", bank.LdMatrix, 16, func(l int) int { return l * 80 }},
		{"nvidia", bank.Load, 4, func(l int) int { return l / 8 * 128 }},
		{"mi350", bank.Load, 16, func(l int) int { return l * 256 }},
	} {
		p, err := bank.FindProfile(c.profile)
		if err != nil {
			t.Fatal(err)
		}
		r, err := bank.Count(p, bank.Access{Kind: c.kind, Width: c.width, Addrs: lanes(p.Lanes, c.at)})
		if err != nil {
			t.Fatal(err)
		}
		pic, err := Banks(r, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ids := byID(pic)
		drawn := 0
		for _, ph := range r.Phases {
			words := map[int]int{}
			for _, q := range ph.Requests {
				words[q.Bank]++
				e, ok := ids[fmt.Sprintf("p%dw%d", ph.Number, q.Word)]
				if !ok || !slices.Equal(e.Keys, q.Lanes) {
					t.Errorf("%v %d: phase %d word %d of lanes %v is drawn as %+v", c.kind, c.width, ph.Number, q.Word, q.Lanes, e)
				}
				drawn++
			}
			most := 0
			for b, n := range words {
				most = max(most, n)
				if e := ids[fmt.Sprintf("p%db%d", ph.Number, b)]; !strings.HasSuffix(e.Label, "hands out "+count(n, "word")) {
					t.Errorf("phase %d bank %d: %q, want %d words", ph.Number, b, e.Label, n)
				}
			}
			if most != ph.Degree {
				t.Errorf("phase %d: %d words in a bank, degree %d", ph.Number, most, ph.Degree)
			}
		}
		for id := range ids {
			if strings.Contains(id, "w") {
				drawn--
			}
		}
		if drawn != 0 {
			t.Errorf("%v %d: %d words too few are drawn", c.kind, c.width, drawn)
		}
		if !strings.Contains(pic.Title+pic.Desc, count(r.Wavefronts, "wavefront")) {
			t.Errorf("%v: %q does not say %d wavefronts", c.kind, pic.Desc, r.Wavefronts)
		}
	}
	if _, err := Banks(bank.Report{}, Options{}); err == nil {
		t.Error("an empty report is drawn")
	}
}

// The ones of the drawn matrix are those of the bases.
func TestMatrixAgreesWithLayout(t *testing.T) {
	l, err := linear.New([]linear.Dim{
		{Name: "register", Bases: [][]int{{0, 1}, {3, 2}}}, {Name: "lane", Bases: [][]int{{1, 0}, {0, 0}, {2, 3}}}, {Name: "warp"},
	}, []linear.OutDim{{Name: "row", Size: 4}, {Name: "col", Size: 4}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Matrix(l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := byID(p)
	if len(ids) != l.InBits()*l.OutBits() {
		t.Errorf("%d cells for %d×%d bits", len(ids), l.OutBits(), l.InBits())
	}
	for i, d := range l.In {
		for b, basis := range d.Bases {
			for o := range l.Out {
				for ob := range 2 {
					want := fmt.Sprintf("has %d in it", basis[o]>>ob&1)
					if e := ids[fmt.Sprintf("mo%db%di%db%d", o, ob, i, b)]; !strings.Contains(e.Label, want) {
						t.Errorf("%q, want %q", e.Label, want)
					}
				}
			}
		}
	}
}

// Afterwards each place holds the unit that the swizzle sends there.
func TestSwizzleAgrees(t *testing.T) {
	for _, s := range []layout.Swizzle{{Bits: 2, Base: 0, Shift: 3}, {Bits: 1, Base: 1, Shift: 2}, {Bits: 2, Base: 1, Shift: -2}, {}} {
		p, err := Swizzle(s, 8, 8, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ids := byID(p)
		for u := range 64 {
			if e := ids[fmt.Sprint("b", s.Apply(u))]; e.Slot != u {
				t.Errorf("%s: place %d holds %d, want %d", s, s.Apply(u), e.Slot, u)
			}
		}
	}
	// A group of a long row is drawn as one cell.
	p, err := Swizzle(layout.Swizzle{Bits: 3, Base: 3, Shift: 3}, 8, 64, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.IDs) != 2*64 {
		t.Errorf("%d cells, want 2 of 8×8", len(p.IDs))
	}
	for _, bad := range [][2]int{{4, 6}, {0, 8}, {1 << 10, 1 << 10}} {
		if _, err := Swizzle(layout.Swizzle{Bits: 2, Base: 0, Shift: 3}, bad[0], bad[1], Options{}); err == nil {
			t.Errorf("a swizzle of %v units is drawn", bad)
		}
	}
}

// Every chunk of shared memory holds what the tensor map sends there.
func TestTMAAgrees(t *testing.T) {
	for _, mode := range []string{"", "32B", "64B", "128B"} {
		inner := map[string]int{"": 32, "32B": 16, "64B": 32, "128B": 64}[mode]
		m := bank.TensorMap{ElementBytes: 2, Dims: []uint64{160, 40}, Strides: []uint64{320}, Box: []int{inner, 8}, Swizzle: mode}
		const base = 2048
		p, err := TMA(m, -2, 8, base, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ids := byID(p)
		for r := range 8 {
			for e := 0; e < inner; e += 8 {
				cell := ids[fmt.Sprint("s", m.At(base, e, r))]
				if len(cell.Keys) != 1 || cell.Keys[0] != r*inner+e {
					t.Errorf("%s: byte %d holds %v, want box (%d, %d)", mode, m.At(base, e, r), cell.Keys, r, e)
				}
			}
		}
		if e := ids["g-1.8"]; !strings.Contains(e.Label, "outside") {
			t.Errorf("%s: %q does not say that row -1 is outside", mode, e.Label)
		}
	}
	if _, err := TMA(bank.TensorMap{ElementBytes: 3}, 0, 0, 0, Options{}); err == nil {
		t.Error("a wrong tensor map is drawn")
	}
}

// A chain's last step is the layout, and its parts link to it.
func TestChainAgrees(t *testing.T) {
	l := layout.Local(2, 1).Spatial(4, 2).Local(1, 2)
	f, err := Factors(l)
	if err != nil || len(f) != 3 {
		t.Fatalf("%v %v", f, err)
	}
	p, err := Chain(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := byID(p)
	for thread := range l.Threads() {
		for slot := range l.Slots() {
			at := l.Index(thread, slot)
			e := ids["p2.e"+dotted(at)]
			if e.Thread != thread || e.Slot != slot {
				t.Errorf("%v is of thread %d slot %d, want %d %d", at, e.Thread, e.Slot, thread, slot)
			}
			part := ids["f2.e"+dotted([]int{0, at[1] % 2})]
			whole := ids["p1.e"+dotted([]int{at[0], at[1] / 2})]
			if !slices.Contains(e.Keys, part.Keys[0]) || !slices.Contains(e.Keys, whole.Keys[0]) {
				t.Errorf("%v has keys %v, want those of its part %v and of its place %v", at, e.Keys, part.Keys, whole.Keys)
			}
		}
	}
	if _, err := Chain(nil, Options{}); err == nil {
		t.Error("an empty chain is drawn")
	}
	if _, err := Over(layout.Spatial(4, 4), layout.Local(3, 3), Options{}); err == nil {
		t.Error("a quotient that does not exist is drawn")
	}
	if f, err := Factors(layout.Layout{}); err != nil || len(f) != 1 {
		t.Errorf("factors of one element: %v %v", f, err)
	}
}

// Product and quotient are drawn from the same three layouts.
func TestOperandsAgree(t *testing.T) {
	f, g := layout.Spatial(2, 4), layout.Local(2, 2)
	h := f.Mul(g)
	times, err := Times(f, g, Options{})
	if err != nil {
		t.Fatal(err)
	}
	over, err := Over(h, g, Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := byID(times), byID(over)
	for id, e := range a {
		if x := b[id]; x.Thread != e.Thread || x.Slot != e.Slot || !slices.Equal(x.Keys, e.Keys) {
			t.Errorf("%s is %+v in the product, %+v in the quotient", id, e, x)
		}
	}
	if len(a) != len(b) || len(a) != f.Size()+g.Size()+h.Size() {
		t.Errorf("%d and %d cells", len(a), len(b))
	}
}

// Instructions of each family are drawn, with every element where the catalogue has
// it; in CuTe's look where CuTe has them.
func TestAtoms(t *testing.T) {
	n := map[string]int{}
	for _, a := range arch.Atoms() {
		key := a.Vendor + a.Family
		if n[key]++; n[key] > 3 && n[key]%97 != 0 || a.M*a.N*max(a.Blocks, 1) > 1<<14 {
			continue
		}
		p, err := Atom(a, Options{NoCaption: true})
		if err != nil {
			if !strings.Contains(err.Error(), "the most is") {
				t.Errorf("%s: %v", a.Name, err)
			}
			continue
		}
		ids := byID(p)
		for _, name := range []string{"A", "B"} {
			x, ok := a.Operand(name)
			if !ok || x.Layout.Size() > 1024 || x.Layout.Rank() != 2 || everyone(x.Layout) {
				continue
			}
			for thread := range min(x.Layout.Threads(), 8) {
				at := x.Layout.Index(thread, 0)
				e := ids[name+dotted(at)]
				held := e.Thread == thread && e.Slot == 0 || slices.ContainsFunc(e.Also, func(h layout.Holder) bool { return h.Thread == thread && h.Slot == 0 })
				if !held && len(ids) > 0 {
					t.Errorf("%s: %s %v is drawn as %+v, but thread %d slot 0 holds it", a.Name, name, at, e, thread)
				}
			}
		}
		if o, ok := a.Operand("C"); ok && o.CuTe != "" && o.Layout.Size() <= 1024 && a.Operands[0].CuTe != "" {
			if _, err := CuteAtom(a, Options{}); err != nil {
				t.Errorf("%s in CuTe's look: %v", a.Name, err)
			}
		}
	}
	if len(n) < 15 {
		t.Errorf("the catalogue has %d families", len(n))
	}
}

// Tiled copies and operations of CuTe, and what has no picture.
func TestCutePictures(t *testing.T) {
	one, err := cute.Parse("((4,8),(2,2)):((32,1),(16,8))")
	if err != nil {
		t.Fatal(err)
	}
	l, err := cuteprint.NewTV(one, 16, 8)
	if err != nil {
		t.Fatal(err)
	}
	p, err := CuteThreads(l, 16, 8, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := byID(p)
	for thread := range 32 {
		for slot := range 4 {
			at := acc.Index(thread, slot)
			if e := ids["tile"+dotted(at)]; e.Thread != thread || e.Slot != slot {
				t.Errorf("%v is of thread %d value %d in CuTe, of %d, %d here", at, e.Thread, e.Slot, thread, slot)
			}
		}
	}
	for _, text := range []string{"size((4,8):(8,1))", "nothing((4,8))", "((4,8)", "(100000,100000):(1,1)"} {
		if _, err := CuteOperation(text, Options{}); err == nil {
			t.Errorf("%s is drawn", text)
		}
	}
	p, err = CuteOperation("complement((2,2):(1,4), 24)", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.Desc, "2") || len(p.IDs) == 0 {
		t.Errorf("complement: %s", p.Desc)
	}
}

// One layout at several widths says how many values cross a byte.
func TestWidths(t *testing.T) {
	p, err := Widths(layout.Spatial(32).Local(8), []dtype.Type{dtype.I4, dtype.I6}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"i4: 8 × 4 bits = 4 bytes, 0 of 8 elements cross a byte", "i6: 8 × 6 bits = 6 bytes, 4 of 8 elements cross a byte"} {
		if !strings.Contains(p.Desc, want) {
			t.Errorf("%q does not say %q", p.Desc, want)
		}
	}
}

// Each sector that a warp touches is a cell.
func TestSectors(t *testing.T) {
	addrs := lanes(32, func(l int) int { return l * 40 / 4 * 4 })
	r, err := bank.Global(4, addrs)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Sectors(4, addrs, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := byID(p)
	delete(ids, "")
	if len(ids) != len(r.Sectors) {
		t.Errorf("%d cells for %d sectors", len(ids), len(r.Sectors))
	}
	for _, s := range r.Sectors {
		for _, l := range ids[fmt.Sprint("s", s)].Keys {
			if addrs[l]/32*32 != s {
				t.Errorf("lane %d at %d is drawn in sector %d", l, addrs[l], s)
			}
		}
	}
}

// The operands of an operation can be drawn in every notation that has operations.
func TestOperands(t *testing.T) {
	for text, want := range map[string][]string{
		"logical_divide((8,8),<4:1,2:1>)":                            {"layout", "result"},
		"raked_product((2,5):(5,1), (3,4):(1,3))":                    {"block", "tiler", "result"},
		"local(2, 1).spatial(4, 2).local(1, 2)":                      {"f", "g", "f·g"},
		"divide(local(2, 1).spatial(4, 2).local(1, 2), local(1, 2))": {"h", "g", "h / g"},
		"spatial(4, 2)": nil,
		"(8,8):(1,8)":   nil,
	} {
		v, err := notation.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Value(v, "operands", 0, Options{})
		if (err == nil) != (want != nil) {
			t.Fatalf("%s: %v", text, err)
		}
		for _, name := range want {
			if !strings.Contains(string(p.SVG), ">"+name+"<") {
				t.Errorf("%s: no table is called %s", text, name)
			}
		}
	}
}
