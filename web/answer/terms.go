package answer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Terms asks what each factor of a chain adds to the place of one element, and which
// elements one factor leads to from there.
type Terms struct {
	Layout string `json:"layout"`
	Thread int    `json:"thread"`
	Slot   int    `json:"slot"`
	Term   int    `json:"term"` // number of a factor, from 1; 0 asks for no elements
}

// Term is one factor: characters From to To of the text. Text is the element's index
// within the factor, Moves whether that is another than the first.
type Term struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Text  string `json:"text"`
	Moves bool   `json:"moves"`
}

// maxMembers is how many elements of one factor are listed.
const maxMembers = 4096

// Answer lists the factors, and [thread, slot] of the elements that differ from the
// asked one in the factor Term alone. Texts that are no chain have no terms.
func (q Terms) Answer() (any, error) {
	type answer struct {
		Terms   []Term   `json:"terms"`
		Members [][2]int `json:"members,omitempty"`
	}
	none := answer{Terms: []Term{}}
	text := strings.TrimRight(q.Layout, " ")
	if len(text) > 4096 || !chain.MatchString(text) {
		return none, nil
	}
	whole, err := layout.Parse(text)
	if err != nil {
		return none, nil
	}
	if q.Thread < 0 || q.Thread >= whole.Threads() || q.Slot < 0 || q.Slot >= whole.Slots() {
		return nil, fmt.Errorf("the layout has %d threads of %d slots", whole.Threads(), whole.Slots())
	}
	var factors []layout.Layout
	var terms []Term
	from := 0
	for _, part := range strings.SplitAfter(text, ")") {
		name := strings.TrimLeft(part, ".")
		if name == "" {
			continue
		}
		f, err := layout.Parse(name)
		if err != nil {
			return none, nil
		}
		to := from + len(part)
		terms = append(terms, Term{From: to - len(name), To: to})
		factors = append(factors, f)
		from = to
	}
	// Of a product the last factor turns fastest, in threads, slots and indices.
	index := make([]int, len(whole.Shape()))
	steps := slices.Repeat([]int{1}, len(index))
	t, s := q.Thread, q.Slot
	threads, slots := 1, 1 // of the factors behind
	var members [][2]int
	for i := len(factors) - 1; i >= 0; i-- {
		f := factors[i]
		if len(f.Shape()) != len(index) {
			return none, nil
		}
		ft, fs := t%f.Threads(), s%f.Slots()
		at := f.Index(ft, fs)
		terms[i].Text = "(" + strings.Trim(strings.ReplaceAll(fmt.Sprint(at), " ", ", "), "[]") + ")"
		for d, n := range at {
			terms[i].Moves = terms[i].Moves || n != 0
			index[d] += n * steps[d]
			steps[d] *= f.Shape()[d]
		}
		if i == q.Term-1 {
			for k := range min(f.Threads()*f.Slots(), maxMembers) {
				members = append(members, [2]int{q.Thread + (k/f.Slots()-ft)*threads, q.Slot + (k%f.Slots()-fs)*slots})
			}
		}
		t, s = t/f.Threads(), s/f.Slots()
		threads, slots = threads*f.Threads(), slots*f.Slots()
	}
	if !slices.Equal(index, whole.Index(q.Thread, q.Slot)) {
		return none, nil // the chain means something else than a product
	}
	return answer{terms, members}, nil
}
