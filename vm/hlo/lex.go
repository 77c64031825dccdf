package hlo

import (
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokWord             // names, numbers, 1_4_1x4_8_0
	tokString           // "…"
	tokPunct            // { } ( ) [ ] = , : ; -> < > ?
	tokBad
)

type token struct {
	kind       tokenKind
	text       string
	start, end int
	line, col  int
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-+%@#/*", c) >= 0
}

// lex cuts a text into tokens, the last of which is the end. Comments are dropped.
func lex(src string, at func(line, col int) diag.Pos, list *diag.List) []token {
	var toks []token
	line, lineStart := 1, 0
	i := 0
	newline := func(k int) { line++; lineStart = k + 1 }
	for i < len(src) {
		c := src[i]
		switch {
		case c == '\n':
			newline(i)
			i++
			continue
		case c == ' ' || c == '\t' || c == '\r':
			i++
			continue
		case strings.HasPrefix(src[i:], "//"):
			for i < len(src) && src[i] != '\n' {
				i++
			}
			continue
		case strings.HasPrefix(src[i:], "/*"):
			end := strings.Index(src[i+2:], "*/")
			if end < 0 {
				list.Addf(at(line, i-lineStart+1), codeSyntax, "", "the comment does not end")
				i = len(src)
				continue
			}
			for k := i; k < i+2+end; k++ {
				if src[k] == '\n' {
					newline(k)
				}
			}
			i += end + 4
			continue
		}
		t := token{start: i, line: line, col: i - lineStart + 1, kind: tokPunct}
		switch {
		case c == '"':
			t.kind = tokString
			for i++; i < len(src) && src[i] != '"' && src[i] != '\n'; i++ {
				if src[i] == '\\' {
					i++
				}
			}
			if i >= len(src) || src[i] != '"' {
				i = min(i, len(src))
				t.kind = tokBad
			} else {
				i++
			}
		case strings.HasPrefix(src[i:], "->"):
			i += 2
		case strings.IndexByte("{}()[]=,:;<>?|!&", c) >= 0:
			i++
		case wordByte(c):
			t.kind = tokWord
			for i < len(src) && wordByte(src[i]) && !strings.HasPrefix(src[i:], "->") &&
				!strings.HasPrefix(src[i:], "/*") && !strings.HasPrefix(src[i:], "//") {
				i++
			}
		default:
			t.kind = tokBad
			i++
		}
		t.end, t.text = i, src[t.start:i]
		toks = append(toks, t)
	}
	return append(toks, token{kind: tokEnd, start: len(src), end: len(src), line: line, col: len(src) - lineStart + 1})
}
