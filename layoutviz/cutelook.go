package layoutviz

import (
	"bytes"
	"fmt"
	"strings"

	svg "github.com/ajstarks/svgo"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The look of CuTe's print_latex and print_svg, so that our pictures and CuTe's can
// be laid side by side. The documents are those of CuTe to the byte (comments of
// SVG files aside), the pictures have the same cells in the same places.
//
// Source: NVIDIA/cutlass, include/cute/util/print_latex.hpp and print_svg.hpp.

// TV is a thread-value layout of a tile: where the values of each thread lie.
// Text is its print in CuTe's notation, for the comments of documents.
type TV struct {
	Threads int
	Values  int
	At      func(thread, value int) (row, col int)
	Text    string
}

// TVOf is a register layout of rank 2 as thread-value layout.
func TVOf(l layout.Layout) (TV, error) {
	if l.Rank() != 2 {
		return TV{}, fmt.Errorf("layoutviz: %s has rank %d; a tile has 2", l, l.Rank())
	}
	return TV{l.Threads(), l.Slots(), func(t, v int) (int, int) {
		at := l.Index(t, v)
		return at[0], at[1]
	}, l.String()}, nil
}

// Transposed is the layout of the transposed tile: CuTe speaks of B as [N, K].
func (l TV) Transposed() TV {
	at := l.At
	l.At = func(t, v int) (int, int) {
		row, col := at(t, v)
		return col, row
	}
	return l
}

// tvCell is one cell of a drawn tile.
type tvCell struct{ row, col, thread, value int }

// maxCute bounds what the CuTe look draws: every cell is a node or element.
const maxCute = 1 << 18

// cells are those of the tile in the order of threads and values. As in CuTe the
// first that lands on a cell is shown; the others are returned as a count.
func (l TV) cells(rows, cols int) (list []tvCell, hidden int, err error) {
	if l.Threads*l.Values > maxCute || rows*cols > maxCute {
		return nil, 0, fmt.Errorf("layoutviz: %d cells; the most is %d", max(l.Threads*l.Values, rows*cols), maxCute)
	}
	filled := make([]bool, rows*cols)
	for t := range l.Threads {
		for v := range l.Values {
			r, c := l.At(t, v)
			if r < 0 || c < 0 || r >= rows || c >= cols {
				return nil, 0, fmt.Errorf("layoutviz: thread %d value %d lies at (%d, %d), outside the tile of %d×%d", t, v, r, c, rows, cols)
			}
			if filled[r*cols+c] {
				hidden++
				continue
			}
			filled[r*cols+c] = true
			list = append(list, tvCell{r, c, t, v})
		}
	}
	return list, hidden, nil
}

// cutePastels are CuTe's eight colours of threads as r, g, b.
var cutePastels = [8][3]int{{175, 175, 255}, {175, 255, 175}, {255, 255, 175}, {255, 175, 175},
	{210, 210, 255}, {210, 255, 210}, {255, 255, 210}, {255, 210, 210}}

// cuteGreys are CuTe's eight greys of offsets in LaTeX, percent of black.
var cuteGreys = [8]int{0, 40, 20, 60, 10, 50, 30, 70}

func hex(c [3]int) string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

// texPage is a document in the making.
type texPage struct{ strings.Builder }

func newTeXPage(comments ...string) *texPage {
	var b texPage
	for _, c := range comments {
		fmt.Fprintf(&b, "%% %s\n", c)
	}
	b.WriteString("\\documentclass[convert]{standalone}\n\\usepackage{tikz}\n\n\\begin{document}\n" +
		"\\begin{tikzpicture}[x={(0cm,-1cm)},y={(1cm,0cm)},every node/.style={minimum size=1cm, outer sep=0pt}]\n\n")
	return &b
}

func (b *texPage) grid(top, left, bottom, right int) {
	fmt.Fprintf(b, "\\draw[color=black,thick,shift={(-0.5,-0.5)}] (%d,%d) grid (%d,%d);\n\n", top, left, bottom, right)
}

func (b *texPage) number(row, col, n int) {
	fmt.Fprintf(b, "\\node at (%d,%d) {\\Large{\\texttt{%d}}};\n", row, col, n)
}

// tile writes cells of a thread-value layout with its upper left at (top, left).
func (b *texPage) tile(cells []tvCell, top, left int) {
	for _, c := range cells {
		p := cutePastels[c.thread%8]
		fmt.Fprintf(b, "\\node[fill={rgb,255:red,%d;green,%d;blue,%d}] at (%d,%d) {\\shortstack{T%d \\\\ V%d}};\n",
			p[0], p[1], p[2], top+c.row, left+c.col, c.thread, c.value)
	}
}

func (b *texPage) end() string {
	b.WriteString("\\end{tikzpicture}\n\\end{document}\n")
	return b.String()
}

// CuteLayoutTeX is CuTe's print_latex of an offset layout of rows and columns:
// the cell (m, n) shows its offset on a grey that repeats every eight. Text is the
// layout in CuTe's notation.
func CuteLayoutTeX(text string, rows, cols int, at func(m, n int) int) (string, error) {
	if rows*cols > maxCute {
		return "", fmt.Errorf("layoutviz: %d cells; the most is %d", rows*cols, maxCute)
	}
	b := newTeXPage("Layout: " + text)
	for m := range rows {
		for n := range cols {
			v := at(m, n)
			fmt.Fprintf(b, "\\node[fill=black!%02d] at (%d,%d) {%d};\n", cuteGreys[((v%8)+8)%8], m, n, v)
		}
	}
	b.grid(0, 0, rows, cols)
	for m := range rows {
		b.number(m, -1, m)
	}
	for n := range cols {
		b.number(-1, n, n)
	}
	return b.end(), nil
}

// CuteTVTeX is CuTe's print_latex_tv of one thread-value layout.
func CuteTVTeX(l TV, rows, cols int) (string, error) {
	cells, _, err := l.cells(rows, cols)
	if err != nil {
		return "", err
	}
	b := newTeXPage("Layout TV: " + l.Text)
	b.tile(cells, 0, 0)
	b.grid(0, 0, rows, cols)
	for m := range rows {
		b.number(m, -1, m)
	}
	for n := range cols {
		b.number(-1, n, n)
	}
	return b.end(), nil
}

// CuteCopyTeX is CuTe's print_latex of a copy: source and destination of a tile
// side by side.
func CuteCopyTeX(s, d TV, rows, cols int) (string, error) {
	b := newTeXPage("Layout S TV: "+s.Text, "Layout D TV: "+d.Text)
	for i, l := range []TV{s, d} {
		cells, _, err := l.cells(rows, cols)
		if err != nil {
			return "", err
		}
		// Row numbers stand left of the source and right of the destination.
		left, numbers := i*(cols+3), -1
		if i == 1 {
			numbers = left + cols
		}
		b.tile(cells, 0, left)
		b.grid(0, left, rows, left+cols)
		for m := range rows {
			b.number(m, numbers, m)
		}
		for n := range cols {
			b.number(-1, left+n, n)
		}
	}
	return b.end(), nil
}

// CuteOperands are the thread-value layouts of a matrix instruction of M×N×K as
// CuTe has them: A is [M, K], B is [N, K], C is [M, N].
type CuteOperands struct {
	M, N, K int
	A, B, C TV
}

// blocks are the operands in the order of CuTe's documents, with the upper left of
// each in cells from the upper left of C, and whether columns are along k.
func (o CuteOperands) blocks() ([]cuteBlock, error) {
	out := []cuteBlock{
		{name: "C", tv: o.C, rows: o.M, cols: o.N},
		{name: "A", tv: o.A, rows: o.M, cols: o.K, left: -o.K - 1},
		{name: "B", tv: o.B.Transposed(), rows: o.K, cols: o.N, top: -o.K - 1},
	}
	for i := range out {
		b := &out[i]
		var err error
		if b.cells, b.hidden, err = b.tv.cells(b.rows, b.cols); err != nil {
			return nil, fmt.Errorf("%w of %s", err, b.name)
		}
	}
	return out, nil
}

type cuteBlock struct {
	name       string
	tv         TV
	rows, cols int
	top, left  int
	cells      []tvCell
	hidden     int
}

// letter names an operand in a picture; the one tile of a layout has none.
func (b cuteBlock) letter() string {
	if len(b.name) == 1 {
		return b.name
	}
	return ""
}

// CuteMMATeX is CuTe's print_latex of a matrix instruction: C, A to its left and B
// above it.
func CuteMMATeX(o CuteOperands) (string, error) {
	blocks, err := o.blocks()
	if err != nil {
		return "", err
	}
	b := newTeXPage("LayoutC: "+o.C.Text, "LayoutA: "+o.A.Text, "LayoutB: "+o.B.Text)
	for _, x := range blocks {
		b.tile(x.cells, x.top, x.left)
		b.grid(x.top, x.left, x.top+x.rows, x.left+x.cols)
		switch x.name {
		case "A":
			for m := range o.M {
				b.number(m, x.left-1, m)
			}
			for k := range o.K {
				b.number(-1, x.left+k, k)
			}
		case "B":
			for n := range o.N {
				b.number(x.top-1, n, n)
			}
			for k := range o.K {
				b.number(x.top+k, -1, k)
			}
		}
	}
	return b.end(), nil
}

// cuteCell is the side of a cell in print_svg, in pixels.
const cuteCell = 20

// CuteMMASVG is CuTe's print_svg of a matrix instruction without its comments.
func CuteMMASVG(o CuteOperands) ([]byte, error) {
	blocks, err := o.blocks()
	if err != nil {
		return nil, err
	}
	// svgo writes a blank before the end of a tag, CuTe only in some places.
	var out, buf bytes.Buffer
	c := svg.New(&buf)
	flush := func(old, new string) {
		out.WriteString(strings.ReplaceAll(buf.String(), old, new))
		buf.Reset()
	}
	fmt.Fprintf(&out, "<svg width=\"100%%\" height=\"100%%\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"xMidYMid meet\" xmlns=\"http://www.w3.org/2000/svg\">\n",
		(o.K+o.N+2)*cuteCell, (o.K+o.M+2)*cuteCell)
	write := func(x, y, size int, s string) {
		c.Text(x, y, s, `text-anchor="middle"`, `alignment-baseline="central"`, fmt.Sprintf(`font-size="%d"`, size))
		flush(" >", ">")
	}
	for _, b := range blocks {
		x0, y0 := (b.left+o.K+2)*cuteCell, (b.top+o.K+2)*cuteCell
		for _, e := range b.cells {
			x, y := x0+e.col*cuteCell, y0+e.row*cuteCell
			p := cutePastels[e.thread%8]
			c.Rect(x, y, cuteCell, cuteCell, fmt.Sprintf(`fill="rgb(%d,%d,%d)"`, p[0], p[1], p[2]), `stroke="black"`)
			if b.name == "C" {
				flush(" />", "/>")
			}
			flush(" />", " />")
			write(x+cuteCell/2, y+cuteCell/4, 8, fmt.Sprint("T", e.thread))
			write(x+cuteCell/2, y+3*cuteCell/4, 8, fmt.Sprint("V", e.value))
		}
		number := func(row, col, n int) {
			write(x0+col*cuteCell+cuteCell/2, y0+row*cuteCell+cuteCell/2, 12, fmt.Sprint(n))
		}
		switch b.name {
		case "A":
			for m := range o.M {
				number(m, -1, m)
			}
			for k := range o.K {
				number(-1, k, k)
			}
		case "B":
			for n := range o.N {
				number(-1, n, n)
			}
			for k := range o.K {
				number(k, -1, k)
			}
		}
	}
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

// CuteLayout draws an offset layout as CuTe's print_latex does.
func CuteLayout(text string, rows, cols int, at func(m, n int) int, o Options) (Picture, error) {
	tex, err := CuteLayoutTeX(text, rows, cols, at)
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
			fill := c.tone(mix("#ffffff", "#000000", cuteGreys[((v%8)+8)%8]))
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
func CuteThreads(l TV, rows, cols int, o Options) (Picture, error) {
	tex, err := CuteTVTeX(l, rows, cols)
	if err != nil {
		return Picture{}, err
	}
	cells, hidden, err := l.cells(rows, cols)
	if err != nil {
		return Picture{}, err
	}
	return cutePicture(o, "CuTe thread-value layout "+l.Text,
		[]string{l.Text, fmt.Sprintf("%d×%d, thread over value, colour thread mod 8, as CuTe's print_latex_tv", rows, cols)}, tex,
		[]cuteBlock{{name: "tile", tv: l, rows: rows, cols: cols, cells: cells, hidden: hidden}})
}

// CuteCopy draws source and destination of a copy side by side.
func CuteCopy(s, d TV, rows, cols int, o Options) (Picture, error) {
	tex, err := CuteCopyTeX(s, d, rows, cols)
	if err != nil {
		return Picture{}, err
	}
	var blocks []cuteBlock
	for i, l := range []TV{s, d} {
		cells, hidden, err := l.cells(rows, cols)
		if err != nil {
			return Picture{}, err
		}
		blocks = append(blocks, cuteBlock{name: []string{"source", "destination"}[i], tv: l, rows: rows, cols: cols, left: i * (cols + 3), cells: cells, hidden: hidden})
	}
	return cutePicture(o, "CuTe copy", []string{"source and destination of a copy", s.Text, d.Text}, tex, blocks)
}

// CuteMMA draws a matrix instruction in CuTe's arrangement: A at the bottom left,
// B at the top right, C at the bottom right, so that a row of A and a column of B
// meet in the element of C that they make.
func CuteMMA(name string, ops CuteOperands, o Options) (Picture, error) {
	tex, err := CuteMMATeX(ops)
	if err != nil {
		return Picture{}, err
	}
	blocks, err := ops.blocks()
	if err != nil {
		return Picture{}, err
	}
	return cutePicture(o, name+" in CuTe's look",
		[]string{name, fmt.Sprintf("%d×%d×%d: A left, B above, C; thread over value, colour thread mod 8", ops.M, ops.N, ops.K)}, tex, blocks)
}

// cutePicture draws blocks of cells on one grid, in CuTe's colours.
func cutePicture(o Options, title string, caption []string, tex string, blocks []cuteBlock) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	top, left, bottom, right, n := 0, 0, 0, 0, 0
	for _, b := range blocks {
		top, left, bottom, right = min(top, b.top), min(left, b.left), max(bottom, b.top+b.rows), max(right, b.left+b.cols)
		n += len(b.cells)
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
		hidden += b.hidden
		x0, y0 := pad+(b.left-left+1)*side, y+(b.top-top+1)*side
		g := Grid{Title: b.name, Head: cuteHead(b.cols), Rows: make([][]string, b.rows)}
		for r := range g.Rows {
			g.Rows[r] = make([]string, b.cols+1)
			g.Rows[r][0] = fmt.Sprint(r)
		}
		for _, e := range b.cells {
			fill := c.tone(hex(cutePastels[e.thread%8]))
			x, y := x0+e.col*side, y0+e.row*side
			c.fill(fill, x, y, side, side)
			c.hairBox(x, y, side)
			c.text(x+side/2, y+side/2-2, subSize, c.inkOn(fill), scene.Middle, false, fmt.Sprint("T", e.thread))
			c.text(x+side/2, y+side-3, subSize, c.inkOn(fill), scene.Middle, false, fmt.Sprint("V", e.value))
			c.ids = append(c.ids, Element{ID: fmt.Sprintf("%s%d.%d", b.name, e.row, e.col), X: x, Y: y, W: side, H: side,
				Label: fmt.Sprintf("%s (%d, %d) is held by thread %d as value %d", b.name, e.row, e.col, e.thread, e.value),
				Keys:  []int{e.thread<<16 | e.value}, Thread: e.thread, Slot: e.value, At: []int{e.row, e.col}})
			g.Rows[e.row][e.col+1] = fmt.Sprintf("T%d/V%d", e.thread, e.value)
		}
		c.frame(x0, y0, b.cols*side, b.rows*side)
		if b.name != "C" {
			side1 := x0 - 5
			if b.name == "destination" {
				side1 = x0 + b.cols*side + 5 + scene.Width(fmt.Sprint(b.rows-1), headSize)
			}
			for r := range b.rows {
				c.text(side1, y0+r*side+side/2+4, headSize, c.muted, scene.End, false, fmt.Sprint(r))
			}
			for i := range b.cols {
				c.text(x0+i*side+side/2, y0-6, headSize, c.muted, scene.Middle, false, fmt.Sprint(i))
			}
		}
		c.text(x0-side/2, y0-6, capSize, c.ink, scene.Middle, true, b.letter())
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
