package ir

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// The rows of this file copy whole rows of bytes without a tensor map, between global
// and shared memory and between blocks of a cluster; bring tiles near; and take
// clusters back that have not begun.

const (
	ptxBulk = "PTX ISA 9.7.9.25 cp.async.bulk"
	ptxClc  = "PTX ISA 9.7.13 clusterlaunchcontrol"
)

var bulkRows = []*Op{
	{
		Name: "CopyAsyncBulkGlobalToShared", Aliases: []string{"CopyAsyncBulkGlobalToClusterShared"}, Family: "bulk", Class: ClassMemory, Effects: ReadsGlobal | WritesShared | Async | Synchronizes,
		Doc: "Begins to copy a tile of a global tensor to shared memory, row by row and without a tensor map: src may be a part of a tensor, and the launch prepares nothing. The tile must lie inside src, and its rows must begin at multiples of 16 bytes. offset, dims, barriers, turn and multicast as in CopyAsyncTensorGlobalToShared.",
		In:  []Port{{Name: "src", Accept: AcceptGlobal}, {Name: "dst", Accept: AcceptShared}, {Name: "barriers", Accept: AcceptShared, Doc: "of AllocateBarrier or AllocatePipeline"}, {Name: "turn", Accept: AcceptScalar, Doc: "i32"}},
		Attrs: []AttrSpec{
			{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in src of the tile's first element, one entry per dimension of src"},
			{Name: "dims", Kind: AttrInts, Doc: "the dimension of src that each dimension of dst lies along"},
			attrMulticast, attrPolicy,
		},
		Rules: append(bulkRules(), ruleFills(2), ruleTurn(3), ruleMulticast),
		Since: "0.5", Source: ptxBulk, Example: "CopyAsyncBulkGlobalToShared(gs, scales, full, k, offset=[k*256])",
	},
	{
		Name: "CopyAsyncBulkSharedToGlobal", Family: "bulk", Class: ClassMemory, Effects: WritesGlobal | ReadsShared | Async,
		Doc: "Begins to copy a tile of shared memory to a global tensor, row by row and without a tensor map, as CopyAsyncBulkGlobalToShared does the other way. It belongs to a group of CopyAsyncTensorCommitGroup; what threads stored to the tile needs FenceProxyAsync and a barrier before.",
		In:  []Port{{Name: "dst", Accept: AcceptGlobal}, {Name: "src", Accept: AcceptShared}},
		Attrs: []AttrSpec{
			{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in dst of the tile's first element, one entry per dimension of dst"},
			{Name: "dims", Kind: AttrInts, Doc: "the dimension of dst that each dimension of src lies along"},
			attrPolicy,
		},
		Rules: bulkRules(),
		Since: "0.5", Source: ptxBulk, Example: "CopyAsyncBulkSharedToGlobal(gy, rows, offset=[b, 0], dims=[1])",
	},
	{
		Name: "CopyAsyncBulkSharedToClusterShared", Family: "bulk", Class: ClassMemory, Effects: ReadsShared | WritesShared | Async | Synchronizes,
		Doc:   "Begins to copy a tile of shared memory to the tile dst of another block of the cluster, byte by byte as both lie in memory. The bytes come to the turn of that block's barriers; a thread of it that waits for them sees the tile, and the source is free when it has been told so. What threads stored to src needs FenceProxyAsync and a barrier before.",
		In:    []Port{{Name: "src", Accept: AcceptShared}, {Name: "dst", Accept: AcceptShared}, {Name: "barriers", Accept: AcceptShared, Doc: "of AllocateBarrier or AllocatePipeline"}, {Name: "turn", Accept: AcceptScalar, Doc: "i32"}},
		Attrs: []AttrSpec{{Name: "rank", Kind: AttrExprs, Required: true, Doc: "[r]: the block of the cluster that the tile goes to"}},
		Rules: []Rule{
			{Text: "Both tiles have one element type and one layout, without holes, of a multiple of 16 bytes.", Why: "Bytes are copied as they lie.", Check: func(p *Program, in *Instr) *Violation {
				a, b := in.In[0].Var().Type, in.In[1].Var().Type
				if !a.HasLayout || !b.HasLayout {
					return nil
				}
				if a.Elem != b.Elem || !a.Shared.Equal(b.Shared) || a.Shared.CountSize() != a.Shared.Size() || a.Shared.Size()*a.Elem.Bits()%128 != 0 {
					return &Violation{Pos: in.In[1].Pos, Msg: fmt.Sprintf("%s is copied to %s", a, b), Help: "give both the same dense layout"}
				}
				return nil
			}},
			ruleFills(2), ruleTurn(3), ruleRank,
		},
		Since: "0.5", Source: ptxBulk, Example: "CopyAsyncBulkSharedToClusterShared(mine, theirs, full, 0, rank=[(r + 1) % 2])",
	},
	{
		Name: "PrefetchTensor", Aliases: []string{"CopyAsyncTensorPrefetch"}, Family: "bulk", Effects: ReadsGlobal | Async,
		Doc:   "Asks for a tile of a global tensor, of the shape given, to be brought to the L2 cache by the unit that copies tensors: one thread asks for the whole tile. What lies outside is left out. It changes no result.",
		In:    []Port{{Name: "src", Accept: AcceptGlobal}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in src of the tile's first element, one entry per dimension of src"}, {Name: "shape", Kind: AttrInts, Required: true, Doc: "the tile's extents, one per dimension of src"}},
		Rules: []Rule{ruleOffset, ruleWholeView,
			{Text: fmt.Sprintf("shape has an extent of 1 to %d for each dimension of the tensor; rows are multiples of 16 bytes.", MaxBox), Check: func(p *Program, in *Instr) *Violation {
				g, a := in.In[0].Var(), in.Attr("shape")
				if len(a.Exprs) != len(g.Type.Shape) {
					return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("shape has %d entries, %s has %d dimensions", len(a.Exprs), g.Name, len(g.Type.Shape))}
				}
				n := int64(0)
				for _, e := range a.Exprs {
					if n, _ = ConstInt(e); n < 1 || n > MaxBox {
						return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("an extent is %d", n)}
					}
				}
				if n*int64(g.Type.Elem.Bits())%128 != 0 || g.Type.Elem.Bits()%8 != 0 {
					return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("rows are %d × %d bits", n, g.Type.Elem.Bits()), Help: "ask for whole units of 16 bytes"}
				}
				return nil
			}}},
		Since: "0.5", Source: "PTX ISA 9.7.9.27 cp.async.bulk.prefetch.tensor", Example: "PrefetchTensor(ga, offset=[bi*128, k*64 + 256], shape=[128, 64])",
	},
	{
		Name: "ClusterLaunchControlTryCancel", Family: "launch", Effects: WritesShared | Async | Synchronizes,
		Doc:   "Begins to take back a cluster (in a program without clusters, a block) of the grid that has not begun, so that this block does its work instead. The answer, 16 bytes, comes to the turn of the barriers, for ClusterLaunchControlQueryResponse. One block of a cluster asks for all: each of its blocks gets the answer at the same place, and 16 bytes come to its own barriers. Seen on no hardware yet: targets from sm_100 on have it.",
		In:    []Port{{Name: "answer", Accept: AcceptShared, Doc: "u64[2]"}, {Name: "barriers", Accept: AcceptShared, Doc: "of AllocateBarrier or AllocatePipeline"}, {Name: "turn", Accept: AcceptScalar, Doc: "i32"}},
		Rules: []Rule{ruleAnswer, ruleFills(1), ruleTurn(2)},
		Since: "0.5", Source: ptxClc + ".try_cancel; not seen on hardware", Example: "ClusterLaunchControlTryCancel(answer, full, t)",
	},
	{
		Name: "ClusterLaunchControlQueryResponse", Family: "launch", Effects: ReadsShared,
		Doc: "What a ClusterLaunchControlTryCancel brought: taken is 1 where a block was taken back, and i, j, k are its indices in the grid; 0 where none was left. Where a cluster was taken back, they are the indices of the block at this block's place in it.",
		In:  []Port{{Name: "answer", Accept: AcceptShared, Doc: "u64[2]"}},
		Out: []Port{{Name: "taken", Accept: AcceptScalar}, {Name: "i", Accept: AcceptScalar, Optional: true}, {Name: "j", Accept: AcceptScalar, Optional: true}, {Name: "k", Accept: AcceptScalar, Optional: true}},
		Rules: []Rule{ruleAnswer, {Text: "The results are i32.", Check: func(p *Program, in *Instr) *Violation {
			for i, v := range in.Out {
				if v.Type.Elem != dtype.I32 {
					return &Violation{Pos: in.typePos(i), Msg: fmt.Sprintf("%s is %s", v.Name, v.Type.Elem), Help: "leave the type out, or use a new name"}
				}
			}
			return nil
		}}},
		Since: "0.5", Source: ptxClc + ".query_cancel; not seen on hardware", Example: "taken, bi = ClusterLaunchControlQueryResponse(answer)",
	},
}

var ruleAnswer = Rule{Text: "The answer is u64[2] without holes.", Why: "It is 16 bytes, at a multiple of 16.", Check: func(p *Program, in *Instr) *Violation {
	t := in.In[0].Var().Type
	if dims, _ := t.Dims(); t.HasLayout && (t.Elem != dtype.U64 || !slices.Equal(dims, []int{2}) || t.Shared.CountSize() != 2) {
		return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("the answer is %s", t), Help: "answer = AllocateShared() : shared u64[2] shared_row_major(2)"}
	}
	return nil
}}

// bulkRules are the rules of bulk copies between a global tensor, operand 0, and a
// shared one, operand 1.
func bulkRules() []Rule {
	return []Rule{
		ruleOneElem, ruleOffset,
		{Text: "dims names one dimension of the global tensor for each dimension of the tile, in range and without repeats; left out, the tile has at most the tensor's rank.",
			Check: func(p *Program, in *Instr) *Violation { return checkDims(in, in.In[0].Var(), in.In[1].Var().Type) }},
		{Text: "The tile is rows along the last dimension of the global tensor, at most 64, of whole units of 16 bytes that follow each other in both; it is not swizzled.", Why: "One instruction copies a row.",
			Check: func(p *Program, in *Instr) *Violation {
				v := in.In[1].Var()
				rank := len(in.In[0].Var().Type.Shape)
				if !v.Type.HasLayout || checkDims(in, in.In[0].Var(), v.Type) != nil {
					return nil
				}
				if _, _, err := BulkRowsOf(v.Type, in.Dims(rank, len(v.Type.Shape)), rank); err != nil {
					return &Violation{Pos: in.In[1].Pos, Msg: fmt.Sprintf("%s, %s: %v", v.Name, v.Type, err), Help: "lay the tile out as shared_row_major, or copy it with CopyAsyncTensor…"}
				}
				return nil
			}},
	}
}

// BulkRowsOf cuts a tile of shared memory into rows that lie densely along the last
// dimension of a global tensor of this rank: where they begin, and how many elements
// each has.
func BulkRowsOf(t Type, dims []int, rank int) ([]Box, int, error) {
	shape, _ := t.Dims()
	bits := t.Elem.Bits()
	if _, whole := t.Elem.Bytes(); !whole {
		return nil, 0, fmt.Errorf("elements of %s are no whole bytes", t.Elem)
	}
	last := slices.Index(dims, rank-1)
	if last < 0 {
		return nil, 0, fmt.Errorf("no dimension of the tile lies along the contiguous one of the tensor")
	}
	if !t.Shared.Swizzle().Identity() {
		return nil, 0, fmt.Errorf("the tile is swizzled")
	}
	row := 1
	if inner := SharedModes(t.Shared)[last]; len(inner) > 0 && inner[len(inner)-1].Stride == 1 {
		row = inner[len(inner)-1].Size
	}
	if row*bits%128 != 0 {
		return nil, 0, fmt.Errorf("rows of %d × %d bits are no whole units of 16 bytes", row, bits)
	}
	count := t.Shared.Size() / row
	if count > 64 {
		return nil, 0, fmt.Errorf("the tile is %d rows; 64 are possible", count)
	}
	var rows []Box
	for i := range count {
		at, rest := make([]int, len(shape)), i
		for d := len(shape) - 1; d >= 0; d-- {
			n, step := shape[d], 1
			if d == last {
				n, step = shape[d]/row, row
			}
			at[d], rest = rest%n*step, rest/n
		}
		b := Box{Index: make([]int, rank), Place: t.Shared.Offset(at...)}
		for i, d := range dims {
			b.Index[d] = at[i]
		}
		if b.Place*bits%128 != 0 {
			return nil, 0, fmt.Errorf("the row at %v begins at byte %d; rows begin at multiples of 16", at, b.Place*bits/8)
		}
		rows = append(rows, b)
	}
	return rows, row, nil
}
