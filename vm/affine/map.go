package affine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Variable is a variable of a [Map] with the values it may take.
type Variable struct {
	Name  string
	Range Range
}

// Constraint says that the expression lies in the range.
type Constraint struct {
	Expr  Expr
	Range Range
}

// Map is an indexing map: it leads from the values of dimension variables, such as
// a position in a tensor or the numbers of thread and block, to one or more
// positions in another tensor. Range variables run over all their values, so that
// one point may lead to many; runtime variables have one value, which is known
// when the program runs. Only points that satisfy all constraints belong to it.
//
// A map is immutable. The zero value has no variables and one empty result.
//
// Source: openxla/xla, xla/hlo/analysis/indexing_map.h.
type Map struct {
	Dims, Ranges, Runtime []Variable
	Results               []Expr
	Constraints           []Constraint // sorted by text

	undefined bool
	empty     bool
}

// Undefined is the map of which nothing is known.
func Undefined() Map { return Map{undefined: true} }

// Undefined says whether nothing is known of the map.
func (m Map) Undefined() bool { return m.undefined }

// KnownEmpty says whether the map is known to hold no point. A map that holds none need
// not be known to.
func (m Map) KnownEmpty() bool { return m.empty }

// NewMap makes a map and brings it to normal form: constraints on a single variable
// go into its range, those on a constant vanish, and those on equal expressions
// become one. The error says what is wrong: a name used twice, a variable that is not
// declared, an expression without a value.
func NewMap(dims, ranges, runtime []Variable, results []Expr, constraints []Constraint) (Map, error) {
	m := Map{Dims: slices.Clone(dims), Ranges: slices.Clone(ranges), Runtime: slices.Clone(runtime),
		Results: slices.Clone(results), Constraints: slices.Clone(constraints)}
	known := map[string]bool{}
	for _, v := range m.variables() {
		if known[v.Name] {
			return Map{}, fmt.Errorf("affine: the variable %s is declared twice", v.Name)
		}
		known[v.Name] = true
	}
	check := func(e Expr) error {
		if err := e.Err(); err != nil {
			return err
		}
		for _, name := range e.Vars() {
			if !known[name] {
				return fmt.Errorf("affine: the variable %s is not declared", name)
			}
		}
		return nil
	}
	for _, e := range m.Results {
		if err := check(e); err != nil {
			return Map{}, err
		}
	}
	for _, c := range m.Constraints {
		if err := check(c.Expr); err != nil {
			return Map{}, err
		}
	}
	return m.normal(), nil
}

// variables lists all variables in order: dimensions, ranges, runtime.
func (m Map) variables() []Variable { return slices.Concat(m.Dims, m.Ranges, m.Runtime) }

func (m Map) bounds() map[string]Range {
	b := map[string]Range{}
	for _, v := range m.variables() {
		b[v.Name] = v.Range
	}
	return b
}

// clone copies the lists, so that they may be changed.
func (m Map) clone() Map {
	m.Dims, m.Ranges, m.Runtime = slices.Clone(m.Dims), slices.Clone(m.Ranges), slices.Clone(m.Runtime)
	m.Results, m.Constraints = slices.Clone(m.Results), slices.Clone(m.Constraints)
	return m
}

func (m *Map) restrict(name string, r Range) {
	for _, list := range [][]Variable{m.Dims, m.Ranges, m.Runtime} {
		for i := range list {
			if list[i].Name == name {
				list[i].Range = list[i].Range.Intersect(r)
			}
		}
	}
}

// normal brings a map that nothing else refers to to normal form.
func (m Map) normal() Map {
	if m.undefined {
		return Undefined()
	}
	byText := map[string]Constraint{}
	for _, c := range m.Constraints {
		if v, ok := c.Expr.Const(); ok {
			m.empty = m.empty || !c.Range.Contains(v)
			continue
		}
		if f, ok := single1(c.Expr); ok && f.op == opVar {
			m.restrict(f.name, c.Range)
			continue
		}
		key := c.Expr.String()
		if old, ok := byText[key]; ok {
			c.Range = c.Range.Intersect(old.Range)
		}
		m.empty = m.empty || c.Range.Empty()
		byText[key] = c
	}
	for _, v := range m.variables() {
		m.empty = m.empty || v.Range.Empty()
	}
	m.Constraints = slices.Collect(maps.Values(byText))
	if m.empty {
		m.Constraints = nil
		for _, list := range [][]Variable{m.Dims, m.Ranges, m.Runtime} {
			for i := range list {
				list[i].Range = Range{0, -1}
			}
		}
		for i := range m.Results {
			m.Results[i] = Const(0)
		}
	}
	m.sortConstraints()
	return m
}

func (m Map) sortConstraints() {
	order := m.order()
	slices.SortFunc(m.Constraints, func(a, b Constraint) int {
		return strings.Compare(order.text(a.Expr), order.text(b.Expr))
	})
}

// String is the map in the notation of XLA, which [ParseMap] reads:
//
//	(d0, d1)[s0] -> (d0 * 4 + s0, d1 / 2), domain: d0 in [0, 7], d1 in [0, 3], s0 in [0, 3], d0 + d1 in [0, 8]
//
// A map known to be empty is "KNOWN EMPTY", one of which nothing is known "UNDEFINED".
func (m Map) String() string {
	switch {
	case m.undefined:
		return "UNDEFINED"
	case m.empty:
		return "KNOWN EMPTY"
	}
	var b strings.Builder
	list := func(left string, vars []Variable, right string, always bool) {
		if len(vars) == 0 && !always {
			return
		}
		names := make([]string, len(vars))
		for i, v := range vars {
			names[i] = v.Name
		}
		b.WriteString(left + strings.Join(names, ", ") + right)
	}
	list("(", m.Dims, ")", true)
	list("[", m.Ranges, "]", false)
	list("{", m.Runtime, "}", false)
	order := m.order()
	results := make([]string, len(m.Results))
	for i, e := range m.Results {
		results[i] = order.text(e)
	}
	b.WriteString(" -> (" + strings.Join(results, ", ") + ")")
	var items []string
	for _, v := range m.variables() {
		items = append(items, v.Name+" in "+v.Range.String())
	}
	for _, c := range m.Constraints {
		items = append(items, order.text(c.Expr)+" in "+c.Range.String())
	}
	if len(items) > 0 {
		b.WriteString(", domain: " + strings.Join(items, ", "))
	}
	return b.String()
}

// Equal says whether both maps are written alike, names included.
func (m Map) Equal(n Map) bool { return m.String() == n.String() && len(m.Results) == len(n.Results) }

// Eval is the results at a point, whether or not it lies in the domain. The symbols
// are the range variables and then the runtime variables.
func (m Map) Eval(dims, symbols []int64) ([]int64, error) {
	at, err := m.point(dims, symbols)
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(m.Results))
	for i, e := range m.Results {
		if out[i], err = e.Eval(at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Satisfied says whether a point satisfies the constraints; ranges of the variables
// are not looked at. See [Map.Contains].
func (m Map) Satisfied(dims, symbols []int64) (bool, error) {
	at, err := m.point(dims, symbols)
	if err != nil || m.empty {
		return false, err
	}
	return m.satisfied(at)
}

// Contains says whether a point lies in the domain: within all ranges and constraints.
func (m Map) Contains(dims, symbols []int64) (bool, error) {
	at, err := m.point(dims, symbols)
	if err != nil || m.empty {
		return false, err
	}
	for _, v := range m.variables() {
		if !v.Range.Contains(at[v.Name]) {
			return false, nil
		}
	}
	return m.satisfied(at)
}

func (m Map) satisfied(at map[string]int64) (bool, error) {
	for _, c := range m.Constraints {
		v, err := c.Expr.Eval(at)
		if err != nil || !c.Range.Contains(v) {
			return false, err
		}
	}
	return true, nil
}

func (m Map) point(dims, symbols []int64) (map[string]int64, error) {
	if m.undefined {
		return nil, errors.New("affine: the map is undefined")
	}
	if len(dims) != len(m.Dims) || len(symbols) != len(m.Ranges)+len(m.Runtime) {
		return nil, fmt.Errorf("affine: the map has %d dimensions and %d symbols, not %d and %d",
			len(m.Dims), len(m.Ranges)+len(m.Runtime), len(dims), len(symbols))
	}
	at := map[string]int64{}
	for i, v := range m.variables() {
		if i < len(dims) {
			at[v.Name] = dims[i]
		} else {
			at[v.Name] = symbols[i-len(dims)]
		}
	}
	return at, nil
}

// MaxPoints is the most points that [Map.Each] visits.
const MaxPoints = 1 << 24

// Each visits the points of the domain in row-major order, the last variable
// fastest, with their results. It refuses a box of more than [MaxPoints] points.
func (m Map) Each(visit func(dims, symbols, results []int64) error) error {
	if m.undefined {
		return errors.New("affine: the map is undefined")
	}
	if m.empty {
		return nil
	}
	vars := m.variables()
	points := int64(1)
	for _, v := range vars {
		if v.Range.Empty() {
			return nil
		}
		n, ok := addOK(v.Range.Hi, -v.Range.Lo)
		if ok && n < MaxPoints {
			points, ok = mulOK(points, n+1)
		}
		if !ok || open(v.Range.Lo) || open(v.Range.Hi) || n >= MaxPoints || points > MaxPoints {
			return fmt.Errorf("affine: the domain has more than %d points", MaxPoints)
		}
	}
	at := make([]int64, len(vars))
	for i, v := range vars {
		at[i] = v.Range.Lo
	}
	for {
		dims, symbols := at[:len(m.Dims)], at[len(m.Dims):]
		in, err := m.Contains(dims, symbols)
		if err != nil {
			return err
		}
		if in {
			results, err := m.Eval(dims, symbols)
			if err != nil {
				return err
			}
			if err := visit(dims, symbols, results); err != nil {
				return err
			}
		}
		i := len(vars) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] <= vars[i].Range.Hi {
				break
			}
			at[i] = vars[i].Range.Lo
		}
		if i < 0 {
			return nil
		}
	}
}

// order prints expressions as XLA does: the kinds of summands in the order sum,
// product, remainder, quotient, maximum, minimum, variable, constant; variables as
// they are declared.
type order map[string]int

func (m Map) order() order {
	o := order{}
	for i, v := range m.variables() {
		o[v.Name] = i
	}
	return o
}

type kind uint8

const (
	kindAdd kind = iota
	kindMul
	kindMod
	kindDiv
	kindMax
	kindMin
	kindVar
	kindConst
)

// node is an expression in the shape in which it is printed.
type node struct {
	kind  kind
	name  string
	value int64
	kids  []*node
}

func (o order) tree(e Expr) *node {
	s := e.sum()
	var parts []*node
	for _, t := range s.terms {
		var p *node
		for _, f := range t.factors {
			n := o.atom(f)
			if p != nil {
				n = &node{kind: kindMul, kids: []*node{p, n}}
			}
			p = n
		}
		if t.coef != 1 {
			p = &node{kind: kindMul, kids: []*node{p, {kind: kindConst, value: t.coef}}}
		}
		parts = append(parts, p)
	}
	slices.SortStableFunc(parts, o.compare)
	if s.c != 0 || len(parts) == 0 {
		parts = append(parts, &node{kind: kindConst, value: s.c})
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &node{kind: kindAdd, kids: parts}
}

func (o order) atom(f atom) *node {
	if f.op == opVar {
		return &node{kind: kindVar, name: f.name}
	}
	kinds := map[op]kind{opDiv: kindDiv, opMod: kindMod, opMin: kindMin, opMax: kindMax}
	by := o.tree(f.b)
	if f.op == opMod { // in maps the sign of a divisor does not matter
		x, ok := f.b.magnitudeOf()
		if !ok {
			x = f.b
		}
		if by = o.tree(x); by.minusFirst() {
			by = o.tree(x.MulConst(-1))
		}
	}
	return &node{kind: kinds[f.op], kids: []*node{o.tree(f.a), by}}
}

func (o order) compare(a, b *node) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	switch a.kind {
	case kindVar:
		i, known := o[a.name]
		j, known2 := o[b.name]
		if known && known2 {
			return i - j
		}
		return strings.Compare(a.name, b.name)
	case kindConst:
		switch {
		case a.value < b.value:
			return -1
		case a.value > b.value:
			return 1
		}
		return 0
	}
	return slices.CompareFunc(a.kids, b.kids, o.compare)
}

func (o order) text(e Expr) string {
	if e.Err() != nil {
		return "invalid"
	}
	var b strings.Builder
	o.tree(e).write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	operand := func(k *node, left bool) {
		wrap := k.kind == kindAdd || k.kind == kindMul && k.negated() ||
			(k.kind == kindMul || k.kind == kindDiv || k.kind == kindMod) && !(left && k.kind == n.kind)
		if wrap {
			b.WriteByte('(')
		}
		k.write(b)
		if wrap {
			b.WriteByte(')')
		}
	}
	switch n.kind {
	case kindVar:
		b.WriteString(n.name)
	case kindConst:
		b.WriteString(strconv.FormatInt(n.value, 10))
	case kindAdd:
		for i, k := range n.kids {
			switch {
			case i == 0:
				k.write(b)
			case k.kind == kindConst && k.value < 0:
				b.WriteString(" - " + strings.TrimPrefix(strconv.FormatInt(k.value, 10), "-"))
			case k.negated():
				b.WriteString(" - ")
				k.kids[0].minus(b)
			default:
				b.WriteString(" + ")
				k.write(b)
			}
		}
	case kindMax, kindMin:
		b.WriteString(map[kind]string{kindMax: "max(", kindMin: "min("}[n.kind])
		n.kids[0].write(b)
		b.WriteString(", ")
		n.kids[1].write(b)
		b.WriteByte(')')
	default:
		if n.negated() {
			b.WriteByte('-')
			n.kids[0].minus(b)
			return
		}
		operand(n.kids[0], true)
		b.WriteString(map[kind]string{kindMul: " * ", kindMod: " mod ", kindDiv: " / "}[n.kind])
		operand(n.kids[1], false)
	}
}

// negated says whether the node is another one times -1.
func (n *node) negated() bool {
	return n.kind == kindMul && n.kids[1].kind == kindConst && n.kids[1].value == -1
}

// minusFirst says whether the first number that is written has a minus sign.
func (n *node) minusFirst() bool {
	switch n.kind {
	case kindAdd:
		return n.kids[0].minusFirst()
	case kindMul:
		return n.kids[1].minusFirst()
	}
	return n.kind == kindConst && n.value < 0
}

// minus writes what stands after a minus sign.
func (n *node) minus(b *strings.Builder) {
	if n.kind == kindVar || n.kind == kindMax || n.kind == kindMin {
		n.write(b)
		return
	}
	b.WriteByte('(')
	n.write(b)
	b.WriteByte(')')
}
