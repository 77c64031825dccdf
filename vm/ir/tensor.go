package ir

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The rows of this file copy tiles of tensors between global and shared memory by a
// unit of their own (TMA): one thread begins a copy, which knows the tensor's shape
// and the tile's swizzle. On a GPU each needs a tensor map, which the host makes at
// launch from the argument and the shape of the view.

const ptxTensor = "PTX ISA 9.7.9.27 cp.async.bulk.tensor"

// MaxBox bounds the extents of the box that one instruction copies.
const MaxBox = 256

var tensorRows = []*Op{
	{
		Name: "CopyAsyncTensorGlobalToShared", Aliases: []string{"LoadTensor"}, Family: "tensor", Class: ClassMemory, Effects: ReadsGlobal | WritesShared | Async | Synchronizes,
		Doc: "Begins to copy a tile of a global tensor, of the shape of dst, to shared memory. Element [i, j, …] of dst comes from offset plus that index of src; dims says along which dimensions of src the tile lies (the last ones, if left out). Elements outside src become 0. When it is done, the bytes of the whole tile have come to the turn of the barriers; who waits for that turn sees the tile, and until then nobody may read or write it. " +
			"One thread begins the copy: what any thread did with dst before must come before it by a barrier. With multicast, each block of the cluster whose bit is set in the mask gets the tile at the same place, and the bytes come to its own barriers.",
		In: []Port{{Name: "src", Accept: AcceptGlobal}, {Name: "dst", Accept: AcceptShared}, {Name: "barriers", Accept: AcceptShared, Doc: "of AllocateBarrier or AllocatePipeline"}, {Name: "turn", Accept: AcceptScalar, Doc: "i32"}},
		Attrs: []AttrSpec{
			{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in src of the tile's first element, one entry per dimension of src"},
			{Name: "dims", Kind: AttrInts, Doc: "the dimension of src that each dimension of dst lies along"},
			attrMulticast,
			attrPolicy,
			{Name: "rank", Kind: AttrExprs, Doc: "[r]: the block to whose barriers the bytes come: the running one, or the other of its pair; left out, the running one"},
		},
		Rules: append(tensorRules(), ruleFills(2), ruleTurn(3), ruleMulticast, Rule{
			Text: "rank, where it is given, is one expression, stands without multicast, and the program has tensor memory of pairs of blocks.", Why: "Only copies for products of two blocks tell the other block (Tcgen05Alloc with ctas=2).", Check: func(p *Program, in *Instr) *Violation {
				a := in.Attr("rank")
				if a == nil {
					return nil
				}
				pairs := false
				p.Body.Walk(func(s Stmt) bool {
					x, ok := s.(*Instr)
					pairs = pairs || ok && x.Op.Name == "Tcgen05Alloc" && TensorBlocks(x) == 2
					return !pairs
				})
				if len(a.Exprs) != 1 || in.Attr("multicast") != nil || !pairs {
					return &Violation{Pos: a.Pos, Msg: "a copy tells barriers of another block", Help: "let a thread of this block wait for its own, and ArriveBarrier with rank"}
				}
				return nil
			}}),
		Since: "0.4", Source: ptxTensor, Example: "CopyAsyncTensorGlobalToShared(ga, stage, full, k, offset=[bi*128, k*64])",
	},
	{
		Name: "CopyAsyncTensorSharedToGlobal", Aliases: []string{"StoreTensor"}, Family: "tensor", Class: ClassMemory, Effects: WritesGlobal | ReadsShared | Async,
		Doc: "Begins to copy a tile of shared memory to a global tensor, or to combine it with what is there; offset and dims as in CopyAsyncTensorGlobalToShared. Elements outside the tensor are not stored. The copy belongs to a group of CopyAsyncTensorCommitGroup; until a wait for the group the tile must not be written. What threads stored to the tile needs FenceProxyAsync and a barrier before.",
		In:  []Port{{Name: "dst", Accept: AcceptGlobal}, {Name: "src", Accept: AcceptShared}},
		Attrs: []AttrSpec{
			{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in dst of the tile's first element, one entry per dimension of dst"},
			{Name: "dims", Kind: AttrInts, Doc: "the dimension of dst that each dimension of src lies along"},
			{Name: "op", Kind: AttrWord, Words: []string{"add", "min", "max", "and", "or", "xor"}, Doc: "elements become the combination of what is there and the tile's; left out, the tile's"},
			attrPolicy,
		},
		Rules: append(tensorRules(), Rule{Text: "op is one that tensor copies have for the element type.", Check: checkTensorOp}),
		Since: "0.4", Source: ptxTensor + ", cp.reduce.async.bulk.tensor", Example: "CopyAsyncTensorSharedToGlobal(gc, sc, offset=[bi*128, bj*128])",
	},
	{
		Name: "CopyAsyncTensorCommitGroup", Aliases: []string{"CopyAsyncBulkCommitGroup"}, Family: "tensor", Effects: Async,
		Doc:   "Makes a group of the copies from shared memory that the threads which run began since their last group; there may be none.",
		Since: "0.4", Source: "PTX ISA 9.7.9.25 cp.async.bulk.commit_group", Example: "CopyAsyncTensorCommitGroup()",
	},
	{
		Name: "CopyAsyncTensorWaitGroup", Aliases: []string{"CopyAsyncBulkWaitGroup"}, Family: "tensor", Effects: Async,
		Doc: "Waits until at most n of the groups that the same threads made last are still on their way. With until=read they may still be writing, but the shared memory that they copy is free for other uses.",
		Attrs: []AttrSpec{
			{Name: "n", Kind: AttrNumber, Required: true, Doc: "how many groups may still be on their way"},
			{Name: "until", Kind: AttrWord, Words: []string{"read"}, Doc: "read: wait only until the tiles have been read"},
		},
		Rules: []Rule{{Text: fmt.Sprintf("n is an integer from 0 to %d.", MaxAsyncGroups), Check: func(p *Program, in *Instr) *Violation { return checkNumber(in, "n", 0, MaxAsyncGroups, 1) }}},
		Since: "0.4", Source: "PTX ISA 9.7.9.25 cp.async.bulk.wait_group", Example: "CopyAsyncTensorWaitGroup(n=0, until=read)",
	},
}

var attrMulticast = AttrSpec{Name: "multicast", Kind: AttrExprs, Doc: "[mask]: bit r is the block of rank r in the cluster"}

var ruleMulticast = Rule{Text: "multicast, where it is given, is one expression, and the program has clusters.",
	Check: func(p *Program, in *Instr) *Violation {
		a := in.Attr("multicast")
		switch {
		case a == nil:
		case len(a.Exprs) != 1:
			return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("multicast has %d entries", len(a.Exprs)), Help: "write multicast=[3] for the blocks of rank 0 and 1"}
		case p.ClusterSize() == 1:
			return &Violation{Pos: a.Pos, Msg: "the program has no clusters", Help: "write cluster=[2] behind the parameters"}
		}
		return nil
	}}

var ruleOneElem = Rule{Text: "Both tensors have one element type.", Check: func(p *Program, in *Instr) *Violation {
	if g, s := in.In[0].Var(), in.In[1].Var(); g.Type.Elem != s.Type.Elem {
		return &Violation{Pos: in.In[1].Pos, Msg: fmt.Sprintf("%s is of %s, %s of %s", g.Name, g.Type.Elem, s.Name, s.Type.Elem), Help: "copies move bits; Cast registers"}
	}
	return nil
}}

var ruleWholeView = Rule{Text: "The global tensor is a ViewGlobal of a parameter, not a part, with 1 to 5 dimensions.", Why: "The host makes the tensor map, of a whole tensor.",
	Check: func(p *Program, in *Instr) *Violation {
		v := in.In[0].Var()
		if from := ViewOf(p, v); from == nil || len(v.Type.Shape) > 5 || len(v.Type.Shape) < 1 {
			return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is %s", v.Name, v.Type), Help: "take ViewGlobal of the pointer, and offset within it"}
		}
		return nil
	}}

var attrPolicy = AttrSpec{Name: "cache", Kind: AttrWord, Words: []string{"first", "last", "normal"}, Doc: "what the L2 cache gives up first, last, or in between; a hint that changes no result"}

// tensorRules are the rules of copies between a global tensor, operand 0, and a
// shared one, operand 1.
func tensorRules() []Rule {
	return []Rule{
		ruleOneElem,
		ruleOffset,
		{Text: "dims names one dimension of the global tensor for each dimension of the tile, in range and without repeats; left out, the tile has at most the tensor's rank.",
			Check: func(p *Program, in *Instr) *Violation { return checkDims(in, in.In[0].Var(), in.In[1].Var().Type) }},
		ruleWholeView,
		{Text: "The tile is made of boxes that tensor copies know: along the last dimension of the global tensor, rows of whole units of 16 bytes that follow each other; rows of 32, 64 or 128 bytes may be swizzled as shared_row_major_swizzle swizzles them.",
			Why: "One instruction fills a box of consecutive rows; wider tiles are panels of boxes.",
			Check: func(p *Program, in *Instr) *Violation {
				v := in.In[1].Var()
				rank := len(in.In[0].Var().Type.Shape)
				if !v.Type.HasLayout || checkDims(in, in.In[0].Var(), v.Type) != nil {
					return nil
				}
				if _, err := BoxesOf(v.Type, in.Dims(rank, len(v.Type.Shape)), rank); err != nil {
					help := "choose another tile or element type"
					if l, e := layout.SharedRowMajorSwizzle(v.Type.Elem.Bits(), v.Type.Shared.Shape()...); e == nil {
						help = fmt.Sprintf("lay the tile out as %s", l)
					}
					return &Violation{Pos: in.In[1].Pos, Msg: fmt.Sprintf("%s, %s: %v", v.Name, v.Type, err), Help: help}
				}
				return nil
			}},
	}
}

// ViewOf is the pointer parameter that a whole, row-major global tensor views, or nil.
func ViewOf(p *Program, v *Var) (ptr *Var) {
	p.Body.Walk(func(s Stmt) bool {
		if in, ok := s.(*Instr); ok && in.Op.Name == "ViewGlobal" && in.Out[0] == v && in.Attr("strides") == nil {
			ptr = in.In[0].Var()
		}
		return ptr == nil
	})
	return ptr
}

// Boxes are a tile of shared memory as tensor copies see it: boxes of one shape.
type Boxes struct {
	Shape   []int // of a box, per dimension of the global tensor
	Swizzle int   // bytes of a row that are swizzled: 0, 32, 64 or 128
	Parts   []Box
}

// Box is one box of a tile.
type Box struct {
	Index []int // of its first element in the tile, per dimension of the global tensor
	Place int   // elements from the start of the tile, before swizzling
}

// Bytes is how many bytes all boxes together bring.
func (b Boxes) Bytes(t dtype.Type) int {
	n := len(b.Parts) * t.Bits()
	for _, s := range b.Shape {
		n *= s
	}
	return n / 8
}

// BoxesOf cuts a tile of shared memory into boxes. dims are the dimensions of a
// global tensor of this rank that the tile's dimensions lie along.
func BoxesOf(t Type, dims []int, rank int) (Boxes, error) {
	shape, _ := t.Dims()
	bits := t.Elem.Bits()
	if n, whole := t.Elem.Bytes(); !whole || n > 8 || t.Elem == dtype.Bool {
		return Boxes{}, fmt.Errorf("elements of %s are not copied", t.Elem)
	}
	last := slices.Index(dims, rank-1)
	if last < 0 {
		return Boxes{}, fmt.Errorf("no dimension of the tile lies along the contiguous one of the tensor")
	}
	if !slices.IsSorted(dims) {
		return Boxes{}, fmt.Errorf("dims must go up")
	}
	modes := SharedModes(t.Shared)
	inner := modes[last]
	row := 1 // elements of a row of a box
	if n := len(inner); n > 0 && inner[n-1].Stride == 1 {
		row = inner[n-1].Size
	}
	w, b := t.Shared.Swizzle(), Boxes{}
	if !w.Identity() {
		span := (128 / bits) << w.Bits // elements
		if w.Shift != 3 || w.Bits > 3 || 1<<w.Base != 128/bits || row%span != 0 && row != span {
			return Boxes{}, fmt.Errorf("tensor copies have no such swizzle")
		}
		if row != span {
			return Boxes{}, fmt.Errorf("rows of %d bytes are swizzled over %d", row*bits/8, span*bits/8)
		}
		b.Swizzle = span * bits / 8
	}
	if row*bits%128 != 0 {
		return Boxes{}, fmt.Errorf("rows of %d × %d bits are no whole units of 16 bytes", row, bits)
	}
	// From the inside to the outside, a box takes what lies densely.
	box := make([]int, len(shape))
	next, open := row, true
	for row > MaxBox || row > 1 && shape[last]%row != 0 {
		if row%2 != 0 {
			return Boxes{}, fmt.Errorf("rows of %d elements are not cut into boxes", row)
		}
		row, open = row/2, false
	}
	box[last] = row
	if row*bits%128 != 0 {
		return Boxes{}, fmt.Errorf("rows of %d × %d bits are no whole units of 16 bytes", row, bits)
	}
	for d := len(shape) - 1; d >= 0; d-- {
		if d == last {
			continue
		}
		box[d] = 1
		m := modes[d]
		if n := len(m); open && n > 0 && m[n-1].Stride == next {
			box[d] = m[n-1].Size
			for box[d] > MaxBox {
				if box[d]%2 != 0 {
					return Boxes{}, fmt.Errorf("dimension %d, of %d, is not cut into boxes of at most %d", d, m[n-1].Size, MaxBox)
				}
				box[d] /= 2
				open = false
			}
			next *= m[n-1].Size
			open = open && n == 1 && box[d] == shape[d]
			if shape[d] != box[d] {
				open = false
			}
		} else if shape[d] > 1 {
			open = false
		}
	}
	for d := range rank {
		if i := slices.Index(dims, d); i >= 0 {
			b.Shape = append(b.Shape, box[i])
		} else {
			b.Shape = append(b.Shape, 1)
		}
	}
	count := 1
	for d := range shape {
		count *= shape[d] / box[d]
	}
	if count > 64 {
		return Boxes{}, fmt.Errorf("the tile is %d boxes; 64 are possible", count)
	}
	plain := t.Shared.Unswizzled()
	period := 8 * b.Swizzle * 8 / bits // elements after which a swizzle repeats
	for i := range count {
		at, rest := make([]int, len(shape)), i
		for d := len(shape) - 1; d >= 0; d-- {
			n := shape[d] / box[d]
			at[d], rest = rest%n*box[d], rest/n
		}
		part := Box{Index: make([]int, rank), Place: plain.Offset(at...)}
		for i, d := range dims {
			part.Index[d] = at[i]
		}
		if period > 0 && part.Place%period != 0 {
			return Boxes{}, fmt.Errorf("the box at %v begins inside a period of the swizzle", at)
		}
		if part.Place*bits%1024 != 0 {
			return Boxes{}, fmt.Errorf("the box at %v begins at byte %d; boxes begin at multiples of 128", at, part.Place*bits/8)
		}
		b.Parts = append(b.Parts, part)
	}
	return b, nil
}

func checkTensorOp(_ *Program, in *Instr) *Violation {
	a, t := in.Attr("op"), in.In[0].Var().Type.Elem
	if a == nil {
		return nil
	}
	ok := false
	switch a.Word {
	case "add":
		ok = t == dtype.I32 || t == dtype.U32 || t == dtype.U64 || t == dtype.F16 || t == dtype.BF16 || t == dtype.F32
	case "min", "max":
		ok = t == dtype.I32 || t == dtype.U32 || t == dtype.I64 || t == dtype.U64 || t == dtype.F16 || t == dtype.BF16
	default:
		ok = t == dtype.I32 || t == dtype.U32 || t == dtype.I64 || t == dtype.U64
	}
	if !ok {
		return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("there is no %s for %s", a.Word, t), Help: "load the tile, combine and store it"}
	}
	return nil
}
