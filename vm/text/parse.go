package text

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// maxProblems is how many problems are collected before reading stops.
const maxProblems = 100

var statements = []string{"for", "while", "if", "break", "continue", "return", "assume", "static_assert", "group"}

// keyword reports a word of the language.
func keyword(name string) bool {
	switch name {
	case "program", "for", "while", "if", "else", "in", "register", "shared", "global", "min", "max", "select", "bits", "gcd", "break", "continue", "return", "true", "false", "inf", "nan":
		return true
	}
	return false
}

// constant is the value of a compile-time parameter.
type constant struct {
	kind   string // "int", "type" or "layout"
	number int64
	elem   dtype.Type
	layout layout.Layout
}

func (c constant) String() string {
	switch c.kind {
	case "type":
		return c.elem.String()
	case "layout":
		return c.layout.String()
	}
	return strconv.FormatInt(c.number, 10)
}

// parser reads tokens with one token of look-ahead. A problem inside a statement
// gives the statement up (panic bail, caught by statement), and the names it
// would have assigned are poisoned: what reads them is given up silently.
type parser struct {
	list     diag.List
	lexed    lexed
	i        int
	consts   map[string]constant
	folded   map[*ir.Int]bool // literals that compile-time parameters became
	names    map[string]*meant
	open     []*meant // names that have a variable, in the order in which they got it
	poison   map[string]bool
	loops    map[*ir.Var]bool
	outs     []string // names that the statement being read assigns
	stmts    int
	depth    int
	ops      int
	comments *ir.Comments
	warps    diag.Problem // the place of the number of warps

	// What lists of an instruction are collected in, before their lengths are known.
	operands []ir.Operand
	attrs    []ir.Attr
	exprs    []ir.Expr
	results  []*ir.Var
}

// meant is what a name stands for: no two variables of open blocks have one name.
type meant struct {
	v     *ir.Var // of an open block, or nil
	ended *ir.Var // of the last closed block that had one
}

func newParser() *parser {
	return &parser{consts: map[string]constant{}, folded: map[*ir.Int]bool{}, names: map[string]*meant{}, poison: map[string]bool{}, loops: map[*ir.Var]bool{}, comments: ir.NewComments()}
}

type bail struct{}  // give the statement up
type abort struct{} // give the text up

// read parses without verifying. The program is nil when its head is wrong. warps
// is where the text says how many there are.
func read(file, src string, bind map[string]string) (prog *ir.Program, warps diag.Problem, list diag.List) {
	if len(src) > MaxText {
		list.Addf(diag.Pos{File: file, Line: 1, Col: 1}, codeLimit, "", "the text has %d bytes, at most %d are read", len(src), MaxText)
		return nil, warps, list
	}
	src = strings.TrimPrefix(src, byteOrderMark)
	p := newParser()
	kept, _ := markLists.Get().(*[]mark)
	if kept == nil {
		kept = new([]mark)
	}
	p.lexed = lex(file, src, *kept, &p.list)
	defer func() {
		*kept = p.lexed.marks
		markLists.Put(kept)
		warps, list = p.warps, p.list
		switch r := recover(); r.(type) {
		case nil:
		case bail, abort:
			prog = nil
		default:
			panic(r)
		}
	}()
	prog = p.program(bind)
	prog.Source = src
	return prog, p.warps, p.list
}

// markLists lends lists of tokens, which nothing keeps.
var markLists sync.Pool

func (p *parser) peek() token { return p.lexed.tok(p.i) }

func (p *parser) peekAt(n int) token { return p.lexed.tok(p.i + n) }

// at and kindAt look n tokens ahead.
func (p *parser) at(n int, s string) bool { return p.lexed.is(p.i+n, s) }
func (p *parser) kindAt(n int) kind       { return p.lexed.kind(p.i + n) }

func (p *parser) next() token {
	t := p.lexed.tok(p.i)
	if t.kind != tEOF {
		p.i++
	}
	return t
}

func (p *parser) accept(s string) bool {
	if p.at(0, s) {
		p.i++
		return true
	}
	return false
}

// separated passes over the comma between two entries of a list, which is what of something.
func (p *parser) separated(what, of string) {
	if !p.accept(",") {
		p.expect(",", what+of)
	}
}

func (t token) endsLine() bool { return t.kind == tNewline || t.kind == tComment || t.kind == tEOF }

// report adds a problem that covers the token.
func (p *parser) report(t token, code, help, format string, args ...any) {
	p.list.Add(diag.Problem{Pos: t.pos, End: t.end(), Code: code, Help: help, Msg: fmt.Sprintf(format, args...)})
	if len(p.list) >= maxProblems {
		panic(abort{})
	}
}

func (p *parser) fail(t token, code, help, format string, args ...any) {
	p.report(t, code, help, format, args...)
	panic(bail{})
}

func (p *parser) limit(t token, format string, args ...any) {
	p.report(t, codeLimit, "", format, args...)
	panic(abort{})
}

// expect takes the punctuation or word s, which stands after what.
func (p *parser) expect(s, what string) token {
	t := p.peek()
	if !t.is(s) {
		switch s {
		case ",":
			s = "a comma"
		case ":":
			s = "a colon"
		}
		p.fail(t, codeSyntax, elsewhere(t), "%s needs %s, not %s", what, s, t.describe())
	}
	return p.next()
}

// elsewhere is how program text writes what other languages write as this token, or "".
func elsewhere(t token) string {
	if t.kind == tComment {
		return "// begins a comment; / divides downwards"
	}
	switch t.text {
	case "=":
		return "== compares"
	case "and":
		return "write &&"
	case "or":
		return "write ||"
	case "not":
		return "write !"
	case "range":
		return "write for i in from..to, with step s behind it"
	case "elif", "elsif":
		return "write else if"
	}
	return ""
}

// name takes a name that is no word of the language.
func (p *parser) name(what string) token {
	t := p.peek()
	if t.kind != tName {
		p.fail(t, codeSyntax, "", "%s is a name, not %s", what, t.describe())
	}
	if keyword(t.text) {
		p.fail(t, codeTwice, "use another name", "%s is a word of the language", t.text)
	}
	return p.next()
}

// nest counts nesting; the caller calls the result when it leaves.
func (p *parser) nest(t token) func() {
	p.depth++
	if p.depth > MaxNesting {
		p.limit(t, "nested deeper than %d", MaxNesting)
	}
	return func() { p.depth-- }
}

// lines takes empty and comment lines; first drops leading blank ones.
func (p *parser) lines(first bool) []string {
	var lines []string
	blank := false
	add := func(s string) {
		if blank && !(first && len(lines) == 0) {
			lines = append(lines, "")
		}
		blank = false
		if s != "" {
			lines = append(lines, s)
		}
	}
	for {
		switch t := p.peek(); t.kind {
		case tNewline:
			blank = true
		case tComment:
			add(t.text)
			p.next()
		default:
			if !t.is("}") && t.kind != tEOF {
				add("")
			}
			return lines
		}
		p.next()
	}
}

func (p *parser) program(bind map[string]string) *ir.Program {
	prog := &ir.Program{Warps: 1, Bindings: map[string]string{}, Comments: p.comments}
	p.comments.Top = p.lines(true)
	if t := p.peek(); !t.is("program") {
		p.fail(t, codeProgram, "program name<grid>(parameters) warps=1 {", "a text starts with program, not %s", t.describe())
	}
	p.next()
	name := p.name("a program's name")
	prog.Name, prog.Pos = name.text, name.pos
	p.constants(prog, name, bind)
	// The grid may use the parameters, which stand after it.
	grid := p.i
	p.skipGrid()
	p.expect("(", "a program's parameter list")
	for !p.accept(")") {
		if len(prog.Params) > 0 {
			p.expect(",", "a parameter")
		}
		prog.Params = append(prog.Params, p.param())
		if len(prog.Params) > MaxList {
			p.limit(p.peek(), "more than %d parameters", MaxList)
		}
	}
	if p.peek().is("warps") {
		p.next()
		p.expect("=", "warps")
		t := p.peek()
		prog.Warps = int(p.constInt(t))
		p.warps = diag.Problem{Pos: t.pos, End: p.peekAt(-1).end()}
	}
	if p.peek().is("cluster") {
		p.next()
		p.expect("=", "cluster")
		p.expect("[", "cluster")
		for !p.accept("]") {
			if len(prog.Cluster) > 0 {
				p.expect(",", "cluster")
			}
			prog.Cluster = append(prog.Cluster, int(p.constInt(p.peek())))
			if len(prog.Cluster) > MaxList {
				p.limit(p.peek(), "more than %d dimensions", MaxList)
			}
		}
	}
	if p.peek().is("resident") {
		p.next()
		p.expect("=", "resident")
		prog.Resident = int(p.constInt(p.peek()))
		if prog.Resident == 0 {
			prog.Resident = -1 // which is none, unlike a head without it
		}
	}
	if t := p.peek(); t.kind == tName {
		p.fail(t, codeSyntax, "behind the parameters stand warps=4 cluster=[2, 1] resident=2, or some of them in this order", "a program's head needs {, not %s", t.describe())
	}
	open := p.expect("{", "a program's head")
	body := p.i
	p.i = grid
	p.expect("<", "the grid")
	for {
		p.ops = 0
		prog.Grid = append(prog.Grid, p.binary(4))
		if len(prog.Grid) > MaxList {
			p.limit(p.peek(), "more than %d grid dimensions", MaxList)
		}
		if p.accept(">") {
			break
		}
		p.expect(",", "the grid")
	}
	p.i = body
	prog.Body = p.block(open)
	bottom := p.peek()
	if bottom.kind == tComment {
		p.comments.Bottom = append(p.comments.Bottom, bottom.text)
		p.next()
	}
	if p.peek().kind == tNewline {
		p.next()
	}
	p.comments.Bottom = append(p.comments.Bottom, p.lines(false)...)
	if t := p.peek(); t.kind != tEOF {
		p.report(t, codeProgram, "a text holds one program", "%s stands after the end of the program", t.describe())
	}
	return prog
}

// skipGrid passes over <…> to the opening parenthesis of the parameters.
func (p *parser) skipGrid() {
	if t := p.peek(); !t.is("<") {
		p.fail(t, codeSyntax, "program name<M/16, N/8>(…): how many blocks there are in each dimension", "a program's name needs its grid, not %s", t.describe())
	}
	for depth := 0; ; {
		t := p.peek()
		if t.endsLine() || t.is("{") {
			p.fail(t, codeSyntax, "", "the grid needs >, not %s", t.describe())
		}
		p.next()
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		case t.is(">") && depth == 0:
			return
		}
	}
}

func (p *parser) param() *ir.Var {
	t := p.name("a parameter")
	if _, ok := p.consts[t.text]; ok {
		p.fail(t, codeTwice, "use another name", "%s is a compile-time parameter", t.text)
	}
	p.expect(":", "a parameter")
	tt := p.peek()
	v := &ir.Var{Name: t.text, Type: p.parseType(), Param: true, Pos: t.pos}
	if v.Type.Kind == ir.Tensor {
		p.fail(tt, codeSyntax, fmt.Sprintf("take a pointer, %s: *%s, and view it with ViewGlobal", t.text, v.Type.Elem), "a parameter is a scalar or a pointer, not a tensor")
	}
	if p.find(t.text) == nil {
		p.bind(v)
	}
	return v
}

// constants reads the compile-time parameters and binds them.
func (p *parser) constants(prog *ir.Program, name token, bind map[string]string) {
	var known []string
	if p.accept("[") {
		for !p.accept("]") {
			if len(known) > 0 {
				p.expect(",", "a compile-time parameter")
			}
			t := p.name("a compile-time parameter")
			if _, ok := p.consts[t.text]; ok {
				p.fail(t, codeTwice, "use another name", "%s is a compile-time parameter already", t.text)
			}
			known = append(known, t.text)
			if len(known) > MaxList {
				p.limit(t, "more than %d compile-time parameters", MaxList)
			}
			c := constant{kind: "int"}
			if p.accept(":") {
				k := p.next()
				c.kind = k.text
				if !slices.Contains([]string{"int", "type", "layout"}, k.text) {
					p.fail(k, codeSyntax, diag.DidYouMean(k.text, []string{"int", "type", "layout"}), "a compile-time parameter is an int, type or layout, not %s", k.describe())
				}
			}
			text, bound := bind[t.text]
			switch {
			case p.accept("="):
				d := p.constantValue(c.kind)
				if !bound {
					c = d
				}
			case !bound:
				p.fail(t, codeBinding, fmt.Sprintf("bind it, or write a default: %s = …", t.text), "%s has no value", t.text)
			}
			if bound {
				var err error
				if c, err = bindValue(c.kind, text); err != nil {
					msg, help := err.Error(), ""
					var list diag.List
					if errors.As(err, &list) && len(list) > 0 {
						msg, help = list[0].Msg, list[0].Help
					}
					p.fail(t, codeBinding, help, "%s = %s: %s", t.text, text, msg)
				}
			}
			p.consts[t.text] = c
			prog.Bindings[t.text] = c.String()
		}
	}
	for _, n := range slices.Sorted(maps.Keys(bind)) {
		if !slices.Contains(known, n) {
			help := diag.DidYouMean(n, known)
			if help == "" && len(known) > 0 {
				help = "it has " + strings.Join(known, ", ")
			}
			p.fail(name, codeBinding, help, "%s has no compile-time parameter %s", name.text, n)
		}
	}
}

func (p *parser) constantValue(kind string) constant {
	c := constant{kind: kind}
	switch kind {
	case "type":
		c.elem = p.elem()
	case "layout":
		t := p.peek()
		l, ok := p.layoutText()
		if !ok {
			p.fail(t, codeSyntax, "", "a layout is needed, not %s", t.describe())
		}
		c.layout = l
	default:
		c.number = p.constInt(p.peek())
	}
	return c
}

// bindValue reads a value that comes from outside the text.
func bindValue(kind, text string) (constant, error) {
	c := constant{kind: kind}
	var err error
	switch kind {
	case "type":
		c.elem, err = dtype.Parse(text)
	case "layout":
		c.layout, err = layout.Parse(text)
	default:
		if c.number, err = parseInt(text); err != nil {
			err = fmt.Errorf("not an integer")
		}
	}
	return c, err
}

// constInt reads an expression whose value must be known now.
func (p *parser) constInt(t token) int64 {
	p.ops = 0
	e := p.binary(4)
	n, err := ir.EvalInt(e, func(*ir.Var) (int64, bool) { return 0, false })
	if err != nil {
		p.fail(t, codeBinding, "use numbers and compile-time parameters", "%s has no value while parsing", e)
	}
	return n
}

// block reads statements up to the closing brace of open.
func (p *parser) block(open token) *ir.Block {
	defer p.nest(open)()
	b := &ir.Block{}
	around := len(p.open)
	defer func() {
		p.outs = nil
		p.end(around)
	}()
	if t := p.peek(); t.kind == tComment {
		p.comments.Open[b] = t.text
		p.next()
	}
	if p.peek().kind == tNewline {
		p.next()
	}
	for {
		lines := p.lines(len(b.Stmts) == 0)
		t := p.peek()
		if t.is("}") || t.kind == tEOF {
			if len(lines) > 0 {
				p.comments.End[b] = lines
			}
			if t.kind == tEOF {
				p.report(open, codeProgram, "add a }", "the block is not closed")
				panic(abort{})
			}
			p.next()
			return b
		}
		s := p.statement()
		if s == nil {
			continue
		}
		b.Stmts = append(b.Stmts, s)
		if len(lines) > 0 {
			p.comments.Before[s] = lines
		}
		if t := p.peek(); t.kind == tComment {
			p.comments.After[s] = t.text
			p.next()
		}
		if p.peek().kind == tNewline {
			p.next()
		}
	}
}

// statement reads one statement up to the end of its line, or gives it up, says
// why, and returns nil.
func (p *parser) statement() (s ir.Stmt) {
	p.stmts++
	if p.stmts > MaxStatements {
		p.limit(p.peek(), "more than %d statements", MaxStatements)
	}
	p.outs = p.outs[:0]
	depth := p.depth
	defer func() {
		switch r := recover(); r.(type) {
		case nil:
			return
		case bail:
		default:
			panic(r)
		}
		s = nil
		for _, n := range p.outs {
			if p.find(n) == nil {
				p.poison[n] = true
			}
		}
		p.depth = depth
		p.sync()
	}()
	t := p.peek()
	switch {
	case t.is("for"):
		s = p.forLoop()
	case t.is("while"):
		p.next()
		cond := p.expr()
		s = &ir.While{Cond: cond, Body: p.block(p.expect("{", "while")), Pos: t.pos}
	case t.is("if"):
		s = p.ifElse()
	case t.is("break"):
		s = &ir.Break{Pos: p.next().pos}
	case t.is("continue"):
		s = &ir.Continue{Pos: p.next().pos}
	case t.is("Exit") && p.peekAt(1).is("(") && p.peekAt(2).is(")"): // the paper's name
		p.i += 3
		s = &ir.Return{Pos: t.pos}
	case t.is("return"):
		s = &ir.Return{Pos: p.next().pos}
	case t.is("assume") && p.peekAt(1).is("("):
		p.i += 2
		s = &ir.Assume{Cond: p.expr(), Pos: t.pos}
		p.expect(")", "assume")
	case t.is("static_assert") && p.peekAt(1).is("("):
		p.staticAssert(t)
	case t.is("group") && p.peekAt(1).is("("):
		s = p.group(t)
	case t.kind == tName && p.peekAt(1).is("("):
		s = p.instr(nil, nil)
	default:
		s = p.assignment()
	}
	if t := p.peek(); !t.endsLine() && !t.is("}") {
		p.fail(t, codeSyntax, "", "the statement ends here; %s is too much", t.describe())
	}
	return s
}

// sync passes to the end of the line; a block on the way is read for its
// problems only.
func (p *parser) sync() {
	for {
		t := p.peek()
		switch {
		case t.kind == tNewline:
			p.next()
			return
		case t.kind == tEOF, t.is("}"):
			return
		case t.is("{"):
			p.next()
			p.block(t)
		default:
			p.next()
		}
	}
}

func (p *parser) forLoop() ir.Stmt {
	pos := p.next().pos
	x := p.name("a loop variable")
	p.outs = []string{x.text}
	p.expect("in", "for "+x.text)
	s := &ir.For{Pos: pos}
	s.From = p.expr()
	p.expect("..", "the range of for")
	s.To = p.expr()
	if p.peek().is("step") {
		p.next()
		s.Step = p.expr()
	}
	if p.peek().is("unroll") {
		p.next()
		p.expect("=", "unroll")
		if t := p.peek(); t.is("all") {
			p.next()
			s.Unroll = -1
		} else if n := p.constInt(t); n >= 0 && n <= 1<<16 {
			s.Unroll = int(n)
		} else {
			p.fail(t, codeSyntax, "", "unroll is all, or 0 to %d, not %d", 1<<16, n)
		}
	}
	p.declarable(x)
	if old := p.find(x.text); old != nil {
		p.fail(x, codeTwice, "use another name for the loop variable", "%s is a variable already", x.text)
	}
	t, fixed := ir.TypeOf(s.To, quiet)
	if !fixed {
		t, _ = ir.TypeOf(s.From, quiet)
	}
	if t.IsFloat() || t == dtype.Bool {
		t = dtype.I32 // the verifier says what is wrong with the bound
	}
	s.Var = &ir.Var{Name: x.text, Type: ir.ScalarOf(t), Pos: x.pos}
	p.keepsType(x, s.Var.Type)
	p.loops[s.Var] = true
	open, around := p.expect("{", "the head of for"), len(p.open)
	p.bind(s.Var)
	s.Body = p.block(open)
	p.end(around)
	return s
}

func (p *parser) ifElse() ir.Stmt {
	// A chain of else-ifs is nested blocks in the tree, so it counts as nesting.
	t := p.next()
	defer p.nest(t)()
	s := &ir.If{Cond: p.expr(), Pos: t.pos}
	s.Then = p.block(p.expect("{", "if"))
	if p.accept("else") {
		if p.peek().is("if") {
			s.Else = &ir.Block{Stmts: []ir.Stmt{p.ifElse()}}
		} else {
			s.Else = p.block(p.expect("{", "else"))
		}
	}
	return s
}

// assignment reads "x, y = …" or "x: type = …".
func (p *parser) assignment() ir.Stmt {
	first := p.peek()
	if first.kind != tName {
		p.fail(first, codeSyntax, "", "a statement starts with a name, not %s", first.describe())
	}
	if p.kindAt(1) == tName {
		help := elsewhere(first)
		if help == "" {
			help = diag.DidYouMean(first.text, statements)
		}
		p.fail(first, codeSyntax, help, "%s %s: a statement is name = …, an instruction, for, while or if", first.text, p.peekAt(1).text)
	}
	names := append(make([]token, 0, 2), p.name("a result"))
	p.outs = append(p.outs[:0], names[0].text)
	for p.accept(",") {
		names = append(names, p.name("a result"))
		p.outs = append(p.outs, names[len(names)-1].text)
		if len(names) > MaxList {
			p.limit(names[0], "more than %d results", MaxList)
		}
	}
	var declared *ir.Type
	var typePos token
	if p.accept(":") {
		typePos = p.peek()
		t := p.parseType()
		declared = &t
	}
	p.expect("=", "an assignment")
	if p.kindAt(0) == tName && p.at(1, "(") && !keyword(p.peek().text) {
		if declared != nil {
			p.fail(typePos, codeSyntax, "write the type after the instruction: x = Op(…) : type", "the type of a result stands at the end of the line")
		}
		return p.instr(names, names)
	}
	if len(names) > 1 {
		p.fail(names[1], codeSyntax, "assign one name per line", "an expression has one value")
	}
	value := p.expr()
	t, _ := ir.TypeOf(value, quiet)
	typ := ir.ScalarOf(t)
	if declared != nil {
		typ = *declared
		if typ.Kind != ir.Scalar {
			p.fail(typePos, codeSyntax, "tensors come from instructions", "an expression is a scalar, not a %s", typ)
		}
	} else if old := p.find(names[0].text); old != nil {
		typ = old.Type
	}
	return &ir.Let{Var: p.declare(names[0], typ, names[0]), Value: value, Pos: names[0].pos}
}

func quiet(diag.Pos, string, string, string) {}

// instr reads "Op(operands, attributes) : types".
func (p *parser) instr(outs, names []token) ir.Stmt {
	t := p.next()
	op, generic := ir.OpByName(t.text), ""
	if op == nil {
		op, generic = p.generic(t.text)
	}
	if op == nil {
		help := Instead(t.text)
		if help == "" {
			help = diag.DidYouMean(t.text, ir.OpNames())
		}
		p.fail(t, codeOp, help, "there is no instruction %s", t.text)
	}
	in := &ir.Instr{Op: op, Pos: t.pos}
	operands, attrs, results := p.operands[:0], p.attrs[:0], p.results[:0]
	p.next()
	for n := 0; !p.accept(")"); n++ {
		if n > 0 {
			p.separated("the list of ", "operands")
		}
		if n > MaxList {
			p.limit(t, "more than %d operands", MaxList)
		}
		a := p.peek()
		if a.kind == tName && p.at(1, "=") {
			if generic != "" && a.text == "op" {
				p.i += 3 // op=word, which chose the row
				continue
			}
			attrs = append(attrs, p.attr(op))
			continue
		}
		if len(attrs) > 0 {
			p.fail(a, codeOrder, op.Signature(), "an operand stands after the attribute %s", attrs[len(attrs)-1].Name)
		}
		operands = append(operands, ir.Operand{Expr: p.expr(), Pos: a.pos})
	}
	in.In, in.Attrs = collected(operands), collected(attrs)
	p.operands, p.attrs = operands, attrs
	if t.text == "SimtDot" && in.Attr("unit") == nil {
		in.Attrs = append(in.Attrs, ir.Attr{Name: "unit", Word: "simt", Pos: t.pos})
	}
	slices.SortStableFunc(in.Attrs, func(a, b ir.Attr) int { return attrRank(op, a.Name) - attrRank(op, b.Name) })
	var types []ir.Type
	var places []token
	var typeRoom [2]ir.Type
	var placeRoom [2]token
	if p.accept(":") {
		types, places = typeRoom[:0], placeRoom[:0]
		for {
			places = append(places, p.peek())
			types = append(types, p.parseType())
			if len(types) > MaxList {
				p.limit(t, "more than %d types", MaxList)
			}
			if !p.accept(",") {
				break
			}
		}
		if len(types) != len(outs) {
			p.fail(places[0], codeResult, "one type for each result, after a colon", "%s has %d results and %d types", op.Name, len(outs), len(types))
		}
		in.TypePos = make([]diag.Pos, len(places))
		for i, t := range places {
			in.TypePos[i] = t.pos
		}
	}
	for i, o := range outs {
		typ, place := ir.ScalarOf(dtype.I32), o
		old := p.find(o.text)
		switch {
		case types != nil:
			typ, place = types[i], places[i]
		case old != nil && !old.Param && !p.loops[old]:
			typ = old.Type
		case i < len(op.Out) && op.Out[i].Accept&ir.AcceptScalar == 0:
			p.fail(o, codeResult, "for example: "+op.Example, "%s needs a type: the result of %s is a %s", o.text, op.Name, op.Out[i].Accept)
		}
		for _, q := range names[:i] {
			if q.text == o.text {
				p.fail(o, codeTwice, "use another name", "%s is assigned twice by one instruction", o.text)
			}
		}
		results = append(results, p.declare(o, typ, place))
	}
	in.Out, p.results = collected(results), results
	return in
}

// collected is a list of which nothing but its entries is kept.
func collected[T any](list []T) []T { return append([]T(nil), list...) }

// generic is the row that ElementwiseUnary(x, op=neg) or ElementwiseBinary(x, y, op=add)
// means; the parser stands at the parenthesis.
func (p *parser) generic(name string) (*ir.Op, string) {
	operands := map[string]int{"ElementwiseUnary": 1, "ElementwiseBinary": 2}[name]
	for i, depth := 0, 0; operands > 0; i++ {
		switch t := p.peekAt(i); {
		case t.is("(") || t.is("["):
			depth++
		case t.is(")") || t.is("]"):
			depth--
		case t.kind == tEOF:
			depth = 0
		case depth == 1 && t.is("op") && p.peekAt(i+1).is("=") && p.peekAt(i+2).kind == tName:
			row := ""
			for w := range strings.SplitSeq(p.peekAt(i+2).text, "_") {
				if w != "" {
					row += strings.ToUpper(w[:1]) + w[1:]
				}
			}
			if long := map[string]string{"Maximum": "Max", "Minimum": "Min"}[row]; long != "" {
				row = long
			}
			if op := ir.OpByName(row); op != nil && op.Class == ir.ClassElementwise && len(op.In) == operands {
				return op, name
			}
			return nil, ""
		}
		if depth == 0 {
			break
		}
	}
	return nil, ""
}

func attrRank(op *ir.Op, name string) int {
	i := slices.IndexFunc(op.Attrs, func(a ir.AttrSpec) bool { return a.Name == name })
	if i < 0 {
		return len(op.Attrs)
	}
	return i
}

// attr reads name=value as the row of the op says.
func (p *parser) attr(op *ir.Op) ir.Attr {
	t := p.next()
	p.next()
	a := ir.Attr{Name: t.text, Pos: t.pos}
	if spec := op.Spec(t.text); spec != nil {
		a.Name = spec.Name
	}
	if spec := op.Spec(t.text); spec != nil && spec.Kind == ir.AttrWord {
		w := p.peek()
		if w.kind != tName {
			p.fail(w, codeSyntax, "", "%s is one word: %s", t.text, strings.Join(spec.Words, ", "))
		}
		a.Word = p.next().text
		return a
	}
	if spec := op.Spec(t.text); spec != nil && spec.Kind == ir.AttrText {
		w := p.next()
		if w.kind != tString {
			p.fail(w, codeSyntax, t.text+`="…"`, "a text in quotes is needed, not %s", w.describe())
		}
		a.Word = w.text[1 : len(w.text)-1]
		return a
	}
	if spec := op.Spec(t.text); spec != nil && spec.Kind == ir.AttrNumber {
		v := p.peek()
		if v.is("[") {
			p.fail(v, codeSyntax, "", "%s is one number, not a list", t.text)
		}
		sign, n := "", 0
		if v.is("-") {
			sign, n = "-", 1
		}
		w, after := p.peekAt(n), p.peekAt(n+1)
		if (w.kind == tInt || w.kind == tFloat || w.is("inf") || w.is("nan")) && (after.is(",") || after.is(")")) {
			p.i += n + 1
			switch {
			case w.kind == tInt && strings.ContainsAny(w.text, "xX"):
				a.Number = float64(p.integer(sign+w.text, w))
			case w.is("nan"):
				a.Number = math.NaN()
			default:
				f, err := strconv.ParseFloat(sign+w.text, 64)
				if err != nil {
					p.fail(w, codeNumber, "", "%s is beyond f64", w.text)
				}
				a.Number = f
			}
			return a
		}
		e := p.expr()
		if c, ok := ir.ConstInt(e); ok {
			a.Number = float64(c)
		} else {
			a.Exprs = []ir.Expr{e}
		}
		return a
	}
	if !p.accept("[") {
		a.Exprs = []ir.Expr{p.expr()}
		return a
	}
	exprs := p.exprs[:0]
	for !p.accept("]") {
		if len(exprs) > 0 {
			p.separated("the list of ", t.text)
		}
		exprs = append(exprs, p.expr())
		if len(exprs) > MaxList {
			p.limit(t, "more than %d entries", MaxList)
		}
	}
	a.Exprs, p.exprs = collected(exprs), exprs
	return a
}

// find is the variable that a name stands for in the open blocks, or nil.
func (p *parser) find(name string) *ir.Var {
	if m := p.names[name]; m != nil {
		return m.v
	}
	return nil
}

// bind gives a name its variable until the innermost open block ends.
func (p *parser) bind(v *ir.Var) {
	m := p.names[v.Name]
	if m == nil {
		m = &meant{}
		p.names[v.Name] = m
	}
	m.v = v
	p.open = append(p.open, m)
}

// end takes the variables away that names got after the first n.
func (p *parser) end(n int) {
	for _, m := range p.open[n:] {
		m.v, m.ended = nil, m.v
	}
	p.open = p.open[:n]
}

// declare is the variable that an assignment to the name assigns. A layout that one of its
// types leaves out is that of the others.
func (p *parser) declare(name token, typ ir.Type, place token) *ir.Var {
	p.declarable(name)
	if old := p.find(name.text); old != nil {
		if !old.Param && !p.loops[old] {
			if !old.Type.HasLayout && withLayout(old.Type, typ).Equal(typ) {
				old.Type = typ
			}
			if t := withLayout(typ, old.Type); !t.Equal(old.Type) || typ.HasLayout && !typ.Equal(t) {
				p.fail(place, "Var.C1", "use a new name", "%s is %s, not %s", name.text, old.Type, typ)
			}
		}
		return old
	}
	p.keepsType(place, typ, name.text)
	v := &ir.Var{Name: name.text, Type: typ, Pos: name.pos}
	p.bind(v)
	return v
}

// withLayout is t with the layout of u, or without one where u has none.
func withLayout(t, u ir.Type) ir.Type {
	t.Layout, t.Shared, t.HasLayout = u.Layout, u.Shared, u.HasLayout
	return t
}

// declarable refuses names of compile-time parameters.
func (p *parser) declarable(name token) {
	if _, ok := p.consts[name.text]; ok {
		p.fail(name, codeTwice, "use another name", "%s is a compile-time parameter", name.text)
	}
}

// keepsType refuses a name that had another type in a closed block. Layouts may differ, as
// inference chooses one for each of the variables.
func (p *parser) keepsType(place token, typ ir.Type, name ...string) {
	n := place.text
	if len(name) > 0 {
		n = name[0]
	}
	if m := p.names[n]; m != nil && m.ended != nil && !withLayout(m.ended.Type, typ).Equal(typ) {
		p.fail(place, "Var.C1", "use a new name", "%s is %s in another block, here %s", n, m.ended.Type, typ)
	}
}
