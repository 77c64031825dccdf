package assist

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Grammar is a TextMate grammar of program text, made of the tables of instructions,
// element types and layouts: JSON that VS Code and other editors colour text by.
func Grammar() []byte {
	var ops, types, layouts, control, kinds []string
	for _, op := range ir.Ops() {
		ops = append(append(ops, op.Name), op.Aliases...)
	}
	for _, t := range dtype.All() {
		types = append(types, t.String())
	}
	for _, f := range layout.Functions() {
		layouts = append(layouts, f.Name)
	}
	for w := range tileWords {
		switch w {
		case "register", "shared", "global":
			kinds = append(kinds, w)
		case "min", "max", "select", "gcd", "bits":
			layouts = append(layouts, w)
		default:
			control = append(control, w)
		}
	}
	type pattern map[string]any
	words := func(scope string, list []string) pattern {
		for i := range list {
			list[i] = regexp.QuoteMeta(list[i])
		}
		// Longer ones first: an alternative is taken as soon as it fits.
		slices.SortFunc(list, func(a, b string) int {
			if len(a) != len(b) {
				return len(b) - len(a)
			}
			return strings.Compare(a, b)
		})
		return pattern{"name": scope, "match": `\b(?:` + strings.Join(slices.Compact(list), "|") + `)\b`}
	}
	out, err := json.MarshalIndent(map[string]any{
		"$schema":   "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
		"name":      "Tile program",
		"scopeName": "source.tile",
		"fileTypes": []string{"tile"},
		"patterns": []pattern{
			{"name": "comment.line.double-slash.tile", "match": `//.*$`},
			{"name": "string.quoted.double.tile", "match": `"(?:[^"\\]|\\.)*"`},
			words("keyword.control.tile", control),
			words("storage.type.tile", kinds),
			words("support.function.instruction.tile", ops),
			words("support.type.element.tile", types),
			words("support.function.layout.tile", layouts),
			{"name": "variable.parameter.attribute.tile", "match": `\b[a-z_]+(?==(?!=))`},
			{"name": "constant.numeric.tile", "match": `\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b`},
			{"name": "keyword.operator.tile", "match": `[-+*/%<>=!&|?:]+`},
		},
	}, "", "  ")
	if err != nil {
		panic(err) // strings alone
	}
	return append(out, '\n')
}
