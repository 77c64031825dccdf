package layoutviz

import (
	"fmt"
	"regexp"

	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

var factorForm = regexp.MustCompile(`^([a-z_]+\([^()]*\))(\.|$)`)

// Factors are the atoms of a chain, the outermost first: "local(2, 1).spatial(8,
// 4)" is local(2, 1) and spatial(8, 4). A layout that is no chain is its own only
// factor.
func Factors(l layout.Layout) ([]layout.Layout, error) {
	var out []layout.Layout
	for text := l.String(); text != ""; {
		m := factorForm.FindStringSubmatch(text)
		if m == nil {
			return []layout.Layout{l}, nil
		}
		f, err := layout.Parse(m[1])
		if err != nil {
			return nil, fmt.Errorf("layoutviz: factor %s: %w", m[1], err)
		}
		out = append(out, f)
		text = text[len(m[0]):]
	}
	return out, nil
}

// Chain draws how a chain of factors becomes a layout: the first factor begins it, and
// each further step has the factor on the left, an arrow, and on the right the product
// with all steps above it, where thick lines bound the copies of the factor; each copy
// stands where an element of the product above stood.
func Chain(factors []layout.Layout, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	if len(factors) == 0 || len(factors) > 16 {
		return Picture{}, fmt.Errorf("layoutviz: a chain of %d factors; draw 1 to 16", len(factors))
	}
	type step struct{ factor, product layout.Layout }
	var steps []step
	cells := 0
	for i, f := range factors {
		p := f
		if i > 0 {
			p = steps[i-1].product.Mul(f)
		}
		if cells += f.Size() + p.Size(); cells > maxLabelled {
			return Picture{}, fmt.Errorf("layoutviz: the steps of the chain have more than %d cells; leave outer factors out", maxLabelled)
		}
		steps = append(steps, step{f, p})
	}
	last := steps[len(steps)-1].product
	longest := longestHolder(last)
	c.w = 420
	wide := 0
	for _, s := range steps {
		wide = max(wide, plainTable(c, s.factor, longest).extent().w, scene.Width("times "+s.factor.String(), topSize))
	}
	const gap = 56
	for _, s := range steps {
		c.w = max(c.w, pad+wide+gap+plainTable(c, s.product, longest).extent().w+pad)
	}
	y := pad
	if !o.NoCaption {
		caption := []string{last.String(), fmt.Sprintf("%s step by step: a step puts a copy of the factor on the left, bounded by thick lines, where an element of the product above stood; threads and slots of copies count on", count(len(factors), "factor")), legendOf(last)}
		c.grow(caption)
		y = c.caption(caption, y)
	}
	for i, s := range steps {
		x := pad + wide + gap
		verb := "begin with"
		if i > 0 {
			verb = "times " + s.factor.String()
		}
		c.text(pad, y+12, topSize, c.ink, scene.Start, true, verb)
		for k, part := range scene.Wrap(s.product.String(), scene.Fit(c.w-x-pad, topSize)) {
			if k > 0 {
				y += 14
			}
			c.text(x, y+12, topSize, c.ink, scene.Start, true, part)
		}
		y += 16
		ft, pt := plainTable(c, s.factor, longest), plainTable(c, s.product, longest)
		ft.name, pt.name = "factor "+s.factor.String(), "product "+s.product.String()
		ft.prefix, pt.prefix = fmt.Sprintf("f%d.", i), fmt.Sprintf("p%d.", i)
		// An element of the product is one of the factor, in the place of one of the
		// product before.
		f, last := s.factor, 2*(i-1)+1
		ft.cell = withKeys(ft.cell, func(n int, at []int) []int { return []int{2*i*keyStep + n} })
		pt.cell = withKeys(pt.cell, func(n int, at []int) []int {
			inner, outer := within(at, f.Shape())
			keys := []int{(2*i+1)*keyStep + n, 2*i*keyStep + inner}
			if i > 0 {
				keys = append(keys, last*keyStep+flat(outer, steps[i-1].product.Shape()))
			}
			return keys
		})
		pt.place(c, x, y)
		if i > 0 {
			ft.place(c, pad, y)
			e := ft.extent()
			c.text(x-gap/2, y+headRoom+e.cellH/2+5, 2*topSize, c.ink, scene.Middle, true, "→")
			c.tiles(pt, x, y, planeOf(s.factor.Shape()), len(s.product.Shape()))
		}
		tall := pt.extent().h
		if i > 0 {
			tall = max(tall, ft.extent().h)
		}
		y += tall + 16
	}
	c.h = y
	p := c.picture("Chain of "+last.String(), fmt.Sprintf("%s in %d steps. %s", last, len(steps), Describe(last)))
	p.Form, p.Text = "layout", last.String()
	return p, nil
}

// withKeys replaces the keys of cells; n is the number of the element.
func withKeys(cellOf func(r, i int) cell, keys func(n int, at []int) []int) func(r, i int) cell {
	return func(r, i int) cell {
		e := cellOf(r, i)
		if e.at != nil {
			e.keys = keys(e.keys[0], e.at)
		}
		return e
	}
}

// within splits an index of a product into the number of the element in a copy of
// the inner factor, and the index of the copy.
func within(at, inner []int) (n int, outer []int) {
	in := make([]int, len(inner))
	lead := len(at) - len(inner)
	outer = append([]int{}, at...)
	for d, size := range inner {
		if lead+d >= 0 {
			in[d], outer[lead+d] = at[lead+d]%size, at[lead+d]/size
		}
	}
	return flat(in, inner), outer
}

// flat is the row-major number of an index; a shape of lower rank has leading ones.
func flat(at, shape []int) (n int) {
	lead := max(0, len(at)-len(shape))
	for d, size := range shape {
		if lead+d < len(at) {
			n = n*size + at[lead+d]
		}
	}
	return n
}

// tiles outlines the copies of a factor in a product.
func (c *canvas) tiles(t table, x, y int, f plane, rank int) {
	if rank > 2 || f.rows > t.rows || f.cols > t.cols || t.rows%f.rows != 0 || t.cols%f.cols != 0 {
		return
	}
	e := t.extent()
	for r := 0; r < t.rows; r += f.rows {
		for i := 0; i < t.cols; i += f.cols {
			c.mark(c.accent, x+e.left+i*e.cw, y+headRoom+r*e.ch, f.cols*e.cw, f.rows*e.ch)
		}
	}
}

// plainTable is the tensor view of a layout as a part of a picture.
func plainTable(c *canvas, l layout.Layout, longest string) table {
	p := planeOf(l.Shape())
	t := table{rows: p.rows, cols: p.cols, small: true, twoLines: true, labelled: true, linked: true, longest: longest,
		rowHead: p.rowHead, colHead: func(i int) string { return fmt.Sprint(i) }}
	t.rowAxis, t.colAxis = p.axes()
	t.cell = func(r, i int) cell {
		n := r*p.cols + i
		if n >= p.size {
			return cell{fills: []string{c.paper}}
		}
		at := p.index(n)
		hold := l.Holders(at...)
		e := cell{id: "e" + dotted(at), keys: []int{n}, thread: hold[0].Thread, slot: hold[0].Slot, at: at, also: hold[1:],
			top: holderText(hold), bottom: fmt.Sprint(hold[0].Slot),
			label: fmt.Sprintf("%s is held by %s in slot %d", tuple(at), threadList(hold), hold[0].Slot)}
		for _, h := range hold[:min(len(hold), maxShown)] {
			e.fills = append(e.fills, c.of(h.Thread))
		}
		return e
	}
	return t
}

// Times draws the product f·g of two layouts: f, whose elements have a colour
// each, g, and the product, where each element of f has become a copy of g in its
// colour.
func Times(f, g layout.Layout, o Options) (Picture, error) {
	return operands(o, fmt.Sprintf("%s times %s", f, g), f.Mul(g), f, g, "f", "g", "f·g", []int{0, 1, 2})
}

// Over draws the quotient f = h / g: h, where the copies of g have a colour each,
// g, and the quotient with one element for each copy.
func Over(h, g layout.Layout, o Options) (Picture, error) {
	f, err := h.Div(g)
	if err != nil {
		return Picture{}, err
	}
	return operands(o, fmt.Sprintf("%s over %s", h, g), h, f, g, "h / g", "g", "h", []int{2, 1, 0})
}

// operands draws three layouts, h = f·g, in the given order of f, g, h.
func operands(o Options, title string, h, f, g layout.Layout, nf, ng, nh string, order []int) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	if h.Rank() != f.Rank() || h.Rank() != g.Rank() || h.Rank() > 2 {
		return Picture{}, fmt.Errorf("layoutviz: operands of ranks %d, %d and %d are not drawn; both need the rank of the product, at most 2", f.Rank(), g.Rank(), h.Rank())
	}
	if h.Size()+f.Size()+g.Size() > maxLabelled {
		return Picture{}, fmt.Errorf("layoutviz: %d elements; the most is %d", h.Size()+f.Size()+g.Size(), maxLabelled)
	}
	longest := longestHolder(h)
	gs := g.Shape()
	// number is which element of f the element of h with this place belongs to.
	number := func(at []int) int {
		n := 0
		for d, v := range at {
			n = n*f.Shape()[d] + v/gs[d]
		}
		return n
	}
	part := func(name, prefix string, l layout.Layout, color func(at []int) string) table {
		t := plainTable(c, l, longest)
		t.name, t.prefix = name, prefix
		t.heading = name
		base := t.cell
		t.cell = func(r, i int) cell {
			e := base(r, i)
			if len(e.fills) > 0 && e.at != nil {
				e.fills = []string{color(e.at)}
			}
			return e
		}
		return t
	}
	ft := part(nf, "f", f, func(at []int) string {
		n := 0
		for d, v := range at {
			n = n*f.Shape()[d] + v
		}
		return c.of(n)
	})
	gt := part(ng, "g", g, func([]int) string { return c.quiet })
	ht := part(nh, "h", h, func(at []int) string { return c.of(number(at)) })
	gt.cell = withKeys(gt.cell, func(n int, at []int) []int { return []int{keyStep + n} })
	ht.cell = withKeys(ht.cell, func(n int, at []int) []int {
		inner, _ := within(at, gs)
		return []int{2*keyStep + n, number(at), keyStep + inner}
	})
	all := []table{ft, gt, ht}
	var tables []table
	for _, i := range order {
		tables = append(tables, all[i])
	}
	layouts := []layout.Layout{f, g, h}
	names := []string{nf, ng, nh}
	caption := []string{title}
	for _, i := range order {
		caption = append(caption, fmt.Sprintf("%s = %s", names[i], layouts[i]))
	}
	c.row(o, append(caption, fmt.Sprintf("Colour: the element of %s that a copy of %s belongs to.", nf, ng)), tables)
	return c.picture(title, fmt.Sprintf("%s is %s, %s is %s, %s is %s.", nf, f, ng, g, nh, h)), nil
}
