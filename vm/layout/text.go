package layout

import (
	"strconv"
	"strings"

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
	w := writer{l.rep(), map[[2]int]chain{}}
	if c := w.best(0, 0); c.ok {
		if len(c.atoms) == 0 {
			return w.atom("local", nil, "")
		}
		if s := strings.Join(c.atoms, "."); len(s) <= MaxText {
			return s
		}
	}
	m, s, x := l.modes()
	return "register_layout(" + list(l.rep().shape) + ", " + list(m) + ", " + list(s) + ", " + list(x) + ")"
}

// chain is a way to write the rest of a layout.
type chain struct {
	ok    bool
	atoms []string
	size  int // bytes of text
}

// writer finds the shortest chain. An atom takes the next digits of one list, one
// for each dimension at most, and each must be the outermost of what is left of
// its dimension. So the digits already taken from the two lists say all about
// what is left.
type writer struct {
	*data
	memo map[[2]int]chain
}

func (w writer) best(i, j int) chain {
	if i == len(w.spatial) && j == len(w.local) {
		return chain{ok: true}
	}
	if c, ok := w.memo[[2]int{i, j}]; ok {
		return c
	}
	left := append([]int(nil), w.shape...)
	for _, g := range append(w.spatial[:i:i], w.local[:j]...) {
		if g.Dim >= 0 {
			left[g.Dim] /= g.Size
		}
	}
	var out chain
	try := func(atom string, i, j int) {
		c := w.best(i, j)
		n, size := len(c.atoms)+1, c.size+len(atom)
		if !c.ok || out.ok && (n > len(out.atoms) || n == len(out.atoms) && size >= out.size) {
			return
		}
		out = chain{true, append([]string{atom}, c.atoms...), size}
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
	w.memo[[2]int{i, j}] = out
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
	shape := ones(len(w.shape))
	for _, g := range digits {
		shape[g.Dim] = g.Size
	}
	in := join(shape)
	if in != "" && last != "" {
		in += ", "
	}
	return name + "(" + in + last + ")"
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
