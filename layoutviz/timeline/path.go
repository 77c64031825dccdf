package timeline

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// maxSteps is how many events a path shows.
const maxSteps = 40

// Path draws events one below the other in columns for user code, driver, firmware
// and hardware: the way of a launch to a compute unit, or of a new queue to a
// hardware queue. Each says what happens and in which file.
func Path(events []dispatch.Event, title string, o layoutviz.Options) (layoutviz.Picture, error) {
	if len(events) == 0 {
		return layoutviz.Picture{}, fmt.Errorf("timeline: no events")
	}
	all := len(events)
	events = events[:min(all, maxSteps)]
	sides := []struct{ name, title string }{{"user", "user code"}, {"driver", "driver"}, {"firmware", "firmware"}, {"hardware", "hardware"}}
	column := map[string]int{}
	var shown []string
	for _, x := range sides {
		for _, e := range events {
			if e.Place.Side == x.name {
				column[x.name] = len(shown)
				shown = append(shown, x.title)
				break
			}
		}
	}
	const tickW = 44
	w := 1100
	s, err := newSheet(w, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	// Columns overlap, so that a sentence has room: a box begins in its column.
	colW := (w - 2*pad - tickW) / (len(shown) + 1)
	boxW := 2*colW - 18
	if len(shown) == 1 {
		boxW = w - 2*pad - tickW
	}
	y := s.para(pad, pad, w-2*pad, bigSize, s.ink, true, title)
	desc := fmt.Sprintf("%d steps through %d of user code, driver, firmware and hardware; each is the cause of the next.", all, len(shown))
	y = s.para(pad, y+2, w-2*pad, textSize, s.muted, false, desc) + 12
	top := y
	for i, name := range shown {
		x := pad + tickW + i*colW
		s.text(x, y+13, headSize, s.accent, scene.Start, true, name)
	}
	s.text(pad, y+13, noteSize, s.muted, scene.Start, false, "tick")
	y += 22
	var px, py int
	for i, e := range events {
		x := pad + tickW + column[e.Place.Side]*colW
		color := mix(s.color(column[e.Place.Side]), s.paper, 72)
		inner := s.para(x+8, y+4, boxW-14, textSize, s.ink, false, e.Why)
		where := e.Place.String() + "   [" + string(e.Tag) + "]"
		inner = s.para(x+8, inner, boxW-14, tinySize, s.muted, false, where) + 4
		s.bar(color, x, y, boxW, inner-y)
		s.bar(s.color(column[e.Place.Side]), x, y, 4, inner-y)
		s.text(pad+tickW-14, y+16, noteSize, s.muted, scene.End, false, fmt.Sprint(e.Tick))
		s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprintf("e%d", e.Seq), Label: e.String(), X: x, Y: y, W: boxW, H: inner - y})
		if i > 0 {
			at := x + 18
			if px != x {
				s.lines = stroke(s.lines, s.line, 1.5, px+18, py, px+18, y-5)
				s.lines = stroke(s.lines, s.line, 1.5, px+18, y-5, at, y-5)
				s.lines = stroke(s.lines, s.line, 1.5, at, y-5, at, y)
			} else {
				s.lines = stroke(s.lines, s.line, 1.5, at, py, at, y)
			}
		}
		px, py = x, inner
		y = inner + 10
	}
	for i := range shown {
		x := pad + tickW + i*colW - 9
		if i > 0 {
			s.areas = stroke(s.areas, s.line, 1, x, top, x, y)
		}
	}
	if all > len(events) {
		y = s.para(pad, y, w-2*pad, noteSize, s.muted, false, fmt.Sprintf("… and %d more", all-len(events)))
	}
	return s.picture(y+pad, title, desc), nil
}
