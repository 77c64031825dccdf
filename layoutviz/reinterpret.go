package layoutviz

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Limits of the reinterpretation picture: a register picture is for reading, so
// it shows some threads, and of each the first bits.
const (
	maxRowBits   = 128
	maxDrawnBits = 1024
)

// side is one reading of a thread's bits.
type side struct {
	elem dtype.Type
	l    layout.Layout
	p    plane
}

// piece is the part of one element that lies in one row of the picture: bits
// [lo, hi) of the thread.
type piece struct {
	slot   int
	lo, hi int
	x      int // left edge
}

// Reinterpret draws what a View does: for some threads the bits that each holds,
// bit 0 on the left, above as elements of one type and layout, below as elements
// of the other. Ribbons lead from bits to bits, in the colour of the element
// below; one that begins in two elements above is put together from both. The
// two sides must have the same threads, each with the same number of bits.
func Reinterpret(from dtype.Type, fl layout.Layout, to dtype.Type, tl layout.Layout, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	up, down := side{from, fl, planeOf(fl.Shape())}, side{to, tl, planeOf(tl.Shape())}
	bits := from.Bits() * fl.Slots()
	switch {
	case fl.Threads() != tl.Threads():
		return Picture{}, fmt.Errorf("layoutviz: %s has %d threads, %s has %d; they must be equal", fl, fl.Threads(), tl, tl.Threads())
	case bits != to.Bits()*tl.Slots():
		return Picture{}, fmt.Errorf("layoutviz: %s %s has %d bits per thread, %s %s has %d; they must be equal", from, fl, bits, to, tl, to.Bits()*tl.Slots())
	}
	threads := slices.Clone(o.Threads)
	if len(threads) == 0 {
		for t := range min(fl.Threads(), max(1, min(3, 96/max(bits, 1)))) {
			threads = append(threads, t)
		}
	}
	if len(threads) > 32 {
		return Picture{}, fmt.Errorf("layoutviz: %d threads to show; the most is 32", len(threads))
	}
	for _, t := range threads {
		if t < 0 || t >= fl.Threads() {
			return Picture{}, fmt.Errorf("layoutviz: there is no thread %d; the layout has %d", t, fl.Threads())
		}
	}
	shown := min(bits, maxDrawnBits)
	per := rowBits(from.Bits(), to.Bits(), shown)

	// A bit is wide enough for the name of a narrow element.
	bitW := 14
	switch to.Bits() {
	case 1:
		bitW = 26
	case 2:
		bitW = 18
	}
	const gapUp, gapDown = 6, 6
	left := pad + scene.Width(fmt.Sprint("thread ", fl.Threads()-1), topSize) + 14
	rowW := func(unit, gap int) int { return per*bitW + (per-1)/unit*gap }
	inner := max(rowW(from.Bits(), gapUp), rowW(to.Bits(), gapDown))
	c.w = max(left+inner+pad, 440)

	pic := Picture{
		Title: fmt.Sprintf("Reinterpretation of %s as %s, %d bits per thread", from, to, bits),
		Desc:  describeView(up, down, bits),
	}
	y := pad
	if !o.NoCaption {
		y = c.caption([]string{
			fmt.Sprintf("the same %d bits of a thread as %s and as %s", bits, elems(fl.Slots(), from), elems(tl.Slots(), to)),
			fmt.Sprintf("above: %s [%s] %s", from, joinInts(fl.Shape()), fl),
			fmt.Sprintf("below: %s [%s] %s", to, joinInts(tl.Shape()), tl),
		}, y)
	}
	const boxH, bitH, ribbon, between = 30, 15, 34, 18
	for _, t := range threads {
		for lo := 0; lo < shown; lo += per {
			hi := min(lo+per, shown)
			a := cut(lo, hi, from.Bits(), bitW, left, gapUp, inner)
			b := cut(lo, hi, to.Bits(), bitW, left, gapDown, inner)
			yBitsA := y + boxH
			yRibbon := yBitsA + bitH
			yBitsB := yRibbon + ribbon
			yBoxB := yBitsB + bitH
			if lo == 0 {
				c.text(pad, yRibbon+ribbon/2+4, topSize, c.ink, scene.Start, true, fmt.Sprint("thread ", t))
			}
			c.text(left-8, y+boxH/2+4, headSize, c.muted, scene.End, false, from.String())
			c.text(left-8, yBoxB+boxH/2+4, headSize, c.muted, scene.End, false, to.String())

			v := strip{canvas: c, bitW: bitW, thread: t, per: bits}
			v.ribbons(a, b, yRibbon, yBitsB)
			c.ids = append(c.ids, v.row(up, "a", a, y, yBitsA, boxH, bitH, func(bit int) string {
				return v.color(bit / to.Bits())
			}, false)...)
			c.ids = append(c.ids, v.row(down, "b", b, yBoxB, yBitsB, boxH, bitH, func(bit int) string {
				return v.color(bit / to.Bits())
			}, true)...)
			y = yBoxB + boxH + between
		}
	}
	legend := pic.Desc
	if shown < bits {
		legend += fmt.Sprintf(" The first %d bits of each thread are shown.", shown)
		pic.Desc = legend
	}
	if !o.NoCaption {
		some := ""
		if n := fl.Threads(); len(threads) < n {
			some = fmt.Sprintf(" %d of %d threads are shown; the others cut their bits in the same way.", len(threads), n)
		}
		y = c.caption([]string{"", "Bit 0, the least significant, is on the left. In brackets under a slot: the index in its tile of the element that it holds. " + legend + some}, y-between-12)
	}
	c.h = y + 4
	c.grids = viewGrids(up, down, threads, shown)
	pic = c.picture(pic.Title, pic.Desc)
	if from == dtype.U8 && to.IsInt() && to.Bits() <= 8 {
		pic.Form, pic.Text = "view", to.String()+" "+tl.String()
	}
	return pic, nil
}

// rowBits is how many bits stand in one row: whole elements of both types
// where that fits.
func rowBits(a, b, bits int) int {
	l := a / gcd(a, b) * b
	if l > maxRowBits {
		return min(bits, maxRowBits)
	}
	n := 64 / l * l
	if n == 0 {
		n = l
	}
	return min(bits, n)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// cut splits bits [lo, hi) of a thread into the parts of its elements and puts
// them side by side, centred in the width.
func cut(lo, hi, unit, bitW, left, gap, inner int) []piece {
	var out []piece
	x := left
	for at := lo; at < hi; {
		next := min((at/unit+1)*unit, hi)
		out = append(out, piece{slot: at / unit, lo: at, hi: next, x: x})
		x += (next-at)*bitW + gap
		at = next
	}
	shift := (inner - (x - gap - left)) / 2
	if lo > 0 {
		shift = 0
	}
	for i := range out {
		out[i].x += shift
	}
	return out
}

// strip draws one row of one thread.
type strip struct {
	*canvas
	bitW   int
	thread int
	per    int // bits of a thread
}

func (v strip) color(slot int) string { return v.of(slot % 8) }

// ribbons joins each run of bits that lies in one element on both sides.
func (v strip) ribbons(a, b []piece, y1, y2 int) {
	for _, q := range b {
		for _, p := range a {
			lo, hi := max(p.lo, q.lo), min(p.hi, q.hi)
			if lo >= hi {
				continue
			}
			v.bands = append(v.bands, scene.Band{
				Color: v.color(q.slot), Opacity: 55,
				A1: p.x + (lo-p.lo)*v.bitW, B1: p.x + (hi-p.lo)*v.bitW, Y1: y1,
				A2: q.x + (lo-q.lo)*v.bitW, B2: q.x + (hi-q.lo)*v.bitW, Y2: y2,
			})
		}
	}
}

// row draws the elements of one side: a box with slot and index, and its bits
// with their numbers within the element.
func (v strip) row(e side, prefix string, pieces []piece, yBox, yBits, boxH, bitH int, bitColor func(bit int) string, filled bool) []Element {
	var ids []Element
	unit := e.elem.Bits()
	for _, p := range pieces {
		w := (p.hi - p.lo) * v.bitW
		fill := v.quiet
		if filled {
			fill = v.color(p.slot)
		}
		v.fill(fill, p.x, yBox, w, boxH)
		for bit := p.lo; bit < p.hi; bit++ {
			x := p.x + (bit-p.lo)*v.bitW
			color := bitColor(bit)
			v.fill(color, x, yBits, v.bitW, bitH)
			if bit > p.lo {
				v.hair(x, yBits, x, yBits+bitH)
			}
			v.text(x+v.bitW/2, yBits+bitH-4, 8.5, v.inkOn(color), scene.Middle, false, fmt.Sprint(bit%unit))
		}
		top, bottom := min(yBox, yBits), max(yBox+boxH, yBits+bitH)
		mid := max(yBox, yBits)
		v.hair(p.x, mid, p.x+w, mid)
		v.frame(p.x, top, w, bottom-top)
		at := e.l.Index(v.thread, p.slot)
		v.label(p.x+w/2, yBox+13, w, v.inkOn(fill), true, fmt.Sprint("slot ", p.slot), fmt.Sprint("s", p.slot), fmt.Sprint(p.slot))
		v.label(p.x+w/2, yBox+25, w, v.inkOn(fill), false, tuple(at), strings.ReplaceAll(tuple(at), " ", ""), strings.ReplaceAll(joinInts(at), " ", ""))
		el := Element{
			ID: fmt.Sprintf("%st%ds%d", prefix, v.thread, p.slot),
			Label: fmt.Sprintf("thread %d slot %d as %s: bits %d to %d of the thread, element %s",
				v.thread, p.slot, e.elem, p.slot*unit, (p.slot+1)*unit-1, tuple(at)),
			X: p.x, Y: top, W: w, H: bottom - top, Thread: v.thread, Slot: p.slot, At: at,
		}
		for bit := p.slot * unit; bit < (p.slot+1)*unit; bit++ {
			el.Keys = append(el.Keys, v.thread*v.per+bit)
		}
		ids = append(ids, el)
	}
	return ids
}

// viewGrids are the same facts as texts: a row for each element.
func viewGrids(up, down side, threads []int, bits int) []Grid {
	var out []Grid
	for _, e := range []side{up, down} {
		g := Grid{Title: fmt.Sprintf("as %s", e.elem), Head: []string{"thread", "slot", "bits", "element"}}
		n := e.elem.Bits()
		for _, t := range threads {
			for slot := range min(e.l.Slots(), (bits+n-1)/n) {
				g.Rows = append(g.Rows, []string{fmt.Sprint(t), fmt.Sprint(slot), fmt.Sprintf("%d..%d", slot*n, (slot+1)*n-1), tuple(e.l.Index(t, slot))})
			}
		}
		out = append(out, g)
	}
	return out
}

// elems is "3 u8".
func elems(n int, t dtype.Type) string { return fmt.Sprintf("%d %s", n, t) }

// describeView is the legend: how many bits, and where the first value lies
// that is put together from two elements.
func describeView(up, down side, bits int) string {
	out := fmt.Sprintf("A thread holds %s = %s; read as %s they are %s of %s.",
		elems(up.l.Slots(), up.elem), count(bits, "bit"), down.elem, count(down.l.Slots(), "value"), count(down.elem.Bits(), "bit"))
	a, b := up.elem.Bits(), down.elem.Bits()
	for slot := range down.l.Slots() {
		lo, hi := slot*b, (slot+1)*b-1
		if lo/a == hi/a {
			continue
		}
		if hi/a == lo/a+1 {
			k := (lo/a + 1) * a
			return out + fmt.Sprintf(" Slot %d is put together from the top %s of %s %d and the low %s of %s %d.",
				slot, count(k-lo, "bit"), up.elem, lo/a, count(hi+1-k, "bit"), up.elem, hi/a)
		}
		return out + fmt.Sprintf(" Slot %d is put together from %s %d to %d.", slot, up.elem, lo/a, hi/a)
	}
	if a%b == 0 && a > b {
		return out + fmt.Sprintf(" Each %s holds %s; none crosses a border.", up.elem, count(a/b, "value"))
	}
	return out + " No value crosses a border."
}

// Widths draws thread 0 of one layout at several element types side by side, below
// each other: how many bytes its elements take when packed, and which of them cross
// a byte.
func Widths(l layout.Layout, types []dtype.Type, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	if len(types) == 0 || len(types) > 8 || l.Slots() > 32 {
		return Picture{}, fmt.Errorf("layoutviz: %d types of %d elements; draw 1 to 8 types of at most 32 elements", len(types), l.Slots())
	}
	const bitW, boxH, ribbon, gap, gapUp = 14, 20, 24, 4, 6
	widest := 0
	for _, t := range types {
		widest = max(widest, t.Bits())
	}
	bits := widest * l.Slots()
	left := pad + 78
	c.w = left + bits*bitW + max((bits-1)/8*gapUp, l.Slots()*gap) + pad
	y := pad
	if !o.NoCaption {
		y = c.caption([]string{fmt.Sprintf("thread 0 of %s at several element types", l), "above the bytes, below the elements; bit 0 on the left"}, y)
	}
	desc := fmt.Sprintf("Thread 0 holds %s.", count(l.Slots(), "element"))
	g := Grid{Head: []string{"type", "slot", "bits", "bytes"}}
	for _, t := range types {
		n := t.Bits() * l.Slots()
		whole := (n + 7) / 8
		crossing := 0
		a := cut(0, n, 8, bitW, left, gapUp, 0)
		b := cut(0, n, t.Bits(), bitW, left, gap, 0)
		shift := 0
		if len(a) > 0 {
			// cut centres in a width; here both rows begin at the left.
			shift = left - a[0].x
			for i := range a {
				a[i].x += shift
			}
			shift = left - b[0].x
			for i := range b {
				b[i].x += shift
			}
		}
		v := strip{canvas: c, bitW: bitW, per: n}
		yB := y + boxH + ribbon
		v.ribbons(a, b, y+boxH, yB)
		for _, p := range a {
			w := (p.hi - p.lo) * bitW
			c.fill(c.quiet, p.x, y, w, boxH)
			c.frame(p.x, y, w, boxH)
			c.text(p.x+w/2, y+14, headSize, c.ink, scene.Middle, false, fmt.Sprint("byte ", p.slot))
		}
		for _, p := range b {
			w := (p.hi - p.lo) * bitW
			first, last := p.lo/8, (p.hi-1)/8
			if first != last {
				crossing++
			}
			fill := v.color(p.slot)
			c.fill(fill, p.x, yB, w, boxH)
			c.frame(p.x, yB, w, boxH)
			c.label(p.x+w/2, yB+14, w, c.inkOn(fill), true, fmt.Sprint("s", p.slot), fmt.Sprint(p.slot))
			c.ids = append(c.ids, Element{ID: fmt.Sprintf("%ss%d", t, p.slot), X: p.x, Y: yB, W: w, H: boxH, Keys: []int{p.slot}, Slot: p.slot, At: l.Index(0, p.slot),
				Label: fmt.Sprintf("%s slot %d: bits %d to %d, bytes %d to %d", t, p.slot, p.lo, p.hi-1, first, last)})
			g.Rows = append(g.Rows, []string{t.String(), fmt.Sprint(p.slot), fmt.Sprintf("%d..%d", p.lo, p.hi-1), fmt.Sprintf("%d..%d", first, last)})
		}
		c.text(left-8, y+14, headSize, c.muted, scene.End, false, count(whole, "byte"))
		c.text(left-8, yB+14, topSize, c.ink, scene.End, true, t.String())
		say := fmt.Sprintf("%d × %d bits = %s, %d of %d elements cross a byte", l.Slots(), t.Bits(), count(whole, "byte"), crossing, l.Slots())
		desc += " " + t.String() + ": " + say + "."
		c.text(left, yB+boxH+13, headSize, c.muted, scene.Start, false, say)
		y = yB + boxH + 34
	}
	c.h = y
	c.grids = []Grid{g}
	return c.picture("One layout at several element types", desc), nil
}
