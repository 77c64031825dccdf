package shared

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// View is a view of a tile in shared memory. Its element at an index lies at
//
//	Plan + bytes(Swizzle(Static + Σ Terms + what the layout gives for the index))
//
// bytes behind the block's first shared address.
type View struct {
	Plan    int // place of the tile, bytes
	Static  int // constant part of what slices add, elements
	Terms   []Term
	Modes   [][]ir.SharedMode
	Dims    []int
	Swizzle layout.Swizzle
	Width   int // bits of an element
}

// Term is a part of a place that is known only when the program runs: a number of
// elements from 0 to Most, divisible by Div.
type Term struct {
	Value     code.Value
	Div, Most int64
}

// Along is what index x of a dimension adds to a place, in elements.
func Along(modes []ir.SharedMode, x int) (at int) {
	for i := len(modes) - 1; i >= 0; i-- {
		at += x % modes[i].Size * modes[i].Stride
		x /= modes[i].Size
	}
	return at
}

// Address is the address of the element at an index, of whole bytes.
func (s *View) Address(t *thread.Thread, index []code.Value) code.Value {
	at := s.at(t, func(d int) code.Value { return index[d] })
	at = t.Mul32(at, t.Const32(int64(s.Width/8)))
	return t.Add32(t.Op(code.OpSharedBase, nil), t.Add32(at, t.Const32(int64(s.Plan))))
}

// at is the place of an element behind Plan, in elements; index gives its index.
func (s *View) at(t *thread.Thread, index func(d int) code.Value) code.Value {
	sum := t.Const32(int64(s.Static))
	for _, q := range s.Terms {
		sum = t.Add32(sum, q.Value)
	}
	for d, modes := range s.Modes {
		n := index(d)
		unit := int64(1)
		for i := len(modes) - 1; i >= 0; i-- {
			v := n
			if unit > 1 {
				v = t.DivideU32(v, unit)
			}
			if i > 0 {
				v = t.RemainderU32(v, int64(modes[i].Size))
			}
			sum = t.Add32(sum, t.Mul32(v, t.Const32(int64(modes[i].Stride))))
			unit *= int64(modes[i].Size)
		}
	}
	return swizzle(t, s.Swizzle, sum)
}

// swizzle permutes a place, in elements, when the program runs.
func swizzle(t *thread.Thread, w layout.Swizzle, v code.Value) code.Value {
	if w.Identity() {
		return v
	}
	from, to := w.Base+w.Shift, w.Base
	if w.Shift < 0 {
		from, to = w.Base, w.Base-w.Shift
	}
	mask := int64(1<<w.Bits - 1)
	var field code.Value
	if from >= to {
		field = t.Op(code.OpAnd32, nil, t.Op(code.OpShrU32, nil, v, t.Const32(int64(from-to))), t.Const32(mask<<to))
	} else {
		field = t.Op(code.OpAnd32, nil, t.Op(code.OpShl32, nil, v, t.Const32(int64(to-from))), t.Const32(mask<<to))
	}
	return t.Op(code.OpXor32, nil, v, field)
}

// Part is the place of a part of a shared tensor: per dimension the constant part
// of the offset, and terms for the rest.
type Part struct {
	View  *View
	Dims  []int
	From  []int
	Rest  []code.Value // per dimension, 0 for none
	Terms []Term
	// Apart says, per dimension, that what the rest adds to a place does not depend
	// on the index inside the part.
	Apart []bool
}

// Split adds the terms of x in dimension d, which is divisible by g and at most
// most. It reports whether adding an index below span carries from no mode into
// the next, so that the sum of the places is the place of the sum.
func (p *Part) Split(t *thread.Thread, d int, x code.Value, g, most, span int64) bool {
	modes := p.View.Modes[d]
	apart, unit := true, int64(1)
	var terms []Term
	for i := len(modes) - 1; i >= 0; i-- {
		size, stride := int64(modes[i].Size), int64(modes[i].Stride)
		if i > 0 {
			b := unit * size
			apart = apart && (g%b == 0 || b%g == 0 && span <= g)
		}
		next := unit * size
		if g%next != 0 || i == 0 {
			v, top, div := x, most/unit, int64(1)
			if unit > 1 {
				v = t.DivideU32(v, unit)
			}
			if g%unit == 0 {
				div = g / unit
			}
			if i > 0 && most >= next {
				v = t.RemainderU32(v, size)
				top = size - 1
			}
			terms = append(terms, Term{t.Mul32(v, t.Const32(stride)), div * stride, top * stride})
		}
		unit = next
	}
	p.Terms = append(p.Terms, terms...)
	return apart
}
