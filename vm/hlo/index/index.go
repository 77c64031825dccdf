// Package index says which elements of its operands an element of a result comes
// from, as maps of vm/affine: for single instructions ([OutputToInput],
// [InputToOutput]), and composed through whole computations ([Group]).
//
// The dimensions of a map are positions in the output (d0, d1, …); range
// variables (s0, …) run over all values, as in a reduction; runtime variables
// (rt0, …) stand for whole numbers that the program itself computes, such as the
// start of a dynamic-slice, and each comes with its source.
//
// Source: openxla/xla, xla/hlo/analysis/indexing_analysis.cc.
package index

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Indexing is a map with the sources of its runtime variables: Runtime[i] belongs
// to Map.Runtime[i].
type Indexing struct {
	Map     affine.Map
	Runtime []Runtime
}

// Runtime is where the value of a runtime variable comes from: the element of
// Source at the position that At gives for the dimensions of the map that holds
// the variable, clamped to the range of the variable.
type Runtime struct {
	Source *hlo.Instruction
	At     Indexing
}

// String is the map, followed by the sources of its runtime variables.
func (x Indexing) String() string {
	var b strings.Builder
	b.WriteString(x.Map.String())
	for i, r := range x.Runtime {
		fmt.Fprintf(&b, "; rt%d = %s at %s", i, r.Source.Name, r.At)
	}
	return b.String()
}

// Undefined is the indexing of which nothing is known.
func Undefined() Indexing { return Indexing{Map: affine.Undefined()} }

// expression shorthands
func d(i int) affine.Expr   { return affine.Var(fmt.Sprintf("d%d", i)) }
func s(i int) affine.Expr   { return affine.Var(fmt.Sprintf("s%d", i)) }
func rt(i int) affine.Expr  { return affine.Var(fmt.Sprintf("rt%d", i)) }
func num(v int) affine.Expr { return affine.Const(int64(v)) }

// to is the range [0, n-1].
func to(n int) affine.Range { return affine.Range{Lo: 0, Hi: int64(n) - 1} }

func variables(prefix string, ranges ...affine.Range) []affine.Variable {
	out := make([]affine.Variable, len(ranges))
	for i, r := range ranges {
		out[i] = affine.Variable{Name: fmt.Sprintf("%s%d", prefix, i), Range: r}
	}
	return out
}

func sizes(prefix string, dims []int) []affine.Variable {
	out := make([]affine.Variable, len(dims))
	for i, n := range dims {
		out[i] = affine.Variable{Name: fmt.Sprintf("%s%d", prefix, i), Range: to(n)}
	}
	return out
}

// build makes a map; one that cannot be made is undefined.
func build(dims, ranges, runtime []affine.Variable, results []affine.Expr, constraints ...affine.Constraint) affine.Map {
	m, err := affine.NewMap(dims, ranges, runtime, results, constraints)
	if err != nil {
		return affine.Undefined()
	}
	return m
}

// Identity leads from every position of a tensor to itself.
func Identity(dims []int) affine.Map {
	results := make([]affine.Expr, len(dims))
	for i := range dims {
		results[i] = d(i)
	}
	return build(sizes("d", dims), nil, nil, results)
}

// Nowhere leads from every position to the one element of a scalar.
func Nowhere(dims []int) affine.Map { return build(sizes("d", dims), nil, nil, nil) }

// Permuted leads from a position p in a tensor to the position (p[order[0]], p[order[1]], …).
func Permuted(dims, order []int) affine.Map {
	results := make([]affine.Expr, len(order))
	for i, k := range order {
		results[i] = d(k)
	}
	return build(sizes("d", dims), nil, nil, results)
}

// inverse is the inverse of a permutation.
func inverse(p []int) []int {
	out := make([]int, len(p))
	for i, k := range p {
		out[k] = i
	}
	return out
}

// reversed is the list from its end.
func reversed(v []int) []int {
	out := make([]int, len(v))
	for i, k := range v {
		out[len(v)-1-i] = k
	}
	return out
}

// LogicalToPhysical leads from a position in a tensor to its place in memory as a
// position in [hlo.Shape.Physical].
func LogicalToPhysical(shape hlo.Shape) affine.Map {
	return Permuted(shape.Dims, reversed(shape.MinorToMajor()))
}

// PhysicalToLogical is the inverse of LogicalToPhysical.
func PhysicalToLogical(shape hlo.Shape) affine.Map {
	return Permuted(shape.Physical().Dims, inverse(reversed(shape.MinorToMajor())))
}

// Linear is the offset in elements of the position given by expressions, in a
// row-major tensor.
func Linear(at []affine.Expr, dims []int) affine.Expr {
	sum, stride := num(0), int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		sum = sum.Add(at[i].MulConst(stride))
		stride *= int64(dims[i])
	}
	return sum
}

// Delinear is the position in a row-major tensor of the element at an offset.
func Delinear(offset affine.Expr, dims []int) []affine.Expr {
	out := make([]affine.Expr, len(dims))
	stride := int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		out[i] = offset.FloorDiv(affine.Const(stride))
		if i > 0 {
			out[i] = out[i].Mod(num(dims[i]))
		}
		stride *= int64(dims[i])
	}
	return out
}

// Offset leads from a position in a tensor to the offset of its element in memory,
// in elements.
func Offset(shape hlo.Shape) affine.Map {
	sum := num(0)
	for i, k := range shape.Strides() {
		sum = sum.Add(d(i).MulConst(int64(k)))
	}
	return build(sizes("d", shape.Dims), nil, nil, []affine.Expr{sum})
}

func empty(dims []int) bool {
	for _, n := range dims {
		if n == 0 {
			return true
		}
	}
	return false
}

// Reshaped leads from positions of a tensor of sizes from to those of one of sizes
// into with as many elements, both in row-major order. Dimensions are taken in the
// smallest groups that hold as many elements on both sides.
func Reshaped(from, into []int) affine.Map {
	results := make([]affine.Expr, 0, len(into))
	if empty(from) || empty(into) {
		for range into {
			results = append(results, num(0))
		}
		return build(append(sizes("d", from), affine.Variable{Name: "none", Range: affine.Range{Lo: 0, Hi: -1}}), nil, nil, results)
	}
	i, o := 0, 0 // next dimension of into and of from
	for i < len(into) || o < len(from) {
		var in, out []int
		var at []affine.Expr
		nIn, nOut := 1, 1
		for {
			if i < len(into) && (len(in) == 0 || nIn < nOut || into[i] == 1) {
				in, nIn, i = append(in, into[i]), nIn*into[i], i+1
				continue
			}
			if o < len(from) && (len(out) == 0 || nOut < nIn || from[o] == 1) {
				out, at, nOut, o = append(out, from[o]), append(at, d(o)), nOut*from[o], o+1
				continue
			}
			break
		}
		switch {
		case len(in) == 0:
		case equal(in, out):
			results = append(results, at...)
		case len(in) == 1:
			results = append(results, Linear(at, out))
		default:
			results = append(results, Delinear(Linear(at, out), in)...)
		}
	}
	m, _ := build(sizes("d", from), nil, nil, results).Simplify(true)
	return m
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Bitcast leads from positions of one shape to those of another that has the same
// bytes in memory: only a permutation where the sizes in memory agree, else through
// the order of the bytes.
func Bitcast(from, into hlo.Shape) affine.Map {
	if empty(from.Dims) || empty(into.Dims) {
		return Reshaped(from.Dims, into.Dims)
	}
	if equal(from.Physical().Dims, into.Physical().Dims) {
		a, b := reversed(from.MinorToMajor()), reversed(into.MinorToMajor())
		order := make([]int, len(a))
		for k := range a {
			order[b[k]] = a[k]
		}
		return Permuted(from.Dims, order)
	}
	if from.RowMajor() && into.RowMajor() {
		return Reshaped(from.Dims, into.Dims)
	}
	m := compose(LogicalToPhysical(from), Reshaped(from.Physical().Dims, into.Physical().Dims))
	m = compose(m, PhysicalToLogical(into))
	m, _ = m.Simplify(true)
	return m
}

// compose is second after first, not simplified.
func compose(first, second affine.Map) affine.Map {
	m, err := affine.Compose(first, second)
	if err != nil {
		return affine.Undefined()
	}
	return m
}

// Compose is second after first, simplified, without symbols that nothing needs;
// runtime variables that are known to be constants or coordinates are replaced.
func Compose(first, second Indexing) Indexing {
	x := Indexing{Map: compose(first.Map, second.Map)}
	for _, r := range second.Runtime {
		x.Runtime = append(x.Runtime, Runtime{r.Source, Compose(first, r.At)})
	}
	x.Runtime = append(x.Runtime, first.Runtime...)
	return x.Simplify()
}

// Simplify is the same indexing with a simpler map.
func (x Indexing) Simplify() Indexing {
	for {
		m, _ := x.Map.Simplify(false)
		x = Indexing{m, x.Runtime}.dropUnused()
		folded, ok := x.fold()
		if !ok {
			return x
		}
		x = folded
	}
}

// dropUnused removes symbols that nothing needs, and the sources of those that go.
func (x Indexing) dropUnused() Indexing {
	m := x.Map
	if m.Undefined() || m.KnownEmpty() {
		return Indexing{Map: m}
	}
	if len(m.Runtime) == 0 {
		return Indexing{Map: m.RemoveUnusedSymbols()}
	}
	// Names that are not numbered stay as they are, and so tell which remain.
	named := make([]affine.Variable, len(m.Runtime))
	to, back := map[string]affine.Expr{}, map[string]int{}
	for i, v := range m.Runtime {
		named[i] = affine.Variable{Name: fmt.Sprintf("runtime_%d_", i), Range: v.Range}
		to[v.Name] = affine.Var(named[i].Name)
		back[named[i].Name] = i
	}
	m = substitute(m, m.Dims, m.Ranges, named, to).RemoveUnusedSymbols()
	var kept []affine.Variable
	var sources []Runtime
	to = map[string]affine.Expr{}
	for i, v := range m.Runtime {
		kept = append(kept, affine.Variable{Name: fmt.Sprintf("rt%d", i), Range: v.Range})
		to[v.Name] = rt(i)
		sources = append(sources, x.Runtime[back[v.Name]])
	}
	return Indexing{substitute(m, m.Dims, m.Ranges, kept, to), sources}
}

// substitute is the map with other variables, where values replaces the old ones.
func substitute(m affine.Map, dims, ranges, runtime []affine.Variable, values map[string]affine.Expr) affine.Map {
	results := make([]affine.Expr, len(m.Results))
	for i, e := range m.Results {
		results[i] = e.Subst(values)
	}
	constraints := make([]affine.Constraint, len(m.Constraints))
	for i, c := range m.Constraints {
		constraints[i] = affine.Constraint{Expr: c.Expr.Subst(values), Range: c.Range}
	}
	return build(dims, ranges, runtime, results, constraints...)
}

// Unclamped is the indexing with starts that an iota gives taken for what they are, also
// where they are out of range. XLA writes it so; what a program reads is the element that
// the clamped start leads to, which x says.
func (x Indexing) Unclamped() Indexing {
	for again := true; again && !x.Map.KnownEmpty() && !x.Map.Undefined(); {
		again = false
		for i, v := range x.Map.Runtime {
			if e, iota, _ := x.Runtime[i].known(v.Range); iota {
				m := substitute(x.Map, x.Map.Dims, x.Map.Ranges, x.Map.Runtime, map[string]affine.Expr{v.Name: e})
				x, again = Indexing{m, x.Runtime}.dropUnused(), true
				break
			}
		}
	}
	return x
}

// fold replaces one runtime variable whose value is known, and says whether it did.
func (x Indexing) fold() (Indexing, bool) {
	if x.Map.KnownEmpty() || x.Map.Undefined() {
		return x, false
	}
	for i, v := range x.Map.Runtime {
		e, _, ok := x.Runtime[i].known(v.Range)
		if !ok {
			continue
		}
		// The variable stays, unused, and goes with the next dropUnused.
		m := substitute(x.Map, x.Map.Dims, x.Map.Ranges, x.Map.Runtime, map[string]affine.Expr{v.Name: e})
		if m.KnownEmpty() || m.Undefined() {
			return Indexing{Map: m}, true
		}
		return Indexing{m, x.Runtime}.dropUnused(), true
	}
	return x, false
}

// known is the value of a runtime variable where its source is a constant or an
// iota, seen through operations that only move elements. A value out of range is
// clamped when the program runs, so it is not taken.
func (r Runtime) known(within affine.Range) (e affine.Expr, iota, ok bool) {
	in, at := r.Source, r.At
	for in.Op == hlo.Bitcast || in.Op == hlo.Reshape || in.Op == hlo.Broadcast {
		at = Compose(at, operand(in, 0, 0))
		in = in.Operands[0]
	}
	m := at.Map
	if m.Undefined() || m.KnownEmpty() || len(m.Runtime) > 0 {
		return affine.Expr{}, false, false
	}
	switch in.Op {
	case hlo.Constant:
		if in.Value == nil || !in.Shape.Type.IsInt() {
			return affine.Expr{}, false, false
		}
		place := 0
		for i, e := range m.Results {
			v, ok := e.Const()
			if !ok {
				return affine.Expr{}, false, false
			}
			place = place*in.Shape.Dims[i] + int(v)
		}
		v := in.Shape.Type.Elem().DecodeInt(in.Value.Code(place))
		return affine.Const(v), false, within.Contains(v)
	case hlo.Iota:
		e = m.Results[in.Number]
		bounds := map[string]affine.Range{}
		for _, v := range m.Dims {
			bounds[v.Name] = v.Range
		}
		// A range variable of the place is not the map's of that name.
		if slices.ContainsFunc(e.Vars(), func(name string) bool { _, dim := bounds[name]; return !dim }) {
			return affine.Expr{}, false, false
		}
		return e, true, e.Range(bounds).Within(within)
	}
	return affine.Expr{}, false, false
}
