package opt

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Remainder writes a remainder as what its quotient leaves, where the quotient is computed
// as well: x - (x / y) · y. GPUs have no instruction for either, and assemblers write each
// out, in some thirty instructions.
func Remainder(f *code.Func) bool {
	q := &remainders{f: f, at: map[quotient][]division{}}
	q.count(f.Body)
	if len(q.at) == 0 {
		return false
	}
	q.n = 0
	q.region(f.Body, map[quotient]bool{})
	return q.changed
}

// quotient is a division by its operands.
type quotient struct {
	op   code.Op
	x, y code.Value
}

// division is where one stands.
type division struct {
	n  int // in text order
	in *code.Instr
	r  *code.Region
}

// ofRemainder are the divisions of remainders, with what multiplies and subtracts.
var ofRemainder = map[code.Op][3]code.Op{
	code.OpRemU32: {code.OpDivU32, code.OpMul32, code.OpSub32},
	code.OpRemS32: {code.OpDivS32, code.OpMul32, code.OpSub32},
	code.OpRemU64: {code.OpDivU64, code.OpMul64, code.OpSub64},
	code.OpRemS64: {code.OpDivS64, code.OpMul64, code.OpSub64},
}

type remainders struct {
	f       *code.Func
	n       int // instructions so far, in text order
	at      map[quotient][]division
	changed bool
}

func isDivision(op code.Op) bool {
	return op == code.OpDivU32 || op == code.OpDivS32 || op == code.OpDivU64 || op == code.OpDivS64
}

// count notes the divisions.
func (q *remainders) count(r *code.Region) {
	for _, in := range r.Instrs {
		q.n++
		if isDivision(in.Op) && in.Guard == 0 {
			key := quotient{in.Op, in.In[0], in.In[1]}
			q.at[key] = append(q.at[key], division{q.n, in, r})
		}
		for _, sub := range in.Regions {
			q.count(sub)
		}
	}
}

// region rewrites the remainders of a region. done are the divisions in front of it that
// its instructions can use.
func (q *remainders) region(r *code.Region, done map[quotient]bool) {
	var mine []quotient // of done, of this region
	end := q.n + size(r) - 1
	out := make([]*code.Instr, 0, len(r.Instrs))
	for _, in := range r.Instrs {
		q.n++
		key, note := quotient{}, false
		if isDivision(in.Op) && in.Guard == 0 {
			key, note = quotient{in.Op, in.In[0], in.In[1]}, true
		}
		if ops, ok := ofRemainder[in.Op]; ok && in.Guard == 0 {
			key = quotient{ops[0], in.In[0], in.In[1]}
			all := q.at[key]
			next, _ := slices.BinarySearchFunc(all, q.n, func(d division, n int) int { return d.n - n })
			if done[key] || next < len(all) && all[next].n <= end {
				note = true
				t := q.f.Type(in.Out[0])
				ratio, whole := q.f.NewValue(t), q.f.NewValue(t)
				first := &code.Instr{Op: ops[0], In: []code.Value{key.x, key.y}, Out: []code.Value{ratio}, Pos: in.Pos}
				if !done[key] && all[next].r == r { // it stands for that one
					first.Exact, first.Pos = all[next].in.Exact, all[next].in.Pos
				}
				out = append(out, first,
					&code.Instr{Op: ops[1], In: []code.Value{ratio, key.y}, Out: []code.Value{whole}, Pos: in.Pos})
				in.Op, in.In, in.Exact = ops[2], []code.Value{key.x, whole}, code.MayWrap
				q.changed = true
			}
		}
		if note && !done[key] {
			done[key] = true
			mine = append(mine, key)
		}
		for _, sub := range in.Regions {
			q.region(sub, done)
		}
		out = append(out, in)
	}
	r.Instrs = out
	for _, key := range mine {
		delete(done, key)
	}
}
