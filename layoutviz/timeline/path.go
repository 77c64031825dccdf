package timeline

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// maxSteps is how many events a path shows.
const maxSteps = 40

// step is an event, with how many pairs of dealing and starting a block follow that
// look like it.
type step struct {
	dispatch.Event
	more int
}

// shorten leaves out the middle of long runs of blocks of one kernel.
func shorten(events []dispatch.Event) []step {
	routine := func(e dispatch.Event) bool { return e.Step == "deal" || e.Step == "start" }
	var out []step
	for i := 0; i < len(events); {
		j := i
		for j < len(events) && routine(events[j]) && events[j].Kernel == events[i].Kernel && events[j].Tick == events[i].Tick {
			j++
		}
		if j-i <= 6 {
			j = max(j, i+1)
			for ; i < j; i++ {
				out = append(out, step{Event: events[i]})
			}
			continue
		}
		out = append(out, step{Event: events[i]}, step{events[i+1], (j - i - 4) / 2}, step{Event: events[j-2]}, step{Event: events[j-1]})
		i = j
	}
	return out
}

// Path draws events one below the other in columns for user code, driver, firmware
// and hardware: the way of a launch to a compute unit, or of a new queue to a
// hardware queue. Each says what happens and in which file.
func Path(events []dispatch.Event, title string, o layoutviz.Options) (layoutviz.Picture, error) {
	if len(events) == 0 {
		return layoutviz.Picture{}, fmt.Errorf("timeline: no events")
	}
	all := len(events)
	timed := false
	for _, e := range events {
		timed = timed || e.Tick != events[0].Tick
	}
	steps := shorten(events)
	cut := len(steps) > maxSteps
	steps = steps[:min(len(steps), maxSteps)]
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
	desc := fmt.Sprintf("%s through %s; each is the cause of the next.", count(all, "step"), list(shown))
	y = s.para(pad, y+2, w-2*pad, textSize, s.muted, false, desc) + 12
	top := y
	for i, name := range shown {
		x := pad + tickW + i*colW
		s.text(x, y+13, headSize, s.accent, scene.Start, true, name)
	}
	if timed {
		s.text(pad, y+13, noteSize, s.muted, scene.Start, false, "tick")
	}
	y += 22
	var px, py int
	for i, st := range steps {
		e := st.Event
		x := pad + tickW + column[e.Place.Side]*colW
		color := mix(s.color(column[e.Place.Side]), s.paper, 72)
		inner := s.para(x+8, y+4, boxW-14, textSize, s.ink, false, e.Why)
		if st.more > 0 {
			inner = s.para(x+8, inner, boxW-14, noteSize, s.muted, false, fmt.Sprintf("… and so on with %s more", count(st.more, "block")))
		}
		where := e.Place.String() + "   [" + string(e.Tag) + "]"
		inner = s.para(x+8, inner, boxW-14, tinySize, s.muted, false, where) + 4
		s.bar(color, x, y, boxW, inner-y)
		s.bar(s.color(column[e.Place.Side]), x, y, 4, inner-y)
		mark := i + 1
		if timed {
			mark = e.Tick
		}
		s.text(pad+tickW-14, y+16, noteSize, s.muted, scene.End, false, fmt.Sprint(mark))
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
	if cut {
		y = s.para(pad, y, w-2*pad, noteSize, s.muted, false, "… and more")
	}
	return s.picture(y+pad, title, desc), nil
}

// list is names as a sentence has them.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
