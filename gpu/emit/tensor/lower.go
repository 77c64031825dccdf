package tensor

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/emit/lanes"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// lowering is the pass lower-tensors: tensors become addresses, pure calls the code of what
// they call, and indices 32-bit arithmetic.
type lowering struct {
	*elemental
	f      *Func
	values map[*Value]lanes.Vec
	shared int // bytes
}

// Hints are what accesses to global memory tell the caches.
type Hints struct{ Load, Store code.Attr }

// Lower is the pass lower-tensors: it makes thread code of a kernel. Leaves are the
// instructions that stand in memory.
func Lower(f *Func, leaves map[*hlo.Instruction]*Tensor, hints Hints, at diag.Pos) (*code.Func, error) {
	if at.Line == 0 {
		at = diag.Pos{File: f.Name, Line: 1, Col: 1}
	}
	b := code.NewBuilder(f.Name).At(at)
	e := newElemental(b)
	e.leaves, e.hints, e.Exponential, e.washed, e.once = leaves, hints, f.Exponential, f.Washed, f.Once
	l := &lowering{elemental: e, f: f, values: map[*Value]lanes.Vec{}}
	for _, t := range f.Args {
		e.addr[t] = b.Param(code.Param{Name: t.Name, Kind: code.Pointer, Type: code.B64, Elem: elemName(t.Shape.Type), NoAlias: true, ReadOnly: t.Role == Read})
	}
	e.ID = b.TidX()
	e.variable("th_x", e.ID, affine.Range{Hi: int64(f.Threads) - 1})
	for i, name := range []string{"bl_x", "bl_y", "bl_z"} {
		r := affine.Range{Hi: int64(max(1, f.Blocks[i])) - 1}
		v := b.Const32(0)
		if r.Hi > 0 {
			v = []func() code.Value{b.CtaidX, b.CtaidY, b.CtaidZ}[i]()
		}
		e.variable(name, v, r)
	}
	b.Func().Launch = code.Launch{Grid: []affine.Expr{affine.Const(int64(max(1, f.Blocks[0]))), affine.Const(int64(max(1, f.Blocks[1]))), affine.Const(int64(max(1, f.Blocks[2])))}, Block: f.Threads}
	if err := l.steps(f.Body); err != nil {
		return nil, err
	}
	if l.wide != "" {
		return nil, fmt.Errorf("emit: %s: the index %s, which is divided or compared, needs more than 32 bits", f.Name, l.wide)
	}
	b.Func().Launch.SharedBytes = l.shared
	out, err := b.Done()
	if err != nil {
		return nil, fmt.Errorf("emit: %s: %w", f.Name, err)
	}
	return out, nil
}

func elemName(t hlo.Type) string {
	if t.Elem() == 0 {
		return t.String()
	}
	return t.Elem().String()
}

func (l *lowering) in(s *Step) []lanes.Vec {
	var out []lanes.Vec
	for _, v := range s.In {
		x, ok := l.values[v]
		if !ok {
			panic("emit: " + v.String() + " is read before it is there")
		}
		out = append(out, x)
	}
	return out
}

func (l *lowering) out(s *Step, v []lanes.Vec) {
	for i, o := range s.Out {
		l.values[o] = v[i]
	}
}

// index is simplified.
func (l *lowering) index(idx []affine.Expr) []affine.Expr {
	out := make([]affine.Expr, len(idx))
	for i, x := range idx {
		out[i] = l.simplify(x)
	}
	return out
}

func (l *lowering) where(w []affine.Constraint, n int) where {
	var out where
	for _, c := range w {
		out = l.need(out, l.simplify(c.Expr), c.Range)
	}
	return l.relevant(out, n)
}

func (l *lowering) steps(steps []*Step) error {
	for _, s := range steps {
		if err := l.step(s); err != nil {
			return err
		}
	}
	return nil
}

func (l *lowering) step(s *Step) error {
	n := 1
	for _, v := range append(slices.Clone(s.Out), s.In...) {
		n = max(n, v.N)
	}
	l.ranges[lane] = affine.Range{Hi: int64(n) - 1}
	switch s.Op {
	case PureCall:
		w := l.where(s.Where, n)
		v, err := l.elemental.values(s.Of, l.index(s.Index), w, n)
		if err != nil {
			return err
		}
		if len(s.In) > 0 {
			v[0] = l.otherwise(l.must(s, n), v[0], l.in(s)[0])
		}
		l.out(s, v)
	case Extract:
		w := l.where(s.Where, n)
		v, err := l.load(s.On, l.index(s.Index), w, n)
		if err != nil {
			return err
		}
		if len(s.In) > 0 {
			v = l.otherwise(l.must(s, n), v, l.in(s)[0])
		}
		l.out(s, []lanes.Vec{v})
	case Insert:
		return l.store(s.On, l.index(s.Index), l.where(s.Where, n), l.in(s)[0])
	case AtomicRMW:
		return l.atomic(s.On, l.index(s.Index), l.where(s.Where, n), l.in(s)[0], s.Of)
	case Alloc:
		at := (l.shared + 15) / 16 * 16
		l.addr[s.On] = l.Plus(l.SharedBase(), l.K(int64(at)))
		l.shared = at + (s.On.elements()*s.On.Shape.Type.Bits()+7)/8
	case Sync:
		l.BarSync()
	case Combine:
		v, err := l.Combine(s.Of.Apply, l.in(s))
		if err != nil {
			return err
		}
		l.out(s, v)
	case Choose:
		x := l.in(s)
		l.out(s, []lanes.Vec{l.otherwise(l.where(s.Where, n), x[0], x[1])})
	case Identity:
		v := make([]lanes.Vec, len(s.Out))
		ids, _ := IdentitiesOf(s.Of)
		for i, o := range s.Out {
			v[i] = l.Constant(o.Type, ids[i], o.N)
		}
		l.out(s, v)
	case Fold:
		x := l.in(s)
		half := func(from, n int) (out []lanes.Vec) {
			for _, y := range x {
				out = append(out, l.Part(y, from, n))
			}
			return out
		}
		// A tree, so that additions need not wait for each other.
		var odd []lanes.Vec
		for n := x[0].N; n > 1; n /= 2 {
			if n%2 == 1 {
				odd = append(odd, half(n-1, 1)...)
			}
			v, err := l.Combine(s.Of.Apply, append(half(0, n/2), half(n/2, n/2)...))
			if err != nil {
				return err
			}
			x = v
		}
		for ; len(odd) > 0; odd = odd[len(x):] {
			v, err := l.Combine(s.Of.Apply, append(x, odd[:len(x)]...))
			if err != nil {
				return err
			}
			x = v
		}
		l.out(s, x)
	case ShuffleReduce:
		x := l.in(s)
		for d := s.From; d >= s.Trips; d /= 2 {
			words := l.flat(x)
			moved := make([]code.Value, len(words))
			for i, w := range words {
				moved[i] = l.Op(code.OpShflBfly, []int64{int64(d)}, w)
			}
			v, err := l.Combine(s.Of.Apply, append(slices.Clone(x), l.unflat(x, moved)...))
			if err != nil {
				return err
			}
			x = v
		}
		l.out(s, x)
	case Zip:
		var parts []lanes.Vec
		for _, x := range l.in(s) {
			parts = append(parts, l.Lane(x, s.From))
		}
		l.out(s, []lanes.Vec{l.Pack(parts[0].Type, parts)})
	case Start:
		v, err := l.elemental.value(s.Of, l.index(s.Index), l.where(s.Where, 1), 1)
		if err != nil {
			return err
		}
		r := affine.Range{Lo: int64(s.From), Hi: int64(s.Trips) - 1}
		l.variable(s.Var, l.clamp(v, r), r)
	case Let:
		x := l.simplify(s.Index[0])
		r := x.Range(l.ranges)
		if !fits(r) {
			return fmt.Errorf("emit: %s: %s needs more than 32 bits", l.f.Name, x)
		}
		l.variable(s.Var, l.integer(x), r)
	case Inject:
		l.given[s.Of] = given{l.in(s), l.index(s.Index)}
	case Loop:
		return l.loop(s)
	case If:
		p, never := l.holds(l.where(s.Where, 1))
		switch {
		case never:
			return nil
		case p == 0:
			return l.steps(s.Body)
		}
		var fail error
		l.If(p, func() []code.Value {
			l.inside(func() { fail = l.steps(s.Body) })
			return nil
		}, nil)
		return fail
	case LastBlock:
		return l.lastBlock(s)
	default:
		return fmt.Errorf("emit: step %s", s.Op)
	}
	return nil
}

// must are the constraints of a step elsewhere than where its result matters to nobody.
func (l *lowering) must(s *Step, n int) where {
	var rest []affine.Constraint
	for _, c := range s.Where {
		if !slices.ContainsFunc(s.Open, func(o affine.Constraint) bool { return o.Range == c.Range && o.Expr.Equal(c.Expr) }) {
			rest = append(rest, c)
		}
	}
	return l.where(rest, n)
}

// otherwise is v where the constraints hold, else rest.
func (l *lowering) otherwise(w where, v, rest lanes.Vec) lanes.Vec {
	rest = l.Splat(rest, v.N)
	if p, never := l.holds(w); never {
		return rest
	} else if p != 0 {
		return l.Pick(p, v, rest)
	}
	return v
}

func (l *lowering) loop(s *Step) error {
	carried := l.in(s)
	var fail error
	words := l.For(l.K(0), l.K(int64(s.Trips)), l.K(1), 1, l.flat(carried), func(i code.Value, c []code.Value) []code.Value {
		out := c
		l.inside(func() {
			l.variable(s.Var, i, affine.Range{Hi: int64(s.Trips) - 1})
			for k, v := range l.unflat(carried, c) {
				l.values[s.Args[k]] = v
			}
			if fail = l.steps(s.Body); fail != nil {
				return
			}
			var next []lanes.Vec
			for _, y := range s.Yield {
				next = append(next, l.values[y])
			}
			out = l.flat(next)
		})
		return out
	})
	l.out(s, l.unflat(carried, words))
	return fail
}

// lastBlock runs steps in the block that takes the last ticket. What other blocks wrote
// before they took theirs is visible to it, and the ticket is 0 again.
func (l *lowering) lastBlock(s *Step) error {
	at := (l.shared + 15) / 16 * 16
	l.shared = at + 4
	flag := l.Plus(l.SharedBase(), l.K(int64(at)))
	l.Emit(code.OpFenceGPU, nil)
	l.BarSync()
	first := l.SetpU32(code.EQ, l.ID, l.K(0))
	ticket := l.address(l.addr[s.On], l.offset(s.On, l.index(s.Index)), 4)
	l.If(first, func() []code.Value {
		old := l.Emit1(code.OpAtomGlobalAcqRelInc, []int64{ticket.imm}, ticket.base, l.K(int64(s.Trips-1)))
		l.StShared(4, flag, 0, old)
		return nil
	}, nil)
	l.BarSync()
	last := l.SetpU32(code.EQ, l.LdShared(4, flag, 0), l.K(int64(s.Trips-1)))
	var fail error
	l.If(last, func() []code.Value {
		l.Emit(code.OpFenceGPU, nil)
		l.inside(func() { fail = l.steps(s.Body) })
		return nil
	}, nil)
	return fail
}

// offset is the place of an element in memory, in elements.
func (e *elemental) offset(t *Tensor, idx []affine.Expr) affine.Expr {
	off := affine.Const(0)
	for i, s := range t.strides() {
		off = off.Add(idx[i].MulConst(int64(s)))
	}
	return e.simplify(off)
}

// place is an address and what is added to it.
type place struct {
	base code.Value
	imm  int64
}

// maxImmediate bounds what machine code adds to an address in an access: 24 bits with a sign.
const maxImmediate = 1 << 23

// address is that of an element; bytes is its size.
func (e *elemental) address(base code.Value, off affine.Expr, bytes int64) place {
	constant, _ := off.Terms()
	rest := off.AddConst(-constant)
	imm := constant * bytes
	near := imm < maxImmediate && imm >= -maxImmediate
	if c, ok := rest.Const(); ok && c == 0 && near {
		return place{base, imm}
	}
	key := func(off affine.Expr) string { return fmt.Sprint("address", base, bytes, off) }
	known := func(key string) (code.Value, bool) {
		for s := e.scope; s != nil; s = s.outside {
			if v, ok := s.ints[key]; ok {
				return v, true
			}
		}
		return 0, false
	}
	v, ok := known(key(rest))
	if ok && near {
		return place{v, imm}
	}
	if !near {
		if w, ok := known(key(off)); ok {
			return place{w, 0}
		}
		if ok { // one addition, of 64 bits
			v = e.Op(code.OpAdd64, nil, v, e.Const64(imm))
			e.scope.ints[key(off)] = v
			return place{v, 0}
		}
		rest, imm = off, 0
	}
	if !fits(rest.Range(e.ranges)) {
		v = e.far(base, rest, bytes)
	} else if v = e.integer(rest); e.Func().Type(base) == code.B32 {
		v = e.Add32(base, e.Mul32(v, e.K(bytes)))
	} else {
		op := code.OpMadWideU32
		if rest.Range(e.ranges).Lo < 0 {
			op = code.OpMadWideS32
		}
		v = e.Op(op, nil, v, e.K(bytes), base)
	}
	e.scope.ints[key(rest)] = v
	return place{v, imm}
}

// fits says whether numbers of a range are indices of 32 bits.
func fits(r affine.Range) bool { return r.Lo >= math.MinInt32 && r.Hi <= math.MaxInt32 }

// far is an address further from a base than indices of 32 bits reach: each term, which
// does fit, is multiplied and added in 64 bits.
func (e *elemental) far(base code.Value, off affine.Expr, bytes int64) code.Value {
	constant, terms := off.Terms()
	if constant != 0 {
		base = e.Op(code.OpAdd64, nil, base, e.Const64(constant*bytes))
	}
	for _, t := range terms {
		v := e.factor(t.Factors[0])
		for _, f := range t.Factors[1:] {
			v = e.Mul32(v, e.factor(f))
		}
		if k := t.Coef * bytes; k > 0 && k <= math.MaxInt32 {
			base = e.Op(code.OpMadWideS32, nil, v, e.K(k), base)
		} else {
			wide := e.Op(code.OpMadWideS32, nil, v, e.K(1), e.Const64(0))
			base = e.Op(code.OpAdd64, nil, base, e.Op(code.OpMul64, nil, wide, e.Const64(k)))
		}
	}
	return base
}

// run is how elements lie: groups of size, each in one access.
func (e *elemental) run(t *Tensor, idx []affine.Expr, n int) (first affine.Expr, size int, ok bool) {
	off := e.offset(t, idx)
	if n == 1 {
		return off, 1, true
	}
	first = e.simplify(off.Subst(map[string]affine.Expr{lane: affine.Const(0)}))
	if !e.simplify(off.Sub(first)).Equal(affine.Var(lane)) {
		return off, 1, false
	}
	size = 1
	d := first.Divisor(nil)
	for size < n && n%(2*size) == 0 && d%int64(2*size) == 0 && 2*size*t.Shape.Type.Bits() <= 128 {
		size *= 2
	}
	return first, size, true
}

// load reads n elements; where the constraints do not hold it reads nothing and gives zeros.
func (e *elemental) load(t *Tensor, idx []affine.Expr, w where, n int) (lanes.Vec, error) {
	if n > 1 && !usesAny(idx, lane) {
		v, err := e.load(t, idx, w, 1)
		return e.Splat(v, n), err
	}
	first, size, ok := e.run(t, idx, n)
	if !ok || n > 1 && w.uses(lane) {
		var parts []lanes.Vec
		for k := range n {
			by := affine.Const(int64(k))
			v, err := e.load(t, e.at(idx, lane, by), e.whereAt(w, lane, by), 1)
			if err != nil {
				return lanes.Vec{}, err
			}
			parts = append(parts, v)
		}
		return e.Pack(t.Shape.Type, parts), nil
	}
	elem := t.Shape.Type
	in := elem
	if elem == hlo.Pred {
		in = hlo.U8
	}
	if in.Elem() == 0 {
		return lanes.Vec{}, fmt.Errorf("emit: %s has elements of %s, which have no thread code", t.Name, elem)
	}
	p, never := e.holds(w)
	if in.Bits()*size < 8 {
		return e.nibbles(t, idx, p, never, n), nil
	}
	if n == 1 && e.beside && in.Bits() == 16 && !never && !t.Shared && t.Role == Read {
		if v, ok := e.half(t, in, first, p); ok {
			return v, nil
		}
	}
	var parts []lanes.Vec
	for k := 0; k < n; k += size {
		if never {
			parts = append(parts, e.Constant(in, 0, size))
			continue
		}
		at := e.place(t, first.AddConst(int64(k)))
		parts = append(parts, lanes.Vec{Type: in, N: size, Words: e.access(t, at, size*in.Bits(), p)})
	}
	v := e.joined(in, parts)
	if elem == hlo.Pred {
		v = e.Convert(hlo.Pred, v)
	}
	return v, nil
}

// over is elements of a tensor that nothing else reads where the constraints hold, else rest,
// which are one constant: what is loaded goes over them, so that nothing has to be chosen. Over
// what has to be loaded first, loads would wait for each other. Ok is false where that is not
// one access for whole words.
func (e *elemental) over(in *hlo.Instruction, idx []affine.Expr, w where, n int, rest lanes.Vec) (v lanes.Vec, ok bool) {
	t := e.leaves[in]
	if slices.ContainsFunc(rest.Words, func(w code.Value) bool { c, ok := e.ConstOf(w); d, _ := e.ConstOf(rest.Words[0]); return !ok || c != d }) {
		return v, false
	}
	if t == nil || !e.once[in] || e.work > Crowded || t.Shape.Type == hlo.Pred || t.Shape.Type.Elem() == 0 || n > 1 && !usesAny(idx, lane) {
		return v, false
	}
	w = e.relevant(w, n)
	first, size, ok := e.run(t, idx, n)
	bits := t.Shape.Type.Bits()
	if !ok || n > 1 && w.uses(lane) || size*bits%32 != 0 {
		return v, false
	}
	p, never := e.holds(w)
	if never || p == 0 {
		return v, false
	}
	v = lanes.Vec{Type: t.Shape.Type, N: n}
	for k := 0; k < n; k += size {
		v.Words = append(v.Words, e.access(t, e.place(t, first.AddConst(int64(k))), size*bits, p, e.part(rest, k, size)...)...)
	}
	return v, true
}

// half is an element of 16 bits as part of its word, which a neighbour may want too. Tensors
// end with whole words.
func (e *elemental) half(t *Tensor, in hlo.Type, at affine.Expr, p code.Value) (lanes.Vec, bool) {
	constant, _ := at.Terms()
	if at.AddConst(-constant).Divisor(nil)%2 != 0 {
		return lanes.Vec{}, false
	}
	odd := constant & 1
	word := at.AddConst(-odd)
	key := fmt.Sprint("word", t.Name, word, p)
	for s := e.scope; s != nil; s = s.outside {
		if v, ok := s.elems[key]; ok {
			return e.Lane(v[0], int(odd)), true
		}
	}
	v := lanes.Vec{Type: in, N: 2, Words: e.access(t, e.place(t, word), 32, p)}
	e.scope.elems[key] = []lanes.Vec{v}
	return e.Lane(v, int(odd)), true
}

// joined puts groups of elements one after another.
func (e *elemental) joined(t hlo.Type, parts []lanes.Vec) lanes.Vec {
	if len(parts) == 1 {
		return parts[0]
	}
	if parts[0].N*t.Bits()%32 == 0 {
		out := lanes.Vec{Type: t}
		for _, p := range parts {
			out.N += p.N
			out.Words = append(out.Words, p.Words...)
		}
		return out
	}
	var ones []lanes.Vec
	for _, p := range parts {
		for i := range p.N {
			ones = append(ones, e.Lane(p, i))
		}
	}
	return e.Pack(t, ones)
}

// access loads bits ≤ 128 in one instruction as words. Where p does not hold they are the
// rest, or 0 where none is given.
func (e *elemental) access(t *Tensor, at place, bits int, p code.Value, rest ...code.Value) []code.Value {
	imm := []int64{at.imm}
	first := code.OpLdSharedB8
	if !t.Shared {
		attr := code.Attr(0)
		if t.Role == Read {
			attr = code.NC | e.hints.Load
		}
		imm, first = append(imm, int64(attr)), code.OpLdGlobalB8
	}
	op := first + map[int]code.Op{8: 0, 16: 1, 32: 2, 64: 4, 128: 5}[bits]
	if p != 0 && rest == nil {
		for range max(1, bits/32) {
			if bits == 16 {
				rest = append(rest, e.Const16(0))
			} else {
				rest = append(rest, e.K(0))
			}
		}
	}
	words := e.Guard(p, op, imm, rest, at.base)
	if bits == 16 {
		words = []code.Value{e.Widened(words[0])}
	}
	return words
}

// store writes elements where the constraints hold.
func (e *elemental) store(t *Tensor, idx []affine.Expr, w where, v lanes.Vec) error {
	if v.Type == hlo.Pred {
		v = e.Convert(hlo.U8, v)
	}
	if v.Type.Elem() == 0 {
		return fmt.Errorf("emit: %s has elements of %s, which have no thread code", t.Name, v.Type)
	}
	first, size, ok := e.run(t, idx, v.N)
	if v.Type.Bits() < 8 && ok && size > 1 && w.uses(lane) {
		return e.storeBytes(t, idx, w, v)
	}
	if !ok || v.N > 1 && w.uses(lane) || v.N > 1 && v.Type.Bits()*size < 8 {
		for k := range v.N {
			by := affine.Const(int64(k))
			if err := e.store(t, e.at(idx, lane, by), e.whereAt(w, lane, by), e.Lane(v, k)); err != nil {
				return err
			}
		}
		return nil
	}
	p, never := e.holds(w)
	if never {
		return nil
	}
	if v.Type.Bits()*size < 8 { // another thread may write the other half of the byte
		return e.swap(t, idx, p, v, nil)
	}
	for k := 0; k < v.N; k += size {
		at := e.place(t, first.AddConst(int64(k)))
		e.write(t, at, e.part(v, k, size), size*v.Type.Bits(), p)
	}
	return nil
}

// place is the address of an element that begins a byte.
func (e *elemental) place(t *Tensor, off affine.Expr) place {
	bits := int64(t.Shape.Type.Bits())
	if t.Shape.Type == hlo.Pred {
		bits = 8
	}
	if bits < 8 {
		return e.address(e.addr[t], e.simplify(off.FloorDiv(affine.Const(8/bits))), 1)
	}
	return e.address(e.addr[t], off, bits/8)
}

// nibbles reads elements of less than a byte one by one.
func (e *elemental) nibbles(t *Tensor, idx []affine.Expr, p code.Value, never bool, n int) lanes.Vec {
	elem := t.Shape.Type
	var parts []lanes.Vec
	for k := range n {
		if never {
			parts = append(parts, e.Constant(elem, 0, 1))
			continue
		}
		off := e.offset(t, e.at(idx, lane, affine.Const(int64(k))))
		per := affine.Const(int64(8 / elem.Bits()))
		byteAt := e.access(t, e.place(t, off), 8, p)[0]
		shift := e.integer(e.simplify(off.Mod(per).MulConst(int64(elem.Bits()))))
		parts = append(parts, lanes.Vec{Type: elem, N: 1, Words: []code.Value{e.Low(e.Op(code.OpShrU32, nil, byteAt, shift), elem.Bits())}})
	}
	return e.Pack(elem, parts)
}

// storeBytes writes whole bytes of elements of less, each where its first element is one
// of the tensor.
func (e *elemental) storeBytes(t *Tensor, idx []affine.Expr, w where, v lanes.Vec) error {
	per := 8 / v.Type.Bits()
	for k := 0; k < v.N; k += per {
		by := affine.Const(int64(k))
		p, never := e.holds(e.whereAt(w, lane, by))
		if never {
			continue
		}
		e.write(t, e.place(t, e.offset(t, e.at(idx, lane, by))), e.part(v, k, per), 8, p)
	}
	return nil
}

// part is the words of elements k to k+n-1, whose bits are a power of two.
func (e *elemental) part(v lanes.Vec, k, n int) []code.Value {
	w := v.Type.Bits()
	if n == v.N {
		return v.Words
	}
	if n*w < 32 {
		return []code.Value{e.Field(v.Words, k*w, n*w)}
	}
	return v.Words[k*w/32 : (k+n)*w/32]
}

func (e *elemental) write(t *Tensor, at place, words []code.Value, bits int, p code.Value) {
	imm := []int64{at.imm}
	first := code.OpStSharedB8
	if !t.Shared {
		imm, first = append(imm, int64(e.hints.Store)), code.OpStGlobalB8
	}
	op := first + map[int]code.Op{8: 0, 16: 1, 32: 2, 64: 4, 128: 5}[bits]
	if bits == 16 {
		words = []code.Value{e.Narrowed(words[0])}
	}
	e.Guard(p, op, imm, nil, append([]code.Value{at.base}, words...)...)
}
