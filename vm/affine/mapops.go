package affine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Simplify is the same map in a simpler form: smaller expressions, tighter ranges and
// fewer constraints. Points and results stay the same. With keepPoints, variables
// that can have one value only stay in the expressions. The second result says
// whether anything changed.
//
// Source: rules R and C of openxla/xla, xla/hlo/analysis/indexing_map.cc, with
// preconditions under which they are sound for negative numbers too.
func (m Map) Simplify(keepPoints bool) (Map, bool) { return m.simplify(keepPoints, false) }

// SimplifyAsXLA is [Map.Simplify] that in results also writes k·x - k·c·⌊x/c⌋ as k·(x mod c)
// where that is as long, as XLA does. Kernels keep the quotient.
func (m Map) SimplifyAsXLA(keepPoints bool) (Map, bool) { return m.simplify(keepPoints, true) }

func (m Map) simplify(keepPoints, remainders bool) (Map, bool) {
	if m.undefined || m.empty {
		return m, false
	}
	before := m
	for range maxRounds {
		last := m
		if m = m.round(keepPoints, remainders); m.empty || m.same(last) {
			break
		}
	}
	return m, !m.same(before)
}

// same says whether two maps that are defined read alike.
func (m Map) same(o Map) bool {
	within := func(a, b []Constraint) bool {
		return !slices.ContainsFunc(a, func(c Constraint) bool {
			return !slices.ContainsFunc(b, func(d Constraint) bool { return c.Range == d.Range && c.Expr.Equal(d.Expr) })
		})
	}
	return m.empty == o.empty && slices.Equal(m.Dims, o.Dims) && slices.Equal(m.Ranges, o.Ranges) && slices.Equal(m.Runtime, o.Runtime) &&
		slices.EqualFunc(m.Results, o.Results, Expr.Equal) && len(m.Constraints) == len(o.Constraints) && within(m.Constraints, o.Constraints) && within(o.Constraints, m.Constraints)
}

func (m Map) round(keepPoints, remainders bool) Map {
	m = m.clone()
	s := simplifier{bounds: m.bounds(), keepPoints: keepPoints}
	kept := m.Constraints[:0]
	for _, c := range m.Constraints {
		c = s.constraint(c)
		if !s.expr(c.Expr).Range(s.bounds).Within(c.Range) {
			kept = append(kept, c)
		}
	}
	m.Constraints = mergeRemainders(kept)
	m = m.normal()
	if m.empty {
		return m
	}
	m.tightenEnds()
	if m = m.normal(); m.empty {
		return m
	}
	s.bounds, s.known, s.remainders = m.bounds(), map[string]Range{}, remainders
	for _, c := range m.Constraints {
		s.known[c.Expr.String()] = c.Range
	}
	for i, e := range m.Results {
		m.Results[i] = s.expr(e)
	}
	return m
}

// constraint simplifies the expression and moves constants, factors, divisors and
// summands that do not matter from it to the range.
func (s simplifier) constraint(c Constraint) Constraint {
	return s.constraintTold(c, func(string, Constraint, Constraint) {})
}

// constraintTold is constraint and tells each rule.
func (s simplifier) constraintTold(c Constraint, tell func(rule string, before, after Constraint)) Constraint {
	for range maxRounds {
		before := c.Expr
		old := c
		say := func(rule string) {
			if !old.Expr.Equal(c.Expr) || old.Range != c.Range {
				tell(rule, old, c)
			}
			old = c
		}
		c.Expr = s.expr(c.Expr)
		say("C1: the expression becomes simpler")
		sum := c.Expr.sum()
		if sum.c != 0 && sum.c != math.MinInt64 {
			c = Constraint{c.Expr.AddConst(-sum.c), Range{shift(c.Range.Lo, -sum.c), shift(c.Range.Hi, -sum.c)}}
			sum = c.Expr.sum()
			say("C3: the constant moves to the range")
		}
		switch {
		case len(sum.terms) == 1 && sum.terms[0].coef != 1:
			t := sum.terms[0]
			k := t.coef
			t.coef = 1
			c = Constraint{t.alone(), scaled(c.Range, k)}
			say("C4: the factor divides the range")
		case len(sum.terms) == 1 && len(sum.terms[0].factors) == 1 && sum.terms[0].factors[0].op == opDiv:
			f := sum.terms[0].factors[0]
			if d, ok := f.b.Const(); ok && d > 0 {
				// ⌊x/d⌋ in [lo, hi] is x in [d·lo, d·hi + d - 1].
				r := Range{times(c.Range.Lo, d), times(c.Range.Hi, d)}
				c = Constraint{f.a, Range{r.Lo, shift(r.Hi, d-1)}}
				say("C5: the divisor multiplies the range")
			}
		case len(sum.terms) > 1:
			c = s.split(c)
			say("C6: what the smaller terms add makes no difference")
		}
		if c.Expr.Equal(before) {
			break
		}
	}
	return c
}

// split drops from a·g + b in [lo, hi] what b adds, where for every b the same a
// satisfy it.
func (s simplifier) split(c Constraint) Constraint {
	sum := c.Expr.sum()
	var sizes []int64
	all := int64(0)
	for _, t := range sum.terms {
		if g := GCD(t.coef, 0); g > 1 {
			sizes = append(sizes, g)
			all = GCD(all, g)
		}
	}
	if all > 1 {
		sizes = append(sizes, all)
	}
	slices.Sort(sizes)
	slices.Reverse(sizes)
	for _, g := range slices.Compact(sizes) {
		a, b := Const(0), Const(0)
		for _, t := range sum.terms {
			if t.coef%g == 0 {
				t.coef /= g
				a = a.Add(t.alone())
			} else {
				b = b.Add(t.alone())
			}
		}
		if b.sum().terms == nil {
			if c.Range.Lo == 0 { // others stay as they are, as with XLA
				return Constraint{a, scaled(c.Range, g)}
			}
			continue
		}
		r := b.Range(s.bounds)
		if open(r.Lo) || open(r.Hi) {
			continue
		}
		at := func(b int64) Range { return scaled(Range{shift(c.Range.Lo, -b), shift(c.Range.Hi, -b)}, g) }
		if lo, hi := at(r.Lo), at(r.Hi); lo == hi {
			return Constraint{a, lo}
		}
	}
	return c
}

func shift(v, by int64) int64 {
	if open(v) {
		return v
	}
	if s, ok := addOK(v, by); ok {
		return s
	}
	if by > 0 {
		return math.MaxInt64
	}
	return math.MinInt64
}

func times(v, by int64) int64 {
	if open(v) {
		return v
	}
	return mulBound(v, by)
}

// scaled are the x with k·x in r, k not 0.
func scaled(r Range, k int64) Range {
	if k < 0 {
		neg := func(v int64) int64 {
			switch v {
			case math.MinInt64:
				return math.MaxInt64
			case math.MaxInt64:
				return math.MinInt64
			}
			return -v
		}
		r, k = Range{neg(r.Hi), neg(r.Lo)}, neg(k)
	}
	out := r
	if !open(r.Lo) {
		out.Lo = -floorDiv(-r.Lo, k)
	}
	if !open(r.Hi) {
		out.Hi = floorDiv(r.Hi, k)
	}
	return out
}

// remainder says that the constraint is x mod k = r for constants k and r.
func (c Constraint) remainder() (x Expr, k, r int64, ok bool) {
	f, one := single1(c.Expr)
	if !one || f.op != opMod || c.Range.Lo != c.Range.Hi {
		return Expr{}, 0, 0, false
	}
	k, ok = f.b.Const()
	return f.a, k, c.Range.Lo, ok && k > 0
}

// mergeRemainders makes one constraint of x mod a = r and x mod b = r.
func mergeRemainders(list []Constraint) []Constraint {
	var out []Constraint
next:
	for _, c := range list {
		x, k, r, ok := c.remainder()
		for i := 0; ok && i < len(out); i++ {
			y, l, q, ok := out[i].remainder()
			if !ok || q != r || !x.Equal(y) {
				continue
			}
			if both, ok := mulOK(k/GCD(k, l), l); ok && r >= 0 && r < min(k, l) {
				out[i] = Constraint{binary(opMod, x, Const(both)), Range{r, r}}
				continue next
			}
		}
		out = append(out, c)
	}
	return out
}

// tightenEnds moves the ends of a variable's range to where x mod k = r holds.
func (m Map) tightenEnds() {
	for _, c := range m.Constraints {
		x, k, r, ok := c.remainder()
		if !ok || r < 0 || r >= k {
			continue
		}
		f, one := single1(x)
		if !one || f.op != opVar {
			continue
		}
		for _, list := range [][]Variable{m.Dims, m.Ranges, m.Runtime} {
			for i, v := range list {
				if v.Name != f.name || open(v.Range.Lo) || open(v.Range.Hi) {
					continue
				}
				lo, ok1 := addOK(v.Range.Lo, floorMod(r-v.Range.Lo%k, k))
				hi, ok2 := addOK(v.Range.Hi, -floorMod(v.Range.Hi%k-r, k))
				if ok1 && ok2 {
					list[i].Range = Range{lo, hi}
				}
			}
		}
	}
}

// defaultName says that a name is one that [Map] gives by position.
func defaultName(name, prefix string) bool {
	rest, ok := name, len(name) > len(prefix) && name[:len(prefix)] == prefix
	if !ok {
		return false
	}
	_, err := strconv.Atoi(rest[len(prefix):])
	return err == nil
}

// renumber gives the variables unique names: those that were named by position, or
// whose name is taken, are named by their new position. The values lead from the
// key of each variable to it.
func renumber(lists ...[]keyed) (out [][]Variable, values map[string]Expr) {
	prefixes := []string{"d", "s", "rt"}
	values = map[string]Expr{}
	taken := map[string]bool{}
	for l, list := range lists {
		var vars []Variable
		for i, k := range list {
			v := k.Variable
			positional := taken[v.Name]
			for _, p := range prefixes {
				positional = positional || defaultName(v.Name, p)
			}
			if positional {
				v.Name = prefixes[l] + strconv.Itoa(i)
			}
			taken[v.Name] = true
			vars = append(vars, v)
			values[k.key] = Var(v.Name)
		}
		out = append(out, vars)
	}
	return out, values
}

// keyed is a variable with the name under which expressions refer to it now.
type keyed struct {
	Variable
	key string
}

// keys lists variables; the prefix keeps those of two maps apart.
func keys(prefix string, vars ...[]Variable) []keyed {
	var out []keyed
	for _, list := range vars {
		for _, v := range list {
			out = append(out, keyed{v, prefix + v.Name})
		}
	}
	return out
}

func (m Map) rename(prefix string) map[string]Expr {
	values := map[string]Expr{}
	for _, v := range m.variables() {
		values[v.Name] = Var(prefix + v.Name)
	}
	return values
}

// Compose is second after first: the results of first are the dimensions of second.
// Dimensions are those of first; range and runtime variables are those of second
// and then those of first. What first yields must lie in the ranges of second's
// dimensions: that becomes a constraint. Nothing is simplified. The error is that
// first has not as many results as second has dimensions.
func Compose(first, second Map) (Map, error) {
	switch {
	case first.undefined || second.undefined:
		return Undefined(), nil
	case second.empty && len(second.Dims) == 0, first.empty:
		return Map{empty: true, Results: make([]Expr, len(second.Results))}, nil
	case len(first.Results) != len(second.Dims):
		return Map{}, fmt.Errorf("affine: the first map has %d results, the second one %d dimensions", len(first.Results), len(second.Dims))
	}
	const a, b = "a.", "b." // no name contains a point
	lists, values := renumber(keys(a, first.Dims), append(keys(b, second.Ranges), keys(a, first.Ranges)...),
		append(keys(b, second.Runtime), keys(a, first.Runtime)...))
	inFirst := func(e Expr) Expr { return e.Subst(first.rename(a)).Subst(values) }
	of := map[string]Expr{}
	for _, v := range slices.Concat(second.Ranges, second.Runtime) {
		of[v.Name] = values[b+v.Name]
	}
	var constraints []Constraint
	for i, v := range second.Dims {
		of[v.Name] = inFirst(first.Results[i])
		constraints = append(constraints, Constraint{of[v.Name], v.Range})
	}
	for _, c := range first.Constraints {
		constraints = append(constraints, Constraint{inFirst(c.Expr), c.Range})
	}
	for _, c := range second.Constraints {
		constraints = append(constraints, Constraint{c.Expr.Subst(of), c.Range})
	}
	results := make([]Expr, len(second.Results))
	for i, e := range second.Results {
		results[i] = e.Subst(of)
	}
	m, err := NewMap(lists[0], lists[1], lists[2], results, constraints)
	m.empty = m.empty || second.empty
	return m, err
}

// RemoveUnusedSymbols drops range and runtime variables that neither a result uses
// nor a constraint ties to a variable that is used.
func (m Map) RemoveUnusedSymbols() Map {
	out, _ := m.removeUnused(false)
	return out
}

// RemoveUnusedVars drops dimensions too. Removed says for each old variable, in the
// order dimensions, ranges, runtime, whether it is gone.
func (m Map) RemoveUnusedVars() (out Map, removed []bool) { return m.removeUnused(true) }

func (m Map) removeUnused(dims bool) (Map, []bool) {
	if m.undefined || m.empty {
		return m, make([]bool, len(m.variables()))
	}
	used := map[string]bool{}
	mark := func(e Expr) (changed bool) {
		for _, name := range e.Vars() {
			changed = changed || !used[name]
			used[name] = true
		}
		return changed
	}
	for _, e := range m.Results {
		mark(e)
	}
	for _, v := range m.Dims {
		used[v.Name] = used[v.Name] || !dims
	}
	for again := true; again; {
		again = false
		for _, c := range m.Constraints {
			if slices.ContainsFunc(c.Expr.Vars(), func(name string) bool { return used[name] }) {
				again = mark(c.Expr) || again
			}
		}
	}
	var removed []bool
	keep := func(vars []Variable) (out []Variable) {
		for _, v := range vars {
			removed = append(removed, !used[v.Name])
			if used[v.Name] {
				out = append(out, v)
			}
		}
		return out
	}
	constraints := slices.DeleteFunc(slices.Clone(m.Constraints), func(c Constraint) bool {
		return !slices.ContainsFunc(c.Expr.Vars(), func(name string) bool { return used[name] })
	})
	left, ranges, runtime := keep(m.Dims), keep(m.Ranges), keep(m.Runtime)
	return m.with(left, ranges, runtime, constraints), removed
}

// with is the map with its variables in other lists, renumbered.
func (m Map) with(dims, ranges, runtime []Variable, constraints []Constraint) Map {
	const key = "a."
	lists, values := renumber(keys(key, dims), keys(key, ranges), keys(key, runtime))
	to := func(e Expr) Expr { return e.Subst(m.rename(key)).Subst(values) }
	out := Map{Dims: lists[0], Ranges: lists[1], Runtime: lists[2]}
	for _, e := range m.Results {
		out.Results = append(out.Results, to(e))
	}
	for _, c := range constraints {
		out.Constraints = append(out.Constraints, Constraint{to(c.Expr), c.Range})
	}
	return out.normal()
}

// Rescale counts a range variable s with s mod k = r in steps: it becomes k·s + r with
// a range k times smaller. Remainders of one variable are merged first where they can be.
// The second result says whether a variable was rescaled; remainders are merged, and ends tightened by
// them, all the same.
func (m Map) Rescale() (Map, bool) {
	if m.undefined || m.empty {
		return m, false
	}
	m = m.clone()
	m.Constraints = mergeRemainders(m.Constraints)
	m.tightenEnds()
	changed := false
	for i, v := range m.Ranges {
		at := slices.IndexFunc(m.Constraints, func(c Constraint) bool {
			x, k, r, ok := c.remainder()
			f, one := single1(x)
			return ok && one && f.op == opVar && f.name == v.Name && r >= 0 && r < k
		})
		if at < 0 || open(v.Range.Lo) || open(v.Range.Hi) {
			continue
		}
		_, k, r, _ := m.Constraints[at].remainder()
		m.Constraints = slices.Delete(m.Constraints, at, at+1)
		m.Ranges[i].Range = scaled(Range{shift(v.Range.Lo, -r), shift(v.Range.Hi, -r)}, k)
		to := map[string]Expr{v.Name: Var(v.Name).MulConst(k).AddConst(r)}
		for j, e := range m.Results {
			m.Results[j] = e.Subst(to)
		}
		for j, c := range m.Constraints {
			m.Constraints[j].Expr = c.Expr.Subst(to)
		}
		changed = true
	}
	return m.normal(), changed
}

// RangesToDims makes the range variables with the numbers in which the last
// dimensions.
func (m Map) RangesToDims(which ...int) (Map, error) {
	dims := slices.Clone(m.Dims)
	var ranges []Variable
	for _, i := range which {
		if i < 0 || i >= len(m.Ranges) {
			return Map{}, fmt.Errorf("affine: there is no range variable %d of %d", i, len(m.Ranges))
		}
		if slices.Contains(dims[len(m.Dims):], m.Ranges[i]) {
			return Map{}, errors.New("affine: a range variable is named twice")
		}
		dims = append(dims, m.Ranges[i])
	}
	for i, v := range m.Ranges {
		if !slices.Contains(which, i) {
			ranges = append(ranges, v)
		}
	}
	return m.with(dims, ranges, m.Runtime, m.Constraints), nil
}

// SymbolsToDims makes all range variables, and then all runtime variables, the last
// dimensions.
func (m Map) SymbolsToDims() Map { return m.with(m.variables(), nil, nil, m.Constraints) }
