package layout

import (
	"strconv"

	"github.com/tilus-lab/tilus-lab/vm/memo"
)

// String is the layout in notation that [Parse] reads back exactly: a chain of
// atoms where one exists, as few as possible without cutting a mode, and
// register_layout with the four lists otherwise (where threads or slots count
// the parts of a dimension inside out).
func (l Layout) String() string {
	d := l.rep()
	if s := d.text.Load(); s != nil {
		return *s
	}
	s := l.write()
	d.text.Store(&s)
	texts.Put(s, l)
	return s
}

// texts remembers layouts by what was written of them or read as them: a program has few
// layouts, and most of its lines say one.
var texts memo.Texts[Layout]

func (l Layout) write() string {
	w := writer{l.rep(), make([]chain, (len(l.rep().spatial)+1)*(len(l.rep().local)+1))}
	if c := w.best(0, 0); c.ok {
		if c.n == 0 {
			return w.atom("local", nil, "")
		}
		if size := c.size + c.n - 1; size <= MaxText {
			b := append(make([]byte, 0, size), c.atom...)
			for c = c.rest; c.n > 0; c = c.rest {
				b = append(append(b, '.'), c.atom...)
			}
			return string(b)
		}
	}
	m, s, x := l.modes()
	return "register_layout(" + list(l.rep().shape) + ", " + list(m) + ", " + list(s) + ", " + list(x) + ")"
}

// chain is a way to write the rest of a layout: an atom, and how to go on behind it.
type chain struct {
	tried, ok bool
	n         int // atoms
	size      int // bytes of their text
	atom      string
	rest      *chain
}

// writer finds the shortest chain. An atom takes the next digits of one list, one
// for each dimension at most, and each must be the outermost of what is left of
// its dimension. So the digits already taken from the two lists say all about
// what is left.
type writer struct {
	*data
	memo []chain // by the digits that are taken
}

func (w writer) best(i, j int) *chain {
	out := &w.memo[i*(len(w.local)+1)+j]
	if out.tried {
		return out
	}
	out.tried = true
	if i == len(w.spatial) && j == len(w.local) {
		out.ok = true
		return out
	}
	var room [MaxRank]int
	left := room[:copy(room[:], w.shape)]
	for _, taken := range [...][]Digit{w.spatial[:i], w.local[:j]} {
		for _, g := range taken {
			if g.Dim >= 0 {
				left[g.Dim] /= g.Size
			}
		}
	}
	try := func(atom string, i, j int) {
		c := w.best(i, j)
		n, size := c.n+1, c.size+len(atom)
		if !c.ok || out.ok && (n > out.n || n == out.n && size >= out.size) {
			return
		}
		*out = chain{true, true, n, size, atom, c}
	}
	locals := w.run(w.local[j:], left)
	if i < len(w.spatial) && w.spatial[i].Dim < 0 {
		workers := "num_workers=" + strconv.Itoa(w.spatial[i].Size)
		for n := ascending(w.local[j : j+locals]); n >= 0; n-- {
			try(w.atom("replicated", w.local[j:j+n], workers), i+1, j+n)
		}
	}
	for n := w.run(w.spatial[i:], left); n > 0; n-- {
		try(w.ordered("spatial", w.spatial[i:i+n]), i+n, j)
	}
	for n := locals; n > 0; n-- {
		try(w.ordered("local", w.local[j:j+n]), i, j+n)
	}
	return out
}

// run counts the leading digits that one atom can take.
func (w writer) run(digits []Digit, left []int) int {
	var seen [MaxRank]bool
	for n, g := range digits {
		if g.Dim < 0 || seen[g.Dim] || g.Size*g.Stride != left[g.Dim] {
			return n
		}
		seen[g.Dim] = true
	}
	return len(digits)
}

// ascending counts the leading digits whose dimensions rise.
func ascending(digits []Digit) int {
	for n := 1; n < len(digits); n++ {
		if digits[n].Dim < digits[n-1].Dim {
			return n
		}
	}
	return len(digits)
}

func (w writer) atom(name string, digits []Digit, last string) string {
	var ones [MaxRank]int
	shape := ones[:len(w.shape)]
	for d := range shape {
		shape[d] = 1
	}
	for _, g := range digits {
		shape[g.Dim] = g.Size
	}
	var room [96]byte
	b := append(append(room[:0], name...), '(')
	b = appendJoined(b, shape)
	if len(shape) > 0 && last != "" {
		b = append(b, ", "...)
	}
	b = append(append(b, last...), ')')
	return string(b)
}

// ordered writes an atom whose digits come in this order.
func (w writer) ordered(name string, digits []Digit) string {
	n := len(digits)
	if ascending(digits) == n {
		return w.atom(name, digits, "")
	}
	falls := true
	for i := 1; i < n; i++ {
		falls = falls && digits[i].Dim < digits[i-1].Dim
	}
	if falls {
		return w.atom("column_"+name, digits, "")
	}
	// Dimensions of size 1 may stand anywhere; they come first.
	ranks := make([]int, len(w.shape))
	for d := range ranks {
		ranks[d] = -1
	}
	for i, g := range digits {
		ranks[g.Dim] = len(ranks) - n + i
	}
	free := 0
	for d := range ranks {
		if ranks[d] < 0 {
			ranks[d] = free
			free++
		}
	}
	return w.atom(name, digits, "ranks="+list(ranks))
}
