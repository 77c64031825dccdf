package cell

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Program text in %%tile cells, and the texts that Go code gives to lab (notations, names of the catalogue), are completed and inspected here.

// words of program text with what they are for.
var tileWords = map[string]string{
	"program": "program NAME(PARAMETER: TYPE, …) grid = (…) warps = N { … }", "for": "for i in range { … }: a loop whose bounds are known when it begins",
	"while": "while CONDITION { … }", "if": "if CONDITION { … } else { … }", "else": "the other branch of if", "in": "for i in …", "register": "a tensor in the registers of the block: register TYPE[SHAPE] LAYOUT",
	"shared": "a tensor in shared memory: shared TYPE[SHAPE]", "global": "a tensor in global memory: global TYPE[SHAPE]", "min": "the smaller of two scalars", "max": "the greater of two scalars",
	"gcd": "the greatest common divisor", "bits": "the number of bits of an element type", "break": "leave the loop", "continue": "the next turn of the loop", "return": "end the block",
	"assume": "a fact about scalars that the compiler may use; the interpreter checks it", "static_assert": "a fact about parameters that must hold when the program is read", "group": "the threads that a part of the program is for",
}

// atomNames are the names of the catalogue with what they are, made once.
var atomNames = sync.OnceValue(func() []proto.Match {
	var out []proto.Match
	for _, a := range arch.Atoms() {
		sig := fmt.Sprintf("%s %s, since %s", a.Vendor, a.Family, a.Since)
		out = append(out, proto.Match{Text: a.Name, Kind: "constant", Sig: sig})
		for _, n := range a.Aliases {
			out = append(out, proto.Match{Text: n, Kind: "constant", Sig: sig})
		}
	}
	slices.SortFunc(out, func(a, b proto.Match) int { return strings.Compare(a.Text, b.Text) })
	return slices.CompactFunc(out, func(a, b proto.Match) bool { return a.Text == b.Text })
})

// maxAtoms bounds what one completion lists of the catalogue.
const maxAtoms = 200

var declared = regexp.MustCompile(`(?m)^\s*((?:[A-Za-z_]\w*\s*,\s*)*[A-Za-z_]\w*)\s*[=:]|[(,]\s*([A-Za-z_]\w*)\s*:|\bfor\s+([A-Za-z_]\w*)`)

// isTile reports whether a cell is program text.
func isTile(code string) bool { return strings.HasPrefix(strings.TrimLeft(code, " \t\r\n"), "%%tile") }

// completeTile lists what may follow in program text. before is the text up to the cursor.
func completeTile(code, before string, cursor int) proto.Completed {
	word := before[len(before)-len(trailing(before, isNameByte)):]
	out := proto.Completed{Matches: []proto.Match{}, Start: cursor - utf8.RuneCountInString(word), End: cursor}
	seen := map[string]bool{}
	add := func(text, kind, sig string) {
		if strings.HasPrefix(text, word) && !seen[text] {
			seen[text] = true
			out.Matches = append(out.Matches, proto.Match{Text: text, Kind: kind, Sig: sig})
		}
	}
	if strings.HasSuffix(strings.TrimSuffix(before, word), ".") {
		for _, f := range layout.Functions() {
			add(f.Name, "function", f.Signature+"  "+f.Doc)
		}
		return out
	}
	if op := openCall(before); op != nil {
		for _, a := range op.Attrs {
			add(a.Name+"=", "field", a.Kind.String()+": "+a.Doc)
		}
	}
	for _, m := range declared.FindAllStringSubmatch(code[:len(before)-len(word)], -1) {
		for _, n := range strings.Split(m[1]+","+m[2]+","+m[3], ",") {
			if n = strings.TrimSpace(n); n != "" && tileWords[n] == "" {
				add(n, "variable", "")
			}
		}
	}
	for _, op := range ir.Ops() {
		add(op.Name, "function", op.Signature())
		for _, n := range op.Aliases {
			add(n, "function", op.Signature())
		}
	}
	for w, doc := range tileWords {
		add(w, "keyword", doc)
	}
	notationNames(add)
	rank := map[string]int{"field": 0, "variable": 1}
	slices.SortStableFunc(out.Matches, func(a, b proto.Match) int {
		ra, rb := 2, 2
		if r, ok := rank[a.Kind]; ok {
			ra = r
		}
		if r, ok := rank[b.Kind]; ok {
			rb = r
		}
		if ra != rb {
			return ra - rb
		}
		return strings.Compare(a.Text, b.Text)
	})
	return out
}

// notationNames adds element types and what layout text can call.
func notationNames(add func(text, kind, sig string)) {
	for _, t := range dtype.All() {
		add(t.String(), "type", fmt.Sprintf("element type of %d bits", t.Bits()))
	}
	for _, f := range layout.Functions() {
		add(f.Name, "function", f.Signature+"  "+f.Doc)
	}
}

// completeText lists what may stand in a string: layout notation, element types, and names of the catalogue.
func completeText(before string, cursor int) proto.Completed {
	// Names of the catalogue have dots and slashes.
	long := trailing(before, func(b byte) bool { return isNameByte(b) || strings.IndexByte("./:<>", b) >= 0 })
	out := proto.Completed{Matches: []proto.Match{}, Start: cursor - utf8.RuneCountInString(long), End: cursor}
	atoms := atomNames()
	i, _ := slices.BinarySearchFunc(atoms, long, func(m proto.Match, s string) int { return strings.Compare(m.Text, s) })
	for ; len(long) > 1 && i < len(atoms) && strings.HasPrefix(atoms[i].Text, long) && len(out.Matches) < maxAtoms; i++ {
		out.Matches = append(out.Matches, atoms[i])
	}
	if len(out.Matches) > 0 {
		return out
	}
	word := trailing(before, isNameByte)
	out.Start = cursor - utf8.RuneCountInString(word)
	if word == "" && !strings.HasSuffix(before, ".") {
		return out
	}
	notationNames(func(text, kind, sig string) {
		if strings.HasPrefix(text, word) {
			out.Matches = append(out.Matches, proto.Match{Text: text, Kind: kind, Sig: sig})
		}
	})
	slices.SortFunc(out.Matches, func(a, b proto.Match) int { return strings.Compare(a.Text, b.Text) })
	return out
}

// inString reports whether Go code ends inside a string on its last line or in a raw string.
func inString(before string) bool {
	var quote byte
	for i := 0; i < len(before); i++ {
		b := before[i]
		switch {
		case quote == 0 && strings.HasPrefix(before[i:], "//"):
			end := strings.IndexByte(before[i:], '\n')
			if end < 0 {
				return false
			}
			i += end
		case quote == 0 && (b == '"' || b == '`' || b == '\''):
			quote = b
		case quote != 0 && quote != '`' && b == '\\':
			i++
		case quote != 0 && (b == quote || b == '\n' && quote != '`'):
			quote = 0
		}
	}
	return quote == '"' || quote == '`'
}

// inspectTile describes a word of program text.
func inspectTile(code string, at int) proto.Inspected {
	for at < len(code) && isNameByte(code[at]) {
		at++
	}
	word := trailing(code[:at], isNameByte)
	if word == "" && at > 0 && code[at-1] == '(' {
		word = trailing(code[:at-1], isNameByte)
	}
	if p := inspectWord(word); p.Found {
		return p
	}
	if op := openCall(code[:at-len(word)]); op != nil {
		for _, a := range op.Attrs {
			if a.Name == word {
				return markdown(fmt.Sprintf("attribute `%s` of %s (%s): %s", a.Name, op.Name, a.Kind, a.Doc))
			}
		}
	}
	if m := regexp.MustCompile(`(?m)^.*\b` + regexp.QuoteMeta(word) + `\b\s*[=:].*$`).FindString(code); word != "" && m != "" {
		return proto.Inspected{Found: true, Text: strings.TrimSpace(m), Markdown: "```\n" + strings.TrimSpace(m) + "\n```"}
	}
	return proto.Inspected{}
}

// inspectWord describes an instruction, a word, an element type, a layout function or an instruction of the catalogue.
func inspectWord(word string) proto.Inspected {
	if word == "" {
		return proto.Inspected{}
	}
	for _, op := range ir.Ops() {
		if op.Name == word || slices.Contains(op.Aliases, word) {
			return markdown(op.Manual())
		}
	}
	for _, f := range layout.Functions() {
		if f.Name == word {
			return markdown("`" + f.Signature + "`\n\n" + f.Doc)
		}
	}
	if doc := tileWords[word]; doc != "" {
		return markdown("`" + word + "`\n\n" + doc)
	}
	if t, err := dtype.Parse(word); err == nil {
		return markdown(fmt.Sprintf("element type `%s`: %d bits, %v to %v", t, t.Bits(), t.Min(), t.Max()))
	}
	if a, err := arch.FindAtom(word); err == nil {
		s := fmt.Sprintf("`%s`\n\n%s %s, %d × %d × %d, %d lanes, since %s", a.Name, a.Vendor, a.Family, a.M, a.N, a.K, a.Lanes, a.Since)
		if len(a.Aliases) > 0 {
			s += "\n\nAlso: " + strings.Join(a.Aliases, ", ")
		}
		for _, o := range a.Operands {
			s += fmt.Sprintf("\n\n%s: %s %s", o.Name, o.Type, o.Layout)
		}
		return markdown(s)
	}
	return proto.Inspected{}
}

func markdown(s string) proto.Inspected {
	return proto.Inspected{Found: true, Text: s, Markdown: s}
}

// openCall is the instruction in whose brackets the text ends, or nil.
func openCall(before string) *ir.Op {
	depth := 0
	for i := len(before) - 1; i >= 0; i-- {
		switch before[i] {
		case ')', ']':
			depth++
		case '[':
			if depth > 0 {
				depth--
			}
		case '(':
			if depth > 0 {
				depth--
				continue
			}
			name := trailing(before[:i], isNameByte)
			for _, op := range ir.Ops() {
				if op.Name == name || slices.Contains(op.Aliases, name) {
					return op
				}
			}
		case '{', '}':
			return nil
		}
	}
	return nil
}

// trailing is the longest end of a text of which all bytes fit.
func trailing(s string, fits func(byte) bool) string {
	i := len(s)
	for i > 0 && fits(s[i-1]) {
		i--
	}
	return s[i:]
}

// inspectText describes a word inside a string.
func inspectText(code string, at int) proto.Inspected {
	long := func(b byte) bool { return isNameByte(b) || strings.IndexByte("./:<>", b) >= 0 }
	end := at
	for end < len(code) && long(code[end]) {
		end++
	}
	if word := trailing(code[:end], long); len(word) > 2 {
		if a, err := arch.FindAtom(word); err == nil {
			return inspectWord(a.Name)
		}
	}
	return inspectTile(code, at)
}
