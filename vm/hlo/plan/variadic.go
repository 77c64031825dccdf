package plan

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Order says in which orders a reduction of several operands may be computed.
type Order uint8

// The orders.
const (
	InOrder   Order = iota // one element after the other
	EachApart              // in any order: each result is one operation of its own operand
	Selects                // in any order, an element any number of times: the computation keeps one of two
)

// OrderOf says in which orders a reduction of several operands gives the same. Where only
// comparisons choose between two elements, it depends on nothing but how numbers compare, so
// that trying all ways in which two can compare is a proof; which of several NaN is kept
// stays open.
func OrderOf(h *hlo.Instruction) Order {
	n := h.Inputs()
	if n < 2 || h.Apply == nil || len(h.Apply.Params) != 2*n {
		return InOrder
	}
	roots := h.Apply.Roots()
	if len(roots) != n {
		return InOrder
	}
	apart := true
	for i, r := range roots {
		own := len(r.Operands) == 2 && r.Operands[0] != r.Operands[1]
		for _, o := range r.Operands {
			own = own && o.Op == hlo.Parameter && o.Number%n == i
		}
		apart = apart && own && slices.Contains([]hlo.Op{hlo.Add, hlo.Multiply, hlo.Maximum, hlo.Minimum, hlo.And, hlo.Or, hlo.Xor}, r.Op)
	}
	switch {
	case apart:
		return EachApart
	case n <= 3 && selects(h.Apply, n):
		return Selects
	}
	return InOrder
}

// selects proves that a computation keeps one of two tuples, whichever comes first, and that
// what it keeps of several does not depend on their order.
func selects(c *hlo.Computation, n int) bool {
	for _, in := range c.Instructions {
		if !slices.Contains([]hlo.Op{hlo.Parameter, hlo.Compare, hlo.Select, hlo.And, hlo.Or, hlo.Not, hlo.Maximum, hlo.Minimum, hlo.Tuple}, in.Op) {
			return false
		}
		if (in.Op == hlo.And || in.Op == hlo.Or || in.Op == hlo.Not) && in.Shape.Type != hlo.Pred {
			return false
		}
	}
	const levels = 3
	count := 1
	for range n {
		count *= levels
	}
	values := make([]int, len(c.Instructions))
	// over says whether tuple a is kept when it meets b; ok that one of them is.
	over := func(a, b int) (kept, ok bool) {
		for i, in := range c.Instructions {
			at := func(k int) int { return values[in.Operands[k].Index] }
			v := false
			switch in.Op {
			case hlo.Parameter:
				t := a
				if in.Number >= n {
					t = b
				}
				for range in.Number % n {
					t /= levels
				}
				values[i] = t % levels
				continue
			case hlo.Compare:
				x, y := at(0), at(1)
				v = map[string]bool{"EQ": x == y, "NE": x != y, "LT": x < y, "LE": x <= y, "GT": x > y, "GE": x >= y}[in.Direction]
			case hlo.Select:
				if values[i] = at(2); at(0) != 0 {
					values[i] = at(1)
				}
				continue
			case hlo.Maximum:
				values[i] = max(at(0), at(1))
				continue
			case hlo.Minimum:
				values[i] = min(at(0), at(1))
				continue
			case hlo.And:
				v = at(0) != 0 && at(1) != 0
			case hlo.Or:
				v = at(0) != 0 || at(1) != 0
			case hlo.Not:
				v = at(0) == 0
			}
			if values[i] = 0; v {
				values[i] = 1
			}
		}
		got, scale := 0, 1
		for _, r := range c.Roots() {
			got += values[r.Index] * scale
			scale *= levels
		}
		return got == a, got == a || got == b
	}
	table := make([]bool, count*count)
	for a := range count {
		for b := range count {
			kept, ok := over(a, b)
			if !ok {
				return false
			}
			table[a*count+b] = kept
		}
	}
	for a := range count {
		for b := range count {
			if a != b && table[a*count+b] == table[b*count+a] {
				return false
			}
			for d := range count {
				if table[a*count+b] && table[b*count+d] && !table[a*count+d] {
					return false
				}
			}
		}
	}
	return true
}
