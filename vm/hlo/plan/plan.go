// Package plan decides how a fusion runs on a GPU: its heroes, the emitter, the
// launch grid, the vector width, the width of indices, and which element each
// thread handles, as indexing maps from thread and block numbers. The functions are
// pure: from shapes and a [Device] to numbers. [New] applies them to a computation.
//
// Thread maps have the dimensions th_x, th_y, th_z, bl_x, bl_y, bl_z and range
// variables for what a thread loops over.
//
// Source: openxla/xla, xla/backends/gpu/codegen/emitters and
// xla/service/gpu/{launch_dimensions,gpu_fusible,reduction_utils,ir_emission_utils}.cc.
package plan

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Device is what a plan depends on.
type Device struct {
	Name         string
	SMs          int
	ThreadsPerSM int
	SharedBytes  int // static shared memory of a block
	Warp         int
}

// Devices lists the devices that have names.
func Devices() []Device {
	return []Device{
		{"rtx_a6000", 84, 1536, 48 << 10, 32},
		{"h100_sxm", 132, 2048, 48 << 10, 32},
		{"h200_sxm", 132, 2048, 48 << 10, 32},
		{"b200", 148, 2048, 48 << 10, 32},
	}
}

// FindDevice is the device of that name.
func FindDevice(name string) (Device, error) {
	for _, d := range Devices() {
		if d.Name == name {
			return d, nil
		}
	}
	var names []string
	for _, d := range Devices() {
		names = append(names, d.Name)
	}
	return Device{}, fmt.Errorf("plan: there is no device %q; there are %s", name, strings.Join(names, ", "))
}

// Wave is how many threads the device holds at once.
func (d Device) Wave() int { return d.SMs * d.ThreadsPerSM }

// The emitters.
const (
	LoopEmitter        = "loop"
	TransposeEmitter   = "transpose"
	RowEmitter         = "reduce_row"
	MultiRowEmitter    = "reduce_multi_row"
	ColumnEmitter      = "reduce_column"
	SmallColumnEmitter = "reduce_column_small"
	ConcatEmitter      = "concatenate"
	UpdateEmitter      = "dynamic_update_slice"
	ScatterEmitter     = "scatter"
	SlicesEmitter      = "input_slices"
	OnePassEmitter     = "one_pass"     // whole rows in registers, several reductions of them
	RowSplitEmitter    = "row_split"    // several blocks share a row; the last one combines
	ColumnSplitEmitter = "column_split" // several blocks share columns; the last one combines
	CopyEmitter        = "memcpy"
)

// Kernel is how one launch does its work. Fields that an emitter does not use are
// zero.
type Kernel struct {
	// Computation is what the kernel computes: that of the plan, or a part of it whose
	// parameters are what earlier kernels left. Args are the buffers of its parameters,
	// Results those of its roots, both by number in Plan.Buffers. A buffer that stands
	// in both is changed in place.
	Computation   *hlo.Computation
	Args, Results []int
	// Work are the buffers that blocks of a split reduction share: partial results of
	// each accumulator, [chunks, outputs], then the counter of each tile of outputs.
	Work []int

	Emitter string
	Why     []string // the tests that chose the emitter and the numbers

	Heroes, Roots []*hlo.Instruction
	Groups        [][]*hlo.Instruction // roots that share a read loop; several are told apart by block z
	SideOutputs   []*hlo.Instruction   // roots written in the loop that reads for a hero

	Threads int
	Blocks  [3]int
	Unroll  int // elements of the output that a thread of a loop handles in a row
	Vector  int

	Dims            []int // normal form of a reduction [a, b, c] or of a transposed operand
	Permutation     []int // of the normal form
	ThreadsKept     int   // rows that a block reduces at once
	ThreadsReduced  int   // threads that share a row
	Tile            []int // elements per thread, or sizes of a block's tile
	BlockCounts     []int
	WarpsPerRow     int
	Shared          []int // one shared tile
	SharedTiles     int
	SharedRows      int
	Loop            int // turns of the read loop
	Syncs           int
	ShuffleDistance int // the farthest lane that a shuffle reads from
	Packed          *Packed
	Reason          string // why the wished emitter is not taken
	Atomic          bool
	AtomicLanes     int     // elements that one atomic operation combines
	Run             int     // indices in a row that a warp of a scatter with sorted indices owns
	IndexVector     int     // of which it reads so many at once
	Chunks          int     // blocks (in y) that share a tile of a split reduction
	Stages          []Stage // of a one-pass kernel
	IndexBits       int
	Maps            []NamedMap // [Single] and the functions of one emitter simplify them; [New] does not, since that takes longer than all else
	Steps           []string   // at the tensor level, in order
}

// NamedMap is a thread map with its meaning.
type NamedMap struct {
	Name string
	Of   *hlo.Instruction // the instruction whose elements it names, where that matters
	Map  affine.Map
	Dims []int // sizes of what it leads to
}

// Find is the first map of that name.
func (k *Kernel) Find(name string) (NamedMap, bool) {
	for _, m := range k.Maps {
		if m.Name == name {
			return m, true
		}
	}
	return NamedMap{Map: affine.Undefined()}, false
}

func (k *Kernel) why(format string, args ...any) {
	k.Why = append(k.Why, diag.Sprintf(format, args...))
}

// simplified is the kernel with simple maps.
func (k *Kernel) simplified() *Kernel {
	for i := range k.Maps {
		k.Maps[i].Map, _ = k.Maps[i].Map.Simplify(false)
	}
	return k
}

func (k *Kernel) add(name string, m affine.Map, dims []int) {
	k.Maps = append(k.Maps, NamedMap{Name: name, Map: m, Dims: dims})
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
func roundUp(a, b int) int { return ceilDiv(a, b) * b }

func product(v []int) int {
	n := 1
	for _, x := range v {
		n *= x
	}
	return n
}

func num(v int) affine.Expr { return affine.Const(int64(v)) }
func sym(i int) affine.Expr { return affine.Var(fmt.Sprintf("s%d", i)) }
func to(n int) affine.Range { return affine.Range{Lo: 0, Hi: int64(n) - 1} }
func in(e affine.Expr, n int) affine.Constraint {
	return affine.Constraint{Expr: e, Range: to(n)}
}

var (
	thread = affine.Var("th_x")
	blockX = affine.Var("bl_x")
	blockY = affine.Var("bl_y")
)

// threadMap makes a simplified map from threads and blocks, with symbols s0, s1, …
// of the sizes given. A symbol of one value stays listed, as in XLA's thread maps.
func threadMap(threads int, blocks [3]int, symbols []int, results []affine.Expr, constraints ...affine.Constraint) affine.Map {
	one := affine.Range{}
	dims := []affine.Variable{{Name: "th_x", Range: to(threads)}, {Name: "th_y", Range: one}, {Name: "th_z", Range: one},
		{Name: "bl_x", Range: to(blocks[0])}, {Name: "bl_y", Range: to(blocks[1])}, {Name: "bl_z", Range: to(blocks[2])}}
	var ranges []affine.Variable
	for i, n := range symbols {
		ranges = append(ranges, affine.Variable{Name: fmt.Sprintf("s%d", i), Range: to(n)})
	}
	m, err := affine.NewMap(dims, ranges, nil, results, constraints)
	if err != nil {
		return affine.Undefined()
	}
	return m
}

// grid spreads blocks over x and, beyond the limit of x, y.
func grid(blocks int) [3]int {
	blocks = max(blocks, 1)
	most := ir.MostBlocks(0)
	if blocks <= most {
		return [3]int{blocks, 1, 1}
	}
	y := ceilDiv(blocks, most)
	return [3]int{ceilDiv(blocks, y), y, 1}
}

// delinear is the position in memory order of a shape, as a position in its
// logical dimensions.
func delinear(offset affine.Expr, s hlo.Shape) []affine.Expr {
	order := s.MinorToMajor()
	at := index.Delinear(offset, s.Physical().Dims)
	out := make([]affine.Expr, len(order))
	for i, e := range at {
		out[order[len(order)-1-i]] = e
	}
	return out
}

// launch sets threads, blocks and the linear element index of a loop over n elements,
// u at a time; the index of the first of them is returned divided by u.
func (k *Kernel) launch(n, u int) affine.Expr {
	items := ceilDiv(n, u)
	k.Threads = max(1, min(128, items))
	k.Blocks = grid(ceilDiv(items, k.Threads))
	k.Unroll = u
	block := blockX
	if k.Blocks[1] > 1 {
		block = blockY.Mul(num(k.Blocks[0])).Add(blockX)
	}
	return block.Mul(num(k.Threads)).Add(thread)
}

// unrollOf is how many elements a thread of a loop over shape handles: most, as far
// as that divides the elements, once they fill the device; and whole bytes.
func (k *Kernel) unrollOf(s hlo.Shape, mayUnroll bool, most int, d Device) int {
	n := s.Elements()
	u := 1
	switch {
	case !mayUnroll:
		k.why("unroll 1: the fusion has an operation that suffers from unrolling")
	case n < d.Wave():
		k.why("unroll 1: %d elements do not fill the %d threads of the device", n, d.Wave())
	default:
		u = gcd(n, most)
		k.why("unroll %d: gcd(%d, %d)", u, n, most)
	}
	if bits := s.Type.Bits(); bits > 0 && bits < 8 && u < 8/bits {
		u = 8 / bits
		k.why("unroll %d: a thread owns whole bytes", u)
	}
	return u
}

func unrollSymbols(u int) (affine.Expr, []int) {
	if u == 1 {
		return num(0), nil
	}
	return sym(0), []int{u}
}

// Loop plans an element-wise loop over a root of the shape.
func Loop(s hlo.Shape, mayUnroll bool, d Device) *Kernel {
	return loop(s, mayUnroll, xlaUnroll, d).simplified()
}

func loop(s hlo.Shape, mayUnroll bool, most int, d Device) *Kernel {
	k := &Kernel{Emitter: LoopEmitter}
	u := k.unrollOf(s, mayUnroll, most, d)
	k.loopOver("thread_to_output", s, u)
	k.Vector = u
	k.Steps = []string{"loop", "call:root", "insert_output"}
	return k
}

// loopOver sets the launch and the map of a loop over a shape.
func (k *Kernel) loopOver(name string, s hlo.Shape, u int) {
	n := s.Elements()
	first := k.launch(n, u)
	last, symbols := unrollSymbols(u)
	linear := first.Mul(num(u)).Add(last)
	k.add(name, threadMap(k.Threads, k.Blocks, symbols, delinear(linear, s), in(linear, n)), s.Dims)
}

// Concatenate plans a copy of every operand to its place: the grid is that of the
// largest operand.
func Concatenate(operands []hlo.Shape, axis int, d Device) *Kernel {
	return concatenate(operands, axis, xlaUnroll, d).simplified()
}

// xlaUnroll is the most elements of a loop that a thread handles in a row in XLA.
const xlaUnroll = 4

func concatenate(operands []hlo.Shape, axis, most int, d Device) *Kernel {
	k := &Kernel{Emitter: ConcatEmitter}
	largest, extents := 0, most
	for i, s := range operands {
		extents = gcd(extents, s.Dims[axis])
		if s.Elements() > operands[largest].Elements() {
			largest = i
		}
	}
	s := operands[largest]
	u := 1
	if s.Elements() >= d.Wave() {
		u = extents
	}
	if bits := s.Type.Bits(); bits > 0 && bits < 8 {
		u = max(u, 8/bits)
	}
	k.why("the grid is that of operand %d, the largest; unroll %d", largest, u)
	first := k.launch(s.Elements(), u)
	k.Vector = u
	last, symbols := unrollSymbols(u)
	linear := first.Mul(num(u)).Add(last)
	offset := 0
	k.Steps = []string{}
	for _, o := range operands {
		at := delinear(linear, s)
		out := append([]affine.Expr(nil), at...)
		out[axis] = at[axis].Add(num(offset))
		bounds := []affine.Constraint{in(linear, s.Elements()), in(at[axis], o.Dims[axis])}
		k.add("operand_map", threadMap(k.Threads, k.Blocks, symbols, at, bounds...), o.Dims)
		k.add("output_map", threadMap(k.Threads, k.Blocks, symbols, out, bounds...), nil)
		offset += o.Dims[axis]
		k.Steps = append(k.Steps, "loop", "call:operand", "call:epilogue", "insert_output")
	}
	return k
}

// Update plans an update in place: the grid is that of the update. Clamps are the
// largest starts.
func Update(operand, update hlo.Shape, d Device) (k *Kernel, clamps []int) {
	k, clamps = updateIn(operand, update, xlaUnroll, d)
	return k.simplified(), clamps
}

func updateIn(operand, update hlo.Shape, most int, d Device) (k *Kernel, clamps []int) {
	k = &Kernel{Emitter: UpdateEmitter}
	u := k.unrollOf(update, true, most, d)
	k.loopOver("thread_to_update", update, u)
	k.Vector = u
	for i, n := range operand.Dims {
		clamps = append(clamps, n-update.Dims[i])
	}
	k.Steps = []string{"clamp", "loop", "call:update", "insert_output"}
	return k, clamps
}

// ScatterLoop plans a loop over the updates of a scatter of the simplified form: the
// updates are boxes, one for each row of the indices.
func ScatterLoop(operand, update, indices hlo.Shape, unique bool, d Device) *Kernel {
	return scatterLoop(operand, update, indices, unique, xlaUnroll, d).simplified()
}

func scatterLoop(operand, update, indices hlo.Shape, unique bool, most int, d Device) *Kernel {
	k := &Kernel{Emitter: ScatterEmitter, Atomic: !unique}
	slice := product(update.Dims[1:])
	u := 1
	if update.Elements() >= d.Wave() {
		u = gcd(slice, most)
	}
	k.loopOver("thread_to_update", update, u)
	k.Vector = u
	first := k.launch(update.Elements(), u)
	last, _ := unrollSymbols(u)
	linear := first.Mul(num(u)).Add(last)
	row := delinear(linear, update)[0]
	parts := 1
	if len(indices.Dims) > 1 {
		parts = indices.Dims[1]
	}
	// The unrolled elements lie in one row, so it does not depend on them.
	bounds := []affine.Constraint{in(first, ceilDiv(update.Elements(), u))}
	row = row.Subst(map[string]affine.Expr{"s0": num(0)})
	k.add("thread_to_index_row", threadMap(k.Threads, k.Blocks, []int{parts}, []affine.Expr{row, sym(0)}, bounds...), indices.Dims)
	k.Steps = []string{"guard_update_in_range", "guard_index_ule", "loop", "call:update"}
	if unique {
		k.Steps = append(k.Steps, "call:operand", "combiner", "insert_output")
	} else {
		k.Steps = append(k.Steps, "atomic_rmw")
	}
	return k
}

// SortedScatter plans a scatter of the simplified form whose indices are sorted, as XLA does
// where updates are many: a warp owns Run consecutive rows of the indices, reads IndexVector of
// them at once, and keeps what it combines in registers until the index changes. It is nil
// where updates are too few or the indices unique, and [ScatterLoop] is taken.
func SortedScatter(operand, update, indices hlo.Shape, unique bool, d Device) *Kernel {
	if k := sortedScatter(operand, update, indices, unique, d); k != nil {
		return k.simplified()
	}
	return nil
}

func sortedScatter(operand, update, indices hlo.Shape, unique bool, d Device) *Kernel {
	const warps = 4 // of a block
	if unique || len(update.Dims) == 0 || len(indices.Dims) != 2 || len(update.Dims) != len(operand.Dims)+1 {
		return nil
	}
	rows, slice := update.Dims[0], product(update.Dims[1:])
	if rows <= warps*d.SMs || slice == 0 {
		return nil
	}
	places := 1 // where a window may begin
	for i, n := range operand.Dims[:min(indices.Dims[1], len(operand.Dims))] {
		places = min(places*max(1, n-update.Dims[i+1]+1), rows) // more than rows is as good as rows
	}
	k := &Kernel{Emitter: ScatterEmitter, Atomic: true, IndexVector: 1}
	k.Run = ceilDiv(rows, max(warps*d.SMs, places))
	if most := vectorBytes * 8 / indices.Type.Bits(); indices.Dims[1] == 1 && k.Run > most {
		k.Run, k.IndexVector = roundUp(k.Run, most), most
	}
	v := gcd(slice, vectorBytes*8/update.Type.Bits())
	for v > 1 && d.Warp*v > slice {
		v /= 2
	}
	turns := ceilDiv(slice, d.Warp*v)
	k.Threads, k.Blocks = warps*d.Warp, grid(ceilDiv(rows, k.Run*warps))
	k.Unroll, k.Vector, k.Loop = v, v, turns
	k.Tile = []int{k.Run, turns, v}
	k.why("the indices are sorted: a warp owns %d of %d and combines updates in registers, vectors of %d", k.Run, rows, v)
	block := blockX
	if k.Blocks[1] > 1 {
		block = blockY.Mul(num(k.Blocks[0])).Add(blockX)
	}
	first := block.Mul(num(warps)).Add(thread.FloorDiv(num(d.Warp))).Mul(num(k.Run))
	row := first.Add(sym(0))
	at := sym(1).Mul(num(d.Warp * v)).Add(thread.Mod(num(d.Warp)).Mul(num(v))).Add(sym(2))
	k.add("thread_to_update", threadMap(k.Threads, k.Blocks, k.Tile, append([]affine.Expr{row}, index.Delinear(at, update.Dims[1:])...), in(row, rows), in(at, slice)), update.Dims)
	row = first.Add(sym(0).Mul(num(k.IndexVector))).Add(sym(1))
	k.add("thread_to_index_row", threadMap(k.Threads, k.Blocks, []int{k.Run / k.IndexVector, k.IndexVector, indices.Dims[1]}, []affine.Expr{row, sym(2)}, in(row, rows)), indices.Dims)
	k.Steps = []string{"guard_update_in_range", "guard_index_ule", "loop", "call:update", "atomic_rmw"}
	if k.Run > 1 {
		k.Steps = []string{"loop", "atomic_rmw", "guard_index_ule", "loop", "call:update", "combiner", "atomic_rmw"}
	}
	return k
}

// InputSlices plans several slices of one input as a loop over the input, with one
// predicated write for each slice.
func InputSlices(input hlo.Shape, slices [][]hlo.SliceDim, d Device) *Kernel {
	return inputSlices(input, slices, d).simplified()
}

func inputSlices(input hlo.Shape, slices [][]hlo.SliceDim, d Device) *Kernel {
	k := &Kernel{Emitter: SlicesEmitter}
	n := input.Elements()
	linear := k.launch(n, 1)
	k.Vector = 1
	at := delinear(linear, input)
	for _, s := range slices {
		var out []affine.Expr
		bounds := []affine.Constraint{in(linear, n)}
		var dims []int
		for i, c := range s {
			size := ceilDiv(c.Limit-c.Start, c.Stride)
			e := at[i].Sub(num(c.Start))
			bounds = append(bounds, in(e, (size-1)*c.Stride+1))
			if c.Stride > 1 {
				bounds = append(bounds, affine.Constraint{Expr: e.Mod(num(c.Stride))})
			}
			out = append(out, e.FloorDiv(num(c.Stride)))
			dims = append(dims, size)
		}
		k.add("slice", threadMap(k.Threads, k.Blocks, nil, out, bounds...), dims)
	}
	k.Steps = []string{"call:input", "predicated_insert"}
	return k
}
