// Package text reads and prints the text of programs.
//
//	program matmul<M/16, N/8>(a: *f16, b: *u8, c: *f16, M: i32, N: i32, K: i32) warps=1 {
//		bi, bj = BlockIndices()
//		ga = ViewGlobal(a) : global f16[M, K]
//		acc = AllocateRegister(init=0) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//		for k in 0..K/16 {
//			…
//		}
//	}
//
// The text is line-oriented: a statement ends with its line. It is
//
//	x, y = Op(operand, …, attribute=value, …) : type, type   an instruction; scalar results need no type
//	Op(operand, …)                                           an instruction without results
//	x = expression      or   x: i64 = expression             a scalar
//	for k in from..to step s unroll=n { … }                  step and unroll may be left out; unroll=all is every iteration
//	while condition { … }
//	if condition { … } else if condition { … } else { … }
//	break, continue, return                                  the last statement of its block; return ends the program for this block
//	assume(condition)                                        a promise, checked by interpreter and simulator
//	static_assert(condition, "message")                      checked while parsing
//	group(begin, size) { … }                                 only these threads
//
// and // starts a comment. Expressions are integers, names, min(a, b),
// max(a, b), + - * / % (floor division), & | ^ << >> on bits, comparisons, && ||
// and !; operators bind as in Go: * / % & << >> before + - | ^ before comparisons.
//
// A register type may end in a bit placement, register u4[16, 16] local(…)
// place=4[(0,16)*4+4], in the notation of vm/layout/bits.
//
// A program may have compile-time parameters in brackets before its grid: they
// are integers, element types or layouts, have defaults, and are bound when the
// text is parsed:
//
//	program matmul[BK=16, W: type = i6, L: layout = local(2, 1).spatial(8, 4)]<M/16, N/8>(…)
//
// A default may use earlier parameters, bits(W) is the width of a type and
// gcd(a, b) the greatest common divisor. [Format] prints what was bound;
// [FormatSource] tidies text and keeps its parameters.
//
// [Parse] verifies what it read (see [ir.Verify]) and returns all problems at
// once, each at its place.
package text

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Limits on what is read, so that no text can ask for all memory or time.
const (
	MaxText       = 1 << 20 // bytes of one program
	MaxNesting    = 64      // blocks in blocks, parentheses in parentheses
	MaxName       = 255     // bytes of a name
	MaxStatements = 100_000
	MaxOperators  = 1000 // operators of one expression
	MaxList       = 1000 // entries of one list: operands, parameters, offsets
)

// rules are numbered in order: Text.E1 is the first. Append only.
var rules = []ir.RuleDoc{
	{Code: "Text.E1", Text: "Text consists of names, numbers, operators and // comments.", Why: "Any other character is most likely a slip; names are ASCII letters, digits and _."},
	{Code: "Text.E2", Text: "Each line follows the grammar of statements.", Why: "The message says what stands there and what must."},
	{Code: "Text.E3", Text: "An instruction is in the table.", Why: "The manual lists them."},
	{Code: "Text.E4", Text: "An element type is one of the known names.", Why: "u1…u8 i2…i8 i16 i32 i64 u16 u32 u64 bool f16 bf16 tf32 f32 f64, and f<bits>e<exp>m<man> from 3 to 8 bits."},
	{Code: "Text.E5", Text: "A name that is read was declared before.", Why: "Parameters are declared in the head, variables by their first assignment, loop variables by for."},
	{Code: "Text.E6", Text: "A name stands for one thing.", Why: "Parameters, compile-time parameters, loop variables and words of the language are not declared again."},
	{Code: "Text.E7", Text: "A tensor result has a type, and there is one type for each result.", Why: "Result types say what the instruction makes; nothing is guessed from later uses."},
	{Code: "Text.E8", Text: "A number fits 64 bits.", Why: "Integers are i64 at most, floats are f64."},
	{Code: "Text.E9", Text: "A compile-time parameter has a value of its kind.", Why: "It comes from the binding or the default; integers are computed while parsing, so they use only constants and earlier parameters."},
	{Code: "Text.E10", Text: "Blocks are closed, and a text holds one program.", Why: "Nothing follows the closing brace of the program but comments."},
	{Code: "Text.E11", Text: fmt.Sprintf("A text has at most %d KiB, %d statements, nesting %d, names of %d bytes, expressions of %d operators and lists of %d entries.", MaxText>>10, MaxStatements, MaxNesting, MaxName, MaxOperators, MaxList), Why: "So that no text can take all memory or time."},
	{Code: "Text.E12", Text: "Operands come before attributes.", Why: "Operands go by place, attributes by name."},
	{Code: "Text.E13", Text: "A static_assert holds for the compile-time parameters.", Why: "It is checked when the text is read; the message is the program's own."},
}

const (
	codeChar    = "Text.E1"
	codeSyntax  = "Text.E2"
	codeOp      = "Text.E3"
	codeType    = "Text.E4"
	codeName    = "Text.E5"
	codeTwice   = "Text.E6"
	codeResult  = "Text.E7"
	codeNumber  = "Text.E8"
	codeBinding = "Text.E9"
	codeProgram = "Text.E10"
	codeLimit   = "Text.E11"
	codeOrder   = "Text.E12"
	codeAssert  = "Text.E13"
)

// Rules lists the rules of program text, in order of their numbers.
func Rules() []ir.RuleDoc { return slices.Clone(rules) }

// Explain finds a rule of this package, of vm/ir or of vm/layout by its code.
func Explain(code string) (doc ir.RuleDoc, ok bool) {
	i := slices.IndexFunc(rules, func(d ir.RuleDoc) bool { return strings.EqualFold(d.Code, code) })
	if i >= 0 {
		return rules[i], true
	}
	for _, r := range layout.Rules {
		if strings.EqualFold(r.Code, code) {
			return ir.RuleDoc{Code: r.Code, Text: r.Text}, true
		}
	}
	return ir.Explain(code)
}

// Parse reads and verifies one program. bind gives values to compile-time
// parameters by name ("W": "i6", "BK": "32"); those left out take their
// defaults. file names the text in positions. The error is a [diag.List] of all
// problems in reading order. A byte order mark at the start of the text is no part
// of it.
func Parse(file, src string, bind map[string]string) (*ir.Program, error) {
	p, warps, list := read(file, src, bind)
	if p != nil {
		for _, d := range ir.Verify(p) {
			if d.Code == "Prog.C1" && warps.Pos.Known() { // the tree has no place for it but the program's
				d.Pos, d.End = warps.Pos, warps.End
			}
			list.Add(d)
		}
	}
	if err := once(list).Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// Canonical is what [Parse] makes of the text that [Format] makes of a program's: of text
// that is canonical, but for spaces or parentheses here and there, it takes little more than
// Parse. ok is false for a program with problems, or with compile-time parameters.
func Canonical(file, src string) (p *ir.Program, ok bool) {
	p, _, list := read(file, src, nil)
	if p == nil || len(list) > 0 || len(p.Bindings) > 0 {
		return nil, false
	}
	printed := make(chan string, 1)
	go func(p *ir.Program) { printed <- Format(p) }(p)
	if ir.Verify(p).Err() != nil { // the program means the same however it is written
		return nil, false
	}
	if text := <-printed; text != src {
		p, _, list = read(file, text, nil)
	}
	return p, p != nil && len(list) == 0
}

// ParseOnly reads one program without verifying it.
func ParseOnly(file, src string, bind map[string]string) (*ir.Program, error) {
	p, _, list := read(file, src, bind)
	if err := once(list).Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// once drops repeated problems: two readers of one mistake say it once.
func once(list diag.List) diag.List {
	type key struct {
		pos       diag.Pos
		code, msg string
	}
	seen := map[key]bool{}
	return slices.DeleteFunc(list, func(p diag.Problem) bool {
		k := key{p.Pos, p.Code, p.Msg}
		was := seen[k]
		seen[k] = true
		return was
	})
}
