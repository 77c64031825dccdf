package infer

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Rule is a row of the rule table: how the tiles of some instructions determine
// each other.
type Rule struct {
	Name string
	Doc  string
	Ops  []string
	// apply returns layouts of tiles that have none; nothing where the rule says
	// nothing. It changes nothing.
	apply func(g *Graph, in *Instr) []found
}

// Rules lists the rules in the order in which they are tried.
func Rules() []Rule { return rules() }

// Ops of the graph that stand for several instructions of programs.
const (
	OpBinary  = "Binary"  // element-wise on two operands, with broadcast
	OpUnary   = "Unary"   // element-wise on one operand, and Cast
	OpLaneDot = "LaneDot" // Dot by FMAs
	OpWhere   = "Where"   // element-wise on three operands, with broadcast
)

func rules() []Rule {
	return []Rule{
		{"tmem.alloc", "a tile of tensor memory is row-major", []string{"TMemoryAlloc"}, tmemoryAlloc},
		{"tmem.slice", "a slice of tensor memory lies as its source", []string{"TMemorySlice"}, tmemorySlice},
		{"tmem.move", "registers lie as the widest load or store of tensor memory leaves them", []string{"TMemoryLoad", "TMemoryStore"}, tmemoryMove},
		{"tmem.product", "operands in shared memory are K-major, with the widest swizzle that fits", []string{"TMemoryProduct", "Tcgen05Mma", "Tcgen05MmaScaled", "Tcgen05MmaSparse"}, sharedOperands},
		{"slice.register", "a slice is its source reduced, or what each thread holds of every part of its shape; a source is so many slices", []string{"SliceRegister"}, sliceRegister},
		{"slice.assign", "a slice that is written to lies as a slice of its destination", []string{"SliceAssign"}, sliceAssign},
		{"barrier", "every thread holds the address of a barrier", []string{"AllocBarrier"}, replicated},
		{"dot", "of a product without layouts, the split over warps that needs the fewest registers; else operands from the result; by FMAs, every thread has the rows and columns that it needs", []string{"Dot", OpLaneDot}, dot},
		{"wgmma", "the accumulator of wgmma lies as the instruction leaves it; operands as for tensor memory", []string{"WgmmaProduct"}, wgmma},
		{"wgmma.dot", "the accumulator lies as the instruction leaves it, warpgroups under each other; a in registers likewise; shared operands as for tensor memory", []string{"WgmmaDot"}, wgmmaDot},
		{"tmem.copy", "what is copied to tensor memory lies in a canonical form", []string{"TMemoryCopy", "Tcgen05Copy"}, sharedOperands},
		{"random", "four random numbers for each offset: the result is the offsets' layout four times over", []string{"Random"}, random},
		{"binary", "operands from the result, reduced where they broadcast; the result from an operand of its shape", []string{OpBinary}, elementwise},
		{"unary", "operand and result lie alike", []string{OpUnary}, elementwise},
		{"view", "a packed source of bytes is the packed view of the result; with one type and shape both lie alike", []string{"View"}, view},
		{"load.global", "as many elements a thread in a row as one access can move, threads side by side", []string{"LoadGlobal", "TakeGlobal"}, global},
		{"reduce", "the result is the source reduced", []string{"Reduce", "ArgMax", "ArgMin"}, reduce},
		{"scan", "source and result lie alike", []string{"Scan"}, elementwise},
		{"transform", "a tile of other dimensions holds its elements where they are", []string{"Transpose", "Reshape", "Squeeze", "Unsqueeze"}, transform},
		{"repeat", "what repeats as a whole stands several times around the source's slots, what repeats element by element inside them", []string{"Repeat", "RepeatInterleave"}, repeat},
		{"where", "operands from the result, reduced where they broadcast; the result from an operand of its shape", []string{OpWhere}, elementwise},
		{"assign", "both tiles lie alike", []string{"Assign", "ShuffleUp", "ShuffleDown"}, elementwise},
		{"store.global", "as load.global", []string{"StoreGlobal", "PutGlobal"}, global},
		{"atomic", "all tiles lie alike; without any, threads side by side", []string{"Atomic", "LoadGlobalGather", "StoreGlobalScatter", "AtomicGlobal", "AtomicScatterGlobal", "StoreSharedScatter", "AtomicShared", "AtomicScatterShared"}, atomic},
		{"uniform", "every thread holds the tile", []string{"Uniform"}, replicated},
		{"tcgen05.rows", "thread i of a warpgroup has row i of what it loads from tensor memory or stores there, of 64 rows what a product of warpgroups gives it", []string{"Tcgen05Load", "Tcgen05Store"}, tensorRows},
		{"tensor.copy", "rows of what tensor copies bring or take are swizzled over as many bytes as divide them", []string{"CopyAsyncTensorGlobalToShared", "CopyAsyncTensorSharedToGlobal"}, tensorTile},
		{"shared.swizzle", "where registers lie in the 8 × 16-byte form that ldmatrix loads, rows are swizzled", []string{"LoadShared", "StoreShared"}, sharedSwizzle},
		{"shared.view", "a view of shared memory lies as its source", []string{"SliceShared", "PermuteShared", "ReshapeShared"}, sharedView},
		{"load.rows", "registers lie as ldmatrix leaves them, warps side by side", []string{"LoadShared"}, loadRows},
		{"load.shared", "16 bytes a thread where the tile is large enough, threads side by side", []string{"LoadShared"}, loadShared},
		{"shared.rows", "shared memory is row-major", []string{"LoadShared"}, sharedRows},
		{"slice.source", "a source that nothing else decides: threads side by side over each slice", []string{"SliceRegister", "SliceAssign"}, sliceSource},
		{"alloc", "a new tile that nothing else decides: threads side by side", []string{"AllocateRegister", "Indices"}, fresh},
		{"none", "nothing follows: barriers, pipelines and what is copied in rows are row-major, by shared.alloc", []string{"CopyAsync", "FreeShared", "PrintTensor", "SynchronizeReduce", "ArriveBarrier", "ArriveExpectTxBarrier", "WaitBarrier", "AcquirePipeline", "CommitPipeline", "WaitPipeline", "ReleasePipeline",
			"CopyAsyncBulkGlobalToShared", "CopyAsyncBulkSharedToGlobal", "CopyAsyncBulkSharedToClusterShared", "ClusterLaunchControlTryCancel", "ClusterLaunchControlQueryResponse", "Tcgen05Commit"}, nothing},
		{"convert", "a conversion of which nothing else decides a side changes nothing", []string{"ConvertLayout"}, elementwise},
		{"shared.alloc", "shared memory that nothing else decides is row-major", []string{"AllocateShared", "AllocateBarrier", "AllocatePipeline"}, sharedRows},
	}
}

// registers are the register tiles among some.
func registers(tiles []*Tile) []*Tile {
	return only(tiles, Register)
}

func only(tiles []*Tile, s Space) []*Tile {
	var out []*Tile
	for _, t := range tiles {
		if t.Space == s {
			out = append(out, t)
		}
	}
	return out
}

func size(shape []int) int {
	n := 1
	for _, s := range shape {
		n *= s
	}
	return n
}

// elementwise spreads from the result to the operands and to further results, and
// from an operand of the result's shape to the result. Assign has its destination
// first among the operands.
func elementwise(g *Graph, in *Instr) []found {
	ins, outs := registers(in.In), registers(in.Out)
	if len(outs) == 0 && len(ins) > 0 { // a destination
		ins, outs = ins[1:], ins[:1]
	}
	if len(outs) == 0 {
		return nil
	}
	out := outs[0]
	if out.Known {
		var all []found
		for _, t := range append(ins, outs[1:]...) {
			if !t.wants() {
				continue
			}
			if l, err := out.Register.ReduceTo(t.Shape); err == nil {
				all = append(all, reg(t, l)...)
			}
		}
		return all
	}
	for _, t := range ins {
		if t.Known && slices.Equal(t.Shape, out.Shape) {
			return reg(out, t.Register)
		}
	}
	return nil
}

// view is the rule of View, which keeps each thread's bits.
func view(g *Graph, in *Instr) []found {
	if len(in.In) != 1 || len(in.Out) != 1 {
		return nil
	}
	from, to := in.In[0], in.Out[0]
	switch {
	case from.Elem.Bits() == to.Elem.Bits() && slices.Equal(from.Shape, to.Shape):
		if to.Known {
			return reg(from, to.Register)
		}
		if from.Known {
			return reg(to, from.Register)
		}
	case to.Known && from.wants() && from.Elem.Bits() == 8 && len(from.Shape) == 1:
		if l, err := layout.PackedView(to.Elem.Bits(), to.Register); err == nil {
			return reg(from, l)
		}
	}
	return nil
}

// sideBySide is vectors of elements along a dimension, spread over the threads.
// The vector is cut to what fits the dimension and the share of a thread.
func sideBySide(threads int, shape []int, along, vector int) (layout.Layout, bool) {
	if along < 0 || along >= len(shape) {
		vector = 1
	}
	if vector > 1 {
		vector = gcd(vector, shape[along])
		vector = gcd(vector, max(1, size(shape)/threads))
	}
	outer, inner := slices.Clone(shape), slices.Clone(shape)
	for d := range inner {
		inner[d] = 1
	}
	if vector > 1 {
		outer[along], inner[along] = outer[along]/vector, vector
	}
	l, err := layout.AutoLocalSpatial(threads, outer...)
	if err != nil {
		var ok bool
		if l, ok = uneven(threads, outer); !ok {
			return layout.Layout{}, false
		}
	}
	return l.Local(inner...), true
}

// unevenSlots bounds what a thread holds of a tile that does not divide among threads.
const unevenSlots = 128

// uneven spreads a tile over as many threads as divide its extents; the others repeat
// them.
func uneven(threads int, shape []int) (layout.Layout, bool) {
	over, rest := slices.Clone(shape), slices.Clone(shape)
	for d := len(shape) - 1; d >= 0; d-- {
		over[d] = gcd(threads, shape[d])
		threads /= over[d]
		rest[d] = shape[d] / over[d]
	}
	if size(rest) > unevenSlots {
		return layout.Layout{}, false
	}
	return layout.Replicated(threads, ones(len(shape))...).Local(rest...).Spatial(over...), true
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func global(g *Graph, in *Instr) []found {
	for _, t := range registers(in.tiles()) {
		if !t.wants() || t.Elem.Bits() == 0 {
			continue
		}
		vector := gcd(max(1, in.Vector), max(1, 128/t.Elem.Bits()))
		if l, ok := sideBySide(g.threads(in), t.Shape, in.Along, vector); ok {
			return reg(t, l)
		}
	}
	return nil
}

// fresh is the rule of what makes a tile from nothing.
func fresh(g *Graph, in *Instr) []found {
	for _, t := range registers(in.Out) {
		if !t.wants() {
			continue
		}
		if l, ok := sideBySide(g.threads(in), t.Shape, 0, 1); ok {
			return reg(t, l)
		}
	}
	return nil
}

func nothing(*Graph, *Instr) []found { return nil }

func atomic(g *Graph, in *Instr) []found {
	tiles := registers(in.tiles())
	for _, from := range tiles {
		if !from.Known {
			continue
		}
		var all []found
		for _, to := range tiles {
			if to.wants() && slices.Equal(to.Shape, from.Shape) {
				all = append(all, reg(to, from.Register)...)
			}
		}
		return all
	}
	if len(tiles) > 0 {
		if l, ok := sideBySide(g.threads(in), tiles[0].Shape, 0, 1); ok {
			return reg(tiles[0], l)
		}
	}
	return nil
}

// everyThread is the layout in which each thread holds all of a tile.
func everyThread(g *Graph, in *Instr, shape []int) layout.Layout {
	return layout.Replicated(g.threads(in), shape...)
}

func (g *Graph) fits(in *Instr, shape []int) bool {
	return size(shape) <= layout.MaxCells/g.threads(in)
}

func replicated(g *Graph, in *Instr) []found {
	var all []found
	for _, t := range registers(in.tiles()) {
		if t.wants() && g.fits(in, t.Shape) {
			all = append(all, reg(t, everyThread(g, in, t.Shape))...)
		}
	}
	return all
}

// sliced is the layout of a part of a tile that keeps some dimensions.
func sliced(in *Instr, whole layout.Layout, part, shape []int) (layout.Layout, bool) {
	var drop, cut []int
	if len(part) == len(shape) {
		for d := range shape {
			if part[d] == 1 && shape[d] != 1 {
				cut = append(cut, d)
			}
		}
	} else {
		keep := kept(in, len(shape), len(part))
		for d := range shape {
			if !slices.Contains(keep, d) {
				drop = append(drop, d)
			}
		}
	}
	// Threads that hold other elements do not hold the part.
	spatial, _ := whole.Digits()
	for _, g := range spatial {
		if slices.Contains(cut, g.Dim) || slices.Contains(drop, g.Dim) {
			return layout.Layout{}, false
		}
	}
	l, err := whole.Reduce(cut, true)
	if err != nil {
		return l, false
	}
	l, err = l.Reduce(drop, false)
	return l, err == nil && slices.Equal(l.Shape(), part)
}

// kept are the dimensions that a slice keeps.
func kept(in *Instr, rank, part int) []int {
	if len(in.Dims) == part && part > 0 {
		return in.Dims
	}
	var keep []int
	for d := rank - part; d < rank; d++ {
		keep = append(keep, d)
	}
	return keep
}

func sliceRegister(g *Graph, in *Instr) []found {
	ins, outs := registers(in.In), registers(in.Out)
	if len(ins) != 1 || len(outs) != 1 {
		return nil
	}
	return slicePair(g, in, ins[0], outs[0])
}

// sliceAssign has the whole first among the operands, and as its result where it has
// one.
func sliceAssign(g *Graph, in *Instr) []found {
	ins, outs := registers(in.In), registers(in.Out)
	if len(ins) != 2 {
		return nil
	}
	whole := ins[0]
	for _, out := range outs {
		if whole.Known && out.wants() {
			return reg(out, whole.Register)
		}
		if out.Known && whole.wants() {
			return reg(whole, out.Register)
		}
	}
	return slicePair(g, in, whole, ins[1])
}

func slicePair(g *Graph, in *Instr, whole, part *Tile) []found {
	if whole.wants() {
		if part.Known {
			if l, ok := wholeOf(in, whole.Shape, part.Register); ok {
				return reg(whole, l)
			}
			if g.fits(in, whole.Shape) {
				return reg(whole, everyThread(g, in, whole.Shape))
			}
		}
		return nil
	}
	if l, ok := sliced(in, whole.Register, part.Shape, whole.Shape); ok {
		return reg(part, l)
	}
	if l, ok := outer(in, whole.Register, part.Shape); ok {
		return reg(part, l)
	}
	return nil
}

func reduce(g *Graph, in *Instr) []found {
	if len(in.In) == 0 || len(in.Out) == 0 {
		return nil
	}
	from, to := in.In[0], in.Out[0]
	if !from.Known {
		return nil
	}
	if len(from.Shape) == len(to.Shape) {
		if l, err := from.Register.ReduceTo(to.Shape); err == nil {
			return reg(to, l)
		}
		return nil
	}
	over := in.Dims
	if len(over) == 0 { // what is left stands in order
		k := 0
		for d, n := range from.Shape {
			if k < len(to.Shape) && to.Shape[k] == n {
				k++
				continue
			}
			over = append(over, d)
		}
	}
	if l, err := from.Register.Reduce(over, false); err == nil {
		return reg(to, l)
	}
	return nil
}

// transform carries a layout over Transpose and Reshape, both ways.
func transform(g *Graph, in *Instr) []found {
	if len(in.In) != 1 || len(in.Out) != 1 {
		return nil
	}
	from, to := in.In[0], in.Out[0]
	order := in.Dims
	if in.Op == "Transpose" && len(order) == 0 {
		for d := len(from.Shape) - 1; d >= 0; d-- {
			order = append(order, d)
		}
	}
	carry := func(l layout.Layout, t *Tile, order []int) []found {
		var err error
		if in.Op == "Transpose" {
			l, err = l.Permute(order...)
		} else {
			l, err = l.Reshape(t.Shape...)
		}
		if err != nil {
			return nil
		}
		return reg(t, l)
	}
	if from.Known {
		return carry(from.Register, to, order)
	}
	if to.Known {
		return carry(to.Register, from, inverse(order))
	}
	return nil
}

// repeat is the rule of Repeat and RepeatInterleave.
func repeat(g *Graph, in *Instr) []found {
	if len(in.In) != 1 || len(in.Out) != 1 || len(in.In[0].Shape) != len(in.Out[0].Shape) {
		return nil
	}
	from, to := in.In[0], in.Out[0]
	times := make([]int, len(from.Shape))
	for d, n := range from.Shape {
		if to.Shape[d]%n != 0 {
			return nil
		}
		times[d] = to.Shape[d] / n
	}
	copies := layout.Local(times...)
	switch {
	case from.Known && to.wants():
		outer, inner := copies, from.Register
		if in.Op == "RepeatInterleave" {
			outer, inner = inner, outer
		}
		if l, ok := chain(outer, inner); ok {
			return reg(to, l)
		}
	case to.Known && from.wants():
		l, err := to.Register.LeftDiv(copies)
		if in.Op == "RepeatInterleave" {
			l, err = to.Register.Div(copies)
		}
		if err == nil {
			return reg(from, l)
		}
	}
	return nil
}

func inverse(order []int) []int {
	out := make([]int, len(order))
	for i, d := range order {
		if d < 0 || d >= len(out) {
			return nil
		}
		out[d] = i
	}
	return out
}

func random(g *Graph, in *Instr) []found {
	if len(in.In) == 0 || len(in.Out) == 0 {
		return nil
	}
	offsets, out := in.In[len(in.In)-1], in.Out[0]
	if len(offsets.Shape) >= layout.MaxRank {
		return nil
	}
	four := layout.Local(append([]int{4}, ones(len(offsets.Shape))...)...)
	if offsets.Known {
		l, err := offsets.Register.Unsqueeze(0)
		if err != nil {
			return nil
		}
		if l, ok := chain(four, l); ok {
			return reg(out, l)
		}
		return nil
	}
	if out.Known {
		l, err := out.Register.LeftDiv(four)
		if err != nil {
			return nil
		}
		if l, err = l.Squeeze(0); err == nil {
			return reg(offsets, l)
		}
	}
	return nil
}

func ones(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = 1
	}
	return out
}
