package layoutviz

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

// CuteTV is a CuTe layout of (thread, value) into a column-major tile as a
// thread-value layout. Its text is that of CuTe, with coordinates for strides.
func CuteTV(l cute.Layout, rows, cols int) (TV, error) {
	if l.Rank() != 2 {
		return TV{}, fmt.Errorf("layoutviz: %s has rank %d; a thread-value layout has 2", l, l.Rank())
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

// CuteMMAOf are the operands of a tiled product, for CuteMMA and the documents.
func CuteMMAOf(m cute.TiledMMA) (CuteOperands, error) {
	tile := m.Tile().Items()
	if len(tile) != 3 {
		return CuteOperands{}, fmt.Errorf("layoutviz: the tile %s of a product has three modes", m.Tile())
	}
	ops := CuteOperands{M: tile[0].Size(), N: tile[1].Size(), K: tile[2].Size()}
	for _, x := range []struct {
		name       string
		to         *TV
		rows, cols int
	}{{"A", &ops.A, ops.M, ops.K}, {"B", &ops.B, ops.N, ops.K}, {"C", &ops.C, ops.M, ops.N}} {
		l, err := m.LayoutTV(x.name)
		if err != nil {
			return ops, err
		}
		if *x.to, err = CuteTV(l, x.rows, x.cols); err != nil {
			return ops, fmt.Errorf("operand %s: %w", x.name, err)
		}
	}
	return ops, nil
}

// CuteCopySide is what a tiled copy reads ("S") or writes ("D") of one tile.
func CuteCopySide(c cute.TiledCopy, side string) (TV, error) {
	id, err := cute.Identity(c.Tile)
	if err != nil {
		return TV{}, err
	}
	parts, err := c.Partition(id, side)
	if err != nil {
		return TV{}, err
	}
	if parts.Rank() < 2 {
		return TV{}, fmt.Errorf("layoutviz: the partition %s has no threads and values", parts)
	}
	l, err := cute.Join(parts.Mode(0), parts.Mode(1))
	if err != nil {
		return TV{}, err
	}
	threads, values := l.Mode(0).Size(), l.Mode(1).Size()
	if threads*values > maxCute {
		return TV{}, fmt.Errorf("layoutviz: %d cells; the most is %d", threads*values, maxCute)
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

// sides are both sides of a copy of a tile of two modes, with its size.
func sides(c cute.TiledCopy) (s, d TV, rows, cols int, err error) {
	tile := c.Tile.Items()
	if len(tile) != 2 {
		return s, d, 0, 0, fmt.Errorf("layoutviz: the tile %s of a copy has %d modes; the picture is of 2", c.Tile, len(tile))
	}
	if s, err = CuteCopySide(c, "S"); err != nil {
		return s, d, 0, 0, err
	}
	d, err = CuteCopySide(c, "D")
	return s, d, tile[0].Size(), tile[1].Size(), err
}

// CuteTiledCopyTeX is CuTe's print_latex of a tiled copy.
func CuteTiledCopyTeX(c cute.TiledCopy) (string, error) {
	s, d, rows, cols, err := sides(c)
	if err != nil {
		return "", err
	}
	return CuteCopyTeX(s, d, rows, cols)
}

// CuteTiledCopy draws a tiled copy as CuTe's print_latex does.
func CuteTiledCopy(c cute.TiledCopy, o Options) (Picture, error) {
	s, d, rows, cols, err := sides(c)
	if err != nil {
		return Picture{}, err
	}
	return CuteCopy(s, d, rows, cols, o)
}

// cuteGrid is a layout as rows and columns: the first mode runs down, the others
// run right. A layout of one mode is a column, as in CuTe.
type cuteGrid struct {
	text       string // for people
	static     string // as CuTe prints it in documents
	rows, cols int
	at         func(m, n int) int
}

func gridOf(c cute.Composed) (cuteGrid, error) {
	e, err := c.Elements()
	if err != nil {
		return cuteGrid{}, err
	}
	g := cuteGrid{text: c.String(), rows: e.Layout.Size(), cols: 1}
	if e.Layout.Rank() < 2 {
		one, err := cute.New(cute.Int(1), cute.Int(0))
		if err != nil {
			return cuteGrid{}, err
		}
		if e.Layout, err = cute.Join(e.Layout, one); err != nil {
			return cuteGrid{}, err
		}
	}
	g.static = e.Static()
	if e.Layout.Rank() > 1 {
		g.rows = e.Layout.Mode(0).Size()
		g.cols = e.Layout.Size() / max(1, g.rows)
	}
	if e.Layout.Size() > maxLinked {
		return cuteGrid{}, fmt.Errorf("layoutviz: %s has %d cells; the most is %d", c, e.Layout.Size(), maxLinked)
	}
	g.at = func(m, n int) int { return e.At(m + g.rows*n) }
	return g, nil
}

// CuteGridTeX is CuTe's print_latex of a layout of at most two modes.
func CuteGridTeX(l cute.Composed) (string, error) {
	g, err := gridOf(l)
	if err != nil {
		return "", err
	}
	if l.Layout.Rank() > 2 {
		return "", fmt.Errorf("layoutviz: %s has %d modes; CuTe prints at most 2", l, l.Layout.Rank())
	}
	return CuteLayoutTeX(g.static, g.rows, g.cols, g.at)
}

// CuteGrid draws a CuTe layout, swizzled or not, as print_latex does.
func CuteGrid(l cute.Composed, o Options) (Picture, error) {
	g, err := gridOf(l)
	if err != nil {
		return Picture{}, err
	}
	p, err := CuteLayout(g.text, g.rows, g.cols, g.at, o)
	if err != nil {
		return Picture{}, err
	}
	p.tex, err = CuteLayoutTeX(g.static, g.rows, g.cols, g.at)
	return p, err
}

// CuteOperation draws an expression of one operation, such as "logical_divide((4,2,3):(2,1,8),
// 4:2)": its operands and its result as grids of offsets. In a division a tile has
// one colour, in a product a copy of the first operand and the place in the second
// that it stands for; else the colour is the column of the result.
func CuteOperation(text string, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	v, err := cute.Eval(text)
	if err != nil {
		return Picture{}, err
	}
	result, ok := v.Composed()
	if !ok {
		return Picture{}, fmt.Errorf("layoutviz: %s is a %s; the picture is of layouts", text, v.Kind())
	}
	name, args := splitCall(text)
	res, err := gridOf(result)
	if err != nil {
		return Picture{}, err
	}
	// The tiles are the columns of (tile, rest), whatever the operation makes of them.
	tiles, what := res, "the column of the result that it stands in"
	for _, kind := range []string{"divide", "product"} {
		if !strings.HasSuffix(name, "_"+kind) {
			continue
		}
		if v, err := cute.Eval("zipped_" + kind + "(" + strings.Join(args, ", ") + ")"); err == nil {
			if l, ok := v.Composed(); ok {
				if tiles, err = gridOf(l); err != nil {
					return Picture{}, err
				}
				what = map[string]string{"divide": "the tile that it belongs to", "product": "the copy of operand 1 that it belongs to"}[kind]
			}
		}
	}
	column := map[int]int{}
	for n := range tiles.cols {
		for m := range tiles.rows {
			if _, seen := column[tiles.at(m, n)]; !seen {
				column[tiles.at(m, n)] = n
			}
		}
	}
	longest := "0"
	for m := range res.rows {
		for n := range res.cols {
			if s := fmt.Sprint(res.at(m, n)); len(s) > len(longest) {
				longest = s
			}
		}
	}
	tableOf := func(title, prefix string, g cuteGrid) table {
		return table{name: title, prefix: prefix, heading: title, rows: g.rows, cols: g.cols, small: true, labelled: true, linked: true, longest: longest,
			rowHead: func(r int) string { return fmt.Sprint(r) }, colHead: func(i int) string { return fmt.Sprint(i) },
			cell: func(r, i int) cell {
				at := g.at(r, i)
				e := cell{fills: []string{c.quiet}, top: fmt.Sprint(at), id: fmt.Sprintf("%d.%d", r, i), keys: []int{at}, slot: at, at: []int{r, i},
					label: fmt.Sprintf("%s (%d, %d) is offset %d", title, r, i, at)}
				if n, ok := column[at]; ok {
					e.fills[0] = c.of(n)
				}
				return e
			}}
	}
	caption := []string{strings.TrimSpace(text)}
	var tables []table
	for i, a := range args {
		av, err := cute.Eval(a)
		if err != nil {
			continue // a tiler in angle brackets: named in the text, not drawn
		}
		ac, ok := av.Composed()
		if !ok {
			continue
		}
		g, err := gridOf(ac)
		if err != nil {
			return Picture{}, err
		}
		t := tableOf(fmt.Sprintf("operand %d", i+1), fmt.Sprintf("a%d.", i+1), g)
		if i > 0 {
			cellOf := t.cell
			t.cell = func(r, i int) cell {
				e := cellOf(r, i)
				e.fills = []string{c.quiet}
				if strings.HasSuffix(name, "_product") {
					e.fills[0] = c.of(r + g.rows*i)
				}
				return e
			}
		}
		tables = append(tables, t)
		caption = append(caption, fmt.Sprintf("operand %d = %s", i+1, ac))
	}
	tables = append(tables, tableOf(name, "r", res))
	caption = append(caption, fmt.Sprintf("%s = %s", name, result), "Each cell is an offset; its colour is "+what+".")
	c.row(o, caption, tables)
	return c.picture("CuTe "+strings.TrimSpace(text), fmt.Sprintf("%s is %s.", strings.TrimSpace(text), result)), nil
}

// splitCall cuts "name(a, b)" into its name and arguments; a text that is no call is
// one argument of no name.
func splitCall(text string) (name string, args []string) {
	text = strings.TrimSpace(text)
	open := strings.IndexByte(text, '(')
	if open <= 0 || !strings.HasSuffix(text, ")") {
		return "result", nil
	}
	name = text[:open]
	depth, from := 0, open+1
	for i := open + 1; i < len(text)-1; i++ {
		switch text[i] {
		case '(', '<':
			depth++
		case ')', '>':
			depth--
		case ',':
			if depth == 0 {
				args = append(args, strings.TrimSpace(text[from:i]))
				from = i + 1
			}
		}
	}
	return name, append(args, strings.TrimSpace(text[from:len(text)-1]))
}
