package opt

import (
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Unroll writes the body of a loop that asks for it several times in a row, and
// the turns that are left over after it: one by one where their number is known,
// as a rolled loop where it is not. A loop that is short enough goes away, and any loop
// of at most one turn. A body that would grow beyond maxUnrolled instructions stays
// rolled.
func Unroll(f *code.Func) bool {
	u := &unroller{f: f, consts: constLists.lend(len(f.Types)), same: valueLists.lend(len(f.Types))[:0]}
	u.region(f.Body)
	u.same.apply(f.Body)
	constLists.back(u.consts)
	valueLists.back(u.same)
	return u.changed
}

const maxUnrolled = 1 << 14

type unroller struct {
	f       *code.Func
	consts  consts
	same    replacer
	out     []*code.Instr
	changed bool
}

func (u *unroller) region(r *code.Region) {
	outer := u.out
	u.out = nil
	for _, in := range r.Instrs {
		if isConst(in.Op) {
			u.consts.set(in.Out[0], uint64(in.Imm[0]))
		}
		for _, sub := range in.Regions {
			u.region(sub)
		}
		if in.Op != code.OpFor || !u.loop(in) {
			u.out = append(u.out, in)
		}
	}
	r.Instrs, u.out = u.out, outer
}

func (u *unroller) emit(like *code.Instr, op code.Op, t code.Type, imm []int64, in ...code.Value) code.Value {
	v := u.f.NewValue(t)
	u.out = append(u.out, &code.Instr{Op: op, In: in, Out: []code.Value{v}, Imm: imm, Pos: like.Pos})
	return v
}

func (u *unroller) constant(like *code.Instr, v int64) code.Value {
	c := u.emit(like, code.OpConst32, code.B32, []int64{int64(uint32(v))})
	u.consts.set(c, uint64(uint32(v)))
	return c
}

// loop replaces one loop and reports whether it did.
func (u *unroller) loop(in *code.Instr) bool {
	number := func(v code.Value) (int64, bool) {
		c, ok := u.consts.get(v)
		return int64(int32(uint32(c))), ok
	}
	start, ok1 := number(in.In[0])
	end, fixed := number(in.In[1])
	step, ok2 := number(in.In[2])
	n := in.Imm[0]
	if !ok1 || !ok2 || step < 1 {
		return false
	}
	trips := int64(math.MaxInt64)
	if fixed {
		trips = max(0, (end-start+step-1)/step)
		n = min(n, max(trips, 1))
	}
	if n <= 1 && trips > 1 {
		return false
	}
	if n*int64(size(in.Regions[0])) > maxUnrolled || n*step > math.MaxInt32 || !fixed && start < 0 {
		return false
	}
	u.changed = true
	carried := in.In[3:]
	if fixed {
		full := trips / n * n
		if full == n || full == 0 {
			full = 0
		} else {
			last := u.constant(in, start+full*step)
			carried = u.rolled(in, in.In[0], last, n, carried, false)
		}
		for k := full; k < trips; k++ {
			carried = u.body(in, u.constant(in, start+k*step), carried)
		}
	} else {
		// The last turn that has n-1 others after it starts below end - (n-1)·step;
		// max keeps the subtraction from wrapping.
		last := u.emit(in, code.OpMaxS32, code.B32, nil, in.In[1], in.In[0])
		last = u.emit(in, code.OpSub32, code.B32, nil, last, u.constant(in, (n-1)*step))
		carried = u.rolled(in, in.In[0], last, n, carried, true)
		rest := &code.Instr{Op: code.OpFor, Imm: []int64{1}, Pos: in.Pos, Out: in.Out, Regions: in.Regions,
			In: append([]code.Value{carried[len(carried)-1], in.In[1], in.In[2]}, carried[:len(carried)-1]...)}
		u.out = append(u.out, rest)
		return true
	}
	for i, v := range in.Out {
		u.same.set(v, carried[i])
	}
	return true
}

// rolled adds a loop of n bodies per turn and gives its results; with next the
// last of them is the index at which it stopped.
func (u *unroller) rolled(in *code.Instr, start, end code.Value, n int64, init []code.Value, next bool) []code.Value {
	step, _ := u.consts.get(in.In[2])
	head := []code.Value{start, end, u.constant(in, n*int64(step))}
	init = append([]code.Value(nil), init...)
	if next {
		init = append(init, start)
	}
	like := func(vals []code.Value) []code.Value {
		out := make([]code.Value, len(vals))
		for i, v := range vals {
			out[i] = u.f.NewValue(u.f.Type(v))
		}
		return out
	}
	index := u.f.NewValue(code.B32)
	args := like(init)
	outer := u.out
	u.out = nil
	carried := args[:len(in.In)-3]
	i := index
	for k := range n {
		if k > 0 {
			i = u.emit(in, code.OpAdd32, code.B32, nil, index, u.constant(in, k*int64(step)))
		}
		carried = u.body(in, i, carried)
	}
	if next {
		after := u.emit(in, code.OpAdd32, code.B32, nil, index, u.constant(in, n*int64(step)))
		carried = append(append([]code.Value(nil), carried...), after)
	}
	r := &code.Region{Args: append([]code.Value{index}, args...), Instrs: u.out, Yield: carried}
	u.out = outer
	loop := &code.Instr{Op: code.OpFor, In: append(head, init...), Out: like(init), Imm: []int64{1}, Regions: []*code.Region{r}, Pos: in.Pos}
	u.out = append(u.out, loop)
	return loop.Out
}

// body adds one copy of the loop's body and gives what it yields.
func (u *unroller) body(in *code.Instr, index code.Value, carried []code.Value) []code.Value {
	r := in.Regions[0]
	names := renamed{r.Args[0]: index}
	for i, a := range r.Args[1:] {
		names[a] = carried[i]
	}
	u.out = append(u.out, u.copies(r.Instrs, names)...)
	out := make([]code.Value, len(r.Yield))
	for i, y := range r.Yield {
		out[i] = u.named(names, y)
	}
	return out
}

// renamed are the values of one copy, by those that it is a copy of.
type renamed map[code.Value]code.Value

// named looks a value up once: the new values of one copy may be the old ones of
// another.
func (u *unroller) named(names renamed, v code.Value) code.Value {
	v = u.same.of(v)
	if to, ok := names[v]; ok {
		return to
	}
	return v
}

func (u *unroller) copies(list []*code.Instr, names renamed) []*code.Instr {
	all := func(vals []code.Value) []code.Value {
		out := make([]code.Value, len(vals))
		for i, v := range vals {
			out[i] = u.named(names, v)
		}
		return out
	}
	fresh := func(vals []code.Value) []code.Value {
		out := make([]code.Value, len(vals))
		for i, v := range vals {
			out[i] = u.f.NewValue(u.f.Type(v))
			names[v] = out[i]
		}
		return out
	}
	out := make([]*code.Instr, 0, len(list))
	for _, in := range list {
		c := &code.Instr{Op: in.Op, In: all(in.In), Imm: append([]int64(nil), in.Imm...), Exact: in.Exact, Pos: in.Pos}
		if in.Guard != 0 {
			c.Guard = u.named(names, in.Guard)
		}
		for _, r := range in.Regions {
			args := fresh(r.Args)
			body := u.copies(r.Instrs, names)
			c.Regions = append(c.Regions, &code.Region{Args: args, Instrs: body, Yield: all(r.Yield)})
		}
		c.Out = fresh(in.Out)
		if isConst(c.Op) {
			u.consts.set(c.Out[0], uint64(c.Imm[0]))
		}
		out = append(out, c)
	}
	return out
}

// size is the number of instructions of a region.
func size(r *code.Region) int {
	n := 1
	r.Walk(func(*code.Instr) { n++ })
	return n
}
