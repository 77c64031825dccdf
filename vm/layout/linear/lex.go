package linear

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// token is a piece of text[start:end].
type token struct {
	kind       byte // 'n' number, 'w' word, 's' sign, 'x' what cannot stand here, 0 end
	start, end int
}

// parser reads all forms. It leaves a wrong text by panicking with a
// diag.Problem, which guard turns into the error.
type parser struct {
	text  string
	tok   token
	end   int // of the token before tok
	depth int
}

// guard runs a reader over a text.
func guard[T any](text string, read func(p *parser) T) (v T, err error) {
	p := &parser{text: text}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case diag.Problem:
			var zero T
			v, err = zero, diag.List{r}
		default:
			panic(r)
		}
	}()
	if len(text) > MaxText {
		p.problem(token{start: 0, end: 0}, eDims, "", "the text is longer than %d bytes", MaxText)
	}
	p.next()
	v = read(p)
	if p.tok.kind != 0 {
		p.problem(p.tok, eSyntax, "", "%s cannot follow a layout", p.quote())
	}
	return v, nil
}

func (p *parser) next() {
	p.end = p.tok.end
	p.tok = p.scan(p.tok.end)
}

// peek is the token after tok.
func (p *parser) peek() token { return p.scan(p.tok.end) }

func (p *parser) scan(at int) token {
	text := p.text
	for at < len(text) {
		c := text[at]
		if strings.IndexByte(" \t\r\n", c) >= 0 {
			at++
			continue
		}
		lineStart := strings.TrimSpace(text[strings.LastIndexByte(text[:at], '\n')+1:at]) == ""
		if lineStart && strings.HasPrefix(text[at:], "//") { // as in a test's expectations
			at += 2
			continue
		}
		// A comment, except where '#' begins the name of an attribute.
		if c == '#' && !(at+1 < len(text) && letter(text[at+1])) {
			if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
				at += n
				continue
			}
			at = len(text)
		}
		break
	}
	if at >= len(text) {
		return token{0, len(text), len(text)}
	}
	end := at + 1
	switch c := text[at]; {
	case letter(c) || (c == '#' || c == '!') && end < len(text) && letter(text[end]):
		for end < len(text) && (letter(text[end]) || digit(text[end]) || text[end] == '.') {
			end++
		}
		return token{'w', at, end}
	case digit(c):
		for end < len(text) && digit(text[end]) {
			end++
		}
		return token{'n', at, end}
	case strings.HasPrefix(text[at:], "->"):
		return token{'s', at, at + 2}
	case strings.IndexByte("()[]{}<>,:=-", c) >= 0:
		return token{'s', at, end}
	}
	_, n := utf8.DecodeRuneInString(text[at:])
	return token{'x', at, at + n}
}

func letter(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func (p *parser) word() string { return p.text[p.tok.start:p.tok.end] }

func (p *parser) is(sign string) bool { return p.tok.kind == 's' && p.word() == sign }

// say reports whether the token is this word.
func (p *parser) say(word string) bool { return p.tok.kind == 'w' && p.word() == word }

func (p *parser) quote() string {
	if p.tok.kind == 0 {
		return "the end of the text"
	}
	return strconv.Quote(p.word())
}

func (p *parser) place(at int) diag.Pos {
	before := p.text[:at]
	return diag.Pos{Line: 1 + strings.Count(before, "\n"), Col: at - strings.LastIndexByte(before, '\n')}
}

func (p *parser) problem(t token, r rule, help, format string, args ...any) {
	d := fail(r, help, format, args...).(diag.Problem)
	d.Pos, d.End = p.place(t.start), p.place(t.end)
	panic(d)
}

// check reports an error of the algebra at a place.
func (p *parser) check(t token, err error) {
	if err == nil {
		return
	}
	d, ok := err.(diag.Problem)
	if !ok {
		panic(err)
	}
	d.Pos, d.End = p.place(t.start), p.place(t.end)
	panic(d)
}

func (p *parser) expect(sign, where string) {
	if !p.is(sign) {
		p.problem(p.tok, eSyntax, "", "%q is wanted %s, not %s", sign, where, p.quote())
	}
	p.next()
}

func (p *parser) expectWord(word string) {
	if !p.say(word) {
		p.problem(p.tok, eSyntax, "", "%q is wanted here, not %s", word, p.quote())
	}
	p.next()
}

func (p *parser) name(what string) string {
	if p.tok.kind != 'w' {
		p.problem(p.tok, eSyntax, "", "%s is wanted here, not %s", what, p.quote())
	}
	w := p.word()
	p.next()
	return w
}

func (p *parser) number() int {
	minus := p.is("-")
	if minus {
		p.next()
	}
	if p.tok.kind != 'n' {
		p.problem(p.tok, eSyntax, "", "a number is wanted here, not %s", p.quote())
	}
	n, err := strconv.Atoi(p.word())
	if err != nil || n > 1<<MaxBits {
		p.problem(p.tok, eDims, "", "the number is out of range: at most %d", 1<<MaxBits)
	}
	p.next()
	if minus {
		n = -n
	}
	return n
}

func (p *parser) enter() {
	if p.depth++; p.depth > MaxDepth {
		p.problem(p.tok, eDims, "", "the text nests deeper than %d", MaxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

// numbers reads "[1, 2]" or "(1, 2)".
func (p *parser) numbers(open, closing string) []int {
	p.expect(open, "before numbers")
	list := []int{}
	for !p.is(closing) {
		list = append(list, p.number())
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.expect(closing, "after the numbers")
	return list
}

// vectors reads "[[0, 1], [8, 0]]"; a bare number is a vector of one.
func (p *parser) vectors() [][]int {
	p.expect("[", "before a list of bases")
	list := [][]int{}
	for !p.is("]") {
		if p.tok.kind == 'n' {
			list = append(list, []int{p.number()})
		} else {
			list = append(list, p.numbers("[", "]"))
		}
		if len(list) > MaxBits {
			p.problem(p.tok, eDims, "", "a dimension has more than %d bases", MaxBits)
		}
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.expect("]", "after the bases")
	return list
}
