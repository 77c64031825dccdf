// Package assist knows what may be written at a place of program text, or of a text in
// any notation of layouts, and what a word there means. Notebook cells and editors ask it.
package assist

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Item is something that may be written.
type Item struct {
	Text string
	Kind string // "function", "field", "variable", "keyword", "type", "constant"
	Doc  string // one line
}

// words of program text with what they are for.
var tileWords = map[string]string{
	"program": "program NAME(PARAMETER: TYPE, …) grid = (…) warps = N { … }", "for": "for i in range { … }: a loop whose bounds are known when it begins",
	"while": "while CONDITION { … }", "if": "if CONDITION { … } else { … }", "else": "the other branch of if", "in": "for i in …", "register": "a tensor in the registers of the block: register TYPE[SHAPE] LAYOUT",
	"shared": "a tensor in shared memory: shared TYPE[SHAPE]", "global": "a tensor in global memory: global TYPE[SHAPE]", "min": "the smaller of two scalars", "max": "the greater of two scalars", "select": "select(CONDITION, x, y): x where the condition holds, else y",
	"gcd": "the greatest common divisor", "bits": "the number of bits of an element type", "break": "leave the loop", "continue": "the next turn of the loop", "return": "end the block",
	"assume": "a fact about scalars that the compiler may use; the interpreter checks it", "static_assert": "a fact about parameters that must hold when the program is read", "group": "the threads that a part of the program is for",
}

// atomNames are the names of the catalogue with what they are, made once.
var atomNames = sync.OnceValue(func() []Item {
	var out []Item
	for _, a := range arch.Atoms() {
		sig := fmt.Sprintf("%s %s, since %s", a.Vendor, a.Family, a.Since)
		out = append(out, Item{a.Name, "constant", sig})
		for _, n := range a.Aliases {
			out = append(out, Item{n, "constant", sig})
		}
	}
	slices.SortFunc(out, func(a, b Item) int { return strings.Compare(a.Text, b.Text) })
	return slices.CompactFunc(out, func(a, b Item) bool { return a.Text == b.Text })
})

// maxAtoms bounds what one completion lists of the catalogue.
const maxAtoms = 200

var declared = regexp.MustCompile(`(?m)^\s*((?:[A-Za-z_]\w*\s*,\s*)*[A-Za-z_]\w*)\s*[=:]|[(,]\s*([A-Za-z_]\w*)\s*:|\bfor\s+([A-Za-z_]\w*)`)

// Complete lists what may stand at the end of a beginning of program text, and the
// word that it would replace.
func Complete(before string) (items []Item, word string) {
	word = trailing(before, isNameByte)
	seen := map[string]bool{}
	add := func(text, kind, doc string) {
		if strings.HasPrefix(text, word) && !seen[text] {
			seen[text] = true
			items = append(items, Item{text, kind, doc})
		}
	}
	if strings.HasSuffix(strings.TrimSuffix(before, word), ".") {
		for _, f := range layout.Functions() {
			add(f.Name, "function", f.Signature+"  "+f.Doc)
		}
		return items, word
	}
	if op := openCall(before); op != nil {
		for _, a := range op.Attrs {
			add(a.Name+"=", "field", a.Kind.String()+": "+a.Doc)
		}
	}
	for _, m := range declared.FindAllStringSubmatch(before[:len(before)-len(word)], -1) {
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
	slices.SortStableFunc(items, func(a, b Item) int {
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
	return items, word
}

// notationNames adds element types and what layout text can call.
func notationNames(add func(text, kind, doc string)) {
	for _, t := range dtype.All() {
		add(t.String(), "type", fmt.Sprintf("element type of %d bits", t.Bits()))
	}
	for _, f := range layout.Functions() {
		add(f.Name, "function", f.Signature+"  "+f.Doc)
	}
}

// CompleteNotation lists what may stand at the end of a beginning of layout notation,
// with element types and the names of the catalogue, and what it would replace.
func CompleteNotation(before string) (items []Item, word string) {
	// Names of the catalogue have dots and slashes.
	word = trailing(before, isAtomByte)
	atoms := atomNames()
	i, _ := slices.BinarySearchFunc(atoms, word, func(m Item, s string) int { return strings.Compare(m.Text, s) })
	for ; len(word) > 1 && i < len(atoms) && strings.HasPrefix(atoms[i].Text, word) && len(items) < maxAtoms; i++ {
		items = append(items, atoms[i])
	}
	if len(items) > 0 {
		return items, word
	}
	word = trailing(before, isNameByte)
	if word == "" && !strings.HasSuffix(before, ".") {
		return nil, word
	}
	notationNames(func(text, kind, doc string) {
		if strings.HasPrefix(text, word) {
			items = append(items, Item{text, kind, doc})
		}
	})
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Text, b.Text) })
	return items, word
}

// Describe says in Markdown what the word at a byte of program text is, "" if nothing
// is known.
func Describe(code string, at int) string {
	at = min(max(at, 0), len(code))
	for at < len(code) && isNameByte(code[at]) {
		at++
	}
	word := trailing(code[:at], isNameByte)
	if word == "" && at > 0 && code[at-1] == '(' {
		word = trailing(code[:at-1], isNameByte)
	}
	if doc := describeWord(word); doc != "" {
		return doc
	}
	if op := openCall(code[:at-len(word)]); op != nil {
		for _, a := range op.Attrs {
			if a.Name == word {
				return fmt.Sprintf("attribute `%s` of %s (%s): %s", a.Name, op.Name, a.Kind, a.Doc)
			}
		}
	}
	if m := regexp.MustCompile(`(?m)^.*\b` + regexp.QuoteMeta(word) + `\b\s*[=:].*$`).FindString(code); word != "" && m != "" {
		return "```\n" + strings.TrimSpace(m) + "\n```"
	}
	return ""
}

// describeWord describes an instruction, a word, an element type, a layout function or an instruction of the catalogue.
func describeWord(word string) string {
	if word == "" {
		return ""
	}
	for _, op := range ir.Ops() {
		if op.Name == word || slices.Contains(op.Aliases, word) {
			return op.Manual()
		}
	}
	for _, f := range layout.Functions() {
		if f.Name == word {
			return "`" + f.Signature + "`\n\n" + f.Doc
		}
	}
	if doc := tileWords[word]; doc != "" {
		return "`" + word + "`\n\n" + doc
	}
	if t, err := dtype.Parse(word); err == nil {
		return fmt.Sprintf("element type `%s`: %d bits, %v to %v", t, t.Bits(), t.Min(), t.Max())
	}
	if a, ok := arch.LookupAtom(word); ok {
		s := fmt.Sprintf("`%s`\n\n%s %s, %d × %d × %d, %d lanes, since %s", a.Name, a.Vendor, a.Family, a.M, a.N, a.K, a.Lanes, a.Since)
		if len(a.Aliases) > 0 {
			s += "\n\nAlso: " + strings.Join(a.Aliases, ", ")
		}
		for _, o := range a.Operands {
			s += fmt.Sprintf("\n\n%s: %s %s", o.Name, o.Type, o.Layout)
		}
		return s
	}
	return ""
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

// DescribeNotation says in Markdown what the word at a byte of a text in a notation of
// layouts is, "" if nothing is known.
func DescribeNotation(code string, at int) string {
	end := min(max(at, 0), len(code))
	for end < len(code) && isAtomByte(code[end]) {
		end++
	}
	if word := trailing(code[:end], isAtomByte); len(word) > 2 {
		if a, ok := arch.LookupAtom(word); ok {
			return describeWord(a.Name)
		}
	}
	return Describe(code, at)
}

func isNameByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b >= 0x80
}

// isAtomByte reports bytes of names of the catalogue.
func isAtomByte(b byte) bool { return isNameByte(b) || strings.IndexByte("./:<>", b) >= 0 }
