package text

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

type kind uint8

const (
	tEOF kind = iota
	tNewline
	tName
	tInt
	tFloat
	tPunct
	tComment
	tPlace // a bit placement, as written
	tString
)

type token struct {
	kind kind
	text string
	pos  diag.Pos
}

func (t token) end() diag.Pos {
	p := t.pos
	p.Col += len(t.text)
	return p
}

// is reports punctuation or a word.
func (t token) is(s string) bool { return (t.kind == tPunct || t.kind == tName) && t.text == s }

// describe is how a message names the token.
func (t token) describe() string {
	switch t.kind {
	case tEOF:
		return "the end of the text"
	case tNewline, tComment:
		return "the end of the line"
	}
	return t.text
}

// Punctuation is one of these bytes, or two.
const single = "()[]{},:=+-*/%<>!&|^."

var double = []string{"..", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>"}

// byteOrderMark is what some editors put before the text of a file.
const byteOrderMark = "\ufeff"

// lex cuts the text into lines and these into tokens, a newline token after each line and
// one EOF, behind toks. What is no token is reported once per line and left out.
func lex(file, src string, toks []token, list *diag.List) ([]token, []string) {
	lines := strings.Split(src, "\n")
	toks = slices.Grow(toks, len(src)*2/5+len(lines)+1)
	for at, line := range lines {
		lineNo, bad := at+1, false
		for i := 0; i < len(line); {
			pos := diag.Pos{File: file, Line: lineNo, Col: i + 1}
			c := line[i]
			if c == ' ' || c == '\t' || c == '\r' {
				i++
				continue
			}
			if strings.HasPrefix(line[i:], "//") {
				toks = append(toks, token{tComment, strings.TrimRight(line[i:], " \t\r"), pos})
				break
			}
			k, n := scan(line[i:])
			if c >= '0' && c <= '9' && afterPlace(toks) {
				if m := placement(line[i:]); m > 0 {
					k, n = tPlace, m
				}
			}
			if n == 0 {
				_, n = utf8.DecodeRuneInString(line[i:])
				if !bad {
					list.Addf(pos, codeChar, "", "%q does not belong to program text", line[i:i+n])
				}
				bad = true
				i += n
				continue
			}
			if k == tName && n > MaxName {
				list.Addf(pos, codeLimit, "", "a name has %d bytes, at most %d are read", n, MaxName)
			}
			toks = append(toks, token{k, line[i : i+n], pos})
			i += n
		}
		toks = append(toks, token{tNewline, "", diag.Pos{File: file, Line: lineNo, Col: len(line) + 1}})
	}
	return append(toks, token{tEOF, "", toks[len(toks)-1].pos}), lines
}

// afterPlace reports whether place= stands at the end.
func afterPlace(toks []token) bool {
	n := len(toks)
	return n > 1 && toks[n-1].is("=") && toks[n-2].is("place")
}

// placement is the length of the bit placement that s starts with, such as
// 4[(0,16)*4+4] or 2[0,5]/2, by its outer form; 0 for none.
func placement(s string) int {
	run := func(i int, set string) int {
		for i < len(s) && strings.IndexByte(set, s[i]) >= 0 {
			i++
		}
		return i
	}
	const digits, blanks = "0123456789", " \t"
	i := run(run(0, digits), blanks)
	if i == len(s) || s[i] != '[' {
		return 0
	}
	i = run(i+1, digits+blanks+"(),*+-:|")
	if i == len(s) || s[i] != ']' {
		return 0
	}
	i++
	if k := i + 1; strings.HasPrefix(s[i:], "/") && run(k, digits) > k {
		return run(k, digits)
	}
	return i
}

// scan is the kind and length of the token that s starts with; 0 for none.
func scan(s string) (kind, int) {
	digits := func(i int) int {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	switch c := s[0]; {
	case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		i := 1
		for i < len(s) && (s[i] == '_' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || s[i] >= '0' && s[i] <= '9') {
			i++
		}
		return tName, i
	case c == '"':
		if i := strings.IndexByte(s[1:], '"'); i >= 0 {
			return tString, i + 2
		}
		return tEOF, 0
	case c >= '0' && c <= '9':
		k, i := tInt, digits(1)
		if i+1 < len(s) && s[i] == '.' && digits(i+1) > i+1 {
			k, i = tFloat, digits(i+1)
		}
		if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
			j := i + 1
			if j < len(s) && (s[j] == '+' || s[j] == '-') {
				j++
			}
			if end := digits(j); end > j {
				k, i = tFloat, end
			}
		}
		return k, i
	}
	if strings.IndexByte(single, s[0]) < 0 {
		return tEOF, 0
	}
	if len(s) > 1 && (s[1] == '=' || s[1] == s[0]) && slices.Contains(double, s[:2]) {
		return tPunct, 2
	}
	return tPunct, 1
}
