// Package theatre draws machines at work: one picture for each state, a pure
// function of it, so that playing, stepping and scrubbing are choices of a number.
//
//   - [Octets] is Volta's warp after some HMMA instructions: lanes, operand
//     buffers, the multiplexer of B, sums, and the cycles of all instructions.
//   - [Storyboard] is all of its frames, small.
//   - [Core] is the 64 multipliers of a tensor core, one of them at work.
//   - [Follow] is the way of one element from shared memory to the instructions.
//   - [Rounding] is the bits of an addition, with those that are cut off.
//
// Source of what they show: package gpu/model/volta.
package theatre

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// pad is the space around a picture.
const pad = 14

// stage is a sheet that is drawn on in order.
type stage struct {
	scene                                         scene.Scene
	ink, muted, line, quiet, alarm, accent, green string
	octets                                        []string // colours
	dark                                          bool
	ids                                           []layoutviz.Element
}

func newStage(w, h int, o layoutviz.Options) (*stage, error) {
	s := &stage{ink: "#1b1f24", muted: "#57606a", line: "#8c959f", quiet: "#f3f5f7", alarm: "#c21f32", accent: "#0550ae", green: "#76b900"}
	s.scene = scene.Scene{W: w, H: h, Paper: "#ffffff"}
	theme := o.Theme
	if theme == "" {
		theme = layoutviz.Themes()[0].Name
	}
	switch theme {
	case "light":
	case "dark":
		s.ink, s.muted, s.line, s.quiet, s.alarm, s.accent, s.dark = "#e6edf3", "#9aa4b0", "#454d57", "#1c2128", "#ff7b72", "#79c0ff", true
		s.scene.Paper = "#0d1117"
	case "print":
		s.ink, s.muted, s.line = "#000000", "#333333", "#555555"
	case "contrast":
		s.ink, s.muted, s.line, s.quiet, s.alarm, s.accent, s.green = "#ffffff", "#e0e0e0", "#8c8c8c", "#000000", "#ff8c82", "#ffff00", "#8fe000"
		s.scene.Paper = "#000000"
	default:
		return nil, fmt.Errorf("theatre: unknown theme %q", o.Theme)
	}
	for _, p := range layoutviz.Palettes() {
		if p.Name == o.Palette || o.Palette == "" {
			s.octets = p.Colors[:4]
			break
		}
	}
	if s.octets == nil {
		return nil, fmt.Errorf("theatre: unknown palette %q", o.Palette)
	}
	if s.dark {
		for i, c := range s.octets {
			s.octets = append(s.octets[:i:i], append([]string{mix(c, "#000000", 40)}, s.octets[i+1:]...)...)
		}
	}
	return s, nil
}

func (s *stage) fill(color string, x, y, w, h int) {
	if n := len(s.scene.Items); n > 0 {
		if f, ok := s.scene.Items[n-1].(scene.Fills); ok && f.Color == color {
			f.Boxes = append(f.Boxes, scene.Box{X: x, Y: y, W: w, H: h})
			s.scene.Items[n-1] = f
			return
		}
	}
	s.scene.Add(scene.Fills{Color: color, Boxes: []scene.Box{{X: x, Y: y, W: w, H: h}}})
}

func (s *stage) stroke(color string, width float64, segs ...scene.Segment) {
	if n := len(s.scene.Items); n > 0 {
		if l, ok := s.scene.Items[n-1].(scene.Strokes); ok && l.Color == color && l.Width == width {
			l.Segs = append(l.Segs, segs...)
			s.scene.Items[n-1] = l
			return
		}
	}
	s.scene.Add(scene.Strokes{Color: color, Width: width, Segs: segs})
}

func seg(x1, y1, x2, y2 int) scene.Segment { return scene.Segment{X1: x1, Y1: y1, X2: x2, Y2: y2} }

func (s *stage) frame(color string, width float64, x, y, w, h int) {
	s.stroke(color, width, seg(x, y, x+w, y), seg(x, y+h, x+w, y+h), seg(x, y, x, y+h), seg(x+w, y, x+w, y+h))
}

func (s *stage) text(x, y int, size float64, color, anchor string, bold bool, words string) {
	if words == "" {
		return
	}
	if n := len(s.scene.Items); n > 0 {
		if t, ok := s.scene.Items[n-1].(scene.Text); ok && t.Y == y && t.Size == size && t.Color == color && t.Anchor == anchor && t.Bold == bold {
			t.Words = append(t.Words, scene.Word{X: x, S: words})
			s.scene.Items[n-1] = t
			return
		}
	}
	s.scene.Add(scene.Text{Y: y, Size: size, Color: color, Anchor: anchor, Bold: bold, Words: []scene.Word{{X: x, S: words}}})
}

// left writes a line from x on, in the ink's colour or the muted one.
func (s *stage) left(x, y int, size float64, bold bool, words string) {
	s.text(x, y, size, s.ink, scene.Start, bold, words)
}

func (s *stage) note(x, y int, size float64, words string) {
	s.text(x, y, size, s.muted, scene.Start, false, words)
}

// lines writes a paragraph wrapped to a width; the result is the y below it.
func (s *stage) lines(x, y, w int, size float64, color string, bold bool, words string) int {
	for _, line := range scene.Paragraph(words, scene.Fit(w, size)) {
		s.text(x, y, size, color, scene.Start, bold, line)
		y += int(size) + 5
	}
	return y
}

// cell is a box with a number in its middle, and what the box is.
func (s *stage) cell(e layoutviz.Element, fill, ink string, bold bool, size float64, words string) {
	s.fill(fill, e.X, e.Y, e.W, e.H)
	s.ids = append(s.ids, e)
	for scene.Width(words, size) > e.W-1 && size > 5.5 {
		size -= 0.5
	}
	s.text(e.X+e.W/2, e.Y+e.H/2+int(size*0.36+0.5), size, ink, scene.Middle, bold, words)
}

// grid draws lines around cells.
func (s *stage) grid(x, y, cols, rows, w, h int) {
	var segs []scene.Segment
	for i := range cols + 1 {
		segs = append(segs, seg(x+i*w, y, x+i*w, y+rows*h))
	}
	for i := range rows + 1 {
		segs = append(segs, seg(x, y+i*h, x+cols*w, y+i*h))
	}
	s.stroke(s.scene.Paper, 0.75, segs...)
}

func (s *stage) picture(title, desc string) layoutviz.Picture {
	return layoutviz.Made(&s.scene, title, desc, s.ids)
}

// mix is percent of b in a.
func mix(a, b string, percent int) string {
	var x, y [3]int
	// The errors cannot happen: colours are literals of the project.
	_, _ = fmt.Sscanf(a, "#%02x%02x%02x", &x[0], &x[1], &x[2])
	_, _ = fmt.Sscanf(b, "#%02x%02x%02x", &y[0], &y[1], &y[2])
	for i := range x {
		x[i] = (x[i]*(100-percent) + y[i]*percent) / 100
	}
	return fmt.Sprintf("#%02x%02x%02x", x[0], x[1], x[2])
}

// inkOn is black or white, whichever reads better on a fill.
func inkOn(fill string) string {
	var r, g, b int
	_, _ = fmt.Sscanf(fill, "#%02x%02x%02x", &r, &g, &b)
	if 299*r+587*g+114*b > 130*1000 {
		return "#1b1f24"
	}
	return "#ffffff"
}

// number writes a value with few characters, for a cell.
func number(v float64) string {
	if v == 0 {
		return "0" // of either sign
	}
	for _, format := range []string{"%.3g", "%.2g", "%.1g"} {
		text := strings.Replace(fmt.Sprintf(format, v), "0.", ".", 1)
		if !strings.HasPrefix(strings.TrimPrefix(text, "-"), ".") {
			text = fmt.Sprintf(format, v)
		}
		if len(text) <= 4 || format == "%.1g" {
			return strings.Replace(text, "-", "−", 1)
		}
	}
	return ""
}

// full writes a value for a sentence.
func full(v float64) string { return strings.Replace(fmt.Sprintf("%.7g", v+0), "-", "−", 1) }

// products writes the products of a dot product with the minus of the other numbers.
func products(d volta.Dot) string { return strings.ReplaceAll(d.Products(), "-", "−") }
