package theatre

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

func product(t *testing.T, s volta.Setup) *volta.Run {
	t.Helper()
	a, b, c := volta.Integers()
	r, err := volta.New(s, "", a, b, c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sound checks what holds of every picture: well-formed, twice the same bytes, and
// elements with names of their own, sentences, and places on the sheet.
func sound(t *testing.T, name string, draw func() (layoutviz.Picture, error)) layoutviz.Picture {
	t.Helper()
	p, err := draw()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for d := xml.NewDecoder(bytes.NewReader(p.SVG)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if again, _ := draw(); !bytes.Equal(p.SVG, again.SVG) {
		t.Errorf("%s: two pictures of one state", name)
	}
	ids := map[string]bool{}
	for _, e := range p.IDs {
		if ids[e.ID] || e.Label == "" || e.X < 0 || e.Y < 0 || e.W <= 0 || e.H <= 0 || e.X+e.W > p.Width || e.Y+e.H > p.Height {
			t.Errorf("%s: element %+v on %d×%d", name, e, p.Width, p.Height)
		}
		ids[e.ID] = true
	}
	if p.Title == "" || p.Desc == "" {
		t.Errorf("%s: no title or sentence", name)
	}
	return p
}

func find(p layoutviz.Picture, id string) layoutviz.Element {
	for _, e := range p.IDs {
		if e.ID == id {
			return e
		}
	}
	return layoutviz.Element{}
}

func TestOctets(t *testing.T) {
	for _, s := range []volta.Setup{{B: volta.Column}, {Sums: volta.F16, A: volta.Column, C: volta.Column}} {
		r := product(t, s)
		for n := range len(r.Instrs) + 1 {
			p := sound(t, s.String(), func() (layoutviz.Picture, error) { return Octets(r, n, layoutviz.Options{}) })
			if n > 0 && !strings.Contains(string(p.SVG), r.Instrs[n-1].Text) {
				t.Errorf("frame %d does not say %s", n, r.Instrs[n-1].Text)
			}
			// B comes from one of the two threadgroups of each octet.
			for q := range 4 {
				low, high := strings.Contains(find(p, "m"+string(rune('0'+q))+".0").Label, "selected"), strings.Contains(find(p, "m"+string(rune('0'+q))+".1").Label, "selected")
				if n == 0 && (low || high) || n > 0 && (low == high || high != r.Instrs[n-1].BFromHigh) {
					t.Errorf("frame %d: multiplexer of octet %d: %v %v", n, q, low, high)
				}
			}
		}
		if _, err := Octets(r, len(r.Instrs)+1, layoutviz.Options{}); err == nil {
			t.Error("a frame too many")
		}
	}
	r := product(t, volta.Setup{B: volta.Column})
	p, err := Octets(r, 7, layoutviz.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"D4.5":   "D[4,5] = −12 + 1·1 + -1·-2 + -3·0 + 2·2 = −5, by unit 1 of threadgroup 4 into R5 of lane 16",
		"a4.0.1": "A[4,5] = −1 in the A buffer of threadgroup 4, held by lane 16 in R26 and lane 24 in R26",
		"h6":     "measured complete at 24",
		"l16":    "gives A in R26:R27 and B in R18:R19; gets sums in R4:R5",
	} {
		if got := find(p, id).Label; !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if a, d := find(p, "A4.5").Keys, find(p, "a4.0.1").Keys; len(a) != 1 || a[0] != d[0] {
		t.Errorf("A[4,5] has keys %v and, in the buffer, %v", a, d)
	}
}

func TestOtherPictures(t *testing.T) {
	r := product(t, volta.Setup{B: volta.Column})
	r16 := product(t, volta.Setup{Sums: volta.F16})
	for _, o := range []layoutviz.Options{{}, {Theme: "dark", Palette: "okabe-ito"}, {Theme: "print", Palette: "grey"}} {
		sound(t, "storyboard", func() (layoutviz.Picture, error) { return Storyboard(r, o) })
		sound(t, "storyboard of f16", func() (layoutviz.Picture, error) { return Storyboard(r16, o) })
		for _, m := range []string{"A", "B", "C", "D"} {
			p := sound(t, m, func() (layoutviz.Picture, error) { return Memory(r, m, 3, o) })
			if len(p.IDs) != 256 {
				t.Errorf("%s: %d elements", m, len(p.IDs))
			}
		}
		for _, box := range []int{0, 21, 63} {
			p := sound(t, "core", func() (layoutviz.Picture, error) { return Core(r, box%2, 7, 1, box, o) })
			if len(p.IDs) != 64 {
				t.Errorf("%d green boxes", len(p.IDs))
			}
		}
		u := math.Ldexp(1, -24)
		p := sound(t, "rounding", func() (layoutviz.Picture, error) {
			return Rounding(volta.F32, -(1 - u), []float64{1}, volta.AllNumerics(), o)
		})
		if !strings.Contains(p.Desc, "1.192092896e-07") || !strings.Contains(p.Desc, "5.960464478e-08") {
			t.Error(p.Desc)
		}
	}
	if p, err := Core(r, 0, 7, 0, 21, layoutviz.Options{}); err != nil || !strings.HasPrefix(p.Desc, "D[4,5] of lane 16 = −12 + ") {
		t.Errorf("%q, %v", p.Desc, err)
	}
	for name, err := range map[string]error{
		"core 2":        second(Core(r, 2, 1, 0, 0, layoutviz.Options{})),
		"instruction 0": second(Core(r, 0, 0, 0, 0, layoutviz.Options{})),
		"turn 2":        second(Core(r, 0, 1, 2, 0, layoutviz.Options{})),
		"box 64":        second(Core(r, 0, 1, 0, 64, layoutviz.Options{})),
		"theme":         second(Storyboard(r, layoutviz.Options{Theme: "loud"})),
		"palette":       second(Storyboard(r, layoutviz.Options{Palette: "loud"})),
		"no products":   second(Rounding(volta.F32, 1, nil, volta.AllNumerics(), layoutviz.Options{})),
		"zeros":         second(Rounding(volta.F32, 0, []float64{0}, volta.AllNumerics(), layoutviz.Options{})),
		"infinite":      second(Rounding(volta.F32, math.Inf(1), []float64{0}, volta.AllNumerics(), layoutviz.Options{})),
		"way":           second(Rounding(volta.F32, 1, []float64{1}, []volta.Numerics{"fast"}, layoutviz.Options{})),
		"matrix":        second(Memory(r, "E", 0, layoutviz.Options{})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second(_ layoutviz.Picture, err error) error { return err }

// TestLinks follows elements from shared memory through registers to the octets.
func TestLinks(t *testing.T) {
	r := product(t, volta.Setup{B: volta.Column})
	octets, err := Octets(r, 7, layoutviz.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"A", "B", "D"} {
		memory, err := Memory(r, m, 7, layoutviz.Options{})
		if err != nil {
			t.Fatal(err)
		}
		registers, err := Fragment(r, m, layoutviz.Options{})
		if err != nil {
			t.Fatal(err)
		}
		held := map[int][]int{}
		for _, e := range registers.IDs {
			held[e.Keys[0]] = append(held[e.Keys[0]], e.Thread)
		}
		for _, e := range memory.IDs {
			at := find(octets, fmt.Sprintf("%s%d.%d", m, e.At[0], e.At[1]))
			if len(at.Keys) == 0 || at.Keys[0] != e.Keys[0] || !slices.Contains(held[e.Keys[0]], e.Thread) || len(held[e.Keys[0]]) != 1+len(e.Also) {
				t.Errorf("%s %s: keys %v, in the octets %v, held by %v", m, e.Label, e.Keys, at.Keys, held[e.Keys[0]])
			}
		}
	}
	if err := second(Fragment(r, "E", layoutviz.Options{})); err == nil {
		t.Error("matrix E")
	}
	if d := DotOf(r, 0, 7, 0, 21); d.Row != 4 || d.Column != 5 || d.Instr != 6 {
		t.Errorf("box 21 works for %+v", d)
	}
}

// TestCost is why wmma's A wants a swizzle: rows 0 to 3 and 8 to 11 of a phase lie
// in the same banks.
func TestCost(t *testing.T) {
	for _, x := range []struct {
		s            volta.Setup
		matrix       string
		waves, ideal int
	}{{volta.Setup{}, "A", 16, 8}, {volta.Setup{Sums: volta.F16}, "D", 8, 4}} {
		reports, err := Cost(x.s, x.matrix)
		if err != nil {
			t.Fatal(err)
		}
		waves, ideal := 0, 0
		for _, r := range reports {
			waves, ideal = waves+r.Wavefronts, ideal+r.Ideal
		}
		if waves != x.waves || ideal != x.ideal {
			t.Errorf("%s: %d wavefronts of %d, want %d of %d", x.matrix, waves, ideal, x.waves, x.ideal)
		}
	}
}

// TestGallery draws each picture in every theme, within a slide's width.
func TestGallery(t *testing.T) {
	for _, x := range Gallery() {
		for _, theme := range []string{"light", "dark", "print"} {
			p := sound(t, x.Name+" "+theme, func() (layoutviz.Picture, error) { return x.Draw(layoutviz.Options{Theme: theme}) })
			if p.Width > 1200 {
				t.Errorf("%s is %d wide", x.Name, p.Width)
			}
		}
	}
}

// TestFollow holds, for every element, what the picture says to the run: the lanes that
// hold it, and that its dot products are those of the instructions that use it.
func TestFollow(t *testing.T) {
	for _, layout := range []string{"row.col", "col.row"} {
		r := product(t, setup(t, layout))
		for _, matrix := range []string{"A", "B", "D"} {
			total := 0
			for i := range volta.Size {
				for j := range volta.Size {
					uses, err := Uses(r, matrix, i, j)
					if err != nil {
						t.Fatal(err)
					}
					total += len(uses)
				}
			}
			// Each dot product takes four elements of A and of B, and makes one of D.
			if want := map[string]int{"A": 4, "B": 4, "D": 1}[matrix] * len(r.Dots); total != want {
				t.Errorf("%s: %d uses, want %d", matrix, total, want)
			}
			p, err := Follow(r, matrix, 5, 9, 0, layoutviz.Options{})
			if err != nil {
				t.Fatal(err)
			}
			key := firstKey(matrix) + 16*5 + 9
			var here, lanes int
			for _, e := range p.IDs {
				if len(e.Keys) == 1 && e.Keys[0] == key && e.ID[0] == 's' {
					here++
				}
				if len(e.Keys) == 1 && e.Keys[0] == key && e.ID[0] == 'f' {
					lanes++
				}
			}
			if want := len(r.Holders(volta.Cell{Matrix: matrix, Row: 5, Col: 9})); here != 1 || lanes != want {
				t.Errorf("%s %s: %d places in memory, %d in registers, not 1 and %d", layout, matrix, here, lanes, want)
			}
		}
		for _, bad := range []func() error{
			func() error { _, err := Follow(r, "C", 0, 0, 0, layoutviz.Options{}); return err },
			func() error { _, err := Follow(r, "A", 16, 0, 0, layoutviz.Options{}); return err },
			func() error { _, err := Follow(r, "A", 0, 0, 17, layoutviz.Options{}); return err },
		} {
			if bad() == nil {
				t.Error("it follows what is not there")
			}
		}
	}
	// Every box finds its dot product, and every first turn's dot product its box.
	r := product(t, setup(t, "row.col"))
	for _, d := range r.Of(6) {
		if box := BoxOf(d); d.Turn == 0 && DotOf(r, box/64, 7, 0, box%64).Row != d.Row {
			t.Errorf("box %d", box)
		}
	}
}

func setup(t *testing.T, layout string) volta.Setup {
	t.Helper()
	s, err := volta.ParseSetup("mixed", layout, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Words can be read on the heads of the cells of a way in all looks.
func TestWayHues(t *testing.T) {
	for _, theme := range layoutviz.Themes() {
		for _, p := range layoutviz.Palettes() {
			s, err := newStage(10, 10, layoutviz.Options{Theme: theme.Name, Palette: p.Name})
			if err != nil {
				t.Fatal(err)
			}
			for kind, hue := range s.wayHues() {
				if c := scene.Contrast(hue, readable(hue)); c < 4.5 {
					t.Errorf("%s, %s: %s has a contrast of %.1f", theme.Name, p.Name, kind, c)
				}
			}
			for _, ink := range []string{s.ink, s.muted} {
				if c := scene.Contrast(s.quiet, ink); c < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.1f", theme.Name, ink, s.quiet, c)
				}
			}
		}
	}
}
