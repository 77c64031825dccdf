package layoutviz

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Values draws a register tensor: every element in its place with its value over the
// thread that holds it, in the thread's colour. a has the shape of the layout.
func Values(l layout.Layout, a *array.Array, o Options) (Picture, error) {
	k, err := o.look()
	if err != nil {
		return Picture{}, err
	}
	if !slices.Equal(a.Shape, l.Shape()) {
		return Picture{}, fmt.Errorf("layoutviz: values of shape %v, and a layout of shape %v", a.Shape, l.Shape())
	}
	p := planeOf(l.Shape())
	fr, fc := tiles(p.rows, p.cols)
	t := table{
		rows:    (p.rows + fr - 1) / fr,
		cols:    (p.cols + fc - 1) / fc,
		rowHead: func(r int) string { return p.rowHead(r * fr) },
		colHead: func(c int) string { return fmt.Sprint(c * fc) },
	}
	t.rowAxis, t.colAxis = p.axes()
	t.twoLines = true
	cells := t.rows * t.cols
	t.labelled, t.linked = cells <= maxLabelled && fr*fc == 1, cells <= maxLinked && fr*fc == 1
	lo, hi := extremes(a)
	what := fmt.Sprintf("%s[%s] from %s to %s", a.Type, joinInts(a.Shape), short(lo), short(hi))
	caption := []string{l.String(), what}
	if t.labelled {
		caption = append(caption, "1.5 over T5: thread 5 holds 1.5")
		for n := range a.Len() {
			if s := short(decode(a, n)); len(s) > len(t.longest) {
				t.longest = s
			}
		}
	} else {
		caption = append(caption, "dark is large")
	}
	if fr*fc > 1 {
		caption = append(caption, fmt.Sprintf("Each square stands for %d×%d elements and shows its first one.", fr, fc))
	}
	t.cell = func(r, c int) cell {
		n := r*fr*p.cols + c*fc
		if n >= p.size || c*fc >= p.cols {
			return cell{fills: []string{k.paper}}
		}
		at, v := p.index(n), decode(a, n)
		hold := l.Holders(at...)
		e := cell{id: "e" + dotted(at), keys: []int{n}, thread: hold[0].Thread, slot: hold[0].Slot, at: at, also: hold[1:]}
		if !t.labelled {
			part := 0
			if hi > lo {
				part = 1 + int(99*(v-lo)/(hi-lo))
			}
			e.fills = []string{k.heat(part, 100)}
			return e
		}
		e.fills = []string{k.of(hold[0].Thread)}
		e.top, e.bottom = short(v), fmt.Sprint("T", hold[0].Thread)
		if len(hold) > 1 {
			e.bottom += fmt.Sprint("+", len(hold)-1)
		}
		e.label = fmt.Sprintf("%s is %s, held by %s in slot %d", tuple(at), short(v), threadList(hold), hold[0].Slot)
		return e
	}
	pic, err := t.draw(o, "Values in "+l.String(), what+". "+Describe(l), caption)
	if err != nil {
		return Picture{}, err
	}
	pic.Form, pic.Text = "layout", l.String()
	return pic, nil
}

func decode(a *array.Array, n int) float64 { return a.Type.Decode(a.Code(n)) }

// extremes are the least and the largest value.
func extremes(a *array.Array) (lo, hi float64) {
	for n := range a.Len() {
		v := decode(a, n)
		if n == 0 || v < lo {
			lo = v
		}
		if n == 0 || v > hi {
			hi = v
		}
	}
	return lo, hi
}

// short is a number in few characters.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
