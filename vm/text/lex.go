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

// mark is a token as lists of them hold it: n bytes from byte at of the text on, whose first stands
// in column col. A program has thousands, so they are small and nothing that the collector follows.
type mark struct {
	at, n, line, col int32
	kind             kind
}

// lexed is a text as tokens.
type lexed struct {
	file, text string
	marks      []mark
}

// tok is token i. Behind the last one stands that again, for this and what follows.
func (l *lexed) tok(i int) token {
	m := &l.marks[min(i, len(l.marks)-1)]
	return token{m.kind, l.text[m.at : m.at+m.n], diag.Pos{File: l.file, Line: int(m.line), Col: int(m.col)}}
}

// is reports whether token i is this punctuation or word.
func (l *lexed) is(i int, s string) bool {
	m := &l.marks[min(i, len(l.marks)-1)]
	return (m.kind == tPunct || m.kind == tName) && l.text[m.at:m.at+m.n] == s
}

// kind is the kind of token i.
func (l *lexed) kind(i int) kind { return l.marks[min(i, len(l.marks)-1)].kind }

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

// lex cuts a text into lines and these into tokens, a newline token after each line and
// one EOF, into the memory of marks. What is no token is reported once per line and left out.
func lex(file, src string, marks []mark, list *diag.List) lexed {
	l := lexed{file, src, slices.Grow(marks[:0], len(src)*2/5+strings.Count(src, "\n")+2)}
	for first, lineNo := 0, 1; ; lineNo++ { // byte first begins a line
		line, _, more := strings.Cut(src[first:], "\n")
		bad := false
		for i := 0; i < len(line); {
			c := line[i]
			if c == ' ' || c == '\t' || c == '\r' {
				i++
				continue
			}
			m := mark{at: int32(first + i), line: int32(lineNo), col: int32(i + 1)}
			if c == '/' && strings.HasPrefix(line[i:], "//") {
				m.kind, m.n = tComment, int32(len(strings.TrimRight(line[i:], " \t\r")))
				l.marks = append(l.marks, m)
				break
			}
			k, n := scan(line[i:])
			if k == tInt && l.afterPlace() {
				if m := placement(line[i:]); m > 0 {
					k, n = tPlace, m
				}
			}
			if n == 0 {
				_, n = utf8.DecodeRuneInString(line[i:])
				if !bad {
					list.Addf(diag.Pos{File: file, Line: lineNo, Col: i + 1}, codeChar, "", "%q does not belong to program text", line[i:i+n])
				}
				bad = true
				i += n
				continue
			}
			if k == tName && n > MaxName {
				list.Addf(diag.Pos{File: file, Line: lineNo, Col: i + 1}, codeLimit, "", "a name has %d bytes, at most %d are read", n, MaxName)
			}
			m.kind, m.n = k, int32(n)
			l.marks = append(l.marks, m)
			i += n
		}
		end := mark{at: int32(first + len(line)), line: int32(lineNo), col: int32(len(line) + 1), kind: tNewline}
		l.marks = append(l.marks, end)
		if !more {
			end.kind = tEOF
			l.marks = append(l.marks, end)
			return l
		}
		first += len(line) + 1
	}
}

// afterPlace reports whether place= stands at the end.
func (l *lexed) afterPlace() bool {
	n := len(l.marks)
	return n > 1 && l.is(n-1, "=") && l.is(n-2, "place")
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

// hexadecimal is the kind and length of the number that s starts with, such as 0xff or
// 0x1.8p-24; 0 for none.
func hexadecimal(s string) (kind, int) {
	run := func(i int, set string) int {
		for i < len(s) && strings.IndexByte(set, s[i]) >= 0 {
			i++
		}
		return i
	}
	const dec, hex = "0123456789", "0123456789abcdefABCDEF"
	if len(s) < 3 || s[1] != 'x' && s[1] != 'X' || s[0] != '0' || run(2, hex) == 2 {
		return tEOF, 0
	}
	end := run(2, hex)
	i := end
	if i+1 < len(s) && s[i] == '.' && run(i+1, hex) > i+1 {
		i = run(i+1, hex)
	}
	if i == len(s) || s[i] != 'p' && s[i] != 'P' { // a fraction has an exponent
		return tInt, end
	}
	i++
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	if run(i, dec) == i {
		return tInt, end
	}
	return tFloat, run(i, dec)
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
		if k, i := hexadecimal(s); i > 0 {
			return k, i
		}
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
