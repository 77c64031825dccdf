package text

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
	"github.com/tilus-lab/tilus-lab/vm/memo"
)

// What texts in declarations of tiles stand for; vm/layout remembers register layouts itself.
var (
	sharedLayouts memo.Texts[layout.Shared]
	placements    memo.Texts[bits.Placement]
)

// maxExpr bounds the text of an expression that is read alone.
const maxExpr = 4096

const (
	precCompare = 3
	precTop     = 1
)

// Expr reads an expression of variables: a condition or a watch of a debugger. Of
// several variables with one name the last counts. Errors are a diag.List whose columns
// count in src.
func Expr(src string, vars []*ir.Var) (e ir.Expr, err error) {
	p := newParser()
	if len(src) > maxExpr {
		p.list.Addf(diag.Pos{Line: 1, Col: 1}, codeLimit, "", "the expression has %d bytes, at most %d are read", len(src), maxExpr)
		return nil, p.list
	}
	for _, v := range vars {
		p.bind(v)
	}
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
		case bail, abort:
			e = nil
		default:
			panic(r)
		}
		if err = p.list.Err(); err != nil {
			e = nil
		}
	}()
	p.lexed = lex("", src, nil, &p.list)
	e = p.expr()
	if t := p.peek(); !t.endsLine() {
		p.report(t, codeSyntax, "", "the expression ends before %s", t.describe())
	}
	ir.TypeOf(e, func(pos diag.Pos, code, help, msg string) { p.list.Addf(pos, code, help, "%s", msg) })
	return e, nil
}

// expr reads an expression.
func (p *parser) expr() ir.Expr {
	p.ops = 0
	return p.binary(precTop)
}

// binary reads operators of at least the given precedence (see [ir.BinaryPrec]).
func (p *parser) binary(prec int) ir.Expr {
	x := p.unary()
	for compared := false; ; {
		t := p.peek()
		level := 0
		if t.kind == tPunct {
			level = ir.BinaryPrec(t.text)
		}
		if level == 0 || level < prec {
			return x
		}
		if level == precCompare {
			if compared {
				p.fail(t, codeSyntax, "join comparisons with &&", "comparisons do not chain")
			}
			compared = true
		}
		p.next()
		p.ops++
		if p.ops > MaxOperators {
			p.limit(t, "more than %d operators in one expression", MaxOperators)
		}
		x = p.fold(&ir.Binary{Op: t.text, X: x, Y: p.binary(level + 1), Pos: t.pos}, t)
	}
}

// fold computes what came from compile-time parameters.
func (p *parser) fold(e *ir.Binary, t token) ir.Expr {
	x, ok := e.X.(*ir.Int)
	y, ok2 := e.Y.(*ir.Int)
	if !ok || !ok2 || !p.folded[x] && !p.folded[y] || ir.BinaryPrec(e.Op) != 0 && ir.BinaryPrec(e.Op) <= precCompare {
		return e
	}
	n, err := ir.EvalInt(e, nil)
	if err != nil {
		var ee *ir.EvalError
		errors.As(err, &ee)
		p.fail(t, codeBinding, "", "%s", ee.Msg)
	}
	return p.known(n, e.Position())
}

func (p *parser) known(n int64, pos diag.Pos) *ir.Int {
	e := &ir.Int{Value: n, Pos: pos}
	p.folded[e] = true
	return e
}

func (p *parser) unary() ir.Expr {
	t := p.peek()
	if !t.is("-") && !t.is("!") {
		return p.primary()
	}
	defer p.nest(t)()
	p.next()
	if n := p.peek(); t.is("-") && n.kind == tInt {
		p.next()
		return &ir.Int{Value: p.integer("-"+n.text, n), Pos: t.pos}
	}
	x := p.unary()
	if t.is("-") {
		switch x := x.(type) {
		case *ir.Int:
			if -x.Value != x.Value || x.Value == 0 {
				e := &ir.Int{Value: -x.Value, Pos: t.pos}
				if p.folded[x] {
					p.folded[e] = true
				}
				return e
			}
		case *ir.Float:
			return &ir.Float{Value: -x.Value, Pos: t.pos}
		}
	}
	return &ir.Unary{Op: t.text, X: x, Pos: t.pos}
}

// parseInt reads a decimal or hexadecimal number.
func parseInt(s string) (int64, error) {
	sign, hex := "", s
	if strings.HasPrefix(hex, "-") {
		sign, hex = "-", hex[1:]
	}
	if len(hex) > 2 && hex[0] == '0' && (hex[1] == 'x' || hex[1] == 'X') {
		return strconv.ParseInt(sign+hex[2:], 16, 64)
	}
	return strconv.ParseInt(s, 10, 64)
}

func (p *parser) integer(s string, t token) int64 {
	n, err := parseInt(s)
	if err != nil {
		p.fail(t, codeNumber, "", "%s is beyond i64", s)
	}
	return n
}

func (p *parser) primary() ir.Expr {
	t := p.next()
	switch t.kind {
	case tInt:
		return &ir.Int{Value: p.integer(t.text, t), Pos: t.pos}
	case tFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			p.fail(t, codeNumber, "", "%s is beyond f64", t.text)
		}
		return &ir.Float{Value: f, Pos: t.pos}
	case tName:
		return p.nameValue(t)
	}
	if t.is("(") {
		defer p.nest(t)()
		e := p.binary(precTop)
		p.expect(")", "the parenthesis")
		return e
	}
	p.i = max(p.i-1, 0) // the token may end the line
	p.fail(t, codeSyntax, "", "an expression is needed, not %s", t.describe())
	return nil
}

func (p *parser) nameValue(t token) ir.Expr {
	if p.peek().is("(") {
		switch t.text {
		case "min", "max", "gcd":
			defer p.nest(t)()
			p.next()
			p.ops++
			x := p.binary(precTop)
			p.expect(",", t.text)
			y := p.binary(precTop)
			p.expect(")", t.text)
			if t.text != "gcd" {
				return p.fold(&ir.Binary{Op: t.text, X: x, Y: y, Pos: t.pos}, t)
			}
			a, okA := ir.ConstInt(x)
			b, okB := ir.ConstInt(y)
			if !okA || !okB || a < 0 || b < 0 {
				p.fail(t, codeBinding, "use numbers and compile-time parameters", "gcd(%s, %s) has no value while parsing", x, y)
			}
			for b != 0 {
				a, b = b, a%b
			}
			return p.known(a, t.pos)
		case "select":
			defer p.nest(t)()
			p.next()
			p.ops++
			e := &ir.Select{Cond: p.binary(precTop), Pos: t.pos}
			p.expect(",", t.text)
			e.X = p.binary(precTop)
			p.expect(",", t.text)
			e.Y = p.binary(precTop)
			p.expect(")", t.text)
			return e
		case "bits":
			p.next()
			elem := p.elem()
			p.expect(")", "bits")
			return p.known(int64(elem.Bits()), t.pos)
		}
		if ir.OpByName(t.text) != nil {
			p.fail(t, codeSyntax, "give its result a name on a line of its own", "%s is an instruction, not part of an expression", t.text)
		}
		help := elsewhere(t)
		if help == "" {
			help = diag.DidYouMean(t.text, []string{"min", "max", "select", "bits", "gcd"})
		}
		p.fail(t, codeSyntax, help, "%s is not a function of expressions", t.text)
	}
	if c, ok := p.consts[t.text]; ok {
		if c.kind != "int" {
			p.fail(t, codeName, "", "%s is a compile-time %s, not a value", t.text, c.kind)
		}
		return p.known(c.number, t.pos)
	}
	switch t.text {
	case "inf":
		return &ir.Float{Value: math.Inf(1), Pos: t.pos}
	case "nan":
		return &ir.Float{Value: math.NaN(), Pos: t.pos}
	case "true", "false":
		e := &ir.Binary{Op: "==", X: &ir.Int{Value: 1, Pos: t.pos}, Y: &ir.Int{Value: 1, Pos: t.pos}, Pos: t.pos}
		if t.text == "false" {
			e.Op = "!="
		}
		return e
	}
	if keyword(t.text) {
		p.fail(t, codeSyntax, "", "an expression is needed, not %s", t.text)
	}
	return &ir.Ref{Var: p.lookup(t), Pos: t.pos}
}

// lookup is the variable that a name being read stands for. A variable of a
// closed block is found too, for the verifier to say so.
func (p *parser) lookup(t token) *ir.Var {
	if v := p.find(t.text); v != nil {
		return v
	}
	if p.poison[t.text] {
		panic(bail{})
	}
	if m := p.names[t.text]; m != nil && m.ended != nil {
		return m.ended
	}
	var known []string
	for name, m := range p.names {
		if m.v != nil {
			known = append(known, name)
		}
	}
	for name, c := range p.consts {
		if c.kind == "int" {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	help := diag.DidYouMean(t.text, known)
	if help == "" {
		help = elsewhere(t)
	}
	p.fail(t, codeName, help, "there is no %s here", t.text)
	return nil
}

// elem reads the name of an element type, or of a compile-time parameter.
func (p *parser) elem() dtype.Type {
	t := p.peek()
	if t.kind != tName {
		p.fail(t, codeSyntax, "", "an element type is needed, not %s", t.describe())
	}
	p.next()
	if c, ok := p.consts[t.text]; ok && c.kind == "type" {
		return c.elem
	}
	typ, err := dtype.Parse(t.text)
	if err != nil {
		var known []string
		for _, d := range dtype.All() {
			known = append(known, d.String())
		}
		p.fail(t, codeType, diag.DidYouMean(t.text, known), "there is no element type %s", t.text)
	}
	return typ
}

// parseType reads a scalar, pointer or tensor type.
func (p *parser) parseType() ir.Type {
	t := p.peek()
	if p.accept("*") {
		return ir.PointerTo(p.elem())
	}
	typ := ir.Type{Kind: ir.Tensor}
	switch {
	case t.is("register"):
		typ.Space = ir.Register
	case t.is("shared"):
		typ.Space = ir.Shared
	case t.is("tmem"):
		typ.Space = ir.TensorMemory
	case t.is("global"):
		typ.Space = ir.Global
	default:
		elem := p.elem()
		if p.peek().is("[") {
			p.fail(t, codeSyntax, "write register "+t.text+"[…] or global "+t.text+"[…]", "a tensor type starts with its space")
		}
		return ir.ScalarOf(elem)
	}
	p.next()
	typ.Elem = p.elem()
	p.expect("[", "a tensor type")
	shape := p.exprs[:0]
	for !p.accept("]") {
		if len(shape) > 0 {
			p.separated("the shape", "")
		}
		shape = append(shape, p.expr())
		if len(shape) > MaxList {
			p.limit(t, "more than %d dimensions", MaxList)
		}
	}
	typ.Shape, p.exprs = collected(shape), shape
	at := p.peek()
	switch typ.Space {
	case ir.Register:
		typ.Layout, typ.HasLayout = p.layoutText()
	case ir.Shared:
		if text, from, ok := p.layoutWords(); ok {
			l, err := sharedLayouts.Read(text, layout.ParseShared)
			p.layoutProblems(from, err)
			typ.Shared, typ.HasLayout = l, true
		}
	default:
		if at.kind == tName && !p.atPlace() {
			p.fail(at, codeSyntax, "global tensors are row-major; register and shared tensors have layouts", "a %s tensor has no layout", typ.Space)
		}
	}
	if at := p.peek(); p.atPlace() {
		if typ.Space != ir.Register {
			p.fail(at, codeSyntax, "only register tensors have bit placements", "a %s tensor has no placement", typ.Space)
		}
		p.i += 2
		typ.Place, typ.HasPlace = p.placement(), true
	}
	return typ
}

// atPlace reports whether place= comes next.
func (p *parser) atPlace() bool { return p.at(0, "place") && p.at(1, "=") }

// placement reads a bit placement in the notation of vm/layout/bits.
func (p *parser) placement() bits.Placement {
	t := p.peek()
	if t.kind != tPlace {
		p.fail(t, codeSyntax, "for example place=4[(0,16)*4+4]", "a bit placement is needed, not %s", t.describe())
	}
	p.next()
	place, err := placements.Read(t.text, func(text string) (bits.Placement, error) { return bits.ParseAt(text, t.pos) })
	if err == nil {
		return place
	}
	var list diag.List
	if !errors.As(err, &list) {
		p.fail(t, codeSyntax, "", "%v", err)
	}
	for _, q := range list {
		p.list.Add(q)
	}
	panic(bail{})
}

// layoutText reads the layout of a register tensor. ok is false where none stands.
func (p *parser) layoutText() (l layout.Layout, ok bool) {
	text, from, ok := p.layoutWords()
	if !ok {
		return l, false
	}
	l, err := layout.Parse(text)
	p.layoutProblems(from, err)
	return l, true
}

// origin says where the columns of a layout's text stand in the program's.
type origin struct {
	start  token
	pieces []piece // nil where the text stands there as it is
}

// piece: from byte at of the layout's text on, the column of the program's is col.
type piece struct{ at, col int }

func (o origin) place(q diag.Pos) diag.Pos {
	pos := o.start.pos
	if q.Col < 1 {
		return pos
	}
	at := piece{0, pos.Col}
	for _, c := range o.pieces {
		if c.at <= q.Col-1 {
			at = c
		}
	}
	pos.Col = at.col + q.Col - 1 - at.at
	return pos
}

// layoutWords takes a layout in the notation of vm/layout up to the end of the
// type. Compile-time parameters in it are replaced. ok is false where no layout stands.
func (p *parser) layoutWords() (text string, from origin, ok bool) {
	if p.kindAt(0) != tName || p.atPlace() {
		return "", from, false
	}
	from.start = p.peek()
	if text, ok := p.plainWords(); ok {
		return text, from, true
	}
	var out strings.Builder
	col := from.start.pos.Col
	write := func(s string, pos diag.Pos, end int) {
		for ; col < pos.Col; col++ {
			out.WriteByte(' ')
		}
		from.pieces = append(from.pieces, piece{out.Len(), pos.Col})
		out.WriteString(s)
		col = end
	}
	depth, fresh := 0, false // fresh: an argument may start here
	for {
		t := p.peek()
		if t.endsLine() || depth == 0 && (p.atPlace() || t.is(",") || t.is("]") || t.is(")") || t.is("{") || t.is("}") || t.is("=")) {
			break
		}
		if fresh && depth > 0 && p.computed() {
			n := p.constInt(t)
			write(strconv.FormatInt(n, 10), t.pos, p.peekAt(-1).end().Col)
			fresh = false
			continue
		}
		p.next()
		if c, isConst := p.consts[t.text]; t.kind == tName && isConst && c.kind == "layout" {
			write(c.layout.String(), t.pos, t.end().Col)
			fresh = false
			continue
		}
		write(t.text, t.pos, t.end().Col)
		switch {
		case t.is("("), t.is("["):
			depth++
		case t.is(")"), t.is("]"):
			depth--
		}
		fresh = t.is("(") || t.is("[") || t.is(",") || t.is("=")
	}
	return out.String(), from, true
}

// plainWords takes a layout that stands in the text as vm/layout reads it, without
// compile-time parameters and arithmetic.
func (p *parser) plainWords() (string, bool) {
	if len(p.consts) > 0 {
		return "", false
	}
	l := &p.lexed
	depth := 0
	for i := p.i; ; i++ {
		m := &l.marks[i]
		switch m.kind {
		case tName:
			switch l.text[m.at : m.at+m.n] {
			case "gcd", "min", "max", "select":
				return "", false
			case "bits":
				if l.is(i+1, "(") {
					return "", false
				}
				continue
			case "place":
				if depth > 0 || !l.is(i+1, "=") {
					continue
				}
			default:
				continue
			}
		case tInt:
			continue
		case tPunct:
			c := l.text[m.at]
			if m.n > 1 {
				return "", false
			}
			switch c {
			case '.':
				continue
			case '(', '[':
				depth++
				continue
			case ')', ']':
				if depth > 0 {
					depth--
					continue
				}
			case ',', '=':
				if depth > 0 {
					continue
				}
			case '{', '}':
				if depth > 0 {
					return "", false
				}
			default:
				return "", false
			}
		case tNewline, tComment, tEOF:
		default:
			return "", false
		}
		last := l.marks[i-1]
		text := l.text[l.marks[p.i].at : last.at+last.n]
		if strings.IndexByte(text, '\t') >= 0 {
			return "", false
		}
		p.i = i
		return text, true
	}
}

// layoutProblems gives the statement up if a layout could not be read. What
// vm/layout counts from the start of its text, we count from the line's.
func (p *parser) layoutProblems(from origin, err error) {
	if err == nil {
		return
	}
	var list diag.List
	if !errors.As(err, &list) {
		p.fail(from.start, codeSyntax, "", "%v", err)
	}
	for _, q := range list {
		q.Pos = from.place(q.Pos)
		if q.End.Known() {
			q.End = from.place(q.End)
		}
		p.list.Add(q)
	}
	panic(bail{})
}

// computed reports whether the layout argument that starts here has arithmetic
// or compile-time integers in it; a plain number or a layout has not.
func (p *parser) computed() bool {
	depth := 0
	for i := p.i; ; i++ {
		t := p.lexed.tok(i)
		switch {
		case t.endsLine(), t.kind == tName && p.lexed.is(i+1, "="): // bits=3 names an argument
			return false
		case t.is("("), t.is("["):
			if i == p.i && t.is("[") {
				return false
			}
			depth++
		case depth == 0 && (t.is(",") || t.is(")") || t.is("]") || t.is("=") || t.is(".")):
			return false
		case t.is(")"), t.is("]"):
			depth--
		case t.kind == tName && p.lexed.is(i+1, "(") && t.text != "bits" && t.text != "gcd" && t.text != "min" && t.text != "max" && t.text != "select":
			return false
		case t.kind == tName && p.consts[t.text].kind == "layout":
			return false
		case t.kind == tName && p.consts[t.text].kind == "int", t.is("bits"), t.is("gcd"),
			i > p.i && (t.is("+") || t.is("-") || t.is("*") || t.is("/") || t.is("%")):
			return true
		}
	}
}
