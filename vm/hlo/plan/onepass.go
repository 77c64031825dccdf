package plan

import (
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// Limits of a one-pass kernel.
const (
	maxHeld    = 64      // 32-bit registers of a thread for values held
	maxOnePass = 1 << 15 // elements of a row
)

// rowFusion is a computation over rows.
type rowFusion struct {
	rows, row int
	depends   []bool // on a reduction, by Index
	bulk      []bool // reads a parameter of as many elements as all rows
}

// onePass plans a computation in which rows are reduced and used again: softmax, layer
// norm and the like. Each row is read once and stays in registers. Ok is false where
// the computation is not one of rows, or where nothing would be read twice anyway.
func onePass(c *hlo.Computation, d Device) (*Kernel, bool) {
	f := rowFusion{depends: make([]bool, len(c.Instructions)), bulk: make([]bool, len(c.Instructions))}
	for i, in := range c.Instructions {
		for _, o := range in.Operands {
			f.depends[i] = f.depends[i] || f.depends[o.Index]
			f.bulk[i] = f.bulk[i] || f.bulk[o.Index]
		}
		if in.Op == hlo.Parameter {
			f.bulk[i] = !in.Shape.IsTuple() && in.Shape.Elements() > 1
		}
		if in.Op != hlo.Reduce {
			continue
		}
		f.depends[i] = true
		row, abc, ok := Normal(in.Operands[0].Shape, in.Dims)
		if !ok || !row || in.Inputs() != 1 || abc[0] != 1 || abc[2] < 32 || abc[2] > maxOnePass || f.row != 0 && (f.rows != abc[1] || f.row != abc[2]) {
			return nil, false
		}
		f.rows, f.row = abc[1], abc[2]
	}
	if f.row == 0 {
		return nil, false
	}
	again := false
	roots := c.Roots()
	ok := true
	seen := make([][2]bool, len(c.Instructions))
	var visit func(in *hlo.Instruction, wide bool)
	visit = func(in *hlo.Instruction, wide bool) {
		frame := 0
		if wide {
			frame = 1
		}
		if !ok || seen[in.Index][frame] {
			return
		}
		seen[in.Index][frame] = true
		n := f.rows
		if wide {
			n *= f.row
		}
		if in.Shape.IsTuple() || in.Shape.Elements() != n {
			ok = !in.Shape.IsTuple() && !f.depends[in.Index]
			return
		}
		if !f.depends[in.Index] {
			return
		}
		again = again || wide
		if ok = in.Shape.RowMajor(); !ok {
			return
		}
		switch {
		case in.Op == hlo.Reduce:
			if ok = !wide && in.Operands[0].Shape.RowMajor() && !f.depends[in.Operands[1].Index]; ok {
				visit(in.Operands[0], true)
			}
		case in.Op.Elementwise(), in.Op == hlo.Reshape, in.Op == hlo.Bitcast:
			for _, o := range in.Operands {
				visit(o, wide)
			}
		case in.Op == hlo.Broadcast:
			o := in.Operands[0]
			switch {
			case o.Shape.Elements() == n && f.keepsPlace(in, 1):
				visit(o, wide)
			case wide && o.Shape.Elements() == f.rows && f.keepsPlace(in, f.row):
				visit(o, false)
			default:
				ok = false
			}
		default:
			ok = false
		}
	}
	for _, r := range roots {
		if r.Shape.IsTuple() {
			return nil, false
		}
		switch n := r.Shape.Elements(); n {
		case f.rows * f.row:
			if ok = ok && r.Shape.RowMajor(); ok {
				visit(r, true)
			}
		case f.rows:
			if ok = ok && f.depends[r.Index]; ok {
				visit(r, false)
			}
		default:
			ok = false
		}
	}
	if !ok || !again {
		return nil, false
	}
	stages, held := f.stages(c)
	return f.kernel(c, d, stages, held)
}

// keepsPlace says whether element number i of a broadcast comes from element number
// i / by of its operand.
func (f rowFusion) keepsPlace(in *hlo.Instruction, by int) bool {
	return samePlace(index.OutputToInput(in, 0)[0][0].Map, in.Shape, in.Operands[0].Shape, by)
}

// samePlace says whether a map leads from element number i of one tensor, in memory order,
// to element number i / by of another.
func samePlace(m affine.Map, out, in hlo.Shape, by int) bool {
	if m.Undefined() || m.KnownEmpty() || len(m.Ranges)+len(m.Runtime) > 0 {
		return false
	}
	bounds := map[string]affine.Range{}
	i, from := num(0), num(0)
	for k, s := range out.Strides() {
		bounds[m.Dims[k].Name] = to(out.Dims[k])
		i = i.Add(affine.Var(m.Dims[k].Name).Mul(num(s)))
	}
	for k, s := range in.Strides() {
		from = from.Add(m.Results[k].Mul(num(s)))
	}
	return i.FloorDiv(num(by)).Simplify(bounds).String() == from.Simplify(bounds).String()
}

// stages orders the reductions by what they need, and finds what stays in registers.
// Held is the most values that a thread holds of one element at a time.
func (f rowFusion) stages(c *hlo.Computation) (out []Stage, held int) {
	depth := make([]int, len(c.Instructions))
	last := 0
	for i, in := range c.Instructions {
		for _, o := range in.Operands {
			depth[i] = max(depth[i], depth[o.Index])
		}
		if in.Op == hlo.Reduce {
			depth[i]++
			last = max(last, depth[i])
		}
	}
	out = make([]Stage, last+1)
	for _, in := range c.Instructions {
		if in.Op == hlo.Reduce {
			s := &out[depth[in.Index]-1]
			s.Reduces = append(s.Reduces, in)
		}
	}
	first := map[*hlo.Instruction]int{}   // stage that computes a wide value
	lastUse := map[*hlo.Instruction]int{} // of held ones
	var visit func(in *hlo.Instruction, stage int)
	visit = func(in *hlo.Instruction, stage int) {
		if in.Shape.IsTuple() || in.Shape.Elements() != f.rows*f.row {
			return // one value for a row, or read anywhere
		}
		if s, ok := first[in]; ok && (s == stage || f.bulk[in.Index]) {
			if s != stage {
				lastUse[in] = stage
			}
			return
		}
		first[in] = stage
		for _, o := range in.Operands {
			if in.Op == hlo.Reduce {
				return
			}
			visit(o, stage)
		}
	}
	for s := range out {
		for _, r := range out[s].Reduces {
			visit(r.Operands[0], s)
		}
	}
	for _, r := range c.Roots() {
		visit(r, last)
	}
	for _, in := range c.Instructions {
		if _, ok := lastUse[in]; ok {
			s := first[in]
			out[s].Held = append(out[s].Held, in)
		}
	}
	for s := range out {
		n := 0
		for in, end := range lastUse {
			if first[in] <= s && s <= end {
				n += max(1, in.Shape.Type.Bits()/32)
			}
		}
		held = max(held, n)
	}
	return out, held
}

func (f rowFusion) kernel(c *hlo.Computation, d Device, stages []Stage, held int) (*Kernel, bool) {
	v := widest(smallest(c), f.row)
	per := max(1, min(16, maxHeld/max(1, held))) // elements of a thread
	per = max(v, per/v*v)
	tr := roundUp(ceilDiv(f.row, per), 32)
	if tr > 1024 {
		per = max(v, maxHeld/max(1, held)/v*v)
		tr = min(1024, roundUp(ceilDiv(f.row, per), 32))
	}
	turns := ceilDiv(f.row/v, tr)
	if turns*v*max(1, held) > maxHeld {
		return nil, false
	}
	tk := 1
	if 2*tr <= 256 {
		tk = min(f.rows, 256/tr)
	}
	k := &Kernel{Emitter: OnePassEmitter, Stages: stages, Dims: []int{1, f.rows, f.row}}
	k.ThreadsKept, k.ThreadsReduced, k.Threads, k.Vector = tk, tr, tk*tr, v
	k.Tile, k.Loop = []int{turns, v}, turns
	k.Blocks = grid(ceilDiv(f.rows, tk))
	k.WarpsPerRow, k.ShuffleDistance = tr/32, 16
	for i, s := range stages {
		for range s.Held {
			k.Steps = append(k.Steps, "hold")
		}
		for range s.Reduces {
			k.Steps = append(k.Steps, "combiner", "shuffle_reduce")
			k.SharedTiles++
		}
		if i+1 < len(stages) && k.WarpsPerRow > 1 {
			k.Steps = append(k.Steps, "insert", "sync_threads", "extract", "shuffle_reduce")
			k.Syncs++
		}
	}
	for _, s := range stages {
		k.Heroes = append(k.Heroes, s.Reduces...)
	}
	k.Steps = append(k.Steps, "call:root", "insert_output")
	if k.WarpsPerRow > 1 {
		k.Shared = []int{tk, k.WarpsPerRow}
	} else {
		k.SharedTiles = 0
	}
	k.why("rows of %d are reduced and used again: %d threads keep a row in registers, %d rows per block, vectors of %d, %d elements × %d values a thread", f.row, tr, tk, v, turns*v, held)
	block := blockX
	if k.Blocks[1] > 1 {
		block = blockY.Mul(num(k.Blocks[0])).Add(blockX)
	}
	kept := block.Mul(num(tk)).Add(thread.FloorDiv(num(tr)))
	vec := sym(0).Mul(num(tr)).Add(thread.Mod(num(tr)))
	k.add("thread_to_row", threadMap(k.Threads, k.Blocks, k.Tile, []affine.Expr{kept, vec.Mul(num(v)).Add(sym(1))}, in(kept, f.rows), in(vec, f.row/v)), []int{f.rows, f.row})
	return k, true
}
