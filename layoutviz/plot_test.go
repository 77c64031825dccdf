package layoutviz

import (
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// TestPointsKeepClear holds that points lie within the frame, all of one size, and that names cover neither points nor each other.
func TestPointsKeepClear(t *testing.T) {
	ch := Chart{X: "x", Y: "y", LogY: true, Series: []Series{
		{Name: "a", Kind: "points", X: []float64{1, 2, 3, 3.01, 8}, Y: []float64{100, 50, 20, 20, 1}, Names: []string{"one", "two", "three", "four", "five"}},
		{Name: "b", Kind: "points", X: []float64{3, 8}, Y: []float64{20, 2}, Names: []string{"six", ""}},
	}}
	pic, err := Plot(ch, Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(pic.SVG)
	for _, name := range []string{"one", "two", "three", "five"} {
		if !strings.Contains(text, ">"+name+"<") {
			t.Errorf("no name %s", name)
		}
	}
	if !slices.ContainsFunc(pic.IDs, func(e Element) bool { return e.Label == "b, six: 20 at 3" }) {
		t.Errorf("no element says its name: %+v", pic.IDs)
	}
	for _, e := range pic.IDs {
		if e.X < 48 || e.X+e.W > 590 { // the frame is from 38 to 598
			t.Errorf("%s lies on the frame, at %d", e.Label, e.X)
		}
	}
	for _, wrong := range []Series{{Kind: "points", Y: []float64{1, 2}, Names: []string{"one"}}, {Y: []float64{1}, Names: []string{"one"}}} {
		if _, err := Plot(Chart{Series: []Series{wrong}}, Options{}); err == nil || !strings.Contains(err.Error(), "names") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// TestShiftAndNote holds that shifted points stand beside their x and say that x, that a narrow
// axis of logarithms has even steps, and that the note is written.
func TestShiftAndNote(t *testing.T) {
	at := func(shift int) (Element, string) {
		pic, err := Plot(Chart{X: "x", Y: "y", LogY: true, Note: "from a record", Series: []Series{{Name: "a", Kind: "points", X: []float64{1, 2}, Y: []float64{1, 2.2}, Shift: shift}}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return pic.IDs[0], string(pic.SVG)
	}
	plain, _ := at(0)
	moved, svg := at(13)
	if moved.X != plain.X+13 || moved.Label != "a: 1 at 1" {
		t.Errorf("%s at %d, want it 13 to the right of %d", moved.Label, moved.X, plain.X)
	}
	for _, want := range []string{">1.2<", ">1.8<", ">from a record<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// TestBesideOverlaps asks for a name more than there is room for.
func TestBesideOverlaps(t *testing.T) {
	c, err := newCanvas(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var points []scene.Box
	names := make([]string, 12)
	for i := range names {
		names[i] = strings.Repeat("n", i+1)
		points = append(points, scene.Box{X: 50, Y: 50, W: 7, H: 7})
	}
	c.beside(names, points, points, scene.Box{W: 200, H: 100})
	written := 0
	for _, x := range c.texts {
		written += len(x.Words)
	}
	if written != 4 {
		t.Errorf("%d names, and a point has four sides", written)
	}
}
