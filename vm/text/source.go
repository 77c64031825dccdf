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
	toks := lex(file, src, &list)
	s := &spacer{}
	var open []token // braces
	nest := 0        // parentheses and brackets
	for i, t := range toks {
		switch {
		case t.kind == tEOF:
		case t.kind == tNewline:
			s.newline(true)
			nest = 0
		case t.kind == tComment:
			s.word(t.text, true, len(open))
			s.newline(false)
		case t.is("{"):
			s.word("{", true, len(open))
			open = append(open, t)
			if !toks[i+1].endsLine() {
				s.newline(false)
			}
			s.opened = true
		case t.is("}"):
			if len(open) == 0 {
				list.Addf(t.pos, codeProgram, "", "} closes nothing")
				break
			}
			open = open[:len(open)-1]
			s.newline(false)
			s.blank = false
			s.word("}", false, len(open))
			if n := toks[i+1]; !n.endsLine() && !n.is("else") {
				s.newline(false)
			}
		default:
			s.word(t.text, spaced(toks, i, nest), len(open))
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

// newline ends the line; own says that the text has an end of line here, so that
// two of them are an empty line.
func (s *spacer) newline(own bool) {
	if s.inLine {
		s.b.WriteByte('\n')
		s.inLine = false
		if own {
			return
		}
		s.blank = false
		s.ended()
		return
	}
	if own {
		s.blank = s.b.Len() > 0
	}
}

func (s *spacer) ended() {}

func (s *spacer) word(w string, space bool, indent int) {
	if !s.inLine {
		if s.blank && !s.opened {
			s.b.WriteByte('\n')
		}
		s.b.WriteString(strings.Repeat("\t", indent))
		s.inLine, s.blank, s.opened = true, false, false
	} else if space {
		s.b.WriteByte(' ')
	}
	s.b.WriteString(w)
}
