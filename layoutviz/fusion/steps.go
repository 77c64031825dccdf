package fusion

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/affine"
)

// maxShownSteps is how many steps of a simplification are drawn.
const maxShownSteps = 40

// Steps draws how a map becomes simpler: before, after, and between them each step with the
// rule and the facts that decide it. Below stands the proof by evaluation at every point.
func Steps(m affine.Map, o layoutviz.Options) (layoutviz.Picture, error) {
	const w = 900
	s, err := newSheet(w, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	out, steps := m.Explain()
	title := "A map becomes simpler"
	desc := fmt.Sprintf("%d steps; each keeps every point of the map.", len(steps))
	if len(steps) == 0 {
		desc = "The map is as simple as it gets."
	}
	y := s.para(pad, pad, w-2*pad, bigSize, s.ink, true, title)
	y = s.para(pad, y+2, w-2*pad, noteSize, s.muted, false, desc) + 8
	whole := func(name string, m affine.Map, color string) {
		top := y
		s.text(pad+10, y+17, noteSize, s.on(color), scene.Start, true, name)
		y = s.para(pad+10, y+20, w-2*pad-20, textSize, s.on(color), false, m.String()) + 6
		s.box(color, pad, top, w-2*pad, y-top)
		y += 14
	}
	whole("before", m, s.tint(1))
	for i, step := range steps {
		if i == maxShownSteps {
			y = s.para(pad+30, y, w-2*pad, noteSize, s.muted, false, fmt.Sprintf("… and %d more steps", len(steps)-i)) + 10
			break
		}
		top := y
		s.text(pad+20, y+14, noteSize, s.muted, scene.End, true, fmt.Sprint(i+1))
		y = s.para(pad+34, y, w-2*pad-40, noteSize, s.accent, true, step.Rule)
		y = s.para(pad+34, y+2, w-2*pad-40, textSize, s.muted, false, step.Before)
		if step.After != "" {
			y = s.para(pad+34, y, w-2*pad-40, textSize, s.ink, true, "→ "+step.After)
		}
		if step.Facts != "" {
			y = s.para(pad+34, y, w-2*pad-40, tinySize, s.muted, false, "with "+step.Facts)
		}
		s.stroke(s.accent, 2.5, pad+27, top+4, pad+27, y)
		s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprintf("s%d", i+1), Label: fmt.Sprintf("step %d, %s: %s becomes %s", i+1, step.Rule, step.Before, step.After),
			X: pad, Y: top, W: w - 2*pad, H: y - top})
		y += 12
	}
	whole("after", out, s.tint(2))
	proof := affine.Prove(m)
	text := fmt.Sprintf("Proved: both give the same results at all %d points.", proof.Points)
	if proof.Err != nil {
		text = "Not proved by enumeration: " + proof.Err.Error()
	}
	y = s.para(pad, y, w-2*pad, noteSize, s.ink, true, text)
	return s.picture(y+pad, title, desc+" "+text), nil
}
