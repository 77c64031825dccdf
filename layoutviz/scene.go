package layoutviz

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	svg "github.com/ajstarks/svgo"
)

// scene is a picture as a list of shapes in drawing order, before it is text or
// pixels. Coordinates are whole pixels.
type scene struct {
	w, h  int
	items []item
}

// item is one of fills, strokes, bands, texts.
type item interface {
	svg(c *svg.SVG)
}

type box struct{ x, y, w, h int }

// fills are rectangles of one colour; they become one path.
type fills struct {
	color string // "#rrggbb"
	boxes []box
}

type segment struct{ x1, y1, x2, y2 int }

// strokes are straight horizontal or vertical lines of one colour; they become
// one path.
type strokes struct {
	color string
	width float64
	segs  []segment
}

// band is a filled region between the line y1 from a1 to b1 and the line y2
// from a2 to b2, whose sides are curves with vertical ends.
type band struct {
	color          string
	a1, b1, y1     int
	a2, b2, y2     int
	opacityPercent int
}

type anchor string

const (
	start  anchor = "start"
	middle anchor = "middle"
	end    anchor = "end"
)

// word is one text of a row; x is where its anchor stands.
type word struct {
	x int
	s string
}

// texts are words that share a base line, size and colour; they become one text
// element with a span for each word.
type texts struct {
	y      int
	size   float64
	color  string
	anchor anchor
	bold   bool
	words  []word
}

const (
	ink   = "#1b1f24" // text and outlines
	muted = "#57606a" // row and column numbers; 6.1:1 on white
	hair  = "#8c959f" // lines between cells
	paper = "#ffffff"
	fonts = "ui-monospace,'Cascadia Mono','DejaVu Sans Mono',Menlo,Consolas,monospace"
)

// glyph is the width of a monospaced character at size 1. Fonts of the stack
// differ a little; this is the widest.
const glyph = 0.605

func textWidth(s string, size float64) int {
	return int(math.Ceil(float64(len([]rune(s))) * glyph * size))
}

func (s *scene) add(it item) { s.items = append(s.items, it) }

// Text is words of a picture that share a base line and a look. Anchor is
// "start", "middle" or "end": what of a word stands at its X.
type Text struct {
	Y      int
	Size   float64
	Color  string
	Anchor string
	Bold   bool
	Words  []Word
}

// Word is one word of a [Text].
type Word struct {
	X int
	S string
}

// Split is the picture as an SVG without its texts, and the texts. A browser
// takes nearly all of its time for the texts of an SVG, and draws the same texts
// several times faster itself.
func (p Picture) Split() (svg []byte, list []Text) {
	if p.scene == nil {
		return p.SVG, nil
	}
	rest := &scene{w: p.scene.w, h: p.scene.h}
	for _, it := range p.scene.items {
		t, ok := it.(texts)
		if !ok {
			rest.add(it)
			continue
		}
		x := Text{Y: t.y, Size: t.size, Color: t.color, Anchor: string(t.anchor), Bold: t.bold}
		for _, w := range t.words {
			x.Words = append(x.Words, Word{w.x, w.s})
		}
		list = append(list, x)
	}
	return rest.encode(p.Title, p.Desc), list
}

// encode writes the scene as an SVG document. Attributes only, no style
// elements, so that it also shows where inline style is forbidden.
func (s *scene) encode(title, desc string) []byte {
	var buf bytes.Buffer
	c := svg.New(&buf)
	c.Startview(s.w, s.h, 0, 0, s.w, s.h)
	c.Title(title)
	c.Desc(desc)
	c.Rect(0, 0, s.w, s.h, attr("fill", paper))
	c.Group(attr("font-family", fonts))
	for _, it := range s.items {
		it.svg(c)
	}
	c.Gend()
	c.End()
	return buf.Bytes()
}

func attr(name, value string) string { return name + `="` + value + `"` }

// num prints a number with at most two decimals, so that bytes do not depend on
// the last bit of a float.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

func (f fills) svg(c *svg.SVG) {
	var d strings.Builder
	for _, b := range f.boxes {
		fmt.Fprintf(&d, "M%d %dh%dv%dh%dz", b.x, b.y, b.w, b.h, -b.w)
	}
	c.Path(d.String(), attr("fill", f.color))
}

func (l strokes) svg(c *svg.SVG) {
	var d strings.Builder
	for _, s := range l.segs {
		if s.y1 == s.y2 {
			fmt.Fprintf(&d, "M%d %dH%d", s.x1, s.y1, s.x2)
		} else {
			fmt.Fprintf(&d, "M%d %dV%d", s.x1, s.y1, s.y2)
		}
	}
	c.Path(d.String(), attr("fill", "none"), attr("stroke", l.color), attr("stroke-width", num(l.width)))
}

func (b band) svg(c *svg.SVG) {
	m := (b.y1 + b.y2) / 2
	d := fmt.Sprintf("M%d %dC%d %d %d %d %d %dH%dC%d %d %d %d %d %dZ",
		b.a1, b.y1, b.a1, m, b.a2, m, b.a2, b.y2,
		b.b2, b.b2, m, b.b1, m, b.b1, b.y1)
	c.Path(d, attr("fill", b.color), attr("fill-opacity", num(float64(b.opacityPercent)/100)))
}

func (t texts) svg(c *svg.SVG) {
	at := []string{attr("font-size", num(t.size)), attr("fill", t.color)}
	if t.anchor != start {
		at = append(at, attr("text-anchor", string(t.anchor)))
	}
	if t.bold {
		at = append(at, attr("font-weight", "bold"))
	}
	if len(t.words) == 0 {
		return
	}
	c.Textspan(t.words[0].x, t.y, t.words[0].s, at...)
	for _, w := range t.words[1:] {
		c.Span(w.s, attr("x", strconv.Itoa(w.x)))
	}
	c.TextEnd()
}
