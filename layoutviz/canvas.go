package layoutviz

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Text and Word are the texts of a picture, as [Picture.Split] gives them.
type (
	Text = scene.Text
	Word = scene.Word
)

// Sizes of what every picture has, in pixels.
const (
	pad      = 12
	capSize  = 13.0
	headSize = 10.0
	topSize  = 11.0
	subSize  = 9.0
	tinySize = 8.0
)

// canvas collects what a picture consists of, and sorts it so that the scene has
// one path for each colour and one text for each row and look.
type canvas struct {
	look
	w, h   int
	order  []string // fill colours in order of first use
	fills  map[string][]scene.Box
	bands  []scene.Item
	plates []scene.Box
	hairs  []scene.Segment
	frames []scene.Segment
	thick  []strokesOf
	texts  []*scene.Text
	textAt map[textKey]*scene.Text
	ids    []Element
	placed []scene.Box // of the tables of a row
	grids  []Grid
}

type strokesOf struct {
	color string
	segs  []scene.Segment
}

type textKey struct {
	y      int
	size   float64
	color  string
	anchor string
	bold   bool
}

func newCanvas(o Options) (*canvas, error) {
	k, err := o.look()
	if err != nil {
		return nil, err
	}
	return &canvas{look: k, fills: map[string][]scene.Box{}, textAt: map[textKey]*scene.Text{}}, nil
}

// fill paints a rectangle; neighbours of one colour in a row become one.
func (c *canvas) fill(color string, x, y, w, h int) {
	boxes, seen := c.fills[color]
	if !seen {
		c.order = append(c.order, color)
	}
	if n := len(boxes); n > 0 {
		if p := &boxes[n-1]; p.Y == y && p.H == h && p.X+p.W == x {
			p.W += w
			return
		}
	}
	c.fills[color] = append(boxes, scene.Box{X: x, Y: y, W: w, H: h})
}

// frame draws the outline of a rectangle, hair a thin line.
func (c *canvas) frame(x, y, w, h int) { c.frames = append(c.frames, outline(x, y, w, h)...) }

func (c *canvas) hair(x1, y1, x2, y2 int) {
	c.hairs = append(c.hairs, scene.Segment{X1: x1, Y1: y1, X2: x2, Y2: y2})
}

// mark draws a thick outline in a colour that stands out.
func (c *canvas) mark(color string, x, y, w, h int) { c.strong(color, outline(x, y, w, h)...) }

func (c *canvas) strong(color string, segs ...scene.Segment) {
	for i := range c.thick {
		if c.thick[i].color == color {
			c.thick[i].segs = append(c.thick[i].segs, segs...)
			return
		}
	}
	c.thick = append(c.thick, strokesOf{color, segs})
}

func outline(x, y, w, h int) []scene.Segment {
	return []scene.Segment{{X1: x, Y1: y, X2: x + w, Y2: y}, {X1: x, Y1: y + h, X2: x + w, Y2: y + h},
		{X1: x, Y1: y, X2: x, Y2: y + h}, {X1: x + w, Y1: y, X2: x + w, Y2: y + h}}
}

// text writes a word; words of one base line and look are one text.
func (c *canvas) text(x, y int, size float64, color, anchor string, bold bool, s string) {
	if s == "" {
		return
	}
	k := textKey{y, size, color, anchor, bold}
	t := c.textAt[k]
	if t == nil {
		t = &scene.Text{Y: y, Size: size, Color: color, Anchor: anchor, Bold: bold}
		c.textAt[k] = t
		c.texts = append(c.texts, t)
	}
	t.Words = append(t.Words, Word{X: x, S: s})
}

// label writes the longest of the texts that fits into a width, or none.
func (c *canvas) label(x, y, w int, color string, bold bool, candidates ...string) {
	for _, size := range []float64{headSize, tinySize} {
		for _, s := range candidates {
			if scene.Width(s, size) <= w-2 {
				c.text(x, y, size, color, scene.Middle, bold, s)
				return
			}
		}
	}
}

// grow widens the picture for its caption, within reason.
func (c *canvas) grow(caption []string) {
	c.w = max(c.w, 240)
	for i, line := range caption {
		size := topSize
		if i == 0 {
			size = capSize
		}
		c.w = max(c.w, min(2*pad+scene.Width(line, size)+2, 520))
	}
}

// caption writes lines above the picture, the first one bold, wrapped to the
// width, and returns where the picture may begin.
func (c *canvas) caption(lines []string, y int) int {
	for i, line := range lines {
		size, color := capSize, c.ink
		if i > 0 {
			size, color = topSize, c.muted
		}
		for _, part := range scene.Wrap(line, scene.Fit(c.w-2*pad, size)) {
			y += int(size) + 4
			c.text(pad, y-4, size, color, scene.Start, i == 0, part)
		}
	}
	return y + 8
}

// notes writes lines in the look of a caption's further ones.
func (c *canvas) notes(y int, lines ...string) int {
	return c.caption(append([]string{""}, lines...), y-int(capSize)-4)
}

// scene puts everything into drawing order.
func (c *canvas) scene() *scene.Scene {
	s := &scene.Scene{W: c.w, H: c.h, Paper: c.paper}
	for _, color := range c.order {
		s.Add(scene.Fills{Color: color, Boxes: c.fills[color]})
	}
	s.Items = append(s.Items, c.bands...)
	if len(c.plates) > 0 {
		s.Add(scene.Fills{Color: c.paper, Boxes: c.plates})
	}
	if len(c.hairs) > 0 {
		s.Add(scene.Strokes{Color: c.line, Width: 0.75, Segs: c.hairs})
	}
	if len(c.frames) > 0 {
		s.Add(scene.Strokes{Color: c.ink, Width: 1.25, Segs: c.frames})
	}
	for _, t := range c.thick {
		s.Add(scene.Strokes{Color: t.color, Width: 2.5, Segs: t.segs})
	}
	slices.SortStableFunc(c.texts, func(a, b *scene.Text) int { return a.Y - b.Y })
	for _, t := range c.texts {
		s.Add(*t)
	}
	return s
}

// picture ends the drawing.
func (c *canvas) picture(title, desc string) Picture {
	s := c.scene()
	return Picture{SVG: s.SVG(title, desc), Width: s.W, Height: s.H, IDs: c.ids, Title: title, Desc: desc, Grids: c.grids, scene: s}
}
