package timeline

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Rung is one bar of a [Ladder].
type Rung struct {
	Name  string
	Adds  string  // what it adds to the one before
	Rate  float64 // in the unit of the ladder
	Ratio float64 // of what it is compared with; 1 is as fast
}

// Ladder draws measured rates as bars, each with what the step adds and its share of
// what peer reached in the same run, which a mark in every bar shows.
func Ladder(list []Rung, unit, peer, title, desc string, o layoutviz.Options) (layoutviz.Picture, error) {
	if len(list) == 0 {
		return layoutviz.Picture{}, fmt.Errorf("timeline: a ladder without rungs")
	}
	const names, width, high, gap = 90, 620, 34, 16
	s, err := newSheet(2*pad+names+width+200, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	most := 0.0
	for _, r := range list {
		if !(r.Rate > 0 && r.Ratio > 0) {
			return layoutviz.Picture{}, fmt.Errorf("timeline: %s has rate %v and ratio %v", r.Name, r.Rate, r.Ratio)
		}
		most = max(most, r.Rate, r.Rate/r.Ratio)
	}
	px := func(rate float64) int { return int(rate * float64(width) / most) }
	y := s.para(pad, pad, s.w-2*pad, bigSize, s.ink, true, title)
	y = s.para(pad, y+2, s.w-2*pad, textSize, s.muted, false, desc) + 14
	left := pad + names
	for i, r := range list {
		s.text(left-8, y+high/2+5, headSize, s.ink, scene.End, true, r.Name)
		color := s.color(0)
		if r.Ratio >= 1 {
			color = s.color(2)
		}
		s.area(s.quiet, left, y, width, high)
		s.bar(color, left, y, px(r.Rate), high)
		s.text(left+8, y+high/2+4, textSize, inkOn(color), scene.Start, false, r.Adds)
		at := left + px(r.Rate/r.Ratio)
		s.over = stroke(s.over, s.alarm, 2, at, y-4, at, y+high+4)
		s.text(left+width+10, y+high/2+5, headSize, s.ink, scene.Start, false, fmt.Sprintf("%.0f %s, %.1f %%", r.Rate, unit, 100*r.Ratio))
		s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprintf("r%d", i), X: left, Y: y, W: width, H: high,
			Label: fmt.Sprintf("%s: %s; %.1f %s, %.1f %% of %s", r.Name, r.Adds, r.Rate, unit, 100*r.Ratio, peer)})
		y += high + gap
	}
	s.over = stroke(s.over, s.alarm, 2, left+2, y-2, left+2, y+12)
	s.text(left+12, y+9, noteSize, s.muted, scene.Start, false, peer+" in the same rounds")
	return s.picture(y+12+pad, title, desc), nil
}
