package cute

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Parse reads a layout: shape:stride, a shape alone, or an expression whose
// value is a layout. The error is a [diag.List] whose columns count from the
// start of the text; see [Rules] for its codes.
func Parse(text string) (Layout, error) {
	p := newParser(text, diag.Pos{Line: 1, Col: 1})
	var l Layout
	err := p.run(func() { l = p.asLayout(p.whole()) })
	if err != nil {
		return Layout{}, err
	}
	return l, nil
}

// ParseTuple reads a number or list: a shape, a stride or a coordinate.
func ParseTuple(text string) (Tuple, error) {
	p := newParser(text, diag.Pos{Line: 1, Col: 1})
	var t Tuple
	err := p.run(func() {
		v := p.whole()
		if v.kind != vTuple {
			p.problem(v.start, v.end, eArgs, "", "a number or a list of numbers is wanted, not %s", v.describe())
		}
		t = v.tuple
	})
	if err != nil {
		return Tuple{}, err
	}
	return t, nil
}

// ParseTiler reads a tiler: a layout, a shape as the tiler of first elements, or
// <…> with a tiler for each mode.
func ParseTiler(text string) (Tiler, error) {
	p := newParser(text, diag.Pos{Line: 1, Col: 1})
	var t Tiler
	err := p.run(func() { t = p.asTiler(p.whole()) })
	if err != nil {
		return Tiler{}, err
	}
	return t, nil
}

// ParseComposed reads what [Composed.String] prints, or a layout.
func ParseComposed(text string) (Composed, error) {
	p := newParser(text, diag.Pos{Line: 1, Col: 1})
	var c Composed
	err := p.run(func() {
		v := p.whole()
		if v.kind == vComposed {
			c = v.composed
		} else {
			c = Composed{Layout: p.asLayout(v)}
		}
	})
	if err != nil {
		return Composed{}, err
	}
	return c, nil
}

type token struct {
	kind       byte // 'n' number, 'a' name, 's' sign, 0 the end, '?' what cannot stand here
	start, end int
}

func scan(text string, at int) token {
	for at < len(text) && strings.IndexByte(" \t\r\n", text[at]) >= 0 {
		at++
	}
	if at == len(text) {
		return token{0, at, at}
	}
	letter := func(c byte) bool { return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	end := at + 1
	switch c := text[at]; {
	case digit(c) || c == '_' && end < len(text) && digit(text[end]):
		for end < len(text) && digit(text[end]) {
			end++
		}
		return token{'n', at, end}
	case letter(c):
		for end < len(text) && (letter(text[end]) || digit(text[end]) || strings.HasPrefix(text[end:], "::")) {
			if text[end] == ':' {
				end++
			}
			end++
		}
		return token{'a', at, end}
	case strings.IndexByte("()<>[]:,@-", c) >= 0:
		return token{'s', at, end}
	}
	_, n := utf8.DecodeRuneInString(text[at:])
	return token{'?', at, at + n}
}

// parser evaluates while it reads. It leaves a wrong text by panicking with the
// diag.Problem, which run turns into the error.
type parser struct {
	text  string
	base  diag.Pos
	table []function
	tok   token
	end   int // of the token before tok
	depth int
}

func newParser(text string, base diag.Pos) *parser {
	return &parser{text: text, base: base, table: functions()}
}

func (p *parser) run(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case diag.Problem:
			err = diag.List{r}
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

func (p *parser) place(at int) diag.Pos {
	pos := p.base
	before := p.text[:at]
	if n := strings.Count(before, "\n"); n > 0 {
		pos.Line += n
		pos.Col = at - strings.LastIndexByte(before, '\n')
		return pos
	}
	pos.Col += at
	return pos
}

func (p *parser) problem(start, end int, r rule, help, format string, args ...any) {
	panic(diag.Problem{Pos: p.place(start), End: p.place(end), Code: r.code(), Msg: fmt.Sprintf(format, args...), Help: help})
}

// check reports an error of the algebra at a place.
func (p *parser) check(start, end int, err error) {
	if err == nil {
		return
	}
	var d diag.Problem
	if !errors.As(err, &d) {
		d = diag.Problem{Code: eArgs.code(), Msg: err.Error()}
	}
	d.Pos, d.End = p.place(start), p.place(end)
	panic(d)
}

func (p *parser) next() {
	p.end = p.tok.end
	p.tok = scan(p.text, p.tok.end)
	if p.tok.kind != 0 && p.tok.end > MaxText {
		p.problem(min(p.tok.start, MaxText), min(p.tok.end, len(p.text)), eText, "", "the text is longer than %d bytes", MaxText)
	}
}

func (p *parser) word() string { return p.text[p.tok.start:p.tok.end] }

func (p *parser) is(sign string) bool { return p.tok.kind == 's' && p.word() == sign }

func (p *parser) quote() string {
	if p.tok.kind == 0 {
		return "the end of the text"
	}
	return strconv.Quote(p.word())
}

func (p *parser) expect(sign, where string) {
	if !p.is(sign) {
		p.problem(p.tok.start, p.tok.end, eSyntax, "", "%q is wanted %s, not %s", sign, where, p.quote())
	}
	p.next()
}

func (p *parser) enter() {
	if p.depth++; p.depth > MaxDepth {
		p.problem(p.tok.start, p.tok.end, eText, "", "the text nests deeper than %d", MaxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

// whole reads an expression that takes the whole text.
func (p *parser) whole() term {
	p.next()
	v := p.expr()
	if p.tok.kind != 0 {
		p.problem(p.tok.start, p.tok.end, eSyntax, "join layouts with \" o \"", "%s cannot follow %s", p.quote(), v.describe())
	}
	return v
}

type kind int

const (
	vTuple kind = iota // a number or list without strides
	vLayout
	vTiler
	vSwizzle
	vComposed
	vPointer // smem_ptr[16b](unset), which may stand between swizzle and layout
	vPair    // a layout and its tiler
)

// term is what a part of the text stands for, and where it stands.
type term struct {
	kind       kind
	tuple      Tuple
	layout     Layout
	tiler      Tiler
	swizzle    layout.Swizzle
	composed   Composed
	bits       int
	start, end int
}

func (v term) describe() string {
	switch v.kind {
	case vTuple:
		if v.tuple.IsInt() {
			return "a number"
		}
		return "a list of numbers"
	case vLayout:
		return "a layout"
	case vTiler:
		return "a tiler"
	case vSwizzle:
		return "a swizzle"
	case vComposed:
		return "a swizzled layout"
	case vPointer:
		return "a pointer"
	}
	return "a result of several parts"
}

// expr = operand { "o" operand }: swizzles apply to offset and layout, layouts compose.
func (p *parser) expr() term {
	start := p.tok.start
	parts := []term{p.operand()}
	for p.tok.kind == 'a' && p.word() == "o" {
		p.next()
		parts = append(parts, p.operand())
		if len(parts) > MaxDepth {
			p.problem(start, p.end, eText, "", "more than %d parts are composed", MaxDepth)
		}
	}
	v := p.compose(parts)
	v.start, v.end = start, p.end
	return v
}

func (p *parser) compose(parts []term) term {
	last := parts[len(parts)-1]
	if len(parts) == 1 {
		if last.kind == vPointer {
			p.problem(last.start, last.end, eSyntax, "", "a pointer stands between a swizzle and a layout")
		}
		return last
	}
	if parts[0].kind != vSwizzle {
		l := p.asLayout(last)
		for i := len(parts) - 2; i >= 0; i-- {
			part := parts[i]
			if i == 0 && part.kind == vTuple && part.bits < 0 { // ArithTuple(0,0)
				break
			}
			c, err := Composition(p.asLayout(part), l)
			p.check(part.start, last.end, err)
			l = c
		}
		return term{kind: vLayout, layout: l}
	}
	out := Composed{Swizzle: parts[0].swizzle}
	rest := parts[1:]
	if len(rest) > 1 {
		switch m := rest[0]; {
		case m.kind == vPointer:
			out.Bits, rest = m.bits, rest[1:]
		case m.kind == vTuple && m.tuple.IsInt() && m.tuple.basis == nil:
			if m.tuple.n < 0 {
				p.problem(m.start, m.end, eSwizzle, "", "an offset is not negative")
			}
			out.Offset, rest = m.tuple.n, rest[1:]
		}
	}
	inner := p.compose(rest)
	inner.start, inner.end = rest[0].start, last.end
	if inner.kind == vComposed {
		p.problem(inner.start, inner.end, eArgs, "", "a swizzle applies to a layout, not to %s", inner.describe())
	}
	out.Layout = p.asLayout(inner)
	p.checkSwizzled(out, inner.start, inner.end)
	return term{kind: vComposed, composed: out}
}

func (p *parser) checkSwizzled(c Composed, start, end int) {
	if c.Layout.Coordinates() {
		p.problem(start, end, eBasis, "", "a swizzle applies to offsets, and %s gives coordinates", c.Layout)
	}
	for _, d := range c.Layout.stride.Leaves() {
		if d.n < 0 {
			p.problem(start, end, eSwizzle, "", "a swizzle applies to offsets that are not negative")
		}
	}
	if _, err := c.Elements(); err != nil {
		p.check(start, end, err)
	}
}

// operand = number | "(" expr {"," expr} ")" [":" …] | "<" tilers ">" | name.
func (p *parser) operand() term {
	start := p.tok.start
	var v term
	switch {
	case p.tok.kind == 'n' || p.is("-") || p.is("("):
		v = p.primary()
		if p.is(":") {
			if v.kind != vTuple {
				p.problem(p.tok.start, p.tok.end, eSyntax, "", "strides follow a shape, not %s", v.describe())
			}
			p.next()
			d := p.primary()
			if d.kind != vTuple {
				p.problem(d.start, d.end, eSyntax, "", "strides are numbers or lists, not %s", d.describe())
			}
			l, err := New(v.tuple, d.tuple)
			p.check(start, p.end, err)
			v = term{kind: vLayout, layout: l}
		}
	case p.is("<"):
		v = p.tilers()
	case p.tok.kind == 'a':
		v = p.name()
	default:
		p.problem(p.tok.start, p.tok.end, eSyntax, "write for example (4,8):(8,1)", "a layout is wanted here, not %s", p.quote())
	}
	v.start, v.end = start, p.end
	return v
}

// primary is a number, with basis, or what stands in parentheses: a list of
// numbers, a layout of modes, or one expression.
func (p *parser) primary() term {
	start := p.tok.start
	if !p.is("(") {
		t := p.number()
		return term{kind: vTuple, tuple: t, start: start, end: p.end}
	}
	return p.list("(", ")")
}

func (p *parser) list(opening, closing string) term {
	start := p.tok.start
	p.enter()
	defer p.leave()
	p.expect(opening, "to open the list")
	var items []term
	numbers := true
	for {
		v := p.expr()
		items = append(items, v)
		numbers = numbers && v.kind == vTuple
		if len(items) > MaxLeaves {
			p.problem(start, p.end, eText, "", "a list has more than %d items", MaxLeaves)
		}
		if !p.is(",") {
			break
		}
		p.next()
		if p.is(closing) {
			break
		}
	}
	p.expect(closing, "to close the list")
	out := term{kind: vTuple, start: start, end: p.end}
	switch {
	case numbers:
		list := make([]Tuple, len(items))
		for i, v := range items {
			list[i] = v.tuple
		}
		out.tuple = Of(list...)
		return out
	case len(items) == 1:
		items[0].start, items[0].end = start, p.end
		return items[0]
	}
	modes := make([]Layout, len(items))
	for i, v := range items {
		modes[i] = p.asLayout(v)
	}
	l, err := Join(modes...)
	p.check(start, p.end, err)
	out.kind, out.layout = vLayout, l
	return out
}

func (p *parser) integer() int {
	start, neg := p.tok.start, p.is("-")
	if neg {
		p.next()
	}
	if p.tok.kind != 'n' {
		p.problem(p.tok.start, p.tok.end, eSyntax, "", "a number is wanted here, not %s", p.quote())
	}
	n, err := strconv.Atoi(strings.TrimPrefix(p.word(), "_"))
	if err != nil || n > MaxOffset {
		p.problem(start, p.tok.end, eNumber, "", "the number is beyond 2^52")
	}
	p.next()
	if neg {
		n = -n
	}
	return n
}

func (p *parser) number() Tuple {
	t := Int(p.integer())
	for p.is("@") {
		p.next()
		at := p.tok
		m := p.integer()
		if m < 0 || m >= MaxLeaves || len(t.basis) >= MaxDepth {
			p.problem(at.start, at.end, eNumber, "", "there is no mode %d", m)
		}
		t.basis = append(t.basis, m)
	}
	return t
}

// tilers = "<" tiler {"," tiler} ">".
func (p *parser) tilers() term {
	p.enter()
	defer p.leave()
	p.next()
	var modes []Tiler
	for {
		if p.tok.kind == 'a' && p.word() == "_" {
			modes = append(modes, KeepMode())
			p.next()
		} else {
			modes = append(modes, p.asTiler(p.expr()))
		}
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.expect(">", "to close the tiler")
	return term{kind: vTiler, tiler: ByMode(modes...)}
}

// asLayout takes a shape alone for its column-major layout.
func (p *parser) asLayout(v term) Layout {
	switch v.kind {
	case vLayout:
		return v.layout
	case vTuple:
		if v.bits == 0 {
			l, err := Compact(v.tuple)
			p.check(v.start, v.end, err)
			return l
		}
	case vComposed:
		if v.composed.Plain() {
			return v.composed.Layout
		}
	}
	p.problem(v.start, v.end, eArgs, "", "a layout is wanted here, not %s", v.describe())
	return Layout{}
}

func (p *parser) asTiler(v term) Tiler {
	switch v.kind {
	case vTiler:
		return v.tiler
	case vTuple:
		t, err := ShapeTiler(v.tuple)
		p.check(v.start, v.end, err)
		return t
	}
	return LayoutTiler(p.asLayout(v))
}

// name reads a swizzle, a pointer, the name of a shared-memory atom, a call, or
// one of the types that C++ writes: Layout<Shape<_4,_8>, Stride<_8,_1>>, Tile<4, _2>.
func (p *parser) name() term {
	t, word := p.tok, p.word()
	switch {
	case word == "Sw" || word == "Swizzle":
		p.next()
		n := p.angles(word)
		if len(n) != 3 {
			p.problem(t.start, p.end, eSwizzle, "write Sw<B,M,S>, as in Sw<3,4,3>", "a swizzle has three numbers")
		}
		s, err := layout.NewSwizzle(n[0], n[1], n[2])
		if err != nil {
			p.problem(t.start, p.end, eSwizzle, "", "%v", err)
		}
		return term{kind: vSwizzle, swizzle: s}
	case word == "smem_ptr" || word == "smemptr":
		return p.pointer()
	case word == "ArithTuple":
		p.next()
		v := p.primary()
		if v.kind != vTuple || slices.ContainsFunc(v.tuple.Leaves(), func(x Tuple) bool { return x.n != 0 }) {
			p.problem(t.start, p.end, eBasis, "", "coordinates begin at 0")
		}
		return term{kind: vTuple, tuple: v.tuple, bits: -1}
	case word == "Shape" || word == "Stride" || word == "Step" || word == "Coord":
		p.next()
		v := p.list("<", ">")
		if v.kind != vTuple {
			p.problem(t.start, p.end, eArgs, "", "%s lists numbers, not %s", word, v.describe())
		}
		return v
	case word == "Layout":
		p.next()
		v := p.list("<", ">")
		if v.kind != vTuple || len(v.tuple.items) > 2 {
			p.problem(t.start, p.end, eSyntax, "write Layout<Shape<_4,_8>, Stride<_8,_1>>", "a layout has a shape and a stride")
		}
		if len(v.tuple.items) == 1 {
			return term{kind: vTuple, tuple: v.tuple.items[0]}
		}
		l, err := New(v.tuple.items[0], v.tuple.items[1])
		p.check(t.start, p.end, err)
		return term{kind: vLayout, layout: l}
	case word == "Tile":
		p.next()
		if !p.is("<") {
			p.expect("<", "after Tile")
		}
		return p.tilers()
	case strings.Contains(word, "::"):
		p.next()
		p.expect("<", "after "+word)
		typ := p.word()
		p.next()
		p.expect(">", "to close the type")
		c, err := SharedAtom(word + "<" + typ + ">")
		p.check(t.start, p.end, err)
		return term{kind: vComposed, composed: c}
	}
	return p.call()
}

func (p *parser) angles(after string) []int {
	p.expect("<", "after "+after)
	var n []int
	for {
		n = append(n, p.integer())
		if !p.is(",") || len(n) > 8 {
			break
		}
		p.next()
	}
	p.expect(">", "to close the numbers of "+after)
	return n
}

// pointer = "smem_ptr" "[" bits "b" "]" "(" "unset" ")".
func (p *parser) pointer() term {
	start := p.tok.start
	p.next()
	p.expect("[", "after smem_ptr")
	at := p.tok
	bits := p.integer()
	if bits < 1 || bits > 128 {
		p.problem(at.start, at.end, eSwizzle, "", "elements of %d bits", bits)
	}
	if p.word() != "b" {
		p.problem(p.tok.start, p.tok.end, eSyntax, "", "the width of elements is written as in [16b], not %s", p.quote())
	}
	p.next()
	p.expect("]", "to close the width")
	p.expect("(", "as in smem_ptr[16b](unset)")
	if p.word() != "unset" {
		p.problem(p.tok.start, p.tok.end, eSyntax, "", "only a pointer that is (unset) is known, not %s", p.quote())
	}
	p.next()
	p.expect(")", "as in smem_ptr[16b](unset)")
	return term{kind: vPointer, bits: bits, start: start}
}

// call = name ["<" numbers ">"] "(" [expr {"," expr}] ")". Numbers in angles are
// the last arguments, as in upcast<2>(l).
func (p *parser) call() term {
	t, word := p.tok, p.word()
	f := p.lookup(word)
	if f == nil {
		known := []string{"Sw", "smem_ptr"}
		for _, f := range p.table {
			known = append(known, f.name)
		}
		p.problem(t.start, t.end, eName, diag.DidYouMean(word, known), "there is no operation %s", word)
	}
	p.enter()
	defer p.leave()
	p.next()
	var extra []term
	if p.is("<") {
		at := p.tok.start
		for _, n := range p.angles(word) {
			extra = append(extra, term{kind: vTuple, tuple: Int(n), start: at, end: p.end})
		}
	}
	p.expect("(", "after "+word)
	var args []term
	for !p.is(")") {
		if p.tok.kind == 'a' && p.word() == "_" {
			args = append(args, term{kind: vTiler, tiler: KeepMode(), start: p.tok.start, end: p.tok.end})
			p.next()
		} else {
			args = append(args, p.expr())
		}
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.expect(")", "to close "+word+"(")
	args = append(args, extra...)
	for i, v := range args {
		if i >= len(f.params) {
			p.problem(v.start, v.end, eArgs, f.signature(), "%s has no argument number %d", word, i+1)
		}
		args[i] = p.convert(f, f.params[i], v)
	}
	for i := len(args); i < len(f.params); i++ {
		if !f.params[i].optional {
			p.problem(t.start, p.end, eArgs, f.signature(), "%s lacks its argument %s", word, f.params[i].name)
		}
		args = append(args, term{})
	}
	v, err := f.eval(args)
	p.check(t.start, p.end, err)
	return v
}

func (p *parser) lookup(name string) *function {
	for i := range p.table {
		if p.table[i].name == name {
			return &p.table[i]
		}
	}
	return nil
}

// convert makes an argument what the parameter wants.
func (p *parser) convert(f *function, q param, v term) term {
	switch q.kind {
	case pLayout:
		return term{kind: vLayout, layout: p.asLayout(v)}
	case pTiler:
		return term{kind: vTiler, tiler: p.asTiler(v)}
	case pTuple:
		if v.kind == vTuple && v.bits == 0 {
			return v
		}
	case pInt:
		if v.kind == vTuple && v.tuple.IsInt() && v.tuple.basis == nil {
			return v
		}
	case pSwizzled: // a layout or a swizzled one
		if v.kind == vComposed {
			return v
		}
		return term{kind: vComposed, composed: Composed{Layout: p.asLayout(v)}}
	case pRecast: // a layout or a swizzle
		if v.kind == vSwizzle {
			return v
		}
		return term{kind: vLayout, layout: p.asLayout(v)}
	case pSwizzle:
		if v.kind == vSwizzle {
			return v
		}
	}
	p.problem(v.start, v.end, eArgs, f.signature(), "%s of %s is %s, not %s", q.name, f.name, q.kind, v.describe())
	return v
}
