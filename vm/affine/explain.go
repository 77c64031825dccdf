package affine

import "fmt"

// Step is one change on the way to a simpler map.
type Step struct {
	Rule   string // what was done, with the numbers of the rules that do it
	Before string
	After  string
	Facts  string // the ranges that decide it, or ""
}

// Explain simplifies a map as [Map.Simplify] does and tells each rule that is applied, to
// which part of an expression and because of which ranges: constraints first, then what
// follows for the ranges, then each result with the ranges known by then, round by round
// until nothing changes.
//
// The rules are numbered as in the description of XLA's indexing maps: R1 to R12 simplify
// expressions by ranges, C1 to C9 constraints.
func (m Map) Explain() (Map, []Step) {
	var steps []Step
	if m.undefined || m.empty {
		return m, nil
	}
	for round := 1; round <= maxRounds; round++ {
		next := m.round(false, false)
		if next.String() == m.String() && !next.empty {
			break
		}
		order := m.order()
		if next.empty {
			steps = append(steps, Step{"C2: no point satisfies the constraints", m.String(), next.String(), ""})
			m = next
			break
		}
		// Constraints, one by one.
		s := simplifier{bounds: m.bounds()}
		text := func(c Constraint) string { return order.text(c.Expr) + " in " + c.Range.String() }
		for _, c := range m.Constraints {
			d := s.constraintTold(c, func(rule string, before, after Constraint) {
				steps = append(steps, Step{rule, text(before), text(after), m.facts(before.Expr)})
			})
			if s.expr(d.Expr).Range(s.bounds).Within(d.Range) {
				steps = append(steps, Step{"C2: the constraint holds for all values", text(d), "", m.facts(d.Expr)})
			}
		}
		// Ranges that constraints made smaller.
		now := next.variables()
		for i, v := range m.variables() {
			if now[i].Range != v.Range {
				steps = append(steps, Step{"C7 to C9: constraints narrow the range of a variable", v.Name + " in " + v.Range.String(), v.Name + " in " + now[i].Range.String(), ""})
			}
		}
		s = simplifier{bounds: next.bounds(), known: map[string]Range{}}
		for _, c := range next.Constraints {
			s.known[c.Expr.String()] = c.Range
		}
		for i, e := range m.Results {
			s.note = func(rule string, before, after Expr) {
				steps = append(steps, Step{fmt.Sprintf("result %d, %s", i, rule), order.text(before), order.text(after), next.facts(before)})
			}
			s.expr(e)
		}
		m = next
	}
	return m, steps
}

// facts are the ranges of the variables of an expression.
func (m Map) facts(e Expr) string {
	text := ""
	used := map[string]bool{}
	for _, name := range e.Vars() {
		used[name] = true
	}
	for _, v := range m.variables() {
		if used[v.Name] {
			if text != "" {
				text += ", "
			}
			text += v.Name + " in " + v.Range.String()
		}
	}
	return text
}
