// Package cuteprint writes layouts as CuTe's print_latex and print_svg do, to the
// byte (comments of SVG files aside), so that our documents and CuTe's can be laid
// side by side. Package layoutviz draws the same cells as pictures of its own.
//
// Source: NVIDIA/cutlass, include/cute/util/print_latex.hpp and print_svg.hpp.
package cuteprint

import (
	"bytes"
	"fmt"
	"strings"

	svg "github.com/ajstarks/svgo"

	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

// TV is a thread-value layout of a tile: where the values of each thread lie.
// Text is its print in CuTe's notation, for the comments of documents.
type TV struct {
	Threads int
	Values  int
	At      func(thread, value int) (row, col int)
	Text    string
}

// RegisterTV is a register layout of rank 2 as thread-value layout.
func RegisterTV(l layout.Layout) (TV, error) {
	if l.Rank() != 2 {
		return TV{}, fmt.Errorf("cuteprint: %s has rank %d; a tile has 2", l, l.Rank())
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

// Cell is one cell of a drawn tile.
type Cell struct{ Row, Col, Thread, Value int }

// MaxCells bounds a document: every cell is a node or element of it.
const MaxCells = 1 << 18

// Cells are those of the tile in the order of threads and values. As in CuTe the
// first that lands on a cell is shown; the others are returned as a count.
func (l TV) Cells(rows, cols int) (list []Cell, hidden int, err error) {
	if l.Threads*l.Values > MaxCells || rows*cols > MaxCells {
		return nil, 0, fmt.Errorf("cuteprint: %d cells; the most is %d", max(l.Threads*l.Values, rows*cols), MaxCells)
	}
	filled := make([]bool, rows*cols)
	for t := range l.Threads {
		for v := range l.Values {
			r, c := l.At(t, v)
			if r < 0 || c < 0 || r >= rows || c >= cols {
				return nil, 0, fmt.Errorf("cuteprint: thread %d value %d lies at (%d, %d), outside the tile of %d×%d", t, v, r, c, rows, cols)
			}
			if filled[r*cols+c] {
				hidden++
				continue
			}
			filled[r*cols+c] = true
			list = append(list, Cell{r, c, t, v})
		}
	}
	return list, hidden, nil
}

// Pastels are CuTe's eight colours of threads as r, g, b.
var Pastels = [8][3]int{{175, 175, 255}, {175, 255, 175}, {255, 255, 175}, {255, 175, 175},
	{210, 210, 255}, {210, 255, 210}, {255, 255, 210}, {255, 210, 210}}

// Greys are CuTe's eight greys of offsets in LaTeX, percent of black.
var Greys = [8]int{0, 40, 20, 60, 10, 50, 30, 70}

// Hex is a colour as "#rrggbb".
func Hex(c [3]int) string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

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
func (b *texPage) tile(cells []Cell, top, left int) {
	for _, c := range cells {
		p := Pastels[c.Thread%8]
		fmt.Fprintf(b, "\\node[fill={rgb,255:red,%d;green,%d;blue,%d}] at (%d,%d) {\\shortstack{T%d \\\\ V%d}};\n",
			p[0], p[1], p[2], top+c.Row, left+c.Col, c.Thread, c.Value)
	}
}

func (b *texPage) end() string {
	b.WriteString("\\end{tikzpicture}\n\\end{document}\n")
	return b.String()
}

// LayoutTeX is CuTe's print_latex of an offset layout of rows and columns:
// the cell (m, n) shows its offset on a grey that repeats every eight. Text is the
// layout in CuTe's notation.
func LayoutTeX(text string, rows, cols int, at func(m, n int) int) (string, error) {
	if rows*cols > MaxCells {
		return "", fmt.Errorf("cuteprint: %d cells; the most is %d", rows*cols, MaxCells)
	}
	b := newTeXPage("Layout: " + text)
	for m := range rows {
		for n := range cols {
			v := at(m, n)
			fmt.Fprintf(b, "\\node[fill=black!%02d] at (%d,%d) {%d};\n", Greys[((v%8)+8)%8], m, n, v)
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

// TVTeX is CuTe's print_latex_tv of one thread-value layout.
func TVTeX(l TV, rows, cols int) (string, error) {
	cells, _, err := l.Cells(rows, cols)
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

// CopyTeX is CuTe's print_latex of a copy: source and destination of a tile
// side by side.
func CopyTeX(s, d TV, rows, cols int) (string, error) {
	b := newTeXPage("Layout S TV: "+s.Text, "Layout D TV: "+d.Text)
	for i, l := range []TV{s, d} {
		cells, _, err := l.Cells(rows, cols)
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

// Operands are the thread-value layouts of a matrix instruction of M×N×K as
// CuTe has them: A is [M, K], B is [N, K], C is [M, N].
type Operands struct {
	M, N, K int
	A, B, C TV
}

// Blocks are the operands in the order of CuTe's documents, with the upper left of
// each in cells from the upper left of C, and whether columns are along k.
func (o Operands) Blocks() ([]Block, error) {
	out := []Block{
		{Name: "C", TV: o.C, Rows: o.M, Cols: o.N},
		{Name: "A", TV: o.A, Rows: o.M, Cols: o.K, Left: -o.K - 1},
		{Name: "B", TV: o.B.Transposed(), Rows: o.K, Cols: o.N, Top: -o.K - 1},
	}
	for i := range out {
		b := &out[i]
		var err error
		if b.Cells, b.Hidden, err = b.TV.Cells(b.Rows, b.Cols); err != nil {
			return nil, fmt.Errorf("%w of %s", err, b.Name)
		}
	}
	return out, nil
}

// Block is one drawn tile, Top and Left in cells from the upper left of C. Hidden
// counts the places that are not drawn, because another shows the same element.
type Block struct {
	Name       string
	TV         TV
	Rows, Cols int
	Top, Left  int
	Cells      []Cell
	Hidden     int
}

// MMATeX is CuTe's print_latex of a matrix instruction: C, A to its left and B
// above it.
func MMATeX(o Operands) (string, error) {
	blocks, err := o.Blocks()
	if err != nil {
		return "", err
	}
	b := newTeXPage("LayoutC: "+o.C.Text, "LayoutA: "+o.A.Text, "LayoutB: "+o.B.Text)
	for _, x := range blocks {
		b.tile(x.Cells, x.Top, x.Left)
		b.grid(x.Top, x.Left, x.Top+x.Rows, x.Left+x.Cols)
		switch x.Name {
		case "A":
			for m := range o.M {
				b.number(m, x.Left-1, m)
			}
			for k := range o.K {
				b.number(-1, x.Left+k, k)
			}
		case "B":
			for n := range o.N {
				b.number(x.Top-1, n, n)
			}
			for k := range o.K {
				b.number(x.Top+k, -1, k)
			}
		}
	}
	return b.end(), nil
}

// side is the side of a cell in print_svg, in pixels.
const side = 20

// MMASVG is CuTe's print_svg of a matrix instruction without its comments.
func MMASVG(o Operands) ([]byte, error) {
	blocks, err := o.Blocks()
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
		(o.K+o.N+2)*side, (o.K+o.M+2)*side)
	write := func(x, y, size int, s string) {
		c.Text(x, y, s, `text-anchor="middle"`, `alignment-baseline="central"`, fmt.Sprintf(`font-size="%d"`, size))
		flush(" >", ">")
	}
	for _, b := range blocks {
		x0, y0 := (b.Left+o.K+2)*side, (b.Top+o.K+2)*side
		for _, e := range b.Cells {
			x, y := x0+e.Col*side, y0+e.Row*side
			p := Pastels[e.Thread%8]
			c.Rect(x, y, side, side, fmt.Sprintf(`fill="rgb(%d,%d,%d)"`, p[0], p[1], p[2]), `stroke="black"`)
			if b.Name == "C" {
				flush(" />", "/>")
			}
			flush(" />", " />")
			write(x+side/2, y+side/4, 8, fmt.Sprint("T", e.Thread))
			write(x+side/2, y+3*side/4, 8, fmt.Sprint("V", e.Value))
		}
		number := func(row, col, n int) {
			write(x0+col*side+side/2, y0+row*side+side/2, 12, fmt.Sprint(n))
		}
		switch b.Name {
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

// NewTV is a CuTe layout of (thread, value) into a column-major tile as a
// thread-value layout. Its text is that of CuTe, with coordinates for strides.
func NewTV(l cute.Layout, rows, cols int) (TV, error) {
	if l.Rank() != 2 {
		return TV{}, fmt.Errorf("cuteprint: %s has rank %d; a thread-value layout has 2", l, l.Rank())
	}
	id, err := cute.Identity(cute.Ints(rows, cols))
	if err != nil {
		return TV{}, err
	}
	coords, err := cute.Composition(id, l)
	if err != nil {
		return TV{}, err
	}
	threads, values := l.Mode(0).Size(), l.Mode(1).Size()
	return TV{Threads: threads, Values: values, Text: "ArithTuple(_0,_0) o " + coords.Static(), At: func(t, v int) (int, int) {
		i := l.At(t + threads*v)
		return i % rows, i / rows
	}}, nil
}

// OperandsOf are the operands of a tiled product, for CuteMMA and the documents.
func OperandsOf(m cute.TiledMMA) (Operands, error) {
	tile := m.Tile().Items()
	if len(tile) != 3 {
		return Operands{}, fmt.Errorf("cuteprint: the tile %s of a product has three modes", m.Tile())
	}
	ops := Operands{M: tile[0].Size(), N: tile[1].Size(), K: tile[2].Size()}
	for _, x := range []struct {
		name       string
		to         *TV
		rows, cols int
	}{{"A", &ops.A, ops.M, ops.K}, {"B", &ops.B, ops.N, ops.K}, {"C", &ops.C, ops.M, ops.N}} {
		l, err := m.LayoutTV(x.name)
		if err != nil {
			return ops, err
		}
		if *x.to, err = NewTV(l, x.rows, x.cols); err != nil {
			return ops, fmt.Errorf("operand %s: %w", x.name, err)
		}
	}
	return ops, nil
}

// CopySide is what a tiled copy reads ("S") or writes ("D") of one tile.
func CopySide(c cute.TiledCopy, side string) (TV, error) {
	id, err := cute.Identity(c.Tile)
	if err != nil {
		return TV{}, err
	}
	parts, err := c.Partition(id, side)
	if err != nil {
		return TV{}, err
	}
	if parts.Rank() < 2 {
		return TV{}, fmt.Errorf("cuteprint: the partition %s has no threads and values", parts)
	}
	l, err := cute.Join(parts.Mode(0), parts.Mode(1))
	if err != nil {
		return TV{}, err
	}
	threads, values := l.Mode(0).Size(), l.Mode(1).Size()
	if threads*values > MaxCells {
		return TV{}, fmt.Errorf("cuteprint: %d cells; the most is %d", threads*values, MaxCells)
	}
	at := make([][2]int, threads*values)
	for i := range at {
		v, err := l.Value(i)
		if err != nil {
			return TV{}, err
		}
		for k, x := range v.Items() {
			if k < 2 {
				at[i][k] = x.Int()
			}
		}
	}
	return TV{Threads: threads, Values: values, Text: "ArithTuple(_0,_0) o " + l.Static(), At: func(t, v int) (int, int) {
		p := at[t+threads*v]
		return p[0], p[1]
	}}, nil
}

// Sides are both sides of a copy of a tile of two modes, with its size.
func Sides(c cute.TiledCopy) (s, d TV, rows, cols int, err error) {
	tile := c.Tile.Items()
	if len(tile) != 2 {
		return s, d, 0, 0, fmt.Errorf("cuteprint: the tile %s of a copy has %d modes; the picture is of 2", c.Tile, len(tile))
	}
	if s, err = CopySide(c, "S"); err != nil {
		return s, d, 0, 0, err
	}
	d, err = CopySide(c, "D")
	return s, d, tile[0].Size(), tile[1].Size(), err
}

// TiledCopyTeX is CuTe's print_latex of a tiled copy.
func TiledCopyTeX(c cute.TiledCopy) (string, error) {
	s, d, rows, cols, err := Sides(c)
	if err != nil {
		return "", err
	}
	return CopyTeX(s, d, rows, cols)
}

// Grid is a layout as rows and columns: the first mode runs down, the others
// run right. A layout of one mode is a column, as in CuTe.
type Grid struct {
	Text       string // for people
	Static     string // as CuTe prints it in documents
	Rows, Cols int
	At         func(m, n int) int
}

func NewGrid(c cute.Composed) (Grid, error) {
	e, err := c.Elements()
	if err != nil {
		return Grid{}, err
	}
	g := Grid{Text: c.String(), Rows: e.Layout.Size(), Cols: 1}
	if e.Layout.Rank() < 2 {
		one, err := cute.New(cute.Int(1), cute.Int(0))
		if err != nil {
			return Grid{}, err
		}
		if e.Layout, err = cute.Join(e.Layout, one); err != nil {
			return Grid{}, err
		}
	}
	g.Static = e.Static()
	if e.Layout.Rank() > 1 {
		g.Rows = e.Layout.Mode(0).Size()
		g.Cols = e.Layout.Size() / max(1, g.Rows)
	}
	if e.Layout.Size() > MaxCells {
		return Grid{}, fmt.Errorf("cuteprint: %s has %d cells; the most is %d", c, e.Layout.Size(), MaxCells)
	}
	g.At = func(m, n int) int { return e.At(m + g.Rows*n) }
	return g, nil
}

// GridTeX is CuTe's print_latex of a layout of at most two modes.
func GridTeX(l cute.Composed) (string, error) {
	g, err := NewGrid(l)
	if err != nil {
		return "", err
	}
	if l.Layout.Rank() > 2 {
		return "", fmt.Errorf("cuteprint: %s has %d modes; CuTe prints at most 2", l, l.Layout.Rank())
	}
	return LayoutTeX(g.Static, g.Rows, g.Cols, g.At)
}
