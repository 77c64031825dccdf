package theatre

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// What the machines say of a step that goes wrong.
var (
	faultElement = regexp.MustCompile(`element \[([\d, ]+)\]`)
	faultOutside = regexp.MustCompile(`elements (-?\d+) to (-?\d+) of dimension (\d+) of \S+, which has (\d+)`)
	faultThread  = regexp.MustCompile(`thread (\d+)`)
)

// maxFault is the most rows and columns of a tile in which a fault is drawn.
const maxFault = 64

// Fault draws the register tile of the step that goes wrong: the element that the
// message names, the elements that lie outside of what is accessed, and those of the
// threads that meet. ok is false where the step has no such tile.
func Fault(p *ir.Program, bad diag.Problem, o layoutviz.Options) (pic layoutviz.Picture, ok bool) {
	line := bad.Pos.Line
	var tile *ir.Var
	p.Body.Walk(func(s ir.Stmt) bool {
		in, is := s.(*ir.Instr)
		if !is || in.Pos.Line != line || tile != nil {
			return true
		}
		vars := append([]*ir.Var(nil), in.Out...)
		for _, x := range in.In {
			vars = append(vars, x.Var())
		}
		for _, v := range vars {
			if v != nil && v.Type.IsRegister() && v.Type.HasLayout {
				tile = v
				break
			}
		}
		return true
	})
	if tile == nil {
		return pic, false
	}
	l := tile.Type.Layout
	shape := l.Shape()
	rows, cols := 1, 1
	switch len(shape) {
	case 1:
		// A row of a screen's width after the other.
		cols = min(32, shape[0])
		rows = (shape[0] + cols - 1) / cols
	case 2:
		rows, cols = shape[0], shape[1]
	default:
		return pic, false
	}
	if rows > maxFault || cols > maxFault {
		return pic, false
	}
	index := func(r, c int) ([]int, bool) {
		if len(shape) == 1 {
			return []int{r*cols + c}, r*cols+c < shape[0]
		}
		return []int{r, c}, true
	}
	var accused []int
	if m := faultElement.FindStringSubmatch(bad.Msg); m != nil {
		for s := range strings.SplitSeq(m[1], ", ") {
			n, _ := strconv.Atoi(s)
			accused = append(accused, n)
		}
	}
	dim, from, most := -1, 0, 0
	if m := faultOutside.FindStringSubmatch(bad.Msg); m != nil {
		from, _ = strconv.Atoi(m[1])
		dim, _ = strconv.Atoi(m[3])
		most, _ = strconv.Atoi(m[4])
		// Dimensions of a tile are the last ones of what it is a part of.
		if dim >= len(shape) {
			dim = len(shape) - 1
		}
	}
	var meet []int // threads
	for _, m := range faultThread.FindAllStringSubmatch(bad.Msg, 2) {
		n, _ := strconv.Atoi(m[1])
		meet = append(meet, n)
	}
	k, err := newStage(0, 0, o)
	if err != nil {
		return pic, false
	}
	alarm, first, second := k.alarm, "#f7c6cf", "#fde2b3"
	if inkOn(k.scene.Paper) == "#ffffff" {
		first, second = "#5c1f2b", "#5a4214"
	}
	const cell, high, top, left = 38, 30, 74, 40
	s := &scene.Scene{Paper: k.scene.Paper}
	text := func(x, y int, size float64, color, anchor string, bold bool, words string) {
		s.Add(scene.Text{Y: y, Size: size, Color: color, Anchor: anchor, Bold: bold, Words: []scene.Word{{X: x, S: words}}})
	}
	title := fmt.Sprintf("%s, the tile of line %d: %s", tile.Name, line, l)
	lines := scene.Wrap(bad.Msg, 92)
	s.W = max(left+cols*cell+20, 480, scene.Width(title, 14)+32)
	for _, x := range lines {
		s.W = max(s.W, scene.Width(x, 12)+32)
	}
	text(16, 24, 14, k.ink, scene.Start, true, title)
	y0 := top + 16*(len(lines)-1)
	for i, x := range lines {
		text(16, 44+16*i, 12, alarm, scene.Start, false, x)
	}
	var ids []layoutviz.Element
	var ring []scene.Segment
	frames := []scene.Segment{}
	out, met := 0, 0
	for r := range rows {
		text(left-8, y0+r*high+high/2+4, 11, k.muted, scene.End, false, strconv.Itoa(r*map[bool]int{true: cols, false: 1}[len(shape) == 1]))
		for c := range cols {
			at, is := index(r, c)
			if !is {
				continue
			}
			h := l.Holders(at...)
			if len(h) == 0 {
				continue
			}
			x, y := left+c*cell, y0+r*high
			label := fmt.Sprintf("%s is held by thread %d in slot %d", tupleOf(at), h[0].Thread, h[0].Slot)
			outside := dim >= 0 && (from+at[dim] >= most || from+at[dim] < 0)
			the := slices.Equal(at, accused)
			fill, ink := "", k.muted
			for _, x := range h {
				if n := slices.Index(meet, x.Thread); n >= 0 && fill == "" {
					fill, ink = []string{first, second}[n], k.ink
					met++
				}
			}
			switch {
			case outside:
				fill, ink = first, k.ink
				label += "; it lies outside"
				out++
			case the:
				label += "; here it goes wrong"
			}
			if fill != "" {
				s.Add(scene.Fills{Color: fill, Boxes: []scene.Box{{X: x, Y: y, W: cell, H: high}}})
			}
			if the || outside {
				ring = append(ring, scene.Segment{X1: x + 2, Y1: y + 2, X2: x + cell - 2, Y2: y + 2}, scene.Segment{X1: x + 2, Y1: y + high - 2, X2: x + cell - 2, Y2: y + high - 2},
					scene.Segment{X1: x + 2, Y1: y + 2, X2: x + 2, Y2: y + high - 2}, scene.Segment{X1: x + cell - 2, Y1: y + 2, X2: x + cell - 2, Y2: y + high - 2})
			}
			frames = append(frames, scene.Segment{X1: x, Y1: y, X2: x + cell, Y2: y}, scene.Segment{X1: x, Y1: y, X2: x, Y2: y + high},
				scene.Segment{X1: x, Y1: y + high, X2: x + cell, Y2: y + high}, scene.Segment{X1: x + cell, Y1: y, X2: x + cell, Y2: y + high})
			text(x+cell/2, y+high/2+4, 11, ink, scene.Middle, the || outside, fmt.Sprint("T", h[0].Thread))
			ids = append(ids, layoutviz.Element{ID: "f" + strings.Trim(strings.ReplaceAll(tupleOf(at), ", ", "."), "()"), Label: label, X: x, Y: y, W: cell, H: high, Keys: []int{1<<26 + len(ids)}, Thread: h[0].Thread, Slot: h[0].Slot, At: at})
		}
	}
	s.Add(scene.Strokes{Color: k.line, Width: 1, Segs: frames})
	if len(ring) > 0 {
		s.Add(scene.Strokes{Color: alarm, Width: 3, Segs: ring})
	}
	for c := range cols {
		text(left+c*cell+cell/2, y0-6, 11, k.muted, scene.Middle, false, strconv.Itoa(c))
	}
	s.H = y0 + rows*high + 16
	desc := bad.Msg + "."
	if out > 0 {
		desc += fmt.Sprintf(" %s of the tile lie outside.", plural(out, "element"))
	}
	if len(meet) > 0 && met > 0 {
		read := fmt.Sprintf("The elements of thread %d stand on red", meet[0])
		if len(meet) > 1 {
			read += fmt.Sprintf(", those of thread %d on yellow", meet[1])
		}
		read += "."
		desc += " " + read
		text(16, s.H+4, 11, k.muted, scene.Start, false, read)
		s.H += 18
	}
	return layoutviz.Made(s, "Where it goes wrong", desc, ids), true
}

func tupleOf(index []int) string {
	parts := make([]string, len(index))
	for i, n := range index {
		parts[i] = strconv.Itoa(n)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}
