package affine

import (
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

const maxText, maxDepth = 4096, 64

// Parse reads an expression: numbers, names, + - * / % with the usual
// precedence, brackets, and the functions min, max, floordiv, ceildiv and mod.
// "/" and "%" round down. The error is a diag.List.
func Parse(text string) (Expr, error) { return ParseAt(text, diag.Pos{Line: 1, Col: 1}) }

// ParseAt is Parse of a text that starts at pos.
func ParseAt(text string, pos diag.Pos) (Expr, error) {
	p := &parser{text: text, pos: pos}
	if len(text) > maxText {
		p.fail("an expression has at most %d characters, this one has %d", maxText, len(text))
		return Expr{}, p.errs.Err()
	}
	e := p.sum()
	p.space()
	if p.at < len(p.text) {
		p.fail("unexpected %q after the expression", p.text[p.at:])
	}
	if p.errs == nil && e.Err() != nil {
		p.at = 0
		p.fail("%s has no value: %s", text, e.sum().bad)
	}
	if err := p.errs.Err(); err != nil {
		return Expr{}, err
	}
	return e, nil
}

type parser struct {
	text  string
	pos   diag.Pos
	at    int
	depth int
	words bool // mod, floordiv and ceildiv stand between operands, as in maps
	errs  diag.List
}

func (p *parser) fail(format string, args ...any) {
	if p.errs == nil {
		at := p.pos
		at.Col += p.at
		p.errs.Addf(at, "Affine.E1", "", format, args...)
	}
}

func (p *parser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t' || p.words && p.text[p.at] == '\n') {
		p.at++
	}
}

func (p *parser) take(set string) byte {
	p.space()
	if p.errs == nil && p.at < len(p.text) && strings.IndexByte(set, p.text[p.at]) >= 0 {
		p.at++
		return p.text[p.at-1]
	}
	return 0
}

func (p *parser) sum() Expr {
	e := p.product()
	for {
		p.space()
		at := p.at
		switch p.take("+-") {
		case '+':
			e = e.Add(p.product())
		case '-':
			e = e.Sub(p.product())
		default:
			return e
		}
		p.worth(e, at)
	}
}

// worth says at its operator that an expression has no value.
func (p *parser) worth(e Expr, at int) {
	if p.errs == nil && e.Err() != nil {
		p.at = at
		p.fail("no value: %s", e.sum().bad)
	}
}

func (p *parser) product() Expr {
	e := p.unary()
	for {
		p.space()
		at := p.at
		switch p.take("*/%") {
		case '*':
			e = e.Mul(p.unary())
		case '/':
			e = p.quotient(e, p.unary())
		case '%':
			e = p.remainder(e, p.unary())
		default:
			word := p.infix()
			switch p.at += len(word); word {
			case "mod":
				e = p.remainder(e, p.unary())
			case "floordiv", "floorDiv":
				e = p.quotient(e, p.unary())
			case "ceildiv":
				e = p.ceiling(e, p.unary())
			default:
				return e
			}
		}
		p.worth(e, at)
	}
}

// quotient is e/f. In maps, where it has a value, 0/f is 0.
func (p *parser) quotient(e, f Expr) Expr {
	if p.nothing(e, f) {
		return e
	}
	return e.FloorDiv(f)
}

// ceiling is e/f rounded up, and as quotient of 0.
func (p *parser) ceiling(e, f Expr) Expr {
	if p.nothing(e, f) {
		return e
	}
	return e.CeilDiv(f)
}

// nothing says that e is 0 in a map, and f no number.
func (p *parser) nothing(e, f Expr) bool {
	_, known := f.Const()
	return p.words && !known && e.Equal(Const(0))
}

// remainder is e mod f. That of maps is never negative: the sign of f does not matter.
func (p *parser) remainder(e, f Expr) Expr {
	if !p.words {
		return e.Mod(f)
	}
	if _, known := f.Const(); !known && (e.Equal(Const(0)) || e.Equal(f) || e.Add(f).Equal(Const(0))) {
		return Const(0)
	}
	return e.Mod(f.magnitude(nil))
}

// magnitude is the larger of e and -e, which is one of them where the bounds decide.
func (e Expr) magnitude(bounds map[string]Range) Expr {
	switch r := e.Range(bounds); {
	case r.Lo >= 0:
		return e
	case r.Hi <= 0:
		return e.MulConst(-1)
	}
	return e.Max(e.MulConst(-1))
}

// magnitudeOf is what an expression is the magnitude of.
func (e Expr) magnitudeOf() (x Expr, ok bool) {
	f, one := single1(e)
	if !one || f.op != opMax || !f.a.Add(f.b).Equal(Const(0)) {
		return Expr{}, false
	}
	return f.b, true
}

// signed puts what bounds tell of the signs of divisors into remainders.
func (e Expr) signed(bounds map[string]Range) Expr {
	return e.rebuild(Var, func(o op, a, b Expr) Expr {
		if x, ok := b.magnitudeOf(); ok && o == opMod {
			b = x.magnitude(bounds)
		}
		return apply(o, a, b)
	})
}

// infix is the operator of maps that comes next and is a word, or nothing.
func (p *parser) infix() string {
	if !p.words || p.errs != nil {
		return ""
	}
	p.space()
	end := p.at
	for end < len(p.text) && letter(p.text[end]) {
		end++
	}
	switch word := p.text[p.at:end]; word {
	case "mod", "floordiv", "floorDiv", "ceildiv":
		return word
	}
	return ""
}

func (p *parser) unary() Expr {
	if p.depth++; p.depth > maxDepth {
		p.fail("brackets nest at most %d deep", maxDepth)
		return Expr{}
	}
	defer func() { p.depth-- }()
	if p.take("-") != 0 {
		return p.unary().MulConst(-1)
	}
	return p.primary()
}

func letter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

func (p *parser) primary() Expr {
	p.space()
	if p.errs != nil {
		return Expr{}
	}
	start := p.at
	if p.take("(") != 0 {
		e := p.sum()
		if p.take(")") == 0 {
			p.fail("expected )")
		}
		return e
	}
	for p.at < len(p.text) && (letter(p.text[p.at]) || digit(p.text[p.at])) {
		p.at++
	}
	word := p.text[start:p.at]
	switch {
	case word == "":
		p.fail("expected a number, a name or (")
		return Expr{}
	case digit(word[0]):
		v, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			p.at = start
			p.fail("%q is not a 64-bit decimal number", word)
		}
		return Const(v)
	}
	if p.take("(") == 0 {
		return Var(word)
	}
	a := p.sum()
	if p.take(",") == 0 {
		p.fail("%s takes two arguments: expected ,", word)
	}
	b := p.sum()
	if p.take(")") == 0 {
		p.fail("expected )")
	}
	switch word {
	case "min":
		return a.Min(b)
	case "max":
		return a.Max(b)
	case "floordiv":
		return p.quotient(a, b)
	case "ceildiv":
		return p.ceiling(a, b)
	case "mod":
		return p.remainder(a, b)
	}
	p.at = start
	p.fail("no function %q; there are min, max, floordiv, ceildiv and mod", word)
	return Expr{}
}
