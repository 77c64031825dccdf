package layout

import (
	"strings"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Token is a piece of layout text, for editors: text[Start:End]. Kind is "name",
// "number", "sign", or "bad" for what cannot stand in a layout.
type Token struct {
	Kind  string
	Start int
	End   int
}

// Tokens cuts layout text into tokens without judging them; it stops after the
// largest text that Parse accepts.
func Tokens(text string) []Token {
	var out []Token
	for at := 0; at < min(len(text), MaxText); {
		t := scan(text, at)
		if t.Start == t.End {
			break
		}
		out = append(out, t)
		at = t.End
	}
	return out
}

func letter(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// scan finds the first token at or after a place; at the end of the text the
// token is empty.
func scan(text string, at int) Token {
	for at < len(text) && strings.IndexByte(" \t\r\n", text[at]) >= 0 {
		at++
	}
	if at == len(text) {
		return Token{"", at, at}
	}
	end := at + 1
	switch c := text[at]; {
	case letter(c):
		for end < len(text) && (letter(text[end]) || digit(text[end])) {
			end++
		}
		return Token{"name", at, end}
	case digit(c):
		for end < len(text) && digit(text[end]) {
			end++
		}
		return Token{"number", at, end}
	case strings.IndexByte("()[],.*/+-%=", c) >= 0:
		return Token{"sign", at, end}
	}
	_, n := utf8.DecodeRuneInString(text[at:])
	return Token{"bad", at, at + n}
}

// place is the position of a byte of the text, when the text begins at base.
func place(base diag.Pos, text string, at int) diag.Pos {
	p := base
	before := text[:at]
	if n := strings.Count(before, "\n"); n > 0 {
		p.Line += n
		p.Col = at - strings.LastIndexByte(before, '\n')
		return p
	}
	p.Col += at
	return p
}
