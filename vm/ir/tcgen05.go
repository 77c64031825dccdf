package ir

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The rows of this file are the fifth generation of tensor cores: products whose sums lie
// in tensor memory, 128 lanes of 512 columns of 32 bits that a multiprocessor has beside
// its registers. One thread begins a product; nobody's registers take part. Row i of a
// tensor lies in lane i, its elements one after the other in columns; a tensor of 64 rows
// has half of the lanes of each quarter. They are
// interpreted, simulated and assembled, and have not been seen on hardware.

const (
	ptxTcgen05 = "PTX ISA 9.7.16 tcgen05"
	unseen     = "; not seen on hardware"

	// TensorLanes and TensorColumns are the extents of tensor memory.
	TensorLanes   = 128
	TensorColumns = 512
)

// ColumnsOf is how many columns of tensor memory a tensor takes.
func ColumnsOf(t Type) int {
	dims, _ := t.Dims()
	return dims[len(dims)-1] * t.Elem.Bits() / 32
}

// TensorLane is the lane of a row of a tensor of so many rows, from the lane of its first
// row on: sixteen rows of 64 lie in each quarter of the lanes.
func TensorLane(rows, row int) int {
	if rows == HalfLanes {
		return row/16*LanesPerWarp + row%16
	}
	return row
}

// HalfLanes is how many rows a tensor has that lies in half of the lanes of each quarter.
const HalfLanes = 64

// TensorThread is the thread of a warpgroup that loads or stores a column of 32 bits of a row.
func TensorThread(rows, row, column int) int {
	if rows == HalfLanes {
		return row/16*LanesPerWarp + row%8*4 + column%8/2
	}
	return row
}

// TensorRegisters is how the threads of a warpgroup hold a tensor of tensor memory: thread i
// row i, and of 64 rows as a product of warpgroups holds its sums. ok is false where no load
// brings it.
func TensorRegisters(elem dtype.Type, dims []int) (l layout.Layout, ok bool) {
	if len(dims) != 2 || elem.Bits() > 32 {
		return l, false
	}
	each := 32 / elem.Bits() // elements in a column
	switch {
	case dims[0] == TensorLanes:
		return layout.Spatial(TensorLanes, 1).Local(1, dims[1]), true
	case dims[0] == HalfLanes && dims[1]%(8*each) == 0:
		return layout.Spatial(4, 1).ColumnLocal(2, dims[1]/(8*each)).Spatial(8, 4).Local(1, 2*each), true
	}
	return l, false
}

// TensorHalf is the first lane of a tensor: 16 where it is of 64 rows in the second halves of
// the quarters.
func TensorHalf(p *Program, v *Var) int {
	lane := 0
	p.Body.Walk(func(s Stmt) bool {
		in, ok := s.(*Instr)
		if !ok || len(in.Out) != 1 || in.Out[0] != v {
			return true
		}
		switch in.Op.Name {
		case "Tcgen05Slice":
			if a := in.Attr("offset"); len(a.Exprs) == 2 {
				first, _ := ConstInt(a.Exprs[0])
				lane = int(first) + TensorHalf(p, in.In[0].Var())
			}
		case "Tcgen05View":
			lane = TensorHalf(p, in.In[0].Var())
		}
		return false
	})
	return lane
}

// tensorColumn is the first column of a tensor, from that of its Tcgen05Alloc on.
func tensorColumn(p *Program, v *Var) int {
	column := 0
	p.Body.Walk(func(s Stmt) bool {
		in, ok := s.(*Instr)
		if !ok || len(in.Out) != 1 || in.Out[0] != v || in.Op.Name != "Tcgen05Slice" && in.Op.Name != "Tcgen05View" {
			return true
		}
		from := in.In[0].Var()
		if column = tensorColumn(p, from); in.Op.Name == "Tcgen05Slice" {
			if a := in.Attr("offset"); len(a.Exprs) == 2 {
				c, _ := ConstInt(a.Exprs[1])
				column += int(c) * from.Type.Elem.Bits() / 32
			}
		}
		return false
	})
	return column
}

// TensorPlan is a Tcgen05Mma or Tcgen05MmaScaled cut into instructions of N columns and
// K elements.
type TensorPlan struct {
	N, K         int
	FormA, FormB layout.Canonical // of operands in shared memory; B as [N, K]
	// Block is how many elements along k have one scale, 0 without scales.
	Block int
}

// TensorBlocks is how many blocks multiply together: 2 where an instruction says ctas=2.
func TensorBlocks(in *Instr) int {
	if a := in.Attr("ctas"); a != nil && a.Number == 2 {
		return 2
	}
	return 1
}

// scaledK is how far along k an instruction with scales reaches, and how many elements
// have one scale; 0 where there is none.
func scaledK(a, b, d, scale dtype.Type) (k, block int) {
	f8 := func(t dtype.Type) bool { return t == dtype.F8E4M3 || t == dtype.F8E5M2 }
	f4 := a == dtype.F4E2M1 && b == a
	switch {
	case d != dtype.F32:
	case f8(a) && f8(b) && scale == dtype.F8E8M0:
		return 32, 32
	case f4 && scale == dtype.F8E8M0:
		return 64, 32
	case f4 && scale == dtype.F8E4M3:
		return 64, 16
	}
	return 0, 0
}

// ScaleAt is where the scale of a row of a (a column of b) and of a block along k lies in
// a tensor of scales of so many rows: four blocks side by side in a column of 32 bits,
// rows of 32 lanes in columns beside each other. The four quarters of the lanes hold the
// same; lane is that of the first.
func ScaleAt(rows, row, block int) (lane, element int) {
	return row % LanesPerWarp, (block/4*(rows/LanesPerWarp)+row/LanesPerWarp)*4 + block%4
}

// TensorSparse reports a product of a whose half is left out.
func TensorSparse(in *Instr) bool { return in.Op.Name == "Tcgen05MmaSparse" }

// TensorKeeps reports a product whose b the machine keeps, with d in parts below each other.
func TensorKeeps(in *Instr) bool { return in.Attr("keep") != nil }

// TensorPart is where element [row, col] of a product of so many rows and columns lies in d.
func TensorPart(keeps bool, rows, cols, row, col int) (r, c int) {
	if !keeps {
		return row, col
	}
	per := cols * rows / TensorLanes
	return row + col/per*rows, col % per
}

// SparseMark is where the four bits lie that say which two of four elements of a row (of
// two of tf32, which one) are kept, those from k on: the row and column of e, and the first bit.
// Of 16 and 32 bits, eight rows share words with the eight behind them, and half of what an
// instruction multiplies is in each of two rows of e.
// Source: CUTLASS, tmem_e_frg.
func SparseMark(elem dtype.Type, row, k int) (lane, column, bit int) {
	if elem.Bits() == 8 {
		return row, k / 32, k % 32
	}
	reach := 512 / elem.Bits() // of an instruction
	half, at := reach/2, k%reach
	return row%8 + row/16*16 + at/half*8, k / reach, row/8%2*16 + at%half*16/half
}

// SparseKept reads four bits: which elements of those that they speak of are kept, in order.
func SparseKept(elem dtype.Type, mark uint64) (kept []int, ok bool) {
	if elem == dtype.TF32 {
		switch mark {
		case 0b0100:
			return []int{0}, true
		case 0b1110:
			return []int{1}, true
		}
		return nil, false
	}
	x, y := int(mark&3), int(mark>>2)
	return []int{x, y}, x < y || mark == 0b0110
}

// PlanTensor cuts a product into instructions.
func PlanTensor(in *Instr) (TensorPlan, error) {
	a, b, d := in.In[0].Var().Type, in.In[1].Var().Type, in.In[2].Var().Type
	p := TensorPlan{K: wgmmaK(a.Elem, b.Elem, d.Elem)}
	if a.Elem == dtype.U1 {
		p.K = 0
	}
	if TensorSparse(in) {
		p.K *= 2
	}
	if len(in.In) == 5 {
		sa, sb := in.In[3].Var().Type, in.In[4].Var().Type
		if p.K, p.Block = scaledK(a.Elem, b.Elem, d.Elem, sa.Elem); p.K == 0 || sb.Elem != sa.Elem {
			return p, fmt.Errorf("no instruction multiplies %s by %s into %s with scales of %s and %s", a.Elem, b.Elem, d.Elem, sa.Elem, sb.Elem)
		}
	}
	if p.K == 0 || d.Elem != dtype.F32 && d.Elem != dtype.I32 {
		return p, fmt.Errorf("no instruction multiplies %s by %s into %s", a.Elem, b.Elem, d.Elem)
	}
	dims, _ := a.Dims()
	inner, _ := b.Dims()
	n := inner[1] * TensorBlocks(in)
	if p.N = n; p.N > 256 {
		if p.N = 256; TensorBlocks(in) > 1 {
			return p, fmt.Errorf("%d columns; products of two blocks have at most 256", n)
		}
	}
	if p.Block > 0 && p.N%LanesPerWarp != 0 {
		return p, fmt.Errorf("%d columns with scales, of which 32 lie in lanes beside each other", n)
	}
	step := 16
	if dims[0] == HalfLanes && d.Elem.IsFloat() && !TensorKeeps(in) {
		step = 8
	}
	if p.N%step != 0 || n%p.N != 0 {
		return p, fmt.Errorf("%d columns are not cut into multiples of %d, at most 256", n, step)
	}
	if TensorKeeps(in) && n != 64 && n != 128 && n != 256 {
		return p, fmt.Errorf("%d columns; where b is kept there are 64, 128 or 256", n)
	}
	if dims[0] == HalfLanes && p.Block > 0 {
		return p, fmt.Errorf("products with scales have %d rows", TensorLanes)
	}
	bt, err := b.Shared.Transpose(0, 1)
	if err == nil {
		p.FormB, err = bt.Canonical(b.Elem.Bits())
	}
	if err != nil {
		return p, fmt.Errorf("b: %s is not as matrix instructions read it", b.Shared)
	}
	if a.IsShared() {
		if p.FormA, err = a.Shared.Canonical(a.Elem.Bits()); err != nil {
			return p, fmt.Errorf("a: %s is not as matrix instructions read it", a.Shared)
		}
	}
	if a.Elem.Bits() != 16 && (a.IsShared() && p.FormA.Major != layout.MajorK || p.FormB.Major != layout.MajorK) {
		return p, fmt.Errorf("operands of %s must lie with k contiguous", a.Elem)
	}
	if inner[0]%p.K != 0 {
		return p, fmt.Errorf("b has %d rows, the instruction takes %d", inner[0], p.K)
	}
	return p, nil
}

var tcgen05Rows = []*Op{
	{
		Name: "Tcgen05Alloc", Family: "tcgen05", Effects: WritesShared | Synchronizes,
		Doc:   "Takes columns of tensor memory; waits until the multiprocessor has them. One warp does it; a Synchronize has to lie between this and the first use. What it takes must be given back with Tcgen05Dealloc before the block ends.",
		Out:   []Port{{Name: "tensor", Accept: AcceptTensorMemory, Doc: "[128, N]"}},
		Attrs: []AttrSpec{attrCtas},
		Rules: []Rule{
			{Text: "The tensor has 128 rows, and elements of 8, 16 or 32 bits in 32 to 512 columns, a power of two.", Why: "Tensor memory is given in such parts.", Check: func(p *Program, in *Instr) *Violation {
				t := in.Out[0].Type
				dims, _ := t.Dims()
				b := t.Elem.Bits()
				if len(dims) != 2 || dims[0] != TensorLanes || b != 8 && b != 16 && b != 32 || ColumnsOf(t) < 32 || ColumnsOf(t) > TensorColumns || bits.OnesCount(uint(ColumnsOf(t))) != 1 || dims[1]*b%32 != 0 {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the tensor is %s", t), Help: "write tmem f32[128, 64]"}
				}
				return nil
			}},
			ruleTopOfProgram, ruleCtas,
		},
		Since: "0.5", Source: ptxTcgen05 + ".alloc" + unseen, Example: "d = Tcgen05Alloc() : tmem f32[128, 256]",
	},
	{
		Name: "Tcgen05Dealloc", Family: "tcgen05", Effects: WritesShared | Synchronizes,
		Doc: "Gives tensor memory back. A Synchronize has to lie between its last use and this.",
		In:  []Port{{Name: "tensor", Accept: AcceptTensorMemory, Doc: "of Tcgen05Alloc"}},
		Rules: []Rule{{Text: "The tensor is one of Tcgen05Alloc, not a view.", Check: func(p *Program, in *Instr) *Violation {
			v, made := in.In[0].Var(), false
			p.Body.Walk(func(s Stmt) bool {
				x, ok := s.(*Instr)
				made = made || ok && x.Op.Name == "Tcgen05Alloc" && slices.Contains(x.Out, v)
				return !made
			})
			if !made {
				return &Violation{Pos: in.In[0].Pos, Msg: v.Name + " is a view", Help: "give back what was taken"}
			}
			return nil
		}}, ruleTopOfProgram},
		Since: "0.5", Source: ptxTcgen05 + ".dealloc" + unseen, Example: "Tcgen05Dealloc(d)",
	},
	{
		Name: "Tcgen05RelinquishAllocPermit", Family: "tcgen05", Effects: WritesShared | Synchronizes,
		Doc:   "The block takes no more tensor memory, so that others of the multiprocessor can.",
		Since: "0.5", Source: ptxTcgen05 + ".relinquish_alloc_permit" + unseen, Example: "Tcgen05RelinquishAllocPermit()",
	},
	{
		Name: "Tcgen05Slice", Family: "tcgen05", Class: ClassView,
		Doc:   "Columns of a tensor in tensor memory, from offset on: another name for the same memory. A part of 64 rows is half of the lanes of each quarter, the first ones from lane 0 or the second ones from lane 16 on: row i of it lies in lane 32·(i div 16) + i mod 16, counted from there.",
		In:    []Port{{Name: "tensor", Accept: AcceptTensorMemory}},
		Out:   []Port{{Name: "part", Accept: AcceptTensorMemory, Doc: "[128, n] or [64, n]"}},
		Attrs: []AttrSpec{{Name: "offset", Kind: AttrInts, Required: true, Doc: "[0, c]: the first column; [16, c] for the second half of the lanes"}},
		Rules: []Rule{{Text: "The part has the tensor's type, its rows or 64 of 128, lies inside it, and begins and ends between columns.", Check: func(p *Program, in *Instr) *Violation {
			from, to := in.In[0].Var().Type, in.Out[0].Type
			a := in.Attr("offset")
			whole, _ := from.Dims()
			part, _ := to.Dims()
			ok := len(a.Exprs) == 2 && len(part) == 2 && len(whole) == 2 && to.Elem == from.Elem && (part[0] == whole[0] || part[0] == HalfLanes)
			if ok {
				row, _ := ConstInt(a.Exprs[0])
				c, _ := ConstInt(a.Exprs[1])
				ok = (row == 0 || row == 16 && part[0] != whole[0]) && c >= 0 && int(c)+part[1] <= whole[1] && int(c)*to.Elem.Bits()%32 == 0 && part[1]*to.Elem.Bits()%32 == 0
			}
			if !ok {
				return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("%s is taken from %s", to, from), Help: "offset=[0, column], or offset=[16, column] for 64 rows"}
			}
			return nil
		}}},
		Since: "0.5", Source: tilusDoc + " tcgen05.slice", Example: "half = Tcgen05Slice(d, offset=[0, 128]) : tmem f32[128, 128]",
	},
	{
		Name: "Tcgen05View", Family: "tcgen05", Class: ClassView,
		Doc: "The same bits of tensor memory as elements of another type.",
		In:  []Port{{Name: "tensor", Accept: AcceptTensorMemory}},
		Out: []Port{{Name: "view", Accept: AcceptTensorMemory, Doc: "as many rows"}},
		Rules: []Rule{{Text: "Both have as many rows and columns of 32 bits.", Check: func(p *Program, in *Instr) *Violation {
			from, to := in.In[0].Var().Type, in.Out[0].Type
			whole, _ := from.Dims()
			if dims, _ := to.Dims(); len(dims) != 2 || len(whole) != 2 || dims[0] != whole[0] || dims[1]*to.Elem.Bits()%32 != 0 || ColumnsOf(to) != ColumnsOf(from) {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is viewed as %s", from, to)}
			}
			return nil
		}}},
		Since: "0.5", Source: tilusDoc + " tcgen05.view", Example: "p = Tcgen05View(s) : tmem f16[128, 128]",
	},
	{
		Name: "Tcgen05Mma", Aliases: []string{"Tcgen05MmaSS", "Tcgen05MmaTS"}, Family: "tcgen05", Class: ClassMatrix, Effects: ReadsShared | WritesShared | Async,
		Doc: "Begins a matrix product: d[m, n] becomes Σk a[m, k]·b[k, n] + d[m, n], rounded as WgmmaDot rounds; where sum is 0, without what d held. There are 128 rows, or 64 in half of the lanes of each quarter. One thread begins it. a lies in shared memory or in tensor memory, b in shared memory. Products of a block end in the order in which they begin; who waits for a Tcgen05Commit behind it may use d, and write a and b again. Shared memory that threads stored needs FenceProxyAsync and a barrier before. With ctas=2, two blocks of a cluster whose ranks differ in the last bit multiply together: one thread of the block with the even rank begins the product for both; each has its own rows of a and d, 128, and at the same places half of b, the columns of the block with the even rank first, so that both bring only half of it.",
		In:  []Port{{Name: "a", Accept: AcceptShared | AcceptTensorMemory, Doc: "[128, K] or [64, K]"}, {Name: "b", Accept: AcceptShared, Doc: "[K, N]"}, {Name: "d", Accept: AcceptTensorMemory, Doc: "as many rows, N columns"}},
		Attrs: []AttrSpec{{Name: "sum", Kind: AttrExprs, Doc: "[s]: where s is 0 the product replaces what d held; left out, it is added"}, attrCtas,
			{Name: "keep", Kind: AttrWord, Words: []string{"b"}, Doc: "b: the machine keeps b for products of few rows (weight stationary); a has 128, 64 or 32 rows, b 64, 128 or 256 columns, and d has 1, 2 or 4 parts of the columns below each other"}},
		Rules: []Rule{
			{Text: "a is [128, K] or, with one block, [64, K], b is [K, N], d has a's rows and N columns; with ctas=2 b is [K, N/2]; with keep=b a is [M, K] of 32, 64 or 128 rows, in shared memory where they are fewer than 128, and d is [128, N·M/128].", Check: checkTensorShapes},
			ruleTensorPlan("tcgen05.mma: f16, bf16, tf32, f8e4m3, f8e5m2 into f32, i8 and u8 into i32, with operands laid out as wgmma's."),
			ruleSum, ruleCtas,
			{Text: "Where a of 64 rows lies in tensor memory, it lies in the lanes of d.", Why: "Each lane multiplies what it has.", Check: func(p *Program, in *Instr) *Violation {
				a, d := in.In[0].Var(), in.In[2].Var()
				if a.Type.IsTensorMemory() && TensorHalf(p, a) != TensorHalf(p, d) {
					return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s begins in lane %d, %s in lane %d", a.Name, TensorHalf(p, a), d.Name, TensorHalf(p, d)), Help: "take both with Tcgen05Slice from the same lane on"}
				}
				return nil
			}},
		},
		Since: "0.5", Source: ptxTcgen05 + ".mma" + unseen, Example: "Tcgen05Mma(sa, sb, d, sum=[k])",
	},
	{
		Name: "Tcgen05MmaScaled", Aliases: []string{"Tcgen05MmaBlockScaled"}, Family: "tcgen05", Class: ClassMatrix, Effects: ReadsShared | WritesShared | Async,
		Doc: "Begins a matrix product of blocks with scales, as Tcgen05Mma does: d[m, n] becomes Σk a[m, k]·scale_a[m, k div B]·b[k, n]·scale_b[k div B, n] + d[m, n], the products of one instruction's k and d summed exactly and rounded once. B is 32 for scales of f8e8m0 (8-bit floats, 32 of them in an instruction, and f4e2m1, 64 of them), 16 for scales of f8e4m3 (f4e2m1). " +
			"Scales lie in tensor memory as four bytes of a column: scale c of row i is in lane i mod 32, element 4·(R/32·(c div 4) + i div 32) + c mod 4 of a tensor of R rows (128 of a; columns of b), and the four quarters of the lanes hold the same, as Tcgen05Copy of a tile [32, n] leaves them.",
		In:    []Port{{Name: "a", Accept: AcceptShared, Doc: "[128, K]"}, {Name: "b", Accept: AcceptShared, Doc: "[K, N]"}, {Name: "d", Accept: AcceptTensorMemory, Doc: "[128, N]"}, {Name: "scale_a", Accept: AcceptTensorMemory, Doc: "[128, 4·K/B]"}, {Name: "scale_b", Accept: AcceptTensorMemory, Doc: "[128, N/32·K/B]"}},
		Attrs: []AttrSpec{{Name: "sum", Kind: AttrExprs, Doc: "[s]: where s is 0 the product replaces what d held; left out, it is added"}},
		Rules: []Rule{
			{Text: "a is [128, K], b is [K, N], d is [128, N].", Check: checkTensorShapes},
			ruleTensorPlan("tcgen05.mma kind::mxf8f6f4, kind::mxf4 and kind::mxf4nvf4, with operands laid out with k contiguous."),
			ruleSum,
			{Text: "Tensors of scales have 128 lanes and a scale for each row of a, column of b, and block along k, of which there are whole fours.", Why: "Four blocks share a column of tensor memory.", Check: func(p *Program, in *Instr) *Violation {
				plan, err := PlanTensor(in)
				if err != nil || checkTensorShapes(p, in) != nil {
					return nil // reported above
				}
				a, _ := in.In[0].Var().Type.Dims()
				d, _ := in.In[2].Var().Type.Dims()
				for i, rows := range []int{a[0], d[1]} {
					s, _ := in.In[3+i].Var().Type.Dims()
					want := a[1] / plan.Block * rows / LanesPerWarp
					if a[1]/plan.Block%4 != 0 || len(s) != 2 || s[0] != TensorLanes || s[1] != want {
						return &Violation{Pos: in.In[3+i].Pos, Msg: fmt.Sprintf("%s is %v", in.In[3+i].Var().Name, s), Help: fmt.Sprintf("there must be %d scales in each lane, and K must be a multiple of %d", want, 4*plan.Block)}
					}
				}
				return nil
			}},
		},
		Since: "0.6", Source: ptxTcgen05 + ".mma.block_scale" + unseen, Example: "Tcgen05MmaScaled(ua, ub, d, ta, tb, sum=[k])",
	},
	{
		Name: "Tcgen05MmaSparse", Family: "tcgen05", Class: ClassMatrix, Effects: ReadsShared | WritesShared | Async,
		Doc: "Begins a matrix product of an a of which every second element is 0 and left out, as Tcgen05Mma does: of four elements along k two are kept, of tf32 one of two, side by side in a row. e says which, four bits for each group: the places of both, two bits each, the first one low (of tf32 4 for the first, 14 for the second). " +
			"Elements of 8 bits: the bits of row i from element k on are in row i of e, column k div 32, from bit k mod 32 on. Of 16 bits (32 bits): in row 8·h + 16·(i div 16) + i mod 8, column k div 32 (16), from bit 16·(i div 8 mod 2) + k mod 16 (2·(k mod 8)) on, where h is k div 16 (8) mod 2.",
		In:    []Port{{Name: "a", Accept: AcceptShared | AcceptTensorMemory, Doc: "[128, K/2]"}, {Name: "b", Accept: AcceptShared, Doc: "[K, N]"}, {Name: "d", Accept: AcceptTensorMemory, Doc: "[128, N]"}, {Name: "e", Accept: AcceptTensorMemory, Doc: "u32[128, C]"}},
		Attrs: []AttrSpec{{Name: "sum", Kind: AttrExprs, Doc: "[s]: where s is 0 the product replaces what d held; left out, it is added"}},
		Rules: []Rule{
			{Text: "a is [128, K/2], b is [K, N], d is [128, N].", Check: func(p *Program, in *Instr) *Violation {
				if a, _ := in.In[0].Var().Type.Dims(); len(a) == 2 && a[0] != TensorLanes {
					return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("a is %v", a)}
				}
				return checkTensorShapes(p, in)
			}},
			ruleTensorPlan("tcgen05.mma.sp: the types of Tcgen05Mma, along k twice as far in an instruction."),
			ruleSum,
			{Text: "e is u32[128, C] from an even column on, with C = K/32, of tf32 K/16.", Why: "An instruction reads one column of two, or both.", Check: func(p *Program, in *Instr) *Violation {
				t := in.In[3].Var().Type
				dims, _ := t.Dims()
				b, _ := in.In[1].Var().Type.Dims()
				if len(b) != 2 {
					return nil // reported above
				}
				want := b[0] / 32
				if in.In[0].Var().Type.Elem.Bits() == 32 {
					want = b[0] / 16
				}
				if t.Elem != dtype.U32 || !slices.Equal(dims, []int{TensorLanes, want}) || tensorColumn(p, in.In[3].Var())%2 != 0 {
					return &Violation{Pos: in.In[3].Pos, Msg: fmt.Sprintf("%s is %s, from column %d on", in.In[3].Var().Name, t, tensorColumn(p, in.In[3].Var())), Help: fmt.Sprintf("take tmem u32[128, %d] from an even column on", want)}
				}
				return nil
			}},
		},
		Since: "0.7", Source: ptxTcgen05 + ".mma.sp" + unseen, Example: "Tcgen05MmaSparse(sa, sb, d, marks, sum=[k])",
	},
	{
		Name: "Tcgen05Copy", Family: "tcgen05", Class: ClassMemory, Effects: ReadsShared | WritesShared | Async,
		Doc: "Begins to copy a tile of shared memory to tensor memory: row i of it to lane i; of 32 rows, row i to lanes i, i + 32, i + 64 and i + 96. It comes in the order of the products of the same thread, which may use what it copies behind it; others wait for a Tcgen05Commit. Shared memory that threads stored needs FenceProxyAsync and a barrier before.",
		In:  []Port{{Name: "src", Accept: AcceptShared, Doc: "[128, n] or [32, n]"}, {Name: "dst", Accept: AcceptTensorMemory, Doc: "[128, n]"}},
		Rules: []Rule{
			{Text: "Both have one element type and as many elements in a row, of whole units of 16 bytes; the tile has 128 or 32 rows.", Check: func(p *Program, in *Instr) *Violation {
				s, d := in.In[0].Var().Type, in.In[1].Var().Type
				from, _ := s.Dims()
				to, _ := d.Dims()
				if len(from) != 2 || len(to) != 2 || s.Elem != d.Elem || from[0] != TensorLanes && from[0] != LanesPerWarp || to[0] != TensorLanes || from[1] != to[1] || from[1]*s.Elem.Bits()%128 != 0 {
					return &Violation{Msg: fmt.Sprintf("%s is copied to %s", s, d)}
				}
				return nil
			}},
			{Text: "The tile lies as matrix instructions read it, with rows contiguous in units of 16 bytes; one of 32 rows is not swizzled.", Check: func(p *Program, in *Instr) *Violation {
				s := in.In[0].Var().Type
				dims, _ := s.Dims()
				if !s.HasLayout || len(dims) != 2 {
					return nil
				}
				c, err := s.Shared.Canonical(s.Elem.Bits())
				if err != nil || c.Major != layout.MajorK || dims[0] == LanesPerWarp && c.Width != 0 {
					return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is %s", in.In[0].Var().Name, s), Help: "lay 128 rows out like shared_row_major_swizzle does, 32 rows of 16 bytes as shared_row_major"}
				}
				return nil
			}},
		},
		Since: "0.6", Source: ptxTcgen05 + ".cp" + unseen, Example: "Tcgen05Copy(scales, ts)",
	},
	{
		Name: "Tcgen05Commit", Family: "tcgen05", Effects: ReadsShared | WritesShared | Async | Synchronizes,
		Doc:   "Arrives once at a barrier when the products that the same thread has begun since its last Tcgen05Commit are done: a thread that waits for the turn may use what they wrote, and write what they read. A GPU also waits for those before; programs that rely on it are refused by interpreter and simulator.",
		In:    barrierIn(),
		Attrs: []AttrSpec{{Name: "multicast", Kind: AttrExprs, Doc: "[mask]: the barriers at the same place of the blocks of the cluster whose bits are set; left out, the running block's"}},
		Rules: []Rule{ruleBarrier(0), ruleTurn(1), ruleMulticast},
		Since: "0.5", Source: ptxTcgen05 + ".commit" + unseen, Example: "Tcgen05Commit(empty, k)",
	},
	{
		Name: "Tcgen05Load", Family: "tcgen05", Class: ClassMemory, Effects: ReadsShared | Async,
		Doc:   "Begins to load a tensor from tensor memory into registers: thread i of a warpgroup gets row i, and of 64 rows what it holds of the sums of a product of warpgroups. The registers hold it behind a Tcgen05Wait.",
		In:    []Port{{Name: "tensor", Accept: AcceptTensorMemory}},
		Out:   []Port{{Name: "x", Accept: AcceptRegister}},
		Rules: []Rule{ruleRowsOfThreads(0, true)},
		Since: "0.5", Source: ptxTcgen05 + ".ld" + unseen, Example: "x = Tcgen05Load(part) : register f32[128, 32] spatial(128, 1).local(1, 32)",
	},
	{
		Name: "Tcgen05Store", Family: "tcgen05", Class: ClassMemory, Effects: WritesShared | Async,
		Doc:   "Begins to store registers to tensor memory, which the threads of a warpgroup hold as Tcgen05Load leaves them. It is there behind a Tcgen05Wait, for other threads and products behind a barrier as well.",
		In:    []Port{{Name: "tensor", Accept: AcceptTensorMemory}, {Name: "x", Accept: AcceptRegister}},
		Rules: []Rule{ruleRowsOfThreads(1, false)},
		Since: "0.5", Source: ptxTcgen05 + ".st" + unseen, Example: "Tcgen05Store(p, h)",
	},
	{
		Name: "Tcgen05Wait", Family: "tcgen05", Effects: Async | Synchronizes,
		Doc:   "Waits until the loads, or the stores, of tensor memory that the threads which run have begun are done.",
		Attrs: []AttrSpec{{Name: "for", Kind: AttrWord, Required: true, Words: []string{"load", "store"}, Doc: "load or store"}},
		Since: "0.5", Source: ptxTcgen05 + ".wait" + unseen, Example: "Tcgen05Wait(for=load)",
	},
}

var attrCtas = AttrSpec{Name: "ctas", Kind: AttrNumber, Doc: "1, or 2: two blocks of a cluster use their tensor memories together; left out, 1"}

// ruleCtas holds that a program's instructions of tensor memory agree.
var ruleCtas = Rule{Text: "ctas is 1 or 2, the same for all tensor memory and all its products; 2 in clusters of an even number of blocks.", Why: "The machine gives tensor memory to a block or to a pair.", Check: func(p *Program, in *Instr) *Violation {
	if bad := checkNumber(in, "ctas", 1, 2, 1); bad != nil {
		return bad
	}
	n := TensorBlocks(in)
	if n == 2 && p.ClusterSize()%2 != 0 {
		return &Violation{Pos: in.Attr("ctas").Pos, Msg: fmt.Sprintf("the program has clusters of %d blocks", p.ClusterSize()), Help: "write cluster=[2] behind warps="}
	}
	var first *Instr
	p.Body.Walk(func(s Stmt) bool {
		if x, ok := s.(*Instr); ok && first == nil && x.Op.Spec("ctas") != nil {
			first = x
		}
		return first == nil
	})
	if m := TensorBlocks(first); m != n {
		return &Violation{Msg: fmt.Sprintf("it is for %d, %s in line %d for %d", n, first.Op.Name, first.Pos.Line, m), Help: "write ctas=2 at all of them, or at none"}
	}
	return nil
}}

func checkTensorShapes(p *Program, in *Instr) *Violation {
	a, _ := in.In[0].Var().Type.Dims()
	b, _ := in.In[1].Var().Type.Dims()
	d, _ := in.In[2].Var().Type.Dims()
	if len(a) == 2 && TensorSparse(in) {
		a = []int{a[0], 2 * a[1]}
	}
	if TensorKeeps(in) {
		if len(a) != 2 || len(b) != 2 || len(d) != 2 || TensorBlocks(in) > 1 || a[0] != 32 && a[0] != 64 && a[0] != TensorLanes || a[0] < TensorLanes && !in.In[0].Var().Type.IsShared() || a[1] != b[0] || d[0] != TensorLanes || d[1] != b[1]*a[0]/TensorLanes {
			return &Violation{Msg: fmt.Sprintf("a is %v, b is %v, d is %v", a, b, d)}
		}
		return nil
	}
	if len(a) != 2 || len(b) != 2 || len(d) != 2 || a[0] != TensorLanes && (a[0] != HalfLanes || TensorBlocks(in) > 1) || d[0] != a[0] || a[1] != b[0] || b[1]*TensorBlocks(in) != d[1] {
		return &Violation{Msg: fmt.Sprintf("a is %v, b is %v, d is %v", a, b, d)}
	}
	return nil
}

// ruleTensorPlan is for products in tensor memory.
func ruleTensorPlan(why string) Rule {
	return Rule{Text: "An instruction multiplies these types, and reads these layouts.", Why: why, Check: func(p *Program, in *Instr) *Violation {
		for _, o := range in.In[:2] {
			if t := o.Var().Type; t.IsShared() && !t.HasLayout {
				return nil // reported where it is made
			}
		}
		d, _ := in.In[2].Var().Type.Dims()
		a, _ := in.In[0].Var().Type.Dims()
		if len(d) != 2 || len(a) != 2 {
			return nil
		}
		if _, err := PlanTensor(in); err != nil {
			return &Violation{Msg: err.Error(), Help: "lay shared operands out like shared_row_major_swizzle does"}
		}
		return nil
	}}
}

var ruleSum = Rule{Text: "sum, where it is given, is one expression.", Check: func(p *Program, in *Instr) *Violation {
	if a := in.Attr("sum"); a != nil && len(a.Exprs) != 1 {
		return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("sum has %d entries", len(a.Exprs)), Help: "write sum=[k] to begin anew at k = 0"}
	}
	return nil
}}

var ruleTopOfProgram = Rule{Text: "It stands in no loop, branch or thread group.", Why: "Every block takes and gives back once, with its first warp.", Check: func(p *Program, in *Instr) *Violation {
	if b, _ := blockOf(p.Body, in); b != p.Body {
		return &Violation{Msg: in.Op.Name + " is in a loop, branch or group", Help: "move it to the top level of the program"}
	}
	return nil
}}

// ruleRowsOfThreads is for loads and stores: result or operand i of registers.
func ruleRowsOfThreads(i int, out bool) Rule {
	return Rule{Text: "The registers have the tensor's type and shape: spatial(128, 1).local(1, n), of 64 rows spatial(4, 1).column_local(2, m).spatial(8, 4).local(1, k) with two columns in k elements; there are 1 to 128 columns, of 64 rows 8 to 256, a power of two.", Why: "A warp reaches the 32 lanes of its place in the warpgroup.", Check: func(p *Program, in *Instr) *Violation {
		t := in.In[0].Var().Type
		var r Type
		var pos diag.Pos
		if out {
			r, pos = in.Out[i].Type, in.typePos(i)
		} else {
			r, pos = in.In[i].Var().Type, in.In[i].Pos
		}
		dims, _ := t.Dims()
		if !r.HasLayout || len(dims) != 2 {
			return nil
		}
		want, ok := TensorRegisters(t.Elem, dims)
		if c := ColumnsOf(t); !ok || r.Elem != t.Elem || !r.Layout.Equal(want) || c*dims[0] > 128*TensorLanes || bits.OnesCount(uint(c)) != 1 {
			help := "take 8 to 256 columns"
			if ok {
				help = fmt.Sprintf("use %s", RegisterOf(t.Elem, want))
			}
			return &Violation{Pos: pos, Msg: fmt.Sprintf("%s and %s", t, r), Help: help}
		}
		return nil
	}}
}
