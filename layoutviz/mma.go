package layoutviz

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Fragment is one operand of a matrix instruction, or one side of a copy: its name,
// its register layout, and words that stand with it.
type Fragment struct {
	Name   string
	Layout layout.Layout // [rows, columns], [block, rows, columns], or one row
	Note   string

	base int // of the keys of its elements
}

// keyStep keeps the keys of different things apart in one picture.
const keyStep = 1 << 24

// tile is the table of one block of a fragment.
func (f Fragment) tile(c *canvas, block int, labelled, linked bool, longest string) (table, error) {
	shape := f.Layout.Shape()
	prefix := f.Name
	var lead []int
	switch {
	case len(shape) == 3:
		lead = []int{block}
		prefix = fmt.Sprintf("%s%d.", f.Name, block)
		shape = shape[1:]
	case len(shape) == 1:
		shape = []int{1, shape[0]}
	case len(shape) != 2:
		return table{}, fmt.Errorf("layoutviz: %s is %s of rank %d; a fragment has rank 2, or 3 with blocks", f.Name, f.Layout, len(shape))
	}
	t := table{name: f.Name, rows: shape[0], cols: shape[1], small: true, twoLines: true, labelled: labelled, linked: linked, longest: longest,
		rowHead: func(r int) string { return fmt.Sprint(r) }, colHead: func(i int) string { return fmt.Sprint(i) }}
	l := f.Layout
	t.cell = func(r, i int) cell {
		at := append(append([]int{}, lead...), r, i)
		if l.Rank() == 1 {
			at = at[1:]
		}
		hold := l.Holders(at...)
		if len(hold) == 0 {
			return cell{fills: []string{c.paper}}
		}
		e := cell{id: fmt.Sprintf("%s%d.%d", prefix, r, i), keys: []int{f.base + l.FlatIndex(hold[0].Thread, hold[0].Slot)}, thread: hold[0].Thread, slot: hold[0].Slot, at: at, also: hold[1:]}
		if everyone(l) {
			// Not in registers: what stands in the tile is the number of the element.
			e.fills, e.top, e.also = []string{c.quiet}, fmt.Sprint(hold[0].Slot), nil
			e.label = fmt.Sprintf("%s %s is element %d for every lane", f.Name, tuple(at), hold[0].Slot)
			return e
		}
		for _, h := range hold[:min(len(hold), maxShown)] {
			e.fills = append(e.fills, c.of(h.Thread))
		}
		if labelled {
			e.top, e.bottom = holderText(hold), fmt.Sprint(hold[0].Slot)
		}
		if linked {
			e.label = fmt.Sprintf("%s %s is held by %s in slot %d: %s", f.Name, tuple(at), threadList(hold), hold[0].Slot, formula(l, hold[0]))
		}
		return e
	}
	return t, nil
}

// formula is how the row and the column of an element follow from its holder.
func formula(l layout.Layout, h layout.Holder) string {
	names := []string{"block", "row", "column"}
	all := l.Formula(h.Thread, h.Slot)
	var parts []string
	for i, f := range all {
		parts = append(parts, names[len(names)-len(all)+i]+" "+f)
	}
	return strings.Join(parts, ", ")
}

// holderText is "T5", or "T5+3" for thread 5 and three more places.
func holderText(hold []layout.Holder) string {
	if len(hold) == 1 {
		return fmt.Sprint("T", hold[0].Thread)
	}
	return fmt.Sprintf("T%d+%d", hold[0].Thread, len(hold)-1)
}

// everyone says whether every one of several lanes holds every element, as the
// catalogue has it for operands that lie in memory.
func everyone(l layout.Layout) bool { return l.Threads() > 1 && l.Replicas() == l.Threads() }

// longestHolder is the longest holderText of a layout.
func longestHolder(l layout.Layout) string {
	if everyone(l) {
		return fmt.Sprint(l.Slots() - 1)
	}
	s := fmt.Sprint("T", l.Threads()-1)
	if r := l.Replicas(); r > 1 {
		s += fmt.Sprint("+", r-1)
	}
	return s
}

// MMA draws the operands of a matrix instruction in the arrangement of a
// product by hand: A at the bottom left, B at the top right, C at the bottom right,
// in our colours and texts, with every replica shown. A may have half the columns,
// where it is stored without its zeros (2:4 sparse). An instruction that makes
// several products (blocks) has one drawing for each. Further fragments, such as
// sparsity metadata, stand below.
func MMA(name string, a, b, cd Fragment, more []Fragment, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	a.base, b.base, cd.base = 0, keyStep, 2*keyStep
	for i := range more {
		more[i].base = (3 + i) * keyStep
	}
	blocks, size, longest := 1, 0, ""
	for _, f := range append([]Fragment{a, b, cd}, more...) {
		size += f.Layout.Size()
		if s := longestHolder(f.Layout); len(s) > len(longest) {
			longest = s
		}
		if f.Layout.Rank() == 3 {
			blocks = max(blocks, f.Layout.Shape()[0])
		}
	}
	labelled, linked := size <= maxLabelled, size <= maxLinked
	if size > 8*maxCells {
		return Picture{}, fmt.Errorf("layoutviz: the operands of %s have %d elements; the most is %d", name, size, 8*maxCells)
	}
	desc := fmt.Sprintf("%s: A is %s, B is %s, C is %s.", name, a.Layout, b.Layout, cd.Layout)
	caption := []string{name}
	for _, f := range append([]Fragment{a, b, cd}, more...) {
		line := fmt.Sprintf("%s [%s] %s", f.Name, joinInts(f.Layout.Shape()), f.Layout)
		if f.Note != "" {
			line += " – " + f.Note
		}
		caption = append(caption, line)
	}
	if labelled {
		var all []layout.Layout
		for _, f := range append([]Fragment{a, b, cd}, more...) {
			all = append(all, f.Layout)
		}
		caption = append(caption, legendOf(all...))
	}
	type page struct{ a, b, c table }
	var pages []page
	for k := range blocks {
		var p page
		for _, x := range []struct {
			t *table
			f Fragment
		}{{&p.a, a}, {&p.b, b}, {&p.c, cd}} {
			at := k
			if x.f.Layout.Rank() == 3 {
				at = k % x.f.Layout.Shape()[0]
			}
			if *x.t, err = x.f.tile(c, at, labelled, linked, longest); err != nil {
				return Picture{}, err
			}
			if blocks > 1 {
				x.t.name = fmt.Sprintf("%s, block %d", x.f.Name, k)
			}
		}
		p.a.heading, p.a.rowAxis, p.a.colAxis = a.Name, "m", "k"
		p.b.heading, p.b.rowAxis, p.b.colAxis = b.Name, "k", "n"
		p.c.heading, p.c.rowAxis, p.c.colAxis = cd.Name, "m", "n"
		pages = append(pages, p)
	}
	p0 := pages[0]
	if p0.a.rows != p0.c.rows || p0.b.cols != p0.c.cols || p0.a.cols != p0.b.rows && 2*p0.a.cols != p0.b.rows {
		return Picture{}, fmt.Errorf("layoutviz: A is %d×%d, B %d×%d, C %d×%d; they make no product", p0.a.rows, p0.a.cols, p0.b.rows, p0.b.cols, p0.c.rows, p0.c.cols)
	}
	const gap = 20
	ea, eb, ec := p0.a.extent(), p0.b.extent(), p0.c.extent()
	left := max(eb.left, ec.left)
	pageW, pageH := ea.w+gap+left+ec.cells, eb.h+gap+ec.h
	across := 1
	for across < blocks && (across+1)*(pageW+2*gap) <= max(1500, pageW) {
		across++
	}
	c.w = max(2*pad+across*(pageW+2*gap)-2*gap, 360)
	y := pad
	if !o.NoCaption {
		c.grow(caption)
		y = c.caption(caption, y)
	}
	for k, p := range pages {
		x := pad + k%across*(pageW+2*gap)
		if k > 0 && k%across == 0 {
			y += pageH + 2*gap
		}
		if blocks > 1 {
			c.text(x, y+14, topSize, c.ink, scene.Start, true, fmt.Sprint("block ", k))
		}
		xc := x + ea.w + gap
		p.b.place(c, xc+left-eb.left, y)
		p.a.place(c, x, y+eb.h+gap)
		p.c.place(c, xc+left-ec.left, y+eb.h+gap)
	}
	y += pageH + pad
	for _, f := range more {
		for k := range max(1, f.Layout.Size()/max(1, lastTwo(f.Layout))) {
			t, err := f.tile(c, k, labelled, linked, longest)
			if err != nil {
				return Picture{}, err
			}
			t.heading, t.rowAxis, t.colAxis = f.Name, "row", "column"
			e := t.extent()
			c.w = max(c.w, e.w+2*pad)
			t.place(c, pad, y)
			y += e.h + pad
		}
	}
	c.h = y
	if !labelled {
		c.h = c.notes(c.h, "Too many elements for texts: the colour is the thread's.") + 4
	}
	return c.picture(name, desc), nil
}

func lastTwo(l layout.Layout) int {
	s := l.Shape()
	n := 1
	for _, v := range s[max(0, len(s)-2):] {
		n *= v
	}
	return n
}

// Copy draws two fragments of one tile side by side: the source and the
// destination of a copy, such as the addresses' rows and the registers of ldmatrix.
func Copy(name string, from, to Fragment, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	size := from.Layout.Size() + to.Layout.Size()
	longest := longestHolder(from.Layout)
	if s := longestHolder(to.Layout); len(s) > len(longest) {
		longest = s
	}
	if size > maxCells {
		return Picture{}, fmt.Errorf("layoutviz: the sides of %s have %d elements; the most is %d", name, size, maxCells)
	}
	var tables []table
	for _, f := range []Fragment{from, to} {
		for k := range max(1, f.Layout.Size()/max(1, lastTwo(f.Layout))) {
			t, err := f.tile(c, k, size <= maxLabelled, true, longest)
			if err != nil {
				return Picture{}, err
			}
			t.heading, t.rowAxis, t.colAxis = f.Name, "row", "column"
			tables = append(tables, t)
		}
	}
	caption := []string{name}
	for _, f := range []Fragment{from, to} {
		line := fmt.Sprintf("%s: %s", f.Name, f.Layout)
		if f.Note != "" {
			line += " – " + f.Note
		}
		caption = append(caption, line)
	}
	if size <= maxLabelled {
		caption = append(caption, legendOf(from.Layout, to.Layout))
	}
	c.row(o, caption, tables)
	return c.picture(name, fmt.Sprintf("%s: from %s to %s.", name, from.Layout, to.Layout)), nil
}

// row places tables side by side, in as many rows as the width asks for, below a
// caption, and sets the size.
func (c *canvas) row(o Options, caption []string, tables []table) {
	const gap, widest = 28, 1500
	x := pad
	for _, t := range tables {
		e := t.extent()
		if x > pad && x+e.w+pad > widest {
			x = pad
		}
		x += e.w + gap
		c.w = max(c.w, x-gap+pad)
	}
	y := pad
	if !o.NoCaption {
		c.grow(caption)
		y = c.caption(caption, y)
	}
	x = pad
	tall := 0
	for _, t := range tables {
		e := t.extent()
		if x > pad && x+e.w+pad > c.w {
			x = pad
			y += tall + 16
			tall = 0
		}
		t.place(c, x, y)
		c.placed = append(c.placed, scene.Box{X: x, Y: y, W: e.w, H: e.h})
		x += e.w + gap
		tall = max(tall, e.h)
	}
	c.h = y + tall + pad
}
