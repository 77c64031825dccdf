package traffic

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// Up to exact requests, the addresses of all are computed; of more, those of about samples.
const (
	exact   = 2048
	samples = 256
)

// request are the lanes of one warp's access: byte addresses or bank.Inactive.
type request []int

// add counts an access to a tensor.
func (w *walker) add(kind Kind, t *emit.Tensor, at index.Indexing, p place) {
	if at.Map.Undefined() || at.Map.KnownEmpty() || t.Shape.Elements() == 0 {
		return
	}
	strides := t.Stride
	if strides == nil {
		strides = t.Shape.Strides()
	}
	offset := affine.Const(0)
	for i, stride := range strides {
		offset = offset.Add(at.Map.Results[i].MulConst(int64(stride)))
	}
	a := Access{Kind: kind, Tensor: t.Name, Shape: t.Shape, Map: named(at.Map), Bits: t.Shape.Type.Bits()}
	if t.Shape.Type == hlo.Pred {
		a.Bits = 8
	}
	// What is read once is not read again, except by a loop that stays one.
	key := fmt.Sprint(kind, t.Name, p.scope, a.Map, at.Runtime)
	if kind == Read && w.seen[key] {
		return
	}
	w.seen[key] = true
	l := w.lay(&a, at, offset, p)
	if l == nil {
		return
	}
	shared := kind == SharedRead || kind == SharedWrite
	profile := bank.Nvidia()
	how := bank.Store
	if kind == SharedRead {
		how = bank.Load
	}
	width := max(1, a.Vector*a.Bits/8)
	n, idle := 0.0, 0.0
	lanes, units, ideal := 0, 0, 0
	distinct := map[int]bool{}
	most := 0
	for _, r := range l.requests(w.k.Tensor.Threads) {
		if shared {
			c, err := bank.Count(profile, bank.Access{Kind: how, Width: width, Addrs: r})
			if err != nil || c.Ideal == 0 {
				idle++ // nobody takes part: a request that is not made
				continue
			}
			units += c.Wavefronts
			ideal += c.Ideal
			if c.Wavefronts > most {
				most, a.Worst = c.Wavefronts, r
			}
		} else {
			g, err := bank.Global(width, r)
			if err != nil || g.Lanes == 0 {
				idle++
				continue
			}
			units += len(g.Sectors)
			ideal += g.Ideal
			if len(g.Sectors) > most {
				most, a.Worst = len(g.Sectors), r
			}
		}
		n++
		for _, x := range r {
			if x != bank.Inactive {
				lanes++
				if l.exact && !shared {
					distinct[x] = true
				}
			}
		}
	}
	if n == 0 {
		return
	}
	a.Requests = int64(float64(l.total)*n/(n+idle) + 0.5)
	a.Lanes, a.Units, a.Ideal = float64(lanes)/n, float64(units)/n, float64(ideal)/n
	a.Asked = int64(a.Lanes*float64(a.Requests)*float64(width) + 0.5)
	if !shared {
		whole := int64(t.Shape.Bytes())
		a.Bytes = min(a.Asked, whole)
		if l.exact {
			a.Bytes = min(whole, int64(len(distinct)*width))
		} else if float64(a.Asked) > 0.95*float64(whole) {
			a.Bytes = whole // an average over samples misses a bit
		}
	}
	w.out = append(w.out, a)
}

// named is a map with the names of grid, without those that are always 0, the loops as range variables s0, s1, … and the
// number within a vector as v.
func named(m affine.Map) affine.Map {
	if len(m.Dims) <= len(grid) {
		return m
	}
	values := map[string]affine.Expr{}
	var dims, ranges []affine.Variable
	name := func(list *[]affine.Variable, v affine.Variable, to string) {
		values[v.Name] = affine.Var(to)
		*list = append(*list, affine.Variable{Name: to, Range: v.Range})
	}
	for i, v := range m.Dims[:len(grid)] {
		if v.Range.Lo == 0 && v.Range.Hi == 0 {
			values[v.Name] = affine.Const(0)
			continue
		}
		name(&dims, v, grid[i])
	}
	last := len(m.Dims) - 1
	for i, v := range append(slices.Clone(m.Dims[len(grid):last]), m.Ranges...) {
		name(&ranges, v, fmt.Sprintf("s%d", i))
	}
	name(&ranges, m.Dims[last], lane)
	results := make([]affine.Expr, len(m.Results))
	for i, e := range m.Results {
		results[i] = e.Subst(values)
	}
	var constraints []affine.Constraint
	for _, c := range m.Constraints {
		constraints = append(constraints, affine.Constraint{Expr: c.Expr.Subst(values), Range: c.Range})
	}
	out, err := affine.NewMap(dims, ranges, m.Runtime, results, constraints)
	if err != nil {
		return m
	}
	out, _ = out.Simplify(false)
	return out.RemoveUnusedSymbols()
}

// layout says how the requests of an access lie.
type layout struct {
	w      *walker
	at     index.Indexing
	m      affine.Map // to the offset
	bits   int        // of an element
	turns  []turn     // what is counted, the fastest last
	warps  int64
	total  int64 // requests
	exact  bool
	fixed  []int64 // dimensions
	ranges []int64
}

// turn is a dimension or range variable that is counted in steps.
type turn struct {
	range_   bool
	number   int
	from     int64
	step, of int64
}

// lay finds the vectors of an access and what else there is to count.
func (w *walker) lay(a *Access, at index.Indexing, offset affine.Expr, p place) *layout {
	m, err := affine.NewMap(at.Map.Dims, at.Map.Ranges, at.Map.Runtime, []affine.Expr{offset}, at.Map.Constraints)
	if err != nil {
		return nil
	}
	m, _ = m.Simplify(false)
	if m.KnownEmpty() || len(m.Dims) <= len(grid) {
		return nil
	}
	a.Offset, a.Vector = m, 1
	l := &layout{w: w, at: at, m: m, bits: a.Bits, fixed: make([]int64, len(m.Dims)), ranges: make([]int64, len(m.Ranges))}
	used := map[string]bool{}
	for _, e := range m.Results {
		for _, v := range e.Vars() {
			used[v] = true
		}
	}
	for _, c := range m.Constraints {
		for _, v := range c.Expr.Vars() {
			used[v] = true
		}
	}
	l.warps = int64(w.k.Tensor.Threads+31) / 32
	l.total = l.warps
	count := func(t turn, r affine.Range) {
		t.from, t.of = r.Lo, (r.Hi-r.Lo)/t.step+1
		l.total *= t.of
		l.turns = append(l.turns, t)
	}
	for i := 3; i < len(grid); i++ {
		count(turn{number: i, step: 1}, m.Dims[i].Range)
	}
	last := len(m.Dims) - 1
	for i := len(grid); i < last; i++ {
		count(turn{number: i, step: 1}, m.Dims[i].Range)
	}
	for i, v := range m.Ranges {
		count(turn{range_: true, number: i, step: 1}, v.Range)
	}
	if v := m.Dims[last]; used[v.Name] {
		a.Vector = vector(&l.m, v, a.Bits)
		count(turn{number: last, step: int64(a.Vector)}, v.Range)
		a.Offset = l.m
	}
	l.exact = l.total <= exact
	return l
}

// vector is how many neighbouring elements one access moves. Constraints on groups of them
// are stated once for the group.
func vector(m *affine.Map, v affine.Variable, bits int) int {
	n := v.Range.Hi + 1
	zero := map[string]affine.Expr{v.Name: affine.Const(0)}
	for i, c := range m.Constraints {
		if !slices.Contains(c.Expr.Vars(), v.Name) {
			continue
		}
		base := c.Expr.Subst(zero)
		if !c.Expr.Sub(base).Equal(affine.Var(v.Name)) || base.Divisor(nil)%n != 0 || c.Range.Lo%n != 0 || (c.Range.Hi+1)%n != 0 {
			return 1
		}
		list := slices.Clone(m.Constraints)
		list[i] = affine.Constraint{Expr: base, Range: affine.Range{Lo: c.Range.Lo, Hi: c.Range.Hi + 1 - n}}
		next, err := affine.NewMap(m.Dims, m.Ranges, m.Runtime, m.Results, list)
		if err != nil {
			return 1
		}
		next, _ = next.Simplify(false)
		*m = next
		return vector(m, v, bits)
	}
	base := m.Results[0].Subst(zero)
	if !m.Results[0].Sub(base).Equal(affine.Var(v.Name)) {
		return 1
	}
	d := base.Divisor(nil)
	size := int64(1)
	for size < n && n%(2*size) == 0 && d%(2*size) == 0 && 2*size*int64(bits) <= 128 {
		size *= 2
	}
	return int(size)
}

// requests computes the addresses of all requests, or of all warps at some turns in some
// blocks, spread over the whole and not in step with any power of two.
func (l *layout) requests(threads int) []request {
	all := l.total / l.warps
	count := all
	if !l.exact {
		count = min(all, max(samples/l.warps, 8))
	}
	eval := l.m.Evaluator()
	var place [1]int64
	var out []request
	for i := range count {
		n := i
		if count < all {
			n = i*all/count + (i*2654435761>>7)%(all/count)
		}
		for j := len(l.turns) - 1; j >= 0; j-- {
			t := l.turns[j]
			x := t.from + n%t.of*t.step
			n /= t.of
			if t.range_ {
				l.ranges[t.number] = x
			} else {
				l.fixed[t.number] = x
			}
		}
		for warp := range l.warps {
			r := make(request, 32)
			for k := range r {
				r[k] = bank.Inactive
				l.fixed[0] = warp*32 + int64(k)
				if l.fixed[0] >= int64(threads) {
					continue
				}
				values := l.ranges
				if len(l.m.Runtime) > 0 {
					values = append(slices.Clone(l.ranges), runtime(l.at, l.fixed, l.ranges)...)
				}
				if in, err := eval.At(l.fixed, values, place[:]); err == nil && in && place[0] >= 0 {
					r[k] = int(place[0]) * l.bits / 8
				}
			}
			out = append(out, r)
		}
	}
	return out
}

// runtime makes up values that only the running program knows: one for each place that they
// are read from.
func runtime(at index.Indexing, dims, symbols []int64) []int64 {
	var out []int64
	for i, v := range at.Map.Runtime {
		hash := uint64(14695981039346656037)
		if i < len(at.Runtime) {
			source := at.Runtime[i].At.Map
			given := make([]int64, len(source.Ranges)+len(source.Runtime))
			copy(given, symbols)
			if r, err := source.Eval(dims, given); err == nil {
				for _, x := range r {
					hash = (hash ^ uint64(x+int64(i))) * 1099511628211
				}
			}
		}
		hash ^= hash >> 29
		hash *= 0x9e3779b97f4a7c15
		n := uint64(v.Range.Hi - v.Range.Lo + 1)
		out = append(out, v.Range.Lo+int64((hash>>16)%max(1, n)))
	}
	return out
}
