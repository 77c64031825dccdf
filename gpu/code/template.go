package code

import "strings"

// Slot is one placeholder of a PTX or C template, cut into its parts.
type Slot struct {
	Kind  string // "o", "a", "i", "cmp", "fcmp", "op", "mem", "attr", "outs", "guard" (where a guard stands that is not before all)
	Index int    // of o, a, i
	Style string // what follows the index: "#", "#x", "#f", "#d", "x"
}

// Expand replaces the placeholders of a template by what f gives for each.
func Expand(template string, f func(Slot) string) string {
	var b strings.Builder
	for {
		text, slot, rest := cut(template)
		b.WriteString(text)
		if slot.Kind == "" {
			return b.String()
		}
		b.WriteString(f(slot))
		template = rest
	}
}

// Piece is text of a template and the placeholder behind it, whose Kind is "" at the end.
type Piece struct {
	Text string
	Slot Slot
}

// Pieces cuts a template at its placeholders.
func Pieces(template string) []Piece {
	var out []Piece
	for {
		text, slot, rest := cut(template)
		out = append(out, Piece{text, slot})
		if slot.Kind == "" {
			return out
		}
		template = rest
	}
}

// ConstInputs reports for each input of the row whether the PTX template lets it
// be a constant wherever it appears.
func (r *Row) ConstInputs() []bool {
	ok := make([]bool, len(r.In))
	for i := range ok {
		ok[i] = r.PTX != ""
	}
	Expand(r.PTX, func(s Slot) string {
		if s.Kind == "a" && !strings.HasPrefix(s.Style, "#") {
			ok[s.Index] = false
		}
		if s.Kind == "mem" {
			ok[0] = false
		}
		return ""
	})
	return ok
}

// cut splits a template at its first placeholder; Kind is "" if there is none.
func cut(t string) (text string, s Slot, rest string) {
	for at := 0; at < len(t); at++ {
		if t[at] != '{' {
			continue
		}
		end := strings.IndexByte(t[at:], '}')
		if end < 0 {
			break
		}
		word := t[at+1 : at+end]
		rest := t[at+end+1:]
		switch word {
		case "cmp", "fcmp", "op", "mem", "attr", "outs", "guard":
			return t[:at], Slot{Kind: word}, rest
		}
		if len(word) < 2 || strings.IndexByte("oai", word[0]) < 0 || word[1] < '0' || word[1] > '9' {
			continue
		}
		s := Slot{Kind: word[:1]}
		k := 1
		for ; k < len(word) && word[k] >= '0' && word[k] <= '9'; k++ {
			s.Index = 10*s.Index + int(word[k]-'0')
		}
		s.Style = word[k:]
		return t[:at], s, rest
	}
	return t, Slot{}, ""
}
