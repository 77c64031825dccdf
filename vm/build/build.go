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
	lines    []string
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
	atom bool
}

// Expr is an expression by its text, "(M + 63)/64".
func Expr(text string) Value { return Value{text, false} }

// String is the value as program text.
func (v Value) String() string { return v.text }

// Pointer adds a pointer parameter.
func (b *Builder) Pointer(name string, elem dtype.Type) Value {
	b.params = append(b.params, fmt.Sprintf("%s: *%s", name, elem))
	return Value{name, true}
}

// Scalar adds a scalar parameter.
func (b *Builder) Scalar(name string, elem dtype.Type) Value {
	b.params = append(b.params, fmt.Sprintf("%s: %s", name, elem))
	return Value{name, true}
}

// Let assigns a scalar variable.
func (b *Builder) Let(name string, value any) Value {
	b.line("%s = %s", name, b.expr(value))
	return Value{name, true}
}

// LetAs assigns a scalar variable of a given type.
func (b *Builder) LetAs(name string, elem dtype.Type, value any) Value {
	b.line("%s: %s = %s", name, elem, b.expr(value))
	return Value{name, true}
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
	body(Value{name, true})
	b.line("}")
}

// While runs body as long as cond holds.
func (b *Builder) While(cond any, body func()) {
	b.line("while %s {", b.expr(cond))
	body()
	b.line("}")
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
	body()
	b.line("}")
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
	end int // lines of the program up to the closing brace
}

func (b *Builder) branch(body func()) *Branch {
	body()
	b.line("}")
	return &Branch{b, len(b.lines)}
}

// ElseIf adds a branch for when cond holds and no condition before did.
func (r *Branch) ElseIf(cond any, body func()) *Branch {
	return r.more("} else if "+r.b.expr(cond)+" {", body)
}

// Else adds the branch for when no condition held.
func (r *Branch) Else(body func()) { r.more("} else {", body) }

func (r *Branch) more(head string, body func()) *Branch {
	if len(r.b.lines) != r.end {
		r.b.errorf("%s stands apart from its if", strings.Trim(head, "{} "))
		return r
	}
	r.b.lines[r.end-1] = head
	return r.b.branch(body)
}

// Text is the program so far as canonical text, or as far as it can be read.
func (b *Builder) Text() string {
	src := fmt.Sprintf("program %s<%s>(%s) warps=%d%s%s {\n%s\n}\n", b.name, strings.Join(b.grid, ", "), strings.Join(b.params, ", "), b.warps, b.blocks, b.resident, strings.Join(b.lines, "\n"))
	if p, err := text.ParseOnly(b.file(), src, nil); err == nil {
		return text.Format(p)
	}
	if tidy, err := text.FormatSource(b.file(), src); err == nil {
		return tidy
	}
	return src
}

func (b *Builder) file() string { return b.name + ".tile" }

// Build is the program, verified. Problems are a diag.List with positions in
// [Builder.Text]; a Go value that is no expression is reported as such.
func (b *Builder) Build() (*ir.Program, error) {
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	return text.Parse(b.file(), b.Text(), nil)
}

func (b *Builder) errorf(format string, args ...any) {
	b.errs = append(b.errs, fmt.Errorf("build: program %s: "+format, append([]any{b.name}, args...)...))
}

func (b *Builder) line(format string, args ...any) {
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

// instr adds an instruction: results, op, operands, attributes, types.
func (b *Builder) instr(op string, names []string, operands []any, attrs []Attr, types ...Type) []Value {
	// Operands at the end may be left out: nil or the zero Value.
	row := ir.OpByName(op)
	for n := len(operands); n > 0 && row != nil && n <= len(row.In) && row.In[n-1].Optional && (operands[n-1] == nil || operands[n-1] == Value{}); n-- {
		operands = operands[:n-1]
	}
	args := b.exprs(operands)
	for _, a := range attrs {
		args = append(args, string(a))
	}
	s := fmt.Sprintf("%s(%s)", op, strings.Join(args, ", "))
	if len(names) > 0 {
		s = strings.Join(names, ", ") + " = " + s
	}
	for i, t := range types {
		s += []string{" : ", ", "}[min(i, 1)] + string(t)
	}
	b.lines = append(b.lines, s)
	values := make([]Value, len(names))
	for i, n := range names {
		values[i] = Value{n, true}
	}
	return values
}

// exprText is a Go value as the text of an expression.
func exprText(x any) (s string, ok bool) {
	switch x := x.(type) {
	case Value:
		return x.text, x.text != ""
	case string:
		return x, true
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
	return Attr(fmt.Sprintf("%s=[%s]", name, strings.Join(parts, ", ")))
}

// operand is the text of a value; a Go value that is none becomes text that the
// parser refuses at its place.
func operand(x any) string {
	if s, ok := exprText(x); ok {
		return s
	}
	return fmt.Sprintf("?%T", x)
}

func (v Value) binary(op string, x any) Value {
	y := operand(x)
	if w, ok := x.(Value); !ok || !w.atom {
		y = "(" + y + ")"
	}
	left := v.text
	if !v.atom {
		left = "(" + left + ")"
	}
	return Value{text: left + " " + op + " " + y}
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
func (v Value) Not() Value { return Value{text: "!(" + v.text + ")", atom: true} }

// Neg is -v.
func (v Value) Neg() Value { return Value{text: "-(" + v.text + ")"} }

// Min is the smaller of v and x.
func (v Value) Min(x any) Value { return Value{fmt.Sprintf("min(%s, %s)", v.text, operand(x)), true} }

// Select is x where v holds, else y; only the one that counts may fail.
func (v Value) Select(x, y any) Value {
	return Value{fmt.Sprintf("select(%s, %s, %s)", v.text, operand(x), operand(y)), true}
}

// Max is the larger of v and x.
func (v Value) Max(x any) Value { return Value{fmt.Sprintf("max(%s, %s)", v.text, operand(x)), true} }
