package layoutviz

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/cuteprint"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

// CuteGrid draws a CuTe layout, swizzled or not, as print_latex does.
func CuteGrid(l cute.Composed, o Options) (Picture, error) {
	g, err := cuteprint.NewGrid(l)
	if err != nil {
		return Picture{}, err
	}
	p, err := CuteLayout(g.Text, g.Rows, g.Cols, g.At, o)
	if err != nil {
		return Picture{}, err
	}
	p.tex, err = cuteprint.LayoutTeX(g.Static, g.Rows, g.Cols, g.At)
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
	name, args := cuteprint.Call(text)
	result, ok := v.Composed()
	if !ok || args != nil && v.Kind() == "tuple" {
		return Picture{}, fmt.Errorf("layoutviz: %s is a %s; the picture is of layouts", text, v.Kind())
	}
	res, err := cuteprint.NewGrid(result)
	if err != nil {
		return Picture{}, err
	}
	if res.Rows*res.Cols > maxLinked {
		return Picture{}, fmt.Errorf("layoutviz: %s has %d cells; the most is %d", result, res.Rows*res.Cols, maxLinked)
	}
	// The tiles are the columns of (tile, rest), whatever the operation makes of them.
	tiles, what := res, "the column of the result that it stands in"
	for _, kind := range []string{"divide", "product"} {
		if !strings.HasSuffix(name, "_"+kind) {
			continue
		}
		if v, err := cute.Eval("zipped_" + kind + "(" + strings.Join(args, ", ") + ")"); err == nil {
			if l, ok := v.Composed(); ok {
				if tiles, err = cuteprint.NewGrid(l); err != nil {
					return Picture{}, err
				}
				what = map[string]string{"divide": "the tile that it belongs to", "product": "the copy of the block that it belongs to"}[kind]
			}
		}
	}
	column := map[int]int{}
	for n := range tiles.Cols {
		for m := range tiles.Rows {
			if _, seen := column[tiles.At(m, n)]; !seen {
				column[tiles.At(m, n)] = n
			}
		}
	}
	longest := "0"
	for m := range res.Rows {
		for n := range res.Cols {
			if s := fmt.Sprint(res.At(m, n)); len(s) > len(longest) {
				longest = s
			}
		}
	}
	tableOf := func(title, prefix string, l cute.Layout, g cuteprint.Grid) table {
		rows, cols := cuteprint.Modes(l)
		return table{rowAxis: rows, colAxis: cols, name: title, prefix: prefix, heading: title, rows: g.Rows, cols: g.Cols, small: true, labelled: true, linked: true, longest: longest,
			rowHead: func(r int) string { return fmt.Sprint(r) }, colHead: func(i int) string { return fmt.Sprint(i) },
			cell: func(r, i int) cell {
				at := g.At(r, i)
				e := cell{fills: []string{c.quiet}, top: fmt.Sprint(at), id: fmt.Sprintf("%d.%d", r, i), keys: []int{at}, slot: at, at: []int{r, i},
					label: fmt.Sprintf("%s (%d, %d) is offset %d", title, r, i, at)}
				if n, ok := column[at]; ok {
					e.fills[0] = c.of(n)
				}
				return e
			}}
	}
	caption := []string{strings.TrimSpace(text)}
	operand, byMode := cuteprint.Parameters(name), false
	var tables []table
	var drawn []cute.Layout
	for i, a := range args {
		title := fmt.Sprintf("operand %d", i+1)
		if i < len(operand) {
			title = operand[i]
		}
		av, err := cute.Eval(a)
		if err != nil {
			return Picture{}, err
		}
		ac, ok := av.Composed()
		if !ok { // a tiler in angle brackets
			byMode = true
			caption = append(caption, fmt.Sprintf("%s = %s, mode by mode", title, a))
			continue
		}
		g, err := cuteprint.NewGrid(ac)
		if err == nil && g.Rows*g.Cols > maxLinked {
			err = fmt.Errorf("layoutviz: %s has %d cells; the most is %d", ac, g.Rows*g.Cols, maxLinked)
		}
		if err != nil {
			return Picture{}, err
		}
		t := tableOf(title, fmt.Sprintf("a%d.", i+1), ac.Layout, g)
		if i > 0 {
			cellOf := t.cell
			t.cell = func(r, i int) cell {
				e := cellOf(r, i)
				e.fills = []string{c.quiet}
				if strings.HasSuffix(name, "_product") {
					e.fills[0] = c.of(r + g.Rows*i)
				}
				return e
			}
		}
		tables, drawn = append(tables, t), append(drawn, ac.Layout)
		caption = append(caption, fmt.Sprintf("%s = %s", title, ac))
	}
	tables, drawn = append(tables, tableOf("result", "r", result.Layout, res)), append(drawn, result.Layout)
	caption = append(caption, fmt.Sprintf("result = %s", result), "Each cell is an offset; its colour is "+what+".")
	switch {
	case strings.HasSuffix(name, "_divide"):
		first := make([]string, 0, maxShown)
		for m := range min(tiles.Rows, 8) {
			first = append(first, fmt.Sprint(tiles.At(m, 0)))
		}
		say := "The tiler counts places of the layout, down its columns; the offsets that stand there are a tile."
		if byMode {
			say = "A part of the tiler counts places along one mode of the layout; the offsets where they meet are a tile."
		}
		if tiles.Rows > len(first) {
			first = append(first, "…")
		}
		caption = append(caption, say+" The first tile has the offsets "+strings.Join(first, ", ")+".")
	case strings.HasSuffix(name, "_product"):
		moved := "to offsets that are free"
		if l := cute.Filter(drawn[0]); l.Size() == l.Cosize() {
			moved = fmt.Sprintf("by %d times the number that stands there", l.Size())
		}
		caption = append(caption, "For every element of the tiler there is a copy of the block, moved "+moved+".")
	}
	nested := false
	for _, l := range drawn {
		for _, d := range []int{0, 1} {
			nested = nested || cuteprint.Group(l, d) > 0
		}
	}
	if nested {
		caption = append(caption, "Thicker lines part the counts of a nested mode, whose shape stands at its arrow.")
	}
	c.row(o, caption, tables)
	for i, t := range tables {
		e := t.extent()
		x, y := c.placed[i].X+e.left, c.placed[i].Y+headRoom
		var segs []scene.Segment
		if n := cuteprint.Group(drawn[i], 0); n > 0 {
			for r := n; r < t.rows; r += n {
				segs = append(segs, scene.Segment{X1: x, Y1: y + r*e.ch, X2: x + t.cols*e.cw, Y2: y + r*e.ch})
			}
		}
		if n := cuteprint.Group(drawn[i], 1); n > 0 {
			for r := n; r < t.cols; r += n {
				segs = append(segs, scene.Segment{X1: x + r*e.cw, Y1: y, X2: x + r*e.cw, Y2: y + t.rows*e.ch})
			}
		}
		c.strong(c.ink, segs...)
	}
	return c.picture("CuTe "+strings.TrimSpace(text), fmt.Sprintf("%s is %s.", strings.TrimSpace(text), result)), nil
}

// CuteTiledCopy draws a tiled copy as CuTe's print_latex does.
func CuteTiledCopy(c cute.TiledCopy, o Options) (Picture, error) {
	s, d, rows, cols, err := cuteprint.Sides(c)
	if err != nil {
		return Picture{}, err
	}
	return CuteCopy(s, d, rows, cols, o)
}
