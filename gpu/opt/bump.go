package opt

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Bump carries addresses through loops. Where an access of every turn lies at a
// pointer parameter plus an index that the loop variable moves in equal steps,
// the address is computed once before the loop and the turn adds the step to it.
// Addresses that differ by a constant share one pointer, with an offset in the
// access.
//
// An index wraps at 32 bits and an address does not, so the pass must know that
// the index stays below 2³¹: each access that uses it must be made in every turn
// or in none, under no guard or one that the loop does not change. Then it is
// within its buffer in every turn or a mistake, and no difference of two turns
// wraps.
func Bump(f *code.Func) bool {
	if !inLoop(f.Body, code.OpMadWideS32, false) {
		return false
	}
	b := newBumper(f, nil)
	b.each = b.loop
	b.region(f.Body, 0)
	b.done()
	return b.changed
}

// inLoop says whether a For of the region, or one that the region is in, has an op.
func inLoop(r *code.Region, op code.Op, inside bool) bool {
	for _, in := range r.Instrs {
		if inside && in.Op == op {
			return true
		}
		for _, sub := range in.Regions {
			if inLoop(sub, op, inside || in.Op == code.OpFor) {
				return true
			}
		}
	}
	return false
}

func (b *bumper) done() {
	intLists.back(b.inside, b.uses)
	instrLists.back(b.def)
}

// newBumper looks at a function; each rewrites a loop and gives what to compute
// before it.
func newBumper(f *code.Func, each func(in *code.Instr, depth int) []*code.Instr) *bumper {
	b := &bumper{f: f, inside: intLists.lend(len(f.Types)), def: instrLists.lend(len(f.Types)), uses: intLists.lend(len(f.Types)), pointers: map[code.Value]bool{}, each: each}
	for i, v := range f.Body.Args {
		b.pointers[v] = f.Params[i].Kind == code.Pointer
	}
	f.Body.Uses(func(v *code.Value) { b.uses[*v]++ })
	return b
}

type bumper struct {
	f        *code.Func
	inside   []int // loops around the definition of each value
	def      []*code.Instr
	uses     []int
	pointers map[code.Value]bool // parameters that are pointers
	each     func(in *code.Instr, depth int) []*code.Instr
	changed  bool
}

// product is x·y of two values; a zero factor is left out, and no factor is 1.
type product struct{ x, y code.Value }

// linear is a sum of products with coefficients, modulo 2³².
type linear map[product]uint32

func (b *bumper) region(r *code.Region, depth int) {
	for _, a := range r.Args {
		b.set(a, depth, nil)
	}
	out := make([]*code.Instr, 0, len(r.Instrs))
	for _, in := range r.Instrs {
		loop := 0
		if in.Op == code.OpFor || in.Op == code.OpWhile {
			loop = 1
		}
		for _, sub := range in.Regions {
			b.region(sub, depth+loop)
		}
		if in.Op == code.OpFor {
			out = append(out, b.each(in, depth)...)
		}
		for _, v := range in.Out {
			b.set(v, depth, in)
		}
		out = append(out, in)
	}
	r.Instrs = out
}

func (b *bumper) set(v code.Value, depth int, in *code.Instr) {
	b.inside, b.def, b.uses = room(b.inside, v), room(b.def, v), room(b.uses, v)
	b.inside[v], b.def[v] = depth, in
}

func (b *bumper) constant(v code.Value) (uint64, bool) {
	if d := b.def[v]; d != nil && isConst(d.Op) {
		return uint64(d.Imm[0]), true
	}
	return 0, false
}

// pointer is one address that a loop is to carry.
type pointer struct {
	base  code.Value // the parameter
	scale int64      // bytes of an index step
	index linear     // of the first access, constant included
	guard code.Value // of all accesses
	mad   *code.Instr
	same  []*code.Instr // accesses
	delta []int64       // index of each access less that of the first
}

// globalAddress is where an instruction has an address in global memory.
func globalAddress(in *code.Instr) (code.Address, bool) {
	for _, a := range in.Row().Addresses() {
		if a.Space == code.Global {
			return a, true
		}
	}
	return code.Address{}, false
}

// loop rewrites one loop and returns what to compute before it.
func (b *bumper) loop(in *code.Instr, depth int) []*code.Instr {
	step, ok := b.constant(in.In[2])
	if !ok {
		return nil
	}
	body := in.Regions[0]
	accesses := map[code.Value][]*code.Instr{} // by address
	for _, x := range body.Instrs {
		if a, ok := globalAddress(x); ok {
			accesses[x.In[a.In]] = append(accesses[x.In[a.In]], x)
		}
	}
	var pointers []*pointer
	for _, x := range body.Instrs {
		p := b.candidate(x, accesses, body.Args[0], depth+1)
		if p == nil {
			continue
		}
		if i := slices.IndexFunc(pointers, func(q *pointer) bool { return shares(q, p) }); i >= 0 {
			q := pointers[i]
			delta := int64(int32(p.index[product{}] - q.index[product{}]))
			for _, a := range p.same {
				q.same, q.delta = append(q.same, a), append(q.delta, delta)
			}
			continue
		}
		p.delta = make([]int64, len(p.same))
		pointers = append(pointers, p)
	}
	var before []*code.Instr
	for _, p := range pointers {
		before = append(before, b.carry(in, p, uint32(step), depth)...)
	}
	return before
}

// candidate is the address that x computes if it can be carried.
func (b *bumper) candidate(x *code.Instr, accesses map[code.Value][]*code.Instr, i code.Value, depth int) *pointer {
	if x.Op != code.OpMadWideS32 || !b.pointers[x.In[2]] {
		return nil
	}
	scale, ok := b.constant(x.In[1])
	if !ok || int32(scale) <= 0 {
		return nil
	}
	p := &pointer{base: x.In[2], scale: int64(scale), mad: x, same: accesses[x.Out[0]]}
	if len(p.same) == 0 || len(p.same) != b.uses[x.Out[0]] {
		return nil
	}
	p.guard = p.same[0].Guard
	for _, a := range p.same {
		if a.Guard != 0 && b.inside[a.Guard] >= depth {
			return nil
		}
		if a.Guard != p.guard {
			p.guard = -1 // several; shared with no other address
		}
	}
	p.index = b.linear(x.In[0], i, depth)
	moves := false
	for q := range p.index {
		if q.x == i && q.y == i {
			return nil
		}
		moves = moves || q.x == i || q.y == i
	}
	if !moves {
		return nil
	}
	return p
}

// shares reports whether two addresses differ by a constant offset that fits the
// accesses.
func shares(p, q *pointer) bool {
	if p.base != q.base || p.scale != q.scale || p.guard != q.guard || p.guard < 0 {
		return false
	}
	n := 0
	for t, c := range p.index {
		if t != (product{}) {
			n++
			if q.index[t] != c {
				return false
			}
		}
	}
	for t := range q.index {
		if t != (product{}) {
			n--
		}
	}
	const far = 1 << 20
	d := int64(int32(p.index[product{}]-q.index[product{}])) * p.scale
	return n == 0 && -far < d && d < far
}

// linear is v as a sum of products in which the loop variable i stands at most
// once and everything else does not change in the loop; nil if it is none.
func (b *bumper) linear(v, i code.Value, depth int) linear {
	if c, ok := b.constant(v); ok {
		return linear{product{}: uint32(c)}
	}
	d := b.def[v]
	if v == i || b.inside[v] < depth && (d == nil || d.Op != code.OpAdd32) {
		return linear{product{x: v}: 1}
	}
	if d == nil {
		return nil
	}
	if b.inside[v] < depth { // only constants are split off
		for k := range 2 {
			if c, ok := b.constant(d.In[k]); ok {
				return plus(b.linear(d.In[1-k], i, depth), linear{product{}: uint32(c)}, 1)
			}
		}
		return linear{product{x: v}: 1}
	}
	arg := func(k int) linear { return b.linear(d.In[k], i, depth) }
	switch d.Op {
	case code.OpAdd32:
		return plus(arg(0), arg(1), 1)
	case code.OpSub32:
		return plus(arg(0), arg(1), 1<<32-1)
	case code.OpMul32:
		return times(arg(0), arg(1))
	case code.OpMad32:
		return plus(times(arg(0), arg(1)), arg(2), 1)
	case code.OpShl32:
		if n, ok := b.constant(d.In[1]); ok && n < 32 {
			return times(arg(0), linear{product{}: 1 << n})
		}
	}
	return nil
}

// plus is x + scale·y.
func plus(x, y linear, scale uint32) linear {
	if x == nil || y == nil {
		return nil
	}
	out := linear{}
	for t, c := range x {
		out[t] += c
	}
	for t, c := range y {
		out[t] += c * scale
	}
	for t, c := range out {
		if c == 0 {
			delete(out, t)
		}
	}
	return out
}

func times(x, y linear) linear {
	if x == nil || y == nil {
		return nil
	}
	out := linear{}
	for s, c := range x {
		for t, d := range y {
			var factors []code.Value
			for _, v := range []code.Value{s.x, s.y, t.x, t.y} {
				if v != 0 {
					factors = append(factors, v)
				}
			}
			if len(factors) > 2 {
				return nil
			}
			slices.Sort(factors)
			factors = append(factors, 0, 0)
			out[product{factors[0], factors[1]}] += c * d
		}
	}
	return out
}

// carry adds a pointer to what the loop carries, moves its accesses to it, and
// returns the instructions that compute its start and step.
func (b *bumper) carry(loop *code.Instr, p *pointer, step uint32, depth int) (before []*code.Instr) {
	i, body := loop.Regions[0].Args[0], loop.Regions[0]
	emit := func(op code.Op, imm []int64, in ...code.Value) code.Value {
		x := &code.Instr{Op: op, In: in, Imm: imm, Pos: p.mad.Pos}
		v := b.f.NewValue(op.Row().Out[0])
		x.Out = []code.Value{v}
		b.set(v, depth, x)
		before = append(before, x)
		return v
	}
	constant := func(n uint32) code.Value { return emit(code.OpConst32, []int64{int64(n)}) }
	// evaluate gives a sum as a constant, or as a value.
	evaluate := func(sum linear) (total code.Value, n uint32) {
		terms := make([]product, 0, len(sum))
		for t := range sum {
			terms = append(terms, t)
		}
		slices.SortFunc(terms, func(s, t product) int {
			if s.x != t.x {
				return int(s.x - t.x)
			}
			return int(s.y - t.y)
		})
		for _, t := range terms {
			if t == (product{}) {
				continue
			}
			v := t.x
			if t.y != 0 {
				v = emit(code.OpMul32, nil, v, t.y)
			}
			if c := sum[t]; c != 1 {
				v = emit(code.OpMul32, nil, v, constant(c))
			}
			if total != 0 {
				v = emit(code.OpAdd32, nil, total, v)
			}
			total = v
		}
		n = sum[product{}]
		if total != 0 && n != 0 {
			total = emit(code.OpAdd32, nil, total, constant(n))
		}
		return total, n
	}

	first, each := linear{}, linear{}
	for t, c := range p.index {
		other := t.x
		switch i {
		case t.x:
			other = t.y
		case t.y:
		default:
			first[t] += c
			continue
		}
		each[product{x: other}] += c * step
		if start, ok := b.constant(loop.In[0]); ok {
			first[product{x: other}] += c * uint32(start)
		} else {
			two := []code.Value{loop.In[0], other}
			if other != 0 {
				slices.Sort(two)
			}
			first[product{two[0], two[1]}] += c
		}
	}
	first, each = plus(first, linear{}, 1), plus(each, linear{}, 1)
	at, n := evaluate(first)
	if at == 0 {
		at = constant(n)
	}
	start := emit(code.OpMadWideS32, nil, at, constant(uint32(p.scale)), p.base)
	by, n := evaluate(each)
	if by == 0 {
		by = emit(code.OpConst64, []int64{int64(int32(n)) * p.scale})
	} else {
		by = emit(code.OpMulWideS32, nil, by, constant(uint32(p.scale)))
	}

	now, next, end := b.f.NewValue(code.B64), b.f.NewValue(code.B64), b.f.NewValue(code.B64)
	add := &code.Instr{Op: code.OpAdd64, In: []code.Value{now, by}, Out: []code.Value{next}, Pos: p.mad.Pos}
	loop.In, loop.Out = append(loop.In, start), append(loop.Out, end)
	body.Args, body.Yield = append(body.Args, now), append(body.Yield, next)
	body.Instrs = append(body.Instrs, add)
	b.set(now, depth+1, nil)
	b.set(next, depth+1, add)
	b.set(end, depth, loop)
	for k, a := range p.same {
		at, _ := globalAddress(a)
		a.In[at.In] = now
		a.Imm = slices.Clone(a.Imm)
		a.Imm[at.Imm] += p.delta[k] * p.scale
	}
	b.changed = true
	return before
}
