// Package timeline draws what happens when: the dispatch of kernels on an AMD GPU
// as a Gantt chart ([Gantt]), its staircase over the number of compute units
// ([Stairs]), the way of one launch or one new queue through user code, driver,
// firmware and hardware ([Path]), the blocks that a GPU ran ([Blocks]), and a loop that
// copies tiles ahead ([Stages]).
//
// Each picture is a pure function of what it shows; a moment is a number, so that
// playing and stepping need nothing else.
package timeline

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

const (
	pad      = 16
	bigSize  = 17.0
	headSize = 13.0
	textSize = 12.0
	noteSize = 11.0
	tinySize = 9.0
)

// sheet collects shapes by layer: areas, bars, lines, words.
type sheet struct {
	w                                             int
	paper, ink, muted, line, quiet, alarm, accent string
	colors                                        []string
	areas, bars, lines, over                      []scene.Item
	texts                                         []scene.Text
	ids                                           []layoutviz.Element
}

func newSheet(w int, o layoutviz.Options) (*sheet, error) {
	s := &sheet{w: w, paper: "#ffffff", ink: "#1b1f24", muted: "#57606a", line: "#c4cad1", quiet: "#f3f5f7", alarm: "#b3261e", accent: "#0550ae"}
	dark := false
	switch o.Theme {
	case "", "light":
	case "dark":
		s.paper, s.ink, s.muted, s.line, s.quiet, s.alarm, s.accent, dark = "#0d1117", "#e6edf3", "#9aa4b0", "#454d57", "#1c2128", "#ff7b72", "#79c0ff", true
	case "print":
		s.ink, s.muted, s.line, s.quiet = "#000000", "#333333", "#777777", "#eeeeee"
	case "contrast":
		s.paper, s.ink, s.muted, s.line, s.quiet, s.alarm, s.accent = "#000000", "#ffffff", "#e0e0e0", "#8c8c8c", "#000000", "#ff8c82", "#ffff00"
	default:
		return nil, fmt.Errorf("timeline: unknown theme %q", o.Theme)
	}
	for _, p := range layoutviz.Palettes() {
		if p.Name == o.Palette || o.Palette == "" {
			s.colors = append([]string(nil), p.Colors...)
			break
		}
	}
	if s.colors == nil {
		return nil, fmt.Errorf("timeline: unknown palette %q", o.Palette)
	}
	if o.Palette == "" {
		// Kernels are told apart over the whole sheet: clear hues first.
		s.colors = []string{"#5b9bd5", "#f0a04b", "#57b894", "#d96c8a", "#9b86d3", "#c9b037", "#4fb3bf", "#b5835a"}
	}
	for i, c := range s.colors {
		switch {
		case dark:
			s.colors[i] = mix(c, "#000000", 35)
		case o.Theme == "contrast":
			s.colors[i] = scene.Strong(c)
		}
	}
	return s, nil
}

func (s *sheet) color(n int) string { return s.colors[n%len(s.colors)] }

func fill(items []scene.Item, color string, x, y, w, h int) []scene.Item {
	if n := len(items); n > 0 {
		if f, ok := items[n-1].(scene.Fills); ok && f.Color == color {
			f.Boxes = append(f.Boxes, scene.Box{X: x, Y: y, W: w, H: h})
			items[n-1] = f
			return items
		}
	}
	return append(items, scene.Fills{Color: color, Boxes: []scene.Box{{X: x, Y: y, W: w, H: h}}})
}

func (s *sheet) area(color string, x, y, w, h int) { s.areas = fill(s.areas, color, x, y, w, h) }
func (s *sheet) bar(color string, x, y, w, h int)  { s.bars = fill(s.bars, color, x, y, w, h) }

func stroke(items []scene.Item, color string, width float64, x1, y1, x2, y2 int) []scene.Item {
	seg := scene.Segment{X1: x1, Y1: y1, X2: x2, Y2: y2}
	if n := len(items); n > 0 {
		if l, ok := items[n-1].(scene.Strokes); ok && l.Color == color && l.Width == width {
			l.Segs = append(l.Segs, seg)
			items[n-1] = l
			return items
		}
	}
	return append(items, scene.Strokes{Color: color, Width: width, Segs: []scene.Segment{seg}})
}

func (s *sheet) text(x, y int, size float64, color, anchor string, bold bool, words string) {
	if words != "" {
		s.texts = append(s.texts, scene.Text{Y: y, Size: size, Color: color, Anchor: anchor, Bold: bold, Words: []scene.Word{{X: x, S: words}}})
	}
}

// inside writes the longest of the texts that fits into a box, or none.
func (s *sheet) inside(x, y, w, h int, fill string, candidates ...string) {
	for _, size := range []float64{noteSize, tinySize} {
		for _, c := range candidates {
			if scene.Width(c, size) <= w-2 && int(size) <= h {
				s.text(x+w/2, y+h/2+int(size*0.36+0.5), size, inkOn(fill), scene.Middle, false, c)
				return
			}
		}
	}
}

// para writes a paragraph wrapped to a width; the result is the y below it.
func (s *sheet) para(x, y, w int, size float64, color string, bold bool, words string) int {
	for _, line := range scene.Paragraph(words, scene.Fit(w, size)) {
		y += int(size) + 5
		s.text(x, y-4, size, color, scene.Start, bold, line)
	}
	return y
}

func (s *sheet) picture(h int, title, desc string) layoutviz.Picture {
	out := &scene.Scene{W: s.w, H: h, Paper: s.paper}
	for _, layer := range [][]scene.Item{s.areas, s.lines, s.bars, s.over} {
		out.Items = append(out.Items, layer...)
	}
	for _, t := range s.texts {
		out.Add(t)
	}
	return layoutviz.Made(out, title, desc, s.ids)
}

// mix is percent of b in a.
func mix(a, b string, percent int) string {
	x, y := rgb(a), rgb(b)
	for i := range x {
		x[i] = (x[i]*(100-percent) + y[i]*percent) / 100
	}
	return fmt.Sprintf("#%02x%02x%02x", x[0], x[1], x[2])
}

func rgb(color string) (c [3]int) {
	// The error cannot happen: colours are literals of the project.
	_, _ = fmt.Sscanf(color, "#%02x%02x%02x", &c[0], &c[1], &c[2])
	return c
}

// inkOn is black or white, whichever reads better on a fill.
func inkOn(fill string) string {
	c := rgb(fill)
	if 299*c[0]+587*c[1]+114*c[2] > 130*1000 {
		return "#1b1f24"
	}
	return "#ffffff"
}
