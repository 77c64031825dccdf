package text

import (
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// FormatSource tidies program text as gofmt does for Go: indentation, spaces,
// one statement a line, no runs of empty lines. It keeps every word, so comments
// and compile-time parameters stay; for the text that [Format] prints it changes
// nothing. The error says what is no token, or which brace does not match.
func FormatSource(file, src string) (string, error) {
	var list diag.List
	if len(src) > MaxText {
		list.Addf(diag.Pos{File: file, Line: 1, Col: 1}, codeLimit, "", "the text has %d bytes, at most %d are read", len(src), MaxText)
		return "", list.Err()
	}
	l := lex(file, strings.TrimPrefix(src, byteOrderMark), nil, &list)
	toks := make([]token, len(l.marks))
	for i := range toks {
		toks[i] = l.tok(i)
	}
	s := &spacer{}
	var open []token // braces
	nest := 0        // parentheses and brackets
	head := false    // the line starts with program
	run := 0         // the first token since a space
	for i, t := range toks {
		switch {
		case t.kind == tEOF:
			s.endLine()
		case t.kind == tNewline:
			s.blank = !s.inLine
			s.endLine()
		case t.kind == tComment:
			s.word(t.text, true, len(open))
		case t.is("{"):
			s.word("{", true, len(open))
			open = append(open, t)
			s.opened = true
			if !toks[i+1].endsLine() {
				s.endLine()
			}
		case t.is("}"):
			if len(open) == 0 {
				list.Addf(t.pos, codeProgram, "", "} closes nothing")
				break
			}
			open = open[:len(open)-1]
			s.endLine()
			s.blank = false
			s.word("}", false, len(open))
			if n := toks[i+1]; !n.endsLine() && !n.is("else") {
				s.endLine()
			}
		default:
			if !s.inLine {
				nest, head, run = 0, t.is("program"), i
			}
			space := spaced(toks, i, nest, head) || i > run && !joinable(toks[max(run, i-2):i+1])
			if space {
				run = i
			}
			s.word(t.text, space, len(open))
			switch {
			case t.is("("), t.is("["):
				nest++
			case t.is(")"), t.is("]"):
				nest--
			}
		}
	}
	for _, t := range open {
		list.Addf(t.pos, codeProgram, "add a }", "the block is not closed")
	}
	if err := list.Err(); err != nil {
		return "", err
	}
	return s.b.String(), nil
}

// spacer writes lines.
type spacer struct {
	b      strings.Builder
	inLine bool
	blank  bool // an empty line stood here
	opened bool // nothing stands in the block yet
}

func (s *spacer) endLine() {
	if s.inLine {
		s.b.WriteByte('\n')
		s.inLine = false
	}
}

func (s *spacer) word(w string, space bool, indent int) {
	switch {
	case !s.inLine:
		if s.blank && !s.opened && s.b.Len() > 0 {
			s.b.WriteByte('\n')
		}
		s.b.WriteString(strings.Repeat("\t", indent))
		s.inLine, s.blank, s.opened = true, false, false
	case space:
		s.b.WriteByte(' ')
	}
	s.b.WriteString(w)
}

// spaced reports whether a space stands before token i of a line; nest counts
// the parentheses and brackets around it, head says that the line is the head of
// a program.
func spaced(toks []token, i, nest int, head bool) bool {
	if i == 0 {
		return false
	}
	t, prev := toks[i], toks[i-1]
	head = head && nest == 0
	switch {
	case t.is(","), t.is(")"), t.is("]"), t.is(".."), t.is("."), prev.is("("), prev.is("["), prev.is(".."), prev.is("."):
		return false
	case t.is(":"):
		return prev.is(")") || prev.is("]")
	case prev.is(":"), prev.is(","):
		return true
	case t.kind == tPlace, t.is("=") && i+1 < len(toks) && toks[i+1].kind == tPlace:
		return false
	case unary(toks, i-1), head && (t.is("<") || t.is(">") || prev.is("<")):
		return false
	case t.is("="), prev.is("="):
		eq := i
		if prev.is("=") {
			eq--
		}
		return !tightEqual(toks, eq, nest)
	case t.is("("), t.is("["):
		if prev.kind == tName {
			return joins(prev)
		}
		return !prev.is("*") && !prev.is("/") && !head
	case prev.is("*"), prev.is("/"), t.is("*"), t.is("/"):
		// A pointer's star stands after a colon; any other is a product.
		return false
	}
	return true
}

// joinable reports whether tokens without spaces between them read back as they
// are: / / would be a comment, 3 . 5 a number.
func joinable(toks []token) bool {
	var b strings.Builder
	for _, t := range toks {
		b.WriteString(t.text)
	}
	rest := b.String()
	for _, t := range toks {
		if strings.HasPrefix(rest, "//") {
			return false
		}
		if _, n := scan(rest); n != len(t.text) && t.kind != tPlace {
			return false
		}
		rest = rest[len(t.text):]
	}
	return true
}

// joins are words that an expression follows.
func joins(t token) bool {
	for _, w := range []string{"for", "in", "while", "if", "else", "step"} {
		if t.is(w) {
			return true
		}
	}
	return false
}

// unary reports a sign: an operator without a left operand.
func unary(toks []token, i int) bool {
	t := toks[i]
	if t.is("!") {
		return true
	}
	if !t.is("-") || i == 0 {
		return t.is("-")
	}
	prev := toks[i-1]
	switch prev.kind {
	case tName:
		return joins(prev)
	case tInt, tFloat:
		return false
	}
	return !prev.is(")") && !prev.is("]")
}

// tightEqual reports an = that names an attribute or option, rather than one
// that assigns.
func tightEqual(toks []token, eq, nest int) bool {
	if nest > 0 {
		return eq < 2 || !toks[eq-2].is(":")
	}
	option := eq > 0 && (toks[eq-1].is("warps") || toks[eq-1].is("cluster") || toks[eq-1].is("resident") || toks[eq-1].is("unroll"))
	return option && eq > 1 && toks[eq-2].kind != tNewline && !toks[eq-2].is("{") && !toks[eq-2].is("}")
}
