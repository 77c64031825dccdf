package layout

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Limits of layout text.
const (
	// MaxText is the longest text of one layout, in bytes.
	MaxText = 4096
	// MaxDepth is how deep calls, parentheses and lists may nest.
	MaxDepth = 64
)

// Parse reads a layout in notation. The error is a [diag.List] whose columns
// count from the start of the text; see [Rules] for what its codes mean.
func Parse(text string) (Layout, error) {
	return ParseAt(text, diag.Pos{Line: 1, Col: 1})
}

// ParseAt is Parse for a text that begins at pos of a larger one.
func ParseAt(text string, pos diag.Pos) (Layout, error) {
	return texts.Read(text, func(text string) (Layout, error) {
		v, err := readAll(text, pos, notation{functions(), kLayout, "local(2, 1).spatial(8, 4)"})
		return v.layout, err
	})
}

// ParsePrefix reads a layout from the start of a text and returns how many bytes
// it takes; what follows is left to the caller. A name that names binds, to an
// int or to a Layout, stands for that value, and numbers may be computed from
// names with + - * / % and parentheses, so that program text can say
// local(BM/16, 1).
func ParsePrefix(text string, pos diag.Pos, names map[string]any) (l Layout, n int, err error) {
	v, n, err := read(text, pos, names, notation{functions(), kLayout, "local(2, 1).spatial(8, 4)"})
	return v.layout, n, err
}

// notation is one of the languages of layouts: its functions, what a text of it
// stands for, and an example.
type notation struct {
	table   []function
	wanted  kind
	example string
}

// read reads the longest expression at the start of a text.
func read(text string, pos diag.Pos, names map[string]any, in notation) (v value, n int, err error) {
	p := &parser{text: text, base: pos, names: names, notation: in}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case diag.Problem:
			v, n, err = value{}, 0, diag.List{r}
		default:
			panic(r)
		}
	}()
	p.next()
	start := p.tok
	v = p.sum()
	if v.kind != in.wanted {
		p.problem(start.Start, p.end, eArgs, "write for example "+in.example, "%s is wanted here, not %s", value{kind: in.wanted}.describe(), v.describe())
	}
	return v, p.end, nil
}

// readAll reads a text that is one expression.
func readAll(text string, pos diag.Pos, in notation) (value, error) {
	v, n, err := read(text, pos, nil, in)
	if err != nil {
		return value{}, err
	}
	if t := scan(text, n); t.Start < t.End {
		return value{}, diag.List{{Pos: place(pos, text, t.Start), End: place(pos, text, t.End), Code: eSyntax.code(),
			Msg: fmt.Sprintf("%s cannot follow a layout", quote(text, t)), Help: "join layouts with '*' or '/', calls with '.'"}}
	}
	return v, nil
}

// parser evaluates while it reads. It leaves a wrong text by panicking with the
// diag.Problem, which read turns into the error.
type parser struct {
	notation
	text  string
	base  diag.Pos
	names map[string]any
	tok   Token
	end   int // of the token before tok
	depth int
}

func (p *parser) problem(start, end int, r rule, help, format string, a ...any) {
	panic(diag.Problem{Pos: place(p.base, p.text, start), End: place(p.base, p.text, end), Code: r.code(), Msg: fmt.Sprintf(format, a...), Help: help})
}

// check reports an error of the algebra at a place.
func (p *parser) check(start, end int, err error) {
	if err == nil {
		return
	}
	var d diag.Problem
	if !errors.As(err, &d) {
		panic(err)
	}
	d.Pos, d.End = place(p.base, p.text, start), place(p.base, p.text, end)
	panic(d)
}

func (p *parser) next() {
	p.end = p.tok.End
	p.tok = scan(p.text, p.tok.End)
	if p.tok.Kind != "" && p.tok.End > MaxText {
		if p.tok.Start <= MaxText {
			p.problem(p.tok.Start, p.tok.End, eText, "", "the layout is longer than %d bytes", MaxText)
		}
		p.tok = Token{"", p.tok.Start, p.tok.Start}
	}
}

func (p *parser) is(sign string) bool { return p.word() == sign && p.tok.Kind == "sign" }

func (p *parser) word() string { return p.text[p.tok.Start:p.tok.End] }

func quote(text string, t Token) string {
	if t.Start == t.End {
		return "the end of the text"
	}
	return strconv.Quote(text[t.Start:t.End])
}

func (p *parser) expect(sign, where string) {
	if !p.is(sign) {
		p.problem(p.tok.Start, p.tok.End, eSyntax, "", "%q is wanted %s, not %s", sign, where, quote(p.text, p.tok))
	}
	p.next()
}

func (p *parser) enter() {
	if p.depth++; p.depth > MaxDepth {
		p.problem(p.tok.Start, p.tok.End, eText, "", "the layout nests deeper than %d", MaxDepth)
	}
}

func (p *parser) leave() { p.depth-- }

// sum = term { ("+" | "-") term }, for numbers.
func (p *parser) sum() value {
	start := p.tok.Start
	v := p.term()
	for p.is("+") || p.is("-") {
		if v.kind != kInt {
			if p.depth == 0 {
				return v
			}
			p.problem(p.tok.Start, p.tok.End, eArgs, "layouts are joined with '*' and '/'", "%q joins numbers, not %s", p.word(), v.describe())
		}
		op := p.word()
		p.next()
		w := p.number(p.term)
		if op == "-" {
			w = -w
		}
		v.num = p.fit(start, v.num+w)
	}
	return v
}

// term = factor { ("*" | "/" | "%") factor }.
func (p *parser) term() value {
	start := p.tok.Start
	v := p.factor()
	for p.is("*") || p.is("/") || p.is("%") {
		op, at := p.word(), p.tok
		if v.kind != kInt && (v.kind != kLayout || op == "%") && (op != "*" || v.kind != kShared && v.kind != kGlobal) {
			p.problem(at.Start, at.End, eArgs, "", "%q cannot follow %s", op, v.describe())
		}
		p.next()
		right := p.tok.Start
		w := p.factor()
		if w.kind != v.kind {
			p.problem(right, p.end, eArgs, "", "%s is wanted after %q, not %s", v.describe(), op, w.describe())
		}
		if v.isLayout() {
			var err error
			switch {
			case v.kind == kShared:
				v.shared, err = v.shared.Mul(w.shared)
			case v.kind == kGlobal:
				v.global, err = v.global.Mul(w.global)
			case op == "*":
				v.layout, err = mul(v.layout, w.layout)
			default:
				v.layout, err = v.layout.Div(w.layout)
			}
			p.check(at.Start, at.End, err)
			continue
		}
		switch {
		case op == "*":
			if limit := p.limit(); v.num != 0 && max(w.num, -w.num) > limit/max(v.num, -v.num) {
				p.problem(start, p.end, eValue, "", "the product %d*%d is out of range: at most %d", v.num, w.num, limit)
			}
			v.num *= w.num
		case w.num == 0:
			p.problem(right, p.end, eValue, "", "division by zero")
		default:
			q, r := v.num/w.num, v.num%w.num
			if r != 0 && (r < 0) != (w.num < 0) {
				q, r = q-1, r+w.num
			}
			v.num = q
			if op == "%" {
				v.num = r
			}
		}
		v.num = p.fit(start, v.num)
	}
	return v
}

// limit bounds numbers: strides of global memory go further than sizes.
func (p *parser) limit() int {
	if p.wanted == kGlobal {
		return MaxOffset
	}
	return MaxCells
}

// fit keeps numbers so small that no sum of two overflows.
func (p *parser) fit(start, n int) int {
	if limit := p.limit(); n > limit || n < -limit {
		p.problem(start, p.end, eValue, "", "the number %d is out of range: at most %d", n, limit)
	}
	return n
}

func (p *parser) number(read func() value) int {
	start := p.tok.Start
	v := read()
	if v.kind != kInt {
		p.problem(start, p.end, eArgs, "", "a number is wanted here, not %s", v.describe())
	}
	return v.num
}

// factor = primary { "." call }.
func (p *parser) factor() value {
	v := p.primary()
	for v.isLayout() && p.is(".") {
		p.next()
		if p.tok.Kind != "name" {
			p.problem(p.tok.Start, p.tok.End, eSyntax, "", "the name of a function is wanted after '.', not %s", quote(p.text, p.tok))
		}
		v = p.call(&v)
	}
	return v
}

func (p *parser) primary() value {
	t := p.tok
	switch {
	case t.Kind == "number":
		n, err := strconv.Atoi(p.word())
		if err != nil || n > p.limit() {
			p.problem(t.Start, t.End, eValue, "", "the number is out of range: at most %d", p.limit())
		}
		p.next()
		return value{kind: kInt, num: n}
	case t.Kind == "name":
		return p.name()
	case p.is("-"):
		p.enter()
		defer p.leave()
		p.next()
		return value{kind: kInt, num: -p.number(p.primary)}
	case p.is("("):
		p.enter()
		defer p.leave()
		p.next()
		v := p.sum()
		if v.kind == kInt && p.is(",") {
			return p.rest(v.num, ")")
		}
		p.expect(")", "to close the parenthesis")
		return v
	case p.is("["):
		p.enter()
		defer p.leave()
		p.next()
		if p.is("]") {
			p.next()
			return value{kind: kList, nums: []int{}}
		}
		return p.rest(p.number(p.sum), "]")
	}
	p.problem(t.Start, t.End, eSyntax, "write for example "+p.example, "a layout or a number is wanted here, not %s", quote(p.text, t))
	return value{}
}

// rest reads a list after its first number.
func (p *parser) rest(first int, closing string) value {
	nums := []int{first}
	for p.is(",") {
		p.next()
		if p.is(closing) {
			break
		}
		nums = append(nums, p.number(p.sum))
	}
	p.expect(closing, "to close the list")
	return value{kind: kList, nums: nums}
}

func (p *parser) name() value {
	t, word := p.tok, p.word()
	if word == "True" || word == "False" || word == "true" || word == "false" {
		p.next()
		return value{kind: kBool, flag: word == "True" || word == "true"}
	}
	if word == "None" && p.wanted == kShared {
		p.next()
		return value{kind: kSwizzle}
	}
	if after := scan(p.text, t.End); after.Kind != "sign" || p.text[after.Start] != '(' {
		if bound, ok := p.names[word]; ok {
			p.next()
			switch b := bound.(type) {
			case int:
				return value{kind: kInt, num: p.fit(t.Start, b)}
			case int64:
				if b > MaxCells || b < -MaxCells {
					b = MaxCells + 1
				}
				return value{kind: kInt, num: p.fit(t.Start, int(b))}
			case Layout:
				return value{kind: kLayout, layout: b}
			}
			p.problem(t.Start, t.End, eArgs, "", "%s is neither a number nor a layout", word)
		}
	}
	return p.call(nil)
}

// call reads name(…); x is the layout before the dot, if any.
func (p *parser) call(x *value) value {
	t, word := p.tok, p.word()
	f := p.lookup(word)
	if f == nil {
		known := make([]string, 0, len(p.table)+len(p.names))
		for _, f := range p.table {
			known = append(known, f.name)
		}
		for name := range p.names {
			known = append(known, name)
		}
		p.problem(t.Start, t.End, eName, diag.DidYouMean(word, known), "there is no layout function %s", word)
	}
	p.next()
	p.enter()
	defer p.leave()
	p.expect("(", "after "+word)
	a := args{}
	params := f.params
	if x != nil && !f.atom {
		if len(params) == 0 || params[0].kind != x.kind {
			p.problem(t.Start, t.End, eArgs, f.signature(), "%s is no method of %s", word, x.describe())
		}
		a[params[0].name] = *x
		params = params[1:]
	}
	at := 0 // the next parameter to give by position
	keyed := false
	for !p.is(")") {
		start := p.tok
		if start.Kind == "name" && p.text[scan(p.text, start.End).Start:scan(p.text, start.End).End] == "=" {
			name := p.word()
			p.next()
			p.next()
			p.keyword(f, params, a, name, start)
			keyed = true
		} else {
			v := p.sum()
			if keyed {
				p.problem(start.Start, p.end, eArgs, "", "a positional argument of %s follows a named one", word)
			}
			at = p.positional(f, params, a, at, v, start.Start)
		}
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.expect(")", "to close "+word+"(")
	for _, q := range params {
		if _, ok := a[q.name]; ok || q.optional {
			continue
		}
		if q.kind == kInts { // an empty shape has rank 0
			a[q.name] = value{kind: kList, nums: []int{}}
			continue
		}
		p.problem(t.Start, p.end, eArgs, f.signature(), "%s lacks its argument %s", word, q.name)
	}
	v, err := f.call(a)
	if err == nil && x != nil && f.atom {
		v.layout, err = mul(x.layout, v.layout)
	}
	p.check(t.Start, p.end, err)
	return v
}

// lookup finds a function. What shared and global layouts can do may be written
// with their prefix too: shared_reshape(x, [3, 4]) is x.reshape([3, 4]).
func (p *parser) lookup(name string) *function {
	short := name
	if prefix, ok := map[kind]string{kShared: "shared_", kGlobal: "global_", kTMemory: "tmemory_"}[p.wanted]; ok {
		short = strings.TrimPrefix(name, prefix)
	}
	for i, f := range p.table {
		if f.name == name || f.name == short && len(f.params) > 0 && f.params[0].kind == p.wanted {
			return &p.table[i]
		}
	}
	return nil
}

func (p *parser) keyword(f *function, params []param, a args, name string, at Token) {
	var known []string
	for _, q := range params {
		known = append(known, q.name)
		if q.name != name && q.also != name {
			continue
		}
		if _, ok := a[q.name]; ok {
			p.problem(at.Start, at.End, eArgs, f.signature(), "%s is given twice", name)
		}
		start := p.tok.Start
		v, ok := q.accept(p.sum())
		if !ok {
			p.problem(start, p.end, eArgs, f.signature(), "%s of %s cannot be %s", name, f.name, v.describe())
		}
		a[q.name] = v
		return
	}
	help := diag.DidYouMean(name, known)
	if help == "" {
		help = f.signature()
	}
	p.problem(at.Start, at.End, eArgs, help, "%s has no argument %s", f.name, name)
}

// accept turns a value into one that the parameter takes.
func (q param) accept(v value) (value, bool) {
	switch q.kind {
	case kList, kInts:
		if v.kind == kInt {
			return value{kind: kList, nums: []int{v.num}}, true
		}
		return v, v.kind == kList
	case kMore:
		return value{kind: kMore, more: []Layout{v.layout}}, v.kind == kLayout
	case kSwizzle:
		return v, v.kind == kSwizzle
	}
	return v, v.kind == q.kind
}

// positional gives v to the parameter that is next and returns the next one.
func (p *parser) positional(f *function, params []param, a args, at int, v value, start int) int {
	if at == len(params) || params[at].keyword {
		p.problem(start, p.end, eArgs, f.signature(), "%s has too many arguments", f.name)
	}
	q := params[at]
	w, ok := q.accept(v)
	if !ok {
		p.problem(start, p.end, eArgs, f.signature(), "%s of %s cannot be %s", q.name, f.name, v.describe())
	}
	have, again := a[q.name]
	switch {
	case q.kind == kMore:
		w.more = append(have.more, w.more...)
		a[q.name] = w
		return at
	case q.kind == kInts && v.kind == kInt:
		w.nums = append(have.nums, w.nums...)
		a[q.name] = w
		return at
	case again:
		p.problem(start, p.end, eArgs, f.signature(), "%s is given twice: as a list and as numbers", q.name)
	}
	a[q.name] = w
	return at + 1
}
