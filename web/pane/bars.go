package pane

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/web/facts"
)

// inks are the colours of a sheet.
type inks struct{ paper, ink, muted, line, quiet, accent string }

func inksOf(theme string) inks {
	switch theme {
	case "dark":
		return inks{"#0d1117", "#e6edf3", "#9aa4b0", "#454d57", "#1c2128", "#79c0ff"}
	case "contrast":
		return inks{"#000000", "#ffffff", "#e0e0e0", "#767676", "#000000", "#ffff00"}
	case "print":
		return inks{"#ffffff", "#000000", "#333333", "#777777", "#eeeeee", "#00008b"}
	}
	return inks{"#ffffff", "#1b1f24", "#57606a", "#c4cad1", "#f3f5f7", "#0550ae"}
}

// darkSheet says whether a theme's paper is dark.
func darkSheet(theme string) bool { return theme == "dark" || theme == "contrast" }

// barHues tell series apart on light and dark sheets.
func barHues() []string { return []string{"#3b82c4", "#c96f12", "#2f9e6e"} }

const (
	barHigh = 13
	barWide = 460
)

// bars draws a chart: a group of bars for each name, with its numbers.
func bars(c facts.Chart, o layoutviz.Options) layoutviz.Picture {
	in := inksOf(o.Theme)
	s := &scene.Scene{Paper: in.paper}
	var ids []layoutviz.Element
	grid := layoutviz.Grid{Title: c.Title, Head: append([]string{"name"}, c.Series...)}
	text := func(x, y int, size float64, color, anchor string, bold bool, words string) {
		s.Add(scene.Text{Y: y, Size: size, Color: color, Anchor: anchor, Bold: bold, Words: []scene.Word{{X: x, S: words}}})
	}
	names, most := 0, 0.0
	for _, b := range c.Bars {
		names = max(names, scene.Width(b.Name, 12))
		for _, v := range b.Values {
			most = math.Max(most, v)
		}
	}
	left := 16 + names + 10
	s.W = max(left+barWide+80, scene.Width(c.Title, 15)+32, scene.Width(c.From, 11)+32)
	text(16, 26, 15, in.ink, scene.Start, true, c.Title)
	better := "more is better"
	if c.Better == "less" {
		better = "less is better"
	}
	text(16, 44, 12, in.muted, scene.Start, false, c.Unit+", "+better)
	x := 16
	for i, name := range c.Series {
		s.Add(scene.Fills{Color: barHues()[i%len(barHues())], Boxes: []scene.Box{{X: x, Y: 54, W: 14, H: 10}}})
		text(x+20, 63, 12, in.ink, scene.Start, false, name)
		x += 20 + scene.Width(name, 12) + 22
	}
	y := 78
	fills := make([]scene.Fills, len(c.Series))
	for i := range fills {
		fills[i].Color = barHues()[i%len(barHues())]
	}
	for n, b := range c.Bars {
		high := barHigh*len(b.Values) + 7
		if n%2 == 0 {
			s.Add(scene.Fills{Color: in.quiet, Boxes: []scene.Box{{X: 8, Y: y - 3, W: s.W - 16, H: high}}})
		}
		text(left-10, y+(high-7)/2+4, 12, in.ink, scene.End, false, b.Name)
		row := []string{b.Name}
		for i, v := range b.Values {
			row = append(row, short(v))
			if v <= 0 || i >= len(fills) {
				continue
			}
			w := max(1, int(v/most*barWide))
			box := scene.Box{X: left, Y: y + i*barHigh + 1, W: w, H: barHigh - 3}
			fills[i].Boxes = append(fills[i].Boxes, box)
			text(left+w+6, y+i*barHigh+10, 10, in.muted, scene.Start, false, short(v))
			ids = append(ids, layoutviz.Element{ID: fmt.Sprintf("b%d.%d", n, i), Label: fmt.Sprintf("%s, %s: %s %s", b.Name, c.Series[i], short(v), c.Unit),
				X: left, Y: box.Y, W: w, H: box.H, Keys: []int{n + 1}, Thread: -1})
		}
		grid.Rows = append(grid.Rows, row)
		y += high
	}
	for _, f := range fills {
		if len(f.Boxes) > 0 {
			s.Add(f)
		}
	}
	for _, l := range c.Notes {
		s.W = max(s.W, scene.Width(l, 11)+32)
		text(16, y+18, 11, in.ink, scene.Start, false, l)
		y += 16
	}
	text(16, y+18, 11, in.muted, scene.Start, false, c.From)
	s.H = y + 32
	p := layoutviz.Made(s, c.Title, fmt.Sprintf("%d bars in %s.", len(ids), c.Unit), ids)
	p.Grids = []layoutviz.Grid{grid}
	return p
}

// short is a number in few digits.
func short(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v >= 1000:
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
