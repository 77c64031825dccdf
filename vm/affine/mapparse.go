package affine

import (
	"math"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Limits of the text of a map.
const maxMapText, maxVariables = 1 << 16, 256

// ParseMap reads a map in the notation of XLA, as [Map.String] prints it:
//
//	map    = "UNDEFINED" | "KNOWN EMPTY" | dims [ranges] [runtime] "->" "(" exprs ")" ["," "domain:" items]
//	dims   = "(" names ")"    ranges = "[" names "]"    runtime = "{" names "}"
//	item   = expr "in" "[" int "," int "]"
//
// Operators are + - * / floordiv ceildiv mod, with min and max as functions; "/" rounds
// down, and x mod y is never negative: x mod -3 is x mod 3. Every variable needs an item. The error is a diag.List.
func ParseMap(text string) (Map, error) {
	p := &parser{text: text, pos: diag.Pos{Line: 1, Col: 1}, words: true}
	if len(text) > maxMapText {
		p.fail("a map has at most %d characters, this one has %d", maxMapText, len(text))
		return Map{}, p.errs.Err()
	}
	switch strings.TrimSpace(text) {
	case "UNDEFINED":
		return Undefined(), nil
	case "KNOWN EMPTY":
		return Map{empty: true}, nil
	}
	m := p.mapping()
	p.space()
	if p.errs == nil && p.at < len(p.text) {
		p.fail("unexpected %.20q after the map", p.text[p.at:])
	}
	if p.errs != nil {
		p.errs[0].Help = "a map is written as (d0, d1)[s0] -> (d0 * 8 + d1, s0), domain: d0 in [0, 3], d1 in [0, 7], s0 in [0, 1]"
		return Map{}, p.errs.Err()
	}
	out, err := NewMap(m.Dims, m.Ranges, m.Runtime, m.Results, m.Constraints)
	if err != nil {
		p.at = 0
		p.fail("%s", strings.TrimPrefix(err.Error(), "affine: "))
		return Map{}, p.errs.Err()
	}
	return out, nil
}

// ParseMapExpr reads an expression in the notation of maps.
func ParseMapExpr(text string) (Expr, error) {
	p := &parser{text: text, pos: diag.Pos{Line: 1, Col: 1}, words: true}
	if len(text) > maxMapText {
		p.fail("an expression has at most %d characters, this one has %d", maxMapText, len(text))
		return Expr{}, p.errs.Err()
	}
	e := p.sum()
	p.space()
	if p.errs == nil && p.at < len(p.text) {
		p.fail("unexpected %.20q after the expression", p.text[p.at:])
	}
	if p.errs == nil && e.Err() != nil {
		p.at = 0
		p.fail("the expression has no value: %s", e.sum().bad)
	}
	return e, p.errs.Err()
}

// MapText prints the expression in the notation of maps; variables are ordered as named.
func (e Expr) MapText(variables ...string) string {
	o := order{}
	for i, name := range variables {
		o[name] = i
	}
	return o.text(e)
}

func (p *parser) expect(token string) bool {
	p.space()
	if p.errs == nil && strings.HasPrefix(p.text[p.at:], token) {
		p.at += len(token)
		return true
	}
	p.fail("expected %s", token)
	return false
}

func (p *parser) word() string {
	p.space()
	start := p.at
	for p.at < len(p.text) && (letter(p.text[p.at]) || p.at > start && digit(p.text[p.at])) {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *parser) names(open, shut string) (vars []Variable) {
	if !p.expect(open) {
		return nil
	}
	if p.take(shut) != 0 {
		return nil
	}
	for p.errs == nil {
		at := p.at
		name := p.word()
		switch name {
		case "":
			p.fail("expected the name of a variable")
		case "in", "mod", "domain", "floordiv", "floorDiv", "ceildiv", "min", "max":
			p.at = at
			p.fail("%q is a word of the notation, not a name", name)
		}
		if vars = append(vars, Variable{name, Everything}); len(vars) > maxVariables {
			p.fail("a map has at most %d variables of a kind", maxVariables)
		}
		if p.take(",") == 0 {
			p.expect(shut)
			break
		}
	}
	return vars
}

func (p *parser) next() byte {
	p.space()
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) mapping() (m Map) {
	m.Dims = p.names("(", ")")
	if p.next() == '[' {
		m.Ranges = p.names("[", "]")
	}
	if p.next() == '{' {
		m.Runtime = p.names("{", "}")
	}
	if !p.expect("->") || !p.expect("(") {
		return m
	}
	if p.take(")") == 0 {
		for p.errs == nil {
			m.Results = append(m.Results, p.sum())
			if p.take(",") == 0 {
				p.expect(")")
				break
			}
		}
	}
	missing := map[string]*Variable{}
	for _, list := range [][]Variable{m.Dims, m.Ranges, m.Runtime} {
		for i := range list {
			missing[list[i].Name] = &list[i]
		}
	}
	if p.take(",") != 0 {
		p.expect("domain")
		p.expect(":")
		for p.errs == nil {
			e := p.sum()
			p.expect("in")
			p.expect("[")
			lo := p.bound()
			p.expect(",")
			hi := p.bound()
			p.expect("]")
			f, one := single1(e)
			if v := missing[f.name]; one && f.op == opVar && v != nil {
				v.Range = Range{lo, hi}
				delete(missing, f.name)
			} else {
				m.Constraints = append(m.Constraints, Constraint{e, Range{lo, hi}})
			}
			if p.take(",") == 0 {
				break
			}
		}
	}
	for _, v := range m.variables() {
		if missing[v.Name] != nil && p.errs == nil {
			p.fail("no domain says what %s may be; write %s in [lo, hi] behind domain:", v.Name, v.Name)
		}
	}
	bounds := m.bounds()
	for i, e := range m.Results {
		m.Results[i] = e.signed(bounds)
	}
	for i, c := range m.Constraints {
		m.Constraints[i].Expr = c.Expr.signed(bounds)
	}
	return m
}

func (p *parser) bound() int64 {
	at := p.at
	v, ok := p.unary().Const()
	if p.errs == nil && (!ok || v == math.MinInt64 || v == math.MaxInt64) {
		p.at = at
		p.fail("expected a whole number")
	}
	return v
}
