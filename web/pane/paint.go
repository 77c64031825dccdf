package pane

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// What the workbench shows, and where its access comes from.
const (
	bankCounts = "banks"
	bankPaint  = "paint the access"
	bankSolve  = "placements to choose"
	bankOwn    = "the text"
)

// pick is an access that people meet.
type pick struct{ name, text string }

func picks() []pick {
	return []pick{
		{"a row, 4 bytes a lane", "load 4: lane*4"},
		{"a column of f32 in rows of 128 bytes", "load 4: lane*128"},
		{"every second word", "load 4: lane*8"},
		{"the same word for all", "load 4: 64"},
		{"16 bytes a lane, in a row", "load 16: lane*16"},
		{"16 bytes a lane, down a column", "store 16: lane%8*128 + lane/8*16"},
		{"transposing f16 in a tile of 32×32", "store 2: lane*64"},
		{"ldmatrix.x4 of rows of 128 bytes", "ldmatrix.x4: lane%16*128 + lane/16*16"},
		{"ldmatrix.x4 of rows of 64 bytes", "ldmatrix.x4: lane%16*64 + lane/16*16"},
	}
}

func pickNames() []string {
	var out []string
	for _, p := range picks() {
		out = append(out, p.name)
	}
	return out
}

// pickTexts are the accesses by name.
func pickTexts() Values {
	out := Values{}
	for _, p := range picks() {
		out[p.name] = p.text
	}
	return out
}

// paintRows is how many rows of a tile can be painted.
const paintRows = 16

// paint draws a tile whose cells are as wide as the access; choosing one gives it to
// the next lane that is free, or takes it from its lane.
func paint(a bank.Access, lanes, row int, o layoutviz.Options) Picture {
	in := inksOf(o.Theme)
	width := a.Width
	// Rows of whole cells, no more than a screen takes.
	cols := max(1, min(32, row/width))
	bytes := cols * width
	owner := map[int][]int{}
	all := make([]int, lanes)
	for l := range all {
		all[l] = bank.Inactive
		if l < len(a.Addrs) {
			all[l] = a.Addrs[l]
		}
		if all[l] != bank.Inactive {
			owner[all[l]] = append(owner[all[l]], l)
		}
	}
	kind := a.Kind
	if kind != bank.Load && kind != bank.Store {
		kind = bank.Load // single rows of matrices are no access
	}
	write := func(addrs []int) string {
		words := make([]string, len(addrs))
		for i, x := range addrs {
			if words[i] = strconv.Itoa(x); x == bank.Inactive {
				words[i] = "_"
			}
		}
		return fmt.Sprintf("%s %d: %s", kind, width, strings.Join(words, ", "))
	}
	// changed is the access after a cell was chosen.
	changed := func(addr int) string {
		next := append([]int(nil), all...)
		if on := owner[addr]; len(on) > 0 {
			for _, l := range on {
				next[l] = bank.Inactive
			}
			return write(next)
		}
		for l, x := range next {
			if x == bank.Inactive {
				next[l] = addr
				return write(next)
			}
		}
		return ""
	}
	colors := layoutviz.Palettes()[0].Colors
	cell := max(30, min(64, 860/cols))
	const high, top, left = 30, 62, 64
	s := &scene.Scene{Paper: in.paper, W: left + cols*cell + 20, H: top + paintRows*high + 20}
	s.W = max(s.W, 520)
	text := func(x, y int, size float64, color, anchor string, bold bool, words string) {
		s.Add(scene.Text{Y: y, Size: size, Color: color, Anchor: anchor, Bold: bold, Words: []scene.Word{{X: x, S: words}}})
	}
	title := fmt.Sprintf("Rows of %d bytes, %d bytes a cell; a cell holds the lane that accesses it", bytes, width)
	text(16, 24, 14, in.ink, scene.Start, true, title)
	s.W = max(s.W, scene.Width(title, 14)+32)
	var ids []layoutviz.Element
	to := map[string]Values{}
	box := func(id, label string, x, y, w, h int, next string) {
		ids = append(ids, layoutviz.Element{ID: id, Label: label, X: x, Y: y, W: w, H: h, Keys: []int{len(ids) + 1}, Thread: -1})
		if next != "" {
			to[id] = Values{"a": next, "k": bankOwn}
		}
	}
	s.Add(scene.Fills{Color: in.quiet, Boxes: []scene.Box{{X: 16, Y: 34, W: 84, H: 22}}})
	text(58, 49, 12, in.ink, scene.Middle, true, "clear all")
	one := make([]int, lanes)
	for l := range one {
		one[l] = bank.Inactive
	}
	one[0] = 0
	box("clear", "only lane 0 stays, at byte 0", 16, 34, 84, 22, write(one))
	var segs []scene.Segment
	for r := range paintRows {
		y := top + r*high
		text(left-8, y+high/2+4, 11, in.muted, scene.End, false, strconv.Itoa(r*bytes))
		for c := range cols {
			addr, x := r*bytes+c*width, left+c*cell
			label := fmt.Sprintf("byte %d: no lane; choosing it gives it to the next one", addr)
			if on := owner[addr]; len(on) > 0 {
				fill := colors[on[0]%len(colors)]
				ink := "#1b1f24"
				if o.Theme == "dark" {
					fill, ink = scene.Mix(fill, "#000000", 52), "#ffffff"
				}
				s.Add(scene.Fills{Color: fill, Boxes: []scene.Box{{X: x, Y: y, W: cell, H: high}}})
				word := fmt.Sprint("T", on[0])
				if len(on) > 1 {
					word += "+"
				}
				text(x+cell/2, y+high/2+4, 11, ink, scene.Middle, false, word)
				label = fmt.Sprintf("byte %d: lane %d; choosing it takes it away", addr, on[0])
			}
			box(fmt.Sprintf("c%d.%d", r, c), label, x, y, cell, high, changed(addr))
		}
	}
	for r := 0; r <= paintRows; r++ {
		segs = append(segs, scene.Segment{X1: left, Y1: top + r*high, X2: left + cols*cell, Y2: top + r*high})
	}
	for c := 0; c <= cols; c++ {
		segs = append(segs, scene.Segment{X1: left + c*cell, Y1: top, X2: left + c*cell, Y2: top + paintRows*high})
	}
	s.Add(scene.Strokes{Color: in.line, Width: 1, Segs: segs})
	p := layoutviz.Made(s, "The access, to be painted", fmt.Sprintf("%d rows of %d cells.", paintRows, cols), ids)
	return Picture{Name: "paint", Picture: p, Go: to}
}

// maxSolutions is how many placements of a level can be chosen.
const maxSolutions = 12

// solutions lists what a search found; choosing a swizzle sets the sliders.
func solutions(r *bank.Result, v Values) (Picture, error) {
	var rows [][]string
	var which []layout.Swizzle // of each row; its Bits are -1 for what is no swizzle
	marked := -1
	for _, l := range r.Levels {
		for i, t := range l.Ties {
			if i == maxSolutions {
				break
			}
			sw := layout.Swizzle{Bits: -1}
			if len(t.Swizzles) == 1 {
				sw = t.Swizzles[0]
			}
			if sw.Bits >= 0 && fmt.Sprint(sw.Bits, sw.Base, sw.Shift) == v["b"]+" "+v["m"]+" "+v["s"] {
				marked = len(rows)
			}
			free := "free of conflicts"
			if l.Best > r.Ideal {
				free = plural(l.Best-r.Ideal, "wavefront") + " too many"
			}
			rows, which = append(rows, []string{t.String(), l.Name, plural(l.Best, "wavefront"), free}), append(which, sw)
		}
	}
	pic, err := layoutviz.Rows(fmt.Sprintf("As it is: %s; at best %d", plural(r.Identity, "wavefront"), r.Ideal), []string{"placement", "kind", "cost", ""}, rows, marked, v.look())
	if err != nil {
		return Picture{}, err
	}
	for i := range pic.IDs {
		pic.IDs[i].ID = "sol" + pic.IDs[i].ID
		pic.IDs[i].Keys = nil
	}
	return Picture{Name: "placements", Picture: pic}.going(func(e layoutviz.Element) Values {
		n, err := strconv.Atoi(strings.TrimPrefix(e.ID, "solrow"))
		if err != nil || n >= len(which) || which[n].Bits < 0 || which[n].Shift < 1 {
			return nil
		}
		return Values{"b": strconv.Itoa(which[n].Bits), "m": strconv.Itoa(which[n].Base), "s": strconv.Itoa(which[n].Shift)}
	}), nil
}
