package timeline

import (
	"fmt"
	"strconv"

	"github.com/tilus-lab/tilus-lab/gpu/model/pipeline"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Stages draws a loop that copies tiles ahead: a row for each stage of shared memory,
// with the copy that fills it (light) and the products that read it (full) in the
// colour of the turn, and below them the matrix unit, with the time for which it waits.
func Stages(l pipeline.Loop, o layoutviz.Options) (layoutviz.Picture, error) {
	turns, err := l.Run()
	if err != nil {
		return layoutviz.Picture{}, err
	}
	if len(turns) > 64 || l.Stages > 16 {
		return layoutviz.Picture{}, fmt.Errorf("timeline: %d turns and %d stages; the most that can be drawn are 64 and 16", l.Turns, l.Stages)
	}
	const names, width, row = 120, 760, 30
	s, err := newSheet(2*pad+names+width, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	end := turns[len(turns)-1].End
	busy := l.Turns * l.Work
	title := fmt.Sprintf("%d turns with %s: %d cycles", l.Turns, count(l.Stages, "stage"), end)
	desc := fmt.Sprintf("A copy arrives %d cycles after its start, the products of a turn take %d: %s. The matrix unit works %d of %d cycles (%d %%).",
		l.Latency, l.Work, l.Say(), busy, end, (100*busy+end/2)/end)
	y := s.para(pad, pad, s.w-2*pad, bigSize, s.ink, true, title)
	y = s.para(pad, y+2, s.w-2*pad, textSize, s.muted, false, desc) + 16
	step := 1
	for end/step > 12 {
		switch strconv.Itoa(step)[0] {
		case '2':
			step = step * 5 / 2
		default:
			step *= 2
		}
	}
	x := func(cycle int) int { return pad + names + cycle*width/end }
	top := y + 6
	rows := l.Stages + 1
	bottom := top + rows*(row+4) + 8
	s.text(pad+names-8, y, noteSize, s.muted, scene.End, false, "cycle")
	for c := 0; c <= end; c += step {
		s.text(x(c), y, noteSize, s.muted, scene.Middle, false, strconv.Itoa(c))
		s.areas = stroke(s.areas, s.line, 0.6, x(c), y+4, x(c), bottom)
	}
	at := func(r int) int {
		if r == l.Stages {
			return top + r*(row+4) + 8
		}
		return top + r*(row+4)
	}
	for r := range rows {
		name := fmt.Sprintf("stage %d", r)
		if r == l.Stages {
			name = "matrix unit"
		}
		s.area(s.quiet, pad+names, at(r), width, row)
		s.text(pad+names-8, at(r)+row/2+4, textSize, s.ink, scene.End, r == l.Stages, name)
	}
	put := func(id, label string, k, r, from, to int, fill string, words ...string) {
		if to <= from {
			return
		}
		px, py := x(from), at(r)+2
		w := max(2, x(to)-px-1)
		s.bar(fill, px, py, w, row-4)
		s.inside(px, py, w, row-4, fill, words...)
		s.ids = append(s.ids, layoutviz.Element{ID: id, X: px, Y: py, W: w, H: row - 4, Keys: []int{k}, Thread: r, Label: label})
	}
	last := 0
	for k, t := range turns {
		color := s.color(k)
		put(fmt.Sprintf("c%d", k), fmt.Sprintf("copy of turn %d into stage %d, from cycle %d to %d", k, t.Stage, t.Copy, t.Arrival), k, t.Stage, t.Copy, t.Arrival, mix(color, s.paper, 62), fmt.Sprintf("copy %d", k), strconv.Itoa(k))
		put(fmt.Sprintf("r%d", k), fmt.Sprintf("turn %d reads stage %d, from cycle %d to %d", k, t.Stage, t.Begin, t.End), k, t.Stage, t.Begin, t.End, color, fmt.Sprintf("turn %d", k), strconv.Itoa(k))
		put(fmt.Sprintf("w%d", k), fmt.Sprintf("the matrix unit waits for the tile of turn %d, from cycle %d to %d", k, last, t.Begin), k, l.Stages, last, t.Begin, mix(s.alarm, s.paper, 78), "waits")
		put(fmt.Sprintf("m%d", k), fmt.Sprintf("products of turn %d, from cycle %d to %d", k, t.Begin, t.End), k, l.Stages, t.Begin, t.End, color, strconv.Itoa(k))
		last = t.End
	}
	y = s.para(pad+names, bottom+8, width, noteSize, s.muted, false, "light: a copy on its way; full: products that read the stage; red: the matrix unit has nothing to do")
	return s.picture(y+pad, title, desc), nil
}
