package layoutviz

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Listing is a program text at a moment of its run.
type Listing struct {
	Title string
	Text  string
	At    int     // line that has just run, from 1; 0 for none
	Runs  []int64 // how often each line ran, the first line first; may be nil
	Notes []string
	Keys  []int // of each line, in place of its number; 0 for a line that is linked to none; may be nil
	Max   int   // lines that are drawn, around At; 0 is 120
	// Parts of the whole, such as blocks of a grid; no bar where Whole is 0.
	Done, Whole int
	Unit        string // of the bar: "blocks"
}

// maxLines is how many lines of a text are drawn.
const maxLines = 120

// Program draws a program text while it runs: the line that has just run, how often
// each line has run, and how much of the whole is done.
func Program(l Listing, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(l.Text, "\t", "    "), "\n"), "\n")
	first := 0
	if l.Max == 0 {
		l.Max = maxLines
	}
	left := ""
	if len(lines) > l.Max {
		first = min(max(0, l.At-l.Max/2), len(lines)-l.Max)
		left = fmt.Sprintf("Lines %d to %d of %d.", first+1, first+l.Max, len(lines))
		lines = lines[first : first+l.Max]
	}
	wide := 0
	for _, s := range lines {
		wide = max(wide, scene.Width(s, topSize))
	}
	var most int64
	for _, n := range l.Runs {
		most = max(most, n)
	}
	gutter := scene.Width(fmt.Sprint(first+len(lines)), headSize) + 10
	heat := 0
	if l.Runs != nil {
		heat = scene.Width(fmt.Sprint(most)+"×", headSize) + 12
	}
	caption := append([]string{l.Title}, l.Notes...)
	if left != "" {
		caption = append(caption, left)
	}
	c.w = max(pad+gutter+heat+wide+2*pad, 320)
	c.grow(caption)
	y := pad
	if !o.NoCaption {
		y = c.caption(caption, y)
	}
	if l.Whole > 0 {
		w := c.w - 2*pad
		done := min(max(l.Done, 0), l.Whole)
		c.fill(c.quiet, pad, y, w, 12)
		c.fill(c.accent, pad, y, w*done/l.Whole, 12)
		c.frame(pad, y, w, 12)
		c.text(pad, y+26, headSize, c.muted, scene.Start, false, fmt.Sprintf("%d of %d %s", done, l.Whole, l.Unit))
		y += 36
	}
	const high = 17
	grid := Grid{Head: []string{"line", "ran", "text"}}
	for i, s := range lines {
		n := first + i + 1
		top := y + i*high
		var ran int64
		if n <= len(l.Runs) {
			ran = l.Runs[n-1]
		}
		ink := c.ink
		if n == l.At {
			c.fill(c.accent, pad+gutter+heat-4, top, c.w-2*pad-gutter-heat+4, high)
			ink = c.inkOn(c.accent)
		}
		c.text(pad+gutter-8, top+12, headSize, c.muted, scene.End, false, fmt.Sprint(n))
		if ran > 0 {
			fill := c.heat(int(ran*100/max(most, 4)), 100)
			c.fill(fill, pad+gutter-2, top+1, heat-6, high-2)
			c.text(pad+gutter+heat-11, top+12, headSize, c.inkOn(fill), scene.End, false, fmt.Sprint(ran, "×"))
		}
		c.text(pad+gutter+heat+scene.Width(s[:len(s)-len(strings.TrimLeft(s, " "))], topSize), top+12, topSize, ink, scene.Start, n == l.At, strings.TrimLeft(s, " "))
		e := Element{ID: fmt.Sprint("line", n), Label: fmt.Sprintf("line %d: %s", n, strings.TrimSpace(s)), X: pad, Y: top, W: c.w - 2*pad, H: high, Keys: []int{n}, Thread: -1}
		if l.Runs != nil {
			e.Label = fmt.Sprintf("line %d ran %s", n, count(int(ran), "time"))
		}
		if l.Keys != nil {
			if e.Keys = nil; n <= len(l.Keys) && l.Keys[n-1] > 0 {
				e.Keys = []int{l.Keys[n-1]}
			}
		}
		c.ids = append(c.ids, e)
		grid.Rows = append(grid.Rows, []string{fmt.Sprint(n), fmt.Sprint(ran), s})
	}
	c.grids = append(c.grids, grid)
	c.h = y + len(lines)*high + pad
	desc := strings.Join(l.Notes, " ")
	if l.At > 0 && l.At-first-1 < len(lines) {
		desc = strings.TrimSpace(fmt.Sprintf("%s Line %d has just run: %s", desc, l.At, strings.TrimSpace(lines[l.At-first-1])))
	}
	return c.picture(l.Title, desc), nil
}

// Below puts pictures under each other on one sheet; ids and keys stay those of each.
func Below(title string, pictures ...Picture) (Picture, error) {
	out := &scene.Scene{}
	var p Picture
	for _, q := range pictures {
		if q.scene == nil {
			return Picture{}, fmt.Errorf("layoutviz: %s has no scene", q.Title)
		}
		out.Paper = q.scene.Paper
		for _, it := range q.scene.Items {
			out.Add(scene.Down(it, out.H))
		}
		for _, e := range q.IDs {
			e.Y += out.H
			p.IDs = append(p.IDs, e)
		}
		p.Grids = append(p.Grids, q.Grids...)
		p.Desc = strings.TrimSpace(p.Desc + " " + q.Desc)
		out.W, out.H = max(out.W, q.Width), out.H+q.Height
	}
	p.SVG, p.Width, p.Height, p.Title, p.scene = out.SVG(title, p.Desc), out.W, out.H, title, out
	return p, nil
}
