package affine

import "fmt"

// Step is one change on the way to a simpler map.
type Step struct {
	Rule   string // what was done, with the numbers of the rules that do it
	Before string
	After  string
	Facts  string // the ranges that decide it, or ""
}

// Explain simplifies a map as [Map.Simplify] does and tells what changes: constraints
// first, then what follows for the ranges, then each result with the ranges known by
// then, round by round until nothing changes.
//
// The rules are numbered as in the description of XLA's indexing maps: R1 to R12 simplify
// expressions by ranges, C1 to C9 constraints.
func (m Map) Explain() (Map, []Step) {
	var steps []Step
	if m.undefined || m.empty {
		return m, nil
	}
	for round := 1; round <= maxRounds; round++ {
		next := m.round(false)
		if next.String() == m.String() && !next.empty {
			break
		}
		order := m.order()
		if next.empty {
			steps = append(steps, Step{"no point satisfies the constraints (C2)", m.String(), next.String(), ""})
			m = next
			break
		}
		// Constraints, one by one.
		s := simplifier{bounds: m.bounds()}
		for _, c := range m.Constraints {
			before := order.text(c.Expr) + " in " + c.Range.String()
			d := s.constraint(c)
			after := order.text(d.Expr) + " in " + d.Range.String()
			if s.expr(d.Expr).Range(s.bounds).Within(d.Range) {
				steps = append(steps, Step{"the constraint holds for all values (C2)", before, "", m.facts(c.Expr)})
			} else if after != before {
				steps = append(steps, Step{"the constraint says less in more words (C1, C3 to C6)", before, after, m.facts(c.Expr)})
			}
		}
		// Ranges that constraints made smaller.
		now := next.variables()
		for i, v := range m.variables() {
			if now[i].Range != v.Range {
				steps = append(steps, Step{"constraints narrow the range of a variable (C7 to C9)", v.Name + " in " + v.Range.String(), v.Name + " in " + now[i].Range.String(), ""})
			}
		}
		for i, e := range m.Results {
			if before, after := order.text(e), order.text(next.Results[i]); before != after {
				steps = append(steps, Step{fmt.Sprintf("result %d (%s)", i, resultRule(e, next.Results[i])), before, after, next.facts(e)})
			}
		}
		m = next
	}
	return m, steps
}

// resultRule names the rules that may lead from one expression to the other.
func resultRule(before, after Expr) string {
	count := func(e Expr, o op) int {
		n := 0
		e.rebuild(func(name string) Expr { return Var(name) }, func(p op, a, b Expr) Expr {
			if p == o {
				n++
			}
			return apply(p, a, b)
		})
		return n
	}
	_, constant := after.Const()
	div, mod := count(before, opDiv)-count(after, opDiv), count(before, opMod)-count(after, opMod)
	switch {
	case constant:
		return "R1: one value only"
	case div > 0 && mod > 0:
		return "R10, R11: quotient and remainder meet"
	case mod > 0:
		return "R2, R4: the remainder is decided by the range"
	case div > 0:
		return "R7 to R9: the quotient is decided or merges"
	case count(before, opMin) > count(after, opMin) || count(before, opMax) > count(after, opMax):
		return "R12: the ranges decide which is smaller"
	}
	return "R3, R5, R6, R8: what need not be inside is taken out"
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
