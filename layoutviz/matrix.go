package layoutviz

import (
	"fmt"
	"math/bits"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

// bitGroup is a run of bits of one name: rows or columns of a bit matrix.
type bitGroup struct {
	name string
	bits int
}

// Matrix draws a linear layout as the matrix over F2 that it is: a column for each
// bit of a place, a row for each bit of an index; the index is the sum without
// carries (XOR) of the columns of the bits that are set. A column without a 1 is a
// bit that does not matter: the layout holds elements several times.
func Matrix(l linear.Layout, o Options) (Picture, error) {
	var in, out []bitGroup
	for _, d := range l.In {
		in = append(in, bitGroup{d.Name, len(d.Bases)})
	}
	for _, d := range l.Out {
		out = append(out, bitGroup{d.Name, bits.Len(uint(d.Size)) - 1})
	}
	one := func(o, ob, i, ib int) bool { return l.In[i].Bases[ib][o]>>ob&1 == 1 }
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	free := l.InBits() - l.Rank()
	note := fmt.Sprintf("%d bits of a place, %d bits of an index, rank %d", l.InBits(), l.OutBits(), l.Rank())
	switch {
	case l.IsInvertible():
		note += ": each place has one element and each element one place"
	case free > 0:
		note += fmt.Sprintf(": each element is held %d times", 1<<free)
		if !l.IsSurjective() {
			note += ", or not at all"
		}
	}
	e := bitExtent(in, out)
	c.w = max(pad+e.w+pad, 420)
	y := pad
	if !o.NoCaption {
		y = c.caption([]string{"the layout as a matrix over F2", note}, y)
	}
	c.bitMatrix("m", pad, y, in, out, one)
	y += e.h + 4
	if !o.NoCaption {
		y = c.notes(y, "An index bit is 1 where the place has an odd number of 1s in its row.")
	}
	c.h = y + pad
	p := c.picture("F2 matrix of a linear layout", l.String()+". "+note+".")
	return p, nil
}

const bitCell = 24

type bitSize struct{ left, top, w, h int }

func bitExtent(in, out []bitGroup) bitSize {
	e := bitSize{left: 0, top: 44}
	rows, cols := 0, 0
	for _, g := range out {
		e.left = max(e.left, scene.Width(fmt.Sprintf("%s bit 00", g.name), headSize)+8)
		rows += g.bits
	}
	wide := 0
	for _, g := range in {
		wide += max(g.bits*bitCell, scene.Width(g.name, headSize)+8)
		if g.bits > 0 {
			cols++
		}
	}
	e.w = e.left + wide + max(cols-1, 0)*6
	e.h = e.top + rows*bitCell + max(len(out)-1, 0)*6
	return e
}

// bitMatrix draws a matrix of bits whose columns and rows come in groups, the least
// significant bit first.
func (c *canvas) bitMatrix(prefix string, x, y int, in, out []bitGroup, one func(o, ob, i, ib int) bool) {
	e := bitExtent(in, out)
	g := Grid{Head: []string{""}}
	for _, d := range in {
		for b := range d.bits {
			g.Head = append(g.Head, fmt.Sprintf("%s.%d", d.name, b))
		}
	}
	top := y + e.top
	for oi, od := range out {
		for ob := range od.bits {
			row := []string{fmt.Sprintf("%s bit %d", od.name, ob)}
			c.text(x+e.left-6, top+bitCell/2+4, headSize, c.muted, scene.End, false, row[0])
			left := x + e.left
			for i, d := range in {
				for b := range d.bits {
					s, fill, ink := "·", c.paper, c.muted
					if one(oi, ob, i, b) {
						s, fill = "1", c.of(i)
						ink = c.inkOn(fill)
					}
					at := left + b*bitCell
					c.fill(fill, at, top, bitCell, bitCell)
					c.hairBox(at, top, bitCell)
					c.text(at+bitCell/2, top+bitCell/2+4, topSize, ink, scene.Middle, s == "1", s)
					c.ids = append(c.ids, Element{ID: fmt.Sprintf("%so%db%di%db%d", prefix, oi, ob, i, b), X: at, Y: top, W: bitCell, H: bitCell,
						Label: fmt.Sprintf("%s bit %d has %s in it for %s bit %d", od.name, ob, map[bool]string{true: "1", false: "0"}[s == "1"], d.name, b),
						Keys:  []int{i<<8 | b}, Thread: i, Slot: b, At: []int{oi, ob}})
					row = append(row, map[bool]string{true: "1", false: "."}[s == "1"])
				}
				left += max(d.bits*bitCell, scene.Width(d.name, headSize)+8) + 6
			}
			g.Rows = append(g.Rows, row)
			top += bitCell
		}
		left := x + e.left
		for _, d := range in {
			if d.bits > 0 && od.bits > 0 {
				c.frame(left, top-od.bits*bitCell, d.bits*bitCell, od.bits*bitCell)
			}
			left += max(d.bits*bitCell, scene.Width(d.name, headSize)+8) + 6
		}
		top += 6
	}
	left := x + e.left
	for _, d := range in {
		if d.bits > 0 {
			c.text(left, y+18, headSize, c.ink, scene.Start, true, d.name)
			for b := range d.bits {
				c.text(left+b*bitCell+bitCell/2, y+36, headSize, c.muted, scene.Middle, false, fmt.Sprint(b))
			}
		}
		left += max(d.bits*bitCell, scene.Width(d.name, headSize)+8) + 6
	}
	c.grids = append(c.grids, g)
}

// Swizzle draws what a swizzle does to a tile of rows and columns of units: on the
// left the places before, on the right which unit each place holds after, both in
// the colour of the unit's column of origin (of its row, where the shift is negative
// and units leave their rows), and below the bits of an offset with
// what is XORed into what. The tile is [rows, cols] of the units that the swizzle
// counts in, row-major. It is an error where rows times cols is no power of two from 1
// to 4096, and where a unit would leave the tile: draw more rows then. Where rows are
// long, a cell is a group of units that stay together.
func Swizzle(s layout.Swizzle, rows, cols int, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	n := rows * cols
	switch {
	case rows <= 0 || cols <= 0 || n > maxLabelled:
		return Picture{}, fmt.Errorf("layoutviz: a swizzle of %d×%d units; draw 1 to %d", rows, cols, maxLabelled)
	case n&(n-1) != 0:
		return Picture{}, fmt.Errorf("layoutviz: %d×%d units; a swizzle permutes blocks of a power of two", rows, cols)
	}
	// origin[p] is the unit that lies at place p afterwards.
	origin := make([]int, n)
	for i := range origin {
		at := s.Apply(i)
		if at >= n {
			return Picture{}, fmt.Errorf("layoutviz: %s moves unit %d to %d, out of the %d×%d that are drawn; draw more rows", s, i, at, rows, cols)
		}
		origin[at] = i
	}
	moved := 0
	for p, u := range origin {
		if p != u {
			moved++
		}
	}
	// Units that stay together have one colour, and in long rows one cell.
	group := max(1, min(cols, 1<<s.Base))
	color, from := func(u int) int { return u % cols / group }, "column"
	if s.Shift < 0 {
		color, from = func(u int) int { return u / cols }, "row"
	}
	per := 1
	if cols > 16 && cols%group == 0 {
		per = group
	}
	grid := func(name, prefix string, unit func(p int) int) table {
		return table{name: name, heading: name, rowAxis: "row", colAxis: "column", rows: rows, cols: cols / per, small: true, labelled: true, linked: true,
			longest: fmt.Sprint(n - 1),
			rowHead: func(r int) string { return fmt.Sprint(r) }, colHead: func(i int) string { return fmt.Sprint(i * per) },
			cell: func(r, i int) cell {
				p := r*cols + i*per
				u := unit(p)
				label := fmt.Sprintf("unit %d lies at place %d", u, p)
				return cell{fills: []string{c.of(color(u))}, top: fmt.Sprint(u), id: fmt.Sprintf("%s%d", prefix, p), keys: []int{u},
					slot: u, at: []int{r, i}, label: label}
			}}
	}
	before := grid("before", "a", func(p int) int { return p })
	after := grid("after", "b", func(p int) int { return origin[p] })
	const between = 28
	eb := before.extent()
	width := bits.Len(uint(n)) - 1
	stacked := eb.w*2+between > 1400
	c.w = pad + eb.w*2 + between + pad
	if stacked {
		c.w = pad + eb.w + pad
	}
	c.w = max(c.w, 420, pad+(width+1)*46+pad)
	y := pad
	say := fmt.Sprintf("%s moves %d of %d units", s, moved, n)
	if !o.NoCaption {
		what := fmt.Sprintf("; the number is the unit, the colour the %s it comes from", from)
		if per > 1 {
			what = fmt.Sprintf("; a cell is %d units that stay together, numbered by the first; the colour is the %s they come from", per, from)
		}
		y = c.caption([]string{s.String(), say + what}, y)
	}
	before.place(c, pad, y)
	if stacked {
		y += eb.h + 12
		after.place(c, pad, y)
	} else {
		after.place(c, pad+eb.w+between, y)
	}
	y += eb.h + 20
	y = c.bitDiagram(s, width, y)
	c.h = y + pad
	p := c.picture(s.String()+" before and after", say+". "+bitSentence(s))
	return p, nil
}

// bitSentence says a swizzle as bits.
func bitSentence(s layout.Swizzle) string {
	if s.Identity() {
		return "No bit changes."
	}
	to, from := s.Base, s.Base+s.Shift
	if s.Shift < 0 {
		to, from = s.Base-s.Shift, s.Base
	}
	field := func(from int) string {
		if s.Bits == 1 {
			return fmt.Sprint("bit ", from)
		}
		return fmt.Sprintf("bits %d to %d", from, from+s.Bits-1)
	}
	out := fmt.Sprintf("Offsets are XORed: into %s go %s", field(to), field(from))
	if s.Base > 0 {
		return out + fmt.Sprintf("; groups of %d stay together.", 1<<s.Base)
	}
	return out + "."
}

// bitDiagram draws the bits of an offset, the highest on the left, and below those
// of the swizzled one, with a ribbon from each bit that is XORed into another.
func (c *canvas) bitDiagram(s layout.Swizzle, width, y int) int {
	const w, h, ribbon = 46, 22, 40
	to, from := s.Base, s.Base+s.Shift
	if s.Shift < 0 {
		to, from = s.Base-s.Shift, s.Base
	}
	width = max(width, max(to, from)+s.Bits)
	x := func(bit int) int { return pad + (width-1-bit)*w }
	c.text(pad, y+10, headSize, c.ink, scene.Start, true, "bits of an offset, and of where it goes")
	y += 18
	for bit := range width {
		top, bottom := fmt.Sprint("b", bit), fmt.Sprint("b", bit)
		fillTop, fillBottom := c.quiet, c.quiet
		if !s.Identity() && bit >= from && bit < from+s.Bits {
			fillTop = c.of(bit - from)
		}
		if !s.Identity() && bit >= to && bit < to+s.Bits {
			src := bit - to + from
			bottom = fmt.Sprintf("b%d^b%d", bit, src)
			fillBottom = c.of(bit - to)
			c.bands = append(c.bands, scene.Band{Color: c.of(bit - to), Opacity: 70,
				A1: x(src) + 14, B1: x(src) + w - 14, Y1: y + h, A2: x(bit) + 14, B2: x(bit) + w - 14, Y2: y + h + ribbon})
		}
		for _, r := range []struct {
			fill, s string
			y       int
		}{{fillTop, top, y}, {fillBottom, bottom, y + h + ribbon}} {
			c.fill(r.fill, x(bit), r.y, w, h)
			c.frame(x(bit), r.y, w, h)
			c.text(x(bit)+w/2, r.y+h/2+4, subSize, c.inkOn(r.fill), scene.Middle, false, r.s)
		}
	}
	y += 2*h + ribbon + 6
	return c.notes(y, bitSentence(s))
}
