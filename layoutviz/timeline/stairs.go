package timeline

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Stairs draws the ticks of a kernel over the number of enabled compute units, on a
// logarithmic scale, for the three ways of dealing and enabling; at marks one number
// of units (0 for none). perSE is how many units a shader engine has.
func Stairs(list []dispatch.Stair, perSE, at int, title string, o layoutviz.Options) (layoutviz.Picture, error) {
	if len(list) == 0 || perSE < 1 {
		return layoutviz.Picture{}, fmt.Errorf("timeline: no staircase")
	}
	const width, height, left = 940, 400, 64
	s, err := newSheet(2*pad+left+width, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	kinds := []struct {
		name, color string
		of          func(dispatch.Stair) int
		width       float64
	}{
		{"packed, but the dealer may skip a full engine", mix(s.muted, s.paper, 50), func(x dispatch.Stair) int { return x.Skip }, 8}, // beneath others, which it may lie on
		{"distributed: one unit of each engine in turn", s.accent, func(x dispatch.Stair) int { return x.Distributed }, 2.5},
		{"packed: one engine after the other", s.alarm, func(x dispatch.Stair) int { return x.Packed }, 3.5},
	}
	lo, hi := math.MaxInt, 1
	for _, x := range list {
		for _, k := range kinds {
			lo, hi = min(lo, k.of(x)), max(hi, k.of(x))
		}
	}
	low, high := math.Floor(math.Log2(float64(max(1, lo)))), math.Ceil(math.Log2(float64(hi)))
	if high == low {
		high++
	}
	desc := fmt.Sprintf("From 1 to %d compute units.", len(list))
	step := func(i int) float64 { return float64(list[i].Packed) / float64(list[i-1].Packed) }
	worst := 1
	for i := 1; i < len(list); i++ {
		if worst >= len(list) || step(i) > step(worst) {
			worst = i
		}
	}
	if at > 1 && at <= len(list) && step(at-1) > 1 {
		worst = at - 1
	}
	if worst < len(list) && step(worst) > 1 {
		desc = fmt.Sprintf("%d units, packed: %d ticks. One more, and it is %d: %.1f times as long, because every engine in use gets as many blocks as the others, and the new one has a single unit.",
			list[worst-1].CUs, list[worst-1].Packed, list[worst].Packed, step(worst))
	}
	y := s.para(pad, pad, s.w-2*pad, bigSize, s.ink, true, title)
	y = s.para(pad, y+2, s.w-2*pad, textSize, s.muted, false, desc) + 14
	top := y + 20
	px := func(cus float64) int { return pad + left + int(cus*float64(width)/float64(len(list))) }
	py := func(ticks int) int {
		return top + int((high-math.Log2(float64(ticks)))*height/(high-low))
	}
	for e := low; e <= high; e++ {
		t := 1 << int(e)
		s.areas = stroke(s.areas, s.line, 0.8, px(0), py(t), px(float64(len(list))), py(t))
		s.text(pad+left-8, py(t)+4, noteSize, s.muted, scene.End, false, fmt.Sprint(t))
	}
	s.text(pad, top-12, noteSize, s.muted, scene.Start, false, "ticks (log)")
	for i := 0; i*perSE < len(list); i++ {
		if i%2 == 0 {
			s.area(s.quiet, px(float64(i*perSE)), top, px(float64(min(len(list), (i+1)*perSE)))-px(float64(i*perSE)), height)
		}
		s.text((px(float64(i*perSE))+px(float64(min(len(list), (i+1)*perSE))))/2, top-6, noteSize, s.muted, scene.Middle, false, fmt.Sprintf("packed: SE %d fills", i))
	}
	// Quiet areas lie below the lines of the scale.
	for i, j := 0, len(s.areas)-1; i < j; i, j = i+1, j-1 {
		s.areas[i], s.areas[j] = s.areas[j], s.areas[i]
	}
	for _, k := range kinds {
		for i, x := range list {
			a, b := px(float64(i)), px(float64(i+1))
			s.over = stroke(s.over, k.color, k.width, a, py(k.of(x)), b, py(k.of(x)))
			if i > 0 {
				s.over = stroke(s.over, k.color, k.width, a, py(k.of(list[i-1])), a, py(k.of(x)))
			}
		}
	}
	every := 1
	if len(list) > 32 {
		every = 5
	}
	for i, x := range list {
		if x.CUs == 1 || x.CUs%every == 0 {
			s.text((px(float64(i))+px(float64(i+1)))/2, top+height+16, noteSize, s.muted, scene.Middle, false, fmt.Sprint(x.CUs))
		}
		s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprintf("n%d", x.CUs), X: px(float64(i)), Y: top, W: px(float64(i+1)) - px(float64(i)), H: height,
			Label: fmt.Sprintf("%d units: packed %d ticks, distributed %d, packed and skipping %d", x.CUs, x.Packed, x.Distributed, x.Skip)})
	}
	s.text(px(float64(len(list))/2), top+height+34, textSize, s.ink, scene.Middle, false, "enabled compute units")
	if at > 0 && at <= len(list) {
		x := list[at-1]
		mid := (px(float64(at-1)) + px(float64(at))) / 2
		s.lines = stroke(s.lines, s.ink, 1, mid, top, mid, top+height)
		anchor, side := scene.Start, 10
		if at > len(list)*2/3 {
			anchor, side = scene.End, -10
		}
		// The highest value's words stand above its mark, the others' below.
		used := map[int]bool{}
		least := min(x.Packed, x.Distributed, x.Skip)
		for i := len(kinds) - 1; i >= 0; i-- {
			k := kinds[i]
			v := k.of(x)
			if used[v] {
				continue
			}
			used[v] = true
			s.over = fill(s.over, k.color, mid-5, py(v)-5, 10, 10)
			base, side, anchor := py(v)-9, side, anchor
			if v == least && v != x.Packed {
				// Below and to the left of falling lines there is room.
				base = py(v) + 22
				if at > len(list)/5 {
					side, anchor = -10, scene.End
				}
			} else if v == x.Distributed {
				continue // between the two; the marks say enough
			}
			s.text(mid+side, base, headSize, k.color, anchor, true, fmt.Sprintf("%s: %s", count(at, "CU"), count(v, "tick")))
		}
	}
	y = top + height + 44
	x := pad
	for i := len(kinds) - 1; i >= 0; i-- {
		k := kinds[i]
		s.bar(k.color, x, y+5, 22, 4)
		s.text(x+28, y+12, textSize, s.ink, scene.Start, false, k.name)
		x += 44 + scene.Width(k.name, textSize)
		if x > s.w-360 && i > 0 {
			x, y = pad, y+18
		}
	}
	y = s.para(pad, y+22, s.w-2*pad, tinySize, s.muted, false, "Provenance: dealing in order is measured (paper: Otterness, Anderson 2021); the ticks are derived by simulation and equal the closed formula; that engines without units are left out is assumed.")
	return s.picture(y+pad, title, desc), nil
}
