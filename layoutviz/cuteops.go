package layoutviz

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/cuteprint"
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
	name, args := splitCall(text)
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
				what = map[string]string{"divide": "the tile that it belongs to", "product": "the copy of operand 1 that it belongs to"}[kind]
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
	tableOf := func(title, prefix string, g cuteprint.Grid) table {
		return table{name: title, prefix: prefix, heading: title, rows: g.Rows, cols: g.Cols, small: true, labelled: true, linked: true, longest: longest,
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
		g, err := cuteprint.NewGrid(ac)
		if err == nil && g.Rows*g.Cols > maxLinked {
			err = fmt.Errorf("layoutviz: %s has %d cells; the most is %d", ac, g.Rows*g.Cols, maxLinked)
		}
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
					e.fills[0] = c.of(r + g.Rows*i)
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

// CuteTiledCopy draws a tiled copy as CuTe's print_latex does.
func CuteTiledCopy(c cute.TiledCopy, o Options) (Picture, error) {
	s, d, rows, cols, err := cuteprint.Sides(c)
	if err != nil {
		return Picture{}, err
	}
	return CuteCopy(s, d, rows, cols, o)
}
