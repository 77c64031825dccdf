package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// Limits of fusions.
const (
	MaxConcatOperands = 4
	MaxReduceOutputs  = 8
	MaxArguments      = 96
)

// Hero is the instruction that decides how a root is emitted: down from the root through
// operations that keep the place of elements, a transpose that fits tiles, else a
// concatenate, else a reduce at the end of the chain, else the root itself.
func Hero(root *hlo.Instruction, d Device) *hlo.Instruction {
	in := root
	for len(in.Operands) == 1 && (in.Op.Elementwise() && !layoutCopy(in) || in.Op == hlo.Bitcast) && in.Operands[0].Op != hlo.Parameter {
		in = in.Operands[0]
	}
	if h := findThrough(in, func(h *hlo.Instruction) bool { return tileable(h, d) }); h != nil {
		return h
	}
	if h := findThrough(in, func(h *hlo.Instruction) bool { return h.Op == hlo.Concatenate }); h != nil {
		return h
	}
	if in.Op == hlo.Reduce || in.Op == hlo.Scatter {
		return in
	}
	return root
}

func layoutCopy(in *hlo.Instruction) bool {
	return in.Op == hlo.Copy && !slices.Equal(in.Shape.MinorToMajor(), in.Operands[0].Shape.MinorToMajor())
}

// findThrough is the first instruction that fits, from in down through element-wise
// operations with any number of operands.
func findThrough(in *hlo.Instruction, fits func(*hlo.Instruction) bool) *hlo.Instruction {
	seen := map[*hlo.Instruction]bool{}
	queue := []*hlo.Instruction{in}
	for len(queue) > 0 {
		in := queue[0]
		queue = queue[1:]
		if seen[in] {
			continue
		}
		seen[in] = true
		if fits(in) {
			return in
		}
		if in.Op.Elementwise() && !layoutCopy(in) || in.Op == hlo.Bitcast {
			queue = append(queue, in.Operands...)
		}
	}
	return nil
}

func tileable(in *hlo.Instruction, d Device) bool {
	k := transposeOf(in, d, false)
	return k != nil && k.Emitter == TransposeEmitter
}

func transposeOf(in *hlo.Instruction, d Device, maps bool) *Kernel {
	dims, perm, ok := PhysicalTranspose(in)
	if !ok || in.Shape.Elements() == 0 {
		return nil
	}
	return transpose(in.Shape.Type, dims, perm, d, maps)
}

// widthsIn are the widths of what a computation reads and writes. Scalars do not count.
func widthsIn(c *hlo.Computation) Widths {
	w := Widths{SmallestInput: 64, SmallestOutput: 64}
	read := func(s hlo.Shape, smallest *int) {
		*smallest = min(*smallest, s.Type.Bits())
		w.Largest = max(w.Largest, s.Type.Bits())
		w.Complex = w.Complex || s.Type == hlo.C64 || s.Type == hlo.C128
	}
	inputs := false
	for _, p := range c.Params {
		if len(p.Shape.Dims) > 0 && !p.Shape.IsTuple() {
			read(p.Shape, &w.SmallestInput)
			inputs = true
		}
	}
	for _, r := range c.Roots() {
		for _, s := range r.Shape.Outputs() {
			read(s, &w.SmallestOutput)
		}
	}
	if !inputs {
		w.SmallestInput = w.SmallestOutput
	}
	return w
}

// analysedWidths are the widths that XLA goes by where it chooses vectors of reductions: the
// smallest of all parameters, scalars too, the smallest of the roots that are arrays, and the
// larger of the two. With roots that are tuples alone nothing is small enough for a part of
// a warp to reduce a row.
func analysedWidths(c *hlo.Computation) Widths {
	w := widthsIn(c)
	const none = 1 << 30
	smallest := func(all []*hlo.Instruction) int {
		bits := none
		for _, in := range all {
			if n := in.Shape.Type.Bits(); !in.Shape.IsTuple() && n > 0 {
				bits = min(bits, n)
			}
		}
		return bits
	}
	w.SmallestInput, w.SmallestOutput = smallest(c.Params), smallest(c.Roots())
	w.Largest = max(w.SmallestInput, w.SmallestOutput)
	if w.Largest == none {
		w.Largest = w.SmallestOutput
	}
	return w
}

// mayUnroll says whether no operation of the fusion suffers from unrolling.
func mayUnroll(c *hlo.Computation) bool {
	for _, in := range c.Instructions {
		switch in.Op {
		case hlo.ReduceWindow:
			n := 1
			for _, w := range in.Window {
				n *= w.Size
			}
			if n > 8 {
				return false
			}
		case hlo.Dot:
			return false
		case hlo.Concatenate:
			if len(in.Operands) > 10 {
				return false
			}
		case hlo.Reduce:
			if in.Inputs() > 1 {
				return false
			}
		}
		if in.Op.String() == "sort" {
			return false
		}
	}
	return true
}

// Single plans a computation as one kernel for a device, as XLA does with a fusion.
func Single(c *hlo.Computation, d Device) (*Plan, error) {
	roots, err := rootsOf(c)
	if err != nil {
		return nil, err
	}
	b := &planner{c: c, d: d, plan: &Plan{Computation: c}}
	b.parameters()
	b.results(roots)
	b.launchWhole(choose(c, roots, d).simplified())
	return b.plan, nil
}

func rootsOf(c *hlo.Computation) ([]*hlo.Instruction, error) {
	roots := c.Roots()
	if len(roots) == 0 {
		return nil, fmt.Errorf("plan: %s has no results", c.Name)
	}
	for _, r := range roots {
		if r.Shape.IsTuple() && r.Op == hlo.Tuple {
			return nil, fmt.Errorf("plan: %s has nested tuples; put all elements into one tuple", c.Name)
		}
	}
	return roots, nil
}

func choose(c *hlo.Computation, roots []*hlo.Instruction, d Device) *Kernel {
	heroes := make([]*hlo.Instruction, len(roots))
	for i, r := range roots {
		heroes[i] = Hero(r, d)
	}
	var why []string
	reject := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	done := func(k *Kernel) *Kernel {
		k.Why = append(why, k.Why...)
		return k
	}
	if k := chooseReduction(c, roots, heroes, d, reject); k != nil {
		return done(k)
	}
	k := chooseMoving(c, roots, heroes, xlaUnroll, true, d, reject)
	if h := k.Heroes[0]; k.Emitter == ScatterEmitter && h.Sorted && simplified(h) {
		if s := sortedScatter(h.Shape.Outputs()[0], h.Operands[h.Inputs()+1].Shape, h.Operands[h.Inputs()].Shape, h.Unique, d); s != nil {
			s.Heroes, k = k.Heroes, s
		}
	}
	return done(k)
}

// chooseMoving chooses for fusions that move elements; most is how many in a row a thread
// may handle, mixed whether transposes go together of which some alone would be packed.
func chooseMoving(c *hlo.Computation, roots, heroes []*hlo.Instruction, most int, mixed bool, d Device, reject func(string, ...any)) *Kernel {
	if k := chooseTranspose(roots, heroes, mixed, d, reject); k != nil {
		return k
	}
	root := roots[0]
	if len(roots) == 1 {
		switch hero := heroes[0]; {
		case hero.Op == hlo.Scatter:
			return scatterOf(hero, most, d)
		case hero.Op == hlo.Concatenate && len(hero.Operands) <= MaxConcatOperands:
			var shapes []hlo.Shape
			for _, o := range hero.Operands {
				shapes = append(shapes, o.Shape)
			}
			k := concatenate(shapes, hero.Dims[0], most, d)
			k.Heroes = heroes
			return k
		case hero.Op == hlo.Concatenate:
			reject("the concatenate has %d operands, more than %d", len(hero.Operands), MaxConcatOperands)
		}
	}
	if k := updatesOf(c, roots, most, d); k != nil {
		return k
	}
	k := loop(root.Shape.Outputs()[0], mayUnroll(c), most, d)
	k.Heroes = heroes
	if copied(c, root) && len(roots) == 1 {
		k.Emitter = CopyEmitter
		k.why("the fusion copies a contiguous part of one parameter")
	}
	return k
}

// copied says whether a computation copies a contiguous part of a parameter.
func copied(c *hlo.Computation, root *hlo.Instruction) bool {
	in := root
	for in.Op == hlo.Bitcast || in.Op == hlo.Copy && !layoutCopy(in) {
		in = in.Operands[0]
	}
	if in.Op != hlo.Slice || in.Operands[0].Op != hlo.Parameter {
		return false
	}
	partial := false // a slower dimension is more than one and the faster is cut
	order := in.Shape.MinorToMajor()
	for _, d := range order {
		s := in.Slices[d]
		if s.Stride != 1 && in.Shape.Dims[d] > 1 || partial && in.Shape.Dims[d] > 1 {
			return false
		}
		partial = partial || in.Shape.Dims[d] != in.Operands[0].Shape.Dims[d]
	}
	return true
}

func chooseReduction(c *hlo.Computation, roots, heroes []*hlo.Instruction, d Device, reject func(string, ...any)) *Kernel {
	var k *Kernel
	var first *hlo.Instruction
	outputs := 0
	for _, h := range heroes {
		if h.Op != hlo.Reduce {
			continue
		}
		if outputs++; first != nil {
			continue
		}
		try := reduce(h.Operands[0].Shape, h.Dims, analysedWidths(c), d)
		if try.Emitter == LoopEmitter {
			reject("%s: %s", h.Name, strings.Join(try.Why, "; "))
			continue
		}
		k, first = try, h
	}
	if k == nil || outputs > MaxReduceOutputs {
		return nil
	}
	in := first.Operands[0].Shape
	reduces := func(h *hlo.Instruction) bool { return h.Op == hlo.Reduce && sameNormal(h, first) }
	for i, h := range heroes {
		if !reduces(h) && h.Shape.Outputs()[0].Elements() != in.Elements() {
			reject("%s has neither the normal form nor the element count of the reduction %s", roots[i].Name, first.Name)
			return nil
		}
	}
	k.Groups = blockGroups(c, roots, func(i int) bool { return reduces(heroes[i]) })
	for i, h := range heroes {
		if reduces(h) {
			if !slices.Contains(k.Heroes, h) {
				k.Heroes = append(k.Heroes, h)
			}
		} else {
			k.SideOutputs = append(k.SideOutputs, roots[i])
		}
	}
	if len(k.Groups) > 1 {
		k.Blocks[2] = len(k.Groups)
		k.why("%d groups of results share nothing; block z tells them apart", len(k.Groups))
	}
	tiles := 0
	for _, h := range k.Heroes {
		tiles += h.Inputs()
	}
	if k.SharedTiles > 0 {
		k.SharedTiles = tiles
	}
	return k
}

// blockGroups puts roots that one block computes into one group, as XLA does: reductions that
// have more in common than scalars and what is broadcast of them, roots that do not reduce
// with what they have anything in common with, and all of those with each other.
func blockGroups(c *hlo.Computation, roots []*hlo.Instruction, reduces func(i int) bool) [][]*hlo.Instruction {
	group := make([]int, len(roots)) // the number of a group is that of its first root
	join := func(i, j int) {
		from, into := max(group[i], group[j]), min(group[i], group[j])
		for k := range group {
			if group[k] == from {
				group[k] = into
			}
		}
	}
	needed := make([][]bool, len(roots)) // by which instructions
	other := -1
	for i, r := range roots {
		group[i] = i
		needed[i] = make([]bool, len(c.Instructions))
		needed[i][r.Index] = true
		for n := r.Index; n >= 0; n-- {
			if needed[i][n] {
				for _, o := range c.Instructions[n].Operands {
					needed[i][o.Index] = true
				}
			}
		}
		if !reduces(i) && other < 0 {
			other = i
		}
	}
	for i := range roots {
		if !reduces(i) {
			join(other, i)
		}
	}
	for n, in := range c.Instructions {
		cheap := in.Op == hlo.Constant || len(in.Shape.Dims) == 0 && !in.Shape.IsTuple() ||
			in.Op == hlo.Broadcast && (in.Operands[0].Op == hlo.Constant || len(in.Operands[0].Shape.Dims) == 0)
		first, reduced := -1, false
		for i := range roots {
			if !needed[i][n] || cheap && reduced && reduces(i) {
				continue
			}
			reduced = reduced || reduces(i)
			if first < 0 {
				first = i
			}
			join(first, i)
		}
	}
	var out [][]*hlo.Instruction
	for i := range roots {
		var members []*hlo.Instruction
		for j, r := range roots {
			if group[j] == i {
				members = append(members, r)
			}
		}
		if members != nil {
			out = append(out, members)
		}
	}
	return out
}

// groupsOf puts roots that share tensors into one group.
func groupsOf(c *hlo.Computation, roots []*hlo.Instruction) [][]*hlo.Instruction {
	var groups [][]*hlo.Instruction
	var needs []map[*hlo.Instruction]bool
	for _, r := range roots {
		need := map[*hlo.Instruction]bool{}
		var visit func(in *hlo.Instruction)
		visit = func(in *hlo.Instruction) {
			s := in.Shape.Outputs()[0]
			if need[in] || len(in.Operands) == 0 && (in.Op != hlo.Parameter || len(s.Dims) == 0) {
				return
			}
			if in.Op == hlo.Broadcast && len(in.Operands[0].Shape.Dims) == 0 {
				return
			}
			need[in] = true
			for _, o := range in.Operands {
				visit(o)
			}
		}
		visit(r)
		group := []*hlo.Instruction{r}
		for i := 0; i < len(groups); i++ {
			shares := false
			for in := range need {
				shares = shares || needs[i][in]
			}
			if shares {
				group = append(groups[i], group...)
				for in := range needs[i] {
					need[in] = true
				}
				groups, needs = slices.Delete(groups, i, i+1), slices.Delete(needs, i, i+1)
				i--
			}
		}
		groups, needs = append(groups, group), append(needs, need)
	}
	return groups
}

func chooseTranspose(roots, heroes []*hlo.Instruction, mixed bool, d Device, reject func(string, ...any)) *Kernel {
	var k *Kernel
	tiles := 0
	widest, together := 0, 0 // bits of elements, of every root for itself
	var found []*hlo.Instruction
	var side []*hlo.Instruction
	for i, h := range heroes {
		try := transposeOf(h, d, true)
		if try == nil {
			side = append(side, roots[i])
			continue
		}
		if try.Emitter != TransposeEmitter {
			reject("%s: %s", h.Name, try.Reason)
			side = append(side, roots[i])
			continue
		}
		if k == nil {
			k = try
		} else if !slices.Equal(k.Dims, try.Dims) || !slices.Equal(k.Permutation, try.Permutation) || !mixed && (k.Packed == nil) != (try.Packed == nil) {
			reject("the transposes %s and %s have different tiles", found[0].Name, h.Name)
			return nil
		}
		widest, together = max(widest, h.Shape.Type.Bits()), together+h.Shape.Type.Bits()
		if !slices.Contains(found, h) {
			found = append(found, h)
			tiles++
		}
	}
	if k == nil {
		for _, r := range roots {
			for _, in := range chain(r) {
				if try := transposeOf(in, d, false); try != nil && try.Reason != "" {
					reject("%s: %s", in.Name, try.Reason)
				}
			}
		}
		return nil
	}
	for _, r := range side {
		if r.Shape.Outputs()[0].Elements() != found[0].Shape.Elements() {
			reject("%s has another number of elements than the transpose", r.Name)
			return nil
		}
	}
	// The first transpose decides whether elements are packed, and all have its tiles; how many
	// elements a thread moves at once depends on all.
	if last := len(k.Dims) - 1; k.Packed == nil && k.Permutation[last] != last {
		if v := tileVector(k.Dims, k.Permutation, widest, together, d); v != k.Vector {
			dims, perm, _ := PhysicalTranspose(found[0])
			sizes, order := k.Dims, k.Permutation
			k = &Kernel{Dims: sizes, Permutation: order, Reason: k.Reason}
			k.tiled(dims, perm, sizes, order, v, true)
		}
	}
	k.Heroes, k.SharedTiles, k.SideOutputs = found, tiles, side
	var steps []string
	for _, s := range k.Steps {
		if s == "call:prologue" {
			s = "call:" + strings.TrimRight(found[0].Operands[0].Name, "0123456789")
		}
		if s == "allocate_shared" {
			for range tiles - 1 {
				steps = append(steps, s)
			}
		}
		steps = append(steps, s)
	}
	k.Steps = steps
	return k
}

// chain is the instruction and what stands under it through element-wise operations
// with one operand.
func chain(in *hlo.Instruction) []*hlo.Instruction {
	out := []*hlo.Instruction{in}
	for len(in.Operands) == 1 && (in.Op.Elementwise() || in.Op == hlo.Bitcast) {
		in = in.Operands[0]
		out = append(out, in)
	}
	return out
}

func scatterOf(in *hlo.Instruction, most int, d Device) *Kernel {
	n := in.Inputs()
	update := in.Operands[n+1].Shape
	k := scatterLoop(in.Operands[0].Shape, update, in.Operands[n].Shape, in.Unique, most, d)
	k.Heroes = []*hlo.Instruction{in}
	return k
}

// simplified says whether the updates of a scatter are boxes, one for each row of the
// indices, which name the first dimensions in order.
func simplified(in *hlo.Instruction) bool {
	g, rank := in.Scatter, len(in.Operands[in.Inputs()+1].Shape.Dims)
	ordered := func(v []int, from int) bool {
		for i, x := range v {
			if x != from+i {
				return false
			}
		}
		return true
	}
	return g.IndexVector == 1 && len(g.Inserted)+len(g.InputBatch) == 0 && len(g.UpdateWindow) == rank-1 && ordered(g.UpdateWindow, 1) && ordered(g.ToOperand, 0)
}

// updatesOf plans a fusion whose roots all are updates of parameters in place.
func updatesOf(c *hlo.Computation, roots []*hlo.Instruction, most int, d Device) *Kernel {
	var heroes []*hlo.Instruction
	for _, r := range roots {
		in := r
		for in.Op == hlo.Bitcast {
			in = in.Operands[0]
		}
		if in.Op != hlo.DynamicUpdateSlice {
			return nil
		}
		target := in.Operands[0]
		for target.Op == hlo.Bitcast {
			target = target.Operands[0]
		}
		if target.Op != hlo.Parameter || len(heroes) > 0 && !slices.Equal(heroes[0].Operands[1].Shape.Dims, in.Operands[1].Shape.Dims) {
			return nil
		}
		// Nothing else may read the old value at another place.
		for _, u := range c.Users()[target.Index] {
			if u != in && u.Op != hlo.Bitcast && u.Op != hlo.Tuple {
				return nil
			}
		}
		heroes = append(heroes, in)
	}
	k, _ := updateIn(heroes[0].Operands[0].Shape, heroes[0].Operands[1].Shape, most, d)
	k.Heroes = heroes
	return k
}

// indexBits is 64 where an array has more than 2^31 elements or an index operand has 64
// bits, else 32.
func indexBits(c *hlo.Computation) int {
	for _, in := range c.Instructions {
		for _, s := range in.Shape.Outputs() {
			if !s.IsTuple() && s.Elements() > 1<<31 {
				return 64
			}
		}
		var indices []*hlo.Instruction
		switch in.Op {
		case hlo.DynamicSlice:
			indices = in.Operands[1:]
		case hlo.DynamicUpdateSlice:
			indices = in.Operands[2:]
		case hlo.Gather:
			indices = in.Operands[1:]
		case hlo.Scatter:
			indices = in.Operands[in.Inputs() : in.Inputs()+1]
		}
		for _, i := range indices {
			if i.Shape.Type.Bits() == 64 {
				return 64
			}
		}
	}
	return 32
}

// RootMaps lead from an index of the first root to the index of each root that a thread
// writes with it.
func RootMaps(roots []*hlo.Instruction) []affine.Map {
	var out []affine.Map
	first := roots[0].Shape.Outputs()[0]
	for _, r := range roots {
		s := r.Shape.Outputs()[0]
		if slices.Equal(first.Dims, s.Dims) || first.Elements() != s.Elements() {
			out = append(out, index.Identity(s.Dims))
			continue
		}
		out = append(out, index.Bitcast(first, s))
	}
	return out
}
