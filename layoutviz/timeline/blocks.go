package timeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// ran is a block of a measured trace.
type ran struct {
	id, cause  int // events; cause -1 where it had room at once
	kernel     int
	block, sm  string
	start, end int64
	lane       int
	text       string
}

// Blocks draws the blocks that a GPU ran, as [Gantt] draws those of the model: a row
// for each multiprocessor, a bar for each block from its entry to its exit. now is a
// moment in µs, -1 for none; what lies behind it is faint. A block and the one that
// made room for it share a key.
func Blocks(t *trace.Trace, now int, o layoutviz.Options) (layoutviz.Picture, error) {
	if t.Unit != "ns" {
		return layoutviz.Picture{}, fmt.Errorf("timeline: a trace in %ss; blocks of a GPU are measured in ns", t.Unit)
	}
	var kernels []string
	var runs []ran
	var rows []string // SMs
	index := map[string]int{}
	for _, k := range t.Tracks {
		if k.Group == "SMs" {
			index[k.Name] = len(rows)
			rows = append(rows, k.Name)
		}
	}
	for _, e := range t.Events {
		switch e.Kind {
		case "kernel":
			kernels = append(kernels, e.About["kernel"])
		case "block":
			r := ran{id: e.ID, cause: -1, kernel: slices.Index(kernels, e.About["kernel"]), block: e.About["block"], sm: t.Tracks[e.Track].Name, start: e.Start, end: e.End, text: e.Text}
			if _, ok := index[r.sm]; !ok || r.kernel < 0 {
				return layoutviz.Picture{}, fmt.Errorf("timeline: event %d is of no SM or kernel", e.ID)
			}
			for _, c := range e.Causes {
				if t.Events[c].Kind == "block" {
					r.cause = c
				}
			}
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 || len(runs) > 1<<15 {
		return layoutviz.Picture{}, fmt.Errorf("timeline: %d blocks; there must be 1 to %d", len(runs), 1<<15)
	}
	// A block takes the lowest lane of its SM that is free.
	free := make([][]int64, len(rows))
	most := 1
	for i := range runs {
		r := &runs[i]
		lanes := free[index[r.sm]]
		for r.lane < len(lanes) && lanes[r.lane] > r.start {
			r.lane++
		}
		if r.lane == len(lanes) {
			lanes = append(lanes, 0)
		}
		lanes[r.lane] = r.end
		free[index[r.sm]] = lanes
		most = max(most, len(lanes))
	}
	s, err := newSheet(2*pad+labels+plot, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	desc := said(t, runs, len(rows), most)
	y := s.para(pad, pad, s.w-2*pad, bigSize, s.ink, true, t.Title)
	y = s.para(pad, y+2, s.w-2*pad, textSize, s.muted, false, desc)
	y = s.para(pad, y, s.w-2*pad, noteSize, s.accent, false, strings.Trim(t.Machine+", "+t.Made, ", ")) + 14
	end := max(t.End, 1)
	x := func(ns int64) int { return pad + labels + int(ns*plot/end) }
	step := int64(1000)
	for end/step > 14 {
		if strings.HasPrefix(strconv.FormatInt(step, 10), "2") {
			step = step * 5 / 2
		} else {
			step *= 2
		}
	}
	s.text(pad+labels-8, y, noteSize, s.muted, scene.End, false, "µs")
	lane := max(3, min(14, 780/(len(rows)*most)))
	h := lane*most + 1
	bottom := y + 6 + h*len(rows)
	for ns := int64(0); ns <= end; ns += step {
		s.text(x(ns), y, noteSize, s.muted, scene.Middle, false, strconv.FormatInt(ns/1000, 10))
		s.areas = stroke(s.areas, s.line, 0.6, x(ns), y+4, x(ns), bottom)
	}
	top := y + 6
	every := max(1, (14+h-1)/h)
	if every > 1 {
		every = (every + 3) / 4 * 4
	}
	for i, name := range rows {
		s.area(s.quiet, pad+labels, top+i*h, plot, h-1)
		if i%every == 0 {
			s.text(pad+labels-8, top+i*h+max(h/2+4, 8), tinySize, s.muted, scene.End, false, name)
		}
	}
	limit := int64(now) * 1000
	typical := middle(runs)
	for _, r := range runs {
		color := s.color(r.kernel)
		if r.end-r.start > 2*typical[r.kernel] {
			color = mix(color, s.ink, 38)
		}
		if now >= 0 && r.start > limit {
			color = mix(color, s.paper, 78)
		}
		px, py := x(r.start), top+index[r.sm]*h+r.lane*lane
		w := max(2, x(r.end)-px-1)
		high := max(2, lane-1)
		if now >= 0 && r.start <= limit && r.end > limit {
			cut := max(1, x(limit)-px)
			s.bar(color, px, py, min(cut, w), high)
			s.bar(mix(color, s.paper, 60), px+cut, py, max(1, w-cut), high)
		} else {
			s.bar(color, px, py, w, high)
		}
		s.inside(px, py, w, high, color, r.block)
		e := layoutviz.Element{ID: fmt.Sprintf("b%d", r.id), X: px, Y: py, W: w, H: high, Keys: []int{r.id}, Thread: index[r.sm],
			Label: fmt.Sprintf("%s, from %.1f to %.1f µs [measured]", r.text, float64(r.start)/1000, float64(r.end)/1000)}
		if r.cause >= 0 {
			e.Keys = append(e.Keys, r.cause)
		}
		s.ids = append(s.ids, e)
	}
	if now >= 0 {
		s.over = stroke(s.over, s.accent, 2, x(min(limit, end)), top, x(min(limit, end)), bottom)
	}
	y = bottom + 8
	px := pad + labels
	for i, name := range kernels {
		n := 0
		for _, r := range runs {
			if r.kernel == i {
				n++
			}
		}
		words := fmt.Sprintf("%s: %s", name, count(n, "block"))
		s.bar(s.color(i), px, y, 12, 11)
		s.text(px+17, y+10, noteSize, s.ink, scene.Start, false, words)
		px += 34 + scene.Width(words, noteSize)
	}
	if slices.ContainsFunc(runs, func(r ran) bool { return r.end-r.start > 2*typical[r.kernel] }) {
		s.text(px, y+10, noteSize, s.muted, scene.Start, false, "darker: more than twice as long as usual")
	}
	y = s.para(pad, y+20, s.w-2*pad, tinySize, s.muted, false, "Provenance: SM, entry and exit: measured on the GPU, by the first thread of each block. Which block made room: derived. Nothing here is modelled.")
	return s.picture(y+pad, t.Title, desc), nil
}

// middle is the median time of the blocks of each kernel.
func middle(runs []ran) map[int]int64 {
	times := map[int][]int64{}
	for _, r := range runs {
		times[r.kernel] = append(times[r.kernel], r.end-r.start)
	}
	out := map[int]int64{}
	for k, list := range times {
		slices.Sort(list)
		out[k] = list[len(list)/2]
	}
	return out
}

// said is what matters about measured blocks.
func said(t *trace.Trace, runs []ran, sms, most int) string {
	var work, last int64
	used := map[string]bool{}
	for _, r := range runs {
		work += r.end - r.start
		last = max(last, r.start)
		used[r.sm] = true
	}
	// What stands empty while blocks are still to come.
	var busy int64
	for _, r := range runs {
		busy += min(r.end, last) - min(r.start, last)
	}
	out := fmt.Sprintf("%s on %d of %d SMs, up to %d at a time on each, in %.0f µs.", count(len(runs), "block"), len(used), sms, most, float64(t.End)/1000)
	several := false
	for _, r := range runs {
		several = several || r.kernel > 0
	}
	if several {
		return out + " Blocks of the second kernel go where those of the first left room."
	}
	if last > 0 {
		out += fmt.Sprintf(" Until the last block has entered, at %.0f µs, %.0f%% of the places are taken: a block goes where room is, not where its number says.", float64(last)/1000, 100*float64(busy)/float64(last*int64(sms*most)))
	}
	return out
}
