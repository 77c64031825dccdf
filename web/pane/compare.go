package pane

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// maxDiff is how many elements of two layouts are drawn beside each other.
const maxDiff = 4096

// renderDiff draws where two layouts of a shape differ in who holds an element.
func renderDiff(value notation.Value, v Values) (Result, error) {
	l, err := value.Registers()
	if err != nil {
		return Result{}, located(err, "e", v["e"])
	}
	other, err := notation.Read(strings.TrimSpace(v["f"]))
	if err != nil {
		return Result{}, placed(err, "f", v["f"])
	}
	m, err := other.Registers()
	if err != nil {
		return Result{}, located(err, "f", v["f"])
	}
	if !slices.Equal(l.Shape(), m.Shape()) {
		return Result{}, diag.List{{Pos: at("f"), End: diag.Pos{File: "f", Line: 1, Col: len(v["f"]) + 1}, Code: "Pane.E30", Msg: fmt.Sprintf("this layout is of %s, the other of %s", tuple(m.Shape()), tuple(l.Shape())), Help: "compare layouts of the same shape"}}
	}
	if l.Size() > maxDiff || l.Rank() > 2 || l.Rank() == 0 {
		return Result{}, diag.List{{Pos: at("e"), Code: "Pane.E30", Msg: fmt.Sprintf("the layout has %d elements in %d dimensions; %d elements in up to two dimensions are compared", l.Size(), l.Rank(), maxDiff), Help: "open two panes beside each other: what is pointed at lights in both"}}
	}
	shape := l.Shape()
	rows, cols := 1, shape[len(shape)-1]
	if len(shape) == 2 {
		rows = shape[0]
	}
	in := inksOf(v["th"])
	fill := "#fde2b3"
	if darkSheet(v["th"]) {
		fill = "#5a4214"
	}
	const cell, high, top, left = 74, 36, 62, 44
	s := &scene.Scene{Paper: in.paper, W: max(left+cols*cell+20, 520), H: top + rows*high + 16}
	text := func(x, y int, size float64, color, anchor string, bold bool, words string) {
		s.Add(scene.Text{Y: y, Size: size, Color: color, Anchor: anchor, Bold: bold, Words: []scene.Word{{X: x, S: words}}})
	}
	text(16, 24, 13, in.ink, scene.Start, true, "Where others hold an element: thread:slot here, and below it there")
	var changed []scene.Box
	var lines []scene.Segment
	var ids []layoutviz.Element
	var words []scene.Item
	owner, place := 0, 0
	grid := layoutviz.Grid{Title: "difference", Head: []string{""}}
	for c := range cols {
		text(left+c*cell+cell/2, top-8, 10, in.muted, scene.Middle, false, strconv.Itoa(c))
		grid.Head = append(grid.Head, strconv.Itoa(c))
	}
	for r := range rows {
		text(left-8, top+r*high+high/2+4, 10, in.muted, scene.End, false, strconv.Itoa(r))
		line := []string{strconv.Itoa(r)}
		for c := range cols {
			index := []int{r, c}
			if len(shape) == 1 {
				index = []int{c}
			}
			a, b := l.Holders(index...)[0], m.Holders(index...)[0]
			x, y := left+c*cell, top+r*high
			label := fmt.Sprintf("%s is held by thread %d in slot %d in both", tuple(index), a.Thread, a.Slot)
			word := fmt.Sprintf("T%d:%d", a.Thread, a.Slot)
			if a == b {
				words = append(words, scene.Text{Y: y + high/2 + 4, Size: 11, Color: in.muted, Anchor: scene.Middle, Words: []scene.Word{{X: x + cell/2, S: word}}})
			} else {
				label = fmt.Sprintf("%s is held by thread %d in slot %d here, by thread %d in slot %d there", tuple(index), a.Thread, a.Slot, b.Thread, b.Slot)
				if place++; a.Thread != b.Thread {
					owner++
					changed = append(changed, scene.Box{X: x, Y: y, W: cell, H: high})
				}
				then := fmt.Sprintf("T%d:%d", b.Thread, b.Slot)
				words = append(words, scene.Text{Y: y + 15, Size: 11, Color: in.ink, Anchor: scene.Middle, Words: []scene.Word{{X: x + cell/2, S: word}}},
					scene.Text{Y: y + 29, Size: 11, Color: in.ink, Anchor: scene.Middle, Bold: true, Words: []scene.Word{{X: x + cell/2, S: then}}})
				word += " → " + then
			}
			line = append(line, word)
			lines = append(lines, scene.Segment{X1: x, Y1: y, X2: x + cell, Y2: y}, scene.Segment{X1: x, Y1: y, X2: x, Y2: y + high},
				scene.Segment{X1: x, Y1: y + high, X2: x + cell, Y2: y + high}, scene.Segment{X1: x + cell, Y1: y, X2: x + cell, Y2: y + high})
			ids = append(ids, layoutviz.Element{ID: fmt.Sprintf("e%d.%d", r, c), Label: label, X: x, Y: y, W: cell, H: high, Keys: []int{r*cols + c}, Thread: a.Thread, Slot: a.Slot, At: index})
		}
		grid.Rows = append(grid.Rows, line)
	}
	if len(changed) > 0 {
		s.Add(scene.Fills{Color: fill, Boxes: changed})
	}
	s.Add(scene.Strokes{Color: in.line, Width: 1, Segs: lines})
	for _, w := range words {
		s.Add(w)
	}
	say := fmt.Sprintf("%d of %d elements have another owner; %d more stand in another slot of the same thread.", owner, l.Size(), place-owner)
	if place == 0 {
		say = fmt.Sprintf("The two layouts are the same map of %d elements.", l.Size())
	}
	p := layoutviz.Made(s, "Difference of two layouts", say, ids)
	p.Grids = []layoutviz.Grid{grid}
	return Result{Pictures: []Picture{{Name: "difference", Picture: p}}, Sentence: say, Text: fmt.Sprintf("here   %s\nthere  %s\n", l, m)}, nil
}
