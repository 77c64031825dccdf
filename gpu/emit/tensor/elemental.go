package tensor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/emit/lanes"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// Lane is the variable that numbers the elements of a [lanes.Vec].
const Lane = "v"

const lane = Lane

// MaxCode is the most instructions of a kernel; what would be longer is refused.
const MaxCode = 20000

// Crowded is the number of instructions visited from which on elements are computed
// wherever they exist, not only where they are wanted: then no instruction is emitted twice
// for one index, whatever ways lead to it. Up to there code reads nothing that it does not
// need; beyond, paddings of paddings would take as many reads as there are ways.
const Crowded = 300

// where is what must hold for an element to be read: every expression lies in its range.
type where []affine.Constraint

func (w where) String() string {
	var b strings.Builder
	for _, c := range w {
		fmt.Fprintf(&b, ";%s in %s", c.Expr, c.Range)
	}
	return b.String()
}

// with adds a constraint: to one on an expression that differs by a constant, where there
// is one, so that constraints depend on the place they are about and not on the way there.
func (w where) with(c affine.Constraint) where {
	for i, o := range w {
		k, ok := o.Expr.Sub(c.Expr).Const()
		if !ok {
			continue
		}
		r := affine.Range{Lo: c.Range.Lo + k, Hi: c.Range.Hi + k}
		if o.Range.Within(r) {
			return w
		}
		w = slices.Clone(w)
		w[i].Range = o.Range.Intersect(r)
		return w
	}
	w = append(slices.Clone(w), c)
	if len(w) > 1 {
		slices.SortFunc(w, func(x, y affine.Constraint) int { return strings.Compare(x.Expr.String(), y.Expr.String()) })
	}
	return w
}

// elemental computes elements of instructions at indices in thread code. Equal elements
// are computed once: what a part of the fusion is at an index is kept as long as it is in
// scope, so that code grows with the places at which instructions are read, not with the
// ways that lead there.
type elemental struct {
	lanes.Scalars
	vars   map[string]code.Value // b32, by the names that indices use
	ranges map[string]affine.Range
	leaves map[*hlo.Instruction]*Tensor // what stands in memory
	given  map[*hlo.Instruction]given   // what is in registers already
	addr   map[*Tensor]code.Value
	scope  *scope
	fresh  int
	work   int    // instructions visited
	wide   string // an index that is no number of 32 bits but would have to be one
	hints  Hints
	simple map[simplified]affine.Expr
	washed map[*hlo.Instruction]bool
	once   map[*hlo.Instruction]bool
	beside bool // neighbouring elements are computed one by one
}

// given is the value of an instruction at the index that belongs to this thread.
type given struct {
	value []lanes.Vec // by outputs
	index []affine.Expr
}

// ErrElsewhere says that a fusion needs a value where the kernel does not have it.
var ErrElsewhere = errors.New("a reduction is read elsewhere than where this thread has it")

// scope is what has been computed in a region of code.
type scope struct {
	elems   map[string][]lanes.Vec
	ints    map[string]code.Value
	preds   map[string]code.Value
	starts  map[string]string // names of runtime variables
	outside *scope
}

func newScope(outside *scope) *scope {
	return &scope{map[string][]lanes.Vec{}, map[string]code.Value{}, map[string]code.Value{}, map[string]string{}, outside}
}

func newElemental(b *code.Builder) *elemental {
	return &elemental{Scalars: lanes.Scalars{Thread: thread.New(b, 0), Halves: lanes.Halves{}}, vars: map[string]code.Value{}, ranges: map[string]affine.Range{},
		leaves: map[*hlo.Instruction]*Tensor{}, given: map[*hlo.Instruction]given{}, addr: map[*Tensor]code.Value{}, scope: newScope(nil), simple: map[simplified]affine.Expr{}}
}

// inside runs f in a scope of its own: what it computes is forgotten after.
func (e *elemental) inside(f func()) {
	end := e.Scope()
	e.scope = newScope(e.scope)
	f()
	e.scope = e.scope.outside
	end()
}

// simplify simplifies once what only a constant tells apart.
func (e *elemental) simplify(x affine.Expr) affine.Expr {
	constant, terms := x.Terms()
	if len(terms) == 0 {
		return x
	}
	if constant != 0 {
		x = x.AddConst(-constant)
	}
	text := x.String()
	key := simplified{text, e.ranges[lane].Hi}
	y, ok := e.simple[key]
	if !ok {
		y = x.Simplify(e.ranges)
		e.simple[key] = y
		if key.text = y.String(); key.text != text {
			e.simple[key] = y
		}
	}
	if constant != 0 {
		y = y.AddConst(constant)
	}
	return y
}

// simplified is an expression where the range of the lane variable is known; others do not
// change.
type simplified struct {
	text  string
	lanes int64
}

// Uses says whether a variable stands in an expression.
func Uses(x affine.Expr, name string) bool { return slices.Contains(x.Vars(), name) }

func (w where) uses(name string) bool {
	return slices.ContainsFunc(w, func(c affine.Constraint) bool { return Uses(c.Expr, name) })
}

func usesAny(idx []affine.Expr, name string) bool {
	return slices.ContainsFunc(idx, func(x affine.Expr) bool { return Uses(x, name) })
}

// at replaces a variable.
func (e *elemental) at(idx []affine.Expr, name string, by affine.Expr) []affine.Expr {
	out := make([]affine.Expr, len(idx))
	for i, x := range idx {
		out[i] = e.simplify(x.Subst(map[string]affine.Expr{name: by}))
	}
	return out
}

func (e *elemental) whereAt(w where, name string, by affine.Expr) where {
	var out where
	for _, c := range w {
		out = out.with(affine.Constraint{Expr: e.simplify(c.Expr.Subst(map[string]affine.Expr{name: by})), Range: c.Range})
	}
	return out
}

// variable binds a name to a number in a range.
func (e *elemental) variable(name string, v code.Value, r affine.Range) affine.Expr {
	e.vars[name], e.ranges[name] = v, r
	return affine.Var(name)
}

func (e *elemental) name(prefix string) string {
	e.fresh++
	return prefix + strconv.Itoa(e.fresh)
}

// integer is an index as a b32. Divisions are of numbers that are not negative: others
// are moved up by a multiple of the divisor first.
func (e *elemental) integer(x affine.Expr) code.Value {
	if c, ok := x.Const(); ok {
		return e.K(c)
	}
	key := x.String()
	for s := e.scope; s != nil; s = s.outside {
		if v, ok := s.ints[key]; ok {
			return v
		}
	}
	if r := x.Range(e.ranges); !fits(r) && r.Lo != math.MinInt64 && r.Hi != math.MaxInt64 {
		e.wide = key
	}
	constant, terms := x.Terms()
	var sum code.Value
	for _, t := range terms {
		var v code.Value
		for _, f := range t.Factors {
			w := e.factor(f)
			if v == 0 {
				v = w
			} else {
				v = e.Mul32(v, w)
			}
		}
		switch {
		case t.Coef == -1 && sum != 0:
			sum = e.Sub32(sum, v)
			continue
		case t.Coef != 1:
			v = e.Mul32(v, e.K(t.Coef))
		}
		sum = e.Plus(sum, v)
	}
	if constant != 0 {
		sum = e.Plus(sum, e.K(constant))
	}
	e.scope.ints[key] = sum
	return sum
}

func (e *elemental) factor(f affine.Factor) code.Value {
	switch f.Op {
	case "var":
		v, ok := e.vars[f.Name]
		if !ok {
			panic("emit: the variable " + f.Name + " has no value")
		}
		return v
	case "min":
		return e.Op(code.OpMinS32, nil, e.integer(f.A), e.integer(f.B))
	case "max":
		return e.Op(code.OpMaxS32, nil, e.integer(f.A), e.integer(f.B))
	}
	d, ok := f.B.Const()
	if !ok || d <= 0 {
		panic("emit: an index is divided by " + f.B.String())
	}
	a, up := f.A, int64(0)
	if lo := a.Range(e.ranges).Lo; lo < 0 {
		up = (-lo + d - 1) / d
		if lo == math.MinInt64 {
			up = (1 << 30) / d
		}
	}
	v := e.integer(a)
	if up > 0 {
		v = e.Plus(v, e.K(up*d))
	}
	if f.Op == "mod" {
		return e.RemainderU32(v, d)
	}
	v = e.DivideU32(v, d)
	if up > 0 {
		v = e.Plus(v, e.K(-up))
	}
	return v
}

// holds is the predicate of constraints; 0 where there are none. never says that they
// cannot hold.
func (e *elemental) holds(w where) (p code.Value, never bool) {
	for _, c := range w {
		r := c.Expr.Range(e.ranges)
		if r.Within(c.Range) {
			continue
		}
		if r.Intersect(c.Range).Empty() {
			return 0, true
		}
		key := c.Expr.String() + c.Range.String()
		var q code.Value
		for s := e.scope; s != nil && q == 0; s = s.outside {
			q = s.preds[key]
		}
		if q == 0 {
			v := e.integer(c.Expr)
			switch {
			case c.Range.Lo == c.Range.Hi:
				q = e.SetpS32(code.EQ, v, e.K(c.Range.Lo))
			case r.Lo >= 0 && c.Range.Lo == 0 || r.Lo >= c.Range.Lo:
				q = e.SetpS32(code.LE, v, e.K(c.Range.Hi))
			case r.Hi <= c.Range.Hi:
				q = e.SetpS32(code.GE, v, e.K(c.Range.Lo))
			default: // one unsigned comparison for both ends
				q = e.SetpU32(code.LE, e.Plus(v, e.K(-c.Range.Lo)), e.K(c.Range.Hi-c.Range.Lo))
			}
			e.scope.preds[key] = q
		}
		p = e.Both(p, q)
	}
	return p, false
}

// value is n elements of an instruction's first output.
func (e *elemental) value(in *hlo.Instruction, idx []affine.Expr, w where, n int) (lanes.Vec, error) {
	all, err := e.values(in, idx, w, n)
	if err != nil {
		return lanes.Vec{}, err
	}
	return all[0], nil
}

// values are n elements of every output of an instruction: those at the index with the
// lane variable 0 to n-1. Where the constraints do not hold, they may be anything, but
// nothing is read outside its tensor.
func (e *elemental) values(in *hlo.Instruction, idx []affine.Expr, w where, n int) ([]lanes.Vec, error) {
	if in.Op == hlo.GetTupleElement {
		all, err := e.values(in.Operands[0], idx, w, n)
		if err != nil {
			return nil, err
		}
		return all[in.Number : in.Number+1], nil
	}
	if g, ok := e.given[in]; ok {
		for i, x := range idx {
			if !e.simplify(x).Equal(g.index[i]) {
				return nil, fmt.Errorf("%s: %w: at %s, not at %s", in.Name, ErrElsewhere, list(idx), list(g.index))
			}
		}
		out := make([]lanes.Vec, len(g.value))
		for i, v := range g.value {
			out[i] = e.Splat(v, n)
		}
		return out, nil
	}
	if n > 1 && !usesAny(idx, lane) && !w.uses(lane) {
		all, err := e.values(in, idx, w, 1)
		out := make([]lanes.Vec, len(all))
		for i, v := range all {
			out[i] = e.Splat(v, n)
		}
		return out, err
	}
	if e.work > Crowded {
		w = e.bounds(in, idx, w)
	}
	w = e.relevant(w, n)
	if n > 1 && w.uses(lane) {
		return e.oneByOne(in, idx, w, n)
	}
	key := strconv.Itoa(in.Index) + in.Name + fmt.Sprint(n, idx, w)
	for s := e.scope; s != nil; s = s.outside {
		if v, ok := s.elems[key]; ok {
			return v, nil
		}
	}
	if e.work++; e.work > MaxCode {
		return nil, fmt.Errorf("%s: the fusion needs more than %d elements per thread", in.Pos, MaxCode)
	}
	outer := e.Pos()
	if in.Pos.Line > 0 {
		e.At(in.Pos)
	}
	out, err := e.compute(in, idx, w, n)
	e.At(outer)
	if err != nil {
		return nil, err
	}
	e.scope.elems[key] = out
	return out, nil
}

// bounds is that an index lies in the result of an instruction, which is all that must hold
// for its element to be computed; otherwise where that would be a question of 64 bits.
func (e *elemental) bounds(in *hlo.Instruction, idx []affine.Expr, otherwise where) where {
	dims := in.Shape.Dims
	if in.Shape.IsTuple() {
		dims = in.Shape.Elems[0].Dims
	}
	var w where
	for i, x := range idx {
		if !fits(x.Range(e.ranges)) {
			return otherwise
		}
		w = e.need(w, x, affine.Range{Lo: 0, Hi: int64(dims[i]) - 1})
	}
	return w
}

// relevant drops constraints that always hold, and states those on aligned groups of lanes
// once for the group.
func (e *elemental) relevant(w where, n int) where {
	var out where
	for _, c := range w {
		c.Expr = e.simplify(c.Expr)
		if c.Expr.Range(e.ranges).Within(c.Range) {
			continue
		}
		if n > 1 && Uses(c.Expr, lane) {
			base := e.simplify(c.Expr.Subst(map[string]affine.Expr{lane: affine.Const(0)}))
			step := e.simplify(c.Expr.Sub(base))
			m := int64(n)
			if step.Equal(affine.Var(lane)) && base.Divisor(nil)%m == 0 && c.Range.Lo%m == 0 && (c.Range.Hi+1)%m == 0 {
				c = affine.Constraint{Expr: base, Range: affine.Range{Lo: c.Range.Lo, Hi: c.Range.Hi + 1 - m}}
			}
		}
		out = out.with(c)
	}
	return out
}

// oneByOne computes the lanes one after the other.
func (e *elemental) oneByOne(in *hlo.Instruction, idx []affine.Expr, w where, n int) ([]lanes.Vec, error) {
	var parts [][]lanes.Vec
	outer := e.beside
	e.beside = true
	defer func() { e.beside = outer }()
	for k := range n {
		by := affine.Const(int64(k))
		v, err := e.values(in, e.at(idx, lane, by), e.whereAt(w, lane, by), 1)
		if err != nil {
			return nil, err
		}
		parts = append(parts, v)
	}
	out := make([]lanes.Vec, len(parts[0]))
	for i := range out {
		var column []lanes.Vec
		for _, p := range parts {
			column = append(column, p[i])
		}
		out[i] = e.Pack(column[0].Type, column)
	}
	return out, nil
}

func (e *elemental) compute(in *hlo.Instruction, idx []affine.Expr, w where, n int) ([]lanes.Vec, error) {
	if t := e.leaves[in]; t != nil {
		v, err := e.load(t, idx, w, n)
		return []lanes.Vec{v}, err
	}
	one := func(v lanes.Vec, err error) ([]lanes.Vec, error) { return []lanes.Vec{v}, err }
	switch {
	case in.Op.Elementwise():
		var x []lanes.Vec
		for _, o := range in.Operands {
			at := idx
			if len(o.Shape.Dims) == 0 {
				at = nil
			}
			v, err := e.value(o, at, w, n)
			if err != nil {
				return nil, err
			}
			x = append(x, v)
		}
		if in.Op == hlo.Divide && in.Shape.Type == hlo.F32 && n > 1 && e.ofSum(in.Operands[1]) && slices.Equal(x[1].Words, slices.Repeat(x[1].Words[:1], n)) {
			return []lanes.Vec{e.scaled(x[0], x[1].Words[0])}, nil
		}
		if e.washed[in] && x[0].Type == hlo.BF16 && in.Shape.Type == hlo.F32 {
			return one(e.Widen(x[0], false), nil)
		}
		return one(e.Elementwise(in, x))
	case in.Op == hlo.Constant:
		if in.Value == nil || in.Shape.Type.Elem() == 0 {
			return nil, fmt.Errorf("%s: the value of %s is not known", in.Pos, in.Name)
		}
		return one(e.Constant(in.Shape.Type, in.Value.Code(0), n), nil)
	case in.Op == hlo.Iota:
		if usesAny(idx, lane) && n > 1 {
			return e.oneByOne(in, idx, w, n)
		}
		v := lanes.Vec{Type: hlo.S32, N: 1, Words: []code.Value{e.integer(idx[in.Number])}}
		return one(e.Convert(in.Shape.Type, v), nil)
	case in.Op == hlo.Reduce:
		return e.reduce(in, idx, w, n)
	case in.Op == hlo.ReduceWindow:
		return e.reduce(in, idx, w, n)
	case in.Op == hlo.Dot:
		return one(e.dot(in, idx, w, n))
	case in.Op == hlo.DynamicUpdateSlice:
		return e.update(in, idx, w, n)
	case in.Op == hlo.Gather:
		return e.gather(in, idx, w, n)
	case in.Op == hlo.Scatter:
		return e.collect(in, idx, w, n)
	case in.Op == hlo.Pad || in.Op == hlo.Concatenate:
		return e.parts(in, idx, w, n)
	}
	maps := index.OutputToInput(in, 0)
	if len(maps) == 0 || len(maps[0]) != 1 || maps[0][0].Map.Undefined() {
		return nil, fmt.Errorf("%s: %s has no thread code", in.Pos, in.Op)
	}
	at, extra, scalar, err := e.follow(maps[0][0], idx, w, n)
	if err != nil {
		return nil, err
	}
	if scalar {
		return e.oneByOne(in, idx, w, n)
	}
	for _, c := range extra {
		w = w.with(c)
	}
	return one(e.value(in.Operands[0], at, w, n))
}

// ofSum says whether a value depends on a sum of floats that threads share, whose bits
// depend on their number anyway.
func (e *elemental) ofSum(in *hlo.Instruction) bool {
	if _, ok := e.given[in]; ok && in.Op == hlo.Reduce {
		op, simple := Combiner(in.Apply)
		return simple && op == hlo.Add && in.Shape.Type.IsFloat()
	}
	return e.leaves[in] == nil && slices.ContainsFunc(in.Operands, e.ofSum)
}

// scaled divides elements by one number: by its reciprocal, within 1.5 units of the last
// place, or 2.5 by the machine's, beside exponentials by the machine. Where it would be no
// normal number, a power of two goes both ways.
func (e *elemental) scaled(x lanes.Vec, by code.Value) lanes.Vec {
	key := fmt.Sprint("reciprocal", by)
	var r, power code.Value
	for s := e.scope; s != nil && r == 0; s = s.outside {
		r, power = s.ints[key], s.ints["power"+key]
	}
	if r == 0 {
		magnitude := e.Op(code.OpAnd32, nil, by, e.K(0x7fffffff))
		power = e.Op(code.OpSelp32, nil, e.K(0x1f800000), e.K(0x3f800000), e.SetpU32(code.GT, magnitude, e.K(0x7e800000))) // 2^-64 or 1
		power = e.Op(code.OpSelp32, nil, e.K(0x5f800000), power, e.SetpU32(code.LT, magnitude, e.K(0x00800000)))           // 2^64
		if by = e.Op(code.OpMulF32, nil, by, power); e.Exponential != lanes.Steps {
			r = e.Op(code.OpRcpApproxF32, nil, by)
		} else {
			r = e.Op(code.OpDivF32, nil, e.K(0x3f800000), by)
		}
		e.scope.ints[key], e.scope.ints["power"+key] = r, power
	}
	out := lanes.Vec{Type: x.Type, N: x.N}
	for _, w := range x.Words {
		out.Words = append(out.Words, e.Op(code.OpMulF32, nil, e.Op(code.OpMulF32, nil, w, r), power))
	}
	return out
}

// follow is the index that an indexing map gives, with the constraints that are not known
// to hold. scalar says that lanes have to go one by one, since each starts elsewhere.
func (e *elemental) follow(x index.Indexing, idx []affine.Expr, w where, n int) (at []affine.Expr, extra where, scalar bool, err error) {
	values := map[string]affine.Expr{}
	for i, d := range x.Map.Dims {
		values[d.Name] = idx[i]
	}
	for i, r := range x.Map.Runtime {
		source, when, _, err := e.follow(x.Runtime[i].At, idx, w, n)
		if err != nil {
			return nil, nil, false, err
		}
		if n > 1 && usesAny(source, lane) {
			return nil, nil, true, nil
		}
		if n > 1 && x.Runtime[i].Source.Op != hlo.Constant && when.uses(lane) { // what is read, is read for all lanes
			if when = e.relevant(when, n); when.uses(lane) {
				return nil, nil, true, nil
			}
		}
		v, err := e.start(x.Runtime[i].Source, source, append(slices.Clone(w), when...), r.Range)
		if err != nil {
			return nil, nil, false, err
		}
		values[r.Name] = v
	}
	for _, d := range x.Map.Dims {
		extra = e.need(extra, values[d.Name], d.Range)
	}
	for _, c := range x.Map.Constraints {
		extra = e.need(extra, e.simplify(c.Expr.Subst(values)), c.Range)
	}
	for _, r := range x.Map.Results {
		at = append(at, e.simplify(r.Subst(values)))
	}
	return at, extra, false, nil
}

// need adds a constraint unless ranges decide that it holds.
func (e *elemental) need(w where, x affine.Expr, r affine.Range) where {
	if x.Range(e.ranges).Within(r) {
		return w
	}
	return w.with(affine.Constraint{Expr: x, Range: r})
}

// start is a whole number that the fusion computes, clamped to a range, as a variable.
func (e *elemental) start(in *hlo.Instruction, idx []affine.Expr, w where, r affine.Range) (affine.Expr, error) {
	if r.Lo == r.Hi {
		return affine.Const(r.Lo), nil
	}
	key := in.Name + fmt.Sprint(idx, w, r)
	for s := e.scope; s != nil; s = s.outside {
		if name, ok := s.starts[key]; ok {
			return affine.Var(name), nil
		}
	}
	v, err := e.value(in, idx, w, 1)
	if err != nil {
		return affine.Expr{}, err
	}
	name := e.name("rt")
	e.scope.starts[key] = name
	return e.variable(name, e.clamp(v, r), r), nil
}

// clamp is a whole number in a range as a b32.
func (e *elemental) clamp(x lanes.Vec, r affine.Range) code.Value {
	if !x.Type.Signed() {
		r.Lo = max(r.Lo, 0)
	}
	switch {
	case x.Type == hlo.U64:
		v := e.Reg(x)
		v = e.Op(code.OpMinU64, nil, v, e.Const64(r.Hi))
		return e.Op(code.OpTrunc32, nil, e.Op(code.OpMaxU64, nil, v, e.Const64(r.Lo)))
	case x.Type == hlo.S64:
		v := e.Reg(x)
		v = e.Op(code.OpMinS64, nil, v, e.Const64(r.Hi))
		return e.Op(code.OpTrunc32, nil, e.Op(code.OpMaxS64, nil, v, e.Const64(r.Lo)))
	case !x.Type.Signed():
		v := e.Op(code.OpMinU32, nil, e.Word(x), e.K(r.Hi))
		return e.Op(code.OpMaxU32, nil, v, e.K(r.Lo))
	}
	v := e.Op(code.OpMinS32, nil, e.Word(x), e.K(r.Hi))
	return e.Op(code.OpMaxS32, nil, v, e.K(r.Lo))
}

// parts is an instruction that takes its element from the operand whose part of the result
// the index lies in: pad and concatenate.
func (e *elemental) parts(in *hlo.Instruction, idx []affine.Expr, w where, n int) ([]lanes.Vec, error) {
	var out lanes.Vec
	maps := index.OutputToInput(in, 0)
	order := make([]int, len(in.Operands))
	for i := range order {
		order[i] = i
	}
	if in.Op == hlo.Pad {
		order = []int{1, 0}
	}
	for _, k := range order {
		x := maps[k][0]
		if x.Map.KnownEmpty() {
			continue
		}
		at, extra, _, err := e.follow(x, idx, w, n)
		if err != nil {
			return nil, err
		}
		extra = e.relevant(extra, n)
		if n > 1 && extra.uses(lane) {
			return e.oneByOne(in, idx, w, n)
		}
		p, never := e.holds(extra)
		if never {
			continue
		}
		inside := w
		for _, c := range extra {
			inside = inside.with(c)
		}
		if out.Words != nil && p != 0 {
			if v, ok := e.over(in.Operands[k], at, inside, n, out); ok {
				out = v
				continue
			}
		}
		v, err := e.value(in.Operands[k], at, inside, n)
		if err != nil {
			return nil, err
		}
		if out.Words == nil || p == 0 {
			out = v
		} else {
			out = e.Pick(p, v, out)
		}
	}
	if out.Words == nil {
		out = e.Constant(in.Shape.Type, 0, n)
	}
	return []lanes.Vec{out}, nil
}

// update is an element of a tensor with a box replaced.
func (e *elemental) update(in *hlo.Instruction, idx []affine.Expr, w where, n int) ([]lanes.Vec, error) {
	maps := index.OutputToInput(in, 0)
	at, extra, scalar, err := e.follow(maps[1][0], idx, w, n)
	if err != nil {
		return nil, err
	}
	box := in.Operands[1].Shape.Dims
	for i, x := range at {
		extra = e.need(extra, x, affine.Range{Lo: 0, Hi: int64(box[i]) - 1})
	}
	extra = e.relevant(extra, n)
	if scalar || n > 1 && extra.uses(lane) {
		return e.oneByOne(in, idx, w, n)
	}
	p, never := e.holds(extra)
	old, err := e.value(in.Operands[0], idx, w, n)
	if err != nil || never {
		return []lanes.Vec{old}, err
	}
	inside := w
	for _, c := range extra {
		inside = inside.with(c)
	}
	v, err := e.value(in.Operands[1], at, inside, n)
	if err != nil {
		return nil, err
	}
	if p != 0 {
		v = e.Pick(p, v, old)
	}
	return []lanes.Vec{v}, nil
}

// gather is an element of a box that begins where a row of the second operand says.
func (e *elemental) gather(in *hlo.Instruction, idx []affine.Expr, w where, n int) ([]lanes.Vec, error) {
	g, source, rows := in.Gather, in.Operands[0].Shape.Dims, in.Operands[1].Shape.Dims
	var batch []affine.Expr
	for i := range in.Shape.Dims {
		if !slices.Contains(g.Offset, i) {
			batch = append(batch, idx[i])
		}
	}
	if n > 1 && usesAny(batch, lane) {
		return e.oneByOne(in, idx, w, n)
	}
	place := func(part int) []affine.Expr { // of one number in the rows
		var at []affine.Expr
		next := 0
		for i := range rows {
			if i == g.IndexVector {
				at = append(at, affine.Const(int64(part)))
			} else {
				at = append(at, batch[next])
				next++
			}
		}
		return at
	}
	at := make([]affine.Expr, len(source))
	offset := 0
	for i := range source {
		if slices.Contains(g.Collapsed, i) || slices.Contains(g.OperandBatch, i) {
			at[i] = affine.Const(0)
		} else {
			at[i] = idx[g.Offset[offset]]
			offset++
		}
		if k := slices.Index(g.OperandBatch, i); k >= 0 {
			d := g.IndexBatch[k]
			if d > g.IndexVector {
				d--
			}
			at[i] = batch[d]
		}
		if k := slices.Index(g.StartMap, i); k >= 0 {
			s, err := e.start(in.Operands[1], place(k), w, affine.Range{Hi: int64(source[i] - in.Sizes[i])})
			if err != nil {
				return nil, err
			}
			at[i] = e.simplify(at[i].Add(s))
		}
	}
	v, err := e.value(in.Operands[0], at, w, n)
	return []lanes.Vec{v}, err
}

// loopOver runs body for all values of range variables, the last one fastest, with carried
// words.
func (e *elemental) loopOver(vars []affine.Variable, carried []code.Value, body func(values map[string]affine.Expr, carried []code.Value) ([]code.Value, error)) ([]code.Value, error) {
	var fail error
	var nest func(k int, values map[string]affine.Expr, carried []code.Value) []code.Value
	nest = func(k int, values map[string]affine.Expr, carried []code.Value) []code.Value {
		if fail != nil {
			return carried
		}
		if k == len(vars) {
			out, err := body(values, carried)
			if err != nil {
				fail = err
				return carried
			}
			return out
		}
		v := vars[k]
		trips := v.Range.Hi - v.Range.Lo + 1
		if trips <= 4 {
			for i := v.Range.Lo; i <= v.Range.Hi; i++ {
				values[v.Name] = affine.Const(i)
				carried = nest(k+1, values, carried)
			}
			return carried
		}
		return e.For(e.K(v.Range.Lo), e.K(v.Range.Hi+1), e.K(1), 1, carried, func(i code.Value, c []code.Value) []code.Value {
			var out []code.Value
			e.inside(func() {
				name := e.name("r")
				values[v.Name] = e.variable(name, i, v.Range)
				out = nest(k+1, values, c)
			})
			return out
		})
	}
	out := nest(0, map[string]affine.Expr{}, carried)
	return out, fail
}

// unpacked are the words of several vecs, predicates as words, and back.
func (e *elemental) flat(vs []lanes.Vec) []code.Value {
	var out []code.Value
	for _, v := range vs {
		for _, w := range v.Words {
			if v.Type == hlo.Pred {
				w = e.Op(code.OpSelp32, nil, e.K(1), e.K(0), w)
			}
			out = append(out, w)
		}
	}
	return out
}

func (e *elemental) unflat(like []lanes.Vec, words []code.Value) []lanes.Vec {
	out := make([]lanes.Vec, len(like))
	for i, v := range like {
		out[i] = lanes.Vec{Type: v.Type, N: v.N, Words: slices.Clone(words[:len(v.Words)])}
		words = words[len(v.Words):]
		if v.Type == hlo.Pred {
			for j, w := range out[i].Words {
				out[i].Words[j] = e.SetpU32(code.NE, w, e.K(0))
			}
		}
	}
	return out
}

// combineWhere is one turn of a loop that combines: the accumulators, given and returned
// as words shaped as like, with the body of in applied to them and to the elements of
// operands at at, where extra holds; the same accumulators where it does not. It is
// errOneByOne where that differs between the n elements of a vector.
func (e *elemental) combineWhere(in *hlo.Instruction, like []lanes.Vec, carried []code.Value, operands []*hlo.Instruction, at []affine.Expr, w, extra where, n int) ([]code.Value, error) {
	extra = e.relevant(extra, n)
	if n > 1 && extra.uses(lane) {
		return nil, errOneByOne
	}
	p, never := e.holds(extra)
	if never {
		return carried, nil
	}
	inside := w
	for _, c := range extra {
		inside = inside.with(c)
	}
	acc := e.unflat(like, carried)
	args := slices.Clone(acc)
	for _, o := range operands {
		v, err := e.value(o, at, inside, n)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	next, err := e.Combine(in.Apply, args)
	if err != nil {
		return nil, err
	}
	if p != 0 {
		for i := range next {
			next[i] = e.Pick(p, next[i], acc[i])
		}
	}
	return e.flat(next), nil
}

// reduce combines elements one after another, in the order of vm/hlo/eval.
func (e *elemental) reduce(in *hlo.Instruction, idx []affine.Expr, w where, n int) ([]lanes.Vec, error) {
	inputs := in.Inputs()
	var acc []lanes.Vec
	for _, o := range in.Operands[inputs:] {
		v, err := e.value(o, nil, w, n)
		if err != nil {
			return nil, err
		}
		acc = append(acc, v)
	}
	maps := index.OutputToInput(in, 0)
	m := maps[0][0].Map
	if m.KnownEmpty() {
		return acc, nil
	}
	like := acc
	words, err := e.loopOver(m.Ranges, e.flat(acc), func(values map[string]affine.Expr, carried []code.Value) ([]code.Value, error) {
		for i, d := range m.Dims {
			values[d.Name] = idx[i]
		}
		var extra where
		for _, d := range m.Dims { // windows may reach outside
			extra = e.need(extra, values[d.Name], d.Range)
		}
		for _, c := range m.Constraints {
			extra = e.need(extra, e.simplify(c.Expr.Subst(values)), c.Range)
		}
		var at []affine.Expr
		for _, r := range m.Results {
			at = append(at, e.simplify(r.Subst(values)))
		}
		return e.combineWhere(in, like, carried, in.Operands[:inputs], at, w, extra, n)
	})
	if err == errOneByOne {
		return e.oneByOne(in, idx, w, n)
	}
	if err != nil {
		return nil, err
	}
	return e.unflat(like, words), nil
}

var errOneByOne = fmt.Errorf("emit: lanes differ")

// dot adds products with one rounding each, in the type that vm/hlo/eval adds in.
func (e *elemental) dot(in *hlo.Instruction, idx []affine.Expr, w where, n int) (lanes.Vec, error) {
	t := in.Shape.Type
	sum := t
	if t.IsFloat() && t.Bits() < 32 {
		sum = hlo.F32
	}
	maps := index.OutputToInput(in, 0)
	acc := e.Constant(sum, 0, n)
	m := maps[0][0].Map
	words, err := e.loopOver(m.Ranges, acc.Words, func(values map[string]affine.Expr, carried []code.Value) ([]code.Value, error) {
		var x []lanes.Vec
		for side := range 2 {
			m := maps[side][0].Map
			for i, d := range m.Dims {
				values[d.Name] = idx[i]
			}
			var at []affine.Expr
			for _, r := range m.Results {
				at = append(at, e.simplify(r.Subst(values)))
			}
			v, err := e.value(in.Operands[side], at, w, n)
			if err != nil {
				return nil, err
			}
			x = append(x, e.Convert(sum, v))
		}
		x = append(x, lanes.Vec{Type: sum, N: n, Words: carried})
		if sum.IsFloat() {
			v, err := e.Apply("Fma", nil, x...)
			return v.Words, err
		}
		p, err := e.Apply("Mul", nil, x[0], x[1])
		if err != nil {
			return nil, err
		}
		v, err := e.Apply("Add", nil, p, x[2])
		return v.Words, err
	})
	if err != nil {
		return lanes.Vec{}, err
	}
	return e.Convert(t, lanes.Vec{Type: sum, N: n, Words: words}), nil
}
