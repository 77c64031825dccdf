package bank

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

func patterns(t testing.TB, tile string, names ...string) (Tile, []Pattern) {
	t.Helper()
	tt, err := ParseTile(tile)
	if err != nil {
		t.Fatal(err)
	}
	var out []Pattern
	for _, n := range names {
		p, err := tt.Pattern(n)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p...)
	}
	return tt, out
}

func TestSearch(t *testing.T) {
	for _, c := range []struct {
		tile       string
		names      []string
		level      int
		identity   int
		wavefronts int
		best       string
		proof, tma string
	}{
		{"f16[16, 64]", []string{"16-byte row store", "ldmatrix.x4"}, LevelXOR, 36, 8, "Sw<3,4,3>", "No placement takes fewer than 8", "This is TMA's mode 128B"},
		{"f16[16, 32]", []string{"16-byte row store", "ldmatrix.x4"}, LevelXOR, 20, 8, "Sw<2,4,3>", "No placement takes fewer than 8", "This is TMA's mode 64B"},
		{"f16[16, 16]", []string{"16-byte row store", "ldmatrix.x4"}, LevelOne, 12, 8, "Sw<1,4,3>", "No placement takes fewer", "This is TMA's mode 32B"},
		{"f32[32, 32]", []string{"row store", "column"}, LevelTwo, 33, 2, "Sw<5,2,5>", "No placement takes fewer", "Not expressible by TMA"},
		{"f16[16, 64]", []string{"volta wmma A", "16-byte row store"}, LevelOne, 68, 20, "Sw<2,4,3>", "placements were tried (padding, one swizzle)", "This is TMA's mode 64B"},
		{"f16[16, 64]", []string{"volta wmma A", "16-byte row store"}, LevelTwo, 68, 12, "Sw<2,4,3> then Sw<1,6,4>", "No placement takes fewer", "Not expressible by TMA"},
		{"f16[16, 72]", []string{"ldmatrix.x4"}, LevelXOR, 4, 4, "plain", "No placement takes fewer", "mode without swizzle"},
		{"f32[32, 32]", []string{"row store"}, LevelPadding, 1, 1, "plain", "No placement takes fewer", "mode without swizzle"},
		{"f32[32, 32]", []string{"row store", "column"}, LevelPadding, 33, 2, "rows padded by 4 bytes", "No placement takes fewer", "Not expressible"},
	} {
		tile, ps := patterns(t, c.tile, c.names...)
		r, err := Search(Nvidia(), ps, Space{RowBytes: tile.RowBytes(), Level: c.level})
		if err != nil {
			t.Errorf("%s: %v", c.tile, err)
			continue
		}
		if r.Identity != c.identity || r.Wavefronts != c.wavefronts || r.Best.String() != c.best {
			t.Errorf("%s %v: %d, then %d with %s; want %d, %d with %s", c.tile, c.names, r.Identity, r.Wavefronts, r.Best, c.identity, c.wavefronts, c.best)
		}
		if !strings.Contains(r.Proof, c.proof) || !strings.Contains(r.TMASays, c.tma) {
			t.Errorf("%s %v: proof %q, TMA %q", c.tile, c.names, r.Proof, r.TMASays)
		}
		for _, cert := range r.Certificate {
			for _, x := range []struct {
				rank int
				rep  Report
			}{{cert.RankBefore, cert.Before}, {cert.RankAfter, cert.After}} {
				if x.rank != 0 && slices.ContainsFunc(x.rep.Degrees(), func(d int) bool { return d != x.rank }) {
					t.Errorf("%s: rank %d, degrees %v", cert.Pattern, x.rank, x.rep.Degrees())
				}
			}
		}
		// Each tie is as good as the search says.
		for _, l := range r.Levels {
			for _, tie := range l.Ties[:min(len(l.Ties), 20)] {
				n := 0
				for _, p := range ps {
					a := p.Access
					a.Addrs = slices.Clone(a.Addrs)
					for i, at := range a.Addrs {
						a.Addrs[i] = tie.Apply(at)
					}
					rep, err := Count(Nvidia(), a)
					if err != nil {
						t.Fatal(err)
					}
					n += rep.Wavefronts
				}
				if n != l.Best {
					t.Errorf("%s: %s takes %d, the search says %d", c.tile, tie, n, l.Best)
				}
			}
		}
	}
}

func TestSearchRefuses(t *testing.T) {
	_, ps := patterns(t, "f32[32, 32]", "row")
	far := Pattern{Name: "far", Access: Access{Kind: Load, Width: 4, Addrs: []int{1 << 30}}}
	odd := Pattern{Name: "odd", Access: Access{Kind: Load, Width: 4, Addrs: []int{2}}}
	for _, c := range []struct {
		ps    []Pattern
		space Space
		want  string
	}{
		{nil, Space{}, "at least one"},
		{[]Pattern{far}, Space{}, "beyond 2^18"},
		{[]Pattern{odd}, Space{}, "odd: lane 0"},
		{ps, Space{B: Range{0, 40}, Level: LevelOne}, "too large"},
		{[]Pattern{{Name: "w", Access: ps[0].Access, Weight: -1}}, Space{}, "negative"},
	} {
		if _, err := Search(Nvidia(), c.ps, c.space); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// BenchmarkSearch is levels 0 to 2 of the hardest tile that we know.
func BenchmarkSearch(b *testing.B) {
	tile, ps := patterns(b, "f16[16, 64]", "volta wmma A", "16-byte row store")
	for b.Loop() {
		if _, err := Search(Nvidia(), ps, Space{RowBytes: tile.RowBytes(), Level: LevelTwo}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTranspose(t *testing.T) {
	want := []struct {
		name        string
		bytes       int
		latin       bool
		chunksLatin bool
		write, read int
	}{
		{"plain", 4096, false, false, 1, 32},
		{"padded", 4224, true, false, 1, 1},
		{"swizzled", 4096, true, false, 1, 1},
		{"TMA 128B", 4096, false, true, 1, 4},
		{"TMA 128B, 16-byte reads", 4096, false, true, 1, 4},
	}
	for i, s := range Transpose() {
		w := want[i]
		chunks := s.Chunks != nil && s.ChunkRows && s.ChunkCols
		if s.Name != w.name || s.Bytes != w.bytes || s.Rows && s.Cols != w.latin || w.name != "swizzled" && chunks != w.chunksLatin || s.Write.Wavefronts != w.write || s.Read.Wavefronts != w.read {
			t.Errorf("%s: %d bytes, Latin %v %v, chunks %v, write %d, read %d; want %+v", s.Name, s.Bytes, s.Rows, s.Cols, chunks, s.Write.Wavefronts, s.Read.Wavefronts, w)
		}
	}
	if r := Transpose()[4].Read; r.Conflicts != 0 {
		t.Errorf("16-byte reads of TMA's pattern have %d conflicts", r.Conflicts)
	}
}

func TestTMAModes(t *testing.T) {
	want := map[string]struct {
		formula string
		rows    int
		second  []int
		base    int // of address 0x480
	}{
		"none":                  {"addr", 1, nil, 0},
		"32B":                   {"addr[4] ^= addr[7]", 2, []int{1, 0, 3, 2, 5, 4, 7, 6}, 1},
		"64B":                   {"addr[5:4] ^= addr[8:7]", 4, []int{1, 0, 3, 2, 5, 4, 7, 6}, 1},
		"128B":                  {"addr[6:4] ^= addr[9:7]", 8, []int{1, 0, 3, 2, 5, 4, 7, 6}, 1},
		"128B_ATOM_32B":         {"addr[6:5] ^= addr[8:7]", 4, []int{2, 3, 0, 1, 6, 7, 4, 5}, 1},
		"128B_ATOM_32B_FLIP_8B": {"addr[6:5] ^= addr[8:7], addr[3] ^= addr[7]", 4, []int{2, 3, 0, 1, 6, 7, 4, 5}, 1},
		"128B_ATOM_64B":         {"addr[6] ^= addr[7]", 2, []int{4, 5, 6, 7, 0, 1, 2, 3}, 1},
		"96B":                   {"addr[4] ^= addr[7]", 2, []int{1, 0, 3, 2, 5, 4, 7, 6}, 1},
	}
	for _, m := range TMAModes() {
		w, ok := want[m.Name]
		if !ok {
			t.Errorf("no expectation for %s", m.Name)
			continue
		}
		table := m.Chunks()
		if m.Formula() != w.formula || len(table) != w.rows || w.second != nil && !slices.Equal(table[1], w.second) || m.BaseOffset(0x480) != w.base {
			t.Errorf("%s: %s, %v, base offset %d; want %+v", m.Name, m.Formula(), table, m.BaseOffset(0x480), w)
		}
		for a := range 1 << 12 {
			if m.Apply(m.Apply(a)) != a || m.Apply(a)/line != a/line {
				t.Fatalf("%s: %d goes to %d and back to %d", m.Name, a, m.Apply(a), m.Apply(m.Apply(a)))
			}
			if m.Apply(a+m.Repeat) != m.Apply(a)+m.Repeat {
				t.Fatalf("%s does not repeat after %d bytes", m.Name, m.Repeat)
			}
		}
		found, err := FindTMAMode("CU_TENSOR_MAP_SWIZZLE_" + strings.ToLower(m.Name))
		if err != nil || found.Name != m.Name {
			t.Errorf("%s is found as %q, %v", m.Name, found.Name, err)
		}
	}
}

// TestTalkFormula: the formula is TMA's placement exactly where a row is as wide as
// the mode; with rows of 256 bytes half of the elements go elsewhere.
func TestTalkFormula(t *testing.T) {
	for _, c := range []struct {
		mode        string
		size, nx    int
		wrong, rows int
	}{{"128B", 2, 64, 0, 16}, {"64B", 2, 32, 0, 16}, {"32B", 4, 8, 0, 16}, {"128B", 4, 64, 256, 8}} {
		m, _ := FindTMAMode(c.mode)
		wrong := 0
		for y := range c.rows {
			for x := range c.nx {
				if at := m.Apply((y*c.nx + x) * c.size); at != (y*c.nx+TalkFormula(c.size, c.nx, x, y, true))*c.size {
					wrong++
				}
			}
		}
		if wrong != c.wrong {
			t.Errorf("%s, %d elements of %d bytes: %d wrong, want %d", c.mode, c.nx, c.size, wrong, c.wrong)
		}
	}
}

func TestTensorMap(t *testing.T) {
	good := TensorMap{ElementBytes: 2, Float: true, Dims: []uint64{64, 64, 4}, Strides: []uint64{128, 8192}, Box: []int{64, 8, 1}, Swizzle: "128B"}
	if p := good.Check(); len(p) != 0 {
		t.Fatal(p)
	}
	if at := good.At(0x480, 0, 0); at != 1168 {
		t.Errorf("element 0, 0 of a tile at 0x480 lies at %d", at)
	}
	for _, c := range []struct {
		code string
		edit func(*TensorMap)
	}{
		{"C1", func(m *TensorMap) { m.Interleave = "8B" }},
		{"C2", func(m *TensorMap) { m.Swizzle = "256B" }},
		{"C3", func(m *TensorMap) { m.Dims, m.Strides, m.Box = nil, nil, nil }},
		{"C3", func(m *TensorMap) {
			m.Dims, m.Strides, m.Box, m.Interleave, m.Swizzle = m.Dims[:2], m.Strides[:1], m.Box[:2], "16B", ""
		}},
		{"C4", func(m *TensorMap) { m.ElementBytes, m.Swizzle, m.Dims = 3, "", []uint64{32, 64, 4} }},
		{"C5", func(m *TensorMap) { m.Address = 8 }},
		{"C6", func(m *TensorMap) { m.Dims = []uint64{64, 0, 4} }},
		{"C7", func(m *TensorMap) { m.Strides = []uint64{136, 8192} }},
		{"C7", func(m *TensorMap) { m.Strides = m.Strides[:1] }},
		{"C8", func(m *TensorMap) { m.Strides = []uint64{128, 1 << 40} }},
		{"C9", func(m *TensorMap) { m.Strides = []uint64{64, 8192} }},
		{"C10", func(m *TensorMap) { m.Box = []int{64, 257, 1} }},
		{"C10", func(m *TensorMap) { m.Box = []int{64, 8} }},
		{"C11", func(m *TensorMap) { m.Box = []int{4, 8, 1} }},
		{"C12", func(m *TensorMap) { m.Swizzle = "64B" }},
		{"C13", func(m *TensorMap) { m.Interleave = "32B" }},
		{"C14", func(m *TensorMap) { m.ElementStrides = []int{1, 9, 1} }},
		{"C15", func(m *TensorMap) { m.Float, m.FillNaN = false, true }},
		{"C16", func(m *TensorMap) { m.Box = []int{64, 256, 256} }},
	} {
		m := good
		c.edit(&m)
		p := m.Check()
		if len(p) != 1 || p[0].Code != "TMA."+c.code {
			t.Errorf("want TMA.%s, got %v", c.code, p)
		}
	}
	if p := (TensorMap{ElementBytes: 2, Dims: []uint64{16, 8, 8}, Strides: []uint64{32, 256}, Address: 16, Box: []int{16, 8, 8}, Interleave: "32B", Swizzle: "32B"}).Check(); len(p) != 1 || p[0].Code != "TMA.C5" {
		t.Errorf("interleave 32B at address 16: %v", p)
	}
}

func TestDescriptor(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for _, arch := range []string{SM90, SM100} {
		for range 2000 {
			var modes []string
			for m := range modeCodes[arch] {
				modes = append(modes, m)
			}
			slices.Sort(modes)
			d := Descriptor{Start: rnd.IntN(1<<14) * 16, Leading: rnd.IntN(1<<14) * 16, Stride: rnd.IntN(1<<14) * 16, Mode: modes[rnd.IntN(len(modes))]}
			m, _ := FindTMAMode(d.Mode)
			d.BaseOffset = rnd.IntN(m.Align / line)
			d.Absolute = arch == SM100 && rnd.IntN(2) == 1
			word, err := d.Encode(arch)
			if err != nil {
				t.Fatal(err)
			}
			back, err := DecodeDescriptor(word, arch)
			if err != nil || back != d {
				t.Fatalf("%s: %+v to 0x%x to %+v, %v", arch, d, word, back, err)
			}
			// Any flipped bit gives another descriptor or an error.
			if other, err := DecodeDescriptor(word^1<<rnd.IntN(64), arch); err == nil && other == d {
				t.Fatalf("%s: 0x%x with a bit flipped is the same", arch, word)
			}
		}
	}
	for _, c := range []struct {
		d    Descriptor
		arch string
		want string
	}{
		{Descriptor{Start: 8, Mode: "none"}, SM90, "start address 8"},
		{Descriptor{Leading: 1 << 18, Mode: "none"}, SM90, "leading-dimension offset"},
		{Descriptor{Stride: -16, Mode: "none"}, SM90, "stride-dimension offset"},
		{Descriptor{BaseOffset: 8, Mode: "128B"}, SM90, "between 0 and 7"},
		{Descriptor{BaseOffset: 4, Mode: "64B"}, SM90, "only 4 lines"},
		{Descriptor{Mode: "128B_ATOM_32B"}, SM90, "cannot name"},
		{Descriptor{Mode: "96B"}, SM100, "cannot name"},
		{Descriptor{Mode: "none", Absolute: true}, SM90, "need sm_100"},
		{Descriptor{Mode: "none"}, "sm_80", "no matrix descriptors"},
		{Descriptor{Mode: "1B"}, SM90, "no swizzle mode"},
	} {
		if _, err := c.d.Encode(c.arch); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.d, err, c.want)
		}
	}
	for _, word := range []uint64{1 << 15, 1 << 60} {
		if _, err := DecodeDescriptor(word, SM90); err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("0x%x: %v", word, err)
		}
	}
	if _, err := DecodeDescriptor(0, SM100); err == nil {
		t.Error("version 0 on sm_100 is accepted")
	}
}

// TestCanonical: a canonical tile has no two elements in one place, and its 8 rows of
// 16 bytes, what the tensor core reads at a time, meet every bank once.
func TestCanonical(t *testing.T) {
	for _, c := range Canonicals() {
		n, _, err := c.units()
		if err != nil {
			t.Fatal(err)
		}
		d := Descriptor{Mode: c.Mode, Leading: 128, Stride: 256}
		rows, cols := 32, 2*8 // K-major: 4 groups of 8 rows, two units of 16 bytes
		if n > 1 {
			d.Leading, d.Stride = 16, 8*n*chunk
		}
		if c.Major == "MN" {
			rows, cols = 8*n, 16
			d.Leading, d.Stride = 4096, 8*n*chunk
			if n == 1 {
				d.Leading, d.Stride = 128, 4096
			}
		}
		at := func(mn, k int) int {
			a, err := c.At(16, d, mn, k)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		seen := map[int]bool{}
		for mn := range rows {
			for k := range cols {
				a := at(mn, k)
				if a%2 != 0 || seen[a] {
					t.Fatalf("%s %s: two elements at byte %d", c.Major, c.Mode, a)
				}
				seen[a] = true
			}
		}
		read := Access{Kind: LdMatrix, Matrices: 1}
		for i := range 8 {
			if c.Major == "K" {
				read.Addrs = append(read.Addrs, at(i, 0))
			} else {
				read.Addrs = append(read.Addrs, at(0, i))
			}
		}
		r, err := Count(Nvidia(), read)
		if err != nil || r.Wavefronts != 1 {
			t.Errorf("%s %s: 8 rows take %d wavefronts, %v", c.Major, c.Mode, r.Wavefronts, err)
		}
		if !strings.HasPrefix(c.String(), "Swizzle<") {
			t.Error(c)
		}
		// The CuTe text is the same map, counted in elements.
		text, err := c.CuTe(16, d, 2)
		if err != nil {
			t.Fatal(err)
		}
		l, err := cute.ParseComposed(text)
		if err != nil {
			t.Fatalf("%s %s: %s: %v", c.Major, c.Mode, text, err)
		}
		mns := 16
		if c.Major == "MN" {
			mns = 8 * n
		}
		if l.Size() != mns*16 {
			t.Fatalf("%s %s: %s has %d elements", c.Major, c.Mode, text, l.Size())
		}
		for i := range l.Size() {
			if got, want := 2*l.At(i), at(i%mns, i/mns); got != want {
				t.Fatalf("%s %s: %s puts element %d, %d at byte %d, At at %d", c.Major, c.Mode, text, i%mns, i/mns, got, want)
			}
		}
	}
	if _, err := (Canonical{"96B", "K"}).At(16, Descriptor{}, 0, 0); err == nil {
		t.Error("a canonical layout with swizzle 96B")
	}
}

func TestParseAddrs(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{"lane*128", "[0 128 256 384]"},
		{"64", "[64 64 64 64]"},
		{"0, 0x80, _", "[0 128 -1]"},
		{"lane%2*16 + lane/2*32", "[0 16 32 48]"},
		{"sel(lane < 2, lane*4, _)", "[0 4 -1 -1]"},
		{"sw(1, 4, 3, lane*128)", "[0 144 256 400]"},
		{"lane<<4 ^ 32 | 1", "[33 49 1 17]"},
		{"-(-lane) - 0", "[0 1 2 3]"},
		{"lane*4 + (_)", "[-1 -1 -1 -1]"},
	} {
		got, err := ParseAddrs(c.text, 4, diag.Pos{})
		if err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, %v; want %s", c.text, got, err, c.want)
		}
	}
	for _, c := range []struct {
		text, code string
		col        int
		want       string
	}{
		{"", errText, 1, ""},
		{"lane *", errText, 7, "ends too early"},
		{"lane, 1)", errText, 9, ""},
		{"foo*4", errText, 1, "unknown name"},
		{"4 + 1.5", errText, 5, "no integer"},
		{"4/(1-lane)", errValue, 1, "division by zero for lane 1"},
		{"lane-1", errValue, 1, "lane 0 is -1"},
		{"lane<<60", errValue, 1, "beyond 2^40"},
		{"lane*(1<<40)", errValue, 1, "beyond 2^40"},
		{"1,2,3,4,5", errText, 9, "5 addresses for 4 lanes"},
		{"sw(3, 4, 2, lane)", errValue, 1, "|S|"},
		{"sw(3, 4)", errText, 1, "4 arguments"},
		{"max(1, 2)", errText, 1, "sw and sel"},
		{"func(){}", errText, 1, "no arithmetic"},
		{"lane // 4", errText, 1, "without comments"},
		{"!lane", errText, 1, "operator !"},
		{"lane && 1", errText, 1, "operator &&"},
		{"-1 & 3", errValue, 1, "negative"},
		{strings.Repeat("1+", 3000) + "1", errText, 1, "characters"},
	} {
		_, err := ParseAddrs(c.text, 4, diag.Pos{File: "addrs", Line: 1, Col: 1})
		var list diag.List
		if !errors.As(err, &list) || list[0].Code != c.code || list[0].Pos.Col != c.col || !strings.Contains(list[0].Msg, c.want) {
			t.Errorf("%.20s: %v, want %s at column %d: %s", c.text, err, c.code, c.col, c.want)
		}
	}
}

func TestParseAccess(t *testing.T) {
	for text, want := range map[string]Access{
		"lane*4":               {Kind: Load, Width: 4, Addrs: strided(32, 4)},
		"store 16: lane*16":    {Kind: Store, Width: 16, Addrs: strided(32, 16)},
		"ldmatrix: lane*32":    {Kind: LdMatrix, Width: 16, Matrices: 4, Addrs: strided(32, 32)},
		"stmatrix.x1: lane*32": {Kind: StMatrix, Width: 16, Matrices: 1, Addrs: strided(8, 32)},
		"cp.async.cg: lane*16": {Kind: CpAsyncGlobal, Width: 16, Addrs: strided(32, 16)},
	} {
		got, err := ParseAccess(text, Nvidia(), diag.Pos{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"read 4: lane":           "a:1:1: no kind of access",
		": lane":                 "nothing before",
		"load 4 5: lane":         "write a kind and a width",
		"load x: lane":           "no number",
		"ldmatrix.x3: lane":      "1, 2 or 4",
		"load.x2: lane":          "no matrices",
		"load 16: lane*8":        "a:1:10: lane 1: address 8 (0x8) is no multiple of 16",
		"load 16: lane*foo":      "a:1:15: unknown name",
		"load 3: lane":           "takes 1, 2, 4, 8, 16 bytes",
		"ldmatrix.x4: 0, 16, 32": "gives none",
	} {
		if _, err := ParseAccess(text, Nvidia(), diag.Pos{File: "a", Line: 1, Col: 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestFromLayout(t *testing.T) {
	parse := func(s string) layout.Layout {
		l, err := layout.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a := parse("column_local(2, 2).spatial(8, 4).local(1, 2)") // A of mma.m16n8k16
	sw := layout.Swizzle{Bits: 3, Base: 4, Shift: 3}
	for _, c := range []struct {
		name       string
		l          layout.Layout
		bits, row  int
		kind       Kind
		width      int
		place      func(int) int
		accesses   int
		wavefronts []int
	}{
		{"pairs", a, 16, 32, Load, 4, nil, 4, []int{2, 2, 2, 2}},
		{"pairs, rows of 128 bytes", a, 16, 128, Load, 4, nil, 4, []int{8, 8, 8, 8}},
		{"ldmatrix", a, 16, 128, LdMatrix, 0, nil, 1, []int{32}},
		{"ldmatrix swizzled", a, 16, 128, LdMatrix, 0, sw.Apply, 1, []int{4}},
		{"row of words", parse("spatial(1, 32)"), 32, 128, Store, 4, nil, 1, []int{1}},
		{"column of words", parse("spatial(32, 1)"), 32, 128, Store, 4, nil, 1, []int{32}},
		{"vectors", parse("spatial(4, 8).local(1, 8)"), 16, 128, Store, 16, nil, 1, []int{4}},
		{"two-word ldmatrix", parse("local(2, 1).spatial(8, 4).local(1, 2)"), 16, 16, LdMatrix, 0, nil, 1, []int{2}},
		{"rank 1", parse("spatial(32)"), 8, 0, Load, 1, nil, 1, []int{1}},
	} {
		got, err := FromLayout(Nvidia(), c.l, c.bits, c.row, 0, c.kind, c.width, c.place)
		if err != nil || len(got) != c.accesses {
			t.Errorf("%s: %d accesses, %v", c.name, len(got), err)
			continue
		}
		for i, acc := range got {
			if r, err := Count(Nvidia(), acc); err != nil || r.Wavefronts != c.wavefronts[i] {
				t.Errorf("%s, access %d: %d wavefronts, %v; want %d", c.name, i, r.Wavefronts, err, c.wavefronts[i])
			}
		}
	}
	for _, c := range []struct {
		l          layout.Layout
		bits, warp int
		kind       Kind
		width      int
		want       string
	}{
		{a, 16, 0, Load, 8, "are not 8 bytes in a row"},
		{a, 16, 1, Load, 4, "no warp 1"},
		{a, 6, 0, Load, 4, "no address"},
		{a, 16, 0, Load, 3, "not moved by accesses of 3"},
		{parse("spatial(4, 8).local(1, 8)"), 16, 0, LdMatrix, 0, "not the layout of ldmatrix"},
		{parse("local(2, 2, 2).spatial(2, 4, 4)"), 16, 0, Load, 2, "rank 3"},
	} {
		if _, err := FromLayout(Nvidia(), c.l, c.bits, 128, c.warp, c.kind, c.width, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.l, err, c.want)
		}
	}
}

// FuzzParse: no text makes the parsers panic, and what they accept can be counted.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"lane*128", "store 16: sw(3,4,3,lane*16)", "ldmatrix.x2: lane%16*64", "0, _, 4", "f16[16, 64]", "16-byte row store, 4 lanes per row", "sel(lane<8, lane, _)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range Profiles()[:3] {
			if a, err := ParseAccess(s, p, diag.Pos{File: "f", Line: 1, Col: 1}); err == nil {
				if _, err := Count(p, a); err != nil {
					t.Fatalf("%q parses and cannot be counted: %v", s, err)
				}
			}
		}
		tile, err := ParseTile(s)
		if err != nil {
			tile = Tile{Rows: 16, Cols: 64, Bytes: 2}
		}
		if ps, err := tile.Pattern(s); err == nil {
			for _, p := range ps {
				_, _ = Count(Nvidia(), p.Access) // an error is an answer; a panic is not
			}
		}
		_, _ = DecodeDescriptor(uint64(len(s))<<46|1<<46, SM100)
	})
}
