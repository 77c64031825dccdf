package recipe

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// tableText holds the recipes that long searches found, one text after the other,
// with a blank line between. The package's test writes and proves it:
// go test ./vm/recipe -run TestTable -update.
//
//go:embed table.txt
var tableText string

// Lookup is the cheapest recipe of the table for a pair. With mode Deferred it may
// be of either mode, whichever is cheaper; recode allows recoded storage. The error
// says that the table has none; then no recipe was found for the pair.
func Lookup(from, to dtype.Type, mode Mode, recode bool) (*Recipe, error) {
	var best *Recipe
	head := fmt.Sprintf("recipe %s %s ", from, to)
	for text := tableText; ; {
		at := strings.Index(text, head)
		if at < 0 {
			break
		}
		text = text[at:]
		one, _, _ := strings.Cut(text, "\n\n")
		text = text[len(one):]
		r, err := Parse(one)
		if err != nil {
			return nil, fmt.Errorf("recipe: table: %w", err)
		}
		if r.Mode <= mode && (recode || !r.Recode) && (best == nil || r.Cost().less(best.Cost())) {
			best = r
		}
	}
	if best == nil {
		return nil, fmt.Errorf("recipe: no recipe from %s to %s; cast element by element", from, to)
	}
	return best, nil
}

// Table lists all recipes of the table.
func Table() ([]*Recipe, error) {
	var out []*Recipe
	for _, one := range strings.Split(strings.TrimSpace(tableText), "\n\n") {
		r, err := Parse(one)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
