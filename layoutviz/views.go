package layoutviz

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// plane folds a shape of any rank into rows and columns: the last dimension
// runs right, the others down; a single dimension is wrapped.
type plane struct {
	shape      []int
	rows, cols int
	size       int
}

// wrapAt is how many elements of a one-dimensional tile stand in one row.
const wrapAt = 32

func planeOf(shape []int) plane {
	p := plane{shape: shape, size: 1}
	for _, n := range shape {
		p.size *= n
	}
	switch len(shape) {
	case 0:
		p.rows, p.cols = 1, 1
	case 1:
		p.cols = min(p.size, wrapAt)
		if p.size > maxCells {
			p.cols = 512
		}
		p.rows = (p.size + p.cols - 1) / p.cols
	default:
		p.cols = shape[len(shape)-1]
		p.rows = p.size / p.cols
	}
	return p
}

// index is the element number n as coordinates.
func (p plane) index(n int) []int {
	out := make([]int, len(p.shape))
	for i := len(p.shape) - 1; i >= 0; i-- {
		out[i] = n % p.shape[i]
		n /= p.shape[i]
	}
	return out
}

func (p plane) rowHead(r int) string {
	if len(p.shape) < 2 {
		return fmt.Sprint(r * p.cols)
	}
	at := p.index(r * p.cols)
	s := make([]string, len(at)-1)
	for i := range s {
		s[i] = fmt.Sprint(at[i])
	}
	return strings.Join(s, ",")
}

func (p plane) axes() (rows, cols string) {
	switch len(p.shape) {
	case 0, 1:
		if p.rows > 1 {
			return "from", "element"
		}
		return "", "element"
	case 2:
		return "row", "column"
	}
	names := make([]string, len(p.shape)-1)
	for i := range names {
		names[i] = fmt.Sprintf("d%d", i)
	}
	return strings.Join(names, ","), fmt.Sprintf("d%d", len(p.shape)-1)
}

// Tensor draws every element of a layout in its place: the colour is the
// thread's, the text T<thread> over the slot. An element that several threads
// hold shows their colours side by side and "T0+2" for thread 0 and two more. A
// tile of one dimension is wrapped into rows; one of more than two has its
// leading dimensions stacked. Of a tile with too many elements one square stands
// for several if these are mostly of the same threads; else the first rows and
// columns are drawn.
func Tensor(l layout.Layout, o Options) (Picture, error) {
	k, err := o.look()
	if err != nil {
		return Picture{}, err
	}
	p := planeOf(l.Shape())
	rows, cols := p.rows, p.cols
	fr, fc := tiles(rows, cols)
	desc, caption := Describe(l), []string{l.String(), summary(l)}
	note := ""
	if fr*fc > 1 {
		note = fmt.Sprintf("Each square stands for %d×%d elements", fr, fc)
		switch mixed, all := p.mixed(l, fr, fc); {
		case mixed == 0:
			note += " of the same threads."
		case mixed < all/8:
			note += fmt.Sprintf(" and has the colour of its first one; %d of %d squares are of several threads.", mixed, all)
		default:
			rows, cols = p.corner()
			fr, fc = 1, 1
			if note = fmt.Sprintf("The first %d rows of %d, %d columns of %d.", rows, p.rows, cols, p.cols); len(p.shape) == 1 {
				note = fmt.Sprintf("The first %d elements of %d.", rows*cols, p.size)
			}
		}
	}
	t := table{
		rows:    (rows + fr - 1) / fr,
		cols:    (cols + fc - 1) / fc,
		rowHead: func(r int) string { return p.rowHead(r * fr) },
		colHead: func(c int) string { return fmt.Sprint(c * fc) },
	}
	t.rowAxis, t.colAxis = p.axes()
	t.twoLines = true
	cells := t.rows * t.cols
	t.labelled, t.linked = cells <= maxLabelled && fr*fc == 1, cells <= maxLinked && fr*fc == 1
	if t.labelled {
		caption = append(caption, legendOf(l))
	}
	if note != "" {
		caption = append(caption, note)
		desc += " " + note
	}
	more := l.Replicas() - 1
	t.longest = fmt.Sprint("T", l.Threads()-1)
	if more > 0 {
		t.longest += fmt.Sprint("+", more)
	}
	t.cell = func(r, c int) cell {
		n := r*fr*p.cols + c*fc
		if n >= p.size || c*fc >= p.cols {
			return cell{fills: []string{k.paper}, id: "", label: ""}
		}
		at := p.index(n)
		hold := l.Holders(at...)
		e := cell{id: "e" + dotted(at), keys: []int{n}, thread: hold[0].Thread, slot: hold[0].Slot, at: at}
		e.also = hold[1:]
		for _, h := range hold[:min(len(hold), maxShown)] {
			e.fills = append(e.fills, k.of(h.Thread))
		}
		if t.labelled {
			e.top = fmt.Sprint("T", hold[0].Thread)
			if len(hold) > 1 {
				e.top += fmt.Sprint("+", len(hold)-1)
			}
			e.bottom = fmt.Sprint(hold[0].Slot)
		}
		if t.linked {
			e.label = fmt.Sprintf("%s is held by %s in slot %d", tuple(at), threadList(hold), hold[0].Slot)
		}
		return e
	}
	pic, err := t.draw(o, "Tensor view of "+l.String(), desc, caption)
	if err != nil {
		return Picture{}, err
	}
	pic.Form, pic.Text = "layout", l.String()
	return pic, nil
}

// corner is how many of the first rows and columns make at most maxCells cells: half of
// what there are, of the longer side first, until they do. Wrapped rows stay whole.
func (p plane) corner() (rows, cols int) {
	rows, cols = p.rows, p.cols
	for rows*cols > maxCells {
		if rows >= cols || len(p.shape) == 1 {
			rows = (rows + 1) / 2
		} else {
			cols = (cols + 1) / 2
		}
	}
	return rows, cols
}

// mixed is how many tiles of fr rows and fc columns have elements of different threads, and how
// many there are. It looks along a tile's first and last row and its first column, at steps of powers of
// two: where a layout's thread changes, it does so by a stride, and no stride passes all of them.
func (p plane) mixed(l layout.Layout, fr, fc int) (mixed, all int) {
	var places [][2]int
	for _, j := range doublings(fc) {
		places = append(places, [2]int{0, j}, [2]int{fr - 1, j})
	}
	for _, i := range doublings(fr) {
		places = append(places, [2]int{i, 0})
	}
	for r := 0; r < p.rows; r += fr {
		for c := 0; c < p.cols && r*p.cols+c < p.size; c += fc {
			all++
			first := l.Holders(p.index(r*p.cols + c)...)
			for _, at := range places {
				at := [2]int{min(at[0], p.rows-1-r), min(at[1], p.cols-1-c)} // tiles at the edge are cut
				if n := (r+at[0])*p.cols + c + at[1]; n < p.size && !slices.EqualFunc(l.Holders(p.index(n)...), first, sameThread) {
					mixed++
					break
				}
			}
		}
	}
	return mixed, all
}

func sameThread(a, b layout.Holder) bool { return a.Thread == b.Thread }

// doublings are 1, 2, 4 and so on below n, and n-1.
func doublings(n int) (out []int) {
	for i := 1; i < n; i *= 2 {
		out = append(out, i)
	}
	return append(out, n-1)
}

// threadList is "thread 3" or "threads 0, 1, 2, 3 and 28 more".
func threadList(hold []layout.Holder) string {
	if len(hold) == 1 {
		return fmt.Sprint("thread ", hold[0].Thread)
	}
	var s []string
	for _, h := range hold[:min(len(hold), 8)] {
		s = append(s, fmt.Sprint(h.Thread))
	}
	out := "threads " + strings.Join(s, ", ")
	if len(hold) > 8 {
		out += fmt.Sprintf(" and %d more", len(hold)-8)
	}
	return out
}

func dotted(at []int) string {
	s := make([]string, len(at))
	for i, v := range at {
		s[i] = fmt.Sprint(v)
	}
	return strings.Join(s, ".")
}

func summary(l layout.Layout) string {
	shape := l.Shape()
	s := make([]string, len(shape))
	for i, n := range shape {
		s[i] = fmt.Sprint(n)
	}
	dims := strings.Join(s, "×")
	if len(shape) < 2 {
		dims = count(l.Size(), "element")
	}
	out := fmt.Sprintf("%s in %s × %s", dims, count(l.Threads(), "thread"), count(l.Slots(), "slot"))
	if r := l.Replicas(); r > 1 {
		out += fmt.Sprintf(", each element held %d times", r)
	}
	return out
}

// warp is the number of lanes drawn one below the other.
const warp = 32

// Threads draws what each thread holds: threads run down, slots run right, the
// text is the index of the element. Warps stand side by side, and so do parts of
// a warp where the options ask for shorter columns.
func Threads(l layout.Layout, o Options) (Picture, error) {
	k, err := o.look()
	if err != nil {
		return Picture{}, err
	}
	p := planeOf(l.Shape())
	threads, slots := l.Threads(), l.Slots()
	desc, caption := Describe(l), []string{l.String(), "what each thread holds: " + summary(l)}
	t := table{
		rowAxis: "thread",
		colAxis: "slot",
	}
	warps := 1
	if threads > warp && threads*slots <= maxCells {
		warps = (threads + warp - 1) / warp
		t.gapCols = slots
		t.rowAxis, t.colAxis = "lane", "warp.slot"
	}
	// lanes stand below each other, blocks of them side by side.
	lanes, blocks := threads, 1
	switch {
	case warps > 1:
		lanes, blocks = warp, warps
	case o.Column > 0 && threads > o.Column && (threads+o.Column)*slots <= maxCells:
		lanes = o.Column
		blocks = (threads + lanes - 1) / lanes
		t.gapCols = slots
		t.beside = func(block, r int) string {
			if n := block*lanes + r; n < threads {
				return fmt.Sprint(n)
			}
			return ""
		}
	}
	fr, fc := tiles(lanes, blocks*slots)
	t.rows, t.cols = (lanes+fr-1)/fr, (blocks*slots+fc-1)/fc
	t.rowHead = func(r int) string { return fmt.Sprint(r * fr) }
	t.colHead = func(c int) string {
		switch {
		case warps > 1:
			return fmt.Sprintf("%d.%d", c/slots, c%slots)
		case blocks > 1:
			return fmt.Sprint(c % slots)
		}
		return fmt.Sprint(c * fc)
	}
	cells := t.rows * t.cols
	t.labelled, t.linked = cells <= maxLabelled && fr*fc == 1, cells <= maxLinked && fr*fc == 1
	if t.labelled && len(l.Shape()) == 2 {
		at := l.Index(threads-1, slots-1)
		caption = append(caption, fmt.Sprintf("%d,%d: the element in row %d, column %d", at[0], at[1], at[0], at[1]))
	}
	if fr*fc > 1 {
		note := fmt.Sprintf("Each square stands for %d threads × %d slots.", fr, fc)
		caption = append(caption, note)
		desc += " " + note
	}
	last := p.index(p.size - 1)
	t.longest = joinInts(last)
	t.cell = func(r, c int) cell {
		slot := c * fc % slots
		thread := c*fc/slots*lanes + r*fr
		if blocks == 1 {
			thread = r * fr
		}
		if thread >= threads {
			return cell{fills: []string{k.paper}}
		}
		e := cell{fills: []string{k.of(thread)}, id: fmt.Sprintf("t%ds%d", thread, slot), thread: thread, slot: slot}
		n := l.FlatIndex(thread, slot)
		e.keys = []int{n}
		at := p.index(n)
		e.at = at
		if t.labelled {
			e.top = strings.ReplaceAll(joinInts(at), ", ", ",")
		}
		if t.linked {
			e.label = fmt.Sprintf("thread %d slot %d holds %s", thread, slot, tuple(at))
		}
		return e
	}
	t.longest = strings.ReplaceAll(t.longest, ", ", ",")
	pic, err := t.draw(o, "Thread view of "+l.String(), desc, caption)
	if err != nil {
		return Picture{}, err
	}
	pic.Form, pic.Text = "layout", l.String()
	return pic, nil
}
