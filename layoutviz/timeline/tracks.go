package timeline

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Limits of what [Tracks] draws.
const (
	maxTracks = 60
	maxEvents = 6000
)

// Tracks draws any trace: a row for each track, under the part of the machine that it
// belongs to, and a bar for each event in the colour of its kind. An event and those
// that it could not have happened without share keys.
func Tracks(t *trace.Trace, o layoutviz.Options) (layoutviz.Picture, error) {
	if len(t.Events) == 0 {
		return layoutviz.Picture{}, fmt.Errorf("timeline: the trace has no events")
	}
	s, err := newSheet(2*pad+labels+plot, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	var kinds []string
	for _, e := range t.Events {
		if !slices.Contains(kinds, e.Kind) {
			kinds = append(kinds, e.Kind)
		}
	}
	machine := strings.TrimLeft(t.Machine, ", ") // some have no name
	desc := fmt.Sprintf("%s: %d events of %s on %s, %d %ss; made by a %s.", machine, len(t.Events), count(len(kinds), "kind"), count(len(t.Tracks), "track"), t.End, t.Unit, t.Origin)
	y := s.para(pad, pad, s.w-2*pad, bigSize, s.ink, true, t.Title)
	y = s.para(pad, y+2, s.w-2*pad, textSize, s.muted, false, desc)
	if len(t.Tracks) > maxTracks || len(t.Events) > maxEvents {
		y = s.para(pad, y+2, s.w-2*pad, textSize, s.muted, false, fmt.Sprintf("Drawn are %d of %d tracks and %d of %d events.", min(len(t.Tracks), maxTracks), len(t.Tracks), min(len(t.Events), maxEvents), len(t.Events)))
	}
	y += 12
	hue := func(kind int) string {
		color := s.color(kind)
		for range kind / len(s.colors) {
			color = mix(color, s.ink, 40) // another round of the same hues
		}
		return color
	}
	end := max(t.End, 1)
	x := func(v int64) int { return pad + labels + int(float64(v)/float64(end)*plot) }

	// The scale, on top and through all rows.
	step := math.Pow(10, math.Floor(math.Log10(float64(end))))
	for _, k := range []float64{0.1, 0.2, 0.5, 1} {
		if float64(end)/(step*k) <= 12 {
			step *= k
			break
		}
	}
	each := max(int64(step), 1)
	top := y
	for v := int64(0); v <= end; v += each {
		s.text(x(v), y+10, noteSize, s.muted, scene.Middle, false, fmt.Sprint(v))
	}
	s.text(pad, y+10, noteSize, s.muted, scene.Start, false, t.Unit+"s →")
	y += 18

	const high = 16
	rows := map[int]int{} // y of each track
	group := "\x00"
	for _, i := range byGroup(t.Tracks) {
		if len(rows) == maxTracks {
			break
		}
		k := t.Tracks[i]
		if k.Group != group {
			group = k.Group
			y += 6
			s.text(pad, y+11, noteSize, s.ink, scene.Start, true, group)
			y += 18
		}
		rows[i] = y
		s.area(s.quiet, pad+labels, y, plot, high-2)
		name := []rune(k.Name)
		if fit := scene.Fit(labels-14, noteSize); len(name) > fit {
			name = append(name[:fit-1], '…')
		}
		s.text(pad+8, y+11, noteSize, s.muted, scene.Start, false, string(name))
		y += high
	}
	for v := int64(0); v <= end; v += each {
		s.lines = stroke(s.lines, s.line, 0.75, x(v), top+14, x(v), y)
	}
	for _, e := range t.Events[:min(len(t.Events), maxEvents)] {
		row, ok := rows[e.Track]
		if !ok {
			continue
		}
		color := hue(slices.Index(kinds, e.Kind))
		at, w := x(e.Start), max(2, x(e.End)-x(e.Start)-1)
		s.bar(color, at, row, w, high-2)
		s.inside(at, row, w, high-2, color, e.Kind)
		s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprint("event", e.ID), Label: fmt.Sprintf("%d to %d: %s", e.Start, e.End, e.Text), X: at, Y: row, W: w, H: high - 2, Keys: append([]int{e.ID}, e.Causes...), Thread: -1})
	}
	y += 12
	at := pad
	for i, k := range kinds {
		w := scene.Width(k, noteSize) + 34
		if at+w > s.w-pad {
			at, y = pad, y+18
		}
		s.bar(hue(i), at, y, 14, 10)
		s.text(at+20, y+9, noteSize, s.ink, scene.Start, false, k)
		at += w
	}
	return s.picture(y+18+pad, t.Title, desc), nil
}

// byGroup are the numbers of the tracks, those of one group together.
func byGroup(tracks []trace.Track) []int {
	var groups []string
	for _, k := range tracks {
		if !slices.Contains(groups, k.Group) {
			groups = append(groups, k.Group)
		}
	}
	var out []int
	for _, g := range groups {
		for i, k := range tracks {
			if k.Group == g {
				out = append(out, i)
			}
		}
	}
	return out
}
