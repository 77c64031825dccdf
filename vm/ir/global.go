package ir

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// The rows of this file take parts of global memory as tensors, reach elements by
// indices that the program computes, change them in single steps, and wait for them.

var globalRows = []*Op{
	{
		Name: "AllocateGlobal", Family: "global",
		Doc:   "A global tensor of the launch's own: all its blocks have the same one, and it is gone after it. With init=0 its elements are 0 before the first block; without, reading an element before it is written is an error on the interpreter and the simulator.",
		Out:   []Port{{Name: "tensor", Accept: AcceptGlobal}},
		Attrs: []AttrSpec{{Name: "init", Kind: AttrNumber, Doc: "0: all elements are 0 at first"}},
		Rules: []Rule{
			ruleFixedShape,
			{Text: "init is 0.", Why: "The host clears memory; other values are stored by the program.", Check: func(p *Program, in *Instr) *Violation {
				if a := in.Attr("init"); a != nil && a.Number != 0 {
					return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("init is %v", a.Number)}
				}
				return nil
			}},
			{Text: "It stands in no loop, branch or thread group, and its name is given to nothing else.", Why: "The tensor is there from the start of the launch, once.", Check: func(p *Program, in *Instr) *Violation {
				bad := !slices.Contains(p.Body.Stmts, Stmt(in))
				p.Body.Walk(func(s Stmt) bool {
					i, ok := s.(*Instr)
					bad = bad || ok && i != in && slices.Contains(i.Out, in.Out[0])
					return true
				})
				if bad {
					return &Violation{Msg: in.Out[0].Name + " is not allocated once for the launch", Help: "move it to the top level of the program, under a name of its own"}
				}
				return nil
			}},
		},
		Since: "0.3", Source: tilusDoc, Example: "partial = AllocateGlobal() : global f32[S, M, N]",
	},
	{
		Name: "SliceGlobal", Family: "global", Class: ClassView,
		Doc:   "A part of a global tensor as a tensor of its own, over the same memory: element [i, …] is the source's at offset plus that index, and what lies outside the part counts as outside. dims says which dimensions of the source stay (the last ones, if left out); the others are fixed by offset. A part that does not lie inside the source is an error.",
		In:    []Port{{Name: "src", Accept: AcceptGlobal}},
		Out:   []Port{{Name: "tensor", Accept: AcceptGlobal}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in src of the part's first element, one entry per dimension of src"}, {Name: "dims", Kind: AttrInts, Doc: "the dimension of src that each dimension of the part is"}},
		Rules: []Rule{
			ruleSameElem("global tensor"),
			ruleOffset,
			{Text: "dims names one dimension of the source for each dimension of the part, in range and without repeats; left out, the part has at most the source's rank.",
				Check: func(p *Program, in *Instr) *Violation { return checkDims(in, in.In[0].Var(), in.Out[0].Type) }},
			ruleFixedShape,
			{Text: "The name of a part is given to one part.", Why: "Which memory a name stands for is known at each use.", Check: func(p *Program, in *Instr) *Violation {
				var first *Instr
				p.Body.Walk(func(s Stmt) bool {
					if i, ok := s.(*Instr); ok && first == nil && slices.Contains(i.Out, in.Out[0]) {
						first = i
					}
					return first == nil
				})
				if first != in {
					return &Violation{Msg: fmt.Sprintf("%s is assigned at line %d already", in.Out[0].Name, first.Pos.Line), Help: "use a new name"}
				}
				return nil
			}},
		},
		Since: "0.3", Source: tilusDoc, Example: "row = SliceGlobal(gx, offset=[bi, 0], dims=[1]) : global f16[N]",
	},
	{
		Name: "PrefetchGlobal", Family: "global", Effects: ReadsGlobal,
		Doc:   "Asks for a part of a global tensor, of the shape given, to be brought to the L2 cache. What lies outside is left out. It changes no result.",
		In:    []Port{{Name: "src", Accept: AcceptGlobal}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in src of the part's first element, one entry per dimension of src"}, {Name: "shape", Kind: AttrInts, Required: true, Doc: "the part's extents, one per dimension of src"}},
		Rules: []Rule{ruleOffset, {Text: "shape has a positive extent for each dimension of the tensor, at most 1048576 elements in all.", Check: func(p *Program, in *Instr) *Violation {
			g, a, n := in.In[0].Var(), in.Attr("shape"), int64(1)
			for _, e := range a.Exprs {
				x, _ := ConstInt(e)
				if n *= x; x < 1 || n > MaxTileElements {
					return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("an extent is %d", x)}
				}
			}
			if len(a.Exprs) != len(g.Type.Shape) {
				return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("shape has %d entries, %s has %d dimensions", len(a.Exprs), g.Name, len(g.Type.Shape))}
			}
			return nil
		}}},
		Since: "0.3", Source: "PTX ISA 9.7.9 prefetch", Example: "PrefetchGlobal(gb, offset=[k + 2, bj, 0], shape=[1, 1, 96])",
	},
	{
		Name: "LoadScalar", Family: "global", Effects: ReadsGlobal,
		Doc: "One element of a global tensor as a scalar, which all threads have: a length, a count, a place in a table. Outside the tensor it is 0.",
		In:  []Port{{Name: "src", Accept: AcceptGlobal}},
		Out: []Port{{Name: "x", Accept: AcceptScalar}},
		Attrs: []AttrSpec{
			{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in src of the element, one entry per dimension of src"},
		},
		Rules: []Rule{
			{Text: "The tensor is of i32, and so is the result.",
				Why: "Scalars that expressions compute with are i32.",
				Check: func(p *Program, in *Instr) *Violation {
					if g := in.In[0].Var(); g.Type.Elem != dtype.I32 {
						return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is of %s", g.Name, g.Type.Elem), Help: "load other types into a register tensor"}
					}
					if v := in.Out[0]; v.Type.Elem != dtype.I32 {
						return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is %s", v.Name, v.Type.Elem), Help: "leave the type out, or use a new name"}
					}
					return nil
				}},
			ruleOffset,
		},
		Since: "0.5", Source: "Tilus Lab; PTX ISA 9.7.9 ld", Example: "n = LoadScalar(gl, offset=[b])",
	},
	{
		Name: "LoadGlobalGather", Family: "global", Class: ClassMemory, Effects: ReadsGlobal,
		Doc:   "Loads elements at indices that the program computed: element [i, j, …] of the tile comes from offset plus that index, but in dimension dim from indices[i, j, …]. An index outside that dimension is an error; elements outside in another dimension are 0.",
		In:    []Port{{Name: "src", Accept: AcceptGlobal}, {Name: "indices", Accept: AcceptRegister}},
		Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: scatterAttrs("src"),
		Rules: scatterRules(true),
		Since: "0.3", Source: tilusDoc, Example: "row = LoadGlobalGather(table, ids, dim=[0]) : register f16[32, 8] spatial(32, 1).local(1, 8)",
	},
	{
		Name: "StoreGlobalScatter", Family: "global", Class: ClassMemory, Effects: WritesGlobal,
		Doc:   "Stores elements at indices that the program computed; which is where, as in LoadGlobalGather. An index outside dimension dim is an error; elements outside in another dimension are not stored. If two elements go to one place, the thread that holds both stores them in the order of its slots; two threads must not.",
		In:    []Port{{Name: "dst", Accept: AcceptGlobal}, {Name: "indices", Accept: AcceptRegister}, {Name: "tile", Accept: AcceptRegister}},
		Attrs: scatterAttrs("dst"),
		Rules: scatterRules(false),
		Since: "0.3", Source: tilusDoc, Example: "StoreGlobalScatter(gy, ids, x, dim=[0])",
	},
	{
		Name: "AtomicGlobal", Family: "global", Class: ClassMemory, Effects: ReadsGlobal | WritesGlobal,
		Doc:   "One atomic step on each element of a tile of a global tensor: " + atomicDoc + " The result, if one is named, is what stood there; 0 outside the tensor, where nothing changes. offset and dims as in LoadGlobal. With op=cas the element becomes the tile's where it is compare's.",
		In:    []Port{{Name: "dst", Accept: AcceptGlobal}, {Name: "tile", Accept: AcceptRegister}, {Name: "compare", Accept: AcceptRegister, Optional: true}},
		Out:   []Port{{Name: "old", Accept: AcceptRegister, Optional: true}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in dst of the tile's first element, one entry per dimension of dst"}, {Name: "dims", Kind: AttrInts, Doc: "the dimension of dst that each dimension of the tile lies along"}, attrAtomic, attrOrder, attrScope},
		Rules: append([]Rule{ruleStoredGlobal, ruleOffset,
			{Text: "dims names one dimension of the tensor for each dimension of the tile, in range and without repeats; left out, the tile has at most the tensor's rank.",
				Check: func(p *Program, in *Instr) *Violation { return checkDims(in, in.In[0].Var(), in.In[1].Var().Type) }}}, append(atomicRules(1), ruleScope)...),
		Since: "0.3", Source: tilusDoc, Example: "AtomicGlobal(gy, partial, offset=[bi*16, 0], op=add)",
	},
	{
		Name: "AtomicScatterGlobal", Family: "global", Class: ClassMemory, Effects: ReadsGlobal | WritesGlobal,
		Doc:   "One atomic step on each of the elements that indices choose, as in StoreGlobalScatter: " + atomicDoc + " Several elements may go to one place.",
		In:    []Port{{Name: "dst", Accept: AcceptGlobal}, {Name: "indices", Accept: AcceptRegister}, {Name: "tile", Accept: AcceptRegister}, {Name: "compare", Accept: AcceptRegister, Optional: true}},
		Out:   []Port{{Name: "old", Accept: AcceptRegister, Optional: true}},
		Attrs: append(scatterAttrs("dst"), attrAtomic, attrOrder, attrScope),
		Rules: append(scatterRules(false), append(atomicRules(2), ruleScope)...),
		Since: "0.3", Source: tilusDoc, Example: "AtomicScatterGlobal(histogram, bins, ones, dim=[0], op=add)",
	},
	{
		Name: "PutGlobal", Family: "global", Class: ClassMemory, Effects: ReadsGlobal | WritesGlobal, // it wants to find empty places
		Doc:   "Puts a tile's elements where a TakeGlobal, mostly of another block, waits for them: a place is empty while it is +0, as memory is that was cleared, and full else, so that a value says itself that it is there and no barrier or count need do so. An element that is 0 is put as -0. Elements outside the tensor are not put. To put an element where one still is, is an error, and so is to put one where another thread has taken one in this launch unless that is known to come before: by a barrier of the block, or a semaphore. offset and dims as in LoadGlobal.",
		In:    []Port{{Name: "dst", Accept: AcceptGlobal}, {Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in dst of the tile's first element, one entry per dimension of dst"}, {Name: "dims", Kind: AttrInts, Doc: "the dimension of dst that each dimension of the tile lies along"}},
		Rules: []Rule{ruleTileType(false), ruleOffset, ruleDims, rulePlaces},
		Since: "0.8", Source: "Tilus Lab; PTX ISA 8 memory consistency model, morally strong relaxed accesses", Example: "PutGlobal(parts, acc, offset=[bi, 0])",
	},
	{
		Name: "TakeGlobal", Family: "global", Class: ClassMemory, Effects: ReadsGlobal | WritesGlobal,
		Doc:   "Waits until each element of a part of a global tensor was put there (PutGlobal), takes it, and leaves its place empty, which is +0: each thread waits for what it takes, nobody for anything else, and nothing but these values is ordered. With count only as many indices of the tile's first dimension are taken; the others are 0, and so are elements outside the tensor. A block may wait only for blocks that come before it in the grid, since those after it may not have started: waiting for others is an error.",
		In:    []Port{{Name: "src", Accept: AcceptGlobal}, {Name: "count", Accept: AcceptScalar, Optional: true}},
		Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in src of the tile's first element, one entry per dimension of src"}, {Name: "dims", Kind: AttrInts, Doc: "the dimension of src that each dimension of the tile lies along"}},
		Rules: []Rule{ruleTileType(true), ruleOffset, ruleDims, rulePlaces,
			ruleSecondI32("The count is i32.")},
		Since: "0.8", Source: "Tilus Lab; PTX ISA 8 memory consistency model, morally strong relaxed accesses", Example: "sums = TakeGlobal(parts, awaited, offset=[bi - awaited, 0]) : register f32[4, 128] local(4, 1).spatial(1, 128)",
	},
	{
		Name: "LockSemaphore", Family: "global", Effects: ReadsGlobal | WritesGlobal | Synchronizes,
		Doc:   "Waits until an element of a global tensor is value. All threads that run wait, and after it see what was stored before the ReleaseSemaphore that gave the element that value. A block may wait only for blocks that come before it in the grid, since those after it may not have started: waiting for others is an error.",
		In:    []Port{{Name: "semaphore", Accept: AcceptGlobal}, {Name: "value", Accept: AcceptScalar}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index of the element, one entry per dimension"}},
		Rules: semaphoreRules,
		Since: "0.3", Source: tilusDoc, Example: "LockSemaphore(turn, bk, offset=[bi])",
	},
	{
		Name: "ReleaseSemaphore", Family: "global", Effects: ReadsGlobal | WritesGlobal | Synchronizes,
		Doc:   "Gives an element of a global tensor a value, after all threads that run have come here, and publishes what they stored before.",
		In:    []Port{{Name: "semaphore", Accept: AcceptGlobal}, {Name: "value", Accept: AcceptScalar}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index of the element, one entry per dimension"}},
		Rules: semaphoreRules,
		Since: "0.3", Source: tilusDoc, Example: "ReleaseSemaphore(turn, bk + 1, offset=[bi])",
	},
}

// attrCache hints at what is done with the bytes of loads and stores.
var attrCache = AttrSpec{Name: "cache", Kind: AttrWord, Words: []string{"stream", "evict_first", "evict_last"},
	Doc: "stream: the bytes are used once and need no place in the L1 cache; evict_first, evict_last: they are the first, the last to lose their place there. A hint that changes no result"}

var rulePrefetch = Rule{Text: "prefetch is 64, 128 or 256.", Check: func(p *Program, in *Instr) *Violation {
	if a := in.Attr("prefetch"); a != nil && a.Number != 64 && a.Number != 128 && a.Number != 256 {
		return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("prefetch is %v", a.Number)}
	}
	return nil
}}

const atomicDoc = "add, sub, min, max, exch (the tile's element), cas, and on integers and, or, xor. Integers wrap; floats round once, and in f32 sums in global memory subnormal numbers count as 0, as GPUs have it. Steps on one element come in some order."

var attrAtomic = AttrSpec{Name: "op", Kind: AttrWord, Required: true, Words: []string{"add", "sub", "min", "max", "and", "or", "xor", "exch", "cas"}, Doc: "what becomes of the elements"}

// attrOrder makes atomic steps order what blocks do.
var attrOrder = AttrSpec{Name: "order", Alias: "sem", Kind: AttrWord, Words: []string{"relaxed", "acquire", "release", "acq_rel"}, Doc: "for the whole GPU. release: a step publishes what the block did before its last Synchronize; acquire: what others published at the element is seen after the next one; acq_rel: both; relaxed, or left out: only the elements themselves are exchanged"}

// attrScope and ruleScope say among whom an atomic step on global memory is one.
var attrScope = AttrSpec{Name: "scope", Kind: AttrWord, Words: []string{"cta", "cluster", "gpu", "sys"}, Doc: "among whose threads the step is one: those of the block (cta) or of its cluster, for which steps of others are as stores; gpu, or left out: of the whole GPU"}

var ruleScope = Rule{Text: "scope is cta, cluster or gpu, and gpu where the step has an order.",
	Why: "What a host or another GPU reads while a launch runs is no argument of programs, so that nobody of that scope could take part; and orders hold for the whole GPU, threads of one block have Synchronize.",
	Check: func(p *Program, in *Instr) *Violation {
		a := in.Attr("scope")
		switch {
		case a == nil:
			return nil
		case a.Word == "sys":
			return &Violation{Pos: a.Pos, Msg: "the scope is the whole system", Help: "scope=gpu; what a launch stored is seen by host and other GPUs after its end"}
		case a.Word != "gpu" && (in.Acquires() || in.Releases()):
			return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("the scope is %s, and order is %s", a.Word, in.Attr("order").Word), Help: "leave scope out, or order threads of the block by Synchronize"}
		}
		return nil
	}}

// Scope is among whose threads an atomic step is one: "cta", "cluster" or "gpu".
func (s *Instr) Scope() string {
	if a := s.Attr("scope"); a != nil {
		return a.Word
	}
	return "gpu"
}

// Acquires and Releases report what the order of an atomic instruction asks for.
func (s *Instr) Acquires() bool { return s.orderIs("acquire") }
func (s *Instr) Releases() bool { return s.orderIs("release") }

func (s *Instr) orderIs(half string) bool {
	a := s.Attr("order")
	return a != nil && (a.Word == half || a.Word == "acq_rel")
}

func scatterAttrs(of string) []AttrSpec {
	return []AttrSpec{
		{Name: "dim", Kind: AttrInts, Required: true, Doc: "the dimension of " + of + " that the indices are of"},
		{Name: "offset", Kind: AttrExprs, Doc: "what is added to each index, one entry per dimension of " + of + "; 0 if left out"},
	}
}

// ScatterDim is the value of dim.
func (s *Instr) ScatterDim() int {
	n, _ := ConstInt(s.Attr("dim").Exprs[0])
	return int(n)
}

var ruleFixedShape = Rule{
	Text:  "The shape uses only constants and scalar parameters.",
	Why:   "Extents are computed once, on the host.",
	Check: checkFixedShape,
}

var ruleStoredGlobal = Rule{Text: "The tile has the element type of the global tensor.", Check: func(p *Program, in *Instr) *Violation {
	return ruleStoredElem.Check(p, in)
}}

// scatterRules are for a tile, a result or the third operand, with indices.
func scatterRules(load bool) []Rule {
	tile := func(in *Instr) (Type, diag.Pos) {
		if load {
			return in.Out[0].Type, in.typePos(0)
		}
		return in.In[2].Var().Type, in.In[2].Pos
	}
	return []Rule{
		{Text: "The tile has the element type of the tensor.", Check: func(p *Program, in *Instr) *Violation {
			t, pos := tile(in)
			if g := in.In[0].Var(); g.Type.Elem != t.Elem {
				return &Violation{Pos: pos, Msg: fmt.Sprintf("%s is of %s, the tile of %s", g.Name, g.Type.Elem, t.Elem), Help: "Cast (value) or View (bits) between them"}
			}
			return nil
		}},
		{Text: "The indices are i32 and have the shape and layout of the tile.", Why: "Each thread has the indices of its own elements.", Check: func(p *Program, in *Instr) *Violation {
			x, i := in.In[1].Var().Type, in.In[1]
			if t, _ := tile(in); x.Elem != dtype.I32 || shapeText(x) != shapeText(t) || !x.Layout.Equal(t.Layout) {
				return &Violation{Pos: i.Pos, Msg: fmt.Sprintf("%s is %s", i.Var().Name, x), Help: fmt.Sprintf("make them %s", RegisterOf(dtype.I32, t.Layout))}
			}
			return nil
		}},
		{Text: "The tile has as many dimensions as the tensor, and dim is one of them; offset has one entry for each.", Check: func(p *Program, in *Instr) *Violation {
			t, _ := tile(in)
			g := in.In[0].Var()
			rank := len(g.Type.Shape)
			d := in.Attr("dim")
			switch a := in.Attr("offset"); {
			case len(t.Shape) != rank:
				return &Violation{Msg: fmt.Sprintf("the tile has %d dimensions, %s has %d", len(t.Shape), g.Name, rank), Help: "take a SliceGlobal of the dimensions that the tile has"}
			case len(d.Exprs) != 1 || in.ScatterDim() < 0 || in.ScatterDim() >= rank:
				return &Violation{Pos: d.Pos, Msg: "dim is no dimension of " + g.Name, Help: fmt.Sprintf("%s has dimensions 0 to %d", g.Name, rank-1)}
			case a != nil && len(a.Exprs) != rank:
				return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("offset has %d entries, %s has %d dimensions", len(a.Exprs), g.Name, rank)}
			}
			return nil
		}},
		ruleWholeBytes,
	}
}

var ruleWholeBytes = Rule{Text: "Elements have 8, 16 or 32 bits.", Why: "Single elements of other widths share bytes, or words, with their neighbours.", Check: func(p *Program, in *Instr) *Violation {
	if g := in.In[0].Var(); !slices.Contains([]int{8, 16, 32}, g.Type.Elem.Bits()) {
		return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is of %s", g.Name, g.Type.Elem)}
	}
	return nil
}}

// atomicRules are for steps with the tile as operand at.
func atomicRules(at int) []Rule {
	return []Rule{
		{Text: "Elements are i32, u32, f32, f16 or bf16; and, or and xor are of integers.", Check: func(p *Program, in *Instr) *Violation {
			t := in.In[at].Var().Type.Elem
			op := in.Attr("op")
			bits := op.Word == "and" || op.Word == "or" || op.Word == "xor"
			if !slices.Contains([]dtype.Type{dtype.I32, dtype.U32, dtype.F32, dtype.F16, dtype.BF16}, t) || bits && t.IsFloat() {
				return &Violation{Pos: op.Pos, Msg: fmt.Sprintf("no atomic %s of %s", op.Word, t), Help: "Cast to i32 or f32"}
			}
			return nil
		}},
		{Text: "cas, and nothing else, has compare, of the type of the tile.", Check: func(p *Program, in *Instr) *Violation {
			op := in.Attr("op")
			if (op.Word == "cas") != (len(in.In) > at+1) {
				return &Violation{Pos: op.Pos, Msg: fmt.Sprintf("op is %s, with %d operands", op.Word, len(in.In))}
			}
			if op.Word == "cas" {
				if c, t := in.In[at+1], in.In[at].Var().Type; !c.Var().Type.Equal(t) {
					return &Violation{Pos: c.Pos, Msg: fmt.Sprintf("compare is %s, the tile %s", c.Var().Type, t)}
				}
			}
			return nil
		}},
		{Text: "A result has the type of the tile, whose layout then gives each element to one thread.", Why: "One thread makes the step; the others would not know what it found.", Check: func(p *Program, in *Instr) *Violation {
			if len(in.Out) == 0 {
				return nil
			}
			t, old := in.In[at].Var().Type, in.Out[0].Type
			if !old.Equal(t) {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the tile is %s, the result %s", t, old), Help: fmt.Sprintf("write the result as %s", t)}
			}
			if t.Layout.Threads()*t.Layout.Slots() != t.Layout.Size() {
				return &Violation{Pos: in.In[at].Pos, Msg: fmt.Sprintf("%s gives an element to several threads", t.Layout), Help: "leave the result out, or use a layout without replicas"}
			}
			return nil
		}},
	}
}

// ruleSecondI32 is of a second operand, where there is one, that is a number.
func ruleSecondI32(text string) Rule {
	return Rule{Text: text, Check: func(p *Program, in *Instr) *Violation {
		if len(in.In) < 2 {
			return nil
		}
		if t, _ := TypeOf(in.In[1].Expr, func(diag.Pos, string, string, string) {}); t != dtype.I32 {
			return &Violation{Pos: in.In[1].Pos, Msg: fmt.Sprintf("%s is %s", in.In[1].Expr, t)}
		}
		return nil
	}}
}

// rulePlaces is of elements that say themselves whether they are there.
var rulePlaces = Rule{Text: "The tensor is of f32.", Why: "Threads exchange whole words, and of f32 one of the two zeros can stand for an empty place.", Check: func(p *Program, in *Instr) *Violation {
	if g := in.In[0].Var(); g.Type.Elem != dtype.F32 {
		return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is of %s", g.Name, g.Type.Elem), Help: "Cast to f32"}
	}
	return nil
}}

var semaphoreRules = []Rule{
	{Text: "The semaphore is an element of an i32 tensor.", Check: func(p *Program, in *Instr) *Violation {
		if g := in.In[0].Var(); g.Type.Elem != dtype.I32 {
			return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is of %s", g.Name, g.Type.Elem), Help: "keep semaphores in a tensor of their own: turn: *i32"}
		}
		return nil
	}},
	ruleOffset,
	ruleSecondI32("The value is i32."),
}

func checkFixedShape(_ *Program, in *Instr) *Violation { return checkFixed(in.Out[0].Type.Shape) }

// checkFixed looks for what is no constant and no parameter.
func checkFixed(exprs []Expr) *Violation {
	for _, e := range exprs {
		var bad *Ref
		Refs(e, func(r *Ref) {
			if !r.Var.Param {
				bad = r
			}
		})
		if bad != nil {
			return &Violation{Pos: bad.Pos, Msg: fmt.Sprintf("%s is not a parameter", bad.Var.Name), Help: "extents are fixed at launch; move what varies into offset="}
		}
	}
	return nil
}

// ruleOneView is for ViewGlobal.
var ruleOneView = Rule{Text: "A name that stands for one view is given to another one only in the same block of statements.", Why: "Which memory a name stands for is known at each use.", Check: func(p *Program, in *Instr) *Violation {
	var first *Instr
	var home *Block
	var find func(b *Block)
	find = func(b *Block) {
		for _, s := range b.Stmts {
			if i, ok := s.(*Instr); ok && first == nil && slices.Contains(i.Out, in.Out[0]) {
				first, home = i, b
			}
			for _, inner := range Blocks(s) {
				find(inner)
			}
		}
	}
	find(p.Body)
	if !sameView(first, in) && !slices.Contains(home.Stmts, Stmt(in)) {
		return &Violation{Msg: fmt.Sprintf("%s is another view from line %d on", in.Out[0].Name, first.Pos.Line), Help: "use a new name"}
	}
	return nil
}}

// sameView reports that what gives a name is the same view as a ViewGlobal that gives it too.
func sameView(in, view *Instr) bool {
	strides := func(in *Instr) (out string) {
		if a := in.Attr("strides"); a != nil {
			out = fmt.Sprint(a.Exprs)
		}
		return out
	}
	return in.Op == view.Op && in.In[0].Var() == view.In[0].Var() && strides(in) == strides(view)
}

// Touched says which of ReadsGlobal and WritesGlobal a program does with the memory of each pointer
// parameter and each tensor of AllocateGlobal, through views and parts of views.
func (p *Program) Touched() map[*Var]Effects {
	of, out := map[*Var]*Var{}, map[*Var]Effects{} // what a global tensor is a view of
	p.Body.Walk(func(s Stmt) bool {
		in, ok := s.(*Instr)
		if !ok {
			return true
		}
		for _, o := range in.In {
			v := o.Var()
			if v == nil || v.Type.Kind != Pointer && !v.Type.IsGlobal() {
				continue
			}
			if of[v] != nil {
				v = of[v]
			}
			out[v] |= in.Op.Effects & (ReadsGlobal | WritesGlobal)
			for _, x := range in.Out {
				if x.Type.IsGlobal() {
					of[x] = v
				}
			}
		}
		return true
	})
	return out
}
