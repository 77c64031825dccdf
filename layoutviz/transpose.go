package layoutviz

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Transpose draws the worked example of bank.Transpose: the bank of every element of
// a 32×32 tile in each way to lay it out, what the first phase of a read takes
// outlined, and what writing rows and reading columns cost.
func Transpose(o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	const cw, ch, gap, left = 17, 14, 34, 26
	steps := bank.Transpose()
	n := len(steps[0].Banks)
	panelW := left + n*cw
	c.w = 2*pad + 2*panelW + gap
	y := pad
	if !o.NoCaption {
		y = c.caption([]string{"32×32 transpose through shared memory",
			"the number is the bank of an element of 4 bytes; a warp writes rows and reads columns; the first phase of a read is outlined"}, y)
	}
	desc := "A warp writes rows of a 32×32 tile of 4-byte elements and reads its columns."
	// What is written above a panel may take several lines; both of a row begin alike.
	top := 0
	for _, t := range steps {
		top = max(top, 34+14*len(scene.Wrap(t.Doc, scene.Fit(panelW, headSize))))
	}
	panelH := top + 14 + n*ch
	for i, t := range steps {
		x, y := pad+i%2*(panelW+gap), y+i/2*(panelH+24)
		write := fmt.Sprintf("write a row: %s", count(t.Write.Wavefronts, "wavefront"))
		if t.ByTMA {
			write = "written by TMA"
		}
		read := fmt.Sprintf("read a column, %d bytes a lane: %s in %s", t.Read.Access.Width, count(t.Read.Wavefronts, "wavefront"), count(t.Read.Ideal, "phase"))
		square := "no Latin square"
		switch {
		case t.Rows && t.Cols:
			square = "a Latin square"
		case t.ChunkRows && t.ChunkCols:
			square = "a Latin square of chunks"
		}
		say := write + "; " + read + "; " + square
		desc += fmt.Sprintf(" %s: %s. %s", t.Name, say, t.Doc)
		c.text(x, y+12, capSize, c.ink, scene.Start, true, t.Name)
		line := y + 28
		for _, part := range scene.Wrap(t.Doc, scene.Fit(panelW, headSize)) {
			c.text(x, line, headSize, c.muted, scene.Start, false, part)
			line += 14
		}
		c.text(x, line, headSize, c.ink, scene.Start, false, say)
		g := Grid{Title: t.Name + ": " + say, Head: cuteHead(n)}
		x0, y0 := x+left, y+top+14
		for col := 0; col < n; col += 4 {
			c.text(x0+col*cw+cw/2, y0-4, tinySize, c.muted, scene.Middle, false, fmt.Sprint(col))
		}
		for r := range n {
			if r%4 == 0 {
				c.text(x0-4, y0+r*ch+10, tinySize, c.muted, scene.End, false, fmt.Sprint(r))
			}
			row := []string{fmt.Sprint(r)}
			for col := range n {
				b := t.Banks[r][col]
				fill := c.of(b)
				c.fill(fill, x0+col*cw, y0+r*ch, cw, ch)
				c.text(x0+col*cw+cw/2, y0+r*ch+10, tinySize, c.inkOn(fill), scene.Middle, false, fmt.Sprint(b))
				c.ids = append(c.ids, Element{ID: fmt.Sprintf("w%dr%dc%d", i, r, col), X: x0 + col*cw, Y: y0 + r*ch, W: cw, H: ch, Keys: []int{r*n + col},
					Label: fmt.Sprintf("%s: element (%d, %d) lies in bank %d", t.Name, r, col, b), Thread: col, Slot: r, At: []int{r, col}})
				row = append(row, fmt.Sprint(b))
			}
			g.Rows = append(g.Rows, row)
		}
		c.frame(x0, y0, n*cw, n*ch)
		mark := c.accent
		if t.Read.Conflicts > 0 {
			mark = c.alarm
		}
		if len(t.Read.Phases) > 0 {
			c.mark(mark, x0, y0, cw*t.Read.Access.Width/4, ch*len(t.Read.Phases[0].Lanes))
		}
		c.grids = append(c.grids, g)
	}
	c.h = y + (len(steps)+1)/2*(panelH+24) + pad
	return c.picture("32×32 transpose through shared memory, in several ways", desc), nil
}
