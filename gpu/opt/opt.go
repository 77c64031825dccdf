// Package opt improves thread code. Each pass is a function from a verified
// function to an equal one; [Passes] is the list in the order in which they run,
// with the reason for each. No pass drops a memory access, barrier or exchange between
// lanes that would run; none moves one over another, but for [Vector], which moves
// accesses over what cannot touch the same bytes. Every instruction keeps its position.
package opt

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Pass is one step. Run changes the function in place and reports whether it
// changed anything.
type Pass struct {
	Name string
	Why  string
	Run  func(f *code.Func) bool
}

// Passes is the list, in order.
func Passes() []Pass {
	return []Pass{
		{"fold", "lowering writes general formulas; constants make most of them short", Fold},
		{"unroll", "loops that ask for it overlap the loads of several turns", Unroll},
		{"fold", "the turns of an unrolled loop differ by constants", Fold},
		{"index", "layouts take numbers apart that others put together, and ranges decide some tests", Index},
		{"fold", "what always or never holds takes branches and selections with it", Fold},
		{"offsets", "fragments of a swizzled tile lie constants apart, in sums and in XORs", Offsets},
		{"cse", "tiles compute the same address parts for every slot", Cse},
		{"narrow", "words are put together and taken apart bit by bit by different instructions of a program", Narrow},
		{"hoist", "what does not change in a loop is computed once before it", Hoist},
		{"regroup", "an index is a sum whose changing term stands anywhere in it", Regroup},
		{"hoist", "regrouping makes more that does not change", Hoist},
		{"cse", "hoisting brings equal values of several loops together", Cse},
		{"bump", "an address that moves in equal steps costs one addition a turn", Bump},
		{"fold", "what starts an address has constants in it", Fold},
		{"hoist", "what starts an address in an inner loop may be the same in every turn of the outer one", Hoist},
		{"cse", "addresses of one tensor start and move alike", Cse},
		{"ring", "the stage of a pipeline's turn is a remainder, and a division by a constant is slow", Ring},
		{"remainder", "what a quotient leaves is two instructions, a remainder by itself another division", Remainder},
		{"divide", "a product costs a fraction of a division", Divide},
		{"cse", "a quotient and a remainder share the quotient", Cse},
		{"vector", "what different instructions of a program, or turns of a loop, access side by side is one access", Vector},
		{"settle", "assemblers let an mbarrier be arrived at while loads in front of it are still to come", Settle},
		{"dce", "folding and merging leave values that nobody reads", Dce},
	}
}

// Observer sees the function after each pass; it must not change it.
type Observer func(pass Pass, f *code.Func)

// Run runs all passes on a copy of f and verifies the result; seen may
// be nil. A problem that a pass causes is a mistake of ours and comes back as an
// error that names the pass.
func Run(f *code.Func, seen Observer) (*code.Func, error) {
	if seen == nil {
		if out := Clone(f); InPlace(out) == nil {
			return out, nil
		}
	}
	f = Clone(f)
	for _, p := range Passes() {
		p.Run(f)
		if err := code.Verify(f).Err(); err != nil {
			return nil, fmt.Errorf("opt: after %s: %w", p.Name, err)
		}
		if seen != nil {
			seen(p, f)
		}
	}
	return f, nil
}

// InPlace runs all passes on f itself and verifies what comes out; [Run] says which pass
// an error is of. A pass that finds the function as it left it is left out: it would change
// nothing.
func InPlace(f *code.Func) error {
	changes, left := 0, map[string]int{} // by pass: changes, from 1 on, when it had run
	for _, p := range Passes() {
		if left[p.Name] == changes+1 {
			continue
		}
		if p.Run(f) {
			changes++
		}
		left[p.Name] = changes + 1
	}
	f.Stops = nil
	return code.Verify(f).Err()
}

// Clone is a copy that shares nothing that a pass changes.
func Clone(f *code.Func) *code.Func {
	g := *f
	g.Stops = nil
	g.Types = append([]code.Type(nil), f.Types...)
	c := &cloner{}
	c.count(f.Body)
	c.instrs, c.values, c.imms = make([]code.Instr, c.n), make([]code.Value, c.v), make([]int64, c.i)
	g.Body = c.region(f.Body)
	return &g
}

// cloner takes what a copy is made of from three lists, for there is much of it.
type cloner struct {
	n, v, i int // instructions, values, immediates
	instrs  []code.Instr
	values  []code.Value
	imms    []int64
}

func (c *cloner) count(r *code.Region) {
	c.n, c.v = c.n+len(r.Instrs), c.v+len(r.Args)+len(r.Yield)
	for _, in := range r.Instrs {
		c.v, c.i = c.v+len(in.In)+len(in.Out), c.i+len(in.Imm)
		for _, sub := range in.Regions {
			c.count(sub)
		}
	}
}

// part copies a list to the front of what is left of another one.
func part[T any](left *[]T, list []T) []T {
	n := copy(*left, list)
	out := (*left)[:n:n]
	*left = (*left)[n:]
	return out
}

func (c *cloner) region(r *code.Region) *code.Region {
	out := &code.Region{Args: part(&c.values, r.Args), Yield: part(&c.values, r.Yield), Instrs: make([]*code.Instr, len(r.Instrs))}
	for i, in := range r.Instrs {
		x := &c.instrs[0]
		c.instrs = c.instrs[1:]
		*x = *in
		x.In, x.Out, x.Imm, x.Regions = part(&c.values, in.In), part(&c.values, in.Out), part(&c.imms, in.Imm), nil
		for _, sub := range in.Regions {
			x.Regions = append(x.Regions, c.region(sub))
		}
		out.Instrs[i] = x
	}
	return out
}

// replacer maps values to the values that stand for them, 0 for themselves.
type replacer []code.Value

func (r replacer) of(v code.Value) code.Value {
	for int(v) < len(r) && r[v] != 0 {
		v = r[v]
	}
	return v
}

func (r *replacer) set(v, by code.Value) {
	*r = room(*r, v)
	(*r)[v] = by
}

func (r replacer) apply(region *code.Region) {
	if len(r) > 0 {
		region.Uses(func(v *code.Value) { *v = r.of(*v) })
	}
}

func (r replacer) inputs(in *code.Instr) {
	if len(r) == 0 {
		return
	}
	for i, v := range in.In {
		in.In[i] = r.of(v)
	}
	if in.Guard != 0 {
		in.Guard = r.of(in.Guard)
	}
}

// consts knows the values that are constants.
type consts []constant

type constant struct {
	bits  uint64
	known bool
}

func (c consts) get(v code.Value) (uint64, bool) {
	if int(v) < len(c) {
		return c[v].bits, c[v].known
	}
	return 0, false
}

// bits is the constant, 0 for other values.
func (c consts) bits(v code.Value) uint64 {
	n, _ := c.get(v)
	return n
}

func (c *consts) set(v code.Value, bits uint64) {
	*c = room(*c, v)
	(*c)[v] = constant{bits, true}
}

func isConst(op code.Op) bool { return op >= code.OpConstPred && op <= code.OpConst64 }

func constOp(t code.Type) code.Op {
	return [...]code.Op{code.OpInvalid, code.OpConstPred, code.OpConst16, code.OpConst32, code.OpConst64}[t]
}
