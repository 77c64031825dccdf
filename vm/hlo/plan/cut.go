package plan

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// group is what one kernel computes.
type group struct {
	level int
	roots []*hlo.Instruction
}

// cut decides which values get buffers, puts them into groups and plans a kernel for each.
func (b *planner) cut(roots []*hlo.Instruction) {
	forced := b.forced(roots)
	isTarget := map[*hlo.Instruction]bool{}
	for _, r := range roots {
		isTarget[r] = true
	}
	for in := range forced {
		isTarget[in] = true
	}
	stop := func(in *hlo.Instruction) bool { return isTarget[in] }
	// Rows that stay in registers: all results in one kernel, or single ones.
	whole := false
	if len(forced) == 0 {
		c, _ := b.part(b.c.Name, roots, func(*hlo.Instruction) bool { return false })
		_, whole = onePass(c, b.d)
	}
	if whole {
		b.kernel(b.c.Name, roots, stop)
		return
	}
	var loops []*hlo.Instruction // targets whose instructions may be cut further
	for _, in := range b.c.Instructions {
		if !isTarget[in] {
			continue
		}
		c, _ := b.part(b.c.Name, []*hlo.Instruction{in}, stop)
		if _, ok := onePass(c, b.d); !ok {
			loops = append(loops, in)
		}
	}
	for _, in := range b.recomputed(loops, isTarget) {
		isTarget[in] = true
	}
	for _, g := range b.groups(isTarget, stop) {
		name := b.c.Name
		if len(isTarget) > len(g.roots) {
			name += "_" + g.roots[0].Name
		}
		b.kernel(name, g.roots, stop)
	}
}

// forced are the values that must lie in memory: scatters, and what they scatter into.
func (b *planner) forced(roots []*hlo.Instruction) map[*hlo.Instruction]bool {
	out := map[*hlo.Instruction]bool{}
	for _, in := range b.needed(roots) {
		if in.Op != hlo.Scatter || in.Shape.IsTuple() {
			continue
		}
		if !slices.Contains(roots, in) || len(roots) > 1 {
			out[in] = true
		}
		if o := in.Operands[0]; o.Op != hlo.Parameter {
			out[o] = true
		}
	}
	return out
}

// needed are the instructions that the roots need, in order.
func (b *planner) needed(roots []*hlo.Instruction) []*hlo.Instruction {
	need := make([]bool, len(b.c.Instructions))
	for _, r := range roots {
		need[r.Index] = true
	}
	for i := len(need) - 1; i >= 0; i-- {
		if need[i] {
			for _, o := range b.c.Instructions[i].Operands {
				need[o.Index] = true
			}
		}
	}
	var out []*hlo.Instruction
	for i, in := range b.c.Instructions {
		if need[i] {
			out = append(out, in)
		}
	}
	return out
}

// perElement is how many elements of an operand one element of an instruction is
// computed from.
func perElement(in *hlo.Instruction) int {
	switch in.Op {
	case hlo.Reduce:
		n := 1
		for _, d := range in.Dims {
			n *= in.Operands[0].Shape.Dims[d]
		}
		return n
	case hlo.ReduceWindow:
		n := 1
		for _, w := range in.Window {
			n *= w.Size
		}
		return n
	case hlo.Dot:
		n := 1
		for _, d := range in.Dot.LHSContract {
			n *= in.Operands[0].Shape.Dims[d]
		}
		return n
	}
	return 1
}

// recomputed finds what the targets would compute more often than once an element, or
// slowly, and what is therefore computed into a buffer before.
func (b *planner) recomputed(targets []*hlo.Instruction, isTarget map[*hlo.Instruction]bool) []*hlo.Instruction {
	heroes := map[*hlo.Instruction]bool{}
	evaluated := make([]float64, len(b.c.Instructions))
	isLoop := map[*hlo.Instruction]bool{}
	for _, t := range targets {
		isLoop[t] = true
		for _, h := range reduceHeroes(t, b.d) {
			heroes[h] = true
		}
	}
	var out []*hlo.Instruction
	for i := len(b.c.Instructions) - 1; i >= 0; i-- {
		in := b.c.Instructions[i]
		n := float64(in.Shape.Outputs()[0].Elements())
		switch {
		case isLoop[in]:
			evaluated[i] = n
		case isTarget[in] || evaluated[i] == 0:
			continue
		}
		many := perElement(in)
		if many > 1 && !in.Shape.IsTuple() && !isTarget[in] {
			again := evaluated[i] > n
			slow := in.Op == hlo.Reduce && !heroes[in] && reduce(in.Operands[0].Shape, in.Dims, widthsIn(b.c), b.d).Reason != "elemental"
			if (again && many > 4) || slow {
				out = append(out, in)
				evaluated[i] = n
				for _, h := range reduceHeroes(in, b.d) {
					heroes[h] = true
				}
			}
		}
		for _, o := range in.Operands {
			evaluated[o.Index] = max(evaluated[o.Index], evaluated[i]*float64(perElement(in)))
		}
	}
	return out
}

// groups puts targets that one emitter computes together into groups, in an order in
// which no group needs a later one.
func (b *planner) groups(isTarget map[*hlo.Instruction]bool, stop func(*hlo.Instruction) bool) []group {
	level := make([]int, len(b.c.Instructions)) // of the deepest target below
	var out []group
	for i, in := range b.c.Instructions {
		for _, o := range in.Operands {
			l := level[o.Index]
			if isTarget[o] && o.Op != hlo.Parameter {
				l++
			}
			level[i] = max(level[i], l)
		}
		if !isTarget[in] {
			continue
		}
		found := false
		for j := range out {
			g := &out[j]
			if g.level == level[i] && b.together(append(slices.Clone(g.roots), in), stop) {
				g.roots, found = append(g.roots, in), true
				break
			}
		}
		if !found {
			out = append(out, group{level[i], []*hlo.Instruction{in}})
		}
	}
	slices.SortStableFunc(out, func(x, y group) int { return x.level - y.level })
	return out
}

// together says whether one kernel computes the roots as well as several would.
func (b *planner) together(roots []*hlo.Instruction, stop func(*hlo.Instruction) bool) bool {
	for _, r := range roots {
		if r.Shape.IsTuple() || r.Op == hlo.Scatter || r.Op == hlo.DynamicUpdateSlice {
			return false
		}
	}
	c, args := b.part("", roots, stop)
	if len(args)+len(roots) > MaxArguments {
		return false
	}
	rs := c.Roots()
	if len(groupsOf(c, rs)) > 1 {
		return false
	}
	if _, ok := onePass(c, b.d); ok {
		return true
	}
	k := b.choose(c)
	switch k.Emitter {
	case RowEmitter, MultiRowEmitter, ColumnEmitter, SmallColumnEmitter, RowSplitEmitter, ColumnSplitEmitter:
		return true
	case TransposeEmitter:
		return len(k.Heroes)+len(k.SideOutputs) >= len(rs)
	case LoopEmitter:
		if !slices.ContainsFunc(rs, func(r *hlo.Instruction) bool {
			return r.Op != hlo.GetTupleElement || r.Operands[0] != rs[0].Operands[0]
		}) {
			return true // one reduction of several operands gives them all
		}
		n := rs[0].Shape.Elements()
		for _, r := range rs {
			if r.Shape.Elements() != n || len(reduceHeroes(r, b.d)) > 0 || Hero(r, b.d) != r {
				return false
			}
		}
		return true
	}
	return false
}

// kernel plans the kernel of a group and gives its roots buffers.
func (b *planner) kernel(name string, roots []*hlo.Instruction, stop func(*hlo.Instruction) bool) {
	c, args := b.part(name, roots, stop)
	k, ok := onePass(c, b.d)
	if !ok {
		k = b.choose(c)
	}
	k.Computation, k.Args = c, args
	final := b.c.Roots()
	for _, r := range roots {
		at := -1
		n := len(b.c.Params)
		for _, f := range final {
			if f == r {
				at = n
				break
			}
			n += len(f.Shape.Outputs())
		}
		if at < 0 {
			if at = b.scatteredInto(r, final); at < 0 {
				at = b.scatteredFrom(r)
			}
			if at < 0 {
				at = b.buffer(r.Name, TemporaryBuffer, r.Shape)
			}
			b.plan.Temporaries = append(b.plan.Temporaries, r)
		}
		if r.Op != hlo.Parameter {
			b.at[r] = at
		}
		for i := range r.Shape.Outputs() {
			k.Results = append(k.Results, at+i)
		}
	}
	if k.Chunks > 1 {
		outputs := 1
		for _, h := range k.Heroes {
			for j, s := range h.Shape.Outputs() {
				outputs = s.Elements()
				k.Work = append(k.Work, b.buffer(fmt.Sprintf("%s_partial%d", h.Name, j), PartialBuffer, hlo.Array(s.Type, k.Chunks, outputs)))
			}
		}
		k.Work = append(k.Work, b.buffer(k.Heroes[0].Name+"_counter", CounterBuffer, hlo.Array(hlo.U32, k.Blocks[0])))
	}
	b.finish(k)
}

// scatteredInto is the result buffer in which a value may be made because its only use is
// to be scattered into there, or -1.
func (b *planner) scatteredInto(r *hlo.Instruction, final []*hlo.Instruction) int {
	users := b.c.Users()[r.Index]
	if len(users) != 1 || users[0].Op != hlo.Scatter || users[0].Operands[0] != r || slices.Contains(users[0].Operands[1:], r) {
		return -1
	}
	n := len(b.c.Params)
	for _, f := range final {
		if f == users[0] {
			return n
		}
		n += len(f.Shape.Outputs())
	}
	return -1
}

// scatteredFrom is the temporary that only a scatter reads, which works in place there, or
// -1.
func (b *planner) scatteredFrom(r *hlo.Instruction) int {
	if r.Op != hlo.Scatter {
		return -1
	}
	o := r.Operands[0]
	at, ok := b.at[o]
	if !ok || b.plan.Buffers[at].Role != TemporaryBuffer || len(b.c.Users()[o.Index]) != 1 || slices.Contains(r.Operands[1:], o) {
		return -1
	}
	return at
}

// choose plans a part as one kernel, with accesses of 16 bytes.
func (b *planner) choose(c *hlo.Computation) *Kernel {
	roots := c.Roots()
	var why []string
	reject := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	k := b.reduction(c, roots, reject)
	if k == nil {
		heroes := make([]*hlo.Instruction, len(roots))
		for i, r := range roots {
			heroes[i] = Hero(r, b.d)
			if heroes[i].Op == hlo.Reduce {
				heroes[i] = r
			}
		}
		most := vectorBytes * 8 / smallest(c)
		if h := heroes[0]; h.Op == hlo.Scatter { // the width of what is combined
			most = max(1, vectorBytes*8/h.Shape.Outputs()[0].Type.Bits())
		}
		k = chooseMoving(c, roots, heroes, most, false, b.d, reject)
		if h := k.Heroes[0]; k.Emitter == ScatterEmitter && k.Atomic && (h.Shape.IsTuple() || h.Shape.Type.Bits() > 32) {
			k = loop(h.Shape.Outputs()[0], false, most, b.d)
			k.Heroes = roots
			k.why("no atomic instruction combines what %s does: a thread of each element walks over all updates", h.Name)
		} else if k.Emitter == ScatterEmitter {
			b.scatter(k)
		}
	}
	k.Why = append(why, k.Why...)
	return k
}

// vectorBytes is the widest access of a thread.
const vectorBytes = 16

// smallest is the width in bits, at least 8, of the smallest element that is read or
// written in bulk.
func smallest(c *hlo.Computation) int {
	w := widthsIn(c)
	return max(8, min(w.SmallestInput, w.SmallestOutput))
}

// scatter chooses how updates that may collide are combined.
func (b *planner) scatter(k *Kernel) {
	h := k.Heroes[0]
	update, indices := h.Operands[h.Inputs()+1].Shape, h.Operands[h.Inputs()].Shape
	slice := product(update.Dims[1:])
	bits := update.Type.Bits()
	if !k.Atomic {
		k.why("the indices are unique: read, combine and write, without atomics")
		return
	}
	k.AtomicLanes = 1
	if op, ok := combiner(h.Apply); ok && op == hlo.Add {
		switch update.Type {
		case hlo.F32, hlo.F16, hlo.BF16:
			k.AtomicLanes = gcd(slice, vectorBytes*8/bits)
			k.why("%d elements of %s in one reduction", k.AtomicLanes, update.Type)
		}
	}
	if n := indices.Dims[0]; h.Sorted && n > 4*b.d.SMs {
		k.Run = max(4, min(64, ceilDiv(n, b.d.Wave()/32)))
		k.why("the indices are sorted: a group of threads owns %d of them and writes when the index changes", k.Run)
	}
}

// combiner is the operation of a computation of two scalars that applies one to both, also
// in a wider type.
func combiner(c *hlo.Computation) (hlo.Op, bool) {
	if c == nil || len(c.Params) != 2 {
		return 0, false
	}
	in := c.Root
	if in.Op == hlo.Convert {
		in = in.Operands[0]
	}
	if len(in.Operands) != 2 {
		return 0, false
	}
	for _, o := range in.Operands {
		if o.Op == hlo.Convert {
			o = o.Operands[0]
		}
		if o.Op != hlo.Parameter {
			return 0, false
		}
	}
	return in.Op, in.Operands[0] != in.Operands[1]
}
