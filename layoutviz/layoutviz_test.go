package layoutviz

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/png"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

var (
	acc     = layout.Local(2, 1).Spatial(8, 4).Local(1, 2)
	samples = map[string]layout.Layout{
		"one element": {},
		"acc":         acc,
		"one row":     layout.Local(3).Spatial(32),
		"three":       layout.Local(2, 2, 2).Spatial(1, 4, 2),
		"replicated":  layout.Spatial(4, 1).Replicated(6, 1, 1).Local(1, 4),
		"warps":       layout.Spatial(16, 8).Local(1, 2),
		"part warp":   layout.Spatial(5, 8).Local(1, 2),
		"4096":        layout.Local(4, 4).Spatial(8, 4).Local(2, 4),
		"1M":          layout.Local(8, 8).Spatial(8, 4).Local(16, 32),
		"1M row":      layout.Local(1 << 20),
	}
)

type view func(layout.Layout, Options) (Picture, error)

var views = map[string]view{"tensor": Tensor, "threads": Threads}

// well checks what holds for every picture: well-formed XML with title and
// description, no element outside, tame numbers, one path for each colour.
func well(t *testing.T, name string, p Picture) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(p.SVG))
	seen := map[string]int{}
	paths := map[string]int{}
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		seen[e.Name.Local]++
		for _, a := range e.Attr {
			if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("%s: attribute %s needs inline style or script", name, a.Name.Local)
			}
			if a.Name.Local == "fill" && e.Name.Local == "path" {
				paths[a.Value]++
			}
		}
	}
	if seen["title"] != 1 || seen["desc"] != 1 || p.Title == "" || p.Desc == "" {
		t.Errorf("%s: title and description are missing", name)
	}
	if strings.HasPrefix(p.Title, "T") { // views, not the reinterpretation
		for color, n := range paths {
			if n > 1 && color != "none" && color != Themes()[0].paper {
				t.Errorf("%s: %d paths of colour %s", name, n, color)
			}
		}
	}
	if m := regexp.MustCompile(`\d\.\d{3}|e[+-]\d`).Find(bytes.TrimPrefix(p.SVG, []byte("<?xml"))); m != nil {
		t.Errorf("%s: untamed number near %q", name, m)
	}
	ids := map[string]bool{}
	for _, e := range p.IDs {
		if e.ID == "" {
			continue
		}
		if ids[e.ID] {
			t.Errorf("%s: ID %s twice", name, e.ID)
		}
		ids[e.ID] = true
		if e.X < 0 || e.Y < 0 || e.X+e.W > p.Width || e.Y+e.H > p.Height || e.W <= 0 || e.H <= 0 {
			t.Errorf("%s: %s lies outside: %+v of %d×%d", name, e.ID, e, p.Width, p.Height)
		}
		if len(e.Keys) == 0 || e.Label == "" {
			t.Errorf("%s: %s has no keys or label", name, e.ID)
		}
	}
	if len(p.SVG) > 2<<20 {
		t.Errorf("%s: %d bytes", name, len(p.SVG))
	}
}

func TestViews(t *testing.T) {
	for name, l := range samples {
		for kind, draw := range views {
			for _, pal := range Palettes() {
				o := Options{Palette: pal.Name}
				p, err := draw(l, o)
				if err != nil {
					t.Fatalf("%s %s: %v", kind, name, err)
				}
				well(t, kind+" "+name, p)
				if again, _ := draw(l, o); !bytes.Equal(p.SVG, again.SVG) {
					t.Errorf("%s %s: two drawings differ", kind, name)
				}
			}
		}
	}
}

// Every cell of the tensor view says who holds it, and the thread view has the
// same pairs.
func TestViewsAgreeWithLayout(t *testing.T) {
	for _, name := range []string{"acc", "one row", "three", "replicated", "warps", "part warp", "4096"} {
		l := samples[name]
		tensor, err := Tensor(l, Options{})
		if err != nil {
			t.Fatal(err)
		}
		threads, err := Threads(l, Options{})
		if err != nil {
			t.Fatal(err)
		}
		byKey := map[int]Element{}
		for _, e := range tensor.IDs {
			if e.ID != "" {
				byKey[e.Keys[0]] = e
			}
		}
		if len(byKey) != l.Size() {
			t.Errorf("%s: tensor view has %d elements, want %d", name, len(byKey), l.Size())
		}
		n := 0
		at := map[string]Element{}
		for _, e := range threads.IDs {
			if e.ID != "" {
				n++
				at[e.ID] = e
			}
		}
		if n != l.Threads()*l.Slots() {
			t.Errorf("%s: thread view has %d cells, want %d", name, n, l.Threads()*l.Slots())
		}
		for thread := range l.Threads() {
			for slot := range l.Slots() {
				id := "t" + itoa(thread) + "s" + itoa(slot)
				e, ok := at[id]
				if !ok || e.Keys[0] != l.FlatIndex(thread, slot) || !strings.HasSuffix(e.Label, " holds "+tuple(l.Index(thread, slot))) {
					t.Fatalf("%s: %s is %+v", name, id, e)
				}
				if got := byKey[e.Keys[0]]; got.ID != "e"+dotted(l.Index(thread, slot)) {
					t.Fatalf("%s: %s leads to %s", name, id, got.ID)
				}
			}
		}
	}
}

func itoa(n int) string { return joinInts([]int{n}) }

func TestTexts(t *testing.T) {
	p, err := Tensor(samples["replicated"], Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">T0+5<", ">T18+5<", "each element held 6 times"} {
		if !bytes.Contains(p.SVG, []byte(want)) {
			t.Errorf("replicated layout does not show %q", want)
		}
	}
	p, err = Threads(acc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(p.SVG, []byte(">9,2<")) || !strings.Contains(p.Desc, "Thread 5 holds (1, 2), (1, 3), (9, 2), (9, 3).") {
		t.Errorf("thread view: %s", p.Desc)
	}
	p, err = Tensor(samples["1M"], Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.IDs) != 0 || !strings.Contains(p.Desc, "Each square stands for 8×8 elements of the same threads.") {
		t.Errorf("large layout: %d IDs, %s", len(p.IDs), p.Desc)
	}
	for _, c := range []struct {
		of   layout.Layout
		want string
	}{
		{layout.Local(64, 64).Spatial(16, 16), "The first 128 rows of 1024, 128 columns of 1024."},
		{layout.Spatial(3).Local(40000), "Each square stands for 2×4 elements and has the colour of its first one; 48 of 15024 squares are of several threads."},
		{layout.Local(40000).Spatial(3), "The first 15360 elements of 120000."},
		{layout.Spatial(3, 5).Local(102, 104), "130 of 10010 squares are of several threads."},
	} {
		p, err := Tensor(c.of, Options{})
		if err != nil {
			t.Fatal(err)
		}
		well(t, c.of.String(), p)
		if !strings.Contains(p.Desc, c.want) {
			t.Errorf("%v: %s, without %q", c.of, p.Desc, c.want)
		}
	}
	if _, err := Tensor(acc, Options{Palette: "red"}); err == nil || !strings.Contains(err.Error(), "okabe-ito") {
		t.Errorf("unknown palette: %v", err)
	}
}

// Every bit of a thread belongs to exactly one element of each side, and the
// elements carry the bits that the types say.
func TestReinterpret(t *testing.T) {
	l := layout.Local(2, 1).ColumnSpatial(4, 8).Local(4, 1)
	for _, elem := range []dtype.Type{dtype.U1, dtype.U2, dtype.I3, dtype.I4, dtype.I5, dtype.I6, dtype.I7, dtype.U8} {
		packed, err := layout.PackedView(elem.Bits(), l)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Reinterpret(dtype.U8, packed, elem, l, Options{Threads: []int{0, 31}})
		if err != nil {
			t.Fatal(err)
		}
		well(t, elem.String(), p)
		bits := elem.Bits() * l.Slots()
		for side, unit := range map[string]int{"a": 8, "b": elem.Bits()} {
			n := 0
			for _, e := range p.IDs {
				if !strings.HasPrefix(e.ID, side+"t31") {
					continue
				}
				n++
				if len(e.Keys) != unit {
					t.Errorf("%s: %s has %d bits, want %d", elem, e.ID, len(e.Keys), unit)
				}
				for _, k := range e.Keys {
					if k/bits != 31 {
						t.Errorf("%s: %s has a bit of thread %d", elem, e.ID, k/bits)
					}
				}
			}
			if n*unit != bits {
				t.Errorf("%s: side %s has %d elements of %d bits, want %d bits", elem, side, n, unit, bits)
			}
		}
	}
	// Wide and unequal types, with values cut by the end of a row.
	p, err := Reinterpret(dtype.F32, layout.Spatial(32).Local(7), dtype.I7, layout.Spatial(32).Local(32), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.Desc, "7 f32 = 224 bits") {
		t.Errorf("description %q", p.Desc)
	}
}

// Threads of a warp in columns of 16: the same cells, half as high, each block
// with the numbers of its threads.
func TestThreadsInColumns(t *testing.T) {
	long, err := Threads(acc, Options{NoCaption: true})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Threads(acc, Options{NoCaption: true, Column: 16})
	if err != nil {
		t.Fatal(err)
	}
	well(t, "columns of 16", p)
	if p.Height > long.Height*2/3 || len(p.IDs) != len(long.IDs) {
		t.Errorf("%d×%d with %d cells; in one column %d×%d with %d", p.Width, p.Height, len(p.IDs), long.Width, long.Height, len(long.IDs))
	}
	want := map[string]Element{}
	for _, e := range long.IDs {
		want[e.ID] = e
	}
	for _, e := range p.IDs {
		w := want[e.ID]
		if e.Label != w.Label || e.Keys[0] != w.Keys[0] || e.Thread != w.Thread {
			t.Errorf("%s is %+v, want %+v", e.ID, e, w)
		}
	}
	for _, s := range []string{">16<", ">31<"} {
		if !bytes.Contains(p.SVG, []byte(s)) {
			t.Errorf("no thread number %s", s)
		}
	}
	odd, err := Threads(layout.Spatial(5, 5).Local(1, 2), Options{Column: 4})
	if err != nil {
		t.Fatal(err)
	}
	well(t, "25 threads in columns of 4", odd)
	warps, err := Threads(samples["warps"], Options{Column: 16})
	if err != nil {
		t.Fatal(err)
	}
	if plain, _ := Threads(samples["warps"], Options{}); !bytes.Equal(plain.SVG, warps.SVG) {
		t.Error("columns change the picture of several warps")
	}
}

// The parts of a picture are the whole.
func TestSplit(t *testing.T) {
	p, err := Tensor(acc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	svg, list := p.Split()
	n := 0
	for _, x := range list {
		for _, w := range x.Words {
			if n++; !bytes.Contains(p.SVG, []byte(">"+w.S+"<")) {
				t.Errorf("the picture has no %q", w.S)
			}
		}
	}
	if cells := 2 * acc.Size(); n < cells || bytes.Contains(svg, []byte("<text")) {
		t.Errorf("%d words for %d texts of cells; SVG with texts: %v", n, cells, bytes.Contains(svg, []byte("<text")))
	}
	for _, tag := range []string{"<path", "<title"} {
		if bytes.Count(svg, []byte(tag)) != bytes.Count(p.SVG, []byte(tag)) {
			t.Errorf("the part without texts has not every %s", tag)
		}
	}
}

func TestReinterpretLegend(t *testing.T) {
	l := layout.Local(2, 1).ColumnSpatial(4, 8).Local(2, 1)
	packed, err := layout.PackedView(6, l)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Reinterpret(dtype.U8, packed, dtype.I6, l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "A thread holds 3 u8 = 24 bits; read as i6 they are 4 values of 6 bits. Slot 1 is put together from the top 2 bits of u8 0 and the low 4 bits of u8 1."
	if p.Desc != want {
		t.Errorf("legend\n%s\nwant\n%s", p.Desc, want)
	}
	for _, c := range []struct {
		to  layout.Layout
		o   Options
		has string
	}{
		{layout.Spatial(8, 4), Options{}, "bits per thread"},
		{layout.Spatial(8, 8), Options{}, "threads"},
		{l, Options{Threads: []int{32}}, "no thread 32"},
	} {
		if _, err := Reinterpret(dtype.U8, packed, dtype.I6, c.to, c.o); err == nil || !strings.Contains(err.Error(), c.has) {
			t.Errorf("%v: error %v, want %q", c.to, err, c.has)
		}
	}
}

// Every text can be read on its own fill, in every palette and theme, the heat
// colours included; in the high-contrast palette twice as well.
func TestContrast(t *testing.T) {
	for _, th := range Themes() {
		for _, p := range Palettes() {
			k, err := Options{Palette: p.Name, Theme: th.Name}.look()
			if err != nil {
				t.Fatal(err)
			}
			fills := slices.Clone(k.colors)
			for i := range 17 {
				fills = append(fills, k.heat(i, 16))
			}
			for i, c := range fills {
				want := 4.5
				if p.Name == "contrast" && th.Name == "light" && i < len(k.colors) {
					want = 7
				}
				if got := scene.Contrast(k.inkOn(c), c); got < want {
					t.Errorf("%s %s: text on %s has contrast %.2f, want %v", th.Name, p.Name, c, got, want)
				}
			}
		}
		for _, c := range []string{th.ink, th.muted, th.alarm, th.accent} {
			for _, on := range []string{th.paper, th.quiet} {
				if got := scene.Contrast(c, on); got < 4.5 {
					t.Errorf("%s: %s on %s has contrast %.2f", th.Name, c, on, got)
				}
			}
		}
	}
}

// What the scene says about colours holds for the texts that are really drawn:
// each stands on a fill that it can be read on.
func TestDrawnContrast(t *testing.T) {
	for _, name := range []string{"acc", "replicated"} {
		for _, th := range Themes() {
			for _, pal := range Palettes() {
				p, err := Tensor(samples[name], Options{Palette: pal.Name, Theme: th.Name})
				if err != nil {
					t.Fatal(err)
				}
				readable(t, th.Name+" "+pal.Name, p)
			}
		}
	}
}

// readable checks every word of a picture against what is painted below its middle.
func readable(t *testing.T, name string, p Picture) {
	t.Helper()
	for _, it := range p.scene.Items {
		x, ok := it.(scene.Text)
		if !ok {
			continue
		}
		for _, w := range x.Words {
			at := w.X
			switch x.Anchor {
			case scene.Start:
				at += scene.Width(w.S, x.Size) / 2
			case scene.End:
				at -= scene.Width(w.S, x.Size) / 2
			}
			y := x.Y - int(x.Size/3)
			under := p.scene.Paper
			for _, f := range p.scene.Items {
				if f, ok := f.(scene.Fills); ok {
					for _, b := range f.Boxes {
						if b.X <= at && at < b.X+b.W && b.Y <= y && y < b.Y+b.H {
							under = f.Color
						}
					}
				}
			}
			if got := scene.Contrast(x.Color, under); got < 4.5 {
				t.Errorf("%s: %q at (%d, %d) in %s on %s has contrast %.2f", name, w.S, w.X, x.Y, x.Color, under, got)
				return
			}
		}
	}
}

// The PNG has the picture's size and its colours where the SVG has them.
func TestPNG(t *testing.T) {
	p, err := Tensor(acc, Options{Palette: "cute"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := PNG(p)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != 2*p.Width || b.Dy() != 2*p.Height {
		t.Errorf("size %v, want twice %d×%d", b, p.Width, p.Height)
	}
	cute, err := paletteOf("cute")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.IDs {
		index := []int{e.Keys[0] / 8, e.Keys[0] % 8}
		var red, green, blue uint8
		if _, err := fmt.Sscanf(cute.Colors[acc.Holders(index...)[0].Thread%len(cute.Colors)], "#%02x%02x%02x", &red, &green, &blue); err != nil {
			t.Fatal(err)
		}
		r, g, b, _ := img.At(2*(e.X+3), 2*(e.Y+e.H-3)).RGBA()
		if uint8(r>>8) != red || uint8(g>>8) != green || uint8(b>>8) != blue {
			t.Errorf("%s: colour %02x%02x%02x, want %02x%02x%02x", e.ID, r>>8, g>>8, b>>8, red, green, blue)
		}
	}
	again, err := PNG(p)
	if err != nil || !bytes.Equal(raw, again) {
		t.Error("two PNGs of one picture differ")
	}
	if _, err := PNG(Picture{}); err == nil {
		t.Error("PNG of an empty picture gives no error")
	}
	big, err := Threads(samples["4096"], Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PNG(big); err != nil {
		t.Error(err)
	}
}
