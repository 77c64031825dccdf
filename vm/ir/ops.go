package ir

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

const paper = "Tilus, ASPLOS'26, arXiv 2504.12984"

// DotStep is how many elements of k one rounding of Dot covers for 16-bit floats:
// the k extent of their matrix instructions. [DotForms] has those of other types.
const DotStep = 16

// table is the instruction set. Order is the order of the manual.
var table = slices.Concat([]*Op{
	{
		Name: "BlockIndices", Family: "index", Class: ClassIndex,
		Doc: "The index of this block in each dimension of the grid. Give as many names as the grid has dimensions, or fewer; each is an i32 scalar.",
		Out: []Port{{Name: "i", Accept: AcceptScalar}, {Name: "j", Accept: AcceptScalar, Optional: true}, {Name: "k", Accept: AcceptScalar, Optional: true}},
		Rules: []Rule{
			{Text: "There are at most as many results as the grid has dimensions.",
				Check: func(p *Program, in *Instr) *Violation {
					if len(in.Out) > len(p.Grid) {
						return &Violation{Msg: fmt.Sprintf("%d block indices are taken, the grid has %d dimensions", len(in.Out), len(p.Grid)),
							Help: "add dimensions to the grid, program name<nx, ny>(…), or take fewer"}
					}
					return nil
				}},
			{Text: "Each result is an i32.",
				Check: func(p *Program, in *Instr) *Violation {
					for i, v := range in.Out {
						if v.Type.Elem != dtype.I32 {
							return &Violation{Pos: in.typePos(i), Msg: fmt.Sprintf("%s is %s", v.Name, v.Type.Elem), Help: "leave the type out, or use a new name"}
						}
					}
					return nil
				}},
		},
		Since: "0.1", Source: paper + " Table 1", Example: "bi, bj = BlockIndices()",
	},
	{
		Name: "ViewGlobal", Aliases: []string{"GlobalView"}, Family: "memory", Class: ClassView,
		Doc:   "A row-major tensor over the memory that a pointer parameter points to. Element k of the tensor occupies bits [k·n, (k+1)·n) of the memory, n being the width of the element type, so elements narrower than a byte lie packed. The shape may use scalar parameters. With strides, element [i, j, …] is number i·strides[0] + j·strides[1] + … instead: a transposed or padded tensor, or one that repeats itself where a stride is 0.",
		In:    []Port{{Name: "ptr", Accept: AcceptPointer}},
		Out:   []Port{{Name: "tensor", Accept: AcceptGlobal}},
		Attrs: []AttrSpec{{Name: "strides", Kind: AttrExprs, Doc: "elements from one index to the next in each dimension, of constants and scalar parameters; rows one after the other if left out"}},
		Rules: []Rule{
			{Text: "The tensor has the element type of the pointer.",
				Why: "The argument is checked against the pointer's type at launch; another type would read the same bits as something else.",
				Check: func(p *Program, in *Instr) *Violation {
					if from, to := in.In[0].Var().Type.Elem, in.Out[0].Type.Elem; from != to {
						return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is a *%s, the tensor is of %s", in.In[0].Var().Name, from, to),
							Help: fmt.Sprintf("declare the parameter as *%s, or view it as %s and reinterpret registers with View", to, from)}
					}
					return nil
				}},
			{Text: "The shape uses only constants and scalar parameters.",
				Why:   "Extents are computed once, on the host, and checked there against the argument.",
				Check: checkFixedShape},
			{Text: "strides has one entry for each dimension, which uses only constants and scalar parameters.",
				Why: "They are computed once, on the host, and checked there against the argument.",
				Check: func(p *Program, in *Instr) *Violation {
					a := in.Attr("strides")
					if a == nil {
						return nil
					}
					if n := len(in.Out[0].Type.Shape); len(a.Exprs) != n {
						return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("strides has %d entries, the tensor %d dimensions", len(a.Exprs), n)}
					}
					return checkFixed(a.Exprs)
				}},
			ruleOneView,
		},
		Since: "0.1", Source: paper + " Table 1", Example: "gb = ViewGlobal(b) : global u8[K/16, N/8, 96]",
	},
	{
		Name: "AllocateRegister", Family: "register",
		Doc:   "A new register tensor. With init every element has that value (as Cast from f64 gives it; inf, -inf and nan are values of the types that have them); without, reading an element before it is written is an error on the interpreter and the simulator.",
		Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{{Name: "init", Kind: AttrNumber, Doc: "the value of every element"}},
		Rules: []Rule{
			{Text: "init is a value of the element type.",
				Check: func(p *Program, in *Instr) *Violation {
					a := in.Attr("init")
					if a == nil {
						return nil
					}
					t := in.Out[0].Type.Elem
					switch v := a.Number; {
					case math.IsNaN(v) && t.HasNaN(), math.IsInf(v, 0) && t.HasInf():
						return nil
					case !(v >= t.Min() && v <= t.Max()), !t.IsFloat() && v != math.Trunc(v):
						return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("%s cannot hold %s", t, FormatFloat(v)), Help: fmt.Sprintf("%s holds %s to %s", t, t.Format(t.MinCode()), t.Format(t.MaxCode()))}
					}
					return nil
				}},
		},
		Since: "0.1", Source: paper + " Table 1", Example: "acc = AllocateRegister(init=0) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)",
	},
	{
		Name: "LoadGlobal", Family: "memory", Class: ClassMemory, Effects: ReadsGlobal,
		Doc: "Loads a tile of a global tensor into registers. Element [i, j, …] of the tile comes from offset plus that index; dims says along which dimensions of the tensor the tile lies (the last ones, if left out). Elements outside the tensor are 0.",
		In:  []Port{{Name: "src", Accept: AcceptGlobal}},
		Out: []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{
			{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in src of the tile's first element, one entry per dimension of src"},
			{Name: "dims", Kind: AttrInts, Doc: "the dimension of src that each dimension of the tile lies along"},
			attrCache,
			{Name: "prefetch", Kind: AttrNumber, Doc: "64, 128 or 256: so many bytes around what is read come to the L2 cache; a hint that changes no result"},
		},
		Rules: []Rule{ruleTileType(true), ruleOffset, ruleDims, rulePrefetch},
		Since: "0.1", Source: paper + " Table 1", Example: "ra = LoadGlobal(ga, offset=[bi*16, k*16]) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)",
	},
	{
		Name: "StoreGlobal", Family: "memory", Class: ClassMemory, Effects: WritesGlobal,
		Doc: "Stores a register tile to a global tensor; offset and dims as in LoadGlobal. Elements outside the tensor are not stored. Elements narrower than a byte may share a byte with a neighbour held by another thread of the grid: each element's bits are written without disturbing the others.",
		In:  []Port{{Name: "dst", Accept: AcceptGlobal}, {Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{
			{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in dst of the tile's first element, one entry per dimension of dst"},
			{Name: "dims", Kind: AttrInts, Doc: "the dimension of dst that each dimension of the tile lies along"},
			attrCache,
		},
		Rules: []Rule{ruleTileType(false), ruleOffset, ruleDims},
		Since: "0.1", Source: paper + " Table 1", Example: "StoreGlobal(gc, out, offset=[bi*16, bj*8])",
	},
	{
		Name: "View", Family: "register", Class: ClassView,
		Doc: "The same bits in the same threads, read as another element type and layout. The bits that a thread holds are its slots in order, low bits first; no bit moves, so View costs nothing. With a placement in the result's type, place=4[(0,16)*4+4], the bits of a slot are those of the thread at the positions that the placement lists (vm/layout/bits has the notation): what is stored for a fast Cast is named as it was stored.",
		In:  []Port{{Name: "x", Accept: AcceptRegister}},
		Out: []Port{{Name: "tile", Accept: AcceptRegister}},
		Rules: []Rule{
			{Text: "Source and result have the same number of threads.",
				Why: "A view moves nothing between threads.",
				Check: func(p *Program, in *Instr) *Violation {
					from, to := in.In[0].Var().Type, in.Out[0].Type
					if f, t := from.Layout.Threads(), to.Layout.Threads(); f != t {
						return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s has %d threads, the view %d", in.In[0].Var().Name, f, t), Help: "both layouts must spread over the same threads"}
					}
					return nil
				}},
			{Text: "Source and result hold the same number of bits in each thread.",
				Why:   "A view adds and drops no bit: slots × element width must agree.",
				Check: checkViewBits},
			{Text: "Where the result's layout gives one element to several threads, those threads hold equal bits of the source.",
				Why: "Otherwise the element would have several values.",
				Check: func(p *Program, in *Instr) *Violation {
					from, to := in.In[0].Var().Type, in.Out[0].Type
					if from.Layout.Threads() != to.Layout.Threads() || from.BitsPerThread() != to.BitsPerThread() {
						return nil
					}
					return checkViewReplicas(in, from, to)
				}},
			{Text: "A placement of the result has one element of the element's width for each slot and covers the thread's bits.",
				Why:   "Each bit that the thread holds is one bit of one slot, as without a placement.",
				Check: checkViewPlace},
		},
		Since: "0.1", Source: paper + " §6", Example: "rw = View(rb) : register i6[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)",
	},
	{
		Name: "Cast", Family: "register", Class: ClassElementwise,
		Doc:   "Each element as the nearest value of another type: ties to even, saturating for types of up to 8 bits and integers, infinity on overflow of wider floats, truncation from float to integer. vm/dtype's Cast is the definition. Elements with a placement are cast by the recipe of vm/recipe that reads it, if there is one.",
		In:    []Port{{Name: "x", Accept: AcceptRegister}},
		Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{attrDomain},
		Rules: []Rule{
			{Text: "Source and result have one shape.", Check: func(p *Program, in *Instr) *Violation {
				from, to := in.In[0].Var().Type, in.Out[0].Type
				if f, t := shapeText(from), shapeText(to); f != t {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is %s, the result %s", in.In[0].Var().Name, f, t), Help: "Cast keeps the shape; View changes it"}
				}
				return nil
			}},
			{Text: "Each thread holds the same elements of source and result. They may stand in another order of slots, alike in all threads.",
				Why: "Each thread casts what it holds; naming registers in another order costs nothing.",
				Check: func(p *Program, in *Instr) *Violation {
					from, to := in.In[0].Var().Type, in.Out[0].Type
					if shapeText(from) != shapeText(to) {
						return nil
					}
					if _, ok := SlotMap(from, to); !ok {
						return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s lies as %s, the result as %s", in.In[0].Var().Name, from.Layout, to.Layout),
							Help: fmt.Sprintf("write the result as %s", RegisterOf(to.Elem, from.Layout))}
					}
					return nil
				}},
		},
		Since: "0.1", Source: paper + " Table 1", Example: "rh = Cast(rw) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)",
	},
	castDeferred,
	elementwise("Add", "x + y, element by element.", 2, "s = Add(x, y) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"),
	elementwise("Sub", "x - y, element by element.", 2, "d = Sub(x, y) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"),
	elementwise("Mul", "x · y, element by element.", 2, "p = Mul(x, scale) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)"),
	elementwise("Fma", "x · y + z, element by element, rounded once.", 3, "acc = Fma(x, scale, acc) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"),
	dotRow,
	synchronize,
	synchronizeReduce,
	atomicScalar,
	gridDependencyWait,
	gridDependencyLaunch,
}, arithmeticRows, indicesRows, reduceRows, randomRows, sharedRows, asyncRows, movementRows, globalRows, scatterRows, barrierRows, pipelineRows, tensorRows, bulkRows, tcgen05Rows, wgmmaRows, clusterRows, printRows)

func (s *Instr) typePos(i int) diag.Pos {
	if i < len(s.TypePos) {
		return s.TypePos[i]
	}
	return diag.Pos{}
}

func shapeText(t Type) string {
	parts := make([]string, len(t.Shape))
	for i, e := range t.Shape {
		parts[i] = e.String()
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// broadcasts reports whether a tensor of shape from repeats to fill shape to.
func broadcasts(from, to []int) bool {
	if len(from) > len(to) {
		return false
	}
	tail := to[len(to)-len(from):]
	for i := range from {
		if from[i] != tail[i] && from[i] != 1 {
			return false
		}
	}
	return true
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// BroadcastIndex is the flat row-major index into a tensor of shape from of the
// element that repeats to index (an index into the larger shape).
func BroadcastIndex(from []int, index []int) int {
	flat := 0
	tail := index[len(index)-len(from):]
	for i, n := range from {
		x := tail[i]
		if n == 1 {
			x = 0
		}
		flat = flat*n + x
	}
	return flat
}

// broadcastFrom is BroadcastIndex of all elements, by their row-major numbers.
func broadcastFrom(from, to []int) []int32 {
	out := []int32{0}
	for d, n := range to {
		size, at := 1, d-len(to)+len(from)
		if at >= 0 {
			size = from[at]
		}
		next := make([]int32, 0, len(out)*n)
		for _, x := range out {
			for i := range n {
				if size == 1 {
					i = 0
				}
				next = append(next, x*int32(size)+int32(i))
			}
		}
		out = next
	}
	return out
}

func checkCover(p *Program, in *Instr) *Violation {
	out := in.Out[0].Type
	for _, o := range in.In {
		v := o.Var()
		if v == nil || !v.Type.IsRegister() {
			continue
		}
		dims, _ := v.Type.Dims()
		outDims, _ := out.Dims()
		if !broadcasts(dims, outDims) {
			return nil
		}
		if v.Type.Layout.Equal(out.Layout) {
			continue
		}
		if v.Type.Layout.Threads() != out.Layout.Threads() {
			return nil
		}
		if v.Type.Layout.Size() != product(dims) {
			return nil // its own assignment is reported
		}
		if _, ok := SlotMap(v.Type, out); ok {
			continue
		}
		held, needs := v.Type.Layout.Flat(), out.Layout.Flat()
		slots := v.Type.Layout.Slots()
		from := broadcastFrom(dims, outDims)
		holds := make([]int32, v.Type.Layout.Size()) // 1 + the last thread that holds the element
		for t := range out.Layout.Threads() {
			for _, e := range held[t*slots : (t+1)*slots] {
				holds[e] = int32(t + 1)
			}
			for s, e := range needs[t*out.Layout.Slots() : (t+1)*out.Layout.Slots()] {
				if holds[from[e]] != int32(t+1) {
					index := out.Layout.Index(t, s)
					help := "load or view the operand in a layout that covers the result's"
					if l, err := out.Layout.ReduceTo(dims); err == nil {
						help = fmt.Sprintf("give %s the layout %s", v.Name, l)
					}
					return &Violation{Pos: o.Pos, Msg: fmt.Sprintf("thread %d computes element %v of the result but holds no matching element of %s (%s)", t, index, v.Name, v.Type.Layout), Help: help}
				}
			}
		}
	}
	return nil
}

func checkViewBits(p *Program, in *Instr) *Violation {
	src := in.In[0].Var()
	from, to := src.Type, in.Out[0].Type
	fb, tb := from.BitsPerThread(), to.BitsPerThread()
	if fb == tb || from.Layout.Threads() != to.Layout.Threads() {
		return nil
	}
	var ways []string
	if n := to.Layout.Slots(); fb%n == 0 && fb/n <= 8 && fb/n != to.Elem.Bits() {
		kind := "u"
		if to.Elem.Signed() {
			kind = "i"
		}
		if t, err := dtype.Parse(fmt.Sprintf("%s%d", kind, fb/n)); err == nil {
			ways = append(ways, fmt.Sprintf("view it as %s, whose %d slots fill %d bits", t, n, fb))
		}
	}
	if from.Elem == dtype.U8 {
		if l, err := layout.PackedView(to.Elem.Bits(), to.Layout); err == nil {
			ways = append(ways, fmt.Sprintf("load %s as u8[%d] %s", src.Name, l.Size(), l))
		}
	}
	help := strings.Join(ways, ", or ")
	if help == "" {
		help = fmt.Sprintf("choose layouts with slots × width equal: %d×%d against %d×%d", from.Layout.Slots(), from.Elem.Bits(), to.Layout.Slots(), to.Elem.Bits())
	}
	return &Violation{Pos: in.typePos(0), Help: help,
		Msg: fmt.Sprintf("%s holds %d bits per thread (%d × %s), the view %d (%d × %s)", src.Name, fb, from.Layout.Slots(), from.Elem, tb, to.Layout.Slots(), to.Elem)}
}

func checkViewPlace(_ *Program, in *Instr) *Violation {
	t := in.Out[0].Type
	if !t.HasPlace {
		return nil
	}
	n, w, bad := t.Layout.Slots(), t.Elem.Bits(), ""
	switch p := t.Place; {
	case p.Bits() != w:
		bad = fmt.Sprintf("places elements of %d bits, %s has %d", p.Bits(), t.Elem, w)
	case p.Elements() != n:
		bad = fmt.Sprintf("places %d elements, a thread has %d slots", p.Elements(), n)
	case p.Words() != (n*w+31)/32:
		bad = fmt.Sprintf("lies in %d words, a thread's bits in %d", p.Words(), (n*w+31)/32)
	default:
		for s := range n {
			for b := range w {
				if at := p.At(s, b); at >= n*w {
					bad = fmt.Sprintf("has a bit at %d, a thread holds %d bits", at, n*w)
				}
			}
		}
	}
	if bad == "" {
		return nil
	}
	help := "leave place= out for slot order"
	if n*w <= 32*bits.MaxWords {
		help = fmt.Sprintf("slot order would be place=%s", bits.Identity(w, n))
	}
	return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the placement %s", bad), Help: help}
}

// checkViewReplicas compares, bit by bit, what each holder of a result element
// takes from the source.
func checkViewReplicas(in *Instr, from, to Type) *Violation {
	if to.Layout.Threads()*to.Layout.Slots() == to.Layout.Size() {
		return nil
	}
	fw, tw := from.Elem.Bits(), to.Elem.Bits()
	src, dst := placesOf(from.Layout), placesOf(to.Layout)
	ts := to.Layout.Slots()
	// origin of bit b of thread t: source element and bit inside it.
	origin := func(t, b int) int { return int(src.at(t, b/fw))*fw + b%fw }
	if checkViewPlace(nil, in) != nil {
		return nil
	}
	// reads are the slots of the source that the bits of each slot lie in.
	reads := make([][]int, ts)
	for s := range reads {
		for b := range tw {
			if k := to.BitOf(s, b) / fw; !slices.Contains(reads[s], k) {
				reads[s] = append(reads[s], k)
			}
		}
	}
	// alike reports that slot s has the same bits in both threads.
	alike := func(t, t0, s int) bool {
		for _, k := range reads[s] {
			if src.at(t, k) != src.at(t0, k) {
				return false
			}
		}
		return true
	}
	first := make([]int, to.Layout.Size()) // thread·slots + slot + 1 of the first holder
	for t := range to.Layout.Threads() {
		for s := range ts {
			e := dst.at(t, s)
			if first[e] == 0 {
				first[e] = t*ts + s + 1
				continue
			}
			t0, s0 := (first[e]-1)/ts, (first[e]-1)%ts
			if s0 == s && alike(t, t0, s) {
				continue
			}
			for b := range tw {
				if origin(t, to.BitOf(s, b)) != origin(t0, to.BitOf(s0, b)) {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("threads %d and %d would both hold element %v but hold different bits of %s", t0, t, to.Layout.Index(t, s), in.In[0].Var().Name),
						Help: "use a layout without replicas, or one whose replicas are the source's"}
				}
			}
		}
	}
	return nil
}

// SlotMap gives, for each slot of a register tensor, the slot of another one in
// which the same thread holds the element that it needs: the same element, or
// the one that broadcasts to it. ok is false where a thread does not hold it, or
// not in the same slot as the other threads do.
func SlotMap(from, to Type) (slots []int, ok bool) {
	if from.Layout.Threads() != to.Layout.Threads() {
		return nil, false
	}
	dims, _ := from.Dims()
	outDims := to.Layout.Shape()
	held, needs := placesOf(from.Layout), placesOf(to.Layout)
	// What is held and what is needed is the thread's part and the slot's together, and
	// both are 0 in thread 0, slot 0: so threads must move alike, and slots be found.
	for t, at := range needs.threads {
		if held.threads[t] != broadcastNumber(dims, outDims, at) {
			return nil, false
		}
	}
	slots = make([]int, len(needs.slots))
	last := -1
	for s, at := range needs.slots {
		need := broadcastNumber(dims, outDims, at)
		if last++; last >= len(held.slots) || held.slots[last] != need { // most often the next one
			if last = slices.Index(held.slots, need); last < 0 {
				return nil, false
			}
		}
		slots[s] = last
	}
	return slots, true
}

// broadcastNumber is [BroadcastIndex] of row-major numbers.
func broadcastNumber(from, to []int, number int32) int32 {
	out, step := int32(0), int32(1)
	for d := 1; d <= len(from); d++ {
		n := int32(to[len(to)-d])
		if size := int32(from[len(from)-d]); size != 1 {
			out += number % n * step
			step *= size
		}
		number /= n
	}
	return out
}

// ruleTileType is the first rule of loads and stores.
func ruleTileType(load bool) Rule {
	return Rule{
		Text: "The tile has the element type of the global tensor.",
		Why:  "Loads and stores move bits; Cast changes types.",
		Check: func(p *Program, in *Instr) *Violation {
			g, r, pos := in.In[0].Var(), Type{}, in.typePos(0)
			if load {
				r = in.Out[0].Type
			} else {
				r, pos = in.In[1].Var().Type, in.In[1].Pos
			}
			if g.Type.Elem != r.Elem {
				return &Violation{Pos: pos, Msg: fmt.Sprintf("%s is of %s, the tile of %s", g.Name, g.Type.Elem, r.Elem), Help: "Cast (value) or View (bits) between them"}
			}
			return nil
		},
	}
}

// tileOf is the register tile of a load or store.
func tileOf(in *Instr) Type {
	if len(in.Out) > 0 {
		return in.Out[0].Type
	}
	return in.In[1].Var().Type
}

var ruleOffset = Rule{
	Text: "offset has one entry for each dimension of the global tensor.",
	Check: func(p *Program, in *Instr) *Violation {
		a := in.Attr("offset")
		if rank := len(in.In[0].Var().Type.Shape); len(a.Exprs) != rank {
			return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("offset has %d entries, %s has %d dimensions", len(a.Exprs), in.In[0].Var().Name, rank), Help: "write 0 for dimensions the tile does not move along"}
		}
		return nil
	},
}

var ruleDims = Rule{
	Text:  "dims names one dimension of the global tensor for each dimension of the tile, in range and without repeats; left out, the tile has at most the tensor's rank.",
	Check: func(p *Program, in *Instr) *Violation { return checkDims(in, in.In[0].Var(), tileOf(in)) },
}
