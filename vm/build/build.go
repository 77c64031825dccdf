// Package build writes programs in Go: a [Builder] has a method for each
// instruction of the table, and closures for control flow. It reads like the
// text it makes:
//
//	b := build.Program("matmul", build.Grid("M/16", "N/8"), build.Warps(1))
//	a := b.Pointer("a", dtype.F16)
//	M, K := b.Scalar("M", dtype.I32), b.Scalar("K", dtype.I32)
//	bi, bj := b.BlockIndices2("bi", "bj")
//	ga := b.ViewGlobal("ga", a, build.Global(dtype.F16, M, K))
//	b.For("k", 0, K.Div(16), func(k build.Value) {
//		ra := b.LoadGlobal("ra", ga, tileA, build.Offset(bi.Mul(16), k.Mul(16)))
//		…
//	})
//	p, err := b.Build()
//
// Where an expression is needed, an int, a float64, a [Value] or text ("bi*16")
// will do. Where a type is needed, [Register] and [Global] make one, and text
// will do too. The first argument of an instruction names its result; naming an
// existing variable assigns it again.
//
// Builder methods check nothing: [Builder.Build] prints the program, and vm/text
// reads and verifies that print, so problems have positions in a text that
// [Builder.Text] shows.
package build

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Builder collects one program.
type Builder struct {
	name     string
	grid     []string
	warps    int
	blocks   string // of a cluster, as the head of the text has it
	resident string // the same, of Resident
	params   []string
	body     []byte // lines, each with its end
	depth    int    // of blocks around the next line
	errs     []error
}

// Option is a property of the whole program: [Grid], [Warps], [Cluster].
type Option func(b *Builder)

// Program starts a program; without options it has a grid of one block of one
// warp.
func Program(name string, options ...Option) *Builder {
	b := &Builder{name: name, grid: []string{"1"}, warps: 1}
	for _, o := range options {
		o(b)
	}
	return b
}

// Grid says how many blocks there are in each dimension, 1 to 3 expressions of
// scalar parameters.
func Grid(blocks ...any) Option {
	return func(b *Builder) { b.grid = b.exprs(blocks) }
}

// Warps says how many warps of 32 threads a block has.
func Warps(n int) Option { return func(b *Builder) { b.warps = n } }

// Cluster says how many blocks along each dimension of the grid are a cluster.
func Cluster(blocks ...int) Option {
	return func(b *Builder) {
		b.blocks = " cluster=[" + strings.Trim(strings.ReplaceAll(fmt.Sprint(blocks), " ", ", "), "[]") + "]"
	}
}

// Resident says how many blocks a multiprocessor should hold at the same time: threads get
// registers for so many. 0 says nothing.
func Resident(n int) Option {
	return func(b *Builder) {
		if n != 0 {
			b.resident = fmt.Sprintf(" resident=%d", n)
		}
	}
}

// Type is the text of a type, like "register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)".
type Type string

// Register is the type of a register tensor; its shape is the layout's.
func Register(elem dtype.Type, l layout.Layout) Type {
	return Type(ir.RegisterOf(elem, l).String())
}

// Shared is the type of a shared tensor; its shape is the layout's.
func Shared(elem dtype.Type, l layout.Shared) Type {
	return Type(ir.SharedOf(elem, l).String())
}

// Global is the type of a global tensor; extents are expressions of constants
// and scalar parameters.
func Global(elem dtype.Type, shape ...any) Type {
	b := &Builder{}
	return Type(fmt.Sprintf("global %s[%s]", elem, strings.Join(b.exprs(shape), ", ")))
}

// Attr is an attribute of an instruction, like [Offset].
type Attr string

// Value is a name of the program (a parameter, a variable), or an expression of
// scalars made by its methods.
type Value struct {
	text string
	prec int // of its loosest operator; 0 if that is not known
}

// Expr is an expression by its text, "(M + 63)/64".
func Expr(text string) Value {
	text, prec := bare(text)
	return Value{text, prec}
}

// String is the value as program text.
func (v Value) String() string { return v.text }

// Pointer adds a pointer parameter.
func (b *Builder) Pointer(name string, elem dtype.Type) Value {
	b.params = append(b.params, fmt.Sprintf("%s: *%s", name, elem))
	return Value{name, precAtom}
}

// Scalar adds a scalar parameter.
func (b *Builder) Scalar(name string, elem dtype.Type) Value {
	b.params = append(b.params, fmt.Sprintf("%s: %s", name, elem))
	return Value{name, precAtom}
}

// Let assigns a scalar variable.
func (b *Builder) Let(name string, value any) Value {
	b.line("%s = %s", name, b.expr(value))
	return Value{name, precAtom}
}

// LetAs assigns a scalar variable of a given type.
func (b *Builder) LetAs(name string, elem dtype.Type, value any) Value {
	b.line("%s: %s = %s", name, elem, b.expr(value))
	return Value{name, precAtom}
}

// Comment adds a comment of one or more lines.
func (b *Builder) Comment(s string) {
	for line := range strings.SplitSeq(s, "\n") {
		b.line("// %s", line)
	}
}

// LoopOption is a property of a loop: [Step], [Unroll].
type LoopOption string

// Step sets a loop's step, a constant other than 0.
func Step(n int) LoopOption { return LoopOption(fmt.Sprintf("step %d ", n)) }

// Unroll sets how many copies of its body a loop has; 1 is none beside the
// first, -1 is one for each iteration.
func Unroll(n int) LoopOption {
	if n < 0 {
		return "unroll=all "
	}
	return LoopOption(fmt.Sprintf("unroll=%d ", n))
}

// For runs body for name = from, from+1, … below to.
func (b *Builder) For(name string, from, to any, body func(Value), options ...LoopOption) {
	// In text the step comes before unroll.
	step, unroll := "", ""
	for _, o := range options {
		if strings.HasPrefix(string(o), "step") {
			step = string(o)
		} else {
			unroll = string(o)
		}
	}
	b.line("for %s in %s..%s %s%s{", name, b.expr(from), b.expr(to), step, unroll)
	b.block(func() { body(Value{name, precAtom}) })
}

// While runs body as long as cond holds.
func (b *Builder) While(cond any, body func()) {
	b.line("while %s {", b.expr(cond))
	b.block(body)
}

// Break leaves the innermost loop.
func (b *Builder) Break() { b.line("break") }

// Continue goes on with the next turn of the innermost loop.
func (b *Builder) Continue() { b.line("continue") }

// Return ends the program for its block.
func (b *Builder) Return() { b.line("return") }

// Assume promises that cond holds.
func (b *Builder) Assume(cond any) { b.line("assume(%s)", b.expr(cond)) }

// Group lets only size threads from begin on run body.
func (b *Builder) Group(begin, size int, body func()) {
	b.line("group(%d, %d) {", begin, size)
	b.block(body)
}

// If runs body if cond holds; the result takes what is done otherwise.
func (b *Builder) If(cond any, body func()) *Branch {
	b.line("if %s {", b.expr(cond))
	return b.branch(body)
}

// Branch is an if statement that more branches can be added to, directly after
// it.
type Branch struct {
	b   *Builder
	end int // bytes of lines, the closing brace of the if included
}

func (b *Builder) branch(body func()) *Branch {
	b.block(body)
	return &Branch{b, len(b.body)}
}

// ElseIf adds a branch for when cond holds and no condition before did.
func (r *Branch) ElseIf(cond any, body func()) *Branch {
	return r.more("} else if "+r.b.expr(cond)+" {", body)
}

// Else adds the branch for when no condition held.
func (r *Branch) Else(body func()) { r.more("} else {", body) }

func (r *Branch) more(head string, body func()) *Branch {
	if len(r.b.body) != r.end {
		r.b.errorf("%s stands apart from its if", strings.Trim(head, "{} "))
		return r
	}
	r.b.body = r.b.body[:r.end-len("}\n")]
	r.b.write(head, "\n")
	return r.b.branch(body)
}

// Text is the program so far as canonical text, or as far as it can be read.
func (b *Builder) Text() string {
	src := b.source()
	if p, err := text.ParseOnly(b.file(), src, nil); err == nil {
		return text.Format(p)
	}
	if tidy, err := text.FormatSource(b.file(), src); err == nil {
		return tidy
	}
	return src
}

// source is the program as it was written.
func (b *Builder) source() string {
	head := fmt.Sprintf("program %s<%s>(%s) warps=%d%s%s {\n", b.name, strings.Join(b.grid, ", "), strings.Join(b.params, ", "), b.warps, b.blocks, b.resident)
	var s strings.Builder
	s.Grow(len(head) + len(b.body) + len("}\n"))
	s.WriteString(head)
	s.Write(b.body)
	s.WriteString("}\n")
	return s.String()
}

func (b *Builder) file() string { return b.name + ".tile" }

// Build is the program, verified. Problems are a diag.List with positions in
// [Builder.Text]; a Go value that is no expression is reported as such.
func (b *Builder) Build() (*ir.Program, error) {
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	if p, ok := text.Canonical(b.file(), b.source()); ok {
		return p, nil
	}
	return text.Parse(b.file(), b.Text(), nil)
}

func (b *Builder) errorf(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf("build: program %s: "+format, append([]any{b.name}, args...)...))
}

// line, block and instr write canonical text where they can, which [Builder.Build] need not
// read twice.
func (b *Builder) line(format string, args ...any) {
	b.tabs()
	b.body = append(fmt.Appendf(b.body, format, args...), '\n')
}

// tabs begins a line.
func (b *Builder) tabs() {
	for range b.depth + 1 {
		b.body = append(b.body, '\t')
	}
}

// write continues a line.
func (b *Builder) write(parts ...string) {
	for _, s := range parts {
		b.body = append(b.body, s...)
	}
}

// block is the rest of a statement with a block, whose head is written.
func (b *Builder) block(body func()) {
	b.depth++
	body()
	b.depth--
	b.line("}")
}

// instr adds an instruction: results, op, operands, attributes, types.
func (b *Builder) instr(op string, names []string, operands []any, attrs []Attr, types ...Type) []Value {
	// Operands at the end may be left out: nil or the zero Value.
	row := ir.OpByName(op)
	for n := len(operands); n > 0 && row != nil && n <= len(row.In) && row.In[n-1].Optional && (operands[n-1] == nil || operands[n-1] == Value{}); n-- {
		operands = operands[:n-1]
	}
	if row != nil && len(attrs) > 1 {
		rank := func(a Attr) int {
			name, _, _ := strings.Cut(string(a), "=")
			return slices.IndexFunc(row.Attrs, func(s ir.AttrSpec) bool { return s.Name == name })
		}
		attrs = slices.Clone(attrs)
		slices.SortStableFunc(attrs, func(x, y Attr) int { return rank(x) - rank(y) })
	}
	b.tabs()
	for i, n := range names {
		b.write([]string{"", ", "}[min(i, 1)], n)
	}
	if len(names) > 0 {
		b.write(" = ")
	}
	b.write(op)
	sep := "("
	for _, x := range operands {
		b.write(sep, b.expr(x))
		sep = ", "
	}
	for _, a := range attrs {
		b.write(sep, string(a))
		sep = ", "
	}
	b.write(strings.TrimSuffix(sep, ", "), ")")
	for i, t := range types {
		b.write([]string{" : ", ", "}[min(i, 1)], string(t))
	}
	b.write("\n")
	values := make([]Value, len(names))
	for i, n := range names {
		values[i] = Value{n, precAtom}
	}
	return values
}

// exprText is a Go value as the text of an expression.
func exprText(x any) (s string, ok bool) {
	switch x := x.(type) {
	case Value:
		return x.text, x.text != ""
	case string:
		s, _ = bare(x)
		return s, true
	case int:
		return strconv.Itoa(x), true
	case int32:
		return strconv.FormatInt(int64(x), 10), true
	case int64:
		return strconv.FormatInt(x, 10), true
	case float64:
		return ir.FormatFloat(x), true
	}
	return "", false
}

func (b *Builder) expr(x any) string {
	s, ok := exprText(x)
	if !ok {
		b.errorf("%v (a Go %T) is no expression; give an int, a float64, a build.Value or text", x, x)
		return "0"
	}
	return s
}

func (b *Builder) exprs(list []any) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = b.expr(x)
	}
	return out
}

// list is the text of a list attribute.
func list(name string, values []any) Attr {
	parts := make([]string, len(values))
	for i, x := range values {
		parts[i] = operand(x)
	}
	return Attr(name + "=[" + strings.Join(parts, ", ") + "]")
}

// operand is the text of a value; a Go value that is none becomes text that the
// parser refuses at its place.
func operand(x any) string {
	if s, ok := exprText(x); ok {
		return s
	}
	return fmt.Sprintf("?%T", x)
}

// Precedences of what is no binary operator of [ir.BinaryPrec].
const (
	precUnary = 6
	precAtom  = 7
)

// bare is the text of an expression without parentheses around all of it, and the precedence
// of its loosest operator.
func bare(text string) (string, int) {
	prec, depth, operand := precAtom, 0, false // operand: one stands in front
	whole := strings.HasPrefix(text, "(")      // the first parenthesis closes at the end
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
			operand = true
			whole = whole && (depth > 0 || i == len(text)-1)
		case depth > 0 || c == ' ':
		case strings.IndexByte("+-*/%&|^<>=!", c) < 0:
			operand = true
		case !operand:
			prec = min(prec, precUnary)
		default:
			op := text[i : i+1]
			if i+1 < len(text) && ir.BinaryPrec(text[i:i+2]) > 0 {
				op = text[i : i+2]
				i++
			}
			prec, operand = min(prec, ir.BinaryPrec(op)), false
		}
	}
	if whole && depth == 0 {
		return bare(text[1 : len(text)-1])
	}
	return text, prec
}

// wrapped is an expression in parentheses, if its operators are looser than those of a
// precedence.
func wrapped(text string, prec, least int) string {
	if prec < least {
		return "(" + text + ")"
	}
	return text
}

// operandOf is a value as an operand, with the precedence of its loosest operator.
func operandOf(x any) (string, int) {
	switch x := x.(type) {
	case Value:
		return x.text, x.prec
	case string:
		return bare(x)
	}
	return operand(x), precAtom
}

func (v Value) binary(op string, x any) Value {
	prec := ir.BinaryPrec(op)
	left := prec
	if prec == ir.BinaryPrec("<") { // comparisons do not chain
		left++
	}
	y, py := operandOf(x)
	sep := " "
	if op == "*" || op == "/" {
		sep = ""
	}
	return Value{wrapped(v.text, v.prec, left) + sep + op + sep + wrapped(y, py, prec+1), prec}
}

// Add is v + x.
func (v Value) Add(x any) Value { return v.binary("+", x) }

// Sub is v - x.
func (v Value) Sub(x any) Value { return v.binary("-", x) }

// Mul is v·x.
func (v Value) Mul(x any) Value { return v.binary("*", x) }

// Div is v/x, rounded down.
func (v Value) Div(x any) Value { return v.binary("/", x) }

// Mod is the remainder of Div; it has the sign of x.
func (v Value) Mod(x any) Value { return v.binary("%", x) }

// BitAnd, BitOr and BitXor work bit by bit; Shl and Shr shift, see [ir.Binary].
func (v Value) BitAnd(x any) Value { return v.binary("&", x) }

// BitOr is v | x.
func (v Value) BitOr(x any) Value { return v.binary("|", x) }

// BitXor is v ^ x.
func (v Value) BitXor(x any) Value { return v.binary("^", x) }

// Shl is v << x.
func (v Value) Shl(x any) Value { return v.binary("<<", x) }

// Shr is v >> x.
func (v Value) Shr(x any) Value { return v.binary(">>", x) }

// Less is v < x.
func (v Value) Less(x any) Value { return v.binary("<", x) }

// LessEqual is v ≤ x.
func (v Value) LessEqual(x any) Value { return v.binary("<=", x) }

// Greater is v > x.
func (v Value) Greater(x any) Value { return v.binary(">", x) }

// GreaterEqual is v ≥ x.
func (v Value) GreaterEqual(x any) Value { return v.binary(">=", x) }

// Equal is v = x.
func (v Value) Equal(x any) Value { return v.binary("==", x) }

// NotEqual is v ≠ x.
func (v Value) NotEqual(x any) Value { return v.binary("!=", x) }

// And is true if v and x are.
func (v Value) And(x any) Value { return v.binary("&&", x) }

// Or is true if v or x is.
func (v Value) Or(x any) Value { return v.binary("||", x) }

// Not is true if v is false.
func (v Value) Not() Value { return Value{"!" + wrapped(v.text, v.prec, precUnary), precUnary} }

// Neg is -v.
func (v Value) Neg() Value { return Value{"-" + wrapped(v.text, v.prec, precUnary), precUnary} }

// Min is the smaller of v and x.
func (v Value) Min(x any) Value {
	return Value{"min(" + v.text + ", " + operand(x) + ")", precAtom}
}

// Select is x where v holds, else y; only the one that counts may fail.
func (v Value) Select(x, y any) Value {
	return Value{fmt.Sprintf("select(%s, %s, %s)", v.text, operand(x), operand(y)), precAtom}
}

// Max is the larger of v and x.
func (v Value) Max(x any) Value {
	return Value{fmt.Sprintf("max(%s, %s)", v.text, operand(x)), precAtom}
}
