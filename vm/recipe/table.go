package recipe

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

// tableText holds the recipes that long searches found, one text after the other,
// with a blank line between. The package's test writes and proves it:
// go test ./vm/recipe -run TestTable -update.
//
//go:embed table.txt
var tableText string

// raisedText holds recipes for placements of the table that put codes at higher
// bits of the lanes, by a few shifts more, or make values of them, so that no power is as small as
// there: see [ForPlacement]. They are written by hand; the package's test proves them.
//
//go:embed raised.txt
var raisedText string

// rows lists the recipes of the table for a pair, read once.
func rows(from, to dtype.Type) ([]*Recipe, error) {
	key := [2]dtype.Type{from, to}
	kept, ok := read.Load(key)
	if !ok {
		all, err := readRows(from, to)
		if err != nil {
			return nil, err
		}
		kept, _ = read.LoadOrStore(key, all)
	}
	var out []*Recipe
	for _, r := range kept.([]*Recipe) {
		own := *r
		out = append(out, &own)
	}
	return out, nil
}

// read are the recipes of pairs that were asked for.
var read sync.Map

func readRows(from, to dtype.Type) ([]*Recipe, error) {
	var out []*Recipe
	head := fmt.Sprintf("recipe %s %s ", from, to)
	for text := tableText + "\n" + raisedText; ; {
		at := strings.Index(text, head)
		if at < 0 {
			return out, nil
		}
		one, rest, _ := strings.Cut(text[at:], "\n\n")
		r, err := Parse(one)
		if err != nil {
			return nil, fmt.Errorf("recipe: table: %w", err)
		}
		out, text = append(out, r), rest
	}
}

// Lookup is the cheapest recipe of the table for a pair. With mode Deferred it may
// be of either mode, whichever is cheaper; recode allows recoded storage. The error
// says that the table has none; then no recipe was found for the pair. The caller
// heeds the Domain: f8e4m3 and f8e5m2 to bf16 and f7e5m1 to f16 need finite values.
func Lookup(from, to dtype.Type, mode Mode, recode bool) (*Recipe, error) {
	all, err := rows(from, to)
	if err != nil {
		return nil, err
	}
	var best *Recipe
	for _, r := range all {
		if r.Mode <= mode && (recode || !r.Recode) && (best == nil || r.Cost().less(best.Cost())) {
			best = r
		}
	}
	if best == nil {
		return nil, fmt.Errorf("recipe: no recipe from %s to %s; cast element by element", from, to)
	}
	return best, nil
}

// MinScale is the least power of two that a recipe may leave over. An f32 accumulator has
// room for it: f16 subnormals reach 2^-24, the powers of two that bf16 fields would need
// (2^-126) are beyond.
const MinScale = -40

// Least is the least power of two of the recipe's output words.
func (r *Recipe) Least() int {
	if r.Mode == Exact {
		return 0
	}
	return slices.Min(r.Scale)
}

// ForPlacement is the cheapest recipe of the table for elements that lie as place
// says: the placement of the recipe, repeated units times, is place. It stores codes
// as they are, and none of its powers of two is below least, which is [MinScale] for any.
// The error says that no recipe of that mode, or Exact where mode is Deferred, has the
// placement and such powers.
func ForPlacement(from, to dtype.Type, mode Mode, place bits.Placement, least int) (r *Recipe, units int, err error) {
	all, err := rows(from, to)
	if err != nil {
		return nil, 0, err
	}
	for _, one := range all {
		n := place.Words() / one.Place.Words()
		if one.Mode > mode || one.Recode || one.Least() < least || !place.Repeats(one.Place, n) {
			continue
		}
		if r == nil || one.Cost().less(r.Cost()) {
			r, units = one, n
		}
	}
	if r == nil {
		below := ""
		if least > MinScale {
			below = fmt.Sprintf(" without powers below 2^%d", least)
		}
		return nil, 0, fmt.Errorf("recipe: no recipe from %s to %s for place=%s%s", from, to, place, below)
	}
	return r, units, nil
}

// Table lists all recipes of the table.
func Table() ([]*Recipe, error) {
	var out []*Recipe
	for _, one := range strings.Split(strings.TrimSpace(tableText+"\n"+raisedText), "\n\n") {
		r, err := Parse(one)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
