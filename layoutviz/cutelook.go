package layoutviz

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/cuteprint"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// letter names an operand in a picture; the one tile of a layout has none.
func letter(b cuteprint.Block) string {
	if len(b.Name) == 1 {
		return b.Name
	}
	return ""
}

// CuteLayout draws an offset layout as CuTe's print_latex does.
func CuteLayout(text string, rows, cols int, at func(m, n int) int, o Options) (Picture, error) {
	if rows*cols > maxLinked {
		return Picture{}, fmt.Errorf("layoutviz: %s has %d cells; the most is %d", text, rows*cols, maxLinked)
	}
	tex, err := cuteprint.LayoutTeX(text, rows, cols, at)
	if err != nil {
		return Picture{}, err
	}
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	longest := 0
	for m := range rows {
		for n := range cols {
			longest = max(longest, scene.Width(fmt.Sprint(at(m, n)), topSize))
		}
	}
	side := max(30, longest+8)
	c.w = (cols+1)*side + 2*pad
	y := pad
	if !o.NoCaption {
		caption := []string{text, fmt.Sprintf("%d×%d, each cell with its offset, as CuTe's print_latex", rows, cols)}
		c.grow(caption)
		y = c.caption(caption, y)
	}
	g := Grid{Head: cuteHead(cols)}
	for m := range rows {
		row := []string{fmt.Sprint(m)}
		for n := range cols {
			v := at(m, n)
			fill := c.tone(scene.Mix("#ffffff", "#000000", cuteprint.Greys[((v%8)+8)%8]))
			x, top := pad+(n+1)*side, y+(m+1)*side
			c.fill(fill, x, top, side, side)
			c.hairBox(x, top, side)
			c.text(x+side/2, top+side/2+4, topSize, c.inkOn(fill), scene.Middle, false, fmt.Sprint(v))
			c.ids = append(c.ids, Element{ID: fmt.Sprintf("e%d.%d", m, n), Label: fmt.Sprintf("(%d, %d) has offset %d", m, n, v),
				X: x, Y: top, W: side, H: side, Keys: []int{v}, Slot: v, At: []int{m, n}})
			row = append(row, fmt.Sprint(v))
		}
		g.Rows = append(g.Rows, row)
		c.text(pad+side/2, y+(m+1)*side+side/2+4, capSize, c.ink, scene.Middle, false, fmt.Sprint(m))
	}
	for n := range cols {
		c.text(pad+(n+1)*side+side/2, y+side/2+4, capSize, c.ink, scene.Middle, false, fmt.Sprint(n))
	}
	c.frame(pad+side, y+side, cols*side, rows*side)
	c.h = y + (rows+1)*side + pad
	c.grids = []Grid{g}
	p := c.picture("CuTe layout "+text, fmt.Sprintf("%s: %d rows, %d columns; each cell shows its offset, on a grey that repeats every eight.", text, rows, cols))
	p.tex = tex
	return p, nil
}

func cuteHead(cols int) []string {
	head := []string{""}
	for n := range cols {
		head = append(head, fmt.Sprint(n))
	}
	return head
}

// hairBox draws the lines of a cell towards its neighbours.
func (c *canvas) hairBox(x, y, side int) {
	c.hair(x, y+side, x+side, y+side)
	c.hair(x+side, y, x+side, y+side)
}

// CuteThreads draws a thread-value layout of a tile as CuTe's print_latex_tv does.
func CuteThreads(l cuteprint.TV, rows, cols int, o Options) (Picture, error) {
	tex, err := cuteprint.TVTeX(l, rows, cols)
	if err != nil {
		return Picture{}, err
	}
	cells, hidden, err := l.Cells(rows, cols)
	if err != nil {
		return Picture{}, err
	}
	return cutePicture(o, "CuTe thread-value layout "+l.Text,
		[]string{l.Text, fmt.Sprintf("%d×%d, thread over value, colour thread mod 8, as CuTe's print_latex_tv", rows, cols)}, tex,
		[]cuteprint.Block{{Name: "tile", TV: l, Rows: rows, Cols: cols, Cells: cells, Hidden: hidden}})
}

// CuteCopy draws source and destination of a copy side by side.
func CuteCopy(s, d cuteprint.TV, rows, cols int, o Options) (Picture, error) {
	tex, err := cuteprint.CopyTeX(s, d, rows, cols)
	if err != nil {
		return Picture{}, err
	}
	var blocks []cuteprint.Block
	for i, l := range []cuteprint.TV{s, d} {
		cells, hidden, err := l.Cells(rows, cols)
		if err != nil {
			return Picture{}, err
		}
		blocks = append(blocks, cuteprint.Block{Name: []string{"source", "destination"}[i], TV: l, Rows: rows, Cols: cols, Left: i * (cols + 3), Cells: cells, Hidden: hidden})
	}
	return cutePicture(o, "CuTe copy", []string{"source and destination of a copy", "left, what is read: " + s.Text, "right, what is written: " + d.Text}, tex, blocks)
}

// CuteMMA draws a matrix instruction in CuTe's arrangement: A at the bottom left,
// B at the top right, C at the bottom right, so that a row of A and a column of B
// meet in the element of C that they make.
func CuteMMA(name string, ops cuteprint.Operands, o Options) (Picture, error) {
	tex, err := cuteprint.MMATeX(ops)
	if err != nil {
		return Picture{}, err
	}
	blocks, err := ops.Blocks()
	if err != nil {
		return Picture{}, err
	}
	return cutePicture(o, name+" in CuTe's look",
		[]string{name, fmt.Sprintf("%d×%d×%d: A left, B above, C; thread over value, colour thread mod 8", ops.M, ops.N, ops.K)}, tex, blocks)
}

// cutePicture draws blocks of cells on one grid, in CuTe's colours.
func cutePicture(o Options, title string, caption []string, tex string, blocks []cuteprint.Block) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	top, left, bottom, right, n := 0, 0, 0, 0, 0
	for _, b := range blocks {
		top, left, bottom, right = min(top, b.Top), min(left, b.Left), max(bottom, b.Top+b.Rows), max(right, b.Left+b.Cols)
		n += len(b.Cells)
	}
	if n > maxLinked {
		return Picture{}, fmt.Errorf("layoutviz: %d cells in CuTe's look; the most is %d", n, maxLinked)
	}
	const side = 24
	c.w = (right-left+1)*side + 2*pad
	y := pad
	desc := strings.Join(caption, "; ") + "."
	if !o.NoCaption {
		c.grow(caption)
		y = c.caption(caption, y)
	}
	hidden := 0
	for _, b := range blocks {
		hidden += b.Hidden
		base := int((letter(b) + " ")[0]) * keyStep // source and destination are one tile
		x0, y0 := pad+(b.Left-left+1)*side, y+(b.Top-top+1)*side
		g := Grid{Title: b.Name, Head: cuteHead(b.Cols), Rows: make([][]string, b.Rows)}
		for r := range g.Rows {
			g.Rows[r] = make([]string, b.Cols+1)
			g.Rows[r][0] = fmt.Sprint(r)
		}
		for _, e := range b.Cells {
			fill := c.tone(cuteprint.Hex(cuteprint.Pastels[e.Thread%8]))
			x, y := x0+e.Col*side, y0+e.Row*side
			c.fill(fill, x, y, side, side)
			c.hairBox(x, y, side)
			c.text(x+side/2, y+side/2-2, subSize, c.inkOn(fill), scene.Middle, false, fmt.Sprint("T", e.Thread))
			c.text(x+side/2, y+side-3, subSize, c.inkOn(fill), scene.Middle, false, fmt.Sprint("V", e.Value))
			c.ids = append(c.ids, Element{ID: fmt.Sprintf("%s%d.%d", b.Name, e.Row, e.Col), X: x, Y: y, W: side, H: side,
				Label: fmt.Sprintf("%s (%d, %d) is held by thread %d as value %d", b.Name, e.Row, e.Col, e.Thread, e.Value),
				Keys:  []int{base + e.Row*b.Cols + e.Col}, Thread: e.Thread, Slot: e.Value, At: []int{e.Row, e.Col}})
			g.Rows[e.Row][e.Col+1] = fmt.Sprintf("T%d/V%d", e.Thread, e.Value)
		}
		c.frame(x0, y0, b.Cols*side, b.Rows*side)
		if b.Name != "C" {
			side1 := x0 - 5
			if b.Name == "destination" {
				side1 = x0 + b.Cols*side + 5 + scene.Width(fmt.Sprint(b.Rows-1), headSize)
			}
			for r := range b.Rows {
				c.text(side1, y0+r*side+side/2+4, headSize, c.muted, scene.End, false, fmt.Sprint(r))
			}
			for i := range b.Cols {
				c.text(x0+i*side+side/2, y0-6, headSize, c.muted, scene.Middle, false, fmt.Sprint(i))
			}
		}
		c.text(x0-side/2, y0-6, capSize, c.ink, scene.Middle, true, letter(b))
		c.grids = append(c.grids, g)
	}
	c.h = y + (bottom-top+1)*side + pad
	if hidden > 0 {
		note := fmt.Sprintf("As in CuTe the first of several holders is shown; %d more are not.", hidden)
		desc += " " + note
		if !o.NoCaption {
			c.h = c.notes(c.h, note)
		}
	}
	p := c.picture(title, desc)
	p.tex = tex
	return p, nil
}
