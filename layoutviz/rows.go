package layoutviz

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Rows draws a table of texts. Elements are "row0", "row1", …; the row of number marked
// stands out, -1 for none. A text may have several lines.
func Rows(title string, head []string, rows [][]string, marked int, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	wide := make([]int, len(head))
	for _, r := range append([][]string{head}, rows...) {
		for i := range wide {
			if i < len(r) {
				for s := range strings.SplitSeq(r[i], "\n") {
					wide[i] = max(wide[i], scene.Width(s, topSize)+18)
				}
			}
		}
	}
	c.w = 2 * pad
	for _, w := range wide {
		c.w += w
	}
	y := pad
	if !o.NoCaption && title != "" {
		c.grow([]string{title})
		y = c.caption([]string{title}, y)
	}
	const high, next = 19, 14 // of a line of texts, and of each further one
	line := func(r []string, top int, ink string, bold bool) {
		x := pad + 6
		for i, w := range wide {
			if i < len(r) {
				for k, s := range strings.Split(r[i], "\n") {
					c.text(x, top+13+k*next, topSize, ink, scene.Start, bold, s)
				}
			}
			x += w
		}
	}
	line(head, y, c.muted, true)
	y += high
	grid := Grid{Title: title, Head: head}
	for n, r := range rows {
		top, ink, high := y, c.ink, high
		for _, s := range r {
			high = max(high, 19+next*strings.Count(s, "\n"))
		}
		y += high
		switch {
		case n == marked:
			c.fill(c.accent, pad, top, c.w-2*pad, high)
			ink = c.inkOn(c.accent)
		case n%2 == 0:
			c.fill(c.quiet, pad, top, c.w-2*pad, high)
		}
		line(r, top, ink, n == marked)
		label := ""
		r = slices.Clone(r)
		for i, s := range r {
			s = strings.ReplaceAll(s, "\n", " ")
			r[i] = s
			if i > 0 {
				label += ", "
			}
			label += s
		}
		c.ids = append(c.ids, Element{ID: fmt.Sprint("row", n), Label: label, X: pad, Y: top, W: c.w - 2*pad, H: high, Keys: []int{n}, Thread: -1})
		grid.Rows = append(grid.Rows, r)
	}
	c.grids = append(c.grids, grid)
	c.h = y + pad
	return c.picture(title, count(len(rows), "row")+"."), nil
}
