package layoutviz

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Chart is a plot of numbers over numbers.
type Chart struct {
	Title      string
	X, Y       string // names of the axes, with units
	LogX, LogY bool   // such an axis has positive numbers only
	Series     []Series
	Note       string // stands below: where the numbers are from
}

// Series is one line of a chart, or its points or bars. X may be nil: 0, 1, 2, …
type Series struct {
	Name  string
	Kind  string // "line", the usual one; "points"; "bars"
	X, Y  []float64
	Names []string // of points, written beside them where there is room; may be nil
	Shift int      // pixels that points are moved to the right, so that those of several series at one x stand beside each other
}

// called is what a point is of, and its name.
func (s Series) called(k int) string {
	if s.Names == nil || s.Names[k] == "" {
		return s.Name
	}
	if s.Name == "" {
		return s.Names[k]
	}
	return s.Name + ", " + s.Names[k]
}

// Sizes of the field of a chart in pixels.
const (
	chartWide = 560
	chartHigh = 300
)

// hues tell series apart; each has a contrast of at least 3:1 on every sheet, and the first five differ for the colour-blind, too.
func hues() []string {
	return []string{"#3b82c4", "#c96f12", "#2f9e6e", "#b41428", "#286464", "#7f8020", "#8464c9", "#a5683d", "#7a8290"}
}

// hueOn is the colour of a series on a sheet.
func hueOn(t Theme, series int) string {
	color := hues()[series%len(hues())]
	if t.shade > 0 {
		color = scene.Mix(color, "#ffffff", 25)
	}
	return color
}

// axis maps numbers to pixels.
type axis struct {
	lo, hi float64
	log    bool
	from   int
	length int // negative where pixels fall
}

func (a axis) at(v float64) int {
	lo, hi := a.lo, a.hi
	if a.log {
		v, lo, hi = math.Log10(v), math.Log10(lo), math.Log10(hi)
	}
	return a.from + int(math.Round((v-lo)/(hi-lo)*float64(a.length)))
}

// ticks are round numbers on the axis.
func (a axis) ticks() []float64 {
	var out []float64
	if a.log {
		// Powers of ten; of less than three decades also what is two and five times as much; of less than one, even steps.
		for _, times := range [][]float64{{1}, {1, 2, 5}} {
			out = nil
			for e := math.Floor(math.Log10(a.lo)); e <= math.Ceil(math.Log10(a.hi)); e++ {
				for _, k := range times {
					if v := k * math.Pow(10, e); v >= a.lo*0.999 && v <= a.hi*1.001 {
						out = append(out, v)
					}
				}
			}
			if len(out) > 3 {
				return out
			}
		}
		out = nil
	}
	step := math.Pow(10, math.Floor(math.Log10(a.hi-a.lo)))
	for _, k := range []float64{0.1, 0.2, 0.5, 1, 2} {
		if (a.hi-a.lo)/(k*step) <= 8 {
			step *= k
			break
		}
	}
	for v := math.Ceil(a.lo/step) * step; v <= a.hi+step/1e6; v += step {
		out = append(out, math.Round(v/step)*step+0) // no -0
	}
	return out
}

// bounds are the least and largest number of an axis, apart from each other.
func bounds(name string, log bool, zero bool, values [][]float64) (lo, hi float64, err error) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, list := range values {
		for _, v := range list {
			if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
				return 0, 0, fmt.Errorf("layoutviz: %v cannot be drawn on the axis %q", v, name)
			}
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	switch {
	case lo > hi:
		return 0, 0, fmt.Errorf("layoutviz: the chart has no numbers")
	case log && lo == hi:
		lo, hi = lo/2, hi*2
	case log:
		lo, hi = lo/1.1, hi*1.1
	case zero:
		lo, hi = min(lo, 0), max(hi, 0)
	}
	if lo == hi {
		lo, hi = lo-0.5, hi+0.5
	}
	return lo, hi, nil
}

// wider are the bounds of an axis with room around points, so that none lies on the frame.
func wider(lo, hi float64, log bool) (float64, float64) {
	const part = 0.03
	if log {
		k := math.Pow(hi/lo, part)
		return lo / k, hi * k
	}
	return lo - part*(hi-lo), hi + part*(hi-lo)
}

// pointSize is the width of the points of a chart in pixels, the same for all: few are looked for one by one.
func pointSize(series []Series) int {
	most, all := 0, 0
	for _, s := range series {
		if s.Kind == "points" {
			most, all = max(most, len(s.Y)), all+len(s.Y)
		}
	}
	switch {
	case most <= 4:
		return 9
	case all <= 64:
		return 7
	}
	return 5
}

// beside writes names next to points, each where it covers no point, no other name and not the frame; a name without
// such a place is left out.
func (c *canvas) beside(names []string, points, taken []scene.Box, frame scene.Box) {
	const high = 10
	for i, name := range names {
		if name == "" {
			continue
		}
		p, w := points[i], scene.Width(name, headSize)
		for _, at := range []scene.Box{
			{X: p.X + p.W + 3, Y: p.Y + p.H/2 - high/2},
			{X: p.X - 3 - w, Y: p.Y + p.H/2 - high/2},
			{X: p.X + p.W/2 - w/2, Y: p.Y - 2 - high},
			{X: p.X + p.W/2 - w/2, Y: p.Y + p.H + 2},
			{X: p.X + p.W - w, Y: p.Y - 2 - high}, // towards the left, or the right
			{X: p.X + p.W - w, Y: p.Y + p.H + 2},
			{X: p.X, Y: p.Y - 2 - high},
			{X: p.X, Y: p.Y + p.H + 2},
		} {
			at.W, at.H = w, high
			if at.X <= frame.X || at.Y <= frame.Y || at.X+at.W >= frame.X+frame.W || at.Y+at.H >= frame.Y+frame.H ||
				slices.ContainsFunc(taken, func(b scene.Box) bool {
					return at.X < b.X+b.W && b.X < at.X+at.W && at.Y < b.Y+b.H && b.Y < at.Y+at.H
				}) {
				continue
			}
			c.text(at.X, at.Y+high-1, headSize, c.ink, scene.Start, false, name)
			taken = append(taken, at)
			break
		}
	}
}

// Plot draws a chart.
func Plot(ch Chart, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	var xs, ys [][]float64
	bars, pointed := 0, false
	for i, s := range ch.Series {
		if s.Names != nil && (s.Kind != "points" || len(s.Names) != len(s.Y)) {
			return Picture{}, fmt.Errorf("layoutviz: series %d, %q, has %d names; only points have some, and these are %d", i, s.Name, len(s.Names), len(s.Y))
		}
		x := s.X
		if x == nil {
			for k := range s.Y {
				x = append(x, float64(k))
			}
		}
		if len(x) != len(s.Y) {
			return Picture{}, fmt.Errorf("layoutviz: series %d, %q, has %d numbers for x and %d for y", i, s.Name, len(x), len(s.Y))
		}
		if s.Kind == "bars" {
			bars++
		} else if s.Kind == "points" {
			pointed = true
		} else if s.Kind != "" && s.Kind != "line" {
			return Picture{}, fmt.Errorf("layoutviz: a series is drawn as line, points or bars, not as %q", s.Kind)
		}
		xs, ys = append(xs, x), append(ys, s.Y)
	}
	x0, x1, err := bounds(ch.X, ch.LogX, false, xs)
	if err != nil {
		return Picture{}, err
	}
	y0, y1, err := bounds(ch.Y, ch.LogY, !ch.LogY, ys)
	if err != nil {
		return Picture{}, err
	}
	span := x1 - x0 // between two bars, of a plain axis
	if bars > 0 && !ch.LogX {
		for _, x := range xs {
			for k := 1; k < len(x); k++ {
				if d := math.Abs(x[k] - x[k-1]); d > 0 {
					span = min(span, d)
				}
			}
		}
		x0, x1 = x0-span/2, x1+span/2
	}
	if pointed {
		x0, x1 = wider(x0, x1, ch.LogX)
		if ch.LogY {
			y0, y1 = wider(y0, y1, true)
		} else if y0 < 0 {
			y0, _ = wider(y0, y1, false)
		}
	}
	if !ch.LogY && y1 > 0 {
		y1 += (y1 - y0) / 20
	}
	ya := axis{lo: y0, hi: y1, log: ch.LogY, length: -chartHigh}
	wide := 0
	for _, v := range ya.ticks() {
		wide = max(wide, scene.Width(tick(v), headSize))
	}
	left := pad + wide + 8
	c.w = left + chartWide + 2*pad
	y := pad
	if !o.NoCaption && ch.Title != "" {
		y = c.caption([]string{ch.Title}, y)
	}
	c.text(pad, y+10, headSize, c.muted, scene.Start, false, ch.Y+" ↑")
	y += 20
	ya.from = y + chartHigh
	xa := axis{lo: x0, hi: x1, log: ch.LogX, from: left, length: chartWide}
	c.fill(c.quiet, left, y, chartWide, chartHigh)
	hair := c.line
	if !c.look.strong && c.shade == 0 {
		hair = scene.Mix(c.line, c.quiet, 60)
	}
	for _, v := range ya.ticks() {
		c.fill(hair, left, ya.at(v), chartWide, 1) // below what is drawn
		c.text(left-6, ya.at(v)+4, headSize, c.muted, scene.End, false, tick(v))
	}
	for _, v := range xa.ticks() {
		c.fill(hair, xa.at(v), y, 1, chartHigh)
		c.text(xa.at(v), y+chartHigh+14, headSize, c.muted, scene.Middle, false, tick(v))
	}
	c.text(left+chartWide, y+chartHigh+28, headSize, c.muted, scene.End, false, ch.X+" →")
	c.frame(left, y, chartWide, chartHigh)

	legend := y + chartHigh + 47
	grid := Grid{Head: []string{ch.X}}
	bar, dot := 0, pointSize(ch.Series)
	var names []string
	var named, taken []scene.Box // points with names, and all
	for i, s := range ch.Series {
		color := hueOn(c.look.Theme, i)
		var line []scene.Point
		var points []scene.Box // and the legend's, which is of the same colour
		mark := func(k int, px, py, w, h int) {
			c.ids = append(c.ids, Element{ID: fmt.Sprintf("s%dp%d", i, k), Label: fmt.Sprintf("%s: %s at %s", s.called(k), short(s.Y[k]), short(xs[i][k])), X: px, Y: py, W: w, H: h, Keys: []int{i<<20 | k}, Thread: -1})
		}
		for k, v := range s.Y {
			px, py := xa.at(xs[i][k])+s.Shift, ya.at(v)
			switch s.Kind {
			case "bars":
				w := 12
				if !ch.LogX {
					w = max(3, int(float64(chartWide)*span/(x1-x0)*0.8)/bars)
				}
				base := ya.from
				if !ch.LogY {
					base = ya.at(max(0, y0))
				}
				at := px - w*bars/2 + bar*w
				c.fill(color, at, min(py, base), max(1, w-1), max(1, abs(base-py)))
				mark(k, at, min(py, base), w, max(1, abs(base-py)))
			default:
				size := 5
				if s.Kind == "points" {
					size = dot
				}
				if s.Kind != "points" {
					line = append(line, scene.Point{X: px, Y: py})
				}
				if s.Kind == "points" || len(s.Y) <= 64 {
					points = append(points, scene.Box{X: px - size/2, Y: py - size/2, W: size, H: size})
					taken = append(taken, points[len(points)-1])
				}
				if s.Names != nil {
					names, named = append(names, s.Names[k]), append(named, points[len(points)-1])
				}
				mark(k, px-4, py-4, 8, 8)
			}
		}
		if s.Kind == "bars" {
			bar++
		}
		if len(line) > 1 {
			c.bands = append(c.bands, scene.Line{Color: color, Width: 2, Points: line})
		}
		if s.Name != "" {
			if s.Kind == "bars" {
				c.fill(color, left, legend-9, 14, 10)
			} else {
				points = append(points, scene.Box{X: left, Y: legend - 9, W: 14, H: 10})
			}
			name := s.Name
			if s.Kind == "points" && len(s.Y) == 1 {
				name += fmt.Sprintf(": %s at %s", short(s.Y[0]), short(xs[i][0]))
			}
			c.text(left+20, legend, topSize, c.ink, scene.Start, false, name)
			legend += 17
		}
		if len(points) > 0 {
			c.bands = append(c.bands, scene.Fills{Color: color, Boxes: points})
		}
		grid.Head = append(grid.Head, s.Name)
	}
	if ch.Note != "" {
		c.text(left, legend, headSize, c.muted, scene.Start, false, ch.Note)
		c.w = max(c.w, left+scene.Width(ch.Note, headSize)+pad)
		legend += 17
	}
	c.beside(names, named, taken, scene.Box{X: left, Y: y, W: chartWide, H: chartHigh})
	if len(xs) > 0 && same(xs) {
		for k, v := range xs[0] {
			row := []string{short(v)}
			for _, l := range ys {
				row = append(row, short(l[k]))
			}
			grid.Rows = append(grid.Rows, row)
		}
	} else {
		grid.Head = []string{"series", ch.X, ch.Y}
		for i, s := range ch.Series {
			for k := range s.Y {
				grid.Rows = append(grid.Rows, []string{s.called(k), short(xs[i][k]), short(s.Y[k])})
			}
		}
	}
	c.grids = append(c.grids, grid)
	c.h = legend + pad - 6
	n := 0
	for _, l := range ys {
		n += len(l)
	}
	desc := fmt.Sprintf("%s over %s: %s in %s.", ch.Y, ch.X, count(n, "point"), strconv.Itoa(len(ch.Series))+" series")
	return c.picture(ch.Title, desc), nil
}

// tick writes a number beside an axis; large powers of ten as powers.
func tick(v float64) string {
	e := math.Round(math.Log10(v))
	if e < 4 || v != math.Pow(10, e) {
		return short(v)
	}
	return "10" + strings.Map(func(r rune) rune { return []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")[r-'0'] }, strconv.Itoa(int(e)))
}

func same(xs [][]float64) bool {
	for _, x := range xs[1:] {
		if len(x) != len(xs[0]) {
			return false
		}
		for k := range x {
			if x[k] != xs[0][k] {
				return false
			}
		}
	}
	return true
}

func abs(n int) int { return max(n, -n) }
