// Package scene writes pictures made of few kinds of shapes: as SVG, PNG, PDF and
// TikZ, with the same things in the same places. What the shapes mean is the
// business of package layoutviz.
//
// Coordinates are whole pixels at scale 1, x to the right and y down; a pixel is
// 0.75 pt on paper. The bytes of every form depend on the scene alone.
package scene

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	svg "github.com/ajstarks/svgo"
)

// Scene is a picture as a list of shapes in drawing order, on a sheet of one colour.
type Scene struct {
	W, H  int
	Paper string // "#rrggbb"
	Items []Item
}

// Add appends a shape: it covers those before it.
func (s *Scene) Add(it Item) { s.Items = append(s.Items, it) }

// Item is one of Fills, Strokes, Line, Band, Text.
type Item interface {
	svg(c *svg.SVG)
}

// Box is a rectangle.
type Box struct{ X, Y, W, H int }

// Fills are rectangles of one colour "#rrggbb"; they become one path.
type Fills struct {
	Color string
	Boxes []Box
}

// Segment is a horizontal or vertical line.
type Segment struct{ X1, Y1, X2, Y2 int }

// Strokes are lines of one colour and width; they become one path.
type Strokes struct {
	Color string
	Width float64
	Segs  []Segment
}

// Point is a place.
type Point struct{ X, Y int }

// Line joins points in order by straight lines.
type Line struct {
	Color  string
	Width  float64
	Points []Point
}

// Band is a filled region between the line Y1 from A1 to B1 and the line Y2 from
// A2 to B2, whose sides are curves with vertical ends. Opacity is in percent.
type Band struct {
	Color      string
	A1, B1, Y1 int
	A2, B2, Y2 int
	Opacity    int
}

// Where the X of a word stands in it.
const (
	Start  = "start"
	Middle = "middle"
	End    = "end"
)

// Word is one word of a [Text].
type Word struct {
	X int
	S string
}

// Text is words that share a base line and a look; they become one text element
// with a span for each word. Anchor is Start, Middle or End.
type Text struct {
	Y      int
	Size   float64 // in pixels
	Color  string
	Anchor string
	Bold   bool
	Words  []Word
}

// fonts are tried in turn by whoever shows the SVG; all of them are monospaced.
const fonts = "ui-monospace,'Cascadia Mono','DejaVu Sans Mono',Menlo,Consolas,monospace"

// glyph is the width of a monospaced character at size 1. Fonts of the list
// differ a little; this is the widest.
const glyph = 0.605

// Width is how wide a text of a size is at most.
func Width(s string, size float64) int {
	return int(math.Ceil(float64(len([]rune(s))) * glyph * size))
}

// Fit is how many characters of a size stand in a width.
func Fit(width int, size float64) int { return int(float64(width) / (glyph * size)) }

// Paragraph breaks words into lines of up to n characters; a longer word has a line of its own. [Wrap] is for layouts.
func Paragraph(words string, n int) []string {
	var lines []string
	for _, word := range strings.Fields(words) {
		if k := len(lines) - 1; k >= 0 && len([]rune(lines[k]))+1+len([]rune(word)) <= n {
			lines[k] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// SVG is the scene as a document. Title and description are for screen readers,
// to whom the whole is one image. Attributes only, no style elements, so that it
// also shows where inline style is forbidden.
func (s *Scene) SVG(title, desc string) []byte {
	var buf bytes.Buffer
	c := svg.New(&buf)
	c.Start(s.W, s.H, fmt.Sprintf(`viewBox="0 0 %d %d"`, s.W, s.H), `role="img"`)
	c.Title(title)
	c.Desc(desc)
	c.Rect(0, 0, s.W, s.H, attr("fill", s.Paper))
	c.Group(attr("font-family", fonts))
	for _, it := range s.Items {
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

// path collects the commands of a path.
type path []byte

func (p *path) put(cmd byte, v ...int) {
	*p = append(*p, cmd)
	for i, n := range v {
		if i > 0 {
			*p = append(*p, ' ')
		}
		*p = strconv.AppendInt(*p, int64(n), 10)
	}
}

func (f Fills) svg(c *svg.SVG) {
	d := make(path, 0, 24*len(f.Boxes))
	for _, b := range f.Boxes {
		d.put('M', b.X, b.Y)
		d.put('h', b.W)
		d.put('v', b.H)
		d.put('h', -b.W)
		d = append(d, 'z')
	}
	c.Path(string(d), attr("fill", f.Color))
}

func (l Strokes) svg(c *svg.SVG) {
	if len(l.Segs) == 0 {
		return
	}
	d := make(path, 0, 16*len(l.Segs))
	for _, s := range l.Segs {
		d.put('M', s.X1, s.Y1)
		if s.Y1 == s.Y2 {
			d.put('H', s.X2)
		} else {
			d.put('V', s.Y2)
		}
	}
	c.Path(string(d), attr("fill", "none"), attr("stroke", l.Color), attr("stroke-width", num(l.Width)))
}

func (l Line) svg(c *svg.SVG) {
	if len(l.Points) < 2 {
		return
	}
	d := make(path, 0, 10*len(l.Points))
	for i, p := range l.Points {
		cmd := byte('L')
		if i == 0 {
			cmd = 'M'
		}
		d.put(cmd, p.X, p.Y)
	}
	c.Path(string(d), attr("fill", "none"), attr("stroke", l.Color), attr("stroke-width", num(l.Width)), attr("stroke-linejoin", "round"))
}

func (b Band) svg(c *svg.SVG) {
	m := (b.Y1 + b.Y2) / 2
	d := fmt.Sprintf("M%d %dC%d %d %d %d %d %dH%dC%d %d %d %d %d %dZ",
		b.A1, b.Y1, b.A1, m, b.A2, m, b.A2, b.Y2,
		b.B2, b.B2, m, b.B1, m, b.B1, b.Y1)
	c.Path(d, attr("fill", b.Color), attr("fill-opacity", num(float64(b.Opacity)/100)))
}

func (t Text) svg(c *svg.SVG) {
	at := []string{attr("font-size", num(t.Size)), attr("fill", t.Color)}
	if t.Anchor != Start {
		at = append(at, attr("text-anchor", t.Anchor))
	}
	if t.Bold {
		at = append(at, attr("font-weight", "bold"))
	}
	if len(t.Words) == 0 {
		return
	}
	c.Textspan(t.Words[0].X, t.Y, t.Words[0].S, at...)
	for _, w := range t.Words[1:] {
		c.Span(w.S, `x="`+strconv.Itoa(w.X)+`"`)
	}
	c.TextEnd()
}

// TikZ is the scene as a LaTeX document of one tikzpicture, a pixel 0.75 pt, with
// the title and description as comments.
func (s *Scene) TikZ(title, desc string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%% %s\n%% %s\n", oneLine(title), oneLine(desc))
	b.WriteString("\\documentclass{standalone}\n\\usepackage[T1]{fontenc}\n\\usepackage{tikz}\n")
	b.WriteString("\\begin{document}\n\\begin{tikzpicture}[x=0.75pt,y=-0.75pt,every node/.style={inner sep=0pt,outer sep=0pt}]\n")
	names := map[string]string{}
	color := func(hex string) string {
		if names[hex] == "" {
			names[hex] = fmt.Sprintf("c%d", len(names))
			fmt.Fprintf(&b, "\\definecolor{%s}{HTML}{%s}\n", names[hex], strings.ToUpper(hex[1:]))
		}
		return names[hex]
	}
	fmt.Fprintf(&b, "\\fill[%s] (0,0) rectangle (%d,%d);\n", color(s.Paper), s.W, s.H)
	for _, it := range s.Items {
		switch it := it.(type) {
		case Fills:
			c := color(it.Color)
			fmt.Fprintf(&b, "\\fill[%s]", c)
			for i, x := range it.Boxes {
				sep(&b, i)
				fmt.Fprintf(&b, " (%d,%d) rectangle (%d,%d)", x.X, x.Y, x.X+x.W, x.Y+x.H)
			}
			b.WriteString(";\n")
		case Strokes:
			if len(it.Segs) == 0 {
				continue
			}
			c := color(it.Color)
			fmt.Fprintf(&b, "\\draw[%s,line width=%spt]", c, num(it.Width*0.75))
			for i, x := range it.Segs {
				sep(&b, i)
				fmt.Fprintf(&b, " (%d,%d) -- (%d,%d)", x.X1, x.Y1, x.X2, x.Y2)
			}
			b.WriteString(";\n")
		case Line:
			if len(it.Points) < 2 {
				continue
			}
			fmt.Fprintf(&b, "\\draw[%s,line width=%spt,line join=round]", color(it.Color), num(it.Width*0.75))
			for i, p := range it.Points {
				sep(&b, i)
				if i > 0 {
					b.WriteString(" --")
				}
				fmt.Fprintf(&b, " (%d,%d)", p.X, p.Y)
			}
			b.WriteString(";\n")
		case Band:
			m := (it.Y1 + it.Y2) / 2
			c := color(it.Color)
			fmt.Fprintf(&b, "\\fill[%s,opacity=%s] (%d,%d) .. controls (%d,%d) and (%d,%d) .. (%d,%d) -- (%d,%d) .. controls (%d,%d) and (%d,%d) .. (%d,%d) -- cycle;\n",
				c, num(float64(it.Opacity)/100), it.A1, it.Y1, it.A1, m, it.A2, m, it.A2, it.Y2, it.B2, it.Y2, it.B2, m, it.B1, m, it.B1, it.Y1)
		case Text:
			c := color(it.Color)
			at := map[string]string{Start: "base west", Middle: "base", End: "base east"}[it.Anchor]
			face := "\\ttfamily"
			if it.Bold {
				face += "\\bfseries"
			}
			size := num(it.Size * 0.75)
			for _, w := range it.Words {
				fmt.Fprintf(&b, "\\node[anchor=%s,%s,font=\\fontsize{%s}{%s}\\selectfont%s] at (%d,%d) {%s};\n", at, c, size, size, face, w.X, it.Y, tex(w.S))
			}
		}
	}
	b.WriteString("\\end{tikzpicture}\n\\end{document}\n")
	return b.Bytes()
}

// sep breaks long paths into lines, which TeX reads in pieces.
func sep(b *bytes.Buffer, i int) {
	if i > 0 && i%8 == 0 {
		b.WriteByte('\n')
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// texEscape has the characters that mean something to TeX, and those beyond ASCII
// that pictures use.
var texEscape = strings.NewReplacer(`\`, `\textbackslash{}`, `{`, `\{`, `}`, `\}`, `$`, `\$`, `&`, `\&`, `#`, `\#`, `_`, `\_`, `%`, `\%`,
	`~`, `\textasciitilde{}`, `^`, `\textasciicircum{}`, `<`, `\textless{}`, `>`, `\textgreater{}`,
	"×", `$\times$`, "→", `$\to$`, "↓", `$\downarrow$`, "↑", `$\uparrow$`, "µ", `$\mu$`, "·", `$\cdot$`, "…", `\ldots{}`, "–", `--`,
	"−", `$-$`, "≤", `$\le$`, "≥", `$\ge$`, "ᵀ", `$^T$`, "▌", `\rule{0.4em}{1em}`,
	"⁰", `$^0$`, "¹", `$^1$`, "²", `$^2$`, "³", `$^3$`, "⁴", `$^4$`, "⁵", `$^5$`, "⁶", `$^6$`, "⁷", `$^7$`, "⁸", `$^8$`, "⁹", `$^9$`)

func tex(s string) string { return texEscape.Replace(s) }
