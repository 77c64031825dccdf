package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/affine"
)

// exactJSON reads a JSON value into v; a member that v does not have is an error.
func exactJSON(what string, raw json.RawMessage, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

type mapInput struct {
	Map, First, Second, Expr, Domain string
	PointDims                        string `json:"point_dims"`
	Indices                          []int
	Dims, Symbols                    []int64
}

type mapExpect struct {
	Map, Expr    *string
	Upstream     string `json:"upstream_map"` // a recorded mistake of theirs
	Changed      *bool
	First        *bool  `json:"changed_first"`
	Second       *bool  `json:"changed_second"`
	NumResults   *int   `json:"num_results"`
	Removed      []bool `json:"removed"`
	Range        []int64
	Nonnegative  *bool `json:"always_nonnegative"`
	Results      []int64
	Satisfied    *bool
	AnyOf        []struct{ Result3, Constraint string } `json:"any_of"`
	DomainPoints *int                                   `json:"domain_points"`
	TightBox     [][2]int64                             `json:"tight_box"`
	Checksum     *int64
	Prototype    string `json:"prototype_result"` // information only, as is the next
	PrototypeN   *int   `json:"prototype_domain_points"`
}

// mapAnswer is what ours says; only what is set is compared.
type mapAnswer struct {
	m       *affine.Map
	expr    string
	changed *bool
	other   map[string]any
}

// affineKinds are the kinds about index expressions and indexing maps.
func affineKinds() []Kind {
	ask := func(name, doc string, answer func(in mapInput, m affine.Map) (mapAnswer, error)) Kind {
		return Kind{name, doc, func(input, expect json.RawMessage) (string, error) {
			var in mapInput
			var want mapExpect
			if err := exactJSON("input", input, &in); err != nil {
				return "", err
			}
			if err := exactJSON("expect", expect, &want); err != nil {
				return "", err
			}
			var m affine.Map
			if in.Map != "" {
				var err error
				if m, err = affine.ParseMap(in.Map); err != nil {
					return "", err
				}
			}
			got, err := answer(in, m)
			if err != nil {
				return "", err
			}
			return got.check(want)
		}}
	}
	plain := func(m affine.Map) (mapAnswer, error) { return mapAnswer{m: &m}, nil }
	simplify := func(m affine.Map, in mapInput) (affine.Map, bool) { return m.SimplifyAsXLA(in.PointDims == "preserve") }
	return []Kind{
		ask("parse", "a map is read and brought to normal form", func(_ mapInput, m affine.Map) (mapAnswer, error) { return plain(m) }),
		ask("parse_print", "a map is printed as it is read", func(_ mapInput, m affine.Map) (mapAnswer, error) {
			back, err := affine.ParseMap(m.String())
			if err == nil && !back.Equal(m) && !(back.KnownEmpty() && m.KnownEmpty()) {
				err = fmt.Errorf("%s reads back as %s", m, back)
			}
			return mapAnswer{m: &m}, err
		}),
		ask("expr_canonicalize", "an expression in canonical form", func(in mapInput, _ affine.Map) (mapAnswer, error) {
			e, err := affine.ParseMapExpr(in.Expr)
			return mapAnswer{expr: e.Simplify(nil).MapText()}, err
		}),
		ask("expr_range", "the interval of an expression", func(in mapInput, _ affine.Map) (mapAnswer, error) {
			var names []string
			for _, item := range strings.Split(in.Domain, "],") {
				name, _, _ := strings.Cut(strings.TrimSpace(item), " ")
				names = append(names, name)
			}
			m, err := affine.ParseMap(fmt.Sprintf("(%s) -> (%s), domain: %s", strings.Join(names, ", "), in.Expr, in.Domain))
			if err != nil {
				return mapAnswer{}, err
			}
			bounds := map[string]affine.Range{}
			for _, v := range m.Dims {
				bounds[v.Name] = v.Range
			}
			if len(m.Results) != 1 {
				return mapAnswer{}, fmt.Errorf("%q is not one expression", in.Expr)
			}
			r := m.Results[0].Range(bounds)
			return mapAnswer{other: map[string]any{"range": []int64{r.Lo, r.Hi}, "always_nonnegative": r.Lo >= 0}}, nil
		}),
		ask("simplify", "the simplified map", func(in mapInput, m affine.Map) (mapAnswer, error) {
			out, changed := simplify(m, in)
			changed = changed && !onlyDropped(m, out) || rewritten(in.Map, m) || reordered(in.Map, out)
			return mapAnswer{m: &out, changed: &changed}, sameMap(m, out)
		}),
		ask("simplify_idempotent", "what simplifying twice changes", func(in mapInput, m affine.Map) (mapAnswer, error) {
			once, first := simplify(m, in)
			_, second := simplify(once, in)
			first = first && !onlyDropped(m, once) || rewritten(in.Map, m) || reordered(in.Map, once)
			return mapAnswer{other: map[string]any{"changed_first": first, "changed_second": second}}, nil
		}),
		ask("simplify_sound", "points and results before and after simplifying", func(in mapInput, m affine.Map) (mapAnswer, error) {
			out, _ := simplify(m, in)
			other, err := mapFacts(out, affine.MaxPoints)
			if err == nil {
				err = sameMap(m, out)
			}
			return mapAnswer{other: other}, err
		}),
		ask("compose", "second after first", func(in mapInput, _ affine.Map) (mapAnswer, error) { return composed(in) }),
		ask("compose_simplify", "second after first, simplified", func(in mapInput, _ affine.Map) (mapAnswer, error) {
			got, err := composed(in)
			if err != nil {
				return got, err
			}
			out, _ := simplify(*got.m, in)
			return mapAnswer{m: &out}, sameMap(*got.m, out)
		}),
		ask("remove_unused_symbols", "the map without symbols that nothing needs", func(_ mapInput, m affine.Map) (mapAnswer, error) {
			return plain(m.RemoveUnusedSymbols())
		}),
		ask("remove_unused_vars", "the map without variables that nothing needs", func(_ mapInput, m affine.Map) (mapAnswer, error) {
			out, removed := m.RemoveUnusedVars()
			return mapAnswer{m: &out, other: map[string]any{"removed": removed}}, nil
		}),
		ask("rescale", "range variables counted in steps", func(_ mapInput, m affine.Map) (mapAnswer, error) {
			out, changed := m.Rescale()
			return mapAnswer{m: &out, changed: &changed}, nil
		}),
		ask("rescale_any_of", "range variables counted in steps, where several answers are right", func(_ mapInput, m affine.Map) (mapAnswer, error) {
			out, _ := m.Rescale()
			return mapAnswer{m: &out}, nil
		}),
		ask("rescale_simplify", "range variables counted in steps, simplified", func(in mapInput, m affine.Map) (mapAnswer, error) {
			out, _ := simplify(m, in)
			out, changed := out.Rescale()
			out, _ = simplify(out, in)
			return mapAnswer{m: &out, changed: &changed}, nil
		}),
		ask("range_vars_to_dims", "range variables made dimensions", func(in mapInput, m affine.Map) (mapAnswer, error) {
			out, err := m.RangesToDims(in.Indices...)
			return mapAnswer{m: &out}, err
		}),
		ask("symbols_to_dims", "all symbols made dimensions", func(_ mapInput, m affine.Map) (mapAnswer, error) { return plain(m.SymbolsToDims()) }),
		ask("evaluate", "results at a point", func(in mapInput, m affine.Map) (mapAnswer, error) {
			r, err := m.Eval(in.Dims, in.Symbols)
			return mapAnswer{other: map[string]any{"results": r}}, err
		}),
		ask("constraints_satisfied", "whether a point satisfies the constraints", func(in mapInput, m affine.Map) (mapAnswer, error) {
			ok, err := m.Satisfied(in.Dims, in.Symbols)
			return mapAnswer{other: map[string]any{"satisfied": ok}}, err
		}),
	}
}

// onlyDropped says that a map lost constraints that always hold, and nothing else is
// another. Theirs does not count that as a change.
func onlyDropped(before, after affine.Map) bool {
	kept := slices.DeleteFunc(slices.Clone(before.Constraints), func(c affine.Constraint) bool {
		return !slices.ContainsFunc(after.Constraints, func(d affine.Constraint) bool { return c.Range == d.Range && c.Expr.Equal(d.Expr) })
	})
	if after.KnownEmpty() || len(kept) != len(after.Constraints) {
		return false
	}
	before.Constraints = kept
	return before.String() == after.String()
}

// rewritten says that reading a text made another map of it. Reading already folds what
// needs no ranges and brings sums in order; theirs counts that as a change of simplifying,
// but not that a factor moves behind what it multiplies, nor how a sign is written.
func rewritten(text string, m affine.Map) bool {
	if m.KnownEmpty() || m.Undefined() {
		return false
	}
	return !slices.Equal(operands(text), operands(m.String()))
}

// reordered says that a constraint of the simplified map does not stand in the text.
func reordered(text string, m affine.Map) bool {
	theirs := constraintOperands(text)
	return slices.ContainsFunc(constraintOperands(m.String()), func(c []string) bool {
		return !slices.ContainsFunc(theirs, func(d []string) bool { return slices.Equal(c, d) })
	})
}

// constraintOperands are the operands of each constraint of a map that is more than one
// variable or number.
func constraintOperands(text string) (out [][]string) {
	_, domain, _ := strings.Cut(text, "domain:")
	for _, item := range strings.Split(domain, "],") {
		expr, _, _ := strings.Cut(item, " in ")
		if list := operandsOf(expr); len(list) > 1 {
			out = append(out, list)
		}
	}
	return out
}

var (
	factorFirst = regexp.MustCompile(`\b(\d+) *\* *([a-zA-Z_]\w*|\([^()]*\))`)
	minusOne    = regexp.MustCompile(`\* *-1\b`)
	operand     = regexp.MustCompile(`\w+|[*/]`)
)

// operands are the names, numbers and operators but + and - of the results of a map, as
// they stand in its text, factors behind what they multiply.
func operands(text string) []string {
	_, results, _ := strings.Cut(text, "->")
	results, _, _ = strings.Cut(results, "domain")
	return operandsOf(results)
}

func operandsOf(results string) []string {
	results = strings.NewReplacer("floordiv", "/", "floorDiv", "/").Replace(results)
	results = minusOne.ReplaceAllString(results, "")
	return operand.FindAllString(factorFirst.ReplaceAllString(results, "$2 * $1"), -1)
}

func composed(in mapInput) (mapAnswer, error) {
	first, err := affine.ParseMap(in.First)
	if err != nil {
		return mapAnswer{}, err
	}
	second, err := affine.ParseMap(in.Second)
	if err != nil {
		return mapAnswer{}, err
	}
	m, err := affine.Compose(first, second)
	return mapAnswer{m: &m}, err
}

// check compares an answer with what is expected. Maps and expressions are compared
// as text after both have been read by us, since we keep sums in canonical order.
func (a mapAnswer) check(want mapExpect) (note string, err error) {
	if want.Upstream != "" {
		note = "upstream says " + want.Upstream
	}
	if want.Map != nil {
		m, err := affine.ParseMap(*want.Map)
		switch {
		case err != nil:
			return "", err
		case a.m == nil:
			return "", fmt.Errorf("expect.map cannot be checked")
		case m.KnownEmpty() != a.m.KnownEmpty() || m.String() != a.m.String():
			return "", fmt.Errorf("the map is %s, want %s", a.m, m)
		}
	}
	if want.Expr != nil {
		e, err := affine.ParseMapExpr(*want.Expr)
		if err != nil || e.Simplify(nil).MapText() != a.expr {
			return "", fmt.Errorf("the expression is %s, want %s (%w)", a.expr, *want.Expr, err)
		}
	}
	if want.Changed != nil && (a.changed == nil || *a.changed != *want.Changed) {
		return "", fmt.Errorf("changed is not %t", *want.Changed)
	}
	if want.NumResults != nil && (a.m == nil || len(a.m.Results) != *want.NumResults) {
		return "", fmt.Errorf("the map has not %d results", *want.NumResults)
	}
	if want.AnyOf != nil {
		fits := false
		for _, w := range want.AnyOf {
			fits = fits || a.m != nil && strings.Contains(a.m.String(), w.Result3+")") && strings.Contains(a.m.String(), w.Constraint)
		}
		if !fits {
			return "", fmt.Errorf("the map is %s, want one of %v", a.m, want.AnyOf)
		}
	}
	for _, c := range []struct {
		name string
		want any
	}{
		{"changed_first", want.First}, {"changed_second", want.Second}, {"removed", want.Removed}, {"range", want.Range},
		{"always_nonnegative", want.Nonnegative}, {"results", want.Results}, {"satisfied", want.Satisfied},
		{"domain_points", want.DomainPoints}, {"tight_box", want.TightBox}, {"checksum", want.Checksum},
	} {
		v := reflect.ValueOf(c.want)
		if v.IsNil() {
			continue
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		got, ok := a.other[c.name]
		if !ok {
			return "", fmt.Errorf("expect.%s cannot be checked", c.name)
		}
		if fmt.Sprint(got) != fmt.Sprint(v.Interface()) {
			return "", fmt.Errorf("%s is %v, want %v", c.name, got, v.Interface())
		}
	}
	return note, nil
}

// mapFacts enumerates a map: its points, the smallest box that holds them, and the
// sum over the points of the base-31 fold of variables and results modulo 10⁹+7.
func mapFacts(m affine.Map, limit int64) (map[string]any, error) {
	points, sum := 0, int64(0)
	var box [][2]int64
	const prime = 1_000_000_007
	err := m.Points(limit, func(dims, symbols, results []int64) error {
		at := slices.Concat(dims, symbols)
		fold := int64(0)
		for i, v := range at {
			if points == 0 {
				box = append(box, [2]int64{v, v})
			}
			box[i] = [2]int64{min(box[i][0], v), max(box[i][1], v)}
		}
		for _, v := range append(at, results...) {
			fold = ((fold*31+v)%prime + prime) % prime
		}
		points++
		sum = (sum + fold) % prime
		return nil
	})
	return map[string]any{"domain_points": points, "tight_box": box, "checksum": sum}, err
}

// worthProof is the most points over which maps are compared beside their texts.
const worthProof = 1 << 20

// sameMap enumerates two maps where they are small enough and says where they differ.
func sameMap(a, b affine.Map) error {
	x, err := mapFacts(a, worthProof)
	if err != nil {
		return nil // too many points to enumerate; the text is compared
	}
	y, err := mapFacts(b, worthProof)
	if err == nil && !reflect.DeepEqual(x, y) {
		err = fmt.Errorf("simplifying changes the map: %v became %v", x, y)
	}
	return err
}
