package layoutviz

import (
	"fmt"
	"strings"
)

// table is a picture made of equal cells: what the tensor view and the thread
// view have in common. Rows and columns are cells after coarsening.
type table struct {
	title, desc string
	caption     []string
	rowAxis     string // what the rows count
	colAxis     string
	rows, cols  int
	rowHead     func(r int) string
	colHead     func(c int) string
	gapCols     int // a wider gap after this many columns; 0 for none
	// beside is the number of a row in a later block of columns, where blocks have
	// numbers of their own; nil where those on the left are for all.
	beside   func(block, r int) string
	twoLines bool
	longest  string // the longest text of any cell
	cell     func(r, c int) cell
	labelled bool
	linked   bool
}

// cell is one square of a table. Several fills are shown side by side.
type cell struct {
	fills       []string
	top, bottom string
	id, label   string
	keys        []int
	thread      int
}

const (
	pad      = 12
	capSize  = 13.0
	headSize = 10.0
	topSize  = 11.0
	subSize  = 9.0
	gapWidth = 14
	maxShown = 4 // fills shown in one cell
)

// draw lays the table out.
func (t table) draw(o Options) Picture {
	cw, ch := 8, 8
	switch {
	case t.labelled && t.twoLines:
		cw, ch = max(30, textWidth(t.longest, topSize)+8), 30
	case t.labelled:
		cw, ch = max(34, textWidth(t.longest, topSize)+8), 22
	case t.rows*t.cols > maxLabelled:
		cw, ch = 6, 6
	}
	headW := 0
	for r := range t.rows {
		headW = max(headW, textWidth(t.rowHead(r), headSize))
	}
	headW += 8
	gap, gaps := gapWidth, 0
	if t.gapCols > 0 {
		gaps = (t.cols - 1) / t.gapCols
	}
	if t.beside != nil {
		gap = 0
		for b := 1; b <= gaps; b++ {
			gap = max(gap, textWidth(t.beside(b, 0), headSize)+18)
		}
	}
	axis := textWidth(t.rowAxis+" ↓", headSize)
	x0 := pad + max(headW, axis+6)
	gridW := t.cols*cw + gaps*gap
	width := x0 + gridW + pad
	if !o.NoCaption {
		width = max(width, 240)
	}
	s := &scene{w: width}
	y := pad
	if !o.NoCaption {
		y = s.caption(t.caption, y)
	}
	y0 := y + 32
	gridH := t.rows * ch
	s.h = y0 + gridH + pad

	colX := func(c int) int {
		x := x0 + c*cw
		if t.gapCols > 0 {
			x += c / t.gapCols * gap
		}
		return x
	}

	// Axis names, then the numbers, thinned out so that they keep apart.
	s.add(texts{y: y + 10, size: headSize, color: muted, anchor: start, words: []word{{x0, t.colAxis + " →"}}})
	s.add(texts{y: y + 25, size: headSize, color: muted, anchor: end, words: []word{{x0 - 6, t.rowAxis + " ↓"}}})
	wide := 0
	for c := range t.cols {
		wide = max(wide, textWidth(t.colHead(c), headSize))
	}
	every := thin(wide+4, cw)
	head := texts{y: y + 25, size: headSize, color: muted, anchor: middle}
	for c := 0; c < t.cols; c += every {
		head.words = append(head.words, word{colX(c) + cw/2, t.colHead(c)})
	}
	s.add(head)
	for r := 0; r < t.rows; r += thin(13, ch) {
		s.add(texts{y: y0 + r*ch + ch/2 + 4, size: headSize, color: muted, anchor: end, words: []word{{x0 - 6, t.rowHead(r)}}})
		for b := 1; t.beside != nil && b <= gaps; b++ {
			s.add(texts{y: y0 + r*ch + ch/2 + 4, size: headSize, color: muted, anchor: end, words: []word{{colX(b*t.gapCols) - 6, t.beside(b, r)}}})
		}
	}

	// Cells: one path for each colour; then lines; then one text for each row,
	// line and ink.
	inkFor := map[string]string{}
	inkOf := func(fill string) string {
		if inkFor[fill] == "" {
			inkFor[fill] = inkOn(fill)
		}
		return inkFor[fill]
	}
	var order []string
	byColor := map[string][]box{}
	var plates []box
	var ids []Element
	words := []texts{}
	for r := range t.rows {
		lines := map[string]*texts{}
		var inks []string
		for c := range t.cols {
			e := t.cell(r, c)
			b := box{colX(c), y0 + r*ch, cw, ch}
			n := min(len(e.fills), maxShown, cw/3)
			color := ink
			for i := range n {
				f := e.fills[i]
				if byColor[f] == nil {
					order = append(order, f)
				}
				strip := box{b.x + i*cw/n, b.y, (i+1)*cw/n - i*cw/n, ch}
				byColor[f] = join(byColor[f], strip)
				if i == 0 {
					color = inkOf(f)
				}
			}
			if t.labelled && n > 1 && needsPlate(e.fills[:n]) {
				w := max(textWidth(e.top, topSize), textWidth(e.bottom, subSize)) + 2
				plates = append(plates, box{b.x + (cw-w)/2, b.y + 3, w, ch - 6})
				color = ink
			}
			if t.labelled {
				add := func(line int, y int, size float64, s string) {
					if s == "" {
						return
					}
					k := fmt.Sprint(line, color)
					if lines[k] == nil {
						lines[k] = &texts{y: y, size: size, color: color, anchor: middle}
						inks = append(inks, k)
					}
					lines[k].words = append(lines[k].words, word{b.x + cw/2, s})
				}
				if t.twoLines {
					add(0, b.y+14, topSize, e.top)
					add(1, b.y+25, subSize, e.bottom)
				} else {
					add(0, b.y+ch/2+4, topSize, e.top)
				}
			}
			if t.linked {
				ids = append(ids, Element{ID: e.id, Label: e.label, X: b.x, Y: b.y, W: b.w, H: b.h, Keys: e.keys, Thread: e.thread})
			}
		}
		for _, k := range inks {
			words = append(words, *lines[k])
		}
	}
	for _, color := range order {
		s.add(fills{color, byColor[color]})
	}
	if len(plates) > 0 {
		s.add(fills{paper, plates})
	}
	if cw >= 8 {
		s.add(strokes{hair, 0.75, t.inner(colX, cw, y0, ch)})
	}
	s.add(strokes{ink, 1.25, t.outer(colX, cw, y0, gridH)})
	for _, w := range words {
		s.add(w)
	}
	return Picture{SVG: s.encode(t.title, t.desc), Width: s.w, Height: s.h, IDs: ids, Title: t.title, Desc: t.desc, scene: s}
}

// needsPlate reports whether a text over these fills cannot have one ink with
// enough contrast on all of them.
func needsPlate(fills []string) bool {
	for _, f := range fills {
		if inkOn(f) != inkOn(fills[0]) {
			return true
		}
	}
	return false
}

// join appends a box, or widens the last one when they share a side.
func join(boxes []box, b box) []box {
	if n := len(boxes); n > 0 {
		if p := &boxes[n-1]; p.y == b.y && p.h == b.h && p.x+p.w == b.x {
			p.w += b.w
			return boxes
		}
	}
	return append(boxes, b)
}

// thin is every how many cells a label of the given size may stand.
func thin(need, cell int) int {
	every := 1
	for every*cell < need {
		every *= 2
	}
	return every
}

func (t table) blocks() (n, per int) {
	if t.gapCols <= 0 || t.gapCols >= t.cols {
		return 1, t.cols
	}
	return (t.cols + t.gapCols - 1) / t.gapCols, t.gapCols
}

func (t table) inner(colX func(int) int, cw, y0, ch int) []segment {
	var out []segment
	n, per := t.blocks()
	for b := range n {
		first, last := b*per, min((b+1)*per, t.cols)-1
		for r := 1; r < t.rows; r++ {
			out = append(out, segment{colX(first), y0 + r*ch, colX(last) + cw, y0 + r*ch})
		}
		for c := first + 1; c <= last; c++ {
			out = append(out, segment{colX(c), y0, colX(c), y0 + t.rows*ch})
		}
	}
	return out
}

func (t table) outer(colX func(int) int, cw, y0, gridH int) []segment {
	var out []segment
	n, per := t.blocks()
	for b := range n {
		l, r := colX(b*per), colX(min((b+1)*per, t.cols)-1)+cw
		out = append(out, segment{l, y0, r, y0}, segment{l, y0 + gridH, r, y0 + gridH},
			segment{l, y0, l, y0 + gridH}, segment{r, y0, r, y0 + gridH})
	}
	return out
}

// caption writes lines above the picture, the first one bold, wrapped to the
// width, and returns where the picture may begin.
func (s *scene) caption(lines []string, y int) int {
	for i, line := range lines {
		size, color := capSize, ink
		if i > 0 {
			size, color = topSize, muted
		}
		for _, part := range wrap(line, int(float64(s.w-2*pad)/(glyph*size))) {
			y += int(size) + 4
			s.add(texts{y: y - 4, size: size, color: color, anchor: start, bold: i == 0, words: []word{{pad, part}}})
		}
	}
	return y + 8
}

// wrap breaks a line that is longer than n characters before a dot of a chain if
// there is one, else at a space.
func wrap(line string, n int) []string {
	n = max(n, 12)
	var out []string
	for len([]rune(line)) > n {
		r := []rune(line)
		cut := n
		for i := n; i > n/3; i-- {
			if r[i] == '.' && i+1 < len(r) && r[i+1] != ' ' {
				cut = i
				break
			}
			if r[i] == ' ' && cut == n {
				cut = i
			}
		}
		out = append(out, strings.TrimRight(string(r[:cut]), " "))
		line = strings.TrimLeft(string(r[cut:]), " ")
	}
	return append(out, line)
}

// tiles chooses how many elements one cell stands for in each direction, powers
// of two, so that there are at most maxCells cells.
func tiles(rows, cols int) (fr, fc int) {
	fr, fc = 1, 1
	for ((rows+fr-1)/fr)*((cols+fc-1)/fc) > maxCells {
		if (rows+fr-1)/fr >= (cols+fc-1)/fc {
			fr *= 2
		} else {
			fc *= 2
		}
	}
	return fr, fc
}
