// Package fusion draws how fusions become kernels: which thread handles which element
// ([Threads]), how a warp's access lies in memory ([Access]), the functions of a kernel
// ([Partition]), kernels with the buffers between them ([Kernels]), and an indexing map that
// becomes simpler step by step ([Steps]).
//
// Each picture is a pure function of what it shows.
package fusion

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

const (
	pad      = 16
	bigSize  = 16.0
	textSize = 12.0
	noteSize = 11.0
	tinySize = 9.0
)

// sheet collects shapes by layer: fills, lines, words.
type sheet struct {
	w                               int
	paper, ink, muted, line, accent string
	colors                          []string
	back, fills, lines              []scene.Item
	texts                           []scene.Text
	ids                             []layoutviz.Element
}

func newSheet(w int, o layoutviz.Options) (*sheet, error) {
	s := &sheet{w: w, paper: "#ffffff", ink: "#1b1f24", muted: "#57606a", line: "#8b949e", accent: "#0550ae"}
	switch o.Theme {
	case "", "light":
	case "dark":
		s.paper, s.ink, s.muted, s.line, s.accent = "#0d1117", "#e6edf3", "#9aa4b0", "#6e7681", "#79c0ff"
	case "print":
		s.ink, s.muted, s.line, s.accent = "#000000", "#333333", "#555555", "#000000"
	case "contrast":
		s.paper, s.ink, s.muted, s.line, s.accent = "#000000", "#ffffff", "#e0e0e0", "#8c8c8c", "#ffff00"
	default:
		return nil, fmt.Errorf("fusion: unknown theme %q", o.Theme)
	}
	for _, p := range layoutviz.Palettes() {
		if p.Name == o.Palette || o.Palette == "" {
			s.colors = p.Colors
			break
		}
	}
	if s.colors == nil {
		return nil, fmt.Errorf("fusion: unknown palette %q", o.Palette)
	}
	return s, nil
}

func (s *sheet) color(n int) string { return s.colors[n%len(s.colors)] }

// tint is a colour of the palette for large areas with text on them.
func (s *sheet) tint(n int) string { return scene.Mix(s.color(n), s.paper, 45) }

func fill(items []scene.Item, color string, x, y, w, h int) []scene.Item {
	box := scene.Box{X: x, Y: y, W: w, H: h}
	if n := len(items); n > 0 {
		if f, ok := items[n-1].(scene.Fills); ok && f.Color == color {
			f.Boxes = append(f.Boxes, box)
			items[n-1] = f
			return items
		}
	}
	return append(items, scene.Fills{Color: color, Boxes: []scene.Box{box}})
}

func (s *sheet) box(color string, x, y, w, h int) { s.fills = fill(s.fills, color, x, y, w, h) }

func (s *sheet) stroke(color string, width float64, x1, y1, x2, y2 int) {
	seg := scene.Segment{X1: x1, Y1: y1, X2: x2, Y2: y2}
	for i := len(s.lines) - 1; i >= 0; i-- {
		if l, ok := s.lines[i].(scene.Strokes); ok && l.Color == color && l.Width == width {
			l.Segs = append(l.Segs, seg)
			s.lines[i] = l
			return
		}
	}
	s.lines = append(s.lines, scene.Strokes{Color: color, Width: width, Segs: []scene.Segment{seg}})
}

func (s *sheet) frame(color string, width float64, x, y, w, h int) {
	s.stroke(color, width, x, y, x+w, y)
	s.stroke(color, width, x, y+h, x+w, y+h)
	s.stroke(color, width, x, y, x, y+h)
	s.stroke(color, width, x+w, y, x+w, y+h)
}

func (s *sheet) text(x, y int, size float64, color, anchor string, bold bool, words string) {
	if words != "" {
		s.texts = append(s.texts, scene.Text{Y: y, Size: size, Color: color, Anchor: anchor, Bold: bold, Words: []scene.Word{{X: x, S: words}}})
	}
}

// on is the ink that reads better on a fill.
func (s *sheet) on(fill string) string {
	if scene.Contrast("#1b1f24", fill) > scene.Contrast("#ffffff", fill) {
		return "#1b1f24"
	}
	return "#ffffff"
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
	for _, layer := range [][]scene.Item{s.back, s.fills, s.lines} {
		out.Items = append(out.Items, layer...)
	}
	for _, t := range s.texts {
		out.Add(t)
	}
	return layoutviz.Made(out, title, desc, s.ids)
}
