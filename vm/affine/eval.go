package affine

import "fmt"

// Evaluator evaluates a map at many points. It is not safe for concurrent use.
type Evaluator struct {
	m       Map
	vars    []Variable
	checks  []compiledCheck
	results []compiled
	at      []int64
}

type compiledCheck struct {
	f compiled
	r Range
}

// Evaluator prepares a map for evaluation. The map must be defined and not known empty.
func (m Map) Evaluator() *Evaluator {
	e := &Evaluator{m: m, vars: m.variables()}
	place := map[string]int{}
	for i, v := range e.vars {
		place[v.Name] = i
	}
	e.at = make([]int64, len(place))
	for _, c := range m.Constraints {
		e.checks = append(e.checks, compiledCheck{c.Expr.compile(place), c.Range})
	}
	for _, r := range m.Results {
		e.results = append(e.results, r.compile(place))
	}
	return e
}

// At sets results to those of a point and says whether it lies in the domain; if not,
// they are left as they are.
func (e *Evaluator) At(dims, symbols, results []int64) (in bool, err error) {
	copy(e.at, dims)
	copy(e.at[len(e.m.Dims):], symbols)
	for i, v := range e.vars {
		if !v.Range.Contains(e.at[i]) {
			return false, nil
		}
	}
	return e.inside(results)
}

// inside is At of the values in e.at, which lie in the ranges of their variables.
func (e *Evaluator) inside(results []int64) (in bool, err error) {
	bad := false
	in = true
	for _, c := range e.checks {
		if !c.r.Contains(c.f(e.at, &bad)) {
			in = false
			break
		}
	}
	if in {
		for i, f := range e.results {
			results[i] = f(e.at, &bad)
		}
	}
	if bad {
		return false, fmt.Errorf("affine: no value at %v: division by zero or more than 64 bits", e.at)
	}
	return in, nil
}
