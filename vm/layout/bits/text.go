package bits

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Limits of placement text.
const (
	// MaxText is the longest text, in bytes.
	MaxText = 1 << 16
	// MaxDepth is how deep lists may nest.
	MaxDepth = 16
)

// String is p in the notation of the package comment; [Parse] reads it back.
func (p Placement) String() string {
	elems, top := make([][]run, p.Elements()), 0
	all := make([]run, 0, p.Elements()+16) // most often one of each
	for e := range elems {
		from := len(all)
		all = p.appendRuns(all, e)
		elems[e] = all[from:len(all):len(all)]
	}
	for _, pos := range p.at {
		top = max(top, pos+1)
	}
	var room [128]byte
	b := append(strconv.AppendInt(room[:0], int64(p.bits), 10), '[')
	b = append(appendList(b, elems), ']')
	if p.words != wordsFor(top) {
		b = strconv.AppendInt(append(b, '/'), int64(p.words), 10)
	}
	return string(b)
}

// appendList appends elements, folding what repeats at a fixed distance: at each
// place the repetition that covers most, and of those the one with the shortest
// period. One element is worth folding from three copies on, more from two.
func appendList(b []byte, elems [][]run) []byte {
	for first := true; len(elems) > 0; first = false {
		if !first {
			b = append(b, ',')
		}
		period, count := 1, 1
		for n := 1; 2*n <= len(elems); n++ {
			c := 1
			for step, ok := distance(elems[0], elems[n]); ok && (c+1)*n <= len(elems); c++ {
				if !moved(elems[(c-1)*n:c*n], elems[c*n:(c+1)*n], step) {
					break
				}
			}
			if c >= 2 && n+c > 3 && n*c > period*count {
				period, count = n, c
			}
			if n*c == len(elems) && c >= 2 {
				break
			}
		}
		switch {
		case period > 1:
			b = append(appendList(append(b, '('), elems[:period]), ')')
		default:
			b = appendElement(b, elems[0])
		}
		if count > 1 {
			step, _ := distance(elems[0], elems[period])
			b = strconv.AppendInt(append(b, '*'), int64(count), 10)
			if step >= 0 {
				b = append(b, '+')
			}
			b = strconv.AppendInt(b, int64(step), 10)
		}
		elems = elems[period*count:]
	}
	return b
}

func appendElement(b []byte, runs []run) []byte {
	for i, r := range runs {
		if i > 0 {
			b = append(b, '|')
		}
		b = strconv.AppendInt(b, int64(r.pos), 10)
		if len(runs) > 1 {
			b = strconv.AppendInt(append(b, ':'), int64(r.len), 10)
		}
	}
	return b
}

// distance is by how much x must move to become y; ok is false if no move does.
func distance(x, y []run) (step int, ok bool) {
	step = y[0].pos - x[0].pos
	return step, moved([][]run{x}, [][]run{y}, step)
}

func moved(x, y [][]run, step int) bool {
	for i := range x {
		if len(x[i]) != len(y[i]) {
			return false
		}
		for j, r := range x[i] {
			if s := y[i][j]; s.len != r.len || s.pos != r.pos+step {
				return false
			}
		}
	}
	return true
}

// The problems of placement text.
const (
	eSyntax = "Place.E1" // not the notation
	eRange  = "Place.E2" // a number beyond a limit
	eRuns   = "Place.E3" // runs do not add up to the element
	ePlaces = "Place.E4" // no injection: outside of the words, or two bits on one
)

const example = "write for example 4[(0,16)*4+4]"

// Parse reads a placement. The error is a [diag.List] whose columns count from
// the start of the text.
func Parse(text string) (Placement, error) {
	return ParseAt(text, diag.Pos{Line: 1, Col: 1})
}

// ParseAt is Parse for a text that begins at pos of a larger one.
func ParseAt(text string, pos diag.Pos) (Placement, error) {
	p, n, err := ParsePrefix(text, pos)
	if err != nil {
		return Placement{}, err
	}
	if rest := strings.TrimLeft(text[n:], " \t"); rest != "" {
		pos.Col += len(text) - len(rest)
		return Placement{}, diag.List{{Pos: pos, Code: eSyntax, Msg: fmt.Sprintf("%q cannot follow a placement", rest[:1]), Help: example}}
	}
	return p, nil
}

// ParsePrefix reads a placement from the start of a text and returns how many
// bytes it takes; what follows is left to the caller.
func ParsePrefix(text string, pos diag.Pos) (p Placement, n int, err error) {
	r := &parser{text: text, pos: pos}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case diag.Problem:
			p, n, err = Placement{}, 0, diag.List{e}
		default:
			panic(e)
		}
	}()
	if len(text) > MaxText {
		r.fail(0, eRange, "", "a placement text has at most %d bytes", MaxText)
	}
	p = r.placement()
	return p, r.at, nil
}

// parser leaves a wrong text by panicking with the diag.Problem.
type parser struct {
	text string
	pos  diag.Pos
	at   int
	bits int
}

func (r *parser) fail(at int, code, help, format string, args ...any) {
	pos := r.pos
	pos.Col += at
	panic(diag.Problem{Pos: pos, Code: code, Help: help, Msg: fmt.Sprintf(format, args...)})
}

// take skips blanks and then the byte c if it is next.
func (r *parser) take(c byte) bool {
	r.blanks()
	if r.at == len(r.text) || r.text[r.at] != c {
		return false
	}
	r.at++
	return true
}

func (r *parser) blanks() {
	for r.at < len(r.text) && (r.text[r.at] == ' ' || r.text[r.at] == '\t') {
		r.at++
	}
}

func (r *parser) want(c byte) {
	if !r.take(c) {
		r.fail(r.at, eSyntax, example, "%q is wanted here", string(c))
	}
}

// number reads a number from least to most.
func (r *parser) number(what string, least, most int) int {
	r.blanks()
	start := r.at
	for r.at < len(r.text) && '0' <= r.text[r.at] && r.text[r.at] <= '9' {
		r.at++
	}
	if r.at == start {
		r.fail(start, eSyntax, example, "%s is wanted here", what)
	}
	n, err := strconv.Atoi(r.text[start:r.at])
	if err != nil || n < least || n > most {
		r.fail(start, eRange, "", "%s must be %d to %d, not %s", what, least, most, r.text[start:r.at])
	}
	return n
}

func (r *parser) placement() Placement {
	r.bits = r.number("the number of bits of an element", 1, MaxBits)
	r.want('[')
	start := r.at
	var at []int
	if !r.take(']') {
		at = r.list(0)
		r.want(']')
	}
	top := 0
	for _, pos := range at {
		top = max(top, pos+1)
	}
	words := wordsFor(top)
	// A blank before "/" may begin a comment of the text around.
	if r.at < len(r.text) && r.text[r.at] == '/' {
		r.at++
		words = r.number("the number of words", 0, MaxWords)
	}
	p, err := New(r.bits, words, at)
	if err != nil {
		r.fail(start, ePlaces, "every bit needs a position of its own", "%s", strings.TrimPrefix(err.Error(), "bits: "))
	}
	return p
}

func (r *parser) list(depth int) []int {
	if depth > MaxDepth {
		r.fail(r.at, eRange, "", "lists nest at most %d deep", MaxDepth)
	}
	var out []int
	for {
		start := r.at
		var item []int
		if r.take('(') {
			item = r.list(depth + 1)
			r.want(')')
		} else {
			item = r.element()
		}
		out = append(out, item...)
		if r.take('*') {
			count := r.number("a count", 1, 32*MaxWords)
			sign := 1
			if !r.take('+') {
				r.want('-')
				sign = -1
			}
			step := sign * r.number("a step", 0, 32*MaxWords)
			if len(item)*count > 32*MaxWords {
				r.fail(start, eRange, "", "%d bits are more than %d words hold", len(item)*count, MaxWords)
			}
			for c := 1; c < count; c++ {
				for _, pos := range item {
					out = append(out, pos+c*step)
				}
			}
		}
		if len(out) > 32*MaxWords {
			r.fail(start, eRange, "", "more bits than %d words hold", MaxWords)
		}
		if !r.take(',') {
			return out
		}
	}
}

func (r *parser) element() []int {
	r.blanks()
	start := r.at
	var out []int
	for {
		pos := r.number("a position", 0, 32*MaxWords-1)
		n := r.bits - len(out)
		open := true
		if r.take(':') {
			n, open = r.number("a length", 1, MaxBits), false
		}
		for i := range n {
			out = append(out, pos+i)
		}
		more := r.take('|')
		switch {
		case more && !open && len(out) < r.bits:
			continue
		case more || len(out) != r.bits:
			r.fail(start, eRuns, "only the last run may leave its length out", "the runs of this element do not make %d bits", r.bits)
		}
		return out
	}
}
