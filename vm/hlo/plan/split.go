package plan

import (
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// reduceHeroes are the reductions that decide how a root is emitted: the one at the end of a
// chain of operations with one operand, or several of one normal form that meet in
// element-wise operations.
func reduceHeroes(root *hlo.Instruction, d Device) []*hlo.Instruction {
	if root.Op == hlo.GetTupleElement && root.Operands[0].Op == hlo.Reduce {
		return root.Operands
	}
	if h := Hero(root, d); h.Op == hlo.Reduce {
		return []*hlo.Instruction{h}
	} else if h != root {
		return nil
	}
	var found []*hlo.Instruction
	seen := map[*hlo.Instruction]bool{}
	var visit func(in *hlo.Instruction) bool
	visit = func(in *hlo.Instruction) bool {
		if seen[in] {
			return true
		}
		seen[in] = true
		one := in.Op == hlo.GetTupleElement && in.Operands[0].Op == hlo.Reduce
		if one {
			in = in.Operands[0]
		}
		switch {
		case in.Op == hlo.Reduce:
			if !slices.Contains(found, in) {
				found = append(found, in)
			}
			h := found[0]
			return (one || !in.Shape.IsTuple()) && (in == h || sameNormal(in, h))
		case in.Op.Elementwise() && !layoutCopy(in) || in.Op == hlo.Bitcast || in.Op == hlo.Reshape:
			for _, o := range in.Operands {
				if !visit(o) {
					return false
				}
			}
		}
		return true
	}
	if !visit(root) || len(found) == 0 || found[0].Shape.Outputs()[0].Elements() != root.Shape.Outputs()[0].Elements() {
		return nil
	}
	// Nothing else may pass over a reduction in another way.
	for _, in := range found {
		if below(in.Operands[0], func(x *hlo.Instruction) bool { return x.Op == hlo.Reduce && slices.Contains(found, x) }) {
			return nil
		}
	}
	return found
}

// below says whether something at or under an instruction fits.
func below(in *hlo.Instruction, fits func(*hlo.Instruction) bool) bool {
	seen := map[*hlo.Instruction]bool{}
	var visit func(*hlo.Instruction) bool
	visit = func(in *hlo.Instruction) bool {
		if seen[in] {
			return false
		}
		seen[in] = true
		return fits(in) || slices.ContainsFunc(in.Operands, visit)
	}
	return visit(in)
}

// reduction plans a kernel whose results are reductions of one normal form, with what follows
// them, and side outputs of as many elements as they read.
func (b *planner) reduction(c *hlo.Computation, roots []*hlo.Instruction, reject func(string, ...any)) *Kernel {
	var heroes, side []*hlo.Instruction
	for _, r := range roots {
		list := reduceHeroes(r, b.d)
		for _, h := range list {
			if !slices.Contains(heroes, h) {
				heroes = append(heroes, h)
			}
		}
		if len(list) == 0 {
			side = append(side, r)
		}
	}
	if len(heroes) == 0 {
		return nil
	}
	first := heroes[0]
	in := first.Operands[0].Shape
	for _, h := range heroes {
		if h.Inputs() > 1 && OrderOf(h) == InOrder {
			reject("%s of several operands is not known to give the same in any order", h.Name)
			return nil
		}
		if h != first && !sameNormal(h, first) {
			reject("%s and %s reduce other sizes", first.Name, h.Name)
			return nil
		}
	}
	for _, r := range side {
		if r.Shape.Outputs()[0].Elements() != in.Elements() {
			reject("%s has neither the shape nor the element count of the reduction %s", r.Name, first.Name)
			return nil
		}
		for p, maps := range index.Group(c, r) {
			for _, m := range maps {
				if p.Op == hlo.Parameter && p.Shape.Elements() == in.Elements() && !samePlace(m.Map, r.Shape, p.Shape, 1) {
					reject("%s reads %s at other places than the reduction %s", r.Name, p.Name, first.Name)
					return nil
				}
			}
		}
	}
	w := widthsIn(c)
	k := reduce(in, first.Dims, w, b.d)
	if k.Reason == "elemental" {
		reject("%s: %s", first.Name, strings.Join(k.Why, "; "))
		return nil
	}
	row, abc, _ := Normal(in, first.Dims)
	if !row && len(heroes) > MaxReduceOutputs {
		reject("%d reductions of columns are more than %d", len(heroes), MaxReduceOutputs)
		return nil
	}
	if row {
		k = b.rows(abc, w)
	} else {
		k = b.columns(abc, w)
	}
	k.Heroes, k.SideOutputs = heroes, side
	tiles := 0
	for _, h := range heroes {
		tiles += h.Inputs()
	}
	if k.SharedTiles > 0 {
		k.SharedTiles = tiles
	}
	for k.Shared != nil && tiles*product(k.Shared)*max(w.Largest, 8)/8 > b.d.SharedBytes && k.Vector > 1 && k.Emitter != MultiRowEmitter {
		return nil
	}
	return k
}

// widest is how many elements a thread reads at once: 16 bytes of the smallest input, as far
// as that divides a row.
func widest(bits, row int) int {
	v := 1
	for 2*v*max(bits, 8) <= vectorBytes*8 && row%(2*v) == 0 {
		v *= 2
	}
	return v
}

// rows plans rows: short ones by parts of a warp, others by warps, few and long ones by
// several blocks each.
func (b *planner) rows(abc []int, w Widths) *Kernel {
	a, n, c := abc[0], abc[1], abc[2]
	k := &Kernel{Dims: abc}
	v := widest(w.elementBits(), c)
	if v1, ok := multiRowVector(abc, w, b.d); ok {
		if v > v1 && ceilDiv(n, 256/max(1, c/v)) >= b.d.SMs {
			v1 = v
		}
		k.multiRow(abc, v1)
		return k
	}
	const threads = 512
	total := a * c / v // vectors of a row
	if a*c > MaxRow || n < b.d.SMs && total >= 4*threads {
		blocks := b.d.Wave() / threads
		turns := max(4, ceilDiv(total, threads*max(1, ceilDiv(blocks, n))))
		if chunks := ceilDiv(total, threads*turns); chunks > 1 {
			k.rowSplit(abc, v, threads, turns, chunks)
			return k
		}
	}
	tr := min(1024, roundUp(ceilDiv(c, 4*v), 32))
	if v == 1 {
		tr = min(1024, roundUp(ceilDiv(c, 16), 32))
	}
	tk := 1
	if 2*tr <= 256 {
		tk = min(n, 256/tr)
	}
	k.rowsOf(abc, tr, tk, v, ceilDiv(c/v, tr))
	return k
}

func (k *Kernel) rowSplit(abc []int, v, threads, turns, chunks int) {
	a, n, c := abc[0], abc[1], abc[2]
	k.Emitter = RowSplitEmitter
	k.ThreadsKept, k.ThreadsReduced, k.Threads, k.Vector, k.Chunks = 1, threads, threads, v, chunks
	k.Tile, k.Loop = []int{turns, v}, turns
	k.Blocks = [3]int{n, chunks, 1}
	k.WarpsPerRow, k.ShuffleDistance = threads/32, 16
	k.Shared, k.SharedTiles, k.Syncs = []int{1, k.WarpsPerRow}, 1, 2
	k.Steps = []string{"combiner", "shuffle_reduce", "allocate_shared", "predicated_insert", "sync_threads", "predicated_extract", "shuffle_reduce", "insert_partial", "atomic_rmw", "sync_threads", "combiner", "shuffle_reduce", "call:epilogue", "predicated_insert"}
	k.why("%d rows do not fill the device: %d blocks share a row of %d, the last one combines", n, chunks, a*c)
	p := blockY.Mul(num(turns)).Add(sym(0)).Mul(num(threads)).Add(thread)
	at := p.Mul(num(v)).Add(sym(1))
	k.add("thread_to_reduction_input", threadMap(threads, k.Blocks, k.Tile, []affine.Expr{at.FloorDiv(num(c)), blockX, at.Mod(num(c))}, in(p, a*c/v)), abc)
	k.add("thread_to_reduction_output", threadMap(threads, k.Blocks, nil, []affine.Expr{blockX},
		affine.Constraint{Expr: thread}, affine.Constraint{Expr: blockY}), []int{n})
}

// columns plans columns: few and long ones by several blocks each.
func (b *planner) columns(abc []int, w Widths) *Kernel {
	a, n, c := abc[0], abc[1], abc[2]
	k := &Kernel{Dims: abc}
	if 32%c == 0 {
		k.smallColumn(abc, w)
		if want := b.d.Wave() / k.Threads / 2; a < want && k.Loop >= 8 {
			turns := max(4, ceilDiv(k.Loop, ceilDiv(want, a)))
			if chunks := ceilDiv(k.Loop, turns); chunks > 1 {
				k.columnSplit(chunks)
				k.Loop = turns
				linear := blockY.Mul(num(turns)).Add(sym(0)).Mul(num(k.Threads * k.Vector)).Add(thread.Mul(num(k.Vector))).Add(sym(1))
				k.Maps[0].Map = threadMap(k.Threads, k.Blocks, []int{turns, k.Vector},
					[]affine.Expr{blockX, linear.FloorDiv(num(c)), linear.Mod(num(c))}, in(linear, n*c))
				k.lastBlockWrites()
			}
		}
		return k
	}
	k.column(abc, w)
	tiles := k.Blocks[0]
	if want := 2 * b.d.SMs; (n > MaxColumn || tiles < b.d.SMs) && n >= 256 {
		turns := max(4, ceilDiv(n, 32*max(1, want/tiles)))
		if chunks := ceilDiv(n, 32*turns); chunks > 1 {
			k.columnSplit(chunks)
			v := k.Vector
			wide := 32 * v
			perRow := ceilDiv(c, wide)
			k.Tile = []int{turns, v}
			major, col := blockX.FloorDiv(num(perRow)), blockX.Mod(num(perRow)).Mul(num(wide)).Add(thread.Mod(num(32)).Mul(num(v))).Add(sym(1))
			r := blockY.Mul(num(turns)).Add(sym(0)).Mul(num(32)).Add(thread.FloorDiv(num(32)))
			k.Maps[0].Map = threadMap(k.Threads, k.Blocks, k.Tile, []affine.Expr{major, r, col}, in(r, n), in(col, c))
			k.lastBlockWrites()
		}
	}
	return k
}

func (k *Kernel) columnSplit(chunks int) {
	k.Emitter, k.Chunks = ColumnSplitEmitter, chunks
	k.why("%d blocks do not fill the device: %d blocks share columns, the last one combines", k.Blocks[0], chunks)
	k.Blocks[1] = chunks
	k.Syncs++
	k.Steps = []string{"combiner", "allocate_shared", "insert", "sync_threads", "predicated_extract", "shuffle_reduce", "insert_partial", "atomic_rmw", "sync_threads", "combiner", "call:epilogue", "predicated_insert"}
}

// lastBlockWrites makes the output map one of a grid with several blocks in y, of which
// one writes; the map names it 0.
func (k *Kernel) lastBlockWrites() {
	m := k.Maps[1].Map
	dims := slices.Clone(m.Dims)
	dims[4].Range = to(k.Blocks[1])
	out, err := affine.NewMap(dims, m.Ranges, nil, m.Results, append(slices.Clone(m.Constraints), affine.Constraint{Expr: blockY}))
	if err != nil {
		return
	}
	k.Maps[1].Map = out
	for i := range k.Maps[2:] { // places in shared memory, the same in all blocks
		m := k.Maps[2+i].Map
		m.Dims = slices.Clone(m.Dims)
		m.Dims[4].Range = to(k.Blocks[1])
		k.Maps[2+i].Map = m
	}
}
