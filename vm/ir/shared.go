package ir

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The rows of this file allocate, view, load and store shared memory: the memory
// that the threads of one block have in common.

var sharedRows = []*Op{
	{
		Name: "AllocateShared", Family: "shared",
		Doc: "A new tile in the shared memory of the block. Its layout says at which offset, in elements, each element lies. The tile lives until FreeShared or the end of the block of statements that allocates it; then other tiles may take its place. Its elements have no value: reading one before it is written is an error on the interpreter and the simulator.",
		Out: []Port{{Name: "tile", Accept: AcceptShared}},
		Rules: []Rule{
			{Text: "No two elements of the tile lie at one offset.", Why: "Storing one would change the other.",
				Check: func(p *Program, in *Instr) *Violation {
					if l := in.Out[0].Type.Shared; !l.Injective() {
						return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s puts several elements at one offset", l), Help: "strides must be at least as large as what lies inside them"}
					}
					return nil
				}},
			{Text: fmt.Sprintf("The offsets of a tile, holes and swizzle included, stay below %d.", MaxTileElements),
				Check: func(p *Program, in *Instr) *Violation {
					if l := in.Out[0].Type.Shared; l.Swizzle().Bits > 20 || l.CountSize() > MaxTileElements {
						return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s reaches beyond", l), Help: "use smaller strides"}
					}
					return nil
				}},
		},
		Since: "0.3", Source: paper + " Table 1", Example: "sa = AllocateShared() : shared f16[64, 32] shared_row_major(64, 32)",
	},
	{
		Name: "FreeShared", Family: "shared", Effects: WritesShared,
		Doc: "Ends the life of a tile of AllocateShared: tiles allocated after it may take its memory. A Synchronize must lie between the last use of the old tile and the first use of the new one, as between any two threads that use one place.",
		In:  []Port{{Name: "tile", Accept: AcceptShared}},
		Rules: []Rule{
			{Text: "The tile is one of AllocateShared, not a view.", Check: func(p *Program, in *Instr) *Violation {
				if v := in.In[0].Var(); sharedSource(p, v) != v {
					return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is a view of %s", v.Name, sharedSource(p, v).Name), Help: "free what was allocated"}
				}
				return nil
			}},
			{Text: "A tile is freed at most once, by the block of statements that allocates it.", Why: "So that its life is the same in every turn and on every branch.",
				Check: func(p *Program, in *Instr) *Violation {
					v := in.In[0].Var()
					b, at := blockOf(p.Body, in)
					for i := at - 1; i >= 0; i-- {
						if other, ok := b.Stmts[i].(*Instr); ok {
							if len(other.Out) == 1 && other.Out[0] == v {
								return nil
							}
							if other.Op == in.Op && other.In[0].Var() == v {
								return &Violation{Msg: v.Name + " is freed already"}
							}
						}
					}
					return &Violation{Msg: v.Name + " is not allocated by this block of statements", Help: "free it where it is allocated; it ends with that block at the latest"}
				}},
			{Text: "Nothing uses the tile, or a view of it, after it is freed.",
				Check: func(p *Program, in *Instr) *Violation {
					v := in.In[0].Var()
					b, at := blockOf(p.Body, in)
					var bad *Violation
					(&Block{Stmts: b.Stmts[at+1:]}).Walk(func(s Stmt) bool {
						other, ok := s.(*Instr)
						if !ok || bad != nil {
							return true
						}
						for _, o := range other.In {
							if x := o.Var(); x != nil && x.Type.IsShared() && sharedSource(p, x) == v && other.Op != in.Op {
								bad = &Violation{Pos: o.Pos, Msg: fmt.Sprintf("%s is used after %s is freed (%s)", x.Name, v.Name, in.Pos), Help: "move FreeShared behind the last use"}
							}
						}
						return true
					})
					return bad
				}},
		},
		Since: "0.3", Source: paper + " Table 1", Example: "FreeShared(sa)",
	},
	{
		Name: "SliceShared", Family: "shared", Class: ClassView,
		Doc:   "A part of a shared tensor as a tensor of its own, over the same memory: element [i, …] is the source's at offset plus that index. dims says which dimensions of the source stay (the last ones, if left out); the others are fixed by offset. A part outside the source is an error.",
		In:    []Port{{Name: "src", Accept: AcceptShared}},
		Out:   []Port{{Name: "tile", Accept: AcceptShared}},
		Attrs: []AttrSpec{attrSharedOffset("src", true), attrSharedDims("src")},
		Rules: append(sharedRules(true),
			Rule{Text: "The result's layout is the source's on the part.", Why: "A view moves nothing.", Check: checkSharedView(ruleSharedDims, func(in *Instr) (layout.Shared, error) {
				src, part := in.In[0].Var().Type, in.Out[0].Type
				dims, _ := part.Dims()
				return PartOfShared(src.Shared, in.Dims(len(src.Shape), len(dims)), dims)
			})}),
		Since: "0.3", Source: tilusDoc, Example: "stage = SliceShared(sa, offset=[k % 3, 0, 0]) : shared f16[64, 32] shared_row_major(64, 32)",
	},
	{
		Name: "PermuteShared", Family: "shared", Class: ClassView,
		Doc:   "The same shared memory with its dimensions in another order: dimension i of the result is dimension dims[i] of the source; left out, the order is reversed.",
		In:    []Port{{Name: "src", Accept: AcceptShared}},
		Out:   []Port{{Name: "tile", Accept: AcceptShared}},
		Attrs: []AttrSpec{{Name: "dims", Kind: AttrInts, Doc: "the dimension of src that each dimension of the result is"}},
		Rules: []Rule{
			ruleSameElem("shared tensor"),
			ruleOrder,
			{Text: "The result's layout is the source's, permuted.", Check: checkSharedView(ruleOrder, func(in *Instr) (layout.Shared, error) {
				return in.In[0].Var().Type.Shared.Permute(in.Order()...)
			})},
		},
		Since: "0.3", Source: tilusDoc, Example: "st = PermuteShared(sa, dims=[1, 0]) : shared f16[32, 64] shared_column_major(32, 64)",
	},
	{
		Name: "ReshapeShared", Family: "shared", Class: ClassView,
		Doc: "The same shared memory with another shape of as many elements, which keep their row-major order.",
		In:  []Port{{Name: "src", Accept: AcceptShared}},
		Out: []Port{{Name: "tile", Accept: AcceptShared}},
		Rules: []Rule{
			ruleSameElem("shared tensor"),
			{Text: "The result's layout is the source's, reshaped.", Why: "A layout whose strides do not line up with the new dimensions has no such view.", Check: checkSharedView(Rule{}, func(in *Instr) (layout.Shared, error) {
				dims, _ := in.Out[0].Type.Dims()
				return in.In[0].Var().Type.Shared.Reshape(dims...)
			})},
		},
		Since: "0.3", Source: tilusDoc, Example: "sf = ReshapeShared(sa) : shared f16[2048] shared_row_major(2048)",
	},
	{
		Name: "LoadShared", Family: "shared", Class: ClassMemory, Effects: ReadsShared,
		Doc:   "Loads a tile of a shared tensor into registers. offset and dims as in LoadGlobal; left out, offset is 0. A tile that does not lie inside the tensor is an error. What another thread stored is there after a Synchronize; what CopyAsync brings, after a wait for its group and a Synchronize. With rank, the tensor is the one at the same place of another block of the cluster; ClusterSynchronize orders what blocks do there.",
		In:    []Port{{Name: "src", Accept: AcceptShared}},
		Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{attrSharedOffset("src", false), attrSharedDims("src"), attrRank},
		Rules: append(sharedRules(true), ruleRank),
		Since: "0.3", Source: paper + " Table 1", Example: "ra = LoadShared(sa, offset=[0, k*16]) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)",
	},
	{
		Name: "StoreShared", Family: "shared", Class: ClassMemory, Effects: WritesShared,
		Doc:   "Stores a register tile to a shared tensor; offset, dims and rank as in LoadShared. A tile that does not lie inside the tensor is an error.",
		In:    []Port{{Name: "dst", Accept: AcceptShared}, {Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{attrSharedOffset("dst", false), attrSharedDims("dst"), attrRank},
		Rules: append(sharedRules(false), ruleRank),
		Since: "0.3", Source: paper + " Table 1", Example: "StoreShared(sa, ra, offset=[0, k*16])",
	},
}

const tilusDoc = "github.com/NVIDIA/tilus, tilus.lang.Script"

func attrSharedOffset(of string, required bool) AttrSpec {
	return AttrSpec{Name: "offset", Kind: AttrExprs, Required: required, Doc: "index in " + of + " of the tile's first element, one entry per dimension of " + of}
}

func attrSharedDims(of string) AttrSpec {
	return AttrSpec{Name: "dims", Kind: AttrInts, Doc: "the dimension of " + of + " that each dimension of the tile lies along"}
}

// Order is the value of dims of PermuteShared.
func (s *Instr) Order() []int {
	if s.Attr("dims") != nil {
		return s.Dims(0, 0)
	}
	var order []int
	for d := len(s.In[0].Var().Type.Shape) - 1; d >= 0; d-- {
		order = append(order, d)
	}
	return order
}

// Offset is the value of the attribute offset; left out, it is 0 in each of rank
// dimensions.
func (s *Instr) Offset(rank int) []Expr {
	if a := s.Attr("offset"); a != nil {
		return a.Exprs
	}
	zeros := make([]Expr, rank)
	for d := range zeros {
		zeros[d] = &Int{Pos: s.Pos}
	}
	return zeros
}

func (s *Instr) attrPos(name string) (pos diag.Pos) {
	if a := s.Attr(name); a != nil {
		return a.Pos
	}
	return pos
}

// sharedRules are the rules of what takes a tile of a shared tensor, by result or
// by operand.
func sharedRules(result bool) []Rule {
	elem := ruleSameElem("shared tensor")
	if !result {
		elem = ruleStoredElem
	}
	return []Rule{elem, ruleSharedOffset, ruleSharedDims, ruleSharedInside}
}

// ruleSameElem is for instructions whose operand and result hold the same elements.
func ruleSameElem(what string) Rule {
	return Rule{Text: "The result has the element type of the " + what + ".", Why: "Memory is not reinterpreted; View does that with registers.",
		Check: func(p *Program, in *Instr) *Violation {
			x, r := in.In[0].Var(), in.Out[0].Type
			if x.Type.Elem != r.Elem {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is of %s, the result of %s", x.Name, x.Type.Elem, r.Elem), Help: "Cast (value) or View (bits) registers"}
			}
			return nil
		}}
}

var ruleStoredElem = Rule{Text: "The tile has the element type of the shared tensor.", Why: "Stores move bits; Cast changes types.",
	Check: func(p *Program, in *Instr) *Violation {
		x, r := in.In[0].Var(), in.In[1].Var()
		if x.Type.Elem != r.Type.Elem {
			return &Violation{Pos: in.In[1].Pos, Msg: fmt.Sprintf("%s is of %s, the tile of %s", x.Name, x.Type.Elem, r.Type.Elem), Help: "Cast (value) or View (bits) between them"}
		}
		return nil
	}}

var ruleSharedOffset = Rule{
	Text: "offset has one entry for each dimension of the shared tensor.",
	Check: func(p *Program, in *Instr) *Violation {
		a := in.Attr("offset")
		if rank := len(in.In[0].Var().Type.Shape); a != nil && len(a.Exprs) != rank {
			return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("offset has %d entries, %s has %d dimensions", len(a.Exprs), in.In[0].Var().Name, rank), Help: "write 0 for dimensions the tile does not move along"}
		}
		return nil
	},
}

var ruleSharedDims = Rule{
	Text: "dims names one dimension of the shared tensor for each dimension of the tile, in range and without repeats; left out, the tile has at most the tensor's rank.",
	Check: func(p *Program, in *Instr) *Violation {
		return checkDims(in, in.In[0].Var(), tileOf(in))
	},
}

// checkDims checks dims of a tile in a tensor.
func checkDims(in *Instr, tensor *Var, tile Type) *Violation {
	rank := len(tensor.Type.Shape)
	a := in.Attr("dims")
	if a == nil {
		if len(tile.Shape) > rank {
			return &Violation{Msg: fmt.Sprintf("the tile has %d dimensions, %s has %d", len(tile.Shape), tensor.Name, rank)}
		}
		return nil
	}
	if len(a.Exprs) != len(tile.Shape) {
		return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("dims has %d entries, the tile has %d dimensions", len(a.Exprs), len(tile.Shape))}
	}
	seen := map[int]bool{}
	for _, d := range in.Dims(rank, len(tile.Shape)) {
		if d < 0 || d >= rank || seen[d] {
			return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("dims has %d, which is out of range or repeated", d), Help: fmt.Sprintf("%s has dimensions 0 to %d", tensor.Name, rank-1)}
		}
		seen[d] = true
	}
	return nil
}

var ruleSharedInside = Rule{
	Text: "The tile lies inside the shared tensor, as far as offset is constant.", Why: "Outside lies other memory of the block. What is not constant is checked by the interpreter and the simulator.",
	Check: func(p *Program, in *Instr) *Violation {
		x := in.In[0].Var()
		tensor, constant := x.Type.Dims()
		tile, _ := tileOf(in).Dims()
		offset := in.Offset(len(tensor))
		if !constant || len(offset) != len(tensor) || checkDims(in, x, tileOf(in)) != nil {
			return nil
		}
		size := make([]int, len(tensor))
		for d := range size {
			size[d] = 1
		}
		for i, d := range in.Dims(len(tensor), len(tile)) {
			size[d] = tile[i]
		}
		for d, n := range tensor {
			at, ok := ConstInt(offset[d])
			if size[d] > n || ok && (at < 0 || at+int64(size[d]) > int64(n)) {
				return &Violation{Pos: in.attrPos("offset"), Msg: fmt.Sprintf("the tile takes %d elements from %s of dimension %d of %s, which has %d", size[d], offset[d], d, x.Name, n)}
			}
		}
		return nil
	},
}

var ruleOrder = Rule{
	Text: "dims names each dimension of the source once.",
	Check: func(p *Program, in *Instr) *Violation {
		order := slices.Clone(in.Order())
		slices.Sort(order)
		rank := len(in.In[0].Var().Type.Shape)
		if len(order) != rank {
			return &Violation{Pos: in.attrPos("dims"), Msg: fmt.Sprintf("dims is %v, the source has dimensions 0 to %d", in.Order(), rank-1)}
		}
		for d := range order {
			if order[d] != d {
				return &Violation{Pos: in.attrPos("dims"), Msg: fmt.Sprintf("dims is %v, the source has dimensions 0 to %d", in.Order(), rank-1)}
			}
		}
		return nil
	},
}

// checkSharedView compares the layout of a view with the one that follows from its
// source, where the rule before holds.
func checkSharedView(before Rule, derive func(*Instr) (layout.Shared, error)) func(*Program, *Instr) *Violation {
	return func(p *Program, in *Instr) *Violation {
		out := in.Out[0].Type
		if _, constant := in.In[0].Var().Type.Dims(); !constant || !in.In[0].Var().Type.HasLayout || before.Check != nil && before.Check(p, in) != nil {
			return nil // reported where it is made
		}
		want, err := derive(in)
		if err != nil {
			return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s has no such view: %v", in.In[0].Var().Name, err)}
		}
		if !want.Equal(out.Shared) {
			return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the view lies as %s, not %s", want, out.Shared), Help: fmt.Sprintf("write the result as %s", SharedOf(out.Elem, want))}
		}
		return nil
	}
}

// PartOfShared is the layout of a part of a tensor that keeps these dimensions and
// has this shape, before the part's place is added. A dimension of several modes
// can be cut only where whole modes, or a whole factor of one, stay.
func PartOfShared(whole layout.Shared, keep, part []int) (layout.Shared, error) {
	l, err := whole.Slice(keep...)
	if err != nil {
		return l, err
	}
	var sizes, steps []int
	modes := SharedModes(l)
	for d, n := range part {
		if n < 1 || n > l.Shape()[d] {
			return l, fmt.Errorf("dimension %d has %d elements, the part %d", d, l.Shape()[d], n)
		}
		var size, step []int
		left := n
		for i := len(modes[d]) - 1; i >= 0 && left > 1; i-- {
			m := modes[d][i]
			take := m.Size
			if i == 0 || left < m.Size {
				take = left
			}
			if left%take != 0 {
				return l, fmt.Errorf("%d elements of dimension %d cut a mode of size %d unevenly", n, d, m.Size)
			}
			size, step = append(size, take), append(step, m.Stride)
			left /= take
		}
		slices.Reverse(size)
		slices.Reverse(step)
		sizes, steps = append(sizes, size...), append(steps, step...)
	}
	return layout.NewShared(part, sizes, steps, l.Swizzle())
}

// SharedMode is one digit of an index of a shared layout.
type SharedMode struct{ Size, Stride int }

// SharedModes are the modes of each dimension, outermost first.
func SharedModes(l layout.Shared) [][]SharedMode {
	shape, sizes, strides := l.Shape(), l.ModeShape(), l.ModeStrides()
	out := make([][]SharedMode, len(shape))
	for d, n := range shape {
		for n > 1 {
			out[d] = append(out[d], SharedMode{sizes[0], strides[0]})
			n /= sizes[0]
			sizes, strides = sizes[1:], strides[1:]
		}
	}
	return out
}

// sharedSource is the allocated tile that a shared tensor is a view of, or itself.
func sharedSource(p *Program, v *Var) *Var {
	for range 64 { // a text that names itself has no source
		var from *Var
		p.Body.Walk(func(s Stmt) bool {
			if in, ok := s.(*Instr); ok && len(in.Out) == 1 && in.Out[0] == v && len(in.In) > 0 {
				from = in.In[0].Var()
			}
			return from == nil
		})
		if from == nil || from == v {
			return v
		}
		v = from
	}
	return v
}

// blockOf is the block that holds an instruction, and its place there.
func blockOf(b *Block, in *Instr) (*Block, int) {
	for i, s := range b.Stmts {
		if s == Stmt(in) {
			return b, i
		}
		for _, inner := range Blocks(s) {
			if found, at := blockOf(inner, in); found != nil {
				return found, at
			}
		}
	}
	return nil, -1
}
