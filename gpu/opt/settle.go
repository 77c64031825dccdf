package opt

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Settle has threads arrive at an mbarrier only when what they loaded from shared memory is
// there: the address of the arrival then depends on it. An arrival says that the memory may be
// filled again, and the PTX memory model has reads in front of it done before it; but ptxas
// issues the arrival right behind the loads, and an H200, with some twenty warps that load,
// was seen to let a tensor copy overwrite what a load that waits for its turn was still to read
// (TestGPUOverlap of gpu/qmm/template finds that in a second without this pass). What is added
// is what was loaded times a number that is always 0, which ptxas does not know.
//
// It looks at the loads of the same turn of the same loop: what a loop loads, it uses. What a store, a
// product of a warpgroup or another access needs is there when that begins, and these keep their order.
func Settle(f *code.Func) bool {
	found := false
	f.Body.Walk(func(in *code.Instr) { found = found || arrives(in.Op) })
	if !found {
		return false
	}
	n := len(f.Types)
	s := &settler{f: f, deps: loadLists.lend(n), loop: intLists.lend(n), busy: boolLists.lend(n), def: instrLists.lend(n)}
	defer func() {
		loadLists.back(s.deps)
		intLists.back(s.loop)
		boolLists.back(s.busy)
		instrLists.back(s.def)
	}()
	f.Body.Walk(func(in *code.Instr) {
		for _, v := range in.Out {
			s.def[v] = in
		}
		if in.Row().InPlace { // registers of a product that may be under way
			for _, v := range in.In {
				s.busy[v] = true
			}
			for _, v := range in.Out {
				s.busy[v] = true
			}
		}
	})
	s.frame(f.Body)
	f.Body.Instrs = append(s.first, f.Body.Instrs...)
	return s.changed
}

// arrives reports whether an instruction arrives at an mbarrier.
func arrives(op code.Op) bool { return strings.HasPrefix(op.Row().Name, "mbarrier.arrive") }

// isLoad reports whether an instruction loads from shared memory.
func isLoad(in *code.Instr) bool {
	row := in.Row()
	return row.Class == code.Load && row.Space == code.Shared
}

// loads is a set of loads by number, of those of one turn of a loop.
type loads [4]uint64

const mostLoads = 256

func (l *loads) set(n int) { l[n/64] |= 1 << (n % 64) }

func (l *loads) add(m loads) {
	for i := range l {
		l[i] |= m[i]
	}
}

func (l *loads) drop(m loads) {
	for i := range l {
		l[i] &^= m[i]
	}
}

// common is what two sets have in common, and how many that are.
func (l loads) common(m loads) (both loads, n int) {
	for i := range l {
		both[i] = l[i] & m[i]
		n += bits.OnesCount64(both[i])
	}
	return both, n
}

type settler struct {
	f       *code.Func
	deps    []loads       // by value: what it was made of
	loop    []int         // by value: in which loop; what is of another counts for nothing
	busy    []bool        // by value
	def     []*code.Instr // by value
	loops   int
	changed bool
	zero    code.Value    // see nothing
	first   []*code.Instr // what makes it, in front of all others

	// Of the present loop:
	at     int
	n      int          // loads so far
	open   loads        // those that may not have come
	beyond []code.Value // of what loads beyond the first mostLoads loaded, a word each
	values []code.Value // in sight, made of loads
}

// frame does the body of a function or of a loop.
func (s *settler) frame(r *code.Region) {
	outer := *s
	s.loops++
	s.at, s.n, s.open, s.beyond, s.values = s.loops, 0, loads{}, nil, nil
	s.region(r)
	outer.deps, outer.loop, outer.busy, outer.def, outer.loops, outer.changed, outer.zero, outer.first = s.deps, s.loop, s.busy, s.def, s.loops, s.changed, s.zero, s.first
	*s = outer
}

// made is what values were made of.
func (s *settler) made(values []code.Value) (d loads) {
	for _, v := range values {
		if s.loop[v] == s.at {
			d.add(s.deps[v])
		}
	}
	return d
}

// note says what values are made of.
func (s *settler) note(values []code.Value, d loads) {
	if d == (loads{}) {
		return
	}
	for _, v := range values {
		s.deps[v], s.loop[v] = d, s.at
	}
	s.values = append(s.values, values...)
}

// settled reports whether an address depends on loads already.
func (s *settler) settled(v code.Value) bool {
	sum := s.def[v]
	return sum != nil && sum.Op == code.OpMad32 && s.isZero(sum.In[1])
}

// isZero reports whether a value is one that [settler.nothing] made.
func (s *settler) isZero(v code.Value) bool {
	shr := s.def[v]
	if shr == nil || shr.Op != code.OpShrU32 {
		return false
	}
	zeros := s.def[shr.In[0]]
	return zeros != nil && zeros.Op == code.OpClz32
}

// nothing is a number that is always 0, which ptxas does not know: the leading zeros of a word divided by 64.
// The word is the same for all threads of a block, so that the number needs none of their registers.
func (s *settler) nothing(pos diag.Pos) code.Value {
	if s.zero == 0 {
		var made []*code.Instr
		op := func(op code.Op, imm []int64, in ...code.Value) code.Value {
			v := s.value()
			s.def[v] = &code.Instr{Op: op, Imm: imm, In: in, Out: []code.Value{v}, Pos: pos}
			made = append(made, s.def[v])
			return v
		}
		s.zero = op(code.OpShrU32, nil, op(code.OpClz32, nil, op(code.OpCtaidX, nil)), op(code.OpConst32, []int64{6}))
		s.first = made
	}
	return s.zero
}

// value is a new word.
func (s *settler) value() code.Value {
	v := s.f.NewValue(code.B32)
	s.deps, s.loop, s.busy, s.def = room(s.deps, v), room(s.loop, v), room(s.busy, v), room(s.def, v)
	return v
}

// region does the instructions of a frame, or of an If in it.
func (s *settler) region(r *code.Region) {
	out := make([]*code.Instr, 0, len(r.Instrs))
	for _, in := range r.Instrs {
		if arrives(in.Op) && !s.settled(in.In[0]) {
			out = s.tie(out, in)
		}
		d := s.made(in.In)
		switch row := in.Row(); {
		case in.Op == code.OpIf:
			sight := len(s.values)
			for _, sub := range in.Regions {
				open, beyond := s.open, slices.Clip(s.beyond)
				s.region(sub)
				d.add(s.made(sub.Yield))
				s.open.add(open) // those who did not go there did not wait
				s.values, s.beyond = s.values[:sight], beyond
			}
			s.note(in.Out, d)
		case len(in.Regions) > 0:
			for _, sub := range in.Regions {
				s.frame(sub)
			}
		case isLoad(in):
			s.open.drop(d) // of its address
			if s.n == mostLoads {
				s.beyond = append(s.beyond, in.Out[0])
				break
			}
			d = loads{}
			d.set(s.n)
			s.open.set(s.n)
			s.n++
			s.note(in.Out, d)
		case row.Class == code.Pure || row.Class == code.Special || row.Class == code.Matrix || row.Through:
			s.note(in.Out, d)
		default:
			s.open.drop(d)
		}
		out = append(out, in)
	}
	r.Instrs = out
}

// tie has the address of an arrival depend on all open loads, through as few values as it finds,
// early ones first.
func (s *settler) tie(out []*code.Instr, at *code.Instr) []*code.Instr {
	words := slices.DeleteFunc(slices.Clone(s.beyond), func(v code.Value) bool { return s.busy[v] || s.f.Type(v) != code.B32 })
	for {
		best, most, have := code.Value(0), 0, loads{}
		for _, v := range s.values {
			if both, n := s.open.common(s.deps[v]); n > most && !s.busy[v] && s.f.Type(v) == code.B32 {
				best, most, have = v, n, both
			}
		}
		if best == 0 {
			break // what is left is in registers of products, or is no word
		}
		s.open.drop(have)
		words = append(words, best)
	}
	if len(words) == 0 {
		return out
	}
	op := func(op code.Op, in ...code.Value) code.Value {
		v := s.value()
		s.def[v] = &code.Instr{Op: op, In: in, Out: []code.Value{v}, Pos: at.Pos}
		out = append(out, s.def[v])
		return v
	}
	all := words[0]
	for _, w := range words[1:] {
		all = op(code.OpXor32, all, w)
	}
	at.In[0] = op(code.OpMad32, all, s.nothing(at.Pos), at.In[0])
	s.beyond, s.changed = nil, true
	return out
}
