package opt

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Vector makes one access of several that lie side by side in memory, where the
// address of the first is a multiple of what they take together: loads of different
// instructions of a program, or of the turns of an unrolled loop. Lowering makes
// accesses of one instruction as wide as they can be.
//
// Loads go to the first of them, stores to the last, and only past what cannot touch
// the same bytes; never past a barrier, a branch or a loop. An index in an address wraps
// at 32 bits and an address does not: [Bump] says why accesses that are all made do not
// show it.
func Vector(f *code.Func) bool {
	if !severalNarrow(f.Body) {
		return false
	}
	v := &vectoriser{f: f, zeros: zeros(f), def: instrLists.lend(len(f.Types)), params: map[code.Value]*code.Param{}}
	for i, a := range f.Body.Args {
		v.params[a] = &f.Params[i]
	}
	v.buffers = v.origins()
	v.region(f.Body)
	intLists.back(v.zeros)
	instrLists.back(v.def)
	return v.changed
}

// severalNarrow says whether a region has accesses of words that two of could be one.
func severalNarrow(r *code.Region) bool {
	n := 0
	for _, in := range r.Instrs {
		switch in.Op {
		case code.OpLdGlobalB32, code.OpLdGlobalV2B32, code.OpLdSharedB32, code.OpLdSharedV2B32, code.OpStGlobalB32, code.OpStGlobalV2B32, code.OpStSharedB32, code.OpStSharedV2B32:
			if n++; n > 1 {
				return true
			}
		}
		if slices.ContainsFunc(in.Regions, severalNarrow) {
			return true
		}
	}
	return false
}

// near bounds how many instructions an access moves over, so that what is loaded does
// not wait in registers for long.
const near = 96

// vectorBytes is the widest access.
const vectorBytes = 16

type vectoriser struct {
	f       *code.Func
	zeros   []int
	def     []*code.Instr
	params  map[code.Value]*code.Param
	buffers map[code.Value]code.Value // the pointer parameter that an address was made of
	changed bool
}

// spot is where an access lies: at a value, or at scale bytes times an index from a
// pointer, and a constant.
type spot struct {
	space       code.Space
	base, index code.Value
	scale       int64
	at          int64
}

// sameBase reports whether two spots differ by a constant.
func (s spot) sameBase(t spot) bool { s.at, t.at = 0, 0; return s == t }

// member is an access of one row of [wordAccesses].
type member struct {
	in    *code.Instr
	place int // among the instructions of the region
	spot  spot
	bytes int64
}

// wordAccesses are accesses of whole words by space and words, loads and stores.
var wordAccesses = map[bool]map[code.Space]map[int64]code.Op{
	false: {
		code.Global: {4: code.OpLdGlobalB32, 8: code.OpLdGlobalV2B32, 16: code.OpLdGlobalV4B32},
		code.Shared: {4: code.OpLdSharedB32, 8: code.OpLdSharedV2B32, 16: code.OpLdSharedV4B32},
	},
	true: {
		code.Global: {4: code.OpStGlobalB32, 8: code.OpStGlobalV2B32, 16: code.OpStGlobalV4B32},
		code.Shared: {4: code.OpStSharedB32, 8: code.OpStSharedV2B32, 16: code.OpStSharedV4B32},
	},
}

func (v *vectoriser) region(r *code.Region) {
	var open [2][]*member // loads and stores that may still find a neighbour
	gone := map[*code.Instr]bool{}
	become := map[*code.Instr]*code.Instr{}
	flush := func(store int, which func(*member) bool) {
		var take []*member
		open[store] = slices.DeleteFunc(open[store], func(m *member) bool {
			if which(m) {
				take = append(take, m)
				return true
			}
			return false
		})
		v.join(take, store == 1, gone, become)
	}
	all := func(*member) bool { return true }
	for place, in := range r.Instrs {
		for _, x := range in.Out {
			v.def[x] = in
		}
		row := in.Row()
		for _, sub := range in.Regions {
			v.region(sub)
		}
		switch {
		case row.Movable(), row.Class == code.Matrix, row.Class == code.Warp:
			continue
		case row.Class == code.Load, row.Class == code.Store:
		default:
			flush(0, all)
			flush(1, all)
			continue
		}
		at := v.spotOf(in)
		n := int64(row.Unit * row.Count)
		if row.Collective {
			at.base = 0
		}
		store := 0
		if row.Class == code.Store {
			store = 1
		}
		// An open store may move over this access, and a load that is to come over this
		// store: where that one lies is open, but for its base.
		space := func(m *member) bool { return m.spot.space == at.space }
		if slices.ContainsFunc(open[1], func(m *member) bool { return !v.apart(m.spot, at) && !disjoint(m.spot, m.bytes, at, n) }) {
			flush(1, space)
		}
		if store == 1 && slices.ContainsFunc(open[0], func(m *member) bool { return !v.apart(m.spot, at) }) {
			flush(0, space)
		}
		for k := range open {
			if i := slices.IndexFunc(open[k], func(m *member) bool { return place-m.place > near }); i >= 0 {
				old := open[k][i]
				flush(k, func(m *member) bool { return m.spot.sameBase(old.spot) })
			}
		}
		if op, ok := wordAccesses[store == 1][row.Space][n]; ok && op == in.Op && !row.Collective {
			open[store] = append(open[store], &member{in, place, at, n})
		}
	}
	flush(0, all)
	flush(1, all)
	if len(become) == 0 {
		return
	}
	v.changed = true
	out := r.Instrs[:0]
	for _, in := range r.Instrs {
		switch {
		case become[in] != nil:
			out = append(out, become[in])
		case !gone[in]:
			out = append(out, in)
		}
	}
	r.Instrs = out
}

// spotOf is where a load or store has its address.
func (v *vectoriser) spotOf(in *code.Instr) spot {
	a := in.Row().Addresses()[0]
	s := spot{space: a.Space, base: in.In[a.In], at: in.Imm[a.Imm]}
	d := v.def[s.base]
	if d == nil || d.Op != code.OpMadWideS32 || v.params[d.In[2]] == nil || v.params[d.In[2]].Kind != code.Pointer {
		return s
	}
	scale := v.def[d.In[1]]
	if scale == nil || scale.Op != code.OpConst32 || int32(scale.Imm[0]) <= 0 {
		return s
	}
	s.base, s.index, s.scale = d.In[2], d.In[0], scale.Imm[0]
	if sum := v.def[s.index]; sum != nil && sum.Op == code.OpAdd32 {
		if c := v.def[sum.In[1]]; c != nil && c.Op == code.OpConst32 {
			s.index, s.at = sum.In[0], s.at+int64(int32(c.Imm[0]))*s.scale
		}
	}
	return s
}

// apart reports whether accesses with these bases surely share no byte.
func (v *vectoriser) apart(a, b spot) bool {
	p, q := v.buffers[a.base], v.buffers[b.base]
	return a.space != b.space || p != 0 && q != 0 && p != q && (v.params[p].NoAlias || v.params[q].NoAlias)
}

// disjoint reports whether n bytes at a and m at b surely share none.
func disjoint(a spot, n int64, b spot, m int64) bool {
	return a.base != 0 && a.sameBase(b) && (a.at+n <= b.at || b.at+m <= a.at)
}

// join makes wide accesses of those that can be joined.
func (v *vectoriser) join(list []*member, store bool, gone map[*code.Instr]bool, become map[*code.Instr]*code.Instr) {
	for len(list) > 0 {
		first := list[0]
		var like, rest []*member
		for _, m := range list {
			same := m.spot.sameBase(first.spot) && m.in.Guard == first.in.Guard
			same = same && slices.Equal(m.in.Imm[1:], first.in.Imm[1:])
			if same && m.in.Guard != 0 && !store { // what lanes get that are left out is there already
				same = only(first.in.In[1], m.in.In[1:]) && only(first.in.In[1], first.in.In[1:])
			}
			if same || m == first {
				like = append(like, m)
			} else {
				rest = append(rest, m)
			}
		}
		list = rest
		slices.SortStableFunc(like, func(a, b *member) int { return cmp.Compare(a.spot.at, b.spot.at) })
		for len(like) > 1 {
			n := v.fit(like)
			if n > 1 {
				v.merge(like[:n], store, gone, become)
			}
			like = like[n:]
		}
	}
}

// only reports whether all of some values are x.
func only(x code.Value, values []code.Value) bool {
	return !slices.ContainsFunc(values, func(y code.Value) bool { return y != x })
}

// fit is how many of the first accesses make one; 1 if only the first itself.
func (v *vectoriser) fit(like []*member) int {
	best, end := 1, like[0].spot.at+like[0].bytes
	for n := 2; n <= len(like); n++ {
		m := like[n-1]
		if m.spot.at != end {
			break
		}
		end += m.bytes
		size := end - like[0].spot.at
		if size > vectorBytes {
			break
		}
		if size&(size-1) == 0 && v.aligned(like, size) {
			best = n
		}
	}
	return best
}

// aligned reports whether the first of some accesses lies at a multiple of size: as its
// address tells, or because one of them would be a mistake otherwise.
func (v *vectoriser) aligned(like []*member, size int64) bool {
	a := like[0].in.Row().Addresses()[0]
	if x := min(v.zeros[like[0].in.In[a.In]], trailing(like[0].in.Imm[a.Imm])); int64(1)<<min(x, 16) >= size {
		return true
	}
	for _, m := range like {
		if m.bytes >= size && (m.spot.at-like[0].spot.at)%size == 0 {
			return true
		}
	}
	return false
}

func trailing(n int64) int {
	if n == 0 {
		return 64
	}
	return bits.TrailingZeros64(uint64(n))
}

// merge joins accesses in the order of memory, the loads where the first of them stands,
// the stores where the last does.
func (v *vectoriser) merge(parts []*member, store bool, gone map[*code.Instr]bool, become map[*code.Instr]*code.Instr) {
	stand := parts[0]
	bytes := int64(0)
	for _, m := range parts {
		bytes += m.bytes
		if store == (m.place > stand.place) {
			stand = m
		}
		gone[m.in] = true
	}
	like := stand.in
	wide := &code.Instr{Op: wordAccesses[store][stand.spot.space][bytes], In: []code.Value{like.In[0]}, Imm: slices.Clone(like.Imm), Guard: like.Guard, Pos: like.Pos}
	wide.Imm[0] -= stand.spot.at - parts[0].spot.at
	for _, m := range parts {
		if store {
			wide.In = append(wide.In, m.in.In[1:]...)
		} else {
			wide.Out = append(wide.Out, m.in.Out...)
			wide.In = append(wide.In, m.in.In[1:]...) // what lanes get that the guard leaves out
		}
	}
	become[like] = wide
}

// origins finds the parameter that each address was made of. A loop's address is of one
// where both its start and what a turn makes of it are.
func (v *vectoriser) origins() map[code.Value]code.Value {
	of, lost := map[code.Value]code.Value{}, map[code.Value]bool{}
	for a, p := range v.params {
		if p.Kind == code.Pointer {
			of[a] = a
		}
	}
	var region func(r *code.Region)
	carry := func(args, start, next []code.Value) {
		for i, a := range args {
			if from := of[start[i]]; from != 0 && !lost[a] {
				of[a] = from
			}
			if of[a] != 0 && next != nil && of[next[i]] != of[a] {
				delete(of, a)
				lost[a] = true
			}
		}
	}
	region = func(r *code.Region) {
		for _, in := range r.Instrs {
			switch in.Op {
			case code.OpAdd64:
				if a, b := of[in.In[0]], of[in.In[1]]; a == 0 || b == 0 {
					of[in.Out[0]] = a + b
				}
			case code.OpSub64:
				if of[in.In[1]] == 0 {
					of[in.Out[0]] = of[in.In[0]]
				}
			case code.OpMadWideS32, code.OpMadWideU32:
				of[in.Out[0]] = of[in.In[2]]
			case code.OpFor, code.OpWhile:
				args, start := in.Regions[0].Args, in.In
				if in.Op == code.OpFor {
					args, start = args[1:], start[3:]
				}
				for n := -1; n != len(lost); { // losing one may lose others
					n = len(lost)
					carry(args, start, nil)
					for _, sub := range in.Regions {
						region(sub)
					}
					carry(args, start, in.Regions[len(in.Regions)-1].Yield)
				}
				for i, x := range in.Out {
					of[x] = of[args[i]]
				}
			case code.OpIf:
				for _, sub := range in.Regions {
					region(sub)
				}
				for i, x := range in.Out {
					if a := of[in.Regions[0].Yield[i]]; a == of[in.Regions[1].Yield[i]] {
						of[x] = a
					}
				}
			}
		}
	}
	region(v.f.Body)
	return of
}

// zeros counts the low bits of each value that are surely 0; 64 of a value that is 0.
func zeros(f *code.Func) []int {
	z := &zeroBits{f: f, low: intLists.lend(len(f.Types)), consts: numberLists.lend(len(f.Types))}
	for i := range z.low {
		z.low[i] = 64 // until something says less
	}
	for i, a := range f.Body.Args {
		switch p := f.Params[i]; {
		case p.Kind == code.Pointer:
			z.low[a] = 4 // as lowering has it
		case p.Divisor > 1:
			z.low[a] = trailing(p.Divisor)
		default:
			z.low[a] = 0
		}
	}
	for z.changed = true; z.changed; {
		z.changed = false
		z.region(f.Body)
	}
	numberLists.back(z.consts)
	return z.low
}

type zeroBits struct {
	f       *code.Func
	low     []int
	consts  []int64
	changed bool
}

// lower notes that a value has at most n such bits.
func (z *zeroBits) lower(v code.Value, n int) {
	if n < z.low[v] {
		z.low[v], z.changed = n, true
	}
}

func (z *zeroBits) region(r *code.Region) {
	for _, in := range r.Instrs {
		if len(in.Regions) > 0 {
			z.control(in)
			continue
		}
		n := 0
		if len(in.Out) == 1 {
			n = z.of(in)
		}
		for _, v := range in.Out {
			z.lower(v, n)
		}
	}
}

func (z *zeroBits) control(in *code.Instr) {
	carried, args := in.In, in.Regions[0].Args
	if in.Op == code.OpFor {
		z.lower(args[0], min(z.low[in.In[0]], z.low[in.In[2]]))
		carried, args = in.In[3:], args[1:]
	}
	last := in.Regions[len(in.Regions)-1]
	if in.Op != code.OpIf {
		for i, a := range args {
			z.lower(a, min(z.low[carried[i]], z.low[last.Yield[i]]))
		}
	}
	for _, sub := range in.Regions {
		z.region(sub)
	}
	for i, v := range in.Out {
		if in.Op == code.OpIf {
			z.lower(v, min(z.low[in.Regions[0].Yield[i]], z.low[last.Yield[i]]))
		} else {
			z.lower(v, min(z.low[carried[i]], z.low[last.Yield[i]]))
		}
	}
}

// of is what an instruction of one result has.
func (z *zeroBits) of(in *code.Instr) int {
	a := func(i int) int { return z.low[in.In[i]] }
	sum := func(x, y int) int { return min(x+y, 64) }
	switch in.Op {
	case code.OpConst16, code.OpConst32, code.OpConst64:
		z.consts[in.Out[0]] = in.Imm[0]
		return trailing(in.Imm[0])
	case code.OpSharedBase:
		return 10
	case code.OpAdd32, code.OpAdd64, code.OpSub32, code.OpSub64, code.OpOr32, code.OpXor32, code.OpSelp32, code.OpSelp64,
		code.OpMinS32, code.OpMinU32, code.OpMaxS32, code.OpMaxU32, code.OpRemU32, code.OpRemS32:
		return min(a(0), a(1))
	case code.OpAnd32:
		return max(a(0), a(1))
	case code.OpMul32, code.OpMul64, code.OpMulWideS32, code.OpMulWideU32:
		return sum(a(0), a(1))
	case code.OpMad32, code.OpMadWideS32, code.OpMadWideU32:
		return min(sum(a(0), a(1)), a(2))
	case code.OpShl32, code.OpShl64:
		return sum(a(0), int(min(z.consts[in.In[1]], 64)))
	case code.OpShrU32:
		return max(0, a(0)-int(z.shift(in.In[1])))
	case code.OpZext32, code.OpSext32, code.OpTrunc32:
		return a(0)
	}
	return 0
}

// shift is by how much a value shifts at most.
func (z *zeroBits) shift(v code.Value) int64 {
	if c := z.consts[v]; c != 0 {
		return c
	}
	return 64
}
