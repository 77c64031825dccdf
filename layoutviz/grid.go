package layoutviz

import (
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// table is a rectangle of equal cells with numbers along it: what most views
// consist of. Rows and columns are cells after coarsening.
type table struct {
	prefix     string // of the IDs, where a picture has several tables
	name       string // heading of its grid where a picture has several
	heading    string // in bold, above the upper left of the cells
	rowAxis    string // what the rows count
	colAxis    string
	rows, cols int
	rowHead    func(r int) string
	colHead    func(c int) string
	gapCols    int // a wider gap after this many columns; 0 for none
	// beside is the number of a row in a later block of columns, where blocks have
	// numbers of their own; nil where those on the left are for all.
	beside   func(block, r int) string
	twoLines bool
	longest  string // the longest text of any cell
	cell     func(r, c int) cell
	labelled bool
	linked   bool
	small    bool // as small as the texts allow
}

// cell is one square of a table. Several fills are shown side by side.
type cell struct {
	fills       []string
	top, bottom string
	id, label   string
	keys        []int
	thread      int
	slot        int
	at          []int
	also        []layout.Holder // further threads that hold the same
	mark        string          // colour of a thick outline, or empty
}

const (
	gapWidth = 14
	maxShown = 4  // fills shown in one cell
	headRoom = 32 // above the cells, for axis names and numbers
)

// extent is the size of the parts of a table.
type extent struct {
	cw, ch       int // a cell
	left         int // what stands left of the cells
	gap          int
	cells, cellH int // all cells
	w, h         int // all of it
}

func (t table) extent() extent {
	var e extent
	e.cw, e.ch = 8, 8
	wide, tall, double := 30, 22, 30
	if t.small {
		wide, tall, double = 16, 17, 26
	}
	switch {
	case t.labelled && t.twoLines:
		e.cw, e.ch = max(wide, scene.Width(t.longest, topSize)+8), double
	case t.labelled:
		e.cw, e.ch = max(wide+4, scene.Width(t.longest, topSize)+8), tall
	case t.rows*t.cols > maxLabelled:
		e.cw, e.ch = 6, 6
	}
	head := 0
	for r := range t.rows {
		head = max(head, scene.Width(t.rowHead(r), headSize))
	}
	e.left = max(head+8, scene.Width(t.rowAxis+" ↓", headSize)+6)
	if t.rowAxis == "" {
		e.left = head + 8
	}
	gaps := 0
	if t.gapCols > 0 {
		e.gap, gaps = gapWidth, (t.cols-1)/t.gapCols
	}
	if t.beside != nil {
		e.gap = 0
		for b := 1; b <= gaps; b++ {
			e.gap = max(e.gap, scene.Width(t.beside(b, 0), headSize)+18)
		}
	}
	e.cells, e.cellH = t.cols*e.cw+gaps*e.gap, t.rows*e.ch
	e.w, e.h = e.left+e.cells, headRoom+e.cellH
	e.w = max(e.w, t.axisX(e)+scene.Width(t.colAxis+" →", headSize))
	return e
}

// axisX is where the name of the columns begins: above the cells, or after the
// heading.
func (t table) axisX(e extent) int {
	if t.heading == "" {
		return e.left
	}
	return max(e.left, scene.Width(t.heading, capSize)+10)
}

// x is where a column begins, from the left of the cells.
func (t table) x(e extent, col int) int {
	x := col * e.cw
	if t.gapCols > 0 {
		x += col / t.gapCols * e.gap
	}
	return x
}

// draw is a picture of one table.
func (t table) draw(o Options, title, desc string, caption []string) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	e := t.extent()
	c.w = pad + e.w + pad
	y := pad
	if !o.NoCaption {
		c.grow(caption)
		y = c.caption(caption, y)
	}
	t.place(c, pad, y)
	c.h = y + e.h + pad
	return c.picture(title, desc), nil
}

// place puts the table on a canvas, with its upper left corner at (x, y).
func (t table) place(c *canvas, x, y int) {
	e := t.extent()
	cw, ch := e.cw, e.ch
	x0, y0 := x+e.left, y+headRoom

	// Axis names, then the numbers, thinned out so that they keep apart.
	axis := func(s, arrow string) string {
		if s == "" {
			return ""
		}
		return s + arrow
	}
	c.text(x, y+10, capSize, c.ink, scene.Start, true, t.heading)
	c.text(x+t.axisX(e), y+10, headSize, c.muted, scene.Start, false, axis(t.colAxis, " →"))
	c.text(x0-6, y+25, headSize, c.muted, scene.End, false, axis(t.rowAxis, " ↓"))
	wide := 0
	for i := range t.cols {
		wide = max(wide, scene.Width(t.colHead(i), headSize))
	}
	for i := 0; i < t.cols; i += thin(wide+4, cw) {
		c.text(x0+t.x(e, i)+cw/2, y+25, headSize, c.muted, scene.Middle, false, t.colHead(i))
	}
	blocks, per := t.blocks()
	for r := 0; r < t.rows; r += thin(13, ch) {
		c.text(x0-6, y0+r*ch+ch/2+4, headSize, c.muted, scene.End, false, t.rowHead(r))
		for b := 1; t.beside != nil && b < blocks; b++ {
			c.text(x0+t.x(e, b*per)-6, y0+r*ch+ch/2+4, headSize, c.muted, scene.End, false, t.beside(b, r))
		}
	}

	grid := Grid{Title: t.name, Head: []string{strings.TrimSpace(t.rowAxis)}}
	for i := range t.cols {
		grid.Head = append(grid.Head, t.colHead(i))
	}
	if t.linked {
		c.ids = slices.Grow(c.ids, t.rows*t.cols)
	}
	for r := range t.rows {
		row := make([]string, 0, t.cols+1)
		row = append(row, t.rowHead(r))
		for i := range t.cols {
			v := t.cell(r, i)
			bx, by := x0+t.x(e, i), y0+r*ch
			n := min(len(v.fills), maxShown, cw/3)
			color := c.ink
			for k := range n {
				c.fill(v.fills[k], bx+k*cw/n, by, (k+1)*cw/n-k*cw/n, ch)
				if k == 0 {
					color = c.inkOn(v.fills[0])
				}
			}
			if t.labelled && n > 1 && c.needsPlate(v.fills[:n]) {
				w := max(scene.Width(v.top, topSize), scene.Width(v.bottom, subSize)) + 2
				c.plates = append(c.plates, scene.Box{X: bx + (cw-w)/2, Y: by + 3, W: w, H: ch - 6})
				color = c.inkOn(c.paper)
			}
			if v.mark != "" {
				c.mark(v.mark, bx+1, by+1, cw-2, ch-2)
			}
			if t.labelled {
				if t.twoLines && v.bottom != "" {
					c.text(bx+cw/2, by+ch/2-1, topSize, color, scene.Middle, false, v.top)
					c.text(bx+cw/2, by+ch/2+10, subSize, color, scene.Middle, false, v.bottom)
				} else {
					c.text(bx+cw/2, by+ch/2+4, topSize, color, scene.Middle, false, v.top)
				}
				s := v.top
				if v.bottom != "" {
					s += "/" + v.bottom
				}
				row = append(row, s)
			}
			if t.linked {
				id := v.id
				if id != "" {
					id = t.prefix + id
				}
				c.ids = append(c.ids, Element{ID: id, Label: v.label, X: bx, Y: by, W: cw, H: ch, Keys: v.keys,
					Thread: v.thread, Slot: v.slot, At: v.at, Also: v.also})
			}
		}
		grid.Rows = append(grid.Rows, row)
	}
	if t.labelled {
		c.grids = append(c.grids, grid)
	}
	for b := range blocks {
		first, last := b*per, min((b+1)*per, t.cols)-1
		l, right := x0+t.x(e, first), x0+t.x(e, last)+cw
		if cw >= 8 {
			for r := 1; r < t.rows; r++ {
				c.hair(l, y0+r*ch, right, y0+r*ch)
			}
			for i := first + 1; i <= last; i++ {
				c.hair(x0+t.x(e, i), y0, x0+t.x(e, i), y0+e.cellH)
			}
		}
		c.frame(l, y0, right-l, e.cellH)
	}
}

// needsPlate reports whether a text over these fills cannot have one ink with
// enough contrast on all of them.
func (k look) needsPlate(fills []string) bool {
	for _, f := range fills {
		if k.inkOn(f) != k.inkOn(fills[0]) {
			return true
		}
	}
	return false
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
